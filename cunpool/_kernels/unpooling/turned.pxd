# Planes turned to C order: some planes at a time are copied to scratch memory, scattered or gathered there, and copied
# back.
from cunpool._kernels.common.arrays cimport make_contiguous, plane_address
from cunpool._kernels.common.caches cimport CACHE_LINE
from cunpool._kernels.common.checks cimport branch_counted
from cunpool._kernels.common.copy_axes cimport copy_planes_of
from cunpool._kernels.common.geometry cimport absolute, element_count
from cunpool._kernels.common.job cimport are_planes_uniform, Job
from cunpool._kernels.common.tasks cimport Found, planes_of_lot
from cunpool._kernels.common.thresholds cimport TURNED_LOT_BYTES, TURNED_MAX_BYTES, TURNED_MAX_TAPS
from cunpool._kernels.unpooling.scatter cimport gather_task, scatter_task
from cunpool._kernels.memory cimport next_part, part_bytes

cdef struct Turned:
    Job inner               # the call in C order, in scratch memory
    Py_ssize_t channels     # planes at equal distances in each array: all planes, or one batch's
    Py_ssize_t planes       # planes of a lot, which are turned together
    Py_ssize_t lots         # lots of these `channels`


cdef inline bint plan_turned(Job *job, Turned *turned) noexcept nogil:
    """Whether planes are turned. Then each lot of them is a task of `job`."""
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
    if turned.planes > TURNED_MAX_BYTES // plane_bytes:
        return False  # unreached: large planes, in slow tests
    turned.lots = (turned.channels + turned.planes - 1) // turned.planes
    inner[0] = job[0]
    inner.batch = 1
    inner.channels = turned.planes
    make_contiguous(&inner.full, job.g.full, job.item_size)
    make_contiguous(&inner.pooled, job.g.pooled, job.item_size)
    make_contiguous(&inner.indices, job.g.pooled, job.index_size)
    inner.raster_stride_bytes = job.item_size
    inner.interleaved_planes = inner.parts_per_plane = inner.tasks = inner.threads = 1
    inner.nontemporal = False
    inner.is_laid = job.in_place
    job.plan = turned
    job.tasks = job.batch * job.channels // turned.channels * turned.lots
    job.parts_per_plane = 1
    job.scratch_bytes = (part_bytes(turned.planes * inner.full.channel_bytes)
                         + part_bytes(turned.planes * inner.pooled.channel_bytes)
                         + part_bytes(turned.planes * inner.indices.channel_bytes))
    return True


cdef inline void move_turned(const Job *job, Py_ssize_t lot, Found *found, void *_, void *__) noexcept nogil:
    """Copy a lot to C order, scatter or gather there, and copy the result back if all indices are in their planes.

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
    inner.full.data = next_part(&rest, turned.planes * inner.full.channel_bytes)
    inner.pooled.data = next_part(&rest, turned.planes * inner.pooled.channel_bytes)
    inner.indices.data = next_part(&rest, turned.planes * inner.indices.channel_bytes)
    copy_planes_of(job.index_size, inner.indices.data, &inner.indices,
                   plane_address(&job.indices, job.channels, plane), &job.indices, inner.channels, job.g.pooled)
    if job.gathers or job.in_place:
        copy_planes_of(job.item_size, inner.full.data, &inner.full, full, &job.full, inner.channels, job.g.full)
    if not job.gathers:
        copy_planes_of(job.item_size, inner.pooled.data, &inner.pooled, values, &job.pooled, inner.channels,
                       job.g.pooled)
    (gather_task if job.gathers else scatter_task)(&inner, 0, found, NULL, NULL)
    if found.out_of_plane > before:
        return
    if job.gathers:
        copy_planes_of(job.item_size, values, &job.pooled, inner.pooled.data, &inner.pooled, inner.channels,
                       job.g.pooled)
    else:
        copy_planes_of(job.item_size, full, &job.full, inner.full.data, &inner.full, inner.channels, job.g.full)
