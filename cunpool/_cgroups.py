"""What this process's control groups grant it: processors and memory, in containers and under schedulers of clusters.

Both generations of control groups are read, and of nested groups the tightest counts. Where there are none (other
systems, or no limit), nothing is granted and nothing refused: None.
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
    """The folders of the process's groups that may limit `controller`, from the root of what is mounted downwards."""
    mounts = ROOT / "sys" / "fs" / "cgroup"
    for line in _read(ROOT / "proc" / "self" / "cgroup").splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if hierarchy == "0" and not controllers:  # the second generation, by itself or beside the first
            mounted = [mounts, mounts / "unified"]
        elif controller in controllers.split(","):
            mounted = [mounts / controllers, mounts / controller]
        else:
            continue
        # In a container the path may be the host's, of which only the end is mounted: what is not there says nothing.
        parts = PurePosixPath(path).parts[1:]
        for mount in mounted:
            for depth in range(len(parts) + 1):
                yield mount.joinpath(*parts[:depth])


def _number(text: str) -> int | None:
    """The integer in `text`; "max", -1 and nonsense are none."""
    return int(text) if text.isascii() and text.isdigit() else None


@lru_cache(maxsize=1)
def processors() -> int | None:
    """How many processors' time the process gets, rounded up; asked once, for it rarely changes."""
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
    """How many bytes of memory the process's groups may take before the system kills it."""
    names = ("memory.max", "memory.limit_in_bytes")
    found = (_number(_read(folder / name).strip()) for folder in _folders("memory") for name in names)
    return min((size for size in found if size is not None), default=None)
