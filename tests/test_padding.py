"""Padding that differs at the two ends of an axis: pairs, "same" and "same_lower"."""

from __future__ import annotations

import itertools
import pickle
import re

import numpy as np
import pytest
import reference
import vectorised
from cases import POOL, UNPOOL, at_the_beginning_of_memory, at_the_end_of_memory, bits
from fuzzing.right import POOL_BACKWARD, TAKE, UNPOOL_BACKWARD

import cunpool as cu

NAMES = "same", "same_lower"


def windows(n: int):
    """Kernel, stride, padding and dilation along the last axis, where the others have another padding."""
    for kernel, stride, dilation in itertools.product((1, 2, 3, 5), (1, 2, 4), (1, 2)):
        reach = dilation * (kernel - 1)
        for padding in (*NAMES, (0, reach), (reach, 0), (reach, reach), (reach // 2, min(reach // 2 + 1, reach))):
            given = padding if isinstance(padding, str) else (*[(min(1, reach), 0)] * (n - 1), padding)
            yield kernel, stride, given, dilation


@pytest.mark.mostly_slow
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_every_function_does_what_the_definitions_say(rng, n, ceil_mode):
    for window in windows(n):
        if ceil_mode and isinstance(window[2], str):
            continue
        full = (*rng.integers(2, 5, n - 1).tolist(), int(rng.integers(1, 12)))
        x = rng.integers(-9, 9, (2, 2, *full)).astype(np.float32)
        if min(map(reference.pooled_size, full, *map(reference.each, window, (n,) * 4), (ceil_mode,) * n)) < 1:
            continue
        values, indices = reference.max_pool(x, n, *window, ceil_mode)
        result = POOL[n](x, *window, ceil_mode, return_indices=True)
        assert [*map(bits, result)] == [bits(values), bits(indices)], (full, window)
        if any(indices.ravel() >= np.prod(full)) or values.min() == -np.inf:
            continue  # a window without any element has no place
        codes = reference.codes(indices, full, n, *window).astype(np.uint8)
        found = POOL[n](x, *window, ceil_mode, return_indices=True, index_format="window")[1]
        assert bits(found) == bits(codes), (full, window)
        sizes = dict(zip(("kernel_size", "stride", "padding", "dilation"), window, strict=True))
        where = {"input_size": full, **sizes}
        assert bits(cu.convert_indices(codes, "window", "plane", **where)) == bits(indices)
        assert bits(cu.convert_indices(indices, "plane", "window", **where)) == bits(codes)
        expected = reference.max_unpool(values, indices, n, full)
        grad = rng.integers(0, 9, x.shape).astype(np.float32)
        for chosen, given in (("plane", indices), ("window", codes)):
            sizes["index_format"] = chosen
            assert bits(TAKE[n](x, given, **sizes)) == bits(values)
            added = POOL_BACKWARD[n](values, given, full, **sizes)
            assert bits(added) == bits(vectorised.max_pool_backward(values, indices, n, full))
            default = reference.default_size(indices.shape[-n:], n, *window)
            if not ceil_mode or all(abs(d - f) < s for d, f, s in zip(default, full, (window[1],) * n, strict=True)):
                assert bits(UNPOOL[n](values, given, **sizes, output_size=full)) == bits(expected), (full, window)
                taken = UNPOOL_BACKWARD[n](grad, given, **sizes)
                assert bits(taken) == bits(TAKE[n](grad, indices))


@pytest.mark.mostly_slow
@pytest.mark.parametrize("forms", [{}, {"index_dtype": np.int32}, {"index_format": "window"}], ids=str)
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("kernel", [2, 3, 5])
def test_rows_of_which_several_windows_reach_over_an_end(rng, kernel, stride, forms):
    """Rows around the widths of vectors, in arrays beside which nothing may be read."""
    pads = ((kernel - 1, kernel - 1), (0, kernel - 1)), ((1, 0), (kernel - 1, kernel - 1)), ((0, 1), (0, 1))
    for width, pair in itertools.product((1, 2, 7, 8, 9, 15, 16, 17, 18, 31, 33, 34, 65, 67), pads):
        if width + sum(pair[1]) < kernel:
            continue
        x = rng.integers(-9, 9, (2, 2, 9, width)).astype(np.float32)
        x[rng.random(x.shape) < 0.1] = -np.inf
        padded = np.pad(x, ((0, 0), (0, 0), *pair), constant_values=-np.inf)
        values = cu.max_pool2d(padded, kernel, stride)
        result = cu.max_pool2d(x, kernel, stride, pair, return_indices=True, **forms)
        assert bits(result[0]) == bits(values), (width, pair)
        for moved in (at_the_end_of_memory, at_the_beginning_of_memory):
            assert bits(cu.max_pool2d(moved(x), kernel, stride, pair)) == bits(values), (width, pair)
        window = {"kernel_size": kernel, "stride": stride, "padding": pair}
        chosen = forms.get("index_format", "plane")
        taken = cu.take_at2d(x, result[1], **window, index_format=chosen)
        assert bits(taken) == bits(values)


@pytest.mark.parametrize("name", NAMES)
def test_same_has_the_sizes_and_windows_of_its_formula(name, rng):
    for size, kernel, stride, dilation in itertools.product(range(1, 12), (1, 2, 3, 4), (1, 2, 3, 5), (1, 2)):
        count = -(-size // stride)
        total = max((count - 1) * stride + dilation * (kernel - 1) + 1 - size, 0)
        before = total // 2 if name == "same" else total - total // 2
        x = rng.random((1, size))
        arguments = kernel, stride, name, dilation
        assert cu.max_pool1d(x, *arguments).shape == (1, count)
        pairs = cu.max_pool1d(x, kernel, stride, ((before, total - before),), dilation, return_indices=True)
        same = cu.max_pool1d(x, *arguments, return_indices=True)
        if total or kernel >= stride:
            assert [*map(bits, same)] == [*map(bits, pairs)], (size, *arguments)


def session(onnx, runtime, shape, **attributes):
    """A network of one MaxPool."""
    node = onnx.helper.make_node("MaxPool", ["x"], ["y", "indices"], **attributes)
    tensor = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [node],
        "pooling",
        [tensor("x", onnx.TensorProto.FLOAT, shape)],
        [tensor("y", onnx.TensorProto.FLOAT, None), tensor("indices", onnx.TensorProto.INT64, None)],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 12)], ir_version=8)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    return runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("n", [1, 2, 3])
