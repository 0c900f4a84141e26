"""Pooling's loops: the maximum of each window and its place. Valid input is assumed."""
cimport numpy as cnp
from libc.string cimport memcpy

from cunpool._common cimport *
from cunpool._compare cimport *
from cunpool._places cimport inside

cdef extern from *:
    """
    static PyObject *cunpool_pair(PyObject *type, PyObject *first, PyObject *second) {
        PyObject *pair = ((PyTypeObject *) type)->tp_alloc((PyTypeObject *) type, 2);
        if (pair == NULL)
            return NULL;
    #if PY_VERSION_HEX >= 0x030E0000
        ((PyTupleObject *) pair)->ob_hash = -1;  /* not known yet */
    #endif
        Py_INCREF(first);
        Py_INCREF(second);
        PyTuple_SET_ITEM(pair, 0, first);
        PyTuple_SET_ITEM(pair, 1, second);
        return pair;
    }
    """
    object cunpool_pair(object, object, object)

cnp.import_array()

cdef enum:
    LINE = 512              # windows that are pooled side by side, in buffers that stay in the first cache
    SHORT = 32              # rows with no more windows than this are dealt out together
    VECTOR_ROW = 16         # windows of 2 in rows of as many are compared where they lie
    FEW = 10                # so few windows in a row, where planes can't be joined, are pooled across channels,
    MANY = 16               # if there are so many of these
    STREAM = 3 << 23        # bytes of all three arrays that would not stay in the caches anyway
    VECTOR = 64             # numbers in the widest vector: buffers have as many to spare at one end, or at both
    CELLS = 4096            # cells of all these windows together
    GIL_BYTES = 1 << 14     # releasing the GIL costs more than reading this


cdef struct Target:
    # Where results go: the first of some neighbours, and the bytes from one to the next, and to the next row of them.
    char *values
    char *indices           # NULL if nobody wants them
    Py_ssize_t value_step, index_step, value_row, index_row
    int code_size           # bytes of a window code, 0 where indices are places in the plane
    int index_size          # bytes of an index, code or place
    bint stream


cdef Target target_of(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w,
                      bint along_channels) noexcept nogil:
    cdef Target target
    target.values = (plane_of(&job.pooled, job.channels, plane) + d * job.pooled.axis[0] + h * job.pooled.axis[1]
                     + w * job.pooled.axis[2])
    target.value_step = job.pooled.c if along_channels else job.pooled.axis[2]
    target.value_row = job.pooled.axis[1]
    target.indices = NULL
    target.index_step = target.index_row = 0
    target.stream = job.stream
    target.code_size = job.code_size
    target.index_size = job.index_size
    if job.indices.data != NULL:
        target.indices = (plane_of(&job.indices, job.channels, plane) + d * job.indices.axis[0]
                          + h * job.indices.axis[1] + w * job.indices.axis[2])
        target.index_step = job.indices.c if along_channels else job.indices.axis[2]
        target.index_row = job.indices.axis[1]
    return target


cdef inline void next_row(Target *target) noexcept nogil:
    target.values += target.value_row
    if target.indices != NULL:
        target.indices += target.index_row


