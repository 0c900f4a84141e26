# How a call becomes tasks, and these are shared out between threads: the only parallel region there is.
from cython.parallel cimport prange, threadid

from cunpool._kernels.common.caches cimport cunpool_fence
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.runtime cimport begun, ended, leave, now, processor, rested

cdef extern from "_kernels/common/tasks.h":
    long cunpool_count(long *counter) noexcept nogil
    unsigned cunpool_exact() noexcept nogil
    void cunpool_control(unsigned before) noexcept nogil

cdef enum:
    MOST_SHARES = 256       # no fewer than `_threads.MOST`

cdef struct Found:
    # What a task met. Nobody raises inside a parallel region.
    Py_ssize_t wrong        # indices outside their planes
    Py_ssize_t strays       # indices outside their windows, where the kernel counted on windows
    char *scratch           # memory of this share's own, see `Job`

cdef struct Next:
    # Which task of a share is next, far from the other shares', for two threads write to one cache line by turns.
    long task
    long[15] room

cdef struct Share:
    # What the calling thread did of a parallel region: from when to when, in seconds, and how many tasks.
    double begin, end
    Py_ssize_t tasks

# One task of a job. The last two are `full.data` and `indices.data`: they carry the element types of each instance.
ctypedef void (*Kernel)(const Job *, Py_ssize_t, Found *, void *, void *) noexcept nogil


cdef inline int shares_of(const Job *job, int threads) noexcept nogil:
    """How many shares the tasks make, each for one thread."""
    return <int> max(min(min(threads, MOST_SHARES), job.tasks), 1)


cdef inline Found run_tasks(Kernel kernel, const Job *job, int threads) noexcept nogil:
    """Every task of the job."""
    cdef Next[MOST_SHARES] next
    cdef Found found
    cdef int share, shares = shares_of(job, threads)
    for share in range(shares):
        next[share].task = job.tasks * share // shares
    begun()
    if shares == 1:
        found = run_share(kernel, job, 0, 1, next, NULL)
    else:
        found = run_together(kernel, job, shares, next)
    ended()
    return found


cdef inline Found run_together(Kernel kernel, const Job *job, int threads, Next *next) noexcept nogil:
    """The only parallel region there is, and what it lost."""
    cdef Py_ssize_t wrong = 0, strays = 0
    cdef int share, callers = processor()
    cdef double start = now(), elapsed, alone
    cdef Share own
    cdef Found found
    for share in prange(threads, num_threads=threads, schedule="static"):  # the first share is the calling thread's
        if threadid() > 0:  # where OpenMP gives one thread alone, it has all shares
            leave(callers)
        found = run_share(kernel, job, share, threads, next, &own if share == 0 else NULL)
        wrong += found.wrong
        strays += found.strays
    found.wrong = wrong
    found.strays = strays
    elapsed = now() - start
    # Alone, the calling thread would have done all tasks as fast as its own; no team gains more than it has threads.
    # If it had none, a thread that was woken took its processor, and nothing was gained: half of the time is lost.
    alone = (own.end - own.begin) * job.tasks / own.tasks if own.tasks else elapsed / 2
    rested(elapsed - min(alone, elapsed * threads))
    return found


cdef inline Found run_share(Kernel kernel, const Job *job, int share, int shares, Next *next,
                            Share *own) noexcept nogil:
    """A thread's own tasks, the same in each call, for their arrays may be in its caches; then what others left."""
    cdef Py_ssize_t task, end, done = 0
    cdef int i, whose
    cdef unsigned control = cunpool_exact()
    cdef Found found
    found.wrong = found.strays = 0
    found.scratch = job.scratch + share * job.scratch_bytes
    if own:
        own.begin = now()
    for i in range(shares):
        whose = (share + i) % shares
        end = job.tasks * (whose + 1) // shares  # fault: a share that takes all later tasks
        task = cunpool_count(&next[whose].task)
        while task < end:
            kernel(job, task, &found, job.full.data, job.indices.data)
            done += 1
            task = cunpool_count(&next[whose].task)
    cunpool_fence()
    cunpool_control(control)
    if own:
        own.end, own.tasks = now(), done
    return found
