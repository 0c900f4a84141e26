#ifndef CUNPOOL_POOLING_SEPARABLE_H
#define CUNPOOL_POOLING_SEPARABLE_H

/* Separable max pooling: any window, any order of the axes in memory. A block of the array is copied into lattices, and
   each axis of the window is reduced by combining runs of a lattice, whole vectors at a time. With stride 2 along a row:

       positions of a row      0 1 2 3 4 5 6 7
       lattice 0               0   2   4   6          element j is position j * stride
       lattice 1                 1   3   5   7        element j is position j * stride + 1

   The window at j has the elements j of lattice 0, j of lattice 1, j + 1 of lattice 0, and so on: tap t is in lattice
   t * dilation % stride, t * dilation / stride elements behind the window's first. So a whole run of windows is the
   maximum of runs. A lattice has all axes of the block, in the order in which they lie in memory, and the other axes are
   dealt to lattices in the same way. The raster order decides in which order axes are reduced: columns, rows, layers.
   Then the first maximum of a window is the first in raster order.

   Padding is filled with the lowest number. Where that is the maximum of a window that begins in padding, its code is
   moved to the window's first element in the array.

   Minima: the bits that `flip` has are inverted in the lattices, which reverses the order of the numbers, and in the
   results again. NaN omitted: where a block has NaN, its padding is NaN too, and any number beats a NaN. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "_kernels/common/caches.h"
#include "_kernels/common/checks.h"
#include "_kernels/common/types.h"

enum {
    SEPARABLE_CHANNEL = 3,
    SEPARABLE_AXES = 4,             /* layers, rows, columns, channels */
    SEPARABLE_VECTOR_BYTES = 64,    /* runs are multiples of this */
    SEPARABLE_SPARE_BYTES = 128     /* behind the last lattice: a run and its codes may be read beyond it */
};
/* How elements are compared: as numbers alone; NaN beats everything; NaN is beaten by every number. The last two treat
   zeros of 16 bits as equal. */
enum { SEPARABLE_NUMBERS, SEPARABLE_PROPAGATE, SEPARABLE_OMIT };
/* Codes of a pass over two runs: none; both still 0; those of the second still 0; any. */
enum { SEPARABLE_VALUES, SEPARABLE_FIRST, SEPARABLE_FRESH, SEPARABLE_CODES };

/* No iteration of the next loop reads what another one writes. */
#if defined(__clang__)
#define SEPARABLE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define SEPARABLE_INDEPENDENT _Pragma("GCC ivdep")
#else
#define SEPARABLE_INDEPENDENT
#endif

/* An axis of the call. Channels have windows of one element. */
typedef struct {
    ptrdiff_t full, pooled;                 /* elements; windows */
    ptrdiff_t full_bytes, pooled_bytes, index_bytes;    /* from one to the next */
    ptrdiff_t kernel, stride, padding, dilation;
    ptrdiff_t raster;           /* what an index grows by along this axis */
    ptrdiff_t taps;             /* what a code grows by */
    ptrdiff_t dealt;            /* positions from one element of a lattice to the next */
    ptrdiff_t lattices;
    ptrdiff_t step;             /* elements of a lattice from one window to the next */
    ptrdiff_t most, parts;      /* windows of a block at most; blocks */
    int doubles;                /* taps are combined 1, 2, 4 and so on at a time: runs of a single lattice */
} cunpool_axis;

/* How window codes become indices, counted from the window's first element. A code's row and layer are quotients, for
   which a product and a shift stand: exact for windows of up to 256 elements. */
typedef struct {
    uint32_t column, row, layer, per_row, per_layer;
    int is_flat;                /* one layer, and no dilation along the row */
} cunpool_decoder;
typedef index4 flat4;
typedef index8 flat8;

