"""Filters of extremes by their definition: each window is taken from a padded copy of the array."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def source(position: int, size: int, mode: str) -> int:
    """The element of an axis that stands at a position beyond its ends, or -1 for the constant."""
    while not 0 <= position < size:
        if mode == "constant":
            return -1
        if mode == "nearest":
            position = 0 if position < 0 else size - 1
        elif mode == "wrap":
            position += size if position < 0 else -size
        elif size == 1:
            return 0
        elif mode == "reflect":
            position = -1 - position if position < 0 else 2 * size - 1 - position
        else:
            position = -position if position < 0 else 2 * size - 2 - position
    return position


def extremes(
    x: Array, footprint: Array, modes: list[str], cval: float, origins: list[int], is_minimum: bool
) -> tuple[Array, Array]:
    """Values as float64 or int64, or uint64, and indices. `footprint`, `modes` and `origins` have all axes of `x`."""
    kind = np.float64 if x.dtype.kind not in "iub" else x.dtype if x.dtype.itemsize == 8 else np.float64
    places = np.arange(x.size).reshape(x.shape)
    for axis, (length, mode, origin) in enumerate(zip(footprint.shape, modes, origins, strict=True)):
        size = x.shape[axis]
        before = length // 2 + origin
        at = [source(position, size, mode) for position in range(-before, size + length - 1 - before)]
        taken = np.take(places, np.maximum(at, 0), axis)
        outside = np.array(at).reshape((-1,) + (1,) * (x.ndim - 1 - axis)) < 0
        places = np.where(outside, -1, taken)
    with np.errstate(all="ignore"):
        values = np.where(places < 0, np.asarray(cval).astype(kind), x.astype(kind).ravel()[places])
    order = (*x.shape, -1)
    windows, sources = (
        np.lib.stride_tricks.sliding_window_view(part, footprint.shape).reshape(order)[..., footprint.ravel()]
        for part in (values, places)
    )
    first = np.expand_dims((np.argmin if is_minimum else np.argmax)(windows, axis=-1), -1)
    return np.take_along_axis(windows, first, -1)[..., 0], np.take_along_axis(sources, first, -1)[..., 0]
