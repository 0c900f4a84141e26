# Indices as positions in memory, planes that are split between tasks, and the pooled rows that can name a part of one.
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset
cimport numpy as cnp

from cunpool._kernels.common.arrays cimport raster_stride
from cunpool._kernels.common.checks cimport branch_counted
from cunpool._kernels.common.geometry cimport clamp, element_count, Geometry
from cunpool._kernels.common.job cimport begin_job, Job
from cunpool._kernels.common.pack cimport fill
from cunpool._kernels.common.thresholds cimport ACROSS_MIN_CHANNELS, BAND_MIN_ROWS
from cunpool._kernels.common.types cimport void_inline

cdef enum:
    EXACT_QUOTIENT_BITS = 50    # correctness: in double precision an integer of 50 bits differs from the same + 0.5


cdef inline void prepare_job(Job *job, tuple sizes, cnp.ndarray pooled, cnp.ndarray indices, cnp.ndarray full,
                             int spatial, int threads):
    """Fill the job of a call that moves elements between a pooled and a full array, by window codes of 1 or 2 bytes or
    by indices of 4 or 8."""
    begin_job(job, sizes, full, pooled, indices, spatial, cnp.PyArray_ITEMSIZE(indices) <= 2, threads)
    job.raster_stride_bytes = raster_stride(&job.full, job.g.full)
    job.inv_width = 0 if <int64_t> element_count(job.g.full) >> EXACT_QUOTIENT_BITS else 1.0 / job.g.full[2]
    job.inv_height = 1.0 / job.g.full[1]
    job.interleaved_planes = 1
    if (branch_counted("channels enough to go together", job.channels >= ACROSS_MIN_CHANNELS)
            and branch_counted("channels that are neighbours", job.raster_stride_bytes
                               and job.full.channel_bytes == job.item_size
                               and job.pooled.channel_bytes == job.item_size
                               and job.indices.channel_bytes == job.index_size)):
        job.interleaved_planes = job.channels
    job.parts_per_plane = 1


cdef inline void_inline find_offset(const Job *job, bint is_uniform, Py_ssize_t stride_bytes, Py_ssize_t position,
                                    Py_ssize_t *offset) noexcept nogil:
    """Bytes from a full plane's start to the element of index `position`.

    Loops are compiled apart for uniform planes, in which all neighbours in raster order are `stride_bytes` apart.
    """
    cdef Py_ssize_t width, height, row, layer = 0
    if is_uniform:
        offset[0] = position * stride_bytes
        return
    width = job.g.full[2]
    height = job.g.full[1]
    # Adding 0.5 keeps rounding from changing the integer part. A division takes several times as long (speed).
    if job.inv_width:
        row = <Py_ssize_t> ((position + 0.5) * job.inv_width)
        if job.g.full[0] > 1:
            layer = <Py_ssize_t> ((row + 0.5) * job.inv_height)
    else:
        row = position // width
        layer = row // height
    offset[0] = (layer * job.full.axis_bytes[0] + (row - layer * height) * job.full.axis_bytes[1]
                 + (position - row * width) * job.full.axis_bytes[2])


cdef inline bint are_elements_adjacent(const Job *job) noexcept nogil:
    """Whether the elements of a full plane, or of interleaved ones, are neighbours in raster order."""
    return job.raster_stride_bytes == job.interleaved_planes * job.item_size


cdef inline void set_background(Job *job, cnp.ndarray full, cnp.ndarray background):
    """Plan what lies under the stored elements: an array of the shape of `full`, or one element without axes.

    Tasks lay it in blocks where elements are adjacent in raster order, and an array has the strides of `full`, or one
    element has 8 bytes or less.
    """
    cdef bint is_one = cnp.PyArray_NDIM(background) == 0, is_alike = not is_one or job.item_size <= 8
    cdef const char *data = <const char *> cnp.PyArray_DATA(background)
    cdef int axis
    for axis in range(cnp.PyArray_NDIM(background)):
        is_alike &= (cnp.PyArray_DIM(full, axis) == 1
                     or cnp.PyArray_STRIDE(full, axis) == cnp.PyArray_STRIDE(background, axis))
    job.has_background = True
    job.in_place = not is_alike or data == job.full.data or not are_elements_adjacent(job)
    if is_one and not job.in_place:
        memcpy(&job.background_bits, data, job.item_size)
    elif not job.in_place:
        job.background = data


