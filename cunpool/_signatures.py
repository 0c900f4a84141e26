"""What type checkers are told of pooling: whether one array comes back, or two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, cast, overload

import numpy.typing as npt

from cunpool._arrays import Array
from cunpool._geometry import Size


class MaxPoolResult(NamedTuple):
    """What pooling gives with `return_indices`: a pair that unpacks as any other."""

    values: Array
    indices: Array


Pair = tuple[Array | None, Array | None]
"""Arrays for values and indices; where there is none, a new one is made."""


class MaxPool(Protocol):
    """The signature of pooling, with `return_indices` left out or False, True by name, True in its place, or unknown.

    Where it is unknown, no `out` would be right.
    """

    @overload
    def __call__(
        self,
        input: npt.ArrayLike,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        return_indices: Literal[False] = False,
        *,
        index_format: str = "plane",
        index_dtype: npt.DTypeLike | None = None,
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> Array: ...
    @overload
    def __call__(
        self,
        input: npt.ArrayLike,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        *,
        return_indices: Literal[True],
        index_format: str = "plane",
        index_dtype: npt.DTypeLike | None = None,
        out: Pair | None = None,
        num_threads: int | None = None,
    ) -> MaxPoolResult: ...
    @overload
    def __call__(
        self,
        input: npt.ArrayLike,
        kernel_size: Size,
        stride: Size | None,
        padding: Size,
        dilation: Size,
        ceil_mode: bool,
        return_indices: Literal[True],
        *,
        index_format: str = "plane",
        index_dtype: npt.DTypeLike | None = None,
        out: Pair | None = None,
        num_threads: int | None = None,
    ) -> MaxPoolResult: ...
    @overload
    def __call__(
        self,
        input: npt.ArrayLike,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
        *,
        index_format: str = "plane",
        index_dtype: npt.DTypeLike | None = None,
        out: None = None,
        num_threads: int | None = None,
    ) -> Any: ...


def overloaded(function: Callable[..., Any]) -> MaxPool:
    """`function` itself; type checkers take it for one of that signature."""
    return cast(MaxPool, function)
