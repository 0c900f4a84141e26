#ifndef CUNPOOL_COMMON_JOB_H
#define CUNPOOL_COMMON_JOB_H

#include <stdint.h>

#include <string.h>
#if defined(__GNUC__)
/* Arrays may be unaligned, and bits move as integers whatever the dtype says. */
#define CUNPOOL_ANY __attribute__((aligned(1), may_alias))
#else
#define CUNPOOL_ANY
#endif
typedef uint8_t item1;
typedef uint16_t item2 CUNPOOL_ANY;
typedef uint32_t item4 CUNPOOL_ANY;
typedef uint64_t item8 CUNPOOL_ANY;
typedef struct { item8 low, high; } item16;
typedef float float4 CUNPOOL_ANY;
typedef double float8 CUNPOOL_ANY;
/* float16 and bfloat16: no C type is theirs everywhere. */
typedef struct { item2 bits; } half;
typedef struct { item2 bits; } bhalf;
typedef int32_t index4 CUNPOOL_ANY;
typedef int64_t index8 CUNPOOL_ANY;

/* One binary for any machine: the loader takes the widest vectors that the processor has. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__) \
    && !defined(CUNPOOL_NO_CLONES)
#define CUNPOOL_CLONED __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define CUNPOOL_CLONED
#endif

/* For loops whose bounds are constants only where they are called; for what many call, but not often; and for what
   hardly any call needs, which is compiled for size. */
#if defined(__GNUC__)
#define CUNPOOL_INLINED inline __attribute__((always_inline))
#define CUNPOOL_NOINLINE __attribute__((noinline))
#define CUNPOOL_SELDOM __attribute__((noinline, cold))
#pragma GCC diagnostic ignored "-Wattributes" /* Cython calls them inline all the same */
#elif defined(_MSC_VER)
#define CUNPOOL_INLINED __forceinline
#define CUNPOOL_NOINLINE __declspec(noinline)
#define CUNPOOL_SELDOM __declspec(noinline)
#else
#define CUNPOOL_INLINED inline
#define CUNPOOL_NOINLINE
#define CUNPOOL_SELDOM
#endif

/* A few vectors, the last two of which may overlap. */
static CUNPOOL_INLINED void cunpool_copy(char *to, const char *from, size_t size) {
    size_t i;
    if (size >= 64) {
        for (i = 0; i + 64 < size; i += 64)
            memcpy(to + i, from + i, 64);
        memcpy(to + size - 64, from + size - 64, 64);
    } else if (size >= 32) {
        memcpy(to, from, 32);
        memcpy(to + size - 32, from + size - 32, 32);
    } else if (size >= 16) {
        memcpy(to, from, 16);
        memcpy(to + size - 16, from + size - 16, 16);
    } else if (size >= 8) {
        memcpy(to, from, 8);
        memcpy(to + size - 8, from + size - 8, 8);
    } else
        memcpy(to, from, size);
}

/* Copy past the caches: lines that are written whole need not be read first. */
#if defined(__GNUC__) && defined(__x86_64__)
#include <emmintrin.h>
static inline void cunpool_stream(char *to, const char *from, size_t size) {
    size_t head = (64 - ((size_t) to & 63)) & 63, i;
    if (size < head + 64) {
        memcpy(to, from, size);
        return;
    }
    memcpy(to, from, head);
    for (i = head; i + 64 <= size; i += 64) {
        __m128i a = _mm_loadu_si128((const __m128i *) (from + i));
        __m128i b = _mm_loadu_si128((const __m128i *) (from + i + 16));
        __m128i c = _mm_loadu_si128((const __m128i *) (from + i + 32));
        __m128i d = _mm_loadu_si128((const __m128i *) (from + i + 48));
        _mm_stream_si128((__m128i *) (to + i), a);
        _mm_stream_si128((__m128i *) (to + i + 16), b);
        _mm_stream_si128((__m128i *) (to + i + 32), c);
        _mm_stream_si128((__m128i *) (to + i + 48), d);
    }
    memcpy(to + i, from + i, size - i);
}
#define cunpool_fence() _mm_sfence()
#else
#define cunpool_stream(to, from, size) memcpy(to, from, size)
#define cunpool_fence() ((void) 0)
#endif

/* A checked build ends the process where a block does not fit its buffer, and counts each condition that picks a
   way or sizes a block: how often it did not hold, and how often it did. A section of the module holds all of
   them, those that were never met too. */
#if defined(CUNPOOL_CHECKED)
#include <stdio.h>
#include <stdlib.h>
struct cunpool_condition { const char *name; long long times[2]; char rest[40]; };
extern struct cunpool_condition __start_cunpool_met[], __stop_cunpool_met[];
#pragma weak __start_cunpool_met
#pragma weak __stop_cunpool_met
#define cunpool_conditions() ((long) (__stop_cunpool_met - __start_cunpool_met))
#define cunpool_condition(i) __start_cunpool_met[i]
#define cunpool_met(what, condition) __extension__ ({ \
    static struct cunpool_condition here \
        __attribute__((section("cunpool_met"), used, aligned(64))) = {what, {0, 0}, ""}; \
    int holds = (condition) != 0; \
    __atomic_fetch_add(&here.times[holds], 1, __ATOMIC_RELAXED); \
    holds; })
#define cunpool_check(condition) ((condition) ? (void) 0 : cunpool_fail(__FILE__, __LINE__, #condition))
/* Says which block does not fit: the line, and the condition in the names that it has there. */
__attribute__((noreturn, unused)) static void cunpool_fail(const char *file, int line, const char *said) {
    char *end;
    fprintf(stderr, "cunpool: %s:%d: ", file, line);
    while (*said) {
        if (!strncmp(said, "__pyx_v_", 8))
            said += 8;
        else if (!strncmp(said, "__pyx_e_", 8) || !strncmp(said, "__pyx_f_", 8))
            for (said += 8; *said >= '1' && *said <= '9';) { /* the package and the module, behind their lengths */
                long length = strtol(said, &end, 10);
                said = end + length + 1;
            }
        else
            fputc(*said++, stderr);
    }
    fputc('\n', stderr);
    abort();
}
#else
struct cunpool_condition { const char *name; long long times[2]; };
static struct cunpool_condition cunpool_none;
#define cunpool_conditions() 0L
#define cunpool_condition(i) cunpool_none
#define cunpool_met(what, condition) (condition)
#define cunpool_check(condition) ((void) 0)
#endif

#if defined(__GNUC__)
#define cunpool_prefetch(address) __builtin_prefetch(address)
#define cunpool_prefetch_write(address) __builtin_prefetch(address, 1)
#define cunpool_keep() __asm__ volatile("")
#else
#define cunpool_prefetch(address) ((void) (address))
#define cunpool_prefetch_write(address) ((void) (address))
#define cunpool_keep() ((void) 0)
#endif

#endif
