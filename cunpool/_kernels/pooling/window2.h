#pragma once

/* Windows of 2 side by side, compared where they lie, a vector of them at a time. The loops are in window2_rows.h. */
#include "_kernels/pooling/simd.h"

enum {
    CUNPOOL_PREFETCH_WINDOWS = 64,          /* windows between two prefetches along a row (speed) */
    CUNPOOL_SHORT_ROW_BYTES = 1 << 11       /* rows are prefetched together up to here, longer ones in parts (speed) */
};

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
    ptrdiff_t prefetch_bytes;   /* distance of prefetches, or 0 */
    int32_t row_offsets[4];     /* of each row's first element in the window */
    char *best;
    char *best_codes;           /* offsets of 4 bytes for elements of 4 and 8 bytes, window codes for smaller ones */
} cunpool_window2;

#if CUNPOOL_HAS_VECTORS
/* `count` windows, from `first_window` on, of the pooled rows from `row` to before `end_row`. */
typedef int (*cunpool_window2_function)(const cunpool_window2 *, ptrdiff_t row, ptrdiff_t end_row,
                                        ptrdiff_t first_window, ptrdiff_t count, int careful);

#define SIMD_LOOPS "_kernels/pooling/window2_rows.h"
#include "_kernels/pooling/simd_types.h"

/* How many pooled rows can be read in whole vectors that end before `limit`. */
static ptrdiff_t cunpool_window2_readable(const cunpool_window2 *windows, const char *limit) {
    ptrdiff_t rows = windows->pooled_rows, bytes_left;
    int k;
    for (k = 0; k < windows->kernel_rows; k++) {
        bytes_left = limit - windows->row[k] - 2 * CUNPOOL_VECTOR_BYTES;
        if (bytes_left < 0)
            return 0;
        if (bytes_left < (rows - 1) * windows->pooled_row_bytes)
            rows = bytes_left / windows->pooled_row_bytes + 1;
    }
    return rows;
}

/* Pooled rows of less than a vector, copied one by one, because nothing behind them may be read. */
static CUNPOOL_NOINLINE int cunpool_window2_copied(const cunpool_window2 *windows, ptrdiff_t row, int item_size,
                                                   int careful, cunpool_window2_function compare) {
    char copy[4][2 * CUNPOOL_VECTOR_BYTES] = {{0}};
    cunpool_window2 one = *windows;
    int k, is_odd = 0;
    one.prefetch_bytes = 0;
    for (; row < windows->pooled_rows; row++) {
        for (k = 0; k < windows->kernel_rows; k++) {
            memcpy(copy[k], windows->row[k] + row * windows->pooled_row_bytes,
                   (size_t) (2 * windows->row_windows * item_size));
            one.row[k] = copy[k];
        }
        one.best = windows->best + row * windows->row_windows * item_size;
        one.best_codes = windows->best_codes + row * windows->row_windows * (item_size < 4 ? 1 : 4);
        is_odd |= compare(&one, 0, 1, 0, CUNPOOL_VECTOR_BYTES / item_size, careful);
    }
    return is_odd;
}

/* Prefetch bytes `first` to before `first` + `size` of each row, `prefetch_bytes` ahead. `of_layers`: that is all of a
   layer's rows, so that its first one is enough. */
static void cunpool_window2_prefetch(const cunpool_window2 *windows, ptrdiff_t first, ptrdiff_t size, int of_layers) {
    ptrdiff_t i;
    int k;
    for (k = 0; k < windows->kernel_rows; k++)
        if (!of_layers || k == 0 || windows->row[k] - windows->row[k - 1] >= windows->pooled_row_bytes)
            for (i = 0; i < size; i += 64)
                __builtin_prefetch(windows->row[k] + windows->prefetch_bytes + first + i);
    __asm__ volatile("");   /* compilers drop functions that only prefetch */
}

/* The pooled rows before `end_row`, of elements that are prefetched: some rows at a time, or a part of a row. */
static CUNPOOL_NOINLINE int cunpool_window2_prefetched(const cunpool_window2 *windows, ptrdiff_t end_row,
                                                       ptrdiff_t count, int item_size, int careful,
                                                       cunpool_window2_function compare) {
    const ptrdiff_t row_bytes = windows->pooled_row_bytes;
    const ptrdiff_t rows_at_once = row_bytes > 0 ? CUNPOOL_SHORT_ROW_BYTES / row_bytes : 0;
    ptrdiff_t row, i, some;
    int is_odd = 0;
    for (row = 0; row < end_row && rows_at_once; row += some) {
        some = end_row - row < rows_at_once ? end_row - row : rows_at_once;
        cunpool_window2_prefetch(windows, row * row_bytes, some * row_bytes, 1);
        is_odd |= compare(windows, row, row + some, 0, count, careful);
    }
    for (; row < end_row; row++)
        for (i = 0; i < count; i += some) {
            some = count - i < 2 * CUNPOOL_PREFETCH_WINDOWS ? count - i : CUNPOOL_PREFETCH_WINDOWS;
            cunpool_window2_prefetch(windows, row * row_bytes + 2 * i * item_size, 2 * some * item_size, 0);
            is_odd |= compare(windows, row, row + 1, i, some, careful);
        }
    return is_odd;
}

/* The highest element of each window, and its offset or code. The first of equals stays. Returns whether there were odd
   elements: then the results are worth nothing. A `careful` call compares these exactly, and returns 0. Results behind
   the last row are overwritten, up to a vector of them. */
static inline int cunpool_compare_window2(const cunpool_window2 *windows, int item_size, int is_float,
                                          const char *limit, int careful) {
    const cunpool_window2_function compare = SIMD_OF_TYPE(window2, item_size, is_float);
    const ptrdiff_t lanes = CUNPOOL_VECTOR_BYTES / item_size;
    const int is_short = windows->row_windows < lanes;
    const ptrdiff_t count = is_short ? lanes : windows->row_windows;
    const ptrdiff_t readable = is_short ? cunpool_window2_readable(windows, limit) : windows->pooled_rows;
    int is_odd = windows->prefetch_bytes ? cunpool_window2_prefetched(windows, readable, count, item_size, careful,
                                                                      compare)
                 : compare(windows, 0, readable, 0, count, careful);
    if (readable < windows->pooled_rows)
        is_odd |= cunpool_window2_copied(windows, readable, item_size, careful, compare);
    return is_odd;
}
#else
#define cunpool_compare_window2(windows, item_size, is_float, limit, careful) 0
#endif
