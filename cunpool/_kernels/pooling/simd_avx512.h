/* The operations of simd.h in vectors of 64 bytes, with the instructions of x86-64-v4. */
#include <immintrin.h>

enum { CUNPOOL_VECTOR_BYTES = 64 };
#define MM(name) _mm512_##name
#define MM_INTEGERS __m512i
#define SIMD_HAS_STREAM  /* a vector is a whole cache line */

/* What all types share: codes are integers of `bits` each, and a mask has a bit for each. */
#define SIMD_TYPE_AVX512(T, vector, bits, mask) \
    typedef vector vector_##T; \
    typedef __m512i codes_##T; \
    typedef mask mask_##T; \
    SIMD_INLINE codes_##T broadcast_codes_##T(int64_t x) { return _mm512_set1_epi##bits((int##bits##_t) x); } \
    SIMD_INLINE codes_##T add_codes_##T(codes_##T a, codes_##T b) { return _mm512_add_epi##bits(a, b); } \
    SIMD_INLINE codes_##T subtract_codes_##T(codes_##T a, codes_##T b) { return _mm512_sub_epi##bits(a, b); } \
    SIMD_INLINE codes_##T select_codes_##T(mask_##T m, codes_##T a, codes_##T b) { \
        return _mm512_mask_mov_epi##bits(a, m, b); \
    } \
    SIMD_DERIVED(T) \
    SIMD_INLINE void stream_##T(char *to, vector_##T x) { _mm512_stream_si512((__m512i *) to, (__m512i) x); }

/* Integers, whose instructions end in `epi`. */
#define SIMD_INTEGERS_AVX512(T, bits, mask, epi) \
    SIMD_TYPE_AVX512(T, __m512i, bits, mask) \
    SIMD_MAX(T, epi) \
    SIMD_INLINE mask_##T greater_##T(vector_##T later, vector_##T best) { \
        return _mm512_cmpgt_##epi##_mask(later, best); \
    }

/* float32 and float64, whose instructions end in `ps` and `pd`. */
#define SIMD_FLOATS_AVX512(T, ps, vector, bits, lanes) \
    SIMD_TYPE_AVX512(T, vector, bits, __mmask##lanes) \
    typedef mask_##T odd_##T; \
    SIMD_INLINE odd_##T nothing_odd_##T(void) { return 0; } \
    SIMD_INLINE odd_##T note_pair_##T(odd_##T odd, vector_##T x, vector_##T y) { \
        return _kor_mask##lanes(odd, _mm512_cmp_##ps##_mask(x, y, _CMP_UNORD_Q)); \
    } \
    SIMD_INLINE int is_odd_##T(odd_##T odd, int infinity) { (void) infinity; return odd != 0; } \
    SIMD_INLINE vector_##T max_##T(vector_##T best, vector_##T later) { return _mm512_max_##ps(later, best); } \
    SIMD_INLINE vector_##T min_##T(vector_##T limit, vector_##T x) { return _mm512_min_##ps(limit, x); } \
    SIMD_INLINE mask_##T greater_##T(vector_##T later, vector_##T best) { \
        return _mm512_cmp_##ps##_mask(later, best, _CMP_GT_OQ); \
    } \
    SIMD_INLINE mask_##T is_nan_##T(vector_##T x) { return _mm512_cmp_##ps##_mask(x, x, _CMP_UNORD_Q); } \
    SIMD_IN_ORDER(T)

/* float32 */
SIMD_FLOATS_AVX512(float4, ps, __m512, 32, 16)
SIMD_INLINE vector_float4 first_of_pairs_float4(vector_float4 x, vector_float4 y) {
    return _mm512_permutex2var_ps(x, _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), y);
}
SIMD_INLINE vector_float4 second_of_pairs_float4(vector_float4 x, vector_float4 y) {
    return _mm512_permutex2var_ps(x, _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31), y);
}
/* `last` is a broadcast: a load at an odd multiple of 8 bytes would cross a cache line. */
SIMD_INLINE vector_float4 next_first_of_pairs_float4(vector_float4 first, const char *row, vector_float4 *last) {
    *last = _mm512_set1_ps(*(const float4 *) (row + 8 * LANES_float4));
    return _mm512_castsi512_ps(_mm512_alignr_epi32(_mm512_castps_si512(*last), _mm512_castps_si512(first), 1));
}
SIMD_INLINE void store_code_bytes_float4(char *to, codes_float4 c) {
    _mm_storeu_si128((__m128i *) to, _mm512_cvtepi32_epi8(c));
}
SIMD_INLINE void store_indices4_float4(char *to, codes_float4 c) { _mm512_storeu_si512(to, c); }
SIMD_INLINE void store_indices8_float4(char *to, codes_float4 c) {
    _mm512_storeu_si512(to, _mm512_cvtepi32_epi64(_mm512_castsi512_si256(c)));
    _mm512_storeu_si512(to + 64, _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(c, 1)));
}
SIMD_INLINE void stream_indices8_float4(char *to, codes_float4 c) {  // unreached: large arrays, in slow tests
    _mm512_stream_si512((__m512i *) to, _mm512_cvtepi32_epi64(_mm512_castsi512_si256(c)));  // unreached
    _mm512_stream_si512((__m512i *) (to + 64), _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(c, 1)));  // unreached
}  // unreached: large arrays, in slow tests

