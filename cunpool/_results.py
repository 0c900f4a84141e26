"""Arrays for results, and the steps that pooling with equal windows and adaptive pooling share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from cunpool import _arrays, _background, _geometry, _threads
from cunpool._arrays import Array
from cunpool._kernels import unpool as _unpool
from cunpool._overloads import MaxPoolResult, Pair

ITEM_KINDS = {size: _unpool.KINDS.index(str(size)) for size in _arrays.ITEM_SIZES}
"""The kernels' number for elements of each size in bytes, which are moved."""
NUMBER_KINDS = {name: number for number, name in enumerate(_unpool.KINDS)}
"""The kernels' number for each kind of numbers, which are added."""


def pair_of(out: object, return_indices: bool) -> Pair:
    """The arrays for values and indices. Either may be None. Their shapes are not checked here."""
    if not return_indices:
        if isinstance(out, tuple):
            raise ValueError("out must be one array without return_indices, got a tuple")
        return out, None  # type: ignore[return-value]
    if not isinstance(out, tuple):
        raise TypeError(
            "out must be a tuple with return_indices, of an array or None for the values and one for the indices, "
            f"got {type(out).__name__}"
        )
    if len(out) != 2:
        raise ValueError(f"out must have two entries with return_indices, values and indices, got {len(out)}")
    values, indices = (entry.dtype if isinstance(entry, np.ndarray) else None for entry in out)
    if values is not None and indices is not None and values.kind in "iu" and is_of_reals(indices):
        raise TypeError(
            f"out must be the array for the values and that for the indices, got {values} and {indices}: the two look "
            "swapped"
        )
    return out


def is_of_reals(dtype: np.dtype[Any]) -> bool:
    """Whether `dtype` is of real numbers, so that an array for indices is really one for values."""
    return dtype.kind == "f" or dtype.name == "bfloat16"


def dtype_of_indices(
    asked: npt.DTypeLike | None, given: Array | None, codes: bool, sizes: _geometry.Sizes, return_indices: bool
) -> np.dtype[Any]:
    """The dtype of indices: the `asked` one, or the dtype of a `given` array."""
    stored = given.dtype if isinstance(given, np.ndarray) else None
    if codes:
        if asked is not None:
            raise TypeError(_arrays.NO_CHOICE)
        size = _geometry.code_bytes(sizes[6:9])
        return _arrays.CODES[2 if stored is not None and stored == _arrays.CODES[2] else size]  # None is a dtype too
    native = math.prod(sizes[:3]) if return_indices else 0
    if asked is None and stored is not None:
        return _arrays.index_dtype(stored, native, "the dtype of out[1]")
    return _arrays.index_dtype(asked, native)


def arrays_into(
    pair: Pair, given: Array, native: Array, shape: _geometry.Shape, dtype: np.dtype[Any] | None
) -> tuple[Array, Array | None]:
    """Arrays for values and, unless their `dtype` is None, for indices: the ones in `pair`, or new ones."""
    into, beside = pair
    name = "out" if dtype is None else "out[0]"
    if given is not native and into is not None:
        _arrays.check_out(into, shape, given.dtype, name)
        values = _arrays.new(native, shape, native.dtype)
    else:
        values = _arrays.result_for(into, native, shape, native.dtype, native, name=name)
    if dtype is None:
        return values, None
    indices = _arrays.result_for(beside, native, shape, dtype, native, name="out[1]")
    if into is not None and beside is not None and _overlap(into, beside):
        raise ValueError("out[0] and out[1] must not overlap in memory")
    return values, indices


def _overlap(a: Array, b: Array) -> bool:
    """Whether two arrays share a byte. They may be interleaved, like the fields of a structured array."""
    a, b = np.asarray(a), np.asarray(b)  # a subclass may override NumPy's functions
    return np.may_share_memory(a, b) and np.may_share_memory(a, b, max_work=_arrays.SEARCHED)  # type: ignore[arg-type]


def pooled(given: Array, native: Array, values: Array, indices: Array | None, pair: Pair) -> Array | MaxPoolResult:
    """The result of a pooling, in the byte order of `given` and in the arrays of `pair`."""
    if given is not native:
        values = values.astype(given.dtype)
    values = _arrays.delivered(values, pair[0])
    return values if indices is None else MaxPoolResult(values, _arrays.delivered(indices, pair[1]))


def added(
    n: int,
    given: Array,
    values: Array,
    kind: str,
    indices: npt.ArrayLike,
    positions: Array,
    sizes: _geometry.Sizes,
    shape: _geometry.Shape,
    out: Array | None,
    num_threads: int | None,
) -> Array | None:
    """The gradient of pooling: zeros of `shape`, to which each value is added at its index. None if an index is bad.

    `values` and `positions` are the caller's `given` and `indices` as the kernel takes them.
    """
    swapped = given is not values  # in another byte order
    if swapped and out is not None:
        _arrays.check_out(out, shape, given.dtype)
    result = _arrays.result_for(None if swapped else out, values, shape, values.dtype, values, indices)
    threads = _threads.threads_for(math.prod(shape) * values.itemsize, num_threads)
    if not _unpool.unpool(values, positions, result, sizes, n, NUMBER_KINDS[kind], threads):
        return None
    return _arrays.delivered(result.astype(given.dtype) if swapped else result, out)


def gathered(
    n: int,
    full: Array,
    indices: Array,
    positions: Array,
    sizes: _geometry.Sizes,
    onto: bool,
    pair: Pair,
    num_threads: int | None,
) -> Array | tuple[Array, Array] | None:
    """The gradient of unpooling: the elements of `full` at the indices, and with `onto` `full` with zeros there.

    None if an index is bad. `positions` are the caller's `indices` as the kernel takes them.
    """
    into, beside = pair
    result = _arrays.result_for(into, full, indices.shape, full.dtype, full, indices)
    rest = _background.gradient_into(beside, full, indices, into) if onto else None
    threads = _threads.threads_for(full.nbytes, num_threads)
    kind = ITEM_KINDS[full.itemsize]
    if not _unpool.unpool_backward(full, positions, result, sizes, n, kind, threads):
        return None
    if rest is None:
        return _arrays.delivered(result, into)
    _background.zero_at(positions, full, rest, sizes, n, kind, threads)
    return _arrays.delivered(result, into), _arrays.delivered(rest, beside)
