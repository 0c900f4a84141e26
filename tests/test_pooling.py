from __future__ import annotations

import ctypes
import platform
import sys

import ml_dtypes
import numpy as np
import pytest
import reference
import vectorised
from cases import (
    FLOATS,
    INTEGERS,
    POOL,
    at_the_beginning_of_memory,
    bits,
    channels_last,
    geometry,
    layout,
    lead,
    random_numbers,
)

import cunpool as cu


def agree(x, n, arguments, **keywords):
    values, indices = POOL[n](x, *arguments, return_indices=True, **keywords)
    expected_values, expected_indices = vectorised.max_pool(x, n, *arguments)
    assert bits(values) == bits(expected_values)
    assert bits(indices) == bits(expected_indices)
    assert bits(POOL[n](x, *arguments, **keywords)) == bits(values)


def agree_at_once(x, n, arguments):
    """`agree`, with window codes too, for large arrays."""
    values, indices = vectorised.max_pool(x, n, *arguments)
    for index_format in ("plane", "window"):
        same, found = POOL[n](x, *arguments, return_indices=True, index_format=index_format)
        assert bits(same) == bits(values), (x.shape, x.strides)
        if index_format == "window" and (indices < np.prod(x.shape[-n:])).all():
            found = found.astype(np.int64)
            assert np.array_equal(found, reference.codes(indices, x.shape[-n:], n, *arguments[:4]))
        elif index_format == "plane":
            assert np.array_equal(found, indices), (x.shape, x.strides)
    assert bits(POOL[n](x, *arguments)) == bits(values)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, np.dtype(bool)], ids=str)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_pooling_is_its_definition(rng, n, dtype):
    for _ in range(12):
        arguments, full = geometry(rng, n, most={1: 30, 2: 9, 3: 5}[n])
        x = layout(rng, random_numbers(rng, dtype, lead(rng) + full))
        before = bits(x)
        agree(x, n, arguments)
        assert bits(x) == before


@pytest.mark.parametrize("arguments", [(2,), (2, 1), (3, 2, 1), (3, 1, 1)], ids=str)
@pytest.mark.parametrize("dtype", ["f4", "u1"])
def test_short_rows_of_int32_indices(rng, dtype, arguments):
    """They are written by small vectors, which may overlap."""
    kernel, stride = arguments[0], arguments[1] if len(arguments) > 1 else arguments[0]
    for windows in range(1, 40):
        for channels in (1, 3, 20):
            x = random_numbers(rng, np.dtype(dtype), (channels, 7, (windows - 1) * stride + kernel))
            _, expected = vectorised.max_pool(x, 2, *arguments)
            for order in (np.ascontiguousarray, np.asfortranarray):
                _, found = cu.max_pool2d(order(x), *arguments, return_indices=True, index_dtype=np.int32)
                assert np.array_equal(found, expected), (windows, channels)


# Sizes on both sides of what the buffers hold and the vectors take.
EDGES = (15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1024, 1025)
WINDOWS = [
    (2,),
    (3, 2, 1),
    (3, 1, 1, 2),
    (1, 2),
    (5, 3, 2, 1, True),
    (4, 1),
    (7, 3, 3),
    (3, 2, 0, 1, True),
    (2, 2, 0, 2, True),
]


@pytest.mark.mostly_slow
@pytest.mark.parametrize("dtype", ["f4", "u1", "f8", "e"])
@pytest.mark.parametrize("arguments", WINDOWS, ids=str)
def test_rows_of_as_many_windows_as_the_buffers_hold(rng, arguments, dtype):
    kernel, stride = arguments[0], arguments[1] if len(arguments) > 1 else arguments[0]
    for number, windows in enumerate(EDGES):
        full = (kernel + number % 5, (windows - 1) * stride + kernel + number % 2)
        agree_at_once(random_numbers(rng, np.dtype(dtype), (2, *full)), 2, arguments)
        agree_at_once(random_numbers(rng, np.dtype(dtype), (1, windows * stride + kernel)), 1, arguments)


