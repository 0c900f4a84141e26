"""What type checkers are told of the functions: results keep their input's dtype, and pooling gives one array or two.

Each protocol has the parameters of a function in `pooling`, `unpooling` or `taking`, which runs as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, SupportsIndex, cast, overload

import numpy as np
import numpy.typing as npt

from cunpool._arrays import Array
from cunpool._geometry import IndexFormat, Size

if TYPE_CHECKING:
    from typing_extensions import Self, TypeVar  # whose defaults type checkers know under any Python

    Element = TypeVar("Element", bound=np.generic, default=Any)
    # Where a call unpacks a pair, ``unpool(*pool(x))``, pyright 1.1 has this variable itself for the dtype of the first
    # array. It takes the place of any dtype then because its bound is Any; with another bound that would be an error.
    Stored = TypeVar("Stored", bound=Any, default=Any)

    # Whether a pooling module returns indices: ``MaxPool2d[Literal[True]]`` does.
    Indices = TypeVar("Indices", bound=bool, covariant=True, default=bool)

    class MaxPoolResult(tuple[npt.NDArray[Stored], Array]):
        def __new__(cls, values: npt.NDArray[Stored], indices: Array) -> Self: ...
        @property
        def values(self) -> npt.NDArray[Stored]: ...
        @property
        def indices(self) -> Array: ...
        def _asdict(self) -> dict[str, Array]: ...
        def _replace(self, **fields: Array) -> Self: ...

else:  # Python 3.10 has neither those defaults nor named tuples that are generic
    from typing import TypeVar

    Element = Any
    Indices = TypeVar("Indices", bound=bool, covariant=True)

    class MaxPoolResult(NamedTuple):
        """What pooling gives with `return_indices`: a pair that unpacks as any other.

        In annotations it takes the element type of the values, ``MaxPoolResult[np.float32]``.

        Attributes
        ----------
        values : numpy.ndarray
            The maxima.
        indices : numpy.ndarray of int64, int32, uint8 or uint16
            Where they were.

        Examples
        --------
        >>> import numpy as np, cunpool as cu
        >>> result = cu.max_pool1d(np.array([[3, 1, 4, 1]]), 2, return_indices=True)
        >>> isinstance(result, cu.MaxPoolResult)
        True
        >>> result.values
        array([[3, 4]])
        """

        values: Array
        indices: Array

        __class_getitem__ = classmethod(GenericAlias)


Pair = tuple[Array | None, Array | None]
"""Arrays for values and indices; where there is none, a new one is made."""


class MaxPool(Protocol):
    """The signature of pooling, with `return_indices` left out or False, True by name, True in its place, or unknown.

    Where it is unknown, no `out` would be right.
    """

    @overload
    def __call__(
        self,
        input: npt.NDArray[Element],
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        return_indices: Literal[False] = False,
        *,
        index_format: IndexFormat = "plane",
        index_dtype: npt.DTypeLike | None = None,
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> npt.NDArray[Element]: ...
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
        index_format: IndexFormat = "plane",
        index_dtype: npt.DTypeLike | None = None,
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> Array: ...
    @overload
    def __call__(
        self,
        input: npt.NDArray[Element],
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        *,
        return_indices: Literal[True],
        index_format: IndexFormat = "plane",
        index_dtype: npt.DTypeLike | None = None,
        out: Pair | None = None,
        num_threads: int | None = None,
    ) -> MaxPoolResult[Element]: ...
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
        index_format: IndexFormat = "plane",
        index_dtype: npt.DTypeLike | None = None,
        out: Pair | None = None,
        num_threads: int | None = None,
    ) -> MaxPoolResult[Any]: ...
    @overload
    def __call__(
        self,
        input: npt.NDArray[Element],
        kernel_size: Size,
        stride: Size | None,
        padding: Size,
        dilation: Size,
        ceil_mode: bool,
        return_indices: Literal[True],
        *,
        index_format: IndexFormat = "plane",
        index_dtype: npt.DTypeLike | None = None,
        out: Pair | None = None,
        num_threads: int | None = None,
    ) -> MaxPoolResult[Element]: ...
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
        index_format: IndexFormat = "plane",
        index_dtype: npt.DTypeLike | None = None,
        out: Pair | None = None,
        num_threads: int | None = None,
    ) -> MaxPoolResult[Any]: ...
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
        index_format: IndexFormat = "plane",
        index_dtype: npt.DTypeLike | None = None,
        out: None = None,
        num_threads: int | None = None,
    ) -> Any: ...


class MaxUnpool(Protocol):
    """The signature of unpooling."""

    @overload
    def __call__(
        self,
        input: npt.NDArray[Element],
        indices: npt.ArrayLike,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        output_size: Sequence[SupportsIndex] | None = None,
        *,
        dilation: Size = 1,
        index_format: IndexFormat = "plane",
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> npt.NDArray[Element]: ...
    @overload
    def __call__(
        self,
        input: npt.ArrayLike,
        indices: npt.ArrayLike,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        output_size: Sequence[SupportsIndex] | None = None,
        *,
        dilation: Size = 1,
        index_format: IndexFormat = "plane",
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> Array: ...


class MaxUnpoolBackward(Protocol):
    """The signature of unpooling's gradient."""

    @overload
    def __call__(
        self,
        grad_output: npt.NDArray[Element],
        indices: npt.ArrayLike,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        *,
        dilation: Size = 1,
        index_format: IndexFormat = "plane",
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> npt.NDArray[Element]: ...
    @overload
    def __call__(
        self,
        grad_output: npt.ArrayLike,
        indices: npt.ArrayLike,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        *,
        dilation: Size = 1,
        index_format: IndexFormat = "plane",
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> Array: ...


class MaxPoolBackward(Protocol):
    """The signature of pooling's gradient."""

    @overload
    def __call__(
        self,
        grad_output: npt.NDArray[Element],
        indices: npt.ArrayLike,
        input_size: Sequence[SupportsIndex],
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        *,
        index_format: IndexFormat = "plane",
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> npt.NDArray[Element]: ...
    @overload
    def __call__(
        self,
        grad_output: npt.ArrayLike,
        indices: npt.ArrayLike,
        input_size: Sequence[SupportsIndex],
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        *,
        index_format: IndexFormat = "plane",
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> Array: ...


class TakeAt(Protocol):
    """The signature of taking."""

    @overload
    def __call__(
        self,
        input: npt.NDArray[Element],
        indices: npt.ArrayLike,
        kernel_size: Size | None = None,
        stride: Size | None = None,
        padding: Size = 0,
        *,
        dilation: Size = 1,
        index_format: IndexFormat = "plane",
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> npt.NDArray[Element]: ...
    @overload
    def __call__(
        self,
        input: npt.ArrayLike,
        indices: npt.ArrayLike,
        kernel_size: Size | None = None,
        stride: Size | None = None,
        padding: Size = 0,
        *,
        dilation: Size = 1,
        index_format: IndexFormat = "plane",
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> Array: ...


# Each of these returns `function` itself, which type checkers take for one of that signature.


def typed_pool(function: Callable[..., Any]) -> MaxPool:
    return cast(MaxPool, function)


def typed_unpool(function: Callable[..., Any]) -> MaxUnpool:
    return cast(MaxUnpool, function)


def typed_unpool_backward(function: Callable[..., Any]) -> MaxUnpoolBackward:
    return cast(MaxUnpoolBackward, function)


def typed_pool_backward(function: Callable[..., Any]) -> MaxPoolBackward:
    return cast(MaxPoolBackward, function)


def typed_take(function: Callable[..., Any]) -> TakeAt:
    return cast(TakeAt, function)
