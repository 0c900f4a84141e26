"""Types for type checkers: results keep the dtype of their input, and pooling returns one array or two.

Each protocol has the parameters of a function in `pooling`, `unpooling`, `adaptive` or `taking`, which runs unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, SupportsIndex, cast, overload

import numpy as np
import numpy.typing as npt

from cunpool._arrays import Array
from cunpool._background import FillValue
from cunpool._geometry import IndexFormat, NanPolicy, OutputSize, Padding, Size

if TYPE_CHECKING:
    from typing_extensions import Self, TypeVar  # type checkers accept its defaults for any Python

    Element = TypeVar("Element", bound=np.generic, default=Any)
    # In ``unpool(*pool(x))``, which unpacks a pair, pyright 1.1 uses this variable itself as the dtype of the first
    # array. Its bound is Any, so that it is accepted as any dtype; any other bound would be an error.
    Stored = TypeVar("Stored", bound=Any, default=Any)

    # Whether a pooling module returns indices, as in ``MaxPool2d[Literal[True]]``.
    Indices = TypeVar("Indices", bound=bool, covariant=True, default=bool)

    class MaxPoolResult(tuple[npt.NDArray[Stored], Array]):
        def __new__(cls, values: npt.NDArray[Stored], indices: Array) -> Self: ...
        @property
        def values(self) -> npt.NDArray[Stored]: ...
        @property
        def indices(self) -> Array: ...
        def _asdict(self) -> dict[str, Array]: ...
        def _replace(self, **fields: Array) -> Self: ...

else:  # Python 3.10 lacks these defaults, and generic named tuples
    from typing import TypeVar

    Element = Any
    Indices = TypeVar("Indices", bound=bool, covariant=True)

    class MaxPoolResult(NamedTuple):
        """The result of pooling with `return_indices`: a named pair of values and indices.

        In annotations it takes the element type of the values, ``MaxPoolResult[np.float32]``.

        Attributes
        ----------
        values : numpy.ndarray
            The maxima.
        indices : numpy.ndarray of int64, int32, uint8 or uint16
            The indices of the maxima.

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
"""Arrays for values and indices. A new array is made in place of None."""


