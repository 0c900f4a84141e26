# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Unpooling's loops. They move bits, so the element type is its size alone. Valid input is assumed, indices apart.

There are two ways. Scattering clears the output and puts each value where its index says. Selecting, for windows of 2
next to each other, goes through the output instead: each cell takes its window's value if the index names that cell.
That takes no clearing and vectorises, but an index that names no cell of its own window is a stray, and then the plane is
scattered after all.
"""
from libc.string cimport memset
cimport numpy as cnp

from cunpool._common cimport *

cnp.import_array()

cdef enum:
    CHUNK = 4096            # pooled cells of a 1d plane whose windows are taken for one band
    GIL_BYTES = 1 << 14     # releasing the GIL costs more than moving this
    SELECT_WIDTH = 40       # shorter rows are scattered faster
    SELECT_CHUNK = 256      # windows of a row that are selected together
    STREAM = 1 << 24        # bytes of output that would not stay in the caches anyway
    CLEAR_SMALL = 1 << 10   # so many bytes of small planes are cleared at once, while they are in the first cache;
    CLEAR_LARGE = 1 << 22   # and so many of a large output: then the C library clears without reading first
    LANES = 8               # with fewer channels in neighbouring places, each plane goes by itself

# What `unpool` returns: what it met, and the way it took.
BAD_INDEX, SCATTERED, SELECTED, STRAYED = range(4)


cdef inline Py_ssize_t offset_of(const Job *job, Py_ssize_t flat, Py_ssize_t cell) noexcept nogil:
    """Bytes from a full plane's start to `cell`, counted in raster order."""
    if flat:
        return cell * flat
    cdef Py_ssize_t width = job.g.full[2], area = job.g.full[1] * width
    return (cell // area * job.full.axis[0] + cell % area // width * job.full.axis[1]
            + cell % width * job.full.axis[2])


cdef void clear(const Job *job, char *out, Py_ssize_t low, Py_ssize_t high, Py_ssize_t size) noexcept nogil:
    """Zero the cells `low` to `high` of a full plane, or of all lanes: `size` bytes each."""
    cdef Py_ssize_t cell
    if low >= high:
        return
    if job.flat == size:
        memset(out + low * size, 0, (high - low) * size)
    else:
        for cell in range(low, high):
            memset(out + offset_of(job, job.flat, cell), 0, size)


cdef inline Py_ssize_t put(const Job *job, char *out, Py_ssize_t out_step, Py_ssize_t flat, const char *values,
                           Py_ssize_t value_step, const char *indices, Py_ssize_t index_step, Py_ssize_t count,
                           uint64_t low, uint64_t span, uint64_t band, uint64_t band_span, item *full,
                           index *index_type) noexcept nogil:
    """Put `count` values where their indices say, as far as that is from `low` on for `span` cells.

    Value number i belongs to the plane that starts `i * out_step` bytes after `out`. Returns how many indices were not
    from `band` on for `band_span` cells. One unsigned comparison, in 64 bits whatever the index type, is both bounds
    at once.
    """
    cdef Py_ssize_t i, outside = 0
    cdef uint64_t cell
    cdef bint inside
    cdef item elsewhere
    cdef item *target
    if low <= band and band + band_span <= low + span:
        low = band
        span = band_span
    if low == band and span == band_span:
        for i in range(count):
            cell = <uint64_t> <int64_t> (<const index *> (indices + i * index_step))[0]
            if cell - low < span:
                (<item *> (out + i * out_step + offset_of(job, flat, <Py_ssize_t> cell)))[0] = (
                    <const item *> (values + i * value_step))[0]
            else:
                outside += 1
        return outside
    for i in range(count):
        cell = <uint64_t> <int64_t> (<const index *> (indices + i * index_step))[0]
        # Without a branch: next to where a plane is split, nobody can predict on which side an index lies.
        inside = cell - low < span
        target = <item *> (out + i * out_step + offset_of(job, flat, <Py_ssize_t> (cell if inside else low)))
        target = target if inside else &elsewhere
        target[0] = (<const item *> (values + i * value_step))[0]
        outside += cell - band >= band_span
    return outside


