# Store the values of neighbouring windows, and their indices.
from libc.stdint cimport int32_t, uint32_t

from cunpool._kernels.common.arrays cimport element_address
from cunpool._kernels.common.caches cimport align_to_cache_line, cunpool_copy, cunpool_copy_nontemporal
from cunpool._kernels.common.checks cimport assert_in_block
from cunpool._kernels.common.geometry cimport Geometry
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.pack cimport scatter
from cunpool._kernels.common.types cimport index, index4, index8, item1, item2, void_inline, void_wide

cdef enum:
    LINE = 512              # Windows that are pooled side by side, in buffers that stay in L1. (speed)
    LONG_COPY = 256         # Copies from this many bytes on are worth a call of wider vectors. (speed)
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


cdef inline void_inline write_few(index4 *indices, uint32_t first, uint32_t stride, Py_ssize_t at, Py_ssize_t lines,
                                  const int32_t *offset) noexcept nogil:
    """`write_offsets` from window `at` on. Only the low 32 bits are stored, so that twice as many fit a vector."""
    cdef Py_ssize_t i
    for i in range(at, at + lines):
        indices[i] = <index4> (first + stride * <uint32_t> i + <uint32_t> offset[i])


cdef inline void_inline write_offsets(index *indices, Py_ssize_t base, Py_ssize_t stride, Py_ssize_t lines,
                                     const int32_t *offset) noexcept nogil:
    cdef Py_ssize_t i
    if index is index8:
        for i in range(lines):
            indices[i] = base + i * stride + offset[i]
    elif lines >= 16 or lines < 4:
        write_few(indices, <uint32_t> base, <uint32_t> stride, 0, lines, offset)
    elif lines >= 8:  # short rows in small vectors, which may overlap
        write_few(indices, <uint32_t> base, <uint32_t> stride, 0, 8, offset)
        write_few(indices, <uint32_t> base, <uint32_t> stride, lines - 8, 8, offset)
    else:
        write_few(indices, <uint32_t> base, <uint32_t> stride, 0, 4, offset)
        write_few(indices, <uint32_t> base, <uint32_t> stride, lines - 4, 4, offset)


cdef inline void_inline store_offsets(const Job *job, Py_ssize_t step, Py_ssize_t base, Py_ssize_t stride,
                                      Py_ssize_t lines, const int32_t *offset, index *indices) noexcept nogil:
    """Store the indices of `lines` neighbouring windows, `stride` elements apart, `step` bytes apart. The first window
    begins at `base`."""
    cdef Py_ssize_t i
    # Whole vectors. The last one overlaps the one before.
    cdef Py_ssize_t left = lines % 16 if lines > 16 else 0
    cdef index[LINE + VECTOR] line_room
    cdef index *line = <index *> align_to_cache_line(line_room)
    if step != sizeof(index):
        for i in range(lines):
            (<index *> (<char *> indices + i * step))[0] = <index> (base + i * stride + offset[i])
    elif job.nontemporal:
        assert_in_block(lines <= LINE)
        write_offsets(line, base, stride, lines, offset)
        cunpool_copy_nontemporal(<char *> indices, <const char *> line, lines * sizeof(index))
    else:
        write_offsets(indices, base, stride, lines - left, offset)
        if left:
            write_offsets(indices + lines - 16, base + (lines - 16) * stride, stride, 16, offset + lines - 16)


cdef inline void_wide write_indices(const Job *job, const Target *target, Py_ssize_t base, Py_ssize_t stride,
                                    Py_ssize_t lines, const int32_t *offset) noexcept nogil:
    """Store the indices of `lines` neighbouring windows, `stride` elements apart. The first one begins at `base`."""
    # Copies: the compiler cannot exclude that storing results changes `target`.
    cdef char *indices = target.indices
    cdef Py_ssize_t index_step = target.index_step, i
    if job.code_size == 1:
        if index_step == 1:
            for i in range(lines):
                (<item1 *> indices)[i] = <item1> offset[i]
        else:
            for i in range(lines):
                (<item1 *> (indices + i * index_step))[0] = <item1> offset[i]
    elif job.code_size == 2:
        for i in range(lines):
            (<item2 *> (indices + i * index_step))[0] = <item2> offset[i]
    elif job.index_size == 4:
        store_offsets(job, index_step, base, stride, lines, offset, <index4 *> indices)
    else:
        store_offsets(job, index_step, base, stride, lines, offset, <index8 *> indices)


cdef inline void write_each(const Job *job, const Target *target, Py_ssize_t base, Py_ssize_t lines,
                            const index8 *offset) noexcept nogil:
    """`write_indices`, `stride` 0, where offsets may take more than 32 bits: a rare case."""
    cdef char *to = target.indices
    cdef Py_ssize_t i
    for i in range(lines):
        if job.code_size == 1:
            (<item1 *> to)[0] = <item1> offset[i]
        elif job.code_size == 2:
            (<item2 *> to)[0] = <item2> offset[i]
        elif job.index_size == 4:
            (<index4 *> to)[0] = <index4> (base + offset[i])
        else:
            (<index8 *> to)[0] = base + offset[i]
        to += target.index_step


cdef inline void_wide copy_values(char *to, const char *values, Py_ssize_t size) noexcept nogil:
    """`cunpool_copy` in the widest vectors. (speed)"""
    cunpool_copy(to, values, size)


cdef inline void write_values(char *to, Py_ssize_t step, bint stream, Py_ssize_t lines, const char *values,
                              Py_ssize_t size) noexcept nogil:
    """Store values of `size` bytes, `step` bytes apart."""
    if step != size:
        scatter(<int> size, to, step, values, lines)
    elif stream:
        cunpool_copy_nontemporal(to, values, lines * size)
    elif lines * size >= LONG_COPY:
        copy_values(to, values, lines * size)
    else:
        cunpool_copy(to, values, lines * size)
