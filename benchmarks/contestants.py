"""Who takes part: beyond what ``cunpool bench`` asks of each, the lanes that it leaves out.

A contestant is given a cell and its arrays, and returns the call to time, or None where it has no such operation. The
call returns the result; what it returned last is reduced to a checksum, so that nobody wins with a wrong answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
from cells import Cell, from_a_line
from inside import compiled, inside, prepared
from onednn import onednn
from shared import bench
from xnnpack import xnnpack

Call, Arrays, Prepared, Prepare = bench.Call, bench.Arrays, bench.Prepared, bench.Prepare


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


def ordinary(cell: Cell) -> bool:
    """Whether it is one of those that ``cunpool bench`` knows, but for its dtypes."""
    return cell.layout == "contiguous" and not cell.out and "gradient" not in cell.op and cell.format == "plane"


def cunpool(threads: int) -> Prepared:
    import cunpool as cu

    plain = bench.cunpool(threads)

    def call(cell: Cell, arrays: Arrays) -> Call | None:
        if ordinary(cell) and cell.index != "int32":
            return plain(cell, arrays)
        x, size = arrays["x"], cell.full[2:]
        style: dict[str, Any] = {"index_format": cell.format}
        if cell.op == "pool":
            pool = getattr(cu, f"max_pool{cell.n}d")
            if cell.index == "int32":
                style["index_dtype"] = "int32"
            if cell.out:
                dtypes = x.dtype, cell.index
                style["out"] = tuple(from_a_line(np.empty_like(x, dtype, shape=cell.pooled)) for dtype in dtypes)
            if not style.keys() <= signature(pool).parameters.keys():
                return None  # another build, of --against, that does not know this yet
            return lambda: pool(x, *cell.window, return_indices=cell.index != "none", **style)
        indices = arrays["codes" if cell.format == "window" else "indices"]
        if cell.op == "unpool gradient":
            unpool_backward = getattr(cu, f"max_unpool{cell.n}d_backward")
            return lambda: unpool_backward(x, indices, *cell.window, **style)
        if cell.op == "pool gradient":
            pool_backward = getattr(cu, f"max_pool{cell.n}d_backward")
            return lambda: pool_backward(x, indices, size, *cell.window, **style)
        unpool = getattr(cu, f"max_unpool{cell.n}d")
        out = from_a_line(np.empty_like(x, shape=cell.full)) if cell.out else None
        return lambda: unpool(x, indices, *cell.window, size, out=out, **style)

    return call


def torch(threads: int) -> Prepared:
    import torch

    plain = bench.torch(threads)

    def call(cell: Cell, given: Arrays) -> Call | None:
        if cell.inside:
            return prepared(cell, given, torch.nn.functional)
        if cell.layout not in ("contiguous", "channels last"):
            return None
        if cell.dtype not in ("uint8", "float16", "float32", "float64") or (cell.dtype == "float16" and cell.out):
            return None
        bytes_too = cell.op == "pool" and not cell.out and (cell.n > 1 or cell.index != "none")
        if cell.dtype == "uint8" and not (bytes_too and cell.layout == "contiguous"):
            return None  # PyTorch has no kernels for these
        # PyTorch takes int64 alone: where the cell has int32 indices, it is timed with its own.
        arrays = {key: a.astype(np.int64, copy=False) if key == "indices" else a for key, a in given.items()}
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
        out = torch.from_numpy(from_a_line(np.empty_like(arrays["x"], shape=cell.full)))
        return lambda: torch._C._nn.max_unpool2d(x, indices, cell.full[2:], out=out)

    return call


def onnxruntime(threads: int) -> Prepared:
    plain = bench.onnxruntime(threads)

    def call(cell: Cell, arrays: Arrays) -> Call | None:
        if cell.layout != "contiguous" or cell.index == "int32" or "gradient" in cell.op or cell.format != "plane":
            return None
        if cell.dtype not in (("float32", "float64", "uint8") if cell.index == "none" else ("float32",)):
            return None
        if not cell.out:
            return plain(cell, arrays)
        session, feed, shapes = bench.onnx_session(cell, arrays, threads)
        dtypes = {"y": np.float32, "i": np.int64}
        out = {name: from_a_line(np.empty(shape, dtypes[name])) for name, shape in shapes.items()}
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


def is_unpooling_of_planes(cell: Cell) -> bool:
    return (cell.op, cell.layout, cell.format) == ("unpool", "contiguous", "plane")


def planes(cell: Cell, arrays: Arrays) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, indices and a result of unpooling, with a row for each plane."""
    count, x = math.prod(cell.full[:2]), arrays["x"]
    out = from_a_line(np.empty((count, math.prod(cell.full[2:])), x.dtype))
    return x.reshape(count, -1), arrays["indices"].reshape(count, -1), out


