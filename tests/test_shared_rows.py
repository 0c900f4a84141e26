"""Windows of 2 x 2, 3 x 3 and 5 x 5 that share rows of elements: several rows of windows are compared together."""

from __future__ import annotations

from itertools import product

import instruction_sets
import numpy as np
import pytest
import vectorised
from cases import at_the_end_of_memory, bits, channels_last

import cunpool as cu

DTYPES = ["f4", "f8", "f2", "u1", "i1", "u2", "i4", "u8"]
FORMS = [
    {},
    {"return_indices": True},
    {"return_indices": True, "index_dtype": np.int32},
    {"return_indices": True, "index_format": "window"},
]


def numbers(rng, dtype, shape):
    """With many ties."""
    return rng.integers(0, 5, shape).astype(dtype)


def check(x, given, window, threads=1):
    """All forms of maxima, and of minima, beside the loops of NumPy."""
    for minimum, function in ((False, cu.max_pool2d), (True, cu.min_pool2d)):
        values, places = vectorised.max_pool(x, 2, *window, minimum=minimum)
        for form in FORMS:
            found = function(given, *window, **form, num_threads=threads)
            if not form:
                assert bits(found) == bits(values), minimum
                continue
            assert bits(found.values) == bits(values), (form, minimum)
            indices = found.indices
            if "index_format" in form:
                sizes = dict(zip(("kernel_size", "stride", "padding"), window, strict=False))
                indices = cu.convert_indices(indices, "window", "plane", input_size=x.shape[2:], **sizes)
            assert np.array_equal(indices, places), (form, minimum)


