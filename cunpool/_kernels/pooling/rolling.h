#pragma once

/* Max pooling by rolling stripes. A stripe of columns, a vector of windows wide, goes down the pooled rows of a block:

       columns of the stripe
      |<- 8 windows ->|           row 0   reduced along the width to (maximum, code), kept in registers
                                  row 1   the same
                                  row 2   the same; now the windows of the first pooled row are complete
                                  ...     rows that the next pooled row shares stay in registers

   Each row of the array is loaded and reduced once for each stripe. The rows that a block shares with the next one are
   kept in scratch memory. A row above or below the plane is replaced by the nearest row of the plane: its elements are
   equal to ones that are compared anyway, and of equals the first stays. Columns beside the plane are limited to the
   lowest number of the type in the first and the last stripe.

   Where channels are neighbours in memory, a stripe is a vector of channels of one column of windows. Columns beside the
   plane are replaced by the nearest one, too. Where channels have less than 64 bytes, all columns inside the plane are
   one run of elements: one result further, every tap lies one element further. Columns that a stride leaves out are
   pooled, too, and left out when results are brought from scratch memory. */
#include "_kernels/common/caches.h"
#include "_kernels/common/pack.h"
#include "_kernels/pooling/decode.h"
#include "_kernels/pooling/simd.h"

enum {
    ROLLING_MAX_KERNEL = 7,
    ROLLING_MAX_BLOCK = 16,     /* pooled rows of a block */
    ROLLING_UNIT_BLOCK = 8,     /* the same where channels are neighbours */
    ROLLING_MAX_ROWS = (ROLLING_MAX_BLOCK - 1) * 2 + ROLLING_MAX_KERNEL,
    ROLLING_MARGIN = 64,        /* elements before a copied row; correctness: at least the padding */
    ROLLING_BYTES = 64,         /* of the widest vector */
    ROLLING_DECODED = 512,      /* codes that become indices together, and channels whose codes do, at most */
    /* While a block is pooled the next one is prefetched, if it fits L1; else elements this many bytes ahead in a row.
       (speed: 2 x 64 x 256 x 256, float32, 3 x 3, stride 1, codes, AVX-512: 2.2; others 1.1 in the mean) */
    ROLLING_PREFETCH_BLOCK = 1 << 15,
    ROLLING_AHEAD = 1 << 10
};
enum { ROLLING_VALUES, ROLLING_CODES, ROLLING_INDICES4, ROLLING_INDICES8 };     /* the form of results */

/* One array: bytes from plane to plane, and from row to row. */
typedef struct {
    char *data;
    ptrdiff_t batch_bytes, channel_bytes, row_bytes;
} cunpool_planes;

/* One call. Sizes are in elements; along a row, in units. */
typedef struct {
    cunpool_planes full, pooled, indices;
    ptrdiff_t planes, channels;     /* of a batch; where channels are units, pooled layers */
    ptrdiff_t height, width;        /* of a plane of the full array */
    ptrdiff_t rows, windows;        /* pooled rows of a plane; columns of windows */
    ptrdiff_t unit, unit_bytes;     /* 1, or channels that are neighbours, which make one plane; bytes to the next ones */
    ptrdiff_t row_results;          /* of a pooled row, in all channels */
    ptrdiff_t run;                  /* results of the run of all columns inside the plane; 0 where there is none */
    ptrdiff_t before, behind;       /* in runs: columns of windows that begin before the plane, and that end behind */
    ptrdiff_t spread;               /* units from window to window in a row of results: in runs the stride, else 1 */
    ptrdiff_t layer_rows;           /* rows of the full array from one plane's layer to the next, where planes have some */
    ptrdiff_t padding[2];
    int kernel, stride;             /* along both axes */
    int form, index_bytes;
    int item_bytes, is_float, lanes;
    int is_index;                   /* codes are indices at once: results are, and lanes have 32 bits or more */
    int infinity;                   /* of 16-bit floats, as bits */
    int64_t flip;                   /* bits that are inverted while elements are compared: for minima and int8 */
    int64_t lowest;                 /* bits of an element that loses to all others */
    int omits_nan;
    int is_contiguous;              /* all planes follow each other: what lies behind one may be read, and of results
                                       what lies behind a row may be overwritten */
    int is_streamed;                /* by non-temporal stores */
    ptrdiff_t block_rows;           /* pooled rows of the highest block */
    ptrdiff_t reach;                /* elements from a row's first on that stripes read */
    ptrdiff_t values_pitch;         /* bytes of a row of values in scratch memory; 0 where they are stored in place */
    ptrdiff_t tile_pitch;           /* bytes of a row of codes in scratch memory, the tile; 0 where they are in place */
    int code_bytes;                 /* of a stored code: 1 in the tile, else those of an index or window code */
} cunpool_rolling;

