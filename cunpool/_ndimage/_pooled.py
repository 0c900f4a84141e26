"""Extremes of windows that are rectangles or unions of rectangles, by pooling with a stride of 1."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
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


Pads = Sequence[tuple[int, int]]
Result = tuple[Array, Array | None]
"""Values, and indices that are flat in C order over the whole array."""


def extreme(planes: Array, sizes: Sequence[int], pads: Pads, rule: Rule, out: Array | None = None) -> Result:
    """Extremes over the last axes of `planes`, one for each of `sizes`; padding never wins."""
    window = tuple(sizes), 1, tuple(pads), 1
    into = (out, None) if rule.has_indices and out is not None else out
    found: Any = pooling._max_pool(
        len(sizes), planes, window, False, rule.has_indices, "plane", None, into, rule.num_threads, False,
        minimum=rule.is_minimum,
    )  # fmt: skip
    return found if rule.has_indices else (found, None)


def rectangle(array: Array, sizes: Sequence[int], pads: Pads, rule: Rule, out: Array | None = None) -> Result:
    """Extremes of windows of `sizes`, one for each axis. `out` is for the values; it does not overlap `array`.

    The axes are filtered in groups, the last ones first, so that of equal extremes the first in raster order stays.
    """
    axes = [axis for axis, size in enumerate(sizes) if size > 1]
    groups = [axes[max(end - MOST_AXES, 0) : end] for end in range(len(axes), 0, -MOST_AXES)]
    values, indices = array, None
    for group in groups:
        last = out if group is groups[-1] else None
        values, found = _group(values, group, [sizes[a] for a in group], [pads[a] for a in group], rule, last)
        if found is not None:
            indices = found if indices is None else indices.reshape(-1)[found]
    if not groups:
        values = array.copy()
        indices = np.arange(array.size).reshape(array.shape) if rule.has_indices else None
    return values, indices


def _group(array: Array, group: list[int], sizes: Sequence[int], pads: Pads, rule: Rule, out: Array | None) -> Result:
    """Extremes along the axes in `group`, at most three. The others become the axes of planes."""
    n, others = len(group), [axis for axis in range(array.ndim) if axis not in group]
    order = others + group
    turned = array.transpose(order)
    spatial = turned.shape[len(others) :]
    planes = turned[None] if not others else turned
    if len(others) > 2:
        planes, out = turned.reshape((-1, *spatial)), None
    if out is not None:
        out = out.transpose(order) if others else out.transpose(order)[None]
    values, indices = extreme(planes, sizes, pads, rule, out)
    shape = turned.shape[: len(others)] + values.shape[planes.ndim - n :]
    back = np.argsort(order)
    if indices is not None:
        indices = _over_the_array(indices.reshape(shape), array.shape, group, others).transpose(back)
    return values.reshape(shape).transpose(back), indices


def _over_the_array(indices: Array, full: tuple[int, ...], group: list[int], others: list[int]) -> Array:
    """Indices over the whole array of shape `full` from those in planes. The axes of `others` are in front."""
    if not others:
        return indices
    steps = [math.prod(full[axis + 1 :]) for axis in range(len(full))]
    if group != list(range(len(others), len(full))):
        places = _arrays.unravel(indices, tuple(full[axis] for axis in group))
        indices = sum(place * steps[axis] for place, axis in zip(places, group, strict=True))  # type: ignore[assignment]
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
            results[box.size] = rectangle(array, box.size, ((0, 0),) * array.ndim, rule)
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
