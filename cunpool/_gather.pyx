"""The loops of unpooling's gradient: each pooled cell takes what lies at its place.

Valid input is assumed, indices apart.
"""
cimport numpy as cnp

from cunpool._common cimport *
from cunpool._places cimport *
from cunpool._tasks cimport *

cnp.import_array()

cdef enum:
    PART = 1024             # pooled cells that are taken together
    PICK_WIDTH = 24         # shorter rows are gathered cell by cell,
    PICK_BYTES = 1 << 25    # and smaller arrays too: in the caches that is faster; beyond, reading rows through is
    GIL_BYTES = 1 << 14     # releasing the GIL costs more than moving this


cdef inlined take(const Job *job, const char *from_plane, Py_ssize_t flat, char *values, Py_ssize_t value_step,
                  const char *indices, Py_ssize_t index_step, Py_ssize_t count, uint64_t size, item *full,
                  index *index_type, Py_ssize_t *strangers) noexcept nogil:
    """Fill `count` values from where their indices say; counts the indices that are not from 0 on for `size` cells."""
    cdef Py_ssize_t i, outside = 0
    cdef uint64_t cell
    for i in range(count):
        cell = <uint64_t> <int64_t> (<const index *> (indices + i * index_step))[0]
        if unlikely(cell >= size):
            outside += 1
        else:
            (<item *> (values + i * value_step))[0] = (
                <const item *> (from_plane + offset_of(job, flat, <Py_ssize_t> cell)))[0]
    strangers[0] += outside


cdef Py_ssize_t take_row(const Job *job, const char *from_plane, char *values, Py_ssize_t value_step,
                         const char *indices, Py_ssize_t index_step, Py_ssize_t count, item *full,
                         index *index_type) noexcept nogil:
    """`take`, compiled apart for contiguous arrays."""
    cdef uint64_t size = cells_of(job.g.full)
    cdef Py_ssize_t outside = 0
    if job.flat == sizeof(item) and value_step == sizeof(item) and index_step == sizeof(index):
        take(job, from_plane, sizeof(item), values, sizeof(item), indices, sizeof(index), count, size, full, index_type,
             &outside)
    else:
        take(job, from_plane, job.flat, values, value_step, indices, index_step, count, size, full, index_type,
             &outside)
    return outside


cdef cloned take_across(const char *from_plane, Py_ssize_t flat, item *values, const index *indices, Py_ssize_t count,
                        uint64_t size, Py_ssize_t *outside) noexcept nogil:
    """`take` for one cell of each channel, where these are neighbours."""
    cdef Py_ssize_t i
    cdef uint64_t cell
    for i in range(count):
        cell = <uint64_t> <int64_t> indices[i]
        if cell < size:
            values[i] = (<const item *> (from_plane + i * <Py_ssize_t> sizeof(item) + <Py_ssize_t> cell * flat))[0]
        else:
            outside[0] += 1


