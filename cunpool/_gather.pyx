# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The loops of unpooling's gradient: each pooled cell takes what lies at its place. Valid input is assumed, indices apart."""
cimport numpy as cnp

from cunpool._common cimport *
from cunpool._places cimport *

cnp.import_array()

cdef enum:
    PART = 1024             # pooled cells that are taken together
    GIL_BYTES = 1 << 14     # releasing the GIL costs more than moving this


cdef inlined take(const Job *job, const char *from_plane, Py_ssize_t flat, char *values, Py_ssize_t value_step,
                  const char *indices, Py_ssize_t index_step, Py_ssize_t count, uint64_t size, item *full,
                  index *index_type, Py_ssize_t *strangers) noexcept nogil:
    """Fill `count` values from where their indices say; counts the indices that are not from 0 on for `size` cells."""
    cdef Py_ssize_t i, outside = 0
    cdef uint64_t cell
    for i in range(count):
        cell = <uint64_t> <int64_t> (<const index *> (indices + i * index_step))[0]
        if cell < size:
            (<item *> (values + i * value_step))[0] = (
                <const item *> (from_plane + offset_of(job, flat, <Py_ssize_t> cell)))[0]
        else:
            outside += 1
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
        take(job, from_plane, job.flat, values, value_step, indices, index_step, count, size, full, index_type, &outside)
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
                            Py_ssize_t count, item *full, index *index_type) noexcept nogil:
    """Some neighbours of a pooled row, in one plane or in all lanes."""
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
        decode(job, indices, job.indices.axis[2], d, h, w, False, count, cells)
        return take_row(job, from_plane, values, job.pooled.axis[2], <const char *> cells, sizeof(index8), count, full,
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
    """One task: some parts of pooled rows; where rows follow each other in memory, planes are taken as one row."""
    cdef Py_ssize_t width = job.g.pooled[2], rows = job.g.pooled[0] * job.g.pooled[1], height = job.g.pooled[1]
    cdef bint joined = (job.lanes == 1 and not job.code_size and flat_stride(&job.pooled, job.g.pooled) != 0
                        and flat_stride(&job.pooled, job.g.pooled) == job.pooled.axis[2]
                        and flat_stride(&job.indices, job.g.pooled) == job.indices.axis[2])
    cdef Py_ssize_t groups = job.batch * job.channels // job.lanes, parts, units, unit, row, w
    if joined:
        width *= rows
        rows = height = 1
    parts = (width + PART - 1) // PART
    units = groups * rows * parts
    for unit in range(units * task // job.tasks, units * (task + 1) // job.tasks):
        row = unit // parts % rows
        w = unit % parts * PART
        found.wrong += gather_part(job, unit // parts // rows * job.lanes, row // height, row % height, w,
                                   min(width - w, <Py_ssize_t> PART), full, index_type)


cdef Kernel[5][2] GATHER   # by the logarithm of the item's size, and by whether an index has 8 bytes
GATHER[0] = [<Kernel> gather[item1, index4], <Kernel> gather[item1, index8]]
GATHER[1] = [<Kernel> gather[item2, index4], <Kernel> gather[item2, index8]]
GATHER[2] = [<Kernel> gather[item4, index4], <Kernel> gather[item4, index8]]
GATHER[3] = [<Kernel> gather[item8, index4], <Kernel> gather[item8, index8]]
GATHER[4] = [<Kernel> gather[item16, index4], <Kernel> gather[item16, index8]]


def unpool_backward(cnp.ndarray full not None, cnp.ndarray indices not None, cnp.ndarray pooled not None, tuple sizes,
                    int spatial, int kind, bint codes, int threads):
    """Fill `pooled`. Returns 0 if an index names no place."""
    cdef Job job
    cdef Found found
    cdef Py_ssize_t item_size = cnp.PyArray_ITEMSIZE(full), index_size = cnp.PyArray_ITEMSIZE(indices)
    cdef Kernel kernel = GATHER[kind][codes or index_size == 8]
    prepare(&job, sizes, pooled, indices, full, spatial, codes)
    if cnp.PyArray_SIZE(pooled) == 0:
        return True
    job.tasks = 1 if threads == 1 else min(8 * threads, cnp.PyArray_SIZE(pooled))
    if cnp.PyArray_SIZE(pooled) * item_size <= GIL_BYTES:
        found = run(kernel, &job, threads)
    else:
        with nogil:
            found = run(kernel, &job, threads)
    return found.wrong == 0
