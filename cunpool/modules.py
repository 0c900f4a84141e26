"""Pooling and unpooling as objects that store their arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, SupportsIndex, overload

import numpy.typing as npt

from cunpool import _calls, _channels, _geometry, _padding, adaptive, pooling, unpooling
from cunpool._arrays import Array
from cunpool._background import FillValue
from cunpool._docstrings import complete
from cunpool._geometry import IndexFormat, NanPolicy, OutputSize, Padding, Size
from cunpool._overloads import Element, Indices, MaxPoolResult, Pair
from cunpool._remedies import shown

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


class PoolModule(Generic[Indices]):
    """Base class of the pooling modules."""

    _function: ClassVar[Callable[..., Any]]

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
    ) -> None:
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode
        self.index_format = index_format
        self.index_dtype = index_dtype
        self.nan_policy = nan_policy
        self.channel_axis = _channels.checked(channel_axis)
        _geometry.is_window(index_format)
        _geometry.omits_nan(nan_policy)

    @overload
    def __call__(
        self: PoolModule[Literal[False]],
        input: npt.NDArray[Element],
        *,
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> npt.NDArray[Element]: ...
    @overload
    def __call__(
        self: PoolModule[Literal[False]],
        input: npt.ArrayLike,
        *,
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> Array: ...
    @overload
    def __call__(
        self: PoolModule[Literal[True]],
        input: npt.NDArray[Element],
        *,
        out: Pair | None = None,
        num_threads: int | None = None,
    ) -> MaxPoolResult[Element]: ...
    @overload
    def __call__(
        self: PoolModule[Literal[True]],
        input: npt.ArrayLike,
        *,
        out: Pair | None = None,
        num_threads: int | None = None,
    ) -> MaxPoolResult: ...
    @overload
    def __call__(self, input: npt.ArrayLike, *, out: None = None, num_threads: int | None = None) -> Any: ...
    def __call__(self, input: npt.ArrayLike, *, out: Array | Pair | None = None, num_threads: int | None = None) -> Any:
        """Pool `input` and return an array, or with `return_indices` a pair of arrays."""
        return type(self)._function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
            index_format=self.index_format,
            index_dtype=self.index_dtype,
            nan_policy=self.nan_policy,
            channel_axis=self.channel_axis,
            out=out,
            num_threads=num_threads,
        )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(kernel_size={shown(self.kernel_size)}, stride={shown(self.stride)}, "
            f"padding={shown(self.padding)}, dilation={shown(self.dilation)}, ceil_mode={shown(self.ceil_mode)})"
        )


class _MaxUnpool:
    """Base class of the unpooling modules."""

    _axes: ClassVar[int]
    _function: ClassVar[Callable[..., Array]]

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Padding = 0,
        *,
        dilation: Size = 1,
        index_format: IndexFormat = "plane",
        channel_axis: SupportsIndex | None = None,
    ) -> None:
        n = self._axes
        self.kernel_size = _geometry.per_axis(n, "kernel_size", _geometry.hashable("kernel_size", kernel_size), 1)
        self.stride = (
            self.kernel_size
            if stride is None
            else _geometry.per_axis(n, "stride", _geometry.hashable("stride", stride), 1)
        )
        self.padding = _padding.checked(n, _padding.hashable(padding))
        self.dilation = _geometry.per_axis(n, "dilation", _geometry.hashable("dilation", dilation), 1)
        self.index_format = index_format
        self.channel_axis = _channels.checked(channel_axis)
        _geometry.is_window(index_format)

    @overload
    def __call__(
        self,
        input: npt.NDArray[Element],
        indices: npt.ArrayLike,
        output_size: Sequence[SupportsIndex] | None = None,
        *,
        fill_value: FillValue | None = None,
        onto: npt.ArrayLike | None = None,
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> npt.NDArray[Element]: ...
    @overload
    def __call__(
        self,
        input: npt.ArrayLike,
        indices: npt.ArrayLike,
        output_size: Sequence[SupportsIndex] | None = None,
        *,
        fill_value: FillValue | None = None,
        onto: npt.ArrayLike | None = None,
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> Array: ...
    def __call__(
        self,
        input: npt.ArrayLike,
        indices: npt.ArrayLike,
        output_size: Sequence[SupportsIndex] | None = None,
        *,
        fill_value: FillValue | None = None,
        onto: npt.ArrayLike | None = None,
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> Array:
        """Unpool `input` by `indices`, onto zeros, `fill_value` or the array `onto`."""
        return type(self)._function(
            input,
            indices,
            self.kernel_size,
            self.stride,
            self.padding,
            output_size,
            dilation=self.dilation,
            index_format=self.index_format,
            fill_value=fill_value,
            onto=onto,
            channel_axis=self.channel_axis,
            out=out,
            num_threads=num_threads,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding!r})"


_calls.told_if_missing(_MaxUnpool.__call__)


class _AdaptiveMaxPool(Generic[Indices]):
    """Base class of the modules of adaptive pooling."""

    _function: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        output_size: OutputSize,
        return_indices: bool = False,
        *,
        index_dtype: npt.DTypeLike | None = None,
        channel_axis: SupportsIndex | None = None,
    ) -> None:
        self.output_size = output_size
        self.return_indices = return_indices
        self.index_dtype = index_dtype
        self.channel_axis = _channels.checked(channel_axis)

    @overload
    def __call__(
        self: _AdaptiveMaxPool[Literal[False]],
        input: npt.NDArray[Element],
        *,
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> npt.NDArray[Element]: ...
    @overload
    def __call__(
        self: _AdaptiveMaxPool[Literal[False]],
        input: npt.ArrayLike,
        *,
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> Array: ...
    @overload
    def __call__(
        self: _AdaptiveMaxPool[Literal[True]],
        input: npt.NDArray[Element],
        *,
        out: Pair | None = None,
        num_threads: int | None = None,
    ) -> MaxPoolResult[Element]: ...
    @overload
    def __call__(
        self: _AdaptiveMaxPool[Literal[True]],
        input: npt.ArrayLike,
        *,
        out: Pair | None = None,
        num_threads: int | None = None,
    ) -> MaxPoolResult: ...
    @overload
    def __call__(self, input: npt.ArrayLike, *, out: None = None, num_threads: int | None = None) -> Any: ...
    def __call__(self, input: npt.ArrayLike, *, out: Array | Pair | None = None, num_threads: int | None = None) -> Any:
        """Pool `input` and return an array, or with `return_indices` a pair of arrays."""
        return type(self)._function(
            input,
            self.output_size,
            self.return_indices,
            index_dtype=self.index_dtype,
            channel_axis=self.channel_axis,
            out=out,
            num_threads=num_threads,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(output_size={shown(self.output_size)})"


class _AdaptiveMaxUnpool:
    """Base class of the modules of adaptive unpooling."""

    _function: ClassVar[Callable[..., Array]]

    def __init__(self, *, channel_axis: SupportsIndex | None = None) -> None:
        self.channel_axis = _channels.checked(channel_axis)

    @overload
    def __call__(
        self,
        input: npt.NDArray[Element],
        indices: npt.ArrayLike,
        output_size: Sequence[SupportsIndex] | None = None,
        *,
        fill_value: FillValue | None = None,
        onto: npt.ArrayLike | None = None,
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> npt.NDArray[Element]: ...
    @overload
    def __call__(
        self,
        input: npt.ArrayLike,
        indices: npt.ArrayLike,
        output_size: Sequence[SupportsIndex] | None = None,
        *,
        fill_value: FillValue | None = None,
        onto: npt.ArrayLike | None = None,
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> Array: ...
    def __call__(
        self,
        input: npt.ArrayLike,
        indices: npt.ArrayLike,
        output_size: Sequence[SupportsIndex] | None = None,
        *,
        fill_value: FillValue | None = None,
        onto: npt.ArrayLike | None = None,
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> Array:
        """Unpool `input` by `indices`, onto zeros, `fill_value` or the array `onto`."""
        return type(self)._function(
            input,
            indices,
            output_size,
            fill_value=fill_value,
            onto=onto,
            channel_axis=self.channel_axis,
            out=out,
            num_threads=num_threads,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


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


class MaxUnpool1d(_MaxUnpool):
    """`cunpool.max_unpool1d` with stored arguments, like ``torch.nn.MaxUnpool1d``; see `MaxUnpool2d`.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.MaxUnpool1d(2)(np.array([[3, 4]]), np.array([[0, 2]]))
    array([[3, 0, 4, 0]])
    """

    _axes = 1
    _function = staticmethod(unpooling.max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
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


class MaxUnpool3d(_MaxUnpool):
    """`cunpool.max_unpool3d` with stored arguments, like ``torch.nn.MaxUnpool3d``; see `MaxUnpool2d`.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.MaxUnpool3d(2)(np.array([[[[7]]]]), np.array([[[[7]]]])).ravel()
    array([0, 0, 0, 0, 0, 0, 0, 7])
    """

    _axes = 3
    _function = staticmethod(unpooling.max_unpool3d)


class AdaptiveMaxPool1d(_AdaptiveMaxPool[Indices]):
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


class AdaptiveMaxPool2d(_AdaptiveMaxPool[Indices]):
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


class AdaptiveMaxPool3d(_AdaptiveMaxPool[Indices]):
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


class AdaptiveMaxUnpool1d(_AdaptiveMaxUnpool):
    """`cunpool.adaptive_max_unpool1d` as an object; see `AdaptiveMaxUnpool2d`.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> cu.AdaptiveMaxUnpool1d()(np.array([[4, 5]]), np.array([[2, 4]]), (5,))
    array([[0, 0, 4, 0, 5]])
    """

    _function = staticmethod(adaptive.adaptive_max_unpool1d)


class AdaptiveMaxUnpool2d(_AdaptiveMaxUnpool):
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


class AdaptiveMaxUnpool3d(_AdaptiveMaxUnpool):
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
