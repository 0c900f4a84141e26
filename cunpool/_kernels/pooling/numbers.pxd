# What filtering (`filter.pxd`), and windows in all channels without indices (`across.pxd`), do with the numbers
# themselves, compiled for each kind of them.
from libc.string cimport memcpy

from cunpool._kernels.common.caches cimport cunpool_copy
from cunpool._kernels.common.checks cimport assert_in_block
from cunpool._kernels.common.types cimport (
    bhalf, float4, float8, half, item1, item2, item4, item8, void_inline, void_wide)
from cunpool._kernels.pooling.compare cimport (
    fill_lowest, flip_of, flipped, int1, int2, int4, lowest, number, plain, Taps)
from cunpool._kernels.pooling.floats cimport done, held, hopeful, LOOKS

cdef extern from "_kernels/pooling/numbers.h":
    void best_2 "CUNPOOL_BEST_2"(...) noexcept nogil
    void best_3 "CUNPOOL_BEST_3"(...) noexcept nogil
    void best_4 "CUNPOOL_BEST_4"(...) noexcept nogil
    void noted_4 "CUNPOOL_NOTED_4"(...) noexcept nogil
    void noted_9 "CUNPOOL_NOTED_9"(...) noexcept nogil
    void best_half_2 "CUNPOOL_BEST_HALF_2"(...) noexcept nogil
    void best_half_3 "CUNPOOL_BEST_HALF_3"(...) noexcept nogil

cdef enum:
    FEW_LOOKS = 4           # cells of windows whose maxima alone are found across channels, of some integers,
    MOST_LOOKS = 9          # and of those of `float4` and `float8`

ctypedef void (*Highest)(const char **runs, int count, char *into, Py_ssize_t cells) noexcept nogil
ctypedef void (*LookForOdd)(const char *row, Py_ssize_t count, bint *odd) noexcept nogil
ctypedef void (*FillLowest)(char *into, Py_ssize_t count) noexcept nogil


cdef struct Numbers:
    # What depends on the kind of numbers, and not on their size alone. For minima "highest" means lowest, and "lowest"
    # highest.
    Py_ssize_t size             # bytes of one
    Highest highest_of
    LookForOdd look_for_odd     # or NULL, where none is
    FillLowest fill_lowest


cdef inline void_inline best_of(bint is_minimum, const char **runs, int count, plain *into,
                                Py_ssize_t cells) noexcept nogil:
    """The highest of some runs, or the lowest, four at a time."""
    # Copies, because the compiler has to fear that writing changes `runs`.
    cdef const plain *first = <const plain *> runs[0]
    cdef const plain *second
    cdef const plain *third
    cdef const plain *fourth
    cdef plain v = 0, w = 0
    cdef int i
    if count == 1:
        memcpy(into, first, cells * sizeof(plain))
    for i in range(1, count, 3):
        second = <const plain *> runs[i]
        third = <const plain *> runs[i + 1] if count - i > 1 else second
        fourth = <const plain *> runs[i + 2] if count - i > 2 else second
        if count - i == 1:
            best_2(is_minimum, into, first, second, cells)
        elif count - i == 2:
            best_3(is_minimum, into, v, first, second, third, cells)
        else:
            best_4(is_minimum, into, v, w, first, second, third, fourth, cells)
        first = into


cdef inline void_wide highest_of(const char **runs, int count, plain *into, Py_ssize_t cells) noexcept nogil:
    best_of(False, runs, count, into, cells)


cdef inline void_wide lowest_of(const char **runs, int count, plain *into, Py_ssize_t cells) noexcept nogil:
    best_of(True, runs, count, into, cells)


cdef inline bint highest_known(bint values_alone, Py_ssize_t cells, number *_) noexcept nogil:
    """Whether `highest_windows` knows the windows of so many cells."""
    if number is float4 or number is float8:
        return values_alone and cells <= MOST_LOOKS
    elif number is item1 or number is int4:
        return values_alone and cells <= FEW_LOOKS
    else:  # wide integers are rare, and those of two bytes are filtered: loops of their own would make a larger wheel
        return False


cdef inline void_inline best_signed_bytes(bint is_minimum, const int1 **run, int1 *into,
                                          Py_ssize_t cells) noexcept nogil:
    """The highest of four runs, or the lowest."""
    cdef int1 v = 0, w = 0
    if is_minimum:
        best_4(True, into, v, w, run[0], run[1], run[2], run[3], cells)
    else:
        best_4(False, into, v, w, run[0], run[1], run[2], run[3], cells)


