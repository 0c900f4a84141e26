"""Adaptive pooling and unpooling: kernels on the memory of tensors, with gradients.

Calls that are compiled, exported, traced or transformed use PyTorch's own adaptive pooling, gather and scatter, so that
no operator is registered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

import torch
import torch.autograd.profiler as _profiler
import torch.nn.functional as F
from torch.overrides import handle_torch_function, has_torch_function

from cunpool import _geometry, adaptive
from cunpool._geometry import OutputSize, Shape
from cunpool._kernels import runtime as _runtime
from cunpool.torch import _calls, _composite, _eager, _traced
from cunpool.torch._tensors import (
    BITS,
    array_of,
    check_indices_dtype,
    check_indices_shape,
    format_of,
    num_threads,
    tensor_of,
)
from cunpool.torch._watching import watcher

# PyTorch's own functions, from before `patched` replaces them.
THEIRS = {1: torch.adaptive_max_pool1d, 2: torch._C._nn.adaptive_max_pool2d, 3: torch._C._nn.adaptive_max_pool3d}
FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})

_POOL = {n: getattr(adaptive, f"adaptive_max_pool{n}d") for n in (1, 2, 3)}
_POOL_BACKWARD = {n: getattr(adaptive, f"adaptive_max_pool{n}d_backward") for n in (1, 2, 3)}
_UNPOOL = {n: getattr(adaptive, f"adaptive_max_unpool{n}d") for n in (1, 2, 3)}
_UNPOOL_BACKWARD = {n: getattr(adaptive, f"adaptive_max_unpool{n}d_backward") for n in (1, 2, 3)}


def _pool(n: int, input: torch.Tensor, output_size: OutputSize, return_indices: bool) -> Any:
    dtype = getattr(input, "dtype", None)
    array = array_of(input, "input", dtype)
    result = _POOL[n](array, output_size, return_indices, num_threads=num_threads(array))
    if not return_indices:
        return tensor_of(result, dtype)
    return tensor_of(result[0], dtype), tensor_of(result[1])


def adaptive_max_pool_backward(n: int, grad: torch.Tensor, indices: torch.Tensor, shape: Shape) -> torch.Tensor:
    """Pooling's gradient, in the memory format of `indices`."""
    array = array_of(_calls._like(grad, indices), "grad_output", grad.dtype)
    places = array_of(indices, "indices")
    return tensor_of(_POOL_BACKWARD[n](array, places, shape, num_threads=num_threads(array)), grad.dtype)


def _unpool(n: int, input: torch.Tensor, indices: torch.Tensor, output_size: Sequence[SupportsIndex]) -> torch.Tensor:
    dtype = getattr(input, "dtype", None)
    array, places = array_of(input, "input", dtype, BITS), array_of(indices, "indices")
    return tensor_of(_UNPOOL[n](array, places, output_size, num_threads=num_threads(array)), dtype)


def adaptive_max_unpool_backward(n: int, grad: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """The elements of `grad` at `indices`, in the memory format of `indices`."""
    array = array_of(_calls._like(grad, indices), "grad_output", grad.dtype, BITS)
    places = array_of(indices, "indices")
    return tensor_of(_UNPOOL_BACKWARD[n](array, places, num_threads=num_threads(array)), grad.dtype)


class _AdaptiveMaxPool(torch.autograd.Function):
    """Adaptive pooling whose gradient cunpool computes."""

    @staticmethod
    def forward(ctx: Any, input: torch.Tensor, call: tuple[int, OutputSize, bool]) -> Any:
        n, output_size, return_indices = call
        values, indices = _pool(n, input.detach(), output_size, True)
        ctx.save_for_backward(indices)
        ctx.set_materialize_grads(False)
        ctx.geometry = n, tuple(input.shape)
        if not return_indices:
            return values
        ctx.mark_non_differentiable(indices)
        return values, indices

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor | None, _: object = None) -> tuple[torch.Tensor | None, ...]:
        if grad is None:
            return None, None
        (indices,) = ctx.saved_tensors
        n, shape = ctx.geometry
        if torch.is_grad_enabled() or watcher(grad, indices):  # a second derivative, or a batch of gradients
            return _composite.scatter_add(n, grad, indices, shape[-n:]), None
        return _eager._recorded(adaptive_max_pool_backward, n, grad, indices, shape), None


