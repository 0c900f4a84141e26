# Scatter: store elements, or add numbers, where their indices point. One loop for each kind of element and index type.
from libc.stdint cimport int64_t, uint64_t

from cunpool._kernels.common.caches cimport cunpool_keep, prefetch_range, PREFETCH_WINDOWS
from cunpool._kernels.common.geometry cimport element_count
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.types cimport (
    bhalf, element, float4, float8, half, index, index4, index8, unlikely, void_inline)
from cunpool._kernels.unpooling.elements cimport add_pair, store_or_add
from cunpool._kernels.unpooling.indices cimport offset_of


cdef inline void_inline scatter_elements(const Job *job, char *out, Py_ssize_t out_bytes, bint is_uniform,
                                         Py_ssize_t stride_bytes, const char *values, Py_ssize_t value_bytes,
                                         const char *indices, Py_ssize_t index_bytes, Py_ssize_t count, uint64_t low,
                                         uint64_t span, element *full, index *index_type,
                                         Py_ssize_t *outside_count) noexcept nogil:
    """Store `count` values where their indices point, and count the indices not from `low` on for `span` elements.

    Value number i belongs to the plane that starts `i * out_bytes` bytes after `out`. One unsigned comparison, in 64
    bits whatever the index type, is both bounds at once.
    """
    cdef Py_ssize_t i, outside = 0
    cdef uint64_t position
    for i in range(count):
        position = <uint64_t> <int64_t> (<const index *> (indices + i * index_bytes))[0]
        if unlikely(position - low >= span):
            outside += 1
        else:
            store_or_add(<element *> (out + i * out_bytes + offset_of(job, is_uniform, stride_bytes,
                                                                      <Py_ssize_t> position)),
                         <const element *> (values + i * value_bytes))
    outside_count[0] += outside


cdef inline void_inline scatter_pairs(const Job *job, char *out, Py_ssize_t out_bytes, Py_ssize_t stride_bytes,
                                      const char *values, Py_ssize_t value_bytes, const char *indices,
                                      Py_ssize_t index_bytes, Py_ssize_t count, uint64_t low, uint64_t span,
                                      element *full, index *index_type, Py_ssize_t *outside_count) noexcept nogil:
    """`scatter_elements` to uniform planes. Numbers are added two at a time: one comparison finds whether either sum is
    NaN."""
    cdef uint64_t position, next_position
    if element is float4 or element is float8:
        out += <Py_ssize_t> low * stride_bytes
        while count > 1:
            position = <uint64_t> <int64_t> (<const index *> indices)[0] - low
            next_position = <uint64_t> <int64_t> (<const index *> (indices + index_bytes))[0] - low
            if unlikely(position >= span or next_position >= span):
                break
            add_pair(<element *> (out + <Py_ssize_t> position * stride_bytes), <const element *> values,
                     <element *> (out + out_bytes + <Py_ssize_t> next_position * stride_bytes),
                     <const element *> (values + value_bytes))
            out += 2 * out_bytes
            values += 2 * value_bytes
            indices += 2 * index_bytes
            count -= 2
        out -= <Py_ssize_t> low * stride_bytes
    scatter_elements(job, out, out_bytes, True, stride_bytes, values, value_bytes, indices, index_bytes, count, low,
                     span, full, index_type, outside_count)


cdef inline void prefetch_inputs(const Job *job, const char *values, Py_ssize_t values_size, const char *indices,
                                 Py_ssize_t indices_size) noexcept nogil:
    """Prefetch values, and indices at twice the distance, because most indices are longer than their values (speed)."""
    prefetch_range(values + job.prefetch_bytes, values_size)
    prefetch_range(indices + 2 * job.prefetch_bytes, indices_size)
    cunpool_keep()  # else compilers drop a function that only prefetches


cdef inline void_inline scatter_contiguous(const Job *job, char *out, const char *values, const char *indices,
                                           Py_ssize_t count, uint64_t low, uint64_t span, element *full,
                                           index *index_type, Py_ssize_t *outside_count) noexcept nogil:
    """`scatter_pairs` for contiguous arrays. Large arrays are worked on in parts, whose inputs are prefetched."""
    cdef Py_ssize_t some
    while count:
        some = min(count, <Py_ssize_t> PREFETCH_WINDOWS) if job.prefetch_bytes else count
        if job.prefetch_bytes:
            prefetch_inputs(job, values, some * sizeof(element), indices, some * sizeof(index))
        scatter_pairs(job, out, 0, sizeof(element), values, sizeof(element), indices, sizeof(index), some, low, span,
                      full, index_type, outside_count)
        values += some * sizeof(element)
        indices += some * sizeof(index)
        count -= some


