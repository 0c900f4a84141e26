# Selecting: the output's rows, front to back, of windows that lie side by side.
from libc.string cimport memset

from cunpool._common cimport *
from cunpool._entries cimport *
from cunpool._places cimport clear, of_two, widen

cdef enum:
    SELECT_WIDTH = 40       # shorter rows are scattered faster,
    SELECT_WHOLE = 32       # unless they are of whole vectors, and windows of one layer;
    SELECT_CODES = 16       # of window codes of windows of 2, shorter ones are joined,
    SELECT_AREA = 512       # where a plane has so many windows
    SELECT_CHUNK = 1024     # windows that are selected together,
    WIDEST = 4              # no wider than this,
    TALLEST = 16            # nor higher
    STAGE = 8192            # bytes of the output that are put together before they go past the caches,
    STAGE_SIZE = STAGE + 16 * TALLEST * WIDEST  # and of the cells behind the windows
    LANE = 16               # windows in the widest vector


cdef struct Tile:
    # Windows that are selected together: `count` neighbours of some pooled rows, and where they and their cells lie.
    Py_ssize_t count, rows  # (joined rows are one)
    bint stream             # whether the cells go past the caches
    const char *values
    const char *indices     # window codes are widened
    Py_ssize_t value_row, index_row     # bytes from one pooled row to the next
    char *out[3]            # the lines of the output that are written, for the first pooled row,
    uint32_t first[3]       # and the index, or code, of the first cell in each of them;
    Py_ssize_t out_row      # bytes to those of the next pooled row
    uint32_t first_row
    uint32_t area           # from a line to the one behind it, in windows of 2 x 2 x 2
    uint32_t far            # the bits of how far each index is from the nearest line of its window, and of all indices
    int64_t seen


cdef enum Check:
    NONE                    # window codes have been looked at
    NEAR                    # an index has to lie in one of the lines,
    DEEP                    # or in one of as many lines of the window `area` cells on


cdef inline inlined select_row(int lines, int width, int step, Check check, uint32_t area, entry **out,
                               const uint32_t *first, const entry *values, const index *indices, Py_ssize_t count,
                               uint32_t *far, index *seen) noexcept nogil:
    """The cells of `count` windows that are `width` wide in up to 3 `lines` of the output.

    `step` is what indices grow by from one window to the next: window codes do not. Their low 32 bits are compared, for
    planes are smaller than 2**31 here. It vectorises where `lines`, `width`, `step` and `check` are constants.
    """
    # Copies, because the compiler has to fear that writing results changes these.
    cdef entry *line_out[3]
    cdef uint32_t line_first[3]
    cdef entry value
    cdef index all_bits = 0
    cdef uint32_t place, cell, nearest, far_bits = 0
    # In whole vectors, of which the last one does some windows again.
    cdef Py_ssize_t left = count % LANE if count > LANE else 0, some = count - left, i
    cdef int line, tap
    for line in range(lines):
        line_out[line] = out[line]
        line_first[line] = first[line]
    while True:
        for i in range(some):
            value = alone(values[i])
            place = <uint32_t> indices[i] - step * <uint32_t> i
            nearest = 0xFFFFFFFF
            for line in range(lines):
                cell = place - line_first[line]
                for tap in range(width):
                    line_out[line][width * i + tap] = chosen(value, cell == <uint32_t> tap)
                nearest = min(nearest, min(cell, cell - area) if check == DEEP else cell)
            if check:
                all_bits |= indices[i]
                far_bits |= nearest
        if not left:
            break
        left = count - LANE
        indices += left
        values += left
        for line in range(lines):
            line_out[line] += width * left
            line_first[line] += step * <uint32_t> left
        some = LANE
        left = 0
    far[0] |= far_bits
    seen[0] |= all_bits


cdef inline inlined select_tile(int lines, int width, int step, Check check, Tile *tile, entry *full,
                                index *index_type) noexcept nogil:
    """`select_row` for all rows of a tile."""
    cdef entry *out[3]
    cdef uint32_t first[3]
    cdef const char *values = tile.values
    cdef const char *indices = tile.indices
    cdef Py_ssize_t out_row = tile.out_row, value_row = tile.value_row, index_row = tile.index_row, count = tile.count
    cdef uint32_t far = 0, area = tile.area
    cdef index seen = 0
    cdef int line
    for line in range(lines):
        out[line] = <entry *> tile.out[line]
        first[line] = tile.first[line]
    for _ in range(tile.rows):
        select_row(lines, width, step, check, area, out, first, <const entry *> values, <const index *> indices, count,
                   &far, &seen)
        values += value_row
        indices += index_row
        for line in range(lines):
            out[line] = <entry *> (<char *> out[line] + out_row)
            first[line] += tile.first_row
    tile.far |= far
    tile.seen |= seen


