"""Calls that take longer than a neighbour that does as much or more: ``python benchmarks/cliffs.py --seed 1``.

Calls are drawn at random: operation, dtype, shape, window, order in memory. Each is timed beside its neighbours, in
turns: the same call with its arguments copied to C order first, in float32, with the last axis at the next multiple of
64, with int64 indices for window codes, with indices for without, and with one thread. What takes more than LIMIT times
as long as a neighbour is timed once more, at greater length; if it still does, it is a cliff. ``--told FILE`` writes
each cliff down, and where the time of its call goes, which takes what `shares.py` says.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import shares
from contestants import LAYOUTS
from shared import bench

import cunpool as cu

LIMIT = 1.5
OPS = ("pool", "unpool", "pool gradient", "unpool gradient")
INDICES = ("int64", "int32", "codes")
DTYPES = ("uint8", "int8", "int16", "uint16", "float16", "int32", "float32", "float64", "int64")
MOST = 1 << 22  # cells of the full side
ORDERS = {"C" if name == "contiguous" else name: arranged for name, arranged in LAYOUTS.items()}


@dataclass(frozen=True)
class Call:
    op: str
    full: tuple[int, ...]
    kernel: int
    stride: int
    padding: int
    dtype: str
    indices: str  # or "none", for pooling
    order: str
    threads: int | None = None
    copying: bool = False  # to C order first

    @property
    def pooled(self) -> tuple[int, ...]:
        return self.full[:2] + tuple((n + 2 * self.padding - self.kernel) // self.stride + 1 for n in self.full[2:])

    def __str__(self) -> str:
        shape = "x".join(map(str, self.full))
        window = f"{self.kernel}/{self.stride}" + f" pad {self.padding}" * (self.padding > 0)
        return f"{self.op} {shape} {window} {self.dtype} {self.indices} {self.order}"

    def prepared(self) -> Callable[[], Any]:
        """The call to time."""
        n, rng = len(self.full) - 2, np.random.default_rng(1)
        window = self.kernel, self.stride, self.padding
        codes = self.indices == "codes"
        style = {"index_format": "window" if codes else "plane", "num_threads": self.threads}
        full = rng.integers(0, 100, self.full).astype(self.dtype)
        if self.op == "pool":
            arrays = [full]
            pool, wanted = getattr(cu, f"max_pool{n}d"), self.indices != "none"
            kind = "int32" if self.indices == "int32" else None

            def call(x: np.ndarray) -> Any:
                return pool(x, *window, return_indices=wanted, index_dtype=kind, **style)
        else:
            pool = getattr(cu, f"max_pool{n}d")
            values, indices = pool(full, *window, return_indices=True, index_format=style["index_format"])
            indices = indices if codes else indices.astype(self.indices)
            size = self.full[2:]
            if self.op == "unpool":
                arrays, function, rest = [values, indices], getattr(cu, f"max_unpool{n}d"), (*window, size)
            elif self.op == "unpool gradient":
                arrays, function, rest = [full, indices], getattr(cu, f"max_unpool{n}d_backward"), window
            else:
                arrays, function, rest = [values, indices], getattr(cu, f"max_pool{n}d_backward"), (size, *window)

            def call(*given: np.ndarray) -> Any:
                return function(*given, *rest, **style)

        arrays = [ORDERS[self.order](array) for array in arrays]
        if self.copying:
            return lambda: call(*map(np.ascontiguousarray, arrays))
        return lambda: call(*arrays)

    def neighbours(self) -> Iterator[tuple[str, Call]]:
        """Calls that do as much or more."""
        if self.order != "C":
            yield "copied to C order first", replace(self, copying=True)
        if np.dtype(self.dtype).itemsize < 4:
            yield "as float32", replace(self, dtype="float32")
        wider = -(-self.full[-1] // 64) * 64
        if self.full[-1] < wider <= 2 * self.full[-1]:
            yield "the width a multiple of 64", replace(self, full=(*self.full[:-1], wider))
        if self.indices == "codes":
            yield "int64 for codes", replace(self, indices="int64")
        if self.indices == "none":
            yield "with indices", replace(self, indices="int64")
        if self.threads is None and cu.get_num_threads() > 1:
            yield "one thread", replace(self, threads=1)


def drawn(rng: np.random.Generator) -> Call:
    """A call that is not too large, with some windows."""
    while True:
        n = int(rng.choice([1, 2, 2, 2, 2, 3]))
        kernel, stride = [(2, 2), (2, 2), (3, 2), (3, 1), (3, 3), (5, 1), (7, 2), (13, 1), (2, 3)][rng.integers(9)]
        padding = kernel // 2 if rng.random() < 0.3 else 0
        channels = int(rng.choice([1, 3, 8, 16, 64, 200]))
        size = math.exp(rng.uniform(math.log(4), math.log(600 if n < 3 else 80)))
        spatial = [max(int(size * rng.uniform(0.7, 1.4)), 1) for _ in range(n)]
        call = Call(
            op := str(rng.choice(OPS)),
            (int(rng.choice([1, 1, 2, 8])), channels, *spatial),
            kernel,
            stride,
            padding,
            str(rng.choice(DTYPES)),
            str(rng.choice([*INDICES, "none", "none"] if op == "pool" else INDICES)),
            str(rng.choice([*ORDERS, "C", "C"])),
        )
        adds = op == "pool gradient"  # in floats alone
        if math.prod(call.full) <= MOST and min(call.pooled) >= 1 and not (adds and "int" in call.dtype):
            return call


def ratios(call: Call, neighbours: list[Call], rounds: int, block: float) -> list[float]:
    """The call's time by each neighbour's: the medians of the rounds."""
    prepared = [c.prepared() for c in (call, *neighbours)]
    for function in prepared:
        function()
    repeats = [max(1, int(block / max(bench.timed(function, 1), 1e-7))) for function in prepared]
    times = [[bench.timed(function, r) for function, r in zip(prepared, repeats, strict=True)] for _ in range(rounds)]
    return [statistics.median(row[0] / row[i] for row in times) for i in range(1, len(prepared))]


def table(cliffs: dict[str, list[tuple[float, Call]]]) -> Iterator[str]:
    """Each call that has a cliff, the worst first, and where its time goes with one thread."""
    found: dict[Call, dict[str, float]] = {}
    for name, entries in cliffs.items():
        for ratio, call in entries:
            found.setdefault(call, {})[name] = ratio
    yield "| call | times as long as | per cent of its time |\n|---|---|---|\n"
    for call, ratios_of_it in sorted(found.items(), key=lambda entry: -max(entry[1].values())):
        said = "; ".join(f"{name} {ratio:.1f}" for name, ratio in ratios_of_it.items())
        fields = json.dumps(asdict(call))
        yield f"| {call} | {said} | {shares.told(__file__, '--call', fields)} |\n"


def bar(done: int, count: int, cliffs: int) -> None:
    if sys.stderr.isatty() or done == count:
        full = 40 * done // max(count, 1)
        print(f"\r[{'#' * full}{'.' * (40 - full)}] {done}/{count}, {cliffs} with a cliff", end="", file=sys.stderr)
        print(end="\n" if done == count else "", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=None, help="of the calls that are drawn (default: a new one)")
    parser.add_argument("--count", type=int, default=200, help="how many calls (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each call (default: %(default)s)")
    parser.add_argument("--block", type=float, default=0.002, help="seconds of each turn (default: %(default)s)")
    parser.add_argument("--worst", type=int, default=5, help="how many to print of each kind (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=None, help="of every call")
    parser.add_argument("--json", help="write all ratios there, a call a line")
    parser.add_argument("--told", help="write each cliff there, and where its time goes")
    parser.add_argument("--call", help=argparse.SUPPRESS)  # this one alone, for a while: a call's fields
    chosen = parser.parse_args()
    if chosen.call:
        cu.set_num_threads(1)
        fields = json.loads(chosen.call)
        shares.keep_calling(Call(**fields | {"full": tuple(fields["full"])}).prepared())
        return 0
    seed = time.time_ns() % 2**32 if chosen.seed is None else chosen.seed
    cu.set_num_threads(chosen.threads)
    print(f"cunpool {cu.__version__}, NumPy {np.__version__}, {cu.get_num_threads()} threads, seed {seed}")
    rng = np.random.default_rng(seed)
    tried: dict[str, int] = {}
    cliffs: dict[str, list[tuple[float, Call]]] = {}
    with_cliff, lines = 0, []
    for number in range(1, chosen.count + 1):
        call = drawn(rng)
        named = dict(call.neighbours())
        found = dict(zip(named, ratios(call, [*named.values()], chosen.rounds, chosen.block), strict=True))
        suspects = [name for name, ratio in found.items() if ratio > LIMIT]
        if suspects:  # once more, at greater length: who was held up by something else is not slow
            again = ratios(call, [named[name] for name in suspects], 2 * chosen.rounds + 1, 2 * chosen.block)
            found |= {name: min(found[name], ratio) for name, ratio in zip(suspects, again, strict=True)}
        for name, ratio in found.items():
            tried[name] = tried.get(name, 0) + 1
            if ratio > LIMIT:
                cliffs.setdefault(name, []).append((ratio, call))
        with_cliff += any(ratio > LIMIT for ratio in found.values())
        lines.append({"call": str(call), "ratios": {name: round(ratio, 3) for name, ratio in found.items()}})
        bar(number, chosen.count, with_cliff)
    print(f"{chosen.count} calls, {with_cliff} of which take more than {LIMIT} times as long as a neighbour")
    for name, count in tried.items():
        worst = sorted(cliffs.get(name, []), key=lambda pair: -pair[0])
        print(f"\n{name}: {len(worst)} of {count}")
        for ratio, call in worst[: chosen.worst]:
            print(f"  {ratio:6.2f}  {call}")
    if chosen.json:
        with open(chosen.json, "w") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    if chosen.told:
        with open(chosen.told, "w") as file:
            file.writelines(table(cliffs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
