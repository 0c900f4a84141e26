"""Arrays: which are acceptable, how results are laid out, and what to say of a bad index."""

from __future__ import annotations

import math
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
NO_CHOICE = "index_dtype is for places in the plane: a window's size says how large its codes are"
NO_INTEGERS = "indices must be of integers"
# What stands for bfloat16 where ml_dtypes need not be installed.
BFLOAT16 = np.dtype([("bfloat16", np.uint16)])

# DLPack's types of devices whose memory the CPU reads: its own, and that which is pinned for CUDA and ROCm.
DLPACK_CPU = (1, 3, 11)

# The axes of (N, C, depth, height, width).
MOST_AXES = 5

# How many candidates NumPy may go through to see whether memory is shared: milliseconds.
SEARCHED = 100_000


@lru_cache(maxsize=256)
def _moves(dtype: np.dtype[Any]) -> bool:
    """Whether the kernels can move items of `dtype`: of a fixed size, and whose bits are all there is to them."""
    return dtype.kind in "biufcmMV" and dtype.itemsize in ITEM_SIZES and not dtype.hasobject


@lru_cache(maxsize=256)
def _number(dtype: np.dtype[Any]) -> str | None:
    """The kernels' name for `dtype`'s kind of number, or None where pooling does not know it."""
    if dtype.name == "bfloat16" or dtype == BFLOAT16:
        return "bf2"
    if dtype.name == "float16":
        return "f2"
    if dtype.kind == "b":
        return "u1"
    name = f"{dtype.kind}{dtype.itemsize}"
    return name if dtype.kind in "iu" or name in ("f4", "f8") else None


def array_of(value: npt.ArrayLike, name: str, n: int = 0, of_a_pair: str = "") -> Array:
    """`value` as an array, without a copy where there is memory to share; with `n`, one with as many spatial axes.

    `of_a_pair` says what to do where it is pooling's pair, if not what functions of values and indices advise.
    """
    return value if type(value) is ndarray else _converted(value, name, n, of_a_pair)


def masked(name: str, remedy: str) -> str:
    """What to say where `name` is a masked array."""
    return f"{name} must not be a masked array, whose mask would be lost: give {remedy}"


def _converted(value: Any, name: str, n: int = 0, of_a_pair: str = "") -> Array:
    kind = type(value)
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(masked(name, f"{name}.filled(...)"))
    if getattr(kind, "_fields", None) == ("values", "indices"):
        part = "give its indices" if name == "indices" else of_a_pair or "put a * before it, or give its values"
        raise TypeError(f"{name} must be an array, got pooling's pair of values and indices: {part}")
    if _holds_lazy(value):
        raise TypeError(
            f"{name} must be an array, got a {kind.__name__} of Dask's, which would be computed whole: use "
            "cunpool.dask for what dask.array.stack makes of them, or call compute() of each"
        )
    if _is_lazy(value):
        raise TypeError(
            f"{name} must be an array, got one of Dask's ({kind.__name__}), which would be computed whole: use "
            f"cunpool.dask, or give {name}.compute()"
        )
    try:
        array = np.asarray(value)
    except (RuntimeError, TypeError, ValueError) as error:
        if type_of(value).startswith("torch."):
            raise TypeError(
                f"{name} must be an array, got a torch.Tensor that NumPy cannot read: use cunpool.torch, which takes "
                "tensors and knows gradients"
            ) from error
        wrong = ValueError if isinstance(error, ValueError) else TypeError
        raise wrong(f"{name} must be an array, or what numpy.asarray makes one of: {error}") from error
    maker = "asarray"
    if not array.ndim and array.dtype.kind == "O" and hasattr(value, "__dlpack__"):
        array, maker = _from_dlpack(value, name), "from_dlpack"
    if not array.ndim and array.dtype.kind in "OSU":  # of None, a string, a dictionary: anything will do for NumPy
        raise TypeError(f"{name} must be an array, got {kind.__name__}")
    if n and array.ndim == n:
        lazily = ", or da.from_zarr(...)[None] to cunpool.dask" if type_of(value).startswith("zarr.") else ""
        raise ValueError(
            f"{name} must have {n + 1} or {n + 2} axes, (C, *spatial) or (N, C, *spatial), got {array.shape} of type "
            f"{type_of(value)}; give one plane alone its C: np.{maker}({name})[None]{lazily}"
        )
    return array


