"""Gather, unpooling's gradient: each pooled element is read from where its index points.

Valid arguments are required, but every index is checked.
"""
from libc.stdint cimport int64_t, uint64_t
cimport numpy as cnp

from cunpool._kernels.common.arrays cimport element_address, plane_address, raster_stride
from cunpool._kernels.common.caches cimport (
    CACHE_LINE, cunpool_keep, PREFETCH_BYTES, PREFETCH_MAX_ROW_BYTES,
    prefetch_range)
from cunpool._kernels.common.checks cimport branch_counted, conditions_met
from cunpool._kernels.common.geometry cimport element_count, Geometry
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.methods cimport described, Method
from cunpool._kernels.common.tasks cimport Found, run_tasks, shares_of
from cunpool._kernels.common.thresholds cimport (
    KEEP_GIL_MAX_BYTES, PREFETCH_BURST_BYTES, PREFETCH_MIN_LAYER_BYTES, UNPOOL_NONTEMPORAL_MIN_BYTES)
from cunpool._kernels.common.types cimport (
    index, index4, index8, item, item1, item16, item2, item4, item8, unlikely, void_inline, void_wide)
from cunpool._kernels.unpooling.indices cimport offset_of, prepare_job
from cunpool._kernels.unpooling.window_codes cimport (
    block_count, block_stride, code_count, CodeBlock, decode, DECODE_MAX_CODES, Decoder, locate_block, next_block,
    plan_decoder, PLANE_AXIS, row_count, row_offset, WIDTH_AXIS)
from cunpool._kernels.runtime cimport explaining
from cunpool._kernels.runtime import Planned

cnp.import_array()

cdef enum:
    GATHER_WINDOWS = DECODE_MAX_CODES   # windows of a row that are gathered together


cdef void_inline gather_elements(const Job *job, const char *plane_data, bint is_uniform, Py_ssize_t stride_bytes,
                                 char *values, Py_ssize_t value_bytes, const char *indices, Py_ssize_t index_bytes,
                                 Py_ssize_t count, uint64_t size, item *full, index *index_type,
                                 Py_ssize_t *outside_count) noexcept nogil:
    """Read `count` values from where their indices point, and count the indices not from 0 to `size` - 1."""
    cdef Py_ssize_t i, outside = 0
    cdef uint64_t position
    cdef const char *source
    for i in range(count):
        position = <uint64_t> <int64_t> (<const index *> (indices + i * index_bytes))[0]
        if unlikely(position >= size):
            outside += 1
        else:
            source = plane_data + offset_of(job, is_uniform, stride_bytes, <Py_ssize_t> position)
            (<item *> (values + i * value_bytes))[0] = (<const item *> source)[0]
    outside_count[0] += outside


cdef Py_ssize_t gather_row(const Job *job, const char *plane_data, char *values, Py_ssize_t value_bytes,
                           const char *indices, Py_ssize_t index_bytes, Py_ssize_t count, uint64_t size, item *full,
                           index *index_type) noexcept nogil:
    """`gather_elements`, compiled apart for contiguous arrays and for uniform planes."""
    cdef Py_ssize_t outside = 0
    if not job.raster_stride_bytes:
        gather_elements(job, plane_data, False, 0, values, value_bytes, indices, index_bytes, count, size, full,
                        index_type, &outside)
    elif job.raster_stride_bytes != sizeof(item) or value_bytes != sizeof(item) or index_bytes != sizeof(index):
        gather_elements(job, plane_data, True, job.raster_stride_bytes, values, value_bytes, indices, index_bytes,
                        count, size, full, index_type, &outside)
    else:
        gather_elements(job, plane_data, True, sizeof(item), values, sizeof(item), indices, sizeof(index), count, size,
                        full, index_type, &outside)
    return outside


