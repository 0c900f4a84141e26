from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
import reference
import vectorised
from cases import FLOATS, MOVED, POOL, bits, channels_last, geometry, layout, lead, random_items

import cunpool as cu

TAKE = {n: getattr(cu, f"take_at{n}d") for n in (1, 2, 3)}
INDICES = [np.dtype(code) for code in ("b", "B", "h", "H", "i", "I", "q", "Q", ">i4", ">u8")]


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 3])
def test_it_takes_what_pooling_found(rng, n):
    """The maxima themselves, and the labels that lie where they do: indices and codes of any pooling."""
    for _ in range(20):
        (kernel, stride, padding, dilation, ceil_mode), full = geometry(rng, n)
        x = layout(rng, rng.permutation(np.prod(shape := lead(rng) + full)).reshape(shape))
        labels = layout(rng, random_items(rng, np.dtype(np.uint8), shape))
        window = kernel, stride, padding, dilation
        values, indices = POOL[n](x, *window, ceil_mode, return_indices=True)
        if (indices >= np.prod(full)).any():
            continue  # a window that misses the array
        assert bits(TAKE[n](x, indices)) == bits(values)
        expected = reference.take_at(labels, indices, n)
        assert bits(TAKE[n](labels, indices)) == bits(expected)
        codes = POOL[n](x, *window, ceil_mode, return_indices=True, index_format="window").indices
        result = TAKE[n](labels, codes, *window[:3], dilation=dilation, index_format="window")
        assert bits(result) == bits(expected) == bits(reference.take_at(labels, codes, n, window))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_indices_of_any_sizes_and_order(rng, dtype):
    for n in (1, 2, 3):
        for _ in range(6):
            shape, full = lead(rng), tuple(rng.integers(1, 12, n).tolist())
            sizes = tuple(rng.integers(0, 15, n).tolist())
            indices = rng.integers(0, min(np.prod(full), 128), shape + sizes).astype(rng.choice(INDICES))
            x = random_items(rng, dtype, shape + full)
            expected = reference.take_at(x, indices, n)
            assert bits(expected) == bits(vectorised.take_at(x, indices.astype(np.int64), n))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of indices in uint8
                assert bits(TAKE[n](layout(rng, x), layout(rng, indices))) == bits(expected)
                out = layout(rng, np.zeros_like(expected))
                assert TAKE[n](x, indices, out=out, num_threads=3) is out
            assert bits(out) == bits(expected)


def test_codes_of_windows_that_no_pooling_of_the_input_has(rng):
    """Fewer windows than would fit, and windows that overhang: all that counts is where each code leads."""
    for n in (1, 2, 3):
        accepted = 0
        for _ in range(60):
            window = kernel, stride, padding, dilation = [
                rng.integers(low, high, n).tolist() for low, high in ((1, 4), (1, 5), (0, 3), (1, 3))
            ]
            full, sizes = rng.integers(1, 12, n).tolist(), rng.integers(1, 5, n).tolist()
            if rng.random() < 0.5:  # room for all of the windows
                padding[:] = [0] * n
                full = [d * (k - 1) + s * 3 + f for k, s, d, f in zip(kernel, stride, dilation, full, strict=True)]
            x = rng.integers(0, 99, (2, *full))
            indices = rng.integers(0, np.prod(kernel), (2, *sizes)).astype(np.uint8)
            options = {"stride": stride, "padding": padding, "dilation": dilation, "index_format": "window"}
            try:
                expected = reference.take_at(x, indices, n, window)
            except IndexError as error:
                with pytest.raises(IndexError, match=rf"position \({', '.join(map(str, error.args[0]))}\) names no"):
                    TAKE[n](x, indices, kernel, **options)
            else:
                accepted += 1
                assert bits(expected) == bits(vectorised.take_at(x, indices, n, window))
                assert bits(TAKE[n](x, indices, kernel, **options)) == bits(expected)
        assert 20 < accepted < 55


def test_codes_wider_than_a_byte_and_of_other_integers():
    x = np.arange(660).reshape(1, 20, 33)
    codes = np.array([[[599, 0, 256]]])
    for dtype in (np.int64, np.uint16, np.int32, ">u4"):
        taken = cu.take_at2d(x, codes.astype(dtype), (20, 30), 1, index_format="window")
        assert taken.tolist() == [[[19 * 33 + 29, 1, 8 * 33 + 16 + 2]]]
    with pytest.raises(IndexError, match=r"code 599 at position \(0, 0, 2\) names no element: it lies in the padding"):
        cu.take_at2d(x[..., :31], codes[..., [1, 0, 0]], (20, 30), 1, index_format="window")


