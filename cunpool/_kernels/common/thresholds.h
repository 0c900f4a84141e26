/* Thresholds of unpooling, gradients and memory that were chosen for speed. None is needed for a correct result.

   A build with CUNPOOL_LOW_THRESHOLDS has lower ones: small inputs take every method, with the same results. Names in
   quotes are groups and cells of benchmarks/cells.py. */
#pragma once

#if defined(CUNPOOL_LOW_THRESHOLDS)
#define CUNPOOL_SPEED(released, low) (low)
#else
#define CUNPOOL_SPEED(released, low) (released)
#endif

enum {
    /* Calls that move fewer bytes keep the GIL, because releasing it takes longer ("smallest calls"). */
    KEEP_GIL_MAX_BYTES = CUNPOOL_SPEED(1 << 14, 1 << 8),
    /* From this size of all arrays on, unpooled results bypass the caches. Smaller ones are read again from L3
       (the largest cells of "cunpool bench"). */
    UNPOOL_NONTEMPORAL_MIN_BYTES = CUNPOOL_SPEED(3 << 23, 1 << 14),

    /* Channels that are neighbours in memory are worked on together from this number on ("channels last"). */
    ACROSS_MIN_CHANNELS = CUNPOOL_SPEED(8, 2),

    /* Scatter zeroes whole planes up to this size together, and stores into them while they are in L1 ("pool
       gradient"). */
    ZERO_BYTES = CUNPOOL_SPEED(1 << 13, 1 << 7),
    /* Windows of a 1d plane whose range of elements is computed at once. */
    BAND_MAX_WINDOWS = CUNPOOL_SPEED(4096, 64),
    /* Least pooled rows of a task's band, where windows overlap: two tasks read the rows between their bands ("inside
       PyTorch", 256 x 28 x 28, 3/2). */
    BAND_MIN_ROWS = CUNPOOL_SPEED(6, 1),

    /* Blocks of fewer elements are scattered: a block's position takes several divisions ("odd shapes"). */
    FILL_MIN_BLOCK_ELEMENTS = CUNPOOL_SPEED(384, 16),
    /* By codes, lines of one window are scattered, where memory runs along a line. So are lines of up to this many, of
       bytes or before elements of no window. */
    FEW_WINDOWS = CUNPOOL_SPEED(4, 2),
    /* Lines shorter than SHORT_ROW_WINDOWS are scattered: by codes where a window has MEDIUM_WINDOW_TAPS elements or
       more; by indices, in C order, lines of windows of 2, and others below SHORT_ROW_WINDOWS / SMALL_WINDOW_TAPS windows for each
       element of a window, or of SMALL_WINDOW_TAPS. WINDOW2_ROW_WINDOWS is for lines of whole vectors of windows of 2
       ("unpooling, odd shapes"; unpooling in "cunpool bench"). */
    SHORT_ROW_WINDOWS = CUNPOOL_SPEED(40, 20),
    SMALL_WINDOW_TAPS = 4,
    MEDIUM_WINDOW_TAPS = 9,
    WINDOW2_ROW_WINDOWS = CUNPOOL_SPEED(32, 16),

    /* Planes in another order than C are turned to C order in lots of about TURNED_LOT_BYTES, which stay in L2, and of
       TURNED_MAX_BYTES at most. Planes with more than TURNED_MAX_TAPS elements for each window are not turned ("in
       other orders"; 2 x 128 x 11 x 4 x 7, 3/2, has 21 and would take twice as long). */
    TURNED_LOT_BYTES = CUNPOOL_SPEED(1 << 18, 1 << 10),
    TURNED_MAX_BYTES = 1 << 26,
    TURNED_MAX_TAPS = 12,

    /* The pages of a kept block are offered to the system from this size on. Offering takes some hundredths of the
       time that filling takes, and a larger share for smaller blocks. */
    OFFER_MIN_BYTES = CUNPOOL_SPEED(1 << 24, 1 << 13),
    /* Scratch memory up to this size is rounded up to a power of two, so that calls of many sizes share blocks. */
    ROUNDED_SCRATCH_MAX_BYTES = CUNPOOL_SPEED(1 << 20, 1 << 12)
};
