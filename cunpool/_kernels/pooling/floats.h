#ifndef CUNPOOL_POOLING_FLOATS_H
#define CUNPOOL_POOLING_FLOATS_H

#include <stdint.h>

enum { CUNPOOL_LOOKS = 32 }; /* as many as windows that are looked at together have cells */

/* Floats of a vector of the instruction set that this file is compiled for; 0 where loops are left to the compiler. GCC
   does not align the stack for such vectors on Windows. */
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
#define AVX512_PLACES __m512i
#define AVX512_MASK __mmask16
#define AVX512_ZERO() _mm512_setzero_ps()
#define AVX512_LOAD(from) _mm512_loadu_ps(from)
#define AVX512_KEEP(x) __asm__("" : "+v"(x))
#define AVX512_STORE(to, x) _mm512_storeu_ps(to, x)
#define AVX512_BITS(bits) _mm512_castsi512_ps(_mm512_set1_epi32((int) (bits)))
#define AVX512_FLIP(x, bits) _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(x), _mm512_castps_si512(bits)))
#define AVX512_STORE_PLACES(to, x) _mm512_storeu_si512(to, x)
#define AVX512_ALL(place) _mm512_set1_epi32(place)
#define AVX512_ADD_PLACES(x, y) _mm512_add_epi32(x, y)
#define AVX512_ADD(x, y) _mm512_add_ps(x, y)
#define AVX512_HIGHER(x, y) _mm512_max_ps(x, y)
#define AVX512_ABOVE(x, y) _mm512_cmp_ps_mask(x, y, _CMP_GT_OQ)
#define AVX512_IF(mask, x, y) _mm512_mask_mov_ps(y, mask, x)
#define AVX512_PLACES_IF(mask, x, y) _mm512_mask_mov_epi32(y, mask, x)
#define AVX512_ANY_NAN(x) (_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q) != 0)

#define AVX512_EVEN(x, y) _mm512_permutex2var_ps(x, _mm512_setr_epi32( \
    0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), y)
#define AVX512_ODD(x, y) _mm512_permutex2var_ps(x, _mm512_setr_epi32( \
    1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31), y)

#define AVX2_V __m256
#define AVX2_PLACES __m256i
#define AVX2_MASK __m256
#define AVX2_ZERO() _mm256_setzero_ps()
#define AVX2_LOAD(from) _mm256_loadu_ps(from)
#define AVX2_KEEP(x) __asm__("" : "+x"(x))
#define AVX2_STORE(to, x) _mm256_storeu_ps(to, x)
#define AVX2_BITS(bits) _mm256_castsi256_ps(_mm256_set1_epi32((int) (bits)))
#define AVX2_FLIP(x, bits) _mm256_xor_ps(x, bits)
#define AVX2_STORE_PLACES(to, x) _mm256_storeu_si256((__m256i *) (to), x)
#define AVX2_ALL(place) _mm256_set1_epi32(place)
#define AVX2_ADD_PLACES(x, y) _mm256_add_epi32(x, y)
#define AVX2_ADD(x, y) _mm256_add_ps(x, y)
#define AVX2_HIGHER(x, y) _mm256_max_ps(x, y)
#define AVX2_ABOVE(x, y) _mm256_cmp_ps(x, y, _CMP_GT_OQ)
#define AVX2_IF(mask, x, y) _mm256_blendv_ps(y, x, mask)
#define AVX2_PLACES_IF(mask, x, y) _mm256_blendv_epi8(y, x, _mm256_castps_si256(mask))
#define AVX2_ANY_NAN(x) (_mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)) != 0)
#define AVX2_IN_ORDER(x) _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), 0xD8))
#define AVX2_EVEN(x, y) AVX2_IN_ORDER(_mm256_shuffle_ps(x, y, 0x88))
#define AVX2_ODD(x, y) AVX2_IN_ORDER(_mm256_shuffle_ps(x, y, 0xDD))

