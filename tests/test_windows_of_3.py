"""Windows 3 wide without indices, in rows of about a whole number of vectors, in each instruction set."""

from __future__ import annotations

import numpy as np
import pytest
import vectorised
from cases import at_the_beginning_of_memory, at_the_end_of_memory, bits
from test_instruction_sets import simd  # noqa: F401 - a fixture

import cunpool as cu
from cunpool._kernels import pool as _pool

pytestmark = pytest.mark.usefixtures("simd")
FILTERED = _pool.SEPARATED | _pool.FILTERED
# Around a vector of 8 and one of 16 windows, two of these, and rows of several, with one left and with none.
WIDTHS = [3, 4, 5, 7, 8, 9, 14, 15, 16, 17, 18, 28, 31, 32, 33, 34, 35, 47, 48, 49, 64, 65, 66, 67, 96, 130]
WINDOWS = [
    ((3, 3), 1, 1),
    ((3, 3), 2, 1),
    ((3, 3), 1),
    ((3, 3), 2),
    ((3, 3), 2, 1, 1, True),
    ((3, 3), 2, 0, 1, True),
    ((3, 3), (3, 2), 1),
    ((3, 3), (1, 2), (0, 1)),
    ((3, 3), 2, (1, 1), (2, 1)),
    ((2, 3), 1, (0, 1)),
    ((1, 3), 2, (0, 1)),
    ((1, 3), 1),
    ((3, 3), 1, ((0, 2), (2, 1))),
    ((3, 3), 2, ((2, 1), (2, 2))),
    ((3, 3), 2, "same_lower"),
    # And windows that are close to these.
    ((4, 3), 1, (1, 1)),
    ((3, 3), 1, 1, (1, 2)),
    ((3, 3), 3, 1),
    ((3, 4), 2, 1),
    ((3, 3), 1, ((2, 2), (2, 2))),
    ((1, 3), 1, ((0, 0), (0, 2))),
    ((3, 3), 2, ((2, 2), (2, 2)), 1, True),
]


def numbers(rng, shape):
    """Ties of all kinds, zeros of both signs and the lowest number among them; and nothing whose sum may be a NaN."""
    x = rng.integers(-2, 3, shape).astype(np.float32)
    x[rng.random(shape) < 0.2] = -0.0
    x[rng.random(shape) < 0.1] = -np.inf
    return x


def with_large(rng, x):
    """The same with infinities, and numbers whose sum is one."""
    large = rng.choice(np.array([np.inf, np.finfo(np.float32).max], np.float32), x.shape)
    return np.where(rng.random(x.shape) < 0.02, large, x)


def expected(x, n, window):
    return vectorised.max_pool(x, n, *window)[0]


@pytest.mark.slow
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_any_width(rng, ways, window):
    for width in WIDTHS:
        x = numbers(rng, (2, 5, 11, width))
        for given in (x, x[:, :, ::-1], with_large(rng, x)):
            ways.clear()
            assert bits(cu.max_pool2d(given, *window)) == bits(expected(given, 2, window)), width
            assert width < 28 or ways[0] & FILTERED == FILTERED or ways[0] & _pool.ROLLING, width


@pytest.mark.slow
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_a_nan_anywhere(rng, window):
    for width in (40, 49):
        x = numbers(rng, (2, 2, 5, width))
        for cell in range(0, x.size, 3):
            with_nan = x.copy()
            with_nan.flat[cell] = (-np.nan, np.nan)[cell % 2]
            assert bits(cu.max_pool2d(with_nan, *window)) == bits(expected(with_nan, 2, window)), cell


@pytest.mark.mostly_slow
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_nothing_beside_the_array_is_touched(rng, window):
    for width in WIDTHS:
        x = numbers(rng, (1, 3, 9, width))
        values = expected(x, 2, window)
        for moved in (at_the_end_of_memory, at_the_beginning_of_memory):
            out = moved(np.full(values.shape, 7, np.float32))
            cu.max_pool2d(moved(x), *window, out=out)
            assert bits(out) == bits(values), width


