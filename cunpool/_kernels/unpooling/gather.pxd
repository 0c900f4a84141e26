# Gather, unpooling's gradient: each pooled element is read from where its index points.
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.tasks cimport Found
from cunpool._kernels.common.types cimport index, item
from cunpool._kernels.unpooling.walk cimport move_blocks, move_rows, move_windows, Run
from cunpool._kernels.unpooling.window_codes cimport block_count


cdef inline Py_ssize_t gather_row(const Job *job, Run *run, item *full, index *index_type) noexcept nogil:
    """Read the values of a run."""
    cdef Py_ssize_t outside = 0
    move_rows(job, run, True, full, index_type, &outside)
    return outside


cdef inline Py_ssize_t gather_channels(const Job *job, Run *run, item *full, index *index_type) noexcept nogil:
    """Read one element of each interleaved channel, window by window."""
    cdef Py_ssize_t outside = 0
    move_windows(job, run[0], True, False, full, index_type, &outside)
    return outside


cdef inline void gather_task(const Job *job, Py_ssize_t task, Found *found, void *_, void *__) noexcept nogil:
    """One task: some blocks of windows."""
    cdef Py_ssize_t groups = job.batch * job.channels // job.interleaved_planes, blocks = block_count(job, groups)
    cdef Run run
    found.out_of_plane += move_blocks(job, &run, 0, groups, blocks * task // job.tasks,
                                      blocks * (task + 1) // job.tasks)
