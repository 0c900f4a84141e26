# The loops that scattering consists of: entries put where their indices say, by kind of entry and width of a place.
from libc.stdint cimport int64_t, uint64_t

from cunpool._kernels.common.caches cimport cunpool_keep, prefetch_range, PREFETCH_WINDOWS
from cunpool._kernels.common.geometry cimport element_count
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.types cimport (
    bhalf, entry, float4, float8, half, index, index4, index8, unlikely, void_inline)
from cunpool._kernels.unpooling.elements cimport add_two, place_entry
from cunpool._kernels.unpooling.indices cimport offset_of


cdef inline void_inline put(const Job *job, char *out, Py_ssize_t out_step, bint even, Py_ssize_t flat,
                            const char *values, Py_ssize_t value_step, const char *indices, Py_ssize_t index_step,
                            Py_ssize_t count, uint64_t low, uint64_t span, entry *full, index *index_type,
                            Py_ssize_t *strangers) noexcept nogil:
    """Put `count` values where their indices say, and count those that are not from `low` on for `span` cells.

    Value number i belongs to the plane that starts `i * out_step` bytes after `out`. One unsigned comparison, in 64
    bits whatever the index type, is both bounds at once.
    """
    cdef Py_ssize_t i, outside = 0
    cdef uint64_t cell
    for i in range(count):
        cell = <uint64_t> <int64_t> (<const index *> (indices + i * index_step))[0]
        if unlikely(cell - low >= span):
            outside += 1
        else:
            place_entry(<entry *> (out + i * out_step + offset_of(job, even, flat, <Py_ssize_t> cell)),
                        <const entry *> (values + i * value_step))
    strangers[0] += outside


cdef inline void_inline put_twos(const Job *job, char *out, Py_ssize_t out_step, Py_ssize_t flat, const char *values,
                                 Py_ssize_t value_step, const char *indices, Py_ssize_t index_step, Py_ssize_t count,
                                 uint64_t low, uint64_t span, entry *full, index *index_type,
                                 Py_ssize_t *strangers) noexcept nogil:
    """`put` to even planes, two at a time what is added: one comparison tells whether either sum is no number."""
    cdef uint64_t cell, next_cell
    if entry is float4 or entry is float8:
        out += <Py_ssize_t> low * flat
        while count > 1:
            cell = <uint64_t> <int64_t> (<const index *> indices)[0] - low
            next_cell = <uint64_t> <int64_t> (<const index *> (indices + index_step))[0] - low
            if unlikely(cell >= span or next_cell >= span):
                break
            add_two(<entry *> (out + <Py_ssize_t> cell * flat), <const entry *> values,
                    <entry *> (out + out_step + <Py_ssize_t> next_cell * flat), <const entry *> (values + value_step))
            out += 2 * out_step
            values += 2 * value_step
            indices += 2 * index_step
            count -= 2
        out -= <Py_ssize_t> low * flat
    put(job, out, out_step, True, flat, values, value_step, indices, index_step, count, low, span, full,
        index_type, strangers)


cdef inline void fetch_inputs(const Job *job, const char *values, Py_ssize_t values_size, const char *indices,
                              Py_ssize_t indices_size) noexcept nogil:
    """Have the processor read what will be put soon, of indices further ahead: most are longer than their values."""
    prefetch_range(values + job.prefetch_bytes, values_size)
    prefetch_range(indices + 2 * job.prefetch_bytes, indices_size)
    cunpool_keep()  # for a compiler drops functions that do nothing but fetch


cdef inline void_inline put_contiguous(const Job *job, char *out, const char *values, const char *indices,
                                       Py_ssize_t count, uint64_t low, uint64_t span, entry *full, index *index_type,
                                       Py_ssize_t *strangers) noexcept nogil:
    """`put_twos` where everything is contiguous: of large arrays some at a time, with inputs fetched ahead."""
    cdef Py_ssize_t some
    while count:
        some = min(count, <Py_ssize_t> PREFETCH_WINDOWS) if job.prefetch_bytes else count
        if job.prefetch_bytes:
            fetch_inputs(job, values, some * sizeof(entry), indices, some * sizeof(index))
        put_twos(job, out, 0, sizeof(entry), values, sizeof(entry), indices, sizeof(index), some, low, span, full,
                 index_type, strangers)
        values += some * sizeof(entry)
        indices += some * sizeof(index)
        count -= some


cdef inline void_inline put_some(const Job *job, char *out, Py_ssize_t out_step, bint even, Py_ssize_t flat,
                                 const char *values, Py_ssize_t value_step, const char *indices, Py_ssize_t index_step,
                                 Py_ssize_t count, uint64_t low, uint64_t span, uint64_t band, uint64_t band_span,
                                 entry *full, index *index_type, Py_ssize_t *strangers) noexcept nogil:
    """`put`, as far as that is from `low` on for `span` cells; counts what is not from `band` on for `band_span`."""
    cdef Py_ssize_t i, outside = 0
    cdef uint64_t cell
    for i in range(count):
        cell = <uint64_t> <int64_t> (<const index *> (indices + i * index_step))[0]
        if cell - low < span:
            place_entry(<entry *> (out + i * out_step + offset_of(job, even, flat, <Py_ssize_t> cell)),
                        <const entry *> (values + i * value_step))
        outside += cell - band >= band_span
    strangers[0] += outside


