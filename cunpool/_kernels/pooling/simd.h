#pragma once

/* Vector operations for pooling. The header of an instruction set has what depends on it, for the types float4,
   float8, item1 and int2, with some of int4 and int8. The rest is defined here. int4 and int8 are the codes of float4
   and float8, and half (float16 and bfloat16) are int2 in another order. A type T has those operations that its loops
   use:

     vector_T, LANES_T    a vector, and its number of elements
     codes_T              as many integers of the same width: window codes, or indices
     mask_T               the result of a comparison
     odd_T                what note_T collects: whether elements need the exact comparison (NaN; -0 of 16 bits)

     load_T, store_T      memory, of any alignment
     stream_T, stream_indices8_T    non-temporal stores to whole cache lines, where SIMD_HAS_STREAM says so
     key_T, bits_T        from an element's bits, some of them inverted for minima, to a vector that compares as its
                          type does, and back
     note_T, note_pair_T, is_odd_T    collect a vector of elements, or two; whether any of those collected was odd
     max_T(best, later)   the maximum; of equals `best`
     min_T(limit, x)      the minimum; of equals, or where one is NaN, `x`
     greater_T, beats_T   later > best; the same exactly, where a NaN beats everything
     beats_omitting_T     the same, where every number beats a NaN
     select_T(m, a, b), select_codes_T    b where the mask is set, else a
     first_of_pairs_T, second_of_pairs_T    the first, or the second, of each pair of elements in two vectors; in an
                          order that in_order_T and in_order_codes_T make that of memory
     next_first_of_pairs_T    the same one pair further than `first`, which begins at `row`; `last` is the vector that
                          was loaded for the last pair
     deinterleaved_lane_T(i)    which pair lane i of first_of_pairs_T belongs to
     add_codes_T, subtract_codes_T, broadcast_codes_T
     store_code_bytes_T, store_indices4_T, store_indices8_T    codes as bytes, or as indices
     store_codes_T        the same, by the bytes of each: 1, or where lanes have 4 bytes or more, 4 or 8
     compare_T            compare the best so far, and its code, with a later element
     equal_item1          where a set compares unsigned bytes for equality alone */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "_kernels/common/types.h"
#define SIMD_INLINE static CUNPOOL_INLINE

/* The bytes of an element, and whether elements may be odd. */
#define SIMD_BYTES_float4 4
#define SIMD_BYTES_float8 8
#define SIMD_BYTES_half 2
#define SIMD_BYTES_item1 1
#define SIMD_BYTES_int2 2
#define SIMD_BYTES_int4 4
#define SIMD_BYTES_int8 8
#define SIMD_HAS_ODD_float4 1
#define SIMD_HAS_ODD_float8 1
#define SIMD_HAS_ODD_half 1
#define SIMD_HAS_ODD_item1 0
#define SIMD_HAS_ODD_int2 0
#define SIMD_HAS_ODD_int4 0
#define SIMD_HAS_ODD_int8 0