cdef inline void lay_background(const Job *job, char *out, Py_ssize_t low, Py_ssize_t high) noexcept nogil:
    """Zero the elements `low` to `high` of one full plane, or of all interleaved ones. Or give them their
    background."""
    cdef Py_ssize_t bytes = (high - low) * job.raster_stride_bytes
    cdef char *start = out + low * job.raster_stride_bytes
    if job.background != NULL:
        memcpy(start, job.background + (start - job.full.data), bytes)
    elif job.background_bits == 0:
        memset(start, 0, bytes)
    else:
        fill(<int> job.item_size, start, bytes // job.item_size, job.background_bits)


cdef inline void expected_range(const Geometry *g, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w, Py_ssize_t w_end,
                                Py_ssize_t *expected) noexcept nogil:
    """The range of indices in which the windows of a pooled row lie, or in 1d the windows of a part of the row."""
    cdef Py_ssize_t first[3]
    cdef Py_ssize_t last[3]
    cdef Py_ssize_t *low = [d, h, w]
    cdef Py_ssize_t *high = [d, h, w_end - 1]
    cdef int axis
    for axis in range(3):
        first[axis] = clamp(low[axis] * g.stride[axis] - g.padding[axis], 0, g.full[axis])
        last[axis] = clamp(high[axis] * g.stride[axis] - g.padding[axis] + (g.kernel[axis] - 1) * g.dilation[axis] + 1,
                           first[axis], g.full[axis])
    if g.full[0] * g.full[1] == 1 and g.pooled[0] * g.pooled[1] == 1:
        expected[0] = first[2]
        expected[1] = last[2]
    else:
        expected[0] = min((first[0] * g.full[1] + first[1]) * g.full[2], element_count(g.full))
        expected[1] = max(((last[0] - 1) * g.full[1] + last[1]) * g.full[2], expected[0])


cdef inline Py_ssize_t part_start(const Job *job, Py_ssize_t part) noexcept nogil:
    """The first index of part number `part` of a split plane: the begin of a pooled row's windows, if rows suffice."""
    cdef Py_ssize_t rows = job.g.pooled[0] * job.g.pooled[1], size = element_count(job.g.full), row
    cdef Py_ssize_t expected[2]
    # Layers of windows that lie in the padding in front begin at the same index, and their rows are in no order.
    if (part == 0 or part == job.parts_per_plane
            or branch_counted("fewer rows than parts of a plane", rows < job.parts_per_plane)
            or branch_counted("layers that begin together",
                              job.g.pooled[0] > 1 and job.g.padding[0] >= job.g.stride[0])):
        return size * part // job.parts_per_plane
    row = rows * part // job.parts_per_plane
    expected_range(&job.g, row // job.g.pooled[1], row % job.g.pooled[1], 0, 1, expected)
    return expected[0]


cdef inline void split_planes(Job *job, Py_ssize_t most) noexcept nogil:
    """Divide the job into several tasks for each thread, so that a delayed thread does not delay the others (speed).
    Planes are split into `most` parts at most."""
    cdef Py_ssize_t groups = job.batch * job.channels // job.interleaved_planes
    cdef Py_ssize_t threads = job.threads, wanted = 1 if threads == 1 else 4 * threads
    cdef Py_ssize_t rows = job.g.pooled[0] * job.g.pooled[1]
    # Two tasks read the pooled rows between their bands.
    if rows >= threads and job.g.kernel[1] > job.g.stride[1]:
        wanted = min(wanted, max(groups * rows // BAND_MIN_ROWS, threads))
    job.parts_per_plane = clamp((wanted + groups - 1) // groups, 1, most)
    job.tasks = groups * job.parts_per_plane if job.parts_per_plane > 1 else min(groups, wanted)
