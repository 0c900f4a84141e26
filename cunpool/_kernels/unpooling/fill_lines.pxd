# Lines of the output, selected in whole vectors from their windows' values and codes: each value whose code is the
# given one, and zero for the others. `fill.pxd` defines a line.
from libc.stdint cimport uint8_t

from cunpool._kernels.common.caches cimport cunpool_copy
from cunpool._kernels.common.checks cimport assert_in_block, branch_counted
from cunpool._kernels.common.types cimport lane, void_inline, void_noinline

cdef extern from "_kernels/unpooling/fill_select.h":
    const bint CUNPOOL_HAS_SHUFFLE
    const bint CUNPOOL_HAS_PAIRS
    # The first argument of these is the size of a lane.
    void cunpool_select(...) noexcept nogil
    void cunpool_select_long(...) noexcept nogil
    void cunpool_select_pair(...) noexcept nogil
    void cunpool_select_mixed(...) noexcept nogil

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


cdef inline void_inline select_unit(char *out, const lane *codes, const lane *values, Py_ssize_t unit,
                                    lane code) noexcept nogil:
    """One unit, in whole vectors: long ones, then shorter ones. The last may overlap the one before."""
    cdef Py_ssize_t i = 0, size = unit * sizeof(lane), last = unit - VECTOR_BYTES // <Py_ssize_t> sizeof(lane)
    cdef char[VECTOR_BYTES] some
    if size >= VECTOR_BYTES:
        while i <= unit - LONG_BYTES // <Py_ssize_t> sizeof(lane):
            cunpool_select_long(sizeof(lane), out + i * <Py_ssize_t> sizeof(lane), codes + i, values + i, code)
            i += LONG_BYTES // <Py_ssize_t> sizeof(lane)
        while i < unit:
            cunpool_select(sizeof(lane), out + min(i, last) * <Py_ssize_t> sizeof(lane), codes + min(i, last),
                           values + min(i, last), code)
            i += VECTOR_BYTES // <Py_ssize_t> sizeof(lane)
    else:
        cunpool_select(sizeof(lane), some, codes, values, code)
        cunpool_copy(out, some, size)


cdef inline void_inline select_units(char *out, Py_ssize_t pitch, const lane *codes, const lane *values,
                                     Py_ssize_t unit, Py_ssize_t windows, Py_ssize_t taps, lane code,
                                     lane tap_code) noexcept nogil:
    """A line of units. Short units are written as whole vectors, whose rest the next unit overwrites."""
    cdef Py_ssize_t window = 0, short = 0, size = unit * sizeof(lane), tap
    if size == 2 * VECTOR_BYTES:  # 8 channels of float32, which take up to twice as long one by one (speed)
        for _ in range(windows):
            for tap in range(taps):
                cunpool_select(sizeof(lane), out, codes, values, <lane> (code + tap * tap_code))
                cunpool_select(sizeof(lane), out + VECTOR_BYTES, codes + unit // 2, values + unit // 2,
                               <lane> (code + tap * tap_code))
                out += pitch
            codes += unit
            values += unit
        return
    if size <= VECTOR_BYTES and pitch == size:
        short = windows - (VECTOR_BYTES + taps * pitch - 1) // (taps * pitch)
    while window < short:
        for tap in range(taps):
            cunpool_select(sizeof(lane), out, codes, values, <lane> (code + tap * tap_code))
            out += pitch
        codes += unit
        values += unit
        window += 1
    while window < windows:
        for tap in range(taps):
            select_unit(out, codes, values, unit, <lane> (code + tap * tap_code))
            out += pitch
        codes += unit
        values += unit
        window += 1


