# Filter, down the rows: the rows of each row of windows are combined where they lie, into one row of the stage.
from libc.string cimport memcpy

from cunpool._kernels.common.caches cimport cunpool_copy
from cunpool._kernels.common.checks cimport assert_in_block, branch_counted
from cunpool._kernels.common.geometry cimport clamp, Geometry
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.types cimport void_noinline, void_wide
from cunpool._kernels.pooling.compare cimport first_tap, whole_vectors
from cunpool._kernels.pooling.runs cimport best_of_runs, Comparison, has_odd_elements, MAX_RUNS, VECTOR_BYTES

cdef enum:
    DIRECT_ROWS = 6     # As many rows are combined at once with any stride. (speed: 512 x 512, 5 x 5 and 7 x 7)
    DIRECT_STRIDES = 4  # Rows of more strides are combined as running maxima. (speed)
    MANY_DIRECT_STRIDES = 2     # The same for more rows than are combined at once. (speed: 512 x 512, 40 x 3 / 10 x 1)
    NO_GROUP = -1       # There are no running maxima yet.


cdef struct FilterLayer:
    # The rows of the windows in one layer of a block, and the buffers.
    Py_ssize_t depth        # Position of the windows' first layer of elements. Negative in padding.
    Py_ssize_t first_row    # Position of their first row.
    const char *corner      # First element that the array has in row 0 of layer 0.
    const char *limit       # End of the plane's memory: nothing behind it is read.
    Py_ssize_t low          # Elements of padding before a row.
    Py_ssize_t elements     # Elements of a row.
    Py_ssize_t pitch        # Elements from one row of the stage to the next.
    bint is_running         # Rows are combined as running maxima.
    bint is_stacked         # Short rows that follow each other are combined as one.
    Py_ssize_t row_bytes    # Bytes of a buffered row.
    char *padding           # A row of padding.
    char *running           # Running maxima: a row for each row of a window, and one more.
    Py_ssize_t group        # Group of rows that has these running maxima.
    Py_ssize_t prefix_rows  # Rows of the next group whose maxima are in the last one.
    char *stage
    char *other             # Second half of the stage: each pass reads one and writes the other.


cdef inline void_wide copy_rows(char *into, Py_ssize_t into_step, const char *rows, Py_ssize_t step,
                                Py_ssize_t count, Py_ssize_t size) noexcept nogil:
    """Copy some rows, as one if they follow each other."""
    cdef Py_ssize_t row
    if into_step == size and step == size:
        size *= count
        count = 1
    for row in range(count):
        cunpool_copy(into + row * into_step, rows + row * step, size)


cdef inline bint is_direct_down(const Geometry *g) noexcept nogil:
    """Whether the rows of each window are combined at once, and not as running maxima."""
    cdef Py_ssize_t rows = g.kernel[0] * g.kernel[1], apart = 1
    cdef int axis
    for axis in range(2):
        apart *= g.kernel[axis] if g.pooled[axis] == 1 else g.stride[axis]
    if branch_counted("windows of few strides of rows", rows <= apart * (DIRECT_STRIDES if rows <= MAX_RUNS
                                                                        else MANY_DIRECT_STRIDES)):
        return True
    if g.kernel[0] > 1 or g.dilation[1] > 1:
        return rows <= MAX_RUNS
    return branch_counted("windows of few rows", rows <= DIRECT_ROWS)


cdef inline const char *source_row(const Job *job, const FilterLayer *layer, Py_ssize_t d, Py_ssize_t h) noexcept nogil:
    """A row of the array, or of padding."""
    if 0 <= d < job.g.full[0] and 0 <= h < job.g.full[1]:
        return layer.corner + d * job.full.axis_bytes[0] + h * job.full.axis_bytes[1]
    return layer.padding


