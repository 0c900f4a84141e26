"""The values and indices of a filter: dtypes, the constant beyond the ends, and NaN."""

from __future__ import annotations

from functools import lru_cache
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
    if array.dtype == _arrays.BFLOAT16:
        raise TypeError(
            f"input of bfloat16 must have the dtype of ml_dtypes here, got {array.dtype}: pass a view of it"
        )
    return _arrays.numbers(array)[0]


def filtered(array: Array, windows: Windows, output: Output, cval: float, rule: Rule) -> Array | MaxPoolResult:
    """The result of a filter of what `input_of` returns, in `output` if that is an array."""
    dtype, target = output_of(output, array.shape, array.dtype)
    native, constant = dtype if dtype.isnative else dtype.newbyteorder("="), float(cval)
    if windows.first is None:
        constant = float(_of_dtype(constant, array.dtype))
    elif native != array.dtype:
        if _has_constant(windows) and _is_lost(constant, array.dtype, native):
            array = cast(array, native)  # the constant is cast to the dtype of the output alone
        elif native.kind in "iu" and not (rule.has_indices or np.can_cast(array.dtype, native)):
            array, windows = _after_one_axis(array, windows, native, constant, rule)
    out = target
    if target is None or dtype != array.dtype or not target.flags.writeable or np.may_share_memory(target, array):
        out = None
    values, indices = _extremes(array, windows, constant, rule, out)
    if target is None:
        values = values if values.dtype is dtype else cast(values, dtype)
    else:
        if out is None or not np.may_share_memory(values, out):  # not every way writes there
            target[...] = cast(values, dtype)
        values = target
    return values if indices is None else MaxPoolResult(values, indices)


def _is_lost(constant: float, dtype: np.dtype[Any], output: np.dtype[Any]) -> bool:
    """Whether the constant changes if it is cast to `dtype` before it is cast to `output`."""
    rounded = float(_of_dtype(constant, dtype))
    if output.kind not in "iub":
        return rounded != constant
    return dtype.kind in "iub" and not (np.isfinite(constant) and int(constant) == rounded)


def _after_one_axis(
    array: Array, windows: Windows, dtype: np.dtype[Any], constant: float, rule: Rule
) -> tuple[Array, Windows]:
    """The result along SciPy's first axis, as `dtype`, and the windows along the others.

    SciPy casts after each axis. That counts for numbers that `dtype` cannot represent.
    """
    steps = []
    for is_first in (True, False):
        before, after = (
            tuple(n if (axis == windows.first) is is_first else 0 for axis, n in enumerate(side))
            for side in (windows.before, windows.after)
        )
        steps.append(windows._replace(before=before, after=after))
    values, _ = _extremes(array, steps[0], constant, rule, None)
    return cast(values, dtype), steps[1]


def cast(array: Array, dtype: np.dtype[Any]) -> Array:
    """The array as C casts it to `dtype`, where a bool is an integer."""
    with np.errstate(invalid="ignore", over="ignore"):
        if dtype.kind == "b" and array.dtype.kind not in "iub":
            array = np.trunc(array)
        return array.astype(dtype, copy=False)


def _has_constant(windows: Windows) -> bool:
    """Whether a window may contain the constant."""
    return "constant" in windows.modes and any(
        mode == "constant" and before + after > 0
        for before, after, mode in zip(windows.before, windows.after, windows.modes, strict=True)
    )


def _of_dtype(number: float, dtype: np.dtype[Any]) -> Any:
    """`number` as C casts a double to `dtype`: integers are rounded towards zero, and wrap."""
    with np.errstate(invalid="ignore", over="ignore"):
        if dtype.kind == "b":
            return np.bool_(abs(number) >= 1 or number != number)
        if dtype.kind in "iu" and abs(number) < 2.0**63:
            return np.int64(number).astype(dtype)
        return np.float64(number).astype(dtype)


@lru_cache(maxsize=16)
def _range_of(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The least integer and the largest one, also of bool."""
    return (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


def _extremes(array: Array, windows: Windows, constant: float, rule: Rule, out: Array | None) -> Result:
    """Extremes of windows, for any constant and with NaN."""
    if not array.size:
        return array.copy(), np.zeros(array.shape, np.int64) if rule.has_indices else None
    has_constant = _has_constant(windows)
    if array.dtype.kind not in "iub":
        values, indices = _among_floats(array, windows, constant, has_constant, rule, out)
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
    least, most = _range_of(array.dtype)
    lowest = most if rule.is_minimum else least
    is_beyond = constant != constant or not least - 1 < constant < most + 1
    if has_constant and is_beyond:
        values, indices = _borders.bordered(bits, windows, lowest, True, rule, None)
        values = values.view(array.dtype)
        if not (constant > most if rule.is_minimum else constant < least):  # then it wins wherever it is in a window
            mask = np.zeros(array.shape, np.uint8)
            touched, _ = _borders.bordered(mask, windows, 1, False, Rule(False, False, rule.num_threads), None)
            values[touched == 1] = _of_dtype(constant, array.dtype)
            if indices is not None:
                indices[touched == 1] = -1
        return values, indices
    whole = 0 if is_beyond else int(constant)
    is_harmless = whole == lowest and not rule.has_indices
    if bits is array:
        return _borders.bordered(array, windows, whole, is_harmless, rule, out)
    values, indices = _borders.bordered(
        bits, windows, whole, is_harmless, rule, None if out is None else out.view("u1")
    )
    return values.view(array.dtype), indices


def _among_floats(
    array: Array, windows: Windows, constant: float, has_constant: bool, rule: Rule, out: Array | None
) -> Result:
    if not has_constant:
        return _borders.bordered(array, windows, 0, False, rule, out)
    number = _of_dtype(constant, array.dtype)
    is_harmless = bool(number == (np.inf if rule.is_minimum else -np.inf)) and not rule.has_indices
    return _borders.bordered(array, windows, number, is_harmless, rule, out)
