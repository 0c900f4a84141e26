/* The operations of simd.h in vectors of 64 bytes, with the instructions of x86-64-v4. */
#include <immintrin.h>

enum { CUNPOOL_VECTOR_BYTES = 64 };
#define SIMD_VECTOR __attribute__((vector_size(64)))
#define MM(name) _mm512_##name
#define MM_INTEGERS __m512i
#define SIMD_HAS_STREAM  /* a vector is a whole cache line */
#define SIMD_UNORDERED(T, ps, x, y) _mm512_cmp_##ps##_mask(x, y, _CMP_UNORD_Q)

/* What all types share: a mask has a bit for each lane, and codes have `bits` each. */
#define SIMD_TYPE_AVX512(T, element, integer, bits, lanes) \
    SIMD_VECTORS(T, element, integer) \
    typedef __mmask##lanes mask_##T; \
    SIMD_INLINE mask_##T either_##T(mask_##T a, mask_##T b) { return _kor_mask##lanes(a, b); } \
    SIMD_INLINE int is_any_##T(mask_##T m) { return m != 0; } \
    SIMD_INLINE codes_##T select_codes_##T(mask_##T m, codes_##T a, codes_##T b) { \
        return (codes_##T) _mm512_mask_mov_epi##bits((__m512i) a, m, (__m512i) b); \
    } \
    SIMD_INLINE void stream_##T(char *to, vector_##T x) { _mm512_stream_si512((__m512i *) to, (__m512i) x); }

/* Integers, whose instructions end in `epi`. */
#define SIMD_INTEGERS_AVX512(T, integer, bits, lanes, epi) \
    SIMD_TYPE_AVX512(T, integer, integer, bits, lanes) \
    SIMD_MAX(T, epi) \
    SIMD_INLINE mask_##T greater_##T(vector_##T later, vector_##T best) { \
        return _mm512_cmpgt_##epi##_mask((__m512i) later, (__m512i) best); \
    }

/* float32 and float64, whose instructions end in `ps` and `pd`. */
#define SIMD_FLOATS_AVX512(T, number, integer, bits, lanes, ps) \
    SIMD_TYPE_AVX512(T, number, integer, bits, lanes) \
    SIMD_MAX_OF_FLOATS(T, ps) \
    SIMD_INLINE mask_##T greater_##T(vector_##T later, vector_##T best) { \
        return _mm512_cmp_##ps##_mask(later, best, _CMP_GT_OQ); \
    } \
    SIMD_IN_ORDER(T)

/* float32 */
SIMD_FLOATS_AVX512(float4, float, int32_t, 32, 16, ps)
SIMD_INLINE vector_float4 deinterleave_float4(vector_float4 x, vector_float4 y, int i) {
    const codes_float4 first = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
    return _mm512_permutex2var_ps(x, (__m512i) (first + i), y);
}
/* `last` is a broadcast: a load at an odd multiple of 8 bytes would cross a cache line. */
SIMD_INLINE vector_float4 next_first_of_pairs_float4(vector_float4 first, const char *row, vector_float4 *last) {
    *last = _mm512_set1_ps(*(const float4 *) (row + 8 * LANES_float4));
    return (vector_float4) _mm512_alignr_epi32((__m512i) *last, (__m512i) first, 1);
}
SIMD_INLINE void store_code_bytes_float4(char *to, codes_float4 c) {
    _mm_storeu_si128((__m128i *) to, _mm512_cvtepi32_epi8((__m512i) c));
}
SIMD_INLINE void store_indices8_float4(char *to, codes_float4 c) {
    _mm512_storeu_si512(to, _mm512_cvtepi32_epi64(_mm512_castsi512_si256((__m512i) c)));
    _mm512_storeu_si512(to + 64, _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64((__m512i) c, 1)));
}
SIMD_INLINE void stream_indices8_float4(char *to, codes_float4 c) {  // unreached: large arrays, in slow tests
    _mm512_stream_si512((__m512i *) to, _mm512_cvtepi32_epi64(_mm512_castsi512_si256((__m512i) c)));  // unreached
    c = (codes_float4) _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64((__m512i) c, 1));  // unreached
    _mm512_stream_si512((__m512i *) (to + 64), (__m512i) c);  // unreached
}  // unreached: large arrays, in slow tests

/* float64 */
SIMD_FLOATS_AVX512(float8, double, int64_t, 64, 8, pd)
SIMD_INLINE vector_float8 deinterleave_float8(vector_float8 x, vector_float8 y, int i) {
    const codes_float8 first = {0, 2, 4, 6, 8, 10, 12, 14};
    return _mm512_permutex2var_pd(x, (__m512i) (first + i), y);
}
SIMD_INLINE void store_code_bytes_float8(char *to, codes_float8 c) {
    _mm_storel_epi64((__m128i *) to, _mm512_cvtepi64_epi8((__m512i) c));
}
SIMD_INLINE void store_indices4_float8(char *to, codes_float8 c) {
    _mm256_storeu_si256((__m256i *) to, _mm512_cvtepi64_epi32((__m512i) c));
}

/* int32 and int64 */
SIMD_INTEGERS_AVX512(int4, int32_t, 32, 16, epi32)
SIMD_INTEGERS_AVX512(int8, int64_t, 64, 8, epi64)
SIMD_IN_ORDER(int4)
SIMD_IN_ORDER(int8)

/* uint8: deinterleave_item1 works in quarters of a vector, because without VBMI no instruction takes bytes from two
   vectors. */
SIMD_INTEGERS_AVX512(item1, uint8_t, 8, 64, epu8)
SIMD_DEINTERLEAVE_BYTES
SIMD_INLINE vector_item1 in_order_item1(vector_item1 x) {
    return (vector_item1) _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), (__m512i) x);
}
SIMD_INLINE codes_item1 in_order_codes_item1(codes_item1 c) { return in_order_item1(c); }
SIMD_INLINE int deinterleaved_lane_item1(int i) { return i / 16 * 8 + i / 8 % 2 * 32 + i % 8; }

/* int16, and half in its order */
SIMD_INTEGERS_AVX512(int2, int16_t, 16, 32, epi16)
SIMD_TYPE_AVX512(half, int16_t, int16_t, 16, 32)
SIMD_IN_ORDER(int2)
SIMD_IN_ORDER(half)
SIMD_INLINE vector_int2 deinterleave_int2(vector_int2 x, vector_int2 y, int i) {
    const codes_int2 first = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,
                              32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62};
    return (vector_int2) _mm512_permutex2var_epi16((__m512i) x, (__m512i) (first + (int16_t) i), (__m512i) y);
}
SIMD_INLINE void store_code_bytes_int2(char *to, codes_int2 c) {
    _mm256_storeu_si256((__m256i *) to, _mm512_cvtepi16_epi8((__m512i) c));
}
