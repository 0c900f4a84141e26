/* The operations of simd.h in vectors of 64 bytes, with the instructions of x86-64-v4. */
#include <immintrin.h>

enum { CUNPOOL_VECTOR_BYTES = 64 };
#define SIMD_HAS_STREAM  /* a vector is a whole cache line */

/* What all types share: codes are integers of `bits` each, and a mask has a bit for each. */
#define SIMD_CODES_AVX512(T, bits, mask) \
    typedef __m512i codes_##T; \
    typedef mask mask_##T; \
    enum { LANES_##T = 512 / bits }; \
    SIMD_INLINE codes_##T broadcast_codes_##T(int64_t x) { return _mm512_set1_epi##bits((int##bits##_t) x); } \
    SIMD_INLINE codes_##T add_codes_##T(codes_##T a, codes_##T b) { return _mm512_add_epi##bits(a, b); } \
    SIMD_INLINE codes_##T subtract_codes_##T(codes_##T a, codes_##T b) { return _mm512_sub_epi##bits(a, b); } \
    SIMD_INLINE codes_##T select_codes_##T(mask_##T m, codes_##T a, codes_##T b) { \
        return _mm512_mask_mov_epi##bits(a, m, b); \
    }

/* Integers of `bits`, in vectors of the type of their codes. */
#define SIMD_INTEGERS_AVX512(T, bits, mask) \
    SIMD_CODES_AVX512(T, bits, mask) \
    typedef __m512i vector_##T; \
    SIMD_INLINE vector_##T load_##T(const char *from) { return _mm512_loadu_si512(from); } \
    SIMD_INLINE void store_##T(char *to, vector_##T x) { _mm512_storeu_si512(to, x); } \
    SIMD_INLINE void stream_##T(char *to, vector_##T x) { _mm512_stream_si512((__m512i *) to, x); } \
    SIMD_INLINE vector_##T select_##T(mask_##T m, vector_##T a, vector_##T b) { \
        return _mm512_mask_mov_epi##bits(a, m, b); \
    }

/* float32 and float64, whose instructions end in `ps` and `pd`. */
#define SIMD_FLOATS_AVX512(T, number, ps, vector, bits, lanes) \
    SIMD_CODES_AVX512(T, bits, __mmask##lanes) \
    typedef vector vector_##T; \
    typedef mask_##T odd_##T; \
    SIMD_INLINE vector_##T load_##T(const char *from) { return _mm512_loadu_##ps((const number *) from); } \
    SIMD_INLINE void store_##T(char *to, vector_##T x) { _mm512_storeu_##ps((number *) to, x); } \
    SIMD_INLINE void stream_##T(char *to, vector_##T x) { _mm512_stream_##ps((number *) to, x); } \
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
    SIMD_INLINE vector_##T select_##T(mask_##T m, vector_##T a, vector_##T b) { \
        return _mm512_mask_mov_##ps(a, m, b); \
    } \
    SIMD_IN_ORDER(T)

/* float32 */
SIMD_FLOATS_AVX512(float4, float, ps, __m512, 32, 16)
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
SIMD_INLINE void stream_indices8_float4(char *to, codes_float4 c) {
    _mm512_stream_si512((__m512i *) to, _mm512_cvtepi32_epi64(_mm512_castsi512_si256(c)));
    _mm512_stream_si512((__m512i *) (to + 64), _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(c, 1)));
}

/* float64 */
SIMD_FLOATS_AVX512(float8, double, pd, __m512d, 64, 8)
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

/* int32 */
SIMD_INTEGERS_AVX512(int4, 32, __mmask16)
SIMD_IN_ORDER(int4)
SIMD_INLINE vector_int4 max_int4(vector_int4 best, vector_int4 later) { return _mm512_max_epi32(best, later); }
SIMD_INLINE vector_int4 min_int4(vector_int4 limit, vector_int4 x) { return _mm512_min_epi32(limit, x); }
SIMD_INLINE mask_int4 greater_int4(vector_int4 later, vector_int4 best) { return _mm512_cmpgt_epi32_mask(later, best); }

