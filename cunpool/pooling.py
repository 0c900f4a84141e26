"""Max pooling with indices: the front end."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cunpool import _arrays, _geometry, _pool, _threads
from cunpool._arrays import Array
from cunpool._docs import shares
from cunpool._geometry import Size

_KINDS = {name: number for number, name in enumerate(_pool.KINDS)}


def _max_pool(
    n: int,
    input: npt.ArrayLike,
    kernel_size: Size,
    stride: Size | None,
    padding: Size,
    dilation: Size,
    ceil_mode: bool,
    return_indices: bool,
    num_threads: int | None,
) -> Array | tuple[Array, Array]:
    """Pooling over `n` spatial axes."""
    given = np.asarray(input)
    cells, kind = _arrays.numbers(given)
    shape, count, sizes = _geometry.pooling(
        n,
        cells.shape,
        _geometry.hashable("kernel_size", kernel_size),
        stride if stride is None else _geometry.hashable("stride", stride),
        _geometry.hashable("padding", padding),
        _geometry.hashable("dilation", dilation),
        bool(ceil_mode),
    )
    values = _arrays.empty(cells, shape, cells.dtype, count)
    indices = _arrays.empty(cells, shape, _arrays.INT64, count) if return_indices else None
    if count:
        threads = _threads.threads_for(cells.nbytes, num_threads)
        _pool.pool(cells, values, indices, sizes, n, _KINDS[kind], threads)
    if given is not cells:
        values = values.astype(given.dtype)
    return values if indices is None else (values, indices)


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
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, num_threads)


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
    {num_threads}

    Returns
    -------
    values : numpy.ndarray
        The maxima, of the dtype of `input`, laid out in memory as `input` is.
    indices : numpy.ndarray of int64
        Only with `return_indices`: the place of each maximum in its plane of `input`, counted in raster order. Of equal
        maxima it is the first. A NaN beats every number, and of several the last one is named.

    Raises
    ------
    TypeError
        If `input` has another dtype.
    ValueError
        If shapes or sizes do not fit.
    OverflowError
        If a window spans 2**31 cells of its plane or more.

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
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, num_threads)


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
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, num_threads)
