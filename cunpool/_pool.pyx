# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Pooling's loops: the maximum of each window and its place. Valid input is assumed."""
cimport numpy as cnp
from libc.stdint cimport INT8_MIN, INT16_MIN, INT32_MIN, INT64_MIN, int8_t, int16_t
from libc.math cimport INFINITY

from cunpool._common cimport *

cnp.import_array()

cdef extern from *:
    """
    typedef int16_t int2 CUNPOOL_ANY;
    typedef int32_t int4 CUNPOOL_ANY;
    typedef int64_t int8 CUNPOOL_ANY;
    typedef float float4 CUNPOOL_ANY;
    typedef double float8 CUNPOOL_ANY;
    /* float16 and bfloat16 are compared as integers: no C type is theirs everywhere. */
    typedef struct { item2 bits; } half;
    typedef struct { item2 bits; } bhalf;
    """
    ctypedef int8_t int1 "int8_t"
    ctypedef int16_t int2
    ctypedef int32_t int4
    ctypedef int64_t int8
    ctypedef float float4
    ctypedef double float8
    ctypedef struct half:
        item2 bits
    ctypedef struct bhalf:
        item2 bits

ctypedef fused number:
    int1
    int2
    int4
    int8
    item1
    item2
    item4
    item8
    half
    bhalf
    float4
    float8

cdef enum:
    LINE = 256              # windows that are pooled side by side, in buffers that stay in the first cache
    GIL_BYTES = 1 << 14     # releasing the GIL costs more than reading this


cdef inline number lowest(number *_) noexcept nogil:
    cdef number x
    if number is half:
        x.bits = 0xFC00
    elif number is bhalf:
        x.bits = 0xFF80
    elif number is float4 or number is float8:
        x = -INFINITY
    elif number is int1:
        x = INT8_MIN
    elif number is int2:
        x = INT16_MIN
    elif number is int4:
        x = INT32_MIN
    elif number is int8:
        x = INT64_MIN
    else:
        x = 0
    return x


cdef inline int16_t order_of(item2 bits, int infinity) noexcept nogil:
    """A half-precision number as an integer of the same order: both zeros are 0, every NaN is above infinity."""
    cdef int size = bits & 0x7FFF
    return <int16_t> (0x7FFF if size > infinity else -size if bits & 0x8000 else size)


cdef inline bint beats(number x, number best) noexcept nogil:
    """Whether `x`, coming later, takes the place of `best`. The first maximum stays; a NaN beats all, NaN included.

    That is how PyTorch's pooling kernels compare. Without branches, so that it vectorises.
    """
    cdef int16_t order
    if number is half:
        order = order_of(x.bits, 0x7C00)
        return (order > order_of(best.bits, 0x7C00)) | (order == 0x7FFF)
    elif number is bhalf:
        order = order_of(x.bits, 0x7F80)
        return (order > order_of(best.bits, 0x7F80)) | (order == 0x7FFF)
    elif number is float4 or number is float8:
        return (x > best) | (x != x)
    else:
        return x > best


cdef inline void compare(number *best, int32_t *place, const char *cells, Py_ssize_t step, Py_ssize_t count,
                         int32_t here) noexcept nogil:
    """Hold the windows' best so far against one more cell each: the one at `here` in its window."""
    cdef Py_ssize_t i
    cdef number x
    cdef bint better
    for i in range(count):
        x = (<const number *> (cells + i * step))[0]
        better = beats(x, best[i])
        best[i] = x if better else best[i]
        place[i] = here if better else place[i]


cdef inline Py_ssize_t first_tap(Py_ssize_t start, Py_ssize_t dilation) noexcept nogil:
    """The first position of a window, begun at `start`, that is not in the padding before the array."""
    return 0 if start >= 0 else (-start + dilation - 1) // dilation


