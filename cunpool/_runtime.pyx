"""What the compiled side knows of its surroundings: the compiler, OpenMP and its limit."""

cdef extern from *:
    """
    #ifdef _OPENMP
    #include <omp.h>
    #define CUNPOOL_OPENMP _OPENMP
    #else
    #define CUNPOOL_OPENMP 0
    #define omp_get_max_threads() 1
    #define omp_get_num_procs() 1
    #endif
    #if CUNPOOL_OPENMP >= 201307
    #define CUNPOOL_BINDS (omp_get_proc_bind() != omp_proc_bind_false)
    #else
    #define CUNPOOL_BINDS 0
    #endif
    #if defined(__clang__)
    #define CUNPOOL_COMPILER "Clang " __clang_version__
    #elif defined(__GNUC__)
    #define CUNPOOL_COMPILER "GCC " __VERSION__
    #elif defined(_MSC_VER)
    #define CUNPOOL_COMPILER "MSVC"
    #else
    #define CUNPOOL_COMPILER "unknown"
    #endif
    """
    const int CUNPOOL_OPENMP
    const char *CUNPOOL_COMPILER
    const int CUNPOOL_BINDS
    int omp_get_max_threads() noexcept nogil
    int omp_get_num_procs() noexcept nogil


def openmp_version():
    """OpenMP's version as the date of its specification (201511 for 4.5), 0 in a serial build."""
    return CUNPOOL_OPENMP


def openmp_threads():
    """How many threads OpenMP would give to a parallel region opened now."""
    return omp_get_max_threads()


def openmp_processors():
    """How many processors OpenMP has for its threads; where it binds them, the calling thread's affinity has fewer."""
    return omp_get_num_procs()


def openmp_binds():
    """Whether OpenMP keeps each thread on processors of its own (OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY)."""
    return bool(CUNPOOL_BINDS)


def compiler():
    """The compiler that built this module."""
    return (<bytes> CUNPOOL_COMPILER).decode()
