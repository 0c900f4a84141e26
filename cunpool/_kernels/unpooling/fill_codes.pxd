# What windows that are spread are known by: the codes of their cells, one after the other, from codes or from places.
from libc.stdint cimport int64_t, uint32_t

from cunpool._kernels.common.types cimport index, index4, index8, item1, void_inline, void_wide
from cunpool._kernels.unpooling.fill_plan cimport Spread
from cunpool._kernels.unpooling.fill_select cimport part

cdef enum:
    WIDENED = 64            # codes in the widest vector


cdef inline void_wide fill_codes(const item1 *given, Py_ssize_t count, Py_ssize_t cells, part *codes,
                                 bint *wrong) noexcept nogil:
    """Codes as wide as a part, in whole vectors, of which the last one is done again."""
    cdef item1 largest = 0
    cdef Py_ssize_t left = count % WIDENED if count > WIDENED else 0, some = count - left, i
    while True:
        for i in range(some):
            codes[i] = given[i]
            largest = max(largest, given[i])
        if not left:
            break
        left = count - WIDENED
        given += left
        codes += left
        some = WIDENED
        left = 0
    if largest >= cells:
        wrong[0] = True


cdef inline void_inline code_places(int stretches, const index *given, const uint32_t *ramp, Py_ssize_t count,
                                    uint32_t base, const uint32_t *first, uint32_t wide, part *codes,
                                    bint *wrong) noexcept nogil:
    """The codes of places, counted from `base` and from what the `ramp` says of each window."""
    cdef uint32_t place, cell, code, none = 0
    cdef index seen = 0
    cdef Py_ssize_t i
    cdef int stretch
    for i in range(count):
        place = <uint32_t> given[i] - base - ramp[i]
        code = 0xFFFFFFFF
        for stretch in range(stretches):
            cell = place - first[stretch]
            # A place lies in one stretch at most; a mask, because conditions do not always vectorise.
            code &= (stretch * wide + cell) | -<uint32_t> (cell >= wide)
        codes[i] = <part> code
        none |= code
        seen |= given[i]
    if none > 0xFFFF or seen < 0 or <int64_t> seen > 0x7FFFFFFF:
        wrong[0] = True


cdef inline void_wide fill_from_places(const Spread *way, const index *given, const uint32_t *ramp,
                                       Py_ssize_t count, uint32_t base, part *codes,
                                       bint *wrong) noexcept nogil:
    """`code_places`, compiled apart for windows of few stretches."""
    if way.stretches == 1:
        code_places(1, given, ramp, count, base, way.first, way.wide, codes, wrong)
    elif way.stretches == 2:
        code_places(2, given, ramp, count, base, way.first, way.wide, codes, wrong)
    elif way.stretches == 3:
        code_places(3, given, ramp, count, base, way.first, way.wide, codes, wrong)
    elif way.stretches == 4:
        code_places(4, given, ramp, count, base, way.first, way.wide, codes, wrong)
    else:
        code_places(way.stretches, given, ramp, count, base, way.first, way.wide, codes, wrong)


cdef inline void fill(const Spread *way, const char *given, int code_size, Py_ssize_t cells, const uint32_t *ramp,
                      Py_ssize_t count, uint32_t base, part *codes, bint *wrong) noexcept nogil:
    """The codes of so many windows of some `cells`, by what was given: codes, or places."""
    if code_size:
        fill_codes(<const item1 *> given, count, cells, codes, wrong)
    elif way.index_size == 4:
        fill_from_places(way, <const index4 *> given, ramp, count, base, codes, wrong)
    else:
        fill_from_places(way, <const index8 *> given, ramp, count, base, codes, wrong)


cdef inline void twice(part *codes, Py_ssize_t count) noexcept nogil:
    """Each code for the two parts of an entry."""
    cdef Py_ssize_t i
    for i in range(count - 1, -1, -1):
        codes[2 * i] = codes[2 * i + 1] = codes[i]
