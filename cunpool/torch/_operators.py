"""``torch.ops.cunpool``: the kernels as operators that PyTorch can trace, differentiate and batch.

The length of ``kernel_size`` is the number of spatial axes, and all other sizes have the same length, including
``input_size`` and ``output_size``. Fake kernels compute shapes and dtypes only, from sizes that may be symbols. Eager
calls do not use the operators, because their dispatch takes time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from cunpool import _geometry
from cunpool._geometry import IndexFormat, Size
from cunpool.torch import _calls
from cunpool.torch._tensors import check_indices_dtype, check_indices_shape, format_of, reword

_WINDOW = "int[] kernel_size, int[] stride, int[] padding, int[] dilation"
_FORMAT = 'str index_format="plane"'
_CODES = {1: torch.uint8, 2: torch.uint16}

Ints = Sequence[int]


def lists(n: int, kernel_size: Size, stride: Size | None, padding: Size, dilation: Size) -> list[list[int]]:
    """The window arguments of the operators: lists with one entry for each axis."""
    stride = kernel_size if stride is None else stride
    named = {"kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation": dilation}
    return [
        [*_geometry.per_axis(n, name, _integers(name, value), 0 if name == "padding" else 1)]
        for name, value in named.items()
    ]


def _integers(name: str, value: Any) -> int | tuple[int, ...]:
    """An integer or a tuple of integers. The first test is simple code that the compiler can trace."""
    if type(value) in (tuple, list) and all(type(size) is int for size in value):
        return tuple(value)
    return _geometry.hashable(name, value)


def _operator(name: str, schema: str) -> Callable[[Callable[..., Any]], Any]:
    return torch.library.custom_op(f"cunpool::{name}", mutates_args=(), device_types="cpu", schema=schema)


@_operator("max_pool", f"(Tensor input, {_WINDOW}, bool ceil_mode) -> Tensor")
def max_pool(
    input: torch.Tensor, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> torch.Tensor:
    window = kernel_size, stride, padding, dilation
    return _exactly(_calls.max_pool(len(kernel_size), input.detach(), window, ceil_mode, False), format_of(input))


@_operator(
    "max_pool_with_indices",
    f"(Tensor input, {_WINDOW}, bool ceil_mode, {_FORMAT}) -> (Tensor values, Tensor indices)",
)
def max_pool_with_indices(
    input: torch.Tensor,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    index_format: IndexFormat = "plane",
) -> tuple[torch.Tensor, torch.Tensor]:
    window = kernel_size, stride, padding, dilation
    results = _calls.max_pool(len(kernel_size), input.detach(), window, ceil_mode, True, index_format)
    return _exactly(results[0], format_of(input)), _exactly(results[1], format_of(input))


@_operator(
    "max_pool_backward",
    f"(Tensor grad_output, Tensor indices, SymInt[] input_size, {_WINDOW}, {_FORMAT}) -> Tensor",
)
def max_pool_backward(
    grad_output: torch.Tensor,
    indices: torch.Tensor,
    input_size: Ints,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    index_format: IndexFormat = "plane",
) -> torch.Tensor:
    window = kernel_size, stride, padding, dilation
    shape, n = tuple(input_size), len(kernel_size)
    result = _calls.max_pool_backward(n, grad_output.detach(), indices, shape, window, index_format)
    return _exactly(result, format_of(indices))


@_operator("max_unpool", f"(Tensor input, Tensor indices, {_WINDOW}, SymInt[]? output_size=None, {_FORMAT}) -> Tensor")
def max_unpool(
    input: torch.Tensor,
    indices: torch.Tensor,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    output_size: Ints | None = None,
    index_format: IndexFormat = "plane",
) -> torch.Tensor:
    window = kernel_size, stride, padding, dilation
    result = _calls.max_unpool(len(kernel_size), input.detach(), indices, window, output_size, index_format)
    return _exactly(result, format_of(input))


@_operator("max_unpool_backward", f"(Tensor grad_output, Tensor indices, {_WINDOW}, {_FORMAT}) -> Tensor")
def max_unpool_backward(
    grad_output: torch.Tensor,
    indices: torch.Tensor,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    index_format: IndexFormat = "plane",
) -> torch.Tensor:
    window = kernel_size, stride, padding, dilation
    result = _calls.max_unpool_backward(len(kernel_size), grad_output.detach(), indices, window, index_format)
    return _exactly(result, format_of(indices))


def _exactly(tensor: torch.Tensor, memory_format: torch.memory_format) -> torch.Tensor:
    """Convert to the memory format that the fake kernels return."""
    return tensor.contiguous(memory_format=memory_format)


# Fake kernels compute shapes, dtypes and layouts. Sizes may be symbols.


def _are_numbers(*shapes: Ints) -> bool:
    """Whether no size is a symbol, so that the fake kernel can check shapes. Otherwise the real call checks them."""
    return all(type(size) is int for shape in shapes for size in shape)


def _new(like: torch.Tensor, spatial: Ints, dtype: torch.dtype, memory_format: torch.memory_format) -> torch.Tensor:
    shape = (*like.shape[: like.ndim - len(spatial)], *spatial)
    return torch.empty(shape, dtype=dtype, device=like.device, memory_format=memory_format)


def _spatial(tensor: torch.Tensor, kernel_size: Ints) -> Ints:
    n = len(kernel_size)
    torch._check(tensor.ndim in (n + 1, n + 2), lambda: f"input must have {n + 1} or {n + 2} axes")
    return tensor.shape[-n:]


@max_pool.register_fake
def _pooled(
    input: torch.Tensor, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> torch.Tensor:
    if _are_numbers(input.shape):  # raises an error if the windows do not fit
        window = map(tuple, (kernel_size, stride, padding, dilation))
        try:
            _geometry.pooling(len(kernel_size), tuple(input.shape), *window, ceil_mode, False)
        except ValueError as error:
            reword(error)
            raise
    sizes = []
    for size, k, s, p, d in zip(_spatial(input, kernel_size), kernel_size, stride, padding, dilation, strict=True):
        pooled = (size + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
        if ceil_mode:  # windows that start past the end of the input are dropped
            pooled = torch.sym_min(pooled, (size + p + s - 1) // s)
        torch._check(pooled >= 1, lambda: "the windows do not fit")
        sizes.append(pooled)
    return _new(input, sizes, input.dtype, format_of(input))


@max_pool_with_indices.register_fake
def _(
    input: torch.Tensor,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    index_format: IndexFormat = "plane",
) -> tuple[torch.Tensor, torch.Tensor]:
    values = _pooled(input, kernel_size, stride, padding, dilation, ceil_mode)
    codes = _geometry.is_window(index_format)
    dtype = _CODES[_geometry.code_bytes(tuple(kernel_size))] if codes else torch.int64
    return values, torch.empty_like(values, dtype=dtype)


@max_pool_backward.register_fake
def _(grad_output: torch.Tensor, indices: torch.Tensor, input_size: Ints, *_: Any, **__: Any) -> torch.Tensor:
    return _new(grad_output, input_size, grad_output.dtype, format_of(indices))


@max_unpool.register_fake
def _(
    input: torch.Tensor,
    indices: torch.Tensor,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    output_size: Ints | None = None,
    index_format: IndexFormat = "plane",
) -> torch.Tensor:
    check_indices_dtype(indices)
    sizes = output_size
    if _are_numbers(input.shape, indices.shape, sizes or ()):
        check_indices_shape(input, indices)
        window, wanted = map(tuple, (kernel_size, stride, padding, dilation)), None if sizes is None else tuple(sizes)
        _geometry.unpooling(len(kernel_size), tuple(input.shape), *window, wanted)
    if sizes is None:
        axes = zip(_spatial(input, kernel_size), kernel_size, stride, padding, dilation, strict=True)
        sizes = [(size - 1) * s - 2 * p + d * (k - 1) + 1 for size, k, s, p, d in axes]
    return _new(input, sizes, input.dtype, format_of(input))


@max_unpool_backward.register_fake
def _(grad_output: torch.Tensor, indices: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    return torch.empty_like(indices, dtype=grad_output.dtype, memory_format=format_of(indices))
