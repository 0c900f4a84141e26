# Dealing out: the cells of rows that follow each other in memory, so that those of neighbouring windows are neighbours.
# A row's cells are columns of one channel, or of all where these are interleaved; and along which axis it goes does not
# matter, as long as the windows' cells are compared in raster order.
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from cunpool._kernels.common.arrays cimport plane_address, raster_stride
from cunpool._kernels.common.caches cimport (
    align_to_cache_line, PREFETCH_BYTES, PREFETCH_MAX_ROW_BYTES, prefetch_range, prefetch_whole_rows)
from cunpool._kernels.common.checks cimport assert_in_block, branch_counted
from cunpool._kernels.common.copy_strided cimport copy_strided, deinterleave2
from cunpool._kernels.common.geometry cimport element_count, Geometry
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.types cimport void_noinline
from cunpool._kernels.pooling.compare cimport (
    compare_windows, first_tap, inside, number, place_of, TAPS, Taps, vector_of)
from cunpool._kernels.pooling.write cimport base_of, LINE, next_row, Target, target_of, VECTOR, write

cdef enum:
    SHORT = 32              # rows with no more windows than this are dealt out together,
    SHORT_BYTES = 128       # and overlapping ones of as many bytes, for what fills no vector goes cell by cell
    CELLS = 4096            # cells of all these windows together,
    CELLS_ROOM = CELLS + LINE + 2 * VECTOR      # and with those that may be read behind them


