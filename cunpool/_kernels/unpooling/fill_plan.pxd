# The plan of fill: the axes in the order of the output's memory, and the blocks of windows.
#
# Three calls with windows of 2 x 2, and their plans. `line` is the innermost axis outside the unit, `row` the next one.
# A block is `most_rows` x `most_windows` windows of `most_unit` elements, within FILL_BLOCK_BYTES.
#
#                        NCHW, float32,       NHWC, 3 channels,     Fortran order, float32,
#                        int64 indices        uint8, window codes   int64 indices
#     output             (1, 64, 112, 112)    (1, 3, 224, 224)      (4, 16, 60, 60)
#     outer axes         C                    none                  none
#     row, line          H, W                 H, W                  W, H
#     unit               1 element            3: C                  64: N x C
#     pitch              4 bytes              3 bytes               256 bytes
#     code of a line     0, 2 along H         0, 2 along H          0, 1 along W
#     code along a line  + 1                  + 1                   + 2
#     line_offset        0, 448 bytes         0, 672 bytes          0, 15360 bytes
#     most_rows          18                   12                    1
#     most_windows       56, a whole row      112, a whole row      16
#     most_unit          1                    3                     64
#     its loop           fill_by_indices      select_mixed_units    select_unit
from libc.stdint cimport uint32_t

from cunpool._kernels.common.arrays cimport dense_end, stride_along
from cunpool._kernels.common.checks cimport assert_in_block, branch_counted
from cunpool._kernels.common.geometry cimport absolute, element_count, Geometry
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.thresholds cimport (
    FEW_WINDOWS, FILL_MIN_BLOCK_ELEMENTS, MEDIUM_WINDOW_TAPS, SHORT_ROW_WINDOWS, SMALL_WINDOW_TAPS,
    WINDOW2_ROW_WINDOWS)
from cunpool._kernels.common.types cimport item4
from cunpool._kernels.unpooling.fill_lines cimport (
    LONG_BYTES, MAX_LINE_TAPS, MixedUnits, plan_mixed_units, VECTOR_BYTES)

cdef enum:
    SPATIAL_AXES = 3
    FILL_AXES = 5           # the spatial axes, channels and batch
    FILL_MAX_LINES = 255    # lines and elements of a window: codes of one byte leave one for no element (correctness)
    # A block has at most FILL_BLOCK_BYTES of values, the same of indices, and of codes as wide as the values, so that
    # all stay in L1 (speed). Smaller items count as FILL_MIN_ITEM_BYTES: more blocks are left to share (speed).
    FILL_BLOCK_BYTES = 1 << 13
    FILL_MIN_ITEM_BYTES = 2
    FILL_MAX_BLOCK_ITEMS = FILL_BLOCK_BYTES >> 2    # indices of a block, which have 4 bytes at least
    FILL_SPARE_BYTES = 2 * LONG_BYTES   # whole vectors read and write up to this far behind a block (correctness)
    INDICES_VECTOR_WINDOWS = 16     # windows of 4 bytes in the widest vector (speed)
    # Indices of windows of more lines in raster order are scattered: to find their lines takes longer. Each number of
    # lines up to this has its loop in `fill_codes.pxd`. (speed: 8 x 64 x 38 x 36, 5 x 5, channels last)
    FILL_MAX_INDEX_LINES = 4
    FILL_STAGE_BYTES = 1 << 13  # bytes of each line that are put together before non-temporal stores (speed)
    # The two inputs of fill.
    VALUES = 0
    INDICES = 1


cdef struct Axis:
    Py_ssize_t full, pooled
    Py_ssize_t taps         # elements of a window
    Py_ssize_t rest         # elements behind the last window
    Py_ssize_t full_step, step[2]   # bytes from one element to the next, in the output and in each input
    Py_ssize_t code, position   # added to a code and an index from one element to the next


cdef struct Input:
    # Values or indices.
    Py_ssize_t size         # bytes of an item
    Py_ssize_t unit_step    # bytes between neighbours of a unit
    bint is_row_contiguous
    bint is_contiguous      # so are consecutive rows


