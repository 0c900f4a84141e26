"""The twelve benchmark cases, called cells, with their input arrays and a checksum of results."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cunpool._arrays import Array

Call = Callable[[], Any]
Arrays = dict[str, Array]

TITLES = {  # by operation and index
    ("unpool", "int64"): "unpooling",
    ("pool", "int64"): "pooling with indices",
    ("pool", "none"): "pooling without indices",
}


@dataclass(frozen=True)
class Cell:
    """One operation on one shape of float32."""

    op: str  # unpool or pool
    full: tuple[int, ...]  # (N, C, *spatial) of the larger array: pooling's input, unpooling's output
    kernel: int = 2
    stride: int = 2
    padding: int = 0
    index: str = "int64"  # or none, for pooling alone

    @property
    def n(self) -> int:
        return len(self.full) - 2

    @property
    def pooled(self) -> tuple[int, ...]:
        return self.full[:2] + tuple(
            (size + 2 * self.padding - self.kernel) // self.stride + 1 for size in self.full[2:]
        )

    @property
    def shape_and_window(self) -> str:
        window = f"{self.kernel}/{self.stride}" + (f" pad {self.padding}" if self.padding else "")
        return f"{'x'.join(map(str, self.full))} {window}"

    @property
    def name(self) -> str:
        return " ".join([self.op, self.shape_and_window, *self.rest])

    @property
    def rest(self) -> list[str]:
        """Parts of the name besides operation, shape and window."""
        return ["no indices"] * (self.index == "none")

    @property
    def window(self) -> tuple[int, int, int]:
        return self.kernel, self.stride, self.padding


CELLS = [
    Cell("unpool", (1, 64, 16, 16)),
    Cell("unpool", (1, 64, 128, 128)),
    Cell("unpool", (8, 64, 112, 112)),
    Cell("unpool", (1, 1, 128, 256, 256)),
    Cell("pool", (1, 64, 16, 16)),
    Cell("pool", (1, 64, 128, 128)),
    Cell("pool", (8, 64, 112, 112), 3, 2, 1),
    Cell("pool", (1, 1, 128, 256, 256)),
    Cell("pool", (1, 1, 1080, 1920), index="none"),
    Cell("pool", (1, 1, 1080, 1920), 5, 1, 2, index="none"),
    Cell("pool", (1, 1, 1080, 1920), 9, 1, 4, index="none"),
    Cell("pool", (1, 1, 1080, 1920), 15, 1, 7, index="none"),
]


def data(cell: Cell) -> Arrays:
    """Return the input arrays of the operation, in C order."""
    rng = np.random.default_rng(1)
    if cell.op == "pool":
        return {"x": rng.random(cell.full, np.float32)}
    code = np.min_scalar_type(cell.kernel**cell.n - 1)
    indices, codes = np.zeros((), np.int64), np.zeros((), code)
    for axis, size in enumerate(cell.full[2:]):
        shape = [1] * len(cell.full)
        shape[axis + 2] = cell.pooled[axis + 2]
        first = np.arange(cell.pooled[axis + 2]).reshape(shape) * cell.stride - cell.padding
        position = np.clip(first + rng.integers(0, cell.kernel, cell.pooled, np.uint8), 0, size - 1)
        indices = indices * size + position
        codes = codes * cell.kernel + (position - first).astype(code)
    # As after a pooling, equal indices have equal values. Otherwise PyTorch's result would vary from run to run.
    # Small integers have the same sum in any order.
    return {"x": (indices * 2654435761 % 1024).astype(np.float32), "indices": indices, "codes": codes}


def checksum(cell: Cell, result: Any) -> int:
    """Return a checksum of the result's bits, which depends neither on its layout nor on the dtype of its indices."""
    total = 0
    for given in result if isinstance(result, (tuple, list)) else [result]:
        array = np.asarray(given)
        if array.dtype.kind == "i":
            array = array.astype(np.int64) % math.prod(cell.full[2:])  # ONNX counts through all planes
        total = zlib.crc32(np.ascontiguousarray(array).data, total)
    return total
