"""What pooling a volume in chunks takes of Dask, on paper: ``python docs/dask_planning.py``.

A volume of `size` cells along each of three axes, in chunks of `chunk` along each, pooled with indices. The formulae
are those of the graphs that `cunpool.dask` makes, and the tests hold them against such a graph.
"""

from __future__ import annotations

from typing import NamedTuple

# Seconds that Dask's scheduler takes for a task, as Dask's own documentation has it.
TASK = 200e-6
SIZE, WORKERS = 21504, 64  # 10 TB of uint8; 21504 is 21 times 1024


class Cost(NamedTuple):
    """Of one pooling."""

    chunks: int
    tasks: int
    """Beside those that read and write."""
    moved: int
    """Cells that a block sees in other chunks than its own: what moves if no two of these lie in one worker."""
    share: float
    """And how many those are for each cell of the volume."""


def cost(size: int, chunk: int, overlap: int = 0, results: int = 2) -> Cost:
    """Windows side by side, or of stride 1 that see `overlap` cells of the next chunk; `results` is 2 with indices.

    A chunk is pooled in one task. If windows overlap, another one joins what they see, and one for each chunk behind it
    along one, two or three axes cuts out what they see there: 7, but for the chunks at the end. Each result takes one
    more, if there are two.
    """
    along = size // chunk
    chunks = along**3
    tasks = chunks * (1 + (results if results > 1 else 0))
    if overlap:
        tasks += (2 * along - 1) ** 3  # a join for each chunk, and the cuts
    moved = (size + (along - 1) * overlap) ** 3 - size**3
    return Cost(chunks, tasks, moved, moved / size**3)


def table(size: int = SIZE, workers: int = WORKERS) -> str:
    """In Markdown, for uint8."""
    lines = [
        "| chunk | MiB | chunks | a worker's | tasks, side by side | scheduling "
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