def _is_lazy(value: Any) -> bool:
    """Whether `value` is one of Dask's arrays, or holds one as xarray's may."""
    return hasattr(type(value), "__dask_graph__") and value.__dask_graph__() is not None


def _holds_lazy(value: Any, depth: int = MOST_AXES) -> bool:
    """Whether `value` is a list or a tuple with one of Dask's arrays in it, no deeper than an array has axes."""
    if not depth or not isinstance(value, (list, tuple)):
        return False
    kinds = set(map(type, value))  # few, where there are many numbers (speed)
    if any(hasattr(kind, "__dask_graph__") for kind in kinds) and any(map(_is_lazy, value)):
        return True
    return any(issubclass(kind, (list, tuple)) for kind in kinds) and any(_holds_lazy(v, depth - 1) for v in value)


def _from_dlpack(value: Any, name: str) -> Array:
    """What only speaks DLPack, the protocol of arrays on any device, as an array in the CPU's memory."""
    kind = type_of(value)
    if not hasattr(value, "__dlpack_device__"):
        raise TypeError(
            f"{name} must be an array, and one with __dlpack__ must have __dlpack_device__ too, got {kind} without it: "
            "give a numpy array of its elements"
        )
    try:
        device = int(value.__dlpack_device__()[0])
        if device in DLPACK_CPU:
            return np.from_dlpack(value)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(
            f"{name} must be an array that NumPy can read by DLPack, got {kind}: {error}; give a numpy array of its "
            "elements"
        ) from error
    raise TypeError(f"{name} must be an array in the CPU's memory, got one on a device of DLPack's type {device}")


def items(value: npt.ArrayLike, name: str = "input", n: int = 0) -> Array:
    """The input of an unpooling, or of its gradient; with `n`, an array with as many spatial axes."""
    array = value if type(value) is ndarray else _converted(value, name, n)  # `array_of`, for small calls
    if not _moves(array.dtype):
        raise TypeError(
            f"{name} must have a dtype of 1, 2, 4, 8 or 16 bytes that is not an object or a string, got {array.dtype}"
        )
    return array


def numbers(array: Array) -> tuple[Array, str]:
    """The input of a pooling, in the machine's byte order, and the kernels' name for its kind of number."""
    kind = _number(array.dtype)
    if kind is None:
        raise TypeError(
            f"input must be of integers or bool, or of float16, bfloat16, float32 or float64, got {array.dtype}"
        )
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("=")), kind


def reals(array: Array, name: str) -> tuple[Array, str]:
    """Floating numbers in the machine's byte order, and the kernels' name for their kind."""
    kind = _number(array.dtype)
    if kind is None or "f" not in kind:
        raise TypeError(f"{name} must be of float16, bfloat16, float32 or float64, got {array.dtype}")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("=")), kind


def integers(value: npt.ArrayLike, shape: tuple[int, ...], name: str = "input") -> Array:
    """The indices of an unpooling, as int32 or int64; a uint64 beyond int64 turns negative, and is caught as such."""
    array = value if type(value) is ndarray else _converted(value, "indices")
    if array.shape != shape:
        raise _bad_shape(array, shape, name)
    return array if array.dtype is INT64 else _as_signed(array)


def codes(value: npt.ArrayLike, shape: tuple[int, ...], size: int, name: str = "input") -> Array | None:
    """Window codes of `size` bytes each; None where some integer among them is too large, or negative."""
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
    """The error for indices of another shape than `shape`, that of the argument `name`."""
    return ValueError(f"indices must have the shape of {name}, {shape}, got {array.shape}{hint}")


