"""Calls that PyTorch watches: compiled, exported, traced or transformed. They take the same way at every size."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, NoReturn

import torch
import torch.nn.functional as F
from torch.compiler import is_dynamo_compiling
from torch.overrides import handle_torch_function, has_torch_function

from cunpool import _calls, _geometry
from cunpool._geometry import EvenWindow, IndexFormat
from cunpool.torch import _composite, _operators
from cunpool.torch._calls import Spacing
from cunpool.torch._composite import places_of
from cunpool.torch._tensors import check_indices_dtype, check_indices_shape
from cunpool.torch._watching import TRANSFORM, watcher

# By name, the public functions: what modes and subclasses are told of.
PUBLIC: dict[str, Callable[..., Any]] = {}

# Whether `export_onnx` exports, which translates cunpool's operators; ``torch.onnx.export`` refuses them.
TRANSLATED = ContextVar("TRANSLATED", default=False)


def _is_for_onnx(index_format: str) -> bool:
    """Whether to give ``torch.onnx.export`` PyTorch's own operators, which it translates."""
    if not torch.onnx.is_in_onnx_export() or TRANSLATED.get():
        return False
    if index_format != "plane":
        raise ValueError("torch.onnx.export cannot write window codes: pass the network to cunpool.torch.export_onnx")
    return True


def max_pool(
    n: int, input: torch.Tensor, window: EvenWindow, ceil_mode: bool, return_indices: bool, index_format: IndexFormat
) -> Any:
    """Pooling over `n` spatial axes, by operators."""
    if has_torch_function((input,)):
        function, rest = PUBLIC[f"max_pool{n}d"], (*window, ceil_mode, return_indices)
        return handle_torch_function(function, (input,), input, *rest, index_format=index_format)
    _geometry.is_window(index_format)  # refuses formats that there are not
    ceil_mode, return_indices = _geometry.flag("ceil_mode", ceil_mode), _geometry.flag("return_indices", return_indices)
    lists = _operators.lists(n, *window)
    if watcher(input) == TRANSFORM:
        values, indices = _operators.max_pool_with_indices(input.detach(), *lists, ceil_mode, index_format)
        values = _composite.gather_maxima(n, input, values, places_of(indices, input.shape[-n:], lists, index_format))
    elif _is_for_onnx(index_format):
        return getattr(F, f"max_pool{n}d")(input, *lists, ceil_mode, return_indices)
    # The compiler sees whether there will be a gradient, which then need not look for the places again.
    elif return_indices or (is_dynamo_compiling() and input.requires_grad and torch.is_grad_enabled()):
        values, indices = _operators.max_pool_with_indices(input, *lists, ceil_mode, index_format)
    else:
        return _operators.max_pool(input, *lists, ceil_mode)
    return (values, indices) if return_indices else values


def max_unpool(
    n: int,
    input: torch.Tensor,
    indices: torch.Tensor,
    window: Spacing,
    output_size: Sequence[Any] | None,
    index_format: IndexFormat,
) -> torch.Tensor:
    """Unpooling over `n` spatial axes, by operators."""
    refuse_missing(n, input, indices, window)
    if has_torch_function((input, indices)):
        function, arguments = PUBLIC[f"max_unpool{n}d"], (input, indices, *window, output_size)
        return handle_torch_function(function, (input, indices), *arguments, index_format=index_format)
    _geometry.is_window(index_format)
    lists = _operators.lists(n, *window, 1)
    if _is_for_onnx(index_format):
        return getattr(F, f"max_unpool{n}d")(input, indices, *lists[:3], output_size)
    if output_size is not None:
        if len(output_size) not in (n, n + 2, input.ndim):
            raise ValueError(f"output_size must have {n} or {input.ndim} entries, got {len(output_size)}")
        output_size = [*output_size][-n:]
        if any(isinstance(size, torch.Tensor) for size in output_size):  # as ``torch.jit.trace`` hands out sizes
            return _scripted()(
                input,
                indices,
                *lists,
                torch.stack(
                    [size if isinstance(size, torch.Tensor) else torch.as_tensor(size) for size in output_size]
                ),
                index_format,
            )
    if watcher(input, indices) != TRANSFORM:
        return _operators.max_unpool(input, indices, *lists, output_size, index_format)
    check_indices_shape(input, indices)
    check_indices_dtype(indices)
    # The operator refuses what does not fit, and says how large the output is.
    size = _operators.max_unpool(input.detach(), indices, *lists, output_size, index_format).shape[-n:]
    return _composite.scatter(n, input, places_of(indices, size, lists, index_format), size)


def refuse_missing(n: int, input: Any, indices: Any, window: Spacing) -> None:
    """Refuse a call of unpooling that lacks an argument."""
    if window[0] is _calls.MISSING or indices is _calls.MISSING:
        raise _calls.without_kernel_size(f"max_unpool{n}d", input, indices) from None


def refuse_dilation(name: str) -> NoReturn:
    """Refuse a dilation of unpooling, which the function or module `name` takes as little as PyTorch's."""
    raise TypeError(
        f"{name} takes no dilation, as in PyTorch: pass dilation * (kernel_size - 1) + 1 as kernel_size, and the "
        "stride of the pooling; cunpool's functions for arrays take dilation, with window codes too"
    )


@lru_cache(maxsize=1)
def _scripted() -> Any:
    """Unpooling to sizes that are tensors, so that a trace follows them: a list would be a constant of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # and so is the tracing that needs it
        return torch.jit.script(_max_unpool_to)


def _max_unpool_to(
    input: torch.Tensor,
    indices: torch.Tensor,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    output_size: torch.Tensor,
    index_format: str,
) -> torch.Tensor:  # pragma: no cover - TorchScript compiles it
    sizes: list[int] = output_size.tolist()
    return torch.ops.cunpool.max_unpool(input, indices, kernel_size, stride, padding, dilation, sizes, index_format)
