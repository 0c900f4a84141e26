"""What lies beyond the ends of an array: where padding changes nothing, and strips that are padded where it does."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from cunpool import _arrays
from cunpool._arrays import Array
from cunpool._ndimage._arguments import Windows
from cunpool._ndimage._pooled import Result, Rule, rectangle, union

# Arrays up to this size are padded as a whole, which takes less time than four strips. (speed)
PADDED_WHOLE_BYTES = 1 << 14


def reduced(windows: Windows, shape: tuple[int, ...]) -> Windows:
    """The windows without elements that repeat others: an axis of `size` elements needs no larger ones.

    The elements that stay are the first ones of the window, so that of equal extremes the first one stays too.
    """
    before, after = list(windows.before), list(windows.after)
    for axis, (size, mode) in enumerate(zip(shape, windows.modes, strict=True)):
        b, a = before[axis], after[axis]
        period = {"wrap": size, "reflect": 2 * size, "mirror": max(2 * size - 2, 1)}.get(mode)
        if period is None:
            b, a = min(b, size), min(a, size)
        elif b + a + 1 > period:
            b %= period
            a = period - 1 - b
        before[axis], after[axis] = b, a
    return windows._replace(before=tuple(before), after=tuple(after))


def is_clipped(before: int, after: int, mode: str, is_harmless: bool, has_indices: bool) -> bool:
    """Whether the extreme over the padded window equals that over its elements inside the array.

    A mirrored element may come before its source in the window, which counts for indices. `is_harmless` tells whether
    a constant never wins.
    """
    if before == after == 0 or mode == "nearest":
        return True
    if mode == "constant":
        return is_harmless
    if has_indices:
        return False
    return abs(before - after) <= 1 if mode == "reflect" else mode == "mirror" and before == after


def positions(size: int, first: int, end: int, mode: str) -> Array:
    """The element of an axis of `size` at each position from `first` to `end`, or -1 for the constant."""
    at = np.arange(first, end)
    if mode == "nearest":
        return np.clip(at, 0, size - 1)
    if mode == "constant":
        return np.where((at < 0) | (at >= size), -1, at)
    if mode == "wrap":
        return at % size
    at %= 2 * size if mode == "reflect" else max(2 * size - 2, 1)
    return np.minimum(at, (2 * size - 1 if mode == "reflect" else 2 * size - 2) - at)


class Plan(NamedTuple):
    """What a call does with each axis.

    Attributes
    ----------
    modes : tuple of str
    extents : tuple of pairs of int
        Elements of the window before and after its own one.
    clipped : tuple of bool
        Whether windows are clipped at the ends of the axis, so that nothing is padded.
    strips : tuple of (axis, first, end)
        The elements whose windows are taken from a padded copy. One strip has them all where some axis is shorter than
        its window.
    """

    modes: tuple[str, ...]
    extents: tuple[tuple[int, int], ...]
    clipped: tuple[bool, ...]
    strips: tuple[tuple[int, int, int], ...]


@lru_cache(maxsize=256)
def planned(
    windows: Windows, has_footprint: bool, shape: tuple[int, ...], is_harmless: bool, has_indices: bool, is_small: bool
) -> Plan:
    """The plan for windows of which the footprint is not told."""
    if not has_footprint:
        windows = reduced(windows, shape)
    extents = tuple(zip(windows.before, windows.after, strict=True))
    clipped = tuple(
        before == after == 0 or (not has_footprint and is_clipped(before, after, mode, is_harmless, has_indices))
        for (before, after), mode in zip(extents, windows.modes, strict=True)
    )
    strips = []
    for axis, ((before, after), clip, size) in enumerate(zip(extents, clipped, shape, strict=True)):
        if not clip and (before + after >= size or is_small):
            return Plan(windows.modes, extents, clipped, ((axis, 0, size),))
        if not clip:
            strips += [(axis, 0, before), (axis, size - after, size)]
    return Plan(windows.modes, extents, clipped, tuple(strip for strip in strips if strip[1] < strip[2]))


def bordered(array: Array, windows: Windows, constant: Any, is_harmless: bool, rule: Rule, out: Array | None) -> Result:
    """Extremes of windows over the padded array. `constant` has the array's dtype, where the mode needs it."""
    footprint = windows.footprint
    told = windows if footprint is None else windows._replace(footprint=None)
    is_small = array.nbytes <= PADDED_WHOLE_BYTES
    plan = planned(told, footprint is not None, array.shape, is_harmless, rule.has_indices, is_small)
    if plan.strips and plan.strips[0][2] - plan.strips[0][1] == array.shape[plan.strips[0][0]]:
        return _strip(array, plan, footprint, plan.strips[0], constant, rule)
    if footprint is None:
        values, indices = rectangle(array, plan.extents, plan.extents, rule, out)
    else:
        inside = tuple(slice(b, size - a) for (b, a), size in zip(plan.extents, array.shape, strict=True))
        part, places = union(array, footprint, rule)
        values = np.empty_like(array) if out is None else out
        values[inside] = part
        indices = None
        if places is not None:
            indices = np.empty(array.shape, np.int64)
            indices[inside] = places
    for strip in plan.strips:
        axis, first, end = strip
        part, places = _strip(array, plan, footprint, strip, constant, rule)
        place = (slice(None),) * axis + (slice(first, end),)
        values[place] = part
        if indices is not None:
            indices[place] = places
    return values, indices


def _strip(
    array: Array, plan: Plan, footprint: Array | None, strip: tuple[int, int, int], constant: Any, rule: Rule
) -> Result:
    """Extremes for the elements of a strip, from a padded copy of what their windows cover."""
    axis, first, end = strip
    maps: list[Array | None] = []
    for other, ((before, after), mode, size) in enumerate(zip(plan.extents, plan.modes, array.shape, strict=True)):
        ends = (first, end) if other == axis else (0, size)
        maps.append(None if plan.clipped[other] else positions(size, ends[0] - before, ends[1] + after, mode))
    part = array
    for other in sorted(range(array.ndim), key=lambda other: other != axis):  # the strip's own axis first: less to copy
        at = maps[other]
        if at is None:
            continue
        part = part.take(np.maximum(at, 0), axis=other)
        if (at < 0).any():
            part[(slice(None),) * other + (at < 0,)] = constant
    if footprint is None:
        pads = tuple(pair if clip else (0, 0) for pair, clip in zip(plan.extents, plan.clipped, strict=True))
        values, indices = rectangle(part, plan.extents, pads, rule)
    else:
        values, indices = union(part, footprint, rule)
    return values, None if indices is None else _in_the_array(indices, part.shape, array.shape, maps)


def _in_the_array(indices: Array, padded: tuple[int, ...], full: tuple[int, ...], maps: list[Array | None]) -> Array:
    """Indices over the array from those over a padded part of it, -1 for the constant."""
    flat = np.zeros(indices.shape, np.int64)
    is_outside = np.zeros(indices.shape, bool)
    for axis, place in enumerate(_arrays.unravel(indices, padded)):
        at = maps[axis]
        if at is not None:
            place = at[place]
            is_outside |= place < 0
        flat += place * math.prod(full[axis + 1 :])
    flat[is_outside] = -1
    return flat
