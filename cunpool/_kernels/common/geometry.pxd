# Sizes of one call: arrays, windows, strides, padding.
cdef struct Geometry:
    # Per axis: depth, height, width. 1d and 2d have leading axes of size 1.
    # `full` is the side with all elements, `pooled` the side with one element for each window.
    Py_ssize_t full[3]
    Py_ssize_t pooled[3]
    Py_ssize_t kernel[3]
    Py_ssize_t stride[3]
    Py_ssize_t padding[3]
    Py_ssize_t dilation[3]
    bint has_every_window_elements  # No window misses the array altogether, as one may where dilation is wide.


cdef inline Geometry geometry_of(tuple sizes):
    cdef Geometry g
    cdef int axis
    g.has_every_window_elements = sizes[18]
    for axis in range(3):
        g.full[axis] = sizes[axis]
        g.pooled[axis] = sizes[3 + axis]
        g.kernel[axis] = sizes[6 + axis]
        g.stride[axis] = sizes[9 + axis]
        g.padding[axis] = sizes[12 + axis]
        g.dilation[axis] = sizes[15 + axis]
        # The stride of a single window and the dilation of a single element have no effect and may be 2**60. They are
        # reduced, so that products with them fit 64 bits.
        if g.pooled[axis] <= 1:
            g.stride[axis] = min(g.stride[axis], g.full[axis] + g.padding[axis] + 1)
        if g.kernel[axis] == 1:
            g.dilation[axis] = 1
    return g


cdef inline Py_ssize_t absolute(Py_ssize_t step) noexcept nogil:
    """The absolute value of a step, which is negative in reversed arrays."""
    return step if step > 0 else -step


cdef inline Py_ssize_t clamp(Py_ssize_t x, Py_ssize_t low, Py_ssize_t high) noexcept nogil:
    return low if x < low else high if x > high else x


cdef inline Py_ssize_t element_count(const Py_ssize_t *shape) noexcept nogil:
    return shape[0] * shape[1] * shape[2]


cdef inline Py_ssize_t span_of(const Geometry *g, int axis, Py_ssize_t windows) noexcept nogil:
    """Elements from the first to the last one of `windows` neighbouring windows along an axis."""
    return (windows - 1) * g.stride[axis] + (g.kernel[axis] - 1) * g.dilation[axis] + 1


cdef inline double mean_overlap(const Geometry *g) noexcept nogil:
    """Windows that an element is in, in the mean."""
    cdef double windows = 1
    cdef int axis
    for axis in range(3):
        if g.pooled[axis] > 1:
            windows *= <double> g.kernel[axis] / g.stride[axis]
    return windows
