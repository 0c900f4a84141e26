from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import reference
from cases import FLOATS, MOVED, OTHER, POOL, bits, geometry, layout, lead, random_items

import cunpool as cu

UNPOOL_BACKWARD = {n: getattr(cu, f"max_unpool{n}d_backward") for n in (1, 2, 3)}
POOL_BACKWARD = {n: getattr(cu, f"max_pool{n}d_backward") for n in (1, 2, 3)}


def pool_backward(grad_output, indices, n, full):
    """One addition after the other, in raster order and in the numbers' own precision."""
    result = np.zeros((int(np.prod(indices.shape[:-n])), int(np.prod(full))), grad_output.dtype)
    for plane, (row, places) in enumerate(
        zip(reference.planes(grad_output, n), reference.planes(indices, n), strict=True)
    ):
        for value, place in zip(row.ravel(), places.ravel(), strict=True):
            result[plane, place] = result[plane, place] + value
    return result.reshape(indices.shape[:-n] + tuple(full))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_poolings_gradient_is_its_definition(rng, n, dtype):
    for _ in range(30):
        (kernel, stride, padding, dilation, ceil_mode), full = geometry(rng, n, most={1: 200, 2: 30, 3: 7}[n])
        x = rng.integers(-3, 3, lead(rng) + full).astype(np.float32)
        values, indices = POOL[n](x, kernel, stride, padding, dilation, ceil_mode, return_indices=True)
        if (indices >= np.prod(full)).any():
            continue  # a window that misses the array
        window = kernel, stride, padding, dilation
        grad = (rng.standard_normal(values.shape) * 10.0 ** rng.integers(-7, 5, values.shape)).astype(dtype)
        grad[rng.random(grad.shape) < 0.1] = -0.0
        expected = pool_backward(grad, indices, n, full)
        size = x.shape if rng.random() < 0.5 else full
        result = POOL_BACKWARD[n](layout(rng, grad), layout(rng, indices), size, *window)
        assert bits(result) == bits(expected)
        try:
            codes = cu.convert_indices(indices, "plane", "window", input_size=full, kernel_size=kernel, stride=stride,
                                       padding=padding, dilation=dilation)  # fmt: skip
        except IndexError:
            continue
        out = layout(rng, np.full(x.shape, 7, dtype))
        assert POOL_BACKWARD[n](layout(rng, grad), codes, size, *window, index_format="window", out=out) is out
        assert bits(out) == bits(expected)


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_unpoolings_gradient_is_its_definition(rng, dtype):
    for n in (1, 2, 3):
        for _ in range(5):
            (kernel, stride, padding, _, _), full = geometry(rng, n, most={1: 99, 2: 30, 3: 7}[n], ceil=False)
            shape = POOL[n](np.zeros((1, *full)), kernel, stride, padding).shape[1:]
            indices = rng.integers(0, np.prod(full), lead(rng) + shape)
            grad = random_items(rng, dtype, indices.shape[:-n] + full)
            raw = reference.planes(grad, n).view((np.void, dtype.itemsize)).reshape(-1, int(np.prod(full)))
            expected = np.take_along_axis(raw, indices.reshape(len(raw), -1), 1).view(dtype).reshape(indices.shape)
            for chosen in (indices, indices.astype(np.int32)):
                result = UNPOOL_BACKWARD[n](layout(rng, grad), layout(rng, chosen), kernel, stride, padding)
                assert bits(result) == bits(expected)
            out = layout(rng, np.zeros_like(expected))
            assert UNPOOL_BACKWARD[n](grad, indices, kernel, stride, padding, out=out) is out
            assert bits(out) == bits(expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_same_bits_at_any_thread_count(rng, dtype):
    for shape, window in (((1, 1, 700, 701), (3, 1, 1)), ((40, 8, 30, 30), (3, 2, 1)), ((1, 1, 900, 900), (2, 2, 0)),
                          ((1, 40, 64, 64), (5, 2, 2))):  # fmt: skip
        x = rng.integers(0, 4, shape).astype(np.float32)
        values, indices = cu.max_pool2d(x, *window, return_indices=True)
        grad = rng.standard_normal(values.shape).astype(dtype)
        one = cu.max_pool2d_backward(grad, indices, shape, *window, num_threads=1)
        for threads in (2, 3, 8):
            more = cu.max_pool2d_backward(grad, indices, shape, *window, num_threads=threads)
            assert bits(more) == bits(one)
        stray = indices.copy()
        stray.flat[7] = 12  # another window's cell: the quick ways have to give up
        one = cu.max_pool2d_backward(grad, stray, shape, *window, num_threads=1)
        assert bits(cu.max_pool2d_backward(grad, stray, shape, *window, num_threads=3)) == bits(one)
        assert bits(cu.max_unpool2d_backward(x, indices, *window, num_threads=3)) == bits(
            np.take_along_axis(x.reshape(-1, x[0, 0].size), indices.reshape(-1, indices[0, 0].size), 1).reshape(
                indices.shape
            )
        )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("pooled", [(1, 1, 50), (2, 3, 40), (5, 40, 7), (2, 3, 9)], ids=str)
def test_a_lone_negative_zero_is_added_to_zero(pooled, dtype):
    """0 + -0 is 0, whichever way it takes; infinities, NaN and the smallest numbers stay what they are."""
    grad = np.full(pooled, -0.0, dtype)
    info = np.finfo(np.float32) if dtype.itemsize == 2 and dtype.kind == "V" else np.finfo("f2")
    special = np.array([-0.0, np.inf, -np.inf, np.nan, 6e-8, -6e-8, info.max, -1.5, 0.0], np.float32).astype(dtype)
    indices = np.zeros(pooled, np.int64) + np.arange(pooled[-1]) * 2 + np.arange(pooled[-2])[:, None] * 4 * pooled[-1]
    codes, size = np.zeros(pooled, np.uint8), (2 * pooled[-2], 2 * pooled[-1])
    for some in (grad, np.resize(special, pooled)):
        for chosen, index_format in ((indices, "plane"), (indices.astype("i4"), "plane"), (codes, "window")):
            result = cu.max_pool2d_backward(some, chosen, size, 2, index_format=index_format)
            expected = np.zeros(result.shape, dtype)
            expected[:, ::2, ::2] = some + np.zeros((), dtype)
            assert np.array_equal(np.signbit(result.astype("f4")), np.signbit(expected.astype("f4")))
            assert np.array_equal(result.astype("f4"), expected.astype("f4"), equal_nan=True)


@pytest.mark.parametrize("dtype", [d for d in FLOATS if d.itemsize == 2], ids=str)
def test_sums_of_all_kinds_of_half_precision_numbers(dtype):
    """Every sum of two of these, of which many lie half-way between two numbers, is rounded as NumPy does."""
    high = np.array([0, 1, 2, 0x7F, 0x80, 0x3FF, 0x400, 0x401, 0x3C00, 0x3F80, 0x3F81, 0x3C01, 0x4380, 0x7BFF, 0x7C00,
                     0x7F7F, 0x7F80, 0x7FC0, 0x7E00, 0x6800, 0x6801, 0x2C00, 0x1000, 0x1400, 0x3B80, 0x3F00, 0x5BFF,
                     0x7B00, 0x4300, 0x4301, 0x3300, 0x3301], np.uint16)  # fmt: skip
    some = np.concatenate([high, high | 0x8000]).view(dtype)
    first, second = (a.ravel() for a in np.meshgrid(some, some))
    grad = np.stack([first, second], -1).reshape(1, -1)
    indices = np.arange(grad.size) // 2 * 2
    result = cu.max_pool1d_backward(grad, indices[None], (2 * len(first),), 1)[0, ::2]
    with np.errstate(all="ignore"):
        expected = np.zeros((), dtype) + first + second
    same = result.view(np.uint16) == expected.view(np.uint16)
    assert (same | (np.isnan(result.astype("f4")) & np.isnan(expected.astype("f4")))).all()


@pytest.mark.parametrize("bad", [-1, 64, 2**32, 2**63 - 1, -(2**63)])
def test_bad_indices(rng, bad):
    for shape in ((2, 3, 4, 4), (1, 16, 4, 4)):
        indices = rng.integers(0, 64, shape)
        indices[0, 1, 2, 3] = bad
        around = np.full((*shape[:2], 16, 16), 7.0)
        for chosen in (indices, np.asfortranarray(indices), np.moveaxis(np.moveaxis(indices, 1, -1).copy(), -1, 1)):
            with pytest.raises(IndexError, match=rf"index {bad} at position \(0, 1, 2, 3\)"):
                cu.max_pool2d_backward(np.ones(shape), chosen, (8, 8), 2, out=around[:, :, 4:12, 4:12])
            with pytest.raises(IndexError, match=rf"index {bad} at position \(0, 1, 2, 3\)"):
                cu.max_unpool2d_backward(np.ones((*shape[:2], 8, 8)), chosen, 2, out=around[:, :, 4:8, 4:8])
        around[:, :, 4:12, 4:12] = 7
        assert (around == 7).all()


def test_empty_batches():
    assert cu.max_pool2d_backward(np.zeros((0, 3, 2, 2)), np.zeros((0, 3, 2, 2), int), (4, 4), 2).shape == (0, 3, 4, 4)
    assert cu.max_unpool2d_backward(np.zeros((2, 0, 4, 4)), np.zeros((2, 0, 2, 2), int), 2).shape == (2, 0, 2, 2)


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (TypeError, lambda: cu.max_pool1d_backward([[1, 2]], [[0, 2]], (4,), 2)),
        (TypeError, lambda: cu.max_pool1d_backward([[1j, 2]], [[0, 2]], (4,), 2)),
        (TypeError, lambda: cu.max_pool1d_backward([[1.0, 2]], [[0, 2.0]], (4,), 2)),
        (TypeError, lambda: cu.max_pool1d_backward([[1.0, 2]], [[0, 2]], 4, 2)),
        (ValueError, lambda: cu.max_pool1d_backward([[1.0, 2]], [[0, 2]], (7,), 2)),
        (ValueError, lambda: cu.max_pool1d_backward([[1.0, 2]], [[0, 2]], (2, 4), 2)),
        (ValueError, lambda: cu.max_pool1d_backward([[1.0, 2]], [[0]], (4,), 2)),
        (ValueError, lambda: cu.max_unpool1d_backward([[1.0, 2, 3, 4]], [[0, 2], [0, 2]], 2)),
        (ValueError, lambda: cu.max_unpool1d_backward([[1.0, 2, 3, 4]], [0, 2], 2)),
        (ValueError, lambda: cu.max_unpool1d_backward([[1.0, 2, 3, 4, 5, 6, 7]], [[0, 2]], 2)),
        (TypeError, lambda: cu.max_unpool1d_backward([["a", "b"]], [[0]], 2)),
        (ValueError, lambda: cu.max_unpool1d_backward([[1.0, 2]], [[0]], 2, out=np.zeros((1, 2)))),
        (TypeError, lambda: cu.max_pool1d_backward([[1.0]], [[0]], (2,), 2, out=np.zeros((1, 2), np.float32))),
    ],
)
def test_what_is_refused(error, call):
    with pytest.raises(error):
        call()


