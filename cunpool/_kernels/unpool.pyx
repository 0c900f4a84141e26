"""Unpooling, and pooling's gradient, which adds numbers where unpooling stores elements.

Unpooling moves bits, so that an element type is a size. Valid arguments are required, but every index is checked.

Scatter zeroes the output and stores each value where its index points. Fill, for adjacent windows, writes the output in
the order of memory: each element is its window's value if the index names it. That needs no zeroing and vectorises. An
index outside its own window is scattered after all. `METHODS` is the table of methods, in order.
"""
from libc.string cimport memset
cimport numpy as cnp

from cunpool._kernels.common.arrays cimport element_address, plane_address, raster_stride
from cunpool._kernels.common.caches cimport PREFETCH_BYTES
from cunpool._kernels.common.checks cimport assert_in_block, branch_counted, conditions_met
from cunpool._kernels.common.geometry cimport element_count, Geometry
from cunpool._kernels.common.job cimport are_full_planes_adjacent, Job
from cunpool._kernels.common.methods cimport choose_method, Condition, described, Method, rejected_methods
from cunpool._kernels.common.tasks cimport Found, Kernel, run_tasks, shares_of
from cunpool._kernels.common.thresholds cimport (
    BAND_MAX_WINDOWS, CACHED_RESULT_BYTES, KEEP_GIL_MAX_BYTES, LARGE_L2_BYTES, UNPOOL_NONTEMPORAL_MIN_BYTES,
    ZERO_ADDED_BYTES, ZERO_LARGE_BYTES, ZERO_SMALL_BYTES)
from cunpool._kernels.common.types cimport (
    bhalf, float4, float8, half, index4, index8, item1, item16, item2, item4, item8)
from cunpool._kernels.unpooling.fill cimport fill_task
from cunpool._kernels.unpooling.fill_plan cimport fill_why_not, FillPlan
from cunpool._kernels.unpooling.indices cimport band_of, is_gapless, part_start, prepare_job, split_planes, zero_range
from cunpool._kernels.unpooling.scatter cimport prefetch_inputs, scatter_ops_for, ScatterOps
from cunpool._kernels.unpooling.window_codes cimport (
    block_stride, code_count, CodeBlock, decode, DECODE_MAX_CODES, Decoder, first_block, next_block, plan_decoder,
    PLANE_AXIS, row_block, row_count, row_offset, WIDTH_AXIS)
from cunpool._kernels.runtime cimport explaining
from cunpool._kernels.runtime import Planned

cnp.import_array()

cdef extern from "_kernels/unpool.h":
    const Py_ssize_t CUNPOOL_L2_BYTES

# Bytes of a large output that are zeroed, and then scattered to, together (speed). Never changed.
cdef Py_ssize_t zero_large_bytes = CUNPOOL_L2_BYTES // 8 if CUNPOOL_L2_BYTES > LARGE_L2_BYTES else ZERO_LARGE_BYTES

# What `unpool` returns is a sum of these: the method, and how it ran.
cdef enum:
    SCATTERED_TAKEN = 1
    FILLED_TAKEN = 2
    STRAYED_TAKEN = 4       # an index was outside its window
    ALL_LANES_TAKEN = 8
    SPLIT_TAKEN = 16
    STREAMED_TAKEN = 32
    BY_INDICES_TAKEN = 64

# What `explain` tells of a plan beside its method.
cdef dict WAYS = {
    SPLIT_TAKEN: "planes are split between tasks",
    ALL_LANES_TAKEN: "channels are neighbours, and are stored together (unpooling/scatter.pxd: scatter_channels)",
    BY_INDICES_TAKEN: "indices of windows of 2 are compared as they are (unpooling/fill_indices.pxd)",
    STREAMED_TAKEN: "results are written by non-temporal stores: the arrays are larger than the caches",
}
SCATTERED, FILLED, STRAYED, ALL_LANES, SPLIT, STREAMED, BY_INDICES = (
    SCATTERED_TAKEN, FILLED_TAKEN, STRAYED_TAKEN, ALL_LANES_TAKEN, SPLIT_TAKEN, STREAMED_TAKEN, BY_INDICES_TAKEN)


