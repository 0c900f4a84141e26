"""Indices and codes that just miss: their windows, the rows that share a task, their planes, all of the array."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from cases import UNPOOL, bits

import cunpool as cu

UNPOOL_BACKWARD = {n: getattr(cu, f"max_unpool{n}d_backward") for n in (1, 2, 3)}
POOL_BACKWARD = {n: getattr(cu, f"max_pool{n}d_backward") for n in (1, 2, 3)}


@pytest.fixture(autouse=True)
def split(monkeypatch):
    """So that small arrays are split between threads too."""
    monkeypatch.setattr("cunpool._threads.GRAIN", 1)


def first_cells(pooled, full, stride, padding):
    """The place of each window's first cell inside the plane."""
    at = [(np.arange(size) * stride - padding).clip(0) for size in pooled]
    return reference.places(reference.crossed(at), full)


def steps(full):
    """From a cell to its neighbours on each axis, and to those one further."""
    widths = [int(np.prod(full[axis + 1 :])) for axis in range(len(full))]
    return sorted({sign * far * width for width in widths for far in (1, 2, 3) for sign in (1, -1)} | {2**31, -(2**31)})


@pytest.mark.mostly_slow
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("pooled", "full", "window"),
    [
        ((50,), (101,), (2, 2, 0)),
        ((3, 40), (6, 81), (2, 2, 0)),
        ((2, 2, 41), (5, 5, 83), (2, 2, 0)),
        ((4, 6), (7, 11), (3, 2, 1)),
        ((7, 6), (14, 12), (2, 2, 0)),
        ((3, 3, 3), (7, 7, 7), (3, 2, 0)),
        ((4, 4, 4), (6, 6, 6), (5, 2, 2)),
        ((60,), (119,), (3, 2, 1)),
    ],
    ids=str,
)
def test_an_index_near_its_window(pooled, full, window, threads):
    """Of the first, a middle and the last window, in turn: everything that is not among its cells, and some that is."""
    n, size = len(full), int(np.prod(full))
    indices = np.broadcast_to(first_cells(pooled, full, window[1], window[2]), (2, 1, *pooled)).copy()
    values = np.arange(1.0, indices.size + 1, dtype=np.float32).reshape(indices.shape)
    expected = reference.max_unpool(values, indices, n, full).reshape(-1)
    windows = int(np.prod(pooled))
    for at in (0, windows // 2, windows - 1, windows, 2 * windows - 1):
        home, plane = int(indices.flat[at]), at // windows
        for step in steps(full):
            chosen = indices.copy()
            chosen.flat[at] = home + step
            if not 0 <= home + step < size:
                for call in calls(n, values, chosen, full, window, threads):
                    with pytest.raises(IndexError, match=f"index {home + step} at"):
                        call()
                continue
            # Windows that go to the cell it left, and to the one it goes to: the last one stays.
            wanted = expected.copy()
            for place in (home, home + step):
                there = np.flatnonzero(chosen.reshape(2, -1)[plane] == place)
                wanted[plane * size + place] = values.reshape(2, -1)[plane, there[-1]] if len(there) else 0
            unpool, add, gather = calls(n, values, chosen, full, window, threads)
            assert np.array_equal(unpool().reshape(-1), wanted), (at, step)
            added = np.zeros((2, size), np.float32)
            for row, places, grads in zip(added, chosen.reshape(2, -1), values.reshape(2, -1), strict=True):
                np.add.at(row, places, grads)
            assert np.array_equal(add().reshape(2, -1), added), (at, step)
            assert np.array_equal(gather(), chosen), (at, step)


def calls(n, values, indices, full, window, threads):
    """Each operation by these indices; of gathering, from cells that hold their own places."""
    places = np.broadcast_to(np.arange(np.prod(full)).reshape(full), (*indices.shape[:-n], *full))
    return (
        lambda: UNPOOL[n](values, indices, *window, output_size=full, num_threads=threads),
        lambda: POOL_BACKWARD[n](values, indices, full, *window, num_threads=threads),
        lambda: UNPOOL_BACKWARD[n](places, indices, *window, num_threads=threads),
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["i8", "i4", "u1", "f2", "D"])
def test_an_index_near_its_window_in_a_large_gradient(kind):
    """Large arrays are gathered in rows; a window's neighbour cells must not be taken for its own."""
    dtype = np.dtype(kind)
    full = (2, 2 * (((1 << 25) + 4096 * dtype.itemsize) // (4 * dtype.itemsize)))
    grad = np.zeros((1, *full), dtype)
    pooled = (1, full[1] // 2)
    indices = np.arange(pooled[1], dtype=np.int64).reshape(1, *pooled) * 2
    for at in (0, 63, 64, 1023, 1024, pooled[1] - 1):
        for step in (-1, 2, full[1] - 1, full[1] + 2):
            place = 2 * at + step
            if not 0 <= place < 2 * full[1]:
                continue
            grad.reshape(-1)[place] = 1
            indices[0, 0, at] = place
            result = cu.max_unpool2d_backward(grad, indices, 2)
            assert np.array_equal(result, grad.reshape(-1)[indices]), (at, step)
            grad.reshape(-1)[place] = 0
            indices[0, 0, at] = 2 * at


@pytest.mark.mostly_slow
@pytest.mark.parametrize("channels", [8, 9, 17, 300])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_an_index_just_past_the_end_in_any_channel(channels, dtype):
    values = np.ones((2, 3, 4, channels), np.float32).transpose(0, 3, 1, 2)
    full = np.ones((2, 6, 8, channels), np.float32).transpose(0, 3, 1, 2)
    indices = np.zeros((2, 3, 4, channels), dtype).transpose(0, 3, 1, 2)
    for at in ((0, 0, 0, 0), (1, channels - 1, 2, 3), (0, channels // 2, 1, 3), (1, 0, 2, 3)):
        for bad in (48, -1, 49):
            indices[at] = bad
            message = rf"index {bad} at position \({', '.join(map(str, at))}\)"
            for threads in (1, 3):
                with pytest.raises(IndexError, match=message):
                    cu.max_unpool2d(values, indices, 2, num_threads=threads)
                with pytest.raises(IndexError, match=message):
                    cu.max_pool2d_backward(values, indices, (6, 8), 2, num_threads=threads)
                with pytest.raises(IndexError, match=message):
                    cu.max_unpool2d_backward(full, indices, 2, num_threads=threads)
            indices[at] = 47
        assert cu.max_unpool2d(values, indices, 2)[(*at[:2], 5, 7)] == 1
        assert (cu.max_unpool2d_backward(full, indices, 2) == 1).all()
        indices[at] = 0


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("pooled", "full", "window"),
    [
        ((2, 2), (4, 4), (3, 2, 1)),
        ((2, 2), (3, 3), (3, 2, 1)),
        ((3, 3), (4, 4), (2, 2, 1)),
        ((3, 2), (6, 4), (2, 2, 0)),
        ((3, 2), (5, 4), (2, 2, 0)),
        ((2, 20), (4, 39), (2, 2, 0)),
        ((2, 20), (4, 40), (2, 2, 0)),
        ((2, 2), (5, 7), (2, 2, 0, 3)),
        ((2, 2, 2), (4, 4, 4), (3, 2, 1)),
        ((2, 2, 3), (3, 3, 4), (2, 2, (1, 1, 1))),
        ((2, 2, 3), (4, 3, 6), (2, 2, 0)),
        ((2, 4, 4), (1, 3, 3), (2, 1, 1)),  # over two edges at once: a layer before and a row behind
        ((2, 2, 3), (3, 4, 6), (2, 2, (1, 0, 0))),
        ((7,), (12,), (3, 2, 1)),
        ((1, 2), (33, 14), ((33, 8), (1, 6), 0)),
        ((1, 1, 2), (4, 12, 13), ((2, 12, 11), (3, 1, 2), 0)),  # the first code beyond a window would be a place
        ((1, 2), (6, 97), ((6, 49), (1, 49), 0)),  # 49 times one by 49 is less than one
        ((1, 1, 2), (2, 49, 5), ((2, 49, 3), (1, 1, 3), (0, 0, 1))),
        # Windows of so many cells, rows and layers that a code is no longer divided in 32 bits, and of just fewer.
        ((2,), (1080,), (1050, 50, 12)),
        ((2,), (1060,), (1023, 50, 12)),
        ((1, 1, 2), (64, 65, 2), ((64, 65, 1), 1, 0)),
        ((1, 2, 1), (15, 16, 15), (17, 1, 1)),
        ((2, 1, 1), (12, 11, 11), (11, 1, 0)),
        ((2, 1, 1), (18, 17, 17), (17, 1, 0)),
        ((2, 1), (70, 64), ((64, 64), (6, 1), 0)),
        ((1, 2), (219, 111), ((110, 110), 1, 0, (2, 1))),
    ],
    ids=str,
)
def test_every_code_of_every_window(pooled, full, window, threads):
    """It goes to its cell if that lies in the plane, and is named if it does not."""
    n = len(full)
    kernel, stride, padding, dilation = (reference.each(v, n) for v in (*window, 1)[:4])
    cells = int(np.prod(kernel))
    dtype = np.uint8 if cells <= 256 else np.uint16
    starts = [np.arange(size) * s - p for size, s, p in zip(pooled, stride, padding, strict=True)]
    taps = np.array(list(np.ndindex(kernel)))
    chosen_codes = range(cells + 2) if cells < 600 else [*range(0, cells, 97), *range(cells - 70, cells + 2)]
    keywords = {"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation,
                "index_format": "window", "num_threads": threads}  # fmt: skip
    for channels in (1, 9):  # one plane after the other, or all at once
        shape = (*pooled, channels)
        good = np.zeros(pooled, np.int64)
        for window_at in np.ndindex(pooled):
            at = np.array([s[w] for s, w in zip(starts, window_at, strict=True)]) + taps * dilation
            good[window_at] = int(np.argmax(((at >= 0) & (at < full)).all(1)))
        codes = np.moveaxis(np.broadcast_to(good[..., None], shape).astype(dtype), -1, 0)
        values = np.moveaxis(np.ones(shape, np.float32), -1, 0)
        cells_of = np.moveaxis(np.empty((*full, channels), np.int64), -1, 0)
        cells_of[...] = np.arange(np.prod(full)).reshape(full)
        for window_at in np.ndindex(pooled):
            position = (channels - 1, *window_at)
            for code in chosen_codes:
                if code > np.iinfo(dtype).max:
                    continue
                wrong = codes.copy("K")
                wrong[position] = code
                inside = False
                if code < cells:
                    at = np.array([s[w] for s, w in zip(starts, window_at, strict=True)]) + taps[code] * dilation
                    inside = bool(((at >= 0) & (at < full)).all())
                unpool = lambda: UNPOOL[n](values, wrong, output_size=full, **keywords)  # noqa: B023, E731
                gather = lambda: UNPOOL_BACKWARD[n](cells_of, wrong, **keywords)  # noqa: B023, E731
                if inside:
                    place = int(np.ravel_multi_index(at, full))
                    assert gather()[position] == place
                    assert unpool()[channels - 1].flat[place] == 1
                    continue
                for call in (unpool, gather):
                    with pytest.raises(IndexError, match=rf"window code {code} at position \({str(position)[1:-1]}\)"):
                        call()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("pooled", "window"),
    [
        ((9,), (1, 2, 1)),
        ((4, 5), (1, 2, 1)),
        ((3, 4, 5), (1, 2, 1)),
        ((7, 6), (2, 2, (3, 2))),
        ((5, 4, 3), (1, 1, (2, 1, 0))),
        ((6, 6), ((3, 1), 1, (0, 2))),
    ],
    ids=str,
)
def test_windows_without_any_cell(rng, pooled, window, threads):
    """Windows that lie in the padding altogether can have any index, the last of the plane too."""
    n = len(pooled)
    full = reference.default_size(pooled, n, *window)
    values = rng.integers(1, 99, (2, 1, *pooled)).astype(np.float32)
    indices = rng.integers(0, np.prod(full), values.shape)
    for last in (False, True):
        if last:
            indices[(..., *(-1,) * n)] = indices[(..., *(0,) * n)] = np.prod(full) - 1
        unpool, _, gather = calls(n, values, indices, full, window, threads)
        assert bits(unpool()) == bits(reference.max_unpool(values, indices, n, full))
        assert np.array_equal(gather(), indices)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("pooled", "window", "full"),
    [  # in rows before the plane, and behind it
        ((4, 5), (1, (2, 1), (1, 0)), (6, 5)),
        ((3, 5), (1, (2, 1), 0), (4, 5)),
        ((3, 3, 2), (1, (2, 1, 1), (1, 0, 0)), (4, 3, 2)),
        ((3, 3, 2), (1, (2, 1, 1), 0), (4, 3, 2)),
    ],
    ids=str,
)
def test_rows_without_any_cell_beside_others_that_name_their_own(rng, pooled, window, full, threads):
    """No other index is a stray, by which a task would notice that there are some."""
    n = len(pooled)
    first = []
    for size, inside, stride, padding in zip(pooled, full, *(np.broadcast_to(w, n) for w in window[1:]), strict=True):
        cell = np.arange(size) * stride - padding
        first.append(np.where((cell >= 0) & (cell < inside), cell, -1))
    at = np.stack(np.meshgrid(*first, indexing="ij"))
    without = (at < 0).any(0)
    own = np.ravel_multi_index(tuple(np.maximum(at, 0)), full)
    values = rng.integers(1, 99, (2, 1, *pooled)).astype(np.float32)
    for _ in range(9):
        indices = np.where(without, rng.integers(0, np.prod(full), values.shape), own)
        unpool, _, gather = calls(n, values, indices, full, window, threads)
        assert bits(unpool()) == bits(reference.max_unpool(values, indices, n, full))
        assert np.array_equal(gather(), indices)


def test_a_stray_in_any_of_many_tasks_is_found():
    """Where many tasks follow each other on one thread, and where each thread has one."""
    values = np.ones((1, 64, 96), np.float32)
    indices = np.broadcast_to(first_cells((64, 96), (128, 192), 2, 0), values.shape).copy()
    for threads in (1, 2, 3, 8):
        for row in (0, 7, 8, 31, 32, 41, 55, 63):
            wrong = indices.copy()
            wrong[0, row, 50] = 128 * 192 - 1 - row * 128 * 3 // 2
            result = cu.max_unpool2d(values, wrong, 2, num_threads=threads)
            assert bits(result) == bits(reference_unpool(values, wrong, (128, 192)))
            wrong[0, row, 50] = 128 * 192
            with pytest.raises(IndexError, match=rf"index 24576 at position \(0, {row}, 50\)"):
                cu.max_unpool2d(values, wrong, 2, num_threads=threads)


def reference_unpool(values, indices, full):
    """For ones, where it does not matter which comes last."""
    result = np.zeros((len(values), full[0] * full[1]), values.dtype)
    np.put_along_axis(result, indices.reshape(len(values), -1), values.reshape(len(values), -1), 1)
    return result.reshape(len(values), *full)
