"""XNNPACK, by the interpreter of the package ai-edge-litert: models of one operator, channels last.

Pooling is the builtin MAX_POOL_2D. Pooling with places in the windows, and unpooling by these, are custom operators
that XNNPACK alone knows there.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import numpy as np
from cells import Cell, marked
from shared import bench

SAME, VALID = 1, 2  # as TfLitePoolParams counts them


def model(cell: Cell) -> bytes:
    """A flat buffer of the one operator."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    def tensor(size: tuple[int, ...]) -> Any:
        last = [size[0], *size[2:], size[1]]
        if cell.dtype == "uint8":
            as_it_is = schema.QuantizationParametersT(scale=[1.0], zeroPoint=[0])
            return schema.TensorT(last, schema.TensorType.UINT8, quantization=as_it_is)
        return schema.TensorT(last, schema.TensorType.FLOAT32)

    kind, (kernel, stride, padding) = schema.BuiltinOperator, cell.window
    inputs, outputs = [cell.full], [cell.pooled]
    if cell.index == "none":
        code = schema.OperatorCodeT(kind.MAX_POOL_2D, builtinCode=kind.MAX_POOL_2D)
        named = schema.Padding.SAME if padding else schema.Padding.VALID
        pooling = schema.Pool2DOptionsT(named, stride, stride, kernel, kernel)
        options = {"builtinOptionsType": schema.BuiltinOptions.Pool2DOptions, "builtinOptions": pooling}
    else:
        # Places are declared as float32: nobody asks, and XNNPACK has 32 bits there, which count through the window.
        outputs *= 2
        name = "MaxPoolingWithArgmax2D"
        if cell.op == "unpool":
            inputs, outputs, name = outputs, inputs, "MaxUnpooling2D"
        code = schema.OperatorCodeT(kind.CUSTOM, name, builtinCode=kind.CUSTOM)
        # Padding, both strides, both sizes of the window, no activation, and four that are computed.
        given = struct.pack("10i", SAME if padding else VALID, stride, stride, kernel, kernel, 0, 0, 0, 0, 0)
        options = {"customOptions": [*given]}
    tensors = [*map(tensor, inputs + outputs)]
    ends = [*range(len(inputs))], [*range(len(inputs), len(tensors))]
    operator = schema.OperatorT(0, *ends, **options)
    graph = schema.SubGraphT(tensors, *ends, [operator])
    builder = flatbuffers.Builder(1024)
    whole = schema.ModelT(3, [code], [graph], buffers=[schema.BufferT()])
    builder.Finish(whole.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def xnnpack(threads: int) -> bench.Prepared:
    from ai_edge_litert.interpreter import Interpreter

    def ready(cell: Cell, *given: np.ndarray) -> Any:
        """An interpreter that has its inputs."""
        interpreter = Interpreter(model_content=model(cell), num_threads=threads)
        interpreter.allocate_tensors()
        for number, array in enumerate(given):
            interpreter.set_tensor(number, np.moveaxis(array, 1, -1))
        return interpreter

    def call(cell: Cell, arrays: bench.Arrays) -> bench.Call | None:
        if not _known(cell):
            return None
        given = [arrays["x"]]
        if cell.op == "unpool":
            places = ready(replace(cell, op="pool"), marked(cell, arrays["indices"]))
            places.invoke()
            given.append(np.moveaxis(places.get_tensor(2), -1, 1))
        interpreter = ready(cell, *given)
        output = interpreter.get_output_details()[0]["index"]

        def result() -> np.ndarray:
            return np.moveaxis(interpreter.get_tensor(output), -1, 1)  # which copies: nobody times it

        def run() -> bench.Call:
            interpreter.invoke()
            return result

        return run

    return call


def _known(cell: Cell) -> bool:
    """Whether XNNPACK has it: places only where windows do not overlap, without padding."""
    if cell.layout != "channels last" or cell.n != 2 or cell.named_padding is None:
        return False
    if cell.index == "none":
        return cell.dtype in ("uint8", "float32")
    if cell.op == "unpool" and any(size % cell.kernel for size in cell.full[2:]):  # no windows are left out there
        return False
    return cell.window == (cell.stride, cell.stride, 0) and cell.format == "window" and cell.dtype == "float32"