/* The function of an element type, of those that simd_types.h compiled. */
#define SIMD_OF_TYPE(name, item_size, is_float) \
    ((item_size) == 1 ? name##_item1 \
     : (item_size) == 2 ? ((is_float) ? name##_half : name##_int2) \
     : (item_size) == 4 ? ((is_float) ? name##_float4 : name##_int4) : (is_float) ? name##_float8 : name##_int8)

#if defined(__GNUC__) && !defined(CUNPOOL_PLAIN)
#define CUNPOOL_HAS_VECTORS 1
#else
#define CUNPOOL_HAS_VECTORS 0
#endif
/* Loops that the portable set of a build for x86-64 does not have, which only old processors use: over rows that
   windows share across channels, and over stripes of 5 x 5 and 7 x 7. (size) */
#if CUNPOOL_HAS_VECTORS && (defined(__AVX2__) || !defined(__x86_64__))
#define CUNPOOL_HAS_LARGE_LOOPS 1
#else
#define CUNPOOL_HAS_LARGE_LOOPS 0
#endif
/* next_first_of_pairs_T, where nothing is faster than to load the pairs again. */
#define SIMD_NEXT_PAIRS(T) \
    SIMD_INLINE vector_##T next_first_of_pairs_##T(vector_##T first, const char *row, vector_##T *last) { \
        (void) first; \
        *last = load_##T(row + CUNPOOL_VECTOR_BYTES + 2 * SIMD_BYTES_##T); \
        return first_of_pairs_##T(load_##T(row + 2 * SIMD_BYTES_##T), *last); \
    }
/* What follows from the bytes of a vector, and from select_codes_T. */
#define SIMD_DERIVED(T) \
    enum { LANES_##T = sizeof(vector_##T) / SIMD_BYTES_##T }; \
    typedef vector_##T unaligned_##T CUNPOOL_ANY; \
    SIMD_INLINE vector_##T load_##T(const char *from) { return *(const unaligned_##T *) from; } \
    SIMD_INLINE void store_##T(char *to, vector_##T x) { *(unaligned_##T *) to = x; } \
    SIMD_INLINE vector_##T select_##T(mask_##T m, vector_##T a, vector_##T b) { \
        return (vector_##T) select_codes_##T(m, (codes_##T) a, (codes_##T) b); \
    }
/* x86: max_T and min_T of integers whose instructions end in `epi`. MM(name) is an instruction of the set, and
   MM_INTEGERS a vector of integers. */
#define SIMD_MAX(T, epi) \
    SIMD_INLINE vector_##T max_##T(vector_##T best, vector_##T later) { \
        return (vector_##T) MM(max_##epi)((MM_INTEGERS) best, (MM_INTEGERS) later); \
    } \
    SIMD_INLINE vector_##T min_##T(vector_##T limit, vector_##T x) { \
        return (vector_##T) MM(min_##epi)((MM_INTEGERS) limit, (MM_INTEGERS) x); \
    }
/* x86: no instruction takes bytes from two vectors. AVX2 and AVX-512 do this in parts of 16 bytes. */
#define SIMD_PAIRS_OF_BYTES \
    SIMD_INLINE vector_item1 first_of_pairs_item1(vector_item1 x, vector_item1 y) { \
        const MM_INTEGERS low = MM(set1_epi16)(0xFF); \
        return (vector_item1) MM(packus_epi16)((MM_INTEGERS) x & low, (MM_INTEGERS) y & low); \
    } \
    SIMD_INLINE vector_item1 second_of_pairs_item1(vector_item1 x, vector_item1 y) { \
        const MM_INTEGERS first = MM(srli_epi16)((MM_INTEGERS) x, 8); \
        return (vector_item1) MM(packus_epi16)(first, MM(srli_epi16)((MM_INTEGERS) y, 8)); \
    }
/* in_order_T and others of types whose first_of_pairs_T keeps the order of memory. */
#define SIMD_IN_ORDER(T) \
    SIMD_INLINE vector_##T in_order_##T(vector_##T x) { return x; } \
    SIMD_INLINE codes_##T in_order_codes_##T(codes_##T c) { return c; } \
    SIMD_INLINE int deinterleaved_lane_##T(int i) { return i; }
/* max_T and min_T of types for which a set has no such instruction. */
#define SIMD_SELECTED_MAX(T) \
    SIMD_INLINE vector_##T max_##T(vector_##T best, vector_##T later) { \
        return select_##T(greater_##T(later, best), best, later); \
    } \
    SIMD_INLINE vector_##T min_##T(vector_##T limit, vector_##T x) { \
        return select_##T(greater_##T(x, limit), x, limit); \
    }
#if !CUNPOOL_HAS_VECTORS
#include "_kernels/pooling/simd_plain.h"
#elif defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#include "_kernels/pooling/simd_avx512.h"
#elif defined(__AVX2__)
#include "_kernels/pooling/simd_avx2.h"
#else
#include "_kernels/pooling/simd_portable.h"
#endif
#define SIMD_UNROLL _Pragma("GCC unroll 8")
#if defined(__clang__)
#define SIMD_ONCE _Pragma("clang loop unroll(disable)")
#else
#define SIMD_ONCE _Pragma("GCC unroll 1")
#endif

/* Where the vector behind that at `i` begins. The last one ends at `count`, so it may repeat some elements. */
SIMD_INLINE ptrdiff_t simd_next(ptrdiff_t i, ptrdiff_t lanes, ptrdiff_t count) {
    return i + lanes < count && i + 2 * lanes > count ? count - lanes : i + lanes;
}

/* Keep a vector in a register: else compilers read it again for each use, up to 1.7 times as slow. (speed) */
#if defined(__AVX512F__)
#define SIMD_KEEP(x) __asm__("" : "+v"(x))
#elif defined(__SSE2__)
#define SIMD_KEEP(x) __asm__("" : "+x"(x))
#else
#define SIMD_KEEP(x) ((void) (x))
#endif

/* Floats and integers compare as their types do. */
#define SIMD_AS_TYPED(T) \
    SIMD_INLINE odd_##T note_##T(odd_##T odd, vector_##T x) { return note_pair_##T(odd, x, x); } \
    SIMD_INLINE vector_##T key_##T(vector_##T x, codes_##T flip) { return (vector_##T) ((codes_##T) x ^ flip); } \
    SIMD_INLINE vector_##T bits_##T(vector_##T x, codes_##T flip) { return key_##T(x, flip); }
#define SIMD_FLOATS(T) \
    SIMD_AS_TYPED(T) \
    SIMD_INLINE mask_##T beats_##T(vector_##T later, vector_##T best, int infinity) { \
        (void) infinity; \
        return greater_##T(later, best) | is_nan_##T(later); \
    } \
    SIMD_INLINE mask_##T beats_omitting_##T(vector_##T later, vector_##T best, int infinity) { \
        (void) infinity; \
        return greater_##T(later, best) | (is_nan_##T(best) & ~is_nan_##T(later)); \
    }