class MaxPool(Protocol):
    """The signature of pooling: `return_indices` omitted or False, True by name, True by position, or unknown.

    If it is unknown, `out` must be None.
    """

    @overload
    def __call__(
        self,
        input: npt.NDArray[Element],
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
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> npt.NDArray[Element]: ...
    @overload
    def __call__(
        self,
        input: npt.ArrayLike,
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
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> Array: ...
    @overload
    def __call__(
        self,
        input: npt.NDArray[Element],
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
        out: Pair | None = None,
        num_threads: int | None = None,
    ) -> MaxPoolResult[Element]: ...
    @overload
    def __call__(
        self,
        input: npt.ArrayLike,
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
        out: Pair | None = None,
        num_threads: int | None = None,
    ) -> MaxPoolResult[Any]: ...
    @overload
    def __call__(
        self,
        input: npt.NDArray[Element],
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
        out: Pair | None = None,
        num_threads: int | None = None,
    ) -> MaxPoolResult[Element]: ...
    @overload
    def __call__(
        self,
        input: npt.ArrayLike,
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
        out: Pair | None = None,
        num_threads: int | None = None,
    ) -> MaxPoolResult[Any]: ...
    @overload
    def __call__(
        self,
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
        padding: Padding = 0,
        output_size: Sequence[SupportsIndex] | None = None,
        *,
        dilation: Size = 1,
        index_format: IndexFormat = "plane",
        fill_value: FillValue | None = None,
        onto: npt.ArrayLike | None = None,
        channel_axis: SupportsIndex | None = None,
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
        padding: Padding = 0,
        output_size: Sequence[SupportsIndex] | None = None,
        *,
        dilation: Size = 1,
        index_format: IndexFormat = "plane",
        fill_value: FillValue | None = None,
        onto: npt.ArrayLike | None = None,
        channel_axis: SupportsIndex | None = None,
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
        padding: Padding = 0,
        *,
        dilation: Size = 1,
        index_format: IndexFormat = "plane",
        onto: Literal[False] = False,
        channel_axis: SupportsIndex | None = None,
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
        padding: Padding = 0,
        *,
        dilation: Size = 1,
        index_format: IndexFormat = "plane",
        onto: Literal[False] = False,
        channel_axis: SupportsIndex | None = None,
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> Array: ...
    @overload
    def __call__(
        self,
        grad_output: npt.NDArray[Element],
        indices: npt.ArrayLike,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Padding = 0,
        *,
        dilation: Size = 1,
        index_format: IndexFormat = "plane",
        onto: Literal[True],
        channel_axis: SupportsIndex | None = None,
        out: Pair | None = None,
        num_threads: int | None = None,
    ) -> tuple[npt.NDArray[Element], npt.NDArray[Element]]: ...
    @overload
    def __call__(
        self,
        grad_output: npt.ArrayLike,
        indices: npt.ArrayLike,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Padding = 0,
        *,
        dilation: Size = 1,
        index_format: IndexFormat = "plane",
        onto: Literal[True],
        channel_axis: SupportsIndex | None = None,
        out: Pair | None = None,
        num_threads: int | None = None,
    ) -> tuple[Array, Array]: ...


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
        padding: Padding = 0,
        dilation: Size = 1,
        *,
        index_format: IndexFormat = "plane",
        channel_axis: SupportsIndex | None = None,
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
        padding: Padding = 0,
        dilation: Size = 1,
        *,
        index_format: IndexFormat = "plane",
        channel_axis: SupportsIndex | None = None,
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
        padding: Padding = 0,
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
        padding: Padding = 0,
        *,
        dilation: Size = 1,
        index_format: IndexFormat = "plane",
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> Array: ...


class AdaptiveMaxPool(Protocol):
    """The signature of adaptive pooling; see `MaxPool`."""

    @overload
    def __call__(
        self,
        input: npt.NDArray[Element],
        output_size: OutputSize,
        return_indices: Literal[False] = False,
        *,
        index_dtype: npt.DTypeLike | None = None,
        channel_axis: SupportsIndex | None = None,
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> npt.NDArray[Element]: ...
    @overload
    def __call__(
        self,
        input: npt.ArrayLike,
        output_size: OutputSize,
        return_indices: Literal[False] = False,
        *,
        index_dtype: npt.DTypeLike | None = None,
        channel_axis: SupportsIndex | None = None,
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> Array: ...
    @overload
    def __call__(
        self,
        input: npt.NDArray[Element],
        output_size: OutputSize,
        *,
        return_indices: Literal[True],
        index_dtype: npt.DTypeLike | None = None,
        channel_axis: SupportsIndex | None = None,
        out: Pair | None = None,
        num_threads: int | None = None,
    ) -> MaxPoolResult[Element]: ...
    @overload
    def __call__(
        self,
        input: npt.ArrayLike,
        output_size: OutputSize,
        *,
        return_indices: Literal[True],
        index_dtype: npt.DTypeLike | None = None,
        channel_axis: SupportsIndex | None = None,
        out: Pair | None = None,
        num_threads: int | None = None,
    ) -> MaxPoolResult[Any]: ...
    @overload
    def __call__(
        self,
        input: npt.NDArray[Element],
        output_size: OutputSize,
        return_indices: Literal[True],
        *,
        index_dtype: npt.DTypeLike | None = None,
        channel_axis: SupportsIndex | None = None,
        out: Pair | None = None,
        num_threads: int | None = None,
    ) -> MaxPoolResult[Element]: ...
    @overload
    def __call__(
        self,
        input: npt.ArrayLike,
        output_size: OutputSize,
        return_indices: Literal[True],
        *,
        index_dtype: npt.DTypeLike | None = None,
        channel_axis: SupportsIndex | None = None,
        out: Pair | None = None,
        num_threads: int | None = None,
    ) -> MaxPoolResult[Any]: ...
    @overload
    def __call__(
        self,
        input: npt.ArrayLike,
        output_size: OutputSize,
        return_indices: bool = False,
        *,
        index_dtype: npt.DTypeLike | None = None,
        channel_axis: SupportsIndex | None = None,
        out: None = None,
        num_threads: int | None = None,
    ) -> Any: ...


class AdaptiveMaxUnpool(Protocol):
    """The signature of adaptive unpooling."""

    @overload
    def __call__(
        self,
        input: npt.NDArray[Element],
        indices: npt.ArrayLike,
        output_size: Sequence[SupportsIndex] | None = None,
        *,
        fill_value: FillValue | None = None,
        onto: npt.ArrayLike | None = None,
        channel_axis: SupportsIndex | None = None,
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
        channel_axis: SupportsIndex | None = None,
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> Array: ...


class AdaptiveMaxPoolBackward(Protocol):
    """The signature of adaptive pooling's gradient."""

    @overload
    def __call__(
        self,
        grad_output: npt.NDArray[Element],
        indices: npt.ArrayLike,
        input_size: Sequence[SupportsIndex],
        *,
        channel_axis: SupportsIndex | None = None,
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> npt.NDArray[Element]: ...
    @overload
    def __call__(
        self,
        grad_output: npt.ArrayLike,
        indices: npt.ArrayLike,
        input_size: Sequence[SupportsIndex],
        *,
        channel_axis: SupportsIndex | None = None,
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> Array: ...


class AdaptiveMaxUnpoolBackward(Protocol):
    """The signature of adaptive unpooling's gradient."""

    @overload
    def __call__(
        self,
        grad_output: npt.NDArray[Element],
        indices: npt.ArrayLike,
        *,
        onto: Literal[False] = False,
        channel_axis: SupportsIndex | None = None,
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> npt.NDArray[Element]: ...
    @overload
    def __call__(
        self,
        grad_output: npt.ArrayLike,
        indices: npt.ArrayLike,
        *,
        onto: Literal[False] = False,
        channel_axis: SupportsIndex | None = None,
        out: Array | None = None,
        num_threads: int | None = None,
    ) -> Array: ...
    @overload
    def __call__(
        self,
        grad_output: npt.NDArray[Element],
        indices: npt.ArrayLike,
        *,
        onto: Literal[True],
        channel_axis: SupportsIndex | None = None,
        out: Pair | None = None,
        num_threads: int | None = None,
    ) -> tuple[npt.NDArray[Element], npt.NDArray[Element]]: ...
    @overload
    def __call__(
        self,
        grad_output: npt.ArrayLike,
        indices: npt.ArrayLike,
        *,
        onto: Literal[True],
        channel_axis: SupportsIndex | None = None,
        out: Pair | None = None,
        num_threads: int | None = None,
    ) -> tuple[Array, Array]: ...


# Each of these returns `function` itself, with that signature for type checkers.


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


def typed_adaptive_pool(function: Callable[..., Any]) -> AdaptiveMaxPool:
    return cast(AdaptiveMaxPool, function)


def typed_adaptive_unpool(function: Callable[..., Any]) -> AdaptiveMaxUnpool:
    return cast(AdaptiveMaxUnpool, function)


def typed_adaptive_pool_backward(function: Callable[..., Any]) -> AdaptiveMaxPoolBackward:
    return cast(AdaptiveMaxPoolBackward, function)


def typed_adaptive_unpool_backward(function: Callable[..., Any]) -> AdaptiveMaxUnpoolBackward:
    return cast(AdaptiveMaxUnpoolBackward, function)
