"""Read the limits of control groups: how many processors and how much memory this process may use.

Containers and cluster schedulers set such limits. Versions 1 and 2 of control groups are read, and the tightest limit
of nested groups counts. The functions return None where there is no limit, or no control groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import ceil
from pathlib import Path, PurePosixPath

ROOT = Path("/")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _folders(controller: str) -> Iterator[Path]:
    """The folders of the process's groups for `controller`, outermost first. Some of them may not exist."""
    mounts = ROOT / "sys" / "fs" / "cgroup"
    for line in _read(ROOT / "proc" / "self" / "cgroup").splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if hierarchy == "0" and not controllers:  # version 2, alone or beside version 1
            mounted = [mounts, mounts / "unified"]
        elif controller in controllers.split(","):
            mounted = [mounts / controllers, mounts / controller]
        else:
            continue
        # A container may see the host's path although only its end is mounted. Missing folders are read as empty.
        parts = PurePosixPath(path).parts[1:]
        for mount in mounted:
            for depth in range(len(parts) + 1):
                yield mount.joinpath(*parts[:depth])


def _number(text: str) -> int | None:
    """The integer in `text`, or None for "max", -1 and anything else."""
    return int(text) if text.isascii() and text.isdigit() else None


@lru_cache(maxsize=1)
def processors() -> int | None:
    """The number of processors whose time the process may use, rounded up. It is read once, as it rarely changes."""
    limits = []
    for folder in _folders("cpu"):
        quota, _, period = _read(folder / "cpu.max").strip().partition(" ")
        if not quota:
            quota, period = (_read(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
        time, each = _number(quota), _number(period)
        if time and each:
            limits.append(ceil(time / each))
    return min(limits, default=None)


def memory() -> int | None:
    """The bytes of memory that the process's groups may use before the system ends it."""
    names = ("memory.max", "memory.limit_in_bytes")
    found = (_number(_read(folder / name).strip()) for folder in _folders("memory") for name in names)
    return min((size for size in found if size is not None), default=None)
