# Copies and non-temporal stores. They serve the processor's caches, and change no result.
from libc.stdint cimport uintptr_t

cdef extern from "_kernels/common/caches.h":
    void cunpool_copy(char *to, const char *frm, size_t size) noexcept nogil
    void cunpool_copy_nontemporal(char *to, const char *frm, size_t size) noexcept nogil
    void cunpool_fence() noexcept nogil

cdef enum:
    CACHE_LINE = 64         # bytes; the widest vector has as many
    NONTEMPORAL_MIN_BYTES = 3 << 23     # from this size of all arrays on, pooled results bypass the caches (speed)


cdef inline void *align_to_cache_line(void *room) noexcept nogil:
    """The next cache line's address: a vector that crosses two lines takes twice as long to load."""
    return <void *> (<uintptr_t> room + CACHE_LINE - 1 & ~<uintptr_t> (CACHE_LINE - 1))
