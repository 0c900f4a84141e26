"""Minima, and NaN that is omitted: their definitions, their other names and the errors for wrong policies."""

import itertools

import ml_dtypes
import numpy as np
import pytest
import reference
import vectorised
from cases import bits
from instruction_sets import use

import cunpool as cu

DTYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "?", ml_dtypes.bfloat16]
WINDOWS = {
    1: [(2, 2, 0, 1), (3, 2, 1, 1), (9, 1, 4, 1), (3, 1, ((2, 0),), 2)],
    2: [(2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 1), ((5, 4), 3, "same", 1), (7, 1, 3, 1), (2, 1, 0, 3)],
    3: [(2, 2, 0, 1), (3, 2, 1, 1), ((1, 3, 2), 1, 0, (1, 2, 1))],
}
SIZES = {1: [(2, 3, 90), (20, 13)], 2: [(2, 3, 19, 23), (33, 8, 9)], 3: [(2, 6, 7, 9)]}
CALLS = [(n, shape, window) for n in (1, 2, 3) for shape, window in itertools.product(SIZES[n], WINDOWS[n])]


def some_numbers(dtype, shape, nan=0.0):
    """Numbers with many ties, both zeros and infinities, and a share of NaN with payloads of their own."""
    rng = np.random.default_rng(3)
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.choice(np.array([info.min, info.min + 1, 0, 1, 2, info.max], dtype), shape)
    if dtype.kind == "b":
        return rng.random(shape) < 0.8
    x = rng.choice([-np.inf, -2, -1, -0.0, 0.0, 1, 2, np.inf], shape).astype(dtype)
    payload = np.asarray(np.nan, dtype).view(f"u{dtype.itemsize}") + rng.integers(0, 5, shape).astype(
        f"u{dtype.itemsize}"
    )
    return np.where(rng.random(shape) < nan, payload.astype(f"u{dtype.itemsize}").view(dtype), x)


def in_layout(x, layout):
    if layout == "last":
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, -1, 0)), 0, -1)
    return np.asfortranarray(x) if layout == "F" else x


def check(n, x, window, minimum, omit, layout):
    kernel, stride, padding, dilation = window
    values, indices = vectorised.max_pool(x, n, *window, minimum=minimum, omit=omit)
    function = getattr(cu, f"{'min' if minimum else 'max'}_pool{n}d")
    given, policy = in_layout(x, layout), "omit" if omit else "propagate"
    found = function(given, *window, return_indices=True, nan_policy=policy)
    assert bits(found.values) == bits(values)
    assert np.array_equal(found.indices, indices)
    alone = function(given, *window, nan_policy=policy, num_threads=2)
    assert np.array_equal(alone.astype("f8"), values.astype("f8"), equal_nan=True)
    codes = function(given, *window, return_indices=True, nan_policy=policy, index_format="window").indices
    expected = reference.codes(indices, x.shape[-n:], n, kernel, stride, padding, dilation)
    assert np.array_equal(codes, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_minima_are_those_of_the_definition(dtype):
    for layout, (n, shape, window) in zip(itertools.cycle(["C", "F", "last", "C"]), CALLS):
        check(n, some_numbers(dtype, shape, nan=0.05), window, True, False, layout)


@pytest.mark.parametrize("name", ["avx512", "avx2", "portable"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "u1", "i4"])
def test_every_instruction_set_has_the_same_minima(dtype, name, monkeypatch):
    use(name, monkeypatch)
    for layout, (n, shape, window), omit in zip(itertools.cycle(["C", "last", "F"]), CALLS, itertools.cycle([0, 1])):
        check(n, some_numbers(dtype, shape, nan=0.05), window, True, bool(omit), layout)


@pytest.mark.mostly_slow
@pytest.mark.parametrize("minimum", [False, True])
@pytest.mark.parametrize("share", [0.02, 0.5, 0.95])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ml_dtypes.bfloat16], ids=str)
def test_omitted_nan_never_wins_against_a_number(dtype, share, minimum):
    for layout, (n, shape, window) in zip(itertools.cycle(["C", "F", "last"]), CALLS):
        check(n, some_numbers(dtype, shape, nan=share), window, minimum, True, layout)


