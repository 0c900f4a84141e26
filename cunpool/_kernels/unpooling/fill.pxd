# Spreading: the output of windows that lie side by side, front to back, whatever the order of the axes in memory. Each
# cell is its window's value if the window's code names it, else zero.
#
# A line is what a row of windows has in one line of the output. It is made of units, which are neighbours in memory: of
# all planes that are (channels last all channels, in an image of interleaved colours three), else of one cell. A window
# has `taps` units in a line, and as many lines as its cells have places along the other axes.
#
# Places become codes first, a block of windows at a time. That is the one step that knows how indices count.
from libc.stdint cimport uint32_t
from libc.string cimport memcpy, memset

from cunpool._kernels.common.caches cimport (
    align_to_cache_line, CACHE_LINE, cunpool_copy_nontemporal, cunpool_keep, prefetch_partial_lines, prefetch_range)
from cunpool._kernels.common.checks cimport assert_in_block, branch_counted
from cunpool._kernels.common.copy_strided cimport every
from cunpool._kernels.common.geometry cimport element_count
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.tasks cimport Found
from cunpool._kernels.common.types cimport (
    bhalf, entry, float4, float8, half, item, item1, item16, item2, item4, item8, void_noinline, void_wide)
from cunpool._kernels.unpooling.elements cimport alone
from cunpool._kernels.unpooling.fill_codes cimport fill, twice
from cunpool._kernels.unpooling.fill_lines cimport spread_mixed, spread_rows, spread_twos, spread_unit, spread_units
from cunpool._kernels.unpooling.fill_plan cimport (
    Axis, BLOCK_BYTES, RAMP, Spread, SPREAD_AXES, SPREAD_SPARE, SPREAD_STAGE)
from cunpool._kernels.unpooling.fill_select cimport CUNPOOL_CHOOSES_BOTH, LONG, NARROW, part, VECTOR

cdef struct Block:
    # Windows that are spread together, and where they are: of `rows` rows `windows` each, and `unit` entries of each.
    Py_ssize_t rows, windows, unit
    Py_ssize_t rest_rows, rest_units    # lines behind the last rows, and units behind the last windows, that go with it
    char *out
    const char *values
    const char *values_end          # where those end that follow each other: up to there they may be read
    const char *indices
    uint32_t place                  # of the first window's first cell
    Py_ssize_t taps[SPREAD_AXES]    # cells along the outer axes
    bint empty                      # whether these lie behind the last windows


cdef inline Py_ssize_t items_in(const Block *block) noexcept nogil:
    return block.rows * block.windows * block.unit


cdef inline int given_size(const Job *job, const Spread *way) noexcept nogil:
    """Bytes of an index as it was given, a code or a place."""
    return job.code_size if job.code_size else way.index_size


cdef inline void step_into(const Axis *axis, Py_ssize_t at, Block *block) noexcept nogil:
    block.out += at * axis.taps * axis.full_step
    block.values += at * axis.value_step
    if not axis.in_run:
        block.values_end += at * axis.value_step
    block.indices += at * axis.index_step
    block.place += <uint32_t> (at * axis.taps * axis.place)


cdef inline void_noinline find_block(const Job *job, const Spread *way, Py_ssize_t number, Block *block) noexcept nogil:
    cdef Py_ssize_t first = number % way.unit_parts * way.most_unit, at, along
    cdef const Axis *outer
    cdef int axis
    number //= way.unit_parts
    block.unit = min(way.most_unit, way.unit - first)
    block.out = job.full.data + first * way.item_size
    block.values = job.pooled.data + first * way.unit_value_step
    block.values_end = job.pooled.data + way.values_run
    if way.unit_value_step != way.item_size:  # then a run is a single value
        block.values_end += first * way.unit_value_step
    block.indices = job.indices.data + first * way.unit_index_step
    block.place = 0
    at = number % way.window_parts * way.most_windows
    number //= way.window_parts
    block.windows = min(way.most_windows, way.line.pooled - at)
    block.rest_units = way.line.rest if at + block.windows == way.line.pooled else 0
    step_into(&way.line, at, block)
    at = number % way.row_parts * way.most_rows
    number //= way.row_parts
    block.rows = min(way.most_rows, way.row.pooled - at)
    block.rest_rows = way.row.rest if at + block.rows == way.row.pooled else 0
    step_into(&way.row, at, block)
    if way.row.pooled > way.period:  # a block begins where a plane does
        block.place = 0
    block.empty = False
    for axis in range(way.outer_axes - 1, -1, -1):
        outer = &way.outer[axis]
        along = outer.pooled + (outer.rest > 0)
        at = number % along
        number //= along
        block.taps[axis] = outer.taps
        if at == outer.pooled:
            block.taps[axis] = outer.rest
            block.empty = True
        step_into(outer, at, block)


