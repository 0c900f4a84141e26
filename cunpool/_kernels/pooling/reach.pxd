# Pooling in three words: pack, reach, take. For any order in memory and any window, one axis after the other.
#
# Pack: a block of cells, with all that its windows see, is brought into one run, in memory's own order. There an axis
# is nothing but a distance. A cell of the padding is the lowest number there is, so that its value never matters.
# Reach: the maximum over 2, 4, 8, ... neighbours along an axis is the run against itself, shifted by 1, 2, 4, ...
# distances, the last shift overlapping: 7 neighbours are 4, and the 4 that begin 3 further on. Where it is no more
# work, the rows of a window are compared in turn instead. The axes go in logical order, the last first, and an earlier
# cell stays unless the later is greater or NaN: so every tie falls as in raster order. Codes, counted from the window,
# go along.
# Take: every stride-th cell is written out. A code that names padding, where a window holds nothing above the lowest
# number, moves to the first cell of the array in its window; codes become places where places are asked for.
from libc.stdint cimport int64_t, uint32_t

from cunpool._kernels.common.checks cimport assert_in_block, branch_counted
from cunpool._kernels.common.geometry cimport absolute, clamp, element_count, Geometry
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.types cimport void_inline, void_wide
from cunpool._kernels.pooling.compare cimport beats, first_tap, inside, lowest, spans_far
from cunpool._kernels.pooling.filter cimport FILTERED_MORE, plan_filter
from cunpool._kernels.pooling.pack cimport (
    AXES, block_cells, BUFFER, BUFFER_MOST, CHANNEL, code, compared, lay_out, MOSTLY, Offsets, Reach, Run, SIDE, SMALL,
    span_of, SPARSE, TURN, whole_vectors)


cdef inline void_inline highest(compared *into, const compared *a, const compared *b, Py_ssize_t count) noexcept nogil:
    """The higher of two cells each; `b` comes later."""
    cdef Py_ssize_t i
    for i in range(count):
        into[i] = b[i] if beats(b[i], a[i]) else a[i]


cdef inline void_inline highest_coded(compared *into, code *code_into, const compared *a, const compared *b,
                                      const code *code_a, const code *code_b, code worth,
                                      Py_ssize_t count) noexcept nogil:
    """The same with codes: in the window of `a`, the later cell's code is `worth` more."""
    cdef Py_ssize_t i
    cdef code first, second
    cdef bint later
    for i in range(count):
        later = beats(b[i], a[i])
        # Loaded in any case, so that there is no branch.
        first = code_a[i]
        second = <code> (code_b[i] + worth)
        into[i] = b[i] if later else a[i]
        code_into[i] = second if later else first


cdef inline void swap(Run *run) noexcept nogil:
    """What was filled is read next."""
    run.values, run.other_values = run.other_values, run.values
    run.codes, run.other_codes = run.other_codes, run.codes


cdef inline void_wide reach_along(Run *run, Py_ssize_t kernel, Py_ssize_t unit, Py_ssize_t worth, bint coding,
                                  compared *compared_type, code *code_type) noexcept nogil:
    """The highest of `kernel` cells, `unit` cells apart, from each cell on: the run against itself, shifted."""
    cdef Py_ssize_t reached = 1, shift, count = run.length
    while reached < kernel:
        shift = min(reached, kernel - reached)
        count -= shift * unit
        if coding:
            highest_coded(<compared *> run.other_values, <code *> run.other_codes, <const compared *> run.values,
                          <const compared *> run.values + shift * unit, <const code *> run.codes,
                          <const code *> run.codes + shift * unit, <code> (shift * worth), count)
        else:
            highest(<compared *> run.other_values, <const compared *> run.values,
                    <const compared *> run.values + shift * unit, count)
        swap(run)
        reached += shift


