"""What the times say: ratios within a round, their medians and quartiles, a table, a summary and charts."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from shared import bench

PEERS = {name: title for name, title in bench.PEERS.items() if name != "cunpool"}
PEERS |= {
    "bottleneck": "bottleneck",
    "numba": "numba's loop",
    "onednn": "oneDNN",
    "xnnpack": "XNNPACK",
    "compiled": "torch.compile",
    "other": "other build",
}
SAME = "op", "full", "kernel", "stride", "padding", "index", "layout", "out", "format", "dtype", "inside"  # of a cell


def dumped(results: dict[str, Any]) -> str:
    """JSON of one line for each cell, with times of four digits, because people read and compare it too."""
    lines = []
    for cell in results["cells"]:
        rounded = {name: [float(f"{time:.4g}") for time in rounds] for name, rounds in cell["times"].items()}
        lines.append(json.dumps({**cell, "times": rounded}, separators=(",", ":")))
    head = {name: value for name, value in results.items() if name != "cells"}
    return json.dumps(head)[:-1] + ',\n"cells": [\n' + ",\n".join(lines) + "\n]}\n"


def times(cell: dict[str, Any], name: str, threads: int) -> list[float] | None:
    """A contestant's time in each round."""
    return cell["times"].get(f"{name} {threads}")


def our_times(cell: dict[str, Any], threads: int) -> list[float] | None:
    """cunpool's, or cunpool.torch's of a cell that is inside PyTorch."""
    return times(cell, "inside" if cell.get("inside") else "cunpool", threads)


def quartiles(theirs: Sequence[float], ours: Sequence[float]) -> tuple[float, float, float]:
    """25, 50 and 75 % of the ratios of times of the same round."""
    rounds = min(len(theirs), len(ours))
    low, median, high = np.percentile(np.divide(theirs[:rounds], ours[:rounds]), [25, 50, 75])
    return float(low), float(median), float(high)


def ratio(cell: dict[str, Any], name: str, threads: int) -> tuple[float, float, float] | None:
    """Median and quartiles of a contestant's time by cunpool's, round by round."""
    ours, theirs = our_times(cell, threads), times(cell, name, threads)
    if ours is None or theirs is None:
        return None
    low, median, high = quartiles(theirs, ours)
    return median, low, high


def our_median(cell: dict[str, Any], threads: int) -> float:
    return float(np.median(our_times(cell, threads)))


def by_another(
    cells: list[dict[str, Any]], every: list[dict[str, Any]], threads: int, **change: Any
) -> list[tuple[float, dict[str, Any]]]:
    """The median of each cell's time by that of the cell that differs in `change` alone, measured in other rounds."""
    at = {tuple(str(cell[key]) for key in SAME): cell for cell in every}
    found = []
    for cell in cells:
        other = at.get(tuple(str({**cell, **change}[key]) for key in SAME))
        if other is not None and other is not cell:
            found.append((our_median(cell, threads) / our_median(other, threads), cell))
    return found


def threads_of(results: dict[str, Any]) -> list[int]:
    keys = {key for cell in results["cells"] for key in cell["times"]}
    return sorted({int(key.split()[1]) for key in keys if key.split()[0] in ("cunpool", "inside")})


def width(cells: list[dict[str, Any]]) -> int:
    """Of a column of their names."""
    return max(len(cell["name"]) for cell in cells) + 2


def table(results: dict[str, Any]) -> None:
    """Every cell: cunpool's median time, and the others' by it, with the quartiles."""
    for threads in threads_of(results):
        print(f"\n{threads} thread{'s' * (threads > 1)}: time by cunpool's, median [quartiles] of the rounds")
        here = [name for name in PEERS if any(f"{name} {threads}" in c["times"] for c in results["cells"])]
        wide = width(results["cells"])
        print(f"{'':{wide}}{'cunpool':>10}" + "".join(f"{PEERS[name]:>24}" for name in here))
        for cell in results["cells"]:
            row = f"{cell['name']:<{wide}}{np.median(our_times(cell, threads)) * 1e6:8.1f}us"
            for name in here:
                found = ratio(cell, name, threads)
                text = "-" if found is None else "{:.2f} [{:.2f} {:.2f}]".format(*found)
                row += f"{text:>24}"
            print(row)