typedef struct {
    const char *full;
    char *pooled, *indices;     /* indices: NULL for values alone */
    ptrdiff_t batch, full_batch_bytes, pooled_batch_bytes, index_batch_bytes;
    cunpool_axis axis[SEPARABLE_AXES];
    int order[SEPARABLE_AXES];  /* as memory runs, slowest first */
    int raster_axes[3];         /* in raster order, slowest first: the last one is reduced first */
    ptrdiff_t unit;             /* channels that are copied with each position of the last axis; else 1 */
    int outer;                  /* the first so many axes of `order` lead to a row; then comes the row's own */
    ptrdiff_t lattices, pitch;  /* of a block: lattices, and elements from one to the next */
    ptrdiff_t row_windows;      /* results of the longest row */
    int is_single;              /* windows have a single element */
    int kind, item_bytes, lane_code_bytes, index_bytes, code_size;
    uint64_t lowest, nan;       /* bits of padding: flipped, the lowest number; a NaN, for blocks that have one */
    uint64_t flip;              /* bits that are inverted while elements are compared */
    int magnitude, infinity;    /* of 16-bit floats, as bits: all but the sign; infinity. 0 for integers */
    int omits_nan;
    cunpool_decoder decoder;
    const int64_t *offsets;     /* the same as a table for larger windows; else NULL */
} cunpool_separable;

/* Where the parts of a task's scratch memory begin, and how large all of them are. */
typedef struct {
    ptrdiff_t values[2], codes[2], ramp, row, bytes;
} cunpool_separable_scratch;

/* A block on its way. */
typedef struct {
    ptrdiff_t begin[SEPARABLE_AXES];    /* first window */
    ptrdiff_t count[SEPARABLE_AXES];    /* windows */
    ptrdiff_t first[SEPARABLE_AXES];    /* position of the first window; negative in padding */
    ptrdiff_t extent[SEPARABLE_AXES];   /* elements of a lattice */
    ptrdiff_t distance[SEPARABLE_AXES]; /* elements from one to the next */
    ptrdiff_t length;                   /* of a lattice */
    const char *full;
    char *pooled, *indices;
    int is_padded;                      /* a window begins before the array */
    uint64_t outside;                   /* the bits of padding */
    char *values, *codes, *other_values, *other_codes;
} cunpool_separable_block;

static inline ptrdiff_t cunpool_separable_extent(const cunpool_axis *axis, ptrdiff_t windows) {
    return (windows - 1) * axis->step + 1 + (axis->kernel - 1) * axis->dilation / axis->dealt;
}

static inline cunpool_separable_scratch cunpool_separable_layout(const cunpool_separable *plan) {
    cunpool_separable_scratch at;
    ptrdiff_t elements = plan->lattices * plan->pitch;
    int i;
    at.bytes = 0;
    for (i = 0; i < 2; i++) {
        at.values[i] = cunpool_part(&at.bytes, elements * plan->item_bytes + SEPARABLE_SPARE_BYTES);
        at.codes[i] = cunpool_part(&at.bytes, elements * plan->lane_code_bytes + SEPARABLE_SPARE_BYTES);
    }
    at.ramp = cunpool_part(&at.bytes, plan->indices ? plan->row_windows * (ptrdiff_t) sizeof(int64_t) : 0);
    at.row = cunpool_part(&at.bytes, plan->row_windows * (ptrdiff_t) sizeof(int64_t));
    return at;
}

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
    } \
    static CUNPOOL_WIDE void cunpool_flip_##item(char *to, ptrdiff_t count, uint64_t bits) { \
        ptrdiff_t i; \
        for (i = 0; i < count; i++) \
            ((item *) to)[i] ^= (item) bits; \
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

/* Invert some bits of each element. */
static void cunpool_flip(int size, char *to, ptrdiff_t count, uint64_t bits) {
    if (!bits)
        return;
    (size == 1 ? cunpool_flip_item1 : size == 2 ? cunpool_flip_item2 : size == 4 ? cunpool_flip_item4
     : cunpool_flip_item8)(to, count, bits);
}

/* Which elements of a lattice, from position `position` on, lie in the array: from `low` to before `high`. */
static inline void cunpool_separable_inside(const cunpool_axis *axis, ptrdiff_t position, ptrdiff_t extent,
                                            ptrdiff_t *low, ptrdiff_t *high) {
    const ptrdiff_t dealt = axis->dealt;
    ptrdiff_t first = position < 0 ? (dealt - 1 - position) / dealt : 0;
    ptrdiff_t end = position < axis->full ? (axis->full - 1 - position) / dealt + 1 : 0;
    *low = first < extent ? first : extent;
    *high = end < *low ? *low : end < extent ? end : extent;
}

