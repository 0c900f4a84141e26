"""Arrays on the memory of tensors, tensors on the memory of arrays, and memory formats."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import torch

from cunpool import _arrays, _threads
from cunpool._arrays import Array
from cunpool._remedies import ONE_PADDING

# Arrays of fewer bytes than this use one thread. (speed)
SMALL = 1 << 13
# Unpooling copies the bits of bfloat16, so it uses a dtype of the same size.
BITS = np.dtype(np.int16)

_BFLOAT16 = torch.bfloat16


def array_of(
    tensor: torch.Tensor, name: str, dtype: torch.dtype | None = None, bfloat16: np.dtype[Any] = _arrays.BFLOAT16
) -> Array:
    """An array on `tensor`'s memory. NumPy has no bfloat16, so such a tensor is viewed as the dtype `bfloat16`.

    The caller passes the tensor's `dtype` if it may be bfloat16.
    """
    try:
        if dtype is _BFLOAT16:
            return tensor.view(torch.int16).numpy().view(bfloat16)
        return tensor.numpy()
    except (AttributeError, TypeError, RuntimeError) as error:
        return _unusual(tensor, name, dtype, bfloat16, error)


def _unusual(
    tensor: torch.Tensor, name: str, dtype: torch.dtype | None, bfloat16: np.dtype[Any], error: Exception
) -> Array:
    """An array for a tensor that NumPy cannot share directly, or an error that names the reason."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(tensor).__name__}")
    if tensor.device.type != "cpu":
        raise ValueError(f"{name} must be a tensor on the CPU, got one on the device {tensor.device}")
    if tensor.layout is not torch.strided or tensor.is_quantized:
        kind = "a quantized tensor" if tensor.is_quantized else f"one with the layout {tensor.layout}"
        raise ValueError(f"{name} must be a dense tensor, got {kind} on the device {tensor.device}")
    if tensor.requires_grad:  # indices of floats: their dtype is refused later
        return array_of(tensor.detach(), name, dtype, bfloat16)
    if tensor.is_conj() or tensor.is_neg():  # the memory has no conjugation or negation yet
        return array_of(tensor.resolve_conj().resolve_neg(), name, dtype, bfloat16)
    if tensor._is_zerotensor():  # PyTorch's zeros without memory
        return array_of(torch.zeros_like(tensor), name, dtype, bfloat16)
    if tensor.dtype is _BFLOAT16:  # NumPy has no such dtype
        raise TypeError(f"{name} must be of integers, got {tensor.dtype}") from None
    raise TypeError(f"{name} must be a tensor that NumPy can read, got one of {tensor.dtype}: {error}") from None


def tensor_of(array: Array, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A tensor on `array`'s memory, or a copy: contiguous or channels-last, like PyTorch's results."""
    tensor = torch.from_numpy(array.view(np.int16)).view(dtype) if dtype is _BFLOAT16 else torch.from_numpy(array)
    return tensor if tensor.is_contiguous() else tensor.contiguous(memory_format=format_of(tensor))


def format_of(tensor: torch.Tensor) -> torch.memory_format:
    """The memory format of `tensor`."""
    if not tensor.is_contiguous():
        last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.ndim)
        if last is not None and tensor.is_contiguous(memory_format=last):
            return last
    return torch.contiguous_format


def reword(error: Exception) -> None:
    """Replace NumPy's functions in an error message by PyTorch's methods, and leave out `channel_axis`."""
    text = re.sub(r"(channel_axis=-1, or )?numpy\.moveaxis\((\w+), ", r"\2.movedim(", str(error))
    error.args = (re.sub(r"; (a pair|pairs) .*", f"; {ONE_PADDING}", text),)


def check_indices_shape(input: torch.Tensor, indices: torch.Tensor) -> None:
    """Raise a ValueError if the indices of unpooling have another shape than the values."""
    if indices.shape != input.shape:
        raise ValueError(f"indices must have the shape of input, {tuple(input.shape)}, got {tuple(indices.shape)}")


def check_indices_dtype(indices: torch.Tensor) -> None:
    """Raise a TypeError if the indices are no integers."""
    if indices.is_floating_point() or indices.is_complex() or indices.dtype is torch.bool:
        raise TypeError(f"indices must be of integers, got {indices.dtype}")


def num_threads(array: Array) -> int:
    """The number of threads for a call on `array`: the smaller one of PyTorch's and cunpool's numbers."""
    # PyTorch's number takes a system call, so small arrays do without it. (speed)
    if array.nbytes < SMALL or (threads := torch.get_num_threads()) == 1:
        return 1
    return _threads.Ceiling(min(threads, _threads.get_num_threads()))
