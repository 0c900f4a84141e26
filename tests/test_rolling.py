"""Rolling stripes: windows of 3 x 3 to 7 x 7 in contiguous planes, beside a plain implementation."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import vectorised
from cases import INTEGERS, at_the_beginning_of_memory, at_the_end_of_memory, bits, random_numbers

import cunpool as cu
from cunpool._kernels import pool as _pool

TYPES = ["f4", "f8", "u1", "i1", "f2", ml_dtypes.bfloat16]
# Kernel size, stride, padding, dilation, ceil_mode.
WINDOWS = [
    (3, 2, 1),
    (3, 1, 1),
    (3, 2),
    (3, 1),
    (3, 2, 0, 1, True),
    (3, 2, 1, 1, True),
    (3, 1, (0, 1)),
    (3, 2, (1, 0)),
    (3, 1, ((0, 2), (2, 1))),
    (3, 2, ((2, 1), (2, 2))),
]
# The same for values alone; and how many windows of a row are over the edge where that matters.
VALUES = [
    *WINDOWS,
    (5, 1, 2),
    (7, 1, 3),
    (5, 1),
    (7, 1),
    (5, 1, ((4, 0), (0, 4))),
    (7, 1, ((0, 3), (3, 1))),
]
FORMS = [{}, {"index_dtype": np.int32}, {"index_format": "window"}]
# Windows of a row around vectors of 4, 8, 16, 32 and 64 lanes.
WIDTHS = [3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 34, 47, 63, 64, 65, 66, 67, 97, 127, 129, 130, 193, 259]


def expected(x, window):
    """Values and indices in each form, which follow from those in the plane."""
    values, indices = vectorised.max_pool(x, 2, *window)
    sizes = dict(zip(("kernel_size", "stride", "padding", "dilation"), window, strict=False))
    codes = cu.convert_indices(indices, "plane", "window", input_size=x.shape[2:], **sizes)
    return [(form, (values, codes if "index_format" in form else indices.astype(form.get("index_dtype", np.int64))))
            for form in FORMS]  # fmt: skip


def check(x, window, **arguments):
    """Values and indices in each form."""
    for form, arrays in expected(x, window):
        result = cu.max_pool2d(x, *window, return_indices=True, **form, **arguments)
        assert [*map(bits, result)] == [*map(bits, arrays)], (x.shape, form)


def check_values(x, window, **arguments):
    values = vectorised.max_pool(x, 2, *window)[0]
    assert bits(cu.max_pool2d(x, *window, **arguments)) == bits(values), x.shape


def is_float(dtype):
    return np.dtype(dtype) not in INTEGERS


def numbers(rng, dtype, shape, kind):
    """Elements with ties; with zeros of both signs; with the lowest number alone; with a few NaN."""
    x = rng.integers(-2, 3, shape).astype(dtype) if is_float(dtype) else rng.integers(0, 3, shape, dtype)
    if kind == "zeros":
        x[rng.random(shape) < 0.4] = -0.0 if is_float(dtype) else 0
    elif kind == "lowest" and is_float(dtype):
        x[rng.random(shape) < 0.8] = -np.inf
    elif kind == "lowest":
        x[...] = np.iinfo(dtype).min
    elif kind == "nan" and is_float(dtype):
        special = np.array([np.nan, -np.nan, np.inf, -np.inf], dtype)
        x = np.where(rng.random(shape) < 0.02, rng.choice(special, shape), x)
    return x


@pytest.mark.mostly_slow
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("dtype", TYPES)
def test_any_width(rng, ways, dtype, window):
    for width in WIDTHS:
        shape = (1, 1, int(rng.integers(40, 60)), width)
        x = np.concatenate([numbers(rng, dtype, shape, kind) for kind in ("ties", "zeros", "lowest", "nan")], 1)
        ways.clear()
        check(x, window, num_threads=int(rng.integers(1, 4)))
        assert ways == [_pool.ROLLING] * len(FORMS) or width < 8


@pytest.mark.mostly_slow
@pytest.mark.parametrize("window", VALUES, ids=str)
@pytest.mark.parametrize("dtype", TYPES)
def test_values_alone_of_any_width(rng, ways, dtype, window):
    most = 16 // np.dtype(dtype).itemsize  # elements of the shortest vectors
    for width in (width for width in WIDTHS if width >= window[0]):
        shape = (1, 1, int(rng.integers(20, 40)), width)
        x = np.concatenate([numbers(rng, dtype, shape, kind) for kind in ("ties", "zeros", "lowest", "nan")], 1)
        ways.clear()
        check_values(x, window, num_threads=int(rng.integers(1, 4)))
        other = window[1] == 2 or width < 24 or most <= window[0] or (window[0] > 3 and np.dtype(dtype).itemsize == 2)
        assert ways[0] & _pool.ROLLING or other


@pytest.mark.mostly_slow
@pytest.mark.parametrize("window", VALUES[-6:], ids=str)
@pytest.mark.parametrize("dtype", TYPES)
def test_no_value_is_read_or_written_beside_the_arrays(rng, dtype, window):
    for width in (width for width in WIDTHS[:20] if width >= window[0]):
        x = numbers(rng, dtype, (2, 2, int(rng.integers(7, 20)), width), "ties")
        values = vectorised.max_pool(x, 2, *window)[0]
        for moved in (at_the_end_of_memory, at_the_beginning_of_memory):
            out = moved(np.full(values.shape, 1, values.dtype))
            cu.max_pool2d(moved(x), *window, out=out)
            assert bits(out) == bits(values), x.shape


@pytest.mark.mostly_slow
@pytest.mark.parametrize("window", WINDOWS[:4], ids=str)
@pytest.mark.parametrize("dtype", TYPES)
def test_nothing_beside_the_arrays_is_touched(rng, dtype, window):
    for width in WIDTHS[:20]:
        x = numbers(rng, dtype, (2, 2, int(rng.integers(5, 20)), width), "ties")
        for form, arrays in expected(x, window):
            for moved in (at_the_end_of_memory, at_the_beginning_of_memory):
                out = tuple(moved(np.full(array.shape, 1, array.dtype)) for array in arrays)
                cu.max_pool2d(moved(x), *window, return_indices=True, **form, out=out)
                assert [*map(bits, out)] == [*map(bits, arrays)], (x.shape, form)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("window", WINDOWS[:2], ids=str)
def test_planes_that_do_not_follow_each_other(rng, ways, dtype, window):
    whole = numbers(rng, dtype, (4, 6, 21, 30), "nan")
    for x in (whole[::2], whole[:, 1::2], whole[::-1, ::-1], whole.transpose(1, 0, 2, 3)):
        ways.clear()
        check(x, window, num_threads=2)
        assert ways == [_pool.ROLLING] * len(FORMS)


@pytest.mark.parametrize("dtype", TYPES)
def test_results_that_do_not_follow_each_other(rng, dtype):
    """What lies between them stays, even where a row is shorter than a vector."""
    for width in (5, 9, 70):
        x = numbers(rng, dtype, (2, 3, 19, width), "ties")
        for form, arrays in expected(x, (3, 2, 1)):
            room = [np.full((2, 6, *a.shape[2:]), 7, a.dtype) for a in arrays]
            out = tuple(a[:, ::2] for a in room)
            cu.max_pool2d(x, 3, 2, 1, return_indices=True, **form, out=out, num_threads=2)
            assert [*map(bits, out)] == [*map(bits, arrays)], (x.shape, form)
            assert all((a[:, 1::2] == 7).all() for a in room)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("window", WINDOWS[:3], ids=str)
def test_any_number_of_threads(rng, dtype, window):
    for shape in ((1, 1, 200, 37), (5, 7, 9, 9), (1, 3, 40, 1030)):
        x = random_numbers(rng, np.dtype(dtype), shape)
        for form in FORMS:
            one = cu.max_pool2d(x, *window, return_indices=True, **form, num_threads=1)
            for threads in (2, 3, 8):
                many = cu.max_pool2d(x, *window, return_indices=True, **form, num_threads=threads)
                assert [*map(bits, many)] == [*map(bits, one)]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("window", WINDOWS[:2], ids=str)
@pytest.mark.parametrize("shape", [(1, 20, 400, 512), (1, 1, 60, 130_001)], ids=str)
def test_arrays_larger_than_the_caches(rng, ways, dtype, window, shape):
    x = rng.integers(0, 99, shape).astype(dtype)
    check(x, window)
    assert all(way & _pool.ROLLING for way in ways)
    assert len(ways) == len(FORMS)


@pytest.mark.parametrize(
    ("pool", "shape", "window"),
    [
        ("max_pool2d", (1, 2, 9, 40), (3, 3)),
        ("max_pool2d", (1, 2, 9, 40), (3, (1, 2))),
        ("max_pool2d", (1, 2, 9, 40), ((2, 3), 1)),
        ("max_pool2d", (1, 2, 9, 40), (3, 1, 1, 2)),
        ("max_pool2d", (1, 2, 4, 4), (3, 2, 1)),
        ("max_pool1d", (1, 2, 40), (3, 1)),
        ("max_pool3d", (1, 2, 4, 9, 9), (3, 1)),
        ("max_pool3d", (1, 2, 4, 9, 9), ((1, 3, 3), 1)),
    ],
    ids=str,
)
def test_calls_that_other_methods_serve(rng, ways, pool, shape, window):
    getattr(cu, pool)(numbers(rng, "f4", shape, "ties"), *window, return_indices=True)
    assert not ways[0] & _pool.ROLLING


def test_a_stride_along_an_axis_of_one_window_is_unused(rng, ways):
    for shape, stride in (((1, 2, 3, 140), (2**40, 1)), ((1, 2, 140, 3), (2, 2**40))):
        check(numbers(rng, "f4", shape, "ties"), (3, stride))
    assert ways == [_pool.ROLLING] * 2 * len(FORMS)