cdef Py_ssize_t scatter_codes(const Job *job, const CodeBlock *block, Py_ssize_t channel, Py_ssize_t low,
                              Py_ssize_t high, Py_ssize_t band, Py_ssize_t band_end) noexcept nogil:
    """Scatter a block of windows by codes, of some planes or of the interleaved channels from `channel` on.

    `positions` is allocated for DECODE_MAX_CODES of 8 bytes. `decode` writes to before round_up_codes(count), and the
    highest entry read is before the block's count.
    """
    cdef index8[DECODE_MAX_CODES] positions  # of 8 bytes, or of 4
    cdef const ScatterOps *ops = <const ScatterOps *> job.ops
    cdef Py_ssize_t plane = block.at[PLANE_AXIS] * job.interleaved_planes, width = block.count[WIDTH_AXIS]
    cdef Py_ssize_t position_bytes = 8 if job.wide_indices else 4
    cdef Py_ssize_t stride_bytes = block_stride(&job.pooled, block), outside = 0, row, w
    cdef char *out = plane_address(&job.full, job.channels, plane)
    cdef const char *values = element_address(&job.pooled, job.channels, plane, block.at[1], block.at[2],
                                              block.at[WIDTH_AXIS])
    cdef const char *indices = element_address(&job.indices, job.channels, plane, block.at[1], block.at[2],
                                               block.at[WIDTH_AXIS])
    cdef bint all_inside
    out += channel * ops.item_size
    values += channel * ops.item_size
    decode(job, indices + channel * job.code_size, block, <char *> positions, &all_inside)
    if job.interleaved_planes > 1:
        for w in range(width):
            outside += ops.across[job.wide_indices](job, out, values + w * job.pooled.axis_bytes[2],
                                                    <const char *> positions + w * block.interleaved * position_bytes,
                                                    block.interleaved, low, high, band, band_end, NULL, NULL)
    elif (all_inside and job.parts_per_plane == 1 and job.raster_stride_bytes == ops.item_size
            and stride_bytes == ops.item_size):
        ops.unchecked(out, values, <const index4 *> positions, code_count(block))
    elif stride_bytes:
        outside = ops.row[job.wide_indices](job, out, values, stride_bytes, <const char *> positions, position_bytes,
                                            code_count(block), low, high, band, band_end, NULL, NULL)
    else:
        for row in range(row_count(block)):
            outside += ops.row[job.wide_indices](job, out, values + row_offset(&job.pooled, block, row),
                                                 job.pooled.axis_bytes[2],
                                                 <const char *> positions + row * width * position_bytes,
                                                 position_bytes, width, low, high, band, band_end, NULL, NULL)
    return outside


