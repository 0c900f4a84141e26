# Loops over elements of each type, for filter, and for across where it finds values alone.
from libc.string cimport memcpy

from cunpool._kernels.common.caches cimport cunpool_copy, cunpool_copy_nontemporal
from cunpool._kernels.common.checks cimport assert_in_block
from cunpool._kernels.common.types cimport (
    bhalf, float4, float8, half, item1, item2, item4, item8, void_inline, void_wide)
from cunpool._kernels.pooling.compare cimport fill_lowest, flip_of, flipped, int1, int2, int4, lowest, number, plain
from cunpool._kernels.pooling.compare_floats cimport FLOAT_TAPS
from cunpool._kernels.pooling.taps cimport floats_served, Taps

cdef extern from "_kernels/pooling/numbers.h":
    # Macros. The first arguments are variables that they store to.
    void best_2 "CUNPOOL_BEST_2"(...) noexcept nogil
    void best_3 "CUNPOOL_BEST_3"(...) noexcept nogil
    void best_4 "CUNPOOL_BEST_4"(...) noexcept nogil
    void noted_4 "CUNPOOL_NOTED_4"(...) noexcept nogil
    void noted_9 "CUNPOOL_NOTED_9"(...) noexcept nogil
    void best_half_2 "CUNPOOL_BEST_HALF_2"(...) noexcept nogil
    void best_half_3 "CUNPOOL_BEST_HALF_3"(...) noexcept nogil

cdef enum:
    FEW_TAPS = 4           # elements of windows whose values alone are compared across channels, for some integers
    MOST_TAPS = 9          # the same for float32 and float64

ctypedef void (*Highest)(const char **runs, int count, char *into, Py_ssize_t elements) noexcept nogil
ctypedef void (*LookForOdd)(const char *row, Py_ssize_t count, bint *odd) noexcept nogil
ctypedef void (*FillLowest)(char *into, Py_ssize_t count) noexcept nogil


cdef struct Numbers:
    # Functions that depend on the type, and not on its size alone. For minima "highest" is the lowest, and "lowest" the
    # highest.
    Py_ssize_t size             # bytes of an element
    Highest best_of_runs
    LookForOdd look_for_odd     # or NULL
    FillLowest fill_lowest


cdef inline void_inline best_of(bint is_minimum, const char **runs, int count, plain *into,
                                Py_ssize_t elements) noexcept nogil:
    """The highest of some runs, or the lowest, four at a time."""
    # Copies: the compiler cannot exclude that storing results changes `runs`.
    cdef const plain *first = <const plain *> runs[0]
    cdef const plain *second
    cdef const plain *third
    cdef const plain *fourth
    cdef plain v = 0, w = 0
    cdef int i
    if count == 1:
        memcpy(into, first, elements * sizeof(plain))
    for i in range(1, count, 3):
        second = <const plain *> runs[i]
        third = <const plain *> runs[i + 1] if count - i > 1 else second
        fourth = <const plain *> runs[i + 2] if count - i > 2 else second
        if count - i == 1:
            best_2(is_minimum, into, first, second, elements)
        elif count - i == 2:
            best_3(is_minimum, into, v, first, second, third, elements)
        else:
            best_4(is_minimum, into, v, w, first, second, third, fourth, elements)
        first = into


cdef inline void_wide highest_of(const char **runs, int count, plain *into, Py_ssize_t elements) noexcept nogil:
    best_of(False, runs, count, into, elements)


cdef inline void_wide lowest_of(const char **runs, int count, plain *into, Py_ssize_t elements) noexcept nogil:
    best_of(True, runs, count, into, elements)


cdef inline bint has_values_loop(bint values_alone, Py_ssize_t elements, number *_) noexcept nogil:
    """Whether `highest_windows` serves windows of this many elements."""
    if number is float4 or number is float8:
        return values_alone and elements <= MOST_TAPS
    elif number is item1 or number is int4:
        return values_alone and elements <= FEW_TAPS
    else:  # wide integers are rare, and filter serves those of two bytes (size)
        return False


