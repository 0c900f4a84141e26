"""Windows in many neighbouring channels, beside the same in C order: maxima alone, and walks along another axis."""

from __future__ import annotations

import numpy as np
import pytest
from cases import POOL, bits, channels_last
from numpy.lib.stride_tricks import as_strided

import cunpool as cu
from cunpool._kernels import pool as _pool

# Fewer and more than a vector, whole ones and not, and more than the buffers hold.
CHANNELS = [4, 5, 8, 15, 16, 17, 24, 31, 32, 63, 64, 65, 100, 128, 300, 512, 513, 600]
# A vector's worth of one cell, of some and of all looks; over the edge, and past an array that they miss.
WINDOWS = [(2,), ((1, 2),), ((3, 1), (1, 2)), (3, 2, 1), ((1, 9), (1, 4), (0, 4)), ((2, 2), 2, 1, (5, 1)), ((1, 7), 3)]
DTYPES = ["f4", "f8", "i4", "u4", "i8", "u1", "i1"]


def numbers(rng, dtype, shape):
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def in_c_order(x, window):
    return cu.max_pool2d(x, *window, return_indices=True)[0]


@pytest.mark.mostly_slow
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("channels", CHANNELS)
def test_maxima_across_channels(rng, ways, channels, window, threads):
    for dtype in DTYPES:
        x = numbers(rng, dtype, (2, channels, 4, 13))
        expected = in_c_order(x, window)
        ways.clear()
        assert bits(cu.max_pool2d(channels_last(x), *window, num_threads=threads)) == bits(expected)
        if dtype == "f4" and channels >= 32:
            misses = window == ((2, 2), 2, 1, (5, 1))  # no element of the first row of windows lies inside
            is_rolled = window == (3, 2, 1) and channels <= 128
            assert ways == [_pool.LARGE if misses else _pool.ROLLING if is_rolled else _pool.ACROSS]


@pytest.mark.mostly_slow
@pytest.mark.parametrize("order", [(0, 2, 3, 1), (0, 3, 2, 1), (2, 3, 0, 1), (3, 0, 2, 1)], ids=str)
@pytest.mark.parametrize("window", [(2,), ((2, 3), (1, 2), (1, 1)), ((3, 2), (2, 3), 1, (1, 2)), ((5, 6), 2)], ids=str)
@pytest.mark.parametrize("channels", [16, 17, 40, 300, 600])
def test_walks_along_the_axis_nearest_in_memory(rng, ways, channels, window, order):
    """Ties and NaN are the first and the last in raster order, whichever axis is walked along; wide places as well."""
    for dtype in ("f4", "u1"):
        x = rng.integers(0, 3, (2, channels, 9, 11)).astype(dtype)
        if dtype == "f4":
            x[rng.random(x.shape) < 0.05] = np.nan
        given = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
        for arguments in ({}, {"index_format": "window"}, {"index_dtype": np.int32}):
            expected = cu.max_pool2d(x, *window, return_indices=True, **arguments)
            ways.clear()
            for out in (None, [np.empty_like(given, shape=e.shape, dtype=e.dtype) for e in expected]):
                result = cu.max_pool2d(given, *window, return_indices=True, out=out and tuple(out), **arguments)
                assert [bits(array) for array in result] == [bits(array) for array in expected]
            turned = _pool.WIDTH_SWAPPED if order[-2] == 2 else 0  # next to the channels are the rows
            if dtype == "f4" and window == (2,):
                assert set(ways) == {_pool.ACROSS | turned}


@pytest.mark.parametrize("policy", ["propagate", "omit"])
@pytest.mark.parametrize("window", [(2,), (3, 2, 1), ((1, 5), 3), (5, 4)], ids=str)
@pytest.mark.parametrize("channels", [4, 7, 8, 15, 16, 17, 33, 70])
def test_ties_and_nan_of_channels_with_a_gap_behind_them(rng, channels, window, policy):
    for dtype in ("f4", "f2", "u1", "i1"):
        x = rng.integers(0, 3, (2, channels, 9, 11)).astype(dtype)
        if x.dtype.kind == "f":
            x = np.where(rng.random(x.shape) < 0.5, -x, x)  # zeros of either sign
            x[rng.random(x.shape) < 0.02] = np.nan
        for given in (channels_last(x), channels_last(np.concatenate([x, x], 1))[:, :channels]):
            for arguments in ({}, {"index_format": "window"}, {"index_dtype": np.int32}):
                expected = cu.max_pool2d(x, *window, return_indices=True, nan_policy=policy, **arguments)
                result = cu.max_pool2d(given, *window, return_indices=True, nan_policy=policy, **arguments)
                assert [bits(array) for array in result] == [bits(array) for array in expected]
            values = cu.max_pool2d(given, *window, nan_policy=policy)
            assert bits(values + 0) == bits(expected[0] + 0)  # which of two zeros is unspecified


