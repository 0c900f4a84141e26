# Across: windows of all neighbouring channels, some of a row at once. And any window, element by element.
from libc.stdint cimport int32_t

from cunpool._kernels.common.arrays cimport plane_address
from cunpool._kernels.common.caches cimport align_to_cache_line, cunpool_keep, PREFETCH_BYTES, prefetch_range
from cunpool._kernels.common.checks cimport assert_in_block, branch_counted
from cunpool._kernels.common.geometry cimport element_count, Geometry, span_of
from cunpool._kernels.common.job cimport has_interleaved_channels, Job
from cunpool._kernels.common.tasks cimport Found
from cunpool._kernels.common.types cimport bhalf, half, index8, item1, void_cold, void_noinline
from cunpool._kernels.pooling.compare cimport (
    compare_large, end_of, flipped, inside, number, spans_far, tap_offset, whole_vectors)
from cunpool._kernels.pooling.taps cimport (
    AcrossWindows, compare_windows, ends_before, find_taps, has_16_bit_offsets, has_values_loop, is_vectorised, TAPS,
    Taps, VECTOR_BYTES)
from cunpool._kernels.pooling.write cimport (
    base_of, LINE, Target, target_of, VECTOR, write, write_indices, write_values)

cdef enum:
    # Results that are compared and stored together: windows of a row, in all channels. (speed: 64 x 512 x 512, 2 x 2,
    # with indices, out of cache; 8 x 64 x 112 x 112)
    MOST_TOGETHER = 1024
    MOST_STREAMED = 1 << 10     # Bytes of their values, if these are stored by non-temporal stores. (speed)


cdef inline void_cold pool_large(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w,
                                 Py_ssize_t lines, bint along_channels, number *full) noexcept nogil:
    """Pool neighbouring windows of any size, element by element."""
    cdef number[LINE + VECTOR] best_room
    cdef index8[LINE + VECTOR] offset_room
    cdef number *best = <number *> align_to_cache_line(best_room)
    cdef index8 *offset = <index8 *> align_to_cache_line(offset_room)
    cdef Target target = target_of(job, plane, d, h, w, along_channels)
    cdef Py_ssize_t *at = [d, h, w]
    cdef Py_ssize_t start[3]
    cdef Py_ssize_t stride = 0 if along_channels else job.g.stride[2], i
    assert_in_block(lines <= LINE)
    for i in range(3):
        start[i] = at[i] * job.g.stride[i] - job.g.padding[i]
    compare_large(job, plane_address(&job.full, job.channels, plane), start, stride,
                  job.full.channel_bytes if along_channels else stride * job.full.axis_bytes[2], lines, best, offset)
    for i in range(lines if job.flip else 0):
        best[i] = flipped(best[i], job.flip)
    write(&target, base_of(job, d, h, w), stride, lines, best, offset)


