# Window codes decoded: each says which cell of its window is meant, and becomes a place in the plane.
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t
from libc.string cimport memset

from cunpool._kernels.common.arrays cimport raster_stride, View
from cunpool._kernels.common.caches cimport cunpool_copy
from cunpool._kernels.common.checks cimport assert_in_block, branch_counted
from cunpool._kernels.common.geometry cimport element_count, Geometry
from cunpool._kernels.common.job cimport are_full_planes_adjacent, Job
from cunpool._kernels.common.types cimport index4, index8, item1, item2, void_inline, void_noinline, void_wide

cdef enum:
    DECODED = 512           # codes that are decoded together at most,
    DECODED_AT_ONCE = 64    # and always so many of them, that no loop ends in part of a vector
    PLANES = 0              # the axes of a block
    WIDTH = 3
    SHIFT = 20              # of the products by which codes are divided


cdef struct Codes:
    # What is known of a call's window codes before its tasks begin.
    # Windows, per axis, whose codes are decoded together: some planes, some layers of one, some rows, or part of a row.
    Py_ssize_t together[4]
    Py_ssize_t end[4]       # and how many there are
    bint deep               # whether windows have layers, or lie beyond some
    bint far                # whether 32 bits are not enough for where a window's cells are: places have 64 then
    uint32_t per_row        # a code's row and layer are a quotient, that is a product and a shift
    uint32_t per_layer
    # Where the window of each code of a block begins, seen from the first of them: along each axis, and in raster order
    # from the first plane on. Where channels go together so many follow each other that have the same one.
    int32_t d[DECODED]
    int32_t h[DECODED]
    int32_t w[DECODED]
    int32_t place[DECODED]


cdef struct Block:
    # Windows whose codes are decoded together: the first of them, and how many along each axis.
    Py_ssize_t at[4]
    Py_ssize_t count[4]
    Py_ssize_t lanes        # codes of each of them, which are neighbours


cdef inline Py_ssize_t codes_in(const Block *block) noexcept nogil:
    return block.count[0] * block.count[1] * block.count[2] * block.count[3] * block.lanes


cdef inline Py_ssize_t whole_codes(Py_ssize_t count) noexcept nogil:
    return (count + DECODED_AT_ONCE - 1) // DECODED_AT_ONCE * DECODED_AT_ONCE


cdef inline bint reaches_far(const Geometry *g, bint deep) noexcept nogil:
    """Whether a window has cells, if only in the padding, that 32 bits are not enough for, or too many to divide."""
    cdef int64_t taps = element_count(g.kernel), row = g.kernel[2]
    cdef int axis
    for axis in range(3):
        # Padding is less than these together, for the array has cells.
        if (g.kernel[axis] - 1) * g.dilation[axis] >> 29 or g.pooled[axis] * g.stride[axis] >> 30:
            return True
    return (element_count(g.full) > 0x7FFFFFFF or g.kernel[0] * g.kernel[1] >> 32 - SHIFT
            or taps * (row * g.kernel[1] if deep else row) >> SHIFT)


cdef inline bint planes_follow(const Job *job) noexcept nogil:
    """Whether places can be counted from another plane's start, and the pooled planes are evenly apart as well."""
    return (branch_counted("full planes that follow each other", are_full_planes_adjacent(job))
            and branch_counted("pooled planes as far apart as the next", job.pooled.uniform_planes
                               and job.indices.uniform_planes))


