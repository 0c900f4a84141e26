"""Extremes of windows that are rectangles or unions of rectangles, by pooling with a stride of 1."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from cunpool import _arrays, pooling
from cunpool._arrays import Array

# Axes of one call of pooling.
MOST_AXES = 3


class Rule(NamedTuple):
    """What is the same in every part of a call."""

    is_minimum: bool
    has_indices: bool
    num_threads: int | None


Pads = tuple[tuple[int, int], ...]
Result = tuple[Array, Array | None]
"""Values, and indices that are flat in C order over the whole array."""


def extreme(planes: Array, group: Group, rule: Rule, out: Array | None) -> Result:
    """Extremes over the last axes of `planes`, those of the group; padding never wins."""
    window = group.sizes, 1, group.padding, 1
    into = (out, None) if rule.has_indices and out is not None else out
    found: Any = pooling._max_pool(
        len(group.axes), planes, window, False, rule.has_indices, "plane", None, into, rule.num_threads, False,
        minimum=rule.is_minimum,
    )  # fmt: skip
    return found if rule.has_indices else (found, None)


class Group(NamedTuple):
    """Axes that one call of pooling filters, at most three. The others become the axes of planes.

    Attributes
    ----------
    axes, others : tuple of int
    sizes : tuple of int
        The window's size along each of `axes`.
    padding : tuple of int or of pairs
        The padding along each of `axes`; an integer, which is checked faster, stands for two equal sides. (speed)
    order, back : tuple of int or None
        The axes of the array as pooling takes them, `others` first, and the way back. None where nothing moves.
    """

    axes: tuple[int, ...]
    others: tuple[int, ...]
    sizes: tuple[int, ...]
    padding: tuple[int, ...] | Pads
    order: tuple[int, ...] | None
    back: tuple[int, ...] | None


@lru_cache(maxsize=256)
def groups(extents: Pads, pads: Pads) -> list[Group]:
    """The calls of pooling for a window that extends before and after its element, the last axes first."""
    filtered = [axis for axis, pair in enumerate(extents) if any(pair)]
    found = []
    for end in range(len(filtered), 0, -MOST_AXES):
        axes = tuple(filtered[max(end - MOST_AXES, 0) : end])
        others = tuple(axis for axis in range(len(extents)) if axis not in axes)
        order = others + axes
        sizes = tuple(sum(extents[axis]) + 1 for axis in axes)
        moves = list(order) != sorted(order)
        back = tuple(order.index(axis) for axis in range(len(order))) if moves else None
        sides = tuple(pads[axis] for axis in axes)
        padding = tuple(before for before, _ in sides) if all(a == b for a, b in sides) else sides
        found.append(Group(axes, others, sizes, padding, order if moves else None, back))
    return found


def rectangle(array: Array, extents: Pads, pads: Pads, rule: Rule, out: Array | None = None) -> Result:
    """Extremes of windows that extend before and after their elements, with one pair in `extents` for each axis.

    Of equal extremes the first in raster order has the index. `out` is for the values; it does not overlap `array`.
    """
    values, indices = array, None
    calls = groups(extents, pads)
    for call in calls:
        values, found = _of_a_group(values, call, rule, out if call is calls[-1] else None)
        if found is not None:
            indices = found if indices is None else indices.reshape(-1)[found]
    if not calls:
        values = array.copy()
        indices = np.arange(array.size).reshape(array.shape) if rule.has_indices else None
    return values, indices


def _of_a_group(array: Array, group: Group, rule: Rule, out: Array | None) -> Result:
    """Extremes along the axes of `group`."""
    others = group.others
    if not others:
        values, indices = extreme(array[None], group, rule, None if out is None else out[None])
        return values[0], None if indices is None else indices[0]
    turned = array if group.order is None else array.transpose(group.order)
    planes = turned
    if len(others) > 2:
        planes, out = turned.reshape((-1, *turned.shape[len(others) :])), None
    elif out is not None and group.order is not None:
        out = out.transpose(group.order)
    values, indices = extreme(planes, group, rule, out)
    if planes is not turned:
        shape = turned.shape[: len(others)] + values.shape[1:]
        values, indices = values.reshape(shape), None if indices is None else indices.reshape(shape)
    if indices is not None:
        indices = _over_the_array(indices, array.shape, group.axes, others)
    if group.back is not None:
        values, indices = values.transpose(group.back), None if indices is None else indices.transpose(group.back)
    return values, indices


def _over_the_array(indices: Array, full: tuple[int, ...], axes: tuple[int, ...], others: tuple[int, ...]) -> Array:
    """Indices over the whole array of shape `full` from those in planes. The axes of `others` are in front."""
    steps = [math.prod(full[axis + 1 :]) for axis in range(len(full))]
    if axes != tuple(range(len(others), len(full))):
        places = _arrays.unravel(indices, tuple(full[axis] for axis in axes))
        indices = sum(place * steps[axis] for place, axis in zip(places, axes, strict=True))  # type: ignore[assignment]
    for position, axis in enumerate(others):
        begin = np.arange(full[axis]) * steps[axis]
        indices += begin.reshape((-1,) + (1,) * (indices.ndim - 1 - position))
    return indices


class Box(NamedTuple):
    """A rectangle in a footprint: where it begins on each axis, and its size. Leading axes have a size of 1."""

    start: tuple[int, ...]
    size: tuple[int, ...]


def runs(footprint: Array) -> Iterator[Box]:
    """The runs of elements that are True along the last axis, in raster order."""
    steps = np.diff(footprint.astype(np.int8), axis=-1, prepend=0, append=0)
    ones = (1,) * (footprint.ndim - 1)
    for begin, end in zip(np.argwhere(steps > 0), np.argwhere(steps < 0), strict=True):
        yield Box(tuple(map(int, begin)), (*ones, int(end[-1] - begin[-1])))


def boxes(footprint: Array) -> list[Box]:
    """Rectangles over the last two axes whose union is the footprint: each run, made as tall as it can be."""
    if footprint.ndim < 2:
        return list(runs(footprint))
    found: dict[Box, None] = {}
    for (*lead, row, column), (*ones, width) in runs(footprint):
        is_full = footprint[tuple(lead)][:, column : column + width].all(axis=1)
        gaps = np.flatnonzero(~is_full)
        first = max((int(gap) + 1 for gap in gaps if gap < row), default=0)
        last = min((int(gap) for gap in gaps if gap > row), default=len(is_full))
        found[Box((*lead, first, column), (*ones[:-1], last - first, width))] = None
    return list(found)


def union(array: Array, footprint: Array, rule: Rule) -> Result:
    """Extremes of windows with a footprint, for the elements whose windows lie inside the array.

    Several boxes are combined one after the other. With NaN among the elements, indices are unspecified.
    """
    shape = tuple(size - length + 1 for size, length in zip(array.shape, footprint.shape, strict=True))
    parts = list(runs(footprint)) if rule.has_indices else sorted(boxes(footprint), key=lambda box: box.size)
    results: dict[tuple[int, ...], Result] = {}

    def result(box: Box) -> Result:
        if box.size not in results:
            if not rule.has_indices:  # then boxes of one size come one after the other
                results.clear()
            results[box.size] = rectangle(
                array, tuple((0, size - 1) for size in box.size), ((0, 0),) * array.ndim, rule
            )
        place = tuple(slice(begin, begin + length) for begin, length in zip(box.start, shape, strict=True))
        values, indices = results[box.size]
        return values[place], None if indices is None else indices[place]

    first, places = result(parts[0])
    values, indices = first.copy(), None if places is None else places.copy()
    with np.errstate(invalid="ignore"):  # comparisons of bfloat16 with NaN
        for box in parts[1:]:
            more, places = result(box)
            if indices is None:
                (np.minimum if rule.is_minimum else np.maximum)(values, more, out=values)
            else:
                is_better = more < values if rule.is_minimum else more > values
                np.copyto(values, more, where=is_better)
                np.copyto(indices, places, where=is_better)  # type: ignore[arg-type]
    return values, indices
