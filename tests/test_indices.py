from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
import reference
from cases import INTEGERS, OTHER, POOL, bits, geometry, layout, lead

import cunpool as cu
from cunpool import _diagnostics

FORMATS = ("plane", "window", "onnx", "tf", "tf_batch")
LINEAR = tuple(name for name in FORMATS if name != "window")


def defined(name, indices, shape, n, kernel_size, stride, padding, dilation):
    """Indices of the format "plane" in another, one by one; None where one is in no window."""
    kernel = reference.each(kernel_size, n)
    strides = kernel if stride is None else reference.each(stride, n)
    full, channels, cells = shape[-n:], shape[-n - 1], int(np.prod(shape[-n:]))
    result = np.empty(indices.shape, np.int64)
    for at in np.ndindex(indices.shape):
        place = int(indices[at])
        item, channel = at[0] if len(shape) == n + 2 else 0, at[-n - 1]
        codes = []
        for code, tap in enumerate(np.ndindex(kernel)):
            cell = [
                o * s - p + d * t
                for o, s, p, d, t in zip(
                    at[-n:], strides, reference.each(padding, n), reference.each(dilation, n), tap, strict=True
                )
            ]
            if all(0 <= c < size for c, size in zip(cell, full, strict=True)):
                codes += [code] * (int(np.ravel_multi_index(cell, full)) == place)
        if not codes:
            return None
        result[at] = {
            "plane": place,
            "window": codes[0],
            "onnx": (item * channels + channel) * cells + place,
            "tf": place * channels + channel,
            "tf_batch": (item * cells + place) * channels + channel,
        }[name]
    return result


def random_case(rng, n, most=None, ceil=True):
    """The whole shape that was pooled, PyTorch's indices, and the arguments of the pooling."""
    while True:
        (*window, ceil_mode), full = geometry(rng, n, most=most or {1: 15, 2: 7, 3: 5}[n], ceil=ceil)
        shape = lead(rng) + full
        x = layout(rng, rng.standard_normal(shape).astype(np.float32))
        _, indices = POOL[n](x, *window, ceil_mode, return_indices=True)
        # Where dilation leaves a window nothing but padding, no index is right.
        if defined("plane", indices[(0,) * (indices.ndim - n - 1)][:1], (1, *full), n, *window) is not None:
            return shape, indices, dict(zip(("kernel_size", "stride", "padding", "dilation"), window, strict=True))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_every_format_is_its_definition_and_back_again(rng, n):
    for _ in range(25):
        shape, indices, window = random_case(rng, n)
        where = dict(window, input_size=shape[-n:])
        expected = {name: defined(name, indices, shape, n, *window.values()) for name in FORMATS}
        for source, target in itertools.product(FORMATS, FORMATS):
            given = layout(rng, expected[source].astype(np.uint8 if source == "window" else np.int64))
            result = cu.convert_indices(given, source, target, **where)
            assert result.dtype == (np.uint8 if target == "window" else np.int64)
            assert result.flags.c_contiguous
            assert result.flags.writeable
            assert not np.may_share_memory(result, given)
            assert np.array_equal(result, expected[target]), (source, target, shape, window)


@pytest.mark.parametrize(
    "dtype", [*INTEGERS, *map(np.dtype, (f"{OTHER}i2", f"{OTHER}u4", f"{OTHER}i8", f"{OTHER}u8"))], ids=str
)
def test_index_dtypes(rng, dtype):
    indices = np.array([[[[4, 7]], [[0, 6]]]])
    for source, target in itertools.product(FORMATS, FORMATS):
        given, expected = (defined(name, indices, (1, 2, 2, 4), 2, 2, None, 0, 1) for name in (source, target))
        given = layout(rng, given.astype(dtype))
        assert given.dtype == dtype
        assert np.array_equal(cu.convert_indices(given, source, target, input_size=(2, 4), kernel_size=2), expected)


