/* Separable pooling of one element type, LANE, with codes of type LANE_CODE: see separable.h. Included once for each
   type: OF(f) is f_LANE_NAME, such as cunpool_reduce_item1. LANE_IS_FLOAT: the type has NaN. LANE_IS_HALF: 16-bit
   floats, as integers in the order of the numbers. */
#define LANE_JOIN_(name, type) name##_##type
#define LANE_JOIN(name, type) LANE_JOIN_(name, type)
#define OF(name) LANE_JOIN(name, LANE_NAME)
#define LANE_IS_ODD (LANE_IS_FLOAT || LANE_IS_HALF)

#if LANE_IS_HALF
/* An integer in the order of the numbers, negative zero below positive zero. It is its own inverse. */
static CUNPOOL_INLINE LANE OF(cunpool_key)(LANE x, int magnitude) { return (LANE) (x ^ ((x >> 15) & magnitude)); }
static CUNPOOL_INLINE int OF(cunpool_is_nan)(LANE x, int infinity) { return (LANE) (x ^ (x >> 15)) > infinity; }
/* Both zeros are 0. */
static CUNPOOL_INLINE int OF(cunpool_is_greater)(LANE x, LANE y) {
    return (LANE) (x - (x >> 15)) > (LANE) (y - (y >> 15));
}
#elif LANE_IS_FLOAT
static CUNPOOL_INLINE int OF(cunpool_is_nan)(LANE x, int infinity) { (void) infinity; return x != x; }
static CUNPOOL_INLINE int OF(cunpool_is_greater)(LANE x, LANE y) { return x > y; }
#endif

/* Whether something later takes the place of the best. */
static CUNPOOL_INLINE int OF(cunpool_beats)(LANE later, LANE best, int rule, int infinity) {
    (void) rule, (void) infinity;
#if LANE_IS_ODD
    if (rule == SEPARABLE_PROPAGATE)
        return (OF(cunpool_is_greater)(later, best) & !OF(cunpool_is_nan)(best, infinity))
               | OF(cunpool_is_nan)(later, infinity);
    if (rule == SEPARABLE_OMIT)
        return (OF(cunpool_is_greater)(later, best) | OF(cunpool_is_nan)(best, infinity))
               & !OF(cunpool_is_nan)(later, infinity);
#endif
    return later > best;
}

/* Combine two runs, where the second is later in raster order. The codes that are read, by `form`:

       VALUES      none, and none are stored
       FIRST       none, because all are 0
       FRESH       those of the first run, because those of the second are 0
       CODES       those of both runs

   Codes of the second run grow by `add`. */
static CUNPOOL_INLINE void OF(cunpool_combine)(LANE *to, LANE_CODE *to_code, const LANE *best, const LANE_CODE *code,
                                               const LANE *later, const LANE_CODE *later_code, LANE_CODE add,
                                               ptrdiff_t count, int form, int rule, int infinity) {
    const ptrdiff_t whole = SEPARABLE_VECTOR_BYTES / (ptrdiff_t) sizeof(LANE);
    ptrdiff_t i;
    count = (count + whole - 1) / whole * whole;
    SEPARABLE_INDEPENDENT
    for (i = 0; i < count; i++) {
        const int is_later = OF(cunpool_beats)(later[i], best[i], rule, infinity);
        if (form == SEPARABLE_CODES)
            to_code[i] = is_later ? (LANE_CODE) (later_code[i] + add) : code[i];
        else if (form == SEPARABLE_FRESH)
            to_code[i] = is_later ? add : code[i];
        else if (form == SEPARABLE_FIRST)
            to_code[i] = is_later ? add : 0;
        to[i] = is_later ? later[i] : best[i];
    }
}
#define SEPARABLE_COMBINE(name, form, rule) \
    static CUNPOOL_WIDE void OF(name)(LANE *to, LANE_CODE *to_code, const LANE *best, const LANE_CODE *code, \
                                      const LANE *later, const LANE_CODE *later_code, LANE_CODE add, ptrdiff_t count, \
                                      int infinity) { \
        OF(cunpool_combine)(to, to_code, best, code, later, later_code, add, count, form, rule, infinity); \
    }
