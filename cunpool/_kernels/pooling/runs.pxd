# Runs, which are elements that follow each other in memory: `runs.h` describes them.
from libc.stdint cimport int64_t, uint64_t

cdef extern from "_kernels/pooling/runs.h":
    enum:
        MAX_RUNS, RUN_CODES, RUN_FIRST, RUN_FRESH, RUN_VALUES
        VECTOR_BYTES "CUNPOOL_VECTOR_BYTES"
    ctypedef struct Comparison "cunpool_comparison":
        int bytes, infinity
        bint is_float, omits_nan
        uint64_t flip
    ctypedef struct Runs "cunpool_runs":
        char *to
        char *to_code
        const char *best
        const char *code
        const char *later
        const char *later_code
        int64_t add
        Py_ssize_t count
    bint prepare "cunpool_prepare"(const Comparison *how, char *elements, Py_ssize_t count) noexcept nogil
    void restore "cunpool_restore"(const Comparison *how, char *elements, Py_ssize_t count) noexcept nogil
    void combine "cunpool_combine"(const Comparison *how, const Runs *runs, int form, bint careful) noexcept nogil
    void best_of_runs "cunpool_best_of_runs"(const Comparison *how, const char **runs, int count, char *to,
                                             Py_ssize_t elements, bint are_readable) noexcept nogil
    bint has_odd_elements "cunpool_has_odd_elements"(const Comparison *how, const char *elements,
                                                     Py_ssize_t count) noexcept nogil
