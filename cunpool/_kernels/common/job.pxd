# What the kernels share: element types, the geometry, an array as pointer and strides, and what one call is to do.
# Everything here is inline, so that each extension module compiles its own copy. It is long because a third of it is
# what compilers and checked builds ask for, which would have no other user.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
cimport numpy as cnp

cdef extern from "_kernels/common/job.h":
    bint unlikely(bint) noexcept nogil  # Cython's own
    struct cunpool_condition:
        const char *name
        long long times[2]
    long cunpool_conditions() noexcept nogil
    cunpool_condition condition_at "cunpool_condition"(long) noexcept nogil
    bint met "cunpool_met"(const char *what, bint condition) noexcept nogil
    void must "cunpool_check"(bint) noexcept nogil
    void cunpool_prefetch(const char *address) noexcept nogil
    void cunpool_prefetch_write(const char *address) noexcept nogil
    void cunpool_keep() noexcept nogil
    void cunpool_copy(char *to, const char *frm, size_t size) noexcept nogil
    void cunpool_stream(char *to, const char *frm, size_t size) noexcept nogil
    void cunpool_fence() noexcept nogil

    # As a return type it marks a function to be compiled once per vector width. Only void functions can carry it:
    # Cython declares a variable of any other return type.
    ctypedef void cloned "CUNPOOL_CLONED void"
    ctypedef void inlined "CUNPOOL_INLINED void"
    ctypedef void noinline "CUNPOOL_NOINLINE void"
    ctypedef void seldom "CUNPOOL_SELDOM void"
    ctypedef uint8_t item1
    ctypedef uint16_t item2
    ctypedef uint32_t item4
    ctypedef uint64_t item8
    ctypedef struct item16:
        item8 low, high
    ctypedef float float4
    ctypedef double float8
    ctypedef struct half:
        item2 bits
    ctypedef struct bhalf:
        item2 bits
    ctypedef int32_t index4
    ctypedef int64_t index8

cdef enum:
    CACHE_LINE = 64
    AHEAD = 1 << 12         # large arrays are fetched so many bytes before they are needed,
    PIECE = 64              # for so many windows at a time,
    SHORT_STEPS = 1 << 11   # or rows of so many bytes together where they are short,
    LONG_ROW = 1 << 18      # and rows ahead of at most so many: longer ones would not stay in a second cache until then
    STREAM = 3 << 23        # bytes of all three arrays that would not stay in the caches anyway
    GIL_BYTES = 1 << 14     # releasing the GIL costs more than moving, or reading, this

ctypedef fused item:
    item1
    item2
    item4
    item8
    item16

# What is put into a plane: an item, which takes the place of what was there, or a number, which is added.
ctypedef fused entry:
    item1
    item2
    item4
    item8
    item16
    half
    bhalf
    float4
    float8

ctypedef fused index:
    index4
    index8

cdef struct Geometry:
    # Per axis (depth, height, width; 1d and 2d have unit leading axes). `full` is the side with all the cells,
    # `pooled` the side with one cell for each window.
    Py_ssize_t full[3]
    Py_ssize_t pooled[3]
    Py_ssize_t kernel[3]
    Py_ssize_t stride[3]
    Py_ssize_t padding[3]
    Py_ssize_t dilation[3]

cdef struct View:
    # An array as the kernels see it: strides in bytes, as of a contiguous array for axes that it does not have.
    char *data
    Py_ssize_t n
    Py_ssize_t c
    Py_ssize_t axis[3]
    bint even               # whether all planes are known to be `c` bytes apart, those of the next n too

cdef struct Job:
    # All that one call hands to its tasks. Which of the views is read and which is written is the kernel's affair.
    Geometry g
    View pooled
    View indices
    View full
    Py_ssize_t batch
    Py_ssize_t channels
    Py_ssize_t lanes        # planes worked on side by side: 1, or all channels where they are neighbours in memory
    Py_ssize_t tasks
    Py_ssize_t splits       # tasks for each plane (or for all lanes), where these are few
    Py_ssize_t flat         # bytes from one cell of a full plane to the next in raster order, 0 where it varies
    double per_width        # there: one by the cells of a row, to divide by them, or 0 for planes too large for that,
    double per_height       # and by the rows of a layer
    int code_size           # bytes of a window code, 0 where indices are places in the plane
    int index_size          # bytes of an index that pooling writes, code or place
    Py_ssize_t place_steps[3]   # what an index grows by from one cell of a window to the next, per axis,
    Py_ssize_t raster[3]    # and how many cells, in raster order, that is where windows are not dilated
    int order[3]            # the axes in raster order, which another than the last may have been taken for the width of
    Py_ssize_t height       # rows of each plane, where several have been made into a tall one, else 0
    bint stream             # whether results are so large that they go past the caches,
    Py_ssize_t kept         # all but so many bytes of them
    bint cleared            # whether all planes of the result have been cleared together
    bint banded             # whether an index is expected among the rows of its own window
    Py_ssize_t ahead        # bytes ahead of which is fetched what is gathered from, or values that are put; 0: nothing
    bint gapless            # pooling: whether what follows an element in memory, up to the plane's end, is the array's
    const void *moves       # the loops for items of this kind, chosen
    bint wide               # by whether places have 64 bits
    const void *codes       # how window codes are decoded, where indices are that,
    const void *way         # and what belongs to the way taken alone
    char *scratch           # memory for tasks to work in: each share of them has a part of its own
    Py_ssize_t scratch_bytes    # of a share

