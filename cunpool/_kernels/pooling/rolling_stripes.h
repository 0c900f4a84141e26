/* Rolling stripes of one element type, SIMD_TYPE: see rolling.h and simd_types.h. Lanes of 32 bits and more may hold
   indices in place of codes. */
#if SIMD_BYTES == 1 || SIMD_HAS_ODD

/* What depends on a stripe's columns. */
typedef struct {
    codes code[ROLLING_MAX_KERNEL];     /* of the taps along a row, from the stripe's first column on if an index */
    vector limit[ROLLING_MAX_KERNEL];   /* the lowest number where a tap lies beside the plane, else the highest */
    codes flip;                         /* cunpool_rolling.flip, in all lanes */
} OF(Stripe);

/* The first, a middle and the last stripe, in memory order of lanes. */
static void OF(plan_stripe)(const cunpool_rolling *plan, ptrdiff_t column, ptrdiff_t width, OF(Stripe) *stripe) {
    int tap, lane;
    stripe->flip = OF(broadcast_codes)(plan->flip);
    for (tap = 0; tap < plan->kernel; tap++) {
        OF(ROLLING_CODE) code[LANES], limit[LANES];
        for (lane = 0; lane < LANES; lane++) {
            const int window = plan->stride == 1 ? lane : OF(deinterleaved_lane)(lane);
            const ptrdiff_t at = column + window * plan->stride + tap;
            const ptrdiff_t real = at < 0 ? tap - at : tap;     /* of equals in padding the first element stays */
            code[lane] = (OF(ROLLING_CODE)) (real + (plan->is_index ? window * plan->stride : 0));
            limit[lane] = (OF(ROLLING_CODE)) (at >= 0 && at < width ? OF(ROLLING_HIGHEST) : OF(ROLLING_LOWEST)(plan));
        }
        memcpy(&stripe->code[tap], code, sizeof code);
        memcpy(&stripe->limit[tap], limit, sizeof limit);
    }
}

/* The taps of a row for all windows of a stripe. Elements are noted once: a middle stripe leaves those behind its own
   to the next one. */
static CUNPOOL_INLINE void OF(load_taps)(const char *row, int kernel, int stride, int at_edge, int careful,
                                         codes flip, vector *x, OF(odd) *odd) {
    const int size = SIMD_BYTES;
    vector u, v;
    int tap;
    if (stride == 1) {
        SIMD_UNROLL for (tap = 0; tap < kernel; tap++)
            x[tap] = OF(load)(row + tap * size);
        if (!careful && at_edge)
            *odd = OF(note_pair)(*odd, x[0], x[kernel - 1]);
        else if (!careful)
            *odd = OF(note)(*odd, x[0]);
        if (!careful && at_edge && LANES < kernel - 1)
            *odd = OF(note)(*odd, x[LANES]);
    } else {
        u = OF(load)(row);
        v = OF(load)(row + LANES * size);
        if (!careful)
            *odd = OF(note_pair)(*odd, u, v);
        x[0] = OF(deinterleave)(u, v, 0);
        x[1] = OF(deinterleave)(u, v, 1);
        if (kernel == 3) {
            x[2] = OF(next_first_of_pairs)(x[0], row, &v);
            if (at_edge && !careful)
                *odd = OF(note)(*odd, v);
        }
    }
    SIMD_UNROLL for (tap = 0; tap < kernel; tap++)
        x[tap] = OF(key)(x[tap], flip);
}

/* x, or `outside` where the limit is the lowest number. */
static CUNPOOL_INLINE vector OF(limit_exactly)(vector limit, vector x, vector outside) {
    return OF(select)(OF(greater)(limit, (vector) OF(broadcast_codes)(0)), outside, x);
}

