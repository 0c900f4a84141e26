# Interleaved: parts of some planes are copied to scratch memory with their elements side by side, like those of
# channels last; windows are compared across these planes; and results are copied back.
from libc.string cimport memset

from cunpool._kernels.common.arrays cimport element_address, View
from cunpool._kernels.common.checks cimport assert_in_block, branch_counted
from cunpool._kernels.common.copy_axes cimport copy_planes_of
from cunpool._kernels.common.geometry cimport absolute, element_count, Geometry, span_of
from cunpool._kernels.common.job cimport are_planes_uniform, Job
from cunpool._kernels.common.tasks cimport Found
from cunpool._kernels.memory cimport next_part, part_bytes
from cunpool._kernels.pooling.across cimport (
    Across, across_bytes, begin_across, fill_ramp, pool_across, VECTOR_BYTES)
from cunpool._kernels.pooling.rolling cimport (
    are_units_rolled, MIN_UNIT_BYTES, plan_rolling, roll, Rolling, rolling_bytes, ROLLING_UNIT_BLOCK)

cdef enum:
    LOT_ROW_BYTES = 128         # of an element in all planes of a lot, at most (speed)
    MIN_LOT_ROW_BYTES = 32      # the same at least (speed)
    PART_BYTES = 1 << 17        # of a part's elements, so that these stay in L2 (speed)
    MAX_PART_BYTES = 1 << 20    # A part of one row of windows may have more than PART_BYTES, up to here. (speed)
    THREAD_PARTS = 4            # parts for each of several threads, at least (speed)
    # Longer rows of windows one column apart go to separable, unless windows share rows. (speed: 64 x 56 x 56, 4 x 4)
    MAX_ROW_ELEMENTS = 16


cdef struct Interleaved:
    Job inner                   # the call on the planes of a lot
    Py_ssize_t group            # planes that are equally far apart: all, or those of a batch
    Py_ssize_t planes, lots     # of a lot, at most; of a group
    Py_ssize_t windows[2]       # of a part along layers and rows, at most
    Py_ssize_t parts[2]         # of a plane along layers and rows
    bint shares_rows            # rows of windows are compared together


cdef inline Py_ssize_t part_elements(const Geometry *g, const Py_ssize_t *windows) noexcept nogil:
    """The elements of a plane's largest part."""
    return min(span_of(g, 0, windows[0]), g.full[0]) * min(span_of(g, 1, windows[1]), g.full[1]) * g.full[2]


cdef inline void interleave(View *view, char *data, const Py_ssize_t *shape, Py_ssize_t planes, Py_ssize_t size,
                            const Py_ssize_t *first) noexcept nogil:
    """Make a view of planes that are interleaved at `data`, where a part of `shape` begins at layer and row `first`."""
    view.channel_bytes = view.batch_bytes = size
    view.axis_bytes[2] = planes * size
    view.axis_bytes[1] = shape[2] * view.axis_bytes[2]
    view.axis_bytes[0] = shape[1] * view.axis_bytes[1]
    view.uniform_planes = True
    view.data = data - first[0] * view.axis_bytes[0] - first[1] * view.axis_bytes[1]


