#ifndef CUNPOOL_POOLING_COMPARE_FLOATS_H
#define CUNPOOL_POOLING_COMPARE_FLOATS_H

#include <stdint.h>

enum { CUNPOOL_FLOAT_TAPS = 32 }; /* elements of the largest window */

/* Elements of a vector of the instruction set that this file is compiled for. 0 where loops are left to the compiler: on
   Windows GCC does not align the stack for such vectors. */
#if defined(__GNUC__) && defined(__AVX2__) && !defined(_WIN32) && !defined(__CYGWIN__)
#include <immintrin.h>
#if defined(__AVX512F__) && defined(__AVX512VL__)
#define CUNPOOL_LANES 16
#else
#define CUNPOOL_LANES 8
#endif
#else
#define CUNPOOL_LANES 0
#endif

#if CUNPOOL_LANES
#define AVX512_V __m512
#define AVX512_OFFSETS __m512i
#define AVX512_MASK __mmask16
#define AVX512_ZERO() _mm512_setzero_ps()
#define AVX512_LOAD(from) _mm512_loadu_ps(from)
#define AVX512_KEEP(x) __asm__("" : "+v"(x))
#define AVX512_STORE(to, x) _mm512_storeu_ps(to, x)
#define AVX512_STORE_OFFSETS(to, x) _mm512_storeu_si512(to, x)
#define AVX512_ALL(offset) _mm512_set1_epi32(offset)
#define AVX512_ADD_OFFSETS(x, y) _mm512_add_epi32(x, y)
#define AVX512_ADD(x, y) _mm512_add_ps(x, y)
#define AVX512_HIGHER(x, y) _mm512_max_ps(x, y)
#define AVX512_LOWER(x, y) _mm512_min_ps(x, y)
#define AVX512_ABOVE(x, y) _mm512_cmp_ps_mask(x, y, _CMP_GT_OQ)
#define AVX512_BELOW(x, y) _mm512_cmp_ps_mask(x, y, _CMP_LT_OQ)
#define AVX512_OFFSETS_IF(mask, x, y) _mm512_mask_mov_epi32(y, mask, x)
#define AVX512_ANY_NAN(x) (_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q) != 0)

#define AVX512_EVEN(x, y) _mm512_permutex2var_ps(x, _mm512_setr_epi32( \
    0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), y)
#define AVX512_ODD(x, y) _mm512_permutex2var_ps(x, _mm512_setr_epi32( \
    1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31), y)

#define AVX2_V __m256
#define AVX2_OFFSETS __m256i
#define AVX2_MASK __m256
#define AVX2_ZERO() _mm256_setzero_ps()
#define AVX2_LOAD(from) _mm256_loadu_ps(from)
#define AVX2_KEEP(x) __asm__("" : "+x"(x))
#define AVX2_STORE(to, x) _mm256_storeu_ps(to, x)
#define AVX2_STORE_OFFSETS(to, x) _mm256_storeu_si256((__m256i *) (to), x)
#define AVX2_ALL(offset) _mm256_set1_epi32(offset)
#define AVX2_ADD_OFFSETS(x, y) _mm256_add_epi32(x, y)
#define AVX2_ADD(x, y) _mm256_add_ps(x, y)
#define AVX2_HIGHER(x, y) _mm256_max_ps(x, y)
#define AVX2_LOWER(x, y) _mm256_min_ps(x, y)
#define AVX2_ABOVE(x, y) _mm256_cmp_ps(x, y, _CMP_GT_OQ)
#define AVX2_BELOW(x, y) _mm256_cmp_ps(x, y, _CMP_LT_OQ)
#define AVX2_OFFSETS_IF(mask, x, y) _mm256_blendv_epi8(y, x, _mm256_castps_si256(mask))
#define AVX2_ANY_NAN(x) (_mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)) != 0)
#define AVX2_IN_ORDER(x) _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), 0xD8))
#define AVX2_EVEN(x, y) AVX2_IN_ORDER(_mm256_shuffle_ps(x, y, 0x88))
#define AVX2_ODD(x, y) AVX2_IN_ORDER(_mm256_shuffle_ps(x, y, 0xDD))

