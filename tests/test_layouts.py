"""Every operation on arrays of every order of the axes, and with gaps between the entries of every axis."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
import reference
import vectorised
from cases import POOL, UNPOOL, bits, random_numbers

import cunpool as cu
from cunpool._kernels import pool as _pool

UNPOOL_BACKWARD = {n: getattr(cu, f"max_unpool{n}d_backward") for n in (1, 2, 3)}
POOL_BACKWARD = {n: getattr(cu, f"max_pool{n}d_backward") for n in (1, 2, 3)}

# N and C, the full size, and the window: sizes for each way through the kernels.
GEOMETRIES = [
    ((2, 3), (101,), (2,)),
    ((5, 60), (14,), (2,)),
    ((2, 3), (1300,), (3, 2)),
    ((2, 3), (7, 81), (2,)),  # rows of 40 windows of 2
    ((2, 3), (4, 64), (2,)),  # of whole vectors
    ((2, 3), (5, 35), (2,)),
    ((5, 8), (28, 14), (2,)),  # short rows, which are joined where they are codes
    ((5, 8), (29, 15), (2,)),
    ((2, 3), (6, 127), (3,)),
    ((2, 3), (5, 164), ((1, 4),)),
    ((2, 3), (11, 13), (3, 2, 1)),
    ((3, 5), (8, 9), (3, 2)),
    ((2, 3), (8, 9), (2,)),
    ((2, 3), (7, 601), (3, 2, 1)),  # rows of more codes than are decoded together
    ((2, 3), (7, 601), (3, 2)),
    ((2, 3), (9, 10), (2, 3)),
    ((2, 3), (18, 34), ((17, 16), (1, 6))),  # codes of two bytes
    ((2, 9), (9, 11), (3, 2, 1)),  # as many channels as are worked on together
    ((2, 17), (5, 7), (2,)),
    ((40, 3), (6, 6), (2,)),
    ((2, 3), (4, 5, 82), (2,)),
    ((1, 2), (5, 7, 70), ((2, 1, 2),)),
    ((2, 3), (5, 6, 33), ((1, 2, 2),)),
    ((2, 2), (5, 6, 7), (3, 2, 1)),
    ((2, 2), (4, 9, 9), (2,)),
    ((1, 3), (3, 520, 5), ((1, 2, 2),)),
    ((1, 2), (4, 33), ((4, 3), 1)),  # rows of windows that reach over the whole plane
    ((2, 3), (41, 3), (2,)),  # rows of one window
]


def ids(geometry):
    lead, full, window = geometry
    return f"{lead + full} {window}"


def apart(array, axis, fill):
    """The same entries with others between them along one axis; and the memory of both."""
    shape = list(array.shape)
    shape[axis] *= 2
    memory = np.full(shape, fill, array.dtype)
    part = memory[tuple(slice(None, None, 2 if a == axis % array.ndim else 1) for a in range(array.ndim))]
    part[...] = array
    return part, memory


def in_order(array, order):
    """The same entries, with the axes in this order in memory, outermost first."""
    return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))


def orders(axes):
    """All orders of 3 and 4 axes; of 5 axes every seventh."""
    return list(itertools.permutations(range(axes)))[:: 7 if axes == 5 else 1]


class Case:
    """A pooling and what follows from it, by the definitions."""

    def __init__(self, rng, lead, full, window, x=None):
        self.n, self.full, self.window = len(full), full, window
        self.x = random_numbers(rng, np.dtype("f4"), lead + full) if x is None else x
        self.values, self.indices = vectorised.max_pool(self.x, self.n, *window)
        small = np.prod(reference.each(window[0], self.n)) <= 256
        self.codes = reference.codes(self.indices, full, self.n, *window).astype(np.uint8 if small else np.uint16)
        self.unpooled = reference.max_unpool(self.values, self.indices, self.n, full)
        # Whole numbers, whose sums are the same in any order.
        self.grad = rng.integers(-9, 9, self.values.shape).astype(np.float32)
        self.added = np.zeros(self.x.shape, np.float32).reshape(int(np.prod(lead)), -1)
        for plane, places, grads in zip(self.added, planes(self.indices, lead), planes(self.grad, lead), strict=True):
            np.add.at(plane, places, grads)
        self.added = self.added.reshape(self.x.shape)
        self.gathered = np.take_along_axis(planes(self.x, lead), planes(self.indices, lead), 1).reshape(self.grad.shape)

    def calls(self):
        """Each operation, what it reads and what has to come of it."""
        n, window = self.n, self.window
        for places, index_format in ((self.indices, "plane"), (self.indices.astype(np.int32), "plane"),
                                     (self.codes, "window")):  # fmt: skip
            style = {"index_format": index_format}

            def unpool(values, chosen, out, style=style, **keywords):
                return UNPOOL[n](values, chosen, *window, output_size=self.full, out=out, **style, **keywords)

            def pool_backward(grad, chosen, out, style=style, **keywords):
                return POOL_BACKWARD[n](grad, chosen, self.full, *window, out=out, **style, **keywords)

            def unpool_backward(grad, chosen, out, style=style, **keywords):
                return UNPOOL_BACKWARD[n](grad, chosen, *window, out=out, **style, **keywords)

            yield unpool, self.values, places, self.unpooled
            yield pool_backward, self.grad, places, self.added
            yield unpool_backward, self.x, places, self.gathered


def planes(array, lead):
    return array.reshape(int(np.prod(lead)), -1)


@pytest.fixture
def split(monkeypatch):
    """So that small arrays are split between threads too."""
    monkeypatch.setattr("cunpool._threads.GRAIN", 1)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=ids)
def test_gaps_between_the_entries_of_any_axis(rng, split, geometry, threads):
    case = Case(rng, *geometry)
    for call, given, places, expected in case.calls():
        for axis in range(given.ndim):
            wide, _ = apart(given, axis, 77)
            assert bits(call(wide, places, None, num_threads=threads)) == bits(expected), ("values", axis)
            wide, _ = apart(places, axis, 1)
            assert bits(call(given, wide, None, num_threads=threads)) == bits(expected), ("indices", axis)
            out, memory = apart(np.full(expected.shape, 7, expected.dtype), axis, -5)
            assert call(given, places, out, num_threads=threads) is out
            assert bits(out) == bits(expected), ("out", axis)
            out.fill(-5)
            assert (memory == -5).all(), ("beside out", axis)
    for axis in range(case.x.ndim):
        wide, _ = apart(case.x, axis, np.inf)
        check_pooling(case, wide, threads)


def backwards(array, axis):
    """The same entries, with one axis the other way round in memory."""
    return np.flip(np.flip(array, axis).copy(), axis)


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=ids)
def test_any_axis_backwards(rng, split, geometry):
    """Its neighbours are as far apart as they were, and so is all else."""
    case = Case(rng, *geometry)
    for axis in range(case.x.ndim):
        for call, given, places, expected in case.calls():
            for some in ((backwards(given, axis), places), (given, backwards(places, axis))):
                assert bits(call(*some, None, num_threads=1)) == bits(expected), axis
            out = backwards(np.full(expected.shape, 7, expected.dtype), axis)
            assert bits(call(given, places, out, num_threads=1)) == bits(expected), axis
        check_pooling(case, backwards(case.x, axis), 1)
        out = backwards(np.zeros_like(case.values), axis), backwards(np.zeros_like(case.indices), axis)
        for some in (out, (out[0], None), (None, out[1])):
            values, indices = POOL[case.n](case.x, *case.window, return_indices=True, out=some)
            assert bits(values) == bits(case.values), axis
            assert bits(indices) == bits(case.indices), axis


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=ids)
def test_any_order_of_the_axes_in_memory(rng, split, geometry, threads):
    case = Case(rng, *geometry)
    for order in orders(case.x.ndim):
        for call, given, places, expected in case.calls():
            result = call(in_order(given, order), in_order(places, order), None, num_threads=threads)
            assert bits(result) == bits(expected), order
            out = in_order(np.full(expected.shape, 7, expected.dtype), order)
            call(given, places, out, num_threads=threads)
            assert bits(out) == bits(expected), order
        check_pooling(case, in_order(case.x, order), threads)


def held_once(array, axes):
    """The first entries of these axes in the place of all others, and in memory but once."""
    first = array[tuple(slice(1) if axis in axes else slice(None) for axis in range(array.ndim))]
    return np.broadcast_to(first, array.shape)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=ids)
def test_entries_that_any_axes_repeat(rng, split, geometry, threads):
    """A stride is zero then, which says nothing of how rows follow each other."""
    case = Case(rng, *geometry)
    axes = range(case.x.ndim)
    for some in itertools.chain.from_iterable(itertools.combinations(axes, count) for count in axes[1:]):
        for call, given, places, _ in case.calls():
            for arguments in ((held_once(given, some), places), (given, held_once(places, some)),
                              (held_once(given, some), held_once(places, some))):  # fmt: skip
                try:
                    expected = bits(call(*map(np.array, arguments), None, num_threads=1))
                except IndexError as error:  # a code of another window names a cell of the padding in this one
                    with pytest.raises(IndexError, match=re.escape(str(error))):
                        call(*arguments, None, num_threads=threads)
                else:
                    assert bits(call(*arguments, None, num_threads=threads)) == expected, some
        again = Case(rng, *geometry, x=np.array(held_once(case.x, some)))
        check_pooling(again, held_once(case.x, some), threads)


def test_windows_that_slide_over_an_array(rng, ways):
    """They are a batch of neighbours, but their cells are neighbours too, and rows are better."""
    signal = random_numbers(rng, np.dtype("f4"), (500,))
    slid = np.lib.stride_tricks.sliding_window_view(signal, 200)[:, None]
    for arguments in ((3, 1, 1), (5, 3)):
        ways.clear()
        for return_indices in (False, True):
            result = cu.max_pool1d(slid, *arguments, return_indices=return_indices)
            expected = cu.max_pool1d(slid.copy(), *arguments, return_indices=return_indices)
            assert list(map(bits, result)) == list(map(bits, expected))
        assert [way & ~_pool.STACKED for way in ways[::2]] == [way & ~_pool.STACKED for way in ways[1::2]]
        indices = result.indices
        gradients = (cu.max_unpool1d_backward(x, indices, *arguments) for x in (slid, slid.copy()))
        assert len(set(map(bits, gradients))) == 1


@pytest.mark.parametrize("lead", [(8, 3), (2, 16), (4, 1)])
@pytest.mark.parametrize("window", [(2,), (3, 2, 1)])
def test_a_batch_in_fortran_order_goes_the_way_of_channels_last(rng, ways, lead, window):
    x = random_numbers(rng, np.dtype("f4"), (*lead, 20, 30))
    planes = lead[0] * lead[1]

    def last(array):  # one image of as many channels as there are planes, which are neighbours
        return in_order(array.swapaxes(0, 1).reshape(1, planes, *array.shape[2:]), (0, 3, 2, 1))

    def calls(given):
        ways.clear()
        values, indices = cu.max_pool2d(given, *window, return_indices=True)
        codes = cu.max_pool2d(given, *window, return_indices=True, index_format="window").indices
        results = [values, indices, codes, cu.max_pool2d(given, *window)]
        for places, index_format in ((indices, "plane"), (codes, "window")):
            style = {"index_format": index_format}
            results += [
                cu.max_unpool2d(values, places, *window, output_size=(20, 30), **style),
                cu.max_unpool2d_backward(given, places, *window, **style),
                cu.max_pool2d_backward(values, places, (20, 30), *window, **style),
            ]
        return results, list(ways)

    results, taken = calls(np.asfortranarray(x))
    expected, expected_ways = calls(last(x))
    assert taken == expected_ways
    for result, other in zip(results, expected, strict=True):
        assert bits(last(result)) == bits(other)
        assert result.strides[0] == result.itemsize


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (3, 2, 1, 0)])
@pytest.mark.parametrize("index", ["i4", "i8", "codes"])
def test_planes_that_are_neighbours_in_some_arrays_alone(rng, index, order):
    x = random_numbers(rng, np.dtype("f4"), (2, 9, 9, 11))
    values, indices = cu.max_pool2d(x, 3, 2, 1, return_indices=True)
    expected = reference.max_unpool(values, indices, 2, (9, 11))
    style = {"index_format": "window"} if index == "codes" else {}
    places = cu.max_pool2d(x, 3, 2, 1, return_indices=True, **style).indices
    places = places if style else places.astype(index)
    gathered = np.take_along_axis(x.reshape(2, 9, -1), indices.reshape(2, 9, -1), 2).reshape(values.shape)
    for last in itertools.product((False, True), repeat=3):
        into, given, beside = (in_order(array, order) if turned else array.copy()
                               for turned, array in zip(last, (x, values, places), strict=True))  # fmt: skip
        cu.max_unpool2d(given, beside, 3, 2, 1, (9, 11), out=into, **style)
        assert bits(into) == bits(expected), last
        into[...] = x
        assert bits(cu.max_unpool2d_backward(into, beside, 3, 2, 1, out=given, **style)) == bits(gathered), last
        if index != "i4":
            given.fill(0)
            cu.max_pool2d(into, 3, 2, 1, return_indices=True, out=(given, beside), **style)
            assert bits(given) == bits(values), last
            assert bits(beside) == bits(places), last


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_indices_between_which_others_name_cells_of_the_windows(dtype):
    """Read without the gaps these would all lie in their windows, and nobody would see that they are the wrong ones."""
    memory = np.zeros((1, 2, 3, 128), dtype)
    memory[..., :64] = np.arange(3)[:, None] * 256 + np.arange(64) * 2
    values = np.arange(1.0, 385, dtype=np.float32).reshape(1, 2, 3, 64)
    expected = reference.max_unpool(values, memory[..., ::2], 2, (6, 128))
    assert bits(cu.max_unpool2d(values, memory[..., ::2], 2)) == bits(expected)


def check_pooling(case, x, threads):
    for places, index_format in ((case.indices, "plane"), (case.codes, "window")):
        values, found = POOL[case.n](x, *case.window, return_indices=True, index_format=index_format,
                                     num_threads=threads)  # fmt: skip
        assert bits(values) == bits(case.values), x.strides
        assert bits(found) == bits(places), x.strides
    assert bits(POOL[case.n](x, *case.window, num_threads=threads)) == bits(case.values), x.strides


@pytest.mark.parametrize("window", [(2,), (3, 2, 1), ((1, 3), (1, 1), 0, 2)], ids=str)
@pytest.mark.parametrize(
    "shape", [(2, 16, 8, 13), (1, 37, 5, 30), (2, 100, 4, 9), (1, 256, 3, 8), (1, 300, 3, 8), (1, 600, 3, 8)], ids=str
)
def test_results_of_windows_in_all_channels(rng, shape, window):
    """Some windows of a row at once, where their values and indices follow each other, as no gap is between them."""
    x = random_numbers(rng, np.dtype("f4"), shape)
    values, indices = vectorised.max_pool(x, 2, *window)
    codes = reference.codes(indices, shape[2:], 2, *window).astype(np.uint8)
    last = (0, 2, 3, 1)
    for places, index_format in ((indices, "plane"), (indices.astype("i4"), "plane"), (codes, "window")):
        plain = in_order(np.zeros_like(values), last), in_order(np.zeros_like(places), last)
        outs = [plain]
        for axis in (1, 3):
            outs += [(apart(plain[0], axis, 7)[0], plain[1]), (plain[0], apart(plain[1], axis, 7)[0])]
        for axes in (last, (3, 0, 2, 1), (0, 2, 1, 3)):
            spaced = in_order(np.zeros((*values.shape[:-1], 2 * values.shape[-1]), values.dtype), axes)[..., ::2]
            outs += [(spaced, plain[1]), (plain[0], np.zeros_like(spaced, places.dtype))]
        for out in outs:
            for given in (in_order(x, last), backwards(in_order(x, last), 3)):
                cu.max_pool2d(given, *window, return_indices=True, index_format=index_format, out=out)
                assert bits(out[0]) == bits(values)
                assert bits(out[1]) == bits(places)


@pytest.mark.parametrize("channels", [16, 17, 23, 31, 33, 40, 63, 65])
def test_rows_of_windows_of_bytes_in_all_channels(rng, channels):
    """As many at once as the buffers hold, and behind the last of them whole vectors."""
    for size in (40, 64, 131):
        x = in_order(random_numbers(rng, np.dtype("u1"), (1, channels, 4, size)), (0, 2, 3, 1))
        values, indices = vectorised.max_pool(x, 2, 2)
        for index_format in ("plane", "window"):
            result = cu.max_pool2d(x, 2, return_indices=True, index_format=index_format)
            assert bits(result.values) == bits(values)
            codes = reference.codes(indices, (4, size), 2, 2).astype(np.uint8)
            assert bits(result.indices) == bits(indices if index_format == "plane" else codes)


@pytest.mark.parametrize("channels", [1, 5, 16, 40])
def test_rows_of_windows_that_miss_the_array(rng, channels):
    """Between the cells of their windows there is more than the array has, along another axis than the rows."""
    for n, full, window in ((2, (2, 8), (2, 1, (1, 0), (3, 1))), (3, (2, 3, 20), (2, 1, (1, 0, 0), (3, 1, 1))),
                            (3, (3, 2, 20), ((1, 2, 2), (1, 1, 2), (0, 1, 0), (1, 3, 1)))):  # fmt: skip
        x = random_numbers(rng, np.dtype("f4"), (2, channels, *full))
        values, indices = reference.max_pool(x, n, *window)
        given = in_order(x, (0, *range(2, n + 2), 1))
        for some in (x, given):
            found = POOL[n](some, *window, return_indices=True)
            assert bits(found.values) == bits(values) == bits(POOL[n](some, *window))
            assert bits(found.indices) == bits(indices)


def far(count, step):
    """Some items that are `step` bytes apart: memory that is never touched takes none."""
    try:
        return np.zeros((count - 1) * step + 1, np.uint8)[::step]
    except MemoryError:
        pytest.skip("addresses are short here")


def test_cells_farther_apart_than_32_bits_count():
    """Of four planes and of four rows, columns or layers, in every place that an address is made."""
    step = 3 << 29
    for n, axis in ((1, 0), (1, 1), (2, 1), (2, 2), (3, 1)):
        shape = [1] * (n + 1)
        shape[axis] = 4
        wide = far(4, step).reshape(shape)
        assert abs(wide.strides[axis]) == step
        wide[...] = np.array([5, 6, 7, 8], np.uint8).reshape(shape)
        values, indices = POOL[n](wide, 1, return_indices=True)
        assert values.ravel().tolist() == [5, 6, 7, 8]
        assert indices.ravel().tolist() == ([0] * 4 if axis == 0 else [0, 1, 2, 3])
        out = far(4, step).reshape(shape)
        out[...] = 1
        assert UNPOOL[n](values, indices, 1, out=out).ravel().tolist() == [5, 6, 7, 8]
        assert UNPOOL[n](wide, indices, 1).ravel().tolist() == [5, 6, 7, 8]
        assert UNPOOL_BACKWARD[n](wide, indices, 1).ravel().tolist() == [5, 6, 7, 8]
        codes = np.zeros(shape, np.uint8)
        assert UNPOOL_BACKWARD[n](wide, codes, 1, index_format="window").ravel().tolist() == [5, 6, 7, 8]
        out[...] = 1
        UNPOOL[n](values, codes, 1, out=out, index_format="window")
        assert out.ravel().tolist() == [5, 6, 7, 8]


@pytest.mark.parametrize("channels", [1, 9])
def test_planes_of_more_than_32_bits_of_cells(channels):
    """Pooling and gathering look at few cells of them, so that they need not be in memory."""
    width, stride = 3 << 29, 1 << 29
    x = np.broadcast_to(np.arange(channels, dtype=np.uint8)[:, None], (channels, width))
    for chosen in (x, x[:, ::-1]):
        values, indices = cu.max_pool1d(chosen, 1, stride, return_indices=True)
        assert np.array_equal(values, np.broadcast_to(np.arange(channels)[:, None], (channels, 3)))
        assert np.array_equal(indices, np.broadcast_to(np.arange(3) * stride, (channels, 3)))
    width *= 3
    rows = np.broadcast_to(np.arange(channels, dtype=np.uint8)[:, None, None], (channels, 3, width))
    values, indices = cu.max_pool2d(rows, 1, (1, width), return_indices=True)
    assert indices.ravel().tolist() == [0, width, 2 * width] * channels
    assert np.array_equal(cu.max_unpool2d_backward(rows, indices, 1, (1, width)), values)
    cells = 5 << (29 if channels == 1 else 26)
    try:
        grad = np.zeros((cells, channels), np.uint8).T
    except MemoryError:
        pytest.skip("addresses are short here")
    places = np.broadcast_to([1, cells - 1, cells // 5 * 4], (channels, 3))
    expected = np.arange(3) * 9 + np.arange(channels)[:, None] + 1
    np.put_along_axis(grad, places, expected.astype(np.uint8), 1)
    for dtype in (np.int64, np.uint32):
        result = cu.max_unpool1d_backward(grad, places.astype(dtype), 1, cells // 2 - 1)
        assert np.array_equal(result, expected)


@pytest.mark.mostly_slow
@pytest.mark.parametrize("shape", [(5, 49), (64, 31), (1, 97), (101, 1), (3, 5, 11), (5, 1, 7), (2, 64, 9)], ids=str)
@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "f8", "c16"])
def test_every_cell_of_planes_in_any_order(rng, shape, dtype):
    """Each place, the last and the first of each row among them, is found in orders without gaps and with them."""
    n, cells = len(shape), int(np.prod(shape))
    values = rng.integers(1, 99, (2, 3, *shape)).astype(dtype)
    places = np.array([rng.permutation(cells) for _ in range(6)]).reshape(values.shape)
    expected = np.zeros_like(values)
    np.put_along_axis(expected.reshape(6, -1), places.reshape(6, -1), values.reshape(6, -1), 1)
    for order in itertools.permutations(range(2, n + 2)):
        for gap in (0, 1):
            room = np.full((2, 3, *(shape[axis - 2] + gap for axis in order)), 101, dtype)
            out = room.transpose(0, 1, *np.argsort(order) + 2)[(..., *map(slice, shape))]
            for threads in (1, 7):
                out[...] = 101
                UNPOOL[n](values, places, 1, out=out, num_threads=threads)
                assert bits(out) == bits(expected)
                assert (room == 101).sum() == room.size - out.size
                assert bits(UNPOOL_BACKWARD[n](out, places, 1, num_threads=threads)) == bits(values)


@pytest.mark.parametrize("shape", [(2, 3), (2, 50), (5, 9), (41, 21)], ids=str)
@pytest.mark.parametrize("dtype", ["u1", "f4", "c16"])
def test_cells_of_two_axes_that_pass_for_planes_without_gaps(rng, shape, dtype):
    """The strides add up to those of a plane without gaps, for one axis runs backwards."""
    (rows, width), item = shape, np.dtype(dtype).itemsize
    step = (rows * width + width - 2) // (rows - 1)
    for size in (step, step + 1, 2 * step):
        room = np.full(rows * size + width, 101, dtype)
        out = np.lib.stride_tricks.as_strided(room[width:], shape, (size * item, -item))[None, None]
        values = rng.integers(1, 99, out.shape).astype(dtype)
        places = rng.permutation(out.size).reshape(out.shape)
        places[..., -1] = places[..., 0]
        values[..., -1] = values[..., 0]
        expected = np.zeros_like(values)
        expected.ravel()[places.ravel()] = values.ravel()
        cu.max_unpool2d(values, places, 1, out=out)
        assert bits(out) == bits(expected)
        assert (room == 101).sum() == room.size - out.size


@pytest.mark.parametrize("rows", [1 << 24, 1 << 28])
@pytest.mark.parametrize("width", [(1 << 25) - 3, 1 << 25])
def test_planes_of_so_many_cells_that_doubles_tell_no_halves_apart(rng, rows, width):
    """The ends of rows, in planes of 2**49 and of 2**53 cells: all rows are the same one."""
    row = np.zeros(width, np.uint8)
    row[[0, 1, -2, -1]] = 1, 2, 3, 4
    grad = np.lib.stride_tricks.as_strided(row, (1, 1, rows, width), (0, 0, 0, 1))
    places = np.append(rng.integers(1, rows, 20), rows - 1) * width + np.append(rng.integers(-2, 2, 20), width - 1)
    result = cu.max_unpool2d_backward(grad, places.reshape(1, 1, 1, -1), (rows, width // 21))
    assert np.array_equal(result.ravel(), row[places % width])


def test_planes_one_wide_with_any_stride_along_that_axis():
    for size, dtype in ((20, "i2"), (40, "f4"), (300, "f8")):
        numbers = np.arange(2 * size, dtype=dtype)
        step = numbers.itemsize
        for stride in (0, step, 40, -8, 4_000_000):
            x = np.lib.stride_tricks.as_strided(numbers, (2, size, 1), (size * step, step, stride))
            plain = numbers.reshape(2, size, 1)
            for kernel in ((1, 1), (2, 1), (3, 1)):
                mine, expected = (cu.max_pool2d(a, kernel, return_indices=True) for a in (x, plain))
                assert [*map(bits, mine)] == [*map(bits, expected)]
            indices = np.arange(size)[::-1].reshape(1, size, 1).repeat(2, 0)
            assert bits(cu.max_unpool2d(x, indices, 1)) == bits(cu.max_unpool2d(plain, indices, 1))


# Planes of so few windows that the codes of many are decoded together: overlapping windows, which are scattered.
SMALL = [
    ((7, 30), (6,), (3, 2)),
    ((7, 30), (4,), (3, 2)),  # of one window
    ((5, 40), (5, 4), (3, 1)),
    ((5, 40), (4, 6), (3, 1)),
    ((3, 70), (3, 4, 5), (2, 1)),
    ((3, 70), (4, 4, 4), (3, 1)),
]


def arrangements(axes):
    """Orders in memory, by name: functions that lay an array out so."""
    yield "as they come", lambda array: array
    yield "all backwards", lambda array: np.flip(np.flip(array).copy())
    yield "N behind C", lambda array: in_order(array, (1, 0, *range(2, axes)))
    yield "Fortran", np.asfortranarray
    for axis in range(axes):
        yield f"gaps along {axis}", lambda array, axis=axis: apart(array, axis, 3)[0]
        yield f"{axis} backwards", lambda array, axis=axis: backwards(array, axis)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("geometry", SMALL, ids=ids)
def test_many_small_planes_of_codes_anywhere(rng, split, geometry, threads):
    case = Case(rng, *geometry)
    for call, given, places, expected in case.calls():
        if places is not case.codes:
            continue
        for name, arranged in arrangements(given.ndim):
            results = [
                call(arranged(given), places, None, num_threads=threads),
                call(given, arranged(places), None, num_threads=threads),
                call(given, places, arranged(np.full_like(expected, 7)), num_threads=threads),
                call(arranged(given), arranged(places), arranged(np.full_like(expected, 7)), num_threads=threads),
            ]
            for result in results:
                assert bits(result) == bits(expected), name
