"""Eager calls: kernels on a tensor's memory, gradients for autograd, and PyTorch's own operators where faster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import torch
import torch.autograd.forward_ad as _forward_ad
import torch.autograd.profiler as _profiler
from torch._C import _len_torch_dispatch_stack
from torch._C._functorch import get_dynamic_layer_stack_depth, is_legacy_batchedtensor
from torch.compiler import is_dynamo_compiling
from torch.overrides import has_torch_function_unary, has_torch_function_variadic

from cunpool import _geometry
from cunpool._geometry import EvenWindow, IndexFormat
from cunpool._kernels import runtime as _runtime
from cunpool.torch import _calls, _operators, _traced
from cunpool.torch._derivatives import pool_gradient, unpool_gradient
from cunpool.torch._tensors import format_of
from cunpool.torch._watching import watcher

# PyTorch's own pooling is faster on inputs with fewer elements, because it does not wrap arrays.
# Keys: whether the input is channels-last, and whether autograd records. Values: one thread, several. (speed; measured)
FEW = {
    (False, False): (1 << 12, 1 << 15),
    (False, True): (1 << 14, 1 << 16),
    (True, False): (1 << 15, 1 << 17),
    (True, True): (1 << 18, 1 << 18),
}
LEAST = 1 << 12  # the smallest entry of FEW
THEIRS = {
    1: torch.max_pool1d_with_indices,
    2: torch._C._nn.max_pool2d_with_indices,
    3: torch._C._nn.max_pool3d_with_indices,
}
_TENSOR = torch.Tensor


class _MaxPool(torch.autograd.Function):
    """Pooling whose gradient cunpool computes."""

    @staticmethod
    def forward(
        ctx: Any, input: torch.Tensor, call: tuple[int, EvenWindow, bool, bool, IndexFormat]
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        n, window, ceil_mode, return_indices, index_format = call  # one tuple: each argument takes time
        values, indices = _calls.max_pool(n, input.detach(), window, ceil_mode, True, index_format)
        ctx.save_for_backward(indices)
        ctx.set_materialize_grads(False)
        ctx.geometry = n, tuple(input.shape), window, index_format
        if not return_indices:
            return values
        ctx.mark_non_differentiable(indices)
        return values, indices

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor | None, _: object = None) -> tuple[torch.Tensor | None, ...]:
        if grad is None:
            return None, None
        (indices,) = ctx.saved_tensors
        n, shape, window, index_format = ctx.geometry
        if torch.is_grad_enabled() or watcher(grad, indices):  # a second derivative, or a tensor without memory
            result = pool_gradient(grad, indices, shape[-n:], _operators.lists(n, *window), index_format)
        else:
            result = _recorded(_calls.max_pool_backward, n, grad, indices, shape, window, index_format)
        return result, None


class _MaxUnpool(torch.autograd.Function):
    """Unpooling whose gradient cunpool computes."""

    @staticmethod
    def forward(
        ctx: Any,
        input: torch.Tensor,
        indices: torch.Tensor,
        call: tuple[int, EvenWindow, Sequence[SupportsIndex] | None, IndexFormat],
    ) -> torch.Tensor:
        n, window, output_size, index_format = call
        ctx.save_for_backward(indices)
        ctx.set_materialize_grads(False)
        ctx.geometry = n, window, index_format
        return _calls.max_unpool(n, input.detach(), indices, window, output_size, index_format)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        if grad is None:
            return None, None, None
        (indices,) = ctx.saved_tensors
        n, window, index_format = ctx.geometry
        if torch.is_grad_enabled() or watcher(grad, indices):
            result = unpool_gradient(grad, indices, _operators.lists(n, *window), index_format)
        else:
            result = _recorded(_calls.max_unpool_backward, n, grad, indices, window, index_format)
        return result, None, None


def _recorded(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a call, which profilers show under the name of the equivalent operator."""
    if not _profiler._is_profiler_enabled:
        return function(*arguments)
    with torch.profiler.record_function(f"cunpool::{function.__name__}"):
        return function(*arguments)


