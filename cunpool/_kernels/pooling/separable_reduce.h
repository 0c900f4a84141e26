/* Separable pooling: the axes of a block are reduced, one after the other. The loops are in separable_loops.h. */

/* Codes of two runs that are combined, and what is read of them. */
enum {
    SEPARABLE_VALUES,   /* no codes are read, and none are stored */
    SEPARABLE_FIRST,    /* none are read, because all are 0 */
    SEPARABLE_FRESH,    /* those of the first run, because those of the second are 0 */
    SEPARABLE_CODES     /* those of both runs */
};

/* Two runs of elements, where the second is later in raster order, and where their maxima go. Codes are as wide as the
   elements; those of the second run grow by `add`. */
typedef struct {
    char *to, *to_code;
    const char *best, *code, *later, *later_code;
    int64_t add;
    ptrdiff_t count;
    int omits_nan, infinity;
} cunpool_runs;

#define SIMD_LOOPS "_kernels/pooling/separable_loops.h"
#include "_kernels/pooling/simd_types.h"

/* How a block is reduced. */
typedef struct {
    const cunpool_separable *plan;
    cunpool_separable_block *block;
    void (*combine)(const cunpool_runs *runs, int form, int careful);
    int form;
    int careful;                /* whether the block has a NaN, or a negative zero of 16 bits */
} cunpool_reduction;

static CUNPOOL_INLINE void cunpool_separable_swap(cunpool_separable_block *block) {
    char *values = block->values, *codes = block->codes;
    block->values = block->other_values, block->codes = block->other_codes;
    block->other_values = values, block->other_codes = codes;
}

/* Bytes become integers of 16 bits, in the other buffer. (windows of more than 256 elements, whose codes need them) */
static CUNPOOL_WIDE void cunpool_separable_widen(const cunpool_separable *plan, cunpool_separable_block *block) {
    ptrdiff_t i;
    for (i = 0; i < plan->lattices * plan->pitch; i++)
        ((int16_t *) block->other_values)[i] = ((const uint8_t *) block->values)[i];
    cunpool_separable_swap(block);
}

static CUNPOOL_WIDE void cunpool_separable_narrow(cunpool_separable_block *block) {
    ptrdiff_t i;
    for (i = 0; i < block->length; i++)
        ((uint8_t *) block->other_values)[i] = (uint8_t) ((const int16_t *) block->values)[i];
    memcpy(block->values, block->other_values, (size_t) block->length);
}

/* Combine element i of a run with element i + shift of lattice `later`, into lattice `to` of the other buffers. */
static void cunpool_combine_lattices(const cunpool_reduction *r, ptrdiff_t to, const char *best, const char *code,
                                     ptrdiff_t later, ptrdiff_t shift, ptrdiff_t add, int form) {
    const cunpool_separable *plan = r->plan;
    const cunpool_separable_block *block = r->block;
    const ptrdiff_t size = plan->lane_bytes, into = to * plan->pitch * size;
    const ptrdiff_t from = (later * plan->pitch + shift) * size;
    const cunpool_runs runs = {block->other_values + into, block->other_codes + into, best, code, block->values + from,
                               block->codes + from, add, block->length - shift, plan->omits_nan, plan->infinity};
    r->combine(&runs, form, r->careful);
}

/* Reduce an axis: combine lattices `to`, `to + apart`, `to + 2 * apart` and so on into lattice `to` of the other
   buffers. */
static void cunpool_reduce_taps(const cunpool_reduction *r, int axis, ptrdiff_t to, ptrdiff_t apart) {
    const cunpool_axis *a = &r->plan->axis[axis];
    const ptrdiff_t at = to * r->plan->pitch * r->plan->lane_bytes;
    const char *best = r->block->values + at, *code = r->block->codes + at;
    ptrdiff_t tap;
    int form = r->form;
    for (tap = 1; tap < a->kernel; tap++) {
        cunpool_combine_lattices(r, to, best, code, to + tap % a->lattices * apart,
                                 tap * a->dilation / a->lattice_step * r->block->distance[axis], tap * a->code_step,
                                 form);
        best = r->block->other_values + at;
        code = r->block->other_codes + at;
        form = form == SEPARABLE_FIRST ? SEPARABLE_FRESH : form;
    }
}

