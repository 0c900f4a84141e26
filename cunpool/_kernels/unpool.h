#ifndef CUNPOOL_UNPOOL_H
#define CUNPOOL_UNPOOL_H

#include <stdint.h>

#if defined(__unix__)
#include <unistd.h>
#endif
#if defined(_SC_LEVEL2_CACHE_SIZE)
#define CUNPOOL_SECOND_CACHE sysconf(_SC_LEVEL2_CACHE_SIZE)
#else
#define CUNPOOL_SECOND_CACHE 0
#endif

#endif
