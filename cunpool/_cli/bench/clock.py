"""The timing: each library runs in its own process, and the processes take turns.

No two OpenMP runtimes share a process. A process is stopped while another has its turn, so that its idle threads do
not take processor time from others. Results are the ratios within a round, because they vary less on a shared machine
than times do.
"""

from __future__ import annotations

import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from cunpool._cli.demo import Refusal, one_line

from .cells import Arrays, Call, checksum
from .contestants import Prepare

Check = Callable[[Any, Any], "int | None"]

COMMAND = sys.executable, "-m", "cunpool._cli.bench"
# Seconds of untimed calls at the start of a turn, for one thread and for more. They refill the caches. With more
# threads, the system may leave two woken threads on one processor for about 50 milliseconds.
WARM = 0.005, 0.06


def warm(call: Call, threads: int) -> None:
    """Call without timing at the start of a turn, after this process was stopped."""
    end = time.perf_counter() + WARM[threads > 1]
    while time.perf_counter() < end:
        call()


def timed(call: Call, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def serve(prepare: Prepare, check: Check, threads: int, connection: Connection) -> None:
    """Run in a contestant's process: receive a cell, then time a block of calls at each request."""
    if hasattr(os, "sched_setaffinity"):  # the same processors for all libraries, because they may differ in speed
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    try:
        ready = prepare(threads)
    except ImportError as error:
        connection.send(f"not installed: {error.name}")
        return
    connection.send("ready")
    call: Call | None = None
    repeats = 1
    while order := connection.recv():
        if isinstance(order, tuple):
            cell, folder, block = order
            call = None
            arrays = {path.stem: np.load(path) for path in Path(folder).iterdir()}
            call = ready(cell, arrays)
            answer = None
            if call is not None:
                answer = check(cell, call())
                call()
                repeats = max(1, int(block / timed(call, 1)))
                repeats = max(1, int(block / timed(call, repeats)))
            connection.send((call is not None, answer))
        else:
            assert call is not None
            warm(call, threads)
            connection.send(timed(call, repeats))


class Contestant:
    """The process of one library, stopped except in its turns."""

    def __init__(self, name: str, threads: int, command: Sequence[str] = COMMAND, title: str = "") -> None:
        self.name, self.key = name, f"{title or name} {threads}"
        with Listener() as listener:
            words = [*command, name, str(threads), str(listener.address)]
            self.process = subprocess.Popen(words, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
            Thread(target=self.answer_for, args=(listener.address,), daemon=True).start()
            self.connection = listener.accept()
        try:
            self.status = self.connection.recv()
        except EOFError:  # the import of the library ended the process
            self.status = f"its process ended with {self.process.wait()}"
        if self.status == "ready":
            self.signal("SIGSTOP")
        else:
            self.process.wait()

    def answer_for(self, address: Any) -> None:
        """Connect instead of a process that ended without connecting, so that the listener does not wait for ever."""
        code = self.process.wait()
        with suppress(OSError), Client(address) as connection:  # refused if the process had connected
            connection.send(f"its process ended with {code}")

    def signal(self, name: str) -> None:
        if hasattr(signal, name):
            self.process.send_signal(getattr(signal, name))

    def ask(self, order: Any) -> Any:
        self.signal("SIGCONT")
        self.connection.send(order)
        answer = self.connection.recv()
        self.signal("SIGSTOP")
        return answer

    def end(self) -> None:
        self.process.kill()  # a stopped process does not receive milder signals
        self.process.wait()


def measure(
    cell: Any, arrays: Arrays, contestants: list[Contestant], rounds: int, block: float, seconds: float = math.inf
) -> dict[str, list[float]]:
    """Return each contestant's time in each round.

    Each has an equal share of `seconds`, and takes no further turn after using it up.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            for name, array in arrays.items():
                np.save(Path(folder, name), array)
        except OSError as error:
            raise Refusal(f"cannot write to {folder}: {one_line(error)}") from None
        answers = {c.key: c.ask((cell, folder, block)) for c in contestants}
    taking_part = [c for c in contestants if answers[c.key][0]]
    checksums = {answer for takes_part, answer in answers.values() if takes_part and answer is not None}
    if len(checksums) != 1:
        raise Refusal(f"{cell.name}: the results differ: {answers}")
    times: dict[str, list[float]] = {c.key: [] for c in taking_part}
    spent = {c.key: 0.0 for c in taking_part}
    for number in range(rounds):
        for contestant in random.sample(taking_part, len(taking_part)):
            if number and spent[contestant.key] >= seconds / len(taking_part):
                continue
            start = time.perf_counter()
            times[contestant.key].append(contestant.ask("time"))
            spent[contestant.key] += time.perf_counter() - start
    return times


def ratio(times: dict[str, list[float]], theirs: str, ours: str) -> float | None:
    """Return the median ratio over the rounds that both took part in, or None if `theirs` lacks the operation."""
    if theirs not in times:
        return None
    return statistics.median(a / b for a, b in zip(times[theirs], times[ours], strict=False))


def main(contestants: Mapping[str, Prepare], check: Check = checksum) -> None:
    """Run a contestant's process, with the arguments that `Contestant` passes."""
    name, threads, address = sys.argv[1:]
    serve(contestants[name], check, int(threads), Client(address))