cdef inline void zero_line(char *out, Py_ssize_t units, Py_ssize_t size, Py_ssize_t pitch) noexcept nogil:
    cdef Py_ssize_t i
    if size == pitch:
        memset(out, 0, units * size)
        return
    for i in range(units):
        memset(out + i * pitch, 0, size)


cdef inline void_noinline zero_rest(const Spread *way, const Block *block) noexcept nogil:
    """The lines behind the last windows."""
    cdef Py_ssize_t begin = 0 if block.empty else block.rows * way.row.taps, size = block.unit * way.item_size
    cdef Py_ssize_t units = block.windows * way.line.taps + block.rest_units, combinations = 1, number, rest, row
    cdef char *out
    cdef int axis
    if not (block.empty or block.rest_rows):
        return
    for axis in range(way.outer_axes):
        combinations *= block.taps[axis]
    for number in range(combinations):
        out = block.out
        rest = number
        for axis in range(way.outer_axes - 1, -1, -1):
            out += rest % block.taps[axis] * way.outer[axis].full_step
            rest //= block.taps[axis]
        for row in range(begin, block.rows * way.row.taps + block.rest_rows):
            zero_line(out + row * way.row.full_step, units, size, way.pitch)


cdef inline void_wide quieten(const char *values, Py_ssize_t count, entry *quiet) noexcept nogil:
    """What is left of numbers that are added to nothing."""
    cdef Py_ssize_t i
    for i in range(count):
        quiet[i] = alone((<const entry *> values)[i])


cdef inline void bring(char *to, const char *start, Py_ssize_t rows, Py_ssize_t row_step, Py_ssize_t windows,
                       Py_ssize_t window_step, Py_ssize_t unit, Py_ssize_t unit_step, item *__) noexcept nogil:
    """A block's items, one after the other."""
    cdef Py_ssize_t row, window
    cdef const char *at
    for row in range(rows):
        for window in range(windows):
            at = start + row * row_step + window * window_step
            for _ in range(unit):
                (<item *> to)[0] = (<const item *> at)[0]
                to += sizeof(item)
                at += unit_step


