"""What is measured: one cell is one operation on one shape, in one layout, with one type of index."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np
from shared import bench

ITEM = 4  # float32 throughout


@dataclass(frozen=True)
class Cell(bench.Cell):
    """Beyond what ``cunpool bench`` measures: the gradients, other indices, layouts and `out`."""

    index: str = "int64"
    layout: str = "contiguous"  # or channels last
    out: bool = False
    format: str = "plane"  # or window: then cunpool has window codes where the others have their indices

    @property
    def full_bytes(self) -> int:
        return ITEM * math.prod(self.full)

    @property
    def must_move(self) -> int:
        """Bytes of the inputs, read once, and of the results, written once."""
        index = 1 if self.format == "window" else np.dtype(self.index).itemsize
        return self.full_bytes + (ITEM + index * (self.op != "maxima")) * math.prod(self.pooled)

    @property
    def name(self) -> str:
        rest = [self.index] * (self.index != "int64") + [self.layout] * (self.layout != "contiguous")
        rest += ["window codes"] * (self.format == "window") + ["out="] * self.out
        return " ".join([super().name, *rest])

    @property
    def plain(self) -> bool:
        """Whether it counts for the geometric means: int64 indices, contiguous, a fresh result, no window codes."""
        return self.index == "int64" and self.layout == "contiguous" and not self.out and self.format == "plane"

    def asdict(self) -> dict[str, object]:
        return {**asdict(self), "name": self.name, "full_bytes": self.full_bytes, "must_move": self.must_move}


SIZES = [  # 2 x 2 windows, next to each other
    (1, 1, 4, 4),
    (1, 4, 16, 16),
    (1, 64, 16, 16),
    (1, 512, 8, 8),
    (1, 64, 64, 64),
    (1, 64, 128, 128),
    (8, 64, 112, 112),
    (64, 512, 14, 14),
    (1, 64, 512, 512),
    (4, 64, 512, 512),
    (1, 1, 1024, 1024),
    (1, 1, 4096, 4096),
    (1, 16, 65536),
    (1, 1, 2**24),
    (1, 16, 32, 64, 64),
    (1, 1, 128, 256, 256),
]
OVERLAPPING = [(1, 64, 56, 56), (8, 64, 112, 112), (1, 64, 512, 512), (1, 1, 2048, 2048)]
GRADIENTS = [(1, 64, 28, 28), (1, 64, 64, 64), (1, 64, 128, 128), (8, 64, 112, 112), (1, 1, 4096, 4096),
             (3, 64, 512, 512)]  # fmt: skip
LARGER = [(1, 64, 128, 128), (8, 64, 112, 112), (1, 64, 512, 512), (1, 1, 4096, 4096)]


def cells() -> list[Cell]:
    chosen = [Cell(**asdict(cell)) for cell in bench.CELLS]
    for op in ("unpool", "pool"):
        chosen += [Cell(op, full) for full in SIZES]
        chosen += [Cell(op, full, 3, 2, 1) for full in OVERLAPPING]
        chosen += [Cell(op, full, layout="channels last") for full in [(1, 64, 64, 64), *LARGER[:3]]]
        chosen += [Cell(op, full, 3, 2, 1, layout="channels last") for full in OVERLAPPING[:2]]
    chosen += [Cell(op, full, out=True) for op in ("unpool", "pool") for full in LARGER]
    chosen += [Cell("unpool", full, format="window", out=True) for full in [*LARGER, GRADIENTS[-1]]]
    chosen += [Cell("pool", full, format="window") for full in [*LARGER, GRADIENTS[-1]]]
    for op in ("unpool gradient", "pool gradient"):
        chosen += [Cell(op, full) for full in GRADIENTS]
        chosen += [Cell(op, full, 3, 2, 1) for full in OVERLAPPING]
    chosen += [Cell(op, full, index="int32") for op in ("unpool", "pool") for full in LARGER]
    return [*dict.fromkeys(chosen)]


def data(cell: Cell) -> dict[str, np.ndarray]:
    """The arrays that the operation takes, in the cell's layout."""
    arrays = bench.data(cell)
    if "indices" in arrays:
        arrays["indices"] = arrays["indices"].astype(cell.index)
    if cell.op == "unpool gradient":
        arrays["x"] = np.random.default_rng(1).random(cell.full, np.float32)
    return arrays
