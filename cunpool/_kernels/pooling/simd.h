#pragma once

/* Vector operations for pooling. The header of an instruction set has what depends on it, for the types float4,
   float8, item1 and int2, with some of int4 and int8. The rest is defined here. int4 and int8 are the codes of float4
   and float8, and half (float16 and bfloat16) are int2 in another order. A type T has those operations that its loops
   use:

     vector_T, LANES_T    a vector, and its number of elements
     codes_T              as many integers of the same width: window codes, or indices
     mask_T               the result of a comparison
     either_T(a, b), is_any_T    whether a lane is set in one of two masks; whether any lane is
     unordered_T(x, y), is_nan_T    of floats: whether one of two is NaN; whether a float is
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
     deinterleave_T(x, y, i)    element i, which is 0 or 1, of each pair of elements in two vectors; in an order that
                          in_order_T and in_order_codes_T make that of memory
     next_first_of_pairs_T    the first elements one pair further than `first`, which begins at `row`; `last` is the
                          vector that was loaded for the last pair
     deinterleaved_lane_T(i)    which pair lane i of deinterleave_T belongs to
     add_codes_T, subtract_codes_T, broadcast_codes_T
     store_code_bytes_T, store_indices4_T, store_indices8_T    codes as bytes, or as indices
     store_codes_T        the same, by the bytes of each: 1, or where lanes have 4 bytes or more, 4 or 8
     compare_T            compare the best so far, and its code, with a later element */
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

/* In loops that simd_types.h compiles for each element type, SIMD_TYPE: OF(name) is name_float4, for instance. */
#define SIMD_JOIN_(name, type) name##_##type
#define SIMD_JOIN(name, type) SIMD_JOIN_(name, type)
#define OF(name) SIMD_JOIN(name, SIMD_TYPE)
#define SIMD_BYTES OF(SIMD_BYTES)
#define SIMD_HAS_ODD OF(SIMD_HAS_ODD)
#define LANES OF(LANES)

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
/* What all sets share: an element, and the integer of the same width that is its code. SIMD_VECTOR makes a vector of
   either. */
#define SIMD_VECTORS(T, element, integer) \
    typedef element vector_##T SIMD_VECTOR; \
    typedef integer codes_##T SIMD_VECTOR; \
    typedef vector_##T unaligned_##T CUNPOOL_ANY; \
    enum { LANES_##T = sizeof(vector_##T) / SIMD_BYTES_##T }; \
    SIMD_INLINE vector_##T load_##T(const char *from) { return *(const unaligned_##T *) from; } \
    SIMD_INLINE void store_##T(char *to, vector_##T x) { *(unaligned_##T *) to = x; } \
    SIMD_INLINE codes_##T broadcast_codes_##T(int64_t x) { return (codes_##T) ((codes_##T) {0} + (integer) x); } \
    SIMD_INLINE codes_##T add_codes_##T(codes_##T a, codes_##T b) { return (codes_##T) (a + b); } \
    SIMD_INLINE codes_##T subtract_codes_##T(codes_##T a, codes_##T b) { return (codes_##T) (a - b); }
/* Masks that are vectors: all bits of a lane are set, or none. */
#define SIMD_VECTOR_MASKS(T) \
    typedef codes_##T mask_##T; \
    SIMD_INLINE mask_##T either_##T(mask_##T a, mask_##T b) { return a | b; } \
    SIMD_INLINE int is_any_##T(mask_##T m) { return SIMD_IS_ANY(m); } \
    SIMD_INLINE codes_##T select_codes_##T(mask_##T m, codes_##T a, codes_##T b) { \
        return (codes_##T) SIMD_SELECT(m, a, b); \
    }
#define SIMD_GREATER(T) \
    SIMD_INLINE mask_##T greater_##T(vector_##T later, vector_##T best) { return (mask_##T) (later > best); }
/* next_first_of_pairs_T, where nothing is faster than to load the pairs again. */
#define SIMD_NEXT_PAIRS(T) \
    SIMD_INLINE vector_##T next_first_of_pairs_##T(vector_##T first, const char *row, vector_##T *last) { \
        (void) first; \
        *last = load_##T(row + CUNPOOL_VECTOR_BYTES + 2 * SIMD_BYTES_##T); \
        return deinterleave_##T(load_##T(row + 2 * SIMD_BYTES_##T), *last, 0); \
    }
/* x86: max_T and min_T of integers whose instructions end in `epi`, and of floats that end in `ps`. MM(name) is an
   instruction of the set, and MM_INTEGERS a vector of integers. */
#define SIMD_MAX(T, epi) \
    SIMD_INLINE vector_##T max_##T(vector_##T best, vector_##T later) { \
        return (vector_##T) MM(max_##epi)((MM_INTEGERS) best, (MM_INTEGERS) later); \
    } \
    SIMD_INLINE vector_##T min_##T(vector_##T limit, vector_##T x) { \
        return (vector_##T) MM(min_##epi)((MM_INTEGERS) limit, (MM_INTEGERS) x); \
    }