def test_other_byte_orders(rng):
    grad, indices = rng.standard_normal((1, 2, 6)).astype(f"{OTHER}f4"), rng.integers(0, 12, (1, 2, 6))
    expected = cu.max_pool1d_backward(grad.astype("f4"), indices, (12,), 2)
    out = np.empty(expected.shape, f"{OTHER}f4")
    assert cu.max_pool1d_backward(grad, indices, (12,), 2).dtype == f"{OTHER}f4"
    assert cu.max_pool1d_backward(grad, indices, (12,), 2, out=out) is out
    assert np.array_equal(out, expected)
    with pytest.raises(TypeError, match="out must have the dtype"):
        cu.max_pool1d_backward(grad, indices, (12,), 2, out=expected)


@pytest.mark.parametrize(
    ("dtype", "signalling", "quiet"),
    [("e", 0xFD01, 0x7E00), (ml_dtypes.bfloat16, 0xFF81, 0x7FC0), ("f4", 0xFF800001, 0x7FC00000)],
)
@pytest.mark.parametrize("index_format", ["plane", "window"])
def test_a_signalling_nan_becomes_the_same_quiet_one_on_every_way(dtype, signalling, quiet, index_format):
    x = np.zeros((2, 64, 128), dtype)
    bits_of = np.dtype(f"u{x.itemsize}")
    x[:, ::2, ::2] = 1
    values, indices = cu.max_pool2d(x, 2, return_indices=True, index_format=index_format)
    grad = values.copy()
    grad.view(bits_of)[:, 5, 7] = signalling
    stray = indices.copy()
    if index_format == "plane":
        stray[0, 0, 0] = stray[0, 31, 63]  # out of its window: this plane is scattered, where numbers are added
    results = [
        cu.max_pool2d_backward(grad, places, x.shape, 2, index_format=index_format, num_threads=threads)
        for places in (indices, stray)
        for threads in (1, 2)
    ]
    assert {int(result.view(bits_of)[plane, 10, 14]) for result in results for plane in (0, 1)} == {quiet}


