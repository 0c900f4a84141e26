# Gather, unpooling's gradient: each pooled element is read from where its index points.
from libc.stdint cimport int64_t, uint64_t

from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.tasks cimport Found
from cunpool._kernels.common.types cimport index, index4, index8, item, void_wide
from cunpool._kernels.unpooling.walk cimport (
    Loop, Loops, move_blocks, move_contiguous, move_each, point_to_next_row, Run)
from cunpool._kernels.unpooling.window_codes cimport block_count


cdef inline Py_ssize_t gather_row(const Job *job, Run *run, item *full, index *index_type) noexcept nogil:
    """Read the values of a run, row by row. The loop is compiled as for `scatter_row`, for whole runs alone."""
    cdef Py_ssize_t outside = 0
    for _ in range(run.rows):
        if not job.raster_stride_bytes:
            move_each(job, run[0], True, False, False, 0, 0, full, index_type, &outside)
        elif (job.raster_stride_bytes != sizeof(item) or run.value_bytes != sizeof(item)
                or run.index_bytes != sizeof(index)):
            move_each(job, run[0], True, False, True, job.raster_stride_bytes, 0, full, index_type, &outside)
        else:
            move_contiguous(job, run[0], True, full, index_type, &outside)
        point_to_next_row(run)
    return outside


cdef inline void_wide gather_window(const char *full, Py_ssize_t stride_bytes, item *values, const index *indices,
                                    Py_ssize_t channels, uint64_t size, Py_ssize_t *outside) noexcept nogil:
    """`gather_row` for one element of each channel, where these are neighbours."""
    cdef Py_ssize_t i
    cdef uint64_t position
    cdef const char *source
    for i in range(channels):
        position = <uint64_t> <int64_t> indices[i]
        if position < size:
            source = full + i * <Py_ssize_t> sizeof(item) + <Py_ssize_t> position * stride_bytes
            values[i] = (<const item *> source)[0]
        else:
            outside[0] += 1


cdef inline Py_ssize_t gather_channels(const Job *job, Run *run, item *full, index *index_type) noexcept nogil:
    """`gather_window` for each window."""
    cdef Py_ssize_t outside = 0
    for _ in range(run.count):
        gather_window(run.full, job.raster_stride_bytes, <item *> run.values, <const index *> run.indices,
                      run.channels, run.expected_end, &outside)
        run.values += run.value_bytes
        run.indices += run.index_bytes
    return outside


cdef inline void gather_task(const Job *job, Py_ssize_t task, Found *found, void *_, void *__) noexcept nogil:
    """One task: some blocks of windows."""
    cdef Py_ssize_t groups = job.batch * job.channels // job.interleaved_planes, blocks = block_count(job, groups)
    cdef Run run
    found.out_of_plane += move_blocks(job, &run, 0, groups, blocks * task // job.tasks,
                                      blocks * (task + 1) // job.tasks)


cdef inline Loops gather_loops_for(item *_) noexcept nogil:
    cdef Loops loops
    loops.row = [<Loop> gather_row[item, index4], <Loop> gather_row[item, index8]]
    loops.across = [<Loop> gather_channels[item, index4], <Loop> gather_channels[item, index8]]
    loops.unchecked = NULL
    loops.task = gather_task
    return loops
