"""Pooling and unpooling of PyTorch's CPU tensors, with autograd: a drop-in for ``torch.nn.functional``.

Tensors and arrays share their memory, in both directions. Import it as ``import cunpool.torch``; `cunpool` itself never
imports PyTorch.

`_watching` selects how a call of `functional`, or its gradient, is computed. `modules`, and the `_forwards` that
`accelerate` installs, make the same calls. Eager calls use `_eager`, which passes the memory of tensors to the
functions for NumPy arrays (`_calls`, `_tensors`). For compilers and traces, `_traced` calls ``torch.ops.cunpool``
(`_operators` and `_derivatives`). For transforms, it calls PyTorch's gather and scatter (`_composite`). Taking at
indices (`_taking`) and adaptive pooling (`_adaptive`) have no operators, and use PyTorch's functions instead.
`_patching` makes calls of ``torch.nn.functional`` use `_eager`.
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
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    adaptive_max_unpool1d,
    adaptive_max_unpool2d,
    adaptive_max_unpool3d,
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
from cunpool.torch.modules import (
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AdaptiveMaxUnpool1d,
    AdaptiveMaxUnpool2d,
    AdaptiveMaxUnpool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    MaxUnpool1d,
    MaxUnpool2d,
    MaxUnpool3d,
)

del torch, _derivatives

__all__ = [
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AdaptiveMaxUnpool1d",
    "AdaptiveMaxUnpool2d",
    "AdaptiveMaxUnpool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "accelerate",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "adaptive_max_unpool1d",
    "adaptive_max_unpool2d",
    "adaptive_max_unpool3d",
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
