"""The values and indices of a filter: dtypes, the constant beyond the ends, and NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cunpool import _arrays
from cunpool._arrays import Array
from cunpool._ndimage import _borders
from cunpool._ndimage._arguments import Output, Windows, output_of
from cunpool._ndimage._pooled import Result, Rule
from cunpool._overloads import MaxPoolResult


def input_of(value: npt.ArrayLike) -> Array:
    """The input as an array in native byte order, after a check of its dtype."""
    array = _arrays.array_of(value, "input")
    if array.dtype.kind == "c":
        raise TypeError(f"input must be of real numbers, got {array.dtype}: Complex type not supported")
    return _arrays.numbers(array)[0]


def filtered(input: npt.ArrayLike, windows: Windows, output: Output, cval: float, rule: Rule) -> Array | MaxPoolResult:
    """The result of a filter, in `output` if that is an array."""
    array = input_of(input)
    dtype, target = output_of(output, array.shape, array.dtype)
    constant = float(cval)
    if dtype != array.dtype and _has_constant(windows) and _of_dtype(constant, array.dtype) != constant:
        array = _cast(array, dtype)  # the constant is rounded to the dtype of the output alone
    out = target
    if target is None or dtype != array.dtype or not target.flags.writeable or np.may_share_memory(target, array):
        out = None
    values, indices = _extremes(array, windows, constant, rule, out)
    if target is None:
        values = _cast(values, dtype)
    elif values is not target:
        with np.errstate(invalid="ignore", over="ignore"):
            np.copyto(target, values, casting="unsafe")
        values = target
    return values if indices is None else MaxPoolResult(values, indices)


def _cast(array: Array, dtype: np.dtype[Any]) -> Array:
    with np.errstate(invalid="ignore", over="ignore"):  # as in C
        return array.astype(dtype, copy=False)


def _of_dtype(number: float, dtype: np.dtype[Any]) -> Any:
    """`number` as C casts a double to `dtype`: integers are rounded towards zero, and wrap."""
    with np.errstate(invalid="ignore", over="ignore"):
        if dtype.kind == "b":
            return np.bool_(abs(number) >= 1 or number != number)
        if dtype.kind in "iu" and abs(number) < 2.0**63:
            return np.int64(number).astype(dtype)
        return np.float64(number).astype(dtype)


def _has_constant(windows: Windows) -> bool:
    """Whether a window may contain the constant."""
    return any(
        mode == "constant" and before + after > 0
        for before, after, mode in zip(windows.before, windows.after, windows.modes, strict=True)
    )


def _extremes(array: Array, windows: Windows, constant: float, rule: Rule, out: Array | None) -> Result:
    """Extremes of windows, for any constant and with NaN."""
    if not array.size:
        return array.copy(), np.zeros(array.shape, np.int64) if rule.has_indices else None
    has_constant = _has_constant(windows)
    if array.dtype.kind not in "iub":
        values, indices = _among_floats(array, windows, constant, rule, out)
        if indices is not None and (np.isnan(array).any() or (has_constant and constant != constant)):
            # The first NaN of each window is the first element that is 1 in a mask.
            search = rule._replace(is_minimum=False)
            is_nan, first = _borders.bordered(
                np.isnan(array).view(np.uint8), windows, float(constant != constant), False, search, None
            )
            values[is_nan == 1] = np.nan
            np.copyto(indices, first, where=is_nan == 1)  # type: ignore[arg-type]
        return values, indices
    bits = array.view(np.uint8) if array.dtype.kind == "b" else array
    least, most = (0, 1) if array.dtype.kind == "b" else (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)
    is_number = constant == constant and abs(constant) != np.inf
    inside = is_number and least <= int(constant) <= most
    lowest = most if rule.is_minimum else least
    if not has_constant or inside:
        whole = int(constant) if inside else 0
        is_harmless = whole == lowest and not rule.has_indices
        out = out.view(bits.dtype) if out is not None else None
        values, indices = _borders.bordered(bits, windows, whole, is_harmless, rule, out)
        return values.view(array.dtype), indices
    # Compared as doubles, the constant is beyond all integers of the dtype.
    values, indices = _borders.bordered(bits, windows, lowest, True, rule, None)
    values = values.view(array.dtype)
    never_wins = constant < least if not rule.is_minimum else constant > most
    search = rule._replace(is_minimum=False)
    if not never_wins:
        touched, _ = _borders.bordered(
            np.zeros(array.shape, np.uint8), windows, 1, False, search._replace(has_indices=False), None
        )
        is_constant = touched == 1
    elif windows.footprint is not None:
        is_real, first = _borders.bordered(np.ones(array.shape, np.uint8), windows, 0, False, search, None)
        is_constant = is_real == 0
        if indices is not None:  # where all elements in the window are as low as the stand-in for the constant
            np.copyto(indices, first, where=indices < 0)  # type: ignore[arg-type]
    else:
        return values, indices
    values[is_constant] = _of_dtype(constant, array.dtype)
    if indices is not None:
        indices[is_constant] = -1
    return values, indices


def _among_floats(array: Array, windows: Windows, constant: float, rule: Rule, out: Array | None) -> Result:
    cast = _of_dtype(constant, array.dtype)
    is_harmless = bool(cast == (np.inf if rule.is_minimum else -np.inf)) and not rule.has_indices
    return _borders.bordered(array, windows, cast, is_harmless, rule, out)
