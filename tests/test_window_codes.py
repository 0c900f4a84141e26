from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import reference
from cases import OTHER, POOL, UNPOOL, bits, channels_last, geometry, layout, lead, random_items, random_numbers
from fuzzing.right import UNPOOL_BACKWARD

import cunpool as cu


def window_of(arguments):
    kernel, stride, padding, dilation, _ = arguments
    return {"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation}


def inside(indices, full):
    """Without the indices of windows that miss the array: these name no cell."""
    return ((indices >= 0) & (indices < np.prod(full))).all()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_codes_say_what_plane_indices_say(rng, n):
    for case in range(60):
        arguments, full = geometry(rng, n, most={1: 90, 2: 40, 3: 9}[n])
        x = layout(rng, random_numbers(rng, np.dtype("f4"), lead(rng) + full))
        values, indices = POOL[n](x, *arguments, return_indices=True)
        same, codes = POOL[n](x, *arguments, return_indices=True, index_format="window")
        assert bits(same) == bits(values)
        assert codes.dtype == np.uint8
        try:
            expected = cu.convert_indices(indices, "plane", "window", input_size=full, **window_of(arguments))
        except IndexError:
            continue  # a window that misses the array
        assert bits(codes) == bits(expected)
        window = window_of(arguments)
        size = None if reference.default_size(indices.shape[-n:], n, *arguments[:4]) == full else full
        again = UNPOOL[n](values, layout(rng, codes), **window, index_format="window", output_size=size)
        assert bits(again) == bits(reference.max_unpool(values, indices, n, full)), case


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "f8", "D", "?"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_any_valid_code(rng, n, dtype):
    for _ in range(25):
        (kernel, stride, padding, dilation, _), _ = geometry(rng, n)
        pooled = tuple(rng.integers(1, {1: 60, 2: 30, 3: 7}[n], n).tolist())
        full = reference.default_size(pooled, n, kernel, stride, padding, dilation)
        if min(full) < 1:
            continue
        shape = lead(rng) + pooled
        taps = [
            list(reference.windows(pooled, n, kernel, kernel if stride is None else stride, padding, dilation, full))
        ]
        if not all(taps[0]):
            continue
        flat = rng.integers(0, 1 << 30, (int(np.prod(shape[:-n])), int(np.prod(pooled))))
        places = np.array([[cells[r % len(cells)] for r, cells in zip(row, taps[0], strict=True)] for row in flat])
        places = places.reshape(shape)
        window = {"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation}
        codes = _codes(places, full, pooled, n, **window)
        values = random_items(rng, np.dtype(dtype), shape)
        expected = reference.max_unpool(values, places, n, full)
        for threads in (1, 3):
            result = UNPOOL[n](layout(rng, values), layout(rng, codes), **window, index_format="window",
                               num_threads=threads)  # fmt: skip
            assert bits(result) == bits(expected)
            gathered = getattr(cu, f"max_unpool{n}d_backward")(expected, codes, **window, index_format="window")
            plane = getattr(cu, f"max_unpool{n}d_backward")(expected, places, **window)
            assert bits(gathered) == bits(plane)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_codes_but_planes(n):
    """Sizes of 0 can have an output all the same."""
    for shape in ((2,) + (0,) * n, (1, 2) + (3,) * (n - 1) + (0,), (1, 2, 0) + (3,) * (n - 1)):
        values, codes = np.ones(shape, np.float32), np.zeros(shape, np.uint8)
        result = UNPOOL[n](values, codes, 5, 2, index_format="window")
        assert result.size
        assert not result.any()
        assert UNPOOL_BACKWARD[n](result, codes, 5, 2, index_format="window").shape == shape


def test_the_report_where_no_code_is_wrong_any_more():
    """Another thread may have put it right."""
    sizes = cu._geometry.unpooling(2, (1, 2, 2), 2, None, 0, 1, None)[2]
    assert "changed while they were read" in str(cu._diagnostics.bad_code(np.zeros((1, 2, 2), np.uint8), 2, sizes))
    assert "changed while they were read" in str(cu._diagnostics.bad_index(np.zeros((1, 2, 2), int), (4, 4)))


def _codes(places, full, pooled, n, kernel_size, stride, padding, dilation):
    kernel, dilation, padding = (reference.each(v, n) for v in (kernel_size, dilation, padding))
    stride = kernel if stride is None else reference.each(stride, n)
    codes = np.empty(places.shape, np.uint8)
    for position in np.ndindex(places.shape):
        at = np.unravel_index(places[position], full)
        taps = [
            (a - (o * s - p)) // d for a, o, s, p, d in zip(at, position[-n:], stride, padding, dilation, strict=True)
        ]
        codes[position] = np.ravel_multi_index(taps, kernel)
    return codes


def test_two_bytes_for_large_windows(rng):
    x = rng.random((2, 40, 40), np.float32)
    for kernel, dtype in ((16, np.uint8), ((16, 17), np.uint16), (40, np.uint16)):
        values, codes = cu.max_pool2d(x, kernel, 4, return_indices=True, index_format="window")
        _, indices = cu.max_pool2d(x, kernel, 4, return_indices=True)
        assert codes.dtype == dtype
        window = {"kernel_size": kernel, "stride": 4}
        assert bits(codes) == bits(cu.convert_indices(indices, "plane", "window", input_size=(40, 40), **window))
        z = cu.max_unpool2d(values, codes, kernel, 4, index_format="window", output_size=(40, 40))
        assert bits(z) == bits(cu.max_unpool2d(values, indices, kernel, 4, output_size=(40, 40)))
    with pytest.raises(ValueError, match="at most 65536 elements"):
        cu.max_pool2d(np.zeros((1, 300, 300)), 300, return_indices=True, index_format="window")
    with pytest.raises(ValueError, match="at most 65536 elements"):
        cu.max_unpool2d(np.zeros((1, 1, 1)), [[[0]]], 300, index_format="window")


@pytest.mark.parametrize("dtype", ["b", "h", "i", "q", "B", "H", "Q", f"{OTHER}i4"])
def test_codes_of_any_integer_dtype(dtype):
    codes = np.array([[3, 0], [1, 2]], dtype)[None]
    values = np.arange(1, 5).reshape(1, 2, 2)
    expected = cu.max_unpool2d(values, codes.astype(np.uint8), 2, index_format="window")
    assert bits(cu.max_unpool2d(values, codes, 2, index_format="window")) == bits(expected)
    for bad in (4, 100, -1, 256, 257, 260, 2**16, 2**16 + 1, 2**24):
        if not np.iinfo(dtype).min <= bad <= np.iinfo(dtype).max:
            continue
        codes[0, 1, 0] = bad
        with pytest.raises(IndexError, match=rf"window code {bad} at position \(0, 1, 0\) .* the codes 0 to 3"):
            cu.max_unpool2d(values, codes, 2, index_format="window")
    for wrong in (codes.astype(float), codes == 0):
        with pytest.raises(TypeError, match="indices must be of integers"):
            cu.max_unpool2d(values, wrong, 2, index_format="window")


def test_codes_of_as_many_cells_as_there_are_codes():
    x = np.arange(2**16, dtype=np.float32).reshape(1, 256, 256)
    values, codes = cu.max_pool2d(x, 256, return_indices=True, index_format="window")
    assert codes.dtype == np.uint16
    assert codes.item() == 2**16 - 1
    assert np.array_equal(cu.max_unpool2d(values, codes, 256, index_format="window"), np.where(x == 2**16 - 1, x, 0))
    with pytest.raises(ValueError, match="at most 65536 elements"):
        cu.max_pool2d(np.zeros((1, 1, 2**16 + 1)), (1, 2**16 + 1), return_indices=True, index_format="window")


def test_codes_just_beyond_two_bytes():
    values, codes = np.ones((1, 1, 1)), np.array([[[271]]])
    window = {"kernel_size": (16, 17), "index_format": "window"}
    assert cu.max_unpool2d(values, codes, **window)[0, 15, 16] == 1
    for bad in (272, 2**16 - 1, 2**16, 2**16 + 271, -1, -(2**16)):
        with pytest.raises(IndexError, match=rf"window code {bad} at position \(0, 0, 0\) .* the codes 0 to 271"):
            cu.max_unpool2d(values, np.array([[[bad]]]), **window)


@pytest.mark.parametrize(
    "shape", [(2, 4, 3), (2, 3, 3), (2, 3), (2, 2, 6), (1, 3, 4), (1, 1, 1), (4, 3, 2), (1, 2, 3, 4)]
)
def test_codes_of_another_shape(shape):
    values, full = np.ones((2, 3, 4), np.float32), np.ones((2, 6, 8), np.float32)
    for dtype in (np.uint8, np.int64):
        codes = np.zeros(shape, dtype)
        for index_format in ("window", "plane"):
            style = {"index_format": index_format}
            with pytest.raises(ValueError, match="indices must have"):
                cu.max_unpool2d(values, codes, 2, **style)
            with pytest.raises(ValueError, match="indices must have"):
                cu.max_pool2d_backward(values, codes, (6, 8), 2, **style)
            with pytest.raises(ValueError, match=r"indices must have|the spatial size of grad_output must"):
                cu.max_unpool2d_backward(full, codes, 2, **style)


@pytest.mark.parametrize("channels", [255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2049])
@pytest.mark.parametrize("kernel", [(2, 2), (17, 16)])
def test_many_channels_last(rng, channels, kernel):
    """Codes of one byte and of two, and plane indices; of each channel another one."""
    cells, shape = kernel[0] * kernel[1], (2, 1, 3, channels)
    full = (kernel[0], 3 * kernel[1])
    codes = np.moveaxis(rng.integers(0, cells, shape).astype(np.uint8 if cells <= 256 else np.uint16), -1, 1)
    rows, columns = np.divmod(codes.astype(np.int64), kernel[1])
    places = rows * full[1] + columns + np.arange(3) * kernel[1]
    places = channels_last(places)
    values = np.moveaxis(rng.integers(1, 100, shape).astype(np.float32), -1, 1)
    expected = np.zeros((2, channels, full[0] * full[1]), np.float32)
    np.put_along_axis(expected, places.reshape(2, channels, 3), values.reshape(2, channels, 3), 2)
    for chosen, index_format in ((codes, "window"), (places, "plane"), (places.astype("i4"), "plane")):
        style = {"index_format": index_format}
        result = cu.max_unpool2d(values, chosen, kernel, **style)
        assert np.array_equal(result.reshape(expected.shape), expected)
        added = cu.max_pool2d_backward(values, chosen, full, kernel, **style)
        assert np.array_equal(added.reshape(expected.shape), expected)
        assert np.array_equal(cu.max_unpool2d_backward(result, chosen, kernel, **style), values)


@pytest.mark.parametrize("shape", [(1, 3, 5, 7), (2, 9, 4, 4), (1, 2, 30, 50), (1, 1, 400, 300)])
def test_bad_codes_are_named_on_every_path(rng, shape):
    last = np.moveaxis(np.empty((shape[0], *shape[2:], shape[1])), -1, 1)
    for kernel, stride, padding, full in ((2, 2, 0, None), (3, 2, 1, None), (2, 2, 1, None), (2, 3, 0, None)):
        codes = rng.integers(0, 1, shape).astype(np.uint8) + np.uint8(kernel**2 - 1)
        if padding == 0 or kernel == 3:
            codes[...] = kernel**2 // 2 if padding else kernel**2 - 1
        else:  # every code of the first and the last windows lies in the padding somewhere
            codes[..., 0, :], codes[..., :, 0] = 3, 3
            codes[..., -1, :], codes[..., :, -1] = 0, 0
            codes[..., 0, -1], codes[..., -1, 0] = 2, 1
        values = np.ones(shape, np.float32)
        window = {"kernel_size": kernel, "stride": stride, "padding": padding, "index_format": "window"}
        good = cu.max_unpool2d(values, codes, **window, output_size=full)
        at = tuple(int(rng.integers(size)) for size in shape)
        around = np.full((*shape[:2], good.shape[2] + 8, good.shape[3] + 8), 7, np.float32)
        out = around[:, :, 4:-4, 4:-4]
        for bad in (kernel**2, 255):
            wrong = codes.copy()
            wrong[at] = bad
            for chosen in (wrong, _like(wrong, last)):
                for threads in (1, 4):
                    for call in (
                        lambda: cu.max_unpool2d(_like(values, chosen), chosen, **window, num_threads=threads),  # noqa: B023
                        lambda: cu.max_unpool2d(values, chosen, **window, out=out, num_threads=threads),  # noqa: B023
                        lambda: cu.max_unpool2d_backward(good, chosen, **window, num_threads=threads),  # noqa: B023
                    ):
                        with pytest.raises(IndexError) as error:
                            call()
                        assert f"window code {bad} at position {at} names no element" in str(error.value)
        out[...] = 7
        assert (around == 7).all()


def _like(array, other):
    """`array` with the memory layout of `other`."""
    result = np.empty_like(other, dtype=array.dtype, shape=array.shape)
    result[...] = array
    return result


def test_codes_in_the_padding_or_past_the_output():
    values = np.ones((1, 2, 2))
    codes = np.array([[[8, 8], [8, 8]]], np.uint8)
    window = {"kernel_size": 3, "stride": 2, "padding": 1, "index_format": "window"}
    assert cu.max_unpool2d(values, np.full_like(codes, 4), **window).sum() == 4
    codes[0, 0, 0] = 1
    with pytest.raises(IndexError, match=r"window code 1 at position \(0, 0, 0\) .* in the padding or past the output"):
        cu.max_unpool2d(values, codes, **window)
    codes[0, 0, 0] = 8
    with pytest.raises(IndexError, match=r"window code 8 at position \(0, 0, 1\) .* past the output of 3 x 3"):
        cu.max_unpool2d(values, codes, **window)
    assert cu.max_unpool2d(values, codes, **window, output_size=(4, 4)).sum() == 4
    wide = np.zeros((1, 1, 30), np.uint8) + np.uint8(3)
    wide[0, 0, -1] = 2
    cu.max_unpool2d(np.ones(wide.shape), wide, 2, index_format="window", output_size=(2, 59))
    wide[0, 0, -1] = 3
    with pytest.raises(IndexError, match=r"window code 3 at position \(0, 0, 29\)"):
        cu.max_unpool2d(np.ones(wide.shape), wide, 2, index_format="window", output_size=(2, 59))


def test_channels_without_windows():
    """Slices without any row, for a pooled array made without one has no strides, and into neighbouring channels."""

    def neighbours(shape, dtype):
        return np.moveaxis(np.full((*shape[:1], *shape[2:], shape[1]), 1, dtype), -1, 1)

    values = neighbours((1, 8, 3, 5), np.float32)[:, :, :0]
    codes = neighbours((1, 8, 3, 5), np.uint8)[:, :, :0]
    out = neighbours((1, 8, 2, 10), np.float32)
    assert not cu.max_unpool2d(values, codes, (3, 2), (1, 2), index_format="window", out=out).any()
    values = neighbours((1, 8, 3, 4, 5), np.float32)[:, :, :0]
    codes = neighbours((1, 8, 3, 4, 5), np.uint8)[:, :, :0]
    out = neighbours((1, 8, 2, 8, 10), np.float32)
    for threads in (1, 3):
        out[...] = 1
        window = {"kernel_size": (3, 2, 2), "stride": (1, 2, 2), "index_format": "window", "num_threads": threads}
        assert not cu.max_unpool3d(values, codes, **window, out=out).any()


@pytest.mark.parametrize("channels", [1, 9])
def test_codes_of_windows_of_one_layer_past_the_output(channels):
    """There all codes name a cell behind the last layer, whose place would be one of the next plane."""
    window = {"kernel_size": (1, 2, 2), "stride": 2, "index_format": "window"}
    codes = np.moveaxis(np.zeros((2, 2, 2, channels), np.uint8), -1, 0)
    values = np.ones(codes.shape, np.float32)
    assert cu.max_unpool3d(values, codes, **window).sum() == 8 * channels
    with pytest.raises(IndexError, match=r"window code 0 at position \(0, 1, 0, 0\) .* past the output"):
        cu.max_unpool3d(values, codes, **window, output_size=(2, 4, 4))
    grad = np.moveaxis(np.ones((2, 4, 4, channels), np.float32), -1, 0)
    with pytest.raises(IndexError, match=r"window code 0 at position \(0, 1, 0, 0\) .* past the"):
        cu.max_unpool3d_backward(grad, codes, **window)


def test_duplicates_and_threads(rng):
    shape, full = (1, 1, 500, 499), (1001, 999)
    codes = rng.integers(0, 9, shape, np.uint8)
    values = rng.integers(0, 2**32, shape, np.uint32)
    window = {"kernel_size": 3, "stride": 2, "padding": 0}
    places = cu.convert_indices(codes, "window", "plane", input_size=full, **window)
    expected = np.zeros((1, 1, *full), np.uint32)
    last = dict(zip(places.ravel().tolist(), values.ravel().tolist(), strict=True))
    expected.flat[list(last)] = list(last.values())
    for threads in (1, 2, 3, 8):
        result = cu.max_unpool2d(values, codes, **window, index_format="window", num_threads=threads)
        assert np.array_equal(result, expected)


def test_the_shape_of_codes_comes_first():
    """Of what does not belong to the values, no code is looked at: the report would broadcast it over all of them."""
    values, full = np.ones((1, 2, 4)), np.ones((1, 4, 8))
    for shape in ((1, 2, 3), (1, 1, 4), (1, 2, 1), (2, 4), (1, 1, 2, 4), (1,), (3, 2, 4)):
        for codes in (np.full(shape, -1), np.full(shape, 9, np.uint8), np.zeros(shape, np.int64)):
            with pytest.raises(ValueError, match=r"indices must have the shape of input, \(1, 2, 4\)"):
                cu.max_unpool2d(values, codes, 2, index_format="window")
            with pytest.raises(ValueError, match=r"indices must have the shape of grad_output, \(1, 2, 4\)"):
                cu.max_pool2d_backward(values, codes, (4, 8), 2, index_format="window")
            with pytest.raises(
                ValueError, match=r"indices must have the N and C of|the spatial size of grad_output must"
            ):
                cu.max_unpool2d_backward(full, codes, 2, index_format="window")


def test_an_unknown_format():
    for call in (
        lambda: cu.max_pool2d(np.zeros((1, 4, 4)), 2, index_format="onnx"),
        lambda: cu.max_unpool2d(np.zeros((1, 2, 2)), np.zeros((1, 2, 2), int), 2, index_format="codes"),
        lambda: cu.max_unpool2d_backward(np.zeros((1, 4, 4)), np.zeros((1, 2, 2), int), 2, index_format=None),
        lambda: cu.MaxPool2d(2, index_format="x"),
        lambda: cu.MaxUnpool2d(2, index_format=7),
    ):
        with pytest.raises(ValueError, match=r"index_format must be one of \('plane', 'window'\)"):
            call()


def test_modules(rng):
    x = rng.standard_normal((2, 3, 12, 13)).astype(ml_dtypes.bfloat16)
    values, codes = cu.MaxPool2d(3, 2, 1, dilation=1, return_indices=True, index_format="window")(x)
    assert codes.dtype == np.uint8
    plane = cu.max_pool2d(x, 3, 2, 1, return_indices=True)[1]
    z = cu.MaxUnpool2d(3, 2, 1, index_format="window")(values, codes, output_size=x.shape)
    assert bits(z) == bits(cu.max_unpool2d(values, plane, 3, 2, 1, x.shape))
    dilated = cu.MaxPool1d(3, 1, dilation=4, return_indices=True)(np.arange(20.0).reshape(1, 20))
    assert cu.MaxUnpool1d(3, 1, dilation=4)(*dilated).shape == (1, 20)


def test_few_planes_of_one_window_each(rng):
    codes = rng.integers(4, size=(1, 40, 1, 1)).astype(np.uint8)  # too few to be spread
    values = rng.standard_normal(codes.shape).astype(np.float32)
    x = cu.max_unpool2d(values, codes, 2, index_format="window")
    assert np.array_equal(x.reshape(40, 4)[np.arange(40), codes.ravel()], values.ravel())
    assert np.count_nonzero(x) == 40
    assert np.array_equal(cu.max_unpool2d_backward(x, codes, 2, index_format="window"), values)


def test_the_first_bad_code_of_many_planes_one_wide():
    codes = np.zeros((1, 9000, 1, 1), np.uint8)
    codes[0, 8500:] = 4
    with pytest.raises(IndexError, match=r"window code 4 at position \(0, 8500, 0, 0\)"):
        cu.max_unpool2d(np.ones(codes.shape), codes, 2, index_format="window")


@pytest.mark.parametrize(
    "kernel",
    # On both sides of the windows whose codes are divided in 16 bits, by one factor and by two.
    [
        "31,31",
        "32,31",
        "32,32",
        "38,29",
        "121,17",
        "1,181",
        "1,182",
        "181,1",
        "16383,2",
        "8191,4",
        "5,80",
        "6,74",
        "11,11,11",
        "12,12,12",
        "2,127,2",
        "2,128,2",
        "255,2,3",
    ],
)
def test_every_code_of_large_windows(kernel):
    kernel = tuple(map(int, kernel.split(",")))
    n, elements, row = len(kernel), int(np.prod(kernel)), kernel[-1]
    # Both ends of some 200 rows, and the last two rows, where the rounding of a quotient is largest.
    ends = np.arange(0, elements, row)[:: elements // row // 200 + 1]
    codes = np.unique([*ends, *(ends + row - 1), *range(max(elements - 2 * row, 0), elements)])
    codes = codes.astype(np.uint8 if elements <= 256 else np.uint16).reshape(1, -1, *[1] * n)
    full = np.empty((1, codes.size, *kernel), np.uint16)
    full[...] = np.arange(elements).reshape(kernel)
    backward = UNPOOL_BACKWARD[n]
    assert np.array_equal(backward(full, codes, kernel, index_format="window"), codes)
    for wrong in {elements, min(elements + 0x8000, np.iinfo(codes.dtype).max), np.iinfo(codes.dtype).max}:
        codes[0, -1] = wrong
        with pytest.raises(IndexError, match=f"window code {wrong} at position"):
            backward(full, codes, kernel, index_format="window")


@pytest.mark.parametrize("stride", [1, 2, 32, 33, 200, 8192, 16382, 16383, 40000])
@pytest.mark.parametrize(("kernel", "dilation"), [(3, 1), (3, 8191), (3, 8192), (2, 16383), (2, 16384)])
def test_rows_longer_than_16_bits_can_count(rng, stride, kernel, dilation):
    x = rng.standard_normal((1, 2, 150_000)).astype(np.float32)
    window = {"kernel_size": kernel, "stride": stride, "padding": 1, "dilation": dilation}
    values, indices = cu.max_pool1d(x, **window, return_indices=True)
    codes = cu.max_pool1d(x, **window, return_indices=True, index_format="window")[1]
    for threads in (1, 3):
        size = {"output_size": x.shape[-1:], "num_threads": threads}
        expected = cu.max_unpool1d(values, indices, **window, **size)
        assert bits(cu.max_unpool1d(values, codes, **window, **size, index_format="window")) == bits(expected)
    codes[0, 1, 0] = 0  # in the padding
    with pytest.raises(IndexError, match=r"window code 0 at position \(0, 1, 0\)"):
        cu.max_unpool1d(values, codes, **window, **size, index_format="window")


@pytest.mark.parametrize("dilation", [1, 2, (1, 2), (2, 1), 4])
def test_codes_that_would_wrap_in_16_bits_are_refused(dilation):
    codes = np.zeros((1, 1, 5, 5), np.uint16)
    window = {"kernel_size": 31, "stride": 31, "dilation": dilation, "index_format": "window"}
    values = np.zeros(codes.shape, np.float32)
    full = cu.max_unpool2d(values, codes, **window)
    for wrong in [*range(961, 1 << 16, 997), 0x7FFF, 0x8000, 0x8000 + 960, 0x8000 + 961, 0xFFFF]:
        codes[0, 0, 2, 2] = wrong
        for call, given in ((cu.max_unpool2d, values), (cu.max_unpool2d_backward, full)):
            with pytest.raises(IndexError, match=rf"window code {wrong} at position \(0, 0, 2, 2\)"):
                call(given, codes, **window)
