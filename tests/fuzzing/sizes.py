"""Which sizes a case has: on both sides of whatever the kernels decide by, and within a bound of what that costs."""

from __future__ import annotations

import math

import numpy as np
import reference
import vectorised

from fuzzing.arrays import one_of, repeated

# What the kernels hold sizes against, and what their buffers hold: widths, rows, channels, cells of windows, planes.
DECISIVE = (2, 3, 4, 8, 9, 10, 16, 24, 32, 40, 64, 128, 256, 512, 1024, 2048, 4096)
MOST_CHANNELS = 3000
NAMES = "same", "same_lower"
# Cells that a row of windows needs, about, where pooling's buffers are full.
BLOCK = 4096
# Bytes of the full array of a large case, and cells: beyond some 24 MiB results go past the caches.
LARGE = 12 << 20, 56 << 20
MOST_CELLS = 9_000_000


def log_uniform(rng, low: float, high: float) -> int:
    """Small and large numbers, as likely between 10 and 20 as between 1000 and 2000."""
    return int(math.exp(rng.uniform(math.log(low), math.log(high + 1))))


def decisive(rng, most: int) -> int:
    """A number that something may depend on, or one more, or one less."""
    return max(int(rng.choice([n for n in DECISIVE if n <= most + 1])) + int(rng.choice([-1, 0, 0, 1])), 1)


def some_channels(rng) -> int:
    kind = rng.random()
    if kind < 0.7:
        return int(rng.choice([0, 1, 2, 3, 8, 9, 17, 40], p=[0.04, 0.32, *[0.64 / 6] * 6]))
    return log_uniform(rng, 1, MOST_CHANNELS) if kind < 0.85 else decisive(rng, MOST_CHANNELS)


def same_or_each(rng, n: int, draw):
    """An integer for all axes, or one for each."""
    return draw() if rng.random() < 0.4 else tuple(draw() for _ in range(n))