/* int64 */
SIMD_INTEGERS_AVX512(int8, 64, __mmask8)
SIMD_IN_ORDER(int8)
SIMD_INLINE vector_int8 max_int8(vector_int8 best, vector_int8 later) { return _mm512_max_epi64(best, later); }
SIMD_INLINE vector_int8 min_int8(vector_int8 limit, vector_int8 x) { return _mm512_min_epi64(limit, x); }
SIMD_INLINE mask_int8 greater_int8(vector_int8 later, vector_int8 best) { return _mm512_cmpgt_epi64_mask(later, best); }

/* uint8: first_of_pairs_item1 works in quarters of a vector, because without VBMI no instruction takes bytes from two
   vectors. */
SIMD_INTEGERS_AVX512(item1, 8, __mmask64)
SIMD_INLINE vector_item1 max_item1(vector_item1 best, vector_item1 later) { return _mm512_max_epu8(best, later); }
SIMD_INLINE vector_item1 min_item1(vector_item1 limit, vector_item1 x) { return _mm512_min_epu8(limit, x); }
SIMD_INLINE mask_item1 greater_item1(vector_item1 later, vector_item1 best) {
    return _mm512_cmpgt_epu8_mask(later, best);
}
SIMD_INLINE void take_item1(vector_item1 *best, codes_item1 *code, vector_item1 later, codes_item1 later_code) {
    *code = select_codes_item1(greater_item1(later, *best), *code, later_code);
    *best = max_item1(*best, later);
}
SIMD_INLINE vector_item1 first_of_pairs_item1(vector_item1 x, vector_item1 y) {
    const __m512i low = _mm512_set1_epi16(0xFF);
    return _mm512_packus_epi16(_mm512_and_si512(x, low), _mm512_and_si512(y, low));
}
SIMD_INLINE vector_item1 second_of_pairs_item1(vector_item1 x, vector_item1 y) {
    return _mm512_packus_epi16(_mm512_srli_epi16(x, 8), _mm512_srli_epi16(y, 8));
}
SIMD_NEXT_PAIRS(item1, 1)
SIMD_INLINE vector_item1 in_order_item1(vector_item1 x) {
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), x);
}
SIMD_INLINE codes_item1 in_order_codes_item1(codes_item1 c) { return in_order_item1(c); }
SIMD_INLINE int deinterleaved_lane_item1(int i) { return i / 16 * 8 + i / 8 % 2 * 32 + i % 8; }

/* int16, and half in its order */
SIMD_INTEGERS_AVX512(int2, 16, __mmask32)
SIMD_IN_ORDER(int2)
SIMD_INTEGERS_AVX512(half, 16, __mmask32)
SIMD_IN_ORDER(half)
SIMD_INLINE vector_int2 sign_int2(vector_int2 x) { return _mm512_srai_epi16(x, 15); }
SIMD_INLINE vector_int2 max_int2(vector_int2 best, vector_int2 later) { return _mm512_max_epi16(best, later); }
SIMD_INLINE vector_int2 min_int2(vector_int2 limit, vector_int2 x) { return _mm512_min_epi16(limit, x); }
SIMD_INLINE mask_int2 greater_int2(vector_int2 later, vector_int2 best) { return _mm512_cmpgt_epi16_mask(later, best); }
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

/* Codes as indices. */
SIMD_INLINE void look_up_offsets(int32_t *to, const uint8_t *number, const int32_t *table, int32_t first) {
    const __m512i at = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *) number));
    const __m512i offsets = _mm512_cmpgt_epi32_mask(at, _mm512_set1_epi32(31))
        ? _mm512_i32gather_epi32(at, table, 4)
        : _mm512_permutex2var_epi32(_mm512_loadu_si512(table), at, _mm512_loadu_si512(table + 16));
    _mm512_storeu_si512(to, _mm512_add_epi32(offsets, _mm512_set1_epi32(first)));
}
SIMD_INLINE void add_to_offsets4(char *to, const uint16_t *offset, int32_t first) {
    const __m512i further = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *) offset));
    _mm512_storeu_si512(to, _mm512_add_epi32(further, _mm512_set1_epi32(first)));
}
