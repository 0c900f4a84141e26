"""Padding: how many elements are added before each axis, and how many behind it. The standard library alone.

A padding is kept as it was given, so that caches can hold it: an integer, a tuple of integers, a tuple of pairs, or a
name. It becomes two tuples of integers once the sizes of the array are known, because "same" depends on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, SupportsIndex, TypeGuard

from cunpool import _remedies
from cunpool._integers import LARGEST, Shape, Size, all_of, are_integers, index_of, is_iterable, per_axis
from cunpool._remedies import shown

Name = Literal["same", "same_lower"]
Padding = Size | Sequence[Sequence[SupportsIndex]] | Name
"""An integer for all axes; for each axis an integer, or a pair (before, after); or a name."""

Pairs = tuple[tuple[int, int], ...]
Fixed = int | Shape | Pairs | Name
"""A padding that is hashable."""

NAMES = ("same", "same_lower")
RULE = "padding must be an integer, an integer or a pair (before, after) for each axis, or 'same' or 'same_lower'"


def hashable(value: Padding) -> Fixed:
    """`value` as something that caches can hold; equal values of other types must not pass for integers."""
    plain = tuple(value) if type(value) is list else value
    if type(plain) is int or are_integers(plain):  # a short cut for small calls
        return plain
    if isinstance(value, str):
        if value not in NAMES:
            raise ValueError(f"{RULE}, got {shown(value)}{_remedies.for_a_named_padding(value)}")
        return "same" if value == "same" else "same_lower"  # of any subclass of str
    if not is_iterable(value):
        return index_of(value, "", RULE, value)
    sides: list[Any] = list(value)  # type: ignore[arg-type]
    nested = [*map(is_iterable, sides)]
    if not any(nested):
        return all_of(sides, "", RULE, value)
    pairs = [all_of(side if deep else (side,), "", RULE, value) for side, deep in zip(sides, nested, strict=True)]
    if not all(nested) or any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"{RULE}, got {shown(value)}{_remedies.for_pairs(pairs, nested)}")
    return tuple((before, after) for before, after in pairs)


def is_of_pairs(padding: Fixed) -> TypeGuard[Pairs]:
    return type(padding) is tuple and len(padding) > 0 and type(padding[0]) is tuple


def is_even(padding: Fixed) -> bool:
    """Whether both ends of each axis have the same padding, which is given."""
    return not isinstance(padding, str) and not is_of_pairs(padding)


def checked(n: int, padding: Fixed) -> Shape | Pairs | Name:
    """One integer or one pair for each of the `n` axes, or the name."""
    if isinstance(padding, str):
        return padding
    if not is_of_pairs(padding):
        return per_axis(n, "padding", padding, 0)  # type: ignore[arg-type]
    for end in zip(*padding, strict=True):
        per_axis(n, "padding", end, 0, padding)
    return padding


def ends(n: int, padding: Fixed, full: Shape, kernel: Shape, stride: Shape, dilation: Shape) -> tuple[Shape, Shape]:
    """The padding before each axis of a plane of the size `full`, and the padding behind it."""
    padding = checked(n, padding)
    reach = tuple(d * (k - 1) for k, d in zip(kernel, dilation, strict=True))
    if isinstance(padding, str):
        if max(reach) > LARGEST:
            raise OverflowError(f"windows must span at most 2**60 elements on every axis, got {shown(max(reach) + 1)}")
        total = [max(-(-size // s) * s - s + r + 1 - size, 0) for size, s, r in zip(full, stride, reach, strict=True)]
        less, more = tuple(both // 2 for both in total), tuple(both - both // 2 for both in total)
        return (less, more) if padding == "same" else (more, less)
    if not is_of_pairs(padding):
        return padding, padding  # type: ignore[return-value]
    if any(max(pair) > r for pair, r in zip(padding, reach, strict=True)):
        spans = tuple(r + 1 for r in reach)
        raise ValueError(
            f"each side of a pair of padding must be less than dilation * (kernel_size - 1) + 1, {shown(spans)}, got "
            f"{shown(padding)}; {_remedies.OTHER_BORDERS}"
        )
    before, after = zip(*padding, strict=True)
    return before, after
