"""Pooling without indices where rows are contiguous: filtered, or reached where there is something odd."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import vectorised
from cases import FLOATS, INTEGERS, POOL, at_the_end_of_memory, bits, channels_last

import cunpool as cu
from cunpool._kernels import pool as _pool

DTYPES = INTEGERS + FLOATS
FILTERED = _pool.SEPARATED | _pool.FILTERED


def plain_numbers(rng, dtype, shape):
    """Numbers with ties, the least and the greatest among them, and nothing odd."""
    if dtype in FLOATS:
        numbers = np.round(rng.standard_normal(shape) * 3) + 0.0
        numbers.flat[rng.integers(0, numbers.size, 9)] = -np.inf
        numbers.flat[rng.integers(0, numbers.size, 9)] = np.inf
        return numbers.astype(dtype)
    limits = np.iinfo(dtype)
    numbers = rng.integers(max(limits.min, -9), 10, shape).astype(dtype)
    numbers.flat[rng.integers(0, numbers.size, 9)] = limits.min
    numbers.flat[rng.integers(0, numbers.size, 9)] = limits.max
    return numbers


# Kernels on both sides of each number of neighbours that is looked at another way, and of four strides' worth; strides
# that divide dilated cells or not; rows shorter than a vector, longer than a stage and longer than a block; planes that
# follow each other in pairs of rows or not at all.
GEOMETRIES = [
    *[((1, 2, 40, 70), (k, 1, k // 2)) for k in (2, 3, 4, 5, 6)],
    *[((1, 2, 40, 270), (k, 1, k // 2)) for k in (7, 9, 12, 13, 16, 17, 31)],
    *[((2, 3, 41, 67), (k, 2, k // 2)) for k in (3, 5, 7, 8)],
    *[((2, 3, 41, 267), (k, 2, k // 2)) for k in (9, 15, 33)],
    ((1, 2, 400, 300), ((9, 3), (13, 1), (4, 1))),  # running maxima of groups that no window begins in
    ((1, 2, 90, 300), ((40, 3), (11, 1), (20, 1))),
    ((1, 1, 300, 9001), (9, 1, 4)),  # rows cut into parts
    *[((1, 2, 50, 90), (k, 3, k // 2, 2)) for k in (2, 3, 5, 13)],
    ((1, 2, 70, 90), (5, (2, 4), 2, (3, 6))),
    ((1, 2, 70, 90), (7, (1, 6), 3, (2, 4))),
    *[((1, 3, 55, 100), (k, (2, s), k // 2)) for k in (2, 3, 5) for s in (4, 5, 8)],
    *[((1, 3, 55, 300), (10, (2, s), 5)) for s in (4, 5, 8)],
    ((1, 3, 55, 100), (5, 5, 2, 2)),
    # A last window that begins behind the array's last column but one: more padding than columns is behind each row.
    ((1, 2, 64, 300), ((9, 613), (1, 540), (0, 306), 1, True)),
    ((1, 2, 64, 8), ((3, 17), (1, 15), (0, 8), 1, True)),
    ((1, 2, 64, 300), ((33, 613), (2, 540), (16, 306), 1, True)),
    ((1, 2, 70, 290), ((33, 3), 1, (16, 1))),
    ((1, 2, 70, 290), ((33, 2), (9, 30))),
    ((1, 2, 30, 200), ((2, 40), (1, 9), (1, 20))),
    ((4, 3, 20, 20), (5, 1, 2)),
    ((4, 16, 20, 20), ((5, 4), 1, 2)),
    ((4, 16, 14, 18), (3, 2, 1)),
    ((2, 40, 24, 24), (3,)),
    ((1, 3, 9, 5000), (3, 1, 1)),
    ((1, 2, 60, 9000), (2, 1)),
    ((1, 1, 90, 3001), (31, 1, 15)),
    ((2, 3, 4000), (100, 1, 50)),
    ((2, 3, 4000), (1000, 3, 500)),
    ((300, 3, 100), (3, 2, 1)),
    ((1, 2, 9, 16, 18), (3, 1, 1)),
    ((1, 2, 9, 16, 18), ((1, 3, 9), (2, 1, 1), (0, 1, 4))),
    ((1, 2, 9, 16, 18), ((5, 3, 2), (2, 2, 1), (2, 1, 1))),
    ((2, 2, 6, 8, 18), (2,)),
    ((1, 2, 7, 20, 130), (5, 1, 2)),
    ((1, 2, 9, 30, 19), ((5, 5, 3), (2, 3, 2), (2, 1, 1))),
    # Small planes, of which the stage has several, and more than it counts.
    ((3, 90, 9, 17), (2, 1)),
    ((2, 100, 6, 10, 17), (3,)),
    ((1, 130, 7, 17), (3, 2, 1)),
]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("full", "arguments"), GEOMETRIES, ids=str)
def test_filtering_is_pooling(rng, ways, full, arguments, threads):
    n = len(full) - 2
    for dtype in rng.choice(DTYPES, 3, replace=False):
        x = plain_numbers(rng, dtype, full)
        values = vectorised.max_pool(x, n, *arguments)[0]
        ways.clear()
        assert bits(POOL[n](x, *arguments, num_threads=threads)) == bits(values)
        assert ways[0] & ~_pool.STREAMED in (_pool.WINDOW2, _pool.ROLLING, FILTERED)


# Units of less than a vector, of whole vectors and of neither; windows that need padding, and all kinds of steps.
@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("channels", [2, 3, 4, 7, 16, 17, 31, 64, 65, 200])
@pytest.mark.parametrize(
    "arguments", [(2,), (3, 1, 1), (3, 2, 1), (5, 3, 2), (7, 1, 3), ((2, 9), (3, 2), (1, 4)), ((3, 4), 1, 1, (1, 3))]
)
def test_interleaved_channels_are_filtered(rng, ways, channels, arguments, threads):
    for dtype in rng.choice(DTYPES, 2, replace=False):
        x = plain_numbers(rng, dtype, (2, channels, 24, 29))
        values = vectorised.max_pool(x, 2, *arguments)[0]
        result = cu.max_pool2d(channels_last(x), *arguments, num_threads=threads)
        assert bits(result) == bits(values)
        cells = np.prod(arguments[0]) * (1 if isinstance(arguments[0], tuple) else arguments[0])
        skipping = len(arguments) == 1 or np.ravel(arguments[1])[-1] > 1
        size = channels * dtype.itemsize
        strides = np.prod(np.broadcast_to(arguments[1] if len(arguments) > 1 else arguments[0], 2))
        few = cells <= 9 or cells <= min(32, 3 * strides)
        # Channels of less than 64 bytes are pooled in runs, of 27 columns inside the plane.
        shares = arguments == (3, 1, 1) and 27 * size >= 64 and (dtype.kind != "u" or dtype.itemsize <= 2)
        shares |= arguments == (3, 2, 1) and 64 <= size <= 1024 and (dtype.kind != "u" or dtype.itemsize <= 2)
        across = few and skipping and size >= (24 if cells <= 4 else 64)
        method = _pool.ROLLING if shares else _pool.ACROSS if across else FILTERED
        assert ways[-1] & ~_pool.STREAMED == method


@pytest.mark.parametrize(
    ("channels", "arguments"),
    [
        *[(channels, ((3, 7), (1, 6), (0, 3), 1, True)) for channels in (2, 5, 32)],
        *[(channels, ((9, 7), (1, 6), (0, 3), 1, True)) for channels in (80, 100)],
    ],
)
def test_interleaved_channels_with_more_padding_than_columns(rng, ways, channels, arguments):
    for dtype in ("u1", "f4", "f8"):
        x = plain_numbers(rng, np.dtype(dtype), (1, channels, 64, 4))
        values = vectorised.max_pool(x, 2, *arguments)[0]
        assert bits(cu.max_pool2d(channels_last(x), *arguments)) == bits(values)
    assert set(ways) == {FILTERED}


def test_interleaved_channels_of_volumes_and_lines(rng, ways):
    for full, arguments in (((2, 5, 9, 12, 14), (3, 1, 1)), ((2, 5, 9, 12, 14), ((2, 3, 5), 2)), ((3, 6, 400), (9, 2))):
        x = plain_numbers(rng, np.dtype("f4"), full)
        values = vectorised.max_pool(x, len(full) - 2, *arguments)[0]
        assert bits(POOL[len(full) - 2](channels_last(x), *arguments)) == bits(values)
    assert ways == [FILTERED] * 3


@pytest.mark.parametrize("dtype", ["u1", "f4", "f8"])
@pytest.mark.parametrize("stride", [33, 5000, 10**9, 2**31 - 1, 2**40, 2**58, 2**59, 2**60])
def test_the_stride_of_a_single_window_means_nothing(rng, ways, dtype, stride):
    x = plain_numbers(rng, np.dtype(dtype), (1, 3, 32, 32))
    for kernel in (12, 5, (3, 30)):
        values = vectorised.max_pool(x, 2, kernel, 100)[0]
        for given in (x, channels_last(x)):
            for strides in (stride, (100, stride), (stride, 100)):
                assert bits(cu.max_pool2d(given, kernel, strides)) == bits(values)
    assert set(ways) <= {FILTERED, _pool.ACROSS, _pool.SEPARATED, _pool.LARGE}
    assert FILTERED in ways


def test_windows_of_many_planes_too_far_apart_to_be_filtered(rng, ways):
    for arguments in ((2, (2, 60)), ((2, 3), (2, 90), (0, 1))):
        x = plain_numbers(rng, np.dtype("f4"), (3, 2, 8, 1000))
        values = vectorised.max_pool(x, 2, *arguments)[0]
        assert bits(cu.max_pool2d(x, *arguments)) == bits(values)
    assert not any(way & _pool.FILTERED for way in ways)


def test_single_windows_far_apart(rng):
    x = plain_numbers(rng, np.dtype("f4"), (1, 1, 130, 18000))
    values = vectorised.max_pool(x, 2, 12, (12, 6000))[0]
    assert bits(cu.max_pool2d(x, 12, (12, 6000))) == bits(values)


def test_what_is_narrow_is_filtered_but_not_what_is_too_much(rng, ways):
    for dtype, full, arguments, is_filtered in (
        ("u1", (2, 8, 300, 3), ((20, 1), 1), True),  # rows of three cells
        ("u1", (1, 4000, 40, 40), (35,), False),  # all channels of a window have more cells than a block may,
        ("f4", (1, 1000, 40, 40), (35, 1), False),  # or more bytes,
        ("u1", (1, 1, 200000, 6), ((170000, 1), (20000, 1)), False),  # and its rows, as vectors
    ):
        x = plain_numbers(rng, np.dtype(dtype), full)
        result = cu.max_pool2d(channels_last(x) if full[1] >= 1000 else x, *arguments)
        windows = np.lib.stride_tricks.sliding_window_view(x, np.broadcast_to(arguments[0], 2), (2, 3))
        steps = np.broadcast_to(arguments[1] if len(arguments) > 1 else 35, 2)
        assert bits(result) == bits(windows[:, :, :: steps[0], :: steps[1]].max((-1, -2)))
        assert bool(ways[-1] & _pool.FILTERED) == is_filtered


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_is_filtered(rng, ways, dtype):
    for arguments in ((3, 1, 1), (9, 1, 4), (5, 2, 2), ((9, 2), (1, 2), 0, 2)):
        x = plain_numbers(rng, dtype, (2, 3, 30, 300))
        assert bits(cu.max_pool2d(x, *arguments)) == bits(vectorised.max_pool(x, 2, *arguments)[0])
    assert ways[1:] == [FILTERED] * 3


def test_many_rows_with_dilation_are_not_filtered(rng, ways):
    """They have no running maxima, and are too many to be combined at once."""
    x = plain_numbers(rng, np.dtype("f4"), (1, 2, 90, 300))
    arguments = ((33, 3), 1, 0, (2, 1))
    assert bits(cu.max_pool2d(x, *arguments)) == bits(vectorised.max_pool(x, 2, *arguments)[0])
    assert ways == [_pool.SEPARATED]


@pytest.mark.parametrize("odd", [np.nan, -0.0])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("width", "way"), [(13, _pool.INTERLEAVED), (17, FILTERED)])
def test_something_odd_in_any_of_many_small_planes(rng, ways, width, way, dtype, odd):
    plain = plain_numbers(rng, np.dtype(dtype), (1, 90, 10, width))
    plain[..., :5] = 0  # so that zeros of either sign meet
    size = 10 * width
    for at in (0, size - 1, size, 40 * size + 50, 90 * size - 1):
        x = plain.copy()
        x.flat[at] = odd
        assert bits(cu.max_pool2d(x, 4, 3)) == bits(vectorised.max_pool(x, 2, 4, 3)[0])
    assert set(ways) == {way}


@pytest.mark.slow
@pytest.mark.parametrize("odd", [np.nan, -np.nan, -0.0])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("kernel", [3, 9, 13])
def test_something_odd_anywhere(rng, ways, kernel, dtype, odd):
    """One odd cell, in each corner of a plane and of a block, and where only the padding is behind it."""
    plain = np.zeros((1, 2, 80, 700), dtype)  # so that zeros of either sign meet
    plain[..., 100:] = plain_numbers(rng, plain.dtype, (1, 2, 80, 600))
    of_plain = vectorised.max_pool(plain, 2, kernel, 1, kernel // 2)[0]
    changed = []
    for at in ((0, 0, 0), (0, 79, 699), (1, 0, 699), (1, 79, 0), (0, 40, 50), (1, 33, 699)):
        x = plain.copy()
        x[0][at] = odd
        values = vectorised.max_pool(x, 2, kernel, 1, kernel // 2)[0]
        assert bits(cu.max_pool2d(x, kernel, 1, kernel // 2)) == bits(values)
        assert bits(cu.max_pool2d(channels_last(x), kernel, 1, kernel // 2)) == bits(values)
        changed.append(bits(values) != bits(of_plain))
    assert sum(changed) >= 2
    assert set(ways) <= {FILTERED, _pool.ROLLING}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_first_and_the_last_odd_number(dtype):
    """By their bits: NaN of either sign, negative zero, and what comes right before and after these."""
    size = 8 * dtype.itemsize
    infinity = int(np.array(np.inf, dtype).view(f"u{dtype.itemsize}"))
    sign = 1 << size - 1
    near = [infinity, infinity + 1, sign - 1, sign, sign + 1, sign + infinity, sign + infinity + 1, 2 * sign - 1, 1, 0]
    for number in near:
        for behind in range(9):
            x = np.zeros((1, 1, 30, 30), f"u{dtype.itemsize}")
            x[0, 0, 20 + behind // 3, 11 + behind % 3] = number
            x = x.view(dtype)
            assert bits(cu.max_pool2d(x, 3, 3, 1)) == bits(vectorised.max_pool(x, 2, 3, 3, 1)[0])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_ties_between_zeros_of_either_sign(rng, ways, dtype):
    """The first of them in raster order stays, and columns are compared before rows; without any NaN beside them."""
    for arguments in ((3, 1, 1), (3, 2, 1), (5, 5, 2), (9, 1, 4), ((9, 2), 1)):
        x = rng.choice(np.array([-1, -0.0, 0.0]), (1, 2, 30, 140)).astype(dtype)
        values = vectorised.max_pool(x, 2, *arguments)[0]
        assert bits(cu.max_pool2d(x, *arguments)) == bits(values)
        assert bits(values) != bits(vectorised.max_pool(x + dtype.type(0), 2, *arguments)[0])
    assert set(ways) <= {FILTERED, _pool.ROLLING}
    assert ways[-1] == FILTERED


@pytest.mark.parametrize("odd", [np.nan, -0.0])
@pytest.mark.parametrize("arguments", [(3, 3, 1), (3, 1), (5, 5, 2), (9, 4)])
def test_odd_cells_of_rows_that_windows_see_in_part(rng, ways, arguments, odd):
    """In the first and the last rows and columns, seen and not."""
    plain = -np.abs(plain_numbers(rng, np.dtype("f4"), (2, 2, 54, 54)))
    plain[plain == 0] = -1
    changed = 0
    for h in (0, 1, 30, 51, 52, 53):
        for w in (0, 1, 51, 52, 53):
            x = plain.copy()
            x[1, 0, h, w] = odd
            values = vectorised.max_pool(x, 2, *arguments)[0]
            assert bits(cu.max_pool2d(x, *arguments)) == bits(values)
            changed += np.any(values == 0) or np.any(np.isnan(values))
    assert changed >= 6
    assert set(ways) == {_pool.ROLLING if arguments == (3, 1) else FILTERED}


@pytest.mark.parametrize("arguments", [(3, 1, 1), (9, 1, 4), (3, 2, 1), ((1, 5), 1, (0, 2))])
def test_gaps_and_orders_of_rows(rng, ways, arguments):
    """Rows that are contiguous, and lie anywhere; what is between them is never a value."""
    room = np.full((3, 5, 90, 130), np.inf, np.float32)
    for part in (
        room[1:2, 1:4, 5:50, 7:100],
        room[:, ::-2, ::-1, 30:],
        room[::2, 1:3, 3:70:3, :64],
        room[1:, 1:, 89:40:-1, 129:66:-1][..., ::-1],
        room.transpose(2, 1, 0, 3)[::7, ::2],
    ):
        before = part.copy()
        part[...] = plain_numbers(rng, np.dtype("f4"), part.shape)
        part[np.isinf(part)] = 1
        values = vectorised.max_pool(part.copy(), 2, *arguments)[0]
        assert bits(cu.max_pool2d(part, *arguments)) == bits(values)
        out = np.zeros((*values.shape[:-1], values.shape[-1] + 3), np.float32)
        cu.max_pool2d(part, *arguments, out=out[..., 2:-1])
        assert bits(out[..., 2:-1].copy()) == bits(values)
        assert not out[..., :2].any()
        assert not out[..., -1].any()
        part[...] = before
    assert FILTERED in ways


@pytest.mark.skipif(sys.platform != "linux", reason="pages are closed by a call of Linux")
@pytest.mark.parametrize("dtype", ["u1", "i2", "e", "f", "d"])
@pytest.mark.parametrize("channels", [8, 16, 17, 24, 31, 40, 65, 100])
def test_nothing_is_looked_at_behind_the_channels(rng, dtype, channels):
    """Windows are compared in all channels, in whole vectors, which reach into the next cell, if there is one."""
    x = rng.integers(0, 9, (2, channels, 7, 9)).astype(dtype)
    for arguments in ((2,), (3, 1, 1), (3, 2, 1), ((1, 3), 1), (3, 2, 0, 2)):
        values, indices = vectorised.max_pool(x, 2, *arguments)
        for last in (
            np.moveaxis(at_the_end_of_memory(np.moveaxis(x, 1, -1)), -1, 1),
            np.moveaxis(at_the_end_of_memory(np.moveaxis(x[..., ::-1], 1, -1)), -1, 1)[..., ::-1],
        ):
            result = cu.max_pool2d(last, *arguments, return_indices=True)
            assert bits(result[0]) == bits(values)
            assert bits(result[1]) == bits(indices)


@pytest.mark.mostly_slow
@pytest.mark.skipif(sys.platform != "linux", reason="pages are closed by a call of Linux")
@pytest.mark.parametrize("dtype", ["u1", "i2", "e", "f", "d"])
@pytest.mark.parametrize("width", [8, 14, 33, 62, 65, 130, 700])
def test_nothing_is_looked_at_behind_the_array(rng, dtype, width):
    """Rows are done in whole vectors, which reach beyond a row, and never beyond the array."""
    for rows in (9, 12):
        x = rng.integers(0, 9, (2, 3, rows, width)).astype(dtype)
        for arguments in ((2,), (3, 1, 1), (3, 2, 1), (9, 1, 4), ((1, 3), 1)):
            values, indices = vectorised.max_pool(x, 2, *arguments)
            interleaved = np.moveaxis(at_the_end_of_memory(np.moveaxis(x, 1, -1)), -1, 1)
            for last in (at_the_end_of_memory(x), at_the_end_of_memory(x[:, :, ::-1])[:, :, ::-1], interleaved):
                assert bits(cu.max_pool2d(last, *arguments)) == bits(values)
                assert bits(cu.max_pool2d(last, *arguments, return_indices=True)[1]) == bits(indices)


def odd_numbers(rng, shape):
    """Ties between zeros of either sign, and not-a-numbers that can be told from each other."""
    numbers = rng.choice(np.array([-1, -0.0, 0.0], np.float32), shape)
    chosen = rng.random(shape) < 0.1
    numbers.view("u4")[chosen] = 0x7FC00000 + rng.integers(0, 1000, chosen.sum())
    return numbers


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_another_axis_as_rows(rng, ways, odd, threads):
    """Columns, or layers, that lie along memory; something odd is compared in the array's own order."""
    for full, order, arguments in (
        ((2, 3, 33, 41), (0, 1, 3, 2), (3, 1, 1)),
        ((4, 8, 14, 18), (0, 1, 3, 2), (2, 2, 1)),
        ((1, 2, 30, 60), (0, 1, 3, 2), ((2, 5), (1, 3), (1, 2), (1, 2))),
        ((1, 1, 12, 14, 16), (0, 1, 4, 3, 2), ((2, 3, 2), (2, 1, 1), (1, 1, 0), (1, 2, 1))),
        ((2, 3, 9, 20, 17), (0, 1, 2, 4, 3), (3, 2, 1)),
        ((1, 3, 9, 20, 17), (0, 4, 3, 2, 1), (2, 1, 1)),  # and interleaves the channels
        ((2, 5, 31, 23), (0, 3, 2, 1), (3, 2, 1, 2)),
    ):
        n = len(full) - 2
        plain = odd_numbers(rng, full) if odd else plain_numbers(rng, np.dtype("f4"), full)
        x = np.ascontiguousarray(plain.transpose(order)).transpose(np.argsort(order))
        values = vectorised.max_pool(plain, n, *arguments)[0]
        ways.clear()
        assert bits(POOL[n](x, *arguments, num_threads=threads)) == bits(values)
        assert [way & ~_pool.STACKED for way in ways] == [FILTERED]


@pytest.mark.parametrize("size", [(9, 9), (3, 40)])
@pytest.mark.parametrize("shape", [(3000, 3001), (50000, 200)])
def test_large_results_are_those_of_parts(rng, ways, shape, size):
    """Blocks with a NaN are pooled again where they were."""
    x = rng.random((1, *shape), dtype=np.float32)
    x[0, 45, 60] = np.nan
    whole = cu.max_pool2d(x, size, 1, num_threads=1)
    assert ways[-1] == FILTERED
    for rows in (slice(0, 60), slice(shape[0] - 100, shape[0])):
        part = cu.max_pool2d(x[:, rows], size, 1)
        assert np.array_equal(whole[:, rows.start : rows.start + part.shape[1]], part, equal_nan=True)