cdef inline void expect_codes(const Job *job, Codes *codes) noexcept nogil:
    """Fill `codes`: how a call's window codes are decoded."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t size = element_count(g.full), lanes = min(job.interleaved_planes,
                                                              <Py_ssize_t> DECODED), left = DECODED // lanes
    cdef Py_ssize_t plane, d, h, w, i = 0
    cdef int axis
    codes.end = [job.batch * job.channels // job.interleaved_planes, g.pooled[0], g.pooled[1], g.pooled[2]]
    for axis in range(WIDTH, PLANES - 1, -1):
        codes.together[axis] = min(left, codes.end[axis])
        # Rows go together if they are whole, and so do layers; there may be none at all.
        left = left // codes.end[axis] if 0 < codes.end[axis] <= left and job.interleaved_planes == 1 else 1
    codes.deep = g.kernel[0] > 1 or g.padding[0] > 0 or (g.pooled[0] - 1) * g.stride[0] >= g.full[0]
    codes.far = branch_counted("windows that reach far", reaches_far(g, codes.deep))
    if codes.far or not planes_follow(job) or size * codes.together[PLANES] > 0x7FFFFFFF:
        codes.together[PLANES] = 1
    codes.per_row = <uint32_t> ((1 << SHIFT) // g.kernel[2] + 1)
    codes.per_layer = <uint32_t> ((1 << SHIFT) // (g.kernel[1] * g.kernel[2]) + 1)
    for plane in range(codes.together[PLANES]):
        for d in range(codes.together[1]):
            for h in range(codes.together[2]):
                for w in range(codes.together[WIDTH]):
                    for _ in range(lanes):
                        codes.d[i] = <int32_t> (d * g.stride[0])
                        codes.h[i] = <int32_t> (h * g.stride[1])
                        codes.w[i] = <int32_t> (w * g.stride[2])
                        codes.place[i] = <int32_t> (plane * size + (d * g.stride[0] * g.full[1] + h * g.stride[1])
                                                    * g.full[2] + w * g.stride[2])
                        i += 1
    for i in range(i, whole_codes(i)):
        codes.d[i] = codes.h[i] = codes.w[i] = codes.place[i] = 0


cdef inline Py_ssize_t parts_of(const Codes *codes, int axis) noexcept nogil:
    return (codes.end[axis] + codes.together[axis] - 1) // codes.together[axis]


cdef inline Py_ssize_t blocks_of(const Codes *codes) noexcept nogil:
    return parts_of(codes, 0) * parts_of(codes, 1) * parts_of(codes, 2) * parts_of(codes, 3)


cdef inline void find_block(const Job *job, Py_ssize_t number, Block *block) noexcept nogil:
    cdef const Codes *codes = <const Codes *> job.decoder
    cdef int axis
    block.lanes = job.interleaved_planes
    for axis in range(WIDTH, PLANES - 1, -1):
        block.at[axis] = number % parts_of(codes, axis) * codes.together[axis]
        block.count[axis] = min(codes.together[axis], codes.end[axis] - block.at[axis])
        number //= parts_of(codes, axis)


cdef inline void first_block(const Job *job, Py_ssize_t plane, Block *block) noexcept nogil:
    """The first windows of one plane, or of all lanes."""
    block.lanes = job.interleaved_planes
    block.at = [plane // job.interleaved_planes, 0, 0, 0]
    block.count = (<const Codes *> job.decoder).together
    block.count[PLANES] = 1


cdef inline void row_block(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w, Py_ssize_t count,
                           Block *block) noexcept nogil:
    """Some windows of a row."""
    block.lanes = job.interleaved_planes
    block.at = [plane // job.interleaved_planes, d, h, w]
    block.count = [1, 1, 1, count]


cdef inline void next_block(const Job *job, Block *block) noexcept nogil:
    """Go on with the windows behind these, in raster order."""
    cdef const Codes *codes = <const Codes *> job.decoder
    cdef int axis = WIDTH
    block.at[WIDTH] += block.count[WIDTH]
    while axis > PLANES and block.at[axis] == codes.end[axis]:
        block.at[axis] = 0
        block.count[axis] = codes.together[axis]
        axis -= 1
        block.at[axis] += block.count[axis]
    block.count[axis] = min(codes.together[axis], codes.end[axis] - block.at[axis])


cdef inline Py_ssize_t step_of(const View *view, const Block *block) noexcept nogil:
    """Bytes between neighbours of a block where that is the same for all of them, else 0."""
    cdef Py_ssize_t step = raster_stride(view, &block.count[1]), cells = element_count(&block.count[1])
    if block.count[PLANES] == 1:
        return step
    if cells == 1:
        return view.channel_bytes
    return step if view.channel_bytes == step * cells else 0


cdef inline Py_ssize_t rows_in(const Block *block) noexcept nogil:
    return block.count[PLANES] * block.count[1] * block.count[2]


cdef inline Py_ssize_t row_of(const View *view, const Block *block, Py_ssize_t row) noexcept nogil:
    """Bytes from the first row of a block to another."""
    cdef Py_ssize_t layer = row // block.count[2]
    return (layer // block.count[1] * view.channel_bytes + layer % block.count[1] * view.axis_bytes[0]
            + row % block.count[2] * view.axis_bytes[1])


cdef inline void collect_codes(const Job *job, const char *codes, const Block *block, char *into) noexcept nogil:
    """Copy the codes of a block one after the other."""
    cdef Py_ssize_t size = job.code_size, step = job.indices.axis_bytes[2]
    cdef Py_ssize_t lanes = block.lanes, width = block.count[WIDTH]
    cdef Py_ssize_t rows = rows_in(block), same = step_of(&job.indices, block) if lanes == 1 else 0, row, w
    cdef const char *first
    if same:
        step = same
        width *= rows
        rows = 1
    for row in range(rows):
        first = codes + row_of(&job.indices, block, row)
        if step == lanes * size:
            cunpool_copy(into, first, width * lanes * size)
        elif lanes > 1:
            for w in range(width):
                cunpool_copy(into + w * lanes * size, first + w * step, lanes * size)
        elif size == 1:
            for w in range(width):
                into[w] = first[w * step]
        else:
            for w in range(width):
                (<item2 *> into)[w] = (<const item2 *> (first + w * step))[0]
        into += width * lanes * size


cdef inline void_inline decode_vectors(bint deep, const Geometry *g, const Codes *codes, const uint16_t *code,
                                       const int32_t *start, Py_ssize_t count, index4 *places,
                                       bint *all_there) noexcept nogil:
    """`decode_near` for windows that are `deep`, or not.

    All of it is unsigned: a code that names none may take a position past 32 bits, and then it wraps. That changes no
    result, for `outside` has its highest bit then, whatever the others are.
    """
    # Copies, because the compiler has to fear that writing results changes these.
    cdef uint32_t depth = <uint32_t> g.full[0], height = <uint32_t> g.full[1], width = <uint32_t> g.full[2]
    cdef uint32_t last = <uint32_t> element_count(g.kernel) - 1, rows = <uint32_t> g.kernel[1]
    cdef uint32_t step_d = <uint32_t> g.dilation[0], step_h = <uint32_t> g.dilation[1]
    cdef uint32_t step_w = <uint32_t> g.dilation[2]
    cdef uint32_t back_w = <uint32_t> g.kernel[2] * step_w, back_h = rows * step_h
    cdef uint32_t start_d = <uint32_t> start[0], start_h = <uint32_t> start[1], start_w = <uint32_t> start[2]
    cdef uint32_t base = (start_d * height + start_h) * width + start_w
    cdef uint32_t next_row = step_h * width - back_w, next_layer = (step_d * height - back_h) * width
    cdef uint32_t per_row = codes.per_row, per_layer = codes.per_layer
    cdef const int32_t *from_d = codes.d
    cdef const int32_t *from_h = codes.h
    cdef const int32_t *from_w = codes.w
    cdef const int32_t *from_place = codes.place
    cdef uint32_t row, layer, along, d, h, w, place, outside, any_outside = 0
    cdef int32_t i
    for i in range(<int32_t> whole_codes(count)):
        # Rows and layers are counted from the window's first one: layers of rows, and rows of cells, are taken back.
        row = code[i] * per_row >> SHIFT
        along = code[i] * step_w
        h = start_h + <uint32_t> from_h[i] + row * step_h
        w = start_w + <uint32_t> from_w[i] + along - row * back_w
        place = base + <uint32_t> from_place[i] + along + row * next_row
        outside = last - code[i]
        if deep:
            layer = code[i] * per_layer >> SHIFT
            h -= layer * back_h
            d = start_d + <uint32_t> from_d[i] + layer * step_d
            place += layer * next_layer
            outside |= d | (depth - 1 - d)
        # The highest bit of any of these, the sign of a signed number, says that the cell is beyond some side, or that
        # the window has no such cell.
        outside |= h | (height - 1 - h) | w | (width - 1 - w)
        places[i] = <index4> (place | -(outside >> 31))
        any_outside |= outside & <uint32_t> (i - <int32_t> count)
    all_there[0] = any_outside >> 31 == 0


cdef inline void_wide decode_near(const Geometry *g, const Codes *codes, const char *collected, int code_size,
                                  const int32_t *start, Py_ssize_t count, index4 *places,
                                  bint *all_there) noexcept nogil:
    """The places of some codes, and of as many more as fill a vector; -1 for those that name none."""
    cdef uint16_t code[DECODED]
    cdef Py_ssize_t i
    if code_size == 1:
        for i in range(whole_codes(count)):
            code[i] = (<const item1 *> collected)[i]
    else:
        for i in range(whole_codes(count)):
            code[i] = (<const item2 *> collected)[i]
    if codes.deep:
        decode_vectors(True, g, codes, code, start, count, places, all_there)
    else:
        decode_vectors(False, g, codes, code, start, count, places, all_there)


cdef inline void decode_far(const Job *job, const char *collected, const Block *block, index8 *places) noexcept nogil:
    """`decode` one by one, for the rare windows that reach so far that 32 bits are not enough."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t count = codes_in(block), i, code, window, d, h, w
    for i in range(count):
        code = (<const item1 *> collected)[i] if job.code_size == 1 else (<const item2 *> collected)[i]
        window = i // block.lanes
        w = block.at[3] + window % block.count[3]
        h = block.at[2] + window // block.count[3] % block.count[2]
        d = block.at[1] + window // block.count[3] // block.count[2]
        w = w * g.stride[2] - g.padding[2] + code % g.kernel[2] * g.dilation[2]
        h = h * g.stride[1] - g.padding[1] + code // g.kernel[2] % g.kernel[1] * g.dilation[1]
        d = d * g.stride[0] - g.padding[0] + code // g.kernel[2] // g.kernel[1] * g.dilation[0]
        places[i] = -1
        if code < element_count(g.kernel) and 0 <= d < g.full[0] and 0 <= h < g.full[1] and 0 <= w < g.full[2]:
            places[i] = (d * g.full[1] + h) * g.full[2] + w


cdef inline void_noinline decode(const Job *job, const char *indices, const Block *block, char *places,
                                 bint *all_there) noexcept nogil:
    """The places that the window codes of a block name; one outside any plane for a code that names none in the plane.

    They are counted from the first plane of the block on. Where `all_there` becomes true, none is outside.
    """
    cdef const Codes *codes = <const Codes *> job.decoder
    cdef item2 collected[DECODED]
    cdef int32_t start[3]
    cdef int axis
    cdef Py_ssize_t count = codes_in(block)
    assert_in_block(whole_codes(count) <= DECODED)
    memset(<char *> collected + count * job.code_size, 0, (whole_codes(count) - count) * job.code_size)
    collect_codes(job, indices, block, <char *> collected)
    if codes.far:
        decode_far(job, <const char *> collected, block, <index8 *> places)
        all_there[0] = False
        return
    for axis in range(3):
        start[axis] = <int32_t> (block.at[axis + 1] * job.g.stride[axis] - job.g.padding[axis])
    decode_near(&job.g, codes, <const char *> collected, job.code_size, start, count, <index4 *> places, all_there)
