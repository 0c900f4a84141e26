/* Windows across channels of one element type, SIMD_TYPE: see across.h and simd_types.h. */

/* The loop over windows, channels and taps. `is_large` (of more than CUNPOOL_FEW_TAPS), `flips` and `careful` are
   constants, and `with_codes` and `tap_count` where the caller writes a number: 1.4x faster for 4, across 64 channels of
   56 x 56. (speed) */
static CUNPOOL_INLINE int OF(across_loop)(const cunpool_taps *taps, const cunpool_across_windows *windows,
                                          int tap_count, int is_large, int with_codes, int flips, int careful) {
    /* Local copies, of all but many taps: the compiler cannot exclude that a stored result changes the structures. */
    const cunpool_across_windows w = *windows;
    const int omits_nan = taps->omits_nan, infinity = taps->infinity;
    const codes flip = OF(broadcast_codes)(flips ? (int64_t) taps->flip : 0);
    const ptrdiff_t size = SIMD_BYTES;
    const char *element[CUNPOOL_FEW_TAPS];
    codes at[CUNPOOL_FEW_TAPS], code;
    vector best, first, x, y;
    OF(odd) odd = OF(nothing_odd)();
    ptrdiff_t window, i, ahead = 0, line = 0;
    int64_t base = w.base;
    int tap;
    for (tap = 0; !is_large && tap < tap_count; tap++) {
        element[tap] = taps->elements[tap];
        at[tap] = OF(broadcast_codes)(taps->tap_codes[tap]);
    }
#define ACROSS_LOAD(tap) OF(load)((is_large ? taps->elements[tap] : element[tap]) + ahead + i * size)
#define ACROSS_CODE(tap) (is_large ? OF(broadcast_codes)(taps->tap_codes[tap]) : at[tap])
#define ACROSS_COMPARE(x, tap) \
        OF(compare)(careful, omits_nan, infinity, with_codes, &best, &code, OF(key)(x, flip), ACROSS_CODE(tap))
    for (window = 0; window < w.count; window++) {
        for (i = 0; i < w.channels; i = simd_next(i, LANES, w.channels)) {
            first = ACROSS_LOAD(0);
            best = OF(key)(first, flip);
            code = ACROSS_CODE(0);
            SIMD_UNROLL for (tap = 1; tap + 1 < tap_count; tap += 2) {
                x = ACROSS_LOAD(tap);
                y = ACROSS_LOAD(tap + 1);
                SIMD_KEEP(x);
                SIMD_KEEP(y);
                if (!careful)
                    odd = OF(note_pair)(odd, x, y);
                ACROSS_COMPARE(x, tap);
                ACROSS_COMPARE(y, tap + 1);
            }
            x = first;
            if (tap < tap_count) {
                x = ACROSS_LOAD(tap);
                SIMD_KEEP(x);
                ACROSS_COMPARE(x, tap);
            }
            if (!careful)
                odd = OF(note_pair)(odd, first, x);
            OF(store)(w.best + (line + i) * size, OF(bits)(best, flip));
            if (with_codes)
                OF(store_codes)(w.best_codes + (line + i) * w.code_bytes,
                                SIMD_BYTES < 4 ? code : OF(add_codes)(code, OF(broadcast_codes)(base)), w.code_bytes);
        }
        ahead += w.window_bytes;
        line += w.window_results;
        base += w.window_step;
    }
#undef ACROSS_LOAD
#undef ACROSS_CODE
#undef ACROSS_COMPARE
    return OF(is_odd)(odd, infinity);
}

static CUNPOOL_NOINLINE int OF(across)(const cunpool_taps *taps, const cunpool_across_windows *windows,
                                       int careful) {
    const int with_codes = windows->best_codes != NULL;
    const int flips = SIMD_HAS_ODD && SIMD_BYTES == 2;  /* a 16-bit float has to become an integer in any case */
#if SIMD_HAS_ODD
    if (careful)
        return OF(across_loop)(taps, windows, taps->count, 1, with_codes, 1, 1);
#endif
    (void) careful;
    if (taps->count > CUNPOOL_FEW_TAPS || (taps->flip && !flips))
        return OF(across_loop)(taps, windows, taps->count, 1, with_codes, 1, 0);
    if (taps->count == 4)
        return with_codes ? OF(across_loop)(taps, windows, 4, 0, 1, flips, 0)
               : OF(across_loop)(taps, windows, 4, 0, 0, flips, 0);
    return with_codes ? OF(across_loop)(taps, windows, taps->count, 0, 1, flips, 0)
           : OF(across_loop)(taps, windows, taps->count, 0, 0, flips, 0);
}
