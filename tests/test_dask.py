from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import os
import pickle
import re
import subprocess
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from cases import POOL, UNPOOL, bits

import cunpool as cu
from cunpool import memory

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")
lazy = importlib.import_module("cunpool.dask")
_blocks = importlib.import_module("cunpool._dask._blocks")
fuzz_dask = importlib.import_module("fuzz_dask")

LAZY_POOL = {n: getattr(lazy, f"max_pool{n}d") for n in (1, 2, 3)}
LAZY_UNPOOL = {n: getattr(lazy, f"max_unpool{n}d") for n in (1, 2, 3)}


@pytest.fixture(autouse=True)
def one_process():
    with dask.config.set(scheduler="synchronous"):
        yield


def nothing_computes():
    """What is called in this context may build graphs and nothing more."""

    def refuse(*args, **kwargs):
        raise AssertionError("computed while the graph was built")

    return dask.config.set(scheduler=refuse)


def check(lazily, expected) -> None:
    """The metadata, without computing; then the blocks themselves; then the whole."""
    assert (lazily.shape, lazily.dtype) == (expected.shape, expected.dtype)
    assert (lazily._meta.ndim, lazily._meta.dtype) == (expected.ndim, expected.dtype)
    starts = [np.cumsum((0, *sizes)) for sizes in lazily.chunks]
    for place in np.ndindex(*lazily.numblocks):
        parts = tuple(slice(s[p], s[p + 1]) for s, p in zip(starts, place, strict=True))
        assert bits(lazily.blocks[place].compute()) == bits(expected[parts])
    assert bits(lazily.compute()) == bits(expected)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("lead", [((2, 2), (3, 3)), ((1, 3), (1, 5)), ((4,), (6,)), ((6,),), ((1, 0, 2), (2,))])
@pytest.mark.parametrize("split", [False, True])
def test_equal_to_numpy(rng, n, lead, split):
    full = (9, 8, 7)[:n]
    x = rng.integers(-5, 5, (*map(sum, lead), *full)).astype(np.float32)
    arguments = {"kernel_size": (3, 2, 3)[:n], "stride": 2, "padding": 1}
    extra = {"dilation": 1, "ceil_mode": True}
    with nothing_computes():
        chunked = da.from_array(x, (*lead, *((3, size - 3) if split else (size,) for size in full)))
        y, indices = LAZY_POOL[n](chunked, **arguments, **extra, return_indices=True)
        alone = LAZY_POOL[n](chunked, **arguments, **extra)
        z = LAZY_UNPOOL[n](y, indices, **arguments, output_size=x.shape if len(lead) == 2 else full)
        whole = dict.fromkeys(range(-n, 0), -1)
        default = LAZY_UNPOOL[n](y.rechunk(whole), indices, **{**arguments, "kernel_size": 3, "stride": (3,) * n})
    y_, indices_ = POOL[n](x, **arguments, **extra, return_indices=True)
    check(y, y_)
    check(alone, y_)
    check(indices, indices_)
    check(z, UNPOOL[n](y_, indices_, **arguments, output_size=full))
    check(default, UNPOOL[n](y_, indices_, 3, 3, 1))
    for result in (y, alone, indices, z, default):
        assert result.chunks[:-n] == lead
        assert result.numblocks[-n:] == (2 if split and result is not default else 1,) * n


@pytest.mark.parametrize("padding", ["same", "same_lower", ((0, 2), (2, 1)), ((4, 0), (0, 4))], ids=str)
@pytest.mark.parametrize("size", [12, 5])
def test_padding_that_differs_at_the_two_ends(rng, padding, size):
    """In chunks of `size`, and so in whole planes too."""
    x = rng.integers(-5, 5, (2, 12, 11)).astype(np.float32)
    window = {"kernel_size": 3, "stride": 2, "padding": padding, "dilation": 2}
    chunked = da.from_array(x, (1, size, size))
    for form in ("plane", "window"):
        y, indices = cu.max_pool2d(x, **window, return_indices=True, index_format=form)
        lazily = lazy.max_pool2d(chunked, **window, return_indices=True, index_format=form)
        for result, expected in zip(lazily, (y, indices), strict=True):
            check(result, expected)
        window["index_format"] = form
        check(lazy.max_unpool2d(*lazily, **window, output_size=x.shape),
              cu.max_unpool2d(y, indices, **window, output_size=x.shape))  # fmt: skip
        check(lazy.max_unpool2d_backward(chunked, lazily[1], **window), cu.max_unpool2d_backward(x, indices, **window))
        check(lazy.max_pool2d_backward(*lazily, x.shape, **window),
              cu.max_pool2d_backward(y, indices, x.shape, **window))  # fmt: skip
        check(lazy.take_at2d(chunked, lazily[1], **window), cu.take_at2d(x, indices, **window))
        del window["index_format"]
    with pytest.raises(ValueError, match="ceil_mode must be False"):
        lazy.max_pool2d(chunked, 3, 2, "same", ceil_mode=True)


