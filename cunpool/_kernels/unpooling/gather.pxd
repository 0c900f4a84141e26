# Gather, unpooling's gradient: each pooled element is read from where its index points.
from libc.stdint cimport int64_t, uint64_t

from cunpool._kernels.common.arrays cimport raster_stride
from cunpool._kernels.common.geometry cimport element_count
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.tasks cimport Found
from cunpool._kernels.common.types cimport index, index4, index8, item, void_wide
from cunpool._kernels.unpooling.walk cimport (
    Loop, Loops, move_block, move_contiguous, move_each, move_row, point_to_next, Run)
from cunpool._kernels.unpooling.window_codes cimport (
    block_count, CodeBlock, DECODE_MAX_CODES, locate_block, next_block, PLANE_AXIS)

cdef enum:
    GATHER_WINDOWS = DECODE_MAX_CODES   # windows of a row that are gathered together


cdef inline Py_ssize_t gather_row(const Job *job, const Run *run, item *full, index *index_type) noexcept nogil:
    """Read the values of a row. The loop is compiled as for `scatter_row`, for whole runs alone."""
    cdef Py_ssize_t outside = 0
    if not job.raster_stride_bytes:
        move_each(job, run[0], True, False, False, 0, 0, full, index_type, &outside)
    elif (job.raster_stride_bytes != sizeof(item) or run.value_bytes != sizeof(item)
            or run.index_bytes != sizeof(index)):
        move_each(job, run[0], True, False, True, job.raster_stride_bytes, 0, full, index_type, &outside)
    else:
        move_contiguous(job, run[0], True, full, index_type, &outside)
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


cdef inline Py_ssize_t gather_channels(const Job *job, const Run *given, item *full, index *index_type) noexcept nogil:
    """`gather_window` for each window."""
    cdef Py_ssize_t outside = 0
    cdef Run run = given[0]
    run.count = 1
    for _ in range(given.count):
        gather_window(run.full, job.raster_stride_bytes, <item *> run.values, <const index *> run.indices,
                      run.channels, run.expected_end, &outside)
        point_to_next(&run)
    return outside


cdef inline void gather_blocks(const Job *job, Py_ssize_t task, Found *found) noexcept nogil:
    """`gather_task` by window codes."""
    cdef Py_ssize_t blocks = block_count(job), first = blocks * task // job.tasks
    cdef CodeBlock block
    cdef Run run
    run.expected_begin = 0
    locate_block(job, first, &block)
    for _ in range(first, blocks * (task + 1) // job.tasks):
        run.expected_end = block.count[PLANE_AXIS] * element_count(job.g.full)
        found.out_of_plane += move_block(job, &run, &block)
        next_block(job, &block)


cdef inline void gather_task(const Job *job, Py_ssize_t task, Found *found, void *_, void *__) noexcept nogil:
    """One task: some parts of pooled rows. A plane of adjacent rows is one row."""
    cdef Py_ssize_t width = job.g.pooled[2], rows = job.g.pooled[0] * job.g.pooled[1], height = job.g.pooled[1]
    cdef Py_ssize_t groups = job.batch * job.channels // job.interleaved_planes, parts, units, unit, row, w
    cdef Py_ssize_t value_bytes = raster_stride(&job.pooled, job.g.pooled)
    cdef Py_ssize_t index_bytes = raster_stride(&job.indices, job.g.pooled)
    cdef Run run
    if job.code_size:
        gather_blocks(job, task, found)
        return
    run.expected_begin, run.expected_end = 0, element_count(job.g.full)
    # Either stride is 0 where rows are not adjacent. An axis's own stride is 0 where one index is repeated.
    if (job.interleaved_planes == 1 and value_bytes and index_bytes and value_bytes == job.pooled.axis_bytes[2]
            and index_bytes == job.indices.axis_bytes[2]):
        width *= rows
        rows = height = 1
    parts = (width + GATHER_WINDOWS - 1) // GATHER_WINDOWS
    units = groups * rows * parts
    for unit in range(units * task // job.tasks, units * (task + 1) // job.tasks):
        row = unit // parts
        w = unit % parts * GATHER_WINDOWS
        found.out_of_plane += move_row(job, run, row // rows * job.interleaved_planes, row % rows // height,
                                       row % height, w, min(width - w, <Py_ssize_t> GATHER_WINDOWS))


cdef inline Loops gather_loops_for(item *_) noexcept nogil:
    cdef Loops loops
    loops.row = [<Loop> gather_row[item, index4], <Loop> gather_row[item, index8]]
    loops.across = [<Loop> gather_channels[item, index4], <Loop> gather_channels[item, index8]]
    loops.unchecked = NULL
    loops.task = gather_task
    loops.gathers = True
    return loops
