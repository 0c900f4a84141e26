"""The same pooling and unpooling for PyTorch's tensors on a CPU, with autograd: a drop-in for ``torch.nn.functional``.

Tensors and arrays share their memory, in both directions. Import it as ``import cunpool.torch``; `cunpool` itself never
imports PyTorch.

A call of `functional` (`modules` keep its arguments) goes by `_eager`, straight to NumPy's front ends on the memory of
tensors (`_kernels`, `_tensors`), unless PyTorch compiles, exports, traces or transforms it: then `_traced` has it go by
``torch.ops.cunpool`` (`_operators`, and their `_derivatives`), the same kernels as PyTorch's dispatcher knows them.
Taking at indices (`_taking`) has no operators: what PyTorch watches is its own gather.
"""

try:
    import torch
except ModuleNotFoundError:
    raise ImportError("cunpool.torch needs PyTorch: pip install 'cunpool[torch]'") from None

from cunpool.torch import _derivatives
from cunpool.torch._accelerate import accelerate, restore
from cunpool.torch._onnx import export_onnx, onnx_translation_table
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
    "restore",
    "take_at1d",
    "take_at2d",
    "take_at3d",
]
