"""Pooling of planes that are copied to C order first: their rows lie along memory, and yet they aren't contiguous."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import vectorised
from cases import FLOATS, INTEGERS, POOL, at_the_end_of_memory, bits, random_numbers

import cunpool as cu
from cunpool._kernels import pool as _pool

COPIED = _pool.COPIED


def within(x, before, after):
    """The same cells in a larger array, full of the greatest numbers."""
    room = np.full([b + n + a for b, n, a in zip(before, x.shape, after, strict=True)], 100, x.dtype)
    part = room[tuple(slice(b, b + n) for b, n in zip(before, x.shape, strict=True))]
    part[...] = x
    return part


def unaligned(x):
    """Cells whose distance is no multiple of their size."""
    steps = [step // x.itemsize * (x.itemsize + 1) for step in np.ascontiguousarray(x).strides]
    part = np.ndarray(x.shape, x.dtype, bytearray(x.size * (x.itemsize + 1) + 1), 1, steps)
    part[...] = x
    return part


ORDERS = {
    "every second": lambda x: np.repeat(x, 2, -1)[..., ::2],
    "every third": lambda x: np.repeat(x, 3, -1)[..., ::3],
    "every fifth, rows apart": lambda x: within(np.repeat(x, 5, -1), [0] * x.ndim, [*[0] * (x.ndim - 1), 3])[..., ::5],
    "reversed": lambda x: x[..., ::-1].copy()[..., ::-1],
    "backwards": lambda x: np.flip(np.flip(x).copy()),
    "every second, backwards": lambda x: np.repeat(x[..., ::-1], 2, -1)[..., ::-2],
    "a part": lambda x: within(x, [*[0] * (x.ndim - 2), 1, 1], [*[0] * (x.ndim - 2), 2, 1]),
    "unaligned": unaligned,
    "one cell": lambda x: np.broadcast_to(x[..., :1], x.shape),
}
# In one dimension to three: windows of 2, and of more, over edges; with fewer planes than are copied together and with
# more, of which the last lot has the fewest.
CALLS = [
    ((3, 5, 30), (2,)),
    ((2, 70, 600), (3, 2, 1)),
    ((2, 3, 14, 14), (2,)),
    ((1, 40, 40, 60), (2,)),
    ((7, 11, 28, 28), (3, 2, 1)),
    ((2, 3, 9, 7), (3, 1, 1)),
    ((1, 20, 33, 31), ((2, 1), (2, 1))),
    ((2, 3, 6, 10, 12), (2,)),
    ((1, 3, 5, 12, 8), (2, 1, 1)),
]


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("full", "arguments"), CALLS)
@pytest.mark.parametrize("dtype", INTEGERS + FLOATS, ids=str)
def test_slices_are_pooled_like_their_copies(rng, dtype, full, arguments, order):
    n = len(full) - 2
    x = ORDERS[order](random_numbers(rng, dtype, full))
    values, indices = vectorised.max_pool(x.copy(), n, *arguments)
    for threads in (1, 3):
        result = POOL[n](x, *arguments, return_indices=True, num_threads=threads)
        assert [*map(bits, result)] == [bits(values), bits(indices)]
        assert bits(POOL[n](x, *arguments, num_threads=threads)) == bits(values)
    codes = POOL[n](x, *arguments, return_indices=True, index_format="window")
    plain = POOL[n](x.copy(), *arguments, return_indices=True, index_format="window")
    assert [*map(bits, codes)] == [*map(bits, plain)]


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS, ids=str)
@pytest.mark.parametrize("width", [*range(1, 12), 15, 16, 17, 31, 33, 63, 64, 65, 127, 129])
def test_rows_backwards_of_any_length(rng, dtype, width):
    plain = random_numbers(rng, dtype, (2, 3, 4, width))
    for x in (plain[..., ::-1].copy()[..., ::-1], np.flip(np.flip(plain).copy())):
        assert bits(cu.max_pool2d(x, (2, 1))) == bits(vectorised.max_pool(plain, 2, (2, 1))[0])


def test_which_planes_are_copied(rng, ways):
    """Sizes on both sides of each bound."""

    def copied(x, *arguments, **options):
        ways.clear()
        pooled = cu.max_pool2d(x, *arguments, **options)
        expected = cu.max_pool2d(x.copy(), *arguments, **{k: v for k, v in options.items() if k != "out"})
        assert bits(pooled[0] if isinstance(pooled, tuple) else pooled) == bits(
            expected[0] if isinstance(expected, tuple) else expected
        )
        return bool(ways[0] & COPIED)

    def numbers(*shape):
        return rng.integers(0, 99, shape).astype("f4")

    assert copied(numbers(1, 2, 512, 1024)[..., ::2], 2)
    assert not copied(numbers(1, 2, 513, 1024)[..., ::2], 2)
    assert copied(numbers(1, 2, 30, 80)[..., 5:69], 3, 1)
    assert not copied(numbers(1, 2, 30, 80)[..., 5:70], 3, 1)
    assert not copied(numbers(1, 2, 30, 60), 3, 1)
    assert not copied(numbers(1, 4, 30, 60)[:, ::2], 3, 1)
    # Windows of 2 are compared where they lie.
    assert not copied(numbers(1, 2, 30, 80)[..., 5:69], 2)
    # What would be packed from the copy is packed at once.
    sliced = numbers(1, 2, 40, 80)[..., ::2]
    assert copied(sliced, 5)
    assert not copied(sliced, 5, return_indices=True)
    # Rows have to lie along memory, closest to each other.
    assert not copied(numbers(1, 2, 30, 40).swapaxes(2, 3), 2)
    assert not copied(numbers(1, 30, 40, 2).transpose(0, 3, 1, 2)[..., ::2], 2)
    assert not copied(numbers(30, 40, 3, 2).transpose(3, 2, 0, 1), 2)
    # Results of which not all planes are as far apart are written where they belong, from the array itself.
    pair = numbers(2, 3, 8, 30)[..., ::2]
    assert copied(pair, 2)
    room = np.zeros((2, 4, 4, 7), np.float32)
    assert copied(pair, 2, out=room[:, :3].copy())
    assert not copied(pair, 2, out=room[:, :3])
    places = np.zeros(room.shape, np.int64)
    assert copied(pair, 2, return_indices=True, out=(None, places[:, :3].copy()))
    assert not copied(pair, 2, return_indices=True, out=(None, places[:, :3]))
    assert not copied(pair, 2, return_indices=True, out=(room[:, :3], None))
    assert not room[:, 3].any()
    assert not places[:, 3].any()
    # Each thread has planes of its own; a serial build has one thread, whatever it is asked for.
    assert copied(pair, 2, num_threads=6)
    assert copied(pair, 2, num_threads=7) != cu.openmp_enabled()


@pytest.mark.skipif(sys.platform != "linux", reason="pages are closed by a call of Linux")
@pytest.mark.parametrize("dtype", ["u1", "i2", "e", "f", "d"])
@pytest.mark.parametrize("step", [2, 3, 4, 5, -1, -2])
def test_nothing_is_looked_at_around_the_array(rng, dtype, step):
    """The last cell is the last of its page, or the first the first, and the page behind, or before, is closed."""
    for width in (1, 7, 15, 16, 17, 31, 33, 63, 65, 130):
        plain = rng.integers(0, 9, (2, 3, 6, width)).astype(dtype)
        room = np.zeros((*plain.shape[:-1], width * abs(step)), dtype)
        at_the_end = at_the_end_of_memory(room)[..., abs(step) - 1 :: abs(step)]
        for x in (at_the_end, at_the_end[..., ::-1]) if step > 0 else (at_the_end[..., ::-1],):
            x[...] = plain
            for kernel in (2, 1), (3, 1):
                pooled = cu.max_pool2d(x, kernel, 1, return_indices=True)
                assert [*map(bits, pooled)] == [*map(bits, vectorised.max_pool(plain, 2, kernel, 1))]
                assert bits(cu.max_pool2d(x, kernel, 1)) == bits(pooled[0])


@pytest.mark.parametrize("odd", [np.nan, -0.0])
def test_something_odd_in_some_planes(rng, ways, odd):
    """Values alone are filtered; a plane with something odd is packed from the copy."""
    plain = rng.integers(-5, 5, (2, 30, 28, 28)).astype("f4")
    plain[plain == 0] = 1
    plain[0, 7, 13, 20] = plain[1, 29, 27, 27] = odd
    x = np.repeat(plain, 2, -1)[..., ::2]
    for threads in (1, 2):
        pooled = cu.max_pool2d(x, 4, 1, 1, num_threads=threads)
        assert bits(pooled) == bits(vectorised.max_pool(plain, 2, 4, 1, 1)[0])
    assert set(ways) == {COPIED | _pool.SEPARATED | _pool.FILTERED}


@pytest.mark.parametrize("threads", [1, 2])
def test_results_in_any_order(rng, ways, threads):
    """With gaps, turned round or backwards: what is between them stays as it is."""
    plain = rng.integers(0, 99, (2, 6, 28, 28)).astype("i2")
    x = plain[..., ::-1].copy()[..., ::-1]
    values, indices = vectorised.max_pool(plain, 2, 2)
    for room, part in (
        ((2, 6, 14, 18), np.s_[..., 3:-1]),
        ((2, 6, 29, 45), np.s_[..., 1::2, 2:-1:3]),
        ((2, 6, 18, 18), np.s_[..., 16:2:-1, 15:1:-1]),
    ):
        for turned in (False, True):
            rooms = [np.full(room, -1, kind) for kind in (x.dtype, np.int64)]
            out = [room[part].swapaxes(-1, -2) if turned else room[part] for room in rooms]
            cu.max_pool2d(x, 2, return_indices=True, out=tuple(out), num_threads=threads)
            assert [*map(bits, out)] == [bits(values), bits(indices)]
            assert [(room == -1).sum() for room in rooms] == [rooms[0].size - values.size] * 2
    assert all(way & COPIED for way in ways)
