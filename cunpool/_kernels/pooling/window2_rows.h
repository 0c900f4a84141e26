/* Windows of 2 of one element type, SIMD_TYPE: see window2.h and simd_types.h. */

/* Floats of 32 and 64 bits have loops for maxima. Others are flipped, or change their order in any case. */
#define WINDOW2_FLIPS (!SIMD_HAS_ODD || SIMD_BYTES < 4)

/* The loop over pooled rows, windows, and the rows of a window. Of each pooled row at least a vector of windows is read
   and stored. All arguments but `windows` are constants; of a `careful` loop only `flips` and `careful`. */
static CUNPOOL_INLINE int OF(window2_loop)(const cunpool_window2 *windows, int rows, int is_swapped, int with_codes,
                                           int flips, int careful) {
    const codes flip = OF(broadcast_codes)(flips ? (int64_t) windows->flip : 0);
    /* Local copies: the compiler cannot exclude that a stored result changes the structure. */
    const ptrdiff_t size = SIMD_BYTES, row_bytes = windows->pooled_row_bytes, row_windows = windows->row_windows;
    const char *elements[4];
    char *best = windows->best, *code_to = windows->best_codes;
    const int code_bytes = windows->code_bytes;
    const ptrdiff_t count = row_windows < LANES ? LANES : row_windows;
    ptrdiff_t pooled_rows = windows->pooled_rows, plane_row = windows->plane_row, i;
    vector highest, x, y, first, second, seconds[4];
    codes code, tap_code[8];
#if SIMD_BYTES >= 4
    const codes ramp = (codes) OF(load)(SIMD_BYTES == 4 ? (const char *) windows->ramp4 : (const char *) windows->ramp8);
    const int has_indices = windows->has_indices;
    const int64_t window_step = windows->window_step;
    int64_t base;
#endif
    OF(odd) odd = OF(nothing_odd)();
    int k;
    for (k = 0; k < rows; k++) {
        elements[k] = windows->row[k];
        tap_code[2 * k] = OF(broadcast_codes)(windows->row_codes[k]);
        tap_code[2 * k + 1] = OF(broadcast_codes)(windows->row_codes[k] + windows->second_code);
    }
    code = tap_code[0], highest = (vector) code;     /* against a warning: the first row sets both */
#define WINDOW2_COMPARE(x, number) \
        OF(compare)(careful, windows->omits_nan, windows->infinity, with_codes, &highest, &code, x, tap_code[number])
    for (; pooled_rows > 0; pooled_rows--) {
#if SIMD_BYTES >= 4
        base = windows->base + plane_row * windows->row_step;
#endif
        for (i = 0; i < count; i = simd_next(i, LANES, count)) {
            SIMD_UNROLL for (k = 0; k < rows; k++) {
                x = OF(load)(elements[k] + 2 * i * size);
                y = OF(load)(elements[k] + (2 * i + LANES) * size);
                SIMD_KEEP(x);
                SIMD_KEEP(y);
                __builtin_prefetch(elements[k] + 2 * i * size + CUNPOOL_WINDOW2_AHEAD);
                if (CUNPOOL_VECTOR_BYTES == 64)
                    __builtin_prefetch(elements[k] + (2 * i + LANES) * size + CUNPOOL_WINDOW2_AHEAD);
                if (!careful)
                    odd = OF(note_pair)(odd, x, y);
                first = OF(key)(OF(deinterleave)(x, y, 0), flip);
                if (k)
                    WINDOW2_COMPARE(first, 2 * k);
                else
                    highest = first, code = tap_code[0];
                second = OF(key)(OF(deinterleave)(x, y, 1), flip);
                if (is_swapped)
                    seconds[k] = second;
                else
                    WINDOW2_COMPARE(second, 2 * k + 1);
            }
            SIMD_UNROLL for (k = 0; is_swapped && k < rows; k++)
                WINDOW2_COMPARE(seconds[k], 2 * k + 1);
            OF(store)(best + i * size, OF(in_order)(OF(bits)(highest, flip)));
            if (with_codes) {
                code = OF(in_order_codes)(code);
#if SIMD_BYTES >= 4
                if (has_indices)
                    code = OF(add_codes)(code, OF(add_codes)(ramp, OF(broadcast_codes)(base + i * window_step)));
#endif
                OF(store_codes)(code_to + i * code_bytes, code, code_bytes);
            }
        }
        for (k = 0; k < rows; k++)
            elements[k] += row_bytes;
        best += row_windows * size;
        code_to += row_windows * code_bytes;
        plane_row = plane_row + 1 < windows->plane_rows ? plane_row + 1 : 0;
    }
#undef WINDOW2_COMPARE
    return OF(is_odd)(odd, windows->infinity);
}

static CUNPOOL_NOINLINE int OF(window2)(const cunpool_window2 *windows, int careful) {
    const int flips = !WINDOW2_FLIPS && windows->flip;
#define WINDOW2_INSTANCE(rows, with_codes, flips) \
    OF(window2_loop)(windows, rows, 0, with_codes, flips, 0)
#define WINDOW2_INSTANCES(rows) \
    (flips ? windows->with_codes ? WINDOW2_INSTANCE(rows, 1, 1) : WINDOW2_INSTANCE(rows, 0, 1) \
     : windows->with_codes ? WINDOW2_INSTANCE(rows, 1, WINDOW2_FLIPS) : WINDOW2_INSTANCE(rows, 0, WINDOW2_FLIPS))
#if SIMD_HAS_ODD
    if (careful)
        return OF(window2_loop)(windows, windows->kernel_rows, windows->is_swapped, windows->with_codes, 1, 1);
#endif
    (void) careful;
    if (windows->is_swapped && windows->kernel_rows == 2)   /* without codes for the sake of the sign of zero */
        return windows->with_codes ? OF(window2_loop)(windows, 2, 1, 1, 1, 0)
               : OF(window2_loop)(windows, 2, 1, 0, 1, 0);
    return windows->kernel_rows == 1 ? WINDOW2_INSTANCES(1) : windows->kernel_rows == 2 ? WINDOW2_INSTANCES(2)
           : WINDOW2_INSTANCES(4);
#undef WINDOW2_INSTANCES
#undef WINDOW2_INSTANCE
}

#undef WINDOW2_FLIPS
