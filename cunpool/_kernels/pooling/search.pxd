# Search: the indices of large windows. Filter finds the values of a block; then each is searched for in its window, row
# by row in raster order, while the block's elements are in a cache. The first element that is equal gives the index.
from libc.stdint cimport uint64_t

from cunpool._kernels.common.checks cimport branch_counted
from cunpool._kernels.common.geometry cimport element_count, Geometry, mean_overlap
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.pack cimport fill
from cunpool._kernels.common.types cimport item1, item2, item4, item8, lane, void_noinline
from cunpool._kernels.pooling.compare cimport find_inside, tap_offset
from cunpool._kernels.pooling.separable cimport AXES, CHANNEL
from cunpool._kernels.pooling.separable_block cimport SeparableBlock

cdef enum:
    SEARCH_MIN_TAPS = 160   # Elements of a window, at least. (speed: 64 x 224 x 224, 14 x 14)
    SEARCH_MIN_ROW = 8      # Elements of a window's row, at least. (speed: 1200 x 64, 80 x 2)
    SEARCH_MAX_OVERLAP = 4  # Windows that an element is in, in the mean, at most. (speed: 100,000, 20,000 / 160)


cdef inline const char *searching_why_not(const Job *job) noexcept nogil:
    """Why the indices of windows are not searched for once their values are known, or NULL."""
    cdef const Geometry *g = &job.g
    if not branch_counted("large windows, of long rows", element_count(g.kernel) >= SEARCH_MIN_TAPS
                          and g.kernel[2] >= SEARCH_MIN_ROW and g.dilation[2] == 1):
        return "indices are asked for, and a window has fewer than 160 elements, or fewer than 8 neighbours in a row"
    if not branch_counted("large windows that share few elements", mean_overlap(g) <= SEARCH_MAX_OVERLAP):
        return "indices are asked for, and an element is in more than 4 windows"
    return NULL


cdef inline void_noinline find_in_row(const lane *row, Py_ssize_t step, Py_ssize_t count, lane wanted,
                                      Py_ssize_t *position) noexcept nogil:
    """The position of the first element, of those `step` apart, that has these bits; -1 if there is none."""
    cdef lane is_found = step != 1
    cdef Py_ssize_t i
    position[0] = -1
    if step == 1:  # a vector at a time
        for i in range(count):
            is_found |= <lane> (row[i] == wanted)
    if is_found:
        for i in range(count):
            if row[i * step] == wanted:
                position[0] = i
                return


cdef inline void search_window(const Job *job, const char *plane, const Py_ssize_t *start, const char *value,
                               char *index, lane *_) noexcept nogil:
    """Store the index of the first element of the window from `start` on that is equal to its value. Bits are compared:
    filter leaves blocks with a negative zero or NaN, whose equals differ in bits, to separable."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t[3] low, high
    cdef lane wanted = (<const lane *> value)[0]
    cdef const lane *row
    cdef Py_ssize_t step = job.full.axis_bytes[2] // <Py_ssize_t> sizeof(lane), d, h, at
    cdef uint64_t base = 0
    cdef int axis
    find_inside(g, start, low, high)
    for axis in range(3):
        base += 0 if job.code_size else <uint64_t> (start[axis] * job.raster_steps[axis])
    for d in range(low[0], high[0]):
        for h in range(low[1], high[1]):
            row = <const lane *> (plane + (start[0] + d * g.dilation[0]) * job.full.axis_bytes[0]
                                  + (start[1] + h * g.dilation[1]) * job.full.axis_bytes[1])
            row += (start[2] + low[2]) * step
            find_in_row(row, step, high[2] - low[2], wanted, &at)
            if at >= 0:
                fill(job.index_size, index, 1, base + <uint64_t> tap_offset(job, d, h, low[2] + at))
                return


cdef inline void search(const Job *job, const SeparableBlock *block, lane *typed) noexcept nogil:
    """Search for the values of all windows of a block."""
    cdef Py_ssize_t at[AXES]
    cdef Py_ssize_t start[3]
    cdef Py_ssize_t value, index
    cdef int axis
    for at[CHANNEL] in range(block.count[CHANNEL]):
        for at[0] in range(block.count[0]):
            for at[1] in range(block.count[1]):
                for at[2] in range(block.count[2]):
                    value, index = at[CHANNEL] * job.pooled.channel_bytes, at[CHANNEL] * job.indices.channel_bytes
                    for axis in range(3):
                        start[axis] = block.first[axis] + at[axis] * job.g.stride[axis]
                        value += at[axis] * job.pooled.axis_bytes[axis]
                        index += at[axis] * job.indices.axis_bytes[axis]
                    search_window(job, block.full + (block.first[CHANNEL] + at[CHANNEL]) * job.full.channel_bytes,
                                  start, block.pooled + value, block.indices + index, typed)


cdef inline void search_block(const Job *job, const SeparableBlock *block) noexcept nogil:
    """`search` for elements of any size."""
    if job.item_size == 1:
        search(job, block, <item1 *> NULL)
    elif job.item_size == 2:
        search(job, block, <item2 *> NULL)
    elif job.item_size == 4:
        search(job, block, <item4 *> NULL)
    else:
        search(job, block, <item8 *> NULL)
