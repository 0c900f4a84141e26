#pragma once

/* Separable max pooling: any window, any order of the axes in memory. A block of the array is copied into lattices, and
   each axis of the window is reduced by combining runs of a lattice, a vector at a time. With stride 2 along a row:

       positions of a row      0 1 2 3 4 5 6 7
       lattice 0               0   2   4   6          element j is position j * stride
       lattice 1                 1   3   5   7        element j is position j * stride + 1

   The window at j has the elements j of lattice 0, j of lattice 1, j + 1 of lattice 0, and so on. Lattices are numbered
   by the first tap that is in them: tap t is in lattice t % lattices, t * dilation / stride elements behind the first
   of the window. So a whole run of windows is the maximum of runs. A lattice has all axes of the block, in the order in
   which they lie in memory, and the other axes are deinterleaved into lattices in the same way. The raster order
   decides in which order axes are reduced: columns, rows, layers. Then the first maximum of a window is the first in
   raster order.

   Padding is filled with the lowest number. Where that is the maximum of a window that begins in padding, its code is
   moved to the window's first element in the array.

   Minima: the bits that `flip` has are inverted in the lattices, which reverses the order of the numbers, and in the
   results again. NaN omitted: where a block has NaN, its padding is NaN too, and any number beats a NaN. */
#include <string.h>

#include "_kernels/common/checks.h"
#include "_kernels/common/pack.h"
#include "_kernels/pooling/simd.h"
#include "_kernels/pooling/separable_plan.h"
#include "_kernels/pooling/separable_pack.h"
#include "_kernels/pooling/separable_reduce.h"
#include "_kernels/pooling/separable_write.h"

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
        const ptrdiff_t begin = number % a->parts * a->most;    /* first window */
        number /= a->parts;
        block->count[axis] = a->pooled - begin < a->most ? a->pooled - begin : a->most;
        block->first[axis] = begin * a->stride - a->padding;
        block->extent[axis] = cunpool_separable_extent(a, block->count[axis]);
        block->distance[axis] = distance;
        distance *= block->extent[axis];
        block->is_padded |= block->first[axis] < 0;
        block->pooled += begin * a->pooled_bytes;
        if (plan->indices)
            block->indices += begin * a->index_bytes;
    }
    block->length = distance;
    block->full = plan->full + number * plan->full_batch_bytes;
    block->pooled += number * plan->pooled_batch_bytes;
    if (plan->indices)
        block->indices += number * plan->index_batch_bytes;
}

/* Pool a block. */
static void cunpool_separate(const cunpool_separable *plan, cunpool_separable_block *block, char *scratch) {
    const cunpool_separable_scratch at = cunpool_separable_layout(plan);
    int careful;
    block->values = scratch + at.values[0], block->other_values = scratch + at.values[1];
    block->codes = scratch + at.codes[0], block->other_codes = scratch + at.codes[1];
    block->outside = plan->lowest;
    cunpool_separable_pack(plan, block);
    careful = cunpool_separable_prepare(plan, block);
    if (careful && plan->omits_nan) {     /* the padding would win against NaN */
        block->outside = plan->nan;
        cunpool_separable_pack(plan, block);
        cunpool_separable_prepare(plan, block);
    }
    cunpool_separable_reduce(plan, block, careful);
    if (block->is_padded && (plan->indices || block->outside != plan->lowest))
        cunpool_separable_leave_padding(plan, block);
    cunpool_separable_write(plan, block, scratch + at.row, (int64_t *) (scratch + at.ramp));
}