cdef void_wide gather_channels(const char *plane_data, Py_ssize_t stride_bytes, item *values, const index *indices,
                               Py_ssize_t count, uint64_t size, Py_ssize_t *outside) noexcept nogil:
    """`gather_elements` for one element of each channel, where these are neighbours."""
    cdef Py_ssize_t i
    cdef uint64_t position
    cdef const char *source
    for i in range(count):
        position = <uint64_t> <int64_t> indices[i]
        if position < size:
            source = plane_data + i * <Py_ssize_t> sizeof(item) + <Py_ssize_t> position * stride_bytes
            values[i] = (<const item *> source)[0]
        else:
            outside[0] += 1


cdef void gather_unchecked(const item *plane_data, item *values, const index4 *positions,
                           Py_ssize_t count) noexcept nogil:
    """`gather_elements` where all indices are known to lie in the plane."""
    cdef Py_ssize_t i
    for i in range(count):
        values[i] = plane_data[positions[i]]


ctypedef Py_ssize_t (*GatherRow)(const Job *, const char *, char *, Py_ssize_t, const char *, Py_ssize_t, Py_ssize_t,
                                 uint64_t, void *, void *) noexcept nogil
ctypedef void (*GatherChannels)(const char *, Py_ssize_t, char *, const char *, Py_ssize_t, uint64_t,
                                Py_ssize_t *) noexcept nogil
ctypedef void (*GatherUnchecked)(const char *, char *, const index4 *, Py_ssize_t) noexcept nogil


cdef struct GatherOps:
    # The loops for items of one size. The first two by whether indices have 64 bits.
    GatherRow row[2]
    GatherChannels across[2]
    GatherUnchecked unchecked
    Py_ssize_t item_size


cdef GatherOps gather_ops_for(item *_) noexcept nogil:
    cdef GatherOps ops
    ops.row = [<GatherRow> gather_row[item, index4], <GatherRow> gather_row[item, index8]]
    ops.across = [<GatherChannels> gather_channels[item, index4], <GatherChannels> gather_channels[item, index8]]
    ops.unchecked = <GatherUnchecked> gather_unchecked[item]
    ops.item_size = sizeof(item)
    return ops


cdef inline Py_ssize_t layers_read(const Geometry *g) noexcept nogil:
    """The layers that adjacent windows read."""
    return min(min(g.stride[0], g.kernel[0]), g.full[0])


