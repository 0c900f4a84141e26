"""cunpool among other threads, by default and with exact numbers of threads: ``python benchmarks/neighbours.py``.

Pooling with indices and unpooling, 2 x 2, float32: in a row; from other Python threads, in turn and at once; between
what other libraries do with two threads; in Dask's and multiprocessing's workers. Each pattern runs in processes of its
own, the default and `num_threads=1` by turns, round after round, and another number with `--exact`. The table has
times as multiples of one thread's, of our calls and of what stands between them: medians over the rounds, with
quartiles. Patterns whose library is missing are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np

# The bytes of the larger array, by name.
SHAPES = {
    "64 KB": (1, 1, 128, 128),
    "1 MB": (1, 64, 64, 64),
    "3 MB": (1, 64, 112, 112),
    "16 MB": (1, 64, 256, 256),
    "100 MB": (8, 64, 224, 224),
}
SECONDS = 0.4  # that each process measures, after as much to warm up in
LEAST = 5  # calls, however long they take


class Measured(NamedTuple):
    """Medians in seconds; `between` is None where nothing stands between."""

    ours: float
    between: float | None


def work(shape: tuple[int, ...], threads: int | None) -> Callable[[], None]:
    """Pool and unpool an array of its own."""
    import cunpool as cu

    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)

    def call() -> None:
        pooled, indices = cu.max_pool2d(x, 2, return_indices=True, num_threads=threads)
        cu.max_unpool2d(pooled, indices, 2, num_threads=threads)

    return call


def timed(call: Callable[[], None], between: Callable[[], object] | None = None) -> Measured:
    """Time calls, and what runs before each of them."""
    ours: list[float] = []
    others: list[float] = []
    begun = time.perf_counter()
    while len(ours) < LEAST or time.perf_counter() < begun + 2 * SECONDS:
        start = time.perf_counter()
        if between is not None:
            between()
        middle = time.perf_counter()
        call()
        ours.append(time.perf_counter() - middle)
        others.append(middle - start)
    half = len(ours) // 2  # what came before was to warm up
    return Measured(statistics.median(ours[half:]), statistics.median(others[half:]) if between is not None else None)


def row(shape: tuple[int, ...], threads: int | None) -> Measured:
    """Calls in a row, from the main thread."""
    return timed(work(shape, threads))


def turns(shape: tuple[int, ...], threads: int | None) -> Measured:
    """Three Python threads and the main one, in turn."""
    call = work(shape, threads)
    others = [ThreadPoolExecutor(1) for _ in range(3)]

    def once_each() -> None:
        for other in others:
            other.submit(call).result()
        call()

    return timed(once_each)


def in_threads(shape: tuple[int, ...], threads: int | None, count: int) -> Measured:
    """Calls in a row from `count` other Python threads at once, after the main one has called; the mean of a call."""
    calls = [work(shape, threads) for _ in range(count)]
    for _ in range(LEAST):
        calls[0]()

    def serve(call: Callable[[], None]) -> tuple[int, float]:
        begun, made = time.perf_counter(), 0
        while made < LEAST or time.perf_counter() < begun + 2 * SECONDS:
            call()
            made += 1
        return made, time.perf_counter() - begun

    with ThreadPoolExecutor(count) as others:
        made, times = zip(*others.map(serve, calls), strict=True)
    return Measured(count * max(times) / sum(made), None)


def onnxruntime_between(shape: tuple[int, ...], threads: int | None, spinning: bool) -> Measured:
    """Between runs of a session that convolves with two threads, which wait for work awake or asleep."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    kernel = numpy_helper.from_array(np.ones((32, 32, 3, 3), np.float32), "kernel")
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 32, 112, 112]) for name in "xy"]
    node = helper.make_node("Conv", ["x", "kernel"], ["y"], pads=[1] * 4)
    graph = helper.make_graph([node], "convolution", values[:1], values[1:], [kernel])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    if not spinning:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    x = np.ones((1, 32, 112, 112), np.float32)
    return timed(work(shape, threads), lambda: session.run(None, {"x": x}))


