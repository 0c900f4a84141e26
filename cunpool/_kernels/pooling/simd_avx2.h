/* The operations of simd.h in vectors of 32 bytes. deinterleave_T works in halves of a vector: the middle quarters of
   its results are exchanged. */
#include <immintrin.h>

enum { CUNPOOL_VECTOR_BYTES = 32 };
#define SIMD_VECTOR __attribute__((vector_size(32)))
#define MM(name) _mm256_##name
#define MM_INTEGERS __m256i
#define MIDDLE_EXCHANGED 0xD8
#define SIMD_IS_ANY(m) (_mm256_movemask_epi8((__m256i) (m)) != 0)
#define SIMD_UNORDERED(T, ps, x, y) _mm256_cmp_##ps(x, y, _CMP_UNORD_Q)
#define SIMD_SELECT(m, a, b) _mm256_blendv_epi8((__m256i) (a), (__m256i) (b), (__m256i) (m))

/* What all types share. */
#define SIMD_TYPE_AVX2(T, element, integer) \
    SIMD_VECTORS(T, element, integer) \
    SIMD_VECTOR_MASKS(T) \
    SIMD_INLINE codes_##T in_order_codes_##T(codes_##T c) { \
        return (codes_##T) _mm256_permute4x64_epi64((__m256i) c, MIDDLE_EXCHANGED); \
    } \
    SIMD_INLINE vector_##T in_order_##T(vector_##T x) { return (vector_##T) in_order_codes_##T((codes_##T) x); } \
    SIMD_INLINE int deinterleaved_lane_##T(int i) { \
        const int quarter = LANES_##T / 4; \
        return i / quarter == 1 ? i + quarter : i / quarter == 2 ? i - quarter : i; \
    }

/* float32 and float64, whose instructions end in `ps` and `pd`. */
#define SIMD_FLOATS_AVX2(T, number, integer, ps) \
    SIMD_TYPE_AVX2(T, number, integer) \
    SIMD_GREATER(T) \
    SIMD_MAX_OF_FLOATS(T, ps)

/* float32 */
SIMD_FLOATS_AVX2(float4, float, int32_t, ps)
SIMD_INLINE vector_float4 deinterleave_float4(vector_float4 x, vector_float4 y, int i) {
    return i ? _mm256_shuffle_ps(x, y, 0xDD) : _mm256_shuffle_ps(x, y, 0x88);
}
SIMD_NEXT_PAIRS(float4)
SIMD_INLINE void store_code_bytes_float4(char *to, codes_float4 c) {
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128((__m256i) c), _mm256_extracti128_si256((__m256i) c, 1));
    _mm_storel_epi64((__m128i *) to, _mm_packus_epi16(words, words));
}
SIMD_INLINE void store_indices8_float4(char *to, codes_float4 c) {
    _mm256_storeu_si256((__m256i *) to, _mm256_cvtepi32_epi64(_mm256_castsi256_si128((__m256i) c)));
    _mm256_storeu_si256((__m256i *) (to + 32), _mm256_cvtepi32_epi64(_mm256_extracti128_si256((__m256i) c, 1)));
}

/* float64 */
SIMD_FLOATS_AVX2(float8, double, int64_t, pd)
SIMD_INLINE vector_float8 deinterleave_float8(vector_float8 x, vector_float8 y, int i) {
    return i ? _mm256_unpackhi_pd(x, y) : _mm256_unpacklo_pd(x, y);
}
SIMD_INLINE __m128i narrow_codes_float8(codes_float8 c) {
    return _mm256_castsi256_si128(_mm256_permutevar8x32_epi32((__m256i) c, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6)));
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
SIMD_TYPE_AVX2(int4, int32_t, int32_t)
SIMD_GREATER(int4)
SIMD_MAX(int4, epi32)
SIMD_TYPE_AVX2(int8, int64_t, int64_t)
SIMD_GREATER(int8)
SIMD_SELECTED_MAX(int8)

/* uint8 */
SIMD_TYPE_AVX2(item1, uint8_t, uint8_t)
SIMD_MAX_OF_BYTES
SIMD_DEINTERLEAVE_BYTES

/* int16, and half in its order */
SIMD_TYPE_AVX2(half, int16_t, int16_t)
SIMD_TYPE_AVX2(int2, int16_t, int16_t)
SIMD_GREATER(int2)
SIMD_MAX(int2, epi16)
SIMD_INLINE vector_int2 deinterleave_int2(vector_int2 x, vector_int2 y, int i) {
    const __m256i low = _mm256_set1_epi32(0xFFFF), a = (__m256i) x, b = (__m256i) y;
    return (vector_int2) (i ? _mm256_packus_epi32(_mm256_srli_epi32(a, 16), _mm256_srli_epi32(b, 16))
                            : _mm256_packus_epi32(a & low, b & low));
}
SIMD_INLINE void store_code_bytes_int2(char *to, codes_int2 c) {
    const __m256i bytes = _mm256_packus_epi16((__m256i) c, (__m256i) c);
    _mm_storeu_si128((__m128i *) to, _mm256_castsi256_si128(_mm256_permute4x64_epi64(bytes, MIDDLE_EXCHANGED)));
}
