"""Calls that are compiled, exported, traced or transformed. Their operators do not depend on sizes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch.compiler import is_dynamo_compiling
from torch.overrides import handle_torch_function, has_torch_function

from cunpool import _calls, _geometry
from cunpool._geometry import EvenWindow, IndexFormat
from cunpool.torch import _composite, _operators
from cunpool.torch._composite import positions_of
from cunpool.torch._tensors import check_indices_dtype, check_indices_shape
from cunpool.torch._watching import TRANSFORM, watcher

# The public functions by name, which modes and subclasses receive.
PUBLIC: dict[str, Callable[..., Any]] = {}

# Whether `export_onnx` is running. It translates cunpool's operators, which ``torch.onnx.export`` alone refuses.
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
    _geometry.is_window(index_format)  # raises an error for an unknown format
    ceil_mode, return_indices = _geometry.flag("ceil_mode", ceil_mode), _geometry.flag("return_indices", return_indices)
    lists = _operators.lists(n, *window)
    if watcher(input) == TRANSFORM:
        values, indices = _operators.max_pool_with_indices(input.detach(), *lists, ceil_mode, index_format)
        values = _composite.gather_maxima(
            n, input, values, positions_of(indices, input.shape[-n:], lists, index_format)
        )
    elif _is_for_onnx(index_format):
        return getattr(F, f"max_pool{n}d")(input, *lists, ceil_mode, return_indices)
    # While compiling it is known whether a gradient follows. It then uses these indices instead of a second pooling.
    elif return_indices or (is_dynamo_compiling() and input.requires_grad and torch.is_grad_enabled()):
        values, indices = _operators.max_pool_with_indices(input, *lists, ceil_mode, index_format)
    else:
        return _operators.max_pool(input, *lists, ceil_mode)
    return (values, indices) if return_indices else values


def max_unpool(
    n: int,
    input: torch.Tensor,
    indices: torch.Tensor,
    window: EvenWindow,
    output_size: Sequence[Any] | None,
    index_format: IndexFormat,
) -> torch.Tensor:
    """Unpooling over `n` spatial axes, by operators."""
    refuse_missing(n, input, indices, window)
    if has_torch_function((input, indices)):
        function, arguments = PUBLIC[f"max_unpool{n}d"], (input, indices, *window[:3], output_size)
        options = {"dilation": window[3], "index_format": index_format}
        return handle_torch_function(function, (input, indices), *arguments, **options)
    _geometry.is_window(index_format)
    lists = _operators.lists(n, *window)
    if _is_for_onnx(index_format):
        reach = [d * (k - 1) + 1 for k, d in zip(lists[0], lists[3], strict=True)]  # PyTorch's has no dilation
        return getattr(F, f"max_unpool{n}d")(input, indices, reach, *lists[1:3], output_size)
    if output_size is not None:
        if len(output_size) not in (n, n + 2, input.ndim):
            raise ValueError(f"output_size must have {n} or {input.ndim} entries, got {len(output_size)}")
        output_size = [*output_size][-n:]
        if any(isinstance(size, torch.Tensor) for size in output_size):  # sizes under ``torch.jit.trace``
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
    # The operator raises errors for sizes that do not fit, and its result has the output's size.
    size = _operators.max_unpool(input.detach(), indices, *lists, output_size, index_format).shape[-n:]
    return _composite.scatter(n, input, positions_of(indices, size, lists, index_format), size)


def refuse_missing(n: int, input: Any, indices: Any, window: EvenWindow) -> None:
    """Raise an error if a call of unpooling lacks an argument."""
    if window[0] is _calls.MISSING or indices is _calls.MISSING:
        raise _calls.without_kernel_size(f"max_unpool{n}d", input, indices) from None


@lru_cache(maxsize=1)
def _scripted() -> Any:
    """Unpooling to sizes that are tensors, which a trace records. A list would become a constant of the trace."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch.jit.script; tracing is deprecated too
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
