"""Memory that is kept for later calls: of results that were freed, and scratch memory.

NumPy keeps allocation hooks for each context (``contextvars``), hence for each thread and each asyncio task. cunpool
sets its own hooks only while it allocates a large result, in the caller's context, and then restores those before. So
no other array gets recycled memory, and hooks that a user has set serve all other arrays. Each array remembers its
allocator, so any thread may free it. The kept memory, its limit and its counts are shared by the whole process, under a
lock of their own, not the GIL.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from threading import RLock
from typing import NamedTuple

from cunpool import _cgroups
from cunpool._geometry import integer
from cunpool._kernels import memory as _memory
from cunpool._remedies import shown

__all__ = ["CacheInfo", "cache_info", "empty_cache", "get_cache_limit", "set_cache_limit"]

# The default limit: 256 MiB, enough for the results of a large network's layers, or 1/16 of a smaller memory (speed).
MOST = 1 << 28
SHARE = 16
TEXT_SHOWN = 60  # the warning repeats this many characters of a wrong limit
UNITS = {"": 0, "K": 10, "M": 20, "G": 30}

_offers = False  # whether the system may take the pages of kept memory
_is_limit_by_user = False
_setting = RLock()  # held while the limit is set; a signal handler may set it meanwhile


def _after_fork() -> None:
    """Release all locks: their holders do not exist in the child."""
    global _setting
    _setting = RLock()
    _memory.reset_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class CacheInfo(NamedTuple):
    """The result of `cache_info`."""

    kept: int
    limit: int
    hits: int
    misses: int


def _memories() -> list[int]:
    """The limits on memory, in bytes: of the machine, of the container, and of the process's addresses."""
    sizes = []
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    container = _cgroups.memory()
    if container is not None:
        sizes.append(container)
    if hasattr(os, "fork"):  # where the module `resource` exists
        import resource

        addresses = resource.getrlimit(resource.RLIMIT_AS)[0]
        if addresses != resource.RLIM_INFINITY:
            sizes.append(addresses)
    return sizes


def _default() -> int:
    return min([MOST, *(size // SHARE for size in _memories())])


def _from_environment() -> int | None:
    """``CUNPOOL_CACHE_LIMIT`` in bytes, or None if it is not set or not a size."""
    text = os.environ.get("CUNPOOL_CACHE_LIMIT", "").strip()
    # A number of more than 19 digits exceeds `sys.maxsize`, and `int` refuses thousands of digits.
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


def _set_limit(nbytes: int, by_user: bool) -> None:
    global _is_limit_by_user
    with _setting:
        _is_limit_by_user = by_user
        _memory.configure(nbytes, _offers)


def lower_limit(nbytes: int) -> None:
    """Lower the limit to `nbytes`, unless a user has set it."""
    with _setting:
        if not _is_limit_by_user and nbytes < get_cache_limit():
            _memory.configure(nbytes, _offers)


def _start() -> None:
    """Set the limit for this process, once, at the import."""
    global _offers
    # The system ends a container that uses too much memory, so there it may take kept memory back. That costs some
    # time.
    container = _cgroups.memory()
    _offers = container is not None and container <= min(_memories())
    chosen = _from_environment()
    _set_limit(_default() if chosen is None else chosen, chosen is not None)


_start()


def set_cache_limit(nbytes: int) -> None:
    """Set how many bytes of memory are kept for later calls: memory of freed results, and scratch memory.

    Parameters
    ----------
    nbytes : int
        Bytes in the whole process. Kept memory beyond that is freed at once, and 0 turns recycling off. The default is
        256 MiB, but at most a sixteenth of the memory that the machine, the container (control groups) and ``ulimit
        -v`` allow when cunpool is imported. The environment variable ``CUNPOOL_CACHE_LIMIT`` sets another default: a
        number of bytes, or of units of 1024, 1024**2 or 1024**3 bytes with K, M or G behind it.

    Raises
    ------
    TypeError, ValueError
        If `nbytes` is not an integer, or negative.
    OverflowError
        If `nbytes` is more than ``sys.maxsize``.

    Notes
    -----
    The memory of a result of 64 KiB or more is kept when the array and all its views are gone. The next result of a
    similar size reuses it. Scratch memory is kept in the same way. New memory is slow: the system has to find and zero
    each page, which takes longer than unpooling does. The arrays are ordinary ones that own their data (NEP 49).

    A Dask worker with a process of its own lowers the limit to an eighth of its memory, unless this function or the
    environment variable has set it.

    Each process has its own limit, so eight workers can keep eight times as much. In a container with a memory limit,
    Linux may take back pages of large kept blocks when it runs short of memory.

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
    _set_limit(size, True)


def get_cache_limit() -> int:
    """Return the largest number of bytes that are kept for later calls in this process.

    Examples
    --------
    >>> import cunpool as cu
    >>> cu.get_cache_limit() > 0
    True
    """
    return cache_info().limit


def cache_info() -> CacheInfo:
    """Return how much memory is kept for later calls in this process, and how often it was reused.

    Returns
    -------
    CacheInfo
        A named tuple. `kept` is the number of bytes that are kept now, and `limit` the most that may be. Since the
        import of cunpool, `hits` blocks reused kept memory, and `misses` blocks needed new memory. A block is a result
        of 64 KiB or more, or a call's scratch memory. Memory in use is not counted as kept.

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
    """Free all memory that is kept for later calls.

    Examples
    --------
    >>> import cunpool as cu
    >>> cu.empty_cache()
    """
    _memory.shrink(0)
