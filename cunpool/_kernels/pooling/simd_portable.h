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
#define SIMD_SHUFFLE(T, x, y, ...) CUNPOOL_SHUFFLE(codes_##T, x, y, __VA_ARGS__)

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

/* float32 and float64. With SSE2 their instructions end in `ps` and `pd`. */
#if defined(__SSE2__)
#define SIMD_FLOATS_MAX(T, number, ps) \
    SIMD_INLINE void stream_##T(char *to, vector_##T x) { _mm_stream_##ps((number *) to, x); } \
    SIMD_INLINE vector_##T max_##T(vector_##T best, vector_##T later) { return _mm_max_##ps(later, best); } \
    SIMD_INLINE vector_##T min_##T(vector_##T limit, vector_##T x) { return _mm_min_##ps(limit, x); } \
    SIMD_INLINE odd_##T note_pair_##T(odd_##T odd, vector_##T x, vector_##T y) { \
        return odd | (codes_##T) _mm_cmpunord_##ps(x, y); \
    }
#else
#define SIMD_FLOATS_MAX(T, number, ps) \
    SIMD_INLINE void stream_##T(char *to, vector_##T x) { store_##T(to, x); } \
    SIMD_INLINE vector_##T max_##T(vector_##T best, vector_##T later) { \
        return select_##T(greater_##T(later, best), best, later); \
    } \
    SIMD_INLINE vector_##T min_##T(vector_##T limit, vector_##T x) { \
        return select_##T(greater_##T(x, limit), x, limit); \
    } \
    SIMD_INLINE odd_##T note_pair_##T(odd_##T odd, vector_##T x, vector_##T y) { return odd | (x != x) | (y != y); }
#endif
#define SIMD_FLOATS_PORTABLE(T, number, integer, ps) \
    SIMD_TYPE_PORTABLE(T, number, integer) \
    typedef codes_##T odd_##T; \
    SIMD_FLOATS_MAX(T, number, ps) \
    SIMD_INLINE vector_##T key_##T(vector_##T x, int magnitude, codes_##T flip) { \
        (void) magnitude; \
        return (vector_##T) ((codes_##T) x ^ flip); \
    } \
    SIMD_INLINE vector_##T bits_##T(vector_##T x, int magnitude, codes_##T flip) { \
        return key_##T(x, magnitude, flip); \
    } \
    SIMD_INLINE odd_##T nothing_odd_##T(void) { return (odd_##T) {0}; } \
    SIMD_INLINE odd_##T note_##T(odd_##T odd, vector_##T x) { return note_pair_##T(odd, x, x); } \
    SIMD_INLINE int is_odd_##T(odd_##T odd, int infinity) { (void) infinity; return is_any_##T(odd); } \
    SIMD_INLINE mask_##T beats_##T(vector_##T later, vector_##T best, int infinity) { \
        (void) infinity; \
        return (later > best) | (later != later); \
    } \
    SIMD_INLINE mask_##T beats_omitting_##T(vector_##T later, vector_##T best, int infinity) { \
        (void) infinity; \
        return (later > best) | ((best != best) & (later == later)); \
    } \
    SIMD_INLINE void take_##T(vector_##T *best, codes_##T *code, vector_##T later, codes_##T later_code) { \
        const mask_##T beaten = greater_##T(later, *best); \
        *best = max_##T(*best, later); \
        *code = select_codes_##T(beaten, *code, later_code); \
    } \
    SIMD_INLINE vector_##T limit_exactly_##T(vector_##T limit, vector_##T x, vector_##T outside) { \
        return select_##T(greater_##T(limit, (vector_##T) {0}), outside, x); \
    }

