/* Separable pooling: the results of a block are stored, window codes as indices. */

/* One row of results, as many at a time as `row` has room for. */
static void cunpool_separable_write_row(const cunpool_separable *plan, const cunpool_separable_block *block,
                                        ptrdiff_t from, char *pooled, char *indices, uint64_t base, char *row,
                                        const int64_t *ramp) {
    const int size = plan->item_bytes, code_bytes = plan->lane_bytes;
    const cunpool_axis *along = &plan->axis[plan->order[plan->outer]];
    const ptrdiff_t most = plan->row_windows / plan->unit, step = along->step * plan->unit;
    const ptrdiff_t pooled_bytes = along->pooled_bytes / plan->unit, index_bytes = along->index_bytes / plan->unit;
    ptrdiff_t left = block->count[plan->order[plan->outer]];
    for (; left > 0; left -= most) {
        const ptrdiff_t windows = left < most ? left : most, count = windows * plan->unit;
        const char *values = block->values + from * size, *codes = block->codes + from * code_bytes;
        if (along->step > 1) {
            cunpool_pack_row(size, row, values, step * size, windows, plan->unit);
            values = row;
        }
        cunpool_scatter(size, pooled, pooled_bytes, values, count);
        from += most * step;
        pooled += most * along->pooled_bytes;
        if (!plan->indices)
            continue;
        if (along->step > 1) {
            cunpool_pack_row(code_bytes, block->other_codes, codes, step * code_bytes, windows, plan->unit);
            codes = block->other_codes;
        }
        (code_bytes == 1 ? cunpool_decode_item1 : code_bytes == 2 ? cunpool_decode_item2
         : code_bytes == 4 ? cunpool_decode_item4 : cunpool_decode_item8)(
            &plan->decoder, index_bytes == plan->index_bytes ? indices : row, codes, count, base, ramp);
        if (index_bytes != plan->index_bytes)
            cunpool_scatter(plan->index_bytes, indices, index_bytes, row, count);
        indices += most * along->index_bytes;
        base += (uint64_t) (most * along->stride * along->raster);
    }
}

/* Write the results of a block, row by row. The ramp: how far windows that are written together begin behind the first
   one, as indices. */
static void cunpool_separable_write(const cunpool_separable *plan, const cunpool_separable_block *block, char *row,
                                    int64_t *ramp) {
    const int *order = plan->order, inner = order[plan->outer];
    ptrdiff_t at[SEPARABLE_AXES] = {0}, from = 0, rows = 1, behind = 0, i;
    char *pooled = block->pooled, *indices = block->indices;
    uint64_t base = (uint64_t) (block->first[inner] * plan->axis[inner].raster);
    int k, axis;
    for (i = 0; plan->indices && i < plan->row_windows; behind += plan->axis[inner].stride * plan->axis[inner].raster)
        for (k = 0; k < plan->unit; k++)
            ramp[i++] = behind;
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