def test_the_layout_is_that_of_the_indices(rng):
    x = rng.random((2, 9, 6, 8))
    _, indices = cu.max_pool2d(channels_last(x), 2, return_indices=True)
    assert not indices.flags.c_contiguous
    taken = cu.take_at2d(x, indices)
    assert taken.strides == tuple(stride // indices.itemsize * x.itemsize for stride in indices.strides)
    assert cu.take_at2d(channels_last(x), np.ascontiguousarray(indices)).flags.c_contiguous


def test_one_array_for_several_channels():
    labels = np.broadcast_to(np.arange(16).reshape(4, 4), (3, 4, 4))
    indices = np.array([0, 5, 15]).reshape(3, 1, 1)
    assert cu.take_at2d(labels, indices).ravel().tolist() == [0, 5, 15]
    with pytest.raises(ValueError, match=r"must have the N and C of input, \(1,\).* got \(3, 1, 1\).*broadcast_to"):
        cu.take_at2d(labels[:1], indices)


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 3), (2, 3, 0)])
def test_without_elements_no_index_is_right(shape):
    x = np.ones(shape, np.float32)
    assert cu.take_at2d(x, np.zeros((shape[0], 0, 5), int)).shape == (shape[0], 0, 5)
    if shape[0]:
        plane = " x ".join(map(str, shape[1:]))
        with pytest.raises(IndexError, match=rf"index 0 .* is outside input: a plane of {plane} has no elements"):
            cu.take_at2d(x, np.zeros((2, 1, 1), int))
        with pytest.raises(IndexError, match=r"window code 0 at position \(0, 0, 0\) names no element"):
            cu.take_at2d(x, np.zeros((2, 1, 1), int), 2, index_format="window")


def test_the_first_bad_index_is_named():
    x = np.arange(6).reshape(1, 2, 3)
    for bad in (6, -1, 2**31 + 5, -(2**63)):
        with pytest.raises(IndexError) as caught:
            cu.take_at2d(x, np.array([[[5, 0], [bad, -7]]]))
        text = f"index {bad} at position (0, 1, 0) is outside input: a plane of 2 x 3 has the indices 0 to 5"
        assert str(caught.value) == text
    codes = np.array([[[3, 4]]], np.uint8)
    with pytest.raises(
        IndexError, match=r"window code 4 at position \(0, 0, 1\) names no element: a window of 2 x 2 has"
    ):
        cu.take_at2d(np.ones((1, 2, 4)), codes, 2, index_format="window")


@pytest.mark.parametrize(
    ("window", "wrong"),
    [
        (((2, 2), 2, (3, 0)), (0, 0, 0)),  # the first row of windows ends before the plane
        (((2, 2), (9, 2), 0), (0, 1, 0)),  # the second begins behind it
        (((2, 2), (1, 1 << 59), 0), (0, 0, 1)),
        (((2, 2), 2, (1 << 60, 0)), (0, 0, 0)),
    ],
)
def test_windows_outside_the_plane_are_no_reason_to_read_there(window, wrong):
    kernel, stride, padding = window
    position = ", ".join(map(str, wrong))
    with pytest.raises(
        IndexError, match=rf"code 0 at position \({position}\) names no element: it lies in the padding"
    ):
        cu.take_at2d(np.ones((1, 4, 4)), np.zeros((1, 2, 2), np.uint8), kernel, stride, padding, index_format="window")


def test_arguments_that_do_not_fit_are_refused():
    x, indices = np.ones((1, 4, 4), np.float32), np.zeros((1, 2, 2), int)
    with pytest.raises(TypeError, match=r"kernel_size must be given with index_format='window'.* got None"):
        cu.take_at2d(x, indices, index_format="window")
    with pytest.raises(OverflowError, match=r"windows must span at most 2\*\*60 elements"):
        cu.take_at2d(x, np.zeros((1, 9, 9), int), 2, 1 << 60, index_format="window")
    with pytest.raises(ValueError, match="index_format must be one of"):
        cu.take_at2d(x, indices, index_format="onnx")
    with pytest.raises(ValueError, match="input must have 3 or 4 axes"):
        cu.take_at2d(x[0], indices)
    with pytest.raises(ValueError, match="indices must have the N and C of input"):
        cu.take_at2d(x, indices[None])
    with pytest.raises(TypeError, match=r"indices must be of integers, got float32"):
        cu.take_at2d(indices, x)
    with pytest.raises(TypeError, match="input must have a dtype of 1, 2, 4, 8 or 16 bytes"):
        cu.take_at2d(x.astype(object), indices)
    for name, value in (("kernel_size", 0), ("stride", 0), ("padding", -1), ("dilation", 0)):
        with pytest.raises(ValueError, match=f"{name} must be at least"):
            cu.take_at2d(x, indices, **{name: value})
    with pytest.raises(TypeError, match="out must have the dtype of the result, float32, got float64"):
        cu.take_at2d(x, indices, out=np.zeros((1, 2, 2)))
    with pytest.raises(ValueError, match=r"out must have the shape of the result, \(1, 2, 2\)"):
        cu.take_at2d(x, indices, out=x)
    with pytest.raises(ValueError, match="num_threads must be"):
        cu.take_at2d(x, indices, num_threads=0)


