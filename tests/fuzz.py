"""Random calls of every public function, valid, subtly wrong and hostile, held against `reference`.

    python tests/fuzz.py --seconds 30 --seed 7            # cases until the time is up; the first difference ends it
    python tests/fuzz.py --seed 7 --case 1234             # that one again

The cases run in a process of their own, so that one that kills it is named too.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import reference
from cases import FLOATS, INTEGERS, MOVED, POOL, UNPOOL, bits, layout, random_items, random_numbers

import cunpool as cu
from cunpool import _arrays, _threads

UNPOOL_BACKWARD = {n: getattr(cu, f"max_unpool{n}d_backward") for n in (1, 2, 3)}
POOL_BACKWARD = {n: getattr(cu, f"max_pool{n}d_backward") for n in (1, 2, 3)}
INDICES = [*map(np.dtype, ("i4", "i8", "i8", "i8")), *INTEGERS, *map(np.dtype, (">i2", ">i4", ">i8", ">u4", ">u8"))]
REFUSALS = (TypeError, ValueError, IndexError, OverflowError, MemoryError)
HUGE = (2**15, 2**31 - 1, 2**31, 2**32, 2**59, 2**60, 2**60 + 1, 2**61, 2**62, 2**63 - 1, 2**63, 2**64, 10**30)
NONSENSE = (0, -1, -(2**31), -(2**63), -(10**30), True, None, 1.5, float("nan"), "2", (), (1,) * 4, [[2]], {}, object())
MARGIN = 96


class Difference(Exception):
    """What came out is not what should have."""


def hold(condition, what: str) -> None:
    if not condition:
        raise Difference(what)


class Guarded:
    """An array within a buffer, at any place and with any strides, and the bytes around it."""

    def __init__(self, rng, shape, dtype) -> None:
        self.arguments = shape, np.dtype(dtype)
        reach = item = np.dtype(dtype).itemsize
        strides = [0] * len(shape)
        order = range(len(shape))[::-1] if rng.random() < 0.4 else rng.permutation(len(shape)).tolist()
        loose = rng.random() < 0.5
        for axis in order:
            gap = int(rng.choice([0, 0, item, 3 * item, 1])) if loose else 0
            strides[axis] = (reach + gap) * (-1 if loose and rng.random() < 0.2 else 1)
            reach += (reach + gap) * (max(shape[axis], 1) - 1)
        before = -sum(s * (max(size, 1) - 1) for s, size in zip(strides, shape, strict=True) if s < 0)
        self.strides = tuple(strides)
        self.offset = MARGIN + before + int(rng.choice([0, 0, 0, 1, item]))
        self.raw = rng.integers(0, 256, reach + 2 * MARGIN + item, np.uint8)
        self.array = self.within(self.raw)
        self.before = self.raw.copy()

    def within(self, raw) -> np.ndarray:
        shape, dtype = self.arguments
        return np.ndarray(shape, dtype, raw, self.offset, self.strides)

    def check(self) -> None:
        """Nothing but the array has changed."""
        plain = Guarded.__new__(Guarded)
        plain.arguments = self.arguments[0], np.dtype((np.void, self.arguments[1].itemsize))
        plain.offset, plain.strides = self.offset, self.strides
        plain.within(self.before)[...] = plain.within(self.raw)
        wrong = np.flatnonzero(self.before != self.raw)
        hold(not wrong.size, f"bytes beside out were written: {wrong[:9] - self.offset} from its start, {self.strides}")


def same(result, expected, what: str) -> None:
    hold(isinstance(result, np.ndarray), f"{what}: a {type(result)}")
    hold((result.shape, result.dtype) == (expected.shape, expected.dtype),
         f"{what}: {result.shape} {result.dtype} instead of {expected.shape} {expected.dtype}")  # fmt: skip
    if bits(result) != bits(expected):
        size = np.dtype((np.void, result.dtype.itemsize))
        raw, other = (np.ascontiguousarray(a).view(size).reshape(a.shape) for a in (result, expected))
        at = tuple(map(int, np.argwhere(raw != other)[0]))
        raise Difference(f"{what}: {result[at]} instead of {expected[at]} at {at}")


def same_numbers(result, expected, what: str) -> None:
    """Of a sum that is no number, the bits do not matter."""
    hold(isinstance(result, np.ndarray) and result.shape == expected.shape, f"{what}: another shape")
    nan = np.isnan(expected)
    hold(np.array_equal(np.isnan(result), nan), f"{what}: other cells are NaN")
    same(np.where(nan, np.zeros((), result.dtype), result), np.where(nan, np.zeros((), result.dtype), expected), what)


class Window:
    """A geometry: the arguments of a call, and what follows from them by the definitions."""

    def __init__(self, rng, n: int) -> None:
        self.n = n
        top = {1: 90, 2: 12, 3: 6}[n]
        while True:
            if rng.random() < 0.35:  # the windows that have loops of their own
                k = int(rng.choice([2, 2, 3]))
                self.kernel, self.stride, self.padding, self.dilation = k, None if k == 2 else 2, k // 3, 1
            else:
                self.kernel, self.dilation = self.some(rng, 1, 5), self.some(rng, 1, 3)
                self.stride = None if rng.random() < 0.3 else self.some(rng, 1, 5)
                self.padding = tuple(int(rng.integers(0, k // 2 + 1)) for k in reference.each(self.kernel, n))
                self.padding = 0 if rng.random() < 0.4 else self.padding
            self.ceil = bool(rng.integers(2))
            self.full = tuple(rng.integers(1, top + 1, n).tolist())
            if rng.random() < 0.12:  # one long axis
                axis = int(rng.integers(n))
                long = {1: 9000, 2: 700, 3: 300}[n]
                self.full = tuple(min(size, 4) for size in self.full)
                self.full = (*self.full[:axis], int(rng.integers(1, long)), *self.full[axis + 1 :])
            self.pooled = tuple(map(reference.pooled_size, self.full, *self.axes(), (self.ceil,) * n))
            if min(self.pooled) >= 1:
                break
        taps = np.prod(reference.each(self.kernel, n))
        self.shape = self.lead(rng, int(np.prod(self.full)) + int(np.prod(self.pooled) * taps))

    def some(self, rng, low, high):
        if rng.random() < 0.5:
            return int(rng.integers(low, high + 1))
        return tuple(rng.integers(low, high + 1, self.n).tolist())

    @staticmethod
    def lead(rng, cost: int) -> tuple[int, ...]:
        most = max(3000 // cost, 1)
        shape = int(rng.choice([0, 1, 1, 2, 3])), int(rng.choice([0, 1, 1, 2, 3, 8, 9, 17, 40], p=[0.04, *[0.12] * 8]))
        shape = tuple(min(size, most) for size in shape) if np.prod(shape) > most else shape
        return shape if rng.random() < 0.7 else shape[1:]

    def axes(self):
        stride = self.kernel if self.stride is None else self.stride
        return tuple(reference.each(v, self.n) for v in (self.kernel, stride, self.padding, self.dilation))

    @property
    def keywords(self):
        return {"kernel_size": self.kernel, "stride": self.stride, "padding": self.padding, "dilation": self.dilation}

    def codes(self, places) -> tuple[np.ndarray, np.ndarray]:
        """Window codes of places, and which places have one."""
        kernel, stride, padding, dilation = self.axes()
        cells = int(np.prod(self.full))
        right = (places >= 0) & (places < cells)
        codes = np.zeros(places.shape, np.int64)
        at = _arrays.unravel(np.where(right, places, 0), self.full)
        for axis, (a, k, s, p, d) in enumerate(zip(at, kernel, stride, padding, dilation, strict=True)):
            start = (np.arange(places.shape[axis - self.n]) * s - p).reshape((-1,) + (1,) * (self.n - 1 - axis))
            tap, rest = np.divmod(a - start, d)
            right &= (rest == 0) & (tap >= 0) & (tap < k)
            codes = codes * k + tap
        return np.where(right, codes, 0).astype(np.uint8), right

    def places(self, rng, full, pooled) -> np.ndarray | None:
        """For each window of each plane a random cell of it; None if some window has none."""
        cells = list(reference.windows(pooled, self.n, *self.axes(), full))
        if not all(cells):
            return None
        planes = int(np.prod(self.shape))
        chosen = [[row[int(rng.integers(len(row)))] for row in cells] for _ in range(planes)]
        return np.array(chosen, np.int64).reshape(self.shape + pooled)

    def __repr__(self) -> str:
        return f"{self.n}d {self.shape} full {self.full} pooled {self.pooled} ceil {self.ceil} {self.keywords}"


def strided(rng, array) -> np.ndarray:
    """The same numbers in some layout."""
    if rng.random() < 0.5:
        return layout(rng, array)
    guarded = Guarded(rng, array.shape, array.dtype)
    guarded.array[...] = array
    return guarded.array


def one_of(rng, choices):
    return choices[int(rng.integers(len(choices)))]


def threads(rng):
    return one_of(rng, (None, 1, 2, 3, 7))


def refused(call, *errors) -> Exception:
    try:
        call()
    except errors as error:
        return error
    except Exception as error:
        raise Difference(f"{type(error).__name__} instead of {[e.__name__ for e in errors]}: {error}") from error
    raise Difference(f"accepted, instead of {[e.__name__ for e in errors]}")


def pool(rng) -> None:
    w = Window(rng, int(rng.integers(1, 4)))
    dtype = one_of(rng, INTEGERS + FLOATS + [np.dtype(">f4"), np.dtype(">i2"), np.dtype(bool)])
    plain = random_numbers(rng, dtype.newbyteorder("="), w.shape + w.full).astype(dtype)
    x = strided(rng, plain)
    values, indices = reference.max_pool(plain, w.n, w.kernel, w.stride, w.padding, w.dilation, w.ceil)
    arguments = w.kernel, w.stride, w.padding, w.dilation, w.ceil
    what = f"{w} {dtype} strides {x.strides}"
    result = POOL[w.n](x, *arguments, return_indices=True, num_threads=threads(rng))
    same(result[0], values.astype(dtype), f"values of max_pool {what}")
    same(result[1], indices, f"indices of max_pool {what}")
    same(POOL[w.n](x, *arguments, num_threads=threads(rng)), values.astype(dtype), f"max_pool alone {what}")
    codes, right = w.codes(indices)
    result = POOL[w.n](x, *arguments, return_indices=True, index_format="window", num_threads=threads(rng))
    same(result[0], values.astype(dtype), f"values of max_pool, window codes, {what}")
    same(np.where(right, result[1], np.uint8(0)), codes, f"codes of max_pool {what}")
    same(x, plain, f"max_pool changed its input {what}")
    # Into given arrays, over the input perhaps; what is not given is made.
    kind = one_of(rng, [np.dtype(c) for c in ("i4", "i8", "u1", "u2")])
    style = {"index_format": "window" if kind.kind == "u" else "plane"}
    places, (again,) = some_out(rng, w, indices.shape, kind, x)
    into, (again,) = some_out(rng, w, values.shape, dtype, again) if again is x else (None, (again,))
    if places is None and kind == np.int32:
        style["index_dtype"] = one_of(rng, ("i4", np.int32))
    what = f"max_pool {what} into {into and into.strides} and {kind} {places and places.strides}"
    out = tuple(array if array is None else array.array for array in (into, places))
    result = POOL[w.n](again, *arguments, return_indices=True, num_threads=threads(rng), out=out, **style)
    same(result[0], values.astype(dtype), f"values of {what}")
    if kind.kind == "u" and places is None:
        kind = np.dtype(np.uint8)
    hold(result[1].dtype == kind, f"{result[1].dtype}: {what}")
    if style["index_format"] == "plane":
        same(result[1], indices.astype(kind), f"indices of {what}")
    else:
        same(np.where(right, result[1], kind.type(0)), codes.astype(kind), f"codes of {what}")
    for guarded, array in zip((into, places), result, strict=True):
        if guarded is not None:
            hold(array is guarded.array, f"out was not returned: {what}")
            guarded.check()


def overlapped(rng, out: Guarded, array):
    """`array` copied into the buffer of `out`, over whatever part of that, or None if it does not fit."""
    room = out.raw.size - array.nbytes
    if room < 0 or not array.size:
        return None
    part = np.ndarray(array.shape, array.dtype, out.raw, int(rng.integers(room + 1)))
    part[...] = array
    out.before = out.raw.copy()
    return part


def some_out(rng, w, shape, dtype, *inputs):
    """Maybe an `out`, and the inputs, of which one may overlap it."""
    inputs = list(inputs)
    if rng.random() < 0.3:
        return None, inputs
    out = Guarded(rng, shape, dtype)
    if rng.random() < 0.25:
        which = int(rng.integers(len(inputs)))
        part = overlapped(rng, out, inputs[which])
        inputs[which] = inputs[which] if part is None else part
    return out, inputs


def unpool_arguments(rng):
    """A geometry of unpooling with its right indices, and its codes if there are any."""
    w = Window(rng, int(rng.integers(1, 4)))
    default = reference.default_size(w.pooled, w.n, w.kernel, w.stride, w.padding, w.dilation)
    strides = w.axes()[1]
    size = None
    full = default
    if rng.random() < 0.4 or min(default) < 1:
        full = tuple(int(rng.integers(max(d - s + 1, 1), max(d + s, 2))) for d, s in zip(default, strides, strict=True))
        if not all(d - s < f < d + s for f, d, s in zip(full, default, strides, strict=True)):
            return unpool_arguments(rng)
        size = full if rng.random() < 0.5 else (int(rng.integers(9)), 7, *full)
    w.full = full
    cells = int(np.prod(full))
    places = w.places(rng, full, w.pooled)
    codes = None
    if places is not None and rng.random() < 0.7:
        codes = w.codes(places)[0]
        if rng.random() < 0.2:
            codes = codes.astype(one_of(rng, INDICES))
        if rng.random() < 0.4 and places.size:  # a stray
            places.flat[int(rng.integers(places.size))] = int(rng.integers(cells))
            codes = None
    else:
        places = rng.integers(0, cells, w.shape + w.pooled)
    return w, size, places, codes


def narrowed(rng, places):
    """In some dtype that has room for them."""
    dtype = one_of(rng, INDICES)
    fits = not places.size or places.max() <= np.iinfo(dtype).max
    return places.astype(dtype) if fits else places


def unpool(rng) -> None:
    w, size, places, codes = unpool_arguments(rng)
    dtype = one_of(rng, MOVED)
    plain = random_items(rng, dtype, places.shape)
    expected = reference.max_unpool(plain, places, w.n, w.full)
    chosen, given = ("window", codes) if codes is not None and rng.random() < 0.6 else ("plane", narrowed(rng, places))
    out, (values, given) = some_out(rng, w, expected.shape, dtype, strided(rng, plain), strided(rng, given))
    strides = values.strides, given.strides, out and out.strides
    what = f"max_unpool {w} to {size} {dtype} {chosen} {given.dtype} strides {strides}"
    before = bits(given)
    result = UNPOOL[w.n](values, given, **w.keywords, output_size=size, index_format=chosen, num_threads=threads(rng),
                         out=None if out is None else out.array)  # fmt: skip
    same(result, expected, what)
    if out is None:
        same(values, plain, f"values changed: {what}")
        hold(bits(given) == before, f"indices changed: {what}")
    else:
        hold(result is out.array, f"out was not returned: {what}")
        out.check()


def unpool_backward(rng) -> None:
    w, _, places, codes = unpool_arguments(rng)
    dtype = one_of(rng, MOVED)
    plain = random_items(rng, dtype, w.shape + w.full)
    raw = reference.planes(plain, w.n).view((np.void, dtype.itemsize)).reshape(-1, int(np.prod(w.full)))
    expected = np.take_along_axis(raw, places.reshape(len(raw), int(np.prod(w.pooled))), 1)
    expected = expected.view(dtype).reshape(places.shape)
    chosen, given = ("window", codes) if codes is not None and rng.random() < 0.6 else ("plane", narrowed(rng, places))
    out, (grad, given) = some_out(rng, w, expected.shape, dtype, strided(rng, plain), strided(rng, given))
    what = f"max_unpool_backward {w} {dtype} {chosen} {given.dtype} strides {grad.strides} {given.strides}"
    result = UNPOOL_BACKWARD[w.n](grad, given, **w.keywords, index_format=chosen, num_threads=threads(rng),
                                  out=None if out is None else out.array)  # fmt: skip
    same(result, expected, what)
    if out is not None:
        hold(result is out.array, f"out was not returned: {what}")
        out.check()


def added(grad, places, n, full):
    """One addition after the other, in raster order and in the numbers' own precision."""
    result = np.zeros((int(np.prod(places.shape[:-n])), int(np.prod(full))), grad.dtype)
    for plane, (row, cells) in enumerate(zip(reference.planes(grad, n), reference.planes(places, n), strict=True)):
        for value, cell in zip(row.ravel(), cells.ravel(), strict=True):
            result[plane, cell] = result[plane, cell] + value
    return result.reshape(places.shape[:-n] + tuple(full))