cdef inline bint has_odd_rows(const Job *job, const Comparison *how, const FilterLayer *layer, Py_ssize_t first,
                              Py_ssize_t last) noexcept nogil:
    """Whether rows `first` to before `last` of a block, in all layers of its windows, have a NaN or a negative zero."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t row_bytes = job.full.axis_bytes[1], elements = layer.elements, size = job.item_size, d, k, rows
    cdef const char *row
    first = max(layer.first_row + first, 0)
    rows = min(layer.first_row + last, g.full[1]) - first
    if not how.is_float or rows <= 0:
        return False
    # As one row, with what lies between, where that belongs to the array and is little.
    if row_bytes == job.full.axis_bytes[2] * g.full[2] and row_bytes - elements * size <= row_bytes // 8:
        elements += (rows - 1) * (row_bytes // size)
        rows = 1
    for k in range(g.kernel[0]):
        d = layer.depth + k * g.dilation[0]
        if not 0 <= d < g.full[0]:
            continue
        row = layer.corner + d * job.full.axis_bytes[0] + first * row_bytes
        for _ in range(rows):
            if has_odd_elements(how, row, elements):
                return True
            row += row_bytes
    return False


cdef inline void_noinline combine_window_rows(const Job *job, const Comparison *how, const FilterLayer *layer,
                                              Py_ssize_t row, Py_ssize_t elements, char *into) noexcept nogil:
    """Combine the rows of one row of windows. With more `elements` than a row has, the next rows follow, those too
    that the stride skips."""
    cdef const Geometry *g = &job.g
    cdef Py_ssize_t k, tap
    cdef const char *runs[MAX_RUNS]
    cdef int count = 0
    cdef bint are_readable = True
    for k in range(g.kernel[0]):
        for tap in range(g.kernel[1]):
            if count == MAX_RUNS:
                best_of_runs(how, runs, count, into, elements, are_readable)
                runs[0], count = into, 1
            runs[count] = source_row(job, layer, layer.depth + k * g.dilation[0],
                                     layer.first_row + row * g.stride[1] + tap * g.dilation[1])
            if runs[count] != layer.padding:
                are_readable &= runs[count] + VECTOR_BYTES <= layer.limit
                count += 1
    assert_in_block(count > 0)
    # Elements behind a short row are in the array. The next row overwrites the maxima of these elements.
    best_of_runs(how, runs, count, into, elements, are_readable)


cdef inline void_noinline run_down(const Job *job, const Comparison *how, const FilterLayer *layer, Py_ssize_t h,
                                   char *rest, char *into, bint is_first) noexcept nogil:
    """The maxima of row `h` and of the running maxima in `rest`, unless it is the first one."""
    cdef const char *runs[MAX_RUNS]
    runs[0] = source_row(job, layer, layer.depth, h)
    runs[1] = rest
    assert_in_block(max(layer.elements * job.item_size, <Py_ssize_t> VECTOR_BYTES) <= layer.row_bytes)
    best_of_runs(how, runs, 1 if is_first else 2, into, layer.elements,
                 runs[0] == layer.padding or runs[0] + VECTOR_BYTES <= layer.limit)


cdef inline void running_row(const Job *job, const Comparison *how, FilterLayer *layer, Py_ssize_t row,
                             char *into) noexcept nogil:
    """The rows of one row of windows, by running maxima, for which a window's height does not matter.

    Rows are grouped by the height of a window. A window has the last rows of one group and the first ones of the next:

        rows        0  1  2 | 3  4  5       windows of 3 rows; one that begins in row 1
        from the end   [---]|               maxima of rows 1 to 2, for each row of the group: `running`
        from the begin      |[]             maximum of row 3, which grows: the last row of `running`
    """
    cdef Py_ssize_t kernel = job.g.kernel[1], first = row * job.g.stride[1], i
    cdef Py_ssize_t group = first // kernel, offset = first - group * kernel
    cdef char *prefix = layer.running + kernel * layer.row_bytes
    cdef const char *runs[MAX_RUNS]
    first = layer.first_row + group * kernel
    if group != layer.group:
        layer.group, layer.prefix_rows = group, 0
        for i in range(kernel - 1, offset - 1, -1):
            run_down(job, how, layer, first + i, layer.running + (i + 1) * layer.row_bytes,
                     layer.running + i * layer.row_bytes, i == kernel - 1)
    while layer.prefix_rows < offset:
        run_down(job, how, layer, first + kernel + layer.prefix_rows, prefix, prefix, layer.prefix_rows == 0)
        layer.prefix_rows += 1
    runs[0], runs[1] = layer.running + offset * layer.row_bytes, prefix
    best_of_runs(how, runs, 2 if offset else 1, into, layer.elements, True)


cdef inline void combine_rows(const Job *job, const Comparison *how, FilterLayer *layer, Py_ssize_t row,
                              Py_ssize_t rows, char *stage) noexcept nogil:
    """Combine the rows of some rows of windows into rows of the stage, from `stage` on, with the padding between
    them."""
    cdef Py_ssize_t size = job.item_size, pitch = layer.pitch, gap = pitch - layer.elements
    cdef Py_ssize_t stride = job.g.stride[1], end = row + rows, first = row, last = row, i, k
    cdef char *to = stage + layer.low * size
    assert_in_block(whole_vectors(gap, size) * size <= layer.row_bytes)
    memcpy(stage, layer.padding, layer.low * size)
    # Windows that reach over neither the upper nor the lower edge are combined at once: all rows follow each other in
    # memory, with those that the stride leaves out.
    if layer.is_stacked:
        first = clamp(first_tap(layer.first_row, stride), row, end)
        last = clamp(first_tap(layer.first_row + (job.g.kernel[1] - 1) * job.g.dilation[1] - job.g.full[1], stride),
                     first, end)
    if first < last:
        combine_window_rows(job, how, layer, first, ((last - first - 1) * stride + 1) * layer.elements, layer.other)
    for i in range(row, end):
        if layer.is_running:
            running_row(job, how, layer, i, to)
        elif not first <= i < last:
            combine_window_rows(job, how, layer, i, layer.elements, to)
        if i == end - 1:
            gap -= layer.low
        # Padding behind this row and before the next: in whole vectors, whose rest the next row overwrites.
        for k in range(0, gap * size, 16):
            memcpy(to + layer.elements * size + k, layer.padding + k, 16)
        to += pitch * size
    copy_rows(stage + (layer.low + (first - row) * pitch) * size, pitch * size, layer.other,
              stride * layer.elements * size, last - first, layer.elements * size)
