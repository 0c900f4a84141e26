"""Extremes of windows that are rectangles or unions of rectangles, by pooling with a stride of 1."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from cunpool import _arrays, pooling
from cunpool._arrays import Array

# Axes of a call of pooling with indices.
MOST_AXES = 3


class Rule(NamedTuple):
    """The arguments that every part of a call shares."""

    is_minimum: bool
    has_indices: bool
    num_threads: int | None


Pads = tuple[tuple[int, int], ...]
Result = tuple[Array, Array | None]
"""Values, and indices that are flat in C order over the whole array."""


def extreme(planes: Array, group: Group, rule: Rule, out: Array | None) -> Result:
    """Extremes over the last axes of `planes`, which are the axes of the group. Padding never wins."""
    sizes, padding = group.sizes, group.padding
    if group.is_square:  # integers are checked faster (speed)
        sizes, padding = sizes[0], padding[0]  # type: ignore[assignment]
    window = sizes, 1, padding, 1
    into = (out, None) if rule.has_indices and out is not None else out
    found: Any = pooling._max_pool(
        len(group.axes), planes, window, False, rule.has_indices, "plane", None, into, rule.num_threads, False,
        minimum=rule.is_minimum,
    )  # fmt: skip
    return found if rule.has_indices else (found, None)


class Group(NamedTuple):
    """Axes that one call of pooling filters, at most three. The others become the axes of planes.

    Attributes
    ----------
    axes, others : tuple of int
    sizes : tuple of int
        The window's size along each of `axes`.
    padding : tuple of int or of pairs
        The padding along each of `axes`; an integer, which is checked faster, stands for two equal sides. (speed)
    is_square : bool
        Whether all sizes are equal, and all padding is one integer.
    order, back : tuple of int or None
        The axes of the array as pooling takes them, `others` first, and the way back. None where nothing moves.
    """

    axes: tuple[int, ...]
    others: tuple[int, ...]
    sizes: tuple[int, ...]
    padding: tuple[Any, ...]
    is_square: bool
    order: tuple[int, ...] | None
    back: tuple[int, ...] | None


@lru_cache(maxsize=256)
def groups(extents: Pads, pads: Pads, has_indices: bool) -> list[Group]:
    """The calls of pooling for a window that extends before and after its element, the last axes first.

    For values alone, the last two axes and then single ones take less time than three axes together. (speed)
    """
    filtered = [axis for axis, pair in enumerate(extents) if any(pair)]
    found: list[Group] = []
    while filtered:
        most = MOST_AXES if has_indices else 1 if found else 2
        axes = tuple(filtered[-most:])
        del filtered[-most:]
        others = tuple(axis for axis in range(len(extents)) if axis not in axes)
        order = others + axes
        sizes = tuple(sum(extents[axis]) + 1 for axis in axes)
        moves = list(order) != sorted(order)
        back = tuple(order.index(axis) for axis in range(len(order))) if moves else None
        sides = tuple(pads[axis] for axis in axes)
        padding = tuple(before for before, _ in sides) if all(a == b for a, b in sides) else sides
        is_square = len({*sizes}) == len({*padding}) == 1 and isinstance(padding[0], int)
        found.append(Group(axes, others, sizes, padding, is_square, order if moves else None, back))
    return found


def rectangle(array: Array, extents: Pads, pads: Pads, rule: Rule, out: Array | None = None) -> Result:
    """Extremes of windows that extend before and after their elements, with one pair in `extents` for each axis.

    The index is the first one of equal extremes, in raster order. `out` is for the values; it does not overlap `array`.
    """
    values, indices = array, None
    calls = groups(extents, pads, rule.has_indices)
    for call in calls:
        values, found = _of_a_group(values, call, rule, out if call is calls[-1] else None)
        if found is not None:
            indices = found if indices is None else indices.reshape(-1)[found]
    if not calls:
        values = array.copy()
        indices = np.arange(array.size).reshape(array.shape) if rule.has_indices else None
    return values, indices


def _of_a_group(array: Array, group: Group, rule: Rule, out: Array | None) -> Result:
    """Extremes along the axes of `group`."""
    others = group.others
    if others and len(group.axes) == 1 and not rule.has_indices and array.flags.c_contiguous:
        return _along_one_axis(array, group, rule, out), None
    if not others:
        values, indices = extreme(array[None], group, rule, None if out is None else out[None])
        return values[0], None if indices is None else indices[0]
    turned = array if group.order is None else array.transpose(group.order)
    planes = turned
    if len(others) > 2:
        planes, out = turned.reshape((-1, *turned.shape[len(others) :])), None
    elif out is not None and group.order is not None:
        out = out.transpose(group.order)
    values, indices = extreme(planes, group, rule, out)
    if planes is not turned:
        shape = turned.shape[: len(others)] + values.shape[1:]
        values, indices = values.reshape(shape), None if indices is None else indices.reshape(shape)
    if indices is not None:
        indices = _over_the_array(indices, array.shape, group.axes, others)
    if group.back is not None:
        values, indices = values.transpose(group.back), None if indices is None else indices.transpose(group.back)
    return values, indices


def _along_one_axis(array: Array, group: Group, rule: Rule, out: Array | None) -> Array:
    """Values along one axis of an array in C order. All axes behind it become the width of one plane."""
    axis = group.axes[0]
    shape = math.prod(array.shape[:axis]), array.shape[axis], math.prod(array.shape[axis + 1 :])
    none = (0, 0) if isinstance(group.padding[0], tuple) else 0
    both = group._replace(axes=(0, 1), sizes=(*group.sizes, 1), padding=(*group.padding, none), is_square=False)
    into = out.reshape(shape) if out is not None and out.flags.c_contiguous else None
    values, _ = extreme(array.reshape(shape), both, rule, into)
    return values.reshape((*array.shape[:axis], -1, *array.shape[axis + 1 :]))


def _over_the_array(indices: Array, full: tuple[int, ...], axes: tuple[int, ...], others: tuple[int, ...]) -> Array:
    """Indices over the whole array of shape `full` from those in planes. The axes of `others` are in front."""
    steps = [math.prod(full[axis + 1 :]) for axis in range(len(full))]
    if axes != tuple(range(len(others), len(full))):
        coordinates = _arrays.unravel(indices, tuple(full[axis] for axis in axes))
        indices = sum(at * steps[axis] for at, axis in zip(coordinates, axes, strict=True))  # type: ignore[assignment]
    for position, axis in enumerate(others):
        begin = np.arange(full[axis]) * steps[axis]
        indices += begin.reshape((-1,) + (1,) * (indices.ndim - 1 - position))
    return indices
