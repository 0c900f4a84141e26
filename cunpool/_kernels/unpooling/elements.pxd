# Elements that are stored in a plane, and numbers that are added to a plane's.
from libc.math cimport NAN

from cunpool._kernels.common.types cimport bhalf, element, float4, float8, half, item2, item4, item8

cdef extern from "_kernels/unpooling/elements.h":
    item2 half_sum(item2, item2) noexcept nogil
    item2 bhalf_sum(item2, item2) noexcept nogil
    bint is_rarely "CUNPOOL_RARELY"(bint) noexcept nogil

# Elements of four and eight bytes: those whose windows `fill_indices.pxd` fills.
ctypedef fused wide_element:
    item4
    item8
    float4
    float8


cdef inline void store_or_add(element *target, const element *value) noexcept nogil:
    """Store an item, or add a number in its own precision, as PyTorch adds gradients. NaN becomes the canonical one."""
    cdef element total
    if element is half:
        target.bits = half_sum(target.bits, value.bits)
    elif element is bhalf:
        target.bits = bhalf_sum(target.bits, value.bits)
    elif element is float4 or element is float8:
        total = target[0] + value[0]
        target[0] = NAN if is_rarely(total != total) else total
    else:
        target[0] = value[0]


cdef inline element add_to_zero(element value) noexcept nogil:
    """The result of `store_or_add` to zero: -0 becomes 0, and every NaN the canonical one."""
    if element is half:
        value.bits = 0x7E00 if value.bits & 0x7FFF > 0x7C00 else value.bits
        value.bits = 0 if value.bits == 0x8000 else value.bits
    elif element is bhalf:
        value.bits = 0x7FC0 if value.bits & 0x7FFF > 0x7F80 else value.bits
        value.bits = 0 if value.bits == 0x8000 else value.bits
    elif element is float4 or element is float8:
        value = value + 0
        value = value if value == value else NAN
    return value


cdef inline wide_element select_element(wide_element value, bint here) noexcept nogil:
    """`value` or zero. Masks vectorise where conditions do not."""
    if wide_element is item4 or wide_element is item8:
        return value & -<wide_element> here
    else:
        return value if here else 0
