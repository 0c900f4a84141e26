/* Tell a sanitizer where arrays in recycled memory and the parts of scratch memory end. */
#include <stddef.h>

/* A sanitized build has a gap behind each array and part. Reading or writing it is an error, and so is that of memory
   that is kept. */
#if defined(CUNPOOL_SANITIZED)
#include <sanitizer/asan_interface.h>
#else
#define CUNPOOL_SANITIZED 0
#define ASAN_POISON_MEMORY_REGION(start, size) ((void) (start), (void) (size))
#define ASAN_UNPOISON_MEMORY_REGION(start, size) ((void) (start), (void) (size))
#endif
