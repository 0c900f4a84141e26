# Windows of 2 that lie side by side in contiguous rows, compared where they lie.
from libc.stdint cimport int32_t

from cunpool._kernels.common.caches cimport CACHE_LINE, prefetch_range, PREFETCH_SHORT_ROWS_BYTES, PREFETCH_WINDOWS
from cunpool._kernels.common.checks cimport assert_in_block
from cunpool._kernels.common.types cimport bhalf, float4, float8, half, item1, item2, item8, void_inline, void_wide
from cunpool._kernels.pooling.compare cimport flipped, hold, int1, int8, mark, number, Order, vector_of
from cunpool._kernels.pooling.floats cimport done, held_twos, hopeful

cdef extern from "_kernels/pooling/pairs.h":
    enum:
        IN_LOW "CUNPOOL_IN_LOW"
        IN_HIGH "CUNPOOL_IN_HIGH"


cdef inline item2 higher_byte(item2 cells, item2 highest, int row) noexcept nogil:
    """The highest of two cells more, each in the higher byte, beside a number that is the larger the earlier it is
    looked at: so of equals the first one stays."""
    highest = max(highest, <item2> (cells << 8 | 7 - 2 * row - IN_LOW))
    return max(highest, <item2> (cells & 0xFF00 | 7 - 2 * row - IN_HIGH))


cdef inline void_inline hold_bytes(int rows, const number *a, const number *b, const number *c, const number *d,
                                   Py_ssize_t count, Order order, number *best, item1 *code) noexcept nogil:
    """The maxima of windows of 2 that lie in these rows, and which of a window's cells each was."""
    cdef item2 flip = <item2> ((order.flip & 0xFF) * 0x101), highest
    cdef Py_ssize_t i
    for i in range(count):
        highest = higher_byte((<const item2 *> a)[i] ^ flip, 0, 0)
        if rows > 1:
            highest = higher_byte((<const item2 *> b)[i] ^ flip, highest, 1)
        if rows > 2:
            highest = higher_byte((<const item2 *> c)[i] ^ flip, highest, 2)
            highest = higher_byte((<const item2 *> d)[i] ^ flip, highest, 3)
        (<item1 *> best)[i] = <item1> (highest >> 8 ^ flip)
        code[i] = <item1> (highest & 7 ^ 7)


cdef inline void_inline hold_pairs(int rows, const number *a, const number *b, const number *c, const number *d,
                                   const int32_t *places, Py_ssize_t count, Order order, number *best,
                                   int32_t *place) noexcept nogil:
    """The maxima of windows of 2 that lie in these rows, and their places. It vectorises where `rows` is a constant."""
    cdef int32_t in_a = places[0], in_b = places[rows - 1 if rows < 4 else 1]
    cdef int32_t in_c = places[rows - 2 if rows > 2 else 0], in_d = places[rows - 1]
    cdef number highest
    cdef int32_t there
    cdef Py_ssize_t i
    for i in range(count):
        highest = flipped(a[2 * i], order.flip)
        there = in_a
        hold(&highest, &there, flipped(a[2 * i + 1], order.flip), in_a + 1, order)
        if rows > 1:
            hold(&highest, &there, flipped(b[2 * i], order.flip), in_b, order)
            hold(&highest, &there, flipped(b[2 * i + 1], order.flip), in_b + 1, order)
        if rows > 2:
            hold(&highest, &there, flipped(c[2 * i], order.flip), in_c, order)
            hold(&highest, &there, flipped(c[2 * i + 1], order.flip), in_c + 1, order)
            hold(&highest, &there, flipped(d[2 * i], order.flip), in_d, order)
            hold(&highest, &there, flipped(d[2 * i + 1], order.flip), in_d + 1, order)
        best[i] = flipped(highest, order.flip)
        place[i] = there