def test_codes_without_their_format_are_warned_of():
    x = np.arange(400.0).reshape(1, 20, 20)
    _, codes = cu.max_pool2d(x, 2, return_indices=True, index_format="window")
    with pytest.warns(UserWarning, match="indices of uint8 count to 255, but a plane has 400 elements: window codes"):
        cu.take_at2d(x, codes, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cu.take_at2d(x, codes, 2, index_format="window")
        cu.take_at2d(x, codes.astype(np.int16))
        cu.take_at2d(x[:, :16, :16], np.zeros((1, 3, 3), np.uint8))


def test_out_may_overlap_what_is_read(rng):
    indices = rng.integers(0, 16, (2, 4, 4))
    x = rng.integers(0, 99, (2, 4, 4))
    expected = reference.take_at(x, indices, 2)
    assert bits(cu.take_at2d(x, indices, out=x)) == bits(expected)
    x = rng.integers(0, 16, (2, 4, 4))
    expected = reference.take_at(x, x, 2)
    assert bits(cu.take_at2d(x, x, out=x)) == bits(expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_poolings_gradient_is_its_gradient(rng, n, dtype):
    """By windows made up, of stride 1, for indices in any order: what meets is added, in raster order."""
    full = {1: (40,), 2: (7, 6), 3: (4, 3, 5)}[n]
    sizes = tuple(int(rng.integers(1, size + 1)) for size in full)
    indices = rng.integers(0, np.prod(full), (2, 3, *sizes))
    grad = rng.standard_normal(indices.shape).astype(dtype)
    kernel = tuple(size - count + 1 for size, count in zip(full, sizes, strict=True))
    result = getattr(cu, f"max_pool{n}d_backward")(grad, indices, full, kernel, 1)
    assert bits(result) == bits(vectorised.max_pool_backward(grad, indices, n, full))
    # The gradient is the transposed operation, so these two dot products are equal.
    if dtype == np.float64:
        x = rng.standard_normal(result.shape)
        assert np.vdot(TAKE[n](x, indices), grad) == pytest.approx(np.vdot(x, result))


@pytest.mark.slow
def test_large_arrays_and_threads(rng):
    """Out of cache, where memory is read ahead, windows side by side in the raster order and random places."""
    x = rng.random((3, 2000, 1500), dtype=np.float32)
    _, indices = cu.max_pool2d(x, 2, return_indices=True)
    for given in (indices, rng.integers(0, 2000 * 1500, (3, 700, 3)), indices[:, ::-1], indices.astype(np.int32)):
        expected = bits(vectorised.take_at(x, given.astype(np.int64), 2))
        for threads in (1, 2):
            assert bits(cu.take_at2d(x, given, num_threads=threads)) == expected


@pytest.mark.parametrize("window", [{"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1}])
@pytest.mark.parametrize("form", ["onnx", "onnx_column_major", "tf", "tf_batch"])
def test_indices_of_other_libraries_are_named_with_their_format(rng, form, window):
    x = rng.random((2, 3, 9, 12))
    _, indices = cu.max_pool2d(x, **window, return_indices=True)
    theirs = cu.convert_indices(indices, "plane", form, input_size=x.shape, **window)
    for known in (window, window | {"stride": 2**60}):  # windows that are not needed, and span too much
        with pytest.raises(IndexError, match=r"would be right as .*see cunpool\.convert_indices") as caught:
            cu.take_at2d(x, theirs, **known)
        assert f"'{form}'" in str(caught.value)
    with pytest.raises(IndexError) as caught:
        cu.take_at2d(x, theirs, **window)
    assert str(caught.value).endswith(f"see cunpool.convert_indices(indices, '{form}', 'plane', ...)")
    with pytest.raises(IndexError, match="would be right as") as caught:
        cu.take_at2d(x, theirs)
    named = re.search(r"\(indices, (.*), 'plane', \.\.\.\)$", str(caught.value))[1]
    # Without the windows, both orders of ONNX look alike.
    alike = form.startswith("onnx") and window["kernel_size"] == 3
    assert named == ("'onnx' or 'onnx_column_major'" if alike else f"'{form}'")
    theirs[0, 0, 0, 0] = 2**40
    with pytest.raises(IndexError) as caught:
        cu.take_at2d(x, theirs)
    assert "would be right" not in str(caught.value)


def test_of_few_indices_onnx_is_named_with_both_orders():
    x = np.zeros((2, 1, 4, 4))
    with pytest.raises(IndexError) as caught:
        cu.take_at2d(x, np.array([3, 18]).reshape(2, 1, 1, 1))
    assert str(caught.value).endswith("(indices, 'onnx', 'plane', ...), or 'onnx_column_major' for storage_order=1")
