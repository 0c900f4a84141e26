"""Pooling, unpooling and their gradients by PyTorch's own gather and scatter, which every transform supports.

Legacy batches (``is_grads_batched=True``) have rules for few methods: for ``reshape``, but not for ``flatten``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

Ints = Sequence[int]


def positions_of(indices: torch.Tensor, size: Ints, window: Sequence[Ints], index_format: str) -> torch.Tensor:
    """Plane indices in int64, from indices of either format, for planes of `size`."""
    indices = indices.to(torch.int64)  # large enough for the products below
    if index_format == "plane":
        return indices
    kernel_size, stride, padding, dilation = window
    positions, elements, steps = torch.zeros_like(indices), 1, 1
    for axis in reversed(range(len(kernel_size))):
        tap = indices // elements % kernel_size[axis]
        windows = torch.arange(indices.shape[axis - len(kernel_size)], device=indices.device)
        windows = windows.view(-1, *(1,) * (len(kernel_size) - 1 - axis))
        positions = positions + (windows * stride[axis] - padding[axis] + tap * dilation[axis]) * steps
        elements, steps = elements * kernel_size[axis], steps * size[axis]
    return positions


def flat(n: int, tensor: torch.Tensor) -> torch.Tensor:
    """`tensor` with its last `n` axes, the plane, merged into one axis."""
    return tensor.reshape(*tensor.shape[:-n], math.prod(tensor.shape[-n:]))


def gather(n: int, planes: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """The elements of `planes` at `positions`: unpooling's gradient."""
    return flat(n, planes).gather(-1, flat(n, positions)).reshape(positions.shape)


def gather_maxima(n: int, input: torch.Tensor, values: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """The elements of `input` at `positions`. A window outside the input keeps its value and has no derivative."""
    last = math.prod(input.shape[-n:]) - 1
    chosen = gather(n, input, positions.clamp(0, last))
    return torch.where(chosen.isnan() | (chosen == values), chosen, values)


def scatter(n: int, input: torch.Tensor, positions: torch.Tensor, size: Ints) -> torch.Tensor:
    """Unpooling: zeros of `size`, and `input` at `positions`."""
    return _scattered("scatter", n, input, positions, size)


def scatter_add(n: int, grad: torch.Tensor, positions: torch.Tensor, size: Ints) -> torch.Tensor:
    """Pooling's gradient: zeros of `size`, and sums of `grad` at `positions`."""
    return _scattered("scatter_add", n, grad, positions, size)


def _scattered(method: str, n: int, source: torch.Tensor, positions: torch.Tensor, size: Ints) -> Any:
    lead = source.shape[:-n]
    zeros = source.new_zeros((*lead, math.prod(size)))
    return getattr(zeros, method)(-1, flat(n, positions), flat(n, source)).reshape(*lead, *size)
