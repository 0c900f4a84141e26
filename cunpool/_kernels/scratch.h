/* Tell a sanitizer where the parts of a block of scratch memory end. */
#include <stddef.h>

/* A sanitized build has a gap behind each part of a block. Reading or writing it is an error. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CUNPOOL_SANITIZED 1
#endif
#endif
#if defined(CUNPOOL_SANITIZED) || defined(__SANITIZE_ADDRESS__)
#define CUNPOOL_SANITIZED 1
#include <sanitizer/asan_interface.h>
#else
#define CUNPOOL_SANITIZED 0
#define ASAN_POISON_MEMORY_REGION(start, size) ((void) (start), (void) (size))
#define ASAN_UNPOISON_MEMORY_REGION(start, size) ((void) (start), (void) (size))
#endif
