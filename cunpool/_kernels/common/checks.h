#pragma once

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
#define cunpool_assert(condition) \
    ((condition) ? (void) 0 : (fprintf(stderr, "cunpool: %s:%d: %s\n", __FILE__, __LINE__, #condition), abort()))
#else
static struct cunpool_condition cunpool_none;
#define cunpool_conditions() 0L
#define cunpool_condition(i) cunpool_none
#define cunpool_met(what, condition) (condition)
#define cunpool_assert(condition) ((void) 0)
#endif
