#pragma once

/* Windows compared across channels that are neighbours in memory: a vector of channels at a time, tap by tap. A tap is
   an element of a window. The loops are in across_taps.h. */
#include "_kernels/pooling/simd.h"

enum {
    CUNPOOL_FEW_TAPS = 128,             /* of a window whose channels fill no vector, at most (correctness) */
    CUNPOOL_MAX_RESULTS_AT_ONCE = 1024  /* windows of a row that are compared together, in all channels */
};

/* The elements of a window that lie inside the array, in raster order, and their codes: window codes, or where lanes
   become indices, what an index grows by from the window's first element on. The next channel's elements follow in
   memory. Both arrays have room for all elements of a window. */
typedef struct {
    int count;
    int omits_nan;
    int infinity;               /* of 16-bit floats, as bits */
    uint64_t flip;              /* bits that are inverted while elements are compared */
    const char **elements;
    int32_t *tap_codes;
} cunpool_taps;

/* Some windows of a row, and where their results go. */
typedef struct {
    ptrdiff_t count;
    ptrdiff_t window_bytes, window_step;    /* from one window to the next: bytes, and what indices grow by */
    int64_t base;                   /* index of the first window's first element; 0 for window codes, like the step */
    ptrdiff_t channels;
    ptrdiff_t window_results;       /* from one window to the next, which overwrites what lies behind the one before */
    char *best;
    char *best_codes;               /* NULL where none are stored */
    int code_bytes;                 /* of each: 1 for window codes, 4 or 8 for indices */
} cunpool_across_windows;

#if CUNPOOL_HAS_VECTORS
#define SIMD_LOOPS "_kernels/pooling/across_taps.h"
#include "_kernels/pooling/simd_types.h"

/* The highest element of each window, and its code, in a vector of channels at least. The first of equals stays. Returns
   whether there were odd elements: then the results are worth nothing. A `careful` call compares them exactly, and
   returns 0. */
#define cunpool_compare_across(taps, windows, item_size, is_float, careful) \
    SIMD_OF_TYPE(across, item_size, is_float)(taps, windows, careful)
#else
#define cunpool_compare_across(taps, windows, item_size, is_float, careful) 0
#endif
