# For the other compiled modules: what the whole process has to know of their calls.
cdef double seconds_now() noexcept nogil
cdef int current_processor() noexcept nogil
cdef void leave_processor(int processor) noexcept nogil
cdef void begin_call() noexcept nogil
cdef void end_call() noexcept nogil
cdef void end_region(double lost) noexcept nogil
cdef bint explaining() noexcept nogil
