# Window codes of a block, as wide as a lane and contiguous, from given codes or from indices.
from libc.stdint cimport int64_t, uint32_t

from cunpool._kernels.common.types cimport index, item1, lane, void_inline, void_wide
from cunpool._kernels.unpooling.fill_plan cimport FillPlan


cdef inline void_wide widen_codes(const item1 *given, Py_ssize_t count, Py_ssize_t taps, lane *codes,
                                  bint *has_outside) noexcept nogil:
    """Widen codes to lanes."""
    cdef item1 largest = 0
    cdef Py_ssize_t i
    for i in range(count):
        codes[i] = given[i]
        largest = max(largest, given[i])
    if largest >= taps:
        has_outside[0] = True


cdef inline void_inline codes_of_indices(int line_count, const index *given, const uint32_t *relative, Py_ssize_t count,
                                         uint32_t base, const uint32_t *line_first, uint32_t line_taps, lane *codes,
                                         bint *has_outside) noexcept nogil:
    """The codes of indices. The first index of window i is `base + relative[i]`."""
    cdef uint32_t relative_index, tap, code, outside_bits = 0
    cdef index seen = 0
    cdef Py_ssize_t i
    cdef int line
    for i in range(count):
        relative_index = <uint32_t> given[i] - base - relative[i]
        code = 0xFFFFFFFF
        for line in range(line_count):
            tap = relative_index - line_first[line]
            # An index lies in one line at most. A mask, because conditions do not always vectorise.
            code &= (line * line_taps + tap) | -<uint32_t> (tap >= line_taps)
        codes[i] = <lane> code
        outside_bits |= code
        seen |= given[i]
    if outside_bits > 0xFFFF or seen < 0 or <int64_t> seen > 0x7FFFFFFF:
        has_outside[0] = True


cdef inline void_wide convert_indices(const FillPlan *plan, const index *given, const uint32_t *relative,
                                      Py_ssize_t count, uint32_t base, lane *codes, bint *has_outside) noexcept nogil:
    """`codes_of_indices`, compiled apart for windows of 1 to FILL_MAX_INDEX_LINES lines."""
    if plan.line_count == 1:
        codes_of_indices(1, given, relative, count, base, plan.line_first, plan.line_taps, codes, has_outside)
    elif plan.line_count == 2:
        codes_of_indices(2, given, relative, count, base, plan.line_first, plan.line_taps, codes, has_outside)
    elif plan.line_count == 3:
        codes_of_indices(3, given, relative, count, base, plan.line_first, plan.line_taps, codes, has_outside)
    else:
        codes_of_indices(4, given, relative, count, base, plan.line_first, plan.line_taps, codes, has_outside)