cdef struct FillPlan:
    # The plan that tasks read beside the job. The axes are in the order of the output's memory.
    Axis outer[FILL_AXES]
    int outer_axes
    Axis row                # the axis next to the innermost
    Axis line               # the innermost axis, but for a unit's
    Py_ssize_t item_size
    Py_ssize_t unit         # elements that are neighbours in memory and handled as one
    Py_ssize_t pitch        # bytes from one unit of a line to the next
    MixedUnits mixed
    Py_ssize_t most_rows, most_windows, most_unit   # the size of a block
    Py_ssize_t row_parts, window_parts, unit_parts  # blocks along each of these
    Py_ssize_t blocks
    Py_ssize_t uncovered    # elements of the outer axes, at which lines behind the last windows are zeroed; 0 if none
    Input inputs[2]
    const char *values_end  # values that end before it have FILL_SPARE_BYTES behind them; NULL where they have gaps
    bint adjacent           # whether the lines of a block of rows follow each other in memory
    int lines               # lines of a window
    Py_ssize_t line_offset[FILL_MAX_LINES]   # bytes from a block's first line to each line of its first row of windows,
    item4 line_code[FILL_MAX_LINES]          # and the code of a window's first element there
    # The indices of a window, as its lines in C order: the lines, the distance of each from the first, and the elements
    # of a line.
    int line_count
    uint32_t line_first[FILL_MAX_INDEX_LINES]
    uint32_t line_taps
    bint by_indices         # whether indices are compared as they are, without the step to codes


cdef struct FillBlock:
    # `rows` rows of `windows` windows, and `unit` elements of each unit.
    Py_ssize_t rows, windows, unit
    Py_ssize_t rest_units   # units behind the last windows that are zeroed with the block
    char *out
    const char *inputs[2]
    uint32_t position       # of the first window's first element