cdef bint can_prefetch(const Job *job, Py_ssize_t item_size, bint is_out_of_cache) noexcept nogil:
    """Whether prefetching the full array is faster. Processors prefetch rows in order, and small layers, by themselves.
    With gaps or large windows most lines would be prefetched and not read."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t layer = g.full[1] * g.full[2]
    return (branch_counted("windows of several rows side by side", 1 < g.stride[1] <= g.kernel[1])
            and branch_counted("cells without gaps", job.raster_stride_bytes == job.interleaved_planes * item_size)
            and branch_counted("layers that are not small", layer * job.raster_stride_bytes >= PREFETCH_MIN_LAYER_BYTES)
            and branch_counted("windows of no more than a line",
                               layer * layers_read(g) * item_size <= CACHE_LINE * g.pooled[1] * g.pooled[2])
            and branch_counted("arrays beyond the caches", is_out_of_cache))


cdef inline double elements_per_window(const Geometry *g) noexcept nogil:
    """Elements of a layer for each of its windows."""
    return <double> (g.full[1] * g.full[2]) / <double> (g.pooled[1] * g.pooled[2])


cdef inline void prefetch_source(const Job *job, const char *plane_data, Py_ssize_t window,
                                 Py_ssize_t count) noexcept nogil:
    """Prefetch for windows further on: of each layer, in raster order, the part that `count` windows are of all."""
    cdef const Geometry *g = &job.g
    cdef double elements = elements_per_window(g)
    cdef Py_ssize_t layer = g.full[1] * g.full[2], d = window // (g.pooled[1] * g.pooled[2]), k
    cdef Py_ssize_t in_layer = window - d * g.pooled[1] * g.pooled[2]
    cdef Py_ssize_t first = <Py_ssize_t> (elements * in_layer), end = <Py_ssize_t> (elements * (in_layer + count))
    for k in range(layers_read(g)):
        prefetch_range(plane_data + ((d * g.stride[0] + k) * layer + first) * job.raster_stride_bytes
                       + job.prefetch_bytes, (end - first) * job.raster_stride_bytes)
    cunpool_keep()  # else compilers drop a function that only prefetches


cdef Py_ssize_t gather_along_row(const Job *job, const char *plane_data, Py_ssize_t window, char *values,
                                 Py_ssize_t value_bytes, const char *indices, Py_ssize_t index_bytes, Py_ssize_t count,
                                 Py_ssize_t size, bint all_inside) noexcept nogil:
    """`gather_row`, or `gather_unchecked`, for neighbours from a `window` of a plane on: a few at a time where the
    array is prefetched."""
    cdef const GatherOps *ops = <const GatherOps *> job.ops
    cdef Py_ssize_t most = count, some, outside = 0
    if job.prefetch_bytes:
        most = max(<Py_ssize_t> (PREFETCH_BURST_BYTES / elements_per_window(&job.g)) // job.raster_stride_bytes, 1)
    while count:
        some = min(count, most)
        if job.prefetch_bytes:
            prefetch_source(job, plane_data, window, some)
        if all_inside:
            ops.unchecked(plane_data, values, <const index4 *> indices, some)
        else:
            outside += ops.row[job.wide_indices](job, plane_data, values, value_bytes, indices, index_bytes, some, size,
                                                 NULL, NULL)
        window += some
        values += some * value_bytes
        indices += some * index_bytes
        count -= some
    return outside


cdef Py_ssize_t gather_row_part(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w,
                                Py_ssize_t count) noexcept nogil:
    """Part of a pooled row, in one plane or in all interleaved ones."""
    cdef const GatherOps *ops = <const GatherOps *> job.ops
    cdef const char *plane_data = plane_address(&job.full, job.channels, plane)
    cdef char *values = element_address(&job.pooled, job.channels, plane, d, h, w)
    cdef const char *indices = element_address(&job.indices, job.channels, plane, d, h, w)
    cdef Py_ssize_t window = (d * job.g.pooled[1] + h) * job.g.pooled[2] + w, size = element_count(job.g.full)
    cdef Py_ssize_t outside = 0
    if job.interleaved_planes == 1:
        return gather_along_row(job, plane_data, window, values, job.pooled.axis_bytes[2], indices,
                                job.indices.axis_bytes[2], count, size, False)
    for window in range(window, window + count):
        if job.prefetch_bytes:
            prefetch_source(job, plane_data, window, 1)
        ops.across[job.wide_indices](plane_data, job.raster_stride_bytes, values, indices, job.interleaved_planes, size,
                                     &outside)
        values += job.pooled.axis_bytes[2]
        indices += job.indices.axis_bytes[2]
    return outside


cdef Py_ssize_t gather_codes(const Job *job, const CodeBlock *block, Py_ssize_t channel) noexcept nogil:
    """A block of windows by codes, of some planes or of the interleaved channels from `channel` on. `positions` is as
    in `scatter_codes`."""
    cdef index8[DECODE_MAX_CODES] positions  # of 8 bytes, or of 4
    cdef const GatherOps *ops = <const GatherOps *> job.ops
    cdef Py_ssize_t plane = block.at[PLANE_AXIS] * job.interleaved_planes, width = block.count[WIDTH_AXIS]
    cdef Py_ssize_t position_bytes = 8 if job.wide_indices else 4
    cdef Py_ssize_t stride_bytes = block_stride(&job.pooled, block), outside = 0, row, w
    cdef Py_ssize_t size = block.count[PLANE_AXIS] * element_count(job.g.full)
    cdef Py_ssize_t window = (block.at[1] * job.g.pooled[1] + block.at[2]) * job.g.pooled[2] + block.at[WIDTH_AXIS]
    cdef const char *plane_data = plane_address(&job.full, job.channels, plane)
    cdef char *values = element_address(&job.pooled, job.channels, plane, block.at[1], block.at[2],
                                        block.at[WIDTH_AXIS])
    cdef const char *indices = element_address(&job.indices, job.channels, plane, block.at[1], block.at[2],
                                               block.at[WIDTH_AXIS])
    cdef bint all_inside
    plane_data += channel * ops.item_size
    values += channel * ops.item_size
    decode(job, indices + channel * job.code_size, block, <char *> positions, &all_inside)
    if job.interleaved_planes > 1:
        for w in range(width):
            if job.prefetch_bytes and channel == 0:
                prefetch_source(job, plane_data, window + w, 1)
            ops.across[job.wide_indices](plane_data, job.raster_stride_bytes, values + w * job.pooled.axis_bytes[2],
                                         <const char *> positions + w * block.interleaved * position_bytes,
                                         block.interleaved, size, &outside)
    elif stride_bytes:
        outside = gather_along_row(job, plane_data, window, values, stride_bytes, <const char *> positions,
                                   position_bytes, code_count(block), size, all_inside
                                   and job.raster_stride_bytes == ops.item_size and stride_bytes == ops.item_size)
    else:
        for row in range(row_count(block)):
            outside += gather_along_row(job, plane_data, window + row * width,
                                        values + row_offset(&job.pooled, block, row), job.pooled.axis_bytes[2],
                                        <const char *> positions + row * width * position_bytes, position_bytes, width,
                                        size, False)
    return outside


cdef Py_ssize_t gather_block(const Job *job, CodeBlock *block) noexcept nogil:
    """`gather_codes` for DECODE_MAX_CODES channels at a time."""
    cdef Py_ssize_t part, outside = 0
    for part in range((job.interleaved_planes + DECODE_MAX_CODES - 1) // DECODE_MAX_CODES):
        block.interleaved = min(job.interleaved_planes - part * DECODE_MAX_CODES, <Py_ssize_t> DECODE_MAX_CODES)
        outside += gather_codes(job, block, part * DECODE_MAX_CODES)
    return outside


cdef void gather_blocks(const Job *job, Py_ssize_t task, Found *found) noexcept nogil:
    """`gather_task` by window codes."""
    cdef const Decoder *codes = <const Decoder *> job.decoder
    cdef Py_ssize_t blocks = block_count(codes), first = blocks * task // job.tasks
    cdef CodeBlock block
    locate_block(job, first, &block)
    for _ in range(first, blocks * (task + 1) // job.tasks):
        found.out_of_plane += gather_block(job, &block)
        next_block(job, &block)


cdef void gather_task(const Job *job, Py_ssize_t task, Found *found, void *_, void *__) noexcept nogil:
    """One task: some parts of pooled rows. A plane of adjacent rows is one row."""
    cdef Py_ssize_t width = job.g.pooled[2], rows = job.g.pooled[0] * job.g.pooled[1], height = job.g.pooled[1]
    cdef Py_ssize_t groups = job.batch * job.channels // job.interleaved_planes, parts, units, unit, row, w
    cdef Py_ssize_t value_bytes = raster_stride(&job.pooled, job.g.pooled)
    cdef Py_ssize_t index_bytes = raster_stride(&job.indices, job.g.pooled)
    if job.code_size:
        gather_blocks(job, task, found)
        return
    # Either stride is 0 where rows are not adjacent. An axis's own stride is 0 where one index is repeated.
    if (job.interleaved_planes == 1 and value_bytes and index_bytes and value_bytes == job.pooled.axis_bytes[2]
            and index_bytes == job.indices.axis_bytes[2]):
        width *= rows
        rows = height = 1
    parts = (width + GATHER_WINDOWS - 1) // GATHER_WINDOWS
    units = groups * rows * parts
    for unit in range(units * task // job.tasks, units * (task + 1) // job.tasks):
        row = unit // parts
        w = unit % parts * GATHER_WINDOWS
        found.out_of_plane += gather_row_part(job, row // rows * job.interleaved_planes, row % rows // height,
                                              row % height, w, min(width - w, <Py_ssize_t> GATHER_WINDOWS))


cdef GatherOps[5] GATHER_OPS          # by the logarithm of the item's size
GATHER_OPS = [gather_ops_for(<item1 *> NULL), gather_ops_for(<item2 *> NULL), gather_ops_for(<item4 *> NULL),
              gather_ops_for(<item8 *> NULL), gather_ops_for(<item16 *> NULL)]

# The only method serves all calls.
cdef Method METHOD = Method("gather", "backward.pyx", "gather_row", NULL, NULL)

# Added to what `unpool_backward` returns where it prefetched.
FETCHED = 2


cdef dict explained(const Job *job):
    """The plan for `cunpool.explain`."""
    details = []
    if job.interleaved_planes > 1:
        details.append("channels are neighbours, and are taken together (backward.pyx: gather_channels)")
    if job.code_size:
        details.append("window codes become indices (unpooling/window_codes.pxd: decode)")
    if job.prefetch_bytes:
        details.append("the array is prefetched: the arrays are larger than the caches")
    return described(&METHOD, [], details, {}, job.tasks, 0, job.threads, shares_of(job, job.threads), False)


def unpool_backward(cnp.ndarray full not None, cnp.ndarray indices not None, cnp.ndarray pooled not None, tuple sizes,
                    int spatial, int kind, bint codes, int threads):
    """Fill `pooled`. Returns 0 if an index is outside its plane, else 1, or 1 + `FETCHED`."""
    cdef Job job
    cdef Found found
    cdef Py_ssize_t item_size = cnp.PyArray_ITEMSIZE(full), index_size = cnp.PyArray_ITEMSIZE(indices)
    cdef Decoder decoder
    prepare_job(&job, sizes, pooled, indices, full, spatial, codes)
    if cnp.PyArray_SIZE(pooled) == 0:
        return 1
    job.threads = threads
    job.ops = &GATHER_OPS[kind]
    job.wide_indices = index_size == 8
    if codes:
        job.decoder = &decoder
        plan_decoder(&job, &decoder)
        job.wide_indices = decoder.is_wide
    if can_prefetch(&job, item_size, cnp.PyArray_SIZE(full) * item_size + cnp.PyArray_SIZE(pooled)
                    * (item_size + index_size) >= UNPOOL_NONTEMPORAL_MIN_BYTES):
        # Further by the rows of a window, up to PREFETCH_MAX_ROW_BYTES: L2 would not keep longer ones.
        job.prefetch_bytes = 2 * PREFETCH_BYTES + min(min(job.g.stride[1],
                                                          job.g.full[1]) * job.g.full[2] * job.raster_stride_bytes,
                                                      <Py_ssize_t> PREFETCH_MAX_ROW_BYTES)
    job.tasks = 1 if threads == 1 else min(8 * threads, cnp.PyArray_SIZE(pooled))
    if explaining():
        raise Planned(explained(&job))
    if max(cnp.PyArray_SIZE(full), cnp.PyArray_SIZE(pooled)) * item_size <= KEEP_GIL_MAX_BYTES:
        found = run_tasks(gather_task, &job, threads)
    else:
        with nogil:
            found = run_tasks(gather_task, &job, threads)
    return 0 if found.out_of_plane else 1 + FETCHED * (job.prefetch_bytes > 0)


def conditions():
    """How often each condition was false, and true. Only a checked build counts."""
    return conditions_met()
