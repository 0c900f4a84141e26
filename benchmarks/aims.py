"""What README.md's table and docs/benchmarks.md say beyond `compare.py --draw`: ``python benchmarks/aims.py``.

Of each question: how many cells, their mean, the least and the most with their cells, and how many fall short. Ratios
within cunpool, such as int64 by codes or transposed by C order, are of two cells' median times.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from report import by_another, our_median, ratio, threads_of
from shared import bench

Entry = dict[str, Any]  # a cell, as `results.json` has it
Found = list[tuple[float, Entry]]
Answer = tuple[str, Found, float | None]  # to one question: the ratios, and below which they fall short

FRAMEWORKS = "torch", "onnxruntime", "paddle"
LARGE = 2**24  # bytes: beyond the caches


def said(title: str, found: Found, below: float | None = None) -> None:
    found = sorted(found, key=lambda entry: entry[0])
    if found:
        (least, first), (most, last) = found[0], found[-1]
        print(f"  {title:50}{len(found):4}{bench.geometric_mean([value for value, _ in found]):7.2f}", end="")
        print(f"{least:7.2f} {first['name']:56}{most:7.2f} {last['name']}", end="")
        print("" if below is None else f"   below {below}: {sum(value < below for value, _ in found)}")


def best(cells: Iterable[Entry], names: Iterable[str], threads: int) -> Found:
    """The time of the fastest of these contestants by cunpool's in each cell."""
    found = []
    for cell in cells:
        ratios = [value[0] for name in names if (value := ratio(cell, name, threads))]
        if ratios:
            found.append((min(ratios), cell))
    return found


def grouped(every: list[Entry], group: str) -> list[Entry]:
    return [cell for cell in every if cell["group"] == group]


def windows(every: list[Entry], threads: int) -> Iterator[Answer]:
    for kernel in (7, 13, 31):
        cells = [cell for cell in grouped(every, "windows, stride 1") if cell["kernel"] == kernel]
        yield f"{kernel} x {kernel}, stride 1, by 3 x 3", by_another(cells, every, threads, kernel=3, padding=1), None


def contestants(every: list[Entry], threads: int) -> Iterator[Answer]:
    pooled = [cell for cell in every if cell["op"] == "pool" and cell["dtype"] == "float32" and not cell["inside"]]
    places = [c for c in pooled if (c["index"], c["format"], c["layout"]) == ("int64", "plane", "contiguous")]
    smallest = [cell for cell in every if cell["group"] == "smallest calls" or cell["full"] == [1, 1, 4, 4]]
    codes = grouped(every, "channels last, unpooling by codes")
    large = [cell for cell in codes if cell["full_bytes"] > LARGE]
    for title, cells, names in (
        ("stride 1, 20 x 20: the best of three", grouped(every, "windows, stride 1, 20 x 20"), FRAMEWORKS),
        ("stems: the best of three", grouped(every, "stems"), FRAMEWORKS),
        ("with indices, C order, float32: the best of three", places, FRAMEWORKS),
        ("unpooling, odd shapes: the best of three", grouped(every, "unpooling, odd shapes"), FRAMEWORKS),
        ("the smallest calls: anyone called from Python", smallest, (*FRAMEWORKS, "numpy", "numba")),
        ("unpooling: numba's loop", every, ("numba",)),
        ("channels last, codes, large: zeros", [cell for cell in large if not cell["out"]], ("fill",)),
        ("channels last, codes, large, out=: zeros", [cell for cell in large if cell["out"]], ("fill",)),
    ):
        yield title, best(cells, names, threads), 1.0


def codes(every: list[Entry], threads: int) -> Iterator[Answer]:
    cells = [cell for cell in every if cell["format"] == "window" and cell["index"] != "none"]
    found = [(1 / value, cell) for value, cell in by_another(cells, every, threads, format="plane")]
    yield "int64 by codes", found, 1.0
    yield "int64 by codes, beyond the caches", [entry for entry in found if entry[1]["full_bytes"] > LARGE], 1.0
    yield "int64 by codes, within them", [entry for entry in found if entry[1]["full_bytes"] <= LARGE], 1.0


def orders(every: list[Entry], threads: int) -> Iterator[Answer]:
    cells = [cell for cell in every if cell["group"] == f"{cell['layout']} beside C order"]
    found = by_another(cells, every, threads, layout="contiguous")
    kinds: dict[str, Callable[[Entry], bool]] = {
        "with indices": lambda cell: cell["op"] == "pool" and cell["index"] != "none",
        "no indices": lambda cell: cell["index"] == "none",
        "unpool": lambda cell: cell["op"] == "unpool",
    }
    for lane in dict.fromkeys((cell["layout"], *cell["full"]) for cell in cells):
        here = [(value, cell) for value, cell in found if (cell["layout"], *cell["full"]) == lane]
        for kind, holds in kinds.items():
            title = f"{lane[0]} {'x'.join(map(str, lane[1:]))}, {kind}"
            yield title, [(value, cell) for value, cell in here if holds(cell)], None


def widths(every: list[Entry], threads: int) -> Iterator[Answer]:
    def rates(width: int) -> dict[Any, tuple[float, Entry]]:
        """Cells a second, of each operation and dtype: some of these cells come from other groups."""
        found = {}
        for cell in every:
            ordinary = cell["layout"] == "contiguous" and not cell["out"] and not cell["inside"]
            square = cell["full"] == [1, max(2**20 // width**2, 1), width, width] and cell["kernel"] == 2
            if ordinary and square and cell["op"] in ("pool", "unpool"):
                rate = math.prod(cell["full"]) / our_median(cell, threads)
                found[cell["op"], cell["index"], cell["format"], cell["dtype"]] = rate, cell
        return found

    every_width = sorted({cell["full"][-1] for cell in grouped(every, "widths")})
    at = {width: rates(width) for width in every_width}
    for title, least, chosen in (
        ("widths 28 to 480 by 512", 0.6, [width for width in every_width if 14 < width < 512]),
        ("width 14 by 512", 0.35, [width for width in every_width if width == 14]),
    ):
        by_512 = [(rate / at[512][key][0], c) for w in chosen for key, (rate, c) in at[w].items() if key in at[512]]
        yield title, by_512, least
    for dtype, least in (("uint8", 1.5), ("float16", 1.0)):
        found = []
        for width in every_width:
            for key, (rate, cell) in at[width].items():
                if key[-1] == dtype and (*key[:-1], "float32") in at[width]:
                    found.append((rate / at[width][(*key[:-1], "float32")][0], cell))
        yield f"cells a second, {dtype} by float32", found, least


QUESTIONS = windows, contestants, codes, orders, widths
MOST = 3  # times as long as in C order, any other


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("results.json")
    results = json.loads(path.read_text())
    for threads in threads_of(results):
        print(f"\n{threads} thread{'s' * (threads > 1)}")
        for question in QUESTIONS:
            answers = list(question(results["cells"], threads))
            for title, found, below in answers:
                said(title, found, below)
            for value, cell in (entry for _, found, _ in answers for entry in found if question is orders):
                if value > MOST:
                    print(f"    more than {MOST} times: {value:.2f} {cell['name']}")


if __name__ == "__main__":
    main()