def test_onnx_runtime_pads_alike(rng, n):
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    names = {"same": "SAME_UPPER", "same_lower": "SAME_LOWER"}
    for _ in range(40):
        kernel, stride = rng.integers(1, 5, n).tolist(), rng.integers(1, 4, n).tolist()
        stride = [min(s, k) for s, k in zip(stride, kernel, strict=True)]  # it places narrower windows elsewhere
        full = rng.integers(4, 11, n).tolist()
        pairs = tuple((int(rng.integers(0, k)), int(rng.integers(0, k))) for k in kernel)
        x = rng.permutation(2 * 3 * int(np.prod(full))).reshape(2, 3, *full).astype(np.float32)  # without ties
        sizes = {"kernel_size": tuple(kernel), "stride": tuple(stride)}
        for padding in (*NAMES, pairs):
            pads = (
                {"auto_pad": names[padding]}
                if padding in names
                else {"pads": [end for ends in zip(*pairs, strict=True) for end in ends]}
            )
            theirs = session(onnx, runtime, x.shape, kernel_shape=kernel, strides=stride, **pads).run(None, {"x": x})
            ours = POOL[n](x, **sizes, padding=padding, return_indices=True)
            assert bits(ours[0]) == bits(theirs[0]), (full, sizes, padding)
            where = {"input_size": full, **sizes, "padding": padding}
            assert bits(cu.convert_indices(theirs[1], "onnx", "plane", **where)) == bits(ours[1])
            assert bits(cu.convert_indices(ours[1], "plane", "onnx", **where)) == bits(theirs[1])


def test_unpooling_by_name_takes_the_sizes_that_pool_to_its_input():
    for name in NAMES:
        values, indices = np.ones((1, 4)), np.array([[0, 3, 6, 9]])
        assert cu.max_unpool1d(values, indices, 3, 3, name).shape == (1, 12)
        for size in range(16):
            if 10 <= size <= 12:
                assert cu.max_unpool1d(values, indices, 3, 3, name, (size,)).shape == (1, size)
                assert cu.max_pool1d(np.zeros((1, size)), 3, 3, name).shape == (1, 4)
                continue
            with pytest.raises(ValueError, match=r"what was pooled: length 10 to 12$") as caught:
                cu.max_unpool1d(values, indices, 3, 3, name, (size,))
            assert f"one that padding='{name}' and stride (3,) pool to (4,), got ({size},)" in str(caught.value)
    assert cu.max_unpool1d(np.ones((1, 0)), np.zeros((1, 0), int), 3, 3, "same").shape == (1, 0)


def test_unpooling_by_pairs_counts_both_ends():
    values, indices = np.ones((1, 4)), np.array([[0, 3, 6, 8]])
    assert cu.max_unpool1d(values, indices, 3, 3, ((1, 2),)).shape == (1, 9)
    assert cu.max_unpool1d(values, indices, 3, 3, ((0, 2),), dilation=2).shape == (1, 12)
    with pytest.raises(ValueError, match="length 7 to 11"):
        cu.max_unpool1d(values, indices, 3, 3, ((1, 2),), (12,))