/* Reduce a row along the width. */
static CUNPOOL_INLINE void OF(reduce_row)(const cunpool_rolling *plan, const char *row, const OF(Stripe) *stripe,
                                          const codes *code_of_tap, int kernel, int stride, int with_codes, int flips,
                                          int at_edge, int careful, vector *best, codes *code, OF(odd) *odd) {
    const codes zero = OF(broadcast_codes)(0);
    vector x[ROLLING_MAX_KERNEL];
    int tap;
    OF(load_taps)(row, kernel, stride, at_edge, careful, flips ? stripe->flip : zero, x, odd);
#if SIMD_HAS_ODD
    if (careful && plan->omits_nan) {
        /* Elements beside the plane are replaced by the nearest one of the window: the padding would beat a NaN. */
        SIMD_UNROLL for (tap = kernel - 2; tap >= 0; tap--)
            x[tap] = OF(limit_exactly)(stripe->limit[tap], x[tap], x[tap + 1]);
        SIMD_UNROLL for (tap = 1; tap < kernel; tap++)
            x[tap] = OF(limit_exactly)(stripe->limit[tap], x[tap], x[tap - 1]);
    } else if (careful)
        SIMD_UNROLL for (tap = 0; tap < kernel; tap++)
            x[tap] = OF(limit_exactly)(stripe->limit[tap], x[tap], stripe->limit[tap]);
    else
#endif
    if (at_edge)
        SIMD_UNROLL for (tap = 0; tap < kernel; tap++)
            x[tap] = OF(min)(stripe->limit[tap], x[tap]);
    *best = x[0];
    *code = code_of_tap[0];
    SIMD_UNROLL for (tap = 1; tap < kernel; tap++)
        OF(compare)(careful, plan->omits_nan, plan->infinity, with_codes, best, code, x[tap], code_of_tap[tap]);
}

/* Store one pooled row of a stripe. */
static CUNPOOL_INLINE void OF(store_line)(const cunpool_rolling *plan, int stride, int with_codes, int flips,
                                          vector best, codes code, char *values, char *indices) {
    if (stride > 1) {
        best = OF(in_order)(best);
        code = OF(in_order_codes)(code);
    }
    best = OF(bits)(best, OF(broadcast_codes)(flips ? plan->flip : 0));
#ifdef SIMD_HAS_STREAM
    if (plan->is_streamed)
        OF(stream)(values, best);  // unreached: large arrays, in slow tests
    else
#endif
    OF(store)(values, best);
    if (!with_codes || plan->form == ROLLING_VALUES)
        return;
#if SIMD_BYTES >= 4 && defined(SIMD_HAS_STREAM)
    if (plan->form == ROLLING_INDICES8 && plan->is_streamed)
        OF(stream_indices8)(indices, code);  // unreached: large arrays, in slow tests
    else
#endif
        OF(store_codes)(indices, code, plan->index_bytes);
}