#define SIMD_MAX_OF_FLOATS(T, ps) \
    SIMD_INLINE vector_##T max_##T(vector_##T best, vector_##T later) { return MM(max_##ps)(later, best); } \
    SIMD_INLINE vector_##T min_##T(vector_##T limit, vector_##T x) { return MM(min_##ps)(limit, x); }
/* x86 before AVX-512: unsigned bytes are compared for equality alone. */
#define SIMD_MAX_OF_BYTES \
    SIMD_MAX(item1, epu8) \
    SIMD_INLINE mask_item1 greater_item1(vector_item1 later, vector_item1 best) { \
        return (mask_item1) (max_item1(best, later) != best); \
    }
/* x86: no instruction takes bytes from two vectors. AVX2 and AVX-512 do this in parts of 16 bytes. */
#define SIMD_DEINTERLEAVE_BYTES \
    SIMD_INLINE vector_item1 deinterleave_item1(vector_item1 x, vector_item1 y, int i) { \
        const MM_INTEGERS low = MM(set1_epi16)(0xFF), a = (MM_INTEGERS) x, b = (MM_INTEGERS) y; \
        return (vector_item1) (i ? MM(packus_epi16)(MM(srli_epi16)(a, 8), MM(srli_epi16)(b, 8)) \
                               : MM(packus_epi16)(a & low, b & low)); \
    }
/* in_order_T and others of types whose deinterleave_T keeps the order of memory. */
#define SIMD_IN_ORDER(T) \
    SIMD_INLINE vector_##T in_order_##T(vector_##T x) { return x; } \
    SIMD_INLINE codes_##T in_order_codes_##T(codes_##T c) { return c; } \
    SIMD_INLINE int deinterleaved_lane_##T(int i) { return i; }
/* max_T and min_T of types for which a set has no such instruction. */
#define SIMD_SELECTED_MAX(T) \
    SIMD_INLINE vector_##T max_##T(vector_##T best, vector_##T later) { \
        return (vector_##T) select_codes_##T(greater_##T(later, best), (codes_##T) best, (codes_##T) later); \
    } \
    SIMD_INLINE vector_##T min_##T(vector_##T limit, vector_##T x) { \
        return (vector_##T) select_codes_##T(greater_##T(x, limit), (codes_##T) x, (codes_##T) limit); \
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

/* Floats and integers compare as their types do. No integer is odd. */
#define SIMD_AS_TYPED(T) \
    SIMD_INLINE odd_##T note_##T(odd_##T odd, vector_##T x) { return note_pair_##T(odd, x, x); } \
    SIMD_INLINE vector_##T key_##T(vector_##T x, codes_##T flip) { return (vector_##T) ((codes_##T) x ^ flip); } \
    SIMD_INLINE vector_##T bits_##T(vector_##T x, codes_##T flip) { return key_##T(x, flip); }
#define SIMD_FLOATS(T, ps) \
    SIMD_INLINE mask_##T unordered_##T(vector_##T x, vector_##T y) { return (mask_##T) SIMD_UNORDERED(T, ps, x, y); } \
    typedef mask_##T odd_##T; \
    SIMD_INLINE odd_##T nothing_odd_##T(void) { return (odd_##T) {0}; } \
    SIMD_INLINE odd_##T note_pair_##T(odd_##T odd, vector_##T x, vector_##T y) { \
        return either_##T(odd, unordered_##T(x, y)); \
    } \
    SIMD_INLINE int is_odd_##T(odd_##T odd, int infinity) { (void) infinity; return is_any_##T(odd); } \
    SIMD_INLINE mask_##T is_nan_##T(vector_##T x) { return unordered_##T(x, x); } \
    SIMD_AS_TYPED(T) \
    SIMD_INLINE mask_##T beats_##T(vector_##T later, vector_##T best, int infinity) { \
        (void) infinity; \
        return greater_##T(later, best) | is_nan_##T(later); \
    } \
    SIMD_INLINE mask_##T beats_omitting_##T(vector_##T later, vector_##T best, int infinity) { \
        (void) infinity; \
        return greater_##T(later, best) | (is_nan_##T(best) & ~is_nan_##T(later)); \
    }
SIMD_FLOATS(float4, ps)
SIMD_FLOATS(float8, pd)

#define SIMD_INTEGERS(T) \
    typedef int odd_##T; \
    SIMD_INLINE odd_##T nothing_odd_##T(void) { return 0; } \
    SIMD_INLINE odd_##T note_pair_##T(odd_##T odd, vector_##T x, vector_##T y) { (void) x, (void) y; return odd; } \
    SIMD_INLINE int is_odd_##T(odd_##T odd, int infinity) { (void) infinity; return odd; } \
    SIMD_INLINE mask_##T beats_##T(vector_##T later, vector_##T best, int infinity) { \
        (void) infinity; \
        return greater_##T(later, best); \
    } \
    SIMD_INLINE mask_##T beats_omitting_##T(vector_##T later, vector_##T best, int infinity) { \
        return beats_##T(later, best, infinity); \
    } \
    SIMD_AS_TYPED(T)
