#pragma once

/* Rows of elements are packed, that is copied to rows without gaps, or scattered, which is the reverse, or filled. */
#include "_kernels/common/caches.h"
#include "_kernels/common/types.h"
#ifdef __SSSE3__
#include <tmmintrin.h>
#endif

/* Rows of units of `unit` neighbours: bytes from unit to unit, and from row to row. What lies between units of several
   items is read, too, unless `has_gaps` says that it may not belong to the array. */
typedef struct {
    ptrdiff_t unit_bytes, row_bytes, units, rows, unit, has_gaps;
} cunpool_rows;

/* Pack units of `bytes`, which lie `apart`, as many at a time as 16 bytes have: all before number `end`, and perhaps
   some of those behind. Returns how many were packed: 0 where the instruction set shuffles no bytes. */
static CUNPOOL_NOINLINE ptrdiff_t cunpool_pack_short(char *to, const char *from, ptrdiff_t apart, ptrdiff_t bytes,
                                                     ptrdiff_t end) {
#ifdef __SSSE3__
    const ptrdiff_t together = end > 0 && apart + bytes <= 16 ? (16 - bytes) / apart + 1 : 0;
    char source[16] = {0};      /* the number of the byte that goes to each place */
    ptrdiff_t i, k;
    for (i = 0; i < together; i++)
        for (k = 0; k < bytes; k++)
            source[i * bytes + k] = (char) (i * apart + k);
    for (i = 0; together && i < end; i += together)
        _mm_storeu_si128((__m128i *) (to + i * bytes),
                         _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *) (from + i * apart)),
                                          _mm_loadu_si128((const __m128i *) source)));
    return i;
#else
    (void) to, (void) from, (void) apart, (void) bytes, (void) end;
    return 0;
#endif
}

/* Copy rows of units to rows that are `pitch` items apart. */
#define PACK_EACH_ROW for (row = 0; row < size->rows; row++, to += pitch, from += size->row_bytes)
#define PACK_EVERY(item, stride) \
    PACK_EACH_ROW \
        CUNPOOL_INDEPENDENT \
        for (i = 0; i < count; i++) \
            to[i] = ((const item *) from)[(stride) * i];
#define PACK_UNIT(item, unit_) \
    for (k = 0; k < (unit_); k++) \
        to[i * unit + k] = ((const item *) (from + i * size->unit_bytes))[k];
#define PACK_TYPED(width, item) \
    static CUNPOOL_WIDE void cunpool_pack_##width(char *to_bytes, ptrdiff_t pitch, const char *from, \
                                                   const cunpool_rows *size) { \
        const ptrdiff_t count = size->units, unit = size->unit, stride = size->unit_bytes / (ptrdiff_t) sizeof(item); \
        /* Units that are followed by 16 bytes of later ones. */ \
        const ptrdiff_t bytes = unit * (ptrdiff_t) sizeof(item), last = count - 16 / bytes - 1; \
        const ptrdiff_t whole = size->unit_bytes > bytes && last > 0 && !size->has_gaps ? last : 0; \
        item *to = (item *) to_bytes; \
        ptrdiff_t i, k, row; \
        if (size->unit_bytes == bytes) \
            PACK_EACH_ROW cunpool_copy((char *) to, from, (size_t) (count * bytes)); \
        else if (unit > 1) \
            PACK_EACH_ROW { \
                /* Whole vectors, whose rest the next unit overwrites, but for the last units of the row. */ \
                i = cunpool_pack_short((char *) to, from, size->unit_bytes, bytes, whole); \
                for (; i < whole; i++) \
                    for (k = 0; k < unit; k += 16 / (ptrdiff_t) sizeof(item)) \
                        memcpy(to + i * unit + k, from + i * size->unit_bytes + k * (ptrdiff_t) sizeof(item), 16); \
                /* Three neighbours, such as colours of four. (speed: 1080 x 1920, uint8, 2 x 2) */ \
                for (; unit == 3 && i < count; i++) \
                    PACK_UNIT(item, 3) \
                for (; i < count; i++) \
                    PACK_UNIT(item, unit) \
            } \
        else if (size->unit_bytes == 2 * (ptrdiff_t) sizeof(item)) \
            PACK_EVERY(item, 2) \
        else if (size->unit_bytes == 3 * (ptrdiff_t) sizeof(item)) \
            PACK_EVERY(item, 3) \
        else if (size->unit_bytes == -(ptrdiff_t) sizeof(item)) \
            PACK_EVERY(item, -1) \
        else if (size->unit_bytes % (ptrdiff_t) sizeof(item) == 0) \
            PACK_EVERY(item, stride) \
        else \
            PACK_EACH_ROW for (i = 0; i < count; i++) \
                to[i] = *(const item *) (from + i * size->unit_bytes); \
    }
#define PACK_OF_SIZE(width, item) \
    PACK_TYPED(width, item) \
    static inline void cunpool_scatter_##width(char *to, ptrdiff_t to_bytes, const char *from, ptrdiff_t count) { \
        ptrdiff_t i; \
        for (i = 0; i < count; i++) \
            *(item *) (to + i * to_bytes) = ((const item *) from)[i]; \
    } \
    static inline CUNPOOL_WIDE void cunpool_fill_##width(char *to, ptrdiff_t count, uint64_t bits) { \
        ptrdiff_t i; \
        for (i = 0; i < count; i++) \
            ((item *) to)[i] = (item) bits; \
    }
PACK_OF_SIZE(1, item1)
PACK_OF_SIZE(2, item2)
PACK_OF_SIZE(4, item4)
PACK_OF_SIZE(8, item8)

/* Pack rows of items of `size` bytes, `pitch` items apart in `to`. */
static void cunpool_pack_rows(int size, char *to, ptrdiff_t pitch, const char *from, const cunpool_rows *rows) {
    CUNPOOL_OF_SIZE(cunpool_pack, size)(to, pitch, from, rows);
}

/* Pack one row: `count` units of `unit` items, `bytes` from unit to unit. */
static void cunpool_pack_row(int size, char *to, const char *from, ptrdiff_t bytes, ptrdiff_t count, ptrdiff_t unit) {
    const cunpool_rows row = {bytes, 0, count, 1, unit, 0};
    cunpool_pack_rows(size, to, 0, from, &row);
}

/* Store neighbours `to_bytes` apart. */
static inline void cunpool_scatter(int size, char *to, ptrdiff_t to_bytes, const char *from, ptrdiff_t count) {
    if (to_bytes == size)
        cunpool_copy(to, from, (size_t) (count * size));  // fault: a write one past the end
    else
        CUNPOOL_OF_SIZE(cunpool_scatter, size)(to, to_bytes, from, count);
}

/* Store the same bits `count` times. */
static inline void cunpool_fill(int size, char *to, ptrdiff_t count, uint64_t bits) {
    CUNPOOL_OF_SIZE(cunpool_fill, size)(to, count, bits);
}
