"""Recycled memory: results that were freed, and scratch memory, kept for the next calls.

The pages of a new array cost more than the work on it, because the system finds and zeroes each one. Large results get
their memory from here, through NumPy's allocation hooks (NEP 49). NumPy frees an array, to here, when nothing refers to
it or to a view of it. A lock guards the kept blocks in all threads. Under the lock no Python code runs and no memory is
returned to the system, which can take milliseconds.

Scratch memory comes from here, too. A call takes one block for all its threads before its first task and returns it
after the last, both with the GIL where there is one. A block in use is in no list, so no other thread can use or free
it. In a forked child it is lost.
"""
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from cpython.pycapsule cimport PyCapsule_New
cimport cython
from libc.stdint cimport uint8_t, uintptr_t
from libc.string cimport memcpy, memmove, memset
cimport numpy as cnp

from cunpool._kernels.common.caches cimport CACHE_LINE
from cunpool._kernels.common.thresholds cimport OFFER_MIN_BYTES, ROUNDED_SCRATCH_MAX_BYTES

from numpy import empty, empty_like

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    ctypedef struct PyDataMemAllocator:
        void *ctx
        void *(*malloc)(void *, size_t) noexcept
        void *(*calloc)(void *, size_t, size_t) noexcept
        void *(*realloc)(void *, void *, size_t) noexcept
        void (*free)(void *, void *, size_t) noexcept
    ctypedef struct PyDataMem_Handler:
        char name[127]
        uint8_t version
        PyDataMemAllocator allocator
    object PyDataMem_SetHandler(object)

cdef extern from "_kernels/memory.h":
    void cunpool_request_huge_pages(char *start, size_t size) noexcept
    void cunpool_offer_pages(char *start, size_t size) noexcept
    void cunpool_reset_lock(void *lock) noexcept

cdef enum:
    # Arrays of one call begin at different offsets in a page (speed): a processor takes a load to depend on an earlier
    # store where the last 12 bits of both addresses are the same.
    STAGGER_BYTES = 512
    STAGGERS = 7            # multiples of STAGGER_BYTES that are used in turn
    MAX_BLOCKS = 256        # blocks that are kept: twice the arrays of a network of 64 layers (speed)

# From this many bytes on, results lie in recycled memory (speed: benchmarks/default_calls.py). Below, the C library
# recycles well enough: glibc gives memory back to the system if 128 KiB or more are free at the end of the heap.
RECYCLED = 1 << 16

cdef struct KeptBlock:      # in front of the array's memory
    void *start             # from the C library
    size_t capacity         # bytes for an array

cdef cython.pymutex lock    # guards all that follows; no function that holds it calls another that takes it
cdef KeptBlock *kept[MAX_BLOCKS]    # the oldest first
cdef size_t sizes[MAX_BLOCKS]   # their capacities
cdef int count = 0
cdef size_t total = 0       # bytes in these
cdef size_t limit = 0
cdef bint offering = False  # whether the system may take the pages of kept blocks, see `cunpool_offer_pages`
cdef size_t hits = 0
cdef size_t misses = 0
cdef int stagger = 0


cdef inline KeptBlock *block_of(void *data) noexcept:
    return <KeptBlock *> (<char *> data - CACHE_LINE)


cdef inline void *data_of(KeptBlock *block) noexcept:
    return <char *> block + CACHE_LINE


cdef KeptBlock *unlink_block(int position) noexcept:
    """Remove a block from the list."""
    global count, total
    cdef KeptBlock *block = kept[position]
    count -= 1
    total -= block.capacity
    memmove(kept + position, kept + position + 1, (count - position) * sizeof(kept[0]))
    memmove(sizes + position, sizes + position + 1, (count - position) * sizeof(sizes[0]))
    return block


cpdef void shrink(size_t size, int most=MAX_BLOCKS) noexcept:
    """Return the oldest blocks to the system until at most `size` bytes in `most` blocks are kept."""
    cdef KeptBlock *block
    while True:
        with lock:
            block = unlink_block(0) if total > size or count > most else NULL
        if block == NULL:
            return
        PyMem_RawFree(block.start)


cdef KeptBlock *find_kept(size_t size) noexcept:
    """The smallest kept block for `size` bytes that is at most a quarter larger, or NULL. Equal sizes give the
    latest, which may still be in a cache."""
    global hits, misses
    cdef int best = -1, i
    for i in range(count - 1, -1, -1):
        if size <= sizes[i] <= size + size // 4 and (best < 0 or sizes[i] < sizes[best]):
            best = i
            if sizes[i] == size:
                break
    if best < 0:
        misses += 1
        return NULL
    hits += 1
    return unlink_block(best)


