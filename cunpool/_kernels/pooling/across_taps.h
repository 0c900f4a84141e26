/* Windows across channels of one element type, SIMD_TYPE: see across.h and simd_types.h. */

/* Store the offsets of a vector of channels, `further` larger: as bytes if `bytes` is not NULL. */
static CUNPOOL_INLINE void OF(store_offsets)(codes offset, int32_t further, int32_t *to, char *bytes) {
    if (bytes) {
        OF(store_code_bytes)(bytes, offset);
        return;
    }
#if SIMD_BYTES >= 4
    OF(store_indices4)((char *) to, OF(add_codes)(offset, OF(broadcast_codes)(further)));
#elif SIMD_BYTES == 2
    {
        uint16_t stored[LANES];
        int i;
        memcpy(stored, &offset, sizeof stored);
        for (i = 0; i < LANES; i += LANES / 2)
            add_to_offsets4((char *) (to + i), stored + i, further);
    }
#else
    (void) further, (void) to;  /* bytes have codes alone */
#endif
}

/* The loop over windows, channels and taps. `flips` and `careful` are constants, and `with_offsets` and `tap_count`
   where the caller writes a number: 1.4x faster for 4, across 64 channels of 56 x 56. (speed) */
static CUNPOOL_INLINE int OF(across_loop)(const cunpool_taps *taps, const cunpool_across_windows *windows,
                                          int tap_count, int with_offsets, int flips, int careful) {
    /* Local copies: the compiler cannot exclude that a stored result changes the structure. */
    const cunpool_across_windows w = *windows;
    const int omits_nan = taps->omits_nan, infinity = taps->infinity;
    const codes flip = OF(broadcast_codes)(flips ? (int64_t) taps->flip : 0);
    const ptrdiff_t size = SIMD_BYTES;
    const char *element[CUNPOOL_TAPS];
    codes at[CUNPOOL_TAPS], code;
    vector best, first, x, y;
    OF(odd) odd = OF(nothing_odd)();
    ptrdiff_t window, i, ahead = 0, line = 0;
    uint32_t further = (uint32_t) w.first_offset;
    int tap;
    for (tap = 0; tap < tap_count; tap++) {
        element[tap] = taps->elements[tap];
        at[tap] = OF(broadcast_codes)(taps->offsets[tap]);
    }
#define ACROSS_LOAD(tap) OF(load)(element[tap] + ahead + i * size)
#define ACROSS_COMPARE(x, tap) \
        OF(compare)(careful, omits_nan, infinity, with_offsets, 0, &best, &code, OF(key)(x, flip), at[tap])
    for (window = 0; window < w.count; window++) {
        for (i = 0; i < w.channels; i = simd_next(i, LANES, w.channels)) {
            first = ACROSS_LOAD(0);
            best = OF(key)(first, flip);
            code = at[0];
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
            if (with_offsets)
                OF(store_offsets)(code, (int32_t) further, w.offset + line + i,
                                  w.code_bytes ? w.code_bytes + line + i : NULL);
        }
        ahead += w.window_bytes;
        line += w.window_results;
        further += (uint32_t) w.window_offset;
    }
#undef ACROSS_LOAD
#undef ACROSS_COMPARE
    return OF(is_odd)(odd, infinity);
}

static CUNPOOL_NOINLINE int OF(across)(const cunpool_taps *taps, const cunpool_across_windows *windows,
                                       int careful) {
    const int with_offsets = windows->offset || windows->code_bytes;
    const int flips = SIMD_HAS_ODD && SIMD_BYTES == 2;  /* a 16-bit float has to become an integer in any case */
#if SIMD_HAS_ODD
    if (careful)
        return OF(across_loop)(taps, windows, taps->count, with_offsets, 1, 1);
#endif
    (void) careful;
    if (taps->flip && !flips)
        return OF(across_loop)(taps, windows, taps->count, with_offsets, 1, 0);
    if (taps->count == 4)
        return with_offsets ? OF(across_loop)(taps, windows, 4, 1, flips, 0)
               : OF(across_loop)(taps, windows, 4, 0, flips, 0);
    return with_offsets ? OF(across_loop)(taps, windows, taps->count, 1, flips, 0)
           : OF(across_loop)(taps, windows, taps->count, 0, flips, 0);
}
