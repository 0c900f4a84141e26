"""The arguments of SciPy's filters, as one window for each axis of the array.

Rules and defaults come from scipy.ndimage 1.17, `_filters.py`, `_morphology.py` and `_ni_support.py`.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, SupportsFloat, SupportsIndex

import numpy as np
import numpy.typing as npt

from cunpool._arrays import Array
from cunpool._remedies import shown

MODES = {
    "nearest": "nearest",
    "wrap": "wrap",
    "grid-wrap": "wrap",
    "reflect": "reflect",
    "grid-mirror": "reflect",
    "mirror": "mirror",
    "constant": "constant",
    "grid-constant": "constant",
}

Sizes = SupportsFloat | Sequence[SupportsFloat]
Modes = str | Sequence[str]
Origins = SupportsIndex | Sequence[SupportsIndex]
Axes = SupportsIndex | Iterable[SupportsIndex] | None
Output = npt.DTypeLike | Array | None


class ArgumentError(ValueError, RuntimeError):
    """A ValueError that code written for SciPy catches too: SciPy raises RuntimeError for some wrong arguments."""


class Windows(NamedTuple):
    """The window of each element: how far it extends along each axis of the array, and what lies beyond the array.

    Attributes
    ----------
    before, after : tuple of int
        Elements of the window before and after its own element, one entry for each axis of the array.
    modes : tuple of str
        One of nearest, wrap, reflect, mirror and constant for each axis.
    footprint : numpy.ndarray of bool or None
        The elements that count, with the axes of the array. None if all of them count.
    first : int or None
        The axis that SciPy filters first, or -1 if there is none. None if SciPy filters all axes at once, for which it
        casts the constant to the dtype of the input.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    modes: tuple[str, ...]
    footprint: Array | None
    first: int | None


def each(value: Any, count: int, name: str) -> list[Any]:
    """`value` for each of `count` axes: the same one, or the entries of a sequence."""
    if isinstance(value, str) or not np.iterable(value):
        return [value] * count
    entries = list(value)
    if len(entries) != count:
        raise ArgumentError(
            f"{name} must have an entry for each of the {count} axes that are filtered, got {shown(value)}: a "
            "sequence argument must have length equal to input rank"
        )
    return entries


def axes_of(axes: Axes, ndim: int) -> tuple[int, ...]:
    """The axes that are filtered, none of them negative."""
    if axes is None:
        return tuple(range(ndim))
    if np.iterable(axes):
        asked = tuple(map(operator.index, axes))
    elif hasattr(axes, "__index__"):
        asked = (operator.index(axes),)
    else:
        raise ValueError(f"axes must be an integer, iterable of integers, or None, got {shown(axes)}")
    for axis in asked:
        if not -ndim <= axis < ndim:
            raise ValueError(f"axes must lie in an array of {ndim} axes, got {axis}: specified axis is out of range")
    found = tuple(axis % ndim for axis in asked)
    if len(set(found)) != len(found):
        raise ValueError(f"axes must be unique, got {shown(axes)}")
    return found


def axis_of(axis: SupportsIndex, array: Array) -> int:
    """One axis, not negative."""
    array.swapaxes(axis, axis)  # raises NumPy's error for an axis that does not exist
    return operator.index(axis) % array.ndim


def mode_of(mode: object) -> str:
    if not isinstance(mode, str) or mode not in MODES:
        raise ArgumentError(f"mode must be one of {', '.join(MODES)}, got {shown(mode)}: boundary mode not supported")
    return MODES[mode]


def extent(size: SupportsFloat, origin: SupportsIndex) -> tuple[int, int]:
    """How many elements of a window of `size` lie before its own element and after it."""
    whole, shift = int(size), operator.index(origin)  # type: ignore[call-overload]
    if whole < 1:
        raise ArgumentError(f"size must be at least 1, got {shown(size)}: incorrect filter size")
    before = whole // 2 + shift
    if not 0 <= before < whole:
        raise ValueError(
            f"origin must keep the window over its own element, from {-(whole // 2)} to {(whole - 1) // 2} for a size "
            f"of {whole}, got {shift}: invalid origin"
        )
    return before, whole - 1 - before


def along(ndim: int, axis: int, size: SupportsIndex, mode: str, origin: SupportsIndex) -> Windows:
    """The windows of a filter along one axis."""
    before, after = extent(operator.index(size), origin)
    return _spread(ndim, {axis: (before, after, mode_of(mode))})


def frozen(value: Any) -> Any:
    """A sequence as a tuple, for caches, and anything else as it is."""
    if value is None or isinstance(value, (int, str)):  # `numpy.iterable` takes longer for these (speed)
        return value
    return tuple(value) if np.iterable(value) else value


@lru_cache(maxsize=256, typed=True)
def of_a_size(ndim: int, size: Any, mode: Any, origin: Any, axes: Any, is_mirrored: bool) -> Windows:
    """The windows of a filter with a size alone; every argument is `frozen`."""
    if is_mirrored:
        origin = mirrored(ndim, size, None, None, origin, axes)[2]
    return _rectangle(ndim, axes_of(axes, ndim), size, mode, origin)


