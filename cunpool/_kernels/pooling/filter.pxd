# Filtering: values alone, of contiguous rows, where nothing has to be packed. The rows of a window are held against
# each other where they lie, then neighbours along the row that comes of it, for many rows at once where they are short.
# A row of interleaved channels is a row like any other, in which neighbours are a unit apart: as many cells as there
# are channels.
#
# In whatever order numbers are compared, the highest is the same, but for NaN, and for zeros of either sign: blocks
# that have a NaN or a negative zero are pooled in raster order instead (`separable.pxd`). Floats in windows of 3 are
# held against each other in that order at once (`threes.pxd`), and pooled so only where there may be a NaN.
from libc.string cimport memcpy

from cunpool._kernels.common.caches cimport align_to_cache_line, CACHE_LINE, prefetch_whole_rows
from cunpool._kernels.common.checks cimport assert_in_block, branch_counted
from cunpool._kernels.common.copy_strided cimport copy_strided
from cunpool._kernels.common.geometry cimport clamp, Geometry, is_last_alone_over_end, span_of
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.pooling.compare cimport end_of, first_tap, vector_of, whole_vectors
from cunpool._kernels.pooling.numbers cimport copy_rows, Numbers
from cunpool._kernels.pooling.separable cimport Separable, SEPARABLE_CHANNEL, SeparableBlock
from cunpool._kernels.pooling.threes cimport HELD_ROWS, held_threes

cdef enum:
    IN_TURN = 32            # rows of a window, or cells along a row, that are held against each other at once
    SCATTERED = 5  # strides from which on `copy_strided` takes cells one by one, as it takes wide ones from 3 on
    SHORT_ROW = 1 << 9      # bytes of a row that is not worth a loop of its own
    FILTERED_MOST = 1 << 23     # bytes that a block, or the rows that are reached, may have
    SPARSE = 8              # cells of a block for each one that a window looks at, of which more are not filtered
    SPARE = 128             # cells behind a stage's own, so that its last row may be done in whole vectors
    STAGE = 1 << 13         # bytes of the rows that go along their windows together, unless a single one has more


cdef struct Filter:
    # What is the same for all blocks that are filtered.
    Separable blocks        # which these are, and how those with something odd are pooled
    Py_ssize_t unit         # cells from one column to the next: 1, or all channels
    Py_ssize_t stride       # columns from one window to the next, where a block has several in a row
    bint rows_in_turn       # whether the rows of a window are compared in turn, or reached step by step,
    bint cells_in_turn      # and so with the cells along a row
    Py_ssize_t row          # cells of the longest row and what is behind it, in whole vectors,
    Py_ssize_t levels       # of all rows that are reached,
    Py_ssize_t stage        # and of the rows that go along their windows together


cdef struct Run:
    # A block: its first window, or channel, along each axis, and how many; its first cell, which may lie in the
    # padding, and its cells along each axis of the windows.
    Py_ssize_t begin[4]
    Py_ssize_t count[4]
    Py_ssize_t start[4]
    Py_ssize_t size[3]


cdef struct Layer:
    # The rows that a layer of a block's windows sees, and where they are brought.
    Py_ssize_t depth        # the first cell along the depth,
    const char *corner      # and that of a row, in the plane's first one
    const char *limit       # where the plane's memory ends
    Py_ssize_t low          # cells of the padding before a row,
    Py_ssize_t cells        # of the array,
    Py_ssize_t pitch        # and from one row to the next on the stage, where windows of all begin in step
    Py_ssize_t most         # so many rows go along their windows together
    bint short              # whether rows follow each other, and are too short for a loop of their own
    char *padding           # as much as a row of the stage
    char *levels            # rows that are reached
    char *stage
    char *other             # the stage when that is read


cdef inline bint pays_in_turn(Py_ssize_t kernel, Py_ssize_t stride) noexcept nogil:
    """Whether so many neighbours are looked at in turn, four of them at once, and not in steps that reach ever more."""
    return kernel <= IN_TURN and (branch_counted("so few neighbours", kernel <= 5)
                                  or branch_counted("strides of neighbours", kernel <= 4 * stride))


cdef inline Py_ssize_t stage_pitch(const Filter *filter, Py_ssize_t width) noexcept nogil:
    """Cells from one row to the next where several go along their windows together: windows of all begin in step."""
    return (width + filter.stride - 1) // filter.stride * filter.stride * filter.unit


