"""What is said of a wrong argument: the rule, and what came. ``python tests/test_messages.py`` prints all of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cunpool as cu

X = np.arange(32.0).reshape(1, 2, 4, 4)
Y, INDICES = cu.max_pool2d(X, 2, return_indices=True)

RIGHT: dict[Callable[..., Any], dict[str, Any]] = {
    cu.max_pool2d: {"input": X, "kernel_size": 2},
    cu.max_unpool2d: {"input": Y, "indices": INDICES, "kernel_size": 2},
    cu.max_unpool2d_backward: {"grad_output": X, "indices": INDICES, "kernel_size": 2},
    cu.max_pool2d_backward: {"grad_output": Y, "indices": INDICES, "input_size": (4, 4), "kernel_size": 2},
    cu.convert_indices: {
        "indices": INDICES, "source": "plane", "target": "onnx", "input_size": (4, 4), "kernel_size": 2,
    },
    cu.MaxUnpool2d: {"kernel_size": 2},
    cu.set_num_threads: {"n": 1},
    cu.set_cache_limit: {"nbytes": 0},
}  # fmt: skip

SIZE = [1.5, "2", b"2", True, object(), (1.5, 2), ("a", "b"), (2, True), (2, None), np.array([[2, 2]]), {"h": 2},
        np.array(2.0), np.array(True), (2, 2, 2), (), -1, (2, -1), 10**30, [[2], [2]], np.float64(2),
        np.ones(500)]  # fmt: skip
SIZES = [5, 4.0, "abc", b"44", True, object(), (4.0, 4.0), ("4", "4"), (4, None), (True, 4), np.array(4), (4,), [4] * 5,
         (40, 40), (-4, 4), (10**30, 4), [[4], [4]], np.array([4.0, 4.0])]  # fmt: skip
COUNT = [1.0, "1", True, object(), (1,), [1], np.array([1, 2]), -1, np.float64(1)]
ARRAY = ["abc", object(), None, [[1], [1, 2]], np.ones((2, 2), object), np.ones(4), np.ones((4, 4)), np.ones((1,) * 6),
         np.array([["a"]]), np.ma.masked_array(X, X > 3), {}]  # fmt: skip
WRONG: dict[str, list[Any]] = {
    "kernel_size": [None, 0, *SIZE],
    "stride": [0, *SIZE],
    "padding": [None, *SIZE, 3],
    "dilation": [None, 0, *SIZE],
    "output_size": SIZES,
    "input_size": [None, *SIZES],
    "num_threads": [0, *COUNT],
    "n": [0, *COUNT],
    "nbytes": [None, 2**63, 2**64, 2**70, *COUNT],
    "ceil_mode": ["no", None, 2, -1, 1.0, (True,), [], np.array([True])],
    "return_indices": ["no", None, 2, 0.0, [False]],
    "index_dtype": ["i2", np.uint8, "c8", float, object(), 5, "nonsense"],
    "index_format": ["codes", None, 1, b"window", ("plane",), True],
    "nan_policy": ["skip", None, 1, b"omit", ["omit"], True],
    "channel_axis": ["abc", b"1", 1.5, True, object(), (1,), np.array([1, 2]), 4, -5],
    "source": ["torch", None, 1, b"plane", ["plane"]],
    "target": ["torch", None, 1, b"plane", ["plane"]],
    "input": ARRAY,
    "grad_output": [*ARRAY, X.astype(complex).astype(object)],
    "indices": [*ARRAY, INDICES[:, :1], INDICES[0], INDICES + 0.5, INDICES > 3, INDICES + 100, -INDICES - 1],
    "fill_value": ["abc", b"1", [1.0], np.zeros(1), object(), {}, 10**400, 1j],
    "onto": [*[wrong for wrong in ARRAY if wrong is not None], 5, X[:, :1], X.astype("f4"), X[0]],
    "out": [
        "abc",
        X.tolist(),
        X[:1, :1],
        X.astype("f4"),
        np.ma.masked_array(X, X > 3),
        np.broadcast_to(0.0, X.shape),
        5,
    ],
}


def cases() -> Iterator[tuple[Callable[..., Any], str, Any]]:
    for call in RIGHT:
        code = call.__code__ if hasattr(call, "__code__") else call.__init__.__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        for name in names:
            if name != "self":
                for value in WRONG[name]:
                    yield call, name, value


def said(call: Callable[..., Any], name: str, value: Any) -> Exception | None:
    try:
        call(**{**RIGHT[call], name: value})
    except Exception as error:
        return error
    return None


# What is no mistake: a part of the indices is as good as all of them, and modules learn the sizes later.
TAKEN = {("convert_indices", "indices"), ("MaxUnpool2d", "padding"), ("MaxUnpool2d", "channel_axis")}
# Where the rule says it without what came: an index and its place are what came.
PLAIN = (
    r"must not be a masked array|something that numpy.asarray converts: |index -?\d+ at position"
    r"|the output would have size|the windows do not fit: pooling|do not belong to input_size"
)
# Sizes that belong together: the message names the one that the other asks for.
BESIDE = {"input_size": "grad_output|indices|the windows do not fit", "padding": "the output would|of the default size"}


@pytest.mark.filterwarnings("ignore:Creating an ndarray from ragged nested sequences")  # before NumPy 1.24
@pytest.mark.parametrize("call", RIGHT, ids=lambda call: call.__name__)
def test_each_wrong_argument_is_told_the_rule_and_what_came(call):
    before = cu.get_cache_limit()
    try:
        for _, name, value in (case for case in cases() if case[0] is call):
            error = said(call, name, value)
            what = f"{call.__name__} {name}={short(value)}: {error!r}"
            if error is None:
                assert (call.__name__, name) in TAKEN, what
                continue
            assert type(error) in (TypeError, ValueError, OverflowError, IndexError), what
            text = str(error)
            assert "\n" not in text, what
            assert re.search(rf"\b{name}\b|{BESIDE.get(name, 'index .* at position')}", text), what
            assert re.search(rf"\bgot\b|{PLAIN}", text), what
            assert len(text) < 330, what
    finally:
        cu.set_cache_limit(before)


def test_remedies_are_given():
    for call, name, value, remedy in (
        (cu.max_pool2d, "input", X[0, 0], r"got \(4, 4\); add a channel axis: input\[None\]"),
        (cu.max_unpool2d_backward, "grad_output", X[0, 0], r"add a channel axis: grad_output\[None\]"),
        (cu.max_pool2d, "input", np.ma.masked_array(X), r"pass input.filled\(...\)"),
        (cu.max_unpool2d, "out", np.ma.masked_array(X), "pass out.data"),
        (cu.max_unpool2d, "output_size", "abc", "output_size must be a sequence of integers, got 'abc'"),
        (cu.max_unpool2d, "output_size", (4.0, 4.0), r"output_size must be a sequence of integers, got \(4.0, 4.0\)"),
        (cu.max_unpool2d_backward, "grad_output", X[:, :, 1:, 1:2], "the spatial size of grad_output must lie within"),
        (cu.set_cache_limit, "nbytes", 2**70, "nbytes must be at most sys.maxsize, "),
    ):
        assert re.search(remedy, str(said(call, name, value)))


def test_a_tensor_with_a_gradient_is_told_where_to_go():
    torch = pytest.importorskip("torch")
    for call, name, tensor in (
        (cu.max_pool2d, "input", torch.zeros(1, 2, 4, 4, requires_grad=True)),
        (cu.max_unpool2d, "input", torch.zeros(1, 2, 2, 2, requires_grad=True)),
        (cu.max_unpool2d, "input", torch.zeros(1, 2, 2, 2, dtype=torch.bfloat16)),
        (cu.max_unpool2d_backward, "grad_output", torch.zeros(1, 2, 4, 4, device="meta")),
    ):
        error = said(call, name, tensor)
        assert isinstance(error, TypeError)
        assert f"{name} must be an array, got a torch.Tensor that NumPy cannot read: use cunpool.torch" in str(error)
    assert cu.max_pool2d(torch.ones(1, 2, 4, 4), 2).shape == (1, 2, 2, 2)  # NumPy reads others


def short(value: Any) -> str:
    return re.sub(r"\s+", " ", repr(value))[:40]


if __name__ == "__main__":
    for call, name, value in cases():
        error = said(call, name, value)
        print(f"{call.__name__:<22} {name:<13} {short(value):<41} {type(error).__name__}: {error}")
