"""Pooling a volume in chunks along all axes, beside others that do: ``python benchmarks/dask_volumes.py``.

Each contestant works in a process of its own, with two workers that may use 256 MiB each (PyTorch's 1024: imported, it
takes more than the others' limit, and its workers were killed), on a volume that has no plane to spare: 256 x 1024 x
1024 cells in chunks of 64 x 256 x 256. Where the volume comes from costs next to nothing (each chunk is the same random
numbers), and of each chunk of the result one cell goes back. Times are the medians of some rounds, and peaks those of
the workers' memory in all rounds. It needs ``pip install '.[dask]'``; PyTorch and dask-image take part if they are
installed, PyTorch with ``--dtype float32``.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import distributed
import numpy as np

import cunpool.dask as lazy

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from larger_than_memory import MIB, peak_memory

Arrays = Sequence[da.Array]
TORCH_LIMIT = 1024


@functools.lru_cache(1)
def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """A chunk's, made once in each worker."""
    return np.random.default_rng(0).integers(0, 256, shape).astype(dtype)


def source(shape: Sequence[int], chunks: Sequence[int], dtype: str) -> da.Array:
    def fill(block: np.ndarray) -> np.ndarray:
        return numbers(block.shape, dtype)

    return da.zeros(shape, dtype, chunks=tuple(chunks)).map_blocks(fill, dtype=dtype)


def by_torch(block: np.ndarray, kernel: int) -> tuple[np.ndarray, np.ndarray]:
    import torch

    torch.set_num_threads(1)
    values, indices = torch.nn.functional.max_pool3d(torch.from_numpy(block[None]), kernel, return_indices=True)
    return values[0].numpy(), indices[0].numpy()


def torch_values(x: da.Array) -> Arrays:
    return (x.map_blocks(lambda block: by_torch(block, 2)[0], chunks=halves(x), dtype=x.dtype),)


