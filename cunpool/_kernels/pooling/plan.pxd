# What a plan of pooling is, and which way is worth it: the conditions of the list that `plan_pool` is (`pool.pyx`).
from cunpool._kernels.common.arrays cimport plane_address, raster_stride, View
from cunpool._kernels.common.checks cimport branch_counted
from cunpool._kernels.common.geometry cimport absolute, clamp, element_count, Geometry
from cunpool._kernels.common.job cimport are_all_contiguous, has_interleaved_channels, Job
from cunpool._kernels.common.tasks cimport Kernel
from cunpool._kernels.pooling.compare cimport vector_of
from cunpool._kernels.pooling.deal cimport blocks, Rows
from cunpool._kernels.pooling.numbers cimport FEW_LOOKS, MOST_LOOKS
from cunpool._kernels.pooling.pack cimport copy_cells, Reach
from cunpool._kernels.pooling.reach cimport plan_reach
from cunpool._kernels.pooling.rolling cimport Rolling
from cunpool._kernels.pooling.twos cimport twos
from cunpool._kernels.pooling.write cimport LINE

cdef enum:  # the ways, for plan_pool
    JOINED_TAKEN = 1
    ACROSS_TAKEN = 2
    STREAMED_TAKEN = 4
    LARGE_TAKEN = 8
    WHOLE_TAKEN = 16
    TWOS_TAKEN = 32
    REACHED_TAKEN = 64
    FILTERED_TAKEN = 128
    COPIED_TAKEN = 256
    TURNED_TAKEN = 512
    UNITS_TAKEN = 1024
    ROLLED_TAKEN = 2048

cdef enum:
    FEW = 10                # so few windows in a row, where planes can't be joined, are pooled across channels,
    MANY = 16               # if there are so many of these,
    UNIT_MOST = MANY - 1    # and interleaved ones are dealt out together, if there are no more than these
    DEALT = 9               # cells of windows that are dealt out: of more, reaching looks at fewer
    REACHING = 24           # windows in a row from which on that holds for 9 cells too, of some kinds of numbers
    SHORT_OVERLAPPING = 12  # windows in a row from which on 9 cells are better reached than dealt, where they overlap,
    LONG_OVERLAPPING = 64   # and up to which
    LEAST_FILTERED = 1 << 9     # cells of an array that is worth the plan of filtering,
    NARROW = 4              # cells of a row that is not worth a loop, however high its windows are,
    ROW_FILTERED = 16       # cells that the windows of a row look at,
    TALL_FILTERED = 7       # for each byte of a cell in a tall plane of many,
    PLANE_FILTERED = 128    # and those of a plane by itself
    BROADEST = 1 << 12      # bytes of the channels that are filtered as units of a row
    BROAD_UNIT = 64         # bytes of channels whose small windows are compared across them, unless all columns count
    COPIED_ROW = 64         # cells of the longest row that is copied for nothing but the gap behind it
    COPIED_MOST = 1 << 18   # bytes of the largest plane that is copied,
    COPIED_LOT = 1 << 16    # and of small ones that are copied together


cdef struct Copied:
    # Planes that are copied to C order first.
    Py_ssize_t planes       # of a lot: these are copied, and pooled, together
    Py_ssize_t lots
    Py_ssize_t scratch_bytes    # that pooling a lot takes beside the copy
    Py_ssize_t item_size    # what `plan_pool` is told again, for each lot has a plan of its own
    int kind


cdef struct Plan:
    # How a call is done, and what belongs to one way of it alone.
    int ways  # unreached: a declaration
    Kernel kernel  # unreached: the same
    Rows rows
    Reach reach
    Rolling rolling
    Copied copied


