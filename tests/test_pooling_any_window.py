"""Pooling by packing, reaching and taking: any order in memory, any window, blocks of any size."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import reference
import vectorised
from cases import FLOATS, INTEGERS, POOL, bits, channels_last, random_numbers

import cunpool as cu
from cunpool._kernels import pool as _pool


def of_values_alone(x):
    """The way of a call without indices: an axis that is contiguous, or interleaves the channels, is filtered; small
    planes are copied for that, where rows lie along memory otherwise, or are short with gaps between them."""
    if x.strides[0] == x.itemsize:  # planes of a batch that are neighbours go the way of channels
        x = x.swapaxes(0, 1).reshape(1, -1, *x.shape[2:])
    channels = x.shape[1]
    lines = [x.itemsize] if channels == 1 or x.strides[1] != x.itemsize else [channels * x.itemsize]
    contiguous = x.strides[-1] == x.itemsize
    if contiguous:
        copied = x.shape[-1] <= 64 and not x[0, 0].flags.c_contiguous
    else:
        copied = abs(x.strides[-1]) == min(map(abs, x.strides))
    copied &= x[0, 0].nbytes <= 1 << 18 and (x.shape[0] == 1 or x.strides[0] == channels * x.strides[1])
    filtered = copied or any(step in lines for step in x.strides[2:])
    return _pool.SEPARATED | _pool.FILTERED * filtered | _pool.COPIED * copied


ORDERS = {
    "rows": lambda x: x,
    "channels last": channels_last,
    "Fortran": np.asfortranarray,
    "columns": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "reversed": lambda x: x[..., ::-1].copy()[..., ::-1],
    "every second": lambda x: np.repeat(x, 2, -1)[..., ::2],
    "channels between": lambda x: np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", INTEGERS + FLOATS, ids=str)
def test_every_dtype_in_every_order(rng, ways, dtype, order):
    for full, arguments in (((2, 3, 12, 17), (4, 1, 2)), ((1, 3, 9, 8, 7), ((2, 5, 3), (1, 1, 2), (1, 2, 1)))):
        n = len(full) - 2
        plain = random_numbers(rng, dtype, full)
        x = ORDERS[order](plain)
        ways.clear()
        result = POOL[n](x, *arguments, return_indices=True)
        codes = POOL[n](x, *arguments, return_indices=True, index_format="window")
        small = POOL[n](x, *arguments, return_indices=True, index_dtype=np.int32)
        alone = POOL[n](x, *arguments)
        # Six planes of 8-byte elements that are neighbours have 48 bytes.
        across = order == "Fortran" and full[0] == 2 and dtype.itemsize == 8
        with_indices = _pool.ACROSS | _pool.WIDTH_SWAPPED if across else _pool.SEPARATED
        assert ways == [*[with_indices] * 3, of_values_alone(x)]
        values, indices = reference.max_pool(plain, n, *arguments)
        assert [bits(r) for r in (result[0], codes[0], small[0], alone)] == [bits(values)] * 4
        assert bits(result[1]) == bits(indices)
        assert np.array_equal(small[1], indices)
        assert np.array_equal(
            cu.convert_indices(
                codes[1],
                "window",
                "plane",
                input_size=full[2:],
                **dict(zip(("kernel_size", "stride", "padding"), arguments, strict=False)),
            ),
            indices,
        )


@pytest.mark.slow
@pytest.mark.parametrize("order", ["rows", "channels last", "columns", "every second"])
@pytest.mark.parametrize(
    ("dtype", "full", "arguments"),
    [
        ("u1", (1, 1, 150, 450), (31, 1, 15)),  # several blocks along both axes, codes of two bytes
        ("u1", (1, 1, 60, 300), ((16, 16), 1, 8)),  # 256 cells: the last whose codes take one byte
        ("u1", (1, 2, 60, 400), ((1, 257), 1, (0, 128))),  # and 257
        ("f4", (1, 3, 120, 300), (7, 2, 3)),
        ("f4", (1, 70, 40, 50), (5, (2, 1), 2)),
        ("f4", (1, 64, 20, 20), (17, 1)),  # one window in so many channels is more than a block
        ("f8", (1, 1, 90, 150), (13, 3, 6, 2)),
        ("i2", (1, 2, 150, 250), ((2, 40), (1, 7), (1, 20))),
        ("e", (1, 2, 600, 90), ((40, 2), (7, 1), (20, 1))),
        ("e", (1, 1, 12, 3000), (5, 2, 2)),  # rows of more cells than are converted together
        ("f4", (1, 1, 20, 30, 40), (5, 1, 2)),
        ("u1", (1, 2, 30, 40, 50), ((2, 3, 2), 2)),
        ("f4", (1, 1, 2, 50000), ((1, 20000), (1, 2500))),  # a window beyond a block: one of its own size
    ],
)
def test_blocks_and_their_edges(rng, ways, dtype, full, arguments, order):
    n = len(full) - 2
    plain = rng.integers(0, 100, full).astype(dtype)
    if plain.dtype.kind == "f":
        plain.flat[rng.integers(0, plain.size, 5)] = np.nan
        plain.flat[rng.integers(0, plain.size, 50)] = -np.inf
        plain[..., : full[-1] // 3] = -np.inf
    else:
        plain[..., : full[-1] // 3] = np.iinfo(dtype).min
    x = ORDERS[order](plain)
    if arguments[0] == (1, 20000):
        strided = np.lib.stride_tricks.sliding_window_view(plain, 20000, -1)[..., ::2500, :]
        values = np.where(np.isnan(strided).any(-1), np.nan, np.nanmax(strided, -1)).astype(dtype)
        last_nan = 19999 - np.isnan(strided[..., ::-1]).argmax(-1)
        at = np.where(np.isnan(values), last_nan, (strided == values[..., None]).argmax(-1))
        indices = np.arange(at.shape[-1]) * 2500 + at + np.arange(full[2])[:, None] * full[3]
    else:
        values, indices = vectorised.max_pool(plain, n, *arguments)
    for threads in (1, 3):
        result = POOL[n](x, *arguments, return_indices=True, num_threads=threads)
        assert np.array_equal(result[0], values, equal_nan=plain.dtype.kind == "f")
        assert np.array_equal(result[1], indices)
        alone = POOL[n](x, *arguments, num_threads=threads)
        assert bits(alone) == bits(result[0])
    # With indices, 25 elements in many channels that are neighbours are compared as they lie.
    assert ways[0] == (_pool.ACROSS if full[1] == 70 and order == "channels last" else _pool.SEPARATED)


ROLLING = ("float32", "float64", "int8", "uint8", "float16", "bfloat16")


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS, ids=str)
def test_overlapping_windows_of_nine_cells_in_rows_of_middling_length(rng, ways, dtype):
    """Windows of 3 x 3 of some types go by rolling stripes."""
    for kernel in (3, 3), (1, 9), (9, 1):
        for width in (11, 12, 64, 65):
            plain = random_numbers(rng, dtype, (1, 3, 30, width + kernel[1] - 1))
            ways.clear()
            result = cu.max_pool2d(plain, kernel, 1, return_indices=True)
            reached = not (dtype.name in ROLLING and kernel == (3, 3))
            assert [bool(way & _pool.SEPARATED) for way in ways] == [reached]
            assert [*map(bits, result)] == [*map(bits, vectorised.max_pool(plain, 2, kernel, 1))]


@pytest.mark.parametrize("dtype", ["i1", "u1"])
@pytest.mark.parametrize("minimum", [False, True])
def test_bytes_of_any_sign_in_windows_of_more_cells_than_a_byte_counts(rng, dtype, minimum):
    x = rng.integers(0, 256, (1, 2, 40, 50)).astype("u1").view(dtype)
    pool = cu.min_pool2d if minimum else cu.max_pool2d
    expected = vectorised.max_pool(x, 2, 17, 1, 8, minimum=minimum)
    assert [*map(bits, pool(x, 17, 1, 8, return_indices=True))] == [*map(bits, expected)]


@pytest.mark.parametrize("dtype", ["u1", "i2", "e", "f", "d"])
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("kernel", [(4, 8), (3, 11), (8, 16)])
def test_each_cell_of_a_window_has_its_place(ways, kernel, last, dtype):
    """As many planes as cells, each with its maximum in another one."""
    cells = kernel[0] * kernel[1]
    x = np.zeros((1, cells, *kernel), dtype)
    x.reshape(cells, cells)[np.arange(cells), np.arange(cells)] = 1
    x = np.concatenate([x, x[:, ::-1]], -1)  # two windows in a row
    if last:
        x = channels_last(x)
    numbers = np.arange(cells)
    codes = np.stack([numbers, numbers[::-1]], -1)
    places = codes // kernel[1] * 2 * kernel[1] + codes % kernel[1] + [0, kernel[1]]
    for index_format, expected in (("window", codes), ("plane", places)):
        indices = cu.max_pool2d(x, kernel, return_indices=True, index_format=index_format).indices
        assert np.array_equal(indices[0, :, 0], expected)
    assert set(ways) == {_pool.ACROSS if last else _pool.INTERLEAVED}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["plane", "window"])
@pytest.mark.parametrize("channels", [1, 2, 3, 5, 15, 16, 33, 63, 64])
@pytest.mark.parametrize("arguments", [(2,), (3, 1, 1), (5, (1, 3), 2), ((7, 9), 4, (3, 4)), ((1, 3), (1, 700))])
def test_interleaved_results_lie_anywhere(rng, arguments, channels, form):
    """Few channels are taken with those of the next windows, where results lie as the channels do, in long rows too."""
    for dtype in rng.choice(INTEGERS + FLOATS, 2, replace=False):
        plain = random_numbers(rng, dtype, (2, channels, 9, 1300))
        x = ORDERS["channels last"](plain)
        values, indices = cu.max_pool2d(plain, *arguments, return_indices=True, index_format=form)
        for gap in (0, 1), (1, 0), (0, 0), (2, 3):
            room = [
                np.zeros((*np.array(r.shape)[[0, 2, 3]], channels + more), r.dtype)
                for r, more in zip((values, indices), gap, strict=True)
            ]
            out = tuple(np.moveaxis(r[..., :channels], -1, 1) for r in room)
            cu.max_pool2d(x, *arguments, return_indices=True, index_format=form, out=out)
            assert [*map(bits, out)] == [bits(values), bits(indices)]
            assert not any(r[..., channels:].astype(bool).any() for r in room)


def test_channels_that_are_those_of_the_next_cell_too(rng, ways):
    """As in views of windows that slide: half of the channels, a block, take all of the way to the next cell."""
    cells = random_numbers(rng, np.dtype("f4"), (64 * 401,))
    x = np.lib.stride_tricks.as_strided(cells, (1, 128, 20, 20), (0, 4, 20 * 64 * 4, 64 * 4))
    result = cu.max_pool2d(x, 6, 1, return_indices=True, num_threads=1)
    assert ways == [_pool.SEPARATED]
    assert [*map(bits, result)] == [*map(bits, vectorised.max_pool(x, 2, 6, 1))]


@pytest.mark.parametrize("dtype", ["e", ml_dtypes.bfloat16], ids=str)
def test_half_precision_keeps_every_bit(dtype):
    every = np.arange(1 << 16, dtype=np.uint16).view(np.dtype(dtype)).reshape(1, 1, 256, 256)
    assert bits(cu.max_pool2d(every, 1, 1)) == bits(every)
    # A window of two whose other cell is the lowest number keeps the first: every number but NaN beats or equals that.
    pairs = np.empty((1, 1, 256, 512), every.dtype)
    pairs[..., ::2], pairs[..., 1::2] = every, -np.inf
    assert bits(cu.max_pool2d(pairs, (1, 2))) == bits(every)


def test_a_window_larger_than_any_block_is_looked_at_cell_by_cell(ways):
    x = np.zeros((1, 3000, 3000), np.uint8)
    x[0, 2999, 2999] = 7
    values, indices = cu.max_pool2d(x, 2500, 500, return_indices=True)
    assert ways == [_pool.LARGE]
    assert values[0].tolist() == [[0, 0], [0, 7]]
    assert indices[0].tolist() == [[0, 500], [500 * 3000, 2999 * 3000 + 2999]]


@pytest.mark.parametrize("policy", ["propagate", "omit"])
@pytest.mark.parametrize("minimum", [False, True], ids=["max", "min"])
@pytest.mark.parametrize("dtype", ["e", "f4", "f8", ml_dtypes.bfloat16], ids=str)
def test_a_large_window_keeps_the_bits_of_its_element(ways, dtype, minimum, policy):
    """Quiet and signaling NaN, zeros of either sign and infinities, in windows of 5 MB and more."""
    integer = f"u{np.dtype(dtype).itemsize}"
    ones = int(np.iinfo(integer).max)
    infinity = int(np.asarray(np.inf, dtype).view(integer))
    sign = ones // 2 + 1
    zeros = np.zeros((5, 1, 1600, 1700), integer)
    zeros[:, 0, 700, 900] = sign  # a later zero of the other sign
    zeros[0, 0, 3, 4], zeros[0, 0, 30, 40] = infinity + 1, ones  # signaling, then quiet
    zeros[1, 0, 30, 40], zeros[1, 0, 3, 4] = infinity + 1, ones
    zeros[1, 0, 40, 30] = sign * minimum | infinity
    zeros[2, 0] = infinity + 3
    zeros[3, 0, 5, 5] = sign | infinity
    zeros[3, 0, 6, 6] = infinity
    x = zeros.view(dtype)
    values, indices = (cu.min_pool2d if minimum else cu.max_pool2d)(
        x, x.shape[2:], return_indices=True, nan_policy=policy, num_threads=1
    )
    assert ways == [_pool.LARGE]
    if policy == "omit":
        expected = [0, 40 * 1700 + 30, 0, 5 * 1701 if minimum else 6 * 1701, 0]
    else:
        expected = [30 * 1700 + 40, 30 * 1700 + 40, 1600 * 1700 - 1, 5 * 1701 if minimum else 6 * 1701, 0]
    assert indices.ravel().tolist() == expected
    assert bits(values.ravel()) == bits(x.reshape(5, -1)[np.arange(5), expected])


@pytest.mark.parametrize("policy", ["propagate", "omit"])
@pytest.mark.parametrize("dtype", ["i2", "f4"])
@pytest.mark.parametrize(
    ("full", "kernel", "stride", "before", "after", "dilation"),
    [
        ((3, 5), (2, 5), (1, 1), (1, 0), (4, 0), (4, 1)),  # few windows of more taps
        ((3, 5), (2, 1), (1, 1), (1, 0), (4, 0), (4, 1)),  # more windows than taps
        ((2, 5), (3, 1), (4, 1), (4, 0), (5, 0), (3, 1)),  # and a tap that is in the array in no window
    ],
)
def test_windows_that_miss_the_array(rng, ways, full, kernel, stride, before, after, dilation, dtype, policy):
    x = rng.integers(-9, 9, (2, 3, *full)).astype(dtype)
    if dtype == "f4":
        x[rng.random(x.shape) < 0.4] = np.nan
    padding = tuple(zip(before, after, strict=True))
    values, indices = cu.max_pool2d(x, kernel, stride, padding, dilation, return_indices=True, nan_policy=policy)
    assert ways == [_pool.LARGE]
    for n, c, i, j in np.ndindex(values.shape):
        rows, columns = (
            [t for t in range(at * s - p, at * s - p + k * d, d) if 0 <= t < size]
            for at, s, p, k, d, size in zip((i, j), stride, before, kernel, dilation, full, strict=True)
        )
        inside = [row * full[1] + column for row in rows for column in columns]
        cells = x[n, c].ravel()[inside]
        numbers = cells[cells == cells]
        if not inside:
            assert values[n, c, i, j] == (-np.inf if dtype == "f4" else np.iinfo(dtype).min)
        elif numbers.size and (policy == "omit" or numbers.size == cells.size):
            assert values[n, c, i, j] == numbers.max()
            assert indices[n, c, i, j] == inside[int(np.flatnonzero(cells == numbers.max())[0])]
        else:
            odd = np.flatnonzero(cells != cells)
            assert np.isnan(values[n, c, i, j])
            assert indices[n, c, i, j] == inside[odd[0] if policy == "omit" else odd[-1]]


@pytest.mark.parametrize("dtype", ["u1", "i2", "e", "f4"])
@pytest.mark.parametrize("cells", [256, 257, 65536, 65537])
def test_the_last_cell_of_a_window_of_many_has_its_place(ways, dtype, cells):
    x = np.zeros((1, cells + 2), dtype)
    x[0, cells - 1] = 1
    values, indices = cu.max_pool1d(x, cells, 1, return_indices=True)
    assert ways == [_pool.LARGE if cells > 65536 and x.itemsize < 4 else _pool.SEPARATED]
    assert values.tolist() == [[1, 1, 1]]
    assert indices.tolist() == [[cells - 1] * 3]


def test_layers_of_large_dilated_windows_have_their_places(rng, ways):
    x = random_numbers(rng, np.dtype("f4"), (1, 2, 13, 12, 20))
    arguments = (5, 7, 9), 1, 0, (3, 1, 2)  # more cells than are counted in 32 bits
    values, indices = reference.max_pool(x, 3, *arguments)
    result = cu.max_pool3d(x, *arguments, return_indices=True)
    assert ways == [_pool.SEPARATED]
    assert list(map(bits, result)) == [bits(values), bits(indices)]


@pytest.mark.parametrize("order", ["rows", "channels last", "columns"])
@pytest.mark.parametrize("arguments", [(5, 1, 0, 20), (5, 1, 0, 40), (4, 90, 0, 1), (17, 3, 0, 10)])
def test_windows_that_look_at_few_of_the_elements_between(rng, arguments, order):
    plain = random_numbers(rng, np.dtype("f4"), (1, 3, 200, 190))
    x = ORDERS[order](plain)
    values, indices = vectorised.max_pool(plain, 2, *arguments)
    result = cu.max_pool2d(x, *arguments, return_indices=True)
    assert bits(result.values) == bits(values)
    assert bits(result.indices) == bits(indices)
    codes = cu.max_pool2d(x, *arguments, return_indices=True, index_format="window").indices
    window = dict(zip(("kernel_size", "stride", "padding", "dilation"), arguments, strict=True))
    assert bits(codes) == bits(cu.convert_indices(indices, "plane", "window", input_size=(200, 190), **window))
    assert bits(cu.max_pool2d(x, *arguments)) == bits(values)


@pytest.mark.parametrize("dtype", ["u1", "f4"])
@pytest.mark.parametrize(("kernel", "stride"), [(2, 1), (3, 2), ((2, 3), 3)], ids=str)
def test_places_beyond_31_bits(ways, dtype, kernel, stride):
    """Each row of the image is the same one in memory, and the rows of windows are 2**20 rows apart."""
    row = (np.arange(300) * 7 % 11).astype(dtype)
    image = np.broadcast_to(row, (1, 1, 11 << 20, row.size))
    values, indices = cu.max_pool2d(image, kernel, (1 << 20, stride), return_indices=True, num_threads=1)
    assert ways[-1] & _pool.SEPARATED
    few = cu.max_pool2d(image[:, :, :8], kernel, (8, stride), return_indices=True)
    steps = (np.arange(11) << 20)[:, None] * row.size
    assert steps[-1] > 1 << 31
    assert np.array_equal(values, np.broadcast_to(few.values, values.shape))
    assert np.array_equal(indices, few.indices + steps)


@pytest.mark.parametrize("batch", [(70, 1), (3, 5)])
@pytest.mark.parametrize("at_once", [1 << 20, 5000])
def test_whole_planes_of_several_batches(batch, at_once, monkeypatch):
    monkeypatch.setattr("cunpool._large.BLOCK_ELEMENTS", at_once)
    x = np.random.default_rng(3).standard_normal((*batch, 32, 40)).astype("f4")
    x[0, 0, 3, 5] = x[0, 0, 30, 2] = np.nan
    y, indices = cu.max_pool2d(x, (32, 40), return_indices=True)
    flat = x.reshape(*batch, -1)
    expected = np.argmax(flat, -1)
    expected[0, 0] = 30 * 40 + 2  # the last NaN
    np.testing.assert_array_equal(indices[..., 0, 0], expected)
    np.testing.assert_array_equal(y[..., 0, 0], np.take_along_axis(flat, expected[..., None], -1)[..., 0])


def test_whole_planes_of_bytes_that_are_no_bools():
    x = np.full((1, 1, 1024), 2, np.uint8)
    x[0, 0, 77] = 1
    y, indices = cu.min_pool1d(x.view(bool), 1024, return_indices=True)
    assert y.view(np.uint8).item() == 1
    assert indices.item() == 77


def test_windows_that_all_miss_along_one_axis_take_no_time():
    k = 10**9
    y, indices = cu.max_pool2d(
        np.zeros((1, 1, 1, 1), "f4"), (k, 2), (k // 4, 1), ((k - 1, k - 1), (4, 1)), (1, 5), return_indices=True
    )
    assert np.isneginf(y).all()
    assert indices.shape == y.shape