/* Where the parts of a task's scratch memory begin, and how large all of them are. */
typedef struct {
    ptrdiff_t kept, first_rows, last_rows, values, indices, tile, ramp, bytes;
} cunpool_rolling_scratch;

/* A block: some pooled rows of a plane, and the rows of the full array below them. */
typedef struct {
    const char *row[ROLLING_MAX_ROWS];      /* first element */
    int64_t row_code[ROLLING_MAX_ROWS];     /* what an element's code grows by along the height */
    int64_t line_code[ROLLING_MAX_BLOCK];   /* the code of a pooled row's first row, subtracted at last */
    ptrdiff_t count;                        /* pooled rows */
    char *values, *indices;                 /* of its first window */
    ptrdiff_t values_pitch, indices_pitch;  /* bytes from pooled row to pooled row */
    char *kept;                             /* rows of the stripes' state that blocks share */
    int has_kept, keeps;                    /* whether the block before filled that, and whether this one does */
} cunpool_rolling_block;

/* The last and first rows of an array are copied where stripes read elements beside them. */
static inline cunpool_rolling_scratch cunpool_rolling_layout(const cunpool_rolling *plan) {
    cunpool_rolling_scratch at = {0};
    const ptrdiff_t lanes = plan->lanes;
    const int has_units = plan->unit > 1;
    ptrdiff_t stripes = has_units ? 0 : (plan->windows + lanes - 1) / lanes, size = plan->item_bytes;
    ptrdiff_t copied = has_units ? 0 : (ROLLING_MARGIN + 2 * plan->width + 2 * plan->reach) * size;
    ptrdiff_t spilled = plan->row_results < lanes ? plan->block_rows * plan->row_results + lanes : 0;
    at.kept = cunpool_part(&at.bytes, stripes * (plan->kernel - 1) * 2 * ROLLING_BYTES);
    at.first_rows = cunpool_part(&at.bytes, copied);
    at.last_rows = cunpool_part(&at.bytes, copied);
    at.values = cunpool_part(&at.bytes, plan->values_pitch ? plan->values_pitch * plan->block_rows : spilled * size);
    at.indices = cunpool_part(&at.bytes, plan->tile_pitch ? 0 : spilled * plan->index_bytes);
    at.tile = cunpool_part(&at.bytes, plan->tile_pitch * (has_units ? ROLLING_UNIT_BLOCK : plan->block_rows));
    at.ramp = cunpool_part(&at.bytes, plan->tile_pitch ? ROLLING_DECODED * (ptrdiff_t) sizeof(int64_t) : 0);
    return at;
}
#define cunpool_rolling_bytes(plan) (cunpool_rolling_layout(plan).bytes)

/* The row of the caller's plane where a plane begins, which may be a layer of it. */
static inline ptrdiff_t cunpool_rolling_layer(const cunpool_rolling *plan, ptrdiff_t plane) {
    return plane % plan->channels * plan->layer_rows;
}

static inline char *cunpool_rolling_plane(const cunpool_rolling *plan, const cunpool_planes *array, ptrdiff_t plane) {
    return array->data + plane / plan->channels * array->batch_bytes + plane % plan->channels * array->channel_bytes;
}

/* Copy rows from `first` to before `end` with room on both sides; returns where row 0 would begin. */
static inline const char *cunpool_rolling_copy(const cunpool_rolling *plan, const char *plane, ptrdiff_t first,
                                               ptrdiff_t end, char *room) {
    ptrdiff_t row_bytes = plan->width * plan->item_bytes, bytes = (end - first) * row_bytes;
    char *begin = room + ROLLING_MARGIN * plan->item_bytes;
    memset(room, 0, ROLLING_MARGIN * (size_t) plan->item_bytes);
    memcpy(begin, plane + first * row_bytes, (size_t) bytes);
    memset(begin + bytes, 0, (size_t) (plan->reach * plan->item_bytes));
    return begin - first * row_bytes;
}

