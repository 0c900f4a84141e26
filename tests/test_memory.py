from __future__ import annotations

import gc
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import cunpool as cu
from cunpool import _memory

MB = 1 << 20


@pytest.fixture(autouse=True)
def as_before():
    limit = cu.get_cache_limit()
    cu.empty_cache()
    yield
    cu.set_cache_limit(limit)
    cu.empty_cache()


@pytest.fixture
def pooled(rng):
    x = rng.random((1, 16, 256, 256), np.float32)
    return cu.max_pool2d(x, 2, return_indices=True)


def address(array):
    return array.__array_interface__["data"][0]


def test_the_memory_of_a_dropped_result_is_used_again(pooled):
    first = cu.max_unpool2d(*pooled, 2)
    where = address(first)
    assert first.base is None
    assert first.flags.owndata
    del first
    assert _memory.kept_bytes() >= 4 * MB
    again = cu.max_unpool2d(*pooled, 2)
    assert address(again) == where
    assert _memory.kept_bytes() == 0


def test_memory_that_something_can_still_see_is_not(pooled):
    expected = cu.max_unpool2d(*pooled, 2).tobytes()
    views = []
    for _ in range(4):
        result = cu.max_unpool2d(*pooled, 2)
        views.append((result[0, 3], memoryview(result).cast("B"), result.reshape(-1)[::7])[len(views) % 3])
        del result
        gc.collect()
    other = cu.max_unpool2d(pooled[0] + 1, pooled[1], 2)
    whole = np.frombuffer(expected, np.float32).reshape(other.shape)
    assert np.array_equal(views[0], whole[0, 3])
    assert bytes(views[1]) == expected
    assert np.array_equal(views[2], whole.reshape(-1)[::7])
    assert not np.array_equal(other, whole)


def test_no_more_is_kept_than_the_limit(rng, pooled):
    cu.set_cache_limit(10 * MB)
    kept = [cu.max_unpool2d(*pooled, 2) for _ in range(5)]
    kept.clear()
    assert 4 * MB <= _memory.kept_bytes() <= 10 * MB
    cu.set_cache_limit(5 * MB)
    assert _memory.kept_bytes() <= 5 * MB
    cu.empty_cache()
    assert _memory.kept_bytes() == 0
    cu.set_cache_limit(0)
    cu.max_unpool2d(*pooled, 2)
    assert _memory.kept_bytes() == 0


def test_many_sizes_do_not_pile_up(rng):
    cu.set_cache_limit(1 << 40)
    for size in range(600, 700):
        cu.max_unpool1d(np.ones((1, size * 1000), np.float32), np.zeros((1, size * 1000), np.int32), 1)
    assert _memory.kept_bytes() < 64 * 3 * MB + 1


def test_zeros_are_zeros():
    """NumPy's hooks have to be complete, though results are never asked for zeroed."""
    for fill in (1, 2):
        zeros = _memory.empty(np.zeros, (1 << 20,), np.dtype(np.uint8))
        assert not zeros.any()
        zeros.fill(fill)
        del zeros


@pytest.mark.parametrize("bad", [-1, -(2**70)])
def test_a_negative_limit(bad):
    with pytest.raises(ValueError, match="at least 0"):
        cu.set_cache_limit(bad)
    with pytest.raises(TypeError):
        cu.set_cache_limit(1.5)


def test_arrays_are_numpys_own(pooled):
    result = cu.max_unpool2d(*pooled, 2)
    expected = result.copy()
    flat = cu.max_unpool2d(*pooled, 2).reshape(-1)
    del result
    grown = cu.max_unpool2d(*pooled, 2)
    shape = grown.shape
    grown.resize((2, *shape[1:]), refcheck=False)
    assert np.array_equal(grown[:1], expected)
    assert not grown[1].any()
    grown.resize(shape, refcheck=False)
    assert np.array_equal(grown, expected)
    assert np.array_equal(flat, expected.reshape(-1))
    assert np.array_equal(np.array(grown), expected)


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_the_process_does_not_grow(pooled):
    def work(_):
        for _ in range(25):
            z = cu.max_unpool2d(*pooled, 2)
            cu.max_pool2d(z, 2, return_indices=True)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
        before = resident()
        for _ in range(3):
            list(pool.map(work, range(4)))
        assert resident() - before < 16 * MB


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels last"])
@pytest.mark.parametrize("window", [(2,), (3, 2, 1)], ids=str)
def test_no_temporary_of_the_size_of_an_input(rng, last, window):
    x = rng.random((2, 16, 128, 128), np.float32)
    if last:
        x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    values, indices = cu.max_pool2d(x, *window, return_indices=True)
    _, codes = cu.max_pool2d(x, *window, return_indices=True, index_format="window")
    out, grad = np.empty_like(x), np.empty_like(values)
    style, size, half = {"index_format": "window"}, x.shape, indices.nbytes // 2
    calls = [
        (lambda: cu.max_unpool2d(values, indices, *window, output_size=x.shape, out=out), 0),
        (lambda: cu.max_unpool2d(values, indices.astype("i4"), *window, output_size=size, out=out), half),
        (lambda: cu.max_unpool2d(values, codes, *window, output_size=x.shape, out=out, **style), 0),
        (lambda: cu.max_unpool2d(values, indices, *window, output_size=x.shape), x.nbytes),
        (lambda: cu.max_pool2d(x, *window, return_indices=True), values.nbytes + indices.nbytes),
        (lambda: cu.max_pool2d(x, *window, return_indices=True, **style), values.nbytes + codes.nbytes),
        (lambda: cu.max_pool2d_backward(values, indices, x.shape, *window, out=out), 0),
        (lambda: cu.max_unpool2d_backward(x, indices, *window, out=grad), 0),
    ]  # fmt: skip
    for number, (call, expected) in enumerate(calls):
        call()
        tracemalloc.start()
        try:
            call()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < expected + 64 * 1024, number
