# Element by element: any window, also one that misses the array, or that is larger than any block.
from libc.stdint cimport int32_t

from cunpool._kernels.common.arrays cimport plane_address
from cunpool._kernels.common.geometry cimport clamp, element_count, Geometry
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.pack cimport fill
from cunpool._kernels.common.tasks cimport Found
from cunpool._kernels.common.types cimport index8, void_cold
from cunpool._kernels.pooling.compare cimport beats, first_tap, flipped, number, tap_offset
from cunpool._kernels.pooling.write cimport base_of, Target, target_of, write_each


cdef inline void_cold pool_window(const Job *job, Py_ssize_t plane, const Py_ssize_t *window,
                                  number lowest) noexcept nogil:
    """Pool one window of a plane. One that misses the array gets the lowest number, or the highest for minima."""
    cdef const Geometry *g = &job.g
    cdef const char *row
    cdef Py_ssize_t start[3]
    cdef Py_ssize_t first[3]    # the first tap inside the array, and the one behind the last
    cdef Py_ssize_t last[3]
    cdef Py_ssize_t kd, kh, kw
    cdef Target target = target_of(job, plane, window[0], window[1], window[2], False)
    cdef int32_t infinity = job.infinity
    cdef number best = lowest, x
    cdef index8 offset
    cdef bint has_element = False
    cdef int axis
    for axis in range(3):
        start[axis] = window[axis] * g.stride[axis] - g.padding[axis]
        first[axis] = first_tap(start[axis], g.dilation[axis])
        last[axis] = clamp((g.full[axis] - start[axis] + g.dilation[axis] - 1) // g.dilation[axis], 0, g.kernel[axis])
    offset = tap_offset(job, first[0], first[1], first[2])
    for kd in range(first[0], last[0]):
        for kh in range(first[1], last[1]):
            row = (plane_address(&job.full, job.channels, plane)
                   + (start[0] + kd * g.dilation[0]) * job.full.axis_bytes[0]
                   + (start[1] + kh * g.dilation[1]) * job.full.axis_bytes[1])
            for kw in range(first[2], last[2]):
                x = (<const number *> (row + (start[2] + kw * g.dilation[2]) * job.full.axis_bytes[2]))[0]
                x = flipped(x, job.flip)
                if not has_element or beats(x, best, job.omits_nan, infinity):
                    best, offset, has_element = x, tap_offset(job, kd, kh, kw), True
    (<number *> target.values)[0] = flipped(best, job.flip)
    if target.indices != NULL:
        write_each(job, &target, base_of(job, window[0], window[1], window[2]), 1, &offset)


cdef inline void pool_elements(const Job *job, Py_ssize_t task, Found *found, number *_, void *__) noexcept nogil:
    """One task: some windows."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t windows = element_count(g.pooled), total = job.batch * job.channels * windows, i, at
    cdef Py_ssize_t window[3]
    cdef number lowest
    fill(sizeof(number), <char *> &lowest, 1, job.lowest)
    lowest = flipped(lowest, job.flip)
    for i in range(total * task // job.tasks, total * (task + 1) // job.tasks):
        at = i % windows
        window = [at // (g.pooled[1] * g.pooled[2]), at // g.pooled[2] % g.pooled[1], at % g.pooled[2]]
        pool_window(job, i // windows, window, lowest)
