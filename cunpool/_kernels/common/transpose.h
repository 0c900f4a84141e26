#pragma once

/* Matrices transposed in registers, a square of some elements at a time. */
#include <stddef.h>
#include <string.h>

#include "_kernels/common/types.h"

#if defined(__GNUC__)
/* Vectors of 16 bytes; and the elements of two of them alternately, of the lower halves and of the upper halves. */
typedef uint8_t cunpool_bytes1 __attribute__((vector_size(16)));
typedef uint16_t cunpool_bytes2 __attribute__((vector_size(16)));
typedef uint32_t cunpool_bytes4 __attribute__((vector_size(16)));
typedef uint64_t cunpool_bytes8 __attribute__((vector_size(16)));
#define CUNPOOL_LOW1(a, b) CUNPOOL_SHUFFLE(cunpool_bytes1, a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define CUNPOOL_HIGH1(a, b) \
    CUNPOOL_SHUFFLE(cunpool_bytes1, a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define CUNPOOL_LOW2(a, b) CUNPOOL_SHUFFLE(cunpool_bytes2, a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define CUNPOOL_HIGH2(a, b) CUNPOOL_SHUFFLE(cunpool_bytes2, a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define CUNPOOL_LOW4(a, b) CUNPOOL_SHUFFLE(cunpool_bytes4, a, b, 0, 4, 1, 5)
#define CUNPOOL_HIGH4(a, b) CUNPOOL_SHUFFLE(cunpool_bytes4, a, b, 2, 6, 3, 7)
#define CUNPOOL_LOW8(a, b) CUNPOOL_SHUFFLE(cunpool_bytes8, a, b, 0, 2)
#define CUNPOOL_HIGH8(a, b) CUNPOOL_SHUFFLE(cunpool_bytes8, a, b, 1, 3)

/* cunpool_square: transpose a square of `side` x `side` elements of `size` bytes, in `count` vectors of one row each, or
   of two. Each pass puts the elements of both halves alternately. After log2(side) passes rows are columns.

   cunpool_transpose: copy a matrix whose rows are contiguous in `from`, and whose columns are contiguous in `to`. It has
   a square's rows and columns at least: the last squares repeat some elements. */
#define CUNPOOL_TRANSPOSE(size, side, count, passes) \
    static CUNPOOL_INLINE void cunpool_square##size(char *to, ptrdiff_t to_pitch, const char *from, \
                                                    ptrdiff_t from_pitch) { \
        cunpool_bytes##size x[count], y[count]; \
        const size_t row = side * size; \
        int i, pass; \
        for (i = 0; i < side; i++) \
            memcpy((char *) x + i * row, from + i * from_pitch, row); \
        _Pragma("GCC unroll 4") for (pass = 0; pass < passes; pass++) { \
            _Pragma("GCC unroll 8") for (i = 0; i < count / 2; i++) { \
                y[2 * i] = CUNPOOL_LOW##size(x[i], x[count / 2 + i]); \
                y[2 * i + 1] = CUNPOOL_HIGH##size(x[i], x[count / 2 + i]); \
            } \
            _Pragma("GCC unroll 8") for (i = 0; i < count; i++) \
                x[i] = y[i]; \
        } \
        for (i = 0; i < side; i++) \
            memcpy(to + i * to_pitch, (const char *) x + i * row, row); \
    } \
    static CUNPOOL_NOINLINE void cunpool_transpose##size(char *to, ptrdiff_t to_pitch, const char *from, \
                                                         ptrdiff_t from_pitch, ptrdiff_t rows, ptrdiff_t columns) { \
        const ptrdiff_t last_row = rows - side, last_column = columns - side; \
        ptrdiff_t y, x, row, column; \
        for (y = 0; y < rows; y += side) \
            for (x = 0; x < columns; x += side) { \
                row = y < last_row ? y : last_row; \
                column = x < last_column ? x : last_column; \
                cunpool_square##size(to + column * to_pitch + row * size, to_pitch, \
                                     from + row * from_pitch + column * size, from_pitch); \
            } \
    }
CUNPOOL_TRANSPOSE(1, 8, 4, 3)
CUNPOOL_TRANSPOSE(2, 8, 8, 3)
CUNPOOL_TRANSPOSE(4, 4, 4, 2)
CUNPOOL_TRANSPOSE(8, 2, 2, 1)

/* Whether a matrix of elements of `size` bytes was transposed: it is not if it has less than a square. */
static inline int cunpool_transpose(ptrdiff_t size, char *to, ptrdiff_t to_pitch, const char *from,
                                    ptrdiff_t from_pitch, ptrdiff_t rows, ptrdiff_t columns) {
    const ptrdiff_t side = size == 1 ? 8 : 16 / size;
    if (size > 8 || rows < side || columns < side)
        return 0;
    (size == 1 ? cunpool_transpose1 : size == 2 ? cunpool_transpose2 : size == 4 ? cunpool_transpose4
     : cunpool_transpose8)(to, to_pitch, from, from_pitch, rows, columns);
    return 1;
}
#else
#define cunpool_transpose(size, to, to_pitch, from, from_pitch, rows, columns) 0
#endif
