# The plan of a pooling call, and the conditions of the table of methods in `pool.pyx`.
from cunpool._kernels.common.arrays cimport raster_stride, View
from cunpool._kernels.common.checks cimport branch_counted
from cunpool._kernels.common.geometry cimport absolute, element_count, Geometry, mean_overlap
from cunpool._kernels.common.job cimport HALF_KIND, has_interleaved_channels, Job
from cunpool._kernels.common.methods cimport Method
from cunpool._kernels.common.tasks cimport Kernel, planes_of_lot
from cunpool._kernels.memory cimport part_bytes
from cunpool._kernels.pooling.across cimport (
    across_bytes, has_few_taps, has_runs, LITTLE_OVERLAP, MAX_TAPS, plan_codes, pool_channels)
from cunpool._kernels.pooling.compare cimport has_far_taps, vector_of
from cunpool._kernels.pooling.filter cimport (
    Blocked, blocked_bytes, filter_limits_why_not, plan_filter, pool_blocks)
from cunpool._kernels.pooling.interleaved cimport (
    Interleaved, interleaved_bytes, interleaved_parts, plan_interleaved, pool_interleaved)
from cunpool._kernels.pooling.rolling cimport (
    has_units, plan_rolling, roll_rows, Rolling, rolling_bytes, rolling_tasks, rolling_why_not, units_why_not)
from cunpool._kernels.pooling.search cimport searching_why_not
from cunpool._kernels.pooling.separable cimport Decoder, plan_separable
from cunpool._kernels.pooling.separable_block cimport separable_blocks
from cunpool._kernels.pooling.window2 cimport (
    can_stack_planes, HAS_VECTORS, pool_window2, stack_planes, window2_shape_why_not)

cdef enum:  # the ways, for plan_pool
    STACKED_TAKEN = 1
    ACROSS_TAKEN = 2
    STREAMED_TAKEN = 4
    LARGE_TAKEN = 8             # nothing is pooled: no method serves the call
    WINDOW2_TAKEN = 32
    FILTERED_TAKEN = 128
    COPIED_TAKEN = 256
    WIDTH_SWAPPED_TAKEN = 512
    ROLLING_TAKEN = 2048
    SEPARATED_TAKEN = 4096
    INTERLEAVED_TAKEN = 8192

cdef enum:
    # Across channels.
    ACROSS_MIN_BYTES = 32           # of all channels, of one pixel (speed: 80 x 90, 3 to 12 channels)
    FEW_CHANNELS_MIN_BYTES = 24     # the same, if windows overlap little (speed: 3 x 224 x 224, float32, 3 x 3)
    APART_CHANNELS_MIN_BYTES = 12   # the same, if windows do not overlap (speed: 3 x 224 x 224, float32, 2 x 2)
    # Values of larger windows that overlap more are filtered, unless windows share rows. (speed)
    ACROSS_MAX_TAPS = 9
    ACROSS_MIN_UNIT_BYTES = 64      # Values of fewer channels are filtered. (speed)
    # The same for windows of at most 4 elements. (speed: 8 x 380 x 432, 16 x 112 x 112 of float16, 2 x 2)
    ACROSS_MIN_UNIT_BYTES_OF_4 = 24
    # Filter.
    TINY_ROW_ELEMENTS = 16          # Rows of no more elements are interleaved, if they can be. (speed)
    TINY_PLANE_TAPS = 128           # The same for planes whose windows have fewer elements in sum. (speed)
    NUMPY_MIN_PLANE = 1 << 10       # Elements of a plane that is one window, with its index. (speed: 4 x 500 x 500)
    SEARCH_FEW_TAPS = 256           # With indices, windows of no more elements. (speed: 64 x 224 x 224, 16 x 16)
    FILTER_MAX_UNIT_BYTES = 1 << 12     # Bytes of the channels that filter takes as units of a row, at most. (speed)
    # Copies to C order.
    COPY_MAX_ROW_ELEMENTS = 64      # Longer rows are not copied because of gaps behind them alone. (speed)
    COPY_MAX_PLANE_BYTES = 1 << 20  # The largest plane that is copied. (speed)
    COPY_LOT_BYTES = 1 << 16        # Small planes that are copied together. (speed)


