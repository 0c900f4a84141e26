# Window2: windows of 2 side by side in contiguous rows. They are compared where they lie, and short rows are stored
# together.
from libc.stdint cimport int32_t, uint64_t

from cunpool._kernels.common.arrays cimport plane_address
from cunpool._kernels.common.caches cimport align_to_cache_line
from cunpool._kernels.common.checks cimport assert_in_block, branch_counted
from cunpool._kernels.common.geometry cimport Geometry
from cunpool._kernels.common.job cimport are_all_contiguous, HALF_KIND, Job
from cunpool._kernels.common.tasks cimport Found
from cunpool._kernels.common.types cimport item1, void_noinline, void_wide
from cunpool._kernels.pooling.compare cimport (
    end_of, expect_nan, expects_no_nan, tap_offset, vector_of)
from cunpool._kernels.pooling.write cimport (
    base_of, LINE, MAX_ITEM_BYTES, Target, target_of, VECTOR, write_indices, write_values)

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
        int32_t row_offsets[4]
        char *best
        char *best_codes
    bint compare_window2 "cunpool_compare_window2"(const Windows2 *windows, int item_size, bint is_float,
                                                   const char *limit, bint careful) noexcept nogil

cdef enum:
    SHORT_ROW_MAX_WINDOWS = 32          # Rows of up to this many windows are stored together. (speed)
    SHORT_BYTE_ROW_MAX_WINDOWS = 128    # The same for bytes. (speed)
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
    if not branch_counted("contiguous rows of windows of two", job.full.axis_bytes[2] == job.item_size):
        return "rows are not contiguous"
    return NULL


cdef inline Py_ssize_t rows_of_plane(const Job *job) noexcept nogil:
    """Pooled rows of a layer of each plane, also if planes are stacked."""
    return job.rows_per_plane // job.g.stride[1] if job.rows_per_plane else job.g.pooled[1]


cdef inline bint can_store_rows_together(const Job *job) noexcept nogil:
    """Whether the indices of several rows are stored together: rows are short, and the offset of each window from the
    block's first one fits 32 bits. Bytes profit most: their codes have to become offsets anyway."""
    cdef const Geometry *g = &job.g
    return (branch_counted("short rows of windows of two", g.pooled[2] <= (
                SHORT_BYTE_ROW_MAX_WINDOWS if job.item_size == 1 else SHORT_ROW_MAX_WINDOWS))
            and job.indices.data != NULL and not job.code_size and g.stride[1] < 1 << 30
            and job.raster_steps[1] < 1 << 20
            and (tap_offset(job, g.kernel[0] - 1, g.kernel[1] - 1, g.kernel[2] - 1)
                 <= 0x7FFFFFFF - LINE * g.stride[1] * job.raster_steps[1]))


