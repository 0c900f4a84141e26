# Pooling's comparisons: which of two numbers stays, and the maxima of windows that lie side by side.
from libc.math cimport INFINITY
from libc.stdint cimport INT16_MIN, int16_t, INT32_MIN, int32_t, INT64_MIN, int64_t, INT8_MIN, int8_t, uint64_t

from cunpool._kernels.common.checks cimport assert_in_block
from cunpool._kernels.common.geometry cimport Geometry
from cunpool._kernels.common.job cimport HALF_KIND, Job
from cunpool._kernels.common.types cimport (
    bhalf, float4, float8, half, index, index8, item1, item2, item4, item8, void_inline, void_noinline, void_wide)
from cunpool._kernels.pooling.floats cimport done, held, hopeful, LOOKS

cdef extern from "_kernels/pooling/compare.h":
    ctypedef int8_t int1 "int8_t"
    ctypedef int16_t int2
    ctypedef int32_t int4
    ctypedef int64_t int8
    float4 flip4 "cunpool_flip4"(float4 x, uint64_t flip) noexcept nogil
    float8 flip8 "cunpool_flip8"(float8 x, uint64_t flip) noexcept nogil

# What C compares as it lies,
ctypedef fused plain:
    int1
    int2
    int4
    int8
    item1
    item2
    item4
    item8
    float4
    float8

# and what takes some care.
ctypedef fused number:
    plain
    half
    bhalf

# A place in its window, or a code of one byte.
ctypedef fused mark:
    int32_t
    item1

cdef enum:
    LARGE_MOST = 512        # windows that are compared cell by cell at once
    TAPS = LOOKS            # cells of the largest window whose cells are looked at together