def numpy(threads: int) -> Prepared:
    """Always serial; `threads` is how many processors it may choose from."""
    plain = bench.numpy(threads)

    def call(cell: Cell, arrays: Arrays) -> Call | None:
        if not is_unpooling_of_planes(cell):
            return None
        if not cell.out:
            return plain(cell, arrays)
        x, indices, out = planes(cell, arrays)

        def unpool() -> np.ndarray:
            out[...] = 0
            np.put_along_axis(out, indices, x, 1)
            return out.reshape(cell.full)

        return unpool

    return call


def bottleneck(threads: int) -> Prepared:
    """Always serial. Its first results are of windows that begin before the array: cunpool has none of these."""
    import bottleneck

    def call(cell: Cell, arrays: Arrays) -> Call | None:
        if (cell.op, cell.index, cell.n, cell.stride, cell.padding) != ("pool", "none", 1, 1, 0) or cell.full[1] > 1:
            return None
        x = arrays["x"][0, 0]
        return lambda: bottleneck.move_max(x, cell.kernel)[cell.kernel - 1 :]

    return call


def numba(threads: int) -> Prepared:
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
        if not is_unpooling_of_planes(cell) or cell.dtype == "float16":
            return None
        x, indices, out = planes(cell, arrays)

        def unpool() -> np.ndarray:
            z = out if cell.out else np.empty_like(out)
            scatter(z, x, indices)
            return z.reshape(cell.full)

        return unpool

    return call


INSIDE = ("inside", "torch", "compiled")
SWIFT = ("cunpool", "opencv", "scipy")  # their time does not grow with the square of the window
MOST = 2**32  # numbers in all windows: the others would need ten seconds for a call


LANES = {
    f.__name__: f for f in (cunpool, inside, torch, compiled, onnxruntime, numpy, bottleneck, numba, onednn, xnnpack)
}


def arranged(name: str, prepare: Prepare) -> Prepare:
    """The same contestant, to whom arrays come in the cell's layout, and only cells of its kind.

    Contestants that are not in `LANES` receive the kinds of cells that ``cunpool bench`` has.
    """

    def ready(threads: int) -> Prepared:
        of_kind = prepare(threads)

        def call(cell: Cell, arrays: Arrays) -> Call | None:
            if (cell.inside and name not in INSIDE) or (cell.work > MOST and name not in SWIFT):
                return None
            if (name not in LANES and not ordinary(cell)) or (name == "paddle" and cell.dtype != "float32"):
                return None
            return of_kind(cell, {key: from_a_line(LAYOUTS[cell.layout](array)) for key, array in arrays.items()})

        return call

    return ready


CONTESTANTS = {name: arranged(name, prepare) for name, prepare in {**bench.CONTESTANTS, **LANES}.items()}


def check(cell: Cell, result: Any) -> int | None:
    """What is compared of a result: of pooling to codes the values alone, tests do the rest; of filling nothing.

    Whoever needs time to hand over what it has computed returns a function for that, which only this calls.
    """
    if callable(result):
        result = result()
    if result is None:
        return None
    if cell.dtype == "bfloat16":  # NumPy has none
        tensors = result if isinstance(result, tuple) else (result,)
        result = [tensor.float() if tensor.is_floating_point() else tensor for tensor in tensors]
    return bench.checksum(cell, result[0] if cell.format == "window" and isinstance(result, (tuple, list)) else result)


if __name__ == "__main__":
    bench.main(CONTESTANTS, check)