SEPARABLE_COMBINE(cunpool_combine_values, SEPARABLE_VALUES, SEPARABLE_NUMBERS)
SEPARABLE_COMBINE(cunpool_combine_first, SEPARABLE_FIRST, SEPARABLE_NUMBERS)
SEPARABLE_COMBINE(cunpool_combine_fresh, SEPARABLE_FRESH, SEPARABLE_NUMBERS)
SEPARABLE_COMBINE(cunpool_combine_codes, SEPARABLE_CODES, SEPARABLE_NUMBERS)
#if LANE_IS_ODD
SEPARABLE_COMBINE(cunpool_combine_values_propagating, SEPARABLE_VALUES, SEPARABLE_PROPAGATE)
SEPARABLE_COMBINE(cunpool_combine_codes_propagating, SEPARABLE_CODES, SEPARABLE_PROPAGATE)
SEPARABLE_COMBINE(cunpool_combine_values_omitting, SEPARABLE_VALUES, SEPARABLE_OMIT)
SEPARABLE_COMBINE(cunpool_combine_codes_omitting, SEPARABLE_CODES, SEPARABLE_OMIT)

/* Whether a run has a NaN, or a negative zero of 16 bits. */
static CUNPOOL_WIDE int OF(cunpool_has_odd)(const LANE *x, ptrdiff_t count, int magnitude, int infinity) {
    int odd = 0;
    ptrdiff_t i;
    (void) magnitude, (void) infinity;
    for (i = 0; i < count; i++) {
#if LANE_IS_HALF
        odd |= ((x[i] & magnitude) > infinity) | (x[i] == INT16_MIN);
#else
        odd |= x[i] != x[i];
#endif
    }
    return odd;
}
#endif
#if LANE_IS_HALF
static CUNPOOL_WIDE void OF(cunpool_exchange_keys)(LANE *x, ptrdiff_t count, int magnitude) {
    ptrdiff_t i;
    for (i = 0; i < count; i++)
        x[i] = OF(cunpool_key)(x[i], magnitude);
}
#endif

/* Elements as they are compared: flipped for minima, 16-bit floats as integers. Returns the rule of comparison. */
static int OF(cunpool_prepare)(const cunpool_separable *plan, const cunpool_separable_block *block) {
    int is_odd = 0;
    ptrdiff_t lattice;
    for (lattice = 0; lattice < plan->lattices; lattice++) {
        LANE *x = (LANE *) block->values + lattice * plan->pitch;
#if LANE_IS_ODD
        is_odd |= OF(cunpool_has_odd)(x, block->length, plan->magnitude, plan->infinity);
#endif
        cunpool_flip((int) sizeof(LANE), (char *) x, block->length, plan->flip);
#if LANE_IS_HALF
        OF(cunpool_exchange_keys)(x, block->length, plan->magnitude);
#endif
    }
    return !is_odd ? SEPARABLE_NUMBERS : plan->omits_nan ? SEPARABLE_OMIT : SEPARABLE_PROPAGATE;
}

/* Combine element i of a run with element i + shift of another, which is later in raster order. */
static void OF(cunpool_combine_lattices)(const cunpool_separable *plan, const cunpool_separable_block *block,
                                         ptrdiff_t to, const char *best, const char *codes, ptrdiff_t later,
                                         ptrdiff_t shift, ptrdiff_t add, int form, int rule) {
    LANE *into = (LANE *) block->other_values + to * plan->pitch;
    LANE_CODE *into_codes = (LANE_CODE *) block->other_codes + to * plan->pitch;
    const LANE *values = (const LANE *) block->values + later * plan->pitch + shift;
    const LANE_CODE *later_codes = (const LANE_CODE *) block->codes + later * plan->pitch + shift;
    const ptrdiff_t count = block->length - shift;
#if LANE_IS_ODD
    if (rule != SEPARABLE_NUMBERS) {
        (form == SEPARABLE_VALUES ? (rule == SEPARABLE_OMIT ? OF(cunpool_combine_values_omitting)
                                     : OF(cunpool_combine_values_propagating))
         : rule == SEPARABLE_OMIT ? OF(cunpool_combine_codes_omitting) : OF(cunpool_combine_codes_propagating))(
            into, into_codes, (const LANE *) best, (const LANE_CODE *) codes, values, later_codes, (LANE_CODE) add, count,
            plan->infinity);
        return;
    }
#endif
    (void) rule;
    (form == SEPARABLE_VALUES ? OF(cunpool_combine_values) : form == SEPARABLE_FIRST ? OF(cunpool_combine_first)
     : form == SEPARABLE_FRESH ? OF(cunpool_combine_fresh) : OF(cunpool_combine_codes))(
        into, into_codes, (const LANE *) best, (const LANE_CODE *) codes, values, later_codes, (LANE_CODE) add, count,
        plan->infinity);
}