cdef inline void_noinline select_mixed_units(const MixedUnits *mixed, char *out, Py_ssize_t row_bytes,
                                             const char *codes, const char *values, Py_ssize_t rows, Py_ssize_t row,
                                             Py_ssize_t times, Py_ssize_t unit, int code, int tap_code) noexcept nogil:
    """The part of a line that whole vectors fill, in each of `rows` rows whose values are `row` bytes apart: `times`
    times all vectors of the plan."""
    cdef uint8_t wanted[MIXED_MAX_VECTORS][VECTOR_BYTES]
    cdef int vector, i
    for vector in range(mixed.vectors):
        for i in range(VECTOR_BYTES):
            wanted[vector][i] = <uint8_t> (code + mixed.tap[vector][i] * tap_code)
    for i in range(rows):
        cunpool_select_mixed(out + i * row_bytes, codes + i * row, values + i * row, times, mixed.windows * unit,
                             mixed.vectors, mixed.at, mixed.order, wanted)


cdef inline void_inline select_line(int taps, char *out, const lane *codes, const lane *values, Py_ssize_t windows,
                                    lane code, lane tap_code) noexcept nogil:
    """A line of single elements, in whole vectors. The last one overlaps the one before. Less than a vector is written
    up to the vector's end."""
    cdef Py_ssize_t vector_windows = LONG_BYTES // sizeof(lane)
    cdef Py_ssize_t left = windows % vector_windows if windows > vector_windows else 0
    cdef Py_ssize_t count = max(windows - left, vector_windows), i
    cdef lane *into = <lane *> out
    cdef int tap
    while True:
        for i in range(count):
            for tap in range(taps):
                into[taps * i + tap] = values[i] & -<lane> (codes[i] == <lane> (code + tap * tap_code))
        if not left:
            break
        left = windows - vector_windows
        codes += left
        values += left
        into += taps * left
        count = vector_windows
        left = 0


cdef inline void_inline select_line_pairs(char *out, Py_ssize_t below_bytes, Py_ssize_t row_bytes, const lane *codes,
                                          const lane *values, Py_ssize_t rows, Py_ssize_t windows, lane code,
                                          lane code_below, lane tap_code) noexcept nogil:
    """Two lines of each row of 2 x 2 windows, in whole vectors. The last one may overlap the one before."""
    cdef Py_ssize_t vector_windows = VECTOR_BYTES // <Py_ssize_t> sizeof(lane), last = windows - vector_windows, window
    cdef lane *line
    for _ in range(rows):
        line = <lane *> out
        window = 0
        while window < last:
            cunpool_select_pair(sizeof(lane), <char *> (line + 2 * window), <char *> (line + 2 * window) + below_bytes,
                                codes + window, values + window, code, code_below, tap_code)
            window += vector_windows
        cunpool_select_pair(sizeof(lane), <char *> (line + 2 * last), <char *> (line + 2 * last) + below_bytes,
                            codes + last, values + last, code, code_below, tap_code)
        out += row_bytes
        codes += windows
        values += windows


cdef inline void_inline select_line_rows(int taps, char *out, Py_ssize_t row_bytes, const lane *codes,
                                         const lane *values, Py_ssize_t rows, Py_ssize_t windows, lane code,
                                         lane tap_code) noexcept nogil:
    """One line of each row of single elements. Short rows are selected as one row in `stage` and copied from there.

    `stage` is allocated with SHORT_STAGE_BYTES + MAX_LINE_TAPS * LONG_BYTES. Bytes 0 to most * size - 1 are written
    and read."""
    cdef char[SHORT_STAGE_BYTES + MAX_LINE_TAPS * LONG_BYTES] stage
    cdef Py_ssize_t size = taps * windows * sizeof(lane), row
    cdef bint short = windows * sizeof(lane) <= (SHORT_ROW_BYTES if rows > 1 else LONG_BYTES)
    cdef Py_ssize_t most = SHORT_STAGE_BYTES // size if short else 1, some
    cdef char *into
    assert_in_block(not short or most * size <= SHORT_STAGE_BYTES)
    while rows:
        some = min(rows, most)
        into = out
        if short:
            into = stage
        select_line(taps, into, codes, values, some * windows, code, tap_code)
        for row in range(some if short else 0):
            cunpool_copy(out + row * row_bytes, stage + row * size, size)
        out += some * row_bytes
        codes += some * windows
        values += some * windows
        rows -= some