/* Reduce an axis with one lattice: 1, 2, 4 and so on neighbours at a time, in all lattices of the other axes. */
static void cunpool_reduce_doubling(const cunpool_reduction *r, int axis, ptrdiff_t lattices) {
    const cunpool_axis *a = &r->plan->axis[axis];
    ptrdiff_t reached, shift, lattice, at;
    int form = r->form;
    for (reached = 1; reached < a->kernel; reached += shift) {
        shift = reached < a->kernel - reached ? reached : a->kernel - reached;
        for (lattice = 0; lattice < lattices; lattice++) {
            at = lattice * r->plan->pitch * r->plan->lane_bytes;
            cunpool_combine_lattices(r, lattice, r->block->values + at, r->block->codes + at, lattice,
                                     shift * a->dilation * r->block->distance[axis], shift * a->code_step, form);
        }
        cunpool_separable_swap(r->block);
        form = form == SEPARABLE_FIRST ? SEPARABLE_CODES : form;
    }
}

/* Make all elements of a block comparable. Returns whether there are odd ones. */
static int cunpool_separable_prepare(const cunpool_separable *plan, cunpool_separable_block *block) {
    const ptrdiff_t bytes = plan->pitch * plan->lane_bytes, end = block->length * plan->lane_bytes;
    int is_odd = 0;
    ptrdiff_t lattice;
    if (plan->lane_bytes > plan->item_bytes)
        cunpool_separable_widen(plan, block);
    if (!plan->is_float && !plan->flip)
        return 0;
    for (lattice = 0; lattice < plan->lattices; lattice++) {
        /* What follows in the last vector is not odd. */
        memset(block->values + lattice * bytes + end, 0, (size_t) (-end & (CUNPOOL_VECTOR_BYTES - 1)));
        is_odd |= SIMD_OF_TYPE(prepare, plan->lane_bytes, plan->is_float)(
            block->values + lattice * bytes, block->length, plan->flip, plan->infinity);
    }
    return is_odd;
}

/* Reduce all axes of a block: the maxima are in lattice 0 of `values`. */
static void cunpool_separable_reduce(const cunpool_separable *plan, cunpool_separable_block *block, int careful) {
    cunpool_reduction r = {plan, block, SIMD_OF_TYPE(combine, plan->lane_bytes, plan->is_float),
                           plan->indices ? SEPARABLE_FIRST : SEPARABLE_VALUES, careful};
    ptrdiff_t lattices = plan->lattices, lattice;
    int last, axis;
    /* Windows of a single element are not combined. */
    if (r.form == SEPARABLE_FIRST && (careful || plan->axis[0].kernel * plan->axis[0].code_step == 1)) {
        memset(block->codes, 0, (size_t) (lattices * plan->pitch * plan->lane_bytes));
        r.form = SEPARABLE_CODES;
    }
    for (last = 2; last >= 0; last--) {
        const cunpool_axis *a = &plan->axis[axis = plan->raster_axes[last]];
        lattices /= a->lattices;
        if (a->kernel == 1)
            continue;
        if (a->doubles)
            cunpool_reduce_doubling(&r, axis, lattices);
        else {
            for (lattice = 0; lattice < lattices; lattice++)
                cunpool_reduce_taps(&r, axis, lattice, lattices);
            cunpool_separable_swap(block);
        }
        r.form = r.form == SEPARABLE_FIRST ? SEPARABLE_CODES : r.form;
    }
    if (plan->flip || (plan->is_float && plan->lane_bytes == 2))
        SIMD_OF_TYPE(restore, plan->lane_bytes, plan->is_float)(block->values, block->length, plan->flip);
    if (plan->lane_bytes > plan->item_bytes)
        cunpool_separable_narrow(block);
}
