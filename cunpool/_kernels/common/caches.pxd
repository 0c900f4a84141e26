# Copies, prefetches and non-temporal stores: what is done for the processor's caches and changes no result.
from libc.stdint cimport uintptr_t
cimport numpy as cnp

cdef extern from "_kernels/common/caches.h":
    void cunpool_prefetch(const char *address) noexcept nogil
    void cunpool_prefetch_write(const char *address) noexcept nogil
    void cunpool_keep() noexcept nogil
    void cunpool_copy(char *to, const char *frm, size_t size) noexcept nogil
    void cunpool_stream(char *to, const char *frm, size_t size) noexcept nogil
    void cunpool_fence() noexcept nogil

cdef enum:
    CACHE_LINE = 64
    AHEAD = 1 << 12         # large arrays are fetched so many bytes before they are needed,
    PIECE = 64              # for so many windows at a time,
    SHORT_STEPS = 1 << 11   # or rows of so many bytes together where they are short,
    LONG_ROW = 1 << 18      # and rows ahead of at most so many: longer ones would not stay in a second cache until then
    STREAM = 3 << 23        # bytes of all three arrays that would not stay in the caches anyway
    GIL_BYTES = 1 << 14     # releasing the GIL costs more than moving, or reading, this


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
