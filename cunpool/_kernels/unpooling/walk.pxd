# The walk of scatter and gather: blocks of windows in raster order, by indices or by window codes, as runs for one
# loop; and that loop.
from libc.stdint cimport int64_t, uint64_t

from cunpool._kernels.common.arrays cimport element_address, plane_address
from cunpool._kernels.common.geometry cimport element_count
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.pack cimport PackedRows
from cunpool._kernels.common.tasks cimport Kernel
from cunpool._kernels.common.types cimport element, index, index4, item, unlikely, void_inline
from cunpool._kernels.unpooling.elements cimport store_or_add
from cunpool._kernels.unpooling.fill_plan cimport FillBlock, FillPlan
from cunpool._kernels.unpooling.indices cimport find_offset
from cunpool._kernels.unpooling.window_codes cimport (
    Block, BlockPlan, decode, DECODE_MAX_CODES, locate_block, PLANE_AXIS, WIDTH_AXIS)


cdef struct Run:
    # Values in the raster order of their windows, which a loop moves together as rows: of one plane or more, or all
    # windows of each plane. By window codes of joined planes all windows are one row. If planes are interleaved, a row
    # has the channels of one window.
    # Pointers are no neighbours, so that the compiler does not load two at once, before both are stored (speed).
    char *full                  # element 0 of the plane
    Py_ssize_t full_row_bytes   # from one row to the next
    char *values
    Py_ssize_t value_row_bytes
    Py_ssize_t value_bytes      # from one value of a row to the next
    const char *indices
    Py_ssize_t index_row_bytes
    Py_ssize_t index_bytes
    Py_ssize_t rows
    Py_ssize_t count            # values of each row
    # Scatter stores to the elements `low` to `high` alone. Indices outside the expected ones are counted.
    Py_ssize_t low, high, expected_begin, expected_end

# A loop returns the number of indices that the run does not expect. It may move the run's pointers. A copy of
# the run would wait for the stores to it (speed). The last two arguments only select an instance.
ctypedef Py_ssize_t (*Loop)(const Job *, Run *, void *, void *) noexcept nogil
ctypedef void (*Canonicalize)(const char *, Py_ssize_t, void *) noexcept nogil
ctypedef void (*ByIndices)(const FillPlan *, const FillBlock *, char *, Py_ssize_t, bint *, void *,
                           void *) noexcept nogil


cdef struct Loops:
    # The loops for one kind of element.
    Loop move[2]                # by whether indices have 8 bytes
    Canonicalize canonicalize   # for numbers, which are added; NULL for items
    Kernel fill
    ByIndices by_indices[2]     # for elements of 4 and 8 bytes


cdef inline void point_to(const Job *job, const Block *block, Py_ssize_t channel, Run *run) noexcept nogil:
    """Let a run have the windows of a block, of interleaved channels from `channel` on."""
    cdef Py_ssize_t plane = block.at[PLANE_AXIS] * job.interleaved_planes + channel
    run.full = plane_address(&job.full, job.channels, plane)
    run.values = element_address(&job.pooled, job.channels, plane, block.at[1], block.at[2], block.at[WIDTH_AXIS])
    run.indices = element_address(&job.indices, job.channels, plane, block.at[1], block.at[2], block.at[WIDTH_AXIS])
    run.value_bytes, run.index_bytes = job.pooled.axis_bytes[2], job.indices.axis_bytes[2]
    run.full_row_bytes, run.value_row_bytes = job.full.channel_bytes, job.pooled.channel_bytes
    run.index_row_bytes = job.indices.channel_bytes
    run.rows, run.count = block.count[PLANE_AXIS], element_count(&block.count[1])
    if job.interleaved_planes > 1:
        run.rows, run.count = run.count, block.interleaved
        run.full_row_bytes, run.value_row_bytes, run.index_row_bytes = 0, run.value_bytes, run.index_bytes
        run.value_bytes, run.index_bytes = job.item_size, job.index_size
    elif not (<const BlockPlan *> job.blocks).joins_rows:
        run.rows, run.count = run.rows * block.count[1] * block.count[2], block.count[WIDTH_AXIS]
        run.full_row_bytes, run.value_row_bytes = 0, job.pooled.axis_bytes[1]
        run.index_row_bytes = job.indices.axis_bytes[1]
    elif job.code_size:
        run.rows, run.count = 1, run.rows * run.count


