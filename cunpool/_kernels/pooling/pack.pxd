# Packing: a block of cells brought into one run, in memory's own order. `reach.pxd` says what for.
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy

from cunpool._kernels.common.checks cimport assert_in_block
from cunpool._kernels.common.copy_strided cimport copy_strided
from cunpool._kernels.common.geometry cimport clamp, Geometry
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.types cimport bhalf, float4, float8, half, item1, item2, item4, item8, void_wide
from cunpool._kernels.pooling.compare cimport fill_lowest, int1, int2, int4, int8, number, vector_of

cdef extern from "_kernels/pooling/pack.h":
    uint32_t cunpool_widen(item2 half) noexcept nogil
    item2 cunpool_narrow(uint32_t bits) noexcept nogil

# What is compared: unsigned integers as signed ones with the first bit turned, half precision as single.
ctypedef fused compared:
    int1
    int2
    int4
    int8
    float4
    float8

ctypedef fused code:
    item1
    item2
    item4

cdef enum:
    CHANNEL = 3             # the channels as an axis, beside depth, height and width
    AXES = 4
    BUFFER = 1 << 16        # bytes of a buffer for values: two of these, and two for codes, stay in the second cache
    BUFFER_MOST = 1 << 22   # a single window may need more
    MOSTLY = 8              # windows of more than so many times the array's cells are looked at cell by cell
    SPARSE = 8              # and so are those of blocks that have so many cells for each one that a window looks at
    TURN = 16               # rows of fewer cells are not worth a loop of their own
    SIDE = 64               # so many channels, if they are what memory runs along, go into a block first
    SPARE = 128             # cells behind a buffer's own, so that its last row may be done in whole vectors
    CHUNK = 512             # numbers of a row that are converted together
    SMALL = 256             # cells of a window whose codes are decoded without a table


cdef struct Offsets:
    # `code * cell + rows * row + layers * layer`. The rows and layers that a code counts past are a quotient, that is a
    # product and a shift: exact for windows of SMALL cells that span as many as 31 bits can count. Others have a table.
    uint32_t cell, row, layer
    uint32_t per_row, per_layer
    int64_t *table


cdef struct Filter:
    # What is the same for all blocks that are filtered.
    Py_ssize_t unit         # cells from one column to the next: 1, or all channels; 0 where none is filtered
    Py_ssize_t stride       # columns from one window to the next, where a block has several in a row
    bint rows_in_turn       # whether the rows of a window are compared in turn, or reached step by step,
    bint cells_in_turn      # and so with the cells along a row
    Py_ssize_t row          # cells of the longest row and what is behind it, in whole vectors,
    Py_ssize_t levels       # of all rows that are reached,
    Py_ssize_t stage        # and of the rows that go along their windows together


cdef struct Reach:
    # What is the same for all blocks of a call.
    int order[4]            # the axes as memory runs, slowest first
    bint in_turn[3]         # whether the windows' rows along an axis are compared in turn
    Py_ssize_t most[4]      # windows, or channels, of a block along each axis,
    Py_ssize_t parts[4]     # and how many blocks that makes
    Py_ssize_t cells        # of a block, with all that its windows see
    int item_size           # bytes of a number as it is compared
    int code_size           # bytes of a code on the way, 0 where nobody asks for indices,
    int index_size          # and of an index when it is written
    Filter filter           # how blocks are filtered, but for those with something odd
    bint places             # whether indices are places in the plane,
    Offsets offsets         # and how far, in raster order, a code's cell is from the window's first one


cdef struct Run:
    # A block on its way. Buffers go by twos: one is read while the other is filled.
    Py_ssize_t begin[4]     # its first window, or channel, along each axis
    Py_ssize_t count[4]     # how many
    Py_ssize_t start[4]     # its first cell, which may lie in the padding
    Py_ssize_t size[4]      # its cells along each axis,
    Py_ssize_t distance[4]  # how far neighbours along an axis are from each other,
    Py_ssize_t stride[4]    # and by how many cells windows that are neighbours are
    Py_ssize_t length       # cells in all,
    Py_ssize_t room         # and as many as a buffer holds
    char *values
    char *codes
    char *other_values
    char *other_codes


cdef inline Py_ssize_t span_of(const Geometry *g, int axis, Py_ssize_t windows) noexcept nogil:
    """How many cells so many neighbouring windows see along an axis."""
    return (windows - 1) * g.stride[axis] + (g.kernel[axis] - 1) * g.dilation[axis] + 1


cdef inline Py_ssize_t block_cells(const Geometry *g, const Py_ssize_t *count) noexcept nogil:
    """How many cells a block sees: what a buffer needs, where it is sized and where it is filled. -1 for too many."""
    cdef Py_ssize_t cells = count[CHANNEL], span
    cdef int axis
    for axis in range(3):
        span = span_of(g, axis, count[axis])
        if span > BUFFER_MOST or cells > BUFFER_MOST // span:
            return -1
        cells *= span
    return cells


cdef inline void lay_out(Run *run, const Reach *reach) noexcept nogil:
    """Say how far neighbours are from each other, from the sizes."""
    cdef int k
    run.length = 1
    for k in range(AXES - 1, -1, -1):
        run.distance[reach.order[k]] = run.length
        run.length *= run.size[reach.order[k]]


