"""Random calls, measuring them in two runs beside others, and the rule by which one is slower.

What `random_calls.py` and `against.py` share. Every contestant is a process of its own, by the clock of ``cunpool
bench``; in the second run all of them are new processes.
"""

from __future__ import annotations

import json
import math
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import report
from cells import Cell
from compare import COMMAND, machine, measure, running, versions
from shared import bench

ELEMENTS = 10_000, 3_000_000  # of the full side
RUNS, LEAST_ROUNDS = 2, 15
SLOWER = 0.95  # a ratio whose upper quartile is below it, in both runs, is slower
SMALL = 20e-6  # seconds: calls below it are reported apart, because they measure Python
KINDS = ("pool, indices", {}), ("pool, values", {"index": "none"}), ("unpool", {})


def drawn(rng: np.random.Generator, n: int, kinds: Any, dtypes: tuple[str, ...], style: dict[str, str]) -> Cell:
    """A call of `n` spatial axes."""
    while True:
        elements = math.exp(rng.uniform(*map(math.log, ELEMENTS)))
        channels = int(rng.choice([1, 3, 8, 16, 32, 64, 128, 256]))
        batch = int(rng.choice([1, 1, 1, 2, 8]))
        side = max(elements / channels / batch, 1) ** (1 / n)
        spatial = (max(int(side * rng.uniform(0.6, 1.6)), 1) for _ in range(n))
        kernel = int(rng.choice([2, 2, 3, 3, 5]))
        _, lane = kinds[rng.integers(len(kinds))]
        padding = kernel // 2 if rng.random() < 0.4 else 0
        op = "unpool" if lane is kinds[-1][1] and len(kinds) > 2 else "pool"
        dtype = str(rng.choice(dtypes))
        cell = Cell(op, (batch, channels, *spatial), kernel, int(rng.integers(1, kernel + 1)), padding, dtype=dtype)
        cell = replace(cell, **{**style, **lane})
        if ELEMENTS[0] <= math.prod(cell.full) <= ELEMENTS[1]:
            return cell


def c_order(rng: np.random.Generator) -> Cell:
    """For PyTorch, ONNX Runtime and PaddlePaddle, which count indices through a plane."""
    n = int(rng.choice([1, 2, 2, 2, 3]))
    cell = drawn(rng, n, KINDS, ("float32", "float32", "uint8", "float16"), {"group": "C order"})
    return replace(cell, dtype="float32") if (cell.op, cell.dtype) == ("unpool", "uint8") else cell  # no peer has it


def channels_last(rng: np.random.Generator) -> Cell:
    """For oneDNN and XNNPACK, which have window codes, of floats."""
    codes = {"format": "window"}
    kinds = (KINDS[0][0], codes), KINDS[1], ("unpool", {**codes})
    cell = drawn(rng, 2, kinds, ("float32", "float32", "uint8"), dict.fromkeys(("layout", "group"), "channels last"))
    cell = replace(cell, dtype="float32") if cell.format == "window" else cell
    return replace(cell, stride=cell.kernel, padding=0) if cell.op == "unpool" else cell


def some(seed: int, count: int, draws: tuple[Callable[[np.random.Generator], Cell], ...]) -> list[Cell]:
    """`count` different calls, the kinds alternating."""
    rng = np.random.default_rng(seed)
    found: dict[str, Cell] = {}
    while len(found) < count:
        cell = draws[len(found) % len(draws)](rng)
        if min(cell.pooled[2:]) >= 1:
            found.setdefault(cell.name, cell)
    return list(found.values())


def quartiles(theirs: list[float], ours: list[float]) -> list[float]:
    """Those of `report`, of four digits."""
    return [float(f"{value:.4g}") for value in report.quartiles(theirs, ours)]


def is_ahead(runs: list[list[float]]) -> bool:
    """Whether a contestant with these quartiles of ratios is faster than ours, by the rule."""
    return len(runs) == RUNS and all(high < SLOWER for _, _, high in runs)


def middle(runs: list[list[float]]) -> float:
    """The median of the ratio: the mean of the runs' medians, which is geometric."""
    return bench.geometric_mean(median for _, median, _ in runs)