@pytest.mark.parametrize(
    ("shape", "window"),
    [
        ((17, 3, 20_000), (3, 2, 1)),  # offsets of 40,002
        ((16, 69_302), (2, 1100)),  # few in a window, but windows that are compared together reach 69,301
        ((16, 200_000), (2, 1, 0, 70_000)),  # more than 16 bits in a window, which few elements have
    ],
)
def test_offsets_of_16_bit_floats_beside_16_bits(rng, shape, window):
    for x in (np.zeros(shape, "f2"), rng.integers(0, 100, shape).astype("f2")):
        pool = POOL[len(shape) - 1]
        expected = pool(x[None], *window, return_indices=True)
        result = pool(channels_last(x[None]), *window, return_indices=True)
        assert [bits(array) for array in result] == [bits(array) for array in expected]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("channels", [17, 32, 48])
@pytest.mark.parametrize("window", [(2,), (3, 2, 1), ((1, 7), 3)], ids=str)
def test_a_nan_anywhere(rng, channels, window, dtype):
    x = numbers(rng, dtype, (1, channels, 4, 9))
    for at in np.ndindex(4, 9):
        for channel in (0, 15, channels - 1):
            some = x.copy()
            some[0, channel][at] = np.nan
            # Behind the NaN, where it would be lost, nothing is as high.
            some[0, channel][at[0], at[1] + 1 :] = 9
            assert bits(cu.max_pool2d(channels_last(some), *window)) == bits(in_c_order(some, window))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("window", [(2,), (3, 2, 1), ((1, 7), 3)], ids=str)
def test_zeros_of_either_sign(rng, window, dtype):
    x = rng.choice(np.array([0.0, -0.0, -1.0, -np.inf], dtype), (2, 40, 7, 12))
    result = cu.max_pool2d(channels_last(x), *window)
    assert bits(result) == bits(in_c_order(x, window))
    assert len(set(np.signbit(result[result == 0]))) == 2


@pytest.mark.parametrize("window", [(2,), (3, 2, 1), ((1, 2), (1, 2))], ids=str)
@pytest.mark.parametrize("channels", [17, 24, 32, 63, 65, 300, 600])
def test_nothing_is_written_beside_the_results(rng, channels, window):
    """With a column behind each row, a channel behind each column, or neither, but rows in front and behind."""
    for dtype in ("f4", "f8", "u1"):
        x = numbers(rng, dtype, (1, channels, 5, 10))
        expected = in_c_order(x, window)
        _, _, height, width = expected.shape
        for columns, more in ((0, 0), (1, 0), (0, 1)):
            room = np.full((height + 2, width + columns, channels + more), 77, dtype)
            out = np.moveaxis(room[1:-1, :width, :channels], -1, 0)[None]
            code_room = np.full(room.shape, 77, np.uint8)
            code_out = np.moveaxis(code_room[1:-1, :width, :channels], -1, 0)[None]
            cu.max_pool2d(channels_last(x), *window, out=out)
            assert bits(out) == bits(expected)
            pooled = cu.max_pool2d(x, *window, return_indices=True, index_format="window")
            cu.max_pool2d(channels_last(x), *window, return_indices=True, index_format="window", out=(out, code_out))
            assert [bits(out), bits(code_out)] == [*map(bits, pooled)]
            for given in (room, code_room):
                given[1:-1, :width, :channels] = 77
                assert (given == 77).all()


