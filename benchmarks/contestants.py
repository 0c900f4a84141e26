"""Who takes part: beyond what ``cunpool bench`` asks of each, the lanes that it leaves out.

A contestant is given a cell and its arrays, and returns the call to time, or None where it has no such operation. The
call returns the result; what it returned last is reduced to a checksum, so that nobody wins with a wrong answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from cells import Cell
from shared import bench

Call = Callable[[], Any]
Arrays = dict[str, np.ndarray]


def arranged(cell: Cell, arrays: Arrays) -> Arrays:
    """The arrays in the cell's layout."""
    if cell.layout != "channels last":
        return arrays
    return {key: np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1) for key, a in arrays.items()}


def cunpool(threads: int) -> Callable[[Cell, Arrays], Call | None]:
    import cunpool as cu

    plain = bench.cunpool(threads)

    def call(cell: Cell, given: Arrays) -> Call | None:
        if cell.plain and "gradient" not in cell.op:
            return plain(cell, given)
        arrays = arranged(cell, given)
        x, size, style = arrays["x"], cell.full[2:], {"index_format": cell.format}
        if cell.op == "pool":
            pool = getattr(cu, f"max_pool{cell.n}d")
            kind = None if cell.index == "int64" else cell.index
            both = (np.empty(cell.pooled, x.dtype), np.empty(cell.pooled, cell.index)) if cell.out else None
            return lambda: pool(x, *cell.window, return_indices=True, index_dtype=kind, out=both, **style)
        indices = arrays["codes" if cell.format == "window" else "indices"]
        if cell.op == "unpool gradient":
            unpool_backward = getattr(cu, f"max_unpool{cell.n}d_backward")
            return lambda: unpool_backward(x, indices, *cell.window, **style)
        if cell.op == "pool gradient":
            pool_backward = getattr(cu, f"max_pool{cell.n}d_backward")
            return lambda: pool_backward(x, indices, size, *cell.window, **style)
        unpool = getattr(cu, f"max_unpool{cell.n}d")
        out = np.empty(cell.full, x.dtype) if cell.out else None
        return lambda: unpool(x, indices, *cell.window, size, out=out, **style)

    return call


def torch(threads: int) -> Callable[[Cell, Arrays], Call | None]:
    import torch

    plain = bench.torch(threads)

    def call(cell: Cell, given: Arrays) -> Call | None:
        # PyTorch takes int64 alone: where the cell has int32 indices, it is timed with its own.
        arrays = {key: array.astype(np.int64) if key == "indices" else array for key, array in given.items()}
        arrays = arranged(cell, arrays)
        if "gradient" not in cell.op and not cell.out:
            return plain(cell, arrays)
        x = torch.from_numpy(arrays["x"])
        if cell.op == "pool":
            if cell.n != 2:
                return None
            both = torch.empty(cell.pooled), torch.empty(cell.pooled, dtype=torch.int64)
            return lambda: torch._C._nn.max_pool2d_with_indices(x, *cell.window, out=both)
        indices = torch.from_numpy(arrays["indices"])
        if cell.op == "unpool gradient":  # what PyTorch's autograd does
            return lambda: x.flatten(2).gather(2, indices.flatten(2)).view(indices.shape)
        if cell.n != 2:
            return None
        if cell.op == "pool gradient":
            pool_backward, full = torch.ops.aten.max_pool2d_with_indices_backward, torch.empty(cell.full)
            pairs = [[size, size] for size in (*cell.window, 1)]
            return lambda: pool_backward(x, full, *pairs, False, indices)
        out = torch.empty(cell.full)
        return lambda: torch._C._nn.max_unpool2d(x, indices, cell.full[2:], out=out)

    return call


def onnxruntime(threads: int) -> Callable[[Cell, Arrays], Call | None]:
    plain = bench.onnxruntime(threads)

    def call(cell: Cell, arrays: Arrays) -> Call | None:
        if cell.layout != "contiguous" or cell.index != "int64" or "gradient" in cell.op or cell.format != "plane":
            return None
        if not cell.out:
            return plain(cell, arrays)
        session, feed, shapes = bench.onnx_session(cell, arrays, threads)
        out = {name: np.empty(shape, np.float32 if name == "y" else np.int64) for name, shape in shapes.items()}
        binding = session.io_binding()
        for name, array in feed.items():
            binding.bind_cpu_input(name, array)
        for name, array in out.items():
            binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)

        def bound() -> tuple[np.ndarray, ...]:
            session.run_with_iobinding(binding)
            return tuple(out.values())

        return bound

    return call


def paddle(threads: int) -> Callable[[Cell, Arrays], Call | None]:
    plain = bench.paddle(threads)

    def call(cell: Cell, arrays: Arrays) -> Call | None:
        if cell.layout != "contiguous" or cell.out or "gradient" in cell.op or cell.format != "plane":
            return None
        return plain(cell, arrays)

    return call


def numpy(threads: int) -> Callable[[Cell, Arrays], Call | None]:
    """Always serial; `threads` is how many processors it may choose from."""
    plain = bench.numpy(threads)

    def call(cell: Cell, arrays: Arrays) -> Call | None:
        if cell.op != "unpool" or cell.layout != "contiguous" or cell.format != "plane":
            return None
        if not cell.out:
            return plain(cell, arrays)
        planes, size = math.prod(cell.full[:2]), math.prod(cell.full[2:])
        x, indices = arrays["x"].reshape(planes, -1), arrays["indices"].reshape(planes, -1)
        out = np.empty((planes, size), x.dtype)

        def unpool() -> np.ndarray:
            out[...] = 0
            np.put_along_axis(out, indices, x, 1)
            return out.reshape(cell.full)

        return unpool

    return call


def copy(threads: int) -> Callable[[Cell, Arrays], Call | None]:
    """No contestant but the yardstick: an array of the output's size, copied into one that is there already."""

    def call(cell: Cell, arrays: Arrays) -> Call:
        source, target = np.ones(cell.full, np.float32), np.ones(cell.full, np.float32)
        return lambda: np.copyto(target, source)

    return call


CONTESTANTS = {**bench.CONTESTANTS, **{f.__name__: f for f in (cunpool, torch, onnxruntime, paddle, numpy, copy)}}


def check(cell: Cell, result: Any) -> int | None:
    """What is compared of a result: of pooling to codes the values alone, tests do the rest; of a copy nothing."""
    if result is None:
        return None
    return bench.checksum(cell, result[0] if cell.format == "window" and isinstance(result, (tuple, list)) else result)


if __name__ == "__main__":
    bench.main(CONTESTANTS, check)