def torch_between(shape: tuple[int, ...], threads: int | None) -> Measured:
    """Between PyTorch's convolutions, with two threads."""
    import torch

    torch.set_num_threads(2)
    convolution = torch.nn.Conv2d(32, 32, 3, padding=1).requires_grad_(False)
    x = torch.ones(1, 32, 112, 112)
    return timed(work(shape, threads), lambda: convolution(x))


def numpy_between(shape: tuple[int, ...], threads: int | None) -> Measured:
    """Between NumPy's matrix products."""
    a = np.ones((512, 512), np.float32)
    return timed(work(shape, threads), lambda: a @ a)


def dask(shape: tuple[int, ...], threads: int | None) -> Measured:
    """Eight chunks in Dask's threads, one for each processor."""
    from dask import compute, delayed

    calls = [delayed(work(shape, threads))() for _ in range(8)]
    return timed(lambda: compute(*calls, scheduler="threads"))


def processes(shape: tuple[int, ...], threads: int | None) -> Measured:
    """In as many spawned workers of multiprocessing as there are processors, at once."""
    from multiprocessing import get_context

    count = os.cpu_count() or 1
    with get_context("spawn").Pool(count) as pool:
        results = pool.starmap(row, [(shape, threads)] * count, chunksize=1)
    return Measured(statistics.mean(result.ours for result in results), None)


PATTERNS: dict[str, Callable[[tuple[int, ...], int | None], Measured]] = {
    "in a row": row,
    "a second thread": partial(in_threads, count=1),
    "four threads in turn": turns,
    "two threads at once": partial(in_threads, count=2),
    "four threads at once": partial(in_threads, count=4),
    "between ONNX Runtime's, spinning": partial(onnxruntime_between, spinning=True),
    "between ONNX Runtime's, not spinning": partial(onnxruntime_between, spinning=False),
    "between PyTorch's": torch_between,
    "between NumPy's": numpy_between,
    "Dask's threads": dask,
    "multiprocessing's workers": processes,
}


def measure(pattern: str, size: str, threads: int | None) -> Measured | None:
    """One process; None if it cannot be."""
    command = [sys.executable, __file__, "--one", json.dumps([pattern, size, threads])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        if "ModuleNotFoundError" not in done.stderr:
            sys.exit(done.stderr)
        return None
    return Measured(*json.loads(done.stdout))


def ratios(rounds: list[dict[str, Any]], way: str, part: int) -> str:
    """Of our calls (0) or of what stands between them (1): this way's time over one thread's, round by round."""
    pairs = [(times[way][part], times["1"][part]) for times in rounds]
    if pairs[0][0] is None:
        return ""
    low, middle, high = np.percentile([a / b for a, b in pairs], [25, 50, 75])
    return f"{middle:.2f} [{low:.2f} {high:.2f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patterns", nargs="+", choices=PATTERNS, default=[*PATTERNS], metavar="PATTERN")
    parser.add_argument("--sizes", nargs="+", choices=SHAPES, default=[*SHAPES], metavar="SIZE")
    parser.add_argument("--rounds", type=int, default=5, help="5 take some 20 minutes")
    parser.add_argument("--exact", type=int, nargs="*", default=[], help="numbers of threads to time too")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        pattern, size, threads = json.loads(options.one)
        print(json.dumps(PATTERNS[pattern](SHAPES[size], threads)))
        return
    ways = {"default": None, **{str(threads): threads for threads in options.exact}, "1": 1}
    print(f"{'':<44}{'one thread, us':>15}  {'threads':<8}{'ours':<20}{'what stands between':<20}", flush=True)
    for pattern in options.patterns:
        for size in options.sizes:
            times = [{n: measure(pattern, size, t) for n, t in ways.items()} for _ in range(options.rounds)]
            if None in times[0].values():
                print(f"{pattern:<36}left out: a library is missing", flush=True)
                break
            one = f"{1e6 * statistics.median(of_round['1'].ours for of_round in times):.0f}"
            for way in [*ways][:-1]:
                ours, between = ratios(times, way, 0), ratios(times, way, 1)
                print(f"{pattern:<36}{size:<8}{one:>15}  {way:<8}{ours:<20}{between}", flush=True)


if __name__ == "__main__":
    main()
