# Rows of elements are packed, that is copied to rows without gaps, or scattered, which is the reverse, or filled.
from libc.stdint cimport uint64_t

cdef extern from "_kernels/common/pack.h":
    ctypedef struct PackedRows "cunpool_rows":
        Py_ssize_t unit_bytes, row_bytes, units, rows, unit, has_gaps
    void pack_row "cunpool_pack_row"(int size, char *to, const char *source, Py_ssize_t bytes, Py_ssize_t count,
                                     Py_ssize_t unit) noexcept nogil
    void pack_rows "cunpool_pack_rows"(int size, char *to, Py_ssize_t pitch, const char *source,
                                       const PackedRows *rows) noexcept nogil
    void scatter "cunpool_scatter"(int size, char *to, Py_ssize_t to_bytes, const char *source,
                                   Py_ssize_t count) noexcept nogil
    void fill "cunpool_fill"(int size, char *to, Py_ssize_t count, uint64_t bits) noexcept nogil