cdef inline void_noinline fill_window_offsets(const Job *job, int32_t *window_offsets) noexcept nogil:
    """The offset of each window of a block of short rows from the first one."""
    cdef Py_ssize_t width = job.g.pooled[2], rows = rows_of_plane(job), row, i
    for row in range(min(LINE // width, job.g.pooled[1])):
        for i in range(width):
            window_offsets[row * width + i] = <int32_t> (row % rows * job.g.stride[1] * job.raster_steps[1] + 2 * i)


cdef inline void_noinline rows_at_once(const Job *job, Py_ssize_t most, bint has_table, Block *block) noexcept nogil:
    """How many rows are pooled together. With a table of begins, the rows of a tall plane are some of one plane, or all
    of several: then the table serves each block."""
    cdef Py_ssize_t rows = rows_of_plane(job), rows_before = block.h % rows
    block.rows = min(LINE // block.width, min(most, job.g.pooled[1] - block.h))
    if has_table and block.rows > rows - rows_before:
        block.rows = rows - rows_before if rows_before else block.rows // rows * rows


cdef inline void write_rows(char *to, Py_ssize_t step, Py_ssize_t row_step, bint stream, Py_ssize_t rows,
                            Py_ssize_t width, const char *values, Py_ssize_t size) noexcept nogil:
    """Store the values, or codes, of some rows of windows, as one row if they follow each other."""
    cdef Py_ssize_t row
    if row_step == width * step:
        write_values(to, step, stream, rows * width, values, size)
        return
    for row in range(rows):
        write_values(to + row * row_step, step, stream, width, values + row * width * size, size)


cdef inline void write_window2_indices(const Job *job, const Block *block, Target *target, bint has_table,
                            const int32_t *offset) noexcept nogil:
    """Store the indices of a block: as one row, if rows follow each other and offsets count from the block's first
    window, or if indices are codes."""
    cdef Py_ssize_t base = base_of(job, block.d, block.h, block.w), row
    if target.index_row == block.width * target.index_step and (job.code_size or has_table):
        write_indices(job, target, base, 0, block.rows * block.width, offset)
        return
    for row in range(block.rows):
        if job.rows_per_plane:
            base = base_of(job, block.d, block.h + row, block.w)
        write_indices(job, target, base, 2, block.width, offset + row * block.width)
        target.indices += target.index_row
        base += job.g.stride[1] * job.raster_steps[1]


cdef inline void_wide offsets_of_codes(const item1 *code, const int32_t *offsets, int rows, Py_ssize_t count,
                                       int32_t *offset) noexcept nogil:
    """Offsets of windows of 2 from their codes, and the offsets of their rows."""
    cdef int32_t below = offsets[1] - 2 if rows > 1 else 0, behind = offsets[2] - 4 if rows > 2 else 0
    cdef Py_ssize_t i
    if rows > 2:
        for i in range(count):
            offset[i] = code[i] + below * (code[i] >> 1 & 1) + behind * (code[i] >> 2)
    else:
        for i in range(count):
            offset[i] = code[i] + below * (code[i] >> 1)


cdef inline void find_rows(const Job *job, const char *plane, const Block *block, Windows2 *windows) noexcept nogil:
    """Set the addresses of a block's rows."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t kd, kh
    windows.pooled_row_bytes = g.stride[1] * job.full.axis_bytes[1]
    windows.pooled_rows, windows.row_windows = block.rows, block.width
    windows.kernel_rows = 0
    for kd in range(g.kernel[0]):
        for kh in range(g.kernel[1]):
            windows.row[windows.kernel_rows] = (plane + (block.d * g.stride[0] + kd) * job.full.axis_bytes[0]
                                         + (block.h * g.stride[1] + kh) * job.full.axis_bytes[1]
                                         + 2 * block.w * job.item_size)
            windows.row_offsets[windows.kernel_rows] = <int32_t> tap_offset(job, kd, kh, 0)
            windows.kernel_rows += 1


cdef inline void compare_block(const Job *job, const char *limit, int *nan_backoff, Windows2 *windows) noexcept nogil:
    """The maxima of a block's windows. After a NaN, or a negative zero of 16 bits, the next calls do not try the fast
    comparison."""
    cdef bint is_float = job.kind >= HALF_KIND
    if expects_no_nan(nan_backoff):
        if not compare_window2(windows, <int> job.item_size, is_float, limit, False):
            return
        expect_nan(nan_backoff)
    compare_window2(windows, <int> job.item_size, True, limit, True)  # only floats are odd


cdef inline void_noinline pool_window2_rows(const Job *job, Py_ssize_t plane, const Block *block,
                                            const int32_t *window_offsets, int *nan_backoff) noexcept nogil:
    """Pool a block of windows of 2. With `window_offsets` NULL, rows are stored one by one."""
    cdef char[(LINE + 2 * VECTOR) * MAX_ITEM_BYTES] best_room
    cdef int32_t[LINE + 2 * VECTOR] offset_room
    cdef item1[LINE + 2 * VECTOR] code_room
    cdef int32_t *offset = <int32_t *> align_to_cache_line(offset_room)
    cdef const char *from_plane = plane_address(&job.full, job.channels, plane)
    cdef Target target = target_of(job, plane, block.d, block.h, block.w, False)
    cdef Py_ssize_t results = block.rows * block.width, i
    cdef bint has_codes = job.item_size < 4
    cdef Windows2 windows
    # The last row's vector may end behind the results.
    assert_in_block(results - block.width + max(block.width, vector_of(job.item_size)) <= LINE + VECTOR)
    find_rows(job, from_plane, block, &windows)
    windows.with_codes = target.indices != NULL
    windows.omits_nan, windows.infinity, windows.flip = job.omits_nan, job.infinity, job.flip
    windows.best = <char *> align_to_cache_line(best_room)
    windows.best_codes = <char *> align_to_cache_line(code_room) if has_codes else <char *> offset
    compare_block(job, end_of(job, from_plane, job.item_size), nan_backoff, &windows)
    write_rows(target.values, target.value_step, target.value_row, job.nontemporal, block.rows, block.width,
               windows.best, job.item_size)
    if target.indices == NULL:
        return
    if has_codes and job.code_size == 1:
        write_rows(target.indices, target.index_step, target.index_row, job.nontemporal, block.rows, block.width,
                   windows.best_codes, 1)
        return
    if has_codes:
        offsets_of_codes(<const item1 *> windows.best_codes, windows.row_offsets, windows.kernel_rows, results, offset)
    if target.index_row != block.width * target.index_step:
        window_offsets = NULL
    for i in range(results if window_offsets != NULL else 0):
        offset[i] += window_offsets[i]
    write_window2_indices(job, block, &target, window_offsets != NULL, offset)


cdef inline void pool_window2(const Job *job, Py_ssize_t task, Found *found, void *full, void *_) noexcept nogil:
    """One task: some rows of windows of 2 of all planes, or parts of them where they are long."""
    cdef const Geometry *g = &job.g
    cdef const bint *stores_together = <const bint *> job.plan
    cdef Py_ssize_t parts = (g.pooled[2] + LINE - 1) // LINE, rows = g.pooled[0] * g.pooled[1]
    cdef Py_ssize_t lines = job.batch * job.channels * rows * parts
    cdef Py_ssize_t line = lines * task // job.tasks, end = lines * (task + 1) // job.tasks, row
    cdef int32_t window_offsets_room[LINE]
    cdef const int32_t *window_offsets = NULL
    cdef int nan_backoff = 0
    cdef Block block
    if stores_together[0]:
        fill_window_offsets(job, window_offsets_room)
        window_offsets = window_offsets_room
    while line < end:
        row = line // parts
        block.d = row % rows // g.pooled[1]
        block.h = row % g.pooled[1]
        block.w = line % parts * LINE
        block.width = min(g.pooled[2] - block.w, <Py_ssize_t> LINE)
        block.rows = 1
        if block.width == g.pooled[2]:
            rows_at_once(job, end - line, window_offsets != NULL, &block)
        pool_window2_rows(job, row // rows, &block, window_offsets, &nan_backoff)
        line += block.rows
