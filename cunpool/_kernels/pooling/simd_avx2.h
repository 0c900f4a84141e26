#ifndef CUNPOOL_POOLING_SIMD_AVX2_H
#define CUNPOOL_POOLING_SIMD_AVX2_H

/* The operations of simd.h in vectors of 32 bytes. even_T and odd_of_T work in halves of a vector: the middle quarters
   of their results are exchanged. */
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define SIMD_INLINE static CUNPOOL_INLINE
enum { CUNPOOL_VECTOR_BYTES = 32 };
#define MIDDLE_EXCHANGED 0xD8

/* What all types share: codes are integers of `bits` each. */
#define SIMD_CODES_AVX2(T, bits) \
    typedef __m256i codes_##T; \
    typedef __m256i mask_##T; \
    enum { LANES_##T = 256 / bits }; \
    SIMD_INLINE codes_##T broadcast_codes_##T(int64_t x) { return _mm256_set1_##bits(x); } \
    SIMD_INLINE codes_##T add_codes_##T(codes_##T a, codes_##T b) { return _mm256_add_epi##bits(a, b); } \
    SIMD_INLINE codes_##T subtract_codes_##T(codes_##T a, codes_##T b) { return _mm256_sub_epi##bits(a, b); } \
    SIMD_INLINE codes_##T select_codes_##T(mask_##T m, codes_##T a, codes_##T b) { return _mm256_blendv_epi8(a, b, m); } \
    SIMD_INLINE codes_##T in_order_codes_##T(codes_##T c) { return _mm256_permute4x64_epi64(c, MIDDLE_EXCHANGED); } \
    SIMD_INLINE int deinterleaved_lane_##T(int i) { \
        const int quarter = LANES_##T / 4; \
        return i / quarter == 1 ? i + quarter : i / quarter == 2 ? i - quarter : i; \
    }
#define _mm256_set1_8(x) _mm256_set1_epi8((char) (x))
#define _mm256_set1_16(x) _mm256_set1_epi16((short) (x))
#define _mm256_set1_32(x) _mm256_set1_epi32((int32_t) (x))
#define _mm256_set1_64(x) _mm256_set1_epi64x(x)

/* Integers of `bits`, in vectors of the type of their codes. */
#define SIMD_INTEGERS_AVX2(T, bits) \
    SIMD_CODES_AVX2(T, bits) \
    typedef __m256i vector_##T; \
    SIMD_INLINE vector_##T load_##T(const char *from) { return _mm256_loadu_si256((const __m256i *) from); } \
    SIMD_INLINE void store_##T(char *to, vector_##T x) { _mm256_storeu_si256((__m256i *) to, x); } \
    SIMD_INLINE void stream_##T(char *to, vector_##T x) { _mm256_stream_si256((__m256i *) to, x); } \
    SIMD_INLINE vector_##T select_##T(mask_##T m, vector_##T a, vector_##T b) { return _mm256_blendv_epi8(a, b, m); } \
    SIMD_INLINE vector_##T in_order_##T(vector_##T x) { return _mm256_permute4x64_epi64(x, MIDDLE_EXCHANGED); } \
    SIMD_INLINE vector_##T next_even_##T(vector_##T even, const char *row, odd_##T *odd, int is_noted) { \
        const vector_##T y = load_##T(row + 32 + 2 * bits / 8); \
        (void) even; \
        if (is_noted) \
            *odd = note_##T(*odd, y); \
        return even_##T(load_##T(row + 2 * bits / 8), y); \
    }

