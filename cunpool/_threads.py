"""How many threads a call deserves, and what holds after a fork."""

from __future__ import annotations

import os

from cunpool import _runtime
from cunpool._geometry import integer

# Below this many bytes of work for each thread, waking it costs more than it saves.
GRAIN = 1 << 17

# More threads than this are never started, whatever is asked for; the kernels count on no more than 256.
MOST = min(256, max(8, 2 * (os.cpu_count() or 1)))

_limit: int | None = None
_forked = False


def _after_fork() -> None:
    # GNU OpenMP's worker threads do not survive a fork, and a child that waits for them waits for ever.
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _positive(name: str, value: object) -> int:
    threads = integer(name, value)
    if threads < 1:
        raise ValueError(f"{name} must be at least 1, got {threads}")
    # Where the system cannot start a thread, OpenMP ends the process, so nobody gets hundreds of them.
    return min(threads, MOST)


def _available() -> int:
    """What OpenMP and the processor affinity allow now: both can change between calls."""
    threads = _runtime.openmp_threads()
    if hasattr(os, "sched_getaffinity"):
        threads = min(threads, len(os.sched_getaffinity(0)))
    return threads


def set_num_threads(n: int | None) -> None:
    """Set how many threads a call may use, for the whole process.

    Parameters
    ----------
    n : int or None
        At least 1; more than twice the processors (or 8), or 256, are not given. None goes back to what OpenMP and the
        processor affinity allow at the time of each call (``OMP_NUM_THREADS``, threadpoolctl, taskset).

    Raises
    ------
    TypeError, ValueError
        If `n` is not an integer, or less than 1.

    Notes
    -----
    Other libraries' threads are left alone: OpenMP's own setting is read, never written.

    Examples
    --------
    >>> import cunpool as cu
    >>> cu.set_num_threads(1)
    >>> cu.get_num_threads()
    1
    >>> cu.set_num_threads(None)
    """
    global _limit
    _limit = None if n is None else _positive("n", n)


def get_num_threads() -> int:
    """Return the largest number of threads that a call would use now.

    Returns
    -------
    int
        What `set_num_threads` set, or else what OpenMP and the processor affinity allow. 1 in a serial build, and in a
        forked child, where GNU OpenMP cannot run.

    Examples
    --------
    >>> import cunpool as cu
    >>> cu.get_num_threads() >= 1
    True
    """
    return threads_for(1 << 62, None)


def openmp_enabled() -> bool:
    """Return whether this build of cunpool has OpenMP. Without it every call is serial.

    Examples
    --------
    >>> import cunpool as cu
    >>> cu.openmp_enabled() in (True, False)
    True
    """
    return bool(_runtime.openmp_version())


def threads_for(work: int, num_threads: int | None) -> int:
    """How many threads to use for `work` bytes where the caller wants `num_threads`."""
    if num_threads is not None:
        num_threads = _positive("num_threads", num_threads)
    if work < 2 * GRAIN or _forked or not openmp_enabled():
        return 1
    wanted = num_threads or _limit
    # A number asked for is given, even beyond the processors: OpenMP's own limit is what an unset number means.
    return min(wanted or _available(), work // GRAIN, MOST)