/* Reduce an axis: combine lattices `to`, `to + apart`, `to + 2 * apart` and so on into lattice `to` of the other
   buffers. */
static void OF(cunpool_reduce_taps)(const cunpool_separable *plan, const cunpool_separable_block *block, int axis,
                                    ptrdiff_t to, ptrdiff_t apart, int form, int rule) {
    const cunpool_axis *a = &plan->axis[axis];
    const ptrdiff_t at = to * plan->pitch;
    const char *best = block->values + at * (ptrdiff_t) sizeof(LANE);
    const char *codes = block->codes + at * (ptrdiff_t) sizeof(LANE_CODE);
    ptrdiff_t tap;
    for (tap = 1; tap < a->kernel; tap++) {
        OF(cunpool_combine_lattices)(plan, block, to, best, codes, to + tap % a->lattices * apart,
                                     tap * a->dilation / a->lattice_step * block->distance[axis], tap * a->code_step,
                                     form, rule);
        best = block->other_values + at * (ptrdiff_t) sizeof(LANE);
        codes = block->other_codes + at * (ptrdiff_t) sizeof(LANE_CODE);
        form = form == SEPARABLE_FIRST ? SEPARABLE_FRESH : form;
    }
}

/* Reduce an axis with one lattice: 1, 2, 4 and so on neighbours at a time, in all lattices of the other axes. */
static void OF(cunpool_reduce_doubling)(const cunpool_separable *plan, cunpool_separable_block *block, int axis,
                                        ptrdiff_t lattices, int form, int rule) {
    const cunpool_axis *a = &plan->axis[axis];
    ptrdiff_t reached, shift, lattice, at;
    for (reached = 1; reached < a->kernel; reached += shift) {
        shift = reached < a->kernel - reached ? reached : a->kernel - reached;
        for (lattice = 0; lattice < lattices; lattice++) {
            at = lattice * plan->pitch;
            OF(cunpool_combine_lattices)(plan, block, lattice, block->values + at * (ptrdiff_t) sizeof(LANE),
                                         block->codes + at * (ptrdiff_t) sizeof(LANE_CODE), lattice,
                                         shift * a->dilation * block->distance[axis], shift * a->code_step, form, rule);
        }
        cunpool_separable_swap(block);
        form = form == SEPARABLE_FIRST ? SEPARABLE_CODES : form;
    }
}

/* Reduce all axes of a block: the maxima are in lattice 0 of `values`. */
static void OF(cunpool_reduce)(const cunpool_separable *plan, cunpool_separable_block *block) {
    ptrdiff_t lattices = plan->lattices, lattice;
    int form = plan->indices ? SEPARABLE_FIRST : SEPARABLE_VALUES, rule = OF(cunpool_prepare)(plan, block), last, axis;
    if (rule == SEPARABLE_OMIT) {   /* the padding would win against NaN */
        block->outside = plan->nan;
        cunpool_separable_pack(plan, block);
        OF(cunpool_prepare)(plan, block);
    }
    if (form == SEPARABLE_FIRST && (rule != SEPARABLE_NUMBERS || plan->is_single)) {
        memset(block->codes, 0, (size_t) (lattices * plan->pitch) * sizeof(LANE_CODE));
        form = SEPARABLE_CODES;
    }
    for (last = 2; last >= 0; last--) {
        const cunpool_axis *a = &plan->axis[axis = plan->raster_axes[last]];
        lattices /= a->lattices;
        if (a->kernel == 1)
            continue;
        if (a->doubles)
            OF(cunpool_reduce_doubling)(plan, block, axis, lattices, form, rule);
        else {
            for (lattice = 0; lattice < lattices; lattice++)
                OF(cunpool_reduce_taps)(plan, block, axis, lattice, lattices, form, rule);
            cunpool_separable_swap(block);
        }
        form = form == SEPARABLE_FIRST ? SEPARABLE_CODES : form;
    }
#if LANE_IS_HALF
    OF(cunpool_exchange_keys)((LANE *) block->values, block->length, plan->magnitude);
#endif
    cunpool_flip((int) sizeof(LANE), block->values, block->length, plan->flip);
}

#undef OF
#undef LANE_JOIN
#undef LANE_JOIN_
#undef LANE
#undef LANE_CODE
#undef LANE_NAME
#undef LANE_IS_ODD
