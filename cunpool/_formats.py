"""Formats of indices: in which order each of them counts the cells of an array (N, C, *spatial)."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from cunpool import _arrays
from cunpool._arrays import Array
from cunpool._geometry import Shape

Format = Literal["plane", "window", "onnx", "onnx_column_major", "tf", "tf_batch"]

# Axes in the order in which a format counts them, the outermost first: N, C and the cells S of a plane.
_ORDERS = {"plane": "S", "onnx": "NCS", "onnx_column_major": "NCS", "tf": "SC", "tf_batch": "NSC"}

# Formats of other libraries, in the order in which they are recognised.
OTHERS: tuple[Format, ...] = ("onnx", "onnx_column_major", "tf", "tf_batch")

MEANT = {
    "onnx": "ONNX indices, which count through the whole tensor",
    "onnx_column_major": "ONNX indices with storage_order=1, which count planes in column-major order",
    "tf": "TensorFlow indices, which count with the channels last",
    "tf_batch": "TensorFlow indices with include_batch_in_index=True, which count with the channels last",
}


def planes(name: str, lead: Shape, full: Shape) -> tuple[Array, int, int]:
    """How format `name` counts: the first index of each plane, the step from cell to cell, and the end of all."""
    sizes = dict(zip("NCS", (*(1, *lead)[-2:], math.prod(full)), strict=True))
    steps = dict.fromkeys("NCS", 0)
    end = 1
    for axis in reversed(_ORDERS[name]):
        steps[axis] = end
        end *= sizes[axis] or 1  # without planes, any step will do but 0
    first = np.arange(sizes["N"])[:, None] * steps["N"] + np.arange(sizes["C"]) * steps["C"]
    return first.reshape(lead + (1,) * len(full)), steps["S"], end


def recounted(places: Array, full: Shape) -> Array:
    """Places in column-major order of a plane of size `full`, counted in raster order.

    With the sizes of `full` in reverse, it is the other way round.
    """
    cells = _arrays.unravel(places, full[::-1])
    result = np.zeros_like(places)
    for cell, size in zip(reversed(cells), full, strict=True):
        result = result * size + cell
    return result
