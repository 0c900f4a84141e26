"""Exported networks in ONNX Runtime: PyTorch's numbers, by one MaxPool and one MaxUnpool for each of theirs."""

from __future__ import annotations

import copy
import doctest
import re
import warnings
from collections import Counter
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

import cunpool.torch as ct  # noqa: E402
from cunpool.torch import _onnx  # noqa: E402

PAGE = Path(__file__).parent.parent / "docs" / "onnx.md"

nn, F = torch.nn, torch.nn.functional


@pytest.fixture(autouse=True)
def settled():
    """The same numbers in every test, and none of the warnings of PyTorch's exporter about itself."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Net(nn.Module):
    """Pooled and unpooled; the indices are returned too."""

    def __init__(self, n, window, sized, ceil_mode=False, functions=False):
        super().__init__()
        self.n, self.window, self.sized, self.ceil_mode, self.functions = n, window, sized, ceil_mode, functions
        self.pool = getattr(nn, f"MaxPool{n}d")(*window, return_indices=True, ceil_mode=ceil_mode)
        self.smooth = getattr(nn, f"MaxPool{n}d")(3, 1, 1)
        self.unpool = getattr(nn, f"MaxUnpool{n}d")(*window)

    def forward(self, x):
        size = x.shape[-self.n :] if self.sized else None
        if self.functions:
            y, indices = getattr(F, f"max_pool{self.n}d")(x, *self.window, return_indices=True)
            return getattr(F, f"max_unpool{self.n}d")(y, indices, *self.window, output_size=size), y, indices
        y, indices = self.pool(x)
        return self.unpool(y, indices, size), self.smooth(y), indices


def exported(net, x, tmp_path, **options):
    """The file's nodes, counted, and a session of ONNX Runtime."""
    path = tmp_path / "net.onnx"
    assert ct.export_onnx(net, (x,), path, verbose=False, **options) is not None
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return Counter(node.op_type for node in onnx.load(path).graph.node), session


def check(net, session, x):
    results = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    for result, expected in zip(results, net(x), strict=True):
        assert torch.equal(torch.from_numpy(result), expected)


CASES = [  # n, window, shape, output_size, ceil_mode
    (1, (2,), (2, 3, 10), False, False),
    (1, (3, 2, 1), (1, 3, 11), True, False),
    (2, (2,), (1, 3, 8, 10), False, False),
    (2, (2,), (2, 3, 9, 11), True, False),
    (2, (2,), (2, 3, 9, 11), True, True),
    (2, (2,), (3, 8, 9), True, False),
    (2, (3, 2, 1), (2, 3, 9, 11), True, False),
    (2, (3, 2, 1), (2, 3, 10, 8), True, True),
    (2, ((3, 2), (2, 1), (1, 0)), (2, 3, 10, 9), True, False),
    (2, (2, 3), (2, 3, 10, 9), True, True),  # a window that starts behind the input
    (3, (2,), (2, 2, 4, 6, 8), False, False),
    (3, (3, 2, 1), (1, 2, 5, 7, 9), True, True),
]


@pytest.mark.parametrize(("n", "window", "shape", "sized", "ceil_mode"), CASES)
def test_onnxruntime_gives_pytorchs_numbers(tmp_path, n, window, shape, sized, ceil_mode):
    net = Net(n, window, sized, ceil_mode).eval()
    x = torch.randn(shape)
    nodes, session = exported(net, x, tmp_path)
    assert nodes["MaxPool"] == 2
    assert nodes["MaxUnpool"] == 1
    check(net, session, x)


@pytest.mark.parametrize(("n", "sized"), [(1, True), (2, False), (2, True), (3, True)])
def test_dynamic_sizes(tmp_path, n, sized):
    net = Net(n, (2,), sized, ceil_mode=n == 1).eval()
    auto = torch.export.Dim.AUTO
    _, session = exported(net, torch.randn(2, 3, *(8,) * n), tmp_path, dynamic_shapes={"x": (auto, 3, *(auto,) * n)})
    for lead in (1, 2, 5):
        check(net, session, torch.randn(lead, 3, *(10, 12, 6)[:n]))
        if sized:
            check(net, session, torch.randn(lead, 3, *(11, 12, 7)[:n]))


def test_a_dynamic_batch_needs_no_conversion(tmp_path):
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.pool, self.unpool = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)

        def forward(self, x):
            return self.unpool(*self.pool(x), output_size=x.shape[-2:])

    net = Plain().eval()
    nodes, session = exported(net, torch.randn(2, 3, 9, 8), tmp_path, dynamic_shapes={"x": {0: torch.export.Dim("n")}})
    assert nodes["MaxPool"] == nodes["MaxUnpool"] == 1
    assert not {"Mod", "Range", "ScatterND"} & {*nodes}
    for lead in (1, 4):
        x = torch.randn(lead, 3, 9, 8)
        (result,) = session.run(None, {"x": x.numpy()})
        assert torch.equal(torch.from_numpy(result), net(x))