/* float64, with AVX-512 alone: AVX2 was not tried. Offsets take half a vector. */
#define AVX512_DOUBLES_V __m512d
#define AVX512_DOUBLES_OFFSETS __m256i
#define AVX512_DOUBLES_MASK __mmask8
#define AVX512_DOUBLES_ZERO() _mm512_setzero_pd()
#define AVX512_DOUBLES_LOAD(from) _mm512_loadu_pd(from)
#define AVX512_DOUBLES_KEEP(x) __asm__("" : "+v"(x))
#define AVX512_DOUBLES_STORE(to, x) _mm512_storeu_pd(to, x)
#define AVX512_DOUBLES_STORE_OFFSETS(to, x) _mm256_storeu_si256((__m256i *) (to), x)
#define AVX512_DOUBLES_ALL(offset) _mm256_set1_epi32(offset)
#define AVX512_DOUBLES_ADD(x, y) _mm512_add_pd(x, y)
#define AVX512_DOUBLES_HIGHER(x, y) _mm512_max_pd(x, y)
#define AVX512_DOUBLES_LOWER(x, y) _mm512_min_pd(x, y)
#define AVX512_DOUBLES_ABOVE(x, y) _mm512_cmp_pd_mask(x, y, _CMP_GT_OQ)
#define AVX512_DOUBLES_BELOW(x, y) _mm512_cmp_pd_mask(x, y, _CMP_LT_OQ)
#define AVX512_DOUBLES_OFFSETS_IF(mask, x, y) _mm256_mask_mov_epi32(y, mask, x)
#define AVX512_DOUBLES_ANY_NAN(x) (_mm512_cmp_pd_mask(x, x, _CMP_UNORD_Q) != 0)
#define AVX512_DOUBLES_EVEN(x, y) _mm512_permutex2var_pd(x, _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), y)
#define AVX512_DOUBLES_ODD(x, y) _mm512_permutex2var_pd(x, _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15), y)

/* Compare one more tap, by the names of the loops below. `is_minimum` is a constant of each loop: then `highest` is the
   lowest. */
#define CUNPOOL_COMPARE_ONE(V, x, offset) do { \
        if (with_offsets) { \
            above = is_minimum ? V##_BELOW(x, highest) : V##_ABOVE(x, highest); \
            there = V##_OFFSETS_IF(above, offset, there); \
        } \
        highest = is_minimum ? V##_LOWER(x, highest) : V##_HIGHER(x, highest); \
    } while (0)

#define CUNPOOL_COMPARED elements, offsets, windows, next, next_offset, pitch, lines, best, offset
/* The highest of some taps in each of `lines` windows, and its offset if `offset` is not NULL; then the same of the
   windows `next` bytes ahead. The first of equals stays. Returns whether there may have been a NaN: all elements but
   those of the first tap are summed, in four independent sums, and a sum with a NaN is NaN. To compare each element with
   itself takes longer. A NaN in the first tap stays the highest, which is added, too. Elements are kept in registers by
   KEEP: else compilers read them again for each use, which takes up to 1.7 times as long. (speed) */
#define CUNPOOL_COMPARE(name, V, LANES) \
    __attribute__((always_inline)) static inline int name##_of( \
            int tap_count, int with_offsets, const char *const *elements, const int32_t *offsets, Py_ssize_t windows, \
            Py_ssize_t next, Py_ssize_t next_offset, Py_ssize_t pitch, Py_ssize_t lines, float *best, \
            int32_t *offset, int is_minimum) { \
        V##_V highest, x, sum[4] = {V##_ZERO(), V##_ZERO(), V##_ZERO(), V##_ZERO()}; \
        V##_OFFSETS there, begin, at[CUNPOOL_FLOAT_TAPS]; \
        V##_MASK above; \
        const char *element[CUNPOOL_FLOAT_TAPS]; /* a copy that results cannot change */ \
        Py_ssize_t window, i, ahead; \
        int tap; \
        for (tap = 0; tap < tap_count; tap++) { \
            element[tap] = elements[tap]; \
            at[tap] = V##_ALL(offsets[tap]); \
        } \
        for (window = 0; window < windows; window++) { \
            begin = V##_ALL((int32_t) (window * next_offset)); \
            for (i = 0; i < lines; i += LANES) { \
                ahead = window * next + i * (Py_ssize_t) sizeof(float); \
                highest = V##_LOAD((const float *) (element[0] + ahead)); \
                V##_KEEP(highest); \
                there = at[0]; \
                _Pragma("GCC unroll 8") \
                for (tap = 1; tap < tap_count; tap++) { \
                    x = V##_LOAD((const float *) (element[tap] + ahead)); \
                    V##_KEEP(x); \
                    sum[tap % 4] = V##_ADD(sum[tap % 4], x); \
                    CUNPOOL_COMPARE_ONE(V, x, at[tap]); \
                } \
                sum[0] = V##_ADD(sum[0], highest); \
                V##_STORE(best + window * pitch + i, highest); \
                if (with_offsets) \
                    V##_STORE_OFFSETS(offset + window * pitch + i, V##_ADD_OFFSETS(there, begin)); \
            } \
        } \
        return V##_ANY_NAN(V##_ADD(V##_ADD(sum[0], sum[1]), V##_ADD(sum[2], sum[3]))); \
    } \
    /* With the number of taps as a constant: 1.4x faster for 4, across 64 channels of 56 x 56. (speed) */ \
    __attribute__((always_inline)) static inline int name##_some( \
            int tap_count, int with_offsets, const char *const *elements, const int32_t *offsets, Py_ssize_t windows, \
            Py_ssize_t next, Py_ssize_t next_offset, Py_ssize_t pitch, Py_ssize_t lines, float *best, \
            int32_t *offset, int is_minimum) { \
        if (tap_count == 4) \
            return name##_of(4, with_offsets, CUNPOOL_COMPARED, is_minimum); \
        if (tap_count == 9) \
            return name##_of(9, with_offsets, CUNPOOL_COMPARED, is_minimum); \
        return name##_of(tap_count, with_offsets, CUNPOOL_COMPARED, is_minimum); \
    } \
    static int name(int tap_count, const char *const *elements, const int32_t *offsets, \
            Py_ssize_t windows, Py_ssize_t next, Py_ssize_t next_offset, Py_ssize_t pitch, Py_ssize_t lines, \
            float *best, int32_t *offset, int is_minimum) { \
        if (is_minimum) \
            return offset ? name##_some(tap_count, 1, CUNPOOL_COMPARED, 1) : name##_some(tap_count, 0, CUNPOOL_COMPARED, 1); \
        return offset ? name##_some(tap_count, 1, CUNPOOL_COMPARED, 0) : name##_some(tap_count, 0, CUNPOOL_COMPARED, 0); \
    }
