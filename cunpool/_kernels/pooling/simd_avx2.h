/* The operations of simd.h in vectors of 32 bytes. first_of_pairs_T and second_of_pairs_T work in halves of a vector:
   the middle quarters of their results are exchanged. */
#include <immintrin.h>

enum { CUNPOOL_VECTOR_BYTES = 32 };
#define MM(name) _mm256_##name
#define MM_INTEGERS __m256i
#define MIDDLE_EXCHANGED 0xD8

/* What all types share: codes are integers of `bits` each. */
#define SIMD_TYPE_AVX2(T, vector, bits) \
    typedef vector vector_##T; \
    typedef __m256i codes_##T; \
    typedef __m256i mask_##T; \
    SIMD_INLINE codes_##T broadcast_codes_##T(int64_t x) { return _mm256_set1_epi##bits((int##bits##_t) x); } \
    SIMD_INLINE codes_##T add_codes_##T(codes_##T a, codes_##T b) { return _mm256_add_epi##bits(a, b); } \
    SIMD_INLINE codes_##T subtract_codes_##T(codes_##T a, codes_##T b) { return _mm256_sub_epi##bits(a, b); } \
    SIMD_INLINE codes_##T select_codes_##T(mask_##T m, codes_##T a, codes_##T b) { \
        return _mm256_blendv_epi8(a, b, m); \
    } \
    SIMD_DERIVED(T) \
    SIMD_INLINE codes_##T in_order_codes_##T(codes_##T c) { return _mm256_permute4x64_epi64(c, MIDDLE_EXCHANGED); } \
    SIMD_INLINE vector_##T in_order_##T(vector_##T x) { return (vector_##T) in_order_codes_##T((codes_##T) x); } \
    SIMD_INLINE int deinterleaved_lane_##T(int i) { \
        const int quarter = LANES_##T / 4; \
        return i / quarter == 1 ? i + quarter : i / quarter == 2 ? i - quarter : i; \
    }
#define _mm256_set1_epi64 _mm256_set1_epi64x

/* float32 and float64, whose instructions end in `ps` and `pd`. */
#define SIMD_FLOATS_AVX2(T, ps, vector, bits) \
    SIMD_TYPE_AVX2(T, vector, bits) \
    typedef vector odd_##T; \
    SIMD_INLINE odd_##T nothing_odd_##T(void) { return _mm256_setzero_##ps(); } \
    SIMD_INLINE odd_##T note_pair_##T(odd_##T odd, vector_##T x, vector_##T y) { \
        return _mm256_or_##ps(odd, _mm256_cmp_##ps(x, y, _CMP_UNORD_Q)); \
    } \
    SIMD_INLINE int is_odd_##T(odd_##T odd, int infinity) { (void) infinity; return _mm256_movemask_##ps(odd) != 0; } \
    SIMD_INLINE vector_##T max_##T(vector_##T best, vector_##T later) { return _mm256_max_##ps(later, best); } \
    SIMD_INLINE vector_##T min_##T(vector_##T limit, vector_##T x) { return _mm256_min_##ps(limit, x); } \
    SIMD_INLINE mask_##T greater_##T(vector_##T later, vector_##T best) { \
        return _mm256_cast##ps##_si256(_mm256_cmp_##ps(later, best, _CMP_GT_OQ)); \
    } \
    SIMD_INLINE mask_##T is_nan_##T(vector_##T x) { \
        return _mm256_cast##ps##_si256(_mm256_cmp_##ps(x, x, _CMP_UNORD_Q)); \
    }

