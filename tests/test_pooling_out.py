"""Results of pooling in given arrays, in int32, and as a named pair."""

from __future__ import annotations

import gc
import pickle
import sys
from multiprocessing import shared_memory

import numpy as np
import pytest
import vectorised
from cases import FLOATS, INTEGERS, OTHER, POOL, bits, channels_last, geometry, layout, lead, random_numbers

import cunpool as cu
from cunpool._kernels import pool as _pool

DTYPES = [*INTEGERS, *FLOATS, *map(np.dtype, ("?", f"{OTHER}f4", f"{OTHER}i2"))]
X = np.arange(32, dtype=np.float32).reshape(2, 4, 4)


def results(shape=(2, 2, 2), values="f4", indices="i8"):
    return np.full(shape, 7, values), np.full(shape, 7, indices)


@pytest.mark.mostly_slow
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_given_arrays_get_what_new_ones_would(rng, n, dtype):
    for _ in range(8):
        arguments, full = geometry(rng, n, most={1: 30, 2: 9, 3: 5}[n])
        plain = random_numbers(rng, dtype.newbyteorder("="), lead(rng) + full)
        values, indices = vectorised.max_pool(plain, n, *arguments)
        x, values = layout(rng, plain.astype(dtype)), values.astype(dtype)
        codes = POOL[n](x, *arguments, return_indices=True, index_format="window")[1]
        for kind, index_format in (("i8", "plane"), ("i4", "plane"), ("u1", "window"), ("u2", "window")):
            expected = (indices if index_format == "plane" else codes).astype(kind)
            out = layout(rng, np.ones_like(values)), layout(rng, np.full_like(expected, 77))
            call = {"return_indices": True, "index_format": index_format}
            for given in (out, (out[0], None), (None, out[1]), (None, None)):
                for array in out:
                    array[...] = 1
                result = POOL[n](x, *arguments, **call, out=given)
                assert bits(result[0]) == bits(values)
                assert [r is g for r, g in zip(result, given, strict=True)] == [g is not None for g in given]
                size = expected if given[1] is not None else codes if index_format == "window" else indices
                assert bits(result[1]) == bits(size)
            if index_format == "plane":
                result = POOL[n](x, *arguments, **call, index_dtype=kind, out=(None, out[1]))
                assert bits(result[1]) == bits(expected)
                assert bits(POOL[n](x, *arguments, **call, index_dtype=kind)[1]) == bits(expected)
        alone = layout(rng, np.ones_like(values))
        assert POOL[n](x, *arguments, out=alone) is alone
        assert bits(alone) == bits(values)
        assert bits(x) == bits(plain.astype(dtype))


@pytest.mark.parametrize("threads", [1, 3])
def test_int32_in_every_way_of_pooling(rng, monkeypatch, threads):
    monkeypatch.setattr("cunpool._threads.GRAIN", 1)  # so that small arrays are split too
    ways = set()

    def watched(*arguments, pool=_pool.pool):
        taken = pool(*arguments)
        ways.add(taken)
        return taken

    monkeypatch.setattr("cunpool.pooling._pool.pool", watched)
    cases = [((3, 5, 16, width), arguments) for width in range(3, 45) for arguments in ((2,), (3, 1), (2, (2, 1)))]
    cases += [((3, 5, 16, 200), (2,)), ((3, 5, 17, 201), (2,)), ((1, 2, 4, 5, 34), (2,)), ((3, 5, 9, 11), (3, 2, 1)),
              ((2, 17, 9, 11), (3, 2, 1)), ((2, 3, 30, 131), (3, 2, 1)), ((2, 3, 12, 13), (7, 2)), ((2, 3, 50), (2,)),
              ((1, 2, 9, 1500), ((2, 2), (1, 2))), ((1, 2, 9, 3000), ((3, 2), (1, 2))),
              ((2, 3, 2, 2), (2, 1, 1, 3))]  # fmt: skip
    for full, arguments in cases:
        n = len(full) - 2
        x = random_numbers(rng, np.dtype("f4"), full)
        last = channels_last(x)
        for laid in (x, last, x[..., ::-1]):
            wide, narrow = (
                POOL[n](laid, *arguments, return_indices=True, index_dtype=kind, num_threads=threads)
                for kind in ("i8", "i4")
            )
            assert bits(narrow.values) == bits(wide.values)
            assert bits(narrow.indices) == bits(wide.indices.astype(np.int32)), (full, arguments)
    for way in (_pool.STACKED, _pool.ACROSS, _pool.LARGE, _pool.WINDOW2, _pool.SEPARATED):
        assert {bool(taken & way) for taken in ways} == {False, True}


