# Scatter: store elements, or add numbers, where their indices point. One loop for each kind of element and index type:
# elements of an integer type (`item1` to `item16`) are stored, numbers (`half` to `float8`) are added.
from libc.stdint cimport int64_t, uint64_t

from cunpool._kernels.common.geometry cimport element_count
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.types cimport (
    bhalf, element, float4, float8, half, index, index4, index8, unlikely, void_inline)
from cunpool._kernels.unpooling.elements cimport store_or_add
from cunpool._kernels.unpooling.indices cimport offset_of
from cunpool._kernels.unpooling.walk cimport Loop, Loops, Run, Unchecked


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


cdef inline void_inline scatter_contiguous(const Job *job, Run run, element *full, index *index_type,
                                           Py_ssize_t *outside_count) noexcept nogil:
    """`scatter_elements` for contiguous arrays. The compiler knows all strides (speed)."""
    run.value_bytes = sizeof(element)
    run.index_bytes = sizeof(index)
    scatter_elements(job, run, False, True, sizeof(element), 0, full, index_type, outside_count)


cdef inline bint is_whole(const Run *run) noexcept nogil:
    """Whether a run stores to all elements that it expects indices of."""
    return run.low <= run.expected_begin and run.expected_end <= run.high


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
        scatter_elements(job, run[0], False, True, job.raster_stride_bytes, 0, full, index_type, &outside)
    else:
        scatter_contiguous(job, run[0], full, index_type, &outside)
    return outside


cdef inline void_inline scatter_windows(const Job *job, Run run, bint in_part, element *full, index *index_type,
                                        Py_ssize_t *outside_count) noexcept nogil:
    cdef Run window = run
    window.count = run.channels
    window.value_bytes = sizeof(element)
    window.index_bytes = sizeof(index)
    for _ in range(run.count):
        scatter_elements(job, window, in_part, True, job.raster_stride_bytes, sizeof(element), full, index_type,
                         outside_count)
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


cdef inline Py_ssize_t scatter_planes(const Job *job, const Run *planes, element *full,
                                      index *index_type) noexcept nogil:
    """`scatter_contiguous` for each of `count` zeroed planes. Small planes need few instructions around the loop."""
    cdef Py_ssize_t outside = 0
    cdef Run run = planes[0]
    run.count = element_count(job.g.pooled)
    run.expected_begin, run.expected_end = 0, element_count(job.g.full)
    for _ in range(planes.count):
        scatter_contiguous(job, run, full, index_type, &outside)
        run.full += job.full.channel_bytes
        run.values += job.pooled.channel_bytes
        run.indices += job.indices.channel_bytes
    return outside


cdef inline void scatter_unchecked(const Run *run, element *_) noexcept nogil:
    """`scatter_elements` where all indices are known to lie in the plane (speed: 1.1 times as fast)."""
    cdef element *out = <element *> run.full
    cdef const element *values = <const element *> run.values
    cdef const index4 *positions = <const index4 *> run.indices
    cdef Py_ssize_t count = run.count, i
    for i in range(count):
        store_or_add(out + positions[i], values + i)


cdef inline Loops scatter_loops_for(element *_) noexcept nogil:
    cdef Loops loops
    loops.row = [<Loop> scatter_row[element, index4], <Loop> scatter_row[element, index8]]
    loops.across = [<Loop> scatter_channels[element, index4], <Loop> scatter_channels[element, index8]]
    loops.planes = [<Loop> scatter_planes[element, index4], <Loop> scatter_planes[element, index8]]
    loops.unchecked = <Unchecked> scatter_unchecked[element]
    loops.adds = element is half or element is bhalf or element is float4 or element is float8
    return loops
