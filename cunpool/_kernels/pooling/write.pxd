# Store the values of neighbouring windows, and their indices.
from cunpool._kernels.common.arrays cimport element_address
from cunpool._kernels.common.caches cimport cunpool_copy, cunpool_copy_nontemporal
from cunpool._kernels.common.geometry cimport Geometry
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.pack cimport scatter

cdef enum:
    LINE = 512              # Windows that are pooled side by side, in buffers that stay in L1. (speed)
    # Elements of the widest vector: buffers have as many to spare at one end or both. (correctness)
    VECTOR = 64
    MAX_ITEM_BYTES = 8      # of an element


cdef struct Target:
    # Addresses of the results of the first of some windows, and the bytes to the next one, and to the next row.
    char *values
    char *indices           # or NULL
    Py_ssize_t value_step, index_step, value_row, index_row


cdef inline Target target_of(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w,
                      bint along_channels) noexcept nogil:
    cdef Target target
    target.values = element_address(&job.pooled, job.channels, plane, d, h, w)
    target.value_step = job.pooled.channel_bytes if along_channels else job.pooled.axis_bytes[2]
    target.value_row = job.pooled.axis_bytes[1]
    target.indices = NULL
    target.index_step = target.index_row = 0
    if job.indices.data != NULL:
        target.indices = element_address(&job.indices, job.channels, plane, d, h, w)
        target.index_step = job.indices.channel_bytes if along_channels else job.indices.axis_bytes[2]
        target.index_row = job.indices.axis_bytes[1]
    return target


cdef inline Py_ssize_t base_of(const Job *job, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w) noexcept nogil:
    """The index in its plane where a window begins. With padding, it may lie before the plane."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t row = h * g.stride[1] - g.padding[1]
    if job.rows_per_plane:
        row %= job.rows_per_plane
    return ((d * g.stride[0] - g.padding[0]) * job.raster_steps[0] + row * job.raster_steps[1]
            + (w * g.stride[2] - g.padding[2]) * job.raster_steps[2])


cdef inline void write_values(char *to, Py_ssize_t step, bint stream, Py_ssize_t lines, const char *values,
                              Py_ssize_t size) noexcept nogil:
    """Store values of `size` bytes, `step` bytes apart."""
    if step != size:
        scatter(<int> size, to, step, values, lines)
    elif stream:
        cunpool_copy_nontemporal(to, values, lines * size)
    else:
        cunpool_copy(to, values, lines * size)
