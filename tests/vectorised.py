"""What `reference` defines, for sizes at which that would take too long. The tests hold it against `reference`."""

from __future__ import annotations

import itertools
import math

import numpy as np
from reference import each, ends, lowest, padding_before, planes


def pooled_size(size: int, kernel: int, stride: int, padding, dilation: int, ceil_mode: bool) -> int:
    """How many windows fit: up to the first one that does not."""
    before, after = ends(size, kernel, stride, padding, dilation)
    if size + before + after < 1:
        return 0
    reach = dilation * (kernel - 1)
    begins = np.arange((size + before + after) // stride + 2) * stride - before
    fits = begins + reach < size + after
    if ceil_mode:
        fits |= (begins < size) & (begins - stride + reach < size + after - 1)
    return int(np.argmin(fits))


def taps_inside(pooled: int, size: int, kernel: int, stride: int, padding: int, dilation: int):
    """Along one axis: where each window starts, its first tap inside the array, and the one behind its last."""
    starts = np.arange(pooled) * stride - padding
    return starts, np.maximum(-(starts // dilation), 0), np.minimum(-((starts - size) // dilation), kernel)


def max_pool(x, n, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, *, minimum=False, omit=False):
    """Values and indices: cell after cell for all windows, or window after window for all planes."""
    kernel = each(kernel_size, n)
    window = kernel, kernel if stride is None else each(stride, n), each(padding, n), each(dilation, n)
    full = x.shape[-n:]
    pooled = tuple(map(pooled_size, full, *window, (ceil_mode,) * n))
    window = *window[:2], padding_before(full, n, *window), window[3]
    cells = planes(x, n)
    # Comparing wider numbers is the same, and every dtype knows it. Some processors complain of NaNs that signal.
    with np.errstate(invalid="ignore"):
        numbers = cells if cells.dtype.kind in "iub" or cells.dtype == np.float64 else cells.astype(np.float32)
    if minimum:
        numbers = ~numbers if numbers.dtype.kind in "iub" else -numbers
    axes = [taps_inside(*axis) for axis in zip(pooled, full, *window, strict=True)]
    inside = [range(int(low.min()), int(high.max())) for _, low, high in axes]
    by_windows = np.prod(pooled) < np.prod([len(taps) for taps in inside])
    places = (window_by_window if by_windows else tap_by_tap)(numbers, full, pooled, *window[1:], axes, inside, omit)
    at = np.maximum(places, 0).reshape(len(cells), math.prod(pooled))
    values = np.take_along_axis(cells.reshape(len(cells), math.prod(full)), at, 1).reshape(places.shape)
    missed = places < 0
    if missed.any():  # nothing but padding: see `reference`
        nominal = 0
        for axis, ((starts, low, _), d, size) in enumerate(zip(axes, window[3], full, strict=True)):
            nominal = nominal * size + (starts + low * d).reshape((-1,) + (1,) * (n - 1 - axis))
        values[missed], places = lowest(x.dtype, minimum), np.where(missed, nominal, places)
    shape = x.shape[:-n] + pooled
    return values.reshape(shape), places.reshape(shape)


def tap_by_tap(numbers, full, pooled, stride, padding, dilation, axes, inside, omit) -> np.ndarray:
    """The place of each window's maximum, -1 where it has none: a later cell replaces one only if greater, or NaN."""
    best = np.zeros((len(numbers), *pooled), numbers.dtype)
    places = np.full(best.shape, -1, np.int64)
    for tap in itertools.product(*inside):
        windows, cells, here = [slice(None)], [slice(None)], 0
        for (starts, low, high), t, s, p, d, size in zip(axes, tap, stride, padding, dilation, full, strict=True):
            have = np.flatnonzero((low <= t) & (t < high))
            first, end = (int(have[0]), int(have[-1]) + 1) if have.size else (0, 0)
            cell = first * s - p + t * d
            windows.append(slice(first, end))
            cells.append(slice(cell, cell + (end - first) * s, s) if end else slice(0, 0))
            here = np.asarray(here)[..., None] * size + starts[first:end] + t * d
        windows, seen = tuple(windows), numbers[tuple(cells)]
        with np.errstate(invalid="ignore"):
            nan = (best[windows] != best[windows]) & (seen == seen) if omit else seen != seen
            better = (places[windows] < 0) | (seen > best[windows]) | nan
        np.copyto(best[windows], seen, where=better)
        np.copyto(places[windows], here, where=better)
    return places


def window_by_window(numbers, full, pooled, stride, padding, dilation, axes, inside, omit) -> np.ndarray:
    """The same: of several NaN the last one, else the first maximum. With `omit` NaN is lower than every number."""
    places = np.full((len(numbers), *pooled), -1, np.int64)
    flat = np.arange(int(np.prod(full))).reshape(full)
    for window in np.ndindex(pooled):
        cells = []
        for (starts, low, high), w, d in zip(axes, window, dilation, strict=True):
            first, end = (int(starts[w] + tap * d) for tap in (low[w], high[w]))
            cells.append(slice(first, max(end, first), d))
        here = flat[tuple(cells)].ravel()
        if not here.size:
            continue
        seen = numbers[(slice(None), *cells)].reshape(len(numbers), here.size)
        nan = seen != seen
        if omit and nan.any():
            highest = np.where(nan, -np.inf, seen).max(1, keepdims=True)
            best = np.argmax((seen == highest) & ~nan, 1)  # 0 where all are NaN
            places[(slice(None), *window)] = here[best]
            continue
        with np.errstate(invalid="ignore"):
            best = np.argmax(np.where(nan.any(1)[:, None], nan[:, ::-1], seen), 1)
        best = np.where(nan.any(1), here.size - 1 - best, best)
        places[(slice(None), *window)] = here[best]
    return places


def in_tensor(places, n: int, cells: int) -> np.ndarray:
    """Indices that count through all planes, one row of them after the other."""
    rows = planes(places, n).astype(np.int64)
    rows = rows.reshape(len(rows), int(np.prod(places.shape[-n:])))
    return (rows + cells * np.arange(len(rows))[:, None]).ravel()


def max_unpool(values, places, n, full):
    """The last value to come to a place stays."""
    cells, count = int(np.prod(full)), int(np.prod(values.shape[:-n]))
    raw = np.dtype((np.void, values.dtype.itemsize))
    result = np.zeros(count * cells, raw)
    # Of equal numbers `unique` names the first, and the last one comes first in the other direction.
    at, first = np.unique(in_tensor(places, n, cells)[::-1], return_index=True)
    result[at] = planes(values, n).view(raw).ravel()[::-1][first]
    return result.view(values.dtype).reshape(values.shape[:-n] + tuple(full))


def max_unpool_backward(grad, places, n):
    """Each pooled cell takes what lies at its place."""
    raw = np.dtype((np.void, grad.dtype.itemsize))
    cells = int(np.prod(grad.shape[-n:]))
    return planes(grad, n).view(raw).ravel()[in_tensor(places, n, cells)].view(grad.dtype).reshape(places.shape)


def take_at(x, indices, n, window=None):
    """What `max_unpool_backward` takes; with a `window`, window codes become places first."""
    if window is None:
        return max_unpool_backward(x, indices, n)
    kernel, stride, padding, dilation = (each(window[0] if v is None else v, n) for v in window)
    padding = padding_before(x.shape[-n:], n, kernel, stride, padding, dilation)
    codes, at = indices.astype(np.int64), []
    for axis in reversed(range(n)):
        codes, tap = np.divmod(codes, kernel[axis])
        start = np.arange(indices.shape[axis - n]) * stride[axis] - padding[axis]
        at.insert(0, start.reshape((-1,) + (1,) * (n - 1 - axis)) + tap * dilation[axis])
    places = np.zeros(indices.shape, np.int64)
    for a, size in zip(at, x.shape[-n:], strict=True):
        places = places * size + a
    return max_unpool_backward(x, places, n)


def max_pool_backward(grad, places, n, full):
    """One addition after the other, in raster order and in the numbers' own precision."""
    cells, count = int(np.prod(full)), int(np.prod(grad.shape[:-n]))
    result = np.zeros(count * cells, grad.dtype)
    at, numbers = in_tensor(places, n, cells), planes(grad, n).ravel()
    order = np.argsort(at, kind="stable")
    _, begins, counts = np.unique(at[order], return_index=True, return_counts=True)
    for turn in range(counts.max(initial=0)):  # the first number of each cell, then the second of each
        now = order[begins[counts > turn] + turn]
        with np.errstate(all="ignore"):
            result[at[now]] = result[at[now]] + numbers[now]
    return result.reshape(grad.shape[:-n] + tuple(full))
