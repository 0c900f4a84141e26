#ifndef CUNPOOL_UNPOOL_H
#define CUNPOOL_UNPOOL_H

#include <stdint.h>

#if defined(__unix__)
#include <unistd.h>
#endif
#if defined(_SC_LEVEL2_CACHE_SIZE)
#define CUNPOOL_L2_BYTES sysconf(_SC_LEVEL2_CACHE_SIZE)
#else
#define CUNPOOL_L2_BYTES 0
#endif

#endif