def test_int32_where_it_is_asked_for(rng):
    for n in (1, 2, 3):
        shape, indices, window = random_case(rng, n)
        where = dict(window, input_size=shape[-n:])
        for source, target in itertools.product(FORMATS, LINEAR):
            given = cu.convert_indices(indices, "plane", source, **where)
            wide = cu.convert_indices(given, source, target, **where)
            for kind in (np.int32, np.int64):
                result = cu.convert_indices(given, source, target, **where, index_dtype=kind)
                assert result.dtype == kind
                assert np.array_equal(result, wide)
        with pytest.raises(TypeError, match="index_dtype is for plane indices"):
            cu.convert_indices(indices, "plane", "window", **where, index_dtype=np.int32)
        with pytest.raises(TypeError, match="index_dtype must be int64 or int32, got uint8"):
            cu.convert_indices(indices, "plane", "onnx", **where, index_dtype=np.uint8)


def test_int32_has_to_have_room_for_all_of_a_format():
    indices = np.zeros((2, 1, 1), np.int64)
    for size, fits in (((2**30,), True), ((2**30 + 1,), False)):
        where = {"input_size": size, "kernel_size": 1, "stride": size}
        for target in ("onnx", "tf", "tf_batch"):
            if fits:
                result = cu.convert_indices(indices, "plane", target, **where, index_dtype=np.int32)
                assert np.array_equal(result, cu.convert_indices(indices, "plane", target, **where))
            else:
                lines = indices[:, 0] if target == "tf" else indices  # two channels: "tf" counts no batch
                with pytest.raises(OverflowError, match=r"at most 2\*\*31 elements"):
                    cu.convert_indices(lines, "plane", target, **where, index_dtype=np.int32)
        assert cu.convert_indices(indices, "plane", "plane", **where, index_dtype=np.int32).dtype == np.int32


def test_a_list_will_do():
    assert cu.convert_indices([[1, 2]], "plane", "window", input_size=(4,), kernel_size=2).tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("kernel", "dtype"), [((16, 16), "u1"), ((257,), "u2"), ((17, 16), "u2"), ((64, 32, 32), "u2")], ids=str
)
def test_the_size_of_a_position(kernel, dtype):
    n = len(kernel)
    cells = int(np.prod(kernel))
    indices = np.arange(cells - 3, cells).reshape((1, 3) + (1,) * n)
    codes = cu.convert_indices(indices, "plane", "window", input_size=kernel, kernel_size=kernel)
    assert codes.dtype == np.dtype(dtype)
    assert codes.ravel().tolist() == [cells - 3, cells - 2, cells - 1]
    back = cu.convert_indices(codes, "window", "plane", input_size=kernel, kernel_size=kernel)
    assert np.array_equal(back, indices)


def test_windows_with_too_many_positions():
    where = {"input_size": (1, 1, 1, 65537), "kernel_size": (1, 65537)}
    indices = np.array([[[[65536]]]])
    for source, target in (("window", "plane"), ("plane", "window"), ("window", "window")):
        with pytest.raises(ValueError, match="at most 65536 elements"):
            cu.convert_indices(indices, source, target, **where)
    assert cu.convert_indices(indices, "onnx", "tf", **where).item() == 65536


# --- how many axes were pooled over


def test_the_spatial_sizes_alone_say_how_many_axes():
    places = np.array([[0, 2], [8, 10]]) + np.zeros((3, 1, 1), int)  # (C, H, W)
    onnx = places + 16 * np.arange(3)[:, None, None]
    assert np.array_equal(cu.convert_indices(places, "plane", "onnx", input_size=(4, 4), kernel_size=2), onnx)
    # The same shape as (N, C, L).
    lines = np.array([0, 2]) + np.zeros((3, 2, 1), int)
    onnx = lines + 4 * np.arange(6).reshape(3, 2, 1)
    assert np.array_equal(cu.convert_indices(lines, "plane", "onnx", input_size=(4,), kernel_size=2), onnx)


