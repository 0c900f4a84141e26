# Rolling stripes: windows of 3 x 3, and of 5 x 5 and 7 x 7 without indices, in contiguous planes; and of 3 x 3, 5 x 5,
# and 2 x 2 without indices, in channels that are neighbours. `rolling.h` has the loop; here is which calls it serves,
# and its plan.
from libc.stdint cimport int64_t, uintptr_t

from cunpool._kernels.common.arrays cimport raster_stride, View
from cunpool._kernels.common.caches cimport CACHE_LINE
from cunpool._kernels.common.geometry cimport absolute, element_count, Geometry
from cunpool._kernels.common.job cimport (
    are_all_contiguous, FLOAT4_KIND, FLOAT8_KIND, HALF_KIND, has_interleaved_channels, ITEM1_KIND, Job)
from cunpool._kernels.common.tasks cimport Found
from cunpool._kernels.memory cimport next_part

cdef extern from "_kernels/pooling/rolling.h":
    enum:
        HAS_VECTORS "CUNPOOL_HAS_VECTORS"
        VECTOR_BYTES "CUNPOOL_VECTOR_BYTES"
        ROLLING_VALUES, ROLLING_CODES, ROLLING_INDICES4, ROLLING_INDICES8
        ROLLING_MAX_BLOCK, ROLLING_UNIT_BLOCK, ROLLING_DECODED
        WIDEST_VECTOR_BYTES "ROLLING_BYTES"
    ctypedef struct cunpool_planes:
        char *data
        Py_ssize_t batch_bytes, channel_bytes, row_bytes
    ctypedef struct Rolling "cunpool_rolling":
        cunpool_planes full, pooled, indices
        Py_ssize_t planes, channels, height, width, rows, windows, unit, unit_bytes, row_results, layer_rows
        Py_ssize_t run, before, behind, spread, block_rows, reach, values_pitch, tile_pitch
        Py_ssize_t padding[2]
        int kernel, stride, form, index_bytes, code_bytes, item_bytes, infinity, lanes
        int64_t flip, lowest
        bint is_index, is_float, is_contiguous, is_streamed, omits_nan
    Py_ssize_t rolling_bytes "cunpool_rolling_bytes"(const Rolling *plan) noexcept nogil
    void roll "cunpool_roll"(const Rolling *plan, Py_ssize_t first, Py_ssize_t end, char *scratch) noexcept nogil

cdef enum:
    # Pooled rows that a stripe goes down: fewer where rows are long, so that the block stays in L1. (speed)
    LONG_ROW_BYTES = 1 << 10
    LONGEST_ROW_BYTES = 12 << 10
    LONG_ROW_BLOCK = 4
    LONGEST_ROW_BLOCK = 6
    MIN_VALUES_ROW_PART = 4         # the windows of a row fill at least this part of a vector, without indices (speed)
    MIN_WINDOWS = 49    # of a plane: fewer are not worth its preparation (speed: float32, 256 x 6 x 6)
    # Channels that are neighbours.
    MIN_UNIT_BYTES = 64     # of all, or of a run: a vector (correctness), of any instruction set
    # Bytes of all channels, at most, if the stride is 2: L1 has no room for the rows of more. (speed: 512 x 28 x 28,
    # 5 x 5)
    STRIDE_2_MAX_BYTES = 1 << 10
    # The same of channels in runs, whose columns are all pooled. (speed: 150 x 200, 3 x 3, 5 to 24 channels)
    STRIDE_2_RUN_BYTES = 16
    # L1 has few places for addresses that are a multiple of L1_WAY_BYTES apart. (speed: 64 x 112 x 112, 3 x 3)
    L1_WAYS = 8
    L1_WAY_BYTES = 1 << 12


cdef inline bint is_plane_contiguous(const View *view, const Py_ssize_t *shape, Py_ssize_t size) noexcept nogil:
    return element_count(shape) == 1 or raster_stride(view, shape) == size


cdef inline Py_ssize_t rolling_stride(const Geometry *g) noexcept nogil:
    """The stride of both axes, or 0 where they differ. With a single window along an axis its stride is unused."""
    if g.pooled[1] == 1:
        return g.stride[2]
    return g.stride[1] if g.pooled[2] == 1 or g.stride[1] == g.stride[2] else 0


