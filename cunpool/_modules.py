"""Base classes of the modules: stored arguments, and calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, SupportsIndex, overload

import numpy.typing as npt

from cunpool import _calls, _channels, _geometry, _padding
from cunpool._arrays import Array
from cunpool._background import FillValue
from cunpool._geometry import IndexFormat, NanPolicy, OutputSize, Padding, Size
from cunpool._overloads import Element, Indices, MaxPoolResult, Pair
from cunpool._remedies import shown


class Pool(Generic[Indices]):
    """Call a pooling: with `return_indices` it returns a pair of arrays, else one."""

    _function: ClassVar[Callable[..., Any]]

    if TYPE_CHECKING:

        def _call(self, input: npt.ArrayLike, out: Array | Pair | None, num_threads: int | None) -> Any: ...

    @overload
    def __call__(
        self: Pool[Literal[False]],
        input: npt.NDArray[Element],
        *,
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> npt.NDArray[Element]: ...
    @overload
    def __call__(
        self: Pool[Literal[False]],
        input: npt.ArrayLike,
        *,
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> Array: ...
    @overload
    def __call__(
        self: Pool[Literal[True]],
        input: npt.NDArray[Element],
        *,
        out: Pair | None = None,
        num_threads: int | None = None,
    ) -> MaxPoolResult[Element]: ...
    @overload
    def __call__(
        self: Pool[Literal[True]],
        input: npt.ArrayLike,
        *,
        out: Pair | None = None,
        num_threads: int | None = None,
    ) -> MaxPoolResult: ...
    @overload
    def __call__(self, input: npt.ArrayLike, *, out: None = None, num_threads: int | None = None) -> Any: ...
    def __call__(self, input: npt.ArrayLike, *, out: Array | Pair | None = None, num_threads: int | None = None) -> Any:
        """Pool `input` and return an array, or with `return_indices` a pair of arrays."""
        return self._call(input, out, num_threads)


class PoolModule(Pool[Indices]):
    """Store the windows of a pooling."""

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

    def _call(self, input: npt.ArrayLike, out: Array | Pair | None, num_threads: int | None) -> Any:
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


class AdaptivePoolModule(Pool[Indices]):
    """Store the number of windows of an adaptive pooling."""

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

    def _call(self, input: npt.ArrayLike, out: Array | Pair | None, num_threads: int | None) -> Any:
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


class UnpoolModule:
    """Store the windows of an unpooling."""

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


_calls.told_if_missing(UnpoolModule.__call__)


class AdaptiveUnpoolModule:
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
