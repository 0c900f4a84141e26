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
from cunpool._kernels.common.copy_strided cimport copy_strided
from cunpool._kernels.common.geometry cimport element_count
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.tasks cimport Found
from cunpool._kernels.common.types cimport (
    bhalf, element, float4, float8, half, item, item1, item16, item2, item4, item8, void_noinline, void_wide)
from cunpool._kernels.unpooling.elements cimport add_to_zero
from cunpool._kernels.unpooling.fill_codes cimport convert_codes, duplicate_codes
from cunpool._kernels.unpooling.fill_lines cimport (
    select_line_pairs, select_line_rows, select_mixed_units, select_unit, select_units)
from cunpool._kernels.unpooling.fill_plan cimport (
    Axis, FILL_AXES, FILL_BLOCK_BYTES, FILL_MAX_BLOCK_ITEMS, FILL_SPARE_BYTES, FILL_STAGE_BYTES, FillPlan)
from cunpool._kernels.unpooling.fill_select cimport CUNPOOL_HAS_PAIRS, LONG_BYTES, NARROW_CODE_BYTES, lane, VECTOR_BYTES

cdef struct FillBlock:
    # Windows that are spread together, and where they are: of `rows` rows `windows` each, and `unit` entries of each.
    Py_ssize_t rows, windows, unit
    Py_ssize_t rest_rows, rest_units    # lines behind the last rows, and units behind the last windows, that go with it
    char *out
    const char *values
    const char *values_end          # where those end that follow each other: up to there they may be read
    const char *indices
    uint32_t position                  # of the first window's first cell
    Py_ssize_t taps[FILL_AXES]    # cells along the outer axes
    bint empty                      # whether these lie behind the last windows


cdef inline Py_ssize_t block_items(const FillBlock *block) noexcept nogil:
    return block.rows * block.windows * block.unit


cdef inline int given_bytes(const Job *job, const FillPlan *plan) noexcept nogil:
    """Bytes of an index as it was given, a code or a place."""
    return job.code_size if job.code_size else plan.index_size


cdef inline void advance_along(const Axis *axis, Py_ssize_t at, FillBlock *block) noexcept nogil:
    block.out += at * axis.taps * axis.full_step
    block.values += at * axis.value_step
    if not axis.in_run:
        block.values_end += at * axis.value_step
    block.indices += at * axis.index_step
    block.position += <uint32_t> (at * axis.taps * axis.position)


cdef inline void_noinline locate_block(const Job *job, const FillPlan *plan, Py_ssize_t number,
                                       FillBlock *block) noexcept nogil:
    cdef Py_ssize_t first = number % plan.unit_parts * plan.most_unit, at, along
    cdef const Axis *outer
    cdef int axis
    number //= plan.unit_parts
    block.unit = min(plan.most_unit, plan.unit - first)
    block.out = job.full.data + first * plan.item_size
    block.values = job.pooled.data + first * plan.unit_value_step
    block.values_end = job.pooled.data + plan.values_run
    if plan.unit_value_step != plan.item_size:  # then a run is a single value
        block.values_end += first * plan.unit_value_step
    block.indices = job.indices.data + first * plan.unit_index_step
    block.position = 0
    at = number % plan.window_parts * plan.most_windows
    number //= plan.window_parts
    block.windows = min(plan.most_windows, plan.line.pooled - at)
    block.rest_units = plan.line.rest if at + block.windows == plan.line.pooled else 0
    advance_along(&plan.line, at, block)
    at = number % plan.row_parts * plan.most_rows
    number //= plan.row_parts
    block.rows = min(plan.most_rows, plan.row.pooled - at)
    block.rest_rows = plan.row.rest if at + block.rows == plan.row.pooled else 0
    advance_along(&plan.row, at, block)
    if plan.row.pooled > plan.period:  # a block begins where a plane does
        block.position = 0
    block.empty = False
    for axis in range(plan.outer_axes - 1, -1, -1):
        outer = &plan.outer[axis]
        along = outer.pooled + (outer.rest > 0)
        at = number % along
        number //= along
        block.taps[axis] = outer.taps
        if at == outer.pooled:
            block.taps[axis] = outer.rest
            block.empty = True
        advance_along(outer, at, block)


cdef inline void zero_line(char *out, Py_ssize_t units, Py_ssize_t size, Py_ssize_t pitch) noexcept nogil:
    cdef Py_ssize_t i
    if size == pitch:
        memset(out, 0, units * size)
        return
    for i in range(units):
        memset(out + i * pitch, 0, size)


