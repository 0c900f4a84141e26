"""How the pooling kernels compare the numbers of each type."""

from __future__ import annotations

KINDS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "bf2", "f4", "f8")
"""The kinds of numbers, in the order of the kernels' tables."""

_INFINITIES = {"f2": 0x7C00, "bf2": 0x7F80, "f4": 0x7F800000, "f8": 0x7FF << 52}


Order = tuple[int, int, int, int, int, int]
"""`kind`, `order_kind`, `flip`, `lowest`, `nan` and `infinity` of `Job` in ``_kernels/common/job.pxd``."""


def _order(name: str, is_minimum: bool) -> Order:
    """The order of a kind of numbers, or its reverse.

    So that loops exist once, unsigned integers become signed ones, or bytes the other way round, and both 16-bit floats
    are one kind. Minima reverse the order: by a float's sign, or all bits of an integer.
    """
    size = int(name[-1])
    sign, ones = 1 << 8 * size - 1, (1 << 8 * size) - 1
    if name in _INFINITIES:
        infinity = _INFINITIES[name]
        nan = infinity | (infinity & -infinity) >> 1
        like, flip, lowest = "f2" if size == 2 else name, sign * is_minimum, sign | infinity
    else:
        infinity = nan = 0
        like = "u1" if size == 1 else f"i{size}"
        flip = (sign if like != name else 0) ^ (((1 << 64) - 1) * is_minimum)
        lowest = 0 if size == 1 else sign
    bits = infinity if size == 2 else 0
    return KINDS.index(name), KINDS.index(like), flip, (lowest ^ flip) & ones, nan, bits


MAXIMA = {name: _order(name, False) for name in KINDS}
"""The order in which maxima are found, by the kind of numbers."""
MINIMA = {name: _order(name, True) for name in KINDS}
"""The order in which minima are found, by the kind of numbers."""