@pytest.mark.parametrize("name", ["kernel_size", "stride", "padding", "dilation"])
def test_arguments_with_an_entry_for_each_axis_say_how_many(name):
    window = {"kernel_size": 2, "stride": 2, "padding": 0, "dilation": 1}
    for n, shape in ((1, (3, 4, 4)), (2, (3, 4, 4)), (2, (2, 3, 4, 4)), (3, (3, 4, 4, 4)), (3, (2, 3, 4, 4, 4))):
        arguments = window | {name: (window[name],) * n}
        _, indices = POOL[n](np.zeros(shape), 2, return_indices=True)
        short = cu.convert_indices(indices, "plane", "tf_batch", input_size=shape[-n:], **window)
        whole = cu.convert_indices(indices, "plane", "tf_batch", input_size=shape, **arguments)
        assert np.array_equal(whole, short)


def test_a_whole_shape_and_integers_alone_mean_a_batch():
    for shape, n in (((2, 6), 1), ((2, 3, 6), 1), ((2, 3, 6, 6), 2), ((2, 3, 4, 4, 4), 3)):
        _, indices = POOL[n](np.zeros(shape), 2, return_indices=True)
        short = cu.convert_indices(indices, "plane", "onnx", input_size=shape[-n:], kernel_size=2)
        assert np.array_equal(cu.convert_indices(indices, "plane", "onnx", input_size=shape, kernel_size=2), short)


def test_three_axes_that_may_be_a_batch_or_a_plane_are_refused(rng):
    """Pooling to the same size fits both, and the answers differ."""
    x = rng.random((3, 6, 5))
    window = {"kernel_size": 3, "stride": 1, "padding": 1}
    for n, size in ((1, (5,)), (2, (6, 5))):
        _, indices = POOL[n](x, **window, return_indices=True)
        with pytest.raises(ValueError, match="input_size must be the spatial sizes alone if indices may be"):
            cu.convert_indices(indices, "plane", "window", input_size=x.shape, **window)
        codes = cu.convert_indices(indices, "plane", "window", input_size=size, **window)
        again = cu.convert_indices(indices, "plane", "window", input_size=x.shape, **window | {"kernel_size": (3,) * n})
        assert np.array_equal(codes, again)
    two = {"kernel_size": 3, "stride": 2, "padding": 1}  # the sizes say that it was one axis
    _, indices = cu.max_pool1d(x, **two, return_indices=True)
    assert cu.convert_indices(indices, "plane", "window", input_size=x.shape, **two).shape == (3, 6, 3)
    _, indices = cu.max_pool1d(x[:, :1], 3, 1, return_indices=True)  # no window of 3 x 3 fits a height of 1
    assert cu.convert_indices(indices, "plane", "onnx", input_size=(3, 1, 5), kernel_size=3, stride=1).shape == (
        3,
        1,
        3,
    )


# --- what is refused

WHERE = {"input_size": (1, 2, 4, 4), "kernel_size": 2}
GOOD = np.array([[[[0, 2], [8, 10]], [[5, 7], [13, 15]]]])


@pytest.mark.parametrize(("source", "target"), [("torch", "plane"), ("plane", "Window"), ("", "tf"), (None, "tf")])
def test_unknown_formats(source, target):
    with pytest.raises(
        ValueError, match=r"must be one of 'plane', 'window', 'onnx', 'onnx_column_major', 'tf', .*, got"
    ):
        cu.convert_indices(GOOD, source, target, **WHERE)


