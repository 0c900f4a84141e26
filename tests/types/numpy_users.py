"""Typical code with NumPy arrays, which type checkers read and nobody runs."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import assert_type

import cunpool as cu
from cunpool import ndimage

x = np.zeros((1, 4, 4), np.uint8)
y = np.zeros((1, 4, 4, 4), np.float32)

# Results have the dtype of their input.
assert_type(cu.max_pool1d(x, 2), NDArray[np.uint8])
assert_type(cu.max_pool2d(y, 2, None, 0, 1, False, False), NDArray[np.float32])
assert_type(cu.max_pool2d(y, 2, return_indices=True).values, NDArray[np.float32])
values, indices = cu.max_pool2d(y, 2, 2, 0, 1, False, True, index_dtype=np.int32)
assert_type(values, NDArray[np.float32])
assert_type(cu.max_unpool2d(values, indices, 2), NDArray[np.float32])
assert_type(cu.max_unpool2d_backward(y, indices, 2), NDArray[np.float32])
assert_type(cu.max_pool2d_backward(values, indices, y.shape, 2), NDArray[np.float32])
assert_type(cu.take_at2d(np.zeros(y.shape, np.uint16), indices), NDArray[np.uint16])
assert_type(cu.max_pool2d([[[1, 2], [3, 4]]], 2), NDArray[Any])

# Positions.
assert_type(cu.peaks(x, 2, threshold_abs=0.5, exclude_border=(0, 1, 1), num_peaks=9), NDArray[np.int64])

# Minima, and NaN left out.
assert_type(cu.min_pool2d(y, 2, nan_policy="omit"), NDArray[np.float32])
assert_type(cu.min_pool1d(x, 2, return_indices=True).values, NDArray[np.uint8])
assert_type(cu.MinPool2d(2, nan_policy="omit")(y), NDArray[np.float32])
assert_type(cu.MinPool1d(2, return_indices=True)(x).values, NDArray[np.uint8])
assert_type(cu.min_unpool2d(values, indices, 2), NDArray[np.float32])

# Padding.
assert_type(cu.max_pool2d(y, 3, 2, ((0, 1), (1, 0))), NDArray[np.float32])
assert_type(cu.max_pool1d(x, 3, 2, [[0, 1]]), NDArray[np.uint8])
assert_type(cu.MaxPool2d(3, 2, "same")(y), NDArray[np.float32])
assert_type(cu.max_unpool2d(values, indices, 3, 2, "same_lower", output_size=y.shape), NDArray[np.float32])

# Channels on another axis.
assert_type(cu.max_pool2d(y, 2, channel_axis=-1), NDArray[np.float32])
assert_type(cu.MaxUnpool2d(2, channel_axis=np.int64(-1))(values, indices, onto=y), NDArray[np.float32])
assert_type(cu.convert_indices(indices, "tf", "plane", input_size=(4, 4), kernel_size=2, channel_axis=-1), NDArray[Any])

# Onto other elements than zeros.
assert_type(cu.max_unpool2d(values, indices, 2, fill_value=np.nan), NDArray[np.float32])
assert_type(cu.max_unpool2d(values, indices, 2, onto=y, out=y), NDArray[np.float32])
assert_type(cu.MaxUnpool2d(2)(values, indices, fill_value=np.float32(1)), NDArray[np.float32])
assert_type(cu.AdaptiveMaxUnpool2d()(values, indices, onto=y), NDArray[np.float32])
to_values, to_y = cu.max_unpool2d_backward(y, indices, 2, onto=True, out=(None, y))
assert_type(to_values, NDArray[np.float32])
assert_type(to_y, NDArray[np.float32])

# The pair of a pooling, unpacked into an unpooling. Annotated, because pyright does not infer the dtype here.
whole: NDArray[np.float32] = cu.max_unpool2d(*cu.max_pool2d(y, 2, return_indices=True), 2, output_size=y.shape)
pool, unpool = cu.MaxPool2d(2, return_indices=True), cu.MaxUnpool2d(2)
bytes_again: NDArray[np.uint8] = unpool(*pool(x), output_size=x.shape)
for function, inverse in ((cu.max_pool1d, cu.max_unpool1d), (cu.max_pool1d, cu.max_unpool1d)):
    again: NDArray[np.uint8] = inverse(*function(x, 2, return_indices=True), 2, output_size=x.shape)

# Modules.
assert_type(cu.MaxPool2d(2)(x), NDArray[np.uint8])
assert_type(cu.MaxPool3d(2, 2, 0, 1, False)(x), NDArray[np.uint8])
assert_type(pool(x).values, NDArray[np.uint8])
assert_type(cu.MaxPool1d(2, return_indices=True)([[1, 2]]).indices, NDArray[Any])
assert_type(cu.MaxPool2d(2)([[[1]]]), NDArray[Any])
assert_type(unpool(x, pool(x).indices), NDArray[np.uint8])
assert_type(unpool([[[1]]], [[[0]]]), NDArray[Any])


class Pyramid:
    """A module that is kept, by its class alone or with what it returns."""

    down: cu.MaxPool2d

    def __init__(self, levels: int, return_indices: bool) -> None:
        self.down = cu.MaxPool2d(2, return_indices=return_indices, index_format="window")
        self.up = cu.MaxUnpool2d(2, index_format="window")

    def __call__(self, image: NDArray[np.float32]) -> NDArray[np.float32]:
        level, codes = self.down(image)
        return self.up(level, codes, image.shape)


class Halved:
    """Modules that are kept, with what they return."""

    down: cu.MaxPool2d[Literal[False]]
    both: cu.MaxPool3d[Literal[True]]

    def __init__(self) -> None:
        self.down = cu.MaxPool2d(2)
        self.both = cu.MaxPool3d(2, return_indices=True)

    def __call__(self, image: NDArray[np.float32]) -> NDArray[np.float32]:
        return self.down(image)

    def values(self, volume: NDArray[np.float32]) -> NDArray[np.float32]:
        return self.both(volume).values


def largest(result: cu.MaxPoolResult[np.float32]) -> np.float32:
    return np.float32(result.values.max())


largest(cu.max_pool2d(y, 2, return_indices=True))


def either(return_indices: bool) -> NDArray[np.float32]:
    result = cu.max_pool2d(y, 2, return_indices=return_indices)
    pooled: NDArray[np.float32] = result.values if return_indices else result
    return pooled


out = np.zeros((1, 2, 2), np.uint8)
assert_type(cu.max_pool2d(x, 2, out=out), NDArray[np.uint8])
cu.max_pool2d(x, 2, return_indices=True, out=(out, None))
pool(x, out=(None, None), num_threads=2)

# Adaptive pooling.
few, places = cu.adaptive_max_pool2d(np.zeros((1, 7, 7), np.float32), (None, 3), return_indices=True)
assert_type(few, NDArray[np.float32])
assert_type(cu.adaptive_max_pool2d(few, 2), NDArray[np.float32])
assert_type(cu.adaptive_max_unpool2d(few, places, (7, 7)), NDArray[np.float32])
assert_type(cu.AdaptiveMaxPool2d(3)(few), NDArray[np.float32])
assert_type(cu.AdaptiveMaxPool2d(3, True)(few).values, NDArray[np.float32])
assert_type(cu.AdaptiveMaxUnpool2d()(few, places, (7, 7)), NDArray[np.float32])

# SciPy's filters.
assert_type(ndimage.maximum_filter(x, 3), NDArray[Any])
assert_type(ndimage.minimum_filter(x[0], (3, 5), mode=["wrap", "reflect"], axes=(0, 2)), NDArray[Any])
assert_type(ndimage.grey_dilation(x, footprint=[[1, 1]], output=np.float32, axes=[1, 2]), NDArray[Any])
assert_type(ndimage.grey_opening(x, 3, output=x, origin=[0, 0, 1]), NDArray[Any])
assert_type(ndimage.maximum_filter1d(x, 3, return_indices=True).indices, NDArray[Any])
extremes, sources = ndimage.grey_erosion(x, 3, return_indices=True)
