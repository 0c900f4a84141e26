"""Find whether a call or its gradient is traced or transformed."""

from __future__ import annotations

from typing import Any

import torch
import torch.autograd.forward_ad as _forward_ad
from torch._C import _get_tracing_state, _len_torch_dispatch_stack
from torch._C._functorch import get_dynamic_layer_stack_depth, is_legacy_batchedtensor
from torch.compiler import is_dynamo_compiling

NOBODY = 0
"""Plain tensors: kernels may read their memory."""

TRACER = 1
"""A compiler, exporter, trace, mode or subclass records or replaces operators: they receive ``torch.ops.cunpool``."""

TRANSFORM = 2
"""Forward mode, ``torch.func`` or a batch transforms operators: it receives PyTorch's gather and scatter."""

_PLAIN = torch.Tensor
_NO_DISPATCH = torch._C._disabled_torch_dispatch_impl


def watcher(*tensors: Any) -> int:
    """Return who has to receive a call on `tensors`: `NOBODY`, `TRACER` or `TRANSFORM`.

    Gradients are checked again, because they may receive other kinds of tensors than the call. Transforms are checked
    before compilers, so that a transform inside a compiled function is recorded. Subclasses and modes that override
    ``torch.nn.functional``'s functions are not found here: they receive the public function earlier.
    """
    if get_dynamic_layer_stack_depth() or _forward_ad._current_level >= 0:
        return TRANSFORM
    if is_dynamo_compiling() or _get_tracing_state() is not None or _len_torch_dispatch_stack():
        return TRACER
    result, metas = NOBODY, 0
    for tensor in tensors:
        if type(tensor) is _PLAIN:
            if is_legacy_batchedtensor(tensor):  # from ``torch.autograd.grad(..., is_grads_batched=True)``
                return TRANSFORM
        elif getattr(tensor, "__torch_dispatch__", _NO_DISPATCH) is not _NO_DISPATCH:
            result = TRACER
        metas += getattr(tensor, "is_meta", False)
    return TRACER if metas == len(tensors) else result
