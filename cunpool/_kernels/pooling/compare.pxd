# What the comparing methods share: whole vectors, the NaN backoff, where the elements of a window lie, what lanes hold.
from cunpool._kernels.common.geometry cimport Geometry
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.types cimport index8

cdef enum:
    NAN_BACKOFF_CALLS = 16  # comparisons that are careful at once, after one that met a NaN (speed)


cdef inline Py_ssize_t vector_of(Py_ssize_t size) noexcept nogil:
    """Elements of the widest vector, or for 8 bytes of two vectors. A power of 2."""
    return 64 if size == 1 else 32 if size == 2 else 16


cdef inline Py_ssize_t whole_vectors(Py_ssize_t count, Py_ssize_t size) noexcept nogil:
    """`count`, rounded up to whole vectors. Results behind a row are overwritten by the next row."""
    cdef Py_ssize_t vector = vector_of(size)
    return (count + vector - 1) & -vector


cdef inline bint is_inside(Py_ssize_t start, Py_ssize_t kernel, Py_ssize_t dilation, Py_ssize_t size) noexcept nogil:
    """Whether a window, begun at `start`, lies wholly in the array along one axis."""
    return start >= 0 and start + (kernel - 1) * dilation < size


cdef inline Py_ssize_t first_tap(Py_ssize_t start, Py_ssize_t dilation) noexcept nogil:
    """The first position of a window, begun at `start`, that is not in the padding before the array."""
    return 0 if start >= 0 else (-start + dilation - 1) // dilation


cdef inline void find_inside(const Geometry *g, const Py_ssize_t *start, Py_ssize_t *low,
                             Py_ssize_t *high) noexcept nogil:
    """Along each axis: the first tap of a window, begun at `start`, that lies in the array, and the one behind the last
    of these."""
    cdef int axis
    for axis in range(3):
        low[axis] = first_tap(start[axis], g.dilation[axis])
        high[axis] = g.kernel[axis]
        if not is_inside(start[axis], g.kernel[axis], g.dilation[axis], g.full[axis]):
            high[axis] = min(high[axis], (g.full[axis] - start[axis] + g.dilation[axis] - 1) // g.dilation[axis])


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


cdef inline Py_ssize_t readable_steps(const char **first, int count, Py_ssize_t steps, Py_ssize_t step_bytes,
                                      const char *last) noexcept nogil:
    """How many of `steps` reads, `step_bytes` apart, begin at `last` or before, from each of the `count` addresses in
    `first` on. 0 if the first read from one of them does not."""
    cdef int i
    for i in range(count):
        if first[i] > last:
            return 0
        if last - first[i] < (steps - 1) * step_bytes:
            steps = (last - first[i]) // step_bytes + 1
    return steps


cdef inline bint has_indices_in_lanes(const Job *job) noexcept nogil:
    """Whether elements are as wide as indices: their lanes hold indices in place of window codes."""
    return job.item_size >= 4 and not job.code_size


cdef inline bint are_codes_decoded(const Job *job) noexcept nogil:
    """Whether window codes become something else: indices, or codes of two bytes."""
    return not has_indices_in_lanes(job) and job.index_size > 1
