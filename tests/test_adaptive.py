"""Adaptive pooling and unpooling beside the definitions, and beside PyTorch where that is installed."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
import reference
from cases import FLOATS, INTEGERS, bits
from fuzzing import right

import cunpool as cu
from cunpool import _geometry, _unequal

POOL, UNPOOL, POOL_BACKWARD, UNPOOL_BACKWARD = (
    {n: getattr(cu, f"adaptive_max_{kind}{n}d{end}") for n in (1, 2, 3)}
    for end in ("", "_backward")
    for kind in ("pool", "unpool")
)


@pytest.mark.mostly_slow
@pytest.mark.parametrize("seed", range(8))
def test_random_calls(seed):
    rng = np.random.default_rng(seed)
    for _ in range(12):
        right.adaptive(rng)


def test_each_dtype(rng):
    for dtype in [*INTEGERS, *FLOATS, np.dtype(bool)]:
        x = rng.integers(0, 5, (2, 3, 11, 7)).astype(dtype)
        values, indices = POOL[2](x, (4, 3), return_indices=True)
        expected = reference.adaptive_max_pool(x, 2, (4, 3))
        assert bits(values) == bits(expected[0])
        assert bits(indices) == bits(expected[1])
        z = UNPOOL[2](values, indices, x.shape)
        assert bits(z) == bits(reference.max_unpool(values, indices, 2, (11, 7)))


@pytest.mark.parametrize(
    ("shape", "pooled"),
    [
        ((2, 3, 1300), (2,)),  # wide windows, one stride apart
        ((2, 3, 1301), (2,)),
        ((1, 2, 2000), (1999,)),  # many windows
        ((2, 3, 1302), (8,)),  # wide windows that do not lie one stride apart
        ((1, 2, 1600), (1203,)),
        ((1, 2, 3, 1100), (2, 7)),
        ((1, 2, 1100, 3), (2, 2)),  # many rows
        ((1, 2, 1103, 3), (10, 2)),
        ((1, 2, 40, 50), (3, 3)),
        ((2, 3, 40, 50), (7, 9)),
        ((1, 1, 30, 31, 8), (2, 2, 3)),
        ((1, 2, 5, 6, 7), (7, 6, 5)),  # more windows than elements on one axis
        ((3, 2, 4, 5), (9, 11)),
        ((1, 2, 1, 6), (5, 6)),  # an axis of one element
        ((1, 600, 5, 5), (2, 2)),  # many channels
        ((1, 600, 5, 6), (3, 4)),
        ((2, 9, 30, 31), (1, 2)),
    ],
)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("lot", [1, 300, _unequal.LOT_ELEMENTS])
def test_wide_and_tall_windows(rng, monkeypatch, shape, pooled, last, lot):
    monkeypatch.setattr(_unequal, "LOT_ELEMENTS", lot)
    n = len(pooled)
    x = rng.integers(0, 50, shape).astype(np.float32)
    x[rng.random(shape) < 0.01] = np.nan
    expected = reference.adaptive_max_pool(x, n, pooled)
    if last:
        x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    for threads in (1, 2):
        values, indices = POOL[n](x, pooled, True, num_threads=threads)
        assert bits(values) == bits(expected[0])
        assert bits(indices) == bits(expected[1])
        assert bits(POOL[n](x, pooled, num_threads=threads)) == bits(expected[0])
        assert (values.strides[1] == 4) == (last and shape[1] > 1)
        z = UNPOOL[n](values, indices, shape, num_threads=threads)
        assert bits(z) == bits(reference.max_unpool(*expected, n, shape[-n:]))
        assert bits(UNPOOL_BACKWARD[n](x, indices, num_threads=threads)) == bits(expected[0])


def test_windows_of_one_size_are_ordinary_pooling(rng):
    x = rng.random((2, 3, 12, 9))
    plan = cu.explain(POOL[2], x, (4, 3))
    assert plan.method == cu.explain(cu.max_pool2d, x, 3).method
    for result, expected in zip(POOL[2](x, (4, 3), True), cu.max_pool2d(x, 3, return_indices=True), strict=True):
        assert bits(result) == bits(expected)


@pytest.mark.parametrize("dtype", ["u1", "i1"])
@pytest.mark.parametrize("size", [20, 2100])  # more than 256 elements, and more than 4 MiB
def test_one_window_of_bytes(rng, dtype, size):
    x = rng.integers(-100 if dtype == "i1" else 0, 100, (1, 2, size, size)).astype(dtype)
    values, indices = cu.adaptive_max_pool2d(x, 1, return_indices=True)
    assert values.ravel().tolist() == x.max((0, 2, 3)).tolist()
    assert indices.ravel().tolist() == x.reshape(2, -1).argmax(1).tolist()


def test_windows_one_stride_apart_are_ordinary_pooling(rng):
    for size, count in itertools.product(range(1, 30), range(1, 40)):
        kernel, stride, padding = _geometry.adaptive_sizes(1, (size,), (count,), True)[8:15:3]
        begins = [i * stride - padding for i in range(count)]
        windows = [(max(begin, 0), min(begin + kernel, size)) for begin in begins]
        assert kernel == 0 or windows == [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
        assert (kernel > 0) == (size % count in (0, count - 1) or size % count == 1 < size)
    for (size, count), window in {(13, 6): (3, 2, 0), (14, 5): (4, 3, 1), (5, 6): (2, 1, 1)}.items():
        x = rng.random((2, 3, size, size))
        assert cu.explain(POOL[2], x, count).method == cu.explain(cu.max_pool2d, x, *window).method
        expected = cu.max_pool2d(x, *window, return_indices=True)
        for result, right_one in zip(POOL[2](x, count, True), expected, strict=True):
            assert bits(result) == bits(right_one)


def test_explained(rng, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(np, "take", None)  # no element is read
        plan = cu.explain(POOL[2], rng.random((2, 3, 12, 13)), 5, return_indices=True)
    assert plan.method in ("separable", "interleaved")
    assert plan.details[0] == (
        "windows of unequal sizes are copied to adjacent ones of one size, in lots (../_unequal.py: pool); "
        "this plan is for the first 150"
    )
    assert plan.scratch_bytes > 2 * 3 * (5 * 4) * (5 * 4) * 8
    module = cu.AdaptiveMaxPool2d(5)
    assert cu.explain(module, rng.random((2, 3, 12, 9))).details[0] == plan.details[0]
    assert not any("unequal" in detail for detail in cu.explain(POOL[2], rng.random((2, 3, 12, 9)), 3).details)
    monkeypatch.setattr(_unequal, "LOT_ELEMENTS", 1)
    assert cu.explain(module, rng.random((2, 3, 12, 9))).details[0] == (
        "windows of unequal sizes are pooled one after the other (../_unequal.py: pool); this plan is for the first 1"
    )
    POOL[2](rng.random((2, 3, 12, 13)), 5)  # the next call runs again
    assert cu.explain(UNPOOL[1], np.ones((1, 5)), np.ones((1, 5), int), (12,)).method == "scatter"


def test_none_is_the_size_of_the_input(rng):
    x = rng.random((2, 5, 7))
    assert POOL[2](x, (None, 3)).shape == (2, 5, 3)
    assert POOL[2](x, [None, None]).tolist() == x.tolist()
    assert POOL[1](x, [None]).shape == x.shape
    assert POOL[2](x, np.array([2, 3])).shape == (2, 2, 3)
    assert cu.AdaptiveMaxPool2d((None, 3))(x).shape == (2, 5, 3)


@pytest.mark.parametrize("order", ["C", "last", "F", "gaps", "between"])
def test_lots_of_any_size_give_the_same(rng, monkeypatch, order):
    x = rng.integers(0, 50, (4, 5, 8, 9, 11)).astype(np.float16)
    x[rng.random(x.shape) < 0.1] = np.nan
    axes = {"last": [0, 2, 3, 4, 1], "F": [4, 3, 2, 1, 0], "between": [0, 2, 1, 4, 3]}.get(order, range(5))
    x = np.ascontiguousarray(x.transpose(axes)).transpose(np.argsort(axes))
    if order == "gaps":
        x = np.repeat(x, 2, 4)[..., ::-2]
    pooled = 3, 5, 8
    expected = reference.adaptive_max_pool(x, 3, pooled)
    for lot, dtype in itertools.product((1, 7, 40, 100, 900, 3000, 40_000, 1 << 18), (np.int32, np.int64)):
        monkeypatch.setattr(_unequal, "LOT_ELEMENTS", lot)
        monkeypatch.setattr(_unequal, "KEPT_ELEMENTS", lot % 41 * 99)
        monkeypatch.setattr(_unequal, "ALONE_ROW", 3 - lot % 2)
        monkeypatch.setattr(_unequal, "ALONE_ELEMENTS", 1 if lot > 800 else 1 << 15)
        values, indices = POOL[3](x, pooled, True, index_dtype=dtype)
        assert bits(values) == bits(expected[0])
        assert bits(indices) == bits(expected[1].astype(dtype))
        out = np.full((*expected[0].shape[::-1],), 7, np.float16).T, np.empty(values.shape, dtype)
        assert POOL[3](x, pooled, True, out=out).indices is out[1]
        assert bits(out[0]) == bits(expected[0])
        assert bits(out[1]) == bits(indices)


@pytest.mark.parametrize("dtype", ["f4", "u1"])
@pytest.mark.parametrize("planes", [20, 21, 64])
def test_large_windows_are_pooled_one_by_one(rng, planes, dtype):
    x = rng.integers(0, 3, (planes, 80, 193)).astype(dtype)  # windows of 40 x 39 elements and more
    values, indices = reference.adaptive_max_pool(x, 2, (2, 5))
    found = cu.adaptive_max_pool2d(x, (2, 5), return_indices=True)
    assert bits(found.values) == bits(values)
    assert bits(found.indices) == bits(indices)
    plan = cu.explain(cu.adaptive_max_pool2d, x, (2, 5), return_indices=True)
    assert any("one after the other" in detail for detail in plan.details) == (planes * 40 * 40 >= 1 << 15)


def test_memory_is_bounded():
    """No array is as large as all windows, and none has an entry for each element of a window."""
    row = (np.arange(1 << 22) % 1009 % 100).astype(np.int8)
    for x, pooled in (
        (row[None], (11,)),  # windows larger than a lot
        (row[None, :3], (1 << 20,)),
        (row.reshape(1, 2048, 2048), (400, 300)),
        (np.broadcast_to(row[:65], (1000, 65, 65)), (40, 40)),
    ):
        cu.empty_cache()
        tracemalloc.start()
        values, indices = POOL[len(pooled)](x, pooled, True)
        peak = tracemalloc.get_traced_memory()[1] - values.nbytes - indices.nbytes
        tracemalloc.stop()
        assert peak < 32 << 20, (x.shape, pooled, peak)
        assert bits(UNPOOL_BACKWARD[len(pooled)](x, indices)) == bits(values)


def test_no_planes_and_no_windows():
    for n in (1, 2, 3):
        size = (7,) * n
        values, indices = POOL[n](np.ones((0, 3, *size)), 3, True)
        assert values.shape == indices.shape == (0, 3, *(3,) * n)
        assert UNPOOL[n](values, indices, size).shape == (0, 3, *size)
        assert UNPOOL_BACKWARD[n](np.ones((0, 3, *size)), indices).shape == values.shape
        values, indices = POOL[n](np.ones((2, 3, *size)), 0, True)
        assert values.shape == indices.shape == (2, 3, *(0,) * n)
        assert not UNPOOL[n](values, indices, size).any()
        assert POOL_BACKWARD[n](values, indices, size).shape == (2, 3, *size)


def test_of_duplicates_the_last_stays_and_gradients_are_added():
    values, indices = np.array([[1.0, 2, 3]]), np.array([[1, 1, 0]])
    assert UNPOOL[1](values, indices, (2,)).tolist() == [[3, 2]]
    assert POOL_BACKWARD[1](values, indices, (2,)).tolist() == [[3, 3]]
    assert POOL_BACKWARD[1](values.astype(">f4"), indices, (2,)).dtype == np.dtype(">f4")
    assert UNPOOL_BACKWARD[1](np.array([[5.0, 6]]), indices).tolist() == [[6, 6, 5]]


def test_out(rng):
    x = rng.random((2, 3, 7, 5)).astype(np.float32)
    values, indices = POOL[2](x, 3, True)
    out = np.empty_like(values), np.empty(values.shape, np.int32)
    result = POOL[2](x, 3, True, out=out)
    assert result.values is out[0]
    assert result.indices is out[1]
    assert np.array_equal(out[1], indices)
    z = np.empty_like(x)
    assert UNPOOL[2](values, indices, x.shape, out=z) is z
    assert np.array_equal(z, UNPOOL[2](values, indices, x.shape))
    assert POOL_BACKWARD[2](values, indices, x.shape, out=z) is z
    assert UNPOOL_BACKWARD[2](x, indices, out=values) is values
    swapped = np.empty(x.shape, ">f4")
    assert POOL_BACKWARD[2](values.astype(">f4"), indices, x.shape, out=swapped) is swapped
    assert np.array_equal(swapped, z)
    with pytest.raises(TypeError, match="out must have the dtype of the result, >f4, got float32"):
        POOL_BACKWARD[2](values.astype(">f4"), indices, x.shape, out=z)


X = np.arange(40.0).reshape(2, 4, 5)
Y, INDICES = cu.adaptive_max_pool2d(X, 3, return_indices=True)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ValueError, "output_size must be at least 0 on every axis, got -1", lambda: POOL[2](X, -1)),
        (ValueError, r"output_size must be an integer or have 2 entries, .*got \(2,\)", lambda: POOL[2](X, (2,))),
        (ValueError, r"output_size must be .*got \(None, 2, 2\)", lambda: POOL[2](X, (None, 2, 2))),
        (TypeError, r"output_size must be an integer or a sequence of integers, got None", lambda: POOL[2](X, None)),
        (TypeError, r"output_size must be an integer, got 2.5", lambda: POOL[2](X, (None, 2.5))),
        (TypeError, "return_indices must be True or False, got 7", lambda: POOL[2](X, 3, 7)),
        (ValueError, "every spatial size of input must be at least 1, got", lambda: POOL[2](X[:, :0], 1)),
        (ValueError, r"input must have 2 or 3 axes", lambda: POOL[1](X[None], 3)),
        (TypeError, "out must be a tuple with return_indices", lambda: POOL[2](X, 3, True, out=Y)),
        (TypeError, "index_dtype must be", lambda: POOL[2](X, 3, True, index_dtype="u1")),
        (OverflowError, r"size \* output_size must be at most 2\*\*60", lambda: POOL[2](X, (1 << 60, 1))),
        (OverflowError, r"less than 2\*\*31 elements", lambda: POOL[1](np.broadcast_to(np.int8(1), (1, 1 << 33)), 3)),
        (IndexError, "index 16 .*; output_size has to be the shape of wh", lambda: UNPOOL[2](Y, INDICES, (3, 5))),
        (IndexError, "index 16 .*; input_size has to be the sh", lambda: POOL_BACKWARD[2](Y, INDICES, (3, 5))),
        (IndexError, "index 16 .* is outside grad_output", lambda: UNPOOL_BACKWARD[2](X[:, 1:], INDICES)),
        (ValueError, r"output_size must have 2 entries, .* or 3, got \(5,\)", lambda: UNPOOL[2](Y, INDICES, (5,))),
        (ValueError, "output_size must be at least 1 on every axis", lambda: UNPOOL[2](Y, INDICES, (0, 5))),
        (TypeError, "output_size must be a sequence of integers, got 5", lambda: UNPOOL[2](Y, INDICES, 5)),
        (ValueError, "input must have 2 or 3 axes", lambda: UNPOOL[1](Y[None], INDICES, (5,))),
        (ValueError, "grad_output must have 2 or 3 axes", lambda: POOL_BACKWARD[1](Y[None], INDICES, (5,))),
        (ValueError, "indices must have the shape of input", lambda: UNPOOL[2](Y, INDICES[1:], X.shape)),
        (TypeError, "look swapped", lambda: UNPOOL[2](INDICES, Y, X.shape)),
        (ValueError, "indices must have the N and C of grad_output", lambda: UNPOOL_BACKWARD[2](X, INDICES[1:])),
        (TypeError, "indices must be of integers, got float64", lambda: UNPOOL_BACKWARD[2](X, Y)),
        (TypeError, "grad_output must be of", lambda: POOL_BACKWARD[2](INDICES, INDICES, X.shape)),
    ],
)  # fmt: skip
def test_errors(error, message, call):
    with pytest.raises(error, match=message):
        call()


def test_modules():
    for n in (1, 2, 3):
        x = np.arange(7.0**n).reshape(1, *(7,) * n)
        pool, unpool = (getattr(cu, f"AdaptiveMax{kind}{n}d") for kind in ("Pool", "Unpool"))
        values, indices = pool(3, True, index_dtype=np.int32)(x)
        assert indices.dtype == np.int32
        assert bits(values) == bits(pool(3)(x)) == bits(POOL[n](x, 3))
        assert bits(unpool()(values, indices, x.shape)) == bits(UNPOOL[n](values, indices, x.shape))
        assert repr(pool(3)) == f"AdaptiveMaxPool{n}d(output_size=3)"
        assert repr(unpool()) == f"AdaptiveMaxUnpool{n}d()"


@pytest.mark.parametrize("n", [1, 2, 3])
def test_results_and_gradients_are_pytorchs(rng, n):
    torch = pytest.importorskip("torch")
    theirs = getattr(torch.nn.functional, f"adaptive_max_pool{n}d")
    for _ in range(60):
        full, pooled = (tuple(rng.integers(1, {1: 60, 2: 20, 3: 9}[n], n).tolist()) for _ in range(2))
        shape = (*rng.integers(1, 4, int(rng.integers(1, 3))).tolist(), *full)
        x = rng.integers(-3, 4, shape).astype(np.float64)
        x[rng.random(shape) < 0.05] = np.nan
        x[rng.random(shape) < rng.random() * 2 - 1] = -np.inf
        values, indices = POOL[n](x, pooled, True)
        leaf = torch.from_numpy(x).requires_grad_()
        expected = theirs(leaf, pooled, return_indices=True)
        assert np.array_equal(values, expected[0].detach().numpy(), equal_nan=True)
        assert np.array_equal(indices, expected[1].numpy())
        grad = rng.integers(-9, 10, values.shape).astype(np.float64)
        expected[0].backward(torch.from_numpy(grad))
        assert np.array_equal(POOL_BACKWARD[n](grad, indices, full), leaf.grad.numpy())
