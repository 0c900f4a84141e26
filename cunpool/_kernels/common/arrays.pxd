# An array as the kernels receive it: a pointer and strides in bytes.
cimport numpy as cnp

cdef struct View:
    # An array as the kernels see it: strides in bytes, as of a contiguous array for axes that it does not have.
    char *data
    Py_ssize_t n
    Py_ssize_t c
    Py_ssize_t axis[3]
    bint even               # whether all planes are known to be `c` bytes apart, those of the next n too


cdef inline View view_of(cnp.ndarray array, int spatial):
    """`array` of `spatial` trailing axes behind (N, C) or (C,)."""
    cdef View view
    cdef int lead = cnp.PyArray_NDIM(array) - spatial, axis
    cdef cnp.npy_intp *strides = cnp.PyArray_STRIDES(array)
    cdef cnp.npy_intp *shape = cnp.PyArray_DIMS(array)
    cdef Py_ssize_t inner = cnp.PyArray_ITEMSIZE(array)
    view.data = <char *> cnp.PyArray_DATA(array)
    view.n = strides[0] if lead == 2 else 0
    view.c = strides[lead - 1]
    view.even = lead == 1 or shape[0] == 1 or view.n == shape[1] * view.c
    for axis in range(2, -1, -1):
        # The stride of an axis of one entry has no meaning, and NumPy lets it be anything.
        view.axis[axis] = inner
        if axis >= 3 - spatial and shape[lead + axis - 3 + spatial] != 1:
            view.axis[axis] = strides[lead + axis - 3 + spatial]
            inner = view.axis[axis] * shape[lead + axis - 3 + spatial]
    return view


cdef inline char *plane_of(const View *view, Py_ssize_t channels, Py_ssize_t plane) noexcept nogil:
    if view.even:
        return view.data + plane * view.c
    return view.data + plane // channels * view.n + plane % channels * view.c


cdef inline char *cell_of(const View *view, Py_ssize_t channels, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h,
                          Py_ssize_t w) noexcept nogil:
    return plane_of(view, channels, plane) + d * view.axis[0] + h * view.axis[1] + w * view.axis[2]


cdef inline Py_ssize_t flat_stride(const View *view, const Py_ssize_t *shape) noexcept nogil:
    """Bytes between neighbours in raster order where that is the same everywhere in a plane, else 0."""
    cdef Py_ssize_t step = 0, cells = 1
    cdef int axis
    for axis in range(2, -1, -1):
        if shape[axis] == 1:
            continue
        if cells == 1:
            step = view.axis[axis]
        elif view.axis[axis] != step * cells:
            return 0
        cells *= shape[axis]
    return step
