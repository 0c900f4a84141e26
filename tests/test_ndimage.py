"""The filters under SciPy's names, beside their definition and beside SciPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from ndimage_reference import extremes

from cunpool import ndimage

MODES = ["reflect", "constant", "nearest", "mirror", "wrap"]
DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "bfloat16"]
FILTERS = {False: ndimage.maximum_filter, True: ndimage.minimum_filter}


def dtype_of(name):
    if name == "bfloat16":
        return pytest.importorskip("ml_dtypes").bfloat16
    return np.dtype(name)


def numbers(rng, shape, name, span=9):
    """Few different values, so that many are equal, and negative ones where the dtype has them."""
    values = rng.integers(0, span, shape)
    if name not in ("?",) and not name.startswith("u"):
        values -= span // 2
    return values.astype(dtype_of(name))


def check(x, footprint, modes, cval, origins, is_minimum, found, indices):
    values, places = extremes(x, footprint, modes, cval, origins, is_minimum)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found.astype(values.dtype), values)
    np.testing.assert_array_equal(indices, places)
    assert indices.dtype == np.int64


@pytest.mark.parametrize("is_minimum", [False, True], ids=["max", "min"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", range(1, 32))
def test_sizes_and_origins_along_one_axis(rng, size, mode, is_minimum):
    function = ndimage.minimum_filter1d if is_minimum else ndimage.maximum_filter1d
    for length, origin in itertools.product((1, 2, 9, 40), {-(size // 2), 0, (size - 1) // 2}):
        x = numbers(rng, (length,), "i4")
        values, indices = function(x, size, mode=mode, cval=3, origin=origin, return_indices=True)
        check(x, np.ones(size, bool), [mode], 3, [origin], is_minimum, values, indices)
        np.testing.assert_array_equal(function(x, size, mode=mode, cval=3, origin=origin), values)


def random_call(rng, dtype):
    ndim = int(rng.integers(1, 6))
    shape = tuple(rng.integers(1, (0, 40, 12, 8, 6, 4)[ndim], ndim))
    x = numbers(rng, shape, dtype)
    sizes = [int(size) for size in rng.integers(1, (0, 31, 9, 6, 4, 4)[ndim], ndim)]
    origins = [int(rng.integers(-(size // 2), (size - 1) // 2 + 1)) for size in sizes]
    return x, sizes, origins, float(rng.integers(0, 5))


@pytest.mark.parametrize("is_minimum", [False, True], ids=["max", "min"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_random_rectangles(rng, dtype, is_minimum):
    for _ in range(40):
        x, sizes, origins, cval = random_call(rng, dtype)
        cval = min(cval, 1) if dtype == "?" else cval
        modes = [str(mode) for mode in rng.choice(MODES, x.ndim)]
        options = {"size": sizes, "mode": modes, "cval": cval, "origin": origins}
        values, indices = FILTERS[is_minimum](x, **options, return_indices=True)
        assert values.dtype == x.dtype
        check(x, np.ones(sizes, bool), modes, cval, origins, is_minimum, values, indices)
        np.testing.assert_array_equal(FILTERS[is_minimum](x, **options), values)


@pytest.mark.parametrize("is_minimum", [False, True], ids=["max", "min"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_random_footprints(rng, dtype, is_minimum):
    for _ in range(40):
        x, sizes, origins, cval = random_call(rng, dtype)
        cval = min(cval, 1) if dtype == "?" else cval
        footprint = rng.random(sizes) < rng.choice([0.2, 0.5, 0.9])
        footprint.flat[rng.integers(footprint.size)] = True
        mode = str(rng.choice(MODES))
        options = {"footprint": footprint, "mode": mode, "cval": cval, "origin": origins}
        values, indices = FILTERS[is_minimum](x, **options, return_indices=True)
        check(x, footprint, [mode] * x.ndim, cval, origins, is_minimum, values, indices)
        np.testing.assert_array_equal(FILTERS[is_minimum](x, **options), values)
