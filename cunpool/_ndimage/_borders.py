"""Borders: windows are clipped where padding changes nothing, and taken from padded copies elsewhere."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from cunpool import _arrays
from cunpool._arrays import Array
from cunpool._ndimage._arguments import Windows
from cunpool._ndimage._footprints import union
from cunpool._ndimage._pooled import Result, Rule, rectangle

# Arrays up to this size are padded as a whole, which takes less time than four strips. (speed)
PADDED_WHOLE_BYTES = 1 << 14

# Bands of an array that are combined run by run: with two more of this size they fit L2. (speed)
BAND_BYTES = 1 << 18


def reduced(windows: Windows, shape: tuple[int, ...]) -> Windows:
    """The windows without elements that repeat others: an axis of `size` elements needs no larger ones.

    The first elements of the window stay, so that the index of the first of equal extremes stays too.
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


Box = tuple[tuple[int, int], ...]
"""A part of an array: the first element and the end along each axis."""


class Plan(NamedTuple):
    """How a call treats each axis.

    Attributes
    ----------
    modes : tuple of str
    extents : tuple of pairs of int
        Elements of the window before and after its own one.
    clipped : tuple of bool
        Whether windows are clipped at the ends of the axis, so that nothing is padded.
    boxes : tuple of Box
        The elements whose windows are taken from a padded copy, or from the array where they lie inside it.
    has_all : bool
        Whether the boxes have all elements.
    """

    modes: tuple[str, ...]
    extents: tuple[tuple[int, int], ...]
    clipped: tuple[bool, ...]
    boxes: tuple[Box, ...]
    has_all: bool


@lru_cache(maxsize=256)
def planned(windows: Windows, shape: tuple[int, ...], is_harmless: bool, has_indices: bool, is_small: bool) -> Plan:
    """The plan for windows that are rectangles. With `is_small` there is one box, or none."""
    before, after, modes, *_ = reduced(windows, shape)
    extents = tuple(zip(before, after, strict=True))
    clipped = tuple(
        is_clipped(*pair, mode, is_harmless, has_indices) for pair, mode in zip(extents, modes, strict=True)
    )
    whole = tuple((0, size) for size in shape)
    boxes = []
    for axis, ((b, a), clip, size) in enumerate(zip(extents, clipped, shape, strict=True)):
        if not clip and (b + a >= size or is_small):
            return Plan(modes, extents, clipped, (whole,), True)
        if not clip:
            boxes += [_replaced(whole, axis, *ends) for ends in ((0, b), (size - a, size)) if ends[0] < ends[1]]
    return Plan(modes, extents, clipped, tuple(boxes), False)