@pytest.mark.parametrize("kernel", [2, 3])
def test_int32_past_the_caches(rng, monkeypatch, kernel):
    x = rng.integers(-100, 100, (1, 40, 512, 500)).astype(np.float32)
    wide = cu.max_pool2d(x, kernel, 2, return_indices=True)
    aside = np.zeros(wide.indices.size + 3, np.int32)[3:].reshape(wide.indices.shape)
    for out in (None, (None, aside)):
        result = cu.max_pool2d(x, kernel, 2, return_indices=True, index_dtype=np.int32, out=out)
        assert bits(result.values) == bits(wide.values)
        assert bits(result.indices) == bits(wide.indices.astype(np.int32))


def test_int32_indices_up_to_2_to_the_31():
    plane = np.broadcast_to(np.int8(0), (1, 2**16, 2**15))
    stride = 2**16 - 1, 2**15 - 1
    result = cu.max_pool2d(plane, 1, stride, return_indices=True, index_dtype=np.int32)
    assert result.indices.ravel().tolist() == [0, 2**15 - 1, 2**31 - 2**15, 2**31 - 1]
    # Where a window has no cell at all, its index is no place of the plane, whatever its size.
    nowhere = {"kernel_size": (1, 2), "stride": (2**16 - 1, 2**31), "padding": (0, 1), "dilation": (1, 2**31 - 1)}
    wide = cu.max_pool2d(plane, **nowhere, ceil_mode=True, return_indices=True)
    narrow = cu.max_pool2d(plane, **nowhere, ceil_mode=True, return_indices=True, index_dtype=np.int32)
    assert wide.indices.ravel().tolist() == [2**31 - 2, 2**32 - 2**15 - 2]
    assert narrow.indices.ravel().tolist() == [2**31 - 2, -(2**15) - 2]


def test_int32_beyond_its_range_is_refused_before_anything_is_read():
    # More cells than the machine has memory for: an error that came later would never come.
    for shape in ((1, 2**16, 2**15 + 1), (0, 2**16, 2**15 + 1), (1, 2**31, 2**20)):
        plane = np.broadcast_to(np.int8(0), shape)
        out = np.empty((shape[0], 1, 1), np.int32)
        stride = shape[-2:]
        for keywords in ({"index_dtype": np.int32}, {"out": (None, out)}):
            with pytest.raises(OverflowError, match=r"int32 indices are for at most 2\*\*31 elements, got"):
                cu.max_pool2d(plane, 1, stride, return_indices=True, **keywords)
        assert cu.max_pool2d(plane, 1, stride, return_indices=True).indices.tolist() == [[[0]]][: shape[0]]
        assert cu.max_pool2d(plane, 1, stride, index_dtype=np.int32).shape == out.shape  # nobody wants any
        codes = cu.max_pool2d(plane, 1, stride, return_indices=True, index_format="window").indices
        assert codes.dtype == np.uint8