cdef inline void_inline scatter_part_of(const Job *job, char *out, Py_ssize_t out_bytes, bint is_uniform,
                                        Py_ssize_t stride_bytes, const char *values, Py_ssize_t value_bytes,
                                        const char *indices, Py_ssize_t index_bytes, Py_ssize_t count, uint64_t low,
                                        uint64_t span, uint64_t band, uint64_t band_span, element *full,
                                        index *index_type, Py_ssize_t *outside_count) noexcept nogil:
    """`scatter_elements` for the indices from `low` on for `span` elements. Counts those not from `band` on for
    `band_span`."""
    cdef Py_ssize_t i, outside = 0
    cdef uint64_t position
    for i in range(count):
        position = <uint64_t> <int64_t> (<const index *> (indices + i * index_bytes))[0]
        if position - low < span:
            store_or_add(<element *> (out + i * out_bytes + offset_of(job, is_uniform, stride_bytes,
                                                                      <Py_ssize_t> position)),
                         <const element *> (values + i * value_bytes))
        outside += position - band >= band_span
    outside_count[0] += outside


cdef inline Py_ssize_t scatter_row(const Job *job, char *out, const char *values, Py_ssize_t value_bytes,
                                   const char *indices, Py_ssize_t index_bytes, Py_ssize_t count, Py_ssize_t low,
                                   Py_ssize_t high, Py_ssize_t band, Py_ssize_t band_end, element *full,
                                   index *index_type) noexcept nogil:
    """Store the values of a row whose indices are from `low` to `high`.

    The loop is compiled for contiguous arrays, in whole planes and in parts, for uniform planes, and for all others.
    """
    cdef bint contiguous = (job.raster_stride_bytes == sizeof(element) and value_bytes == sizeof(element)
                            and index_bytes == sizeof(index))
    cdef bint whole_band = low <= band and band_end <= high
    cdef Py_ssize_t outside = 0
    if contiguous and not whole_band:
        scatter_part_of(job, out, 0, True, sizeof(element), values, sizeof(element), indices, sizeof(index), count, low,
                        high - low, band, band_end - band, full, index_type, &outside)
    elif job.raster_stride_bytes and not whole_band:
        scatter_part_of(job, out, 0, True, job.raster_stride_bytes, values, value_bytes, indices, index_bytes, count,
                        low, high - low, band, band_end - band, full, index_type, &outside)
    elif not whole_band:
        scatter_part_of(job, out, 0, False, 0, values, value_bytes, indices, index_bytes, count, low, high - low, band,
                        band_end - band, full, index_type, &outside)
    elif not job.raster_stride_bytes:
        scatter_elements(job, out, 0, False, 0, values, value_bytes, indices, index_bytes, count, band, band_end - band,
                         full, index_type, &outside)
    elif not contiguous:
        scatter_pairs(job, out, 0, job.raster_stride_bytes, values, value_bytes, indices, index_bytes, count, band,
                      band_end - band, full, index_type, &outside)
    elif band:
        scatter_contiguous(job, out, values, indices, count, band, band_end - band, full, index_type, &outside)
    else:
        scatter_contiguous(job, out, values, indices, count, 0, band_end, full, index_type, &outside)
    return outside


cdef inline Py_ssize_t scatter_channels(const Job *job, char *out, const char *values, const char *indices,
                                        Py_ssize_t count, Py_ssize_t low, Py_ssize_t high, Py_ssize_t band,
                                        Py_ssize_t band_end, element *full, index *index_type) noexcept nogil:
    """Store one element of each channel whose index is from `low` to `high`. Compiled apart for whole planes."""
    cdef bint whole_band = low <= band and band_end <= high
    cdef Py_ssize_t outside = 0
    if not whole_band:
        scatter_part_of(job, out, sizeof(element), True, job.raster_stride_bytes, values, sizeof(element), indices,
                        sizeof(index), count, low, high - low, band, band_end - band, full, index_type, &outside)
    elif band:
        scatter_pairs(job, out, sizeof(element), job.raster_stride_bytes, values, sizeof(element), indices,
                      sizeof(index), count, band, band_end - band, full, index_type, &outside)
    else:
        scatter_pairs(job, out, sizeof(element), job.raster_stride_bytes, values, sizeof(element), indices,
                      sizeof(index), count, 0, band_end, full, index_type, &outside)
    return outside


