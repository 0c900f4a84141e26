"""Calls that PyTorch watches: compiled, exported, traced or transformed. They take the same way at every size."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
import torch.autograd.forward_ad as _forward_ad
from torch._C import _get_tracing_state, _len_torch_dispatch_stack
from torch._C._functorch import peek_interpreter_stack
from torch.compiler import is_dynamo_compiling
from torch.overrides import handle_torch_function, has_torch_function, has_torch_function_variadic

from cunpool import _geometry
from cunpool._geometry import IndexFormat, Window
from cunpool.torch import _operators
from cunpool.torch._derivatives import places_of
from cunpool.torch._kernels import Spacing

# By name, the public functions: what modes and subclasses are told of.
PUBLIC: dict[str, Callable[..., Any]] = {}
_PLAIN = torch.Tensor
_NO_DISPATCH = torch._C._disabled_torch_dispatch_impl


def is_traced(input: Any, indices: Any = None) -> Any:
    """Whether a call has to go by PyTorch's dispatcher, for somebody there wants to know of it."""
    return (
        is_dynamo_compiling()
        or _get_tracing_state() is not None
        or peek_interpreter_stack() is not None
        or _len_torch_dispatch_stack()
        or _forward_ad._current_level >= 0
        or has_torch_function_variadic(input, indices)
        or (type(input) is not _PLAIN and getattr(input, "__torch_dispatch__", _NO_DISPATCH) is not _NO_DISPATCH)
    )


def _is_transformed() -> bool:
    """Whether ``torch.func``, ``torch.vmap`` or forward-mode differentiation looks at the values of tensors."""
    # What is compiled is never transformed here: the compiler applies transforms by itself.
    return not is_dynamo_compiling() and (peek_interpreter_stack() is not None or _forward_ad._current_level >= 0)


def max_pool(
    n: int, input: torch.Tensor, window: Window, ceil_mode: bool, return_indices: bool, index_format: IndexFormat
) -> Any:
    """Pooling over `n` spatial axes, by operators."""
    if has_torch_function((input,)):
        function, rest = PUBLIC[f"max_pool{n}d"], (*window, ceil_mode, return_indices)
        return handle_torch_function(function, (input,), input, *rest, index_format=index_format)
    codes = _geometry.is_window(index_format)
    ceil_mode, return_indices = _geometry.flag("ceil_mode", ceil_mode), _geometry.flag("return_indices", return_indices)
    lists = _operators.lists(n, *window)
    if _is_transformed():  # the places know no derivative, and what lies there is PyTorch's to derive
        values, indices = _operators.max_pool_with_indices(input.detach(), *lists, ceil_mode, index_format)
        places = places_of(indices, input.shape[-n:], *lists) if codes else indices
        values = _gathered(n, input, values, places)
    # The compiler sees whether there will be a gradient, which then need not look for the places again.
    elif return_indices or (is_dynamo_compiling() and input.requires_grad and torch.is_grad_enabled()):
        values, indices = _operators.max_pool_with_indices(input, *lists, ceil_mode, index_format)
    else:
        return _operators.max_pool(input, *lists, ceil_mode)
    return (values, indices) if return_indices else values


def _gathered(n: int, input: torch.Tensor, values: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """What lies at `places`; a window without a cell keeps its value, and has no derivative."""
    cells = input.flatten(-n)
    chosen = cells.gather(-1, places.clamp(0, cells.shape[-1] - 1).flatten(-n)).reshape(values.shape)
    return torch.where(chosen.isnan() | (chosen == values), chosen, values)


def max_unpool(
    n: int,
    input: torch.Tensor,
    indices: torch.Tensor,
    window: Spacing,
    output_size: Sequence[Any] | None,
    index_format: IndexFormat,
) -> torch.Tensor:
    """Unpooling over `n` spatial axes, by operators."""
    if has_torch_function((input, indices)):
        function, arguments = PUBLIC[f"max_unpool{n}d"], (input, indices, *window, output_size)
        return handle_torch_function(function, (input, indices), *arguments, index_format=index_format)
    codes = _geometry.is_window(index_format)
    lists = _operators.lists(n, *window, 1)
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
    if not _is_transformed():
        return _operators.max_unpool(input, indices, *lists, output_size, index_format)
    if codes:
        # For the size, and to have codes refused that name no cell.
        full = _operators.max_unpool(input.detach(), indices, *lists, output_size, index_format).shape[-n:]
        indices = places_of(indices, full, *lists)
    size = None if output_size is None else _geometry.entries("output_size", output_size)
    shape, _, _ = _geometry.unpooling(n, tuple(input.shape), *map(tuple, lists), size)
    if indices.shape != input.shape:
        raise ValueError(f"indices must have the shape of input, {tuple(input.shape)}, got {tuple(indices.shape)}")
    if indices.is_floating_point() or indices.is_complex() or indices.dtype is torch.bool:
        raise TypeError(f"indices must be of integers, got {indices.dtype}")
    zeros = input.new_zeros((*shape[:-n], math.prod(shape[-n:])))
    return zeros.scatter(-1, indices.to(torch.int64).flatten(-n), input.flatten(-n)).reshape(shape)


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
