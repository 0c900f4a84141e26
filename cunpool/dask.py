"""Max pooling and unpooling of Dask arrays, block by block, for arrays larger than memory.

Arrays may be chunked along any axes. Only the elements that a window needs from neighbouring chunks are moved:

=================================== ===================================================================================
windows side by side in one chunk   nothing moves: each chunk is pooled, or unpooled, on its own
overlapping windows                 ``kernel_size - stride`` elements along each axis, cut out of the next chunks. In
                                    unpooling, the windows of earlier chunks that reach into a chunk
a chunk that ends inside a window   the rest of the window, for the chunk where the window begins
indices from elsewhere              whole planes, which the caller rechunks to one chunk each; see `max_unpool2d`
=================================== ===================================================================================

Chunks should be as large as memory allows: about six chunks for each thread of a worker. Choose sizes that are
multiples of all strides to come, and cut all three axes of a volume alike. For a volume of 10 TB (uint8) on 64 workers,
chunks of 512 x 512 x 512 are right. "Planning chunks" in the documentation has the estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

import numpy.typing as npt

from cunpool import minima, pooling, taking, unpooling
from cunpool._calls import explained
from cunpool._dask import _graphs
from cunpool._dask._graphs import Array, Lazy
from cunpool._dask._overloads import typed_pool
from cunpool._docstrings import shares
from cunpool._geometry import IndexFormat, NanPolicy, Padding, Size

__all__ = [
    "max_pool1d",
    "max_pool1d_backward",
    "max_pool2d",
    "max_pool2d_backward",
    "max_pool3d",
    "max_pool3d_backward",
    "max_unpool1d",
    "max_unpool1d_backward",
    "max_unpool2d",
    "max_unpool2d_backward",
    "max_unpool3d",
    "max_unpool3d_backward",
    "min_pool1d",
    "min_pool1d_backward",
    "min_pool2d",
    "min_pool2d_backward",
    "min_pool3d",
    "min_pool3d_backward",
    "min_unpool1d",
    "min_unpool2d",
    "min_unpool3d",
    "take_at1d",
    "take_at2d",
    "take_at3d",
]


@typed_pool
@explained
@shares
def max_pool1d(
    input: Lazy,
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
    num_threads: int | None = 1,
) -> Array | tuple[Array, Array]:
    """Return the maxima of sliding windows along one axis of a Dask array, and their indices.

    See `max_pool2d`. This is the case of one spatial axis: shapes are (N, C, L) or (C, L).

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import max_pool1d
    >>> max_pool1d(da.from_array([[[3, 1, 4, 1, 5, 9, 2, 6]]]), 2).compute()
    array([[[3, 4, 9, 6]]])
    """
    if channel_axis is not None:
        return _graphs.with_channel_axis(max_pool1d, 1, locals())
    window = kernel_size, stride, padding, dilation
    choices = return_indices, index_format, index_dtype, nan_policy
    return _graphs.pool(pooling.max_pool1d, 1, input, window, ceil_mode, choices, num_threads)


@typed_pool
@explained
@shares
def max_pool2d(
    input: Lazy,
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
    num_threads: int | None = 1,
) -> Array | tuple[Array, Array]:
    """Return the maxima of sliding windows over two axes of a Dask array, and their indices.

    Nothing is computed here. Shape, chunks and dtype of the results are known, and wrong arguments raise the errors of
    `cunpool.max_pool2d` at once.

    Parameters
    ----------
    input : dask.array.Array
        Array of shape (N, C, H, W) or (C, H, W), as for `cunpool.max_pool2d`, in any chunks. For an image or a volume
        without N and C, pass ``input[None]``.
    {window}
        Integers are at most half of `kernel_size`, and each side of a pair is less than
        ``dilation * (kernel_size - 1) + 1``. The padding never wins.
    {step}
    ceil_mode : bool
        Whether to keep a last window that extends past the end, if it starts before the end.
    return_indices : bool
        Whether to return the indices too. Without them, `index_format` and `index_dtype` are checked, but not used.
    {index_format}
    index_dtype : numpy.int64 or numpy.int32, optional
        The dtype of plane indices; the default is int64.
    {nan_policy}
    {channel_axis}
    {block_threads}

    Returns
    -------
    values : dask.array.Array
        The maxima, with the dtype of `input`. Each chunk has the windows that begin in a chunk of `input`. Chunks of
        `input` in which no window begins have none.
    indices : dask.array.Array of int64, int32, uint8 or uint16
        Only with `return_indices`: the index of each maximum in its whole plane of `input`, in raster order, or its
        window code (see `index_format`). If both results are computed together, each block is pooled once.

    Raises
    ------
    TypeError
        If the dtype of `input` or `index_dtype` is not supported.
    ValueError
        If shapes or sizes do not fit, or chunks have unknown sizes.
    OverflowError
        If `index_dtype` is too small for a plane, or a window has or spans more than 2**60 elements.

    See Also
    --------
    max_unpool2d : Puts the maxima back.

    Notes
    -----
    The result equals `cunpool.max_pool2d` of the whole array, bit for bit, for any chunks.

    In a Dask worker with its own process, the memory kept for later calls is at most an eighth of the worker's limit,
    unless you have set another (see `cunpool.set_cache_limit`).

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import max_pool2d
    >>> x = da.random.default_rng(0).random((64, 3, 100, 80), chunks=(16, 3, 50, 80))
    >>> values, indices = max_pool2d(x, 2, return_indices=True)
    >>> values.shape, values.chunksize, indices.dtype
    ((64, 3, 50, 40), (16, 3, 25, 40), dtype('int64'))
    """
    if channel_axis is not None:
        return _graphs.with_channel_axis(max_pool2d, 2, locals())
    window = kernel_size, stride, padding, dilation
    choices = return_indices, index_format, index_dtype, nan_policy
    return _graphs.pool(pooling.max_pool2d, 2, input, window, ceil_mode, choices, num_threads)


@typed_pool
@explained
@shares
def max_pool3d(
    input: Lazy,
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
    num_threads: int | None = 1,
) -> Array | tuple[Array, Array]:
    """Return the maxima of sliding windows over three axes of a Dask array, and their indices.

    See `max_pool2d`. This is the case of three spatial axes: shapes are (N, C, D, H, W) or (C, D, H, W).

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import max_pool3d
    >>> volume = da.arange(4096, chunks=512).reshape(16, 16, 16).rechunk(8)
    >>> max_pool3d(volume[None], 2).numblocks
    (1, 2, 2, 2)
    """
    if channel_axis is not None:
        return _graphs.with_channel_axis(max_pool3d, 3, locals())
    window = kernel_size, stride, padding, dilation
    choices = return_indices, index_format, index_dtype, nan_policy
    return _graphs.pool(pooling.max_pool3d, 3, input, window, ceil_mode, choices, num_threads)


@typed_pool
@explained
@shares
def min_pool1d(
    input: Lazy,
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
    num_threads: int | None = 1,
) -> Array | tuple[Array, Array]:
    """Return the minima of sliding windows over one axis of a Dask array, and their indices.

    Arguments, results and errors are as for `max_pool1d`. The result equals `cunpool.min_pool1d` of the whole array.
    Indices are of the same kind, so that `max_unpool1d` puts minima back.

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import min_pool1d
    >>> min_pool1d(da.from_array([[[3, 1, 4, 1, 5, 9, 2, 6]]]), 2).compute()
    array([[[1, 1, 5, 2]]])
    """
    if channel_axis is not None:
        return _graphs.with_channel_axis(min_pool1d, 1, locals())
    window = kernel_size, stride, padding, dilation
    choices = return_indices, index_format, index_dtype, nan_policy
    return _graphs.pool(minima.min_pool1d, 1, input, window, ceil_mode, choices, num_threads)


@typed_pool
@explained
@shares
def min_pool2d(
    input: Lazy,
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
    num_threads: int | None = 1,
) -> Array | tuple[Array, Array]:
    """Return the minima of sliding windows over two axes of a Dask array, and their indices.

    Arguments, results and errors are as for `max_pool2d`. The result equals `cunpool.min_pool2d` of the whole array.
    Indices are of the same kind, so that `max_unpool2d` puts minima back.

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import min_pool2d
    >>> x = da.random.default_rng(0).random((3, 100, 80), chunks=(3, 50, 80))
    >>> values, indices = min_pool2d(x, 2, return_indices=True)
    >>> values.shape, values.chunksize, indices.dtype
    ((3, 50, 40), (3, 25, 40), dtype('int64'))
    """
    if channel_axis is not None:
        return _graphs.with_channel_axis(min_pool2d, 2, locals())
    window = kernel_size, stride, padding, dilation
    choices = return_indices, index_format, index_dtype, nan_policy
    return _graphs.pool(minima.min_pool2d, 2, input, window, ceil_mode, choices, num_threads)


@typed_pool
@explained
@shares
def min_pool3d(
    input: Lazy,
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
    num_threads: int | None = 1,
) -> Array | tuple[Array, Array]:
    """Return the minima of sliding windows over three axes of a Dask array, and their indices.

    Arguments, results and errors are as for `max_pool3d`. The result equals `cunpool.min_pool3d` of the whole array.
    Indices are of the same kind, so that `max_unpool3d` puts minima back.

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import min_pool3d
    >>> volume = da.arange(4096, chunks=512).reshape(16, 16, 16).rechunk(8)
    >>> min_pool3d(volume[None], 2).numblocks
    (1, 2, 2, 2)
    """
    if channel_axis is not None:
        return _graphs.with_channel_axis(min_pool3d, 3, locals())
    window = kernel_size, stride, padding, dilation
    choices = return_indices, index_format, index_dtype, nan_policy
    return _graphs.pool(minima.min_pool3d, 3, input, window, ceil_mode, choices, num_threads)


@explained
@shares
def max_unpool1d(
    input: Lazy,
    indices: Lazy,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    output_size: Sequence[SupportsIndex] | None = None,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    channel_axis: SupportsIndex | None = None,
    num_threads: int | None = 1,
) -> Array:
    """Put the maxima of a 1d pooling back where they came from, and zeros everywhere else.

    See `max_unpool2d`. This is the case of one spatial axis: shapes are (N, C, L) or (C, L).

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import max_unpool1d
    >>> max_unpool1d(da.from_array([[[3, 4]]]), da.from_array([[[0, 2]]]), 2).compute()
    array([[[3, 0, 4, 0]]])
    """
    if channel_axis is not None:
        return _graphs.with_channel_axis(max_unpool1d, 1, locals())
    window = kernel_size, stride, padding, dilation
    return _graphs.unpool(unpooling.max_unpool1d, 1, input, indices, window, output_size, index_format, num_threads)


@explained
@shares
def max_unpool2d(
    input: Lazy,
    indices: Lazy,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    output_size: Sequence[SupportsIndex] | None = None,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    channel_axis: SupportsIndex | None = None,
    num_threads: int | None = 1,
) -> Array:
    """Put the maxima of a 2d pooling back where they came from, and zeros everywhere else.

    Nothing is computed here. Shape, chunks and dtype of the result are known. Wrong arguments raise the errors of
    `cunpool.max_unpool2d` at once, except for indices out of bounds.

    Parameters
    ----------
    input : dask.array.Array
        The pooled values, of shape (N, C, H, W) or (C, H, W), as for `cunpool.max_unpool2d`, in any chunks.
    indices : dask.array.Array of integers
        The index of each value in its whole plane of the output, in raster order, or its window code (see
        `index_format`). They have the shape of `input`, and receive its chunks. If a plane has several chunks, each
        index must lie between the first and the last element of its window, as pooling's indices do. If each plane is
        one chunk, it may lie anywhere in the plane.
    {window}
    output_size : sequence of int, optional
        The spatial sizes of the result, or its whole shape, as for `cunpool.max_unpool2d`.
    {dilation}
    {index_format}
    {channel_axis}
    {block_threads}

    Returns
    -------
    dask.array.Array
        Array with the dtype of `input`. Each chunk begins where the first window of a chunk of `input` begins.

    Raises
    ------
    IndexError
        When the result is computed: if an index is negative or past the end of its plane, or a window code names no
        element of the plane. In planes of several chunks, also if an index lies outside its window. The message names
        the first one of its block, by its position in the whole array.
    TypeError
        If the dtype of `input` or `indices` is of the wrong kind.
    ValueError
        If shapes or sizes do not fit, or chunks have unknown sizes.
    OverflowError
        If the result cannot be that large.

    See Also
    --------
    max_pool2d : Returns `input` and `indices`.

    Notes
    -----
    The result equals `cunpool.max_unpool2d` of the whole array, bit for bit, for any chunks. A block is made from all
    windows that reach into it, in raster order, so that the last duplicate wins.

    Indices from a pooling lie in their windows, so a block needs only the windows near it. Each block checks this,
    because other indices would silently be lost. For other indices, ``input.rechunk({-2: -1, -1: -1})`` makes each
    plane one chunk, which must fit a worker's memory. This is never done automatically, because it is expensive.

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import max_pool2d, max_unpool2d
    >>> x = da.arange(1.0, 17, chunks=16).reshape(1, 1, 4, 4).rechunk((1, 1, 2, 2))
    >>> y, indices = max_pool2d(x, 2, return_indices=True)
    >>> max_unpool2d(y, indices, 2).compute()
    array([[[[ 0.,  0.,  0.,  0.],
             [ 0.,  6.,  0.,  8.],
             [ 0.,  0.,  0.,  0.],
             [ 0., 14.,  0., 16.]]]])
    """
    if channel_axis is not None:
        return _graphs.with_channel_axis(max_unpool2d, 2, locals())
    window = kernel_size, stride, padding, dilation
    return _graphs.unpool(unpooling.max_unpool2d, 2, input, indices, window, output_size, index_format, num_threads)


@explained
@shares
def max_unpool3d(
    input: Lazy,
    indices: Lazy,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    output_size: Sequence[SupportsIndex] | None = None,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    channel_axis: SupportsIndex | None = None,
    num_threads: int | None = 1,
) -> Array:
    """Put the maxima of a 3d pooling back where they came from, and zeros everywhere else.

    See `max_unpool2d`. This is the case of three spatial axes: shapes are (N, C, D, H, W) or (C, D, H, W).

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import max_unpool3d
    >>> max_unpool3d(da.full((1, 1, 1, 1, 1), 7), da.full((1, 1, 1, 1, 1), 5), 2).compute().ravel()
    array([0, 0, 0, 0, 0, 7, 0, 0])
    """
    if channel_axis is not None:
        return _graphs.with_channel_axis(max_unpool3d, 3, locals())
    window = kernel_size, stride, padding, dilation
    return _graphs.unpool(unpooling.max_unpool3d, 3, input, indices, window, output_size, index_format, num_threads)


@explained
@shares
def max_pool1d_backward(
    grad_output: Lazy,
    indices: Lazy,
    input_size: Sequence[SupportsIndex],
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    dilation: Size = 1,
    *,
    index_format: IndexFormat = "plane",
    channel_axis: SupportsIndex | None = None,
    num_threads: int | None = 1,
) -> Array:
    """Return the gradient of `max_pool1d` with respect to its input; see `max_pool2d_backward`.

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import max_pool1d_backward
    >>> max_pool1d_backward(da.from_array([[1.0, 2]], 1), da.from_array([[1, 1]]), (3,), 2, 1).compute()
    array([[0., 3., 0.]])
    """
    if channel_axis is not None:
        return _graphs.with_channel_axis(max_pool1d_backward, 1, locals())
    window = kernel_size, stride, padding, dilation
    return _graphs.pool_backward(
        pooling.max_pool1d_backward, 1, grad_output, indices, input_size, window, index_format, num_threads
    )


@explained
@shares
def max_pool2d_backward(
    grad_output: Lazy,
    indices: Lazy,
    input_size: Sequence[SupportsIndex],
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    dilation: Size = 1,
    *,
    index_format: IndexFormat = "plane",
    channel_axis: SupportsIndex | None = None,
    num_threads: int | None = 1,
) -> Array:
    """Return the gradient of `max_pool2d` with respect to its input.

    Parameters
    ----------
    grad_output : dask.array.Array
        The gradient with respect to the maxima, of their shape, (N, C, H, W) or (C, H, W), in any chunks. Its dtype is
        float16, bfloat16, float32 or float64.
    indices : dask.array.Array of integers
        The indices from the pooling, of the shape of `grad_output`, as for `max_unpool2d`.
    input_size : sequence of int
        The shape of the pooling's input, or only its spatial sizes.
    {window}
    {step}
    {index_format}
    {channel_axis}
    {block_threads}

    Returns
    -------
    dask.array.Array
        Array of `input_size`. Each chunk begins where the first window of a chunk of `grad_output` begins.

    Raises
    ------
    IndexError, TypeError, ValueError, OverflowError
        As for `max_unpool2d`.

    Notes
    -----
    The result equals `cunpool.max_pool2d_backward` of the whole array, bit for bit, for any chunks. A block is made
    from all windows that reach into it. Gradients of one element are added in raster order.

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import max_pool2d, max_pool2d_backward
    >>> x = da.from_array([[[1.0, 2, 1], [0, 3, 0]]], chunks=(1, 2, 1))
    >>> values, indices = max_pool2d(x, 2, 1, return_indices=True)
    >>> max_pool2d_backward(da.ones_like(values), indices, x.shape, 2, 1).compute()
    array([[[0., 0., 0.],
            [0., 2., 0.]]])
    """
    if channel_axis is not None:
        return _graphs.with_channel_axis(max_pool2d_backward, 2, locals())
    window = kernel_size, stride, padding, dilation
    return _graphs.pool_backward(
        pooling.max_pool2d_backward, 2, grad_output, indices, input_size, window, index_format, num_threads
    )


@explained
@shares
def max_pool3d_backward(
    grad_output: Lazy,
    indices: Lazy,
    input_size: Sequence[SupportsIndex],
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    dilation: Size = 1,
    *,
    index_format: IndexFormat = "plane",
    channel_axis: SupportsIndex | None = None,
    num_threads: int | None = 1,
) -> Array:
    """Return the gradient of `max_pool3d` with respect to its input; see `max_pool2d_backward`.

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import max_pool3d_backward
    >>> max_pool3d_backward(da.from_array([[[[5.0]]]]), da.from_array([[[[7]]]]), (2, 2, 2), 2).compute().ravel()
    array([0., 0., 0., 0., 0., 0., 0., 5.])
    """
    if channel_axis is not None:
        return _graphs.with_channel_axis(max_pool3d_backward, 3, locals())
    window = kernel_size, stride, padding, dilation
    return _graphs.pool_backward(
        pooling.max_pool3d_backward, 3, grad_output, indices, input_size, window, index_format, num_threads
    )


@explained
@shares
def max_unpool1d_backward(
    grad_output: Lazy,
    indices: Lazy,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    channel_axis: SupportsIndex | None = None,
    num_threads: int | None = 1,
) -> Array:
    """Return the gradient of `max_unpool1d` with respect to its input; see `max_unpool2d_backward`.

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import max_unpool1d_backward
    >>> max_unpool1d_backward(da.from_array([[1.0, 2, 3, 4]], 1), da.from_array([[1, 2]], 1), 2).compute()
    array([[2., 3.]])
    """
    if channel_axis is not None:
        return _graphs.with_channel_axis(max_unpool1d_backward, 1, locals())
    window = kernel_size, stride, padding, dilation
    return _graphs.unpool_backward(
        unpooling.max_unpool1d_backward, 1, grad_output, indices, window, index_format, num_threads
    )


@explained
@shares
def max_unpool2d_backward(
    grad_output: Lazy,
    indices: Lazy,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    channel_axis: SupportsIndex | None = None,
    num_threads: int | None = 1,
) -> Array:
    """Return the gradient of `max_unpool2d` with respect to its input.

    Parameters
    ----------
    grad_output : dask.array.Array
        The gradient with respect to the result, of its shape, (N, C, H, W) or (C, H, W), in any chunks. It may have
        any dtype of `max_unpool2d`.
    indices : dask.array.Array of integers
        The indices of the unpooling, as for `max_unpool2d`.
    {window}
    {dilation}
    {index_format}
    {channel_axis}
    {block_threads}

    Returns
    -------
    dask.array.Array
        The elements of `grad_output` at the indices, with the shape and the chunks of `indices`.

    Raises
    ------
    IndexError, TypeError, ValueError, OverflowError
        As for `max_unpool2d`.

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import max_unpool2d_backward
    >>> grad_output = da.arange(16.0).reshape(1, 4, 4).rechunk(2)
    >>> max_unpool2d_backward(grad_output, da.from_array([[[5, 7], [13, 15]]], 1), 2).compute()
    array([[[ 5.,  7.],
            [13., 15.]]])
    """
    if channel_axis is not None:
        return _graphs.with_channel_axis(max_unpool2d_backward, 2, locals())
    window = kernel_size, stride, padding, dilation
    return _graphs.unpool_backward(
        unpooling.max_unpool2d_backward, 2, grad_output, indices, window, index_format, num_threads
    )


@explained
@shares
def max_unpool3d_backward(
    grad_output: Lazy,
    indices: Lazy,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    channel_axis: SupportsIndex | None = None,
    num_threads: int | None = 1,
) -> Array:
    """Return the gradient of `max_unpool3d` with respect to its input; see `max_unpool2d_backward`.

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import max_unpool3d_backward
    >>> max_unpool3d_backward(da.arange(8.0).reshape(1, 2, 2, 2), da.from_array([[[[6]]]]), 2).compute()
    array([[[[6.]]]])
    """
    if channel_axis is not None:
        return _graphs.with_channel_axis(max_unpool3d_backward, 3, locals())
    window = kernel_size, stride, padding, dilation
    return _graphs.unpool_backward(
        unpooling.max_unpool3d_backward, 3, grad_output, indices, window, index_format, num_threads
    )


@explained
@shares
def take_at1d(
    input: Lazy,
    indices: Lazy,
    kernel_size: Size | None = None,
    stride: Size | None = None,
    padding: Padding = 0,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    num_threads: int | None = 1,
) -> Array:
    """Call `cunpool.take_at1d` for Dask arrays; see `take_at2d`.

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import take_at1d
    >>> take_at1d(da.from_array([[3, 4, 5]]), da.from_array([[2, 0]], 1)).compute()
    array([[5, 3]])
    """
    window = kernel_size, stride, padding, dilation
    return _graphs.take_at(taking.take_at1d, 1, input, indices, window, index_format, num_threads)


@explained
@shares
def take_at2d(
    input: Lazy,
    indices: Lazy,
    kernel_size: Size | None = None,
    stride: Size | None = None,
    padding: Padding = 0,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    num_threads: int | None = 1,
) -> Array:
    """Take the elements at given indices, such as the indices of the maxima of another array.

    This is `cunpool.take_at2d` for Dask arrays. Nothing is computed here. Shape, chunks and dtype of the result are
    known.

    Parameters
    ----------
    input : dask.array.Array
        The source array, of shape (N, C, H, W) or (C, H, W), as for `cunpool.take_at2d`, in any chunks.
    indices : dask.array.Array of integers
        The index of each element to take in its whole plane of `input`, in raster order, or its window code (see
        `index_format`). N and C must be the same as in `input`; the spatial sizes are free.
    kernel_size : int or sequence of int, optional
        Size of the windows that the indices come from. Window codes need it. It is also needed if planes of both
        `input` and `indices` have several chunks. Each index must then lie between the first and the last element of
        its window, and a block reads only the part of `input` that its windows reach. Without it, a block reads whole
        planes.
    stride : int or sequence of int, optional
        Step from one window to the next; the default is `kernel_size`.
    padding : int, sequence of int, sequence of pairs of int, "same" or "same_lower"
        Elements of padding at both ends of each axis, or as `cunpool.max_pool2d` has it.
    {step}
    {index_format}
    {block_threads}

    Returns
    -------
    dask.array.Array
        Array with the shape and the chunks of `indices` and the dtype of `input`.

    Raises
    ------
    IndexError
        When the result is computed: if an index is outside its plane, or outside its window where it must lie inside.
        Also if a window code names no element of the plane. The message names the first one of its block, by its
        position in the whole array.
    TypeError
        If the dtype of `input` or `indices` is of the wrong kind, or `kernel_size` is missing for window codes.
    ValueError
        If N and C differ, shapes have too many axes or too few, windows lie outside the planes, or chunks have unknown
        sizes. Also if `kernel_size` is missing and planes have several chunks.
    OverflowError
        If a size is beyond 2**60.

    See Also
    --------
    max_pool2d : Returns the maxima and their indices.

    Notes
    -----
    The result equals `cunpool.take_at2d` of the whole array, bit for bit, for any chunks. The gradient is
    `max_pool2d_backward` with the windows of the pooling.

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import max_pool2d, take_at2d
    >>> image = da.from_array([[[1.0, 2, 0, 3], [4, 0, 5, 0]]], (1, 1, 2))
    >>> labels = da.from_array([[[10, 11, 12, 13], [14, 15, 16, 17]]], (1, 2, 2))
    >>> brightest, indices = max_pool2d(image, 2, return_indices=True)
    >>> take_at2d(labels, indices, 2).compute()
    array([[[14, 16]]])
    """
    window = kernel_size, stride, padding, dilation
    return _graphs.take_at(taking.take_at2d, 2, input, indices, window, index_format, num_threads)


@explained
@shares
def take_at3d(
    input: Lazy,
    indices: Lazy,
    kernel_size: Size | None = None,
    stride: Size | None = None,
    padding: Padding = 0,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    num_threads: int | None = 1,
) -> Array:
    """Call `cunpool.take_at3d` for Dask arrays; see `take_at2d`.

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import take_at3d
    >>> take_at3d(da.arange(8).reshape(1, 2, 2, 2), da.from_array([[[[6]]]])).compute()
    array([[[[6]]]])
    """
    window = kernel_size, stride, padding, dilation
    return _graphs.take_at(taking.take_at3d, 3, input, indices, window, index_format, num_threads)


# Indices of minima are of the same kind, so that the same functions take them.
min_unpool1d, min_unpool2d, min_unpool3d = max_unpool1d, max_unpool2d, max_unpool3d
min_pool1d_backward, min_pool2d_backward, min_pool3d_backward = (
    max_pool1d_backward,
    max_pool2d_backward,
    max_pool3d_backward,
)
