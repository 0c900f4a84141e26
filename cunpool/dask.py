"""Max pooling and unpooling of Dask's arrays, block by block: for arrays that are larger than a machine.

Chunks may be cut along any axes. A block of the result is made of the chunks that its windows reach, and of no more of
them than these see:

============================  ==========================================================================================
windows side by side,         nothing moves: each chunk is pooled, or unpooled, where it is
chunks that end between them
windows that overlap          what they see of the next chunks: ``kernel_size - stride`` cells along each axis, cut out
                              where those chunks lie; in unpooling the windows of the chunks before that reach into one
chunks that end in a window   what is left of that window; the window belongs to the chunk in which it begins
indices from elsewhere        whole planes, each rechunked to one chunk by the caller; see `max_unpool2d`
============================  ==========================================================================================

On paper, for a volume of 10 TB (uint8, 21,504 cells along each axis) on 64 workers: in chunks of 512 x 512 x 512 (128
MiB) there are 42^3 = 74,088 of them. Pooled with indices, 2 x 2 x 2 side by side, each takes 3 tasks, beside those
that read and write: 222,264, which at 200 microseconds each take 45 seconds of Dask's scheduler. Between workers moves
nothing. Windows of 3 x 3 x 3 with stride 1 and padding 1 see two cells more at the far end of each axis: the 7 chunks
behind send 3 * 2 * 512 * 512 + 3 * 4 * 512 + 8 cells, 1.5 MiB or 1.2 % of a chunk, 114 GB in all if no two of them
share a worker, with 8 more tasks for each chunk: 800,000, and not 3 minutes. In chunks of 128 x 128 x 128 the same is
4.8 % and 64 times as many tasks: 3 hours of scheduling. So choose chunks as large as a worker can hold some six of for
each of its threads (what is read, what it is joined with, results and codes, and what is written meanwhile); of sizes
that are multiples of all strides to come (512 for up to nine levels of 2); and cut along all three axes alike, for
slabs of the same size have a larger surface.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

import numpy.typing as npt

from cunpool import pooling, taking, unpooling
from cunpool._calls import explained
from cunpool._dask import _graphs
from cunpool._dask._graphs import Array, Lazy
from cunpool._dask._overloads import typed_pool
from cunpool._docstrings import shares
from cunpool._geometry import IndexFormat, Size

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
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    index_format: IndexFormat = "plane",
    index_dtype: npt.DTypeLike | None = None,
    num_threads: int | None = 1,
) -> Array | tuple[Array, Array]:
    """The maxima of sliding windows along one axis of a Dask array, and where they were.

    See `max_pool2d`, of which this is the case of one spatial axis: shapes are (N, C, L) or (C, L).

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import max_pool1d
    >>> max_pool1d(da.from_array([[[3, 1, 4, 1, 5, 9, 2, 6]]]), 2).compute()
    array([[[3, 4, 9, 6]]])
    """
    window = kernel_size, stride, padding, dilation
    return _graphs.pool(
        pooling.max_pool1d, 1, input, window, ceil_mode, return_indices, index_format, index_dtype, num_threads
    )


@typed_pool
@explained
@shares
def max_pool2d(
    input: Lazy,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    index_format: IndexFormat = "plane",
    index_dtype: npt.DTypeLike | None = None,
    num_threads: int | None = 1,
) -> Array | tuple[Array, Array]:
    """The maxima of sliding windows over two axes of a Dask array, and where they were.

    Lazy: nothing is computed here. Shape, chunks and dtype of the results are known, and what `cunpool.max_pool2d`
    would refuse is refused at once. (Of its dtype, that is: an array of objects is refused when it is made, by Dask.)

    Parameters
    ----------
    input : dask.array.Array
        Of shape (N, C, H, W) or (C, H, W), as for `cunpool.max_pool2d`, in chunks of any sizes along any axes. An image
        or a volume without N and C is ``input[None]``.
    {window}
        At most half of `kernel_size`. The padding never wins.
    dilation : int or sequence of int
        Step from one cell of a window to the next.
    ceil_mode : bool
        Whether a last window that overhangs the end is kept, as long as it starts before the end.
    return_indices : bool
        Whether to return the indices too. Without them the values of `index_format` and `index_dtype` are checked, and
        have no effect.
    {index_format}
    index_dtype : numpy.int64 or numpy.int32, optional
        How places in the plane are stored; int64 where it is not given.
    num_threads : int, optional
        Threads to use at most, for each block. One by default, for Dask shares out the processors already, and its
        workers would fight over them. None takes what the worker's process allows, see `cunpool.set_num_threads`.

    Returns
    -------
    values : dask.array.Array
        The maxima, of the dtype of `input`. Its chunks follow those of `input`: each window is in the chunk in which it
        begins, and chunks in which none does are left out.
    indices : dask.array.Array of int64, int32, uint8 or uint16
        Only with `return_indices`: the place of each maximum in its plane of `input`, the whole plane, counted in
        raster order, or in its window (see `index_format`). Computed together with `values`, it takes no second
        pooling.

    Raises
    ------
    TypeError
        If `input` has another dtype, or `index_dtype` is another.
    ValueError
        If shapes or sizes do not fit, or chunks have unknown sizes.
    OverflowError
        If `index_dtype` cannot count the cells of a plane, or a window has or spans more than 2**60 elements.

    See Also
    --------
    max_unpool2d : Puts the maxima back.

    Notes
    -----
    The result is that of `cunpool.max_pool2d` for the whole array, bit for bit, whatever the chunks.

    In one of Dask's workers that has a process of its own, the memory that is kept for the next calls is at most an
    eighth of what the worker may use, unless somebody has set the limit (see `cunpool.set_cache_limit`).

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import max_pool2d
    >>> x = da.random.default_rng(0).random((64, 3, 100, 80), chunks=(16, 3, 50, 80))
    >>> values, indices = max_pool2d(x, 2, return_indices=True)
    >>> values.shape, values.chunksize, indices.dtype
    ((64, 3, 50, 40), (16, 3, 25, 40), dtype('int64'))
    """
    window = kernel_size, stride, padding, dilation
    return _graphs.pool(
        pooling.max_pool2d, 2, input, window, ceil_mode, return_indices, index_format, index_dtype, num_threads
    )


@typed_pool
@explained
@shares
def max_pool3d(
    input: Lazy,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    index_format: IndexFormat = "plane",
    index_dtype: npt.DTypeLike | None = None,
    num_threads: int | None = 1,
) -> Array | tuple[Array, Array]:
    """The maxima of sliding windows over three axes of a Dask array, and where they were.

    See `max_pool2d`, of which this is the case of three spatial axes: shapes are (N, C, D, H, W) or (C, D, H, W).

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import max_pool3d
    >>> volume = da.arange(4096, chunks=512).reshape(16, 16, 16).rechunk(8)
    >>> max_pool3d(volume[None], 2).numblocks
    (1, 2, 2, 2)
    """
    window = kernel_size, stride, padding, dilation
    return _graphs.pool(
        pooling.max_pool3d, 3, input, window, ceil_mode, return_indices, index_format, index_dtype, num_threads
    )


@explained
@shares
def max_unpool1d(
    input: Lazy,
    indices: Lazy,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Sequence[SupportsIndex] | None = None,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    num_threads: int | None = 1,
) -> Array:
    """Put the maxima of a 1d pooling back where they came from, and zeros everywhere else.

    See `max_unpool2d`, of which this is the case of one spatial axis: shapes are (N, C, L) or (C, L).

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import max_unpool1d
    >>> max_unpool1d(da.from_array([[[3, 4]]]), da.from_array([[[0, 2]]]), 2).compute()
    array([[[3, 0, 4, 0]]])
    """
    window = kernel_size, stride, padding, dilation
    return _graphs.unpool(unpooling.max_unpool1d, 1, input, indices, window, output_size, index_format, num_threads)


@explained
@shares
def max_unpool2d(
    input: Lazy,
    indices: Lazy,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Sequence[SupportsIndex] | None = None,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    num_threads: int | None = 1,
) -> Array:
    """Put the maxima of a 2d pooling back where they came from, and zeros everywhere else.

    Lazy: nothing is computed here. Shape, chunks and dtype of the result are known, and what `cunpool.max_unpool2d`
    would refuse is refused at once, but for indices that are out of bounds.

    Parameters
    ----------
    input : dask.array.Array
        The pooled values, of shape (N, C, H, W) or (C, H, W), as for `cunpool.max_unpool2d`, in chunks of any sizes
        along any axes.
    indices : dask.array.Array of integers
        Of the shape of `input`: where each value goes, as its place in its plane of the output, the whole plane,
        counted in raster order, or in the window (see `index_format`). Rechunked to the chunks of `input`. Where a
        plane is in several chunks, each place has to lie in its own window (between its first and its last cell), as
        pooling's do; where each plane is one chunk, anywhere in the plane.
    {window}
    output_size : sequence of int, optional
        The spatial sizes of the result, or its whole shape, as for `cunpool.max_unpool2d`.
    {dilation}
    {index_format}
    num_threads : int, optional
        Threads to use at most, for each block. One by default, for Dask shares out the processors already, and its
        workers would fight over them. None takes what the worker's process allows, see `cunpool.set_num_threads`.

    Returns
    -------
    dask.array.Array
        Of the dtype of `input`. Its chunks follow those of `input`: each begins where its first window does.

    Raises
    ------
    IndexError
        When the result is computed, if an index is negative or past the end of its plane, or a window code names no
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
    max_pool2d : The pooling that gives `input` and `indices`.

    Notes
    -----
    The result is that of `cunpool.max_unpool2d` for the whole array, bit for bit, whatever the chunks: a block is made
    of all windows that reach into it, in raster order, so that the last of several values for one place stays.

    Places that come from a pooling lie in their windows, so a block can be made of the windows near it. Whether they do
    is checked in each block, because places from elsewhere would be lost without a word. Where they do not, the error
    says so, and what helps: ``input.rechunk({-2: -1, -1: -1})`` gives each plane one chunk, for which a worker has to
    have the memory. There is no argument for that, so that such a call looks like what it costs.

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
    window = kernel_size, stride, padding, dilation
    return _graphs.unpool(unpooling.max_unpool2d, 2, input, indices, window, output_size, index_format, num_threads)


