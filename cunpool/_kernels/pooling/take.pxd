# Taking: what was reached is written out, every stride-th cell of a block's run. `reach.pxd` says what for.
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from cunpool._kernels.common.caches cimport cunpool_copy
from cunpool._kernels.common.checks cimport branch_counted
from cunpool._kernels.common.copy_strided cimport copy_strided
from cunpool._kernels.common.geometry cimport Geometry
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.types cimport (
    bhalf, float4, float8, half, index, index4, index8, item1, item2, item4, item8, void_wide)
from cunpool._kernels.pooling.compare cimport int1, int2, int4, int8, number
from cunpool._kernels.pooling.pack cimport (
    AXES, CHANNEL, CHUNK, code, cunpool_narrow, Offsets, Reach, Run, TURN, whole_vectors)
from cunpool._kernels.pooling.write cimport VECTOR

cdef enum:
    UNIT = 64               # channels that are a row of their own


cdef inline number unpacked(const char *values, Py_ssize_t i, number *full) noexcept nogil:
    """Value number `i` as it was before it was packed."""
    cdef number x
    if number is half:
        x.bits = cunpool_narrow((<const item4 *> values)[i])
    elif number is bhalf:
        x.bits = <item2> ((<const item4 *> values)[i] >> 16)
    elif number is item1 or number is item2 or number is item4 or number is item8:
        x = (<const number *> values)[i] ^ <number> (<number> 1 << 8 * sizeof(number) - 1)
    else:
        x = (<const number *> values)[i]
    return x


cdef inline void_wide take_values(char *into, Py_ssize_t into_step, const char *values, Py_ssize_t stride,
                                  Py_ssize_t count, number *full) noexcept nogil:
    """Every `stride`-th value, of as many as CHUNK."""
    cdef number[CHUNK] line
    cdef Py_ssize_t i
    if into_step != sizeof(number) or stride > 2:
        for i in range(count):
            (<number *> (into + i * into_step))[0] = unpacked(values, i * stride, full)
    elif stride == 1 and (number is int1 or number is int2 or number is int4 or number is int8 or number is float4
                          or number is float8):
        memcpy(into, values, count * sizeof(number))
    else:
        if stride == 1:
            for i in range(whole_vectors(count, sizeof(number))):
                line[i] = unpacked(values, i, full)
        else:
            for i in range(whole_vectors(count, sizeof(number))):
                line[i] = unpacked(values, 2 * i, full)
        cunpool_copy(into, <const char *> line, count * sizeof(number))


cdef inline void_wide take_codes(uint32_t *line, const code *codes, Py_ssize_t stride,
                                 Py_ssize_t count) noexcept nogil:
    """Every `stride`-th code."""
    cdef Py_ssize_t i
    if stride == 1:
        for i in range(whole_vectors(count, sizeof(code))):
            line[i] = codes[i]
    elif stride == 2:
        for i in range(whole_vectors(count, sizeof(code))):
            line[i] = codes[2 * i]
    else:  # as far as it goes: beyond the last code there may be no buffer
        for i in range(count):
            line[i] = codes[i * stride]