cdef inline void pool_line(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w,
                           Py_ssize_t count, bint along_channels, number *full) noexcept nogil:
    """Pool `count` windows: neighbours along the width, or the same window in neighbouring channels."""
    cdef number[LINE] best
    cdef int32_t[LINE] place
    cdef const Geometry *g = &job.g
    cdef const char *cells = plane_of(&job.full, job.channels, plane)
    cdef char *values = plane_of(&job.pooled, job.channels, plane)
    cdef char *indices
    cdef Py_ssize_t start[3]
    cdef Py_ssize_t tap[3]
    cdef Py_ssize_t *at = [d, h, w]
    cdef Py_ssize_t first[3]
    cdef Py_ssize_t area = g.full[1] * g.full[2], width = g.full[2]
    cdef Py_ssize_t kd, kh, kw, low, high, i, base, step, stride
    cdef number nothing = lowest(full)
    cdef int axis
    for axis in range(3):
        start[axis] = at[axis] * g.stride[axis] - g.padding[axis]
        first[axis] = first_tap(start[axis], g.dilation[axis])
        values += at[axis] * job.pooled.axis[axis]
    stride = 0 if along_channels else g.stride[2]
    # A window without any number above the lowest keeps its first cell.
    for i in range(count):
        best[i] = nothing
        place[i] = <int32_t> (first[0] * g.dilation[0] * area + first[1] * g.dilation[1] * width
                              + first_tap(start[2] + i * stride, g.dilation[2]) * g.dilation[2])
    step = job.full.c if along_channels else g.stride[2] * job.full.axis[2]
    for kd in range(first[0], g.kernel[0]):
        tap[0] = start[0] + kd * g.dilation[0]
        if tap[0] >= g.full[0]:
            break
        for kh in range(first[1], g.kernel[1]):
            tap[1] = start[1] + kh * g.dilation[1]
            if tap[1] >= g.full[1]:
                break
            for kw in range(g.kernel[2]):
                tap[2] = start[2] + kw * g.dilation[2]
                # The windows of this line that have this cell inside the array.
                if along_channels:
                    low = 0
                    high = count if 0 <= tap[2] < width else 0
                else:
                    low = first_tap(tap[2], stride)
                    high = min(count, (width - tap[2] + stride - 1) // stride) if tap[2] < width else 0
                if low < high:
                    compare(best + low, place + low, cells + tap[0] * job.full.axis[0] + tap[1] * job.full.axis[1]
                            + tap[2] * job.full.axis[2] + low * step, step, high - low,
                            <int32_t> ((kd * g.dilation[0] * g.full[1] + kh * g.dilation[1]) * width
                                       + kw * g.dilation[2]))
    step = job.pooled.c if along_channels else job.pooled.axis[2]
    for i in range(count):
        (<number *> (values + i * step))[0] = best[i]
    if job.indices.data != NULL:
        indices = plane_of(&job.indices, job.channels, plane)
        for axis in range(3):
            indices += at[axis] * job.indices.axis[axis]
        base = (start[0] * g.full[1] + start[1]) * width + start[2]
        step = job.indices.c if along_channels else job.indices.axis[2]
        for i in range(count):
            (<index8 *> (indices + i * step))[0] = base + i * stride + place[i]


cdef cloned pool_rows(const Job *job, Py_ssize_t task, Found *found, number *full, void *_) noexcept nogil:
    """One task: some of the lines along the width, of all planes."""
    cdef Py_ssize_t height = job.g.pooled[1], width = job.g.pooled[2], rows = job.g.pooled[0] * height
    cdef Py_ssize_t parts = (width + LINE - 1) // LINE, lines = job.batch * job.channels * rows * parts
    cdef Py_ssize_t line, row, w
    for line in range(lines * task // job.tasks, lines * (task + 1) // job.tasks):
        row = line // parts
        w = line % parts * LINE
        pool_line(job, row // rows, row % rows // height, row % height, w, min(width - w, <Py_ssize_t> LINE), False,
                  full)


cdef cloned pool_channels(const Job *job, Py_ssize_t task, Found *found, number *full, void *_) noexcept nogil:
    """One task: some of the lines along the channels, of all windows: for arrays with the channels last."""
    cdef Py_ssize_t depth = job.g.pooled[0], height = job.g.pooled[1], width = job.g.pooled[2]
    cdef Py_ssize_t parts = (job.channels + LINE - 1) // LINE, lines = job.batch * depth * height * width * parts
    cdef Py_ssize_t line, window, c
    for line in range(lines * task // job.tasks, lines * (task + 1) // job.tasks):
        window = line // parts
        c = line % parts * LINE
        pool_line(job, window // (depth * height * width) * job.channels + c, window // (height * width) % depth,
                  window // width % height, window % width, min(job.channels - c, <Py_ssize_t> LINE), True, full)


# The kinds of numbers in the order of the fused type above: their names are what `pool` takes.
KINDS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "bf2", "f4", "f8")
cdef Kernel[12] ROWS = [
    <Kernel> pool_rows[int1], <Kernel> pool_rows[int2], <Kernel> pool_rows[int4], <Kernel> pool_rows[int8],
    <Kernel> pool_rows[item1], <Kernel> pool_rows[item2], <Kernel> pool_rows[item4], <Kernel> pool_rows[item8],
    <Kernel> pool_rows[half], <Kernel> pool_rows[bhalf], <Kernel> pool_rows[float4], <Kernel> pool_rows[float8]]
cdef Kernel[12] CHANNELS = [
    <Kernel> pool_channels[int1], <Kernel> pool_channels[int2], <Kernel> pool_channels[int4],
    <Kernel> pool_channels[int8], <Kernel> pool_channels[item1], <Kernel> pool_channels[item2],
    <Kernel> pool_channels[item4], <Kernel> pool_channels[item8], <Kernel> pool_channels[half],
    <Kernel> pool_channels[bhalf], <Kernel> pool_channels[float4], <Kernel> pool_channels[float8]]


def pool(cnp.ndarray full not None, cnp.ndarray pooled not None, cnp.ndarray indices, tuple sizes, int spatial,
         int kind, int threads):
    """Fill `pooled` and, unless it is None, `indices` (int64)."""
    cdef Job job
    cdef Kernel kernel
    cdef bint channels_last
    job.g = geometry_of(sizes)
    job.full = view_of(full, spatial)
    job.pooled = view_of(pooled, spatial)
    if indices is None:
        job.indices.data = NULL
    else:
        job.indices = view_of(indices, spatial)
    job.batch = cnp.PyArray_DIM(full, 0) if cnp.PyArray_NDIM(full) == spatial + 2 else 1
    job.channels = cnp.PyArray_DIM(full, cnp.PyArray_NDIM(full) - spatial - 1)
    job.tasks = 1 if threads == 1 else min(8 * threads, cnp.PyArray_SIZE(pooled))
    channels_last = job.channels > 1 and abs(job.full.c) < abs(job.full.axis[2])
    kernel = CHANNELS[kind] if channels_last else ROWS[kind]
    if cnp.PyArray_SIZE(full) * cnp.PyArray_ITEMSIZE(full) <= GIL_BYTES:
        run(kernel, &job, threads)
    else:
        with nogil:
            run(kernel, &job, threads)