cdef inline void_inline compare_pairs(int rows, const number **row, const int32_t *places, Py_ssize_t count,
                                      Py_ssize_t ahead, Py_ssize_t piece, Order order, number *best,
                                      mark *place) noexcept nogil:
    """The maxima of `count` windows of 2 next to each other, which lie in these 1, 2 or 4 rows, and their places, or
    of bytes their codes.

    In pieces of so many windows, before each of which what lies as many bytes `ahead` is fetched, if that is not 0: in
    the order of the memory where two rows follow each other, for that is much faster than by turns.
    """
    # One by one, because arrays that are copied whole stay in memory, and keep the loop from vectorising.
    cdef const number *a = row[0]
    cdef const number *b = row[rows - 1 if rows < 4 else 1]
    cdef const number *c = row[rows - 2 if rows > 2 else 0]
    cdef const number *d = row[rows - 1]
    cdef bint apart = rows > 1 and <const char *> b - <const char *> a >= 2 * count * sizeof(number) + CACHE_LINE
    # In whole vectors, of which the last one does some windows again.
    cdef Py_ssize_t vector = vector_of(sizeof(number)), begin = 0, next
    cdef Py_ssize_t some = min(piece, count // vector * vector if count > vector else count)
    while True:
        assert_in_block(some > 0)
        if ahead and apart:
            prefetch_range(<const char *> a + ahead, 2 * some * sizeof(number))
            prefetch_range(<const char *> b + ahead, 2 * some * sizeof(number))
            if rows > 2:  # unreached: a constant of each loop that this becomes
                prefetch_range(<const char *> c + ahead, 2 * some * sizeof(number))
                prefetch_range(<const char *> d + ahead, 2 * some * sizeof(number))
        elif ahead:
            prefetch_range(<const char *> (row[0] + 2 * min(rows, 2) * begin) + ahead,
                           2 * min(rows, 2) * some * sizeof(number))
            if rows > 2:  # unreached: a constant of each loop that this becomes
                prefetch_range(<const char *> (row[2] + 4 * begin) + ahead, 4 * some * sizeof(number))
        if mark is item1:
            hold_bytes(rows, a, b, c, d, some, order, best, place)
        else:
            hold_pairs(rows, a, b, c, d, places, some, order, best, place)
        if begin + some == count:
            break
        next = min(begin + some, count - vector)
        some = next - begin
        a += 2 * some
        b += 2 * some
        c += 2 * some
        d += 2 * some
        best += some
        place += some
        begin = next
        some = min(piece, (count - begin) // vector * vector)


cdef inline void_inline compare_rows(int rows, const char **row, Py_ssize_t step, const int32_t *places,
                                     Py_ssize_t count, Py_ssize_t lines, Py_ssize_t ahead, Py_ssize_t piece,
                                     const char *limit, Order order, number *best, mark *place) noexcept nogil:
    """`compare_pairs` for some pooled rows, `step` bytes of the array apart. Short ones as whole vectors, whose rest is
    overwritten by what follows, where there is memory of the array's behind them, which ends at `limit`."""
    cdef const number *at[4]
    cdef Py_ssize_t vector = vector_of(sizeof(number))
    cdef bint overrun
    cdef int i
    for i in range(rows):
        at[i] = <const number *> row[i]
    for _ in range(lines):
        overrun = count < vector
        for i in range(rows):
            overrun &= <const char *> (at[i] + 2 * vector) <= limit
        compare_pairs(rows, at, places, vector if overrun else count, ahead, piece, order, best, place)
        for i in range(rows):
            at[i] = <const number *> (<const char *> at[i] + step)
        best += count
        place += count


cdef inline Py_ssize_t whole_lines(Py_ssize_t size, int rows, const char **row, Py_ssize_t step, Py_ssize_t count,
                                   Py_ssize_t lines, const char *limit) noexcept nogil:
    """Of how many lines of numbers of so many bytes whole vectors can be read before this."""
    cdef Py_ssize_t vector = vector_of(size), room
    cdef int i
    for i in range(rows if count < vector else 0):
        room = limit - row[i] - 2 * vector * size
        if room < 0:
            return 0
        if step > 0:
            lines = min(lines, room // step + 1)
    return lines


cdef inline void compare_twos(int rows, const char **row, Py_ssize_t step, const int32_t *places, Py_ssize_t count,
                              Py_ssize_t lines, Py_ssize_t ahead, const char *limit, bint placed, bint in_caches,
                              Order order, int *careful, number *best, int32_t *place) noexcept nogil:
    """`compare_rows`; where a NaN was, the next calls are `careful`. Places may be left out where they are not
    `placed`."""
    cdef const char *at[4]
    cdef Py_ssize_t vector = vector_of(sizeof(number)), some = 0
    cdef int i
    # Beyond the caches long rows take up to twice as long without what is fetched ahead.
    if (number is float4 or number is float8) and (in_caches or count < vector):
        if hopeful(careful):
            some = whole_lines(sizeof(number), rows, row, step, count, lines, limit)
            if some and not done(held_twos(sizeof(number), rows, placed, row, step, places, some, count,
                                           max(count, vector), best, place, order.flip), careful):
                some = 0
    if some < lines:
        # Mostly none were held, and pointers are not copied: a vector of what was just written one by one has to wait.
        for i in range(rows if some else 0):
            at[i] = row[i] + some * step
        compare_each_twos(rows, <const char **> at if some else row, step, places, count, lines - some, ahead,
                          PREFETCH_WINDOWS, limit, order, best + some * count, place + some * count)


cdef inline void compare_short_twos(int rows, const char **row, Py_ssize_t step, const int32_t *places,
                                    Py_ssize_t count, Py_ssize_t lines, Py_ssize_t ahead, const char *limit,
                                    bint placed, Order order, int *careful, number *best,
                                    int32_t *place) noexcept nogil:
    """`compare_twos` for short rows that follow each other beyond the caches: before some of them, what lies `ahead` is
    fetched, and then they are compared as within the caches."""
    cdef Py_ssize_t most = PREFETCH_SHORT_ROWS_BYTES // step, some
    cdef int i
    while True:
        some = min(lines, most)
        for i in range(rows):
            if i == 0 or row[i] - row[i - 1] >= step:  # another layer's
                prefetch_range(row[i] + ahead, some * step)
        compare_twos(rows, row, step, places, count, some, 0, limit, placed, True, order, careful, best, place)
        if some == lines:
            return
        for i in range(rows):
            row[i] += some * step
        best += some * count
        place += some * count
        lines -= some


cdef inline void_inline compare_by_rows(int rows, const char **row, Py_ssize_t step, const int32_t *places,
                                        Py_ssize_t count, Py_ssize_t lines, Py_ssize_t ahead, Py_ssize_t piece,
                                        const char *limit, Order order, number *best,
                                        mark *place) noexcept nogil:
    """`compare_rows`, compiled apart for what there is."""
    if rows == 1:
        compare_rows(1, row, step, places, count, lines, ahead, piece, limit, order, best, place)
    elif rows == 2:
        compare_rows(2, row, step, places, count, lines, ahead, piece, limit, order, best, place)
    else:
        compare_rows(4, row, step, places, count, lines, ahead, piece, limit, order, best, place)


cdef inline void_wide compare_each_twos(int rows, const char **row, Py_ssize_t step, const int32_t *places,
                                        Py_ssize_t count, Py_ssize_t lines, Py_ssize_t ahead, Py_ssize_t piece,
                                        const char *limit, Order order, number *best,
                                        int32_t *place) noexcept nogil:
    """`compare_rows` of numbers of several bytes."""
    # With a constant these take up to a fifth less time, for a larger wheel; doubles 0.9 to 1.3 times as long.
    if number is float4:
        if order.omits_nan:  # a constant of either loop
            order.omits_nan = True
            compare_by_rows(rows, row, step, places, count, lines, ahead, PREFETCH_WINDOWS, limit, order, best, place)
        else:
            order.omits_nan = False
            compare_by_rows(rows, row, step, places, count, lines, ahead, PREFETCH_WINDOWS, limit, order, best, place)
    elif number is float8 and order.omits_nan:
        order.omits_nan = True
        compare_by_rows(rows, row, step, places, count, lines, ahead, piece, limit, order, best, place)
    elif number is not item1 and number is not int8:
        if number is not half and number is not bhalf:
            order.omits_nan = False
        compare_by_rows(rows, row, step, places, count, lines, ahead, piece, limit, order, best, place)


cdef inline void_wide compare_bytes(int rows, const char **row, Py_ssize_t step, Py_ssize_t count,
                                    Py_ssize_t lines, Py_ssize_t ahead, const char *limit, Order order,
                                    number *best, item1 *code) noexcept nogil:
    """`compare_rows` of bytes, which are faster in one piece if nothing is fetched."""
    cdef Py_ssize_t piece = PREFETCH_WINDOWS if ahead else max(count, vector_of(1))
    if number is item1:
        compare_by_rows(rows, row, step, NULL, count, lines, ahead, piece, limit, order, best, code)


cdef inline void_wide places_of_codes(const item1 *code, const int32_t *places, int rows, const int32_t *begin,
                                      Py_ssize_t count, int32_t *place) noexcept nogil:
    """The places of windows of 2 by their codes, from those of their rows, and from where each window begins if that is
    known."""
    cdef int32_t below = places[1] - 2 if rows > 1 else 0, behind = places[2] - 4 if rows > 2 else 0
    cdef Py_ssize_t i
    if rows > 2:
        for i in range(count):
            place[i] = code[i] + below * (code[i] >> 1 & 1) + behind * (code[i] >> 2)
        if begin != NULL:
            begin_windows(begin, count, place)
    elif begin != NULL:
        for i in range(count):
            place[i] = begin[i] + code[i] + below * (code[i] >> 1)
    else:
        for i in range(count):
            place[i] = code[i] + below * (code[i] >> 1)


cdef inline void begin_windows(const int32_t *begin, Py_ssize_t count, int32_t *place) noexcept nogil:
    """Count places from the first of some windows, which begin as the table says."""
    cdef Py_ssize_t i
    for i in range(count):
        place[i] += begin[i]
