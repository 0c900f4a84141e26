"""The loops of unpooling's gradient: each pooled cell takes what lies at its place.

Valid input is assumed, indices apart.
"""
from libc.stdint cimport int64_t, uint64_t
cimport numpy as cnp

from cunpool._kernels.common.arrays cimport element_address, plane_address, raster_stride
from cunpool._kernels.common.caches cimport (
    CACHE_LINE, cunpool_keep, KEEP_GIL_MAX_BYTES, NONTEMPORAL_MIN_BYTES, PREFETCH_BYTES, PREFETCH_MAX_ROW_BYTES,
    prefetch_range)
from cunpool._kernels.common.checks cimport branch_counted, conditions_met
from cunpool._kernels.common.geometry cimport element_count, Geometry
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.methods cimport described, Method
from cunpool._kernels.common.tasks cimport Found, run_tasks, shares_of
from cunpool._kernels.common.types cimport (
    index, index4, index8, item, item1, item16, item2, item4, item8, unlikely, void_inline, void_wide)
from cunpool._kernels.unpooling.indices cimport offset_of, prepare
from cunpool._kernels.unpooling.window_codes cimport (
    Block, blocks_of, Codes, codes_in, decode, DECODED, expect_codes, find_block, next_block, PLANES, row_of, rows_in,
    step_of, WIDTH)
from cunpool._kernels.runtime cimport explaining
from cunpool._kernels.runtime import Planned

cnp.import_array()

cdef enum:
    PART = DECODED          # pooled cells that are taken together,
    BURST = 512             # and so many bytes of a large layer are fetched at a time: longer bursts take longer,
    SMALL_LAYER = 1 << 11   # but none of layers with fewer bytes


cdef void_inline take(const Job *job, const char *from_plane, bint even, Py_ssize_t flat, char *values,
                      Py_ssize_t value_step, const char *indices, Py_ssize_t index_step, Py_ssize_t count,
                      uint64_t size, item *full, index *index_type, Py_ssize_t *strangers) noexcept nogil:
    """Fill `count` values from where their indices say; counts the indices that are not from 0 on for `size` cells."""
    cdef Py_ssize_t i, outside = 0
    cdef uint64_t cell
    for i in range(count):
        cell = <uint64_t> <int64_t> (<const index *> (indices + i * index_step))[0]
        if unlikely(cell >= size):
            outside += 1
        else:
            (<item *> (values + i * value_step))[0] = (
                <const item *> (from_plane + offset_of(job, even, flat, <Py_ssize_t> cell)))[0]
    strangers[0] += outside


cdef Py_ssize_t take_row(const Job *job, const char *from_plane, char *values, Py_ssize_t value_step,
                         const char *indices, Py_ssize_t index_step, Py_ssize_t count, uint64_t size, item *full,
                         index *index_type) noexcept nogil:
    """`take`, compiled apart for contiguous arrays, and for even planes."""
    cdef Py_ssize_t outside = 0
    if not job.raster_stride_bytes:
        take(job, from_plane, False, 0, values, value_step, indices, index_step, count, size, full, index_type,
             &outside)
    elif job.raster_stride_bytes != sizeof(item) or value_step != sizeof(item) or index_step != sizeof(index):
        take(job, from_plane, True, job.raster_stride_bytes, values, value_step, indices, index_step, count, size, full,
             index_type, &outside)
    else:
        take(job, from_plane, True, sizeof(item), values, sizeof(item), indices, sizeof(index), count, size, full,
             index_type, &outside)
    return outside


cdef void_wide take_across(const char *from_plane, Py_ssize_t flat, item *values, const index *indices,
                           Py_ssize_t count, uint64_t size, Py_ssize_t *outside) noexcept nogil:
    """`take` for one cell of each channel, where these are neighbours."""
    cdef Py_ssize_t i
    cdef uint64_t cell
    for i in range(count):
        cell = <uint64_t> <int64_t> indices[i]
        if cell < size:
            values[i] = (<const item *> (from_plane + i * <Py_ssize_t> sizeof(item) + <Py_ssize_t> cell * flat))[0]
        else:
            outside[0] += 1


cdef void take_there(const item *from_plane, item *values, const index4 *places, Py_ssize_t count) noexcept nogil:
    """`take` where all places are known to lie in the plane."""
    cdef Py_ssize_t i
    for i in range(count):
        values[i] = from_plane[places[i]]


ctypedef Py_ssize_t (*TakeRow)(const Job *, const char *, char *, Py_ssize_t, const char *, Py_ssize_t, Py_ssize_t,
                               uint64_t, void *, void *) noexcept nogil