@pytest.mark.parametrize(
    ("error", "match", "keywords"),
    [
        (ValueError, "one array without return_indices", {"out": results()}),
        (ValueError, "one array without return_indices", {"out": (None, None)}),
        (TypeError, "out must be a numpy array, got list", {"out": results()[0].tolist()}),
        (TypeError, "out must have the dtype of the result, float32, got float64", {"out": results(values="f8")[0]}),
        (TypeError, "dtype of the result", {"out": results(values=f"{OTHER}f4")[0]}),
        (ValueError, "out must have the shape", {"out": results((2, 2, 3))[0]}),
        (ValueError, "out must not overlap itself", {"out": np.lib.stride_tricks.as_strided(
            np.zeros(1, "f4"), (2, 2, 2), (0, 0, 0))}),
        (ValueError, "read-only", {"out": np.broadcast_to(np.float32(0), (2, 2, 2))}),
        (TypeError, "a tuple with return_indices", {"out": results()[0], "return_indices": True}),
        (TypeError, "a tuple with return_indices", {"out": list(results()), "return_indices": True}),
        (ValueError, "two entries with return_indices", {"out": results()[:1], "return_indices": True}),
        (ValueError, "two entries with return_indices", {"out": (*results(), None), "return_indices": True}),
        (TypeError, r"out\[0\] must have the dtype", {"out": results(values="f2"), "return_indices": True}),
        (ValueError, r"out\[0\] must have the shape", {"out": results((2, 2, 1)), "return_indices": True}),
        (ValueError, r"out\[1\] must have the shape", {
            "out": (None, results((2, 4))[1]), "return_indices": True}),
        (ValueError, r"out\[1\] must be writeable", {
            "out": (None, np.broadcast_to(np.int32(0), (2, 2, 2))), "return_indices": True}),
        (TypeError, r"out\[1\] must be a numpy array", {"out": (None, [[1]]), "return_indices": True}),
        *[(TypeError, r"dtype of out\[1\] must be int64 or int32", {
            "out": results(indices=kind), "return_indices": True})
          for kind in ("u8", "f8", "i2", f"{OTHER}i8", f"{OTHER}i4", "u1")],
        *[(TypeError, r"out\[1\] must have the dtype of the result, uint8", {
            "out": results(indices=kind), "return_indices": True, "index_format": "window"})
          for kind in ("i8", "i4", "i1", f"{OTHER}u2")],
        (TypeError, r"out\[1\] must have the dtype of the result, uint16, got uint8", {
            "out": results((2, 1, 1), indices="u1"), "return_indices": True, "index_format": "window",
            "kernel_size": (257, 1), "padding": (128, 0), "stride": 999}),
        (TypeError, r"the result, int32, got int64", {
            "out": results(), "return_indices": True, "index_dtype": np.int32}),
        (TypeError, r"the result, int64, got int32", {
            "out": results(indices="i4"), "return_indices": True, "index_dtype": np.int64}),
        *[(TypeError, "index_dtype must be int64 or int32", {"index_dtype": kind, "return_indices": indices})
          for kind in ("u4", "i2", float, bool, f"{OTHER}i4", object, "i4,i4") for indices in (False, True)],
        (TypeError, None, {"index_dtype": "nonsense"}),
        *[(TypeError, "plane indices", {"index_format": "window", "return_indices": True, "index_dtype": kind})
          for kind in (np.int32, np.uint8)],
        (TypeError, "index_dtype must be int64 or int32", {"index_format": "window", "index_dtype": np.uint8}),
    ],
    ids=lambda value: None if isinstance(value, dict) else str(value),
)  # fmt: skip
def test_what_is_refused(error, match, keywords):
    out = keywords.get("out")
    before = [a if a is None else np.array(a) for a in (out if isinstance(out, tuple) else [out])]
    with pytest.raises(error, match=match):
        cu.max_pool2d(X, **{"kernel_size": 2, **keywords})
    for array, old in zip(out if isinstance(out, tuple) else [out], before, strict=True):
        assert array is None or np.array_equal(array, old)


def test_masked_arrays_are_no_place_for_results():
    masked = np.ma.masked_array(results()[0], mask=True)
    for out, keywords in ((masked, {}), ((masked, None), {"return_indices": True})):
        with pytest.raises(TypeError, match="must not be a masked array"):
            cu.max_pool2d(X, 2, out=out, **keywords)