@pytest.mark.parametrize(("dtype", "quiet"), [("f4", 0x7FC00000), ("f8", 0x7FF8 << 48)])
@pytest.mark.parametrize("layout", ["C", "channels last", "every second"])
@pytest.mark.parametrize("index_format", ["plane", "window"])
def test_two_infinities_that_meet_anywhere_are_the_one_nan(dtype, quiet, layout, index_format):
    """Two sums at a time are looked at, and of an odd number of them the last by itself."""
    for width in (3, 9, 21, 37, 70):
        x = np.zeros((1, 5, 2, width), dtype)
        x[..., 1::2] = 1  # the windows before and behind it choose such a cell
        values, indices = cu.max_pool2d(x, (1, 2), 1, return_indices=True, index_format=index_format)
        if layout == "channels last":
            values, indices = (
                np.ascontiguousarray(a.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) for a in (values, indices)
            )
        elif layout == "every second":
            values, indices = (np.repeat(a, 2, -1)[..., ::2] for a in (values, indices))
        for cell in range(1, width - 1, 2):
            grad = values.copy("K") if layout != "every second" else np.repeat(values, 2, -1)[..., ::2]
            grad[0, 2, 1, cell - 1 : cell + 1] = -np.inf, np.inf
            result = cu.max_pool2d_backward(grad, indices, x.shape, (1, 2), 1, index_format=index_format)
            assert result[0, 2, 1, cell].view(f"u{x.itemsize}") == quiet, (width, cell)
            assert np.isnan(result).sum() == 1
        for odd in (np.inf, -np.inf, np.nan):
            grad[0, 2, 1, cell - 1 : cell + 1] = odd, 1
            result = cu.max_pool2d_backward(grad, indices, x.shape, (1, 2), 1, index_format=index_format)
            assert np.array_equal(result[0, 2, 1, cell], odd, equal_nan=True)
        grad[0, 2, 1] = 1
        grad[0, 2, 1, -1] = np.copysign(np.nan, -1.0)  # the last number of its plane by itself
        result = cu.max_pool2d_backward(grad, indices, x.shape, (1, 2), 1, index_format=index_format)
        assert (result.view(f"u{x.itemsize}") == quiet).sum() == np.isnan(result).sum() > 0


