# Fill for windows of 2 by indices, in contiguous rows. Indices are compared without the step to codes, which is faster
# for elements of 4 and 8 bytes.
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memset

from cunpool._kernels.common.arrays cimport element_address, plane_address
from cunpool._kernels.common.caches cimport (
    align_to_cache_line, CACHE_LINE, cunpool_copy_nontemporal, prefetch_partial_lines, prefetch_range)
from cunpool._kernels.common.checks cimport assert_in_block, branch_counted
from cunpool._kernels.common.geometry cimport element_count, Geometry
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.thresholds cimport WINDOW2_MIN_WHOLE_WIDTH, WINDOW2_MIN_WIDTH
from cunpool._kernels.common.types cimport element, index, void_inline, void_wide
from cunpool._kernels.unpooling.elements cimport add_to_zero, select_element
from cunpool._kernels.unpooling.indices cimport is_window2, tiled_rows_why_not, zero_range

cdef enum:
    WINDOW2_TILE_WINDOWS = 1024     # windows of a tile: their values, indices and output stay in L1 (speed)
    WINDOW2_STAGE_BYTES = 8192      # bytes of a layer that are put together before non-temporal stores (speed)
    WINDOW2_LAYER_BYTES = WINDOW2_STAGE_BYTES + 128     # the same with the elements behind the last windows
    VECTOR_WINDOWS = 16     # windows of 4 bytes in the widest vector (speed)


cdef struct Tile:
    # `count` windows of each of `rows` pooled rows.
    Py_ssize_t count, rows
    bint nontemporal        # whether the output is written by non-temporal stores
    const char *values
    const char *indices
    char *out[2]            # one or two lines of the output, for the first pooled row
    uint32_t first[2]       # the index of the first element in each of these
    Py_ssize_t out_row      # bytes from there to the lines of the next pooled row
    uint32_t first_row      # elements from there to the lines of the next pooled row
    uint32_t area           # elements from a line to the same line of the next layer
    uint32_t outside_bits   # distances of indices from the nearest line of their windows, by `or`
    int64_t index_bits      # all indices, combined by `or`


cdef inline void_inline window2_row(int lines, bint has_layers, uint32_t area, element **out, const uint32_t *first,
                                    const element *values, const index *indices, Py_ssize_t count,
                                    uint32_t *outside_bits, index *index_bits) noexcept nogil:
    """Fill the elements of `count` windows in 1 or 2 `lines` of the output.

    An index has to lie in one of the lines, or if windows have layers, in one of as many `area` elements on. Their
    low 32 bits are compared, because planes are smaller than 2**31. It vectorises where `lines` and `has_layers` are
    constants.
    """
    # Copies, because the compiler has to fear that writing results changes these.
    cdef element *line_out[2]
    cdef uint32_t line_first[2]
    cdef element value
    cdef index all_bits = 0
    cdef uint32_t relative_index, position, nearest, row_bits = 0
    # Whole vectors. The last one may overlap the one before.
    cdef Py_ssize_t left = count % VECTOR_WINDOWS if count > VECTOR_WINDOWS else 0, some = count - left, i
    cdef int line, tap
    for line in range(lines):
        line_out[line] = out[line]
        line_first[line] = first[line]
    while True:
        for i in range(some):
            value = add_to_zero(values[i])
            relative_index = <uint32_t> indices[i] - 2 * <uint32_t> i
            nearest = 0xFFFFFFFF
            for line in range(lines):
                position = relative_index - line_first[line]
                for tap in range(2):
                    line_out[line][2 * i + tap] = select_element(value, position == <uint32_t> tap)
                nearest = min(nearest, min(position, position - area) if has_layers else position)
            all_bits |= indices[i]
            row_bits |= nearest
        if not left:
            break
        left = count - VECTOR_WINDOWS
        indices += left
        values += left
        for line in range(lines):
            line_out[line] += 2 * left
            line_first[line] += 2 * <uint32_t> left
        some = VECTOR_WINDOWS
        left = 0
    outside_bits[0] |= row_bits
    index_bits[0] |= all_bits


cdef inline void_inline window2_tile_rows(const Job *job, int lines, bint has_layers, Tile *tile, element *full,
                                          index *index_type) noexcept nogil:
    """`window2_row` for all rows of a tile."""
    cdef element *out[2]
    cdef uint32_t first[2]
    cdef const char *values = tile.values
    cdef const char *indices = tile.indices
    # Copies, because the compiler has to fear that writing results changes these.
    cdef Py_ssize_t out_row = tile.out_row, value_row = job.pooled.axis_bytes[1], index_row = job.indices.axis_bytes[1]
    cdef Py_ssize_t count = tile.count, rows = tile.rows
    cdef uint32_t outside_bits = 0, area = tile.area, first_row = tile.first_row
    cdef index index_bits = 0
    cdef int line
    for line in range(lines):
        out[line] = <element *> tile.out[line]
        first[line] = tile.first[line]
    for _ in range(rows):
        window2_row(lines, has_layers, area, out, first, <const element *> values, <const index *> indices, count,
                    &outside_bits, &index_bits)
        values += value_row
        indices += index_row
        for line in range(lines):
            out[line] = <element *> (<char *> out[line] + out_row)
            first[line] += first_row
    tile.outside_bits |= outside_bits
    tile.index_bits |= index_bits


