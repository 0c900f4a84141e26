# Window2: windows of 2 side by side in contiguous rows, compared where they lie.
from libc.stdint cimport int32_t

from cunpool._kernels.common.caches cimport CACHE_LINE, prefetch_range, PREFETCH_SHORT_ROWS_BYTES, PREFETCH_WINDOWS
from cunpool._kernels.common.checks cimport assert_in_block
from cunpool._kernels.common.types cimport bhalf, float4, float8, half, item1, item2, item8, void_inline, void_wide
from cunpool._kernels.pooling.compare cimport (
    expect_nan, expects_no_nan, flipped, int1, int8, keep_higher, mark, number, Order, vector_of)

cdef extern from "_kernels/pooling/window2_compare.h":
    enum:
        IN_LOW "CUNPOOL_IN_LOW"
        IN_HIGH "CUNPOOL_IN_HIGH"

cdef extern from "_kernels/pooling/window2_floats.h":
    bint has_window2_floats "cunpool_has_window2_floats"(int size, int rows) noexcept nogil
    bint window2_floats "cunpool_window2_floats"(
        int size, int rows, bint with_offsets, bint is_minimum, const char **row, Py_ssize_t step,
        const int32_t *offsets, Py_ssize_t lines, Py_ssize_t pitch, Py_ssize_t count, void *best,
        int32_t *offset) noexcept nogil


cdef inline item2 higher_byte(item2 elements, item2 highest, int row) noexcept nogil:
    """The highest of `highest` and two more elements. Each is the high byte, and the low byte is larger the earlier an
    element is compared: so the first of equals stays."""
    highest = max(highest, <item2> (elements << 8 | 7 - 2 * row - IN_LOW))
    return max(highest, <item2> (elements & 0xFF00 | 7 - 2 * row - IN_HIGH))


cdef inline void_inline compare_byte_rows(int rows, const number *a, const number *b, const number *c, const number *d,
                                   Py_ssize_t count, Order order, number *best, item1 *code) noexcept nogil:
    """The maxima of windows of 2 in these rows, and their window codes."""
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


cdef inline void_inline compare_number_rows(int rows, const number *a, const number *b, const number *c,
                                            const number *d,
                                   const int32_t *offsets, Py_ssize_t count, Order order, number *best,
                                   int32_t *offset) noexcept nogil:
    """The maxima of windows of 2 in these rows, and their offsets. The loop vectorises where `rows` is a constant."""
    cdef int32_t in_a = offsets[0], in_b = offsets[rows - 1 if rows < 4 else 1]
    cdef int32_t in_c = offsets[rows - 2 if rows > 2 else 0], in_d = offsets[rows - 1]
    cdef number highest
    cdef int32_t there
    cdef Py_ssize_t i
    for i in range(count):
        highest = flipped(a[2 * i], order.flip)
        there = in_a
        keep_higher(&highest, &there, flipped(a[2 * i + 1], order.flip), in_a + 1, order)
        if rows > 1:
            keep_higher(&highest, &there, flipped(b[2 * i], order.flip), in_b, order)
            keep_higher(&highest, &there, flipped(b[2 * i + 1], order.flip), in_b + 1, order)
        if rows > 2:
            keep_higher(&highest, &there, flipped(c[2 * i], order.flip), in_c, order)
            keep_higher(&highest, &there, flipped(c[2 * i + 1], order.flip), in_c + 1, order)
            keep_higher(&highest, &there, flipped(d[2 * i], order.flip), in_d, order)
            keep_higher(&highest, &there, flipped(d[2 * i + 1], order.flip), in_d + 1, order)
        best[i] = flipped(highest, order.flip)
        offset[i] = there


