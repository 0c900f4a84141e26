"""Arrays: accepted types and dtypes, the memory layout of results, and errors for bad indices."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy import ndarray

from cunpool._kernels import memory as _memory
from cunpool._remedies import shown, type_of

Array = npt.NDArray[Any]

new = _memory.new

INT64, INT32 = np.dtype(np.int64), np.dtype(np.int32)
CODES: dict[int, np.dtype[Any]] = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16)}
ITEM_SIZES = (1, 2, 4, 8, 16)
NO_CHOICE = "index_dtype is for plane indices: the size of the window determines the dtype of window codes"
NO_INTEGERS = "indices must be of integers"
# bfloat16 for arrays made without ml_dtypes.
BFLOAT16 = np.dtype([("bfloat16", np.uint16)])

# DLPack's device types with memory that the CPU can read: CPU, and pinned host memory of CUDA and ROCm.
DLPACK_CPU = (1, 3, 11)

# Axes of (N, C, depth, height, width).
MOST_AXES = 5

# Candidates that NumPy may try to decide whether memory is shared. They take milliseconds. (speed)
SEARCHED = 100_000


@lru_cache(maxsize=256)
def _moves(dtype: np.dtype[Any]) -> bool:
    """Return whether the kernels can move items of `dtype`: items of a supported size without references."""
    return dtype.kind in "biufcmMV" and dtype.itemsize in ITEM_SIZES and not dtype.hasobject


@lru_cache(maxsize=256)
def _number(dtype: np.dtype[Any]) -> str | None:
    """Return the kernels' name for `dtype`, or None if pooling does not support it."""
    if dtype.name == "bfloat16" or dtype == BFLOAT16:
        return "bf2"
    if dtype.name == "float16":
        return "f2"
    if dtype.kind == "b":
        return "u1"
    name = f"{dtype.kind}{dtype.itemsize}"
    return name if dtype.kind in "iu" or name in ("f4", "f8") else None


def array_of(value: npt.ArrayLike, name: str, n: int = 0, of_a_pair: str = "") -> Array:
    """Return `value` as an array, without a copy if possible; with `n`, check that it has `n` spatial axes.

    `of_a_pair` is the remedy for pooling's pair of values and indices, in place of the default one.
    """
    return value if type(value) is ndarray else _converted(value, name, n, of_a_pair)


def masked(name: str, remedy: str) -> str:
    """Return the message for a masked array as argument `name`."""
    return f"{name} must not be a masked array, because its mask would be lost: pass {remedy}"


def _converted(value: Any, name: str, n: int = 0, of_a_pair: str = "") -> Array:
    kind = type(value)
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(masked(name, f"{name}.filled(...)"))
    if getattr(kind, "_fields", None) == ("values", "indices"):
        part = "pass its indices" if name == "indices" else of_a_pair or "put a * before it, or pass its values"
        raise TypeError(f"{name} must be an array, got pooling's pair of values and indices: {part}")
    if _holds_lazy(value):
        raise TypeError(
            f"{name} must be an array, got a {kind.__name__} of Dask arrays, which would all be computed: join "
            "them with dask.array.stack and use cunpool.dask, or call compute() of each"
        )
    if _is_lazy(value):
        raise TypeError(
            f"{name} must be an array, got a Dask object ({kind.__name__}), which would be computed whole: use "
            f"cunpool.dask, or pass {name}.compute()"
        )
    try:
        array = np.asarray(value)
    except (RuntimeError, TypeError, ValueError) as error:
        if type_of(value).startswith("torch."):
            raise TypeError(
                f"{name} must be an array, got a torch.Tensor that NumPy cannot read: use cunpool.torch, which "
                "supports tensors and their gradients"
            ) from error
        wrong = ValueError if isinstance(error, ValueError) else TypeError
        raise wrong(f"{name} must be an array, or something that numpy.asarray converts: {error}") from error
    maker = "asarray"
    if not array.ndim and array.dtype.kind == "O" and hasattr(value, "__dlpack__"):
        array, maker = _from_dlpack(value, name), "from_dlpack"
    if not array.ndim and array.dtype.kind in "OSU":  # NumPy converts None, strings and dictionaries too
        raise TypeError(f"{name} must be an array, got {kind.__name__}")
    if n and array.ndim == n:
        lazily = ", or da.from_zarr(...)[None] to cunpool.dask" if type_of(value).startswith("zarr.") else ""
        raise ValueError(
            f"{name} must have {n + 1} or {n + 2} axes, (C, *spatial) or (N, C, *spatial), got {array.shape} of type "
            f"{type_of(value)}; add a channel axis: np.{maker}({name})[None]{lazily}"
        )
    return array


def _is_lazy(value: Any) -> bool:
    """Return whether `value` is a Dask array, or contains one, as an xarray.DataArray may."""
    return hasattr(type(value), "__dask_graph__") and value.__dask_graph__() is not None


