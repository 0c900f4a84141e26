/* Rolling stripes of one element type, SIMD_TYPE: see rolling.h and simd_types.h. Lanes of 32 bits and more may hold
   indices in place of codes. Contiguous rows of int2, int4 and int8 have no loops. (size) */
#define ROLLING_HAS_ROWS (SIMD_BYTES == 1 || SIMD_HAS_ODD)
/* Channels of up to 16 bits are flipped in any case, others in no fast loop. (size) */
#define ROLLING_UNIT_FLIPS (SIMD_BYTES <= 2)

/* What depends on a stripe's columns. */
typedef struct {
    codes code[ROLLING_MAX_KERNEL];     /* of the taps along a row, from the stripe's first column on if an index */
    vector limit[ROLLING_MAX_KERNEL];   /* the lowest number where a tap lies beside the plane, else the highest */
    ptrdiff_t tap_bytes[ROLLING_MAX_KERNEL];    /* from a row's first element to each tap, where channels are units */
    codes flip;                         /* cunpool_rolling.flip, in all lanes */
} OF(Stripe);

/* The taps of a row for all windows of a stripe. Elements are noted once: a stripe leaves those that the next one has
   to it, and one at an edge notes all of its own. */
static CUNPOOL_INLINE void OF(load_taps)(const char *row, const OF(Stripe) *stripe, int kernel, int stride,
                                         int has_units, int at_edge, int careful, codes flip, vector *x,
                                         OF(odd) *odd) {
    const int size = SIMD_BYTES, are_pairs = stride == 2 && !has_units, loads = are_pairs ? 2 : kernel;
    vector v = x[0] = OF(load)(row + (has_units ? stripe->tap_bytes[0] : 0));
    int tap;
    SIMD_KEEP(x[0]);
    SIMD_UNROLL for (tap = 1; tap < loads; tap++) {
        x[tap] = OF(load)(row + (has_units ? stripe->tap_bytes[tap] : are_pairs ? tap * LANES * size : tap * size));
        SIMD_KEEP(x[tap]);
    }
    if (!careful)
        *odd = stride == 2 ? OF(note_pair)(*odd, x[0], x[1]) : OF(note)(*odd, x[0]);
#if ROLLING_HAS_ROWS
    if (are_pairs) {
        v = x[1];
        x[1] = OF(deinterleave)(x[0], v, 1);
        x[0] = OF(deinterleave)(x[0], v, 0);
        if (kernel == 3)
            x[2] = OF(next_first_of_pairs)(x[0], row, &v);
    }
#endif
    if (at_edge && !careful)
        SIMD_UNROLL for (tap = stride; tap < kernel; tap++)
            *odd = OF(note)(*odd, are_pairs ? v : x[tap]);
    SIMD_UNROLL for (tap = 0; tap < kernel; tap++)
        x[tap] = OF(key)(x[tap], flip);
}

/* x, or `outside` where the limit is the lowest number. */
static CUNPOOL_INLINE vector OF(limit_exactly)(vector limit, vector x, vector outside) {
    return OF(select)(OF(greater)(limit, (vector) OF(broadcast_codes)(0)), outside, x);
}

/* Reduce a row along the width. */
static CUNPOOL_INLINE void OF(reduce_row)(const cunpool_rolling *plan, const char *row, const OF(Stripe) *stripe,
                                          const codes *code_of_tap, int kernel, int stride, int has_units,
                                          int with_codes, int flips, int at_edge, int careful, vector *best,
                                          codes *code, OF(odd) *odd) {
    /* Units have no taps beside the plane, and careful rows are all handled as edges. */
    const int is_limited = at_edge && !has_units;
    const codes zero = OF(broadcast_codes)(0);
    vector x[ROLLING_MAX_KERNEL];
    int tap;
    OF(load_taps)(row, stripe, kernel, stride, has_units, at_edge, careful, flips ? stripe->flip : zero, x, odd);
#if ROLLING_HAS_ROWS && SIMD_HAS_ODD
    if (is_limited && careful && plan->omits_nan) {
        /* Elements beside the plane are replaced by the nearest one of the window: the padding would beat a NaN. */
        SIMD_UNROLL for (tap = kernel - 2; tap >= 0; tap--)
            x[tap] = OF(limit_exactly)(stripe->limit[tap], x[tap], x[tap + 1]);
        SIMD_UNROLL for (tap = 1; tap < kernel; tap++)
            x[tap] = OF(limit_exactly)(stripe->limit[tap], x[tap], x[tap - 1]);
    } else if (is_limited && careful)
        SIMD_UNROLL for (tap = 0; tap < kernel; tap++)
            x[tap] = OF(limit_exactly)(stripe->limit[tap], x[tap], stripe->limit[tap]);
    else
#endif
    if (is_limited)
        SIMD_UNROLL for (tap = 0; tap < kernel; tap++)
            x[tap] = OF(min)(stripe->limit[tap], x[tap]);
    *best = x[0];
    *code = code_of_tap[0];
    SIMD_UNROLL for (tap = 1; tap < kernel; tap++)
        OF(compare)(careful, plan->omits_nan, plan->infinity, with_codes, best, code, x[tap], code_of_tap[tap]);
}