cdef inline Py_ssize_t windows_together(const Job *job, Py_ssize_t count, Py_ssize_t size) noexcept nogil:
    """How many windows of a row are compared in `count` channels, and stored, at once. Their results have to follow
    each other; out of cache there are fewer."""
    cdef const Geometry *g = &job.g
    if (g.pooled[2] == 1 or count < job.channels or job.full.channel_bytes != size
            or not branch_counted("values of all channels that follow each other",
                                  has_interleaved_channels(job, &job.pooled, size))):
        return 1
    if job.indices.data != NULL and not branch_counted("indices of all channels that follow each other",
                                                       has_interleaved_channels(job, &job.indices, job.index_size)):
        return 1
    # Offsets count from the first window, in 32 bits. (correctness)
    if (g.stride[2] > 0x7FFFFFFF // MOST_TOGETHER // job.raster_steps[2]
            or tap_offset(job, g.kernel[0] - 1, g.kernel[1] - 1, g.kernel[2] - 1)
            > 0x7FFFFFFF - MOST_TOGETHER * g.stride[2] * job.raster_steps[2]):
        return 1
    # Indices that are stored by non-temporal stores have a buffer of their own, of one LINE. (correctness)
    return max(min(<Py_ssize_t> LINE, MOST_STREAMED // size) // count if job.nontemporal else MOST_TOGETHER // count, 1)


cdef inline bint follows_on(const Job *job) noexcept nogil:
    """Whether the elements that are prefetched lie in the columns' row, or in the next one."""
    cdef Py_ssize_t row = job.g.full[2] * job.full.axis_bytes[2]
    return row == job.full.axis_bytes[1] or row >= 2 * PREFETCH_BYTES


cdef inline bint is_prefetched(const Job *job, Py_ssize_t count, Py_ssize_t size) noexcept nogil:
    """Whether the elements of a row's next windows are prefetched: columns without gaps between them."""
    cdef const Geometry *g = &job.g
    return (branch_counted("windows in all channels at once", count == job.channels)
            and branch_counted("columns of all channels that follow each other",
                               has_interleaved_channels(job, &job.full, size))
            and branch_counted("windows that tap at each column", g.dilation[2] == 1 and g.stride[2] <= g.kernel[2])
            and job.nontemporal and follows_on(job))


cdef inline void_noinline prefetch_columns(const Job *job, const char *from_plane, const Py_ssize_t *start,
                                        Py_ssize_t windows) noexcept nogil:
    """Prefetch the columns that some windows have and the windows before them do not have. The last rows are enough:
    the row of windows before has most often read the others."""
    cdef const Geometry *g = &job.g
    cdef const char *columns = from_plane + (start[2] + g.kernel[2]
                                             - g.stride[2]) * job.full.axis_bytes[2] + PREFETCH_BYTES
    cdef Py_ssize_t size = windows * g.stride[2] * job.full.axis_bytes[2], kd, kh, d, h
    for kd in range(max(g.kernel[0] - g.stride[0], 0), g.kernel[0]):
        d = start[0] + kd * g.dilation[0]
        for kh in range(max(g.kernel[1] - g.stride[1], 0), g.kernel[1]):
            h = start[1] + kh * g.dilation[1]
            if 0 <= d < g.full[0] and 0 <= h < g.full[1]:
                prefetch_range(columns + d * job.full.axis_bytes[0] + h * job.full.axis_bytes[1], size)
    cunpool_keep()  # compilers drop functions that only prefetch


cdef inline void pool_across(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t count,
                             int *nan_backoff, number *full) noexcept nogil:
    """Pool a row of windows in `count` neighbouring channels."""
    cdef number[MOST_TOGETHER + 2 * VECTOR] best_room
    cdef int32_t[MOST_TOGETHER + 2 * VECTOR] offset_room
    cdef number *best = <number *> align_to_cache_line(best_room)
    cdef int32_t *offset = <int32_t *> align_to_cache_line(offset_room)
    cdef Taps taps
    cdef AcrossWindows windows
    cdef const Geometry *g = &job.g
    cdef Target target = target_of(job, plane, d, h, 0, True)
    cdef const char *from_plane = plane_address(&job.full, job.channels, plane)
    cdef Py_ssize_t *start = [d * g.stride[0] - g.padding[0], h * g.stride[1] - g.padding[1], -g.padding[2]]
    cdef Py_ssize_t base = base_of(job, d, h, 0), next_base = g.stride[2] * job.raster_steps[2], w = 0, i
    cdef Py_ssize_t ahead = 0  # bytes from the taps of the windows before, if both lie inside the array
    cdef Py_ssize_t most = windows_together(job, count, sizeof(number))
    cdef const char *limit = end_of(job, from_plane, count * sizeof(number))
    cdef bint vectorised = is_vectorised(job, full), prefetches = is_prefetched(job, count, sizeof(number)), within
    cdef bint by_codes = vectorised and job.code_size == 1
    # A vector at least, or whole ones, except at the end of the array: results behind the channels are not used.
    cdef Py_ssize_t whole = (max(count, VECTOR_BYTES // <Py_ssize_t> sizeof(number)) if vectorised
                             else whole_vectors(count, sizeof(number)))
    # Nothing behind the channels is written: the last vector of a window repeats some.
    cdef bint stores = (vectorised and whole == count and not target.stream
                        and target.value_step == sizeof(number)
                        and (target.indices == NULL or by_codes and target.index_step == 1))
    assert_in_block(count * most <= MOST_TOGETHER and whole <= LINE + VECTOR)
    windows.next, windows.next_offset = g.stride[2] * job.full.axis_bytes[2], 0 if job.code_size else next_base
    windows.first_offset, windows.pitch, windows.best = 0, count, <char *> best
    windows.offset = NULL if target.indices == NULL and has_values_loop(job, full) else offset
    windows.code_bytes = <char *> offset if by_codes else NULL
    while w < g.pooled[2]:
        windows.count = 1
        within = inside(start[2], g.kernel[2], g.dilation[2], g.full[2])
        if within and most > 1:
            windows.count = min(most, 1 + (g.full[2] - span_of(g, 2, 1) - start[2]) // g.stride[2])
        if within and ahead:
            for i in range(taps.count):
                taps.elements[i] += ahead
        else:
            find_taps(job, from_plane, start, &taps)
        ahead = windows.count * windows.next if within else 0
        if taps.count == 0:  # the windows miss the array along another axis
            windows.count = 1
            ahead = 0
            pool_large(job, plane, d, h, w, count, True, full)
        else:
            windows.lines = whole
            if whole > count and not ends_before(&taps, max((windows.count - 1) * windows.next, 0)
                                                 + whole * sizeof(number), limit):
                windows.lines = count
            if stores:
                windows.best = target.values
                windows.code_bytes = target.indices
            assert_in_block((windows.count - 1) * count + windows.lines <= MOST_TOGETHER + VECTOR)
            if prefetches and within:
                prefetch_columns(job, from_plane, start, windows.count)
            compare_windows(&taps, &windows, vectorised, nan_backoff, full)
            if not stores:
                write_values(target.values, target.value_step, target.stream, windows.count * count, best)
                if by_codes:
                    write_values(target.indices, target.index_step, target.stream, windows.count * count,
                                 <item1 *> offset)
                elif target.indices != NULL:
                    write_indices(&target, base, 0, windows.count * count, offset)
        start[2] += windows.count * g.stride[2]
        base += windows.count * next_base
        target.values += windows.count * job.pooled.axis_bytes[2]
        if target.indices != NULL:
            target.indices += windows.count * job.indices.axis_bytes[2]
        w += windows.count


cdef inline void pool_channels(const Job *job, Py_ssize_t task, Found *found, number *full, void *_) noexcept nogil:
    """One task: some rows of windows, each in all channels."""
    cdef const Geometry *g = &job.g
    cdef bint large = (job.full.channel_bytes != sizeof(number)
                       or branch_counted("a window of many elements, across channels", element_count(g.kernel) > TAPS)
                       or spans_far(job) or (number is half or number is bhalf) and not has_16_bit_offsets(job))
    cdef Py_ssize_t rows = g.pooled[0] * g.pooled[1], parts, lines, line, row, plane, d, h, count, w
    cdef int nan_backoff = 0
    parts = (job.channels + LINE - 1) // LINE
    lines = job.batch * rows * parts
    for line in range(lines * task // job.tasks, lines * (task + 1) // job.tasks):
        row = line // parts % rows
        plane = line // (parts * rows) * job.channels + line % parts * LINE
        count = min(job.channels - line % parts * LINE, <Py_ssize_t> LINE)
        d = row // g.pooled[1]
        h = row % g.pooled[1]
        if large:
            for w in range(g.pooled[2]):
                pool_large(job, plane, d, h, w, count, True, full)
        else:
            pool_across(job, plane, d, h, count, &nan_backoff, full)


cdef inline void pool_elements(const Job *job, Py_ssize_t task, Found *found, number *full, void *_) noexcept nogil:
    """One task: some pooled rows of all planes, element by element."""
    cdef const Geometry *g = &job.g
    # Windows that share no element of a row are handled one by one: the elements between them belong to no window.
    cdef Py_ssize_t width = LINE if branch_counted("windows that share elements of a row",
                                                   g.stride[2] < g.full[2]) else 1
    cdef Py_ssize_t parts = (g.pooled[2] + width - 1) // width, rows = g.pooled[0] * g.pooled[1]
    cdef Py_ssize_t lines = job.batch * job.channels * rows * parts, line, row, w
    for line in range(lines * task // job.tasks, lines * (task + 1) // job.tasks):
        row = line // parts
        w = line % parts * width
        pool_large(job, row // rows, row % rows // g.pooled[1], row % g.pooled[1], w, min(g.pooled[2] - w, width),
                   False, full)