cdef Py_ssize_t gather_part(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w,
                            Py_ssize_t rows, Py_ssize_t count, item *full, index *index_type) noexcept nogil:
    """Some neighbours of a pooled row, in one plane or in all lanes; with codes, of some rows that are neighbours."""
    cdef index8[PART] cells
    cdef const char *from_plane = plane_of(&job.full, job.channels, plane)
    cdef char *values = (plane_of(&job.pooled, job.channels, plane) + d * job.pooled.axis[0] + h * job.pooled.axis[1]
                         + w * job.pooled.axis[2])
    cdef const char *indices = (plane_of(&job.indices, job.channels, plane) + d * job.indices.axis[0]
                                + h * job.indices.axis[1] + w * job.indices.axis[2])
    cdef Py_ssize_t i, part, first, some, outside = 0
    if job.lanes == 1:
        if not job.code_size:
            return take_row(job, from_plane, values, job.pooled.axis[2], indices, job.indices.axis[2], count, full,
                            index_type)
        must(rows * count <= PART)
        decode_rows(job, indices, d, h, w, rows, count, cells)
        return take_row(job, from_plane, values, flat_stride(&job.pooled, job.g.pooled) if rows > 1
                        else job.pooled.axis[2], <const char *> cells, sizeof(index8), rows * count, full,
                        <index8 *> NULL)
    for i in range(count):
        if not job.code_size:
            take_across(from_plane, job.flat, <item *> values, <const index *> indices, job.lanes, cells_of(job.g.full),
                        &outside)
        else:
            for part in range((job.lanes + PART - 1) // PART):
                first = part * PART
                some = min(job.lanes - first, <Py_ssize_t> PART)
                decode(job, indices + first * job.code_size, job.code_size, d, h, w + i, True, some, cells)
                take_across(from_plane + first * <Py_ssize_t> sizeof(item), job.flat, <item *> values + first,
                            <const index8 *> cells, some, cells_of(job.g.full), &outside)
        values += job.pooled.axis[2]
        indices += job.indices.axis[2]
    return outside


cdef void gather(const Job *job, Py_ssize_t task, Found *found, item *full, index *index_type) noexcept nogil:
    """One task: some parts of pooled rows.

    Where rows follow each other in memory, planes are taken as one row; with codes, some short rows go together.
    """
    cdef Py_ssize_t width = job.g.pooled[2], depth = job.g.pooled[0], height = job.g.pooled[1], together = 1
    cdef Py_ssize_t groups = job.batch * job.channels // job.lanes, parts, blocks, units, unit, block, h, w
    if job.lanes == 1 and flat_stride(&job.pooled, job.g.pooled):
        if job.code_size:
            together = clamp(PART // width, 1, height)
        elif (flat_stride(&job.pooled, job.g.pooled) == job.pooled.axis[2]
                and flat_stride(&job.indices, job.g.pooled) == job.indices.axis[2]):
            width *= depth * height
            depth = height = 1
    parts = (width + PART - 1) // PART
    blocks = (height + together - 1) // together
    units = groups * depth * blocks * parts
    for unit in range(units * task // job.tasks, units * (task + 1) // job.tasks):
        block = unit // parts % (depth * blocks)
        h = block % blocks * together
        w = unit % parts * PART
        found.wrong += gather_part(job, unit // parts // (depth * blocks) * job.lanes, block // blocks, h, w,
                                   min(height - h, together), min(width - w, <Py_ssize_t> PART), full, index_type)


cdef inlined pick_rows(int rows, bint further, bint codes, const item **source, const uint32_t *first,
                       Py_ssize_t ahead, item *values, const index *indices, Py_ssize_t count,
                       Py_ssize_t *hits) noexcept nogil:
    """Values of windows of 2 side by side, as far as they lie in these 1 or 2 `rows`; of `further` rows, only these.

    The counterpart of unpooling's `select_rows`. Adds the number of indices that name a cell of their windows there.
    What lies as many bytes `ahead` is fetched, if that is not 0.
    """
    # Copies, because the compiler has to fear that writing results changes these.
    cdef const item *row_source[2]
    cdef uint32_t row_first[2]
    cdef item value, left, right
    cdef index seen = 0
    cdef int32_t found = 0
    cdef uint32_t cell
    cdef Py_ssize_t begin = 0, some, i
    cdef int row
    for row in range(rows):
        row_source[row] = source[row]
        row_first[row] = first[row]
    while begin < count:
        some = min(count - begin, <Py_ssize_t> PIECE)
        if ahead:
            fetch(<const char *> (row_source[0] + 2 * rows * begin) + ahead, 2 * rows * some * sizeof(item))
        for i in range(begin, begin + some):
            seen |= indices[i]
            value = values[i] if further else row_source[0][2 * i]
            for row in range(rows):
                cell = <uint32_t> indices[i] - row_first[row] - (0 if codes else 2 * <uint32_t> i)
                # Loaded in any case, so that there is no branch.
                left = row_source[row][2 * i]
                right = row_source[row][2 * i + 1]
                value = left if cell == 0 else value
                value = right if cell == 1 else value
                found += cell < 2
            values[i] = value
        begin += some
    hits[0] += found
    if seen < 0 or <int64_t> seen > 0x7FFFFFFF:
        hits[0] = -count - 1


cdef cloned pick_part(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w, Py_ssize_t count,
                      Py_ssize_t *hits, item *full, index *index_type) noexcept nogil:
    """Some neighbours of a pooled row."""
    cdef index4 wide[PART]
    cdef const item *source[4]
    cdef uint32_t first[4]
    cdef const Geometry *g = &job.g
    cdef const item *from_plane = <const item *> plane_of(&job.full, job.channels, plane)
    cdef item *values = <item *> (plane_of(&job.pooled, job.channels, plane) + d * job.pooled.axis[0]
                                  + h * job.pooled.axis[1]) + w
    cdef const char *indices = (plane_of(&job.indices, job.channels, plane) + d * job.indices.axis[0]
                                + h * job.indices.axis[1])
    cdef Py_ssize_t step = g.kernel[1] * g.full[2] * <Py_ssize_t> sizeof(item), ahead = 0, cell
    cdef bint beyond = False  # such a code hits nothing either
    cdef int k, rows = <int> (g.kernel[0] * g.kernel[1])
    for k in range(rows):
        cell = (((d * g.kernel[0] + k // g.kernel[1]) * g.full[1] + h * g.kernel[1] + k % g.kernel[1]) * g.full[2]
                + 2 * w)
        first[k] = 2 * k if job.code_size else <uint32_t> cell
        source[k] = from_plane + cell
    if count == g.pooled[2]:
        ahead = whole_steps(step)
    if index is index4:
        if job.code_size:
            widen(job, <const item1 *> indices + w, count, wide, &beyond)
            if rows == 1:
                pick_rows(1, False, True, source, first, ahead, values, wide, count, hits)
            else:
                pick_rows(2, False, True, source, first, ahead, values, wide, count, hits)
            if rows == 4:
                pick_rows(2, True, True, source + 2, first + 2, ahead, values, wide, count, hits)
    if not job.code_size:
        if rows == 1:
            pick_rows(1, False, False, source, first, ahead, values, <const index *> indices + w, count, hits)
        else:
            pick_rows(2, False, False, source, first, ahead, values, <const index *> indices + w, count, hits)
        if rows == 4:
            pick_rows(2, True, False, source + 2, first + 2, ahead, values, <const index *> indices + w, count, hits)


cdef void pick(const Job *job, Py_ssize_t task, Found *found, item *full, index *index_type) noexcept nogil:
    """One task: some parts of pooled rows; those with a stray among their indices are gathered."""
    cdef Py_ssize_t width = job.g.pooled[2], rows = job.g.pooled[0] * job.g.pooled[1], height = job.g.pooled[1]
    cdef Py_ssize_t parts = (width + PART - 1) // PART, units = job.batch * job.channels * rows * parts
    cdef Py_ssize_t unit, plane, row, w, count, hits
    for unit in range(units * task // job.tasks, units * (task + 1) // job.tasks):
        row = unit // parts
        plane = row // rows
        row %= rows
        w = unit % parts * PART
        count = min(width - w, <Py_ssize_t> PART)
        hits = 0
        pick_part(job, plane, row // height, row % height, w, count, &hits, full, index_type)
        if hits != count:
            found.strays += 1
            if job.code_size:  # the code's own type is not `index`
                found.wrong += gather_part(job, plane, row // height, row % height, w, 1, count, full, <index8 *> NULL)
            else:
                found.wrong += gather_part(job, plane, row // height, row % height, w, 1, count, full, index_type)


cdef Kernel[5][2] GATHER   # by the logarithm of the item's size, and by whether an index has 8 bytes
GATHER[0] = [<Kernel> gather[item1, index4], <Kernel> gather[item1, index8]]
GATHER[1] = [<Kernel> gather[item2, index4], <Kernel> gather[item2, index8]]
GATHER[2] = [<Kernel> gather[item4, index4], <Kernel> gather[item4, index8]]
GATHER[3] = [<Kernel> gather[item8, index4], <Kernel> gather[item8, index8]]  # unreached: Cython's own lines
GATHER[4] = [<Kernel> gather[item16, index4], <Kernel> gather[item16, index8]]
cdef Kernel[3][2] PICK     # of numbers of 2, 4 and 8 bytes; window codes go with the first
PICK[0] = [<Kernel> pick[item2, index4], <Kernel> pick[item2, index8]]
PICK[1] = [<Kernel> pick[item4, index4], <Kernel> pick[item4, index8]]
PICK[2] = [<Kernel> pick[item8, index4], <Kernel> pick[item8, index8]]

# The ways that a call can take, for the tests: what `unpool_backward` returns is a sum of these.
GATHERED, PICKED, STRAYED = 1, 2, 4


def unpool_backward(cnp.ndarray full not None, cnp.ndarray indices not None, cnp.ndarray pooled not None, tuple sizes,
                    int spatial, int kind, bint codes, int threads):
    """Fill `pooled`. Returns 0 if an index names no place, else the ways taken."""
    cdef Job job
    cdef Found found
    cdef Py_ssize_t item_size = cnp.PyArray_ITEMSIZE(full), index_size = cnp.PyArray_ITEMSIZE(indices)
    cdef Kernel kernel = GATHER[kind][codes or index_size == 8]
    cdef bint picking
    prepare(&job, sizes, pooled, indices, full, spatial, codes)
    if cnp.PyArray_SIZE(pooled) == 0:
        return GATHERED
    picking = (met("the size of a real number", 2 <= item_size <= 8)
               and met("no codes of two bytes", job.code_size < 2)
               and met("windows side by side", side_by_side(&job, item_size, index_size))
               and met("windows of two", of_two(&job.g)) and met("rows worth picking", job.g.pooled[2] >= PICK_WIDTH)
               and met("arrays worth reading through", cnp.PyArray_SIZE(full) * item_size >= PICK_BYTES))
    if picking:
        kernel = PICK[kind - 1][not codes and index_size == 8]
    job.tasks = 1 if threads == 1 else min(8 * threads, cnp.PyArray_SIZE(pooled))
    if max(cnp.PyArray_SIZE(full), cnp.PyArray_SIZE(pooled)) * item_size <= GIL_BYTES:
        found = run(kernel, &job, threads)
    else:
        with nogil:
            found = run(kernel, &job, threads)
    if found.wrong:
        return 0
    return (PICKED if picking else GATHERED) + STRAYED * (found.strays > 0)


def conditions():
    """How often each condition of a way did not hold, and did: counted by a checked build alone."""
    return conditions_met()