def pool_backward(rng) -> None:
    w = Window(rng, int(rng.integers(1, 4)))
    places = w.places(rng, w.full, w.pooled)
    if places is None or rng.random() < 0.3:
        places, codes = rng.integers(0, int(np.prod(w.full)), w.shape + w.pooled), None
    else:
        codes = w.codes(places)[0]
    native = one_of(rng, FLOATS)
    dtype = native.newbyteorder() if native.kind == "f" and rng.random() < 0.1 else native
    plain = random_numbers(rng, native, places.shape)
    with np.errstate(all="ignore"):
        expected = added(plain, places, w.n, w.full).astype(dtype)
    chosen, given = ("window", codes) if codes is not None and rng.random() < 0.6 else ("plane", narrowed(rng, places))
    grad = strided(rng, plain.astype(dtype))
    out, (grad, given) = some_out(rng, w, expected.shape, dtype, grad, strided(rng, given))
    if dtype != native:
        out = None  # it would have to be of the machine's byte order
    what = f"max_pool_backward {w} {dtype} {chosen} {given.dtype} strides {grad.strides} {given.strides}"
    size = w.full if rng.random() < 0.5 else w.shape + w.full
    result = POOL_BACKWARD[w.n](grad, given, size, **w.keywords, index_format=chosen, num_threads=threads(rng),
                                out=None if out is None else out.array)  # fmt: skip
    same_numbers(result, expected, what)
    if out is not None:
        hold(result is out.array, f"out was not returned: {what}")
        out.check()


