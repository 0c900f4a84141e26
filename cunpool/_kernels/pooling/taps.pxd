# Windows compared tap by tap: their maxima side by side, in all channels that follow each other in memory.
from libc.stdint cimport int32_t, uint64_t

from cunpool._kernels.common.checks cimport assert_in_block
from cunpool._kernels.common.geometry cimport Geometry
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.types cimport bhalf, float4, float8, half, item1, void_inline, void_wide
from cunpool._kernels.pooling.compare cimport (
    expect_nan, expects_no_nan, first_tap, flipped, inside, int4, keep_higher, number, Order, order_of_job, spans_far,
    tap_offset)
from cunpool._kernels.pooling.numbers cimport highest_of

cdef extern from "_kernels/pooling/across.h":
    enum:
        HAS_VECTORS "CUNPOOL_HAS_VECTORS"
        VECTOR_BYTES "CUNPOOL_VECTOR_BYTES"
        TAPS "CUNPOOL_TAPS"     # elements of the largest window whose elements are compared at once
    ctypedef struct Taps "cunpool_taps":
        int count
        bint omits_nan
        int infinity
        uint64_t flip
        const char *elements[TAPS]
        int32_t offsets[TAPS]
    ctypedef struct AcrossWindows "cunpool_across_windows":
        Py_ssize_t count, next, next_offset, lines, pitch
        int32_t first_offset
        char *best
        int32_t *offset
        char *code_bytes
    bint compare_across "cunpool_compare_across"(const Taps *taps, const AcrossWindows *windows, int item_size,
                                                 bint careful) noexcept nogil

cdef enum:
    HALF_MAX_OFFSET = 0xFFFF    # of a 16-bit float in its window: offsets are as wide as elements (correctness)


cdef inline bint has_16_bit_offsets(const Job *job) noexcept nogil:
    """Whether the offset of each element in its window fits 16 bits."""
    cdef const Geometry *g = &job.g
    return (not spans_far(job)
            and tap_offset(job, g.kernel[0] - 1, g.kernel[1] - 1, g.kernel[2] - 1) <= HALF_MAX_OFFSET)


cdef inline bint has_values_loop(const Job *job, number *_) noexcept nogil:
    """Whether a loop finds values alone, if a call wants no indices."""
    return is_vectorised(job, _) or number is int4 and not job.flip


cdef inline bint is_vectorised(const Job *job, number *_) noexcept nogil:
    """Whether `compare_across` serves elements of this type. Bytes have codes of one byte, but no offsets."""
    if number is float4 or number is float8 or number is half or number is bhalf:
        return HAS_VECTORS
    elif number is item1:
        return HAS_VECTORS and (job.indices.data == NULL or job.code_size == 1)
    else:
        return False


cdef inline void_inline compare_taps(bint begin, int tap_count, const Taps *taps, Order order,
                                     const AcrossWindows *windows, Py_ssize_t window, int first, int count,
                                     number *of) noexcept nogil:
    """Compare `count` taps, from `first` on, with the best so far of a window's channels, unless they `begin`.

    The loop vectorises where `begin` and `tap_count` are constants. If `tap_count` exceeds `count`, the last tap is
    compared again, which changes nothing.
    """
    # Copies: the compiler cannot exclude that storing `best` changes `taps`.
    cdef const number *elements[4]
    cdef int32_t offsets[4]
    cdef number *best = <number *> windows.best + window * windows.pitch
    cdef int32_t *offset = windows.offset + window * windows.pitch
    cdef Py_ssize_t i
    cdef int tap
    cdef number highest
    cdef int32_t there
    for tap in range(tap_count):
        elements[tap] = <const number *> (taps.elements[first + min(tap, count - 1)] + window * windows.next)
        offsets[tap] = taps.offsets[first + min(tap, count - 1)] + <int32_t> (window * windows.next_offset)
    for i in range(windows.lines):
        highest = flipped(elements[0][i] if begin else best[i], order.flip)
        there = offsets[0] if begin else offset[i]
        for tap in range(1 if begin else 0, tap_count):
            keep_higher(&highest, &there, flipped(elements[tap][i], order.flip), offsets[tap], order)
        best[i] = flipped(highest, order.flip)
        offset[i] = there


