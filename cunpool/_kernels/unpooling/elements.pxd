# Elements that are stored in a plane, and numbers that are added to a plane's.
from libc.math cimport NAN

from cunpool._kernels.common.types cimport (
    bhalf, element, float4, float8, half, item1, item16, item2, item4, item8)

cdef extern from "_kernels/unpooling/elements.h":
    float half_value(item2) noexcept nogil
    item2 half_of(float) noexcept nogil
    item2 half_sum(item2, item2) noexcept nogil
    float4 float_sum(float4, float4) noexcept nogil
    float8 double_sum(float8, float8) noexcept nogil
    float bhalf_value(item2) noexcept nogil
    item2 bhalf_of(float) noexcept nogil

cdef inline element zero_of(const element *_) noexcept nogil:
    cdef element zero
    if element is item16:
        zero.low = zero.high = 0
    elif element is half or element is bhalf:
        zero.bits = 0
    else:
        zero = 0
    return zero


cdef inline element canonical_nan(element x) noexcept nogil:
    """`x`, or the canonical NaN in place of any NaN."""
    if element is float4 or element is float8:
        x = x if x == x else NAN
    return x


cdef inline void store_or_add(element *target, const element *value) noexcept nogil:
    """Store an item, or add a number in its own precision, as PyTorch adds gradients."""
    if element is half:
        target.bits = half_sum(target.bits, value.bits)
    elif element is bhalf:
        target.bits = bhalf_of(bhalf_value(target.bits) + bhalf_value(value.bits))
    elif element is float4:
        target[0] = float_sum(target[0], value[0])
    elif element is float8:
        target[0] = double_sum(target[0], value[0])
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
        value = canonical_nan(value + 0)
    return value


cdef inline element select_element(element value, bint here) noexcept nogil:
    """`value` or zero. Masks vectorise where conditions do not."""
    if element is item1 or element is item2 or element is item4 or element is item8:
        return value & -<element> here
    else:
        return value if here else zero_of(&value)
