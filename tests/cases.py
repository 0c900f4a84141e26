"""Random geometries, dtypes and layouts, for the tests that compare."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import sys

import ml_dtypes
import numpy as np
import reference

import cunpool as cu
from cunpool._kernels import unpool as _unpool

POOL = {n: getattr(cu, f"max_pool{n}d") for n in (1, 2, 3)}
UNPOOL = {n: getattr(cu, f"max_unpool{n}d") for n in (1, 2, 3)}

OTHER = ">" if sys.byteorder == "little" else "<"  # the byte order that is not this machine's
INTEGERS = [np.dtype(c) for c in "bBhHiIqQ"]
FLOATS = [np.dtype(c) for c in "efd"] + [np.dtype(ml_dtypes.bfloat16)]
MOVED = [
    *INTEGERS,
    *FLOATS,
    *map(np.dtype, ("?", "F", "D", f"{OTHER}f4", f"{OTHER}i8", f"{OTHER}u2", "M8[s]", "m8[ms]", "V8", "i4,f4")),
    *map(np.dtype, (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)),
]
if np.dtype("g").itemsize == 16:
    MOVED.append(np.dtype("g"))

# With lower thresholds (.ci/checked) other methods serve the same sizes, and small results bypass the caches.
LOW = os.environ.get("CUNPOOL_LOW_THRESHOLDS") == "1"
ALSO = _unpool.STREAMED if LOW else 0
"""What such a build adds to the ways of unpooling."""

LARGEST = 1 << 28  # bytes that an array takes with gaps: these would make a large one a hundred times as large


def bits(array: np.ndarray) -> bytes:
    """Equal for equal shapes, dtypes and bits, whatever the layout."""
    return f"{array.shape} {array.dtype}".encode() + np.ascontiguousarray(array).tobytes()


DETAILS = {
    "planes are turned to C order": "C order",
    "planes are stacked": "stacked",
    "another axis": "width swapped",
    "a column is all channels": "units",
    "the rows of a block": "one run",
    "results are written": "streamed",
    "planes are copied": "copied",
    "planes are split": "split",
    "channels are neighbours": "channels",
    "window codes become": "decoded",
}
"""One word for each detail that `explain` has, by how it begins."""


def planned(function, *arguments, **keywords) -> frozenset[str]:
    """The method of a call, and a word for each detail of its plan."""
    plan = cu.explain(function, *arguments, **keywords)
    words = [DETAILS[begin] for begin in DETAILS if any(detail.startswith(begin) for detail in plan.details)]
    return frozenset([plan.method.partition(",")[0], *words])


def channels_last(array: np.ndarray) -> np.ndarray:
    """The same numbers, with the channels (the second axis) last in memory."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)


def random_items(rng, dtype, shape) -> np.ndarray:
    """Random bits; for bool, which has but two values, random bools."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0]


def random_numbers(rng, dtype, shape) -> np.ndarray:
    """Numbers with many ties, and in floats some NaN, infinities and negative zeros; or bools, few of them True."""
    if dtype.kind == "b":
        return rng.random(shape) < 0.2
    if dtype.kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        pool = np.array([low, low + 1, 0, 1, 2, high - 1, high], dtype)
    else:
        pool = np.array([-np.inf, -1.5, -0.0, 0.0, 1, 2, np.inf, np.nan], dtype)
        if rng.random() < 0.3:
            return rng.standard_normal(shape).astype(dtype)
    return rng.choice(pool, shape)


def layout(rng, array: np.ndarray) -> np.ndarray:
    """The same numbers under a random choice of strides."""
    kind = rng.choice(["C", "channels last", "any order", "sliced", "reversed", "unaligned", "F"])
    if kind == "channels last":
        axes = (0, *range(2, array.ndim), 1) if array.ndim > 2 else (1, 0)
    elif kind == "any order":
        axes = tuple(rng.permutation(array.ndim).tolist())
    elif kind == "F":
        return np.asfortranarray(array)
    elif kind == "sliced":
        wide = [2 * size + 1 for size in array.shape]
        if math.prod(wide) * array.itemsize > LARGEST:  # then along the last axis alone
            wide[:-1] = array.shape[:-1]
        every_second = [
            slice(1, None, 2) if room > size else slice(None) for room, size in zip(wide, array.shape, strict=True)
        ]
        part = np.zeros(wide, array.dtype)[tuple(every_second)]
        part[...] = array
        return part
    elif kind == "reversed":
        back = tuple(slice(None, None, -1) for _ in array.shape)
        return np.ascontiguousarray(array[back])[back]
    elif kind == "unaligned":
        raw = np.zeros(array.nbytes + 1, np.uint8)[1:]
        part = raw.view(array.dtype).reshape(array.shape) if array.nbytes else array
        part[...] = array
        return part
    else:
        return np.ascontiguousarray(array)
    return np.ascontiguousarray(array.transpose(axes)).transpose(np.argsort(axes))


def geometry(rng, n: int, most: int = 7, dilations: int = 3, ceil: bool = True):
    """(kernel_size, stride, padding, dilation, ceil_mode) and a full size that they fit."""

    def some(low, high):
        if rng.random() < 0.5:
            return int(rng.integers(low, high + 1))
        return tuple(rng.integers(low, high + 1, n).tolist())

    while True:
        kernel, dilation, ceil_mode = some(1, 4), some(1, dilations), ceil and bool(rng.integers(2))
        stride = None if rng.random() < 0.3 else some(1, 4)
        padding = tuple(int(rng.integers(0, k // 2 + 1)) for k in reference.each(kernel, n))
        padding = 0 if rng.random() < 0.4 else padding
        full = tuple(rng.integers(1, most + 1, n).tolist())
        strides = reference.each(kernel if stride is None else stride, n)
        pooled = map(
            reference.pooled_size,
            full,
            reference.each(kernel, n),
            strides,
            reference.each(padding, n),
            reference.each(dilation, n),
            (ceil_mode,) * n,
        )
        if min(pooled) >= 1:
            return (kernel, stride, padding, dilation, ceil_mode), full


def lead(rng) -> tuple[int, ...]:
    """N and C, or C alone."""
    shape = (int(rng.integers(1, 4)), int(rng.choice([1, 2, 3, 9, 17])))
    return shape if rng.random() < 0.7 else shape[1:]


def at_the_end_of_memory(array):
    """The same array, behind whose last byte nothing may be read or written."""
    size = -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory, start = pages(size + mmap.PAGESIZE)
    forbid(start + size)
    moved = np.frombuffer(memory, array.dtype, array.size, size - array.nbytes).reshape(array.shape)
    moved[...] = array
    return moved


def at_the_beginning_of_memory(array):
    """The same array, before whose first byte nothing may be read or written."""
    memory, start = pages(mmap.PAGESIZE + array.nbytes)
    forbid(start)
    moved = np.frombuffer(memory, array.dtype, array.size, mmap.PAGESIZE).reshape(array.shape)
    moved[...] = array
    return moved


def pages(size):
    """So many bytes of memory of their own, and the address of the first."""
    memory = mmap.mmap(-1, size)
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))


def forbid(address):
    """Let whoever reads the page that begins there be ended by a signal."""
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
