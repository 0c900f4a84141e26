# Conditions and block bounds that a checked build (CUNPOOL_CHECKED=1) counts and verifies; no code in others.
cdef extern from "_kernels/common/checks.h":
    struct cunpool_condition:
        const char *name
        long long times[2]
    long cunpool_conditions() noexcept nogil
    cunpool_condition condition_at "cunpool_condition"(long) noexcept nogil
    bint branch_counted "cunpool_met"(const char *what, bint condition) noexcept nogil
    void assert_in_block "cunpool_assert"(bint) noexcept nogil


cdef inline dict conditions_met():
    """How often each condition of this module was false, and true. Empty but in a checked build."""
    cdef dict met_so_far = {}
    cdef cunpool_condition condition
    cdef long i
    for i in range(cunpool_conditions()):
        condition = condition_at(i)
        name = condition.name.decode()
        no, yes = met_so_far.get(name, (0, 0))
        met_so_far[name] = no + condition.times[0], yes + condition.times[1]
    return met_so_far