cdef inline Py_ssize_t windows_over_edge(const Geometry *g) noexcept nogil:
    """How many windows of a row reach over its begin, or over its end if these are more, with a stride of 1."""
    return max(g.padding[2], g.pooled[2] - 1 - g.padding[2] + g.kernel[2] - g.full[2])


cdef inline const char *rolling_why_not(const Job *job) noexcept nogil:
    """Why rolling stripes do not serve a call, or NULL where they do."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t stride = rolling_stride(g), item_size = job.item_size
    cdef int kind = job.order_kind
    if not HAS_VECTORS:
        return "the compiler has no vector types"
    if kind != FLOAT4_KIND and kind != FLOAT8_KIND and kind != ITEM1_KIND and kind != HALF_KIND:
        return "elements of a type without stripes"
    if job.code_size == 2:
        return "window codes of two bytes"
    if job.indices.data == NULL and g.pooled[2] * MIN_VALUES_ROW_PART < VECTOR_BYTES // item_size:
        return "values alone in rows of less than a quarter of a vector"
    if job.indices.data == NULL and kind == FLOAT8_KIND:
        return "values alone of float64"
    if g.full[0] > 1 or g.kernel[0] > 1:
        return "three axes"
    if g.kernel[1] != g.kernel[2] or g.kernel[2] != 3 and (job.indices.data != NULL
                                                           or g.kernel[2] != 5 and g.kernel[2] != 7):
        return "a window that is not 3 x 3, or without indices 5 x 5 or 7 x 7"
    if g.kernel[2] > 3 and item_size == 2:
        return "a window that is not 3 x 3, of 16-bit floats"
    if stride != 1 and (stride != 2 or g.kernel[2] > 3):
        return "strides other than 1, or 2 where windows are 3 x 3, or that differ"
    if g.dilation[1] > 1 or g.dilation[2] > 1:
        return "dilation"
    if stride == 1 and windows_over_edge(g) > VECTOR_BYTES // item_size:
        return "more windows over an end of a row than a vector has"  # unreached: vectors of four have fewer
    if not (is_plane_contiguous(&job.full, g.full, item_size)
            and is_plane_contiguous(&job.pooled, g.pooled, item_size)
            and (job.indices.data == NULL or is_plane_contiguous(&job.indices, g.pooled, job.index_size))):
        return "planes that are not contiguous"
    if element_count(g.pooled) < MIN_WINDOWS:
        return "planes of few windows"
    if element_count(g.full) >= 1 << 30:  # a code's row takes 32 bits, twice (correctness)
        return "planes of 2**30 elements or more"  # unreached: 1 GB for a test
    return NULL


cdef inline bint has_units(const Job *job) noexcept nogil:
    """Whether channels are neighbours in memory."""
    return job.channels > 1 and job.full.channel_bytes == job.item_size


cdef inline bint are_units_rolled(const Job *job) noexcept nogil:
    """Whether the windows and the type of elements are some that stripes of neighbouring channels serve. How channels
    lie in memory is for `units_why_not`."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t kernel = g.kernel[1], stride = g.stride[1]
    return (HAS_VECTORS and g.kernel[0] == 1 and g.padding[0] == 0 and g.kernel[2] == kernel and g.stride[2] == stride
            and g.dilation[1] == g.dilation[2] == 1 and (stride == 1 or stride == 2)
            and (kernel == 3 or kernel == 5 or kernel == 2 and stride == 1 and job.indices.data == NULL)
            and job.code_size < 2 and element_count(g.full) < 1 << 30
            and g.full[1] >= kernel and g.full[2] >= kernel     # smaller planes are mostly padding (speed)
            and g.has_every_window_elements and (job.flip == 0 or job.item_size <= 2))


