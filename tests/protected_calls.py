"""Random calls on arrays between unreadable pages, each compared with the same call on contiguous copies.

`python protected_calls.py SEED FIRST STOP` makes the calls of these numbers, and prints each one before it begins.
After a SIGSEGV the last lines are the call that ended the process.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import sys
import warnings

import numpy as np

import cunpool as cu

POOL = {n: getattr(cu, f"max_pool{n}d") for n in (1, 2, 3)}
POOL_BACKWARD = {n: getattr(cu, f"max_pool{n}d_backward") for n in (1, 2, 3)}
UNPOOL = {n: getattr(cu, f"max_unpool{n}d") for n in (1, 2, 3)}
UNPOOL_BACKWARD = {n: getattr(cu, f"max_unpool{n}d_backward") for n in (1, 2, 3)}
TAKE = {n: getattr(cu, f"take_at{n}d") for n in (1, 2, 3)}

BFLOAT16 = np.dtype([("bfloat16", np.uint16)])
INTEGERS = [*map(np.dtype, ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"))]
FLOATS = [*map(np.dtype, ("f2", "f4", "f8")), BFLOAT16]
NUMBERS = [*INTEGERS, *FLOATS, *map(np.dtype, ("f4", "f4"))]
ITEMS = [*map(np.dtype, ("u1", "i2", "f4", "f8", "c16"))]

PAGE = mmap.PAGESIZE
RUNS = 300  # runs of an array at most: to protect the pages around one takes a system call
ELEMENTS = 12_000  # of the larger array of a call
LARGE_EVERY = 250  # One call in 250 has arrays larger than the caches.
LARGE = 25 << 20  # bytes of the larger array of such a call
LARGE_RUNS = 2_500  # runs of an array of such a call at most


def one_of(rng: np.random.Generator, choices):
    return choices[int(rng.integers(len(choices)))]


def protect(address: int, size: int, readable: bool) -> None:
    """Make whole pages readable and writable, or neither."""
    allowed = mmap.PROT_READ | mmap.PROT_WRITE if readable else 0
    done = ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), allowed)
    assert done == 0, "no memory protection here"


class Layout:
    """How an array lies in memory.

    `order` has the axes, slowest first. The last `in_run` of these make a run, whose elements follow each other, `step`
    elements apart. Each run ends where an unreadable page begins, or begins where one ends. Some axes are `reversed`.
    """

    def __init__(self, rng: np.random.Generator, shape: tuple[int, ...], spatial: int, runs: int) -> None:
        ndim = len(shape)
        axes, channel = [*range(ndim)], ndim - spatial - 1
        last = [*axes[:channel], *axes[channel + 1 :], channel]
        self.order = one_of(rng, (axes, axes, axes, last, last, axes[::-1], rng.permutation(ndim).tolist()))
        self.in_run = min(one_of(rng, (1, 1, 1, 1, 2, 2, 3, 5)), ndim)
        while math.prod(shape[axis] for axis in self.order[: ndim - self.in_run]) > runs:
            self.in_run += 1
        self.step = one_of(rng, (1,) * 8 + (2, 3))
        self.reversed = [bool(back) for back in rng.random(ndim) < one_of(rng, (0, 0, 0, 0.4))]
        self.at_end = bool(rng.random() < 0.8)

    def __str__(self) -> str:
        where = "end" if self.at_end else "begin"
        back = [axis for axis, back in enumerate(self.reversed) if back]
        return f"order {self.order}, runs of {self.in_run} axes {where} at a page, step {self.step}, reversed {back}"


def protected(shape: tuple[int, ...], dtype: np.dtype, layout: Layout) -> np.ndarray:
    """An array of this layout. Each run lies between two unreadable pages."""
    ndim = len(shape)
    strides = [0] * ndim
    size = layout.step * dtype.itemsize
    for axis in reversed(layout.order[ndim - layout.in_run :]):
        strides[axis] = size
        size *= shape[axis]
    size -= (layout.step - 1) * dtype.itemsize
    readable = -(-size // PAGE) * PAGE
    pitch = readable + PAGE
    runs = 1
    for axis in reversed(layout.order[: ndim - layout.in_run]):
        strides[axis] = runs * pitch
        runs *= shape[axis]
    memory = mmap.mmap(-1, PAGE + runs * pitch, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect(start, len(memory), readable=False)
    for run in range(runs):
        protect(start + PAGE + run * pitch, readable, readable=True)
    array = np.ndarray(shape, dtype, memory, PAGE + (readable - size if layout.at_end else 0), strides)
    return array[tuple(slice(None, None, -1 if back else None) for back in layout.reversed)]


class Call:
    """One random call. `text` says of each array how it lies in memory."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.text = ""

    def place(self, name: str, plain: np.ndarray) -> np.ndarray:
        """The same elements between unreadable pages."""
        array = self.room(name, plain.shape, plain.dtype)
        np.copyto(array, plain)
        return array

    def room(self, name: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        layout = Layout(self.rng, shape, self.n, LARGE_RUNS if self.large else RUNS)
        self.text += f"\n    {name}: {shape} {dtype}, {layout}"
        return protected(shape, dtype, layout)

    def some_out(self, name: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray | None:
        return self.room(name, shape, dtype) if self.rng.random() < 0.6 else None

    def window(self, side_by_side: bool = False) -> tuple:
        """Kernel, stride, padding, dilation and ceil_mode."""
        rng, n = self.rng, self.n
        alike = rng.random() < 0.7
        kernel = tuple(int(k) for k in rng.choice([1, 2, 2, 2, 3, 3, 5], n))
        kernel = ((one_of(rng, (2, 2, 3, 5)),) * n) if alike else kernel
        stride = kernel if rng.random() < 0.5 else tuple(int(s) for s in rng.choice([1, 2, 3], n))
        if alike and stride is not kernel:
            stride = (stride[0],) * n
        padding = tuple(int(rng.integers(0, k // 2 + 1)) for k in kernel) if rng.random() < 0.3 else (0,) * n
        if side_by_side:
            stride, padding = kernel, (0,) * n
        dilation = (2,) * n if not any(padding) and rng.random() < 0.1 else (1,) * n
        return kernel, stride, padding, dilation, bool(rng.random() < 0.2)

    def sizes(self, item_size: int, window: tuple) -> tuple[int, ...]:
        """The shape of the pooled array. Its rows, or channels, have about as many windows as fill some vectors."""
        rng, n = self.rng, self.n
        if self.large:
            if 1 in window[1]:  # as many results, whose indices have 8 bytes
                item_size = max(item_size, 4)
            lead = (int(rng.integers(1, 5)), one_of(rng, (1, 3)), *(9, 5)[: n - 1])
            lead, last = lead[: n + 1], one_of(rng, (8, 24, 65, 1000, 3001))
            if n == 1:
                return (*lead, LARGE // item_size // math.prod(lead))
            return (*lead[:-1], LARGE // item_size // math.prod(lead[:-1]) // last, last)
        kernel, stride, _, dilation, _ = window
        least = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        vector = one_of(rng, (16, 32, 64, 128, 256)) // item_size
        windows = max(vector * int(rng.integers(1, 4)) // 2 + int(rng.integers(-2, 3)), 1)
        if rng.random() < 0.06:
            windows = one_of(rng, (512, 1024)) + int(rng.integers(-1, 3))
        full = [low + int(rng.integers(0, 9)) for low in least]
        channels = one_of(rng, (1, 2, 3, 4, 5))
        if rng.random() < 0.25:  # as many channels instead
            channels = min(windows, 600)
        else:
            full[-1] = max((windows - 1) * stride[-1] + least[-1] + int(rng.integers(0, 2)), least[-1])
        batch = (int(rng.integers(1, 3)),) if rng.random() < 0.6 else ()
        while math.prod(full) * channels * math.prod(batch) > ELEMENTS:
            axis = int(np.argmax(full[:-1])) if n > 1 else 0
            if channels > 5 and rng.random() < 0.5:
                channels = max(channels // 2, 1)
            elif n > 1 and full[axis] > least[axis]:
                full[axis] = max(full[axis] // 2, least[axis])
            else:
                full[-1] = max(full[-1] // 2, least[-1])
                if full[-1] == least[-1]:
                    channels = max(channels // 2, 1)
        return (*batch, channels, *full)

    def numbers(self, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        """Numbers with ties, and now and then with a NaN."""
        if dtype == BFLOAT16:
            high = np.float32(self.rng.integers(0, 9, shape)).view(np.uint32) >> 16
            return high.astype(np.uint16).view(BFLOAT16)
        values = self.rng.integers(0, 100, shape).astype(dtype)
        if dtype.kind == "f" and self.rng.random() < 0.2:
            values[self.rng.random(shape) < 0.01] = np.nan
        return values

    def make(self) -> None:
        rng = self.rng
        self.large = int(rng.integers(LARGE_EVERY)) == 0
        self.n = one_of(rng, (1, 2, 2, 2, 3))
        kinds = (self.pool,) * 10 + (self.unpool,) * 5 + (self.backward, self.gather, self.take) * 2
        kind = one_of(rng, (*kinds, self.convert))
        self.threads = one_of(rng, (1, 1, 1, 2))
        kind()

    def run(self, function, *arguments, **named) -> object:
        plain = ", ".join(f"{key}={value!r}" for key, value in named.items() if key != "out")
        arrays = [value for value in arguments if isinstance(value, np.ndarray)]
        rest = ", ".join(repr(value) for value in arguments[len(arrays) :])
        tell(f"{function.__name__}({len(arrays)} arrays, {rest}, {plain}){self.text}")
        return function(*arguments, **named, num_threads=self.threads)

    def pooled(self, dtype: np.dtype, window: tuple, codes: bool) -> tuple:
        """Numbers, their maxima and indices, all contiguous."""
        x = self.numbers(dtype, self.sizes(dtype.itemsize, window))
        return x, *self.maxima(x, window, codes)

    def maxima(self, x: np.ndarray, window: tuple, codes: bool) -> cu.pooling.MaxPoolResult:
        form = {"index_format": "window"} if codes else {"index_dtype": one_of(self.rng, (np.int32, np.int64))}
        return POOL[self.n](x, *window, return_indices=True, **form)

    def pool(self) -> None:
        rng = self.rng
        window, codes = self.window(), bool(rng.random() < 0.3)
        x, y, indices = self.pooled(one_of(rng, NUMBERS), window, codes)
        given = self.place("input", x)
        if rng.random() < 0.6:
            out = self.some_out("out", y.shape, y.dtype)
            same(self.run(POOL[self.n], given, *window, out=out), y)
            return
        out = self.some_out("out[0]", y.shape, y.dtype), self.some_out("out[1]", y.shape, indices.dtype)
        form = {"index_format": "window"} if codes else {"index_dtype": indices.dtype}
        values, places = self.run(POOL[self.n], given, *window, return_indices=True, out=out, **form)
        same(values, y)
        same(places, indices)

    def moved(self, dtypes: list[np.dtype]) -> tuple:
        """A window, and values and indices to be unpooled with it to a size."""
        rng = self.rng
        codes = bool(rng.random() < 0.35)
        dtype = one_of(rng, dtypes)
        kernel, stride, padding, dilation, _ = window = self.window(side_by_side=rng.random() < 0.7)
        x = rng.integers(0, 99, self.sizes(dtype.itemsize, window), np.uint8)
        y, indices = self.maxima(x, window, codes)
        values = self.numbers(dtype, y.shape)
        if not codes and rng.random() < 0.1:  # indices outside their windows
            indices = rng.integers(0, math.prod(x.shape[-self.n :]), y.shape).astype(indices.dtype)
        form = {"index_format": "window"} if codes else {}
        return (kernel, stride, padding), dilation, x.shape, values, indices, form

    def unpool(self) -> None:
        window, dilation, size, values, indices, form = self.moved(ITEMS)
        expected = UNPOOL[self.n](values, indices, *window, size, dilation=dilation, **form)
        arrays = self.place("input", values), self.place("indices", indices)
        out = self.some_out("out", size, values.dtype)
        same(self.run(UNPOOL[self.n], *arrays, *window, size, dilation=dilation, out=out, **form), expected)
        if self.rng.random() < 0.5:
            self.unpool_onto(expected, values, indices, *window, size, dilation=dilation, **form)
        if self.rng.random() < 0.1:
            self.refused(UNPOOL[self.n], *arrays, *window, size, dilation=dilation, out=out, **form)

    def unpool_onto(self, expected: np.ndarray, values: np.ndarray, *rest, **named) -> None:
        """The same onto another array, into itself perhaps, or onto a number."""
        is_stored = UNPOOL[self.n](np.ones(values.shape, bool), *rest, **named)
        below = self.numbers(values.dtype, expected.shape)
        kind = int(self.rng.integers(3))
        if kind == 2:
            below[...] = below[(0,) * below.ndim]
            more = {"fill_value": below[(0,) * below.ndim]}
        else:
            *rest, _ = rest  # the size
            more = {"onto": self.place("onto", below)}
        below[is_stored] = expected[is_stored]
        out = more["onto"] if kind == 1 else self.some_out("out", below.shape, below.dtype)
        given = self.place("input", values), self.place("indices", rest[0])
        tell(f"with {[*more]}, out is onto: {kind == 1}{self.text}")
        same(UNPOOL[self.n](*given, *rest[1:], **named, **more, out=out, num_threads=self.threads), below)

    def refused(self, function, values, indices, *arguments, **named) -> None:
        """The same with an index that is none."""
        indices[tuple(int(self.rng.integers(size)) for size in indices.shape)] = np.iinfo(indices.dtype).max
        try:
            self.run(function, values, indices, *arguments, **named)
        except IndexError:
            return
        raise AssertionError("a bad index was taken")

    def backward(self) -> None:
        window, dilation, size, values, indices, form = self.moved(FLOATS)
        expected = POOL_BACKWARD[self.n](values, indices, size, *window, dilation, **form)
        arrays = self.place("grad_output", values), self.place("indices", indices)
        out = self.some_out("out", size, values.dtype)
        same(self.run(POOL_BACKWARD[self.n], *arrays, size, *window, dilation, out=out, **form), expected)

    def gather(self) -> None:
        window, dilation, size, values, indices, form = self.moved(ITEMS)
        grad = self.numbers(values.dtype, size)
        expected = UNPOOL_BACKWARD[self.n](grad, indices, *window, dilation=dilation, **form)
        arrays = self.place("grad_output", grad), self.place("indices", indices)
        out = self.some_out("out", values.shape, values.dtype)
        same(self.run(UNPOOL_BACKWARD[self.n], *arrays, *window, dilation=dilation, out=out, **form), expected)

    def take(self) -> None:
        window, dilation, size, values, indices, form = self.moved(ITEMS)
        if not form and self.rng.random() < 0.3:  # any number of indices, which no pooling has to give
            shape = tuple(int(self.rng.integers(1, most + 1)) for most in indices.shape[-self.n :])
            indices = self.rng.integers(0, math.prod(size[-self.n :]), (*size[: -self.n], *shape), indices.dtype)
        x = self.numbers(values.dtype, size)
        expected = TAKE[self.n](x, indices, *window, dilation=dilation, **form)
        arrays = self.place("input", x), self.place("indices", indices)
        out = self.some_out("out", indices.shape, x.dtype)
        same(self.run(TAKE[self.n], *arrays, *window, dilation=dilation, out=out, **form), expected)
        if self.rng.random() < 0.1:
            self.refused(TAKE[self.n], *arrays, *window, dilation=dilation, out=out, **form)

    def convert(self) -> None:
        kernel, stride, padding, dilation, _ = window = self.window()
        codes = bool(self.rng.random() < 0.5)
        x, _, indices = self.pooled(np.dtype(np.float32), window, codes)
        given = self.place("indices", indices)
        formats = ("window", "plane") if codes else ("plane", one_of(self.rng, ("window", "onnx", "tf_batch")))
        sizes = {"input_size": x.shape, "kernel_size": kernel, "stride": stride, "padding": padding}
        tell(f"convert_indices({formats}, {sizes}, dilation={dilation}){self.text}")
        same(
            cu.convert_indices(given, *formats, **sizes, dilation=dilation),
            cu.convert_indices(indices, *formats, **sizes, dilation=dilation),
        )


def same(result: np.ndarray, expected: np.ndarray) -> None:
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    assert np.ascontiguousarray(result).tobytes() == np.ascontiguousarray(expected).tobytes(), "another result"


def tell(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    seed, first, stop = map(int, sys.argv[1:])
    warnings.simplefilter("ignore")
    for number in range(first, stop):
        tell(f"call {number}")
        Call(np.random.default_rng((seed, number))).make()
    tell("end")


if __name__ == "__main__":
    main()
