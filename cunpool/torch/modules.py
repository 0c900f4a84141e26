"""The max pooling and unpooling modules of ``torch.nn``, computed by cunpool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, SupportsIndex, overload

import torch

from cunpool import _calls, _geometry
from cunpool._background import FillValue
from cunpool._geometry import IndexFormat, OutputSize, Size
from cunpool._overloads import Indices
from cunpool.torch import _adaptive, _eager, _forwards, _onto


class _Unscriptable(torch.nn.Module):
    """Base of all modules."""

    def __prepare_scriptable__(self) -> NoReturn:
        """Called by ``torch.jit.script`` before it compiles."""
        _forwards.refuse_to_be_scripted()


class _PoolTypes(_Unscriptable, Generic[Indices]):
    """The types of results, which PyTorch's modules lack."""

    if TYPE_CHECKING:

        @overload
        def __call__(self: _PoolTypes[Literal[False]], input: torch.Tensor) -> torch.Tensor: ...
        @overload
        def __call__(self: _PoolTypes[Literal[True]], input: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]: ...
        @overload
        def __call__(self, input: torch.Tensor) -> Any: ...
        def __call__(self, input: torch.Tensor) -> Any: ...


class _UnpoolTypes(_Unscriptable):
    """The same of unpooling."""

    if TYPE_CHECKING:

        def __call__(
            self,
            input: torch.Tensor,
            indices: torch.Tensor,
            output_size: Sequence[SupportsIndex] | None = None,
            *,
            fill_value: FillValue | None = None,
            onto: torch.Tensor | None = None,
        ) -> torch.Tensor: ...


class _Formatted(_Unscriptable):
    """Base of modules with window codes. Only instances with another format than the default store `index_format`."""

    index_format: IndexFormat = "plane"

    def _set(self, index_format: IndexFormat) -> None:
        if _geometry.is_window(index_format):
            self.index_format = index_format

    def extra_repr(self) -> str:
        text = super().extra_repr()
        return text if self.index_format == "plane" else f"{text}, index_format={self.index_format!r}"


class _Pool(_Formatted, _PoolTypes[Indices]):
    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
        *,
        index_format: IndexFormat = "plane",
    ) -> None:
        super().__init__(kernel_size, stride, padding, dilation, return_indices, ceil_mode)
        self._set(index_format)


class _Unpool(_Formatted, _UnpoolTypes):
    """Base of unpooling. Only instances with another dilation than the default store `dilation`."""

    dilation: Size = 1

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        *,
        dilation: Size = 1,
        index_format: IndexFormat = "plane",
    ) -> None:
        super().__init__(kernel_size, stride, padding)
        dilation = _geometry.hashable("dilation", dilation)
        if dilation != 1:
            self.dilation = dilation
        self._set(index_format)

    def extra_repr(self) -> str:
        text = super().extra_repr()
        return text if self.dilation == 1 else f"{text}, dilation={self.dilation}"


def _pooling(n: int) -> Callable[..., Any]:
    def forward(self: Any, input: torch.Tensor) -> Any:
        window = self.kernel_size, self.stride, self.padding, self.dilation
        if self.return_indices:
            return _eager.max_pool(n, input, window, self.ceil_mode, True, self.index_format)
        return _eager.max_pool(n, input, window, self.ceil_mode, False)

    return forward


def _unpooling(n: int) -> Callable[..., torch.Tensor]:
    def forward(
        self: Any,
        input: torch.Tensor,
        indices: torch.Tensor,
        output_size: Sequence[SupportsIndex] | None = None,
        *,
        fill_value: FillValue | None = None,
        onto: torch.Tensor | None = None,
    ) -> torch.Tensor:
        window = self.kernel_size, self.stride, self.padding, self.dilation
        return _onto.max_unpool(n, input, indices, window, output_size, self.index_format, fill_value, onto)

    _calls.told_if_missing(forward)
    return forward


def _adaptive_pooling(n: int) -> Callable[..., Any]:
    def forward(self: Any, input: torch.Tensor) -> Any:
        return _adaptive.adaptive_max_pool(n, input, self.output_size, self.return_indices)

    return forward


def _adaptive_unpooling(n: int) -> Callable[..., torch.Tensor]:
    def forward(
        self: Any,
        input: torch.Tensor,
        indices: torch.Tensor,
        output_size: Sequence[SupportsIndex] | None = None,
        *,
        fill_value: FillValue | None = None,
        onto: torch.Tensor | None = None,
    ) -> torch.Tensor:
        return _onto.adaptive_max_unpool(n, input, indices, output_size, fill_value, onto)

    return forward


