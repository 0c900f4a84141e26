"""Chunks: the windows that belong to each chunk, and the elements that they cover, as integers along one axis.

A worker receives the chunks of the whole array and the number of its block, and computes the rest here. Chunks are
passed as runs of equal sizes, which stay short.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

Range = tuple[int, int]
"""The first, and one past the last."""

Runs = tuple[Range, ...]
"""The chunks of an axis: each size, and the number of consecutive chunks that have it."""


class Axis(NamedTuple):
    """A pooling along one axis; `padding` is that before it."""

    size: int
    pooled: int
    kernel: int
    stride: int
    padding: int
    dilation: int

    def start(self, window: int) -> int:
        """Return the position of the first element of `window`, which is negative in the padding."""
        return window * self.stride - self.padding

    @property
    def reach(self) -> int:
        """The distance between the first and the last element of a window."""
        return self.dilation * (self.kernel - 1)

    def box(self, windows: Range) -> Range:
        """Return the range from the first to the last element of these windows, padding included."""
        return self.start(windows[0]), self.start(windows[1] - 1) + self.reach + 1

    def seen(self, windows: Range) -> Range:
        """Return the part of that range inside the array, or one element if there is none."""
        first, last = self.box(windows)
        first = max(min(first, self.size - 1), 0)
        return first, max(min(last, self.size), first + 1)

    def lifted(self, window: int) -> int:
        """Return the first element of `window` that is not before the array. It may lie past the end."""
        start = self.start(window)
        return start if start >= 0 else start % self.dilation


class Pooled(NamedTuple):
    """How a block is pooled along one axis: its windows, the elements that they cover, and the padding at both ends."""

    windows: Range
    elements: Range
    padding: tuple[int, int]


class Unpooled(NamedTuple):
    """The elements of an unpooled block along one axis, and the windows that reach into it."""

    elements: Range
    windows: Range


def runs(chunks: Sequence[int]) -> Runs:
    return tuple((int(size), sum(1 for _ in equal)) for size, equal in groupby(chunks))


@lru_cache(maxsize=256)
def bounds(chunks: Runs) -> tuple[Range, ...]:
    """Return the first position of each chunk, and one past its last."""
    sizes = [size for size, count in chunks for _ in range(count)]
    return tuple(pairwise(accumulate(sizes, initial=0)))


def _ranges(ends: Sequence[int], last: int) -> list[Range]:
    """Return the nonempty ranges between 0, `ends` and `last`, or one empty range if there are none."""
    return [(a, b) for a, b in pairwise((0, *ends, last)) if a < b] or [(0, last)]


@lru_cache(maxsize=256)
def pooling(axis: Axis, chunks: Runs) -> tuple[Pooled, ...]:
    """Return the blocks after pooling these chunks. A window belongs to the chunk in which it begins."""
    begun = [-(-(end + axis.padding) // axis.stride) for _, end in bounds(chunks)[:-1] if end]
    blocks = []
    for windows in _ranges([min(count, axis.pooled) for count in begun], axis.pooled):
        first, last = axis.box(windows)
        elements = max(first, 0), min(last, axis.size)
        blocks.append(Pooled(windows, elements, (elements[0] - first, last - elements[1])))
    return tuple(blocks)


@lru_cache(maxsize=256)
def unpooling(axis: Axis, chunks: Runs) -> tuple[Unpooled, ...]:
    """Return the blocks after unpooling these chunks of windows. Each begins where its chunk's first window begins.

    A window belongs to each block that it reaches into. A window without an element in the array belongs to the nearest
    block, which reports its index.
    """
    begun = [min(max(axis.start(end), 0), axis.size) for _, end in bounds(chunks)[:-1]]
    blocks = []
    for elements in _ranges(begun, axis.size):
        first = -(-(elements[0] + axis.padding - axis.reach) // axis.stride) if elements[0] else 0
        last = -(-(elements[1] + axis.padding) // axis.stride) if elements[1] < axis.size else axis.pooled
        blocks.append(Unpooled(elements, (max(first, 0), min(last, axis.pooled))))
    return tuple(blocks)


def pieces(elements: Range, chunks: tuple[Range, ...]) -> Iterator[tuple[int, slice, slice]]:
    """Yield the number of each chunk that overlaps `elements`, the part of the chunk, and the part of `elements`."""
    for number in range(bisect_right(chunks, elements[0], key=itemgetter(1)), len(chunks)):
        begin, end = chunks[number]
        if begin >= elements[1]:
            break
        first, last = max(begin, elements[0]), min(end, elements[1])
        yield number, slice(first - begin, last - begin), slice(first - elements[0], last - elements[0])