cdef inline void_noinline bring_some(char *to, const char *start, int size, Py_ssize_t rows, Py_ssize_t row_step,
                                     Py_ssize_t windows, Py_ssize_t window_step, Py_ssize_t unit, Py_ssize_t unit_step,
                                     bint in_rows) noexcept nogil:
    """`bring` for items of any size; rows that have no gaps are copied, and those of single items gathered."""
    cdef Py_ssize_t row
    if in_rows:
        for row in range(rows):
            memcpy(to + row * windows * unit * size, start + row * row_step, windows * unit * size)
    elif unit == 1 and size <= 8 and branch_counted("items at whole distances", window_step % size == 0):
        if branch_counted("rows that go on at the same distance", row_step == windows * window_step):
            windows *= rows
            rows = 1
        for row in range(rows):
            every(size, to + row * windows * size, start + row * row_step, window_step // size, 1, windows)
    elif size == 1:
        bring(to, start, rows, row_step, windows, window_step, unit, unit_step, <item1 *> NULL)
    elif size == 2:
        bring(to, start, rows, row_step, windows, window_step, unit, unit_step, <item2 *> NULL)
    elif size == 4:
        bring(to, start, rows, row_step, windows, window_step, unit, unit_step, <item4 *> NULL)
    elif size == 8:
        bring(to, start, rows, row_step, windows, window_step, unit, unit_step, <item8 *> NULL)
    else:
        bring(to, start, rows, row_step, windows, window_step, unit, unit_step, <item16 *> NULL)


cdef inline const char *values_of(const Spread *way, const Block *block, char *room) noexcept nogil:
    """A block's values one after the other, with as many bytes behind them as may be read."""
    cdef Py_ssize_t count = items_in(block), size = way.item_size
    cdef const char *values = block.values
    cdef bint one_run = way.all_values or block.rows == 1 and (
        way.rows_of_values or block.windows == 1 and way.unit_value_step == size)
    if not one_run or values + count * size + SPREAD_SPARE > block.values_end:
        bring_some(room, values, <int> size, block.rows, way.row.value_step, block.windows, way.line.value_step,
                   block.unit, way.unit_value_step, way.rows_of_values)
        values = room
    if way.entry_kind == 5:
        quieten(values, count, <half *> room)
    elif way.entry_kind == 6:
        quieten(values, count, <bhalf *> room)
    elif way.entry_kind == 7:
        quieten(values, count, <float4 *> room)
    elif way.entry_kind == 8:
        quieten(values, count, <float8 *> room)
    else:
        return values
    return room


cdef inline bint two_by_two(const Spread *way, const part *_) noexcept nogil:
    """Whether windows are of two single cells in each of two lines."""
    return way.unit == 1 and way.item_size == sizeof(part) and way.line.taps == 2 and way.row.taps == 2


cdef inline bint by_longest(const Spread *way, Py_ssize_t windows, const part *values) noexcept nogil:
    """Whether rows of such windows are chosen by the longest vectors: then from narrow codes."""
    return two_by_two(way, values) and branch_counted("rows that fill the longest vectors",
                                                      windows * min(sizeof(part), <Py_ssize_t> NARROW) >= LONG)


cdef inline bint codes_of(const Job *job, const Spread *way, const Block *block, const uint32_t *ramp, char *room,
                          part *codes) noexcept nogil:
    """A block's codes one after the other; whether each index names a cell of its window."""
    cdef Py_ssize_t count = items_in(block)
    cdef int size = given_size(job, way)
    cdef const char *indices = block.indices
    cdef bint wrong = False
    cdef bint one_run = way.all_indices or block.rows == 1 and (
        way.rows_of_indices or block.windows == 1 and way.unit_index_step == size)
    assert_in_block(job.code_size <= 1)  # windows of so few cells have no others
    if not one_run:
        bring_some(room, indices, size, block.rows, way.row.index_step, block.windows, way.line.index_step, block.unit,
                   way.unit_index_step, way.rows_of_indices)
        indices = room
    if part is item8 and by_longest(way, block.windows, codes):
        fill(way, indices, job.code_size, element_count(job.g.kernel), ramp, count, block.place, <item4 *> codes,
             &wrong)
    else:
        fill(way, indices, job.code_size, element_count(job.g.kernel), ramp, count, block.place, codes, &wrong)
    if way.item_size == 16:
        twice(codes, count)
    return not wrong


cdef inline void_noinline fill_ramp(const Spread *way, uint32_t *ramp) noexcept nogil:
    """How far the first places of a block's windows are from that of its first window."""
    cdef Py_ssize_t row, window, at = 0
    cdef uint32_t place
    if not way.index_size:
        return
    for row in range(way.most_rows):
        for window in range(way.most_windows):
            place = <uint32_t> (row % way.period * way.row.taps * way.row.place
                                + window * way.line.taps * way.line.place)
            for _ in range(way.most_unit):
                ramp[at] = place
                at += 1
    assert_in_block(at <= RAMP)


cdef inline void_wide spread_lines(const Spread *way, char *out, Py_ssize_t below, const part *codes,
                                   const part *values, Py_ssize_t rows, Py_ssize_t windows, Py_ssize_t unit,
                                   int first) noexcept nogil:
    """The lines of each row of windows along its axis, from this one on: the next one lies so many bytes `below`."""
    cdef Py_ssize_t taps = way.line.taps, step = way.row.taps * below, row
    cdef part tap_code = <part> way.line.code, code
    cdef bint cells = way.unit == 1 and way.item_size == sizeof(part), twos = two_by_two(way, values)
    # Of each row, the windows that are chosen in vectors of mixed units.
    cdef Py_ssize_t mixed = (windows // way.mixed.windows * way.mixed.windows if part is item1 and way.mixed.vectors
                             else 0)
    cdef char *line_out
    cdef int line
    if by_longest(way, windows, values):
        spread_twos(True, out, below, step, <const char *> codes, values, rows, windows, <part> way.line_code[first],
                    <part> way.line_code[first + 1], tap_code)
        return
    if CUNPOOL_CHOOSES_BOTH and twos and branch_counted("rows that fill a vector", windows * sizeof(part) >= VECTOR):
        spread_twos(False, out, below, step, <const char *> codes, values, rows, windows, <part> way.line_code[first],
                    <part> way.line_code[first + 1], tap_code)
        return
    for line in range(first, first + <int> way.row.taps):
        line_out = out + (line - first) * below
        code = <part> way.line_code[line]
        if cells and taps == 2:
            spread_rows(2, line_out, step, codes, values, rows, windows, code, tap_code)
        elif cells and taps == 3:
            spread_rows(3, line_out, step, codes, values, rows, windows, code, tap_code)
        elif cells and taps == 4:
            spread_rows(4, line_out, step, codes, values, rows, windows, code, tap_code)
        elif cells:
            for row in range(rows):
                spread_unit(line_out + row * step, codes + row * windows, values + row * windows, windows, code)
        else:
            if mixed:
                spread_mixed(&way.mixed, line_out, step, <const char *> codes, <const char *> values, rows,
                             windows * unit, mixed // way.mixed.windows, unit, <int> code, <int> tap_code)
            for row in range(rows):
                spread_units(line_out + row * step + mixed * taps * unit, way.pitch,
                             codes + (row * windows + mixed) * unit, values + (row * windows + mixed) * unit, unit,
                             windows - mixed, taps, code, tap_code)


cdef inline void spread_block(const Job *job, const Spread *way, const Block *block, const part *codes,
                              const part *values, char *stage) noexcept nogil:
    """A block's windows, and the units that are left behind them: a row's lines along its axis at once, for each
    combination of the outer ones."""
    cdef Py_ssize_t unit = block.unit * way.item_size, units = block.windows * way.line.taps
    cdef Py_ssize_t size = (units + block.rest_units) * unit, lines = block.rows * way.row.taps, below, line
    # Lines that follow each other go past the caches as one.
    cdef Py_ssize_t runs = 1 if way.adjacent else lines
    cdef bint whole = way.pitch == unit and (way.adjacent or block.rows == 1), staged
    cdef char *out
    cdef char *into
    cdef int taps = <int> way.row.taps, group, first
    for group in range(way.lines // taps):
        first = group * taps
        out = into = block.out + way.line_offset[first]
        below = way.row.full_step
        staged = job.nontemporal and whole and out - job.full.data >= job.cached_bytes
        if staged:
            into = stage
            below = size
            assert_in_block(lines * size <= 2 * SPREAD_STAGE)
            for line in range(runs):
                prefetch_partial_lines(out + line * way.row.full_step, lines // runs * size)
        spread_lines(way, into, below, codes, values, block.rows, block.windows,
                     block.unit * (way.item_size // sizeof(part)), first)
        for line in range(lines if block.rest_units else 0):
            zero_line(into + line * below + units * way.pitch, block.rest_units, unit, way.pitch)
        for line in range(runs if staged else 0):
            cunpool_copy_nontemporal(out + line * way.row.full_step, into + line * size, lines // runs * size)


cdef inline void fetch_next(const Job *job, const Spread *way, const Block *block) noexcept nogil:
    """What follows this block's values and indices: spreading waits for memory else, a block after the other."""
    cdef Py_ssize_t values = items_in(block) * way.item_size, indices = items_in(block) * given_size(job, way)
    if way.all_values:
        prefetch_range(block.values + values, values)
    if way.all_indices:
        prefetch_range(block.indices + indices, indices)
    cunpool_keep()  # for a compiler drops functions that do nothing but fetch


cdef inline void spread_blocks(const Job *job, Py_ssize_t task, Found *found, part *_) noexcept nogil:
    cdef char codes_room[BLOCK_BYTES + SPREAD_SPARE + CACHE_LINE]
    cdef char values_room[BLOCK_BYTES + SPREAD_SPARE + CACHE_LINE]
    cdef char indices_room[BLOCK_BYTES + SPREAD_SPARE + CACHE_LINE]
    cdef char stage_room[2 * SPREAD_STAGE + SPREAD_SPARE + CACHE_LINE]
    cdef uint32_t ramp[RAMP]
    cdef const Spread *way = <const Spread *> job.plan
    cdef part *codes = <part *> align_to_cache_line(codes_room)
    cdef char *values = <char *> align_to_cache_line(values_room)
    cdef char *indices = <char *> align_to_cache_line(indices_room)
    cdef Py_ssize_t number, most_elements
    cdef Block block
    most_elements = way.most_rows * way.most_windows * way.most_unit
    assert_in_block(most_elements * max(way.item_size, way.index_size) <= BLOCK_BYTES)
    fill_ramp(way, ramp)
    for number in range(way.blocks * task // job.tasks, way.blocks * (task + 1) // job.tasks):
        find_block(job, way, number, &block)
        if not block.empty:
            if job.nontemporal:
                fetch_next(job, way, &block)
            if not codes_of(job, way, &block, ramp, indices, codes):
                found.out_of_window += 1
                return
            spread_block(job, way, &block, codes, <const part *> values_of(way, &block, values),
                         <char *> align_to_cache_line(stage_room))
        zero_rest(way, &block)


cdef inline void spread(const Job *job, Py_ssize_t task, Found *found, void *_, void *__) noexcept nogil:
    """One task: some blocks."""
    cdef Py_ssize_t size = (<const Spread *> job.plan).item_size
    if size == 1:
        spread_blocks(job, task, found, <item1 *> NULL)
    elif size == 2:
        spread_blocks(job, task, found, <item2 *> NULL)
    elif size == 4:
        spread_blocks(job, task, found, <item4 *> NULL)
    else:
        spread_blocks(job, task, found, <item8 *> NULL)