cdef inline Geometry geometry_of(tuple sizes):
    cdef Geometry g
    cdef int axis
    for axis in range(3):
        g.full[axis] = sizes[axis]
        g.pooled[axis] = sizes[3 + axis]
        g.kernel[axis] = sizes[6 + axis]
        g.stride[axis] = sizes[9 + axis]
        g.padding[axis] = sizes[12 + axis]
        g.dilation[axis] = sizes[15 + axis]
        # A stride that a single window has no use for, and the dilation of a single cell, may be as large as 2**60.
        # What is computed with them anyway, and not used, fits 64 bits if they are no larger than any that has a use.
        if g.pooled[axis] <= 1:
            g.stride[axis] = min(g.stride[axis], g.full[axis] + g.padding[axis] + 1)
        if g.kernel[axis] == 1:
            g.dilation[axis] = 1
    return g


cdef inline View view_of(cnp.ndarray array, int spatial):
    """`array` of `spatial` trailing axes behind (N, C) or (C,)."""
    cdef View view
    cdef int lead = cnp.PyArray_NDIM(array) - spatial, axis
    cdef cnp.npy_intp *strides = cnp.PyArray_STRIDES(array)
    cdef cnp.npy_intp *shape = cnp.PyArray_DIMS(array)
    cdef Py_ssize_t inner = cnp.PyArray_ITEMSIZE(array)
    view.data = <char *> cnp.PyArray_DATA(array)
    view.n = strides[0] if lead == 2 else 0
    view.c = strides[lead - 1]
    view.even = lead == 1 or shape[0] == 1 or view.n == shape[1] * view.c
    for axis in range(2, -1, -1):
        # The stride of an axis of one entry has no meaning, and NumPy lets it be anything.
        view.axis[axis] = inner
        if axis >= 3 - spatial and shape[lead + axis - 3 + spatial] != 1:
            view.axis[axis] = strides[lead + axis - 3 + spatial]
            inner = view.axis[axis] * shape[lead + axis - 3 + spatial]
    return view


cdef inline char *plane_of(const View *view, Py_ssize_t channels, Py_ssize_t plane) noexcept nogil:
    if view.even:
        return view.data + plane * view.c
    return view.data + plane // channels * view.n + plane % channels * view.c


cdef inline char *cell_of(const View *view, Py_ssize_t channels, Py_ssize_t plane, Py_ssize_t d, Py_ssize_t h,
                          Py_ssize_t w) noexcept nogil:
    return plane_of(view, channels, plane) + d * view.axis[0] + h * view.axis[1] + w * view.axis[2]


cdef inline void count_planes(Job *job, cnp.ndarray full, int spatial):
    """How many planes the job has. Planes have no order: those of a batch that are neighbours, as in Fortran order, are
    taken for channels."""
    cdef View **views = [&job.full, &job.pooled, &job.indices]
    cdef Py_ssize_t item_size = cnp.PyArray_ITEMSIZE(full)
    cdef int count = 3 if job.indices.data != NULL else 2, lead = cnp.PyArray_NDIM(full) - spatial, k
    cdef bint even = True, neighbours
    job.scratch = NULL
    job.scratch_bytes = 0
    job.batch = cnp.PyArray_DIM(full, 0) if lead == 2 else 1
    job.channels = cnp.PyArray_DIM(full, lead - 1)
    neighbours = job.batch > 1 and job.full.n == item_size
    for k in range(3):  # but not windows that slide over an array: their cells are neighbours too
        neighbours &= job.g.full[k] == 1 or size_of(job.full.axis[k]) > item_size
    if not met("planes of a batch that are neighbours", neighbours):
        return
    for k in range(count):
        views[k].n, views[k].c = views[k].c, views[k].n
        even &= job.channels == 1 or views[k].n == job.batch * views[k].c
    job.batch, job.channels = job.channels, job.batch
    if met("a batch and channels that follow each other", even):
        job.channels *= job.batch
        job.batch = 1
    for k in range(count):
        views[k].even = even