/* float64 */
SIMD_FLOATS_AVX512(float8, pd, __m512d, 64, 8)
SIMD_INLINE vector_float8 first_of_pairs_float8(vector_float8 x, vector_float8 y) {
    return _mm512_permutex2var_pd(x, _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), y);
}
SIMD_INLINE vector_float8 second_of_pairs_float8(vector_float8 x, vector_float8 y) {
    return _mm512_permutex2var_pd(x, _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15), y);
}
SIMD_INLINE void store_code_bytes_float8(char *to, codes_float8 c) {
    _mm_storel_epi64((__m128i *) to, _mm512_cvtepi64_epi8(c));
}
SIMD_INLINE void store_indices4_float8(char *to, codes_float8 c) {
    _mm256_storeu_si256((__m256i *) to, _mm512_cvtepi64_epi32(c));
}

/* int32 and int64 */
SIMD_INTEGERS_AVX512(int4, 32, __mmask16, epi32)
SIMD_INTEGERS_AVX512(int8, 64, __mmask8, epi64)
SIMD_IN_ORDER(int4)
SIMD_IN_ORDER(int8)

/* uint8: first_of_pairs_item1 works in quarters of a vector, because without VBMI no instruction takes bytes from two
   vectors. */
SIMD_INTEGERS_AVX512(item1, 8, __mmask64, epu8)
SIMD_PAIRS_OF_BYTES
#define SIMD_BYTES_COMPARED SIMD_ALIKE
SIMD_INLINE vector_item1 in_order_item1(vector_item1 x) {
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), x);
}
SIMD_INLINE codes_item1 in_order_codes_item1(codes_item1 c) { return in_order_item1(c); }
SIMD_INLINE int deinterleaved_lane_item1(int i) { return i / 16 * 8 + i / 8 % 2 * 32 + i % 8; }

/* int16, and half in its order */
SIMD_INTEGERS_AVX512(int2, 16, __mmask32, epi16)
SIMD_INTEGERS_AVX512(half, 16, __mmask32, epi16)
SIMD_IN_ORDER(int2)
SIMD_IN_ORDER(half)
SIMD_INLINE vector_int2 sign_int2(vector_int2 x) { return _mm512_srai_epi16(x, 15); }
SIMD_INLINE int is_any_int2(mask_int2 m) { return m != 0; }
/* The lanes `first`, `first` + `next` and so on. Each 32 bits hold two 16-bit numbers of lanes. */
SIMD_INLINE vector_int2 lanes_from_int2(vector_int2 x, vector_int2 y, int first, int next) {
    const __m512i ramp = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i pairs = _mm512_mullo_epi32(ramp, _mm512_set1_epi32(2 * next * 0x10001));
    return _mm512_permutex2var_epi16(x, _mm512_add_epi32(pairs, _mm512_set1_epi32(first | (first + next) << 16)), y);
}
SIMD_INLINE vector_int2 first_of_pairs_int2(vector_int2 x, vector_int2 y) { return lanes_from_int2(x, y, 0, 2); }
SIMD_INLINE vector_int2 second_of_pairs_int2(vector_int2 x, vector_int2 y) { return lanes_from_int2(x, y, 1, 2); }
SIMD_INLINE vector_int2 next_first_of_pairs_int2(vector_int2 first, const char *row, vector_int2 *last) {
    *last = _mm512_set1_epi16((short) *(const item2 *) (row + 128));
    return lanes_from_int2(first, *last, 1, 1);
}
SIMD_INLINE void store_code_bytes_int2(char *to, codes_int2 c) {
    _mm256_storeu_si256((__m256i *) to, _mm512_cvtepi16_epi8(c));
}
