#ifndef CUNPOOL_POOLING_NUMBERS_H
#define CUNPOOL_POOLING_NUMBERS_H

#include <stdint.h>

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

/* Half precision, of either kind, as an integer of the same order; and back again. */
#define CUNPOOL_ORDERED(x) ((int16_t) ((x) ^ ((x) >> 15 & 0x7FFF)))
#define CUNPOOL_BETTER_HALF(is_minimum, x, y) CUNPOOL_BETTER(is_minimum, CUNPOOL_ORDERED(x), CUNPOOL_ORDERED(y))
#define CUNPOOL_BEST_HALF_2(is_minimum, into, a, b, count) \
    CUNPOOL_RUNS(into, count, CUNPOOL_ORDERED(CUNPOOL_BETTER_HALF(is_minimum, (a)[i_], (b)[i_])))
#define CUNPOOL_BEST_HALF_3(is_minimum, into, a, b, c, count) \
    CUNPOOL_RUNS(into, count, CUNPOOL_ORDERED( \
        CUNPOOL_BETTER(is_minimum, CUNPOOL_BETTER_HALF(is_minimum, (a)[i_], (b)[i_]), CUNPOOL_ORDERED((c)[i_]))))

#endif
