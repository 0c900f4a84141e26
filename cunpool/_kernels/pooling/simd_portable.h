/* The operations of simd.h in vectors of 16 bytes, as GCC and Clang compile them for any processor. With SSE2 a few
   instructions are named that compilers do not find by themselves. */
enum { CUNPOOL_VECTOR_BYTES = 16 };
#define SIMD_VECTOR __attribute__((vector_size(16)))
#define SIMD_SHUFFLE(T, x, y, ...) (vector_##T) CUNPOOL_SHUFFLE(codes_##T, x, y, __VA_ARGS__)
#define SIMD_SELECT(m, a, b) (((b) & (m)) | ((a) & ~(m)))
#define SIMD_IS_ANY(m) simd_is_any((const char *) &(m))
SIMD_INLINE int simd_is_any(const char *mask) {
    uint64_t half[2];
    memcpy(half, mask, sizeof half);
    return (half[0] | half[1]) != 0;
}

/* What all types share. */
#define SIMD_TYPE_PORTABLE(T, element, integer) \
    SIMD_VECTORS(T, element, integer) \
    SIMD_VECTOR_MASKS(T) \
    SIMD_IN_ORDER(T)
SIMD_TYPE_PORTABLE(float4, float, int32_t)
SIMD_TYPE_PORTABLE(float8, double, int64_t)
SIMD_TYPE_PORTABLE(int4, int32_t, int32_t)
SIMD_TYPE_PORTABLE(int8, int64_t, int64_t)
SIMD_TYPE_PORTABLE(item1, uint8_t, uint8_t)
SIMD_TYPE_PORTABLE(int2, int16_t, int16_t)
SIMD_TYPE_PORTABLE(half, int16_t, int16_t)
SIMD_GREATER(float4)
SIMD_GREATER(float8)
SIMD_GREATER(int4)
SIMD_GREATER(int8)
SIMD_GREATER(int2)

/* SSE2 has no maximum of int32 and int64. */
SIMD_SELECTED_MAX(int4)
SIMD_SELECTED_MAX(int8)
#if defined(__SSE2__)
#include <emmintrin.h>
#define MM(name) _mm_##name
#define MM_INTEGERS __m128i
#define SIMD_UNORDERED(T, ps, x, y) _mm_cmpunord_##ps(x, y)
SIMD_MAX_OF_FLOATS(float4, ps)
SIMD_MAX_OF_FLOATS(float8, pd)
SIMD_MAX_OF_BYTES
SIMD_MAX(int2, epi16)
#else
#define SIMD_UNORDERED(T, ps, x, y) ((x != x) | (y != y))
SIMD_SELECTED_MAX(float4)
SIMD_SELECTED_MAX(float8)
SIMD_GREATER(item1)
SIMD_SELECTED_MAX(item1)
SIMD_SELECTED_MAX(int2)
#endif

SIMD_INLINE vector_float4 deinterleave_float4(vector_float4 x, vector_float4 y, int i) {
    return i ? SIMD_SHUFFLE(float4, x, y, 1, 3, 5, 7) : SIMD_SHUFFLE(float4, x, y, 0, 2, 4, 6);
}
SIMD_INLINE vector_float8 deinterleave_float8(vector_float8 x, vector_float8 y, int i) {
    return i ? SIMD_SHUFFLE(float8, x, y, 1, 3) : SIMD_SHUFFLE(float8, x, y, 0, 2);
}
SIMD_INLINE vector_item1 deinterleave_item1(vector_item1 x, vector_item1 y, int i) {
    return i ? SIMD_SHUFFLE(item1, x, y, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
             : SIMD_SHUFFLE(item1, x, y, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}
SIMD_INLINE vector_int2 deinterleave_int2(vector_int2 x, vector_int2 y, int i) {
    return i ? SIMD_SHUFFLE(int2, x, y, 1, 3, 5, 7, 9, 11, 13, 15)
             : SIMD_SHUFFLE(int2, x, y, 0, 2, 4, 6, 8, 10, 12, 14);
}
SIMD_NEXT_PAIRS(float4)

/* Store the codes of one vector as elements of another type. */
#define SIMD_STORE_EACH(name, T, integer) \
    SIMD_INLINE void name##_##T(char *to, codes_##T c) { \
        int i; \
        for (i = 0; i < LANES_##T; i++) \
            ((integer *) to)[i] = (integer) c[i]; \
    }
#if defined(__SSE2__)
SIMD_INLINE void store_code_bytes_float4(char *to, codes_float4 c) {
    const __m128i words = _mm_packs_epi32((__m128i) c, (__m128i) c);
    const int bytes = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    memcpy(to, &bytes, sizeof bytes);
}
#else
SIMD_STORE_EACH(store_code_bytes, float4, item1)
#endif
SIMD_STORE_EACH(store_code_bytes, float8, item1)
SIMD_STORE_EACH(store_code_bytes, int2, item1)
SIMD_STORE_EACH(store_indices4, float8, index4)
SIMD_STORE_EACH(store_indices8, float4, index8)
