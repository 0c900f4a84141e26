"""The compiler, OpenMP, the processor's instruction sets, and the calls of this process and thread."""
cdef extern from "_kernels/runtime.h":
    const int CUNPOOL_OPENMP
    const char *CUNPOOL_COMPILER
    const int CUNPOOL_IS_BOUND
    bint cunpool_has_avx2() noexcept nogil
    bint cunpool_has_avx512() noexcept nogil
    int omp_get_max_threads() noexcept nogil
    int omp_get_num_procs() noexcept nogil
    double seconds_now "omp_get_wtime"() noexcept nogil
    long cunpool_fetch_add(long *counter, long n) noexcept nogil
    long cunpool_under_way
    double cunpool_region_ended
    double cunpool_debt
    double cunpool_call_ended
    int cunpool_in_a_row
    bint cunpool_asked
    bint cunpool_explains
    int cunpool_allowed() noexcept nogil
    const bint cunpool_forked
    int cunpool_notice_forks() noexcept

if cunpool_notice_forks():
    raise MemoryError  # unreached: the C library has room for a handler

# The date of OpenMP's specification (201511 for 4.5), 0 in a serial build; the compiler that built this module; and the
# instruction sets of kernels that this processor runs, the widest first.
OPENMP_VERSION = CUNPOOL_OPENMP
COMPILER = (<bytes> CUNPOOL_COMPILER).decode()
INSTRUCTION_SETS = ["avx512"] * cunpool_has_avx512() + ["avx2"] * cunpool_has_avx2() + ["portable"]


cdef void begin_call() noexcept nogil:
    """Count a call that begins."""
    cunpool_fetch_add(&cunpool_under_way, 1)


cdef void end_call() noexcept nogil:
    """Count a call that ends."""
    global cunpool_asked, cunpool_call_ended
    cunpool_fetch_add(&cunpool_under_way, -1)
    if cunpool_asked:
        cunpool_asked = False
        cunpool_call_ended = seconds_now()


cdef void end_region(double lost) noexcept nogil:
    """A parallel region ends that took `lost` seconds more than one thread would have.

    Losses and gains add up while calls follow each other: later regions repay the waking of a team, and one delayed
    thread weighs little against earlier gains. Without `surroundings` before the call only its own region counts.
    """
    global cunpool_region_ended, cunpool_debt
    cunpool_region_ended = seconds_now()
    cunpool_debt = (cunpool_debt if cunpool_asked else 0.0) + lost


class Planned(BaseException):
    """Raised in place of running a call that is explained. Its argument is the plan, a dict."""


def explain(bint on):
    """Have this thread's calls raise `Planned` from now on, or run again."""
    global cunpool_explains
    cunpool_explains = on


cpdef bint explaining() noexcept nogil:
    """Whether this thread's calls raise `Planned`."""
    return cunpool_explains


def surroundings(double pause, double tolerated, double remembered):
    """The state of the process and of this thread at the beginning of a call.

    Returns the calls under way; the calls that this thread has made, each within `pause` seconds of the one before; the
    seconds since its last parallel region; the seconds that its regions have lost, net of at most `remembered` gained,
    if that is more than `tolerated`, else 0; and the time in seconds. A loss is returned once. Only calls of this
    function count as calls in a row.
    """
    global cunpool_debt, cunpool_in_a_row, cunpool_asked
    cdef double lost = cunpool_debt if cunpool_debt > tolerated else 0.0, time = seconds_now()
    cunpool_debt = 0 if lost > 0 else max(cunpool_debt, -remembered)
    cunpool_in_a_row = min(cunpool_in_a_row + 1, 1 << 20) if time - cunpool_call_ended < pause else 0
    cunpool_asked = True
    return cunpool_fetch_add(&cunpool_under_way, 0), cunpool_in_a_row, time - cunpool_region_ended, lost, time


def openmp_threads():
    """The threads that OpenMP would give to a parallel region opened now."""
    return omp_get_max_threads()


def available(int most):
    """The threads of a parallel region opened now that would have a processor each, up to `most`.

    Only processors that the calling thread may run on count. If OpenMP binds threads (OMP_PROC_BIND, OMP_PLACES,
    GOMP_CPU_AFFINITY), all of OpenMP's count, because the calling thread has one place of several."""
    return min(most, omp_get_max_threads(), omp_get_num_procs() if CUNPOOL_IS_BOUND else cunpool_allowed())


def forked():
    """Whether this process was forked after this module had been imported."""
    return cunpool_forked