def max_pool(
    n: int,
    input: torch.Tensor,
    window: EvenWindow,
    ceil_mode: bool,
    return_indices: bool,
    index_format: IndexFormat = "plane",
    recorded: bool = False,
) -> Any:
    """Pooling over `n` spatial axes, by kernels unless it is traced. `recorded`: profilers already record it."""
    # Speed: for plain tensors these checks replace `watcher`, whose other checks PyTorch's own pooling does not need.
    # While PyTorch traces, sizes are tensors.
    plain = type(input) is _TENSOR and not has_torch_function_unary(input)
    count = input.numel() if plain else -1
    if (
        type(count) is not int
        or is_dynamo_compiling()
        or get_dynamic_layer_stack_depth()
        or _len_torch_dispatch_stack()
        or _forward_ad._current_level >= 0
        or (not plain and (has_torch_function_unary(input) or watcher(input)))
    ):
        return _traced.max_pool(n, input, window, ceil_mode, return_indices, index_format)
    if _profiler._is_profiler_enabled and not recorded:
        return _recorded(max_pool, n, input, window, ceil_mode, return_indices, index_format, True)
    kernel_size: Any
    stride: Any
    padding: Any
    kernel_size, stride, padding, dilation = window
    if ceil_mode is not False and ceil_mode is not True:
        ceil_mode = _geometry.flag("ceil_mode", ceil_mode)
    if return_indices is not False and return_indices is not True:
        return_indices = _geometry.flag("return_indices", return_indices)
    # A dilated window may have no element of the input: PyTorch would then write its gradient out of bounds.
    theirs = dilation == 1
    if not (type(kernel_size) is type(padding) is type(dilation) is int and (stride is None or type(stride) is int)):
        kernel_size = _size(n, "kernel_size", kernel_size)
        stride = stride if stride is None else _size(n, "stride", stride)
        padding, dilation = _size(n, "padding", padding), _size(n, "dilation", dilation)
        window = kernel_size, stride, padding, dilation
        # PyTorch accepts fewer sizes than axes, which the messages below refuse.
        theirs = dilation == 1 and all(type(size) is not tuple or len(size) == n for size in window)
    if index_format != "plane" and _geometry.is_window(index_format) and return_indices:
        theirs = False
    if (
        theirs
        and plain
        and input.is_cpu
        and not _runtime.forked()  # after a fork, PyTorch would hang on threads that are gone
    ):
        try:
            # PyTorch handles some 1d inputs as channels-last. In 3d, channels-last has faults, and PyTorch refuses
            # gradients without a batch axis in some layouts. (correctness)
            if (count < LEAST or _are_few(input, count)) and (n == 2 or (input.is_contiguous() and input.ndim != 4)):
                step = kernel_size if stride is None else stride
                if ceil_mode:
                    results = THEIRS[n](input, kernel_size, step, padding, 1, True)
                elif padding:  # each argument takes time
                    results = THEIRS[n](input, kernel_size, step, padding)
                else:
                    results = THEIRS[n](input, kernel_size, step)
                return results if return_indices else results[0]
        except (RuntimeError, TypeError, ValueError):
            pass  # the messages below are better
    if plain and (not input.is_cpu or is_legacy_batchedtensor(input)) and watcher(input):
        return _traced.max_pool(n, input, window, ceil_mode, return_indices, index_format)
    if getattr(input, "requires_grad", False):
        if torch.is_grad_enabled():
            return _MaxPool.apply(input, (n, window, ceil_mode, return_indices, index_format))
        input = input.detach()
    return _calls.max_pool(n, input, window, ceil_mode, return_indices, index_format)


def _size(n: int, name: str, size: Any) -> Any:
    """A size, read once: one integer if all axes have the same, because PyTorch is faster then."""
    if type(size) is tuple and size == size[:1] * n and [*map(type, size)].count(int) == n:
        return size[0]
    return _geometry.hashable(name, size)


def _are_few(input: torch.Tensor, count: int) -> bool:
    """Whether PyTorch's own pooling is faster on `count` elements with this layout and gradient."""
    last = not input.is_contiguous() and format_of(input) is not torch.contiguous_format
    grad = input.requires_grad and torch.is_grad_enabled()
    # cunpool adds channels-last float16 gradients one element at a time. (speed)
    few = count < FEW[last, grad][torch.get_num_threads() > 1]
    return few or (last and grad and input.dtype is torch.float16)


def max_unpool(
    n: int,
    input: torch.Tensor,
    indices: torch.Tensor,
    window: EvenWindow,
    output_size: Sequence[SupportsIndex] | None,
    index_format: IndexFormat = "plane",
    recorded: bool = False,
) -> torch.Tensor:
    """Unpooling over `n` spatial axes, by kernels unless it is traced. `recorded`: profilers already record it."""
    if has_torch_function_variadic(input, indices) or watcher(input, indices):
        return _traced.max_unpool(n, input, indices, window, output_size, index_format)
    if _profiler._is_profiler_enabled and not recorded:
        return _recorded(max_unpool, n, input, indices, window, output_size, index_format, True)
    if type(window[2]) is not int:
        _geometry.hashable("padding", window[2])  # pairs and names are refused
    try:
        if getattr(input, "requires_grad", False):
            if torch.is_grad_enabled():
                return _MaxUnpool.apply(input, indices, (n, _geometry.window(*window), output_size, index_format))
            input = input.detach()
        return _calls.max_unpool(n, input, indices, window, output_size, index_format)
    except (TypeError, ValueError):
        _traced.refuse_missing(n, input, indices, window)
        raise
