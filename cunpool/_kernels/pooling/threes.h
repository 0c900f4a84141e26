#ifndef CUNPOOL_POOLING_THREES_H
#define CUNPOOL_POOLING_THREES_H

#include <stdint.h>

#include "_kernels/common/types.h"
#include "_kernels/pooling/floats.h"

enum { CUNPOOL_ROWS = 3 }; /* of a window; of fewer the last one is looked at again, which changes nothing */

#if CUNPOOL_LANES
#include <math.h>

/* The numbers from one on, of two vectors that follow each other; and vectors of the one or two numbers here. */
#define AVX512_FROM(k, x, y) _mm512_castsi512_ps( \
    _mm512_alignr_epi32(_mm512_castps_si512(y), _mm512_castps_si512(x), k))
#define AVX512_ONE(from) _mm512_set1_ps(*(const float4 *) (from))
#define AVX512_TWO(from) _mm512_castsi512_ps(_mm512_broadcastq_epi64(_mm_loadl_epi64((const __m128i *) (from))))

/* Which numbers of a vector are chosen: from number `first` on, to before number `last`, of which either may lie
   outside. Where `some` are loaded, if not all, others become zero; and then the lowest number there is. */
#define AVX512_CHOSEN __mmask16
#define AVX512_COUNTED _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define AVX512_CHOOSE(first, last) _mm512_mask_cmplt_epi32_mask( \
    _mm512_cmpge_epi32_mask(AVX512_COUNTED, _mm512_set1_epi32((int) (first))), \
    AVX512_COUNTED, _mm512_set1_epi32((int) (last)))
#define AVX512_LOAD_SOME(some, k, from) ((some) ? _mm512_maskz_loadu_ps((some)[k], from) : _mm512_loadu_ps(from))
#define AVX512_OR_LOWEST(some, k, x) ((some) ? _mm512_mask_mov_ps(_mm512_set1_ps(-INFINITY), (some)[k], x) : (x))
#define AVX512_STORE_SOME(to, count, x) _mm512_mask_storeu_ps(to, AVX512_CHOOSE(0, count), x)

#define AVX2_FROM(k, x, y) _mm256_castsi256_ps(_mm256_alignr_epi8( \
    _mm256_castps_si256(_mm256_permute2f128_ps(x, y, 0x21)), _mm256_castps_si256(x), 4 * (k)))
#define AVX2_ONE(from) _mm256_set1_ps(*(const float4 *) (from))
#define AVX2_TWO(from) _mm256_castsi256_ps(_mm256_broadcastq_epi64(_mm_loadl_epi64((const __m128i *) (from))))
#define AVX2_CHOSEN __m256i
#define AVX2_COUNTED _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)
#define AVX2_CHOOSE(first, last) _mm256_andnot_si256( \
    _mm256_cmpgt_epi32(_mm256_set1_epi32((int) (first)), AVX2_COUNTED), \
    _mm256_cmpgt_epi32(_mm256_set1_epi32((int) (last)), AVX2_COUNTED))
#define AVX2_LOAD_SOME(some, k, from) ((some) ? _mm256_maskload_ps(from, (some)[k]) : _mm256_loadu_ps(from))
#define AVX2_OR_LOWEST(some, k, x) ((some) ? _mm256_blendv_ps( \
    _mm256_set1_ps(-INFINITY), x, _mm256_castsi256_ps((some)[k])) : (x))
#define AVX2_STORE_SOME(to, count, x) _mm256_maskstore_ps(to, AVX2_CHOOSE(0, count), x)

/* The highest of a vector of windows that begin 1 or 2 cells apart, the first one `at` a cell of its first row; the
   other rows are so far from there. All cells are added up, or else `some`, where windows reach over an edge, and
   others count as the lowest number. */
#define CUNPOOL_HOLD_THREES_AT(name, V, LANES) \
    __attribute__((always_inline)) static inline V##_V name##_at( \
            int stride, const char *at, const Py_ssize_t *row, const V##_CHOSEN *some, V##_V bits, V##_V *sum) { \
        V##_V highest = V##_ZERO(), x, y, z, even; \
        const float *cells; \
        int k; \
        for (k = 0; k < CUNPOOL_ROWS; k++) { \
            cells = (const float *) (at + row[k]); \
            x = V##_LOAD_SOME(some, 0, cells); \
            sum[0] = V##_ADD(sum[0], x); \
            x = V##_OR_LOWEST(some, 0, V##_FLIP(x, bits)); \
            if (stride == 1) { \
                y = some ? V##_LOAD_SOME(some, 1, cells + LANES) : V##_TWO(cells + LANES); \
                if (some) /* else the next vector has them, too */ \
                    sum[1] = V##_ADD(sum[1], y); \
                y = V##_OR_LOWEST(some, 1, V##_FLIP(y, bits)); \
                highest = k ? V##_HIGHER(x, highest) : x; \
                highest = V##_HIGHER(V##_FROM(1, x, y), highest); \
                highest = V##_HIGHER(V##_FROM(2, x, y), highest); \
            } else { \
                y = V##_LOAD_SOME(some, 1, cells + LANES); \
                sum[1] = V##_ADD(sum[1], y); \
                y = V##_OR_LOWEST(some, 1, V##_FLIP(y, bits)); \
                z = some ? V##_LOAD_SOME(some, 2, cells + 2 * LANES) : V##_ONE(cells + 2 * LANES); \
                if (some) \
                    sum[2] = V##_ADD(sum[2], z); \
                z = V##_OR_LOWEST(some, 2, V##_FLIP(z, bits)); \
                even = V##_EVEN(x, y); \
                highest = k ? V##_HIGHER(even, highest) : even; \
                highest = V##_HIGHER(V##_ODD(x, y), highest); \
                highest = V##_HIGHER(V##_FROM(1, even, z), highest); \
            } \
        } \
        return V##_FLIP(highest, bits); \
    }

