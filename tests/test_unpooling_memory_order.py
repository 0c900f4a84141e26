"""Windows side by side go through the output front to back, whatever the order of the axes in memory."""

from __future__ import annotations

import sys
from itertools import permutations

import numpy as np
import pytest
import reference
from cases import ALSO, LOW, POOL, UNPOOL, at_the_end_of_memory, bits, random_items

import cunpool as cu
from cunpool._kernels import unpool as _unpool

BACKWARD = {n: getattr(cu, f"max_pool{n}d_backward") for n in (1, 2, 3)}
FORMATS = ("i4", "i8", "u1", "u2")


@pytest.fixture
def ways(monkeypatch):
    """What the kernel says of the ways it took, call by call."""
    taken: list[int] = []
    unpool = _unpool.unpool
    monkeypatch.setattr(_unpool, "unpool", lambda *arguments: taken.append(unpool(*arguments)) or taken[-1])
    return taken


class Case:
    """Values, and of each the code and the place of a random cell of its window."""

    def __init__(self, rng, lead, pooled, kernel, rest=None):
        self.n, self.kernel = len(kernel), kernel
        rest = rng.integers(kernel) if rest is None else rest
        self.full = tuple(int(p * k + r) for p, k, r in zip(pooled, kernel, rest, strict=True))
        self.codes = rng.integers(np.prod(kernel), size=(*lead, *pooled))
        self.places = np.zeros_like(self.codes)
        for axis, (p, k, size) in enumerate(zip(pooled, kernel, self.full, strict=True)):
            start = (np.arange(p) * k).reshape((-1,) + (1,) * (self.n - 1 - axis))
            self.places = self.places * size + start + self.codes // int(np.prod(kernel[axis + 1 :])) % k
        self.shape = (*lead, *self.full)

    def expected(self, values):
        out = np.zeros(self.shape, values.dtype)
        planes = out.reshape(-1, int(np.prod(self.full)))
        for plane, places, some in zip(planes, self.places.reshape(len(planes), -1),
                                       values.reshape(len(planes), -1), strict=True):  # fmt: skip
            plane[places] = some
        return out

    def indices(self, kind):
        """With the argument that says which they are."""
        if kind.startswith("i"):
            return self.places.astype(kind), {}
        return self.codes.astype(kind), {"index_format": "window"}


def ordered(array, order):
    """The same array with its axes in this order in memory."""
    return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))


def every_second(axis):
    return (slice(None),) * axis + (slice(None, None, 2),)


def with_gaps(array, order, axis):
    """The same array with its axes in this order in memory, and along one of them with gaps."""
    return ordered(np.repeat(array, 2, axis), order)[every_second(axis)]


def some_order(rng, axes):
    """Batch or channels innermost as often as any other axis."""
    return rng.permutation(axes).tolist()


