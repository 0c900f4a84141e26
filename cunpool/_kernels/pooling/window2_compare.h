#ifndef CUNPOOL_POOLING_WINDOW2_COMPARE_H
#define CUNPOOL_POOLING_WINDOW2_COMPARE_H

#include <stdint.h>

/* Which byte of two the first one in memory is: the lower one, or the higher one. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
enum { CUNPOOL_IN_LOW = 1, CUNPOOL_IN_HIGH = 0 };
#else
enum { CUNPOOL_IN_LOW = 0, CUNPOOL_IN_HIGH = 1 };
#endif

#endif
