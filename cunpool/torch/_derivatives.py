"""Derivatives of the operators, and batches of them; importing this registers both.

Pooling's and unpooling's gradients are operators themselves, so a second derivative finds its way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from cunpool.torch._operators import (
    Ints,
    max_pool,
    max_pool_backward,
    max_pool_with_indices,
    max_unpool,
    max_unpool_backward,
)
from cunpool.torch._tensors import format_of


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Keep what pooling's gradient needs: the indices, or what they can be had from."""
    input, *window = inputs
    ctx.geometry = input.shape, window
    if isinstance(output, tuple):
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])
    else:
        ctx.save_for_backward(input)


def _pool_gradient(ctx: Any, grad: torch.Tensor, *_: object) -> tuple[torch.Tensor | None, ...]:
    (saved,) = ctx.saved_tensors
    shape, (kernel_size, stride, padding, dilation, *rest) = ctx.geometry
    window = kernel_size, stride, padding, dilation
    index_format = rest[1] if len(rest) == 2 else "plane"
    indices = saved if len(rest) == 2 else max_pool_with_indices(saved.detach(), *window, *rest)[1]
    size = shape[-len(kernel_size) :]
    return max_pool_backward(grad, indices, size, *window, index_format), *(None,) * (4 + len(rest))


def _keep_indices(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    first, indices, *rest = inputs
    ctx.save_for_backward(indices)
    ctx.shape, ctx.arguments = first.shape, rest


def _unpool_gradient(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    *window, _, index_format = ctx.arguments
    return max_unpool_backward(grad, ctx.saved_tensors[0], *window, index_format), *(None,) * 7


def _gather(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    """The gradient of pooling's gradient, which adds what meets: each of those receives what comes back."""
    _, *window, index_format = ctx.arguments
    return max_unpool_backward(grad, ctx.saved_tensors[0], *window, index_format), *(None,) * 7


def _scatter_add(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    """The gradient of unpooling's gradient, which reads the same place for several: what comes back is added there."""
    (indices,) = ctx.saved_tensors
    kernel_size, stride, padding, dilation, index_format = ctx.arguments
    n, size = len(kernel_size), ctx.shape[-len(kernel_size) :]
    if index_format == "window":
        places = places_of(indices, size, kernel_size, stride, padding, dilation)
    else:
        places = indices.to(torch.int64)
    flat = grad.new_zeros((*grad.shape[:-n], math.prod(size)))
    added = flat.scatter_add(-1, places.flatten(-n), grad.flatten(-n)).view(ctx.shape)
    return added.contiguous(memory_format=format_of(indices)), *(None,) * 6


def places_of(
    codes: torch.Tensor, size: Ints, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> torch.Tensor:
    """Window codes as places in the plane."""
    codes = codes.to(torch.int64)  # in which places and the numbers of cells have room
    places, cells, steps = torch.zeros_like(codes), 1, 1
    for axis in reversed(range(len(kernel_size))):
        tap = codes // cells % kernel_size[axis]
        windows = torch.arange(codes.shape[axis - len(kernel_size)]).view(-1, *(1,) * (len(kernel_size) - 1 - axis))
        places = places + (windows * stride[axis] - padding[axis] + tap * dilation[axis]) * steps
        cells, steps = cells * kernel_size[axis], steps * size[axis]
    return places


max_pool.register_autograd(_pool_gradient, setup_context=_keep)
max_pool_with_indices.register_autograd(_pool_gradient, setup_context=_keep)
max_pool_backward.register_autograd(_gather, setup_context=_keep_indices)
max_unpool.register_autograd(_unpool_gradient, setup_context=_keep_indices)
max_unpool_backward.register_autograd(_scatter_add, setup_context=_keep_indices)


# Batches of calls, which are calls of larger batches.


def _batched(operator: Any, n_tensors: int) -> Callable[..., Any]:
    def call(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        tensors = []
        for tensor, axis in zip(arguments[:n_tensors], in_dims, strict=False):
            tensors.append(tensor.expand(info.batch_size, *tensor.shape) if axis is None else tensor.movedim(axis, 0))
        n = len(arguments[n_tensors])
        lead = tensors[0].shape[: tensors[0].ndim - n - 1]
        if len(lead) == 2:  # (N, C, *spatial), many times
            tensors = [tensor.flatten(0, 1) for tensor in tensors]
        results = operator(*tensors, *arguments[n_tensors:])
        several = isinstance(results, tuple)
        results = tuple(result.unflatten(0, lead) for result in (results if several else (results,)))
        return (results, (0,) * len(results)) if several else (results[0], 0)

    return call


for _each, _count in (
    (max_pool, 1), (max_pool_with_indices, 1), (max_pool_backward, 2), (max_unpool, 2), (max_unpool_backward, 2)
):  # fmt: skip
    _each.register_vmap(_batched(_each, _count))
