# Floats in windows 3 wide and up to three rows high, without indices: held against each other in registers, where they
# lie, without looking at each for a NaN (`_floats.pxd`).
from libc.stdint cimport uint64_t

cdef extern from "_kernels/pooling/threes.h":
    enum:
        HELD_ROWS "CUNPOOL_ROWS"
    int held_threes "cunpool_held_threes"(int stride, const char **row, Py_ssize_t step, Py_ssize_t ahead,
                                           Py_ssize_t lines, Py_ssize_t cells, Py_ssize_t before, Py_ssize_t windows,
                                           char *best, Py_ssize_t pitch, uint64_t flip) noexcept nogil
