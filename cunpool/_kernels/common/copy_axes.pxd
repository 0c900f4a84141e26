# Copy elements of four axes from one array to another, in any order of the axes.
from cunpool._kernels.common.arrays cimport raster_stride, View
from cunpool._kernels.common.caches cimport cunpool_copy
from cunpool._kernels.common.geometry cimport absolute, element_count
from cunpool._kernels.common.pack cimport pack_rows, PackedRows
from cunpool._kernels.common.types cimport item, item1, item16, item2, item4, item8, void_noinline

cdef extern from "_kernels/common/transpose.h":
    bint transpose "cunpool_transpose"(Py_ssize_t size, char *to, Py_ssize_t to_pitch, const char *source,
                                       Py_ssize_t source_pitch, Py_ssize_t rows, Py_ssize_t columns) noexcept nogil

cdef enum:
    NARROW_BYTES = 8        # Rows of less are slower than strips across them. (speed: 2 x 1661 x 811, uint8, Fortran)
    STRIP_ELEMENTS = 16     # elements of a strip: their cache lines, of both arrays, stay in L1 (speed)


cdef inline int densest_axis(const Py_ssize_t *bytes, const Py_ssize_t *count, Py_ssize_t least) noexcept nogil:
    """The axis along which elements are closest, of those with `least` elements or more; if there are none, the longest
    axis."""
    cdef int axis, best = 3
    for axis in range(2, -1, -1):
        if (min(count[axis], least) > min(count[best], least)
                or min(count[axis], least) == min(count[best], least)
                and absolute(bytes[axis]) < absolute(bytes[best])):
            best = axis
    return best


cdef inline void_noinline copy_matrix(char *to, Py_ssize_t to_step, Py_ssize_t to_pitch, const char *source,
                                      Py_ssize_t source_step, Py_ssize_t source_pitch, Py_ssize_t length,
                                      Py_ssize_t rows, Py_ssize_t strip, item *_) noexcept nogil:
    """Copy rows of `length` elements: transposed in registers, or in strips of some columns. Steps lead from element to
    element, pitches from row to row."""
    cdef Py_ssize_t begin, row, column, k
    cdef PackedRows packed = PackedRows(source_step, source_pitch, length, rows, 1, 0)
    if (to_step == sizeof(item) and source_pitch == sizeof(item)
            and transpose(sizeof(item), to, to_pitch, source, source_step, length, rows)):
        return
    if to_step == sizeof(item) and strip == length and to_pitch % sizeof(item) == 0 and sizeof(item) <= 8:
        pack_rows(sizeof(item), to, to_pitch // <Py_ssize_t> sizeof(item), source, &packed)
        return
    if to_step == sizeof(item) and source_step == sizeof(item):
        for row in range(rows):
            cunpool_copy(to + row * to_pitch, source + row * source_pitch, length * sizeof(item))
        return
    for k in range((length + strip - 1) // strip):
        begin = k * strip
        for row in range(rows):
            for column in range(begin, min(begin + strip, length)):
                (<item *> (to + row * to_pitch + column * to_step))[0] = (
                    <const item *> (source + row * source_pitch + column * source_step))[0]


cdef inline void_noinline copy_elements(char *to, const Py_ssize_t *to_bytes, const char *source,
                                        const Py_ssize_t *source_bytes, const Py_ssize_t *count,
                                        item *typed) noexcept nogil:
    """Copy elements of four axes, as matrices of those two along which each array is densest: in strips of
    STRIP_ELEMENTS if these differ. Axes of few elements, such as two planes of bytes, would make narrow matrices."""
    cdef Py_ssize_t least = max(<Py_ssize_t> 2, NARROW_BYTES // <Py_ssize_t> sizeof(item))
    cdef int along = densest_axis(to_bytes, count, least), across = densest_axis(source_bytes, count, least)
    cdef int outer, inner, axis
    cdef Py_ssize_t strip = STRIP_ELEMENTS, i, k
    if along == across:
        across = (along + 3) % 4
        strip = count[along]
    outer = inner = 6 - along - across  # the sum of the other two axes
    for axis in range(4):
        if axis != along and axis != across:
            outer = axis
    inner -= outer
    for i in range(count[outer]):
        for k in range(count[inner]):
            copy_matrix(to + i * to_bytes[outer] + k * to_bytes[inner], to_bytes[along], to_bytes[across],
                        source + i * source_bytes[outer] + k * source_bytes[inner], source_bytes[along],
                        source_bytes[across], count[along], count[across], strip, typed)


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


cdef inline void copy_planes_of(Py_ssize_t size, char *to, const View *to_view, const char *source,
                                const View *source_view, Py_ssize_t planes, const Py_ssize_t *shape) noexcept nogil:
    """Copy some planes of elements of `size` bytes from one array to another."""
    cdef Py_ssize_t *count = [planes, shape[0], shape[1], shape[2]]
    cdef Py_ssize_t *to_bytes = [to_view.channel_bytes, to_view.axis_bytes[0], to_view.axis_bytes[1],
                                 to_view.axis_bytes[2]]
    cdef Py_ssize_t *source_bytes = [source_view.channel_bytes, source_view.axis_bytes[0], source_view.axis_bytes[1],
                                     source_view.axis_bytes[2]]
    if raster_stride(to_view, shape) and raster_stride(source_view, shape):  # one long row
        count[1], count[2], count[3] = 1, 1, element_count(shape)
        to_bytes[3], source_bytes[3] = raster_stride(to_view, shape), raster_stride(source_view, shape)
    copy_axes(size, to, to_bytes, source, source_bytes, count)
