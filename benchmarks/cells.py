"""What is measured: one cell is one operation on one shape, in one layout, with one type of index."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np
from shared import bench


@dataclass(frozen=True)
class Cell(bench.Cell):
    """Beyond what ``cunpool bench`` measures: gradients, int32 indices, window codes, layouts, `out`, dtypes."""

    layout: str = "contiguous"  # or another one of LAYOUTS
    out: bool = False
    format: str = "plane"  # or window: then cunpool has window codes where the others have their indices
    dtype: str = "float32"
    inside: bool = False  # on PyTorch's tensors, where bfloat16 is a dtype too
    group: str = ""  # the question that it answers, where that is not how cunpool stands beside its peers

    @property
    def item(self) -> int:
        return 2 if self.dtype == "bfloat16" else np.dtype(self.dtype).itemsize

    @property
    def work(self) -> int:
        """How many numbers are in all its windows."""
        return math.prod(self.pooled) * self.kernel**self.n

    @property
    def rest(self) -> list[str]:
        said = [self.dtype] * (self.dtype != "float32") + super().rest + [self.index] * (self.index == "int32")
        said += [self.layout] * (self.layout != "contiguous")
        said += ["window codes"] * (self.format == "window") + ["out="] * self.out
        return said + ["inside PyTorch"] * self.inside

    @property
    def plain(self) -> bool:
        """Whether it counts for the geometric means: int64 indices, contiguous, a fresh result, no window codes."""
        ordinary = self.index == "int64" and self.layout == "contiguous" and self.format == "plane"
        return ordinary and not self.out and not self.group

    @property
    def named_padding(self) -> str | None:
        """What TensorFlow calls this padding, if it has a name there: SAME is shared out by the size."""
        if self.padding == 0:
            return "VALID"
        counts = [-(-size // self.stride) for size in self.full[2:]]
        missing = [(n - 1) * self.stride + self.kernel - size for n, size in zip(counts, self.full[2:], strict=True)]
        same = [*self.pooled[2:]] == counts and {max(count, 0) // 2 for count in missing} == {self.padding}
        return "SAME" if same else None

    def asdict(self) -> dict[str, object]:
        return {**asdict(self), "name": self.name}


SIZES = [  # 2 x 2 windows, next to each other
    (1, 1, 4, 4), (1, 4, 16, 16), (1, 64, 16, 16), (1, 512, 8, 8), (1, 64, 64, 64), (1, 64, 128, 128),
    (8, 64, 112, 112), (64, 512, 14, 14), (1, 64, 512, 512), (4, 64, 512, 512), (1, 1, 1024, 1024),
    (1, 1, 4096, 4096), (1, 16, 65536), (1, 1, 2**24), (1, 16, 32, 64, 64), (1, 1, 128, 256, 256),
]  # fmt: skip
OVERLAPPING = [(1, 64, 56, 56), (8, 64, 112, 112), (1, 64, 512, 512), (1, 1, 2048, 2048)]
GRADIENTS = [(1, 64, 28, 28), (1, 64, 64, 64), (1, 64, 128, 128), (8, 64, 112, 112), (1, 1, 4096, 4096),
             (3, 64, 512, 512)]  # fmt: skip
LARGER = [(1, 64, 128, 128), (8, 64, 112, 112), (1, 64, 512, 512), (1, 1, 4096, 4096)]


LAST = [(1, 64, 56, 56), (1, 64, 112, 112), (4, 64, 180, 240), (1, 128, 56, 56), (1, 256, 28, 28), (1, 512, 14, 14)]
DRAWN = [  # as they come
    (1, 1, 333, 517), (1, 3, 719, 1279), (2, 5, 101, 203), (1, 17, 61, 67), (7, 31, 29, 43), (3, 64, 45, 57),
    (16, 24, 33, 31), (1, 200, 19, 23), (5, 48, 127, 65), (1, 8, 401, 399),
]  # fmt: skip
SMALLEST = [(1, 1, 4, 4), (1, 1, 8, 8), (1, 4, 4, 4), (1, 1, 16, 16), (1, 4, 8, 8), (1, 4, 16, 16)]
WIDTHS = (14, 28, 56, 112, 128, 224, 240, 480, 512)
COUNTED = ({}, {"format": "window"}, {"index": "none"})  # int64, codes, no indices


def lanes() -> list[Cell]:
    """Orders in memory, windows, widths and dtypes, with int64 indices, codes and none."""
    chosen = []
    for layout, full in (
        ("channels last", (1, 3, 1080, 1920)),  # an image of interleaved channels
        ("channels last", (1, 8, 256, 256)),
        ("channels last", (1, 512, 28, 28)),
        ("Fortran", (1, 1, 128, 256, 256)),
        ("Fortran", (1, 16, 256, 256)),
        ("Fortran", (8, 16, 60, 70)),  # a batch, whose planes are neighbours
        ("transposed", (1, 16, 256, 256)),
        ("sliced", (1, 16, 256, 256)),
        ("reversed", (1, 16, 256, 256)),
    ):
        for dtype in ("uint8", "float32"):
            for order in ("contiguous", layout):
                same = {"layout": order, "dtype": dtype, "group": f"{layout} beside C order"}
                chosen += [Cell("pool", full, **same, **counted) for counted in COUNTED]
                chosen += [Cell("unpool", full, **same, **counted) for counted in COUNTED[:2]]
    for kernel in (3, 7, 13, 31):
        for counted in COUNTED:
            chosen += [Cell("pool", (1, 64, 112, 112), kernel, 1, kernel // 2, **counted, group="windows, stride 1")]
    chosen += [Cell("pool", (1, 256, 20, 20), k, 1, k // 2, group="windows, stride 1, 20 x 20") for k in (5, 9, 13)]
    chosen += [Cell("pool", (1, 64, 112, 112), k, 2, k // 2, group="first layers, stride 2") for k in (3, 5, 7)]
    for full, kernel, stride in (
        ((8, 64, 112, 112), 2, 2), ((8, 64, 112, 112), 3, 1), ((8, 64, 112, 112), 5, 2), ((8, 64, 112, 112), 7, 2),
        ((1, 64, 28, 28), 3, 1), ((1, 256, 20, 20), 5, 1), ((1, 256, 20, 20), 13, 1),
        ((1, 128, 56, 56), 2, 2), ((1, 512, 14, 14), 2, 2), ((1, 64, 112, 112), 3, 2), ((1, 256, 28, 28), 3, 2),
        ((1, 96, 54, 54), 3, 3), ((4, 32, 120, 160), 4, 4), ((1, 64, 56, 56), 4, 1), ((1, 16, 250, 250), 5, 5),
        ((2, 48, 73, 91), 6, 3), ((1, 3, 224, 224), 7, 2),
    ):  # fmt: skip
        chosen += [Cell("pool", full, kernel, stride, kernel // 2 * (kernel > 2), index="none", group="no indices")]
    for dtype in ("uint8", "float32"):
        for kernel in (3, 7, 15, 31):
            same = {"index": "none", "dtype": dtype, "group": "images, stride 1"}
            for size in ((1080, 1920), (256, 256), (1024, 1024), (4096, 4096)):
                chosen += [Cell("pool", (1, 1, *size), kernel, 1, kernel // 2, **same)]
        chosen += [Cell("pool", (1, 1, 1080, 1920), index="none", dtype=dtype, group="images, 2 x 2")]
    for kernel in (3, 31, 100, 1000):
        same = {"index": "none", "dtype": "float64", "group": "a million numbers, stride 1"}
        chosen += [Cell("pool", (1, 1, 1_000_000), kernel, 1, **same)]
    for dtype in ("uint8", "float16", "float32", "float64"):
        for width in WIDTHS:
            full = (1, max(2**20 // width**2, 1), width, width)
            for op, counted in (("pool", {}), ("pool", COUNTED[2]), ("unpool", {}), ("unpool", COUNTED[1])):
                chosen += [Cell(op, full, **counted, dtype=dtype, group="element sizes")]
    return chosen


def beside_engines() -> list[Cell]:
    """What convolutions stand next to: channels last, beside the engines that prefer it, and inside PyTorch."""
    chosen = []
    for full in LAST:
        same = {"layout": "channels last", "format": "window", "group": "channels last, unpooling by codes"}
        chosen += [Cell("unpool", full, **same, out=out) for out in (False, True)]
        for window in ((2, 2), (3, 2)):
            for counted, lane in ((COUNTED[1], "to codes"), (COUNTED[2], "no indices")):
                same = {"layout": "channels last", "group": f"channels last, pooling, {lane}"}
                chosen += [Cell("pool", full, *window, **same, **counted)]
    for full in LAST[:3]:
        for window in ((2, 2), (3, 1, 1)):
            same = {"layout": "channels last", "index": "none", "dtype": "uint8", "group": "channels last, bytes"}
            chosen += [Cell("pool", full, *window, **same)]
    for dtype in ("float32", "bfloat16"):
        same = {"layout": "channels last", "dtype": dtype, "inside": True, "group": f"inside PyTorch, {dtype}"}
        for full in ((1, 64, 56, 56), (8, 64, 112, 112), (1, 256, 28, 28)):
            for window in ((2, 2, 0), (3, 2, 1)):
                chosen += [Cell("pool", full, *window, **same, index=index) for index in ("none", "int64")]
                chosen += [Cell("unpool", full, *window, **same)]
    return chosen


def rarer() -> list[Cell]:
    """What no network's hot path is, and has ways of its own: codes of windows that are not 2 wide, and gradients by
    codes and in other orders."""
    full, chosen = (1, 64, 112, 112), []
    same = {"format": "window", "group": "codes of other windows"}
    chosen += [Cell("unpool", full, *window, **same) for window in ((3, 3), (4, 4), (3, 2, 1), (3, 1, 1))]
    for op in ("unpool gradient", "pool gradient"):
        for style in ({"format": "window"}, {"layout": "channels last"}, {"layout": "sliced"}):
            chosen += [Cell(op, full, *window, **style, group="gradients") for window in ((2, 2), (3, 2, 1))]
    return chosen


def cells() -> list[Cell]:
    """Each once, and in a group only if it comes from nowhere else; those of ``cunpool bench`` are among them."""
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
    chosen += lanes() + beside_engines() + rarer()
    for full in DRAWN:
        chosen += [Cell("unpool", full, *window, group="unpooling, odd shapes") for window in ((2, 2), (3, 2, 1))]
    for full in SMALLEST:
        chosen += [Cell("pool", full, **counted, group="smallest calls") for counted in COUNTED]
        chosen += [Cell("unpool", full, **counted, group="smallest calls") for counted in COUNTED[:2]]
    chosen += [Cell(**asdict(cell)) for cell in bench.CELLS]
    found: dict[str, Cell] = {}
    for cell in chosen:
        found.setdefault(cell.name, cell)
    return list(found.values())


def data(cell: Cell) -> dict[str, np.ndarray]:
    """The arrays that the operation takes, contiguous; of float32 for bfloat16, which NumPy has not."""
    arrays = bench.data(cell)
    x = arrays["x"]
    if cell.op == "unpool gradient":
        x = np.random.default_rng(1).random(cell.full, np.float32)
    if cell.dtype == "bfloat16":
        return arrays
    if np.dtype(cell.dtype).kind in "iu":  # whole numbers; those that unpooling is given wrap
        x = (x if cell.op == "unpool" else 100 * x).astype(np.int64)
    arrays["x"] = x.astype(cell.dtype, copy=False)
    if "indices" in arrays:
        arrays["indices"] = arrays["indices"].astype(cell.index, copy=False)
    return arrays


def from_a_line(array: np.ndarray) -> np.ndarray:
    """The same array, from the beginning of a cache line on. Where NumPy has one begin is luck, which lasts as long as
    a process and takes whoever has less of it up to a fifth longer."""
    low, high = getattr(np.lib, "array_utils", np).byte_bounds(array)  # which NumPy 2 has put there
    room = np.empty(high - low + 64, np.uint8)
    begin = -room.ctypes.data % 64 + array.ctypes.data - low
    moved = np.ndarray(array.shape, array.dtype, room, begin, array.strides)
    moved[...] = array
    return moved


def marked(cell: Cell, indices: np.ndarray) -> np.ndarray:
    """Ones at the indices, among zeros: of this an engine makes codes of its own, where windows do not overlap."""
    marks = np.zeros((*cell.full[:2], math.prod(cell.full[2:])), np.float32)
    np.put_along_axis(marks, indices.reshape(*cell.full[:2], -1), 1, 2)
    return marks.reshape(cell.full)
