#pragma once

#include <stdint.h>

#if defined(__GNUC__)
/* Arrays may be unaligned, and elements of any dtype are moved as integers. */
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
/* float16 and bfloat16, for which not every compiler has a type. */
typedef struct { item2 bits; } half;
typedef struct { item2 bits; } bhalf;
typedef int16_t int2 CUNPOOL_ANY;
typedef int32_t index4 CUNPOOL_ANY;
typedef int64_t index8 CUNPOOL_ANY;

/* The function of items of this size, name_1 to name_8. */
#define CUNPOOL_OF_SIZE(name, size) \
    ((size) == 1 ? name##_1 : (size) == 2 ? name##_2 : (size) == 4 ? name##_4 : name##_8)

/* The elements of two vectors that some numbers name. T is a vector of integers as wide as the elements. */
#if defined(__clang__)
#define CUNPOOL_SHUFFLE(T, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#elif defined(__GNUC__)
#define CUNPOOL_SHUFFLE(T, a, b, ...) __builtin_shuffle(a, b, (T) {__VA_ARGS__})
#endif

/* No iteration of the next loop reads what another one writes. */
#if defined(__clang__)
#define CUNPOOL_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define CUNPOOL_INDEPENDENT _Pragma("GCC ivdep")
#else
#define CUNPOOL_INDEPENDENT
#endif

/* INLINE: loops whose bounds are constants at the call. NOINLINE: functions with many callers that run rarely. */
#if defined(__GNUC__)
#define CUNPOOL_INLINE inline __attribute__((always_inline))
#define CUNPOOL_NOINLINE __attribute__((noinline))
/* For loops that are worth vectors as wide as the instruction set has. Others have narrow ones (setup.py): most rows
   are short, and what is left of a wide vector is handled one by one. (speed) */
#if defined(__AVX2__) && !defined(__clang__)
#define CUNPOOL_WIDE __attribute__((noinline, target("prefer-vector-width=512")))
#else
#define CUNPOOL_WIDE CUNPOOL_NOINLINE
#endif
#pragma GCC diagnostic ignored "-Wattributes" /* Cython calls them inline all the same */
#else /* MSVC */
#define CUNPOOL_INLINE __forceinline
#define CUNPOOL_NOINLINE __declspec(noinline)
#define CUNPOOL_WIDE CUNPOOL_NOINLINE
#endif
