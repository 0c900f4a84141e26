"""Unpooling, and pooling's gradient, which adds numbers where unpooling stores elements.

Unpooling moves bits, so that an element type is a size. Valid arguments are required, but every index is checked.

Scatter zeroes the output, or gives it another background, and stores each value where its index points. Fill, for
adjacent windows, writes the output in the order of memory: each element is its window's value if the index names it.
That needs no zeroing and vectorises. An index outside its own window is scattered after all. `METHODS` is the table of
methods, in order.
"""
from libc.string cimport memset
cimport numpy as cnp

from cunpool._kernels.common.arrays cimport plane_address, raster_stride
from cunpool._kernels.common.checks cimport assert_in_block, branch_counted, conditions_met
from cunpool._kernels.common.geometry cimport element_count, Geometry
from cunpool._kernels.common.job cimport are_full_planes_adjacent, Job
from cunpool._kernels.common.methods cimport choose_method, Condition, described, Method, rejected_methods
from cunpool._kernels.common.tasks cimport Found, Kernel, run_tasks, scratch_for
from cunpool._kernels.common.thresholds cimport (
    BAND_MAX_WINDOWS, CACHED_RESULT_BYTES, KEEP_GIL_MAX_BYTES, UNPOOL_NONTEMPORAL_MIN_BYTES,
    ZERO_ADDED_BYTES, ZERO_BYTES)
from cunpool._kernels.common.types cimport (
    bhalf, float4, float8, half, item1, item16, item2, item4, item8)
from cunpool._kernels.unpooling.fill cimport fill_task
from cunpool._kernels.unpooling.fill_plan cimport fill_why_not, FillPlan
from cunpool._kernels.unpooling.fill_select cimport VECTOR_BYTES
from cunpool._kernels.unpooling.indices cimport (
    expected_range, is_gapless, lay_background, part_start, prepare_job, set_background, split_planes)
from cunpool._kernels.unpooling.scatter cimport scatter_loops_for
from cunpool._kernels.unpooling.turned cimport move_turned, plan_worker, Turned
from cunpool._kernels.unpooling.walk cimport Loops, move_block, move_row, point_to, Run
from cunpool._kernels.unpooling.window_codes cimport CodeBlock, Decoder, first_block, next_block, PLANE_AXIS
from cunpool._kernels.memory cimport give_scratch
from cunpool._kernels.runtime cimport explaining
from cunpool._kernels.runtime import Planned

cnp.import_array()

# `unpool` returns a sum of these: the method, and how it ran.
cdef enum:
    SCATTERED_TAKEN = 1
    FILLED_TAKEN = 2
    STRAYED_TAKEN = 4       # an index was outside its window
    INTERLEAVED_TAKEN = 8
    SPLIT_TAKEN = 16
    STREAMED_TAKEN = 32
    BY_INDICES_TAKEN = 64
    TURNED_TAKEN = 128
    ONTO_TAKEN = 256

# Details of a plan that `explain` prints beside the method.
cdef dict WAYS = {
    SPLIT_TAKEN: "planes are split between tasks",
    INTERLEAVED_TAKEN: "channels are neighbours, and are stored together (unpooling/scatter.pxd: scatter_channels)",
    BY_INDICES_TAKEN: "indices of windows of 2 are compared as they are (unpooling/fill_indices.pxd)",
    TURNED_TAKEN: "planes are turned to C order, some at a time (unpooling/turned.pxd: move_turned)",
    ONTO_TAKEN: "elements are stored onto a background other than zeros",
    STREAMED_TAKEN: "results are written by non-temporal stores: the arrays are larger than L3",
}
SCATTERED, FILLED, STRAYED, INTERLEAVED, SPLIT, STREAMED, BY_INDICES, TURNED = (
    SCATTERED_TAKEN, FILLED_TAKEN, STRAYED_TAKEN, INTERLEAVED_TAKEN, SPLIT_TAKEN, STREAMED_TAKEN, BY_INDICES_TAKEN,
    TURNED_TAKEN)