cdef Py_ssize_t scatter_block(const Job *job, CodeBlock *block, Py_ssize_t low, Py_ssize_t high, Py_ssize_t band,
                              Py_ssize_t band_end) noexcept nogil:
    """`scatter_codes` for DECODE_MAX_CODES channels at a time."""
    cdef Py_ssize_t part, outside = 0
    for part in range((job.interleaved_planes + DECODE_MAX_CODES - 1) // DECODE_MAX_CODES):
        block.interleaved = min(job.interleaved_planes - part * DECODE_MAX_CODES, <Py_ssize_t> DECODE_MAX_CODES)
        outside += scatter_codes(job, block, part * DECODE_MAX_CODES, low, high, band, band_end)
    return outside


cdef Py_ssize_t scatter_row_part(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w,
                                 Py_ssize_t count, Py_ssize_t low, Py_ssize_t high,
                                 const Py_ssize_t *band) noexcept nogil:
    """Scatter part of a pooled row, in one plane or in all interleaved ones."""
    cdef const ScatterOps *ops = <const ScatterOps *> job.ops
    cdef char *out = plane_address(&job.full, job.channels, plane)
    cdef const char *values = element_address(&job.pooled, job.channels, plane, d, h, w)
    cdef const char *indices = element_address(&job.indices, job.channels, plane, d, h, w)
    cdef Py_ssize_t part, most, outside = 0
    cdef CodeBlock block
    if job.code_size:
        most = max(DECODE_MAX_CODES // job.interleaved_planes, 1)
        for part in range((count + most - 1) // most):
            row_block(job, plane, d, h, w + part * most, min(count - part * most, most), &block)
            outside += scatter_block(job, &block, low, high, band[0], band[1])
        return outside
    if job.interleaved_planes == 1:
        return ops.row[job.wide_indices](job, out, values, job.pooled.axis_bytes[2], indices, job.indices.axis_bytes[2],
                                         count, low, high, band[0], band[1], NULL, NULL)
    for _ in range(count):
        if job.prefetch_bytes:
            prefetch_inputs(job, values, job.interleaved_planes * ops.item_size, indices,
                            job.interleaved_planes * (8 if job.wide_indices else 4))
        outside += ops.across[job.wide_indices](job, out, values, indices, job.interleaved_planes, low, high, band[0],
                                                band[1], NULL, NULL)
        values += job.pooled.axis_bytes[2]
        indices += job.indices.axis_bytes[2]
    return outside


cdef Py_ssize_t scatter_plane(const Job *job, Py_ssize_t plane, Py_ssize_t low, Py_ssize_t high,
                              bint zeroing) noexcept nogil:
    """Zero and scatter the elements `low` to `high` of a plane, or of all interleaved planes, in raster order.

    Returns the number of indices outside the plane. A banded job reads only the rows whose windows reach these
    elements, and returns the number of indices outside the rows of their own windows. With one such index the job has
    to run again without bands, because another task may have missed it.
    """
    cdef const Geometry *g = &job.g
    cdef const ScatterOps *ops = <const ScatterOps *> job.ops
    cdef char *out = plane_address(&job.full, job.channels, plane)
    cdef Py_ssize_t width = g.pooled[2]
    cdef Py_ssize_t value_bytes = raster_stride(&job.pooled, g.pooled)
    cdef Py_ssize_t index_bytes = raster_stride(&job.indices, g.pooled)
    cdef Py_ssize_t d, h, w, part, count, outside = 0
    cdef Py_ssize_t *band = [0, element_count(g.full)]
    cdef CodeBlock block
    if high <= low:
        return 0
    if zeroing:
        zero_range(job, out, low, high, ops.item_size)
    if element_count(g.pooled) == 0:
        return 0
    if not job.banded and job.code_size:
        first_block(job, plane, &block)
        while block.at[PLANE_AXIS] == plane // job.interleaved_planes:
            outside += scatter_block(job, &block, low, high, 0, band[1])
            next_block(job, &block)
        return outside
    if not job.banded and job.interleaved_planes == 1 and value_bytes and index_bytes:
        return ops.row[job.wide_indices](job, out, plane_address(&job.pooled, job.channels, plane), value_bytes,
                                         plane_address(&job.indices, job.channels, plane), index_bytes,
                                         element_count(g.pooled), low, high, 0, band[1], NULL, NULL)
    for d in range(g.pooled[0]):
        for h in range(g.pooled[1]):
            for part in range((width + BAND_MAX_WINDOWS - 1) // BAND_MAX_WINDOWS):
                w = part * BAND_MAX_WINDOWS
                count = min(width - w, <Py_ssize_t> BAND_MAX_WINDOWS)
                if job.banded:
                    band_of(g, d, h, w, w + count, band)
                    # An empty band is read, too, by the task that it lies in, because every index is outside it.
                    if (band[1] <= low and band[0] < low) or (band[0] >= high and high < element_count(g.full)):
                        continue
                outside += scatter_row_part(job, plane, d, h, w, count, low, high, band)
    return outside


cdef bint are_planes_contiguous(const Job *job) noexcept nogil:
    """Whether the output is contiguous, from one plane to the next, too. Then no planes are interleaved."""
    return job.raster_stride_bytes == (<const ScatterOps *> job.ops).item_size and are_full_planes_adjacent(job)


cdef Py_ssize_t planes_zeroed_together(const Job *job, Py_ssize_t planes) noexcept nogil:
    """The number of planes that are zeroed, and scattered to, together."""
    cdef const ScatterOps *ops = <const ScatterOps *> job.ops
    cdef Py_ssize_t bytes = ZERO_SMALL_BYTES if planes * job.full.channel_bytes < ZERO_LARGE_BYTES else zero_large_bytes
    if not are_planes_contiguous(job):
        return 1
    if job.code_size and (<const Decoder *> job.decoder).block_windows[PLANE_AXIS] > 1:
        return (<const Decoder *> job.decoder).block_windows[PLANE_AXIS]
    return max(max(bytes, ZERO_ADDED_BYTES if ops.adds else 0) // job.full.channel_bytes, 1)


cdef void scatter_task(const Job *job, Py_ssize_t task, Found *found, void *_, void *__) noexcept nogil:
    """One task: some planes or groups of interleaved planes, or one part of a plane or group that is split."""
    cdef const ScatterOps *ops = <const ScatterOps *> job.ops
    cdef Py_ssize_t groups = job.batch * job.channels // job.interleaved_planes, size = element_count(job.g.full)
    cdef Py_ssize_t group = groups * task // job.tasks, end = groups * (task + 1) // job.tasks
    cdef Py_ssize_t part, planes_together, outside = 0
    cdef CodeBlock block
    cdef bint is_contiguous = (not job.code_size and are_planes_contiguous(job) and job.pooled.uniform_planes
                               and job.indices.uniform_planes
                               and raster_stride(&job.pooled, job.g.pooled) == ops.item_size
                               and raster_stride(&job.indices, job.g.pooled) == (8 if job.wide_indices else 4))
    if job.parts_per_plane > 1:
        part = task % job.parts_per_plane
        assert_in_block(part_start(job, part) <= part_start(job, part + 1))
        outside = scatter_plane(job, task // job.parts_per_plane * job.interleaved_planes, part_start(job, part),
                                part_start(job, part + 1), not job.zeroed)
    else:
        planes_together = planes_zeroed_together(job, groups)
        while group < end:
            planes_together = min(planes_together, end - group)
            if branch_counted("planes cleared together", planes_together > 1) or is_contiguous:
                zero_range(job, plane_address(&job.full, job.channels, group), 0, planes_together * size, ops.item_size)
            if is_contiguous:
                outside += ops.planes[job.wide_indices](job, group, group + planes_together, NULL, NULL)
            elif (planes_together > 1 and job.code_size
                    and (<const Decoder *> job.decoder).block_windows[PLANE_AXIS] > 1):
                first_block(job, group, &block)
                block.count[PLANE_AXIS] = planes_together
                outside += scatter_block(job, &block, 0, planes_together * size, 0, planes_together * size)
            else:
                for part in range(group, group + planes_together):
                    outside += scatter_plane(job, part * job.interleaved_planes, 0, size, planes_together == 1
                                             and not job.zeroed)
            group += planes_together
    if job.banded:
        found.out_of_window += outside
    else:
        found.out_of_plane += outside


# The kinds of elements: items by the logarithm of their size, then numbers that are added.
KINDS = ("1", "2", "4", "8", "16", "f2", "bf2", "f4", "f8")
cdef ScatterOps[9] SCATTER_OPS  # by kind
SCATTER_OPS = [scatter_ops_for(<item1 *> NULL), scatter_ops_for(<item2 *> NULL), scatter_ops_for(<item4 *> NULL),
               scatter_ops_for(<item8 *> NULL), scatter_ops_for(<item16 *> NULL), scatter_ops_for(<half *> NULL),
               scatter_ops_for(<bhalf *> NULL), scatter_ops_for(<float4 *> NULL), scatter_ops_for(<float8 *> NULL)]


cdef void plan_caching(Job *job, Py_ssize_t results, Py_ssize_t inputs, int threads) noexcept nogil:
    """Plan how many first bytes of the result are cached, and the distance of prefetches. The bytes behind them are
    written by non-temporal stores: those that exceed L3, and as many that would displace others."""
    # CACHED_RESULT_BYTES are not for one thread, which would wait for them, nor for indices, which fill the caches.
    job.cached_bytes = max(2 * UNPOOL_NONTEMPORAL_MIN_BYTES - results - inputs,
                           CACHED_RESULT_BYTES if job.code_size and threads > 1 else 0)
    job.nontemporal = branch_counted("arrays beyond the caches", results + inputs >= UNPOOL_NONTEMPORAL_MIN_BYTES)
    job.prefetch_bytes = PREFETCH_BYTES if job.nontemporal and not job.code_size else 0
    job.nontemporal = job.nontemporal and branch_counted("results beyond what is kept", job.cached_bytes < results)


cdef struct Plan:
    # The method of a call, and what it needs.
    Job job                 # the call as the method receives it
    const Method *method
    int ways
    FillPlan fill_plan
    Decoder decoder


cdef const char *fill_condition(const Job *job, Plan *plan) noexcept nogil:
    """Fill serves adjacent windows, in any order of the axes."""
    cdef const char *why = fill_why_not(job, &plan.fill_plan)
    if why == NULL:
        plan.job = job[0]  # unreached: compiled together with the next two lines
        plan.job.plan = &plan.fill_plan  # unreached: compiled together with the next line
        plan.job.tasks = min(plan.fill_plan.blocks, 1 if job.threads == 1 else <Py_ssize_t> 4 * job.threads)
        plan.ways = (FILLED_TAKEN + STREAMED_TAKEN * job.nontemporal
                     + BY_INDICES_TAKEN * plan.fill_plan.by_indices)
    return why


cdef const char *scatter_condition(const Job *job, Plan *plan) noexcept nogil:
    """Scatter serves all calls."""
    plan.job = job[0]
    plan.ways = SCATTERED_TAKEN + SPLIT_TAKEN * (job.parts_per_plane > 1) + ALL_LANES_TAKEN * (
        job.interleaved_planes > 1)
    if job.code_size:
        plan.job.decoder = &plan.decoder  # unreached: compiled together with the next line
        plan_decoder(&plan.job, &plan.decoder)
        plan.job.wide_indices = plan.decoder.is_wide
    return NULL


# The methods, in the order in which they are tried.
cdef Method[2] METHODS
METHODS = [
    Method("fill", "unpooling/fill.pxd", "fill_blocks",
           "an index outside its own window: the whole call is scattered (a window code is an error)",
           <Condition> fill_condition),
    Method("scatter", "unpooling/scatter.pxd", "scatter_row",
           "an index outside its own window, where a plane is split: the call is scattered again, each index checked "
           "against the whole plane", <Condition> scatter_condition)]


cdef dict explained(const Job *job, const Plan *plan):
    """The plan for `cunpool.explain`."""
    cdef Plan other
    details, blocks = [], {}
    for way, detail in WAYS.items():
        if plan.ways & way:
            details.append(detail)
    if plan.ways & SCATTERED_TAKEN and job.code_size:
        details.append("window codes become indices (unpooling/window_codes.pxd: decode)")
    if plan.ways & FILLED_TAKEN:
        blocks = {"rows of windows": plan.fill_plan.most_rows, "windows of a row": plan.fill_plan.most_windows,
                  "neighbouring channels": plan.fill_plan.most_unit}
    return described(plan.method, rejected_methods(METHODS, plan.method, job, &other), details, blocks, plan.job.tasks,
                     0, job.threads, shares_of(&plan.job, job.threads),
                     not plan.ways & SCATTERED_TAKEN or plan.job.banded)


def unpool(cnp.ndarray pooled not None, cnp.ndarray indices not None, cnp.ndarray full not None, tuple sizes,
           int spatial, int kind, bint codes, int threads):
    """Fill `full`. Returns 0 if an index is outside its plane (then `full` is unspecified), else the ways."""
    cdef Job job  # unreached: a declaration
    cdef Plan plan  # unreached: a declaration
    cdef Found found  # unreached: a declaration
    cdef Py_ssize_t item_size = cnp.PyArray_ITEMSIZE(full), index_size = cnp.PyArray_ITEMSIZE(indices)
    cdef Py_ssize_t results = cnp.PyArray_SIZE(full) * item_size
    cdef Py_ssize_t inputs = cnp.PyArray_SIZE(pooled) * (item_size + index_size)
    prepare_job(&job, sizes, pooled, indices, full, spatial, codes)
    if results == 0:
        return SCATTERED_TAKEN
    job.kind = kind
    job.threads = threads
    job.ops = &SCATTER_OPS[kind]
    job.wide_indices = index_size == 8
    plan_caching(&job, results, inputs, threads)
    split_planes(&job, threads)  # for scatter, the fallback of all methods
    plan.method = choose_method(METHODS, &job, &plan)
    if explaining():
        raise Planned(explained(&job, &plan))
    if max(results, cnp.PyArray_SIZE(pooled) * item_size) <= KEEP_GIL_MAX_BYTES:
        found = unpool_job(&plan.job, plan.ways)
    else:
        with nogil:
            found = unpool_job(&plan.job, plan.ways)
    return 0 if found.out_of_plane else plan.ways + STRAYED_TAKEN * (found.out_of_window > 0)


cdef Found run_scatter(Job *job) noexcept nogil:
    """Scatter. Planes that share cache lines, as those of interleaved channels, are zeroed together before (speed)."""
    job.zeroed = (job.raster_stride_bytes != job.interleaved_planes * job.item_size
                  and not is_gapless(job, job.interleaved_planes * job.item_size, 1, 1)
                  and branch_counted("planes that share their cache lines",
                                     is_gapless(job, job.item_size, job.batch, job.channels)))
    if job.zeroed:
        memset(job.full.data, 0, job.batch * job.channels * element_count(job.g.full) * job.item_size)
    return run_tasks(scatter_task, job, job.threads)


cdef Found unpool_job(Job *job, int ways) noexcept nogil:
    """Run the method. Where fill, or a split plane, meets an index outside its window, scatter the call."""
    cdef Found found
    if ways & FILLED_TAKEN:
        found = run_tasks(<Kernel> fill_task, job, job.threads)
    else:
        found = run_scatter(job)
    if not found.out_of_window:
        return found
    if job.code_size:
        found.out_of_plane += found.out_of_window  # such a code names no element at all
        return found
    split_planes(job, job.threads)
    job.banded = False
    found.out_of_plane = run_scatter(job).out_of_plane
    return found


def conditions():
    """How often each condition was false, and true. Only a checked build counts."""
    return conditions_met()