cdef inline void_inline scatter_each_plane(const Job *job, bint prefetching, Py_ssize_t plane, Py_ssize_t end,
                                           element *full, index *index_type, Py_ssize_t *outside_count) noexcept nogil:
    """`scatter_elements` for contiguous planes. Compiled apart for small arrays, where testing for prefetches takes a
    tenth longer."""
    cdef Py_ssize_t count = element_count(job.g.pooled), size = element_count(job.g.full)
    cdef char *out = job.full.data + plane * job.full.channel_bytes
    cdef const char *values = job.pooled.data + plane * job.pooled.channel_bytes
    cdef const char *indices = job.indices.data + plane * job.indices.channel_bytes
    for _ in range(plane, end):
        if prefetching:
            scatter_contiguous(job, out, values, indices, count, 0, size, full, index_type, outside_count)
        else:
            scatter_pairs(job, out, 0, sizeof(element), values, sizeof(element), indices, sizeof(index), count, 0, size,
                          full, index_type, outside_count)
        out += job.full.channel_bytes
        values += job.pooled.channel_bytes
        indices += job.indices.channel_bytes


cdef inline Py_ssize_t scatter_planes(const Job *job, Py_ssize_t plane, Py_ssize_t end, element *full,
                                      index *index_type) noexcept nogil:
    """`scatter_each_plane` for zeroed planes. Small planes need few instructions around the loop (speed)."""
    cdef Py_ssize_t outside = 0
    if job.prefetch_bytes:
        scatter_each_plane(job, True, plane, end, full, index_type, &outside)
    else:
        scatter_each_plane(job, False, plane, end, full, index_type, &outside)
    return outside


cdef inline void scatter_unchecked(element *out, const element *values, const index4 *positions,
                                   Py_ssize_t count) noexcept nogil:
    """`scatter_elements` where all indices are known to lie in the plane."""
    cdef Py_ssize_t i = 0
    if element is float4 or element is float8:
        while i + 1 < count:
            add_pair(out + positions[i], values + i, out + positions[i + 1], values + i + 1)
            i += 2
    while i < count:
        store_or_add(out + positions[i], values + i)
        i += 1


ctypedef Py_ssize_t (*ScatterRow)(const Job *, char *, const char *, Py_ssize_t, const char *, Py_ssize_t, Py_ssize_t,
                                  Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, void *, void *) noexcept nogil
ctypedef Py_ssize_t (*ScatterChannels)(const Job *, char *, const char *, const char *, Py_ssize_t, Py_ssize_t,
                                       Py_ssize_t, Py_ssize_t, Py_ssize_t, void *, void *) noexcept nogil
ctypedef Py_ssize_t (*ScatterPlanes)(const Job *, Py_ssize_t, Py_ssize_t, void *, void *) noexcept nogil
ctypedef void (*ScatterUnchecked)(char *, const char *, const index4 *, Py_ssize_t) noexcept nogil


cdef struct ScatterOps:
    # The loops for one kind of element. The first three by whether indices have 64 bits.
    ScatterRow row[2]
    ScatterChannels across[2]
    ScatterPlanes planes[2]
    ScatterUnchecked unchecked
    Py_ssize_t item_size
    bint adds


cdef inline ScatterOps scatter_ops_for(element *_) noexcept nogil:
    cdef ScatterOps ops
    ops.row = [<ScatterRow> scatter_row[element, index4], <ScatterRow> scatter_row[element, index8]]
    ops.across = [<ScatterChannels> scatter_channels[element, index4],
                  <ScatterChannels> scatter_channels[element, index8]]
    ops.planes = [<ScatterPlanes> scatter_planes[element, index4], <ScatterPlanes> scatter_planes[element, index8]]
    ops.unchecked = <ScatterUnchecked> scatter_unchecked[element]
    ops.item_size = sizeof(element)
    ops.adds = element is half or element is bhalf or element is float4 or element is float8
    return ops