/* float32 and float64, whose instructions end in `ps` and `pd`. */
#define SIMD_FLOATS_AVX2(T, number, ps, vector, bits) \
    SIMD_CODES_AVX2(T, bits) \
    typedef vector vector_##T; \
    typedef vector odd_##T; \
    SIMD_INLINE vector_##T load_##T(const char *from) { return _mm256_loadu_##ps((const number *) from); } \
    SIMD_INLINE void store_##T(char *to, vector_##T x) { _mm256_storeu_##ps((number *) to, x); } \
    SIMD_INLINE void stream_##T(char *to, vector_##T x) { _mm256_stream_##ps((number *) to, x); } \
    SIMD_INLINE vector_##T key_##T(vector_##T x, int magnitude, codes_##T flip) { \
        (void) magnitude; \
        return _mm256_xor_##ps(x, _mm256_castsi256_##ps(flip)); \
    } \
    SIMD_INLINE vector_##T bits_##T(vector_##T x, int magnitude, codes_##T flip) { \
        return key_##T(x, magnitude, flip); \
    } \
    SIMD_INLINE odd_##T nothing_odd_##T(void) { return _mm256_setzero_##ps(); } \
    SIMD_INLINE odd_##T note_pair_##T(odd_##T odd, vector_##T x, vector_##T y) { \
        return _mm256_or_##ps(odd, _mm256_cmp_##ps(x, y, _CMP_UNORD_Q)); \
    } \
    SIMD_INLINE odd_##T note_##T(odd_##T odd, vector_##T x) { return note_pair_##T(odd, x, x); } \
    SIMD_INLINE int is_odd_##T(odd_##T odd, int infinity) { (void) infinity; return _mm256_movemask_##ps(odd) != 0; } \
    SIMD_INLINE vector_##T max_##T(vector_##T best, vector_##T later) { return _mm256_max_##ps(later, best); } \
    SIMD_INLINE vector_##T min_##T(vector_##T limit, vector_##T x) { return _mm256_min_##ps(limit, x); } \
    SIMD_INLINE mask_##T greater_##T(vector_##T later, vector_##T best) { \
        return _mm256_cast##ps##_si256(_mm256_cmp_##ps(later, best, _CMP_GT_OQ)); \
    } \
    SIMD_INLINE mask_##T is_nan_##T(vector_##T x) { \
        return _mm256_cast##ps##_si256(_mm256_cmp_##ps(x, x, _CMP_UNORD_Q)); \
    } \
    SIMD_INLINE mask_##T beats_##T(vector_##T later, vector_##T best, int infinity) { \
        (void) infinity; \
        return _mm256_or_si256(greater_##T(later, best), is_nan_##T(later)); \
    } \
    SIMD_INLINE mask_##T beats_omitting_##T(vector_##T later, vector_##T best, int infinity) { \
        (void) infinity; \
        return _mm256_or_si256(greater_##T(later, best), _mm256_andnot_si256(is_nan_##T(later), is_nan_##T(best))); \
    } \
    SIMD_INLINE vector_##T select_##T(mask_##T m, vector_##T a, vector_##T b) { \
        return _mm256_blendv_##ps(a, b, _mm256_castsi256_##ps(m)); \
    } \
    SIMD_INLINE void take_##T(vector_##T *best, codes_##T *code, vector_##T later, codes_##T later_code) { \
        const mask_##T beaten = greater_##T(later, *best); \
        *best = max_##T(*best, later); \
        *code = select_codes_##T(beaten, *code, later_code); \
    } \
    /* x, or `outside` where the limit is the lowest number. */ \
    SIMD_INLINE vector_##T limit_exactly_##T(vector_##T limit, vector_##T x, vector_##T outside) { \
        return select_##T(greater_##T(limit, _mm256_setzero_##ps()), outside, x); \
    }

/* float32 */
SIMD_FLOATS_AVX2(float4, float, ps, __m256, 32)
SIMD_INLINE vector_float4 even_float4(vector_float4 x, vector_float4 y) { return _mm256_shuffle_ps(x, y, 0x88); }
SIMD_INLINE vector_float4 odd_of_float4(vector_float4 x, vector_float4 y) { return _mm256_shuffle_ps(x, y, 0xDD); }
SIMD_INLINE vector_float4 in_order_float4(vector_float4 x) {
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), MIDDLE_EXCHANGED));
}
/* The even elements behind those of `even`, whose first was loaded from `row`. */
SIMD_INLINE vector_float4 next_even_float4(vector_float4 even, const char *row, odd_float4 *odd, int is_noted) {
    vector_float4 y = load_float4(row + 4 * (LANES_float4 + 2));
    (void) even;
    if (is_noted)
        *odd = note_float4(*odd, y);
    return even_float4(load_float4(row + 8), y);
}
SIMD_INLINE void store_code_bytes_float4(char *to, codes_float4 c) {
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(c), _mm256_extracti128_si256(c, 1));
    _mm_storel_epi64((__m128i *) to, _mm_packus_epi16(words, words));
}
SIMD_INLINE void store_indices4_float4(char *to, codes_float4 c) { _mm256_storeu_si256((__m256i *) to, c); }
SIMD_INLINE void store_indices8_float4(char *to, codes_float4 c, int is_streamed) {
    __m256i low = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(c));
    __m256i high = _mm256_cvtepi32_epi64(_mm256_extracti128_si256(c, 1));
    if (is_streamed) {
        _mm256_stream_si256((__m256i *) to, low);
        _mm256_stream_si256((__m256i *) (to + 32), high);
    } else {
        _mm256_storeu_si256((__m256i *) to, low);
        _mm256_storeu_si256((__m256i *) (to + 32), high);
    }
}