/* One stripe of a block, from `column` and from window `window` on. Returns whether there were odd elements. */
static CUNPOOL_INLINE int OF(roll_stripe)(const cunpool_rolling *plan, const cunpool_rolling_block *block,
                                          const OF(Stripe) *stripe, ptrdiff_t column, ptrdiff_t window, char *kept,
                                          int kernel, int stride, int with_codes, int flips, int at_edge,
                                          int careful) {
    const int shared = kernel > stride ? kernel - stride : 0;
    const ptrdiff_t offset = column * SIMD_BYTES, block_bytes = plan->block_rows * stride * plan->width * SIMD_BYTES;
    const ptrdiff_t ahead = block_bytes > ROLLING_PREFETCH_BLOCK ? ROLLING_AHEAD : block_bytes;
    const char *const *row = block->row;
    const int64_t *row_code = block->row_code;
    char *values = block->values + window * SIMD_BYTES;
    char *indices = block->indices + window * (plan->tile_pitch ? 1 : plan->index_bytes);
    vector b[ROLLING_MAX_KERNEL], best;
    codes c[ROLLING_MAX_KERNEL], code, code_of_tap[ROLLING_MAX_KERNEL];
    OF(odd) odd = OF(nothing_odd)();
    ptrdiff_t line;
    int r;
    SIMD_UNROLL for (r = 0; r < kernel; r++)
        code_of_tap[r] = OF(add_codes)(stripe->code[r], OF(broadcast_codes)(plan->is_index ? column : 0));
#define ROLLING_REDUCE(r, best, code) do { \
        __builtin_prefetch(row[r] + offset + ahead); \
        OF(reduce_row)(plan, row[r] + offset, stripe, code_of_tap, kernel, stride, with_codes, flips, at_edge, \
                       careful, &(best), &(code), &odd); \
        code = OF(add_codes)(code, OF(broadcast_codes)(row_code[r])); \
    } while (0)
    /* By way of memory: a loop that is not unrolled has a fraction of the code. (size) */
    if (!block->has_kept)
        SIMD_ONCE for (r = 0; r < shared; r++) {
            ROLLING_REDUCE(r, best, code);
            memcpy(kept + 2 * r * sizeof(vector), &best, sizeof(vector));
            memcpy(kept + (2 * r + 1) * sizeof(vector), &code, sizeof(vector));
        }
    SIMD_UNROLL for (r = 0; r < shared; r++) {
        memcpy(&b[r], kept + 2 * r * sizeof(vector), sizeof(vector));
        memcpy(&c[r], kept + (2 * r + 1) * sizeof(vector), sizeof(vector));
    }
    for (line = 0; line < block->count; line++) {
        SIMD_UNROLL for (r = shared; r < kernel; r++)
            ROLLING_REDUCE(r, b[r], c[r]);
        best = b[0];
        code = c[0];
        SIMD_UNROLL for (r = 1; r < kernel; r++)
            OF(compare)(careful, plan->omits_nan, plan->infinity, with_codes, &best, &code, b[r], c[r]);
        code = OF(subtract_codes)(code, OF(broadcast_codes)(block->line_code[line]));
        OF(store_line)(plan, stride, with_codes, flips, best, code, values, indices);
        values += block->values_pitch;
        indices += block->indices_pitch;
        row += stride;
        row_code += stride;
        SIMD_UNROLL for (r = 0; r < shared; r++) {
            b[r] = b[r + stride];
            c[r] = c[r + stride];
        }
    }
    if (block->keeps)
        SIMD_UNROLL for (r = 0; r < shared; r++) {
            memcpy(kept + 2 * r * sizeof(vector), &b[r], sizeof(vector));
            memcpy(kept + (2 * r + 1) * sizeof(vector), &c[r], sizeof(vector));
        }
    return OF(is_odd)(odd, plan->infinity);
#undef ROLLING_REDUCE
}

/* All stripes of a block. The last one overlaps the one before where windows do not fill it. */
static CUNPOOL_INLINE int OF(roll_stripes)(const cunpool_rolling *plan, const cunpool_rolling_block *block,
                                           const OF(Stripe) *stripes, int kernel, int stride, int with_codes, int flips,
                                           int careful) {
    char *kept = block->kept;
    ptrdiff_t window = 0, column;
    int odd = 0;
    for (;; kept += 2 * (kernel - 1) * (ptrdiff_t) sizeof(vector)) {
        column = window * stride - plan->padding[1];
        if (careful || column < 0 || window + LANES >= plan->windows)
            odd |= OF(roll_stripe)(plan, block, &stripes[window + LANES < plan->windows ? window > 0 : window ? 2 : 0],
                                   column, window, kept, kernel, stride, with_codes, flips, 1, careful);
        else
            odd |= OF(roll_stripe)(plan, block, &stripes[1], column, window, kept, kernel, stride, with_codes, flips, 0,
                                   0);
        if (window + LANES >= plan->windows)
            return odd;
        window = window + 2 * LANES <= plan->windows ? window + LANES : plan->windows - LANES;
    }
}

