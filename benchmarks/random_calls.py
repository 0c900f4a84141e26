"""Random calls beside the other libraries, or beside calls of our own that do as much: cliffs.

    python benchmarks/random_calls.py --seed 1 --count 300             # beside the installed libraries
    python benchmarks/random_calls.py --seed 1 --count 300 --cliffs    # beside our own neighbouring calls

In C order beside PyTorch, ONNX Runtime and PaddlePaddle, channels last beside oneDNN and XNNPACK: pooling with indices
(channels last: window codes), pooling for values, unpooling. The ratio is the best peer's time by ours. A peer is
ahead by the rule of two runs in README.md. A cliff is a call that takes more than 1.5 times as long as a
neighbour: the same call copied to C order first, in float32, at the next width that is a multiple of 64, with int64
indices for codes, or with indices for none.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import calls
import numpy as np
from cells import Cell, data
from contestants import CONTESTANTS, LAYOUTS
from report import PEERS
from shared import bench

Points = dict[str, list[tuple[float, float]]]  # microseconds and ratio
LIMIT = 1.5
DTYPES = "uint8", "int16", "float16", "float32", "float64"
PEER_NAMES = "torch", "onnxruntime", "paddle", "onednn", "xnnpack"
WORST = 5


def report(results: dict[str, Any]) -> Points:
    """Print means, who is ahead and the worst; the chart's points."""
    found = []
    for name, call in results["calls"].items():
        peers = {peer: runs for peer, runs in call["ratios"].items() if runs}
        if peers:
            best = min(peers, key=lambda peer: calls.middle(peers[peer]))
            found.append((calls.middle(peers[best]), name, PEERS[best], calls.is_ahead(peers[best]), call))
    print(f"\n{'':40}{'calls':>6}{'best peer by ours, mean':>25}{'ahead of us':>13}")
    small = calls.SMALL * 1e6
    groups: dict[str, list[Any]] = {}
    for entry in found:
        call = entry[-1]
        apart = f", below {small:.0f} us" if statistics.median(call["us"]) < small else ""
        groups.setdefault(f"{call['group']}, {call['op']}{apart}", []).append(entry)
    for title, entries in sorted(groups.items()):
        ahead = sum(entry[3] for entry in entries)
        print(f"{title:<40}{len(entries):>6}{bench.geometric_mean(e[0] for e in entries):>25.2f}{ahead:>13}")
    large = [entry for entry in found if statistics.median(entry[-1]["us"]) >= small]
    mean = bench.geometric_mean(entry[0] for entry in large)
    print(f"{f'all of {small:.0f} us and more':<40}{len(large):>6}{mean:>25.2f}{sum(e[3] for e in large):>13}")
    print("\nthe worst, * by the rule of two runs")
    for value, name, peer, ahead, call in sorted(found, key=lambda entry: entry[0])[:WORST]:
        print(f"{'*' if ahead else ' '} {value:.2f} {peer:<14}{statistics.median(call['us']):9.1f} us  {name}")
    return {title: [(statistics.median(e[-1]["us"]), e[0]) for e in entries] for title, entries in groups.items()}


def cliff_cell(rng: np.random.Generator) -> Cell:
    """A call of any operation, dtype and order in memory."""
    cell = calls.drawn(rng, int(rng.choice([1, 2, 2, 2, 3])), calls.KINDS, DTYPES, {})
    gradient = rng.random() < 0.35 and cell.index != "none"
    op = f"{cell.op} gradient" if gradient else cell.op
    if op == "pool gradient" and cell.dtype in ("uint8", "int16"):  # they are added, in floats alone
        cell = replace(cell, dtype="float32")
    formats = {"format": "window"} if cell.index != "none" and rng.random() < 0.4 else {}
    return replace(cell, op=op, layout=str(rng.choice([*LAYOUTS, "contiguous"])), **formats)


