# The package's only parallel region: threads take the tasks of a job.
from cython.parallel cimport prange, threadid

from cunpool._kernels.common.caches cimport align_to_cache_line, CACHE_LINE, cunpool_fence
from cunpool._kernels.common.geometry cimport clamp
from cunpool._kernels.common.job cimport Job
from cunpool._kernels.common.thresholds cimport KEEP_GIL_MAX_BYTES
from cunpool._kernels.memory cimport give_scratch, take_scratch
from cunpool._kernels.runtime cimport begin_call, end_call, end_region

cdef extern from "_kernels/common/tasks.h":
    long cunpool_fetch_add(long *counter, long n) noexcept nogil
    unsigned cunpool_exact() noexcept nogil
    void cunpool_control(unsigned before) noexcept nogil
    double seconds_now "omp_get_wtime"() noexcept nogil
    int current_processor "cunpool_processor"() noexcept nogil  # -1 where the system does not tell
    void leave_processor "cunpool_leave"(int processor) noexcept nogil

cdef enum:
    MAX_THREADS = 256       # correctness: at least `_threads.MOST`

cdef struct Found:
    # The errors that a share's tasks counted. The front end raises them after the parallel region.
    Py_ssize_t out_of_plane     # indices outside their planes
    Py_ssize_t out_of_window    # indices outside their windows, where the method requires indices within
    char *scratch               # the share's own part of the job's scratch memory

cdef struct Next:
    # The next task of a share. Each share has a cache line of its own, which only its takers write.
    long task
    long[15] padding

cdef struct Share:
    # The calling thread's part of a parallel region.
    double begin, end           # seconds
    Py_ssize_t tasks

# Run one task of a job. The last two arguments are `full.data` and `indices.data`. Only their types are used: they
# select the instance for an element and an index type.
ctypedef void (*Kernel)(const Job *, Py_ssize_t, Found *, void *, void *) noexcept nogil


cdef inline int shares_of(const Job *job) noexcept nogil:
    """The number of shares, one for each thread, that the tasks are divided into."""
    return <int> max(min(min(job.threads, MAX_THREADS), job.tasks), 1)


cdef inline Py_ssize_t planes_of_lot(const Job *job, Py_ssize_t most) noexcept nogil:
    """Planes that a task copies together: `most`, or fewer, so that each of several threads has four lots."""
    cdef Py_ssize_t planes = job.batch * job.channels
    most = clamp(most, 1, planes)
    return most if job.threads == 1 else clamp(planes // (4 * job.threads), 1, most)


cdef inline Found run_tasks(Kernel kernel, Job *job, double moved_bytes) except *:
    """Run all tasks of a job, which read or write about `moved_bytes`, and return the sums of their counts.

    Scratch memory is one block with a part for each share, so that no task has to wait for a lock, or to fail.
    """
    cdef Py_ssize_t scratch_bytes = shares_of(job) * job.scratch_bytes
    cdef void *scratch = NULL
    cdef Found found
    if scratch_bytes:
        scratch = take_scratch(scratch_bytes + CACHE_LINE)
        if scratch == NULL:
            raise MemoryError(f"no memory for {scratch_bytes} bytes to work in")
        job.scratch = <char *> align_to_cache_line(scratch)
    if moved_bytes <= KEEP_GIL_MAX_BYTES:
        found = run_shares(kernel, job)
    else:
        with nogil:
            found = run_shares(kernel, job)
    give_scratch(scratch)
    return found


cdef inline Found run_shares(Kernel kernel, const Job *job) noexcept nogil:
    """Run all shares of a job, each in a thread of its own."""
    cdef Next[MAX_THREADS] next
    cdef Found found
    cdef int share, shares = shares_of(job)
    for share in range(shares):
        next[share].task = job.tasks * share // shares
    begin_call()
    if shares == 1:
        found = run_share(kernel, job, 0, 1, next, NULL)
    else:
        found = run_together(kernel, job, shares, next)
    end_call()
    return found


cdef inline Found run_together(Kernel kernel, const Job *job, int threads, Next *next) noexcept nogil:
    """Run the tasks in several threads, and report the time lost against one thread to `runtime`."""
    cdef Py_ssize_t out_of_plane = 0, out_of_window = 0
    cdef int share, callers = current_processor()
    cdef double start = seconds_now(), elapsed, alone
    cdef Share own
    cdef Found found
    for share in prange(threads, num_threads=threads, schedule="static"):  # share 0 is the calling thread's
        if threadid() > 0:  # 0 for every share where OpenMP provides one thread only
            leave_processor(callers)
        found = run_share(kernel, job, share, threads, next, &own if share == 0 else NULL)
        out_of_plane += found.out_of_plane
        out_of_window += found.out_of_window
    found.out_of_plane = out_of_plane
    found.out_of_window = out_of_window
    elapsed = seconds_now() - start
    # The estimate for one thread: all tasks at the speed of the calling thread's own. A team of n threads gains a
    # factor n at most. Without a task of its own, the calling thread lost its processor to a woken thread. Then half
    # the elapsed time counts as lost.
    alone = (own.end - own.begin) * job.tasks / own.tasks if own.tasks else elapsed / 2
    end_region(elapsed - min(alone, elapsed * threads))
    return found


cdef inline Found run_share(Kernel kernel, const Job *job, int share, int shares, Next *next,
                            Share *own) noexcept nogil:
    """Run a thread's own tasks, the same in each call because their arrays may be in its caches, and then others'."""
    cdef Py_ssize_t task, end, done = 0
    cdef int i, owner
    cdef unsigned control = cunpool_exact()
    cdef Found found
    found.out_of_plane = found.out_of_window = 0
    found.scratch = job.scratch + share * job.scratch_bytes
    if own:
        own.begin = seconds_now()
    for i in range(shares):
        owner = (share + i) % shares
        end = job.tasks * (owner + 1) // shares  # fault: a share that takes all later tasks
        task = cunpool_fetch_add(&next[owner].task, 1)
        while task < end:
            kernel(job, task, &found, job.full.data, job.indices.data)
            done += 1
            task = cunpool_fetch_add(&next[owner].task, 1)
    cunpool_fence()
    cunpool_control(control)
    if own:
        own.end, own.tasks = seconds_now(), done
    return found
