#pragma once

/* Windows compared across channels that are neighbours in memory: a vector of channels at a time, tap by tap. A tap is
   an element of a window. The loops are in across_taps.h. */
#include "_kernels/common/checks.h"
#include "_kernels/pooling/simd.h"

enum {
    CUNPOOL_TAPS = 128,                 /* of the largest window (correctness) */
    CUNPOOL_MAX_RESULTS_AT_ONCE = 1024, /* windows of a row that are compared together, in all channels */
    SHARED_MAX_KERNEL = 5,
    SHARED_MAX_LINES = 8,               /* rows of windows that are compared together, at most */
    SHARED_MAX_ROWS = (SHARED_MAX_LINES - 1) * 2 + SHARED_MAX_KERNEL
};

/* The elements of a window that lie inside the array, in raster order, and their offsets in the window: indices from
   its first element on, or window codes. The next channel's elements follow in memory. */
typedef struct {
    int count;
    int omits_nan;
    int infinity;               /* of 16-bit floats, as bits */
    uint64_t flip;              /* bits that are inverted while elements are compared */
    const char *elements[CUNPOOL_TAPS];
    int32_t offsets[CUNPOOL_TAPS];
} cunpool_taps;

/* Some windows of a row, and where their results go. */
typedef struct {
    ptrdiff_t count;
    ptrdiff_t window_bytes, window_offset;  /* from one window to the next: bytes, and what offsets grow by */
    int32_t first_offset;           /* added to all offsets that are indices */
    ptrdiff_t channels;
    ptrdiff_t window_results;       /* from one window to the next, which overwrites what lies behind the one before */
    char *best;
    int32_t *offset;                /* NULL where none is stored */
    char *code_bytes;               /* codes of a byte each in place of `offset`; else NULL */
} cunpool_across_windows;

/* Some lines, which are rows of windows here: of `kernel` x `kernel`, 2, 3 or 5, and `stride` apart along both axes, 1
   or 2 (1 for 2 x 2, which have no offsets). Each row of elements is reduced along the width once, and stays in
   registers for all lines that share it. A tap outside the array stands for the nearest element of its window, with the
   offset of that element: comparing an element twice changes neither the maximum nor its offset. */
typedef struct {
    cunpool_across_windows first_line;
    ptrdiff_t lines;
    int kernel, stride;
    const char *row[SHARED_MAX_ROWS];       /* the first element of each row */
    int32_t row_offset[SHARED_MAX_ROWS];    /* what a row adds to offsets, which count from the first row here */
    ptrdiff_t tap_bytes[SHARED_MAX_KERNEL]; /* from the first element of a row to each tap of the first window */
    int32_t tap_offset[SHARED_MAX_KERNEL];  /* what a tap adds to offsets */
    int32_t line_offset;    /* subtracted once for each line before, so that offsets count from their own windows */
    ptrdiff_t best_line_bytes, line_results, code_line_bytes;   /* from one line of results to the next */
    uint64_t flip;                          /* of elements of 16 bits or less: bits that are inverted */
    int infinity;                           /* of 16-bit floats, as bits */
} cunpool_shared_rows;

#if CUNPOOL_HAS_VECTORS
typedef int (*cunpool_across_function)(const cunpool_taps *, const cunpool_across_windows *, int careful);

#define SIMD_LOOPS "_kernels/pooling/across_taps.h"
#include "_kernels/pooling/simd_types.h"

/* The highest element of each window of some lines, and its offset. Returns whether there were odd elements: then the
   results are worth nothing. */
#if CUNPOOL_HAS_LARGE_LOOPS
#define SIMD_LOOPS "_kernels/pooling/across_shared.h"
#include "_kernels/pooling/simd_types.h"
static inline int cunpool_compare_shared(const cunpool_shared_rows *rows, int item_size, int is_float) {
    return SIMD_OF_TYPE(shared, item_size, is_float)(rows);
}
#endif

/* Fewer channels than a vector has lanes, where nothing behind them may be read: the elements of one window at a time
   are copied. */
