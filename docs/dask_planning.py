"""Cost of pooling a volume in chunks with Dask: ``python docs/dask_planning.py`` prints the table of the page.

The volume has `size` elements along each of three axes, and `chunk` elements along each axis of a chunk. It is pooled
with indices. The formulae follow the graphs of `cunpool.dask`, and the tests compare them with such a graph.
"""

from __future__ import annotations

from typing import NamedTuple

# Seconds of Dask's scheduler for each task, from Dask's documentation.
TASK = 200e-6
SIZE, WORKERS = 21504, 64  # 10 TB of uint8; 21504 is 21 times 1024


class Cost(NamedTuple):
    """Cost of one pooling."""

    chunks: int
    tasks: int
    """Tasks, without reading and writing."""
    moved: int
    """Elements that chunks need from other chunks. All of them move if no two chunks lie on one worker."""
    share: float
    """`moved` divided by the elements of the volume."""


def cost(size: int, chunk: int, overlap: int = 0, results: int = 2) -> Cost:
    """Cost for windows side by side, or with stride 1 that need `overlap` elements of the next chunk.

    `results` is 2 with indices. One task pools a chunk, and each result takes one more if there are two. If windows
    overlap, one task cuts out a part of each chunk behind it along one, two or three axes: 7 tasks, fewer at the end.
    One more task joins these parts.
    """
    along = size // chunk
    chunks = along**3
    tasks = chunks * (1 + (results if results > 1 else 0))
    if overlap:
        tasks += (2 * along - 1) ** 3  # a join for each chunk, and the cuts
    moved = (size + (along - 1) * overlap) ** 3 - size**3
    return Cost(chunks, tasks, moved, moved / size**3)


def table(size: int = SIZE, workers: int = WORKERS) -> str:
    """The table in Markdown, for uint8."""
    lines = [
        "| chunk | MiB | chunks | chunks per worker | tasks, side by side | scheduling "
        "| tasks, 3 x 3 x 3 | scheduling | moved |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for chunk in (128, 256, 512, 1024):
        beside, over = cost(size, chunk), cost(size, chunk, overlap=2)
        lines.append(
            f"| {chunk}^3 | {chunk**3 / 2**20:g} | {beside.chunks:,} | {beside.chunks / workers:,.0f} "
            f"| {beside.tasks:,} | {beside.tasks * TASK:,.0f} s | {over.tasks:,} | {over.tasks * TASK:,.0f} s "
            f"| {over.moved / 1e9:,.0f} GB, {100 * over.share:.1f} % |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