/* Store one pooled row of a stripe. */
static CUNPOOL_INLINE void OF(store_line)(const cunpool_rolling *plan, int stride, int has_units, int with_codes,
                                          int flips, vector best, codes code, char *values, char *indices) {
#ifdef SIMD_HAS_STREAM
    const int is_streamed = !has_units && plan->is_streamed;
#endif
    if (stride > 1 && !has_units) {
        best = OF(in_order)(best);
        code = OF(in_order_codes)(code);
    }
    best = OF(bits)(best, OF(broadcast_codes)(flips ? plan->flip : 0));
#ifdef SIMD_HAS_STREAM
    if (is_streamed)
        OF(stream)(values, best);  // unreached: large arrays, in slow tests
    else
#endif
    OF(store)(values, best);
    if (!with_codes || plan->form == ROLLING_VALUES)
        return;
#if ROLLING_HAS_ROWS && SIMD_BYTES >= 4 && defined(SIMD_HAS_STREAM)
    if (plan->form == ROLLING_INDICES8 && is_streamed)
        OF(stream_indices8)(indices, code);  // unreached: large arrays, in slow tests
    else
#endif
        OF(store_codes)(indices, code, plan->code_bytes);
}

/* One stripe of a block: `offset` bytes behind the begin of rows, whose results begin at number `result`. `column` is the
   first window's. Returns whether there were odd elements. */