static CUNPOOL_NOINLINE int cunpool_across_few(const cunpool_taps *taps, const cunpool_across_windows *windows,
                                               int careful, int item_size, cunpool_across_function compare) {
    char room[CUNPOOL_TAPS][CUNPOOL_VECTOR_BYTES];
    cunpool_taps copy = *taps;
    cunpool_across_windows one = *windows;
    ptrdiff_t window;
    int tap, is_odd = 0;
    memset(room, 0, (size_t) taps->count * CUNPOOL_VECTOR_BYTES);
    one.count = 1;
    one.channels = CUNPOOL_VECTOR_BYTES / item_size;
    for (window = 0; window < windows->count; window++) {
        for (tap = 0; tap < taps->count; tap++) {
            memcpy(room[tap], taps->elements[tap] + window * windows->window_bytes,
                   (size_t) (windows->channels * item_size));
            copy.elements[tap] = room[tap];
        }
        one.first_offset = windows->first_offset + (int32_t) (window * windows->window_offset);
        is_odd |= compare(&copy, &one, careful);
        one.best += windows->window_results * item_size;
        one.offset = one.offset ? one.offset + windows->window_results : NULL;
        one.code_bytes = one.code_bytes ? one.code_bytes + windows->window_results : NULL;
    }
    return is_odd;
}

/* The highest element of each window, and its offset. The first of equals stays. Returns whether there were odd
   elements: then the results are worth nothing. A `careful` call compares them exactly, and returns 0. */
static inline int cunpool_across_vectors(const cunpool_taps *taps, const cunpool_across_windows *windows,
                                         int item_size, int is_float, int careful) {
    const cunpool_across_function compare = SIMD_OF_TYPE(across, item_size, is_float);
    if (windows->channels * item_size < CUNPOOL_VECTOR_BYTES)
        return cunpool_across_few(taps, windows, careful, item_size, compare);
    return compare(taps, windows, careful);
}

/* The same for bytes, whose lanes hold no offset: they hold the number of a tap, which has one. Offsets behind the
   channels are overwritten, up to 15. */
static CUNPOOL_NOINLINE void cunpool_across_bytes(const cunpool_taps *taps, const cunpool_across_windows *windows) {
    uint8_t number[CUNPOOL_MAX_RESULTS_AT_ONCE + 2 * CUNPOOL_VECTOR_BYTES];
    cunpool_taps numbered = *taps;
    cunpool_across_windows coded = *windows;
    ptrdiff_t window, i, first;
    int32_t further = windows->first_offset;
    int tap;
    for (tap = 0; tap < taps->count; tap++)
        numbered.offsets[tap] = tap;
    coded.offset = NULL;
    coded.code_bytes = (char *) number;
    cunpool_across_vectors(&numbered, &coded, 1, 0, 0);
    /* The last look-up may read up to 15 numbers behind the channels: they have to be taps. (correctness) */
    first = (windows->count - 1) * windows->window_results + windows->channels;
    cunpool_assert(first + 15 <= (ptrdiff_t) sizeof number);
    memset(number + first, 0, 15);
    for (window = 0; window < windows->count; window++) {
        first = window * windows->window_results;
        for (i = first; i < first + windows->channels; i += 16)
            look_up_offsets(windows->offset + i, number + i, taps->offsets, further);
        further += (int32_t) windows->window_offset;
    }
}

static inline int cunpool_compare_across(const cunpool_taps *taps, const cunpool_across_windows *windows, int item_size,
                                         int is_float, int careful) {
    if (item_size == 1 && windows->offset && !windows->code_bytes) {
        cunpool_across_bytes(taps, windows);
        return 0;
    }
    return cunpool_across_vectors(taps, windows, item_size, is_float, careful);
}
#else
#define cunpool_compare_across(taps, windows, item_size, is_float, careful) 0
#endif
#if !CUNPOOL_HAS_LARGE_LOOPS
#define cunpool_compare_shared(rows, item_size, is_float) 0
#endif