cdef inline void_inline best_signed_bytes(bint is_minimum, const int1 **run, int1 *into,
                                          Py_ssize_t elements) noexcept nogil:
    """The highest of four runs, or the lowest."""
    cdef int1 v = 0, w = 0
    if is_minimum:
        best_4(True, into, v, w, run[0], run[1], run[2], run[3], elements)
    else:
        best_4(False, into, v, w, run[0], run[1], run[2], run[3], elements)


cdef inline void_inline highest_taps(int tap_count, const Taps *taps, Py_ssize_t ahead, Py_ssize_t elements,
                                     plain *into,
                                     item8 *nan) noexcept nogil:
    """The highest of `tap_count` taps of one window in some channels. The last one is repeated for missing ones."""
    cdef const plain *run[MOST_TAPS]
    cdef item4 *nan_4 = <item4 *> nan
    cdef plain v = 0, w = 0, x = 0
    cdef int i
    for i in range(tap_count):
        run[i] = <const plain *> (taps.elements[min(i, taps.count - 1)] + ahead)
    if plain is float4:
        if tap_count == FEW_TAPS:
            noted_4(into, elements, nan_4, v, w, x, run[0], run[1], run[2], run[3])
        else:
            noted_9(into, elements, nan_4, v, w, x, run[0], run[1], run[2], run[3], run[4], run[5], run[6], run[7],
                    run[8])
    elif plain is float8:
        if tap_count == FEW_TAPS:
            noted_4(into, elements, nan, v, w, x, run[0], run[1], run[2], run[3])
        else:
            noted_9(into, elements, nan, v, w, x, run[0], run[1], run[2], run[3], run[4], run[5], run[6], run[7],
                    run[8])
    elif plain is item1:
        # The sign is flipped for signed bytes, or else for minima: then bytes are compared as signed ones.
        if (taps.order.flip >> 7 & 1) != (taps.order.flip & 1):
            best_signed_bytes(taps.order.flip & 1, <const int1 **> run, <int1 *> into, elements)
        elif taps.order.flip:
            best_4(True, into, v, w, run[0], run[1], run[2], run[3], elements)
        else:
            best_4(False, into, v, w, run[0], run[1], run[2], run[3], elements)
    elif plain is int4:
        best_4(False, into, v, w, run[0], run[1], run[2], run[3], elements)


cdef inline void_wide highest_each(const Taps *taps, Py_ssize_t windows, Py_ssize_t next, Py_ssize_t pitch,
                                   Py_ssize_t lines, plain *into, item8 *nan) noexcept nogil:
    """`highest_windows`, comparing each element for NaN."""
    cdef Py_ssize_t window
    for window in range(windows):
        if taps.count <= FEW_TAPS:
            highest_taps(FEW_TAPS, taps, window * next, lines, into + window * pitch, nan)
        elif plain is float4 or plain is float8:
            assert_in_block(taps.count <= MOST_TAPS)
            highest_taps(MOST_TAPS, taps, window * next, lines, into + window * pitch, nan)


cdef inline void highest_windows(const Taps *taps, Py_ssize_t windows, Py_ssize_t next, Py_ssize_t pitch,
                                 Py_ssize_t lines, int *nan_backoff, plain *into, item8 *nan) noexcept nogil:
    """The maxima that `compare_windows` finds, without offsets. `nan` has a flag for each of the `lines`, as large as
    an element: a line with a flag has a NaN, and its maxima are worth nothing."""
    if plain is float4:
        assert_in_block(0 < taps.count <= FLOAT_TAPS)
        if floats_served(taps, windows, next, 0, pitch, lines, nan_backoff, into, NULL):
            return
        if taps.order.flip or taps.order.omits_nan:  # they have no other loop: the row is pooled again
            nan[0] = 1
            return
    highest_each(taps, windows, next, pitch, lines, into, nan)