def better_error(
    error: TypeError | ValueError,
    indices: npt.ArrayLike,
    like: Array,
    name: str,
    earlier: Callable[[tuple[int, ...]], str] | None = None,
) -> TypeError | ValueError:
    """The error to raise for `error`, if the indices do not belong to the array `like`, that of the argument `name`.

    Sizes are looked at before the indices, but another shape of these tells more. `earlier` is told that shape, and
    answers what to do about it.
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
    """The error to raise for `error`, if it is of indices, and the argument `name` of `dtype` looks like these."""
    if str(error).startswith(NO_INTEGERS) and dtype.kind in "iu":
        return TypeError(f"{error}, and {name} of {dtype}: the two look swapped")
    return error


def _check_integers(array: Array) -> None:
    if array.dtype.kind not in "iu" and (array.size or array.dtype.kind != "f"):  # an empty list is of floats
        raise TypeError(f"{NO_INTEGERS}, got {array.dtype}")


def _as_signed(array: Array) -> Array:
    _check_integers(array)
    kind, size = array.dtype.kind, array.dtype.itemsize
    wide = size == 8 or (size, kind) == (4, "u")
    if size < 4 or (size, kind) == (4, "u") or kind == "f" or not array.dtype.isnative:
        return array.astype(INT64 if wide else np.int32)
    return array


def index_dtype(asked: npt.DTypeLike | None, cells: int, name: str = "index_dtype") -> np.dtype[Any]:
    """How to store places among so many `cells`: as int64, or as int32 where that is asked for."""
    try:
        dtype = INT64 if asked is None else np.dtype(asked)
    except (TypeError, ValueError):  # a ValueError for an integer with too many digits to be written
        raise TypeError(f"{name} must be int64 or int32, got {shown(asked)}") from None
    if dtype == INT64:
        return INT64
    if dtype != INT32:
        raise TypeError(f"{name} must be int64 or int32, got {dtype}")
    if cells > 1 << 31:
        raise OverflowError(f"int32 indices are for at most 2**31 cells, got {cells}: take int64")
    return INT32


def result_for(
    out: Array | None,
    like: Array,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    *inputs: npt.ArrayLike,
    name: str = "out",
) -> Array:
    """Where to put a result: in `out`, or in a new array where there is no `out` or it overlaps an input.

    The `inputs` are what the caller gave: an error is told from them, and has to find them as they were.
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
    """`result`, in `out` if there is one."""
    if out is None or result is out:
        return result
    np.copyto(np.asarray(out), result)  # whatever a subclass makes of it
    return out


def check_out(out: object, shape: tuple[int, ...], dtype: np.dtype[Any], name: str = "out") -> Array:
    """`out`, if the result can be written there."""
    if not isinstance(out, np.ndarray):
        raise TypeError(f"{name} must be a numpy array, got {type(out).__name__}")
    if type(out) is not ndarray and isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be a masked array, which would keep its old mask: give {name}.data")
    if out.dtype != dtype:
        raise TypeError(f"{name} must have the dtype of the result, {dtype}, got {out.dtype}")
    if out.shape != shape:
        raise ValueError(f"{name} must have the shape of the result, {shape}, got {out.shape}")
    if not out.flags.writeable:
        raise ValueError(f"{name} must be writeable, got a read-only array")
    # Not as a subclass: an entry of a np.matrix has as many axes as the matrix.
    if not out.flags.c_contiguous and _may_overlap_itself(np.asarray(out)):
        raise ValueError(f"{name} must not overlap itself in memory, got strides {out.strides} for shape {out.shape}")
    return out


def _may_overlap_itself(array: Array) -> bool:
    """Whether two entries share a byte; also where that takes too long to find out."""
    reach = array.itemsize
    for stride, size in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if stride < reach:
            return array.size > 0 and _overlaps_itself(array)
        reach += stride * (size - 1)
    return False


