#ifndef CUNPOOL_COMMON_CHECKS_H
#define CUNPOOL_COMMON_CHECKS_H

#include <string.h>

/* A checked build ends the process where a block does not fit its buffer. It counts how often each condition that
   chooses a method or sizes a block was false and true. A section of the module holds all, even those never reached. */
struct cunpool_condition { const char *name; long long times[2]; char rest[40]; };
#if defined(CUNPOOL_CHECKED)
#include <stdio.h>
#include <stdlib.h>
extern struct cunpool_condition __start_cunpool_met[], __stop_cunpool_met[];
#pragma weak __start_cunpool_met
#pragma weak __stop_cunpool_met
#define cunpool_conditions() ((long) (__stop_cunpool_met - __start_cunpool_met))
#define cunpool_condition(i) __start_cunpool_met[i]
#define cunpool_met(what, condition) __extension__ ({ \
    static struct cunpool_condition here \
        __attribute__((section("cunpool_met"), used, aligned(64))) = {what, {0, 0}, ""}; \
    int holds = (condition) != 0; \
    __atomic_fetch_add(&here.times[holds], 1, __ATOMIC_RELAXED); \
    holds; })
#define cunpool_assert(condition) ((condition) ? (void) 0 : cunpool_fail(__FILE__, __LINE__, #condition))
/* Prints the line of the block that does not fit, and the condition with the names of the Cython source. */
__attribute__((noreturn, unused)) static void cunpool_fail(const char *file, int line, const char *said) {  // unreached: the process ends
    char *end;  // unreached: the process ends
    fprintf(stderr, "cunpool: %s:%d: ", file, line);  // unreached: the process ends
    while (*said) {  // unreached: the process ends
        if (!strncmp(said, "__pyx_v_", 8))  // unreached: the process ends
            said += 8;  // unreached: the process ends
        else if (!strncmp(said, "__pyx_e_", 8) || !strncmp(said, "__pyx_f_", 8))  // unreached: the process ends
            for (said += 8; *said >= '1' && *said <= '9';) { /* the package and the module, behind their lengths */  // unreached: the process ends
                long length = strtol(said, &end, 10);  // unreached: the process ends
                said = end + length + 1;  // unreached: the process ends
            }
        else
            fputc(*said++, stderr);  // unreached: the process ends
    }
    fputc('\n', stderr);  // unreached: the process ends
    abort();  // unreached: the process ends
}
#else
static struct cunpool_condition cunpool_none;
#define cunpool_conditions() 0L
#define cunpool_condition(i) cunpool_none
#define cunpool_met(what, condition) (condition)
#define cunpool_assert(condition) ((void) 0)
#endif

#endif