@pytest.mark.mostly_slow
@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8", "D"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_every_order_of_the_axes(rng, ways, n, dtype):
    taken = []
    for _ in range(60):
        kernel = tuple(int(k) for k in rng.choice([1, 2, 2, 3, 4], n))
        pooled = tuple(int(p) for p in rng.choice([1, 3, 7, 8, 17, 33, 65][: 8 - n], n))
        lead = (int(rng.choice([1, 1, 2, 3])), int(rng.choice([1, 2, 3, 5, 16, 17, 70])))
        case = Case(rng, lead, pooled, kernel)
        values = random_items(rng, np.dtype(dtype), (*lead, *pooled))
        order = some_order(rng, n + 2)
        indices, arguments = case.indices(str(rng.choice(FORMATS[: 3 if np.prod(kernel) < 256 else 4])))
        ways.clear()
        result = UNPOOL[n](ordered(values, order), ordered(indices, order), kernel, output_size=case.full,
                           num_threads=int(rng.choice([1, 3])), **arguments)  # fmt: skip
        assert bits(result) == bits(case.expected(values)), (order, case.shape, kernel)
        taken.append(ways[0])
    assert sum(way & _unpool.FILLED > 0 for way in taken) > 10
    assert not any(way & _unpool.STRAYED for way in taken)


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8", "D"])
@pytest.mark.parametrize("rest", [(0, 0), (1, 0), (0, 1)], ids=str)
def test_lines_of_windows_of_two_are_chosen_in_vectors(rng, ways, rest, dtype):
    for n in (2, 3):
        for windows in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 64, 65, 130):
            case = Case(rng, (2, 3), (*(2,) * (n - 2), 5, windows), (2,) * n, (*(0,) * (n - 2), *rest))
            values = random_items(rng, np.dtype(dtype), case.codes.shape)
            for index_format in FORMATS[:3]:
                indices, arguments = case.indices(index_format)
                for gaps in (False, True):
                    expected = case.expected(values)
                    wide = np.full((*expected.shape[:-1], expected.shape[-1] + 3 * gaps), 7, expected.dtype)
                    out = wide[..., 1:-2] if gaps else wide
                    ways.clear()
                    UNPOOL[n](values, indices, 2, output_size=case.full, out=out, **arguments)
                    assert bits(out) == bits(expected), (windows, index_format, gaps)
                    assert not gaps or (wide[..., [0, -2, -1]] == 7).all()
                    assert index_format != "window" or windows < 7 or ways[0] & _unpool.FILLED, (windows, ways)


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8", "D"])
def test_values_and_indices_in_other_orders_and_with_gaps(rng, ways, dtype):
    for _ in range(40):
        lead, pooled, kernel = (2, int(rng.choice([1, 3, 20]))), (int(rng.choice([1, 5, 18])), 9), (2, 3)
        case = Case(rng, lead, pooled, kernel)
        values = random_items(rng, np.dtype(dtype), (*lead, *pooled))
        indices, arguments = case.indices(str(rng.choice(FORMATS[:3])))
        given = []
        for array in (values, indices):
            given.append(with_gaps(array, some_order(rng, 4), int(rng.integers(4))))
        # Around `out` too.
        order, axis = some_order(rng, 4), int(rng.integers(4))
        wide = ordered(np.repeat(np.full(case.shape, 7, dtype), 2, axis), order)
        out = wide[every_second(axis)]
        UNPOOL[2](*given, kernel, output_size=case.full, out=out, **arguments)
        assert bits(out) == bits(case.expected(values))
        beside = wide[(slice(None),) * axis + (slice(1, None, 2),)]
        assert bits(beside) == bits(np.full(case.shape, 7, dtype))
    assert not any(way & _unpool.STRAYED for way in ways)


@pytest.mark.parametrize("gaps", ["in values", "in indices", "in out"])
@pytest.mark.parametrize("kind", ["i8", "u1"])
def test_gaps_along_any_axis_of_one_array_in_any_order(rng, ways, gaps, kind):
    case = Case(rng, (2, 5), (3, 9), (2, 3), (0, 1))
    values = random_items(rng, np.dtype("f4"), (2, 5, 3, 9))
    indices, arguments = case.indices(kind)
    expected = bits(case.expected(values))
    for order in permutations(range(4)):
        for axis in range(4):
            given = [(with_gaps(array, order, axis) if gaps == where else ordered(array, order))
                     for array, where in ((values, "in values"), (indices, "in indices"),
                                          (np.full(case.shape, 7, "f4"), "in out"))]  # fmt: skip
            UNPOOL[2](*given[:2], (2, 3), output_size=case.full, out=given[2], num_threads=1, **arguments)
            assert bits(given[2]) == expected, (order, axis)
    assert not any(way & _unpool.STRAYED for way in ways)
    assert sum(way == _unpool.FILLED for way in ways) > 60