#if CUNPOOL_LANES == 16
CUNPOOL_COMPARE(cunpool_compare, AVX512, 16)
#else
CUNPOOL_COMPARE(cunpool_compare, AVX2, 8)
#endif

/* The same for windows of 2 side by side, in 1, 2 or 4 rows, and for some such lines, `step` bytes apart. In whole
   vectors: the last one repeats some windows. */
static inline Py_ssize_t cunpool_next(Py_ssize_t i, Py_ssize_t lanes, Py_ssize_t count) {
    return i + lanes == count || i + 2 * lanes <= count ? i + lanes : count - lanes;
}
#define CUNPOOL_COMPARE_PAIRS_OF(name, V, LANES, number) \
    __attribute__((always_inline)) static inline int name##_of( \
            int rows, int with_offsets, const char *const *row, Py_ssize_t step, const int32_t *offsets, \
            Py_ssize_t lines, Py_ssize_t pitch, Py_ssize_t count, number *best, int32_t *offset, int is_minimum) { \
        V##_V highest, even, odd, x, y, sum[2] = {V##_ZERO(), V##_ZERO()}; \
        V##_OFFSETS there, at[8]; \
        V##_MASK above; \
        const char *elements[4]; \
        Py_ssize_t line, i; \
        int k; \
        for (k = 0; k < rows; k++) { \
            elements[k] = row[k]; \
            at[2 * k] = V##_ALL(offsets[k]); \
            at[2 * k + 1] = V##_ALL(offsets[k] + 1); \
        } \
        for (line = 0; line < lines; line++) { \
            for (i = 0; i < count; i = cunpool_next(i, LANES, count)) { \
                for (k = 0; k < rows; k++) { \
                    x = V##_LOAD((const number *) elements[k] + 2 * i); \
                    y = V##_LOAD((const number *) elements[k] + 2 * i + LANES); \
                    V##_KEEP(x); \
                    V##_KEEP(y); \
                    sum[0] = V##_ADD(sum[0], x); \
                    sum[1] = V##_ADD(sum[1], y); \
                    even = V##_EVEN(x, y); \
                    odd = V##_ODD(x, y); \
                    if (k) \
                        CUNPOOL_COMPARE_ONE(V, even, at[2 * k]); \
                    else { \
                        highest = even; \
                        there = at[0]; \
                    } \
                    CUNPOOL_COMPARE_ONE(V, odd, at[2 * k + 1]); \
                } \
                V##_STORE(best + i, highest); \
                if (with_offsets) \
                    V##_STORE_OFFSETS(offset + i, there); \
            } \
            for (k = 0; k < rows; k++) \
                elements[k] += step; \
            best += pitch; \
            offset += pitch; \
        } \
        return V##_ANY_NAN(V##_ADD(sum[0], sum[1])); \
    }
