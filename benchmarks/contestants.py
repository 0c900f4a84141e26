"""Who takes part, each in a process of its own: how each one is called, and the loop that times it.

A contestant is given a cell and its arrays, and returns the call to time, or None where it has no such operation. The
call returns the result; what it returned last is reduced to a checksum, so that nobody wins with a wrong answer.
"""

from __future__ import annotations

import math
import os
import sys
import time
import zlib
from collections.abc import Callable
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any

import numpy as np
from cells import Cell

Call = Callable[[], Any]
Arrays = dict[str, np.ndarray]


def channels_last(array: np.ndarray) -> np.ndarray:
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "contiguous": np.ascontiguousarray,
    "channels last": channels_last,
    "Fortran": np.asfortranarray,
    "transposed": lambda array: np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2),
    "sliced": lambda array: np.repeat(array, 2, -1)[..., ::2],
    "reversed": lambda array: array[..., ::-1].copy()[..., ::-1],
}


def cunpool(threads: int) -> Callable[[Cell, Arrays], Call | None]:
    import cunpool as cu

    cu.set_num_threads(threads)

    def call(cell: Cell, arrays: Arrays) -> Call:
        window = cell.kernel, cell.stride, cell.padding
        x, size, style = arrays["x"], cell.full[2:], {"index_format": cell.format}
        if cell.op == "pool":
            pool = getattr(cu, f"max_pool{cell.n}d")
            wanted, kind = cell.index != "none", cell.index if cell.index == "int32" else None
            both = (np.empty(cell.pooled, x.dtype), np.empty(cell.pooled, cell.index)) if cell.out else None
            return lambda: pool(x, *window, return_indices=wanted, index_dtype=kind, out=both, **style)
        indices = arrays["codes" if cell.format == "window" else "indices"]
        if cell.op == "unpool gradient":
            unpool_backward = getattr(cu, f"max_unpool{cell.n}d_backward")
            return lambda: unpool_backward(x, indices, *window, **style)
        if cell.op == "pool gradient":
            pool_backward = getattr(cu, f"max_pool{cell.n}d_backward")
            return lambda: pool_backward(x, indices, size, *window, **style)
        unpool = getattr(cu, f"max_unpool{cell.n}d")
        out = np.empty(cell.full, x.dtype) if cell.out else None
        return lambda: unpool(x, indices, *window, size, out=out, **style)

    return call


def torch(threads: int) -> Callable[[Cell, Arrays], Call | None]:
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(threads)

    def call(cell: Cell, arrays: Arrays) -> Call | None:
        if cell.dtype not in ("float32", "float64") or cell.layout not in ("contiguous", "channels last"):
            return None
        window = cell.kernel, cell.stride, cell.padding
        x = torch.from_numpy(arrays["x"])
        if cell.op == "pool":
            if cell.out:
                if cell.n != 2:
                    return None
                both = torch.empty(cell.pooled), torch.empty(cell.pooled, dtype=torch.int64)
                return lambda: torch._C._nn.max_pool2d_with_indices(x, *window, out=both)
            pool, wanted = getattr(F, f"max_pool{cell.n}d"), cell.index != "none"
            return lambda: pool(x, *window, return_indices=wanted)
        # PyTorch takes int64 alone: where the cell has int32 indices, it is timed with its own.
        indices = torch.from_numpy(arrays["indices"].astype(np.int64, copy=False))
        if cell.op == "unpool gradient":  # what PyTorch's autograd does
            return lambda: x.flatten(2).gather(2, indices.flatten(2)).view(indices.shape)
        if cell.op == "pool gradient":
            if cell.n != 2:
                return None
            pool_backward, full = torch.ops.aten.max_pool2d_with_indices_backward, torch.empty(cell.full)
            pairs = [[size, size] for size in (*window, 1)]
            return lambda: pool_backward(x, full, *pairs, False, indices)
        if cell.out:
            if cell.n != 2:
                return None
            out = torch.empty(cell.full)
            return lambda: torch._C._nn.max_unpool2d(x, indices, cell.full[2:], out=out)
        unpool = getattr(F, f"max_unpool{cell.n}d")
        return lambda: unpool(x, indices, *window, cell.full[2:])

    return call


