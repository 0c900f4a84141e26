# The walk of scatter and gather, windows in raster order, by indices or by window codes, as runs for one loop; and that
# loop.
from libc.stdint cimport int64_t, uint64_t

from cunpool._kernels.common.arrays cimport element_address, plane_address
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.tasks cimport Kernel
from cunpool._kernels.common.types cimport element, index, index8, unlikely, void_inline
from cunpool._kernels.unpooling.elements cimport store_or_add
from cunpool._kernels.unpooling.fill_plan cimport FillBlock, FillPlan
from cunpool._kernels.unpooling.indices cimport find_offset
from cunpool._kernels.unpooling.window_codes cimport (
    block_stride, code_count, CodeBlock, decode, DECODE_MAX_CODES, Decoder, PLANE_AXIS, row_count, row_offset,
    WIDTH_AXIS)


cdef struct Run:
    # Windows of a plane, or of all interleaved planes, in raster order, that a loop moves together.
    char *full                  # element 0 of the plane
    char *values
    const char *indices
    Py_ssize_t value_bytes      # from one window to the next
    Py_ssize_t index_bytes
    Py_ssize_t count            # windows
    Py_ssize_t channels         # interleaved channels of each
    # Scatter stores to the elements `low` to `high` alone. Indices outside the expected ones are counted.
    Py_ssize_t low, high, expected_begin, expected_end

# A loop returns the number of indices that the run does not expect. The last two arguments only select an instance.
ctypedef Py_ssize_t (*Loop)(const Job *, const Run *, void *, void *) noexcept nogil
ctypedef void (*Canonicalize)(const char *, Py_ssize_t, void *) noexcept nogil
ctypedef void (*ByIndices)(const FillPlan *, const FillBlock *, char *, Py_ssize_t, int, bint *, void *,
                           void *) noexcept nogil


cdef struct Loops:
    # The loops for one kind of element. Pairs by whether indices have 64 bits.
    Loop row[2]
    Loop across[2]              # interleaved channels
    Loop planes[2]              # all windows of `count` contiguous planes; scatter's alone
    Loop unchecked              # contiguous arrays, where all indices are known to lie in the plane; scatter's alone
    Canonicalize canonicalize   # for numbers, which are added; NULL for items
    Kernel fill
    ByIndices by_indices[2]     # for elements of 4 and 8 bytes
    Kernel task
    bint gathers


cdef inline void point_to(const Job *job, Run *run, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h,
                          Py_ssize_t w) noexcept nogil:
    """Let a run begin at a window."""
    run.full = plane_address(&job.full, job.channels, plane)
    run.values = element_address(&job.pooled, job.channels, plane, d, h, w)
    run.indices = element_address(&job.indices, job.channels, plane, d, h, w)
    run.value_bytes = job.pooled.axis_bytes[2]
    run.index_bytes = job.indices.axis_bytes[2]


cdef inline void_inline point_to_next(Run *run) noexcept nogil:
    """Let a run begin behind its end."""
    run.values += run.count * run.value_bytes
    run.indices += run.count * run.index_bytes


cdef inline Py_ssize_t move_decoded(const Job *job, Run run, const CodeBlock *block,
                                    Py_ssize_t channel) noexcept nogil:
    """Move a block of windows by codes, of some planes or of the interleaved channels from `channel` on.

    `positions` is allocated for DECODE_MAX_CODES of 8 bytes. `decode` writes to before round_up_codes(count), and the
    highest entry read is before the block's count.
    """
    cdef index8[DECODE_MAX_CODES] positions  # of 8 bytes, or of 4
    cdef const Loops *loops = <const Loops *> job.ops
    cdef Py_ssize_t width = block.count[WIDTH_AXIS], stride_bytes = block_stride(&job.pooled, block), outside = 0, row
    cdef char *values
    cdef bint all_inside
    point_to(job, &run, block.at[PLANE_AXIS] * job.interleaved_planes, block.at[1], block.at[2], block.at[WIDTH_AXIS])
    run.full += channel * job.item_size
    run.values += channel * job.item_size
    decode(job, run.indices + channel * job.code_size, block, <char *> positions, &all_inside)
    run.indices = <const char *> positions
    run.index_bytes = 8 if job.wide_indices else 4
    if job.interleaved_planes > 1:
        run.index_bytes *= block.interleaved
        run.count, run.channels = width, block.interleaved
        return loops.across[job.wide_indices](job, &run, NULL, NULL)
    run.count = code_count(block)
    if stride_bytes:
        run.value_bytes = stride_bytes
        if (all_inside and loops.unchecked != NULL and job.parts_per_plane == 1
                and job.raster_stride_bytes == job.item_size and stride_bytes == job.item_size):
            return loops.unchecked(job, &run, NULL, NULL)
        return loops.row[job.wide_indices](job, &run, NULL, NULL)
    run.count = width
    values = run.values
    for row in range(row_count(block)):
        run.values = values + row_offset(&job.pooled, block, row)
        outside += loops.row[job.wide_indices](job, &run, NULL, NULL)
        point_to_next(&run)
    return outside