cdef struct Plan:
    # How a call is pooled, and the plans of single methods.
    Job job                 # the call as the method receives it: the width swapped, planes stacked
    const Method *method
    int ways  # unreached: a declaration
    Kernel kernel  # unreached: the same
    Rolling rolling
    Blocked blocked
    Py_ssize_t copied_planes    # planes that are copied to C order and pooled together, a lot; 0 if none is copied
    Decoder decoder
    Interleaved interleaved


cdef inline Py_ssize_t unit_of(const Job *job) noexcept nogil:
    """Elements from one column to the next where values alone can be filtered: 1 for contiguous rows, all channels
    where these are interleaved, else 0. Results need the same layout."""
    cdef Py_ssize_t size = job.item_size
    if (job.full.axis_bytes[2] == size and job.pooled.axis_bytes[2] == size
            and not branch_counted("channels closer than columns of one", job.channels > 1
                                   and job.full.channel_bytes == size)):
        return 1
    if (branch_counted("channels that are interleaved", has_interleaved_channels(job, &job.full, size))
            and has_interleaved_channels(job, &job.pooled, size)
            and branch_counted("units of some channels", job.channels * size <= FILTER_MAX_UNIT_BYTES)):
        return job.channels
    return 0


cdef inline bint has_values_across(const Job *job) noexcept nogil:
    """Whether the values of windows are found across channels: windows are small, or overlap little."""
    cdef Py_ssize_t taps = element_count(job.g.kernel)
    return HAS_VECTORS and (branch_counted("few elements to compare across channels", taps <= ACROSS_MAX_TAPS)
                            or taps <= MAX_TAPS and branch_counted("large windows that overlap little",
                                                               mean_overlap(&job.g) <= LITTLE_OVERLAP))


