"""A batch that no worker can hold goes through pooling and unpooling: ``python examples/larger_than_memory.py``.

The batch is a file. Dask's workers read it block by block, pool and unpool each block, and write the result to another
file, while a progress bar runs. By default 1 GiB goes through two workers that may use 256 MiB each. It needs
``pip install 'cunpool[dask]'``, and room on the disk for the two files.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dask.array as da
import distributed
import numpy as np

import cunpool as cu
from cunpool.dask import max_pool2d, max_unpool2d

MIB = 1 << 20


class NpyFile:
    """An array in an .npy file, opened anew for each block: what Dask sends to the workers is the path alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        header = np.load(path, mmap_mode="r")
        self.shape, self.dtype, self.ndim = header.shape, header.dtype, header.ndim

    def __getitem__(self, place: Any) -> np.ndarray:
        return np.array(np.load(self.path, mmap_mode="r")[place])

    def __setitem__(self, place: Any, block: np.ndarray) -> None:
        np.load(self.path, mmap_mode="r+")[place] = block


def peak_memory() -> int:
    """The most memory that this process has held, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count what the parent held before it started this process
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def write_batch(path: Path, shape: tuple[int, ...], step: int) -> None:
    """A file of random numbers, `step` images at a time."""
    batch = np.lib.format.open_memmap(path, "w+", np.float32, shape)
    rng = np.random.default_rng(0)
    for start in range(0, len(batch), step):
        part = batch[start : start + step]
        part[...] = rng.random(part.shape, np.float32)


def process(client: distributed.Client, source: Path, target: Path, step: int) -> None:
    """Pool and unpool `source` into `target`, `step` images at a time."""
    x = da.from_array(NpyFile(source), chunks=(step, -1, -1, -1))
    y, indices = max_pool2d(x, 2, return_indices=True)
    z = max_unpool2d(y, indices, 2, output_size=x.shape)
    np.lib.format.open_memmap(target, "w+", z.dtype, z.shape)
    stored = client.compute(da.store(z, NpyFile(target), lock=False, compute=False))  # no two blocks overlap
    distributed.progress(stored, notebook=False)
    print()
    stored.result()


def check(source: Path, target: Path, step: int) -> None:
    """Whether the first and the last block are what cunpool makes of them without Dask."""
    x, z = NpyFile(source), NpyFile(target)
    for place in (slice(0, step), slice(x.shape[0] - step, None)):
        y, indices = cu.max_pool2d(x[place], 2, return_indices=True)
        if not np.array_equal(cu.max_unpool2d(y, indices, 2, output_size=x.shape), z[place]):
            raise SystemExit("the result differs from that without Dask")
    print("checked       the first and the last block, against cunpool without Dask: equal")


def run(arguments: argparse.Namespace, folder: Path) -> None:
    shape = arguments.batch, arguments.channels, arguments.size, arguments.size
    size, limit = 4 * int(np.prod(shape, dtype=object)), arguments.workers * arguments.limit * MIB
    step = min(arguments.step, arguments.batch)
    print(f"batch         {shape}, float32, {size / MIB:.0f} MiB, in blocks of {step} images")
    print(f"workers       {arguments.workers}, {arguments.limit} MiB each: {limit / MIB:.0f} MiB together")
    source, target = folder / "batch.npy", folder / "result.npy"
    write_batch(source, shape, step)
    cluster = distributed.LocalCluster(
        n_workers=arguments.workers,
        threads_per_worker=1,
        processes=True,
        memory_limit=arguments.limit * MIB,
        dashboard_address="127.0.0.1:0",
        host="127.0.0.1",
        local_directory=str(folder),
    )
    with cluster, distributed.Client(cluster) as client:
        idle = client.run(peak_memory)
        start = time.perf_counter()
        process(client, source, target, step)
        print(f"time          {time.perf_counter() - start:.1f} s")
        for number, (worker, peak) in enumerate(client.run(peak_memory).items()):
            before = idle[worker] / MIB
            print(f"worker {number}      peak memory {peak / MIB:.0f} MiB, {before:.0f} MiB before the work")
        # The bar is fed every tenth of a second, and the scheduler logs an error where it is closed in between.
        time.sleep(0.5)
    check(source, target, step)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Pool and unpool a batch larger than the workers' memory.")
    parser.add_argument("--batch", type=int, default=256, help="images in the batch (default: %(default)s)")
    parser.add_argument("--channels", type=int, default=16, help="channels of each (default: %(default)s)")
    parser.add_argument("--size", type=int, default=256, help="height and width of each (default: %(default)s)")
    parser.add_argument("--step", type=int, default=2, help="images in a block (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="worker processes (default: %(default)s)")
    parser.add_argument("--limit", type=int, default=256, help="MiB of memory for each worker (default: %(default)s)")
    parser.add_argument("--folder", help="where to put the files (default: where temporary files go)")
    parsed = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=parsed.folder) as folder:
        run(parsed, Path(folder))


if __name__ == "__main__":  # the workers import this file
    main()
