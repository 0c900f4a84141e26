# The methods of a module: a table in the order in which they are tried. The first whose condition holds runs.
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.tasks cimport shares_of

# Why a method does not serve a call, in plain English and with the limit that was missed, or NULL if it does. The last
# argument is the module's plan. If the method serves the call, the condition fills the plan for it. The job stays as it
# is.
ctypedef const char *(*Condition)(const Job *, void *) noexcept nogil

cdef struct Method:
    const char *name
    const char *file            # below `_kernels/`
    const char *function        # where to begin to read: the loop over a task's windows or blocks
    const char *loop            # the innermost loops: file and function, by type where they differ
    const char *fallback        # what happens to data that the loop does not expect, or NULL
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


cdef inline dict described(const Method *chosen, const Job *job, Py_ssize_t table_bytes, list rejected, list details,
                           dict blocks, bint any_data):
    """A plan for `cunpool.explain`; the fallback is left out where it needs data that this call cannot have."""
    return {
        "method": chosen.name.decode(),
        "file": chosen.file.decode(),
        "function": chosen.function.decode(),
        "loop": chosen.loop.decode(),
        "rejected": rejected,
        "fallback": chosen.fallback.decode() if any_data and chosen.fallback != NULL else None,
        "details": details,
        "blocks": blocks,
        "tasks": job.tasks,
        "scratch_bytes": table_bytes + shares_of(job) * job.scratch_bytes,
        "allowed": job.threads,
        "threads": shares_of(job),
    }
