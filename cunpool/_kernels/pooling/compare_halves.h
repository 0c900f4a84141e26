#ifndef CUNPOOL_POOLING_COMPARE_HALVES_H
#define CUNPOOL_POOLING_COMPARE_HALVES_H

/* 16-bit floats across channels. Everything has 16 bits, so that compilers vectorise the loop: elements, the integers by
   which they are compared, and offsets in the window. */
#include <stdint.h>

#include "_kernels/common/types.h"
#include "_kernels/pooling/numbers.h"

enum {
    CUNPOOL_HALF_TAPS = 9,              /* elements of the largest window */
    CUNPOOL_HALF_MAX_OFFSET = INT16_MAX /* of an element in its window */
};

/* How 16-bit floats are compared: bits that are inverted for minima, infinity, and the place of NaN in the order: above
   infinity, or below the lowest number where it is omitted. */
typedef struct {
    int16_t flip, infinity, nan;
} cunpool_half_order;

/* An integer of the same order. Both zeros are 0. `x` is an element; `negative` and `size` store parts of it. */
#define CUNPOOL_HALF_ORDER(order, x, negative, size) ( \
        negative = (int16_t) ((int16_t) ((x) ^ (order).flip) >> 15), size = (int16_t) ((x) & 0x7FFF), \
        (int16_t) (size > (order).infinity ? (order).nan : (int16_t) ((size ^ negative) - negative)))

/* Compare element `tap` of the window: the first of equals stays, but the last NaN where it is not omitted. An offset is
   a variable of its own, because a conditional load keeps GCC from vectorising. */
#define CUNPOOL_HALF_TAP(tap) do { \
        const int16_t later = element[tap][i]; \
        int16_t negative, size; \
        const int16_t later_key = CUNPOOL_HALF_ORDER(order, later, negative, size); \
        const int beats = (later_key > key) | (later_key == INT16_MAX); \
        key = beats ? later_key : key; \
        highest = beats ? later : highest; \
        there = beats ? at##tap : there; \
    } while (0)

/* The maxima of `lines` windows and their offsets, and those of the next windows: as `compare_windows` in taps.pxd.
   `taps` is a constant. Windows of fewer elements have their last one several times. */
#define CUNPOOL_COMPARE_HALVES(name, taps) \
    static CUNPOOL_WIDE void name(const char *const *elements, const int16_t *at, cunpool_half_order order, \
            Py_ssize_t windows, Py_ssize_t next, Py_ssize_t next_offset, Py_ssize_t pitch, Py_ssize_t lines, \
            int16_t *best, int32_t *offset) { \
        const int16_t *element[CUNPOOL_HALF_TAPS]; \
        const int16_t at1 = at[1], at2 = at[2], at3 = at[3], at4 = at[4], at5 = at[5], at6 = at[6], at7 = at[7]; \
        const int16_t at0 = at[0], at8 = at[8]; \
        Py_ssize_t window, i; \
        int tap; \
        for (window = 0; window < windows; window++) { \
            const int32_t begin = (int32_t) (window * next_offset); \
            int16_t *to = best + window * pitch; \
            int32_t *to_offset = offset + window * pitch; \
            for (tap = 0; tap < CUNPOOL_HALF_TAPS; tap++) \
                element[tap] = (const int16_t *) (elements[tap] + window * next); \
            CUNPOOL_APART \
            for (i = 0; i < lines; i++) { \
                int16_t highest = element[0][i], there = at0, negative, size; \
                int16_t key = CUNPOOL_HALF_ORDER(order, highest, negative, size); \
                CUNPOOL_HALF_TAP(1); \
                CUNPOOL_HALF_TAP(2); \
                CUNPOOL_HALF_TAP(3); \
                if ((taps) > 4) { \
                    CUNPOOL_HALF_TAP(4); \
                    CUNPOOL_HALF_TAP(5); \
                    CUNPOOL_HALF_TAP(6); \
                    CUNPOOL_HALF_TAP(7); \
                    CUNPOOL_HALF_TAP(8); \
                } \
                to[i] = highest; \
                to_offset[i] = begin + there; \
            } \
        } \
    }
CUNPOOL_COMPARE_HALVES(cunpool_compare_4_halves, 4)
CUNPOOL_COMPARE_HALVES(cunpool_compare_9_halves, 9)

static inline void cunpool_compare_halves(int count, const char *const *elements, const int32_t *offsets, uint64_t flip,
                                          int32_t infinity, int omits_nan, Py_ssize_t windows, Py_ssize_t next,
                                          Py_ssize_t next_offset, Py_ssize_t pitch, Py_ssize_t lines, void *best,
                                          int32_t *offset) {
    const int taps = count > 4 ? CUNPOOL_HALF_TAPS : 4;
    const cunpool_half_order order = {(int16_t) flip, (int16_t) infinity, omits_nan ? INT16_MIN : INT16_MAX};
    const char *element[CUNPOOL_HALF_TAPS];
    int16_t at[CUNPOOL_HALF_TAPS];
    int tap;
    for (tap = 0; tap < CUNPOOL_HALF_TAPS; tap++) {
        element[tap] = elements[tap < count ? tap : count - 1];
        at[tap] = (int16_t) offsets[tap < count ? tap : count - 1];
    }
    if (taps == 4)
        cunpool_compare_4_halves(element, at, order, windows, next, next_offset, pitch, lines, best, offset);
    else
        cunpool_compare_9_halves(element, at, order, windows, next, next_offset, pitch, lines, best, offset);
}

#endif
