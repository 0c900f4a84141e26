"""Unpooling onto a value or onto another array, in place of zeros, beside the definition."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
import reference
from cases import MOVED, OTHER, UNPOOL, bits, channels_last, layout, random_items

import cunpool as cu

ADAPTIVE = {n: getattr(cu, f"adaptive_max_unpool{n}d") for n in (1, 2, 3)}
BACKWARD = {n: getattr(cu, f"max_unpool{n}d_backward") for n in (1, 2, 3)}
ADAPTIVE_BACKWARD = {n: getattr(cu, f"adaptive_max_unpool{n}d_backward") for n in (1, 2, 3)}
SIZES = {1: ((40,), (3,)), 2: ((9, 12), (3, 4)), 3: ((6, 4, 6), (2, 2, 2))}


def random_call(rng, n, dtype, windows):
    """Values, indices, a kernel, and an array of the output's size. Windows lie side by side and overlap the end."""
    full, kernel = SIZES[n]
    pooled = tuple(-(-size // k) for size, k in zip(full, kernel, strict=True))
    lead = tuple(rng.integers(1, 20, int(rng.integers(1, 3))).tolist())
    if windows:
        at = [
            np.minimum(np.arange(count) * k + rng.integers(0, k, lead + pooled).swapaxes(axis - n, -1), size - 1)
            .swapaxes(axis - n, -1)
            for axis, (count, k, size) in enumerate(zip(pooled, kernel, full, strict=True))
        ]  # fmt: skip
        indices = np.ravel_multi_index(at, full)
    else:
        indices = rng.integers(0, int(np.prod(full)), lead + pooled)
    values, onto = random_items(rng, dtype, lead + pooled), random_items(rng, dtype, lead + full)
    return layout(rng, values), layout(rng, indices), kernel, layout(rng, onto)


@pytest.mark.parametrize("dtype", MOVED, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_an_array_below_the_maxima(rng, n, dtype):
    for windows in (True, False, True):
        values, indices, kernel, onto = random_call(rng, n, dtype, windows)
        before = bits(onto)
        expected = bits(reference.max_unpool(values, indices, n, onto.shape[-n:], onto))
        threads = int(rng.integers(1, 4))
        assert bits(UNPOOL[n](values, indices, kernel, onto=onto, num_threads=threads)) == expected
        assert bits(ADAPTIVE[n](values, indices, onto=onto, num_threads=threads)) == expected
        out = layout(rng, random_items(rng, dtype, onto.shape))
        assert UNPOOL[n](values, indices, kernel, onto=onto, out=out) is out
        assert bits(out) == expected
        assert bits(onto) == before
        assert ADAPTIVE[n](values, indices, onto=onto, out=onto) is onto
        assert bits(onto) == expected
        if windows:
            codes = reference.codes(indices, onto.shape[-n:], n, kernel)
            result = UNPOOL[n](values, codes, kernel, onto=onto, out=onto[:], index_format="window")
            assert bits(onto) == bits(result) == expected


@pytest.mark.parametrize("dtype", MOVED, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_value_below_the_maxima(rng, n, dtype):
    for windows in (True, False):
        values, indices, kernel, onto = random_call(rng, n, dtype, windows)
        fill_value = onto[(slice(1),) * onto.ndim].reshape(())  # a scalar of float128 would lose some bits
        onto[...] = fill_value
        expected = bits(reference.max_unpool(values, indices, n, onto.shape[-n:], onto))
        size = onto.shape
        assert bits(UNPOOL[n](values, indices, kernel, None, 0, size, fill_value=fill_value)) == expected
        assert bits(ADAPTIVE[n](values, indices, size, fill_value=fill_value, num_threads=2)) == expected
        out = layout(rng, random_items(rng, dtype, onto.shape))
        UNPOOL[n](values, indices, kernel, None, 0, size, fill_value=fill_value, out=out)
        assert bits(out) == expected


@pytest.mark.mostly_slow
@pytest.mark.parametrize("kernel", [2, 3])
@pytest.mark.parametrize("order", ["C", "F", "last", "sliced"])
@pytest.mark.parametrize("shape", [(2, 20, 40, 52), (1, 1, 300, 500), (3, 2, 90, 110)])
def test_one_answer_at_any_thread_count_and_in_any_layout(rng, shape, order, kernel, monkeypatch):
    monkeypatch.setattr("cunpool._threads.GRAIN", 1)
    laid = {"C": np.ascontiguousarray, "F": np.asfortranarray, "last": channels_last,
            "sliced": lambda a: np.repeat(a, 2, -1)[..., ::2]}[order]  # fmt: skip
    x = laid(rng.integers(0, 50, shape).astype(np.uint16))
    values, indices = cu.max_pool2d(x, kernel, 2, 1, return_indices=True)
    values = laid(rng.integers(100, 999, values.shape).astype(np.uint16))  # those of duplicates differ
    for chosen in (indices, rng.permutation(indices, -2), laid(rng.integers(0, shape[2] * shape[3], indices.shape))):
        flat = x.reshape(*shape[:2], -1).copy()
        for plane in np.ndindex(shape[:2]):
            np.put(flat[plane], chosen[plane], values[plane])  # the last of duplicates stays
        expected = bits(flat.reshape(shape))
        for threads in (1, 2, 3, 8):
            options = {"num_threads": threads}
            result = cu.max_unpool2d(values, chosen, kernel, 2, 1, onto=x, **options)
            assert bits(result) == expected, threads
            assert result.strides == np.empty_like(x).strides
            again = x.copy("K")
            cu.max_unpool2d(values, chosen, kernel, 2, 1, onto=again, out=again, **options)
            assert bits(again) == expected, threads
            for fill_value in (7, 0, 0x0101):
                result = cu.max_unpool2d(values, chosen, kernel, 2, 1, shape, fill_value=fill_value, **options)
                zeros = cu.max_unpool2d(values, chosen, kernel, 2, 1, shape)
                assert bits(result) == bits(np.where(zeros, zeros, np.uint16(fill_value))), threads


def test_arrays_that_share_memory(rng):
    memory = rng.random((3, 12, 12))
    x, values = memory[:, :8, :8].copy(), rng.random((3, 4, 4))
    indices = rng.integers(0, 64, values.shape)
    for onto, out in [
        (memory[:, :8, :8], memory[:, 1:9, :8]),
        (memory[:, :8, :8], memory[:, :8, 7::-1]),
        (memory[:, :8, :8], memory[:, :8, :8].swapaxes(1, 2)),
        (memory[:, :8, :8], memory[:, :8, :8]),
    ]:
        onto[...] = x
        assert cu.max_unpool2d(values, indices, 2, onto=onto, out=out) is out
        assert bits(out) == bits(reference.max_unpool(values, indices, 2, (8, 8), x))
    for apart in (1, 40, -1, -40):  # contiguous arrays, of several planes
        first = max(-apart, 0)
        plain, rest = rng.random((6, 40, 40)), rng.random(9600 + 40)
        onto, out = (rest[at : at + 9600].reshape(6, 40, 40) for at in (first, first + apart))
        onto[...] = plain
        given = rng.random((6, 20, 20)), rng.integers(0, 1600, (6, 20, 20))
        assert bits(cu.max_unpool2d(*given, 2, onto=onto, out=out)) == bits(
            reference.max_unpool(*given, 2, (40, 40), plain)
        )
    memory[:, :8, :8] = x
    part = memory[:, :4, :4]  # the values lie in what they are stored onto
    expected = reference.max_unpool(part, indices, 2, (8, 8), x)
    assert bits(cu.max_unpool2d(part, indices, 2, onto=memory[:, :8, :8], out=memory[:, :8, :8])) == bits(expected)


def test_kinds_of_arrays():
    x = np.arange(4)[None]
    x.flags.writeable = False
    given = [[7]], [[1]], 4
    assert cu.max_unpool1d(*given, onto=x).tolist() == [[0, 7, 2, 3]]
    assert cu.max_unpool1d(*given, onto=[[5, 5, 5, 5]]).tolist() == [[5, 7, 5, 5]]
    assert cu.max_unpool1d(*given, onto=np.broadcast_to(3, (1, 4))).tolist() == [[3, 7, 3, 3]]
    assert cu.max_unpool1d(*given, onto=np.arange(5)[None]).tolist() == [[0, 7, 2, 3, 4]]
    assert cu.MaxUnpool1d(4)([[7]], [[1]], onto=x).tolist() == [[0, 7, 2, 3]]
    assert cu.MaxUnpool1d(4)([[7]], [[1]], fill_value=-1).tolist() == [[-1, 7, -1, -1]]
    assert cu.AdaptiveMaxUnpool1d()([[7]], [[1]], onto=x).tolist() == [[0, 7, 2, 3]]
    assert cu.AdaptiveMaxUnpool1d()([[7]], [[1]], (3,), fill_value=9).tolist() == [[9, 7, 9]]
    none = np.zeros((1, 0)), np.zeros((1, 0), int)
    assert cu.max_unpool1d(*none, 5, 2, fill_value=2).tolist() == [[2, 2, 2]]
    assert cu.max_unpool1d(*none, 5, 2, onto=[[1.0, 2, 3]]).tolist() == [[1, 2, 3]]
    assert cu.max_unpool2d(np.zeros((0, 1, 1)), np.zeros((0, 1, 1), int), 2, onto=np.zeros((0, 2, 2))).shape == (
        0,
        2,
        2,
    )


def test_zeros_take_the_method_for_zeros():
    x = np.random.default_rng(0).random((2, 64, 64))
    given = *cu.max_pool2d(x, 2, return_indices=True), 2
    plan = cu.explain(cu.max_unpool2d, *given, fill_value=0.0)
    assert (plan.method, plan.rejected) == ("fill", ())
    onto = np.ones(x.shape)
    for options in ({"fill_value": -0.0}, {"onto": onto}, {"onto": onto, "out": onto}):
        plan = cu.explain(cu.max_unpool2d, *given, **options)
        assert plan.method == "scatter"
        assert plan.rejected == (("fill", "elements are stored onto a background other than zeros"),)
        assert "elements are stored onto a background other than zeros" in plan.details
    assert onto.all()
    assert np.signbit(cu.max_unpool2d(*given, fill_value=-0.0)).sum() == x.size * 3 // 4


NAT = np.datetime64("NaT")


@pytest.mark.parametrize(
    ("fill_value", "dtype", "expected"),
    [
        (0.1, "f4", np.float32(0.1)),  # rounded
        (np.nan, "f2", np.nan),
        (-np.inf, ml_dtypes.bfloat16, -np.inf),
        (0.3, ml_dtypes.bfloat16, ml_dtypes.bfloat16(0.3)),
        (448, ml_dtypes.float8_e4m3fn, 448),
        (2**70, "f4", np.float32(2**70)),
        (ml_dtypes.bfloat16(2), "i4", 2),
        (True, f"{OTHER}i4", 1),
        (1, "?", True),
        (-1.0, "i1", -1),
        (2**64 - 1, "u8", 2**64 - 1),
        (1j, "F", 1j),
        (3, "D", 3),
        (np.array(5), f"{OTHER}f8", 5),
        (np.datetime64("2026-01-01"), "M8[s]", np.datetime64("2026-01-01")),
        (NAT, "M8[s]", NAT),
    ],
    ids=str,
)
def test_values_that_fit(fill_value, dtype, expected):
    result = cu.max_unpool1d(np.zeros((1, 1), dtype), [[0]], 2, fill_value=fill_value)
    assert result.dtype == dtype
    np.testing.assert_equal(result[0, 1], np.array(expected, dtype)[()])


@pytest.mark.parametrize(
    ("fill_value", "dtype"),
    [
        (1e300, "f4"),
        (70000, "f2"),
        (1e5, ml_dtypes.float8_e4m3fn),
        (10**400, "f8"),
        (10**400, "i8"),
        (-1, "u1"),
        (256, "u1"),
        (1.5, "i4"),
        (np.nan, "i4"),
        (np.inf, "i4"),
        (2.0**63, "i8"),
        (2, "?"),
        (0.5, "?"),
        (1j, "f4"),
        (1j, "i4"),
        (np.timedelta64(1500, "ms"), "m8[s]"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_values_that_do_not_fit(fill_value, dtype):
    values = np.zeros((1, 1), dtype)
    with pytest.raises(ValueError, match=re.escape(f"fill_value must be representable in {values.dtype}, the")):
        cu.max_unpool1d(values, [[0]], 2, fill_value=fill_value)


@pytest.mark.parametrize(
    ("fill_value", "dtype", "message"),
    [
        ("1", "f4", "one number, or one element of float32, got '1'"),
        (np.str_("1"), "f4", "one number"),
        ([1], "f4", "one number"),
        (np.zeros(1), "f4", "one number"),
        (np.array(None), "f4", "one number"),
        (3, "m8[s]", "representable in timedelta64"),
        (np.timedelta64(3, "s"), "i8", "representable in int64"),
        (3, "V8", "representable in"),
        (3, "i4,f4", "representable in"),
    ],
    ids=str,
)
def test_no_values(fill_value, dtype, message):
    with pytest.raises(TypeError, match=message):
        cu.max_unpool1d(np.zeros((1, 1), dtype), [[0]], 2, fill_value=fill_value)


def test_a_value_of_a_structured_dtype():
    values = np.ones((1, 1), "i4,f4")
    result = cu.max_unpool1d(values, [[0]], 2, fill_value=np.array((7, 8), "i4,f4"))
    assert result.tolist() == [[(1, 1.0), (7, 8.0)]]


@pytest.mark.parametrize("unpool", [cu.max_unpool2d, cu.adaptive_max_unpool2d])
def test_arguments_that_do_not_fit(unpool):
    window = (2,) if unpool is cu.max_unpool2d else ()
    given = np.ones((3, 2, 2)), np.zeros((3, 2, 2), int), *window
    onto = np.zeros((3, 4, 4))
    for options in ({"output_size": (4, 4)}, {"fill_value": 0}):
        with pytest.raises(ValueError, match=f"leave out {next(iter(options))}, "):
            unpool(*given, onto=onto, **options)
    with pytest.raises(TypeError, match="onto must have the dtype of input, float64, got float32"):
        unpool(*given, onto=onto.astype("f4"))
    with pytest.raises(TypeError, match="onto must be an array, got str"):
        unpool(*given, onto="zeros")
    for shape in ((2, 4, 4), (1, 3, 4, 4), (3, 3, 4, 4)):
        with pytest.raises(ValueError, match=r"onto must have the N and C of input|must have 2 entries"):
            unpool(*given, onto=np.zeros(shape))
    with pytest.raises(ValueError, match="must have"):
        unpool(*given, onto=np.zeros((4, 4)))
    with pytest.raises(ValueError, match="out must have the shape of the result"):
        unpool(*given, onto=onto, out=np.zeros((3, 4, 5)))
    with pytest.raises(TypeError, match="out must be a numpy array, got list"):
        unpool(*given, onto=onto, out=[])
    with pytest.raises(IndexError, match="index 16 at position"):
        unpool(given[0], given[1] + 16, *window, onto=onto)
    assert not onto.any()


def test_sizes_that_do_not_fit():
    given = np.ones((3, 2, 2)), np.zeros((3, 2, 2), int)
    with pytest.raises(ValueError, match=r"the spatial size of onto must lie within one stride \(2, 2\)"):
        cu.max_unpool2d(*given, 2, onto=np.zeros((3, 4, 6)))
    with pytest.raises(
        TypeError, match="adaptive_max_unpool2d needs output_size, the shape of what was pooled, or onto"
    ):
        cu.adaptive_max_unpool2d(*given)
    x = np.random.default_rng(0).random((1, 15, 15))
    with pytest.raises(IndexError, match=r"in an output of .*15.*: pass onto the shape of what was pooled"):
        cu.max_unpool2d(*cu.max_pool2d(x, 2, return_indices=True), 2, onto=x[:, :14, :14])


@pytest.mark.parametrize("n", [1, 2, 3])
def test_gradients(rng, n):
    for windows in (True, False):
        values, indices, kernel, grad = random_call(rng, n, np.dtype("f8"), windows)
        expected = reference.max_unpool(np.zeros_like(values), indices, n, grad.shape[-n:], grad)
        gathered = bits(BACKWARD[n](grad, indices, kernel))
        formats = {"plane": indices}
        if windows:
            formats["window"] = reference.codes(indices, grad.shape[-n:], n, kernel)
        for index_format, given in formats.items():
            pair = BACKWARD[n](grad, given, kernel, index_format=index_format, onto=True, num_threads=2)
            assert [*map(bits, pair)] == [gathered, bits(expected)]
        pair = ADAPTIVE_BACKWARD[n](grad, indices, onto=True)
        assert [*map(bits, pair)] == [gathered, bits(expected)]
        out = np.empty_like(values), np.empty_like(expected)
        for backward, arguments in ((BACKWARD, (kernel,)), (ADAPTIVE_BACKWARD, ())):
            pair = backward[n](grad, indices, *arguments, onto=True, out=out)
            assert all(a is b for a, b in zip(pair, out, strict=True))
            assert [*map(bits, pair)] == [gathered, bits(expected)]
            pair = backward[n](grad.copy(), indices, *arguments, onto=True, out=(None, out[1]))
            assert pair[1] is out[1]
        before = grad.copy()
        pair = BACKWARD[n](grad, indices, kernel, onto=True, out=(None, grad))
        assert pair[1] is grad
        assert [*map(bits, pair)] == [gathered, bits(expected)]
        grad[...] = before
        assert bits(ADAPTIVE_BACKWARD[n](grad, indices, onto=True, out=(None, grad))[1]) == bits(expected)


def test_gradients_are_that_of_the_sum(rng):
    """d sum(unpool(y, i, onto=x) * g): each element of x counts g where no index points."""
    x, grad = rng.random((1, 6, 6)), rng.random((1, 6, 6))
    y, indices = cu.max_pool2d(x, 2, return_indices=True)
    to_y, to_x = cu.max_unpool2d_backward(grad, indices, 2, onto=True)
    change, other = rng.random(y.shape), rng.random(x.shape)
    difference = cu.max_unpool2d(y + change, indices, 2, onto=x + other) - cu.max_unpool2d(y, indices, 2, onto=x)
    assert np.isclose((difference * grad).sum(), (change * to_y).sum() + (other * to_x).sum())


@pytest.mark.parametrize("backward", [cu.max_unpool2d_backward, cu.adaptive_max_unpool2d_backward])
def test_arrays_for_gradients_that_do_not_fit(backward):
    window = (2,) if backward is cu.max_unpool2d_backward else ()
    given = np.ones((1, 4, 4)), np.zeros((1, 2, 2), int), *window
    small, large = np.zeros((1, 2, 2)), np.zeros((1, 4, 4))
    with pytest.raises(ValueError, match=r"out must be one array without onto=True, got a tuple"):
        backward(*given, out=(small, large))
    with pytest.raises(TypeError, match=r"out must be a tuple of two with onto=True.* got ndarray"):
        backward(*given, onto=True, out=small)
    with pytest.raises(TypeError, match=r"out must be a tuple of two with onto=True.* got 1 entries"):
        backward(*given, onto=True, out=(small,))
    with pytest.raises(ValueError, match=r"out\[1\] must have the shape of the result, \(1, 4, 4\)"):
        backward(*given, onto=True, out=(None, small))
    with pytest.raises(ValueError, match=r"out\[0\] and out\[1\] must not overlap"):
        backward(*given, onto=True, out=(large[:, :2, :2], large))
    with pytest.raises(TypeError, match="onto must be True or False"):
        backward(*given, onto=large)