def test_a_narrow_block_is_not_taken_for_channels_that_come_last():
    x = da.ones((6, 8, 9), chunks=(6, 8, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lazy.max_pool2d(x, 3, 1).compute(scheduler="synchronous").shape == (6, 6, 7)


def test_minima_and_nan_that_is_left_out(rng):
    x = rng.choice([-1.0, 0, 2, np.nan], (2, 11, 12))
    chunked = da.from_array(x, (1, 4, 5))
    for name in ("max_pool2d", "min_pool2d"):
        for policy in ("propagate", "omit"):
            arguments = {"kernel_size": 3, "stride": 2, "padding": 1, "nan_policy": policy}
            for axis, given, whole in ((None, chunked, x), (-1, da.moveaxis(chunked, 0, -1), np.moveaxis(x, 0, -1))):
                results = getattr(lazy, name)(given, **arguments, return_indices=True, channel_axis=axis)
                expected = getattr(cu, name)(whole, **arguments, return_indices=True, channel_axis=axis)
                for result, right in zip(results, expected, strict=True):
                    check(result, right)
    for n in (1, 3):
        given = rng.random((2, *(9, 8, 7)[:n]))
        minima = getattr(lazy, f"min_pool{n}d")
        y, indices = minima(da.from_array(given, 4), 2, return_indices=True, channel_axis=0)
        check(y, getattr(cu, f"min_pool{n}d")(given, 2))
        check(minima(da.from_array(given, 4), 2), y.compute())
        back = getattr(lazy, f"min_unpool{n}d")(y, indices, 2, output_size=given.shape)
        check(back, np.where(back.compute() == given, given, 0))
    with pytest.raises(ValueError, match="nan_policy must be one of"):
        lazy.max_pool2d(chunked, 2, nan_policy="ignore")


@pytest.mark.parametrize("dtype", ["i1", ">i4", "u8", "f2", "f8", "bfloat16"])
def test_dtypes(rng, dtype):
    import ml_dtypes

    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = rng.integers(0, 100, (4, 2, 6, 6)).astype(dtype)
    y, indices = lazy.max_pool2d(da.from_array(x, (3, 1, 6, 6)), 2, return_indices=True)
    y_, indices_ = cu.max_pool2d(x, 2, return_indices=True)
    check(y, y_)
    check(lazy.max_unpool2d(y, indices.astype(np.uint16), 2), cu.max_unpool2d(y_, indices_, 2))


def test_moved_dtypes(rng):
    indices = rng.permutation(16)[:4].reshape(1, 1, 4)
    for dtype in (bool, "F", "M8[s]", "V8", "i4,f4"):
        values = rng.integers(0, 256, (1, 1, 4, 16), np.uint8)[..., : np.dtype(dtype).itemsize]
        values = (values & 1 if dtype is bool else np.ascontiguousarray(values)).copy().view(dtype)[..., 0]
        check(lazy.max_unpool1d(da.from_array(values), da.from_array(indices), 4), cu.max_unpool1d(values, indices, 4))


def test_numpy_arrays_and_other_chunks_of_indices(rng):
    x = rng.standard_normal((4, 6, 8, 8))
    y, indices = cu.max_pool2d(x, 2, return_indices=True)
    expected = cu.max_unpool2d(y, indices, 2)
    for places in (indices, da.from_array(indices, (1, 3, 2, 4)), da.from_array(indices, (3, 6, 4, 4))):
        z = lazy.max_unpool2d(da.from_array(y, (2, 4, 3, 4)), places, 2)
        assert z.chunks == ((2, 2), (4, 2), (6, 2), (8,))
        check(z, expected)
    check(lazy.max_pool2d(x, 2), y)


@pytest.mark.filterwarnings("ignore:indices of uint8 count to 255:UserWarning")  # some of the random ones lie anywhere
def test_random_chunks_give_what_numpy_gives():
    kinds = [fuzz_dask.run_case(2024, case) for case in range(300)]
    assert {kinds.count(kind.__name__) > 20 for kind in fuzz_dask.KINDS} == {True}


def test_random_chunks_of_expressions():
    command = [sys.executable, fuzz_dask.__file__, "--cases", "100", "--seed", "2025"]
    environment = {**os.environ, "DASK_ARRAY__QUERY_PLANNING": "True"}
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "arrays are dask.array._array_expr" in run.stdout
    assert "100 cases" in run.stdout


def test_one_pooling_for_each_block(rng, monkeypatch):
    calls = []

    def counted(array, **arguments):
        calls.append(arguments["num_threads"])
        return cu.max_pool2d(array, **arguments)

    monkeypatch.setattr("cunpool.pooling.max_pool2d", counted)
    x = da.from_array(rng.standard_normal((6, 2, 8, 8)), (2, 2, 4, 8))
    y, indices = lazy.max_pool2d(x, 2, return_indices=True)
    z = lazy.max_unpool2d(y, indices, 2)
    assert not calls
    dask.compute(y, indices)
    assert calls == [1] * 6
    calls.clear()
    z.compute()
    assert calls == [1] * 6
    calls.clear()
    dask.compute(z, y, indices, lazy.max_unpool2d(y + 1, indices, 2))
    assert calls == [1] * 6
    calls.clear()
    dask.compute(*lazy.max_pool2d(x, 2, return_indices=True, num_threads=2))
    lazy.max_pool2d(x, 2, num_threads=None).compute()
    assert calls == [2] * 6 + [None] * 6


def test_a_block_takes_one_thread_unless_asked():
    """Dask itself computes several blocks at the same time."""
    for name in lazy.__all__:
        assert inspect.signature(getattr(lazy, name)).parameters["num_threads"].default == 1, name


def test_threads_reach_the_kernels(rng, monkeypatch):
    from cunpool import _threads

    asked = []
    before = _threads.threads_for
    monkeypatch.setattr(_threads, "threads_for", lambda work, n: asked.append(n) or before(work, n))
    values, indices = np.ones((1, 1, 2)), np.zeros((1, 1, 2), int)
    lazy.max_unpool1d(values, indices, 2).compute()
    lazy.max_unpool1d(values, indices, 2, num_threads=3).compute()
    assert asked == [1, 1, 3, 3]  # when the graph is built, and for the block


def tasks(*lazily) -> dict[str, int]:
    """How many tasks of which kind there are, as they are before Dask joins some to one."""
    graph = {key: task for array in lazily for key, task in dict(array.__dask_graph__()).items()}
    kinds = [re.findall(r"\w+", str(key[0]).rsplit("-", 1)[0].removeprefix("operator."))[0] for key in graph]
    return {kind: kinds.count(kind) for kind in kinds}


def test_windows_side_by_side_take_a_task_a_chunk_and_one_for_each_result():
    x = da.zeros((1, 64, 64, 64), np.uint8, chunks=(1, 16, 16, 16), name="source-0")
    y, codes = lazy.max_pool3d(x, 2, return_indices=True, index_format="window")
    assert tasks(y, codes) == {"source": 64, "pool": 64, "itemgetter": 128}
    assert tasks(lazy.max_pool3d(x, 2)) == {"source": 64, "pool": 64}
    z = lazy.max_unpool3d(y, codes, 2, index_format="window")
    assert z.chunks == x.chunks
    assert tasks(z) == {**tasks(y, codes), "unpool": 64}
    places = lazy.max_pool3d(x, 2, return_indices=True)[1]
    assert tasks(lazy.max_pool3d_backward(y.astype(float), places, x.shape, 2))["unpool"] == 64
    assert tasks(lazy.max_unpool3d_backward(x, codes, 2, index_format="window")).keys() == {
        "source", "pool", "itemgetter", "unpool_backward"
    }  # fmt: skip


def test_no_more_moves_than_windows_see():
    x = da.zeros((1, 64, 64, 64), np.uint8, chunks=(1, 16, 16, 16), name="source-0")
    y = lazy.max_pool3d(x, 3, 1, 1)
    inner, axis, edges = 3**3, 3 * 3, 3  # chunks with neighbours behind them on all axes, on two, on one
    cut = 7 * inner + 3 * 3 * axis + 3 * edges
    assert tasks(y) == {"source": 64, "cut": cut, "joined": 64, "pool": 64}
    with dask.config.set({"optimization.fuse.active": False}):
        graph = dict(dask.optimize(y)[0].__dask_graph__())
    moved = [key[-6:] for key in graph if str(key[0]).startswith("cut")]
    cells = sorted(int(np.prod([b - a for a, b in zip(key[::2], key[1::2], strict=True)])) for key in moved)
    assert set(cells) == {2**3, 2**2 * 16, 2 * 16**2}
    assert cells.count(2**3) == inner


def test_an_uneven_end_takes_what_is_left_of_its_window():
    x = da.zeros((1, 63 * 3), np.uint8, chunks=(1, 63), name="source-0")
    y = lazy.max_pool1d(x, 2)
    assert y.chunks == ((1,), (32, 31, 31))  # windows belong where they begin
    assert tasks(y) == {"source": 3, "cut": 1, "joined": 3, "pool": 3}


def test_chunks_smaller_than_a_window():
    x = np.arange(30.0)[::-1].reshape(1, 30)
    y, indices = lazy.max_pool1d(da.from_array(x, (1, 2)), 11, 7, 5, return_indices=True)
    assert [len(sizes) for sizes in y.chunks] == [1, 5]
    check(y, cu.max_pool1d(x, 11, 7, 5))
    check(indices, cu.max_pool1d(x, 11, 7, 5, return_indices=True)[1])


@pytest.mark.parametrize("index_format", ["plane", "window"])
def test_a_plane_of_more_than_2_31_cells(rng, index_format):
    """Its blocks are pooled as planes of their own; the far corner is computed here, and put back."""
    full = (3, 32768, 32768)
    corner = rng.integers(0, 256, (1, 3, 8, 8), np.uint8)
    cells = da.zeros((1, *full), np.uint8, chunks=((1,), (3,), (32752, 8, 8), (32752, 8, 8)))
    x = da.map_blocks(lambda block, block_id: corner if block_id == (0, 0, 2, 2) else block, cells, dtype=np.uint8)
    y, indices = lazy.max_pool3d(x, (3, 2, 2), return_indices=True, index_format=index_format)
    values, places = cu.max_pool3d(corner, (3, 2, 2), return_indices=True, index_format=index_format)
    if index_format == "plane":
        d, h, w = np.unravel_index(places, (3, 8, 8))
        places = np.ravel_multi_index((d, h + 32760, w + 32760), full)
        assert places.max() > 2**31
    assert bits(y.blocks[0, 0, 2, 2].compute()) == bits(values)
    assert bits(indices.blocks[0, 0, 2, 2].compute()) == bits(places)
    z = lazy.max_unpool3d(y, indices, (3, 2, 2), index_format=index_format)
    expected = cu.max_unpool3d(*cu.max_pool3d(corner, (3, 2, 2), return_indices=True), (3, 2, 2))
    assert bits(z.blocks[0, 0, 2, 2].compute()) == bits(expected)
    grad = lazy.max_pool3d_backward(y.astype("f4"), indices, full, (3, 2, 2), index_format=index_format)
    assert bits(grad.blocks[0, 0, 2, 2].compute()) == bits(expected.astype("f4"))
    back = lazy.max_unpool3d_backward(x, indices, (3, 2, 2), index_format=index_format)
    assert bits(back.blocks[0, 0, 2, 2].compute()) == bits(values)


def test_windows_of_cells_that_lie_far_apart(rng):
    x = da.zeros((1, 2**16, 2**17), np.uint8, chunks=(1, 2**15, 2**16))
    window = {"kernel_size": (2**16, 2), "stride": (1, 2)}  # of more cells than a window code can tell
    with nothing_computes():
        y, indices = lazy.max_pool2d(x, **window, return_indices=True)
        assert lazy.max_pool2d_backward(y.astype("f4"), indices, x.shape, **window).shape == x.shape
    with pytest.raises(OverflowError, match=r"must span at most 2\*\*60 elements"):
        lazy.max_pool2d(da.zeros((1, 2**31, 2**31)), (2**30, 1), 1)
    rows = rng.integers(0, 9, (1, 2, 1)).astype(np.uint8)  # one block, in which indices take more than 32 bits
    wide = da.zeros((1, 2, 2**31), np.uint8, chunks=-1).map_blocks(
        lambda block: np.broadcast_to(rows, block.shape), dtype=np.uint8
    )
    lazily = lazy.max_pool2d(wide, 2, 2**30, return_indices=True)
    for one, expected in zip(
        lazily, cu.max_pool2d(np.broadcast_to(rows, wide.shape), 2, 2**30, return_indices=True), strict=True
    ):
        check(one, expected)


def test_places_out_of_their_windows_are_an_error_that_names_the_remedy():
    values, places = np.ones((2, 1, 4, 4)), np.tile(np.arange(0, 8, 2) + 16 * np.arange(4)[:, None], (2, 1, 1, 1))
    places[1, 0, 2, 3] = 5
    y, indices = da.from_array(values, (1, 1, 2, 2)), da.from_array(places)
    message = re.escape(
        "index 5 at position (1, 0, 2, 3) is element (0, 5), outside its window, which begins at (4, 6): a plane in "
        "several chunks takes indices as pooling gives them, each in its own window in a plane of 8 x 8. If another "
        "size was pooled, pass that (output_size); for other indices, give each plane one chunk: "
        "input.rechunk({-2: -1, -1: -1})"
    )
    for call in (
        lambda: lazy.max_unpool2d(y, indices, 2),
        lambda: lazy.max_pool2d_backward(y, indices, (8, 8), 2),
        lambda: lazy.max_unpool2d_backward(da.ones((2, 1, 8, 8)), indices.rechunk((1, 1, 2, 2)), 2),
    ):
        with nothing_computes():
            z = call()
        z[:1].compute()
        with pytest.raises(IndexError, match=f"^{message}$"):
            z.compute()
    check(lazy.max_unpool2d(y.rechunk({-2: -1, -1: -1}), indices, 2), cu.max_unpool2d(values, places, 2))


@pytest.mark.parametrize("chunks", [-1, (1, 100, 511)])
def test_an_output_size_that_was_forgotten_is_said(chunks):
    photograph = np.arange(3 * 341 * 511, dtype=np.int32).reshape(3, 341, 511)
    pooled = lazy.max_pool2d(da.from_array(photograph, chunks), 2, ceil_mode=True, return_indices=True)
    values, places = cu.max_pool2d(photograph, 2, ceil_mode=True, return_indices=True)
    eager = cu.max_unpool2d(values, places, 2, output_size=photograph.shape)
    check(lazy.max_unpool2d(*pooled, 2, output_size=photograph.shape), eager)
    forgotten = lazy.max_unpool2d(*pooled, 2)
    if chunks == -1:
        with pytest.warns(UserWarning, match=r"inside them in one of height 341 to 343, width 511: pass output_size"):
            forgotten.compute()
    else:
        with pytest.raises(
            IndexError, match=r"plane of 342 x 512\. If another size was pooled, pass that \(output_size"
        ):
            forgotten.compute()


@pytest.mark.parametrize(
    ("position", "code"), [((1, 0, 0, 3), 2), ((1, 0, 4, 3), 8), ((1, 0, 2, 4), 5), ((1, 0, 2, 2), 9)]
)
def test_codes_that_name_padding_are_found_in_the_block_at_the_edge(position, code):
    """The first three lie above, below and to the right of the array; the last is no code at all."""
    codes = np.full((2, 1, 5, 5), 4, np.uint8)
    codes[position] = code
    values, grad, window = np.ones(codes.shape), np.ones((2, 1, 9, 9)), {"kernel_size": 3, "stride": 2, "padding": 1}
    window["index_format"] = "window"
    for name, array, size in (
        ("max_unpool2d", values, ()),
        ("max_pool2d_backward", values, ((9, 9),)),
        ("max_unpool2d_backward", grad, ()),
    ):
        with pytest.raises(IndexError, match=rf"position {re.escape(str(position))} names no element") as expected:
            getattr(cu, name)(array, codes, *size, **window)
        arrays = da.from_array(array, (1, 1, 2, 2)), da.from_array(codes, (1, 1, 2, 2))
        lazily = getattr(lazy, name)(*arrays, *size, **window)
        lazily[:1].compute()
        with pytest.raises(IndexError, match=f"^{re.escape(str(expected.value))}$"):
            lazily.compute()


def test_windows_without_a_cell_keep_their_odd_index(rng):
    x = rng.standard_normal((1, 3, 4, 1))
    window = {"kernel_size": (1, 1, 2), "stride": 1, "padding": (0, 0, 1), "dilation": (1, 1, 2)}  # beside the one cell
    y, indices = lazy.max_pool3d(da.from_array(x, (1, 2, 2, 1)), **window, return_indices=True)
    values, places = cu.max_pool3d(x, **window, return_indices=True)
    assert np.isneginf(values).all()
    check(y, values)
    check(indices, places)


def test_codes_of_windows_without_a_cell_are_found():
    codes = np.zeros((1, 4), np.uint8)
    with pytest.raises(IndexError, match=r"position \(0, 3\) names no element") as expected:
        cu.max_unpool1d(np.ones((1, 4)), codes, 1, 3, output_size=(8,), index_format="window")
    arrays = da.ones((1, 4), chunks=2), da.from_array(codes, 2)
    z = lazy.max_unpool1d(*arrays, 1, 3, output_size=(8,), index_format="window")
    with pytest.raises(IndexError, match=f"^{re.escape(str(expected.value))}$"):
        z.compute()
    arrays = da.ones((1, 8), chunks=3), da.from_array(codes, 1)
    with pytest.raises(IndexError, match=f"^{re.escape(str(expected.value))}$"):
        lazy.max_unpool1d_backward(*arrays, 1, 3, index_format="window").compute()


def test_a_window_far_outside_is_an_index_error_too():
    indices = np.zeros((1, 2), int)
    arrays = da.ones((1, 2), chunks=2), da.from_array(indices, 1)
    with pytest.raises(IndexError, match=r"index 0 at position \(0, 1\) is element \(0,\), outside"):
        lazy.max_unpool1d_backward(*arrays, 1, 2**32).compute()


def test_chunks_in_which_no_window_begins_are_left_out():
    x = da.zeros((1, 9), chunks=((1,), (0, 4, 0, 1, 4)))
    assert lazy.max_pool1d(x, 3, 1, 1).chunks == ((1,), (5, 1, 3))
    assert lazy.max_pool1d(x, 3, 4).chunks == ((1,), (1, 1))


def test_blocks_do_not_ask_for_workers_where_there_are_none(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)  # importing it fails
    assert lazy.max_pool1d(da.ones((1, 4), chunks=2), 2).compute().shape == (1, 2)


@pytest.mark.parametrize(
    ("index_dtype", "index_format", "size"),
    [(np.int16, "plane", 4), ("no dtype", "plane", 4), (np.int32, "window", 4), (np.int32, "plane", 2**31 + 2)],
)
def test_index_dtypes_that_are_refused_are_those_of_numpy(index_dtype, index_format, size):
    x = np.broadcast_to(np.uint8(0), (1, size))
    options = {"return_indices": True, "index_format": index_format, "index_dtype": index_dtype}
    with pytest.raises((TypeError, OverflowError)) as expected:
        cu.max_pool1d(x, 2, **options)
    with nothing_computes(), pytest.raises(expected.type, match=f"^{re.escape(str(expected.value))}$"):
        lazy.max_pool1d(da.zeros((1, size), np.uint8), 2, **options)
    assert lazy.max_pool1d(da.zeros((1, 4)), 2, return_indices=True, index_dtype=np.int32)[1].dtype == np.int32


def test_gradients_are_refused_when_the_graph_is_built():
    grad, places, full = zeros(2, 4, 4), zeros(2, 4, 4, dtype=int), zeros(2, 8, 8)
    calls = [
        (cu.max_pool2d_backward, (grad, places, (8, 12), 2), {}),
        (cu.max_pool2d_backward, (grad, places[:1], (8, 8), 2), {}),
        (cu.max_pool2d_backward, (places, places, (8, 8), 2), {}),
        (cu.max_pool2d_backward, (grad, grad, (8, 8), 2), {}),
        (cu.max_pool2d_backward, (grad, places, (8, 8), 2), {"index_format": "onnx"}),
        (cu.max_pool2d_backward, (grad, places, (8, 8), 2), {"num_threads": 0}),
        (cu.max_pool2d_backward, (grad, places, (1040, 1040), 300, 247), {"index_format": "window"}),
        (cu.max_unpool2d_backward, (full, places[:1], 2), {}),
        (cu.max_unpool2d_backward, (full, grad, 2), {}),
        (cu.max_unpool2d_backward, (full, places, 5), {}),
        (cu.max_unpool2d_backward, (full.astype(object), places, 2), {}),
        (cu.max_unpool2d_backward, (da.zeros((2, 600, 600)), places[:, :2, :2], 300), {"index_format": "window"}),
        (cu.max_unpool2d, (grad, places, 300), {"index_format": "window"}),
    ]
    for function, arguments, options in calls:
        plain = [a.compute() if isinstance(a, da.Array) else a for a in arguments]
        with pytest.raises((TypeError, ValueError)) as expected:
            function(*plain, **options)
        with nothing_computes(), pytest.raises(expected.type, match=f"^{re.escape(str(expected.value))}$"):
            getattr(lazy, function.__name__)(*arguments, **options)


def zeros(*shape, dtype=float):
    return da.zeros(shape, chunks=1, dtype=dtype)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((zeros(2, 4, 4), 0), {}),
        ((zeros(2, 4, 4), 2.0), {}),
        ((zeros(2, 4, 4), (2, 2, 2)), {}),
        ((zeros(2, 4, 4), 2, 0), {}),
        ((zeros(2, 4, 4), 2, None, 2), {}),
        ((zeros(2, 4, 4), 2), {"dilation": 0}),
        ((zeros(2, 4, 4), 5), {}),
        ((zeros(4, 4), 2), {}),
        ((zeros(2, 4, 4, dtype=complex), 2), {}),
        ((zeros(2, 4, 4), 2), {"ceil_mode": "no"}),
        ((zeros(2, 4, 4), 2), {"return_indices": (1, 2)}),
        ((zeros(2, 4, 4), 2), {"num_threads": 0}),
        ((zeros(2, 4, 4), 2), {"num_threads": 1.0}),
    ],
)
def test_pooling_is_refused_when_the_graph_is_built(arguments, options):
    with pytest.raises((TypeError, ValueError)) as expected:
        cu.max_pool2d(arguments[0].compute(), *arguments[1:], **options)
    with nothing_computes(), pytest.raises(expected.type, match=f"^{re.escape(str(expected.value))}$"):
        lazy.max_pool2d(*arguments, **options)


