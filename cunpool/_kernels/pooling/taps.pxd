# Windows compared tap by tap: their maxima side by side, in as many channels or windows as follow each other in memory.
from libc.stdint cimport int32_t, uint64_t

from cunpool._kernels.common.checks cimport assert_in_block
from cunpool._kernels.common.geometry cimport Geometry
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.types cimport bhalf, float4, float8, half, void_inline, void_wide
from cunpool._kernels.pooling.compare cimport flipped, keep_higher, number, Order, order_of_job, tap_offset
from cunpool._kernels.pooling.compare_floats cimport compare_floats, expects_no_nan, FLOAT_TAPS, has_no_nan

cdef extern from "_kernels/pooling/compare_halves.h":
    enum:
        HALF_TAPS "CUNPOOL_HALF_TAPS"
        HALF_MAX_OFFSET "CUNPOOL_HALF_MAX_OFFSET"
    void compare_halves "cunpool_compare_halves"(
        int count, const char **elements, const int32_t *offsets, uint64_t flip, int32_t infinity, bint omits_nan,
        Py_ssize_t windows, Py_ssize_t next, Py_ssize_t next_offset, Py_ssize_t pitch, Py_ssize_t lines, void *best,
        int32_t *offset) noexcept nogil

cdef enum:
    TAPS = FLOAT_TAPS       # elements of the largest window whose elements are compared at once


cdef struct Taps:
    # The elements of a window that lie inside the array, in raster order, and their offsets in the window. The same
    # elements of the next window are their neighbours.
    int count
    Order order
    const char *elements[TAPS]
    int32_t offsets[TAPS]


cdef inline void_inline compare_taps(bint begin, int tap_count, const Taps *taps, Order order, Py_ssize_t ahead,
                                     int32_t further, int first, int count, Py_ssize_t lines, number *best,
                                     int32_t *offset) noexcept nogil:
    """Compare `count` taps, from `first` on, with the best so far of `lines` windows, unless they `begin`.

    Elements lie `ahead` bytes behind the taps, and their offsets are larger by `further`. The loop vectorises where
    `begin` and `tap_count` are constants. With more taps than elements the last element is compared again, which
    changes nothing.
    """
    # Copies: the compiler cannot exclude that storing `best` changes `taps`.
    cdef const number *elements[4]
    cdef int32_t offsets[4]
    cdef Py_ssize_t i
    cdef int tap
    cdef number highest
    cdef int32_t there
    for tap in range(tap_count):
        elements[tap] = <const number *> (taps.elements[first + min(tap, count - 1)] + ahead)
        offsets[tap] = taps.offsets[first + min(tap, count - 1)] + further
    for i in range(lines):
        highest = flipped(elements[0][i] if begin else best[i], order.flip)
        there = offsets[0] if begin else offset[i]
        for tap in range(1 if begin else 0, tap_count):
            keep_higher(&highest, &there, flipped(elements[tap][i], order.flip), offsets[tap], order)
        best[i] = flipped(highest, order.flip)
        offset[i] = there


cdef inline void_inline compare_fours(const Taps *taps, Order order, Py_ssize_t windows, Py_ssize_t next,
                                      Py_ssize_t next_offset, Py_ssize_t pitch, Py_ssize_t lines, number *best,
                                      int32_t *offset) noexcept nogil:
    """`compare_windows`, comparing each element for NaN. Four taps at a time fit the registers."""
    cdef int first = (taps.count - 1) % 4 + 1, tap
    cdef Py_ssize_t window, ahead
    cdef int32_t further
    for window in range(windows):
        ahead = window * next
        further = <int32_t> (window * next_offset)
        if first == 1:
            compare_taps(True, 1, taps, order, ahead, further, 0, 1, lines, best, offset)
        elif first <= 3:
            compare_taps(True, 3, taps, order, ahead, further, 0, first, lines, best, offset)
        else:
            compare_taps(True, 4, taps, order, ahead, further, 0, first, lines, best, offset)
        for tap in range(first, taps.count, 4):
            compare_taps(False, 4, taps, order, ahead, further, tap, 4, lines, best, offset)
        best += pitch
        offset += pitch


cdef inline void_wide compare_each(const Taps *taps, Py_ssize_t windows, Py_ssize_t next, Py_ssize_t next_offset,
                                   Py_ssize_t pitch, Py_ssize_t lines, number *best,
                                   int32_t *offset) noexcept nogil:
    """`compare_fours`, compiled for both rules of NaN."""
    cdef Order order = taps.order
    if (number is float4 or number is float8) and order.omits_nan:
        order.omits_nan = True
        compare_fours(taps, order, windows, next, next_offset, pitch, lines, best, offset)
    else:
        order.omits_nan = False
        compare_fours(taps, order, windows, next, next_offset, pitch, lines, best, offset)


cdef inline bint floats_served(const Taps *taps, Py_ssize_t windows, Py_ssize_t next, Py_ssize_t next_offset,
                               Py_ssize_t pitch, Py_ssize_t lines, int *nan_backoff, float4 *best,
                               int32_t *offset) noexcept nogil:
    """Whether `compare_floats` served the windows, and none has a NaN."""
    return expects_no_nan(nan_backoff) and has_no_nan(
        compare_floats(taps.count, <const char **> taps.elements, taps.offsets, windows, next, next_offset, pitch,
                       lines, best, offset, taps.order.flip != 0), nan_backoff)


cdef inline void compare_windows(const Taps *taps, Py_ssize_t windows, Py_ssize_t next, Py_ssize_t next_offset,
                                 Py_ssize_t pitch, Py_ssize_t lines, int *nan_backoff, number *best,
                                 int32_t *offset) noexcept nogil:
    """The maxima of `lines` windows and their offsets. Then those of the next windows, `windows` in all: `next` bytes
    further, with offsets `next_offset` larger, and results `pitch` elements further. After a NaN the next calls compare
    each element for NaN."""
    assert_in_block(0 < taps.count <= FLOAT_TAPS)
    if number is half or number is bhalf:
        assert_in_block(taps.count <= HALF_TAPS)
        compare_halves(taps.count, <const char **> taps.elements, taps.offsets, taps.order.flip, taps.order.infinity,
                       taps.order.omits_nan, windows, next, next_offset, pitch, lines, best, offset)
    elif number is float4:
        if not floats_served(taps, windows, next, next_offset, pitch, lines, nan_backoff, best, offset):
            compare_each(taps, windows, next, next_offset, pitch, lines, best, offset)
    else:
        compare_each(taps, windows, next, next_offset, pitch, lines, best, offset)


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
    cdef Py_ssize_t k[3]
    cdef Py_ssize_t at[3]
    cdef int slow = job.raster_axes[0], middle = job.raster_axes[1], fast = job.raster_axes[2], i
    cdef Py_ssize_t first, second, third
    taps.count = 0
    taps.order = order_of_job(job)
    for first in range(g.kernel[slow]):
        k[slow] = first
        for second in range(g.kernel[middle]):
            k[middle] = second
            for third in range(g.kernel[fast]):
                k[fast] = third
                for i in range(3):
                    at[i] = start[i] + k[i] * g.dilation[i]
                if (0 <= at[0] < g.full[0] and 0 <= at[1] < g.full[1] and 0 <= at[2] < g.full[2]):
                    assert_in_block(taps.count < TAPS)
                    taps.elements[taps.count] = (plane + at[0] * job.full.axis_bytes[0] + at[1] * job.full.axis_bytes[1]
                                              + at[2] * job.full.axis_bytes[2])
                    taps.offsets[taps.count] = <int32_t> tap_offset(job, k[0], k[1], k[2])
                    taps.count += 1
