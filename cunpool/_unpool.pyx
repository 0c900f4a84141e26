# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Unpooling's loops. They move bits, so the element type is its size alone. Valid input is assumed, indices apart.

Pooling's gradient is the same walk, but for numbers that are added where several meet.

There are two ways. Scattering clears the output and puts each value where its index says. Selecting, for windows of 2
next to each other, goes through the output instead: each cell takes its window's value if the index names that cell.
That takes no clearing and vectorises, but an index that names no cell of its own window is a stray, and then the plane is
scattered after all.
"""
cimport numpy as cnp
from libc.string cimport memcpy, memset

from cunpool._common cimport *
from cunpool._places cimport *

cnp.import_array()

cdef extern from *:
    """
    static inline float cunpool_float(uint32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
    static inline uint32_t cunpool_bits(float x) { uint32_t bits; memcpy(&bits, &x, 4); return bits; }

    static inline float half_value(uint16_t half) {
        uint32_t sign = (uint32_t) (half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 0x3FF;
        if (exponent == 0) { /* a multiple of the smallest one, 2**-24 */
            float size = (float) fraction * cunpool_float(0x33800000);
            return cunpool_float(sign | cunpool_bits(size));
        }
        exponent = exponent == 31 ? 255 : exponent + 112;
        return cunpool_float(sign | exponent << 23 | fraction << 13);
    }

    /* To the nearest, ties to even. */
    static inline uint16_t half_of(float x) {
        uint32_t bits = cunpool_bits(x), sign = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
        if (size > 0x7F800000)
            return (uint16_t) (sign | 0x7E00);
        if (size >= 0x47800000) /* 65536 */
            return (uint16_t) (sign | 0x7C00);
        if (size < 0x38800000) /* below 2**-14: adding 1/2 rounds to a multiple of 2**-24 */
            return (uint16_t) (sign | (cunpool_bits(cunpool_float(size) + 0.5f) - 0x3F000000));
        return (uint16_t) (sign | (size - 0x38000000 + 0xFFF + (size >> 13 & 1)) >> 13);
    }

    static inline float bhalf_value(uint16_t half) { return cunpool_float((uint32_t) half << 16); }

    static inline uint16_t bhalf_of(float x) {
        uint32_t bits = cunpool_bits(x);
        if ((bits & 0x7FFFFFFF) > 0x7F800000)
            return (uint16_t) (bits >> 16 | 0x40);
        return (uint16_t) ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
    }
    """
    float half_value(item2) noexcept nogil
    item2 half_of(float) noexcept nogil
    float bhalf_value(item2) noexcept nogil
    item2 bhalf_of(float) noexcept nogil

cdef enum:
    CHUNK = 4096            # pooled cells of a 1d plane whose windows are taken for one band
    DECODED = 256           # window codes that are decoded together
    GIL_BYTES = 1 << 14     # releasing the GIL costs more than moving this
    SELECT_WIDTH = 40       # shorter rows are scattered faster,
    SELECT_WHOLE = 32       # unless they are of whole vectors,
    SELECT_CODES = 16       # or of window codes of windows of 2
    SELECT_CHUNK = 512      # windows of a row that are selected together,
    WIDEST = 4              # no wider than this,
    TALLEST = 16            # nor higher
    STAGE = 4096            # cells of the output that are put together before they go past the caches
    LANE = 16               # windows in the widest vector
    STREAM = 3 << 23        # bytes of all three arrays that would not stay in the caches anyway
    CLEAR_SMALL = 1 << 10   # so many bytes of small planes are cleared at once, while they are in the first cache;
    CLEAR_LARGE = 1 << 22   # and so many of a large output: then the C library clears without reading first

# The ways that a call can take, for the tests: what `unpool` returns is a sum of these.
SCATTERED, SELECTED, STRAYED, ALL_LANES, SPLIT, STREAMED = 1, 2, 4, 8, 16, 32


cdef inline entry zero_of(const entry *_) noexcept nogil:
    cdef entry zero
    if entry is item16:
        zero.low = zero.high = 0
    elif entry is half or entry is bhalf:
        zero.bits = 0
    else:
        zero = 0
    return zero


cdef inline void place_entry(entry *target, const entry *value) noexcept nogil:
    """Put an item in its place, or add a number to what is there: in its own precision, as PyTorch adds gradients."""
    if entry is half:
        target.bits = half_of(half_value(target.bits) + half_value(value.bits))
    elif entry is bhalf:
        target.bits = bhalf_of(bhalf_value(target.bits) + bhalf_value(value.bits))
    elif entry is float4 or entry is float8:
        target[0] = target[0] + value[0]
    else:
        target[0] = value[0]


cdef inline entry alone(entry value) noexcept nogil:
    """What `place_entry` leaves where nothing was before: 0 + -0 is 0."""
    if entry is half or entry is bhalf:
        value.bits = 0 if value.bits == 0x8000 else value.bits
    elif entry is float4 or entry is float8:
        value = value + 0
    return value


cdef inlined put(const Job *job, char *out, Py_ssize_t out_step, bint even, Py_ssize_t flat, const char *values,
                 Py_ssize_t value_step, const char *indices, Py_ssize_t index_step, Py_ssize_t count,
                 uint64_t low, uint64_t span, uint64_t band, uint64_t band_span, entry *full,
                 index *index_type, Py_ssize_t *strangers) noexcept nogil:
    """Put `count` values where their indices say, as far as that is from `low` on for `span` cells.

    Value number i belongs to the plane that starts `i * out_step` bytes after `out`. Counts the indices that are not
    from `band` on for `band_span` cells. One unsigned comparison, in 64 bits whatever the index type, is both bounds
    at once.
    """
    cdef Py_ssize_t i, at, cell_or_low, outside = 0
    cdef uint64_t cell
    cdef bint inside
    cdef entry elsewhere = zero_of(full)
    cdef entry *target
    if low <= band and band + band_span <= low + span:
        low = band
        span = band_span
    if low == band and span == band_span:
        for i in range(count):
            cell = <uint64_t> <int64_t> (<const index *> (indices + i * index_step))[0]
            if cell - low < span:
                at = <Py_ssize_t> cell * flat if even else offset_of(job, flat, <Py_ssize_t> cell)
                place_entry(<entry *> (out + i * out_step + at), <const entry *> (values + i * value_step))
            else:
                outside += 1
        strangers[0] += outside
        return
    for i in range(count):
        cell = <uint64_t> <int64_t> (<const index *> (indices + i * index_step))[0]
        # Without a branch: next to where a plane is split, nobody can predict on which side an index lies.
        inside = cell - low < span
        cell_or_low = <Py_ssize_t> (cell if inside else low)
        at = cell_or_low * flat if even else offset_of(job, flat, cell_or_low)
        target = <entry *> (out + i * out_step + at)
        target = target if inside else &elsewhere
        place_entry(target, <const entry *> (values + i * value_step))
        outside += cell - band >= band_span
    strangers[0] += outside


cdef Py_ssize_t put_row(const Job *job, char *out, const char *values, Py_ssize_t value_step, const char *indices,
                        Py_ssize_t index_step, Py_ssize_t count, Py_ssize_t low, Py_ssize_t high, Py_ssize_t band,
                        Py_ssize_t band_end, entry *full, index *index_type) noexcept nogil:
    """`put` for neighbours in a plane, compiled apart for contiguous ones and for whole planes of them."""
    cdef Py_ssize_t outside = 0
    if job.flat != sizeof(entry) or value_step != sizeof(entry) or index_step != sizeof(index):
        put(job, out, 0, False, job.flat, values, value_step, indices, index_step, count, low, high - low, band,
            band_end - band, full, index_type, &outside)
    elif low == 0 and band == 0 and high == band_end:
        put(job, out, 0, True, sizeof(entry), values, sizeof(entry), indices, sizeof(index), count, 0, high, 0, high, full,
            index_type, &outside)
    else:
        put(job, out, 0, True, sizeof(entry), values, sizeof(entry), indices, sizeof(index), count, low, high - low, band,
            band_end - band, full, index_type, &outside)
    return outside


cdef Py_ssize_t put_lanes(const Job *job, char *out, const char *values, const char *indices, Py_ssize_t count,
                          Py_ssize_t low, Py_ssize_t high, Py_ssize_t band, Py_ssize_t band_end, entry *full,
                          index *index_type) noexcept nogil:
    """`put` for one cell of each channel."""
    cdef Py_ssize_t outside = 0
    put(job, out, sizeof(entry), True, job.flat, values, sizeof(entry), indices, sizeof(index), count, low, high - low, band,
        band_end - band, full, index_type, &outside)
    return outside


cdef Py_ssize_t put_decoded(const Job *job, char *out, const char *values, const char *codes, Py_ssize_t d, Py_ssize_t h,
                            Py_ssize_t w, Py_ssize_t count, Py_ssize_t low, Py_ssize_t high, Py_ssize_t band,
                            Py_ssize_t band_end, entry *full) noexcept nogil:
    """`put` for window codes: of `count` neighbours along the width, and of all lanes of each."""
    cdef index8[DECODED] cells
    cdef Py_ssize_t i, part, first, some, outside = 0
    if job.lanes == 1:
        for part in range((count + DECODED - 1) // DECODED):
            first = part * DECODED
            some = min(count - first, <Py_ssize_t> DECODED)
            decode_rows(job, codes + first * job.indices.axis[2], d, h, w + first, 1, some, cells)
            outside += put_row(job, out, values + first * job.pooled.axis[2], job.pooled.axis[2], <const char *> cells,
                               sizeof(index8), some, low, high, band, band_end, full, <index8 *> NULL)
        return outside
    for i in range(count):
        for part in range((job.lanes + DECODED - 1) // DECODED):
            first = part * DECODED
            some = min(job.lanes - first, <Py_ssize_t> DECODED)
            decode(job, codes + i * job.indices.axis[2] + first * job.code_size, job.code_size, d, h, w + i, True, some,
                   cells)
            first *= sizeof(entry)
            outside += put_lanes(job, out + first, values + i * job.pooled.axis[2] + first, <const char *> cells, some,
                                 low, high, band, band_end, full, <index8 *> NULL)
    return outside


cdef Py_ssize_t put_short_rows(const Job *job, char *out, const char *values, Py_ssize_t value_step, const char *codes,
                               entry *full) noexcept nogil:
    """`put` for the window codes of a whole plane of short rows, several at a time."""
    cdef index8[DECODED] cells
    cdef Py_ssize_t width = job.g.pooled[2], most = DECODED // width, d, h = 0, rows, outside = 0
    cdef Py_ssize_t size = cells_of(job.g.full)
    for d in range(job.g.pooled[0]):
        h = 0
        while h < job.g.pooled[1]:
            rows = min(job.g.pooled[1] - h, most)
            decode_rows(job, codes + d * job.indices.axis[0] + h * job.indices.axis[1], d, h, 0, rows, width, cells)
            outside += put_row(job, out, values + d * job.pooled.axis[0] + h * job.pooled.axis[1], value_step,
                               <const char *> cells, sizeof(index8), rows * width, 0, size, 0, size, full,
                               <index8 *> NULL)
            h += rows
    return outside


cdef Py_ssize_t scatter_plane(const Job *job, Py_ssize_t plane, Py_ssize_t low, Py_ssize_t high, bint clearing,
                              entry *full, index *index_type) noexcept nogil:
    """Clear the cells from `low` to `high` of a plane, or of all lanes, and put there, in raster order, what belongs there.

    Where the job is banded, only the rows whose windows reach these cells are read. Then the count that comes back is of
    the indices read that lie outside the rows of their own windows: if any task meets one, other tasks may have missed
    it, and the job has to run again without bands. Else it is of the indices outside the plane.
    """
    cdef const Geometry *g = &job.g
    cdef char *out = plane_of(&job.full, job.channels, plane)
    cdef const char *values = plane_of(&job.pooled, job.channels, plane)
    cdef const char *indices = plane_of(&job.indices, job.channels, plane)
    cdef const char *row_values
    cdef const char *row_indices
    cdef Py_ssize_t width = g.pooled[2], height = g.pooled[1], size = job.lanes * sizeof(entry)
    cdef Py_ssize_t value_step = flat_stride(&job.pooled, g.pooled), index_step = flat_stride(&job.indices, g.pooled)
    cdef Py_ssize_t d, h, w, i, part, count, outside = 0
    cdef Py_ssize_t band[2]
    band[0] = 0
    band[1] = cells_of(g.full)
    if high <= low:
        return 0
    if clearing:
        clear(job, out, low, high, size)
    if not job.banded and job.lanes == 1 and value_step and index_step and not job.code_size:
        return put_row(job, out, values, value_step, indices, index_step, cells_of(g.pooled), low, high, 0, band[1], full,
                       index_type)
    if not job.banded and job.lanes == 1 and value_step and job.code_size and width < DECODED // 2:
        return put_short_rows(job, out, values, value_step, indices, full)
    for d in range(g.pooled[0]):
        for h in range(height):
            for part in range((width + CHUNK - 1) // CHUNK):
                w = part * CHUNK
                count = min(width - w, <Py_ssize_t> CHUNK)
                if job.banded:
                    band_of(g, d, h, w, w + count, band)
                    # An empty band is read as well, by the task that it lies in, for it makes every index a stray.
                    if (band[1] <= low and band[0] < low) or (band[0] >= high and high < cells_of(g.full)):
                        continue
                row_values = values + d * job.pooled.axis[0] + h * job.pooled.axis[1] + w * job.pooled.axis[2]
                row_indices = indices + d * job.indices.axis[0] + h * job.indices.axis[1] + w * job.indices.axis[2]
                if job.code_size:
                    outside += put_decoded(job, out, row_values, row_indices, d, h, w, count, low, high, band[0], band[1],
                                           full)
                elif job.lanes == 1:
                    outside += put_row(job, out, row_values, job.pooled.axis[2], row_indices, job.indices.axis[2], count,
                                       low, high, band[0], band[1], full, index_type)
                else:
                    for i in range(count):
                        outside += put_lanes(job, out, row_values + i * job.pooled.axis[2],
                                             row_indices + i * job.indices.axis[2], job.lanes, low, high, band[0],
                                             band[1], full, index_type)
    return outside


cdef Py_ssize_t put_planes(const Job *job, Py_ssize_t plane, Py_ssize_t end, entry *full,
                           index *index_type) noexcept nogil:
    """`put` for contiguous planes that have been cleared: small ones want few instructions around the loop."""
    cdef Py_ssize_t count = cells_of(job.g.pooled), size = cells_of(job.g.full), outside = 0
    cdef char *out = job.full.data + plane * job.full.c
    cdef const char *values = job.pooled.data + plane * job.pooled.c
    cdef const char *indices = job.indices.data + plane * job.indices.c
    for plane in range(plane, end):
        put(job, out, 0, True, sizeof(entry), values, sizeof(entry), indices, sizeof(index), count, 0, size, 0, size,
            full, index_type, &outside)
        out += job.full.c
        values += job.pooled.c
        indices += job.indices.c
    return outside


cdef void scatter(const Job *job, Py_ssize_t task, Found *found, entry *full, index *index_type) noexcept nogil:
    """One task: some whole planes (or all lanes of some), or one of the stretches into which these are split."""
    cdef Py_ssize_t groups = job.batch * job.channels // job.lanes, size = cells_of(job.g.full)
    cdef Py_ssize_t group = groups * task // job.tasks, end = groups * (task + 1) // job.tasks
    cdef Py_ssize_t part, together = 1, outside = 0, planes_bytes = groups * job.full.c
    cdef bint simple = (not job.code_size and job.pooled.even and job.indices.even
                        and flat_stride(&job.pooled, job.g.pooled) == sizeof(entry)
                        and flat_stride(&job.indices, job.g.pooled) == sizeof(index))
    if job.splits > 1:
        part = task % job.splits
        outside = scatter_plane(job, task // job.splits * job.lanes, cut(job, part), cut(job, part + 1), True, full,
                                index_type)
    else:
        if job.lanes == 1 and job.flat == sizeof(entry) and job.full.even and job.full.c == size * <Py_ssize_t> sizeof(entry):
            together = CLEAR_SMALL if planes_bytes < CLEAR_LARGE else CLEAR_LARGE
            together = max(together // job.full.c, 1)
        while group < end:
            together = min(together, end - group)
            if together > 1:
                clear(job, plane_of(&job.full, job.channels, group), 0, together * size, sizeof(entry))
            if together > 1 and simple:
                outside += put_planes(job, group, group + together, full, index_type)
            else:
                for part in range(group, group + together):
                    outside += scatter_plane(job, part * job.lanes, 0, size, together == 1, full, index_type)
            group += together
    if job.banded:
        found.strays += outside
    else:
        found.wrong += outside


cdef inline entry chosen(entry value, bint here) noexcept nogil:
    """`value` or zero. Masks vectorise where conditions do not."""
    if entry is item1 or entry is item2 or entry is item4 or entry is item8:
        return value & -<entry> here
    else:
        return value if here else zero_of(&value)


cdef struct Tile:
    # Windows that are selected together: `count` neighbours of some pooled rows, and where they and their cells lie.
    Py_ssize_t count, rows
    const char *values
    const char *indices     # window codes are widened
    Py_ssize_t value_row, index_row     # bytes from one pooled row to the next
    char *out[3]            # the lines of the output that are written, for the first pooled row,
    uint32_t first[3]       # and the index, or code, of the first cell in each of them;
    Py_ssize_t out_row      # bytes to those of the next pooled row
    uint32_t first_row
    uint32_t area           # from a line to the one behind it
    uint32_t far            # the bits of how far each index is from the nearest line of its window, and of all indices
    int64_t seen


cdef enum Check:
    NONE                    # window codes have been looked at; so have indices where these lines are not the first ones
    NEAR                    # an index has to lie in one of the lines,
    DEEP                    # or of the lines behind these

cdef inlined select_row(int lines, int width, int step, Check check, uint32_t area, entry **out, const uint32_t *first, const entry *values,
                        const index *indices, Py_ssize_t count, uint32_t *far, index *seen) noexcept nogil:
    """The cells of `count` windows that are `width` wide in up to 3 `lines` of the output.

    `step` is what indices grow by from one window to the next: window codes do not. Their low 32 bits are compared, for
    planes are smaller than 2**31 here. It vectorises where `lines`, `width`, `step` and `check` are constants.
    """
    # Copies, because the compiler has to fear that writing results changes these.
    cdef entry *line_out[3]
    cdef uint32_t line_first[3]
    cdef entry value
    cdef index all_bits = 0
    cdef uint32_t cell, nearest, far_bits = 0
    # In whole vectors, of which the last one does some windows again.
    cdef Py_ssize_t left = count % LANE if count > LANE else 0, some = count - left, i
    cdef int line, tap
    for line in range(lines):
        line_out[line] = out[line]
        line_first[line] = first[line]
    while True:
        for i in range(some):
            value = alone(values[i])
            nearest = 0xFFFFFFFF
            for line in range(lines):
                cell = <uint32_t> indices[i] - line_first[line] - step * <uint32_t> i
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


cdef inlined select_tile(int lines, int width, int step, Check check, Tile *tile, entry *full, index *index_type) noexcept nogil:
    """`select_row` for all rows of a tile."""
    cdef entry *out[3]
    cdef uint32_t first[3]
    cdef const char *values = tile.values
    cdef const char *indices = tile.indices
    cdef Py_ssize_t out_row = tile.out_row, value_row = tile.value_row, index_row = tile.index_row, count = tile.count, row
    cdef uint32_t far = 0, area = tile.area
    cdef index seen = 0
    cdef int line
    for line in range(lines):
        out[line] = <entry *> tile.out[line]
        first[line] = tile.first[line]
    for row in range(tile.rows):
        select_row(lines, width, step, check, area, out, first, <const entry *> values, <const index *> indices, count, &far, &seen)
        values += value_row
        indices += index_row
        for line in range(lines):
            out[line] = <entry *> (<char *> out[line] + out_row)
            first[line] += tile.first_row
    tile.far |= far
    tile.seen |= seen


cdef cloned select_lines(const Job *job, int lines, Check check, Tile *tile, entry *full, index *index_type) noexcept nogil:
    """`select_tile` compiled apart for what there is."""
    if not job.code_size:
        if lines == 1:
            select_tile(1, 2, 2, NEAR, tile, full, index_type)
        elif check == NEAR:
            select_tile(2, 2, 2, NEAR, tile, full, index_type)
        elif check == DEEP:
            select_tile(2, 2, 2, DEEP, tile, full, index_type)
        else:
            select_tile(2, 2, 2, NONE, tile, full, index_type)
    elif index is index4:
        if lines == 3:
            select_tile(3, 3, 0, NONE, tile, full, index_type)
        elif lines == 2:
            select_tile(2, 2, 0, NONE, tile, full, index_type)
        elif job.g.kernel[2] == 1:
            select_tile(1, 1, 0, NONE, tile, full, index_type)
        elif job.g.kernel[2] == 2:
            select_tile(1, 2, 0, NONE, tile, full, index_type)
        elif job.g.kernel[2] == 3:
            select_tile(1, 3, 0, NONE, tile, full, index_type)
        else:
            select_tile(1, 4, 0, NONE, tile, full, index_type)


cdef cloned widen(const Job *job, const item1 *codes, Py_ssize_t count, index4 *wide, bint *beyond) noexcept nogil:
    """Copy window codes to a buffer of whole vectors; a loop over bytes would do short rows one by one.

    `beyond` becomes true if one is too large.
    """
    cdef item1 bytes[64]
    cdef Py_ssize_t whole = count // 64 * 64, i
    cdef item1 largest = 0
    for i in range(whole):
        wide[i] = codes[i]
        largest = max(largest, codes[i])
    if count > whole:
        memset(bytes, 0, 64)
        memcpy(bytes, codes + whole, count - whole)
        for i in range(64):
            wide[whole + i] = bytes[i]
            largest = max(largest, bytes[i])
    if largest >= cells_of(job.g.kernel):
        beyond[0] = True


cdef void stream_out(char *target, entry *stage, Py_ssize_t lines, Py_ssize_t pitch, Py_ssize_t rest,
                     Py_ssize_t width) noexcept nogil:
    """Copy lines past the caches; the `rest` of each, behind the windows, is zero."""
    cdef Py_ssize_t line
    for line in range(lines):
        memset(stage + (line + 1) * pitch - rest, 0, rest * sizeof(entry))
    if pitch == width:
        pitch *= lines
        lines = 1
    for line in range(lines):
        cunpool_stream(target + line * width * sizeof(entry), <const char *> (stage + line * pitch), pitch * sizeof(entry))


cdef bint select_some(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w, Tile *tile,
                      entry *full, index *index_type) noexcept nogil:
    """The output's cells that belong to the windows of a tile, whose first one is at (d, h, w). Whether no index is a stray."""
    cdef entry stage[2][STAGE + TALLEST * WIDEST]
    cdef index4 codes[SELECT_CHUNK]
    cdef const Geometry *g = &job.g
    cdef char *into = plane_of(&job.full, job.channels, plane)
    cdef Py_ssize_t width = g.full[2], pitch = width, rest = 0, kd, kh, cell, staged = 0
    cdef int wide = <int> g.kernel[2], lines = <int> (g.kernel[0] * g.kernel[1]), k = 0, some = 0
    cdef int together = 2 if wide == 2 else 3 if wide == 3 and g.kernel[1] == 3 else 1
    cdef Check check = DEEP if lines == 4 else NEAR
    cdef bint beyond = False
    tile.values = (plane_of(&job.pooled, job.channels, plane) + d * job.pooled.axis[0] + h * job.pooled.axis[1]
                   + w * <Py_ssize_t> sizeof(entry))
    tile.indices = plane_of(&job.indices, job.channels, plane) + d * job.indices.axis[0] + h * job.indices.axis[1]
    tile.value_row = job.pooled.axis[1]
    tile.index_row = job.indices.axis[1]
    tile.first_row = <uint32_t> (g.kernel[1] * width)
    tile.area = <uint32_t> (g.full[1] * width)
    tile.far = tile.seen = 0
    if job.code_size:
        widen(job, <const item1 *> tile.indices + w, tile.rows * tile.count, codes, &beyond)
        tile.indices = <const char *> codes
        tile.index_row = tile.count * sizeof(index4)
        tile.first_row = 0
    else:
        tile.indices += w * <Py_ssize_t> sizeof(index)
    if job.stream:
        if w + tile.count == g.pooled[2]:
            rest = width - wide * g.pooled[2]
        pitch = wide * tile.count + rest
    tile.out_row = g.kernel[1] * pitch * sizeof(entry)
    for kd in range(g.kernel[0]):
        for kh in range(g.kernel[1]):
            cell = ((d * g.kernel[0] + kd) * g.full[1] + h * g.kernel[1] + kh) * width + wide * w
            tile.first[some] = wide * k if job.code_size else <uint32_t> cell
            tile.out[some] = <char *> &stage[kd % 2][kh * pitch] if job.stream else into + cell * sizeof(entry)
            k += 1
            some += 1
            if k == lines or some == together:
                select_lines(job, some, check, tile, full, index_type)
                check = NONE
                some = 0
        while job.stream and some == 0 and staged <= kd:
            cell = ((d * g.kernel[0] + staged) * g.full[1] + h * g.kernel[1]) * width + wide * w
            stream_out(into + cell * sizeof(entry), &stage[staged % 2][0], tile.rows * g.kernel[1], pitch, rest, width)
            staged += 1
    if job.code_size:
        return not beyond
    return tile.far < 2 and 0 <= tile.seen <= 0x7FFFFFFF


cdef bint select_rows(const Job *job, Py_ssize_t plane, Py_ssize_t row, Py_ssize_t row_end, Py_ssize_t begin,
                      Py_ssize_t end, entry *full, index *index_type) noexcept nogil:
    """The output's rows that belong to some pooled rows of a plane, front to back: of each the windows from `begin` to `end`.

    Returns at the first stray, and whether there was none.
    """
    cdef const Geometry *g = &job.g
    cdef char *into = plane_of(&job.full, job.channels, plane)
    cdef Py_ssize_t width = g.full[2], height = g.full[1], used = g.kernel[2] * g.pooled[2], most = 1, d, h, w, kd, line, cell
    cdef Tile tile
    cdef Py_ssize_t chunk = min(<Py_ssize_t> SELECT_CHUNK, STAGE // (g.kernel[1] * g.kernel[2]))
    # Rows of codes that follow each other are widened together.
    if end - begin == g.pooled[2] and (not job.code_size or job.indices.axis[1] == g.pooled[2]):
        most = max(min(SELECT_CHUNK // g.pooled[2], STAGE // (g.kernel[1] * width)), 1)
    while row < row_end:
        d = row // g.pooled[1]
        h = row % g.pooled[1]
        tile.rows = min(most, min(row_end - row, g.pooled[1] - h))
        w = begin
        while w < end:
            tile.count = min(end - w, chunk)
            if not select_some(job, plane, d, h, w, &tile, full, index_type):
                return False
            w += tile.count
        row += tile.rows
        if end < g.pooled[2]:
            continue
        # What lies beyond the last windows.
        for kd in range(g.kernel[0]):
            cell = ((d * g.kernel[0] + kd) * height + h * g.kernel[1]) * width
            if used < width and not job.stream:
                for line in range(tile.rows * g.kernel[1]):
                    clear(job, into, cell + line * width + used, cell + (line + 1) * width, sizeof(entry))
            if h + tile.rows == g.pooled[1]:
                clear(job, into, cell + tile.rows * g.kernel[1] * width, (d * g.kernel[0] + kd + 1) * height * width,
                      sizeof(entry))
    if row_end == g.pooled[0] * g.pooled[1] and end == g.pooled[2]:
        clear(job, into, g.pooled[0] * g.kernel[0] * height * width, cells_of(g.full), sizeof(entry))
    return True


cdef bint selectable(const Job *job) noexcept nogil:
    """Whether selecting is worth while, for windows side by side."""
    cdef Py_ssize_t width = job.g.pooled[2]
    if job.code_size:
        return (job.g.kernel[2] <= WIDEST and job.g.kernel[1] <= TALLEST
                and width >= (SELECT_CODES if of_two(&job.g) else SELECT_WIDTH))
    return of_two(&job.g) and (width >= SELECT_WIDTH or width >= SELECT_WHOLE and width % LANE == 0)


cdef void select(const Job *job, Py_ssize_t task, Found *found, entry *full, index *index_type) noexcept nogil:
    """One task: as in `scatter`; but a plane that is split is split between pooled rows, or in 1d between windows."""
    cdef Py_ssize_t planes = job.batch * job.channels, rows = job.g.pooled[0] * job.g.pooled[1], width = job.g.pooled[2]
    cdef Py_ssize_t plane, part = task % job.splits
    if job.splits > 1:
        plane = task // job.splits
        if rows == 1:
            found.strays += not select_rows(job, plane, 0, 1, width * part // job.splits, width * (part + 1) // job.splits,
                                            full, index_type)
        else:
            found.strays += not select_rows(job, plane, rows * part // job.splits, rows * (part + 1) // job.splits, 0,
                                            width, full, index_type)
        return
    for plane in range(planes * task // job.tasks, planes * (task + 1) // job.tasks):
        if not select_rows(job, plane, 0, rows, 0, width, full, index_type):
            found.strays += 1
            if job.code_size:
                found.wrong += 1  # a code that is none cannot be placed anywhere else
            else:
                found.wrong += scatter_plane(job, plane, 0, cells_of(job.g.full), True, full, index_type)


# By kind: items by the logarithm of their size, then the numbers that are added.
KINDS = ("1", "2", "4", "8", "16", "f2", "bf2", "f4", "f8")
cdef Kernel[9][2] SCATTER  # and by whether an index has 8 bytes
cdef Kernel[9][2] SELECT   # window codes go with the first
SCATTER[0] = [<Kernel> scatter[item1, index4], <Kernel> scatter[item1, index8]]
SCATTER[1] = [<Kernel> scatter[item2, index4], <Kernel> scatter[item2, index8]]
SCATTER[2] = [<Kernel> scatter[item4, index4], <Kernel> scatter[item4, index8]]
SCATTER[3] = [<Kernel> scatter[item8, index4], <Kernel> scatter[item8, index8]]
SCATTER[4] = [<Kernel> scatter[item16, index4], <Kernel> scatter[item16, index8]]
SCATTER[5] = [<Kernel> scatter[half, index4], <Kernel> scatter[half, index8]]
SCATTER[6] = [<Kernel> scatter[bhalf, index4], <Kernel> scatter[bhalf, index8]]
SCATTER[7] = [<Kernel> scatter[float4, index4], <Kernel> scatter[float4, index8]]
SCATTER[8] = [<Kernel> scatter[float8, index4], <Kernel> scatter[float8, index8]]
SELECT[0] = [<Kernel> select[item1, index4], <Kernel> select[item1, index8]]
SELECT[1] = [<Kernel> select[item2, index4], <Kernel> select[item2, index8]]
SELECT[2] = [<Kernel> select[item4, index4], <Kernel> select[item4, index8]]
SELECT[3] = [<Kernel> select[item8, index4], <Kernel> select[item8, index8]]
SELECT[4] = [<Kernel> select[item16, index4], <Kernel> select[item16, index8]]
SELECT[5] = [<Kernel> select[half, index4], <Kernel> select[half, index8]]
SELECT[6] = [<Kernel> select[bhalf, index4], <Kernel> select[bhalf, index8]]
SELECT[7] = [<Kernel> select[float4, index4], <Kernel> select[float4, index8]]
SELECT[8] = [<Kernel> select[float8, index4], <Kernel> select[float8, index8]]


def unpool(cnp.ndarray pooled not None, cnp.ndarray indices not None, cnp.ndarray full not None, tuple sizes,
           int spatial, int kind, bint codes, int threads):
    """Fill `full`. Returns 0 if an index names no place (then `full` is unspecified), else the ways taken."""
    cdef Job job
    cdef Found found
    cdef Py_ssize_t item_size = cnp.PyArray_ITEMSIZE(full), index_size = cnp.PyArray_ITEMSIZE(indices)
    cdef Kernel scattering = SCATTER[kind][codes or index_size == 8], kernel = scattering
    cdef int ways
    prepare(&job, sizes, pooled, indices, full, spatial, codes)
    if cnp.PyArray_SIZE(full) == 0:
        return SCATTERED
    split(&job, threads)
    # Not in 1d: there it was slower, by a third.
    job.stream = (cnp.PyArray_SIZE(full) * item_size + cnp.PyArray_SIZE(pooled) * (item_size + index_size) >= STREAM
                  and job.g.pooled[0] * job.g.pooled[1] > 1)
    ways = SCATTERED
    if side_by_side(&job, item_size, index_size) and selectable(&job):
        kernel = SELECT[kind][not codes and index_size == 8]
        ways = SELECTED + STREAMED * job.stream
    ways += ALL_LANES * (job.lanes > 1) + SPLIT * (job.splits > 1)
    if cnp.PyArray_SIZE(full) * item_size <= GIL_BYTES:
        found = unpool_job(&job, kernel, scattering, threads)
    else:
        with nogil:
            found = unpool_job(&job, kernel, scattering, threads)
    return 0 if found.wrong else ways + STRAYED * (found.strays > 0)


cdef Found unpool_job(Job *job, Kernel kernel, Kernel scattering, int threads) noexcept nogil:
    """Run the kernel, and scatter without any expectation if that met a stray that it could not see to itself."""
    cdef Found found
    cdef bint selecting = kernel != scattering
    if selecting:
        job.banded = False  # a plane whose indices are anywhere is scattered at once
    found = run(kernel, job, threads)
    if found.strays and (job.banded or selecting and job.splits > 1):
        job.banded = False
        found.wrong = run(scattering, job, threads).wrong
    return found