cdef inline void_wide write_line(const Reach *reach, char *into, Py_ssize_t into_step, const uint32_t *codes,
                                 Py_ssize_t base, const index *ramp, Py_ssize_t count) noexcept nogil:
    """Indices of `count` windows: codes as they are; or places, each as much further as the `ramp` says."""
    cdef Offsets offsets = reach.offsets  # the compiler has to fear that writing results changes these
    cdef index[CHUNK] line
    cdef Py_ssize_t size = sizeof(index), i
    cdef uint32_t further
    if not reach.places:
        size = reach.index_size
        if size == 1:
            for i in range(whole_vectors(count, 1)):
                (<item1 *> line)[i] = <item1> codes[i]
        else:
            for i in range(whole_vectors(count, 2)):
                (<item2 *> line)[i] = <item2> codes[i]
    # Unsigned, because sums may wrap: behind the last window those of unset memory, and those of 32 bits before the
    # last addition.
    elif offsets.table != NULL:
        for i in range(count):
            line[i] = <index> (<uint64_t> base + <uint64_t> ramp[i] + <uint64_t> offsets.table[codes[i]])
    else:
        for i in range(whole_vectors(count, 4)):
            further = (codes[i] * offsets.cell + (codes[i] * offsets.per_row >> 16) * offsets.row
                       + (codes[i] * offsets.per_layer >> 16) * offsets.layer)
            if index is index8:
                line[i] = <index8> (<uint64_t> base + <uint64_t> ramp[i] + <uint64_t> <int64_t> <int32_t> further)
            else:
                line[i] = <index4> (<uint32_t> base + <uint32_t> ramp[i] + further)
    if into_step == size:
        cunpool_copy(into, <const char *> line, count * size)
    else:
        for i in range(count):
            memcpy(into + i * into_step, <const char *> line + i * size, size)


cdef inline void take_indices(const Reach *reach, char *into, Py_ssize_t into_step, const char *codes,
                              Py_ssize_t stride, Py_ssize_t base, const char *ramp, Py_ssize_t count) noexcept nogil:
    """The indices of every `stride`-th cell, of as many as CHUNK, the first window's begun at `base`."""
    cdef uint32_t[CHUNK] line
    if reach.code_size == 1:
        take_codes(line, <const item1 *> codes, stride, count)
    elif reach.code_size == 2:
        take_codes(line, <const item2 *> codes, stride, count)
    else:
        take_codes(line, <const item4 *> codes, stride, count)
    if reach.index_size == sizeof(index8):
        write_line(reach, into, into_step, line, base, <const index8 *> ramp, count)
    else:
        write_line(reach, into, into_step, line, base, <const index4 *> ramp, count)