/* Find the rows of a block, from pooled row `line` of a plane on. */
static CUNPOOL_NOINLINE void cunpool_rolling_rows(const cunpool_rolling *plan, const cunpool_rolling_scratch *at,
                                                  char *scratch, ptrdiff_t plane, ptrdiff_t line,
                                                  cunpool_rolling_block *block) {
    const char *begin = cunpool_rolling_plane(plan, &plan->full, plane), *base;
    const ptrdiff_t row_bytes = plan->full.row_bytes, per_row = plan->is_index ? plan->width : plan->kernel;
    const ptrdiff_t top = line * plan->stride - plan->padding[0];
    const ptrdiff_t end = top + (block->count - 1) * plan->stride + plan->kernel;
    const ptrdiff_t layer = plan->is_index ? cunpool_rolling_layer(plan, plane) : 0;
    ptrdiff_t first = top < 0 ? 0 : top, last = end > plan->height ? plan->height : end, i, row;
    /* Rows before `low` and from `high` on: reads beside these leave the array, or the plane in one with gaps. */
    ptrdiff_t before = plan->is_contiguous ? plane * plan->height * plan->width : 0;
    ptrdiff_t behind = plan->is_contiguous ? (plan->planes - 1 - plane) * plan->height * plan->width : 0;
    ptrdiff_t missing = plan->reach - plan->width - behind, low = 0, high = plan->height;
    const char *first_rows = begin, *last_rows = begin;
    if (plan->unit == 1 && before < plan->padding[1])
        low = (plan->padding[1] - before + plan->width - 1) / plan->width;
    if (plan->unit == 1 && missing > 0)
        high -= (missing + plan->width - 1) / plan->width;
    if (first < low)
        first_rows = cunpool_rolling_copy(plan, begin, first, low < last ? low : last, scratch + at->first_rows);
    if (last > high)
        last_rows = cunpool_rolling_copy(plan, begin, first > high ? first : high, last, scratch + at->last_rows);
    for (i = 0; i < end - top; i++) {
        row = top + i < first ? first : top + i < last ? top + i : last - 1;
        base = row >= high ? last_rows : row < low ? first_rows : begin;
        block->row[i] = base + row * row_bytes;
        block->row_code[i] = (layer + row) * per_row;
    }
    for (i = 0; i < block->count; i++)
        block->line_code[i] = plan->is_index ? 0 : (top + i * plan->stride) * plan->kernel;
}

/* Which pooled rows of a plane a block has, and where its results go: into scratch memory where whole vectors behind a
   row's windows would overwrite results of others, which are rows from `limit` on. */
static inline void cunpool_rolling_place(const cunpool_rolling *plan, const cunpool_rolling_scratch *at, char *scratch,
                                         ptrdiff_t plane, ptrdiff_t line, ptrdiff_t limit,
                                         cunpool_rolling_block *block) {
    const ptrdiff_t row = plan->row_results, lanes = plan->lanes;
    int spills = row < lanes && (line + block->count - 1) * row + lanes > limit * row;
    block->values_pitch = plan->pooled.row_bytes;
    block->indices_pitch = plan->indices.row_bytes;
    block->values = cunpool_rolling_plane(plan, &plan->pooled, plane) + line * block->values_pitch;
    block->indices = NULL;
    if (plan->form != ROLLING_VALUES)
        block->indices = cunpool_rolling_plane(plan, &plan->indices, plane) + line * block->indices_pitch;
    if (spills) {
        block->values = scratch + at->values;
        block->indices = scratch + at->indices;
    }
    if (plan->values_pitch) {
        block->values = scratch + at->values;
        block->values_pitch = plan->values_pitch;
    }
    if (plan->tile_pitch) {
        block->indices = scratch + at->tile;
        block->indices_pitch = plan->tile_pitch;
    }
}