static CUNPOOL_INLINE int OF(roll_stripe)(const cunpool_rolling *plan, const cunpool_rolling_block *block,
                                          const OF(Stripe) *planned, ptrdiff_t offset, ptrdiff_t column,
                                          ptrdiff_t result, char *kept, int kernel, int stride, int has_units,
                                          int with_codes, int flips, int at_edge, int careful) {
    /* A local copy: the compiler cannot exclude that a stored result changes the structure. */
    const OF(Stripe) own = *planned, *const stripe = has_units ? &own : planned;
    const int shared = kernel > stride ? kernel - stride : 0;
    const ptrdiff_t block_bytes = plan->block_rows * stride * plan->full.row_bytes;
    const ptrdiff_t ahead = block_bytes > ROLLING_PREFETCH_BLOCK ? ROLLING_AHEAD : block_bytes;
    const char *const *row = block->row;
    const int64_t *row_code = block->row_code;
    char *values = block->values + result * SIMD_BYTES;
    char *indices = block->indices + result * plan->code_bytes;
    vector b[ROLLING_MAX_KERNEL], own_kept[2 * ROLLING_MAX_KERNEL], best;
    codes c[ROLLING_MAX_KERNEL], code, code_of_tap[ROLLING_MAX_KERNEL];
    OF(odd) odd = OF(nothing_odd)();
    const ptrdiff_t values_pitch = block->values_pitch, indices_pitch = block->indices_pitch, lines = block->count;
    ptrdiff_t line;
    int r;
    SIMD_UNROLL for (r = 0; r < kernel; r++)
        code_of_tap[r] = OF(add_codes)(stripe->code[r], OF(broadcast_codes)(plan->is_index ? column : 0));
#define ROLLING_REDUCE(r, best, code) do { \
        if (!has_units) \
            __builtin_prefetch(row[r] + offset + ahead); \
        OF(reduce_row)(plan, row[r] + offset, stripe, code_of_tap, kernel, stride, has_units, with_codes, flips, \
                       at_edge, careful, &(best), &(code), &odd); \
        code = OF(add_codes)(code, OF(broadcast_codes)(row_code[r])); \
    } while (0)
    if (has_units)
        kept = (char *) own_kept;
    /* By way of memory: a loop that is not unrolled has a fraction of the code. (size) */
    if (has_units || !block->has_kept)
        SIMD_ONCE for (r = 0; r < shared; r++) {
            ROLLING_REDUCE(r, best, code);
            memcpy(kept + 2 * r * sizeof(vector), &best, sizeof(vector));
            if (with_codes)
                memcpy(kept + (2 * r + 1) * sizeof(vector), &code, sizeof(vector));
        }
    SIMD_UNROLL for (r = 0; r < shared; r++) {
        memcpy(&b[r], kept + 2 * r * sizeof(vector), sizeof(vector));
        memcpy(&c[r], kept + (2 * r + 1) * sizeof(vector), sizeof(vector));
    }
    for (line = 0; line < lines; line++) {
        SIMD_UNROLL for (r = shared; r < kernel; r++)
            ROLLING_REDUCE(r, b[r], c[r]);
        best = b[0];
        code = c[0];
        SIMD_UNROLL for (r = 1; r < kernel; r++)
            OF(compare)(careful, plan->omits_nan, plan->infinity, with_codes, &best, &code, b[r], c[r]);
        code = OF(subtract_codes)(code, OF(broadcast_codes)(block->line_code[line]));
        OF(store_line)(plan, stride, has_units, with_codes, flips, best, code, values, indices);
        values += values_pitch;
        indices += indices_pitch;
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

#if ROLLING_HAS_ROWS
/* The first, a middle and the last stripe of contiguous rows, in memory order of lanes. */
static CUNPOOL_NOINLINE void OF(plan_stripe)(const cunpool_rolling *plan, ptrdiff_t column, ptrdiff_t width,
                                             OF(Stripe) *stripe) {
    const codes flip = OF(broadcast_codes)(plan->flip);
    const codes lowest = (codes) OF(key)((vector) OF(broadcast_codes)(plan->lowest), flip);
    codes code = flip, limit = flip;    /* all lanes are set below */
    int tap, lane;
    stripe->flip = flip;
    for (tap = 0; tap < plan->kernel; tap++) {
        for (lane = 0; lane < LANES; lane++) {
            const int window = plan->stride == 1 ? lane : OF(deinterleaved_lane)(lane);
            const ptrdiff_t at = column + window * plan->stride + tap;
            const ptrdiff_t real = at < 0 ? tap - at : tap;     /* of equals in padding the first element stays */
            code[lane] = real + (plan->is_index ? window * plan->stride : 0);
            limit[lane] = at >= 0 && at < width ? OF(ROLLING_HIGHEST) : lowest[lane];
        }
        stripe->code[tap] = code;
        stripe->limit[tap] = (vector) limit;
    }
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
                                   column * SIMD_BYTES, column, window, kept, kernel, stride, 0, with_codes, flips, 1,
                                   careful);
        else
            odd |= OF(roll_stripe)(plan, block, &stripes[1], column * SIMD_BYTES, column, window, kept, kernel, stride,
                                   0, with_codes, flips, 0, 0);
        if (window + LANES >= plan->windows)
            return odd;
        window = window + 2 * LANES <= plan->windows ? window + LANES : plan->windows - LANES;
    }
}

/* A block of contiguous rows. Maxima have loops of their own: the inversion of bits takes up to 1.2 times as long.
   (speed) */
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
#if SIMD_BYTES != 2     /* (size) */
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
#endif

/* The taps of a column of windows, in all channels. One beside the plane is replaced by the nearest element of its
   window, with the code of that element: comparing an element twice changes neither the maximum nor its code. */
static CUNPOOL_NOINLINE void OF(plan_column)(const cunpool_rolling *plan, ptrdiff_t column, OF(Stripe) *stripe) {
    ptrdiff_t inside;
    int tap;
    stripe->flip = OF(broadcast_codes)(plan->flip);
    for (tap = 0; tap < plan->kernel; tap++) {
        inside = column + tap < 0 ? 0 : column + tap < plan->width ? column + tap : plan->width - 1;
        stripe->tap_bytes[tap] = inside * plan->unit_bytes;
        stripe->code[tap] = OF(broadcast_codes)(inside - column);
    }
}

/* All columns of windows of a block, in channels that are neighbours. In runs, first each column over an edge, by
   vectors that begin or end there, and whose rest later ones overwrite; then the run of all columns inside; and last
   its end again. Columns behind the plane, and the last part, note the elements of all their taps: no later one does. */
