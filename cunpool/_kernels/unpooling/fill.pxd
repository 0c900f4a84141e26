# Fill: write the output of adjacent windows in the order of memory. Each element is its window's value if the window's
# code names it, else zero. Nothing is zeroed before, and whole vectors are written.
#
#     a row of windows     w0          w1          w2         values, codes
#     its first line       e00 e01     e10 e11     e20 e21    e01: window 0, tap 1; a line: `taps` units of each window
#     its second line      e02 e03     e12 e13     e22 e23
#
# A unit is one element, or all channels of an element where channels are neighbours in memory. The line is along the
# innermost axis of the output, in any order of the axes. Indices become codes first, a block of windows at a time.
from libc.stdint cimport uint32_t, UINTPTR_MAX
from libc.string cimport memset

from cunpool._kernels.common.caches cimport align_to_cache_line, CACHE_LINE, cunpool_copy_nontemporal
from cunpool._kernels.common.checks cimport assert_in_block, branch_counted
from cunpool._kernels.common.copy_axes cimport copy_axes
from cunpool._kernels.common.geometry cimport element_count
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.tasks cimport Found
from cunpool._kernels.common.types cimport element, index4, index8, item1, void_noinline, void_wide
from cunpool._kernels.unpooling.elements cimport add_to_zero
from cunpool._kernels.unpooling.fill_codes cimport convert_indices, widen_codes
from cunpool._kernels.unpooling.fill_lines cimport (
    CUNPOOL_HAS_PAIRS, lane, select_line_pairs, select_line_rows, select_mixed_units, select_unit, select_units,
    VECTOR_BYTES)
from cunpool._kernels.unpooling.fill_plan cimport (
    Axis, FILL_BLOCK_BYTES, FILL_MAX_BLOCK_ITEMS, FILL_SPARE_BYTES, FILL_STAGE_BYTES, FillBlock, FillPlan, INDICES,
    Input, VALUES)
from cunpool._kernels.unpooling.walk cimport Canonicalize, Loops

cdef inline Py_ssize_t block_items(const FillBlock *block) noexcept nogil:
    return block.rows * block.windows * block.unit


cdef inline void advance_along(const Axis *axis, Py_ssize_t at, FillBlock *block) noexcept nogil:
    block.out += at * axis.taps * axis.full_step
    block.inputs[VALUES] += at * axis.step[VALUES]
    block.inputs[INDICES] += at * axis.step[INDICES]
    block.position += <uint32_t> (at * axis.taps * axis.position)


cdef inline void_noinline locate_block(const Job *job, const FillPlan *plan, Py_ssize_t number,
                                       FillBlock *block) noexcept nogil:
    cdef Py_ssize_t first = number % plan.unit_parts * plan.most_unit, at
    cdef int axis
    number //= plan.unit_parts
    block.unit = min(plan.most_unit, plan.unit - first)
    block.out = job.full.data + first * plan.item_size
    block.inputs = [job.pooled.data + first * plan.inputs[VALUES].unit_step,
                    job.indices.data + first * plan.inputs[INDICES].unit_step]
    block.position = 0
    at = number % plan.window_parts * plan.most_windows
    number //= plan.window_parts
    block.windows = min(plan.most_windows, plan.line.pooled - at)
    block.rest_units = plan.line.rest if at + block.windows == plan.line.pooled else 0
    advance_along(&plan.line, at, block)
    at = number % plan.row_parts * plan.most_rows
    number //= plan.row_parts
    block.rows = min(plan.most_rows, plan.row.pooled - at)
    advance_along(&plan.row, at, block)
    for axis in range(plan.outer_axes - 1, -1, -1):
        advance_along(&plan.outer[axis], number % plan.outer[axis].pooled, block)
        number //= plan.outer[axis].pooled


cdef inline void zero_units(const FillPlan *plan, char *out, Py_ssize_t units, Py_ssize_t size) noexcept nogil:
    """Zero `size` bytes of each of some units of a line."""
    cdef Py_ssize_t i
    if size == plan.pitch:
        memset(out, 0, units * size)
        return
    for i in range(units):
        memset(out + i * plan.pitch, 0, size)


cdef inline void_noinline zero_uncovered(const FillPlan *plan, char *full, Py_ssize_t begin,
                                         Py_ssize_t end) noexcept nogil:
    """Zero the lines behind the last windows, at the elements `begin` to `end` of the outer axes."""
    cdef Py_ssize_t number, rest, at, row
    cdef char *out
    cdef int axis
    for number in range(begin, end):
        out = full
        rest = number
        row = plan.row.full - plan.row.rest
        for axis in range(plan.outer_axes - 1, -1, -1):
            at = rest % plan.outer[axis].full
            rest //= plan.outer[axis].full
            out += at * plan.outer[axis].full_step
            if at >= plan.outer[axis].full - plan.outer[axis].rest:  # behind the last windows along this axis
                row = 0
        for row in range(row, plan.row.full):
            zero_units(plan, out + row * plan.row.full_step, plan.line.full, plan.unit * plan.item_size)


