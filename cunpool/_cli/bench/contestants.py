"""The call of each library.

A contestant is a function of the number of threads. It returns a function of a cell and its arrays, which returns the
call to time, or None if the library lacks the operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import cunpool as cu
from cunpool._arrays import Array

from .cells import Arrays, Call, Cell

Prepared = Callable[[Any, Arrays], "Call | None"]
Prepare = Callable[[int], Prepared]


def cunpool(threads: int) -> Prepared:
    cu.set_num_threads(threads)

    def call(cell: Cell, arrays: Arrays) -> Call:
        x, window = arrays["x"], cell.window
        if cell.op == "unpool":
            unpool, indices = getattr(cu, f"max_unpool{cell.n}d"), arrays["indices"]
            return lambda: unpool(x, indices, *window, cell.full[2:])
        pool, wanted = getattr(cu, f"max_pool{cell.n}d"), cell.index != "none"
        return lambda: pool(x, *window, return_indices=wanted)

    return call


def torch(threads: int) -> Prepared:
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(threads)

    def call(cell: Cell, arrays: Arrays) -> Call:
        x, window = torch.from_numpy(arrays["x"]), cell.window
        if cell.op == "unpool":
            unpool, indices = getattr(F, f"max_unpool{cell.n}d"), torch.from_numpy(arrays["indices"])
            return lambda: unpool(x, indices, *window, cell.full[2:])
        pool, wanted = getattr(F, f"max_pool{cell.n}d"), cell.index != "none"
        return lambda: pool(x, *window, return_indices=wanted)

    return call


def onnxruntime(threads: int) -> Prepared:
    def call(cell: Cell, arrays: Arrays) -> Call:
        session, feed, _ = onnx_session(cell, arrays, threads)
        return lambda: session.run(None, feed)

    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401

    return call


def onnx_session(cell: Cell, arrays: Arrays, threads: int) -> tuple[Any, Arrays, dict[str, tuple[int, ...]]]:
    """Return a session with a model of one node, its inputs, and the shapes of its outputs."""
    import onnxruntime
    from onnx import TensorProto, helper

    feed, op = {"x": arrays["x"]}, "MaxUnpool" if cell.op == "unpool" else "MaxPool"
    shapes = dict.fromkeys(["y"] if cell.index == "none" else ["y", "i"], cell.pooled)
    if cell.op == "unpool":  # ONNX counts indices through all planes
        start = np.arange(math.prod(cell.full[:2])).reshape(cell.full[:2] + (1,) * cell.n)
        feed |= {"i": arrays["indices"] + start * math.prod(cell.full[2:]), "s": np.array(cell.full)}
        shapes = {"y": cell.full}
    node = helper.make_node(
        op, [*feed], [*shapes], kernel_shape=[cell.kernel] * cell.n, strides=[cell.stride] * cell.n,
        pads=[cell.padding] * (2 * cell.n),
    )  # fmt: skip

    kind = helper.np_dtype_to_tensor_dtype(arrays["x"].dtype)

    def declared(name: str, shape: tuple[int, ...]) -> Any:
        return helper.make_tensor_value_info(name, kind if name in "xy" else TensorProto.INT64, shape)

    inputs = [declared(name, array.shape) for name, array in feed.items()]
    graph = helper.make_graph([node], "cell", inputs, [declared(*item) for item in shapes.items()])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 12)])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session, feed, shapes


def paddle(threads: int) -> Prepared:  # pragma: no cover - no extra installs it
    import paddle
    import paddle.nn.functional as F

    paddle.set_device("cpu")

    def call(cell: Cell, arrays: Arrays) -> Call:
        x, window = paddle.to_tensor(arrays["x"]), cell.window
        if cell.op == "unpool":
            size = list(cell.full[2:] if cell.n > 1 else cell.full)  # in 1d it refuses the spatial size
            unpool, indices = getattr(F, f"max_unpool{cell.n}d"), paddle.to_tensor(arrays["indices"])
            return lambda: unpool(x, indices, *window, output_size=size)
        pool, wanted = getattr(F, f"max_pool{cell.n}d"), cell.index != "none"
        return lambda: pool(x, *window, return_mask=wanted)

    return call


def numpy(threads: int) -> Prepared:
    """Return plain NumPy, which is always serial. `threads` sets only how many processors it may run on."""

    def call(cell: Cell, arrays: Arrays) -> Call:
        if cell.op == "pool":
            return lambda: numpy_pool(cell, arrays["x"])
        planes, size = math.prod(cell.full[:2]), math.prod(cell.full[2:])
        x, indices = arrays["x"].reshape(planes, -1), arrays["indices"].reshape(planes, -1)

        def unpool() -> Array:
            z = np.zeros((planes, size), x.dtype)
            np.put_along_axis(z, indices, x, 1)
            return z.reshape(cell.full)

        return unpool

    return call


def numpy_pool(cell: Cell, x: Array) -> Any:
    """Pooling in plain NumPy: windows are compared element by element, each for all windows at once.

    Without indices the maximum is taken along one axis after the other, which takes kernel_size * axes comparisons a
    window instead of kernel_size ** axes.
    """
    around = [(0, 0), (0, 0)] + [(cell.padding, cell.padding)] * cell.n
    padded = np.pad(x, around, constant_values=-np.inf) if cell.padding else x

    def shifted(values: Array, axis: int, step: int) -> Array:
        """Return a slice of one axis: in each window, the element that is `step` after the first."""
        stop = step + cell.stride * (cell.pooled[axis] - 1) + 1
        chosen: Array = values[(slice(None),) * axis + (slice(step, stop, cell.stride),)]
        return chosen

    if cell.index == "none":
        for axis in range(2, x.ndim):
            highest = shifted(padded, axis, 0).copy()
            for step in range(1, cell.kernel):
                np.maximum(highest, shifted(padded, axis, step), out=highest)
            padded = highest
        return padded
    maxima = np.full(cell.pooled, -np.inf, x.dtype)
    codes = np.zeros(cell.pooled, np.uint8)
    for code, steps in enumerate(np.ndindex((cell.kernel,) * cell.n)):
        candidates = padded
        for axis, step in enumerate(steps, 2):
            candidates = shifted(candidates, axis, step)
        np.putmask(codes, candidates > maxima, code)
        np.maximum(maxima, candidates, out=maxima)
    indices = np.zeros((), np.int64)
    for axis, steps_along in enumerate(np.unravel_index(codes, (cell.kernel,) * cell.n), 2):
        first = np.arange(cell.pooled[axis]) * cell.stride - cell.padding
        indices = indices * cell.full[axis] + (first.reshape((-1,) + (1,) * (x.ndim - 1 - axis)) + steps_along)
    return maxima, indices


def scipy(threads: int) -> Prepared:
    from scipy.ndimage import maximum_filter

    def call(cell: Cell, arrays: Arrays) -> Call | None:
        image = arrays["x"][0, 0]
        return (lambda: maximum_filter(image, cell.kernel)) if _is_dilation(cell) else None

    return call


def opencv(threads: int) -> Prepared:
    import cv2

    cv2.setNumThreads(threads)

    def call(cell: Cell, arrays: Arrays) -> Call | None:
        image, window = arrays["x"][0, 0], np.ones((cell.kernel,) * 2, np.uint8)
        return (lambda: cv2.dilate(image, window)) if _is_dilation(cell) else None

    return call


def _is_dilation(cell: Cell) -> bool:
    """Return whether the cell is a filter of one image: the maximum of a window around each element."""
    around = cell.stride == 1 and cell.kernel == 2 * cell.padding + 1
    return around and (cell.op, cell.index, cell.full[:2], cell.n) == ("pool", "none", (1, 1), 2)


def skimage(threads: int) -> Prepared:
    from skimage.measure import block_reduce

    def call(cell: Cell, arrays: Arrays) -> Call | None:
        apart = cell.kernel == cell.stride and not any(size % cell.kernel for size in cell.full[2:])
        if (cell.op, cell.index, cell.padding) != ("pool", "none", 0) or not apart:
            return None
        return lambda: block_reduce(arrays["x"], (1, 1) + (cell.kernel,) * cell.n, np.max)

    return call


CONTESTANTS: dict[str, Prepare] = {
    f.__name__: f for f in (cunpool, torch, onnxruntime, paddle, numpy, scipy, opencv, skimage)
}
PEERS = {
    "cunpool": "cunpool",
    "torch": "PyTorch",
    "onnxruntime": "ONNX Runtime",
    "paddle": "PaddlePaddle",
    "numpy": "NumPy",
    "scipy": "SciPy",
    "opencv": "OpenCV",
    "skimage": "scikit-image",
}
