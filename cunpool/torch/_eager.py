"""The direct way: kernels on a tensor's memory, gradients for autograd, and what PyTorch's own operators do faster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, SupportsIndex

import torch

from cunpool import _geometry, _threads
from cunpool._geometry import Fixed, Shape, Window
from cunpool.torch import _kernels
from cunpool.torch._kernels import Spacing
from cunpool.torch._tensors import format_of

# Below so many elements PyTorch's own pooling is faster, which has no arguments to take apart and no arrays to wrap:
# for one thread and for more, by whether the input is channels-last and whether autograd takes part. Measured.
FEW = {
    (False, False): (1 << 12, 1 << 15),
    (False, True): (1 << 14, 1 << 16),
    (True, False): (1 << 15, 1 << 17),
    (True, True): (1 << 18, 1 << 18),
}
LEAST = 1 << 12  # few for any kind
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
        ctx: Any, input: torch.Tensor, n: int, window: Fixed, ceil_mode: bool, return_indices: bool
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        values, indices = _kernels.max_pool(n, input, window, ceil_mode, True)
        ctx.save_for_backward(indices)
        ctx.set_materialize_grads(False)
        ctx.geometry = n, tuple(input.shape), window
        if not return_indices:
            return values
        ctx.mark_non_differentiable(indices)
        return values, indices

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor | None, _: object = None) -> tuple[torch.Tensor | None, ...]:
        if grad is None:
            return (None,) * 5
        (indices,) = ctx.saved_tensors
        n, shape, window = ctx.geometry
        if torch.is_grad_enabled():  # for a second derivative
            return _MaxPoolBackward.apply(grad, indices, n, shape, window), None, None, None, None
        return _kernels.max_pool_backward(n, grad, indices, shape, window), None, None, None, None


class _MaxPoolBackward(torch.autograd.Function):
    """Pooling's gradient, whose own gradient is PyTorch's to differentiate."""

    @staticmethod
    def forward(
        ctx: Any, grad: torch.Tensor, indices: torch.Tensor, n: int, shape: Shape, window: Fixed
    ) -> torch.Tensor:
        ctx.save_for_backward(indices)
        ctx.n = n
        return _kernels.max_pool_backward(n, grad, indices, shape, window)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (indices,) = ctx.saved_tensors
        gathered = grad.flatten(-ctx.n).gather(-1, indices.flatten(-ctx.n)).view(indices.shape)
        return gathered, None, None, None, None


class _MaxUnpool(torch.autograd.Function):
    """Unpooling whose gradient cunpool computes."""

    @staticmethod
    def forward(
        ctx: Any,
        input: torch.Tensor,
        indices: torch.Tensor,
        n: int,
        window: Fixed,
        output_size: Sequence[SupportsIndex] | None,
    ) -> torch.Tensor:
        ctx.save_for_backward(indices)
        ctx.set_materialize_grads(False)
        ctx.geometry = n, window
        return _kernels.max_unpool(n, input, indices, window[:3], output_size)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        if grad is None:
            return (None,) * 5
        (indices,) = ctx.saved_tensors
        n, window = ctx.geometry
        if torch.is_grad_enabled():  # for a second derivative
            return _MaxUnpoolBackward.apply(grad, indices, n, window), None, None, None, None
        return _kernels.max_unpool_backward(n, grad, indices, window[:3]), None, None, None, None


class _MaxUnpoolBackward(torch.autograd.Function):
    """Unpooling's gradient, whose own gradient is PyTorch's to differentiate."""

    @staticmethod
    def forward(ctx: Any, grad: torch.Tensor, indices: torch.Tensor, n: int, window: Fixed) -> torch.Tensor:
        ctx.save_for_backward(indices)
        ctx.n, ctx.shape = n, grad.shape
        return _kernels.max_unpool_backward(n, grad, indices, window[:3])

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        places = ctx.saved_tensors[0].to(torch.int64).flatten(-ctx.n)
        zeros = grad.new_zeros((*ctx.shape[: -ctx.n], math.prod(ctx.shape[-ctx.n :])))
        return zeros.scatter_add(-1, places, grad.flatten(-ctx.n)).view(ctx.shape), None, None, None


def max_pool(n: int, input: torch.Tensor, window: Window, ceil_mode: bool, return_indices: bool) -> Any:
    """Pooling over `n` spatial axes."""
    kernel_size: Any
    stride: Any
    padding: Any
    kernel_size, stride, padding, dilation = window
    if not (type(kernel_size) is type(padding) is type(dilation) is int and (stride is None or type(stride) is int)):
        kernel_size = _size(n, "kernel_size", kernel_size)
        stride = stride if stride is None else _size(n, "stride", stride)
        padding, dilation = _size(n, "padding", padding), _size(n, "dilation", dilation)
        window = kernel_size, stride, padding, dilation
    if (
        type(input) is _TENSOR
        and (input.numel() < LEAST or _are_few(input))
        and input.is_cpu
        # Else windows may have no cell, and PyTorch would write their gradients to places that there are not.
        and dilation == 1
        # PyTorch alone knows what to do with fewer sizes than axes.
        and (type(kernel_size) is int or len(kernel_size) == n)
        and (stride is None or type(stride) is int or len(stride) == n)
        and (type(padding) is int or len(padding) == n)
        and not _threads._forked  # PyTorch's threads do not survive a fork, and it waits for them
    ):
        try:
            # As if it were 2d, PyTorch takes some 1d for channels-last; in 3d that has faults of its own, and gradients
            # without a batch are refused in some layouts.
            if n == 2 or (input.is_contiguous() and input.ndim != 4):
                step = kernel_size if stride is None else stride
                if ceil_mode:
                    results = THEIRS[n](input, kernel_size, step, padding, 1, True)
                else:  # each argument takes its time
                    results = THEIRS[n](input, kernel_size, step, padding)
                return results if return_indices else results[0]
        except (RuntimeError, TypeError):
            pass  # the messages below are better
    if getattr(input, "requires_grad", False) and torch.is_grad_enabled():
        return _MaxPool.apply(input, n, window, ceil_mode, return_indices)
    return _kernels.max_pool(n, input, window, ceil_mode, return_indices)


def _size(n: int, name: str, size: Any) -> Any:
    """A size, read once, for whoever computes; one for all axes where they have the same, for PyTorch is quicker."""
    if type(size) is tuple and size == size[:1] * n and [*map(type, size)].count(int) == n:
        return size[0]
    return _geometry.hashable(name, size)


def _are_few(input: torch.Tensor) -> bool:
    """Whether PyTorch's own pooling of so many elements, of this kind, is faster."""
    if input.layout is not torch.strided:
        return False
    last = format_of(input) is not torch.contiguous_format
    grad = input.requires_grad and torch.is_grad_enabled()
    # Half-precision gradients of all channels at once are added one by one here.
    few = input.numel() < FEW[last, grad][torch.get_num_threads() > 1]
    return few or (last and grad and input.dtype is torch.float16)


def max_unpool(
    n: int, input: torch.Tensor, indices: torch.Tensor, window: Spacing, output_size: Sequence[SupportsIndex] | None
) -> torch.Tensor:
    """Unpooling over `n` spatial axes."""
    if getattr(input, "requires_grad", False) and torch.is_grad_enabled():
        return _MaxUnpool.apply(input, indices, n, _geometry.window(*window, 1), output_size)
    return _kernels.max_unpool(n, input, indices, window, output_size)