def convert(rng) -> None:
    w = Window(rng, int(rng.integers(1, 4)))
    places = w.places(rng, w.full, w.pooled)
    if places is None:
        return
    batch, channels, cells = (1, *w.shape)[-2], w.shape[-1], int(np.prod(w.full))
    plane = np.arange(batch * channels).reshape(w.shape + (1,) * w.n)
    item, channel = plane // max(channels, 1), plane % max(channels, 1)
    formats = {
        "plane": places,
        "window": w.codes(places)[0],
        "onnx": plane * cells + places,
        "tf": places * channels + channel,
        "tf_batch": (item * cells + places) * channels + channel,
    }
    source, target = one_of(rng, list(formats)), one_of(rng, list(formats))
    size = w.full
    if len(w.shape) == 2 and rng.random() < 0.5 and isinstance(w.kernel, tuple):
        size = w.shape + w.full
    given = strided(rng, narrowed(rng, formats[source]))
    what = f"convert_indices {source} {target} {w} {given.dtype}"
    same(cu.convert_indices(given, source, target, input_size=size, **w.keywords), formats[target], what)
    if places.size:
        wrong = formats[source].astype(np.int64)
        position = int(rng.integers(wrong.size))
        wrong.flat[position] = one_of(rng, (-1, -(2**63), 2**63 - 1, cells * max(plane.size, 1) * 200))
        error = refused(lambda: cu.convert_indices(wrong, source, target, input_size=size, **w.keywords), IndexError)
        at = tuple(map(int, np.unravel_index(position, wrong.shape)))
        hold(f"at position {at} " in str(error), f"{error}: not {at}: {what}")