/* float64 */
SIMD_FLOATS_AVX2(float8, double, pd, __m256d, 64)
SIMD_INLINE __m128i narrow_codes_float8(codes_float8 c) {
    return _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(c, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6)));
}
SIMD_INLINE void store_indices4_float8(char *to, codes_float8 c) {
    _mm_storeu_si128((__m128i *) to, narrow_codes_float8(c));
}
SIMD_INLINE void store_code_bytes_float8(char *to, codes_float8 c) {
    const __m128i words = _mm_packs_epi32(narrow_codes_float8(c), narrow_codes_float8(c));
    const int bytes = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    memcpy(to, &bytes, sizeof bytes);
}

/* uint8 */
typedef int odd_item1;
SIMD_INLINE odd_item1 note_item1(odd_item1 odd, __m256i x) { (void) x; return odd; }
SIMD_INLINE odd_item1 note_pair_item1(odd_item1 odd, __m256i x, __m256i y) { (void) x; (void) y; return odd; }
SIMD_INLINE __m256i even_item1(__m256i x, __m256i y) {
    const __m256i low = _mm256_set1_epi16(0xFF);
    return _mm256_packus_epi16(_mm256_and_si256(x, low), _mm256_and_si256(y, low));
}
SIMD_INLINE __m256i odd_of_item1(__m256i x, __m256i y) {
    return _mm256_packus_epi16(_mm256_srli_epi16(x, 8), _mm256_srli_epi16(y, 8));
}
SIMD_INTEGERS_AVX2(item1, 8)
SIMD_INLINE vector_item1 key_item1(vector_item1 x, int magnitude, codes_item1 flip) {
    (void) magnitude;
    return _mm256_xor_si256(x, flip);
}
SIMD_INLINE vector_item1 bits_item1(vector_item1 x, int magnitude, codes_item1 flip) {
    (void) magnitude;
    return _mm256_xor_si256(x, flip);
}
SIMD_INLINE odd_item1 nothing_odd_item1(void) { return 0; }
SIMD_INLINE int is_odd_item1(odd_item1 odd, int infinity) { (void) infinity; return odd; }
SIMD_INLINE vector_item1 max_item1(vector_item1 best, vector_item1 later) { return _mm256_max_epu8(best, later); }
SIMD_INLINE vector_item1 min_item1(vector_item1 limit, vector_item1 x) { return _mm256_min_epu8(limit, x); }
SIMD_INLINE void take_item1(vector_item1 *best, codes_item1 *code, vector_item1 later, codes_item1 later_code) {
    const vector_item1 highest = max_item1(*best, later);
    *code = select_codes_item1(_mm256_cmpeq_epi8(highest, *best), later_code, *code);
    *best = highest;
}
SIMD_INLINE void store_code_bytes_item1(char *to, codes_item1 c) { store_item1(to, c); }

