"""Errors for missing and unknown arguments, where Python's own message would name the wrong one or no remedy."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from cunpool._remedies import shown

Call = TypeVar("Call", bound=Callable[..., Any])


class _Missing:
    """Stand for an argument that was not given."""

    def __repr__(self) -> str:
        return "nothing"


MISSING: Any = _Missing()


def told_if_missing(*functions: Callable[..., Any]) -> None:
    """Make the last required argument of these functions optional, with `MISSING` as its default.

    The displayed signature, and the one for type checkers, still require it.
    """
    for function in functions:
        code: Any = function
        code.__signature__ = inspect.signature(function)
        code.__defaults__ = (MISSING, *code.__defaults__)


def without_kernel_size(name: str, first: object, indices: object, input_size: object = None) -> TypeError:
    """Return the error for a call of the function `name` with these arguments and without `kernel_size`.

    Usually an earlier argument is missing, or the ``*`` that unpacks a pair.
    """
    is_gradient = name.endswith("_backward")
    has_size = is_gradient and "unpool" not in name
    usage = f"{name}({'grad_output' if is_gradient else 'input'}, indices, {'input_size, ' * has_size}kernel_size)"
    if isinstance(first, (tuple, list)) and len(first) == 2:
        example = f"{name}(*pair, {'input_size, ' * has_size}2)"
        return TypeError(f"{usage} takes pooling's pair as two arguments: put a * before it, as in {example}")
    if not getattr(indices, "ndim", 0) and not isinstance(indices, list):
        return TypeError(f"{usage} needs the indices that pooling gives, got {shown(indices)} instead")
    if has_size and isinstance(input_size, int):
        return TypeError(f"{usage} needs input_size, the shape of what was pooled, got {shown(input_size)} instead")
    return TypeError(f"{usage} needs the kernel_size of the pooling, got nothing")


def is_size(value: object) -> bool:
    """Return whether `value`, passed as indices, is a size, so that the indices are missing."""
    return isinstance(value, int) or (type(value) is tuple and [*map(type, value)].count(int) == len(value) > 0)


# Arguments of other libraries that `cunpool.dask` lacks, and their replacements.
_INSTEAD = {
    "out": "results are computed later, and written by dask.array.store(result, out) or result.to_zarr(...)",
    "onto": "unpool, unpool ones as well, and choose with dask.array.where(unpooled_ones, unpooled, onto)",
    "fill_value": "unpool, unpool ones as well, and choose with dask.array.where(unpooled_ones, unpooled, fill_value)",
    "axis": "the function's name says how many last axes are pooled: numpy.moveaxis moves others there",
    "keepdims": "results keep all axes",
    "dtype": "results have the dtype of the input; convert with result.astype(...)",
    "data_format": "arrays are (N, C, *spatial); channel_axis=-1 is for channels last",
}


def explained(function: Call) -> Call:
    """Wrap `function` to raise a helpful error for an unknown keyword or a missing `kernel_size`."""
    signature = inspect.signature(function).parameters
    parameters = list(signature)
    before = parameters[: parameters.index("kernel_size")]
    is_told = "indices" in before and signature["kernel_size"].default is inspect.Parameter.empty

    @wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        for keyword in keywords:
            if keyword not in parameters:
                instead = _INSTEAD.get(keyword, f"it takes {', '.join(parameters)}")
                raise TypeError(f"cunpool.dask.{function.__name__} takes no {keyword!r}: {instead}")
        given = dict(zip(parameters, arguments, strict=False)) | keywords
        is_short = "kernel_size" not in given or is_size(given.get("indices"))
        if is_told and is_short and set(before[:2]) <= set(given):
            raise without_kernel_size(function.__name__, *(given.get(name) for name in before))
        return function(*arguments, **keywords)

    return cast(Call, call)
