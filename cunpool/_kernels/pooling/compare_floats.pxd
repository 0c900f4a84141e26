# float32 compared in whole vectors, without a check of each element for NaN. If there was a NaN, the results are worth
# nothing, and the windows are compared as other types are. With AVX-512 also float64, in windows of 2 in two rows.
# (size)
from libc.stdint cimport int32_t

cdef extern from "_kernels/pooling/compare_floats.h":
    enum:
        FLOAT_TAPS "CUNPOOL_FLOAT_TAPS"
    int compare_floats "cunpool_compare_floats"(
        int tap_count, const char **elements, const int32_t *offsets, Py_ssize_t windows, Py_ssize_t next,
        Py_ssize_t next_offset, Py_ssize_t pitch, Py_ssize_t lines, void *best, int32_t *offset,
        bint is_minimum) noexcept nogil
    int compare_float_pairs "cunpool_compare_float_pairs"(
        int size, int rows, bint with_offsets, const char **row, Py_ssize_t step, const int32_t *offsets,
        Py_ssize_t lines, Py_ssize_t pitch, Py_ssize_t count, void *best, int32_t *offset,
        bint is_minimum) noexcept nogil

cdef enum:
    NAN_BACKOFF_CALLS = 16  # calls after one with a NaN that expect NaN (speed)


cdef inline bint expects_no_nan(int *nan_backoff) noexcept nogil:
    """Whether a call expects no NaN. Each call that expects one brings the next trial nearer."""
    if nan_backoff[0] == 0:
        return True
    nan_backoff[0] -= 1
    return False


cdef inline bint has_no_nan(int outcome, int *nan_backoff) noexcept nogil:
    """Whether the results are right: vectors served the call, and there was no NaN. Else the next calls expect NaN."""
    if outcome < 0:
        nan_backoff[0] = NAN_BACKOFF_CALLS
    return outcome > 0
