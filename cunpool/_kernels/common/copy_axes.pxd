# Copy elements of four axes from one array to another, in any order of the axes.
from cunpool._kernels.common.caches cimport cunpool_copy
from cunpool._kernels.common.geometry cimport absolute
from cunpool._kernels.common.types cimport item, item1, item16, item2, item4, item8, void_cold, void_noinline

cdef enum:
    STRIP_ELEMENTS = 16     # elements of a strip: their cache lines, of both arrays, stay in L1 (speed)


cdef inline int densest_axis(const Py_ssize_t *bytes, const Py_ssize_t *count) noexcept nogil:
    """The axis along which elements are closest."""
    cdef int axis, best = 3
    for axis in range(2, -1, -1):
        if count[axis] > 1 and (count[best] == 1 or absolute(bytes[axis]) < absolute(bytes[best])):
            best = axis
    return best


cdef inline void_cold copy_elements(char *to, const Py_ssize_t *to_bytes, const char *source,
                                    const Py_ssize_t *source_bytes, const Py_ssize_t *count,
                                    item *typed) noexcept nogil:
    """Copy elements of four axes, in strips of STRIP_ELEMENTS if the arrays are densest along different axes. Compiled
    for size: memory limits its speed."""
    cdef int along = densest_axis(to_bytes, count), across = densest_axis(source_bytes, count), outer, inner, axis
    cdef bint is_row = along == across and to_bytes[along] == sizeof(item) and source_bytes[along] == sizeof(item)
    cdef Py_ssize_t to_step = to_bytes[along], from_step = source_bytes[along], length = count[along]
    cdef Py_ssize_t strip = length if along == across else STRIP_ELEMENTS, x, k, begin = 0
    cdef char *into
    cdef const char *row
    if along == across:
        across = (along + 3) % 4
    outer = inner = 6 - along - across  # the sum of the other two axes
    for axis in range(4):
        if axis != along and axis != across:
            outer = axis
    inner -= outer
    while begin < length:
        for x in range(count[outer] * count[inner]):
            into = to + x // count[inner] * to_bytes[outer] + x % count[inner] * to_bytes[inner]
            row = source + x // count[inner] * source_bytes[outer] + x % count[inner] * source_bytes[inner]
            for _ in range(count[across]):
                if is_row:
                    cunpool_copy(into, row, length * sizeof(item))
                else:
                    for k in range(begin, min(begin + strip, length)):
                        (<item *> (into + k * to_step))[0] = (<const item *> (row + k * from_step))[0]
                into += to_bytes[across]
                row += source_bytes[across]
        begin += strip


cdef inline void_noinline copy_axes(Py_ssize_t size, char *to, const Py_ssize_t *to_bytes, const char *source,
                                    const Py_ssize_t *source_bytes, const Py_ssize_t *count) noexcept nogil:
    """`copy_elements` for elements of `size` bytes."""
    if size == 1:
        copy_elements(to, to_bytes, source, source_bytes, count, <item1 *> NULL)
    elif size == 2:
        copy_elements(to, to_bytes, source, source_bytes, count, <item2 *> NULL)
    elif size == 4:
        copy_elements(to, to_bytes, source, source_bytes, count, <item4 *> NULL)
    elif size == 8:
        copy_elements(to, to_bytes, source, source_bytes, count, <item8 *> NULL)
    else:
        copy_elements(to, to_bytes, source, source_bytes, count, <item16 *> NULL)
