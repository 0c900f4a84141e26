#pragma once

/* Filter's work on runs, which are elements that follow each other in memory. The loops are in filter_loops.h. */
#include "_kernels/pooling/separable_plan.h"
#include "_kernels/pooling/simd.h"

enum {
    FILTER_MAX_RUNS = 32,       /* that are combined, at most (size of an array) */
    FILTER_RUNS_AT_ONCE = 4     /* that a loop combines with the maxima so far (speed: 5 x 5) */
};

#define SIMD_LOOPS "_kernels/pooling/filter_loops.h"
#include "_kernels/pooling/simd_types.h"

static void cunpool_best_of_vectors(const cunpool_separable *plan, const char **runs, int count, char *to,
                                    ptrdiff_t elements) {
    void (*const best)(const char *, const char **, int, char *, ptrdiff_t, uint64_t) =
        SIMD_OF_TYPE(best, plan->item_bytes, plan->is_float);
    const char *first = runs[0];
    int done, some;
    for (done = 1; done < count; done += some) {
        some = count - done < FILTER_RUNS_AT_ONCE ? count - done : FILTER_RUNS_AT_ONCE;
        best(first, runs + done, some, to, elements, plan->flip);
        first = to;
    }
}

/* Runs shorter than a vector, behind which nothing may be read: they are copied. */
static CUNPOOL_NOINLINE void cunpool_best_of_few(const cunpool_separable *plan, const char **runs, int count, char *to,
                                                 ptrdiff_t elements) {
    char room[FILTER_MAX_RUNS][CUNPOOL_VECTOR_BYTES];
    const char *copies[FILTER_MAX_RUNS];
    const size_t bytes = (size_t) (elements * plan->item_bytes);
    int k;
    memset(room, 0, (size_t) count * CUNPOOL_VECTOR_BYTES);
    for (k = 0; k < count; k++)
        copies[k] = memcpy(room[k], runs[k], bytes);
    cunpool_best_of_vectors(plan, copies, count, room[0], elements);
    memcpy(to, room[0], bytes);
}

/* The highest of some runs, element by element, in `to`, which may be one of the first five. Whether vectors are
   readable: then shorter runs are read, and `to` is written, up to the end of a vector. */
static inline void cunpool_best_of_runs(const cunpool_separable *plan, const char **runs, int count, char *to,
                                        ptrdiff_t elements, int are_readable) {
    if (count == 1)
        memcpy(to, runs[0], (size_t) (elements * plan->item_bytes));
    else if (!are_readable && elements * plan->item_bytes < CUNPOOL_VECTOR_BYTES)
        cunpool_best_of_few(plan, runs, count, to, elements);
    else
        cunpool_best_of_vectors(plan, runs, count, to, elements);
}

/* Whether there is a NaN or a negative zero among some elements. */
static inline int cunpool_has_odd_elements(const cunpool_separable *plan, const char *elements, ptrdiff_t count) {
    char room[CUNPOOL_VECTOR_BYTES] = {0};
    if (count * plan->item_bytes < CUNPOOL_VECTOR_BYTES) {
        elements = memcpy(room, elements, (size_t) (count * plan->item_bytes));
        count = CUNPOOL_VECTOR_BYTES / plan->item_bytes;
    }
    return (plan->item_bytes == 2 ? has_odd_half : plan->item_bytes == 4 ? has_odd_float4 : has_odd_float8)(
        elements, count, plan->infinity);
}