def _holds_lazy(value: Any, depth: int = MOST_AXES) -> bool:
    """Return whether `value` is a list or tuple with a Dask array in it, at most `depth` levels deep."""
    if not depth or not isinstance(value, (list, tuple)):
        return False
    kinds = set(map(type, value))  # one type for a list of many numbers (speed)
    if any(hasattr(kind, "__dask_graph__") for kind in kinds) and any(map(_is_lazy, value)):
        return True
    return any(issubclass(kind, (list, tuple)) for kind in kinds) and any(_holds_lazy(v, depth - 1) for v in value)


def _from_dlpack(value: Any, name: str) -> Array:
    """Return an array by DLPack, the protocol for arrays on any device, if it is in memory that the CPU reads."""
    kind = type_of(value)
    if not hasattr(value, "__dlpack_device__"):
        raise TypeError(
            f"{name} must be an array, and one with __dlpack__ must have __dlpack_device__ too, got {kind} without it: "
            "pass a numpy array of its elements"
        )
    try:
        device = int(value.__dlpack_device__()[0])
        if device in DLPACK_CPU:
            return np.from_dlpack(value)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(
            f"{name} must be an array that NumPy can read by DLPack, got {kind}: {error}; pass a numpy array of its "
            "elements"
        ) from error
    raise TypeError(f"{name} must be an array in the CPU's memory, got one on a device of DLPack's type {device}")


def items(value: npt.ArrayLike, name: str = "input", n: int = 0) -> Array:
    """Return the input of an unpooling or its gradient as an array; with `n`, check its number of axes."""
    array = (
        value if type(value) is ndarray else _converted(value, name, n)
    )  # `array_of`, written out (speed of small calls)
    if not _moves(array.dtype):
        raise TypeError(
            f"{name} must have a dtype of 1, 2, 4, 8 or 16 bytes that is not an object or a string, got {array.dtype}"
        )
    return array


def numbers(array: Array, name: str = "input") -> tuple[Array, str]:
    """Return the input of a pooling in native byte order, and the kernels' name for its dtype."""
    kind = _number(array.dtype)
    if kind is None:
        raise TypeError(
            f"{name} must be of integers or bool, or of float16, bfloat16, float32 or float64, got {array.dtype}"
        )
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("=")), kind


def reals(array: Array, name: str) -> tuple[Array, str]:
    """Return an array of floats in native byte order, and the kernels' name for its dtype."""
    kind = _number(array.dtype)
    if kind is None or "f" not in kind:
        raise TypeError(f"{name} must be of float16, bfloat16, float32 or float64, got {array.dtype}")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("=")), kind


def integers(value: npt.ArrayLike, shape: tuple[int, ...], name: str = "input") -> Array:
    """Return indices as int32 or int64. A uint64 beyond int64 becomes negative, so that the kernels refuse it."""
    array = value if type(value) is ndarray else _converted(value, "indices")
    if array.shape != shape:
        raise _bad_shape(array, shape, name)
    return array if array.dtype is INT64 else _as_signed(array)


def codes(value: npt.ArrayLike, shape: tuple[int, ...], size: int, name: str = "input") -> Array | None:
    """Return window codes of `size` bytes each, or None if one of the integers is too large or negative."""
    array = value if type(value) is ndarray else _converted(value, "indices")
    if array.shape != shape:
        raise _bad_shape(array, shape, name)
    if array.dtype != CODES[size]:
        _check_integers(array)
        small = array.astype(CODES[size])
        if not np.array_equal(small, array):
            return None
        array = small
    return array


def _bad_shape(array: Array, shape: tuple[int, ...], name: str, hint: str = "") -> ValueError:
    """Return the error for indices that do not have `shape`, the shape of the argument `name`."""
    return ValueError(f"indices must have the shape of {name}, {shape}, got {array.shape}{hint}")


def better_error(
    error: TypeError | ValueError,
    indices: npt.ArrayLike,
    like: Array,
    name: str,
    earlier: Callable[[tuple[int, ...]], str] | None = None,
) -> TypeError | ValueError:
    """Return a more helpful error than `error` if the indices do not fit the array `like`, else `error`.

    `like` is the argument `name`. Sizes are checked before indices, but a wrong shape of the indices explains more.
    `earlier` receives that shape and returns a remedy.
    """
    try:
        given = array_of(indices, "indices")
    except (TypeError, ValueError) as no_array:
        return no_array
    if isinstance(error, ValueError):
        if given.shape == like.shape:
            return error
        return _bad_shape(given, like.shape, name, earlier(given.shape) if earlier else "")
    return if_swapped(error, like.dtype, name)