static CUNPOOL_INLINE int OF(roll_columns)(const cunpool_rolling *plan, const cunpool_rolling_block *block, int kernel,
                                           int stride, int with_codes, int flips, int careful) {
    /* A local copy: the compiler cannot exclude that a stored result changes the structure. */
    const cunpool_rolling own = *plan;
    const ptrdiff_t unit = own.unit, sides = own.before + own.behind, parts = own.run ? sides + 2 : own.windows;
    /* Results of a column behind the plane, or of the run's end: a vector, or a whole pixel if that is more. */
    const ptrdiff_t tail = unit < LANES ? LANES : unit;
    OF(Stripe) stripe;
    ptrdiff_t part, window, column, planned = PTRDIFF_MAX, i, end, offset;
    int odd = 0;
    for (part = 0; part < parts; part++) {
        const int is_run = own.run && part >= sides, is_behind = part >= own.before && part < sides;
        window = is_run ? own.before : is_behind ? own.windows - 1 - (part - own.before) : part;
        column = window * stride - own.padding[1];
        /* Columns of windows that lie inside the plane have taps in common. */
        if (planned < 0 || planned > column || column + kernel > own.width) {
            OF(plan_column)(plan, column, &stripe);
            planned = column;
        }
        end = is_run ? own.run : unit;
        for (i = is_behind || (is_run && part > sides) ? end - tail : 0; i < end; i = simd_next(i, LANES, end)) {
            offset = (column - planned) * own.unit_bytes + i * SIMD_BYTES;
            odd |= OF(roll_stripe)(&own, block, &stripe, offset, column, window * own.spread * unit + i, NULL, kernel,
                                   stride, 1, with_codes, flips, is_behind || part == parts - 1, careful);
        }
    }
    return odd;
}

/* A block of columns of windows, in channels that are neighbours. */
static CUNPOOL_NOINLINE int OF(roll_unit_block)(const cunpool_rolling *plan, const cunpool_rolling_block *block,
                                                int careful) {
#define ROLLING_UNITS(kernel, stride) \
    (plan->form == ROLLING_VALUES ? OF(roll_columns)(plan, block, kernel, stride, 0, ROLLING_UNIT_FLIPS, 0) \
     : OF(roll_columns)(plan, block, kernel, stride, 1, ROLLING_UNIT_FLIPS, 0))
    if (SIMD_HAS_ODD && careful)
        return OF(roll_columns)(plan, block, plan->kernel, plan->stride, 1, 1, 1);
    if (plan->kernel == 2)      /* with codes it would gain less (size) */
        return OF(roll_columns)(plan, block, 2, 1, 0, ROLLING_UNIT_FLIPS, 0);
    if (plan->kernel == 5)
        return plan->stride == 1 ? ROLLING_UNITS(5, 1) : ROLLING_UNITS(5, 2);
    return plan->stride == 1 ? ROLLING_UNITS(3, 1) : ROLLING_UNITS(3, 2);
#undef ROLLING_UNITS
}

/* A block, of units or of contiguous rows. */
#if ROLLING_HAS_ROWS
#define ROLLING_BLOCK(plan, block, stripes, careful) \
    ((plan)->unit > 1 ? OF(roll_unit_block)(plan, block, careful) : OF(roll_block)(plan, block, stripes, careful))
#else
#define ROLLING_BLOCK(plan, block, stripes, careful) OF(roll_unit_block)(plan, block, careful)
#endif

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
        block.keeps = plan->unit == 1 && plan->kernel > plan->stride && i + 1 < blocks;
        cunpool_rolling_place(plan, at, scratch, plane, line, limit, &block);
        cunpool_rolling_rows(plan, at, scratch, plane, line, &block);
        if (*careful_left > 0)
            --*careful_left;
        if (*careful_left || ROLLING_BLOCK(plan, &block, stripes, 0)) {
            block.has_kept = block.keeps = 0;
            ROLLING_BLOCK(plan, &block, stripes, 1);
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
    cunpool_rolling_ramp(plan, (int64_t *) (scratch + at.ramp));
#if ROLLING_HAS_ROWS
    if (plan->unit == 1) {
        OF(plan_stripe)(plan, -plan->padding[1], plan->width, &stripes[0]);
        OF(plan_stripe)(plan, 0, PTRDIFF_MAX, &stripes[1]);
        OF(plan_stripe)(plan, (plan->windows - LANES) * plan->stride - plan->padding[1], plan->width, &stripes[2]);
    }
#endif
    for (; first < end; first += last - line) {
        plane = first / plan->rows;
        line = first - plane * plan->rows;
        last = end - plane * plan->rows < plan->rows ? end - plane * plan->rows : plan->rows;
        OF(roll_plane)(plan, &at, scratch, stripes, plane, line, last,
                       plan->is_contiguous ? end - plane * plan->rows : last, &careful_left);
    }
}

#undef ROLLING_BLOCK
#undef ROLLING_UNIT_FLIPS
#undef ROLLING_HAS_ROWS
