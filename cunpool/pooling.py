"""Max pooling with indices: the front end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from cunpool import _arrays, _geometry, _pool, _threads, _unpool, unpooling
from cunpool._arrays import Array
from cunpool._docs import shares
from cunpool._geometry import Size, Window

_KINDS = {name: number for number, name in enumerate(_pool.KINDS)}
_ADDED = {name: number for number, name in enumerate(_unpool.KINDS)}


def _max_pool(
    n: int,
    input: npt.ArrayLike,
    window: Window,
    ceil_mode: bool,
    return_indices: bool,
    index_format: str,
    num_threads: int | None,
) -> Array | tuple[Array, Array]:
    """Pooling over `n` spatial axes."""
    given = np.asarray(input)
    cells, kind = _arrays.numbers(given)
    codes = index_format != "plane" and _geometry.is_window(index_format)
    shape, count, sizes = _geometry.pooling(n, cells.shape, *_geometry.window(*window), bool(ceil_mode), codes)
    values = _arrays.empty(cells, shape, cells.dtype, count)
    indices = None
    if return_indices:
        dtype = _arrays.CODES[_geometry.code_bytes(sizes[6:9])] if codes else _arrays.INT64
        indices = _arrays.empty(cells, shape, dtype, count)
    if count:
        threads = _threads.threads_for(2 * cells.nbytes, num_threads)  # comparing takes longer than moving
        _pool.pool(cells, values, indices, sizes, n, _KINDS[kind], codes, threads)
    if given is not cells:
        values = values.astype(given.dtype)
    return values if indices is None else (values, indices)


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
    """The gradient of pooling over `n` spatial axes: unpooling, but that values that meet are added."""
    given = np.asarray(grad_output)
    values, kind = _arrays.reals(given, "grad_output")
    codes = _geometry.is_window(index_format)
    shape = _geometry.entries("input_size", input_size)
    if len(shape) == n:
        shape = values.shape[:-n] + shape
    _, _, sizes = _geometry.pooled_from(n, shape, values.shape, _geometry.window(*window))
    places = unpooling.places_of(indices, values.shape, codes, n, sizes, "grad_output")
    count = math.prod(shape)
    swapped = given is not values  # in another byte order
    if swapped and out is not None:
        _arrays.check_out(out, shape, given.dtype)
    result = _arrays.result_for(None if swapped else out, values, shape, values.dtype, count, values, places)
    threads = _threads.threads_for(count * values.itemsize, num_threads)
    if not _unpool.unpool(values, places, result, sizes, n, _ADDED[kind], codes, threads):
        raise _arrays.bad_code(indices, n, sizes) if codes else _arrays.bad_index(indices, shape[-n:])
    if swapped:
        result = result.astype(given.dtype)
    return _arrays.delivered(result, out)


@shares
def max_pool1d(
    input: npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    index_format: str = "plane",
    num_threads: int | None = None,
) -> Any:  # an array, or two: `return_indices` says
    """The maxima of sliding windows along one axis, and where they were.

    See `max_pool2d`, of which this is the case of one spatial axis: shapes are (N, C, L) or (C, L).

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.max_pool1d(np.array([[[3, 1, 4, 1, 5, 9, 2, 6]]]), 2, return_indices=True)
    (array([[[3, 4, 9, 6]]]), array([[[0, 2, 5, 7]]]))
    """
    window = kernel_size, stride, padding, dilation
    return _max_pool(1, input, window, ceil_mode, return_indices, index_format, num_threads)


@shares
def max_pool2d(
    input: npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    index_format: str = "plane",
    num_threads: int | None = None,
) -> Any:  # an array, or two: `return_indices` says
    """The maxima of sliding windows over two axes, and where they were.

    Parameters
    ----------
    input : array_like
        Of shape (N, C, H, W) or (C, H, W), of integers or of float16, bfloat16, float32 or float64. N and C may be 0.
        Any strides.
    {window}
        At most half of `kernel_size`. The padding never wins.
    dilation : int or sequence of int
        Step from one cell of a window to the next.
    ceil_mode : bool
        Whether a last window that overhangs the end is kept, as long as it starts before the end.
    return_indices : bool
        Whether to return the indices too.
    {index_format}
    {num_threads}

    Returns
    -------
    values : numpy.ndarray
        The maxima, of the dtype of `input`, laid out in memory as `input` is.
    indices : numpy.ndarray of int64, uint8 or uint16
        Only with `return_indices`: the place of each maximum in its plane of `input`, counted in raster order, or in
        its window (see `index_format`). Of equal maxima it is the first. A NaN beats every number, and of several the
        last one is named.

    Raises
    ------
    TypeError
        If `input` has another dtype.
    ValueError
        If shapes or sizes do not fit, or a window has too many cells for a window code.
    OverflowError
        If a window spans 2**31 cells of its plane or more, and `indices` are to be places in the plane.

    See Also
    --------
    max_unpool2d : Puts the maxima back.

    Notes
    -----
    The semantics are those of ``torch.nn.functional.max_pool2d`` [1]_, NaN and windows of nothing but minus infinity
    included. Where dilation leaves a window without any cell of the input, its value is the lowest of its dtype and its
    index is no place of the window, as in PyTorch.

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
    """
    window = kernel_size, stride, padding, dilation
    return _max_pool(2, input, window, ceil_mode, return_indices, index_format, num_threads)


@shares
def max_pool3d(
    input: npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    index_format: str = "plane",
    num_threads: int | None = None,
) -> Any:  # an array, or two: `return_indices` says
    """The maxima of sliding windows over three axes, and where they were.

    See `max_pool2d`, of which this is the case of three spatial axes: shapes are (N, C, D, H, W) or (C, D, H, W).

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.max_pool3d(np.arange(8).reshape(1, 1, 2, 2, 2), 2, return_indices=True)
    (array([[[[[7]]]]]), array([[[[[7]]]]]))
    """
    window = kernel_size, stride, padding, dilation
    return _max_pool(3, input, window, ceil_mode, return_indices, index_format, num_threads)


@shares
def max_pool1d_backward(
    grad_output: npt.ArrayLike,
    indices: npt.ArrayLike,
    input_size: Sequence[SupportsIndex],
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    *,
    index_format: str = "plane",
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
    window = kernel_size, stride, padding, dilation
    return _max_pool_backward(1, grad_output, indices, input_size, window, index_format, out, num_threads)


@shares
def max_pool2d_backward(
    grad_output: npt.ArrayLike,
    indices: npt.ArrayLike,
    input_size: Sequence[SupportsIndex],
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    *,
    index_format: str = "plane",
    out: Array | None = None,
    num_threads: int | None = None,
) -> Array:
    """Return the gradient of `max_pool2d` with respect to its input.

    Parameters
    ----------
    grad_output : array_like
        The gradient with respect to the maxima, of their shape, (N, C, H, W) or (C, H, W), and of float16, bfloat16,
        float32 or float64.
    indices : array_like of integers
        The indices that the pooling gave, of the shape of `grad_output`.
    input_size : sequence of int
        The shape of the pooling's input, or its spatial sizes alone.
    {window}
    dilation : int or sequence of int
        Step from one cell of a window to the next.
    {index_format}
    {out}
    {num_threads}

    Returns
    -------
    numpy.ndarray
        Of `input_size`: the sum of what the windows that chose a cell give to it, 0 where none did. Gradients that meet
        are added in raster order, in their own precision.

    Raises
    ------
    IndexError, TypeError, ValueError
        As for `max_unpool2d`. (PyTorch's operator of this kind checks no index.)

    Notes
    -----
    It equals what PyTorch's autograd computes for ``torch.nn.functional.max_pool2d`` [1]_.

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
    window = kernel_size, stride, padding, dilation
    return _max_pool_backward(2, grad_output, indices, input_size, window, index_format, out, num_threads)


@shares
def max_pool3d_backward(
    grad_output: npt.ArrayLike,
    indices: npt.ArrayLike,
    input_size: Sequence[SupportsIndex],
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    *,
    index_format: str = "plane",
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
    window = kernel_size, stride, padding, dilation
    return _max_pool_backward(3, grad_output, indices, input_size, window, index_format, out, num_threads)