cdef inline void size_parts(const Job *job, Interleaved *plan) noexcept nogil:
    """How many windows a part has along layers and rows: its elements stay in L2, and all threads have parts."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t lots = job.batch * job.channels // plan.group * plan.lots
    cdef Py_ssize_t wanted = THREAD_PARTS * job.threads if job.threads > 1 else 1
    cdef Py_ssize_t *least = [1, ROLLING_UNIT_BLOCK if plan.shares_rows else 1]    # for the sake of threads
    cdef int axis
    plan.windows, plan.parts = [g.pooled[0], g.pooled[1]], [1, 1]
    for axis in range(2):
        while plan.windows[axis] > 1 and (
                part_elements(g, plan.windows) > PART_BYTES // (plan.planes * job.item_size)
                or lots * plan.parts[0] * plan.parts[1] < wanted and plan.windows[axis] > least[axis]):
            plan.windows[axis] = (plan.windows[axis] + 1) // 2
            plan.parts[axis] = (g.pooled[axis] + plan.windows[axis] - 1) // plan.windows[axis]


cdef inline const char *plan_interleaved(const Job *job, Interleaved *plan) noexcept nogil:
    """How planes are interleaved, in a call whose windows `pool_across` can compare. Returns why they are not, or
    NULL."""
    cdef const Geometry *g = &job.g
    cdef Job *inner = &plan.inner
    if branch_counted("planes side by side already", job.channels > 1 and job.full.channel_bytes == job.item_size):
        return "channels are neighbours in memory already"
    plan.group = job.channels * (job.batch if are_planes_uniform(job) else 1)
    plan.planes = min(plan.group, LOT_ROW_BYTES // job.item_size)
    if not branch_counted("planes enough to interleave", plan.planes * job.item_size >= MIN_LOT_ROW_BYTES):
        return "an element has less than 32 bytes in all planes"
    plan.lots = (plan.group + plan.planes - 1) // plan.planes
    plan.planes = (plan.group + plan.lots - 1) // plan.lots
    plan.shares_rows = are_units_rolled(job) and plan.planes * job.item_size >= MIN_UNIT_BYTES
    size_parts(job, plan)
    # Parts of a few rows would have a few neighbours in memory. (speed: 32 x 290 x 195, 3 x 3, transposed)
    if (branch_counted("large planes whose columns are contiguous",
                       absolute(job.full.axis_bytes[1]) < absolute(job.full.axis_bytes[2])
                       and element_count(g.full) > MAX_PART_BYTES // (plan.planes * job.item_size))):
        return "planes of more than 1 MiB together are contiguous along their columns"
    # In lower parts, most rows would be copied for two parts. (speed: 16 x 40 x 300, 3 x 3)
    plan.shares_rows &= plan.windows[1] >= g.kernel[1] - 1
    if (branch_counted("long rows of windows one column apart", g.stride[2] == 1 and g.full[2] > MAX_ROW_ELEMENTS)
            and not branch_counted("interleaved rows that windows share", plan.shares_rows)):
        return "rows of more than 16 elements, and windows one column apart that do not share rows"
    if branch_counted("rows too long to interleave",
                      part_elements(g, plan.windows) > MAX_PART_BYTES // (plan.planes * job.item_size)):
        return "a row of windows in planes side by side has more than 1 MiB"
    inner[0] = job[0]
    inner.batch = inner.tasks = inner.threads = 1
    inner.gapless = True
    inner.nontemporal = False
    return NULL


cdef inline Py_ssize_t full_bytes(const Interleaved *plan) noexcept nogil:
    """Bytes of the elements of a part, and of a vector that may be read behind the last one."""
    return part_elements(&plan.inner.g, plan.windows) * plan.planes * plan.inner.item_size + VECTOR_BYTES


cdef inline Py_ssize_t results_bytes(const Interleaved *plan, Py_ssize_t size) noexcept nogil:
    """Bytes of the values, or the indices, of a part: `size` for each."""
    return plan.windows[0] * plan.windows[1] * plan.inner.g.pooled[2] * plan.planes * size


cdef inline Py_ssize_t interleaved_bytes(const Interleaved *plan) noexcept nogil:
    """Bytes of scratch memory that a share takes."""
    cdef Job inner = plan.inner
    cdef Rolling rolling
    cdef Py_ssize_t rolled = 0
    if plan.shares_rows:
        inner.channels, inner.full.channel_bytes = plan.planes, inner.item_size
        plan_rolling(&inner, &rolling)
        rolled = rolling_bytes(&rolling)
    return (part_bytes(full_bytes(plan)) + part_bytes(results_bytes(plan, plan.inner.item_size))
            + part_bytes(results_bytes(plan, plan.inner.index_size)) + part_bytes(rolled)
            + across_bytes(&plan.inner.g))


cdef inline Py_ssize_t interleaved_parts(const Job *job, const Interleaved *plan) noexcept nogil:
    return job.batch * job.channels // plan.group * plan.lots * plan.parts[0] * plan.parts[1]


cdef inline void pool_part(const Job *job, const Interleaved *plan, Py_ssize_t number, char *scratch,
                           Across *state) noexcept nogil:
    """Pool a part of the planes of a lot."""
    cdef const Geometry *g = &job.g
    cdef Job inner = plan.inner
    cdef Py_ssize_t parts = plan.parts[0] * plan.parts[1], lot = number // parts
    cdef Py_ssize_t first_plane = plan.group * (lot % plan.lots) // plan.lots
    cdef Py_ssize_t planes = plan.group * (lot % plan.lots + 1) // plan.lots - first_plane
    cdef Py_ssize_t plane = lot // plan.lots * plan.group + first_plane, size = job.item_size, d, h
    cdef Py_ssize_t *window = [number % parts // plan.parts[1] * plan.windows[0],
                               number % plan.parts[1] * plan.windows[1]]
    cdef Py_ssize_t *windows = [0, 0, g.pooled[2]]
    cdef Py_ssize_t *element = [0, 0]
    cdef Py_ssize_t *elements = [0, 0, g.full[2]]
    cdef char *full = next_part(&scratch, full_bytes(plan))
    cdef char *pooled = next_part(&scratch, results_bytes(plan, size))
    cdef char *indices = next_part(&scratch, results_bytes(plan, job.index_size))
    cdef char *rolled
    cdef Rolling rolling
    cdef int axis
    for axis in range(2):
        windows[axis] = min(plan.windows[axis], g.pooled[axis] - window[axis])
        element[axis] = max(window[axis] * g.stride[axis] - g.padding[axis], 0)
        elements[axis] = min(window[axis] * g.stride[axis] - g.padding[axis] + span_of(g, axis, windows[axis]),
                             g.full[axis]) - element[axis]
    assert_in_block(element_count(elements) * planes * size + VECTOR_BYTES <= full_bytes(plan))
    inner.channels = planes
    interleave(&inner.full, full, elements, planes, size, element)
    interleave(&inner.pooled, pooled, windows, planes, size, window)
    if job.indices.data != NULL:
        interleave(&inner.indices, indices, windows, planes, job.index_size, window)
    copy_planes_of(size, full, &inner.full, element_address(&job.full, job.channels, plane, element[0], element[1], 0),
                   &job.full, planes, elements)
    memset(full + element_count(elements) * planes * size, 0, VECTOR_BYTES)
    if plan.shares_rows and planes * size >= MIN_UNIT_BYTES:
        plan_rolling(&inner, &rolling)
        rolled = next_part(&scratch, rolling_bytes(&rolling))
        for d in range(window[0], window[0] + windows[0]):
            roll(&rolling, d * g.pooled[1] + window[1], d * g.pooled[1] + window[1] + windows[1], rolled)
    else:
        fill_ramp(&inner, planes, state)
        for d in range(window[0], window[0] + windows[0]):
            for h in range(window[1], window[1] + windows[1]):
                pool_across(&inner, 0, d, h, 0, g.pooled[2], planes, state)
    copy_planes_of(size, element_address(&job.pooled, job.channels, plane, window[0], window[1], 0), &job.pooled,
                   pooled, &inner.pooled, planes, windows)
    if job.indices.data != NULL:
        copy_planes_of(job.index_size, element_address(&job.indices, job.channels, plane, window[0], window[1], 0),
                       &job.indices, indices, &inner.indices, planes, windows)


cdef inline void pool_interleaved(const Job *job, Py_ssize_t task, Found *found, void *_, void *__) noexcept nogil:
    """One task: some parts."""
    cdef const Interleaved *plan = <const Interleaved *> job.plan
    cdef Py_ssize_t parts = interleaved_parts(job, plan), number
    cdef char *scratch = found.scratch
    cdef Across state
    begin_across(job, &scratch, &state)
    state.spare = VECTOR_BYTES
    for number in range(parts * task // job.tasks, parts * (task + 1) // job.tasks):
        pool_part(job, plan, number, scratch, &state)