cdef inline Py_ssize_t filter_room(const Filter *filter) noexcept nogil:
    """Bytes that filtering needs: a row of the padding, the rows that are reached, and two stages."""
    return (filter.row + filter.levels + 2 * (filter.stage + SPARE)) * filter.blocks.item_bytes + 2 * CACHE_LINE


cdef inline void plan_filter(const Geometry *g, Py_ssize_t unit, Filter *filter) noexcept nogil:
    """How blocks are filtered, of units that are known."""
    cdef Py_ssize_t most = filter.blocks.axis[2].most, width = span_of(g, 2, most)
    cdef int item_size = filter.blocks.item_bytes
    filter.unit = unit
    # Of windows one by one a stride means nothing, and may be anything.
    filter.stride = g.stride[2] if most > 1 else 1
    filter.rows_in_turn = g.kernel[0] > 1 or pays_in_turn(g.kernel[1], g.stride[1])
    filter.cells_in_turn = (pays_in_turn(g.kernel[2], filter.stride) and (filter.unit == 1 or filter.stride == 1)
                            and (branch_counted("strides by which vectors bring cells together",
                                                filter.stride < SCATTERED) or item_size == 8 or g.kernel[2] < 3))
    # The padding behind a row may be longer than what is seen of it.
    filter.row = whole_vectors(stage_pitch(filter, width), min(item_size, 2))
    filter.levels = 0 if filter.rows_in_turn else span_of(g, 1, filter.blocks.axis[1].most) * filter.row
    filter.stage = max(<Py_ssize_t> STAGE // item_size, stage_pitch(filter, width))


cdef inline const char *filter_limits_why_not(const Geometry *g, const Filter *filter) noexcept nogil:
    """Why blocks are too large to be filtered, or their windows too far apart; or NULL."""
    cdef Py_ssize_t elements = filter.blocks.axis[SEPARABLE_CHANNEL].most, windows = elements, span
    cdef bint single = True, fits = True
    cdef int axis
    for axis in range(3):
        span = span_of(g, axis, filter.blocks.axis[axis].most)
        fits &= span <= FILTERED_MOST // elements
        elements *= span if fits else 1
        windows *= filter.blocks.axis[axis].most
        single &= filter.blocks.axis[axis].most == 1
    # A single window may be too much, with all channels as units or with its rows in whole vectors.
    if not fits or max(elements, filter.levels) * filter.blocks.item_bytes > FILTERED_MOST:
        return "a block does not fit a buffer"  # unreached: nearly all such windows have no blocks at all
    if branch_counted("units that leave room for one window", filter.unit > 1 and single
                      and (span_of(g, 0, 1) > 2 * g.stride[0] or span_of(g, 1, 1) > 2 * g.stride[1]
                           or span_of(g, 2, 1) > 2 * g.stride[2])):
        return "all channels of more than one window do not fit a block"
    if branch_counted("blocks of cells that hardly any window looks at",
                      elements > SPARSE * windows * min(g.kernel[0] * g.kernel[1] * g.kernel[2], elements)):
        return "windows use less than an eighth of the elements between them"
    return NULL


cdef inline int next_step(Py_ssize_t kernel, Py_ssize_t *reached, Py_ssize_t *shift) noexcept nogil:
    """How far the runs are shifted, of which the highest reach four times as many neighbours, or as far as needed."""
    cdef Py_ssize_t first = min(reached[0], kernel - reached[0])
    cdef Py_ssize_t second = min(reached[0] + first, kernel - reached[0] - first)
    reached[0] += first + second
    shift[0] = 0
    shift[1] = first
    if second == 0:
        return 2
    if first == second:
        shift[2] = 2 * first
        return 3
    shift[2] = second
    shift[3] = first + second
    return 4


cdef inline void check_rows(const Job *job, const Run *run, const Numbers *numbers, const Layer *layer,
                            Py_ssize_t first, Py_ssize_t last, bint *odd) noexcept nogil:
    """Look at some rows of a block, in all layers that its windows see, for what has to be reached instead."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t pitch = job.full.axis_bytes[1], cells = layer.cells, d, k, rows, whole
    cdef const char *row
    if numbers.look_for_odd == NULL:
        return
    first = max(run.start[1] + first, 0)
    rows = min(run.start[1] + last, g.full[1]) - first
    if rows <= 0:
        return
    # As one row, with what no window sees behind each, where that is the array's and little.
    if pitch == job.full.axis_bytes[2] * g.full[2] and pitch - cells * numbers.size <= pitch // 8:
        cells += (rows - 1) * (pitch // numbers.size)
        rows = 1
    whole = whole_vectors(cells, numbers.size)
    for k in range(g.kernel[0]):
        d = layer.depth + k * g.dilation[0]
        if not 0 <= d < g.full[0]:
            continue
        row = layer.corner + d * job.full.axis_bytes[0] + first * pitch
        for _ in range(rows):
            numbers.look_for_odd(row, whole if rows == 1 and row + whole * numbers.size <= layer.limit else cells, odd)
            row += pitch


cdef inline void highest_exactly(const Numbers *numbers, const char **runs, int count, char *into,
                                 Py_ssize_t cells) noexcept nogil:
    """The highest of some runs where nothing behind these cells may be read.

    In whole vectors, the last of which overlaps the one before. To compare cells again changes nothing, even where
    `into` is the first run.
    """
    cdef Py_ssize_t vector = vector_of(numbers.size), left = cells % vector if cells > vector else 0
    cdef const char *last[IN_TURN]
    cdef int i
    numbers.highest_of(runs, count, into, cells - left)
    if left:
        for i in range(count):
            last[i] = runs[i] + (cells - vector) * numbers.size
        numbers.highest_of(last, count, into + (cells - vector) * numbers.size, vector)


cdef inline void reach_rows(const Job *job, const Run *run, const Filter *filter, const Numbers *numbers,
                            const Layer *layer) noexcept nogil:
    """All steps along the height but the last."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t rows = run.size[1], reached = 1, before, whole = whole_vectors(layer.cells, numbers.size), r, h
    cdef Py_ssize_t pitch = filter.row * numbers.size
    cdef Py_ssize_t shift[4]
    cdef const char *runs[4]
    cdef int count, i
    cdef bint overrun
    assert_in_block(rows * filter.row <= filter.levels and whole <= filter.row)
    numbers.fill_lowest(layer.padding, filter.row)
    while True:
        before = reached
        count = next_step(g.kernel[1], &reached, shift)
        if reached == g.kernel[1]:
            break
        rows -= (reached - before) * g.dilation[1]
        for r in range(rows):
            overrun = True
            for i in range(count):
                runs[i] = layer.levels + (r + shift[i] * g.dilation[1]) * pitch
                if before == 1:
                    h = run.start[1] + r + shift[i] * g.dilation[1]
                    runs[i] = layer.padding
                    if 0 <= h < g.full[1]:
                        runs[i] = layer.corner + layer.depth * job.full.axis_bytes[0] + h * job.full.axis_bytes[1]
                        overrun &= runs[i] + whole * numbers.size <= layer.limit
            if overrun:
                numbers.highest_of(runs, count, layer.levels + r * pitch, whole)
            else:
                highest_exactly(numbers, runs, count, layer.levels + r * pitch, layer.cells)


cdef inline int last_step(Py_ssize_t kernel, Py_ssize_t *shift) noexcept nogil:
    """The step that reaches all of a window."""
    cdef Py_ssize_t reached = 1
    cdef int count = 1
    while reached < kernel:
        count = next_step(kernel, &reached, shift)
    return count


cdef inline void cells_in_turn(const Geometry *g, const Filter *filter, const Numbers *numbers, Py_ssize_t cells,
                               char **stage, char **other) noexcept nogil:
    """Along the rows of a stage, each cell of a window in turn; those `stride` apart are brought together first."""
    cdef Py_ssize_t size = numbers.size, windows = cells // filter.stride, parts = 0, at
    cdef Py_ssize_t part_of[IN_TURN]
    cdef const char *runs[IN_TURN]
    cdef int taps = <int> g.kernel[2], tap, same
    if filter.stride == 1:
        for tap in range(taps):
            runs[tap] = stage[0] + tap * g.dilation[2] * filter.unit * size
        cells -= (taps - 1) * g.dilation[2] * filter.unit
        numbers.highest_of(runs, taps, other[0], whole_vectors(cells, size))
        stage[0], other[0] = other[0], stage[0]
        return
    for tap in range(taps):
        at = tap * g.dilation[2]
        same = 0
        while same < tap and (at - same * g.dilation[2]) % filter.stride:
            same += 1
        part_of[tap] = parts if same == tap else part_of[same]
        if same == tap:
            copy_strided(size, other[0] + parts * windows * size, stage[0] + at % filter.stride * size, filter.stride,
                         1, windows)
            parts += 1
        runs[tap] = other[0] + (part_of[tap] * windows + at // filter.stride) * size
    at = (taps - 1) * g.dilation[2] // filter.stride
    numbers.highest_of(runs, taps, stage[0], whole_vectors(windows - at, size))


cdef inline void reach_cells(const Geometry *g, const Filter *filter, const Numbers *numbers, Py_ssize_t cells,
                             char **stage, char **other) noexcept nogil:
    """Along the rows of a stage, in steps; then every `stride`-th is left."""
    cdef Py_ssize_t size = numbers.size, reached = 1
    cdef Py_ssize_t shift[4]
    cdef const char *runs[4]
    cdef int count, i
    while reached < g.kernel[2]:
        count = next_step(g.kernel[2], &reached, shift)
        for i in range(count):
            runs[i] = stage[0] + shift[i] * g.dilation[2] * filter.unit * size
        numbers.highest_of(runs, count, other[0],
                           whole_vectors(cells - (reached - 1) * g.dilation[2] * filter.unit, size))
        stage[0], other[0] = other[0], stage[0]
    if filter.stride > 1:
        copy_strided(size, other[0], stage[0], filter.stride, filter.unit, cells // (filter.stride * filter.unit))
        stage[0], other[0] = other[0], stage[0]


cdef inline int rows_seen(const Job *job, const Run *run, const Layer *layer, Py_ssize_t row,
                          const char **runs) noexcept nogil:
    """The rows of the array that one row of windows sees, and how many."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t d, h, kd, kh
    cdef int count = 0
    for kd in range(g.kernel[0]):
        for kh in range(g.kernel[1]):
            d = layer.depth + kd * g.dilation[0]
            h = run.start[1] + row * g.stride[1] + kh * g.dilation[1]
            if 0 <= d < g.full[0] and 0 <= h < g.full[1]:
                assert_in_block(count < IN_TURN)
                runs[count] = layer.corner + d * job.full.axis_bytes[0] + h * job.full.axis_bytes[1]
                count += 1
    return count


cdef inline void inner_rows(const Geometry *g, const Run *run, Py_ssize_t *first, Py_ssize_t *last) noexcept nogil:
    """Which rows of a block's windows reach over neither the upper edge nor the lower one: from the first to before the
    last."""
    first[0] = first_tap(run.start[1], g.stride[1])
    last[0] = first_tap(run.start[1] + (g.kernel[1] - 1) * g.dilation[1] - g.full[1], g.stride[1])


cdef inline void highest_rows(const Job *job, const Run *run, const Filter *filter, const Numbers *numbers,
                              const Layer *layer, Py_ssize_t row, Py_ssize_t cells, char *into) noexcept nogil:
    """The highest of the rows that one row of windows sees; where `cells` are more than a row's, also of those that the
    rows of windows behind it see, were they next to each other."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t whole = whole_vectors(cells, numbers.size)
    cdef Py_ssize_t shift[4]
    cdef const char *runs[IN_TURN]
    cdef int count = 0, i
    cdef bint overrun = True
    if filter.rows_in_turn:
        count = rows_seen(job, run, layer, row, runs)
        for i in range(count):
            overrun &= runs[i] + whole * numbers.size <= layer.limit
    else:
        count = last_step(g.kernel[1], shift)
        for i in range(count):
            runs[i] = layer.levels + (row * g.stride[1] + shift[i] * g.dilation[1]) * filter.row * numbers.size
    assert_in_block(0 < count <= IN_TURN)
    # What is looked at beyond a row is in the array, and is overwritten by what follows here.
    if overrun:
        numbers.highest_of(runs, count, into, whole)
    else:
        highest_exactly(numbers, runs, count, into, cells)


cdef inline void plan_layer(const Job *job, const Run *run, const Filter *filter, Py_ssize_t size, const char *plane,
                            Py_ssize_t depth, char *room, Layer *layer) noexcept nogil:
    """Which rows of a plane these windows see, and where in the `room` they are brought."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t unit = filter.unit
    layer.depth = depth
    layer.low = clamp(-run.start[2], 0, run.size[2]) * unit
    layer.cells = clamp(g.full[2] - run.start[2], layer.low // unit, run.size[2]) * unit - layer.low
    layer.corner = plane + (run.start[2] * unit + layer.low) * size
    layer.limit = end_of(job, plane, unit * size)
    layer.pitch = stage_pitch(filter, run.size[2])
    layer.padding = room
    layer.levels = layer.padding + filter.row * size
    layer.stage = <char *> align_to_cache_line(layer.levels + filter.levels * size)
    layer.other = <char *> align_to_cache_line(layer.stage + filter.stage * size + SPARE * size)
    layer.short = (filter.rows_in_turn and g.kernel[0] * g.kernel[1] > 1
                   and branch_counted("short rows that follow each other",
                                      layer.cells * size <= SHORT_ROW // g.stride[1])
                   and job.full.axis_bytes[1] == layer.cells * size)
    layer.most = max(<Py_ssize_t> 1, filter.stage // layer.pitch // (g.stride[1] if layer.short else 1))


cdef inline void bring_rows(const Job *job, const Run *run, const Filter *filter, const Numbers *numbers,
                            const Layer *layer, Py_ssize_t row, Py_ssize_t rows) noexcept nogil:
    """Bring the highest of what some rows of windows see to the stage, with the padding between."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t size = numbers.size, pitch = layer.pitch, gap = pitch - layer.cells, first = row, last = row, i, k
    cdef char *to = layer.stage + layer.low * size
    assert_in_block(rows * pitch <= filter.stage and whole_vectors(gap, size) <= filter.row)
    numbers.fill_lowest(layer.padding, whole_vectors(gap, size))
    numbers.fill_lowest(layer.stage, layer.low)
    if layer.short:
        inner_rows(g, run, &first, &last)
        first = clamp(first, row, row + rows)
        last = clamp(last, first, row + rows)
        if first < last:  # at once, and with them those that a stride leaves out
            i = ((last - first - 1) * g.stride[1] + 1) * layer.cells
            assert_in_block(i <= filter.stage)
            highest_rows(job, run, filter, numbers, layer, first, i, layer.other)
    for i in range(rows):
        if not first <= row + i < last:
            highest_rows(job, run, filter, numbers, layer, row + i, layer.cells, to)
        if i == rows - 1:
            gap -= layer.low
        # Behind this row, and before the next: in whole vectors, whose rest the next row overwrites.
        for k in range(0, gap * size, 16):
            memcpy(to + layer.cells * size + k, layer.padding + k, 16)
        to += pitch * size
    copy_rows(layer.stage + (layer.low + (first - row) * pitch) * size, pitch * size, layer.other,
              g.stride[1] * layer.cells * size, last - first, layer.cells * size)


cdef inline bint held_known(const Job *job, const Filter *filter, const Numbers *numbers) noexcept nogil:
    """Whether `held_threes` knows these windows. It looks at one row after the other: where another axis is taken for
    the width, that is raster order, by which the first of two zeros stays, for windows of one row alone."""
    cdef const Geometry *g = &job.g
    return (numbers.held and filter.unit == 1 and g.kernel[2] == 3 and g.dilation[2] == 1
            and branch_counted("windows a cell or two apart", filter.stride <= 2)
            and branch_counted("rows with one window over their end", is_last_alone_over_end(g, 2))
            and branch_counted("windows of few rows", g.kernel[0] * g.kernel[1] <= HELD_ROWS)
            and (branch_counted("rows in raster order", job.raster_axes[2] == 2) or g.kernel[0] * g.kernel[1] == 1))


cdef inline int hold_layer(const Job *job, const Run *run, const Filter *filter, const Layer *layer,
                           char *into) noexcept nogil:
    """The windows of a block in one layer of the results, floats held against each other in registers: 1 where that was
    done, 0 where it can't be, and -1 where there may have been a NaN."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t row = 0, step = job.pooled.axis_bytes[1], first, last, lines
    # Of windows one by one a stride means nothing, and may be anything.
    cdef Py_ssize_t next = g.stride[1] * job.full.axis_bytes[1] if run.count[1] > 1 else 0
    cdef Py_ssize_t ahead = 0
    cdef const char *runs[IN_TURN]
    cdef int outcome = 1, i
    # The first vector of windows is masked, and the last one, which begins with a window that ends in the array.
    assert_in_block(layer.low <= 2 and (run.count[2] == 1 or layer.low + layer.cells >= (run.count[2] - 2)
                                        * filter.stride + 3))
    # That takes beyond the caches as little as 0.6 of the time. Within them windows a cell apart take longer so.
    if next > 0 and (filter.stride == 2 or job.nontemporal):
        ahead = prefetch_whole_rows(next)
    inner_rows(g, run, &first, &last)
    while row < run.count[1] and outcome > 0:
        lines = min(last, run.count[1]) - row if first <= row < last else 1
        for i in range(rows_seen(job, run, layer, row, runs), HELD_ROWS):
            runs[i] = runs[i - 1]  # which changes nothing
        outcome = held_threes(<int> filter.stride, runs, next, ahead, lines, layer.cells, layer.low, run.count[2],
                              into + row * step, step, job.flip)
        row += lines
    return outcome


cdef inline void filter_layer(const Job *job, const Run *run, const Filter *filter, const Numbers *numbers,
                              const char *plane, Py_ssize_t depth, char *room, char *into, bint *odd) noexcept nogil:
    """The windows of a block in one layer of the results, unless there is something odd among their cells."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t size = numbers.size, step = job.pooled.axis_bytes[1], seen = 0, row = 0, rows, last
    cdef Layer layer
    cdef int outcome
    plan_layer(job, run, filter, size, plane, depth, room, &layer)
    if held_known(job, filter, numbers):
        outcome = hold_layer(job, run, filter, &layer, into)
        odd[0] |= outcome < 0
        if outcome:
            return
    if not filter.rows_in_turn:
        seen = run.size[1]
        check_rows(job, run, numbers, &layer, 0, seen, odd)
        if odd[0]:
            return
        reach_rows(job, run, filter, numbers, &layer)
    while row < run.count[1]:
        rows = min(layer.most, run.count[1] - row)
        last = span_of(g, 1, row + rows)
        check_rows(job, run, numbers, &layer, seen, last, odd)
        if odd[0]:
            return
        seen = max(seen, last)
        bring_rows(job, run, filter, numbers, &layer, row, rows)
        if filter.cells_in_turn:
            cells_in_turn(g, filter, numbers, rows * layer.pitch, &layer.stage, &layer.other)
        else:
            reach_cells(g, filter, numbers, rows * layer.pitch, &layer.stage, &layer.other)
        copy_rows(into + row * step, step, layer.stage, layer.pitch // filter.stride * size, rows,
                  run.count[2] * filter.unit * size)
        row += rows


cdef inline bint filter_block(const Job *job, const SeparableBlock *block, const Filter *filter,
                              const Numbers *numbers, Py_ssize_t image, char *room) noexcept nogil:
    """Filter a block. Returns whether there is something odd in it: then it is to be done otherwise."""
    cdef const Geometry *g = &job.g
    cdef const char *plane
    cdef char *into
    cdef Py_ssize_t channel, d
    cdef Run run
    cdef bint odd = False
    cdef int axis
    for axis in range(4):
        run.begin[axis], run.count[axis], run.start[axis] = block.begin[axis], block.count[axis], block.first[axis]
        if axis < 3:
            run.size[axis] = span_of(g, axis, run.count[axis])
    for channel in range(run.begin[SEPARABLE_CHANNEL],
                         run.begin[SEPARABLE_CHANNEL] + run.count[SEPARABLE_CHANNEL] // filter.unit):
        plane = job.full.data + image * job.full.batch_bytes + channel * job.full.channel_bytes
        into = (job.pooled.data + image * job.pooled.batch_bytes + channel * job.pooled.channel_bytes + run.begin[1]
                * job.pooled.axis_bytes[1] + run.begin[2] * job.pooled.axis_bytes[2])
        for d in range(run.count[0]):
            filter_layer(job, &run, filter, numbers, plane, run.start[0] + d * g.stride[0], room,
                         into + (run.begin[0] + d) * job.pooled.axis_bytes[0], &odd)
            if odd:
                return True
    return False