cdef inline bint interleaved(const Job *job, const View *view, Py_ssize_t size) noexcept nogil:
    """Whether the channels are neighbours, and the columns of all of them."""
    return view.c == size and view.axis[2] == job.channels * size


cdef inline Py_ssize_t flat_stride(const View *view, const Py_ssize_t *shape) noexcept nogil:
    """Bytes between neighbours in raster order where that is the same everywhere in a plane, else 0."""
    cdef Py_ssize_t step = 0, cells = 1
    cdef int axis
    for axis in range(2, -1, -1):
        if shape[axis] == 1:
            continue
        if cells == 1:
            step = view.axis[axis]
        elif view.axis[axis] != step * cells:
            return 0
        cells *= shape[axis]
    return step


cdef inline bint fill_memory(const Py_ssize_t *count, const Py_ssize_t *step, int axes,
                             Py_ssize_t size) noexcept nogil:
    """Whether elements of `size` bytes fill the memory that they lie in, each once: in some order of the axes, and in
    either direction, they follow each other without gaps."""
    cdef Py_ssize_t reach = size, total = size
    cdef int axis
    for axis in range(axes):
        total *= count[axis]
    for _ in range(axes):
        for axis in range(axes):
            if count[axis] > 1 and size_of(step[axis]) == reach:
                reach *= count[axis]
    return reach == total


cdef inline bint full_planes_follow(const Job *job) noexcept nogil:
    """Whether cells are as far apart everywhere, in a full plane and from one to the next."""
    return job.flat and job.full.even and job.full.c == cells_of(job.g.full) * job.flat


cdef inline bint follows(const Job *job, const View *view, const Py_ssize_t *shape,
                         Py_ssize_t item_size) noexcept nogil:
    """Whether an array is contiguous, all planes of it."""
    return (flat_stride(view, shape) == item_size and view.c == cells_of(shape) * item_size
            and (job.batch == 1 or view.n == job.channels * view.c))


cdef inline bint all_follow(const Job *job, Py_ssize_t item_size, Py_ssize_t index_size) noexcept nogil:
    """Whether all arrays of the job are contiguous."""
    return (follows(job, &job.full, job.g.full, item_size) and follows(job, &job.pooled, job.g.pooled, item_size)
            and (job.indices.data == NULL or follows(job, &job.indices, job.g.pooled, index_size)))


cdef inline void *aligned(void *room) noexcept nogil:
    """Where the next cache line begins: vectors that lie in two take twice as long."""
    return <void *> (<uintptr_t> room + CACHE_LINE - 1 & ~<uintptr_t> (CACHE_LINE - 1))


cdef inline void fetch_ends(const char *out, Py_ssize_t size) noexcept nogil:
    """Have the cache lines read that are written past the caches in part: what follows would wait for them."""
    if <uintptr_t> out % CACHE_LINE:
        cunpool_prefetch_write(out)
    if <uintptr_t> (out + size) % CACHE_LINE:
        cunpool_prefetch_write(out + size)


cdef inline void fetch(const char *start, Py_ssize_t size) noexcept nogil:
    """Have the processor read what will be needed soon."""
    cdef Py_ssize_t line
    for line in range((size + CACHE_LINE - 1) // CACHE_LINE):
        cunpool_prefetch(start + line * CACHE_LINE)


cdef inline Py_ssize_t whole_steps(Py_ssize_t step) noexcept nogil:
    """How many bytes ahead to fetch, in steps from one row to be worked on to the next."""
    return (AHEAD + step - 1) // step * step


cdef inline Py_ssize_t size_of(Py_ssize_t step) noexcept nogil:
    """Of a step, which is negative in reversed arrays."""
    return step if step > 0 else -step


cdef inline Py_ssize_t clamp(Py_ssize_t x, Py_ssize_t low, Py_ssize_t high) noexcept nogil:
    return low if x < low else high if x > high else x


cdef inline Py_ssize_t cells_of(const Py_ssize_t *shape) noexcept nogil:
    return shape[0] * shape[1] * shape[2]


cdef inline dict conditions_met():
    """How often each condition of this module did not hold, and did: of a checked build; else nothing."""
    cdef dict met_so_far = {}
    cdef cunpool_condition condition
    cdef long i
    for i in range(cunpool_conditions()):
        condition = condition_at(i)
        name = condition.name.decode()
        no, yes = met_so_far.get(name, (0, 0))
        met_so_far[name] = no + condition.times[0], yes + condition.times[1]
    return met_so_far
