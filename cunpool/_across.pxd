# Windows looked at one after the other, in as many neighbouring channels as there are; or any window, cell after cell.
from cunpool._common cimport *
from cunpool._compare cimport *
from cunpool._deal cimport *
from cunpool._pack cimport *
from cunpool._places cimport inside
from cunpool._tasks cimport *
from cunpool._write cimport *


cdef inline void pool_large(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w,
                            Py_ssize_t lines, bint along_channels, number *full) noexcept nogil:
    """Pool neighbouring windows of any size, cell after cell."""
    cdef number[LINE + VECTOR] best_room
    cdef index8[LINE + VECTOR] place_room
    cdef number *best = <number *> aligned(best_room)
    cdef index8 *place = <index8 *> aligned(place_room)
    cdef Target target = target_of(job, plane, d, h, w, along_channels)
    cdef Py_ssize_t *at = [d, h, w]
    cdef Py_ssize_t start[3]
    cdef Py_ssize_t stride = 0 if along_channels else job.g.stride[2], i
    must(lines <= LINE)
    for i in range(3):
        start[i] = at[i] * job.g.stride[i] - job.g.padding[i]
    compare_large(job, plane_of(&job.full, job.channels, plane), start, stride,
                  job.full.c if along_channels else stride * job.full.axis[2], lines, best, place)
    write(&target, base_of(job, d, h, w), stride, lines, best, place)


cdef inline void pool_across(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t count,
                             number *full) noexcept nogil:
    """Pool a row of windows in `count` neighbouring channels."""
    cdef number[CELLS + LINE + VECTOR] cells_room
    cdef number *cells = <number *> aligned(cells_room)
    cdef number[LINE + VECTOR] best_room
    cdef int32_t[LINE + VECTOR] place_room
    cdef number *best = <number *> aligned(best_room)
    cdef int32_t *place = <int32_t *> aligned(place_room)
    cdef Taps taps
    cdef Taps dealt
    cdef const Geometry *g = &job.g
    cdef Target target = target_of(job, plane, d, h, 0, True)
    cdef const char *from_plane = plane_of(&job.full, job.channels, plane)
    cdef Py_ssize_t *start = [d * g.stride[0] - g.padding[0], h * g.stride[1] - g.padding[1], -g.padding[2]]
    cdef Py_ssize_t w, i, base = base_of(job, d, h, 0), next_window = g.stride[2] * job.full.axis[2]
    # In whole vectors, but at the end of the array: what they make of the cells behind the channels is not used.
    cdef Py_ssize_t whole = whole_vectors(count, sizeof(number))
    cdef const char *limit = end_of(job, from_plane, count * sizeof(number))
    cdef bint after_inside = False, fits
    must(count <= LINE)
    for w in range(g.pooled[2]):
        if inside(start[2], g.kernel[2], g.dilation[2], g.full[2]):
            if after_inside:
                for i in range(taps.count):
                    taps.cells[i] += next_window
            else:
                find_taps(job, from_plane, start, &taps)
            after_inside = True
        else:
            find_taps(job, from_plane, start, &taps)
            after_inside = False
        if taps.count == 0:
            pool_large(job, plane, d, h, w, count, True, full)
        elif job.full.c == sizeof(number):
            fits = whole == count or ends_before(&taps, whole * sizeof(number), limit)
            compare_window(&taps, whole if fits else count, best, place)
            write(&target, base, 0, count, best, place)
        else:
            must(taps.count * count <= CELLS)
            dealt = taps
            for i in range(taps.count):
                copy_cells(<char *> (cells + i * count), taps.cells[i], job.full.c, count, sizeof(number))
                dealt.cells[i] = <const char *> (cells + i * count)
            compare_window(&dealt, whole, best, place)
            write(&target, base, 0, count, best, place)
        start[2] += g.stride[2]
        base += g.stride[2]
        target.values += job.pooled.axis[2]
        if target.indices != NULL:
            target.indices += job.indices.axis[2]


cdef inline void pool_channels(const Job *job, Py_ssize_t task, Found *found, number *full, void *_) noexcept nogil:
    """One task: some rows of windows, each in all channels: for arrays with the channels last, and for small planes."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t most = LINE if job.full.c == sizeof(number) else min(<Py_ssize_t> LINE, CELLS // cells_of(g.kernel))
    cdef bint large = (met("a window larger than the buffers, across channels", most == 0)
                       or met("a window of many cells, across channels", cells_of(g.kernel) > TAPS)
                       or met("a window of cells far apart, across channels", spans_far(job)))
    cdef Py_ssize_t rows = g.pooled[0] * g.pooled[1], parts, lines, line, row, part, count, w
    most = LINE if large else most
    parts = (job.channels + most - 1) // most
    lines = job.batch * rows * parts
    for line in range(lines * task // job.tasks, lines * (task + 1) // job.tasks):
        row = line // parts % rows
        part = line % parts
        count = min(job.channels - part * most, most)
        if large:
            for w in range(g.pooled[2]):
                pool_large(job, line // (parts * rows) * job.channels + part * most, row // g.pooled[1],
                           row % g.pooled[1], w, count, True, full)
        else:
            pool_across(job, line // (parts * rows) * job.channels + part * most, row // g.pooled[1],
                        row % g.pooled[1], count, full)