cdef inline void_noinline zero_uncovered(const FillPlan *plan, const FillBlock *block) noexcept nogil:
    """The lines behind the last windows."""
    cdef Py_ssize_t begin = 0 if block.empty else block.rows * plan.row.taps, size = block.unit * plan.item_size
    cdef Py_ssize_t units = block.windows * plan.line.taps + block.rest_units, combinations = 1, number, rest, row
    cdef char *out
    cdef int axis
    if not (block.empty or block.rest_rows):
        return
    for axis in range(plan.outer_axes):
        combinations *= block.taps[axis]
    for number in range(combinations):
        out = block.out
        rest = number
        for axis in range(plan.outer_axes - 1, -1, -1):
            out += rest % block.taps[axis] * plan.outer[axis].full_step
            rest //= block.taps[axis]
        for row in range(begin, block.rows * plan.row.taps + block.rest_rows):
            zero_line(out + row * plan.row.full_step, units, size, plan.pitch)


cdef inline void_wide canonicalize(const char *values, Py_ssize_t count, element *quiet) noexcept nogil:
    """What is left of numbers that are added to nothing."""
    cdef Py_ssize_t i
    for i in range(count):
        quiet[i] = add_to_zero((<const element *> values)[i])


cdef inline void gather_elements(char *to, const char *start, Py_ssize_t rows, Py_ssize_t row_step, Py_ssize_t windows,
                                 Py_ssize_t window_step, Py_ssize_t unit, Py_ssize_t unit_step,
                                 item *__) noexcept nogil:
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


