"""The kernels on the memory of tensors: what NumPy's front ends do, without a word to autograd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

import torch

from cunpool import pooling, unpooling
from cunpool._geometry import Shape, Size, Window
from cunpool.torch._tensors import BITS, array_of, format_of, in_format, num_threads, tensor_of

Spacing = tuple[Size, Size | None, Size]
"""kernel_size, stride and padding: unpooling in PyTorch knows no dilation."""

POOL = {1: pooling.max_pool1d, 2: pooling.max_pool2d, 3: pooling.max_pool3d}
POOL_BACKWARD = {1: pooling.max_pool1d_backward, 2: pooling.max_pool2d_backward, 3: pooling.max_pool3d_backward}
UNPOOL = {1: unpooling.max_unpool1d, 2: unpooling.max_unpool2d, 3: unpooling.max_unpool3d}
UNPOOL_BACKWARD = {
    1: unpooling.max_unpool1d_backward,
    2: unpooling.max_unpool2d_backward,
    3: unpooling.max_unpool3d_backward,
}

_BOOL = torch.bool


def max_pool(
    n: int, input: torch.Tensor, window: Window, ceil_mode: bool, return_indices: bool, **options: Any
) -> Any:  # a tensor, or two: `return_indices` says
    """The maxima, and where they were."""
    array = array_of(input, "input")
    if input.dtype is _BOOL:
        raise TypeError("input must be of integers or floats, got torch.bool; pool tensor.view(torch.uint8)")
    result = POOL[n](array, *window, ceil_mode, return_indices, num_threads=num_threads(array), **options)
    if not return_indices:
        return in_format(tensor_of(result, input.dtype))
    values, places = result
    return in_format(tensor_of(values, input.dtype)), in_format(torch.from_numpy(places))


def max_pool_backward(
    n: int, grad: torch.Tensor, indices: torch.Tensor, shape: Shape, window: Window, **options: Any
) -> torch.Tensor:
    """What the windows give back to the cells that they chose, laid out as `indices` are."""
    array, places = array_of(_like(grad, indices), "grad_output"), array_of(indices, "indices")
    result = POOL_BACKWARD[n](array, places, shape, *window, num_threads=num_threads(array), **options)
    return tensor_of(result, grad.dtype)


def max_unpool(
    n: int,
    input: torch.Tensor,
    indices: torch.Tensor,
    window: Spacing,
    output_size: Sequence[SupportsIndex] | None,
    **options: Any,
) -> torch.Tensor:
    """The values at their places."""
    array, places = array_of(input, "input", BITS), array_of(indices, "indices")
    if output_size is not None and type(output_size) is torch.Size:
        output_size = tuple(output_size)  # quicker to check
    try:
        result = UNPOOL[n](array, places, *window, output_size, num_threads=num_threads(array), **options)
    except TypeError:
        if indices.dtype is torch.bfloat16:  # which NumPy does not know by name
            raise TypeError(f"indices must be of integers, got {indices.dtype}") from None
        raise
    return in_format(tensor_of(result, input.dtype))


def max_unpool_backward(
    n: int, grad: torch.Tensor, indices: torch.Tensor, window: Spacing, **options: Any
) -> torch.Tensor:
    """What `grad` has at each place, laid out as `indices` are."""
    array, places = array_of(_like(grad, indices), "grad_output", BITS), array_of(indices, "indices")
    result = UNPOOL_BACKWARD[n](array, places, *window, num_threads=num_threads(array), **options)
    return tensor_of(result, grad.dtype)


def _like(grad: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """A gradient in the layout of the indices, whatever layout it came in, or none."""
    return grad.contiguous(memory_format=format_of(indices))
