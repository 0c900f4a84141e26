#pragma once

#include <string.h>

#include "_kernels/common/types.h"

static inline float cunpool_float(uint32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
static inline uint32_t cunpool_bits(float x) { uint32_t bits; memcpy(&bits, &x, 4); return bits; }

/* A condition that is compiled to a branch (speed). With a conditional move the next sum, which may have the same
   target, would wait for the comparison. */
#if defined(__GNUC__)
#define CUNPOOL_RARELY(condition) (__builtin_expect(condition, 0) && ({ __asm__ volatile(""); 1; }))
#else
#define CUNPOOL_RARELY(condition) (condition)
#endif

static inline float half_value(uint16_t half) {
    uint32_t sign = (uint32_t) (half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 0x3FF;
    if (exponent == 0) { /* a multiple of the smallest one, 2**-24 */
        float size = (float) fraction * cunpool_float(0x33800000);
        return cunpool_float(sign | cunpool_bits(size));
    }
    exponent = exponent == 31 ? 255 : exponent + 112;
    return cunpool_float(sign | exponent << 23 | fraction << 13);
}

/* To nearest, ties to even. Every NaN becomes the canonical one, because which of two NaNs a sum returns depends on the
   compiler's order of the operands. */
static inline uint16_t half_of(float x) {
    uint32_t bits = cunpool_bits(x), sign = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
    if (size > 0x7F800000)
        return 0x7E00;
    if (size >= 0x47800000) /* 65536 */
        return (uint16_t) (sign | 0x7C00);
    if (size < 0x38800000) /* below 2**-14: adding 1/2 rounds to a multiple of 2**-24 */
        return (uint16_t) (sign | (cunpool_bits(cunpool_float(size) + 0.5f) - 0x3F000000));
    return (uint16_t) (sign | (size - 0x38000000 + 0xFFF + (size >> 13 & 1)) >> 13);
}

/* Conversion instructions are 4 times faster (speed). */
#if defined(__F16C__)
#include <immintrin.h>
static inline uint16_t half_sum(uint16_t a, uint16_t b) {
    float x = _cvtsh_ss(a) + _cvtsh_ss(b);
    if (CUNPOOL_RARELY(x != x))
        return 0x7E00;
    return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
}
#else
static inline uint16_t half_sum(uint16_t a, uint16_t b) { return half_of(half_value(a) + half_value(b)); }
#endif

static inline uint16_t bhalf_sum(uint16_t a, uint16_t b) {
    uint32_t bits = cunpool_bits(cunpool_float((uint32_t) a << 16) + cunpool_float((uint32_t) b << 16));
    if ((bits & 0x7FFFFFFF) > 0x7F800000)
        return 0x7FC0;
    return (uint16_t) ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
