#ifndef CUNPOOL_POOLING_COMPARE_H
#define CUNPOOL_POOLING_COMPARE_H

#include <stdint.h>

#include "_kernels/common/types.h"

typedef int16_t int2 CUNPOOL_ANY;
typedef int32_t int4 CUNPOOL_ANY;
typedef int64_t int8 CUNPOOL_ANY;

#endif
