# One call as its tasks receive it.
from libc.stdint cimport uint64_t
from libc.string cimport memset
cimport numpy as cnp

from cunpool._kernels.common.arrays cimport raster_stride, View, view_of
from cunpool._kernels.common.checks cimport branch_counted
from cunpool._kernels.common.geometry cimport absolute, element_count, Geometry, geometry_of

cdef enum:  # element types of pooling, in the order of KINDS in _orders.py; those with NaN begin with HALF_KIND
    INT1_KIND, INT2_KIND, INT4_KIND, INT8_KIND, ITEM1_KIND, ITEM2_KIND, ITEM4_KIND, ITEM8_KIND
    HALF_KIND, BHALF_KIND, FLOAT4_KIND, FLOAT8_KIND


cdef struct Job:
    # One call. A kernel reads some of the three arrays and writes the others.
    # The first part is filled for every operation. The others belong to the operations that they name.
    Geometry g
    View full                       # the array with all elements
    View pooled                     # the array with one element for each window
    View indices                    # of the shape of `pooled`; `data` is NULL in pooling without indices
    Py_ssize_t batch                # N
    Py_ssize_t channels             # C
    Py_ssize_t tasks                # parts of the call that threads take one by one
    Py_ssize_t item_size            # bytes of an element
    int threads                     # that the front end allows
    int index_size                  # bytes of an index or code
    int code_size                   # bytes of a window code, 0 where indices are flat in their plane
    bint nontemporal                # results are larger than L3 and are written by non-temporal stores
    const void *plan                # the chosen method's own structure
    char *scratch                   # memory for tasks to work in; share number i starts at i * scratch_bytes
    Py_ssize_t scratch_bytes

    # Pooling
    int kind                        # the element type, a position in KINDS of _orders.py
    int order_kind                  # the kind whose order numbers are compared in once their bits are flipped
    uint64_t flip                   # XORed with an element's bits: minima become maxima, unsigned integers signed ones
    uint64_t lowest                 # bits of an element that loses to all others
    uint64_t nan                    # bits of a NaN, 0 if the type has none
    int infinity                    # bits of infinity, if the type is a 16-bit float
    bint omits_nan                  # NaN is less than every number, not greater
    Py_ssize_t index_steps[3]       # per axis, added to an index from one element of a window to the next
    Py_ssize_t raster_steps[3]      # per axis, elements in raster order from one element of the plane to the next
    int raster_axes[3]              # which of the caller's axes each is: 0, 1, 2 unless the width is swapped
    Py_ssize_t rows_per_plane       # where all planes are stacked to a tall one, the rows of each; else 0
    bint gapless                    # all bytes between two elements of a plane belong to the array

    # Unpooling and gradients
    Py_ssize_t interleaved_planes   # planes worked on side by side: all channels where they are neighbours, else 1
    Py_ssize_t parts_per_plane      # tasks for each plane, or for all interleaved ones
    Py_ssize_t raster_stride_bytes  # `raster_stride` of the full array
    double inv_width                # 1 divided by the row's elements; 0 where a plane has too many for exact quotients
    double inv_height               # 1 divided by a layer's rows
    const char *background          # stored where no index points, with the strides of `full`; NULL for one element
    uint64_t background_bits        # of one element of up to 8 bytes that is stored everywhere else, such as zero
    bint has_background             # of other elements than zeros
    bint in_place                   # NumPy lays a background of other elements than zeros before tasks begin
    bint is_laid                    # the whole result is zero, or has its background, before tasks begin
    const void *ops                 # the loops for elements of this kind
    bint gathers                    # elements are read where indices point, not stored there
    const void *blocks              # how windows are divided into blocks


cdef inline bint are_planes_uniform(const Job *job) noexcept nogil:
    """Whether all planes of N x C are equally far apart, in each array."""
    return (job.full.uniform_planes and job.pooled.uniform_planes
            and (job.indices.data == NULL or job.indices.uniform_planes))


cdef inline void begin_job(Job *job, tuple sizes, cnp.ndarray full, cnp.ndarray pooled, cnp.ndarray indices,
                           int spatial, bint codes, int threads):
    """Fill the geometry, arrays, sizes and threads of a job, and the rest with zeros. `indices` is an array or None.

    N and C change places if the elements of N are neighbours in memory, as in Fortran order. Planes have no order, so
    the results are the same.
    """
    cdef int lead = cnp.PyArray_NDIM(full) - spatial, k
    cdef bint neighbours
    memset(job, 0, sizeof(Job))
    job.g = geometry_of(sizes)
    job.item_size = cnp.PyArray_ITEMSIZE(full)
    job.full = view_of(full, spatial)
    neighbours = lead == 2 and cnp.PyArray_DIM(full, 0) > 1 and job.full.batch_bytes == job.item_size
    for k in range(3):  # not for a sliding window view, whose elements are neighbours as well
        neighbours &= job.g.full[k] == 1 or absolute(job.full.axis_bytes[k]) > job.item_size
    if branch_counted("planes of a batch that are neighbours", neighbours):
        full, pooled = cnp.PyArray_SwapAxes(full, 0, 1), cnp.PyArray_SwapAxes(pooled, 0, 1)
        indices = None if indices is None else cnp.PyArray_SwapAxes(indices, 0, 1)
        job.full = view_of(full, spatial)
    job.pooled = view_of(pooled, spatial)
    if indices is not None:
        job.indices = view_of(indices, spatial)
        job.index_size = <int> cnp.PyArray_ITEMSIZE(indices)
    job.code_size = job.index_size if codes else 0
    job.threads = threads
    job.batch = cnp.PyArray_DIM(full, 0) if lead == 2 else 1
    job.channels = cnp.PyArray_DIM(full, lead - 1)
    if neighbours and branch_counted("a batch and channels that follow each other", are_planes_uniform(job)):
        job.channels *= job.batch
        job.batch = 1


cdef inline bint has_interleaved_channels(const Job *job, const View *view, Py_ssize_t size) noexcept nogil:
    """Whether channels are interleaved: neighbours in memory, followed by the channels of the next column."""
    return view.channel_bytes == size and view.axis_bytes[2] == job.channels * size


cdef inline bint are_full_planes_adjacent(const Job *job) noexcept nogil:
    """Whether one stride leads from element to element, within a full plane and from each plane to the next."""
    return (job.raster_stride_bytes and job.full.uniform_planes
            and job.full.channel_bytes == element_count(job.g.full) * job.raster_stride_bytes)


cdef inline bint is_contiguous(const Job *job, const View *view, const Py_ssize_t *shape,
                               Py_ssize_t item_size) noexcept nogil:
    """Whether all planes of an array are contiguous, one after the other."""
    return (raster_stride(view, shape) == item_size and view.channel_bytes == element_count(shape) * item_size
            and (job.batch == 1 or view.batch_bytes == job.channels * view.channel_bytes))


cdef inline bint are_all_contiguous(const Job *job) noexcept nogil:
    """Whether all arrays of the job are contiguous."""
    return (is_contiguous(job, &job.full, job.g.full, job.item_size)
            and is_contiguous(job, &job.pooled, job.g.pooled, job.item_size)
            and (job.indices.data == NULL or is_contiguous(job, &job.indices, job.g.pooled, job.index_size)))
