/* How fast this machine can do what unpooling by window codes has to do with memory, and nothing else:

       gcc -O2 -fopenmp benchmarks/memory.c -o memory && OMP_PROC_BIND=true ./memory

   Each thread streams its share of an output past the caches, and meanwhile reads 5/16 as many bytes: a value and a code
   for every 2 x 2 cells of 4 bytes. Medians of 15 rounds, in GB/s of the bytes written and read. x86-64. */
#include <emmintrin.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 4096, ROUNDS = 15 };

static __m128i stream(char *out, const char *in, long lines) {
    __m128i seen = _mm_setzero_si128();
    for (long i = 0; i < lines; i++) {
        for (long at = 0; at < LINE * 5 / 16; at += 16)
            seen = _mm_xor_si128(seen, _mm_loadu_si128((const __m128i *) (in + i * (LINE * 5 / 16) + at)));
        for (long at = 0; at < LINE; at += 16)
            _mm_stream_si128((__m128i *) (out + i * LINE + at), seen);
    }
    _mm_sfence();
    return seen;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

int main(void) {
    long sizes[] = {25690112, 67108864, 201326592};
    for (int k = 0; k < 3; k++) {
        long lines = sizes[k] / LINE, written = lines * LINE, read = written * 5 / 16;
        char *out = aligned_alloc(LINE, written), *in = aligned_alloc(LINE, read / LINE * LINE + LINE);
        memset(out, 1, written);
        for (long i = 0; i < read; i++)
            in[i] = (char) rand();
        for (int threads = 1; threads <= omp_get_max_threads(); threads++) {
            double times[ROUNDS];
            for (int round = 0; round < ROUNDS; round++) {
                double start = omp_get_wtime();
                #pragma omp parallel for num_threads(threads) schedule(dynamic)
                for (int part = 0; part < 8 * threads; part++) {
                    long first = lines * part / (8 * threads), end = lines * (part + 1) / (8 * threads);
                    volatile __m128i seen = stream(out + first * LINE, in + first * (LINE * 5 / 16), end - first);
                    (void) seen;
                }
                times[round] = omp_get_wtime() - start;
            }
            qsort(times, ROUNDS, sizeof(double), by_size);
            printf("%3ld MB, %d threads: %.1f GB/s\n", written / 1000000, threads,
                   (written + read) / times[ROUNDS / 2] / 1e9);
        }
        free(out);
        free(in);
    }
    return 0;
}