def if_swapped(error: TypeError, dtype: np.dtype[Any], name: str) -> TypeError:
    """Return `error`, extended if it is about indices and `dtype`, of the argument `name`, suits indices."""
    if str(error).startswith(NO_INTEGERS) and dtype.kind in "iu":
        return TypeError(f"{error}, and {name} of {dtype}: the two look swapped")
    return error


def _check_integers(array: Array) -> None:
    if array.dtype.kind not in "iu" and (array.size or array.dtype.kind != "f"):  # an empty list becomes floats
        raise TypeError(f"{NO_INTEGERS}, got {array.dtype}")


def _as_signed(array: Array) -> Array:
    _check_integers(array)
    kind, size = array.dtype.kind, array.dtype.itemsize
    wide = size == 8 or (size, kind) == (4, "u")
    if size < 4 or (size, kind) == (4, "u") or kind == "f" or not array.dtype.isnative:
        return array.astype(INT64 if wide else np.int32)
    return array


def index_dtype(asked: npt.DTypeLike | None, elements: int, name: str = "index_dtype") -> np.dtype[Any]:
    """Return the dtype for indices of planes with this number of elements: int64, or int32 if requested."""
    try:
        dtype = INT64 if asked is None else np.dtype(asked)
    except (TypeError, ValueError):  # ValueError: an integer with too many digits to print
        raise TypeError(f"{name} must be int64 or int32, got {shown(asked)}") from None
    if dtype == INT64:
        return INT64
    if dtype != INT32:
        raise TypeError(f"{name} must be int64 or int32, got {dtype}")
    if elements > 1 << 31:
        raise OverflowError(f"int32 indices are for at most 2**31 elements, got {elements}: use int64")
    return INT32


def result_for(
    out: Array | None,
    like: Array,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    *inputs: npt.ArrayLike,
    name: str = "out",
) -> Array:
    """Return the array to compute into: `out`, or a new array if `out` is None or overlaps an input.

    `inputs` are the caller's arrays. They stay unchanged until the call succeeds, because errors are found from them.
    """
    if out is None:
        return new(like, shape, dtype)
    check_out(out, shape, dtype, name)
    plain = np.asarray(out)  # a subclass may have functions of its own
    for array in inputs:
        if np.may_share_memory(plain, array):
            return new(like, shape, dtype)
    return out


def delivered(result: Array, out: Array | None) -> Array:
    """Return `out` with the result copied into it, or `result` if there is no `out`."""
    if out is None or result is out:
        return result
    np.copyto(np.asarray(out), result)  # not by a subclass's own assignment
    return out


def check_out(out: object, shape: tuple[int, ...], dtype: np.dtype[Any], name: str = "out") -> Array:
    """Return `out`, after checking that the result can be written there."""
    if not isinstance(out, np.ndarray):
        raise TypeError(f"{name} must be a numpy array, got {type(out).__name__}")
    if type(out) is not ndarray and isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be a masked array, because its mask would not change: pass {name}.data")
    if out.dtype != dtype:
        raise TypeError(f"{name} must have the dtype of the result, {dtype}, got {out.dtype}")
    if out.shape != shape:
        raise ValueError(f"{name} must have the shape of the result, {shape}, got {out.shape}")
    if not out.flags.writeable:
        raise ValueError(f"{name} must be writeable, got a read-only array")
    # As a plain array, because an entry of a np.matrix has as many axes as the matrix.
    if not out.flags.c_contiguous and _may_overlap_itself(np.asarray(out)):
        raise ValueError(f"{name} must not overlap itself in memory, got strides {out.strides} for shape {out.shape}")
    return out


def _may_overlap_itself(array: Array) -> bool:
    """Return whether two elements share a byte, or may share one if the answer takes too long."""
    reach = array.itemsize
    for stride, size in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if stride < reach:
            return array.size > 0 and _overlaps_itself(array)
        reach += stride * (size - 1)
    return False


def _overlaps_itself(array: Array) -> bool:
    """Return whether two elements of an array that is not empty share a byte.

    The first axis is divided in halves. Two elements lie in different halves, or both in one half. An overlap within
    the smaller half occurs in the larger half too.
    """
    while array.ndim:
        if len(array) == 1:
            array = array[0]
            continue
        half = len(array) // 2
        try:
            if np.shares_memory(array[:half], array[half:], max_work=SEARCHED):  # type: ignore[arg-type]
                return True
        except RuntimeError:  # numpy.exceptions.TooHardError; its module depends on NumPy's version
            return True
        array = array[half:]
    return False


def unravel(flat: Array, shape: tuple[int, ...]) -> list[Array]:
    """Call `np.unravel_index`, avoiding an error of NumPy 2.3 and 2.4 for large arrays with a last axis of 1.

    The error is numpy#31980.
    """
    return [axis.reshape(flat.shape) for axis in np.unravel_index(flat.ravel(), shape)]
