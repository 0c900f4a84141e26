"""Peaks: the elements that are the maxima of their neighbourhoods. The image is pooled block by block."""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from cunpool import _arrays, _geometry, _integers, _threads, pooling
from cunpool._arrays import Array
from cunpool._docstrings import shares
from cunpool._remedies import shown

# Elements of a block: the block, its maxima and its masks stay in L2. (speed: `peaks` of 4096 x 4096)
BLOCK_ELEMENTS = 1 << 17

Bounds = tuple[tuple[int, int], ...]
"""First element and end along each axis."""


@shares
def peaks(
    image: npt.ArrayLike,
    min_distance: int = 1,
    *,
    threshold_abs: float | None = None,
    threshold_rel: float | None = None,
    exclude_border: bool | int | tuple[int, ...] = True,
    num_peaks: int | None = None,
    one_per_plateau: bool = False,
    num_threads: int | None = None,
) -> npt.NDArray[np.int64]:
    """Return the positions of the peaks of an image, the highest first.

    A peak is an element that equals the maximum of its window of ``2 * min_distance + 1`` elements along each axis,
    and that is greater than the threshold.

    Parameters
    ----------
    image : array_like
        Array of one spatial axis or more, with any strides. The dtype is bool, an integer, float16, bfloat16, float32
        or float64.
    min_distance : int
        Number of elements that the window extends to each side. Windows are clipped at the border of the image.
    threshold_abs : float, optional
        Peaks are greater than this; the default is the minimum of the image.
    threshold_rel : float, optional
        Peaks are also greater than ``threshold_rel * image.max()``.
    exclude_border : bool, int or tuple of int
        Peaks are at least this far from the border: one distance for all axes, or one for each. True stands for
        `min_distance`, and False for 0.
    num_peaks : int, optional
        The largest number of peaks to return.
    one_per_plateau : bool
        Whether to return one peak of each plateau, the first in raster order. Peaks form a plateau if they are equal
        and touch, diagonally too.
    {num_threads}

    Returns
    -------
    numpy.ndarray of int64
        The positions, of shape (peaks, axes), by decreasing value. Peaks of equal value are in raster order. A constant
        image has no peaks.

    Raises
    ------
    TypeError
        If the dtype of `image` is not supported, or another argument is of the wrong type.
    ValueError
        If an argument is negative, `exclude_border` has not one entry per axis, or `image` has no axes.

    See Also
    --------
    max_pool2d : Returns the maxima of windows at any stride, and their indices.

    Notes
    -----
    Names, defaults and results match ``skimage.feature.peak_local_max`` [1]_, with these differences:

    - For `min_distance` above 1, scikit-image drops peaks of equal value that lie in one window. Here all are returned,
      unless `one_per_plateau` merges them.
    - The order is also right for values that scikit-image negates with an overflow, such as 0 of an unsigned dtype.
      Integers above 2**53 are exact, and all of the supported dtypes are accepted.
    - NaN is no peak, and neither is an element with NaN in its window. If the threshold is NaN, there are no
      peaks. The default threshold of an image with NaN is NaN, as in scikit-image.

    Besides the result, memory for a few blocks of the image is needed.

    References
    ----------
    .. [1] https://scikit-image.org/docs/stable/api/skimage.feature.html#skimage.feature.peak_local_max

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> image = np.zeros((5, 7))
    >>> image[1, 1], image[3, 4], image[3, 5] = 2, 3, 3
    >>> cu.peaks(image)
    array([[3, 4],
           [3, 5],
           [1, 1]])
    >>> cu.peaks(image, one_per_plateau=True)
    array([[3, 4],
           [1, 1]])
    >>> cu.peaks(image, threshold_rel=0.9, num_peaks=1)
    array([[3, 4]])
    """
    given = _arrays.array_of(image, "image")
    if not given.ndim:
        raise ValueError(f"image must have at least one axis, got {shown(image)}")
    _arrays.numbers(given[:0], "image")
    reach = _count("min_distance", min_distance)
    border = _border(exclude_border, reach, given.ndim)
    most = None if num_peaks is None or num_peaks == math.inf else _count("num_peaks", num_peaks)
    one_per_plateau = _geometry.flag("one_per_plateau", one_per_plateau)
    lowest, relative = _number("threshold_abs", threshold_abs), _number("threshold_rel", threshold_rel)
    _threads.threads_for(0, num_threads)  # checks it
    axes = sorted(range(given.ndim), key=lambda axis: -abs(given.strides[axis]))  # the order in memory
    turned = given.transpose(axes)
    inner = tuple((border[axis], given.shape[axis] - border[axis]) for axis in axes)
    found: list[tuple[Array, ...]] = []
    if all(start < stop for start, stop in inner):
        threshold = _threshold(turned, reach, lowest, relative)
        if threshold < math.inf:  # not NaN either
            blocks = _blocks(inner, reach)
            found = [_runs_of_block(turned, block, reach, threshold, one_per_plateau, num_threads) for block in blocks]
    if not found:
        return np.empty((0, given.ndim), np.int64)
    starts, ends, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
    at: dict[int, Array] = dict(zip(axes, _arrays.unravel(starts, _padded(turned.shape)), strict=True))
    flat = np.ravel_multi_index(tuple(at[axis] for axis in range(given.ndim)), given.shape)
    order = np.argsort(flat, kind="stable")
    if one_per_plateau:
        plateaus = _plateaus(starts, ends, values, turned.shape)[order]
        order = order[np.sort(np.unique(plateaus, return_index=True)[1])]
    flat, values = flat[order], values[order]
    return np.stack(_arrays.unravel(flat[_decreasing(values)[:most]], given.shape), axis=1)


