#ifndef CUNPOOL_POOLING_SIMD_PORTABLE_H
#define CUNPOOL_POOLING_SIMD_PORTABLE_H

/* The operations of simd.h in vectors of 16 bytes, as GCC and Clang compile them for any processor. With SSE2 a few
   instructions are named that compilers do not find by themselves. */
#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define SIMD_INLINE static CUNPOOL_INLINE
enum { CUNPOOL_VECTOR_BYTES = 16 };
#if defined(__clang__)
#define SIMD_SHUFFLE(T, x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define SIMD_SHUFFLE(T, x, y, ...) __builtin_shuffle(x, y, (codes_##T) {__VA_ARGS__})
#endif

/* What all types share: an element, and the integer of the same width that is its code. */
#define SIMD_TYPE_PORTABLE(T, element, integer) \
    typedef element vector_##T __attribute__((vector_size(16))); \
    typedef integer codes_##T __attribute__((vector_size(16))); \
    typedef codes_##T mask_##T; \
    enum { LANES_##T = 16 / (int) sizeof(element) }; \
    SIMD_INLINE vector_##T load_##T(const char *from) { vector_##T x; memcpy(&x, from, 16); return x; } \
    SIMD_INLINE void store_##T(char *to, vector_##T x) { memcpy(to, &x, 16); } \
    SIMD_INLINE codes_##T broadcast_codes_##T(int64_t x) { return (codes_##T) {0} + (integer) x; } \
    SIMD_INLINE codes_##T add_codes_##T(codes_##T a, codes_##T b) { return a + b; } \
    SIMD_INLINE codes_##T subtract_codes_##T(codes_##T a, codes_##T b) { return a - b; } \
    SIMD_INLINE mask_##T greater_##T(vector_##T later, vector_##T best) { return (mask_##T) (later > best); } \
    SIMD_INLINE codes_##T select_codes_##T(mask_##T m, codes_##T a, codes_##T b) { return (b & m) | (a & ~m); } \
    SIMD_INLINE vector_##T select_##T(mask_##T m, vector_##T a, vector_##T b) { \
        return (vector_##T) select_codes_##T(m, (codes_##T) a, (codes_##T) b); \
    } \
    SIMD_INLINE vector_##T in_order_##T(vector_##T x) { return x; } \
    SIMD_INLINE codes_##T in_order_codes_##T(codes_##T c) { return c; } \
    SIMD_INLINE int deinterleaved_lane_##T(int i) { return i; } \
    SIMD_INLINE int is_any_##T(mask_##T m) { \
        uint64_t half[2]; \
        memcpy(half, &m, sizeof half); \
        return (half[0] | half[1]) != 0; \
    }

/* float32 */
SIMD_TYPE_PORTABLE(float4, float, int32_t)
typedef codes_float4 odd_float4;
SIMD_INLINE vector_float4 key_float4(vector_float4 x, int magnitude) { (void) magnitude; return x; }
SIMD_INLINE vector_float4 bits_float4(vector_float4 x, int magnitude) { (void) magnitude; return x; }
SIMD_INLINE odd_float4 nothing_odd_float4(void) { return (odd_float4) {0}; }
SIMD_INLINE int is_odd_float4(odd_float4 odd, int infinity) { (void) infinity; return is_any_float4(odd); }
#if defined(__SSE2__)
SIMD_INLINE void stream_float4(char *to, vector_float4 x) { _mm_stream_ps((float *) to, x); }
SIMD_INLINE vector_float4 max_float4(vector_float4 best, vector_float4 later) { return _mm_max_ps(later, best); }
SIMD_INLINE vector_float4 min_float4(vector_float4 limit, vector_float4 x) { return _mm_min_ps(limit, x); }
SIMD_INLINE odd_float4 note_float4(odd_float4 odd, vector_float4 x, vector_float4 y) {
    return odd | (codes_float4) _mm_cmpunord_ps(x, y);
}
#else
SIMD_INLINE void stream_float4(char *to, vector_float4 x) { store_float4(to, x); }
SIMD_INLINE vector_float4 max_float4(vector_float4 best, vector_float4 later) {
    return select_float4(greater_float4(later, best), best, later);
}
SIMD_INLINE vector_float4 min_float4(vector_float4 limit, vector_float4 x) {
    return select_float4(greater_float4(x, limit), x, limit);
}
SIMD_INLINE odd_float4 note_float4(odd_float4 odd, vector_float4 x, vector_float4 y) {
    return odd | (x != x) | (y != y);
}
#endif
SIMD_INLINE mask_float4 beats_float4(vector_float4 later, vector_float4 best, int infinity) {
    (void) infinity;
    return (later > best) | (later != later);
}
SIMD_INLINE void take_float4(vector_float4 *best, codes_float4 *code, vector_float4 later, codes_float4 later_code) {
    const mask_float4 beaten = greater_float4(later, *best);
    *best = max_float4(*best, later);
    *code = select_codes_float4(beaten, *code, later_code);
}
SIMD_INLINE vector_float4 limit_exactly_float4(vector_float4 limit, vector_float4 x) {
    return select_float4(greater_float4(limit, (vector_float4) {0} - INFINITY), limit, x);
}
SIMD_INLINE vector_float4 even_float4(vector_float4 x, vector_float4 y) { return SIMD_SHUFFLE(float4, x, y, 0, 2, 4, 6); }
SIMD_INLINE vector_float4 odd_of_float4(vector_float4 x, vector_float4 y) { return SIMD_SHUFFLE(float4, x, y, 1, 3, 5, 7); }
SIMD_INLINE vector_float4 next_even_float4(vector_float4 even, const char *row, odd_float4 *odd, int is_noted) {
    vector_float4 y = load_float4(row + 4 * (LANES_float4 + 2));
    (void) even;
    if (is_noted)
        *odd = note_float4(*odd, y, y);
    return even_float4(load_float4(row + 8), y);
}
SIMD_INLINE void store_code_bytes_float4(char *to, codes_float4 c) {
    uint32_t lane[4];
    memcpy(lane, &c, sizeof lane);
#if defined(__SSE2__)
    __m128i words = _mm_packs_epi32((__m128i) c, (__m128i) c);
    lane[0] = (uint32_t) _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    memcpy(to, lane, 4);
#else
    to[0] = (char) lane[0], to[1] = (char) lane[1], to[2] = (char) lane[2], to[3] = (char) lane[3];
#endif
}
SIMD_INLINE void store_indices4_float4(char *to, codes_float4 c) { memcpy(to, &c, 16); }
SIMD_INLINE void store_indices8_float4(char *to, codes_float4 c, int is_streamed) {
    const codes_float4 sign = c >> 31;
    const codes_float4 low = SIMD_SHUFFLE(float4, c, sign, 0, 4, 1, 5);
    const codes_float4 high = SIMD_SHUFFLE(float4, c, sign, 2, 6, 3, 7);
#if defined(__SSE2__)
    if (is_streamed) {
        _mm_stream_si128((__m128i *) to, (__m128i) low);
        _mm_stream_si128((__m128i *) (to + 16), (__m128i) high);
        return;
    }
#endif
    (void) is_streamed;
    memcpy(to, &low, 16);
    memcpy(to + 16, &high, 16);
}

#endif
