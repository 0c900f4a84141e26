#pragma once

#include <string.h>

#include "_kernels/common/types.h"

/* The values whose code is the given one, zero for the others: `size` bytes, as a plain loop. The compiler divides it
   into the widest vectors. If a vector type is wider than the processor's vectors, GCC compares its elements one by one. */
#define CUNPOOL_SELECT_LOOP(name, type, size) \
    static CUNPOOL_INLINE void name(char *CYTHON_RESTRICT out, const void *CYTHON_RESTRICT codes, \
                                     const void *CYTHON_RESTRICT values, uint64_t code) { \
        size_t i; \
        for (i = 0; i < size / sizeof(type); i++) \
            ((type *) out)[i] = ((const type *) values)[i] & -(type) (((const type *) codes)[i] == (type) code); \
    }
/* The same for one vector of 16 bytes, as a vector type where compilers have them. SSE2 compares no 8 bytes: GCC would
   compare them one by one (speed). Codes are less than 2**63, so that the highest bit tells whether both are equal. */
#if defined(__GNUC__)
#if defined(__SSE2__) && !defined(__SSE4_1__)
#define CUNPOOL_EQUAL(a, b) (sizeof((a)[0]) == 8 ? 0 - ((((a) ^ (b)) - 1) >> (8 * sizeof((a)[0]) - 1)) \
                                                 : (vector) ((a) == (b)))
#else
#define CUNPOOL_EQUAL(a, b) ((vector) ((a) == (b)))
#endif
#define CUNPOOL_SELECT(name, type, size) \
    static CUNPOOL_INLINE void name(char *out, const void *codes, const void *values, uint64_t code) { \
        typedef type vector __attribute__((vector_size(size))); \
        vector given, chosen; \
        memcpy(&given, codes, size); \
        memcpy(&chosen, values, size); \
        chosen &= CUNPOOL_EQUAL(given, (vector) {0} + (type) code); \
        memcpy(out, &chosen, size); \
    }
#else
#define CUNPOOL_SELECT CUNPOOL_SELECT_LOOP
#endif
CUNPOOL_SELECT(cunpool_select_1, uint8_t, 16)
CUNPOOL_SELECT(cunpool_select_2, uint16_t, 16)
CUNPOOL_SELECT(cunpool_select_4, uint32_t, 16)
CUNPOOL_SELECT(cunpool_select_8, uint64_t, 16)
CUNPOOL_SELECT_LOOP(cunpool_select_long_1, item1, 64)
CUNPOOL_SELECT_LOOP(cunpool_select_long_2, item2, 64)
CUNPOOL_SELECT_LOOP(cunpool_select_long_4, item4, 64)
CUNPOOL_SELECT_LOOP(cunpool_select_long_8, item8, 64)
/* One of these functions, by the size of a lane, which is a constant. */
#define cunpool_select(lane, ...) CUNPOOL_OF_SIZE(cunpool_select, lane)(__VA_ARGS__)
#define cunpool_select_long(lane, ...) CUNPOOL_OF_SIZE(cunpool_select_long, lane)(__VA_ARGS__)
/* The same for windows of 2 x 2: the two codes of each of two lines, with both selections interleaved. */
#if defined(__GNUC__) && !defined(__clang__)
#define CUNPOOL_HAS_PAIRS 1
#define CUNPOOL_SELECT_PAIR(name, type, ...) \
    static CUNPOOL_INLINE void name(char *out, char *below, const void *codes, const void *values, \
                                     uint64_t code, uint64_t code_below, uint64_t tap_code) { \
        typedef type vector __attribute__((vector_size(16))); \
        enum { N = 16 / sizeof(type) }; \
        static const vector low = {__VA_ARGS__}; \
        vector given, value, left, right, both; \
        int line; \
        memcpy(&given, codes, 16); \
        memcpy(&value, values, 16); \
        for (line = 0; line < 2; line++) { \
            left = value & CUNPOOL_EQUAL(given, (vector) {0} + (type) code); \
            right = value & CUNPOOL_EQUAL(given, (vector) {0} + (type) (code + tap_code)); \
            both = __builtin_shuffle(left, right, low); \
            memcpy(out, &both, 16); \
            both = __builtin_shuffle(left, right, low + (type) (N / 2)); \
            memcpy(out + 16, &both, 16); \
            out = below; \
            code = code_below; \
        } \
    }
CUNPOOL_SELECT_PAIR(cunpool_select_pair_1, uint8_t, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
CUNPOOL_SELECT_PAIR(cunpool_select_pair_2, uint16_t, 0, 8, 1, 9, 2, 10, 3, 11)
CUNPOOL_SELECT_PAIR(cunpool_select_pair_4, uint32_t, 0, 4, 1, 5)
CUNPOOL_SELECT_PAIR(cunpool_select_pair_8, uint64_t, 0, 2)
#define cunpool_select_pair(lane, ...) CUNPOOL_OF_SIZE(cunpool_select_pair, lane)(__VA_ARGS__)
#else
#define CUNPOOL_HAS_PAIRS 0
#define cunpool_select_pair(lane, ...) ((void) 0)
#endif
/* A line of units of a few bytes: the same `vectors` again and again, each with its order of bytes and its codes. SSE2
   has no instruction that shuffles bytes. */
#if defined(__GNUC__) && !defined(__clang__) && (defined(__AVX2__) || defined(__aarch64__))
#define CUNPOOL_HAS_SHUFFLE 1
static void cunpool_select_mixed(char *out, const char *codes, const char *values, Py_ssize_t times,
                                 Py_ssize_t step, int vectors, const Py_ssize_t *at,
                                 const uint8_t (*order)[16], const uint8_t (*codes_wanted)[16]) {
    typedef uint8_t vector __attribute__((vector_size(16)));
    vector given, chosen, bytes, code;
    int i;
    for (; times > 0; times--) {
        for (i = 0; i < vectors; i++) {
            memcpy(&given, codes + at[i], 16);
            memcpy(&chosen, values + at[i], 16);
            memcpy(&bytes, order[i], 16);
            memcpy(&code, codes_wanted[i], 16);
            chosen = __builtin_shuffle(chosen, bytes) & (vector) (__builtin_shuffle(given, bytes) == code);
            memcpy(out, &chosen, 16);
            out += 16;
        }
        codes += step;
        values += step;
    }
}
#else
#define CUNPOOL_HAS_SHUFFLE 0
#define cunpool_select_mixed(out, codes, values, times, step, vectors, at, order, codes_wanted)
#endif
