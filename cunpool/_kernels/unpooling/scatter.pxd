# Scatter: store elements, or add numbers, where their indices point. One loop for each kind of element and index type:
# elements of an integer type (`item1` to `item16`) are stored, numbers (`half` to `float8`) are added.
from libc.stdint cimport int64_t, uint64_t

from cunpool._kernels.common.caches cimport cunpool_keep, prefetch_range, PREFETCH_WINDOWS
from cunpool._kernels.common.geometry cimport element_count
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.types cimport (
    bhalf, element, float4, float8, half, index, index4, index8, unlikely, void_inline)
from cunpool._kernels.unpooling.elements cimport add_pair, store_or_add
from cunpool._kernels.unpooling.indices cimport offset_of
from cunpool._kernels.unpooling.walk cimport Loop, Loops, point_to_next, Run, Unchecked


cdef inline void_inline scatter_elements(const Job *job, Run run, bint in_part, bint is_uniform,
                                         Py_ssize_t stride_bytes, Py_ssize_t out_bytes, element *full,
                                         index *index_type, Py_ssize_t *outside_count) noexcept nogil:
    """Store values where their indices point: with `in_part` only indices from `low` to before `high` of the run.
    Indices that the run does not expect are counted.

    `out_bytes` is the distance between the planes of neighbouring values, 0 if all belong to one plane. One unsigned
    comparison, in 64 bits whatever the index type, is both bounds at once.
    """
    # Copies, because for the compiler a stored value may change the run.
    cdef char *out = run.full
    cdef const char *values = run.values
    cdef const char *indices = run.indices
    cdef Py_ssize_t value_bytes = run.value_bytes, index_bytes = run.index_bytes, count = run.count, i, outside = 0
    cdef uint64_t position, low = run.low, span = run.high - run.low, expected = run.expected_begin
    cdef uint64_t expected_span = run.expected_end - expected
    for i in range(count):
        position = <uint64_t> <int64_t> (<const index *> (indices + i * index_bytes))[0]
        if in_part:
            outside += position - expected >= expected_span
            if position - low >= span:
                continue
        elif unlikely(position - expected >= expected_span):
            outside += 1
            continue
        store_or_add(<element *> (out + i * out_bytes + offset_of(job, is_uniform, stride_bytes,
                                                                  <Py_ssize_t> position)),
                     <const element *> (values + i * value_bytes))
    outside_count[0] += outside


cdef inline void_inline scatter_pairs(const Job *job, Run run, Py_ssize_t stride_bytes, Py_ssize_t out_bytes,
                                      element *full, index *index_type, Py_ssize_t *outside_count) noexcept nogil:
    """The usual loop, for uniform planes. Floats are added two at a time, because one comparison finds whether either
    sum is NaN. `scatter_elements` takes an odd last element, all other types, and everything from a wrong index on."""
    cdef char *out = run.full + run.expected_begin * stride_bytes
    cdef const char *values = run.values
    cdef const char *indices = run.indices
    cdef Py_ssize_t value_bytes = run.value_bytes, index_bytes = run.index_bytes, left = run.count
    cdef uint64_t position, next_position, low = run.expected_begin, span = run.expected_end - run.expected_begin
    if element is float4 or element is float8:
        while left > 1:
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
            left -= 2
        run.full = out - run.expected_begin * stride_bytes
        run.values = <char *> values
        run.indices = indices
        run.count = left
    scatter_elements(job, run, False, True, stride_bytes, out_bytes, full, index_type, outside_count)


cdef inline void prefetch_inputs(const Job *job, const char *values, Py_ssize_t value_bytes, const char *indices,
                                 Py_ssize_t index_bytes) noexcept nogil:
    """Prefetch values, and indices at twice the distance, because most indices are longer than their values (speed)."""
    prefetch_range(values + job.prefetch_bytes, value_bytes)
    prefetch_range(indices + 2 * job.prefetch_bytes, index_bytes)
    cunpool_keep()  # else compilers drop a function that only prefetches


cdef inline void_inline scatter_contiguous(const Job *job, Run run, bint prefetching, element *full, index *index_type,
                                           Py_ssize_t *outside_count) noexcept nogil:
    """`scatter_pairs` for contiguous arrays. Large arrays are worked on in parts, whose inputs are prefetched."""
    cdef Py_ssize_t left = run.count
    run.value_bytes = sizeof(element)
    run.index_bytes = sizeof(index)
    if not prefetching:
        scatter_pairs(job, run, sizeof(element), 0, full, index_type, outside_count)
    while prefetching and left:
        run.count = min(left, <Py_ssize_t> PREFETCH_WINDOWS)
        prefetch_inputs(job, run.values, run.count * sizeof(element), run.indices, run.count * sizeof(index))
        scatter_pairs(job, run, sizeof(element), 0, full, index_type, outside_count)
        left -= run.count
        point_to_next(&run)


cdef inline bint is_whole(const Run *run) noexcept nogil:
    """Whether a run stores to all elements that it expects indices of."""
    return run.low <= run.expected_begin and run.expected_end <= run.high


