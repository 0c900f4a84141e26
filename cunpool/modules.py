"""Pooling and unpooling as objects that store their arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, overload

import numpy.typing as npt

from cunpool import adaptive, pooling, unpooling
from cunpool._docstrings import complete
from cunpool._geometry import IndexFormat, NanPolicy, OutputSize, Padding, Size
from cunpool._modules import AdaptivePoolModule, AdaptiveUnpoolModule, PoolModule, UnpoolModule
from cunpool._overloads import Indices

__all__ = [
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AdaptiveMaxUnpool1d",
    "AdaptiveMaxUnpool2d",
    "AdaptiveMaxUnpool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]


class MaxPool1d(PoolModule[Indices]):
    """`cunpool.max_pool1d` with stored arguments, like ``torch.nn.MaxPool1d``; see `MaxPool2d`.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.MaxPool1d(2)(np.array([[3, 1, 4, 1]]))
    array([[3, 4]])
    """

    _function = staticmethod(pooling.max_pool1d)

    if TYPE_CHECKING:  # in each class, because subclasses do not inherit the type of `self`

        @overload
        def __init__(
            self: MaxPool1d[Literal[True]],
            kernel_size: Size,
            stride: Size | None = None,
            padding: Padding = 0,
            dilation: Size = 1,
            *,
            return_indices: Literal[True],
            ceil_mode: bool = False,
            index_format: IndexFormat = "plane",
            index_dtype: npt.DTypeLike | None = None,
            nan_policy: NanPolicy = "propagate",
            channel_axis: SupportsIndex | None = None,
        ) -> None: ...
        @overload
        def __init__(
            self: MaxPool1d[Literal[False]],
            kernel_size: Size,
            stride: Size | None = None,
            padding: Padding = 0,
            dilation: Size = 1,
            return_indices: Literal[False] = False,
            ceil_mode: bool = False,
            *,
            index_format: IndexFormat = "plane",
            index_dtype: npt.DTypeLike | None = None,
            nan_policy: NanPolicy = "propagate",
            channel_axis: SupportsIndex | None = None,
        ) -> None: ...
        @overload
        def __init__(
            self,
            kernel_size: Size,
            stride: Size | None = None,
            padding: Padding = 0,
            dilation: Size = 1,
            return_indices: bool = False,
            ceil_mode: bool = False,
            *,
            index_format: IndexFormat = "plane",
            index_dtype: npt.DTypeLike | None = None,
            nan_policy: NanPolicy = "propagate",
            channel_axis: SupportsIndex | None = None,
        ) -> None: ...
        def __init__(self, *arguments: Any, **keywords: Any) -> None: ...


class MaxPool2d(PoolModule[Indices]):
    """`cunpool.max_pool2d` with stored arguments, like ``torch.nn.MaxPool2d`` [1]_.

    Parameters
    ----------
    kernel_size, stride, padding, dilation, return_indices, ceil_mode, index_format, index_dtype, channel_axis
        As for `cunpool.max_pool2d`, and stored as attributes of the same names. The constructor does not check them;
        errors are raised by the call, ``(input, *, out=None, num_threads=None)``.

    Notes
    -----
    Type checkers infer the type of the result from the constructor. In an annotation, ``MaxPool2d[Literal[False]]``
    returns an array, and ``MaxPool2d[Literal[True]]`` a pair. ``MaxPool2d`` alone may return either, so its result is
    ``Any``.

    References
    ----------
    .. [1] https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool2d.html

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> pool = cu.MaxPool2d(2, return_indices=True)
    >>> pool
    MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
    >>> pool(np.array([[[1, 2], [4, 3]]]))
    MaxPoolResult(values=array([[[4]]]), indices=array([[[2]]]))
    """

    _function = staticmethod(pooling.max_pool2d)

    if TYPE_CHECKING:  # in each class, because subclasses do not inherit the type of `self`

        @overload
        def __init__(
            self: MaxPool2d[Literal[True]],
            kernel_size: Size,
            stride: Size | None = None,
            padding: Padding = 0,
            dilation: Size = 1,
            *,
            return_indices: Literal[True],
            ceil_mode: bool = False,
            index_format: IndexFormat = "plane",
            index_dtype: npt.DTypeLike | None = None,
            nan_policy: NanPolicy = "propagate",
            channel_axis: SupportsIndex | None = None,
        ) -> None: ...
        @overload
        def __init__(
            self: MaxPool2d[Literal[False]],
            kernel_size: Size,
            stride: Size | None = None,
            padding: Padding = 0,
            dilation: Size = 1,
            return_indices: Literal[False] = False,
            ceil_mode: bool = False,
            *,
            index_format: IndexFormat = "plane",
            index_dtype: npt.DTypeLike | None = None,
            nan_policy: NanPolicy = "propagate",
            channel_axis: SupportsIndex | None = None,
        ) -> None: ...
        @overload
        def __init__(
            self,
            kernel_size: Size,
            stride: Size | None = None,
            padding: Padding = 0,
            dilation: Size = 1,
            return_indices: bool = False,
            ceil_mode: bool = False,
            *,
            index_format: IndexFormat = "plane",
            index_dtype: npt.DTypeLike | None = None,
            nan_policy: NanPolicy = "propagate",
            channel_axis: SupportsIndex | None = None,
        ) -> None: ...
        def __init__(self, *arguments: Any, **keywords: Any) -> None: ...


class MaxPool3d(PoolModule[Indices]):
    """`cunpool.max_pool3d` with stored arguments, like ``torch.nn.MaxPool3d``; see `MaxPool2d`.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.MaxPool3d(2)(np.arange(8).reshape(1, 2, 2, 2))
    array([[[[7]]]])
    """

    _function = staticmethod(pooling.max_pool3d)

    if TYPE_CHECKING:  # in each class, because subclasses do not inherit the type of `self`

        @overload
        def __init__(
            self: MaxPool3d[Literal[True]],
            kernel_size: Size,
            stride: Size | None = None,
            padding: Padding = 0,
            dilation: Size = 1,
            *,
            return_indices: Literal[True],
            ceil_mode: bool = False,
            index_format: IndexFormat = "plane",
            index_dtype: npt.DTypeLike | None = None,
            nan_policy: NanPolicy = "propagate",
            channel_axis: SupportsIndex | None = None,
        ) -> None: ...
        @overload
        def __init__(
            self: MaxPool3d[Literal[False]],
            kernel_size: Size,
            stride: Size | None = None,
            padding: Padding = 0,
            dilation: Size = 1,
            return_indices: Literal[False] = False,
            ceil_mode: bool = False,
            *,
            index_format: IndexFormat = "plane",
            index_dtype: npt.DTypeLike | None = None,
            nan_policy: NanPolicy = "propagate",
            channel_axis: SupportsIndex | None = None,
        ) -> None: ...
        @overload
        def __init__(
            self,
            kernel_size: Size,
            stride: Size | None = None,
            padding: Padding = 0,
            dilation: Size = 1,
            return_indices: bool = False,
            ceil_mode: bool = False,
            *,
            index_format: IndexFormat = "plane",
            index_dtype: npt.DTypeLike | None = None,
            nan_policy: NanPolicy = "propagate",
            channel_axis: SupportsIndex | None = None,
        ) -> None: ...
        def __init__(self, *arguments: Any, **keywords: Any) -> None: ...


class MaxUnpool1d(UnpoolModule):
    """`cunpool.max_unpool1d` with stored arguments, like ``torch.nn.MaxUnpool1d``; see `MaxUnpool2d`.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.MaxUnpool1d(2)(np.array([[3, 4]]), np.array([[0, 2]]))
    array([[3, 0, 4, 0]])
    """

    _axes = 1
    _function = staticmethod(unpooling.max_unpool1d)


class MaxUnpool2d(UnpoolModule):
    """`cunpool.max_unpool2d` with stored arguments, like ``torch.nn.MaxUnpool2d`` [1]_.

    Parameters
    ----------
    kernel_size, stride, padding, dilation, index_format, channel_axis
        As for `cunpool.max_unpool2d`, and stored as attributes of the same names, one integer per axis. The other
        arguments belong to the call, ``(input, indices, output_size=None, *, out=None, num_threads=None)``.

    Raises
    ------
    TypeError, ValueError, OverflowError
        If a size is neither an integer nor a sequence of one integer per axis, or is out of range.

    References
    ----------
    .. [1] https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxUnpool2d.html

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> unpool = cu.MaxUnpool2d(2, stride=2)
    >>> unpool
    MaxUnpool2d(kernel_size=(2, 2), stride=(2, 2), padding=(0, 0))
    >>> unpool(np.array([[[4]]]), np.array([[[2]]]))
    array([[[0, 0],
            [4, 0]]])
    """

    _axes = 2
    _function = staticmethod(unpooling.max_unpool2d)


class MaxUnpool3d(UnpoolModule):
    """`cunpool.max_unpool3d` with stored arguments, like ``torch.nn.MaxUnpool3d``; see `MaxUnpool2d`.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.MaxUnpool3d(2)(np.array([[[[7]]]]), np.array([[[[7]]]])).ravel()
    array([0, 0, 0, 0, 0, 0, 0, 7])
    """

    _axes = 3
    _function = staticmethod(unpooling.max_unpool3d)


class AdaptiveMaxPool1d(AdaptivePoolModule[Indices]):
    """`cunpool.adaptive_max_pool1d` with stored arguments; see `AdaptiveMaxPool2d`.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.AdaptiveMaxPool1d(2)(np.array([[3, 1, 4, 1, 5]]))
    array([[4, 5]])
    """

    _function = staticmethod(adaptive.adaptive_max_pool1d)

    if TYPE_CHECKING:  # in each class, because subclasses do not inherit the type of `self`

        @overload
        def __init__(
            self: AdaptiveMaxPool1d[Literal[True]],
            output_size: OutputSize,
            return_indices: Literal[True],
            *,
            index_dtype: npt.DTypeLike | None = None,
            channel_axis: SupportsIndex | None = None,
        ) -> None: ...
        @overload
        def __init__(
            self: AdaptiveMaxPool1d[Literal[False]],
            output_size: OutputSize,
            return_indices: Literal[False] = False,
            *,
            index_dtype: npt.DTypeLike | None = None,
            channel_axis: SupportsIndex | None = None,
        ) -> None: ...
        @overload
        def __init__(
            self,
            output_size: OutputSize,
            return_indices: bool = False,
            *,
            index_dtype: npt.DTypeLike | None = None,
            channel_axis: SupportsIndex | None = None,
        ) -> None: ...
        def __init__(self, *arguments: Any, **keywords: Any) -> None: ...


class AdaptiveMaxPool2d(AdaptivePoolModule[Indices]):
    """`cunpool.adaptive_max_pool2d` with stored arguments, like ``torch.nn.AdaptiveMaxPool2d`` [1]_.

    Parameters
    ----------
    output_size, return_indices, index_dtype, channel_axis
        As for `cunpool.adaptive_max_pool2d`, and stored as attributes of the same names. The constructor does not check
        them; errors are raised by the call, ``(input, *, out=None, num_threads=None)``.

    References
    ----------
    .. [1] https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveMaxPool2d.html

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> pool = cu.AdaptiveMaxPool2d((1, 2), return_indices=True)
    >>> pool
    AdaptiveMaxPool2d(output_size=(1, 2))
    >>> pool(np.array([[[1, 2, 0, 5, 0]]]))
    MaxPoolResult(values=array([[[2, 5]]]), indices=array([[[1, 3]]]))
    """

    _function = staticmethod(adaptive.adaptive_max_pool2d)

    if TYPE_CHECKING:  # in each class, because subclasses do not inherit the type of `self`

        @overload
        def __init__(
            self: AdaptiveMaxPool2d[Literal[True]],
            output_size: OutputSize,
            return_indices: Literal[True],
            *,
            index_dtype: npt.DTypeLike | None = None,
            channel_axis: SupportsIndex | None = None,
        ) -> None: ...
        @overload
        def __init__(
            self: AdaptiveMaxPool2d[Literal[False]],
            output_size: OutputSize,
            return_indices: Literal[False] = False,
            *,
            index_dtype: npt.DTypeLike | None = None,
            channel_axis: SupportsIndex | None = None,
        ) -> None: ...
        @overload
        def __init__(
            self,
            output_size: OutputSize,
            return_indices: bool = False,
            *,
            index_dtype: npt.DTypeLike | None = None,
            channel_axis: SupportsIndex | None = None,
        ) -> None: ...
        def __init__(self, *arguments: Any, **keywords: Any) -> None: ...


class AdaptiveMaxPool3d(AdaptivePoolModule[Indices]):
    """`cunpool.adaptive_max_pool3d` with stored arguments; see `AdaptiveMaxPool2d`.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.AdaptiveMaxPool3d((1, 1, 2))(np.arange(27).reshape(1, 3, 3, 3))
    array([[[[25, 26]]]])
    """

    _function = staticmethod(adaptive.adaptive_max_pool3d)

    if TYPE_CHECKING:  # in each class, because subclasses do not inherit the type of `self`

        @overload
        def __init__(
            self: AdaptiveMaxPool3d[Literal[True]],
            output_size: OutputSize,
            return_indices: Literal[True],
            *,
            index_dtype: npt.DTypeLike | None = None,
            channel_axis: SupportsIndex | None = None,
        ) -> None: ...
        @overload
        def __init__(
            self: AdaptiveMaxPool3d[Literal[False]],
            output_size: OutputSize,
            return_indices: Literal[False] = False,
            *,
            index_dtype: npt.DTypeLike | None = None,
            channel_axis: SupportsIndex | None = None,
        ) -> None: ...
        @overload
        def __init__(
            self,
            output_size: OutputSize,
            return_indices: bool = False,
            *,
            index_dtype: npt.DTypeLike | None = None,
            channel_axis: SupportsIndex | None = None,
        ) -> None: ...
        def __init__(self, *arguments: Any, **keywords: Any) -> None: ...


class AdaptiveMaxUnpool1d(AdaptiveUnpoolModule):
    """`cunpool.adaptive_max_unpool1d` as an object; see `AdaptiveMaxUnpool2d`.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.AdaptiveMaxUnpool1d()(np.array([[4, 5]]), np.array([[2, 4]]), (5,))
    array([[0, 0, 4, 0, 5]])
    """

    _function = staticmethod(adaptive.adaptive_max_unpool1d)


class AdaptiveMaxUnpool2d(AdaptiveUnpoolModule):
    """`cunpool.adaptive_max_unpool2d` as an object. PyTorch has no such module.

    It stores no arguments: the call takes all, ``(input, indices, output_size, *, out=None, num_threads=None)``.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.AdaptiveMaxUnpool2d()(np.array([[[4, 7]]]), np.array([[[5, 8]]]), (2, 5))
    array([[[0, 0, 0, 0, 0],
            [4, 0, 0, 7, 0]]])
    """

    _function = staticmethod(adaptive.adaptive_max_unpool2d)


class AdaptiveMaxUnpool3d(AdaptiveUnpoolModule):
    """`cunpool.adaptive_max_unpool3d` as an object; see `AdaptiveMaxUnpool2d`.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.AdaptiveMaxUnpool3d()(np.array([[[[4, 5]]]]), np.array([[[[2, 4]]]]), (1, 1, 5))
    array([[[[0, 0, 4, 0, 5]]]])
    """

    _function = staticmethod(adaptive.adaptive_max_unpool3d)


complete(MaxPool1d, MaxPool3d, MaxPool2d)
complete(MaxUnpool1d, MaxUnpool3d, MaxUnpool2d)
complete(AdaptiveMaxPool1d, AdaptiveMaxPool3d, AdaptiveMaxPool2d)