cdef inline const char *filtering_why_not(const Job *job, Py_ssize_t unit) noexcept nogil:
    """Why another method is faster than filter, or NULL."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t taps = element_count(g.kernel), unit_bytes = unit * job.item_size
    if (branch_counted("broad units, of which a stride leaves some out",
                       g.stride[2] > 1 and unit > 1
                       and unit_bytes >= (ACROSS_MIN_UNIT_BYTES_OF_4 if taps <= 4 else ACROSS_MIN_UNIT_BYTES))
            and (has_values_across(job) if job.indices.data == NULL else has_few_taps(job))):
        return ("small windows, or some that overlap little, of channels of 64 bytes or more, or of 4 elements and "
                "channels of 24 bytes or more: see across")
    return NULL


cdef inline void swap_width_axis(Job *job, int axis) noexcept nogil:
    """Exchange this axis and the width. Raster order stays."""
    cdef Py_ssize_t **sizes = [
        &job.g.full[0], &job.g.pooled[0], &job.g.kernel[0], &job.g.stride[0], &job.g.padding[0], &job.g.dilation[0],
        &job.full.axis_bytes[0], &job.pooled.axis_bytes[0], &job.indices.axis_bytes[0], &job.index_steps[0],
        &job.raster_steps[0]]
    cdef int i
    if axis == 2:
        return
    for i in range(11):
        sizes[i][axis], sizes[i][2] = sizes[i][2], sizes[i][axis]
    job.raster_axes[axis], job.raster_axes[2] = job.raster_axes[2], job.raster_axes[axis]


cdef inline void swap_width_for_channels(Job *job) noexcept nogil:
    """Take for the width the last axis along which neighbours in memory are a pixel of all channels apart, if any."""
    cdef int axis
    for axis in range(2, -1, -1):
        if job.full.axis_bytes[axis] == job.channels * job.item_size:
            swap_width_axis(job, axis)
            return


cdef inline void begin(const Job *job, int axis, Plan *plan, int ways, Kernel kernel, const void *own) noexcept nogil:
    """Begin the plan of a method, which has its `own` part: the job with this axis as the width."""
    plan.job = job[0]
    swap_width_axis(&plan.job, axis)
    plan.job.plan, plan.job.scratch_bytes, plan.kernel, plan.ways = own, 0, kernel, ways


cdef inline const char *indices_why_not(const Job *job) noexcept nogil:
    """Only the last two methods serve indices, and offsets in a window, that take more than 32 bits."""
    if job.indices.data == NULL or job.code_size:
        return NULL
    if job.item_size == 4 and not branch_counted("indices of 32 bits", element_count(job.g.full) <= 0x7FFFFFFF):
        return "elements of 4 bytes, and a plane has 2**31 or more"
    if not branch_counted("offsets of 32 bits in a window", not has_far_taps(job)):
        return "an index is 2**31 elements or more behind the first one of its window"
    return NULL


cdef inline const char *comparing_why_not(const Job *job) noexcept nogil:
    """Why the elements of windows are not compared one by one, across neighbouring channels or planes, or NULL."""
    if not HAS_VECTORS:
        return "the compiler has no vector types"  # unreached: another compiler
    if not branch_counted("windows with an element of the array", job.g.has_every_window_elements):
        return "a window has no element of the array"
    if not branch_counted("a window of few elements", has_few_taps(job)):
        return ("a window has more than 128 elements (65,536 if channels have 64 bytes, or 256 whose codes are bytes), "
                "or more than 32 that are in many windows")
    return indices_why_not(job)


cdef inline const char *rolling_stripes_why_not(const Job *job, Plan *plan) noexcept nogil:
    """Windows of 3 x 3 to 7 x 7 in contiguous planes, or of 2 x 2 to 5 x 5 in channels that are neighbours."""
    cdef const char *why = units_why_not(job) if has_units(job) else rolling_why_not(job)
    if why == NULL:
        begin(job, 2, plan, ROLLING_TAKEN, <Kernel> roll_rows, &plan.rolling)
        plan_rolling(job, &plan.rolling)
        plan.job.scratch_bytes = part_bytes(rolling_bytes(&plan.rolling))
        plan.job.tasks = rolling_tasks(job, &plan.rolling)
        plan.job.nontemporal = plan.rolling.is_streamed
    return why


cdef inline const char *window2_why_not(const Job *job, Plan *plan) noexcept nogil:
    """Windows of 2 where they lie, in rows that are contiguous, or columns of planes of one layer."""
    cdef const char *why = indices_why_not(job)
    cdef bint is_swapped = (job.full.axis_bytes[2] != job.item_size and job.full.axis_bytes[1] == job.item_size
                            and job.g.kernel[0] == 1)
    begin(job, 2, plan, WINDOW2_TAKEN + WIDTH_SWAPPED_TAKEN * is_swapped, <Kernel> pool_window2, NULL)
    plan_codes(&plan.job, &plan.decoder)
    swap_width_axis(&plan.job, 1 if is_swapped else 2)
    if why == NULL:
        why = window2_shape_why_not(&plan.job)
    if why == NULL and is_swapped and (plan.job.g.pooled[2] == 1 or not job.gapless
                                       and plan.job.g.pooled[2] < vector_of(job.item_size)):
        why = "a column has one window; or less than a vector of windows, and gaps behind it"
    if why != NULL:
        return why
    if can_stack_planes(&plan.job):
        stack_planes(&plan.job)
        plan.ways += STACKED_TAKEN
    return NULL


cdef inline const char *interleaved_why_not(const Job *job, Plan *plan) noexcept nogil:
    """Planes in any order, some of which are copied to neighbours at a time."""
    cdef const char *why = comparing_why_not(job)
    if why == NULL:
        why = plan_interleaved(job, &plan.interleaved)
    if why != NULL:
        return why
    plan_codes(&plan.interleaved.inner, &plan.decoder)
    begin(job, 2, plan, INTERLEAVED_TAKEN, <Kernel> pool_interleaved, &plan.interleaved)
    plan.job.scratch_bytes = part_bytes(interleaved_bytes(&plan.interleaved))
    plan.job.tasks = min(job.tasks, interleaved_parts(job, &plan.interleaved))
    plan.job.nontemporal = False
    return NULL


cdef inline const char *any_why_not(const Job *job, Plan *plan) noexcept nogil:
    """Windows that miss the array, or are larger than any block: the front end pools them in NumPy, like whole planes.
    """
    begin(job, 2, plan, LARGE_TAKEN, NULL, NULL)
    plan.job.tasks, plan.job.nontemporal = 1, False
    return NULL


cdef inline const char *whole_planes_why_not(const Job *job, Plan *plan) noexcept nogil:
    """Indices of whole contiguous planes, by NumPy's argmax."""
    cdef Py_ssize_t size = element_count(job.g.full)
    if not (branch_counted("windows that are whole planes", job.indices.data != NULL and size >= NUMPY_MIN_PLANE
                           and element_count(job.g.kernel) == size and element_count(job.g.pooled) == 1)
            and branch_counted("contiguous planes of wide elements", job.item_size >= 4
                               and raster_stride(&job.full, job.g.full) == job.item_size)):
        return "windows are not whole contiguous planes of 1024 elements of 4 bytes or more, with indices"
    return any_why_not(job, plan)


