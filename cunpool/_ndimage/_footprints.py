"""Extremes of windows with a footprint, which is decomposed into runs of a row."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from cunpool import _arrays
from cunpool._arrays import Array
from cunpool._ndimage._pooled import Result, Rule, rectangle


class Run(NamedTuple):
    """Neighbours along the last axis of a footprint: where they begin, and how many there are."""

    start: tuple[int, ...]
    width: int


def runs_of(footprint: Array) -> list[Run]:
    """The runs of elements that are True, in raster order."""
    steps = np.diff(footprint.astype(np.int8), axis=-1, prepend=0, append=0)
    begins, ends = np.argwhere(steps > 0).tolist(), np.argwhere(steps < 0).tolist()
    return [Run(tuple(begin), end[-1] - begin[-1]) for begin, end in zip(begins, ends, strict=True)]


@lru_cache(maxsize=64)
def decomposed(shape: tuple[int, ...], mask: bytes) -> tuple[int, list[Run]]:
    """The axis whose runs need the fewest comparisons, and these runs by their width, where it is the last axis."""
    footprint = np.frombuffer(mask, bool).reshape(shape)
    choices = [runs_of(np.moveaxis(footprint, axis, -1)) for axis in range(len(shape))]
    costs = [len(runs) + len({run.width for run in runs}) for runs in choices]
    axis = costs.index(min(costs))
    return axis, sorted(choices[axis], key=lambda run: run.width)


def union(array: Array, footprint: Array, rule: Rule) -> Result:
    """Extremes of windows with a footprint, where these windows lie inside the array.

    With NaN among the elements, indices are unspecified.
    """
    if rule.has_indices:
        return _with_indices(array, footprint, rule)
    if array.dtype.itemsize == 2 and array.dtype.kind not in "iu":  # NumPy compares half precision slowly. (speed)
        return _along_the_best_axis(array.astype(np.float32), footprint, rule).astype(array.dtype), None
    return _along_the_best_axis(array, footprint, rule), None


def _along_the_best_axis(array: Array, footprint: Array, rule: Rule) -> Array:
    """The values. Two extremes of a width give one of a larger width, up to twice as large."""
    axis, runs = decomposed(footprint.shape, footprint.tobytes())
    better: np.ufunc = np.minimum if rule.is_minimum else np.maximum
    rows, reached = np.moveaxis(array, axis, -1), 1
    sizes = [size - length + 1 for size, length in zip(array.shape, footprint.shape, strict=True)]
    shape = (*sizes[:axis], *sizes[axis + 1 :], sizes[axis])
    parts: list[Array] = []
    for run in runs:
        while reached < run.width:
            step = min(reached, run.width - reached)
            left, right = rows[..., :-step], rows[..., step:]
            rows = better(left, right, out=_arrays.new(left, left.shape, left.dtype))
            reached += step
        parts.append(rows[tuple(slice(begin, begin + size) for begin, size in zip(run.start, shape, strict=True))])
        if len(parts) == 2:
            result = better(*parts, out=_arrays.new(parts[0], shape, array.dtype))
        elif len(parts) > 2:
            better(result, parts.pop(), out=result)
    return np.moveaxis(result if len(parts) > 1 else parts[0].copy(order="K"), -1, axis)


def _with_indices(array: Array, footprint: Array, rule: Rule) -> Result:
    """Values and indices, run by run in raster order: a run replaces an extreme only with a better one."""
    shape = tuple(size - length + 1 for size, length in zip(array.shape, footprint.shape, strict=True))
    rows: dict[int, Result] = {}
    values, indices = np.empty(shape, array.dtype), np.empty(shape, np.int64)
    is_better: Array | bool = True
    with np.errstate(invalid="ignore"):  # comparisons of bfloat16 with NaN
        for start, width in runs_of(footprint):
            if width not in rows:
                extents = ((0, 0),) * (array.ndim - 1) + ((0, width - 1),)
                rows[width] = rectangle(array, extents, ((0, 0),) * array.ndim, rule)
            region = tuple(slice(begin, begin + size) for begin, size in zip(start, shape, strict=True))
            more, part_indices = (part[region] for part in rows[width] if part is not None)
            if is_better is not True:
                is_better = more < values if rule.is_minimum else more > values
            np.copyto(values, more, where=is_better)
            np.copyto(indices, part_indices, where=is_better)
            is_better = False
    return values, indices