cdef inline void lay_ramp(index *ramp, Py_ssize_t unit, Py_ssize_t next, Py_ssize_t count) noexcept nogil:
    """How much further than the first window's the places of these begin, each window a unit of cells."""
    cdef Py_ssize_t i, k
    for i in range(count // unit):
        for k in range(unit):
            ramp[i * unit + k] = <index> (i * next)


cdef struct Row:
    # What is the same for all rows of a block that are taken: windows along one axis, each a unit of cells.
    int along, inner        # the axis of the windows; and the channels' where these are the units, or else the same
    Py_ssize_t unit, windows
    Py_ssize_t stride       # cells of the run from one window to the next,
    Py_ssize_t next         # and of the plane
    Py_ssize_t value_step, index_step   # bytes from one result to the next
    int8 ramp[CHUNK]


cdef inline void plan_row(const Reach *reach, const Run *run, const Py_ssize_t *value_step,
                          const Py_ssize_t *index_step, const Py_ssize_t *next, bint indices, Py_ssize_t size,
                          Row *row) noexcept nogil:
    cdef int inner = reach.order[3], outer = reach.order[2]
    cdef Py_ssize_t count = run.count[inner], cells
    row.along = row.inner = inner
    row.unit = 1
    # Channels that lie next to each other, and next to those of the next window, in the results too; or else the longer
    # of the two innermost axes: three channels would make a short loop.
    if (inner == CHANNEL and branch_counted("channels too few for a row of their own", count < UNIT)
            and value_step[inner] == size and value_step[outer] == count * size
            and (not indices
                 or index_step[inner] == reach.index_size and index_step[outer] == count * reach.index_size)):
        row.along = outer
        row.unit = count
    elif count < TURN and run.count[outer] > count:
        row.along = row.inner = outer
    row.windows = run.count[row.along]
    # Of windows one by one a stride means nothing, and may be anything.
    row.stride = run.stride[row.along] * run.distance[row.along] if row.windows > 1 else row.unit
    row.next = next[row.along]
    row.value_step = value_step[row.inner]
    row.index_step = index_step[row.inner]
    if indices:
        cells = min(row.windows, CHUNK // row.unit) * row.unit
        if reach.index_size == sizeof(index8):
            lay_ramp(<index8 *> row.ramp, row.unit, row.next, cells)
        else:
            lay_ramp(<index4 *> row.ramp, row.unit, row.next, cells)


cdef inline void take_windows(const Reach *reach, const Row *row, const char *values, const char *codes,
                              char *to_values, char *to_indices, Py_ssize_t place, number *full) noexcept nogil:
    """Write the values of a row's windows, and their codes or places: units are brought together first."""
    cdef int8[CHUNK + VECTOR] value_line
    cdef item4[CHUNK + VECTOR] code_line
    cdef const char *some_values
    cdef const char *some_codes
    cdef Py_ssize_t unit = row.unit, left = row.windows, stride = row.stride if unit == 1 else 1, windows
    cdef bint apart = unit > 1 and row.stride > unit
    while left > 0:
        windows = min(left, CHUNK // unit)
        some_values = values
        some_codes = codes
        if apart:
            copy_strided(reach.item_size, <char *> value_line, values, row.stride // unit, unit, windows)
            some_values = <const char *> value_line
        take_values(to_values, row.value_step, some_values, stride, windows * unit, full)
        if to_indices != NULL:
            if apart:
                copy_strided(reach.code_size, <char *> code_line, codes, row.stride // unit, unit, windows)
                some_codes = <const char *> code_line
            take_indices(reach, to_indices, row.index_step, some_codes, stride, place, <const char *> row.ramp,
                         windows * unit)
            to_indices += windows * unit * row.index_step
            codes += windows * row.stride * reach.code_size
        to_values += windows * unit * row.value_step
        values += windows * row.stride * reach.item_size
        place += windows * row.next
        left -= windows


cdef inline void take(const Job *job, const Reach *reach, Py_ssize_t image, const Run *run,
                      number *full) noexcept nogil:
    """Write a block's values, and its codes or places."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t value_step[4]
    cdef Py_ssize_t index_step[4]
    cdef Py_ssize_t next[4]
    cdef Py_ssize_t base = 0, place, from_here, rows = 1, line, left, at
    cdef char *values = job.pooled.data + image * job.pooled.batch_bytes
    cdef char *indices = job.indices.data + image * job.indices.batch_bytes if job.indices.data != NULL else NULL
    cdef char *to_values
    cdef char *to_indices
    cdef int axis, k
    cdef Row row
    for axis in range(AXES):
        value_step[axis] = job.pooled.axis_bytes[axis] if axis < 3 else job.pooled.channel_bytes
        values += run.begin[axis] * value_step[axis]
        index_step[axis] = next[axis] = 0
        if indices != NULL:
            index_step[axis] = job.indices.axis_bytes[axis] if axis < 3 else job.indices.channel_bytes
            indices += run.begin[axis] * index_step[axis]
    if indices != NULL:
        next[2] = g.stride[2]
        next[1] = g.stride[1] * g.full[2]
        next[0] = g.stride[0] * g.full[1] * g.full[2]
        base = (run.start[0] * g.full[1] + run.start[1]) * g.full[2] + run.start[2]
    plan_row(reach, run, value_step, index_step, next, indices != NULL, sizeof(number), &row)
    for axis in range(AXES):
        if axis != row.along and axis != row.inner:
            rows *= run.count[axis]
    for line in range(rows):
        to_values = values
        to_indices = indices
        from_here = 0
        place = base
        left = line
        for k in range(AXES - 1, -1, -1):
            axis = reach.order[k]
            if axis == row.along or axis == row.inner:
                continue
            at = left % run.count[axis]
            left //= run.count[axis]
            to_values += at * value_step[axis]
            to_indices += at * index_step[axis]
            from_here += at * run.stride[axis] * run.distance[axis]
            place += at * next[axis]
        take_windows(reach, &row, run.values + from_here * reach.item_size, run.codes + from_here * reach.code_size,
                     to_values, to_indices, place, full)