SIMD_FLOATS(float4)
SIMD_FLOATS(float8)

/* No integer is odd. */
#define SIMD_INTEGERS(T) \
    typedef int odd_##T; \
    SIMD_INLINE odd_##T nothing_odd_##T(void) { return 0; } \
    SIMD_INLINE odd_##T note_pair_##T(odd_##T odd, vector_##T x, vector_##T y) { (void) x, (void) y; return odd; } \
    SIMD_INLINE int is_odd_##T(odd_##T odd, int infinity) { (void) infinity; return odd; } \
    SIMD_AS_TYPED(T)
SIMD_INTEGERS(item1)
SIMD_INTEGERS(int2)
SIMD_INTEGERS(int4)
SIMD_INTEGERS(int8)

/* float16 and bfloat16: as int16 in the order of the numbers, negative zero below positive zero. */
#define max_half max_int2
#define min_half min_int2
#define greater_half greater_int2
#define first_of_pairs_half first_of_pairs_int2
#define second_of_pairs_half second_of_pairs_int2
#define next_first_of_pairs_half next_first_of_pairs_int2
#define store_code_bytes_half store_code_bytes_int2
SIMD_INLINE vector_half ordered_half(vector_half x) { return x ^ (sign_int2(x) & broadcast_codes_half(0x7FFF)); }
SIMD_INLINE vector_half key_half(vector_half x, codes_half flip) { return ordered_half(x ^ flip); }
SIMD_INLINE vector_half bits_half(vector_half x, codes_half flip) { return ordered_half(x) ^ flip; }
typedef struct { vector_half largest, lowest; } odd_half;
SIMD_INLINE odd_half nothing_odd_half(void) { return (odd_half) {broadcast_codes_half(0), broadcast_codes_half(0)}; }
SIMD_INLINE odd_half note_half(odd_half odd, vector_half x) {
    odd.largest = max_half(odd.largest, x & broadcast_codes_half(0x7FFF));
    odd.lowest = min_half(odd.lowest, x);
    return odd;
}
SIMD_INLINE odd_half note_pair_half(odd_half odd, vector_half x, vector_half y) {
    return note_half(note_half(odd, x), y);
}
SIMD_INLINE int is_odd_half(odd_half odd, int infinity) {
    return is_any_int2(greater_half(odd.largest, broadcast_codes_half(infinity))
                       | greater_half(broadcast_codes_half(INT16_MIN + 1), odd.lowest));
}
SIMD_INLINE mask_half is_nan_half(vector_half x, int infinity) {
    return greater_half(x ^ sign_int2(x), broadcast_codes_half(infinity));
}
/* Both zeros are 0. */
SIMD_INLINE mask_half is_greater_half(vector_half later, vector_half best) {
    return greater_half(subtract_codes_half(later, sign_int2(later)), subtract_codes_half(best, sign_int2(best)));
}
SIMD_INLINE mask_half beats_half(vector_half later, vector_half best, int infinity) {
    return (is_greater_half(later, best) & ~is_nan_half(best, infinity)) | is_nan_half(later, infinity);
}
SIMD_INLINE mask_half beats_omitting_half(vector_half later, vector_half best, int infinity) {
    return (is_greater_half(later, best) | is_nan_half(best, infinity)) & ~is_nan_half(later, infinity);
}

/* Compare the best so far, and its code, with something later in raster order: the first of equals stays. `careful`
   comparisons are exact for NaN and zeros. It is a constant of each loop, and `with_codes` is one in most. */
