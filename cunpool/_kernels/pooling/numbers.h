#ifndef CUNPOOL_POOLING_NUMBERS_H
#define CUNPOOL_POOLING_NUMBERS_H

#include <stdint.h>

#include <math.h>

/* The highest of some runs, or the lowest, element by element. `into` may be one of them, but overlaps no other. */
#if defined(__clang__)
#define CUNPOOL_APART _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define CUNPOOL_APART _Pragma("GCC ivdep")
#elif defined(_MSC_VER)
#define CUNPOOL_APART __pragma(loop(ivdep))
#else
#define CUNPOOL_APART
#endif
#define CUNPOOL_HIGHER(x, y) ((y) > (x) ? (y) : (x))
#define CUNPOOL_LOWER(x, y) ((y) < (x) ? (y) : (x))
/* `is_minimum` is a constant of each loop. */
#define CUNPOOL_BETTER(is_minimum, x, y) ((is_minimum) ? CUNPOOL_LOWER(x, y) : CUNPOOL_HIGHER(x, y))
/* The loop of the macros below. `highest` is an expression of its counter `i_`. */
#define CUNPOOL_RUNS(into, count, highest) do { \
        Py_ssize_t i_; \
        CUNPOOL_APART \
        for (i_ = 0; i_ < (count); i_++) \
            (into)[i_] = highest; \
    } while (0)
#define CUNPOOL_BEST_2(is_minimum, into, a, b, count) \
    CUNPOOL_RUNS(into, count, CUNPOOL_BETTER(is_minimum, (a)[i_], (b)[i_]))
/* `v` and `w` store the better of two: GCC 12 compiles nested conditions on floats to masks, not to VMAXPS. (speed) */
#define CUNPOOL_BEST_3(is_minimum, into, v, a, b, c, count) \
    CUNPOOL_RUNS(into, count, ((v) = CUNPOOL_BETTER(is_minimum, (a)[i_], (b)[i_]), \
                               CUNPOOL_BETTER(is_minimum, v, (c)[i_])))
#define CUNPOOL_BEST_4(is_minimum, into, v, w, a, b, c, d, count) \
    CUNPOOL_RUNS(into, count, ((v) = CUNPOOL_BETTER(is_minimum, (a)[i_], (b)[i_]), \
                               (w) = CUNPOOL_BETTER(is_minimum, (c)[i_], (d)[i_]), CUNPOOL_BETTER(is_minimum, v, w)))

/* The highest of four or nine, of equals the first; and whether any of these is a NaN, which may be lost. The first of
   nine is not checked, because it would stay. `v` to `x` store elements, and the better of two. */
#define CUNPOOL_TWO(v, w, x, a, b) \
    (v) = (a)[i_], (w) = (b)[i_], nan_ |= isunordered(v, w), (v) = CUNPOOL_HIGHER(v, w), \
    (x) = CUNPOOL_HIGHER(x, v)
#define CUNPOOL_NOTED(count, nan, highest) do { \
        Py_ssize_t i_; \
        CUNPOOL_APART \
        for (i_ = 0; i_ < (count); i_++) { \
            int nan_ = 0; \
            highest; \
            (nan)[i_] |= nan_; \
        } \
    } while (0)
#define CUNPOOL_NOTED_4(into, count, nan, v, w, x, a, b, c, d) \
    CUNPOOL_NOTED(count, nan, ((x) = (a)[i_], CUNPOOL_TWO(v, w, x, a, b), CUNPOOL_TWO(v, w, x, c, d), \
                               (into)[i_] = (x)))
#define CUNPOOL_NOTED_9(into, count, nan, v, w, x, a, b, c, d, e, f, g, h, j) \
    CUNPOOL_NOTED(count, nan, ((x) = (a)[i_], CUNPOOL_TWO(v, w, x, b, c), CUNPOOL_TWO(v, w, x, d, e), \
                               CUNPOOL_TWO(v, w, x, f, g), CUNPOOL_TWO(v, w, x, h, j), (into)[i_] = (x)))

/* Half precision, of either kind, as an integer of the same order; and back again. */
#define CUNPOOL_ORDERED(x) ((int16_t) ((x) ^ ((x) >> 15 & 0x7FFF)))
#define CUNPOOL_BETTER_HALF(is_minimum, x, y) CUNPOOL_BETTER(is_minimum, CUNPOOL_ORDERED(x), CUNPOOL_ORDERED(y))
#define CUNPOOL_BEST_HALF_2(is_minimum, into, a, b, count) \
    CUNPOOL_RUNS(into, count, CUNPOOL_ORDERED(CUNPOOL_BETTER_HALF(is_minimum, (a)[i_], (b)[i_])))
#define CUNPOOL_BEST_HALF_3(is_minimum, into, a, b, c, count) \
    CUNPOOL_RUNS(into, count, CUNPOOL_ORDERED( \
        CUNPOOL_BETTER(is_minimum, CUNPOOL_BETTER_HALF(is_minimum, (a)[i_], (b)[i_]), CUNPOOL_ORDERED((c)[i_]))))

#endif