@pytest.mark.slow
@pytest.mark.parametrize("channels", [2, 3, 4, 5, 8, 15, 16, 17, 32, 63, 64, 65, 1023, 1024, 1025, 2049, 4097, 5000])
@pytest.mark.parametrize("kind", ["i4", "i8", "u1"])
def test_channels_last_of_any_number(rng, ways, channels, kind):
    """A block has 8,192 bytes of values or of places, but no more than 4,096 bytes by codes."""
    case = Case(rng, (1, channels), (6, 25), (2, 2))
    for dtype in ("u1", "f2", "f4", "f8", "D"):
        values = random_items(rng, np.dtype(dtype), (1, channels, 6, 25))
        indices, arguments = case.indices(kind)
        last = [0, 2, 3, 1]
        out = np.full((case.full[0] + 2, case.full[1], channels), 7, dtype)
        UNPOOL[2](ordered(values, last), ordered(indices, last), 2, output_size=case.full,
                  out=out[1:-1].transpose(2, 0, 1)[None], **arguments)  # fmt: skip
        assert bits(out[1:-1].transpose(2, 0, 1)[None]) == bits(case.expected(values))
        assert bits(out[:: case.full[0] + 1]) == bits(np.full_like(out[:2], 7))
    assert {way & ~_unpool.STREAMED for way in ways} == {_unpool.FILLED}


