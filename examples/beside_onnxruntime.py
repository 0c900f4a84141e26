"""ONNX Runtime convolves, cunpool pools and unpools: ``python examples/beside_onnxruntime.py``.

A network like SegNet, with random weights, runs in three ways whose results have to be equal: as one ONNX model; cut at
its pooling layers, with cunpool between the pieces; and with its encoder whole in ONNX Runtime, so that indices cross
over and are converted. It needs ``pip install onnx onnxruntime``.
"""

from __future__ import annotations

import numpy as np
import onnxruntime
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

import cunpool as cu

SHAPE = (2, 3, 64, 96)
# What each convolution reads, what it writes, and whether a Relu follows.
CONVOLUTIONS = [(3, 8, True), (8, 16, True), (16, 16, False), (16, 8, False), (8, 4, False)]


def weights() -> list[tuple[np.ndarray, np.ndarray]]:
    """Random kernels and biases."""
    rng = np.random.default_rng(0)
    scaled = [(rng.standard_normal((write, read, 3, 3)) / np.sqrt(9 * read), write) for read, write, _ in CONVOLUTIONS]
    return [(kernel.astype(np.float32), rng.standard_normal(write).astype(np.float32)) for kernel, write in scaled]


def convolution(level: int, source: str, target: str) -> list[NodeProto]:
    """The nodes of one convolution."""
    relu = CONVOLUTIONS[level][2]
    inputs, output = [source, f"kernel{level}", f"bias{level}"], f"{target}_before" if relu else target
    nodes = [helper.make_node("Conv", inputs, [output], pads=[1] * 4)]
    return [*nodes, helper.make_node("Relu", [output], [target])] if relu else nodes


def pooling(source: str, target: str, indices: str) -> NodeProto:
    return helper.make_node("MaxPool", [source], [target, indices], kernel_shape=[2, 2], strides=[2, 2])


def unpooling(source: str, indices: str, target: str) -> NodeProto:
    return helper.make_node("MaxUnpool", [source, indices], [target], kernel_shape=[2, 2], strides=[2, 2])


ENCODER = [
    *convolution(0, "x", "a"),
    pooling("a", "a_pooled", "a_indices"),
    *convolution(1, "a_pooled", "b"),
    pooling("b", "b_pooled", "b_indices"),
    *convolution(2, "b_pooled", "c"),
]
DECODER = [
    unpooling("c", "b_indices", "c_full"),
    *convolution(3, "c_full", "d"),
    unpooling("d", "a_indices", "d_full"),
    *convolution(4, "d_full", "result"),
]


def session(nodes: list[NodeProto], source: str, targets: list[str]) -> onnxruntime.InferenceSession:
    """A model of `nodes`, ready to run."""

    def declared(name: str) -> ValueInfoProto:
        kind = TensorProto.INT64 if name.endswith("indices") else TensorProto.FLOAT
        return helper.make_tensor_value_info(name, kind, [None] * 4)

    used = {name for node in nodes for name in node.input}
    arrays = {f"{kind}{level}": array for level, pair in enumerate(weights())
              for kind, array in zip(("kernel", "bias"), pair, strict=True)}  # fmt: skip
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items() if name in used]
    graph = helper.make_graph(nodes, "piece", [declared(source)], [*map(declared, targets)], constants)
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 12)])
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def whole(x: np.ndarray) -> np.ndarray:
    """Everything in ONNX Runtime."""
    return session([*ENCODER, *DECODER], "x", ["result"]).run(None, {"x": x})[0]


def cut(x: np.ndarray) -> np.ndarray:
    """The convolutions in ONNX Runtime; pooling and unpooling, and the indices between them, in cunpool."""
    pieces = [session(convolution(level, "x", "y"), "x", ["y"]) for level in range(len(CONVOLUTIONS))]

    def convolve(level: int, array: np.ndarray) -> np.ndarray:
        return pieces[level].run(None, {"x": array})[0]

    a = convolve(0, x)
    a_pooled, a_indices = cu.max_pool2d(a, 2, return_indices=True)
    b = convolve(1, a_pooled)
    b_pooled, b_indices = cu.max_pool2d(b, 2, return_indices=True)
    c = convolve(2, b_pooled)
    d = convolve(3, cu.max_unpool2d(c, b_indices, 2))
    return convolve(4, cu.max_unpool2d(d, a_indices, 2))


def crossed(x: np.ndarray) -> np.ndarray:
    """Pooling in ONNX Runtime, which counts indices through the whole tensor; unpooling in cunpool, in each plane."""
    outputs = ["a", "a_indices", "b", "b_indices", "c"]
    a, a_indices, b, b_indices, c = session(ENCODER, "x", outputs).run(None, {"x": x})
    a_planes = cu.convert_indices(a_indices, "onnx", "plane", input_size=a.shape[2:], kernel_size=2)
    b_planes = cu.convert_indices(b_indices, "onnx", "plane", input_size=b.shape[2:], kernel_size=2)
    if not np.array_equal(a_planes, cu.max_pool2d(a, 2, return_indices=True)[1]):
        raise SystemExit("ONNX Runtime's indices, converted, differ from cunpool's")
    d = session(convolution(3, "x", "y"), "x", ["y"]).run(None, {"x": cu.max_unpool2d(c, b_planes, 2)})[0]
    return session(convolution(4, "x", "y"), "x", ["y"]).run(None, {"x": cu.max_unpool2d(d, a_planes, 2)})[0]


def report(name: str, result: np.ndarray, expected: np.ndarray) -> None:
    """Pooling and unpooling lose no bit; convolutions may round otherwise where ONNX Runtime fuses other nodes."""
    if not np.allclose(result, expected, rtol=1e-4, atol=1e-5):
        raise SystemExit(f"{name} differs from the whole model in ONNX Runtime")
    exactly = "bit for bit" if np.array_equal(result, expected) else f"within {np.abs(result - expected).max():.1g}"
    print(f"{name:<43}equal to the whole model, {exactly}")


def main() -> None:
    x = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
    expected = whole(x)
    print(f"{'the whole model in ONNX Runtime':<43}{x.shape} -> {expected.shape}")
    report("pooled and unpooled by cunpool", cut(x), expected)
    report("pooled by ONNX Runtime, indices converted", crossed(x), expected)


if __name__ == "__main__":
    main()
