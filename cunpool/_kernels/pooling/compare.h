#ifndef CUNPOOL_POOLING_COMPARE_H
#define CUNPOOL_POOLING_COMPARE_H

#include <stdint.h>
#include <string.h>

#include "_kernels/common/types.h"

typedef int16_t int2 CUNPOOL_ANY;
typedef int32_t int4 CUNPOOL_ANY;
typedef int64_t int8 CUNPOOL_ANY;

/* A float with some of its bits inverted. */
static CUNPOOL_INLINE float cunpool_flip4(float x, uint64_t flip) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits ^= (uint32_t) flip;
    memcpy(&x, &bits, sizeof bits);
    return x;
}
static CUNPOOL_INLINE double cunpool_flip8(double x, uint64_t flip) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits ^= flip;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

#endif
