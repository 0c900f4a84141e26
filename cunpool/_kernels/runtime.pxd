# For the other compiled modules: they report their calls, which are counted for the whole process.
cdef void begin_call() noexcept nogil
cdef void end_call() noexcept nogil
cdef void end_region(double lost) noexcept nogil
cpdef bint explaining() noexcept nogil
