# Choosing: a line of the output from its windows' values and codes, in whole vectors. `_spread.pxd` says what for.
from cunpool._common cimport *

cdef extern from *:
    """
    /* As many values as a vector holds: each one whose code is this one, zero for the others. */
    #if defined(__GNUC__)
    #define CUNPOOL_CHOOSE(name, type, size) \\
        static CUNPOOL_INLINED void name(char *out, const char *codes, const char *values, type code) { \\
            typedef type vector __attribute__((vector_size(size))); \\
            vector given, chosen; \\
            memcpy(&given, codes, size); \\
            memcpy(&chosen, values, size); \\
            chosen &= (vector) (given == (vector) {0} + code); \\
            memcpy(out, &chosen, size); \\
        }
    #else
    #define CUNPOOL_CHOOSE(name, type, size) \\
        static CUNPOOL_INLINED void name(char *out, const char *codes, const char *values, type code) { \\
            type given[size / sizeof(type)], chosen[size / sizeof(type)]; \\
            size_t i; \\
            memcpy(given, codes, size); \\
            memcpy(chosen, values, size); \\
            for (i = 0; i < size / sizeof(type); i++) \\
                chosen[i] = given[i] == code ? chosen[i] : 0; \\
            memcpy(out, chosen, size); \\
        }
    #endif
    CUNPOOL_CHOOSE(cunpool_choose_1, uint8_t, 16)
    CUNPOOL_CHOOSE(cunpool_choose_2, uint16_t, 16)
    CUNPOOL_CHOOSE(cunpool_choose_4, uint32_t, 16)
    CUNPOOL_CHOOSE(cunpool_choose_8, uint64_t, 16)
    CUNPOOL_CHOOSE(cunpool_choose_1_long, uint8_t, 64)
    CUNPOOL_CHOOSE(cunpool_choose_2_long, uint16_t, 64)
    CUNPOOL_CHOOSE(cunpool_choose_4_long, uint32_t, 64)
    CUNPOOL_CHOOSE(cunpool_choose_8_long, uint64_t, 64)
    """
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
    BROAD = 4               # cells that a window may have along a line of single cells
    SHORT = 2 * LONG        # bytes of the values of a row that is worked on together with others,
    SHORT_STAGE = 1 << 12   # in so many bytes of the output


cdef inline void choose(char *out, const part *codes, const part *values, part code) noexcept nogil:
    if part is item1:
        cunpool_choose_1(out, <const char *> codes, <const char *> values, code)
    elif part is item2:
        cunpool_choose_2(out, <const char *> codes, <const char *> values, code)
    elif part is item4:
        cunpool_choose_4(out, <const char *> codes, <const char *> values, code)
    else:
        cunpool_choose_8(out, <const char *> codes, <const char *> values, code)


cdef inline void choose_long(char *out, const part *codes, const part *values, part code) noexcept nogil:
    if part is item1:
        cunpool_choose_1_long(out, <const char *> codes, <const char *> values, code)
    elif part is item2:
        cunpool_choose_2_long(out, <const char *> codes, <const char *> values, code)
    elif part is item4:
        cunpool_choose_4_long(out, <const char *> codes, <const char *> values, code)
    else:
        cunpool_choose_8_long(out, <const char *> codes, <const char *> values, code)


