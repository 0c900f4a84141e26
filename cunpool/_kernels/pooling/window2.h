#pragma once

/* Windows of 2 side by side, compared where they lie, a vector of them at a time. The loops are in window2_rows.h. The
   width is the axis along which elements are neighbours: in transposed planes that is the height of the caller. */
#include "_kernels/pooling/simd.h"

enum { CUNPOOL_WINDOW2_AHEAD = 1 << 12 };    /* bytes that a row is prefetched ahead (speed: 8 x 64 x 224 x 224) */

/* Some rows of windows, and where their results go. */
typedef struct {
    const char *row[4];         /* the rows of the first windows, where the first window begins */
    int kernel_rows;            /* of a window: 1, 2 or 4 (two layers of two) */
    int with_codes;
    int omits_nan;
    int infinity;               /* of 16-bit floats, as bits */
    uint64_t flip;              /* bits that are inverted while elements are compared */
    ptrdiff_t pooled_row_bytes; /* from a row to the same one of the next pooled row */
    ptrdiff_t pooled_rows;
    ptrdiff_t row_windows;      /* windows of a pooled row, whose results overwrite what lies behind those before */
    int32_t row_codes[4];       /* of each row's first element in the window: window codes, or what indices grow by */
    int32_t second_code;        /* what the second element of a row adds */
    int is_swapped;             /* in raster order, first elements of all rows come before second ones */
    int has_indices;            /* lanes of 4 or 8 bytes hold indices */
    int64_t base, row_step;     /* index where a plane's first window begins, and from one pooled row to the next */
    int64_t window_step;        /* the same from one window to the next */
    int32_t ramp4[16];          /* the same from a vector's first window to each, in lanes of 4 bytes */
    int64_t ramp8[8];           /* and of 8 bytes */
    ptrdiff_t plane_row, plane_rows;    /* the first pooled row, and all, of a plane; others of a stack follow */
    char *best;
    char *best_codes;
    int code_bytes;             /* of each: 1 for window codes, 4 or 8 for indices */
} cunpool_window2;

#if CUNPOOL_HAS_VECTORS
#define SIMD_LOOPS "_kernels/pooling/window2_rows.h"
#include "_kernels/pooling/simd_types.h"

/* The highest element of each window, and its index or code. The first of equals stays. Returns whether there were odd
   elements: then the results are worth nothing. A `careful` call compares these exactly, and returns 0. Results behind
   the last row are overwritten, up to a vector of them. */
#define cunpool_compare_window2(windows, item_size, is_float, careful) \
    SIMD_OF_TYPE(window2, item_size, is_float)(windows, careful)
#else
#define cunpool_compare_window2(windows, item_size, is_float, careful) 0
#endif
