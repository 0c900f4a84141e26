#pragma once

#include <stdint.h>

#ifdef _OPENMP
#include <omp.h>
#define CUNPOOL_OPENMP _OPENMP
#else
#define CUNPOOL_OPENMP 0
#define omp_get_max_threads() 1
#define omp_get_num_procs() 1
#define omp_get_wtime() 0.0
#endif

/* Linux may wake a sleeping team's thread on the calling thread's processor, and leave both there for tens of
   milliseconds while another processor is idle (speed). `cunpool_leave` moves it away, and restores its affinity. */
#if defined(__linux__)
#include <sched.h>
#define cunpool_processor() sched_getcpu()
static inline void cunpool_leave(int processor) {
    cpu_set_t all, others;
    if (sched_getcpu() != processor || sched_getaffinity(0, sizeof all, &all))
        return;
    others = all;
    CPU_CLR(processor, &others);
    if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0)
        sched_setaffinity(0, sizeof all, &all);
}
#else
#define cunpool_processor() -1
#define cunpool_leave(processor) ((void) (processor))
#endif

/* Add atomically and return the number before. */
#if defined(_MSC_VER)
#include <intrin.h>
#define cunpool_fetch_add(counter, n) _InterlockedExchangeAdd(counter, n)
#else
#define cunpool_fetch_add(counter, n) __atomic_fetch_add(counter, n, __ATOMIC_RELAXED)  // fault: a count that races
#endif

/* The caller may have set the processor to treat subnormal numbers as zeros, or to another rounding. Then they would
   compare as equal, and sums differ, in the caller's share only. Each share sets the IEEE defaults without traps, and
   restores the caller's setting. */
#if defined(__GNUC__) && defined(__x86_64__)
#include <xmmintrin.h>
#define cunpool_exact() cunpool_control(0)
static inline unsigned cunpool_control(unsigned before) {
    unsigned now = _mm_getcsr();
    if (before ? before != now : (now & 0xFFC0) != 0x1F80)
        _mm_setcsr(before ? before : (now & ~0xE040u) | 0x1F80);
    return now;
}
#elif defined(__GNUC__) && defined(__aarch64__)
#define cunpool_exact() cunpool_control(1)
static inline unsigned cunpool_control(unsigned before) {
    uint64_t now, wanted;
    __asm__ volatile("mrs %0, fpcr" : "=r"(now));
    wanted = (now & ~(uint64_t) 0x01C80000) | (before & 0x01C80000);
    if (wanted != now)
        __asm__ volatile("msr fpcr, %0" : : "r"(wanted));
    return (unsigned) now;
}
#else
#define cunpool_exact() 0u
#define cunpool_control(before) ((void) (before))
#endif
