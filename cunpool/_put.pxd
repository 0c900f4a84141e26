# The loops that scattering consists of: entries put where their indices say, by kind of entry and width of a place.
from cunpool._common cimport *
from cunpool._entries cimport *
from cunpool._places cimport offset_of


cdef inline inlined put(const Job *job, char *out, Py_ssize_t out_step, bint even, Py_ssize_t flat, const char *values,
                        Py_ssize_t value_step, const char *indices, Py_ssize_t index_step, Py_ssize_t count,
                        uint64_t low, uint64_t span, uint64_t band, uint64_t band_span, entry *full,
                        index *index_type, Py_ssize_t *strangers) noexcept nogil:
    """Put `count` values where their indices say, as far as that is from `low` on for `span` cells.

    Value number i belongs to the plane that starts `i * out_step` bytes after `out`. Counts the indices that are not
    from `band` on for `band_span` cells. One unsigned comparison, in 64 bits whatever the index type, is both bounds
    at once.
    """
    cdef Py_ssize_t i, at, cell_or_low, outside = 0
    cdef uint64_t cell
    cdef bint inside
    cdef entry elsewhere = zero_of(full)
    cdef entry *target
    if low <= band and band + band_span <= low + span:
        low = band
        span = band_span
    if low == band and span == band_span and all_finite(values, value_step, count, full):
        for i in range(count):
            cell = <uint64_t> <int64_t> (<const index *> (indices + i * index_step))[0]
            if unlikely(cell - low >= span):
                outside += 1
            else:
                at = <Py_ssize_t> cell * flat if even else offset_of(job, flat, <Py_ssize_t> cell)
                place_entry(True, <entry *> (out + i * out_step + at), <const entry *> (values + i * value_step))
        strangers[0] += outside
        return
    for i in range(count):
        cell = <uint64_t> <int64_t> (<const index *> (indices + i * index_step))[0]
        # Without a branch: next to where a plane is split, nobody can predict on which side an index lies.
        inside = cell - low < span
        cell_or_low = <Py_ssize_t> (cell if inside else low)
        at = cell_or_low * flat if even else offset_of(job, flat, cell_or_low)
        target = <entry *> (out + i * out_step + at)
        target = target if inside else &elsewhere
        place_entry(False, target, <const entry *> (values + i * value_step))
        outside += cell - band >= band_span
    strangers[0] += outside


cdef inline Py_ssize_t put_row(const Job *job, char *out, const char *values, Py_ssize_t value_step,
                               const char *indices, Py_ssize_t index_step, Py_ssize_t count, Py_ssize_t low,
                               Py_ssize_t high, Py_ssize_t band, Py_ssize_t band_end, entry *full,
                               index *index_type) noexcept nogil:
    """`put` for neighbours in a plane, compiled apart for contiguous ones and for whole planes of them."""
    cdef Py_ssize_t outside = 0
    if job.flat != sizeof(entry) or value_step != sizeof(entry) or index_step != sizeof(index):
        put(job, out, 0, False, job.flat, values, value_step, indices, index_step, count, low, high - low, band,
            band_end - band, full, index_type, &outside)
    elif low == 0 and band == 0 and high == band_end:
        put(job, out, 0, True, sizeof(entry), values, sizeof(entry), indices, sizeof(index), count, 0, high, 0, high,
            full, index_type, &outside)
    else:
        put(job, out, 0, True, sizeof(entry), values, sizeof(entry), indices, sizeof(index), count, low, high - low,
            band, band_end - band, full, index_type, &outside)
    return outside


cdef inline Py_ssize_t put_lanes(const Job *job, char *out, const char *values, const char *indices, Py_ssize_t count,
                                 Py_ssize_t low, Py_ssize_t high, Py_ssize_t band, Py_ssize_t band_end, entry *full,
                                 index *index_type) noexcept nogil:
    """`put` for one cell of each channel."""
    cdef Py_ssize_t outside = 0
    put(job, out, sizeof(entry), True, job.flat, values, sizeof(entry), indices, sizeof(index), count, low, high - low,
        band, band_end - band, full, index_type, &outside)
    return outside


cdef inline Py_ssize_t put_planes(const Job *job, Py_ssize_t plane, Py_ssize_t end, entry *full,
                                  index *index_type) noexcept nogil:
    """`put` for contiguous planes that have been cleared: small ones want few instructions around the loop."""
    cdef Py_ssize_t count = cells_of(job.g.pooled), size = cells_of(job.g.full), outside = 0
    cdef char *out = job.full.data + plane * job.full.c
    cdef const char *values = job.pooled.data + plane * job.pooled.c
    cdef const char *indices = job.indices.data + plane * job.indices.c
    for _ in range(plane, end):
        put(job, out, 0, True, sizeof(entry), values, sizeof(entry), indices, sizeof(index), count, 0, size, 0, size,
            full, index_type, &outside)
        out += job.full.c
        values += job.pooled.c
        indices += job.indices.c
    return outside


cdef inline void put_there(entry *out, const entry *values, const index4 *places, Py_ssize_t count) noexcept nogil:
    """`put` where all places are known to lie in the plane."""
    cdef Py_ssize_t i
    if all_finite(<const char *> values, sizeof(entry), count, out):
        for i in range(count):
            place_entry(True, out + places[i], values + i)
        return
    for i in range(count):
        place_entry(False, out + places[i], values + i)


ctypedef Py_ssize_t (*PutRow)(const Job *, char *, const char *, Py_ssize_t, const char *, Py_ssize_t, Py_ssize_t,
                              Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, void *, void *) noexcept nogil
ctypedef Py_ssize_t (*PutLanes)(const Job *, char *, const char *, const char *, Py_ssize_t, Py_ssize_t, Py_ssize_t,
                                Py_ssize_t, Py_ssize_t, void *, void *) noexcept nogil
ctypedef Py_ssize_t (*PutPlanes)(const Job *, Py_ssize_t, Py_ssize_t, void *, void *) noexcept nogil
ctypedef void (*PutThere)(char *, const char *, const index4 *, Py_ssize_t) noexcept nogil


cdef struct Put:
    # The loops for entries of one kind. The first three by whether places have 64 bits.
    PutRow row[2]
    PutLanes lanes[2]
    PutPlanes planes[2]
    PutThere there
    Py_ssize_t item_size
    bint adding


cdef inline Put putting(entry *_) noexcept nogil:
    cdef Put put
    put.row = [<PutRow> put_row[entry, index4], <PutRow> put_row[entry, index8]]
    put.lanes = [<PutLanes> put_lanes[entry, index4], <PutLanes> put_lanes[entry, index8]]
    put.planes = [<PutPlanes> put_planes[entry, index4], <PutPlanes> put_planes[entry, index8]]
    put.there = <PutThere> put_there[entry]
    put.item_size = sizeof(entry)
    put.adding = entry is half or entry is bhalf or entry is float4 or entry is float8
    return put
