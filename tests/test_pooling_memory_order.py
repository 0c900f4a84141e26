"""Pooling with indices in any memory order: other orders and interleaved channels give the results of C order."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import vectorised
from cases import FLOATS, INTEGERS, POOL, at_the_end_of_memory, bits, random_numbers

import cunpool as cu


def in_order(x, *order):
    """The same elements, with the axes in this order in memory, slowest first."""
    return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))


def every_result(x, *arguments, threads=None):
    """Values with indices of both widths, and with codes, and values alone."""
    pool = POOL[x.ndim - 2]
    results = [*pool(x, *arguments, return_indices=True, num_threads=threads)]
    results += pool(x, *arguments, return_indices=True, index_dtype=np.int32, num_threads=threads)
    results += pool(x, *arguments, return_indices=True, index_format="window", num_threads=threads)
    return [bits(result) for result in (*results, pool(x, *arguments, num_threads=threads))]


# Windows side by side and overlapping, over edges, dilated, and apart; rows longer than a block, and so short that
# several are handled together.
CALLS = [
    ((2, 3, 24, 26), (2,)),
    ((2, 3, 25, 27), (2, 2, 1)),
    ((2, 3, 17, 23), (3, 2, 1)),
    ((2, 3, 30, 11), (3, 1, 1)),
    ((1, 2, 9, 1201), ((2, 3), (1, 2), (1, 0))),
    ((1, 2, 1201, 9), ((3, 2), (2, 1), (0, 1))),
    ((1, 3, 1100, 6), (2, 3)),
    ((2, 3, 40, 30), ((2, 3), (3, 1), 0, (2, 3))),
    ((1, 3, 36, 40), (3,)),
    ((2, 3, 40, 31), ((1, 4), (2, 2))),
    ((1, 2, 4, 700), ((1, 2), 1, 0, (1, 300))),
    ((2, 3, 31, 40), ((4, 1), (1, 5))),
    ((1, 2, 9, 12, 14), (2,)),
    ((1, 2, 8, 7, 9), ((2, 2, 1), (1, 2, 1), (1, 0, 0))),
    ((1, 3, 20, 5, 6), ((3, 1, 2), (2, 1, 1), (1, 0, 1))),
]


@pytest.mark.mostly_slow
@pytest.mark.parametrize("dtype", INTEGERS + FLOATS, ids=str)
@pytest.mark.parametrize(("full", "arguments"), CALLS, ids=str)
def test_rows_along_any_axis(rng, full, arguments, dtype):
    n = len(full) - 2
    x = random_numbers(rng, dtype, full)
    values, indices = vectorised.max_pool(x, n, *arguments)
    plain = every_result(x, *arguments)
    assert plain[:2] == [bits(values), bits(indices)]
    for axis in range(2, n + 1):
        order = [*(other for other in range(n + 2) if other != axis), axis]
        for threads in (1, 3):
            assert every_result(in_order(x, *order), *arguments, threads=threads) == plain


# Planes so large, or so many, that they are interleaved in several parts and lots.
PARTS = [
    ((1, 33, 300, 40), (5, 3, 2)),
    ((2, 20, 90, 10, 30), ((3, 2, 2), 2, 1)),
    ((3, 70, 40, 12), (2, 1)),
    ((2, 40, 130, 60), ((2, 3), (3, 2), 0, (4, 1))),
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["u1", "i2", "e", "f", "d"])
@pytest.mark.parametrize(("full", "arguments"), PARTS, ids=str)
def test_planes_in_parts(rng, full, arguments, dtype, threads):
    n = len(full) - 2
    x = random_numbers(rng, np.dtype(dtype), full)
    expected = [*map(bits, vectorised.max_pool(x, n, *arguments))]
    last = (*range(2, n + 2), 0, 1)
    for given in (x, np.repeat(x, 2, 0)[::2], np.repeat(x, 2, -1)[..., ::2], in_order(x, *last[::-1])):
        results = every_result(given, *arguments, threads=threads)
        assert results[:2] == expected
        assert results == every_result(x, *arguments)


@pytest.mark.slow
@pytest.mark.parametrize("channels", [2, 3, 4, 7, 8, 15, 16])
@pytest.mark.parametrize(("full", "arguments"), CALLS, ids=str)
def test_interleaved_channels(rng, full, arguments, channels):
    """Along the width and along any other axis."""
    n = len(full) - 2
    for dtype in rng.choice(INTEGERS + FLOATS, 3, replace=False):
        x = random_numbers(rng, dtype, (full[0], channels, *full[2:]))
        values, indices = vectorised.max_pool(x, n, *arguments)
        plain = every_result(x, *arguments)
        assert plain[:2] == [bits(values), bits(indices)]
        for axis in range(2, n + 2):
            order = [*(other for other in range(n + 2) if other not in (1, axis)), axis, 1]
            for threads in (1, 3):
                assert every_result(in_order(x, *order), *arguments, threads=threads) == plain


@pytest.mark.parametrize("order", [(0, 1, 3, 2), (0, 2, 3, 1), (0, 3, 2, 1), (0, 1, 2, 3)])
@pytest.mark.parametrize("result", [(0, 1, 3, 2), (0, 2, 3, 1), (0, 3, 2, 1), (0, 1, 2, 3), (3, 2, 1, 0)])
def test_results_in_another_order(rng, order, result):
    """Values and indices each in the order that `out` has, with gaps that stay as they are."""
    plain = rng.integers(-9, 9, (2, 3, 30, 28)).astype("f4")
    x = in_order(plain, *order)
    expected = vectorised.max_pool(plain, 2, 3, 2, 1)
    rooms = [np.full((3, 5, 16, 15), -99, kind) for kind in (np.float32, np.int64)]
    rooms = [in_order(room, *result) for room in rooms]
    other = in_order(np.zeros(expected[0].shape, np.float32), *result)
    cu.max_pool2d(x, 3, 2, 1, return_indices=True, out=tuple(room[:2, :3, :15, :14] for room in rooms))
    assert [bits(room[:2, :3, :15, :14]) for room in rooms] == [*map(bits, expected)]
    assert all((room == -99).sum() == room.size - expected[0].size for room in rooms)
    # One of them by itself in its order.
    values, indices = cu.max_pool2d(x, 3, 2, 1, return_indices=True, out=(other, None))
    assert [bits(values), bits(indices)] == [*map(bits, expected)]


@pytest.mark.parametrize("odd", [np.nan, -np.inf, np.inf, 0.0])
@pytest.mark.parametrize("order", [(0, 1, 3, 2), (0, 3, 2, 1), (0, 2, 3, 1)])
def test_ties_fall_as_in_raster_order(order, odd):
    """Planes of nothing but equal numbers, both zeros, or NaN of several payloads: the first stays, the last NaN."""
    plain = np.full((2, 4, 20, 22), odd, np.float32)
    if odd == 0:
        plain[:, :, ::3, 1::2] = -0.0
    plain.view(np.uint32)[...] += np.arange(plain.size, dtype=np.uint32).reshape(plain.shape) * np.isnan(plain)
    for arguments in ((2,), (3, 2, 1), (3, 1, 1), (2, 3), ((2, 3), 2, 0, 2)):
        expected = vectorised.max_pool(plain, 2, *arguments)
        result = cu.max_pool2d(in_order(plain, *order), *arguments, return_indices=True)
        assert [*map(bits, result)] == [*map(bits, expected)]


@pytest.mark.mostly_slow
@pytest.mark.skipif(sys.platform != "linux", reason="pages are closed by a call of Linux")
@pytest.mark.parametrize("dtype", ["u1", "i2", "f", "d"])
@pytest.mark.parametrize("channels", [1, 2, 3, 5, 8])
def test_nothing_is_looked_at_behind_the_array(rng, dtype, channels):
    """The last cell is the last of its page, and the page behind is closed."""
    for height in (2, 3, 7, 17, 33, 65):
        plain = rng.integers(0, 9, (1, channels, height, 9)).astype(dtype)
        for order in ((0, 1, 3, 2), (0, 2, 3, 1), (0, 3, 2, 1)):
            x = at_the_end_of_memory(np.ascontiguousarray(plain.transpose(order))).transpose(np.argsort(order))
            for arguments in ((2, 2), (2, 1), ((1, 2), 2), (2, 3)):
                result = cu.max_pool2d(x, *arguments, return_indices=True)
                assert [*map(bits, result)] == [*map(bits, vectorised.max_pool(plain, 2, *arguments))]
