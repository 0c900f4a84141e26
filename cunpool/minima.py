"""Min pooling: the smallest element of each window, where it was, and what puts it back.

Unpooling and the gradients depend on indices alone, so minima have the same functions for these as maxima.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, SupportsIndex

import numpy.typing as npt

from cunpool import _channels
from cunpool._arrays import Array
from cunpool._docstrings import complete, shares
from cunpool._geometry import IndexFormat, NanPolicy, Padding, Size
from cunpool._modules import PoolModule
from cunpool._overloads import MaxPoolResult, Pair, typed_pool
from cunpool.modules import MaxUnpool1d as MinUnpool1d
from cunpool.modules import MaxUnpool2d as MinUnpool2d
from cunpool.modules import MaxUnpool3d as MinUnpool3d
from cunpool.pooling import _max_pool
from cunpool.pooling import max_pool1d_backward as min_pool1d_backward
from cunpool.pooling import max_pool2d_backward as min_pool2d_backward
from cunpool.pooling import max_pool3d_backward as min_pool3d_backward
from cunpool.unpooling import max_unpool1d as min_unpool1d
from cunpool.unpooling import max_unpool2d as min_unpool2d
from cunpool.unpooling import max_unpool3d as min_unpool3d

__all__ = [
    "MinPool1d",
    "MinPool2d",
    "MinPool3d",
    "MinUnpool1d",
    "MinUnpool2d",
    "MinUnpool3d",
    "min_pool1d",
    "min_pool1d_backward",
    "min_pool2d",
    "min_pool2d_backward",
    "min_pool3d",
    "min_pool3d_backward",
    "min_unpool1d",
    "min_unpool2d",
    "min_unpool3d",
]


@typed_pool
@shares
def min_pool1d(
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
    """Return the minima of sliding windows along one axis, and their indices.

    See `min_pool2d`. This is the case of one spatial axis: shapes are (N, C, L) or (C, L).

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.min_pool1d(np.array([[[3, 1, 4, 1, 5, 9, 2, 6]]]), 2, return_indices=True)
    MaxPoolResult(values=array([[[1, 1, 5, 2]]]), indices=array([[[1, 3, 4, 6]]]))
    """
    if channel_axis is not None:
        return _channels.call(min_pool1d, 1, locals())
    window = kernel_size, stride, padding, dilation
    return _max_pool(
        1,
        input,
        window,
        ceil_mode,
        return_indices,
        index_format,
        index_dtype,
        out,
        num_threads,
        minimum=True,
        nan_policy=nan_policy,
    )


@typed_pool
@shares
def min_pool2d(
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
    """Return the minima of sliding windows over two axes, and their indices.

    Parameters
    ----------
    input : array_like
        Array of shape (N, C, H, W) or (C, H, W), with any strides. N and C may be 0. The dtype is bool, an integer,
        float16, bfloat16, float32 or float64. The minimum of a window of bools is True if all of them are.
    {pooling}

    Returns
    -------
    values : numpy.ndarray
        The minima, with the dtype and the memory layout of `input`, or the array given in `out`.
    indices : numpy.ndarray of int64, int32, uint8 or uint16
        Only with `return_indices`: the index of each minimum, in the format of `max_pool2d`. Equal minima give the
        first index. NaN is less than every number here, and several NaN give the last index, unless
        `nan_policy` is "omit". The pair is a named tuple with the fields `values` and `indices`.

    Raises
    ------
    OverflowError, TypeError, ValueError
        As for `max_pool2d`.

    Warns
    -----
    LayoutWarning
        As for `max_pool2d`.

    See Also
    --------
    max_unpool2d : Puts the minima back; `min_unpool2d` is another name of it.
    max_pool2d_backward : The gradient; `min_pool2d_backward` is another name of it.

    Notes
    -----
    The result equals ``-max_pool2d(-input)`` for floats [1]_, without the two copies. With dilation, a window may have
    no element of the input. Its value is then the largest of its dtype, and its index lies outside the window.

    References
    ----------
    .. [1] https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool2d.html

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> x = np.array([[[[1, 2, 0, 0], [4, 3, 0, 7]]]], dtype=np.float32)
    >>> values, indices = cu.min_pool2d(x, 2, return_indices=True)
    >>> values
    array([[[[1., 0.]]]], dtype=float32)
    >>> cu.min_unpool2d(values + 9, indices, 2, output_size=x.shape)
    array([[[[10.,  0.,  9.,  0.],
             [ 0.,  0.,  0.,  0.]]]], dtype=float32)
    """
    if channel_axis is not None:
        return _channels.call(min_pool2d, 2, locals())
    window = kernel_size, stride, padding, dilation
    return _max_pool(
        2,
        input,
        window,
        ceil_mode,
        return_indices,
        index_format,
        index_dtype,
        out,
        num_threads,
        minimum=True,
        nan_policy=nan_policy,
    )


@typed_pool
@shares
def min_pool3d(
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
    """Return the minima of sliding windows over three axes, and their indices.

    See `min_pool2d`. This is the case of three spatial axes: shapes are (N, C, D, H, W) or (C, D, H, W).

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.min_pool3d(np.arange(8).reshape(1, 1, 2, 2, 2), 2, return_indices=True).indices
    array([[[[[0]]]]])
    """
    if channel_axis is not None:
        return _channels.call(min_pool3d, 3, locals())
    window = kernel_size, stride, padding, dilation
    return _max_pool(
        3,
        input,
        window,
        ceil_mode,
        return_indices,
        index_format,
        index_dtype,
        out,
        num_threads,
        minimum=True,
        nan_policy=nan_policy,
    )


complete(min_pool1d, min_pool3d, min_pool2d)


if TYPE_CHECKING:  # the results have the types of maxima's
    from cunpool.modules import MaxPool1d as MinPool1d
    from cunpool.modules import MaxPool2d as MinPool2d
    from cunpool.modules import MaxPool3d as MinPool3d

else:

    class MinPool1d(PoolModule[bool]):
        """`cunpool.min_pool1d` with stored arguments; see `MinPool2d`.

        Examples
        --------
        >>> import numpy as np, cunpool as cu
        >>> cu.MinPool1d(2)(np.array([[3, 1, 4, 1]]))
        array([[1, 1]])
        """

        _function = staticmethod(min_pool1d)

    class MinPool2d(PoolModule[bool]):
        """`cunpool.min_pool2d` with stored arguments.

        Parameters
        ----------
        kernel_size, stride, padding, dilation, return_indices, ceil_mode
            As for `min_pool2d`.
        index_format, index_dtype, nan_policy, channel_axis
            As for `min_pool2d`. The default of `stride` is `kernel_size`.

        Examples
        --------
        >>> import numpy as np, cunpool as cu
        >>> pool, unpool = cu.MinPool2d(2, return_indices=True), cu.MinUnpool2d(2)
        >>> unpool(*pool(np.array([[[4, 3], [1, 2]]])))
        array([[[0, 0],
                [1, 0]]])
        """

        _function = staticmethod(min_pool2d)

    class MinPool3d(PoolModule[bool]):
        """`cunpool.min_pool3d` with stored arguments; see `MinPool2d`.

        Examples
        --------
        >>> import numpy as np, cunpool as cu
        >>> cu.MinPool3d(2)(np.arange(8).reshape(1, 2, 2, 2))
        array([[[[0]]]])
        """

        _function = staticmethod(min_pool3d)


complete(MinPool1d, MinPool3d, MinPool2d)
