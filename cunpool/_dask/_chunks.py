"""Arrays in chunks: which windows belong to which chunk, and which cells they see. One axis at a time, integers alone.

A worker is told the chunks of the whole array and the number of its block, and finds the rest here. So that this stays
short where there are many chunks, they are told as runs of equal sizes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

Range = tuple[int, int]
"""The first, and the one after the last."""

Runs = tuple[Range, ...]
"""The sizes of an axis' chunks: each size, and how many chunks in a row have it."""


class Axis(NamedTuple):
    """A pooling along one axis."""

    size: int
    pooled: int
    kernel: int
    stride: int
    padding: int
    dilation: int

    def start(self, window: int) -> int:
        """The first cell of `window`; negative where it lies in the padding."""
        return window * self.stride - self.padding

    @property
    def reach(self) -> int:
        """How far a window's last cell lies from its first."""
        return self.dilation * (self.kernel - 1)

    def box(self, windows: Range) -> Range:
        """The cells from the first to the last of these windows', whether or not they lie in the array."""
        return self.start(windows[0]), self.start(windows[1] - 1) + self.reach + 1

    def seen(self, windows: Range) -> Range:
        """The cells of the array among those; one at least, even where there is none."""
        first, last = self.box(windows)
        first = max(min(first, self.size - 1), 0)
        return first, max(min(last, self.size), first + 1)

    def lifted(self, window: int) -> int:
        """The first cell of `window` that is not before the array: past its end, where the window has no cell in it."""
        start = self.start(window)
        return start if start >= 0 else start % self.dilation


class Pooled(NamedTuple):
    """How a block is pooled along one axis: `windows` are those that remain without the first `skip`."""

    windows: Range
    cells: Range
    padding: int
    skip: int


class Unpooled(NamedTuple):
    """The cells of a block that is unpooled, along one axis, and the windows that reach into it."""

    cells: Range
    windows: Range


def runs(chunks: Sequence[int]) -> Runs:
    return tuple((int(size), sum(1 for _ in equal)) for size, equal in groupby(chunks))


@lru_cache(maxsize=256)
def bounds(chunks: Runs) -> tuple[Range, ...]:
    """Where each chunk begins and ends."""
    sizes = [size for size, count in chunks for _ in range(count)]
    return tuple(pairwise(accumulate(sizes, initial=0)))


def _ranges(ends: Sequence[int], last: int) -> list[Range]:
    """The ranges between 0, the `ends` of all but the last, and `last`: one at least, and none empty beside it."""
    return [(a, b) for a, b in pairwise((0, *ends, last)) if a < b] or [(0, last)]


@lru_cache(maxsize=256)
def pooling(axis: Axis, chunks: Runs) -> tuple[Pooled, ...]:
    """The blocks that pooling gives of these chunks: a window belongs to the chunk in which it begins.

    A pooling pads both ends or none. Where windows reach past one end of the array the block is padded at both, begins
    as far before its windows as makes them begin where they should, and the windows before are skipped.
    """
    begun = [-(-(end + axis.padding) // axis.stride) for _, end in bounds(chunks)[:-1] if end]
    blocks = []
    for windows in _ranges([min(count, axis.pooled) for count in begun], axis.pooled):
        first, last = axis.box(windows)
        padding = axis.padding if first < 0 or last > axis.size else 0
        skip = -(-padding // axis.stride) if first >= 0 else 0
        cells = max(first + padding - skip * axis.stride, 0), min(last, axis.size)
        blocks.append(Pooled(windows, cells, padding, skip))
    return tuple(blocks)


@lru_cache(maxsize=256)
def unpooling(axis: Axis, chunks: Runs) -> tuple[Unpooled, ...]:
    """The blocks that unpooling gives of these chunks of windows: each begins where its chunk's first window does.

    A window is among those of each block that it reaches into. One without a cell in the array is among those of the
    block that is nearest, where its index is found to be wrong.
    """
    begun = [min(max(axis.start(end), 0), axis.size) for _, end in bounds(chunks)[:-1]]
    blocks = []
    for cells in _ranges(begun, axis.size):
        first = -(-(cells[0] + axis.padding - axis.reach) // axis.stride) if cells[0] else 0
        last = -(-(cells[1] + axis.padding) // axis.stride) if cells[1] < axis.size else axis.pooled
        blocks.append(Unpooled(cells, (max(first, 0), min(last, axis.pooled))))
    return tuple(blocks)


def pieces(cells: Range, chunks: tuple[Range, ...]) -> Iterator[tuple[int, slice, slice]]:
    """The chunks in which `cells` lie: each one's number, the part of it that is meant, and where that belongs."""
    for number in range(bisect_right(chunks, cells[0], key=itemgetter(1)), len(chunks)):
        begin, end = chunks[number]
        if begin >= cells[1]:
            break
        first, last = max(begin, cells[0]), min(end, cells[1])
        yield number, slice(first - begin, last - begin), slice(first - cells[0], last - cells[0])
