# Filter: values alone, along contiguous rows. First the rows of a window are combined where they lie, into rows of a
# buffer, the stage (`filter_rows.pxd`). Then neighbours along these rows are combined, of many rows at once, and of
# several planes if these are small. A row of interleaved channels is a row like any other, whose neighbours are a unit
# apart: all channels.
#
# The order in which elements are compared matters for NaN and for zeros of either sign alone. A block that has a NaN or
# a negative zero is pooled in raster order instead (`separable_block.pxd`).
from cunpool._kernels.common.caches cimport align_to_cache_line, CACHE_LINE
from cunpool._kernels.common.checks cimport assert_in_block, branch_counted
from cunpool._kernels.common.geometry cimport clamp, element_count, Geometry, span_of
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.pack cimport fill, pack_row
from cunpool._kernels.common.tasks cimport Found
from cunpool._kernels.common.types cimport void_noinline
from cunpool._kernels.memory cimport next_part
from cunpool._kernels.pooling.compare cimport end_of, whole_vectors
from cunpool._kernels.pooling.filter_rows cimport (
    combine_rows, copy_rows, FilterLayer, has_odd_rows, is_direct_down, NO_GROUP)
from cunpool._kernels.pooling.runs cimport best_of_runs, Comparison, MAX_RUNS
from cunpool._kernels.pooling.search cimport search_block
from cunpool._kernels.pooling.separable cimport CHANNEL, MAX_SPARSE, Separable
from cunpool._kernels.pooling.separable_block cimport (
    find_block, separable_blocks, separable_bytes, SeparableBlock, separate)

cdef enum:
    MAX_PASS_RUNS = 5   # Runs that a pass along the rows combines, at most. (speed: 512 x 512, 5 x 5, 7 x 7)
    STAGE_BYTES = 1 << 13       # The stage stays in L1, unless a single row is longer. (speed)
    SPARE_ELEMENTS = 128        # Room behind the stage: its last row is combined in whole vectors. (correctness)
    STACKED_ROW_BYTES = 1 << 9  # Shorter rows that follow each other are combined as one. (speed: 256 x 20 x 20, 3 x 3)
    MAX_STAGED_PARTS = 64       # Layers of small planes that the stage has at most. (size of an array)
    MAX_IN_PLACE_BYTES = 1 << 23    # Limits a block, and the running maxima down its rows. (speed)


cdef struct Blocked:
    # The plan of a call by filter or separable. The second part is filter's.
    Separable blocks            # Blocks, and how one is pooled in raster order.
    Py_ssize_t unit             # Elements from one column to the next: 1, or all channels. 0 if no block is filtered.

    Comparison comparison       # of elements as wide as in the array
    Py_ssize_t stride           # Columns from one window to the next. 1 if a block has a single column of windows.
    Py_ssize_t row_elements     # A buffered row has whole vectors.
    Py_ssize_t running_rows     # Rows of running maxima; 0 where the rows of each window are combined at once.
    Py_ssize_t stage_elements


cdef inline Py_ssize_t stage_pitch(const Blocked *plan, Py_ssize_t columns) noexcept nogil:
    """Elements from one row of the stage to the next: rounded up to the stride, so that each begins with a window."""
    return (columns + plan.stride - 1) // plan.stride * plan.stride * plan.unit


