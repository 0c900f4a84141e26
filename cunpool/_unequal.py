"""Pooling with windows of unequal sizes: they are copied to adjacent windows of one size, which are pooled.

A shorter window ends with copies of its last element. These change no result: an equal element later in the window
never wins, and of several NaN the last one wins, which is then the same element.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from operator import add, mul, sub
from typing import Any, NamedTuple

import numpy as np

from cunpool import _adaptive_axis, _arrays, _geometry, _large, _threads
from cunpool._arrays import Array
from cunpool._geometry import Shape
from cunpool._kernels import pool as _pool
from cunpool._kernels import runtime as _runtime
from cunpool._orders import MAXIMA

# Windows are copied in lots of at most this many elements, if a window has no more. The copy stays near L2, and the
# memory of a call is bounded. (speed: 16 x 3 x 224 x 224 to 100 x 150)
LOT_ELEMENTS = 1 << 18
# Windows with rows of ALONE_ROW elements, and ALONE_ELEMENTS in all planes, are pooled one by one where they lie: that
# takes less time than a copy. (speed: 64 x 256 x 256 to 7 x 7, 2000 x 2000 to 7 x 9)
ALONE_ROW = 16
ALONE_ELEMENTS = 1 << 15
# Lots with at most this many elements in a plane are planned once, and kept: 128, with two tables of 64 KiB. (speed)
KEPT_ELEMENTS = 1 << 13

_NO_INDICES = np.empty(0, np.int64)


class _Lot(NamedTuple):
    """Some windows of each plane."""

    inside: tuple[slice, ...]
    """The part of the plane that these windows cover."""
    steps: list[tuple[int, Array]]
    """The steps of copying, one for each axis in memory: its size, and which elements the copy has."""
    shape: Shape
    """The sizes of the copy of a plane, in the order of memory."""
    sizes: _geometry.Sizes
    """The kernels' integers."""
    indices: Array
    """The index in the plane of each element of the copy, in raster order. It is empty if there is no copy."""


def pool(native: Array, values: Array, indices: Array | None, n: int, kind: str, num_threads: int | None) -> None:
    """Fill `values` and `indices`, as the kernels' `pool` does."""
    lead = native.ndim - n
    full, pooled = native.shape[lead:], values.shape[lead:]
    order, channels = _order_in_memory(native, lead)
    spatial = tuple(axis - lead for axis in order if axis >= lead)
    dtype = None if indices is None else indices.dtype
    largest = tuple(map(_adaptive_axis.largest, full, pooled))
    if largest[-1] >= ALONE_ROW and math.prod(native.shape[:lead] + largest) >= ALONE_ELEMENTS:
        counts = [*native.shape[:lead], *(1,) * n]
    else:
        counts = _counts_of_lot(values.shape, (1,) * lead + largest, order, channels)
    plan = _kept_lot if math.prod(map(mul, counts[lead:], largest)) <= KEPT_ELEMENTS else _lot
    firsts = [range(0, size, count) for size, count in zip(values.shape, counts, strict=True)]
    for begin in itertools.product(*firsts[lead:]):
        end = tuple(map(min, map(add, begin, counts[lead:]), pooled))
        lot = plan(full, pooled, begin, end, spatial, channels > 0, dtype)
        for first in itertools.product(*firsts[:lead]):
            planes = tuple(map(slice, first, map(add, first, counts)))
            where = (*planes, *map(slice, begin, end))
            found = None if indices is None else _arrays.new(values[where], values[where].shape, _arrays.INT64)
            _pool_lot(lot, native[(*planes, *lot.inside)], values[where], found, order, channels, n, kind, num_threads)
            if indices is None or found is None:
                continue
            if lot.indices.size:
                np.take(lot.indices, found.transpose(order), out=indices[where].transpose(order), mode="clip")
            else:
                indices[where] = _in_plane(found, lot.inside, full)


def _pool_lot(
    lot: _Lot,
    part: Array,
    values: Array,
    indices: Array | None,
    order: tuple[int, ...],
    channels: int,
    n: int,
    kind: str,
    num_threads: int | None,
) -> None:
    """Pool the windows of a lot, whose elements are in `part`. Indices count the elements of the copy."""
    copy = _copied(part, lot, order, channels)
    threads = _threads.threads_for(2 * copy.nbytes, num_threads)
    try:
        if _pool.pool(copy, values, indices, lot.sizes, n, MAXIMA[kind], False, threads) & _pool.LARGE:
            _large.pool(copy, values, indices, lot.sizes, n, kind, False, False, False)
    except _runtime.Planned as planned:
        copied_bytes = 0 if np.may_share_memory(copy, part) else copy.nbytes
        planned.args[0]["scratch_bytes"] += copied_bytes
        planned.args[0]["lot"] = math.prod(values.shape), copied_bytes > 0
        raise


