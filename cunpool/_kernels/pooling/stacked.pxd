# Stacked planes: planes that follow each other in memory are pooled as one tall plane.
from cunpool._kernels.common.checks cimport branch_counted
from cunpool._kernels.common.geometry cimport Geometry
from cunpool._kernels.common.job cimport are_all_contiguous, Job
from cunpool._kernels.pooling.write cimport LINE


cdef inline bint can_stack_planes(const Job *job, Py_ssize_t item_size, Py_ssize_t index_size) noexcept nogil:
    """Whether planes of windows of 2, none of which reaches over the edge, can be one: their rows follow each other."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t planes = job.batch * job.channels
    return (planes > 1 and g.full[0] == 1 and g.pooled[0] == 1 and not g.padding[1]
            and branch_counted("rows short enough to be stacked", g.pooled[2] < LINE // 4)
            and branch_counted("windows of whole planes", g.full[1] == g.pooled[1] * g.stride[1])
            and planes * g.full[1] * g.full[2] <= 0x7FFFFFFF
            and branch_counted("planes that follow each other", are_all_contiguous(job, item_size, index_size)))


cdef inline void stack_planes(Job *job, Py_ssize_t item_size, Py_ssize_t index_size) noexcept nogil:
    """Make one tall plane of all, which have to follow each other in memory."""
    cdef Py_ssize_t planes = job.batch * job.channels
    job.full.axis_bytes[1] = job.g.full[2] * item_size
    job.pooled.axis_bytes[1] = job.g.pooled[2] * item_size
    job.indices.axis_bytes[1] = job.g.pooled[2] * index_size
    job.g.full[1] *= planes
    job.g.pooled[1] *= planes
    job.batch = job.channels = 1