/* float32 */
SIMD_FLOATS_PORTABLE(float4, float, int32_t, ps)
SIMD_INLINE vector_float4 even_float4(vector_float4 x, vector_float4 y) { return SIMD_SHUFFLE(float4, x, y, 0, 2, 4, 6); }
SIMD_INLINE vector_float4 odd_of_float4(vector_float4 x, vector_float4 y) { return SIMD_SHUFFLE(float4, x, y, 1, 3, 5, 7); }
SIMD_INLINE vector_float4 next_even_float4(vector_float4 even, const char *row, odd_float4 *odd, int is_noted) {
    vector_float4 y = load_float4(row + 4 * (LANES_float4 + 2));
    (void) even;
    if (is_noted)
        *odd = note_float4(*odd, y);
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
#if defined(__SSE2__)
    const codes_float4 sign = c >> 31;
    const codes_float4 low = SIMD_SHUFFLE(float4, c, sign, 0, 4, 1, 5);
    const codes_float4 high = SIMD_SHUFFLE(float4, c, sign, 2, 6, 3, 7);
    if (is_streamed) {
        _mm_stream_si128((__m128i *) to, (__m128i) low);
        _mm_stream_si128((__m128i *) (to + 16), (__m128i) high);
    } else {
        memcpy(to, &low, 16);
        memcpy(to + 16, &high, 16);
    }
#else
    int i;
    (void) is_streamed;
    for (i = 0; i < 4; i++)
        ((index8 *) to)[i] = c[i];
#endif
}

/* float64 */
SIMD_FLOATS_PORTABLE(float8, double, int64_t, pd)
SIMD_INLINE void store_indices4_float8(char *to, codes_float8 c) {
    ((index4 *) to)[0] = (int32_t) c[0];
    ((index4 *) to)[1] = (int32_t) c[1];
}
SIMD_INLINE void store_code_bytes_float8(char *to, codes_float8 c) { to[0] = (char) c[0], to[1] = (char) c[1]; }