cdef inline void_wide canonicalize_values(const char *values, Py_ssize_t count, element *quiet) noexcept nogil:
    """Add numbers to zero: -0 becomes 0, and every NaN the same one."""
    cdef Py_ssize_t i
    for i in range(count):
        quiet[i] = add_to_zero((<const element *> values)[i])


cdef inline void_noinline pack_items(const FillPlan *plan, const FillBlock *block, int i, char *to) noexcept nogil:
    """Copy a block's items of an input to contiguous memory."""
    cdef const Input *input = &plan.inputs[i]
    cdef int size = <int> input.size
    cdef Py_ssize_t *count = [1, block.rows, block.windows, block.unit]
    cdef Py_ssize_t *to_bytes = [0, block.windows * block.unit * size, block.unit * size, size]
    cdef Py_ssize_t *item_bytes = [0, plan.row.step[i], plan.line.step[i], input.unit_step]
    copy_axes(size, to, to_bytes, block.inputs[i], item_bytes, count)


cdef inline const char *contiguous_items(const FillPlan *plan, const FillBlock *block, int i, const char *end,
                                         char *buffer) noexcept nogil:
    """A block's items of an input, contiguous: where they are, or, unless these are before `end`, in `buffer`."""
    cdef const Input *input = &plan.inputs[i]
    cdef bint one_run = input.is_contiguous or block.rows == 1 and (input.is_row_contiguous or block.windows == 1
                                                                    and input.unit_step == input.size)
    if one_run and block.inputs[i] + block_items(block) * input.size <= end:
        return block.inputs[i]
    pack_items(plan, block, i, buffer)
    return buffer


cdef inline const char *contiguous_values(const Job *job, const FillPlan *plan, const FillBlock *block,
                                          char *buffer) noexcept nogil:
    """A block's values, contiguous and with FILL_SPARE_BYTES behind them that may be read."""
    cdef Canonicalize canonicalize = (<const Loops *> job.ops).canonicalize
    cdef const char *values = contiguous_items(plan, block, VALUES, plan.values_end, buffer)
    if canonicalize == NULL:
        return values
    canonicalize(values, block_items(block), buffer)
    return buffer


cdef inline void contiguous_codes(const Job *job, const FillPlan *plan, const FillBlock *block,
                                  const uint32_t *relative, char *buffer, lane *codes,
                                  bint *has_outside) noexcept nogil:
    """Write a block's codes to `codes`. Set `has_outside` if one names no element of its window."""
    cdef Py_ssize_t count = block_items(block), i
    cdef const char *indices = contiguous_items(plan, block, INDICES, <const char *> UINTPTR_MAX, buffer)
    assert_in_block(job.code_size <= 1)  # windows of at most 255 elements have codes of one byte
    if job.code_size:
        widen_codes(<const item1 *> indices, count, element_count(job.g.kernel), codes, has_outside)
    elif job.index_size == 4:
        convert_indices(plan, <const index4 *> indices, relative, count, block.position, codes, has_outside)
    else:
        convert_indices(plan, <const index8 *> indices, relative, count, block.position, codes, has_outside)
    if plan.item_size == 16:  # each code for both lanes of an element
        for i in range(count - 1, -1, -1):
            codes[2 * i] = codes[2 * i + 1] = codes[i]


cdef inline void_noinline find_relative_positions(const FillPlan *plan, uint32_t *relative) noexcept nogil:
    """The first index of each window of a block, relative to the first index of the block's first window.

    `relative` has FILL_MAX_BLOCK_ITEMS entries of 4 bytes. The highest one written, and read, is before most_rows *
    most_windows * most_unit."""
    cdef Py_ssize_t row, window, at = 0
    cdef uint32_t position
    for row in range(plan.most_rows):
        for window in range(plan.most_windows):
            position = <uint32_t> (row * plan.row.taps * plan.row.position + window * plan.line.taps
                                   * plan.line.position)
            for _ in range(plan.most_unit):
                relative[at] = position
                at += 1
    assert_in_block(at <= FILL_MAX_BLOCK_ITEMS)