@pytest.mark.mostly_slow
@pytest.mark.parametrize("dtype", ["f4", "u1"])
@pytest.mark.parametrize(
    "arguments",
    [
        *WINDOWS,
        ((4, 8), 3),
        ((3, 11), (1, 2)),
        ((11, 3), (2, 1), 1),
        ((2, 17), 1, (1, 8), (12, 1)),  # of many cells, all of which miss the array
    ],
    ids=str,
)
def test_as_many_channels_as_the_buffers_hold(rng, arguments, dtype):
    for channels in (15, 16, 17, 128, 129, 512, 513, 1025):
        x = random_numbers(rng, np.dtype(dtype), (1, channels, 11, 12))
        agree_at_once(x, 2, arguments)
        agree_at_once(channels_last(x), 2, arguments)


@pytest.mark.parametrize("rows", [15, 16, 32, 33])
def test_volumes_of_rows_at_the_buffers_edges(rng, rows):
    for arguments in (*WINDOWS, ((2, 1, 2), 2), ((1, 2, 2), (3, 2, 2)), ((2, 4, 4), (1, 2, 2))):
        for depth, width in ((9, rows), (8, 2 * rows + 1)):
            agree_at_once(random_numbers(rng, np.dtype("f4"), (2, depth, 10, width)), 3, arguments)


@pytest.mark.parametrize("dtype", ["f4", "u1", "i8", "e"])
@pytest.mark.parametrize(
    ("full", "arguments"),
    [
        ((2, 2, 8, 70), (2, (3, 2), (1, 0))), ((2, 2, 9, 70), (2, 2, 0, 1, True)), ((2, 2, 8, 71), (2, 2, 0, 1, True)),
        ((2, 2, 8, 6, 70), (2, (3, 2, 2), (1, 0, 0))), ((2, 2, 9, 6, 70), (2, 2, 0, 1, True)),
    ],
)  # fmt: skip
def test_long_rows_of_windows_of_two_over_an_edge(rng, dtype, full, arguments):
    agree(random_numbers(rng, np.dtype(dtype), full), len(full) - 2, arguments)


@pytest.mark.parametrize("dtype", ["f4", "u1"])
@pytest.mark.parametrize("arguments", [((1, 3), 1, (0, 1), (1, 300)), ((2, 5), (1, 2), (1, 2), (1, 150))])
def test_rows_of_sparse_windows_that_begin_in_the_padding(rng, dtype, arguments):
    agree(random_numbers(rng, np.dtype(dtype), (1, 2, 2, 610)), 2, arguments)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is protected by its C library")
@pytest.mark.parametrize("dtype", ["f4", "u1", "i8", "e"])
@pytest.mark.parametrize("arguments", [(2, 2, 1), (3, 2, 1), (5, 3, 2), (7, 4, 3), (3, 1, 1)])
def test_nothing_is_looked_at_before_the_array(rng, dtype, arguments):
    for full in ((1, 1, 3, 40), (1, 2, 6, 300), (1, 1, 3, 5, 40)):
        x = random_numbers(rng, np.dtype(dtype), full)
        agree(at_the_beginning_of_memory(x), len(full) - 2, arguments)


@pytest.mark.parametrize("order", ["<", ">"])
def test_byte_orders(rng, order):
    x = random_numbers(rng, np.dtype("f4"), (2, 3, 8, 8)).astype(f"{order}f4")
    values, indices = cu.max_pool2d(x, 2, return_indices=True)
    expected = reference.max_pool(x.astype("f4"), 2, 2)
    assert values.dtype == x.dtype
    assert bits(values.astype("f4")) == bits(expected[0])
    assert bits(indices) == bits(expected[1])


def test_nan_beats_all_and_the_last_is_named():
    nan = np.nan
    x = np.array([[[nan, 1, 2, nan], [3, nan, nan, 5]]])
    values, indices = cu.max_pool2d(x, 2, return_indices=True)
    assert np.isnan(values).all()
    assert indices.tolist() == [[[5, 6]]]