def wrong_indices(rng) -> None:
    """The first bad index, or code, is named, and nothing is written beside `out`."""
    w, size, places, codes = unpool_arguments(rng)
    if not places.size:
        return
    cells, taps = int(np.prod(w.full)), int(np.prod(reference.each(w.kernel, w.n)))
    formats = "plane"
    if codes is not None and rng.random() < 0.5:
        formats, wrong = "window", codes.astype(one_of(rng, [np.dtype(c) for c in ("u1", "u1", "i8", "u2", "i4")]))
        bad = (taps, 255)
    else:
        wrong = places.astype(one_of(rng, [np.dtype(c) for c in ("i8", "i8", "i4", "u8", ">i8", "u4")]))
        bad = (-1, cells, cells + 1, 2**31 - 1, -(2**31), 2**32, 2**32 + 1, 2**63 - 1, -(2**63), 2**64 - 1)
    limits = np.iinfo(wrong.dtype)
    bad = [b for b in bad if limits.min <= b <= limits.max and not 0 <= b < (taps if formats == "window" else cells)]
    if not bad:
        return
    positions = sorted({int(rng.integers(wrong.size)) for _ in range(int(rng.integers(1, 4)))})
    for position in positions:
        wrong.flat[position] = one_of(rng, bad)
    at = tuple(map(int, np.unravel_index(positions[0], wrong.shape)))
    given = strided(rng, wrong)
    kind = int(rng.integers(3))
    dtype = one_of(rng, FLOATS if kind == 2 else MOVED)
    full = w.shape + w.full
    out = Guarded(rng, places.shape if kind == 1 else full, dtype)
    array = out.array if rng.random() < 0.8 else None
    keywords = {"index_format": formats, "num_threads": threads(rng), "out": array, **w.keywords}
    if kind == 0:
        values = strided(rng, random_items(rng, dtype, places.shape))
        error = refused(lambda: UNPOOL[w.n](values, given, output_size=size, **keywords), IndexError)
    elif kind == 1:
        grad = strided(rng, random_items(rng, dtype, full))
        error = refused(lambda: UNPOOL_BACKWARD[w.n](grad, given, **keywords), IndexError)
    else:
        grad = strided(rng, random_numbers(rng, dtype, places.shape))
        errors = (IndexError, ValueError)  # where unpooling takes a size that pooling does not give
        error = refused(lambda: POOL_BACKWARD[w.n](grad, given, w.full, **keywords), *errors)
    hold(isinstance(error, ValueError) or f"at position {at} " in str(error),
         f"{error}: not {at}: {w} {formats} {given.dtype} kind {kind}")  # fmt: skip
    out.check()


