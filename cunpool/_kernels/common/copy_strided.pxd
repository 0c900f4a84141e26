# Cells as far apart everywhere, brought next to each other: for every array that is no row of neighbours.
from libc.string cimport memcpy

from cunpool._kernels.common.types cimport item, item1, item2, item4, item8, void_wide


cdef inline void_wide every_cell(item *into, const item *cells, Py_ssize_t stride,
                                 Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    if stride == 2:
        for i in range(count):
            into[i] = cells[2 * i]
    elif stride == 3 and sizeof(item) < 8:
        for i in range(count):
            into[i] = cells[3 * i]
    elif stride == 4 and sizeof(item) < 8:
        for i in range(count):
            into[i] = cells[4 * i]
    else:
        for i in range(count):
            into[i] = cells[stride * i]


cdef inline void_wide every_cell_back(item *into, const item *cells, Py_ssize_t count) noexcept nogil:
    """Some cells backwards from this one on, eight bytes at a time."""
    cdef const item8 *before = <const item8 *> (cells + 1)
    cdef Py_ssize_t together = sizeof(item8) // sizeof(item), i
    cdef item8 x, low_halves = 0x0000FFFF0000FFFF, low_bytes = 0x00FF00FF00FF00FF
    for i in range(count // together):
        x = before[-1 - i]
        if sizeof(item) < 8:
            x = x << 32 | x >> 32
        if sizeof(item) < 4:
            x = (x & low_halves) << 16 | x >> 16 & low_halves
        if sizeof(item) < 2:
            x = (x & low_bytes) << 8 | x >> 8 & low_bytes
        (<item8 *> into)[i] = x
    for i in range(count // together * together, count):
        into[i] = cells[-i]


cdef inline void every_of(item *into, const item *cells, Py_ssize_t stride, Py_ssize_t count) noexcept nogil:
    if stride == -1:
        every_cell_back(into, cells, count)
    else:
        every_cell(into, cells, stride, count)


cdef inline void every(Py_ssize_t size, char *into, const char *cells, Py_ssize_t stride, Py_ssize_t unit,
                       Py_ssize_t count) noexcept nogil:
    """Every `stride`-th unit of cells of `size` bytes."""
    cdef Py_ssize_t i, k
    if unit > 1:
        unit *= size
        for i in range(count):
            # In whole vectors, whose rest the next one overwrites.
            for k in range(0, unit, 16):
                memcpy(into + i * unit + k, cells + i * stride * unit + k, 16)
    elif size == 1:
        every_of(<item1 *> into, <const item1 *> cells, stride, count)
    elif size == 2:
        every_of(<item2 *> into, <const item2 *> cells, stride, count)
    elif size == 4:
        every_of(<item4 *> into, <const item4 *> cells, stride, count)
    else:
        every_of(<item8 *> into, <const item8 *> cells, stride, count)


cdef inline void_wide deal_two(item *even, item *odd, const item *cells, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        even[i] = cells[2 * i]
        odd[i] = cells[2 * i + 1]


cdef inline void every_by_two(Py_ssize_t size, char *even, char *odd, const char *cells,
                              Py_ssize_t count) noexcept nogil:
    """Cells number 0, 2, 4, ... and those after them, in one go."""
    if size == 1:
        deal_two(<item1 *> even, <item1 *> odd, <const item1 *> cells, count)
    elif size == 2:
        deal_two(<item2 *> even, <item2 *> odd, <const item2 *> cells, count)
    elif size == 4:
        deal_two(<item4 *> even, <item4 *> odd, <const item4 *> cells, count)
    else:
        deal_two(<item8 *> even, <item8 *> odd, <const item8 *> cells, count)
