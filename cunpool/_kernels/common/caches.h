#pragma once

#include <stddef.h>
#include <string.h>

#include "_kernels/common/types.h"

/* Add a part of `size` bytes to a block of `*bytes`. Returns where it begins: each part takes whole cache lines. */
static inline ptrdiff_t cunpool_part(ptrdiff_t *bytes, ptrdiff_t size) {
    ptrdiff_t begin = *bytes;
    *bytes += (size + 63) / 64 * 64;
    return begin;
}

/* memcpy for short lengths, in whole vectors. The last two may overlap. */
static CUNPOOL_INLINE void cunpool_copy(char *to, const char *from, size_t size) {
    size_t i;
    if (size >= 64) {
        for (i = 0; i + 64 < size; i += 64)
            memcpy(to + i, from + i, 64);
        memcpy(to + size - 64, from + size - 64, 64);
    } else if (size >= 32) {
        memcpy(to, from, 32);
        memcpy(to + size - 32, from + size - 32, 32);
    } else if (size >= 16) {
        memcpy(to, from, 16);
        memcpy(to + size - 16, from + size - 16, 16);
    } else if (size >= 8) {
        memcpy(to, from, 8);
        memcpy(to + size - 8, from + size - 8, 8);
    } else
        memcpy(to, from, size);
}

/* Copy by non-temporal stores: whole cache lines are written without being read first. */
#if defined(__GNUC__) && defined(__x86_64__)
#include <emmintrin.h>
static inline void cunpool_copy_nontemporal(char *to, const char *from, size_t size) {
    size_t head = (64 - ((size_t) to & 63)) & 63, i, k;
    if (size < head + 64) {
        memcpy(to, from, size);
        return;
    }
    memcpy(to, from, head);
    for (i = head; i + 64 <= size; i += 64)
        for (k = 0; k < 64; k += 16)
            _mm_stream_si128((__m128i *) (to + i + k), _mm_loadu_si128((const __m128i *) (from + i + k)));
    memcpy(to + i, from + i, size - i);
}
#define cunpool_fence() _mm_sfence()
#else
#define cunpool_copy_nontemporal(to, from, size) memcpy(to, from, size)
#define cunpool_fence() ((void) 0)
#endif
