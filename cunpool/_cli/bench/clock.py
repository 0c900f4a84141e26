"""The clock: each contestant has a process of its own, and they take turns.

So no two OpenMP runtimes share a process. A contestant is stopped while another has its turn, so that nobody's idle
threads spin at the cost of others. What counts are the ratios within a round: times of a shared machine move more.
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
# Seconds of calls before those of a turn, for one thread and for more: what was in the caches has to come back; and of
# two threads that have slept, the system may leave both on one processor for some 50 milliseconds.
WARM = 0.005, 0.06


def warm(call: Call, threads: int) -> None:
    """Calls that do not count, at the beginning of a turn, before which this process was stopped."""
    end = time.perf_counter() + WARM[threads > 1]
    while time.perf_counter() < end:
        call()


def timed(call: Call, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def serve(prepare: Prepare, check: Check, threads: int, connection: Connection) -> None:
    """A contestant's process: take a cell, then time blocks of calls as often as asked."""
    if hasattr(os, "sched_setaffinity"):  # the same processors for all: on a shared machine they are not equally fast
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
    """A process, stopped except in its turns."""

    def __init__(self, name: str, threads: int, command: Sequence[str] = COMMAND, title: str = "") -> None:
        self.name, self.key = name, f"{title or name} {threads}"
        with Listener() as listener:
            words = [*command, name, str(threads), str(listener.address)]
            self.process = subprocess.Popen(words, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
            Thread(target=self.answer_for, args=(listener.address,), daemon=True).start()
            self.connection = listener.accept()
        try:
            self.status = self.connection.recv()
        except EOFError:  # a library that ends the process while it is imported
            self.status = f"its process ended with {self.process.wait()}"
        if self.status == "ready":
            self.signal("SIGSTOP")
        else:
            self.process.wait()

    def answer_for(self, address: Any) -> None:
        """Connect in the place of a process that ends before it does, for which the other side would wait for ever."""
        code = self.process.wait()
        with suppress(OSError), Client(address) as connection:  # nobody listens to those that did
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
        self.process.kill()  # a stopped process would not hear anything milder
        self.process.wait()


def measure(
    cell: Any, arrays: Arrays, contestants: list[Contestant], rounds: int, block: float, seconds: float = math.inf
) -> dict[str, list[float]]:
    """Every contestant's time in every round. Each has an equal share of these seconds: who has used it up is out."""
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
        raise Refusal(f"{cell.name}: the answers differ: {answers}")
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
    """The median of the ratios of the rounds that both had, or None for who has no such operation."""
    if theirs not in times:
        return None
    return statistics.median(a / b for a, b in zip(times[theirs], times[ours], strict=False))


def main(contestants: Mapping[str, Prepare], check: Check = checksum) -> None:
    """A contestant's process, by the words that `Contestant` gives it."""
    name, threads, address = sys.argv[1:]
    serve(contestants[name], check, int(threads), Client(address))
