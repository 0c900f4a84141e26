"""Formats of indices: the order in which each counts the elements of an array (N, C, *spatial)."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from cunpool import _arrays
from cunpool._arrays import Array
from cunpool._geometry import Shape, Sizes

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

CONVERTED = 1 << 16
"""Number of window codes, about, that are converted at a time: temporary arrays stay small (memory)."""


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


def indices_of_codes(
    codes: Array, full: Shape, pooled: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> tuple[Array, Array]:
    """Return the plane indices of window codes, and a mask of the codes whose element lies outside the plane.

    All codes are below the elements of a window. `codes` are of int64, and the sizes have an entry for each axis.
    """
    result, outside = np.zeros_like(codes), np.zeros(codes.shape, bool)
    for axis, tap in enumerate(_arrays.unravel(codes, kernel)):
        start = np.arange(pooled[axis]) * stride[axis] - padding[axis]
        position = start.reshape((-1,) + (1,) * (len(full) - 1 - axis)) + dilation[axis] * tap
        outside |= (position < 0) | (position >= full[axis])
        result = result * full[axis] + position
    return result, outside


def decoded(codes: Array, n: int, sizes: Sizes) -> Array:
    """Return the plane indices of window codes in int64: -1 if a code names no element."""
    full, pooled, kernel, stride, padding, dilation = (sizes[i - n : i] for i in range(3, 21, 3))
    result = _arrays.new(codes, codes.shape, _arrays.INT64)
    length = max(CONVERTED * pooled[0] // max(codes.size, 1), 1)
    for begin in range(0, pooled[0], length):
        part: tuple[Any, ...] = (..., slice(begin, begin + length), *[slice(None)] * (n - 1))
        some = codes[part].astype(np.int64)
        beyond = some >= math.prod(kernel)
        some[beyond] = 0
        counts = (some.shape[-n], *pooled[1:])
        shifted = (padding[0] - begin * stride[0], *padding[1:])
        flat, outside = indices_of_codes(some, full, counts, kernel, stride, shifted, dilation)
        flat[beyond | outside] = -1
        result[part] = flat
    return result
