# Planes turned to C order: some planes at a time are copied to scratch memory, scattered or gathered there, and copied
# back.
from libc.stdint cimport uintptr_t

from cunpool._kernels.common.arrays cimport plane_address, View
from cunpool._kernels.common.caches cimport CACHE_LINE
from cunpool._kernels.common.checks cimport branch_counted
from cunpool._kernels.common.copy_axes cimport copy_planes_of
from cunpool._kernels.common.geometry cimport absolute, element_count
from cunpool._kernels.common.job cimport are_planes_uniform, Job
from cunpool._kernels.common.tasks cimport Found, Kernel, planes_of_lot, shares_of
from cunpool._kernels.common.thresholds cimport TURNED_LOT_BYTES, TURNED_MAX_BYTES, TURNED_MAX_TAPS
from cunpool._kernels.memory cimport next_part, PART_ALIGNMENT, part_bytes, take_scratch

cdef struct Turned:
    Job inner               # the call in C order, in scratch memory
    Py_ssize_t channels     # planes at equal distances in each array: all planes, or one batch's
    Py_ssize_t planes       # planes of a lot, which are turned together
    Py_ssize_t lots         # lots of these `channels`


cdef inline void make_contiguous(View *view, const Py_ssize_t *shape, Py_ssize_t size) noexcept nogil:
    """Give a view the strides of planes in C order."""
    view.axis_bytes = [shape[1] * shape[2] * size, shape[2] * size, size]
    view.channel_bytes = view.batch_bytes = shape[0] * shape[1] * shape[2] * size
    view.uniform_planes = True


cdef inline Py_ssize_t full_bytes(const Turned *turned) noexcept nogil:
    return turned.planes * turned.inner.full.channel_bytes


cdef inline Py_ssize_t values_bytes(const Turned *turned) noexcept nogil:
    return turned.planes * turned.inner.pooled.channel_bytes


cdef inline Py_ssize_t indices_bytes(const Turned *turned) noexcept nogil:
    return turned.planes * turned.inner.indices.channel_bytes


cdef inline bint plan_turned(const Job *job, Turned *turned) noexcept nogil:
    """Whether planes are turned, and how."""
    cdef Py_ssize_t size = element_count(job.g.full), windows = element_count(job.g.pooled), plane_bytes
    cdef Py_ssize_t together = CACHE_LINE // job.item_size
    cdef Job *inner = &turned.inner
    if not (branch_counted("planes in another order", windows > 0 and not job.raster_stride_bytes)
            and branch_counted("as many planes as threads", job.batch * job.channels >= job.threads)
            and branch_counted("windows that are close", size <= TURNED_MAX_TAPS * windows)):
        return False
    turned.channels = job.channels
    if are_planes_uniform(job):
        turned.channels *= job.batch
    plane_bytes = size * job.item_size + windows * (job.item_size + job.index_size)
    turned.planes = min(planes_of_lot(job, TURNED_LOT_BYTES // plane_bytes), turned.channels)
    if absolute(job.full.channel_bytes) == job.item_size:  # whole cache lines of neighbouring planes
        turned.planes = min(max(turned.planes // together * together, together), turned.channels)
    turned.lots = (turned.channels + turned.planes - 1) // turned.planes
    inner[0] = job[0]
    inner.batch = 1
    inner.channels = turned.planes
    make_contiguous(&inner.full, job.g.full, job.item_size)
    make_contiguous(&inner.pooled, job.g.pooled, job.item_size)
    make_contiguous(&inner.indices, job.g.pooled, job.index_size)
    inner.raster_stride_bytes = job.item_size
    inner.interleaved_planes = inner.parts_per_plane = inner.tasks = inner.threads = 1
    inner.banded = inner.nontemporal = False
    inner.zeroed = job.in_place
    return turned.planes <= TURNED_MAX_BYTES // plane_bytes  # else a lot is large


cdef inline void turn_job(const Turned *turned, Job *job) noexcept nogil:
    """Make each lot of turned planes a task of the job."""
    job.plan = turned
    job.tasks = job.batch * job.channels // turned.channels * turned.lots
    job.parts_per_plane = 1
    job.banded = False
    job.scratch_bytes = part_bytes(full_bytes(turned)) + part_bytes(values_bytes(turned)) + part_bytes(
        indices_bytes(turned))


cdef inline void *scratch_for(Job *job) except? NULL:
    """Take scratch memory for all shares of a job that needs some."""
    cdef Py_ssize_t size = shares_of(job, job.threads) * job.scratch_bytes
    cdef void *scratch
    if size == 0:
        return NULL
    scratch = take_scratch(size + PART_ALIGNMENT)
    if scratch == NULL:
        raise MemoryError(f"no memory for {size} bytes to work in")  # unreached: memory that is refused
    job.scratch = <char *> scratch + (-<uintptr_t> scratch & PART_ALIGNMENT - 1)
    return scratch


cdef inline void move_turned(const Job *job, Py_ssize_t lot, Found *found, Kernel kernel, bint gathers) noexcept nogil:
    """Copy a lot to C order, run `kernel` there, and copy the result back if all indices are in their planes.

    Each part of `found.scratch` is allocated for `turned.planes` planes, and written and read for `inner.channels`.
    """
    cdef const Turned *turned = <const Turned *> job.plan
    cdef Py_ssize_t first = lot % turned.lots * turned.planes, plane = lot // turned.lots * turned.channels + first
    cdef Py_ssize_t before = found.out_of_plane
    cdef char *full = plane_address(&job.full, job.channels, plane)
    cdef char *values = plane_address(&job.pooled, job.channels, plane)
    cdef char *rest = found.scratch
    cdef Job inner = turned.inner
    inner.channels = min(turned.planes, turned.channels - first)
    inner.full.data = next_part(&rest, full_bytes(turned))
    inner.pooled.data = next_part(&rest, values_bytes(turned))
    inner.indices.data = next_part(&rest, indices_bytes(turned))
    copy_planes_of(job.index_size, inner.indices.data, &inner.indices,
                   plane_address(&job.indices, job.channels, plane), &job.indices, inner.channels, job.g.pooled)
    if gathers or job.in_place:
        copy_planes_of(job.item_size, inner.full.data, &inner.full, full, &job.full, inner.channels, job.g.full)
    if not gathers:
        copy_planes_of(job.item_size, inner.pooled.data, &inner.pooled, values, &job.pooled, inner.channels,
                       job.g.pooled)
    kernel(&inner, 0, found, NULL, NULL)
    if found.out_of_plane > before:
        return
    if gathers:
        copy_planes_of(job.item_size, values, &job.pooled, inner.pooled.data, &inner.pooled, inner.channels,
                       job.g.pooled)
    else:
        copy_planes_of(job.item_size, full, &job.full, inner.full.data, &inner.full, inner.channels, job.g.full)
