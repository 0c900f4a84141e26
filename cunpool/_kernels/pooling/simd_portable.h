/* The operations of simd.h in vectors of 16 bytes, as GCC and Clang compile them for any processor. With SSE2 a few
   instructions are named that compilers do not find by themselves. */
#if defined(__SSE2__)
#include <emmintrin.h>
#define MM(name) _mm_##name
#define MM_INTEGERS __m128i
#endif

enum { CUNPOOL_VECTOR_BYTES = 16 };
#define SIMD_SHUFFLE(T, x, y, ...) CUNPOOL_SHUFFLE(codes_##T, x, y, __VA_ARGS__)

/* What all types share: an element, and the integer of the same width that is its code. */
#define SIMD_TYPE_PORTABLE(T, element, integer) \
    typedef element vector_##T __attribute__((vector_size(16))); \
    typedef integer codes_##T __attribute__((vector_size(16))); \
    typedef codes_##T mask_##T; \
    SIMD_INLINE codes_##T broadcast_codes_##T(int64_t x) { return (codes_##T) {0} + (integer) x; } \
    SIMD_INLINE codes_##T add_codes_##T(codes_##T a, codes_##T b) { return a + b; } \
    SIMD_INLINE codes_##T subtract_codes_##T(codes_##T a, codes_##T b) { return a - b; } \
    SIMD_INLINE mask_##T greater_##T(vector_##T later, vector_##T best) { return (mask_##T) (later > best); } \
    SIMD_INLINE codes_##T select_codes_##T(mask_##T m, codes_##T a, codes_##T b) { return (b & m) | (a & ~m); } \
    SIMD_DERIVED(T) \
    SIMD_IN_ORDER(T) \
    SIMD_INLINE int is_any_##T(mask_##T m) { \
        uint64_t half[2]; \
        memcpy(half, &m, sizeof half); \
        return (half[0] | half[1]) != 0; \
    }

/* float32 and float64. With SSE2 their instructions end in `ps` and `pd`. */
#if defined(__SSE2__)
#define SIMD_FLOATS_MAX(T, ps) \
    SIMD_INLINE vector_##T max_##T(vector_##T best, vector_##T later) { return _mm_max_##ps(later, best); } \
    SIMD_INLINE vector_##T min_##T(vector_##T limit, vector_##T x) { return _mm_min_##ps(limit, x); } \
    SIMD_INLINE odd_##T note_pair_##T(odd_##T odd, vector_##T x, vector_##T y) { \
        return odd | (codes_##T) _mm_cmpunord_##ps(x, y); \
    }
#else
#define SIMD_FLOATS_MAX(T, ps) \
    SIMD_SELECTED_MAX(T) \
    SIMD_INLINE odd_##T note_pair_##T(odd_##T odd, vector_##T x, vector_##T y) { return odd | (x != x) | (y != y); }
#endif
#define SIMD_FLOATS_PORTABLE(T, number, integer, ps) \
    SIMD_TYPE_PORTABLE(T, number, integer) \
    typedef codes_##T odd_##T; \
    SIMD_FLOATS_MAX(T, ps) \
    SIMD_INLINE odd_##T nothing_odd_##T(void) { return (odd_##T) {0}; } \
    SIMD_INLINE int is_odd_##T(odd_##T odd, int infinity) { (void) infinity; return is_any_##T(odd); } \
    SIMD_INLINE mask_##T is_nan_##T(vector_##T x) { return x != x; }

/* float32 */
SIMD_FLOATS_PORTABLE(float4, float, int32_t, ps)
SIMD_INLINE vector_float4 first_of_pairs_float4(vector_float4 x, vector_float4 y) {
    return SIMD_SHUFFLE(float4, x, y, 0, 2, 4, 6);
}
SIMD_INLINE vector_float4 second_of_pairs_float4(vector_float4 x, vector_float4 y) {
    return SIMD_SHUFFLE(float4, x, y, 1, 3, 5, 7);
}
SIMD_NEXT_PAIRS(float4)
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
SIMD_INLINE void store_indices8_float4(char *to, codes_float4 c) {
    int i;
    for (i = 0; i < 4; i++)
        ((index8 *) to)[i] = c[i];
}