#define SIMD_COMPARE(T, FIRST) \
    SIMD_INLINE void compare_##T(int careful, int omits_nan, int infinity, int with_codes, vector_##T *best, \
                                 codes_##T *code, vector_##T later, codes_##T later_code) { \
        FIRST(T) \
        (void) careful, (void) omits_nan, (void) infinity; \
        if (with_codes) \
            *code = select_codes_##T(greater_##T(later, *best), *code, later_code); \
        *best = max_##T(*best, later); \
    }
#define SIMD_EXACTLY(T) \
        if (careful) { \
            const mask_##T beaten = omits_nan ? beats_omitting_##T(later, *best, infinity) \
                                    : beats_##T(later, *best, infinity); \
            *best = select_##T(beaten, *best, later); \
            if (with_codes) \
                *code = select_codes_##T(beaten, *code, later_code); \
            return; \
        }
#define SIMD_ALIKE(T)   /* integers have nothing to be careful about */
#define SIMD_BY_EQUALITY(T) \
        if (with_codes) { \
            const vector_##T highest = max_##T(*best, later); \
            *code = select_codes_##T(equal_##T(highest, *best), later_code, *code); \
            *best = highest; \
            return; \
        }
SIMD_COMPARE(float4, SIMD_EXACTLY)
SIMD_COMPARE(float8, SIMD_EXACTLY)
SIMD_COMPARE(half, SIMD_EXACTLY)
SIMD_COMPARE(item1, SIMD_BYTES_COMPARED)
SIMD_COMPARE(int2, SIMD_ALIKE)
SIMD_COMPARE(int4, SIMD_ALIKE)
SIMD_COMPARE(int8, SIMD_ALIKE)

#if CUNPOOL_HAS_VECTORS
/* Filter and separable do without the rest: pairs, and codes stored as bytes or as indices. */
SIMD_NEXT_PAIRS(item1)
SIMD_NEXT_PAIRS(float8)
SIMD_INLINE void store_indices8_float8(char *to, codes_float8 c) { store_int8(to, c); }
#ifdef SIMD_HAS_STREAM
SIMD_INLINE void stream_indices8_float8(char *to, codes_float8 c) { stream_int8(to, c); }  // unreached: large arrays
#endif
SIMD_INLINE void store_code_bytes_item1(char *to, codes_item1 c) { store_item1(to, c); }
/* int32 and int64 have the width of float32 and float64, and share the operations that move lanes. */
#define SIMD_INTEGERS_OF_FLOATS(T, F) \
    SIMD_INLINE void store_code_bytes_##T(char *to, codes_##T c) { store_code_bytes_##F(to, c); } \
    SIMD_INLINE void store_indices4_##T(char *to, codes_##T c) { store_indices4_##F(to, c); } \
    SIMD_INLINE void store_indices8_##T(char *to, codes_##T c) { store_indices8_##F(to, c); } \
    SIMD_INLINE vector_##T first_of_pairs_##T(vector_##T x, vector_##T y) { \
        return (vector_##T) first_of_pairs_##F((vector_##F) x, (vector_##F) y); \
    } \
    SIMD_INLINE vector_##T second_of_pairs_##T(vector_##T x, vector_##T y) { \
        return (vector_##T) second_of_pairs_##F((vector_##F) x, (vector_##F) y); \
    }
SIMD_INTEGERS_OF_FLOATS(int4, float4)
SIMD_INTEGERS_OF_FLOATS(int8, float8)

#define SIMD_STORE_CODES(T, INDICES) \
    SIMD_INLINE void store_codes_##T(char *to, codes_##T c, int bytes) { \
        INDICES(T) \
        store_code_bytes_##T(to, c); \
    }
#define SIMD_STORE_INDICES(T) \
        if (bytes > 1) { \
            if (bytes == 8) \
                store_indices8_##T(to, c); \
            else \
                store_indices4_##T(to, c); \
            return; \
        }
#define SIMD_STORE_BYTES(T) (void) bytes;
SIMD_STORE_CODES(float4, SIMD_STORE_INDICES)
SIMD_STORE_CODES(float8, SIMD_STORE_INDICES)
SIMD_STORE_CODES(int4, SIMD_STORE_INDICES)
SIMD_STORE_CODES(int8, SIMD_STORE_INDICES)
SIMD_STORE_CODES(half, SIMD_STORE_BYTES)
SIMD_STORE_CODES(int2, SIMD_STORE_BYTES)
SIMD_STORE_CODES(item1, SIMD_STORE_BYTES)
#endif
