"""Pooling in NumPy, of windows that no kernel serves: they miss the array, are larger than any block, or are whole
planes.

Results are bit-identical to the kernels'. Arrays have five axes here: N, C, depth, height and width.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from cunpool._arrays import Array
from cunpool._geometry import Sizes
from cunpool._orders import MAXIMA, MINIMA

BLOCK_ELEMENTS = 1 << 20
"""Windows of several channels that have fewer elements together are searched at once (speed)."""


class _Axis(NamedTuple):
    """One axis of the array, and of its windows."""

    full: int
    pooled: int
    kernel: int
    stride: int
    padding: int
    dilation: int

    def first_taps(self) -> Array:
        """The first tap of each window that is not in the padding before the array."""
        return np.maximum(-((np.arange(self.pooled) * self.stride - self.padding) // self.dilation), 0)

    def taps(self, window: int) -> tuple[int, int]:
        """The first tap of a window inside the array, and the one behind the last."""
        start = window * self.stride - self.padding
        return max(-(start // self.dilation), 0), min((self.full - 1 - start) // self.dilation + 1, self.kernel)

    def all_taps(self) -> range:
        """The taps from the first to the last one that lie inside the array in some window."""
        return range(self.taps(self.pooled - 1)[0], self.taps(0)[1])

    def windows(self, tap: int) -> tuple[slice, slice]:
        """The windows whose tap of this number lies inside the array, and the elements there."""
        offset = tap * self.dilation - self.padding
        low = max(-(offset // self.stride), 0)
        high = min((self.full - 1 - offset) // self.stride + 1, self.pooled)
        return slice(low, high), slice(low * self.stride + offset, (high - 1) * self.stride + offset + 1, self.stride)


class _Call(NamedTuple):
    """One call. Elements are copied as bits, so that every NaN stays as it is."""

    full: Array
    full_bits: Array
    values: Array
    indices: Array
    axes: tuple[_Axis, ...]
    steps: tuple[int, ...]  # what an index grows by along each axis, or a window code
    kind: str
    codes: bool
    is_minimum: bool
    omits_nan: bool


def pool(
    full: Array,
    values: Array,
    indices: Array | None,
    sizes: Sizes,
    n: int,
    kind: str,
    codes: bool,
    is_minimum: bool,
    omits_nan: bool,
) -> None:
    """Fill `values` and `indices`, as the kernels' `pool` does."""
    if indices is None:
        indices = np.empty(values.shape, np.int64)
    bits = f"u{full.itemsize}"
    axes = tuple(_Axis(*sizes[axis:18:3]) for axis in range(3))
    lengths = sizes[6:9] if codes else sizes[:3]
    call = _Call(
        _in_five_axes(full, n),
        _in_five_axes(full.view(bits), n),
        _in_five_axes(values.view(bits), n),
        _in_five_axes(indices, n),
        axes,
        (lengths[1] * lengths[2], lengths[2], 1),
        kind,
        codes,
        is_minimum,
        omits_nan,
    )
    # Windows that miss the array keep these.
    call.values[...] = (MINIMA if is_minimum else MAXIMA)[kind][3]
    call.indices[...] = _sum(*(_positions(call, axis, axes[axis].first_taps()) for axis in range(3)))
    if math.prod(axis.pooled for axis in axes) <= math.prod(len(axis.all_taps()) for axis in axes):
        for window in itertools.product(*(range(axis.pooled) for axis in axes)):
            _pool_window(call, window)
    elif all(len(axis.all_taps()) for axis in axes):
        _pool_taps(call)


def _in_five_axes(array: Array, n: int) -> Array:
    lead = array.ndim - n
    return np.expand_dims(array, tuple(range(2 - lead)) + tuple(range(2, 5 - n)))


def _sum(layer: Any, row: Any, column: Any) -> Any:
    """The sum of a number for each layer, row and column."""
    return layer[:, None, None] + row[:, None] + column


def _positions(call: _Call, number: int, taps: Any) -> Any:
    """Part of the indices of these taps of the windows along an axis. It may wrap, as in the kernels."""
    axis = call.axes[number]
    if not call.codes:
        taps = np.arange(axis.pooled) * axis.stride - axis.padding + taps * axis.dilation
    return taps * call.steps[number]


