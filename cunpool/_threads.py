"""Choose the number of threads for a call."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Lock, local

from cunpool import _cgroups, _warn
from cunpool._geometry import integer
from cunpool._omp_wait import briefly
from cunpool._remedies import shown

with briefly():  # before any other module loads OpenMP's library
    from cunpool._kernels import runtime as _runtime

# A thread pays from this many bytes of work on (speed), if the team still waits awake for its next region.
GRAIN = 1 << 17
# A team that sleeps has to be woken. Then each thread must have this many times as much work, unless calls come in a
# row.
SLEEPING_GRAINS = 16
AWAKE_SECONDS = 40e-6  # after a region, the team waits awake for about this long
CALLS_IN_A_ROW = 4  # this many calls, less than AWAKE_SECONDS apart, are worth waking the team for

# If others hold the processors, a parallel region can take longer than one thread would have taken. Calls then use
# one thread for REPAID times the time lost. If the next region loses too, that factor doubles, at most MAX_DOUBLINGS
# times, until all has gone well for GOOD_SECONDS. So busy processors cost about 1 % in the end, and a single delay
# costs little.
REPAID = 4
MAX_DOUBLINGS = 5
GOOD_SECONDS = 1.0
# Losses below this are ignored: waking a team takes longer than a small call, and the next calls make up for it.
TOLERATED_SECONDS = 1e-3
# Time that regions gained before counts against losses, up to this much.
REMEMBERED_SECONDS = 10e-3
# The longest time with one thread. A region that lost more waited for a disk, or its process was stopped.
MAX_ALONE_SECONDS = 10.0

# No call starts more threads than this, whatever it is asked for. The kernels have room for 256 (correctness).
MOST = min(256, max(8, 2 * (os.cpu_count() or 1)))

_limit: int | None = None
# When calls may use several threads again, by the clock of `_runtime.surroundings`, and the number of losses in a row.
# Two threads may set these at once; either value serves.
_alone_until = 0.0
_losses = 0

# Why the calling thread's last call used its number of threads.
_own = local()
LITTLE = "less than 256 KiB of work"
BYTES_AWAKE = "one for each 128 KiB of work: OpenMP's threads are awake"
BYTES_ASLEEP = "one for each 2 MiB of work: OpenMP's threads are asleep"

# Each warning is given once for a process: its lock is taken and never released.
_said_fork = Lock()
_said_serial = Lock()

FORKED = (
    "this process was forked after cunpool had been imported, so its calls use one thread: OpenMP's threads do not "
    "survive a fork. Import cunpool after the fork, or start workers by 'spawn' or 'forkserver'"
)
SERIAL = "cunpool was built without OpenMP, so its calls use one thread: 'cunpool info' tells of the build"


def _positive(name: str, value: object) -> int:
    threads = integer(name, value)
    if threads < 1:
        raise ValueError(f"{name} must be at least 1, got {shown(threads)}")
    # OpenMP ends the process if the system cannot start a thread, so the number is limited here.
    return min(threads, MOST)


def _available() -> int:
    """The threads that OpenMP, processor affinity and the container allow now. They can change between calls."""
    return min(_runtime.available(MOST), _cgroups.processors() or MOST)


def set_num_threads(n: int | None) -> None:
    """Set the largest number of threads that a call may use, in the whole process.

    Parameters
    ----------
    n : int or None
        At least 1. Calls use at most 256 threads, and at most twice the number of processors (or 8, if that is more).
        With None each call takes at most what OpenMP (``OMP_NUM_THREADS``, threadpoolctl), processor affinity
        (taskset) and the container's CPU limit (control groups, rounded up) allow at that time.

    Raises
    ------
    TypeError, ValueError
        If `n` is not an integer, or less than 1.

    Notes
    -----
    A call with `num_threads` uses that number, but no more threads than it has tasks. A call without it uses the number
    that is likely to be fastest:

    - Each thread needs 128 KiB of data if the threads are awake after a recent call, and otherwise 2 MiB. Waking them
      takes tens of microseconds. Unpooling counts the bytes of its output, and pooling counts its input twice.
    - Python threads that are in calls at the same time share the processors.
    - After a parallel call that was slower than one thread would have been, calls use one thread for four times the
      time lost. If the next parallel call loses too, it is eight times, and so on, but at most ten seconds. This is how
      cunpool notices other processes, and other libraries' threads.

    OpenMP's own number of threads is read and never changed. When the import of cunpool loads OpenMP's library, its
    threads are set to wait awake for tens of microseconds after a call, unless ``GOMP_SPINCOUNT`` or
    ``OMP_WAIT_POLICY`` is set.

    OpenMP's threads do not survive a fork. In a process that was forked after the import of cunpool, every call uses
    one thread. A server that imports the application before it forks workers (gunicorn's ``--preload``) should import
    cunpool, and anything else that uses OpenMP, in the workers.

    Examples
    --------
    >>> import cunpool as cu
    >>> cu.set_num_threads(1)
    >>> cu.get_num_threads()
    1
    >>> cu.set_num_threads(None)
    """
    global _limit
    limit = None if n is None else _positive("n", n)
    if limit is not None and limit > 1 and _runtime.forked():
        _say_once(_said_fork, FORKED)
    _limit = limit


def get_num_threads() -> int:
    """Return the largest number of threads that a call without `num_threads` would use now.

    Returns
    -------
    int
        The number given to `set_num_threads`, or else what OpenMP, processor affinity and the container allow. It is 1
        in a serial build and in a forked child.

    Examples
    --------
    >>> import cunpool as cu
    >>> cu.get_num_threads() >= 1
    True
    """
    return (_limit or _available()) if openmp_enabled() and not _runtime.forked() else 1


def openmp_enabled() -> bool:
    """Return whether this build of cunpool has OpenMP. Without it every call is serial.

    Examples
    --------
    >>> import cunpool as cu
    >>> cu.openmp_enabled() in (True, False)
    True
    """
    return bool(_runtime.OPENMP_VERSION)


class Ceiling(int):
    """The largest number of threads that a call may choose; front ends pass it as `num_threads`."""


def threads_for(work: int, num_threads: int | None) -> int:
    """The number of threads for `work` bytes: the caller's `num_threads`, or if that is None the call's choice."""
    exact = None if num_threads is None or type(num_threads) is Ceiling else _positive("num_threads", num_threads)
    if work < 2 * GRAIN:  # a second thread would not pay, but is used if it was asked for
        return exact if exact and openmp_enabled() and not _runtime.forked() else 1
    if (num_threads or _limit) == 1:  # without asking the runtime, which takes tenths of a microsecond
        return _because("num_threads" if num_threads else "set_num_threads", 1)
    if not openmp_enabled():
        if (exact or _limit or 1) > 1:
            _say_once(_said_serial, SERIAL)
        return _because("this build of cunpool has no OpenMP", 1)
    if _runtime.forked():
        if exact and exact > 1:
            _say_once(_said_fork, FORKED)
        return _because("the process was forked after the import of cunpool", 1)
    if exact:
        return _because("num_threads", exact)
    others, in_a_row, resting, lost, now = _runtime.surroundings(AWAKE_SECONDS, TOLERATED_SECONDS, REMEMBERED_SECONDS)
    paying = _paying(work, in_a_row, resting, lost, now)
    if paying == 1:
        return 1
    most = (num_threads or _limit or _available()) // (others + 1)
    if paying < most:
        return paying
    limit = "num_threads" if num_threads else "set_num_threads" if _limit else "OpenMP, affinity and container"
    return _because(f"{limit}, shared with {others} other calls" if others else limit, most or 1)


def _paying(work: int, in_a_row: int, resting: float, lost: float, now: float) -> int:
    """The number of threads that would pay if there were processors for them. See `_runtime.surroundings`."""
    global _alone_until, _losses
    if lost > 0:
        _losses = _losses if now < _alone_until + GOOD_SECONDS else 0
        alone = min((REPAID << min(_losses, MAX_DOUBLINGS)) * lost, MAX_ALONE_SECONDS)
        _alone_until = max(_alone_until, now - resting + alone)
        _losses += 1
    if _alone_until > now + MAX_ALONE_SECONDS:  # the clock was set back; LLVM's OpenMP has one that allows it
        _alone_until = now
    if now < _alone_until:
        return _because("processors were taken: calls use one thread for a while", 1)
    is_awake = resting < AWAKE_SECONDS or in_a_row >= CALLS_IN_A_ROW
    threads = work // (GRAIN if is_awake else SLEEPING_GRAINS * GRAIN)
    threads = 1 if threads < 1 else threads if threads < MOST else MOST  # `min` and `max` would double the time
    return _because(BYTES_AWAKE if is_awake else BYTES_ASLEEP, threads)


def _because(cause: str, threads: int) -> int:
    """Return `threads` and remember the cause for `explain`."""
    _own.cause = cause
    return threads


def cause_of(function: Callable[[], object]) -> str:
    """Run `function`, which makes one call of the package, and return the cause of its number of threads."""
    _own.cause = LITTLE
    function()
    return str(_own.cause)


def _say_once(said: Lock, message: str) -> None:
    if said.acquire(blocking=False):
        _warn.warn(message)