/* uint8 */
SIMD_TYPE_PORTABLE(item1, uint8_t, uint8_t)
typedef int odd_item1;
SIMD_INLINE vector_item1 key_item1(vector_item1 x, int magnitude, codes_item1 flip) {
    (void) magnitude;
    return x ^ flip;
}
SIMD_INLINE vector_item1 bits_item1(vector_item1 x, int magnitude, codes_item1 flip) {
    (void) magnitude;
    return x ^ flip;
}
SIMD_INLINE odd_item1 nothing_odd_item1(void) { return 0; }
SIMD_INLINE odd_item1 note_item1(odd_item1 odd, vector_item1 x) { (void) x; return odd; }
SIMD_INLINE odd_item1 note_pair_item1(odd_item1 odd, vector_item1 x, vector_item1 y) { (void) x; (void) y; return odd; }
SIMD_INLINE int is_odd_item1(odd_item1 odd, int infinity) { (void) infinity; return odd; }
#if defined(__SSE2__)
SIMD_INLINE void stream_item1(char *to, vector_item1 x) { _mm_stream_si128((__m128i *) to, (__m128i) x); }
SIMD_INLINE vector_item1 max_item1(vector_item1 best, vector_item1 later) {
    return (vector_item1) _mm_max_epu8((__m128i) best, (__m128i) later);
}
SIMD_INLINE vector_item1 min_item1(vector_item1 limit, vector_item1 x) {
    return (vector_item1) _mm_min_epu8((__m128i) limit, (__m128i) x);
}
SIMD_INLINE vector_item1 even_item1(vector_item1 x, vector_item1 y) {
    const __m128i low = _mm_set1_epi16(0xFF);
    return (vector_item1) _mm_packus_epi16(_mm_and_si128((__m128i) x, low), _mm_and_si128((__m128i) y, low));
}
SIMD_INLINE vector_item1 odd_of_item1(vector_item1 x, vector_item1 y) {
    return (vector_item1) _mm_packus_epi16(_mm_srli_epi16((__m128i) x, 8), _mm_srli_epi16((__m128i) y, 8));
}
#else
SIMD_INLINE void stream_item1(char *to, vector_item1 x) { store_item1(to, x); }
SIMD_INLINE vector_item1 max_item1(vector_item1 best, vector_item1 later) {
    return select_item1(greater_item1(later, best), best, later);
}
SIMD_INLINE vector_item1 min_item1(vector_item1 limit, vector_item1 x) {
    return select_item1(greater_item1(x, limit), x, limit);
}
SIMD_INLINE vector_item1 even_item1(vector_item1 x, vector_item1 y) {
    return SIMD_SHUFFLE(item1, x, y, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}
SIMD_INLINE vector_item1 odd_of_item1(vector_item1 x, vector_item1 y) {
    return SIMD_SHUFFLE(item1, x, y, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}
#endif
/* SSE2 compares unsigned bytes for equality alone. */
SIMD_INLINE void take_item1(vector_item1 *best, codes_item1 *code, vector_item1 later, codes_item1 later_code) {
    const vector_item1 highest = max_item1(*best, later);
    *code = select_codes_item1((mask_item1) (highest == *best), later_code, *code);
    *best = highest;
}
SIMD_INLINE vector_item1 next_even_item1(vector_item1 even, const char *row, odd_item1 *odd, int is_noted) {
    (void) even, (void) odd, (void) is_noted;
    return even_item1(load_item1(row + 2), load_item1(row + 18));
}
SIMD_INLINE void store_code_bytes_item1(char *to, codes_item1 c) { store_item1(to, c); }

/* float16 and bfloat16: as int16 in the order of the numbers, negative zero below positive zero. */
SIMD_TYPE_PORTABLE(half, int16_t, int16_t)
typedef struct { vector_half largest, lowest; } odd_half;
SIMD_INLINE vector_half ordered_half(vector_half x, int magnitude) { return x ^ ((x >> 15) & (int16_t) magnitude); }
SIMD_INLINE vector_half key_half(vector_half x, int magnitude, codes_half flip) {
    return ordered_half(x ^ flip, magnitude);
}
SIMD_INLINE vector_half bits_half(vector_half x, int magnitude, codes_half flip) {
    return ordered_half(x, magnitude) ^ flip;
}
SIMD_INLINE odd_half nothing_odd_half(void) { return (odd_half) {{0}, {0}}; }
#if defined(__SSE2__)
SIMD_INLINE void stream_half(char *to, vector_half x) { _mm_stream_si128((__m128i *) to, (__m128i) x); }
SIMD_INLINE vector_half max_half(vector_half best, vector_half later) {
    return (vector_half) _mm_max_epi16((__m128i) best, (__m128i) later);
}
SIMD_INLINE vector_half min_half(vector_half limit, vector_half x) {
    return (vector_half) _mm_min_epi16((__m128i) limit, (__m128i) x);
}
SIMD_INLINE vector_half even_half(vector_half x, vector_half y) {
    return (vector_half) _mm_packs_epi32(_mm_srai_epi32(_mm_slli_epi32((__m128i) x, 16), 16),
                                         _mm_srai_epi32(_mm_slli_epi32((__m128i) y, 16), 16));
}
SIMD_INLINE vector_half odd_of_half(vector_half x, vector_half y) {
    return (vector_half) _mm_packs_epi32(_mm_srai_epi32((__m128i) x, 16), _mm_srai_epi32((__m128i) y, 16));
}
SIMD_INLINE void store_code_bytes_half(char *to, codes_half c) {
    _mm_storel_epi64((__m128i *) to, _mm_packus_epi16((__m128i) c, (__m128i) c));
}
#else
SIMD_INLINE void stream_half(char *to, vector_half x) { store_half(to, x); }
SIMD_INLINE vector_half max_half(vector_half best, vector_half later) {
    return select_half(greater_half(later, best), best, later);
}
SIMD_INLINE vector_half min_half(vector_half limit, vector_half x) {
    return select_half(greater_half(x, limit), x, limit);
}
SIMD_INLINE vector_half even_half(vector_half x, vector_half y) {
    return SIMD_SHUFFLE(half, x, y, 0, 2, 4, 6, 8, 10, 12, 14);
}
SIMD_INLINE vector_half odd_of_half(vector_half x, vector_half y) {
    return SIMD_SHUFFLE(half, x, y, 1, 3, 5, 7, 9, 11, 13, 15);
}
SIMD_INLINE void store_code_bytes_half(char *to, codes_half c) {
    int i;
    for (i = 0; i < LANES_half; i++)
        to[i] = (char) c[i];
}
#endif
SIMD_INLINE odd_half note_half(odd_half odd, vector_half x) {
    odd.largest = max_half(odd.largest, x & 0x7FFF);
    odd.lowest = min_half(odd.lowest, x);
    return odd;
}
SIMD_INLINE odd_half note_pair_half(odd_half odd, vector_half x, vector_half y) {
    return note_half(note_half(odd, x), y);
}
SIMD_INLINE int is_odd_half(odd_half odd, int infinity) {
    return is_any_half((mask_half) (odd.largest > (int16_t) infinity) | (mask_half) (odd.lowest == INT16_MIN));
}
SIMD_INLINE mask_half is_nan_half(vector_half x, int infinity) { return (x ^ (x >> 15)) > (int16_t) infinity; }
/* Both zeros are 0. */
SIMD_INLINE mask_half is_greater_half(vector_half later, vector_half best) {
    return greater_half(later - (later >> 15), best - (best >> 15));
}
SIMD_INLINE mask_half beats_half(vector_half later, vector_half best, int infinity) {
    return (is_greater_half(later, best) & ~is_nan_half(best, infinity)) | is_nan_half(later, infinity);
}
SIMD_INLINE mask_half beats_omitting_half(vector_half later, vector_half best, int infinity) {
    return (is_greater_half(later, best) | is_nan_half(best, infinity)) & ~is_nan_half(later, infinity);
}
SIMD_INLINE void take_half(vector_half *best, codes_half *code, vector_half later, codes_half later_code) {
    const mask_half beaten = greater_half(later, *best);
    *best = max_half(*best, later);
    *code = select_codes_half(beaten, *code, later_code);
}
SIMD_INLINE vector_half limit_exactly_half(vector_half limit, vector_half x, vector_half outside) {
    return select_half(greater_half(limit, (vector_half) {0}), outside, x);
}
SIMD_INLINE vector_half next_even_half(vector_half even, const char *row, odd_half *odd, int is_noted) {
    const vector_half y = load_half(row + 20);
    (void) even;
    if (is_noted)
        *odd = note_half(*odd, y);
    return even_half(load_half(row + 4), y);
}

/* Codes as indices. */
#if defined(__SSE2__)
SIMD_INLINE void widen_codes(uint16_t *to, const uint8_t *code) {
    const __m128i bytes = _mm_loadu_si128((const __m128i *) code), zero = _mm_setzero_si128();
    _mm_storeu_si128((__m128i *) to, _mm_unpacklo_epi8(bytes, zero));
    _mm_storeu_si128((__m128i *) (to + 8), _mm_unpackhi_epi8(bytes, zero));
}
SIMD_INLINE void add_to_offsets4(char *to, const uint16_t *offset, int32_t first) {
    const __m128i further = _mm_unpacklo_epi16(_mm_loadl_epi64((const __m128i *) offset), _mm_setzero_si128());
    _mm_storeu_si128((__m128i *) to, _mm_add_epi32(further, _mm_set1_epi32(first)));
}
SIMD_INLINE void add_to_offsets8(char *to, const uint16_t *offset, int64_t first) {
    const __m128i further = _mm_set_epi64x(offset[1], offset[0]);
    _mm_storeu_si128((__m128i *) to, _mm_add_epi64(further, _mm_set1_epi64x(first)));
}
#else
SIMD_INLINE void widen_codes(uint16_t *to, const uint8_t *code) {
    int i;
    for (i = 0; i < 16; i++)
        to[i] = code[i];
}
SIMD_INLINE void add_to_offsets4(char *to, const uint16_t *offset, int32_t first) {
    int i;
    for (i = 0; i < 4; i++)
        ((index4 *) to)[i] = first + offset[i];
}
SIMD_INLINE void add_to_offsets8(char *to, const uint16_t *offset, int64_t first) {
    ((index8 *) to)[0] = first + offset[0];
    ((index8 *) to)[1] = first + offset[1];
}
#endif

#endif
