"""Formats of indices: the order in which each counts the elements of an array (N, C, *spatial)."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from cunpool import _arrays
from cunpool._arrays import Array
from cunpool._geometry import Shape

Format = Literal["plane", "window", "onnx", "onnx_column_major", "tf", "tf_batch"]

# Axes in the order in which a format counts them, outermost first: N, C and the elements S of a plane.
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
    """Return the first index of each plane in format `name`, the step between elements, and the number of indices."""
    sizes = dict(zip("NCS", (*(1, *lead)[-2:], math.prod(full)), strict=True))
    steps = dict.fromkeys("NCS", 0)
    end = 1
    for axis in reversed(_ORDERS[name]):
        steps[axis] = end
        end *= sizes[axis] or 1  # without planes, any step except 0
    first = np.arange(sizes["N"])[:, None] * steps["N"] + np.arange(sizes["C"]) * steps["C"]
    return first.reshape(lead + (1,) * len(full)), steps["S"], end


def recounted(indices: Array, full: Shape) -> Array:
    """Convert indices in column-major order of a plane of size `full` to raster order.

    With the sizes of `full` reversed, convert from raster order to column-major order.
    """
    positions = _arrays.unravel(indices, full[::-1])
    result = np.zeros_like(indices)
    for position, size in zip(reversed(positions), full, strict=True):
        result = result * size + position
    return result