@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_dilation(tmp_path, n, sized):
    class Dilated(nn.Module):
        def forward(self, x):
            y, indices = getattr(ct, f"max_pool{n}d")(x, 2, 2, dilation=3, return_indices=True)
            size = x.shape[-n:] if sized else None
            return getattr(ct, f"max_unpool{n}d")(y, indices, 2, 2, output_size=size, dilation=3)

    net, x = Dilated(), torch.randn(2, 3, *(11 if sized else 10,) * n)
    nodes, session = exported(net, x, tmp_path)
    assert nodes["MaxPool"] == nodes["MaxUnpool"] == 1
    check(lambda x: (net(x),), session, x)


def test_pytorchs_exporter_takes_dilation():
    class Dilated(nn.Module):
        def forward(self, x):
            y, indices = ct.max_pool2d(x, 2, 1, dilation=2, return_indices=True)
            return ct.max_unpool2d(y, indices, 2, 1, dilation=2)

    x = torch.randn(1, 2, 6, 6)
    program = torch.onnx.export(Dilated(), (x,), dynamo=True, verbose=False)
    assert torch.equal(torch.from_numpy(program(x)[0].numpy()), Dilated()(x))


@pytest.mark.parametrize("n", [2, 3])
def test_calls_of_functions(tmp_path, n):
    net = Net(n, (2,), True, functions=True).eval()
    x = torch.randn(2, 3, *(9, 8, 6)[:n])
    nodes, session = exported(net, x, tmp_path)
    assert nodes["MaxUnpool"] == nodes["MaxPool"] == 1
    check(net, session, x)


def test_what_onnx_cannot_say_is_one_clear_error():
    class Coded(nn.Module):
        def forward(self, x):
            y, codes = ct.max_pool2d(x, 2, return_indices=True, index_format="window")
            return ct.max_unpool2d(y, codes, 2, index_format="window")

    x = torch.randn(1, 1, 8, 8)
    with pytest.raises(ValueError, match=r"no window codes.* \(in max_pool"):
        ct.export_onnx(Coded(), (x,), verbose=False)
    auto = torch.export.Dim.AUTO
    with pytest.raises(ValueError, match=r"must not be dynamic \(in max_pool"):
        ct.export_onnx(nn.MaxPool1d(2, 3, ceil_mode=True), (torch.randn(1, 1, 9),), dynamic_shapes=((1, 1, auto),))
    with pytest.raises(torch.onnx.errors.OnnxExporterError):
        ct.export_onnx(nn.Linear(2, 3), (torch.randn(3, 3),), verbose=False)


def test_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(_onnx)
    assert result.attempted > 4
    assert result.failed == 0
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (block,) = (block for block in blocks if "export_onnx" in block)
    exec(compile(block, PAGE.name, "exec"), {})
    assert [node.op_type for node in onnx.load("net.onnx").graph.node if "Max" in node.op_type] == [
        "MaxPool",
        "MaxUnpool",
    ]


@pytest.mark.parametrize("index_format", ["plane", "window"])
def test_networks_that_are_accelerated_already(tmp_path, index_format):
    net = Net(2, (2,), True, functions=index_format == "plane").eval()
    x = torch.randn(2, 3, 9, 8)
    accelerated = ct.accelerate(copy.deepcopy(net), index_format=index_format)
    nodes, session = exported(accelerated, x, tmp_path)
    assert nodes["MaxUnpool"] == 1
    check(net, session, x)
    assert "by cunpool" in repr(accelerated)


@pytest.mark.parametrize("dynamo", [False, True])
def test_pytorchs_exporter_writes_pytorchs_operators(tmp_path, dynamo):
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2)).eval()
    path = tmp_path / "net.onnx"
    x = torch.randn(1, 1, 8, 8)
    torch.onnx.export(ct.accelerate(copy.deepcopy(net)), (x,), path, dynamo=dynamo, verbose=False)
    assert [node.op_type for node in onnx.load(path).graph.node] == ["Conv", "MaxPool"]
    if dynamo:
        whole = Net(2, (2,), True).eval()
        torch.onnx.export(ct.accelerate(copy.deepcopy(whole)), (x,), path, dynamo=True, verbose=False)
        check(whole, onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]), x)
        coded = ct.accelerate(copy.deepcopy(whole), index_format="window")
        with pytest.raises(Exception, match=r"window codes: pass the network to cunpool\.torch\.export_onnx"):
            torch.onnx.export(coded, (x,), path, dynamo=True, verbose=False)


@pytest.mark.parametrize(
    ("error", "message", "make", "options"),
    [
        (TypeError, r"got the class Net: pass an instance, Net\(\)", lambda: Net, {}),
        (ValueError, "got dynamo=False: leave it out, or", lambda: nn.MaxPool2d(2), {"dynamo": False}),
        (TypeError, "must not be scripted or traced", lambda: torch.jit.script(nn.MaxPool2d(2)), {}),
    ],
)
def test_what_cannot_be_exported_is_refused_in_plain_words(error, message, make, options):
    with pytest.raises(error, match=message):
        ct.export_onnx(make(), (torch.rand(1, 1, 4, 4),), **options)


def test_without_onnxscript_there_is_one_line(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ImportError, match=r"pip install 'cunpool\[onnx\]'"):
        ct.onnx_translation_table()


def test_the_layer_is_found_behind_other_errors():
    error = ValueError("not exported")
    error.__cause__ = RuntimeError("Error when translating node %max_pool2d : [num_users=1]")
    assert _onnx._layer(error) == "max_pool2d"
