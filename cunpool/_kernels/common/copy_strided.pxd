# Copy elements at a constant stride into a contiguous buffer.
from libc.string cimport memcpy

from cunpool._kernels.common.types cimport item, item1, item2, item4, item8, void_wide


cdef inline void_wide copy_strided_items(item *into, const item *items, Py_ssize_t stride,
                                         Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    if stride == 2:
        for i in range(count):
            into[i] = items[2 * i]
    elif stride == 3 and sizeof(item) < 8:
        for i in range(count):
            into[i] = items[3 * i]
    elif stride == 4 and sizeof(item) < 8:
        for i in range(count):
            into[i] = items[4 * i]
    else:
        for i in range(count):
            into[i] = items[stride * i]


cdef inline void_wide copy_reversed(item *into, const item *items, Py_ssize_t count) noexcept nogil:
    """Copy items backwards from this one on, eight bytes at a time (speed)."""
    cdef const item8 *before = <const item8 *> (items + 1)
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
        into[i] = items[-i]


cdef inline void copy_strided_typed(item *into, const item *items, Py_ssize_t stride, Py_ssize_t count) noexcept nogil:
    if stride == -1:
        copy_reversed(into, items, count)
    else:
        copy_strided_items(into, items, stride, count)


cdef inline void copy_strided(Py_ssize_t size, char *into, const char *items, Py_ssize_t stride, Py_ssize_t unit,
                              Py_ssize_t count) noexcept nogil:
    """Copy every `stride`-th unit of `unit` items of `size` bytes."""
    cdef Py_ssize_t i, k
    if unit > 1:
        unit *= size
        for i in range(count):
            # Whole vectors, whose rest the next one overwrites: up to 15 bytes behind the last unit are written.
            for k in range(0, unit, 16):
                memcpy(into + i * unit + k, items + i * stride * unit + k, 16)
    elif size == 1:
        copy_strided_typed(<item1 *> into, <const item1 *> items, stride, count)
    elif size == 2:
        copy_strided_typed(<item2 *> into, <const item2 *> items, stride, count)
    elif size == 4:
        copy_strided_typed(<item4 *> into, <const item4 *> items, stride, count)
    else:
        copy_strided_typed(<item8 *> into, <const item8 *> items, stride, count)
