"""What is measured: one cell is one operation on one shape, in one layout, with one type of index."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np

ITEM = 4  # float32 throughout


@dataclass(frozen=True)
class Cell:
    op: str  # unpool, pool, and the gradients of both
    full: tuple[int, ...]  # (N, C, *spatial) of the side with all the cells
    kernel: int = 2
    stride: int = 2
    padding: int = 0
    index: str = "int64"
    layout: str = "contiguous"  # or channels last
    out: bool = False
    format: str = "plane"  # or window: then cunpool has window codes where the others have their indices

    @property
    def n(self) -> int:
        return len(self.full) - 2

    @property
    def pooled(self) -> tuple[int, ...]:
        return self.full[:2] + tuple(
            (size + 2 * self.padding - self.kernel) // self.stride + 1 for size in self.full[2:]
        )

    @property
    def full_bytes(self) -> int:
        return ITEM * math.prod(self.full)

    @property
    def must_move(self) -> int:
        """Bytes of the inputs, read once, and of the results, written once."""
        index = 1 if self.format == "window" else np.dtype(self.index).itemsize
        return self.full_bytes + (ITEM + index) * math.prod(self.pooled)

    @property
    def name(self) -> str:
        window = f"{self.kernel}/{self.stride}" + (f" pad {self.padding}" if self.padding else "")
        rest = [self.index] * (self.index != "int64") + [self.layout] * (self.layout != "contiguous")
        rest += ["window codes"] * (self.format == "window") + ["out="] * self.out
        return " ".join([self.op, "x".join(map(str, self.full)), window, *rest])

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
    chosen = []
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
    return chosen


def data(cell: Cell) -> dict[str, np.ndarray]:
    """The arrays that the operation takes, contiguous."""
    rng = np.random.default_rng(1)
    if cell.op == "pool":
        return {"x": rng.random(cell.full, np.float32)}
    indices, codes = np.zeros((), np.int64), np.zeros((), np.uint8)
    for axis, size in enumerate(cell.full[2:]):
        shape = [1] * len(cell.full)
        shape[axis + 2] = cell.pooled[axis + 2]
        first = np.arange(cell.pooled[axis + 2]).reshape(shape) * cell.stride - cell.padding
        place = np.clip(first + rng.integers(0, cell.kernel, cell.pooled, np.uint8), 0, size - 1)
        indices = indices * size + place
        codes = codes * cell.kernel + (place - first).astype(np.uint8)
    arrays = {"indices": indices.astype(cell.index), "codes": codes}
    if cell.op == "unpool gradient":
        return {"x": rng.random(cell.full, np.float32), **arrays}
    # As after a pooling, equal places have equal values: PyTorch's answer is a matter of luck otherwise. Small integers
    # have the same sum in any order.
    return {"x": (indices * 2654435761 % 1024).astype(np.float32), **arrays}
