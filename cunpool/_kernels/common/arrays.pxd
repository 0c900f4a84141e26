# An array as the kernels receive it: a pointer and strides in bytes.
cimport numpy as cnp

from cunpool._kernels.common.geometry cimport absolute

cdef struct View:
    # An array of shape (N, C, depth, height, width). All strides are in bytes and may be negative or 0.
    # An axis that the caller's array lacks, or that has one element, gets the stride of a contiguous array.
    char *data                  # element 0 of all axes
    Py_ssize_t batch_bytes      # stride of N, 0 where the array has no N
    Py_ssize_t channel_bytes    # stride of C
    Py_ssize_t axis_bytes[3]    # strides of depth, height and width
    bint uniform_planes         # plane number i of all N x C starts at data + i * channel_bytes


cdef inline View view_of(cnp.ndarray array, int spatial):
    """The view of an array of shape (N, C, *spatial) or (C, *spatial), with `spatial` trailing axes."""
    cdef View view
    cdef int lead = cnp.PyArray_NDIM(array) - spatial, axis
    cdef cnp.npy_intp *strides = cnp.PyArray_STRIDES(array)
    cdef cnp.npy_intp *shape = cnp.PyArray_DIMS(array)
    cdef Py_ssize_t inner = cnp.PyArray_ITEMSIZE(array)
    view.data = <char *> cnp.PyArray_DATA(array)
    view.batch_bytes = strides[0] if lead == 2 else 0
    view.channel_bytes = strides[lead - 1]
    if lead == 2 and shape[0] > 1 and shape[1] == 1:  # the stride of C may have any value, and says nothing
        view.channel_bytes = view.batch_bytes
    view.uniform_planes = lead == 1 or shape[0] == 1 or view.batch_bytes == shape[1] * view.channel_bytes
    for axis in range(2, -1, -1):
        # NumPy allows any value for the stride of an axis with one element.
        view.axis_bytes[axis] = inner
        if axis >= 3 - spatial and shape[lead + axis - 3 + spatial] != 1:
            view.axis_bytes[axis] = strides[lead + axis - 3 + spatial]
            inner = view.axis_bytes[axis] * shape[lead + axis - 3 + spatial]
    return view


cdef inline void make_contiguous(View *view, const Py_ssize_t *shape, Py_ssize_t size) noexcept nogil:
    """Give a view the strides of planes in C order."""
    view.axis_bytes = [shape[1] * shape[2] * size, shape[2] * size, size]
    view.channel_bytes = view.batch_bytes = shape[0] * shape[1] * shape[2] * size
    view.uniform_planes = True


cdef inline Py_ssize_t stride_along(const View *view, int axis) noexcept nogil:
    """The stride of depth, height or width (axes 0 to 2), of C (-1) or of N (-2)."""
    return view.axis_bytes[axis] if axis >= 0 else view.channel_bytes if axis == -1 else view.batch_bytes


cdef inline char *plane_address(const View *view, Py_ssize_t channels, Py_ssize_t plane) noexcept nogil:
    """First element of a plane, counted over all N x C."""
    if view.uniform_planes:
        return view.data + plane * view.channel_bytes
    return view.data + plane // channels * view.batch_bytes + plane % channels * view.channel_bytes


cdef inline char *element_address(const View *view, Py_ssize_t channels, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h,
                                  Py_ssize_t w) noexcept nogil:
    """Element (d, h, w) of a plane."""
    return (plane_address(view, channels, plane) + d * view.axis_bytes[0] + h * view.axis_bytes[1]
            + w * view.axis_bytes[2])


cdef inline Py_ssize_t raster_stride(const View *view, const Py_ssize_t *shape) noexcept nogil:
    """Bytes from an element to the next in raster order, or 0 where that varies within a plane of this shape."""
    cdef Py_ssize_t stride_bytes = 0, elements = 1
    cdef int axis
    for axis in range(2, -1, -1):
        if shape[axis] == 1:
            continue
        if elements == 1:
            stride_bytes = view.axis_bytes[axis]
        elif view.axis_bytes[axis] != stride_bytes * elements:
            return 0
        elements *= shape[axis]
    return stride_bytes


cdef inline char *dense_end(const View *view, Py_ssize_t batch, Py_ssize_t channels, const Py_ssize_t *shape,
                            Py_ssize_t size) noexcept nogil:
    """The end of the elements, of `size` bytes, of `batch` x `channels` planes, or NULL if these have gaps.

    Without gaps the elements fill a stretch of memory, each once, in any order and direction of the axes. All bytes
    between two elements then belong to elements.
    """
    cdef Py_ssize_t *count = [batch, channels, shape[0], shape[1], shape[2]]
    cdef Py_ssize_t *stride_bytes = [view.batch_bytes, view.channel_bytes, view.axis_bytes[0], view.axis_bytes[1],
                                     view.axis_bytes[2]]
    cdef Py_ssize_t run_bytes = size, total_bytes = size
    cdef char *end = view.data + size
    cdef int axis
    for axis in range(5):
        total_bytes *= count[axis]
        end += max((count[axis] - 1) * stride_bytes[axis], 0)
    for _ in range(5):
        for axis in range(5):
            if count[axis] > 1 and absolute(stride_bytes[axis]) == run_bytes:
                run_bytes *= count[axis]
    return end if run_bytes == total_bytes else NULL
