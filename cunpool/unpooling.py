"""Max unpooling: the front end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from cunpool import _arrays, _geometry, _threads, _unpool
from cunpool._arrays import Array
from cunpool._docs import shares
from cunpool._geometry import Size


def _max_unpool(
    n: int,
    input: npt.ArrayLike,
    indices: npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None,
    padding: Size,
    output_size: Sequence[SupportsIndex] | None,
    out: Array | None,
    num_threads: int | None,
) -> Array:
    """Unpooling over `n` spatial axes."""
    values = _arrays.items(input)
    shape, count, sizes = _geometry.unpooling(
        n,
        values.shape,
        _geometry.hashable("kernel_size", kernel_size),
        stride if stride is None else _geometry.hashable("stride", stride),
        _geometry.hashable("padding", padding),
        1,
        None if output_size is None else _geometry.entries("output_size", output_size),
    )
    places = _arrays.integers(indices, values.shape)
    if out is None:
        result = _arrays.empty(values, shape, values.dtype, count)
    else:
        result = _arrays.check_out(out, shape, values.dtype)
        if np.may_share_memory(out, values) or np.may_share_memory(out, places):
            result = _arrays.empty(values, shape, values.dtype, count)
    threads = _threads.threads_for(count * values.itemsize, num_threads)
    if not _unpool.unpool(values, places, result, sizes, n, threads):
        raise _arrays.bad_index(indices, shape[-n:])
    if out is not None and result is not out:
        np.copyto(out, result)
        return out
    return result


@shares
def max_unpool1d(
    input: npt.ArrayLike,
    indices: npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Sequence[SupportsIndex] | None = None,
    *,
    out: Array | None = None,
    num_threads: int | None = None,
) -> Array:
    """Put the maxima of a 1d pooling back where they came from, and zeros everywhere else.

    See `max_unpool2d`, of which this is the case of one spatial axis: shapes are (N, C, L) or (C, L).

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
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size, out, num_threads)


@shares
def max_unpool2d(
    input: npt.ArrayLike,
    indices: npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Sequence[SupportsIndex] | None = None,
    *,
    out: Array | None = None,
    num_threads: int | None = None,
) -> Array:
    """Put the maxima of a 2d pooling back where they came from, and zeros everywhere else.

    Parameters
    ----------
    input : array_like
        The pooled values, of shape (N, C, H, W) or (C, H, W) and of any dtype of 1, 2, 4, 8 or 16 bytes that is not an
        object or a string. N and C may be 0. Any strides.
    indices : array_like of integers
        Of the shape of `input`: where each value goes, as its place in its plane of the output, counted in raster
        order. Where several values go to one place, the last one in raster order stays.
    {window}
    output_size : sequence of int, optional
        The spatial sizes of the result, or its whole shape (N and C are not looked at). On every axis the size has to
        lie strictly within one `stride` of the default, ``(size - 1) * stride - 2 * padding + kernel_size``.
    {out}
    {num_threads}

    Returns
    -------
    numpy.ndarray
        Of the dtype of `input`, its bits unchanged, and laid out in memory as `input` is; `out` if that was given.

    Raises
    ------
    IndexError
        If an index is negative or past the end of its plane. The first one is named.
    TypeError
        If the dtype of `input` or `indices` is of the wrong kind, or `out` has another dtype.
    ValueError
        If shapes or sizes do not fit, or `out` cannot be written.
    OverflowError, MemoryError
        If the result cannot be that large.

    See Also
    --------
    max_pool2d : The pooling that gives `input` and `indices`.

    Notes
    -----
    The semantics are those of ``torch.nn.functional.max_unpool2d`` [1]_, with a definite answer for duplicates. The
    operation comes from the decoders of segmentation networks [2]_.

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
    """
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size, out, num_threads)


@shares
def max_unpool3d(
    input: npt.ArrayLike,
    indices: npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Sequence[SupportsIndex] | None = None,
    *,
    out: Array | None = None,
    num_threads: int | None = None,
) -> Array:
    """Put the maxima of a 3d pooling back where they came from, and zeros everywhere else.

    See `max_unpool2d`, of which this is the case of three spatial axes: shapes are (N, C, D, H, W) or (C, D, H, W).

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> x = np.random.default_rng(0).random((20, 16, 51, 33, 15), dtype=np.float32)
    >>> y, indices = cu.max_pool3d(x, 3, stride=2, return_indices=True)
    >>> cu.max_unpool3d(y, indices, 3, stride=2).shape
    (20, 16, 51, 33, 15)
    """
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size, out, num_threads)
