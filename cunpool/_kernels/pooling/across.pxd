# Across: windows of all neighbouring channels, some of a row at once.
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy, memset

from cunpool._kernels.common.arrays cimport plane_address
from cunpool._kernels.common.caches cimport align_to_cache_line, CACHE_LINE
from cunpool._kernels.common.checks cimport assert_in_block, branch_counted
from cunpool._kernels.common.geometry cimport element_count, Geometry, mean_overlap, span_of
from cunpool._kernels.common.job cimport has_interleaved_channels, HALF_KIND, Job
from cunpool._kernels.common.tasks cimport Found
from cunpool._kernels.memory cimport next_part, part_bytes
from cunpool._kernels.pooling.compare cimport (
    are_codes_decoded, end_of, find_inside, has_indices_in_lanes, is_inside, NAN_BACKOFF_CALLS,
    readable_steps, tap_offset)
from cunpool._kernels.pooling.separable cimport decode_item1, Decoder, plan_indices
from cunpool._kernels.pooling.write cimport base_of, LINE, MAX_ITEM_BYTES, Target, target_of, VECTOR, write_values

cdef extern from "_kernels/pooling/across.h":
    enum:
        VECTOR_BYTES "CUNPOOL_VECTOR_BYTES"
        FEW_TAPS "CUNPOOL_FEW_TAPS"
        # Results that are compared and stored together: windows of a row, in all channels. (speed: 64 x 512 x 512,
        # 2 x 2, with indices, out of cache; 8 x 64 x 112 x 112)
        MAX_RESULTS_AT_ONCE "CUNPOOL_MAX_RESULTS_AT_ONCE"
    ctypedef struct Taps "cunpool_taps":
        int count
        bint omits_nan
        int infinity
        uint64_t flip
        const char **elements
        int32_t *tap_codes
    ctypedef struct AcrossWindows "cunpool_across_windows":
        Py_ssize_t count, window_bytes, window_step, channels, window_results
        int64_t base
        char *best
        char *best_codes
        int code_bytes
    bint compare_across "cunpool_compare_across"(const Taps *taps, const AcrossWindows *windows, int item_size,
                                                 bint is_float, bint careful) noexcept nogil

cdef enum:
    MAX_TAPS = 1 << 16      # Elements of the largest window. Their addresses and codes are in scratch memory. (size)
    MAX_BYTE_TAPS = 256     # Elements of the largest window whose codes are bytes. (correctness)
    MOST_STREAMED = 1 << 10     # Bytes of values compared together, if these are stored by non-temporal stores. (speed)
    ROOM_BYTES = 1 << 13        # for copied elements: of a window of FEW_TAPS at least (correctness)
    MANY_TAPS = 32              # Windows of more elements are compared across if these are in few windows: (speed)
    MANY_TAPS_MAX_OVERLAP = 12  # windows that an element is in, in the mean, at most
    # The same, if windows overlap little: to compare all elements of each is cheap then. (speed)
    LITTLE_OVERLAP = 3


cdef struct Across:
    # The state of a task.
    int nan_backoff
    Taps taps               # of the windows that are compared now
    char *room              # for the elements of windows whose channels fill no vector
    Py_ssize_t spare        # bytes behind the array that may be read
    Py_ssize_t count        # channels of the ramp, or 0
    int64_t[MAX_RESULTS_AT_ONCE + VECTOR] ramp  # how far each result's window begins behind the first one, as an index


cdef inline bint has_few_taps(const Job *job) noexcept nogil:
    """Whether it is cheap to compare all elements of each window."""
    cdef Py_ssize_t taps = element_count(job.g.kernel)
    if taps > MANY_TAPS and mean_overlap(&job.g) > MANY_TAPS_MAX_OVERLAP:
        return False
    if taps <= FEW_TAPS:
        return True
    if job.indices.data == NULL and mean_overlap(&job.g) > LITTLE_OVERLAP:
        return False
    return (branch_counted("channels that fill a vector", job.channels * job.item_size >= CACHE_LINE)
            and taps <= (MAX_TAPS if job.indices.data == NULL or has_indices_in_lanes(job) else MAX_BYTE_TAPS))