cdef inline void plan_filter(const Geometry *g, Py_ssize_t unit, int item_size, Blocked *plan) noexcept nogil:
    """How blocks are filtered. `unit` and `blocks` are set."""
    cdef Py_ssize_t windows = plan.blocks.axis[2].most, columns = span_of(g, 2, windows)
    plan.unit = unit
    plan.comparison = plan.blocks.comparison
    plan.comparison.bytes = item_size
    plan.stride = g.stride[2] if windows > 1 else 1
    # The padding behind a row may be longer than the row.
    plan.row_elements = whole_vectors(stage_pitch(plan, columns), min(item_size, 2))
    plan.running_rows = 0 if is_direct_down(g) else g.kernel[1] + 1
    plan.stage_elements = max(<Py_ssize_t> STAGE_BYTES // item_size, stage_pitch(plan, columns))


cdef inline const char *filter_limits_why_not(const Geometry *g, const Blocked *plan) noexcept nogil:
    """Why blocks are too large to be filtered, or their windows too far apart; or NULL."""
    cdef Py_ssize_t windows = plan.blocks.axis[CHANNEL].most
    cdef double elements = windows      # A product of integers may overflow.
    cdef bint is_single = True
    cdef int axis
    for axis in range(3):
        elements *= span_of(g, axis, plan.blocks.axis[axis].most)
        windows *= plan.blocks.axis[axis].most
        is_single &= plan.blocks.axis[axis].most == 1
    # A single window may be too large, with all channels as units or with its rows in whole vectors.
    if max(elements, plan.running_rows * plan.row_elements) * plan.comparison.bytes > MAX_IN_PLACE_BYTES:
        return "a block does not fit a buffer"  # unreached: nearly all such windows have no blocks at all
    if plan.running_rows and (g.dilation[1] > 1 or g.kernel[0] > 1):
        return "a window has more than 32 rows that overlap, with dilation or in several layers"
    if (not plan.running_rows and g.kernel[0] * g.kernel[1] > MAX_RUNS and plan.blocks.axis[2].parts > 1
            and span_of(g, 2, plan.blocks.axis[2].most) * plan.unit * plan.comparison.bytes < CACHE_LINE):
        return "a window has more than 32 rows, and a block has less than 64 bytes of each"  # unreached: tall windows
    if branch_counted("units that leave room for one window", plan.unit > 1 and is_single
                      and (span_of(g, 0, 1) > 2 * g.stride[0] or span_of(g, 1, 1) > 2 * g.stride[1]
                           or span_of(g, 2, 1) > 2 * g.stride[2])):
        return "all channels of more than one window do not fit a block"
    if branch_counted("blocks of elements that hardly any window has",
                      elements > MAX_SPARSE * windows * min(<double> element_count(g.kernel), elements)):
        return "windows use less than an eighth of the elements between them"
    return NULL


cdef inline void combine_columns(const Geometry *g, const Blocked *plan, Py_ssize_t elements, char **stage,
                                 char **other) noexcept nogil:
    """Combine the taps along all rows of the stage, `elements` together: each pass makes running maxima of up to five
    times as many neighbours. Then one unit of each stride stays. The results are in `stage`, which is the other half
    then if they were stored there."""
    cdef Py_ssize_t unit = plan.unit, stride = plan.stride, size = plan.comparison.bytes
    cdef Py_ssize_t taps = g.kernel[2], reached = 1, next
    cdef const char *runs[MAX_PASS_RUNS]
    cdef int count
    while reached < taps:
        next = min(taps, MAX_PASS_RUNS * reached)
        count = 0
        while count * reached < next:
            runs[count] = stage[0] + min(count * reached, next - reached) * g.dilation[2] * unit * size
            count += 1
        reached = next
        best_of_runs(&plan.comparison, runs, count, other[0],
                     elements - (reached - 1) * g.dilation[2] * unit, True)
        stage[0], other[0] = other[0], stage[0]
    if stride > 1:
        pack_row(<int> size, other[0], stage[0], stride * unit * size, elements // (stride * unit), unit)
        stage[0], other[0] = other[0], stage[0]


cdef struct Staged:
    # The rows in the stage: of one layer, or of several where planes are small.
    Py_ssize_t rows
    int parts
    Py_ssize_t part_rows[MAX_STAGED_PARTS]
    char *part_pooled[MAX_STAGED_PARTS]     # where their results go


cdef inline void plan_buffers(const Job *job, const SeparableBlock *block, const Blocked *plan, char *scratch,
                              FilterLayer *layer) noexcept nogil:
    """The buffers in `scratch`, and what all layers of a block have in common."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t unit = plan.unit, columns = span_of(g, 2, block.count[2]), size = job.item_size
    cdef Py_ssize_t low = clamp(-block.first[2], 0, columns)
    layer.low = low * unit
    layer.elements = clamp(g.full[2] - block.first[2], low, columns) * unit - layer.low
    layer.pitch = stage_pitch(plan, columns)
    layer.row_bytes = plan.row_elements * size
    layer.padding = scratch
    layer.running = layer.padding + layer.row_bytes
    layer.stage = <char *> align_to_cache_line(layer.running + plan.running_rows * layer.row_bytes)
    layer.other = <char *> align_to_cache_line(layer.stage + (plan.stage_elements + SPARE_ELEMENTS) * size)
    layer.first_row = block.first[1]
    layer.is_running = plan.running_rows > 0
    layer.is_stacked = (not layer.is_running and g.kernel[0] * g.kernel[1] > 1
                        and branch_counted("short rows that follow each other",
                                           layer.elements * size <= STACKED_ROW_BYTES // g.stride[1])
                        and job.full.axis_bytes[1] == layer.elements * size)
    fill(<int> size, layer.padding, plan.row_elements if layer.is_running
         else whole_vectors(layer.pitch - layer.elements, size), job.lowest)


cdef inline void_noinline store_staged(const Job *job, const SeparableBlock *block, const Blocked *plan,
                                       FilterLayer *layer, Staged *staged) noexcept nogil:
    """Combine the columns of all rows in the stage, store the results, and leave the stage empty."""
    cdef Py_ssize_t size = job.item_size, pitch = layer.pitch // plan.stride * size
    cdef Py_ssize_t bytes = job.pooled.axis_bytes[1]
    cdef const char *results
    cdef int i
    combine_columns(&job.g, plan, staged.rows * layer.pitch, &layer.stage, &layer.other)
    results = layer.stage
    for i in range(staged.parts):
        copy_rows(staged.part_pooled[i], bytes, results, pitch, staged.part_rows[i],
                  block.count[2] * plan.unit * size)
        results += staged.part_rows[i] * pitch
    staged.rows = staged.parts = 0


cdef inline bint filter_layer(const Job *job, const SeparableBlock *block, const Blocked *plan, FilterLayer *layer,
                              Staged *staged, char *pooled) noexcept nogil:
    """Put the windows in one layer of a block into the stage, and store it whenever it is full. Returns whether the
    layer has a NaN or a negative zero: then the results are worth nothing."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t checked = 0, row = 0, rows, last, most = plan.stage_elements // layer.pitch
    # Stacked rows take more room: the rows that the stride leaves out are combined with them.
    cdef Py_ssize_t at_once = max(most // (g.stride[1] if layer.is_stacked else 1), <Py_ssize_t> 1)
    while row < block.count[1]:
        if staged.rows == most or branch_counted("a stage of many layers", staged.parts == MAX_STAGED_PARTS):
            store_staged(job, block, plan, layer, staged)
        rows = min(min(at_once, most - staged.rows), block.count[1] - row)
        last = span_of(g, 1, row + rows)
        if has_odd_rows(job, &plan.comparison, layer, checked, last):
            return True
        checked = max(checked, last)
        assert_in_block((staged.rows + rows) * layer.pitch <= plan.stage_elements)
        assert_in_block(staged.parts < MAX_STAGED_PARTS)
        combine_rows(job, &plan.comparison, layer, row, rows,
                     layer.stage + staged.rows * layer.pitch * job.item_size)
        staged.part_rows[staged.parts] = rows
        staged.part_pooled[staged.parts] = pooled + row * job.pooled.axis_bytes[1]
        staged.parts += 1
        staged.rows += rows
        row += rows
    return False


cdef inline bint filter_block(const Job *job, const SeparableBlock *block, const Blocked *plan,
                              char *scratch) noexcept nogil:
    """Pool a block. Returns whether it has a NaN or a negative zero: then it is to be pooled in raster order."""
    cdef const Geometry *g = &job.g
    cdef const char *plane
    cdef char *pooled
    cdef Py_ssize_t channels = block.count[CHANNEL] // plan.unit, channel, d
    cdef FilterLayer layer
    cdef Staged staged
    plan_buffers(job, block, plan, scratch, &layer)
    staged.rows = staged.parts = 0
    for channel in range(channels):
        plane = block.full + (block.first[CHANNEL] + channel) * job.full.channel_bytes
        pooled = block.pooled + channel * job.pooled.channel_bytes
        layer.corner = plane + (block.first[2] * plan.unit + layer.low) * job.item_size
        layer.limit = end_of(job, plane, plan.unit * job.item_size)
        for d in range(block.count[0]):
            layer.depth, layer.group = block.first[0] + d * g.stride[0], NO_GROUP
            if filter_layer(job, block, plan, &layer, &staged, pooled + d * job.pooled.axis_bytes[0]):
                return True
    store_staged(job, block, plan, &layer, &staged)
    return False


cdef inline Py_ssize_t blocked_bytes(const Job *job, const Blocked *plan) noexcept nogil:
    """Bytes of scratch memory for any block: filter has a row of padding, the running maxima, and two stages."""
    cdef Py_ssize_t elements = plan.row_elements * (1 + plan.running_rows) + 2 * (plan.stage_elements + SPARE_ELEMENTS)
    cdef Py_ssize_t filtered = elements * plan.comparison.bytes + 2 * CACHE_LINE if plan.unit else 0
    return max(filtered, separable_bytes(job, &plan.blocks))


cdef inline void pool_blocks(const Job *job, Py_ssize_t task, Found *found, void *_, void *__) noexcept nogil:
    """One task: some blocks, filtered, or else pooled in raster order."""
    cdef const Blocked *plan = <const Blocked *> job.plan
    cdef Py_ssize_t blocks = separable_blocks(&plan.blocks), block_number
    cdef char *rest = found.scratch
    cdef char *room = next_part(&rest, blocked_bytes(job, plan))
    cdef SeparableBlock block
    for block_number in range(blocks * task // job.tasks, blocks * (task + 1) // job.tasks):
        find_block(job, &plan.blocks, block_number, &block)
        if not plan.unit or branch_counted("something odd among a block's elements",
                                           filter_block(job, &block, plan, room)):
            separate(job, &plan.blocks, &block, room)
        elif job.indices.data != NULL:
            search_block(job, &block)
