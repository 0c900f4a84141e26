"""The same pooling and unpooling for PyTorch's tensors on a CPU, with autograd: a drop-in for ``torch.nn.functional``.

Tensors and arrays share their memory, in both directions. Import it as ``import cunpool.torch``; `cunpool` itself never
imports PyTorch.

`_watching` decides how a call of `functional` is served, and how its gradient is (`modules` and `_forwards`, what
`accelerate` installs, make the same calls). Where nobody watches, `_eager` calls NumPy's front ends on the memory of
tensors (`_calls`, `_tensors`). Otherwise `_traced` calls ``torch.ops.cunpool`` (`_operators`, and their
`_derivatives`) for compilers and traces, or PyTorch's own gather and scatter (`_composite`) for transforms. Taking at
indices (`_taking`) has no operators: what PyTorch watches is its own gather. `_patching` lets calls of
``torch.nn.functional`` arrive at `_eager`.
"""

try:
    import torch
except ModuleNotFoundError:
    raise ImportError("cunpool.torch needs PyTorch: pip install 'cunpool[torch]'") from None

from cunpool.torch import _derivatives
from cunpool.torch._accelerate import accelerate, restore
from cunpool.torch._onnx import export_onnx, onnx_translation_table
from cunpool.torch._patching import patch, patched, unpatch
from cunpool.torch.functional import (
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
    take_at1d,
    take_at2d,
    take_at3d,
)
from cunpool.torch.modules import MaxPool1d, MaxPool2d, MaxPool3d, MaxUnpool1d, MaxUnpool2d, MaxUnpool3d

del torch, _derivatives

__all__ = [
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "accelerate",
    "export_onnx",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "onnx_translation_table",
    "patch",
    "patched",
    "restore",
    "take_at1d",
    "take_at2d",
    "take_at3d",
    "unpatch",
]
