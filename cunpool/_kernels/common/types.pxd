# Element types, and how functions are compiled.
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t

cdef extern from "_kernels/common/types.h":
    bint unlikely(bint) noexcept nogil  # Cython's own

    # How a function is compiled, as its return type. Only void functions can carry it: Cython declares a variable of
    # any other return type.
    ctypedef void void_inline "CUNPOOL_INLINE void"
    ctypedef void void_wide "CUNPOOL_WIDE void"
    ctypedef void void_noinline "CUNPOOL_NOINLINE void"
    ctypedef uint8_t item1
    ctypedef uint16_t item2
    ctypedef uint32_t item4
    ctypedef uint64_t item8
    ctypedef struct item16:
        item8 low, high
    ctypedef float float4
    ctypedef double float8
    ctypedef struct half:
        item2 bits
    ctypedef struct bhalf:
        item2 bits
    ctypedef int32_t index4
    ctypedef int64_t index8

ctypedef fused item:
    item1
    item2
    item4
    item8
    item16

# A lane of a vector. Elements are moved or compared as bits. One of 16 bytes takes two lanes.
ctypedef fused lane:
    item1
    item2
    item4
    item8

# An element on its way into a plane: an item replaces the element there, and a number is added to it.
ctypedef fused element:
    item1
    item2
    item4
    item8
    item16
    half
    bhalf
    float4
    float8

ctypedef fused index:
    index4
    index8