/* Copy one lattice: number `lattice[axis]` along each axis. Positions outside the array get `outside`. */
static void cunpool_separable_pack_lattice(const cunpool_separable *plan, const cunpool_separable_block *block,
                                           const ptrdiff_t *lattice, char *values) {
    const int size = plan->item_bytes, *order = plan->order;
    ptrdiff_t low[SEPARABLE_AXES], high[SEPARABLE_AXES], at[SEPARABLE_AXES], pitch[SEPARABLE_AXES], to = 0, sheets = 1;
    const char *from = block->full;
    int k, axis, is_whole = 1;
    for (axis = 0; axis < SEPARABLE_AXES; axis++) {
        const cunpool_axis *a = &plan->axis[axis];
        const ptrdiff_t position = block->first[axis] + lattice[axis] * a->dilation % a->dealt;
        cunpool_separable_inside(a, position, block->extent[axis], &low[axis], &high[axis]);
        is_whole &= low[axis] == 0 && high[axis] == block->extent[axis];
        at[axis] = low[axis];
        to += low[axis] * block->distance[axis];
        from += (position + low[axis] * a->dealt) * a->full_bytes;
        pitch[axis] = a->dealt * a->full_bytes;
        if (low[axis] == high[axis]) {
            cunpool_fill(size, values, block->length, block->outside);
            return;
        }
    }
    if (!is_whole)
        cunpool_fill(size, values, block->length, block->outside);
    const int along = order[plan->outer], down = order[plan->outer - 1];
    const cunpool_rows rows = {pitch[along], pitch[down], high[along] - low[along], high[down] - low[down], plan->unit};
    for (k = 0; k < plan->outer - 1; k++)
        sheets *= high[order[k]] - low[order[k]];
    for (; sheets > 0; sheets--) {
        cunpool_gather_rows(size, values + to * size, block->distance[down], from, &rows);
        for (k = plan->outer - 2; k >= 0; k--) {
            axis = order[k];
            to += block->distance[axis];
            from += pitch[axis];
            if (++at[axis] < high[axis])
                break;
            to -= (high[axis] - low[axis]) * block->distance[axis];
            from -= (high[axis] - low[axis]) * pitch[axis];
            at[axis] = low[axis];
        }
    }
}

/* Copy all lattices of a block. Lattice (d, h, w) is number (w * H + h) * D + d where axes are in raster order, so that
   what is left after reducing an axis are the first ones. */
static void cunpool_separable_pack(const cunpool_separable *plan, const cunpool_separable_block *block) {
    ptrdiff_t lattice[SEPARABLE_AXES] = {0}, number;
    const int *raster = plan->raster_axes;
    const ptrdiff_t layers = plan->axis[raster[0]].lattices, rows = plan->axis[raster[1]].lattices;
    cunpool_assert(block->length <= plan->pitch);
    for (number = 0; number < plan->lattices; number++) {
        lattice[raster[0]] = number % layers;
        lattice[raster[1]] = number / layers % rows;
        lattice[raster[2]] = number / layers / rows;
        cunpool_separable_pack_lattice(plan, block, lattice, block->values + number * plan->pitch * plan->item_bytes);
    }
}

/* How many taps of a window, begun at this position, lie before the array. */
static inline ptrdiff_t cunpool_separable_skipped(const cunpool_axis *axis, ptrdiff_t position) {
    return position < 0 ? (axis->dilation - 1 - position) / axis->dilation : 0;
}

/* Windows that begin in padding and have no element but the lowest number, or NaN where these are omitted, get the value
   and the code of their first element. */
