"""Windows whose cells lie 2**31 places apart and more, in planes of gigabytes whose rows overlap in little memory."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from cases import POOL, bits, random_numbers
from fuzzing.right import UNPOOL_BACKWARD

import cunpool as cu
from cunpool._kernels import pool as _pool

LAYERS = (3, 32768, 32768)


def overlapping(rng, dtype, shape, apart, rising):
    """An array of this shape whose neighbours along each axis are so many items apart in memory; rising at its end."""
    dtype = np.dtype(dtype)
    room = 1 + sum(step * (size - 1) for step, size in zip(apart, shape, strict=True))
    cells = random_numbers(rng, dtype, (room,))
    if rising:
        cells[: 2 * room // 3] = reference.lowest(dtype)
        cells[-1] = np.iinfo(dtype).max if dtype.kind in "iu" else np.nan  # of several NaN the last one wins
    return np.lib.stride_tricks.as_strided(cells, shape, [step * dtype.itemsize for step in apart])


# The sizes, the items from one cell to the next along each axis, the window, and the ways: of values with places, and
# of values with codes, which ask for no wide places.
SEPARATED, WINDOW2, LARGE, ACROSS, STREAMED = _pool.SEPARATED, _pool.WINDOW2, _pool.LARGE, _pool.ACROSS, _pool.STREAMED
CASES = [
    # A volume of three layers, in windows of two of them, of all three, and of all with padding around.
    ("u1", (1, *LAYERS), (0, 200000, 3, 2), (2, (1, 16384, 16000), 0, (2, 1, 1)), SEPARATED, SEPARATED),
    ("u1", (1, *LAYERS), (0, 200000, 3, 2), ((3, 2, 2), (1, 16384, 16000)), SEPARATED, SEPARATED),
    ("i8", (1, *LAYERS), (0, 200000, 3, 2), (3, (3, 30000, 30000), (0, 1, 1)), SEPARATED, SEPARATED),
    ("e", (1, 2, *LAYERS), (0, 9, 200000, 3, 2), ((3, 1, 3), (1, 20000, 9000)), SEPARATED, SEPARATED),
    # More cells than codes of one byte.
    ("f4", (1, *LAYERS), (0, 200000, 3, 2), ((3, 10, 10), (1, 16384, 16000)), SEPARATED, SEPARATED),
    # Rows of more than 2**31 elements, and channels that are neighbours.
    ("u1", (1, 2, 2**31 + 5), (0, 1, 0), (2, (1, 2**30)), SEPARATED, SEPARATED),
    ("i4", (40, 2, 2**31 + 9), (1, 80, 0), ((2, 3), (1, 2**30)), SEPARATED, ACROSS | STREAMED),
    # Contiguous rows: windows of two, and windows that are deinterleaved.
    ("f4", (1, 2, 2**16, 2**15 + 1), (0, 2**15, 0, 1), ((2, 1, 2), (2, 2**16, 2)), SEPARATED, WINDOW2 | STREAMED),
    ("f4", (1, 513, 1024, 4100), (0, 9, 0, 1), ((2, 1, 3), (1, 512, 100), 0, (512, 1, 1)), SEPARATED, SEPARATED),
    # Cells so far apart that no block has room for what lies between, in one channel and in neighbours.
    ("f8", (1, 2**20, 2**12), (0, 1, 1), (2, (2**19, 2), 0, (2**20 - 1, 1)), SEPARATED, SEPARATED),
    ("f4", (1, 2**31 + 9), (0, 0), (2, 1, 0, 2**31), LARGE, LARGE),
    ("u1", (3, 2**33), (1, 0), (2, 2**33, 1, 2**33), SEPARATED, SEPARATED),
    ("e", (20, 16383, 4096, 128), (1, 20, 20, 20), ((2, 7, 10), (1, 3000, 50), 1, (16382, 600, 13)),
     LARGE, LARGE),
    ("e", (20, 16383, 4096, 128), (1, 20, 20, 20), ((2, 2, 9), (1, 3000, 50), 1, (16382, 2047, 15)),
     LARGE, ACROSS | STREAMED),
    # Windows of neighbours, as far from where their plane begins: of two, deinterleaved, and across channels.
    ("f4", (1, 2**26 + 3, 64), (0, 0, 1), (2, (2**25 + 1, 2)), SEPARATED, WINDOW2 | STREAMED),
    ("f4", (1, 1025, 1024, 4100), (0, 9, 0, 1), ((2, 1, 3), (512, 512, 100)), SEPARATED, SEPARATED),
    ("f4", (20, 2**26 + 3, 64), (1, 0, 20), (3, (2**25 + 1, 20)), SEPARATED, ACROSS | STREAMED),
]  # fmt: skip


@pytest.mark.mostly_slow
@pytest.mark.parametrize("rising", [False, True])
@pytest.mark.parametrize(("dtype", "shape", "apart", "arguments", "by_places", "by_codes"), CASES)
def test_windows_of_cells_far_apart(rng, ways, dtype, shape, apart, arguments, by_places, by_codes, rising):
    n = len(arguments[1]) if isinstance(arguments[1], tuple) else 1
    x = overlapping(rng, dtype, shape, apart, rising)
    values, indices = reference.max_pool(x, n, *arguments)
    assert not rising or indices.max() >= 2**31
    for threads in (1, 2):
        result = POOL[n](x, *arguments, return_indices=True, num_threads=threads)
        assert bits(result.values) == bits(values)
        assert bits(result.indices) == bits(indices)
    # New arrays have the order of these strides: so rows of indices that follow each other, and such as do not.
    for out in (np.zeros_like(indices), np.zeros((*indices.shape, 2), np.int64)[..., 0]):
        POOL[n](x, *arguments, return_indices=True, out=(None, out), num_threads=1)
        assert bits(out) == bits(indices)
    assert set(ways) == {by_places}
    ways.clear()
    alone = POOL[n](x, *arguments, num_threads=1)
    coded = POOL[n](x, *arguments, return_indices=True, index_format="window", num_threads=1)
    assert ways == [by_codes, by_codes]
    assert bits(alone) == bits(coded.values) == bits(values)
    window = dict(zip(("kernel_size", "stride", "padding", "dilation"), arguments, strict=False))
    where = {"input_size": x.shape[-n:], **window}
    assert bits(cu.convert_indices(coded.indices, "window", "plane", **where)) == bits(indices)
    assert bits(cu.convert_indices(indices, "plane", "window", **where)) == bits(coded.indices)
    assert bits(UNPOOL_BACKWARD[n](x, indices, **window)) == bits(values)
    assert bits(UNPOOL_BACKWARD[n](x, coded.indices, **window, index_format="window")) == bits(values)


@pytest.mark.parametrize(("width", "method"), [(2**30 - 1, ACROSS), (2**30, SEPARATED), (2**31 - 9, SEPARATED)])
def test_the_first_of_neighbouring_windows_has_places_of_32_bits(ways, width, method):
    """And the second has not, counted from where the first begins. Lanes of 32 bits hold indices up to 2**31."""
    stride, channels = (width + 9) // 2, 40
    row = np.arange(2 * channels, dtype=np.int32)
    x = np.lib.stride_tricks.as_strided(row, (channels, 2, width), (4, 4 * channels, 0))
    out = (
        np.zeros((1, 2, channels), np.int32).transpose(2, 0, 1),
        np.zeros((1, 2, channels), np.int64).transpose(2, 0, 1),
    )
    cu.max_pool2d(x, (2, 1), (1, stride), return_indices=True, out=out)
    assert np.array_equal(out[0], np.broadcast_to(np.arange(channels, 2 * channels)[:, None, None], (channels, 1, 2)))
    assert np.array_equal(out[1], np.broadcast_to([[width, width + stride]], (channels, 1, 2)))
    assert [way & (ACROSS | SEPARATED) for way in ways] == [method]


@pytest.mark.parametrize("stride", [2**21, 2**22, 2**31, 2**54, 2**57])
def test_neighbouring_windows_far_apart(stride):
    """In all channels, so that a number of such strides does not fit 32 bits, or 64."""
    x = np.broadcast_to(np.arange(16, dtype=np.uint8)[:, None], (16, 2 * stride))
    out = np.zeros((2, 16), np.uint8).T, np.zeros((2, 16), np.int64).T
    cu.max_pool1d(x, 1, stride, return_indices=True, out=out)
    assert np.array_equal(out[0], x[:, :2])
    assert np.array_equal(out[1], np.broadcast_to([0, stride], (16, 2)))


def test_windows_that_reach_far_into_the_padding(ways):
    """A plane of a few cells: what lies between them and the padding's end is not counted through."""
    x = np.array([[[3, 9, 4]]], np.int16)
    for far in (2**31, 2**40, 2**58):
        arguments = (1, far), (1, far // 2 - 1), (0, far // 2), 1, True
        wide = cu.max_pool2d(x, *arguments, return_indices=True)
        narrow = cu.max_pool2d(x, *arguments, return_indices=True, index_dtype=np.int32)
        assert wide.values.tolist() == narrow.values.tolist() == cu.max_pool2d(x, *arguments).tolist()
        assert wide.values.tolist() == [[[9, 9]]]
        assert wide.indices.tolist() == narrow.indices.tolist() == [[[1, 1]]]
    assert set(ways) == {_pool.LARGE}


@pytest.mark.parametrize("far", [2**28, 2**29, 2**31, 2**32, 2**33, 2**40])
@pytest.mark.parametrize("channels", [1, 9])
def test_codes_that_reach_far_into_the_padding(far, channels):
    """Cut to 32 bits, such a dilation would be none, and the first and the last cell of a window the one in between."""
    window = {"kernel_size": 3, "stride": 1, "padding": far, "dilation": far, "index_format": "window"}
    codes = np.moveaxis(np.ones((5, channels), np.uint8), -1, 0)
    values = np.moveaxis(np.arange(1.0, 5 * channels + 1).reshape(5, channels), -1, 0)
    assert np.array_equal(cu.max_unpool1d(values, codes, **window), values)
    assert np.array_equal(cu.max_unpool1d_backward(values, codes, **window), values)
    for code in (0, 2, 3, 255):
        codes[-1, 3] = code
        for call in (cu.max_unpool1d, cu.max_unpool1d_backward):
            with pytest.raises(IndexError, match=rf"window code {code} at position \({channels - 1}, 3\)"):
                call(values, codes, **window)


def test_how_far_a_window_may_span():
    x = np.broadcast_to(np.int8(7), (1, 2**31 + 1, 2**30))
    window = {"kernel_size": (2, 1), "stride": 2**32}
    wide = cu.max_pool2d(x, **window, dilation=(2**30, 1), ceil_mode=True, return_indices=True)
    assert (wide.values.tolist(), wide.indices.tolist()) == ([[[7]]], [[[0]]])
    with pytest.raises(OverflowError, match=r"must span at most 2\*\*60 elements of its plane in raster order"):
        cu.max_pool2d(x, **window, dilation=(2**30 + 1, 1), ceil_mode=True)
    assert cu.max_pool2d(x, **window, dilation=(2**31, 1), return_indices=True, index_format="window")[1].sum() == 0


@pytest.mark.mostly_slow
@pytest.mark.parametrize(
    ("shape", "apart", "arguments"),
    [
        ((1, 2**26 + 9, 64), (0, 1, 1), (2, (2**24 + 1, 2))),
        ((1, 2, 67_000_000, 32), (0, 64, 0, 1), (2, (2, 131071, 2))),
        ((1, 2, 2**26 - 2, 32), (0, 64, 1, 1), (2, (2, 2**23, 2))),
    ],
)
def test_short_rows_far_apart(ways, shape, apart, arguments):
    """Rows of windows of two in C order, whose places do not fit 32 bits where each counts from the first row."""
    n = len(arguments[1])
    x = np.lib.stride_tricks.as_strided(np.arange(1 << 27, dtype=np.uint8), shape, apart)
    values, indices = reference.max_pool(x, n, *arguments)
    assert indices.max() >= 2**31
    for threads in (1, 2):
        out = np.zeros(values.shape, np.uint8), np.zeros(values.shape, np.int64)
        POOL[n](x, *arguments, return_indices=True, out=out, num_threads=threads)
        assert bits(out[0]) == bits(values)
        assert bits(out[1]) == bits(indices)
    assert all(way & WINDOW2 for way in ways)