@pytest.mark.parametrize(
    ("values", "indices", "options"),
    [
        (zeros(2, 4, 4), zeros(2, 4, 4, dtype=int), {"kernel_size": -1}),
        (zeros(2, 4, 4), zeros(2, 4, 4, dtype=int), {"kernel_size": "2"}),
        (zeros(2, 4, 4), zeros(2, 4, 4, dtype=int), {"padding": True}),
        (zeros(2, 4, 4), zeros(2, 4, 4, dtype=int), {"output_size": (8, 10)}),
        (zeros(2, 4, 4), zeros(2, 4, 4, dtype=int), {"output_size": 8}),
        (zeros(2, 4, 4), zeros(2, 4, 4, dtype=int), {"output_size": (8, 8, 8, 8, 8)}),
        (zeros(2, 4, 4), zeros(2, 4, 4, dtype=int), {"num_threads": 0}),
        (zeros(2, 4, 4), zeros(2, 4, 5, dtype=int), {}),
        (zeros(2, 4, 4), zeros(1, 2, 4, 4, dtype=int), {}),
        (zeros(2, 4, 4), zeros(2, 4, 4), {}),
        (zeros(2, 4, 4, dtype="U3"), zeros(2, 4, 4, dtype=int), {}),
        (zeros(2, 4, 4, dtype=object), zeros(2, 4, 4, dtype=int), {}),
        (zeros(4, 4), zeros(4, 4, dtype=int), {}),
    ],
)
def test_unpooling_is_refused_when_the_graph_is_built(values, indices, options):
    options = {"kernel_size": 2, **options}
    with pytest.raises((TypeError, ValueError)) as expected:
        cu.max_unpool2d(values.compute(), indices.compute(), **options)
    with nothing_computes(), pytest.raises(expected.type, match=f"^{re.escape(str(expected.value))}$"):
        lazy.max_unpool2d(values, indices, **options)


