"""Max unpooling: the front end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import SupportsIndex

import numpy.typing as npt

from cunpool import _arrays, _background, _calls, _channels, _diagnostics, _formats, _geometry, _results, _threads
from cunpool._arrays import Array
from cunpool._background import FillValue
from cunpool._docstrings import complete, shares
from cunpool._geometry import IndexFormat, Padding, Size, Window
from cunpool._kernels import unpool as _unpool
from cunpool._overloads import Pair, typed_unpool, typed_unpool_backward
from cunpool._results import ITEM_KINDS

__all__ = [
    "max_unpool1d",
    "max_unpool1d_backward",
    "max_unpool2d",
    "max_unpool2d_backward",
    "max_unpool3d",
    "max_unpool3d_backward",
]

_STRAYED = _unpool.STRAYED


def _max_unpool(
    n: int,
    input: npt.ArrayLike,
    indices: npt.ArrayLike,
    window: Window,
    output_size: Sequence[SupportsIndex] | None,
    index_format: str,
    out: Array | None,
    num_threads: int | None,
    fill_value: FillValue | None = None,
    onto: npt.ArrayLike | None = None,
) -> Array:
    """Unpooling over `n` spatial axes."""
    values = _arrays.items(input, "input", n)
    codes = index_format != "plane" and _geometry.is_window(index_format)
    background = asked = None
    name = "output_size" if onto is None else "the spatial size of onto"
    if onto is not None:
        background = _background.onto_array(onto, values, output_size, fill_value)
        asked = background.shape
    try:
        if output_size is not None:
            asked = _geometry.entries("output_size", output_size)
        shape, count, sizes = _geometry.unpooling(n, values.shape, *_geometry.window(*window), asked, name)
        positions = positions_of(indices, values.shape, codes, n, sizes, "input")
    except (TypeError, ValueError) as error:
        better = _better_error(error, n, input, indices, values, window)
        if better is error:
            raise
        raise better from None
    if background is not None:
        _background.check_shape(background, shape)
    elif fill_value is not None:
        background = _background.filled(fill_value, values.dtype)
    if out is None and onto is None:  # a short cut for small calls
        result = _arrays.new(values, shape, values.dtype)
    else:
        result = _background.result_for(out, background, values, shape, indices)
    item_size = values.itemsize
    work = count * item_size
    small = num_threads is None and work < _threads.GRAIN
    threads = 1 if small else _threads.threads_for(work, num_threads)
    ways = _unpool.unpool(values, positions, result, sizes, n, ITEM_KINDS[item_size], threads, background)
    if not ways:
        at_fault = "output_size" if onto is None else "onto"
        raise _diagnostics.bad_in_windows(indices, positions, n, sizes, codes, at_fault, window)
    if ways & _STRAYED and not codes:
        is_size_free = asked is None and _diagnostics.has_even_padding(window)
        _diagnostics.strayed(_arrays.array_of(indices, "indices"), positions, n, sizes, is_size_free)
    return result if out is None else _arrays.delivered(result, out)


def _better_error(
    error: TypeError | ValueError,
    n: int,
    input: npt.ArrayLike,
    indices: npt.ArrayLike,
    values: Array,
    window: Window,
) -> TypeError | ValueError:
    """The error to raise for `error`: one about a missing argument or about shapes, if that is the cause."""
    if window[0] is _calls.MISSING or indices is _calls.MISSING or _calls.is_size(indices):
        return _calls.without_kernel_size(f"max_unpool{n}d", input, indices)
    return _arrays.better_error(
        error, indices, values, "input", lambda shape: _diagnostics.for_other_indices(n, values.shape, shape, window)
    )


def positions_of(
    indices: npt.ArrayLike, shape: _geometry.Shape, codes: bool, n: int, sizes: _geometry.Sizes, name: str
) -> Array:
    """The indices in a dtype that the kernels support."""
    if codes:
        small = _arrays.codes(indices, shape, _geometry.code_bytes(sizes[6:9]), name)
        if small is None:
            raise _diagnostics.bad_code(indices, n, sizes)
        return small if sizes[19] else _formats.decoded(small, n, sizes)
    positions = _arrays.integers(indices, shape, name)
    # A converted dtype may have too few bits. The kernels read int32, too small above 2**31 elements.
    if positions is not indices or (positions.itemsize == 4 and math.prod(sizes[:3]) > 1 << 31):
        _diagnostics.narrow(_arrays.array_of(indices, "indices"), n, sizes)
    return positions


def _max_unpool_backward(
    n: int,
    grad_output: npt.ArrayLike,
    indices: npt.ArrayLike,
    window: Window,
    index_format: str,
    onto: bool,
    out: Array | Pair | None,
    num_threads: int | None,
) -> Array | tuple[Array, Array]:
    """The gradient of unpooling over `n` spatial axes, and with `onto` that for the array unpooled onto."""
    if window[0] is _calls.MISSING or _calls.is_size(indices):
        raise _calls.without_kernel_size(f"max_unpool{n}d_backward", grad_output, indices)
    full = _arrays.items(grad_output, "grad_output", n)
    codes = _geometry.is_window(index_format)
    pair = _background.pair_of(out, _geometry.flag("onto", onto))
    given = _arrays.array_of(indices, "indices")
    _, _, sizes = _geometry.unpooled_to(n, given.shape, full.shape, _geometry.window(*window))
    positions = positions_of(given, given.shape, codes, n, sizes, "indices")
    result = _results.gathered(n, full, given, positions, sizes, onto, pair, num_threads)
    if result is None:
        raise _diagnostics.bad_in_windows(given, positions, n, sizes, codes, "grad_output", window)
    return result


@typed_unpool
@shares
def max_unpool1d(
    input: npt.ArrayLike,
    indices: npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    output_size: Sequence[SupportsIndex] | None = None,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    fill_value: FillValue | None = None,
    onto: npt.ArrayLike | None = None,
    channel_axis: SupportsIndex | None = None,
    out: Array | None = None,
    num_threads: int | None = None,
) -> Array:
    """Put the maxima of a 1d pooling back where they came from, and zeros everywhere else.

    See `max_unpool2d`. This is the case of one spatial axis: shapes are (N, C, L) or (C, L).

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> x = np.array([[[1.0, 2, 3, 4, 5, 6, 7, 8, 9]]])
    >>> y, indices = cu.max_pool1d(x, 2, stride=2, return_indices=True)
    >>> cu.max_unpool1d(y, indices, 2, stride=2)
    array([[[0., 2., 0., 4., 0., 6., 0., 8.]]])
    >>> cu.max_unpool1d(y, indices, 2, stride=2, output_size=x.shape)
    array([[[0., 2., 0., 4., 0., 6., 0., 8., 0.]]])
    """
    if channel_axis is not None:
        return _channels.call(max_unpool1d, 1, locals())
    window = kernel_size, stride, padding, dilation
    return _max_unpool(1, input, indices, window, output_size, index_format, out, num_threads, fill_value, onto)


@typed_unpool
@shares
def max_unpool2d(
    input: npt.ArrayLike,
    indices: npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    output_size: Sequence[SupportsIndex] | None = None,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    fill_value: FillValue | None = None,
    onto: npt.ArrayLike | None = None,
    channel_axis: SupportsIndex | None = None,
    out: Array | None = None,
    num_threads: int | None = None,
) -> Array:
    """Put the maxima of a 2d pooling back where they came from, and zeros everywhere else.

    Parameters
    ----------
    input : array_like
        The pooled values, of shape (N, C, H, W) or (C, H, W), with any strides. N and C may be 0. Elements have 1, 2,
        4, 8 or 16 bytes, and are neither objects nor strings.
    indices : array_like of integers
        The index of each value in its plane of the output, in raster order, or its window code (see `index_format`).
        They have the shape of `input`. If an index occurs twice, the last value in raster order wins.
    {window}
    output_size : sequence of int, optional
        The spatial sizes of the result, or its whole shape, whose N and C are ignored. Always pass the shape of the
        pooling's input, ``x.shape``, because inputs of different sizes can pool to the same size. On each axis, the
        size must lie strictly within one `stride` of the default,
        ``(size - 1) * stride - before - after + dilation * (kernel_size - 1) + 1``, with the padding before and after.
        If `padding` is a name, the default is ``size * stride``, and the size divided by `stride` and rounded up must
        be ``size``.
    {dilation}
    {index_format}
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
        If an index is negative or past the end of its plane, or a window code names no element of the plane. The
        message names the first one.
    TypeError
        If the dtype of `input` or `indices` is of the wrong kind, or `onto` or `out` has another dtype. If `fill_value`
        is no element of such a dtype.
    ValueError
        If shapes or sizes do not fit, or `out` cannot be written. If `fill_value` has no representation in the dtype of
        `input`, or is given together with `onto`.
    ValueError, OverflowError, MemoryError
        If the result is too large: NumPy's own errors, or an `OverflowError` beyond 2**60 elements along an axis.

    Warns
    -----
    UserWarning
        If some indices lie outside their windows, but all would lie inside them in another legal `output_size`, as
        window codes, or in another format of `convert_indices`. Also if their dtype is too small for the last window.

    See Also
    --------
    max_pool2d : Returns `input` and `indices`.

    Notes
    -----
    Results match ``torch.nn.functional.max_unpool2d`` [1]_, and are also defined for duplicate indices. The operation
    comes from the decoders of segmentation networks [2]_.

    References
    ----------
    .. [1] https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxUnpool2d.html
    .. [2] V. Badrinarayanan, A. Kendall, R. Cipolla, "SegNet: A Deep Convolutional Encoder-Decoder Architecture for
       Image Segmentation", IEEE TPAMI 39(12), 2017.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> x = np.arange(1.0, 17).reshape(1, 1, 4, 4)
    >>> y, indices = cu.max_pool2d(x, 2, return_indices=True)
    >>> cu.max_unpool2d(y, indices, 2)
    array([[[[ 0.,  0.,  0.,  0.],
             [ 0.,  6.,  0.,  8.],
             [ 0.,  0.,  0.,  0.],
             [ 0., 14.,  0., 16.]]]])
    >>> cu.max_unpool2d(-y, indices, 2, onto=x)
    array([[[[  1.,   2.,   3.,   4.],
             [  5.,  -6.,   7.,  -8.],
             [  9.,  10.,  11.,  12.],
             [ 13., -14.,  15., -16.]]]])
    """
    if channel_axis is not None:
        return _channels.call(max_unpool2d, 2, locals())
    window = kernel_size, stride, padding, dilation
    return _max_unpool(2, input, indices, window, output_size, index_format, out, num_threads, fill_value, onto)


@typed_unpool
@shares
def max_unpool3d(
    input: npt.ArrayLike,
    indices: npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    output_size: Sequence[SupportsIndex] | None = None,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    fill_value: FillValue | None = None,
    onto: npt.ArrayLike | None = None,
    channel_axis: SupportsIndex | None = None,
    out: Array | None = None,
    num_threads: int | None = None,
) -> Array:
    """Put the maxima of a 3d pooling back where they came from, and zeros everywhere else.

    See `max_unpool2d`. This is the case of three spatial axes: shapes are (N, C, D, H, W) or (C, D, H, W).

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> x = np.random.default_rng(0).random((20, 16, 51, 33, 15), dtype=np.float32)
    >>> y, indices = cu.max_pool3d(x, 3, stride=2, return_indices=True)
    >>> cu.max_unpool3d(y, indices, 3, stride=2).shape
    (20, 16, 51, 33, 15)
    """
    if channel_axis is not None:
        return _channels.call(max_unpool3d, 3, locals())
    window = kernel_size, stride, padding, dilation
    return _max_unpool(3, input, indices, window, output_size, index_format, out, num_threads, fill_value, onto)


@typed_unpool_backward
@shares
def max_unpool1d_backward(
    grad_output: npt.ArrayLike,
    indices: npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    onto: bool = False,
    channel_axis: SupportsIndex | None = None,
    out: Array | Pair | None = None,
    num_threads: int | None = None,
) -> Array | tuple[Array, Array]:
    """Return the gradient of `max_unpool1d` with respect to its input; see `max_unpool2d_backward`.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.max_unpool1d_backward(np.array([[1.0, 2, 3, 4]]), np.array([[1, 2]]), 2)
    array([[2., 3.]])
    """
    if channel_axis is not None:
        return _channels.call(max_unpool1d_backward, 1, locals())
    window = kernel_size, stride, padding, dilation
    return _max_unpool_backward(1, grad_output, indices, window, index_format, onto, out, num_threads)


@typed_unpool_backward
@shares
def max_unpool2d_backward(
    grad_output: npt.ArrayLike,
    indices: npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    onto: bool = False,
    channel_axis: SupportsIndex | None = None,
    out: Array | Pair | None = None,
    num_threads: int | None = None,
) -> Array | tuple[Array, Array]:
    """Return the gradient of `max_unpool2d` with respect to its input, and to the array that it unpools onto.

    Parameters
    ----------
    grad_output : array_like
        The gradient with respect to the result, of its shape, (N, C, H, W) or (C, H, W). It may have any dtype of
        `max_unpool2d`, because elements are only moved.
    indices : array_like of integers
        The indices of the unpooling.
    {window}
    {dilation}
    {index_format}
    {onto_gradient}
    {channel_axis}
    out : numpy.ndarray, or with `onto` a tuple of two, optional
        Array for the result, with its shape and dtype, and any strides. In a tuple, None stands for a new array, and
        the second entry may be `grad_output` itself. After an error the contents are unspecified.
    {num_threads}

    Returns
    -------
    grad_input : numpy.ndarray
        The elements of `grad_output` at the indices, with the shape of `indices`. As in PyTorch, each of several
        duplicates receives the gradient, even though only the last one was stored.
    grad_onto : numpy.ndarray
        Only with `onto`: a copy of `grad_output` with zeros at the indices.

    Raises
    ------
    IndexError, TypeError, ValueError
        As for `max_unpool2d`.

    Notes
    -----
    The result equals PyTorch's autograd for ``torch.nn.functional.max_unpool2d`` [1]_.

    References
    ----------
    .. [1] https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxUnpool2d.html

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> grad_output = np.arange(16.0).reshape(1, 4, 4)
    >>> cu.max_unpool2d_backward(grad_output, np.array([[[5, 7], [13, 15]]]), 2)
    array([[[ 5.,  7.],
            [13., 15.]]])
    >>> cu.max_unpool2d_backward(grad_output, np.array([[[5, 7], [13, 15]]]), 2, onto=True)[1]
    array([[[ 0.,  1.,  2.,  3.],
            [ 4.,  0.,  6.,  0.],
            [ 8.,  9., 10., 11.],
            [12.,  0., 14.,  0.]]])
    """
    if channel_axis is not None:
        return _channels.call(max_unpool2d_backward, 2, locals())
    window = kernel_size, stride, padding, dilation
    return _max_unpool_backward(2, grad_output, indices, window, index_format, onto, out, num_threads)


@typed_unpool_backward
@shares
def max_unpool3d_backward(
    grad_output: npt.ArrayLike,
    indices: npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    onto: bool = False,
    channel_axis: SupportsIndex | None = None,
    out: Array | Pair | None = None,
    num_threads: int | None = None,
) -> Array | tuple[Array, Array]:
    """Return the gradient of `max_unpool3d` with respect to its input; see `max_unpool2d_backward`.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.max_unpool3d_backward(np.arange(8.0).reshape(1, 2, 2, 2), np.array([[[[6]]]]), 2)
    array([[[[6.]]]])
    """
    if channel_axis is not None:
        return _channels.call(max_unpool3d_backward, 3, locals())
    window = kernel_size, stride, padding, dilation
    return _max_unpool_backward(3, grad_output, indices, window, index_format, onto, out, num_threads)


_calls.told_if_missing(max_unpool1d, max_unpool2d, max_unpool3d)
_calls.told_if_missing(max_unpool1d_backward, max_unpool2d_backward, max_unpool3d_backward)
complete(max_unpool1d, max_unpool3d, max_unpool2d)
complete(max_unpool1d_backward, max_unpool3d_backward, max_unpool2d_backward)
