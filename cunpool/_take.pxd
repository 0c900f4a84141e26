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


cdef inline cloned take_codes(uint32_t *line, const code *codes, Py_ssize_t stride, Py_ssize_t count) noexcept nogil:
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


cdef inline cloned write_line(const Reach *reach, char *into, Py_ssize_t into_step, const uint32_t *codes,
                              Py_ssize_t base, Py_ssize_t next, Py_ssize_t count, index *index_type) noexcept nogil:
    """Indices of `count` windows: codes as they are; or places, `next` further from one window to the next."""
    cdef Offsets offsets = reach.offsets  # the compiler has to fear that writing results changes these
    cdef index[CHUNK] line
    cdef Py_ssize_t size = sizeof(index), i
    if not reach.places:
        size = reach.index_size
        if size == 1:
            for i in range(whole_vectors(count, 1)):
                (<item1 *> line)[i] = <item1> codes[i]
        else:
            for i in range(whole_vectors(count, 2)):
                (<item2 *> line)[i] = <item2> codes[i]
    elif offsets.table != NULL:
        for i in range(count):
            line[i] = <index> (base + i * next + offsets.table[codes[i]])
    else:
        for i in range(whole_vectors(count, 4)):
            line[i] = <index> (base + i * next + <int32_t> (
                codes[i] * offsets.cell + (codes[i] * offsets.per_row >> 16) * offsets.row
                + (codes[i] * offsets.per_layer >> 16) * offsets.layer))
    if into_step == size:
        cunpool_copy(into, <const char *> line, count * size)
    else:
        for i in range(count):
            memcpy(into + i * into_step, <const char *> line + i * size, size)


cdef inline void take_indices(const Reach *reach, char *into, Py_ssize_t into_step, const char *codes,
                              Py_ssize_t stride, Py_ssize_t base, Py_ssize_t next, Py_ssize_t count) noexcept nogil:
    """The indices of every `stride`-th cell, the first window's begun at `base`."""
    cdef uint32_t[CHUNK] line
    cdef Py_ssize_t some
    while count > 0:
        some = min(count, <Py_ssize_t> CHUNK)
        if reach.code_size == 1:
            take_codes(line, <const item1 *> codes, stride, some)
        elif reach.code_size == 2:
            take_codes(line, <const item2 *> codes, stride, some)
        else:
            take_codes(line, <const item4 *> codes, stride, some)
        if reach.index_size == sizeof(index8):
            write_line(reach, into, into_step, line, base, next, some, <index8 *> NULL)
        else:
            write_line(reach, into, into_step, line, base, next, some, <index4 *> NULL)
        into += some * into_step
        codes += some * stride * reach.code_size
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
    cdef Py_ssize_t base = 0, place, from_here, rows = 1, row, left
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
        take_indices(reach, to_indices, index_step[inner], run.codes + from_here * reach.code_size,
                     run.stride[inner] * run.distance[inner], place, next[inner], run.count[inner])
