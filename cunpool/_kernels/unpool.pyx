"""Unpooling, its gradient, which gathers, and pooling's gradient, which adds numbers where unpooling stores elements.

Unpooling moves bits, so that an element type is a size. Valid arguments are required, but every index is checked.

Scatter zeroes the output, or gives it another background, and stores each value where its index points. Fill, for
adjacent windows, writes the output in the order of memory: each element is its window's value if the index names it.
That needs no zeroing and vectorises. An index outside its own window is scattered after all. `METHODS` is the table of
methods, in order.
"""
from libc.string cimport memset
cimport numpy as cnp

from cunpool._kernels.common.checks cimport branch_counted, condition_at, cunpool_conditions
from cunpool._kernels.common.geometry cimport element_count
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.methods cimport choose_method, Condition, described, Method, rejected_methods
from cunpool._kernels.common.tasks cimport Found, Kernel, run_tasks
from cunpool._kernels.common.thresholds cimport CACHED_RESULT_BYTES, UNPOOL_NONTEMPORAL_MIN_BYTES
from cunpool._kernels.common.types cimport (
    bhalf, element, float4, float8, half, index4, index8, item, item1, item16, item2, item4, item8)
from cunpool._kernels.unpooling.fill cimport canonicalize_values, fill_blocks
from cunpool._kernels.unpooling.fill_indices cimport fill_by_indices
from cunpool._kernels.unpooling.fill_plan cimport fill_why_not, FillPlan
from cunpool._kernels.unpooling.fill_select cimport VECTOR_BYTES
from cunpool._kernels.unpooling.gather cimport gather_channels, gather_row, gather_task
from cunpool._kernels.unpooling.indices cimport is_gapless, prepare_job, set_background, split_planes
from cunpool._kernels.unpooling.scatter cimport scatter_channels, scatter_row, scatter_task, scatter_unchecked
from cunpool._kernels.unpooling.turned cimport move_turned, plan_worker, Turned
from cunpool._kernels.unpooling.walk cimport ByIndices, Canonicalize, Loop, Loops
from cunpool._kernels.unpooling.window_codes cimport BlockPlan, plan_blocks
from cunpool._kernels.runtime cimport explaining
from cunpool._kernels.runtime import Planned

cnp.import_array()

# `unpool` and `unpool_backward` return a sum of these: the method, and how it ran.
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
    GATHERED_TAKEN = 512

SCATTERED, FILLED, STRAYED, INTERLEAVED, SPLIT, STREAMED, BY_INDICES, TURNED, ONTO, GATHERED = (
    SCATTERED_TAKEN, FILLED_TAKEN, STRAYED_TAKEN, INTERLEAVED_TAKEN, SPLIT_TAKEN, STREAMED_TAKEN, BY_INDICES_TAKEN,
    TURNED_TAKEN, ONTO_TAKEN, GATHERED_TAKEN)


cdef Loops loops_for(element *_) noexcept nogil:
    cdef Loops loops
    loops.row[0] = [<Loop> scatter_row[element, index4], <Loop> scatter_row[element, index8]]
    loops.across[0] = [<Loop> scatter_channels[element, index4], <Loop> scatter_channels[element, index8]]
    if element in item:
        loops.row[1] = [<Loop> gather_row[element, index4], <Loop> gather_row[element, index8]]
        loops.across[1] = [<Loop> gather_channels[element, index4], <Loop> gather_channels[element, index8]]
    loops.unchecked = <Loop> scatter_unchecked[element]
    loops.fill = (<Kernel> fill_blocks[item1] if sizeof(element) == 1 else
                  <Kernel> fill_blocks[item2] if sizeof(element) == 2 else
                  <Kernel> fill_blocks[item4] if sizeof(element) == 4 else <Kernel> fill_blocks[item8])
    loops.canonicalize = NULL
    if element is half or element is bhalf or element is float4 or element is float8:
        loops.canonicalize = <Canonicalize> canonicalize_values[element]
    if element is item4 or element is item8 or element is float4 or element is float8:
        loops.by_indices = [<ByIndices> fill_by_indices[element, index4], <ByIndices> fill_by_indices[element, index8]]
    return loops


# The kinds of elements: items by the logarithm of their size, then numbers that are added.
KINDS = ("1", "2", "4", "8", "16", "f2", "bf2", "f4", "f8")
cdef Loops[9] LOOPS     # by kind
LOOPS = [
    loops_for(<item1 *> NULL), loops_for(<item2 *> NULL), loops_for(<item4 *> NULL), loops_for(<item8 *> NULL),
    loops_for(<item16 *> NULL), loops_for(<half *> NULL), loops_for(<bhalf *> NULL), loops_for(<float4 *> NULL),
    loops_for(<float8 *> NULL)]


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
    BlockPlan blocks


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


cdef const char *move_condition(const Job *job, Plan *plan) noexcept nogil:
    """Scatter and gather serve all of their calls."""
    cdef bint is_turned
    plan.job = job[0]
    is_turned = plan_worker(&plan.job, &plan.turned, &plan.blocks)
    plan.ways = ((GATHERED_TAKEN if job.gathers else SCATTERED_TAKEN)
                 + SPLIT_TAKEN * (plan.job.parts_per_plane > 1) + INTERLEAVED_TAKEN * (job.interleaved_planes > 1)
                 + TURNED_TAKEN * is_turned + ONTO_TAKEN * (job.in_place or job.background != NULL))
    return NULL


# The methods, in the order in which they are tried. Gather is the only one of `unpool_backward`.
cdef Method[3] METHODS
METHODS = [Method("fill", <Condition> fill_condition), Method("scatter", <Condition> move_condition),
           Method("gather", <Condition> move_condition)]


