"""A volume that no worker can hold goes down three levels and up: ``python examples/volume_larger_than_memory.py``.

The volume is a Zarr array in chunks along all three axes, and one plane to cunpool. Dask's workers pool it 2 x 2 x 2
three times and write the last level and each level's window codes, a byte each; then they unpool from these alone. By
default 4 GiB go through two workers that may use 256 MiB each. Windows lie side by side and chunks end between them, so
nothing moves between the workers. It needs ``pip install 'cunpool[dask]'``, and room on the disk for the volume twice.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dask.array as da
import distributed
import numpy as np
import zarr
from larger_than_memory import MIB, peak_memory

import cunpool as cu
from cunpool.dask import max_pool3d, max_unpool3d

LEVELS = 3


def create(path: Path, shape: Sequence[int], chunks: Sequence[int], dtype: Any) -> Any:
    """A Zarr array on the disk."""
    return zarr.open(str(path), mode="w", shape=tuple(shape), chunks=tuple(chunks), dtype=dtype)


def stored(client: distributed.Client, arrays: dict[Path, da.Array]) -> None:
    """Compute and write `arrays`, each chunk of theirs a chunk on the disk, with a progress bar."""
    targets = [create(path, array.shape, array.chunksize, array.dtype) for path, array in arrays.items()]
    done = client.compute(da.store(list(arrays.values()), targets, lock=False, compute=False))
    distributed.progress(done, notebook=False)
    print()
    client.gather(done)


def synthetic(block: np.ndarray, block_id: tuple[int, ...]) -> np.ndarray:
    """Blobs, brighter with the depth, and noise."""
    rng = np.random.default_rng(block_id)
    coarse = rng.integers(0, 40000, [-(-size // 8) for size in block.shape], np.uint16)
    for axis, size in enumerate(block.shape):
        coarse = coarse.repeat(8, axis)[(slice(None),) * axis + (slice(size),)]
    return coarse + rng.integers(0, 256, block.shape, np.uint8) + np.uint16(10 * block_id[0])


def down(client: distributed.Client, folder: Path) -> list[tuple[int, ...]]:
    """Write the last level, and the codes of all; return the shapes of what was pooled."""
    level = da.from_zarr(str(folder / "volume"))[None]
    results, shapes = {}, []
    for number in range(LEVELS):
        shapes.append(level.shape[1:])
        level, codes = max_pool3d(level, 2, return_indices=True, index_format="window")
        results[folder / f"codes{number}"] = codes
    stored(client, {**results, folder / "level": level})
    return shapes


def up(client: distributed.Client, folder: Path, shapes: Sequence[tuple[int, ...]]) -> None:
    """Write what the last level and the codes make together."""
    level = da.from_zarr(str(folder / "level"))
    for number, shape in reversed([*enumerate(shapes)]):
        codes = da.from_zarr(str(folder / f"codes{number}"))
        level = max_unpool3d(level, codes, 2, output_size=shape, index_format="window")
    stored(client, {folder / "result": level[0]})


def check(folder: Path, step: int) -> None:
    """Whether each slab of the result is what cunpool makes of it without Dask; slabs end between windows."""
    volume, result = (zarr.open(str(folder / name), mode="r") for name in ("volume", "result"))
    starts = [*range(0, volume.shape[0] - 2**LEVELS + 1, step)]  # the last slab has to have some windows
    for start, stop in zip(starts, [*starts[1:], volume.shape[0]], strict=True):
        level, pooled = volume[start:stop][None], []
        for _ in range(LEVELS):
            shape = level.shape[1:]
            level, codes = cu.max_pool3d(level, 2, return_indices=True, index_format="window")
            pooled.append((codes, shape))
        for codes, shape in reversed(pooled):
            level = cu.max_unpool3d(level, codes, 2, output_size=shape, index_format="window")
        if not np.array_equal(level[0], result[start:stop]):
            raise SystemExit(f"slab {start}: the result differs from that without Dask")
    print(f"checked       {len(starts)} slabs, against cunpool without Dask: equal")


def run(arguments: argparse.Namespace, folder: Path) -> None:
    shape, step = tuple(arguments.shape), arguments.chunk
    size = 2 * int(np.prod(shape, dtype=object))
    print(f"volume        {shape}, uint16, {size / MIB:.0f} MiB, in chunks of {step} along each axis")
    print(f"workers       {arguments.workers}, {arguments.limit} MiB each")
    cluster = distributed.LocalCluster(
        n_workers=arguments.workers,
        threads_per_worker=1,
        processes=True,
        memory_limit=arguments.limit * MIB,
        dashboard_address="127.0.0.1:0",
        host="127.0.0.1",
        local_directory=str(folder / "workers"),
    )
    with cluster, distributed.Client(cluster) as client:
        empty = da.zeros(shape, np.uint16, chunks=step)
        stored(client, {folder / "volume": empty.map_blocks(synthetic, dtype=np.uint16)})
        before = client.run(peak_memory)
        start = time.perf_counter()
        shapes = down(client, folder)
        middle = time.perf_counter()
        up(client, folder, shapes)
        end = time.perf_counter()
        for name, seconds in (("down", middle - start), ("up", end - middle), ("time", end - start)):
            print(f"{name:13} {seconds:.1f} s, {size / MIB / seconds:.0f} MiB of the volume a second")
        for number, (worker, peak) in enumerate(client.run(peak_memory).items()):
            made = before[worker] / MIB
            print(f"worker {number}      peak memory {peak / MIB:.0f} MiB, {made:.0f} MiB when the volume was made")
        # The bar is fed every tenth of a second, and the scheduler logs an error where it is closed in between.
        time.sleep(0.5)
    check(folder, step)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Pool and unpool a volume larger than the workers' memory.")
    parser.add_argument("--shape", type=int, nargs=3, default=[2048, 1024, 1024], help="cells (default: %(default)s)")
    parser.add_argument("--chunk", type=int, default=128, help="cells of a chunk, times 8 (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="worker processes (default: %(default)s)")
    parser.add_argument("--limit", type=int, default=256, help="MiB of memory for each worker (default: %(default)s)")
    parser.add_argument("--folder", help="where to put the files (default: where temporary files go)")
    parsed = parser.parse_args(arguments)
    if parsed.chunk < 1 or parsed.chunk % 2**LEVELS:
        parser.error(f"--chunk must be a multiple of {2**LEVELS}, so that chunks end between windows")
    with tempfile.TemporaryDirectory(dir=parsed.folder) as folder:
        run(parsed, Path(folder))


if __name__ == "__main__":  # the workers import this file
    main()
