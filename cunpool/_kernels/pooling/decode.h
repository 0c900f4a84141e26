#pragma once

/* Window codes become indices: that of the window's first element, and what the code adds. A code's row and layer are
   quotients, for which a product and a shift stand. In 32 bits they are exact for windows of up to 256 elements. */
#include <stddef.h>
#include <stdint.h>

#include "_kernels/common/caches.h"
#include "_kernels/pooling/simd.h"

/* Codes, and entries of a ramp, that may be read behind the last one. */
enum { DECODED_TOGETHER = 64 };

/* What a code adds for its column, and from row to row and layer to layer; 0 where windows have one layer. */
typedef struct {
    uint64_t column, row, layer, per_row, per_layer;
    int index_bytes, code_size; /* of a result; `code_size` is 0 for indices */
    int is_far;                 /* windows are too large, or their elements too far apart, for 32 bits */
} cunpool_decoder;

#define CODES_OF_VECTOR(lane) ((CUNPOOL_VECTOR_BYTES + sizeof(lane) - 1) / sizeof(lane))
/* Indices, or window codes, of a row of results, where window i begins `ramp[i]` behind `base`: a vector of codes at a
   time, and the last, shorter ones by way of a copy. Unsigned, because sums of unused elements may wrap. */
#define CODES_DECODE(lane, name, index, result) \
    static CUNPOOL_INLINE void cunpool_decode_##lane##_##name##_vector(index *to, const lane *code, uint64_t base, \
                                                                       const int64_t *ramp, cunpool_decoder d) { \
        size_t i; \
        (void) base, (void) ramp, (void) d; \
        CUNPOOL_INDEPENDENT \
        for (i = 0; i < CODES_OF_VECTOR(lane); i++) \
            to[i] = (index) (result); \
    } \
    static CUNPOOL_WIDE void cunpool_decode_##lane##_##name(char *to, const char *codes, ptrdiff_t count, \
                                                             uint64_t base, const int64_t *ramp, \
                                                             const cunpool_decoder *decoder) { \
        const cunpool_decoder d = *decoder; \
        const ptrdiff_t some = CODES_OF_VECTOR(lane); \
        const lane *code = (const lane *) codes; \
        index last[CODES_OF_VECTOR(lane)], *into = (index *) to; \
        for (; count >= some; count -= some, code += some, ramp += some, into += some) \
            cunpool_decode_##lane##_##name##_vector(into, code, base, ramp, d); \
        if (count) { \
            cunpool_decode_##lane##_##name##_vector(last, code, base, ramp, d); \
            cunpool_copy((char *) into, (const char *) last, (size_t) count * sizeof(index)); \
        } \
    }
/* What an index grows by from its window's first element on: in 32 bits; and in 64, for windows that are too large, or
   whose elements are too far apart. */
#define CODES_NEAR \
    ((uint32_t) code[i] * (uint32_t) d.column + ((uint32_t) code[i] * (uint32_t) d.per_row >> 16) * (uint32_t) d.row \
     + ((uint32_t) code[i] * (uint32_t) d.per_layer >> 16) * (uint32_t) d.layer)
#define CODES_FAR (code[i] * d.column + (code[i] * d.per_row >> 40) * d.row + (code[i] * d.per_layer >> 40) * d.layer)
#define CODES_DECODERS(lane) \
    CODES_DECODE(lane, index4, index4, (uint32_t) base + (uint32_t) ramp[i] + CODES_NEAR) \
    CODES_DECODE(lane, index8, index8, \
                     base + (uint64_t) ramp[i] + (uint64_t) (int64_t) (int32_t) CODES_NEAR) \
    CODES_DECODE(lane, far4, index4, (uint32_t) (base + (uint64_t) ramp[i] + CODES_FAR)) \
    CODES_DECODE(lane, far8, index8, base + (uint64_t) ramp[i] + CODES_FAR) \
    CODES_DECODE(lane, item1, item1, code[i]) \
    CODES_DECODE(lane, item2, item2, code[i]) \
    static void cunpool_decode_##lane(const cunpool_decoder *d, char *to, const char *codes, ptrdiff_t count, \
                                      uint64_t base, const int64_t *ramp) { \
        const int has_4 = d->index_bytes == 4; \
        (d->code_size == 1 ? cunpool_decode_##lane##_item1 : d->code_size == 2 ? cunpool_decode_##lane##_item2 \
         : d->is_far ? has_4 ? cunpool_decode_##lane##_far4 : cunpool_decode_##lane##_far8 \
         : has_4 ? cunpool_decode_##lane##_index4 : cunpool_decode_##lane##_index8)(to, codes, count, base, ramp, d); \
    }
CODES_DECODERS(item1)
CODES_DECODERS(item2)
CODES_DECODERS(item4)
CODES_DECODERS(item8)

/* Decode codes of `bytes` bytes. */
static void cunpool_decode(const cunpool_decoder *d, int bytes, char *to, const char *codes, ptrdiff_t count,
                           uint64_t base, const int64_t *ramp) {
    (bytes == 1 ? cunpool_decode_item1 : bytes == 2 ? cunpool_decode_item2
     : bytes == 4 ? cunpool_decode_item4 : cunpool_decode_item8)(d, to, codes, count, base, ramp);
}