cdef inline Py_ssize_t across_bytes(const Geometry *g) noexcept nogil:
    """Bytes of scratch memory for a task."""
    cdef Py_ssize_t taps = element_count(g.kernel)
    return (part_bytes(taps * <Py_ssize_t> sizeof(char *)) + part_bytes(taps * <Py_ssize_t> sizeof(int32_t))
            + part_bytes(ROOM_BYTES))


cdef inline void begin_across(const Job *job, char **scratch, Across *state) noexcept nogil:
    """Begin a task, with memory for its taps."""
    cdef Py_ssize_t taps = element_count(job.g.kernel)
    state.nan_backoff = state.count = state.spare = 0
    state.taps.flip, state.taps.omits_nan, state.taps.infinity = job.flip, job.omits_nan, job.infinity
    state.taps.elements = <const char **> next_part(scratch, taps * <Py_ssize_t> sizeof(char *))
    state.taps.tap_codes = <int32_t *> next_part(scratch, taps * <Py_ssize_t> sizeof(int32_t))
    state.room = next_part(scratch, ROOM_BYTES)


cdef inline void plan_codes(Job *job, Decoder *decoder) noexcept nogil:
    """How window codes become indices, where lanes hold codes: taps count in codes then. The width is not swapped."""
    plan_indices(job, decoder)
    job.plan = decoder
    if not has_indices_in_lanes(job):
        job.index_steps = [job.g.kernel[1] * job.g.kernel[2], job.g.kernel[2], 1]


cdef inline void fill_ramp(const Job *job, Py_ssize_t count, Across *state) noexcept nogil:
    """Fill the ramp of windows of a row in `count` channels."""
    cdef Py_ssize_t most = min(count * job.g.pooled[2], <Py_ssize_t> MAX_RESULTS_AT_ONCE) + VECTOR, i
    if state.count == count or not are_codes_decoded(job):
        return
    state.count = count
    for i in range(most):
        state.ramp[i] = 0 if i < count else state.ramp[i - count] + job.g.stride[2] * job.raster_steps[2]