cdef inline void take_blocks(Plan *plan) noexcept nogil:
    """Tasks and scratch memory for blocks."""
    plan.job.tasks = min(plan.job.tasks, separable_blocks(&plan.blocked.blocks))
    plan.job.scratch_bytes = part_bytes(blocked_bytes(&plan.job, &plan.blocked))
    plan.job.nontemporal = False


cdef inline const char *filter_why_not(const Job *job, Plan *plan) noexcept nogil:
    """Values along the last axis that is contiguous or interleaves the channels, which becomes the width. Large windows
    with indices along the last one."""
    cdef const char *why = "no axis is contiguous or has interleaved channels (up to 4 KiB) in values and results"
    cdef const char *worth = NULL if job.indices.data == NULL else searching_why_not(job)
    cdef Py_ssize_t unit
    cdef bint is_tiny = (job.g.full[2] <= TINY_ROW_ELEMENTS
                         or element_count(job.g.pooled) * element_count(job.g.kernel) < TINY_PLANE_TAPS
                         or job.indices.data != NULL and element_count(job.g.kernel) <= SEARCH_FEW_TAPS)
    cdef int axis
    if worth != NULL:
        return worth
    if not branch_counted("windows of more than an element", element_count(job.g.kernel) > 1):
        return "a window has a single element"
    if branch_counted("planes that may be faster interleaved", is_tiny) and interleaved_why_not(job, plan) == NULL:
        return "small planes, or indices in windows of at most 256 elements, and planes can be interleaved"
    for axis in range(2, -1, -1):
        begin(job, axis, plan, SEPARATED_TAKEN + FILTERED_TAKEN, <Kernel> pool_blocks, &plan.blocked)
        unit = unit_of(&plan.job)
        if not unit or job.indices.data != NULL and axis < 2:  # the first of equals is found along rows
            continue
        worth = filtering_why_not(&plan.job, unit)
        if worth == NULL:
            worth = plan_separable(&plan.job, unit, &plan.blocked.blocks)
        if worth == NULL:
            plan_filter(&plan.job.g, unit, <int> job.item_size, &plan.blocked)
            worth = filter_limits_why_not(&plan.job.g, &plan.blocked)
        if worth == NULL:
            take_blocks(plan)
            return NULL
        why = worth
    return why