cdef inline void_noinline gather_block(char *to, const char *start, int size, Py_ssize_t rows, Py_ssize_t row_step,
                                       Py_ssize_t windows, Py_ssize_t window_step, Py_ssize_t unit,
                                       Py_ssize_t unit_step, bint in_rows) noexcept nogil:
    """`gather_elements` for items of any size. Rows without gaps are copied, rows of single items gathered."""
    cdef Py_ssize_t row
    if in_rows:
        for row in range(rows):
            memcpy(to + row * windows * unit * size, start + row * row_step, windows * unit * size)
    elif unit == 1 and size <= 8 and branch_counted("items at whole distances", window_step % size == 0):
        if branch_counted("rows that go on at the same distance", row_step == windows * window_step):
            windows *= rows
            rows = 1
        for row in range(rows):
            copy_strided(size, to + row * windows * size, start + row * row_step, window_step // size, 1, windows)
    elif size == 1:
        gather_elements(to, start, rows, row_step, windows, window_step, unit, unit_step, <item1 *> NULL)
    elif size == 2:
        gather_elements(to, start, rows, row_step, windows, window_step, unit, unit_step, <item2 *> NULL)
    elif size == 4:
        gather_elements(to, start, rows, row_step, windows, window_step, unit, unit_step, <item4 *> NULL)
    elif size == 8:
        gather_elements(to, start, rows, row_step, windows, window_step, unit, unit_step, <item8 *> NULL)
    else:
        gather_elements(to, start, rows, row_step, windows, window_step, unit, unit_step, <item16 *> NULL)


cdef inline const char *contiguous_values(const FillPlan *plan, const FillBlock *block, char *buffer) noexcept nogil:
    """A block's values one after the other, with as many bytes behind them as may be read."""
    cdef Py_ssize_t count = block_items(block), size = plan.item_size
    cdef const char *values = block.values
    cdef bint one_run = plan.all_values or block.rows == 1 and (plan.rows_of_values or block.windows == 1
                                                                and plan.unit_value_step == size)
    if not one_run or values + count * size + FILL_SPARE_BYTES > block.values_end:
        gather_block(buffer, values, <int> size, block.rows, plan.row.value_step, block.windows, plan.line.value_step,
                     block.unit, plan.unit_value_step, plan.rows_of_values)
        values = buffer
    if plan.element_kind == 5:
        canonicalize(values, count, <half *> buffer)
    elif plan.element_kind == 6:
        canonicalize(values, count, <bhalf *> buffer)
    elif plan.element_kind == 7:
        canonicalize(values, count, <float4 *> buffer)
    elif plan.element_kind == 8:
        canonicalize(values, count, <float8 *> buffer)
    else:
        return values
    return buffer


cdef inline bint is_window_2x2(const FillPlan *plan, const lane *_) noexcept nogil:
    """Whether windows are of two single cells in each of two lines."""
    return plan.unit == 1 and plan.item_size == sizeof(lane) and plan.line.taps == 2 and plan.row.taps == 2


cdef inline bint is_long_2x2(const FillPlan *plan, Py_ssize_t windows, const lane *values) noexcept nogil:
    """Whether rows of such windows are chosen by the longest vectors: then from narrow codes."""
    return is_window_2x2(plan, values) and branch_counted("rows that fill the longest vectors",
                                                          windows * min(sizeof(lane),
                                                                        <Py_ssize_t> NARROW_CODE_BYTES) >= LONG_BYTES)


cdef inline bint contiguous_codes(const Job *job, const FillPlan *plan, const FillBlock *block,
                                  const uint32_t *relative, char *buffer, lane *codes) noexcept nogil:
    """A block's codes one after the other; whether each index names a cell of its window."""
    cdef Py_ssize_t count = block_items(block)
    cdef int size = given_bytes(job, plan)
    cdef const char *indices = block.indices
    cdef bint has_outside = False
    cdef bint one_run = plan.all_indices or block.rows == 1 and (plan.rows_of_indices or block.windows == 1
                                                                 and plan.unit_index_step == size)
    assert_in_block(job.code_size <= 1)  # windows of so few cells have no others
    if not one_run:
        gather_block(buffer, indices, size, block.rows, plan.row.index_step, block.windows, plan.line.index_step,
                     block.unit, plan.unit_index_step, plan.rows_of_indices)
        indices = buffer
    if lane is item8 and is_long_2x2(plan, block.windows, codes):
        convert_codes(plan, indices, job.code_size, element_count(job.g.kernel), relative, count, block.position,
                      <item4 *> codes, &has_outside)
    else:
        convert_codes(plan, indices, job.code_size, element_count(job.g.kernel), relative, count, block.position, codes,
                      &has_outside)
    if plan.item_size == 16:
        duplicate_codes(codes, count)
    return not has_outside


cdef inline void_noinline find_relative_positions(const FillPlan *plan, uint32_t *relative) noexcept nogil:
    """How far the first places of a block's windows are from that of its first window."""
    cdef Py_ssize_t row, window, at = 0
    cdef uint32_t position
    if not plan.index_size:
        return
    for row in range(plan.most_rows):
        for window in range(plan.most_windows):
            position = <uint32_t> (row % plan.period * plan.row.taps * plan.row.position + window * plan.line.taps
                                   * plan.line.position)
            for _ in range(plan.most_unit):
                relative[at] = position
                at += 1
    assert_in_block(at <= FILL_MAX_BLOCK_ITEMS)


cdef inline void_wide fill_lines(const FillPlan *plan, char *out, Py_ssize_t below, const lane *codes,
                                 const lane *values, Py_ssize_t rows, Py_ssize_t windows, Py_ssize_t unit,
                                 int first) noexcept nogil:
    """The lines of each row of windows along its axis, from this one on: the next one lies so many bytes `below`."""
    cdef Py_ssize_t taps = plan.line.taps, step = plan.row.taps * below, row
    cdef lane tap_code = <lane> plan.line.code, code
    cdef bint single_elements = plan.unit == 1 and plan.item_size == sizeof(lane), twos = is_window_2x2(plan, values)
    # Of each row, the windows that are chosen in vectors of mixed units.
    cdef Py_ssize_t mixed = (windows // plan.mixed.windows * plan.mixed.windows if lane is item1 and plan.mixed.vectors
                             else 0)
    cdef char *line_out
    cdef int line
    if is_long_2x2(plan, windows, values):
        select_line_pairs(True, out, below, step, <const char *> codes, values, rows, windows,
                          <lane> plan.line_code[first], <lane> plan.line_code[first + 1], tap_code)
        return
    if CUNPOOL_HAS_PAIRS and twos and branch_counted("rows that fill a vector", windows * sizeof(lane) >= VECTOR_BYTES):
        select_line_pairs(False, out, below, step, <const char *> codes, values, rows, windows,
                          <lane> plan.line_code[first], <lane> plan.line_code[first + 1], tap_code)
        return
    for line in range(first, first + <int> plan.row.taps):
        line_out = out + (line - first) * below
        code = <lane> plan.line_code[line]
        if single_elements and taps == 2:
            select_line_rows(2, line_out, step, codes, values, rows, windows, code, tap_code)
        elif single_elements and taps == 3:
            select_line_rows(3, line_out, step, codes, values, rows, windows, code, tap_code)
        elif single_elements and taps == 4:
            select_line_rows(4, line_out, step, codes, values, rows, windows, code, tap_code)
        elif single_elements:
            for row in range(rows):
                select_unit(line_out + row * step, codes + row * windows, values + row * windows, windows, code)
        else:
            if mixed:
                select_mixed_units(&plan.mixed, line_out, step, <const char *> codes, <const char *> values, rows,
                                   windows * unit, mixed // plan.mixed.windows, unit, <int> code, <int> tap_code)
            for row in range(rows):
                select_units(line_out + row * step + mixed * taps * unit, plan.pitch,
                             codes + (row * windows + mixed) * unit, values + (row * windows + mixed) * unit, unit,
                             windows - mixed, taps, code, tap_code)


cdef inline void fill_block(const Job *job, const FillPlan *plan, const FillBlock *block, const lane *codes,
                            const lane *values, char *stage) noexcept nogil:
    """A block's windows, and the units that are left behind them: a row's lines along its axis at once, for each
    combination of the outer ones."""
    cdef Py_ssize_t unit = block.unit * plan.item_size, units = block.windows * plan.line.taps
    cdef Py_ssize_t size = (units + block.rest_units) * unit, lines = block.rows * plan.row.taps, below, line
    # Lines that follow each other go past the caches as one.
    cdef Py_ssize_t runs = 1 if plan.adjacent else lines
    cdef bint whole = plan.pitch == unit and (plan.adjacent or block.rows == 1), staged
    cdef char *out
    cdef char *into
    cdef int taps = <int> plan.row.taps, group, first
    for group in range(plan.lines // taps):
        first = group * taps
        out = into = block.out + plan.line_offset[first]
        below = plan.row.full_step
        staged = job.nontemporal and whole and out - job.full.data >= job.cached_bytes
        if staged:
            into = stage
            below = size
            assert_in_block(lines * size <= 2 * FILL_STAGE_BYTES)
            for line in range(runs):
                prefetch_partial_lines(out + line * plan.row.full_step, lines // runs * size)
        fill_lines(plan, into, below, codes, values, block.rows, block.windows,
                   block.unit * (plan.item_size // sizeof(lane)), first)
        for line in range(lines if block.rest_units else 0):
            zero_line(into + line * below + units * plan.pitch, block.rest_units, unit, plan.pitch)
        for line in range(runs if staged else 0):
            cunpool_copy_nontemporal(out + line * plan.row.full_step, into + line * size, lines // runs * size)


cdef inline void prefetch_next(const Job *job, const FillPlan *plan, const FillBlock *block) noexcept nogil:
    """What follows this block's values and indices: spreading waits for memory else, a block after the other."""
    cdef Py_ssize_t values = block_items(block) * plan.item_size, indices = block_items(block) * given_bytes(job, plan)
    if plan.all_values:
        prefetch_range(block.values + values, values)
    if plan.all_indices:
        prefetch_range(block.indices + indices, indices)
    cunpool_keep()  # for a compiler drops functions that do nothing but fetch


cdef inline void fill_blocks(const Job *job, Py_ssize_t task, Found *found, lane *_) noexcept nogil:
    cdef char codes_buffer[FILL_BLOCK_BYTES + FILL_SPARE_BYTES + CACHE_LINE]
    cdef char values_buffer[FILL_BLOCK_BYTES + FILL_SPARE_BYTES + CACHE_LINE]
    cdef char indices_buffer[FILL_BLOCK_BYTES + FILL_SPARE_BYTES + CACHE_LINE]
    cdef char stage_buffer[2 * FILL_STAGE_BYTES + FILL_SPARE_BYTES + CACHE_LINE]
    cdef uint32_t relative[FILL_MAX_BLOCK_ITEMS]
    cdef const FillPlan *plan = <const FillPlan *> job.plan
    cdef lane *codes = <lane *> align_to_cache_line(codes_buffer)
    cdef char *values = <char *> align_to_cache_line(values_buffer)
    cdef char *indices = <char *> align_to_cache_line(indices_buffer)
    cdef Py_ssize_t number, most_elements
    cdef FillBlock block
    most_elements = plan.most_rows * plan.most_windows * plan.most_unit
    assert_in_block(most_elements * max(plan.item_size, plan.index_size) <= FILL_BLOCK_BYTES)
    find_relative_positions(plan, relative)
    for number in range(plan.blocks * task // job.tasks, plan.blocks * (task + 1) // job.tasks):
        locate_block(job, plan, number, &block)
        if not block.empty:
            if job.nontemporal:
                prefetch_next(job, plan, &block)
            if not contiguous_codes(job, plan, &block, relative, indices, codes):
                found.out_of_window += 1
                return
            fill_block(job, plan, &block, codes, <const lane *> contiguous_values(plan, &block, values),
                       <char *> align_to_cache_line(stage_buffer))
        zero_uncovered(plan, &block)


cdef inline void fill_task(const Job *job, Py_ssize_t task, Found *found, void *_, void *__) noexcept nogil:
    """One task: some blocks."""
    cdef Py_ssize_t size = (<const FillPlan *> job.plan).item_size
    if size == 1:
        fill_blocks(job, task, found, <item1 *> NULL)
    elif size == 2:
        fill_blocks(job, task, found, <item2 *> NULL)
    elif size == 4:
        fill_blocks(job, task, found, <item4 *> NULL)
    else:
        fill_blocks(job, task, found, <item8 *> NULL)
