/* Loops of separable pooling for one element type, SIMD_TYPE: see separable_reduce.h and simd_types.h. */

/* Make elements vectors that compare as their type does. Returns whether there are odd ones among them. Whole vectors
   are read and written. */
static CUNPOOL_NOINLINE int OF(prepare)(char *elements, ptrdiff_t count, uint64_t flip, int infinity) {
    const codes bits = OF(broadcast_codes)((int64_t) flip);
    OF(odd) odd = OF(nothing_odd)();
    ptrdiff_t i;
    for (i = 0; i < count; i += LANES) {
        char *at = elements + i * SIMD_BYTES;
        const vector x = OF(load)(at);
        odd = OF(note)(odd, x);
        OF(store)(at, OF(key)(x, bits));
    }
    return OF(is_odd)(odd, infinity);
}

/* The reverse of `prepare`. */
static CUNPOOL_NOINLINE void OF(restore)(char *elements, ptrdiff_t count, uint64_t flip) {
    const codes bits = OF(broadcast_codes)((int64_t) flip);
    ptrdiff_t i;
    for (i = 0; i < count; i += LANES)
        OF(store)(elements + i * SIMD_BYTES, OF(bits)(OF(load)(elements + i * SIMD_BYTES), bits));
}

/* Combine two runs. `form` and `careful` are constants. */
static CUNPOOL_INLINE void OF(combine_loop)(const cunpool_runs *runs, int form, int careful) {
    const cunpool_runs r = *runs;
    const codes add = OF(broadcast_codes)(r.add), zero = OF(broadcast_codes)(0);
    ptrdiff_t i;
    for (i = 0; i < r.count * SIMD_BYTES; i += LANES * SIMD_BYTES) {
        vector best = OF(load)(r.best + i);
        codes code = zero, later_code = add;
        if (form == SEPARABLE_CODES || form == SEPARABLE_FRESH)
            memcpy(&code, r.code + i, sizeof code);
        if (form == SEPARABLE_CODES) {
            memcpy(&later_code, r.later_code + i, sizeof later_code);
            later_code = OF(add_codes)(later_code, add);
        }
        OF(compare)(careful, r.omits_nan, r.infinity, form != SEPARABLE_VALUES, &best, &code, OF(load)(r.later + i),
                    later_code);
        OF(store)(r.to + i, best);
        if (form != SEPARABLE_VALUES)
            memcpy(r.to_code + i, &code, sizeof code);
    }
}

static CUNPOOL_NOINLINE void OF(combine)(const cunpool_runs *runs, int form, int careful) {
#if SIMD_HAS_ODD
    if (careful) {
        form == SEPARABLE_VALUES ? OF(combine_loop)(runs, SEPARABLE_VALUES, 1)
        : OF(combine_loop)(runs, SEPARABLE_CODES, 1);
        return;
    }
#endif
    (void) careful;
    form == SEPARABLE_VALUES ? OF(combine_loop)(runs, SEPARABLE_VALUES, 0)
    : form == SEPARABLE_FIRST ? OF(combine_loop)(runs, SEPARABLE_FIRST, 0)
    : form == SEPARABLE_FRESH ? OF(combine_loop)(runs, SEPARABLE_FRESH, 0)
    : OF(combine_loop)(runs, SEPARABLE_CODES, 0);
}
