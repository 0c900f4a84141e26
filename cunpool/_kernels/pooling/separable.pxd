# Separable pooling: any window, in any order of the axes. Here is which calls it serves, and its plan.
# `separable_block.pxd` pools a block.
from libc.stdint cimport int64_t, uint64_t

from cunpool._kernels.common.checks cimport branch_counted
from cunpool._kernels.common.geometry cimport absolute, clamp, element_count, Geometry
from cunpool._kernels.common.job cimport are_planes_uniform, HALF_KIND, Job
from cunpool._kernels.pooling.compare cimport has_far_taps
from cunpool._kernels.pooling.runs cimport Comparison

cdef extern from "_kernels/pooling/decode.h":
    enum:
        DECODED_TOGETHER
    ctypedef struct Decoder "cunpool_decoder":
        uint64_t column, row, layer, per_row, per_layer
        int index_bytes, code_size
        bint is_far
    void decode_item1 "cunpool_decode_item1"(const Decoder *decoder, char *to, const char *codes, Py_ssize_t count,
                                             uint64_t base, const int64_t *ramp) noexcept nogil
    void decode "cunpool_decode"(const Decoder *decoder, int bytes, char *to, const char *codes, Py_ssize_t count,
                                 uint64_t base, const int64_t *ramp) noexcept nogil

cdef enum:
    BLOCK_BYTES = 1 << 17       # Elements of a block, in lattices. With codes, and twice, they stay in L2. (speed)
    FILTERED_BLOCK_BYTES = 1 << 18      # Elements of a block that is filtered, which stay in place. (speed)
    SHARED_ROWS = 64            # Least rows of windows for each thread, if rows stay long for threads. (speed)
    MAX_BLOCK_BYTES = 1 << 22   # A window that needs a larger block is pooled in NumPy. (speed)
    MAX_WINDOWS_ELEMENTS = 1 << 16  # A block grows to at most this for a vector of windows. (speed)
    MAX_SPARSE = 8              # Limits the elements of a block for each one that a window has. (speed)
    MIN_SPARSE = 1 << 10        # Smaller blocks may have more. (speed)
    MAX_PADDED = 8              # A window of this many times the array's elements is mostly padding. (speed)
    MAX_DECODED = 256           # Elements of a window whose codes become indices in 32 bits. (correctness)
    MAX_SINGLE = 8              # Elements along a single window: each is a lattice of its own. (speed)
    MAX_UNIT_BYTES = 64         # Channels that are copied together with each position. (speed)
    MAX_WRITTEN = 1 << 10       # Results of a row that are written together stay in L1. (speed)
    MIN_ROW_CHANNELS = 64       # Channels that go into a block before anything else. (speed)
    # Channels that fill more than a vector are halved until a block has room for this many of their windows. (speed:
    # 64 x 100 x 65 of float64, Fortran order, 7 x 7)
    MIN_ROW_WINDOWS = 8
    VECTOR_BYTES = 64           # Lattices begin at multiples of this. (speed)
    CHANNEL = 3                 # The axis of channels, behind layers, rows and columns.
    AXES = 4


cdef struct Axis:
    # An axis of the call. Channels have windows of one element.
    Py_ssize_t full, pooled             # elements; windows
    Py_ssize_t full_bytes, pooled_bytes, index_bytes    # from one to the next
    Py_ssize_t kernel, stride, padding, dilation
    Py_ssize_t raster                   # what an index grows by along this axis
    Py_ssize_t code_step                # what a code grows by
    Py_ssize_t lattice_step             # positions from one element of a lattice to the next; 1: taps double
    Py_ssize_t lattices
    Py_ssize_t step                     # elements of a lattice from one window to the next
    Py_ssize_t most, parts              # windows of a block at most; blocks


cdef struct Separable:
    Py_ssize_t batch
    Axis[AXES] axis
    int[AXES] order             # the axes as memory runs, slowest first
    int[3] raster_axes          # in raster order, slowest first: the last one is reduced first
    # Channels that are copied with each position of the last axis, and are the first axis of `order` then; else 1.
    Py_ssize_t unit
    Py_ssize_t lattices, pitch  # of a block: lattices, and elements from one to the next
    Py_ssize_t row_windows      # results of a row that are written together, at most
    Comparison comparison
    Decoder decoder


