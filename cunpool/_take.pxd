# Taking: what was reached is written out, every stride-th cell of a block's run. `_reach.pxd` says what for.
from libc.string cimport memcpy

from cunpool._common cimport *
from cunpool._compare cimport *
from cunpool._pack cimport *


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


cdef inline cloned take_values(char *into, Py_ssize_t into_step, const char *values, Py_ssize_t stride,
                               Py_ssize_t count, int packed_size, number *full) noexcept nogil:
    """Every `stride`-th value."""
    cdef number[CHUNK] line
    cdef Py_ssize_t some, i
    if into_step != sizeof(number) or stride > 2:
        for i in range(count):
            (<number *> (into + i * into_step))[0] = unpacked(values, i * stride, full)
        return
    if stride == 1 and (number is int1 or number is int2 or number is int4 or number is int8 or number is float4
                        or number is float8):
        memcpy(into, values, count * sizeof(number))
        return
    while count > 0:
        some = min(count, <Py_ssize_t> CHUNK)
        if stride == 1:
            for i in range(whole_vectors(some, sizeof(number))):
                line[i] = unpacked(values, i, full)
        else:
            for i in range(whole_vectors(some, sizeof(number))):
                line[i] = unpacked(values, 2 * i, full)
        cunpool_copy(into, <const char *> line, some * sizeof(number))
        into += some * sizeof(number)
        values += some * stride * packed_size
        count -= some


cdef inline int64_t offset_of_code(const Offsets *offsets, uint32_t at) noexcept nogil:
    """The same without a table."""
    return <int32_t> (at * offsets.cell + (at * offsets.per_row >> 16) * offsets.row
                      + (at * offsets.per_layer >> 16) * offsets.layer)


cdef inline int64_t offset_in(const Offsets *offsets, uint32_t at) noexcept nogil:
    """How far a code's cell is from its window's first, in raster order."""
    return offsets.table[at] if offsets.table != NULL else offset_of_code(offsets, at)


cdef inline inlined line_of_places(index *line, const code *codes, Py_ssize_t stride, const Offsets *offsets,
                                   Py_ssize_t base, Py_ssize_t next, Py_ssize_t count) noexcept nogil:
    """The places of every `stride`-th code, `next` further from one window to the next."""
    cdef Offsets copy = offsets[0]  # the compiler has to fear that writing results changes these
    cdef Py_ssize_t i
    if copy.table != NULL:
        for i in range(count):
            line[i] = <index> (base + i * next + copy.table[codes[i * stride]])
    else:
        for i in range(whole_vectors(count, sizeof(code))):
            line[i] = <index> (base + i * next + offset_of_code(&copy, codes[i * stride]))


cdef inline inlined line_of_codes(char *line, int size, const code *codes, Py_ssize_t stride,
                                  Py_ssize_t count) noexcept nogil:
    """Every `stride`-th code."""
    cdef Py_ssize_t i
    if size == 1:
        for i in range(count):
            (<item1 *> line)[i] = <item1> codes[i * stride]
    else:
        for i in range(count):
            (<item2 *> line)[i] = <item2> codes[i * stride]


