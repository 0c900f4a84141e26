"""Types for type checkers: the filters return one array, or with `return_indices` two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, SupportsIndex, cast, overload

import numpy.typing as npt

from cunpool._arrays import Array
from cunpool._ndimage._arguments import Axes, Modes, Origins, Output, Sizes
from cunpool._overloads import MaxPoolResult


class Filter(Protocol):
    """The signature of `maximum_filter` and `minimum_filter`."""

    @overload
    def __call__(
        self,
        input: npt.ArrayLike,
        size: Sizes | None = None,
        footprint: npt.ArrayLike | None = None,
        output: Output = None,
        mode: Modes = "reflect",
        cval: float = 0.0,
        origin: Origins = 0,
        *,
        axes: Axes = None,
        return_indices: Literal[False] = False,
        num_threads: int | None = None,
    ) -> Array: ...

    @overload
    def __call__(
        self,
        input: npt.ArrayLike,
        size: Sizes | None = None,
        footprint: npt.ArrayLike | None = None,
        output: Output = None,
        mode: Modes = "reflect",
        cval: float = 0.0,
        origin: Origins = 0,
        *,
        axes: Axes = None,
        return_indices: Literal[True],
        num_threads: int | None = None,
    ) -> MaxPoolResult: ...

    @overload
    def __call__(
        self,
        input: npt.ArrayLike,
        size: Sizes | None = None,
        footprint: npt.ArrayLike | None = None,
        output: Output = None,
        mode: Modes = "reflect",
        cval: float = 0.0,
        origin: Origins = 0,
        *,
        axes: Axes = None,
        return_indices: bool,
        num_threads: int | None = None,
    ) -> Array | MaxPoolResult: ...


class Filter1d(Protocol):
    """The signature of `maximum_filter1d` and `minimum_filter1d`."""

    @overload
    def __call__(
        self,
        input: npt.ArrayLike,
        size: SupportsIndex,
        axis: SupportsIndex = -1,
        output: Output = None,
        mode: str = "reflect",
        cval: float = 0.0,
        origin: SupportsIndex = 0,
        *,
        return_indices: Literal[False] = False,
        num_threads: int | None = None,
    ) -> Array: ...

    @overload
    def __call__(
        self,
        input: npt.ArrayLike,
        size: SupportsIndex,
        axis: SupportsIndex = -1,
        output: Output = None,
        mode: str = "reflect",
        cval: float = 0.0,
        origin: SupportsIndex = 0,
        *,
        return_indices: Literal[True],
        num_threads: int | None = None,
    ) -> MaxPoolResult: ...

    @overload
    def __call__(
        self,
        input: npt.ArrayLike,
        size: SupportsIndex,
        axis: SupportsIndex = -1,
        output: Output = None,
        mode: str = "reflect",
        cval: float = 0.0,
        origin: SupportsIndex = 0,
        *,
        return_indices: bool,
        num_threads: int | None = None,
    ) -> Array | MaxPoolResult: ...


class Morphology(Protocol):
    """The signature of `grey_dilation` and `grey_erosion`."""

    @overload
    def __call__(
        self,
        input: npt.ArrayLike,
        size: Sizes | None = None,
        footprint: npt.ArrayLike | None = None,
        structure: npt.ArrayLike | None = None,
        output: Output = None,
        mode: Modes = "reflect",
        cval: float = 0.0,
        origin: Origins = 0,
        *,
        axes: Axes = None,
        return_indices: Literal[False] = False,
        num_threads: int | None = None,
    ) -> Array: ...

    @overload
    def __call__(
        self,
        input: npt.ArrayLike,
        size: Sizes | None = None,
        footprint: npt.ArrayLike | None = None,
        structure: npt.ArrayLike | None = None,
        output: Output = None,
        mode: Modes = "reflect",
        cval: float = 0.0,
        origin: Origins = 0,
        *,
        axes: Axes = None,
        return_indices: Literal[True],
        num_threads: int | None = None,
    ) -> MaxPoolResult: ...

    @overload
    def __call__(
        self,
        input: npt.ArrayLike,
        size: Sizes | None = None,
        footprint: npt.ArrayLike | None = None,
        structure: npt.ArrayLike | None = None,
        output: Output = None,
        mode: Modes = "reflect",
        cval: float = 0.0,
        origin: Origins = 0,
        *,
        axes: Axes = None,
        return_indices: bool,
        num_threads: int | None = None,
    ) -> Array | MaxPoolResult: ...


def typed_filter(function: Callable[..., Any]) -> Filter:
    return cast(Filter, function)


def typed_filter1d(function: Callable[..., Any]) -> Filter1d:
    return cast(Filter1d, function)


def typed_morphology(function: Callable[..., Any]) -> Morphology:
    return cast(Morphology, function)
