# One call as its tasks receive it.
cimport numpy as cnp

from cunpool._kernels.common.arrays cimport flat_stride, View
from cunpool._kernels.common.checks cimport met
from cunpool._kernels.common.geometry cimport cells_of, Geometry, size_of

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
