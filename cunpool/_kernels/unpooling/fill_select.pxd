# Select: one vector of output, with each value whose code is the given one, and zero for the others. `fill_lines.pxd`
# writes lines of the output with it.
from libc.stdint cimport uint8_t

from cunpool._kernels.common.checks cimport branch_counted
from cunpool._kernels.common.types cimport item1, item2, item4, item8, void_noinline

cdef extern from "_kernels/unpooling/fill_select.h":
    const bint CUNPOOL_HAS_SHUFFLE
    const bint CUNPOOL_HAS_PAIRS
    # The first argument of these is the size of a lane.
    void cunpool_select(...) noexcept nogil
    void cunpool_select_long(...) noexcept nogil
    void cunpool_select_pair(...) noexcept nogil
    void cunpool_select_mixed(...) noexcept nogil

# A lane of a vector. Values are moved as bits. An element of 16 bytes takes two lanes with the same code.
ctypedef fused lane:
    item1
    item2
    item4
    item8

cdef enum:
    VECTOR_BYTES = 16       # of the shortest vector that is written
    LONG_BYTES = 64         # of the longest vector that is written
    MAX_LINE_TAPS = 4       # longer windows of single elements are scattered: each length has a loop of its own (speed)
    SHORT_ROW_BYTES = 2 * LONG_BYTES    # rows with fewer bytes of values are selected several at a time (speed)
    SHORT_STAGE_BYTES = 1 << 12     # output bytes of the rows that are selected at a time
    MIXED_MAX_VECTORS = 9   # 9 vectors hold 16 windows of 3 units of 3 bytes, the least common multiple


cdef struct MixedUnits:
    # A line of units of a few bytes, selected in whole vectors: `vectors` of them are as long as `windows` windows.
    int vectors             # 0 where units are selected one by one
    Py_ssize_t windows
    Py_ssize_t at[MIXED_MAX_VECTORS]    # bytes from the first value, and code, to the first that a vector takes
    uint8_t order[MIXED_MAX_VECTORS][VECTOR_BYTES]  # which value, counted from there, goes to each byte of a vector
    uint8_t tap[MIXED_MAX_VECTORS][VECTOR_BYTES]    # and to which element of its window along the line


cdef inline void_noinline plan_mixed_units(Py_ssize_t unit, Py_ssize_t taps, MixedUnits *mixed) noexcept nogil:
    """Plan how units of `unit` bytes are selected together, if they are: else `mixed.vectors` remains 0."""
    cdef Py_ssize_t window = unit * taps, vectors = 1, vector, i, behind
    cdef Py_ssize_t begin = 0, tap = 0, byte = 0  # bytes to the window's values, its tap, and the byte of the unit
    while vectors <= MIXED_MAX_VECTORS and vectors * VECTOR_BYTES % window:
        vectors += 1
    if not CUNPOOL_HAS_SHUFFLE or not branch_counted("units of few bytes, few vectors of which are whole windows",
                                                     vectors <= MIXED_MAX_VECTORS):
        return
    for vector in range(vectors):
        mixed.at[vector] = begin
        for i in range(VECTOR_BYTES):
            behind = begin + byte - mixed.at[vector]
            if behind >= VECTOR_BYTES:
                return
            mixed.order[vector][i] = <uint8_t> behind
            mixed.tap[vector][i] = <uint8_t> tap
            byte += 1
            if byte == unit:
                byte = 0
                tap += 1
            if tap == taps:
                tap = 0
                begin += unit
    mixed.windows = vectors * VECTOR_BYTES // window
    mixed.vectors = <int> vectors