cdef dict explained(const Job *job, const Plan *plan):
    """The plan for `cunpool.explain`, which puts it into words (`_methods.py`)."""
    cdef Plan other
    cdef const Method *first = plan.method if plan.ways & GATHERED_TAKEN else METHODS
    cdef const FillPlan *fill = &plan.fill_plan
    found = described(plan.method, &plan.job, plan.ways, rejected_methods(first, plan.method, job, &other),
                      not plan.ways & SCATTERED_TAKEN or plan.job.banded)
    if plan.ways & FILLED_TAKEN:
        found["blocks"] = fill.most_rows, fill.most_windows, fill.most_unit
        found["line"] = fill.unit, fill.item_size, fill.line.taps, fill.mixed.vectors, VECTOR_BYTES
    return found


def unpool(cnp.ndarray pooled not None, cnp.ndarray indices not None, cnp.ndarray full not None, tuple sizes,
           int spatial, int kind, bint codes, int threads, cnp.ndarray background=None):
    """Fill `full`. Returns 0 if an index is outside its plane (then `full` is unspecified), else the ways.

    `background` is stored where no index points, in place of zeros. It has the shape and dtype of `full`, and is `full`
    itself or does not overlap it. Or it is one element without axes.
    """
    cdef Job job  # unreached: a declaration
    cdef Plan plan  # unreached: a declaration
    cdef Py_ssize_t item_size = cnp.PyArray_ITEMSIZE(full), results = cnp.PyArray_SIZE(full) * item_size
    cdef Py_ssize_t inputs = cnp.PyArray_SIZE(pooled) * (item_size + cnp.PyArray_ITEMSIZE(indices))
    prepare_job(&job, sizes, pooled, indices, full, spatial, codes, threads)
    if results == 0:
        return SCATTERED_TAKEN
    job.ops = &LOOPS[kind]
    if background is not None:
        set_background(&job, full, background)
    plan_caching(&job, results, inputs)
    split_planes(&job)  # for scatter, the fallback of all methods
    plan.method = choose_method(METHODS, &job, &plan)
    if job.in_place and not explaining():
        cnp.PyArray_CopyInto(full, background)
    return run_plan(&job, &plan, max(results, cnp.PyArray_SIZE(pooled) * item_size))


def unpool_backward(cnp.ndarray full not None, cnp.ndarray indices not None, cnp.ndarray pooled not None, tuple sizes,
                    int spatial, int kind, bint codes, int threads):
    """Fill `pooled` from where the indices point. Returns 0 if one is outside its plane, else the ways."""
    cdef Job job
    cdef Plan plan
    prepare_job(&job, sizes, pooled, indices, full, spatial, codes, threads)
    if cnp.PyArray_SIZE(pooled) == 0:
        return GATHERED_TAKEN
    job.ops = &LOOPS[kind]
    job.gathers = True
    job.tasks = 1 if threads == 1 else min(8 * threads, cnp.PyArray_SIZE(pooled))
    plan.method = choose_method(&METHODS[2], &job, &plan)
    return run_plan(&job, &plan, max(cnp.PyArray_SIZE(full), cnp.PyArray_SIZE(pooled)) * job.item_size)


cdef int run_plan(const Job *job, Plan *plan, Py_ssize_t most_bytes) except -1:
    """Run a call whose larger array has `most_bytes`. Returns 0 if an index is outside its plane, else the ways."""
    cdef Found found
    if explaining():
        raise Planned(explained(job, plan))
    found = unpool_job(plan, most_bytes)
    return 0 if found.out_of_plane else plan.ways + STRAYED_TAKEN * (found.out_of_window > 0)


cdef Found run_scatter(Job *job, Py_ssize_t most_bytes) except *:
    """Scatter. Planes that share cache lines, such as interleaved channels, are zeroed together before (speed)."""
    job.zeroed = (not job.in_place and job.raster_stride_bytes != job.interleaved_planes * job.item_size
                  and not is_gapless(job, job.interleaved_planes * job.item_size, 1, 1)
                  and branch_counted("planes that share their cache lines",
                                     is_gapless(job, job.item_size, job.batch, job.channels)))
    if job.zeroed:
        with nogil:
            memset(job.full.data, 0, job.batch * job.channels * element_count(job.g.full) * job.item_size)
    job.zeroed |= job.in_place  # unreached: compiled together with the next line
    return run_tasks(scatter_task, job, most_bytes)


cdef Found unpool_job(Plan *plan, Py_ssize_t most_bytes) except *:
    """Run the method. If fill, or a split plane, meets an index outside its window, scatter the whole call."""
    cdef Job *job = &plan.job
    cdef Found found
    if plan.ways & FILLED_TAKEN:
        found = run_tasks((<const Loops *> job.ops).fill, job, most_bytes)
    elif plan.ways & TURNED_TAKEN:
        found = run_tasks(move_turned, job, most_bytes)
    elif plan.ways & GATHERED_TAKEN:
        found = run_tasks(gather_task, job, most_bytes)
    else:
        found = run_scatter(job, most_bytes)
    if not found.out_of_window:
        return found
    if job.code_size:
        # Such a code names no element at all.
        found.out_of_plane += found.out_of_window  # unreached: gcov counts it with the next line
        return found
    split_planes(job)
    job.banded = False
    plan_blocks(job, &plan.blocks)  # fill planned none
    found.out_of_plane = run_scatter(job, most_bytes).out_of_plane
    return found


def conditions():
    """How often each condition was false, and true. Only a checked build counts."""
    return [condition_at(i) for i in range(cunpool_conditions())]