def neighbours(cell: Cell) -> Iterator[tuple[str, Cell, bool]]:
    """Calls that do as much or more, and whether the arguments are copied to C order first."""
    if cell.layout != "contiguous":
        yield "copied to C order first", cell, True
    if cell.item < 4:
        yield "as float32", replace(cell, dtype="float32"), False
    wider = -(-cell.full[-1] // 64) * 64
    if cell.full[-1] < wider <= 2 * cell.full[-1]:
        yield "the width a multiple of 64", replace(cell, full=(*cell.full[:-1], wider)), False
    if cell.format == "window":
        yield "int64 for codes", replace(cell, format="plane"), False
    if cell.index == "none":
        yield "with indices", replace(cell, index="int64"), False


def ready(cell: Cell, threads: int, copied: bool) -> Callable[[], Any]:
    """The call, in this process; `copied` copies its arrays to C order each time."""
    arrays = data(cell)
    call = CONTESTANTS["cunpool"](threads)(replace(cell, layout="contiguous") if copied else cell, arrays)
    names = ["x"] + ["codes" if cell.format == "window" else "indices"] * (cell.op != "pool")
    given = [LAYOUTS[cell.layout](arrays[name]) for name in names]
    assert call is not None
    return (lambda: [*map(np.ascontiguousarray, given), call()]) if copied else call


def ratios(cell: Cell, beside: list[tuple[str, Cell, bool]], threads: int, rounds: int, block: float) -> list[Any]:
    """Ours in microseconds, and the quartiles of its time by each neighbour's."""
    ready_calls = [ready(cell, threads, False), *(ready(other, threads, copied) for _, other, copied in beside)]
    for call in ready_calls:
        call()
    repeats = [max(1, int(block / max(bench.timed(call, 1), 1e-7))) for call in ready_calls]
    times = [[bench.timed(c, r) for c, r in zip(ready_calls, repeats, strict=True)] for _ in range(rounds)]
    ours, *others = zip(*times, strict=True)
    return [1e6 * statistics.median(ours), *(calls.quartiles(list(ours), list(other)) for other in others)]


def cliffs(options: Any) -> dict[str, Any]:
    """Every call with the quartiles of its time by each neighbour's; those above the limit are measured twice."""
    found: dict[str, Any] = {}
    for cell in calls.some(options.seed, options.count, (cliff_cell,)):
        beside = list(neighbours(cell))
        if not beside:
            continue
        us, *first = ratios(cell, beside, options.threads, 5, options.block)
        runs = {name: [quartiles] for (name, *_), quartiles in zip(beside, first, strict=True)}
        suspects = [entry for entry in beside if runs[entry[0]][0][1] > LIMIT]
        if suspects:  # once more, at greater length: a call that was held up is not slow
            _, *again = ratios(cell, suspects, options.threads, options.rounds, 2 * options.block)
            for (name, *_), quartiles in zip(suspects, again, strict=True):
                runs[name].append(quartiles)
        found[cell.name] = {"op": cell.op, "us": [float(f"{us:.4g}")], "ratios": runs}
        print(f"{len(found)}/{options.count} {cell.name}", file=sys.stderr, flush=True)
    return {"seed": options.seed, "threads": options.threads, "calls": found}


def least(runs: list[list[float]]) -> float:
    return min(median for _, median, _ in runs)


def report_cliffs(results: dict[str, Any]) -> None:
    every = results["calls"]
    high = sum(any(least(runs) > LIMIT for runs in call["ratios"].values()) for call in every.values())
    print(f"\n{len(every)} calls, {high} take more than {LIMIT} times as long as a neighbour")
    for kind in dict.fromkeys(kind for call in every.values() for kind in call["ratios"]):
        of_kind = sorted(((least(c["ratios"][kind]), n) for n, c in every.items() if kind in c["ratios"]), reverse=True)
        print(f"\n{kind}: {sum(value > LIMIT for value, _ in of_kind)} of {len(of_kind)}")
        for value, name in of_kind[:WORST]:
            print(f"  {value:.2f}  {name}")


def main() -> None:
    parser = calls.arguments(__doc__.splitlines()[0], "random-calls")
    parser.add_argument("--cliffs", action="store_true", help="beside our own neighbouring calls")
    options = parser.parse_args()
    if options.cliffs:
        results = cliffs(options)
        report_cliffs(results)
        chart: Points = {}
        for call in results["calls"].values():
            for kind, runs in call["ratios"].items():
                chart.setdefault(kind, []).append((call["us"][0], 1 / least(runs)))
    else:
        peers = {name: calls.started(name) for name in ("cunpool", *PEER_NAMES)}
        drawn = calls.some(options.seed, options.count, (calls.c_order, calls.channels_last))
        results = calls.measured(drawn, peers, options)
        chart = report(results)
    calls.written(results, options.output)
    title = f"{len(results['calls'])} random calls, seed {options.seed}, threads: {options.threads}"
    calls.scatter(chart, options.output, title, f"time of the {'neighbour' if options.cliffs else 'best peer'} by ours")


if __name__ == "__main__":
    main()