def onnxruntime(threads: int) -> Callable[[Cell, Arrays], Call | None]:
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3

    def call(cell: Cell, arrays: Arrays) -> Call | None:
        alone = cell.index == "none"
        if cell.layout != "contiguous" or cell.index == "int32" or "gradient" in cell.op or cell.format != "plane":
            return None
        if cell.dtype not in (("float32", "float64", "uint8") if alone else ("float32",)):
            return None
        attributes = {
            "kernel_shape": [cell.kernel] * cell.n, "strides": [cell.stride] * cell.n,
            "pads": [cell.padding] * (2 * cell.n),
        }  # fmt: skip
        value = helper.make_tensor_value_info
        if cell.op == "pool":
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(cell.dtype))
            node = helper.make_node("MaxPool", ["x"], ["y"] if alone else ["y", "i"], **attributes)
            inputs = [value("x", kind, cell.full)]
            outputs = [value("y", kind, cell.pooled), value("i", TensorProto.INT64, cell.pooled)][: 1 if alone else 2]
            feed = {"x": arrays["x"]}
        else:
            node = helper.make_node("MaxUnpool", ["x", "i", "s"], ["y"], **attributes)
            inputs = [value("x", TensorProto.FLOAT, cell.pooled), value("i", TensorProto.INT64, cell.pooled),
                      value("s", TensorProto.INT64, [len(cell.full)])]  # fmt: skip
            outputs = [value("y", TensorProto.FLOAT, cell.full)]
            planes, size = math.prod(cell.full[:2]), math.prod(cell.full[2:])
            start = np.arange(planes).reshape(cell.full[:2] + (1,) * cell.n) * size
            feed = {"x": arrays["x"], "i": arrays["indices"] + start, "s": np.array(cell.full)}
        graph = helper.make_graph([node], "cell", inputs, outputs)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)])
        model.ir_version = 8
        onnx.checker.check_model(model)
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        if cell.out:
            out = {"y": np.empty(cell.pooled if cell.op == "pool" else cell.full, np.float32)}
            if cell.op == "pool":
                out["i"] = np.empty(cell.pooled, np.int64)
            binding = session.io_binding()
            for name, array in feed.items():
                binding.bind_cpu_input(name, array)
            for name, array in out.items():
                binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)

            def bound() -> tuple[np.ndarray, ...]:
                session.run_with_iobinding(binding)
                return tuple(out.values())

            return bound
        if cell.op == "unpool" or alone:
            return lambda: session.run(None, feed)[0]

        def pool() -> tuple[np.ndarray, np.ndarray]:
            return tuple(session.run(None, feed))

        return pool

    return call


def paddle(threads: int) -> Callable[[Cell, Arrays], Call | None]:
    import paddle
    import paddle.nn.functional as F

    paddle.set_device("cpu")

    def call(cell: Cell, arrays: Arrays) -> Call | None:
        if cell.layout != "contiguous" or cell.out or "gradient" in cell.op or cell.format != "plane":
            return None
        if cell.dtype != "float32" or cell.index == "none":
            return None
        window = cell.kernel, cell.stride, cell.padding
        x = paddle.to_tensor(arrays["x"])
        if cell.op == "pool":
            pool = getattr(F, f"max_pool{cell.n}d")
            return lambda: pool(x, *window, return_mask=True)
        indices = paddle.to_tensor(arrays["indices"])
        # Its 1d unpooling refuses any explicit size; for the cells here the default one is the same.
        unpool, size = getattr(F, f"max_unpool{cell.n}d"), list(cell.full[2:]) if cell.n > 1 else None
        return lambda: unpool(x, indices, *window, output_size=size)

    return call


def numpy(threads: int) -> Callable[[Cell, Arrays], Call | None]:
    """Always serial; `threads` is how many processors it may choose from."""

    def call(cell: Cell, arrays: Arrays) -> Call | None:
        if cell.op != "unpool" or cell.layout != "contiguous" or cell.format != "plane":
            return None
        planes, size = math.prod(cell.full[:2]), math.prod(cell.full[2:])
        x, indices = arrays["x"].reshape(planes, -1), arrays["indices"].reshape(planes, -1)
        out = np.empty((planes, size), x.dtype) if cell.out else None

        def unpool() -> np.ndarray:
            if out is None:
                z = np.zeros((planes, size), x.dtype)
            else:
                z = out
                z[...] = 0
            np.put_along_axis(z, indices, x, 1)
            return z.reshape(cell.full)

        return unpool

    return call


def image(cell: Cell) -> bool:
    """Whether it is a filter of one plane: windows of stride 1 around each of its cells, and no indices."""
    return (
        (cell.op, cell.index, cell.layout, cell.stride) == ("pool", "none", "contiguous", 1)
        and cell.full[:2] == (1, 1) and cell.n == 2 and 2 * cell.padding + 1 == cell.kernel and not cell.out
    )  # fmt: skip


def opencv(threads: int) -> Callable[[Cell, Arrays], Call | None]:
    import cv2

    cv2.setNumThreads(threads)

    def call(cell: Cell, arrays: Arrays) -> Call | None:
        if not image(cell):
            return None
        x, window = arrays["x"][0, 0], np.ones((cell.kernel, cell.kernel), np.uint8)
        return lambda: cv2.dilate(x, window)

    return call


