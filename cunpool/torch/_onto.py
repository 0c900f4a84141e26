"""Unpooling onto a value or another tensor, in place of zeros.

Without gradients the kernels store onto a copy. Other calls unpool twice and choose with ``torch.where``, so that
autograd, compilers and transforms need no rules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import torch
from torch.overrides import has_torch_function

from cunpool import adaptive
from cunpool._background import FillValue, refuse_beside_onto
from cunpool._geometry import EvenWindow, IndexFormat
from cunpool._remedies import shown
from cunpool.torch import _adaptive, _calls, _eager
from cunpool.torch._tensors import BITS, array_of, num_threads, tensor_of
from cunpool.torch._watching import watcher

Size = Sequence[SupportsIndex] | None
_INFINITE = float("inf")


def max_unpool(
    n: int,
    input: torch.Tensor,
    indices: torch.Tensor,
    window: EvenWindow,
    output_size: Size,
    index_format: IndexFormat,
    fill_value: FillValue | None,
    onto: torch.Tensor | None,
) -> torch.Tensor:
    """Unpooling over `n` spatial axes, onto zeros, `fill_value` or `onto`."""

    def unpool(values: torch.Tensor, size: Size) -> torch.Tensor:
        return _eager.max_unpool(n, values, indices, window, size, index_format)

    if fill_value is None and onto is None:
        return unpool(input, output_size)
    kernel_size, stride, padding, dilation = window
    arguments = kernel_size, stride, padding
    keywords = {"dilation": dilation, "index_format": index_format}
    return _onto(n, unpool, _calls.UNPOOL[n], input, indices, arguments, output_size, fill_value, onto, keywords)


def adaptive_max_unpool(
    n: int, input: torch.Tensor, indices: torch.Tensor, output_size: Size, fill_value: FillValue | None, onto: Any
) -> torch.Tensor:
    """Adaptive unpooling over `n` spatial axes, onto zeros, `fill_value` or `onto`."""

    def unpool(values: torch.Tensor, size: Any) -> torch.Tensor:
        return _adaptive.adaptive_max_unpool(n, values, indices, size)

    if output_size is None and onto is None:
        raise TypeError(f"adaptive_max_unpool{n}d needs output_size, the shape of what was pooled, or onto")
    if fill_value is None and onto is None:
        return unpool(input, output_size)
    function = getattr(adaptive, f"adaptive_max_unpool{n}d")
    return _onto(n, unpool, function, input, indices, (), output_size, fill_value, onto, {})


def _onto(
    n: int,
    unpool: Callable[[torch.Tensor, Any], torch.Tensor],
    function: Callable[..., Any],
    input: torch.Tensor,
    indices: torch.Tensor,
    arguments: tuple[Any, ...],
    output_size: Size,
    fill_value: FillValue | None,
    onto: torch.Tensor | None,
    keywords: dict[str, Any],
) -> torch.Tensor:
    """Unpool by `function` on arrays, or by `unpool` on tensors where others have to follow."""
    if not isinstance(input, torch.Tensor):
        raise TypeError(f"input must be a torch.Tensor, got {type(input).__name__}")
    dtype = input.dtype
    if onto is None:
        background = _element(fill_value, input)
    else:
        refuse_beside_onto(output_size, fill_value)
        background = onto
        if not isinstance(onto, torch.Tensor):
            raise TypeError(f"onto must be a torch.Tensor, got {type(onto).__name__}")
        if onto.dtype != dtype:
            raise TypeError(f"onto must have the dtype of input, {dtype}, got {onto.dtype}")
    tensors = input, indices, background
    has_grad = torch.is_grad_enabled() and any(getattr(tensor, "requires_grad", False) for tensor in tensors)
    if has_grad or has_torch_function(tensors) or watcher(*tensors):
        if onto is not None and onto.shape[:-n] != input.shape[:-n]:
            raise ValueError(f"onto must have the N and C of input, {tuple(input.shape)}, got {tuple(onto.shape)}")
        size = output_size if onto is None else onto.shape[-n:]
        is_stored = unpool(torch.ones_like(input, requires_grad=False), size) != 0
        return torch.where(is_stored, unpool(input, size), background)
    array = array_of(input, "input", dtype, BITS)
    below = array_of(background, "onto", dtype, BITS)
    result = function(
        array, array_of(indices, "indices"), *arguments, output_size, num_threads=num_threads(array), **keywords,
        **({"fill_value": below} if onto is None else {"onto": below}),
    )  # fmt: skip
    return tensor_of(result, dtype)


def _element(fill_value: Any, input: torch.Tensor) -> torch.Tensor:
    """A tensor without axes of the dtype of `input`, if that dtype can represent `fill_value`."""
    if not isinstance(fill_value, (complex, float, int)):
        raise TypeError(f"fill_value must be one number, got {shown(fill_value)}")
    number: Any = fill_value
    dtype, is_complex = input.dtype, isinstance(number, complex)
    # By Python alone, because compilers trace it.
    if dtype.is_complex:
        is_kept = True
    elif is_complex:
        is_kept = False
    elif dtype.is_floating_point:  # rounding is allowed, and overflow is not
        is_kept = abs(number) <= torch.finfo(dtype).max or number in (_INFINITE, -_INFINITE)
        is_kept = is_kept or number != number
    else:
        low, high = (0, 1) if dtype is torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
        is_kept = low <= number <= high and number == int(number)
    if not is_kept:
        raise ValueError(f"fill_value must be representable in {dtype}, got {shown(fill_value)}")
    return torch.full((), fill_value, dtype=dtype, device=input.device)
