#ifndef CUNPOOL_POOLING_WINDOW2_FLOATS_H
#define CUNPOOL_POOLING_WINDOW2_FLOATS_H

/* Windows of 2 side by side, of float32, and with AVX-512 of float64, in whole vectors. NaN is noted, not compared. */
#include <stddef.h>
#include <stdint.h>

#include "_kernels/pooling/simd.h"

#if CUNPOOL_HAS_VECTORS
/* Compare the best so far with something later in raster order. */
#define WINDOW2_KEEP(T) \
    static CUNPOOL_INLINE void window2_keep_##T(int with_offsets, int is_minimum, vector_##T *best, codes_##T *there, \
                                                vector_##T later, codes_##T here) { \
        if (with_offsets) \
            *there = select_codes_##T(is_minimum ? greater_##T(*best, later) : greater_##T(later, *best), \
                                      *there, here); \
        *best = is_minimum ? min_##T(later, *best) : max_##T(*best, later); \
    }

/* The highest of each window in 1, 2 or 4 rows, and its offset; then the same of the next lines, `step` bytes apart.
   Returns whether there may have been a NaN: then the results are worth nothing. */
#define WINDOW2_PAIRS_OF(T, size) \
    static CUNPOOL_INLINE int window2_pairs_##T( \
            int rows, int with_offsets, int is_minimum, const char *const *row, ptrdiff_t step, \
            const int32_t *offsets, ptrdiff_t lines, ptrdiff_t pitch, ptrdiff_t count, char *best, int32_t *offset) { \
        vector_##T highest, first, second, x, y; \
        codes_##T there, at[8]; \
        odd_##T odd = nothing_odd_##T(); \
        const char *elements[4]; \
        ptrdiff_t line, i; \
        int k; \
        for (k = 0; k < rows; k++) { \
            elements[k] = row[k]; \
            at[2 * k] = broadcast_codes_##T(offsets[k]); \
            at[2 * k + 1] = broadcast_codes_##T(offsets[k] + 1); \
        } \
        for (line = 0; line < lines; line++) { \
            for (i = 0; i < count; i = simd_next(i, LANES_##T, count)) { \
                SIMD_UNROLL for (k = 0; k < rows; k++) { \
                    x = load_##T(elements[k] + 2 * i * size); \
                    y = load_##T(elements[k] + (2 * i + LANES_##T) * size); \
                    SIMD_KEEP(x); \
                    SIMD_KEEP(y); \
                    odd = note_pair_##T(odd, x, y); \
                    first = even_##T(x, y); \
                    second = odd_of_##T(x, y); \
                    if (k) \
                        window2_keep_##T(with_offsets, is_minimum, &highest, &there, first, at[2 * k]); \
                    else { \
                        highest = first; \
                        there = at[0]; \
                    } \
                    window2_keep_##T(with_offsets, is_minimum, &highest, &there, second, at[2 * k + 1]); \
                } \
                store_##T(best + i * size, in_order_##T(highest)); \
                if (with_offsets) \
                    store_indices4_##T((char *) (offset + i), in_order_codes_##T(there)); \
            } \
            for (k = 0; k < rows; k++) \
                elements[k] += step; \
            best += pitch * size; \
            offset += pitch; \
        } \
        return is_odd_##T(odd, 0); \
    }
WINDOW2_KEEP(float4)
WINDOW2_PAIRS_OF(float4, (ptrdiff_t) sizeof(float))

#define WINDOW2_GIVEN row, step, offsets, lines, pitch, count, best, offset
#define WINDOW2_INSTANCE(T, rows, with_offsets, is_minimum) \
    window2_pairs_##T(rows, with_offsets, is_minimum, WINDOW2_GIVEN)
#define WINDOW2_INSTANCES(T, rows) \
    (is_minimum ? with_offsets ? WINDOW2_INSTANCE(T, rows, 1, 1) : WINDOW2_INSTANCE(T, rows, 0, 1) \
     : with_offsets ? WINDOW2_INSTANCE(T, rows, 1, 0) : WINDOW2_INSTANCE(T, rows, 0, 0))
static CUNPOOL_NOINLINE int window2_float4(int rows, int with_offsets, int is_minimum, const char *const *row,
                                           ptrdiff_t step, const int32_t *offsets, ptrdiff_t lines, ptrdiff_t pitch,
                                           ptrdiff_t count, char *best, int32_t *offset) {
    if (rows == 1)
        return WINDOW2_INSTANCES(float4, 1);
    if (rows == 2)
        return WINDOW2_INSTANCES(float4, 2);
    return WINDOW2_INSTANCES(float4, 4);
}

#if defined(SIMD_HAS_FAST_FLOAT8)   /* in two rows alone (size) */
WINDOW2_KEEP(float8)
WINDOW2_PAIRS_OF(float8, (ptrdiff_t) sizeof(double))
static CUNPOOL_NOINLINE int window2_float8(int with_offsets, int is_minimum, const char *const *row, ptrdiff_t step,
                                           const int32_t *offsets, ptrdiff_t lines, ptrdiff_t pitch, ptrdiff_t count,
                                           char *best, int32_t *offset) {
    return WINDOW2_INSTANCES(float8, 2);
}
#else
#define window2_float8(with_offsets, is_minimum, row, step, offsets, lines, pitch, count, best, offset) 1
#endif

/* Whether floats of `size` bytes are served, in windows of so many rows. */
static inline int cunpool_has_window2_floats(int size, int rows) {
#if defined(SIMD_HAS_FAST_FLOAT8)
    if (size == (int) sizeof(double))
        return rows == 2;
#endif
    (void) rows;
    return size == (int) sizeof(float);
}

static inline int cunpool_window2_floats(int size, int rows, int with_offsets, int is_minimum, const char *const *row,
                                         ptrdiff_t step, const int32_t *offsets, ptrdiff_t lines, ptrdiff_t pitch,
                                         ptrdiff_t count, void *best, int32_t *offset) {
    if (size == (int) sizeof(double))
        return window2_float8(with_offsets, is_minimum, row, step, offsets, lines, pitch, count, best, offset);
    return window2_float4(rows, with_offsets, is_minimum, row, step, offsets, lines, pitch, count, best, offset);
}
#else
#define cunpool_has_window2_floats(size, rows) 0
#define cunpool_window2_floats(size, rows, with_offsets, is_minimum, row, step, offsets, lines, pitch, count, best, \
                               offset) 1
#endif

#endif
