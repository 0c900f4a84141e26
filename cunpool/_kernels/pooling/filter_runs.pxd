# Filter's work on runs, which are elements that follow each other in memory.
from cunpool._kernels.common.caches cimport cunpool_copy
from cunpool._kernels.common.types cimport void_wide
from cunpool._kernels.pooling.separable cimport Separable

cdef extern from "_kernels/pooling/filter_runs.h":
    enum:
        MAX_RUNS "FILTER_MAX_RUNS"
        VECTOR_BYTES "CUNPOOL_VECTOR_BYTES"
    void best_of_runs "cunpool_best_of_runs"(const Separable *blocks, const char **runs, int count, char *to,
                                             Py_ssize_t elements, bint are_readable) noexcept nogil
    bint has_odd_elements "cunpool_has_odd_elements"(const Separable *blocks, const char *elements,
                                                     Py_ssize_t count) noexcept nogil


cdef inline void_wide copy_rows(char *into, Py_ssize_t into_step, const char *rows, Py_ssize_t step,
                                Py_ssize_t count, Py_ssize_t size) noexcept nogil:
    """Copy some rows, as one if they follow each other."""
    cdef Py_ssize_t row
    if into_step == size and step == size:
        size *= count
        count = 1
    for row in range(count):
        cunpool_copy(into + row * into_step, rows + row * step, size)