def test_unknown_chunks_are_refused():
    x = da.ones((4, 2, 4), chunks=1)
    unknown = x[da.ones(4, chunks=1) > 0]
    with pytest.raises(ValueError, match="input must have chunks of known sizes"):
        lazy.max_pool1d(unknown, 2)
    with pytest.raises(ValueError, match="input must have chunks of known sizes"):
        lazy.max_unpool1d(unknown, x.astype(int), 2)
    with pytest.raises(ValueError, match="indices must have chunks of known sizes"):
        lazy.max_unpool1d(x, unknown.astype(int), 2)


def test_a_bad_index_is_found_when_its_block_is_computed():
    indices = np.zeros((2, 1, 3), int)
    indices[1, 0, 2] = 6
    z = lazy.max_unpool1d(da.ones((2, 1, 3), chunks=(1, 1, 3)), indices, 2)
    assert not z[0].compute()[0, 1:].any()
    with pytest.raises(IndexError, match=r"index 6 at position \(1, 0, 2\)"):
        z.compute()


def test_a_plane_far_larger_than_memory_is_no_trouble_to_plan():
    with nothing_computes():
        x = da.zeros((10**6, 512, 1024, 1024), chunks=(10**5, 512, 1024, 1024), dtype=np.float32)
        y, indices = lazy.max_pool2d(x, 2, return_indices=True)
        assert lazy.max_unpool2d(y, indices.astype(np.int8), 2).shape == x.shape