def planned_in_bands(windows: Windows, array: Array) -> Plan:
    """The plan for windows with a footprint: the borders, and the rest in bands across the largest step in memory."""
    extents = tuple(zip(windows.before, windows.after, strict=True))
    whole = tuple((0, size) for size in array.shape)
    inner = tuple((b, size - a) for (b, a), size in zip(extents, array.shape, strict=True))
    boxes: list[Box] = [whole]
    if array.nbytes > 2 * BAND_BYTES and all(first < end for first, end in inner):
        boxes = []
        for axis, (first, end) in enumerate(inner):
            for ends in ((0, first), (end, array.shape[axis])):
                if ends[0] < ends[1]:
                    boxes.append((*inner[:axis], ends, *whole[axis + 1 :]))
        axis = max(range(array.ndim), key=lambda axis: abs(array.strides[axis]))
        step = max(BAND_BYTES * array.shape[axis] // array.nbytes, 1)
        first, end = inner[axis]
        for begin in range(first, end, step):
            boxes.append(_replaced(inner, axis, begin, min(begin + step, end)))
    return Plan(windows.modes, extents, tuple(b + a == 0 for b, a in extents), tuple(boxes), True)


def _replaced(box: Box, axis: int, first: int, end: int) -> Box:
    """The box with other ends on an axis."""
    return (*box[:axis], (first, end), *box[axis + 1 :])


def bordered(array: Array, windows: Windows, constant: Any, is_harmless: bool, rule: Rule, out: Array | None) -> Result:
    """Extremes of windows over the padded array. `constant` has the array's dtype, where the mode needs it."""
    if windows.footprint is None:
        plan = planned(windows, array.shape, is_harmless, rule.has_indices, array.nbytes <= PADDED_WHOLE_BYTES)
    else:
        plan = planned_in_bands(windows, array)
    if plan.has_all and len(plan.boxes) == 1:
        return _in_a_box(array, plan, windows.footprint, plan.boxes[0], constant, rule)
    if plan.has_all:
        values = _arrays.new(array, array.shape, array.dtype) if out is None else out
        indices = np.empty(array.shape, np.int64) if rule.has_indices else None
    else:
        values, indices = rectangle(array, plan.extents, plan.extents, rule, out)
    for box in plan.boxes:
        part, part_indices = _in_a_box(array, plan, windows.footprint, box, constant, rule)
        region = tuple(slice(*ends) for ends in box)
        values[region] = part
        if indices is not None and part_indices is not None:
            indices[region] = part_indices
    return values, indices


def _in_a_box(array: Array, plan: Plan, footprint: Array | None, box: Box, constant: Any, rule: Rule) -> Result:
    """Extremes for the elements of a box, from a padded copy of what their windows cover."""
    ranges, maps = [], []
    for axis, ((first, end), (before, after), mode) in enumerate(zip(box, plan.extents, plan.modes, strict=True)):
        size = array.shape[axis]
        if not plan.clipped[axis]:
            first, end = first - before, end + after
        ranges.append((first, end))
        maps.append(None if first >= 0 and end <= size else positions(size, first, end, mode))
    part = padded(array, ranges, maps, constant)
    if footprint is None:
        pads = tuple(pair if clip else (0, 0) for pair, clip in zip(plan.extents, plan.clipped, strict=True))
        values, indices = rectangle(part, plan.extents, pads, rule)
    else:
        values, indices = union(part, footprint, rule)
    return values, None if indices is None else _in_the_array(indices, part.shape, array.shape, ranges, maps)


def padded(array: Array, ranges: list[tuple[int, int]], maps: list[Array | None], constant: Any) -> Array:
    """The part of the padded array in `ranges`, which `maps` describe where they leave the array.

    It is a view where nothing is padded. Otherwise, the elements inside the array are copied as a block.
    """
    inside = [slice(max(first, 0), min(end, size)) for (first, end), size in zip(ranges, array.shape, strict=True)]
    if all(at is None for at in maps):
        return array[tuple(inside)]
    region = [slice(part.start - first, part.stop - first) for part, (first, _) in zip(inside, ranges, strict=True)]
    result = _arrays.new(array, tuple(end - first for first, end in ranges), array.dtype)
    result[tuple(region)] = array[tuple(inside)]
    for axis, at in enumerate(maps):
        if at is None:
            continue
        for side in (slice(0, region[axis].start), slice(region[axis].stop, len(at))):
            if side.start < side.stop:
                # Along the axes before this one everything is there, along those behind it what lies inside.
                part = array[(slice(None),) * (axis + 1) + tuple(inside[axis + 1 :])]
                part = part.take(np.maximum(at[side], 0), axis=axis)
                for other in range(axis):
                    rows = maps[other]
                    part = (
                        part.take(np.maximum(rows, 0), axis=other)
                        if rows is not None
                        else part[(slice(None),) * other + (inside[other],)]
                    )
                result[(slice(None),) * axis + (side, *region[axis + 1 :])] = part
    for axis, at in enumerate(maps):
        if at is not None and at.min() < 0:
            result[(slice(None),) * axis + (at < 0,)] = constant
    return result


def _in_the_array(
    indices: Array,
    part: tuple[int, ...],
    full: tuple[int, ...],
    ranges: list[tuple[int, int]],
    maps: list[Array | None],
) -> Array:
    """Indices over the array of shape `full` from those over a padded part of it, -1 for the constant."""
    flat = np.zeros(indices.shape, np.int64)
    is_outside = np.zeros(indices.shape, bool)
    for axis, coordinate in enumerate(_arrays.unravel(indices, part)):
        at = maps[axis]
        if at is None:
            coordinate += ranges[axis][0]
        else:
            coordinate = at[coordinate]
            is_outside |= coordinate < 0
        flat += coordinate * math.prod(full[axis + 1 :])
    flat[is_outside] = -1
    return flat