@pytest.mark.parametrize("channels", [2, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("kind", ["i8", "u1"])
def test_gaps_beside_units_of_any_number(rng, ways, channels, kind):
    case = Case(rng, (1, channels), (6, 25), (2, 2))
    for dtype in ("u1", "f2", "f4", "f8", "D"):
        values = random_items(rng, np.dtype(dtype), (1, channels, 6, 25))
        indices, arguments = case.indices(kind)
        out = np.full((*case.full, channels + 3), 7, dtype)
        result = out[..., 1:-2].transpose(2, 0, 1)[None]
        UNPOOL[2](ordered(values, [0, 2, 3, 1]), ordered(indices, [0, 2, 3, 1]), 2, output_size=case.full, out=result,
                  **arguments)  # fmt: skip
        assert bits(result) == bits(case.expected(values))
        assert (out[..., :1] == 7).all()
        assert (out[..., -2:] == 7).all()
    assert {way & ~_unpool.STREAMED for way in ways} == {_unpool.FILLED}


@pytest.mark.mostly_slow
@pytest.mark.parametrize("channels", range(2, 18))
@pytest.mark.parametrize("kind", ["i8", "u1"])
def test_bytes_of_few_interleaved_channels(rng, ways, channels, kind):
    """Vectors that begin anywhere in a window: whole periods of them, what is left behind, and nothing but that."""
    for taps in range(1, 7):
        for windows in (1, 3, 7, 8, 9, 16, 17, 48, 49, 131, 400):
            case = Case(rng, (1, channels), (2, windows), (2, taps), (1, taps // 2))
            values = random_items(rng, np.dtype("u1"), (1, channels, 2, windows))
            indices, arguments = case.indices(kind)
            out = np.full((case.full[0] + 2, case.full[1], channels), 7, "u1")
            UNPOOL[2](ordered(values, [0, 2, 3, 1]), ordered(indices, [0, 2, 3, 1]), (2, taps), output_size=case.full,
                      out=out[1:-1].transpose(2, 0, 1)[None], **arguments)  # fmt: skip
            assert bits(out[1:-1].transpose(2, 0, 1)[None]) == bits(case.expected(values))
            assert (out[:: case.full[0] + 1] == 7).all()
    assert sum(way == _unpool.FILLED for way in ways) >= 24
    assert not any(way & _unpool.STRAYED for way in ways)


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [0, 2, 3, 1], [3, 2, 1, 0], [1, 0, 3, 2]])
@pytest.mark.parametrize("kind", ["f2", "f4", "f8"])
def test_gradients_are_what_adding_to_zero_gives(rng, ways, order, kind):
    case = Case(rng, (2, 5), (7, 67), (2, 3))
    grads = rng.choice([0.0, -0.0, 1.5, np.inf, np.nan, -np.nan], (2, 5, 7, 67)).astype(kind)
    expected = case.expected(grads)
    expected += 0
    expected[np.isnan(expected)] = np.nan
    for indices, arguments in map(case.indices, FORMATS[:3]):
        result = BACKWARD[2](ordered(grads, order), ordered(indices, order), case.shape, (2, 3), **arguments)
        assert bits(result) == bits(expected)
    assert {way & ~ALSO for way in ways} == {_unpool.FILLED}


@pytest.mark.mostly_slow
@pytest.mark.parametrize("order", [[0, 1, 2, 3], [0, 2, 3, 1], [3, 2, 1, 0]])
@pytest.mark.parametrize("threads", [1, 3])
def test_an_index_out_of_its_window_is_scattered_after_all(rng, ways, order, threads):
    case = Case(rng, (2, 5), (7, 67), (2, 3))
    values = ordered(random_items(rng, np.dtype("u1"), (2, 5, 7, 67)), order)
    for _ in range(20):
        at = int(rng.integers(case.places.size))
        before = case.places.flat[at]
        # In the next window, in the next row of the plane, and anywhere.
        case.places.flat[at] = (before + rng.choice([3, case.full[1], rng.integers(1, 99)])) % np.prod(case.full)
        ways.clear()
        result = UNPOOL[2](values, ordered(case.places, order), (2, 3), output_size=case.full, num_threads=threads)
        assert bits(result) == bits(case.expected(np.ascontiguousarray(values)))
        if abs(case.places.flat[at] - before) > 2 * case.full[1]:
            assert ways[0] == _unpool.FILLED | _unpool.STRAYED
        for bad in (-1, int(np.prod(case.full)), 2**32 + int(before), int(before) - 2**32):
            case.places.flat[at] = bad
            with pytest.raises(IndexError, match=f"index {bad} at"):
                UNPOOL[2](values, ordered(case.places, order), (2, 3), output_size=case.full, num_threads=threads)
        case.places.flat[at] = before
    case.codes.flat[at] = 6
    with pytest.raises(IndexError, match="window code 6 at"):
        UNPOOL[2](values, ordered(case.codes.astype("u1"), order), (2, 3), output_size=case.full,
                  index_format="window")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("order", [[0, 1, 2, 3], [0, 2, 3, 1], [3, 2, 1, 0], [0, 3, 2, 1]])
def test_results_beyond_the_caches(rng, ways, order):
    for lead, pooled, kernel, dtype in (((2, 5), (600, 301), (2, 2), "f4"), ((1, 1), (1500, 2503), (2, 2), "u2"),
                                        ((1, 900), (3, 700), (3, 2), "f4")):  # fmt: skip
        case = Case(rng, lead, pooled, kernel)
        values = rng.integers(1, 200, (*lead, *pooled)).astype(dtype)
        expected = case.expected(values)
        for indices, arguments in map(case.indices, ("i4", "u1")):
            guarded = np.full(expected.size + 99, 7, dtype)
            out = guarded[33:-66].reshape([case.shape[axis] for axis in order]).transpose(np.argsort(order))
            for threads in (1, 2):
                out.fill(7)
                UNPOOL[2](ordered(values, order), ordered(indices, order), kernel, output_size=case.full, out=out,
                          num_threads=threads, **arguments)  # fmt: skip
                assert np.array_equal(out, expected)
                assert ways[-1] & _unpool.STREAMED
                assert not ways[-1] & _unpool.STRAYED
            assert (guarded[:33] == 7).all()
            assert (guarded[-66:] == 7).all()


def test_rows_with_gaps_beyond_the_caches(rng, ways):
    case = Case(rng, (2, 5), (600, 301), (2, 2))
    values = rng.integers(1, 200, (2, 5, 600, 301)).astype("f4")
    indices, arguments = case.indices("u1")
    wide = np.full((*case.shape[:-1], case.shape[-1] + 9), 7, "f4")
    UNPOOL[2](values, indices, 2, output_size=case.full, out=wide[..., :-9], **arguments)
    assert np.array_equal(wide[..., :-9], case.expected(values))
    assert (wide[..., -9:] == 7).all()
    assert ways == [_unpool.FILLED | _unpool.STREAMED]


@pytest.mark.parametrize("kernel", [(85, 3), (86, 3)])
def test_windows_of_more_cells_than_a_byte_counts(rng, ways, kernel):
    case = Case(rng, (1, 2), (4, 41), kernel)
    values = random_items(rng, np.dtype("u1"), (1, 2, 4, 41))
    last = [0, 2, 3, 1]  # in C order such windows are scattered, and by indices in any order
    for indices, arguments in map(case.indices, ("i4", "i8", "u1" if kernel == (85, 3) else "u2")):
        given = ordered(values, last), ordered(indices, last)
        result = UNPOOL[2](*given, kernel, output_size=case.full, num_threads=1, **arguments)
        assert bits(result) == bits(case.expected(values))
    assert [bool(way & _unpool.FILLED) for way in ways] == [False, False, kernel == (85, 3)]


@pytest.mark.skipif(sys.platform != "linux", reason="pages are closed by a call of Linux")
@pytest.mark.parametrize("order", [[0, 1, 2, 3], [0, 2, 3, 1], [3, 2, 1, 0]])
@pytest.mark.parametrize("dtype", ["u1", "f4", "D"])
def test_nothing_is_touched_behind_the_arrays(rng, ways, dtype, order):
    for lead, pooled, kernel in (((1, 3), (7, 9), (2, 2)), ((2, 5), (7, 13), (2, 3)), ((1, 70), (3, 5), (1, 2))):
        case = Case(rng, lead, pooled, kernel, (0, 0))
        values = random_items(rng, np.dtype(dtype), (*lead, *pooled))
        for indices, arguments in map(case.indices, FORMATS[:3]):
            given = [at_the_end_of_memory(np.ascontiguousarray(array.transpose(order))).transpose(np.argsort(order))
                     for array in (values, indices, np.full(case.shape, 7, dtype))]  # fmt: skip
            UNPOOL[2](*given[:2], kernel, output_size=case.full, out=given[2], num_threads=1, **arguments)
            assert bits(given[2]) == bits(case.expected(values))
    assert [way & ~ALSO for way in ways].count(_unpool.FILLED) >= 3


@pytest.mark.parametrize("step", [2, 3, 4, 5, -1, -2])
@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8", "D"])
def test_items_far_apart_or_backwards(rng, ways, dtype, step):
    """Values and indices, rows that go on at the same distance and others; not a byte around them is read."""
    short = ((7, 14), (2, 3)), ((14, 9), (2, 2))
    for pooled, kernel in (
        *(((5, 40), (2, 2)), ((1, 300), (3, 2)), ((7, 64), (2, 3)), ((14, 41), (2, 2)), ((260,), (2,))),
        *short,
    ):
        case = Case(rng, (2, 3), pooled, kernel)
        for kind in FORMATS[:3]:
            indices, said = case.indices(kind)
            values = random_items(rng, np.dtype(dtype), indices.shape)
            given = []
            for array in (values, indices):
                room = np.zeros((*array.shape[:-1], array.shape[-1] * abs(step)), array.dtype)
                if sys.platform == "linux":
                    room = at_the_end_of_memory(room)
                part = room[..., abs(step) - 1 :: abs(step)]
                given.append(part if step > 0 else part[..., ::-1])
                given[-1][...] = array
            out = UNPOOL[case.n](*given, kernel, output_size=case.full, **said)
            assert bits(out) == bits(case.expected(values))
            assert LOW or ways[-1] & _unpool.FILLED or (pooled, kernel) in short
    assert LOW or len(ways) == 21


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "D"])
def test_items_whose_distance_is_no_multiple_of_their_size(rng, ways, dtype):
    """A field of a packed record, of which the other one is a byte."""
    case = Case(rng, (2, 3), (7, 40), (2, 2))
    values = random_items(rng, np.dtype(dtype), case.codes.shape)
    for kind in FORMATS[:3]:
        indices, said = case.indices(kind)
        given = []
        for array in (values, indices):
            given.append(np.zeros(array.shape, [("byte", "u1"), ("item", array.dtype)])["item"])
            given[-1][...] = array
        out = UNPOOL[2](*given, (2, 2), output_size=case.full, **said)
        assert bits(out) == bits(case.expected(values))
    assert all(way & _unpool.FILLED for way in ways)


