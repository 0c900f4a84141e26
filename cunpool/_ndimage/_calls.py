"""The public filters' common code: arguments, then windows, then the result."""

from __future__ import annotations

from typing import Any, SupportsIndex, cast

import numpy.typing as npt

from cunpool import _geometry
from cunpool._arrays import Array
from cunpool._ndimage import _arguments, _filters
from cunpool._ndimage._arguments import Axes, Modes, Origins, Output, Sizes
from cunpool._ndimage._pooled import Rule
from cunpool._overloads import MaxPoolResult


def along(
    input: npt.ArrayLike,
    size: SupportsIndex,
    axis: SupportsIndex,
    output: Output,
    mode: str,
    cval: float,
    origin: SupportsIndex,
    rule: Rule,
) -> Array | MaxPoolResult:
    """A filter along one axis."""
    array = _filters.input_of(input)
    windows = _arguments.along(array.ndim, _arguments.axis_of(axis, array), size, mode, origin)
    return _filters.filtered(array, windows, output, cval, rule)


def filtered(
    function: str,
    input: npt.ArrayLike,
    size: Sizes | None,
    footprint: npt.ArrayLike | None,
    structure: npt.ArrayLike | None,
    output: Output,
    mode: Modes,
    cval: float,
    origin: Origins,
    axes: Axes,
    rule: Rule,
) -> Array | MaxPoolResult:
    """A filter over any axes; `function` is its name in SciPy."""
    array = _filters.input_of(input)
    if function.startswith("grey") and size is None and footprint is None and structure is None:
        raise ValueError("size, footprint, or structure must be specified")
    is_mirrored = function.startswith("grey") and not rule.is_minimum
    if footprint is None and structure is None and size is not None:
        windows = _arguments.of_a_size(array.ndim, *map(_arguments.frozen, (size, mode, origin, axes)), is_mirrored)
        return _filters.filtered(array, windows, output, cval, rule)
    if is_mirrored:
        footprint, structure, origin = _arguments.mirrored(array.ndim, size, footprint, structure, origin, axes)
    windows = _arguments.windows_of(function, array.ndim, footprint, structure, mode, origin, axes)
    return _filters.filtered(array, windows, output, cval, rule)


def twice(
    function: str,
    input: npt.ArrayLike,
    size: Sizes | None,
    footprint: npt.ArrayLike | None,
    structure: npt.ArrayLike | None,
    output: Output,
    mode: Modes,
    cval: float,
    origin: Origins,
    axes: Axes,
    rules: tuple[Rule, Rule],
) -> Array:
    """Two filters, one after the other. The first one's result has the dtype of `input`."""
    result: Any = input
    for rule, target in zip(rules, (None, output), strict=True):
        result = filtered(function, result, size, footprint, structure, target, mode, cval, origin, axes, rule)
    return cast(Array, result)


def rule_of(is_minimum: bool, return_indices: bool, num_threads: int | None) -> Rule:
    return Rule(is_minimum, _geometry.flag("return_indices", return_indices), num_threads)