static void cunpool_separable_leave_padding(const cunpool_separable *plan, const cunpool_separable_block *block) {
    const cunpool_axis *a = plan->axis;
    const ptrdiff_t *count = block->count, *first = block->first, *distance = block->distance;
    const int size = plan->item_bytes;
    ptrdiff_t at[3], skipped[3], c, i, element, code;
    const char *from;
    uint64_t value = 0;
    for (at[0] = 0; at[0] < count[0]; at[0]++)
        for (at[1] = 0; at[1] < count[1]; at[1]++)
            for (at[2] = 0; at[2] < count[2]; at[2]++) {
                from = block->full + first[SEPARABLE_CHANNEL] * a[SEPARABLE_CHANNEL].full_bytes;
                element = code = 0;
                for (i = 0; i < 3; i++) {
                    const ptrdiff_t position = first[i] + at[i] * a[i].stride;
                    skipped[i] = cunpool_separable_skipped(&a[i], position);
                    code += skipped[i] * a[i].taps;
                    element += at[i] * a[i].step * distance[i];
                    from += (position + skipped[i] * a[i].dilation) * a[i].full_bytes;
                }
                if (!code)
                    break;  /* nor do the windows behind it in this row begin in padding */
                for (c = 0; c < count[SEPARABLE_CHANNEL]; c++) {
                    char *to = block->values + element * size;
                    memcpy(&value, to, (size_t) size);
                    if (value == block->outside) {
                        memcpy(to, from, (size_t) size);
                        cunpool_fill(plan->lane_code_bytes, block->codes + element * plan->lane_code_bytes,
                                     plan->indices != NULL, (uint64_t) code);
                    }
                    element += distance[SEPARABLE_CHANNEL];
                    from += a[SEPARABLE_CHANNEL].full_bytes;
                }
            }
}

/* Indices, or window codes, of a row of results. Unsigned, because sums of unused elements may wrap. */
#define SEPARABLE_DECODE(lane, index, result) \
    static CUNPOOL_WIDE void cunpool_decode_##lane##_##index(char *to, const char *codes, ptrdiff_t count, \
                                                             uint64_t base, const int64_t *ramp, \
                                                             const cunpool_decoder *decoder) { \
        const lane *code = (const lane *) codes; \
        const cunpool_decoder d = *decoder; \
        ptrdiff_t i; \
        (void) base, (void) ramp, (void) d; \
        SEPARABLE_INDEPENDENT \
        for (i = 0; i < count; i++) \
            ((index *) to)[i] = (index) (result); \
    }
#define SEPARABLE_FURTHER \
    ((uint32_t) code[i] * d.column + ((uint32_t) code[i] * d.per_row >> 16) * d.row \
     + ((uint32_t) code[i] * d.per_layer >> 16) * d.layer)