cdef inline const char *across_why_not(const Job *job, Plan *plan) noexcept nogil:
    """Windows in all channels, where these are neighbours in memory."""
    cdef const char *why = comparing_why_not(job)
    if why != NULL:
        return why
    if not branch_counted("channels that are neighbours", job.full.channel_bytes == job.item_size):
        return "channels are not neighbours in memory"
    if not (branch_counted("channels enough", job.channels * job.item_size >= ACROSS_MIN_BYTES)
            or branch_counted("a few channels", job.channels * job.item_size >= FEW_CHANNELS_MIN_BYTES)
            and branch_counted("windows that overlap little", mean_overlap(&job.g) <= LITTLE_OVERLAP)
            or branch_counted("a few channels, and windows apart", mean_overlap(&job.g) <= 1
                              and job.channels * job.item_size >= APART_CHANNELS_MIN_BYTES)
            or branch_counted("small windows in runs", job.code_size > 0 and has_runs(job)
                              and element_count(job.g.kernel) <= ACROSS_MAX_TAPS)):
        return ("channels have less than 32 bytes (24, if windows overlap little; 12, if they do not; any, for window "
                "codes of small windows one column apart)")
    begin(job, 2, plan, ACROSS_TAKEN, <Kernel> pool_channels, NULL)
    plan.job.scratch_bytes = across_bytes(&job.g)
    plan_codes(&plan.job, &plan.decoder)
    swap_width_for_channels(&plan.job)
    plan.ways += WIDTH_SWAPPED_TAKEN * (plan.job.raster_axes[2] != 2)
    if not branch_counted("few elements for values alone", job.indices.data != NULL or has_values_across(&plan.job)):
        return "without indices, a window has more than 9 elements, that are in many windows"
    return NULL


cdef inline const char *separable_why_not(const Job *job, Plan *plan) noexcept nogil:
    """Any order in memory, any window."""
    cdef const char *why = plan_separable(job, 0, &plan.blocked.blocks)
    if why == NULL:
        begin(job, 2, plan, SEPARATED_TAKEN, <Kernel> pool_blocks, &plan.blocked)
        plan.blocked.unit = 0
        take_blocks(plan)
    return why  # unreached: compiled together with the condition before


cdef inline const char *copied_why_not(const Job *job, Py_ssize_t *planes_at_once) noexcept nogil:
    """How many planes are copied to C order at a time, and why none is.

    Planes are copied that fit a buffer, if their rows lie along memory, but with elements between, backwards, or short
    and with gaps behind them, which may not be read. A plane is never split, so each thread has to have one.
    """
    cdef const View *full = &job.full
    cdef Py_ssize_t planes = job.batch * job.channels, step = absolute(full.axis_bytes[2])
    cdef Py_ssize_t elements = element_count(job.g.full)
    if job.channels > 1 and step > absolute(full.channel_bytes) or job.batch > 1 and step > absolute(full.batch_bytes):
        return "elements of other planes lie between those of a row"
    if (full.axis_bytes[2] == job.item_size and (branch_counted("contiguous planes, or rows long enough where they lie",
                                                                job.g.full[2] > COPY_MAX_ROW_ELEMENTS
                                                                or raster_stride(full, job.g.full) == job.item_size)
                                                 or window2_shape_why_not(job) == NULL)
            and not branch_counted("short rows of windows of two, with gaps behind them", not job.gapless
                                   and job.g.pooled[2] < vector_of(job.item_size)
                                   and window2_shape_why_not(job) == NULL)):
        return "rows are contiguous: with no gaps behind them, or longer than 64 elements"
    if branch_counted("fewer planes than threads", planes < job.threads):
        return "fewer planes than threads"
    if not branch_counted("planes of the results equally far apart", job.pooled.uniform_planes
                          and (job.indices.data == NULL or job.indices.uniform_planes)):
        return "the planes of the results are not equally far apart"
    if branch_counted("planes larger than a buffer", elements > COPY_MAX_PLANE_BYTES // job.item_size):
        return "a plane has more than 1 MiB"
    if elements == 1:
        return "a plane has a single element"
    if branch_counted("an axis closer in memory than the width", job.g.full[1] > 1
                      and step > absolute(full.axis_bytes[1]) or job.g.full[0] > 1
                      and step > absolute(full.axis_bytes[0])):
        return "rows are farther apart along the width than along another axis"
    planes_at_once[0] = planes_of_lot(job, COPY_LOT_BYTES // (elements * job.item_size))
    return NULL
