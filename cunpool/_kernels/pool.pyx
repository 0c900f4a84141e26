"""Pooling: the maximum of each window and its index. Valid input is assumed.

`METHODS` is the table of methods, in the order in which they are tried, with their conditions in `pooling/plan.pxd`.
Before that, `plan_call` decides whether planes are copied to C order.
"""
cimport numpy as cnp

from cunpool._kernels.common.arrays cimport dense_end, make_contiguous, plane_address, View
from cunpool._kernels.common.caches cimport NONTEMPORAL_MIN_BYTES
from cunpool._kernels.common.checks cimport assert_in_block, branch_counted, condition_at, cunpool_conditions
from cunpool._kernels.common.copy_axes cimport copy_planes_of
from cunpool._kernels.common.geometry cimport element_count
from cunpool._kernels.common.job cimport begin_job, HALF_KIND, Job
from cunpool._kernels.common.methods cimport choose_method, Condition, described, Method, rejected_methods
from cunpool._kernels.common.tasks cimport Found, Kernel, run_tasks
from cunpool._kernels.memory cimport next_part, part_bytes
from cunpool._kernels.pooling.plan cimport (
    ACROSS_TAKEN, across_why_not, any_why_not, COPIED_TAKEN, copied_why_not, filter_why_not,
    FILTERED_TAKEN, INTERLEAVED_TAKEN, interleaved_why_not, LARGE_TAKEN, STACKED_TAKEN, Plan, rolling_stripes_why_not,
    ROLLING_TAKEN, separable_why_not, SEPARATED_TAKEN, STREAMED_TAKEN, WIDTH_SWAPPED_TAKEN, WINDOW2_TAKEN,
    whole_planes_why_not, window2_why_not)
from cunpool._kernels.runtime cimport explaining
from cunpool._kernels.runtime import Planned

cnp.import_array()


# The ways that a call can take. `pool` returns a sum of these, for the tests.
STACKED, ACROSS, STREAMED, LARGE, WINDOW2, FILTERED, COPIED, WIDTH_SWAPPED, ROLLING, SEPARATED, INTERLEAVED = (
    STACKED_TAKEN, ACROSS_TAKEN, STREAMED_TAKEN, LARGE_TAKEN, WINDOW2_TAKEN, FILTERED_TAKEN, COPIED_TAKEN,
    WIDTH_SWAPPED_TAKEN, ROLLING_TAKEN, SEPARATED_TAKEN, INTERLEAVED_TAKEN)


cdef void plan_copy(const Job *job, Py_ssize_t first, Py_ssize_t planes, char *planes_copy, Plan *plan) noexcept nogil:
    """The plan of some planes, from number `first` on, that are in C order in `planes_copy`."""
    cdef Job copy = job[0]
    copy.tasks = copy.batch = copy.threads = 1
    copy.channels = planes
    copy.full.data = planes_copy
    make_contiguous(&copy.full, job.g.full, job.item_size)
    copy.gapless = True
    copy.pooled.data = plane_address(&job.pooled, job.channels, first)
    if job.indices.data != NULL:
        copy.indices.data = plane_address(&job.indices, job.channels, first)
    plan_pool(&copy, plan)


cdef Py_ssize_t copied_bytes(const Job *job, Py_ssize_t planes) noexcept nogil:
    """Bytes of the copy of a lot."""
    return planes * element_count(job.g.full) * job.item_size


