# The order of the numbers of each element type, as bits.
from libc.stdint cimport uint64_t

from cunpool._kernels.common.job cimport (
    FLOAT4_KIND, FLOAT8_KIND, HALF_KIND, INT2_KIND, INT4_KIND, INT8_KIND, ITEM1_KIND, Job)


cdef inline uint64_t lowest_bits(int kind) noexcept nogil:
    """The bits of the lowest number of a type."""
    cdef uint64_t *bits = [0x80, 0x8000, 0x80000000, <uint64_t> 1 << 63, 0, 0, 0, 0, 0xFC00, 0xFF80, 0xFF800000,
                           <uint64_t> 0xFFF << 52]
    return bits[kind]


cdef inline uint64_t flip_bits(int kind) noexcept nogil:
    """The bits that reverse the order of the numbers when they are inverted: a float's sign, all bits of an integer."""
    cdef uint64_t *bits = [0x8000, 0x8000, 0x80000000, <uint64_t> 1 << 63]
    return bits[kind - HALF_KIND] if kind >= HALF_KIND else <uint64_t> -1


cdef inline void set_order(Job *job, bint is_minimum) noexcept nogil:
    """How numbers are compared. So that loops exist once, unsigned integers become signed ones, or bytes the other way
    round; and both 16-bit floats are one kind."""
    cdef int *order_kinds = [ITEM1_KIND, INT2_KIND, INT4_KIND, INT8_KIND, ITEM1_KIND, INT2_KIND, INT4_KIND, INT8_KIND,
                             HALF_KIND, HALF_KIND, FLOAT4_KIND, FLOAT8_KIND]
    job.order_kind, job.flip = order_kinds[job.kind], 0
    if job.kind < HALF_KIND and job.order_kind != job.kind:
        job.flip = lowest_bits(job.kind % 4)  # the sign
    if is_minimum:
        job.flip ^= flip_bits(job.kind)


cdef inline uint64_t nan_bits(int kind) noexcept nogil:
    """The bits of a NaN, or 0 where the type has none."""
    cdef uint64_t *bits = [0, 0, 0, 0, 0, 0, 0, 0, 0x7E00, 0x7FC0, 0x7FC00000, <uint64_t> 0x7FF8 << 48]
    return bits[kind]