cdef inline void_wide fill_lines(const FillPlan *plan, char *out, Py_ssize_t below, const lane *codes,
                                 const lane *values, Py_ssize_t rows, Py_ssize_t windows, Py_ssize_t unit,
                                 int first) noexcept nogil:
    """The lines of each row of windows along the row axis, from line `first` on, `below` bytes apart."""
    cdef Py_ssize_t taps = plan.line.taps, step = plan.row.taps * below, row
    cdef lane tap_code = <lane> plan.line.code, code
    cdef bint single_elements = plan.unit == 1 and plan.item_size == sizeof(lane)
    # The windows of a row that whole vectors of several units fill.
    cdef Py_ssize_t mixed = (windows // plan.mixed.windows * plan.mixed.windows if lane is item1 and plan.mixed.vectors
                             else 0)
    cdef char *line_out
    cdef int line
    if (CUNPOOL_HAS_PAIRS and single_elements and taps == 2 and plan.row.taps == 2
            and branch_counted("rows that fill a vector", windows * sizeof(lane) >= VECTOR_BYTES)):
        select_line_pairs(out, below, step, codes, values, rows, windows, <lane> plan.line_code[first],
                          <lane> plan.line_code[first + 1], tap_code)
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
                            const lane *values, char *stage, bint *has_outside) noexcept nogil:
    """A block's windows and the units behind them: all lines along the row axis, for each element of the outer axes.

    `stage` is allocated with 2 * FILL_STAGE_BYTES + FILL_SPARE_BYTES. Bytes 0 to lines * size - 1 are written and
    read."""
    cdef const Loops *loops = <const Loops *> job.ops
    cdef Py_ssize_t unit = block.unit * plan.item_size, units = block.windows * plan.line.taps
    cdef Py_ssize_t size = (units + block.rest_units) * unit, lines = block.rows * plan.row.taps, below, line
    # Adjacent lines are stored as one.
    cdef Py_ssize_t runs = 1 if plan.adjacent else lines
    cdef bint whole = plan.pitch == unit and (plan.adjacent or block.rows == 1), staged
    cdef char *out
    cdef char *into
    cdef int taps = <int> plan.row.taps, group, first
    for group in range(plan.lines // taps):
        first = group * taps
        out = into = block.out + plan.line_offset[first]
        below = plan.row.full_step
        staged = job.nontemporal and whole
        if staged:
            into = stage
            below = size
            assert_in_block(lines * size <= 2 * FILL_STAGE_BYTES)
        if plan.by_indices:
            loops.by_indices[job.index_size == 8](plan, block, into, below, has_outside, NULL, NULL)
        else:
            fill_lines(plan, into, below, codes, values, block.rows, block.windows,
                       block.unit * (plan.item_size // <Py_ssize_t> sizeof(lane)), first)
        for line in range(lines if block.rest_units else 0):
            zero_units(plan, into + line * below + units * plan.pitch, block.rest_units, unit)
        for line in range(runs if staged else 0):
            cunpool_copy_nontemporal(out + line * plan.row.full_step, into + line * size, lines // runs * size)


cdef inline void fill_blocks(const Job *job, Py_ssize_t task, Found *found, lane *_, void *__) noexcept nogil:
    """One task: some blocks."""
    cdef char codes_buffer[FILL_BLOCK_BYTES + FILL_SPARE_BYTES + CACHE_LINE]
    cdef char values_buffer[FILL_BLOCK_BYTES + FILL_SPARE_BYTES + CACHE_LINE]
    cdef char indices_buffer[FILL_BLOCK_BYTES + FILL_SPARE_BYTES + CACHE_LINE]
    cdef char stage_buffer[2 * FILL_STAGE_BYTES + FILL_SPARE_BYTES + CACHE_LINE]
    cdef uint32_t relative[FILL_MAX_BLOCK_ITEMS]
    cdef const FillPlan *plan = <const FillPlan *> job.plan
    cdef lane *codes = <lane *> align_to_cache_line(codes_buffer)
    cdef char *values = <char *> align_to_cache_line(values_buffer)
    cdef char *indices = <char *> align_to_cache_line(indices_buffer)
    cdef const lane *block_values = NULL
    cdef Py_ssize_t number, most_elements
    cdef bint has_outside
    cdef FillBlock block
    # The first three buffers are allocated with FILL_BLOCK_BYTES + FILL_SPARE_BYTES from the cache line on. The highest
    # byte written is before most_elements * size (of codes, as wide as a value), the highest byte read at most
    # FILL_SPARE_BYTES behind it.
    most_elements = plan.most_rows * plan.most_windows * plan.most_unit
    assert_in_block(most_elements * max(plan.item_size, job.index_size) <= FILL_BLOCK_BYTES)
    zero_uncovered(plan, job.full.data, plan.uncovered * task // job.tasks,
                   plan.uncovered * (task + 1) // job.tasks)
    if not job.code_size:
        find_relative_positions(plan, relative)
    for number in range(plan.blocks * task // job.tasks, plan.blocks * (task + 1) // job.tasks):
        locate_block(job, plan, number, &block)
        has_outside = False
        if not plan.by_indices:
            block_values = <const lane *> contiguous_values(job, plan, &block, values)
            contiguous_codes(job, plan, &block, relative, indices, codes, &has_outside)
        if not has_outside:
            fill_block(job, plan, &block, codes, block_values, <char *> align_to_cache_line(stage_buffer),
                       &has_outside)
        if has_outside:
            found.out_of_window += 1
            return