class MaxPool1d(_Pool[Indices], torch.nn.MaxPool1d):
    """``torch.nn.MaxPool1d``, by cunpool; see `MaxPool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.MaxPool1d(2)(torch.tensor([[3, 1, 4, 1]]))
    tensor([[3, 4]])
    """

    forward = _pooling(1)

    if TYPE_CHECKING:  # in each class, because subclasses do not inherit the type of `self`

        @overload
        def __init__(
            self: MaxPool1d[Literal[True]],
            kernel_size: Size,
            stride: Size | None = None,
            padding: Size = 0,
            dilation: Size = 1,
            *,
            return_indices: Literal[True],
            ceil_mode: bool = False,
            index_format: IndexFormat = "plane",
        ) -> None: ...
        @overload
        def __init__(
            self: MaxPool1d[Literal[False]],
            kernel_size: Size,
            stride: Size | None = None,
            padding: Size = 0,
            dilation: Size = 1,
            return_indices: Literal[False] = False,
            ceil_mode: bool = False,
            *,
            index_format: IndexFormat = "plane",
        ) -> None: ...
        @overload
        def __init__(
            self,
            kernel_size: Size,
            stride: Size | None = None,
            padding: Size = 0,
            dilation: Size = 1,
            return_indices: bool = False,
            ceil_mode: bool = False,
            *,
            index_format: IndexFormat = "plane",
        ) -> None: ...
        def __init__(self, *arguments: Any, **keywords: Any) -> None: ...


class MaxPool2d(_Pool[Indices], torch.nn.MaxPool2d):
    """``torch.nn.MaxPool2d``, computed by cunpool, with `index_format`; see `max_pool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> pool = cunpool.torch.MaxPool2d(2, return_indices=True)
    >>> pool
    MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
    >>> pool(torch.tensor([[[1, 2], [4, 3]]]))
    (tensor([[[4]]]), tensor([[[2]]]))
    """

    forward = _pooling(2)

    if TYPE_CHECKING:  # in each class, because subclasses do not inherit the type of `self`

        @overload
        def __init__(
            self: MaxPool2d[Literal[True]],
            kernel_size: Size,
            stride: Size | None = None,
            padding: Size = 0,
            dilation: Size = 1,
            *,
            return_indices: Literal[True],
            ceil_mode: bool = False,
            index_format: IndexFormat = "plane",
        ) -> None: ...
        @overload
        def __init__(
            self: MaxPool2d[Literal[False]],
            kernel_size: Size,
            stride: Size | None = None,
            padding: Size = 0,
            dilation: Size = 1,
            return_indices: Literal[False] = False,
            ceil_mode: bool = False,
            *,
            index_format: IndexFormat = "plane",
        ) -> None: ...
        @overload
        def __init__(
            self,
            kernel_size: Size,
            stride: Size | None = None,
            padding: Size = 0,
            dilation: Size = 1,
            return_indices: bool = False,
            ceil_mode: bool = False,
            *,
            index_format: IndexFormat = "plane",
        ) -> None: ...
        def __init__(self, *arguments: Any, **keywords: Any) -> None: ...


class MaxPool3d(_Pool[Indices], torch.nn.MaxPool3d):
    """``torch.nn.MaxPool3d``, by cunpool; see `MaxPool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.MaxPool3d(2)(torch.arange(8).reshape(1, 2, 2, 2))
    tensor([[[[7]]]])
    """

    forward = _pooling(3)

    if TYPE_CHECKING:  # in each class, because subclasses do not inherit the type of `self`

        @overload
        def __init__(
            self: MaxPool3d[Literal[True]],
            kernel_size: Size,
            stride: Size | None = None,
            padding: Size = 0,
            dilation: Size = 1,
            *,
            return_indices: Literal[True],
            ceil_mode: bool = False,
            index_format: IndexFormat = "plane",
        ) -> None: ...
        @overload
        def __init__(
            self: MaxPool3d[Literal[False]],
            kernel_size: Size,
            stride: Size | None = None,
            padding: Size = 0,
            dilation: Size = 1,
            return_indices: Literal[False] = False,
            ceil_mode: bool = False,
            *,
            index_format: IndexFormat = "plane",
        ) -> None: ...
        @overload
        def __init__(
            self,
            kernel_size: Size,
            stride: Size | None = None,
            padding: Size = 0,
            dilation: Size = 1,
            return_indices: bool = False,
            ceil_mode: bool = False,
            *,
            index_format: IndexFormat = "plane",
        ) -> None: ...
        def __init__(self, *arguments: Any, **keywords: Any) -> None: ...


class MaxUnpool1d(_Unpool, torch.nn.MaxUnpool1d):
    """``torch.nn.MaxUnpool1d``, by cunpool; see `MaxUnpool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.MaxUnpool1d(2)(torch.tensor([[3, 4]]), torch.tensor([[0, 2]]))
    tensor([[3, 0, 4, 0]])
    """

    forward = _unpooling(1)


class MaxUnpool2d(_Unpool, torch.nn.MaxUnpool2d):
    """``torch.nn.MaxUnpool2d``, computed by cunpool, with `index_format`; see `max_unpool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> unpool = cunpool.torch.MaxUnpool2d(2, stride=2)
    >>> unpool
    MaxUnpool2d(kernel_size=(2, 2), stride=(2, 2), padding=(0, 0))
    >>> unpool(torch.tensor([[[4]]]), torch.tensor([[[2]]]))
    tensor([[[0, 0],
             [4, 0]]])
    """

    forward = _unpooling(2)


