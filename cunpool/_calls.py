"""Calls whose arguments are missing or unknown, where Python's own message would name the wrong one, or no remedy."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from cunpool._remedies import shown

Call = TypeVar("Call", bound=Callable[..., Any])


class _Missing:
    """Stands for an argument that was not given."""

    def __repr__(self) -> str:
        return "nothing"


MISSING: Any = _Missing()


def told_if_missing(*functions: Callable[..., Any]) -> None:
    """Let calls reach these functions without their last required argument, which is `MISSING` then.

    The signature that is shown, and that type checkers read, still requires it.
    """
    for function in functions:
        code: Any = function
        code.__signature__ = inspect.signature(function)
        code.__defaults__ = (MISSING, *code.__defaults__)


def without_kernel_size(name: str, first: object, indices: object, input_size: object = None) -> TypeError:
    """The error for a call of the function `name` that has these arguments, and nothing for `kernel_size`.

    Mostly it is not that which is missing: an argument before it is, or the ``*`` that makes two of a pair.
    """
    is_gradient = name.endswith("_backward")
    has_size = is_gradient and "unpool" not in name
    usage = f"{name}({'grad_output' if is_gradient else 'input'}, indices, {'input_size, ' * has_size}kernel_size)"
    if isinstance(first, (tuple, list)) and len(first) == 2:
        example = f"{name}(*pair, {'input_size, ' * has_size}2)"
        return TypeError(f"{usage} takes pooling's pair as two arguments: put a * before it, as in {example}")
    if not getattr(indices, "ndim", 0) and not isinstance(indices, list):
        return TypeError(f"{usage} needs the indices that pooling gives, got {shown(indices)} in their place")
    if has_size and isinstance(input_size, int):
        return TypeError(
            f"{usage} needs input_size, the shape of what was pooled, got {shown(input_size)} in its place"
        )
    return TypeError(f"{usage} needs the kernel_size of the pooling, got nothing")


def is_size(value: object) -> bool:
    """Whether `value`, given for indices, is the next argument: a size, as indices were not given."""
    return isinstance(value, int) or (type(value) is tuple and [*map(type, value)].count(int) == len(value) > 0)


# Arguments of other libraries that `cunpool.dask` does not take, and what serves instead.
_INSTEAD = {
    "out": "results are computed later, and written by dask.array.store(result, out) or result.to_zarr(...)",
    "axis": "the last axes are pooled over, as many as the function's name says: numpy.moveaxis puts others there",
    "keepdims": "results keep all axes",
    "dtype": "results have the dtype of what is given, and result.astype(...) another one",
    "data_format": "arrays are (N, C, *spatial), and numpy.moveaxis(input, -1, 1) has the channels where they belong",
}


def explained(function: Call) -> Call:
    """`function` with an error of ours where a keyword is unknown, or `kernel_size` missing."""
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