def refusals(rng) -> None:
    """A right call with one thing wrong is refused, and nothing is written."""
    w, size, places, _ = unpool_arguments(rng)
    if not places.size:
        return
    values, full = np.ones(places.shape, np.float32), w.shape + w.full
    out = Guarded(rng, full, np.float32)
    call = {"input": values, "indices": places, **w.keywords, "output_size": size, "out": out.array}
    n = w.n
    beyond = tuple(f + 2 * s for f, s in zip(w.full, w.axes()[1], strict=True))
    readonly = out.array.view()
    readonly.flags.writeable = False
    mutations = [
        {"indices": places[..., :-1]},
        {"indices": places[None]},
        {"indices": places.astype(np.float64)},
        {"indices": places.astype(bool)},
        {"indices": places.astype(object)},
        {"indices": places.astype("M8[s]")},
        {"input": values.astype(object)},
        {"input": values.astype("U4")},
        {"input": values[(None,) * 3]},
        {"input": np.float32(1)},
        {"input": None},
        {"output_size": beyond},
        {"output_size": (0,) * n},
        {"output_size": (*w.full, 1)},
        {"output_size": w.full[0]},
        {"output_size": [float(f) for f in w.full]},
        {"out": readonly},
        {"out": out.array[..., :-1]},
        {"out": np.zeros(full)},
        {"out": out.array.view(">f4") if sys.byteorder == "little" else out.array.view("<f4")},
        {"out": out.array.tolist()},
        {"out": np.broadcast_to(np.float32(0), full)},
        {"num_threads": one_of(rng, (0, -1, 1.0, True, "2", -(2**70)))},
        {"index_format": one_of(rng, ("onnx", "", None, 1, "Plane"))},
    ]
    if np.prod(full) > 1:
        mutations.append({"out": np.lib.stride_tricks.as_strided(np.zeros(1, "f4"), full, (0,) * len(full))})
    for name in ("kernel_size", "stride", "padding", "dilation"):
        bad = [v for v in NONSENSE if (v, name) not in ((None, "stride"), (0, "padding"))]
        mutations.append({name: one_of(rng, bad)})
    mutation = one_of(rng, mutations)
    try:
        refused(lambda: UNPOOL[n](**{**call, **mutation}), TypeError, ValueError, OverflowError)
    except Difference as error:
        raise Difference(f"{error}: {mutation} in {w}") from error
    hold((out.before == out.raw).all(), f"something was written although refused: {mutation} in {w}")