@pytest.mark.parametrize(("dtype", "quiet"), [("f4", 0x7FC00000), ("f8", 0x7FF8 << 48)])
@pytest.mark.parametrize("layout", ["C", "channels last", "every second"])
def test_any_of_few_that_are_added_is_no_number_or_has_no_place(dtype, quiet, layout):
    """Numbers are added two at a time, and of an odd number of them the last by itself."""

    def arranged(a):
        if channels:
            return np.ascontiguousarray(a.reshape(1, 1, 1, -1)).transpose(0, 3, 1, 2)
        return np.repeat(a.reshape(1, 1, 1, -1), gap, -1)[..., ::gap]

    channels, gap = layout == "channels last", 2 if layout == "every second" else 1
    item = np.dtype(dtype).itemsize
    for count in range(1, 6):
        width = 3 if channels else count + 2
        call = {"input_size": (1, width), "kernel_size": (1, 3), "stride": 1}
        for places in ([0] * count, [width - 1] * count, np.arange(count) % width):
            values, indices = np.arange(1, count + 1, dtype=dtype), np.array(places)
            result = cu.max_pool2d_backward(arranged(values), arranged(indices), **call)
            expected = pool_backward(arranged(values), arranged(indices), 2, (1, width))
            assert result.tobytes() == expected.tobytes()
            for at in range(count):
                odd, cell = values.copy(), (0, at if channels else 0, 0, indices[at])
                odd.view(f"u{item}")[at] = quiet ^ 1 << 8 * item - 1 | 3
                result = cu.max_pool2d_backward(arranged(odd), arranged(indices), **call)
                rest = expected.copy()
                rest[cell] = np.nan
                assert result.view(f"u{item}")[cell] == quiet
                assert result.tobytes() == rest.tobytes()
                for wrong in (-1, width):
                    astray = indices.copy()
                    astray[at] = wrong
                    with pytest.raises(IndexError):
                        cu.max_pool2d_backward(arranged(values), arranged(astray), **call)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_two_infinities_anywhere_in_a_long_plane(dtype):
    x = np.zeros((1, 1, 2, 1300), dtype)
    x[..., 1::2] = 1
    values, indices = cu.max_pool2d(x, (1, 2), 1, return_indices=True)
    for at in (0, 500, 1022, 1024, 1500, 2046, 2048, 2596):
        row, cell = divmod(at, 1299)
        cell += 1 - cell % 2  # an odd cell is chosen by the windows on both sides of it
        grad = values.copy()
        grad[0, 0, row, cell - 1 : cell + 1] = -np.inf, np.inf
        result = cu.max_pool2d_backward(grad, indices, x.shape, (1, 2), 1)
        expected = cu.max_pool2d_backward(values, indices, x.shape, (1, 2), 1)
        expected[0, 0, row, cell] = np.nan
        assert result.tobytes() == expected.tobytes(), at


