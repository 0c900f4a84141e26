"""This build beside another one, in fixed cases or random calls.

    python benchmarks/against.py --against VENV --only widths     # the cases whose name or group has this
    python benchmarks/against.py --against VENV --count 100       # random calls

VENV is a virtual environment, or its Python, that has another build of cunpool. Both builds, and this one a second
time, are processes of their own that take turns, in two runs. This build is slower in a case if the upper quartile of
the ratio, the other's time by ours, is below 0.95 in both runs of at least 15 rounds.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import calls
from cells import cells
from shared import bench

TITLES = {"other": "the other build", "again": "this build beside itself"}


def report(results: dict[str, Any]) -> None:
    every = results["calls"]
    print(f"\n{'time by this build':<28}{'cases':>6}{'mean':>7}{'least':>7}{'slower':>8}{'faster':>8}")
    for name, title in TITLES.items():
        runs = [call["ratios"][name] for call in every.values() if name in call["ratios"]]
        middles = [calls.middle(one) for one in runs]
        slower = sum(map(calls.is_ahead, runs))
        faster = sum(len(one) == calls.RUNS and all(low > 1 / calls.SLOWER for low, _, _ in one) for one in runs)
        mean = bench.geometric_mean(middles)
        print(f"{title:<28}{len(runs):>6}{mean:>7.2f}{min(middles, default=1):>7.2f}{slower:>8}{faster:>8}")
    print("\nslower by the rule of two runs, the worst first")
    slow = [(calls.middle(c["ratios"]["other"]), n, c) for n, c in every.items() if "other" in c["ratios"]]
    for value, name, call in sorted(slow, key=lambda entry: entry[0]):
        if calls.is_ahead(call["ratios"]["other"]):
            again = calls.middle(call["ratios"]["again"])
            print(f"  {value:.2f} (itself {again:.2f}){statistics.median(call['us']):10.1f} us  {name}")


def main() -> None:
    parser = calls.arguments(__doc__.splitlines()[0], "against")
    parser.add_argument("--against", required=True, type=Path, metavar="VENV", help="the environment, or its Python")
    parser.add_argument("--only", help="fixed cases whose name or group has this, for random calls")
    options = parser.parse_args()
    if options.only is None:
        chosen = calls.some(options.seed, options.count, (calls.c_order, calls.channels_last))
    else:
        chosen = [c for c in cells() if not c.inside and (options.only in c.name or options.only in c.group)]
    names = {"cunpool": calls.started("cunpool"), "again": calls.started("cunpool", "again")}
    python = options.against / "bin" / "python" if options.against.is_dir() else options.against
    names["other"] = calls.started("cunpool", "other", str(python))
    results = calls.measured(chosen, names, options)
    report(results)
    calls.written(results, options.output)
    chart: dict[str, Any] = {}
    for call in results["calls"].values():
        for name, runs in call["ratios"].items():
            chart.setdefault(TITLES[name], []).append((statistics.median(call["us"]), calls.middle(runs)))
    title = f"{len(results['calls'])} cases, threads: {options.threads}"
    calls.scatter(chart, options.output, title, "the other build's time by ours")


if __name__ == "__main__":
    main()
