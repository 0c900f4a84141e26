#ifndef CUNPOOL_POOLING_SEPARABLE_COPY_H
#define CUNPOOL_POOLING_SEPARABLE_COPY_H

/* Separable pooling: rows of neighbours are scattered, and runs are filled. */
#include <stddef.h>
#include <stdint.h>

#include "_kernels/common/caches.h"
#include "_kernels/common/types.h"

#define SEPARABLE_COPY(item) \
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
SEPARABLE_COPY(item1)
SEPARABLE_COPY(item2)
SEPARABLE_COPY(item4)
SEPARABLE_COPY(item8)

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
