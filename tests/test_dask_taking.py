"""Taking from Dask arrays: any chunks, by windows or from whole planes."""

from __future__ import annotations

import importlib
import re
import warnings

import numpy as np
import pytest
from cases import POOL, bits

import cunpool as cu

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")
lazy = importlib.import_module("cunpool.dask")

TAKE = {n: getattr(cu, f"take_at{n}d") for n in (1, 2, 3)}
LAZY_TAKE = {n: getattr(lazy, f"take_at{n}d") for n in (1, 2, 3)}


@pytest.fixture(autouse=True)
def one_process():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.mark.parametrize("index_format", ["plane", "window"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_labels_of_the_brightest_voxels(rng, n, index_format):
    """Chunks that are cut anywhere, differently for input and indices, and windows that overlap."""
    full = (17, 12, 9)[:n]
    x, labels = rng.random((2, 3, *full)), rng.integers(0, 99, (2, 3, *full)).astype(np.uint16)
    window = {"kernel_size": 3, "stride": 2, "padding": 1}
    _, indices = POOL[n](x, **window, return_indices=True, index_format=index_format)
    expected = TAKE[n](labels, indices, **window, index_format=index_format)
    for chunks, pooled in (((1, 3, *[5] * n), (2, 2, *[2] * n)), (-1, (1, 1, *[3] * n)), ((2, 1, *[4] * n), -1)):
        given = da.from_array(labels, chunks), da.from_array(indices, pooled)
        result = LAZY_TAKE[n](*given, **window, index_format=index_format)
        assert result.chunks == given[1].chunks
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
        assert bits(result.compute()) == bits(expected)


def test_indices_anywhere_need_whole_planes_of_either(rng):
    x, indices = rng.random((2, 7, 9)), rng.integers(0, 63, (2, 30, 4))
    expected = bits(cu.take_at2d(x, indices))
    for chunks, pooled in ((-1, (1, 7, 3)), ((1, 2, 4), (2, 30, 4)), ((1, 7, 9), (2, 5, 2))):
        result = lazy.take_at2d(da.from_array(x, chunks), da.from_array(indices, pooled))
        assert bits(result.compute()) == expected
    with pytest.raises(ValueError, match=r"kernel_size must be given where planes are in several chunks.*rechunk"):
        lazy.take_at2d(da.from_array(x, 3), da.from_array(indices, 4))
    assert bits(lazy.take_at2d(x, indices).compute()) == expected  # NumPy's arrays are taken as one chunk


def test_a_block_reads_what_its_windows_reach():
    """Nothing of the other chunks, where windows lie side by side."""
    x = da.ones((1, 1, 64, 64), chunks=(1, 1, 16, 16))
    indices = da.zeros((1, 1, 32, 32), chunks=(1, 1, 8, 8), dtype=np.uint8)
    result = lazy.take_at2d(x, indices, 2, index_format="window")
    before = len(dict(x.__dask_graph__())) + len(dict(indices.__dask_graph__()))
    assert len(dict(result.__dask_graph__())) == before + 16


def test_an_index_outside_its_window_is_named_with_the_remedy():
    x, indices = da.arange(64.0, chunks=64).reshape(1, 8, 8).rechunk((1, 4, 4)), np.zeros((1, 4, 4), int)
    _, indices = cu.max_pool2d(x.compute(), 2, return_indices=True)
    indices[0, 3, 2] = 0
    with pytest.raises(IndexError) as caught:
        lazy.take_at2d(x, da.from_array(indices, (1, 2, 2)), 2).compute()
    text = str(caught.value)
    assert text.startswith("index 0 at position (0, 3, 2) is element (0, 0), outside its window")
    assert text.endswith("leave out kernel_size and give each plane one chunk: input.rechunk({-2: -1, -1: -1})")
    assert lazy.take_at2d(x.rechunk({-2: -1, -1: -1}), da.from_array(indices, (1, 2, 2))).compute()[0, 3, 2] == 0


@pytest.mark.parametrize("chunks", [-1, (1, 2, 2)])
def test_a_bad_index_is_named_by_its_position_in_the_whole_array(chunks):
    x, indices = da.ones((1, 8, 8), chunks=(1, 8, 8)), np.zeros((1, 4, 4), int)
    indices[0, 3, 2] = 64
    message = r"index 64 at position \(0, 3, 2\) is outside input: a plane of 8 x 8 has the indices 0 to 63"
    with pytest.raises(IndexError, match=message):
        lazy.take_at2d(x, da.from_array(indices, chunks)).compute()
    codes = np.zeros((1, 4, 4), np.uint8)
    codes[0, 3, 2] = 4
    with pytest.raises(IndexError, match=r"window code 4 at position \(0, 3, 2\) names no element"):
        lazy.take_at2d(x.rechunk((1, 3, 3)), da.from_array(codes, chunks), 2, index_format="window").compute()


def test_what_numpy_refuses_is_refused_when_the_graph_is_built():
    x, indices = da.ones((1, 8, 8), chunks=(1, 4, 4)), da.zeros((1, 4, 4), dtype=int, chunks=(1, 2, 2))
    with pytest.raises(TypeError, match="kernel_size must be given with index_format='window'"):
        lazy.take_at2d(x, indices, index_format="window")
    with pytest.raises(ValueError, match="windows must reach into the planes of input"):
        lazy.take_at2d(x, indices, 2, 3)
    with pytest.raises(ValueError, match="indices must have the N and C of input"):
        lazy.take_at2d(x, indices[0])
    with pytest.raises(ValueError, match="window codes are for windows of at most 65536 elements"):
        lazy.take_at2d(x, indices, 257, 1, 128, index_format="window")
    with pytest.raises(TypeError, match="indices must be of integers"):
        lazy.take_at2d(x, x, 2)
    with pytest.raises(ValueError, match="index_format must be one of"):
        lazy.take_at2d(x, indices, 2, index_format="tf")
    with pytest.raises(ValueError, match="num_threads must be"):
        lazy.take_at2d(x, indices, 2, num_threads=0)


def test_empty_arrays(rng):
    x = da.from_array(rng.random((2, 7, 9)), (1, 4, 4))
    for shape in ((2, 0, 3), (2, 0, 0)):
        assert lazy.take_at2d(x, np.zeros(shape, int)).compute().shape == shape
    chunks = ((2,), (0, 2, 0, 1), (3,))
    indices = rng.integers(0, 9, (2, 3, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = lazy.take_at2d(x.rechunk(-1), da.from_array(indices, chunks))
        assert bits(result.compute()) == bits(cu.take_at2d(x.compute(), indices))


@pytest.mark.parametrize("window", [{"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1}])
@pytest.mark.parametrize("form", ["onnx", "onnx_column_major", "tf", "tf_batch"])
@pytest.mark.parametrize("chunks", [-1, (1, 2, -1, -1), (2, 2, 3, 3)])
def test_indices_of_other_libraries_are_named_with_their_format(rng, form, window, chunks):
    """In any block, and those that lie in the plane but outside their windows as well."""
    full = rng.random((2, 3, 9, 12))
    pooled, indices = cu.max_pool2d(full, **window, return_indices=True)
    theirs = cu.convert_indices(indices, "plane", form, input_size=full.shape, **window)
    x, y, indices = da.from_array(full, chunks), da.from_array(pooled, chunks), da.from_array(theirs, chunks)
    for call in (
        lambda: lazy.take_at2d(x, indices, **window),
        lambda: lazy.max_unpool2d(y, indices, **window, output_size=full.shape),
        lambda: lazy.max_pool2d_backward(y, indices, full.shape, **window),
        lambda: lazy.max_unpool2d_backward(x, indices, **window),
    ):
        result = call()
        for at in np.ndindex(result.numblocks):
            if at[0] == at[1] == 0 and form.startswith("onnx"):
                continue  # the first plane counts as it should
            try:
                result.blocks[at].compute()
            except IndexError as error:
                said = str(error)
                named = re.search(r"would be right as .*\(indices, (.*), 'plane', \.\.\.\)$", said)
                if result.numblocks[-1] == 1:
                    assert named, said
                if named:
                    assert f"'{form}'" in named[1], said
            else:
                assert result.numblocks[-1] > 1, at