SIMD_INTEGERS(item1)
SIMD_INTEGERS(int2)
SIMD_INTEGERS(int4)
SIMD_INTEGERS(int8)

/* float16 and bfloat16: as int16 in the order of the numbers, negative zero below positive zero. */
#define max_half max_int2
#define min_half min_int2
#define greater_half greater_int2
#define deinterleave_half deinterleave_int2
#define next_first_of_pairs_half next_first_of_pairs_int2
SIMD_INLINE vector_half sign_half(vector_half x) { return x >> 15; }
SIMD_INLINE vector_half ordered_half(vector_half x) { return x ^ (sign_half(x) & broadcast_codes_half(0x7FFF)); }
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
    return is_any_half(greater_half(odd.largest, broadcast_codes_half(infinity))
                       | greater_half(broadcast_codes_half(INT16_MIN + 1), odd.lowest));
}
SIMD_INLINE mask_half is_nan_half(vector_half x, int infinity) {
    return greater_half(x ^ sign_half(x), broadcast_codes_half(infinity));
}
/* Both zeros are 0. */
SIMD_INLINE mask_half is_greater_half(vector_half later, vector_half best) {
    return greater_half(subtract_codes_half(later, sign_half(later)), subtract_codes_half(best, sign_half(best)));
}
SIMD_INLINE mask_half beats_half(vector_half later, vector_half best, int infinity) {
    return (is_greater_half(later, best) & ~is_nan_half(best, infinity)) | is_nan_half(later, infinity);
}
SIMD_INLINE mask_half beats_omitting_half(vector_half later, vector_half best, int infinity) {
    return (is_greater_half(later, best) | is_nan_half(best, infinity)) & ~is_nan_half(later, infinity);
}

/* Compare the best so far, and its code, with something later in raster order: the first of equals stays. `careful`
   comparisons are exact for NaN and zeros. It is a constant of each loop, and `with_codes` is one in most. */
#define SIMD_COMPARE(T) \
    SIMD_INLINE vector_##T select_##T(mask_##T m, vector_##T a, vector_##T b) { \
        return (vector_##T) select_codes_##T(m, (codes_##T) a, (codes_##T) b); \
    } \
    SIMD_INLINE void compare_##T(int careful, int omits_nan, int infinity, int with_codes, vector_##T *best, \
                                 codes_##T *code, vector_##T later, codes_##T later_code) { \
        const mask_##T beaten = !careful ? greater_##T(later, *best) \
                                : omits_nan ? beats_omitting_##T(later, *best, infinity) \
                                : beats_##T(later, *best, infinity); \
        if (with_codes) \
            *code = select_codes_##T(beaten, *code, later_code); \
        *best = careful ? select_##T(beaten, *best, later) : max_##T(*best, later); \
    }
SIMD_COMPARE(float4)
SIMD_COMPARE(float8)
SIMD_COMPARE(half)
SIMD_COMPARE(item1)
SIMD_COMPARE(int2)
SIMD_COMPARE(int4)
SIMD_COMPARE(int8)

#if CUNPOOL_HAS_VECTORS
/* Filter and separable do without the rest: pairs, and codes stored as bytes or as indices. */
SIMD_NEXT_PAIRS(item1)
SIMD_NEXT_PAIRS(int2)
SIMD_NEXT_PAIRS(float8)
SIMD_INLINE void store_indices4_float4(char *to, codes_float4 c) { store_float4(to, (vector_float4) c); }
SIMD_INLINE void store_indices8_float8(char *to, codes_float8 c) { store_float8(to, (vector_float8) c); }
#ifdef SIMD_HAS_STREAM
SIMD_INLINE void stream_indices8_float8(char *to, codes_float8 c) { stream_int8(to, c); }  // unreached: large arrays
#endif
#define SIMD_STORE_CODES(T) \
    SIMD_INLINE void store_codes_##T(char *to, codes_##T c, int bytes) { \
        if (bytes == 8) \
            store_indices8_##T(to, c); \
        else if (bytes == 4) \
            store_indices4_##T(to, c); \
        else \
            store_code_bytes_##T(to, c); \
    }
SIMD_STORE_CODES(float4)
SIMD_STORE_CODES(float8)
/* Codes of narrower lanes are no indices. */
#define store_codes_item1(to, c, bytes) store_item1(to, (vector_item1) (c))
#define store_codes_int2(to, c, bytes) store_code_bytes_int2(to, c)
#define store_codes_half(to, c, bytes) store_code_bytes_int2(to, c)
/* int32 and int64 have the width of float32 and float64, and share the operations that move lanes. */
#define SIMD_INTEGERS_OF_FLOATS(T, F) \
    SIMD_INLINE void store_codes_##T(char *to, codes_##T c, int bytes) { store_codes_##F(to, c, bytes); } \
    SIMD_INLINE vector_##T deinterleave_##T(vector_##T x, vector_##T y, int i) { \
        return (vector_##T) deinterleave_##F((vector_##F) x, (vector_##F) y, i); \
    }
SIMD_INTEGERS_OF_FLOATS(int4, float4)
SIMD_INTEGERS_OF_FLOATS(int8, float8)
#endif
