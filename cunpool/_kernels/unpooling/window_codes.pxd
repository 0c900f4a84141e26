# Blocks of windows for scatter and gather, and window codes decoded to indices.
from libc.stdint cimport int32_t, uint16_t, uint32_t
from libc.string cimport memset

from cunpool._kernels.common.arrays cimport stride_along, View
from cunpool._kernels.common.checks cimport assert_in_block, branch_counted
from cunpool._kernels.common.geometry cimport clamp, element_count, Geometry
from cunpool._kernels.common.job cimport are_full_planes_adjacent, are_planes_uniform, Job
from cunpool._kernels.common.pack cimport pack_rows, PackedRows
from cunpool._kernels.common.types cimport index4, item1, item2, void_inline, void_wide

cdef enum:
    GATHER_MAX_WINDOWS = 2048   # windows of a block that is gathered by indices: tasks are alike (speed)
    DECODE_MAX_CODES = 512  # codes of a block: its buffers stay in L1 (speed)
    DECODE_VECTOR_CODES = 64    # loops run over multiples of this, in whole vectors (speed)
    # The axes of a block: planes or groups of interleaved ones, layers, rows, width.
    PLANE_AXIS = 0
    HEIGHT_AXIS = 2
    WIDTH_AXIS = 3
    BLOCK_REACH = 0x7FFF    # elements of a block are nearer along each axis, and codes are less


cdef struct BlockPlan:
    # How a call's windows are divided into blocks, planned before its tasks begin.
    # The windows of a block along each axis: some planes, some layers of one, some rows, or part of a row.
    Py_ssize_t block_windows[4]
    Py_ssize_t blocks[4]        # of a plane; the entry of planes is unused
    bint joins_rows             # whether a row of windows continues at the stride of the row before
    # The rest is how window codes are decoded.
    bint has_layers             # whether windows have several layers, or begin in another than the first
    uint16_t row_reciprocal, layer_reciprocal   # for `quotient`
    # The begin of each code's window, relative to the block's first window: along each axis, and as an index from the
    # first plane on. Interleaved channels repeat each entry.
    uint16_t d[DECODE_MAX_CODES]
    uint16_t h[DECODE_MAX_CODES]
    uint16_t w[DECODE_MAX_CODES]
    int32_t position[DECODE_MAX_CODES]


cdef struct Block:
    # Windows that are moved together: the first one, and the number along each axis.
    Py_ssize_t at[4]
    Py_ssize_t count[4]
    Py_ssize_t interleaved      # channels of each window that are neighbours; `move_block` sets it


cdef inline Py_ssize_t code_count(const Block *block) noexcept nogil:
    return block.count[PLANE_AXIS] * element_count(&block.count[1]) * block.interleaved


cdef inline Py_ssize_t round_up_codes(Py_ssize_t count) noexcept nogil:
    return (count + DECODE_VECTOR_CODES - 1) // DECODE_VECTOR_CODES * DECODE_VECTOR_CODES