cdef inline cloned take_codes(const Reach *reach, char *into, Py_ssize_t into_step, const code *codes,
                              Py_ssize_t stride, Py_ssize_t base, Py_ssize_t next, Py_ssize_t count) noexcept nogil:
    """Every `stride`-th code, or its place, the first window's begun at `base`."""
    cdef index8[CHUNK] line
    cdef Py_ssize_t size = reach.index_size, some, i
    while count > 0:
        some = min(count, <Py_ssize_t> CHUNK)
        if stride > 2:  # as far as it goes: beyond the last code there may be no buffer
            for i in range(some):
                if not reach.places:
                    line_of_codes(<char *> line + i * size, <int> size, codes + i * stride, 1, 1)
                elif size == sizeof(index4):
                    (<index4 *> line)[i] = <index4> (base + i * next + offset_in(&reach.offsets, codes[i * stride]))
                else:
                    line[i] = base + i * next + offset_in(&reach.offsets, codes[i * stride])
        elif not reach.places:
            if stride == 1:
                line_of_codes(<char *> line, <int> size, codes, 1, whole_vectors(some, sizeof(code)))
            else:
                line_of_codes(<char *> line, <int> size, codes, 2, whole_vectors(some, sizeof(code)))
        elif size == sizeof(index4):
            line_of_places(<index4 *> line, codes, stride, &reach.offsets, base, next, some)
        elif stride == 1:
            line_of_places(<index8 *> line, codes, 1, &reach.offsets, base, next, some)
        else:
            line_of_places(<index8 *> line, codes, 2, &reach.offsets, base, next, some)
        if into_step == size:
            cunpool_copy(into, <const char *> line, some * size)
        else:
            for i in range(some):
                memcpy(into + i * into_step, <const char *> line + i * size, size)
        into += some * into_step
        codes += some * stride
        base += some * next
        count -= some


cdef inline void take(const Job *job, const Reach *reach, Py_ssize_t image, const Run *run,
                      number *full) noexcept nogil:
    """Write a block's values, and its codes or places."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t value_step[4]
    cdef Py_ssize_t index_step[4]
    cdef Py_ssize_t next[4]
    cdef Py_ssize_t at[4]
    cdef Py_ssize_t base = 0, place, from_here, rows = 1, row, left, stride
    cdef char *values = job.pooled.data + image * job.pooled.n
    cdef char *indices = job.indices.data + image * job.indices.n if job.indices.data != NULL else NULL
    cdef char *to_values
    cdef char *to_indices
    cdef int axis, k, inner = reach.order[3]
    # The longer of the two innermost axes: three channels would make a short loop.
    if run.count[inner] < TURN and run.count[reach.order[2]] > run.count[inner]:
        inner = reach.order[2]
    for axis in range(AXES):
        value_step[axis] = job.pooled.axis[axis] if axis < 3 else job.pooled.c
        values += run.begin[axis] * value_step[axis]
        index_step[axis] = next[axis] = 0
        if axis != inner:
            rows *= run.count[axis]
        if indices != NULL:
            index_step[axis] = job.indices.axis[axis] if axis < 3 else job.indices.c
            indices += run.begin[axis] * index_step[axis]
    if indices != NULL:
        next[2] = g.stride[2]
        next[1] = g.stride[1] * g.full[2]
        next[0] = g.stride[0] * g.full[1] * g.full[2]
        base = (run.start[0] * g.full[1] + run.start[1]) * g.full[2] + run.start[2]
    for row in range(rows):
        to_values = values
        to_indices = indices
        from_here = 0
        place = base
        left = row
        for k in range(AXES - 1, -1, -1):
            axis = reach.order[k]
            if axis == inner:
                continue
            at[axis] = left % run.count[axis]
            left //= run.count[axis]
            to_values += at[axis] * value_step[axis]
            to_indices += at[axis] * index_step[axis]
            from_here += at[axis] * run.stride[axis] * run.distance[axis]
            place += at[axis] * next[axis]
        take_values(to_values, value_step[inner], run.values + from_here * reach.item_size,
                    run.stride[inner] * run.distance[inner], run.count[inner], reach.item_size, full)
        if indices == NULL:
            continue
        stride = run.stride[inner] * run.distance[inner]
        if reach.code_size == 1:
            take_codes(reach, to_indices, index_step[inner], <const item1 *> run.codes + from_here, stride, place,
                       next[inner], run.count[inner])
        elif reach.code_size == 2:
            take_codes(reach, to_indices, index_step[inner], <const item2 *> run.codes + from_here, stride, place,
                       next[inner], run.count[inner])
        else:
            take_codes(reach, to_indices, index_step[inner], <const item4 *> run.codes + from_here, stride, place,
                       next[inner], run.count[inner])
