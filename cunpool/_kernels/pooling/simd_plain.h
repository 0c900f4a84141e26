/* Those operations of simd.h that filter and separable use, in vectors of one element: for compilers that have no
   vector types, such as MSVC. CUNPOOL_PLAIN selects it in other compilers too. */
enum { CUNPOOL_VECTOR_BYTES = 1 };      /* so that no run of elements is shorter than a vector */
#define SIMD_VECTOR
#define SIMD_UNORDERED(T, ps, x, y) (number_##T(x) != number_##T(x) || number_##T(y) != number_##T(y))

/* What all types share: a vector has the bits of a number, as an integer. */
#define SIMD_TYPE_PLAIN(T, number, integer) \
    SIMD_VECTORS(T, integer, integer) \
    typedef int mask_##T; \
    SIMD_INLINE mask_##T either_##T(mask_##T a, mask_##T b) { return a | b; } \
    SIMD_INLINE int is_any_##T(mask_##T m) { return m; } \
    SIMD_INLINE codes_##T select_codes_##T(mask_##T m, codes_##T a, codes_##T b) { return m ? b : a; } \
    SIMD_INLINE number number_##T(vector_##T x) { number y; memcpy(&y, &x, sizeof y); return y; } \
    SIMD_INLINE mask_##T greater_##T(vector_##T a, vector_##T b) { return number_##T(a) > number_##T(b); } \
    SIMD_SELECTED_MAX(T)
SIMD_TYPE_PLAIN(item1, uint8_t, uint8_t)
SIMD_TYPE_PLAIN(int2, int16_t, int16_t)
SIMD_TYPE_PLAIN(int4, int32_t, uint32_t)
SIMD_TYPE_PLAIN(int8, int64_t, uint64_t)
SIMD_TYPE_PLAIN(half, int16_t, int16_t)
SIMD_TYPE_PLAIN(float4, float, uint32_t)
SIMD_TYPE_PLAIN(float8, double, uint64_t)