cdef inline cloned select_lines(const Job *job, int lines, Check check, Tile *tile, entry *full,
                                index *index_type) noexcept nogil:
    """`select_tile` compiled apart for what there is."""
    if not job.code_size:
        if lines == 1:
            select_tile(1, 2, 2, NEAR, tile, full, index_type)
        elif check == NEAR:
            select_tile(2, 2, 2, NEAR, tile, full, index_type)
        else:
            select_tile(2, 2, 2, DEEP, tile, full, index_type)
    elif index is index4:
        if lines == 2:
            select_tile(2, 2, 0, NONE, tile, full, index_type)
        elif job.g.kernel[2] == 2:
            select_tile(1, 2, 0, NONE, tile, full, index_type)
        elif entry is item16 or entry is half or entry is bhalf or entry is float4 or entry is float8:
            pass  # unreached, as `selectable` says
        elif lines == 3:
            select_tile(3, 3, 0, NONE, tile, full, index_type)
        elif job.g.kernel[2] == 1:
            select_tile(1, 1, 0, NONE, tile, full, index_type)
        elif job.g.kernel[2] == 3:
            select_tile(1, 3, 0, NONE, tile, full, index_type)
        else:
            select_tile(1, 4, 0, NONE, tile, full, index_type)


cdef inline void stream_out(char *target, entry *stage, Py_ssize_t lines, Py_ssize_t pitch, Py_ssize_t rest,
                            Py_ssize_t width) noexcept nogil:
    """Copy lines past the caches; the `rest` of each, behind the windows, is zero."""
    cdef Py_ssize_t line
    for line in range(lines):
        memset(stage + (line + 1) * pitch - rest, 0, rest * sizeof(entry))
    if pitch == width:
        pitch *= lines
        lines = 1
    for line in range(lines):
        cunpool_stream(target + line * width * sizeof(entry), <const char *> (stage + line * pitch),
                       pitch * sizeof(entry))


cdef inline cloned take_apart(char *target, const char *stage, Py_ssize_t rows, Py_ssize_t lines, Py_ssize_t used,
                            Py_ssize_t width) noexcept nogil:
    """Copy what was selected for joined rows, `used` bytes of each of their lines, to where it belongs."""
    cdef Py_ssize_t row, line
    for row in range(rows):
        for line in range(lines):
            cunpool_copy(target, stage + (line * rows + row) * used, used)
            target += width


cdef inline void fetch_ends(const char *target, Py_ssize_t lines, Py_ssize_t pitch, Py_ssize_t width,
                            Py_ssize_t size) noexcept nogil:
    """Have the cache lines read that `stream_out` will write in part: what follows would wait for them."""
    cdef const char *end
    if pitch == width:
        pitch *= lines
        lines = 1
    for _ in range(lines):
        end = target + pitch * size
        if <uintptr_t> target % CACHE_LINE:
            cunpool_prefetch_write(target)
        if <uintptr_t> end % CACHE_LINE:
            cunpool_prefetch_write(end)
        target += width * size


cdef inline bint aim(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w, Py_ssize_t size,
                     index4 *codes, Tile *tile, index *index_type) noexcept nogil:
    """Say where a tile's values and indices are. Whether no window code is too large."""
    cdef const Geometry *g = &job.g
    cdef const char *indices = (plane_of(&job.indices, job.channels, plane) + d * job.indices.axis[0]
                                + h * job.indices.axis[1])
    cdef bint beyond = False
    tile.values = (plane_of(&job.pooled, job.channels, plane) + d * job.pooled.axis[0] + h * job.pooled.axis[1]
                   + w * size)
    tile.value_row = job.pooled.axis[1]
    tile.far = tile.seen = 0
    if job.code_size:
        widen(job, <const item1 *> indices + w, tile.rows * tile.count, codes, &beyond)
        tile.indices = <const char *> codes
        tile.index_row = tile.count * sizeof(index4)
        tile.first_row = tile.area = 0
    else:
        tile.indices = indices + w * <Py_ssize_t> sizeof(index)
        tile.index_row = job.indices.axis[1]
        tile.first_row = <uint32_t> (g.kernel[1] * g.full[2])
        tile.area = <uint32_t> (g.full[1] * g.full[2])
    return not beyond


