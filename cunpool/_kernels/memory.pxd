# Scratch memory for kernels: taken before a call's first task and returned after the last.
from cunpool._kernels.common.caches cimport align_to_cache_line, CACHE_LINE

cdef extern from "_kernels/scratch.h":
    enum:
        SANITIZED "CUNPOOL_SANITIZED"
    void poison "ASAN_POISON_MEMORY_REGION"(void *start, size_t size) noexcept nogil
    void unpoison "ASAN_UNPOISON_MEMORY_REGION"(void *start, size_t size) noexcept nogil

cdef void *take_scratch(size_t size) noexcept
cdef void give_scratch(void *data) noexcept


cdef inline Py_ssize_t part_bytes(Py_ssize_t size) noexcept nogil:
    """Bytes of a block for a part of `size` bytes. Parts begin at multiples of CACHE_LINE."""
    return (size + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE + SANITIZED * CACHE_LINE


cdef inline char *next_part(char **rest, Py_ssize_t size) noexcept nogil:
    """The next part, of `size` bytes, of a block whose parts before `rest` are in use."""
    cdef char *part = <char *> align_to_cache_line(rest[0])
    rest[0] = part + part_bytes(size)
    unpoison(part, size)  # a task before may have had a shorter part here
    poison(part + size, part_bytes(size) - size)
    return part