#define CUNPOOL_PAIRED row, step, offsets, lines, pitch, count, best, offset
#define CUNPOOL_COMPARE_PAIRS(name, V, LANES) \
    CUNPOOL_COMPARE_PAIRS_OF(name, V, LANES, float) \
    __attribute__((always_inline)) static inline int name##_some( \
            int rows, int with_offsets, const char *const *row, Py_ssize_t step, const int32_t *offsets, \
            Py_ssize_t lines, Py_ssize_t pitch, Py_ssize_t count, float *best, int32_t *offset, int is_minimum) { \
        if (rows == 1) \
            return name##_of(1, with_offsets, CUNPOOL_PAIRED, is_minimum); \
        if (rows == 2) \
            return name##_of(2, with_offsets, CUNPOOL_PAIRED, is_minimum); \
        return name##_of(4, with_offsets, CUNPOOL_PAIRED, is_minimum); \
    } \
    static int name(int rows, int with_offsets, const char *const *row, Py_ssize_t step, \
            const int32_t *offsets, Py_ssize_t lines, Py_ssize_t pitch, Py_ssize_t count, float *best, \
            int32_t *offset, int is_minimum) { \
        if (is_minimum) \
            return with_offsets ? name##_some(rows, 1, CUNPOOL_PAIRED, 1) : name##_some(rows, 0, CUNPOOL_PAIRED, 1); \
        return with_offsets ? name##_some(rows, 1, CUNPOOL_PAIRED, 0) : name##_some(rows, 0, CUNPOOL_PAIRED, 0); \
    }
/* float64: in two rows alone. (size) */
#if CUNPOOL_LANES == 16
CUNPOOL_COMPARE_PAIRS(cunpool_compare_window2, AVX512, 16)
CUNPOOL_COMPARE_PAIRS_OF(cunpool_compare_doubles, AVX512_DOUBLES, 8, double)
static int cunpool_compare_window2_of_doubles(
        int with_offsets, const char *const *row, Py_ssize_t step, const int32_t *offsets, Py_ssize_t lines,
        Py_ssize_t pitch, Py_ssize_t count, double *best, int32_t *offset, int is_minimum) {
    if (is_minimum)
        return with_offsets ? cunpool_compare_doubles_of(2, 1, CUNPOOL_PAIRED, 1)
               : cunpool_compare_doubles_of(2, 0, CUNPOOL_PAIRED, 1);
    return with_offsets ? cunpool_compare_doubles_of(2, 1, CUNPOOL_PAIRED, 0)
           : cunpool_compare_doubles_of(2, 0, CUNPOOL_PAIRED, 0);
}
#else
CUNPOOL_COMPARE_PAIRS(cunpool_compare_window2, AVX2, 8)
#endif

/* 1 if there was no NaN, -1 if there may have been one, 0 if the call is not served. */
static inline int cunpool_compare_floats(int tap_count, const char *const *elements, const int32_t *offsets,
                                         Py_ssize_t windows,
                               Py_ssize_t next, Py_ssize_t next_offset, Py_ssize_t pitch, Py_ssize_t lines,
                               float *best, int32_t *offset, int is_minimum) {
    if (lines % 16 != 0)
        return 0;
    return cunpool_compare(tap_count, elements, offsets, windows, next, next_offset, pitch, lines, best, offset,
                           is_minimum) ? -1 : 1;
}
static inline int cunpool_compare_float_pairs(int size, int rows, int with_offsets, const char *const *row,
                                              Py_ssize_t step,
                                    const int32_t *offsets, Py_ssize_t lines, Py_ssize_t pitch, Py_ssize_t count,
                                    void *best, int32_t *offset, int is_minimum) {
    if (size != sizeof(float) && (rows != 2 || CUNPOOL_LANES != 16))
        return 0;
#if CUNPOOL_LANES == 16
    if (size != sizeof(float))
        return cunpool_compare_window2_of_doubles(with_offsets, row, step, offsets, lines, pitch, count, best, offset,
                                                  is_minimum) ? -1 : 1;
#endif
    return cunpool_compare_window2(rows, with_offsets, row, step, offsets, lines, pitch, count, best, offset,
                                   is_minimum) ? -1 : 1;
}
#else
#define cunpool_compare_floats(tap_count, elements, offsets, windows, next, next_offset, pitch, lines, best, offset, \
                               is_minimum) 0
#define cunpool_compare_float_pairs(size, rows, with_offsets, row, step, offsets, lines, pitch, count, best, offset, \
                                    is_minimum) 0
#endif

#endif
