# Filtering: values alone, of contiguous rows, where nothing has to be packed. The rows of a window are held against
# each other where they lie, then neighbours along the row that comes of it, for many rows at once where they are short.
# A row of interleaved channels is a row like any other, in which neighbours are a unit apart: as many cells as there
# are channels.
#
# In whatever order numbers are compared, the highest is the same, but for NaN, and for zeros of either sign: blocks
# that have a NaN or a negative zero are reached instead, in raster order (`_reach.pxd`).
from libc.string cimport memcpy

from cunpool._common cimport *
from cunpool._compare cimport *
from cunpool._pack cimport *

cdef extern from *:
    """
    /* The highest of some runs, cell by cell. `into` may be one of them, and lies over none of them otherwise. */
    #if defined(__clang__)
    #define CUNPOOL_APART _Pragma("clang loop vectorize(assume_safety)")
    #elif defined(__GNUC__)
    #define CUNPOOL_APART _Pragma("GCC ivdep")
    #elif defined(_MSC_VER)
    #define CUNPOOL_APART __pragma(loop(ivdep))
    #else
    #define CUNPOOL_APART
    #endif
    #define CUNPOOL_HIGHER(x, y) ((y) > (x) ? (y) : (x))
    #define CUNPOOL_RUNS(into, count, highest) do { \\
            Py_ssize_t i_; \\
            CUNPOOL_APART \\
            for (i_ = 0; i_ < (count); i_++) \\
                (into)[i_] = highest; \\
        } while (0)
    #define CUNPOOL_HIGHEST_2(into, a, b, count) CUNPOOL_RUNS(into, count, CUNPOOL_HIGHER((a)[i_], (b)[i_]))
    #define CUNPOOL_HIGHEST_3(into, a, b, c, count) \\
        CUNPOOL_RUNS(into, count, CUNPOOL_HIGHER(CUNPOOL_HIGHER((a)[i_], (b)[i_]), (c)[i_]))
    #define CUNPOOL_HIGHEST_4(into, a, b, c, d, count) \\
        CUNPOOL_RUNS(into, count, \\
                     CUNPOOL_HIGHER(CUNPOOL_HIGHER((a)[i_], (b)[i_]), CUNPOOL_HIGHER((c)[i_], (d)[i_])))
    """
    void highest_2 "CUNPOOL_HIGHEST_2"(...) noexcept nogil
    void highest_3 "CUNPOOL_HIGHEST_3"(...) noexcept nogil
    void highest_4 "CUNPOOL_HIGHEST_4"(...) noexcept nogil

cdef enum:
    FILTERED_MORE = 4       # times the cells of a block that is reached, for what it sees stays where it is
    IN_TURN = 32            # rows of a window, or cells along a row, that are held against each other at once
    SHORT_ROW = 1 << 9      # bytes of a row that is not worth a loop of its own
    STAGE = 1 << 13         # bytes of the rows that go along their windows together, unless a single one has more


# What is compared as it lies, without being packed: any number but half precision.
ctypedef fused plain:
    int1
    int2
    int4
    int8
    item1
    item2
    item4
    item8
    float4
    float8


cdef inline bint pays_in_turn(Py_ssize_t kernel, Py_ssize_t stride) noexcept nogil:
    """Whether so many neighbours are looked at in turn, four of them at once, and not in steps that reach ever more."""
    return kernel <= IN_TURN and (met("so few neighbours", kernel <= 5) or met("strides of neighbours",
                                                                               kernel <= 4 * stride))


cdef inline Py_ssize_t stage_pitch(const Filter *filter, Py_ssize_t width) noexcept nogil:
    """Cells from one row to the next where several go along their windows together: windows of all begin in step."""
    return (width + filter.stride - 1) // filter.stride * filter.stride * filter.unit