cdef inline void_inline highest_taps(int looks, const Taps *taps, Py_ssize_t ahead, Py_ssize_t cells, plain *into,
                                     item8 *nan) noexcept nogil:
    """The highest of one window in some channels: so many looks, with the last cell again if they are more."""
    cdef const plain *run[MOST_LOOKS]
    cdef item4 *nan_4 = <item4 *> nan
    cdef plain v = 0, w = 0, x = 0
    cdef int i
    for i in range(looks):
        run[i] = <const plain *> (taps.cells[min(i, taps.count - 1)] + ahead)
    if plain is float4:
        if looks == FEW_LOOKS:
            noted_4(into, cells, nan_4, v, w, x, run[0], run[1], run[2], run[3])
        else:
            noted_9(into, cells, nan_4, v, w, x, run[0], run[1], run[2], run[3], run[4], run[5], run[6], run[7], run[8])
    elif plain is float8:
        if looks == FEW_LOOKS:
            noted_4(into, cells, nan, v, w, x, run[0], run[1], run[2], run[3])
        else:
            noted_9(into, cells, nan, v, w, x, run[0], run[1], run[2], run[3], run[4], run[5], run[6], run[7], run[8])
    elif plain is item1:
        # As the bits that are flipped say: the sign is flipped, if signed bytes or else minima are asked for.
        if (taps.order.flip >> 7 & 1) != (taps.order.flip & 1):
            best_signed_bytes(taps.order.flip & 1, <const int1 **> run, <int1 *> into, cells)
        elif taps.order.flip:
            best_4(True, into, v, w, run[0], run[1], run[2], run[3], cells)
        else:
            best_4(False, into, v, w, run[0], run[1], run[2], run[3], cells)
    elif plain is int4:
        best_4(False, into, v, w, run[0], run[1], run[2], run[3], cells)


cdef inline void_wide highest_each(const Taps *taps, Py_ssize_t windows, Py_ssize_t next, Py_ssize_t pitch,
                                   Py_ssize_t lines, plain *into, item8 *nan) noexcept nogil:
    """`highest_windows`, each cell being looked at for a NaN."""
    cdef Py_ssize_t window
    for window in range(windows):
        if taps.count <= FEW_LOOKS:
            highest_taps(FEW_LOOKS, taps, window * next, lines, into + window * pitch, nan)
        elif plain is float4 or plain is float8:
            assert_in_block(taps.count <= MOST_LOOKS)
            highest_taps(MOST_LOOKS, taps, window * next, lines, into + window * pitch, nan)


cdef inline void highest_windows(const Taps *taps, Py_ssize_t windows, Py_ssize_t next, Py_ssize_t pitch,
                                 Py_ssize_t lines, int *careful, plain *into, item8 *nan) noexcept nogil:
    """The maxima that `compare_windows` finds, without their places. They are right in those of the `lines` of which
    `nan`, one flag as large as a number for each, says nothing: any other has seen a NaN."""
    if plain is float4:
        assert_in_block(0 < taps.count <= LOOKS)
        if hopeful(careful) and done(held(taps.count, <const char **> taps.cells, taps.places, windows, next, 0, pitch,
                                          lines, into, NULL, taps.order.flip), careful):
            return
        if taps.order.flip:  # minima have no other loop here: the row is pooled again
            nan[0] = 1
            return
    highest_each(taps, windows, next, pitch, lines, into, nan)


cdef inline void_inline best_of_halves(bint is_minimum, const char **runs, int count, int2 *into,
                                       Py_ssize_t cells) noexcept nogil:
    """The same for half precision."""
    cdef const int2 *first = <const int2 *> runs[0]
    cdef const int2 *second
    cdef const int2 *third
    cdef int i
    if count == 1:
        memcpy(into, first, cells * sizeof(int2))
    for i in range(1, count, 2):
        second = <const int2 *> runs[i]
        third = <const int2 *> runs[i + 1] if count - i > 1 else second
        if count - i == 1:
            best_half_2(is_minimum, into, first, second, cells)
        else:
            best_half_3(is_minimum, into, first, second, third, cells)
        first = into


cdef inline void_wide highest_of_halves(const char **runs, int count, int2 *into,
                                        Py_ssize_t cells) noexcept nogil:
    best_of_halves(False, runs, count, into, cells)


cdef inline void_wide lowest_of_halves(const char **runs, int count, int2 *into, Py_ssize_t cells) noexcept nogil:
    best_of_halves(True, runs, count, into, cells)


cdef inline void fill_highest(number *into, Py_ssize_t count) noexcept nogil:
    """Elements of the padding of minima."""
    cdef Py_ssize_t i
    for i in range(count):
        into[i] = flipped(lowest(into), flip_of(into))


cdef inline void_wide look_for_odd(const number *row, Py_ssize_t count, bint *odd) noexcept nogil:
    """Whether there is a NaN or a negative zero."""
    # As unsigned integers NaN of the first sign and negative zero follow each other, and those of the other come last.
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
        numbers.highest_of = <Highest> lowest_of_halves if is_minimum else <Highest> highest_of_halves
    else:
        numbers.highest_of = <Highest> lowest_of[number] if is_minimum else <Highest> highest_of[number]
    if number is half or number is bhalf or number is float4 or number is float8:
        numbers.look_for_odd = <LookForOdd> look_for_odd[number]
    return numbers


cdef inline void_wide copy_rows(char *into, Py_ssize_t into_step, const char *rows, Py_ssize_t step,
                                Py_ssize_t count, Py_ssize_t size) noexcept nogil:
    """Copy some rows, as one where all follow each other."""
    cdef Py_ssize_t row
    if into_step == size and step == size:
        cunpool_copy(into, rows, count * size)
        return
    for row in range(count):
        cunpool_copy(into + row * into_step, rows + row * step, size)