def summary(results: dict[str, Any]) -> None:
    """Geometric means, and the cells where somebody is ahead."""
    cells = results["cells"]
    counts = threads_of(results)
    print("\ngeometric means over contiguous arrays, int64 indices, fresh results")
    for op in dict.fromkeys(cell["op"] for cell in cells):
        for name, title in PEERS.items():
            parts = []
            for threads in counts:
                found = [ratio(c, name, threads) for c in cells if c["op"] == op and c["plain"]]
                parts.append(f"{bench.geometric_mean(r[0] for r in found if r):6.2f}")
            if "nan" not in "".join(parts):
                print(f"  {op:<16}{title:<14}" + "  ".join(f"{p} at {t}" for p, t in zip(parts, counts, strict=True)))
    wins_and_losses(cells, counts)


def wins_and_losses(cells: list[dict[str, Any]], counts: list[int]) -> None:
    """In how many cells each peer is behind, level and ahead; then every cell where it is ahead."""
    print("\nof the cells that a peer takes part in it is behind, is level (1 lies within the quartiles), is ahead")
    ahead = []
    for name, title in PEERS.items():
        for threads in counts:
            found = [(cell["name"], r) for cell in cells if (r := ratio(cell, name, threads))]
            behind = sum(low > 1 for _, (_, low, _) in found)
            losses = sum(high < 1 for _, (_, _, high) in found)
            if found:
                level = len(found) - behind - losses
                print(f"  {title:<14}at {threads}: {behind:4} {level:4} {losses:4} of {len(found)}")
            ahead += [(r, cell, title, threads) for cell, r in found if r[0] < 1]
    print("\ncells where somebody is ahead of cunpool (median below 1), the worst first; * beyond the quartiles")
    for (median, low, high), cell, title, threads in sorted(ahead):
        mark = "*" if high < 1 else " "
        print(f"{mark} {cell:<{width(cells)}}{title} at {threads}: {median:.2f} [{low:.2f} {high:.2f}]")
    if not ahead:
        print("  none")


def rows(cells: list[dict[str, Any]], threads: int) -> list[Any]:
    """A row for each contestant: the geometric mean over these cells, and the least and the most of them."""
    found = []
    for name, title in PEERS.items():
        ratios = [r[0] for cell in cells if (r := ratio(cell, name, threads))]
        if ratios:
            found.append(bench.row(title, ratios))
    return found


def lane(cell: dict[str, Any]) -> str:
    """A cell's group, or what it is about but for its shape: operation, window, what its name says beyond these."""
    if cell.get("group"):
        return cell["group"]
    found = re.fullmatch(r"(\D+) [\dx]+ (\d+)/(\d+)(?: pad \d+)?(.*)", cell["name"])
    assert found, cell["name"]
    op, kernel, stride, rest = found.groups()
    title = bench.TITLES.get(
        (op, "none" if cell["index"] == "none" else "int64"), f"{op.partition(' ')[0]}ing's gradient"
    )
    return f"{title}, {kernel} x {kernel}, stride {stride}" + rest.replace(" ", ", ", 1)


def chart(results: dict[str, Any], path: Path) -> None:
    """PATH.svg has the plain cells. PATH-lanes.svg has one row for each group of cells, with the fastest other library
    there; the closest groups come first."""
    threads = threads_of(results)[-1]
    cells = results["cells"]
    plain = {
        title: rows([c for c in cells if (c["op"], c["index"]) == kind and c["plain"]], threads)
        for kind, title in bench.TITLES.items()
    }
    lanes = []
    for name in {lane(cell) for cell in cells}:
        found = rows([cell for cell in cells if lane(cell) == name], threads)
        if found:
            title, *numbers = min(found, key=lambda row: row[1])
            lanes.append((f"{name}: {title}", *numbers))
    nearest = {"the fastest other library in each group": sorted(lanes, key=lambda row: row[1])}
    heading = f"{results['machine']['processor']}, {threads} thread{'s' * (threads > 1)}"
    for suffix, groups, above in (("", plain, False), ("-lanes", nearest, True)):
        found = {title: rows for title, rows in groups.items() if rows}
        if found:
            bench.draw(found, path.with_name(f"{path.name}{suffix}.svg"), heading, above)