/* A block. Maxima have loops of their own: the inversion of bits takes up to 1.2 times as long. (speed) */
static CUNPOOL_NOINLINE int OF(roll_block)(const cunpool_rolling *plan, const cunpool_rolling_block *block,
                                           const OF(Stripe) *stripes, int careful) {
#define ROLLING_FOR(kernel_, stride_, with_codes, has_careful) do { \
        if (has_careful && careful) \
            return OF(roll_stripes)(plan, block, stripes, kernel_, stride_, with_codes, 1, 1); \
        if (plan->flip) \
            return OF(roll_stripes)(plan, block, stripes, kernel_, stride_, with_codes, 1, 0); \
        return OF(roll_stripes)(plan, block, stripes, kernel_, stride_, with_codes, 0, 0); \
    } while (0)
    /* Careful loops have codes in any case, which are not stored where no one asks for them, and all loops of float64
       have codes. (size) */
    if (SIMD_BYTES == 8 || plan->form != ROLLING_VALUES || (careful && plan->kernel == 3)) {
        if (plan->stride == 2)
            ROLLING_FOR(3, 2, 1, SIMD_HAS_ODD);
        ROLLING_FOR(3, 1, 1, SIMD_HAS_ODD);
    }
#if CUNPOOL_HAS_LARGE_LOOPS && SIMD_BYTES != 2     /* (size) */
    if (plan->kernel == 7)
        ROLLING_FOR(7, 1, 0, SIMD_HAS_ODD);
    if (plan->kernel == 5)
        ROLLING_FOR(5, 1, 0, SIMD_HAS_ODD);
#endif
    if (plan->stride == 2)
        ROLLING_FOR(3, 2, 0, 0);
    ROLLING_FOR(3, 1, 0, 0);
#undef ROLLING_FOR
}

/* Pooled rows `line` to before `end` of a plane. */
static void OF(roll_plane)(const cunpool_rolling *plan, const cunpool_rolling_scratch *at, char *scratch,
                           const OF(Stripe) *stripes, ptrdiff_t plane, ptrdiff_t line, ptrdiff_t end, ptrdiff_t limit,
                           int *careful_left) {
    const ptrdiff_t blocks = (end - line + plan->block_rows - 1) / plan->block_rows, first = line, rows = end - line;
    ptrdiff_t i;
    cunpool_rolling_block block;
    block.kept = scratch + at->kept;
    block.has_kept = 0;
    for (i = 0; i < blocks; i++) {
        line = first + rows * i / blocks;
        block.count = first + rows * (i + 1) / blocks - line;
        block.keeps = plan->kernel > plan->stride && i + 1 < blocks;
        cunpool_rolling_place(plan, at, scratch, plane, line, limit, &block);
        cunpool_rolling_rows(plan, at, scratch, plane, line, &block);
        if (*careful_left > 0)
            --*careful_left;
        if (*careful_left || OF(roll_block)(plan, &block, stripes, 0)) {
            block.has_kept = block.keeps = 0;
            OF(roll_block)(plan, &block, stripes, 1);
            if (!*careful_left)
                *careful_left = ROLLING_CAREFUL_BLOCKS;
        } else
            block.has_kept = block.keeps;
        cunpool_rolling_deliver(plan, at, scratch, plane, line, &block);
    }
}

/* One task: pooled rows `first` to before `end`, counted over all planes. */
static void OF(cunpool_roll)(const cunpool_rolling *plan, ptrdiff_t first, ptrdiff_t end, char *scratch) {
    const cunpool_rolling_scratch at = cunpool_rolling_layout(plan);
    OF(Stripe) stripes[3];
    ptrdiff_t plane, line, last;
    int careful_left = 0;
    OF(plan_stripe)(plan, -plan->padding[1], plan->width, &stripes[0]);
    OF(plan_stripe)(plan, 0, PTRDIFF_MAX, &stripes[1]);
    OF(plan_stripe)(plan, (plan->windows - LANES) * plan->stride - plan->padding[1], plan->width, &stripes[2]);
    for (; first < end; first += last - line) {
        plane = first / plan->rows;
        line = first - plane * plan->rows;
        last = end - plane * plan->rows < plan->rows ? end - plane * plan->rows : plan->rows;
        OF(roll_plane)(plan, &at, scratch, stripes, plane, line, last,
                       plan->is_contiguous ? end - plane * plan->rows : last, &careful_left);
    }
}

#endif