def hostile_array(rng, n: int, dtype) -> np.ndarray:
    """Few or no cells in memory, whatever the shape says."""
    kind = int(rng.integers(5))
    axes = n + int(rng.integers(1, 3))
    if kind == 0:  # large, but empty
        shape = [int(one_of(rng, (0, 1, 2**20, 2**31, 2**40))) for _ in range(axes)]
        shape[int(rng.integers(axes))] = 0
        try:
            return np.empty(shape, dtype)
        except ValueError:
            return np.empty((0,) * axes, dtype)
    if kind == 1:  # strides that mean nothing, of axes of one
        strides = [int(one_of(rng, (0, 1, -1, 2**31, 2**62, -(2**62), 2**63 - 8, -(2**63) + 8))) for _ in range(axes)]
        return np.lib.stride_tricks.as_strided(np.ones(1, dtype), (1,) * axes, strides)
    if kind == 2:  # some of them with such strides, and one that is real
        shape, strides = [1] * axes, [int(one_of(rng, (2**61, -(2**61), 2**63 - 8, 3))) for _ in range(axes)]
        axis = int(rng.integers(axes))
        shape[axis], strides[axis] = 40, np.dtype(dtype).itemsize
        return np.lib.stride_tricks.as_strided(np.ones(40, dtype), shape, strides)
    if kind == 3:
        return np.broadcast_to(np.ones((), dtype), tuple(rng.integers(1, 5, axes).tolist()))
    return np.ones(tuple(rng.integers(0, 4, int(rng.integers(0, 7)))), dtype)