cdef inline Py_ssize_t vector_of(Py_ssize_t size) noexcept nogil:
    """How many numbers of so many bytes the widest vectors take at once; codes and places take up to four each."""
    return max(<Py_ssize_t> 16, 64 // size)


cdef inline Py_ssize_t whole_vectors(Py_ssize_t count, Py_ssize_t size) noexcept nogil:
    """`count`, as so many as fill the widest vectors. What is done beyond a row, the next row does again."""
    cdef Py_ssize_t vector = vector_of(size)
    return (count + vector - 1) // vector * vector


cdef inline number lowest(number *_) noexcept nogil:
    cdef number x
    if number is half:
        x.bits = 0xFC00
    elif number is bhalf:
        x.bits = 0xFF80
    elif number is float4 or number is float8:
        x = -INFINITY
    elif number is int1:
        x = INT8_MIN
    elif number is int2:
        x = INT16_MIN
    elif number is int4:
        x = INT32_MIN
    elif number is int8:
        x = INT64_MIN
    else:
        x = 0
    return x


cdef inline uint64_t flip_of(number *_) noexcept nogil:
    """The bits that reverse the order of the numbers when they are inverted: a float's sign, all bits of an integer."""
    if number is half or number is bhalf:
        return 0x8000
    elif number is float4:
        return 0x80000000
    elif number is float8:
        return <uint64_t> 1 << 63
    else:
        return <uint64_t> -1


cdef inline number flipped(number x, uint64_t flip) noexcept nogil:
    if number is half or number is bhalf:
        x.bits = <item2> (x.bits ^ flip)
        return x
    elif number is float4:
        return flip4(x, flip)
    elif number is float8:
        return flip8(x, flip)
    else:
        return <number> (x ^ <number> flip)


cdef inline void fill_lowest(number *into, Py_ssize_t count) noexcept nogil:
    """Cells of the padding."""
    cdef Py_ssize_t i
    for i in range(count):
        into[i] = lowest(into)


cdef struct Order:
    # How numbers are compared: as `Job` says. Nothing is flipped, and NaN wins, by `maxima_alone`.
    uint64_t flip
    bint omits_nan
    int32_t infinity        # of 16-bit floats, as bits


cdef inline Order maxima_alone() noexcept nogil:
    cdef Order order
    order.flip, order.omits_nan, order.infinity = 0, False, 0
    return order


cdef inline int32_t order_of(int32_t bits, int32_t infinity, bint omits) noexcept nogil:
    """A half-precision number as an integer of the same order: both zeros are 0, every NaN is above infinity, or where
    it `omits` NaN below the lowest number."""
    cdef int32_t size = bits & 0x7FFF, negative = -(bits >> 15), nan = -<int32_t> (size > infinity)
    return (size ^ negative) - negative & ~nan | (-0x8000 if omits else 0x8000) & nan


cdef inline bint beats(number x, number best, Order order) noexcept nogil:
    """Whether `x`, coming later, takes the place of `best`. The first maximum stays. A NaN beats all, NaN included, or
    is beaten by every number where it is omitted.

    The first rule is that of PyTorch's pooling kernels. Without branches, so that it vectorises.
    """
    cdef int32_t later
    if number is half or number is bhalf:
        later = order_of(x.bits, order.infinity, order.omits_nan)
        return (later > order_of(best.bits, order.infinity, order.omits_nan)) | (later == 0x8000)
    elif number is float4 or number is float8:
        # Loops have `omits_nan` as a constant: a choice in each iteration would keep them from vectorising.
        if order.omits_nan:
            return (not x <= best) & (x == x)
        return (x > best) | (x != x)
    else:
        return x > best


cdef inline number either(bint first, number a, number b) noexcept nogil:
    """`a` or `b`; a choice between structures would be a branch."""
    if number is half or number is bhalf:
        a.bits = a.bits if first else b.bits
        return a
    else:
        return a if first else b


cdef inline void_inline hold(number *highest, int32_t *there, number x, int32_t here, Order order) noexcept nogil:
    """Hold the best so far against one more cell."""
    cdef bint better = beats(x, highest[0], order)
    highest[0] = either(better, x, highest[0])
    there[0] = here if better else there[0]


cdef inline void_noinline compare(number *best, index *place, const char *cells, Py_ssize_t step, Py_ssize_t count,
                                  index here, Order order) noexcept nogil:
    """Hold the windows' best so far against one more cell each: the one at `here` in its window."""
    cdef Py_ssize_t i
    cdef number x
    cdef bint better
    for i in range(count):
        x = flipped((<const number *> (cells + i * step))[0], order.flip)
        better = beats(x, best[i], order)
        best[i] = either(better, x, best[i])
        place[i] = here if better else place[i]


cdef inline void_noinline compare_omitting(number *best, index *place, bint *has_element, const char *cells,
                                           Py_ssize_t step, Py_ssize_t count, index here,
                                           Order order) noexcept nogil:
    """`compare` where NaN is less than every number. A window that `has_element` has been compared before."""
    cdef Py_ssize_t i
    cdef number x
    for i in range(count):
        x = flipped((<const number *> (cells + i * step))[0], order.flip)
        if not has_element[i] or beats(x, best[i], order):
            best[i] = x
            place[i] = here
        has_element[i] = True


cdef inline bint inside(Py_ssize_t start, Py_ssize_t kernel, Py_ssize_t dilation, Py_ssize_t size) noexcept nogil:
    """Whether a window, begun at `start`, lies wholly in the array along one axis."""
    return start >= 0 and start + (kernel - 1) * dilation < size


cdef inline Py_ssize_t first_tap(Py_ssize_t start, Py_ssize_t dilation) noexcept nogil:
    """The first position of a window, begun at `start`, that is not in the padding before the array."""
    return 0 if start >= 0 else (-start + dilation - 1) // dilation


cdef inline Py_ssize_t place_of(const Job *job, Py_ssize_t kd, Py_ssize_t kh, Py_ssize_t kw) noexcept nogil:
    """A cell's place in its window: how far it is from the first cell, or the window code.

    Where 32 bits are not enough, the last 32 will do for indices of as many: adding where the window begins wraps back.
    Unsigned, because 64 bits may wrap too.
    """
    return <Py_ssize_t> (<size_t> kd * <size_t> job.index_steps[0] + <size_t> kh * <size_t> job.index_steps[1]
                         + <size_t> kw * <size_t> job.index_steps[2])


cdef inline bint spans_far(const Job *job) noexcept nogil:
    """Whether 32 bits are not enough for a cell's place in its window."""
    cdef const Geometry *g = &job.g
    return (job.index_size == sizeof(index8)
            and place_of(job, g.kernel[0] - 1, g.kernel[1] - 1, g.kernel[2] - 1) > 0x7FFFFFFF)


cdef struct Taps:
    # The cells of a window that lie inside the array, in raster order: where each is, and its place in the window. The
    # same cells of the next window are neighbours of these.
    int count
    Order order
    const char *cells[TAPS]
    int32_t places[TAPS]


cdef inline void_inline compare_taps(bint begin, int looks, const Taps *taps, Order order, Py_ssize_t ahead,
                                     int32_t further, int first, int count, Py_ssize_t lines, number *best,
                                     int32_t *place) noexcept nogil:
    """Hold `count` cells, the taps from `first` on, against the best so far of `lines` windows, if they do not `begin`.

    Each cell is so many bytes `ahead` of its tap, and its place so much `further`.

    It vectorises where `begin` and `looks` are constants: with more looks than cells the last cell is looked at again,
    which changes nothing.
    """
    # Copies, because the compiler has to fear that writing `best` changes `taps`.
    cdef const number *cells[4]
    cdef int32_t places[4]
    cdef Py_ssize_t i
    cdef int tap
    cdef number highest
    cdef int32_t there
    for tap in range(looks):
        cells[tap] = <const number *> (taps.cells[first + min(tap, count - 1)] + ahead)
        places[tap] = taps.places[first + min(tap, count - 1)] + further
    for i in range(lines):
        highest = flipped(cells[0][i] if begin else best[i], order.flip)
        there = places[0] if begin else place[i]
        for tap in range(1 if begin else 0, looks):
            hold(&highest, &there, flipped(cells[tap][i], order.flip), places[tap], order)
        best[i] = flipped(highest, order.flip)
        place[i] = there


cdef inline void_inline compare_fours(const Taps *taps, Order order, Py_ssize_t windows, Py_ssize_t next,
                                      Py_ssize_t next_place, Py_ssize_t pitch, Py_ssize_t lines, number *best,
                                      int32_t *place) noexcept nogil:
    """`compare_windows`, each cell being looked at for a NaN: the taps by fours, for so many fit the registers."""
    cdef int first = (taps.count - 1) % 4 + 1, tap
    cdef Py_ssize_t window, ahead
    cdef int32_t further
    for window in range(windows):
        ahead = window * next
        further = <int32_t> (window * next_place)
        if first == 1:
            compare_taps(True, 1, taps, order, ahead, further, 0, 1, lines, best, place)
        elif first <= 3:
            compare_taps(True, 3, taps, order, ahead, further, 0, first, lines, best, place)
        else:
            compare_taps(True, 4, taps, order, ahead, further, 0, first, lines, best, place)
        for tap in range(first, taps.count, 4):
            compare_taps(False, 4, taps, order, ahead, further, tap, 4, lines, best, place)
        best += pitch
        place += pitch


cdef inline void_wide compare_each(const Taps *taps, Py_ssize_t windows, Py_ssize_t next, Py_ssize_t next_place,
                                   Py_ssize_t pitch, Py_ssize_t lines, number *best,
                                   int32_t *place) noexcept nogil:
    """`compare_fours`, compiled apart for the two rules of NaN."""
    cdef Order order = taps.order
    if (number is float4 or number is float8) and order.omits_nan:
        order.omits_nan = True
        compare_fours(taps, order, windows, next, next_place, pitch, lines, best, place)
    else:
        if number is not half and number is not bhalf:
            order.omits_nan = False
        compare_fours(taps, order, windows, next, next_place, pitch, lines, best, place)


cdef inline void compare_windows(const Taps *taps, Py_ssize_t windows, Py_ssize_t next, Py_ssize_t next_place,
                                 Py_ssize_t pitch, Py_ssize_t lines, int *careful, number *best,
                                 int32_t *place) noexcept nogil:
    """The maxima of `lines` windows and their places. The same for those `next` bytes ahead, `windows` in all, whose
    places are so much further, with `pitch` results for each. Where a NaN was, the next calls are `careful`."""
    assert_in_block(0 < taps.count <= LOOKS)
    if number is float4:
        # Of a first look `held` does not say whether it is a NaN: one that NaN never leaves, unless it is omitted.
        if not taps.order.omits_nan and hopeful(careful):
            if done(held(taps.count, <const char **> taps.cells, taps.places, windows, next, next_place, pitch, lines,
                         best, place, taps.order.flip), careful):
                return
    compare_each(taps, windows, next, next_place, pitch, lines, best, place)


cdef inline const char *end_of(const Job *job, const char *plane, Py_ssize_t item_size) noexcept nogil:
    """Up to where memory may be read from any cell of a plane of the full side on: to the end of the last one. With
    gaps between them nothing but the cells may be read, and this is where the first one in memory begins."""
    cdef Py_ssize_t size = item_size if job.gapless else 0, reach
    cdef int axis
    for axis in range(3):
        reach = job.full.axis_bytes[axis] * (job.g.full[axis] - 1)
        size += max(reach, 0) if job.gapless else min(reach, 0)
    return plane + size


cdef inline bint ends_before(const Taps *taps, Py_ssize_t size, const char *limit) noexcept nogil:
    """Whether so many bytes from each cell on end before this."""
    cdef int tap
    for tap in range(taps.count):
        if taps.cells[tap] + size > limit:
            return False
    return True


cdef inline number lowest_by(Order order, number *of) noexcept nogil:
    """`lowest`, of either 16-bit float."""
    cdef number x = lowest(of)
    if number is half or number is bhalf:
        x.bits = <item2> (order.infinity | 0x8000)
    return x


cdef inline Order order_of_job(const Job *job) noexcept nogil:
    cdef Order order
    order.flip, order.omits_nan = job.flip, job.omits_nan
    order.infinity = 0x7C00 if job.kind == HALF_KIND else 0x7F80
    return order


cdef inline void find_taps(const Job *job, const char *plane, const Py_ssize_t *start, Taps *taps) noexcept nogil:
    """The cells of one window, in raster order whichever axis is the width."""
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
                    taps.cells[taps.count] = (plane + at[0] * job.full.axis_bytes[0] + at[1] * job.full.axis_bytes[1]
                                              + at[2] * job.full.axis_bytes[2])
                    taps.places[taps.count] = <int32_t> place_of(job, k[0], k[1], k[2])
                    taps.count += 1


cdef inline void compare_large(const Job *job, const char *plane, const Py_ssize_t *start, Py_ssize_t stride,
                                 Py_ssize_t step, Py_ssize_t lines, number *best, index8 *place) noexcept nogil:
    """The maxima of windows of any size, some of them perhaps over the edge, and their places: cell after cell. With
    `Job.flip` the maxima are those of the flipped numbers."""
    cdef bint[LARGE_MOST] has_element
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t first[3]
    cdef Py_ssize_t tap[3]
    cdef Py_ssize_t width = g.full[2], kd, kh, kw, low, high, i
    cdef const char *cells
    cdef Order order = order_of_job(job)
    cdef number nothing = lowest_by(order, best)
    assert_in_block(lines <= LARGE_MOST)
    for i in range(3):
        first[i] = first_tap(start[i], g.dilation[i])
    # A window without any number above the lowest keeps its first cell.
    for i in range(lines):
        best[i] = nothing
        has_element[i] = False
        place[i] = place_of(job, first[0], first[1], first_tap(start[2] + i * stride, g.dilation[2]))
    for kd in range(first[0], g.kernel[0]):
        tap[0] = start[0] + kd * g.dilation[0]
        if tap[0] >= g.full[0]:
            break
        for kh in range(first[1], g.kernel[1]):
            tap[1] = start[1] + kh * g.dilation[1]
            if tap[1] >= g.full[1]:
                break
            for kw in range(first_tap(start[2] + (lines - 1) * stride, g.dilation[2]), g.kernel[2]):
                tap[2] = start[2] + kw * g.dilation[2]
                if tap[2] >= width:
                    break
                # The windows of this line that have this cell inside the array.
                low = 0
                high = lines
                if stride:
                    low = first_tap(tap[2], stride)
                    high = min(lines, (width - tap[2] + stride - 1) // stride)
                cells = (plane + tap[0] * job.full.axis_bytes[0] + tap[1] * job.full.axis_bytes[1]
                         + tap[2] * job.full.axis_bytes[2] + low * step)
                if low < high and job.omits_nan:
                    compare_omitting(best + low, place + low, has_element + low, cells, step, high - low,
                                     place_of(job, kd, kh, kw), order)
                elif low < high:
                    compare(best + low, place + low, cells, step, high - low, place_of(job, kd, kh, kw), order)
