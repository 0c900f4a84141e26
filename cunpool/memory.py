"""How much memory of dropped results is kept for the next ones."""

from __future__ import annotations

import os

from cunpool import _memory
from cunpool._geometry import integer

# An eighth of the machine, and no more than 512 MiB: enough for the results of a large network's layers.
DEFAULT_LIMIT = 1 << 29
if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
    DEFAULT_LIMIT = min(DEFAULT_LIMIT, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8)

_memory.set_limit(DEFAULT_LIMIT)


def set_cache_limit(nbytes: int) -> None:
    """Set how many bytes of dropped results' memory are kept for the next results.

    Parameters
    ----------
    nbytes : int
        In bytes, for the whole process; 0 turns recycling off. By default 512 MiB, or an eighth of the machine's memory
        where that is less. What is kept beyond `nbytes` goes back to the system at once.

    Raises
    ------
    TypeError, ValueError
        If `nbytes` is not an integer, or negative.

    Notes
    -----
    Results of a megabyte and more lie in memory that is handed on once NumPy has freed it, which it does when neither
    the array nor any view of it is left. The system has to find and zero every page of new memory, and that takes
    longer than unpooling does. The arrays are ordinary ones that own their data (NEP 49).

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
        raise ValueError(f"nbytes must be at least 0, got {size}")
    _memory.set_limit(size)


def get_cache_limit() -> int:
    """Return how many bytes of dropped results' memory are kept at most.

    Examples
    --------
    >>> import cunpool as cu
    >>> cu.get_cache_limit() > 0
    True
    """
    return int(_memory.get_limit())


def empty_cache() -> None:
    """Give all memory that is kept for results back to the system.

    Examples
    --------
    >>> import cunpool as cu
    >>> cu.empty_cache()
    """
    _memory.release()
