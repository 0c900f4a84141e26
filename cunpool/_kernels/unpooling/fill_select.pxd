# Choosing: a vector of values, each one whose code is the one that is asked for, zero for the others. `_lines.pxd` puts
# lines together from these.
from libc.stdint cimport uint8_t

from cunpool._kernels.common.checks cimport branch_counted
from cunpool._kernels.common.types cimport item1, item2, item4, item8, void_noinline

cdef extern from "_kernels/unpooling/fill_select.h":
    const bint CUNPOOL_MIXES
    const bint CUNPOOL_CHOOSES_BOTH
    void cunpool_spread_mixed(...) noexcept nogil
    void cunpool_choose_both_1(...) noexcept nogil
    void cunpool_choose_both_2(...) noexcept nogil
    void cunpool_choose_both_4(...) noexcept nogil
    void cunpool_choose_both_8(...) noexcept nogil
    void cunpool_choose_both_1_long(...) noexcept nogil
    void cunpool_choose_both_2_long(...) noexcept nogil
    void cunpool_choose_both_4_long(...) noexcept nogil
    void cunpool_choose_both_8_long(...) noexcept nogil
    void cunpool_choose_1(char *out, const char *codes, const char *values, item1 code) noexcept nogil
    void cunpool_choose_2(char *out, const char *codes, const char *values, item2 code) noexcept nogil
    void cunpool_choose_4(char *out, const char *codes, const char *values, item4 code) noexcept nogil
    void cunpool_choose_8(char *out, const char *codes, const char *values, item8 code) noexcept nogil
    void cunpool_choose_1_long(char *out, const char *codes, const char *values, item1 code) noexcept nogil
    void cunpool_choose_2_long(char *out, const char *codes, const char *values, item2 code) noexcept nogil
    void cunpool_choose_4_long(char *out, const char *codes, const char *values, item4 code) noexcept nogil
    void cunpool_choose_8_long(char *out, const char *codes, const char *values, item8 code) noexcept nogil

# What values are moved as: entries of 16 bytes are two parts, with the same code.
ctypedef fused part:
    item1
    item2
    item4
    item8

cdef enum:
    VECTOR = 16             # bytes of the shortest vector that is written,
    LONG = 64               # and of the longest
    NARROW = 4              # bytes of a code, at most, where windows of two are chosen by these: less has to be written
    BROAD = 4               # cells that a window may have along a line of single cells
    SHORT = 2 * LONG        # bytes of the values of a row that is worked on together with others,
    SHORT_STAGE = 1 << 12   # in so many bytes of the output
    MIXED = 9               # vectors that are as long as some windows, at most: 3 cells of 3 bytes ask for so many


cdef struct Mixed:
    # How a line of units of a few bytes is chosen in whole vectors, of which so many are as long as some `windows`.
    # Each takes its bytes from the values, and the codes, that begin at `at`: which one, and of which tap its code is.
    int vectors             # 0 where units are not chosen together
    Py_ssize_t windows
    Py_ssize_t at[MIXED]
    uint8_t order[MIXED][VECTOR]
    uint8_t tap[MIXED][VECTOR]


cdef inline void_noinline plan_mixed(Py_ssize_t unit, Py_ssize_t taps, Mixed *mixed) noexcept nogil:
    """How units of so many bytes are chosen together."""
    cdef Py_ssize_t window = unit * taps, vectors = 1, vector, i, behind
    cdef Py_ssize_t begin = 0, tap = 0, byte = 0  # where the window's values begin, its tap, and the byte of that
    mixed.vectors = 0
    while vectors <= MIXED and vectors * VECTOR % window:
        vectors += 1
    if not CUNPOOL_MIXES or not branch_counted("units of few bytes, few vectors of which are whole windows",
                                               vectors <= MIXED):
        return
    for vector in range(vectors):
        mixed.at[vector] = begin
        for i in range(VECTOR):
            behind = begin + byte - mixed.at[vector]
            if behind >= VECTOR:
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
    mixed.windows = vectors * VECTOR // window
    mixed.vectors = <int> vectors


cdef inline void choose(char *out, const part *codes, const part *values, part code) noexcept nogil:
    if part is item1:
        cunpool_choose_1(out, <const char *> codes, <const char *> values, code)
    elif part is item2:
        cunpool_choose_2(out, <const char *> codes, <const char *> values, code)
    elif part is item4:
        cunpool_choose_4(out, <const char *> codes, <const char *> values, code)
    else:
        cunpool_choose_8(out, <const char *> codes, <const char *> values, code)


cdef inline void choose_both(char *out, Py_ssize_t below, const char *codes, const part *values, part code,
                             part code_below, part tap_code) noexcept nogil:
    if part is item1:
        cunpool_choose_both_1(out, out + below, codes, <const char *> values, code, code_below, tap_code)
    elif part is item2:
        cunpool_choose_both_2(out, out + below, codes, <const char *> values, code, code_below, tap_code)
    elif part is item4:
        cunpool_choose_both_4(out, out + below, codes, <const char *> values, code, code_below, tap_code)
    else:
        cunpool_choose_both_8(out, out + below, codes, <const char *> values, code, code_below, tap_code)


cdef inline void choose_both_long(char *out, Py_ssize_t below, const char *codes, const part *values, part code,
                                  part code_below, part tap_code) noexcept nogil:
    if part is item1:
        cunpool_choose_both_1_long(out, out + below, codes, <const char *> values, code, code_below, tap_code)
    elif part is item2:
        cunpool_choose_both_2_long(out, out + below, codes, <const char *> values, code, code_below, tap_code)
    elif part is item4:
        cunpool_choose_both_4_long(out, out + below, codes, <const char *> values, code, code_below, tap_code)
    else:
        cunpool_choose_both_8_long(out, out + below, codes, <const char *> values, code, code_below, tap_code)


cdef inline void choose_long(char *out, const part *codes, const part *values, part code) noexcept nogil:
    if part is item1:
        cunpool_choose_1_long(out, <const char *> codes, <const char *> values, code)
    elif part is item2:
        cunpool_choose_2_long(out, <const char *> codes, <const char *> values, code)
    elif part is item4:
        cunpool_choose_4_long(out, <const char *> codes, <const char *> values, code)
    else:
        cunpool_choose_8_long(out, <const char *> codes, <const char *> values, code)