def test_no_size_is_proposed_where_windows_depend_on_it():
    """Where the two ends of an axis differ, indices in another size are not looked for."""
    x = np.arange(35.0).reshape(1, 5, 7)
    for padding in ("same", ((0, 1), (0, 1))):
        y, indices = cu.max_pool2d(x, 2, 2, padding, return_indices=True)
        assert cu.max_unpool2d(y, indices, 2, 2, padding, x.shape).sum() == y.sum()
        with pytest.raises(IndexError, match=r"has the indices 0 to 5$"):
            cu.max_unpool2d(y[:, :1, :2], indices[:, :1, :2] + 40, 2, 2, padding, (2, 3))


def test_pairs_come_in_any_container():
    x = np.arange(30.0).reshape(1, 5, 6)
    expected = bits(cu.max_pool2d(x, 3, 2, ((0, 1), (2, 1))))
    for padding in (
        [[0, 1], [2, 1]],
        np.array([[0, 1], [2, 1]]),
        ((np.int8(0), 1), range(2, 0, -1)),
        iter([(0, 1), (2, 1)]),
    ):
        assert bits(cu.max_pool2d(x, 3, 2, padding)) == expected
    assert bits(cu.max_pool2d(x, 3, 2, np.str_("same"))) == bits(cu.max_pool2d(x, 3, 2, "same"))


@pytest.mark.parametrize(
    ("padding", "message"),
    [
        (
            (1, 2),
            r"have 1 entry, one per axis, got \(1, 2\); a pair \(before, after\) is nested: pass padding=\(\(1, 2\),\)",
        ),
        ((1, 1), r"both ends of an axis share one entry: pass padding=\(1,\)"),
        (((1, 2), (0, 0)), "for 2 axes there are the functions with 2d in their names"),
        (((3, 0),), r"less than dilation \* \(kernel_size - 1\) \+ 1, \(3,\), got \(\(3, 0\),\)"),
        (((0, -1),), "at least 0 on every axis"),
    ],
    ids=str,
)
def test_what_is_refused(padding, message):
    x = np.arange(6.0)[None]
    y, indices = cu.max_pool1d(x, 3, 1, return_indices=True)
    codes = np.zeros(y.shape, np.uint8)
    for call in (
        lambda: cu.max_pool1d(x, 3, 1, padding),
        lambda: cu.MaxPool1d(3, 1, padding)(x),
        lambda: cu.max_unpool1d(y, indices, 3, 1, padding),
        lambda: cu.max_unpool1d_backward(x, indices, 3, 1, padding),
        lambda: cu.max_pool1d_backward(y, indices, (6,), 3, 1, padding),
        lambda: cu.take_at1d(x, codes, 3, 1, padding, index_format="window"),
        lambda: cu.convert_indices(indices, "plane", "onnx", input_size=(6,), kernel_size=3, stride=1, padding=padding),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_a_side_beyond_2_to_the_60_is_refused():
    x = np.zeros((1, 3), np.int8)
    with pytest.raises(OverflowError, match=re.escape("padding must be at most 2**60")):
        cu.max_pool1d(x, 3, 1, ((0, 2**61),))
    for forms in ({}, {"index_format": "window"}):
        with pytest.raises(OverflowError, match="a window must span at most"):
            cu.max_pool2d(x[None], 2, 2**60, ((2**60, 2**60),) * 2, 2**60, return_indices=True, **forms)
    with pytest.raises(OverflowError, match="windows must span at most"):
        cu.max_unpool1d(x, np.zeros((1, 3), int), 2**60, 1, "same", dilation=2**60)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_leaves_no_window_for_ceil_mode(name):
    with pytest.raises(ValueError, match=f"ceil_mode must be False with padding='{name}', whose windows reach the end"):
        cu.max_pool1d(np.zeros((1, 6)), 3, 2, name, ceil_mode=True)


@pytest.mark.parametrize("padding", ["same", ((1, 0), (0, 2)), ((0, 0), (2, 2))], ids=str)
def test_modules_keep_it(padding):
    x = np.random.default_rng(0).random((1, 2, 6, 7))
    pool = pickle.loads(pickle.dumps(cu.MaxPool2d(3, 2, padding, return_indices=True)))
    unpool = pickle.loads(pickle.dumps(cu.MaxUnpool2d(3, 2, padding)))
    assert f"padding={padding!r}" in repr(pool)
    assert f"padding={padding!r}" in repr(unpool)
    y, indices = pool(x)
    assert [*map(bits, (y, indices))] == [*map(bits, cu.max_pool2d(x, 3, 2, padding, return_indices=True))]
    again = unpool(y, indices, x.shape)
    assert bits(cu.take_at2d(again, indices)) == bits(y)
    with pytest.raises(ValueError, match="padding must be an integer or have 3 entries"):
        cu.MaxUnpool3d(3, 2, ((1, 0), (0, 2)))