cdef inline void_wide reach_in_turn(Run *run, Py_ssize_t rows, Py_ssize_t windows, Py_ssize_t kernel,
                                    Py_ssize_t dilation, Py_ssize_t stride, Py_ssize_t row, Py_ssize_t worth,
                                    bint coding, compared *compared_type, code *code_type) noexcept nogil:
    """The highest of `kernel` rows of `row` cells each, for `windows` of every `rows` rows."""
    cdef compared *into = <compared *> run.other_values
    cdef code *code_into = <code *> run.other_codes
    cdef const compared *values = <const compared *> run.values
    cdef const code *codes = <const code *> run.codes
    cdef Py_ssize_t next = dilation * row, whole = whole_vectors(row, sizeof(compared)), tap
    assert_in_block(run.length // (rows * row) * windows * row + whole - row <= run.room)
    stride = stride if windows > 1 else 0  # of a single window it may be anything
    for _ in range(run.length // (rows * row)):
        for _window in range(windows):
            if coding:
                highest_coded(into, code_into, values, values + next, codes, codes + next, <code> worth, whole)
                for tap in range(2, kernel):
                    highest_coded(into, code_into, into, values + tap * next, code_into, codes + tap * next,
                                  <code> (tap * worth), whole)
                code_into += row
                codes += stride * row
            else:
                highest(into, values, values + next, whole)
                for tap in range(2, kernel):
                    highest(into, into, values + tap * next, whole)
            into += row
            values += stride * row
        values += (rows - windows * stride) * row
        codes += (rows - windows * stride) * row
    swap(run)


cdef inline Py_ssize_t code_inside(const Geometry *g, const Py_ssize_t *start, Py_ssize_t at) noexcept nogil:
    """A code, or where it names padding, that of the window's first cell inside the array."""
    cdef Py_ssize_t kernel, tap, worth = 1, result = 0
    cdef int axis
    for axis in range(2, -1, -1):
        kernel = g.kernel[axis]
        tap = at % kernel
        at //= kernel
        tap = max(tap, first_tap(start[axis], g.dilation[axis]))
        tap = min(tap, (g.full[axis] - 1 - start[axis]) // g.dilation[axis])
        result += tap * worth
        worth *= kernel
    return result


cdef inline void move_inside(const Geometry *g, Run *run, compared *compared_type, code *code_type) noexcept nogil:
    """Move codes that name padding: in windows over an edge whose maximum is the lowest number there is."""
    cdef const compared *values = <const compared *> run.values
    cdef code *codes = <code *> run.codes
    cdef compared nothing = lowest(compared_type)
    cdef Py_ssize_t start[3]
    cdef Py_ssize_t d, h, w, at
    cdef bint row_inside
    for d in range(run.count[0]):
        start[0] = run.start[0] + d * g.stride[0]
        for h in range(run.count[1]):
            start[1] = run.start[1] + h * g.stride[1]
            row_inside = (inside(start[0], g.kernel[0], g.dilation[0], g.full[0])
                          and inside(start[1], g.kernel[1], g.dilation[1], g.full[1]))
            for w in range(run.count[2]):
                start[2] = run.start[2] + w * g.stride[2]
                if row_inside and inside(start[2], g.kernel[2], g.dilation[2], g.full[2]):
                    continue
                at = (d * run.stride[0] * run.distance[0] + h * run.stride[1] * run.distance[1]
                      + w * run.stride[2] * run.distance[2])
                for _ in range(run.count[CHANNEL]):
                    if values[at] == nothing:
                        codes[at] = <code> code_inside(g, start, codes[at])
                    at += run.distance[CHANNEL]


cdef inline bint over_an_edge(const Geometry *g, const Run *run) noexcept nogil:
    """Whether some window of a block reaches over an edge of the array."""
    cdef int axis
    for axis in range(3):
        if run.start[axis] < 0 or run.start[axis] + span_of(g, axis, run.count[axis]) > g.full[axis]:
            return True
    return False


cdef inline void reach_all(const Job *job, const Reach *reach, Run *run, compared *compared_type,
                           code *code_type) noexcept nogil:
    """The maximum of each window, where the window begins, and its code.

    The array's own last axis goes first, whichever was taken for the width.
    """
    cdef const Geometry *g = &job.g
    cdef bint coding = reach.code_size != 0
    cdef Py_ssize_t worth = 1, kernel
    cdef int axis, last
    for last in range(2, -1, -1):
        axis = job.raster_axes[last]
        kernel = g.kernel[axis]
        if kernel > 1 and reach.in_turn[axis]:
            reach_in_turn(run, run.size[axis], run.count[axis], kernel, g.dilation[axis], g.stride[axis],
                          run.distance[axis], worth, coding, compared_type, code_type)
            run.size[axis] = run.count[axis]
            run.stride[axis] = 1
            lay_out(run, reach)
        elif kernel > 1:
            reach_along(run, kernel, g.dilation[axis] * run.distance[axis], worth, coding, compared_type, code_type)
        worth *= kernel
    if coding and over_an_edge(g, run):
        move_inside(g, run, compared_type, code_type)


cdef inline bint all_windows_see_cells(const Geometry *g) noexcept nogil:
    """Whether no window misses the array altogether, as one may where dilation is wide."""
    cdef Py_ssize_t start, window
    cdef int axis
    for axis in range(3):
        if g.dilation[axis] == 1 or g.padding[axis] == 0:
            continue
        for window in range(g.pooled[axis]):
            start = window * g.stride[axis] - g.padding[axis]
            if start >= 0:
                break
            if start + first_tap(start, g.dilation[axis]) * g.dilation[axis] >= g.full[axis]:
                return False
    return True


cdef inline int passes(Py_ssize_t kernel) noexcept nogil:
    """How often a run is held against itself to reach so many neighbours."""
    cdef int count = 0
    while (<Py_ssize_t> 1 << count) < kernel:
        count += 1
    return count


cdef inline void order_axes(const Job *job, int *order) noexcept nogil:
    """The axes as memory runs, slowest first; those of one entry have no say."""
    cdef Py_ssize_t step[4]
    cdef int k, other, axis
    for axis in range(AXES):
        step[axis] = absolute(job.full.axis_bytes[axis] if axis < 3 else job.full.channel_bytes)
        if (job.g.full[axis] if axis < 3 else job.channels) == 1:
            step[axis] = <Py_ssize_t> (<size_t> -1 >> 1)
    order[0] = CHANNEL
    for k in range(1, AXES):
        axis = k - 1
        other = k
        while other and step[order[other - 1]] < step[axis]:
            order[other] = order[other - 1]
            other -= 1
        order[other] = axis


cdef inline Py_ssize_t shared_by(const Geometry *g, int axis) noexcept nogil:
    """How many windows, one after the other, share at least half of their cells; with a stride fewer, 1 at least."""
    # Not divided by the stride's square, which may have more than 64 bits.
    return clamp(span_of(g, axis, 1) // g.stride[axis] // g.stride[axis] // 2, 1, g.pooled[axis])


cdef inline void size_blocks(const Job *job, Reach *reach, Py_ssize_t room) noexcept nogil:
    """Let blocks grow to `room` cells: first where the cells that two blocks see weigh most, then as memory runs."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t pooled[4]
    cdef Py_ssize_t before
    cdef double overlap, worst
    cdef bint full[4]
    cdef int axis, chosen, k
    for axis in range(AXES):
        reach.most[axis] = 1
        full[axis] = False
        pooled[axis] = g.pooled[axis] if axis < 3 else job.channels
    # Rows that are filtered are as long as leaves room for some of them.
    if reach.filter.unit:
        reach.most[CHANNEL] = reach.filter.unit
        reach.most[2] = pooled[2]
        while reach.most[2] > 1 and not 0 <= 4 * block_cells(g, reach.most) <= room:
            reach.most[2] = (reach.most[2] + 1) // 2
    elif reach.order[3] == CHANNEL:
        # So many that windows have room beside them with which they share half of their cells.
        reach.most = [shared_by(g, 0), shared_by(g, 1), shared_by(g, 2), min(pooled[CHANNEL], <Py_ssize_t> SIDE)]
        while reach.most[CHANNEL] > 1 and not 0 <= block_cells(g, reach.most) <= room:
            reach.most[CHANNEL] //= 2
        reach.most = [1, 1, 1, reach.most[CHANNEL]]
    while True:
        worst = 0
        chosen = -1
        for k in range(AXES - 1, -1, -1):
            axis = reach.order[k]
            overlap = 1
            if axis < 3:
                overlap = span_of(g, axis, reach.most[axis]) / (<double> reach.most[axis] * g.stride[axis])
            if not full[axis] and reach.most[axis] < pooled[axis] and max(overlap, 1) > worst:
                worst = max(overlap, 1)
                chosen = axis
        if chosen < 0:
            break
        before = reach.most[chosen]
        reach.most[chosen] = min(2 * before, pooled[chosen])
        if not 0 <= block_cells(g, reach.most) <= room:
            reach.most[chosen] = before
            full[chosen] = True
    for axis in range(AXES):  # equal parts
        reach.parts[axis] = (pooled[axis] + reach.most[axis] - 1) // reach.most[axis]
        reach.most[axis] = (pooled[axis] + reach.parts[axis] - 1) // reach.parts[axis]
        reach.parts[axis] = (pooled[axis] + reach.most[axis] - 1) // reach.most[axis]
    reach.cells = block_cells(g, reach.most)  # fault: a block of one cell more than its buffers


cdef inline const char *plan_reach(const Job *job, Reach *reach, int item_size, int index_size, int threads,
                                   Py_ssize_t unit) noexcept nogil:
    """How a call is reached, or filtered by rows of such units. Returns why it cannot be, or NULL."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t *one = [1, 1, 1, 1]
    cdef Py_ssize_t least = block_cells(g, one), room = BUFFER // item_size, row = 1
    cdef int axis, k
    if branch_counted("a window too large for a buffer", least < 0 or least * item_size > BUFFER_MOST):
        return "a window spans more than 4 MiB"
    if branch_counted("windows that are nearly all padding", least > MOSTLY * element_count(g.full)):
        return "a window spans more than 8 times the array's elements"
    if branch_counted("windows that miss the array", not all_windows_see_cells(g)):
        return "a window has no element of the array"
    reach.filter.unit = unit
    reach.item_size = item_size
    reach.index_size = index_size
    reach.code_size = 0
    if index_size:
        reach.code_size = min(item_size, 4)
        if item_size == 1 and branch_counted("codes wider than the numbers", element_count(g.kernel) > 256):
            reach.code_size = 2
        if item_size < 4 and branch_counted("a window of too many cells for its codes",
                                            element_count(g.kernel) > 65536):
            return "a window has more than 65,536 elements"
    order_axes(job, reach.order)
    if unit:
        room *= FILTERED_MORE
    if threads > 1:
        room = clamp(job.batch * job.channels * element_count(g.full) // (4 * threads), 1024, room)
    size_blocks(job, reach, max(room, least))
    if branch_counted("units that leave room for one window", unit > 1
                      and reach.most[0] * reach.most[1] * reach.most[2] == 1
                      and shared_by(g, 0) * shared_by(g, 1) * shared_by(g, 2) > 1):
        return "all channels of more than one window do not fit a block"
    if unit:
        plan_filter(g, reach.most, item_size, &reach.filter)
        # A single window may be too much, with all channels as units or with its rows in whole vectors.
        if not 0 <= reach.cells * item_size <= BUFFER_MOST or reach.filter.levels * item_size > 2 * BUFFER_MOST:
            return "a block of one window does not fit a buffer"
    if branch_counted("blocks of cells that hardly any window looks at",
                      reach.cells > SPARSE * reach.most[0] * reach.most[1] * reach.most[2] * reach.most[CHANNEL]
                      * min(element_count(g.kernel), reach.cells)):
        return "windows use less than an eighth of the elements between them"
    for k in range(AXES - 1, -1, -1):
        axis = reach.order[k]
        if axis < 3:
            reach.in_turn[axis] = (g.kernel[axis] > 1 and branch_counted("rows worth a loop", row >= TURN)
                                   and branch_counted("fewer rows than passes",
                                                      g.kernel[axis] - 1 <= passes(g.kernel[axis]) * g.stride[axis]))
            row *= reach.most[axis] if reach.in_turn[axis] else span_of(g, axis, reach.most[axis])
        else:
            row *= reach.most[axis]
    return NULL


cdef inline Py_ssize_t relative(const Geometry *g, Py_ssize_t cell) noexcept nogil:
    """How far a window's cell is from its first one in raster order."""
    cdef Py_ssize_t kw = cell % g.kernel[2], kh = cell // g.kernel[2] % g.kernel[1]
    cdef Py_ssize_t kd = cell // g.kernel[2] // g.kernel[1]
    return (kd * g.dilation[0] * g.full[1] + kh * g.dilation[1]) * g.full[2] + kw * g.dilation[2]


cdef inline Py_ssize_t table_bytes(const Job *job) noexcept nogil:
    """Bytes of the table by which codes become places, 0 where there is none."""
    if branch_counted("a window whose codes need a table", element_count(job.g.kernel) > SMALL) or spans_far(job):
        return element_count(job.g.kernel) * sizeof(int64_t)
    return 0


cdef inline void plan_offsets(const Job *job, Offsets *offsets, int64_t *table) noexcept nogil:
    """How codes become places, by a table if there is one: it has room for a window's cells."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t row = g.kernel[2], layer = g.kernel[1] * g.kernel[2], place
    offsets.cell = <uint32_t> g.dilation[2]
    offsets.row = <uint32_t> (g.dilation[1] * g.full[2] - row * g.dilation[2])
    offsets.layer = <uint32_t> (g.dilation[0] * g.full[1] * g.full[2] - g.kernel[1] * g.dilation[1] * g.full[2])
    offsets.per_row = <uint32_t> (65536 // row + 1)
    offsets.per_layer = <uint32_t> (65536 // layer + 1)
    offsets.table = table
    if table != NULL:
        for place in range(element_count(g.kernel)):
            table[place] = relative(g, place)