def _count(name: str, value: object) -> int:
    number = _integers.integer(name, value)
    if number < 0:
        raise ValueError(f"{name} must be at least 0, got {shown(number)}")
    return number


def _border(value: Any, reach: int, n: int) -> tuple[int, ...]:
    """The distance from the border that peaks have along each axis."""
    if isinstance(value, (bool, np.bool_)):
        return (reach if value else 0,) * n
    if not _integers.is_iterable(value):
        return (_count("exclude_border", value),) * n
    distances = tuple(_count("exclude_border", distance) for distance in value)
    if len(distances) != n:
        raise ValueError(f"exclude_border must have {n} entries, one for each axis of image, got {shown(value)}")
    return distances


def _number(name: str, value: Any) -> Any:
    """A threshold as given, except that integers become Python's, which are compared without rounding."""
    if isinstance(value, numbers.Integral):
        return int(value)
    if value is None or isinstance(value, (float, np.floating)):
        return value
    if isinstance(value, (np.ndarray, np.generic)) and value.ndim == 0:
        _arrays.numbers(np.asarray(value), name)
        return int(value) if value.dtype.kind in "biu" else float(value)
    raise TypeError(f"{name} must be a number or None, got {shown(value)}")


def _blocks(bounds: Bounds, reach: int) -> Iterator[Bounds]:
    """Divide `bounds` along the first axis, or along the longest if what lies at one position of the first is large."""
    sizes = [stop - start for start, stop in bounds]
    axis = 0 if math.prod(sizes[1:]) <= BLOCK_ELEMENTS else sizes.index(max(sizes))
    row_elements = math.prod(sizes) // sizes[axis]
    # At least the window's size, because a block is read with `reach` rows at both ends. (speed: large windows)
    rows = max(BLOCK_ELEMENTS // row_elements, min(2 * reach, sizes[axis] // 8), 1)
    start, stop = bounds[axis]
    for first in range(start, stop, rows):
        yield (*bounds[:axis], (first, min(first + rows, stop)), *bounds[axis + 1 :])


def _comparable(image: Array, bounds: Bounds) -> Array:
    """A part of the image, in native byte order and with a dtype of NumPy that has the same order."""
    native, kind = _arrays.numbers(image[tuple(slice(*ends) for ends in bounds)])
    if kind == "bf2":
        return (native.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return native.view(np.uint8) if native.dtype.kind == "b" else native


def _threshold(image: Array, reach: int, lowest: Any, relative: Any) -> Any:
    """The number that peaks exceed, which is infinite for a constant image if windows have several elements."""
    blocks = [*_blocks(tuple((0, size) for size in image.shape), 0)]
    if lowest is None:
        lowest = np.min([_comparable(image, block).min() for block in blocks]).item()
    elif reach and image.size > 1:
        first = _comparable(image, ((0, 1),) * image.ndim)
        if all((_comparable(image, block) == first).all() for block in blocks):
            return math.inf
    if relative is None:
        return lowest
    highest = np.max([_comparable(image, block).max() for block in blocks])
    with np.errstate(over="ignore", invalid="ignore"):
        return max(lowest, (highest if highest.dtype.kind == "f" else highest.item()) * relative)


def _exceeds(block: Array, threshold: Any) -> npt.NDArray[np.bool_]:
    """Whether elements are greater than a threshold. Integers are compared with an integer of their own dtype."""
    if block.dtype.kind == "f":
        with np.errstate(over="ignore"):  # of a threshold that is rounded to the dtype
            exceeds: npt.NDArray[np.bool_] = block > threshold
        return exceeds
    limits = np.iinfo(block.dtype)
    least = max(math.floor(max(threshold, -(2.0**64))) + 1, int(limits.min))
    return block >= block.dtype.type(least) if least <= limits.max else np.zeros(block.shape, bool)


def _runs_of_block(
    image: Array, block: Bounds, reach: int, threshold: Any, merged: bool, num_threads: int | None
) -> tuple[Array, Array, Array]:
    """The peaks in a block: the first and the last position, and the value, of each. The last one only with `merged`.

    Positions are flat in an array of the size `_padded`. With `merged`, peaks that are neighbours along the last axis
    and equal are one entry.
    """
    # Along an axis the window reaches no further than the array.
    reaches = [min(reach, size - 1) for size in image.shape]
    halo = [
        (max(first - r, 0), min(end + r, size))
        for (first, end), r, size in zip(block, reaches, image.shape, strict=True)
    ]
    pads = [(lo - first + r, end + r - hi) for (first, end), (lo, hi), r in zip(block, halo, reaches, strict=True)]
    read = _comparable(image, tuple(halo))
    inner = read[tuple(slice(first - lo, end - lo) for (first, end), (lo, _) in zip(block, halo, strict=True))]
    is_peak = _exceeds(inner, threshold)
    if any(reaches):
        is_peak &= inner == _maxima(read, reaches, pads, num_threads)
    flat = np.flatnonzero(is_peak)
    at = _arrays.unravel(flat, inner.shape)
    positions = np.ravel_multi_index(
        tuple(a + first for a, (first, _) in zip(at, block, strict=True)), _padded(image.shape)
    )
    values = inner[tuple(at)]
    if not merged:
        return positions, positions[:0], values
    is_first = np.ones(len(positions), bool)
    is_first[1:] = (np.diff(positions) != 1) | (values[1:] != values[:-1])
    is_last = np.ones(len(positions), bool)
    is_last[:-1] = is_first[1:]
    return positions[is_first], positions[is_last], values[is_first]


def _maxima(block: Array, reaches: list[int], pads: list[tuple[int, int]], num_threads: int | None) -> Array:
    """The maxima of the windows of a block at stride 1: three axes in one call, and each further axis in its own."""

    def pool(n: int, planes: Array, kernel: tuple[int, ...], padding: tuple[tuple[int, int], ...]) -> Array:
        window = kernel, 1, padding, 1
        # Without the warning of channels that come last: all axes are spatial.
        maxima = pooling._max_pool(
            n, planes, window, False, False, "plane", None, None, num_threads, is_layout_told=False
        )
        return cast(Array, maxima)

    kernel, sizes = [2 * reach + 1 for reach in reaches], [*block.shape]
    last = min(block.ndim, 3)
    maxima = pool(last, block.reshape(-1, *sizes[-last:]), tuple(kernel[-last:]), tuple(pads[-last:]))
    sizes[-last:] = maxima.shape[-last:]
    for axis in range(block.ndim - last):
        columns = maxima.reshape(math.prod(sizes[:axis]), sizes[axis], -1)
        maxima = pool(2, columns, (kernel[axis], 1), (pads[axis], (0, 0)))
        sizes[axis] = maxima.shape[1]
    return maxima.reshape(sizes)


def _padded(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A size in which the neighbours of an element that are outside the array have positions of their own."""
    return tuple(size + 1 for size in shape)


def _plateaus(starts: Array, ends: Array, values: Array, shape: tuple[int, ...]) -> Array:
    """A number for each run of peaks, equal for runs of the same plateau."""
    order = np.argsort(starts, kind="stable")
    starts, ends, values = starts[order], ends[order], values[order]
    step = np.cumprod((1, *_padded(shape)[:0:-1]))[::-1]
    before = [offset for offset in itertools.product((-1, 0, 1), repeat=len(shape) - 1) if offset < (0,) * len(offset)]
    bounds = [(starts + offset - 1, ends + offset + 1) for offset in (np.dot(b, step[:-1]) for b in before)]
    pairs = []
    for least, most in [*bounds, (starts - 1, starts - 1)]:
        first = np.searchsorted(ends, least)
        counts = np.searchsorted(starts, most, "right") - first
        run = np.repeat(np.arange(len(starts)), counts)
        other = np.arange(len(run)) + np.repeat(first - np.cumsum(counts) + counts, counts)
        pairs.append(np.stack([run, other])[:, values[run] == values[other]])
    plateau = np.empty(len(starts), np.int64)
    plateau[order] = _joined(len(starts), *np.concatenate(pairs, axis=1))
    return plateau


def _joined(count: int, left: Array, right: Array) -> Array:
    """The smallest of the numbers below `count` to which each is joined by pairs."""
    least = np.arange(count)
    while len(left):
        a, b = least[left], least[right]
        np.minimum.at(least, np.maximum(a, b), np.minimum(a, b))
        while (least[least] != least).any():
            least = least[least]
        apart = least[left] != least[right]
        left, right = left[apart], right[apart]
    return least


def _decreasing(values: Array) -> Array:
    """The stable order of decreasing values: an unstable sort, which is faster, and one of ranks and positions."""
    order = np.argsort(values)[::-1]
    keys = np.zeros(len(values), np.int64)
    ranked = values[order]
    np.cumsum(ranked[1:] != ranked[:-1], out=keys[1:])
    keys = keys * len(values) + order
    keys.sort()
    return keys % len(values)
