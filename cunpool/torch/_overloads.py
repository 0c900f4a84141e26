"""Types for type checkers: pooling of tensors returns one tensor or two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, cast, overload

import torch

from cunpool._geometry import IndexFormat, OutputSize, Size


class MaxPool(Protocol):
    """The signature of pooling: `return_indices` is omitted or False, True by name, True by position, or unknown."""

    @overload
    def __call__(
        self,
        input: torch.Tensor,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        return_indices: Literal[False] = False,
        *,
        index_format: IndexFormat = "plane",
    ) -> torch.Tensor: ...
    @overload
    def __call__(
        self,
        input: torch.Tensor,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        *,
        return_indices: Literal[True],
        index_format: IndexFormat = "plane",
    ) -> tuple[torch.Tensor, torch.Tensor]: ...
    @overload
    def __call__(
        self,
        input: torch.Tensor,
        kernel_size: Size,
        stride: Size | None,
        padding: Size,
        dilation: Size,
        ceil_mode: bool,
        return_indices: Literal[True],
        *,
        index_format: IndexFormat = "plane",
    ) -> tuple[torch.Tensor, torch.Tensor]: ...
    @overload
    def __call__(
        self,
        input: torch.Tensor,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
        *,
        index_format: IndexFormat = "plane",
    ) -> Any: ...


class AdaptiveMaxPool(Protocol):
    """The signature of adaptive pooling; see `MaxPool`."""

    @overload
    def __call__(
        self, input: torch.Tensor, output_size: OutputSize, return_indices: Literal[False] = False
    ) -> torch.Tensor: ...
    @overload
    def __call__(
        self, input: torch.Tensor, output_size: OutputSize, return_indices: Literal[True]
    ) -> tuple[torch.Tensor, torch.Tensor]: ...
    @overload
    def __call__(self, input: torch.Tensor, output_size: OutputSize, return_indices: bool = False) -> Any: ...


def typed_pool(function: Callable[..., Any]) -> MaxPool:
    """`function` itself, to which type checkers give that signature."""
    return cast(MaxPool, function)


def typed_adaptive_pool(function: Callable[..., Any]) -> AdaptiveMaxPool:
    """`function` itself, to which type checkers give that signature."""
    return cast(AdaptiveMaxPool, function)
