#ifndef CUNPOOL_POOLING_DECODE_H
#define CUNPOOL_POOLING_DECODE_H

/* Window codes become indices: that of the window's first element, and what the code adds. A code's row and layer are
   quotients, for which a product and a shift stand: exact for windows of up to 256 elements. */
#include <stddef.h>
#include <stdint.h>

#include "_kernels/common/types.h"

/* What a code adds for its column, and from row to row and layer to layer. */
typedef struct {
    uint32_t column, row, layer, per_row, per_layer;
    int is_flat;                /* one layer, and no dilation along the row */
} cunpool_decoder;

/* Indices, or window codes, of a row of results, where window i begins `ramp[i]` behind `base`. Unsigned, because sums
   of unused elements may wrap. */
#define CODES_DECODE(lane, name, index, result) \
    static CUNPOOL_WIDE void cunpool_decode_##lane##_##name(char *to, const char *codes, ptrdiff_t count, \
                                                             uint64_t base, const int64_t *ramp, \
                                                             const cunpool_decoder *decoder) { \
        const lane *code = (const lane *) codes; \
        const cunpool_decoder d = *decoder; \
        ptrdiff_t i; \
        (void) base, (void) ramp, (void) d; \
        CUNPOOL_INDEPENDENT \
        for (i = 0; i < count; i++) \
            ((index *) to)[i] = (index) (result); \
    }
/* What an index grows by from its window's first element on, if windows have one layer and no dilation along the row,
   as most do. */
#define CODES_FLAT ((uint32_t) code[i] + ((uint32_t) code[i] * d.per_row >> 16) * d.row)
#define CODES_DECODE_FLAT(lane) \
    CODES_DECODE(lane, flat4, index4, (uint32_t) base + (uint32_t) ramp[i] + CODES_FLAT) \
    CODES_DECODE(lane, flat8, index8, base + (uint64_t) ramp[i] + (uint64_t) (int64_t) (int32_t) CODES_FLAT)
CODES_DECODE_FLAT(item1)

#endif
