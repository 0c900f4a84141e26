# The order of numbers, which of two stays, and where the elements of a window lie.
from libc.stdint cimport int16_t, int32_t, int64_t, uint64_t

from cunpool._kernels.common.geometry cimport Geometry
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.types cimport float4, float8, half, index, index8, item1, item2, item4, item8

cdef extern from "_kernels/common/types.h":
    ctypedef int16_t int2
    ctypedef int32_t int4 "index4"
    ctypedef int64_t int8 "index8"

# The types that `Job.order_kind` names.
ctypedef fused number:
    item1
    int2
    int4
    int8
    half
    float4
    float8

cdef enum:
    NAN_BACKOFF_CALLS = 16  # comparisons after one with a NaN that expect NaN (speed)


cdef inline Py_ssize_t vector_of(Py_ssize_t size) noexcept nogil:
    """Elements of the widest vector, at least 16: codes and offsets take up to four bytes each. A power of 2."""
    return 64 if size == 1 else 32 if size == 2 else 16


cdef inline Py_ssize_t whole_vectors(Py_ssize_t count, Py_ssize_t size) noexcept nogil:
    """`count`, rounded up to whole vectors. Results behind a row are overwritten by the next row."""
    cdef Py_ssize_t vector = vector_of(size)
    return (count + vector - 1) & -vector


cdef inline number flipped(number x, uint64_t flip) noexcept nogil:
    """A number with some of its bits inverted."""
    if number is half:
        x.bits = <item2> (x.bits ^ flip)
    elif number is float4:
        (<item4 *> &x)[0] ^= <item4> flip
    elif number is float8:
        (<item8 *> &x)[0] ^= <item8> flip
    else:
        x = <number> (x ^ <number> flip)
    return x


cdef inline int32_t order_of(int32_t bits, int32_t infinity, bint omits) noexcept nogil:
    """A 16-bit float as an integer of the same order. Both zeros are 0. Every NaN is above infinity, or below the
    lowest number if the order `omits` NaN."""
    cdef int32_t size = bits & 0x7FFF, negative = -(bits >> 15), nan = -<int32_t> (size > infinity)
    return (size ^ negative) - negative & ~nan | (-0x8000 if omits else 0x8000) & nan


cdef inline bint beats(number x, number best, bint omits_nan, int32_t infinity) noexcept nogil:
    """Whether `x`, which is later in raster order, replaces `best`. The first maximum stays. A NaN beats all, NaN too,
    or is beaten by every number where it is omitted. `infinity` is that of 16-bit floats, as bits.

    The first rule is that of PyTorch's pooling kernels. Without branches, so that it vectorises.
    """
    cdef int32_t later
    if number is half:
        later = order_of(x.bits, infinity, omits_nan)
        return (later > order_of(best.bits, infinity, omits_nan)) | (later == 0x8000)
    elif number is float4 or number is float8:
        # Loops have `omits_nan` as a constant: a choice in each iteration would keep them from vectorising.
        if omits_nan:
            return (not x <= best) & (x == x)
        return (x > best) | (x != x)
    else:
        return x > best


cdef inline bint expects_no_nan(int *nan_backoff) noexcept nogil:
    """Whether a comparison expects no NaN. Each that expects one brings the next trial nearer."""
    if nan_backoff[0] == 0:
        return True
    nan_backoff[0] -= 1
    return False


cdef inline void expect_nan(int *nan_backoff) noexcept nogil:
    nan_backoff[0] = NAN_BACKOFF_CALLS


cdef inline bint is_inside(Py_ssize_t start, Py_ssize_t kernel, Py_ssize_t dilation, Py_ssize_t size) noexcept nogil:
    """Whether a window, begun at `start`, lies wholly in the array along one axis."""
    return start >= 0 and start + (kernel - 1) * dilation < size


cdef inline Py_ssize_t first_tap(Py_ssize_t start, Py_ssize_t dilation) noexcept nogil:
    """The first position of a window, begun at `start`, that is not in the padding before the array."""
    return 0 if start >= 0 else (-start + dilation - 1) // dilation


cdef inline Py_ssize_t tap_offset(const Job *job, Py_ssize_t kd, Py_ssize_t kh, Py_ssize_t kw) noexcept nogil:
    """An element's offset from its window's first one, as an index, or its window code.

    Where 32 bits are not enough, the low 32 bits serve indices of 32 bits: adding the window's begin wraps back.
    Unsigned, because 64 bits may wrap too.
    """
    return <Py_ssize_t> (<size_t> kd * <size_t> job.index_steps[0] + <size_t> kh * <size_t> job.index_steps[1]
                         + <size_t> kw * <size_t> job.index_steps[2])


cdef inline bint has_far_taps(const Job *job) noexcept nogil:
    """Whether 32 bits are not enough for an element's offset in its window."""
    cdef const Geometry *g = &job.g
    return (job.index_size == sizeof(index8)
            and tap_offset(job, g.kernel[0] - 1, g.kernel[1] - 1, g.kernel[2] - 1) > 0x7FFFFFFF)


cdef inline const char *end_of(const Job *job, const char *plane, Py_ssize_t item_size) noexcept nogil:
    """End of the memory that may be read behind any element of a plane: the end of its last element. With gaps between
    elements nothing behind them may be read: then this is the first element in memory."""
    cdef Py_ssize_t size = item_size if job.gapless else 0, reach
    cdef int axis
    for axis in range(3):
        reach = job.full.axis_bytes[axis] * (job.g.full[axis] - 1)
        size += max(reach, 0) if job.gapless else min(reach, 0)
    return plane + size


cdef inline int infinity_of(const Job *job) noexcept nogil:
    """Infinity of 16-bit floats, as bits."""
    return job.infinity