cdef inline int sort_axes(const Job *job, Axis *axes) noexcept nogil:
    """The axes with more than one element, in the order of the output's memory, outermost first. Returns the number."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t code = 1, position = 1
    cdef Axis axis
    cdef int k, i, j, count = 0
    for k in range(SPATIAL_AXES - 1, SPATIAL_AXES - 1 - FILL_AXES, -1):
        axis.full_step = stride_along(&job.full, k)
        axis.step = [stride_along(&job.pooled, k), stride_along(&job.indices, k)]
        if k >= 0:
            axis.full, axis.pooled, axis.taps = g.full[k], g.pooled[k], g.kernel[k]
            axis.code, axis.position = code, position
            code *= g.kernel[k]
            position *= g.full[k]
        else:
            axis.full = axis.pooled = job.channels if k == -1 else job.batch
            axis.taps = 1
            axis.code = axis.position = 0
        axis.rest = axis.full - axis.pooled * axis.taps
        if axis.full == 1:
            continue
        # Axes with equal strides, as where an array is repeated, stay in logical order.
        i = count
        while i > 0 and absolute(axes[i - 1].full_step) <= absolute(axis.full_step):
            i -= 1
        for j in range(count, i, -1):
            axes[j] = axes[j - 1]
        axes[i] = axis
        count += 1
    return count


cdef inline Axis unit_axis() noexcept nogil:
    cdef Axis axis
    axis.full = axis.pooled = axis.taps = 1
    axis.rest = axis.full_step = axis.step[VALUES] = axis.step[INDICES] = axis.code = axis.position = 0
    return axis


cdef inline void find_lines(const Job *job, FillPlan *plan) noexcept nogil:
    """Find the offsets and codes of a window's lines."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t rest
    cdef int k, line, axis
    plan.outer[plan.outer_axes] = plan.row  # here alone
    plan.lines = 1
    for axis in range(plan.outer_axes + 1):
        plan.lines *= <int> plan.outer[axis].taps
    assert_in_block(plan.lines <= FILL_MAX_LINES)
    for line in range(plan.lines):
        plan.line_offset[line] = plan.line_code[line] = 0
        rest = line
        for axis in range(plan.outer_axes, -1, -1):
            plan.line_offset[line] += rest % plan.outer[axis].taps * plan.outer[axis].full_step
            plan.line_code[line] += <item4> (rest % plan.outer[axis].taps * plan.outer[axis].code)
            rest //= plan.outer[axis].taps
    plan.line_count = <int> (g.kernel[0] * g.kernel[1])
    plan.line_taps = <uint32_t> g.kernel[2]
    for k in range(0 if job.code_size else plan.line_count):
        plan.line_first[k] = <uint32_t> ((k // g.kernel[1] * g.full[1] + k % g.kernel[1]) * g.full[2])


cdef inline void join_rows_of_planes(FillPlan *plan, Py_ssize_t most) noexcept nogil:
    """Make one row axis of the rows of several planes, where a plane has few rows and planes are adjacent."""
    cdef const Axis *outer
    while plan.outer_axes and plan.row.pooled * 2 <= most and plan.row.rest == 0:
        outer = &plan.outer[plan.outer_axes - 1]
        if (outer.code or outer.full_step != plan.row.full * plan.row.full_step
                or outer.step[VALUES] != plan.row.pooled * plan.row.step[VALUES]
                or outer.step[INDICES] != plan.row.pooled * plan.row.step[INDICES]):
            break
        plan.row.full *= outer.full
        plan.row.pooled *= outer.pooled
        plan.outer_axes -= 1


cdef inline void size_blocks(const Job *job, FillPlan *plan) noexcept nogil:
    """Size the blocks: part of a row, or several rows."""
    cdef Py_ssize_t most = FILL_BLOCK_BYTES // max(plan.item_size,
                                                   max(<Py_ssize_t> job.index_size, <Py_ssize_t> FILL_MIN_ITEM_BYTES))
    cdef Py_ssize_t outer_elements = 1
    cdef bint is_covered = plan.row.rest == 0
    cdef int axis
    if job.nontemporal:
        most = min(FILL_STAGE_BYTES // (plan.line.taps * plan.row.taps * plan.item_size), most)
    plan.most_unit = min(plan.unit, most)
    plan.unit_parts = (plan.unit + plan.most_unit - 1) // plan.most_unit
    plan.most_windows = min(plan.line.pooled, most // plan.unit) if plan.unit_parts == 1 else 1
    plan.window_parts = (plan.line.pooled + plan.most_windows - 1) // plan.most_windows
    plan.most_rows = 1
    if plan.unit_parts == 1 and plan.window_parts == 1:
        most //= plan.unit * plan.line.pooled
        if job.code_size:  # indices begin at 0 again in each plane
            join_rows_of_planes(plan, most)
        plan.most_rows = min(plan.row.pooled, most)  # fault: rows of more windows than there is room for
    plan.adjacent = (plan.unit_parts == 1 and plan.window_parts == 1 and plan.pitch == plan.unit * plan.item_size
                     and plan.row.full_step == plan.line.full * plan.pitch)
    plan.row_parts = (plan.row.pooled + plan.most_rows - 1) // plan.most_rows
    plan.blocks = plan.row_parts * plan.window_parts * plan.unit_parts
    for axis in range(plan.outer_axes):
        plan.blocks *= plan.outer[axis].pooled
        outer_elements *= plan.outer[axis].full
        is_covered &= plan.outer[axis].rest == 0
    plan.uncovered = 0 if is_covered else outer_elements


cdef inline bint is_window2(const Geometry *g) noexcept nogil:
    """Whether windows are 2 wide, and no larger in any other direction."""
    return g.kernel[2] == 2 and g.kernel[1] <= 2 and g.kernel[0] <= 2


cdef inline void find_direct_indices(const Job *job, FillPlan *plan) noexcept nogil:
    """Find whether indices are compared as they are (`fill_indices.pxd`)."""
    cdef const Geometry *g = &job.g
    plan.by_indices = (
        not job.code_size and plan.inputs[VALUES].is_row_contiguous and plan.inputs[INDICES].is_row_contiguous
        # Each part of a row, the last one too, fills a vector. (correctness)
        and branch_counted("windows that fill a vector", plan.line.pooled - (plan.window_parts - 1)
                           * plan.most_windows >= INDICES_VECTOR_WINDOWS)
        and branch_counted("windows of two single elements along a row", is_window2(g) and plan.unit == 1
                           and plan.line.position == 1 and plan.lines == plan.row.taps)
        and branch_counted("entries of four or eight bytes", plan.item_size == 4 or plan.item_size == 8))


cdef inline Py_ssize_t short_line(const Job *job, const Axis *line) noexcept nogil:
    """Lines of fewer windows are short: most of a line is zero, and scatter is faster."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t taps = element_count(g.kernel)
    if not job.code_size and is_window2(g):  # in 1d and 2d rows of whole vectors are filled sooner
        return (WINDOW2_ROW_WINDOWS if g.kernel[0] == 1 and line.pooled % INDICES_VECTOR_WINDOWS == 0
                else SHORT_ROW_WINDOWS)
    if not job.code_size:
        return SHORT_ROW_WINDOWS * max(taps, <Py_ssize_t> SMALL_WINDOW_TAPS) // SMALL_WINDOW_TAPS
    if taps >= MEDIUM_WINDOW_TAPS:
        return SHORT_ROW_WINDOWS
    return FEW_WINDOWS + 1 if job.item_size == 1 or line.rest else 2


cdef inline const char *why_scatter_is_faster(const Job *job, const FillPlan *plan) noexcept nogil:
    """Why scatter is faster, or NULL."""
    if (branch_counted("short lines", plan.line.pooled < short_line(job, &plan.line))
            and branch_counted("of more than an element", plan.line.full > 1)
            and branch_counted("of single elements", plan.unit == 1)
            and branch_counted("of codes, or of planes in C order", job.code_size > 0
                               or job.raster_stride_bytes == job.item_size) and not job.nontemporal):
        return ("lines are short: by codes of at most 4 windows, or of fewer than 40 of 9 elements or more; by indices "
                "of fewer than 40, or than 10 for each element of a window")
    return NULL


cdef inline const char *tiled_windows_why_not(const Geometry *g) noexcept nogil:
    """Why windows do not lie next to each other inside a plane whose indices have 31 bits, or NULL."""
    cdef int axis
    for axis in range(3):
        if g.kernel[axis] != g.stride[axis]:
            return "windows overlap or lie apart: kernel and stride differ"
        if g.padding[axis] or g.dilation[axis] > 1 and g.kernel[axis] > 1:
            return "windows are padded or dilated"
        if g.pooled[axis] == 0 or g.kernel[axis] * g.pooled[axis] > g.full[axis]:
            return "there are no windows, or the last ones reach over the edge"
    if element_count(g.full) > 0x7FFFFFFF:
        return "a plane has 2**31 elements or more"
    return NULL


cdef inline int find_unit(const Axis *axes, int last, FillPlan *plan) noexcept nogil:
    """Find the unit: all planes that are neighbours, or one element. Returns the last remaining axis."""
    cdef Input *input
    cdef int i
    plan.unit = 1
    while last >= 0 and axes[last].code == 0 and axes[last].full_step == plan.unit * plan.item_size:
        for i in range(2):
            input = &plan.inputs[i]
            if plan.unit == 1:
                input.unit_step = axes[last].step[i]
            elif axes[last].step[i] != plan.unit * input.unit_step:
                return last
        plan.unit *= axes[last].full
        last -= 1
    return last


cdef inline void find_contiguous_rows(FillPlan *plan) noexcept nogil:
    """Find whether the inputs' rows are contiguous."""
    cdef Input *input
    cdef int i
    for i in range(2):
        input = &plan.inputs[i]
        input.is_row_contiguous = (input.unit_step == input.size and
                                   (plan.line.pooled == 1 or plan.line.step[i] == plan.unit * input.size))
        input.is_contiguous = (input.is_row_contiguous
                               and plan.row.step[i] == plan.unit * plan.line.pooled * input.size)


cdef inline const char *fill_why_not(const Job *job, FillPlan *plan) noexcept nogil:
    """Plan how a call is filled. Returns why it is not, or NULL."""
    cdef Axis axes[FILL_AXES]
    cdef const char *why = tiled_windows_why_not(&job.g)
    cdef const char *end
    cdef Py_ssize_t item_size = job.item_size
    cdef int last = sort_axes(job, axes) - 1, axis
    if why != NULL:
        return why
    if not branch_counted("windows whose codes leave one for none", element_count(job.g.kernel) <= FILL_MAX_LINES):
        return "a window has more than 255 elements"
    if not branch_counted("codes, or windows of few lines",
                          job.code_size > 0 or job.g.kernel[0] * job.g.kernel[1] <= FILL_MAX_INDEX_LINES):
        return "indices of windows of more than 4 rows"
    if not branch_counted("elements that are neighbours along some axis",
                          last >= 0 and axes[last].full_step == item_size):
        return "the output is contiguous along no axis"
    plan.item_size = item_size
    plan.inputs = [Input(item_size, item_size), Input(job.index_size, job.index_size)]
    last = find_unit(axes, last, plan)
    plan.line = axes[last] if last >= 0 else unit_axis()
    plan.row = axes[last - 1] if last >= 1 else unit_axis()
    plan.outer_axes = max(last - 1, 0)
    why = why_scatter_is_faster(job, plan)
    if why != NULL:
        return why
    for axis in range(plan.outer_axes):
        plan.outer[axis] = axes[axis]
    if plan.unit == 1 and item_size < 16 and branch_counted("windows broad along a line",
                                                            plan.line.taps > MAX_LINE_TAPS):
        return "windows have more than 4 single elements along the axis that memory runs along"
    plan.pitch = plan.line.full_step if plan.line.full > 1 else plan.unit * item_size
    find_contiguous_rows(plan)
    plan.mixed.vectors = 0
    if item_size == 1 and 1 < plan.unit < VECTOR_BYTES and plan.pitch == plan.unit:
        plan_mixed_units(plan.unit, plan.line.taps, &plan.mixed)
    find_lines(job, plan)
    size_blocks(job, plan)
    end = dense_end(&job.pooled, job.batch, job.channels, job.g.pooled, item_size)
    plan.values_end = end - FILL_SPARE_BYTES if end != NULL else NULL
    find_direct_indices(job, plan)
    # A block of a small plane that no other follows is soon done, and scattering needs no division.
    if (branch_counted("blocks of few elements", plan.most_rows * plan.row.taps * plan.most_windows * plan.line.taps
                       * plan.most_unit < FILL_MIN_BLOCK_ELEMENTS)
            and branch_counted("elements that follow each other", job.raster_stride_bytes == item_size
                               or job.interleaved_planes > 1)):
        return "planes are small and not adjacent: a block has fewer than 384 elements"
    return NULL