def test_the_padding_does_not_beat_minus_infinity():
    x = np.full((1, 4, 4), -np.inf, np.float32)
    values, indices = cu.max_pool2d(x, 3, 2, 1, return_indices=True)
    assert (values == -np.inf).all()
    assert indices.tolist() == [[[0, 1], [4, 5]]]
    lowest = np.full((1, 4, 4), -128, np.int8)
    assert (cu.max_pool2d(lowest, 3, 2, 1) == -128).all()


def test_equal_zeros_keep_the_first():
    for dtype in FLOATS:
        values, indices = cu.max_pool1d(np.array([[-0.0, 0.0, 0.0, -0.0]], dtype), 2, return_indices=True)
        assert indices.tolist() == [[0, 2]]
        assert np.signbit(values.astype(float)).tolist() == [[True, False]]


@pytest.mark.parametrize("shape", [(0, 3, 4, 4), (2, 0, 4, 4), (0, 4, 4), (0, 0, 4, 4)])
def test_empty_batches(shape):
    values, indices = cu.max_pool2d(np.zeros(shape, np.float32), 2, return_indices=True)
    assert values.shape == indices.shape == (*shape[:-2], 2, 2)
    assert indices.dtype == np.int64


@pytest.mark.parametrize("recycled", [1, 1 << 20])
def test_result_follows_the_layout_of_the_input(rng, monkeypatch, recycled):
    monkeypatch.setattr("cunpool._kernels.memory.RECYCLED", recycled)
    x = rng.random((2, 6, 6, 5)).transpose(0, 3, 1, 2)
    values, indices = cu.max_pool2d(x, 2, return_indices=True)
    assert values.transpose(0, 2, 3, 1).flags.c_contiguous
    assert indices.transpose(0, 2, 3, 1).flags.c_contiguous
    assert cu.max_pool2d(np.asfortranarray(x), 2).flags.f_contiguous


def test_one_answer_at_any_thread_count(rng):
    for shape in ((8, 40, 32, 32), (1, 1, 1000, 1000), (1, 256, 64, 40)):
        x = random_numbers(rng, np.dtype("f4"), shape)
        for laid in (x, channels_last(x)):
            one = cu.max_pool2d(laid, 3, 2, 1, return_indices=True, num_threads=1)
            for threads in (2, 3, 8):
                more = cu.max_pool2d(laid, 3, 2, 1, return_indices=True, num_threads=threads)
                assert list(map(bits, more)) == list(map(bits, one))


def test_array_likes():
    assert cu.max_pool1d([[1, 3, 2, 0]], 2).tolist() == [[3, 2]]
    assert cu.max_pool1d([[1.0, 3, 2, 0]], [2], [1]).tolist() == [[3, 3, 2]]


@pytest.mark.parametrize(
    "x", [np.zeros((1, 4), complex), np.array([["a"] * 4]), np.zeros((1, 4), object),
          np.zeros((1, 4), ml_dtypes.float8_e4m3fn), np.zeros((1, 4), "M8[s]")],
    ids=lambda x: str(x.dtype),
)  # fmt: skip
def test_other_dtypes_are_refused(x):
    with pytest.raises(TypeError, match="input must be of integers"):
        cu.max_pool1d(x, 2)


