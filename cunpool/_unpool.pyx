# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Unpooling's loops. They move bits, so the element type is its size alone. Valid input is assumed, indices apart."""
from libc.string cimport memset
cimport numpy as cnp

from cunpool._common cimport *

cnp.import_array()

cdef enum:
    CHUNK = 4096            # pooled cells of a 1d plane whose windows are taken for one band
    GIL_BYTES = 1 << 14     # releasing the GIL costs more than moving this


cdef inline Py_ssize_t offset_of(const Job *job, Py_ssize_t flat, Py_ssize_t cell) noexcept nogil:
    """Bytes from a full plane's start to `cell`, counted in raster order."""
    if flat:
        return cell * flat
    cdef Py_ssize_t width = job.g.full[2], area = job.g.full[1] * width
    return (cell // area * job.full.axis[0] + cell % area // width * job.full.axis[1]
            + cell % width * job.full.axis[2])


cdef inline void clear(const Job *job, char *out, Py_ssize_t low, Py_ssize_t high, item *full) noexcept nogil:
    """Zero the cells `low` to `high` of a full plane."""
    cdef Py_ssize_t cell
    if job.flat == sizeof(item):
        memset(out + low * sizeof(item), 0, (high - low) * sizeof(item))
    else:
        for cell in range(low, high):
            memset(out + offset_of(job, job.flat, cell), 0, sizeof(item))


cdef inline Py_ssize_t put(const Job *job, char *out, Py_ssize_t flat, const char *values, Py_ssize_t value_step,
                           const char *indices, Py_ssize_t index_step, Py_ssize_t count, uint64_t low, uint64_t span,
                           uint64_t band, uint64_t band_span, item *full, index *index_type) noexcept nogil:
    """Put `count` values where their indices say, as far as that is from `low` on for `span` cells.

    Returns how many indices were not from `band` on for `band_span` cells. One unsigned comparison, in 64 bits
    whatever the index type, is both bounds at once.
    """
    cdef Py_ssize_t i, wrong = 0
    cdef uint64_t cell
    for i in range(count):
        cell = <uint64_t> <int64_t> (<const index *> (indices + i * index_step))[0]
        if cell - low < span:
            (<item *> (out + offset_of(job, flat, <Py_ssize_t> cell)))[0] = (
                <const item *> (values + i * value_step))[0]
        wrong += cell - band >= band_span
    return wrong


cdef Py_ssize_t put_row(const Job *job, char *out, const char *values, Py_ssize_t value_step, const char *indices,
                        Py_ssize_t index_step, Py_ssize_t count, Py_ssize_t low, Py_ssize_t high, Py_ssize_t band,
                        Py_ssize_t band_end, item *full, index *index_type) noexcept nogil:
    """`put`, compiled apart for contiguous arrays."""
    if job.flat == sizeof(item) and value_step == sizeof(item) and index_step == sizeof(index):
        return put(job, out, sizeof(item), values, sizeof(item), indices, sizeof(index), count, low, high - low, band,
                   band_end - band, full, index_type)
    return put(job, out, job.flat, values, value_step, indices, index_step, count, low, high - low, band,
               band_end - band, full, index_type)