def _copied(part: Array, lot: _Lot, order: tuple[int, ...], channels: int) -> Array:
    """Copy the windows of a lot from `part`, which has their elements. One axis after the other, they become equal."""
    behind = part.ndim - channels
    part = part.transpose(order)
    shape = part.shape[: behind - len(lot.shape)] + lot.shape + part.shape[behind:]
    inner = math.prod(part.shape[behind:])
    for size, elements in reversed(lot.steps):
        if elements.size > size:
            outer = part.size // (size * inner)
            copy = _arrays.new(elements, (outer, elements.size, inner), part.dtype)
            if not _runtime.explaining():
                np.take(part.reshape(outer, size, inner), elements, 1, copy, "clip")
            part = copy
        inner *= elements.size
    return part.reshape(shape).transpose(sorted(range(len(order)), key=order.__getitem__))


def _order_in_memory(array: Array, lead: int) -> tuple[tuple[int, ...], int]:
    """The axes from the outermost to the innermost one, and how many axes of interleaved channels are last.

    The spatial axes, from number `lead` on, follow each other.
    """
    outermost = max(map(abs, array.strides[lead:]))
    channels = [axis for axis in range(lead) if array.shape[axis] > 1 and abs(array.strides[axis]) < outermost]
    planes = [axis for axis in range(lead) if axis not in channels]
    groups = planes, range(lead, array.ndim), channels
    order = [axis for group in groups for axis in sorted(group, key=lambda axis: -abs(array.strides[axis]))]
    return tuple(order), len(channels)


def _counts_of_lot(counts: Shape, largest: Shape, order: tuple[int, ...], channels: int) -> list[int]:
    """How many planes, and windows of each axis, a lot has at most. Axes are divided from the outermost one on.

    The last axes of the order are `channels` axes of interleaved channels, which stay together.
    """
    most = list(counts)
    divided = order[: len(order) - channels]
    room = LOT_ELEMENTS // math.prod(counts[axis] for axis in order[len(divided) :])
    rest = math.prod(counts[axis] * largest[axis] for axis in divided)
    for axis in divided:
        rest //= counts[axis] * largest[axis]
        most[axis] = max(min(room // (rest * largest[axis]), counts[axis]), 1)
        room //= most[axis] * largest[axis]
    return most


def _lot(
    full: Shape,
    pooled: Shape,
    begin: Shape,
    end: Shape,
    order: tuple[int, ...],
    is_interleaved: bool,
    dtype: np.dtype[Any] | None,
) -> _Lot:
    """The windows from `begin` to `end`. The spatial axes have this `order` in memory.

    A single window is pooled where it lies: tables as large as the window would take much memory.
    """
    n = len(full)
    lows = [first * size // count for size, count, first in zip(full, pooled, begin, strict=True)]
    highs = [-(-last * size // count) for size, count, last in zip(full, pooled, end, strict=True)]
    inside = tuple(map(slice, lows, highs))
    windows = tuple(map(sub, end, begin))
    if max(windows) == 1:
        kernel = tuple(map(sub, highs, lows))
        sizes = _sizes(n, kernel, windows, kernel, kernel, (0,) * n, (1,) * n)
        return _Lot(inside, [], tuple(kernel[axis] for axis in order), sizes, _NO_INDICES)
    axes = [_elements(*axis) for axis in zip(full, pooled, begin, end, strict=True)]
    kernel = tuple(axis.shape[1] for axis in axes)
    shape = tuple(axis.size for axis in axes)
    sizes = _sizes(n, shape, windows, kernel, kernel, (0,) * n, (1,) * n)
    steps = [(highs[axis] - lows[axis], axes[axis].ravel() - lows[axis]) for axis in order]
    if is_interleaved:  # one step copies all channels of an element at once
        steps = [(math.prod(size for size, _ in steps), _flat(steps))]
    indices = _NO_INDICES if dtype is None else _flat(list(zip(full, axes, strict=True))).astype(dtype, copy=False)
    return _Lot(inside, steps, tuple(shape[axis] for axis in order), sizes, indices)


_kept_lot = lru_cache(maxsize=128)(_lot)
_sizes = lru_cache(maxsize=64)(_geometry.flat_sizes)


def _elements(size: int, count: int, begin: int, end: int) -> Array:
    """The elements of some windows of an axis, a row for each. Shorter windows repeat their last element."""
    window = np.arange(begin, end)
    first, last = window * size // count, ((window + 1) * size - 1) // count
    return np.minimum(first[:, None] + np.arange((last - first).max() + 1), last[:, None])


def _in_plane(indices: Array, inside: tuple[slice, ...], full: Shape) -> Array:
    """The indices in a plane of these `full` sizes, given those in a part of it."""
    positions = _arrays.unravel(indices, tuple(part.stop - part.start for part in inside))
    begins = [part.start for part in inside]
    flat: Array = np.ravel_multi_index([at + begin for at, begin in zip(positions, begins, strict=True)], full)
    return flat


def _flat(axes: list[tuple[int, Array]]) -> Array:
    """The flat index of each combination of elements of axes of these sizes."""
    flat = np.zeros((1, 1), np.int64)
    for size, elements in axes:
        column = flat.reshape(-1, 1) * size
        flat = np.add(column, elements.ravel(), out=_arrays.new(column, (column.size, elements.size), _arrays.INT64))
    return flat.ravel()