cdef inline inlined spread_unit(char *out, const part *codes, const part *values, Py_ssize_t unit,
                                part code) noexcept nogil:
    """One unit, in whole vectors of which the last may overlap the one before."""
    cdef Py_ssize_t i, last, size = unit * sizeof(part)
    cdef char[VECTOR] some
    if size >= LONG:
        last = size - LONG
        for i in range((last + LONG - 1) // LONG):
            choose_long(out + i * LONG, codes + i * (LONG // <Py_ssize_t> sizeof(part)),
                        values + i * (LONG // <Py_ssize_t> sizeof(part)), code)
        last //= sizeof(part)
        choose_long(out + last * <Py_ssize_t> sizeof(part), codes + last, values + last, code)
    elif size >= VECTOR:
        last = size - VECTOR
        for i in range((last + VECTOR - 1) // VECTOR):
            choose(out + i * VECTOR, codes + i * (VECTOR // <Py_ssize_t> sizeof(part)),
                   values + i * (VECTOR // <Py_ssize_t> sizeof(part)), code)
        last //= sizeof(part)
        choose(out + last * <Py_ssize_t> sizeof(part), codes + last, values + last, code)
    else:
        choose(some, codes, values, code)
        cunpool_copy(out, some, size)


cdef inline inlined spread_units(char *out, Py_ssize_t pitch, const part *codes, const part *values, Py_ssize_t unit,
                                 Py_ssize_t windows, Py_ssize_t taps, part code, part tap_code) noexcept nogil:
    """A line of units. Short ones are written as whole vectors, whose rest the next one overwrites."""
    cdef Py_ssize_t window = 0, short = 0, tap
    if unit * sizeof(part) < VECTOR and pitch == unit * <Py_ssize_t> sizeof(part):
        short = windows - (VECTOR + taps * pitch - 1) // (taps * pitch)
    while window < short:
        for tap in range(taps):
            choose(out, codes, values, <part> (code + tap * tap_code))
            out += pitch
        codes += unit
        values += unit
        window += 1
    while window < windows:
        for tap in range(taps):
            spread_unit(out, codes, values, unit, <part> (code + tap * tap_code))
            out += pitch
        codes += unit
        values += unit
        window += 1


cdef inline inlined spread_cells(int taps, char *out, const part *codes, const part *values, Py_ssize_t windows,
                                 part code, part tap_code) noexcept nogil:
    """A line of single cells, in whole vectors: the last one overlaps the one before, or is put together elsewhere."""
    cdef char[BROAD * LONG] some
    cdef Py_ssize_t lane = LONG // sizeof(part), left = windows % lane, count = windows - left, i
    cdef part *into = <part *> out
    cdef int tap
    if windows < lane:
        into = <part *> some
        count = lane
        left = 0
    while True:
        for i in range(count):
            for tap in range(taps):
                into[taps * i + tap] = values[i] & -<part> (codes[i] == <part> (code + tap * tap_code))
        if not left:
            break
        left = windows - lane
        codes += left
        values += left
        into += taps * left
        count = lane
        left = 0
    if windows < lane:
        cunpool_copy(out, some, taps * windows * sizeof(part))


cdef inline inlined spread_short(int taps, char *out, Py_ssize_t step, const part *codes, const part *values,
                                 Py_ssize_t rows, Py_ssize_t windows, part code, part tap_code) noexcept nogil:
    """One line each of several rows that are short: as if it were one row, and then taken apart."""
    cdef char[SHORT_STAGE + BROAD * LONG] stage
    cdef Py_ssize_t size = taps * windows * sizeof(part), some, row
    while rows:
        some = min(rows, SHORT_STAGE // size)
        must(some * size <= SHORT_STAGE)
        spread_cells(taps, stage, codes, values, some * windows, code, tap_code)
        for row in range(some):
            cunpool_copy(out + row * step, stage + row * size, size)
        out += some * step
        codes += some * windows
        values += some * windows
        rows -= some


cdef inline inlined spread_rows(int taps, char *out, Py_ssize_t step, const part *codes, const part *values,
                                Py_ssize_t rows, Py_ssize_t windows, part code, part tap_code) noexcept nogil:
    """One line each of some rows of single cells."""
    cdef Py_ssize_t row
    if rows > 1 and windows * sizeof(part) <= SHORT:
        spread_short(taps, out, step, codes, values, rows, windows, code, tap_code)
        return
    for row in range(rows):
        spread_cells(taps, out + row * step, codes + row * windows, values + row * windows, windows, code, tap_code)
