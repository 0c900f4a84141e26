# Floats held against each other in the longest vectors that the processor has, without looking at each for a NaN. If
# one was among them, what was found is worth nothing: then they are compared as all kinds of numbers are. Doubles the
# same with AVX-512, in windows of 2 that lie in two rows: others would make a larger wheel.
from libc.stdint cimport int32_t, uint64_t

cdef extern from "_kernels/pooling/floats.h":
    enum:
        LOOKS "CUNPOOL_LOOKS"
    int held "cunpool_held"(int looks, const char **cells, const int32_t *places, Py_ssize_t windows, Py_ssize_t next,
                             Py_ssize_t next_place, Py_ssize_t pitch, Py_ssize_t lines, void *best,
                             int32_t *place, uint64_t flip) noexcept nogil
    int held_twos "cunpool_held_twos"(int size, int rows, bint placed, const char **row, Py_ssize_t step,
                                       const int32_t *places, Py_ssize_t lines, Py_ssize_t pitch, Py_ssize_t count,
                                       void *best, int32_t *place, uint64_t flip) noexcept nogil

cdef enum:
    CAREFUL = 16            # calls behind one that met a NaN in which others are expected


cdef inline bint hopeful(int *careful) noexcept nogil:
    """Whether to try `held` or `held_twos`, or rather to be `careful`, once less from now on."""
    if careful[0] == 0:
        return True
    careful[0] -= 1
    return False


cdef inline bint done(int outcome, int *careful) noexcept nogil:
    """Whether `held` or `held_twos` did it; or else whether to be `careful` for a while, for they met a NaN."""
    if outcome < 0:
        careful[0] = CAREFUL
    return outcome > 0
