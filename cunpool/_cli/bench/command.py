"""The command, and the table that it prints."""

from __future__ import annotations

import os
import statistics
import sys
from pathlib import Path

import cunpool as cu
from cunpool import _cgroups
from cunpool._cli.demo import Refusal, one_line, threads

from .cells import CELLS, TITLES, Cell, data
from .chart import draw, geometric_mean, row
from .clock import Contestant, measure, ratio
from .contestants import PEERS

ROUNDS, BLOCK, SECONDS = 5, 0.02, 2.0  # rounds at most; seconds of a turn; seconds of a cell, all contestants together
INSTALL = "pip install 'cunpool[bench]'"
# Widths of the table's columns, in characters. With seven other libraries a line has 98.
CELL_WIDTH, TIME_WIDTH, RATIO_WIDTH = 30, 12, 8
HEADS = {
    "ONNX Runtime": ("ONNX", "Runtime"),
    "PaddlePaddle": ("Paddle-", "Paddle"),
    "scikit-image": ("scikit-", "image"),
}

Times = dict[Cell, dict[str, list[float]]]
Ratios = dict[tuple[Cell, str], "float | None"]


def bench(asked: int | None, plot: str | None) -> None:
    """Time the twelve cells, print the table, and draw the chart if `plot` is given."""
    if plot is not None:
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            raise Refusal(f"--plot needs matplotlib: {INSTALL}") from None
    if asked is not None and asked < 1:
        raise Refusal(f"--threads must be at least 1, got {asked}")
    cu.set_num_threads(asked)
    count = cu.get_num_threads()
    if asked is not None:
        remark(asked, count, processors())
    contestants: list[Contestant] = []
    times: Times = {}
    try:
        contestants += installed(count)
        for number, cell in enumerate(CELLS):
            progress(number, cell.name)
            times[cell] = measure(cell, data(cell), contestants, ROUNDS, BLOCK, SECONDS)
        progress(len(CELLS), "")
    finally:
        for contestant in contestants:
            contestant.end()
    others = [c for c in contestants if c.name != "cunpool"]
    ratios = {(cell, c.name): ratio(found, c.key, f"cunpool {count}") for cell, found in times.items() for c in others}
    table(times, ratios, [c.name for c in others], f"cunpool {count}")
    if plot is not None:
        chart(ratios, [c.name for c in others], plot)


def processors() -> int:
    """Return the number of processors that this process may use, by its affinity and the container's CPU limit."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(count, _cgroups.processors() or count)


def remark(asked: int, count: int, available: int) -> None:
    """Print a remark if fewer threads are measured than requested, or more threads than processors."""
    if count < asked:
        print(f"--threads {asked}: cunpool uses at most {threads()} here, and the other libraries get the same number")
    if count > available:
        print(
            f"{threads()} on {available} processor{'s' * (available != 1)}: threads wait for each other, "
            "so these times are not representative"
        )


def installed(count: int) -> list[Contestant]:
    """Start a process for each library that can be imported, and print the names of the others."""
    contestants, absent = [], []
    for name, title in PEERS.items():
        contestant = Contestant(name, count)
        if contestant.status == "ready":
            contestants.append(contestant)
        elif contestant.status.startswith("not installed"):
            absent.append(title)
        else:
            print(f"{title} is left out: {contestant.status}")
    if absent:
        print(f"not installed: {', '.join(absent)}")
        print(f"to measure them too: {INSTALL}")
    return contestants


def progress(done: int, doing: str) -> None:
    if sys.stderr.isatty():
        bar = "#" * (20 * done // len(CELLS))
        print(f"\r[{bar:<20}] {doing:<50}", end="" if doing else "\r\033[K", file=sys.stderr, flush=True)


def table(times: Times, ratios: Ratios, others: list[str], ours: str) -> None:
    """Print a row for each cell, in groups with titles, each with its geometric means in the last row."""
    print(f"\ncunpool {cu.__version__}, {threads()}, float32")
    print("cunpool: time. Others: time divided by cunpool's (above 1: cunpool is faster; -: no such call).\n")
    heads = [HEADS.get(PEERS[name], ("", PEERS[name])) for name in others]
    for line in (0, 1):
        print_row(("", "shape, window/stride")[line], ("", "cunpool")[line], [head[line] for head in heads])
    for kind, title in TITLES.items():
        alike = [cell for cell in times if (cell.op, cell.index) == kind]
        if not alike:
            continue
        print(title)
        for cell in alike:
            seconds = statistics.median(times[cell][ours])
            print_row(f"  {cell.shape_and_window}", duration(seconds), [factor(ratios[cell, name]) for name in others])
        print_row("  geometric mean", "", [factor(mean(ratios, alike, name)) for name in others])


def print_row(first: str, second: str, entries: list[str]) -> None:
    print(f"{first:<{CELL_WIDTH}}{second:>{TIME_WIDTH}}{''.join(f'{e:>{RATIO_WIDTH}}' for e in entries)}".rstrip())


def duration(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def factor(number: float | None) -> str:
    """Format with three significant digits, or with all digits before the point."""
    if number is None:
        return "-"
    return f"{number:.2f}" if number < 9.995 else f"{number:.1f}" if number < 99.95 else f"{number:.0f}"


def known(ratios: Ratios, cells: list[Cell], name: str) -> list[float]:
    """Return the library's ratios for these cells, without the cells that it has no operation for."""
    return [r for cell in cells if (r := ratios[cell, name]) is not None]


def mean(ratios: Ratios, cells: list[Cell], name: str) -> float | None:
    found = known(ratios, cells, name)
    return geometric_mean(found) if found else None


def chart(ratios: Ratios, others: list[str], plot: str) -> None:
    groups = {}
    for kind, title in TITLES.items():
        alike = list(dict.fromkeys(cell for cell, _ in ratios if (cell.op, cell.index) == kind))
        rows = [row(PEERS[name], found) for name in others if (found := known(ratios, alike, name))]
        if rows:
            groups[title] = rows
    try:
        draw(groups, Path(plot), f"cunpool {cu.__version__}, {threads()}")
    except Exception as error:  # the folder does not exist, or matplotlib lacks the format
        raise Refusal(f"cannot write {plot}: {one_line(error)}") from None
