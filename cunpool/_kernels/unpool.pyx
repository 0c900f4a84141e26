"""Unpooling, its gradient, which gathers, and pooling's gradient, which adds numbers where unpooling stores elements.

Unpooling moves bits, so that an element type is a size. Valid arguments are required, but every index is checked.

Scatter zeroes the output, or gives it another background, and stores each value where its index points. Fill, for
adjacent windows, writes the output in the order of memory: each element is its window's value if the index names it.
That needs no zeroing and vectorises. An index outside its own window is scattered after all. `METHODS` is the table of
methods, in order.
"""
from libc.string cimport memset
cimport numpy as cnp

import numpy

from cunpool._kernels.common.arrays cimport dense_end
from cunpool._kernels.common.checks cimport branch_counted, condition_at, cunpool_conditions
from cunpool._kernels.common.geometry cimport element_count
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.methods cimport choose_method, Condition, described, Method, rejected_methods
from cunpool._kernels.common.tasks cimport Found, Kernel, run_tasks
from cunpool._kernels.common.thresholds cimport UNPOOL_NONTEMPORAL_MIN_BYTES
from cunpool._kernels.common.types cimport (
    bhalf, element, float4, float8, half, index4, index8, item1, item16, item2, item4, item8)
from cunpool._kernels.unpooling.fill cimport canonicalize_values, fill_blocks
from cunpool._kernels.unpooling.fill_indices cimport fill_by_indices
from cunpool._kernels.unpooling.fill_lines cimport VECTOR_BYTES
from cunpool._kernels.unpooling.fill_plan cimport fill_why_not, FillPlan
from cunpool._kernels.unpooling.indices cimport are_elements_adjacent, prepare_job, set_background, split_planes
from cunpool._kernels.unpooling.scatter cimport gather_task, scatter_task
from cunpool._kernels.unpooling.turned cimport move_turned, plan_turned, Turned
from cunpool._kernels.unpooling.walk cimport ByIndices, Canonicalize, Loop, Loops, move_run
from cunpool._kernels.unpooling.window_codes cimport BlockPlan, plan_blocks
from cunpool._kernels.runtime cimport explaining
from cunpool._kernels.runtime import Planned

cnp.import_array()

# `unpool` and `unpool_backward` return a sum of these: the method, and how it ran.
cpdef enum:
    SCATTERED = 1
    FILLED = 2
    STRAYED = 4         # an index was outside its window
    INTERLEAVED = 8
    SPLIT = 16
    STREAMED = 32
    BY_INDICES = 64
    TURNED = 128
    ONTO = 256
    GATHERED = 512


cdef Loops loops_for(element *_) noexcept nogil:
    cdef Loops loops
    loops.move = [<Loop> move_run[element, index4], <Loop> move_run[element, index8]]
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


cdef struct Plan:
    # The method of a call, with its own plan.
    Job job                 # the call as the method receives it
    const Method *method
    Kernel kernel           # which runs the method's tasks
    int ways
    FillPlan fill_plan
    Turned turned
    BlockPlan blocks


cdef const char *fill_condition(const Job *job, Plan *plan) noexcept nogil:
    """Fill serves adjacent windows, in any order of the axes."""
    cdef const char *why
    if job.has_background:
        return "elements are stored onto a background other than zeros"
    why = fill_why_not(job, &plan.fill_plan)
    if why == NULL:
        plan.job = job[0]  # unreached: compiled together with the next three lines
        plan.kernel = (<const Loops *> job.ops).fill  # unreached: compiled together with the next two lines
        plan.job.plan = &plan.fill_plan  # unreached: compiled together with the next line
        plan.job.tasks = min(plan.fill_plan.blocks, 1 if job.threads == 1 else <Py_ssize_t> 4 * job.threads)
        plan.ways = (FILLED + STREAMED * job.nontemporal
                     + BY_INDICES * plan.fill_plan.by_indices)
    return why


cdef const char *move_condition(const Job *job, Plan *plan) noexcept nogil:
    """Scatter and gather serve all of their calls."""
    cdef bint is_turned
    plan.job = job[0]
    is_turned = plan_turned(&plan.job, &plan.turned)
    plan_blocks(&plan.turned.inner if is_turned else &plan.job, &plan.blocks)
    plan.kernel = move_turned if is_turned else gather_task if job.gathers else scatter_task
    plan.ways = ((GATHERED if job.gathers else SCATTERED)
                 + SPLIT * (plan.job.parts_per_plane > 1) + INTERLEAVED * (job.interleaved_planes > 1)
                 + TURNED * is_turned + ONTO * job.has_background)
    return NULL


# The methods, in the order in which they are tried. Gather is the only one of `unpool_backward`.
cdef Method[3] METHODS
METHODS = [Method("fill", <Condition> fill_condition), Method("scatter", <Condition> move_condition),
           Method("gather", <Condition> move_condition)]


cdef dict explained(const Job *job, const Plan *plan):
    """The plan for `cunpool.explain`, which puts it into words (`_methods.py`)."""
    cdef Plan other
    cdef const Method *first = plan.method if plan.ways & GATHERED else METHODS
    cdef const FillPlan *fill = &plan.fill_plan
    found = described(plan.method, &plan.job, plan.ways, rejected_methods(first, plan.method, job, &other),
                      not plan.ways & SCATTERED or plan.job.parts_per_plane > 1)
    if plan.ways & FILLED:
        found["blocks"] = fill.most_rows, fill.most_windows, fill.most_unit
        found["line"] = fill.unit, fill.item_size, fill.line.taps, fill.mixed.vectors, VECTOR_BYTES
    return found