cdef Py_ssize_t scatter_plane(const Job *job, Py_ssize_t plane, Py_ssize_t low, Py_ssize_t high, item *full,
                              index *index_type) noexcept nogil:
    """Zero a plane's cells from `low` to `high` and put there, in raster order, the values that belong there.

    Where the job is banded, only the rows whose windows reach these cells are read. Then the count that comes back
    is of the indices read that lie outside the rows of their own windows: if any task meets one, other tasks may have
    missed it, and the job has to run again without bands. Else the count is of the indices outside the plane.
    """
    cdef const Geometry *g = &job.g
    cdef char *out = plane_of(&job.full, job.channels, plane)
    cdef const char *values = plane_of(&job.pooled, job.channels, plane)
    cdef const char *indices = plane_of(&job.indices, job.channels, plane)
    cdef Py_ssize_t width = g.pooled[2], height = g.pooled[1], size = g.full[0] * g.full[1] * g.full[2]
    cdef Py_ssize_t value_step = flat_stride(&job.pooled, g.pooled), index_step = flat_stride(&job.indices, g.pooled)
    cdef Py_ssize_t d, h, w, part, count, wrong = 0
    cdef Py_ssize_t band[2]
    clear(job, out, low, high, full)
    if not job.banded and value_step and index_step:
        return put_row(job, out, values, value_step, indices, index_step, g.pooled[0] * height * width, low, high,
                       0, size, full, index_type)
    band[0] = 0
    band[1] = size
    for d in range(g.pooled[0]):
        for h in range(height):
            for part in range((width + CHUNK - 1) // CHUNK):
                w = part * CHUNK
                count = min(width - w, <Py_ssize_t> CHUNK)
                if job.banded:
                    band_of(g, d, h, w, w + count, band)
                    # An empty band is read as well, by the task that it lies in, for it makes every index a stray.
                    if (band[1] <= low and band[0] < low) or (band[0] >= high and high < size):
                        continue
                wrong += put_row(
                    job, out, values + d * job.pooled.axis[0] + h * job.pooled.axis[1] + w * job.pooled.axis[2],
                    job.pooled.axis[2],
                    indices + d * job.indices.axis[0] + h * job.indices.axis[1] + w * job.indices.axis[2],
                    job.indices.axis[2], count, low, high, band[0], band[1], full, index_type)
    return wrong


cdef void band_of(const Geometry *g, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w, Py_ssize_t w_end,
                  Py_ssize_t *band) noexcept nogil:
    """The cells, in raster order, between which all windows of a pooled row lie; in 1d, of a part of the row."""
    cdef Py_ssize_t first[3]
    cdef Py_ssize_t last[3]
    cdef Py_ssize_t *low = [d, h, w]
    cdef Py_ssize_t *high = [d, h, w_end - 1]
    cdef Py_ssize_t size = g.full[0] * g.full[1] * g.full[2]
    cdef int axis
    for axis in range(3):
        first[axis] = clamp(low[axis] * g.stride[axis] - g.padding[axis], 0, g.full[axis])
        last[axis] = clamp(high[axis] * g.stride[axis] - g.padding[axis] + (g.kernel[axis] - 1) * g.dilation[axis] + 1,
                           first[axis], g.full[axis])
    if g.full[0] * g.full[1] == 1 and g.pooled[0] * g.pooled[1] == 1:
        band[0] = first[2]
        band[1] = last[2]
    else:
        band[0] = min((first[0] * g.full[1] + first[1]) * g.full[2], size)
        band[1] = band[0]
        if last[0] > first[0] and last[1] > first[1]:
            band[1] = ((last[0] - 1) * g.full[1] + last[1]) * g.full[2]


cdef void scatter(const Job *job, Py_ssize_t task, Py_ssize_t *wrong, item *full, index *index_type) noexcept nogil:
    """One task: some whole planes, or one of the stretches into which a plane is split."""
    cdef Py_ssize_t planes = job.batch * job.channels, plane, part
    cdef Py_ssize_t size = job.g.full[0] * job.g.full[1] * job.g.full[2]
    if job.splits > 1:
        part = task % job.splits
        wrong[0] += scatter_plane(job, task // job.splits, size * part // job.splits,
                                  size * (part + 1) // job.splits, full, index_type)
    else:
        for plane in range(planes * task // job.tasks, planes * (task + 1) // job.tasks):
            wrong[0] += scatter_plane(job, plane, 0, size, full, index_type)


cdef Kernel[5][2] SCATTER  # by the logarithm of the item's size, and by whether an index has 8 bytes
SCATTER[0][0] = <Kernel> scatter[item1, index4]
SCATTER[0][1] = <Kernel> scatter[item1, index8]
SCATTER[1][0] = <Kernel> scatter[item2, index4]
SCATTER[1][1] = <Kernel> scatter[item2, index8]
SCATTER[2][0] = <Kernel> scatter[item4, index4]
SCATTER[2][1] = <Kernel> scatter[item4, index8]
SCATTER[3][0] = <Kernel> scatter[item8, index4]
SCATTER[3][1] = <Kernel> scatter[item8, index8]
SCATTER[4][0] = <Kernel> scatter[item16, index4]
SCATTER[4][1] = <Kernel> scatter[item16, index8]


cdef inline int log2_of(Py_ssize_t size) noexcept nogil:
    return 0 if size == 1 else 1 if size == 2 else 2 if size == 4 else 3 if size == 8 else 4


def unpool(cnp.ndarray pooled not None, cnp.ndarray indices not None, cnp.ndarray full not None, tuple sizes,
           int spatial, int threads):
    """Fill `full`; False if an index lies outside its plane (then `full` is unspecified)."""
    cdef Job job
    cdef Kernel kernel = SCATTER[log2_of(cnp.PyArray_ITEMSIZE(full))][cnp.PyArray_ITEMSIZE(indices) == 8]
    cdef Py_ssize_t planes, wrong
    job.g = geometry_of(sizes)
    job.pooled = view_of(pooled, spatial)
    job.indices = view_of(indices, spatial)
    job.full = view_of(full, spatial)
    job.flat = flat_stride(&job.full, job.g.full)
    job.batch = cnp.PyArray_DIM(full, 0) if cnp.PyArray_NDIM(full) == spatial + 2 else 1
    job.channels = cnp.PyArray_DIM(full, cnp.PyArray_NDIM(full) - spatial - 1)
    planes = job.batch * job.channels
    if planes == 0:
        return True
    split(&job, planes, threads)
    if cnp.PyArray_SIZE(full) * cnp.PyArray_ITEMSIZE(full) <= GIL_BYTES:
        return run(kernel, &job, threads) == 0
    with nogil:
        wrong = run(kernel, &job, threads)
        if wrong and job.banded:
            job.banded = False
            wrong = run(kernel, &job, threads)
    return wrong == 0


cdef void split(Job *job, Py_ssize_t planes, int threads) noexcept nogil:
    """Some tasks for each thread, so that one who is held up does not hold up the rest."""
    cdef Py_ssize_t wanted = 1 if threads == 1 else 8 * threads
    job.splits = 1
    job.tasks = min(planes, wanted)
    if planes < wanted:
        job.splits = min((wanted + planes - 1) // planes, job.g.full[0] * job.g.full[1] * job.g.full[2])
        job.tasks = planes * job.splits
    job.banded = job.splits > 1