def _overlaps_itself(array: Array) -> bool:
    """Whether two entries of an array that is not empty share a byte.

    Two entries that differ along the first axis lie in different halves of it, or both in one; what happens in the
    smaller half happens in the larger one as well.
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
    """`np.unravel_index`, which in NumPy 2.3 and 2.4 is wrong for large arrays whose last axis is 1 (numpy#31980)."""
    return [axis.reshape(flat.shape) for axis in np.unravel_index(flat.ravel(), shape)]


def bad_code(
    codes: npt.ArrayLike,
    n: int,
    sizes: tuple[int, ...],
    corner: tuple[int, ...] | None = None,
    where: str = "the output",
) -> IndexError:
    """The error for the first window code, in raster order, that names no cell; `corner` is where the codes begin.

    `where` says to which array the planes belong.
    """
    array = array_of(codes, "indices")
    full, pooled, kernel, stride, padding, dilation = (sizes[i + 3 - n : i + 3] for i in range(0, 18, 3))
    cells = math.prod(kernel)
    beyond = (array < 0) | (array >= cells)
    taps = unravel(np.where(beyond, 0, array).astype(np.int64), kernel)
    outside = np.zeros(array.shape, bool)
    for axis in range(n):
        start = np.arange(pooled[axis]) * stride[axis] - padding[axis]
        place = start.reshape((-1,) + (1,) * (n - 1 - axis)) + taps[axis] * dilation[axis]
        outside |= (place < 0) | (place >= full[axis])
    window = " x ".join(map(str, kernel))
    if not (beyond | outside).any():
        return IndexError(f"indices were changed while they were read; they must be codes of windows of {window} cells")
    at = tuple(map(int, np.unravel_index(int(np.argmax(beyond | outside)), array.shape)))
    reason = (
        f"a window of {window} has the codes 0 to {cells - 1}"
        if beyond[at]
        else f"it lies in the padding or past {where} of {' x '.join(map(str, full))}"
    )
    return IndexError(f"window code {array[at]} at position {position(at, corner)} names no cell: {reason}")


def position(at: tuple[int, ...], corner: tuple[int, ...] | None) -> tuple[int, ...]:
    """A position in a block of an array, counted in the array, in which the block begins at `corner`."""
    return at if corner is None else tuple(a + b for a, b in zip(corner, at, strict=True))


def bad_index(
    indices: npt.ArrayLike,
    full: tuple[int, ...],
    hint: str = "",
    corner: tuple[int, ...] | None = None,
    where: str = "the output",
) -> IndexError:
    """The error for the first index, in raster order, that lies outside a plane of size `full`, and a hint.

    `corner` is where the indices begin, and `where` says to which array the planes belong.
    """
    array = array_of(indices, "indices")
    cells = int(np.prod(full, dtype=object))
    wrong = (array < 0) | (array >= cells)
    size = " x ".join(map(str, full))
    if not wrong.any():
        return IndexError(f"indices were changed while they were read; they must lie in planes of {size} cells")
    at = tuple(map(int, np.unravel_index(int(np.argmax(wrong)), array.shape)))
    if not hint and looks_like_onnx(array, len(full), full):
        hint = (
            "; all of them would be right as ONNX indices, which count through the whole tensor: "
            "see cunpool.convert_indices(indices, 'onnx', 'plane', ...), or 'onnx_column_major' for storage_order=1"
        )
    return IndexError(
        f"index {array[at]} at position {position(at, corner)} is outside {where}: "
        f"a plane of {size} has {f'the indices 0 to {cells - 1}' if cells else 'no elements'}{hint}"
    )


def looks_like_onnx(indices: Array, n: int, full: tuple[int, ...]) -> bool:
    """Whether `indices`, some of which leave their planes of `n` axes and size `full`, count through the tensor."""
    cells, planes = math.prod(full), math.prod(indices.shape[:-n])
    if planes < 2 or not indices.size:
        return False
    places = indices.astype(INT64).reshape(planes, -1)  # a uint64 beyond int64 turns negative
    within = places - cells * np.arange(planes)[:, None]
    return bool(((places < 0) | (places >= cells)).any() and ((within >= 0) & (within < cells)).all())