cdef inline Py_ssize_t filter_room(const Reach *reach) noexcept nogil:
    """Bytes that filtering needs: a row of the padding, the rows that are reached, and two stages."""
    cdef const Filter *filter = &reach.filter
    if not reach.filtered:
        return 0
    return (filter.row + filter.levels + 2 * (filter.stage + SPARE)) * reach.item_size + 2 * CACHE_LINE


cdef inline void plan_filter(const Geometry *g, const Py_ssize_t *most, int item_size, Filter *filter) noexcept nogil:
    """How blocks of so many windows are filtered, of units that are known."""
    cdef Py_ssize_t width = span_of(g, 2, most[2])
    # Of windows one by one a stride means nothing, and may be anything.
    filter.stride = g.stride[2] if most[2] > 1 else 1
    filter.rows_in_turn = g.kernel[0] > 1 or pays_in_turn(g.kernel[1], g.stride[1])
    filter.cells_in_turn = pays_in_turn(g.kernel[2], filter.stride) and (filter.unit == 1 or filter.stride == 1)
    filter.row = whole_vectors(width * filter.unit, item_size)
    filter.levels = 0 if filter.rows_in_turn else span_of(g, 1, most[1]) * filter.row
    filter.stage = max(<Py_ssize_t> STAGE // item_size, stage_pitch(filter, width))


cdef inline inlined highest_of(const plain **runs, int count, plain *into, Py_ssize_t cells) noexcept nogil:
    """The highest of some runs, four at a time."""
    cdef int i = min(count, 4)
    if count == 1:
        memcpy(into, runs[0], cells * sizeof(plain))
    elif count == 2:
        highest_2(into, runs[0], runs[1], cells)
    elif count == 3:
        highest_3(into, runs[0], runs[1], runs[2], cells)
    else:
        highest_4(into, runs[0], runs[1], runs[2], runs[3], cells)
    while i < count:
        if count - i == 1:
            highest_2(into, into, runs[i], cells)
        elif count - i == 2:
            highest_3(into, into, runs[i], runs[i + 1], cells)
        else:
            highest_4(into, into, runs[i], runs[i + 1], runs[i + 2], cells)
        i += 3


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


cdef inline inlined look_for_odd(const plain *row, Py_ssize_t count, bint *odd) noexcept nogil:
    """Whether there is a NaN or a negative zero."""
    cdef item4 found = 0
    cdef item8 found_8 = 0
    cdef Py_ssize_t i
    if plain is float4:
        for i in range(count):
            found |= <item4> (row[i] != row[i]) | <item4> ((<const item4 *> row)[i] == <item4> 1 << 31)
        odd[0] |= found != 0
    elif plain is float8:
        for i in range(count):
            found_8 |= <item8> (row[i] != row[i]) | <item8> ((<const item8 *> row)[i] == <item8> 1 << 63)
        odd[0] |= found_8 != 0


cdef inline inlined check_rows(const Job *job, const Run *run, Py_ssize_t depth, Py_ssize_t first, Py_ssize_t last,
                               const char *corner, Py_ssize_t cells, bint *odd, plain *full) noexcept nogil:
    """Look at some rows of a block, in all layers that its windows see, for what has to be reached instead."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t d, h, k, rows
    if plain is float4 or plain is float8:
        first = max(run.start[1] + first, 0)
        rows = min(run.start[1] + last, g.full[1]) - first
        for k in range(g.kernel[0]):
            d = depth + k * g.dilation[0]
            if not 0 <= d < g.full[0]:
                continue
            if job.full.axis[1] == cells * <Py_ssize_t> sizeof(plain):  # as one row
                look_for_odd(<const plain *> (corner + d * job.full.axis[0] + first * job.full.axis[1]),
                             rows * cells, odd)
                continue
            for h in range(first, first + rows):
                look_for_odd(<const plain *> (corner + d * job.full.axis[0] + h * job.full.axis[1]), cells, odd)


cdef inline inlined reach_rows(const Job *job, const Run *run, const Filter *filter, const char *layer,
                               Py_ssize_t cells, const char *limit, const plain *padding,
                               plain *levels) noexcept nogil:
    """All steps along the height but the last."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t rows = run.size[1], reached = 1, before, whole = whole_vectors(cells, sizeof(plain)), r, h
    cdef Py_ssize_t shift[4]
    cdef const plain *runs[4]
    cdef int count, i
    cdef bint overrun
    must(rows * filter.row <= filter.levels and whole <= filter.row)
    while True:
        before = reached
        count = next_step(g.kernel[1], &reached, shift)
        if reached == g.kernel[1]:
            break
        rows -= (reached - before) * g.dilation[1]
        for r in range(rows):
            overrun = True
            for i in range(count):
                runs[i] = levels + (r + shift[i] * g.dilation[1]) * filter.row
                if before == 1:
                    h = run.start[1] + r + shift[i] * g.dilation[1]
                    runs[i] = padding
                    if 0 <= h < g.full[1]:
                        runs[i] = <const plain *> (layer + h * job.full.axis[1])
                        overrun &= <const char *> (runs[i] + whole) <= limit
            highest_of(runs, count, levels + r * filter.row, whole if overrun else cells)


cdef inline int last_step(Py_ssize_t kernel, Py_ssize_t *shift) noexcept nogil:
    """The step that reaches all of a window."""
    cdef Py_ssize_t reached = 1
    cdef int count = 1
    while reached < kernel:
        count = next_step(kernel, &reached, shift)
    return count


cdef inline inlined every(plain *into, const plain *cells, Py_ssize_t stride, Py_ssize_t unit,
                          Py_ssize_t count) noexcept nogil:
    """Every `stride`-th unit of cells."""
    cdef Py_ssize_t i, k, size = unit * sizeof(plain)
    if unit > 1:
        for i in range(count):
            # In whole vectors, whose rest the next one overwrites.
            for k in range(0, size, 16):
                memcpy(<char *> (into + i * unit) + k, <const char *> (cells + i * stride * unit) + k, 16)
    elif stride == 2:
        for i in range(count):
            into[i] = cells[2 * i]
    else:
        for i in range(count):
            into[i] = cells[stride * i]


cdef inline inlined cells_in_turn(const Geometry *g, const Filter *filter, Py_ssize_t cells, plain **stage,
                                  plain **other) noexcept nogil:
    """Along the rows of a stage, each cell of a window in turn; those `stride` apart are brought together first."""
    cdef Py_ssize_t windows = cells // filter.stride, parts = 0, at
    cdef Py_ssize_t part_of[IN_TURN]
    cdef const plain *runs[IN_TURN]
    cdef int taps = <int> g.kernel[2], tap, same
    if filter.stride == 1:
        for tap in range(taps):
            runs[tap] = stage[0] + tap * g.dilation[2] * filter.unit
        highest_of(runs, taps, other[0], whole_vectors(cells - (taps - 1) * g.dilation[2] * filter.unit, sizeof(plain)))
        stage[0], other[0] = other[0], stage[0]
        return
    for tap in range(taps):
        at = tap * g.dilation[2]
        same = 0
        while same < tap and (at - same * g.dilation[2]) % filter.stride:
            same += 1
        part_of[tap] = parts if same == tap else part_of[same]
        if same == tap:
            every(other[0] + parts * windows, stage[0] + at % filter.stride, filter.stride, 1, windows)
            parts += 1
        runs[tap] = other[0] + part_of[tap] * windows + at // filter.stride
    at = (taps - 1) * g.dilation[2] // filter.stride
    highest_of(runs, taps, stage[0], whole_vectors(windows - at, sizeof(plain)))


cdef inline inlined reach_cells(const Geometry *g, const Filter *filter, Py_ssize_t cells, plain **stage,
                                plain **other) noexcept nogil:
    """Along the rows of a stage, in steps; then every `stride`-th is left."""
    cdef Py_ssize_t reached = 1
    cdef Py_ssize_t shift[4]
    cdef const plain *runs[4]
    cdef int count, i
    while reached < g.kernel[2]:
        count = next_step(g.kernel[2], &reached, shift)
        for i in range(count):
            runs[i] = stage[0] + shift[i] * g.dilation[2] * filter.unit
        highest_of(runs, count, other[0],
                   whole_vectors(cells - (reached - 1) * g.dilation[2] * filter.unit, sizeof(plain)))
        stage[0], other[0] = other[0], stage[0]
    if filter.stride > 1:
        every(other[0], stage[0], filter.stride, filter.unit, cells // (filter.stride * filter.unit))
        stage[0], other[0] = other[0], stage[0]


cdef inline inlined highest_rows(const Job *job, const Run *run, const Filter *filter, const char *corner,
                                 Py_ssize_t depth, Py_ssize_t row, Py_ssize_t cells, const char *limit,
                                 const plain *levels, plain *into) noexcept nogil:
    """The highest of the rows that one row of windows sees."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t whole = whole_vectors(cells, sizeof(plain)), d, h, kd, kh
    cdef Py_ssize_t shift[4]
    cdef const plain *runs[IN_TURN]
    cdef int count = 0, i
    cdef bint overrun = True
    if filter.rows_in_turn:
        for kd in range(g.kernel[0]):
            for kh in range(g.kernel[1]):
                d = depth + kd * g.dilation[0]
                h = run.start[1] + row + kh * g.dilation[1]
                if 0 <= d < g.full[0] and 0 <= h < g.full[1]:
                    runs[count] = <const plain *> (corner + d * job.full.axis[0] + h * job.full.axis[1])
                    overrun &= <const char *> (runs[count] + whole) <= limit
                    count += 1
    else:
        count = last_step(g.kernel[1], shift)
        for i in range(count):
            runs[i] = levels + (row + shift[i] * g.dilation[1]) * filter.row
    must(0 < count <= IN_TURN)
    # What is looked at beyond a row is in the array, and is overwritten by what follows here.
    highest_of(runs, count, into, whole if overrun else cells)


cdef inline inlined highest_together(const Geometry *g, const char *row, Py_ssize_t cells, Py_ssize_t rows,
                                     plain *into) noexcept nogil:
    """The same for some rows of windows at once, where all follow each other and reach over no edge."""
    cdef const plain *runs[IN_TURN]
    cdef Py_ssize_t k
    for k in range(g.kernel[1]):
        runs[k] = <const plain *> row + k * g.dilation[1] * cells
    if rows:
        highest_of(runs, <int> g.kernel[1], into, rows * cells)


cdef inline inlined write_rows(const Job *job, char *into, const plain *stage, Py_ssize_t rows, Py_ssize_t pitch,
                               Py_ssize_t windows) noexcept nogil:
    """Write what is left of the rows of a stage."""
    cdef Py_ssize_t row
    if pitch == windows and job.pooled.axis[1] == windows * <Py_ssize_t> sizeof(plain):
        cunpool_copy(into, <const char *> stage, rows * windows * sizeof(plain))
        return
    for row in range(rows):
        cunpool_copy(into + row * job.pooled.axis[1], <const char *> (stage + row * pitch), windows * sizeof(plain))


cdef inline inlined filter_layer(const Job *job, const Run *run, const Filter *filter, const char *plane,
                                 Py_ssize_t depth, char *room, char *into, bint *odd, plain *full) noexcept nogil:
    """The windows of a block in one layer of the results, unless there is something odd among their cells."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t unit = filter.unit, pitch = stage_pitch(filter, run.size[2])
    cdef Py_ssize_t most = max(<Py_ssize_t> 1, filter.stage // pitch), seen = 0, row = 0, rows, first, last, i
    # Cells of the padding before a row, and of the array.
    cdef Py_ssize_t low = clamp(-run.start[2], 0, run.size[2]) * unit
    cdef Py_ssize_t cells = clamp(g.full[2] - run.start[2], low // unit, run.size[2]) * unit - low
    cdef const char *corner = plane + (run.start[2] * unit + low) * sizeof(plain)
    cdef const char *limit = end_of(job, plane, unit * sizeof(plain))
    cdef plain *padding = <plain *> room
    cdef plain *levels = padding + filter.row
    cdef plain *stage = <plain *> aligned(levels + filter.levels)
    cdef plain *other = <plain *> aligned(stage + filter.stage + SPARE)
    cdef plain *to
    cdef bint short = (filter.rows_in_turn and g.kernel[0] == 1 and g.stride[1] == 1 and g.kernel[1] > 1
                       and met("short rows that follow each other", cells * <Py_ssize_t> sizeof(plain) <= SHORT_ROW)
                       and job.full.axis[1] == cells * <Py_ssize_t> sizeof(plain))
    if not filter.rows_in_turn:
        seen = run.size[1]
        check_rows(job, run, depth, 0, seen, corner, cells, odd, full)
        if odd[0]:
            return
        fill_lowest(<char *> padding, filter.row, full)
        reach_rows(job, run, filter, corner + depth * job.full.axis[0], cells, limit, padding, levels)
    while row < run.count[1]:
        rows = min(most, run.count[1] - row)
        must(rows * pitch <= filter.stage)
        i = span_of(g, 1, row + rows)
        check_rows(job, run, depth, seen, i, corner, cells, odd, full)
        if odd[0]:
            return
        seen = max(seen, i)
        fill_lowest(<char *> stage, low, full)
        to = stage + low
        first = last = row
        if short:
            first = clamp(-run.start[1], row, row + rows)
            last = clamp(g.full[1] - (g.kernel[1] - 1) * g.dilation[1] - run.start[1], first, row + rows)
            highest_together(g, corner + depth * job.full.axis[0] + (run.start[1] + first) * job.full.axis[1], cells,
                             last - first, other)
        for i in range(row, row + rows):
            if first <= i < last:
                cunpool_copy(<char *> to, <const char *> (other + (i - first) * cells), cells * sizeof(plain))
            else:
                highest_rows(job, run, filter, corner, depth, i * g.stride[1], cells, limit, levels, to)
            # Behind this row, and before the next.
            fill_lowest(<char *> (to + cells), pitch - cells - (low if i == row + rows - 1 else 0), full)
            to += pitch
        if filter.cells_in_turn:
            cells_in_turn(g, filter, rows * pitch, &stage, &other)
        else:
            reach_cells(g, filter, rows * pitch, &stage, &other)
        write_rows(job, into + row * job.pooled.axis[1], stage, rows, pitch // filter.stride, run.count[2] * unit)
        row += rows


cdef inline cloned filter_block(const Job *job, const Run *run, const Filter *filter, Py_ssize_t image, char *room,
                                bint *odd, plain *full) noexcept nogil:
    """Filter a block, unless there is something odd in it: then it is to be done otherwise."""
    cdef const Geometry *g = &job.g
    cdef const char *plane
    cdef char *into
    cdef Py_ssize_t channel, d
    for channel in range(run.begin[CHANNEL], run.begin[CHANNEL] + run.count[CHANNEL] // filter.unit):
        plane = job.full.data + image * job.full.n + channel * job.full.c
        into = (job.pooled.data + image * job.pooled.n + channel * job.pooled.c + run.begin[1] * job.pooled.axis[1]
                + run.begin[2] * job.pooled.axis[2])
        for d in range(run.count[0]):
            filter_layer(job, run, filter, plane, run.start[0] + d * g.stride[0], room,
                         into + (run.begin[0] + d) * job.pooled.axis[0], odd, full)
            if odd[0]:
                return