#if CUNPOOL_HAS_VECTORS
/* Fill the ramp: how far the windows of results that are decoded together begin behind the first one, as indices. */
static CUNPOOL_NOINLINE void cunpool_rolling_ramp(const cunpool_rolling *plan, int64_t *ramp) {
    ptrdiff_t i, k, window;
    for (i = window = 0; plan->tile_pitch && i < ROLLING_DECODED; window++)
        for (k = 0; k < plan->unit && i < ROLLING_DECODED; k++)
            ramp[i++] = window * plan->stride;
}

/* Bring the results of a block from scratch memory to where they belong: without the columns that a stride leaves out,
   and codes as indices where these are asked for. */
static CUNPOOL_NOINLINE void cunpool_rolling_deliver(const cunpool_rolling *plan, const cunpool_rolling_scratch *at,
                                                     char *scratch, ptrdiff_t plane, ptrdiff_t line,
                                                     const cunpool_rolling_block *block) {
    const ptrdiff_t unit = plan->unit, most = ROLLING_DECODED / unit, layer = cunpool_rolling_layer(plan, plane);
    const ptrdiff_t from_unit = plan->spread * unit;
    cunpool_decoder decoder = {0};
    char packed[ROLLING_DECODED + DECODED_TOGETHER];
    char *to = cunpool_rolling_plane(plan, &plan->pooled, plane) + line * plan->pooled.row_bytes;
    ptrdiff_t i, window, first, some;
    if (plan->values_pitch)
        for (i = 0; i < block->count; i++)
            cunpool_pack_row(plan->item_bytes, to + i * plan->pooled.row_bytes, block->values + i * plan->values_pitch,
                             from_unit * plan->item_bytes, plan->windows, unit);
    else if (block->values == scratch + at->values)
        memcpy(to, block->values, (size_t) (block->count * plan->pooled.row_bytes));
    if (plan->form == ROLLING_VALUES)
        return;
    to = cunpool_rolling_plane(plan, &plan->indices, plane) + line * plan->indices.row_bytes;
    if (!plan->tile_pitch && block->indices == scratch + at->indices)
        memcpy(to, block->indices, (size_t) (block->count * plan->indices.row_bytes));
    if (!plan->tile_pitch)
        return;
    decoder.column = 1;
    decoder.index_bytes = plan->index_bytes;
    decoder.code_size = plan->form == ROLLING_CODES;
    decoder.row = (uint32_t) (plan->width - plan->kernel);
    decoder.per_row = 65536 / (uint32_t) plan->kernel + 1;
    for (i = 0; i < block->count; i++) {
        const char *code = block->indices + i * plan->tile_pitch;
        first = (layer + (line + i) * plan->stride - plan->padding[0]) * plan->width - plan->padding[1];
        for (window = 0; window < plan->windows; window += some) {
            some = plan->windows - window < most ? plan->windows - window : most;
            if (plan->spread > 1)
                cunpool_pack_row(1, packed, code, from_unit, some, unit);
            cunpool_decode_item1(&decoder, to + window * unit * plan->index_bytes, plan->spread > 1 ? packed : code,
                                 some * unit, (uint64_t) (first + window * plan->stride),
                                 (const int64_t *) (scratch + at->ramp));
            code += some * from_unit;
        }
        to += plan->indices.row_bytes;
    }
}

#define ROLLING_CAREFUL_BLOCKS 16   /* compared exactly at once, behind one that had odd elements; speed */

/* The bits of a number that no element exceeds, but NaN. */
#define ROLLING_HIGHEST_float4 0x7F800000
#define ROLLING_HIGHEST_float8 0x7FF0000000000000
#define ROLLING_HIGHEST_item1 UINT8_MAX
#define ROLLING_HIGHEST_half INT16_MAX
#define SIMD_LOOPS "_kernels/pooling/rolling_stripes.h"
#include "_kernels/pooling/simd_types.h"
#define cunpool_roll(plan, first, end, scratch) \
    SIMD_OF_TYPE(cunpool_roll, (plan)->item_bytes, (plan)->is_float)(plan, first, end, scratch)
#else
#define cunpool_roll(plan, first, end, scratch) ((void) (plan), (void) (first), (void) (end), (void) (scratch))
#endif