/* Of doubles, in the longest alone: shorter ones have not been tried. Their places take half the length. */
#define AVX512_DOUBLES_V __m512d
#define AVX512_DOUBLES_PLACES __m256i
#define AVX512_DOUBLES_MASK __mmask8
#define AVX512_DOUBLES_ZERO() _mm512_setzero_pd()
#define AVX512_DOUBLES_LOAD(from) _mm512_loadu_pd(from)
#define AVX512_DOUBLES_KEEP(x) __asm__("" : "+v"(x))
#define AVX512_DOUBLES_STORE(to, x) _mm512_storeu_pd(to, x)
#define AVX512_DOUBLES_BITS(bits) _mm512_castsi512_pd(_mm512_set1_epi64((int64_t) (bits)))
#define AVX512_DOUBLES_FLIP(x, bits) \
    _mm512_castsi512_pd(_mm512_xor_si512(_mm512_castpd_si512(x), _mm512_castpd_si512(bits)))
#define AVX512_DOUBLES_STORE_PLACES(to, x) _mm256_storeu_si256((__m256i *) (to), x)
#define AVX512_DOUBLES_ALL(place) _mm256_set1_epi32(place)
#define AVX512_DOUBLES_ADD(x, y) _mm512_add_pd(x, y)
#define AVX512_DOUBLES_HIGHER(x, y) _mm512_max_pd(x, y)
#define AVX512_DOUBLES_ABOVE(x, y) _mm512_cmp_pd_mask(x, y, _CMP_GT_OQ)
#define AVX512_DOUBLES_IF(mask, x, y) _mm512_mask_mov_pd(y, mask, x)
#define AVX512_DOUBLES_PLACES_IF(mask, x, y) _mm256_mask_mov_epi32(y, mask, x)
#define AVX512_DOUBLES_ANY_NAN(x) (_mm512_cmp_pd_mask(x, x, _CMP_UNORD_Q) != 0)
#define AVX512_DOUBLES_EVEN(x, y) _mm512_permutex2var_pd(x, _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), y)
#define AVX512_DOUBLES_ODD(x, y) _mm512_permutex2var_pd(x, _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15), y)

/* One more look: the highest so far, and where it was if that is wanted, in the names that the loops below have. */
#define CUNPOOL_HOLD_ONE(V, x, place) do { \
        if (placed) { \
            above = V##_ABOVE(x, highest); \
            highest = V##_IF(above, x, highest); \
            there = V##_PLACES_IF(above, place, there); \
        } else \
            highest = V##_HIGHER(x, highest); \
    } while (0)

/* The highest of some looks, with some bits inverted for minima, in each of `lines` windows, and its place, if there is room for that; of those `next`
   bytes ahead too. Of equals the first. Returns whether there may have been a NaN: all numbers but the first
   look's, which would stay, are added up, in four sums that need not wait for each other, and a sum stays one. (To
   compare each with itself takes longer.)
   What has been read is kept, or else compilers read it again for each use, which takes up to 1.7 times as long. */