@pytest.fixture
def cluster(tmp_path):
    """What starts a client of two workers in processes of their own, or in threads of this one."""
    distributed = pytest.importorskip("distributed")

    @contextlib.contextmanager
    def started(**options):
        options = {"n_workers": 2, "threads_per_worker": 1, "host": "127.0.0.1", "processes": True, **options}
        local = distributed.LocalCluster(dashboard_address="127.0.0.1:0", local_directory=str(tmp_path), **options)
        with local, distributed.Client(local) as client, dask.config.set(scheduler=client):
            yield client

    return started


def everything(x):
    """The arguments of all operations, windows that overlap; what they give lazily, and what they should."""
    window = {"kernel_size": 3, "stride": 2, "padding": 1}
    results = []
    for array, module in ((da.from_array(x, (1, 2, 10, 7)), lazy), (x, cu)):
        y, indices = module.max_pool2d(array, **window, return_indices=True)
        codes = module.max_pool2d(array, **window, return_indices=True, index_format="window")[1]
        results.append([
            y, indices, codes,
            module.max_unpool2d(y, indices, **window, output_size=x.shape),
            module.max_pool2d_backward(y, indices, x.shape, **window),
            module.max_unpool2d_backward(array, codes, **window, index_format="window"),
        ])  # fmt: skip
    return results


