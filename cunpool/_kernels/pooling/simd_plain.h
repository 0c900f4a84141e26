/* Those operations of simd.h that filter and separable use, in vectors of one element: for compilers that have no
   vector types, such as MSVC. CUNPOOL_PLAIN selects it in other compilers too. */
enum { CUNPOOL_VECTOR_BYTES = 1 };      /* so that no run of elements is shorter than a vector */
#define SIMD_BYTES_COMPARED SIMD_ALIKE

/* What all types share: a vector has the bits of a number, as an unsigned integer. */
#define SIMD_TYPE_PLAIN(T, number, integer) \
    typedef integer vector_##T, codes_##T; \
    typedef int mask_##T; \
    SIMD_INLINE codes_##T broadcast_codes_##T(int64_t x) { return (codes_##T) x; } \
    SIMD_INLINE codes_##T add_codes_##T(codes_##T a, codes_##T b) { return (codes_##T) (a + b); } \
    SIMD_INLINE codes_##T subtract_codes_##T(codes_##T a, codes_##T b) { return (codes_##T) (a - b); } \
    SIMD_INLINE codes_##T select_codes_##T(mask_##T m, codes_##T a, codes_##T b) { return m ? b : a; } \
    SIMD_INLINE number number_##T(vector_##T x) { number y; memcpy(&y, &x, sizeof y); return y; } \
    SIMD_INLINE mask_##T greater_##T(vector_##T a, vector_##T b) { return number_##T(a) > number_##T(b); } \
    SIMD_DERIVED(T) \
    SIMD_SELECTED_MAX(T)
SIMD_TYPE_PLAIN(item1, uint8_t, uint8_t)
SIMD_TYPE_PLAIN(int2, int16_t, uint16_t)
SIMD_TYPE_PLAIN(int4, int32_t, uint32_t)
SIMD_TYPE_PLAIN(int8, int64_t, uint64_t)
SIMD_TYPE_PLAIN(half, int16_t, uint16_t)
SIMD_INLINE vector_int2 sign_int2(vector_int2 x) { return (vector_int2) -(x >> 15); }
SIMD_INLINE int is_any_int2(mask_int2 m) { return m; }

#define SIMD_FLOATS_PLAIN(T, number, integer) \
    SIMD_TYPE_PLAIN(T, number, integer) \
    typedef mask_##T odd_##T; \
    SIMD_INLINE odd_##T nothing_odd_##T(void) { return 0; } \
    SIMD_INLINE mask_##T is_nan_##T(vector_##T x) { return number_##T(x) != number_##T(x); } \
    SIMD_INLINE odd_##T note_pair_##T(odd_##T odd, vector_##T x, vector_##T y) { \
        return odd | is_nan_##T(x) | is_nan_##T(y); \
    } \
    SIMD_INLINE int is_odd_##T(odd_##T odd, int infinity) { (void) infinity; return odd; }
SIMD_FLOATS_PLAIN(float4, float, uint32_t)
SIMD_FLOATS_PLAIN(float8, double, uint64_t)