/* The same of all windows of some lines, whose rows are `step` bytes apart and have so many `cells`. The first
   window begins as many `before` these, and neither the second nor the last but one reaches over an edge. In whole
   vectors, of which the last does some windows again. What is so far `ahead` is fetched: of the last row, or
   where windows are 2 cells apart, and most often rows too, of two in the order of the memory. */
#define CUNPOOL_THREES_GIVEN \
    const char *const *row, Py_ssize_t step, Py_ssize_t ahead, Py_ssize_t lines, Py_ssize_t cells, \
    Py_ssize_t before, Py_ssize_t windows, char *best, Py_ssize_t pitch, uint64_t flip
#define CUNPOOL_THREES row, step, ahead, lines, cells, before, windows, best, pitch, flip
#define CUNPOOL_HOLD_THREES(name, V, LANES) \
    CUNPOOL_HOLD_THREES_AT(name, V, LANES) \
    __attribute__((always_inline)) static inline int name##_of(int stride, CUNPOOL_THREES_GIVEN) { \
        V##_V highest, sum[3] = {V##_ZERO(), V##_ZERO(), V##_ZERO()}; \
        const V##_V bits = V##_BITS(flip); \
        V##_CHOSEN begin[3], end[3]; \
        /* One pointer: of three compilers make a vector, and take it apart again, for a fifth of the time. */ \
        const char *line = row[0] - before * (Py_ssize_t) sizeof(float), *at, *fetched; \
        const Py_ssize_t rows[CUNPOOL_ROWS] = {0, row[1] - row[0], row[2] - row[0]}; \
        Py_ssize_t i, end_from = (windows - LANES) * stride - before; /* a cell, of a row */ \
        int k; \
        for (k = 0; k < 3; k++) { \
            begin[k] = V##_CHOOSE(before - k * LANES, cells + before - k * LANES); \
            end[k] = V##_CHOOSE(-end_from - k * LANES, cells - end_from - k * LANES); \
        } \
        for (; lines > 0; lines--) { \
            for (i = 0; i < windows; i = windows < LANES ? windows : cunpool_next(i, LANES, windows)) { \
                at = line + i * stride * (Py_ssize_t) sizeof(float); \
                if (stride == 1 && ahead) \
                    __builtin_prefetch(line + rows[2] + ahead + i * (Py_ssize_t) sizeof(float)); \
                if (stride == 2 && ahead) { /* two rows, which follow each other: four cells of a window */ \
                    fetched = line + rows[1] + ahead + 4 * i * (Py_ssize_t) sizeof(float); \
                    __builtin_prefetch(fetched); \
                    __builtin_prefetch(fetched + 64); \
                    if (LANES == 16) { \
                        __builtin_prefetch(fetched + 128); \
                        __builtin_prefetch(fetched + 192); \
                    } \
                } \
                if (i == 0) \
                    highest = name##_at(stride, at, rows, begin, bits, sum); \
                else if (i == windows - LANES) \
                    highest = name##_at(stride, at, rows, end, bits, sum); \
                else \
                    highest = name##_at(stride, at, rows, NULL, bits, sum); \
                if (windows < LANES) \
                    V##_STORE_SOME((float *) best, windows, highest); \
                else \
                    V##_STORE((float *) best + i, highest); \
            } \
            line += step; \
            best += pitch; \
        } \
        return V##_ANY_NAN(V##_ADD(V##_ADD(sum[0], sum[1]), sum[2])); \
    } \
    /* Twice, for it takes 1.2 times as long to ask for each vector whether to fetch. */ \
    __attribute__((noinline)) static int name##_by_1(CUNPOOL_THREES_GIVEN) { \
        if (ahead) \
            return name##_of(1, CUNPOOL_THREES); \
        return name##_of(1, row, step, 0, lines, cells, before, windows, best, pitch, flip); \
    } \
    __attribute__((noinline)) static int name##_by_2(CUNPOOL_THREES_GIVEN) { \
        return name##_of(2, CUNPOOL_THREES); \
    }
#if CUNPOOL_LANES == 16
CUNPOOL_HOLD_THREES(cunpool_hold_threes, AVX512, 16)
#else
CUNPOOL_HOLD_THREES(cunpool_hold_threes, AVX2, 8)
#endif

/* As `cunpool_held`. */
static inline int cunpool_held_threes(int stride, CUNPOOL_THREES_GIVEN) {
    return (stride == 1 ? cunpool_hold_threes_by_1 : cunpool_hold_threes_by_2)(CUNPOOL_THREES) ? -1 : 1;
}
#else
#define cunpool_held_threes(stride, row, step, ahead, lines, cells, before, windows, best, pitch, flip) 0
#endif

#endif