@pytest.mark.parametrize(
    ("error", "keywords"),
    [
        (ValueError, {"kernel_size": 0}),
        (ValueError, {"kernel_size": -1}),
        (ValueError, {"kernel_size": (2,)}),
        (ValueError, {"kernel_size": (2, 2, 2)}),
        (ValueError, {"kernel_size": 5}),
        (ValueError, {"kernel_size": 2, "stride": 0}),
        (ValueError, {"kernel_size": 2, "stride": (1, -1)}),
        (ValueError, {"kernel_size": 2, "padding": -1}),
        (ValueError, {"kernel_size": 2, "padding": 2}),
        (ValueError, {"kernel_size": (4, 1), "padding": (2, 1)}),
        (ValueError, {"kernel_size": 2, "dilation": 0}),
        (ValueError, {"kernel_size": 2, "dilation": 4}),
        (TypeError, {"kernel_size": 2.0}),
        (TypeError, {"kernel_size": (2.0, 2)}),
        (TypeError, {"kernel_size": "22"}),
        (TypeError, {"kernel_size": True}),
        (TypeError, {"kernel_size": None}),
        (TypeError, {"kernel_size": 2, "padding": None}),
        (OverflowError, {"kernel_size": 1, "dilation": 2**62}),
        (OverflowError, {"kernel_size": 1, "stride": 10**30}),
        ((ValueError, OverflowError), {"kernel_size": 2**62, "padding": 2**61}),
        ((ValueError, OverflowError), {"kernel_size": 10**30}),
        (ValueError, {"kernel_size": 2, "num_threads": 0}),
        (TypeError, {"kernel_size": 2, "num_threads": 1.5}),
    ],
    ids=str,
)
def test_bad_geometry(error, keywords):
    cu.max_pool2d(np.zeros((1, 4, 4)), (2, 2))  # equal to (2.0, 2), which must not pass for it
    with pytest.raises(error):
        cu.max_pool2d(np.zeros((1, 4, 4)), **keywords)
    with pytest.raises(error):
        cu.max_pool2d(np.zeros((0, 3, 4, 4)), **keywords)  # without planes as well


def test_bad_number_of_axes():
    for shape in ((4,), (4, 4), (1, 1, 1, 4, 4)):
        with pytest.raises(ValueError, match="must have 3 or 4 axes"):
            cu.max_pool2d(np.zeros(shape), 2)
    with pytest.raises(ValueError, match="at least 1"):
        cu.max_pool2d(np.zeros((2, 3, 0, 4)), 2)


def test_huge_strides_and_windows_that_do_fit():
    x = np.arange(12.0).reshape(1, 3, 4)
    assert cu.max_pool2d(x, 1, 2**60).tolist() == [[[0]]]
    assert cu.max_pool2d(x, 1, dilation=2**60).tolist() == x.tolist()
    assert cu.max_pool2d(x, (3, 4)).tolist() == [[[11]]]


def test_a_window_of_more_than_65536_cells(rng):
    x = rng.integers(-128, 128, (1, 300, 300)).astype(np.int8)
    values, indices = cu.max_pool2d(x, 300, return_indices=True)
    assert values.item() == x.max()
    assert indices.item() == x.argmax()


def test_the_stride_of_an_axis_of_one_entry_means_nothing():
    for shape, strides, arguments in (((1, 20, 1), (40, 2, 40), (1,)), ((2, 20, 1), (40, 2, 10**6), ((2, 1),)),
                                      ((1, 1, 20), (40, 7**7, 2), ((1, 2),))):  # fmt: skip
        x = np.lib.stride_tricks.as_strided(np.arange(40, dtype=np.int16), shape, strides)
        agree(x, 2, arguments)
        values, indices = cu.max_pool2d(np.ascontiguousarray(x), *arguments, return_indices=True)
        odd = np.lib.stride_tricks.as_strided(values, values.shape, [s if n > 1 else 999 for s, n in
                                              zip(values.strides, values.shape, strict=True)])  # fmt: skip
        full = x.shape[1:]
        expected = cu.max_unpool2d(values, indices, *arguments, output_size=full)
        assert bits(cu.max_unpool2d(odd, indices, *arguments, output_size=full)) == bits(expected)


def test_a_window_far_larger_than_the_array_takes_no_time():
    values, indices = cu.max_pool1d(np.zeros((1, 1)), 2**31 - 1, padding=2**30 - 1, return_indices=True)
    assert (values.tolist(), indices.tolist()) == ([[0]], [[0]])