cdef inline void_inline compare_pairs(int rows, const number **row, const int32_t *offsets, Py_ssize_t count,
                                      Py_ssize_t prefetch_bytes, Py_ssize_t piece, Order order, number *best,
                                      mark *offset) noexcept nogil:
    """The maxima of `count` windows of 2 next to each other, in 1, 2 or 4 rows, and their offsets, or codes of bytes.

    A piece of `piece` windows at a time: before each the elements `prefetch_bytes` further are prefetched, unless that
    is 0. If two rows follow each other, they are prefetched in the order of memory, which is much faster.
    """
    # One by one: arrays that are copied as a whole stay in memory, and keep the loop from vectorising.
    cdef const number *a = row[0]
    cdef const number *b = row[rows - 1 if rows < 4 else 1]
    cdef const number *c = row[rows - 2 if rows > 2 else 0]
    cdef const number *d = row[rows - 1]
    cdef bint apart = rows > 1 and <const char *> b - <const char *> a >= 2 * count * sizeof(number) + CACHE_LINE
    # Whole vectors. The last one repeats some windows.
    cdef Py_ssize_t vector = vector_of(sizeof(number)), begin = 0, next
    cdef Py_ssize_t some = min(piece, count // vector * vector if count > vector else count)
    while True:
        assert_in_block(some > 0)
        if prefetch_bytes and apart:
            prefetch_range(<const char *> a + prefetch_bytes, 2 * some * sizeof(number))
            prefetch_range(<const char *> b + prefetch_bytes, 2 * some * sizeof(number))
            if rows > 2:  # unreached: a constant of each loop
                prefetch_range(<const char *> c + prefetch_bytes, 2 * some * sizeof(number))
                prefetch_range(<const char *> d + prefetch_bytes, 2 * some * sizeof(number))
        elif prefetch_bytes:
            prefetch_range(<const char *> (row[0] + 2 * min(rows, 2) * begin) + prefetch_bytes,
                           2 * min(rows, 2) * some * sizeof(number))
            if rows > 2:  # unreached: a constant of each loop
                prefetch_range(<const char *> (row[2] + 4 * begin) + prefetch_bytes, 4 * some * sizeof(number))
        if mark is item1:
            compare_byte_rows(rows, a, b, c, d, some, order, best, offset)
        else:
            compare_number_rows(rows, a, b, c, d, offsets, some, order, best, offset)
        if begin + some == count:
            break
        next = min(begin + some, count - vector)
        some = next - begin
        a += 2 * some
        b += 2 * some
        c += 2 * some
        d += 2 * some
        best += some
        offset += some
        begin = next
        some = min(piece, (count - begin) // vector * vector)


cdef inline void_inline compare_rows(int rows, const char **row, Py_ssize_t step, const int32_t *offsets,
                                     Py_ssize_t count, Py_ssize_t lines, Py_ssize_t prefetch_bytes, Py_ssize_t piece,
                                     const char *limit, Order order, number *best, mark *offset) noexcept nogil:
    """`compare_pairs` for some pooled rows, `step` bytes of the array apart. Short rows are compared as whole vectors,
    if these end before `limit`. The next row overwrites the rest."""
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
        compare_pairs(rows, at, offsets, vector if overrun else count, prefetch_bytes, piece, order, best, offset)
        for i in range(rows):
            at[i] = <const number *> (<const char *> at[i] + step)
        best += count
        offset += count


cdef inline Py_ssize_t whole_lines(Py_ssize_t size, int rows, const char **row, Py_ssize_t step, Py_ssize_t count,
                                   Py_ssize_t lines, const char *limit) noexcept nogil:
    """How many pooled rows of `lines` can be read in whole vectors that end before `limit`."""
    cdef Py_ssize_t vector = vector_of(size), room
    cdef int i
    for i in range(rows if count < vector else 0):
        room = limit - row[i] - 2 * vector * size
        if room < 0:
            return 0
        if step > 0:
            lines = min(lines, room // step + 1)
    return lines


cdef inline void compare_window2(int rows, const char **row, Py_ssize_t step, const int32_t *offsets, Py_ssize_t count,
                              Py_ssize_t lines, Py_ssize_t prefetch_bytes, const char *limit, bint with_offsets,
                              bint in_caches,
                              Order order, int *nan_backoff, number *best, int32_t *offset) noexcept nogil:
    """`compare_rows`. After a NaN the next calls expect NaN. Offsets may be left out unless the call is
    `with_offsets`."""
    cdef const char *at[4]
    cdef Py_ssize_t vector = vector_of(sizeof(number)), some = 0
    cdef int i
    # Out of cache long rows take up to twice as long without prefetches. (speed)
    if (number is float4 or number is float8) and (in_caches or count < vector):
        if has_window2_floats(sizeof(number), rows) and expects_no_nan(nan_backoff):
            some = whole_lines(sizeof(number), rows, row, step, count, lines, limit)
            if some and window2_floats(sizeof(number), rows, with_offsets, order.flip != 0, row, step, offsets, some,
                                       count, max(count, vector), best, offset):
                expect_nan(nan_backoff)
                some = 0
    if some < lines:
        # Most often there are none before, and `row` serves: to read pointers that were just copied would wait. (speed)
        for i in range(rows if some else 0):
            at[i] = row[i] + some * step
        compare_number_pairs(rows, <const char **> at if some else row, step, offsets, count, lines - some,
                             prefetch_bytes,
                          PREFETCH_WINDOWS, limit, order, best + some * count, offset + some * count)


cdef inline void compare_short_rows(int rows, const char **row, Py_ssize_t step, const int32_t *offsets,
                                    Py_ssize_t count, Py_ssize_t lines, Py_ssize_t prefetch_bytes, const char *limit,
                                    bint with_offsets, Order order, int *nan_backoff, number *best,
                                    int32_t *offset) noexcept nogil:
    """`compare_window2` for short rows that follow each other out of cache: a few are prefetched, then others are
    compared as in cache."""
    cdef Py_ssize_t most = PREFETCH_SHORT_ROWS_BYTES // step, some
    cdef int i
    while True:
        some = min(lines, most)
        for i in range(rows):
            if i == 0 or row[i] - row[i - 1] >= step:  # a row of another layer
                prefetch_range(row[i] + prefetch_bytes, some * step)
        compare_window2(rows, row, step, offsets, count, some, 0, limit, with_offsets, True, order, nan_backoff, best,
                        offset)
        if some == lines:
            return
        for i in range(rows):
            row[i] += some * step
        best += some * count
        offset += some * count
        lines -= some


cdef inline void_inline compare_by_rows(int rows, const char **row, Py_ssize_t step, const int32_t *offsets,
                                        Py_ssize_t count, Py_ssize_t lines, Py_ssize_t prefetch_bytes, Py_ssize_t piece,
                                        const char *limit, Order order, number *best,
                                        mark *offset) noexcept nogil:
    """`compare_rows`, compiled for each number of rows."""
    if rows == 1:
        compare_rows(1, row, step, offsets, count, lines, prefetch_bytes, piece, limit, order, best, offset)
    elif rows == 2:
        compare_rows(2, row, step, offsets, count, lines, prefetch_bytes, piece, limit, order, best, offset)
    else:
        compare_rows(4, row, step, offsets, count, lines, prefetch_bytes, piece, limit, order, best, offset)


cdef inline void_wide compare_number_pairs(int rows, const char **row, Py_ssize_t step, const int32_t *offsets,
                                        Py_ssize_t count, Py_ssize_t lines, Py_ssize_t prefetch_bytes, Py_ssize_t piece,
                                        const char *limit, Order order, number *best,
                                        int32_t *offset) noexcept nogil:
    """`compare_rows` of numbers of several bytes."""
    # Loops for each rule take up to a fifth less time than one; for float64 0.9 to 1.3 times as long. (size)
    if number is float4:
        if order.omits_nan:  # a constant of either loop
            order.omits_nan = True
            compare_by_rows(rows, row, step, offsets, count, lines, prefetch_bytes, PREFETCH_WINDOWS, limit, order,
                            best, offset)
        else:
            order.omits_nan = False
            compare_by_rows(rows, row, step, offsets, count, lines, prefetch_bytes, PREFETCH_WINDOWS, limit, order,
                            best, offset)
    elif number is float8 and order.omits_nan:
        order.omits_nan = True
        compare_by_rows(rows, row, step, offsets, count, lines, prefetch_bytes, piece, limit, order, best, offset)
    elif number is not item1 and number is not int8:
        if number is not half and number is not bhalf:
            order.omits_nan = False
        compare_by_rows(rows, row, step, offsets, count, lines, prefetch_bytes, piece, limit, order, best, offset)


cdef inline void_wide compare_bytes(int rows, const char **row, Py_ssize_t step, Py_ssize_t count,
                                    Py_ssize_t lines, Py_ssize_t prefetch_bytes, const char *limit, Order order,
                                    number *best, item1 *code) noexcept nogil:
    """`compare_rows` of bytes, which are faster in one piece unless something is prefetched."""
    cdef Py_ssize_t piece = PREFETCH_WINDOWS if prefetch_bytes else max(count, vector_of(1))
    if number is item1:
        compare_by_rows(rows, row, step, NULL, count, lines, prefetch_bytes, piece, limit, order, best, code)


cdef inline void_wide offsets_of_codes(const item1 *code, const int32_t *offsets, int rows, const int32_t *begin,
                                      Py_ssize_t count, int32_t *offset) noexcept nogil:
    """Offsets of windows of 2 from their codes, the offsets of their rows, and those of the windows' begins unless
    `begin` is NULL."""
    cdef int32_t below = offsets[1] - 2 if rows > 1 else 0, behind = offsets[2] - 4 if rows > 2 else 0
    cdef Py_ssize_t i
    if rows > 2:
        for i in range(count):
            offset[i] = code[i] + below * (code[i] >> 1 & 1) + behind * (code[i] >> 2)
        if begin != NULL:
            begin_windows(begin, count, offset)
    elif begin != NULL:
        for i in range(count):
            offset[i] = begin[i] + code[i] + below * (code[i] >> 1)
    else:
        for i in range(count):
            offset[i] = code[i] + below * (code[i] >> 1)


cdef inline void begin_windows(const int32_t *begin, Py_ssize_t count, int32_t *offset) noexcept nogil:
    """Make offsets count from the first window: `begin` says where each one begins."""
    cdef Py_ssize_t i
    for i in range(count):
        offset[i] += begin[i]
