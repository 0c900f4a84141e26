"""The operations' definitions, slow and obvious, in plain NumPy. This is the judge of everything that is fast."""

from __future__ import annotations

import itertools

import numpy as np


def planes(array: np.ndarray, n: int) -> np.ndarray:
    """A copy as (planes, *spatial), in raster order."""
    return np.ascontiguousarray(array).reshape((int(np.prod(array.shape[:-n])), *array.shape[-n:]))


def each(value, n: int) -> tuple[int, ...]:
    return tuple(value) if np.iterable(value) and not isinstance(value, str) else (value,) * n


def ends(size, kernel, stride, padding, dilation):
    """Padding before and after an axis."""
    if isinstance(padding, str):  # the last of the windows that begin in the array, unpadded, lacks some elements
        last = max(range(0, size, stride), default=0)
        lacking = max(last + dilation * (kernel - 1) + 1 - size, 0)
        return (lacking // 2, lacking - lacking // 2)[:: -1 if padding == "same_lower" else 1]
    return padding if np.iterable(padding) else (padding, padding)


def padding_before(full, n, kernel, stride, padding, dilation):
    """Padding before each axis."""
    return tuple(ends(*axis)[0] for axis in zip(full, kernel, stride, each(padding, n), dilation, strict=True))


def pooled_size(size, kernel, stride, padding, dilation, ceil_mode):
    """How many windows fit, counted one by one."""
    before, after = ends(size, kernel, stride, padding, dilation)
    reach = dilation * (kernel - 1)
    count = 0
    while True:
        start = count * stride - before
        overhangs = start + reach >= size + after
        if overhangs and not (ceil_mode and start < size and (start - stride) + reach < size + after - 1):
            return count
        count += 1


def beats(cell, best, minimum: bool = False, omit: bool = False) -> bool:
    if omit and (cell != cell or best != best):
        return bool(cell == cell)
    return bool(cell < best if minimum else cell > best) or bool(cell != cell)


def lowest(dtype, minimum: bool = False):
    """The result of nothing but padding: the lowest number, or the highest for minima."""
    if dtype.kind == "b":
        return minimum
    if dtype.kind in "iu":
        return np.iinfo(dtype).max if minimum else np.iinfo(dtype).min
    return dtype.type(np.inf if minimum else -np.inf)


def max_pool(x, n, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, *, minimum=False, omit=False):
    """Values and indices, window by window, cell by cell; those of minima, or of numbers alone, NaN omitted."""
    kernel = each(kernel_size, n)
    stride = kernel if stride is None else each(stride, n)
    dilation, full = each(dilation, n), x.shape[-n:]
    pooled = tuple(map(pooled_size, full, kernel, stride, each(padding, n), dilation, (ceil_mode,) * n))
    padding = padding_before(full, n, kernel, stride, padding, dilation)
    values = np.empty(x.shape[:-n] + pooled, x.dtype)
    indices = np.empty(values.shape, np.int64)
    for here in np.ndindex(values.shape):
        plane, window = here[:-n], here[-n:]
        best, place = None, None
        for tap in np.ndindex(kernel):
            at = [w * s - p + t * d for w, s, p, t, d in zip(window, stride, padding, tap, dilation, strict=True)]
            if not all(0 <= a < size for a, size in zip(at, full, strict=True)):
                continue
            cell = x[(*plane, *at)]
            if best is None or beats(cell, best, minimum, omit):
                best, place = cell, int(np.ravel_multi_index(at, full))
        if best is None:  # nothing but padding: PyTorch names the first position that is not before the array
            at = [w * s - p for w, s, p in zip(window, stride, padding, strict=True)]
            at = [a if a >= 0 else a + -(a // d) * d for a, d in zip(at, dilation, strict=True)]
            best, place = lowest(x.dtype, minimum), 0
            for a, size in zip(at, full, strict=True):
                place = place * size + a
        values[here], indices[here] = best, place
    return values, indices


def adaptive_max_pool(x, n, pooled):
    """Values and indices of windows of unequal sizes."""
    full = x.shape[-n:]
    values = np.empty((*x.shape[:-n], *pooled), x.dtype)
    indices = np.empty(values.shape, np.int64)
    for here in np.ndindex(values.shape):
        axes = zip(here[-n:], full, pooled, strict=True)
        window = [range(i * size // count, -(-(i + 1) * size // count)) for i, size, count in axes]
        best = None
        for at in itertools.product(*window):
            if best is None or beats(x[(*here[:-n], *at)], best):
                best = values[here] = x[(*here[:-n], *at)]
                indices[here] = np.ravel_multi_index(at, full)
    return values, indices


def crossed(at):
    """One array for each axis, in shapes that broadcast."""
    return np.meshgrid(*at, indexing="ij", sparse=True)


def places(at, full):
    """Positions along each axis as places in a plane, counted in raster order."""
    place = np.zeros((1,) * len(full), np.int64)
    for a, size in zip(at, full, strict=True):
        place = place * size + a
    return place


def codes(indices, full, n, kernel_size, stride=None, padding=0, dilation=1):
    """Where in their windows these places of a plane are, counted in raster order over the kernel."""
    kernel = each(kernel_size, n)
    stride, dilation = kernel if stride is None else each(stride, n), each(dilation, n)
    padding = padding_before(full, n, kernel, stride, padding, dilation)
    result = np.zeros_like(indices)
    for axis, (k, s, p, d) in enumerate(zip(kernel, stride, padding, dilation, strict=True)):
        at = indices // int(np.prod(full[axis + 1 :])) % full[axis]
        start = (np.arange(indices.shape[axis - n]) * s - p).reshape((-1,) + (1,) * (n - 1 - axis))
        result = result * k + (at - start) // d
    return result


def default_size(pooled, n, kernel_size, stride=None, padding=0, dilation=1):
    kernel = each(kernel_size, n)
    stride = kernel if stride is None else each(stride, n)
    if isinstance(padding, str):
        return tuple(size * s for size, s in zip(pooled, stride, strict=True))
    return tuple(
        (size - 1) * s - sum(ends(size, k, s, p, d)) + d * (k - 1) + 1
        for size, k, s, p, d in zip(pooled, kernel, stride, each(padding, n), each(dilation, n), strict=True)
    )


def max_unpool(values, indices, n, full, onto=None):
    """One value after the other; the last one to come to a place stays. Elsewhere are zeros, or elements of `onto`."""
    raw = np.dtype((np.void, values.dtype.itemsize))  # a scalar of some dtypes (longdouble) does not keep all bits
    result = np.zeros((int(np.prod(values.shape[:-n])), int(np.prod(full))), raw)
    if onto is not None:
        result[...] = np.ascontiguousarray(onto).view(raw).reshape(result.shape)
    for plane, (row, places) in enumerate(zip(planes(values, n).view(raw), planes(indices, n), strict=True)):
        for value, place in zip(row.ravel(), places.ravel(), strict=True):
            if not 0 <= int(place) < result.shape[1]:
                raise IndexError(place)
            result[plane, int(place)] = value
    return result.view(values.dtype).reshape(values.shape[:-n] + tuple(full))


def take_at(x, indices, n, window=None):
    """One index after the other; with a `window` (kernel_size, stride, padding, dilation) they are window codes."""
    full = x.shape[-n:]
    bits = np.ascontiguousarray(x).view(np.dtype((np.void, x.dtype.itemsize)))  # see `max_unpool`
    result = np.empty(indices.shape, bits.dtype)
    for here in np.ndindex(indices.shape):
        index = int(indices[here])
        if window is None:
            inside, at = 0 <= index < int(np.prod(full)), []
            for size in reversed(full):
                at.insert(0, index % size if size else 0)
                index = index // size if size else 0
        else:
            kernel, stride, padding, dilation = (each(window[0] if v is None else v, n) for v in window)
            padding = padding_before(full, n, kernel, stride, padding, dilation)
            inside, at = 0 <= index < int(np.prod(kernel)), []
            for axis in reversed(range(n)):
                at.insert(0, here[axis - n] * stride[axis] - padding[axis] + index % kernel[axis] * dilation[axis])
                index //= kernel[axis]
            inside = inside and all(0 <= a < size for a, size in zip(at, full, strict=True))
        if not inside:
            raise IndexError(here)
        result[here] = bits[(*here[:-n], *at)]
    return result.view(x.dtype)


def windows(pooled, n, kernel_size, stride, padding, dilation, full):
    """For each window in raster order, the places of its cells that lie inside the plane."""
    kernel, stride, padding, dilation = (each(v, n) for v in (kernel_size, stride, padding, dilation))
    padding = padding_before(full, n, kernel, stride, padding, dilation)
    for window in np.ndindex(pooled):
        inside = [
            [a for t in range(k) if 0 <= (a := w * s - p + t * d) < size]
            for w, k, s, p, d, size in zip(window, kernel, stride, padding, dilation, full, strict=True)
        ]
        yield [int(np.ravel_multi_index(at, full)) for at in itertools.product(*inside)]


def neighbourhood(image, at, reach):
    return image[tuple(slice(max(a - reach, 0), a + reach + 1) for a in at)]


def first_of_each_plateau(image, peaks):
    """The first of `peaks`, which are in raster order, of each group that touches and is equal."""
    left, kept = dict.fromkeys(peaks), []
    while left:
        reached = [next(iter(left))]
        kept.append(reached[0])
        del left[reached[0]]
        while reached:
            at = reached.pop()
            for step in itertools.product((-1, 0, 1), repeat=image.ndim):
                other = tuple(a + s for a, s in zip(at, step, strict=True))
                if other in left and image[other] == image[at]:
                    del left[other]
                    reached.append(other)
    return kept


def peaks(image, min_distance, threshold_abs, threshold_rel, border, num_peaks, one_per_plateau):
    """The definition, element by element. An exact threshold is the caller's task."""
    if image.size > 1 and min_distance and (image == image.ravel()[0]).all():
        return []
    threshold = image.min() if threshold_abs is None else threshold_abs
    if threshold_rel is not None:
        threshold = max(threshold, threshold_rel * image.max())
    found = []
    for at in np.ndindex(image.shape):
        inside = all(b <= a < size - b for a, b, size in zip(at, border, image.shape, strict=True))
        if inside and image[at] > threshold and image[at] == neighbourhood(image, at, min_distance).max():
            found.append(at)
    if one_per_plateau:
        found = first_of_each_plateau(image, found)
    return [list(at) for at in sorted(found, key=lambda at: -image.item(at))[:num_peaks]]
