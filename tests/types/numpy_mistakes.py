"""Mistakes with NumPy arrays. A type checker has to find each line with `ignore`, and names an `ignore` too many."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

import cunpool as cu
from cunpool import ndimage

x = np.zeros((1, 4, 4), np.float32)
form = str(x.dtype)


def array(value: NDArray[np.float32]) -> None: ...
def pair(value: tuple[NDArray[np.float32], NDArray[np.int64]]) -> None: ...


pair(cu.max_pool2d(x, 2))  # type: ignore[arg-type]
pair(cu.max_pool2d(x, 2, None, 0, 1, True, False))  # type: ignore[arg-type]
array(cu.max_pool2d(x, 2, return_indices=True))  # type: ignore[arg-type]
array(cu.max_pool2d(x, 2, 2, 0, 1, False, True))  # type: ignore[arg-type]
array(cu.MaxPool2d(2, return_indices=True)(x))  # type: ignore[arg-type]
pair(cu.MaxPool2d(2)(x))  # type: ignore[arg-type]
with_indices: cu.MaxPool2d[Literal[True]] = cu.MaxPool2d(2)  # type: ignore[assignment]

cu.max_pool2d(x, 2, out=(x, x))  # type: ignore[call-overload]
cu.max_pool2d(x, 2, return_indices=True, out=x)  # type: ignore[call-overload]
cu.max_pool2d(x)  # type: ignore[call-overload]
cu.max_pool2d(x, 2, index_format="windows")  # type: ignore[call-overload]
cu.max_pool2d(x, 2, index_format=form)  # type: ignore[call-overload]
cu.max_pool2d(x, 3, 2, "SAME")  # type: ignore[arg-type]
cu.max_pool2d(x, 3, 2, form)  # type: ignore[arg-type]
cu.max_unpool2d(x, 2)  # type: ignore[call-overload]
cu.max_unpool2d(x, x, 2, index_format="tf")  # type: ignore[call-overload]
cu.max_pool2d_backward(x, x, 2)  # type: ignore[call-overload]
cu.max_unpool2d_backward(x, x)  # type: ignore[call-overload]
cu.take_at2d(x)  # type: ignore[call-overload]
cu.adaptive_max_unpool2d(x)  # type: ignore[call-overload]
cu.max_unpool2d(x, x, 2, fill_value="0")  # type: ignore[call-overload]
cu.max_unpool2d_backward(x, x, 2, onto=x)  # type: ignore[call-overload]
cu.max_unpool2d_backward(x, x, 2, out=(x, x))  # type: ignore[call-overload]
cu.MaxPool2d(2, index_format="onnx")  # type: ignore[call-overload]
cu.MaxUnpool2d(2, index_format="onnx")  # type: ignore[arg-type]
cu.MaxPool2d(2)(x, out=(x, x))  # type: ignore[call-overload]
cu.convert_indices(x, "plane", "tensorflow", input_size=x.shape, kernel_size=2)  # type: ignore[arg-type]
ndimage.maximum_filter1d(x, (3, 3))  # type: ignore[call-overload]
ndimage.grey_closing(x, 3, return_indices=True)  # type: ignore[call-arg]
pair(ndimage.maximum_filter(x, 3))  # type: ignore[arg-type]