cdef inline bint foldable(const Job *job, Py_ssize_t item_size, Py_ssize_t index_size) noexcept nogil:
    """Whether planes can be one: where rows follow each other and no window is cut off. Short rows need that."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t planes = job.batch * job.channels
    return (planes > 1 and g.full[0] == 1 and g.pooled[0] == 1 and not g.padding[1]
            and branch_counted("rows short enough to be joined", g.pooled[2] < LINE // 4)
            and branch_counted("windows of whole planes", g.full[1] == g.pooled[1] * g.stride[1])
            and branch_counted("windows within their plane", (g.kernel[1] - 1) * g.dilation[1] < g.stride[1])
            and planes * g.full[1] * g.full[2] <= 0x7FFFFFFF
            and branch_counted("planes that follow each other", are_all_contiguous(job, item_size, index_size)))


cdef inline void fold(Job *job, Py_ssize_t item_size, Py_ssize_t index_size) noexcept nogil:
    """Make one tall plane of all, which have to follow each other."""
    cdef Py_ssize_t planes = job.batch * job.channels
    job.full.axis_bytes[1] = job.g.full[2] * item_size
    job.pooled.axis_bytes[1] = job.g.pooled[2] * item_size
    job.indices.axis_bytes[1] = job.g.pooled[2] * index_size
    job.g.full[1] *= planes
    job.g.pooled[1] *= planes
    job.batch = job.channels = 1


cdef inline void join(Job *job, Plan *plan, Py_ssize_t item_size) noexcept nogil:
    """Make one tall plane of all."""
    job.rows_per_plane = job.g.full[1]
    fold(job, item_size, job.index_size)
    plan.ways += JOINED_TAKEN


cdef inline bint worth_dealing(const Job *job, Py_ssize_t item_size, bint half_precision) noexcept nogil:
    """Whether dealing out, and comparing all cells of a window, beats reaching."""
    if branch_counted("a window of more cells than are worth dealing", element_count(job.g.kernel) > DEALT):
        return False
    if (branch_counted("overlapping windows of so many cells",
                       element_count(job.g.kernel) == DEALT and job.g.stride[2] == 1)
            and branch_counted("rows that are better reached",
                               SHORT_OVERLAPPING <= job.g.pooled[2] <= LONG_OVERLAPPING)):
        return False
    if branch_counted("rows too short for reaching", job.g.pooled[2] < REACHING):
        return True
    if branch_counted("half precision, or narrow numbers without indices",  # unreached: a name
           half_precision or item_size == 1 and job.indices.data == NULL):
        return False
    return branch_counted("indices, or a stride", job.indices.data != NULL or job.g.stride[2] > 1)


cdef inline Py_ssize_t unit_of(const Job *job, Py_ssize_t item_size) noexcept nogil:
    """Cells from one column to the next, where values alone can be filtered: of rows that are contiguous or interleave
    the channels, as those of the results are; else 0."""
    cdef const Geometry *g = &job.g
    if g.kernel[0] > 1 and branch_counted("layers of many rows", g.kernel[0] * g.kernel[1] > 16):
        return 0
    if (job.full.axis_bytes[2] == item_size and job.pooled.axis_bytes[2] == item_size
            and not branch_counted("channels closer than columns of one", job.channels > 1
                                   and job.full.channel_bytes == item_size)):
        return 1
    if (branch_counted("channels that are interleaved", has_interleaved_channels(job, &job.full, item_size))
            and has_interleaved_channels(job, &job.pooled, item_size)
            and branch_counted("units of some channels", job.channels * item_size <= BROADEST)):
        return job.channels
    return 0


cdef inline Py_ssize_t looks_at_once(Py_ssize_t item_size, Py_ssize_t channels) noexcept nogil:
    """Cells of the largest window that is compared across so many channels rather than filtered. Of two bytes there is
    none: they may be halves, each of which has to be made comparable again and again."""
    if item_size == 2:
        return 0
    return MOST_LOOKS if item_size > 1 and channels * item_size >= 2 * BROAD_UNIT else FEW_LOOKS


cdef inline bint worth_filtering(const Job *job, Py_ssize_t item_size, Py_ssize_t unit, bint tall) noexcept nogil:
    """Whether filtering is worth its plan, and its rows their loops: as one tall plane each row, else each plane."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t row = g.pooled[2] * unit * element_count(g.kernel)
    if (branch_counted("broad units, of which a stride leaves some out", g.stride[2] > 1 and unit >= MANY
                       and unit * item_size >= BROAD_UNIT)
            and branch_counted("so few cells that all of a window are compared at once",
                               element_count(g.kernel) <= looks_at_once(item_size, unit))):
        return False
    return (branch_counted("columns enough to be filtered", g.full[2] * unit > NARROW)
            and branch_counted("rows worth filtering", row >= (TALL_FILTERED * item_size if tall else ROW_FILTERED))
            and branch_counted("planes worth filtering", tall or row * g.pooled[0] * g.pooled[1] >= PLANE_FILTERED))


