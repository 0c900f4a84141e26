#ifndef CUNPOOL_UNPOOLING_FILL_SELECT_H
#define CUNPOOL_UNPOOLING_FILL_SELECT_H

#include <stdint.h>
#include <string.h>

#include "_kernels/common/types.h"

/* One vector: the values whose code is the given one, zero for the others. */
#if defined(__GNUC__)
#define CUNPOOL_SELECT(name, type, size) \
    static CUNPOOL_INLINE void name(char *out, const char *codes, const char *values, type code) { \
        typedef type vector __attribute__((vector_size(size))); \
        vector given, chosen; \
        memcpy(&given, codes, size); \
        memcpy(&chosen, values, size); \
        chosen &= (vector) (given == (vector) {0} + code); \
        memcpy(out, &chosen, size); \
    }
#else
#define CUNPOOL_SELECT(name, type, size) \
    static CUNPOOL_INLINE void name(char *out, const char *codes, const char *values, type code) { \
        type given[size / sizeof(type)], chosen[size / sizeof(type)]; \
        size_t i; \
        memcpy(given, codes, size); \
        memcpy(chosen, values, size); \
        for (i = 0; i < size / sizeof(type); i++) \
            chosen[i] = given[i] == code ? chosen[i] : 0; \
        memcpy(out, chosen, size); \
    }
#endif
/* The same for windows of 2 x 2: the two codes of each of two lines, with both selections interleaved. */
#if defined(__GNUC__) && !defined(__clang__)
#define CUNPOOL_HAS_PAIRS 1
#define CUNPOOL_SELECT_PAIR(name, type, ...) \
    static CUNPOOL_INLINE void name(char *out, char *below, const char *codes, const char *values, \
                                     type code, type code_below, type tap_code) { \
        typedef type vector __attribute__((vector_size(16))); \
        enum { N = 16 / sizeof(type) }; \
        static const vector low = {__VA_ARGS__}; \
        vector given, value, left, right, both; \
        int line; \
        memcpy(&given, codes, 16); \
        memcpy(&value, values, 16); \
        for (line = 0; line < 2; line++) { \
            left = value & (vector) (given == (vector) {0} + code); \
            right = value & (vector) (given == (vector) {0} + (type) (code + tap_code)); \
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
#else
#define CUNPOOL_HAS_PAIRS 0
#define cunpool_select_pair_1(out, below, codes, values, code, code_below, tap_code)
#define cunpool_select_pair_2(out, below, codes, values, code, code_below, tap_code)
#define cunpool_select_pair_4(out, below, codes, values, code, code_below, tap_code)
#define cunpool_select_pair_8(out, below, codes, values, code, code_below, tap_code)
#endif
/* The same for 64 bytes of codes. A plain loop, which the compiler divides into the widest vectors: GCC compares vector
   types that are wider than the processor's lane by lane. */
#if defined(__GNUC__) && !defined(__clang__)
#define CUNPOOL_ROLLED _Pragma("GCC unroll 1") /* GCC does not vectorise a loop that it has unrolled */
#else
#define CUNPOOL_ROLLED
#endif
#define CUNPOOL_SELECT_PAIR_LONG(name, item, narrow) \
    static CUNPOOL_INLINE void name(char *CYTHON_RESTRICT out, char *CYTHON_RESTRICT below, \
                                     const char *CYTHON_RESTRICT codes, const char *CYTHON_RESTRICT values, \
                                     narrow code, narrow code_below, narrow tap_code) { \
        narrow right = code + tap_code, right_below = code_below + tap_code, given; \
        item value; \
        size_t i; \
        CUNPOOL_ROLLED \
        for (i = 0; i < 64 / sizeof(narrow); i++) { \
            value = ((const item *) values)[i]; \
            given = ((const narrow *) codes)[i]; \
            ((item *) out)[2 * i] = value & -(item) (given == code); \
            ((item *) out)[2 * i + 1] = value & -(item) (given == right); \
            ((item *) below)[2 * i] = value & -(item) (given == code_below); \
            ((item *) below)[2 * i + 1] = value & -(item) (given == right_below); \
        } \
    }
CUNPOOL_SELECT_PAIR_LONG(cunpool_select_pair_1_long, item1, item1)
CUNPOOL_SELECT_PAIR_LONG(cunpool_select_pair_2_long, item2, item2)
CUNPOOL_SELECT_PAIR_LONG(cunpool_select_pair_4_long, item4, item4)
CUNPOOL_SELECT_PAIR_LONG(cunpool_select_pair_8_long, item8, item4)
/* One code for 64 bytes of values, as a plain loop for the same reason. */
#define CUNPOOL_SELECT_LONG(name, item) \
    static CUNPOOL_INLINE void name(char *CYTHON_RESTRICT out, const char *CYTHON_RESTRICT codes, \
                                     const char *CYTHON_RESTRICT values, item code) { \
        size_t i; \
        for (i = 0; i < 64 / sizeof(item); i++) \
            ((item *) out)[i] = ((const item *) values)[i] & -(item) (((const item *) codes)[i] == code); \
    }
CUNPOOL_SELECT(cunpool_select_1, uint8_t, 16)
CUNPOOL_SELECT(cunpool_select_2, uint16_t, 16)
CUNPOOL_SELECT(cunpool_select_4, uint32_t, 16)
CUNPOOL_SELECT(cunpool_select_8, uint64_t, 16)
CUNPOOL_SELECT_LONG(cunpool_select_1_long, item1)
CUNPOOL_SELECT_LONG(cunpool_select_2_long, item2)
CUNPOOL_SELECT_LONG(cunpool_select_4_long, item4)
CUNPOOL_SELECT_LONG(cunpool_select_8_long, item8)

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

#endif