@pytest.mark.parametrize("name", instruction_sets.USABLE)
@pytest.mark.parametrize("kernel", [2, 3, 5])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_windows_that_share_rows(monkeypatch, rng, name, kernel, stride, dtype):
    """Channels that fill vectors and do not, up to the end of memory; one row of windows, some and many; all edges."""
    instruction_sets.use(name, monkeypatch)
    lanes = 64 // np.dtype(dtype).itemsize
    for channels in (lanes, lanes + 1, 3 * lanes - 1):
        for height, width in ((kernel, kernel), (kernel + 1, 9), (23, kernel + 2)):
            x = numbers(rng, dtype, (1, channels, height, width))
            last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
            for padding in (0, 1, kernel // 2):
                given = at_the_end_of_memory(last).transpose(0, 3, 1, 2)
                check(x, given, (kernel, stride, padding), 1 + padding)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
@pytest.mark.parametrize("kernel", [2, 3, 5])
@pytest.mark.parametrize("stride", [1, 2])
def test_one_odd_element_anywhere(rng, dtype, kernel, stride):
    """NaN, and negative zeros among positive ones."""
    x = numbers(rng, dtype, (1, 33, 7, 6)) - 4
    for odd in (np.nan, -0.0):
        for at in range(0, x.size, 17):
            changed = x.copy()
            changed.flat[at] = odd
            given = channels_last(changed)
            found = cu.max_pool2d(given, kernel, stride, 1, return_indices=True)
            values, places = vectorised.max_pool(changed, 2, kernel, stride, 1)
            assert bits(found.values) == bits(values), (odd, at)
            assert np.array_equal(found.indices, places), (odd, at)
            assert bits(cu.max_pool2d(given, kernel, stride, 1)) == bits(values), (odd, at)


@pytest.mark.parametrize("nan_policy", ["propagate", "omit"])
def test_nan_in_the_first_rows_alone(rng, nan_policy):
    """The comparison that finds NaN is used for some rows of windows, and not for the last ones."""
    x = numbers(rng, "f4", (1, 16, 90, 11))
    x[0, 3, 2, 2] = np.nan
    values, places = vectorised.max_pool(x, 2, 3, 1, 1, omit=nan_policy == "omit")
    found = cu.max_pool2d(channels_last(x), 3, 1, 1, return_indices=True, nan_policy=nan_policy)
    assert bits(found.values) == bits(values)
    assert np.array_equal(found.indices, places)


@pytest.mark.parametrize("width", [32, 64, 128, 112])
def test_rows_that_share_few_places_in_the_first_cache(rng, width):
    """Rows of half of 4 KiB, of all of it, and of several times as much."""
    x = numbers(rng, "f4", (1, 16, 21, width))
    check(x, channels_last(x), (5, 2, 2))


@pytest.mark.parametrize("channels", [7, 8, 100])
def test_interleaved_planes(rng, channels):
    """Too few for rows to be compared together, enough, and some lots."""
    x = numbers(rng, "f8", (1, channels, 40, 40))
    check(x, x, (3, 1, 1), 2)


@pytest.mark.parametrize("name", instruction_sets.USABLE)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", [1, 2, 3, 5, 15])
def test_columns_in_runs(monkeypatch, rng, name, dtype, channels):
    """Fewer channels than a vector has: the columns inside the array are one run, up to the end of memory."""
    instruction_sets.use(name, monkeypatch)
    least = -(-64 // (channels * np.dtype(dtype).itemsize))  # columns of a run, as few as it may have
    for kernel, stride, height, more in ((3, 1, 3, 0), (3, 2, 12, 1), (3, 2, 21, 40), (5, 1, 12, 1), (5, 2, 25, 70)):
        x = numbers(rng, dtype, (1, channels, height, kernel - 1 + least + more))
        last = at_the_end_of_memory(np.ascontiguousarray(x.transpose(0, 2, 3, 1))).transpose(0, 3, 1, 2)
        for padding in range(kernel // 2 + 1):
            check(x, last, (kernel, stride, padding), 1 + padding % 2)


@pytest.mark.parametrize("dtype", ["u1", "f4", "f8"])
@pytest.mark.parametrize("stride", [1, 2])
def test_columns_in_runs_beside_the_plane(rng, dtype, stride):
    """More padding on one side than on the other, ceil mode, minima, and results that have gaps around them."""
    x = numbers(rng, dtype, (2, 2, 14, 41))
    last = channels_last(x)
    for padding in (((0, 1), (4, 0)), ((4, 0), (0, 4)), ((2, 2), (3, 3)), "same"):
        for ceil_mode in (False, True):
            for kernel in (3, 5):
                if padding != "same" and np.max(padding) >= kernel:
                    continue
                arguments = {"ceil_mode": ceil_mode and padding != "same", "return_indices": True}
                found, expected = (cu.max_pool2d(each, kernel, stride, padding, **arguments) for each in (last, x))
                assert [*map(bits, found)] == [*map(bits, expected)], (padding, kernel)
    values = cu.max_pool2d(x, 3, stride)
    wide = channels_last(np.full((2, 2, *(2 + np.array(values.shape[2:]))), 7, dtype))
    cu.max_pool2d(last, 3, stride, out=wide[:, :, 1:-1, 1:-1])
    assert np.array_equal(wide[:, :, 1:-1, 1:-1], values)
    assert (wide[..., [0, -1]] == 7).all()
    assert (wide[:, :, [0, -1]] == 7).all()


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("kernel", "channels"), [(3, 2), (3, 7), (5, 2)])
@pytest.mark.parametrize("width", [36, 37])
def test_one_odd_element_in_a_run(rng, dtype, stride, kernel, channels, width):
    """In the first and last channel, also beside the last column of windows inside the plane."""
    x = numbers(rng, dtype, (1, channels, 5, width)) - 4
    columns = [*range(0, width - 8, 5), *range(width - 8, width)]
    for odd, padding in product((np.nan, -0.0), (0, kernel // 2)):
        for channel, column in product((0, channels - 1), columns):
            at = 0, channel, rng.integers(kernel), column  # in a row that some window has
            changed = x.copy()
            changed[at] = odd
            found = cu.max_pool2d(channels_last(changed), kernel, stride, padding, return_indices=True)
            values, places = vectorised.max_pool(changed, 2, kernel, stride, padding)
            assert bits(found.values) == bits(values), (odd, at)
            assert np.array_equal(found.indices, places), (odd, at)


@pytest.mark.parametrize("kernel", [2, 3, 5])
@pytest.mark.parametrize("stride", [1, 2])
def test_any_steps_in_memory(rng, kernel, stride):
    """Gaps between rows and columns, reversed axes, results with gaps between rows, and volumes of flat windows."""
    x = numbers(rng, "f4", (2, 20, 16, 15))
    last = channels_last(x)
    for index in (np.s_[:, :, ::-1], np.s_[..., ::-1], np.s_[:, :, ::2, :-1], np.s_[:, :, :, 1:12], np.s_[:, 1:18]):
        check(np.ascontiguousarray(x[index]), last[index], (kernel, stride, 1))
    expected = cu.max_pool2d(x, kernel, stride, return_indices=True)
    wide = [channels_last(np.repeat(np.zeros_like(each), 2, 2)) for each in expected]
    out = tuple(each[:, :, ::2] for each in wide)
    cu.max_pool2d(last, kernel, stride, return_indices=True, out=out)
    for found, each in zip(out, expected, strict=True):
        assert np.array_equal(found, each)
    assert not any(each[:, :, 1::2].any() for each in wide)
    flat = cu.max_pool3d(last[:, :, None], (1, kernel, kernel), (1, stride, stride), return_indices=True)
    for found, each in zip(flat, expected, strict=True):
        assert np.array_equal(found[:, :, 0], each)


@pytest.mark.parametrize("stride", [1, 2])
def test_more_padding_than_elements(rng, stride):
    """Before or behind, and windows that only ceil mode adds."""
    x = numbers(rng, "f4", (1, 16, 4, 6))
    for padding in (((4, 0), (0, 4)), ((0, 3), (2, 0)), "same"):
        for form in FORMS:
            found, expected = (cu.max_pool2d(each, 5, stride, padding, **form) for each in (channels_last(x), x))
            assert np.array_equal(found, expected) if not form else [*map(bits, found)] == [*map(bits, expected)]
    for kernel in (2, 3, 5):
        arguments = {"ceil_mode": True, "return_indices": True}
        found, expected = (cu.max_pool2d(each, kernel, stride, 1, **arguments) for each in (channels_last(x), x))
        assert [*map(bits, found)] == [*map(bits, expected)]