cdef inline void exchange(Py_ssize_t *sizes, int axis) noexcept nogil:
    sizes[axis], sizes[2] = sizes[2], sizes[axis]


cdef inline void turn(Job *job, int axis) noexcept nogil:
    """Take this axis for the width, and the width for it; and the same again takes it back. Raster order stays."""
    if axis == 2:
        return
    exchange(job.g.full, axis)
    exchange(job.g.pooled, axis)
    exchange(job.g.kernel, axis)
    exchange(job.g.stride, axis)
    exchange(job.g.padding, axis)
    exchange(job.g.dilation, axis)
    exchange(job.full.axis_bytes, axis)
    exchange(job.pooled.axis_bytes, axis)
    exchange(job.indices.axis_bytes, axis)
    exchange(job.index_steps, axis)
    exchange(job.raster_steps, axis)
    job.raster_axes[axis], job.raster_axes[2] = job.raster_axes[2], job.raster_axes[axis]


cdef inline void turn_to_channels(Job *job, Py_ssize_t item_size) noexcept nogil:
    """Take for the width the last axis along which all channels are the next ones in memory, if there is any."""
    cdef int axis
    for axis in range(2, -1, -1):
        if job.full.axis_bytes[axis] == job.channels * item_size:
            turn(job, axis)
            return


cdef inline bint plan_filtered(Job *job, Reach *reach, Py_ssize_t item_size, int compared_size,
                               int threads) noexcept nogil:
    """Whether a call can be filtered, and how: along the last axis that is contiguous or interleaves the channels,
    which is the width then; and as one tall plane, where planes can be one."""
    cdef Geometry g = job.g
    cdef View full = job.full, pooled = job.pooled
    cdef Py_ssize_t batch = job.batch, channels = job.channels, unit
    cdef int axis
    cdef bint tall
    if (job.indices.data != NULL or not branch_counted("windows of more than a cell", element_count(g.kernel) > 1)
            or not branch_counted("cells enough to be filtered",
                                  batch * channels * element_count(g.full) >= LEAST_FILTERED)):
        return False
    for axis in range(2, -1, -1):
        turn(job, axis)
        unit = unit_of(job, item_size)
        tall = unit and foldable(job, item_size, 0)
        if unit and worth_filtering(job, item_size, unit, tall):
            if tall:
                fold(job, item_size, 0)
            if plan_reach(job, reach, compared_size, 0, threads, unit):
                return True
        turn(job, axis)
        job.g, job.full, job.pooled, job.batch, job.channels = g, full, pooled, batch, channels
    return False


cdef inline Py_ssize_t dealt_unit(const Job *job, Py_ssize_t item_size) noexcept nogil:
    """Cells of a column, where a row can be dealt out: 1 of a contiguous row, or with indices all channels that are
    interleaved, in the results too, if they are few but of several bytes; else 0."""
    if job.full.axis_bytes[2] == item_size:
        return not branch_counted("channels closer to each other than columns", job.channels > 1
                                  and absolute(job.full.channel_bytes) < item_size)
    # Places are counted from a block's first window then: 32 bits are enough for that, and 9 rows of a window, here.
    if (job.indices.data != NULL and item_size >= 4 and branch_counted("few channels", job.channels <= UNIT_MOST)
            and has_interleaved_channels(job, &job.full, item_size)
            and has_interleaved_channels(job, &job.pooled, item_size)
            and branch_counted("indices interleaved like values",
                               has_interleaved_channels(job, &job.indices, job.index_size))
            and element_count(job.g.full) <= 1 << 27):
        return job.channels
    return 0


cdef inline void interleave(View *view) noexcept nogil:
    """Make one plane of all channels of an image."""
    view.channel_bytes = view.batch_bytes
    view.uniform_planes = True


