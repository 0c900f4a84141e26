"""How much memory of dropped results, and of memory that calls worked in, is kept for the next ones.

NumPy keeps its allocation hooks per context (``contextvars``), that is for each thread and each task of asyncio by
itself. cunpool sets its own for the one call that makes a large result, in the caller's context, and puts back what
was there: no other array is made in recycled memory, by this thread or by another meanwhile, and whoever has set hooks
keeps them for all arrays but these results. Each array remembers whose memory it has, so that any thread may drop it.
What is kept, the limit and the counts are one for the whole process, behind a lock that is not the GIL.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from typing import NamedTuple

from cunpool import _cgroups
from cunpool._geometry import integer
from cunpool._kernels import memory as _memory
from cunpool._remedies import shown

__all__ = ["CacheInfo", "cache_info", "empty_cache", "get_cache_limit", "set_cache_limit"]

# Enough for the results of a large network's layers; where there is little memory, a sixteenth of it.
MOST = 1 << 28
SHARE = 16
TEXT_SHOWN = 60  # characters of a wrong limit that the warning repeats
UNITS = {"": 0, "K": 10, "M": 20, "G": 30}


class CacheInfo(NamedTuple):
    """What `cache_info` tells."""

    kept: int
    limit: int
    hits: int
    misses: int


def _memories() -> list[int]:
    """The sizes, in bytes, of what there is to take memory from: the machine, the container, the addresses."""
    sizes = []
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    container = _cgroups.memory()
    if container is not None:
        sizes.append(container)
    if hasattr(os, "fork"):  # where there is the module as well
        import resource

        addresses = resource.getrlimit(resource.RLIMIT_AS)[0]
        if addresses != resource.RLIM_INFINITY:
            sizes.append(addresses)
    return sizes


def _default() -> int:
    return min([MOST, *(size // SHARE for size in _memories())])


def _from_environment() -> int | None:
    """``CUNPOOL_CACHE_LIMIT``, in bytes; None where it is not set, or nonsense."""
    text = os.environ.get("CUNPOOL_CACHE_LIMIT", "").strip()
    # More than 19 digits are more than `sys.maxsize`, and more than some thousands are refused by `int`.
    found = re.fullmatch(r"0*([0-9]{1,19})\s*([KMG]?)(?:i?B)?", text, re.ASCII | re.IGNORECASE)
    if found and int(found[1]) << UNITS[found[2].upper()] <= sys.maxsize:
        return int(found[1]) << UNITS[found[2].upper()]
    if len(text) > TEXT_SHOWN:
        text = f"{text[:TEXT_SHOWN]}..."
    if text:
        warnings.warn(
            f"CUNPOOL_CACHE_LIMIT must be a number of bytes, such as 1000000, 64M or 1G, got {text!r}: "
            f"the default of {_default()} bytes holds",
            stacklevel=2,
        )
    return None


def _start() -> None:
    """What holds from the import on."""
    chosen = _from_environment()
    _memory.set_limit(_default() if chosen is None else chosen, chosen is not None)
    # A container that takes too much is killed, so there the system may have back what is kept. It is not free.
    container = _cgroups.memory()
    _memory.offer(container is not None and container <= min(_memories()))


_start()


def set_cache_limit(nbytes: int) -> None:
    """Set how many bytes of memory are kept, of dropped results and of what calls worked in, for the next calls.

    Parameters
    ----------
    nbytes : int
        In bytes, for the whole process; 0 turns recycling off. What is kept beyond `nbytes` goes back to the system at
        once. By default it is 256 MiB, or a sixteenth of the machine's memory, of the container's (control groups) or
        of the addresses that the process may use (``ulimit -v``), whichever is the least when cunpool is imported. The
        environment variable ``CUNPOOL_CACHE_LIMIT``, read at the same time, is another default: bytes, or with K, M or
        G, units of 1024, 1024**2 or 1024**3 of them.

    Raises
    ------
    TypeError, ValueError
        If `nbytes` is not an integer, or negative.
    OverflowError
        If `nbytes` is more than ``sys.maxsize``.

    Notes
    -----
    Results of 64 KiB and more lie in memory that is handed on once NumPy has freed it, which it does when neither the
    array nor any view of it is left. So does the memory that pooling works in, which no other call uses meanwhile. The
    system has to find and zero every page of new memory, and that takes longer than unpooling does. The arrays are
    ordinary ones that own their data (NEP 49).

    One of Dask's workers that has a process of its own lowers the limit to an eighth of its memory, unless this
    function or the environment variable has set it.

    Each process keeps its own: eight workers keep up to eight times as much. In a container with a limit on memory, the
    system may take the pages of large kept blocks back when it is short of memory, where it can (Linux).

    Examples
    --------
    >>> import cunpool as cu
    >>> before = cu.get_cache_limit()
    >>> cu.set_cache_limit(0)
    >>> cu.get_cache_limit()
    0
    >>> cu.set_cache_limit(before)
    """
    size = integer("nbytes", nbytes)
    if size < 0:
        raise ValueError(f"nbytes must be at least 0, got {shown(size)}")
    if size > sys.maxsize:
        raise OverflowError(f"nbytes must be at most sys.maxsize, {sys.maxsize}, got {shown(size)}")
    _memory.set_limit(size, True)


def get_cache_limit() -> int:
    """Return how many bytes of memory are kept at most for the next calls, in this process.

    Examples
    --------
    >>> import cunpool as cu
    >>> cu.get_cache_limit() > 0
    True
    """
    return cache_info().limit


def cache_info() -> CacheInfo:
    """Return how much memory is kept for the next calls in this process, and how often it was of use.

    Returns
    -------
    CacheInfo
        A named tuple: `kept` and `limit`, in bytes, now and at most; `hits` and `misses`, how often a result of 64 KiB
        and more, or a call that needs memory to work in, got memory that had been kept, and how often new memory, since
        cunpool was imported. What results and calls use at the moment is not kept, and not counted.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> before = cu.cache_info()
    >>> result = cu.max_pool2d(np.zeros((1, 2048, 2048), np.float32), 2)
    >>> now = cu.cache_info()
    >>> now.hits + now.misses - before.hits - before.misses
    1
    """
    return CacheInfo(*_memory.info())


def empty_cache() -> None:
    """Give all memory that is kept for the next calls back to the system.

    Examples
    --------
    >>> import cunpool as cu
    >>> cu.empty_cache()
    """
    _memory.release()
