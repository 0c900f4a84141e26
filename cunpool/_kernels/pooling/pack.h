#ifndef CUNPOOL_POOLING_PACK_H
#define CUNPOOL_POOLING_PACK_H

#include <stdint.h>

#include "_kernels/common/types.h"
#include "_kernels/unpooling/elements.h"

/* Between half precision and single, bit by bit, for pooling moves numbers as they are: a NaN keeps its payload.
   Masks vectorise where conditions do not. */
static CUNPOOL_INLINE uint32_t cunpool_widen(uint16_t half) {
    uint32_t size = half & 0x7FFFu, sign = (uint32_t) (half & 0x8000u) << 16;
    uint32_t normal = (size << 13) + (size >= 0x7C00u ? 0x70000000u : 0x38000000u);
    uint32_t tiny = cunpool_bits((float) (int32_t) size * 0x1p-24f), is_tiny = -(uint32_t) (size < 0x400u);
    return sign | (tiny & is_tiny) | (normal & ~is_tiny);
}
static CUNPOOL_INLINE uint16_t cunpool_narrow(uint32_t bits) {
    uint32_t size = bits & 0x7FFFFFFFu, sign = bits >> 16 & 0x8000u;
    uint32_t normal = (size - (size >= 0x7F800000u ? 0u : 0x38000000u)) >> 13 & 0x7FFFu;
    uint32_t is_tiny = -(uint32_t) (size < 0x38800000u);
    uint32_t tiny = (uint32_t) (int32_t) (cunpool_float(size & is_tiny) * 0x1p24f);
    return (uint16_t) (sign | (tiny & is_tiny) | (normal & ~is_tiny));
}

#endif
