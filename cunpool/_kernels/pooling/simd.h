#ifndef CUNPOOL_POOLING_SIMD_H
#define CUNPOOL_POOLING_SIMD_H

/* Vector operations for pooling, chosen by the instruction set that this file is compiled for. For each element type T
   there is

     vector_T, LANES_T    a vector, and its number of elements
     codes_T              as many integers of the same width: window codes, or indices
     mask_T               the result of a comparison
     odd_T                what note_T collects: whether elements need the exact comparison (NaN; -0 of 16 bits)

     load_T, store_T, stream_T    memory (any alignment; stream_T: aligned)
     key_T, bits_T        from an element's bits, some of them inverted for minima, to a vector that compares as its
                          type does, and back
     note_T, note_pair_T, is_odd_T    collect a vector of elements, or two; whether any of those collected was odd
     max_T(best, later)   the maximum; of equals `best`
     min_T(limit, x)      the minimum
     greater_T, beats_T   later > best; the same exactly, where a NaN beats everything
     beats_omitting_T     the same, where every number beats a NaN
     select_T(m, a, b), select_codes_T    b where the mask is set, else a
     even_T, odd_of_T     every second element of two vectors, in an order that in_order_T and in_order_codes_T make
                          that of memory
     deinterleaved_lane_T(i)    which window lane i of even_T belongs to
     add_codes_T, subtract_codes_T, broadcast_codes_T
     store_code_bytes_T, store_indices4_T, store_indices8_T    codes as bytes, or as indices
     take_T, compare_T    compare the best so far, and its code, with a later element

   and, whatever the type,

     widen_codes          16 bytes as 16-bit integers
     add_to_offsets4, add_to_offsets8    indices of a vector from one index and 16-bit offsets */
#if defined(__GNUC__)
#define CUNPOOL_HAS_VECTORS 1
#include <stddef.h>
#include "_kernels/common/types.h"
#if defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#include "_kernels/pooling/simd_avx512.h"
#elif defined(__AVX2__)
#include "_kernels/pooling/simd_avx2.h"
#else
#include "_kernels/pooling/simd_portable.h"
#endif
#define SIMD_UNROLL _Pragma("GCC unroll 8")

/* Where the vector behind that at `i` begins, of `count` elements: the last one may repeat some. */
static CUNPOOL_INLINE ptrdiff_t simd_next(ptrdiff_t i, ptrdiff_t lanes, ptrdiff_t count) {
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

/* Compare the best so far, and its code, with something later in raster order: the first of equals stays. `careful`
   comparisons are exact for NaN and zeros. `careful`, `with_codes` and `is_minimum`, which is for values alone, are
   constants of each loop. */
#define SIMD_COMPARE(T, IF_CAREFUL) \
    SIMD_INLINE void compare_##T(int careful, int omits_nan, int infinity, int with_codes, int is_minimum, \
                                 vector_##T *best, codes_##T *code, vector_##T later, codes_##T later_code) { \
        IF_CAREFUL(T) \
        (void) careful, (void) omits_nan, (void) infinity; \
        if (with_codes) \
            take_##T(best, code, later, later_code); \
        else \
            *best = is_minimum ? min_##T(later, *best) : max_##T(*best, later); \
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
SIMD_COMPARE(float4, SIMD_EXACTLY)
SIMD_COMPARE(float8, SIMD_EXACTLY)
SIMD_COMPARE(half, SIMD_EXACTLY)
SIMD_COMPARE(item1, SIMD_ALIKE)
#else
#define CUNPOOL_HAS_VECTORS 0
enum { CUNPOOL_VECTOR_BYTES = 16 };
#endif

#endif
