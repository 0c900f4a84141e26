# The plan of spreading: the axes as memory has them, and the blocks of windows that are worked on together.
from libc.stdint cimport uint32_t

from cunpool._kernels.common.checks cimport assert_in_block, branch_counted
from cunpool._kernels.common.geometry cimport absolute, element_count, Geometry
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.types cimport item4
from cunpool._kernels.unpooling.fill_select cimport BROAD, LONG, Mixed, plan_mixed, VECTOR
from cunpool._kernels.unpooling.fill_window2 cimport SELECT_WIDTH
from cunpool._kernels.unpooling.indices cimport are_side_by_side, beside_each_other_why_not

cdef enum:
    SPATIAL = 3             # axes, behind which the channels and the batch are two more
    SPREAD_AXES = 5
    BLOCK_BYTES = 1 << 13   # of values, of indices, and of codes that are as wide, which are spread together at most,
    BLOCK_LEAST = 2         # of bytes no more than of items of so many: that leaves threads more to share
    RAMP = BLOCK_BYTES >> 2     # windows of a block of places, which have 4 bytes at least
    SPREAD_SPARE = 2 * LONG     # bytes behind a block that may be read as well
    LINES = 255             # of a window; codes of one byte leave one for those that are none
    SPREAD_LEAST = 128      # fewer windows are scattered,
    SPREAD_BLOCK = 384      # and mostly windows of so few cells in each block
    SMALL_WINDOW = 4        # cells: rows of places are short that have ten windows for each cell of one, or of these,
    LARGER_WINDOW = 9       # and rows of codes only if a window has so many,
    LARGE_WINDOW = 27       # or so many where those of a row are no neighbours; or rows that have so few windows,
    FEW_OF_BYTES = 3        # of bytes,
    FEW_BEFORE_REST = 4     # before cells that belong to none,
    FEW_ELSE = 1            # and else
    SPREAD_STAGE = 1 << 13  # bytes of the output that are put together before they go past the caches


cdef struct Axis:
    Py_ssize_t full, pooled
    Py_ssize_t taps         # cells of a window
    Py_ssize_t rest         # cells behind the last window
    Py_ssize_t full_step, value_step, index_step    # bytes
    Py_ssize_t code, place  # what a code and a place grow by from one cell to the next
    bint in_run             # whether the values along it follow each other without gaps, with all axes further inside


cdef struct Spread:
    # All that is known of a call before its tasks begin. The axes stand in the order of the output's memory.
    Axis outer[SPREAD_AXES]
    int outer_axes
    Axis row                # rows that are worked on together
    Axis line               # along which windows are neighbours
    Py_ssize_t item_size
    Py_ssize_t unit         # entries
    Py_ssize_t pitch        # bytes from one unit of a line to the next
    Mixed mixed
    Py_ssize_t most_rows, most_windows, most_unit   # of a block,
    Py_ssize_t row_parts, window_parts, unit_parts  # and into how many the rows, the windows and the units go
    Py_ssize_t blocks
    bint rows_of_values, rows_of_indices            # whether those of a row follow each other,
    bint all_values, all_indices                    # and the rows too
    Py_ssize_t unit_value_step, unit_index_step     # bytes, where they do not
    Py_ssize_t values_run   # bytes of the values that follow each other without gaps: behind these nothing may be read
    int entry_kind          # as in `_unpool`'s KINDS
    int index_size          # bytes of a place, 0 for codes
    Py_ssize_t period       # rows after which places begin again: those of a plane, where rows of several are joined
    bint adjacent           # whether the lines of a block of rows follow each other in memory
    int lines               # how many a window has
    Py_ssize_t line_offset[LINES]   # bytes from a block's first line to each line of its first row of windows,
    item4 line_code[LINES]          # and the code of a window's first cell there
    # A window's places are, in raster order, so many stretches, which are its lines in C order: how far the first place
    # of each is from the window's first, and how many there are in each.
    int stretches
    uint32_t first[LINES]
    uint32_t wide