@explained
@shares
def max_unpool3d(
    input: Lazy,
    indices: Lazy,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Sequence[SupportsIndex] | None = None,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    num_threads: int | None = 1,
) -> Array:
    """Put the maxima of a 3d pooling back where they came from, and zeros everywhere else.

    See `max_unpool2d`, of which this is the case of three spatial axes: shapes are (N, C, D, H, W) or (C, D, H, W).

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import max_unpool3d
    >>> max_unpool3d(da.full((1, 1, 1, 1, 1), 7), da.full((1, 1, 1, 1, 1), 5), 2).compute().ravel()
    array([0, 0, 0, 0, 0, 7, 0, 0])
    """
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
    padding: Size = 0,
    dilation: Size = 1,
    *,
    index_format: IndexFormat = "plane",
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
    padding: Size = 0,
    dilation: Size = 1,
    *,
    index_format: IndexFormat = "plane",
    num_threads: int | None = 1,
) -> Array:
    """Return the gradient of `max_pool2d` with respect to its input.

    Parameters
    ----------
    grad_output : dask.array.Array
        The gradient with respect to the maxima, of their shape, (N, C, H, W) or (C, H, W), and of float16, bfloat16,
        float32 or float64, in chunks of any sizes along any axes.
    indices : dask.array.Array of integers
        The indices that the pooling gave, of the shape of `grad_output`, as `max_unpool2d` takes them.
    input_size : sequence of int
        The shape of the pooling's input, or its spatial sizes alone.
    {window}
    dilation : int or sequence of int
        Step from one cell of a window to the next.
    {index_format}
    num_threads : int, optional
        Threads to use at most, for each block. One by default, for Dask shares out the processors already, and its
        workers would fight over them. None takes what the worker's process allows, see `cunpool.set_num_threads`.

    Returns
    -------
    dask.array.Array
        Of `input_size`; its chunks follow those of `grad_output`, each beginning where its first window does.

    Raises
    ------
    IndexError, TypeError, ValueError, OverflowError
        As for `max_unpool2d`.

    Notes
    -----
    It is what `cunpool.max_pool2d_backward` gives for the whole array, bit for bit: a block has all windows that reach
    into it, and adds what they give to one cell in raster order, whatever the chunks.

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
    padding: Size = 0,
    dilation: Size = 1,
    *,
    index_format: IndexFormat = "plane",
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
    padding: Size = 0,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
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
    padding: Size = 0,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    num_threads: int | None = 1,
) -> Array:
    """Return the gradient of `max_unpool2d` with respect to its input.

    Parameters
    ----------
    grad_output : dask.array.Array
        The gradient with respect to the result, of its shape, (N, C, H, W) or (C, H, W), and of any dtype that
        `max_unpool2d` takes, in chunks of any sizes along any axes.
    indices : dask.array.Array of integers
        The indices that were unpooled with, as `max_unpool2d` takes them.
    {window}
    {dilation}
    {index_format}
    num_threads : int, optional
        Threads to use at most, for each block. One by default, for Dask shares out the processors already, and its
        workers would fight over them. None takes what the worker's process allows, see `cunpool.set_num_threads`.

    Returns
    -------
    dask.array.Array
        Of the shape and the chunks of `indices`: what `grad_output` has at each index.

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
    padding: Size = 0,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
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
    padding: Size = 0,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    num_threads: int | None = 1,
) -> Array:
    """`cunpool.take_at1d` of Dask arrays; see `take_at2d`.

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
    padding: Size = 0,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    num_threads: int | None = 1,
) -> Array:
    """Take the elements that indices name, such as those of the maxima of another array: `cunpool.take_at2d`.

    Lazy: nothing is computed here. Shape, chunks and dtype of the result are known.

    Parameters
    ----------
    input : dask.array.Array
        Where to take from, of shape (N, C, H, W) or (C, H, W), as for `cunpool.take_at2d`, in chunks of any sizes along
        any axes.
    indices : dask.array.Array of integers
        With the N and C of `input`, and any spatial sizes: which element of its plane of `input` to take, the whole
        plane, counted in raster order, or in the window (see `index_format`).
    kernel_size : int or sequence of int, optional
        Size of the windows that the indices come from. Window codes need it, and so do planes of `input` in several
        chunks where those of `indices` are in several chunks too. Each index has to lie in its own window then (between
        its first element and its last one), so that a block reads no more of `input` than its windows reach. Without it
        a block reads whole planes.
    stride : int or sequence of int, optional
        Step from one window to the next; `kernel_size` where it is not given.
    padding : int or sequence of int
        Elements of padding on both sides of each axis.
    dilation : int or sequence of int
        Step from one element of a window to the next.
    {index_format}
    num_threads : int, optional
        Threads to use at most, for each block. One by default, for Dask shares out the processors already, and its
        workers would fight over them. None takes what the worker's process allows, see `cunpool.set_num_threads`.

    Returns
    -------
    dask.array.Array
        Of the shape and the chunks of `indices`, and the dtype of `input`.

    Raises
    ------
    IndexError
        When the result is computed, if an index is outside its plane, a window code names no element of the plane, or
        an index lies outside its window where it has to lie inside. The first one of its block is named, by its
        position in the whole array.
    TypeError
        If the dtype of `input` or `indices` is of the wrong kind, or `kernel_size` is missing for window codes.
    ValueError
        If N and C differ, shapes have too many axes or too few, windows lie outside the planes, chunks have unknown
        sizes, or `kernel_size` is missing where planes are in several chunks.
    OverflowError
        If a size is beyond 2**60.

    See Also
    --------
    max_pool2d : Gives the maxima and their indices.

    Notes
    -----
    The result is that of `cunpool.take_at2d` for the whole array, bit for bit, whatever the chunks. Its gradient adds:
    it is `max_pool2d_backward` with the windows of the pooling.

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
    padding: Size = 0,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    num_threads: int | None = 1,
) -> Array:
    """`cunpool.take_at3d` of Dask arrays; see `take_at2d`.

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import take_at3d
    >>> take_at3d(da.arange(8).reshape(1, 2, 2, 2), da.from_array([[[[6]]]])).compute()
    array([[[[6]]]])
    """
    window = kernel_size, stride, padding, dilation
    return _graphs.take_at(taking.take_at3d, 3, input, indices, window, index_format, num_threads)