cdef inline Py_ssize_t columns_beside(const Geometry *g, bint behind) noexcept nogil:
    """How many columns of windows begin before a plane, or end behind it."""
    cdef Py_ssize_t stride = g.stride[2], room = g.full[2] - g.kernel[2] + g.padding[2]
    return max(g.pooled[2] - 1 - room // stride, 0) if behind else (g.padding[2] + stride - 1) // stride


cdef inline Py_ssize_t run_of_columns(const Job *job) noexcept nogil:
    """How many results a run has, those of columns that a stride leaves out included, if pixels follow each other and
    channels have less than 64 bytes; else 0. So where another method is faster: for values alone of 5 x 5, or of
    stride 2; and with stride 2 for more than a few bytes. (speed)"""
    cdef Py_ssize_t inside = job.g.pooled[2] - columns_beside(&job.g, False) - columns_beside(&job.g, True)
    cdef Py_ssize_t unit_bytes = job.channels * job.item_size
    if (unit_bytes >= MIN_UNIT_BYTES or inside < 1 or not has_interleaved_channels(job, &job.full, job.item_size)
            or job.g.stride[2] > 1 and (unit_bytes > STRIDE_2_RUN_BYTES or job.indices.data == NULL)
            or job.g.kernel[2] > 3 and job.indices.data == NULL):
        return 0
    return ((inside - 1) * job.g.stride[2] + 1) * job.channels


cdef inline const char *units_why_not(const Job *job) noexcept nogil:
    """Why rolling stripes do not serve channels that are neighbours in memory, or NULL where they do."""
    cdef Py_ssize_t unit_bytes = job.channels * job.item_size
    cdef bint in_runs
    if not are_units_rolled(job):
        return "neighbouring channels, and windows that are not 3 x 3 or 5 x 5 (or 2 x 2 without indices)"
    in_runs = run_of_columns(job) * job.item_size >= MIN_UNIT_BYTES
    if unit_bytes < MIN_UNIT_BYTES and not in_runs:
        return ("channels have less than 64 bytes, and no run: gaps between pixels, short rows, values alone of 5 x 5 "
                "or of stride 2, or stride 2 and more than 16 bytes")
    if job.g.stride[1] == 2 and unit_bytes > STRIDE_2_MAX_BYTES:
        return "with stride 2, channels of more than 1,024 bytes"
    if job.nontemporal and not in_runs:
        return "channels are neighbours, and arrays are larger than L3"  # unreached: large arrays, in slow tests
    if not (has_interleaved_channels(job, &job.pooled, job.item_size)
            and (job.indices.data == NULL or has_interleaved_channels(job, &job.indices, job.index_size))):
        return "channels of the results are not interleaved"
    if job.item_size < 4 and job.index_size > 1 and job.channels > ROLLING_DECODED:
        return "window codes become indices, of more than 512 channels"
    return NULL


cdef inline Py_ssize_t unit_rows(const Job *job) noexcept nogil:
    """How many pooled rows a stripe of channels goes down, at most: fewer where L1 has no room for all elements."""
    cdef Py_ssize_t row_bytes = absolute(job.full.axis_bytes[1]), ways = L1_WAYS
    if row_bytes % (L1_WAY_BYTES // 2) != 0:
        return ROLLING_UNIT_BLOCK
    if row_bytes % L1_WAY_BYTES != 0:
        ways *= 2
    return min((ways - job.g.kernel[1]) // job.g.stride[1] + 1, <Py_ssize_t> ROLLING_UNIT_BLOCK)


cdef inline cunpool_planes planes_of(const View *view, Py_ssize_t unit, Py_ssize_t row_bytes,
                                     Py_ssize_t layers) noexcept nogil:
    """The planes of an array, whose rows have `row_bytes`; or where channels are units, its layers, `layers` apart."""
    if unit > 1:
        return cunpool_planes(view.data, view.batch_bytes, layers * view.axis_bytes[0], view.axis_bytes[1])
    return cunpool_planes(view.data, view.batch_bytes, view.channel_bytes, row_bytes)


cdef inline bint is_vector_aligned(const cunpool_planes *planes, Py_ssize_t row_bytes) noexcept nogil:
    """Whether all rows of all planes begin at a multiple of a vector's bytes."""
    return (<uintptr_t> planes.data | <uintptr_t> planes.batch_bytes | <uintptr_t> planes.channel_bytes
            | <uintptr_t> row_bytes) % VECTOR_BYTES == 0  # unreached: large arrays, in slow tests


cdef inline void plan_rolling(const Job *job, Rolling *plan) noexcept nogil:
    """The plan of a call that rolling stripes serve."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t item_size = job.item_size, row_bytes = g.full[2] * item_size
    plan.unit, plan.unit_bytes = job.channels if has_units(job) else 1, job.full.axis_bytes[2]
    plan.channels = g.pooled[0] if plan.unit > 1 else job.channels
    plan.planes = job.batch * plan.channels
    plan.layer_rows = g.stride[0] * g.full[1] if plan.unit > 1 and g.pooled[0] > 1 else 0
    plan.full = planes_of(&job.full, plan.unit, row_bytes, g.stride[0] if g.pooled[0] > 1 else 0)
    plan.pooled = planes_of(&job.pooled, plan.unit, g.pooled[2] * item_size, 1)
    plan.indices = planes_of(&job.indices, plan.unit, g.pooled[2] * job.index_size, 1)
    plan.height, plan.width = g.full[1], g.full[2]
    plan.rows, plan.windows, plan.row_results = g.pooled[1], g.pooled[2], g.pooled[2] * plan.unit
    plan.padding = [g.padding[1], g.padding[2]]
    plan.kernel = <int> g.kernel[2]
    plan.stride = <int> rolling_stride(g)
    plan.item_bytes, plan.index_bytes, plan.is_float = <int> item_size, job.index_size, job.kind >= HALF_KIND
    plan.form = (ROLLING_VALUES if job.indices.data == NULL else ROLLING_CODES if job.code_size
                 else ROLLING_INDICES4 if job.index_size == 4 else ROLLING_INDICES8)
    plan.run = run_of_columns(job) if plan.unit > 1 else 0
    plan.before = columns_beside(g, False) if plan.run else 0
    plan.behind = columns_beside(g, True) if plan.run else 0
    plan.spread = g.stride[2] if plan.run else 1
    plan.is_index = item_size >= 4 and plan.form >= ROLLING_INDICES4 and not plan.run
    plan.flip, plan.lowest = <int64_t> job.flip, <int64_t> job.lowest
    plan.omits_nan, plan.infinity = job.omits_nan, job.infinity
    plan.is_contiguous = are_all_contiguous(job)
    plan.block_rows = (unit_rows(job) if plan.unit > 1 else ROLLING_MAX_BLOCK if row_bytes < LONG_ROW_BYTES
                       else LONG_ROW_BLOCK if row_bytes < LONGEST_ROW_BYTES else LONGEST_ROW_BLOCK)
    plan.lanes = VECTOR_BYTES // <int> item_size
    plan.reach = (max(plan.windows - plan.lanes, 0) * plan.stride - plan.padding[1]
                  + (plan.lanes + plan.kernel - 1 if plan.stride == 1 else 2 * plan.lanes + 2))
    plan.tile_pitch = max(((g.pooled[2] - 1) * plan.spread + 1) * plan.unit,
                          <Py_ssize_t> plan.lanes) + WIDEST_VECTOR_BYTES
    plan.values_pitch = plan.tile_pitch * item_size if plan.spread > 1 else 0
    if plan.form == ROLLING_VALUES or plan.spread == 1 and (plan.form == ROLLING_CODES or plan.is_index):
        plan.tile_pitch = 0
    plan.code_bytes = 1 if plan.tile_pitch else job.index_size
    # Vectors of less than a cache line would leave lines half written as a stripe goes down. (speed)
    plan.is_streamed = (job.nontemporal and plan.unit == 1 and VECTOR_BYTES == CACHE_LINE
                        and plan.windows % plan.lanes == 0  # unreached: large arrays, in slow tests
                        and is_vector_aligned(&plan.pooled, g.pooled[2] * item_size)
                        and (plan.form != ROLLING_INDICES8 or not plan.is_index  # unreached
                             or is_vector_aligned(&plan.indices, g.pooled[2] * job.index_size)))  # unreached


cdef inline Py_ssize_t rolling_tasks(const Job *job, const Rolling *plan) noexcept nogil:
    """Into how many tasks a call is cut: of channels, so that most tasks have as many rows as a stripe goes down."""
    cdef Py_ssize_t rows = plan.planes * plan.rows
    return min(job.tasks, max(<Py_ssize_t> job.threads, rows // ROLLING_UNIT_BLOCK) if plan.unit > 1 else rows)


cdef inline void roll_rows(const Job *job, Py_ssize_t task, Found *found, void *_, void *__) noexcept nogil:
    """One task: some pooled rows, counted over all planes."""
    cdef const Rolling *plan = <const Rolling *> job.plan
    cdef Py_ssize_t rows = plan.planes * plan.rows, first = rows * task // job.tasks
    cdef Py_ssize_t end = rows * (task + 1) // job.tasks
    cdef char *rest = found.scratch
    cdef char *scratch = next_part(&rest, rolling_bytes(plan))
    roll(plan, first, end, scratch)