@pytest.mark.parametrize("dtype", [float, bool, object, str, complex])
def test_indices_that_are_not_integers(dtype):
    for source in FORMATS:
        with pytest.raises(TypeError, match="indices must be of integers"):
            cu.convert_indices(np.zeros((1, 2, 2, 2), dtype), source, "plane", **WHERE)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"input_size": (2, 2, 4, 4)}, ValueError),  # another batch
        ({"input_size": (1, 6, 4, 4)}, ValueError),  # other channels
        ({"input_size": (1, 2, 6, 4)}, ValueError),
        ({"input_size": (1, 2, 4, 3)}, None),  # in ceil mode
        ({"input_size": (1, 2, 4, 2)}, ValueError),
        ({"input_size": (5, 5)}, None),
        ({"input_size": (6, 6)}, ValueError),
        ({"input_size": (3, 5)}, ValueError),  # ceil mode on one axis and floor mode on the other
        ({"input_size": (2, 4, 4)}, ValueError),
        ({"input_size": (4,)}, ValueError),
        ({"input_size": ()}, ValueError),
        ({"input_size": (1, 1, 2, 4, 4)}, ValueError),
        ({"input_size": (1, 2, 0, 4)}, ValueError),
        ({"input_size": (1, 2, -4, 4)}, ValueError),
        ({"input_size": (1, 2, 4, 4.0)}, TypeError),
        ({"input_size": 4}, TypeError),
        ({"input_size": None}, TypeError),
        ({"kernel_size": 0}, ValueError),
        ({"kernel_size": (2, 2, 2)}, ValueError),
        ({"kernel_size": (2, 2), "stride": (2,)}, ValueError),
        ({"kernel_size": 2.0}, TypeError),
        ({"stride": 1}, ValueError),
        ({"stride": 0}, ValueError),
        ({"padding": 1}, ValueError),
        ({"padding": -1}, ValueError),
        ({"padding": 2}, ValueError),
        ({"dilation": 0}, ValueError),
        ({"dilation": 4}, ValueError),
        ({"input_size": (2**40, 2**40), "stride": 2**39}, (ValueError, OverflowError)),
        ({"input_size": (2**60 + 1, 2), "stride": (2**60, 1), "kernel_size": 1}, OverflowError),
    ],
    ids=str,
)
def test_sizes_that_do_not_fit(changed, error):
    indices = np.zeros_like(GOOD) if error is not None else np.array([[[[0, 2], [8, 10]]] * 2])
    if error is None:
        full = changed["input_size"][-2:]
        indices = indices // 4 * full[1] + indices % 4
        assert cu.convert_indices(indices, "plane", "window", **WHERE | changed).tolist() == [[[[0, 0], [0, 0]]] * 2]
        return
    with pytest.raises(error):
        cu.convert_indices(indices, "plane", "onnx", **WHERE | changed)


def test_axes_that_are_too_few_or_too_many():
    for shape, size in (((), ()), ((2,), (4,)), ((1,) * 6, (1,) * 6), ((1,) * 5, (1,) * 4), ((1,) * 6, (1,) * 3)):
        with pytest.raises(ValueError, match="indices must be of shape"):
            cu.convert_indices(np.zeros(shape, int), "plane", "onnx", input_size=size, kernel_size=1)


@pytest.mark.parametrize("bad", [-1, -(2**31), -(2**63), 2**63 - 1, 2**63, 2**64 - 1, 1000])
@pytest.mark.parametrize("source", FORMATS)
def test_indices_out_of_range(source, bad):
    end = {"plane": 16, "window": 4, "onnx": 32, "tf": 32, "tf_batch": 32}[source]
    good = cu.convert_indices(GOOD, "plane", source, **WHERE).astype(np.uint64 if bad >= 2**63 else np.int64)
    for position in ((0, 0, 0, 0), (0, 0, 1, 1), (0, 1, 1, 1)):
        for value in (bad, end) if bad == 1000 else (bad,):
            indices = good.copy()
            indices[position] = value
            for target in FORMATS:
                with pytest.raises(IndexError) as error:
                    cu.convert_indices(indices, source, target, **WHERE)
                assert str(error.value) == (
                    f"index {value} at position {position} is outside: "
                    f"here the format {source!r} has the indices 0 to {end - 1}"
                )


def test_indices_of_another_plane():
    for source in ("onnx", "tf", "tf_batch"):
        good = cu.convert_indices(np.tile(GOOD, (2, 1, 1, 1)), "plane", source, input_size=(4, 4), kernel_size=2)
        flipped = [good[:, ::-1]] if source == "tf" else [good[:, ::-1], good[::-1]]
        for indices in flipped:
            with pytest.raises(
                IndexError, match=rf"index {indices.flat[0]} at position \(0, 0, 0, 0\) is not in its own plane"
            ):
                cu.convert_indices(indices, source, "plane", input_size=(4, 4), kernel_size=2)