cdef Py_ssize_t put_row(const Job *job, char *out, const char *values, Py_ssize_t value_step, const char *indices,
                        Py_ssize_t index_step, Py_ssize_t count, Py_ssize_t low, Py_ssize_t high, Py_ssize_t band,
                        Py_ssize_t band_end, item *full, index *index_type) noexcept nogil:
    """`put` for neighbours in a plane, compiled apart for contiguous ones and for whole planes of them."""
    if job.flat == sizeof(item) and value_step == sizeof(item) and index_step == sizeof(index):
        if low == 0 and band == 0 and high == band_end:
            return put(job, out, 0, sizeof(item), values, sizeof(item), indices, sizeof(index), count, 0, high, 0,
                       high, full, index_type)
        return put(job, out, 0, sizeof(item), values, sizeof(item), indices, sizeof(index), count, low, high - low,
                   band, band_end - band, full, index_type)
    return put(job, out, 0, job.flat, values, value_step, indices, index_step, count, low, high - low, band,
               band_end - band, full, index_type)


cdef Py_ssize_t put_lanes(const Job *job, char *out, const char *values, const char *indices, Py_ssize_t low,
                          Py_ssize_t high, Py_ssize_t band, Py_ssize_t band_end, item *full,
                          index *index_type) noexcept nogil:
    """`put` for one cell of each channel."""
    return put(job, out, sizeof(item), job.flat, values, sizeof(item), indices, sizeof(index), job.lanes, low,
               high - low, band, band_end - band, full, index_type)


cdef void band_of(const Geometry *g, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w, Py_ssize_t w_end,
                  Py_ssize_t *band) noexcept nogil:
    """The cells, in raster order, between which all windows of a pooled row lie; in 1d, of a part of the row."""
    cdef Py_ssize_t first[3]
    cdef Py_ssize_t last[3]
    cdef Py_ssize_t *low = [d, h, w]
    cdef Py_ssize_t *high = [d, h, w_end - 1]
    cdef int axis
    for axis in range(3):
        first[axis] = clamp(low[axis] * g.stride[axis] - g.padding[axis], 0, g.full[axis])
        last[axis] = clamp(high[axis] * g.stride[axis] - g.padding[axis] + (g.kernel[axis] - 1) * g.dilation[axis] + 1,
                           first[axis], g.full[axis])
    if g.full[0] * g.full[1] == 1 and g.pooled[0] * g.pooled[1] == 1:
        band[0] = first[2]
        band[1] = last[2]
    else:
        band[0] = min((first[0] * g.full[1] + first[1]) * g.full[2], cells_of(g.full))
        band[1] = band[0]
        if last[0] > first[0] and last[1] > first[1]:
            band[1] = ((last[0] - 1) * g.full[1] + last[1]) * g.full[2]