cdef inline Py_ssize_t move_block(const Job *job, const Run *run, CodeBlock *block) noexcept nogil:
    """`move_decoded` for DECODE_MAX_CODES channels at a time."""
    cdef Py_ssize_t part, outside = 0
    for part in range((job.interleaved_planes + DECODE_MAX_CODES - 1) // DECODE_MAX_CODES):
        block.interleaved = min(job.interleaved_planes - part * DECODE_MAX_CODES, <Py_ssize_t> DECODE_MAX_CODES)
        outside += move_decoded(job, run[0], block, part * DECODE_MAX_CODES)
    return outside


cdef inline Py_ssize_t move_row(const Job *job, Run run, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w,
                                Py_ssize_t count) noexcept nogil:
    """Move part of a pooled row, in one plane or in all interleaved ones."""
    cdef const Loops *loops = <const Loops *> job.ops
    cdef Py_ssize_t part, most, outside = 0
    cdef CodeBlock block
    if job.code_size:
        most = max((<const Decoder *> job.decoder).block_windows[WIDTH_AXIS], 1)
        for part in range((count + most - 1) // most):
            block.at = [plane // job.interleaved_planes, d, h, w + part * most]
            block.count = [1, 1, 1, min(count - part * most, most)]
            outside += move_block(job, &run, &block)
        return outside
    point_to(job, &run, plane, d, h, w)
    run.count, run.channels = count, job.interleaved_planes
    if job.interleaved_planes > 1:
        return loops.across[job.wide_indices](job, &run, NULL, NULL)
    return loops.row[job.wide_indices](job, &run, NULL, NULL)


cdef inline void_inline move_each(const Job *job, Run run, bint gathers, bint in_part, bint is_uniform,
                                  Py_ssize_t stride_bytes, Py_ssize_t full_bytes, element *_, index *__,
                                  Py_ssize_t *outside_count) noexcept nogil:
    """Store values where their indices point: with `in_part` only indices from `low` to before `high` of the run. Or
    read them from there. Indices that the run does not expect are counted; gather's may be any of the plane.

    `full_bytes` is the distance between the planes of neighbouring values, 0 if all belong to one plane. One unsigned
    comparison, in 64 bits whatever the index type, is both bounds at once.
    """
    # Copies, because for the compiler a stored value may change the run.
    cdef char *full = run.full
    cdef char *values = run.values
    cdef const char *indices = run.indices
    cdef Py_ssize_t value_bytes = run.value_bytes, index_bytes = run.index_bytes, count = run.count, i, outside = 0
    cdef Py_ssize_t offset
    cdef uint64_t position, low = run.low, span = run.high - run.low, expected = 0 if gathers else run.expected_begin
    cdef uint64_t expected_span = run.expected_end - expected
    cdef element *target
    cdef element *value
    for i in range(count):
        position = <uint64_t> <int64_t> (<const index *> (indices + i * index_bytes))[0]
        if in_part:
            outside += position - expected >= expected_span
            if position - low >= span:
                continue
        elif unlikely(position - expected >= expected_span):
            outside += 1
            continue
        find_offset(job, is_uniform, stride_bytes, <Py_ssize_t> position, &offset)
        target = <element *> (full + i * full_bytes + offset)
        value = <element *> (values + i * value_bytes)
        if gathers:
            value[0] = target[0]
        else:
            store_or_add(target, value)
    outside_count[0] += outside


cdef inline void_inline move_contiguous(const Job *job, Run run, bint gathers, element *full, index *index_type,
                                        Py_ssize_t *outside_count) noexcept nogil:
    """`move_each` for contiguous arrays. The compiler knows all strides (speed)."""
    run.value_bytes = sizeof(element)
    run.index_bytes = sizeof(index)
    move_each(job, run, gathers, False, True, sizeof(element), 0, full, index_type, outside_count)
