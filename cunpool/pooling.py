"""Max pooling with indices: the front end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt
from numpy import ndarray

from cunpool import (
    _arrays,
    _calls,
    _channels,
    _diagnostics,
    _geometry,
    _large,
    _remedies,
    _results,
    _threads,
    _warn,
    unpooling,
)
from cunpool._arrays import Array
from cunpool._docstrings import complete, shares
from cunpool._geometry import IndexFormat, NanPolicy, Padding, Size, Window
from cunpool._kernels import pool as _pool
from cunpool._orders import MAXIMA, MINIMA
from cunpool._overloads import MaxPoolResult, Pair, typed_pool, typed_pool_backward

__all__ = [
    "max_pool1d",
    "max_pool1d_backward",
    "max_pool2d",
    "max_pool2d_backward",
    "max_pool3d",
    "max_pool3d_backward",
]


def _max_pool(
    n: int,
    input: npt.ArrayLike,
    window: Window,
    ceil_mode: bool,
    return_indices: bool,
    index_format: str,
    index_dtype: npt.DTypeLike | None,
    out: Array | Pair | None,
    num_threads: int | None,
    is_layout_told: bool = True,
    *,
    minimum: bool = False,
    nan_policy: str = "propagate",
) -> Array | MaxPoolResult:
    """Pooling over `n` spatial axes. With `minimum`, minima.

    With `is_layout_told`, channels on an unlikely axis cause a warning.
    """
    given = input if type(input) is ndarray else _arrays.array_of(input, "input", n, "pass its values")
    native, kind = _arrays.numbers(given)
    codes = index_format != "plane" and _geometry.is_window(index_format) and return_indices is not False
    omits_nan = nan_policy != "propagate" and _geometry.omits_nan(nan_policy)
    if ceil_mode is not False:
        ceil_mode = _geometry.flag("ceil_mode", ceil_mode)
    if return_indices is not False and return_indices is not True:
        return_indices = _geometry.flag("return_indices", return_indices)
        codes = codes and return_indices
    try:
        shape, count, sizes, layout = _geometry.pooling_and_layout(
            n, native.shape, *_geometry.window(*window), ceil_mode, codes
        )
    except ValueError as error:
        if isinstance(input, np.ndarray):
            raise
        raise ValueError(_remedies.for_other_kinds(str(error), "numpy.asarray")) from None
    if layout and is_layout_told:
        told = layout if isinstance(input, np.ndarray) else _remedies.for_other_kinds(layout, "numpy.asarray")
        _warn.warn(told, _warn.LayoutWarning)
    pair = (None, None) if out is None else _results.pair_of(out, return_indices)
    dtype: np.dtype[Any] | None = _arrays.INT64
    if index_dtype is not None or out is not None:
        dtype = _results.dtype_of_indices(index_dtype, pair[1], codes, sizes, return_indices)
    elif codes:  # a short cut for small calls
        dtype = _arrays.CODES[_geometry.code_bytes(sizes[6:9])]
    if not return_indices:
        dtype = None
    if out is None:  # a short cut for small calls
        values = _arrays.new(native, shape, native.dtype)
        indices = None if dtype is None else _arrays.new(native, shape, dtype)
    else:
        values, indices = _results.arrays_into(pair, given, native, shape, dtype)
    threads = _threads.threads_for(2 * native.nbytes, num_threads)  # x 2: comparing is slower than copying
    if count:
        order = (MINIMA if minimum else MAXIMA)[kind]
        if _pool.pool(native, values, indices, sizes, n, order, codes, threads, omits_nan) & _pool.LARGE:
            _large.pool(native, values, indices, sizes, n, kind, codes, minimum, omits_nan)
        if minimum and native.dtype.kind == "b":
            values.view(np.uint8).__iand__(1)  # a window of nothing but padding has the largest byte
    if out is None and given is native:  # a short cut for small calls
        # A third of the time that MaxPoolResult(values, indices) takes.
        return values if indices is None else tuple.__new__(MaxPoolResult, (values, indices))
    return _results.pooled(given, native, values, indices, pair)


def _max_pool_backward(
    n: int,
    grad_output: npt.ArrayLike,
    indices: npt.ArrayLike,
    input_size: Sequence[SupportsIndex],
    window: Window,
    index_format: str,
    out: Array | None,
    num_threads: int | None,
) -> Array:
    """The gradient of pooling over `n` spatial axes: unpooling that adds values with the same index."""
    given = _arrays.array_of(grad_output, "grad_output", n)
    try:
        values, kind = _arrays.reals(given, "grad_output")
    except TypeError as error:
        beside = _arrays.array_of(indices, "indices").dtype
        if given.dtype.kind not in "iu" or not _results.is_of_reals(beside):
            raise
        raise TypeError(f"{error}, and indices of {beside}: the two look swapped") from None
    codes = _geometry.is_window(index_format)
    try:
        shape = _geometry.entries("input_size", input_size)
        if len(shape) == n:
            shape = values.shape[:-n] + shape
        _, _, sizes = _geometry.pooled_from(n, shape, values.shape, _geometry.window(*window))
        positions = unpooling.positions_of(indices, values.shape, codes, n, sizes, "grad_output")
    except (TypeError, ValueError) as error:
        if window[0] is _calls.MISSING or _calls.is_size(indices):
            raise _calls.without_kernel_size(f"max_pool{n}d_backward", grad_output, indices, input_size) from None
        better = _arrays.better_error(error, indices, values, "grad_output")
        if better is error:
            raise
        raise better from None
    result = _results.added(n, given, values, kind, indices, positions, sizes, shape, out, num_threads)
    if result is None:
        raise _diagnostics.bad_in_windows(indices, positions, n, sizes, codes, "input_size", window)
    return result


@typed_pool
@shares
def max_pool1d(
    input: npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    index_format: IndexFormat = "plane",
    index_dtype: npt.DTypeLike | None = None,
    nan_policy: NanPolicy = "propagate",
    channel_axis: SupportsIndex | None = None,
    out: Array | Pair | None = None,
    num_threads: int | None = None,
) -> Array | MaxPoolResult:
    """Return the maxima of sliding windows along one axis, and their indices.

    See `max_pool2d`. This is the case of one spatial axis: shapes are (N, C, L) or (C, L).

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.max_pool1d(np.array([[[3, 1, 4, 1, 5, 9, 2, 6]]]), 2, return_indices=True)
    MaxPoolResult(values=array([[[3, 4, 9, 6]]]), indices=array([[[0, 2, 5, 7]]]))
    """
    if channel_axis is not None:
        return _channels.call(max_pool1d, 1, locals())
    window = kernel_size, stride, padding, dilation
    return _max_pool(
        1, input, window, ceil_mode, return_indices, index_format, index_dtype, out, num_threads, nan_policy=nan_policy
    )


@typed_pool
@shares
def max_pool2d(
    input: npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    index_format: IndexFormat = "plane",
    index_dtype: npt.DTypeLike | None = None,
    nan_policy: NanPolicy = "propagate",
    channel_axis: SupportsIndex | None = None,
    out: Array | Pair | None = None,
    num_threads: int | None = None,
) -> Array | MaxPoolResult:
    """Return the maxima of sliding windows over two axes, and their indices.

    Parameters
    ----------
    input : array_like
        Array of shape (N, C, H, W) or (C, H, W), with any strides. N and C may be 0. The dtype is bool, an integer,
        float16, bfloat16, float32 or float64. The maximum of a window of bools is True if any of them is.
    {pooling}

    Returns
    -------
    values : numpy.ndarray
        The maxima, with the dtype and the memory layout of `input`, or the array given in `out`.
    indices : numpy.ndarray of int64, int32, uint8 or uint16
        Only with `return_indices`: the index of each maximum in its plane of `input`, in raster order, or its window
        code (see `index_format`). Equal maxima give the first index. NaN is greater than every number, and several NaN
        give the last index, unless `nan_policy` is "omit". The pair is a named tuple with the fields `values` and
        `indices`.

    Raises
    ------
    TypeError
        If the dtype of `input` or `index_dtype` is not supported. If `index_dtype` contradicts `index_format` or `out`.
        If `out` is not an array of the dtype of the result, or not a pair with `return_indices`.
    ValueError
        If shapes or sizes do not fit, or a window has too many elements for window codes. If `out` is read-only or has
        another shape. If it is a pair without `return_indices`, or its two arrays overlap in memory.
    OverflowError
        If `indices` are to be int32 and a plane has more than 2**31 elements, or if a window has or spans more than
        2**60.

    Warns
    -----
    LayoutWarning
        If the channels seem to be the last axis, and the window would extend across them.

    See Also
    --------
    max_unpool2d : Puts the maxima back.

    Notes
    -----
    Results match ``torch.nn.functional.max_pool2d`` [1]_, including NaN and windows that are all -inf. With dilation, a
    window may have no element of the input. As in PyTorch, its value is then the lowest of its dtype, and its index
    lies outside the window.

    References
    ----------
    .. [1] https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool2d.html

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> x = np.array([[[[1, 2, 0, 0], [4, 3, 0, 7]]]], dtype=np.float32)
    >>> values, indices = cu.max_pool2d(x, 2, return_indices=True)
    >>> values
    array([[[[4., 7.]]]], dtype=float32)
    >>> indices
    array([[[[4, 7]]]])

    Into existing arrays, with indices of 4 bytes:

    >>> out = np.empty((1, 1, 1, 2), np.float32), np.empty((1, 1, 1, 2), np.int32)
    >>> cu.max_pool2d(x, 2, return_indices=True, out=out).indices is out[1]
    True
    >>> out[1]
    array([[[[4, 7]]]], dtype=int32)
    """
    if channel_axis is not None:
        return _channels.call(max_pool2d, 2, locals())
    window = kernel_size, stride, padding, dilation
    return _max_pool(
        2, input, window, ceil_mode, return_indices, index_format, index_dtype, out, num_threads, nan_policy=nan_policy
    )


@typed_pool
@shares
def max_pool3d(
    input: npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    index_format: IndexFormat = "plane",
    index_dtype: npt.DTypeLike | None = None,
    nan_policy: NanPolicy = "propagate",
    channel_axis: SupportsIndex | None = None,
    out: Array | Pair | None = None,
    num_threads: int | None = None,
) -> Array | MaxPoolResult:
    """Return the maxima of sliding windows over three axes, and their indices.

    See `max_pool2d`. This is the case of three spatial axes: shapes are (N, C, D, H, W) or (C, D, H, W).

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.max_pool3d(np.arange(8).reshape(1, 1, 2, 2, 2), 2, return_indices=True).indices
    array([[[[[7]]]]])
    """
    if channel_axis is not None:
        return _channels.call(max_pool3d, 3, locals())
    window = kernel_size, stride, padding, dilation
    return _max_pool(
        3, input, window, ceil_mode, return_indices, index_format, index_dtype, out, num_threads, nan_policy=nan_policy
    )


@typed_pool_backward
@shares
def max_pool1d_backward(
    grad_output: npt.ArrayLike,
    indices: npt.ArrayLike,
    input_size: Sequence[SupportsIndex],
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    dilation: Size = 1,
    *,
    index_format: IndexFormat = "plane",
    channel_axis: SupportsIndex | None = None,
    out: Array | None = None,
    num_threads: int | None = None,
) -> Array:
    """Return the gradient of `max_pool1d` with respect to its input; see `max_pool2d_backward`.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.max_pool1d_backward(np.array([[1.0, 2]]), np.array([[1, 1]]), (3,), 2, 1)
    array([[0., 3., 0.]])
    """
    if channel_axis is not None:
        return _channels.call(max_pool1d_backward, 1, locals())
    window = kernel_size, stride, padding, dilation
    return _max_pool_backward(1, grad_output, indices, input_size, window, index_format, out, num_threads)


@typed_pool_backward
@shares
def max_pool2d_backward(
    grad_output: npt.ArrayLike,
    indices: npt.ArrayLike,
    input_size: Sequence[SupportsIndex],
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    dilation: Size = 1,
    *,
    index_format: IndexFormat = "plane",
    channel_axis: SupportsIndex | None = None,
    out: Array | None = None,
    num_threads: int | None = None,
) -> Array:
    """Return the gradient of `max_pool2d` with respect to its input.

    Parameters
    ----------
    {maxima_gradient}
    {window}
    {step}
    {index_format}
    {channel_axis}
    {out}
    {num_threads}

    Returns
    -------
    numpy.ndarray
        Array of `input_size`. Each element is the sum of the gradients of the windows whose maximum it is, or 0. They
        are added in raster order, in their own precision.

    Raises
    ------
    IndexError, TypeError, ValueError
        As for `max_unpool2d`. PyTorch's corresponding operator does not check indices.

    Notes
    -----
    The result equals PyTorch's autograd for ``torch.nn.functional.max_pool2d`` [1]_.

    References
    ----------
    .. [1] https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool2d.html

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> x = np.array([[[1.0, 2, 1], [0, 3, 0]]])
    >>> values, indices = cu.max_pool2d(x, 2, 1, return_indices=True)
    >>> cu.max_pool2d_backward(np.ones_like(values), indices, x.shape, 2, 1)
    array([[[0., 0., 0.],
            [0., 2., 0.]]])
    """
    if channel_axis is not None:
        return _channels.call(max_pool2d_backward, 2, locals())
    window = kernel_size, stride, padding, dilation
    return _max_pool_backward(2, grad_output, indices, input_size, window, index_format, out, num_threads)


@typed_pool_backward
@shares
def max_pool3d_backward(
    grad_output: npt.ArrayLike,
    indices: npt.ArrayLike,
    input_size: Sequence[SupportsIndex],
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    dilation: Size = 1,
    *,
    index_format: IndexFormat = "plane",
    channel_axis: SupportsIndex | None = None,
    out: Array | None = None,
    num_threads: int | None = None,
) -> Array:
    """Return the gradient of `max_pool3d` with respect to its input; see `max_pool2d_backward`.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.max_pool3d_backward(np.array([[[[5.0]]]]), np.array([[[[7]]]]), (2, 2, 2), 2).ravel()
    array([0., 0., 0., 0., 0., 0., 0., 5.])
    """
    if channel_axis is not None:
        return _channels.call(max_pool3d_backward, 3, locals())
    window = kernel_size, stride, padding, dilation
    return _max_pool_backward(3, grad_output, indices, input_size, window, index_format, out, num_threads)


_calls.told_if_missing(max_pool1d_backward, max_pool2d_backward, max_pool3d_backward)
complete(max_pool1d, max_pool3d, max_pool2d)
complete(max_pool1d_backward, max_pool3d_backward, max_pool2d_backward)