cdef inline void_inline compare_fours(const Taps *taps, Order order, const AcrossWindows *windows,
                                      number *of) noexcept nogil:
    """`compare_windows`, comparing each element for NaN. Four taps at a time fit the registers."""
    cdef int first = (taps.count - 1) % 4 + 1, tap
    cdef Py_ssize_t window
    for window in range(windows.count):
        if first == 1:
            compare_taps(True, 1, taps, order, windows, window, 0, 1, of)
        elif first <= 3:
            compare_taps(True, 3, taps, order, windows, window, 0, first, of)
        else:
            compare_taps(True, 4, taps, order, windows, window, 0, first, of)
        for tap in range(first, taps.count, 4):
            compare_taps(False, 4, taps, order, windows, window, tap, 4, of)


cdef inline void_wide compare_each(const Taps *taps, const AcrossWindows *windows, number *of) noexcept nogil:
    """`compare_fours`, compiled for both rules of NaN."""
    cdef Order order
    order.flip, order.omits_nan, order.infinity = taps.flip, False, taps.infinity
    if taps.omits_nan and (number is float8 or number is float4 or number is half or number is bhalf):
        order.omits_nan = True  # unreached: a compiler without vectors
        compare_fours(taps, order, windows, of)  # unreached: a compiler without vectors
    else:
        compare_fours(taps, order, windows, of)


cdef inline void compare_windows(const Taps *taps, const AcrossWindows *windows, bint vectorised, int *nan_backoff,
                                 number *of) noexcept nogil:
    """The maxima of some windows and their offsets. After a NaN, or a negative zero of 16 bits, the next calls do not
    try the fast comparison. `vectorised` is what `is_vectorised` returns. `offset` is NULL only if `has_values_loop`.
    """
    cdef const char *run[TAPS]
    cdef Py_ssize_t window
    cdef int tap
    assert_in_block(0 < taps.count <= TAPS)
    if vectorised:
        if expects_no_nan(nan_backoff):
            if not compare_across(taps, windows, sizeof(number), False):
                return
            expect_nan(nan_backoff)
        compare_across(taps, windows, sizeof(number), True)
    elif number is float4 or number is float8 or number is half or number is bhalf:
        if not HAS_VECTORS:
            compare_each(taps, windows, of)
    elif number is int4 and windows.offset == NULL:
        for window in range(windows.count):
            for tap in range(taps.count):
                run[tap] = taps.elements[tap] + window * windows.next
            highest_of(run, taps.count, <number *> windows.best + window * windows.pitch, windows.lines)
    else:
        compare_each(taps, windows, of)


cdef inline bint ends_before(const Taps *taps, Py_ssize_t size, const char *limit) noexcept nogil:
    """Whether `size` bytes from each element on end before `limit`."""
    cdef int tap
    for tap in range(taps.count):
        if taps.elements[tap] + size > limit:
            return False
    return True


cdef inline void find_taps(const Job *job, const char *plane, const Py_ssize_t *start, Taps *taps) noexcept nogil:
    """The elements of one window, in raster order whichever axis is taken for the width."""
    cdef const Geometry *g = &job.g
    cdef Order order = order_of_job(job)
    cdef Py_ssize_t low[3]  # the first tap inside the array, and the one behind the last
    cdef Py_ssize_t high[3]
    cdef Py_ssize_t k[3]
    cdef int slow = job.raster_axes[0], middle = job.raster_axes[1], fast = job.raster_axes[2], i
    cdef Py_ssize_t first, second, third
    cdef const char *row
    taps.count = 0
    taps.flip, taps.omits_nan, taps.infinity = order.flip, order.omits_nan, order.infinity
    for i in range(3):
        low[i] = first_tap(start[i], g.dilation[i])
        high[i] = g.kernel[i]
        if not inside(start[i], g.kernel[i], g.dilation[i], g.full[i]):
            high[i] = min(high[i], (g.full[i] - start[i] + g.dilation[i] - 1) // g.dilation[i])
    for first in range(low[slow], high[slow]):
        for second in range(low[middle], high[middle]):
            row = (plane + (start[slow] + first * g.dilation[slow]) * job.full.axis_bytes[slow]
                   + (start[middle] + second * g.dilation[middle]) * job.full.axis_bytes[middle])
            k[slow], k[middle] = first, second
            for third in range(low[fast], high[fast]):
                k[fast] = third
                assert_in_block(taps.count < TAPS)
                taps.elements[taps.count] = (row + (start[fast] + third * g.dilation[fast])
                                             * job.full.axis_bytes[fast])
                taps.offsets[taps.count] = <int32_t> tap_offset(job, k[0], k[1], k[2])
                taps.count += 1
