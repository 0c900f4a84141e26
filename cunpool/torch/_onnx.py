"""ONNX files with one ``MaxPool`` for each pooling and one ``MaxUnpool`` for each unpooling.

PyTorch counts indices within a plane, ONNX through the whole tensor. A remainder translates a pooling's indices to
PyTorch's. An unpooling to the size of the pooling's input uses ONNX's indices directly, from before the remainder. So
in most networks the remainders are unused, and the exporter drops them.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from cunpool.torch import _accelerate, _traced

# Key in the metadata of a value with PyTorch's indices: ONNX's indices, and the size of the pooling's plane.
_ORIGIN = "cunpool.origin"

Ints = Sequence[int]


def export_onnx(
    model: torch.nn.Module, args: tuple[Any, ...], path: str | os.PathLike[str] | None = None, **options: Any
) -> torch.onnx.ONNXProgram | None:
    """Write a network as an ONNX file with one node for each max pooling and unpooling.

    Parameters
    ----------
    model : torch.nn.Module
        The network, which stays unchanged: a copy is accelerated and exported.
    args : tuple
        Example inputs.
    path : str or path-like, optional
        Where to write the file.
    **options
        Options of ``torch.onnx.export`` [1]_, such as ``dynamic_shapes``, ``input_names`` and ``external_data``. A
        ``custom_translation_table`` is added to `onnx_translation_table`.

    Returns
    -------
    torch.onnx.ONNXProgram
        The result of ``torch.onnx.export``.

    Raises
    ------
    ImportError
        If onnx or onnxscript are missing: ``pip install 'cunpool[onnx]'``.
    TypeError
        If `model` is no module, or a scripted or traced one.
    ValueError
        With ``dynamo=False``. Also for operations that ONNX lacks: window codes, and `ceil_mode` with dynamic spatial
        sizes if stride plus padding is larger than the window. The message names the layer.

    Notes
    -----
    ``torch.onnx.export`` accepts an accelerated network too, and writes the same nodes as for PyTorch's own modules.

    ONNX Runtime unpools only float32. The reference evaluator of the onnx package differs from ONNX Runtime if
    ``output_shape`` is not the default size. ONNX Runtime gives PyTorch's numbers.

    References
    ----------
    .. [1] https://docs.pytorch.org/docs/stable/onnx_export.html

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.MaxPool2d(2)).eval()
    >>> program = cunpool.torch.export_onnx(net, (torch.rand(1, 1, 8, 8),), verbose=False)
    >>> [node.op_type for node in program.model.graph]
    ['Conv', 'MaxPool']
    """
    _accelerate.check_model(model)
    if not options.pop("dynamo", True):
        raise ValueError(
            "export_onnx needs the exporter of torch.export, got dynamo=False: leave it out, or pass the network to "
            "torch.onnx.export(..., dynamo=False)"
        )
    if isinstance(model, torch.jit.ScriptModule):
        raise TypeError(f"model must not be scripted or traced, got {type(model).__name__}: export the original")
    table = {**onnx_translation_table(), **options.pop("custom_translation_table", {})}
    accelerated = copy.deepcopy(model)
    _accelerate.hand_over(accelerated)
    token = _traced.TRANSLATED.set(True)
    try:
        return torch.onnx.export(accelerated, args, path, dynamo=True, custom_translation_table=table, **options)
    except torch.onnx.errors.OnnxExporterError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, _Unsayable):
            cause = cause.__cause__
        if cause is None:
            raise
        raise ValueError(f"{cause} (in {_layer(error)})") from None
    finally:
        _traced.TRANSLATED.reset(token)


class _Unsayable(ValueError):
    """An operation that ONNX cannot express."""


def _layer(error: BaseException) -> str:
    """Name of the node that the exporter could not translate."""
    cause: BaseException | None = error
    while cause is not None:
        text = str(cause)
        if "translating node" in text:
            return text[text.index("%") + 1 :].split(" ", 1)[0]
        cause = cause.__cause__
    return "the model"  # pragma: no cover - the exporter always says where


def onnx_translation_table() -> dict[Any, Callable[..., Any]]:
    """Return the ``custom_translation_table`` that `export_onnx` passes to ``torch.onnx.export``.

    Returns
    -------
    dict
        Translations of the operators of ``torch.ops.cunpool`` and of PyTorch's pooling and unpooling operators.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> torch.ops.cunpool.max_unpool.default in cunpool.torch.onnx_translation_table()
    True
    """
    try:
        import onnxscript
    except ModuleNotFoundError:
        raise ImportError("to export ONNX needs onnx and onnxscript: pip install 'cunpool[onnx]'") from None

    del onnxscript
    ours, aten = torch.ops.cunpool, torch.ops.aten
    return {
        ours.max_pool.default: lambda *arguments: _pool(*arguments)[0],
        ours.max_pool_with_indices.default: _pool,
        ours.max_unpool.default: _unpool,
        aten.max_pool2d_with_indices.default: lambda *arguments, **named: _their_pool(2, *arguments, **named),
        aten.max_pool3d_with_indices.default: lambda *arguments, **named: _their_pool(3, *arguments, **named),
        aten.max_unpool2d.default: _their_unpool,
        aten.max_unpool3d.default: _their_unpool,
    }


def _pool(
    input: Any,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    index_format: str = "plane",
) -> tuple[Any, Any]:
    from onnxscript import opset18 as op

    _check(index_format)
    n = len(kernel_size)
    spatial = input.shape[-n:]
    known = all(isinstance(size, int) for size in spatial)
    unbatched = len(input.shape) == n + 1
    after = [*padding]
    if ceil_mode and known:  # as padding: ONNX's ceil_mode keeps windows that start past the end
        sizes = zip(spatial, kernel_size, stride, padding, dilation, strict=True)
        after = [_overhang(*axis) for axis in sizes]
    elif ceil_mode:
        reach = zip(kernel_size, stride, padding, dilation, strict=True)
        if any(s + p > d * (k - 1) + 1 for k, s, p, d in reach):
            raise _Unsayable("ONNX's ceil_mode may keep a window more, so spatial sizes must not be dynamic")
    values, flat = op.MaxPool(
        op.Unsqueeze(input, _ints(0)) if unbatched else input,
        kernel_shape=[*kernel_size],
        strides=[*stride],
        pads=[*padding, *after],
        dilations=[*dilation],
        ceil_mode=int(ceil_mode and not known),
    )
    elements = _ints(math.prod(spatial)) if known else op.ReduceProd(op.Shape(input, start=-n), keepdims=1)
    positions = op.Mod(flat, elements)
    if unbatched:
        values, positions = op.Squeeze(values, _ints(0)), op.Squeeze(positions, _ints(0))
    positions.meta[_ORIGIN] = flat, tuple(spatial)
    return values, positions


def _overhang(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Number of elements by which the last window extends past the end of an axis in ceil mode."""
    reach = dilation * (kernel - 1) + 1
    windows = (size + 2 * padding - reach + stride - 1) // stride + 1
    windows = min(windows, (size + padding + stride - 1) // stride)
    return max((windows - 1) * stride + reach - size - padding, 0)


def _unpool(
    input: Any,
    indices: Any,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    output_size: Sequence[Any] | None = None,
    index_format: str = "plane",
) -> Any:
    from onnxscript import opset18 as op

    _check(index_format)
    # ONNX's MaxUnpool has no dilation. It needs the window for the size of the output only.
    kernel_size = [d * (k - 1) + 1 for k, d in zip(kernel_size, dilation, strict=True)]
    n = len(kernel_size)
    pooled = input.shape[-n:]
    unbatched = len(input.shape) == n + 1
    flat, origin = indices.meta.get(_ORIGIN, (None, None))
    if unbatched:
        input, indices = op.Unsqueeze(input, _ints(0)), op.Unsqueeze(indices, _ints(0))
    lead = op.Shape(input, start=0, end=2)
    pads = [*padding, *padding]
    known = all(isinstance(size, int) for size in (*pooled, *(output_size or ())))
    if output_size is None and known:
        output = [(m - 1) * s - 2 * p + k for m, s, p, k in zip(pooled, stride, padding, kernel_size, strict=True)]
    elif output_size is None:
        rest = _ints(*(k - s - 2 * p for k, s, p in zip(kernel_size, stride, padding, strict=True)))
        output = op.Add(op.Mul(op.Shape(input, start=-n), _ints(*stride)), rest)
    elif known:
        output = [*output_size]
        # ONNX Runtime refuses a size below the default, so larger padding reduces the default. (correctness)
        over = [(m - 1) * s + k - size for m, s, k, size in zip(pooled, stride, kernel_size, output, strict=True)]
        pads = [max(o, 0) // 2 for o in over] + [max(o, 0) - max(o, 0) // 2 for o in over]
    else:
        pads = [*padding, *(p + s - 1 for p, s in zip(padding, stride, strict=True))]  # for the smallest legal size
        one = _ints(1)
        output = op.Concat(*(_ints(s) if isinstance(s, int) else op.Reshape(s, one) for s in output_size), axis=0)
    size = _ints(*output) if known else output
    if flat is None or not known or tuple(output) != origin:
        flat = _through_the_tensor(n, indices, lead, size)
    shape = [] if output_size is None else [op.Concat(lead, size, axis=0)]
    result = op.MaxUnpool(input, flat, *shape, kernel_shape=[*kernel_size], strides=[*stride], pads=pads)
    return op.Squeeze(result, _ints(0)) if unbatched else result


def _through_the_tensor(n: int, indices: Any, lead: Any, size: Any) -> Any:
    """PyTorch's indices converted to ONNX's, which count through all planes of `size`."""
    from onnxscript import opset18 as op

    planes = op.ReduceProd(lead, keepdims=0)
    zero, one = op.Constant(value_int=0), op.Constant(value_int=1)
    first = op.Mul(op.Range(zero, planes, one), op.ReduceProd(size, keepdims=1))
    return op.Add(indices, op.Reshape(first, op.Concat(lead, _ints(*(1,) * n), axis=0)))


def _their_pool(
    n: int,
    input: Any,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = (0,),
    dilation: Ints = (1,),
    ceil_mode: bool = False,
) -> tuple[Any, Any]:
    """PyTorch's own pooling: a list may have one entry for all axes, and the list of strides may be empty."""
    window = kernel_size, stride or kernel_size, padding, dilation
    kernel_size, stride, padding, dilation = ([*sizes] * n if len(sizes) == 1 else [*sizes] for sizes in window)
    return _pool(input, kernel_size, stride, padding, dilation, ceil_mode)


def _their_unpool(input: Any, indices: Any, output_size: Sequence[Any], *_: Any) -> Any:
    """PyTorch's own unpooling, which has no windows: here they have one element."""
    ones = (1,) * len(output_size)
    return _unpool(input, indices, ones, ones, (0,) * len(ones), ones, output_size)


def _ints(*values: int) -> Any:
    from onnxscript import opset18 as op

    return op.Constant(value_ints=[*values])


def _check(index_format: str) -> None:
    if index_format != "plane":
        raise _Unsayable(f"ONNX has no window codes: index_format must be 'plane', got {index_format!r}")