class Window:
    """A geometry: the arguments of a call, and what follows from them by the definitions."""

    def __init__(self, rng, item_size: int = 4, large: bool = False) -> None:
        self.n = int(rng.integers(1, 4))
        self.ceil = bool(rng.integers(2))
        self.large = large
        if large:
            self.draw_large(rng, item_size)
            return
        kind = rng.random()
        if kind < 0.04:
            (self.draw_many_cells if kind < 0.02 else self.draw_large_windows)(rng)
            return
        self.shape = (some_channels(rng),)
        if rng.random() < 0.7:
            self.shape = (int(rng.choice([0, 1, 1, 2, 3], p=[0.04, 0.3, 0.3, 0.18, 0.18])), *self.shape)
        planes = max(int(np.prod(self.shape)), 1)
        # Each attempt may cost a little more, so that one is right at last.
        budget = float(log_uniform(rng, 3_000, 1_000_000))
        while True:
            self.draw_window(rng)
            self.draw_ends(rng)
            self.draw_full(rng, budget / planes)
            if min(self.full) >= 1 and min(self.pooled) >= 1 and self.cost() * planes <= budget:
                break
            budget *= 1.05

    def draw_many_cells(self, rng) -> None:
        """A few windows of as many cells as decide how wide codes are, all of them within their plane."""
        self.kernel, self.padding, self.dilation = self.many_cells(rng), 0, 1
        self.stride = int(rng.choice([1, 7, 300]))
        self.shape = (int(rng.integers(1, 3)),)
        self.full = tuple(k - 1 + log_uniform(rng, 1, 5 if k > 1 else 2) for k in self.kernel)
        self.settle()

    def draw_large_windows(self, rng) -> None:
        """A few windows of more cells than are compared one by one, most of which share few."""
        cells = log_uniform(rng, 100, 800)
        self.kernel = tuple(int(cells ** (1 / self.n) * rng.uniform(0.7, 1.5)) + 1 for _ in range(self.n))
        self.stride = tuple(max(k // int(rng.choice([1, 1, 2, 4])), 1) for k in self.kernel)
        self.padding = 0 if rng.random() < 0.5 else tuple(int(rng.integers(k // 2 + 1)) for k in self.kernel)
        self.dilation = 1 if rng.random() < 0.8 else int(rng.integers(1, 3))
        self.shape = (int(rng.choice([1, 2, 3, 15, 16, 17, 70])),)
        self.full = tuple(
            (k - 1) * self.dilation + 1 + s * int(rng.integers(4)) + int(rng.integers(3))
            for k, s in zip(self.kernel, self.stride, strict=True)
        )
        self.settle()

    def draw_window(self, rng) -> None:
        """Kernel, stride, padding and dilation."""
        n, kind = self.n, rng.random()
        self.stride, self.padding, self.dilation = None, 0, 1
        self.beside, self.apart = kind < 0.47, 0.47 <= kind < 0.62
        if kind < 0.22:  # what networks have
            self.kernel = int(rng.choice([2, 2, 3]))
            self.stride, self.padding = (None, 0) if self.kernel == 2 else (2, int(rng.integers(2)))
        elif kind < 0.47:  # side by side
            self.kernel = (*rng.integers(1, 4, n - 1).tolist(), int(rng.choice([1, 2, 2, 2, 3, 4, 5])))
            if n > 1 and rng.random() < 0.3:
                tall = int(rng.choice([15, 16, 17, log_uniform(rng, 1, 60)]))
                self.kernel = (*self.kernel[:-2], tall, self.kernel[-1])
        elif self.apart:  # with cells between them, where the stride is large
            self.kernel = same_or_each(rng, n, lambda: log_uniform(rng, 1, 9))
            self.stride = log_uniform(rng, 3, 40) if rng.random() < 0.85 else log_uniform(rng, 200, 600)
        elif kind < 0.75:
            self.kernel = same_or_each(rng, n, lambda: int(rng.integers(1, 6)))
            self.dilation = same_or_each(rng, n, lambda: int(rng.integers(1, 4)))
            if rng.random() < 0.7:
                self.stride = 1 if rng.random() < 0.3 else same_or_each(rng, n, lambda: int(rng.integers(1, 6)))
        elif kind < 0.94:
            self.kernel = same_or_each(rng, n, lambda: log_uniform(rng, 1, 48))
            if rng.random() < 0.5:
                self.dilation = same_or_each(rng, n, lambda: log_uniform(rng, 1, 30))
            if rng.random() < 0.8:
                top = 700 if rng.random() < 0.1 else 64
                self.stride = same_or_each(rng, n, lambda: log_uniform(rng, 1, top))
        elif kind < 0.98:  # cells so far apart that there are many windows between them
            self.kernel = (*rng.integers(1, 4, n - 1).tolist(), int(rng.integers(2, 9)))
            self.stride, self.dilation = int(rng.integers(1, 4)), (*[1] * (n - 1), log_uniform(rng, 20, 400))
            return
        else:
            self.kernel = self.many_cells(rng)
            self.stride = int(rng.choice([1, 7, 300]))
            if rng.random() < 0.5:  # nearly all of it padding: so the plane may be small
                self.padding = tuple(k // 2 for k in reference.each(self.kernel, n))
                return
        if kind >= 0.47 and rng.random() < 0.6:
            half = [k // 2 for k in reference.each(self.kernel, n)]
            self.padding = tuple(half if rng.random() < 0.4 else (int(rng.integers(0, h + 1)) for h in half))

    def draw_ends(self, rng) -> None:
        """Sometimes another padding at either end of an axis, or what "same" says."""
        kind = rng.random()
        if kind >= 0.25 or self.taps > 1 << 12:
            return
        if kind < 0.1:
            self.padding, self.ceil = one_of(rng, NAMES), False
            return
        if kind > 0.22 and self.n < 3:  # several windows of a row end in the padding
            self.kernel, self.stride, self.dilation, self.padding = 3, 1, 1, 2
        kernel, _, given, dilation = self.axes_as_given()
        self.padding = tuple(
            (self.end_of(rng, k, p, d), self.end_of(rng, k, p, d))
            for k, p, d in zip(kernel, given, dilation, strict=True)
        )

    def end_of(self, rng, kernel: int, padding: int, dilation: int) -> int:
        """A padding that is legal as one end of an axis."""
        reach = dilation * (kernel - 1)
        kind = int(rng.integers(5))
        return (0, min(padding, reach), min(kernel - 1, reach), reach, int(rng.integers(0, reach + 1)))[kind]

    def many_cells(self, rng) -> tuple[int, ...]:
        """A window that has about as many cells as there are codes of one byte, or of two."""
        cells = int(rng.choice([255, 256, 257, 65535, 65536, 65537, 65792]))
        kernel = [1] * self.n
        for prime in (3, 5, 17, 257, 65537, *[2] * 16):
            if cells % prime == 0:
                kernel[int(rng.integers(self.n))] *= prime
                cells //= prime
        kernel[-1] *= cells
        return tuple(kernel)

    def draw_full(self, rng, most: float) -> None:
        """The sizes of a plane: some axis, mostly the last one, is often longer than the others."""
        if self.padding and self.taps > 255:
            self.full = tuple(log_uniform(rng, 1, most ** (1 / self.n) / 4 + 1) for _ in range(self.n))
            self.settle()
            return
        long = int(rng.choice([self.n - 1, self.n - 1, int(rng.integers(self.n)), self.n]))
        full = []
        for axis, (k, s, p, d) in enumerate(zip(*self.axes_as_given(), strict=True)):
            kind = rng.random()
            top = max(min(6000, most), 4) if axis == long else max(min(200, most ** (1 / self.n)), 4)
            if kind < 0.2:  # so many cells
                full.append(decisive(rng, int(top)) if kind < 0.1 else log_uniform(rng, 1, top))
                continue
            # So many windows, and perhaps some cells behind them.
            pooled = (
                decisive(rng, int(top))
                if kind < (0.6 if axis == long else 0.4)
                else log_uniform(rng, 1, max(top / s, 2))
            )
            slack = 0 if rng.random() < 0.5 else int(rng.integers(s))
            if isinstance(p, str):
                full.append((pooled - 1) * s + 1 + slack)
            else:
                full.append((pooled - 1) * s + d * (k - 1) + 1 - sum(reference.ends(0, k, s, p, d)) + slack)
        if self.beside and rng.random() < 0.3:
            width = decisive(rng, 64) if rng.random() < 0.7 else int(rng.choice([16, 32, 48]))
            full[-1] = width * reference.each(self.kernel, self.n)[-1]
        if rng.random() < (0.6 if self.apart else 0.15):
            # Rows that fill a buffer in which the cells of so many windows, and those between them, stand by strides.
            kernel, stride = self.axes_as_given()[:2]
            full[-1] = log_uniform(rng, 0.4 * BLOCK, 4 * BLOCK) // (math.prod(kernel[:-1]) * stride[-1])
        self.full = tuple(full)
        self.settle()

    def settle(self) -> None:
        self.pooled = tuple(map(vectorised.pooled_size, self.full, *self.axes_as_given(), (self.ceil,) * self.n))

    def draw_large(self, rng, item_size: int) -> None:
        """Arrays beyond the caches: of windows that do not overlap, for these have ways of their own."""
        along_rows = (1,) * (self.n - 1)
        # The last ones have codes of two bytes.
        self.kernel = [2, 2, 2, 2, 3, 4, (*along_rows, 2), (*along_rows, 300)][int(rng.integers(8))]
        self.stride = 2 if self.taps < 100 and rng.random() < 0.1 else None
        self.padding = tuple(int(k > 1 and rng.random() < 0.1) for k in reference.each(self.kernel, self.n))
        self.dilation = 1
        self.draw_ends(rng)
        planes = int(rng.choice([1, 2, 3, 40, log_uniform(rng, 1, 1000)]))
        self.shape = (planes,) if rng.random() < 0.5 else (2, max(planes // 2, 1))
        self.pooled = (0,)
        while min(self.pooled) < 1:
            left = min(int(rng.uniform(*LARGE)) // item_size, MOST_CELLS) // int(np.prod(self.shape))
            full = []
            for _ in range(self.n - 1):
                full.append(log_uniform(rng, 4, max(left**0.6, 5)))
                left //= full[-1]
            full.append(max(left, 4))
            self.full = tuple(full if rng.random() < 0.6 else full[::-1])
            self.settle()
            if min(self.pooled) < 1:  # so many planes leave no room for such a window
                self.shape = tuple(max(size // 2, 1) for size in self.shape)

    @property
    def taps(self) -> int:
        return math.prod(reference.each(self.kernel, self.n))

    def cost(self) -> float:
        """About how long the judge takes for a plane, in cells that are looked at."""
        cells, windows = math.prod(self.full), math.prod(self.pooled)
        taps = min(self.taps, cells)
        return cells + windows + windows * taps / 4 + 20 * min(windows, taps)

    def axes_as_given(self):
        """Kernel, stride, padding and dilation of each axis, the padding in any form."""
        stride = self.kernel if self.stride is None else self.stride
        return tuple(reference.each(v, self.n) for v in (self.kernel, stride, self.padding, self.dilation))

    def axes(self):
        """The same with the padding before each axis of a plane of size `full`."""
        kernel, stride, padding, dilation = self.axes_as_given()
        return kernel, stride, reference.padding_before(self.full, self.n, kernel, stride, padding, dilation), dilation

    def fix(self) -> None:
        """Make pairs of a padding that would change with the size."""
        if isinstance(self.padding, str):
            self.padding = tuple(map(reference.ends, self.full, *self.axes_as_given()))

    @property
    def keywords(self):
        return {"kernel_size": self.kernel, "stride": self.stride, "padding": self.padding, "dilation": self.dilation}

    def along(self, axis: int, values):
        """`values`, one for each window along an axis, in a shape that broadcasts with the pooled one."""
        return np.asarray(values).reshape((-1,) + (1,) * (self.n - 1 - axis))

    def codes(self, places) -> tuple[np.ndarray, np.ndarray]:
        """Window codes of places, and which places have one."""
        kernel, stride, padding, dilation = self.axes()
        cells = math.prod(self.full)
        right = (places >= 0) & (places < cells)
        codes = np.zeros(places.shape, np.int64)
        left, at = np.where(right, places, 0), []
        for size in reversed(self.full):
            left, rest = np.divmod(left, size)
            at.insert(0, rest)
        for axis, (a, k, s, p, d) in enumerate(zip(at, kernel, stride, padding, dilation, strict=True)):
            start = self.along(axis, np.arange(places.shape[axis - self.n]) * s - p)
            tap, rest = np.divmod(a - start, d)
            right &= (rest == 0) & (tap >= 0) & (tap < k)
            codes = codes * k + tap
        return np.where(right, codes, 0).astype(np.uint8 if self.taps <= 256 else np.uint16), right

    def places(self, rng) -> np.ndarray | None:
        """For each window of each plane a random cell of it; None if some window has none."""
        places = np.zeros(self.shape + self.pooled, np.int64)
        for axis, (pooled, size, k, s, p, d) in enumerate(zip(self.pooled, self.full, *self.axes(), strict=True)):
            starts, low, high = vectorised.taps_inside(pooled, size, k, s, p, d)
            if (low >= high).any():
                return None
            tap = rng.integers(self.along(axis, low), self.along(axis, high), places.shape)
            places = places * size + self.along(axis, starts) + tap * d
        return repeated(rng, places, len(self.shape))

    def codes_in_padding(self) -> np.ndarray:
        """For each window a code of a cell that lies outside the plane, -1 where it has none."""
        worst = np.full(self.pooled, -1, np.int64)
        for axis, (pooled, size, k, s, p, d) in enumerate(zip(self.pooled, self.full, *self.axes(), strict=True)):
            _, low, high = vectorised.taps_inside(pooled, size, k, s, p, d)
            step = math.prod(reference.each(self.kernel, self.n)[axis + 1 :])
            # The last tap before the plane, or the first one behind it: the nearest ones.
            tap = np.where(low > 0, np.minimum(low, k) - 1, np.where(high < k, np.maximum(high, 0), -1))
            tap = self.along(axis, tap)
            worst = np.where((worst < 0) & (tap >= 0), tap * step, worst)
        return worst

    def __repr__(self) -> str:
        return f"{self.n}d {self.shape} full {self.full} pooled {self.pooled} ceil {self.ceil} {self.keywords}"
