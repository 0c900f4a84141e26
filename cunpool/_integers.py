"""Arguments that are sizes: normalised to integers, one for all axes or one for each. The standard library alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from operator import index
from typing import Any, SupportsIndex, TypeGuard

from cunpool import _remedies
from cunpool._remedies import shown

Size = SupportsIndex | Sequence[SupportsIndex]
"""An integer for all axes, or one for each."""

Shape = tuple[int, ...]

# Products of two sizes along one axis, and sums of a few, must stay below 2**63.
LARGEST = 2**60


def integer(name: str, value: object) -> int:
    """Return `value` as an int. A bool is refused, because it is usually an argument in the wrong position."""
    if type(value) is int:
        return value
    return index_of(value, name, f"{name} must be an integer", value)


def hashable(name: str, value: Size) -> int | Shape:
    """`value` as something that caches can hold; equal values of other types must not pass for integers."""
    plain = tuple(value) if type(value) is list else value
    if type(plain) is int or are_integers(plain):  # a short cut for small calls
        return plain
    rule = f"{name} must be an integer or a sequence of integers"
    return all_of(value, name, rule) if is_iterable(value) else index_of(value, name, rule, value)


def entries(name: str, value: Any) -> Shape:
    """The integers in `value`."""
    plain = tuple(value) if type(value) is list else value
    if are_integers(plain):  # a short cut for small calls
        return plain
    rule = f"{name} must be a sequence of integers"
    if not is_iterable(value):
        raise TypeError(f"{rule}, got {shown(value)}{_remedies.for_a_size(name, value)}")
    return all_of(value, name, rule)


def are_integers(value: object) -> TypeGuard[Shape]:
    """Whether `value` is a tuple of nothing but ints."""
    return type(value) is tuple and [*map(type, value)].count(int) == len(value)


def is_iterable(value: object) -> bool:
    """Whether `value` has entries in an order of their own. An array without axes is iterable by type, but has none."""
    refused = isinstance(value, (str, bytes, bytearray, memoryview, Set, Mapping))
    return isinstance(value, Iterable) and not refused and getattr(value, "ndim", 1) != 0


def all_of(values: Any, name: str, rule: str, given: object = None) -> Shape:
    """The entries of `values` as ints; messages show `given`, by default `values`."""
    given = values if given is None else given
    return tuple([value if type(value) is int else index_of(value, name, rule, given) for value in values])


def index_of(value: object, name: str, rule: str, given: object) -> int:
    """Return `value` as an int. It is an entry of `given`, the argument `name`."""
    if not isinstance(value, bool):
        try:
            return index(value)  # type: ignore[arg-type]
        except TypeError:  # its message names neither the argument nor the value
            pass
    raise TypeError(f"{rule}, got {shown(given)}{_remedies.for_a_size(name, given)}")


def per_axis(n: int, name: str, value: int | Shape, least: int, given: object = None) -> Shape:
    """One integer of at least `least` for each of the `n` axes; messages show `given`, by default `value`."""
    sizes = value if isinstance(value, tuple) else (value,) * n
    given = value if given is None else given
    if len(sizes) != n:
        raise ValueError(
            f"{name} must be an integer or have {n} {'entry' if n == 1 else 'entries'}, one per axis, "
            f"got {shown(given)}{_remedies.for_a_count(n, name, given if isinstance(given, tuple) else sizes)}"
        )
    if min(sizes) < least:
        raise ValueError(f"{name} must be at least {least} on every axis, got {shown(given)}{_remedies.smallest(name)}")
    if max(sizes) > LARGEST:
        raise OverflowError(f"{name} must be at most 2**60, got {shown(given)}")
    return sizes
