"""cunpool beside its peers: ``python benchmarks/compare.py``.

Each contestant that is installed runs in a process of its own, so that no two OpenMP runtimes share one, and is stopped
while another has its turn, so that nobody's idle threads spin at another's cost. Round after round each one times a
short block of calls, in an order that changes. What is reported is the median of the rounds' ratios to cunpool at the
same number of threads, with their quartiles. Times of a shared machine move; ratios within a round move less.

``--against PYTHON`` adds another build of cunpool, the one that this interpreter imports: a change before and after.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any

import numpy as np
import report
from cells import Cell, cells, data
from contestants import CONTESTANTS

Key = tuple[str, int]


class Contestant:
    """A process, stopped except in its turns."""

    def __init__(self, name: str, threads: int, python: str = sys.executable, title: str = "") -> None:
        self.key = title or name, threads
        with Listener() as listener:
            command = [
                python,
                str(Path(__file__).with_name("contestants.py")),
                name,
                str(threads),
                str(listener.address),
            ]
            self.process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
            self.connection = listener.accept()
        self.status = self.connection.recv()
        if self.status == "ready":
            self.signal("SIGSTOP")
        else:
            self.process.wait()

    def signal(self, name: str) -> None:
        if hasattr(signal, name):
            os.kill(self.process.pid, getattr(signal, name))

    def ask(self, order: Any) -> Any:
        self.signal("SIGCONT")
        self.connection.send(order)
        answer = self.connection.recv()
        self.signal("SIGSTOP")
        return answer

    def end(self) -> None:
        self.process.kill()  # a stopped process would not hear anything milder
        self.process.wait()


def measure(cell: Cell, contestants: list[Contestant], rounds: int, block: float) -> dict[str, Any]:
    """Every contestant's time in every round."""
    with tempfile.TemporaryDirectory() as folder:
        for name, array in data(cell).items():
            np.save(Path(folder, name), array)
        answers = {c.key: c.ask((cell, folder, block)) for c in contestants}
    taking_part = [c for c in contestants if answers[c.key][0]]
    checksums = {answer for takes_part, answer in answers.values() if takes_part and answer is not None}
    if len(checksums) != 1:
        raise SystemExit(f"{cell.name}: the answers differ: {answers}")
    times: dict[Key, list[float]] = {c.key: [] for c in taking_part}
    for _ in range(rounds):
        for contestant in random.sample(taking_part, len(taking_part)):
            times[contestant.key].append(contestant.ask("time"))
    return {**cell.asdict(), "plain": cell.plain, "times": {f"{name} {n}": t for (name, n), t in times.items()}}


def machine() -> dict[str, str]:
    model = platform.processor()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), model)
    return {"processor": model, "cores": str(os.cpu_count()), "system": platform.platform(terse=True)}


def versions() -> dict[str, str]:
    from importlib import metadata

    found = {}
    for name in ("cunpool", "numpy", "torch", "onnxruntime", "paddlepaddle"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="measure the cells whose name has this in it")
    parser.add_argument("--against", metavar="PYTHON", help="a Python that imports another build of cunpool")
    parser.add_argument("--without", nargs="*", default=[], choices=list(CONTESTANTS), help="leave these out")
    parser.add_argument(
        "--threads", nargs="*", type=int, default=[1, 2], help="measure with each of these numbers (default: 1 2)"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=11,
        help="turns of each contestant in each cell; the median of their ratios counts (default: %(default)s)",
    )
    parser.add_argument("--block", type=float, default=0.02, help="seconds of calls for each turn")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("benchmark"),
        help="write OUTPUT.json and charts, OUTPUT-light.svg and so on",
    )
    parser.add_argument("--draw", type=Path, help="measure nothing: report what this JSON file holds")
    options = parser.parse_args()
    if options.draw:
        results = json.loads(options.draw.read_text())
    else:
        results = run(options)
        options.output.with_suffix(".json").write_text(report.dumped(results))
    report.table(results)
    report.summary(results)
    report.chart(results, options.output)


def run(options: argparse.Namespace) -> dict[str, Any]:
    contestants: list[Contestant] = []
    try:
        for name in CONTESTANTS:
            for threads in options.threads:
                if name not in options.without:
                    contestant = Contestant(name, threads)
                    if contestant.status != "ready":
                        print(f"{name} is left out: {contestant.status}")
                        break
                    contestants.append(contestant)
        for threads in options.threads if options.against else []:
            contestants.append(Contestant("cunpool", threads, options.against, "other"))
            if contestants[-1].status != "ready":
                raise SystemExit(f"{options.against}: {contestants[-1].status}")
        results = {"machine": machine(), "versions": versions(), "rounds": options.rounds, "cells": []}
        chosen = [cell for cell in cells() if options.only in cell.name]
        for count, cell in enumerate(chosen, 1):
            print(f"{count}/{len(chosen)} {cell.name}", flush=True)
            results["cells"].append(measure(cell, contestants, options.rounds, options.block))
    finally:
        for contestant in contestants:
            contestant.end()
    return results


if __name__ == "__main__":
    main()
