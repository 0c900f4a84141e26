# Adaptive pooling: as many windows as the caller asks for, of unequal sizes. Window i of an axis begins at element
# floor(i * full / pooled), and ends before element ceil((i + 1) * full / pooled).
#
# Columns of the input are reduced first, many at once, to a maximum and its row. Then each window compares its columns.
# Channels that are neighbours in memory need no columns: each element of a window is compared in many channels at once.
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from cunpool._kernels.common.arrays cimport plane_address
from cunpool._kernels.common.checks cimport assert_in_block, branch_counted
from cunpool._kernels.common.geometry cimport Geometry
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.pack cimport pack_row
from cunpool._kernels.common.tasks cimport Found
from cunpool._kernels.common.types cimport float4, float8, index8 as int8, index8, void_wide
from cunpool._kernels.pooling.compare cimport whole_vectors
from cunpool._kernels.pooling.write cimport LINE, Target, target_of, VECTOR, write_each, write_values

# The front end converts other types, without loss.
ctypedef fused element:
    int8
    float4
    float8

cdef enum:
    # Neighbouring channels that are compared together. Fewer make a short loop. (speed)
    ADAPTIVE_ACROSS_MIN_CHANNELS = 8


cdef inline bint is_adaptive(const Geometry *g) noexcept nogil:
    """Whether the windows have unequal sizes: the front end passes a kernel of 0 then."""
    return g.kernel[2] == 0


cdef inline Py_ssize_t window_begin(const Geometry *g, int axis, Py_ssize_t window) noexcept nogil:
    """The first element of a window along an axis. The front end keeps the product below 2**60."""
    return window * g.full[axis] // g.pooled[axis]


cdef inline Py_ssize_t window_end(const Geometry *g, int axis, Py_ssize_t window) noexcept nogil:
    """The element behind the last one of a window along an axis."""
    return ((window + 1) * g.full[axis] + g.pooled[axis] - 1) // g.pooled[axis]


cdef inline bint beats(element x, element best) noexcept nogil:
    """Whether `x`, which is later in raster order, replaces `best`. The first maximum stays. A NaN beats all, NaN too.

    This rule is that of PyTorch's pooling kernels. Without branches, so that it vectorises.
    """
    return (x > best) | (x != x)


cdef struct Windows:
    # Some windows of a row, which see at most LINE columns together, or one wide window.
    Py_ssize_t first, count         # the number of the first one; how many
    Py_ssize_t[LINE] begin          # the first column of each
    Py_ssize_t[LINE] end            # and the column behind its last one


cdef inline void find_windows(const Geometry *g, Py_ssize_t first, Windows *windows) noexcept nogil:
    """The windows from number `first` on."""
    cdef Py_ssize_t window, end
    windows.first = first
    windows.count = 0
    for window in range(first, min(g.pooled[2], first + LINE)):
        end = window_end(g, 2, window)
        if windows.count and end - windows.begin[0] > LINE:
            break
        windows.begin[windows.count] = window_begin(g, 2, window)
        windows.end[windows.count] = end
        windows.count += 1


cdef inline void_wide compare_line(const element *elements, int32_t here, Py_ssize_t count, element *best,
                                   int32_t *codes) noexcept nogil:
    """Compare the best so far of neighbouring windows, or columns, with one more element each."""
    cdef Py_ssize_t i
    cdef bint better
    for i in range(count):
        better = beats(elements[i], best[i])
        best[i] = elements[i] if better else best[i]
        codes[i] = here if better else codes[i]


