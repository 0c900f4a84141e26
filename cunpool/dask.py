"""Max pooling and unpooling of Dask's arrays, block by block: for arrays that are larger than a machine.

It asks `_geometry` and `_arrays` about the whole array when the graph is built, and leaves each block to the public
functions. Nothing imports this module, so that cunpool needs NumPy alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from cunpool import _arrays, _geometry, _threads, pooling, unpooling
from cunpool._docs import shares
from cunpool._geometry import Size

try:
    import dask.array as da
except ImportError:
    raise ImportError("cunpool.dask needs dask: pip install 'cunpool[dask]'") from None

__all__ = ["max_pool1d", "max_pool2d", "max_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d"]


def _known(name: str, value: da.Array | npt.ArrayLike) -> da.Array:
    """`value` as a Dask array, all of whose sizes are known."""
    array = da.asarray(value)
    if any(map(math.isnan, array.shape)):
        raise ValueError(
            f"{name} must have chunks of known sizes, got shape {array.shape}; its compute_chunk_sizes() finds them"
        )
    return array


def _window(**sizes: Size | None) -> dict[str, Any]:
    """Sizes that the caches of `_geometry` can hold, by the names of their arguments."""
    return {name: size if size is None else _geometry.hashable(name, size) for name, size in sizes.items()}


def _whole_planes(n: int, array: da.Array) -> da.Array:
    """`array` with its trailing `n` axes in one chunk each."""
    return array.rechunk(dict.fromkeys(range(array.ndim - n, array.ndim), -1))


def _per_block(function: Callable[..., Any], *arrays: da.Array, shape: _geometry.Shape, n: int, dtype: Any) -> da.Array:
    """`function` of each block; `meta` is given, or Dask would try `function` on an array without cells."""
    chunks = arrays[0].chunks[:-n] + tuple((size,) for size in shape[-n:])
    return da.map_blocks(function, *arrays, chunks=chunks, dtype=dtype, meta=np.empty((0,) * len(shape), dtype))


def _max_pool(
    function: Callable[..., Any],
    n: int,
    input: da.Array | npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None,
    padding: Size,
    dilation: Size,
    ceil_mode: bool,
    return_indices: bool,
    num_threads: int | None,
) -> Any:
    """Pooling by `function` over `n` spatial axes."""
    array = _known("input", input)
    _arrays.numbers(np.empty(0, array.dtype))
    window = _window(kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation)
    shape, _, _ = _geometry.pooling(n, tuple(map(int, array.shape)), *window.values(), bool(ceil_mode), False)
    _threads.threads_for(0, num_threads)
    pool = partial(
        function, **window, ceil_mode=bool(ceil_mode), return_indices=bool(return_indices), num_threads=num_threads
    )
    array = _whole_planes(n, array)
    if not return_indices:
        return _per_block(pool, array, shape=shape, n=n, dtype=array.dtype)
    # Each block of `pairs` is a tuple, on which both results draw: pooling twice would be the simpler graph.
    pairs = _per_block(pool, array, shape=shape, n=n, dtype=np.dtype(object))
    return (
        _per_block(itemgetter(0), pairs, shape=shape, n=n, dtype=array.dtype),
        _per_block(itemgetter(1), pairs, shape=shape, n=n, dtype=_arrays.INT64),
    )


def _max_unpool(
    function: Callable[..., Any],
    n: int,
    input: da.Array | npt.ArrayLike,
    indices: da.Array | npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None,
    padding: Size,
    output_size: Sequence[SupportsIndex] | None,
    num_threads: int | None,
) -> da.Array:
    """Unpooling by `function` over `n` spatial axes."""
    array, places = _known("input", input), _known("indices", indices)
    _arrays.items(np.empty(0, array.dtype))
    window = _window(kernel_size=kernel_size, stride=stride, padding=padding)
    size = None if output_size is None else _geometry.entries("output_size", output_size)
    pooled = tuple(map(int, array.shape))
    shape, _, _ = _geometry.unpooling(n, pooled, *window.values(), 1, size)
    # Two stand-ins: one entry of the dtype, which may be converted, and the whole shape, which takes no memory.
    entry = np.zeros(min(places.size, 1), places.dtype)
    _arrays.integers(entry, entry.shape)
    _arrays.integers(np.broadcast_to(np.zeros((), _arrays.INT64), places.shape), pooled)
    _threads.threads_for(0, num_threads)
    unpool = partial(function, **window, output_size=shape[-n:], num_threads=num_threads)
    array = _whole_planes(n, array)
    return _per_block(unpool, array, places.rechunk(array.chunks), shape=shape, n=n, dtype=array.dtype)


@shares
def max_pool1d(
    input: da.Array | npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    num_threads: int | None = 1,
) -> Any:  # an array, or two: `return_indices` says
    """The maxima of sliding windows along one axis of a Dask array, and where they were.

    See `max_pool2d`, of which this is the case of one spatial axis: shapes are (N, C, L) or (C, L).

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import max_pool1d
    >>> max_pool1d(da.from_array([[[3, 1, 4, 1, 5, 9, 2, 6]]]), 2).compute()
    array([[[3, 4, 9, 6]]])
    """
    return _max_pool(
        pooling.max_pool1d, 1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, num_threads
    )


@shares
def max_pool2d(
    input: da.Array | npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    num_threads: int | None = 1,
) -> Any:  # an array, or two: `return_indices` says
    """The maxima of sliding windows over two axes of a Dask array, and where they were.

    Lazy: nothing is computed here. Shape, chunks and dtype of the results are known, and what `cunpool.max_pool2d`
    would refuse is refused at once.

    Parameters
    ----------
    input : dask.array.Array
        Of shape (N, C, H, W) or (C, H, W), as for `cunpool.max_pool2d`, in chunks of any sizes along N and C. Along the
        spatial axes it is rechunked to one chunk, so that each plane lies in one block.
    {window}
        At most half of `kernel_size`. The padding never wins.
    dilation : int or sequence of int
        Step from one cell of a window to the next.
    ceil_mode : bool
        Whether a last window that overhangs the end is kept, as long as it starts before the end.
    return_indices : bool
        Whether to return the indices too.
    num_threads : int, optional
        Threads to use at most, for each block. One by default, for Dask shares out the processors already, and its
        workers would fight over them. None takes what the worker's process allows, see `cunpool.set_num_threads`.

    Returns
    -------
    values : dask.array.Array
        The maxima, of the dtype of `input`, in its chunks along N and C.
    indices : dask.array.Array of int64
        Only with `return_indices`: the place of each maximum in its plane of `input`, counted in raster order. Computed
        together with `values`, it takes no second pooling.

    Raises
    ------
    TypeError
        If `input` has another dtype.
    ValueError
        If shapes or sizes do not fit, or chunks have unknown sizes.
    OverflowError
        If a window spans 2**31 cells of its plane or more.

    See Also
    --------
    max_unpool2d : Puts the maxima back.

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import max_pool2d
    >>> x = da.random.default_rng(0).random((64, 3, 100, 80), chunks=(16, 3, 50, 80))
    >>> values, indices = max_pool2d(x, 2, return_indices=True)
    >>> values.shape, values.chunksize, indices.dtype
    ((64, 3, 50, 40), (16, 3, 50, 40), dtype('int64'))
    """
    return _max_pool(
        pooling.max_pool2d, 2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, num_threads
    )


@shares
def max_pool3d(
    input: da.Array | npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    num_threads: int | None = 1,
) -> Any:  # an array, or two: `return_indices` says
    """The maxima of sliding windows over three axes of a Dask array, and where they were.

    See `max_pool2d`, of which this is the case of three spatial axes: shapes are (N, C, D, H, W) or (C, D, H, W).

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import max_pool3d
    >>> max_pool3d(da.arange(8).reshape(1, 1, 2, 2, 2), 2).compute()
    array([[[[[7]]]]])
    """
    return _max_pool(
        pooling.max_pool3d, 3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, num_threads
    )


@shares
def max_unpool1d(
    input: da.Array | npt.ArrayLike,
    indices: da.Array | npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Sequence[SupportsIndex] | None = None,
    *,
    num_threads: int | None = 1,
) -> da.Array:
    """Put the maxima of a 1d pooling back where they came from, and zeros everywhere else.

    See `max_unpool2d`, of which this is the case of one spatial axis: shapes are (N, C, L) or (C, L).

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import max_unpool1d
    >>> max_unpool1d(da.from_array([[[3, 4]]]), da.from_array([[[0, 2]]]), 2).compute()
    array([[[3, 0, 4, 0]]])
    """
    return _max_unpool(
        unpooling.max_unpool1d, 1, input, indices, kernel_size, stride, padding, output_size, num_threads
    )


@shares
def max_unpool2d(
    input: da.Array | npt.ArrayLike,
    indices: da.Array | npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Sequence[SupportsIndex] | None = None,
    *,
    num_threads: int | None = 1,
) -> da.Array:
    """Put the maxima of a 2d pooling back where they came from, and zeros everywhere else.

    Lazy: nothing is computed here. Shape, chunks and dtype of the result are known, and what `cunpool.max_unpool2d`
    would refuse is refused at once, but for indices that are out of bounds.

    Parameters
    ----------
    input : dask.array.Array
        The pooled values, of shape (N, C, H, W) or (C, H, W), as for `cunpool.max_unpool2d`, in chunks of any sizes
        along N and C. Along the spatial axes it is rechunked to one chunk, so that each plane lies in one block.
    indices : dask.array.Array of integers
        Of the shape of `input`: where each value goes, as its place in its plane of the output, counted in raster
        order. Rechunked to the chunks of `input`.
    {window}
    output_size : sequence of int, optional
        The spatial sizes of the result, or its whole shape, as for `cunpool.max_unpool2d`.
    num_threads : int, optional
        Threads to use at most, for each block. One by default, for Dask shares out the processors already, and its
        workers would fight over them. None takes what the worker's process allows, see `cunpool.set_num_threads`.

    Returns
    -------
    dask.array.Array
        Of the dtype of `input`, in its chunks along N and C.

    Raises
    ------
    IndexError
        When the result is computed, if an index is negative or past the end of its plane. The first one of its block is
        named, by its position in the block.
    TypeError
        If the dtype of `input` or `indices` is of the wrong kind.
    ValueError
        If shapes or sizes do not fit, or chunks have unknown sizes.
    OverflowError
        If the result cannot be that large.

    See Also
    --------
    max_pool2d : The pooling that gives `input` and `indices`.

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import max_pool2d, max_unpool2d
    >>> x = da.arange(1.0, 17, chunks=16).reshape(1, 1, 4, 4)
    >>> y, indices = max_pool2d(x, 2, return_indices=True)
    >>> max_unpool2d(y, indices, 2).compute()
    array([[[[ 0.,  0.,  0.,  0.],
             [ 0.,  6.,  0.,  8.],
             [ 0.,  0.,  0.,  0.],
             [ 0., 14.,  0., 16.]]]])
    """
    return _max_unpool(
        unpooling.max_unpool2d, 2, input, indices, kernel_size, stride, padding, output_size, num_threads
    )


@shares
def max_unpool3d(
    input: da.Array | npt.ArrayLike,
    indices: da.Array | npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Sequence[SupportsIndex] | None = None,
    *,
    num_threads: int | None = 1,
) -> da.Array:
    """Put the maxima of a 3d pooling back where they came from, and zeros everywhere else.

    See `max_unpool2d`, of which this is the case of three spatial axes: shapes are (N, C, D, H, W) or (C, D, H, W).

    Examples
    --------
    >>> import dask.array as da
    >>> from cunpool.dask import max_unpool3d
    >>> max_unpool3d(da.full((1, 1, 1, 1, 1), 7), da.full((1, 1, 1, 1, 1), 5), 2).compute().ravel()
    array([0, 0, 0, 0, 0, 7, 0, 0])
    """
    return _max_unpool(
        unpooling.max_unpool3d, 3, input, indices, kernel_size, stride, padding, output_size, num_threads
    )