#define CUNPOOL_HOLD(name, V, LANES) \
    __attribute__((always_inline)) static inline int name##_of( \
            int looks, int placed, const char *const *cells, const int32_t *places, Py_ssize_t windows, \
            Py_ssize_t next, Py_ssize_t next_place, Py_ssize_t pitch, Py_ssize_t lines, float *best, \
            int32_t *place, uint64_t flip) { \
        V##_V highest, x, sum[4] = {V##_ZERO(), V##_ZERO(), V##_ZERO(), V##_ZERO()}; \
        const V##_V bits = V##_BITS(flip); \
        V##_PLACES there, begin, at[CUNPOOL_LOOKS]; \
        V##_MASK above; \
        const char *cell[CUNPOOL_LOOKS]; /* a copy, for the compiler has to fear that results change the other */ \
        Py_ssize_t window, i, ahead; \
        int look; \
        for (look = 0; look < looks; look++) { \
            cell[look] = cells[look]; \
            at[look] = V##_ALL(places[look]); \
        } \
        for (window = 0; window < windows; window++) { \
            begin = V##_ALL((int32_t) (window * next_place)); \
            for (i = 0; i < lines; i += LANES) { \
                ahead = window * next + i * (Py_ssize_t) sizeof(float); \
                highest = V##_LOAD((const float *) (cell[0] + ahead)); \
                highest = V##_FLIP(highest, bits); \
                V##_KEEP(highest); \
                there = at[0]; \
                for (look = 1; look < looks; look++) { \
                    x = V##_LOAD((const float *) (cell[look] + ahead)); \
                    x = V##_FLIP(x, bits); \
                    V##_KEEP(x); \
                    sum[look % 4] = V##_ADD(sum[look % 4], x); \
                    CUNPOOL_HOLD_ONE(V, x, at[look]); \
                } \
                V##_STORE(best + window * pitch + i, V##_FLIP(highest, bits)); \
                if (placed) \
                    V##_STORE_PLACES(place + window * pitch + i, V##_ADD_PLACES(there, begin)); \
            } \
        } \
        return V##_ANY_NAN(V##_ADD(V##_ADD(sum[0], sum[1]), V##_ADD(sum[2], sum[3]))); \
    } \
    static int name(int looks, const char *const *cells, const int32_t *places, \
            Py_ssize_t windows, Py_ssize_t next, Py_ssize_t next_place, Py_ssize_t pitch, Py_ssize_t lines, \
            float *best, int32_t *place, uint64_t flip) { \
        int placed = place != NULL; \
        /* Without the inversion of bits 9 looks take 0.92 of the time. (speed) */ \
        if (looks == 4 && placed && !flip) \
            return name##_of(4, 1, cells, places, windows, next, next_place, pitch, lines, best, place, 0); \
        if (looks == 4 && !flip) \
            return name##_of(4, 0, cells, places, windows, next, next_place, pitch, lines, best, place, 0); \
        if (looks == 9 && placed && !flip) \
            return name##_of(9, 1, cells, places, windows, next, next_place, pitch, lines, best, place, 0); \
        if (looks == 9 && !flip) \
            return name##_of(9, 0, cells, places, windows, next, next_place, pitch, lines, best, place, 0); \
        if (placed) \
            return name##_of(looks, 1, cells, places, windows, next, next_place, pitch, lines, best, place, flip); \
        return name##_of(looks, 0, cells, places, windows, next, next_place, pitch, lines, best, place, flip); \
    }
#if CUNPOOL_LANES == 16
CUNPOOL_HOLD(cunpool_hold, AVX512, 16)
#else
CUNPOOL_HOLD(cunpool_hold, AVX2, 8)
#endif

/* The same of windows of 2 next to each other, which lie in 1, 2 or 4 rows, in whole vectors, of which the last
   does some windows again; and of those in some lines, `step` bytes apart. */
static inline Py_ssize_t cunpool_next(Py_ssize_t i, Py_ssize_t lanes, Py_ssize_t count) {
    return i + lanes == count || i + 2 * lanes <= count ? i + lanes : count - lanes;
}
#define CUNPOOL_HOLD_TWOS_OF(name, V, LANES, number) \
    __attribute__((always_inline)) static inline int name##_of( \
            int rows, int placed, const char *const *row, Py_ssize_t step, const int32_t *places, \
            Py_ssize_t lines, Py_ssize_t pitch, Py_ssize_t count, number *best, int32_t *place, uint64_t flip) { \
        V##_V highest, even, odd, x, y, sum[2] = {V##_ZERO(), V##_ZERO()}; \
        const V##_V bits = V##_BITS(flip); \
        V##_PLACES there, at[8]; \
        V##_MASK above; \
        const char *cells[4]; \
        Py_ssize_t line, i; \
        int k; \
        for (k = 0; k < rows; k++) { \
            cells[k] = row[k]; \
            at[2 * k] = V##_ALL(places[k]); \
            at[2 * k + 1] = V##_ALL(places[k] + 1); \
        } \
        for (line = 0; line < lines; line++) { \
            for (i = 0; i < count; i = cunpool_next(i, LANES, count)) { \
                for (k = 0; k < rows; k++) { \
                    x = V##_LOAD((const number *) cells[k] + 2 * i); \
                    y = V##_LOAD((const number *) cells[k] + 2 * i + LANES); \
                    x = V##_FLIP(x, bits); \
                    y = V##_FLIP(y, bits); \
                    V##_KEEP(x); \
                    V##_KEEP(y); \
                    sum[0] = V##_ADD(sum[0], x); \
                    sum[1] = V##_ADD(sum[1], y); \
                    even = V##_EVEN(x, y); \
                    odd = V##_ODD(x, y); \
                    if (k) \
                        CUNPOOL_HOLD_ONE(V, even, at[2 * k]); \
                    else { \
                        highest = even; \
                        there = at[0]; \
                    } \
                    CUNPOOL_HOLD_ONE(V, odd, at[2 * k + 1]); \
                } \
                V##_STORE(best + i, V##_FLIP(highest, bits)); \
                if (placed) \
                    V##_STORE_PLACES(place + i, there); \
            } \
            for (k = 0; k < rows; k++) \
                cells[k] += step; \
            best += pitch; \
            place += pitch; \
        } \
        return V##_ANY_NAN(V##_ADD(sum[0], sum[1])); \
    }
