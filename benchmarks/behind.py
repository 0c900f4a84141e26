"""Where the time goes in each cell in which somebody is ahead: ``python benchmarks/behind.py > benchmarks/BEHIND.md``.

Of `results.json`, or the file that is named, every cell in which a contestant's ratio to cunpool is below 1 beyond the
quartiles, worst first, and beside it cunpool's own time there as `perf` divides it, called by one thread for a second
each. It takes Linux, `perf`, and a build whose functions have names: a source folder that was built in place, on
PYTHONPATH. Nothing else may run meanwhile. What belongs to Python and NumPy is one share, the start of the process
with it, and so is Linux, which gives the pages of large results.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from cells import cells, data
from contestants import CONTESTANTS
from report import PEERS, our_median, ratio, threads_of

SECONDS = 1
LEAST = 5  # per cent, of a share that is told
OURS = re.compile(r"_(pool|unpool|gather|memory|runtime)\.")  # a module of the kernels
SHARED = {"libc": "copying and clearing (libc)", "[kernel": "Linux"}


def run(name: str) -> None:
    """Call a cell for a while."""
    cell = next(cell for cell in cells() if cell.name == name)
    call = CONTESTANTS["cunpool"](1)(cell, data(cell))
    assert call is not None
    call()
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        call()


def shares(name: str) -> list[tuple[str, float]]:
    """Per cent of a cell's time by function of the kernels, and by what else there is; largest first."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/perf"
        command = "perf", "record", "-q", "-e", "cpu-clock", "-F", "5000", "-o", path, sys.executable, __file__, name
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        fields = "overhead,dso,symbol"
        command = "perf", "report", "-q", "-i", path, "--stdio", "-F", fields, "--comm", Path(sys.executable).name
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = {}
    for line in text.splitlines():
        if match := re.match(r"\s*([\d.]+)%\s+(\S+)\s+\[.\] (\S+)", line):
            share, library, symbol = match.groups()
            title = next((said for start, said in SHARED.items() if library.startswith(start)), "Python and NumPy")
            if OURS.search(library):
                title = f"`{plainly(symbol)}`"
            found[title] = found.get(title, 0) + float(share)
    return sorted(found.items(), key=lambda entry: -entry[1])


def plainly(symbol: str) -> str:
    """A function's name in the sources: without what Cython puts before it, and compilers behind."""
    symbol = re.sub(r"^(__pyx_fuse_\d+)+(_\d+)*", "", symbol).split(".")[0]
    if match := re.match(r"__pyx_p?[fw]_7cunpool_(\d+)", symbol):  # so many letters of the module follow
        symbol = symbol[match.end() + int(match[1]) + 1 :]
    return symbol.removeprefix("cunpool_")


def behind(results: dict[str, Any]) -> list[tuple[float, str, int, dict[str, Any]]]:
    """Who is ahead, at how many threads, and in which cell; inside PyTorch apart, for that is more than our kernels."""
    found = []
    for cell in results["cells"]:
        for name, title in PEERS.items():
            for threads in threads_of(results):
                value = ratio(cell, name, threads)
                if value and value[2] < 1 and not cell["inside"]:
                    found.append((value[0], title, threads, cell))
    return sorted(found, key=lambda entry: entry[:3])


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("results.json")
    by_cell: dict[str, list[Any]] = {}
    for entry in behind(json.loads(path.read_text())):
        by_cell.setdefault(entry[3]["name"], []).append(entry)
    print("| cell | cunpool, 1 thread | who takes so much of its time (threads) | per cent of it |\n|---|---|---|---|")
    for name, entries in by_cell.items():
        print(f"cell {name}", file=sys.stderr)
        ahead = "; ".join(f"{title} {value:.2f} ({threads})" for value, title, threads, _ in entries)
        told = ", ".join(f"{title} {share:.0f}" for title, share in shares(name) if share >= LEAST)
        print(f"| {name} | {1e6 * our_median(entries[0][3], 1):.1f} us | {ahead} | {told} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not Path(sys.argv[1]).exists():
        run(sys.argv[1])
    else:
        main()