ctypedef void (*TakeAcross)(const char *, Py_ssize_t, char *, const char *, Py_ssize_t, uint64_t,
                            Py_ssize_t *) noexcept nogil
ctypedef void (*TakeThere)(const char *, char *, const index4 *, Py_ssize_t) noexcept nogil


cdef struct Take:
    # The loops for items of one size. The first two by whether places have 64 bits.
    TakeRow row[2]
    TakeAcross across[2]
    TakeThere there
    Py_ssize_t item_size


cdef Take taking(item *_) noexcept nogil:
    cdef Take take
    take.row = [<TakeRow> take_row[item, index4], <TakeRow> take_row[item, index8]]
    take.across = [<TakeAcross> take_across[item, index4], <TakeAcross> take_across[item, index8]]
    take.there = <TakeThere> take_there[item]
    take.item_size = sizeof(item)
    return take


cdef inline Py_ssize_t layers_read(const Geometry *g) noexcept nogil:
    """Of how many layers windows take that lie side by side."""
    return min(min(g.stride[0], g.kernel[0]), g.full[0])


cdef bint worth_fetching(const Job *job, Py_ssize_t item_size, bint beyond_caches) noexcept nogil:
    """Whether it is faster to fetch ahead what is gathered from. One row after the other, and small layers, processors
    fetch by themselves; and of gaps, or large windows, most lines would be fetched for nothing."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t layer = g.full[1] * g.full[2]
    return (branch_counted("windows of several rows side by side", 1 < g.stride[1] <= g.kernel[1])
            and branch_counted("cells without gaps", job.raster_stride_bytes == job.interleaved_planes * item_size)
            and branch_counted("layers that are not small", layer * job.raster_stride_bytes >= SMALL_LAYER)
            and branch_counted("windows of no more than a line",
                               layer * layers_read(g) * item_size <= CACHE_LINE * g.pooled[1] * g.pooled[2])
            and branch_counted("arrays beyond the caches", beyond_caches))


cdef inline double cells_per_window(const Geometry *g) noexcept nogil:
    """In a layer."""
    return <double> (g.full[1] * g.full[2]) / <double> (g.pooled[1] * g.pooled[2])


cdef inline void fetch_source(const Job *job, const char *from_plane, Py_ssize_t window,
                              Py_ssize_t count) noexcept nogil:
    """Have the processor read what windows further on will take: of each layer, in raster order, as large a part as
    these windows are of all."""
    cdef const Geometry *g = &job.g
    cdef double cells = cells_per_window(g)
    cdef Py_ssize_t layer = g.full[1] * g.full[2], d = window // (g.pooled[1] * g.pooled[2]), k
    cdef Py_ssize_t in_layer = window - d * g.pooled[1] * g.pooled[2]
    cdef Py_ssize_t first = <Py_ssize_t> (cells * in_layer), end = <Py_ssize_t> (cells * (in_layer + count))
    for k in range(layers_read(g)):
        prefetch_range(from_plane + ((d * g.stride[0] + k) * layer + first) * job.raster_stride_bytes
                       + job.prefetch_bytes, (end - first) * job.raster_stride_bytes)
    cunpool_keep()  # for a compiler drops functions that do nothing but fetch


cdef Py_ssize_t take_along(const Job *job, const char *from_plane, Py_ssize_t window, char *values,
                           Py_ssize_t value_step, const char *indices, Py_ssize_t index_step, Py_ssize_t count,
                           Py_ssize_t size, bint all_there) noexcept nogil:
    """`take_row`, or `take_there`, for neighbours from a `window` of a plane on: a few at a time where the array is
    fetched ahead."""
    cdef const Take *take = <const Take *> job.ops
    cdef Py_ssize_t most = count, some, outside = 0
    if job.prefetch_bytes:
        most = max(<Py_ssize_t> (BURST / cells_per_window(&job.g)) // job.raster_stride_bytes, 1)
    while count:
        some = min(count, most)
        if job.prefetch_bytes:
            fetch_source(job, from_plane, window, some)
        if all_there:
            take.there(from_plane, values, <const index4 *> indices, some)
        else:
            outside += take.row[job.wide_indices](job, from_plane, values, value_step, indices, index_step, some, size,
                                                  NULL, NULL)
        window += some
        values += some * value_step
        indices += some * index_step
        count -= some
    return outside


cdef Py_ssize_t gather_part(const Job *job, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h, Py_ssize_t w,
                            Py_ssize_t count) noexcept nogil:
    """Some neighbours of a pooled row, in one plane or in all lanes."""
    cdef const Take *take = <const Take *> job.ops
    cdef const char *from_plane = plane_address(&job.full, job.channels, plane)
    cdef char *values = element_address(&job.pooled, job.channels, plane, d, h, w)
    cdef const char *indices = element_address(&job.indices, job.channels, plane, d, h, w)
    cdef Py_ssize_t window = (d * job.g.pooled[1] + h) * job.g.pooled[2] + w, size = element_count(job.g.full)
    cdef Py_ssize_t outside = 0
    if job.interleaved_planes == 1:
        return take_along(job, from_plane, window, values, job.pooled.axis_bytes[2], indices, job.indices.axis_bytes[2],
                          count, size, False)
    for window in range(window, window + count):
        if job.prefetch_bytes:
            fetch_source(job, from_plane, window, 1)
        take.across[job.wide_indices](from_plane, job.raster_stride_bytes, values, indices, job.interleaved_planes,
                                      size, &outside)
        values += job.pooled.axis_bytes[2]
        indices += job.indices.axis_bytes[2]
    return outside


cdef Py_ssize_t gather_codes(const Job *job, const Block *block, Py_ssize_t lane) noexcept nogil:
    """A block of windows by their codes, of some planes or of lanes from one on."""
    cdef index8[DECODED] places  # or as many of half the size
    cdef const Take *take = <const Take *> job.ops
    cdef Py_ssize_t plane = block.at[PLANES] * job.interleaved_planes, width = block.count[WIDTH]
    cdef Py_ssize_t place_size = 8 if job.wide_indices else 4
    cdef Py_ssize_t step = step_of(&job.pooled,
                                   block), size = block.count[PLANES] * element_count(job.g.full), outside = 0
    cdef Py_ssize_t window = (block.at[1] * job.g.pooled[1] + block.at[2]) * job.g.pooled[2] + block.at[WIDTH], row, w
    cdef const char *from_plane = plane_address(&job.full, job.channels, plane)
    cdef char *values = element_address(&job.pooled, job.channels, plane, block.at[1], block.at[2], block.at[WIDTH])
    cdef const char *indices = element_address(&job.indices, job.channels, plane, block.at[1], block.at[2],
                                               block.at[WIDTH])
    cdef bint all_there
    from_plane += lane * take.item_size
    values += lane * take.item_size
    decode(job, indices + lane * job.code_size, block, <char *> places, &all_there)
    if job.interleaved_planes > 1:
        for w in range(width):
            if job.prefetch_bytes and lane == 0:
                fetch_source(job, from_plane, window + w, 1)
            take.across[job.wide_indices](from_plane, job.raster_stride_bytes, values + w * job.pooled.axis_bytes[2],
                                          <const char *> places + w * block.lanes * place_size, block.lanes, size,
                                          &outside)
    elif step:
        outside = take_along(job, from_plane, window, values, step, <const char *> places, place_size, codes_in(block),
                             size, all_there and job.raster_stride_bytes == take.item_size and step == take.item_size)
    else:
        for row in range(rows_in(block)):
            outside += take_along(job, from_plane, window + row * width, values + row_of(&job.pooled, block, row),
                                  job.pooled.axis_bytes[2], <const char *> places + row * width * place_size,
                                  place_size, width, size, False)
    return outside


cdef Py_ssize_t gather_block(const Job *job, Block *block) noexcept nogil:
    """`gather_codes`, of so many lanes at a time as are decoded together."""
    cdef Py_ssize_t part, outside = 0
    for part in range((job.interleaved_planes + DECODED - 1) // DECODED):
        block.lanes = min(job.interleaved_planes - part * DECODED, <Py_ssize_t> DECODED)
        outside += gather_codes(job, block, part * DECODED)
    return outside


cdef void gather_blocks(const Job *job, Py_ssize_t task, Found *found) noexcept nogil:
    """`gather` by window codes, some of which are decoded together."""
    cdef const Codes *codes = <const Codes *> job.decoder
    cdef Py_ssize_t blocks = blocks_of(codes), first = blocks * task // job.tasks
    cdef Block block
    find_block(job, first, &block)
    for _ in range(first, blocks * (task + 1) // job.tasks):
        found.out_of_plane += gather_block(job, &block)
        next_block(job, &block)


cdef void gather(const Job *job, Py_ssize_t task, Found *found, void *_, void *__) noexcept nogil:
    """One task: some parts of pooled rows. Where rows follow each other in memory, planes are taken as one row."""
    cdef Py_ssize_t width = job.g.pooled[2], rows = job.g.pooled[0] * job.g.pooled[1], height = job.g.pooled[1]
    cdef Py_ssize_t groups = job.batch * job.channels // job.interleaved_planes, parts, units, unit, row, w
    cdef Py_ssize_t value_step = raster_stride(&job.pooled, job.g.pooled)
    cdef Py_ssize_t index_step = raster_stride(&job.indices, job.g.pooled)
    if job.code_size:
        gather_blocks(job, task, found)
        return
    # It is 0 where rows do not follow each other, and so is a row's own step where one index is repeated all along.
    if (job.interleaved_planes == 1 and value_step and index_step and value_step == job.pooled.axis_bytes[2]
            and index_step == job.indices.axis_bytes[2]):
        width *= rows
        rows = height = 1
    parts = (width + PART - 1) // PART
    units = groups * rows * parts
    for unit in range(units * task // job.tasks, units * (task + 1) // job.tasks):
        row = unit // parts
        w = unit % parts * PART
        found.out_of_plane += gather_part(job, row // rows * job.interleaved_planes, row % rows // height, row % height,
                                          w, min(width - w, <Py_ssize_t> PART))


cdef Take[5] TAKE          # by the logarithm of the item's size
TAKE = [taking(<item1 *> NULL), taking(<item2 *> NULL), taking(<item4 *> NULL), taking(<item8 *> NULL),
        taking(<item16 *> NULL)]

# The only method serves all calls.
cdef Method METHOD = Method("gather", "backward.pyx", "take", NULL, NULL)

# What `unpool_backward` returns beside 1, for the tests: whether it fetched ahead.
FETCHED = 2


cdef dict explained(const Job *job):
    """The plan for `cunpool.explain`."""
    details = []
    if job.interleaved_planes > 1:
        details.append("channels are neighbours, and are taken together (backward.pyx: take_across)")
    if job.code_size:
        details.append("window codes become indices (unpooling/window_codes.pxd: decode)")
    if job.prefetch_bytes:
        details.append("the array is prefetched: the arrays are larger than the caches")
    return described(&METHOD, [], details, {}, job.tasks, 0, job.threads, shares_of(job, job.threads), False)


def unpool_backward(cnp.ndarray full not None, cnp.ndarray indices not None, cnp.ndarray pooled not None, tuple sizes,
                    int spatial, int kind, bint codes, int threads):
    """Fill `pooled`. Returns 0 if an index names no place, else 1, and `FETCHED` beside it."""
    cdef Job job
    cdef Found found
    cdef Py_ssize_t item_size = cnp.PyArray_ITEMSIZE(full), index_size = cnp.PyArray_ITEMSIZE(indices)
    cdef Codes decoding
    prepare(&job, sizes, pooled, indices, full, spatial, codes)
    if cnp.PyArray_SIZE(pooled) == 0:
        return 1
    job.threads = threads
    job.ops = &TAKE[kind]
    job.wide_indices = index_size == 8
    if codes:
        job.decoder = &decoding
        expect_codes(&job, &decoding)
        job.wide_indices = decoding.far
    if worth_fetching(&job, item_size, cnp.PyArray_SIZE(full) * item_size
                      + cnp.PyArray_SIZE(pooled) * (item_size + index_size) >= NONTEMPORAL_MIN_BYTES):
        # The rows of a window side by side with it further, which longer ones would not wait for in the second cache.
        job.prefetch_bytes = 2 * PREFETCH_BYTES + min(min(job.g.stride[1],
                                                          job.g.full[1]) * job.g.full[2] * job.raster_stride_bytes,
                                                      <Py_ssize_t> PREFETCH_MAX_ROW_BYTES)
    job.tasks = 1 if threads == 1 else min(8 * threads, cnp.PyArray_SIZE(pooled))
    if explaining():
        raise Planned(explained(&job))
    if max(cnp.PyArray_SIZE(full), cnp.PyArray_SIZE(pooled)) * item_size <= KEEP_GIL_MAX_BYTES:
        found = run_tasks(gather, &job, threads)
    else:
        with nogil:
            found = run_tasks(gather, &job, threads)
    return 0 if found.out_of_plane else 1 + FETCHED * (job.prefetch_bytes > 0)


def conditions():
    """How often each condition of a way did not hold, and did: counted by a checked build alone."""
    return conditions_met()