cdef inline Py_ssize_t windows_together(const Job *job, Py_ssize_t count) noexcept nogil:
    """How many windows of a row are compared in `count` channels, and stored, at once. Their results have to follow
    each other; out of cache there are fewer."""
    cdef const Geometry *g = &job.g
    if (g.pooled[2] == 1 or count < job.channels
            or not branch_counted("values of all channels that follow each other",
                                  has_interleaved_channels(job, &job.pooled, job.item_size))):
        return 1
    if job.indices.data != NULL and not branch_counted("indices of all channels that follow each other",
                                                       has_interleaved_channels(job, &job.indices, job.index_size)):
        return 1
    return max((MOST_STREAMED // job.item_size if job.nontemporal else MAX_RESULTS_AT_ONCE) // count, 1)


cdef inline bint has_runs(const Job *job) noexcept nogil:
    """Whether windows are one column apart, so that the results of a row can be one run. Indices, which differ from
    window to window, cannot."""
    return (job.g.stride[2] == 1 and (job.indices.data == NULL or job.code_size > 0)
            and has_interleaved_channels(job, &job.full, job.item_size))


cdef inline void find_taps(const Job *job, const char *plane, const Py_ssize_t *start, Taps *taps) noexcept nogil:
    """The elements of one window, in raster order whichever axis is taken for the width."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t[3] low, high, k
    cdef int slow = job.raster_axes[0], middle = job.raster_axes[1], fast = job.raster_axes[2]
    cdef Py_ssize_t first, second, third
    cdef const char *row
    taps.count = 0
    find_inside(g, start, low, high)
    for first in range(low[slow], high[slow]):
        for second in range(low[middle], high[middle]):
            row = (plane + (start[slow] + first * g.dilation[slow]) * job.full.axis_bytes[slow]
                   + (start[middle] + second * g.dilation[middle]) * job.full.axis_bytes[middle])
            k[slow], k[middle] = first, second
            for third in range(low[fast], high[fast]):
                k[fast] = third
                assert_in_block(taps.count < element_count(g.kernel))
                taps.elements[taps.count] = (row + (start[fast] + third * g.dilation[fast])
                                             * job.full.axis_bytes[fast])
                taps.tap_codes[taps.count] = <int32_t> tap_offset(job, k[0], k[1], k[2])
                taps.count += 1


cdef inline void compare_windows(const Job *job, const Taps *taps, const AcrossWindows *windows,
                                 int *nan_backoff) noexcept nogil:
    """The maxima of some windows and their codes. After a NaN, or a negative zero of 16 bits, the next calls do not
    try the fast comparison."""
    cdef bint is_float = job.kind >= HALF_KIND
    assert_in_block(taps.count > 0)
    if nan_backoff[0] == 0:
        if not compare_across(taps, windows, <int> job.item_size, is_float, False):
            return
        nan_backoff[0] = NAN_BACKOFF_CALLS + 1  # this one, too
    nan_backoff[0] -= 1
    compare_across(taps, windows, <int> job.item_size, True, True)  # only floats are odd


cdef inline bint can_store_in_place(const Job *job, const Target *target) noexcept nogil:
    """Whether results can go to the caller's arrays: in neighbouring channels. Nothing behind the channels is written
    then: the last vector of a window repeats some."""
    return (not job.nontemporal and target.value_step == job.item_size
            and (target.indices == NULL or target.index_step == job.index_size))


cdef inline bint set_channels(AcrossWindows *windows, Py_ssize_t count, Py_ssize_t size, bint in_runs, Across *state,
                              const char *limit) noexcept nogil:
    """Set how many results are compared at once from each element on: of `count` channels, or a vector at least, or of
    all windows as one run. Returns whether these are one run. If vectors of later windows would end behind `limit`,
    `windows.count` becomes the number of those before. If that is none, elements are copied to `room`, a vector for
    each window and tap."""
    cdef Taps *taps = &state.taps
    cdef Py_ssize_t wanted = windows.count, window
    cdef int tap
    if in_runs and windows.count * count * size >= VECTOR_BYTES:
        windows.count, windows.channels = 1, windows.count * count
        return True
    windows.channels = max(count, VECTOR_BYTES // size)
    if windows.channels > count:
        windows.count = readable_steps(taps.elements, taps.count, windows.count, windows.window_bytes,
                                       limit - VECTOR_BYTES)
    if windows.count == 0:
        windows.count = min(wanted, ROOM_BYTES // (taps.count * VECTOR_BYTES))
        assert_in_block(windows.count > 0)
        memset(state.room, 0, windows.count * taps.count * VECTOR_BYTES)    # lanes behind the channels have no NaN
        for tap in range(taps.count):
            for window in range(windows.count):
                memcpy(state.room + (window * taps.count + tap) * VECTOR_BYTES,
                       taps.elements[tap] + window * windows.window_bytes, count * size)
            taps.elements[tap] = state.room + tap * VECTOR_BYTES
        windows.window_bytes = taps.count * VECTOR_BYTES
    return False


cdef inline Py_ssize_t windows_alike(const Job *job, Py_ssize_t w) noexcept nogil:
    """How many windows of a row, from number `w` on, are compared by the same taps: all that are inside the array
    along the width, or a single one that is not."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t room = g.full[2] - span_of(g, 2, 1) - (w * g.stride[2] - g.padding[2])
    if w * g.stride[2] < g.padding[2] or room < 0:
        return 1
    return min(room // g.stride[2] + 1, g.pooled[2] - w)


cdef inline void pool_across(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w,
                             Py_ssize_t end, Py_ssize_t count, Across *state) noexcept nogil:
    """Pool windows `w` to before `end` of a row in `count` neighbouring channels."""
    cdef char[(MAX_RESULTS_AT_ONCE + 2 * VECTOR) * MAX_ITEM_BYTES] best_room
    cdef char[(MAX_RESULTS_AT_ONCE + 2 * VECTOR) * MAX_ITEM_BYTES] index_room
    cdef char[MAX_RESULTS_AT_ONCE + 2 * VECTOR] codes
    cdef char *best_buffer = <char *> align_to_cache_line(best_room)
    cdef char *index_buffer = <char *> align_to_cache_line(index_room)
    cdef char *indices
    cdef Taps *taps = &state.taps
    cdef AcrossWindows windows
    cdef const Geometry *g = &job.g
    cdef Target target = target_of(job, plane, d, h, w, True)
    cdef const char *from_plane = plane_address(&job.full, job.channels, plane)
    cdef Py_ssize_t *start = [d * g.stride[0] - g.padding[0], h * g.stride[1] - g.padding[1],
                              w * g.stride[2] - g.padding[2]]
    cdef Py_ssize_t base = base_of(job, d, h, w), next_base = g.stride[2] * job.raster_steps[2]
    cdef Py_ssize_t size = job.item_size, most = windows_together(job, count), number
    cdef const char *limit = end_of(job, from_plane, count * size) + state.spare
    cdef bint within
    cdef bint in_lanes = has_indices_in_lanes(job), are_decoded = are_codes_decoded(job)
    cdef bint in_place = can_store_in_place(job, &target), stores, is_run
    cdef bint in_runs = (branch_counted("channels that fill no vectors", count * size % VECTOR_BYTES != 0)
                         and has_runs(job))
    assert_in_block(count * most <= MAX_RESULTS_AT_ONCE and count <= LINE)
    windows.window_step = next_base if in_lanes else 0
    windows.window_results, windows.code_bytes = count, job.index_size if in_lanes else 1
    while w < end:
        windows.count = min(min(most, end - w), windows_alike(job, w))
        within = is_inside(start[2], g.kernel[2], g.dilation[2], g.full[2])
        find_taps(job, from_plane, start, taps)
        windows.window_bytes = g.stride[2] * job.full.axis_bytes[2]
        number = windows.count
        is_run = set_channels(&windows, count, size, in_runs and within, state, limit)
        number = number if is_run else windows.count  # a run counts as one window
        stores = in_place and (is_run or count * size >= VECTOR_BYTES)
        windows.best = target.values if stores else best_buffer
        indices = NULL if target.indices == NULL else target.indices if stores else index_buffer
        windows.best_codes = <char *> codes if are_decoded else indices
        windows.base = base if in_lanes else 0
        assert_in_block((windows.count - 1) * count + windows.channels <= MAX_RESULTS_AT_ONCE + VECTOR)
        compare_windows(job, taps, &windows, &state.nan_backoff)
        if are_decoded:
            decode_item1(<const Decoder *> job.plan, indices, codes, number * count, <uint64_t> base, state.ramp)
        if not stores:
            write_values(target.values, target.value_step, job.nontemporal, number * count, windows.best, size)
        if not stores and indices != NULL:
            write_values(target.indices, target.index_step, job.nontemporal, number * count, indices, job.index_size)
        start[2] += number * g.stride[2]
        base += number * next_base
        target.values += number * job.pooled.axis_bytes[2]
        if target.indices != NULL:
            target.indices += number * job.indices.axis_bytes[2]
        w += number


cdef inline void pool_channels(const Job *job, Py_ssize_t task, Found *found, void *full, void *_) noexcept nogil:
    """One task: some rows of windows, each in up to LINE channels."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t height = g.pooled[1], parts = (job.channels + LINE - 1) // LINE, layer, part, first, count
    cdef Py_ssize_t lines = job.batch * g.pooled[0] * parts * height, line
    cdef char *scratch = found.scratch
    cdef Across state
    begin_across(job, &scratch, &state)
    for line in range(lines * task // job.tasks, lines * (task + 1) // job.tasks):
        layer = line // height // parts
        part = line // height % parts
        first = job.channels * part // parts
        count = job.channels * (part + 1) // parts - first
        fill_ramp(job, count, &state)
        pool_across(job, layer // g.pooled[0] * job.channels + first, layer % g.pooled[0], line % height, 0,
                    g.pooled[2], count, &state)