def windows_of(
    function: str,
    ndim: int,
    footprint: npt.ArrayLike | None,
    structure: npt.ArrayLike | None,
    mode: Modes,
    origin: Origins,
    axes: Axes,
) -> Windows:
    """The windows of a filter with a footprint or a structure; `function` is SciPy's name of it."""
    if structure is not None:
        mask = _flat(function, structure, footprint)
    elif footprint is not None:
        mask = np.asarray(footprint, bool)
        if not mask.any():
            raise ValueError("footprint must have an element that is True: All-zero footprint is not supported.")
    else:
        raise ArgumentError("size or footprint must be given: no footprint provided")
    filtered = axes_of(axes, ndim)
    if structure is None and mask.all():
        return _rectangle(ndim, filtered, mask.shape, mode, origin)
    if mask.ndim != len(filtered):
        name = "footprint" if structure is None else "structure array has incorrect shape: structure"
        raise ArgumentError(f"{name}.ndim ({mask.ndim}) must match len(axes) ({len(filtered)})")
    if not isinstance(mode, str) and np.iterable(mode):
        raise ArgumentError("mode must be one for all axes: A sequence of modes is not supported for non-separable "
                            "footprints")  # fmt: skip
    # SciPy keeps the order of the footprint's axes, whatever the order of `axes`, and orders `origin` by `axes` unless
    # all axes are filtered.
    order = sorted(filtered)
    origins = each(origin, len(filtered), "origin")
    shifts = dict(zip(filtered if len(filtered) < ndim else order, origins, strict=True))
    each_axis = {}
    for axis, length in zip(order, mask.shape, strict=True):
        each_axis[axis] = (*extent(length, shifts[axis]), mode_of(mode))
    shape = [1] * ndim
    for axis, length in zip(order, mask.shape, strict=True):
        shape[axis] = length
    windows = _spread(ndim, each_axis)
    return windows._replace(footprint=None if mask.all() else mask.reshape(shape), first=None)


def _rectangle(ndim: int, axes: tuple[int, ...], size: Any, mode: Modes, origin: Origins) -> Windows:
    """The windows of a rectangle. `size`, `mode` and `origin` have the order of `axes`."""
    names = ("origin", "size", "mode")
    origins, sizes, modes = (
        each(value, len(axes), name) for name, value in zip(names, (origin, size, mode), strict=True)
    )
    each_axis = {}
    for axis, length, name, shift in zip(axes, sizes, modes, origins, strict=True):
        # SciPy leaves out an axis with a size of 1, whatever its origin.
        each_axis[axis] = (*extent(length, 0 if 1 <= length < 2 else shift), mode_of(name))
    return _spread(ndim, each_axis)


def _spread(ndim: int, each_axis: dict[int, tuple[int, int, str]]) -> Windows:
    """Windows without a footprint over all axes of the array; the axes that are not filtered have windows of 1."""
    entries = [each_axis.get(axis, (0, 0, "nearest")) for axis in range(ndim)]
    before, after, modes = (tuple(entry[part] for entry in entries) for part in range(3))
    first = next((axis for axis, (b, a, _) in each_axis.items() if b + a > 0), -1)
    return Windows(before, after, modes, None, first)  # type: ignore[arg-type]


def _flat(function: str, structure: npt.ArrayLike, footprint: npt.ArrayLike | None) -> Array:
    """The footprint of a structure, which must be 0 wherever the footprint is True."""
    heights = np.asarray(structure, np.float64)
    mask = np.ones(heights.shape, bool) if footprint is None else np.asarray(footprint, bool)
    if heights.shape != mask.shape:
        raise ArgumentError(
            f"structure must have the shape of footprint, {mask.shape}, got {heights.shape}: structure array has "
            "incorrect shape"
        )
    if not mask.any():
        raise ValueError("footprint must have an element that is True: All-zero footprint is not supported.")
    if heights[mask].any():
        raise ValueError(
            f"structure must be None or all zeros, because structures with heights are not served: call "
            f"scipy.ndimage.{function}"
        )
    return mask


def mirrored(
    ndim: int,
    size: Sizes | None,
    footprint: npt.ArrayLike | None,
    structure: npt.ArrayLike | None,
    origin: Origins,
    axes: Axes,
) -> tuple[npt.ArrayLike | None, npt.ArrayLike | None, list[int]]:
    """Footprint, structure and origin of a dilation, as a maximum filter takes them."""
    if structure is not None:
        structure = np.flip(np.asarray(structure))
    if footprint is not None:
        footprint = np.flip(np.asarray(footprint))
    filtered = axes_of(axes, ndim)
    shape = np.shape(structure) if footprint is None else np.shape(footprint)  # type: ignore[arg-type]
    if footprint is None and structure is None:
        lengths = each(size, len(filtered), "size")
    else:
        lengths = each(shape, len(filtered), "footprint.shape")
    origins = each(origin, len(filtered), "origin")
    shifts = [-operator.index(shift) - (1 - int(length) % 2) for shift, length in zip(origins, lengths, strict=True)]
    return footprint, structure, shifts


def warn_of_a_footprint(size: Sizes | None, footprint: npt.ArrayLike | None) -> None:
    """Warn if both are given. The warning names the line that called the public function, which calls this one."""
    if size is not None and footprint is not None:
        warnings.warn("ignoring size because footprint is set", UserWarning, stacklevel=3)


def output_of(output: Output, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[np.dtype[Any], Array | None]:
    """The dtype of the result, and the array for it if there is one."""
    if output is None:
        return dtype, None
    if isinstance(output, (type, np.dtype, str)):
        asked: np.dtype[Any] = np.dtype(output)
        if isinstance(output, str) and not issubclass(asked.type, np.number):
            raise ArgumentError(f"output must have a numeric dtype, got {asked}")
        return asked, None
    array = np.asarray(output)
    if array.shape != shape:
        raise ArgumentError(
            f"output must have the shape of input, {shape}, got {array.shape}: output shape not correct"
        )
    return array.dtype, array
