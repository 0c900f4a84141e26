"""Arrays in any place, order and dtype, and what may lie around them."""

from __future__ import annotations

import math
import os

import numpy as np
from cases import FLOATS, INTEGERS, LARGEST, bits, layout, random_items, random_numbers

from fuzzing.judge import Difference, in_parts

INDICES = [*map(np.dtype, ("i4", "i8", "i8", "i8")), *INTEGERS, *map(np.dtype, (">i2", ">i4", ">i8", ">u4", ">u8"))]
MARGIN = 96


def one_of(rng, choices):
    return choices[int(rng.integers(len(choices)))]


def threads(rng):
    drawn = one_of(rng, (None, 1, 2, 3, 7))
    return int(os.environ["FUZZING_THREADS"]) if "FUZZING_THREADS" in os.environ else drawn


class Guarded:
    """An array within a buffer, at any place and with any strides, and the bytes around it."""

    def __init__(self, rng, shape, dtype, order: list[int] | None = None) -> None:
        self.arguments = shape, np.dtype(dtype)
        item = np.dtype(dtype).itemsize
        gaps = self.some_gaps(rng, len(shape), item, 0.6 if order else 0.3)
        backwards = rng.random(len(shape)) < (0 if order or rng.random() < 0.7 else 0.2)
        axes = order or rng.permutation(len(shape)).tolist()
        sizes = shape
        strides, reach = self.apart(sizes, item, gaps, axes)
        if reach > LARGEST:
            sizes = shape if all(shape) else (1,) * len(shape)  # one that is empty takes no room
            strides, reach = self.apart(sizes, item, [0] * len(shape), axes)
        strides = [-stride if back else stride for stride, back in zip(strides, backwards, strict=True)]
        before = -sum(s * (max(size, 1) - 1) for s, size in zip(strides, sizes, strict=True) if s < 0)
        self.strides = tuple(strides)
        self.offset = MARGIN + before + int(rng.choice([0, 0, 0, 1, item]))
        self.raw = rng.integers(0, 256, reach + 2 * MARGIN + item, np.uint8)
        self.array = self.within(self.raw)
        self.before = self.raw.copy()

    @staticmethod
    def apart(shape, item: int, gaps: list[int], order: list[int]) -> tuple[list[int], int]:
        """The strides, and the bytes from the first to the last."""
        strides, reach = [0] * len(shape), item
        for axis in reversed(order):
            strides[axis] = reach + gaps[axis]
            reach += strides[axis] * (max(shape[axis], 1) - 1)
        return strides, reach

    @staticmethod
    def some_gaps(rng, axes: int, item: int, without: float) -> list[int]:
        """Bytes between the neighbours of each axis: none, on one axis alone, or on any."""
        gaps = rng.choice([0, 0, item, 3 * item, 1], axes)
        kind = rng.random()
        if kind < without:
            gaps[:] = 0
        elif kind < 0.5 + without / 2:
            axis = int(rng.integers(axes))
            gaps[:axis] = gaps[axis + 1 :] = 0
            gaps[axis] = int(rng.choice([item, 1, 64]))
        return gaps.tolist()

    def within(self, raw) -> np.ndarray:
        shape, dtype = self.arguments
        return np.ndarray(shape, dtype, raw, self.offset, self.strides)

    def check(self) -> None:
        """Nothing but the array has changed."""
        plain = Guarded.__new__(Guarded)
        plain.arguments = self.arguments[0], np.dtype((np.void, self.arguments[1].itemsize))
        plain.offset, plain.strides = self.offset, self.strides
        plain.within(self.before)[...] = plain.within(self.raw)
        for first, before, now in in_parts(self.before, self.raw):
            wrong = np.flatnonzero(before != now) + first - self.offset
            if wrong.size:
                raise Difference(f"bytes beside out were written: {wrong[:9]} from its start, {self.strides}")


def some_order(rng, w) -> list[int] | None:
    """The axes of all arrays of a call from the outermost in memory to the innermost; None for each array its own."""
    axes = list(range(len(w.shape) + w.n))
    kind = rng.random()
    if kind < (0.7 if w.large else 0.45):
        return axes
    channels = len(w.shape) - 1
    if kind < (0.9 if w.large else 0.6):
        return axes[:channels] + axes[channels + 1 :] + [channels]
    return rng.permutation(axes).tolist() if rng.random() < 0.3 else None


def repeated(rng, array, axes: int | None = None) -> np.ndarray:
    """Now and then with the same entries along some axes (of the first so many), for `strided` to hold them once."""
    if rng.random() < 0.85 or not array.size:
        return array
    for axis in rng.permutation(array.ndim if axes is None else axes)[: int(rng.choice([1, 1, 2, array.ndim]))]:
        if array.shape[axis] > 1:
            array = np.repeat(np.take(array, [0], axis), array.shape[axis], axis)
    return array


def once(array) -> np.ndarray:
    """The part of it that all its entries repeat, along the axes whose entries are all the same."""
    for axis, size in enumerate(array.shape):
        if size == 1 or not array.size:
            continue
        first = np.take(array, [0], axis)
        # Nearly always one of a few tells already that they are not the same.
        few = (np.take(array, [i], axis) for i in (1, size // 2, size - 1))
        if all(bits(one) == bits(first) for one in few) and bits(array) == bits(np.repeat(first, size, axis)):
            array = first
    return array


def strided(rng, array, order: list[int] | None = None) -> np.ndarray:
    """The same numbers in some layout, or in this order with perhaps a gap; what repeats is held once or as often."""
    part = once(array) if rng.random() < 0.8 else array
    result = placed(rng, part, order)
    return result if part is array else np.broadcast_to(result, array.shape)


def placed(rng, array, order: list[int] | None = None) -> np.ndarray:
    if rng.random() < 0.5:
        if order is None:
            return layout(rng, array)
        return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))
    guarded = Guarded(rng, array.shape, array.dtype, order)
    guarded.array[...] = array
    return guarded.array


def overlapped(rng, out: Guarded, array):
    """`array` copied into the buffer of `out`, over whatever part of that, or None if it does not fit."""
    room = out.raw.size - array.nbytes
    if room < 0 or not array.size:
        return None
    part = np.ndarray(array.shape, array.dtype, out.raw, int(rng.integers(room + 1)))
    part[...] = array
    out.before = out.raw.copy()
    return part


def some_out(rng, order, shape, dtype, *inputs):
    """Maybe an `out`, and the inputs, of which one may overlap it."""
    inputs = list(inputs)
    if rng.random() < 0.3:
        return None, inputs
    out = Guarded(rng, shape, dtype, order)
    if rng.random() < 0.25:
        which = int(rng.integers(len(inputs)))
        part = overlapped(rng, out, inputs[which])
        inputs[which] = inputs[which] if part is None else part
    return out, inputs


def narrowed(rng, places):
    """In some dtype that has room for them."""
    dtype = one_of(rng, INDICES)
    fits = not places.size or places.max() <= np.iinfo(dtype).max
    return places.astype(dtype) if fits else places


def some_numbers(rng, dtype, shape) -> np.ndarray:
    """Numbers with many ties, or of any bits, or a single NaN among others; some of them the same along some axes."""
    kind = rng.random()
    if kind > 0.9 and dtype in FLOATS and math.prod(shape):
        numbers = rng.standard_normal(shape).astype(dtype)
        numbers.flat[int(rng.integers(numbers.size))] = np.nan
        return numbers
    return repeated(rng, (random_items if kind < 0.15 else random_numbers)(rng, dtype, shape))