def _comparable(elements: Array, kind: str) -> Array:
    """The elements in a dtype that compares fast, as their own does."""
    if elements.dtype.kind == "b":  # bytes that are neither 0 nor 1 differ, as in the kernels
        return elements.view(np.uint8)
    if kind == "bf2":
        return (elements.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    with np.errstate(invalid="ignore"):
        return elements.astype(np.float32) if kind == "f2" else elements


def _pool_window(call: _Call, window: tuple[int, ...]) -> None:
    """Pool one window of each plane."""
    taps = [axis.taps(number) for axis, number in zip(call.axes, window, strict=True)]
    counts = [last - first for first, last in taps]
    if min(counts) <= 0:
        return
    begins = [
        number * axis.stride - axis.padding + first * axis.dilation
        for axis, number, (first, _) in zip(call.axes, window, taps, strict=True)
    ]
    inside: Any = tuple(
        slice(begin, begin + (count - 1) * axis.dilation + 1, axis.dilation)
        for axis, begin, count in zip(call.axes, begins, counts, strict=True)
    )
    batches, channels = call.full.shape[:2]
    some = max(BLOCK_ELEMENTS // math.prod(counts), 1)
    many = max(some // channels, 1)
    for batch, first in itertools.product(range(0, batches, many), range(0, channels, some)):
        planes: Any = (slice(batch, batch + many), slice(first, first + some))
        elements = call.full[(*planes, *inside)]
        lead = elements.shape[:2]
        rows = _comparable(elements, call.kind).reshape(math.prod(lead), -1)
        at = _first_best(rows, call.is_minimum, call.omits_nan).reshape(lead)
        found: Any = np.unravel_index(at, counts)
        call.values[(*planes, *window)] = call.full_bits[(*planes, *inside)][(*np.ogrid[: lead[0], : lead[1]], *found)]
        call.indices[(*planes, *window)] = sum(
            (first_tap + tap if call.codes else begin + tap * axis.dilation) * step
            for axis, begin, (first_tap, _), tap, step in zip(call.axes, begins, taps, found, call.steps, strict=True)
        )


def _first_best(rows: Array, is_minimum: bool, omits_nan: bool) -> Array:
    """The position of each row's maximum, or minimum: the first one, but the last NaN. A NaN that is omitted loses to
    every number."""
    at: Array = (np.argmin if is_minimum else np.argmax)(rows, axis=1)
    if rows.dtype.kind != "f":
        return at
    for row in np.flatnonzero(np.isnan(rows[np.arange(len(rows)), at])):
        is_nan = np.isnan(rows[row])
        if not omits_nan:
            at[row] = is_nan.size - 1 - np.argmax(is_nan[::-1])
        elif is_nan.all():
            at[row] = 0
        else:
            numbers = rows[row][~is_nan]  # not by np.fmax: a signaling NaN is not omitted by it
            at[row] = np.argmax(rows[row] == (numbers.min() if is_minimum else numbers.max()))
    return at


def _pool_taps(call: _Call) -> None:
    """Compare one tap of all windows at a time."""
    best = np.zeros(call.values.shape, _comparable(call.full[:0], call.kind).dtype)
    has_elements = np.zeros(call.values.shape[2:], bool)
    is_float = best.dtype.kind == "f"
    for taps in itertools.product(*(axis.all_taps() for axis in call.axes)):
        inside = [axis.windows(tap) for axis, tap in zip(call.axes, taps, strict=True)]
        if any(windows.start >= windows.stop for windows, _ in inside):
            continue
        windows: Any
        elements: Any
        windows, elements = ((..., *slices) for slices in zip(*inside, strict=True))
        later, before = _comparable(call.full[elements], call.kind), best[windows]
        is_better = later < before if call.is_minimum else later > before
        if is_float and call.omits_nan:
            is_better = (is_better | np.isnan(before)) & ~np.isnan(later)
        elif is_float:
            is_better |= np.isnan(later)
        is_better |= ~has_elements[windows[1:]]
        positions = [_positions(call, axis, np.array([tap])) for axis, tap in enumerate(taps)]
        index = _sum(
            *(
                position if call.codes else position[along]
                for position, (along, _) in zip(positions, inside, strict=True)
            )
        )
        np.copyto(before, later, where=is_better)
        np.copyto(call.values[windows], call.full_bits[elements], where=is_better)
        np.copyto(call.indices[windows], index, where=is_better, casting="unsafe")
        has_elements[windows[1:]] = True
