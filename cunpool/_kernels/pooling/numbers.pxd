# Loops over elements of each type, for filter.
from libc.string cimport memcpy

from cunpool._kernels.common.caches cimport cunpool_copy, cunpool_copy_nontemporal
from cunpool._kernels.common.types cimport (
    bhalf, float4, float8, half, item2, item4, item8, void_inline, void_wide)
from cunpool._kernels.pooling.compare cimport fill_lowest, flip_of, flipped, int2, lowest, number, plain

cdef extern from "_kernels/pooling/numbers.h":
    # Macros. The first arguments are variables that they store to.
    void best_2 "CUNPOOL_BEST_2"(...) noexcept nogil
    void best_3 "CUNPOOL_BEST_3"(...) noexcept nogil
    void best_4 "CUNPOOL_BEST_4"(...) noexcept nogil
    void best_half_2 "CUNPOOL_BEST_HALF_2"(...) noexcept nogil
    void best_half_3 "CUNPOOL_BEST_HALF_3"(...) noexcept nogil

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
