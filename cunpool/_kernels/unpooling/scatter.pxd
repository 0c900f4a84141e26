# The tasks of scatter, which stores elements or adds numbers where their indices point, and of gather, unpooling's
# gradient, which reads them from there. The loops are in `walk.pxd`: elements of an integer type (`item1` to `item16`)
# are stored or read, numbers (`half` to `float8`) are added.
from cunpool._kernels.common.arrays cimport plane_address
from cunpool._kernels.common.checks cimport assert_in_block, branch_counted
from cunpool._kernels.common.geometry cimport clamp, element_count, Geometry
from cunpool._kernels.common.job cimport are_full_planes_adjacent, Job
from cunpool._kernels.common.tasks cimport Found
from cunpool._kernels.common.thresholds cimport BAND_MAX_WINDOWS, ZERO_BYTES
from cunpool._kernels.unpooling.indices cimport expected_range, lay_background, part_start
from cunpool._kernels.unpooling.walk cimport move_block, move_blocks, Run
from cunpool._kernels.unpooling.window_codes cimport Block, block_count, BlockPlan, PLANE_AXIS, WIDTH_AXIS


cdef inline Py_ssize_t scatter_bands(const Job *job, Run *run, Py_ssize_t plane) noexcept nogil:
    """Scatter the pooled rows whose windows reach the elements `low` to `high` of a split plane.

    Returns the number of indices outside the rows of their own windows. With one such index the job has to run again
    with whole planes, because another task may have missed it.
    """
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t width = g.pooled[2], size = element_count(g.full), d, h, part, outside = 0
    cdef Py_ssize_t most = clamp((<const BlockPlan *> job.blocks).block_windows[WIDTH_AXIS], 1, BAND_MAX_WINDOWS)
    cdef Py_ssize_t[2] expected
    cdef Block block
    for d in range(g.pooled[0]):
        for h in range(g.pooled[1]):
            for part in range((width + most - 1) // most):
                block.at, block.count = [plane, d, h, part * most], [1, 1, 1, min(width - part * most, most)]
                expected_range(g, d, h, part * most, part * most + block.count[WIDTH_AXIS], expected)
                # Rows that expect no index are read by the task in which they lie: all of their indices are outside.
                if (expected[1] <= run.low and expected[0] < run.low) or (expected[0] >= run.high and run.high < size):
                    continue
                run.expected_begin, run.expected_end = expected[0], expected[1]
                outside += move_block(job, run, &block)
    return outside


cdef inline Py_ssize_t planes_zeroed_together(const Job *job) noexcept nogil:
    """The number of planes that are zeroed, and scattered to, together."""
    if job.raster_stride_bytes != job.item_size or not are_full_planes_adjacent(job):
        return 1
    if job.code_size and (<const BlockPlan *> job.blocks).block_windows[PLANE_AXIS] > 1:
        return (<const BlockPlan *> job.blocks).block_windows[PLANE_AXIS]
    return max(ZERO_BYTES // job.full.channel_bytes, 1)


cdef inline Py_ssize_t scatter_planes(const Job *job, Py_ssize_t plane, Py_ssize_t planes, Py_ssize_t low,
                                      Py_ssize_t high) noexcept nogil:
    """Zero and scatter some contiguous planes, or the elements `low` to `high` of one. Interleaved planes count as
    one.

    Returns the number of indices outside the plane, or of a part of a plane what `scatter_bands` returns.
    """
    cdef Run run
    if high <= low:
        return 0
    if not job.is_laid:
        lay_background(job, plane_address(&job.full, job.channels, plane * job.interleaved_planes), low, high)
    run.low, run.high = low, high
    if job.parts_per_plane > 1:
        return scatter_bands(job, &run, plane)
    return move_blocks(job, &run, plane, planes, 0, block_count(job, planes))


cdef inline void scatter_task(const Job *job, Py_ssize_t task, Found *found, void *_, void *__) noexcept nogil:
    """One task: some planes or groups of interleaved planes, or one part of a plane or group that is split."""
    cdef Py_ssize_t groups = job.batch * job.channels // job.interleaved_planes, size = element_count(job.g.full)
    cdef Py_ssize_t group = groups * task // job.tasks, end = groups * (task + 1) // job.tasks, part, planes
    if job.parts_per_plane > 1:
        part = task % job.parts_per_plane
        assert_in_block(part_start(job, part) <= part_start(job, part + 1))
        found.out_of_window += scatter_planes(job, task // job.parts_per_plane, 1, part_start(job, part),
                                              part_start(job, part + 1))
        return
    planes = planes_zeroed_together(job)
    while group < end:
        planes = min(planes, end - group)
        branch_counted("planes cleared together", planes > 1)
        found.out_of_plane += scatter_planes(job, group, planes, 0, planes * size)
        group += planes


cdef inline void gather_task(const Job *job, Py_ssize_t task, Found *found, void *_, void *__) noexcept nogil:
    """One task of gather: some blocks of windows."""
    cdef Py_ssize_t groups = job.batch * job.channels // job.interleaved_planes, blocks = block_count(job, groups)
    cdef Run run
    found.out_of_plane += move_blocks(job, &run, 0, groups, blocks * task // job.tasks,
                                      blocks * (task + 1) // job.tasks)
