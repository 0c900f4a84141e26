"""Adaptive max pooling, whose windows follow from the output size, and its unpooling: the front end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import SupportsIndex

import numpy.typing as npt

from cunpool import _arrays, _background, _channels, _diagnostics, _geometry, _large, _results, _threads, _unequal
from cunpool._arrays import Array
from cunpool._background import FillValue
from cunpool._docstrings import complete, shares
from cunpool._geometry import OutputSize
from cunpool._kernels import pool as _pool
from cunpool._kernels import unpool as _unpool
from cunpool._orders import MAXIMA
from cunpool._overloads import (
    MaxPoolResult,
    Pair,
    typed_adaptive_pool,
    typed_adaptive_pool_backward,
    typed_adaptive_unpool,
    typed_adaptive_unpool_backward,
)
from cunpool._results import ITEM_KINDS

__all__ = [
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_backward",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_backward",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_backward",
    "adaptive_max_unpool1d",
    "adaptive_max_unpool1d_backward",
    "adaptive_max_unpool2d",
    "adaptive_max_unpool2d_backward",
    "adaptive_max_unpool3d",
    "adaptive_max_unpool3d_backward",
]

_WRONG_SIZE = "; {} has to be the shape of what was pooled"


def _max_pool(
    n: int,
    input: npt.ArrayLike,
    output_size: OutputSize,
    return_indices: bool,
    index_dtype: npt.DTypeLike | None,
    out: Array | Pair | None,
    num_threads: int | None,
) -> Array | MaxPoolResult:
    """Adaptive pooling over `n` spatial axes."""
    given = _arrays.array_of(input, "input", n, "pass its values")
    native, kind = _arrays.numbers(given)
    return_indices = _geometry.flag("return_indices", return_indices)
    size = _geometry.hashable_output(output_size)
    shape, count, sizes = _geometry.adaptive_pooling(n, native.shape, size)
    pair = (None, None) if out is None else _results.pair_of(out, return_indices)
    dtype = _results.dtype_of_indices(index_dtype, pair[1], False, sizes, return_indices)
    values, indices = _results.arrays_into(pair, given, native, shape, dtype if return_indices else None)
    if count and sizes[8] == 0:  # windows that do not lie one stride apart
        _unequal.pool(native, values, indices, n, kind, num_threads)
        return _results.pooled(given, native, values, indices, pair)
    threads = _threads.threads_for(2 * max(native.nbytes, values.nbytes), num_threads)  # see `pooling`
    if count and _pool.pool(native, values, indices, sizes, n, MAXIMA[kind], False, threads) & _pool.LARGE:
        _large.pool(native, values, indices, sizes, n, kind, False, False, False)
    return _results.pooled(given, native, values, indices, pair)


def _positions_of(indices: npt.ArrayLike, values: Array, name: str) -> Array:
    """The indices of `values`, in a dtype that the kernels support."""
    try:
        return _arrays.integers(indices, values.shape, name)
    except (TypeError, ValueError) as error:
        better = _arrays.better_error(error, indices, values, name)
        if better is error:
            raise
        raise better from None


def _max_pool_backward(
    n: int,
    grad_output: npt.ArrayLike,
    indices: npt.ArrayLike,
    input_size: Sequence[SupportsIndex],
    out: Array | None,
    num_threads: int | None,
) -> Array:
    """The gradient of adaptive pooling over `n` spatial axes."""
    given = _arrays.array_of(grad_output, "grad_output", n)
    values, kind = _arrays.reals(given, "grad_output")
    shape = _geometry.adaptive_full(n, values.shape, _geometry.entries("input_size", input_size), "input_size")
    sizes = _geometry.adaptive_sizes(n, shape[-n:], values.shape[-n:])
    positions = _positions_of(indices, values, "grad_output")
    result = _results.added(n, given, values, kind, indices, positions, sizes, shape, out, num_threads)
    if result is None:
        raise _diagnostics.bad_index(indices, shape[-n:], _WRONG_SIZE.format("input_size"))
    return result


def _max_unpool(
    n: int,
    input: npt.ArrayLike,
    indices: npt.ArrayLike,
    output_size: Sequence[SupportsIndex] | None,
    fill_value: FillValue | None,
    onto: npt.ArrayLike | None,
    out: Array | None,
    num_threads: int | None,
) -> Array:
    """Adaptive unpooling over `n` spatial axes."""
    values = _arrays.items(input, "input", n)
    background: Array | None = None
    name = "output_size" if onto is None else "onto"
    if onto is not None:
        background = _background.onto_array(onto, values, output_size, fill_value)
        shape = _geometry.adaptive_full(n, values.shape, background.shape, "the shape of onto")
        _background.check_shape(background, shape)
    elif output_size is None:
        raise TypeError(f"adaptive_max_unpool{n}d needs output_size, the shape of what was pooled, or onto")
    else:
        shape = _geometry.adaptive_full(n, values.shape, _geometry.entries("output_size", output_size), "output_size")
        background = None if fill_value is None else _background.filled(fill_value, values.dtype)
    sizes = _geometry.adaptive_sizes(n, shape[-n:], values.shape[-n:])
    positions = _positions_of(indices, values, "input")
    result = _background.result_for(out, background, values, shape, indices)
    threads = _threads.threads_for(math.prod(shape) * values.itemsize, num_threads)
    kind = ITEM_KINDS[values.itemsize]
    if not _unpool.unpool(values, positions, result, sizes, n, kind, threads, background):
        raise _diagnostics.bad_index(indices, shape[-n:], _WRONG_SIZE.format(name))
    return _arrays.delivered(result, out)


def _max_unpool_backward(
    n: int,
    grad_output: npt.ArrayLike,
    indices: npt.ArrayLike,
    onto: bool,
    out: Array | Pair | None,
    num_threads: int | None,
) -> Array | tuple[Array, Array]:
    """The gradient of adaptive unpooling over `n` spatial axes, and with `onto` that for the array unpooled onto."""
    full = _arrays.items(grad_output, "grad_output", n)
    pair = _background.pair_of(out, _geometry.flag("onto", onto))
    given = _arrays.array_of(indices, "indices")
    _geometry.check_lead(n, given.shape, full.shape)
    positions = _positions_of(given, given, "indices")
    sizes = _geometry.adaptive_sizes(n, full.shape[-n:], given.shape[-n:])
    result = _results.gathered(n, full, given, positions, sizes, onto, pair, num_threads)
    if result is None:
        raise _diagnostics.bad_index(given, full.shape[-n:], where="grad_output")
    return result


@typed_adaptive_pool
@shares
def adaptive_max_pool1d(
    input: npt.ArrayLike,
    output_size: OutputSize,
    return_indices: bool = False,
    *,
    index_dtype: npt.DTypeLike | None = None,
    channel_axis: SupportsIndex | None = None,
    out: Array | Pair | None = None,
    num_threads: int | None = None,
) -> Array | MaxPoolResult:
    """Return the maxima of a given number of windows along one axis, and their indices.

    See `adaptive_max_pool2d`. This is the case of one spatial axis: shapes are (N, C, L) or (C, L).

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.adaptive_max_pool1d(np.array([[3, 1, 4, 1, 5]]), 2, return_indices=True)
    MaxPoolResult(values=array([[4, 5]]), indices=array([[2, 4]]))
    """
    if channel_axis is not None:
        return _channels.call(adaptive_max_pool1d, 1, locals())
    return _max_pool(1, input, output_size, return_indices, index_dtype, out, num_threads)


@typed_adaptive_pool
@shares
def adaptive_max_pool2d(
    input: npt.ArrayLike,
    output_size: OutputSize,
    return_indices: bool = False,
    *,
    index_dtype: npt.DTypeLike | None = None,
    channel_axis: SupportsIndex | None = None,
    out: Array | Pair | None = None,
    num_threads: int | None = None,
) -> Array | MaxPoolResult:
    """Return the maxima of a given number of windows on each of two axes, and their indices.

    Window `i` of an axis begins at element ``floor(i * size / output_size)`` and ends before element
    ``ceil((i + 1) * size / output_size)``.

    Parameters
    ----------
    input : array_like
        Array of shape (N, C, H, W) or (C, H, W), as for `max_pool2d`.
    output_size : int or sequence of int or None
        Number of windows: one for all axes, or one for each. None stands for the size of `input` on that axis.
    return_indices : bool
        Whether to return the indices too.
    {index_dtype}
    {channel_axis}
    out : numpy.ndarray, or with `return_indices` a tuple of two, optional
        As for `max_pool2d`.
    {num_threads}

    Returns
    -------
    values : numpy.ndarray
        The maxima, with the dtype and the memory layout of `input`, or the array given in `out`.
    indices : numpy.ndarray of int64 or int32
        Only with `return_indices`: the index of each maximum in its plane of `input`, in raster order. Equal maxima
        give the first index. NaN is greater than every number, and several NaN give the last index. The pair is a named
        tuple with the fields `values` and `indices`.

    Raises
    ------
    TypeError
        As for `max_pool2d`.
    ValueError
        If `output_size` does not have one entry per axis, or a negative one. If an axis of `input` has no elements. If
        `out` does not fit.
    OverflowError
        If `indices` are to be int32 and a plane has more than 2**31 elements, or if a window has as many.

    See Also
    --------
    adaptive_max_unpool2d : Puts the maxima back.

    Notes
    -----
    Results match ``torch.nn.functional.adaptive_max_pool2d`` [1]_, including NaN. If the size of each axis is a
    multiple of its number of windows, this is `max_pool2d` with windows side by side. It is one call of `max_pool2d`
    too if windows of one size lie one stride apart: the remainder of size / output_size is 0, 1 or output_size - 1 on
    each axis. Other windows are copied first, by one thread, about 2**18 elements at a time; large ones are pooled one
    after the other.

    References
    ----------
    .. [1] https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveMaxPool2d.html

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> x = np.array([[[1, 2, 0, 5, 0], [4, 3, 0, 7, 6]]])
    >>> values, indices = cu.adaptive_max_pool2d(x, (1, 2), return_indices=True)
    >>> values
    array([[[4, 7]]])
    >>> indices
    array([[[5, 8]]])
    >>> cu.adaptive_max_pool2d(x, (None, 1))
    array([[[5],
            [7]]])
    """
    if channel_axis is not None:
        return _channels.call(adaptive_max_pool2d, 2, locals())
    return _max_pool(2, input, output_size, return_indices, index_dtype, out, num_threads)


@typed_adaptive_pool
@shares
def adaptive_max_pool3d(
    input: npt.ArrayLike,
    output_size: OutputSize,
    return_indices: bool = False,
    *,
    index_dtype: npt.DTypeLike | None = None,
    channel_axis: SupportsIndex | None = None,
    out: Array | Pair | None = None,
    num_threads: int | None = None,
) -> Array | MaxPoolResult:
    """Return the maxima of a given number of windows on each of three axes, and their indices.

    See `adaptive_max_pool2d`. This is the case of three spatial axes: shapes are (N, C, D, H, W) or (C, D, H, W).

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.adaptive_max_pool3d(np.arange(27).reshape(1, 3, 3, 3), (1, 1, 2))
    array([[[[25, 26]]]])
    """
    if channel_axis is not None:
        return _channels.call(adaptive_max_pool3d, 3, locals())
    return _max_pool(3, input, output_size, return_indices, index_dtype, out, num_threads)


@typed_adaptive_unpool
@shares
def adaptive_max_unpool1d(
    input: npt.ArrayLike,
    indices: npt.ArrayLike,
    output_size: Sequence[SupportsIndex] | None = None,
    *,
    fill_value: FillValue | None = None,
    onto: npt.ArrayLike | None = None,
    channel_axis: SupportsIndex | None = None,
    out: Array | None = None,
    num_threads: int | None = None,
) -> Array:
    """Put the maxima of a 1d adaptive pooling back where they came from, and zeros everywhere else.

    See `adaptive_max_unpool2d`. This is the case of one spatial axis: shapes are (N, C, L) or (C, L).

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.adaptive_max_unpool1d(np.array([[4, 5]]), np.array([[2, 4]]), (5,))
    array([[0, 0, 4, 0, 5]])
    """
    if channel_axis is not None:
        return _channels.call(adaptive_max_unpool1d, 1, locals())
    return _max_unpool(1, input, indices, output_size, fill_value, onto, out, num_threads)


@typed_adaptive_unpool
@shares
def adaptive_max_unpool2d(
    input: npt.ArrayLike,
    indices: npt.ArrayLike,
    output_size: Sequence[SupportsIndex] | None = None,
    *,
    fill_value: FillValue | None = None,
    onto: npt.ArrayLike | None = None,
    channel_axis: SupportsIndex | None = None,
    out: Array | None = None,
    num_threads: int | None = None,
) -> Array:
    """Put the maxima of a 2d adaptive pooling back where they came from, and zeros everywhere else.

    Parameters
    ----------
    input : array_like
        The pooled values, of shape (N, C, H, W) or (C, H, W), as for `max_unpool2d`.
    indices : array_like of integers
        The index of each value in its plane of the output, in raster order, with the shape of `input`. The last of
        several duplicates in raster order wins.
    output_size : sequence of int
        The spatial sizes of the pooling's input, or its whole shape, ``x.shape``. N and C are ignored. Any size is
        allowed. It is required unless `onto` is given.
    {background}
    {channel_axis}
    {out}
    {num_threads}

    Returns
    -------
    numpy.ndarray
        Array with the dtype and the memory layout of `input` or `onto`, or `out` if that was given. The bits of
        elements are unchanged.

    Raises
    ------
    IndexError
        If an index is negative or past the end of its plane. The message names the first one.
    TypeError, ValueError, OverflowError, MemoryError
        As for `max_unpool2d`.

    See Also
    --------
    adaptive_max_pool2d : Returns `input` and `indices`.

    Notes
    -----
    PyTorch has no such function. Neighbouring windows may share an element, and then have the same maximum and index.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> x = np.array([[[1, 2, 0, 5, 0], [4, 3, 0, 7, 6]]])
    >>> cu.adaptive_max_unpool2d(*cu.adaptive_max_pool2d(x, (1, 2), return_indices=True), x.shape)
    array([[[0, 0, 0, 0, 0],
            [4, 0, 0, 7, 0]]])
    """
    if channel_axis is not None:
        return _channels.call(adaptive_max_unpool2d, 2, locals())
    return _max_unpool(2, input, indices, output_size, fill_value, onto, out, num_threads)


@typed_adaptive_unpool
@shares
def adaptive_max_unpool3d(
    input: npt.ArrayLike,
    indices: npt.ArrayLike,
    output_size: Sequence[SupportsIndex] | None = None,
    *,
    fill_value: FillValue | None = None,
    onto: npt.ArrayLike | None = None,
    channel_axis: SupportsIndex | None = None,
    out: Array | None = None,
    num_threads: int | None = None,
) -> Array:
    """Put the maxima of a 3d adaptive pooling back where they came from, and zeros everywhere else.

    See `adaptive_max_unpool2d`. This is the case of three spatial axes: shapes are (N, C, D, H, W) or (C, D, H, W).

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.adaptive_max_unpool3d(np.array([[[[7]]]]), np.array([[[[7]]]]), (2, 2, 2)).ravel()
    array([0, 0, 0, 0, 0, 0, 0, 7])
    """
    if channel_axis is not None:
        return _channels.call(adaptive_max_unpool3d, 3, locals())
    return _max_unpool(3, input, indices, output_size, fill_value, onto, out, num_threads)


@typed_adaptive_pool_backward
@shares
def adaptive_max_pool1d_backward(
    grad_output: npt.ArrayLike,
    indices: npt.ArrayLike,
    input_size: Sequence[SupportsIndex],
    *,
    channel_axis: SupportsIndex | None = None,
    out: Array | None = None,
    num_threads: int | None = None,
) -> Array:
    """Return the gradient of `adaptive_max_pool1d` with respect to its input; see `adaptive_max_pool2d_backward`.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.adaptive_max_pool1d_backward(np.array([[1.0, 2]]), np.array([[1, 1]]), (3,))
    array([[0., 3., 0.]])
    """
    if channel_axis is not None:
        return _channels.call(adaptive_max_pool1d_backward, 1, locals())
    return _max_pool_backward(1, grad_output, indices, input_size, out, num_threads)


@typed_adaptive_pool_backward
@shares
def adaptive_max_pool2d_backward(
    grad_output: npt.ArrayLike,
    indices: npt.ArrayLike,
    input_size: Sequence[SupportsIndex],
    *,
    channel_axis: SupportsIndex | None = None,
    out: Array | None = None,
    num_threads: int | None = None,
) -> Array:
    """Return the gradient of `adaptive_max_pool2d` with respect to its input.

    Parameters
    ----------
    {maxima_gradient}
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
        As for `adaptive_max_unpool2d`.

    Notes
    -----
    The result equals PyTorch's autograd for ``torch.nn.functional.adaptive_max_pool2d`` [1]_.

    References
    ----------
    .. [1] https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveMaxPool2d.html

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> x = np.array([[[1.0, 2, 9, 0, 5]]])
    >>> values, indices = cu.adaptive_max_pool2d(x, (1, 2), return_indices=True)
    >>> cu.adaptive_max_pool2d_backward(np.ones_like(values), indices, x.shape)
    array([[[0., 0., 2., 0., 0.]]])
    """
    if channel_axis is not None:
        return _channels.call(adaptive_max_pool2d_backward, 2, locals())
    return _max_pool_backward(2, grad_output, indices, input_size, out, num_threads)


@typed_adaptive_pool_backward
@shares
def adaptive_max_pool3d_backward(
    grad_output: npt.ArrayLike,
    indices: npt.ArrayLike,
    input_size: Sequence[SupportsIndex],
    *,
    channel_axis: SupportsIndex | None = None,
    out: Array | None = None,
    num_threads: int | None = None,
) -> Array:
    """Return the gradient of `adaptive_max_pool3d` with respect to its input; see `adaptive_max_pool2d_backward`.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.adaptive_max_pool3d_backward(np.array([[[[5.0]]]]), np.array([[[[7]]]]), (2, 2, 2)).ravel()
    array([0., 0., 0., 0., 0., 0., 0., 5.])
    """
    if channel_axis is not None:
        return _channels.call(adaptive_max_pool3d_backward, 3, locals())
    return _max_pool_backward(3, grad_output, indices, input_size, out, num_threads)


@typed_adaptive_unpool_backward
@shares
def adaptive_max_unpool1d_backward(
    grad_output: npt.ArrayLike,
    indices: npt.ArrayLike,
    *,
    onto: bool = False,
    channel_axis: SupportsIndex | None = None,
    out: Array | Pair | None = None,
    num_threads: int | None = None,
) -> Array | tuple[Array, Array]:
    """Return the gradient of `adaptive_max_unpool1d` with respect to its input; see `adaptive_max_unpool2d_backward`.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.adaptive_max_unpool1d_backward(np.array([[1.0, 2, 3]]), np.array([[1, 2]]))
    array([[2., 3.]])
    """
    if channel_axis is not None:
        return _channels.call(adaptive_max_unpool1d_backward, 1, locals())
    return _max_unpool_backward(1, grad_output, indices, onto, out, num_threads)


@typed_adaptive_unpool_backward
@shares
def adaptive_max_unpool2d_backward(
    grad_output: npt.ArrayLike,
    indices: npt.ArrayLike,
    *,
    onto: bool = False,
    channel_axis: SupportsIndex | None = None,
    out: Array | Pair | None = None,
    num_threads: int | None = None,
) -> Array | tuple[Array, Array]:
    """Return the gradient of `adaptive_max_unpool2d` with respect to its input, and to the array that it unpools onto.

    Parameters
    ----------
    grad_output : array_like
        The gradient with respect to the result, of its shape, (N, C, H, W) or (C, H, W). It may have any dtype of
        `max_unpool2d`, because elements are only moved.
    indices : array_like of integers
        The indices of the unpooling.
    {onto_gradient}
    {channel_axis}
    out : numpy.ndarray, or with `onto` a tuple of two, optional
        As for `max_unpool2d_backward`.
    {num_threads}

    Returns
    -------
    grad_input : numpy.ndarray
        The elements of `grad_output` at the indices, with the shape of `indices`. Each of several duplicates receives
        the gradient, even though only the last one was stored.
    grad_onto : numpy.ndarray
        Only with `onto`: a copy of `grad_output` with zeros at the indices.

    Raises
    ------
    IndexError, TypeError, ValueError
        As for `adaptive_max_unpool2d`.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.adaptive_max_unpool2d_backward(np.arange(10.0).reshape(1, 2, 5), np.array([[[5, 8]]]))
    array([[[5., 8.]]])
    >>> cu.adaptive_max_unpool2d_backward(np.ones((1, 2, 3)), np.array([[[5, 2]]]), onto=True)[1]
    array([[[1., 1., 0.],
            [1., 1., 0.]]])
    """
    if channel_axis is not None:
        return _channels.call(adaptive_max_unpool2d_backward, 2, locals())
    return _max_unpool_backward(2, grad_output, indices, onto, out, num_threads)


@typed_adaptive_unpool_backward
@shares
def adaptive_max_unpool3d_backward(
    grad_output: npt.ArrayLike,
    indices: npt.ArrayLike,
    *,
    onto: bool = False,
    channel_axis: SupportsIndex | None = None,
    out: Array | Pair | None = None,
    num_threads: int | None = None,
) -> Array | tuple[Array, Array]:
    """Return the gradient of `adaptive_max_unpool3d` with respect to its input; see `adaptive_max_unpool2d_backward`.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.adaptive_max_unpool3d_backward(np.arange(8.0).reshape(1, 2, 2, 2), np.array([[[[7]]]]))
    array([[[[7.]]]])
    """
    if channel_axis is not None:
        return _channels.call(adaptive_max_unpool3d_backward, 3, locals())
    return _max_unpool_backward(3, grad_output, indices, onto, out, num_threads)


complete(adaptive_max_pool1d, adaptive_max_pool3d, adaptive_max_pool2d)
complete(adaptive_max_unpool1d, adaptive_max_unpool3d, adaptive_max_unpool2d)
complete(adaptive_max_pool1d_backward, adaptive_max_pool3d_backward, adaptive_max_pool2d_backward)
complete(adaptive_max_unpool1d_backward, adaptive_max_unpool3d_backward, adaptive_max_unpool2d_backward)
