# Sizes of one call: arrays, windows, strides, padding.
cdef struct Geometry:
    # Per axis (depth, height, width; 1d and 2d have unit leading axes). `full` is the side with all the cells,
    # `pooled` the side with one cell for each window.
    Py_ssize_t full[3]
    Py_ssize_t pooled[3]
    Py_ssize_t kernel[3]
    Py_ssize_t stride[3]
    Py_ssize_t padding[3]
    Py_ssize_t dilation[3]


cdef inline Geometry geometry_of(tuple sizes):
    cdef Geometry g
    cdef int axis
    for axis in range(3):
        g.full[axis] = sizes[axis]
        g.pooled[axis] = sizes[3 + axis]
        g.kernel[axis] = sizes[6 + axis]
        g.stride[axis] = sizes[9 + axis]
        g.padding[axis] = sizes[12 + axis]
        g.dilation[axis] = sizes[15 + axis]
        # A stride that a single window has no use for, and the dilation of a single cell, may be as large as 2**60.
        # What is computed with them anyway, and not used, fits 64 bits if they are no larger than any that has a use.
        if g.pooled[axis] <= 1:
            g.stride[axis] = min(g.stride[axis], g.full[axis] + g.padding[axis] + 1)
        if g.kernel[axis] == 1:
            g.dilation[axis] = 1
    return g


cdef inline Py_ssize_t size_of(Py_ssize_t step) noexcept nogil:
    """Of a step, which is negative in reversed arrays."""
    return step if step > 0 else -step


cdef inline Py_ssize_t clamp(Py_ssize_t x, Py_ssize_t low, Py_ssize_t high) noexcept nogil:
    return low if x < low else high if x > high else x


cdef inline Py_ssize_t cells_of(const Py_ssize_t *shape) noexcept nogil:
    return shape[0] * shape[1] * shape[2]
