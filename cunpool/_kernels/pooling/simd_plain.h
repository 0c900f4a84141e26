/* Those operations of simd.h that filter and separable use, in vectors of one element: for compilers that have no
   vector types, such as MSVC. CUNPOOL_PLAIN selects it in other compilers too. */
enum { CUNPOOL_VECTOR_BYTES = 1 };

/* magnitude_T: more than the infinity of 16-bit floats for what is odd. */
enum { ODD_MAGNITUDE = 0x8000 };
#define SIMD_TYPE_PLAIN(T, element, integer) \
    SIMD_INLINE int magnitude_##T(element x); \
    SIMD_INLINE int beats_##T(element later, element best, int omits_nan, int infinity); \
    typedef element vector_##T; \
    typedef integer codes_##T; \
    typedef int odd_##T; \
    enum { LANES_##T = 1 }; \
    SIMD_INLINE vector_##T load_##T(const char *from) { vector_##T x; memcpy(&x, from, sizeof x); return x; } \
    SIMD_INLINE void store_##T(char *to, vector_##T x) { memcpy(to, &x, sizeof x); } \
    SIMD_INLINE codes_##T broadcast_codes_##T(int64_t x) { return (codes_##T) x; } \
    SIMD_INLINE codes_##T add_codes_##T(codes_##T a, codes_##T b) { return (codes_##T) (a + b); } \
    SIMD_INLINE odd_##T nothing_odd_##T(void) { return 0; } \
    SIMD_INLINE odd_##T note_##T(odd_##T odd, vector_##T x) { \
        return magnitude_##T(x) > odd ? magnitude_##T(x) : odd; \
    } \
    SIMD_INLINE int is_odd_##T(odd_##T odd, int infinity) { return odd > infinity; } \
    SIMD_INLINE void compare_##T(int careful, int omits_nan, int infinity, int with_codes, vector_##T *best, \
                                 codes_##T *code, vector_##T later, codes_##T later_code) { \
        const int is_later = careful ? beats_##T(later, *best, omits_nan, infinity) : later > *best; \
        if (is_later) \
            *best = later; \
        if (is_later && with_codes) \
            *code = later_code; \
    }

#define SIMD_INTEGERS_PLAIN(T, element, integer) \
    SIMD_TYPE_PLAIN(T, element, integer) \
    SIMD_INLINE vector_##T key_##T(vector_##T x, codes_##T flip) { return (vector_##T) (x ^ (vector_##T) flip); } \
    SIMD_INLINE vector_##T bits_##T(vector_##T x, codes_##T flip) { return key_##T(x, flip); } \
    SIMD_INLINE vector_##T min_##T(vector_##T limit, vector_##T x) { return x < limit ? x : limit; } \
    SIMD_INLINE int magnitude_##T(element x) { (void) x; return 0; } \
    SIMD_INLINE int beats_##T(element later, element best, int omits_nan, int infinity) { \
        (void) omits_nan, (void) infinity; \
        return later > best; \
    }
SIMD_INTEGERS_PLAIN(item1, uint8_t, uint8_t)
SIMD_INTEGERS_PLAIN(int2, int16_t, uint16_t)
SIMD_INTEGERS_PLAIN(int4, int32_t, uint32_t)
SIMD_INTEGERS_PLAIN(int8, int64_t, uint64_t)

#define SIMD_FLOATS_PLAIN(T, element, integer) \
    SIMD_TYPE_PLAIN(T, element, integer) \
    SIMD_INLINE vector_##T key_##T(vector_##T x, codes_##T flip) { \
        codes_##T bits; \
        memcpy(&bits, &x, sizeof bits); \
        bits ^= flip; \
        memcpy(&x, &bits, sizeof bits); \
        return x; \
    } \
    SIMD_INLINE vector_##T bits_##T(vector_##T x, codes_##T flip) { return key_##T(x, flip); } \
    SIMD_INLINE int magnitude_##T(element x) { return x == x ? 0 : ODD_MAGNITUDE; } \
    SIMD_INLINE int beats_##T(element later, element best, int omits_nan, int infinity) { \
        (void) infinity; \
        return omits_nan ? later > best || (best != best && later == later) : later > best || later != later; \
    }
SIMD_FLOATS_PLAIN(float4, float, uint32_t)
SIMD_FLOATS_PLAIN(float8, double, uint64_t)

SIMD_TYPE_PLAIN(half, int16_t, uint16_t)
SIMD_INLINE int16_t ordered_half(int16_t x) { return (int16_t) (x < 0 ? x ^ 0x7FFF : x); }
SIMD_INLINE vector_half key_half(vector_half x, codes_half flip) { return ordered_half((int16_t) (x ^ flip)); }
SIMD_INLINE vector_half bits_half(vector_half x, codes_half flip) { return (int16_t) (ordered_half(x) ^ flip); }
SIMD_INLINE int magnitude_half(int16_t x) { return x == INT16_MIN ? ODD_MAGNITUDE : x & 0x7FFF; }
SIMD_INLINE int beats_half(int16_t later, int16_t best, int omits_nan, int infinity) {
    const int later_nan = (later < 0 ? ~later : later) > infinity, best_nan = (best < 0 ? ~best : best) > infinity;
    const int is_greater = later + (later < 0) > best + (best < 0);     /* both zeros are 0 */
    return omits_nan ? !later_nan && (is_greater || best_nan) : later_nan || (is_greater && !best_nan);
}