def test_several_layers_of_windows_over_one_of_cells(rng):
    for arguments in (((2, 1, 4), 1, (1, 0, 2)), ((2, 2, 2), (1, 2, 2), (1, 0, 0)), ((3, 1, 2), (1, 1, 2), (1, 0, 0))):
        for full in ((2, 9, 1, 2, 6), (1, 3, 1, 4, 40), (20, 1, 1, 2, 4)):
            agree(random_numbers(rng, np.dtype("e"), full), 3, arguments)


@pytest.mark.parametrize(
    ("dtype", "full", "arguments"),
    [
        ("u1", (224, 224), (3, 8, 1)),
        ("f8", (64, 128), ((16, 1), 8, (8, 0))),
        ("f8", (20, 110, 110), (3, 5, 1)),
        ("f4", (40, 240), ((3, 3), (2, 8), (1, 1))),
        ("f4", (9, 9, 60), ((3, 3, 1), (1, 2, 2), (1, 1, 0))),
    ],
)
def test_rows_over_an_edge_that_are_deinterleaved_together(rng, dtype, full, arguments):
    # Rows inside the plane are as far apart in the buffers as in memory; those over its edge have no room for that.
    agree(random_numbers(rng, np.dtype(dtype), (2, *full)), len(full), arguments)


@pytest.mark.parametrize("kernel", [(2**22, 2**21, 2**21), (2**22, 2**22, 2**20), (2**25, 2**20, 2**19 + 3)])
def test_windows_with_more_cells_than_can_be_counted(kernel):
    padding = tuple(k // 2 for k in kernel)
    with pytest.raises(OverflowError, match=r"at most 2\*\*60 elements"):
        cu.max_pool3d(np.zeros((1, 1, 1, 1)), kernel, 1, padding)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="constants of Linux's mathematical library")
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_sums_are_rounded_to_the_nearest_whatever_the_calling_thread_does(threads):
    upward = {"x86_64": 0x800, "aarch64": 0x400000}.get(platform.machine())
    if upward is None:
        pytest.skip("who knows what this processor calls upward")
    grad = np.ones((1, 8, 64, 64), np.float32)
    grad[..., 1] = 2.0**-30  # added to 1, whose neighbour above is further off
    indices = np.broadcast_to(np.arange(64)[:, None] * 65 + 1, grad.shape)
    arguments = grad, indices, (64, 65), (1, 2), 1
    expected = cu.max_pool2d_backward(*arguments, num_threads=1)
    mathematics = ctypes.CDLL(None)
    cu.max_pool2d_backward(*arguments, num_threads=threads)  # OpenMP's threads are there, and round to the nearest
    before = mathematics.fegetround()
    assert mathematics.fesetround(upward) == 0
    try:
        result = cu.max_pool2d_backward(*arguments, num_threads=threads)
        rounded = mathematics.fegetround()
    finally:
        mathematics.fesetround(before)
    assert rounded == upward  # the caller's own setting is as it was
    assert bits(result) == bits(expected)


def test_tiny_numbers_are_not_zeros_whatever_the_calling_thread_does(rng):
    torch = pytest.importorskip("torch")
    x = (rng.integers(1, 200, (2, 64, 64, 64)) * 2.0**-149).astype("f4")
    expected = cu.max_pool2d(x, 3, 2, 1, return_indices=True, num_threads=1)
    gradient = cu.max_pool2d_backward(*expected, x.shape, 3, 2, 1, num_threads=1)
    assert torch.set_flush_denormal(True)
    try:
        for threads in (1, 2, 3):
            result = cu.max_pool2d(x, 3, 2, 1, return_indices=True, num_threads=threads)
            assert list(map(bits, result)) == list(map(bits, expected))
            assert bits(cu.max_pool2d_backward(*result, x.shape, 3, 2, 1, num_threads=threads)) == bits(gradient)
        assert (torch.tensor([2.0**-149]) + 0).item() == 0  # the caller's own setting is as it was
    finally:
        torch.set_flush_denormal(False)
