# Dealing out: the cells of rows that follow each other in memory, so that those of neighbouring windows are neighbours;
# or windows of 2 compared where they lie.
from libc.string cimport memcpy

from cunpool._common cimport *
from cunpool._compare cimport *
from cunpool._places cimport inside
from cunpool._write cimport *

cdef enum:
    SHORT = 32              # rows with no more windows than this are dealt out together
    VECTOR_ROW = 4          # rows of windows of 2 that fill this part of a vector are compared where they lie
    CELLS = 4096            # cells of all these windows together


cdef inline inlined take_phase(number *phase, const char *row, Py_ssize_t step, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        phase[i] = (<const number *> (row + i * step))[0]


cdef inline cloned take_row(number *phases, Py_ssize_t pitch, const char *row, Py_ssize_t step, Py_ssize_t stride,
                            Py_ssize_t used, Py_ssize_t count) noexcept nogil:
    """Deal out the cells of a row to as many buffers, `pitch` apart, as the stride is: `count` to each that is used."""
    cdef Py_ssize_t phase, i
    cdef const number *cells = <const number *> row
    if step == sizeof(number) and stride == 1:
        memcpy(phases, row, count * sizeof(number))
    elif step == sizeof(number) and stride == 2:
        for i in range(count):
            phases[i] = cells[2 * i]
            phases[pitch + i] = cells[2 * i + 1]
    else:
        for phase in range(used):
            take_phase(phases + phase * pitch, row + phase * step, stride * step, count)


cdef inline void take_inside(number *phases, Py_ssize_t pitch, const char *row, Py_ssize_t step, Py_ssize_t stride,
                             Py_ssize_t used, Py_ssize_t first, Py_ssize_t count, Py_ssize_t width) noexcept nogil:
    """`take_row` from the cell number `first` on; cells outside the row's `width` are left out."""
    cdef Py_ssize_t low = first_tap(first, stride), high = min(count, (width - first) // stride), phase, cell
    if low < high:
        take_row(phases + low, pitch, row + (first + low * stride) * step, step, stride, used, high - low)
    else:
        high = low
    # What is left belongs to windows at the edges.
    for cell in range(max(first, 0), min(first + low * stride, width)):
        phase = cell - first
        phases[phase % stride * pitch + phase // stride] = (<const number *> (row + cell * step))[0]
    for cell in range(first + high * stride, min(first + count * stride, width)):
        phase = cell - first
        phases[phase % stride * pitch + phase // stride] = (<const number *> (row + cell * step))[0]


cdef struct Block:
    # Pooled rows of a plane that are pooled together: `rows` from (d, h) on, from w on `width` windows of each.
    Py_ssize_t d, h, w, rows, width
    Py_ssize_t pitch        # from one row's windows to the next row's in the buffers
    bint whole              # whether these are all rows from the first to the last, as they lie in memory


cdef struct Rows:
    # What pooling row by row needs to know: whether windows of 2 are compared where they lie, or else whether blocks
    # fit the buffers, and which blocks those are.
    bint by_twos, fits
    Block most


cdef inline Py_ssize_t over_of(const Geometry *g) noexcept nogil:
    """How many cells of each phase a row's last window reaches beyond its own."""
    return (g.kernel[2] - 1) * g.dilation[2] // g.stride[2]


cdef inline Py_ssize_t phase_length(const Geometry *g, const Block *block) noexcept nogil:
    """How many cells of a block are dealt to each phase of a row; of a whole block, to each phase of a layer."""
    if block.whole:
        return (block.rows * block.pitch + over_of(g)
                + ((g.kernel[1] - 1) * g.dilation[1] * g.full[2] + g.stride[2] - 1) // g.stride[2])
    return block.rows * block.pitch


cdef inline Py_ssize_t dealt_cells(const Geometry *g, const Block *block) noexcept nogil:
    """How many cells of a block are dealt out in all: what a buffer needs, where it is sized and where it is filled."""
    return g.kernel[0] * (1 if block.whole else g.kernel[1]) * g.stride[2] * phase_length(g, block)


cdef inline bint twos(const Job *job, Py_ssize_t size) noexcept nogil:
    """Whether windows are of 2, inside the array and next to each other, in contiguous rows worth a vector."""
    cdef const Geometry *g = &job.g
    cdef int axis
    for axis in range(3):
        if g.padding[axis] or g.kernel[axis] > 2 or g.dilation[axis] > 1 and g.kernel[axis] > 1:
            return False
        if (g.pooled[axis] - 1) * g.stride[axis] + g.kernel[axis] > g.full[axis]:
            return False
    return (g.kernel[2] == 2 and g.stride[2] == 2
            and met("rows of windows of two", g.pooled[2] * VECTOR_ROW >= vector_of(size))
            and met("contiguous rows of windows of two", job.full.axis[2] == size))


cdef inline void pool_twos(const Job *job, Py_ssize_t plane, const Block *block, number *full) noexcept nogil:
    """Pool a block of windows of 2, without dealing anything out."""
    cdef number[LINE + 2 * VECTOR] best_room
    cdef int32_t[LINE + 2 * VECTOR] place_room
    cdef number *best = <number *> aligned(best_room)
    cdef int32_t *place = <int32_t *> aligned(place_room)
    cdef const char *row[4]
    cdef int32_t places[4]
    cdef const Geometry *g = &job.g
    cdef const char *from_plane = plane_of(&job.full, job.channels, plane)
    cdef Target target = target_of(job, plane, block.d, block.h, block.w, False)
    cdef Py_ssize_t step = g.stride[1] * job.full.axis[1], ahead = 0, kd, kh, i
    cdef Py_ssize_t used = 2 * g.kernel[1] * block.width * <Py_ssize_t> sizeof(number)
    cdef int rows = 0
    must(block.rows * block.width <= LINE)
    for kd in range(g.kernel[0]):
        for kh in range(g.kernel[1]):
            row[rows] = (from_plane + (block.d * g.stride[0] + kd) * job.full.axis[0]
                         + (block.h * g.stride[1] + kh) * job.full.axis[1] + 2 * block.w * <Py_ssize_t> sizeof(number))
            places[rows] = <int32_t> place_of(job, kd, kh, 0)
            rows += 1
    if job.stream and 0 <= step - used < CACHE_LINE:
        ahead = whole_steps(step)
    compare_twos(rows, row, step, places, block.width, block.rows, ahead,
                 end_of(job, from_plane, sizeof(number)), best, place)
    if (target.indices == NULL or target.code_size) and target.value_row == block.width * target.value_step \
            and target.index_row == block.width * target.index_step:
        write(&target, 0, 0, block.rows * block.width, best, place)  # codes have no need of where a row begins
        return
    for i in range(block.rows):
        write(&target, base_of(job, block.d, block.h + i, block.w), 2, block.width, best + i * block.width,
              place + i * block.width)
        next_row(&target)


cdef inline void pool_block(const Job *job, Py_ssize_t plane, const Block *block, number *full) noexcept nogil:
    """Pool a block: deal its cells out, so that those of neighbouring windows are neighbours, and compare."""
    cdef number[CELLS + LINE + 2 * VECTOR] cells_room
    cdef number[LINE + 2 * VECTOR] best_room
    cdef int32_t[LINE + 2 * VECTOR] place_room
    cdef number *cells = <number *> aligned(cells_room)
    cdef number *best = <number *> aligned(best_room)
    cdef int32_t *place = <int32_t *> aligned(place_room)
    cdef Taps taps
    cdef Target target
    cdef const Geometry *g = &job.g
    cdef const char *from_plane = plane_of(&job.full, job.channels, plane)
    cdef const char *row
    cdef Py_ssize_t *at = [block.d, block.h, block.w]
    cdef Py_ssize_t start[3]
    cdef Py_ssize_t stride = g.stride[2], step = job.full.axis[2], lines = block.rows * block.pitch
    cdef Py_ssize_t length = phase_length(g, block), used = min(stride, (g.kernel[2] - 1) * g.dilation[2] + 1)
    cdef Py_ssize_t kd, kh, kw, d, h, i, low, high, first, tap
    cdef number *phases = cells
    for i in range(3):
        start[i] = at[i] * g.stride[i] - g.padding[i]
    first = start[2]
    must(lines <= LINE)
    must(dealt_cells(g, block) <= CELLS)
    must(cells_of(g.kernel) <= TAPS)
    taps.count = 0
    for kd in range(g.kernel[0]):
        d = start[0] + kd * g.dilation[0]
        if not 0 <= d < g.full[0]:
            continue
        row = from_plane + d * job.full.axis[0]
        if block.whole:
            take_inside(phases, length, row, step, stride, stride, start[1] * g.full[2] + first, length,
                        g.full[1] * g.full[2])
        else:
            # In the order of the memory: that is what processors fetch ahead.
            for i in range(block.rows):
                for kh in range(g.kernel[1]):
                    h = start[1] + i * g.stride[1] + kh * g.dilation[1]
                    if 0 <= h < g.full[1]:
                        take_inside(phases + kh * stride * length + i * block.pitch, length,
                                    row + h * job.full.axis[1], step, stride, used, first, block.pitch, g.full[2])
        for kh in range(g.kernel[1]):
            h = start[1] + kh * g.dilation[1]
            if not 0 <= h < g.full[1]:
                continue
            for kw in range(g.kernel[2]):
                tap = kw * g.dilation[2]
                i = tap + kh * g.dilation[1] * g.full[2] if block.whole else tap
                taps.cells[taps.count] = <const char *> (
                    phases + (0 if block.whole else kh * stride * length) + i % stride * length + i // stride)
                taps.places[taps.count] = <int32_t> place_of(job, kd, kh, kw)
                taps.count += 1
        phases += (1 if block.whole else g.kernel[1]) * stride * length
    # Whole vectors are compared. What they make of cells between and behind the windows is not used.
    compare_window(&taps, (lines + 15) // 16 * 16, best, place)
    low = 0
    high = block.width
    while low < high and not inside(first + low * stride, g.kernel[2], g.dilation[2], g.full[2]):
        low += 1
    while high > low and not inside(first + (high - 1) * stride, g.kernel[2], g.dilation[2], g.full[2]):
        high -= 1
    if high - low < block.width:
        for i in range(block.rows):
            kw = 0
            while kw < block.width:
                if kw == low and low < high:
                    kw = high
                    continue
                start[2] = first + kw * stride
                compare_one(job, from_plane, start, best + i * block.pitch + kw, place + i * block.pitch + kw)
                kw += 1
            start[1] += g.stride[1]
    target = target_of(job, plane, block.d, block.h, block.w, False)
    for i in range(block.rows):
        write(&target, base_of(job, block.d, block.h + i, block.w), stride, block.width, best + i * block.pitch,
              place + i * block.pitch)
        next_row(&target)


cdef inline bint blocks(const Job *job, Py_ssize_t size, Block *block) noexcept nogil:
    """Whether the windows are such that blocks of them fit the buffers, and how many windows of a row, and rows, do."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t stride = g.stride[2], over = over_of(g), share
    cdef Block whole
    cdef int axis
    for axis in range(3):
        # Where dilation is wide a window may miss the array altogether.
        if met("a dilated window in padding", 2 * g.padding[axis] > 0 and g.dilation[axis] > 1):
            return False
        if met("a stride beyond the buffers", g.stride[axis] > LINE):
            return False
    if met("a window of many cells", cells_of(g.kernel) > TAPS) or met("a window far wider than its stride",
                                                                         over > LINE // 2):
        return False
    share = CELLS // (g.kernel[0] * g.kernel[1] * stride)
    share = min(<Py_ssize_t> LINE, share)  # fault: blocks of as many windows as fit another buffer
    if met("buffers too short for a row's end", share < 2 * over + 16):
        return False
    # Long rows in equal parts.
    block.width = share - over
    block.width = (g.pooled[2] + block.width - 1) // block.width
    block.width = (g.pooled[2] + block.width - 1) // block.width
    block.pitch = block.width + over
    block.rows = 1
    if met("rows that fit a block", block.width == g.pooled[2]):
        block.rows = share // block.pitch
    block.whole = False
    # Short rows: deal them all out in one go, those between the windows too.
    whole = block[0]
    whole.whole = True
    whole.pitch = g.stride[1] * g.full[2] // stride
    whole.rows = 0
    share = CELLS // (g.kernel[0] * stride) - phase_length(g, &whole)
    whole.rows = min(<Py_ssize_t> LINE, share) // max(whole.pitch, 1)
    if (block.width == g.pooled[2] and met("rows short enough to be dealt out whole", g.pooled[2] <= SHORT)
            and met("blocks of two whole rows", whole.rows >= 2)
            and met("rows of whole strides", g.stride[1] * g.full[2] % stride == 0)
            and met("windows within their row", block.pitch <= whole.pitch)
            and met("rows that follow each other", flat_stride(&job.full, g.full) == size)):
        block[0] = whole
    return True
