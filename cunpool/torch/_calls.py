"""The kernels on the memory of tensors, through the functions for NumPy arrays; autograd records nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

import torch

from cunpool import pooling, unpooling
from cunpool._geometry import EvenWindow, IndexFormat, Shape
from cunpool.torch._tensors import BITS, array_of, format_of, num_threads, reword, tensor_of

POOL_BACKWARD = {1: pooling.max_pool1d_backward, 2: pooling.max_pool2d_backward, 3: pooling.max_pool3d_backward}
UNPOOL = {1: unpooling.max_unpool1d, 2: unpooling.max_unpool2d, 3: unpooling.max_unpool3d}
UNPOOL_BACKWARD = {
    1: unpooling.max_unpool1d_backward,
    2: unpooling.max_unpool2d_backward,
    3: unpooling.max_unpool3d_backward,
}


def max_pool(
    n: int,
    input: torch.Tensor,
    window: EvenWindow,
    ceil_mode: bool,
    return_indices: bool,
    index_format: IndexFormat = "plane",
) -> Any:  # a tensor, or two with `return_indices`
    """The maxima, and their indices with `return_indices`."""
    dtype = getattr(input, "dtype", None)
    array = array_of(input, "input", dtype)
    # The private function is faster on small calls. Neither index_dtype nor out is given. (speed)
    options = index_format, None, None, num_threads(array), False  # no warnings about the layout of tensors
    try:
        result: Any = pooling._max_pool(n, array, window, ceil_mode, return_indices, *options)
    except ValueError as error:
        reword(error)
        raise
    if not return_indices:
        return tensor_of(result, dtype)
    return tensor_of(result[0], dtype), tensor_of(result[1])


def max_pool_backward(
    n: int,
    grad: torch.Tensor,
    indices: torch.Tensor,
    shape: Shape,
    window: EvenWindow,
    index_format: IndexFormat = "plane",
) -> torch.Tensor:
    """Pooling's gradient, in the memory format of `indices`."""
    array, index_array = array_of(_like(grad, indices), "grad_output", grad.dtype), array_of(indices, "indices")
    threads = num_threads(array)
    result = POOL_BACKWARD[n](array, index_array, shape, *window, index_format=index_format, num_threads=threads)
    return tensor_of(result, grad.dtype)


def max_unpool(
    n: int,
    input: torch.Tensor,
    indices: torch.Tensor,
    window: EvenWindow,
    output_size: Sequence[SupportsIndex] | None,
    index_format: IndexFormat = "plane",
) -> torch.Tensor:
    """Zeros, with the values written at their indices."""
    dtype = getattr(input, "dtype", None)
    array, index_array = array_of(input, "input", dtype, BITS), array_of(indices, "indices")
    if output_size is not None and type(output_size) is torch.Size:
        output_size = tuple(output_size)  # quicker to check
    kernel_size, stride, padding, dilation = window
    threads = num_threads(array)
    try:
        result = UNPOOL[n](
            array, index_array, kernel_size, stride, padding, output_size,
            dilation=dilation, index_format=index_format, num_threads=threads,
        )  # fmt: skip
    except (ValueError, IndexError) as error:
        reword(error)
        raise
    return tensor_of(result, dtype)


def max_unpool_backward(
    n: int,
    grad: torch.Tensor,
    indices: torch.Tensor,
    window: EvenWindow,
    index_format: IndexFormat = "plane",
) -> torch.Tensor:
    """The elements of `grad` at `indices`, in the memory format of `indices`."""
    array, index_array = array_of(_like(grad, indices), "grad_output", grad.dtype, BITS), array_of(indices, "indices")
    kernel_size, stride, padding, dilation = window
    threads = num_threads(array)
    result = UNPOOL_BACKWARD[n](
        array,
        index_array,
        kernel_size,
        stride,
        padding,
        dilation=dilation,
        index_format=index_format,
        num_threads=threads,
    )
    return tensor_of(result, grad.dtype)


def _like(grad: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """A gradient, converted to the memory format of the indices."""
    return grad.contiguous(memory_format=format_of(indices))