/* float64 */
SIMD_FLOATS_PORTABLE(float8, double, int64_t, pd)
SIMD_INLINE vector_float8 first_of_pairs_float8(vector_float8 x, vector_float8 y) {
    return SIMD_SHUFFLE(float8, x, y, 0, 2);
}
SIMD_INLINE vector_float8 second_of_pairs_float8(vector_float8 x, vector_float8 y) {
    return SIMD_SHUFFLE(float8, x, y, 1, 3);
}
SIMD_INLINE void store_indices4_float8(char *to, codes_float8 c) {
    ((index4 *) to)[0] = (int32_t) c[0];
    ((index4 *) to)[1] = (int32_t) c[1];
}
SIMD_INLINE void store_code_bytes_float8(char *to, codes_float8 c) { to[0] = (char) c[0], to[1] = (char) c[1]; }

/* int32 and int64, of which SSE2 has no maximum */
SIMD_TYPE_PORTABLE(int4, int32_t, int32_t)
SIMD_TYPE_PORTABLE(int8, int64_t, int64_t)
SIMD_SELECTED_MAX(int4)
SIMD_SELECTED_MAX(int8)

/* uint8, which SSE2 compares for equality alone */
SIMD_TYPE_PORTABLE(item1, uint8_t, uint8_t)
#define SIMD_BYTES_COMPARED SIMD_BY_EQUALITY
SIMD_INLINE mask_item1 equal_item1(vector_item1 x, vector_item1 y) { return (mask_item1) (x == y); }
#if defined(__SSE2__)
SIMD_MAX(item1, epu8)
SIMD_PAIRS_OF_BYTES
#else
SIMD_SELECTED_MAX(item1)
SIMD_INLINE vector_item1 first_of_pairs_item1(vector_item1 x, vector_item1 y) {
    return SIMD_SHUFFLE(item1, x, y, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}
SIMD_INLINE vector_item1 second_of_pairs_item1(vector_item1 x, vector_item1 y) {
    return SIMD_SHUFFLE(item1, x, y, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}
#endif

/* int16, and half in its order */
SIMD_TYPE_PORTABLE(int2, int16_t, int16_t)
SIMD_TYPE_PORTABLE(half, int16_t, int16_t)
#if defined(__SSE2__)
SIMD_MAX(int2, epi16)
SIMD_INLINE vector_int2 first_of_pairs_int2(vector_int2 x, vector_int2 y) {
    return (vector_int2) _mm_packs_epi32(_mm_srai_epi32(_mm_slli_epi32((__m128i) x, 16), 16),
                                         _mm_srai_epi32(_mm_slli_epi32((__m128i) y, 16), 16));
}
SIMD_INLINE vector_int2 second_of_pairs_int2(vector_int2 x, vector_int2 y) {
    return (vector_int2) _mm_packs_epi32(_mm_srai_epi32((__m128i) x, 16), _mm_srai_epi32((__m128i) y, 16));
}
SIMD_INLINE void store_code_bytes_int2(char *to, codes_int2 c) {
    _mm_storel_epi64((__m128i *) to, _mm_packus_epi16((__m128i) c, (__m128i) c));
}
#else
SIMD_SELECTED_MAX(int2)
SIMD_INLINE vector_int2 first_of_pairs_int2(vector_int2 x, vector_int2 y) {
    return SIMD_SHUFFLE(int2, x, y, 0, 2, 4, 6, 8, 10, 12, 14);
}
SIMD_INLINE vector_int2 second_of_pairs_int2(vector_int2 x, vector_int2 y) {
    return SIMD_SHUFFLE(int2, x, y, 1, 3, 5, 7, 9, 11, 13, 15);
}
SIMD_INLINE void store_code_bytes_int2(char *to, codes_int2 c) {
    int i;
    for (i = 0; i < LANES_int2; i++)
        to[i] = (char) c[i];
}
#endif
SIMD_INLINE vector_int2 sign_int2(vector_int2 x) { return x >> 15; }
SIMD_NEXT_PAIRS(int2)