# Windows that overlap, that begin in the padding, that are dilated and that lie apart: as many as would fill the array,
# did they lie side by side.
@pytest.mark.parametrize(("arguments", "size"), [((3, 2), 6), ((3, 3, 1), 9), ((2, 2, 0, 2), 9), ((2, 3), 9)])
@pytest.mark.parametrize("index_format", ["plane", "window"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_windows_that_do_not_lie_side_by_side_are_not_spread(rng, ways, n, index_format, arguments, size):
    full = (10, 20, *(size,) * n)
    x = rng.permutation(np.arange(1, np.prod(full) + 1, dtype=np.float32)).reshape(full)
    values, indices = POOL[n](x, *arguments, return_indices=True)
    chosen = POOL[n](x, *arguments, return_indices=True, index_format=index_format)[1]
    style = {"index_format": index_format, "dilation": arguments[3] if len(arguments) == 4 else 1}
    result = UNPOOL[n](values, chosen, *arguments[:3], output_size=full[2:], **style)
    assert bits(result) == bits(reference.max_unpool(values, indices, n, full[2:]))
    assert not ways[-1] & _unpool.FILLED


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8"])
@pytest.mark.parametrize("gap", [1, 3, 4, 8])
@pytest.mark.parametrize("full", [(16, 104), (6, 2, 208), (6, 16, 104)], ids=str)
def test_lines_that_are_no_whole_number_of_elements_apart(rng, dtype, gap, full):
    dtype, n = np.dtype(dtype), len(full)
    x = rng.permutation(6 * np.prod(full)).reshape(2, 3, *full).astype(np.float32)
    pooled, indices = POOL[n](x, 2, return_indices=True)
    values, pitch, lines = pooled.astype(dtype), full[-1] * dtype.itemsize + gap, 6 * int(np.prod(full[:-1]))
    memory = np.full(lines * pitch, 7, np.uint8)
    steps = [pitch * int(np.prod(full[axis:-1])) for axis in range(n)]
    out = np.ndarray(values.shape[:2] + full, dtype, memory, 0, (3 * steps[0], *steps, dtype.itemsize))
    UNPOOL[n](values, indices, 2, out=out)
    assert np.array_equal(out, UNPOOL[n](values, indices, 2))
    assert (memory.reshape(-1, pitch)[:, -gap:] == 7).all()


@pytest.mark.parametrize("onto", [False, True])
def test_structures_with_gaps_between_their_fields_are_copied_whole(onto):
    """Into a result whose elements are not neighbours."""
    dtype = np.dtype([("a", "i1"), ("b", "i4")], align=True)
    out = np.full((1, 1, 8, 128), 0xA5, np.uint8).view(dtype)[..., ::2]
    below = np.full((1, 1, 8, 64), 0x5A if onto else 0, np.uint8).view(dtype)
    values, indices = np.zeros((1, 1, 4, 4), dtype), np.arange(0, 64, 4).reshape(1, 1, 4, 4)
    cu.max_unpool2d(values, indices, 2, out=out, onto=below if onto else None)
    left = np.setdiff1d(np.arange(64), indices)
    assert out.reshape(-1)[left].tobytes() == below.reshape(-1)[left].tobytes()