/* float16 and bfloat16: as int16 in the order of the numbers, negative zero below positive zero. */
typedef struct { __m256i largest, lowest; } odd_half;
SIMD_INLINE odd_half note_half(odd_half odd, __m256i x) {
    odd.largest = _mm256_max_epi16(odd.largest, _mm256_and_si256(x, _mm256_set1_epi16(0x7FFF)));
    odd.lowest = _mm256_min_epi16(odd.lowest, x);
    return odd;
}
SIMD_INLINE odd_half note_pair_half(odd_half odd, __m256i x, __m256i y) { return note_half(note_half(odd, x), y); }
SIMD_INLINE __m256i even_half(__m256i x, __m256i y) {
    const __m256i low = _mm256_set1_epi32(0xFFFF);
    return _mm256_packus_epi32(_mm256_and_si256(x, low), _mm256_and_si256(y, low));
}
SIMD_INLINE __m256i odd_of_half(__m256i x, __m256i y) {
    return _mm256_packus_epi32(_mm256_srli_epi32(x, 16), _mm256_srli_epi32(y, 16));
}
SIMD_INTEGERS_AVX2(half, 16)
SIMD_INLINE vector_half ordered_half(vector_half x, int magnitude) {
    return _mm256_xor_si256(x, _mm256_and_si256(_mm256_srai_epi16(x, 15), _mm256_set1_epi16((short) magnitude)));
}
SIMD_INLINE vector_half key_half(vector_half x, int magnitude, codes_half flip) {
    return ordered_half(_mm256_xor_si256(x, flip), magnitude);
}
SIMD_INLINE vector_half bits_half(vector_half x, int magnitude, codes_half flip) {
    return _mm256_xor_si256(ordered_half(x, magnitude), flip);
}
SIMD_INLINE odd_half nothing_odd_half(void) { return (odd_half) {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
SIMD_INLINE int is_odd_half(odd_half odd, int infinity) {
    const __m256i nan = _mm256_cmpgt_epi16(odd.largest, _mm256_set1_epi16((short) infinity));
    const __m256i zero = _mm256_cmpeq_epi16(odd.lowest, _mm256_set1_epi16(INT16_MIN));
    return _mm256_movemask_epi8(_mm256_or_si256(nan, zero)) != 0;
}
SIMD_INLINE vector_half max_half(vector_half best, vector_half later) { return _mm256_max_epi16(best, later); }
SIMD_INLINE vector_half min_half(vector_half limit, vector_half x) { return _mm256_min_epi16(limit, x); }
SIMD_INLINE mask_half is_nan_half(vector_half x, int infinity) {
    return _mm256_cmpgt_epi16(_mm256_xor_si256(x, _mm256_srai_epi16(x, 15)), _mm256_set1_epi16((short) infinity));
}
/* Both zeros are 0. */
SIMD_INLINE mask_half is_greater_half(vector_half later, vector_half best) {
    return _mm256_cmpgt_epi16(_mm256_sub_epi16(later, _mm256_srai_epi16(later, 15)),
                              _mm256_sub_epi16(best, _mm256_srai_epi16(best, 15)));
}
SIMD_INLINE mask_half beats_half(vector_half later, vector_half best, int infinity) {
    return _mm256_or_si256(_mm256_andnot_si256(is_nan_half(best, infinity), is_greater_half(later, best)),
                           is_nan_half(later, infinity));
}
SIMD_INLINE mask_half beats_omitting_half(vector_half later, vector_half best, int infinity) {
    return _mm256_andnot_si256(is_nan_half(later, infinity),
                               _mm256_or_si256(is_greater_half(later, best), is_nan_half(best, infinity)));
}
SIMD_INLINE void take_half(vector_half *best, codes_half *code, vector_half later, codes_half later_code) {
    const mask_half beaten = _mm256_cmpgt_epi16(later, *best);
    *best = max_half(*best, later);
    *code = select_codes_half(beaten, *code, later_code);
}
SIMD_INLINE vector_half limit_exactly_half(vector_half limit, vector_half x, vector_half outside) {
    return select_half(_mm256_cmpgt_epi16(limit, _mm256_setzero_si256()), outside, x);
}
SIMD_INLINE void store_code_bytes_half(char *to, codes_half c) {
    c = _mm256_permute4x64_epi64(_mm256_packus_epi16(c, c), MIDDLE_EXCHANGED);
    _mm_storeu_si128((__m128i *) to, _mm256_castsi256_si128(c));
}

/* Codes as indices. */
SIMD_INLINE void widen_codes(uint16_t *to, const uint8_t *code) {
    _mm256_storeu_si256((__m256i *) to, _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *) code)));
}
SIMD_INLINE void add_to_offsets4(char *to, const uint16_t *offset, int32_t first) {
    const __m256i further = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *) offset));
    _mm256_storeu_si256((__m256i *) to, _mm256_add_epi32(further, _mm256_set1_epi32(first)));
}
SIMD_INLINE void add_to_offsets8(char *to, const uint16_t *offset, int64_t first) {
    const __m256i further = _mm256_cvtepu16_epi64(_mm_loadl_epi64((const __m128i *) offset));
    _mm256_storeu_si256((__m256i *) to, _mm256_add_epi64(further, _mm256_set1_epi64x(first)));
}

#endif