@pytest.mark.parametrize("processes", [True, False])
def test_two_workers(rng, cluster, processes):
    lazily, expected = everything(rng.standard_normal((4, 3, 31, 20)).astype(np.float32))
    before = cu.get_cache_limit()
    options = {} if processes else {"processes": False, "threads_per_worker": 2, "host": None}
    # Workers that are threads count what this process has for theirs, and wait where it is too much.
    limit = 512 << 20 if processes else 1536 << 20
    try:
        with cluster(memory_limit=limit, **options) as client:
            assert len(client.scheduler_info()["workers"]) == 2
            assert [*map(bits, client.gather(client.compute(lazily)))] == [*map(bits, expected)]
            # A process that is more than a worker keeps its own limit, and one that was set stays, though it is larger.
            assert set(client.run(cu.get_cache_limit).values()) == {limit // 8 if processes else before}
            client.run(cu.set_cache_limit, limit // 4)
            client.gather(client.compute(lazily[0] + 1))
            assert set(client.run(cu.get_cache_limit).values()) == {limit // 4}
        assert processes or cu.get_cache_limit() == limit // 4
    finally:
        memory._set_limit(before, False)


@pytest.mark.parametrize(
    ("worker", "limit"),
    [("without memory", 4 << 30), ("in this process", 4 << 30), ("by itself", 1 << 20), (None, 4 << 30)],
)
def test_only_a_worker_with_a_process_of_its_own_lowers_the_limit(monkeypatch, worker, limit):
    def get_worker():
        if worker is None:
            raise ValueError("no worker found")
        return SimpleNamespace(
            memory_manager=SimpleNamespace(memory_limit=None if worker == "without memory" else 8 << 20),
            nanny=None if worker == "in this process" else "tcp://127.0.0.1:1",
        )

    before = cu.get_cache_limit()
    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(get_worker=get_worker))
    try:
        memory._set_limit(4 << 30, False)
        lazy.max_pool1d(da.ones((1, 8), chunks=4), 2).compute(scheduler="sync")
        assert cu.get_cache_limit() == limit
        cu.set_cache_limit(4 << 30)
        lazy.max_pool1d(da.ones((1, 8), chunks=4), 2).compute(scheduler="sync")
        assert cu.get_cache_limit() == 4 << 30
    finally:
        memory._set_limit(before, False)


def test_workers_without_a_limit_keep_what_others_do(rng, cluster):
    before = cu.get_cache_limit()
    with cluster(processes=False, host=None, memory_limit=0) as client:
        client.gather(client.compute(lazy.max_pool1d(da.ones((1, 8), chunks=4), 2)))
    assert cu.get_cache_limit() == before


def test_a_worker_that_is_killed_in_the_middle(rng, cluster, tmp_path):
    x = rng.standard_normal((4, 3, 31, 20)).astype(np.float32)
    lazily, expected = everything(x)
    mark = tmp_path / "killed"

    def kill(block, block_id):
        if sum(block_id) == 6 and not mark.exists():
            mark.touch()
            os._exit(1)
        return block

    y, indices = lazily[:2]
    survivor = y.map_blocks(kill, dtype=y.dtype, meta=y._meta)
    assert max(map(sum, np.ndindex(*y.numblocks))) >= 6
    back = lazy.max_unpool2d(survivor, indices, 3, 2, 1, x.shape)
    with cluster() as client:
        assert bits(client.gather(client.compute(back))) == bits(expected[3])
    assert mark.exists()


def test_without_dask_one_line_says_so():
    code = "import sys; sys.modules['dask'] = None; import cunpool; import cunpool.dask"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stderr.splitlines()[-1] == "ImportError: cunpool.dask needs dask: pip install 'cunpool[dask]'"
    assert "During handling" not in run.stderr


def test_cunpool_does_not_import_dask():
    code = "import sys, cunpool; print([name for name in sys.modules if 'dask' in name])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_docstring_examples():
    result = doctest.testmod(lazy)
    assert result.attempted > 3
    assert result.failed == 0


def test_masked_arrays_are_refused_before_a_mask_is_lost():
    x = da.arange(9.0, chunks=((5, 4),))[None]
    masked = da.ma.masked_greater(x, 3)
    with nothing_computes(), pytest.raises(TypeError, match=r"input must not be a masked array, .*: pass da.ma.filled"):
        lazy.max_pool1d(masked, 3, 2, 1)
    unknown = da.map_blocks(lambda block: np.ma.masked_greater(block, 3), x, meta=np.empty((0, 0)))
    with pytest.raises(TypeError, match="must not be a masked array"):
        lazy.max_pool1d(unknown, 3, 2, 1).compute()


# --- what is refused, and what helps


def refused(error, call, *arguments, **keywords) -> str:
    with pytest.raises(error) as caught:
        call(*arguments, **keywords)
    return str(caught.value)


def test_arguments_of_other_libraries_are_told_what_there_is_instead():
    x = da.ones((2, 8, 8))
    y, indices = lazy.max_pool2d(x, 2, return_indices=True)
    remedies = {
        "out": "dask.array.store(result, out)",
        "axis": "numpy.moveaxis moves others there",
        "keepdims": "results keep all axes",
        "fill_value": "choose with dask.array.where(unpooled_ones, unpooled, fill_value)",
        "onto": "choose with dask.array.where(unpooled_ones, unpooled, onto)",
        "dtype": "result.astype(...)",
        "data_format": "channel_axis=-1",
    }
    for call, arguments in (
        (lazy.max_pool2d, (x, 2)),
        (lazy.max_unpool2d, (y, indices, 2)),
        (lazy.max_pool2d_backward, (y, indices, (8, 8), 2)),
        (lazy.max_unpool2d_backward, (x, indices, 2)),
    ):
        for keyword, remedy in remedies.items():
            said = refused(TypeError, call, *arguments, **{keyword: 1})
            assert said.startswith(f"cunpool.dask.{call.__name__} takes no '{keyword}': ")
            assert remedy in said
        assert (
            refused(TypeError, call, *arguments, kernel=2).endswith("index_format, channel_axis, num_threads")
            or call is lazy.max_pool2d
        )
    assert refused(TypeError, lazy.max_pool1d, x, 2, axes=1) == (
        "cunpool.dask.max_pool1d takes no 'axes': it takes input, kernel_size, stride, padding, dilation, ceil_mode, "
        "return_indices, index_format, index_dtype, nan_policy, channel_axis, num_threads"
    )
    assert "kernel_size" in inspect.signature(lazy.max_pool2d).parameters
    assert pickle.loads(pickle.dumps(lazy.max_pool2d)) is lazy.max_pool2d


def test_what_is_missing_is_named():
    x = da.ones((2, 8, 8), chunks=4)
    y, indices = pair = lazy.max_pool2d(x, 2, return_indices=True)
    assert refused(TypeError, lazy.max_unpool2d, y, 2).endswith("needs the indices that pooling gives, got 2 instead")
    assert refused(TypeError, lazy.max_unpool2d, pair, 2).endswith("put a * before it, as in max_unpool2d(*pair, 2)")
    assert refused(TypeError, lazy.max_unpool2d, y, indices).endswith(
        "needs the kernel_size of the pooling, got nothing"
    )
    assert refused(TypeError, lazy.max_pool2d_backward, y, indices, 2).endswith("what was pooled, got 2 instead")
    said = refused(TypeError, lazy.take_at2d, pair, 2)
    assert said == "input must be one array, got a tuple of some: a * before a pair makes two arguments"
    assert refused(TypeError, lazy.max_pool2d, pair, 2).endswith(
        "got a tuple of some: pass one of them, such as the values of a pair, or join them with dask.array.stack"
    )
    assert "put a * before it" in refused(TypeError, lazy.max_unpool2d, pair, 2, 2)
    said = refused(TypeError, lazy.max_unpool2d, y, 2, 2)
    assert said.endswith("needs the indices that pooling gives, got 2 instead")
    assert "missing" in refused(TypeError, lazy.max_unpool2d, y)
    assert "missing" in refused(TypeError, lazy.max_pool2d, x)
    assert lazy.max_unpool2d(*pair, kernel_size=2).shape == x.shape
    assert lazy.max_unpool2d(input=y, indices=indices, kernel_size=2).shape == x.shape


def test_shapes_are_compared_before_sizes_and_swapped_arrays_are_noticed():
    y, indices = da.ones((1, 1, 49, 49)), da.zeros((1, 1, 50, 50), dtype=int)
    hint = "; if input comes from another unpooling, that one needs output_size=indices.shape, of these indices"
    said = refused(ValueError, lazy.max_unpool2d, y, indices, 2, output_size=(100, 100))
    assert said == f"indices must have the shape of input, (1, 1, 49, 49), got (1, 1, 50, 50){hint}"
    said = refused(ValueError, lazy.max_unpool2d, y[..., :12, :12], indices[..., :24, :24], 2, output_size=(48, 48))
    assert said.endswith("got (1, 1, 24, 24)")
    said = refused(ValueError, lazy.max_pool2d_backward, y, indices, (100, 100), 2)
    assert said == "indices must have the shape of grad_output, (1, 1, 49, 49), got (1, 1, 50, 50)"
    said = refused(TypeError, lazy.max_unpool2d, indices, da.ones(indices.shape), 2)
    swapped = "indices must be of integers, got float64, and input of int64: the two look swapped"
    assert said == swapped
    said = refused(TypeError, lazy.max_pool2d_backward, indices, da.ones(indices.shape), (100, 100), 2)
    assert said == swapped.replace("input", "grad_output")
    said = refused(TypeError, lazy.max_pool2d_backward, indices, indices, (100, 100), 2)
    assert said == "grad_output must be of float16, bfloat16, float32 or float64, got int64"
    assert refused(TypeError, lazy.take_at2d, indices, da.ones(indices.shape)) == swapped
    said = refused(TypeError, lazy.take_at2d, y, y)
    assert said == "indices must be of integers, got float64"


def test_a_plane_is_told_how_to_add_a_channel(tmp_path):
    plane = np.arange(12.0).reshape(3, 4)
    said = refused(ValueError, lazy.max_pool2d, da.from_array(plane), 2)
    assert said.endswith("got (3, 4); add a channel axis: input[None]")
    said = refused(ValueError, lazy.max_pool2d, plane, 2)
    assert said.endswith("got (3, 4) of type numpy.ndarray; add a channel axis: da.asarray(input)[None]")
    zarr = pytest.importorskip("zarr")
    stored = zarr.open(tmp_path / "plane.zarr", mode="w", shape=plane.shape, chunks=(2, 2), dtype="f8")
    stored[:] = plane
    said = refused(ValueError, lazy.max_pool2d, stored, 2)
    assert said.endswith("of type zarr.Array; add a channel axis: da.from_zarr(input)[None]")
    assert lazy.max_pool2d(da.from_zarr(stored)[None], 2).compute().tolist() == [[[5, 7]]]
    said = refused(ValueError, cu.max_pool2d, stored, 2)
    assert said.endswith("add a channel axis: np.asarray(input)[None], or da.from_zarr(...)[None] to cunpool.dask")
    assert cu.max_pool2d(np.asarray(stored)[None], 2).tolist() == [[[5, 7]]]


def test_numpys_functions_refuse_what_they_would_compute_whole():
    x = da.ones((2, 8, 8, 8), chunks=4)
    ones = np.ones((2, 4, 4, 4))
    calls = [
        ("input", lambda: cu.max_pool3d(x, 2)),
        ("input", lambda: cu.MaxPool3d(2)(x)),
        ("input", lambda: cu.max_unpool3d(x, ones.astype(int), 2)),
        ("indices", lambda: cu.max_unpool3d(ones, x.astype(int), 2)),
        ("grad_output", lambda: cu.max_pool3d_backward(x, ones.astype(int), (16, 16, 16), 2)),
        ("grad_output", lambda: cu.max_unpool3d_backward(x, ones.astype(int), 2)),
        ("indices", lambda: cu.convert_indices(x, "plane", "onnx", input_size=(8, 8, 8), kernel_size=2)),
    ]
    with nothing_computes():
        for name, call in calls:
            assert refused(TypeError, call) == (
                f"{name} must be an array, got a Dask object (Array), which would be computed whole: use cunpool.dask, "
                f"or pass {name}.compute()"
            )
        xarray = pytest.importorskip("xarray")
        assert "(DataArray)" in refused(TypeError, cu.max_pool3d, xarray.DataArray(x), 2)
    assert cu.max_pool3d(xarray.DataArray(ones), 2).shape == (2, 2, 2, 2)


def test_layouts_and_codes_are_told():
    image = da.zeros((34, 51, 3), np.uint8)
    with pytest.warns(cu.LayoutWarning, match=r"pass channel_axis=-1, or numpy.moveaxis\(input, -1, 0\)$") as said:
        lazy.max_pool2d(image, 2)
    assert [warning.filename for warning in said] == [__file__]
    assert isinstance(np.moveaxis(image, -1, 0), da.Array)
    x = da.random.default_rng(0).random((1, 301, 301), chunks=(1, 160, 301))
    for kernel in (300, 2):
        expected = lazy.max_pool2d(x, kernel).compute()
        ours = lazy.max_pool2d(x, kernel, index_format="window", index_dtype=np.int32).compute()
        assert np.array_equal(ours, expected)
    y, codes = lazy.max_pool2d(x, 2, return_indices=True, index_format="window")
    with pytest.raises(
        IndexError, match=r"is outside its window: indices of uint8 that are all below .* need index_format"
    ):
        lazy.max_unpool2d(y, codes, 2).compute()
    with pytest.raises(IndexError, match="is element"):
        lazy.max_unpool2d(y, da.zeros(y.shape, dtype=int, chunks=y.chunks), 2).compute()


def test_lists_of_dask_arrays_are_not_computed_by_the_functions_of_numpy():
    def computed(*_):
        raise AssertionError("computed")

    x = da.ones((3, 8, 8), chunks=-1).map_blocks(computed, dtype=float, meta=np.empty((0, 0, 0)))
    for some, kind in (([x], "list"), ((x, x), "tuple"), ([[x[0], x[1]]], "list"), ([[1], x], "list")):
        for name, call in (
            ("input", lambda some=some: cu.max_pool2d(some, 2)),
            ("indices", lambda some=some: cu.take_at2d(np.ones((1, 3, 8, 8)), some)),
        ):
            assert refused(TypeError, call) == (
                f"{name} must be an array, got a {kind} of Dask arrays, which would all be computed: join them with "
                "dask.array.stack and use cunpool.dask, or call compute() of each"
            )
    endless = []
    endless.append(endless)
    with pytest.raises((TypeError, ValueError), match="input must"):
        cu.max_pool2d(endless, 2)
    rows = da.arange(32.0).reshape(2, 4, 4)
    expected = cu.max_pool2d(rows.compute(), 2)
    assert np.array_equal(cu.max_pool2d([row.compute() for row in rows], 2), expected)
    assert np.array_equal(lazy.max_pool2d(da.stack([*rows]), 2).compute(), expected)


def test_what_only_speaks_dlpack_is_taken():
    class Exchanged:
        def __init__(self, array):
            self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__

    x = np.random.default_rng(0).random((2, 6, 8))
    assert np.array_equal(lazy.max_pool2d(Exchanged(x), 2).compute(), cu.max_pool2d(x, 2))
    said = refused(ValueError, lazy.max_pool2d, Exchanged(x[0]), 2)
    assert said.endswith("of type test_dask.Exchanged; add a channel axis: np.from_dlpack(input)[None]")


def test_an_image_is_told_how_to_move_its_channels():
    image = np.random.default_rng(0).integers(0, 255, (34, 51, 3), np.uint8)
    for value, moved in (
        (image, "input"),
        (da.from_array(image), "input"),
        (image.tolist(), r"dask\.array\.asarray\(input\)"),
    ):
        remedy = rf"pass channel_axis=-1, or numpy\.moveaxis\({moved}, -1, 0\)$"
        with pytest.warns(cu.LayoutWarning, match=remedy):
            lazy.max_pool2d(value, 2)
        assert re.search(remedy, refused(ValueError, lazy.max_pool2d, value, 5))
    moved = np.moveaxis(da.asarray(image.tolist()), -1, 0)
    assert lazy.max_pool2d(moved, 2).compute().shape == (3, 17, 25)


def test_a_masked_chunk_is_not_joined_with_others():
    halves = ((slice(0, 2),), (slice(0, 2),)), ((slice(2, 4),), (slice(0, 2),))
    values = np.arange(2.0)
    assert _blocks.join((4,), values.dtype, halves, values, values).tolist() == [0, 1, 0, 1]
    with pytest.raises(TypeError, match="a chunk must not be a masked array"):
        _blocks.join((4,), values.dtype, halves, values, np.ma.masked_greater(values, 0))