@pytest.mark.parametrize("source", LINEAR)
def test_indices_outside_their_windows(source):
    for target in FORMATS:
        indices = cu.convert_indices(GOOD, "plane", source, **WHERE)
        indices[0, 1] = indices[0, 1, ::-1].copy()
        with pytest.raises(IndexError) as error:
            cu.convert_indices(indices, source, target, **WHERE)
        assert str(error.value) == (
            f"index {indices[0, 1, 0, 0]} at position (0, 1, 0, 0) is element (3, 1), "
            "outside its window: (2, 2) from (0, 0), dilation (1, 1)"
        )


def test_indices_between_the_cells_of_a_dilated_window():
    where = {"input_size": (7,), "kernel_size": 3, "stride": 1, "padding": 1, "dilation": 2}
    good = np.array([[1, 4, 5, 2, 5]])
    assert cu.convert_indices(good, "plane", "window", **where).tolist() == [[1, 2, 2, 0, 1]]
    for at, bad in ((0, 0), (0, 2), (2, 2), (4, 6), (4, 1)):
        indices = good.copy()
        indices[0, at] = bad
        with pytest.raises(IndexError, match=rf"index {bad} at position \(0, {at}\) is element \({bad},\), outside"):
            cu.convert_indices(indices, "plane", "window", **where)


def test_positions_in_the_padding():
    where = {"input_size": (3, 3), "kernel_size": 3, "stride": 2, "padding": 1}
    good = np.array([[[4, 3], [1, 0]]], np.uint8)
    assert cu.convert_indices(good, "window", "plane", **where).tolist() == [[[0, 1], [3, 4]]]
    for at, bad in (((0, 0, 0), 0), ((0, 0, 0), 3), ((0, 0, 1), 5), ((0, 1, 0), 7), ((0, 1, 1), 2)):
        indices = good.copy()
        indices[at] = bad
        with pytest.raises(IndexError) as error:
            cu.convert_indices(indices, "window", "plane", **where)
        assert str(error.value) == f"index {bad} at position {at} is in the padding"


def test_the_first_offender_in_raster_order_is_named():
    indices = GOOD.copy()
    indices[0, 1, 1, 1], indices[0, 1, 0, 1], indices[0, 1, 1, 0] = -1, 0, 99
    for given in (indices, np.asfortranarray(indices)):
        with pytest.raises(IndexError, match=r"index 0 at position \(0, 1, 0, 1\) is element \(0, 0\)"):
            cu.convert_indices(given, "plane", "plane", **WHERE)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_what_is_accepted_is_what_is_in_a_window(rng, n):
    for _ in range(30):
        shape, indices, window = random_case(rng, n, most=4)
        places = rng.integers(-1, int(np.prod(shape[-n:])) + 1, indices.shape) if rng.random() < 0.5 else indices.copy()
        places.flat[rng.integers(places.size)] += rng.integers(-1, 2)
        expected = defined("window", places, shape, n, *window.values())
        try:
            result = cu.convert_indices(places, "plane", "window", input_size=shape[-n:], **window)
        except IndexError:
            assert expected is None
        else:
            assert np.array_equal(result, expected)


@pytest.mark.parametrize("shape", [(0, 3, 2, 2), (2, 0, 2, 2), (0, 0, 2, 2), (0, 2, 2)])
def test_no_planes(shape):
    for source, target in itertools.product(FORMATS, FORMATS):
        indices = np.zeros(shape, np.int32)
        result = cu.convert_indices(indices, source, target, input_size=(4, 4), kernel_size=2)
        assert result.shape == shape
        assert result.dtype == (np.uint8 if target == "window" else np.int64)


def test_the_indices_are_not_changed():
    for source in FORMATS:
        indices = cu.convert_indices(GOOD, "plane", source, **WHERE)
        before = indices.copy()
        cu.convert_indices(indices, source, "plane", **WHERE)[...] = 99
        indices[0, 0, 0, 0] = before[0, 0, 0, 0] = 77
        with pytest.raises(IndexError):
            cu.convert_indices(indices, source, "plane", **WHERE)
        assert np.array_equal(indices, before)


# --- indices of other libraries


