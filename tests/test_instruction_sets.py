"""Floats that are compared in the longest vectors, where no NaN is among them: beside what they were before."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import vectorised
from cases import at_the_end_of_memory
from test_pooling_values import bits, channels_last

import cunpool as cu
from cunpool._kernels import pool as _pool

LANES = [16, 8, 0]
MOST = _pool.use_lanes(16)
# Cells that have loops of their own, four and nine, and others, an odd and an even number of them, up to the most.
WINDOWS = [((2, 2),), ((3, 3), 2, 1), ((3, 3), 1, 1), ((1, 2),), ((1, 3), 1, (0, 1)), ((2, 3), (1, 2)), ((5, 5), 2, 2),
           ((4, 8), 1), ((1, 1),), ((2, 2), 2, 0, 2)]  # fmt: skip
FORMATS = [{}, {"index_dtype": np.int32}, {"index_format": "window"}]


@pytest.fixture(params=[np.float32, np.float64])
def dtype(request):
    """Doubles are compared so in windows of 2 alone, but are asked the same."""
    return request.param


@pytest.fixture(params=LANES)
def lanes(request):
    if _pool.use_lanes(request.param) != request.param:
        pytest.skip("this processor, or this compiler, has no such vectors")
    yield request.param
    _pool.use_lanes(MOST)


def everything(x, window):
    """Bits of the values, alone and with their indices, and of these in all formats."""
    pooled = [cu.max_pool2d(x, *window)]
    for arguments in FORMATS:
        pooled += cu.max_pool2d(x, *window, return_indices=True, **arguments)
    return [bits(array) for array in pooled]


def expected(x, window):
    """The same of another implementation; the codes follow from the places."""
    values, indices = vectorised.max_pool(x, 2, *window)
    sizes = dict(zip(("kernel_size", "stride", "padding", "dilation"), window, strict=False))
    codes = cu.convert_indices(indices, "plane", "window", input_size=x.shape[2:], **sizes)
    return [bits(a) for a in (values, values, indices, values, indices.astype(np.int32), values, codes)]


@pytest.mark.slow
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("channels", [1, 3, 16, 17, 31, 32, 48, 64, 100, 300, 513])
def test_any_window_and_number_of_channels(rng, lanes, dtype, channels, window):
    limits = np.finfo(dtype)
    for width in (8, 12, 37):
        x = rng.integers(-2, 3, (1, channels, 9, width)).astype(dtype)
        x[rng.random(x.shape) < 0.1] = -0.0
        special = rng.random(x.shape) < 0.05
        few = np.array([np.inf, limits.smallest_subnormal, limits.max], dtype)
        x[special] = rng.choice([*few, *-few], np.count_nonzero(special))
        for given in (x, channels_last(x)):
            assert everything(given, window) == expected(x, window), width


@pytest.mark.slow
@pytest.mark.parametrize("window", [((2, 2),), ((3, 3), 2, 1), ((2, 3), (1, 2))], ids=str)
@pytest.mark.parametrize("shape", [(1, 2, 6, 40), (1, 40, 6, 7), (1, 96, 4, 5)], ids=str)
def test_a_nan_anywhere_is_seen(lanes, rng, dtype, shape, window):
    x = rng.standard_normal(shape).astype(dtype)
    for cell in range(0, x.size, 7):
        with_nan = x.copy()
        with_nan.flat[cell] = (-np.nan, np.nan)[cell % 2]
        for given in (with_nan, channels_last(with_nan)):
            assert everything(given, window) == expected(with_nan, window), cell


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [(1, 1, 2), (1, 2, 2), (2, 2, 2), (2, 1, 2)], ids=str)
def test_windows_of_two_in_up_to_four_rows(lanes, rng, dtype, kernel):
    """Rows of fewer windows than a vector, of one, of some and a part, and of more than a block's."""
    for width in (4, 6, 14, 15, 16, 17, 30, 32, 33, 46, 64, 66, 130, 1100):
        x = rng.integers(-2, 3, (2, 3, 2 * kernel[0], 3 * kernel[1] + 1, width)).astype(dtype)
        x[rng.random(x.shape) < 0.1] = -0.0
        for cell in (None, 0, x.size - 1, x.size // 2, x.size // 2 + 1):
            if cell is not None:
                x.flat[cell] = np.nan
            at_the_end = at_the_end_of_memory(x)
            for given in (x, at_the_end, at_the_end[..., ::-1, :], x[:, 1:]):
                values, places = vectorised.max_pool(given, 3, kernel)
                assert bits(cu.max_pool3d(given, kernel)) == bits(values), (width, cell)
                for index_dtype in (np.int64, np.int32):
                    pooled = cu.max_pool3d(given, kernel, return_indices=True, index_dtype=index_dtype)
                    assert bits(pooled.values) == bits(values), (width, cell)
                    assert np.array_equal(pooled.indices, places), (width, cell)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(3000, 2, 14), (40, 112, 112), (1, 1, 9_000_000)], ids=str)
def test_windows_of_two_beyond_the_caches(lanes, rng, dtype, size):
    x = rng.standard_normal((1, *size)).astype(dtype)
    x[0, -1, -1, -2] = np.nan
    kernel = (min(size[1], 2), 2)
    values, places = vectorised.max_pool(x, 2, kernel)
    pooled = cu.max_pool2d(x, kernel, return_indices=True)
    assert bits(pooled.values) == bits(values)
    assert np.array_equal(pooled.indices, places)


def test_infinities_of_both_signs_are_no_nan(lanes, dtype):
    """Their sum is one."""
    x = np.zeros((1, 32, 4, 4), dtype)
    x[:, ::2, 0], x[:, ::2, 1], x[:, 1::2, :, 0], x[:, 1::2, :, 1] = np.inf, -np.inf, -np.inf, np.inf
    for given in (x, channels_last(x)):
        for window in (((2, 2),), ((3, 3), 1, 1)):
            assert everything(given, window) == expected(x, window)


def test_places_of_windows_that_are_compared_at_once(lanes, rng, dtype):
    x = rng.standard_normal((1, 16, 4, 30)).astype(dtype)
    for given in (x, channels_last(x)):
        for window in (((2, 2),), ((3, 3), 2), ((2, 2), (1, 3))):
            assert everything(given, window) == expected(x, window)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "feenableexcept"), reason="no such function here")
def test_sums_that_overflow_trap_nowhere():
    """All numbers are added up, which is nobody's business: also where the process asked for a signal."""
    code = """
import ctypes
import numpy as np, cunpool as cu
large = np.full((1, 4, 8, 64), 3e38, np.float32), np.full((1, 4, 8, 64), 1e308)
both = np.where(np.arange(64) % 2, np.inf, -np.inf) * np.ones((1, 4, 8, 1))
libm = ctypes.CDLL(None)
libm.feenableexcept(1 | 4 | 8)  # on x86-64: invalid, division by zero, overflow
for window in ((2,), (3, 2, 1)):
    for x in (*large, both, both.astype(np.float32)):
        cu.max_pool2d(x, *window, return_indices=True)
libm.fedisableexcept(1 | 4 | 8)
"""
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(cu.__file__).parent.parent).returncode == 0