def test_out_that_overlaps_the_input(rng):
    for dtype in ("f4", "i8", f"{OTHER}f8", "?"):
        # More than is packed at once: whoever reads it all before the first result is written may overwrite it.
        plain = random_numbers(rng, np.dtype(dtype).newbyteorder("="), (2, 900, 60)).astype(dtype)
        expected = cu.max_pool2d(plain, 1, return_indices=True)
        for back in (slice(None), slice(None, None, -1)):
            x = plain.copy()
            assert cu.max_pool2d(x, 1, out=x[:, back]).base is x
            assert bits(x[:, back]) == bits(expected.values)
    # Indices over the cells that they name, and over the values besides.
    plain = rng.integers(-99, 99, (2, 60, 60))
    expected = cu.max_pool2d(plain, 3, 1, return_indices=True)
    for start in (0, 1, 900):
        x = np.zeros(9000, np.int64)
        cells = x[:7200].reshape(2, 60, 60)
        cells[...] = plain
        out = np.full((2, 58, 58), 7), x[start : start + 6728].reshape(2, 58, 58)
        assert list(map(bits, cu.max_pool2d(cells, 3, 1, return_indices=True, out=out))) == list(map(bits, expected))
        cells[...] = plain
        out = out[::-1]
        assert list(map(bits, cu.max_pool2d(cells, 3, 1, return_indices=True, out=out))) == list(map(bits, expected))


def test_outs_that_overlap_each_other():
    room = np.zeros(40, np.int64)
    x = X.astype(np.int64)
    for start in (0, 1, 7):
        out = room[:8].reshape(2, 2, 2), room[start : start + 8].reshape(2, 2, 2)
        for pair in (out, out[::-1]):
            with pytest.raises(ValueError, match="must not overlap in memory"):
                cu.max_pool2d(x, 2, return_indices=True, out=pair)
    with pytest.raises(ValueError, match="must not overlap in memory"):
        cu.max_pool2d(x, 2, return_indices=True, out=(out[0], room[:8].view("i4")[5:13].reshape(2, 2, 2)))
    assert not room.any()
    # Side by side, or in turn, they do not.
    expected = cu.max_pool2d(x, 2, return_indices=True)
    pairs = np.zeros((2, 2, 2), [("values", "i8"), ("indices", "i4")])
    for pair in ((out[0], room[8:16].reshape(2, 2, 2)), (pairs["values"], pairs["indices"])):
        result = cu.max_pool2d(x, 2, return_indices=True, out=pair)
        assert np.array_equal(result, expected)


def test_memory_of_all_sorts(tmp_path):
    expected = cu.max_pool2d(X, 2, return_indices=True)
    files = [
        np.memmap(tmp_path / name, kind, "w+", shape=(2, 2, 2)) for name, kind in (("values", "f4"), ("indices", "i4"))
    ]
    result = cu.max_pool2d(X, 2, return_indices=True, out=tuple(files))
    assert [a is b for a, b in zip(result, files, strict=True)] == [True, True]
    for file in files:
        file.flush()
    assert np.array_equal(np.fromfile(tmp_path / "values", "f4"), expected.values.ravel())
    assert np.array_equal(np.fromfile(tmp_path / "indices", "i4"), expected.indices.ravel())
    with pytest.raises(ValueError, match="read-only"):
        cu.max_pool2d(X, 2, out=np.memmap(tmp_path / "values", "f4", "r", shape=(2, 2, 2)))
    shared = shared_memory.SharedMemory(create=True, size=64)
    try:
        out = np.ndarray((2, 2, 2), "f4", shared.buf)
        cu.max_pool2d(X, 2, out=out)
        assert np.array_equal(out, expected.values)
        del out
    finally:
        shared.close()
        shared.unlink()


