# Conditions and block bounds that a checked build (CUNPOOL_CHECKED=1) counts and verifies; no code in others.
cdef extern from "_kernels/common/checks.h":
    struct cunpool_condition:
        const char *name
        long long times[2]
    long cunpool_conditions() noexcept nogil
    cunpool_condition condition_at "cunpool_condition"(long) noexcept nogil
    bint branch_counted "cunpool_met"(const char *what, bint condition) noexcept nogil
    void assert_in_block "cunpool_assert"(bint) noexcept nogil
