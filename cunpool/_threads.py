"""How many threads a call deserves, and what holds after a fork."""

from __future__ import annotations

import os
from threading import Lock

from cunpool import _cgroups, _warn
from cunpool._geometry import integer
from cunpool._omp_wait import briefly
from cunpool._remedies import shown

with briefly():  # before any other module brings OpenMP's library in
    from cunpool._kernels import runtime as _runtime

# Below this many bytes of work for each thread it costs more than it saves: of a team that waits awake, for it ended a
# region of this thread a moment ago; and how many times as many of one that sleeps and has to be woken, unless calls
# come in a row, so that it is woken once for many.
GRAIN = 1 << 17
ASLEEP = 16
AWAKE = 40e-6  # seconds, after a region, and between calls that are in a row
ROW = 4

# Regions that took longer than one thread would have, for others hold the processors, are paid for by calls with one
# thread for so many times the seconds that were lost, and for twice as many each time that what follows loses again
# before it has gone well for a while, so often at most: processors that stay taken cost a hundredth in the end, and a
# thread that is held up once next to nothing.
# Until that many seconds are lost nothing is done, for to wake a team takes longer than a small call, and those behind
# it gain that again; and so many that regions have gained before are counted against it.
REPAID = 4
DOUBLED = 5
WELL = 1.0
TOLERATED = 1e-3
REMEMBERED = 10e-3
LONGEST = 10.0  # seconds for one region: what loses more has waited for a disk, or the process was stopped

# More threads than this are never started, whatever is asked for; the kernels count on no more than 256.
MOST = min(256, max(8, 2 * (os.cpu_count() or 1)))

_limit: int | None = None
# By the clock of `_runtime.surroundings`, and how many losses have followed each other: of two threads that set these
# at once, either may win.
_alone_until = 0.0
_losses = 0

# What has been said once is a lock that stays locked: then no two threads say it.
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
    # Where the system cannot start a thread, OpenMP ends the process, so nobody gets hundreds of them.
    return min(threads, MOST)


def _available() -> int:
    """What OpenMP, the processor affinity and the container allow now: the first two can change between calls."""
    return min(_runtime.available(MOST), _cgroups.processors() or MOST)


def set_num_threads(n: int | None) -> None:
    """Set how many threads a call may use at most, for the whole process.

    Parameters
    ----------
    n : int or None
        At least 1; more than twice the processors (or 8), or 256, are not given. None goes back to what OpenMP and the
        processor affinity allow at the time of each call (``OMP_NUM_THREADS``, threadpoolctl, taskset), and no more
        than the processors that the container is given the time of (control groups' CPU limit, rounded up).

    Raises
    ------
    TypeError, ValueError
        If `n` is not an integer, or less than 1.

    Notes
    -----
    This is a ceiling. A call without `num_threads` takes fewer where they would not pay: where there is little to do,
    where other Python threads are calling, and for a while after the processors were found taken (by ONNX Runtime's
    threads that wait awake, other processes, and whatever else). With `num_threads` it takes that number.

    Other libraries' threads are left alone: OpenMP's own number is read, never written. Only how long its threads wait
    awake for the next call is set, to tens of microseconds, when the import of cunpool loads OpenMP's library; unless
    ``GOMP_SPINCOUNT`` or ``OMP_WAIT_POLICY`` is set.

    In a process that was forked after cunpool had been imported every call is serial, whatever is set, for OpenMP's
    threads do not survive a fork. A server that imports the application before it forks its workers (gunicorn's
    ``--preload``) should import cunpool, and whatever else uses OpenMP, in the workers.

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
        What `set_num_threads` set, or else what OpenMP, the processor affinity and the container allow. 1 in a serial
        build, and in a forked child, where GNU OpenMP cannot run.

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
    return bool(_runtime.openmp_version())


class Ceiling(int):
    """A number of threads that a front end passes on as `num_threads`, and below which the call chooses."""


def threads_for(work: int, num_threads: int | None) -> int:
    """How many threads to use for `work` bytes where the caller wants `num_threads`, or leaves it to the call."""
    exact = None if num_threads is None or type(num_threads) is Ceiling else _positive("num_threads", num_threads)
    if work < 2 * GRAIN:  # nobody misses a second thread, but who asks for one gets it
        return exact if exact and openmp_enabled() and not _runtime.forked() else 1
    if (num_threads or _limit) == 1:  # nothing around can change that, and to look takes tenths of a microsecond
        return 1
    if not openmp_enabled():
        if (exact or _limit or 1) > 1:
            _say_once(_said_serial, SERIAL)
        return 1
    if _runtime.forked():
        if exact and exact > 1:
            _say_once(_said_fork, FORKED)
        return 1
    if exact:
        return exact
    others, in_a_row, resting, lost, now = _runtime.surroundings(AWAKE, TOLERATED, REMEMBERED)
    paying = _paying(work, in_a_row, resting, lost, now)
    if paying == 1:
        return 1
    most = (num_threads or _limit or _available()) // (others + 1)
    return paying if paying < most else most or 1


def _paying(work: int, in_a_row: int, resting: float, lost: float, now: float) -> int:
    """How many threads would pay if there were processors for them, by what `_runtime.surroundings` says."""
    global _alone_until, _losses
    if lost > 0:
        _losses = _losses if now < _alone_until + WELL else 0
        _alone_until = max(_alone_until, now - resting + min((REPAID << min(_losses, DOUBLED)) * lost, LONGEST))
        _losses += 1
    if _alone_until > now + LONGEST:  # the clock was set back, as LLVM's OpenMP has one that can be
        _alone_until = now
    if now < _alone_until:
        return 1
    grain = GRAIN if resting < AWAKE or in_a_row >= ROW else ASLEEP * GRAIN
    threads = work // grain
    return 1 if threads < 1 else threads if threads < MOST else MOST  # `min` and `max` take as long as all the rest


def _say_once(said: Lock, message: str) -> None:
    if said.acquire(blocking=False):
        _warn.warn(message)
