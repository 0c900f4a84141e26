# Window2: windows of 2 side by side in contiguous rows, or columns. They are compared where they lie, and short rows
# are stored together.
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy, memset

from cunpool._kernels.common.arrays cimport plane_address
from cunpool._kernels.common.caches cimport align_to_cache_line
from cunpool._kernels.common.checks cimport assert_in_block, branch_counted
from cunpool._kernels.common.geometry cimport Geometry
from cunpool._kernels.common.job cimport are_all_contiguous, HALF_KIND, Job
from cunpool._kernels.common.tasks cimport Found
from cunpool._kernels.common.types cimport void_noinline
from cunpool._kernels.pooling.compare cimport (
    are_codes_decoded, end_of, has_indices_in_lanes, NAN_BACKOFF_CALLS, readable_steps, tap_offset,
    vector_of)
from cunpool._kernels.pooling.runs cimport VECTOR_BYTES
from cunpool._kernels.pooling.separable cimport decode_item1, Decoder
from cunpool._kernels.pooling.write cimport base_of, LINE, MAX_ITEM_BYTES, Target, target_of, VECTOR, write_values

cdef extern from "_kernels/pooling/window2.h":
    bint HAS_VECTORS "CUNPOOL_HAS_VECTORS"
    ctypedef struct Windows2 "cunpool_window2":
        const char *row[4]
        int kernel_rows
        bint with_codes
        bint omits_nan
        int infinity
        uint64_t flip
        Py_ssize_t pooled_row_bytes, pooled_rows, row_windows
        int32_t row_codes[4]
        int32_t second_code
        bint is_swapped, has_indices
        int64_t base, row_step, window_step
        int32_t ramp4[16]
        int64_t ramp8[8]
        Py_ssize_t plane_row, plane_rows
        char *best
        char *best_codes
        int code_bytes
    bint compare_window2 "cunpool_compare_window2"(const Windows2 *windows, int item_size, bint is_float,
                                                   bint careful) noexcept nogil

cdef enum:
    MIN_ROW_VECTOR_PART = 4             # Rows that fill this part of a vector are compared where they lie. (speed)
    # Rows that fill this part, if a block has many, and separable would serve them. (speed: 64 x 100 x 10 x 6)
    MIN_SHORT_ROW_VECTOR_PART = 16
    SHORT_ROWS_MIN_ROWS = 8


cdef struct Block:
    # Pooled rows of a plane that are pooled together: `rows` from (d, h) on, `width` windows of each from w on.
    Py_ssize_t d, h, w, rows, width


cdef inline bint can_stack_planes(const Job *job) noexcept nogil:
    """Whether all planes can be pooled as a tall one: none of their windows reaches over the edge, and they follow each
    other in memory."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t planes = job.batch * job.channels
    return (planes > 1 and g.full[0] == 1 and g.pooled[0] == 1 and not g.padding[1]
            and branch_counted("rows short enough to be stacked", g.pooled[2] < LINE // 4)
            and branch_counted("windows of whole planes", g.full[1] == g.pooled[1] * g.stride[1])
            and planes * g.full[1] * g.full[2] <= 0x7FFFFFFF
            and branch_counted("planes that follow each other", are_all_contiguous(job)))


cdef inline void stack_planes(Job *job) noexcept nogil:
    """Make one tall plane of all."""
    cdef Py_ssize_t planes = job.batch * job.channels
    job.rows_per_plane = job.g.full[1]
    job.full.axis_bytes[1] = job.g.full[2] * job.item_size
    job.pooled.axis_bytes[1] = job.g.pooled[2] * job.item_size
    job.indices.axis_bytes[1] = job.g.pooled[2] * job.index_size
    job.g.full[1] *= planes
    job.g.pooled[1] *= planes
    job.batch = job.channels = 1


cdef inline bint has_many_short_rows(const Job *job) noexcept nogil:
    """Whether many short rows of windows are compared and stored together. Other methods serve smaller elements."""
    return (job.item_size >= 4
            and (branch_counted("planes of many rows", job.g.pooled[1] >= SHORT_ROWS_MIN_ROWS)
                 or can_stack_planes(job)))


cdef inline const char *window2_shape_why_not(const Job *job) noexcept nogil:
    """Why a call has no windows of 2 side by side, inside the array, in contiguous rows worth a vector; or NULL."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t vector = vector_of(job.item_size)
    cdef int axis
    if not HAS_VECTORS:
        return "the compiler has no vector types"  # unreached: another compiler
    for axis in range(3):
        if g.padding[axis] or g.kernel[axis] > 2 or g.dilation[axis] > 1 and g.kernel[axis] > 1:
            return "padding, dilation, or a window larger than 2 along an axis"
        if (g.pooled[axis] - 1) * g.stride[axis] + g.kernel[axis] > g.full[axis]:
            return "a window reaches over the edge"
    if g.kernel[2] != 2 or g.stride[2] != 2:
        return "kernel and stride along the width are not 2"
    if (not branch_counted("rows of windows of two", g.pooled[2] * MIN_ROW_VECTOR_PART >= vector)
            and not (branch_counted("rows of 1/16 of a vector", g.pooled[2] * MIN_SHORT_ROW_VECTOR_PART >= vector)
                     and has_many_short_rows(job))):
        return ("a row has fewer than 16 windows of 1 byte, 8 of 2 bytes, or 4 of larger elements (a quarter of that "
                "if there are many rows)")
    if not branch_counted("contiguous rows or columns of windows of two", job.full.axis_bytes[2] == job.item_size):
        return "neither rows nor columns are contiguous, or windows of several layers lie in columns"
    return NULL