cdef inline bint plan_dealt(Job *job, Plan *plan, Py_ssize_t item_size, bint half_precision, bint *few) noexcept nogil:
    """Whether dealing out is worth it, and how: along the last axis along which columns follow each other, which is the
    width then; of planes that can be one, as that. Or else whether it would be, but for windows so `few` that they had
    better go across the channels."""
    cdef Py_ssize_t unit
    cdef int axis
    for axis in range(2, -1, -1):
        turn(job, axis)
        unit = dealt_unit(job, item_size)
        if unit and worth_dealing(job, item_size, half_precision):
            if foldable(job, item_size, job.index_size):
                if blocks(job, item_size, 1, &plan.rows.most):
                    join(job, plan, item_size)
                    return True
            elif branch_counted("many channels of few windows", job.channels >= MANY and job.g.pooled[2] <= FEW):
                few[0] = True
            elif blocks(job, item_size, unit, &plan.rows.most):
                if unit > 1:
                    interleave(&job.full)
                    interleave(&job.pooled)
                    interleave(&job.indices)
                    job.channels = 1
                return True
        turn(job, axis)
    return False


cdef inline bint with_gaps_behind_twos(const Job *job, Py_ssize_t item_size) noexcept nogil:
    """Whether windows of 2 fill no vector, and nothing may be read behind their rows. Where rows follow each other they
    are compared as whole vectors."""
    return not job.gapless and job.g.pooled[2] < vector_of(item_size) and twos(job, item_size)


cdef inline Py_ssize_t planes_copied(const Job *job, Py_ssize_t item_size, int threads) noexcept nogil:
    """How many planes are copied to C order at a time, or 0 if they are pooled where they lie.

    Planes are copied that fit a buffer, if their rows lie along memory, but with cells between, backwards, or short
    and with gaps behind them, which may not be read. A plane is never split, so each thread has to have one.
    """
    cdef const View *full = &job.full
    cdef Py_ssize_t planes = job.batch * job.channels, step = absolute(full.axis_bytes[2]), size = item_size, some
    cdef int axis
    if job.channels > 1 and step > absolute(full.channel_bytes) or job.batch > 1 and step > absolute(full.batch_bytes):
        return 0
    if (full.axis_bytes[2] == item_size and (branch_counted("contiguous planes, or rows long enough where they lie",
                                                            job.g.full[2] > COPIED_ROW
                                                            or raster_stride(full, job.g.full) == item_size)
                                             or twos(job, item_size))
            and not branch_counted("short rows of windows of two, with gaps behind them",
                                   with_gaps_behind_twos(job, item_size))):
        return 0
    if (branch_counted("fewer planes than threads", planes < threads)
            or not branch_counted("planes of the results equally far apart", job.pooled.uniform_planes
                                  and (job.indices.data == NULL or job.indices.uniform_planes))):
        return 0
    for axis in range(3):
        if branch_counted("planes larger than a buffer", job.g.full[axis] > COPIED_MOST // size):
            return 0
        size *= job.g.full[axis]
    if (size == item_size or branch_counted("an axis closer in memory than the width", job.g.full[1] > 1
                                            and step > absolute(full.axis_bytes[1]) or job.g.full[0] > 1
                                            and step > absolute(full.axis_bytes[0]))):
        return 0
    some = clamp(COPIED_LOT // size, 1, planes)
    if threads > 1:
        some = clamp(planes // (4 * threads), 1, some)
    return some


cdef inline void copy_planes(const Job *job, Py_ssize_t first, Py_ssize_t planes, Py_ssize_t item_size,
                             char *into) noexcept nogil:
    """Bring some planes into C order."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t flat = raster_stride(&job.full, g.full), plane, d, h
    cdef const char *start
    for plane in range(first, first + planes):
        start = plane_address(&job.full, job.channels, plane)
        if branch_counted("planes of cells as far apart everywhere", flat != 0):
            into = copy_cells(into, start, flat, element_count(g.full), item_size)
            continue
        for d in range(g.full[0]):
            for h in range(g.full[1]):
                into = copy_cells(into, start + d * job.full.axis_bytes[0] + h * job.full.axis_bytes[1],
                                  job.full.axis_bytes[2], g.full[2], item_size)