cdef inline void take_columns(char *phases, Py_ssize_t pitch, const char *row, Py_ssize_t size, Py_ssize_t unit,
                              Py_ssize_t stride, Py_ssize_t used, Py_ssize_t count) noexcept nogil:
    """Deal out columns to as many buffers, `pitch` bytes apart, as the stride is: `count` to each that is used."""
    cdef Py_ssize_t column = unit * size, i
    # The last ones of several cells by themselves: the others go as whole vectors, which reach beyond what is theirs.
    cdef Py_ssize_t some = count if unit == 1 else max(count - 16 // column - 1, <Py_ssize_t> 0)
    if stride == 1:
        memcpy(phases, row, count * column)
        return
    if stride == 2 and used == 2 and unit == 1:
        deinterleave2(size, phases, phases + pitch, row, count)
        return
    for _ in range(used):
        copy_strided(size, phases, row, stride, unit, some)
        for i in range(some, count):
            memcpy(phases + i * column, row + i * stride * column, column)
        phases += pitch
        row += column


cdef inline void take_inside(char *phases, Py_ssize_t pitch, const char *row, Py_ssize_t size, Py_ssize_t unit,
                             Py_ssize_t stride, Py_ssize_t used, Py_ssize_t first, Py_ssize_t count,
                             Py_ssize_t width) noexcept nogil:
    """`take_columns` from number `first` on; columns outside the row's `width` are left out."""
    cdef Py_ssize_t low = first_tap(first, stride), high = min(count, (width - first) // stride), column = unit * size
    if low < high:
        take_columns(phases + low * column, pitch, row + (first + low * stride) * column, size, unit, stride, used,
                     high - low)
    else:
        high = low
    # What is left belongs to windows at the edges.
    take_rest(phases, pitch, row, column, stride, first, max(first, 0), min(first + low * stride, width))
    take_rest(phases, pitch, row, column, stride, first, first + high * stride, min(first + count * stride, width))


cdef inline void take_rest(char *phases, Py_ssize_t pitch, const char *row, Py_ssize_t column, Py_ssize_t stride,
                           Py_ssize_t first, Py_ssize_t low, Py_ssize_t high) noexcept nogil:
    """Deal out a few columns, of so many bytes, one by one."""
    cdef Py_ssize_t i
    for i in range(low, high):
        memcpy(phases + (i - first) % stride * pitch + (i - first) // stride * column, row + i * column, column)


cdef struct Block:
    # Pooled rows of a plane that are pooled together: `rows` from (d, h) on, from w on `width` windows of each.
    Py_ssize_t d, h, w, rows, width
    Py_ssize_t pitch        # from one row's windows to the next row's in the buffers
    Py_ssize_t unit         # cells of a column: 1, or all channels
    bint whole              # whether these are all rows from the first to the last, as they lie in memory


cdef struct Rows:
    # What pooling row by row needs to know: whether windows of 2 are compared where they lie, and their rows written
    # together, or else whether blocks fit the buffers, and which blocks those are.
    bint by_twos, together, fits
    Block most


cdef inline Py_ssize_t over_of(const Geometry *g) noexcept nogil:
    """How many cells of each phase a row's last window reaches beyond its own."""
    return (g.kernel[2] - 1) * g.dilation[2] // g.stride[2]


cdef inline Py_ssize_t phase_length(const Geometry *g, const Block *block) noexcept nogil:
    """How many columns of a block are dealt to each phase of a row; of a whole block, to each phase of a layer."""
    if block.whole:
        return (block.rows * block.pitch + over_of(g)
                + ((g.kernel[1] - 1) * g.dilation[1] * g.full[2] + g.stride[2] - 1) // g.stride[2])
    return block.rows * block.pitch


cdef inline Py_ssize_t dealt_cells(const Geometry *g, const Block *block) noexcept nogil:
    """How many cells of a block are dealt out in all: what a buffer needs, where it is sized and where it is filled."""
    return layer_cells(g, block) * g.kernel[0]


cdef inline Py_ssize_t layer_cells(const Geometry *g, const Block *block) noexcept nogil:
    return (1 if block.whole else g.kernel[1]) * g.stride[2] * phase_length(g, block) * block.unit


cdef inline Py_ssize_t ahead_of(const Job *job, const Block *block) noexcept nogil:
    """How many bytes ahead of what is dealt out more of the array is fetched: rows further on, or where these are long,
    or nothing but parts of one row, more of the same. 0 within the caches."""
    if not job.nontemporal:
        return 0
    if not block.whole and job.g.kernel[1] > 1 and 0 < job.full.axis_bytes[1] <= PREFETCH_MAX_ROW_BYTES:
        return 2 * prefetch_whole_rows(job.full.axis_bytes[1])
    return PREFETCH_BYTES


cdef inline void_noinline deal(const Job *job, const char *from_plane, const Block *block, const Py_ssize_t *start,
                               char *phases, Py_ssize_t size) noexcept nogil:
    """Deal a block's cells out: layer after layer, and in each the rows of a window one after the other.

    One function for all kinds of number: where GCC has it in each, 3 x 3 beyond the caches takes up to 1.4 times as
    long."""
    cdef const Geometry *g = &job.g
    cdef const char *layer
    cdef Py_ssize_t stride = g.stride[2], column = block.unit * size, length = phase_length(g, block) * column
    cdef Py_ssize_t used = min(stride, (g.kernel[2] - 1) * g.dilation[2] + 1), kd, kh, d, h, row
    cdef Py_ssize_t row_size = (g.stride[1] * g.full[2] if block.whole else stride * block.width) * column
    cdef Py_ssize_t ahead
    for kd in range(g.kernel[0]):
        d = start[0] + kd * g.dilation[0]
        layer = from_plane + d * job.full.axis_bytes[0]
        # Layers and rows that the windows before have read are not fetched again.
        ahead = ahead_of(job, block) if kd >= g.kernel[0] - g.stride[0] else 0
        if 0 <= d < g.full[0] and block.whole:
            if ahead:
                prefetch_range(layer + (start[1] * g.full[2] + start[2]) * column + ahead, block.rows * row_size)
            take_inside(phases, length, layer, size, block.unit, stride, stride, start[1] * g.full[2] + start[2],
                        length // column, g.full[1] * g.full[2])
        elif 0 <= d < g.full[0]:
            # In the order of the memory: that is what processors fetch ahead.
            for row in range(block.rows):
                for kh in range(g.kernel[1]):
                    h = start[1] + row * g.stride[1] + kh * g.dilation[1]
                    if 0 <= h < g.full[1]:
                        if ahead and kh < g.stride[1]:
                            prefetch_range(layer + h * job.full.axis_bytes[1] + start[2] * column + ahead, row_size)
                        take_inside(phases + kh * stride * length + row * block.pitch * column, length,
                                    layer + h * job.full.axis_bytes[1], size, block.unit, stride, used, start[2],
                                    block.pitch, g.full[2])
        phases += layer_cells(g, block) * size


cdef inline void find_dealt(const Job *job, const Block *block, const Py_ssize_t *start, const char *phases,
                            Py_ssize_t size, Py_ssize_t first, Py_ssize_t last, Taps *taps) noexcept nogil:
    """Where the cells of the windows lie that were dealt out, but for those of rows outside the array: of each row of a
    window the cells from the `first` one on, up to the `last`."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t stride = g.stride[2], length = phase_length(g, block), layer = layer_cells(g, block) * size
    cdef Py_ssize_t i, j, k, column
    cdef Py_ssize_t tap[3]
    cdef int slow = job.raster_axes[0], middle = job.raster_axes[1], fast = job.raster_axes[2]
    assert_in_block(element_count(g.kernel) <= TAPS)
    taps.count = 0
    for i in range(g.kernel[slow]):
        tap[slow] = i
        for j in range(g.kernel[middle]):
            tap[middle] = j
            for k in range(g.kernel[fast]):
                tap[fast] = k
                if not (first <= tap[2] < last and 0 <= start[0] + tap[0] * g.dilation[0] < g.full[0]
                        and 0 <= start[1] + tap[1] * g.dilation[1] < g.full[1]):
                    continue
                column = tap[2] * g.dilation[2] + (tap[1] * g.dilation[1] * g.full[2] if block.whole else 0)
                column = (0 if block.whole else tap[1] * stride * length) + column % stride * length + column // stride
                taps.cells[taps.count] = phases + tap[0] * layer + column * block.unit * size
                taps.places[taps.count] = <int32_t> place_of(job, tap[0], tap[1], tap[2])
                taps.count += 1


cdef inline void pool_ends(const Job *job, const Block *block, const Py_ssize_t *start, const number *cells,
                           int *careful, number *best, int32_t *place) noexcept nogil:
    """Compare the windows that reach over a row's ends again, without what is not in the row: for each such window of a
    row those of all rows together."""
    cdef number[LINE + 2 * VECTOR] best_room
    cdef int32_t[LINE + 2 * VECTOR] place_room
    cdef number *end_best = <number *> align_to_cache_line(best_room)
    cdef int32_t *end_place = <int32_t *> align_to_cache_line(place_room)
    cdef Taps taps
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t column = block.unit * <Py_ssize_t> sizeof(number), low = 0, high = block.width
    cdef Py_ssize_t end, window, begin, first, last, row, some, i, channel
    # A whole vector for the channels of a window, though these may be a single one.
    cdef Py_ssize_t vector = vector_of(sizeof(number)), most = LINE // vector
    while low < high and not inside(start[2] + low * g.stride[2], g.kernel[2], g.dilation[2], g.full[2]):
        low += 1
    while high > low and not inside(start[2] + (high - 1) * g.stride[2], g.kernel[2], g.dilation[2], g.full[2]):
        high -= 1
    assert_in_block(block.unit <= vector)
    for end in range(block.width - (high - low)):
        window = end if end < low else end + high - low
        begin = start[2] + window * g.stride[2]
        first = first_tap(begin, g.dilation[2])
        last = min(g.kernel[2], (g.full[2] - begin + g.dilation[2] - 1) // g.dilation[2])
        find_dealt(job, block, start, <const char *> cells, sizeof(number), first, last, &taps)
        for i in range(taps.count):
            taps.cells[i] += window * column
        row = 0
        while row < block.rows:
            some = min(block.rows - row, most)
            compare_windows(&taps, some, block.pitch * column, 0, vector, vector, careful, end_best, end_place)
            for i in range(some):
                for channel in range(block.unit):
                    best[((row + i) * block.pitch + window) * block.unit + channel] = end_best[i * vector + channel]
                    place[((row + i) * block.pitch + window) * block.unit + channel] = end_place[i * vector + channel]
            for i in range(taps.count):
                taps.cells[i] += some * block.pitch * column
            row += some


cdef inline void begin_places(const Block *block, Py_ssize_t step, int32_t *place) noexcept nogil:
    """Count a row's places from its first window, `step` places before the second."""
    cdef Py_ssize_t window, channel
    for window in range(block.width):
        for channel in range(block.unit):
            place[window * block.unit + channel] += <int32_t> (window * step)


cdef inline void_noinline pool_block(const Job *job, Py_ssize_t plane, const Block *block, int *careful,
                                     number *cells) noexcept nogil:
    """Pool a block: deal its cells out, so that those of neighbouring windows are neighbours, and compare."""
    cdef number[LINE + 2 * VECTOR] best_room
    cdef int32_t[LINE + 2 * VECTOR] place_room
    cdef number *best = <number *> align_to_cache_line(best_room)
    cdef int32_t *place = <int32_t *> align_to_cache_line(place_room)
    cdef Taps taps
    cdef const Geometry *g = &job.g
    cdef const char *from_plane = plane_address(&job.full, job.channels, plane)
    cdef Py_ssize_t *at = [block.d, block.h, block.w]
    cdef Py_ssize_t start[3]
    cdef Py_ssize_t lines = block.rows * block.pitch * block.unit, next = g.stride[2] * job.raster_steps[2], i
    cdef Target target = target_of(job, plane, block.d, block.h, block.w, False)
    for i in range(3):
        start[i] = at[i] * g.stride[i] - g.padding[i]
    assert_in_block(lines <= LINE)
    assert_in_block(dealt_cells(g, block) <= CELLS)
    deal(job, from_plane, block, start, <char *> cells, sizeof(number))
    find_dealt(job, block, start, <char *> cells, sizeof(number), 0, g.kernel[2], &taps)
    # Whole vectors are compared. What they make of cells between and behind the windows is not used; but that these are
    # numbers saves time.
    compare_windows(&taps, 1, 0, 0, 0, (lines + 15) // 16 * 16, careful, best, place)
    pool_ends(job, block, start, cells, careful, best, place)
    if block.unit > 1:
        target.value_step = sizeof(number)
        target.index_step = job.index_size
    for i in range(block.rows):
        if block.unit > 1 and not job.code_size:
            begin_places(block, next, place)
        write(&target, base_of(job, block.d, block.h + i, block.w), next if block.unit == 1 else 0,
              block.width * block.unit, best, place)
        best += block.pitch * block.unit
        place += block.pitch * block.unit
        next_row(&target)


cdef inline bint blocks(const Job *job, Py_ssize_t size, Py_ssize_t unit, Block *block) noexcept nogil:
    """Whether the windows are such that blocks of them fit the buffers, and how many windows of a row, and rows, do."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t stride = g.stride[2], over = over_of(g), share
    cdef Block whole
    cdef int axis
    for axis in range(3):
        # Where dilation is wide a window may miss the array altogether.
        if branch_counted("a dilated window in padding", 2 * g.padding[axis] > 0 and g.dilation[axis] > 1):
            return False
        if branch_counted("a stride beyond the buffers", g.stride[axis] > LINE):
            return False
    if branch_counted("a window far wider than its stride", over > LINE // 2):
        return False
    share = CELLS // (g.kernel[0] * g.kernel[1] * stride * unit)
    share = min(LINE // unit, share)  # fault: blocks of as many windows as fit another buffer
    if branch_counted("buffers too short for a row's end", share < 2 * over + 16):
        return False
    # Long rows in equal parts.
    block.width = share - over
    block.width = (g.pooled[2] + block.width - 1) // block.width
    block.width = (g.pooled[2] + block.width - 1) // block.width
    block.pitch = block.width + over
    block.unit = unit
    block.rows = 1
    if branch_counted("rows that fit a block", block.width == g.pooled[2]):
        block.rows = share // block.pitch
    block.whole = False
    # Short rows: deal them all out in one go, those between the windows too.
    whole = block[0]
    whole.whole = True
    whole.pitch = g.stride[1] * g.full[2] // stride
    whole.rows = 0
    share = CELLS // (g.kernel[0] * stride * unit) - phase_length(g, &whole)
    whole.rows = min(LINE // unit, share) // max(whole.pitch, 1)
    if (block.width == g.pooled[2]
            and (branch_counted("rows short enough to be dealt out whole", g.pooled[2] <= SHORT)
                 or branch_counted("bytes few enough to be dealt out whole", g.pooled[2] * size <= SHORT_BYTES)
                 and g.stride[1] < g.kernel[1])
            and branch_counted("blocks of two whole rows", whole.rows >= 2)
            and branch_counted("rows of whole strides", g.stride[1] * g.full[2] % stride == 0)
            and branch_counted("windows within their row", block.pitch <= whole.pitch)
            and branch_counted("rows that follow each other", raster_stride(&job.full, g.full) == unit * size)):
        block[0] = whole
    return True