@pytest.mark.parametrize("channels", [16, 17, 24, 31, 64, 100, 340, 512])
def test_rows_of_more_windows_than_are_compared_together(rng, ways, channels):
    for dtype in ("f4", "f8", "u1"):
        x = rng.integers(0, 5, (1, channels, 2, 4 * (1024 // channels) + 7)).astype(dtype)
        for arguments in ({}, {"index_format": "window"}, {"index_dtype": np.int32}):
            expected = cu.max_pool2d(x, 2, return_indices=True, **arguments)
            result = cu.max_pool2d(channels_last(x), 2, return_indices=True, **arguments)
            assert ways[-1] == _pool.ACROSS
            assert [bits(array) for array in result] == [bits(array) for array in expected]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "dtype", "window"),
    [
        ((64, 330, 340), "f4", (2,)),
        ((64, 330, 340), "f4", (3, 2, 1)),
        ((64, 330, 340), "f4", (2, 3)),
        ((64, 5000, 20), "f4", (3, 2, 1)),
        ((64, 330, 340), "f4", (3, 2, 1, 2)),
        ((600, 100, 130), "f4", (2,)),
        ((400, 70, 300), "f4", ((3, 2), (1, 2), (1, 0))),
        ((24, 1000, 1040), "u1", (2,)),
        ((300, 300, 330), "u1", (3, 2, 1)),
        ((16, 400, 600), "f8", (3, 1, 1)),
        ((32, 11, 60, 330), "f4", ((3, 2, 2), (1, 2, 2))),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "lie", ["last", "last, rows before them", "last, beside a gap", "last, backwards", "last, few columns of many"]
)
def test_windows_across_channels_beyond_the_caches(rng, ways, shape, dtype, window, lie):
    """Fewer windows are written at once, past the caches."""
    x = rng.integers(0, 100, shape).astype(dtype)
    given = channels_last(x[None])
    if lie == "last, rows before them":
        given = channels_last(x.swapaxes(-1, -2)[None]).swapaxes(-1, -2)
    elif lie == "last, beside a gap":
        given = channels_last(np.concatenate([x, x])[None])[:, : len(x)]
    elif lie == "last, few columns of many":
        given = channels_last(np.concatenate([x, x], -1)[None])[..., : shape[-1]]
    elif lie == "last, backwards":
        given = channels_last(x[None, ..., ::-1])[..., ::-1]
    pool = POOL[len(shape) - 1]
    expected = pool(x[None], *window, return_indices=True)
    result = pool(given, *window, return_indices=True)
    assert ways[-1] & (_pool.ACROSS | _pool.STREAMED) == _pool.ACROSS | _pool.STREAMED
    assert [bits(array) for array in result] == [bits(array) for array in expected]
    assert bits(pool(given, *window)) == bits(expected[0])
    assert x.nbytes + expected[0].nbytes >= 3 << 23


def seen_again(columns, height):
    """16 channels last, of rows that are all the same one."""
    return as_strided(columns, (1, 16, height, len(columns)), (0, columns.itemsize, 0, columns.strides[0]))


def test_places_of_windows_together_that_need_32_bits():
    """The last cell of the first window is within 2**31, and those of the others beside it are not."""
    columns = np.zeros((1000, 16), np.float32)
    columns[[61, 660, 901, 960], [1, 2, 3, 4]] = np.nan  # of several the last one is named, which is in the last row
    step = (2**31 - 2) // 1000
    indices = cu.max_pool2d(seen_again(columns, step + 1), 2, (1, 60), 0, (step, 1), return_indices=True).indices
    expected = np.broadcast_to(np.arange(17) * 60, (16, 17)).copy()
    for channel, window, column in ((1, 1, 61), (2, 11, 660), (3, 15, 901), (4, 16, 960)):
        expected[channel, window] = step * 1000 + column
    assert np.array_equal(indices[0, :, 0], expected)


def test_windows_together_that_are_far_apart():
    """So far that the places of as many as the buffers hold wrap at 64 bits."""
    step = 2**56
    x = as_strided(np.full(16, np.nan, np.float32), (1, 16, step + 2), (0, 4, 0))
    out = tuple(np.empty((1, 2, 16), dtype).transpose(0, 2, 1) for dtype in (np.float32, np.int64))
    indices = cu.max_pool1d(x, 2, step, return_indices=True, out=out).indices
    assert np.array_equal(indices[0], np.broadcast_to([1, step + 1], (16, 2)))


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "u1", "i2"])
@pytest.mark.parametrize("channels", [16, 33, 70])
@pytest.mark.parametrize("window", [((1, 3, 3), (1, 2, 2), (0, 1, 1)), ((1, 5, 5), (2, 1, 1), (0, 2, 2))], ids=str)
def test_windows_of_one_layer_in_planes_of_several(rng, window, channels, dtype):
    x = rng.integers(0, 9, (2, channels, 5, 7, 8)).astype(dtype)
    for style in ({}, {"index_format": "window"}, {"index_dtype": np.int32}):
        expected = cu.max_pool3d(x, *window, return_indices=True, **style)
        for threads in (1, 3):
            result = cu.max_pool3d(channels_last(x), *window, return_indices=True, num_threads=threads, **style)
            assert [bits(array) for array in result] == [bits(array) for array in expected]
            assert bits(cu.max_pool3d(channels_last(x), *window, num_threads=threads)) == bits(expected[0])


@pytest.mark.parametrize("pool", [cu.max_pool2d, cu.min_pool2d])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_zeros_of_columns_have_the_sign_of_the_first_one(rng, pool, dtype):
    """Whether a NaN in the same block of windows is compared again or not."""
    x = rng.choice(np.array([0.0, -0.0], dtype), (3, 40, 70))
    for number in (0, 1):
        x[0, 0, 0] = np.nan if number else 0.0
        columns = np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)
        assert bits(pool(columns, 2)) == bits(pool(columns, 2, return_indices=True)[0])
