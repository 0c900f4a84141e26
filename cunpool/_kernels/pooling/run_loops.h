/* Loops over runs for one element type, SIMD_TYPE: see runs.h and simd_types.h. */

/* Make elements vectors that compare as their type does. Returns whether there are odd ones among them. Whole vectors
   are read and written. */
static CUNPOOL_NOINLINE int OF(prepare)(char *elements, ptrdiff_t count, cunpool_comparison how) {
    const codes bits = OF(broadcast_codes)((int64_t) how.flip);
    OF(odd) odd = OF(nothing_odd)();
    ptrdiff_t i;
    for (i = 0; i < count; i += LANES) {
        char *at = elements + i * SIMD_BYTES;
        const vector x = OF(load)(at);
        odd = OF(note)(odd, x);
        OF(store)(at, OF(key)(x, bits));
    }
    return OF(is_odd)(odd, how.infinity);
}

/* The reverse of `prepare`. */
static CUNPOOL_NOINLINE void OF(restore)(char *elements, ptrdiff_t count, cunpool_comparison how) {
    const codes bits = OF(broadcast_codes)((int64_t) how.flip);
    ptrdiff_t i;
    for (i = 0; i < count; i += LANES)
        OF(store)(elements + i * SIMD_BYTES, OF(bits)(OF(load)(elements + i * SIMD_BYTES), bits));
}

/* Combine two runs. `form` and `careful` are constants. */
static CUNPOOL_INLINE void OF(combine_loop)(const cunpool_runs *runs, cunpool_comparison how, int form,
                                              int careful) {
    const cunpool_runs r = *runs;
    const codes add = OF(broadcast_codes)(r.add), zero = OF(broadcast_codes)(0);
    ptrdiff_t i;
    for (i = 0; i < r.count * SIMD_BYTES; i += LANES * SIMD_BYTES) {
        vector best = OF(load)(r.best + i);
        codes code = zero, later_code = add;
        if (form == RUN_CODES || form == RUN_FRESH)
            memcpy(&code, r.code + i, sizeof code);
        if (form == RUN_CODES) {
            memcpy(&later_code, r.later_code + i, sizeof later_code);
            later_code = OF(add_codes)(later_code, add);
        }
        OF(compare)(careful, how.omits_nan, how.infinity, form != RUN_VALUES, &best, &code, OF(load)(r.later + i),
                    later_code);
        OF(store)(r.to + i, best);
        if (form != RUN_VALUES)
            memcpy(r.to_code + i, &code, sizeof code);
    }
}

static CUNPOOL_NOINLINE void OF(combine)(const cunpool_runs *runs, cunpool_comparison how, int form, int careful) {
#if SIMD_HAS_ODD
    if (careful) {
        form == RUN_VALUES ? OF(combine_loop)(runs, how, RUN_VALUES, 1)
        : OF(combine_loop)(runs, how, RUN_CODES, 1);
        return;
    }
#endif
    (void) careful;
    form == RUN_VALUES ? OF(combine_loop)(runs, how, RUN_VALUES, 0)
    : form == RUN_FIRST ? OF(combine_loop)(runs, how, RUN_FIRST, 0)
    : form == RUN_FRESH ? OF(combine_loop)(runs, how, RUN_FRESH, 0)
    : OF(combine_loop)(runs, how, RUN_CODES, 0);
}

/* The loop over vectors of elements, of `first` and `count` other runs. `count` and `flips` are constants. */
static CUNPOOL_INLINE void OF(best_loop)(const char *first, const char **runs, int count, char *to, ptrdiff_t elements,
                                         uint64_t flip, int flips) {
    const codes bits = OF(broadcast_codes)(flips ? (int64_t) flip : 0);
    const char *const second = runs[0], *const third = runs[count > 1 ? 1 : 0], *const fourth = runs[count > 2 ? 2 : 0];
    const char *const fifth = runs[count > 3 ? 3 : 0];
    codes code = bits;      /* not used */
    vector best;
    ptrdiff_t i;
#define BEST_KEY(run, at) OF(key)(OF(load)(run + (at) * SIMD_BYTES), bits)
#define BEST_TAKE(run, at) OF(compare)(0, 0, 0, 0, &best, &code, BEST_KEY(run, at), code)
#define BEST_VECTOR(at) do { \
        best = BEST_KEY(first, at); \
        BEST_TAKE(second, at); \
        if (count > 1) \
            BEST_TAKE(third, at); \
        if (count > 2) \
            BEST_TAKE(fourth, at); \
        if (count > 3) \
            BEST_TAKE(fifth, at); \
        OF(store)(to + (at) * SIMD_BYTES, OF(bits)(best, bits)); \
    } while (0)
    for (i = 0; i + LANES <= elements; i += LANES)
        BEST_VECTOR(i);
    if (i < elements) {
        i = elements < LANES ? 0 : elements - LANES;    /* the last vector repeats some elements */
        BEST_VECTOR(i);
    }
#undef BEST_KEY
#undef BEST_TAKE
#undef BEST_VECTOR
}

static CUNPOOL_NOINLINE void OF(best)(const char *first, const char **runs, int count, char *to, ptrdiff_t elements,
                                      uint64_t flip) {
#define BEST_LOOP(count) \
    (flip ? OF(best_loop)(first, runs, count, to, elements, flip, 1) \
     : OF(best_loop)(first, runs, count, to, elements, 0, 0))
    count == 1 ? BEST_LOOP(1) : count == 2 ? BEST_LOOP(2) : count == 3 ? BEST_LOOP(3) : BEST_LOOP(4);
#undef BEST_LOOP
}

#if SIMD_HAS_ODD
/* As integers of 32 and 64 bits, negative zeros are the lowest. Those of 16 bits are odd. */
#if SIMD_BYTES == 4
#define AS_INTEGER(name) name##_int4
#define INTEGER int32_t
#elif SIMD_BYTES == 8
#define AS_INTEGER(name) name##_int8
#define INTEGER int64_t
#endif
/* Whether there is a NaN or a negative zero among LANES elements or more. */
static CUNPOOL_NOINLINE int OF(has_odd)(const char *elements, ptrdiff_t count, int infinity) {
    OF(odd) odd = OF(nothing_odd)();
    ptrdiff_t i;
    int has_zero = 0;
#ifdef INTEGER
    const INTEGER zero = (INTEGER) ((uint64_t) 1 << (8 * SIMD_BYTES - 1));
    INTEGER lane[LANES];
    AS_INTEGER(vector) lowest = AS_INTEGER(load)(elements);
#endif
    for (i = 0; i < count; i += LANES) {
        const char *at = elements + (i + LANES > count ? count - LANES : i) * SIMD_BYTES;
        odd = OF(note)(odd, OF(load)(at));
#ifdef INTEGER
        lowest = AS_INTEGER(min)(lowest, AS_INTEGER(load)(at));
#endif
    }
#ifdef INTEGER
    AS_INTEGER(store)((char *) lane, lowest);   /* memcpy would keep `lowest` in memory, 2 times as slow (speed) */
    for (i = 0; i < LANES; i++)
        has_zero |= lane[i] == zero;
#undef INTEGER
#undef AS_INTEGER
#endif
    return has_zero | OF(is_odd)(odd, infinity);
}
#endif