cdef inline bint select_some(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w, Tile *tile,
                             entry *full, index *index_type) noexcept nogil:
    """The output's cells that belong to a tile, whose first window is at (d, h, w). Whether no index is a stray."""
    cdef char stage_room[3 * STAGE_SIZE + CACHE_LINE]
    cdef index4 codes_room[SELECT_CHUNK + CACHE_LINE]
    # For one depth and the next, and for joined rows that have been taken apart.
    cdef char *stage = <char *> aligned(stage_room)
    cdef char *apart = stage + 2 * STAGE_SIZE
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t size = sizeof(entry), width = g.full[2], rows = tile.rows, used = g.kernel[2] * tile.count
    cdef Py_ssize_t rest = width - g.kernel[2] * g.pooled[2] if w + tile.count == g.pooled[2] else 0
    cdef Py_ssize_t pitch = used + rest if tile.stream else width, area = g.full[1] * width, cell, kd, kh, done = 0
    cdef Py_ssize_t base = (d * g.kernel[0] * g.full[1] + h * g.kernel[1]) * width + g.kernel[2] * w
    cdef char *target = plane_of(&job.full, job.channels, plane) + base * size
    cdef int wide = <int> g.kernel[2], lines = <int> (g.kernel[0] * g.kernel[1]), k = 0, some = 0
    cdef int together = 2 if wide == 2 else 3 if wide == 3 and g.kernel[1] == 3 else 1
    cdef Check check = NEAR if lines < 4 else DEEP
    cdef bint none_beyond = aim(job, plane, d, h, w, size, <index4 *> aligned(codes_room), tile, index_type)
    tile.out_row = g.kernel[1] * pitch * size
    must(not job.code_size or rows * tile.count <= SELECT_CHUNK)
    must(not job.joined or g.kernel[1] * rows * used * size <= STAGE_SIZE)
    must(not tile.stream or g.kernel[1] * rows * pitch * size <= STAGE_SIZE)
    if job.joined:
        tile.count *= rows
        tile.rows = 1
    for kd in range(g.kernel[0]):
        if tile.stream:
            fetch_ends(target + kd * area * size, rows * g.kernel[1], pitch, width, size)
        for kh in range(g.kernel[1]):
            cell = base + kd * area + kh * width
            tile.first[some] = wide * k if job.code_size else <uint32_t> cell
            if job.joined:
                tile.out[some] = stage + kd % 2 * STAGE_SIZE + kh * rows * used * size
            elif tile.stream:
                tile.out[some] = stage + kd % 2 * STAGE_SIZE + kh * pitch * size
            else:
                tile.out[some] = target + (kd * area + kh * width) * size
            k += 1
            some += 1
            if k == lines or some == together:
                select_lines(job, some, check, tile, full, index_type)
                tile.area = -tile.area  # for the lines behind, it is the ones before that are far
                some = 0
        while (tile.stream or job.joined) and some == 0 and done <= kd:
            if job.joined:
                take_apart(apart if tile.stream else target + done * area * size, stage + done % 2 * STAGE_SIZE, rows,
                           g.kernel[1], used * size, width * size)
            if tile.stream:
                stream_out(target + done * area * size,
                           <entry *> (apart if job.joined else stage + done % 2 * STAGE_SIZE), rows * g.kernel[1],
                           pitch, rest, width)
            done += 1
    return none_beyond if job.code_size else tile.far < 2 and 0 <= tile.seen <= 0x7FFFFFFF


