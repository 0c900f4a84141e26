"""A network shaped like FastSurfer's CNN, the one of the benchmark, in PyTorch and ONNX Runtime."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
import cunpool.torch as ct  # noqa: E402


@pytest.fixture(autouse=True)
def settled():
    """The same numbers in every test, and none of the warnings of PyTorch's exporter about itself."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture
def networks(monkeypatch):
    """The module of the benchmark."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "benchmarks"))
    import networks

    return networks


def run(network, x):
    """The result and all gradients."""
    x = x.clone().requires_grad_()
    network.zero_grad()
    y = network(x)
    y.square().mean().backward()
    return [y.detach(), x.grad, *(parameter.grad.clone() for parameter in network.parameters())]


@pytest.mark.parametrize("index_format", ["plane", "window"])
def test_networks_of_four_levels_are_pytorchs(networks, index_format):
    network = networks.fastsurfer(4, 3).eval()
    accelerated = ct.accelerate(copy.deepcopy(network), index_format=index_format)
    for batch in (1, 3):
        x = torch.randn(batch, 7, 33, 50)
        for result, expected in zip(run(accelerated, x), run(network, x), strict=True):
            assert torch.equal(result, expected)
    compiled = torch.compile(accelerated, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), network(x))


def test_networks_of_four_levels_in_onnx_runtime(networks):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    network, x = networks.fastsurfer(4, 3).eval(), torch.randn(2, 7, 33, 50)
    model = ct.export_onnx(network, (x,), input_names=["x"], verbose=False).model_proto
    kinds = [node.op_type for node in model.graph.node]
    assert [kinds.count(kind) for kind in ("MaxPool", "MaxUnpool", "ScatterND")] == [4, 4, 0]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x": x.numpy()})
    torch.testing.assert_close(torch.from_numpy(result), network(x).detach(), rtol=1e-4, atol=1e-4)
