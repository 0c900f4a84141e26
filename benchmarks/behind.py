"""Where the time goes in each cell that falls short: ``python benchmarks/behind.py > benchmarks/BEHIND.md``.

Of `results.json`, or the file that is named: every cell in which a contestant's ratio to cunpool is below 1 beyond the
quartiles; and every one that falls short of an aim within cunpool, as `aims.py` has them. Beside each, cunpool's own
time there as `perf` divides it (`shares.py` says what that takes), called by one thread for a while. It takes PyTorch,
too. Nothing else may run meanwhile.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import aims
import shares
from cells import cells, data
from contestants import CONTESTANTS
from report import PEERS, our_median, ratio, threads_of

Short = list[tuple[float, str, aims.Entry]]  # how far, what is said of it, and the cell

MOST_BY_ORDER = 1.6  # times as long as in C order is what any other may take


def run(name: str) -> None:
    """Call a cell for a while."""
    cell = next(cell for cell in cells() if cell.name == name)
    call = CONTESTANTS["inside" if cell.inside else "cunpool"](1)(cell, data(cell))
    assert call is not None
    shares.keep_calling(call)


def behind(results: dict[str, Any]) -> Short:
    """Each cell in which another is ahead; the worst first."""
    found = []
    for cell in results["cells"]:
        for name, title in PEERS.items():
            for threads in threads_of(results):
                value = ratio(cell, name, threads)
                if value and value[2] < 1:
                    found.append((value[0], f"{title} {value[0]:.2f} ({threads})", cell))
    return sorted(found, key=lambda entry: entry[:2])


def short(results: dict[str, Any]) -> Short:
    """The same of each that falls short of an aim within cunpool: its ratio by what is aimed at."""
    found = []
    for threads in threads_of(results):
        for question in (aims.codes, aims.orders, aims.widths):
            for title, answers, least in question(results["cells"], threads):
                if title.startswith("int64 by codes, "):  # which come twice
                    continue
                for value, cell in answers:
                    by_aim = value / least if least else MOST_BY_ORDER / value
                    if by_aim < 1:
                        text = title if least else "time by C order's"
                        found.append((by_aim, f"{text} {value:.2f} ({threads})", cell))
    return sorted(found, key=lambda entry: entry[:2])


def table(found: Short, heading: str) -> None:
    by_cell: dict[str, list[Any]] = {}
    for entry in found:
        by_cell.setdefault(entry[2]["name"], []).append(entry)
    print(f"\n| cell | cunpool, 1 thread | {heading} | per cent of its time |\n|---|---|---|---|")
    for name, entries in by_cell.items():
        print(f"cell {name}", file=sys.stderr)
        said = "; ".join(text for _, text, _ in entries)
        time = 1e6 * our_median(entries[0][2], 1)
        print(f"| {name} | {time:.1f} us | {said} | {shares.told(__file__, name)} |", flush=True)


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("results.json")
    results = json.loads(path.read_text())
    table(behind(results), "who takes so much of its time (threads)")
    table(short(results), "what falls short (threads)")


if __name__ == "__main__":
    if len(sys.argv) > 1 and not Path(sys.argv[1]).exists():
        run(sys.argv[1])
    else:
        main()