cdef inline Py_ssize_t rows_of_plane(const Job *job) noexcept nogil:
    """Pooled rows of a layer of each plane, also if planes are stacked."""
    return job.rows_per_plane // job.g.stride[1] if job.rows_per_plane else job.g.pooled[1]


cdef inline void_noinline fill_window2_ramp(const Job *job, int64_t *ramp) noexcept nogil:
    """How far each window of a block begins behind the first one, as an index."""
    cdef Py_ssize_t width = min(job.g.pooled[2], <Py_ssize_t> LINE), rows = rows_of_plane(job), row, i
    for row in range(min(LINE // width, job.g.pooled[1])):
        for i in range(width):
            ramp[row * width + i] = (row % rows * job.g.stride[1] * job.raster_steps[1]
                                     + 2 * i * job.raster_steps[2])


cdef inline void_noinline rows_at_once(const Job *job, Py_ssize_t most, Block *block) noexcept nogil:
    """How many rows are pooled together. With a ramp, the rows of a tall plane are some of one plane, or all of
    several: then the ramp serves each block."""
    cdef Py_ssize_t rows = rows_of_plane(job), rows_before = block.h % rows
    block.rows = min(LINE // block.width, min(most, job.g.pooled[1] - block.h))
    if are_codes_decoded(job) and block.rows > rows - rows_before:
        block.rows = rows - rows_before if rows_before else block.rows // rows * rows


cdef inline void write_rows(char *to, Py_ssize_t step, Py_ssize_t row_step, bint stream, Py_ssize_t rows,
                            Py_ssize_t width, const char *values, Py_ssize_t size) noexcept nogil:
    """Store the values, or indices, of some rows of windows, as one row if they follow each other."""
    cdef Py_ssize_t row
    if row_step == width * step:
        write_values(to, step, stream, rows * width, values, size)
        return
    for row in range(rows):
        write_values(to + row * row_step, step, stream, width, values + row * width * size, size)


cdef inline void find_rows(const Job *job, const char *plane, const Block *block, Windows2 *windows) noexcept nogil:
    """Set the addresses of a block's rows, and what their indices begin with."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t rows = rows_of_plane(job), kd, kh
    cdef int i
    windows.pooled_row_bytes = g.stride[1] * job.full.axis_bytes[1]
    windows.pooled_rows, windows.row_windows = block.rows, block.width
    windows.has_indices = has_indices_in_lanes(job)
    windows.code_bytes = job.index_size if windows.has_indices else 1
    windows.base = base_of(job, block.d, 0, block.w) if windows.has_indices else 0
    windows.row_step = g.stride[1] * job.raster_steps[1] if windows.has_indices else 0
    windows.window_step = 2 * job.raster_steps[2] if windows.has_indices else 0
    for i in range(16):
        windows.ramp4[i] = <int32_t> (i * windows.window_step)
    for i in range(8):
        windows.ramp8[i] = i * windows.window_step
    windows.second_code, windows.is_swapped = <int32_t> job.index_steps[2], job.raster_axes[2] != 2
    windows.plane_row, windows.plane_rows = block.h % rows, rows
    windows.kernel_rows = 0
    for kd in range(g.kernel[0]):
        for kh in range(g.kernel[1]):
            windows.row[windows.kernel_rows] = (plane + (block.d * g.stride[0] + kd) * job.full.axis_bytes[0]
                                         + (block.h * g.stride[1] + kh) * job.full.axis_bytes[1]
                                         + 2 * block.w * job.item_size)
            windows.row_codes[windows.kernel_rows] = <int32_t> tap_offset(job, kd, kh, 0)
            windows.kernel_rows += 1


cdef inline void compare_block(const Job *job, int *nan_backoff, Windows2 *windows) noexcept nogil:
    """The maxima of a block's windows. After a NaN, or a negative zero of 16 bits, the next calls do not try the fast
    comparison."""
    cdef bint is_float = job.kind >= HALF_KIND
    if nan_backoff[0] == 0:
        if not compare_window2(windows, <int> job.item_size, is_float, False):
            return
        nan_backoff[0] = NAN_BACKOFF_CALLS + 1  # this one, too
    nan_backoff[0] -= 1
    compare_window2(windows, <int> job.item_size, True, True)  # only floats are odd


cdef inline void_noinline pool_window2_rows(const Job *job, Py_ssize_t plane, Block *block, const int64_t *ramp,
                                            int *nan_backoff) noexcept nogil:
    """Pool a block of windows of 2. Of short rows, as many as can be read in whole vectors; if none can, one from a
    copy. `block.rows` becomes the number of rows pooled."""
    cdef char[(LINE + 2 * VECTOR) * MAX_ITEM_BYTES] best_room
    cdef char[(LINE + 2 * VECTOR) * MAX_ITEM_BYTES] index_room
    cdef char[LINE + 2 * VECTOR] codes
    cdef char[4][2 * VECTOR_BYTES] row_room
    cdef char *indices = <char *> align_to_cache_line(index_room)
    cdef const char *from_plane = plane_address(&job.full, job.channels, plane)
    cdef Target target = target_of(job, plane, block.d, block.h, block.w, False)
    cdef Py_ssize_t results, row_bytes = 2 * block.width * job.item_size
    cdef bint are_decoded = are_codes_decoded(job), in_place
    cdef Windows2 windows
    cdef int k
    find_rows(job, from_plane, block, &windows)
    if row_bytes < 2 * VECTOR_BYTES:
        windows.pooled_rows = readable_steps(
            windows.row, windows.kernel_rows, block.rows, windows.pooled_row_bytes,
            end_of(job, from_plane, job.item_size) - 2 * VECTOR_BYTES)
        for k in range(windows.kernel_rows if windows.pooled_rows == 0 else 0):
            memset(row_room[k], 0, 2 * VECTOR_BYTES)
            windows.row[k] = <const char *> memcpy(row_room[k], windows.row[k], row_bytes)
        block.rows = windows.pooled_rows = max(windows.pooled_rows, 1)
    results = block.rows * block.width
    in_place = (are_decoded and not job.nontemporal and target.index_step == job.index_size
                and (block.rows == 1 or target.index_row == block.width * target.index_step))
    # The last row's vector may end behind the results.
    assert_in_block(results - block.width + max(block.width, vector_of(job.item_size)) <= LINE + VECTOR)
    windows.with_codes = target.indices != NULL
    windows.omits_nan, windows.infinity, windows.flip = job.omits_nan, job.infinity, job.flip
    windows.best = <char *> align_to_cache_line(best_room)
    windows.best_codes = <char *> codes if are_decoded else indices
    compare_block(job, nan_backoff, &windows)
    write_rows(target.values, target.value_step, target.value_row, job.nontemporal, block.rows, block.width,
               windows.best, job.item_size)
    if are_decoded:
        decode_item1(<const Decoder *> job.plan, target.indices if in_place else indices, codes, results,
                     <uint64_t> base_of(job, block.d, block.h, block.w), ramp)
    if target.indices != NULL and not in_place:
        write_rows(target.indices, target.index_step, target.index_row, job.nontemporal, block.rows, block.width,
                   indices, job.index_size)


cdef inline void pool_window2(const Job *job, Py_ssize_t task, Found *found, void *full, void *_) noexcept nogil:
    """One task: some rows of windows of 2 of all planes, or parts of them where they are long."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t parts = (g.pooled[2] + LINE - 1) // LINE, rows = g.pooled[0] * g.pooled[1]
    cdef Py_ssize_t lines = job.batch * job.channels * rows * parts
    cdef Py_ssize_t line = lines * task // job.tasks, end = lines * (task + 1) // job.tasks, row
    cdef int64_t[LINE + VECTOR] ramp
    cdef int nan_backoff = 0
    cdef Block block
    if are_codes_decoded(job):
        fill_window2_ramp(job, ramp)
    while line < end:
        row = line // parts
        block.d = row % rows // g.pooled[1]
        block.h = row % g.pooled[1]
        block.w = line % parts * LINE
        block.width = min(g.pooled[2] - block.w, <Py_ssize_t> LINE)
        block.rows = 1
        if block.width == g.pooled[2]:
            rows_at_once(job, end - line, &block)
        pool_window2_rows(job, row // rows, &block, ramp, &nan_backoff)
        line += block.rows
