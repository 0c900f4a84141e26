"""What is measured: one cell is one operation on one shape, in one layout, with one type of index."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np

ITEM = 4  # float32 throughout


@dataclass(frozen=True)
class Cell:
    op: str  # unpool, pool
    full: tuple[int, ...]  # (N, C, *spatial) of the side with all the cells
    kernel: int = 2
    stride: int = 2
    padding: int = 0
    index: str = "int64"
    layout: str = "contiguous"  # or channels last
    out: bool = False

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
        return self.full_bytes + (ITEM + np.dtype(self.index).itemsize) * math.prod(self.pooled)

    @property
    def name(self) -> str:
        window = f"{self.kernel}/{self.stride}" + (f" pad {self.padding}" if self.padding else "")
        rest = [self.index] * (self.index != "int64") + [self.layout] * (self.layout != "contiguous")
        rest += ["out="] * self.out
        return " ".join([self.op, "x".join(map(str, self.full)), window, *rest])

    @property
    def plain(self) -> bool:
        """Whether it counts for the geometric means: int64 indices, contiguous, a fresh result."""
        return self.index == "int64" and self.layout == "contiguous" and not self.out

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
LARGER = [(1, 64, 128, 128), (8, 64, 112, 112), (1, 64, 512, 512), (1, 1, 4096, 4096)]


def cells() -> list[Cell]:
    chosen = []
    for op in ("unpool", "pool"):
        chosen += [Cell(op, full) for full in SIZES]
        chosen += [Cell(op, full, 3, 2, 1) for full in OVERLAPPING]
        chosen += [Cell(op, full, layout="channels last") for full in [(1, 64, 64, 64), *LARGER[:3]]]
        chosen += [Cell(op, full, 3, 2, 1, layout="channels last") for full in OVERLAPPING[:2]]
    chosen += [Cell("unpool", full, out=True) for full in LARGER]
    chosen += [Cell("unpool", full, index="int32") for full in LARGER]
    return chosen


def data(cell: Cell) -> dict[str, np.ndarray]:
    """The arrays that the operation takes, contiguous."""
    rng = np.random.default_rng(1)
    if cell.op == "pool":
        return {"x": rng.random(cell.full, np.float32)}
    indices = np.zeros((), np.int64)
    for axis, size in enumerate(cell.full[2:]):
        shape = [1] * len(cell.full)
        shape[axis + 2] = cell.pooled[axis + 2]
        first = np.arange(cell.pooled[axis + 2]).reshape(shape) * cell.stride - cell.padding
        tap = rng.integers(0, cell.kernel, cell.pooled, np.uint8)
        indices = indices * size + np.clip(first + tap, 0, size - 1)
    # As after a pooling, equal places have equal values: PyTorch's answer is a matter of luck otherwise.
    x = (indices * 2654435761 % 2**20).astype(np.float32) / 2**20
    return {"x": x, "indices": indices.astype(cell.index)}
