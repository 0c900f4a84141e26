#ifndef CUNPOOL_POOLING_SIMD_AVX512_H
#define CUNPOOL_POOLING_SIMD_AVX512_H

/* The operations of simd.h in vectors of 64 bytes, with the instructions of x86-64-v4. */
#include <immintrin.h>
#include <math.h>
#include <stdint.h>

#define SIMD_INLINE static CUNPOOL_INLINE
enum { CUNPOOL_VECTOR_BYTES = 64 };

/* What all types share: codes are integers of `bits` each, and a mask has a bit for each. */
#define SIMD_CODES_AVX512(T, bits, mask) \
    typedef __m512i codes_##T; \
    typedef mask mask_##T; \
    enum { LANES_##T = 512 / bits }; \
    SIMD_INLINE codes_##T broadcast_codes_##T(int64_t x) { return _mm512_set1_##bits(x); } \
    SIMD_INLINE codes_##T load_codes_##T(const void *from) { return _mm512_loadu_si512(from); } \
    SIMD_INLINE codes_##T add_codes_##T(codes_##T a, codes_##T b) { return _mm512_add_epi##bits(a, b); } \
    SIMD_INLINE codes_##T subtract_codes_##T(codes_##T a, codes_##T b) { return _mm512_sub_epi##bits(a, b); } \
    SIMD_INLINE codes_##T select_codes_##T(mask_##T m, codes_##T a, codes_##T b) { \
        return _mm512_mask_mov_epi##bits(a, m, b); \
    }
#define _mm512_set1_8(x) _mm512_set1_epi8((char) (x))
#define _mm512_set1_16(x) _mm512_set1_epi16((short) (x))
#define _mm512_set1_32(x) _mm512_set1_epi32((int32_t) (x))
#define _mm512_set1_64(x) _mm512_set1_epi64(x)

/* float32 */
SIMD_CODES_AVX512(float4, 32, __mmask16)
typedef __m512 vector_float4;
typedef __mmask16 odd_float4;
SIMD_INLINE vector_float4 load_float4(const char *from) { return _mm512_loadu_ps(from); }
SIMD_INLINE void store_float4(char *to, vector_float4 x) { _mm512_storeu_ps(to, x); }
SIMD_INLINE void stream_float4(char *to, vector_float4 x) { _mm512_stream_ps((float *) to, x); }
SIMD_INLINE vector_float4 broadcast_float4(const char *from) { return _mm512_set1_ps(*(const float4 *) from); }
SIMD_INLINE vector_float4 key_float4(vector_float4 x, int magnitude) { (void) magnitude; return x; }
SIMD_INLINE vector_float4 bits_float4(vector_float4 x, int magnitude) { (void) magnitude; return x; }
SIMD_INLINE odd_float4 nothing_odd_float4(void) { return 0; }
SIMD_INLINE odd_float4 note_float4(odd_float4 odd, vector_float4 x, vector_float4 y) {
    return _kor_mask16(odd, _mm512_cmp_ps_mask(x, y, _CMP_UNORD_Q));
}
SIMD_INLINE int is_odd_float4(odd_float4 odd, int infinity) { (void) infinity; return odd != 0; }
SIMD_INLINE vector_float4 max_float4(vector_float4 best, vector_float4 later) { return _mm512_max_ps(later, best); }
SIMD_INLINE vector_float4 min_float4(vector_float4 limit, vector_float4 x) { return _mm512_min_ps(limit, x); }
SIMD_INLINE mask_float4 greater_float4(vector_float4 later, vector_float4 best) {
    return _mm512_cmp_ps_mask(later, best, _CMP_GT_OQ);
}
SIMD_INLINE mask_float4 beats_float4(vector_float4 later, vector_float4 best, int infinity) {
    (void) infinity;
    return _kor_mask16(_mm512_cmp_ps_mask(later, best, _CMP_GT_OQ), _mm512_cmp_ps_mask(later, later, _CMP_UNORD_Q));
}
SIMD_INLINE vector_float4 select_float4(mask_float4 m, vector_float4 a, vector_float4 b) {
    return _mm512_mask_mov_ps(a, m, b);
}
SIMD_INLINE void take_float4(vector_float4 *best, codes_float4 *code, vector_float4 later, codes_float4 later_code) {
    const mask_float4 beaten = greater_float4(later, *best);
    *best = max_float4(*best, later);
    *code = select_codes_float4(beaten, *code, later_code);
}
/* x, or the limit where that is the lowest number. */
SIMD_INLINE vector_float4 limit_exactly_float4(vector_float4 limit, vector_float4 x) {
    return select_float4(greater_float4(limit, _mm512_set1_ps(-INFINITY)), limit, x);
}
SIMD_INLINE vector_float4 even_float4(vector_float4 x, vector_float4 y) {
    return _mm512_permutex2var_ps(x, _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), y);
}
SIMD_INLINE vector_float4 odd_of_float4(vector_float4 x, vector_float4 y) {
    return _mm512_permutex2var_ps(x, _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31), y);
}
SIMD_INLINE vector_float4 in_order_float4(vector_float4 x) { return x; }
SIMD_INLINE codes_float4 in_order_codes_float4(codes_float4 c) { return c; }
SIMD_INLINE int deinterleaved_lane_float4(int i) { return i; }
/* The even elements behind those of `even`, one by a broadcast: loads at odd multiples of 8 bytes all cross lines. */
SIMD_INLINE vector_float4 next_even_float4(vector_float4 even, const char *row, odd_float4 *odd, int is_noted) {
    vector_float4 last = broadcast_float4(row + 8 * LANES_float4);
    if (is_noted)
        *odd = note_float4(*odd, last, last);
    return _mm512_castsi512_ps(_mm512_alignr_epi32(_mm512_castps_si512(last), _mm512_castps_si512(even), 1));
}
SIMD_INLINE void store_code_bytes_float4(char *to, codes_float4 c) {
    _mm_storeu_si128((__m128i *) to, _mm512_cvtepi32_epi8(c));
}
SIMD_INLINE void store_indices4_float4(char *to, codes_float4 c) { _mm512_storeu_si512(to, c); }
SIMD_INLINE void store_indices8_float4(char *to, codes_float4 c, int is_streamed) {
    __m512i low = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(c));
    __m512i high = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(c, 1));
    if (is_streamed) {
        _mm512_stream_si512((__m512i *) to, low);
        _mm512_stream_si512((__m512i *) (to + 64), high);
    } else {
        _mm512_storeu_si512(to, low);
        _mm512_storeu_si512(to + 64, high);
    }
}

#endif
