"""ONNX Runtime convolves, cunpool pools and unpools: ``python examples/beside_onnxruntime.py``.

A network like SegNet, with random weights, runs in three ways whose results have to be equal: as one ONNX model; cut at
its pooling layers, with cunpool between the pieces; and with its encoder whole in ONNX Runtime, so that indices cross
over and are converted. Then a network like ENet, whole and cut, is timed with 1 and 2 threads. Its pieces share one
pool of threads, for a pool each would keep as many processors busy waiting. It needs ``pip install onnx onnxruntime``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

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


class Enet:
    """The nodes of a network like ENet, whole and in pieces: bottlenecks, pooled twice with indices and unpooled."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(2)
        self.constants: dict[str, np.ndarray] = {}
        self.nodes: list[NodeProto] = []
        self.pieces: list[tuple[list[NodeProto], list[str], list[str]]] = []
        first, second = "a_pooled", "b_pooled"
        self.convolve("x", "stem", 3, 13, 3, strides=[2, 2])
        self.node("MaxPool", ["x"], "x_pooled", kernel_shape=[2, 2], strides=[2, 2])
        self.node("Concat", ["stem", "x_pooled"], "a", axis=1)
        self.cut(["x"], ["a"])
        self.branch("a", "a_branch", 16, 64, down=True)
        self.join(first, 48, "a_branch", "b0")
        for step in range(4):
            self.bottleneck(f"b{step}", f"b{step + 1}", 64)
        self.branch("b4", "b_branch", 64, 128, down=True)
        self.cut([first, "a"], ["b4", "b_branch"])
        self.join(second, 64, "b_branch", "c0")
        for step, dilation in enumerate((1, 2, 4, 8)):
            self.bottleneck(f"c{step}", f"c{step + 1}", 128, dilation)
        self.convolve("c4", "c_up", 128, 64, 1)
        self.cut([second, "b_branch"], ["c_up", "c4"])
        self.branch("c4", "c_branch", 128, 64, down=False)
        self.node("Add", ["c_full", "c_branch"], "d_sum")
        self.node("Relu", ["d_sum"], "d0")
        self.bottleneck("d0", "d1", 64)
        self.convolve("d1", "d_up", 64, 16, 1)
        self.branch("d1", "d_branch", 64, 16, down=False)
        self.cut(["c_full", "c4"], ["d_up", "d_branch"])
        self.node("Add", ["d_full", "d_branch"], "e_sum")
        self.node("Relu", ["e_sum"], "e0")
        self.bottleneck("e0", "e1", 16)
        self.transposed("e1", "result", 16, 12)
        self.cut(["d_full", "d_branch"], ["result"])

    def cut(self, sources: list[str], targets: list[str]) -> None:
        """End a piece here."""
        self.pieces.append((self.nodes, sources, targets))
        self.nodes = []

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> None:
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))

    def weighted(self, kind: str, source: str, target: str, shape: tuple[int, ...], **attributes: Any) -> None:
        scaled = self.rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        self.constants[f"{target}_weight"] = scaled.astype(np.float32)
        self.node(kind, [source, f"{target}_weight"], target, **attributes)

    def convolve(
        self, source: str, target: str, read: int, write: int, size: int, dilation: int = 1, **attributes: Any
    ) -> None:
        pads = [dilation * (size // 2)] * 4
        self.weighted(
            "Conv", source, target, (write, read, size, size), pads=pads, dilations=[dilation] * 2, **attributes
        )

    def transposed(self, source: str, target: str, read: int, write: int) -> None:
        self.weighted("ConvTranspose", source, target, (read, write, 2, 2), strides=[2, 2])

    def branch(self, source: str, target: str, read: int, write: int, down: bool) -> None:
        """What stands beside a pooling or an unpooling."""
        few = max(4, min(read, write) // 4)
        if down:
            self.weighted("Conv", source, f"{target}_1", (few, read, 2, 2), strides=[2, 2])
            self.node("Relu", [f"{target}_1"], f"{target}_2")
            self.convolve(f"{target}_2", f"{target}_3", few, few, 3)
        else:
            self.convolve(source, f"{target}_1", read, few, 1)
            self.node("Relu", [f"{target}_1"], f"{target}_2")
            self.transposed(f"{target}_2", f"{target}_3", few, few)
        self.node("Relu", [f"{target}_3"], f"{target}_4")
        self.convolve(f"{target}_4", target, few, write, 1)

    def join(self, pooled: str, more: int, branch: str, target: str) -> None:
        """What was pooled, with so many channels more of zeros, and what stood beside the pooling."""
        self.constants[f"{pooled}_pads"] = np.array([0, 0, 0, 0, 0, more, 0, 0])
        self.node("Pad", [pooled, f"{pooled}_pads"], f"{pooled}_padded")
        self.node("Add", [f"{pooled}_padded", branch], f"{target}_sum")
        self.node("Relu", [f"{target}_sum"], target)

    def bottleneck(self, source: str, target: str, channels: int, dilation: int = 1) -> None:
        few = channels // 4
        self.convolve(source, f"{target}_1", channels, few, 1)
        self.node("Relu", [f"{target}_1"], f"{target}_2")
        self.convolve(f"{target}_2", f"{target}_3", few, few, 3, dilation)
        self.node("Relu", [f"{target}_3"], f"{target}_4")
        self.convolve(f"{target}_4", f"{target}_5", few, channels, 1)
        self.node("Add", [source, f"{target}_5"], f"{target}_sum")
        self.node("Relu", [f"{target}_sum"], target)

    def session(
        self, nodes: list[NodeProto], sources: list[str], targets: list[str], threads: int | None
    ) -> onnxruntime.InferenceSession:
        """A session with `threads` of its own, or with the ones that all share."""
        used = {name for node in nodes for name in node.input}
        constants = [numpy_helper.from_array(array, name) for name, array in self.constants.items() if name in used]
        ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * 4) for name in names]
                for names in (sources, targets)]  # fmt: skip
        graph = helper.make_graph(nodes, "piece", *ends, constants)
        model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
        options = onnxruntime.SessionOptions()
        if threads is None:
            options.use_per_session_threads = False
        else:
            options.intra_op_num_threads = threads
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def whole(self, threads: int) -> Callable[[np.ndarray], np.ndarray]:
        """The network in ONNX Runtime alone."""
        between = [pooling("a", "a_pooled", "a_indices"), pooling("b4", "b_pooled", "b_indices"),
                   unpooling("c_up", "b_indices", "c_full"), unpooling("d_up", "a_indices", "d_full")]  # fmt: skip
        nodes = [*self.pieces[0][0]]
        for layer, (piece, *_) in zip(between, self.pieces[1:], strict=True):
            nodes += [layer, *piece]
        run = self.session(nodes, ["x"], ["result"], threads).run
        return lambda x: run(None, {"x": x})[0]

    def in_pieces(self, threads: int) -> Callable[[np.ndarray], np.ndarray]:
        """The network cut where it pools and unpools, which cunpool does, with codes from one to the other."""
        onnxruntime.set_global_thread_pool_sizes(threads, 1)
        sessions = [(self.session(nodes, sources, targets, None), sources) for nodes, sources, targets in self.pieces]
        # ONNX Runtime's threads wait for work awake: another one of ours would have to share a processor with them.
        options = {"index_format": "window", "num_threads": 1}

        # What a piece hands on lies in the same memory in every call, as it does inside a whole model: the system takes
        # longer to find new pages than ONNX Runtime to fill them.
        kept: dict[int, list[np.ndarray]] = {}

        def run(piece: int, *arrays: np.ndarray) -> list[np.ndarray]:
            session, sources = sessions[piece]
            if piece not in kept or piece == len(sessions) - 1:  # the result is the caller's
                kept[piece] = session.run(None, dict(zip(sources, arrays, strict=True)))
                return kept[piece]
            binding = session.io_binding()
            for name, array in zip(sources, arrays, strict=True):
                binding.bind_cpu_input(name, array)
            for output, array in zip(session.get_outputs(), kept[piece], strict=True):
                binding.bind_output(output.name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
            session.run_with_iobinding(binding)
            return kept[piece]

        def network(x: np.ndarray) -> np.ndarray:
            (a,) = run(0, x)
            a_pooled, a_codes = cu.max_pool2d(a, 2, return_indices=True, **options)
            b, b_branch = run(1, a_pooled, a)
            b_pooled, b_codes = cu.max_pool2d(b, 2, return_indices=True, **options)
            c, c4 = run(2, b_pooled, b_branch)
            d, d_branch = run(3, cu.max_unpool2d(c, b_codes, 2, **options), c4)
            return run(4, cu.max_unpool2d(d, a_codes, 2, **options), d_branch)[0]

        return network


def timed(shape: tuple[int, ...], threads: int, rounds: int) -> None:
    """The whole network and the cut one, by turns: the medians of their times, and of the ratios."""
    enet = Enet()
    ways = [enet.whole(threads), enet.in_pieces(threads)]
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    report(f"a network like ENet, cut, {threads} thread{'s' * (threads > 1)}", ways[1](x), ways[0](x))
    times = np.empty((rounds, 2))
    for kept in times:
        for way, call in enumerate(ways):
            time.sleep(0.02)  # threads of the other one that still wait for work go to sleep
            start = time.perf_counter()
            call(x)
            kept[way] = time.perf_counter() - start
    alone, cut = 1e3 * np.median(times, axis=0)
    low, ratio, high = np.percentile(times[:, 0] / times[:, 1], [25, 50, 75])
    print(f"  ONNX Runtime alone {alone:.1f} ms, cut {cut:.1f} ms: {ratio:.2f} times as fast [{low:.2f} {high:.2f}]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", type=int, nargs=4, default=[1, 3, 512, 512], help="of what the timed network sees")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--threads", type=int, help="time this alone; else 1 and 2, in a process each")
    options = parser.parse_args()
    if options.threads:
        timed(tuple(options.shape), options.threads, options.rounds)
        return
    x = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
    expected = whole(x)
    print(f"{'the whole model in ONNX Runtime':<43}{x.shape} -> {expected.shape}")
    report("pooled and unpooled by cunpool", cut(x), expected)
    report("pooled by ONNX Runtime, indices converted", crossed(x), expected)
    sys.stdout.flush()
    for threads in (1, 2):  # the pool that sessions share has one size in a process
        subprocess.run([sys.executable, __file__, *sys.argv[1:], "--threads", str(threads)], check=True)


if __name__ == "__main__":
    main()
