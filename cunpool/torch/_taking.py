"""Elements at indices: a kernel on the memory of tensors, or PyTorch's own gather in traced and transformed calls.

No operator is registered for this, because PyTorch compiles, exports and differentiates its own gather.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.autograd.profiler as _profiler
from torch.overrides import handle_torch_function, has_torch_function

from cunpool import _geometry, taking
from cunpool._geometry import Fixed, IndexFormat, Shape, Size
from cunpool.torch import _calls, _composite, _eager, _operators, _traced
from cunpool.torch._tensors import BITS, array_of, num_threads, tensor_of
from cunpool.torch._watching import watcher

TAKE = {1: taking.take_at1d, 2: taking.take_at2d, 3: taking.take_at3d}

Given = tuple[Size | None, Size | None, Size, Size]
"""kernel_size, stride, padding and dilation as the caller gave them."""


class _TakeAt(torch.autograd.Function):
    """Taking elements. The gradient adds where an element is taken more than once."""

    @staticmethod
    def forward(
        ctx: Any, input: torch.Tensor, indices: torch.Tensor, call: tuple[int, Given, IndexFormat]
    ) -> torch.Tensor:
        ctx.save_for_backward(indices)
        ctx.set_materialize_grads(False)
        ctx.geometry = tuple(input.shape), call
        return _take_at(input.detach(), indices, *call)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        if grad is None:
            return None, None, None
        (indices,) = ctx.saved_tensors
        shape, call = ctx.geometry
        if torch.is_grad_enabled() or watcher(grad, indices):  # a second derivative, or a batch of gradients
            return _scatter_added(grad, indices, shape, *call), None, None
        return _eager._recorded(take_at_backward, grad, indices, shape, *call), None, None


def take_at(
    n: int,
    input: torch.Tensor,
    indices: torch.Tensor,
    window: Given,
    index_format: IndexFormat,
    recorded: bool = False,
) -> torch.Tensor:
    """Taking over `n` spatial axes. `recorded`: whether profilers record it already."""
    if has_torch_function((input, indices)):
        function, rest = _traced.PUBLIC[f"take_at{n}d"], {"dilation": window[3], "index_format": index_format}
        return handle_torch_function(function, (input, indices), input, indices, *window[:3], **rest)
    if watcher(input, indices):
        return _gathered(input, indices, n, window, index_format)
    if _profiler._is_profiler_enabled and not recorded:
        return _eager._recorded(take_at, n, input, indices, window, index_format, True)
    if getattr(input, "requires_grad", False):
        if torch.is_grad_enabled():
            return _TakeAt.apply(input, indices, (n, window, index_format))
        input = input.detach()
    return _take_at(input, indices, n, window, index_format)


def _take_at(
    input: torch.Tensor, indices: torch.Tensor, n: int, window: Given, index_format: IndexFormat
) -> torch.Tensor:
    dtype = getattr(input, "dtype", None)
    array, index_array = array_of(input, "input", dtype, BITS), array_of(indices, "indices")
    kernel_size, stride, padding, dilation = window
    if type(padding) is not int:
        _geometry.hashable("padding", padding)  # pairs and names are refused
    threads = num_threads(index_array)
    result = TAKE[n](
        array,
        index_array,
        kernel_size,
        stride,
        padding,
        dilation=dilation,
        index_format=index_format,
        num_threads=threads,
    )
    return tensor_of(result, dtype)


def take_at_backward(
    grad: torch.Tensor, indices: torch.Tensor, shape: Shape, n: int, window: Given, index_format: IndexFormat
) -> torch.Tensor:
    """The sum of `grad` at each element, by pooling's gradient if that supports the sizes."""
    if grad.dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        fixed: Fixed | None
        if index_format == "window":
            fixed = _geometry.window(*window)  # type: ignore[arg-type]
        elif (fixed := _window_between(n, shape, tuple(indices.shape))) and indices.element_size() < 4:
            indices = indices.to(torch.int64)  # no warning about small dtypes: the window is made up
        if fixed and _is_pooling(n, shape, tuple(grad.shape), fixed):
            return _calls.max_pool_backward(n, grad, indices, shape, fixed, index_format)  # type: ignore[arg-type]
    return _scatter_added(grad, indices, shape, n, window, index_format)


def _window_between(n: int, shape: Shape, pooled: Shape) -> Fixed | None:
    """Windows with which pooling `shape` gives `pooled`, or None."""
    if any(count > size for count, size in zip(pooled[-n:], shape[-n:], strict=True)):
        return None
    return *_geometry.window_between(shape[-n:], pooled[-n:]), 0, 1


def _is_pooling(n: int, shape: Shape, pooled: Shape, window: Fixed) -> bool:
    """Whether pooling `shape` by these windows gives `pooled`."""
    try:
        _geometry.pooled_from(n, shape, pooled, window)
    except (ValueError, OverflowError):
        return False
    return True


def _gathered(
    input: torch.Tensor, indices: torch.Tensor, n: int, window: Given, index_format: IndexFormat
) -> torch.Tensor:
    """Taking by PyTorch's operators."""
    positions = _positions(indices, input.shape, n, window, index_format)
    return _composite.gather(n, input, positions)


def _scatter_added(
    grad: torch.Tensor, indices: torch.Tensor, shape: Shape, n: int, window: Given, index_format: IndexFormat
) -> torch.Tensor:
    """The gradient of taking by PyTorch's operators."""
    positions = _positions(indices, shape, n, window, index_format)
    return _composite.scatter_add(n, grad, positions, shape[-n:])


def _positions(
    indices: torch.Tensor, shape: torch.Size | Shape, n: int, window: Given, index_format: IndexFormat
) -> torch.Tensor:
    """Plane indices in int64. A code without an element of the plane becomes the index just past the plane's end."""
    if len(shape) not in (n + 1, n + 2):
        raise ValueError(f"input must have {n + 1} or {n + 2} axes, (C, *spatial) or (N, C, *spatial), got {shape}")
    if indices.ndim != len(shape) or indices.shape[:-n] != shape[:-n]:
        raise ValueError(
            f"indices must have the N and C of input, and {n} spatial axes, got {tuple(indices.shape)} for {shape}"
        )
    if indices.is_floating_point() or indices.is_complex() or indices.dtype is torch.bool:
        raise TypeError(f"indices must be of integers, got {indices.dtype}")
    codes, given = indices.to(torch.int64), window[0]
    if not _geometry.is_window(index_format):
        return codes
    if given is None:
        raise TypeError("kernel_size must be given with index_format='window', got None")
    kernel_size, stride, padding, dilation = _operators.lists(n, given, *window[1:])
    full, pooled = shape[-n:], indices.shape[-n:]
    inside = (codes >= 0) & (codes < math.prod(kernel_size))
    positions, left = torch.zeros_like(codes), codes
    step = 1
    for axis in reversed(range(n)):
        starts = torch.arange(pooled[axis], device=codes.device) * stride[axis] - padding[axis]
        at = left % kernel_size[axis] * dilation[axis] + starts.reshape((-1,) + (1,) * (n - 1 - axis))
        left = left // kernel_size[axis]
        inside = inside & (at >= 0) & (at < full[axis])
        positions, step = positions + at * step, step * full[axis]
    return torch.where(inside, positions, step)