cdef Py_ssize_t scatter_plane(const Job *job, Py_ssize_t plane, Py_ssize_t low, Py_ssize_t high, bint clearing,
                              item *full, index *index_type) noexcept nogil:
    """Clear the cells from `low` to `high` of a plane, or of all lanes, and put there, in raster order, what belongs there.

    Where the job is banded, only the rows whose windows reach these cells are read. Then the count that comes back is of
    the indices read that lie outside the rows of their own windows: if any task meets one, other tasks may have missed
    it, and the job has to run again without bands. Else it is of the indices outside the plane.
    """
    cdef const Geometry *g = &job.g
    cdef char *out = plane_of(&job.full, job.channels, plane)
    cdef const char *values = plane_of(&job.pooled, job.channels, plane)
    cdef const char *indices = plane_of(&job.indices, job.channels, plane)
    cdef const char *row_values
    cdef const char *row_indices
    cdef Py_ssize_t width = g.pooled[2], height = g.pooled[1], size = job.lanes * sizeof(item)
    cdef Py_ssize_t value_step = flat_stride(&job.pooled, g.pooled), index_step = flat_stride(&job.indices, g.pooled)
    cdef Py_ssize_t d, h, w, i, part, count, outside = 0
    cdef Py_ssize_t band[2]
    band[0] = 0
    band[1] = cells_of(g.full)
    if clearing:
        clear(job, out, low, high, size)
    if not job.banded and job.lanes == 1 and value_step and index_step:
        return put_row(job, out, values, value_step, indices, index_step, cells_of(g.pooled), low, high, 0, band[1], full,
                       index_type)
    for d in range(g.pooled[0]):
        for h in range(height):
            for part in range((width + CHUNK - 1) // CHUNK):
                w = part * CHUNK
                count = min(width - w, <Py_ssize_t> CHUNK)
                if job.banded:
                    band_of(g, d, h, w, w + count, band)
                    # An empty band is read as well, by the task that it lies in, for it makes every index a stray.
                    if (band[1] <= low and band[0] < low) or (band[0] >= high and high < cells_of(g.full)):
                        continue
                row_values = values + d * job.pooled.axis[0] + h * job.pooled.axis[1] + w * job.pooled.axis[2]
                row_indices = indices + d * job.indices.axis[0] + h * job.indices.axis[1] + w * job.indices.axis[2]
                if job.lanes == 1:
                    outside += put_row(job, out, row_values, job.pooled.axis[2], row_indices, job.indices.axis[2], count,
                                       low, high, band[0], band[1], full, index_type)
                else:
                    for i in range(count):
                        outside += put_lanes(job, out, row_values + i * job.pooled.axis[2],
                                             row_indices + i * job.indices.axis[2], low, high, band[0], band[1], full,
                                             index_type)
    return outside


cdef Py_ssize_t cut(const Job *job, Py_ssize_t part) noexcept nogil:
    """Where the stretch number `part` of a split plane begins: where a pooled row's windows do, if there are rows enough."""
    cdef Py_ssize_t rows = job.g.pooled[0] * job.g.pooled[1], size = cells_of(job.g.full), row
    cdef Py_ssize_t band[2]
    if rows < job.splits or part == 0 or part == job.splits:
        return size * part // job.splits
    row = rows * part // job.splits
    band_of(&job.g, row // job.g.pooled[1], row % job.g.pooled[1], 0, 1, band)
    return band[0]


cdef void scatter(const Job *job, Py_ssize_t task, Found *found, item *full, index *index_type) noexcept nogil:
    """One task: some whole planes (or all lanes of some), or one of the stretches into which these are split."""
    cdef Py_ssize_t groups = job.batch * job.channels // job.lanes, size = cells_of(job.g.full)
    cdef Py_ssize_t group = groups * task // job.tasks, end = groups * (task + 1) // job.tasks
    cdef Py_ssize_t part, together = 1, outside = 0, planes_bytes = groups * job.full.c
    if job.splits > 1:
        part = task % job.splits
        outside = scatter_plane(job, task // job.splits * job.lanes, cut(job, part), cut(job, part + 1), True, full,
                                index_type)
    else:
        if job.lanes == 1 and job.flat == sizeof(item) and job.full.even and job.full.c == size * <Py_ssize_t> sizeof(item):
            together = CLEAR_SMALL if planes_bytes < CLEAR_LARGE else CLEAR_LARGE
            together = max(together // job.full.c, 1)
        while group < end:
            together = min(together, end - group)
            if together > 1:
                clear(job, plane_of(&job.full, job.channels, group), 0, together * size, sizeof(item))
            for part in range(group, group + together):
                outside += scatter_plane(job, part * job.lanes, 0, size, together == 1, full, index_type)
            group += together
    if job.banded:
        found.strays += outside
    else:
        found.wrong += outside


cdef inline item zero_of(const item *_) noexcept nogil:
    cdef item zero
    if item is item16:
        zero.low = zero.high = 0
    else:
        zero = 0
    return zero


cdef inlined select_rows(int rows, item **out, const uint32_t *first, const item *values, const index *indices,
                         Py_ssize_t count, Py_ssize_t *hits) noexcept nogil:
    """The cells of some windows in 1 or 2 `rows` of the output; `first` has the place of each row's first cell here.

    Adds the number of indices that name a cell of their windows. Comparing the low 32 bits is enough: planes are smaller
    than 2**31 here, and an index that is not makes `hits` negative. It vectorises where `rows` is a constant.
    """
    # Copies, because the compiler has to fear that writing results changes these.
    cdef item *row_out[2]
    cdef uint32_t row_first[2]
    cdef item nothing = zero_of(values)
    cdef item value
    cdef index seen = 0
    cdef int32_t found = 0
    cdef uint32_t cell
    cdef Py_ssize_t i
    cdef int row
    for row in range(rows):
        row_out[row] = out[row]
        row_first[row] = first[row]
    for i in range(count):
        seen |= indices[i]
        value = values[i]
        for row in range(rows):
            cell = <uint32_t> indices[i] - row_first[row] - 2 * <uint32_t> i
            row_out[row][2 * i] = value if cell == 0 else nothing
            row_out[row][2 * i + 1] = value if cell == 1 else nothing
            found += cell < 2
    hits[0] += found
    if seen < 0 or <int64_t> seen > 0x7FFFFFFF:
        hits[0] = -count - 1


cdef cloned select_plane(const Job *job, Py_ssize_t plane, Py_ssize_t row, Py_ssize_t row_end, Py_ssize_t *strays,
                         item *full, index *index_type) noexcept nogil:
    """The output's rows that belong to some pooled rows of a plane, front to back. Stops at the first row with a stray."""
    cdef item line[4][2 * SELECT_CHUNK]
    cdef item *out[4]
    cdef uint32_t first[4]
    cdef const Geometry *g = &job.g
    cdef char *into = plane_of(&job.full, job.channels, plane)
    cdef const item *values
    cdef const index *indices
    cdef Py_ssize_t width = g.full[2], height = g.full[1], used = 2 * g.pooled[2]
    cdef Py_ssize_t d, h, kd, kh, w, part, count, cell, hits
    cdef int k, rows = <int> (g.kernel[0] * g.kernel[1])
    for row in range(row, row_end):
        d = row // g.pooled[1]
        h = row % g.pooled[1]
        values = <const item *> (plane_of(&job.pooled, job.channels, plane) + d * job.pooled.axis[0]
                                 + h * job.pooled.axis[1])
        indices = <const index *> (plane_of(&job.indices, job.channels, plane) + d * job.indices.axis[0]
                                   + h * job.indices.axis[1])
        hits = 0
        for part in range((g.pooled[2] + SELECT_CHUNK - 1) // SELECT_CHUNK):
            w = part * SELECT_CHUNK
            count = min(g.pooled[2] - w, <Py_ssize_t> SELECT_CHUNK)
            for k in range(rows):
                cell = ((d * g.kernel[0] + k // g.kernel[1]) * height + h * g.kernel[1] + k % g.kernel[1]) * width + 2 * w
                first[k] = <uint32_t> cell
                out[k] = &line[k][0] if job.stream else <item *> into + cell
            if rows == 1:
                select_rows(1, out, first, values + w, indices + w, count, &hits)
            elif rows == 2:
                select_rows(2, out, first, values + w, indices + w, count, &hits)
            else:
                select_rows(2, out, first, values + w, indices + w, count, &hits)
                select_rows(2, out + 2, first + 2, values + w, indices + w, count, &hits)
            if job.stream:
                for k in range(rows):
                    cunpool_stream(into + first[k] * sizeof(item), <const char *> &line[k][0], 2 * count * sizeof(item))
        if hits != g.pooled[2]:
            strays[0] += 1
            return
        # What lies beyond the last windows.
        for kd in range(g.kernel[0]):
            cell = ((d * g.kernel[0] + kd) * height + h * g.kernel[1]) * width
            if used < width:
                for kh in range(g.kernel[1]):
                    clear(job, into, cell + kh * width + used, cell + (kh + 1) * width, sizeof(item))
            if h == g.pooled[1] - 1:
                clear(job, into, cell + g.kernel[1] * width, (d * g.kernel[0] + kd + 1) * height * width, sizeof(item))
    if row_end == g.pooled[0] * g.pooled[1]:
        clear(job, into, g.pooled[0] * g.kernel[0] * height * width, cells_of(g.full), sizeof(item))


cdef void select(const Job *job, Py_ssize_t task, Found *found, item *full, index *index_type) noexcept nogil:
    """One task: as in `scatter`; but a plane that is split is split between pooled rows."""
    cdef Py_ssize_t planes = job.batch * job.channels, rows = job.g.pooled[0] * job.g.pooled[1]
    cdef Py_ssize_t plane, part, strays
    if job.splits > 1:
        part = task % job.splits
        select_plane(job, task // job.splits, rows * part // job.splits, rows * (part + 1) // job.splits,
                     &found.strays, full, index_type)
    else:
        for plane in range(planes * task // job.tasks, planes * (task + 1) // job.tasks):
            strays = 0
            select_plane(job, plane, 0, rows, &strays, full, index_type)
            if strays:
                found.strays += 1
                found.wrong += scatter_plane(job, plane, 0, cells_of(job.g.full), True, full, index_type)


cdef Kernel[5][2] SCATTER  # by the logarithm of the item's size, and by whether an index has 8 bytes
SCATTER[0] = [<Kernel> scatter[item1, index4], <Kernel> scatter[item1, index8]]
SCATTER[1] = [<Kernel> scatter[item2, index4], <Kernel> scatter[item2, index8]]
SCATTER[2] = [<Kernel> scatter[item4, index4], <Kernel> scatter[item4, index8]]
SCATTER[3] = [<Kernel> scatter[item8, index4], <Kernel> scatter[item8, index8]]
SCATTER[4] = [<Kernel> scatter[item16, index4], <Kernel> scatter[item16, index8]]
cdef Kernel[5][2] SELECT
SELECT[0] = [<Kernel> select[item1, index4], <Kernel> select[item1, index8]]
SELECT[1] = [<Kernel> select[item2, index4], <Kernel> select[item2, index8]]
SELECT[2] = [<Kernel> select[item4, index4], <Kernel> select[item4, index8]]
SELECT[3] = [<Kernel> select[item8, index4], <Kernel> select[item8, index8]]
SELECT[4] = [<Kernel> select[item16, index4], <Kernel> select[item16, index8]]


cdef inline int log2_of(Py_ssize_t size) noexcept nogil:
    return 0 if size == 1 else 1 if size == 2 else 2 if size == 4 else 3 if size == 8 else 4


cdef bint selectable(const Job *job, Py_ssize_t item_size, Py_ssize_t index_size) noexcept nogil:
    """Whether all windows are of 2, next to each other inside the output, and rows are such that selecting pays."""
    cdef const Geometry *g = &job.g
    cdef int axis
    for axis in range(3):
        if (g.kernel[axis] != g.stride[axis] or g.padding[axis] or g.kernel[axis] > (1 if g.full[axis] == 1 else 2)
                or g.dilation[axis] > 1 and g.kernel[axis] > 1 or g.kernel[axis] * g.pooled[axis] > g.full[axis]):
            return False
    return (g.kernel[2] == 2 and g.pooled[2] >= SELECT_WIDTH and cells_of(g.full) <= 0x7FFFFFFF
            and job.lanes == 1 and job.flat == item_size and job.pooled.axis[2] == item_size
            and job.indices.axis[2] == index_size)


def unpool(cnp.ndarray pooled not None, cnp.ndarray indices not None, cnp.ndarray full not None, tuple sizes,
           int spatial, int threads):
    """Fill `full`. Returns 0 if an index lies outside its plane (then `full` is unspecified), else the way taken."""
    cdef Job job
    cdef Found found
    cdef Py_ssize_t item_size = cnp.PyArray_ITEMSIZE(full), index_size = cnp.PyArray_ITEMSIZE(indices)
    cdef Kernel scattering = SCATTER[log2_of(item_size)][index_size == 8], kernel = scattering
    cdef bint selecting
    job.g = geometry_of(sizes)
    job.pooled = view_of(pooled, spatial)
    job.indices = view_of(indices, spatial)
    job.full = view_of(full, spatial)
    job.flat = flat_stride(&job.full, job.g.full)
    job.batch = cnp.PyArray_DIM(full, 0) if cnp.PyArray_NDIM(full) == spatial + 2 else 1
    job.channels = cnp.PyArray_DIM(full, cnp.PyArray_NDIM(full) - spatial - 1)
    if cnp.PyArray_SIZE(full) == 0:
        return SCATTERED
    job.lanes = 1
    if (job.channels >= LANES and job.flat and job.full.c == item_size and job.pooled.c == item_size
            and job.indices.c == index_size):
        job.lanes = job.channels
    split(&job, threads)
    job.stream = cnp.PyArray_SIZE(full) * item_size >= STREAM
    selecting = selectable(&job, item_size, index_size)
    if selecting:
        kernel = SELECT[log2_of(item_size)][index_size == 8]
    if cnp.PyArray_SIZE(full) * item_size <= GIL_BYTES:
        found = unpool_job(&job, kernel, scattering, threads)
    else:
        with nogil:
            found = unpool_job(&job, kernel, scattering, threads)
    if found.wrong:
        return BAD_INDEX
    return STRAYED if found.strays else SELECTED if selecting else SCATTERED


cdef Found unpool_job(Job *job, Kernel kernel, Kernel scattering, int threads) noexcept nogil:
    """Run the kernel, and scatter without any expectation if that met a stray that it could not see to itself."""
    cdef Found found
    cdef bint selecting = kernel != scattering
    if selecting:
        job.banded = False  # a plane whose indices are anywhere is scattered at once
    found = run(kernel, job, threads)
    if found.strays and (job.banded or selecting and job.splits > 1):
        job.banded = False
        found.wrong = run(scattering, job, threads).wrong
    return found


cdef void split(Job *job, int threads) noexcept nogil:
    """Some tasks for each thread, so that one who is held up does not hold up the rest."""
    cdef Py_ssize_t groups = job.batch * job.channels // job.lanes, wanted = 1 if threads == 1 else 4 * threads
    cdef Py_ssize_t size = cells_of(job.g.full)
    job.splits = clamp((wanted + groups - 1) // groups, 1, size)
    job.tasks = groups * job.splits if job.splits > 1 else min(groups, wanted)
    job.banded = job.splits > 1