/* The same for windows of one layer without dilation along the row, as most are. */
#define SEPARABLE_FLAT ((uint32_t) code[i] + ((uint32_t) code[i] * d.per_row >> 16) * d.row)
#define SEPARABLE_DECODERS(lane) \
    SEPARABLE_DECODE(lane, flat4, (uint32_t) base + (uint32_t) ramp[i] + SEPARABLE_FLAT) \
    SEPARABLE_DECODE(lane, flat8, base + (uint64_t) ramp[i] + (uint64_t) (int64_t) (int32_t) SEPARABLE_FLAT) \
    SEPARABLE_DECODE(lane, index4, (uint32_t) base + (uint32_t) ramp[i] + SEPARABLE_FURTHER) \
    SEPARABLE_DECODE(lane, index8, base + (uint64_t) ramp[i] + (uint64_t) (int64_t) (int32_t) SEPARABLE_FURTHER) \
    SEPARABLE_DECODE(lane, item1, code[i]) \
    SEPARABLE_DECODE(lane, item2, code[i]) \
    static CUNPOOL_COLD void cunpool_look_up_##lane(const cunpool_separable *plan, char *to, const char *codes, \
                                                    ptrdiff_t count, uint64_t base, const int64_t *ramp) { \
        ptrdiff_t i; \
        for (i = 0; i < count; i++) { \
            const uint64_t x = base + (uint64_t) ramp[i] + (uint64_t) plan->offsets[((const lane *) codes)[i]]; \
            if (plan->index_bytes == 4) \
                ((index4 *) to)[i] = (index4) x; \
            else \
                ((index8 *) to)[i] = (index8) x; \
        } \
    } \
    static void cunpool_decode_##lane(const cunpool_separable *plan, char *to, const char *codes, ptrdiff_t count, \
                                      uint64_t base, const int64_t *ramp) { \
        if (plan->offsets) \
            cunpool_look_up_##lane(plan, to, codes, count, base, ramp); \
        else \
            (plan->code_size == 1 ? cunpool_decode_##lane##_item1 : plan->code_size == 2 ? cunpool_decode_##lane##_item2 \
             : plan->index_bytes == 4 ? (plan->decoder.is_flat ? cunpool_decode_##lane##_flat4 \
                                         : cunpool_decode_##lane##_index4) \
             : plan->decoder.is_flat ? cunpool_decode_##lane##_flat8 : cunpool_decode_##lane##_index8)( \
                to, codes, count, base, ramp, &plan->decoder); \
    }
SEPARABLE_DECODERS(item1)
SEPARABLE_DECODERS(item2)
SEPARABLE_DECODERS(item4)

/* One row of results: `row` has room for it. */
static void cunpool_separable_write_row(const cunpool_separable *plan, const cunpool_separable_block *block,
                                        ptrdiff_t from, char *pooled, char *indices, uint64_t base, char *row,
                                        const int64_t *ramp) {
    const int inner = plan->order[plan->outer], size = plan->item_bytes, code_bytes = plan->lane_code_bytes;
    const cunpool_axis *along = &plan->axis[inner];
    const ptrdiff_t windows = block->count[inner], count = windows * plan->unit, step = along->step * plan->unit;
    /* One result to the next in the row: with units, these are neighbours in the results as well. */
    const ptrdiff_t pooled_bytes = plan->unit > 1 ? size : along->pooled_bytes;
    const ptrdiff_t index_bytes = plan->unit > 1 ? plan->index_bytes : along->index_bytes;
    const char *values = block->values + from * size, *codes = block->codes + from * code_bytes;
    if (along->step > 1) {
        cunpool_gather(size, row, values, step * size, windows, plan->unit);
        values = row;
    }
    cunpool_scatter(size, pooled, pooled_bytes, values, count);
    if (!indices)
        return;
    if (along->step > 1) {
        cunpool_gather(code_bytes, block->other_codes, codes, step * code_bytes, windows, plan->unit);
        codes = block->other_codes;
    }
    (code_bytes == 1 ? cunpool_decode_item1 : code_bytes == 2 ? cunpool_decode_item2 : cunpool_decode_item4)(
        plan, index_bytes == plan->index_bytes ? indices : row, codes, count, base, ramp);
    if (index_bytes != plan->index_bytes)
        cunpool_scatter(plan->index_bytes, indices, index_bytes, row, count);
}

/* Write the results of a block, row by row. */
static void cunpool_separable_write(const cunpool_separable *plan, const cunpool_separable_block *block, char *row,
                                    const int64_t *ramp) {
    const int *order = plan->order, inner = order[plan->outer];
    ptrdiff_t at[SEPARABLE_AXES] = {0}, from = 0, rows = 1;
    char *pooled = block->pooled, *indices = block->indices;
    uint64_t base = (uint64_t) (block->first[inner] * plan->axis[inner].raster);
    int k, axis;
    for (k = 0; k < plan->outer; k++) {
        rows *= block->count[order[k]];
        base += (uint64_t) (block->first[order[k]] * plan->axis[order[k]].raster);
    }
    for (; rows > 0; rows--) {
        cunpool_separable_write_row(plan, block, from, pooled, indices, base, row, ramp);
        for (k = plan->outer - 1; k >= 0; k--) {
            const cunpool_axis *a = &plan->axis[axis = order[k]];
            const ptrdiff_t n = ++at[axis] < block->count[axis] ? 1 : 1 - block->count[axis];
            from += n * a->step * block->distance[axis];
            pooled += n * a->pooled_bytes;
            indices += n * a->index_bytes;
            base += (uint64_t) (n * a->stride * a->raster);
            if (n == 1)
                break;
            at[axis] = 0;
        }
    }
}

/* Block number `number` of the call. */
static void cunpool_separable_find(const cunpool_separable *plan, ptrdiff_t number, cunpool_separable_block *block) {
    ptrdiff_t distance = 1;
    int k;
    block->pooled = plan->pooled;
    block->indices = plan->indices;
    block->is_padded = 0;
    for (k = SEPARABLE_AXES - 1; k >= 0; k--) {
        const int axis = plan->order[k];
        const cunpool_axis *a = &plan->axis[axis];
        block->begin[axis] = number % a->parts * a->most;
        number /= a->parts;
        block->count[axis] = a->pooled - block->begin[axis] < a->most ? a->pooled - block->begin[axis] : a->most;
        block->first[axis] = block->begin[axis] * a->stride - a->padding;
        block->extent[axis] = cunpool_separable_extent(a, block->count[axis]);
        block->distance[axis] = distance;
        distance *= block->extent[axis];
        block->is_padded |= block->first[axis] < 0;
        block->pooled += block->begin[axis] * a->pooled_bytes;
        if (plan->indices)
            block->indices += block->begin[axis] * a->index_bytes;
    }
    block->length = distance;
    block->full = plan->full + number * plan->full_batch_bytes;
    block->pooled += number * plan->pooled_batch_bytes;
    if (plan->indices)
        block->indices += number * plan->index_batch_bytes;
}

/* What is the same for all blocks of a task: how far the windows of a row begin behind its first one, as indices. */
static void cunpool_separable_begin(const cunpool_separable *plan, char *scratch) {
    const cunpool_axis *along = &plan->axis[plan->order[plan->outer]];
    int64_t *ramp = (int64_t *) (scratch + cunpool_separable_layout(plan).ramp);
    ptrdiff_t i;
    for (i = 0; plan->indices && i < plan->row_windows; i++)
        ramp[i] = i / plan->unit * along->stride * along->raster;
}

static CUNPOOL_INLINE void cunpool_separable_swap(cunpool_separable_block *block) {
    char *values = block->values, *codes = block->codes;
    block->values = block->other_values, block->codes = block->other_codes;
    block->other_values = values, block->other_codes = codes;
}

/* Each type with codes as wide: bytes with wide codes too, for windows of more than 256 elements. */
#define LANE_IS_FLOAT 0
#define LANE_IS_HALF 0
#define LANE item1
#define LANE_CODE item1
#define LANE_NAME item1
#include "_kernels/pooling/separable_lanes.h"
#define LANE item1
#define LANE_CODE item2
#define LANE_NAME item1_wide
#include "_kernels/pooling/separable_lanes.h"
#define LANE int16_t
#define LANE_CODE item2
#define LANE_NAME int2
#include "_kernels/pooling/separable_lanes.h"
#define LANE int32_t
#define LANE_CODE item4
#define LANE_NAME int4
#include "_kernels/pooling/separable_lanes.h"
#define LANE int64_t
#define LANE_CODE item4
#define LANE_NAME int8
#include "_kernels/pooling/separable_lanes.h"
#undef LANE_IS_HALF
#define LANE_IS_HALF 1
#define LANE int16_t
#define LANE_CODE item2
#define LANE_NAME half
#include "_kernels/pooling/separable_lanes.h"
#undef LANE_IS_HALF
#define LANE_IS_HALF 0
#undef LANE_IS_FLOAT
#define LANE_IS_FLOAT 1
#define LANE float
#define LANE_CODE item4
#define LANE_NAME float4
#include "_kernels/pooling/separable_lanes.h"
#define LANE double
#define LANE_CODE item4
#define LANE_NAME float8
#include "_kernels/pooling/separable_lanes.h"

typedef void (*cunpool_reducer)(const cunpool_separable *, cunpool_separable_block *);
static const cunpool_reducer cunpool_reducers[] = {     /* by Job.order_kind */
    NULL, cunpool_reduce_int2, cunpool_reduce_int4, cunpool_reduce_int8, cunpool_reduce_item1, NULL, NULL, NULL,
    cunpool_reduce_half, NULL, cunpool_reduce_float4, cunpool_reduce_float8
};

/* Pool a block. With indices, `cunpool_separable_begin` has filled its part of the scratch memory before. */
static void cunpool_separate(const cunpool_separable *plan, cunpool_separable_block *block, char *scratch) {
    const cunpool_separable_scratch at = cunpool_separable_layout(plan);
    const int has_wide_codes = plan->item_bytes == 1 && plan->lane_code_bytes == 2;
    const cunpool_reducer reduce = !has_wide_codes ? cunpool_reducers[plan->kind]
                                   : cunpool_reduce_item1_wide;
    block->values = scratch + at.values[0], block->other_values = scratch + at.values[1];
    block->codes = scratch + at.codes[0], block->other_codes = scratch + at.codes[1];
    block->outside = plan->lowest;
    cunpool_separable_pack(plan, block);
    reduce(plan, block);
    if (block->is_padded && (plan->indices || block->outside != plan->lowest))
        cunpool_separable_leave_padding(plan, block);
    cunpool_separable_write(plan, block, scratch + at.row, (const int64_t *) (scratch + at.ramp));
}

#endif