@pytest.mark.parametrize("kernel", [(3, 1, 3), (1, 3, 3), (3, 3, 3), (2, 1, 3), (2, 2, 3)], ids=str)
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_volumes(rng, kernel, stride):
    window = kernel, stride, tuple(size // 2 for size in kernel)
    for width in (6, 16, 35):
        x = numbers(rng, (2, 3, 7, 8, width))
        assert bits(cu.max_pool3d(x, *window)) == bits(expected(x, 3, window)), width


@pytest.mark.slow
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [(3, 3), (1, 3)], ids=str)
@pytest.mark.parametrize("shape", [(1, 2300, 2400), (2, 31, 90_001), (440, 112, 113)], ids=str)
@pytest.mark.parametrize("backwards", [False, True])
def test_arrays_beyond_the_caches(rng, ways, shape, kernel, stride, backwards):
    """Rows that run forwards and backwards."""
    x = rng.integers(-99, 99, shape).astype(np.float32)
    window = kernel, stride, (kernel[0] // 2, 1)
    for _ in range(2):
        given = np.ascontiguousarray(x[:, ::-1])[:, ::-1] if backwards else x
        result = cu.max_pool2d(given[None], *window)
        assert ways[-1] & FILTERED == FILTERED or ways[-1] & _pool.ROLLING
        assert given.nbytes + result.nbytes >= 3 << 23
        assert np.array_equal(result, expected(x[None], 2, window), equal_nan=True)
        x[-1, -1, -1] = np.nan


@pytest.mark.parametrize("stride", [1, 2])
def test_lines_of_more_than_a_block(rng, stride):
    x = numbers(rng, (1, 2, 300_001))
    assert bits(cu.max_pool1d(x, 3, stride, 1)) == bits(expected(x, 1, (3, stride, 1)))
    x[0, 1, 200_000] = np.nan
    assert bits(cu.max_pool1d(x, 3, stride, 1)) == bits(expected(x, 1, (3, stride, 1)))
    x = numbers(rng, (1, 1, 70, 5000))
    assert bits(cu.max_pool2d(x, 3, stride, 1)) == bits(expected(x, 2, (3, stride, 1)))


@pytest.mark.parametrize("kernel", [(3, 3), (3, 1), (2, 3), (1, 3)], ids=str)
def test_zeros_of_either_sign_where_another_axis_is_the_width(rng, kernel):
    """There the rows of memory are not those of the raster, in which the first zero stays."""
    for stride in (1, 2):
        x = rng.choice(np.array([-1, -0.0, 0], np.float32), (1, 2, 41, 33)).transpose(0, 1, 3, 2)
        window = kernel, stride, tuple(size // 2 for size in kernel)
        assert bits(cu.max_pool2d(x, *window)) == bits(expected(x, 2, window)), stride
        x = rng.choice(np.array([-1, -0.0, 0], np.float32), (1, 2, 9, 20, 17))
        window = (1, *kernel), stride, (0, *window[2])
        for order in ((0, 1, 2, 4, 3), (0, 1, 4, 3, 2), (0, 1, 3, 4, 2)):
            turned = x.transpose(order)
            assert bits(cu.max_pool3d(turned, *window)) == bits(expected(turned, 3, window)), (order, stride)


def test_a_last_window_that_sees_a_single_cell(rng):
    for width, stride, padding in ((30_000, 30_000, 1), (30_000, 29_999, 0), (41, 40, 1)):
        x = numbers(rng, (1, 1, 40, width))
        window = 3, (1, stride), padding, 1, True
        assert bits(cu.max_pool2d(x, *window)) == bits(expected(x, 2, window)), width


def test_infinities_where_windows_reach_over_an_edge(rng):
    """Their sums with the padding are looked at for a NaN, and found to be none or looked at again."""
    x = np.full((1, 2, 9, 40), np.inf, np.float32)
    for stride in (1, 2):
        assert bits(cu.max_pool2d(x, 3, stride, 1)) == bits(expected(x, 2, (3, stride, 1)))


@pytest.mark.parametrize("stride", [5, 2**40, 2**60])
def test_the_stride_of_single_windows_means_nothing(rng, stride):
    for shape, steps in (((1, 40, 3, 30), (stride, 1)), ((1, 300, 3, 3), stride), ((1, 40, 30, 3), (1, stride))):
        x = numbers(rng, shape)
        window = 3, steps, 1 if stride > 5 else 0
        assert bits(cu.max_pool2d(x, *window)) == bits(expected(x, 2, window)), shape