class _AdaptiveMaxUnpool(torch.autograd.Function):
    """Adaptive unpooling whose gradient cunpool computes."""

    @staticmethod
    def forward(
        ctx: Any, input: torch.Tensor, indices: torch.Tensor, call: tuple[int, Sequence[SupportsIndex]]
    ) -> torch.Tensor:
        n, output_size = call
        ctx.save_for_backward(indices)
        ctx.set_materialize_grads(False)
        ctx.n = n
        return _unpool(n, input.detach(), indices, output_size)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        if grad is None:
            return None, None, None
        (indices,) = ctx.saved_tensors
        if torch.is_grad_enabled() or watcher(grad, indices):
            return _composite.gather(ctx.n, grad, indices.to(torch.int64)), None, None
        return _eager._recorded(adaptive_max_unpool_backward, ctx.n, grad, indices), None, None


def is_theirs(n: int, input: torch.Tensor) -> bool:
    """Whether PyTorch's own pooling is faster: on few elements, and with channels last."""
    if not input.is_cpu or input.dtype not in FLOATS or not input.numel() or _runtime.forked():
        return False
    if input.is_contiguous():
        return input.numel() < _eager.LEAST
    return n == 2 and (input.numel() < _eager.LEAST or format_of(input) is torch.channels_last)


def adaptive_max_pool(
    n: int, input: torch.Tensor, output_size: OutputSize, return_indices: bool, recorded: bool = False
) -> Any:
    """Adaptive pooling over `n` spatial axes. `recorded`: profilers already record it."""
    if has_torch_function((input,)):
        function = _traced.PUBLIC[f"adaptive_max_pool{n}d"]
        return handle_torch_function(function, (input,), input, output_size, return_indices)
    return_indices = _geometry.flag("return_indices", return_indices)
    if watcher(input):
        return getattr(F, f"adaptive_max_pool{n}d")(input, output_size, return_indices)
    if _profiler._is_profiler_enabled and not recorded:
        return _eager._recorded(adaptive_max_pool, n, input, output_size, return_indices, True)
    output_size = _geometry.hashable_output(output_size)
    if isinstance(input, torch.Tensor):
        if is_theirs(n, input):
            size = _geometry.adaptive_pooling(n, tuple(input.shape), output_size)[0][-n:]
            values, indices = THEIRS[n](input, size)
            return (values, indices) if return_indices else values
        if input.requires_grad and torch.is_grad_enabled():
            return _AdaptiveMaxPool.apply(input, (n, output_size, return_indices))
        input = input.detach()
    return _pool(n, input, output_size, return_indices)


def adaptive_max_unpool(
    n: int,
    input: torch.Tensor,
    indices: torch.Tensor,
    output_size: Sequence[SupportsIndex],
    recorded: bool = False,
) -> torch.Tensor:
    """Adaptive unpooling over `n` spatial axes. `recorded`: profilers already record it."""
    if has_torch_function((input, indices)):
        function = _traced.PUBLIC[f"adaptive_max_unpool{n}d"]
        return handle_torch_function(function, (input, indices), input, indices, output_size)
    if watcher(input, indices):
        if not torch.jit.is_tracing():  # sizes are tensors then
            check_indices_shape(input, indices)
        check_indices_dtype(indices)
        size: Any = [*output_size][-n:]
        return _composite.scatter(n, input, indices.to(torch.int64), size)
    if _profiler._is_profiler_enabled and not recorded:
        return _eager._recorded(adaptive_max_unpool, n, input, indices, output_size, True)
    if getattr(input, "requires_grad", False):
        if torch.is_grad_enabled():
            return _AdaptiveMaxUnpool.apply(input, indices, (n, output_size))
        input = input.detach()
    return _unpool(n, input, indices, output_size)