@pytest.mark.parametrize("shape", [(0, 3, 4, 4), (2, 0, 4, 4), (0, 4, 4)])
def test_no_planes(shape):
    out = np.empty((*shape[:-2], 2, 2), np.float32), np.empty((*shape[:-2], 2, 2), np.int32)
    result = cu.max_pool2d(np.zeros(shape, np.float32), 2, return_indices=True, out=out)
    assert result.values is out[0]
    assert result.indices is out[1]
    assert cu.max_pool2d(np.zeros(shape, np.float32), 2, return_indices=True, index_dtype="i4")[1].dtype == np.int32
    with pytest.raises(ValueError, match="must have the shape"):
        cu.max_pool2d(np.zeros(shape, np.float32), 2, out=np.empty((1, 2, 2), np.float32))


def test_given_arrays_at_any_thread_count(rng):
    x = random_numbers(rng, np.dtype("f4"), (1, 64, 128, 130))
    expected = cu.max_pool2d(x, 3, 2, 1, return_indices=True, num_threads=1)
    for threads in (1, 2, 5):
        out = np.empty_like(expected.values), np.empty(expected.indices.shape, np.int32)
        result = cu.max_pool2d(x, 3, 2, 1, return_indices=True, out=out, num_threads=threads)
        assert bits(result.values) == bits(expected.values)
        assert bits(result.indices) == bits(expected.indices.astype(np.int32))


def test_masks(rng):
    mask = rng.random((3, 20, 22)) < 0.15
    values, indices = cu.max_pool2d(mask, 2, return_indices=True)
    windows = mask.reshape(3, 10, 2, 11, 2)
    assert values.dtype == bool
    assert np.array_equal(values, windows.any((2, 4)))
    first = windows.transpose(0, 1, 3, 2, 4).reshape(3, 10, 11, 4).argmax(-1)
    codes = cu.max_pool2d(mask, 2, return_indices=True, index_format="window").indices
    assert np.array_equal(codes, first)
    assert np.array_equal(np.take_along_axis(mask.reshape(3, -1), indices.reshape(3, -1), 1), values.reshape(3, -1))
    back = cu.max_unpool2d(values, indices, 2)
    assert back.dtype == bool
    assert back.sum() == values.sum()
    assert not (back & ~mask).any()
    out = np.ones((3, 10, 11), bool)
    assert cu.max_pool2d(mask, 2, out=out) is out
    assert np.array_equal(out, values)
    with pytest.raises(TypeError, match="dtype of the result, bool, got uint8"):
        cu.max_pool2d(mask, 2, out=out.view(np.uint8))


def test_the_pair_is_named():
    result = cu.max_pool2d(X, 2, return_indices=True)
    values, indices = result
    assert isinstance(result, tuple)
    assert result.values is values is result[0]
    assert result.indices is indices is result[1]
    assert repr(result).startswith("MaxPoolResult(values=array([[[")
    assert result._replace(indices=None).values is values
    with pytest.raises(TypeError, match="unhashable"):
        hash(result)
    again = pickle.loads(pickle.dumps(result))
    assert type(again) is type(result)
    assert list(map(bits, again)) == [bits(values), bits(indices)]
    assert gc.is_tracked(result)
    if hasattr(sys, "getrefcount"):
        count = sys.getrefcount(values)
        copies = [cu.max_pool2d(X, 2, return_indices=True, out=result) for _ in range(100)]
        assert sys.getrefcount(values) == count + 100
        del copies
        assert sys.getrefcount(values) == count
    # What it gave before is a place for what it gives next.
    assert cu.max_pool2d(-X, 2, return_indices=True, out=result).values is values
    assert values[0, 0, 0] == 0


def test_an_out_that_does_not_fit_an_input_in_another_byte_order():
    x = np.arange(16, dtype=np.dtype("f4").newbyteorder()).reshape(1, 4, 4)
    with pytest.raises(TypeError, match="out must have the dtype of the result"):
        cu.max_pool2d(x, 2, out=np.empty((1, 2, 2), "f8"))
    with pytest.raises(ValueError, match="out must have the shape of the result"):
        cu.max_pool2d(x, 2, out=np.empty((3, 2, 2), x.dtype))