cdef inline int sorted_axes(const Job *job, Axis *axes) noexcept nogil:
    """The axes that have more than one cell, as the output has them in memory, the outermost first; how many."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t code = 1, place = 1
    cdef Axis axis
    cdef int k, i, j, count = 0
    for k in range(SPATIAL - 1, SPATIAL - 1 - SPREAD_AXES, -1):
        axis.taps = axis.code = axis.place = 0
        if k >= 0:
            axis.full = g.full[k]
            axis.pooled = g.pooled[k]
            axis.taps = g.kernel[k]
            axis.full_step = job.full.axis_bytes[k]
            axis.value_step = job.pooled.axis_bytes[k]
            axis.index_step = job.indices.axis_bytes[k]
            axis.code = code
            axis.place = place
            code *= g.kernel[k]
            place *= g.full[k]
        else:
            axis.full = axis.pooled = job.channels if k == -1 else job.batch
            axis.taps = 1
            axis.full_step = job.full.channel_bytes if k == -1 else job.full.batch_bytes
            axis.value_step = job.pooled.channel_bytes if k == -1 else job.pooled.batch_bytes
            axis.index_step = job.indices.channel_bytes if k == -1 else job.indices.batch_bytes
        axis.rest = axis.full - axis.pooled * axis.taps
        if axis.full == 1:
            continue
        # Axes that are as far apart (or repeated) stay in logical order.
        i = count
        while i > 0 and absolute(axes[i - 1].full_step) <= absolute(axis.full_step):
            i -= 1
        for j in range(count, i, -1):
            axes[j] = axes[j - 1]
        axes[i] = axis
        count += 1
    return count


cdef inline Axis no_axis() noexcept nogil:
    cdef Axis axis
    axis.full = axis.pooled = axis.taps = 1
    axis.rest = axis.full_step = axis.value_step = axis.index_step = axis.code = axis.place = 0
    axis.in_run = False
    return axis


cdef inline bint extend_run(Axis *axis, Py_ssize_t *run) noexcept nogil:
    """Whether the values go on along this axis where the `run` of those along the axes further inside ends."""
    axis.in_run = axis.pooled == 1 or axis.value_step == run[0]
    if axis.in_run:
        run[0] *= axis.pooled
    return axis.in_run


cdef inline void find_run(Spread *way) noexcept nogil:
    """How many bytes of the values follow each other without gaps, and along which axes."""
    cdef Py_ssize_t run = way.item_size
    cdef int axis = way.outer_axes - 1, k
    cdef bint goes_on = way.unit_value_step == way.item_size
    way.line.in_run = way.row.in_run = False
    for k in range(way.outer_axes):
        way.outer[k].in_run = False
    if goes_on:
        run *= way.unit
        goes_on = extend_run(&way.line, &run) and extend_run(&way.row, &run)
    while goes_on and axis >= 0:
        goes_on = extend_run(&way.outer[axis], &run)
        axis -= 1
    way.values_run = run


cdef inline void list_lines(const Job *job, Spread *way) noexcept nogil:
    """Where the lines of a window are, and which codes they have."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t rest
    cdef int k, line, axis
    way.lines = <int> way.row.taps
    for axis in range(way.outer_axes):
        way.lines *= <int> way.outer[axis].taps
    assert_in_block(way.lines <= LINES)
    for line in range(way.lines):
        rest = line // way.row.taps
        way.line_offset[line] = line % way.row.taps * way.row.full_step
        way.line_code[line] = <item4> (line % way.row.taps * way.row.code)
        for axis in range(way.outer_axes - 1, -1, -1):
            way.line_offset[line] += rest % way.outer[axis].taps * way.outer[axis].full_step
            way.line_code[line] += <item4> (rest % way.outer[axis].taps * way.outer[axis].code)
            rest //= way.outer[axis].taps
    way.stretches = <int> (g.kernel[0] * g.kernel[1])
    way.wide = <uint32_t> g.kernel[2]
    for k in range(way.stretches):
        way.first[k] = <uint32_t> ((k // g.kernel[1] * g.full[1] + k % g.kernel[1]) * g.full[2])


cdef inline void join_planes(Spread *way, Py_ssize_t most) noexcept nogil:
    """Make one row axis of the rows of several planes, if those of a plane are few and follow each other."""
    cdef const Axis *outer
    while way.outer_axes and way.row.pooled * 2 <= most and way.row.rest == 0:
        outer = &way.outer[way.outer_axes - 1]
        if (outer.code or outer.full_step != way.row.full * way.row.full_step
                or outer.value_step != way.row.pooled * way.row.value_step
                or outer.index_step != way.row.pooled * way.row.index_step):
            break
        way.row.full *= outer.full
        way.row.pooled *= outer.pooled
        way.outer_axes -= 1
    if way.row.pooled <= most:
        way.most_rows = way.row.pooled
    elif way.row.pooled > way.period:
        way.most_rows = most // way.period * way.period
    else:
        way.most_rows = most  # fault: rows of more windows than there is room for


cdef inline void size_blocks(const Job *job, Spread *way) noexcept nogil:
    """How much of a row, or how many rows, are spread together."""
    cdef Py_ssize_t most = BLOCK_BYTES // max(way.item_size, max(<Py_ssize_t> way.index_size, <Py_ssize_t> BLOCK_LEAST))
    cdef Py_ssize_t blocks = 1
    cdef int axis
    if job.nontemporal:
        most = min(SPREAD_STAGE // (way.line.taps * way.row.taps * way.item_size), most)
    way.most_unit = min(way.unit, most)
    way.unit_parts = (way.unit + way.most_unit - 1) // way.most_unit
    way.most_windows = min(way.line.pooled, most // way.unit) if way.unit_parts == 1 else 1
    way.window_parts = (way.line.pooled + way.most_windows - 1) // way.most_windows
    way.most_rows = 1
    if way.unit_parts == 1 and way.window_parts == 1:
        join_planes(way, most // (way.unit * way.line.pooled))
    way.adjacent = (way.unit_parts == 1 and way.window_parts == 1 and way.pitch == way.unit * way.item_size
                    and way.row.full_step == way.line.full * way.pitch)
    way.row_parts = (way.row.pooled + way.most_rows - 1) // way.most_rows
    for axis in range(way.outer_axes):
        blocks *= way.outer[axis].pooled + (way.outer[axis].rest > 0)
    way.blocks = blocks * way.row_parts * way.window_parts * way.unit_parts


cdef inline bint few_in_a_row(const Geometry *g, Py_ssize_t item_size) noexcept nogil:
    """Whether a row has so few windows that to write it by their codes takes longer than to clear it and scatter."""
    cdef Py_ssize_t most = FEW_OF_BYTES if item_size == 1 else FEW_ELSE
    if branch_counted("cells of a row that belong to no window", g.pooled[2] * g.kernel[2] < g.full[2]):
        most = FEW_BEFORE_REST
    return g.pooled[2] <= most and branch_counted("rows of more than a cell", g.full[2] > 1)


cdef inline const char *scattered_sooner(const Job *job) noexcept nogil:
    """Why clearing before takes less: there are so few windows for the cells, and those in rows so short. Or NULL."""
    cdef Py_ssize_t cells = element_count(job.g.kernel), width = job.g.pooled[2]
    cdef const char *why = NULL
    if job.code_size:
        if branch_counted("rows of few codes", few_in_a_row(&job.g, job.item_size)):
            why = "rows have a single window, up to 3 of bytes, or up to 4 before elements of no window"
        elif (branch_counted("short rows of codes", width < SELECT_WIDTH) and cells >= LARGER_WINDOW
                and (branch_counted("of large windows", cells >= LARGE_WINDOW) or are_side_by_side(job))):
            why = "rows have fewer than 40 windows of 9 elements or more (27 where rows are not contiguous)"
    elif (branch_counted("short rows of places",
                         width * SMALL_WINDOW < SELECT_WIDTH * max(cells, <Py_ssize_t> SMALL_WINDOW))
            and (branch_counted("of planes of many windows", element_count(job.g.pooled) >= SPREAD_LEAST)
                 or are_side_by_side(job))):
        why = "rows have fewer than 40 windows, or fewer than 10 for each element of a window"
    if (why != NULL and branch_counted("of planes one by one", job.interleaved_planes == 1
                                       and job.raster_stride_bytes == job.item_size)
            and branch_counted("of arrays not far beyond the caches", not job.nontemporal or job.cached_bytes
                               and job.parts_per_plane == 1)):
        return why
    return NULL


cdef inline int find_unit(const Axis *axes, int last, Spread *way, Py_ssize_t item_size,
                          Py_ssize_t index_size) noexcept nogil:
    """One unit: all planes that are neighbours, or one cell. Returns the last of the axes that are left."""
    way.unit = 1
    way.unit_value_step = item_size
    way.unit_index_step = index_size
    while last >= 0 and axes[last].code == 0 and axes[last].full_step == way.unit * item_size:
        if way.unit == 1:
            way.unit_value_step = axes[last].value_step
            way.unit_index_step = axes[last].index_step
        elif (axes[last].value_step != way.unit * way.unit_value_step
                or axes[last].index_step != way.unit * way.unit_index_step):
            break
        way.unit *= axes[last].full
        last -= 1
    return last


cdef inline const char *fill_why_not(const Job *job, Spread *way) noexcept nogil:
    """How a call is spread. Returns why it is not, or NULL."""
    cdef Axis axes[SPREAD_AXES]
    cdef const char *why = beside_each_other_why_not(&job.g)
    cdef Py_ssize_t item_size = job.item_size, index_size = job.index_size
    cdef int last = sorted_axes(job, axes) - 1, axis
    if why != NULL:
        return why
    if last < 0 or not branch_counted("windows worth spreading", job.batch * job.channels
                                      * element_count(job.g.pooled) >= SPREAD_LEAST):
        return "fewer than 128 windows"
    if not branch_counted("windows whose codes leave one for none", element_count(job.g.kernel) <= LINES):
        return "a window has more than 255 elements"
    if not branch_counted("cells that are neighbours along some axis", axes[last].full_step == item_size):
        return "the output is contiguous along no axis"
    why = scattered_sooner(job)
    if why != NULL:
        return why
    way.entry_kind = job.kind
    way.item_size = item_size
    way.index_size = 0 if job.code_size else <int> index_size
    last = find_unit(axes, last, way, item_size, index_size)
    way.line = axes[last] if last >= 0 else no_axis()
    way.row = axes[last - 1] if last >= 1 else no_axis()
    way.outer_axes = max(last - 1, 0)
    for axis in range(way.outer_axes):
        way.outer[axis] = axes[axis]
    if way.unit == 1 and item_size < 16 and branch_counted("windows broad along a line", way.line.taps > BROAD):
        return "windows have more than 4 single elements along the axis that memory runs along"
    way.period = way.row.pooled
    way.pitch = way.line.full_step if way.line.full > 1 else way.unit * item_size
    way.rows_of_values = (way.unit_value_step == item_size
                          and (way.line.pooled == 1 or way.line.value_step == way.unit * item_size))
    way.rows_of_indices = (way.unit_index_step == index_size
                           and (way.line.pooled == 1 or way.line.index_step == way.unit * index_size))
    way.all_values = way.rows_of_values and way.row.value_step == way.unit * way.line.pooled * item_size
    way.all_indices = way.rows_of_indices and way.row.index_step == way.unit * way.line.pooled * index_size
    way.mixed.vectors = 0
    if item_size == 1 and 1 < way.unit < VECTOR and way.pitch == way.unit:
        plan_mixed(way.unit, way.line.taps, &way.mixed)
    list_lines(job, way)
    size_blocks(job, way)
    find_run(way)
    # Where planes are small and do not follow each other a block is soon done, and scattering needs no division.
    if (branch_counted("blocks of few cells", way.most_rows * way.row.taps * way.most_windows * way.line.taps
                       * way.most_unit < SPREAD_BLOCK)
            and branch_counted("cells that follow each other", job.raster_stride_bytes == item_size
                               or job.interleaved_planes > 1)):
        return "planes are small and not adjacent: a block has fewer than 384 elements"
    return NULL
