# Filter: values alone, along contiguous rows. First the rows of a window are combined where they lie, into rows of a
# buffer, the stage (`filter_rows.pxd`). Then neighbours along these rows are combined, of many rows at once
# (`filter_columns.pxd`). A row of interleaved channels is a row like any other, whose neighbours are a unit apart: all
# channels.
#
# The order in which elements are compared matters for NaN and for zeros of either sign alone. A block that has a NaN or
# a negative zero is pooled in raster order instead (`separable.h`).
from cunpool._kernels.common.caches cimport align_to_cache_line, CACHE_LINE
from cunpool._kernels.common.checks cimport branch_counted
from cunpool._kernels.common.geometry cimport clamp, Geometry, span_of
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.tasks cimport Found
from cunpool._kernels.memory cimport next_part
from cunpool._kernels.pooling.compare cimport end_of, number, whole_vectors
from cunpool._kernels.pooling.filter_columns cimport combine_columns, is_direct_along
from cunpool._kernels.pooling.filter_rows cimport (
    combine_rows, FilterLayer, has_odd_rows, is_direct_down, NO_GROUP)
from cunpool._kernels.pooling.numbers cimport copy_rows, Numbers, numbers_of
from cunpool._kernels.pooling.separable cimport (
    find_block, MAX_SPARSE, Separable, SEPARABLE_CHANNEL, separable_blocks, separable_bytes, SeparableBlock, separate)

cdef enum:
    STAGE_BYTES = 1 << 13       # The stage stays in L1, unless a single row is longer. (speed)
    SPARE_ELEMENTS = 128        # Room behind the stage: its last row is combined in whole vectors. (correctness)
    STACKED_ROW_BYTES = 1 << 9  # Shorter rows that follow each other are combined as one. (speed: 256 x 20 x 20, 3 x 3)
    STREAMED_ROW_BYTES = 1 << 10    # Shorter rows of results are never stored by non-temporal stores. (speed)
    MAX_IN_PLACE_BYTES = 1 << 23    # Limits a block, and the running maxima down its rows. (speed)


cdef struct Filter:
    # The plan of a call.
    Separable blocks            # Blocks, and how one with a NaN or a negative zero is pooled.
    Py_ssize_t unit             # Elements from one column to the next: 1, or all channels.
    Py_ssize_t stride           # Columns from one window to the next. 1 if a block has a single column of windows.
    bint is_direct              # The taps along a row are combined at once, not by doubling.
    Py_ssize_t row_elements     # A buffered row has whole vectors.
    Py_ssize_t running_rows     # Rows of running maxima; 0 where the rows of each window are combined at once.
    Py_ssize_t stage_elements


cdef inline Py_ssize_t stage_pitch(const Filter *filter, Py_ssize_t columns) noexcept nogil:
    """Elements from one row of the stage to the next: a multiple of the stride: all begin with a window."""
    return (columns + filter.stride - 1) // filter.stride * filter.stride * filter.unit


cdef inline Py_ssize_t filter_bytes(const Filter *filter) noexcept nogil:
    """Bytes of scratch memory: a row of padding, the running maxima, and two stages."""
    return ((filter.row_elements * (1 + filter.running_rows) + 2 * (filter.stage_elements + SPARE_ELEMENTS))
            * filter.blocks.item_bytes + 2 * CACHE_LINE)


cdef inline bint can_stream(const Filter *filter) noexcept nogil:
    """Whether the rows of results that a block stores are long enough for non-temporal stores."""
    return filter.blocks.axis[2].most * filter.unit * filter.blocks.item_bytes >= STREAMED_ROW_BYTES


