"""Where the time of a call goes, by `perf`: what `behind.py` and `cliffs.py` tell.

It takes Linux, `perf`, and a build whose functions have names: a source folder that was built in place, on PYTHONPATH.
What belongs to Python, NumPy and PyTorch is one share, the start of the process with it, and so is Linux, which gives
the pages of large results.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SECONDS = 0.6
LEAST = 5  # per cent, of a share that is told
OURS = re.compile(r"_(pool|unpool|gather|memory|runtime)\.")  # a module of the kernels
OTHERS = "Python, NumPy, PyTorch"
SHARED = {"libc": "copying and clearing (libc)", "[kernel": "Linux"}


def keep_calling(call: Callable[[], Any]) -> None:
    """For a while, as a process does whose time is divided."""
    call()
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        call()


def shares(*command: str) -> list[tuple[str, float]]:
    """Per cent of the time of a Python script, by function of the kernels and by what else there is; largest first."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/perf"
        record = "perf", "record", "-q", "-e", "cpu-clock", "-F", "5000", "-o", path, sys.executable, *command
        subprocess.run(record, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        report = "perf", "report", "-q", "-i", path, "--stdio", "-F", "overhead,dso,symbol"
        report = *report, "--comm", Path(sys.executable).name
        text = subprocess.run(report, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = {}
    for line in text.splitlines():
        if match := re.match(r"\s*([\d.]+)%\s+(\S+)\s+\[.\] (\S+)", line):
            share, library, symbol = match.groups()
            title = next((said for start, said in SHARED.items() if library.startswith(start)), OTHERS)
            if OURS.search(library):
                title = f"`{plainly(symbol)}`"
            found[title] = found.get(title, 0) + float(share)
    return sorted(found.items(), key=lambda entry: -entry[1])


def told(*command: str) -> str:
    """Those that are worth telling, in a line."""
    return ", ".join(f"{title} {share:.0f}" for title, share in shares(*command) if share >= LEAST)


def plainly(symbol: str) -> str:
    """A function's name in the sources: without what Cython puts before it, and compilers behind."""
    symbol = re.sub(r"^(__pyx_fuse_\d+)+(_\d+)*", "", symbol).split(".")[0]
    if match := re.match(r"__pyx_p?[fw]_7cunpool_(\d+)", symbol):  # so many letters of the module follow
        symbol = symbol[match.end() + int(match[1]) + 1 :]
    return symbol.removeprefix("cunpool_")
