#pragma once

/* Runs, which are elements that follow each other in memory, and their maxima, element by element. Filter finds those
   of several runs; separable those of two, and the window codes of the maxima. The loops are in run_loops.h. */
#include "_kernels/pooling/simd.h"

/* How elements are compared. */
typedef struct {
    int bytes, is_float;    /* of an element as it is compared, which is as wide as its code */
    int infinity;           /* of 16-bit floats, as bits */
    int omits_nan;
    uint64_t flip;          /* bits that are inverted while elements are compared */
} cunpool_comparison;

/* Two runs of elements, where the second is later in raster order, and where their maxima go. Codes are as wide as the
   elements; those of the second run grow by `add`. */
typedef struct {
    char *to, *to_code;
    const char *best, *code, *later, *later_code;
    int64_t add;
    ptrdiff_t count;
} cunpool_runs;

/* Codes of two runs that are combined, and what is read of them. */
enum {
    RUN_VALUES,     /* no codes are read, and none are stored */
    RUN_FIRST,      /* none are read, because all are 0 */
    RUN_FRESH,      /* those of the first run, because those of the second are 0 */
    RUN_CODES       /* those of both runs */
};

enum {
    MAX_RUNS = 32,          /* whose maxima are found without codes, at most (size of an array) */
    RUNS_AT_ONCE = 4        /* that a loop compares with the maxima so far (speed: 5 x 5) */
};

#define SIMD_LOOPS "_kernels/pooling/run_loops.h"
#include "_kernels/pooling/simd_types.h"

/* Make elements comparable. Returns whether there is a NaN among them, or a negative zero of 16 bits. */
static int cunpool_prepare(const cunpool_comparison *how, char *elements, ptrdiff_t count) {
    return SIMD_OF_TYPE(prepare, how->bytes, how->is_float)(elements, count, *how);
}

static void cunpool_restore(const cunpool_comparison *how, char *elements, ptrdiff_t count) {
    SIMD_OF_TYPE(restore, how->bytes, how->is_float)(elements, count, *how);
}

static void cunpool_combine(const cunpool_comparison *how, const cunpool_runs *runs, int form, int careful) {
    SIMD_OF_TYPE(combine, how->bytes, how->is_float)(runs, *how, form, careful);
}

static void cunpool_best_of_vectors(const cunpool_comparison *how, const char **runs, int count, char *to,
                                    ptrdiff_t elements) {
    const char *first = runs[0];
    int done, some;
    for (done = 1; done < count; done += some) {
        some = count - done < RUNS_AT_ONCE ? count - done : RUNS_AT_ONCE;
        SIMD_OF_TYPE(best, how->bytes, how->is_float)(first, runs + done, some, to, elements, how->flip);
        first = to;
    }
}

/* Runs shorter than a vector, behind which nothing may be read: they are copied. */
static CUNPOOL_NOINLINE void cunpool_best_of_few(const cunpool_comparison *how, const char **runs, int count, char *to,
                                                 ptrdiff_t elements) {
    char room[MAX_RUNS][CUNPOOL_VECTOR_BYTES];
    const char *copies[MAX_RUNS];
    const size_t bytes = (size_t) (elements * how->bytes);
    int k;
    memset(room, 0, (size_t) count * CUNPOOL_VECTOR_BYTES);
    for (k = 0; k < count; k++)
        copies[k] = memcpy(room[k], runs[k], bytes);
    cunpool_best_of_vectors(how, copies, count, room[0], elements);
    memcpy(to, room[0], bytes);
}

/* The highest of some runs, element by element, in `to`, which may be one of the first five. Whether vectors are
   readable: then shorter runs are read, and `to` is written, up to the end of a vector. */
static inline void cunpool_best_of_runs(const cunpool_comparison *how, const char **runs, int count, char *to,
                                        ptrdiff_t elements, int are_readable) {
    if (count == 1)
        memmove(to, runs[0], (size_t) (elements * how->bytes));
    else if (!are_readable && elements * how->bytes < CUNPOOL_VECTOR_BYTES)
        cunpool_best_of_few(how, runs, count, to, elements);
    else
        cunpool_best_of_vectors(how, runs, count, to, elements);
}

/* Whether there is a NaN or a negative zero among some elements. */
static inline int cunpool_has_odd_elements(const cunpool_comparison *how, const char *elements, ptrdiff_t count) {
    char room[CUNPOOL_VECTOR_BYTES] = {0};
    if (count * how->bytes < CUNPOOL_VECTOR_BYTES) {
        elements = memcpy(room, elements, (size_t) (count * how->bytes));
        count = CUNPOOL_VECTOR_BYTES / how->bytes;
    }
    return (how->bytes == 2 ? has_odd_half : how->bytes == 4 ? has_odd_float4 : has_odd_float8)(
        elements, count, how->infinity);
}
