#pragma once

#include <stdint.h>
#include <string.h>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
/* Advise the system about the pages of `page` bytes that lie between two addresses. */
static void cunpool_advise(char *start, size_t size, size_t page, int advice) {
    char *first = (char *) (((uintptr_t) start + page - 1) / page * page);
    if (first + page <= start + size)
        madvise(first, (start + size - first) / page * page, advice);
}
/* Request huge pages: one page fault for 2 MiB instead of 4 KiB (speed). */
#define cunpool_request_huge_pages(start, size) cunpool_advise(start, size, (size_t) 1 << 21, MADV_HUGEPAGE)
#else
#define cunpool_request_huge_pages(start, size) ((void) (start), (void) (size))
#endif
/* Allow the system to take these pages when it is short of memory, until they are written again. */
#if defined(__linux__) && defined(MADV_FREE)
#define cunpool_offer_pages(start, size) cunpool_advise(start, size, (size_t) sysconf(_SC_PAGESIZE), MADV_FREE)
#else
#define cunpool_offer_pages(start, size) ((void) (start), (void) (size))
#endif
/* With a GIL no thread ever waits for the lock, because the holder keeps the GIL. Without one, a fork can happen while
   the lock is handed to a sleeping thread. That thread does not exist in the child, so the child resets the lock. */
#if defined(Py_GIL_DISABLED)
#define cunpool_reset_lock(lock) memset(lock, 0, sizeof(PyMutex))
#else
#define cunpool_reset_lock(lock) ((void) (lock))
#endif
