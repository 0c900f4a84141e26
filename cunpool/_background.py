"""Backgrounds of unpooling: elements that it stores where no index points, of one value or of another array."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cunpool import _arrays
from cunpool._arrays import Array
from cunpool._kernels import unpool as _unpool
from cunpool._remedies import shown

FillValue = complex | np.generic
"""One element: a number of Python, or a scalar of NumPy."""


def onto_array(onto: npt.ArrayLike, values: Array, output_size: object, fill_value: object) -> Array:
    """Return `onto` as an array, after checking that it has the dtype of `values` and replaces the other arguments."""
    refuse_beside_onto(output_size, fill_value)
    array = _arrays.items(onto, "onto")
    if array.dtype != values.dtype:
        raise TypeError(f"onto must have the dtype of input, {values.dtype}, got {array.dtype}")
    return array


def refuse_beside_onto(output_size: object, fill_value: object) -> None:
    """Raise an error if arguments were given that `onto` replaces."""
    for name, value in (("output_size", output_size), ("fill_value", fill_value)):
        if value is not None:
            raise ValueError(f"onto has the elements and the size of the result: leave out {name}, {shown(value)}")


def check_shape(onto: Array, shape: tuple[int, ...]) -> None:
    """Raise an error unless `onto` has the result's shape. Its spatial axes have been checked."""
    if onto.shape != shape:
        raise ValueError(f"onto must have the N and C of input: the shape {shape}, got {onto.shape}")


def result_for(
    out: Array | None, background: Array | None, values: Array, shape: tuple[int, ...], indices: npt.ArrayLike
) -> Array:
    """Return the array to unpool into: `out`, or a new array if `out` is None or overlaps an input.

    `out` may have its elements at the addresses of the background's, but overlap it in no other way.
    """
    if background is None or not background.ndim:
        return _arrays.result_for(out, values, shape, values.dtype, values, indices)
    inputs = [values, indices] if _is_same(out, background) else [values, indices, background]
    return _arrays.result_for(out, background, shape, values.dtype, *inputs)


def _is_same(a: Any, b: Array) -> bool:
    """Whether `a` is an array, and its elements have the addresses of the elements of `b`."""
    if not isinstance(a, np.ndarray):
        return False
    return a.ctypes.data == b.ctypes.data and a.strides == b.strides and a.shape == b.shape


def filled(fill_value: Any, dtype: np.dtype[Any]) -> Array | None:
    """Return `fill_value` as an array without axes, or None if all its bytes are zero."""
    element = element_of(fill_value, dtype)
    return element if any(element.tobytes()) else None


def pair_of(out: Array | tuple[Array | None, Array | None] | None, onto: bool) -> tuple[Array | None, Array | None]:
    """Return the arrays for the gradients of the input and of `onto`, each an array or None."""
    if out is None or not (onto or isinstance(out, tuple)):
        return out, None
    if not onto:
        raise ValueError("out must be one array without onto=True, got a tuple")
    if not isinstance(out, tuple) or len(out) != 2:
        raise TypeError(
            "out must be a tuple of two with onto=True, of an array or None for the gradient of input and one for that "
            f"of onto, got {f'{len(out)} entries' if isinstance(out, tuple) else type(out).__name__}"
        )
    return out


def gradient_into(out: Array | None, full: Array, indices: npt.ArrayLike, beside: Array | None) -> Array:
    """Return the array for the gradient of `onto`: `out`, or a new one. `beside` is the array for the other."""
    if out is None:
        return _arrays.new(full, full.shape, full.dtype)
    _arrays.check_out(out, full.shape, full.dtype, "out[1]")
    if beside is not None and np.may_share_memory(out, beside):
        raise ValueError("out[0] and out[1] must not overlap in memory")
    return _arrays.result_for(out, full, full.shape, full.dtype, indices, *([] if _is_same(out, full) else [full]))


def zero_at(positions: Array, full: Array, out: Array, sizes: tuple[int, ...], n: int, kind: int, threads: int) -> None:
    """Copy `full` to `out`, which may be the same array, with zeros at the indices."""
    zeros = np.broadcast_to(np.zeros((), full.dtype), positions.shape)
    _unpool.unpool(zeros, positions, out, sizes, n, kind, threads, full)


def element_of(fill_value: Any, dtype: np.dtype[Any]) -> Array:
    """Return `fill_value` as an array of one element and no axes, if `dtype` can represent it."""
    given = np.asarray(fill_value) if isinstance(fill_value, (complex, float, int, np.generic, np.ndarray)) else None
    if (
        given is None
        or given.ndim
        or given.dtype.kind in "SU"
        or (given.dtype.kind == "O" and not isinstance(fill_value, int))
    ):
        raise TypeError(f"fill_value must be one number, or one element of {dtype}, got {shown(fill_value)}")
    if given.dtype == dtype:
        return given
    wrong = f"fill_value must be representable in {dtype}, the dtype of input, got {shown(fill_value)}"
    is_integer = given.dtype.kind in "biuO"  # an object is an integer with more bits than NumPy's
    if given.dtype.kind == dtype.kind and dtype.kind in "mM":
        element = given.astype(dtype)
        is_kept = bool(element == given) or bool(np.isnat(given))
    elif not (_is_number(dtype) and (is_integer or _is_number(given.dtype))):
        raise TypeError(wrong)
    elif dtype.kind in "biu":
        is_kept = is_integer or (given.dtype.kind != "c" and bool(np.isfinite(given)) and given == np.floor(given))
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        is_kept = is_kept and low <= int(given) <= high
        element = np.array(int(given) if is_kept else 0, dtype)
    elif given.dtype.kind == "c" and dtype.kind != "c":
        raise ValueError(wrong)
    else:
        try:
            with np.errstate(all="ignore"):  # rounding is allowed, and overflow is not
                element = given.astype(dtype)
            is_kept = bool(np.isfinite(element)) or not (is_integer or np.isfinite(given))
        except OverflowError:
            is_kept = False
    if not is_kept:
        raise ValueError(wrong)
    return element


def _is_number(dtype: np.dtype[Any]) -> bool:
    """Whether elements are numbers. The dtypes of ml_dtypes have the kind of void, but types of their own."""
    return dtype.kind in "biufc" or (dtype.kind == "V" and dtype.type is not np.void)
