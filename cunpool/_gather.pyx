"""The loops of unpooling's gradient: each pooled cell takes what lies at its place.

Valid input is assumed, indices apart.
"""
cimport numpy as cnp

from cunpool._common cimport *
from cunpool._decode cimport *
from cunpool._places cimport *
from cunpool._tasks cimport *

cnp.import_array()

cdef enum:
    PART = DECODED          # pooled cells that are taken together
    PICK_WIDTH = 24         # shorter rows are gathered cell by cell,
    PICK_BYTES = 1 << 25    # and smaller arrays too: in the caches that is faster; beyond, reading rows through is


cdef inlined take(const Job *job, const char *from_plane, bint even, Py_ssize_t flat, char *values,
                  Py_ssize_t value_step, const char *indices, Py_ssize_t index_step, Py_ssize_t count, uint64_t size,
                  item *full, index *index_type, Py_ssize_t *strangers) noexcept nogil:
    """Fill `count` values from where their indices say; counts the indices that are not from 0 on for `size` cells."""
    cdef Py_ssize_t i, outside = 0
    cdef uint64_t cell
    for i in range(count):
        cell = <uint64_t> <int64_t> (<const index *> (indices + i * index_step))[0]
        if unlikely(cell >= size):
            outside += 1
        else:
            (<item *> (values + i * value_step))[0] = (
                <const item *> (from_plane + offset_of(job, even, flat, <Py_ssize_t> cell)))[0]
    strangers[0] += outside


cdef Py_ssize_t take_row(const Job *job, const char *from_plane, char *values, Py_ssize_t value_step,
                         const char *indices, Py_ssize_t index_step, Py_ssize_t count, uint64_t size, item *full,
                         index *index_type) noexcept nogil:
    """`take`, compiled apart for contiguous arrays, and for even planes."""
    cdef Py_ssize_t outside = 0
    if not job.flat:
        take(job, from_plane, False, 0, values, value_step, indices, index_step, count, size, full, index_type,
             &outside)
    elif job.flat != sizeof(item) or value_step != sizeof(item) or index_step != sizeof(index):
        take(job, from_plane, True, job.flat, values, value_step, indices, index_step, count, size, full, index_type,
             &outside)
    else:
        take(job, from_plane, True, sizeof(item), values, sizeof(item), indices, sizeof(index), count, size, full,
             index_type, &outside)
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


cdef void take_there(const item *from_plane, item *values, const index4 *places, Py_ssize_t count) noexcept nogil:
    """`take` where all places are known to lie in the plane."""
    cdef Py_ssize_t i
    for i in range(count):
        values[i] = from_plane[places[i]]


ctypedef Py_ssize_t (*TakeRow)(const Job *, const char *, char *, Py_ssize_t, const char *, Py_ssize_t, Py_ssize_t,
                               uint64_t, void *, void *) noexcept nogil
ctypedef void (*TakeAcross)(const char *, Py_ssize_t, char *, const char *, Py_ssize_t, uint64_t,
                            Py_ssize_t *) noexcept nogil
ctypedef void (*TakeThere)(const char *, char *, const index4 *, Py_ssize_t) noexcept nogil


cdef struct Take:
    # The loops for items of one size. The first two by whether places have 64 bits.
    TakeRow row[2]
    TakeAcross across[2]
    TakeThere there
    Py_ssize_t item_size


cdef Take taking(item *_) noexcept nogil:
    cdef Take take
    take.row = [<TakeRow> take_row[item, index4], <TakeRow> take_row[item, index8]]
    take.across = [<TakeAcross> take_across[item, index4], <TakeAcross> take_across[item, index8]]
    take.there = <TakeThere> take_there[item]
    take.item_size = sizeof(item)
    return take


cdef Py_ssize_t gather_part(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w,
                            Py_ssize_t count) noexcept nogil:
    """Some neighbours of a pooled row, in one plane or in all lanes."""
    cdef const Take *take = <const Take *> job.moves
    cdef const char *from_plane = plane_of(&job.full, job.channels, plane)
    cdef char *values = cell_of(&job.pooled, job.channels, plane, d, h, w)
    cdef const char *indices = cell_of(&job.indices, job.channels, plane, d, h, w)
    cdef Py_ssize_t size = cells_of(job.g.full), i, outside = 0
    if job.lanes == 1:
        return take.row[job.wide](job, from_plane, values, job.pooled.axis[2], indices, job.indices.axis[2], count,
                                  size, NULL, NULL)
    for i in range(count):
        take.across[job.wide](from_plane, job.flat, values + i * job.pooled.axis[2],
                              indices + i * job.indices.axis[2], job.lanes, size, &outside)
    return outside