cdef inline Py_ssize_t whole_vectors(Py_ssize_t count, Py_ssize_t size) noexcept nogil:
    """`count`, as so many as fill the widest vectors. What is done beyond a row, the next row does again."""
    cdef Py_ssize_t vector = vector_of(size)
    return (count + vector - 1) // vector * vector


cdef inline void_wide widen_row(item4 *into, const char *row, Py_ssize_t step, Py_ssize_t count,
                                number *full) noexcept nogil:
    """Copy `count` cells of half precision, `step` bytes apart, as single precision."""
    cdef item2[CHUNK] halves
    cdef Py_ssize_t some, i
    while count > 0:
        some = min(count, <Py_ssize_t> CHUNK)
        if step == sizeof(item2):
            memcpy(halves, row, some * sizeof(item2))
        elif step % <Py_ssize_t> sizeof(item2) == 0:
            copy_strided(sizeof(item2), <char *> halves, row, step // <Py_ssize_t> sizeof(item2), 1, some)
        else:
            for i in range(some):
                halves[i] = (<const item2 *> (row + i * step))[0]
        for i in range(whole_vectors(some, sizeof(item2))):
            into[i] = cunpool_widen(halves[i]) if number is half else <item4> halves[i] << 16
        into += some
        row += some * step
        count -= some


cdef inline void pack_row(char *into, const char *row, Py_ssize_t step, Py_ssize_t count, number *full) noexcept nogil:
    """Copy `count` cells, `step` bytes apart; half precision becomes single."""
    cdef Py_ssize_t i
    if number is half or number is bhalf:
        widen_row(<item4 *> into, row, step, count, full)
    elif step == sizeof(number):
        memcpy(into, row, count * sizeof(number))
    elif step % <Py_ssize_t> sizeof(number) == 0:
        copy_strided(sizeof(number), into, row, step // <Py_ssize_t> sizeof(number), 1, count)
    else:
        for i in range(count):
            (<number *> into)[i] = (<const number *> (row + i * step))[0]


cdef inline void_wide flip_first_bits(char *cells, Py_ssize_t count, number *full) noexcept nogil:
    """Make signed numbers of unsigned ones, of the same order, or the other way."""
    cdef Py_ssize_t i
    if number is item1 or number is item2 or number is item4 or number is item8:
        for i in range(count):
            (<number *> cells)[i] ^= <number> (<number> 1 << 8 * sizeof(number) - 1)


cdef inline void pack_padding(char *into, Py_ssize_t count, number *full) noexcept nogil:
    if number is half or number is bhalf:
        fill_lowest(<float4 *> into, count)
    else:
        fill_lowest(<number *> into, count)


cdef inline char *copy_cells(char *into, const char *row, Py_ssize_t step, Py_ssize_t count,
                             Py_ssize_t size) noexcept nogil:
    """Copy `count` cells of `size` bytes, `step` bytes apart, as they are. Returns where the next ones go."""
    if size == 1:
        pack_row(into, row, step, count, <item1 *> NULL)
    elif size == 2:
        pack_row(into, row, step, count, <item2 *> NULL)
    elif size == 4:
        pack_row(into, row, step, count, <item4 *> NULL)
    else:
        pack_row(into, row, step, count, <item8 *> NULL)
    return into + count * size


cdef inline void pack(const Job *job, const Reach *reach, Py_ssize_t image, Run *run, number *full) noexcept nogil:
    """Bring a block's cells into one run."""
    cdef int inner = reach.order[3], outer_axes = 3, axis, k
    cdef Py_ssize_t size[4]
    cdef Py_ssize_t step[4]
    cdef Py_ssize_t cell_step, group = 1, low, high, row, left, cell
    cdef const char *corner = job.full.data + image * job.full.batch_bytes
    cdef const char *source
    cdef char *into = run.values
    cdef bint in_array
    for axis in range(AXES):
        size[axis] = job.g.full[axis] if axis < 3 else job.channels
        step[axis] = job.full.axis_bytes[axis] if axis < 3 else job.full.channel_bytes
    cell_step = step[inner]
    # Where cells follow each other over two axes, as columns of interleaved channels, both are one row.
    if (0 <= run.start[inner] and run.start[inner] + run.size[inner] <= size[inner] and cell_step == sizeof(number)
            and step[reach.order[2]] == run.size[inner] * cell_step):
        corner += run.start[inner] * cell_step
        group = run.size[inner]
        inner = reach.order[2]
        outer_axes = 2
    low = clamp(-run.start[inner], 0, run.size[inner])
    high = clamp(size[inner] - run.start[inner], low, run.size[inner])
    assert_in_block(run.length <= reach.cells)
    for row in range(run.length // (run.size[inner] * group)):
        source = corner + (run.start[inner] + low) * step[inner]
        in_array = low < high
        left = row
        for k in range(outer_axes - 1, -1, -1):
            axis = reach.order[k]
            cell = run.start[axis] + left % run.size[axis]
            left //= run.size[axis]
            source += cell * step[axis]
            in_array &= 0 <= cell < size[axis]
        if in_array:
            pack_padding(into, low * group, full)
            pack_row(into + low * group * reach.item_size, source, cell_step, (high - low) * group, full)
            pack_padding(into + high * group * reach.item_size, (run.size[inner] - high) * group, full)
        else:
            pack_padding(into, run.size[inner] * group, full)
        into += run.size[inner] * group * reach.item_size
    flip_first_bits(run.values, run.length, full)