cdef inline void_inline best_of_halves(bint is_minimum, const char **runs, int count, int2 *into,
                                       Py_ssize_t elements) noexcept nogil:
    """`best_of` for 16-bit floats, three runs at a time."""
    cdef const int2 *first = <const int2 *> runs[0]
    cdef const int2 *second
    cdef const int2 *third
    cdef int i
    if count == 1:
        memcpy(into, first, elements * sizeof(int2))
    for i in range(1, count, 2):
        second = <const int2 *> runs[i]
        third = <const int2 *> runs[i + 1] if count - i > 1 else second
        if count - i == 1:
            best_half_2(is_minimum, into, first, second, elements)
        else:
            best_half_3(is_minimum, into, first, second, third, elements)
        first = into


cdef inline void_wide highest_of_halves(const char **runs, int count, int2 *into,
                                        Py_ssize_t elements) noexcept nogil:
    best_of_halves(False, runs, count, into, elements)


cdef inline void_wide lowest_of_halves(const char **runs, int count, int2 *into, Py_ssize_t elements) noexcept nogil:
    best_of_halves(True, runs, count, into, elements)


cdef inline void fill_highest(number *into, Py_ssize_t count) noexcept nogil:
    """Fill the padding of minima."""
    cdef Py_ssize_t i
    for i in range(count):
        into[i] = flipped(lowest(into), flip_of(into))


cdef inline void_wide look_for_odd(const number *row, Py_ssize_t count, bint *odd) noexcept nogil:
    """Whether there is a NaN or a negative zero."""
    # As unsigned integers, NaN of positive sign are followed by negative zero, and NaN of negative sign come last.
    cdef item2 infinity = 0x7C00 if number is half else 0x7F80, near_2 = 0xFFFF, last_2 = 0
    cdef item4 near_4 = 0xFFFFFFFF, last_4 = 0
    cdef item8 found_8 = 0
    cdef Py_ssize_t i
    if number is half or number is bhalf:
        for i in range(count):
            near_2 = min(near_2, <item2> (row[i].bits - infinity - 1))
            last_2 = max(last_2, row[i].bits)
        odd[0] |= (near_2 < 0x8000 - infinity) | (last_2 > 0x8000 + infinity)
    elif number is float4:
        for i in range(count):
            near_4 = min(near_4, <item4> ((<const item4 *> row)[i] - <item4> 0x7F800001))
            last_4 = max(last_4, (<const item4 *> row)[i])
        odd[0] |= (near_4 < <item4> 0x800000) | (last_4 > <item4> 0xFF800000)
    elif number is float8:
        for i in range(count):
            found_8 |= <item8> (row[i] != row[i]) | <item8> ((<const item8 *> row)[i] == <item8> 1 << 63)
        odd[0] |= found_8 != 0


cdef inline Numbers numbers_of(bint is_minimum, number *_) noexcept nogil:
    cdef Numbers numbers
    numbers.size = sizeof(number)
    numbers.look_for_odd = NULL
    numbers.fill_lowest = <FillLowest> fill_highest[number] if is_minimum else <FillLowest> fill_lowest[number]
    if number is half or number is bhalf:
        numbers.best_of_runs = <Highest> lowest_of_halves if is_minimum else <Highest> highest_of_halves
    else:
        numbers.best_of_runs = <Highest> lowest_of[number] if is_minimum else <Highest> highest_of[number]
    if number is half or number is bhalf or number is float4 or number is float8:
        numbers.look_for_odd = <LookForOdd> look_for_odd[number]
    return numbers


cdef inline void_wide copy_rows(char *into, Py_ssize_t into_step, const char *rows, Py_ssize_t step,
                                Py_ssize_t count, Py_ssize_t size, bint stream) noexcept nogil:
    """Copy some rows, as one if they follow each other. `stream`: by non-temporal stores."""
    cdef Py_ssize_t row
    if into_step == size and step == size:
        size *= count
        count = 1
    for row in range(count):
        if stream:
            cunpool_copy_nontemporal(into + row * into_step, rows + row * step, size)
        else:
            cunpool_copy(into + row * into_step, rows + row * step, size)