def scipy(threads: int) -> Callable[[Cell, Arrays], Call | None]:
    """Always serial."""
    from scipy import ndimage

    def call(cell: Cell, arrays: Arrays) -> Call | None:
        if not image(cell):
            return None
        x = arrays["x"][0, 0]
        least = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
        return lambda: ndimage.maximum_filter(x, cell.kernel, mode="constant", cval=least)

    return call


def bottleneck(threads: int) -> Callable[[Cell, Arrays], Call | None]:
    """Always serial. Its first results are of windows that begin before the array: cunpool has none of these."""
    import bottleneck

    def call(cell: Cell, arrays: Arrays) -> Call | None:
        if (cell.op, cell.index, cell.n, cell.stride, cell.padding) != ("pool", "none", 1, 1, 0) or cell.full[1] > 1:
            return None
        x = arrays["x"][0, 0]
        return lambda: bottleneck.move_max(x, cell.kernel)[cell.kernel - 1 :]

    return call


def skimage(threads: int) -> Callable[[Cell, Arrays], Call | None]:
    """Always serial."""
    from skimage.measure import block_reduce

    def call(cell: Cell, arrays: Arrays) -> Call | None:
        apart = (
            cell.kernel == cell.stride and not cell.padding and all(size % cell.kernel == 0 for size in cell.full[2:])
        )
        if cell.op != "pool" or cell.index != "none" or cell.layout != "contiguous" or not apart or cell.out:
            return None
        return lambda: block_reduce(arrays["x"], (1, 1) + (cell.kernel,) * cell.n, np.max)

    return call


def numba(threads: int) -> Callable[[Cell, Arrays], Call | None]:
    """The obvious loop, compiled."""
    import numba

    numba.set_num_threads(threads)

    @numba.njit(parallel=True)
    def scatter(out, values, indices):  # type: ignore[no-untyped-def]
        for plane in numba.prange(len(out)):
            out[plane] = 0
            for i in range(values.shape[1]):
                out[plane, indices[plane, i]] = values[plane, i]

    def call(cell: Cell, arrays: Arrays) -> Call | None:
        if cell.op != "unpool" or cell.layout != "contiguous" or cell.format != "plane" or cell.dtype == "float16":
            return None
        planes, size = math.prod(cell.full[:2]), math.prod(cell.full[2:])
        x, indices = arrays["x"].reshape(planes, -1), arrays["indices"].reshape(planes, -1)
        out = np.empty((planes, size), x.dtype) if cell.out else None

        def unpool() -> np.ndarray:
            z = np.empty((planes, size), x.dtype) if out is None else out
            scatter(z, x, indices)
            return z.reshape(cell.full)

        return unpool

    return call


def copy(threads: int) -> Callable[[Cell, Arrays], Call | None]:
    """No contestant but the yardstick: an array of the output's size, copied into one that is there already."""

    def call(cell: Cell, arrays: Arrays) -> Call:
        source, target = np.ones(cell.full, cell.dtype), np.ones(cell.full, cell.dtype)
        return lambda: np.copyto(target, source)

    return call


ALL = (cunpool, torch, onnxruntime, paddle, numpy, opencv, scipy, bottleneck, skimage, numba, copy)
CONTESTANTS = {f.__name__: f for f in ALL}


def checksum(cell: Cell, result: Any) -> int | None:
    """Of the result's bits, whatever its layout and whatever integers its indices are."""
    if result is None:
        return None
    total = 0
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    # cunpool's window codes and the others' indices are not to be compared like this; tests do.
    for array in results[:1] if cell.format == "window" else results:
        array = np.asarray(array)
        if array.dtype.kind == "i":
            array = array.astype(np.int64) % math.prod(cell.full[2:])  # ONNX counts through all planes
        total = zlib.crc32(np.ascontiguousarray(array).data, total)
    return total


def serve(name: str, threads: int, connection: Connection) -> None:
    """A contestant's process: take a cell, then time blocks of calls as often as asked."""
    if hasattr(os, "sched_setaffinity"):  # the same processors for all: on a shared machine they are not equally fast
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    try:
        prepare = CONTESTANTS[name](threads)
    except ImportError as error:
        connection.send(f"not installed: {error.name}")
        return
    connection.send("ready")
    call: Call | None = None
    repeats = 1
    while order := connection.recv():
        if isinstance(order, tuple):
            cell, folder, block = order
            call = None
            arrays = {path.stem: np.load(path) for path in Path(folder).iterdir()}
            arrays = {key: LAYOUTS[cell.layout](array) for key, array in arrays.items()}
            call = prepare(cell, arrays)
            answer = None
            if call is not None:
                answer = checksum(cell, call())
                call()
                repeats = max(1, int(block / timed(call, 1)))
                repeats = max(1, int(block / timed(call, repeats)))
            connection.send((call is not None, answer))
        else:
            assert call is not None
            connection.send(timed(call, repeats))


def timed(call: Call, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), Client(sys.argv[3]))
