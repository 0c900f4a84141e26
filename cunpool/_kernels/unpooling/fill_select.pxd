# Choosing: a vector of values, each one whose code is the one that is asked for, zero for the others. `_lines.pxd` puts
# lines together from these.
from libc.stdint cimport uint8_t

from cunpool._kernels.common.checks cimport branch_counted
from cunpool._kernels.common.types cimport item1, item2, item4, item8, void_noinline

cdef extern from "_kernels/unpooling/fill_select.h":
    const bint CUNPOOL_HAS_SHUFFLE
    const bint CUNPOOL_HAS_PAIRS
    void cunpool_select_mixed(...) noexcept nogil
    void cunpool_select_pair_1(...) noexcept nogil
    void cunpool_select_pair_2(...) noexcept nogil
    void cunpool_select_pair_4(...) noexcept nogil
    void cunpool_select_pair_8(...) noexcept nogil
    void cunpool_select_pair_1_long(...) noexcept nogil
    void cunpool_select_pair_2_long(...) noexcept nogil
    void cunpool_select_pair_4_long(...) noexcept nogil
    void cunpool_select_pair_8_long(...) noexcept nogil
    void cunpool_select_1(char *out, const char *codes, const char *values, item1 code) noexcept nogil
    void cunpool_select_2(char *out, const char *codes, const char *values, item2 code) noexcept nogil
    void cunpool_select_4(char *out, const char *codes, const char *values, item4 code) noexcept nogil
    void cunpool_select_8(char *out, const char *codes, const char *values, item8 code) noexcept nogil
    void cunpool_select_1_long(char *out, const char *codes, const char *values, item1 code) noexcept nogil
    void cunpool_select_2_long(char *out, const char *codes, const char *values, item2 code) noexcept nogil
    void cunpool_select_4_long(char *out, const char *codes, const char *values, item4 code) noexcept nogil
    void cunpool_select_8_long(char *out, const char *codes, const char *values, item8 code) noexcept nogil

# What values are moved as: entries of 16 bytes are two parts, with the same code.
ctypedef fused lane:
    item1
    item2
    item4
    item8

cdef enum:
    VECTOR_BYTES = 16       # bytes of the shortest vector that is written,
    LONG_BYTES = 64         # and of the longest
    NARROW_CODE_BYTES = 4   # bytes of a code, at most, where windows of two are chosen by these: less has to be written
    MAX_LINE_TAPS = 4       # cells that a window may have along a line of single cells
    SHORT_ROW_BYTES = 2 * LONG_BYTES        # bytes of the values of a row that is worked on together with others,
    SHORT_STAGE_BYTES = 1 << 12     # in so many bytes of the output
    MIXED_MAX_VECTORS = 9   # vectors that are as long as some windows, at most: 3 cells of 3 bytes ask for so many


cdef struct MixedUnits:
    # How a line of units of a few bytes is chosen in whole vectors, of which so many are as long as some `windows`.
    # Each takes its bytes from the values, and the codes, that begin at `at`: which one, and of which tap its code is.
    int vectors             # 0 where units are not chosen together
    Py_ssize_t windows
    Py_ssize_t at[MIXED_MAX_VECTORS]
    uint8_t order[MIXED_MAX_VECTORS][VECTOR_BYTES]
    uint8_t tap[MIXED_MAX_VECTORS][VECTOR_BYTES]


cdef inline void_noinline plan_mixed_units(Py_ssize_t unit, Py_ssize_t taps, MixedUnits *mixed) noexcept nogil:
    """How units of so many bytes are chosen together."""
    cdef Py_ssize_t window = unit * taps, vectors = 1, vector, i, behind
    cdef Py_ssize_t begin = 0, tap = 0, byte = 0  # where the window's values begin, its tap, and the byte of that
    mixed.vectors = 0
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


cdef inline void select_vector(char *out, const lane *codes, const lane *values, lane code) noexcept nogil:
    if lane is item1:
        cunpool_select_1(out, <const char *> codes, <const char *> values, code)
    elif lane is item2:
        cunpool_select_2(out, <const char *> codes, <const char *> values, code)
    elif lane is item4:
        cunpool_select_4(out, <const char *> codes, <const char *> values, code)
    else:
        cunpool_select_8(out, <const char *> codes, <const char *> values, code)


cdef inline void select_pair(char *out, Py_ssize_t below_bytes, const char *codes, const lane *values, lane code,
                             lane code_below, lane tap_code) noexcept nogil:
    if lane is item1:
        cunpool_select_pair_1(out, out + below_bytes, codes, <const char *> values, code, code_below, tap_code)
    elif lane is item2:
        cunpool_select_pair_2(out, out + below_bytes, codes, <const char *> values, code, code_below, tap_code)
    elif lane is item4:
        cunpool_select_pair_4(out, out + below_bytes, codes, <const char *> values, code, code_below, tap_code)
    else:
        cunpool_select_pair_8(out, out + below_bytes, codes, <const char *> values, code, code_below, tap_code)


cdef inline void select_pair_long(char *out, Py_ssize_t below_bytes, const char *codes, const lane *values, lane code,
                                  lane code_below, lane tap_code) noexcept nogil:
    if lane is item1:
        cunpool_select_pair_1_long(out, out + below_bytes, codes, <const char *> values, code, code_below, tap_code)
    elif lane is item2:
        cunpool_select_pair_2_long(out, out + below_bytes, codes, <const char *> values, code, code_below, tap_code)
    elif lane is item4:
        cunpool_select_pair_4_long(out, out + below_bytes, codes, <const char *> values, code, code_below, tap_code)
    else:
        cunpool_select_pair_8_long(out, out + below_bytes, codes, <const char *> values, code, code_below, tap_code)


cdef inline void select_long(char *out, const lane *codes, const lane *values, lane code) noexcept nogil:
    if lane is item1:
        cunpool_select_1_long(out, <const char *> codes, <const char *> values, code)
    elif lane is item2:
        cunpool_select_2_long(out, <const char *> codes, <const char *> values, code)
    elif lane is item4:
        cunpool_select_4_long(out, <const char *> codes, <const char *> values, code)
    else:
        cunpool_select_8_long(out, <const char *> codes, <const char *> values, code)
