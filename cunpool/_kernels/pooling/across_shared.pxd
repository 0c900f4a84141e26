# Across, shared rows: several rows of windows of 3 x 3 or 5 x 5, called lines here, are compared together; for values
# alone, of 2 x 2 too. Each row of elements is reduced along the width once, and stays in registers for the lines that
# share it.
from libc.stdint cimport int32_t, int64_t, uint64_t

from cunpool._kernels.common.arrays cimport element_address
from cunpool._kernels.common.checks cimport assert_in_block, branch_counted
from cunpool._kernels.common.geometry cimport absolute, clamp, Geometry
from cunpool._kernels.common.job cimport has_interleaved_channels, HALF_KIND, Job
from cunpool._kernels.common.tasks cimport Found
from cunpool._kernels.pooling.across cimport (
    Across, AcrossWindows, fill_ramp, MAX_RESULTS_AT_ONCE, pool_across, windows_alike, windows_together)
from cunpool._kernels.pooling.compare cimport are_codes_decoded, expect_nan, expects_no_nan, has_indices_in_lanes
from cunpool._kernels.pooling.separable cimport decode_item1, Decoder
from cunpool._kernels.pooling.write cimport base_of, LINE, Target, target_of, VECTOR

cdef extern from "_kernels/pooling/across.h":
    enum:
        HAS_LARGE_LOOPS "CUNPOOL_HAS_LARGE_LOOPS"
        SHARED_MAX_KERNEL, SHARED_MAX_LINES, SHARED_MAX_ROWS
    ctypedef struct SharedRows "cunpool_shared_rows":
        AcrossWindows first_line
        Py_ssize_t lines
        int kernel, stride
        const char *row[SHARED_MAX_ROWS]
        int64_t row_code[SHARED_MAX_ROWS]
        Py_ssize_t tap_bytes[SHARED_MAX_KERNEL]
        int32_t tap_code[SHARED_MAX_KERNEL]
        int64_t line_code
        Py_ssize_t best_line_bytes, code_line_bytes
        uint64_t flip
        int infinity
    bint compare_shared "cunpool_compare_shared"(const SharedRows *rows, int item_size, bint is_float) noexcept nogil

cdef enum:
    MIN_SHARING_LINES = 2       # A single line shares no rows. (speed)
    MIN_SHARING_BYTES = 64      # of what is compared at once: a vector (correctness), of any instruction set
    # Bytes of all channels, at most, if the stride is 2: L1 has no room for the rows of more. (speed: 256 x 27 x 27)
    STRIDE_2_MAX_BYTES_3 = 1 << 9   # windows of 3 x 3
    STRIDE_2_MAX_BYTES_5 = 1 << 10  # windows of 5 x 5
    # L1 has few places for addresses that are a multiple of L1_WAY_BYTES apart. (speed: 64 x 112 x 112, 3 x 3)
    L1_WAYS = 8
    L1_WAY_BYTES = 1 << 12


cdef inline bint can_share_rows(const Job *job) noexcept nogil:
    """Whether the windows and the type of elements are some for which lines are compared together. How channels lie in
    memory is for `can_share`."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t kernel = g.kernel[1], stride = g.stride[1]
    return (HAS_LARGE_LOOPS and g.kernel[0] == 1 and g.kernel[2] == kernel and g.stride[2] == stride
            and (kernel == 2 and stride == 1 and job.indices.data == NULL
                 or (kernel == 3 or kernel == 5) and (stride == 1 or stride == 2))
            and g.dilation[1] == g.dilation[2] == 1 and g.pooled[1] >= MIN_SHARING_LINES
            and g.full[1] >= kernel and g.full[2] >= kernel     # smaller planes are mostly padding (speed)
            and job.raster_axes[2] == 2 and (job.flip == 0 or job.item_size <= 2))


cdef inline bint can_share(const Job *job) noexcept nogil:
    """Whether lines are compared together: they share rows of elements, in neighbouring channels, and results are
    stored in place."""
    cdef Py_ssize_t most = STRIDE_2_MAX_BYTES_3 if job.g.kernel[1] == 3 else STRIDE_2_MAX_BYTES_5
    return (can_share_rows(job) and job.full.channel_bytes == job.item_size and not job.nontemporal
            and job.channels * job.item_size >= MIN_SHARING_BYTES and job.channels <= LINE
            and (job.g.stride[1] == 1 or job.channels * job.item_size <= most)
            and has_interleaved_channels(job, &job.pooled, job.item_size)
            and (job.indices.data == NULL or has_interleaved_channels(job, &job.indices, job.index_size)))


cdef inline Py_ssize_t sharing_tasks(const Job *job) noexcept nogil:
    """Into how many tasks a call is cut, so that most have as many lines as are compared together."""
    cdef Py_ssize_t lines = job.batch * job.g.pooled[0] * job.g.pooled[1]
    return min(job.tasks, max(<Py_ssize_t> job.threads, lines // SHARED_MAX_LINES))


cdef inline Py_ssize_t most_lines(const Job *job) noexcept nogil:
    """How many lines are compared together, at most: fewer where L1 has no room for all their elements."""
    cdef Py_ssize_t row_bytes = absolute(job.full.axis_bytes[1]), ways = L1_WAYS
    if row_bytes % (L1_WAY_BYTES // 2) != 0:
        return SHARED_MAX_LINES
    if row_bytes % L1_WAY_BYTES != 0:
        ways *= 2
    return min((ways - job.g.kernel[1]) // job.g.stride[1] + 1, <Py_ssize_t> SHARED_MAX_LINES)


cdef inline void set_rows(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h,
                          SharedRows *rows) noexcept nogil:
    """Set what the windows of all lines have in common, from line `h` of a layer on."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t start = h * g.stride[1] - g.padding[1], step = job.index_steps[1], row, inside
    cdef bint in_lanes = has_indices_in_lanes(job)
    cdef Py_ssize_t base = base_of(job, d, h, 0) if in_lanes else 0
    assert_in_block((rows.lines - 1) * g.stride[1] + g.kernel[1] <= SHARED_MAX_ROWS)
    for row in range((rows.lines - 1) * g.stride[1] + g.kernel[1]):
        inside = clamp(start + row, 0, g.full[1] - 1)
        rows.row[row] = element_address(&job.full, job.channels, plane, d * g.stride[0] - g.padding[0], inside, 0)
        rows.row_code[row] = base + (inside - start) * step
    rows.line_code = 0 if in_lanes else g.stride[1] * step
    rows.kernel, rows.stride = <int> g.kernel[2], <int> g.stride[2]
    rows.best_line_bytes = job.pooled.axis_bytes[1]
    rows.flip, rows.infinity = job.flip, job.infinity
    rows.first_line.window_bytes = g.stride[2] * job.full.axis_bytes[2]
    rows.first_line.window_step = g.stride[2] * job.raster_steps[2] if in_lanes else 0
    rows.first_line.code_bytes = job.index_size if in_lanes else 1