def unpool(cnp.ndarray pooled not None, cnp.ndarray indices not None, cnp.ndarray full not None, tuple sizes,
           int spatial, int kind, int threads, cnp.ndarray background=None):
    """Fill `full`. Returns 0 if an index is outside its plane (then `full` is unspecified), else the ways.

    `background` is stored where no index points, in place of zeros. It has the shape and dtype of `full`, and is `full`
    itself or does not overlap it. Or it is one element without axes.
    """
    cdef Job job  # unreached: a declaration
    cdef Plan plan  # unreached: a declaration
    cdef Py_ssize_t item_size = cnp.PyArray_ITEMSIZE(full), results = cnp.PyArray_SIZE(full) * item_size
    cdef Py_ssize_t inputs = cnp.PyArray_SIZE(pooled) * (item_size + cnp.PyArray_ITEMSIZE(indices))
    prepare_job(&job, sizes, pooled, indices, full, spatial, threads)
    if results == 0:
        return SCATTERED
    job.ops = &LOOPS[kind]
    if background is not None:
        set_background(&job, full, background)
    job.nontemporal = branch_counted("arrays beyond the caches", results + inputs >= UNPOOL_NONTEMPORAL_MIN_BYTES)
    split_planes(&job, element_count(job.g.full))  # for scatter, the fallback of all methods
    plan.method = choose_method(METHODS, &job, &plan)
    return run_plan(&job, &plan, max(results, cnp.PyArray_SIZE(pooled) * item_size), full, background)


def unpool_backward(cnp.ndarray full not None, cnp.ndarray indices not None, cnp.ndarray pooled not None, tuple sizes,
                    int spatial, int kind, int threads):
    """Fill `pooled` from where the indices point. Returns 0 if one is outside its plane, else the ways."""
    cdef Job job
    cdef Plan plan
    prepare_job(&job, sizes, pooled, indices, full, spatial, threads)
    if cnp.PyArray_SIZE(pooled) == 0:
        return GATHERED
    job.ops = &LOOPS[kind]
    job.gathers = True
    job.tasks = 1 if threads == 1 else min(8 * threads, cnp.PyArray_SIZE(pooled))
    plan.method = choose_method(&METHODS[2], &job, &plan)
    return run_plan(&job, &plan, max(cnp.PyArray_SIZE(full), cnp.PyArray_SIZE(pooled)) * job.item_size, full, None)


cdef int run_plan(const Job *job, Plan *plan, Py_ssize_t most_bytes, cnp.ndarray full,
                  cnp.ndarray background) except -1:
    """Run a call whose larger array has `most_bytes`. Returns 0 if an index is outside its plane, else the ways.

    If fill, or a split plane, meets an index outside its window, the whole call is scattered. Such a code names no
    element at all.
    """
    cdef Found found
    if explaining():
        raise Planned(explained(job, plan))
    found = run_kernel(plan, most_bytes, full, background)
    if found.out_of_window and not job.code_size:
        split_planes(&plan.job, 1)
        plan_blocks(&plan.job, &plan.blocks)  # fill planned none
        plan.kernel = scatter_task
        found.out_of_plane = run_kernel(plan, most_bytes, full, background).out_of_plane
    elif found.out_of_window:
        return 0
    return 0 if found.out_of_plane else plan.ways + STRAYED * (found.out_of_window > 0)


cdef cnp.ndarray items_of(cnp.ndarray array, cnp.dtype kind):
    """An array of any class as plain items, of which NumPy copies all bytes, and fast."""
    return numpy.ndarray.view(array, numpy.ndarray).view(kind)


cdef Found run_kernel(Plan *plan, Py_ssize_t most_bytes, cnp.ndarray full, cnp.ndarray background) except *:
    """Run the tasks of the plan's kernel. Before, the background is laid here, mostly by NumPy, where elements are not
    adjacent in raster order; scatter's tasks lay all others."""
    cdef Job *job = &plan.job
    cdef Py_ssize_t result_bytes = cnp.PyArray_SIZE(full) * job.item_size
    job.is_laid = job.in_place or plan.kernel == <Kernel> scatter_task and not are_elements_adjacent(job)
    if job.is_laid and background is None and branch_counted(
            "zeros without gaps", dense_end(&job.full, job.batch, job.channels, job.g.full, job.item_size)
            == job.full.data + result_bytes):
        with nogil:
            memset(job.full.data, 0, result_bytes)  # faster than NumPy
    elif branch_counted("a background that NumPy lays", job.is_laid and background is not full):
        kind = numpy.dtype("V16" if job.item_size == 16 else f"u{job.item_size}")
        cnp.PyArray_CopyInto(items_of(full, kind),
                             numpy.zeros((), kind) if background is None else items_of(background, kind))
    return run_tasks(plan.kernel, job, most_bytes)


def conditions():
    """How often each condition was false, and true. Only a checked build counts."""
    return [condition_at(i) for i in range(cunpool_conditions())]
