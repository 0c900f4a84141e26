"""Types for type checkers: pooling of Dask arrays returns one array or two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, SupportsIndex, cast, overload

import numpy.typing as npt

from cunpool._dask._graphs import Array, Lazy
from cunpool._geometry import IndexFormat, NanPolicy, Padding, Size


class MaxPool(Protocol):
    """The signature of pooling: `return_indices` omitted or False, True by name, True by position, or unknown."""

    @overload
    def __call__(
        self,
        input: Lazy,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Padding = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        return_indices: Literal[False] = False,
        *,
        index_format: IndexFormat = "plane",
        index_dtype: npt.DTypeLike | None = None,
        nan_policy: NanPolicy = "propagate",
        channel_axis: SupportsIndex | None = None,
        num_threads: int | None = 1,
    ) -> Array: ...
    @overload
    def __call__(
        self,
        input: Lazy,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Padding = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        *,
        return_indices: Literal[True],
        index_format: IndexFormat = "plane",
        index_dtype: npt.DTypeLike | None = None,
        nan_policy: NanPolicy = "propagate",
        channel_axis: SupportsIndex | None = None,
        num_threads: int | None = 1,
    ) -> tuple[Array, Array]: ...
    @overload
    def __call__(
        self,
        input: Lazy,
        kernel_size: Size,
        stride: Size | None,
        padding: Padding,
        dilation: Size,
        ceil_mode: bool,
        return_indices: Literal[True],
        *,
        index_format: IndexFormat = "plane",
        index_dtype: npt.DTypeLike | None = None,
        nan_policy: NanPolicy = "propagate",
        channel_axis: SupportsIndex | None = None,
        num_threads: int | None = 1,
    ) -> tuple[Array, Array]: ...
    @overload
    def __call__(
        self,
        input: Lazy,
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
        num_threads: int | None = 1,
    ) -> Any: ...


def typed_pool(function: Callable[..., Any]) -> MaxPool:
    """Return `function` itself, with that signature for type checkers."""
    return cast(MaxPool, function)
