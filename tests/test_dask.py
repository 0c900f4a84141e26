from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cases import POOL, UNPOOL, bits

import cunpool as cu

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")
lazy = importlib.import_module("cunpool.dask")

ROOT = Path(__file__).parent.parent
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
        default = LAZY_UNPOOL[n](y, indices, **{**arguments, "kernel_size": 3, "stride": (3,) * n})
    y_, indices_ = POOL[n](x, **arguments, **extra, return_indices=True)
    check(y, y_)
    check(alone, y_)
    check(indices, indices_)
    check(z, UNPOOL[n](y_, indices_, **arguments, output_size=full))
    check(default, UNPOOL[n](y_, indices_, 3, 3, 1))
    for result in (y, alone, indices, z, default):
        assert result.chunks[:-n] == lead
        assert result.numblocks[-n:] == (1,) * n


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
        assert z.chunks == ((2, 2), (4, 2), (8,), (8,))
        check(z, expected)
    check(lazy.max_pool2d(x, 2), y)


def test_one_pooling_for_each_block(rng, monkeypatch):
    calls = []

    def counted(array, **arguments):
        calls.append(arguments["num_threads"])
        return cu.max_pool2d(array, **arguments)

    monkeypatch.setattr("cunpool.pooling.max_pool2d", counted)
    x = da.from_array(rng.standard_normal((6, 2, 8, 8)), (2, 1, 4, 8))
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


def test_threads_reach_the_kernels(rng, monkeypatch):
    from cunpool import _threads

    asked = []
    before = _threads.threads_for
    monkeypatch.setattr(_threads, "threads_for", lambda work, n: asked.append(n) or before(work, n))
    values, indices = np.ones((1, 1, 2)), np.zeros((1, 1, 2), int)
    lazy.max_unpool1d(values, indices, 2).compute()
    lazy.max_unpool1d(values, indices, 2, num_threads=3).compute()
    assert asked == [1, 1, 3, 3]  # when the graph is built, and for the block


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
    with pytest.raises(IndexError, match=r"index 6 at position \(0, 0, 2\)"):
        z.compute()


def test_a_plane_far_larger_than_memory_is_no_trouble_to_plan():
    with nothing_computes():
        x = da.zeros((10**6, 512, 1024, 1024), chunks=(10**5, 512, 1024, 1024), dtype=np.float32)
        y, indices = lazy.max_pool2d(x, 2, return_indices=True)
        assert lazy.max_unpool2d(y, indices.astype(np.int8), 2).shape == x.shape


def test_two_worker_processes(rng, tmp_path):
    distributed = pytest.importorskip("distributed")
    x = rng.standard_normal((8, 3, 31, 20)).astype(np.float32)
    y, indices = cu.max_pool2d(x, 3, 2, 1, return_indices=True)
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1",
        local_directory=str(tmp_path),
    )  # fmt: skip
    with cluster, distributed.Client(cluster) as client:
        assert len(client.scheduler_info()["workers"]) == 2
        y_, indices_ = lazy.max_pool2d(da.from_array(x, (1, 2, 10, 20)), 3, 2, 1, return_indices=True)
        z_ = lazy.max_unpool2d(y_, indices_, 3, 2, 1, x.shape)
        results = client.gather(client.compute([y_, indices_, z_]))
        assert [*map(bits, results)] == [*map(bits, (y, indices, cu.max_unpool2d(y, indices, 3, 2, 1, x.shape)))]


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


def test_readme_example():
    blocks = re.findall(r"```py\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    blocks = [block for block in blocks if "dask" in block]
    assert len(blocks) == 1
    exec(compile(blocks[0], "README.md", "exec"), {})