cdef inline bint select_rows(const Job *job, Py_ssize_t plane, Py_ssize_t row, Py_ssize_t row_end, Py_ssize_t begin,
                             Py_ssize_t end, entry *full, index *index_type) noexcept nogil:
    """The output's rows that belong to some pooled rows of a plane, front to back.

    Of each row, the windows from `begin` to `end`. Returns at the first stray, and whether there was none.
    """
    cdef const Geometry *g = &job.g
    cdef char *into = plane_of(&job.full, job.channels, plane)
    cdef Py_ssize_t width = g.full[2], height = g.full[1], used = g.kernel[2] * g.pooled[2], most = 1
    cdef Py_ssize_t rows, count, d, h, w, kd, line, cell
    cdef Tile tile
    cdef Py_ssize_t chunk = SELECT_CHUNK
    # Rows of codes that follow each other are widened together.
    if end - begin == g.pooled[2] and (not job.code_size or job.indices.axis[1] == g.pooled[2]):
        most = max(chunk // g.pooled[2], 1)
    if job.stream or job.joined:
        chunk = min(chunk, STAGE // (g.kernel[1] * g.kernel[2] * <Py_ssize_t> sizeof(entry)))
        most = max(min(most, STAGE // (g.kernel[1] * width * <Py_ssize_t> sizeof(entry))), 1)
    while row < row_end:
        d = row // g.pooled[1]
        h = row % g.pooled[1]
        rows = min(most, min(row_end - row, g.pooled[1] - h))
        cell = (d * g.kernel[0] * height + h * g.kernel[1]) * width
        w = begin
        while w < end:
            tile.stream = (job.stream and into + (cell + g.kernel[2] * w) * <Py_ssize_t> sizeof(entry) - job.full.data
                           >= job.kept)
            tile.rows = rows
            tile.count = count = min(end - w, chunk)
            if not select_some(job, plane, d, h, w, &tile, full, index_type):
                return False
            w += count
        row += rows
        if end < g.pooled[2]:
            continue
        # What lies beyond the last windows.
        for kd in range(g.kernel[0]):
            cell = ((d * g.kernel[0] + kd) * height + h * g.kernel[1]) * width
            if used < width and not tile.stream:
                for line in range(rows * g.kernel[1]):
                    clear(job, into, cell + line * width + used, cell + (line + 1) * width, full)
            if h + rows == g.pooled[1]:
                clear(job, into, cell + rows * g.kernel[1] * width, (d * g.kernel[0] + kd + 1) * height * width,
                      full)
    if row_end == g.pooled[0] * g.pooled[1] and end == g.pooled[2]:
        clear(job, into, g.pooled[0] * g.kernel[0] * height * width, cells_of(g.full), full)
    return True


cdef inline bint selectable(Job *job, bint tall, Py_ssize_t item_size, bint rare) noexcept nogil:
    """Whether selecting is worth while, for windows side by side; says too whether their rows have to be joined.

    If `tall`, all planes will be one. The `rare` kinds of entry, complex ones and the numbers of gradients, are
    compiled for windows of 2 alone.
    """
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t width = g.pooled[2], planes = job.batch * job.channels if tall else 1
    job.joined = False
    if not job.code_size:
        return met("windows of two", of_two(g)) and (
            met("rows worth selecting", width >= SELECT_WIDTH)
            or met("rows of whole vectors", width >= SELECT_WHOLE and width % LANE == 0) and g.kernel[0] == 1)
    if of_two(g) and met("short rows of codes", width < SELECT_CODES):
        job.joined = (met("rows of codes that follow each other",
                          job.pooled.axis[1] == width * item_size and job.indices.axis[1] == width)
                      and met("an area worth joining", planes * width * g.pooled[1] >= SELECT_AREA))
        return job.joined
    return (met("windows narrow enough to be selected", g.kernel[2] <= WIDEST)
            and met("windows low enough to be selected", g.kernel[1] <= TALLEST)
            and (g.kernel[2] == 2 or met("entries of the common kinds", not rare))
            and met("rows of codes worth selecting", width >= (SELECT_CODES if of_two(g) else SELECT_WIDTH)))


cdef inline bint foldable(const Job *job, Py_ssize_t item_size) noexcept nogil:
    """Whether planes can be one: where rows, not too long, follow each other, for window codes don't know planes."""
    return (job.code_size and job.batch * job.channels > 1 and job.g.full[0] == 1
            and met("rows of codes short enough to be joined", job.g.pooled[2] < SELECT_CHUNK)
            and met("windows of whole planes", job.g.full[1] == job.g.pooled[1] * job.g.kernel[1])
            and met("planes that follow each other", all_follow(job, item_size, job.code_size)))