@pytest.mark.parametrize("dtype", ["e", ml_dtypes.bfloat16, "f4", "f8"], ids=str)
def test_two_nans_in_one_place_give_the_same_bits_at_any_thread_count(monkeypatch, dtype):
    monkeypatch.setattr("cunpool._threads.GRAIN", 1)
    nan = np.array(np.nan, dtype)
    bits_of = np.dtype(f"u{nan.itemsize}")
    grad = np.zeros((1, 1, 64), dtype)
    grad[0, 0, 10] = grad[0, 0, 11] = nan
    grad.view(bits_of)[0, 0, 10:12] ^= np.array([1, 2 | 1 << 8 * nan.itemsize - 1], bits_of)
    indices = np.arange(64).reshape(1, 1, 64)
    indices[0, 0, 10] = 11
    results = [cu.max_pool1d_backward(grad, indices, (65,), 2, 1, num_threads=t).view(bits_of) for t in (1, 2, 3)]
    assert {int(result[0, 0, 11]) for result in results} == {int(nan.view(bits_of))}


def test_both_shapes_that_pooling_may_give_are_named():
    """Without ceil mode no window fits, which is not what is wrong."""
    with pytest.raises(ValueError, match=r"pooling \(1, 1\) gives, \(1, 0\), or \(1, 1\) in ceil mode, got \(1, 2\)"):
        cu.max_pool1d_backward(np.ones((1, 2)), np.zeros((1, 2), int), (1,), 3, 5)
    assert cu.max_pool1d_backward(np.ones((1, 1)), np.zeros((1, 1), int), (1,), 3, 5).tolist() == [[1]]
