#pragma once

/* Separable pooling: structures of a call and of a block, which separable.h pools. */
#include <stddef.h>
#include <stdint.h>

#include "_kernels/common/caches.h"
#include "_kernels/pooling/decode.h"

enum {
    SEPARABLE_CHANNEL = 3,
    SEPARABLE_AXES = 4,             /* layers, rows, columns, channels */
    SEPARABLE_VECTOR_BYTES = 64,    /* runs are multiples of this */
    SEPARABLE_SPARE_BYTES = 128     /* behind the last lattice: a run and its codes may be read beyond it */
};

/* An axis of the call. Channels have windows of one element. */
typedef struct {
    ptrdiff_t full, pooled;                 /* elements; windows */
    ptrdiff_t full_bytes, pooled_bytes, index_bytes;    /* from one to the next */
    ptrdiff_t kernel, stride, padding, dilation;
    ptrdiff_t raster;           /* what an index grows by along this axis */
    ptrdiff_t code_step;        /* what a code grows by */
    ptrdiff_t lattice_step;     /* positions from one element of a lattice to the next */
    ptrdiff_t lattices;
    ptrdiff_t step;             /* elements of a lattice from one window to the next */
    ptrdiff_t most, parts;      /* windows of a block at most; blocks */
    int doubles;                /* taps are combined 1, 2, 4 and so on at a time: runs of a single lattice */
} cunpool_axis;

typedef struct {
    const char *full;
    char *pooled, *indices;     /* indices: NULL for values alone */
    ptrdiff_t batch, full_batch_bytes, pooled_batch_bytes, index_batch_bytes;
    cunpool_axis axis[SEPARABLE_AXES];
    int order[SEPARABLE_AXES];  /* as memory runs, slowest first */
    int raster_axes[3];         /* in raster order, slowest first: the last one is reduced first */
    ptrdiff_t unit;             /* channels that are copied with each position of the last axis; else 1 */
    int outer;                  /* axes of `order` that lead to a row; the next one is the row's own */
    ptrdiff_t lattices, pitch;  /* of a block: lattices, and elements from one to the next */
    ptrdiff_t row_windows;      /* results of a row that are written together, at most */
    int is_float, item_bytes, index_bytes;
    int lane_bytes;             /* of an element while it is compared, and of its code */
    uint64_t lowest, nan;       /* bits of padding: flipped, the lowest number; a NaN, for blocks that have one */
    uint64_t flip;              /* bits that are inverted while elements are compared */
    int infinity;               /* of 16-bit floats, as bits */
    int omits_nan;
    cunpool_decoder decoder;
} cunpool_separable;

/* Begins of the parts of a task's scratch memory, and bytes of all of them. */
typedef struct {
    ptrdiff_t values[2], codes[2], ramp, row, bytes;
} cunpool_separable_scratch;

/* A block while it is pooled. */
typedef struct {
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
    return (windows - 1) * axis->step + 1 + (axis->kernel - 1) * axis->dilation / axis->lattice_step;
}

static inline cunpool_separable_scratch cunpool_separable_layout(const cunpool_separable *plan) {
    cunpool_separable_scratch at;
    const ptrdiff_t elements = plan->lattices * plan->pitch;
    const ptrdiff_t row_bytes = (plan->row_windows + DECODED_TOGETHER) * (ptrdiff_t) sizeof(int64_t);
    int i;
    at.bytes = 0;
    for (i = 0; i < 2; i++) {
        at.values[i] = cunpool_part(&at.bytes, elements * plan->lane_bytes + SEPARABLE_SPARE_BYTES);
        at.codes[i] = cunpool_part(&at.bytes, plan->indices ? elements * plan->lane_bytes + SEPARABLE_SPARE_BYTES : 0);
    }
    at.row = cunpool_part(&at.bytes, row_bytes);
    at.ramp = cunpool_part(&at.bytes, plan->indices ? row_bytes : 0);  // fault: a row without room for its results
    return at;
}
#define cunpool_separable_bytes(plan) (cunpool_separable_layout(plan).bytes)
