# For the other compiled modules: they report their calls, which are counted for the whole process.
cdef double seconds_now() noexcept nogil
cdef int current_processor() noexcept nogil
cdef void leave_processor(int processor) noexcept nogil
cdef void begin_call() noexcept nogil
cdef void end_call() noexcept nogil
cdef void end_region(double lost) noexcept nogil
cdef bint explaining() noexcept nogil