cdef inline uint16_t reciprocal_of(Py_ssize_t divisor) noexcept nogil:
    return <uint16_t> ((0x8000 + divisor // 2) // divisor)


cdef inline uint16_t quotient(uint16_t x, uint16_t reciprocal) noexcept nogil:
    """x // divisor, by the higher half of a product. Exact where (2 * x + 1) * divisor is below 2 ** 16: (x + 1/2) /
    divisor is 1 / (2 * divisor) away from integers at least, and the rounded reciprocal changes it by less."""
    return <uint16_t> (<uint32_t> (<uint16_t> (2 * x + 1)) * reciprocal >> 16)


cdef inline void spread_strides(const Py_ssize_t *windows, View *view) noexcept nogil:
    """Give innermost axes of one window the stride of the axis around them, at which their windows are continued."""
    cdef int inner = 2, axis
    while inner >= 0 and windows[inner] == 1:
        inner -= 1
    for axis in range(inner + 1, 3):
        view.axis_bytes[axis] = stride_along(view, inner)


cdef inline bint is_continued(const Job *job, int axis) noexcept nogil:
    """Whether windows follow those along the next axis of blocks at the same stride, in both pooled arrays."""
    cdef Py_ssize_t windows = job.g.pooled[axis]
    return (stride_along(&job.pooled, axis - 1) == job.pooled.axis_bytes[axis] * windows
            and stride_along(&job.indices, axis - 1) == job.indices.axis_bytes[axis] * windows)


cdef inline bint can_join(const Job *job, int axis) noexcept nogil:
    """Whether a block with all windows along the next axis may have several along this one: rows at a constant stride,
    of interleaved planes all windows."""
    if axis == HEIGHT_AXIS:
        return job.interleaved_planes == 1 or is_continued(job, axis)
    if axis > PLANE_AXIS:
        return is_continued(job, axis)
    if job.interleaved_planes > 1 or not branch_counted("planes as far apart as the next", are_planes_uniform(job)):
        return False
    if not job.code_size:
        return is_continued(job, HEIGHT_AXIS)
    return is_continued(job, axis) and branch_counted("full planes that follow each other",
                                                      are_full_planes_adjacent(job))


cdef inline void plan_decoder(const Job *job, BlockPlan *plan) noexcept nogil:
    """Plan how the window codes of a block are decoded."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t interleaved = min(job.interleaved_planes, <Py_ssize_t> DECODE_MAX_CODES)
    cdef Py_ssize_t plane, d, h, w, i = 0
    plan.has_layers = g.kernel[0] > 1 or g.padding[0] > 0 or (g.pooled[0] - 1) * g.stride[0] >= g.full[0]
    plan.row_reciprocal, plan.layer_reciprocal = reciprocal_of(g.kernel[2]), reciprocal_of(g.kernel[1])
    for plane in range(plan.block_windows[PLANE_AXIS]):
        for d in range(plan.block_windows[1]):
            for h in range(plan.block_windows[2]):
                for w in range(plan.block_windows[WIDTH_AXIS]):
                    for _ in range(interleaved):
                        plan.d[i] = <uint16_t> (d * g.stride[0])
                        plan.h[i] = <uint16_t> (h * g.stride[1])
                        plan.w[i] = <uint16_t> (w * g.stride[2])
                        plan.position[i] = <int32_t> (((plane * g.full[0] + d * g.stride[0]) * g.full[1]
                                                       + h * g.stride[1]) * g.full[2] + w * g.stride[2])
                        i += 1
    for i in range(i, round_up_codes(i)):
        plan.d[i] = plan.h[i] = plan.w[i] = plan.position[i] = 0


cdef inline void plan_blocks(Job *job, BlockPlan *plan) noexcept nogil:
    """Divide the windows of a call into blocks. Codes are decoded DECODE_MAX_CODES at a time, and by indices
    GATHER_MAX_WINDOWS are gathered at a time. Scatter by indices has no limit."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t planes = job.batch * job.channels // job.interleaved_planes, windows
    cdef Py_ssize_t left = planes * element_count(g.pooled) * job.interleaved_planes
    cdef int axis
    spread_strides(g.pooled, &job.pooled)
    spread_strides(g.pooled, &job.indices)
    if job.code_size or job.gathers:
        left = DECODE_MAX_CODES if job.code_size else GATHER_MAX_WINDOWS
    left = max(left // job.interleaved_planes, <Py_ssize_t> 1)
    for axis in range(WIDTH_AXIS, PLANE_AXIS - 1, -1):
        windows = planes if axis == PLANE_AXIS else g.pooled[axis - 1]
        if job.code_size and axis != PLANE_AXIS:
            left = min(left, (BLOCK_REACH // 2 - 1) // g.stride[axis - 1] + 1)
        plan.block_windows[axis] = min(left, windows)
        plan.blocks[axis] = (windows + left - 1) // left
        # Only whole rows are joined, and only whole layers. There may be none at all.
        left = left // windows if axis != PLANE_AXIS and 0 < windows <= left and can_join(job, axis - 1) else 1
    job.blocks = plan
    plan.joins_rows = is_continued(job, HEIGHT_AXIS)
    if job.code_size:
        if element_count(g.full) * plan.block_windows[PLANE_AXIS] > 0x7FFFFFFF:
            plan.block_windows[PLANE_AXIS] = 1  # unreached: small planes of 2**31 elements in all
        plan_decoder(job, plan)


cdef inline Py_ssize_t block_count(const Job *job, Py_ssize_t planes) noexcept nogil:
    cdef const BlockPlan *plan = <const BlockPlan *> job.blocks
    cdef Py_ssize_t most = plan.block_windows[PLANE_AXIS]
    return (1 if planes <= most else (planes + most - 1) // most) * element_count(&plan.blocks[1])


cdef inline void locate_block(const Job *job, Py_ssize_t plane, Py_ssize_t planes, Py_ssize_t number,
                              Block *block) noexcept nogil:
    """Find block `number`, in raster order, of `planes` planes from `plane` on. Interleaved planes count as one."""
    cdef const BlockPlan *plan = <const BlockPlan *> job.blocks
    cdef Py_ssize_t part
    cdef int axis
    for axis in range(WIDTH_AXIS, PLANE_AXIS, -1):
        part = 0
        if plan.blocks[axis] > 1:  # most divisions are by 1 (speed)
            part = number % plan.blocks[axis]
            number //= plan.blocks[axis]
        block.at[axis] = part * plan.block_windows[axis]
        block.count[axis] = min(plan.block_windows[axis], job.g.pooled[axis - 1] - block.at[axis])
    block.at[PLANE_AXIS] = plane + number * plan.block_windows[PLANE_AXIS]
    block.count[PLANE_AXIS] = min(plan.block_windows[PLANE_AXIS], planes - number * plan.block_windows[PLANE_AXIS])


cdef inline uint16_t clamp_to_block(Py_ssize_t position) noexcept nogil:
    """A position relative to a block, in whose windows no element reaches BLOCK_REACH."""
    return <uint16_t> clamp(position, 0, BLOCK_REACH)


cdef inline void_inline find_rows(bint has_layers, const Geometry *g, const BlockPlan *plan, const uint16_t *code,
                                  const Py_ssize_t *start, Py_ssize_t count, uint16_t *rows, uint16_t *layers,
                                  uint16_t *outside) noexcept nogil:
    """The row that each code names in its window, counted through all layers, and the layer if the call `has_layers`.
    The highest bit of `outside` is set if the element is outside the plane, or no element of the window.

    Coordinates are relative to the block's first window, so that 16 bits are enough: twice as many in a vector (speed).
    All arithmetic is unsigned, and wraps for codes that name no element. That changes no result, because `outside` has
    its highest bit set for these.
    """
    # Copies, because for the compiler a stored result may change these.
    cdef uint16_t last = <uint16_t> (element_count(g.kernel) - 1)
    cdef uint16_t step_d = <uint16_t> g.dilation[0], step_h = <uint16_t> g.dilation[1]
    cdef uint16_t step_w = <uint16_t> g.dilation[2]
    cdef uint16_t back_w = <uint16_t> (g.kernel[2] * g.dilation[2]), back_h = <uint16_t> (g.kernel[1] * g.dilation[1])
    cdef uint16_t row_reciprocal = plan.row_reciprocal, layer_reciprocal = plan.layer_reciprocal
    # The first and the last element of the array.
    cdef uint16_t low_d = clamp_to_block(-start[0]), high_d = clamp_to_block(g.full[0] - start[0]) - 1
    cdef uint16_t low_h = clamp_to_block(-start[1]), high_h = clamp_to_block(g.full[1] - start[1]) - 1
    cdef uint16_t low_w = clamp_to_block(-start[2]), high_w = clamp_to_block(g.full[2] - start[2]) - 1
    cdef uint16_t row, layer, d, h, w, signs
    cdef int32_t i
    for i in range(<int32_t> round_up_codes(count)):
        # `w` counts elements through all rows, `h` rows through all layers: whole ones are subtracted.
        row = quotient(code[i], row_reciprocal)
        h = <uint16_t> (plan.h[i] + row * step_h)
        w = <uint16_t> (plan.w[i] + code[i] * step_w - row * back_w)
        signs = <uint16_t> (last - code[i])
        if has_layers:
            layer = quotient(row, layer_reciprocal)
            h = <uint16_t> (h - layer * back_h)
            d = <uint16_t> (plan.d[i] + layer * step_d)
            signs |= <uint16_t> ((d - low_d) | (high_d - d))
            layers[i] = layer
        signs |= <uint16_t> ((h - low_h) | (high_h - h) | (w - low_w) | (high_w - w))
        rows[i] = row
        outside[i] = signs


cdef inline void_inline decode_vectors(bint has_layers, const Geometry *g, const BlockPlan *plan, const uint16_t *code,
                                       const Py_ssize_t *start, Py_ssize_t count, index4 *positions) noexcept nogil:
    """The indices of some codes, and of as many more as fill a vector: -1 for a code that names no element. Compiled
    apart for windows of several layers.

    `rows`, `layers` and `outside` are allocated for DECODE_MAX_CODES. Entries before round_up_codes(count) are written
    and read: those of `layers` only for windows of several layers."""
    cdef uint16_t[DECODE_MAX_CODES] rows
    cdef uint16_t[DECODE_MAX_CODES] layers
    cdef uint16_t[DECODE_MAX_CODES] outside
    cdef uint32_t step_w = <uint32_t> g.dilation[2]
    cdef uint32_t height = <uint32_t> g.full[1], width = <uint32_t> g.full[2], position
    cdef uint32_t base = (<uint32_t> start[0] * height + <uint32_t> start[1]) * width + <uint32_t> start[2]
    cdef uint32_t next_row = <uint32_t> (g.dilation[1] * g.full[2] - g.kernel[2] * g.dilation[2])
    cdef uint32_t next_layer = <uint32_t> ((g.dilation[0] * g.full[1] - g.kernel[1] * g.dilation[1]) * g.full[2])
    cdef int32_t i
    find_rows(has_layers, g, plan, code, start, count, rows, layers, outside)
    for i in range(<int32_t> round_up_codes(count)):
        position = base + <uint32_t> plan.position[i] + code[i] * step_w + rows[i] * next_row
        if has_layers:
            position += layers[i] * next_layer
        positions[i] = <index4> (position | -<uint32_t> (outside[i] >> 15))


cdef inline void_wide decode(const Job *job, const char *codes, const PackedRows *rows, const Block *block,
                             index4 *positions) noexcept nogil:
    """The indices that the window codes of a block, in rows, name: counted from the block's first plane on.

    A code that names no element of the plane gets an index outside any plane.
    `packed`, `code` and `positions` are allocated for DECODE_MAX_CODES. The highest entry written is before
    round_up_codes(count), the highest entry read before count in `positions` and round_up_codes(count) in the others.
    """
    cdef const BlockPlan *plan = <const BlockPlan *> job.blocks
    cdef item2 packed[DECODE_MAX_CODES]
    cdef uint16_t code[DECODE_MAX_CODES]
    cdef Py_ssize_t start[3]
    cdef Py_ssize_t count = code_count(block), i
    cdef int axis
    assert_in_block(round_up_codes(count) <= DECODE_MAX_CODES)
    memset(<char *> packed + count * job.code_size, 0, (round_up_codes(count) - count) * job.code_size)
    pack_rows(job.code_size, <char *> packed, rows.units, codes, rows)
    for axis in range(3):
        start[axis] = block.at[axis + 1] * job.g.stride[axis] - job.g.padding[axis]
    if job.code_size == 1:
        for i in range(round_up_codes(count)):
            code[i] = (<const item1 *> packed)[i]
    else:
        for i in range(round_up_codes(count)):  # a larger code would wrap to one of the window (correctness)
            code[i] = min(packed[i], <item2> BLOCK_REACH)
    if plan.has_layers:
        decode_vectors(True, &job.g, plan, code, start, count, positions)
    else:
        decode_vectors(False, &job.g, plan, code, start, count, positions)