def test_unpooling_knows_onnx_indices_when_it_sees_them():
    hint = "see cunpool.convert_indices(indices, 'onnx', 'plane', ...)"
    for dtype in (np.int64, np.int32, np.uint8, np.uint64, f"{OTHER}i4"):
        onnx = cu.convert_indices(GOOD, "plane", "onnx", **WHERE).astype(dtype)
        for indices in (onnx, onnx[0]):
            with pytest.raises(IndexError) as error:
                cu.max_unpool2d(np.zeros(indices.shape), indices, 2)
            assert str(error.value).endswith(hint)
    for at, wrong in (((0, 0, 0, 0), 16), ((0, 1, 1, 1), 32), ((0, 1, 1, 1), -1), ((0, 1, 1, 1), 2**62)):
        indices = cu.convert_indices(GOOD, "plane", "onnx", **WHERE)
        indices[at] = wrong
        with pytest.raises(IndexError) as error:
            cu.max_unpool2d(np.zeros(indices.shape), indices, 2)
        assert "onnx" not in str(error.value)
    with pytest.raises(IndexError) as error:  # of one plane they are alike
        cu.max_unpool2d(np.zeros((1, 1, 2, 2)), GOOD[:, :1] + 16, 2)
    assert "onnx" not in str(error.value)


def test_what_looks_like_onnx():
    onnx = cu.convert_indices(GOOD, "plane", "onnx", **WHERE)
    assert _diagnostics.looks_like_onnx(onnx, 2, (4, 4))
    assert not _diagnostics.looks_like_onnx(GOOD, 2, (4, 4))
    assert not _diagnostics.looks_like_onnx(onnx[:0], 2, (4, 4))
    assert not _diagnostics.looks_like_onnx(onnx.astype(np.uint64) + np.uint64(2**63), 2, (4, 4))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_onnx_runtimes_indices(rng, n):
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    for _ in range(15):
        shape, indices, window = random_case(rng, n, ceil=False)
        kernel, stride, padding, dilation = (
            value if value is None else reference.each(value, n) for value in window.values()
        )
        if len(shape) < n + 2:
            shape, indices = (1, *shape), indices[None]
        node = onnx.helper.make_node(
            "MaxPool", ["x"], ["y", "indices"], kernel_shape=kernel, strides=stride or kernel,
            pads=padding * 2, dilations=dilation,
        )  # fmt: skip
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
        session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        x = rng.permutation(int(np.prod(shape))).reshape(shape).astype(np.float32)  # without ties
        values, theirs = session.run(None, {"x": x})
        ours, indices = POOL[n](x, *window.values(), return_indices=True)
        assert np.array_equal(values, ours)
        assert np.array_equal(cu.convert_indices(theirs, "onnx", "plane", input_size=shape[-n:], **window), indices)
        assert np.array_equal(cu.convert_indices(indices, "plane", "onnx", input_size=shape[-n:], **window), theirs)


def test_conversions_of_many_planes_one_wide(rng):
    x = rng.random((1, 9000, 3, 2), np.float32)
    _, indices = cu.max_pool2d(x, (2, 2), return_indices=True)
    window = {"input_size": (3, 2), "kernel_size": 2}
    codes = cu.convert_indices(indices, "plane", "window", **window)
    assert bits(codes) == bits(cu.max_pool2d(x, 2, return_indices=True, index_format="window")[1])
    assert bits(cu.convert_indices(codes, "window", "plane", **window)) == bits(indices)


# --- ONNX's storage_order=1