def halves(x: da.Array) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(size // 2 for size in sizes) for sizes in x.chunks)


def torch_pairs(x: da.Array) -> Arrays:
    pairs = x.map_blocks(
        lambda block: by_torch(block, 2), chunks=halves(x), dtype=object, meta=np.empty((0,) * 3, object)
    )
    return tuple(
        pairs.map_blocks(lambda pair, which: pair[which], which=which, dtype=dtype, meta=np.empty((0,) * 3, dtype))
        for which, dtype in ((0, x.dtype), (1, np.dtype(np.int64)))
    )


def torch_back(x: da.Array) -> Arrays:
    def back(values: np.ndarray, indices: np.ndarray) -> np.ndarray:
        import torch

        return torch.nn.functional.max_unpool3d(torch.from_numpy(values[None]), torch.from_numpy(indices[None]), 2)[
            0
        ].numpy()

    return (da.map_blocks(back, *torch_pairs(x), chunks=x.chunks, dtype=x.dtype),)


def filtered(x: da.Array) -> Arrays:
    from dask_image.ndfilters import maximum_filter

    return (maximum_filter(x, 3, mode="nearest"),)


def pooled(x: da.Array, window: Sequence[int], **options: Any) -> Arrays:
    result = lazy.max_pool3d(x[None], *window, **options)
    return result if isinstance(result, tuple) else (result,)


def unpooled(x: da.Array, **options: Any) -> Arrays:
    return (lazy.max_unpool3d(*pooled(x, (2,), return_indices=True, **options), 2, **options),)


CODES = {"index_format": "window"}
TASKS: dict[str, dict[str, Callable[[da.Array], Arrays]]] = {
    "2 x 2 x 2, values": {
        "cunpool": lambda x: pooled(x, (2,)),
        "dask.array.coarsen": lambda x: (da.coarsen(np.max, x, dict.fromkeys(range(3), 2)),),
        "torch": torch_values,
    },
    "2 x 2 x 2, with indices": {
        "cunpool": lambda x: pooled(x, (2,), return_indices=True),
        "cunpool, window codes": lambda x: pooled(x, (2,), return_indices=True, **CODES),
        "torch (places in the chunk)": torch_pairs,
    },
    "2 x 2 x 2, there and back": {
        "cunpool": unpooled,
        "cunpool, window codes": lambda x: unpooled(x, **CODES),
        "torch (places in the chunk)": torch_back,
    },
    "3 x 3 x 3, stride 1, values": {
        "cunpool": lambda x: pooled(x, (3, 1, 1)),
        "dask_image.ndfilters.maximum_filter": filtered,
    },
}


def takes_part(name: str, dtype: str) -> bool:
    """Whether a contestant is installed, and pools this dtype."""
    if name.startswith("torch"):
        return importlib.util.find_spec("torch") is not None and dtype.startswith("float")
    return not name.startswith("dask_image") or importlib.util.find_spec("dask_image") is not None


def limit_of(name: str, limit: int) -> int:
    """MiB for each of a contestant's workers."""
    return max(limit, TORCH_LIMIT) if name.startswith("torch") else limit


def one_cell(block: np.ndarray) -> np.ndarray:
    return np.asarray(block)[(slice(1),) * block.ndim].copy()


def measure(task: str, name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Rounds in a cluster of its own."""
    dask.config.set({"distributed.admin.low-level-log-length": 0})
    cluster = distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        memory_limit=limit_of(name, arguments.limit) * MIB,
        dashboard_address="127.0.0.1:0",
        host="127.0.0.1",
    )
    with cluster, distributed.Client(cluster) as client:
        x = source(arguments.shape, arguments.chunk, arguments.dtype)
        results = TASKS[task][name](x)
        cells = [result.map_blocks(one_cell, chunks=tuple((1,) * n for n in result.numblocks), dtype=result.dtype,
                                   meta=np.empty((0,) * result.ndim, result.dtype)) for result in results]  # fmt: skip
        idle, seconds = client.run(peak_memory), []
        for _ in range(arguments.rounds + 1):
            start = time.perf_counter()
            client.gather(client.compute(cells))
            seconds.append(time.perf_counter() - start)
        peaks = client.run(peak_memory)
        count = len(dict(dask.optimize(*cells)[0].__dask_graph__()))
    return {"seconds": seconds[1:], "peak": max(peaks.values()), "idle": max(idle.values()), "tasks": count}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", type=int, nargs=3, default=[256, 1024, 1024])
    parser.add_argument("--chunk", type=int, nargs=3, default=[64, 256, 256])
    parser.add_argument("--dtype", default="uint8", help="torch takes part for float32 (default: %(default)s)")
    parser.add_argument("--limit", type=int, default=256, help="MiB for each of two workers (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--task", default="", help="measure the tasks whose name has this in it")
    parser.add_argument("--only", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        print(json.dumps(measure(*arguments.only, arguments)))
        return
    for task, contestants in TASKS.items():
        if arguments.task not in task:
            continue
        print(f"{task}, {arguments.dtype}")
        for name in contestants:
            if not takes_part(name, arguments.dtype):
                continue
            command = [sys.executable, __file__, *sys.argv[1:], "--only", task, name]
            run = subprocess.run(command, capture_output=True, text=True, timeout=600)
            if run.returncode:
                print(f"  {name:37} failed: {run.stderr.strip().splitlines()[-1][:90]}")
                continue
            result = json.loads(run.stdout.splitlines()[-1])
            low, high = min(result["seconds"]), max(result["seconds"])
            peak, idle = (result[key] / MIB for key in ("peak", "idle"))
            print(
                f"  {name:37} {statistics.median(result['seconds']):6.2f} s ({low:.2f} to {high:.2f}), "
                f"peak {peak:.0f} of {limit_of(name, arguments.limit)} MiB, {idle:.0f} before, {result['tasks']} tasks"
            )


if __name__ == "__main__":  # the workers import this file
    main()
