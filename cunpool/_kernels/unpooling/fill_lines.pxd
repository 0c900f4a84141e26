# Lines of the output, chosen in whole vectors from their windows' values and codes. `_spread.pxd` says what for.
from libc.stdint cimport uint8_t

from cunpool._kernels.common.caches cimport cunpool_copy
from cunpool._kernels.common.checks cimport assert_in_block
from cunpool._kernels.common.types cimport void_inline, void_noinline
from cunpool._kernels.unpooling.fill_select cimport (
    BROAD, choose, choose_both, choose_both_long, choose_long, cunpool_spread_mixed, LONG, MIXED, Mixed, NARROW, part,
    SHORT, SHORT_STAGE, VECTOR)


cdef inline void_inline spread_unit(char *out, const part *codes, const part *values, Py_ssize_t unit,
                                    part code) noexcept nogil:
    """One unit, in whole vectors of which the last may overlap the one before. Written out for either length: as one
    loop with the length for a parameter floats take 1.05 to 1.18 times as long."""
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


cdef inline void_inline spread_units(char *out, Py_ssize_t pitch, const part *codes, const part *values,
                                     Py_ssize_t unit, Py_ssize_t windows, Py_ssize_t taps, part code,
                                     part tap_code) noexcept nogil:
    """A line of units. Short ones are written as whole vectors, whose rest the next one overwrites."""
    cdef Py_ssize_t window = 0, short = 0, size = unit * sizeof(part), tap
    if size == 2 * VECTOR:  # as of 8 channels of floats, which take up to twice as long one unit at a time
        for _ in range(windows):
            for tap in range(taps):
                choose(out, codes, values, <part> (code + tap * tap_code))
                choose(out + VECTOR, codes + unit // 2, values + unit // 2, <part> (code + tap * tap_code))
                out += pitch
            codes += unit
            values += unit
        return
    if size <= VECTOR and pitch == size:
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


cdef inline void_noinline spread_mixed(const Mixed *mixed, char *out, Py_ssize_t step, const char *codes,
                                       const char *values, Py_ssize_t rows, Py_ssize_t row, Py_ssize_t times,
                                       Py_ssize_t unit, int code, int tap_code) noexcept nogil:
    """What whole vectors are of a line in each of some rows, `row` bytes of values apart: so many times all of them."""
    cdef uint8_t wanted[MIXED][VECTOR]
    cdef int vector, i
    for vector in range(mixed.vectors):
        for i in range(VECTOR):
            wanted[vector][i] = <uint8_t> (code + mixed.tap[vector][i] * tap_code)
    for i in range(rows):
        cunpool_spread_mixed(out + i * step, codes + i * row, values + i * row, times, mixed.windows * unit,
                             mixed.vectors, mixed.at, mixed.order, wanted)


cdef inline void_inline spread_cells(int taps, char *out, const part *codes, const part *values, Py_ssize_t windows,
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


cdef inline void_inline choose_twos(bint long, char *out, Py_ssize_t below, const char *codes, const part *values,
                                    part code, part code_below, part tap_code) noexcept nogil:
    if long:
        choose_both_long(out, below, codes, values, code, code_below, tap_code)
    else:
        choose_both(out, below, codes, values, code, code_below, tap_code)


cdef inline void_inline spread_twos(bint long, char *out, Py_ssize_t below, Py_ssize_t step, const char *codes,
                                    const part *values, Py_ssize_t rows, Py_ssize_t windows, part code, part code_below,
                                    part tap_code) noexcept nogil:
    """Two lines each of some rows of windows of two cells, by the longest vectors or the shortest, the last of which
    may overlap the one before."""
    cdef Py_ssize_t code_size = min(sizeof(part), <Py_ssize_t> NARROW) if long else sizeof(part), window
    cdef Py_ssize_t lane = (LONG if long else VECTOR) // code_size, last = windows - lane
    for _ in range(rows):
        window = 0
        while window < last:
            choose_twos(long, out + 2 * window * <Py_ssize_t> sizeof(part), below, codes + window * code_size,
                        values + window, code, code_below, tap_code)
            window += lane
        choose_twos(long, out + 2 * last * <Py_ssize_t> sizeof(part), below, codes + last * code_size, values + last,
                    code, code_below, tap_code)
        out += step
        codes += windows * code_size
        values += windows


cdef inline void_inline spread_rows(int taps, char *out, Py_ssize_t step, const part *codes, const part *values,
                                    Py_ssize_t rows, Py_ssize_t windows, part code, part tap_code) noexcept nogil:
    """One line each of some rows of single cells. Short ones as if they were one row, which is then taken apart."""
    cdef char[SHORT_STAGE + BROAD * LONG] stage
    cdef Py_ssize_t size = taps * windows * sizeof(part), row
    cdef bint short = rows > 1 and windows * sizeof(part) <= SHORT
    cdef Py_ssize_t most = SHORT_STAGE // size if short else 1, some
    cdef char *into
    assert_in_block(not short or most * size <= SHORT_STAGE)
    while rows:
        some = min(rows, most)
        into = out
        if short:
            into = stage
        spread_cells(taps, into, codes, values, some * windows, code, tap_code)
        for row in range(some if short else 0):
            cunpool_copy(out + row * step, stage + row * size, size)
        out += some * step
        codes += some * windows
        values += some * windows
        rows -= some