def hostile_size(rng, n: int):
    def one():
        if rng.random() < 0.45:
            return int(rng.integers(1, 4))
        return one_of(rng, HUGE + NONSENSE) if rng.random() < 0.7 else int(one_of(rng, HUGE)) - int(rng.integers(4))

    if rng.random() < 0.5:
        return one()
    return tuple(one() for _ in range(n if rng.random() < 0.9 else int(rng.integers(5))))


def hostile(rng) -> None:
    """Anything at all: it comes back with a result or one of a few errors."""
    n = int(rng.integers(1, 4))
    dtype = one_of(rng, [np.dtype(c) for c in ("f4", "f8", "u1", "D", "f2")])
    x = hostile_array(rng, n, dtype)
    given = hostile_array(rng, n, one_of(rng, INDICES))
    if x.size and rng.random() < 0.8:
        given = np.broadcast_to(one_of(rng, (0, 1, -1, -(2**63), 2**63 - 1)), x.shape)
        given = given.copy() if rng.random() < 0.5 else given
    window = {name: hostile_size(rng, n) for name in ("kernel_size", "stride", "padding", "dilation")}
    for name, plain in (("kernel_size", 2), ("stride", None), ("padding", 0), ("dilation", 1)):
        if rng.random() < 0.4:
            window[name] = plain
    # A window of two cells, far apart and as far into the padding: few cells to go through, and all sizes are large.
    if rng.random() < 0.15:
        far = 2 ** int(rng.integers(20, 60))
        window = {"kernel_size": 2, "stride": one_of(rng, (1, far, 2**60)), "padding": far // 2, "dilation": far}
        if rng.random() < 0.5:
            window["dilation"] = (far,) + (1,) * (n - 1)
            window["padding"] = (far // 2,) + (0,) * (n - 1)
    keywords = {"num_threads": one_of(rng, (None, 1, 2)), "index_format": one_of(rng, ("plane", "window"))}
    size = one_of(rng, (None, hostile_size(rng, n), x.shape[-n:], tuple(2 * s for s in x.shape[-n:])))
    functions = [
        lambda: POOL[n](x, **window, ceil_mode=one_of(rng, (True, False)), return_indices=True, **keywords),
        lambda: UNPOOL[n](x, given, **window, output_size=size, **keywords),
        lambda: UNPOOL_BACKWARD[n](x, given, **window, **keywords),
        lambda: POOL_BACKWARD[n](x, given, size, **window, **keywords),
        lambda: cu.convert_indices(given, *formats, input_size=size, **window),
    ]
    formats = rng.choice(["plane", "window", "onnx", "tf", "tf_batch"], 2).tolist()
    kernel = window["kernel_size"]
    cells = [k for k in (kernel if isinstance(kernel, tuple) else (kernel,)) if type(k) is int and k > 2**15]
    which = int(rng.integers(len(functions)))
    if which == 0 and cells and min(cells) < 2**32:
        return  # pooling looks at every cell of a window: that is long, not wrong
    try:
        functions[which]()
    except REFUSALS:
        pass
    except Exception as error:
        raise Difference(f"{type(error).__name__}: {error}: function {which}, {n}d {x.shape} {x.strides} {dtype}, "
                         f"{given.shape} {given.dtype}, {size=} {window} {keywords}") from error  # fmt: skip


KINDS = (pool, unpool, unpool, unpool_backward, pool_backward, convert, wrong_indices, wrong_indices, refusals, hostile,
         hostile)  # fmt: skip


def run_case(seed: int, number: int) -> str:
    """One case; the name of its kind."""
    rng = np.random.default_rng((seed, number))
    kind = one_of(rng, KINDS)
    # Small arrays are worked on by one thread, and lie in the C library's memory, unless these say otherwise.
    _threads.GRAIN = one_of(rng, (1, 64, 1 << 16))
    _arrays.RECYCLED = one_of(rng, (1, 1 << 20))
    kind(rng)
    return kind.__name__


def work(seed: int, seconds: float, only: int | None, journal: str | None) -> int:
    """All cases, in this process. The journal has the number of the case that is under way."""
    faulthandler.enable()
    if "libasan" not in os.environ.get("LD_PRELOAD", ""):
        try:
            import resource

            # Hostile sizes get a MemoryError instead of all of the machine's memory.
            resource.setrlimit(resource.RLIMIT_AS, (3 << 30, resource.getrlimit(resource.RLIMIT_AS)[1]))
        except (ImportError, ValueError, OSError):
            pass
    log = os.open(journal, os.O_WRONLY) if journal else None
    end, number, counts = time.monotonic() + seconds, 0, dict.fromkeys((kind.__name__ for kind in KINDS), 0)
    while time.monotonic() < end:
        case = number if only is None else only
        if log is not None:
            os.pwrite(log, f"{case:20}".encode(), 0)
        try:
            counts[run_case(seed, case)] += 1
        except Exception as error:
            print(f"case {case}: {type(error).__name__}: {error}", flush=True)
            print(f"again: python tests/fuzz.py --seed {seed} --case {case}", flush=True)
            if not isinstance(error, Difference) or only is not None:
                raise
            return 1
        number += 1
        if only is not None:
            break
    print(f"{number} cases: " + ", ".join(f"{count} {name}" for name, count in counts.items()), flush=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--case", type=int, default=None, help="that one alone")
    parser.add_argument("--journal", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    seed = int(time.time_ns() % 2**32) if chosen.seed is None else chosen.seed
    if chosen.journal or chosen.case is not None:
        return work(seed, chosen.seconds, chosen.case, chosen.journal)
    print(f"seed {seed}", flush=True)
    with tempfile.NamedTemporaryFile() as journal:
        options = f"--seconds={chosen.seconds}", f"--seed={seed}", f"--journal={journal.name}"
        try:
            # Threads that wait should not keep others from working: there are often more of them than processors.
            environment = {"OMP_WAIT_POLICY": "passive", **os.environ}
            run = subprocess.run([sys.executable, __file__, *options], env=environment, timeout=chosen.seconds + 60)
            code = run.returncode
            what = f"the process ended with {code}"
        except subprocess.TimeoutExpired:
            code, what = -1, "hangs"
        if code not in (0, 1):
            case = int(journal.read() or 0)
            print(f"case {case}: {what}\nagain: python tests/fuzz.py --seed {seed} --case {case}")
    return 1 if code else 0


if __name__ == "__main__":
    sys.exit(main())