#define CUNPOOL_HOLD_TWOS(name, V, LANES) \
    CUNPOOL_HOLD_TWOS_OF(name, V, LANES, float) \
    static int name(int rows, int placed, const char *const *row, Py_ssize_t step, \
            const int32_t *places, Py_ssize_t lines, Py_ssize_t pitch, Py_ssize_t count, float *best, \
            int32_t *place, uint64_t flip) { \
        if (rows == 1 && placed) \
            return name##_of(1, 1, row, step, places, lines, pitch, count, best, place, flip); \
        if (rows == 1) \
            return name##_of(1, 0, row, step, places, lines, pitch, count, best, place, flip); \
        if (rows == 2 && placed) \
            return name##_of(2, 1, row, step, places, lines, pitch, count, best, place, flip); \
        if (rows == 2) \
            return name##_of(2, 0, row, step, places, lines, pitch, count, best, place, flip); \
        if (placed) \
            return name##_of(4, 1, row, step, places, lines, pitch, count, best, place, flip); \
        return name##_of(4, 0, row, step, places, lines, pitch, count, best, place, flip); \
    }
/* Of doubles those in two rows alone. */
#if CUNPOOL_LANES == 16
CUNPOOL_HOLD_TWOS(cunpool_hold_twos, AVX512, 16)
CUNPOOL_HOLD_TWOS_OF(cunpool_hold_doubles, AVX512_DOUBLES, 8, double)
static int cunpool_hold_twos_of_doubles(
        int placed, const char *const *row, Py_ssize_t step, const int32_t *places, Py_ssize_t lines,
        Py_ssize_t pitch, Py_ssize_t count, double *best, int32_t *place, uint64_t flip) {
    if (placed)
        return cunpool_hold_doubles_of(2, 1, row, step, places, lines, pitch, count, best, place, flip);
    return cunpool_hold_doubles_of(2, 0, row, step, places, lines, pitch, count, best, place, flip);
}
#else
CUNPOOL_HOLD_TWOS(cunpool_hold_twos, AVX2, 8)
#endif

/* 1 where that could be done, and there was no NaN for sure; 0 where it can't be done, -1 where one may be. */
static inline int cunpool_held(int looks, const char *const *cells, const int32_t *places, Py_ssize_t windows,
                               Py_ssize_t next, Py_ssize_t next_place, Py_ssize_t pitch, Py_ssize_t lines,
                               float *best, int32_t *place, uint64_t flip) {
    if (lines % 16 != 0)
        return 0;
    return cunpool_hold(looks, cells, places, windows, next, next_place, pitch, lines, best, place, flip) ? -1 : 1;
}
static inline int cunpool_held_twos(int size, int rows, int placed, const char *const *row, Py_ssize_t step,
                                    const int32_t *places, Py_ssize_t lines, Py_ssize_t pitch, Py_ssize_t count,
                                    void *best, int32_t *place, uint64_t flip) {
    if (size != sizeof(float) && (rows != 2 || CUNPOOL_LANES != 16))
        return 0;
#if CUNPOOL_LANES == 16
    if (size != sizeof(float))
        return cunpool_hold_twos_of_doubles(placed, row, step, places, lines, pitch, count, best, place, flip) ? -1 : 1;
#endif
    return cunpool_hold_twos(rows, placed, row, step, places, lines, pitch, count, best, place, flip) ? -1 : 1;
}
#else
#define cunpool_held(looks, cells, places, windows, next, next_place, pitch, lines, best, place, flip) 0
#define cunpool_held_twos(size, rows, placed, row, step, places, lines, pitch, count, best, place, flip) 0
#endif

#endif
