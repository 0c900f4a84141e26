#ifndef CUNPOOL_POOLING_SEPARABLE_COPY_H
#define CUNPOOL_POOLING_SEPARABLE_COPY_H

/* Separable pooling: rows of elements are gathered into neighbours, and scattered; and runs are filled. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "_kernels/common/caches.h"
#include "_kernels/common/types.h"

/* No iteration of the next loop reads what another one writes. */
#if defined(__clang__)
#define SEPARABLE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define SEPARABLE_INDEPENDENT _Pragma("GCC ivdep")
#else
#define SEPARABLE_INDEPENDENT
#endif

/* Rows of units of `unit` neighbours: bytes from unit to unit, and from row to row. */
typedef struct {
    ptrdiff_t unit_bytes, row_bytes, units, rows, unit;
} cunpool_rows;

/* Copy rows of units to rows that are `pitch` items apart. */
#define SEPARABLE_EACH_ROW for (row = 0; row < size->rows; row++, to += pitch, from += size->row_bytes)
#define SEPARABLE_EVERY(item, stride) \
    SEPARABLE_EACH_ROW \
        SEPARABLE_INDEPENDENT \
        for (i = 0; i < count; i++) \
            to[i] = ((const item *) from)[(stride) * i];
#define SEPARABLE_GATHER(item) \
    static CUNPOOL_WIDE void cunpool_gather_##item(char *to_bytes, ptrdiff_t pitch, const char *from, \
                                                   const cunpool_rows *size) { \
        const ptrdiff_t count = size->units, unit = size->unit, stride = size->unit_bytes / (ptrdiff_t) sizeof(item); \
        /* Units that are followed by 16 bytes of later ones. */ \
        const ptrdiff_t bytes = unit * (ptrdiff_t) sizeof(item), last = count - 16 / bytes - 1; \
        const ptrdiff_t whole = size->unit_bytes > bytes && last > 0 ? last : 0; \
        item *to = (item *) to_bytes; \
        ptrdiff_t i, k, row; \
        if (size->unit_bytes == bytes) \
            SEPARABLE_EACH_ROW cunpool_copy((char *) to, from, (size_t) (count * bytes)); \
        else if (unit > 1) \
            SEPARABLE_EACH_ROW { \
                /* Whole vectors, whose rest the next unit overwrites, but for the last units of the row. */ \
                for (i = 0; i < whole; i++) \
                    for (k = 0; k < unit; k += 16 / (ptrdiff_t) sizeof(item)) \
                        memcpy(to + i * unit + k, from + i * size->unit_bytes + k * (ptrdiff_t) sizeof(item), 16); \
                for (; i < count; i++) \
                    for (k = 0; k < unit; k++) \
                        to[i * unit + k] = ((const item *) (from + i * size->unit_bytes))[k]; \
            } \
        else if (size->unit_bytes == 2 * (ptrdiff_t) sizeof(item)) \
            SEPARABLE_EVERY(item, 2) \
        else if (size->unit_bytes == 3 * (ptrdiff_t) sizeof(item)) \
            SEPARABLE_EVERY(item, 3) \
        else if (size->unit_bytes == -(ptrdiff_t) sizeof(item)) \
            SEPARABLE_EVERY(item, -1) \
        else if (size->unit_bytes % (ptrdiff_t) sizeof(item) == 0) \
            SEPARABLE_EVERY(item, stride) \
        else \
            SEPARABLE_EACH_ROW for (i = 0; i < count; i++) \
                to[i] = *(const item *) (from + i * size->unit_bytes); \
    } \
    static void cunpool_scatter_##item(char *to, ptrdiff_t to_bytes, const char *from, ptrdiff_t count) { \
        ptrdiff_t i; \
        for (i = 0; i < count; i++) \
            *(item *) (to + i * to_bytes) = ((const item *) from)[i]; \
    } \
    static CUNPOOL_WIDE void cunpool_fill_##item(char *to, ptrdiff_t count, uint64_t bits) { \
        ptrdiff_t i; \
        for (i = 0; i < count; i++) \
            ((item *) to)[i] = (item) bits; \
    }
SEPARABLE_GATHER(item1)
SEPARABLE_GATHER(item2)
SEPARABLE_GATHER(item4)
SEPARABLE_GATHER(item8)

static void cunpool_gather_rows(int size, char *to, ptrdiff_t pitch, const char *from, const cunpool_rows *rows) {
    (size == 1 ? cunpool_gather_item1 : size == 2 ? cunpool_gather_item2 : size == 4 ? cunpool_gather_item4
     : cunpool_gather_item8)(to, pitch, from, rows);
}

static void cunpool_gather(int size, char *to, const char *from, ptrdiff_t bytes, ptrdiff_t count, ptrdiff_t unit) {
    const cunpool_rows row = {bytes, 0, count, 1, unit};
    cunpool_gather_rows(size, to, 0, from, &row);
}

static void cunpool_scatter(int size, char *to, ptrdiff_t to_bytes, const char *from, ptrdiff_t count) {
    if (to_bytes == size)
        cunpool_copy(to, from, (size_t) (count * size));  // fault: a write one past the end
    else if (size == 1)
        cunpool_scatter_item1(to, to_bytes, from, count);
    else if (size == 2)
        cunpool_scatter_item2(to, to_bytes, from, count);
    else if (size == 4)
        cunpool_scatter_item4(to, to_bytes, from, count);
    else
        cunpool_scatter_item8(to, to_bytes, from, count);
}

static void cunpool_fill(int size, char *to, ptrdiff_t count, uint64_t bits) {
    if (size == 1)
        cunpool_fill_item1(to, count, bits);
    else if (size == 2)
        cunpool_fill_item2(to, count, bits);
    else if (size == 4)
        cunpool_fill_item4(to, count, bits);
    else
        cunpool_fill_item8(to, count, bits);
}

#endif