cdef inline Py_ssize_t move_block(const Job *job, Run *run, Block *block) noexcept nogil:
    """Move a block of windows, by codes of DECODE_MAX_CODES interleaved channels at a time.

    `positions` is allocated for DECODE_MAX_CODES. `decode` writes to before round_up_codes(count), and the highest
    entry read is before the block's count.
    """
    cdef index4[DECODE_MAX_CODES] positions
    cdef Py_ssize_t most = DECODE_MAX_CODES if job.code_size else job.interleaved_planes, channel = 0, outside = 0
    cdef PackedRows codes
    while channel < job.interleaved_planes:
        block.interleaved = min(job.interleaved_planes - channel, most)
        point_to(job, block, channel, run)
        if job.code_size:
            codes.unit, codes.has_gaps = 1, 0
            codes.unit_bytes, codes.units = run.index_bytes, run.count
            codes.row_bytes, codes.rows = run.index_row_bytes, run.rows
            decode(job, run.indices, &codes, block, positions)
            run.indices = <const char *> positions
            run.index_bytes = sizeof(index4)
            run.index_row_bytes = run.index_bytes * run.count
        outside += (<const Loops *> job.ops).move[job.index_size == 8](job, run, NULL, NULL)
        channel += block.interleaved
    return outside


cdef inline Py_ssize_t move_blocks(const Job *job, Run *run, Py_ssize_t plane, Py_ssize_t planes, Py_ssize_t begin,
                                   Py_ssize_t end) noexcept nogil:
    """Move the blocks from number `begin` to before `end` of some planes, whose indices are all expected."""
    cdef Py_ssize_t outside = 0, number
    cdef Block block
    run.expected_begin = 0
    for number in range(begin, end):
        locate_block(job, plane, planes, number, &block)
        run.expected_end = (block.count[PLANE_AXIS] if job.code_size else 1) * element_count(job.g.full)
        outside += move_block(job, run, &block)
    return outside


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


cdef inline void_inline move_neighbours(const Job *job, const Run *run, bint gathers, bint in_part, bint expects_0,
                                        Py_ssize_t stride_bytes, Py_ssize_t full_bytes, element *full,
                                        index *index_type, Py_ssize_t *outside_count) noexcept nogil:
    """`move_each` for rows whose values are neighbours, and their indices too. The compiler knows these strides, most
    often also those of the plane, and the first expected index if it is 0 (speed: 1.1 to 1.25 times as fast)."""
    cdef Run row
    row.full, row.values, row.indices, row.count = run.full, run.values, run.indices, run.count
    row.low, row.high = run.low, run.high
    row.expected_begin, row.expected_end = 0 if expects_0 else run.expected_begin, run.expected_end
    row.value_bytes = sizeof(element)
    row.index_bytes = sizeof(index)
    for _ in range(run.rows):
        move_each(job, row, gathers, in_part, True, stride_bytes, full_bytes, full, index_type, outside_count)
        row.full += run.full_row_bytes
        row.values += run.value_row_bytes
        row.indices += run.index_row_bytes


cdef inline void_inline move_rows(const Job *job, Run *run, bint gathers, element *full, index *index_type,
                                  Py_ssize_t *outside) noexcept nogil:
    """Store or read the values of a run, row by row. The loop is compiled for contiguous arrays, for interleaved
    channels, for uniform planes, and for all others; scatter's also for parts."""
    cdef bint is_whole = gathers or run.low <= run.expected_begin and run.expected_end <= run.high
    cdef bint is_contiguous = (job.raster_stride_bytes == sizeof(element) == run.value_bytes
                               and run.index_bytes == sizeof(index) and is_whole)
    if job.interleaved_planes > 1 and is_whole:
        move_neighbours(job, run, gathers, False, False, job.raster_stride_bytes, sizeof(element), full, index_type,
                        outside)
    elif job.interleaved_planes > 1:
        move_neighbours(job, run, gathers, True, False, job.raster_stride_bytes, sizeof(element), full, index_type,
                        outside)
    elif is_contiguous and not gathers and run.expected_begin:
        move_neighbours(job, run, gathers, False, False, sizeof(element), 0, full, index_type, outside)
    elif is_contiguous:
        move_neighbours(job, run, gathers, False, True, sizeof(element), 0, full, index_type, outside)
    else:
        for _ in range(run.rows):
            if not job.raster_stride_bytes:
                move_each(job, run[0], gathers, not gathers, False, 0, 0, full, index_type, outside)
            elif not is_whole:
                move_each(job, run[0], gathers, True, True, job.raster_stride_bytes, 0, full, index_type, outside)
            else:
                move_each(job, run[0], gathers, False, True, job.raster_stride_bytes, 0, full, index_type, outside)
            run.full += run.full_row_bytes
            run.values += run.value_row_bytes
            run.indices += run.index_row_bytes


cdef inline Py_ssize_t move_run(const Job *job, Run *run, element *full, index *index_type) noexcept nogil:
    """Store the values of a run, add them, or read them. Returns the number of indices that are not expected."""
    cdef Py_ssize_t outside = 0
    if element in item and job.gathers:
        move_rows(job, run, True, full, index_type, &outside)
    else:
        move_rows(job, run, False, full, index_type, &outside)
    return outside
