"""The argument `channel_axis`: a call on views whose channels come before the spatial axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsIndex, TypeVar, cast

import numpy as np

from cunpool import _arrays, _calls, _geometry, _warn
from cunpool._remedies import shown

Result = TypeVar("Result")

_ARRAYS = ("input", "grad_output", "indices", "onto")
_SIZES = ("output_size", "input_size")


def checked(channel_axis: SupportsIndex | None) -> int | None:
    """Return the `channel_axis` of a module as an integer. Calls check its range."""
    return None if channel_axis is None else _geometry.integer("channel_axis", channel_axis)


def call(
    function: Callable[..., Any] | Callable[..., Result],
    n: int,
    arguments: dict[str, Any],
    as_array: Callable[..., Any] = _arrays.array_of,
    moveaxis: Callable[..., Any] = np.moveaxis,
) -> Result:
    """Call `function` with these arguments by name, over `n` spatial axes, and move the results' axes back.

    The first of the arguments is an array. Nothing is copied.
    """
    given = dict(arguments)
    axis = _geometry.integer("channel_axis", given.pop("channel_axis"))
    name, first = next(iter(given.items()))
    first = given[name] = as_array(first, name)
    ndim, to = first.ndim, first.ndim - n - 1
    if ndim not in (n + 1, n + 2):
        raise ValueError(
            f"{name} must have {n + 1} or {n + 2} axes with channel_axis, one of the channels and perhaps a first one "
            f"of N, got {shown(tuple(first.shape))}; without channels pass {name}[None] and no channel_axis"
        )
    if not -ndim <= axis < ndim:
        raise ValueError(
            f"channel_axis must be from {-ndim} to {ndim - 1} for {name} of {ndim} axes, got {shown(axis)}"
        )
    axis %= ndim
    for key in given.keys() & {*_ARRAYS}:
        value = given[key]
        if value is None or isinstance(value, bool) or value is _calls.MISSING or _calls.is_size(value):
            continue
        array = given[key] = as_array(value, key)
        if array.ndim == ndim:
            given[key] = moveaxis(array, axis, to)
    if "indices" in given:
        for key in given.keys() & {*_SIZES}:
            given[key] = _moved_size(key, given[key], n, ndim, axis)
    out = given.get("out")
    if out is not None:
        entries = [_moved_out(entry, ndim, axis, to) for entry in (out if isinstance(out, tuple) else (out,))]
        given["out"] = tuple(entries) if isinstance(out, tuple) else entries[0]
    token = _warn.IS_LAYOUT_KNOWN.set(True)
    try:
        result: Any = function(**given)
    except (IndexError, ValueError) as error:
        error.args = (f"{error} (shapes and positions as channel_axis={axis} is moved to {to})",)
        raise
    finally:
        _warn.IS_LAYOUT_KNOWN.reset(token)
    if not isinstance(result, tuple):
        return cast(Result, _moved_back(result, out, axis, to, moveaxis))
    pair = (None, None) if out is None else out
    results = [_moved_back(*both, axis, to, moveaxis) for both in zip(result, pair, strict=True)]
    return cast(Result, type(result)(*results) if hasattr(result, "_fields") else tuple(results))


def _moved_size(name: str, size: Any, n: int, ndim: int, axis: int) -> Any:
    """The spatial entries of a size: it has only these, or one for each axis of the array."""
    if size is None or not hasattr(size, "__len__") or len(size) == n:
        return size
    entries = [*_geometry.entries(name, size)]
    if len(entries) != ndim:
        raise ValueError(f"{name} must have {n} entries, the spatial ones, or {ndim}, got {shown(size)}")
    del entries[axis]
    return tuple(entries[-n:])


def _moved_out(out: Any, ndim: int, axis: int, to: int) -> Any:
    """A view of an array for results. The function refuses everything else."""
    return np.moveaxis(out, axis, to) if isinstance(out, np.ndarray) and out.ndim == ndim else out


def _moved_back(result: Any, out: Any, axis: int, to: int, moveaxis: Callable[..., Any]) -> Any:
    """A result in the caller's order of axes: `out` itself if that was given."""
    return moveaxis(result, to, axis) if out is None else out
