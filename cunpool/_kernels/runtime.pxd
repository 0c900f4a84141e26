# For the other compiled modules: what the whole process has to know of their calls.
cdef double now() noexcept nogil
cdef int processor() noexcept nogil
cdef void leave(int processor) noexcept nogil
cdef void begun() noexcept nogil
cdef void ended() noexcept nogil
cdef void rested(double lost) noexcept nogil
cdef bint explaining() noexcept nogil