cdef inline Py_ssize_t base_of(const Job *job, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w) noexcept nogil:
    """The place in its plane where a window begins; before it, where the window begins in the padding."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t row = h * g.stride[1] - g.padding[1], height = g.full[1]
    if job.height:
        height = job.height
        row %= height
    return ((d * g.stride[0] - g.padding[0]) * height + row) * g.full[2] + w * g.stride[2] - g.padding[2]


cdef inlined write_few(index4 *indices, uint32_t first, uint32_t stride, Py_ssize_t at, Py_ssize_t lines,
                       const int32_t *place) noexcept nogil:
    """`write_places` from window `at` on. The low 32 bits are all that is stored: twice as many fit a vector."""
    cdef Py_ssize_t i
    for i in range(at, at + lines):
        indices[i] = <index4> (first + stride * <uint32_t> i + <uint32_t> place[i])


cdef inlined write_places(index *indices, Py_ssize_t base, Py_ssize_t stride, Py_ssize_t lines,
                          const int32_t *place) noexcept nogil:
    cdef Py_ssize_t i
    if index is index8:
        for i in range(lines):
            indices[i] = base + i * stride + place[i]
    elif lines >= 16 or lines < 4:
        write_few(indices, <uint32_t> base, <uint32_t> stride, 0, lines, place)
    elif lines >= 8:  # short rows by small vectors, which may overlap
        write_few(indices, <uint32_t> base, <uint32_t> stride, 0, 8, place)
        write_few(indices, <uint32_t> base, <uint32_t> stride, lines - 8, 8, place)
    else:
        write_few(indices, <uint32_t> base, <uint32_t> stride, 0, 4, place)
        write_few(indices, <uint32_t> base, <uint32_t> stride, lines - 4, 4, place)


cdef inlined store_places(const Target *target, Py_ssize_t base, Py_ssize_t stride, Py_ssize_t lines,
                          const int32_t *place, index *indices) noexcept nogil:
    """The places of `lines` neighbouring windows, `stride` cells apart, the first one begun at `base`."""
    cdef Py_ssize_t step = target.index_step, i
    # In whole vectors, of which the last one is done again.
    cdef Py_ssize_t left = lines % 16 if lines > 16 else 0
    cdef index[LINE + VECTOR] line_room
    cdef index *line = <index *> aligned(line_room)
    if step != sizeof(index):
        for i in range(lines):
            (<index *> (<char *> indices + i * step))[0] = <index> (base + i * stride + place[i])
    elif target.stream:
        must(lines <= LINE)
        write_places(line, base, stride, lines, place)
        cunpool_stream(<char *> indices, <const char *> line, lines * sizeof(index))
    else:
        write_places(indices, base, stride, lines - left, place)
        if left:
            write_places(indices + lines - 16, base + (lines - 16) * stride, stride, 16, place + lines - 16)


cdef cloned write(const Target *target, Py_ssize_t base, Py_ssize_t stride, Py_ssize_t lines, const number *best,
                  const int32_t *place) noexcept nogil:
    """Values and indices of `lines` neighbouring windows, `stride` cells apart, the first one begun at `base`."""
    # Copies, because the compiler has to fear that writing results changes `target`.
    cdef char *values = target.values
    cdef char *indices = target.indices
    cdef Py_ssize_t value_step = target.value_step, index_step = target.index_step, i
    if value_step != sizeof(number):
        for i in range(lines):
            (<number *> (values + i * value_step))[0] = best[i]
    elif target.stream:
        cunpool_stream(values, <const char *> best, lines * sizeof(number))
    else:
        for i in range(lines):
            (<number *> values)[i] = best[i]
    if indices == NULL:
        return
    if target.code_size == 1:
        if index_step == 1:
            for i in range(lines):
                (<item1 *> indices)[i] = <item1> place[i]
        else:
            for i in range(lines):
                (<item1 *> (indices + i * index_step))[0] = <item1> place[i]
    elif target.code_size == 2:
        for i in range(lines):
            (<item2 *> (indices + i * index_step))[0] = <item2> place[i]
    elif target.index_size == 4:
        store_places(target, base, stride, lines, place, <index4 *> indices)
    else:
        store_places(target, base, stride, lines, place, <index8 *> indices)


cdef inlined take_phase(number *phase, const char *row, Py_ssize_t step, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        phase[i] = (<const number *> (row + i * step))[0]


cdef cloned take_row(number *phases, Py_ssize_t pitch, const char *row, Py_ssize_t step, Py_ssize_t stride,
                     Py_ssize_t count) noexcept nogil:
    """Deal out the cells of a row to as many buffers, `pitch` apart, as the stride is: `count` to each."""
    cdef Py_ssize_t phase, i
    cdef const number *cells = <const number *> row
    if step == sizeof(number) and stride == 1:
        memcpy(phases, row, count * sizeof(number))
    elif step == sizeof(number) and stride == 2:
        for i in range(count):
            phases[i] = cells[2 * i]
            phases[pitch + i] = cells[2 * i + 1]
    else:
        for phase in range(stride):
            take_phase(phases + phase * pitch, row + phase * step, stride * step, count)


cdef void take_inside(number *phases, Py_ssize_t pitch, const char *row, Py_ssize_t step, Py_ssize_t stride,
                      Py_ssize_t first, Py_ssize_t count, Py_ssize_t width) noexcept nogil:
    """`take_row` from the cell number `first` on; cells outside the row's `width` are left out."""
    cdef Py_ssize_t low = first_tap(first, stride), high = min(count, (width - first) // stride), phase, cell
    if low < high:
        take_row(phases + low, pitch, row + (first + low * stride) * step, step, stride, high - low)
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


cdef bint twos(const Job *job, Py_ssize_t size) noexcept nogil:
    """Whether windows are of 2, inside the array and next to each other, in contiguous rows that fill vectors."""
    cdef const Geometry *g = &job.g
    cdef int axis
    for axis in range(3):
        if g.padding[axis] or g.kernel[axis] > 2 or g.dilation[axis] > 1 and g.kernel[axis] > 1:
            return False
        if (g.pooled[axis] - 1) * g.stride[axis] + g.kernel[axis] > g.full[axis]:
            return False
    return (g.kernel[2] == 2 and g.stride[2] == 2 and met("rows of windows of two", g.pooled[2] >= VECTOR_ROW)
            and met("contiguous rows of windows of two", job.full.axis[2] == size))


cdef void pool_twos(const Job *job, Py_ssize_t plane, const Block *block, number *full) noexcept nogil:
    """Pool a block of windows of 2, without dealing anything out."""
    cdef number[LINE + VECTOR] best_room
    cdef int32_t[LINE + VECTOR] place_room
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
            places[rows] = place_of(job, kd, kh, 0)
            rows += 1
    if job.stream and 0 <= step - used < CACHE_LINE:
        ahead = whole_steps(step)
    compare_twos(rows, row, step, places, block.width, block.rows, ahead, best, place)
    if (target.indices == NULL or target.code_size) and target.value_row == block.width * target.value_step \
            and target.index_row == block.width * target.index_step:
        write(&target, 0, 0, block.rows * block.width, best, place)  # codes have no need of where a row begins
        return
    for i in range(block.rows):
        write(&target, base_of(job, block.d, block.h + i, block.w), 2, block.width, best + i * block.width,
              place + i * block.width)
        next_row(&target)


cdef void pool_block(const Job *job, Py_ssize_t plane, const Block *block, number *full) noexcept nogil:
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
    cdef Py_ssize_t length = phase_length(g, block)
    cdef Py_ssize_t kd, kh, kw, d, h, i, low, high, first, tap
    cdef number *phases = cells
    for i in range(3):
        start[i] = at[i] * g.stride[i] - g.padding[i]
    first = start[2]
    must(lines <= LINE and dealt_cells(g, block) <= CELLS and cells_of(g.kernel) <= TAPS)
    taps.count = 0
    for kd in range(g.kernel[0]):
        d = start[0] + kd * g.dilation[0]
        if not 0 <= d < g.full[0]:
            continue
        row = from_plane + d * job.full.axis[0]
        if block.whole:
            take_inside(phases, length, row, step, stride, start[1] * g.full[2] + first, length,
                        g.full[1] * g.full[2])
        else:
            # In the order of the memory: that is what processors fetch ahead.
            for i in range(block.rows):
                for kh in range(g.kernel[1]):
                    h = start[1] + i * g.stride[1] + kh * g.dilation[1]
                    if 0 <= h < g.full[1]:
                        take_inside(phases + kh * stride * length + i * block.pitch, length,
                                    row + h * job.full.axis[1], step, stride, first, block.pitch, g.full[2])
        for kh in range(g.kernel[1]):
            h = start[1] + kh * g.dilation[1]
            if not 0 <= h < g.full[1]:
                continue
            for kw in range(g.kernel[2]):
                tap = kw * g.dilation[2]
                i = tap + kh * g.dilation[1] * g.full[2] if block.whole else tap
                taps.cells[taps.count] = <const char *> (
                    phases + (0 if block.whole else kh * stride * length) + i % stride * length + i // stride)
                taps.places[taps.count] = place_of(job, kd, kh, kw)
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


cdef void pool_large(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w, Py_ssize_t lines,
                     bint along_channels, number *full) noexcept nogil:
    """Pool neighbouring windows of any size, cell after cell."""
    cdef number[LINE + VECTOR] best_room
    cdef int32_t[LINE + VECTOR] place_room
    cdef number *best = <number *> aligned(best_room)
    cdef int32_t *place = <int32_t *> aligned(place_room)
    cdef Target target = target_of(job, plane, d, h, w, along_channels)
    cdef Py_ssize_t *at = [d, h, w]
    cdef Py_ssize_t start[3]
    cdef Py_ssize_t stride = 0 if along_channels else job.g.stride[2], i
    must(lines <= LINE)
    for i in range(3):
        start[i] = at[i] * job.g.stride[i] - job.g.padding[i]
    compare_large(job, plane_of(&job.full, job.channels, plane), start, stride,
                  job.full.c if along_channels else stride * job.full.axis[2], lines, best, place)
    write(&target, base_of(job, d, h, w), stride, lines, best, place)


cdef bint blocks(const Job *job, Py_ssize_t size, Block *block) noexcept nogil:
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
    share = min(<Py_ssize_t> LINE, CELLS // (g.kernel[0] * g.kernel[1] * stride))
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


cdef bint row_inside(const Geometry *g, Py_ssize_t d, Py_ssize_t h) noexcept nogil:
    """Whether a row's windows reach over no edge but the first and the last of the row."""
    return (inside(d * g.stride[0] - g.padding[0], g.kernel[0], g.dilation[0], g.full[0])
            and inside(h * g.stride[1] - g.padding[1], g.kernel[1], g.dilation[1], g.full[1]))


cdef void pool_rows(const Job *job, Py_ssize_t task, Found *found, number *full, void *_) noexcept nogil:
    """One task: some pooled rows of all planes, or parts of them where they are long."""
    cdef const Geometry *g = &job.g
    cdef Block most, block
    cdef bint by_twos = twos(job, sizeof(number)), fits = blocks(job, sizeof(number), &most)
    cdef Py_ssize_t width = most.width if fits and not by_twos else LINE, parts = (g.pooled[2] + width - 1) // width
    cdef Py_ssize_t rows = g.pooled[0] * g.pooled[1], lines = job.batch * job.channels * rows * parts
    cdef Py_ssize_t line = lines * task // job.tasks, end = lines * (task + 1) // job.tasks, row, plane
    while line < end:
        row = line // parts
        plane = row // rows
        block.d = row % rows // g.pooled[1]
        block.h = row % g.pooled[1]
        block.w = line % parts * width
        block.width = min(g.pooled[2] - block.w, width)
        block.rows = 1
        block.whole = False
        if by_twos:
            if block.width == g.pooled[2]:
                block.rows = min(LINE // block.width, min(end - line, g.pooled[1] - block.h))
            pool_twos(job, plane, &block, full)
        elif fits:
            # A row by itself: over an edge, or a part of a long one, of which the last is shorter than the others.
            block.pitch = block.width + over_of(g)
            if most.rows > 1 and met("a row of windows inside", row_inside(g, block.d, block.h)):
                block.pitch = most.pitch
                while (block.rows < most.rows and line + block.rows < end and block.h + block.rows < g.pooled[1]
                        and row_inside(g, block.d, block.h + block.rows)):
                    block.rows += 1
                block.whole = most.whole
            pool_block(job, plane, &block, full)
        else:
            pool_large(job, plane, block.d, block.h, block.w, block.width, False, full)
        line += block.rows


cdef void pool_channels(const Job *job, Py_ssize_t task, Found *found, number *full, void *_) noexcept nogil:
    """One task: some rows of windows, each in all channels: for arrays with the channels last, and for small planes."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t most = LINE if job.full.c == sizeof(number) else min(<Py_ssize_t> LINE, CELLS // cells_of(g.kernel))
    cdef bint large = (met("a window larger than the buffers, across channels", most == 0)
                       or met("a window of many cells, across channels", cells_of(g.kernel) > TAPS))
    cdef Py_ssize_t rows = g.pooled[0] * g.pooled[1], parts, lines, line, row, part, count, w
    most = LINE if large else most
    parts = (job.channels + most - 1) // most
    lines = job.batch * rows * parts
    for line in range(lines * task // job.tasks, lines * (task + 1) // job.tasks):
        row = line // parts % rows
        part = line % parts
        count = min(job.channels - part * most, most)
        if large:
            for w in range(g.pooled[2]):
                pool_large(job, line // (parts * rows) * job.channels + part * most, row // g.pooled[1],
                           row % g.pooled[1], w, count, True, full)
        else:
            pool_across(job, line // (parts * rows) * job.channels + part * most, row // g.pooled[1],
                        row % g.pooled[1], count, full)


cdef void pool_across(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t count,
                      number *full) noexcept nogil:
    """Pool a row of windows in `count` neighbouring channels."""
    cdef number[CELLS + LINE + VECTOR] cells_room
    cdef number *cells = <number *> aligned(cells_room)
    cdef number[LINE + VECTOR] best_room
    cdef int32_t[LINE + VECTOR] place_room
    cdef number *best = <number *> aligned(best_room)
    cdef int32_t *place = <int32_t *> aligned(place_room)
    cdef Taps taps
    cdef Taps dealt
    cdef const Geometry *g = &job.g
    cdef Target target = target_of(job, plane, d, h, 0, True)
    cdef const char *from_plane = plane_of(&job.full, job.channels, plane)
    cdef Py_ssize_t *start = [d * g.stride[0] - g.padding[0], h * g.stride[1] - g.padding[1], -g.padding[2]]
    cdef Py_ssize_t w, i, base = base_of(job, d, h, 0), next_window = g.stride[2] * job.full.axis[2]
    cdef bint after_inside = False
    must(count <= LINE)
    for w in range(g.pooled[2]):
        if inside(start[2], g.kernel[2], g.dilation[2], g.full[2]):
            if after_inside:
                for i in range(taps.count):
                    taps.cells[i] += next_window
            else:
                find_taps(job, from_plane, start, &taps)
            after_inside = True
        else:
            find_taps(job, from_plane, start, &taps)
            after_inside = False
        if taps.count == 0:
            pool_large(job, plane, d, h, w, count, True, full)
        elif job.full.c == sizeof(number):
            compare_window(&taps, count, best, place)
            write(&target, base, 0, count, best, place)
        else:
            must(taps.count * count <= CELLS)
            dealt = taps
            for i in range(taps.count):
                take_row(cells + i * count, 0, taps.cells[i], job.full.c, 1, count)
                dealt.cells[i] = <const char *> (cells + i * count)
            compare_window(&dealt, count, best, place)
            write(&target, base, 0, count, best, place)
        start[2] += g.stride[2]
        base += g.stride[2]
        target.values += job.pooled.axis[2]
        if target.indices != NULL:
            target.indices += job.indices.axis[2]


# The kinds of numbers in the order of the fused type above: their names are what `pool` takes.
KINDS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "bf2", "f4", "f8")
cdef Kernel[12] ROWS = [
    <Kernel> pool_rows[int1], <Kernel> pool_rows[int2], <Kernel> pool_rows[int4], <Kernel> pool_rows[int8],
    <Kernel> pool_rows[item1], <Kernel> pool_rows[item2], <Kernel> pool_rows[item4], <Kernel> pool_rows[item8],
    <Kernel> pool_rows[half], <Kernel> pool_rows[bhalf], <Kernel> pool_rows[float4], <Kernel> pool_rows[float8]]
cdef Kernel[12] CHANNELS = [
    <Kernel> pool_channels[int1], <Kernel> pool_channels[int2], <Kernel> pool_channels[int4],
    <Kernel> pool_channels[int8], <Kernel> pool_channels[item1], <Kernel> pool_channels[item2],
    <Kernel> pool_channels[item4], <Kernel> pool_channels[item8], <Kernel> pool_channels[half],
    <Kernel> pool_channels[bhalf], <Kernel> pool_channels[float4], <Kernel> pool_channels[float8]]


cdef bint foldable(const Job *job, Py_ssize_t item_size, Py_ssize_t index_size) noexcept nogil:
    """Whether planes can be one: where rows follow each other and no window is cut off. Short rows need that."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t planes = job.batch * job.channels
    return (planes > 1 and g.full[0] == 1 and g.pooled[0] == 1 and not g.padding[1]
            and met("rows short enough to be joined", g.pooled[2] < LINE // 4)
            and met("windows of whole planes", g.full[1] == g.pooled[1] * g.stride[1])
            and met("windows within their plane", (g.kernel[1] - 1) * g.dilation[1] < g.stride[1])
            and planes * g.full[1] * g.full[2] <= 0x7FFFFFFF
            and met("planes that follow each other", all_follow(job, item_size, index_size)))


# The ways that a call can take, for the tests: what `pool` returns is a sum of these.
JOINED, ACROSS, STREAMED, LARGE, WHOLE, TWOS = 1, 2, 4, 8, 16, 32


def pool(cnp.ndarray full not None, cnp.ndarray pooled not None, cnp.ndarray indices, tuple sizes, int spatial,
         int kind, bint codes, int threads):
    """Fill `pooled` and, unless it is None, `indices`: int64 or int32, or window codes. Returns the ways taken."""
    cdef Job job
    cdef Kernel kernel
    cdef Block block
    cdef Py_ssize_t index_size = 0 if indices is None else cnp.PyArray_ITEMSIZE(indices)
    cdef Py_ssize_t item_size = cnp.PyArray_ITEMSIZE(full), width
    cdef bint across, fits, by_twos
    job.g = geometry_of(sizes)
    job.full = view_of(full, spatial)
    job.pooled = view_of(pooled, spatial)
    job.indices.data = NULL
    if indices is not None:
        job.indices = view_of(indices, spatial)
    job.code_size = index_size if codes else 0
    job.index_size = index_size
    width = job.g.full[2]
    job.place_steps = [job.g.dilation[0] * job.g.full[1] * width, job.g.dilation[1] * width, job.g.dilation[2]]
    if codes:
        job.place_steps = [job.g.kernel[1] * job.g.kernel[2], job.g.kernel[2], 1]
    job.batch = cnp.PyArray_DIM(full, 0) if cnp.PyArray_NDIM(full) == spatial + 2 else 1
    job.channels = cnp.PyArray_DIM(full, cnp.PyArray_NDIM(full) - spatial - 1)
    job.stream = met("arrays beyond the caches", cnp.PyArray_SIZE(full) * item_size
                     + cnp.PyArray_SIZE(pooled) * (item_size + index_size) >= STREAM)
    job.tasks = 1 if threads == 1 else min(8 * threads, cnp.PyArray_SIZE(pooled))
    job.height = 0
    if foldable(&job, item_size, index_size):
        job.height = job.g.full[1]
        fold(&job, item_size, index_size)
    across = (met("channels closer than columns", job.channels > 1 and abs(job.full.c) < abs(job.full.axis[2]))
              or met("many channels of few windows", job.channels >= MANY and job.g.pooled[2] <= FEW))
    by_twos = twos(&job, item_size) and not across
    fits = blocks(&job, item_size, &block)
    kernel = CHANNELS[kind] if across else ROWS[kind]
    if (cnp.PyArray_SIZE(full) + cnp.PyArray_SIZE(pooled) * min(cells_of(job.g.kernel), <Py_ssize_t> GIL_BYTES)
            <= GIL_BYTES // item_size):
        run(kernel, &job, threads)
    else:
        with nogil:
            run(kernel, &job, threads)
    return (JOINED * (job.height > 0) + ACROSS * across + STREAMED * job.stream + LARGE * (not fits)
            + TWOS * by_twos + WHOLE * (fits and not across and not by_twos and block.whole))


def conditions():
    """How often each condition of a way did not hold, and did: counted by a checked build alone."""
    return conditions_met()


def named(type pair not None, values, indices):
    """A `pair` of these, which is a named tuple: in a third of the time that Python takes to make one."""
    return cunpool_pair(pair, values, indices)
