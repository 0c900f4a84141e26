#ifndef CUNPOOL_POOLING_SIMD_AVX2_H
#define CUNPOOL_POOLING_SIMD_AVX2_H

/* The operations of simd.h in vectors of 32 bytes. even_T and odd_of_T work in halves of a vector: the middle quarters
   of their results are exchanged. */
#include <immintrin.h>
#include <math.h>
#include <stdint.h>

#define SIMD_INLINE static CUNPOOL_INLINE
enum { CUNPOOL_VECTOR_BYTES = 32 };
#define MIDDLE_EXCHANGED 0xD8

/* What all types share: codes are integers of `bits` each. */
#define SIMD_CODES_AVX2(T, bits) \
    typedef __m256i codes_##T; \
    typedef __m256i mask_##T; \
    enum { LANES_##T = 256 / bits }; \
    SIMD_INLINE codes_##T broadcast_codes_##T(int64_t x) { return _mm256_set1_##bits(x); } \
    SIMD_INLINE codes_##T load_codes_##T(const void *from) { return _mm256_loadu_si256((const __m256i *) from); } \
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

/* float32 */
SIMD_CODES_AVX2(float4, 32)
typedef __m256 vector_float4;
typedef __m256 odd_float4;
SIMD_INLINE vector_float4 load_float4(const char *from) { return _mm256_loadu_ps((const float *) from); }
SIMD_INLINE void store_float4(char *to, vector_float4 x) { _mm256_storeu_ps((float *) to, x); }
SIMD_INLINE void stream_float4(char *to, vector_float4 x) { _mm256_stream_ps((float *) to, x); }
SIMD_INLINE vector_float4 broadcast_float4(const char *from) { return _mm256_broadcast_ss((const float *) from); }
SIMD_INLINE vector_float4 key_float4(vector_float4 x, int magnitude) { (void) magnitude; return x; }
SIMD_INLINE vector_float4 bits_float4(vector_float4 x, int magnitude) { (void) magnitude; return x; }
SIMD_INLINE odd_float4 nothing_odd_float4(void) { return _mm256_setzero_ps(); }
SIMD_INLINE odd_float4 note_float4(odd_float4 odd, vector_float4 x, vector_float4 y) {
    return _mm256_or_ps(odd, _mm256_cmp_ps(x, y, _CMP_UNORD_Q));
}
SIMD_INLINE int is_odd_float4(odd_float4 odd, int infinity) { (void) infinity; return _mm256_movemask_ps(odd) != 0; }
SIMD_INLINE vector_float4 max_float4(vector_float4 best, vector_float4 later) { return _mm256_max_ps(later, best); }
SIMD_INLINE vector_float4 min_float4(vector_float4 limit, vector_float4 x) { return _mm256_min_ps(limit, x); }
SIMD_INLINE mask_float4 greater_float4(vector_float4 later, vector_float4 best) {
    return _mm256_castps_si256(_mm256_cmp_ps(later, best, _CMP_GT_OQ));
}
SIMD_INLINE mask_float4 beats_float4(vector_float4 later, vector_float4 best, int infinity) {
    (void) infinity;
    return _mm256_castps_si256(_mm256_or_ps(_mm256_cmp_ps(later, best, _CMP_GT_OQ),
                                            _mm256_cmp_ps(later, later, _CMP_UNORD_Q)));
}
SIMD_INLINE vector_float4 select_float4(mask_float4 m, vector_float4 a, vector_float4 b) {
    return _mm256_blendv_ps(a, b, _mm256_castsi256_ps(m));
}
SIMD_INLINE void take_float4(vector_float4 *best, codes_float4 *code, vector_float4 later, codes_float4 later_code) {
    const mask_float4 beaten = greater_float4(later, *best);
    *best = max_float4(*best, later);
    *code = select_codes_float4(beaten, *code, later_code);
}
/* x, or the limit where that is the lowest number. */
SIMD_INLINE vector_float4 limit_exactly_float4(vector_float4 limit, vector_float4 x) {
    return select_float4(greater_float4(limit, _mm256_set1_ps(-INFINITY)), limit, x);
}
SIMD_INLINE vector_float4 even_float4(vector_float4 x, vector_float4 y) { return _mm256_shuffle_ps(x, y, 0x88); }
SIMD_INLINE vector_float4 odd_of_float4(vector_float4 x, vector_float4 y) { return _mm256_shuffle_ps(x, y, 0xDD); }
SIMD_INLINE vector_float4 in_order_float4(vector_float4 x) {
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), MIDDLE_EXCHANGED));
}
/* The even elements behind those of `even`, which are those of x and y; `row` is where x was loaded. */
SIMD_INLINE vector_float4 next_even_float4(vector_float4 even, const char *row, odd_float4 *odd, int is_noted) {
    vector_float4 y = load_float4(row + 4 * (LANES_float4 + 2));
    (void) even;
    if (is_noted)
        *odd = note_float4(*odd, y, y);
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

#endif