cdef inline int doubling_passes(Py_ssize_t kernel) noexcept nogil:
    """How many passes reach `kernel` neighbours, if each doubles how many are reached."""
    cdef int count = 0
    while <Py_ssize_t> 1 << count < kernel:
        count += 1
    return count


cdef inline Py_ssize_t greatest_common_divisor(Py_ssize_t a, Py_ssize_t b) noexcept nogil:
    while b:
        a, b = b, a % b
    return a


cdef inline void deal_axis(Axis *axis) noexcept nogil:
    """How the positions along an axis are deinterleaved into lattices."""
    axis.lattice_step, axis.step = axis.stride, 1
    if axis.pooled == 1:
        axis.lattice_step = (axis.kernel - 1) * axis.dilation + 1 if axis.kernel <= MAX_SINGLE else 1
    elif axis.kernel - 1 > 2 * axis.stride * doubling_passes(axis.kernel):
        axis.lattice_step, axis.step = 1, axis.stride
    axis.lattices = min(axis.kernel, axis.lattice_step // greatest_common_divisor(axis.lattice_step, axis.dilation))


cdef inline Py_ssize_t extent_of(const Axis *axis, Py_ssize_t windows) noexcept nogil:
    """Elements of a lattice that some windows have along an axis."""
    return (windows - 1) * axis.step + 1 + (axis.kernel - 1) * axis.dilation // axis.lattice_step


cdef inline void set_axes(const Job *job, bint by_units, Separable *plan) noexcept nogil:
    """The axes of a call, channels among them. The batch belongs to these where all planes are equally far apart."""
    cdef const Geometry *g = &job.g
    cdef bint uniform = not by_units and are_planes_uniform(job)
    cdef Axis *axis
    cdef Py_ssize_t taps = 1
    cdef int i
    plan.batch = 1 if uniform else job.batch
    for i in range(2, -1, -1):
        plan.raster_axes[i] = job.raster_axes[i]
        axis = &plan.axis[i]
        axis.full, axis.pooled = g.full[i], g.pooled[i]
        axis.full_bytes, axis.pooled_bytes = job.full.axis_bytes[i], job.pooled.axis_bytes[i]
        axis.index_bytes = job.indices.axis_bytes[i]
        axis.kernel, axis.stride, axis.padding, axis.dilation = g.kernel[i], g.stride[i], g.padding[i], g.dilation[i]
        axis.raster, axis.code_step = job.raster_steps[i], taps
        taps *= g.kernel[i]
        deal_axis(axis)
    axis = &plan.axis[CHANNEL]
    axis.full = axis.pooled = job.channels * (job.batch if uniform else 1)
    axis.full_bytes, axis.pooled_bytes = job.full.channel_bytes, job.pooled.channel_bytes
    axis.index_bytes = job.indices.channel_bytes
    axis.kernel = axis.stride = axis.dilation = axis.lattice_step = axis.lattices = axis.step = 1
    axis.padding = axis.raster = axis.code_step = 0


cdef inline void order_axes(Separable *plan) noexcept nogil:
    """The axes as memory runs, slowest first. Axes of one element come before all others."""
    cdef Py_ssize_t step[AXES]
    cdef int *order = plan.order
    cdef int k, place
    for k in range(AXES):
        step[k] = absolute(plan.axis[k].full_bytes) if plan.axis[k].full > 1 else <Py_ssize_t> (<size_t> -1 >> 1)
        order[k] = (k + CHANNEL) % AXES
    for k in range(1, AXES):
        place = k
        while place and step[order[place - 1]] < step[order[place]]:
            order[place - 1], order[place] = order[place], order[place - 1]
            place -= 1


cdef inline double block_elements(const Separable *plan, const Py_ssize_t *count, double *length) noexcept nogil:
    """The elements of all lattices of a block, and of one of them. Products of integers may overflow."""
    cdef double elements = 1
    cdef int i
    length[0] = 1
    for i in range(AXES):
        length[0] *= extent_of(&plan.axis[i], count[i])
        elements *= plan.axis[i].lattices
    return elements * length[0]


cdef inline void size_blocks(Py_ssize_t item_size, Separable *plan, Py_ssize_t filtered,
                             Py_ssize_t room) noexcept nogil:
    """Let blocks grow to `room` elements: first where the elements that two blocks share weigh most, then as memory
    runs."""
    cdef Py_ssize_t count[4]
    cdef bint is_full[4]
    cdef Py_ssize_t before, vector
    cdef double overlap, worst, length
    cdef int k, i, chosen
    cdef Axis *axis
    for i in range(AXES):
        count[i] = 1
        is_full[i] = False
    if plan.unit > 1 or filtered > 1:
        count[CHANNEL] = max(plan.unit, filtered)
        is_full[CHANNEL] = True
    elif plan.order[3] == CHANNEL:
        count[CHANNEL] = min(plan.axis[CHANNEL].pooled, <Py_ssize_t> MIN_ROW_CHANNELS)
        while count[CHANNEL] > 1 and block_elements(plan, count, &length) > (
                room // MIN_ROW_WINDOWS if count[CHANNEL] * item_size > VECTOR_BYTES else room):
            count[CHANNEL] //= 2
    if filtered:  # rows as long as leaves room for some of them
        count[2] = plan.axis[2].pooled
        while count[2] > 1 and 4 * block_elements(plan, count, &length) > room:
            count[2] = (count[2] + 1) // 2
            is_full[2] = True
    while True:
        worst = 0
        chosen = -1
        for k in range(AXES - 1, -1, -1):
            i = plan.order[k]
            axis = &plan.axis[i]
            overlap = max(1, extent_of(axis, count[i]) / (<double> count[i] * axis.step))
            if not is_full[i] and count[i] < axis.pooled and overlap > worst:
                worst = overlap
                chosen = i
        if chosen < 0:
            break
        before = count[chosen]
        count[chosen] = min(2 * before, plan.axis[chosen].pooled)
        if block_elements(plan, count, &length) > room:
            count[chosen] = before
            is_full[chosen] = True
    for i in range(AXES):  # equal parts
        axis = &plan.axis[i]
        axis.parts = (axis.pooled + count[i] - 1) // count[i]
        axis.most = (axis.pooled + axis.parts - 1) // axis.parts
        axis.parts = (axis.pooled + axis.most - 1) // axis.most
        count[i] = axis.most
    block_elements(plan, count, &length)
    vector = VECTOR_BYTES // item_size
    plan.pitch = (<Py_ssize_t> length + vector - 1) // vector * vector  # fault: lattices without room at their end


cdef inline Py_ssize_t least_shared_room(const Separable *plan, Py_ssize_t filtered, Py_ssize_t room,
                                         int threads) noexcept nogil:
    """The least `room` of blocks that threads share. Rows that are filtered stay as long as with one thread, if there
    are enough of them. (speed: 256 x 256, 31 x 31)"""
    cdef Py_ssize_t *row = [1, 1, plan.axis[2].pooled, max(filtered, <Py_ssize_t> 1)]
    cdef double length, elements = block_elements(plan, row, &length)
    if (filtered and elements <= room // 4
            and plan.axis[0].pooled * plan.axis[1].pooled >= SHARED_ROWS * threads):
        return <Py_ssize_t> (4 * elements)
    return 1024


cdef inline void plan_indices(const Job *job, Decoder *decoder) noexcept nogil:
    """How codes become indices. Quotients by a product and a shift: with m = 2^s // k + 1, code * m >> s is code // k
    where code * k < 2^s. In 32 bits s is 16, and 256 elements are the most. In 64 bits s is 40, and blocks have at most
    2^20 elements with codes."""
    cdef const Py_ssize_t *steps = job.index_steps
    cdef const Py_ssize_t *kernel = job.g.kernel
    cdef bint is_far = job.code_size == 0 and (
        element_count(kernel) > MAX_DECODED or branch_counted("windows of elements far apart", has_far_taps(job)))
    cdef uint64_t one = <uint64_t> 1 << (40 if is_far else 16)
    decoder.index_bytes, decoder.code_size = job.index_size, job.code_size
    decoder.is_far = is_far
    decoder.column = <uint64_t> steps[2]
    decoder.row = <uint64_t> steps[1] - <uint64_t> kernel[2] * <uint64_t> steps[2]
    decoder.layer = 0 if kernel[0] == 1 else <uint64_t> steps[0] - <uint64_t> kernel[1] * <uint64_t> steps[1]
    decoder.per_row = one // <uint64_t> kernel[2] + 1
    decoder.per_layer = one // <uint64_t> (kernel[1] * kernel[2]) + 1


cdef inline const char *plan_separable(const Job *job, Py_ssize_t filtered, Separable *plan) noexcept nogil:
    """How a call is reduced axis by axis. Returns why it cannot be, or NULL.

    `filtered`: the unit, in channels, of blocks that are filtered in place (`filter.pxd`), else 0.
    """
    cdef Py_ssize_t *one = [1, 1, 1, 1]
    cdef Py_ssize_t least, vector, windows, least_room
    cdef Py_ssize_t room = (FILTERED_BLOCK_BYTES if filtered else BLOCK_BYTES) // job.item_size
    cdef Py_ssize_t elements = element_count(job.g.kernel)
    cdef double length
    cdef const Axis *last
    cdef int i
    set_axes(job, filtered > 1, plan)
    plan.comparison = Comparison(<int> job.item_size, job.infinity, job.kind >= HALF_KIND, job.omits_nan, job.flip)
    if branch_counted("a window too large for a block",
                      block_elements(plan, one, &length) * job.item_size > MAX_BLOCK_BYTES):
        return "a window spans more than 4 MiB"
    least = <Py_ssize_t> block_elements(plan, one, &length)
    if branch_counted("windows that are nearly all padding", least > MAX_PADDED * element_count(job.g.full)):
        return "a window spans more than 8 times the array's elements"
    if branch_counted("windows that miss the array", not job.g.has_every_window_elements):
        return "a window has no element of the array"
    if job.indices.data != NULL:
        if job.item_size == 1 and branch_counted("codes wider than the elements", elements > 256):
            plan.comparison.bytes = 2
        if job.item_size < 4 and branch_counted("a window of too many elements for its codes", elements > 65536):
            return "a window has more than 65,536 elements"
    order_axes(plan)
    # Short units of channels are copied together: then a row is as long as all its positions.
    plan.unit = 1
    if (plan.order[3] == CHANNEL and 1 < plan.axis[CHANNEL].full <= MAX_UNIT_BYTES // job.item_size
            and are_units(&plan.axis[CHANNEL], &plan.axis[plan.order[2]], job.item_size, job.index_size)):
        plan.unit = plan.axis[CHANNEL].full
        for i in range(3, 0, -1):
            plan.order[i] = plan.order[i - 1]
        plan.order[0] = CHANNEL
    plan.lattices = plan.axis[0].lattices * plan.axis[1].lattices * plan.axis[2].lattices
    if job.threads > 1:
        least_room = least_shared_room(plan, filtered, room, job.threads)
        room = clamp(job.batch * job.channels * element_count(job.g.full) // (4 * job.threads), least_room, room)
    # At least a vector of windows, unless these are large.
    vector = least * max(plan.unit, <Py_ssize_t> VECTOR_BYTES // job.item_size)
    room = max(room, max(least, min(vector, <Py_ssize_t> MAX_WINDOWS_ELEMENTS)))
    size_blocks(job.item_size, plan, filtered, room)
    windows = 1
    for i in range(AXES):
        windows *= plan.axis[i].most
    if branch_counted("blocks of elements that hardly any window looks at",
                      plan.lattices * plan.pitch > MAX_SPARSE * windows * min(elements, plan.lattices * plan.pitch)
                      and plan.lattices * plan.pitch > MIN_SPARSE):
        return "windows use less than an eighth of the elements between them"
    last = &plan.axis[plan.order[3]]
    plan.row_windows = min(plan.unit * extent_of(last, last.most), MAX_WRITTEN // plan.unit * plan.unit)
    if job.indices.data != NULL:
        plan_indices(job, &plan.decoder)
    return NULL


cdef inline bint are_units(const Axis *channels, const Axis *along, Py_ssize_t item_size,
                           int index_size) noexcept nogil:
    """Whether all channels are neighbours in all arrays, and in the results the next position follows."""
    return (channels.full_bytes == channels.pooled_bytes == item_size and channels.index_bytes == index_size
            and along.pooled_bytes == channels.full * item_size and along.index_bytes == channels.full * index_size)