cdef inline void_inline scatter_whole(const Job *job, Run run, bint at_begin, element *full, index *index_type,
                                     Py_ssize_t *outside_count) noexcept nogil:
    """`scatter_row` for contiguous arrays and whole runs. At the begin of a plane, a constant 0 saves the compiler a
    subtraction for each index (speed)."""
    if at_begin:
        run.expected_begin = 0
    scatter_contiguous(job, run, job.prefetch_bytes > 0, full, index_type, outside_count)


cdef inline Py_ssize_t scatter_row(const Job *job, const Run *run, element *full, index *index_type) noexcept nogil:
    """Store the values of a row.

    The loop is compiled for contiguous arrays, for uniform planes, and for all others, for whole runs and for parts.
    """
    cdef Py_ssize_t outside = 0
    if not job.raster_stride_bytes:
        scatter_elements(job, run[0], True, False, 0, 0, full, index_type, &outside)
    elif not is_whole(run):
        scatter_elements(job, run[0], True, True, job.raster_stride_bytes, 0, full, index_type, &outside)
    elif (job.raster_stride_bytes != sizeof(element) or run.value_bytes != sizeof(element)
            or run.index_bytes != sizeof(index)):
        scatter_pairs(job, run[0], job.raster_stride_bytes, 0, full, index_type, &outside)
    elif run.expected_begin:
        scatter_whole(job, run[0], False, full, index_type, &outside)
    else:
        scatter_whole(job, run[0], True, full, index_type, &outside)
    return outside


cdef inline void_inline scatter_windows(const Job *job, Run run, bint in_part, element *full, index *index_type,
                                        Py_ssize_t *outside_count) noexcept nogil:
    cdef Run window = run
    window.count = run.channels
    window.value_bytes = sizeof(element)
    window.index_bytes = sizeof(index)
    for _ in range(run.count):
        if job.prefetch_bytes:
            prefetch_inputs(job, window.values, run.channels * sizeof(element), window.indices,
                            run.channels * sizeof(index))
        if in_part:
            scatter_elements(job, window, True, True, job.raster_stride_bytes, sizeof(element), full, index_type,
                             outside_count)
        else:
            scatter_pairs(job, window, job.raster_stride_bytes, sizeof(element), full, index_type, outside_count)
        window.values += run.value_bytes
        window.indices += run.index_bytes


cdef inline Py_ssize_t scatter_channels(const Job *job, const Run *run, element *full,
                                        index *index_type) noexcept nogil:
    """Store one element of each interleaved channel, window by window. Compiled apart for whole runs."""
    cdef Py_ssize_t outside = 0
    if not is_whole(run):
        scatter_windows(job, run[0], True, full, index_type, &outside)
    else:
        scatter_windows(job, run[0], False, full, index_type, &outside)
    return outside


cdef inline void_inline scatter_each_plane(const Job *job, Run run, bint prefetching, element *full, index *index_type,
                                           Py_ssize_t *outside_count) noexcept nogil:
    """`scatter_contiguous` for each of `count` planes."""
    cdef Py_ssize_t planes = run.count
    run.full = job.full.data + run.window * job.full.channel_bytes
    run.values = job.pooled.data + run.window * job.pooled.channel_bytes
    run.indices = job.indices.data + run.window * job.indices.channel_bytes
    run.count = element_count(job.g.pooled)
    run.expected_begin, run.expected_end = 0, element_count(job.g.full)
    for _ in range(planes):
        scatter_contiguous(job, run, prefetching, full, index_type, outside_count)
        run.full += job.full.channel_bytes
        run.values += job.pooled.channel_bytes
        run.indices += job.indices.channel_bytes


cdef inline Py_ssize_t scatter_planes(const Job *job, const Run *run, element *full, index *index_type) noexcept nogil:
    """`scatter_each_plane` for zeroed planes. Small planes need few instructions around the loop. Small arrays have a
    loop of their own, because testing for prefetches takes a tenth longer (speed)."""
    cdef Py_ssize_t outside = 0
    if job.prefetch_bytes:
        scatter_each_plane(job, run[0], True, full, index_type, &outside)
    else:
        scatter_each_plane(job, run[0], False, full, index_type, &outside)
    return outside


cdef inline void scatter_unchecked(const Run *run, element *_) noexcept nogil:
    """`scatter_elements` where all indices are known to lie in the plane."""
    cdef element *out = <element *> run.full
    cdef const element *values = <const element *> run.values
    cdef const index4 *positions = <const index4 *> run.indices
    cdef Py_ssize_t count = run.count, i = 0
    if element is float4 or element is float8:
        while i + 1 < count:
            add_pair(out + positions[i], values + i, out + positions[i + 1], values + i + 1)
            i += 2
    while i < count:
        store_or_add(out + positions[i], values + i)
        i += 1


cdef inline Loops scatter_loops_for(element *_) noexcept nogil:
    cdef Loops loops
    loops.row = [<Loop> scatter_row[element, index4], <Loop> scatter_row[element, index8]]
    loops.across = [<Loop> scatter_channels[element, index4], <Loop> scatter_channels[element, index8]]
    loops.planes = [<Loop> scatter_planes[element, index4], <Loop> scatter_planes[element, index8]]
    loops.unchecked = <Unchecked> scatter_unchecked[element]
    loops.item_size = sizeof(element)
    loops.adds = element is half or element is bhalf or element is float4 or element is float8
    return loops