cdef inline Py_ssize_t put_row(const Job *job, char *out, const char *values, Py_ssize_t value_step,
                               const char *indices, Py_ssize_t index_step, Py_ssize_t count, Py_ssize_t low,
                               Py_ssize_t high, Py_ssize_t band, Py_ssize_t band_end, entry *full,
                               index *index_type) noexcept nogil:
    """Neighbours in a plane, as far as they belong from `low` to `high`: the loops are compiled apart for contiguous
    ones, in whole planes and else, for even planes, and for others."""
    cdef bint contiguous = (job.raster_stride_bytes == sizeof(entry) and value_step == sizeof(entry)
                            and index_step == sizeof(index))
    cdef bint all_of_them = low <= band and band_end <= high
    cdef Py_ssize_t outside = 0
    if contiguous and not all_of_them:
        put_some(job, out, 0, True, sizeof(entry), values, sizeof(entry), indices, sizeof(index), count, low,
                 high - low, band, band_end - band, full, index_type, &outside)
    elif job.raster_stride_bytes and not all_of_them:
        put_some(job, out, 0, True, job.raster_stride_bytes, values, value_step, indices, index_step, count, low,
                 high - low, band, band_end - band, full, index_type, &outside)
    elif not all_of_them:
        put_some(job, out, 0, False, 0, values, value_step, indices, index_step, count, low, high - low, band,
                 band_end - band, full, index_type, &outside)
    elif not job.raster_stride_bytes:
        put(job, out, 0, False, 0, values, value_step, indices, index_step, count, band, band_end - band, full,
            index_type, &outside)
    elif not contiguous:
        put_twos(job, out, 0, job.raster_stride_bytes, values, value_step, indices, index_step, count, band,
                 band_end - band, full, index_type, &outside)
    elif band:
        put_contiguous(job, out, values, indices, count, band, band_end - band, full, index_type, &outside)
    else:
        put_contiguous(job, out, values, indices, count, 0, band_end, full, index_type, &outside)
    return outside


cdef inline Py_ssize_t put_lanes(const Job *job, char *out, const char *values, const char *indices, Py_ssize_t count,
                                 Py_ssize_t low, Py_ssize_t high, Py_ssize_t band, Py_ssize_t band_end, entry *full,
                                 index *index_type) noexcept nogil:
    """One cell of each channel, as far as they belong from `low` to `high`: compiled apart for whole planes."""
    cdef bint all_of_them = low <= band and band_end <= high
    cdef Py_ssize_t outside = 0
    if not all_of_them:
        put_some(job, out, sizeof(entry), True, job.raster_stride_bytes, values, sizeof(entry), indices, sizeof(index),
                 count, low, high - low, band, band_end - band, full, index_type, &outside)
    elif band:
        put_twos(job, out, sizeof(entry), job.raster_stride_bytes, values, sizeof(entry), indices, sizeof(index), count,
                 band, band_end - band, full, index_type, &outside)
    else:
        put_twos(job, out, sizeof(entry), job.raster_stride_bytes, values, sizeof(entry), indices, sizeof(index), count,
                 0, band_end, full, index_type, &outside)
    return outside


cdef inline void_inline put_each_plane(const Job *job, bint ahead, Py_ssize_t plane, Py_ssize_t end, entry *full,
                                       index *index_type, Py_ssize_t *strangers) noexcept nogil:
    """`put` for contiguous planes, compiled apart for small arrays: there it takes a tenth longer to fetch nothing."""
    cdef Py_ssize_t count = element_count(job.g.pooled), size = element_count(job.g.full)
    cdef char *out = job.full.data + plane * job.full.channel_bytes
    cdef const char *values = job.pooled.data + plane * job.pooled.channel_bytes
    cdef const char *indices = job.indices.data + plane * job.indices.channel_bytes
    for _ in range(plane, end):
        if ahead:
            put_contiguous(job, out, values, indices, count, 0, size, full, index_type, strangers)
        else:
            put_twos(job, out, 0, sizeof(entry), values, sizeof(entry), indices, sizeof(index), count, 0, size, full,
                     index_type, strangers)
        out += job.full.channel_bytes
        values += job.pooled.channel_bytes
        indices += job.indices.channel_bytes


cdef inline Py_ssize_t put_planes(const Job *job, Py_ssize_t plane, Py_ssize_t end, entry *full,
                                  index *index_type) noexcept nogil:
    """`put_each_plane` for planes that have been cleared: small ones want few instructions around the loop."""
    cdef Py_ssize_t outside = 0
    if job.prefetch_bytes:
        put_each_plane(job, True, plane, end, full, index_type, &outside)
    else:
        put_each_plane(job, False, plane, end, full, index_type, &outside)
    return outside


cdef inline void put_there(entry *out, const entry *values, const index4 *places, Py_ssize_t count) noexcept nogil:
    """`put` where all places are known to lie in the plane."""
    cdef Py_ssize_t i = 0
    if entry is float4 or entry is float8:
        while i + 1 < count:
            add_two(out + places[i], values + i, out + places[i + 1], values + i + 1)
            i += 2
    while i < count:
        place_entry(out + places[i], values + i)
        i += 1


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