cdef inline void_wide window2_tile_lines(const Job *job, int lines, bint has_layers, Tile *tile, element *full,
                                         index *index_type) noexcept nogil:
    """`window2_tile_rows`, compiled for each number of lines and layers."""
    if lines == 1:
        window2_tile_rows(job, 1, False, tile, full, index_type)
    elif has_layers:
        window2_tile_rows(job, 2, True, tile, full, index_type)
    else:
        window2_tile_rows(job, 2, False, tile, full, index_type)


cdef inline void stream_lines(char *target, element *stage, Py_ssize_t lines, Py_ssize_t pitch, Py_ssize_t rest,
                              Py_ssize_t width) noexcept nogil:
    """Copy lines by non-temporal stores. The `rest` elements of each, behind the windows, become zero."""
    cdef Py_ssize_t line
    for line in range(lines):
        memset(stage + (line + 1) * pitch - rest, 0, rest * sizeof(element))
    if pitch == width:
        pitch *= lines
        lines = 1
    for line in range(lines):
        cunpool_copy_nontemporal(target + line * width * sizeof(element), <const char *> (stage + line * pitch),
                                 pitch * sizeof(element))


cdef inline void prefetch_lines(const char *target, Py_ssize_t lines, Py_ssize_t pitch, Py_ssize_t width,
                                Py_ssize_t size) noexcept nogil:
    """`prefetch_partial_lines` of what `stream_lines` will write."""
    if pitch == width:
        pitch *= lines
        lines = 1
    for _ in range(lines):
        prefetch_partial_lines(target, pitch * size)
        target += width * size


cdef inline bint window2_tile(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w, Tile *tile,
                              element *full, index *index_type) noexcept nogil:
    """Fill the output of a tile, whose first window is at (d, h, w). Returns whether all indices are in their windows.

    `stage` is allocated with 2 * WINDOW2_LAYER_BYTES, one for each layer of a window. The highest byte of a layer that
    is written, and read, is before kernel[1] * rows * pitch * size."""
    cdef char stage_room[2 * WINDOW2_LAYER_BYTES + CACHE_LINE]
    cdef char *stage = <char *> align_to_cache_line(stage_room)
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t size = sizeof(element), width = g.full[2], rows = tile.rows, used = 2 * tile.count
    cdef Py_ssize_t rest = width - 2 * g.pooled[2] if w + tile.count == g.pooled[2] else 0
    cdef Py_ssize_t pitch = used + rest if tile.nontemporal else width, area = g.full[1] * width, kd, kh, done = 0
    cdef Py_ssize_t base = (d * g.kernel[0] * g.full[1] + h * g.kernel[1]) * width + 2 * w
    cdef char *target = plane_address(&job.full, job.channels, plane) + base * size
    cdef int lines = <int> (g.kernel[0] * g.kernel[1]), k = 0, some = 0
    assert_in_block(not tile.nontemporal or g.kernel[1] * rows * pitch * size <= WINDOW2_LAYER_BYTES)
    tile.values = (plane_address(&job.pooled, job.channels, plane) + d * job.pooled.axis_bytes[0]
                   + h * job.pooled.axis_bytes[1] + w * size)
    tile.indices = (plane_address(&job.indices, job.channels, plane) + d * job.indices.axis_bytes[0]
                    + h * job.indices.axis_bytes[1] + w * <Py_ssize_t> sizeof(index))
    tile.out_row = g.kernel[1] * pitch * size
    tile.first_row = <uint32_t> (g.kernel[1] * width)
    tile.area = <uint32_t> area
    tile.outside_bits = tile.index_bits = 0
    for kd in range(g.kernel[0]):
        if tile.nontemporal:
            prefetch_lines(target + kd * area * size, rows * g.kernel[1], pitch, width, size)
        for kh in range(g.kernel[1]):
            tile.first[some] = <uint32_t> (base + kd * area + kh * width)
            if tile.nontemporal:
                tile.out[some] = stage + kd * WINDOW2_LAYER_BYTES + kh * pitch * size
            else:
                tile.out[some] = target + (kd * area + kh * width) * size
            k += 1
            some += 1
            if k == lines or some == 2:
                window2_tile_lines(job, some, lines == 4, tile, full, index_type)
                tile.area = -tile.area  # indices in the first layer are inside, too, when the second is filled
                some = 0
        while tile.nontemporal and some == 0 and done <= kd:
            stream_lines(target + done * area * size, <element *> (stage + done * WINDOW2_LAYER_BYTES),
                         rows * g.kernel[1], pitch, rest, width)
            done += 1
    return tile.outside_bits < 2 and 0 <= tile.index_bits <= 0x7FFFFFFF