def measured(cells: list[Cell], names: dict[str, Any], options: Namespace) -> dict[str, Any]:
    """Each contestant's time by ours, in two runs. `names` has the function that starts each; the first is ours.

    Calls whose results differ are printed and left out.
    """
    refused: dict[str, str] = {}
    found = {cell.name: {"op": op_of(cell), "group": cell.group, "us": [], "ratios": {}} for cell in cells}
    for run in range(RUNS):
        starts = ((title, partial(start, options.threads)) for title, start in names.items())
        with running(starts) as contestants:
            for number, cell in enumerate(cells, 1):
                print(f"run {run + 1}, {number}/{len(cells)} {cell.name}", file=sys.stderr, flush=True)
                entry, ours = found[cell.name], contestants[0].key
                try:
                    times = measure(cell, contestants, options.rounds, options.block)
                except bench.Refusal as refusal:
                    refused[cell.name] = str(refusal)
                    continue
                entry["us"].append(float(f"{1e6 * np.median(times[ours]):.4g}"))
                for key, theirs in times.items():
                    if key != ours:
                        runs = entry["ratios"].setdefault(key.rsplit(" ", 1)[0], [])
                        runs.append(quartiles(theirs, times[ours]))
    for name, refusal in refused.items():
        print(f"left out: {refusal}")
        del found[name]
    head = {key: getattr(options, key) for key in ("seed", "threads", "rounds", "count")}
    return {"machine": machine(), "versions": versions(), **head, "calls": found}


def op_of(cell: Cell) -> str:
    return {"pool": "pool, values" if cell.index == "none" else "pool, indices"}.get(cell.op, cell.op)


def started(name: str, title: str = "", python: str = "") -> Callable[[int], Any]:
    """How a contestant is started, with a number of threads."""
    # Another build is not to be what the shell's PYTHONPATH has.
    command = ("env", "-u", "PYTHONPATH", python, COMMAND[1]) if python else COMMAND
    return lambda threads: bench.Contestant(name, threads, command, title)


def arguments(description: str, output: str) -> ArgumentParser:
    """Those that both commands have."""
    parser = ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=1, help="of the calls (default: %(default)s)")
    parser.add_argument("--count", type=int, default=300, help="how many random calls (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="of every contestant (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=LEAST_ROUNDS, help="in each of two runs (default: %(default)s)")
    parser.add_argument("--block", type=float, default=0.005, help="seconds of each turn (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=Path(output), help="OUTPUT.json and OUTPUT.svg are written")
    return parser


def written(results: dict[str, Any], path: Path) -> None:
    """One call a line."""
    head = json.dumps({key: value for key, value in results.items() if key != "calls"})[:-1]
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(call)}" for name, call in results["calls"].items())
    path.with_suffix(".json").write_text(f'{head}, "calls": {{\n{lines}\n}}}}\n')


def scatter(points: dict[str, list[tuple[float, float]]], path: Path, title: str, ratio: str) -> None:
    """A point for each call: our time and the ratio, by the names of kinds. Below the line we are slower."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no chart: pip install matplotlib", file=sys.stderr)
        return
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot(xscale="log", yscale="log", xlabel="cunpool's time, microseconds", ylabel=ratio)
    axes.axhspan(0.01, 1, color="#e8730c", alpha=0.12)
    for mark, (name, found) in zip("o^s*vD" * 9, points.items(), strict=False):
        if found:
            label = f"{name}: {bench.geometric_mean(y for _, y in found):.2f}"
            axes.plot(*zip(*found, strict=True), mark, ms=4, alpha=0.7, label=label)
    every = [y for found in points.values() for _, y in found] or [1]
    axes.set_ylim(min(0.8 * min(every), 0.7), 1.3 * max(*every, 1.2))
    axes.axhline(1, color="black", lw=1)
    axes.legend(title="geometric mean")
    axes.set_title(title, fontsize=10)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    print(f"wrote {path.with_suffix('.json')} and {path.with_suffix('.svg')}")