class MaxUnpool3d(_Unpool, torch.nn.MaxUnpool3d):
    """``torch.nn.MaxUnpool3d``, by cunpool; see `MaxUnpool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.MaxUnpool3d(2)(torch.tensor([[[[7]]]]), torch.tensor([[[[7]]]])).flatten()
    tensor([0, 0, 0, 0, 0, 0, 0, 7])
    """

    forward = _unpooling(3)


class AdaptiveMaxPool1d(_PoolTypes[Indices], torch.nn.AdaptiveMaxPool1d):
    """``torch.nn.AdaptiveMaxPool1d``, by cunpool; see `AdaptiveMaxPool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.AdaptiveMaxPool1d(2)(torch.tensor([[3, 1, 4, 1, 5]]))
    tensor([[4, 5]])
    """

    forward = _adaptive_pooling(1)

    if TYPE_CHECKING:  # in each class, because subclasses do not inherit the type of `self`

        @overload
        def __init__(
            self: AdaptiveMaxPool1d[Literal[True]], output_size: OutputSize, return_indices: Literal[True]
        ) -> None: ...
        @overload
        def __init__(
            self: AdaptiveMaxPool1d[Literal[False]], output_size: OutputSize, return_indices: Literal[False] = False
        ) -> None: ...
        @overload
        def __init__(self, output_size: OutputSize, return_indices: bool = False) -> None: ...
        def __init__(self, *arguments: Any, **keywords: Any) -> None: ...


class AdaptiveMaxPool2d(_PoolTypes[Indices], torch.nn.AdaptiveMaxPool2d):
    """``torch.nn.AdaptiveMaxPool2d``, by cunpool; see `adaptive_max_pool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.AdaptiveMaxPool2d((1, 2))(torch.tensor([[[1, 2, 0, 5, 0]]]))
    tensor([[[2, 5]]])
    """

    forward = _adaptive_pooling(2)

    if TYPE_CHECKING:  # in each class, because subclasses do not inherit the type of `self`

        @overload
        def __init__(
            self: AdaptiveMaxPool2d[Literal[True]], output_size: OutputSize, return_indices: Literal[True]
        ) -> None: ...
        @overload
        def __init__(
            self: AdaptiveMaxPool2d[Literal[False]], output_size: OutputSize, return_indices: Literal[False] = False
        ) -> None: ...
        @overload
        def __init__(self, output_size: OutputSize, return_indices: bool = False) -> None: ...
        def __init__(self, *arguments: Any, **keywords: Any) -> None: ...


class AdaptiveMaxPool3d(_PoolTypes[Indices], torch.nn.AdaptiveMaxPool3d):
    """``torch.nn.AdaptiveMaxPool3d``, by cunpool; see `AdaptiveMaxPool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.AdaptiveMaxPool3d((1, 1, 2))(torch.arange(27).reshape(1, 3, 3, 3))
    tensor([[[[25, 26]]]])
    """

    forward = _adaptive_pooling(3)

    if TYPE_CHECKING:  # in each class, because subclasses do not inherit the type of `self`

        @overload
        def __init__(
            self: AdaptiveMaxPool3d[Literal[True]], output_size: OutputSize, return_indices: Literal[True]
        ) -> None: ...
        @overload
        def __init__(
            self: AdaptiveMaxPool3d[Literal[False]], output_size: OutputSize, return_indices: Literal[False] = False
        ) -> None: ...
        @overload
        def __init__(self, output_size: OutputSize, return_indices: bool = False) -> None: ...
        def __init__(self, *arguments: Any, **keywords: Any) -> None: ...


class AdaptiveMaxUnpool1d(_UnpoolTypes):
    """`adaptive_max_unpool1d` as a module; see `AdaptiveMaxUnpool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.AdaptiveMaxUnpool1d()(torch.tensor([[4, 5]]), torch.tensor([[2, 4]]), (5,))
    tensor([[0, 0, 4, 0, 5]])
    """

    forward = _adaptive_unpooling(1)


class AdaptiveMaxUnpool2d(_UnpoolTypes):
    """`adaptive_max_unpool2d` as a module, which stores no arguments. PyTorch has no such module.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.AdaptiveMaxUnpool2d()(torch.tensor([[[4, 5]]]), torch.tensor([[[2, 4]]]), (1, 5))
    tensor([[[0, 0, 4, 0, 5]]])
    """

    forward = _adaptive_unpooling(2)


class AdaptiveMaxUnpool3d(_UnpoolTypes):
    """`adaptive_max_unpool3d` as a module; see `AdaptiveMaxUnpool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.AdaptiveMaxUnpool3d()(torch.tensor([[[[4, 5]]]]), torch.tensor([[[[2, 4]]]]), (1, 1, 5))
    tensor([[[[0, 0, 4, 0, 5]]]])
    """

    forward = _adaptive_unpooling(3)