cdef Py_ssize_t scatter_bands(const Job *job, Run *run, Py_ssize_t plane) noexcept nogil:
    """Scatter the pooled rows whose windows reach the elements `low` to `high` of a split plane.

    Returns the number of indices outside the rows of their own windows. With one such index the job has to run again
    without bands, because another task may have missed it.
    """
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t width = g.pooled[2], size = element_count(g.full), d, h, part, w, count, outside = 0
    cdef Py_ssize_t[2] expected
    for d in range(g.pooled[0]):
        for h in range(g.pooled[1]):
            for part in range((width + BAND_MAX_WINDOWS - 1) // BAND_MAX_WINDOWS):
                w = part * BAND_MAX_WINDOWS
                count = min(width - w, <Py_ssize_t> BAND_MAX_WINDOWS)
                expected_range(g, d, h, w, w + count, expected)
                # Rows that expect no index are read by the task in which they lie: all of their indices are outside.
                if (expected[1] <= run.low and expected[0] < run.low) or (expected[0] >= run.high and run.high < size):
                    continue
                run.expected_begin, run.expected_end = expected[0], expected[1]
                outside += move_row(job, run[0], plane, d, h, w, count)
    return outside


cdef Py_ssize_t scatter_plane(const Job *job, Py_ssize_t plane, Py_ssize_t low, Py_ssize_t high,
                              bint zeroing) noexcept nogil:
    """Zero and scatter the elements `low` to `high` of a plane, or of all interleaved planes, in raster order.

    Returns the number of indices outside the plane, or of a banded job what `scatter_bands` returns.
    """
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t d, h, outside = 0
    cdef CodeBlock block
    cdef Run run
    if high <= low:
        return 0
    if zeroing:
        lay_background(job, plane_address(&job.full, job.channels, plane), low, high, job.item_size)
    if element_count(g.pooled) == 0:
        return 0
    run.low, run.high, run.expected_begin, run.expected_end = low, high, 0, element_count(g.full)
    if job.banded:
        return scatter_bands(job, &run, plane)
    if job.code_size:
        first_block(job, plane, &block)
        while block.at[PLANE_AXIS] == plane // job.interleaved_planes:
            outside += move_block(job, &run, &block)
            next_block(job, &block)
        return outside
    point_to(job, &run, plane, 0, 0, 0)
    run.value_bytes = raster_stride(&job.pooled, g.pooled)
    run.index_bytes = raster_stride(&job.indices, g.pooled)
    if job.interleaved_planes == 1 and run.value_bytes and run.index_bytes:
        run.count = element_count(g.pooled)
        return (<const Loops *> job.ops).row[job.wide_indices](job, &run, NULL, NULL)
    for d in range(g.pooled[0]):
        for h in range(g.pooled[1]):
            outside += move_row(job, run, plane, d, h, 0, g.pooled[2])
    return outside


cdef bint are_planes_contiguous(const Job *job) noexcept nogil:
    """Whether the output is contiguous, from one plane to the next, too. Then no planes are interleaved."""
    return job.raster_stride_bytes == job.item_size and are_full_planes_adjacent(job)


cdef Py_ssize_t planes_zeroed_together(const Job *job) noexcept nogil:
    """The number of planes that are zeroed, and scattered to, together."""
    cdef Py_ssize_t bytes = ZERO_ADDED_BYTES if (<const Loops *> job.ops).adds else ZERO_BYTES
    if not are_planes_contiguous(job):
        return 1
    if job.code_size and (<const Decoder *> job.decoder).block_windows[PLANE_AXIS] > 1:
        return (<const Decoder *> job.decoder).block_windows[PLANE_AXIS]
    return max(bytes // job.full.channel_bytes, 1)


cdef Py_ssize_t scatter_together(const Job *job, Py_ssize_t plane, Py_ssize_t planes,
                                 bint is_contiguous) noexcept nogil:
    """Zero and scatter some contiguous planes. Returns the number of indices outside their planes."""
    cdef Py_ssize_t size = element_count(job.g.full), outside = 0, k
    cdef CodeBlock block
    cdef Run run
    if not job.in_place:
        lay_background(job, plane_address(&job.full, job.channels, plane), 0, planes * size, job.item_size)
    run.low, run.high, run.expected_begin, run.expected_end = 0, planes * size, 0, planes * size
    if is_contiguous:
        point_to(job, &run, plane, 0, 0, 0)
        run.count = planes
        return (<const Loops *> job.ops).planes[job.wide_indices](job, &run, NULL, NULL)
    if job.code_size and (<const Decoder *> job.decoder).block_windows[PLANE_AXIS] > 1:
        first_block(job, plane, &block)
        block.count[PLANE_AXIS] = planes
        return move_block(job, &run, &block)
    for k in range(planes):
        outside += scatter_plane(job, plane + k, 0, size, False)
    return outside


cdef void scatter_task(const Job *job, Py_ssize_t task, Found *found, void *_, void *__) noexcept nogil:
    """One task: some planes or groups of interleaved planes, or one part of a plane or group that is split."""
    cdef Py_ssize_t groups = job.batch * job.channels // job.interleaved_planes, size = element_count(job.g.full)
    cdef Py_ssize_t group = groups * task // job.tasks, end = groups * (task + 1) // job.tasks, part, planes
    cdef Py_ssize_t outside = 0
    cdef bint is_contiguous
    if job.parts_per_plane > 1:
        part = task % job.parts_per_plane
        assert_in_block(part_start(job, part) <= part_start(job, part + 1))
        outside = scatter_plane(job, task // job.parts_per_plane * job.interleaved_planes, part_start(job, part),
                                part_start(job, part + 1), not job.zeroed)
        if job.banded:
            found.out_of_window += outside
            return
    is_contiguous = (not job.code_size and are_planes_contiguous(job) and job.pooled.uniform_planes
                     and job.indices.uniform_planes and raster_stride(&job.pooled, job.g.pooled) == job.item_size
                     and raster_stride(&job.indices, job.g.pooled) == job.index_size)
    planes = planes_zeroed_together(job)
    while group < end and job.parts_per_plane == 1:
        planes = min(planes, end - group)
        if branch_counted("planes cleared together", planes > 1) or is_contiguous:
            outside += scatter_together(job, group, planes, is_contiguous)
        else:
            outside += scatter_plane(job, group * job.interleaved_planes, 0, size, not job.zeroed)
        group += planes
    found.out_of_plane += outside


cdef void scatter_turned(const Job *job, Py_ssize_t task, Found *found, void *_, void *__) noexcept nogil:
    move_turned(job, task, found, scatter_task, False)


# The kinds of elements: items by the logarithm of their size, then numbers that are added.
KINDS = ("1", "2", "4", "8", "16", "f2", "bf2", "f4", "f8")
cdef Loops[9] SCATTER_LOOPS  # by kind
SCATTER_LOOPS = [
    scatter_loops_for(<item1 *> NULL), scatter_loops_for(<item2 *> NULL), scatter_loops_for(<item4 *> NULL),
    scatter_loops_for(<item8 *> NULL), scatter_loops_for(<item16 *> NULL), scatter_loops_for(<half *> NULL),
    scatter_loops_for(<bhalf *> NULL), scatter_loops_for(<float4 *> NULL), scatter_loops_for(<float8 *> NULL)]


cdef void plan_caching(Job *job, Py_ssize_t results, Py_ssize_t inputs) noexcept nogil:
    """Plan how many first bytes of the result are cached. The bytes behind them are written by non-temporal stores: all
    that exceed L3, and the same number again, which would displace others."""
    # CACHED_RESULT_BYTES are not for one thread, which would wait for them, nor for indices, which fill the caches.
    job.cached_bytes = max(2 * UNPOOL_NONTEMPORAL_MIN_BYTES - results - inputs,
                           CACHED_RESULT_BYTES if job.code_size and job.threads > 1 else 0)
    job.nontemporal = (
        branch_counted("arrays beyond the caches", results + inputs >= UNPOOL_NONTEMPORAL_MIN_BYTES)
        and branch_counted("results beyond what is kept", job.cached_bytes < results))


cdef struct Plan:
    # The method of a call, with its own plan.
    Job job                 # the call as the method receives it
    const Method *method
    int ways
    FillPlan fill_plan
    Turned turned
    Decoder decoder


cdef const char *fill_condition(const Job *job, Plan *plan) noexcept nogil:
    """Fill serves adjacent windows, in any order of the axes."""
    cdef const char *why
    if job.in_place or job.background != NULL:
        return "elements are stored onto a background other than zeros"
    why = fill_why_not(job, &plan.fill_plan)
    if why == NULL:
        plan.job = job[0]  # unreached: compiled together with the next two lines
        plan.job.plan = &plan.fill_plan  # unreached: compiled together with the next line
        plan.job.tasks = min(plan.fill_plan.blocks, 1 if job.threads == 1 else <Py_ssize_t> 4 * job.threads)
        plan.ways = (FILLED_TAKEN + STREAMED_TAKEN * job.nontemporal
                     + BY_INDICES_TAKEN * plan.fill_plan.by_indices)
    return why


cdef const char *scatter_condition(const Job *job, Plan *plan) noexcept nogil:
    """Scatter serves all calls."""
    cdef bint is_turned
    plan.job = job[0]
    is_turned = plan_worker(&plan.job, &plan.turned, &plan.decoder)
    plan.ways = (SCATTERED_TAKEN + SPLIT_TAKEN * (plan.job.parts_per_plane > 1)
                 + INTERLEAVED_TAKEN * (job.interleaved_planes > 1) + TURNED_TAKEN * is_turned
                 + ONTO_TAKEN * (job.in_place or job.background != NULL))
    return NULL


# The methods, in the order in which they are tried.
cdef Method[2] METHODS
METHODS = [
    Method("fill", "unpooling/fill.pxd", "fill_blocks",
           "unpooling/fill_lines.pxd: select_line, or for windows of 2 x 2 select_line_pairs",
           "an index outside its own window: the whole call is scattered (a window code is an error)",
           <Condition> fill_condition),
    Method("scatter", "unpooling/scatter.pxd", "scatter_row",
           "unpooling/scatter.pxd: scatter_elements",
           "an index outside its window, where a plane is split: all is scattered again",  # unreached: a text
           <Condition> scatter_condition)]


cdef void name_loop(const Plan *plan, dict found):
    """Name the function and the innermost loop that serve this call, where a method has several."""
    cdef Py_ssize_t item_size, size
    if plan.ways & FILLED_TAKEN:
        item_size = plan.fill_plan.item_size
        size = plan.fill_plan.unit * item_size
        if plan.fill_plan.by_indices:
            found["loop"] = "unpooling/fill_indices.pxd: fill_row_by_indices"
        elif plan.fill_plan.mixed.vectors:
            found["loop"] = "unpooling/fill_select.h: cunpool_select_mixed"
        elif (plan.fill_plan.unit > 1 or item_size == 16) and (size <= VECTOR_BYTES or size == 2 * VECTOR_BYTES):
            found["loop"] = "unpooling/fill_lines.pxd: select_units, by unpooling/fill_select.h: CUNPOOL_SELECT"
        elif plan.fill_plan.unit > 1 or plan.fill_plan.line.taps == 1:
            found["loop"] = ("unpooling/fill_lines.pxd: select_unit, by unpooling/fill_select.h: CUNPOOL_SELECT_LOOP, "
                             "or CUNPOOL_SELECT for less than 64 bytes")
        return
    if plan.ways & INTERLEAVED_TAKEN:
        found["function"] = "scatter_channels"
    elif plan.job.code_size:
        found["loop"] = "unpooling/scatter.pxd: scatter_unchecked, or scatter_elements if a code may be wrong"


cdef dict explained(const Job *job, const Plan *plan):
    """The plan for `cunpool.explain`."""
    cdef Plan other
    cdef dict found
    details, blocks = [], {}
    details += [detail for way, detail in WAYS.items() if plan.ways & way]
    if plan.ways & SCATTERED_TAKEN and job.code_size:
        details.append("window codes become indices (unpooling/window_codes.pxd: decode)")
    if plan.ways & FILLED_TAKEN:
        blocks = {"rows of windows": plan.fill_plan.most_rows, "windows of a row": plan.fill_plan.most_windows,
                  "neighbouring channels": plan.fill_plan.most_unit}
    found = described(plan.method, &plan.job, 0, rejected_methods(METHODS, plan.method, job, &other), details, blocks,
                      not plan.ways & SCATTERED_TAKEN or plan.job.banded)
    name_loop(plan, found)
    return found


def unpool(cnp.ndarray pooled not None, cnp.ndarray indices not None, cnp.ndarray full not None, tuple sizes,
           int spatial, int kind, bint codes, int threads, cnp.ndarray background=None):
    """Fill `full`. Returns 0 if an index is outside its plane (then `full` is unspecified), else the ways.

    `background` is stored where no index points, in place of zeros. It has the shape and dtype of `full`, and is `full`
    itself or does not overlap it. Or it is one element without axes.
    """
    cdef Job job  # unreached: a declaration
    cdef Plan plan  # unreached: a declaration
    cdef Found found  # unreached: a declaration
    cdef Py_ssize_t item_size = cnp.PyArray_ITEMSIZE(full), results = cnp.PyArray_SIZE(full) * item_size
    cdef Py_ssize_t inputs = cnp.PyArray_SIZE(pooled) * (item_size + cnp.PyArray_ITEMSIZE(indices))
    cdef void *scratch
    prepare_job(&job, sizes, pooled, indices, full, spatial, codes, threads)
    if results == 0:
        return SCATTERED_TAKEN
    job.kind = kind
    job.ops = &SCATTER_LOOPS[kind]
    if background is not None:
        set_background(&job, full, background)
    plan_caching(&job, results, inputs)
    split_planes(&job)  # for scatter, the fallback of all methods
    plan.method = choose_method(METHODS, &job, &plan)
    if explaining():
        raise Planned(explained(&job, &plan))
    if job.in_place:
        cnp.PyArray_CopyInto(full, background)
    scratch = scratch_for(&plan.job, 0)
    if max(results, cnp.PyArray_SIZE(pooled) * item_size) <= KEEP_GIL_MAX_BYTES:
        found = unpool_job(&plan.job, plan.ways)
    else:
        with nogil:
            found = unpool_job(&plan.job, plan.ways)
    give_scratch(scratch)
    return 0 if found.out_of_plane else plan.ways + STRAYED_TAKEN * (found.out_of_window > 0)


cdef Found run_scatter(Job *job) noexcept nogil:
    """Scatter. Planes that share cache lines, such as interleaved channels, are zeroed together before (speed)."""
    job.zeroed = (not job.in_place and job.raster_stride_bytes != job.interleaved_planes * job.item_size
                  and not is_gapless(job, job.interleaved_planes * job.item_size, 1, 1)
                  and branch_counted("planes that share their cache lines",
                                     is_gapless(job, job.item_size, job.batch, job.channels)))
    if job.zeroed:
        memset(job.full.data, 0, job.batch * job.channels * element_count(job.g.full) * job.item_size)
    job.zeroed |= job.in_place  # unreached: compiled together with the next line
    return run_tasks(scatter_task, job)


cdef Found unpool_job(Job *job, int ways) noexcept nogil:
    """Run the method. If fill, or a split plane, meets an index outside its window, scatter the whole call."""
    cdef Found found
    if ways & FILLED_TAKEN:
        found = run_tasks(<Kernel> fill_task, job)
    elif ways & TURNED_TAKEN:
        found = run_tasks(scatter_turned, job)
    else:
        found = run_scatter(job)
    if not found.out_of_window:
        return found
    if job.code_size:
        # Such a code names no element at all.
        found.out_of_plane += found.out_of_window  # unreached: gcov counts it with the next line
        return found
    split_planes(job)
    job.banded = False
    found.out_of_plane = run_scatter(job).out_of_plane
    return found


def conditions():
    """How often each condition was false, and true. Only a checked build counts."""
    return conditions_met()
