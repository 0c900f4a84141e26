# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Unpooling's loops. They move bits, so the element type is its size alone. Valid input is assumed, indices apart.

Pooling's gradient is the same walk, but for numbers that are added where several meet.

There are two ways. Scattering clears the output and puts each value where its index says. Selecting, for windows of 2
next to each other, goes through the output instead: each cell takes its window's value if the index names that cell.
That takes no clearing and vectorises, but an index that names no cell of its own window is a stray, and then the plane is
scattered after all.
"""
cimport numpy as cnp
from libc.string cimport memcpy

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
    SELECT_WIDTH = 40       # shorter rows are scattered faster
    SELECT_CODES = 12       # as before, where indices are window codes
    SELECT_CHUNK = 256      # windows of a row that are selected together
    STREAM = 1 << 24        # bytes of output that would not stay in the caches anyway
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


cdef inlined select_rows(int rows, bint codes, entry **out, const uint32_t *first, const entry *values, const index *indices,
                         Py_ssize_t count, Py_ssize_t *hits) noexcept nogil:
    """The cells of some windows in 1 or 2 `rows` of the output; `first` has the place of each row's first cell here,
    or the code of its cells' first one.

    Adds the number of indices that name a cell of their windows. Comparing the low 32 bits is enough: planes are smaller
    than 2**31 here, and an index that is not makes `hits` negative. It vectorises where `rows` is a constant.
    """
    # Copies, because the compiler has to fear that writing results changes these.
    cdef entry *row_out[2]
    cdef uint32_t row_first[2]
    cdef entry nothing = zero_of(values)
    cdef entry value
    cdef index seen = 0
    cdef int32_t found = 0
    cdef uint32_t cell
    cdef Py_ssize_t i
    cdef int row
    for row in range(rows):
        row_out[row] = out[row]
        row_first[row] = first[row]
    for i in range(count):
        seen |= indices[i]
        value = alone(values[i])
        for row in range(rows):
            cell = <uint32_t> indices[i] - row_first[row] - (0 if codes else 2 * <uint32_t> i)
            row_out[row][2 * i] = value if cell == 0 else nothing
            row_out[row][2 * i + 1] = value if cell == 1 else nothing
            found += cell < 2
    hits[0] += found
    if seen < 0 or <int64_t> seen > 0x7FFFFFFF:
        hits[0] = -count - 1


cdef cloned select_plane(const Job *job, Py_ssize_t plane, Py_ssize_t row, Py_ssize_t row_end, Py_ssize_t begin,
                         Py_ssize_t end, Py_ssize_t *strays, entry *full, index *index_type) noexcept nogil:
    """The output's rows that belong to some pooled rows of a plane, front to back. Stops at the first row with a stray.

    Of each row, the windows from `begin` to `end`.
    """
    cdef entry line[4][2 * SELECT_CHUNK]
    cdef index4 wide[SELECT_CHUNK]
    cdef item1 bytes[SELECT_CHUNK]
    cdef const item1 *codes
    cdef entry *out[4]
    cdef char *target[4]
    cdef uint32_t first[4]
    cdef const Geometry *g = &job.g
    cdef char *into = plane_of(&job.full, job.channels, plane)
    cdef const entry *values
    cdef const char *indices
    cdef Py_ssize_t width = g.full[2], height = g.full[1], used = 2 * g.pooled[2]
    cdef Py_ssize_t d, h, kd, kh, w, part, count, cell, hits, i, whole
    cdef int k, rows = <int> (g.kernel[0] * g.kernel[1])
    for row in range(row, row_end):
        d = row // g.pooled[1]
        h = row % g.pooled[1]
        values = <const entry *> (plane_of(&job.pooled, job.channels, plane) + d * job.pooled.axis[0]
                                 + h * job.pooled.axis[1])
        indices = (plane_of(&job.indices, job.channels, plane) + d * job.indices.axis[0]
                   + h * job.indices.axis[1])
        hits = 0
        for part in range((end - begin + SELECT_CHUNK - 1) // SELECT_CHUNK):
            w = begin + part * SELECT_CHUNK
            count = min(end - w, <Py_ssize_t> SELECT_CHUNK)
            for k in range(rows):
                cell = ((d * g.kernel[0] + k // g.kernel[1]) * height + h * g.kernel[1] + k % g.kernel[1]) * width + 2 * w
                first[k] = 2 * k if job.code_size else <uint32_t> cell
                target[k] = into + cell * sizeof(entry)
                out[k] = &line[k][0] if job.stream else <entry *> into + cell
            if index is index4:
                if job.code_size:
                    # Widened, in whole vectors: a loop over bytes would do short rows one by one.
                    codes = <const item1 *> indices + w
                    whole = (count + 63) // 64 * 64
                    if <const char *> codes + whole > job.indices.end:
                        memcpy(bytes, codes, count)
                        codes = bytes
                    for i in range(whole):
                        wide[i] = codes[i]
                    if rows == 1:
                        select_rows(1, True, out, first, values + w, wide, count, &hits)
                    else:
                        select_rows(2, True, out, first, values + w, wide, count, &hits)
                    if rows == 4:
                        select_rows(2, True, out + 2, first + 2, values + w, wide, count, &hits)
            if not job.code_size:
                if rows == 1:
                    select_rows(1, False, out, first, values + w, <const index *> indices + w, count, &hits)
                else:
                    select_rows(2, False, out, first, values + w, <const index *> indices + w, count, &hits)
                if rows == 4:
                    select_rows(2, False, out + 2, first + 2, values + w, <const index *> indices + w, count, &hits)
            if job.stream:
                for k in range(rows):
                    cunpool_stream(target[k], <const char *> &line[k][0], 2 * count * sizeof(entry))
        if hits != end - begin:
            strays[0] += 1
            return
        if end < g.pooled[2]:
            continue
        # What lies beyond the last windows.
        for kd in range(g.kernel[0]):
            cell = ((d * g.kernel[0] + kd) * height + h * g.kernel[1]) * width
            if used < width:
                for kh in range(g.kernel[1]):
                    clear(job, into, cell + kh * width + used, cell + (kh + 1) * width, sizeof(entry))
            if h == g.pooled[1] - 1:
                clear(job, into, cell + g.kernel[1] * width, (d * g.kernel[0] + kd + 1) * height * width, sizeof(entry))
    if row_end == g.pooled[0] * g.pooled[1] and end == g.pooled[2]:
        clear(job, into, g.pooled[0] * g.kernel[0] * height * width, cells_of(g.full), sizeof(entry))


cdef void select(const Job *job, Py_ssize_t task, Found *found, entry *full, index *index_type) noexcept nogil:
    """One task: as in `scatter`; but a plane that is split is split between pooled rows, or in 1d between windows."""
    cdef Py_ssize_t planes = job.batch * job.channels, rows = job.g.pooled[0] * job.g.pooled[1], width = job.g.pooled[2]
    cdef Py_ssize_t plane, part, strays
    if job.splits > 1 and rows == 1:
        part = task % job.splits
        select_plane(job, task // job.splits, 0, 1, width * part // job.splits, width * (part + 1) // job.splits,
                     &found.strays, full, index_type)
    elif job.splits > 1:
        part = task % job.splits
        select_plane(job, task // job.splits, rows * part // job.splits, rows * (part + 1) // job.splits, 0, width,
                     &found.strays, full, index_type)
    else:
        for plane in range(planes * task // job.tasks, planes * (task + 1) // job.tasks):
            strays = 0
            select_plane(job, plane, 0, rows, 0, width, &strays, full, index_type)
            if strays:
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
    job.stream = cnp.PyArray_SIZE(full) * item_size >= STREAM and job.g.pooled[0] * job.g.pooled[1] > 1
    ways = SCATTERED
    if side_by_side(&job, item_size, index_size, SELECT_CODES if codes else SELECT_WIDTH):
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