cdef void *allocate(void *_, size_t size) noexcept:
    """Memory for `size` bytes, from a kept block or new."""
    global stagger
    cdef KeptBlock *block
    cdef void *start
    cdef size_t padded_bytes = size + (STAGGERS + 1) * STAGGER_BYTES    # cannot wrap: sizes are below 2^63
    cdef int shift
    with lock:
        block = find_kept(size)
        if block == NULL:
            stagger = (stagger + 2) % STAGGERS
        shift = (stagger + 1) * STAGGER_BYTES
    if block == NULL:
        start = PyMem_RawMalloc(padded_bytes)
        if start == NULL:
            shrink(0)
            start = PyMem_RawMalloc(padded_bytes)
            if start == NULL:
                return NULL
        block = <KeptBlock *> (<char *> start - <uintptr_t> start % CACHE_LINE + shift)
        poison(start, <char *> block - <char *> start)
        block.start = start
        block.capacity = size
        cunpool_request_huge_pages(<char *> data_of(block), size)
    unpoison(data_of(block), size)
    # At least this much of the padding lies behind the last byte, however far the array is shifted.
    poison(<char *> data_of(block) + size, block.capacity - size + STAGGER_BYTES - CACHE_LINE)
    return data_of(block)


cdef void *allocate_zeroed(void *_, size_t items, size_t size) noexcept:
    cdef void *data = allocate(NULL, items * size)
    if data != NULL:
        memset(data, 0, items * size)
    return data


cdef void recycle(void *_, void *data, size_t size) noexcept:
    """Keep a block that is no longer used, in place of the oldest ones."""
    global count, total
    cdef KeptBlock *block
    cdef size_t room
    cdef bint fits, offers
    if data == NULL:
        return  # a call without scratch memory
    block = block_of(data)
    poison(data, block.capacity)
    with lock:
        fits, offers, room = block.capacity <= limit, offering, limit - block.capacity
    if fits:
        if offers and block.capacity >= OFFER_MIN_BYTES:
            cunpool_offer_pages(<char *> data, block.capacity)
        shrink(room, MAX_BLOCKS - 1)
    with lock:
        # Since then another thread may have kept a block, or lowered the limit.
        fits = total + block.capacity <= limit and count < MAX_BLOCKS
        if fits:
            kept[count] = block
            sizes[count] = block.capacity
            count += 1
            total += block.capacity
    if not fits:
        PyMem_RawFree(block.start)


cdef void *reallocate(void *_, void *data, size_t size) noexcept:
    """For `ndarray.resize`."""
    cdef void *other = allocate(NULL, size)
    if other != NULL and data != NULL:
        unpoison(data, block_of(data).capacity)
        memcpy(other, data, min(size, block_of(data).capacity))
        recycle(NULL, data, 0)
    return other


cdef void *take_scratch(size_t size) noexcept:
    """Scratch memory for a call, or NULL where the system refuses it."""
    cdef size_t rounded = 1
    if size > ROUNDED_SCRATCH_MAX_BYTES:
        return allocate(NULL, size)
    while rounded < size:
        rounded *= 2
    return allocate(NULL, rounded)


cdef void give_scratch(void *data) noexcept:
    """Keep memory from `take_scratch`, if it is not NULL."""
    recycle(NULL, data, 0)


cdef PyDataMem_Handler handler
memset(&handler, 0, sizeof(handler))
memcpy(handler.name, b"cunpool", 7)
handler.version = 1
handler.allocator.malloc = allocate
handler.allocator.calloc = allocate_zeroed
handler.allocator.realloc = reallocate
handler.allocator.free = recycle
cdef object capsule = PyCapsule_New(&handler, "mem_handler", NULL)


def new(cnp.ndarray like not None, tuple shape not None, cnp.dtype dtype not None):
    """An array in the same order of memory as `like`. If it is large, its memory is recycled."""
    cdef double size = dtype.itemsize
    cdef object before = None
    for entries in shape:
        size *= <double> entries
    if size >= <double> RECYCLED:
        before = PyDataMem_SetHandler(capsule)
    try:
        if cnp.PyArray_IS_C_CONTIGUOUS(like):
            return empty(shape, dtype)  # less than half the time of `empty_like` (speed)
        return empty_like(like, dtype, "K", False, shape)
    finally:
        if before is not None:
            PyDataMem_SetHandler(before)


def configure(size_t most, bint offers):
    """Set the bytes that are kept at most, and return the excess to the system now. Set whether the system may take
    the pages of blocks that are kept from now on."""
    global limit, offering
    with lock:
        limit, offering = most, offers
    shrink(most)


def reset_lock():
    """Release the lock in a forked child."""
    cunpool_reset_lock(&lock)


def info():
    """Bytes kept now and at most, and how many allocations reused a block and how many did not."""
    cdef size_t now, most, again, new
    with lock:
        now, most, again, new = total, limit, hits, misses
    return now, most, again, new
