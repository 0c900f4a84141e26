/* Square windows that share rows, across channels of one element type, SIMD_TYPE: see across.h and simd_types.h. */

/* The highest of the taps of a row, and its code. Elements are noted once: a window notes the columns that the next
   one does not have, and the last one (`is_last`) all of its own. */
static CUNPOOL_INLINE void OF(reduce_taps)(const char *row, const ptrdiff_t *tap_bytes, const codes *tap_code,
                                           int kernel, int stride, int is_last, int with_codes, codes flip,
                                           vector *best, codes *code, OF(odd) *odd) {
    vector x[SHARED_MAX_KERNEL];
    int tap;
    SIMD_UNROLL for (tap = 0; tap < kernel; tap++) {
        x[tap] = OF(load)(row + tap_bytes[tap]);
        SIMD_KEEP(x[tap]);
    }
    *odd = stride == 1 ? OF(note)(*odd, x[0]) : OF(note_pair)(*odd, x[0], x[1]);
    if (is_last)
        SIMD_UNROLL for (tap = stride; tap < kernel; tap++)
            *odd = OF(note)(*odd, x[tap]);
    *best = OF(key)(x[0], flip);
    *code = tap_code[0];
    SIMD_UNROLL for (tap = 1; tap < kernel; tap++)
        OF(compare)(0, 0, 0, with_codes, best, code, OF(key)(x[tap], flip), tap_code[tap]);
}

/* The loop over windows of a line, channels, and lines. All but `rows` are constants. */
static CUNPOOL_INLINE int OF(shared_loop)(const cunpool_shared_rows *rows, int kernel, int stride,
                                          int with_codes, int flips) {
    /* Local copies: the compiler cannot exclude that a stored result changes the structure. */
    const cunpool_shared_rows r = *rows;
    const cunpool_across_windows w = r.first_line;
    const codes flip = OF(broadcast_codes)(flips ? (int64_t) r.flip : 0);
    codes tap_code[SHARED_MAX_KERNEL], code_of[SHARED_MAX_KERNEL], first_code[SHARED_MAX_KERNEL], code;
    vector best_of[SHARED_MAX_KERNEL], first_best[SHARED_MAX_KERNEL], best;
    OF(odd) odd = OF(nothing_odd)();
    ptrdiff_t window, i, line, result, at;
    int64_t base = w.base;
    int k;
    SIMD_UNROLL for (k = 0; k < kernel; k++)
        tap_code[k] = OF(broadcast_codes)(r.tap_code[k]);
#define SHARED_REDUCE(k, best, code) do { \
        OF(reduce_taps)(row[k] + at, r.tap_bytes, tap_code, kernel, stride, window + 1 == w.count, with_codes, \
                        flip, &(best), &(code), &odd); \
        code = OF(add_codes)(code, OF(broadcast_codes)(row_code[k])); \
    } while (0)
    for (window = 0; window < w.count; window++, base += w.window_step) {
        for (i = 0; i < w.channels; i = simd_next(i, LANES, w.channels)) {
            const char *const *row = r.row;
            const int64_t *row_code = r.row_code;
            at = window * w.window_bytes + i * SIMD_BYTES;
            result = window * w.window_results + i;
            /* By way of memory: a loop that is not unrolled has a fraction of the code. (size) */
            SIMD_ONCE for (k = 0; k < kernel - stride; k++)
                SHARED_REDUCE(k, first_best[k], first_code[k]);
            SIMD_UNROLL for (k = 0; k < kernel - stride; k++)
                best_of[k] = first_best[k], code_of[k] = first_code[k];
            for (line = 0; line < r.lines; line++) {
                SIMD_UNROLL for (k = kernel - stride; k < kernel; k++)
                    SHARED_REDUCE(k, best_of[k], code_of[k]);
                best = best_of[0], code = code_of[0];
                SIMD_UNROLL for (k = 1; k < kernel; k++)
                    OF(compare)(0, 0, 0, with_codes, &best, &code, best_of[k], code_of[k]);
                OF(store)(w.best + line * r.best_line_bytes + result * SIMD_BYTES, OF(bits)(best, flip));
                code = OF(add_codes)(code, OF(broadcast_codes)(base - line * r.line_code));
                if (with_codes)
                    OF(store_codes)(w.best_codes + line * r.code_line_bytes + result * w.code_bytes, code,
                                    w.code_bytes);
                row += stride, row_code += stride;
                SIMD_UNROLL for (k = 0; k < kernel - stride; k++)
                    best_of[k] = best_of[k + stride], code_of[k] = code_of[k + stride];
            }
        }
    }
#undef SHARED_REDUCE
    return OF(is_odd)(odd, r.infinity);
}

static CUNPOOL_NOINLINE int OF(shared)(const cunpool_shared_rows *rows) {
    const int with_codes = rows->first_line.best_codes != NULL;
    const int flips = SIMD_BYTES <= 2;
#define SHARED_INSTANCE(kernel, stride) \
    (with_codes ? OF(shared_loop)(rows, kernel, stride, 1, flips) \
     : OF(shared_loop)(rows, kernel, stride, 0, flips))
    if (rows->kernel == 2)      /* with codes it would gain less (size) */
        return OF(shared_loop)(rows, 2, 1, 0, flips);
    if (rows->kernel == 3)
        return rows->stride == 1 ? SHARED_INSTANCE(3, 1) : SHARED_INSTANCE(3, 2);
    return rows->stride == 1 ? SHARED_INSTANCE(5, 1) : SHARED_INSTANCE(5, 2);
#undef SHARED_INSTANCE
}
