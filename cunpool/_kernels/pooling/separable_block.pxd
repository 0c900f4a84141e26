# Separable pooling of a block: it is copied into lattices, and each axis of the window is reduced by combining runs of
# a lattice, a vector at a time. With stride 2 along a row:
#
#     positions of a row      0 1 2 3 4 5 6 7
#     lattice 0               0   2   4   6          element j is position j * stride
#     lattice 1                 1   3   5   7        element j is position j * stride + 1
#
# The window at j has the elements j of lattice 0, j of lattice 1, j + 1 of lattice 0, and so on. Lattices are numbered
# by the first tap that is in them: tap t is in lattice t % lattices, t * dilation / stride elements behind the first of
# the window. So a whole run of windows is the maximum of runs. A lattice has all axes of the block, in the order in
# which they lie in memory, and the other axes are deinterleaved into lattices in the same way. The raster order decides
# in which order axes are reduced: columns, rows, layers. Then the first maximum of a window is the first in raster
# order.
#
# Padding is filled with the lowest number. Where that is the maximum of a window that begins in padding, its code is
# moved to the window's first element in the array.
#
# Minima: the bits that `flip` has are inverted in the lattices, which reverses the order of the numbers, and in the
# results again. NaN omitted: where a block has NaN, its padding is NaN too, and any number beats a NaN.
from libc.stdint cimport int16_t, int64_t, uint64_t, uint8_t
from libc.string cimport memcpy, memset

from cunpool._kernels.common.checks cimport assert_in_block
from cunpool._kernels.common.geometry cimport clamp
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.pack cimport fill, pack_row, pack_rows, PackedRows, scatter
from cunpool._kernels.common.types cimport void_wide
from cunpool._kernels.pooling.compare cimport first_tap
from cunpool._kernels.pooling.runs cimport (
    combine, prepare, restore, RUN_CODES, RUN_FIRST, RUN_FRESH, RUN_VALUES, Runs, VECTOR_BYTES)
from cunpool._kernels.pooling.separable cimport (
    AXES, Axis, CHANNEL, decode, DECODED_TOGETHER, extent_of, Separable)

cdef enum:
    SPARE_BYTES = 128   # Behind the last lattice: a run and its codes may be read beyond it. (correctness)


cdef struct SeparableBlock:
    # A block while it is pooled.
    Py_ssize_t[AXES] count      # windows
    Py_ssize_t[AXES] first      # position of the first window; negative in padding
    Py_ssize_t[AXES] extent     # elements of a lattice
    Py_ssize_t[AXES] distance   # elements of a lattice from one to the next
    Py_ssize_t length           # elements of a lattice
    const char *full
    char *pooled
    char *indices               # or NULL
    bint is_padded              # a window begins before the array
    uint64_t outside            # the bits of padding
    bint is_careful             # there is a NaN, or a negative zero of 16 bits
    int form                    # what is read of codes: RUN_VALUES to RUN_CODES
    char *values
    char *codes
    char *other_values          # Axes are reduced from one buffer into the other.
    char *other_codes


cdef inline Py_ssize_t buffer_bytes(const Separable *plan) noexcept nogil:
    """Bytes of a buffer of all lattices, or of their codes."""
    return plan.lattices * plan.pitch * plan.comparison.bytes + SPARE_BYTES


cdef inline Py_ssize_t row_bytes(const Separable *plan) noexcept nogil:
    """Bytes of a row of results, or of a ramp."""
    return (plan.row_windows + DECODED_TOGETHER) * <Py_ssize_t> sizeof(int64_t)


cdef inline Py_ssize_t separable_bytes(const Job *job, const Separable *plan) noexcept nogil:
    """Bytes of scratch memory for any block: two buffers, and two of codes; a row of results, and a ramp."""
    cdef Py_ssize_t bytes = (2 if job.indices.data == NULL else 4) * buffer_bytes(plan)
    bytes += 2 * row_bytes(plan)  # fault: a row without room for its results
    return bytes


