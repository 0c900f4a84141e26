"""The command: deals cases out to processes, and says what became of them."""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import fuzzing
from fuzzing import census
from fuzzing.worker import KINDS, SEEN, work

FOREVER = 1 << 62


@dataclass
class Run:
    """All cases of a seed, or as many as there is time for."""

    seed: int
    count: int
    jobs: int
    limit: float
    end: float
    most_failures: int
    worker: tuple[str, ...] = ("-m", "fuzzing.worker")
    kinds: dict[str, int] = field(default_factory=lambda: dict.fromkeys((kind.__name__ for kind in KINDS), 0))
    counts: census.Counts = field(default_factory=dict)
    failures: list[int] = field(default_factory=list)
    digests: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def cases(self, job: int) -> None:
        """Every so many cases, in one process after the other: each ends with the first case that fails."""
        number: int | None = job
        while number is not None and number < self.count and not self.over():
            number = self.child(number)

    def over(self) -> bool:
        return time.time() >= self.end or len(self.failures) >= self.most_failures

    def child(self, first: int) -> int | None:
        """A process that begins with this case; where the next one has to begin, if it ended with a failure."""
        arguments = map(str, (self.seed, first, self.jobs, self.count, self.limit, self.end))
        # Threads that wait should not keep others from working: there are often more of them than processors.
        environment = {"OMP_WAIT_POLICY": "passive", **os.environ}
        case, said, done, counts, ended = first, [], [], {}, False
        with subprocess.Popen([sys.executable, *self.worker, *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", env=environment,
                              cwd=Path(__file__).parent.parent) as process:  # fmt: skip
            assert process.stdout
            for line in process.stdout:
                word, _, rest = line.rstrip("\n").partition(" ")
                if word == "case":
                    case, said = int(rest), []
                    if len(self.failures) >= self.most_failures:
                        process.kill()
                        ended = True
                elif word == "done":
                    done.append(rest)
                elif word == "counts":
                    counts = json.loads(rest)
                elif word == "end":
                    ended = True
                else:
                    said.append(line)
        status = process.returncode
        with self.lock:
            for kind, digest in map(str.split, done):
                self.kinds[kind] += 1
                self.digests[kind] = (self.digests.get(kind, 0) + int(digest, 16)) % (1 << 64)  # in any order of cases
            census.add(self.counts, counts)
            if ended:
                return None
            self.failures.append(case)
            print(f"case {case}: {self.what(status, ''.join(said))}{''.join(said).rstrip()}")
            print(f"again: cd tests && python -m fuzzing --seed {self.seed} --case {case}", flush=True)
        return case + self.jobs

    def what(self, status: int, said: str) -> str:
        if status == SEEN:
            return ""
        if "Timeout (" in said:
            return f"no end after {self.limit:g} s\n"
        name = signal.Signals(-status).name if status < 0 else f"status {status}"
        return f"the process ended with {name}\n"

    def digest(self) -> str:
        """The results of all cases of a seed, and of each kind, in one line: the same for builds that agree."""
        kinds = "".join(f" {kind} {digest:016x}" for kind, digest in sorted(self.digests.items()))
        return f"digest {sum(self.digests.values()) % (1 << 64):016x} of {sum(self.kinds.values())} cases:{kinds}"

    def report(self, conditions: bool) -> bool:
        """Whether all is well."""
        print(f"{sum(self.kinds.values())} cases: " + ", ".join(f"{n} {kind}" for kind, n in self.kinds.items()))
        print(census.table(self.counts))
        missed = census.one_sided(self.counts) if conditions else []
        for name in missed:
            false, true = self.counts[name]
            print(f"not met on both sides: {name}, {false} times false, {true} times true")
        if self.failures:
            print(f"{len(self.failures)} cases failed: {sorted(self.failures)}")
        return not self.failures and not missed


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzzing", description=fuzzing.__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--count", type=int, help="cases (without --seconds: 1000)")
    parser.add_argument("--seconds", type=float, help="time after which no case begins")
    parser.add_argument("--seed", type=int, help="without it a new one")
    parser.add_argument("--case", type=int, help="that one alone, in this process")
    parser.add_argument("--jobs", type=int, help="processes (as many as there are processors)")
    parser.add_argument("--limit", type=float, default=120, help="seconds that a case may take")
    parser.add_argument("--most-failures", type=int, default=10, help="after so many it ends")
    parser.add_argument("--digest", action="store_true", help="print one line that tells builds apart, and no counts")
    parser.add_argument("--threads", type=int, help="in each call, instead of a random number")
    parser.add_argument("--conditions", action="store_true", help="fail if one was not met on both sides")
    chosen = parser.parse_args(arguments)
    seed = int(time.time_ns() % 2**32) if chosen.seed is None else chosen.seed
    if chosen.threads is not None:
        os.environ["FUZZING_THREADS"] = str(chosen.threads)
    print(f"seed {seed}", flush=True)
    if chosen.case is not None:
        return work(seed, [chosen.case], chosen.limit, aloud=True)
    count = chosen.count if chosen.count is not None else 1000 if chosen.seconds is None else FOREVER
    end = time.time() + (math.inf if chosen.seconds is None else chosen.seconds)
    run = Run(seed, count, chosen.jobs or os.cpu_count() or 1, chosen.limit, end, chosen.most_failures)
    jobs = [threading.Thread(target=run.cases, args=(job,)) for job in range(run.jobs)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    if chosen.digest:
        print(run.digest())
        return 1 if run.failures else 0
    return 0 if run.report(chosen.conditions) else 1


if __name__ == "__main__":
    sys.exit(main())
