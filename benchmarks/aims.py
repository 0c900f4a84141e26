"""The table of README.md, in Markdown: ``python benchmarks/aims.py``, of results.json or of the file that is named.

Each aim has cells, those beside whom they are measured, and the least ratio: their time by cunpool's, of the fastest of
them in each cell. Within cunpool, it is the time of the cell that differs in one thing alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from report import by_another, ratio, threads_of
from shared import bench

Entry = dict[str, Any]  # a cell, as `results.json` has it
Found = list[tuple[float, Entry]]

FRAMEWORKS = "torch", "onnxruntime", "paddle"
LAST = "channels last"
PEERS: list[tuple[str, str, tuple[str, ...], float]] = [  # title, group of cells, beside whom, what is aimed at
    ("stride 1, 20 x 20, with indices: best of three", "windows, stride 1, 20 x 20", FRAMEWORKS, 5),
    ("3/2, 5/2, 7/2, with indices: best of three", "first layers, stride 2", FRAMEWORKS, 3),
    ("a million numbers: bottleneck", "a million numbers, stride 1", ("bottleneck",), 2),
    ("images, stride 1: cv2.dilate", "images, stride 1", ("opencv",), 1),
    ("values alone: ONNX Runtime", "no indices", ("onnxruntime",), 1.8),
    ("unpooling, odd shapes: best of three", "unpooling, odd shapes", FRAMEWORKS, 1.5),
    (f"{LAST}, unpooling by codes: XNNPACK", f"{LAST}, unpooling by codes", ("xnnpack",), 1.3),
    (f"{LAST}, unpooling by codes: oneDNN", f"{LAST}, unpooling by codes", ("onednn",), 1.3),
    (f"{LAST}, to codes: XNNPACK", f"{LAST}, pooling, to codes", ("xnnpack",), 1.3),
    (f"{LAST}, to codes: oneDNN", f"{LAST}, pooling, to codes", ("onednn",), 1.3),
    (f"{LAST}, values alone: XNNPACK", f"{LAST}, pooling, no indices", ("xnnpack",), 1.3),
    (f"{LAST}, values alone: oneDNN", f"{LAST}, pooling, no indices", ("onednn",), 1.3),
    (f"{LAST}, bytes: XNNPACK", f"{LAST}, bytes", ("xnnpack",), 1),
    ("inside PyTorch, float32", "inside PyTorch, float32", ("torch",), 2),
    ("inside PyTorch, bfloat16", "inside PyTorch, bfloat16", ("torch",), 2),
    ("the smallest calls: anyone called from Python", "smallest calls", (*FRAMEWORKS, "numpy", "numba"), 1.2),
]


def best(cells: Iterable[Entry], names: Iterable[str], threads: int) -> Found:
    """The time of the fastest of these contestants by cunpool's in each cell."""
    ratios = ((cell, [value[0] for name in names if (value := ratio(cell, name, threads))]) for cell in cells)
    return [(min(values), cell) for cell, values in ratios if values]


def inverse(found: Found) -> Found:
    return [(1 / value, cell) for value, cell in found]


def within(every: list[Entry], threads: int) -> Iterator[tuple[str, float, Found]]:
    """cunpool's cells beside each other: int64 by codes, float32 by narrower numbers, C order by other orders."""
    codes = [cell for cell in every if cell["format"] == "window" and cell["index"] != "none"]
    yield "int64 by window codes", 1.3, inverse(by_another(codes, every, threads, format="plane"))
    for dtype in ("uint8", "float16"):
        narrow = [cell for cell in every if cell["dtype"] == dtype and cell["group"] == "element sizes"]
        yield f"float32 by {dtype}", 1, inverse(by_another(narrow, every, threads, dtype="float32"))
    for layout in dict.fromkeys(cell["layout"] for cell in every if cell["layout"] != "contiguous"):
        turned = [cell for cell in every if cell["group"] == f"{layout} beside C order"]
        yield f"C order by {layout}", 0.6, inverse(by_another(turned, every, threads, layout="contiguous"))


def answers(every: list[Entry], threads: int) -> Iterator[tuple[str, float, Found]]:
    for title, group, names, aim in PEERS:
        yield title, aim, best((cell for cell in every if cell["group"] == group), names, threads)
    alike = {"op": "pool", "layout": "contiguous", "format": "plane", "inside": False, "index": "int64"}
    floats = [c for c in every if c["dtype"] == "float32" and all(c[key] == value for key, value in alike.items())]
    yield "with indices, C order, float32: best of three", 2.5, best(floats, FRAMEWORKS, threads)
    yield "unpooling: numba's loop", 1.8, best(every, ("numba",), threads)
    yield from within(every, threads)


def lines(results: dict[str, Any]) -> Iterator[str]:
    """The table, line by line."""
    counts = threads_of(results)
    yield "| | aim |" + "".join(f" {t} thread{'s' * (t > 1)}: mean, least, below 1 |" for t in counts)
    yield "|---|---:|" + "---|" * len(counts)
    for rows in zip(*(answers(results["cells"], threads) for threads in counts), strict=True):
        title, aim, _ = rows[0]
        if all(found for *_, found in rows):
            values = [[value for value, _ in found] for *_, found in rows]
            said = [
                f"{bench.geometric_mean(v):.2f}, {min(v):.2f}, {sum(x < 1 for x in v)} of {len(v)} |" for v in values
            ]
            yield " ".join([f"| {title} | {aim:g} |", *said])


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("results.json")
    print(*lines(json.loads(path.read_text())), sep="\n")


if __name__ == "__main__":
    main()