cdef Py_ssize_t gather_codes(const Job *job, const Block *block, Py_ssize_t lane) noexcept nogil:
    """A block of windows by their codes, of some planes or of lanes from one on."""
    cdef index8[DECODED] places  # or as many of half the size
    cdef const Take *take = <const Take *> job.moves
    cdef Py_ssize_t plane = block.at[PLANES] * job.lanes, width = block.count[WIDTH], place_size = 8 if job.wide else 4
    cdef Py_ssize_t step = step_of(&job.pooled, block), size = block.count[PLANES] * cells_of(job.g.full), outside = 0
    cdef Py_ssize_t row, w
    cdef const char *from_plane = plane_of(&job.full, job.channels, plane)
    cdef char *values = cell_of(&job.pooled, job.channels, plane, block.at[1], block.at[2], block.at[WIDTH])
    cdef const char *indices = cell_of(&job.indices, job.channels, plane, block.at[1], block.at[2], block.at[WIDTH])
    cdef bint all_there
    from_plane += lane * take.item_size
    values += lane * take.item_size
    decode(job, indices + lane * job.code_size, block, <char *> places, &all_there)
    if job.lanes > 1:
        for w in range(width):
            take.across[job.wide](from_plane, job.flat, values + w * job.pooled.axis[2],
                                  <const char *> places + w * block.lanes * place_size, block.lanes, size, &outside)
    elif all_there and job.flat == take.item_size and step == take.item_size:
        take.there(from_plane, values, <const index4 *> places, codes_in(block))
    elif step:
        outside = take.row[job.wide](job, from_plane, values, step, <const char *> places, place_size, codes_in(block),
                                     size, NULL, NULL)
    else:
        for row in range(rows_in(block)):
            outside += take.row[job.wide](job, from_plane, values + row_of(&job.pooled, block, row),
                                          job.pooled.axis[2], <const char *> places + row * width * place_size,
                                          place_size, width, size, NULL, NULL)
    return outside