@pytest.mark.parametrize("n", [1, 2, 3])
def test_column_major_indices_are_counted_one_by_one(rng, n):
    for _ in range(20):
        shape, indices, window = random_case(rng, n, ceil=False)
        full = shape[-n:]
        theirs = cu.convert_indices(indices, "plane", "onnx_column_major", input_size=full, **window)
        planes = np.arange(math.prod(indices.shape[:-n])).reshape(indices.shape[:-n] + (1,) * n)
        order = np.arange(math.prod(full)).reshape(full[::-1]).transpose().ravel()  # by place: where columns count it
        assert np.array_equal(theirs, order[indices] + planes * math.prod(full))
        assert np.array_equal(
            cu.convert_indices(theirs, "onnx_column_major", "plane", input_size=full, **window), indices
        )
        small = cu.convert_indices(theirs, "onnx_column_major", "onnx", input_size=full, **window)
        assert np.array_equal(small, cu.convert_indices(indices, "plane", "onnx", input_size=full, **window))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_onnx_runtimes_column_major_indices(rng, n):
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    shape = (2, 3, 9, 7, 5)[: n + 2]
    node = onnx.helper.make_node(
        "MaxPool", ["x"], ["y", "indices"], kernel_shape=[2] * n, strides=[2] * n, storage_order=1
    )
    tensor = onnx.helper.make_tensor_value_info
    outputs = [tensor("y", onnx.TensorProto.FLOAT, None), tensor("indices", onnx.TensorProto.INT64, None)]
    graph = onnx.helper.make_graph([node], "pool", [tensor("x", onnx.TensorProto.FLOAT, shape)], outputs)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 12)], ir_version=8)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    x = rng.permutation(math.prod(shape)).reshape(shape).astype(np.float32)
    values, theirs = session.run(None, {"x": x})
    ours, indices = POOL[n](x, 2, return_indices=True)
    assert np.array_equal(values, ours)
    where = {"input_size": shape, "kernel_size": 2}
    assert np.array_equal(cu.convert_indices(theirs, "onnx_column_major", "plane", **where), indices)
    assert np.array_equal(cu.convert_indices(indices, "plane", "onnx_column_major", **where), theirs)


# --- a whole shape


def test_a_whole_shape_is_taken_wherever_it_decides(rng):
    for shape, n in (
        ((3, 12, 10), 2),
        ((3, 12, 10), 1),
        ((3, 8, 12, 10), 2),
        ((3, 8, 12, 10), 3),
        ((2, 3, 8, 12, 10), 3),
    ):
        for window in ({"kernel_size": 2}, {"kernel_size": 3, "stride": 2}, {"kernel_size": (3,) * n, "stride": 1}):
            _, indices = POOL[n](rng.random(shape), **window, return_indices=True)
            expected = cu.convert_indices(indices, "plane", "onnx", input_size=shape[-n:], **window)
            assert np.array_equal(cu.convert_indices(indices, "plane", "onnx", input_size=shape, **window), expected)
    # Windows that leave the sizes as they are fit (C, D, H, W) too: that is not what is meant.
    same = {"kernel_size": 3, "stride": 1, "padding": 1}
    _, indices = cu.max_pool2d(rng.random((2, 3, 6, 5)), **same, return_indices=True)
    expected = cu.convert_indices(indices, "plane", "window", input_size=(6, 5), **same)
    assert np.array_equal(cu.convert_indices(indices, "plane", "window", input_size=(2, 3, 6, 5), **same), expected)


def test_a_whole_shape_that_does_not_decide_is_named():
    with pytest.raises(ValueError, match=re.escape(
        "may be (N, C, L) or (C, H, W), got (3, 6, 5) for indices of shape (3, 6, 5): pass input_size=(5,) for windows "
        "over one axis, (6, 5) for two"
    )):  # fmt: skip
        cu.convert_indices(np.zeros((3, 6, 5), int), "plane", "onnx", input_size=(3, 6, 5), kernel_size=1)
    with pytest.raises(ValueError, match=re.escape(
        "indices of shape (3, 4, 4) do not belong to input_size (3, 6, 5): pooling (3, 6, 5) over 1 axis gives (3, 6, "
        "2), or (3, 6, 3) in ceil mode, pooling (3, 6, 5) over 2 axes gives (3, 3, 2), or (3, 3, 3) in ceil mode"
    )):  # fmt: skip
        cu.convert_indices(np.zeros((3, 4, 4), int), "plane", "onnx", input_size=(3, 6, 5), kernel_size=2)
    with pytest.raises(ValueError, match="kernel_size must be at least 1"):  # which fits over no number of axes
        cu.convert_indices(np.zeros((3, 4, 4), int), "plane", "onnx", input_size=(3, 6, 5), kernel_size=0)
