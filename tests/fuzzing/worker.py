"""One process that works on cases, and tells which one it is at.

`python -m fuzzing.worker SEED FIRST STEP STOP LIMIT END`: the numbers of the cases as of `range`, how many seconds a
case may take, and when, in seconds of `time.time`, no further one begins.
"""

from __future__ import annotations

import faulthandler
import json
import math
import os
import sys
import time
import traceback

import numpy as np

from cunpool import _threads
from cunpool._kernels import memory as _memory
from fuzzing import right, wrong
from fuzzing.arrays import one_of
from fuzzing.census import Census
from fuzzing.judge import Difference, digest

# And how many of a hundred cases are of each.
KINDS = {
    right.pool: 23,
    right.pool_shared_rows: 1,
    right.peaks: 1,
    right.pool_turned: 1,
    right.unpool: 15,
    right.unpool_backward: 8,
    right.take: 3,
    right.adaptive: 3,
    right.pool_backward: 11,
    right.beyond_caches: 3,
    right.far: 2,
    right.convert: 4,
    wrong.wrong_indices: 10,
    wrong.refusals: 5,
    wrong.wrapping: 3,
    wrong.hostile: 7,
}
SEEN = 3  # the exit status after a difference: nobody has to ask what became of the process
TELL = 200  # cases, after which counts are handed on: a crash loses no more


def run_case(seed: int, number: int) -> str:
    """One case; the name of its kind."""
    kinds = [kind for kind, share in KINDS.items() for _ in range(share)]
    return one_call(np.random.default_rng((seed, number)), kinds)


def one_call(rng, kinds) -> str:
    """A call of one of these kinds, whatever the numbers come from."""
    kind = one_of(rng, kinds)
    # Small arrays are worked on by one thread, and lie in the C library's memory, unless these say otherwise.
    _threads.GRAIN = one_of(rng, (1, 64, 1 << 16))
    _threads.REPAID = 0  # what a case does is not to depend on how busy the machine is
    _memory.RECYCLED = one_of(rng, (1, 1 << 20))
    kind(rng)
    return kind.__name__


def limit_memory() -> None:
    """Hostile sizes get a MemoryError instead of all of the machine's memory."""
    if "san" in os.environ.get("LD_PRELOAD", ""):
        return  # it reserves terabytes of addresses
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, resource.getrlimit(resource.RLIMIT_AS)[1]))
    except (ImportError, ValueError, OSError):
        pass


def tell(*words: object) -> None:
    print(*words, flush=True)


def work(seed: int, numbers, limit: float, end: float = math.inf, aloud: bool = False) -> int:
    """The cases of these numbers, until one fails. Whoever reads along knows which one is under way."""
    faulthandler.enable()
    limit_memory()
    census = Census(aloud)
    for done, number in enumerate(numbers, 1):
        if time.time() >= end:
            break
        tell("case", number)
        faulthandler.dump_traceback_later(limit, exit=True)  # it needs no GIL, so it sees kernels that never end too
        try:
            digest()  # what other cases have left
            tell("done", run_case(seed, number), digest())
        except Exception as error:
            if not isinstance(error, Difference):
                traceback.print_exc(file=sys.stdout)
            tell(f"{type(error).__name__}: {error}")
            tell("counts", json.dumps(census.counts()))
            return SEEN
        if done % TELL == 0:
            tell("counts", json.dumps(census.counts()))
    faulthandler.cancel_dump_traceback_later()
    tell("counts", json.dumps(census.counts()))
    tell("end")
    return 0


def main() -> int:
    seed, first, step, stop = map(int, sys.argv[1:5])
    limit, end = map(float, sys.argv[5:])
    return work(seed, range(first, stop, step), limit, end)


if __name__ == "__main__":
    sys.exit(main())
