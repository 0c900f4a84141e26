/* Separable pooling: a block of the array is copied into lattices. */

/* Which elements of a lattice, from position `position` on, lie in the array: from `low` to before `high`. */
static inline void cunpool_separable_inside(const cunpool_axis *axis, ptrdiff_t position, ptrdiff_t extent,
                                            ptrdiff_t *low, ptrdiff_t *high) {
    const ptrdiff_t lattice_step = axis->lattice_step;
    ptrdiff_t first = position < 0 ? (lattice_step - 1 - position) / lattice_step : 0;
    ptrdiff_t end = position < axis->full ? (axis->full - 1 - position) / lattice_step + 1 : 0;
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
        const ptrdiff_t position = block->first[axis] + lattice[axis] * a->dilation % a->lattice_step;
        cunpool_separable_inside(a, position, block->extent[axis], &low[axis], &high[axis]);
        is_whole &= low[axis] == 0 && high[axis] == block->extent[axis];
        at[axis] = low[axis];
        to += low[axis] * block->distance[axis];
        from += (position + low[axis] * a->lattice_step) * a->full_bytes;
        pitch[axis] = a->lattice_step * a->full_bytes;
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
        cunpool_pack_rows(size, values + to * size, block->distance[down], from, &rows);
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

/* Windows that begin in padding and have no element but the lowest number, or NaN where these are omitted, get the
   value and the code of their first element. `skipped` taps lie before the array. */
static void cunpool_separable_leave_padding(const cunpool_separable *plan, const cunpool_separable_block *block) {
    const cunpool_axis *a = plan->axis;
    const ptrdiff_t *count = block->count, *first = block->first, *distance = block->distance;
    const int size = plan->item_bytes;
    ptrdiff_t at[3], skipped, c, i, element, code;
    const char *from;
    uint64_t value = 0;
    for (at[0] = 0; at[0] < count[0]; at[0]++)
        for (at[1] = 0; at[1] < count[1]; at[1]++)
            for (at[2] = 0; at[2] < count[2]; at[2]++) {
                from = block->full + first[SEPARABLE_CHANNEL] * a[SEPARABLE_CHANNEL].full_bytes;
                element = code = 0;
                for (i = 0; i < 3; i++) {
                    const ptrdiff_t position = first[i] + at[i] * a[i].stride;
                    skipped = position < 0 ? (a[i].dilation - 1 - position) / a[i].dilation : 0;
                    code += skipped * a[i].code_step;
                    element += at[i] * a[i].step * distance[i];
                    from += (position + skipped * a[i].dilation) * a[i].full_bytes;
                }
                if (!code)
                    break;  /* nor do the windows behind it in this row begin in padding */
                for (c = 0; c < count[SEPARABLE_CHANNEL]; c++) {
                    char *to = block->values + element * size;
                    memcpy(&value, to, (size_t) size);
                    if (value == block->outside) {
                        memcpy(to, from, (size_t) size);
                        cunpool_fill(plan->lane_bytes, block->codes + element * plan->lane_bytes,
                                     plan->indices != NULL, (uint64_t) code);
                    }
                    element += distance[SEPARABLE_CHANNEL];
                    from += a[SEPARABLE_CHANNEL].full_bytes;
                }
            }
}