cdef void pool_copied(const Job *job, Py_ssize_t task, Found *found, void *full, void *_) noexcept nogil:
    """One task: some planes at a time, copied to C order and pooled like any others."""
    cdef Py_ssize_t most = (<const Plan *> job.plan).copied_planes, planes = job.batch * job.channels
    cdef Py_ssize_t lots = (planes + most - 1) // most, lot, first, some, together, i
    cdef View in_order = job.full
    cdef Plan plan
    cdef char *scratch = found.scratch
    cdef char *begin = scratch
    cdef char *planes_copy = next_part(&begin, copied_bytes(job, most))
    make_contiguous(&in_order, job.g.full, job.item_size)
    for lot in range(lots * task // job.tasks, lots * (task + 1) // job.tasks):
        first = lot * most
        some = min(most, planes - first)
        together = some if job.full.uniform_planes else 1
        for i in range(some // together):
            copy_planes_of(job.item_size, planes_copy + copied_bytes(job, i * together), &in_order,
                           plane_address(&job.full, job.channels, first + i * together), &job.full, together,
                           job.g.full)
        plan_copy(job, first, some, planes_copy, &plan)
        assert_in_block(begin - scratch + plan.job.scratch_bytes <= job.scratch_bytes)
        found.scratch = begin
        plan.kernel(&plan.job, 0, found, plan.job.full.data, plan.job.indices.data)
    found.scratch = scratch


# The methods, in the order in which they are tried.
cdef Method[8] METHODS
METHODS = [
    Method("rolling", <Condition> rolling_stripes_why_not),
    Method("window2", <Condition> window2_why_not),
    Method("NumPy", <Condition> whole_planes_why_not),
    Method("filter", <Condition> filter_why_not),
    Method("across", <Condition> across_why_not),
    Method("interleaved", <Condition> interleaved_why_not),
    Method("separable", <Condition> separable_why_not),
    Method("NumPy", <Condition> any_why_not)]


cdef void plan_pool(const Job *job, Plan *plan) noexcept nogil:
    """The plan of a call whose planes are pooled where they lie."""
    plan.method = choose_method(METHODS, job, plan)
    plan.copied_planes = 0
    plan.ways += STREAMED_TAKEN * plan.job.nontemporal


cdef const char *plan_copied(const Job *job, Plan *plan) noexcept nogil:
    """Plan a call that copies small planes first, because they are not contiguous. Returns why it does not, or NULL."""
    cdef Py_ssize_t some, lots, last_bytes, scratch_bytes, planes = job.batch * job.channels
    cdef bint is_last_pooled
    cdef const char *why = copied_why_not(job, &some)
    if why != NULL:
        return why
    lots = (planes + some - 1) // some
    # The last lot may have fewer planes, and another method.
    plan_copy(job, 0, planes - (lots - 1) * some, job.full.data, plan)
    last_bytes, is_last_pooled = plan.job.scratch_bytes, not plan.ways & LARGE_TAKEN
    plan_copy(job, 0, some, job.full.data, plan)
    if not branch_counted("copies that are not packed again",
                          is_last_pooled and plan.ways & (SEPARATED_TAKEN | FILTERED_TAKEN) != SEPARATED_TAKEN
                          and not plan.ways & (LARGE_TAKEN | INTERLEAVED_TAKEN)):
        return "the copy would be packed again, or pooled in NumPy"
    plan.copied_planes = some
    scratch_bytes = max(last_bytes, plan.job.scratch_bytes)
    plan.job = job[0]
    plan.job.tasks = min(job.tasks, lots)
    plan.job.plan = plan
    plan.job.scratch_bytes = part_bytes(copied_bytes(job, some)) + scratch_bytes
    plan.kernel = <Kernel> pool_copied
    plan.ways += COPIED_TAKEN
    return NULL


cdef void plan_call(const Job *job, Plan *plan) noexcept nogil:
    """The plan of a call: of copies, or else of the planes where they lie."""
    if plan_copied(job, plan) != NULL:
        plan_pool(job, plan)


cdef dict explained(const Job *job, const Plan *plan):
    """The plan for `cunpool.explain`, which puts it into words (`_methods.py`)."""
    cdef Plan other
    rejected = []
    if not plan.copied_planes:
        rejected.append(("copying planes to C order first", plan_copied(job, &other).decode()))
        rejected += rejected_methods(METHODS, plan.method, job, &other)
    found = described(plan.method, &plan.job, plan.ways | WIDTH_SWAPPED_TAKEN * (plan.job.raster_axes[2] != 2),
                      rejected, job.kind >= HALF_KIND)
    found["copied"] = plan.copied_planes
    found["shares_rows"] = plan.ways & INTERLEAVED_TAKEN and plan.interleaved.shares_rows
    found["searches"] = plan.ways & FILTERED_TAKEN and job.indices.data != NULL
    if plan.ways & ROLLING_TAKEN:
        found["blocks"] = (plan.rolling.block_rows,)
    elif plan.ways & INTERLEAVED_TAKEN:
        found["blocks"] = plan.interleaved.planes, plan.interleaved.windows[0], plan.interleaved.windows[1]
    elif plan.ways & SEPARATED_TAKEN:
        found["blocks"] = tuple([plan.blocked.blocks.axis[axis].most for axis in range(4)])
    return found


def pool(cnp.ndarray full not None, cnp.ndarray pooled not None, cnp.ndarray indices, tuple sizes, int spatial,
         tuple order, bint codes, int threads, bint omits_nan=False):
    """Fill `pooled` and, unless it is None, `indices`: int64 or int32, or window codes. Returns the ways taken.

    If LARGE is one of them, no method serves the call, and the arrays are as before.
    `_orders.py` has the orders of numbers.
    """
    cdef Job job
    cdef Plan plan
    cdef Py_ssize_t width
    cdef int axis
    begin_job(&job, sizes, full, pooled, indices, spatial, codes, threads)
    job.kind, job.order_kind, job.flip, job.lowest, job.nan, job.infinity = order
    job.omits_nan = omits_nan and job.kind >= HALF_KIND
    width = job.g.full[2]
    job.raster_axes = [0, 1, 2]
    job.raster_steps = [job.g.full[1] * width, width, 1]
    # Unsigned: if all elements of a window but one miss the array, the dilation may be so large that products wrap.
    for axis in range(3):
        job.index_steps[axis] = <Py_ssize_t> (<size_t> job.g.dilation[axis] * <size_t> job.raster_steps[axis])
    if codes:
        job.index_steps = [job.g.kernel[1] * job.g.kernel[2], job.g.kernel[2], 1]
    # The elements of one plane, or of all channels if these are neighbours.
    job.gapless = branch_counted("elements without gaps between them",
                                 dense_end(&job.full, 1, job.channels if job.full.channel_bytes == job.item_size else 1,
                                           job.g.full, job.item_size) != NULL)
    job.nontemporal = branch_counted("arrays beyond the caches",
                                     cnp.PyArray_SIZE(full) * job.item_size + cnp.PyArray_SIZE(pooled)
                                     * (job.item_size + job.index_size) >= NONTEMPORAL_MIN_BYTES)
    job.tasks = 1 if threads == 1 else min(8 * threads, cnp.PyArray_SIZE(pooled))  # fault: a shift out of range
    plan_call(&job, &plan)
    if explaining():
        raise Planned(explained(&job, &plan))
    if plan.ways & LARGE_TAKEN:
        return plan.ways
    run_tasks(plan.kernel, &plan.job,
              job.item_size * (cnp.PyArray_SIZE(full)
                               + <double> cnp.PyArray_SIZE(pooled) * element_count(job.g.kernel)))
    return plan.ways


def conditions():
    """How often each condition was false, and true. Only a checked build counts."""
    return [condition_at(i) for i in range(cunpool_conditions())]