cdef inline void set_taps(const Job *job, Py_ssize_t w, SharedRows *rows) noexcept nogil:
    """Set the taps of windows from number `w` of their lines on."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t start = w * g.stride[2] - g.padding[2], inside
    cdef int tap
    for tap in range(rows.kernel):
        inside = clamp(start + tap, 0, g.full[2] - 1)
        rows.tap_bytes[tap] = inside * job.full.axis_bytes[2]
        rows.tap_code[tap] = <int32_t> ((inside - start) * job.index_steps[2])


cdef inline bint pool_lines(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t lines,
                            Py_ssize_t count, const int64_t *ramp) noexcept nogil:
    """Pool some lines in `count` channels. Returns whether there were odd elements: then the results are worth
    nothing."""
    cdef const Geometry *g = &job.g
    cdef char[SHARED_MAX_LINES * MAX_RESULTS_AT_ONCE + VECTOR] codes
    cdef SharedRows rows
    cdef AcrossWindows *windows = &rows.first_line
    cdef Target target = target_of(job, plane, d, h, 0, True)
    cdef bint are_decoded = are_codes_decoded(job)
    cdef Py_ssize_t most = windows_together(job, count) if are_decoded else g.pooled[2], w = 0, some, line
    rows.lines = lines
    set_rows(job, plane, d, h, &rows)
    windows.channels = windows.window_results = count
    while w < g.pooled[2]:
        some = windows.count = min(most, windows_alike(job, w))
        assert_in_block(not are_decoded or lines * some * count <= SHARED_MAX_LINES * MAX_RESULTS_AT_ONCE)
        set_taps(job, w, &rows)
        windows.base = w * windows.window_step
        windows.best = target.values
        windows.best_codes = <char *> codes if are_decoded else target.indices
        rows.code_line_bytes = some * count if are_decoded else target.index_row
        if compare_shared(&rows, <int> job.item_size, job.kind >= HALF_KIND):
            return True
        for line in range(lines if are_decoded else 0):
            decode_item1(<const Decoder *> job.plan, target.indices + line * target.index_row,
                         codes + line * some * count, some * count, <uint64_t> base_of(job, d, h + line, w), ramp)
        target.values += some * job.pooled.axis_bytes[2]
        if target.indices != NULL:
            target.indices += some * job.indices.axis_bytes[2]
        w += some
    return False


cdef inline void pool_rows(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t end,
                           Py_ssize_t count, Across *state) noexcept nogil:
    """Pool lines `h` to before `end` of a layer in `count` neighbouring channels."""
    cdef Py_ssize_t most = most_lines(job) if branch_counted("windows that share rows", can_share(job)) else 1
    cdef Py_ssize_t parts, lines, line
    cdef bint shares
    fill_ramp(job, count, state)
    while h < end:
        parts = (end - h + most - 1) // most
        lines = (end - h + parts - 1) // parts
        shares = lines >= MIN_SHARING_LINES and expects_no_nan(&state.nan_backoff)
        if shares and branch_counted("odd elements in rows that windows share",
                                     pool_lines(job, plane, d, h, lines, count, state.ramp)):
            expect_nan(&state.nan_backoff)
            shares = False
        for line in range(h, h if shares else h + lines):
            pool_across(job, plane, d, line, 0, job.g.pooled[2], count, state)
        h += lines


cdef inline void pool_channels(const Job *job, Py_ssize_t task, Found *found, void *full, void *_) noexcept nogil:
    """One task: some rows of windows, each in up to LINE channels."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t height = g.pooled[1], parts = (job.channels + LINE - 1) // LINE, part, layer, first, rows
    cdef Py_ssize_t lines = job.batch * g.pooled[0] * parts * height, line = lines * task // job.tasks
    cdef Py_ssize_t end = lines * (task + 1) // job.tasks
    cdef Across state
    state.nan_backoff = state.count = 0
    while line < end:
        rows = min(height - line % height, end - line)
        part = line // height
        layer = part // parts
        first = part % parts * LINE
        pool_rows(job, layer // g.pooled[0] * job.channels + first, layer % g.pooled[0], line % height,
                  line % height + rows, min(job.channels - first, <Py_ssize_t> LINE), &state)
        line += rows