cdef inline Py_ssize_t separable_blocks(const Separable *plan) noexcept nogil:
    cdef Py_ssize_t blocks = plan.batch
    cdef int i
    for i in range(AXES):
        blocks *= plan.axis[i].parts
    return blocks


cdef inline void find_block(const Job *job, const Separable *plan, Py_ssize_t number,
                            SeparableBlock *block) noexcept nogil:
    """Block number `number` of the call."""
    cdef const Axis *a
    cdef Py_ssize_t begin
    cdef int k, axis
    block.full, block.pooled, block.indices = job.full.data, job.pooled.data, job.indices.data
    block.is_padded = False
    block.length = plan.unit
    for k in range(AXES - 1, -1, -1):
        axis = plan.order[k]
        a = &plan.axis[axis]
        begin = number % a.parts * a.most   # the first window
        number //= a.parts
        block.count[axis] = min(a.pooled - begin, a.most)
        block.first[axis] = begin * a.stride - a.padding
        block.extent[axis] = extent_of(a, block.count[axis])
        block.distance[axis] = block.length
        block.length *= block.extent[axis]
        block.is_padded |= block.first[axis] < 0
        block.pooled += begin * a.pooled_bytes
        block.indices += begin * a.index_bytes
    if plan.unit > 1:  # a lattice has these channels as neighbours, not as its slowest axis
        block.distance[CHANNEL] = 1
        block.length //= plan.unit
    block.full += number * job.full.batch_bytes
    block.pooled += number * job.pooled.batch_bytes
    block.indices += number * job.indices.batch_bytes


