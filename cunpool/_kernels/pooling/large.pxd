# Element by element: any window, also one that misses the array, or that is larger than any block.
from cunpool._kernels.common.arrays cimport plane_address
from cunpool._kernels.common.caches cimport align_to_cache_line
from cunpool._kernels.common.checks cimport assert_in_block, branch_counted
from cunpool._kernels.common.geometry cimport Geometry
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.tasks cimport Found
from cunpool._kernels.common.types cimport bhalf, half, index8, item2, void_cold, void_noinline
from cunpool._kernels.pooling.compare cimport (
    beats, either, first_tap, flipped, lowest, number, Order, order_of_job, tap_offset)
from cunpool._kernels.pooling.write cimport base_of, LINE, Target, target_of, VECTOR, write_each, write_values


cdef inline void_noinline compare(number *best, index8 *offset, const char *elements, Py_ssize_t step, Py_ssize_t count,
                                  index8 here, Order order) noexcept nogil:
    """Compare the best of each window so far with one more element, `here` in its window."""
    cdef Py_ssize_t i
    cdef number x
    cdef bint better
    for i in range(count):
        x = flipped((<const number *> (elements + i * step))[0], order.flip)
        better = beats(x, best[i], order)
        best[i] = either(better, x, best[i])
        offset[i] = here if better else offset[i]


cdef inline void_noinline compare_omitting(number *best, index8 *offset, bint *has_element, const char *elements,
                                           Py_ssize_t step, Py_ssize_t count, index8 here,
                                           Order order) noexcept nogil:
    """`compare` where NaN is less than every number. A window that `has_element` has been compared before."""
    cdef Py_ssize_t i
    cdef number x
    for i in range(count):
        x = flipped((<const number *> (elements + i * step))[0], order.flip)
        if not has_element[i] or beats(x, best[i], order):
            best[i] = x
            offset[i] = here
        has_element[i] = True


cdef inline number lowest_by(Order order, number *of) noexcept nogil:
    """`lowest`, of either 16-bit float."""
    cdef number x = lowest(of)
    if number is half or number is bhalf:
        x.bits = <item2> (order.infinity | 0x8000)
    return x


cdef inline void compare_large(const Job *job, const char *plane, const Py_ssize_t *start, Py_ssize_t stride,
                               Py_ssize_t step, Py_ssize_t lines, number *best, index8 *offset) noexcept nogil:
    """The maxima of windows of any size, and their offsets, element by element. Windows may reach over the edge. With
    `Job.flip` they are the maxima of the flipped numbers."""
    cdef bint[LINE] has_element
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t first[3]
    cdef Py_ssize_t tap[3]
    cdef Py_ssize_t width = g.full[2], kd, kh, kw, low, high, i
    cdef const char *elements
    cdef Order order = order_of_job(job)
    cdef number nothing = lowest_by(order, best)
    assert_in_block(lines <= LINE)
    for i in range(3):
        first[i] = first_tap(start[i], g.dilation[i])
    # A window in which nothing is above the lowest number keeps its first element.
    for i in range(lines):
        best[i] = nothing
        has_element[i] = False
        offset[i] = tap_offset(job, first[0], first[1], first_tap(start[2] + i * stride, g.dilation[2]))
    for kd in range(first[0], g.kernel[0]):
        tap[0] = start[0] + kd * g.dilation[0]
        if tap[0] >= g.full[0]:
            break
        for kh in range(first[1], g.kernel[1]):
            tap[1] = start[1] + kh * g.dilation[1]
            if tap[1] >= g.full[1]:
                break
            for kw in range(first_tap(start[2] + (lines - 1) * stride, g.dilation[2]), g.kernel[2]):
                tap[2] = start[2] + kw * g.dilation[2]
                if tap[2] >= width:
                    break
                # The windows of this line that have this element.
                low = 0
                high = lines
                if stride:
                    low = first_tap(tap[2], stride)
                    high = min(lines, (width - tap[2] + stride - 1) // stride)
                elements = (plane + tap[0] * job.full.axis_bytes[0] + tap[1] * job.full.axis_bytes[1]
                            + tap[2] * job.full.axis_bytes[2] + low * step)
                if low < high and job.omits_nan:
                    compare_omitting(best + low, offset + low, has_element + low, elements, step, high - low,
                                     tap_offset(job, kd, kh, kw), order)
                elif low < high:
                    compare(best + low, offset + low, elements, step, high - low, tap_offset(job, kd, kh, kw), order)


cdef inline void_cold pool_large(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w,
                                 Py_ssize_t lines, bint along_channels, number *full) noexcept nogil:
    """Pool neighbouring windows of any size, element by element."""
    cdef number[LINE + VECTOR] best_room
    cdef index8[LINE + VECTOR] offset_room
    cdef number *best = <number *> align_to_cache_line(best_room)
    cdef index8 *offset = <index8 *> align_to_cache_line(offset_room)
    cdef Target target = target_of(job, plane, d, h, w, along_channels)
    cdef Py_ssize_t *at = [d, h, w]
    cdef Py_ssize_t start[3]
    cdef Py_ssize_t stride = 0 if along_channels else job.g.stride[2], i
    assert_in_block(lines <= LINE)
    for i in range(3):
        start[i] = at[i] * job.g.stride[i] - job.g.padding[i]
    compare_large(job, plane_address(&job.full, job.channels, plane), start, stride,
                  job.full.channel_bytes if along_channels else stride * job.full.axis_bytes[2], lines, best, offset)
    for i in range(lines if job.flip else 0):
        best[i] = flipped(best[i], job.flip)
    write_values(target.values, target.value_step, target.stream, lines, <const char *> best, sizeof(number))
    if target.indices != NULL:
        write_each(&target, base_of(job, d, h, w), stride, lines, offset)


cdef inline void pool_elements(const Job *job, Py_ssize_t task, Found *found, number *full, void *_) noexcept nogil:
    """One task: some pooled rows of all planes."""
    cdef const Geometry *g = &job.g
    # Windows that share no element of a row are handled one by one: the elements between them belong to no window.
    cdef Py_ssize_t width = LINE if branch_counted("windows that share elements of a row",
                                                   g.stride[2] < g.full[2]) else 1
    cdef Py_ssize_t parts = (g.pooled[2] + width - 1) // width, rows = g.pooled[0] * g.pooled[1]
    cdef Py_ssize_t lines = job.batch * job.channels * rows * parts, line, row, w
    for line in range(lines * task // job.tasks, lines * (task + 1) // job.tasks):
        row = line // parts
        w = line % parts * width
        pool_large(job, row // rows, row % rows // g.pooled[1], row % g.pooled[1], w, min(g.pooled[2] - w, width),
                   False, full)


cdef inline void pool_element_channels(const Job *job, Py_ssize_t task, Found *found, number *full,
                                       void *_) noexcept nogil:
    """`pool_elements` where channels are closer in memory than columns: one window at a time, in all channels."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t rows = g.pooled[0] * g.pooled[1], parts = (job.channels + LINE - 1) // LINE
    cdef Py_ssize_t lines = job.batch * rows * parts, line, row, first, w
    for line in range(lines * task // job.tasks, lines * (task + 1) // job.tasks):
        row = line // parts % rows
        first = line % parts * LINE
        for w in range(g.pooled[2]):
            pool_large(job, line // (parts * rows) * job.channels + first, row // g.pooled[1], row % g.pooled[1], w,
                       min(job.channels - first, <Py_ssize_t> LINE), True, full)
