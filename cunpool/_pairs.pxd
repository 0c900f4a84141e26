# Windows of 2 that lie side by side in contiguous rows, compared where they lie.
from cunpool._common cimport *
from cunpool._compare cimport *
from cunpool._floats cimport *


cdef inline inlined compare_pairs(int rows, const number **row, const int32_t *places, Py_ssize_t count,
                                  Py_ssize_t ahead, number *best, int32_t *place) noexcept nogil:
    """The maxima of `count` windows of 2 next to each other, which lie in these 1, 2 or 4 rows, and their places.

    What lies as many bytes `ahead` is fetched, if that is not 0. It vectorises where `rows` is a constant.
    """
    # One by one, because arrays that are copied whole stay in memory, and keep the loop from vectorising.
    cdef const number *a = row[0]
    cdef const number *b = row[rows - 1 if rows < 4 else 1]
    cdef const number *c = row[rows - 2 if rows > 2 else 0]
    cdef const number *d = row[rows - 1]
    cdef int32_t in_a = places[0], in_b = places[rows - 1 if rows < 4 else 1]
    cdef int32_t in_c = places[rows - 2 if rows > 2 else 0], in_d = places[rows - 1]
    cdef number highest
    cdef int32_t there
    # In whole vectors, of which the last one does some windows again.
    cdef Py_ssize_t vector = vector_of(sizeof(number)), begin = 0, next, i
    cdef Py_ssize_t some = min(<Py_ssize_t> PIECE, count // vector * vector if count > vector else count)
    while True:
        if ahead:
            # In the order of the memory, in which two rows follow each other: that is much faster than by turns.
            fetch(<const char *> (row[0] + 2 * min(rows, 2) * begin) + ahead, 2 * min(rows, 2) * some * sizeof(number))
            if rows > 2:
                fetch(<const char *> (row[2] + 4 * begin) + ahead, 4 * some * sizeof(number))
        for i in range(some):
            highest = a[2 * i]
            there = in_a
            hold(&highest, &there, a[2 * i + 1], in_a + 1)
            if rows > 1:
                hold(&highest, &there, b[2 * i], in_b)
                hold(&highest, &there, b[2 * i + 1], in_b + 1)
            if rows > 2:
                hold(&highest, &there, c[2 * i], in_c)
                hold(&highest, &there, c[2 * i + 1], in_c + 1)
                hold(&highest, &there, d[2 * i], in_d)
                hold(&highest, &there, d[2 * i + 1], in_d + 1)
            best[i] = highest
            place[i] = there
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
        some = min(<Py_ssize_t> PIECE, (count - begin) // vector * vector)


cdef inline inlined compare_rows(int rows, const char **row, Py_ssize_t step, const int32_t *places, Py_ssize_t count,
                                 Py_ssize_t lines, Py_ssize_t ahead, const char *limit, number *best,
                                 int32_t *place) noexcept nogil:
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
        compare_pairs(rows, at, places, vector if overrun else count, ahead, best, place)
        for i in range(rows):
            at[i] = <const number *> (<const char *> at[i] + step)
        best += count
        place += count


cdef inline Py_ssize_t whole_lines(int rows, const char **row, Py_ssize_t step, Py_ssize_t count, Py_ssize_t lines,
                                   const char *limit) noexcept nogil:
    """Of how many lines of floats whole vectors can be read before this."""
    cdef Py_ssize_t vector = vector_of(sizeof(float4)), room
    cdef int i
    for i in range(rows if count < vector else 0):
        room = limit - row[i] - 2 * vector * <Py_ssize_t> sizeof(float4)
        if room < 0:
            return 0
        if step > 0:
            lines = min(lines, room // step + 1)
    return lines


cdef inline void compare_twos(int rows, const char **row, Py_ssize_t step, const int32_t *places, Py_ssize_t count,
                              Py_ssize_t lines, Py_ssize_t ahead, const char *limit, bint placed, bint in_caches,
                              int *careful, number *best, int32_t *place) noexcept nogil:
    """`compare_rows`; where a NaN was, the next calls are `careful`. Places may be left out where they are not
    `placed`."""
    cdef const char *at[4]
    cdef Py_ssize_t vector = vector_of(sizeof(number)), some = 0
    cdef int i
    # Beyond the caches long rows take up to twice as long without what is fetched ahead.
    if number is float4 and (in_caches or count < vector):
        if hopeful(careful):
            some = whole_lines(rows, row, step, count, lines, limit)
            if some and not done(held_twos(rows, placed, row, step, places, some, count, max(count, vector), best,
                                           place), careful):
                some = 0
    if some < lines:
        for i in range(rows):
            at[i] = row[i] + some * step
        compare_each_twos(rows, at, step, places, count, lines - some, ahead, limit, best + some * count,
                          place + some * count)


cdef inline cloned compare_each_twos(int rows, const char **row, Py_ssize_t step, const int32_t *places,
                                     Py_ssize_t count, Py_ssize_t lines, Py_ssize_t ahead, const char *limit,
                                     number *best, int32_t *place) noexcept nogil:
    """`compare_rows`, compiled apart for what there is."""
    if number is int8 or number is item8:
        pass  # unreached, as `plan_pool` says
    elif rows == 1:
        compare_rows(1, row, step, places, count, lines, ahead, limit, best, place)
    elif rows == 2:
        compare_rows(2, row, step, places, count, lines, ahead, limit, best, place)
    else:
        compare_rows(4, row, step, places, count, lines, ahead, limit, best, place)
