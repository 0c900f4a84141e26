# The methods of a module: a table in the order in which they are tried. The first whose condition holds runs.
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.tasks cimport shares_of

# Why a method does not serve a call, in plain English and with the limit that was missed, or NULL if it does. The last
# argument is the module's plan. If the method serves the call, the condition fills the plan for it. The job stays as it
# is.
ctypedef const char *(*Condition)(const Job *, void *) noexcept nogil

cdef struct Method:
    const char *name            # by which `_methods.py` has its files and functions
    Condition why_not


cdef inline const Method *choose_method(const Method *methods, const Job *job, void *plan) noexcept nogil:
    """The first method that serves the call. The last one of a table serves all."""
    while methods.why_not(job, plan) != NULL:
        methods += 1
    return methods


cdef inline list rejected_methods(const Method *methods, const Method *chosen, const Job *job, void *plan):
    """The methods before the chosen one, with the reason why each does not serve the call."""
    rejected = []
    while methods != chosen:
        rejected.append((methods.name.decode(), methods.why_not(job, plan).decode()))
        methods += 1
    return rejected


cdef inline dict described(const Method *chosen, const Job *job, int ways, list rejected, bint any_data):
    """A plan for `cunpool.explain`. Without `any_data` no data of this call need the method's fallback."""
    return {
        "method": chosen.name.decode(),
        "ways": ways,
        "rejected": rejected,
        "any_data": any_data,
        "codes": job.code_size > 0,
        "blocks": (),
        "tasks": job.tasks,
        "scratch_bytes": shares_of(job) * job.scratch_bytes,
        "allowed": job.threads,
        "threads": shares_of(job),
    }
