# Filter, along the rows of the stage: neighbours are combined, of all rows at once.
from cunpool._kernels.common.checks cimport assert_in_block
from cunpool._kernels.common.geometry cimport Geometry
from cunpool._kernels.common.pack cimport pack_row
from cunpool._kernels.pooling.filter_rows cimport best_of_runs
from cunpool._kernels.pooling.separable cimport passes, Separable

cdef enum:
    DIRECT_TAPS = 5     # Up to as many taps are combined at once, without a stride. (speed: 512 x 512, 5 x 5, 7 x 7)


cdef inline Py_ssize_t runs_of_pass(Py_ssize_t taps) noexcept nogil:
    """How many runs each pass combines, 2 to 4: as few as reach all taps in the fewest passes."""
    cdef Py_ssize_t runs = 4
    while runs > 2 and passes(taps, runs - 1) == passes(taps, 4):
        runs -= 1
    return runs


cdef inline void combine_columns(const Geometry *g, const Separable *blocks, Py_ssize_t unit, Py_ssize_t stride,
                                 bint is_direct, Py_ssize_t elements, char **stage, char **other) noexcept nogil:
    """Combine the taps along all rows of the stage, `elements` together: all at once, or running maxima of up to four
    times as many neighbours in each pass. Then every `stride`-th unit stays. The results are in `stage`, which is the
    other half then if they were stored there."""
    cdef Py_ssize_t size = blocks.item_bytes, taps = g.kernel[2], reached = 1, next
    cdef Py_ssize_t most = taps if is_direct else runs_of_pass(taps)
    cdef const char *runs[DIRECT_TAPS]
    cdef int count
    assert_in_block(most <= DIRECT_TAPS)
    while reached < taps:
        next = min(taps, most * reached)
        count = 0
        while count * reached < next:
            runs[count] = stage[0] + min(count * reached, next - reached) * g.dilation[2] * unit * size
            count += 1
        reached = next
        best_of_runs(blocks, runs, count, other[0], elements - (reached - 1) * g.dilation[2] * unit, True)
        stage[0], other[0] = other[0], stage[0]
    if stride > 1:
        pack_row(blocks.item_bytes, other[0], stage[0], stride * unit * size, elements // (stride * unit), unit)
        stage[0], other[0] = other[0], stage[0]
