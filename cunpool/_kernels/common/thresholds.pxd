# Thresholds that were chosen for speed. `thresholds.h` names the cases that each one serves.
cdef extern from "_kernels/common/thresholds.h":
    enum:
        ACROSS_MIN_CHANNELS
        BAND_MAX_WINDOWS
        BAND_MIN_ROWS
        CACHED_RESULT_BYTES
        FEW_WINDOWS
        FEW_WINDOWS_BEFORE_REST
        FEW_WINDOWS_OF_BYTES
        FILL_MIN_BLOCK_ELEMENTS
        FILL_MIN_WINDOWS
        KEEP_GIL_MAX_BYTES
        LARGE_WINDOW_TAPS
        MEDIUM_WINDOW_TAPS
        OFFER_MIN_BYTES
        ROUNDED_SCRATCH_MAX_BYTES
        SMALL_WINDOW_TAPS
        TURNED_LOT_BYTES
        TURNED_MAX_BYTES
        TURNED_MAX_TAPS
        UNPOOL_NONTEMPORAL_MIN_BYTES
        SHORT_ROW_WINDOWS
        WINDOW2_ROW_WINDOWS
        ZERO_ADDED_BYTES
        ZERO_BYTES