cdef inline bint fill_window2_rows(const Job *job, Py_ssize_t plane, Py_ssize_t row, Py_ssize_t row_end,
                                   Py_ssize_t begin, Py_ssize_t end, element *full, index *index_type) noexcept nogil:
    """Fill the output of some pooled rows of a plane, the windows `begin` to `end` of each, in the order of memory.

    Returns whether all indices are in their windows, and returns at the first that is not.
    """
    cdef const Geometry *g = &job.g
    cdef char *into = plane_address(&job.full, job.channels, plane)
    cdef Py_ssize_t width = g.full[2], height = g.full[1], used = 2 * g.pooled[2], most = 1
    cdef Py_ssize_t rows, count, d, h, w, kd, line, position
    cdef Tile tile
    cdef Py_ssize_t chunk = WINDOW2_TILE_WINDOWS
    if end - begin == g.pooled[2]:
        most = max(chunk // g.pooled[2], 1)
    if job.nontemporal:
        chunk = min(chunk, WINDOW2_STAGE_BYTES // (g.kernel[1] * 2 * <Py_ssize_t> sizeof(element)))
        most = max(min(most, WINDOW2_STAGE_BYTES // (g.kernel[1] * width * <Py_ssize_t> sizeof(element))), 1)
    while row < row_end:
        d = row // g.pooled[1]
        h = row % g.pooled[1]
        rows = min(most, min(row_end - row, g.pooled[1] - h))
        position = (d * g.kernel[0] * height + h * g.kernel[1]) * width
        w = begin
        while w < end:
            tile.nontemporal = (job.nontemporal and into + (position + 2 * w) * <Py_ssize_t>
                                sizeof(element) - job.full.data >= job.cached_bytes)
            tile.rows = rows
            tile.count = count = min(end - w, chunk)
            # Windows of 2 x 1 read more than they write. Prefetching others takes longer (speed).
            if tile.nontemporal and rows == 1 and g.kernel[0] * g.kernel[1] == 1:
                prefetch_range(element_address(&job.pooled, job.channels, plane, d, h, w + count),
                               count * sizeof(element))
                prefetch_range(element_address(&job.indices, job.channels, plane, d, h, w + count),
                               count * sizeof(index))
            if not window2_tile(job, plane, d, h, w, &tile, full, index_type):
                return False
            w += count
        row += rows
        if end < g.pooled[2]:
            continue
        # The elements behind the last windows.
        for kd in range(g.kernel[0]):
            position = ((d * g.kernel[0] + kd) * height + h * g.kernel[1]) * width
            if used < width and not tile.nontemporal:
                for line in range(rows * g.kernel[1]):
                    zero_range(job, into, position + line * width + used, position + (line + 1) * width,
                               sizeof(element))
            if h + rows == g.pooled[1]:
                zero_range(job, into, position + rows * g.kernel[1] * width,
                           (d * g.kernel[0] + kd + 1) * height * width, sizeof(element))
    if row_end == g.pooled[0] * g.pooled[1] and end == g.pooled[2]:
        zero_range(job, into, g.pooled[0] * g.kernel[0] * height * width, element_count(g.full), sizeof(element))
    return True


cdef inline const char *window2_why_not(const Job *job) noexcept nogil:
    """Why the method does not serve a call, or another is faster; or NULL."""
    cdef Py_ssize_t width = job.g.pooled[2]
    cdef const char *why
    if job.code_size:
        return "window codes"
    if not branch_counted("entries of four or eight bytes", job.item_size == 4 or job.item_size == 8):
        return "elements are not of 4 or 8 bytes"
    if not branch_counted("windows of two", is_window2(&job.g)):
        return "windows are not 2 wide, or larger than 2 along another axis"
    why = tiled_rows_why_not(job)
    if why != NULL:
        return why
    if not (branch_counted("rows worth selecting", width >= WINDOW2_MIN_WIDTH)
            or branch_counted("rows of whole vectors", width >= WINDOW2_MIN_WHOLE_WIDTH and width % VECTOR_WINDOWS == 0)
            and job.g.kernel[0] == 1):
        return "rows have fewer than 40 windows, and not 32 in 1 or 2 dimensions"
    return NULL
