#pragma once

#include <limits.h>

#include "_kernels/common/tasks.h"

#if CUNPOOL_OPENMP >= 201307
#define CUNPOOL_IS_BOUND (omp_get_proc_bind() != omp_proc_bind_false)
#else
#define CUNPOOL_IS_BOUND 0
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

/* Whether the processor and the system have the instruction sets that setup.py names, with all that its flags allow. */
#if defined(__GNUC__) && defined(__x86_64__)
#include <cpuid.h>
static int cunpool_has_avx2(void) {
    unsigned a, b, c, d;
    __builtin_cpu_init(); /* asks the system too, but GCC has names for F16C and x86-64-v3 only since 11 and 12 */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2")
        && __get_cpuid(1, &a, &b, &c, &d) && c >> 29 & 1;
}
static int cunpool_has_avx512(void) {
    return cunpool_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
        && __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq")
        && __builtin_cpu_supports("avx512vl");
}
#else
#define cunpool_has_avx2() 0
#define cunpool_has_avx512() 0
#endif

/* The calls under way in the process, and each thread's record of its last parallel region. */
#if defined(_MSC_VER)
#define CUNPOOL_OWN static __declspec(thread)
#else
#define CUNPOOL_OWN static __thread
#endif
static long cunpool_under_way;
CUNPOOL_OWN double cunpool_region_ended = -1e9;
CUNPOOL_OWN double cunpool_debt;
CUNPOOL_OWN double cunpool_call_ended = -1e9;
CUNPOOL_OWN int cunpool_in_a_row;
CUNPOOL_OWN int cunpool_asked;
CUNPOOL_OWN int cunpool_explains; /* this thread's calls are planned and not run */

#if defined(__linux__)
/* The processors that the calling thread may run on, INT_MAX if there are more than these sets hold. */
static int cunpool_allowed(void) {
    cpu_set_t sets[4];
    CPU_ZERO_S(sizeof sets, sets);
    return sched_getaffinity(0, sizeof sets, sets) ? INT_MAX : CPU_COUNT_S(sizeof sets, sets);
}
#else
#define cunpool_allowed() INT_MAX
#endif

/* GNU OpenMP's threads do not survive a fork, and a child that waits for them never ends. The C library reports forks,
   because servers fork outside of Python. */
static int cunpool_forked;
#if defined(_WIN32)
#define cunpool_notice_forks() 0
#else
#include <pthread.h>
static void cunpool_after_fork(void) { cunpool_forked = 1; }  // unreached: in children, which do not write counts
#define cunpool_notice_forks() pthread_atfork(NULL, NULL, cunpool_after_fork)
#endif