cdef inline void reduce_window(const Job *job, const char *plane, const Py_ssize_t *low, const Py_ssize_t *high,
                               Py_ssize_t step, Py_ssize_t apart, Py_ssize_t count, element *best,
                               index8 *best_index) noexcept nogil:
    """The maxima of the elements from `low` to `high`, and the same `step` bytes further, `count` times in all. Their
    indices grow by `apart` each time. The front end keeps the elements of a window below 2**31."""
    cdef element[LINE + VECTOR] line
    cdef int32_t[LINE + VECTOR] codes
    cdef index8[LINE] index_of_code    # of the first window
    cdef const char *elements
    cdef Py_ssize_t height = high[1] - low[1], width = high[2] - low[2], row, d, h, w, i
    cdef Py_ssize_t whole = whole_vectors(count, sizeof(element))  # the rest of a vector takes longer (speed)
    cdef int32_t code = 0
    assert_in_block(count <= LINE and whole <= LINE + VECTOR)
    memset(codes, 0, whole * sizeof(int32_t))
    memset(best + count, 0, (whole - count) * sizeof(element))
    memset(line + count, 0, (whole - count) * sizeof(element))
    for d in range(low[0], high[0]):
        for h in range(low[1], high[1]):
            for w in range(low[2], high[2]):
                elements = (plane + d * job.full.axis_bytes[0] + h * job.full.axis_bytes[1]
                         + w * job.full.axis_bytes[2])
                if code == 0:
                    pack_row(sizeof(element), <char *> best, elements, step, count, 1)
                elif step == sizeof(element) and count == whole:
                    compare_line(<const element *> elements, code, whole, best, codes)
                else:
                    pack_row(sizeof(element), <char *> line, elements, step, count, 1)
                    compare_line(<const element *> line, code, whole, best, codes)
                if code < LINE:
                    index_of_code[code] = (d * job.g.full[1] + h) * job.g.full[2] + w
                code += 1
    for i in range(count):
        if code <= LINE:
            best_index[i] = index_of_code[codes[i]] + i * apart
        else:  # divisions, few of them in windows as large as this
            row = codes[i] // width
            best_index[i] = (((low[0] + row // height) * job.g.full[1] + low[1] + row % height) * job.g.full[2]
                             + low[2] + codes[i] % width + i * apart)


cdef inline void compare_columns(const element *column, const index8 *given, Py_ssize_t count, element *best,
                                 index8 *best_index) noexcept nogil:
    """Compare the best so far with some columns' maxima. The first of equal ones in raster order stays, but the last of
    several NaN. An earlier column may have a later row."""
    cdef Py_ssize_t i
    cdef bint better
    for i in range(count):
        better = beats(column[i], best[0])
        if better == beats(best[0], column[i]):  # both are NaN, or they are equal
            better = (given[i] > best_index[0]) == better
        best[0] = column[i] if better else best[0]
        best_index[0] = given[i] if better else best_index[0]


cdef inline void pool_columns(const Job *job, const char *plane, Py_ssize_t *low, Py_ssize_t *high,
                              const Windows *windows, element *best, index8 *best_index) noexcept nogil:
    """Pool some windows of a row."""
    cdef element[LINE + VECTOR] column
    cdef index8[LINE + VECTOR] column_index
    cdef Py_ssize_t at = windows.begin[0], end = windows.end[windows.count - 1], count, skipped, i
    while at < end:  # once, or several times for one wide window
        count = min(end - at, <Py_ssize_t> LINE)
        low[2] = at
        high[2] = at + 1
        reduce_window(job, plane, low, high, job.full.axis_bytes[2], 1, count, column, column_index)
        for i in range(windows.count):
            skipped = max(windows.begin[i] - at, 0)
            if at == windows.begin[0]:
                best[i] = column[skipped]
                best_index[i] = column_index[skipped]
            compare_columns(column + skipped, column_index + skipped, min(windows.end[i] - at, count) - skipped,
                            best + i, best_index + i)
        at += count


cdef inline void pool_adaptive(const Job *job, Py_ssize_t task, Found *found, element *full, void *_) noexcept nogil:
    """One task: some rows of windows of a plane, or of several planes whose channels are neighbours."""
    cdef const Geometry *g = &job.g
    cdef element[LINE + VECTOR] best
    cdef index8[LINE + VECTOR] best_index
    cdef bint across = branch_counted("channels that are neighbours", job.full.channel_bytes == sizeof(element)
                                      and job.channels >= ADAPTIVE_ACROSS_MIN_CHANNELS)
    cdef Py_ssize_t planes = LINE if across else 1, parts = (job.channels + planes - 1) // planes
    cdef Py_ssize_t lines = job.batch * parts * g.pooled[0] * g.pooled[1], line, plane, part, d, h, w, count
    cdef Py_ssize_t low[3]
    cdef Py_ssize_t high[3]
    cdef const char *from_plane
    cdef Target target
    cdef Windows windows
    windows.first = -1
    for line in range(lines * task // job.tasks, lines * (task + 1) // job.tasks):
        part = line // (g.pooled[0] * g.pooled[1])
        d = line // g.pooled[1] % g.pooled[0]
        h = line % g.pooled[1]
        low[0], high[0] = window_begin(g, 0, d), window_end(g, 0, d)
        low[1], high[1] = window_begin(g, 1, h), window_end(g, 1, h)
        plane = part // parts * job.channels + part % parts * planes
        from_plane = plane_address(&job.full, job.channels, plane)
        w = 0
        while w < g.pooled[2]:
            target = target_of(job, plane, d, h, w, across)
            if across:
                low[2], high[2] = window_begin(g, 2, w), window_end(g, 2, w)
                count = min(job.channels - part % parts * planes, planes)
                reduce_window(job, from_plane, low, high, job.full.channel_bytes, 0, count, best, best_index)
                w += 1
            else:
                if windows.first != w:
                    find_windows(g, w, &windows)
                pool_columns(job, from_plane, low, high, &windows, best, best_index)
                count = windows.count
                w += count
            write_values(target.values, target.value_step, False, count, <const char *> best, sizeof(element))
            if target.index_step == sizeof(index8) == job.index_size:
                memcpy(target.indices, best_index, count * sizeof(index8))
            elif target.indices != NULL:
                write_each(job, &target, count, best_index)
