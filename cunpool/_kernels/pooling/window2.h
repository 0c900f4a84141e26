#ifndef CUNPOOL_POOLING_WINDOW2_H
#define CUNPOOL_POOLING_WINDOW2_H

/* Windows of 2 side by side, compared where they lie, a vector of them at a time. The loops are in window2_rows.h. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "_kernels/common/caches.h"
#include "_kernels/pooling/simd.h"

enum {
    CUNPOOL_PREFETCH_WINDOWS = 64,          /* windows between two prefetches along a row (speed) */
    CUNPOOL_SHORT_ROW_BYTES = 1 << 11       /* rows are prefetched together up to this size, longer ones in parts (speed) */
};

/* Some rows of windows, and where their results go. */
typedef struct {
    const char *row[4];         /* the rows of the first windows, where the first window begins */
    int rows;                   /* of a window: 1, 2 or 4 (two layers of two) */
    int with_codes;
    int omits_nan;
    int infinity;               /* of 16-bit floats, as bits */
    uint64_t flip;              /* bits that are inverted while elements are compared */
    ptrdiff_t step;             /* bytes from a row to the same one of the next pooled row */
    ptrdiff_t lines, count;     /* pooled rows, and windows of each: a row's results overwrite what lies behind the last */
    ptrdiff_t prefetch_bytes;   /* distance of prefetches, or 0 */
    int32_t offsets[4];         /* of each row's first element in the window */
    char *best;
    int32_t *offset;            /* for elements of 4 and 8 bytes */
    char *code;                 /* for smaller ones: window codes */
} cunpool_window2;

#if CUNPOOL_HAS_VECTORS
/* `count` windows, from `first_window` on, of each pooled row from `line` on. */
typedef int (*cunpool_window2_loop)(const cunpool_window2 *, ptrdiff_t line, ptrdiff_t end_line,
                                    ptrdiff_t first_window, ptrdiff_t count, int careful);

#define SIMD_LOOPS "_kernels/pooling/window2_rows.h"
#include "_kernels/pooling/simd_types.h"

/* How many pooled rows can be read in whole vectors that end before `limit`. */
static ptrdiff_t cunpool_window2_whole(const cunpool_window2 *windows, const char *limit) {
    ptrdiff_t lines = windows->lines, room;
    int k;
    for (k = 0; k < windows->rows; k++) {
        room = limit - windows->row[k] - 2 * CUNPOOL_VECTOR_BYTES;
        if (room < 0)
            return 0;
        if (room < (lines - 1) * windows->step)
            lines = room / windows->step + 1;
    }
    return lines;
}

/* Pooled rows of less than a vector, copied one by one, because nothing behind them may be read. */
static CUNPOOL_NOINLINE int cunpool_window2_copied(const cunpool_window2 *windows, ptrdiff_t line, int item_size,
                                                   int careful, cunpool_window2_loop loop) {
    char room[4][2 * CUNPOOL_VECTOR_BYTES] = {{0}};
    cunpool_window2 one = *windows;
    int k, is_odd = 0;
    one.prefetch_bytes = 0;
    for (; line < windows->lines; line++) {
        for (k = 0; k < windows->rows; k++) {
            memcpy(room[k], windows->row[k] + line * windows->step, (size_t) (2 * windows->count * item_size));
            one.row[k] = room[k];
        }
        one.best = windows->best + line * windows->count * item_size;
        one.offset = windows->offset + line * windows->count;
        one.code = windows->code + line * windows->count;
        is_odd |= loop(&one, 0, 1, 0, CUNPOOL_VECTOR_BYTES / item_size, careful);
    }
    return is_odd;
}

/* Prefetch bytes `first` to before `first` + `size` of each row, `prefetch_bytes` ahead. `of_layers`: that is all of a
   layer's rows, so that its first one is enough. */
static void cunpool_window2_prefetch(const cunpool_window2 *windows, ptrdiff_t first, ptrdiff_t size, int of_layers) {
    ptrdiff_t i;
    int k;
    for (k = 0; k < windows->rows; k++)
        if (!of_layers || k == 0 || windows->row[k] - windows->row[k - 1] >= windows->step)
            for (i = 0; i < size; i += 64)
                cunpool_prefetch(windows->row[k] + windows->prefetch_bytes + first + i);
    cunpool_keep();     /* compilers drop functions that only prefetch */
}

/* All pooled rows before `end_line`, some at a time, or a part of a row at a time, of elements that are prefetched. */
static CUNPOOL_NOINLINE int cunpool_window2_ahead(const cunpool_window2 *windows, ptrdiff_t end_line, ptrdiff_t count,
                                                  int item_size, int careful, cunpool_window2_loop loop) {
    const ptrdiff_t together = windows->step > 0 ? CUNPOOL_SHORT_ROW_BYTES / windows->step : 0;
    ptrdiff_t line, i, some;
    int is_odd = 0;
    for (line = 0; line < end_line && together; line += some) {
        some = end_line - line < together ? end_line - line : together;
        cunpool_window2_prefetch(windows, line * windows->step, some * windows->step, 1);
        is_odd |= loop(windows, line, line + some, 0, count, careful);
    }
    for (; line < end_line; line++)
        for (i = 0; i < count; i += some) {
            some = count - i < 2 * CUNPOOL_PREFETCH_WINDOWS ? count - i : CUNPOOL_PREFETCH_WINDOWS;
            cunpool_window2_prefetch(windows, line * windows->step + 2 * i * item_size, 2 * some * item_size, 0);
            is_odd |= loop(windows, line, line + 1, i, some, careful);
        }
    return is_odd;
}

/* The highest element of each window, and its offset or code. The first of equals stays. Returns whether there were odd
   elements: then the results are worth nothing. A `careful` call compares these exactly, and returns 0. Results behind
   the last row are overwritten, up to a vector of them. */
static inline int cunpool_compare_window2(const cunpool_window2 *windows, int item_size, int is_float,
                                          const char *limit, int careful) {
    const cunpool_window2_loop loop = SIMD_OF_TYPE(window2, item_size, is_float);
    const ptrdiff_t lanes = CUNPOOL_VECTOR_BYTES / item_size;
    const ptrdiff_t count = windows->count < lanes ? lanes : windows->count;
    const ptrdiff_t whole = windows->count < lanes ? cunpool_window2_whole(windows, limit) : windows->lines;
    int is_odd = windows->prefetch_bytes ? cunpool_window2_ahead(windows, whole, count, item_size, careful, loop)
                 : loop(windows, 0, whole, 0, count, careful);
    if (whole < windows->lines)
        is_odd |= cunpool_window2_copied(windows, whole, item_size, careful, loop);
    return is_odd;
}
#else
#define cunpool_compare_window2(windows, item_size, is_float, limit, careful) 0
#endif

#endif
