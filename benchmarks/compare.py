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


def measure(cell: Cell, contestants: list[Any], options: argparse.Namespace) -> dict[str, Any]:
    """The cell, and every contestant's time in every round."""
    try:
        times = bench.measure(cell, data(cell), contestants, options.rounds, options.block, options.seconds)
    except bench.Refusal as error:  # the answers differ
        raise SystemExit(str(error)) from None
    return {**cell.asdict(), "plain": cell.plain, "times": times}


def machine() -> dict[str, str]:
    model = platform.processor()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), model)
    return {"processor": model, "cores": str(os.cpu_count()), "system": platform.platform(terse=True)}


def versions() -> dict[str, str]:
    from importlib import metadata

    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="measure the cells whose name or group has this in it")
    parser.add_argument("--seed", type=int, default=1, help="of the order in which contestants take turns")
    parser.add_argument("--without", nargs="*", default=[], choices=list(CONTESTANTS), help="leave these out")
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2], help="measure with each of these (1 2)")
    parser.add_argument("--rounds", type=int, default=11, help="turns of each contestant in each cell (%(default)s)")
    parser.add_argument("--block", type=float, default=0.02, help="seconds of calls for each turn (%(default)s)")
    parser.add_argument("--seconds", type=float, default=20, help="of a cell, in equal shares (%(default)s)")
    parser.add_argument(
        "--output", type=Path, default=Path("benchmark"), help="OUTPUT.json, OUTPUT.svg and OUTPUT-lanes.svg"
    )
    parser.add_argument("--draw", type=Path, help="measure nothing: report what this JSON file holds")
    options = parser.parse_args()
    random.seed(options.seed)
    if options.draw:
        results = json.loads(options.draw.read_text())
    else:
        results = run(options)
        options.output.with_suffix(".json").write_text(report.dumped(results))
    report.table(results)
    report.summary(results)
    report.chart(results, options.output)


def run(options: argparse.Namespace) -> dict[str, Any]:
    contestants: list[Any] = []
    try:
        for name in CONTESTANTS:
            for threads in options.threads:
                if name not in options.without:
                    one = bench.Contestant(name, threads, COMMAND)
                    if one.status != "ready":
                        print(f"{name} is left out: {one.status}")
                        break
                    contestants.append(one)
        results = {"machine": machine(), "versions": versions(), "rounds": options.rounds, "cells": []}
        tensors = any(one.name == "inside" for one in contestants)
        wanted = [cell for cell in cells() if options.only in cell.name or options.only in cell.group]
        chosen = [cell for cell in wanted if tensors or not cell.inside]
        for count, cell in enumerate(chosen, 1):
            print(f"{count}/{len(chosen)} {cell.name}", flush=True)
            results["cells"].append(measure(cell, contestants, options))
    finally:
        for one in contestants:
            one.end()
    return results


if __name__ == "__main__":
    main()