@pytest.mark.parametrize("name", ["avx512", "avx2", "portable"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("omit", [False, True])
def test_minima_of_finite_floats(dtype, omit, name, monkeypatch):
    """In each instruction set, with and without channels that are neighbours."""
    use(name, monkeypatch)
    x = some_numbers(dtype, (2, 32, 20, 22))
    x = np.where(np.isinf(x), np.copysign(3, x), x).astype(dtype)
    for window, layout in itertools.product(
        [(2, 2, 0, 1), (3, 2, 1, 1), (5, 2, 2, 1), ((1, 2), 2, 0, 1)], ["C", "channels"]
    ):
        given = x if layout == "C" else np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
        for minimum in (False, True):
            check(2, given, window, minimum, omit, "C")


def test_a_window_of_nothing_but_nan_gives_nan_and_its_first_index():
    x = np.array([[np.nan, np.nan, 1, np.nan, -np.inf, np.nan]])
    values, indices = cu.max_pool1d(x, 2, return_indices=True, nan_policy="omit")
    assert np.array_equal(values, [[np.nan, 1, -np.inf]], equal_nan=True)
    assert indices.tolist() == [[0, 2, 4]]
    assert cu.min_pool1d(x, 2, nan_policy="omit")[0, 1:].tolist() == [1, -np.inf]
    assert np.isnan(cu.max_pool1d(x, 2)).all()


@pytest.mark.parametrize("kernel", [2, 3])
@pytest.mark.parametrize("minimum", [False, True])
def test_one_nan_anywhere_in_a_window_across_channels_is_omitted(minimum, kernel):
    """In the first element too, which comparisons in whole vectors never replace if it is NaN."""
    plain = np.random.default_rng(1).random((6, 6, 64), np.float32)
    function = cu.min_pool2d if minimum else cu.max_pool2d
    for h, w in np.ndindex(kernel, kernel):
        x = plain.copy()
        x[h, w, 5] = np.nan
        windows = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), (0, 1))[::kernel, ::kernel]
        expected = np.moveaxis((np.nanmin if minimum else np.nanmax)(windows, (-2, -1)), -1, 0)
        given = np.moveaxis(x, -1, 0)
        values, indices = function(given, kernel, return_indices=True, nan_policy="omit")
        assert np.array_equal(function(given, kernel, nan_policy="omit"), expected)
        assert np.array_equal(values, expected)
        assert np.array_equal(cu.take_at2d(given, indices), expected)


@pytest.mark.parametrize("dtype", [np.int16, bool])
def test_integers_and_bool_accept_both_policies(dtype):
    x = np.arange(12).reshape(1, 3, 4).astype(dtype)
    for function in (cu.max_pool2d, cu.min_pool2d):
        assert np.array_equal(function(x, 2, nan_policy="omit"), function(x, 2, nan_policy="propagate"))


@pytest.mark.parametrize("policy", ["raise", "Omit", None, 0, ["omit"]])
def test_other_policies_are_errors(policy):
    with pytest.raises(ValueError, match=r"^nan_policy must be one of \('propagate', 'omit'\), got "):
        cu.max_pool2d(np.ones((1, 4, 4)), 2, nan_policy=policy)
    with pytest.raises(ValueError, match=r"^nan_policy must be"):
        cu.MinPool2d(2, nan_policy=policy)


@pytest.mark.parametrize("dtype", ["f4", "f2", "i2", "u1", "?"])
def test_a_window_of_nothing_but_padding_has_the_largest_number(dtype):
    x = np.zeros((1, 1), dtype)
    largest = reference.lowest(np.dtype(dtype), True)
    for policy in ("propagate", "omit"):
        values = cu.min_pool1d(x, 2, 1, 1, 2, nan_policy=policy)
        assert values.dtype == x.dtype
        assert values.view(np.uint8).tolist() == np.array([[largest]], dtype).view(np.uint8).tolist()


def test_other_byte_orders_and_out():
    x = some_numbers("f4", (2, 9, 9))
    expected = cu.min_pool2d(x, 3, 1, 1)
    assert np.array_equal(cu.min_pool2d(x.astype(">f4"), 3, 1, 1), expected)
    out = np.empty_like(expected)
    assert cu.min_pool2d(x, 3, 1, 1, out=out) is out
    assert np.array_equal(out, expected)


def test_the_inverse_and_the_gradient_are_those_of_maxima():
    for n in (1, 2, 3):
        assert getattr(cu, f"min_unpool{n}d") is getattr(cu, f"max_unpool{n}d")
        assert getattr(cu, f"min_pool{n}d_backward") is getattr(cu, f"max_pool{n}d_backward")
        assert getattr(cu, f"MinUnpool{n}d") is getattr(cu, f"MaxUnpool{n}d")


@pytest.mark.parametrize("n", [1, 2, 3])
def test_modules_store_the_arguments(n):
    x = some_numbers("f4", (2, *(7,) * n), nan=0.2)
    pool = getattr(cu, f"MinPool{n}d")(3, 2, 1, return_indices=True, nan_policy="omit")
    expected = getattr(cu, f"min_pool{n}d")(x, 3, 2, 1, return_indices=True, nan_policy="omit")
    found = pool(x)
    assert np.array_equal(found.values, expected.values, equal_nan=True)
    assert np.array_equal(found.indices, expected.indices)
    assert repr(pool).startswith(f"MinPool{n}d(kernel_size=3, stride=2, padding=1")
