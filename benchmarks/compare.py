"""cunpool beside its peers: ``python benchmarks/compare.py``.

Every lane and size of what ``cunpool bench`` measures twelve cases of, by the same clock: round after round each
contestant that is installed times a short block of calls, in an order that changes. What is reported is the median of
the rounds' ratios to cunpool at the same number of threads, with their quartiles. Times of a shared machine move;
ratios within a round move less.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import report
from cells import Cell, cells, data
from contestants import CONTESTANTS
from shared import bench

PACKAGES = (
    "cunpool", "numpy", "torch", "onnxruntime", "paddlepaddle", "opencv-python-headless",
    "scipy", "bottleneck", "scikit-image", "numba", "onednn-cpu-gomp", "ai-edge-litert",
)  # fmt: skip


COMMAND = sys.executable, str(Path(__file__).with_name("contestants.py"))


@contextmanager
def running(wanted: Iterable[tuple[str, Callable[[], Any]]]) -> Iterator[list[Any]]:
    """The contestants that can be started, by a function for each title, until the end of a `with` block."""
    contestants: list[Any] = []
    try:
        for title, start in wanted:
            one = start()
            if one.status == "ready":
                contestants.append(one)
            else:
                print(f"{title} is left out: {one.status}", file=sys.stderr)
        yield contestants
    finally:
        for one in contestants:
            one.end()


def measure(cell: Cell, contestants: list[Any], *limits: float) -> dict[str, list[float]]:
    """Every contestant's time in every round, within the clock's limits. A `bench.Refusal` if the answers differ."""
    return bench.measure(cell, data(cell), contestants, *limits)


def machine() -> dict[str, str]:
    described = Path("/proc/cpuinfo")
    lines = described.read_text().splitlines() if described.exists() else []
    models = (line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    model = next(models, platform.processor())
    return {"processor": model, "cores": str(os.cpu_count()), "system": platform.platform(terse=True)}


def versions() -> dict[str, str]:
    from importlib import metadata

    found = {one.name.lower().replace("_", "-"): one.version for one in metadata.distributions() if one.name}
    return {name: found[name] for name in PACKAGES if name in found}


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options of a command line, of this process's own by default."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="measure the cells whose name or group has this in it")
    parser.add_argument("--seed", type=int, default=1, help="of the order in which contestants take turns")
    parser.add_argument("--without", nargs="*", default=[], choices=list(CONTESTANTS), help="leave these out")
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2], help="measure with each of these (1 2)")
    parser.add_argument("--rounds", type=int, default=11, help="turns of each contestant in each cell (%(default)s)")
    parser.add_argument("--block", type=float, default=0.02, help="seconds of calls for each turn (%(default)s)")
    parser.add_argument("--seconds", type=float, default=20, help="of a cell, in equal shares (%(default)s)")
    parser.add_argument("--output", type=Path, default=Path("benchmark"), help="of files .json, .svg and -lanes.svg")
    parser.add_argument("--draw", type=Path, help="measure nothing: report what this JSON file holds")
    return parser.parse_args(arguments)


def main() -> None:
    options = parsed()
    if options.draw:
        results = json.loads(options.draw.read_text())
    else:
        results = run(options)
        options.output.with_suffix(".json").write_text(report.dumped(results))
    report.table(results)
    report.summary(results)
    report.chart(results, options.output)


def run(options: argparse.Namespace) -> dict[str, Any]:
    random.seed(options.seed)
    results: dict[str, Any] = {"machine": machine(), "versions": versions(), "rounds": options.rounds, "cells": []}
    names = [name for name in CONTESTANTS if name not in options.without]
    wanted = [(name, partial(bench.Contestant, name, t, COMMAND)) for name in names for t in options.threads]
    with running(wanted) as contestants:
        tensors = any(one.name == "inside" for one in contestants)
        chosen = [cell for cell in cells() if options.only in cell.name or options.only in cell.group]
        chosen = [cell for cell in chosen if tensors or not cell.inside]
        for count, cell in enumerate(chosen, 1):
            print(f"{count}/{len(chosen)} {cell.name}", flush=True)
            try:
                times = measure(cell, contestants, options.rounds, options.block, options.seconds)
            except bench.Refusal as error:
                raise SystemExit(str(error)) from None
            results["cells"].append({**cell.asdict(), "plain": cell.plain, "times": times})
    return results


if __name__ == "__main__":
    main()
