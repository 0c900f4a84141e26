/* Separable pooling: the results of a block are stored, window codes as indices. */

/* What an index grows by in windows of any dilation and layers. */
#define SEPARABLE_FURTHER \
    ((uint32_t) code[i] * (uint32_t) d.column + ((uint32_t) code[i] * (uint32_t) d.per_row >> 16) * (uint32_t) d.row \
     + ((uint32_t) code[i] * (uint32_t) d.per_layer >> 16) * (uint32_t) d.layer)
#define SEPARABLE_DECODERS(lane) \
    CODES_DECODE(lane, index4, index4, (uint32_t) base + (uint32_t) ramp[i] + SEPARABLE_FURTHER) \
    CODES_DECODE(lane, index8, index8, \
                     base + (uint64_t) ramp[i] + (uint64_t) (int64_t) (int32_t) SEPARABLE_FURTHER) \
    CODES_DECODE(lane, item1, item1, code[i]) \
    CODES_DECODE(lane, item2, item2, code[i]) \
    static CUNPOOL_COLD void cunpool_decode_far_##lane(const cunpool_decoder *decoder, char *to, const char *codes, \
                                                       ptrdiff_t count, uint64_t base, const int64_t *ramp) { \
        const cunpool_decoder d = *decoder; \
        ptrdiff_t i; \
        for (i = 0; i < count; i++) { \
            const uint64_t code = ((const lane *) codes)[i]; \
            const uint64_t x = base + (uint64_t) ramp[i] + code * d.column + (code * d.per_row >> 40) * d.row \
                               + (code * d.per_layer >> 40) * d.layer; \
            if (d.index_bytes == 4) \
                ((index4 *) to)[i] = (index4) x; \
            else \
                ((index8 *) to)[i] = (index8) x; \
        } \
    } \
    static void cunpool_decode_##lane(const cunpool_decoder *d, char *to, const char *codes, ptrdiff_t count, \
                                      uint64_t base, const int64_t *ramp) { \
        if (d->is_far) \
            cunpool_decode_far_##lane(d, to, codes, count, base, ramp); \
        else \
            (d->code_size == 1 ? cunpool_decode_##lane##_item1 \
             : d->code_size == 2 ? cunpool_decode_##lane##_item2 \
             : d->index_bytes == 4 ? cunpool_decode_##lane##_index4 : cunpool_decode_##lane##_index8)( \
                to, codes, count, base, ramp, d); \
    }
SEPARABLE_DECODERS(item1)
SEPARABLE_DECODERS(item2)
SEPARABLE_DECODERS(item4)
SEPARABLE_DECODERS(item8)

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