cdef Py_ssize_t gather_block(const Job *job, Block *block) noexcept nogil:
    """`gather_codes`, of so many lanes at a time as are decoded together."""
    cdef Py_ssize_t part, outside = 0
    for part in range((job.lanes + DECODED - 1) // DECODED):
        block.lanes = min(job.lanes - part * DECODED, <Py_ssize_t> DECODED)
        outside += gather_codes(job, block, part * DECODED)
    return outside


cdef void gather_blocks(const Job *job, Py_ssize_t task, Found *found) noexcept nogil:
    """`gather` by window codes, some of which are decoded together."""
    cdef const Codes *codes = <const Codes *> job.codes
    cdef Py_ssize_t blocks = blocks_of(codes), first = blocks * task // job.tasks
    cdef Block block
    find_block(job, first, &block)
    for _ in range(first, blocks * (task + 1) // job.tasks):
        found.wrong += gather_block(job, &block)
        next_block(job, &block)


cdef void gather(const Job *job, Py_ssize_t task, Found *found, void *_, void *__) noexcept nogil:
    """One task: some parts of pooled rows. Where rows follow each other in memory, planes are taken as one row."""
    cdef Py_ssize_t width = job.g.pooled[2], rows = job.g.pooled[0] * job.g.pooled[1], height = job.g.pooled[1]
    cdef Py_ssize_t groups = job.batch * job.channels // job.lanes, parts, units, unit, row, w
    cdef Py_ssize_t value_step = flat_stride(&job.pooled, job.g.pooled)
    cdef Py_ssize_t index_step = flat_stride(&job.indices, job.g.pooled)
    if job.code_size:
        gather_blocks(job, task, found)
        return
    # It is 0 where rows do not follow each other, and so is a row's own step where one index is repeated all along.
    if (job.lanes == 1 and value_step and index_step and value_step == job.pooled.axis[2]
            and index_step == job.indices.axis[2]):
        width *= rows
        rows = height = 1
    parts = (width + PART - 1) // PART
    units = groups * rows * parts
    for unit in range(units * task // job.tasks, units * (task + 1) // job.tasks):
        row = unit // parts
        w = unit % parts * PART
        found.wrong += gather_part(job, row // rows * job.lanes, row % rows // height, row % height, w,
                                   min(width - w, <Py_ssize_t> PART))


cdef inlined pick_rows(int rows, bint further, const item **source, const uint32_t *first,
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
                cell = <uint32_t> indices[i] - row_first[row] - 2 * <uint32_t> i
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
                      const char *indices, Py_ssize_t *hits, item *full, index *index_type) noexcept nogil:
    """Some neighbours of a pooled row, whose places are at `indices`."""
    cdef const item *source[4]
    cdef uint32_t first[4]
    cdef const Geometry *g = &job.g
    cdef const item *from_plane = <const item *> plane_of(&job.full, job.channels, plane)
    cdef item *values = <item *> cell_of(&job.pooled, job.channels, plane, d, h, w)
    cdef Py_ssize_t step = g.kernel[1] * g.full[2] * <Py_ssize_t> sizeof(item), ahead = 0, cell
    cdef int k, rows = <int> (g.kernel[0] * g.kernel[1])
    for k in range(rows):
        cell = (((d * g.kernel[0] + k // g.kernel[1]) * g.full[1] + h * g.kernel[1] + k % g.kernel[1]) * g.full[2]
                + 2 * w)
        first[k] = <uint32_t> cell
        source[k] = from_plane + cell
    if count == g.pooled[2]:
        ahead = whole_steps(step)
    if rows == 1:
        pick_rows(1, False, source, first, ahead, values, <const index *> indices, count, hits)
    else:
        pick_rows(2, False, source, first, ahead, values, <const index *> indices, count, hits)
    if rows == 4:
        pick_rows(2, True, source + 2, first + 2, ahead, values, <const index *> indices, count, hits)


cdef void pick(const Job *job, Py_ssize_t task, Found *found, item *full, index *index_type) noexcept nogil:
    """One task: some parts of pooled rows; those with a stray among their indices are gathered."""
    cdef Py_ssize_t width = job.g.pooled[2], rows = job.g.pooled[0] * job.g.pooled[1], height = job.g.pooled[1]
    cdef Py_ssize_t parts = (width + PART - 1) // PART, units = job.batch * job.channels * rows * parts
    cdef Py_ssize_t unit, plane, row, w, count, hits
    cdef index4[PART] places
    cdef const char *indices
    cdef Block block
    cdef bint all_there
    for unit in range(units * task // job.tasks, units * (task + 1) // job.tasks):
        row = unit // parts
        plane = row // rows
        row %= rows
        w = unit % parts * PART
        count = min(width - w, <Py_ssize_t> PART)
        indices = cell_of(&job.indices, job.channels, plane, row // height, row % height, w)
        if job.code_size:
            row_block(job, plane, row // height, row % height, w, count, &block)
            decode(job, indices, &block, <char *> places, &all_there)
            indices = <const char *> places
        hits = 0
        pick_part(job, plane, row // height, row % height, w, count, indices, &hits, full, index_type)
        if hits != count:
            found.strays += 1
            if job.code_size:
                found.wrong += gather_block(job, &block)
            else:
                found.wrong += gather_part(job, plane, row // height, row % height, w, count)


cdef Take[5] TAKE          # by the logarithm of the item's size
TAKE = [taking(<item1 *> NULL), taking(<item2 *> NULL), taking(<item4 *> NULL), taking(<item8 *> NULL),
        taking(<item16 *> NULL)]
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
    cdef Codes decoding
    cdef Kernel kernel = gather
    cdef bint picking
    prepare(&job, sizes, pooled, indices, full, spatial, codes)
    if cnp.PyArray_SIZE(pooled) == 0:
        return GATHERED
    job.moves = &TAKE[kind]
    job.wide = index_size == 8
    if codes:
        job.codes = &decoding
        expect_codes(&job, &decoding)
        job.wide = decoding.far
    # Codes are picked by places of 32 bits, which only windows that reach far have not.
    picking = (not (codes and job.wide) and met("the size of a real number", 2 <= item_size <= 8)
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