/* float32 */
SIMD_FLOATS_AVX2(float4, ps, __m256, 32)
SIMD_INLINE vector_float4 first_of_pairs_float4(vector_float4 x, vector_float4 y) {
    return _mm256_shuffle_ps(x, y, 0x88);
}
SIMD_INLINE vector_float4 second_of_pairs_float4(vector_float4 x, vector_float4 y) {
    return _mm256_shuffle_ps(x, y, 0xDD);
}
SIMD_NEXT_PAIRS(float4)
SIMD_INLINE void store_code_bytes_float4(char *to, codes_float4 c) {
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(c), _mm256_extracti128_si256(c, 1));
    _mm_storel_epi64((__m128i *) to, _mm_packus_epi16(words, words));
}
SIMD_INLINE void store_indices4_float4(char *to, codes_float4 c) { _mm256_storeu_si256((__m256i *) to, c); }
SIMD_INLINE void store_indices8_float4(char *to, codes_float4 c) {
    _mm256_storeu_si256((__m256i *) to, _mm256_cvtepi32_epi64(_mm256_castsi256_si128(c)));
    _mm256_storeu_si256((__m256i *) (to + 32), _mm256_cvtepi32_epi64(_mm256_extracti128_si256(c, 1)));
}

/* float64 */
SIMD_FLOATS_AVX2(float8, pd, __m256d, 64)
SIMD_INLINE vector_float8 first_of_pairs_float8(vector_float8 x, vector_float8 y) { return _mm256_unpacklo_pd(x, y); }
SIMD_INLINE vector_float8 second_of_pairs_float8(vector_float8 x, vector_float8 y) { return _mm256_unpackhi_pd(x, y); }
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

/* int32, and int64, of which AVX2 has no maximum */
SIMD_TYPE_AVX2(int4, __m256i, 32)
SIMD_MAX(int4, epi32)
SIMD_INLINE mask_int4 greater_int4(vector_int4 later, vector_int4 best) { return _mm256_cmpgt_epi32(later, best); }
SIMD_TYPE_AVX2(int8, __m256i, 64)
SIMD_INLINE mask_int8 greater_int8(vector_int8 later, vector_int8 best) { return _mm256_cmpgt_epi64(later, best); }
SIMD_SELECTED_MAX(int8)

/* uint8, which AVX2 compares for equality alone */
SIMD_TYPE_AVX2(item1, __m256i, 8)
SIMD_MAX(item1, epu8)
SIMD_PAIRS_OF_BYTES
#define SIMD_BYTES_COMPARED SIMD_BY_EQUALITY
SIMD_INLINE mask_item1 equal_item1(vector_item1 x, vector_item1 y) { return _mm256_cmpeq_epi8(x, y); }
SIMD_INLINE mask_item1 greater_item1(vector_item1 later, vector_item1 best) {
    return ~equal_item1(max_item1(best, later), best);
}

/* int16, and half in its order */
SIMD_TYPE_AVX2(half, __m256i, 16)
SIMD_TYPE_AVX2(int2, __m256i, 16)
SIMD_MAX(int2, epi16)
SIMD_INLINE vector_int2 first_of_pairs_int2(vector_int2 x, vector_int2 y) {
    const __m256i low = _mm256_set1_epi32(0xFFFF);
    return _mm256_packus_epi32(_mm256_and_si256(x, low), _mm256_and_si256(y, low));
}
SIMD_INLINE vector_int2 second_of_pairs_int2(vector_int2 x, vector_int2 y) {
    return _mm256_packus_epi32(_mm256_srli_epi32(x, 16), _mm256_srli_epi32(y, 16));
}
SIMD_NEXT_PAIRS(int2)
SIMD_INLINE vector_int2 sign_int2(vector_int2 x) { return _mm256_srai_epi16(x, 15); }
SIMD_INLINE mask_int2 greater_int2(vector_int2 later, vector_int2 best) { return _mm256_cmpgt_epi16(later, best); }
SIMD_INLINE int is_any_int2(mask_int2 m) { return _mm256_movemask_epi8(m) != 0; }
SIMD_INLINE void store_code_bytes_int2(char *to, codes_int2 c) {
    c = _mm256_permute4x64_epi64(_mm256_packus_epi16(c, c), MIDDLE_EXCHANGED);
    _mm_storeu_si128((__m128i *) to, _mm256_castsi256_si128(c));
}
