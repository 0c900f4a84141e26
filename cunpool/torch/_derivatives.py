"""Derivatives and batching rules of the operators; importing this module registers both.

Gradients are operators too, so that second derivatives work. The operators refuse forward mode: `_traced` calls
PyTorch's own gather and scatter there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.autograd.forward_ad as _forward_ad
from torch._library.autograd import make_autograd_impl

from cunpool._geometry import IndexFormat
from cunpool.torch import _composite
from cunpool.torch._composite import Ints, positions_of
from cunpool.torch._operators import (
    max_pool,
    max_pool_backward,
    max_pool_with_indices,
    max_unpool,
    max_unpool_backward,
)
from cunpool.torch._tensors import format_of
from cunpool.torch._watching import TRANSFORM, watcher


def _keep_input(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.arguments = inputs[1:]


def _pool_gradient(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    (input,) = ctx.saved_tensors
    *window, ceil_mode = ctx.arguments
    _, indices = max_pool_with_indices(input.detach(), *window, ceil_mode)
    return pool_gradient(grad, indices, input.shape[-len(window[0]) :], window, "plane"), *(None,) * 5


def _keep_output(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])
    ctx.shape, ctx.arguments = inputs[0].shape, inputs[1:]


def _pool_with_indices_gradient(ctx: Any, grad: torch.Tensor, _: object) -> tuple[torch.Tensor | None, ...]:
    (indices,) = ctx.saved_tensors
    *window, _, index_format = ctx.arguments
    return pool_gradient(grad, indices, ctx.shape[-len(window[0]) :], window, index_format), *(None,) * 6


def pool_gradient(
    grad: torch.Tensor, indices: torch.Tensor, size: Ints, window: Sequence[Ints], index_format: IndexFormat
) -> torch.Tensor:
    """Pooling's gradient, which can be differentiated, traced and transformed."""
    n = len(size)
    if watcher(grad, indices) == TRANSFORM:
        return _composite.scatter_add(n, grad, positions_of(indices, size, window, index_format), size)
    return max_pool_backward(grad, indices, size, *window, index_format)


def unpool_gradient(
    grad: torch.Tensor, indices: torch.Tensor, window: Sequence[Ints], index_format: IndexFormat
) -> torch.Tensor:
    """Unpooling's gradient, which can be differentiated, traced and transformed."""
    n = len(window[0])
    if watcher(grad, indices) == TRANSFORM:
        return _composite.gather(n, grad, positions_of(indices, grad.shape[-n:], window, index_format))
    return max_unpool_backward(grad, indices, *window, index_format)


def _keep_indices(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    first, indices, *rest = inputs
    ctx.save_for_backward(indices)
    ctx.shape, ctx.arguments = first.shape, rest


def _unpool_gradient(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    *window, _, index_format = ctx.arguments
    return unpool_gradient(grad, ctx.saved_tensors[0], window, index_format), *(None,) * 7


def _gather(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    """The gradient of pooling's gradient. The latter adds elements, so each receives the gradient of the sum."""
    _, *window, index_format = ctx.arguments
    return unpool_gradient(grad, ctx.saved_tensors[0], window, index_format), *(None,) * 7


def _scatter_add(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    """The gradient of unpooling's gradient. The latter may read an element twice, so gradients are added."""
    (indices,) = ctx.saved_tensors
    *window, index_format = ctx.arguments
    n = len(window[0])
    size = ctx.shape[-n:]
    result = _composite.scatter_add(n, grad, positions_of(indices, size, window, index_format), size)
    if watcher(grad, indices) != TRANSFORM:  # batches have one layout
        result = result.contiguous(memory_format=format_of(indices))
    return result, *(None,) * 6


max_pool.register_autograd(_pool_gradient, setup_context=_keep_input)
max_pool_with_indices.register_autograd(_pool_with_indices_gradient, setup_context=_keep_output)
max_pool_backward.register_autograd(_gather, setup_context=_keep_indices)
max_unpool.register_autograd(_unpool_gradient, setup_context=_keep_indices)
max_unpool_backward.register_autograd(_scatter_add, setup_context=_keep_indices)


# Batching rules: a batch of calls is one call with a larger N.


def _batched(operator: Any, n_tensors: int) -> Callable[..., Any]:
    def call(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        tensors = []
        for tensor, axis in zip(arguments[:n_tensors], in_dims, strict=False):
            tensors.append(tensor.expand(info.batch_size, *tensor.shape) if axis is None else tensor.movedim(axis, 0))
        n = len(arguments[n_tensors])
        lead = tensors[0].shape[: tensors[0].ndim - n - 1]
        if len(lead) == 2:  # a batch of (N, C, *spatial)
            tensors = [tensor.flatten(0, 1) for tensor in tensors]
        results = operator(*tensors, *arguments[n_tensors:])
        several = isinstance(results, tuple)
        results = tuple(result.unflatten(0, lead) for result in (results if several else (results,)))
        return (results, (0,) * len(results)) if several else (results[0], 0)

    return call


def _without_forward_mode(operator: Any) -> Callable[..., Any]:
    """The operator's autograd kernel, with an error for tangents: PyTorch would silently return zero tangents."""
    kernel = make_autograd_impl(operator._opoverload, operator)

    def checked(keyset: Any, *arguments: Any) -> Any:
        if _forward_ad._current_level >= 0:
            for argument in arguments:
                if isinstance(argument, torch.Tensor) and _forward_ad.unpack_dual(argument).tangent is not None:
                    raise NotImplementedError(
                        f"{operator._qualname} has no forward-mode derivative; the functions of cunpool.torch have"
                    )
        return kernel(keyset, *arguments)

    return checked


_AUTOGRAD = torch.library.Library("cunpool", "FRAGMENT")
for _each, _count in (
    (max_pool, 1), (max_pool_with_indices, 1), (max_pool_backward, 2), (max_unpool, 2), (max_unpool_backward, 2)
):  # fmt: skip
    _each.register_vmap(_batched(_each, _count))
    _AUTOGRAD.impl(_each._name, _without_forward_mode(_each), "AutogradCPU", with_keyset=True)