cdef inline void plan_filter(const Geometry *g, Py_ssize_t unit, Filter *filter) noexcept nogil:
    """How blocks are filtered. `unit` and `blocks` are set."""
    cdef Py_ssize_t windows = filter.blocks.axis[2].most, columns = span_of(g, 2, windows)
    cdef int item_size = filter.blocks.item_bytes
    filter.unit = unit
    filter.stride = g.stride[2] if windows > 1 else 1
    filter.is_direct = is_direct_along(g, item_size, unit, filter.stride)
    # The padding behind a row may be longer than the row.
    filter.row_elements = whole_vectors(stage_pitch(filter, columns), min(item_size, 2))
    filter.running_rows = 0 if is_direct_down(g) else g.kernel[1] + 1
    filter.stage_elements = max(<Py_ssize_t> STAGE_BYTES // item_size, stage_pitch(filter, columns))


cdef inline const char *filter_limits_why_not(const Geometry *g, const Filter *filter) noexcept nogil:
    """Why blocks are too large to be filtered, or their windows too far apart; or NULL."""
    cdef Py_ssize_t elements = filter.blocks.axis[SEPARABLE_CHANNEL].most, windows = elements, span
    cdef bint is_single = True, fits = True
    cdef int axis
    for axis in range(3):
        span = span_of(g, axis, filter.blocks.axis[axis].most)
        fits &= span <= MAX_IN_PLACE_BYTES // elements
        elements *= span if fits else 1
        windows *= filter.blocks.axis[axis].most
        is_single &= filter.blocks.axis[axis].most == 1
    # A single window may be too large, with all channels as units or with its rows in whole vectors.
    if not fits or (max(elements, filter.running_rows * filter.row_elements) * filter.blocks.item_bytes
                    > MAX_IN_PLACE_BYTES):
        return "a block does not fit a buffer"  # unreached: nearly all such windows have no blocks at all
    if filter.running_rows and g.dilation[1] > 1:
        return "a window has more than 32 rows, with dilation"
    if branch_counted("units that leave room for one window", filter.unit > 1 and is_single
                      and (span_of(g, 0, 1) > 2 * g.stride[0] or span_of(g, 1, 1) > 2 * g.stride[1]
                           or span_of(g, 2, 1) > 2 * g.stride[2])):
        return "all channels of more than one window do not fit a block"
    if branch_counted("blocks of elements that hardly any window has",
                      elements > MAX_SPARSE * windows * min(g.kernel[0] * g.kernel[1] * g.kernel[2], elements)):
        return "windows use less than an eighth of the elements between them"
    return NULL


cdef inline void plan_layer(const Job *job, const SeparableBlock *block, const Filter *filter, Py_ssize_t size,
                            const char *plane, Py_ssize_t depth, char *scratch, FilterLayer *layer) noexcept nogil:
    """The rows of the windows in one layer of a block, from position `depth` on, and the buffers in `scratch`."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t unit = filter.unit, columns = span_of(g, 2, block.count[2]), low
    low = clamp(-block.first[2], 0, columns)
    layer.depth, layer.first_row = depth, block.first[1]
    layer.low = low * unit
    layer.elements = clamp(g.full[2] - block.first[2], low, columns) * unit - layer.low
    layer.corner = plane + (block.first[2] * unit + layer.low) * size
    layer.limit = end_of(job, plane, unit * size)
    layer.pitch = stage_pitch(filter, columns)
    layer.row_bytes = filter.row_elements * size
    layer.padding = scratch
    layer.running = layer.padding + layer.row_bytes
    layer.stage = <char *> align_to_cache_line(layer.running + filter.running_rows * layer.row_bytes)
    layer.other = <char *> align_to_cache_line(layer.stage + (filter.stage_elements + SPARE_ELEMENTS) * size)
    layer.is_running = filter.running_rows > 0
    layer.group = NO_GROUP
    layer.is_stacked = (not layer.is_running and g.kernel[0] * g.kernel[1] > 1
                        and branch_counted("short rows that follow each other",
                                           layer.elements * size <= STACKED_ROW_BYTES // g.stride[1])
                        and job.full.axis_bytes[1] == layer.elements * size)
    layer.most_rows = filter.stage_elements // layer.pitch // (g.stride[1] if layer.is_stacked else 1)
    layer.most_rows = max(<Py_ssize_t> 1, layer.most_rows)


cdef inline bint filter_layer(const Job *job, const SeparableBlock *block, const Filter *filter, const Numbers *numbers,
                              FilterLayer *layer, char *pooled) noexcept nogil:
    """Pool the windows in one layer of a block. Returns whether it has a NaN or a negative zero: then the results are
    worth nothing."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t size = numbers.size, pooled_bytes = job.pooled.axis_bytes[1], checked = 0, row = 0, rows, last
    numbers.fill_lowest(layer.padding, filter.row_elements if layer.is_running
                        else whole_vectors(layer.pitch - layer.elements, size))
    while row < block.count[1]:
        rows = min(layer.most_rows, block.count[1] - row)
        last = span_of(g, 1, row + rows)
        if has_odd_rows(job, numbers, layer, checked, last):
            return True
        checked = max(checked, last)
        combine_rows(job, numbers, layer, row, rows)
        combine_columns(g, numbers, filter.unit, filter.stride, filter.is_direct, rows * layer.pitch, &layer.stage,
                        &layer.other)
        copy_rows(pooled + row * pooled_bytes, pooled_bytes, layer.stage, layer.pitch // filter.stride * size, rows,
                  block.count[2] * filter.unit * size, job.nontemporal)
        row += rows
    return False


cdef inline bint filter_block(const Job *job, const SeparableBlock *block, const Filter *filter,
                              const Numbers *numbers, char *scratch) noexcept nogil:
    """Pool a block. Returns whether it has a NaN or a negative zero: then it is to be pooled in raster order."""
    cdef const Geometry *g = &job.g
    cdef const char *plane
    cdef char *pooled
    cdef Py_ssize_t channel, d
    cdef FilterLayer layer
    for channel in range(block.count[SEPARABLE_CHANNEL] // filter.unit):
        plane = block.full + (block.begin[SEPARABLE_CHANNEL] + channel) * job.full.channel_bytes
        pooled = block.pooled + channel * job.pooled.channel_bytes
        for d in range(block.count[0]):
            plan_layer(job, block, filter, numbers.size, plane, block.first[0] + d * g.stride[0], scratch, &layer)
            if filter_layer(job, block, filter, numbers, &layer, pooled + d * job.pooled.axis_bytes[0]):
                return True
    return False


cdef inline void pool_filtered(const Job *job, Py_ssize_t task, Found *found, number *full, void *_) noexcept nogil:
    """One task: some blocks, filtered, or else pooled in raster order."""
    cdef const Filter *filter = <const Filter *> job.plan
    cdef Py_ssize_t blocks = separable_blocks(&filter.blocks), block_number
    cdef char *rest = found.scratch
    cdef char *room = next_part(&rest, max(filter_bytes(filter), separable_bytes(&filter.blocks)))
    cdef SeparableBlock block
    cdef Numbers numbers
    numbers = numbers_of(job.is_minimum, full)
    for block_number in range(blocks * task // job.tasks, blocks * (task + 1) // job.tasks):
        find_block(&filter.blocks, block_number, &block)
        if branch_counted("something odd among a block's elements",
                          filter_block(job, &block, filter, &numbers, room)):
            separate(&filter.blocks, &block, room)