cdef inline void pack_lattice(const Job *job, const Separable *plan, const SeparableBlock *block,
                              const Py_ssize_t *lattice, char *values) noexcept nogil:
    """Copy one lattice: number `lattice[axis]` along each axis. Positions outside the array get `outside`."""
    cdef const int *order = plan.order
    cdef int size = <int> job.item_size, axis
    cdef Py_ssize_t[AXES] count     # elements in the array
    cdef Py_ssize_t[AXES] source_bytes
    cdef Py_ssize_t position, low, i, k
    cdef const char *source = block.full
    cdef char *to = values
    cdef const Axis *a
    cdef bint is_whole = True
    cdef PackedRows rows
    for axis in range(AXES):
        a = &plan.axis[axis]
        position = block.first[axis] + lattice[axis] * a.dilation % a.lattice_step
        low = min(first_tap(position, a.lattice_step), block.extent[axis])
        count[axis] = clamp((a.full - 1 - position + a.lattice_step) // a.lattice_step, low, block.extent[axis]) - low
        is_whole &= count[axis] == block.extent[axis]
        to += low * block.distance[axis] * size
        source += (position + low * a.lattice_step) * a.full_bytes
        source_bytes[axis] = a.lattice_step * a.full_bytes
    if not is_whole:
        fill(size, values, block.length, block.outside)
    rows.unit_bytes, rows.units = source_bytes[order[3]], count[order[3]]
    rows.row_bytes, rows.rows = source_bytes[order[2]], count[order[2]]
    rows.unit, rows.has_gaps = plan.unit, not job.gapless
    for i in range(1 if plan.unit > 1 else count[order[0]]):
        for k in range(count[order[1]]):
            pack_rows(size, to + (i * block.distance[order[0]] + k * block.distance[order[1]]) * size,
                      block.distance[order[2]], source + i * source_bytes[order[0]] + k * source_bytes[order[1]], &rows)


cdef inline void pack_block(const Job *job, const Separable *plan, const SeparableBlock *block) noexcept nogil:
    """Copy all lattices of a block. Lattice (d, h, w) is number (w * H + h) * D + d where axes are in raster order, so
    that those left after reducing an axis are the first ones."""
    cdef Py_ssize_t *lattice = [0, 0, 0, 0]
    cdef Py_ssize_t layers = plan.axis[plan.raster_axes[0]].lattices, rows = plan.axis[plan.raster_axes[1]].lattices
    cdef Py_ssize_t number
    assert_in_block(block.length <= plan.pitch)
    for number in range(plan.lattices):
        lattice[plan.raster_axes[0]] = number % layers
        lattice[plan.raster_axes[1]] = number // layers % rows
        lattice[plan.raster_axes[2]] = number // layers // rows
        pack_lattice(job, plan, block, lattice, block.values + number * plan.pitch * job.item_size)


cdef inline void swap_buffers(SeparableBlock *block) noexcept nogil:
    block.values, block.other_values = block.other_values, block.values
    block.codes, block.other_codes = block.other_codes, block.codes


cdef inline void_wide widen(const uint8_t *values, Py_ssize_t count, int16_t *to) noexcept nogil:
    """Bytes become integers of 16 bits, as wide as the codes of windows of more than 256 elements."""
    cdef Py_ssize_t i
    for i in range(count):
        to[i] = values[i]


cdef inline void_wide narrow(const int16_t *values, Py_ssize_t count, uint8_t *to) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        to[i] = <uint8_t> values[i]


cdef inline bint prepare_block(const Job *job, const Separable *plan, SeparableBlock *block) noexcept nogil:
    """Make all elements of a block comparable. Returns whether there are odd ones."""
    cdef Py_ssize_t bytes = plan.pitch * plan.comparison.bytes, end = block.length * plan.comparison.bytes, lattice
    cdef bint is_odd = False
    if plan.comparison.bytes > job.item_size:
        widen(<const uint8_t *> block.values, plan.lattices * plan.pitch, <int16_t *> block.other_values)
        swap_buffers(block)
    if not plan.comparison.is_float and not plan.comparison.flip:
        return False
    for lattice in range(plan.lattices):
        # What follows in the last vector is not odd.
        memset(block.values + lattice * bytes + end, 0, -end & (VECTOR_BYTES - 1))
        is_odd |= prepare(&plan.comparison, block.values + lattice * bytes, block.length)
    return is_odd


cdef inline void combine_lattices(const Separable *plan, const SeparableBlock *block, Py_ssize_t to, const char *best,
                                  const char *code, Py_ssize_t later, Py_ssize_t shift, Py_ssize_t add,
                                  int form) noexcept nogil:
    """Combine element i of a run with element i + shift of lattice `later`, into lattice `to` of the other buffers."""
    cdef Py_ssize_t size = plan.comparison.bytes, into = to * plan.pitch * size
    cdef Py_ssize_t source = (later * plan.pitch + shift) * size
    cdef Runs runs = Runs(block.other_values + into, block.other_codes + into, best, code, block.values + source,
                          block.codes + source, add, block.length - shift)
    combine(&plan.comparison, &runs, form, block.is_careful)


cdef inline void reduce_taps(const Separable *plan, const SeparableBlock *block, int axis, Py_ssize_t to,
                             Py_ssize_t apart) noexcept nogil:
    """Reduce an axis: combine lattices `to`, `to + apart`, `to + 2 * apart` and so on into lattice `to` of the other
    buffers."""
    cdef const Axis *a = &plan.axis[axis]
    cdef Py_ssize_t at = to * plan.pitch * plan.comparison.bytes, tap
    cdef const char *best = block.values + at
    cdef const char *code = block.codes + at
    cdef int form = block.form
    for tap in range(1, a.kernel):
        combine_lattices(plan, block, to, best, code, to + tap % a.lattices * apart,
                         tap * a.dilation // a.lattice_step * block.distance[axis], tap * a.code_step, form)
        best, code = block.other_values + at, block.other_codes + at
        form = RUN_FRESH if form == RUN_FIRST else form


cdef inline void reduce_doubling(const Separable *plan, SeparableBlock *block, int axis,
                                 Py_ssize_t lattices) noexcept nogil:
    """Reduce an axis with one lattice: 1, 2, 4 and so on neighbours at a time, in all lattices of the other axes."""
    cdef const Axis *a = &plan.axis[axis]
    cdef Py_ssize_t reached = 1, shift, lattice, at
    while reached < a.kernel:
        shift = min(reached, a.kernel - reached)
        for lattice in range(lattices):
            at = lattice * plan.pitch * plan.comparison.bytes
            combine_lattices(plan, block, lattice, block.values + at, block.codes + at, lattice,
                             shift * a.dilation * block.distance[axis], shift * a.code_step, block.form)
        swap_buffers(block)
        block.form = RUN_CODES if block.form == RUN_FIRST else block.form
        reached += shift


cdef inline void reduce_block(const Job *job, const Separable *plan, SeparableBlock *block) noexcept nogil:
    """Reduce all axes of a block: the maxima are in lattice 0 of `values`."""
    cdef Py_ssize_t lattices = plan.lattices, lattice
    cdef const Axis *a
    cdef int last, axis
    block.form = RUN_FIRST if job.indices.data != NULL else RUN_VALUES
    # Windows of a single element are not combined.
    if block.form == RUN_FIRST and (block.is_careful or plan.axis[0].kernel * plan.axis[0].code_step == 1):
        memset(block.codes, 0, lattices * plan.pitch * plan.comparison.bytes)
        block.form = RUN_CODES
    for last in range(2, -1, -1):
        axis = plan.raster_axes[last]
        a = &plan.axis[axis]
        lattices //= a.lattices
        if a.kernel == 1:
            continue
        if a.lattice_step == 1:
            reduce_doubling(plan, block, axis, lattices)
            continue
        for lattice in range(lattices):
            reduce_taps(plan, block, axis, lattice, lattices)
        swap_buffers(block)
        block.form = RUN_CODES if block.form == RUN_FIRST else block.form
    if plan.comparison.flip or plan.comparison.is_float and plan.comparison.bytes == 2:
        restore(&plan.comparison, block.values, block.length)
    if plan.comparison.bytes > job.item_size:
        narrow(<const int16_t *> block.values, block.length, <uint8_t *> block.other_values)
        memcpy(block.values, block.other_values, block.length)


cdef inline void leave_padding(const Job *job, const Separable *plan, const SeparableBlock *block) noexcept nogil:
    """Windows that begin in padding and have no element but the lowest number, or NaN where these are omitted, get the
    value and the code of their first element. `skipped` taps lie before the array."""
    cdef Py_ssize_t[3] at
    cdef Py_ssize_t position, skipped, element, code
    cdef int size = <int> job.item_size, lane = plan.comparison.bytes, i
    cdef const Axis *a
    cdef const char *source
    cdef char *to
    cdef uint64_t value = 0
    for at[0] in range(block.count[0]):
        for at[1] in range(block.count[1]):
            for at[2] in range(block.count[2]):
                source = block.full + block.first[CHANNEL] * plan.axis[CHANNEL].full_bytes
                element = code = 0
                for i in range(3):
                    a = &plan.axis[i]
                    position = block.first[i] + at[i] * a.stride
                    skipped = first_tap(position, a.dilation)
                    code += skipped * a.code_step
                    element += at[i] * a.step * block.distance[i]
                    source += (position + skipped * a.dilation) * a.full_bytes
                if code == 0:
                    break  # nor do the windows behind it in this row begin in padding
                for _ in range(block.count[CHANNEL]):
                    to = block.values + element * size
                    memcpy(&value, to, size)
                    if value == block.outside:
                        memcpy(to, source, size)
                        if job.indices.data != NULL:
                            fill(lane, block.codes + element * lane, 1, <uint64_t> code)
                    element += block.distance[CHANNEL]
                    source += plan.axis[CHANNEL].full_bytes


cdef inline void write_row(const Job *job, const Separable *plan, const SeparableBlock *block, Py_ssize_t source,
                           char *pooled, char *indices, uint64_t base, char *row,
                           const int64_t *ramp) noexcept nogil:
    """Store one row of results, from element `source` of the lattice on: as many at a time as `row` has room for."""
    cdef int size = <int> job.item_size, lane = plan.comparison.bytes
    cdef const Axis *a = &plan.axis[plan.order[3]]
    cdef Py_ssize_t left = block.count[plan.order[3]], most = plan.row_windows // plan.unit, windows
    cdef Py_ssize_t step = a.step * plan.unit, index_bytes = a.index_bytes // plan.unit
    cdef const char *values
    cdef const char *codes
    while left > 0:
        windows = min(left, most)
        values, codes = block.values + source * size, block.codes + source * lane
        if a.step > 1:
            pack_row(size, row, values, step * size, windows, plan.unit)
            values = row
        scatter(size, pooled, a.pooled_bytes // plan.unit, values, windows * plan.unit)
        if job.indices.data != NULL:
            if a.step > 1:
                pack_row(lane, block.other_codes, codes, step * lane, windows, plan.unit)
                codes = block.other_codes
            decode(&plan.decoder, lane, indices if index_bytes == job.index_size else row, codes,
                   windows * plan.unit, base, ramp)
            if index_bytes != job.index_size:
                scatter(job.index_size, indices, index_bytes, row, windows * plan.unit)
        source += most * step
        pooled += most * a.pooled_bytes
        indices += most * a.index_bytes
        base += <uint64_t> (most * a.stride * a.raster)
        left -= most


cdef inline void write_rows(const Job *job, const Separable *plan, const SeparableBlock *block, int k,
                            Py_ssize_t source, char *pooled, char *indices, uint64_t base, char *row,
                            const int64_t *ramp) noexcept nogil:
    """Store the results along the axes from `order[k]` on."""
    cdef int axis = plan.order[k]
    cdef const Axis *a = &plan.axis[axis]
    cdef Py_ssize_t i
    base += <uint64_t> (block.first[axis] * a.raster)
    if k == 3:
        write_row(job, plan, block, source, pooled, indices, base, row, ramp)
        return
    for i in range(1 if k == 0 and plan.unit > 1 else block.count[axis]):
        write_rows(job, plan, block, k + 1, source + i * a.step * block.distance[axis], pooled + i * a.pooled_bytes,
                   indices + i * a.index_bytes, base + <uint64_t> (i * a.stride * a.raster), row, ramp)


cdef inline void write_block(const Job *job, const Separable *plan, const SeparableBlock *block, char *row,
                             int64_t *ramp) noexcept nogil:
    """Store the results of a block. The ramp: how far windows that are written together begin behind the first one, as
    indices."""
    cdef const Axis *a = &plan.axis[plan.order[3]]
    cdef Py_ssize_t i, k
    for i in range(plan.row_windows // plan.unit if job.indices.data != NULL else 0):
        for k in range(plan.unit):
            ramp[i * plan.unit + k] = i * a.stride * a.raster
    write_rows(job, plan, block, 0, 0, block.pooled, block.indices, 0, row, ramp)


cdef inline void separate(const Job *job, const Separable *plan, SeparableBlock *block, char *scratch) noexcept nogil:
    """Pool a block."""
    cdef Py_ssize_t bytes = buffer_bytes(plan), code_bytes = bytes if job.indices.data != NULL else 0
    cdef char *row
    block.values, block.other_values = scratch, scratch + bytes
    block.codes = block.other_values + bytes
    block.other_codes = block.codes + code_bytes
    row = block.other_codes + code_bytes
    block.outside = job.lowest
    pack_block(job, plan, block)
    block.is_careful = prepare_block(job, plan, block)
    if block.is_careful and plan.comparison.omits_nan:  # the padding would win against NaN
        block.outside = job.nan
        pack_block(job, plan, block)
        prepare_block(job, plan, block)
    reduce_block(job, plan, block)
    if block.is_padded and (job.indices.data != NULL or block.outside != job.lowest):
        leave_padding(job, plan, block)
    write_block(job, plan, block, row, <int64_t *> (row + row_bytes(plan)))
