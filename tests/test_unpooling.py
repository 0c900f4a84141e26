from __future__ import annotations

import numpy as np
import pytest
import reference
from cases import MOVED, OTHER, POOL, UNPOOL, bits, channels_last, geometry, layout, lead, random_items

import cunpool as cu


def random_case(rng, n, dtype, index_dtype=np.int64, most=None):
    """Arguments of an unpooling with random places, duplicates among them, and the size of its output."""
    (kernel, stride, padding, _, _), _ = geometry(rng, n)
    pooled = tuple(rng.integers(1, most or {1: 20, 2: 6, 3: 4}[n], n).tolist())
    full = reference.default_size(pooled, n, kernel, stride, padding)
    if min(full) < 1:
        return random_case(rng, n, dtype, index_dtype, most)
    shape = lead(rng) + pooled
    cells = min(int(np.prod(full)), np.iinfo(index_dtype).max + 1)
    indices = rng.integers(0, cells, shape).astype(index_dtype)
    return random_items(rng, dtype, shape), indices, (kernel, stride, padding), full


@pytest.mark.parametrize("dtype", MOVED, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling_is_its_definition(rng, n, dtype):
    for _ in range(8):
        values, indices, arguments, full = random_case(rng, n, dtype)
        values, indices = layout(rng, values), layout(rng, indices)
        before = bits(values), bits(indices)
        result = UNPOOL[n](values, indices, *arguments)
        assert bits(result) == bits(reference.max_unpool(values, indices, n, full))
        assert (bits(values), bits(indices)) == before


@pytest.mark.parametrize(
    "index_dtype",
    ["b", "B", "h", "H", "i", "I", "q", "Q", f"{OTHER}i4", f"{OTHER}i8", f"{OTHER}u8", f"{OTHER}u4", f"{OTHER}u2"],
)
def test_index_dtypes(rng, index_dtype):
    for n in (1, 2, 3):
        values, indices, arguments, full = random_case(rng, n, np.dtype("f4"), np.dtype(index_dtype))
        result = UNPOOL[n](values, layout(rng, indices), *arguments)
        assert bits(result) == bits(reference.max_unpool(values, indices, n, full))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_what_was_pooled_comes_back(rng, n):
    for _ in range(20):
        (kernel, stride, padding, _, _), full = geometry(rng, n, most={1: 40, 2: 12, 3: 6}[n], dilations=1, ceil=False)
        x = layout(rng, rng.standard_normal(lead(rng) + full).astype(np.float32))
        values, indices = POOL[n](x, kernel, stride, padding, return_indices=True)
        for chosen in (indices, indices.astype(np.int32)):
            result = UNPOOL[n](values, chosen, kernel, stride, padding, full)
            assert bits(result) == bits(reference.max_unpool(values, indices, n, full))


def test_pytorchs_documented_examples():
    x = np.array([[[1.0, 2, 3, 4, 5, 6, 7, 8]]])
    y, indices = cu.MaxPool1d(2, stride=2, return_indices=True)(x)
    assert cu.MaxUnpool1d(2, stride=2)(y, indices).tolist() == [[[0, 2, 0, 4, 0, 6, 0, 8]]]
    x = np.array([[[1.0, 2, 3, 4, 5, 6, 7, 8, 9]]])
    y, indices = cu.MaxPool1d(2, stride=2, return_indices=True)(x)
    assert cu.MaxUnpool1d(2, stride=2)(y, indices, output_size=x.shape).tolist() == [[[0, 2, 0, 4, 0, 6, 0, 8, 0]]]
    assert cu.MaxUnpool1d(2, stride=2)(y, indices).tolist() == [[[0, 2, 0, 4, 0, 6, 0, 8]]]

    pool, unpool = cu.MaxPool2d(2, stride=2, return_indices=True), cu.MaxUnpool2d(2, stride=2)
    x = np.arange(1.0, 17).reshape(1, 1, 4, 4)
    y, indices = pool(x)
    result = [[0, 0, 0, 0], [0, 6, 0, 8], [0, 0, 0, 0], [0, 14, 0, 16]]
    assert unpool(y, indices)[0, 0].tolist() == result
    # The same indices in a 5 x 5 output: 5, 7, 13 and 15 are other places there.
    assert unpool(y, indices, output_size=(1, 1, 5, 5))[0, 0].tolist() == [
        [0, 0, 0, 0, 0], [6, 0, 8, 0, 0], [0, 0, 0, 14, 0], [16, 0, 0, 0, 0], [0, 0, 0, 0, 0]
    ]  # fmt: skip
    # The ambiguous size: rows of 5 pool like rows of 4.
    x = np.array([[[[1.0, 2, 3, 4, 5], [6, 7, 8, 9, 10], [11, 12, 13, 14, 15], [16, 17, 18, 19, 20]]]])
    y, indices = pool(x)
    assert unpool(y, indices, output_size=x.shape)[0, 0].tolist() == [
        [0, 0, 0, 0, 0], [0, 7, 0, 9, 0], [0, 0, 0, 0, 0], [0, 17, 0, 19, 0]
    ]  # fmt: skip
    x = np.random.default_rng(0).standard_normal((20, 16, 51, 33, 15)).astype(np.float32)
    y, indices = cu.MaxPool3d(3, stride=2, return_indices=True)(x)
    z = cu.MaxUnpool3d(3, stride=2)(y, indices)
    assert z.shape == (20, 16, 51, 33, 15)
    assert np.array_equal(z[z != 0], x[z != 0])


def test_int32_indices_and_an_output_size_with_one_row_more(rng):
    values = rng.random((1, 16, 7, 7), np.float32)
    indices = rng.integers(0, 225, values.shape, np.int32)
    result = cu.max_unpool2d(values, indices, kernel_size=2, output_size=(1, 16, 15, 15))
    assert bits(result) == bits(reference.max_unpool(values, indices, 2, (15, 15)))
    assert bits(cu.max_unpool2d(values, indices, 2, output_size=[15, np.int64(15)])) == bits(result)


@pytest.mark.parametrize("shape", [(0, 3, 4, 4), (2, 0, 4, 4), (0, 4, 4)])
def test_empty_batches(shape):
    result = cu.max_unpool2d(np.zeros(shape, np.float32), np.zeros(shape, np.int64), 2)
    assert result.shape == (*shape[:-2], 8, 8)
    assert cu.max_unpool2d(np.zeros((0, 2, 2)), np.zeros((0, 2, 2), int), 1, padding=1, stride=2).shape == (0, 1, 1)


def test_no_values_but_planes():
    result = cu.max_unpool1d(np.zeros((2, 0)), np.zeros((2, 0), int), 5, stride=2)
    assert result.tolist() == [[0, 0, 0], [0, 0, 0]]
    with pytest.raises(ValueError, match="at least 0"):
        cu.max_unpool1d(np.zeros((2, 0)), np.zeros((2, 0), int), 2, stride=3)


@pytest.mark.parametrize("recycled", [1, 1 << 20])
def test_layouts_of_results(rng, monkeypatch, recycled):
    """Of those in recycled memory, too."""
    monkeypatch.setattr("cunpool._kernels.memory.RECYCLED", recycled)
    values = rng.random((2, 5, 4, 3))
    indices = rng.integers(0, 48, values.shape)
    last = channels_last(values)
    assert np.moveaxis(cu.max_unpool2d(last, indices, 2), 1, -1).flags.c_contiguous
    assert cu.max_unpool2d(np.asfortranarray(values), indices, 2).flags.f_contiguous
    assert cu.max_unpool2d(values, indices, 2).flags.c_contiguous
    for order in ((2, 0, 1, 3), (0, 2, 1, 3), (3, 1, 0, 2)):
        laid = np.ascontiguousarray(values.transpose(order)).transpose(np.argsort(order))
        assert cu.max_unpool2d(laid, indices, 2).transpose(order).flags.c_contiguous


def test_broadcast_inputs(rng):
    values = np.broadcast_to(np.float32(7), (2, 3, 4, 4))
    indices = np.broadcast_to(rng.integers(0, 64, (4, 4)), (2, 3, 4, 4))
    assert bits(cu.max_unpool2d(values, indices, 2)) == bits(reference.max_unpool(values, indices, 2, (8, 8)))


def test_array_likes():
    assert cu.max_unpool1d([[3, 4]], [[0, 2]], 2).tolist() == [[3, 0, 4, 0]]
    assert cu.max_unpool1d([[]], [[]], 3, 1).tolist() == [[0, 0]]


# --- duplicates and threads


@pytest.mark.parametrize(("shape", "full"), [((4, 300, 8, 8), (16, 16)), ((1, 1, 500, 500), (1000, 1000)),
                                             ((3, 1, 200, 300), (400, 600))])  # fmt: skip
@pytest.mark.parametrize("within", [True, False], ids=["in their windows", "anywhere"])
def test_the_last_duplicate_stays_at_any_thread_count(rng, shape, full, within):
    values = rng.integers(0, 2**32, shape, np.uint32)
    if within:  # overlapping windows: 3 x 3, a stride of 2, no padding, cut off at the end
        rows = np.minimum(np.arange(shape[2])[:, None] * 2 + rng.integers(0, 3, shape), full[0] - 1)
        columns = np.minimum(np.arange(shape[3]) * 2 + rng.integers(0, 3, shape), full[1] - 1)
        indices = rows * full[1] + columns
    else:
        indices = rng.integers(0, full[0] * full[1] // 3, shape)
    expected = np.zeros((*shape[:2], full[0] * full[1]), np.uint32)
    for result, value, place in zip(
        expected.reshape(-1, full[0] * full[1]), reference.planes(values, 2), reference.planes(indices, 2), strict=True
    ):
        last = dict(zip(place.ravel().tolist(), value.ravel().tolist(), strict=True))
        result[list(last)] = list(last.values())
    for threads in (1, 2, 3, 8):
        for index_dtype in (np.int32, np.int64):
            result = cu.max_unpool2d(values, indices.astype(index_dtype), 3, 2, output_size=full, num_threads=threads)
            assert np.array_equal(result.reshape(expected.shape), expected), threads


@pytest.mark.parametrize("n", [1, 2, 3])
def test_one_split_plane_is_its_definition(rng, n):
    for _ in range(8):
        (kernel, stride, padding, _, _), full = geometry(rng, n, dilations=1, ceil=False)
        full = tuple(size * {1: 9000, 2: 90, 3: 18}[n] for size in full)
        x = rng.standard_normal((1, *full)).astype(np.float64)
        values, indices = POOL[n](x, kernel, stride, padding, return_indices=True)
        stray = indices.copy()
        stray.flat[rng.integers(stray.size)] = rng.integers(np.prod(full))
        for places in (indices, stray):
            one = UNPOOL[n](values, places, kernel, stride, padding, full, num_threads=1)
            for threads in (2, 5, 8):
                more = UNPOOL[n](values, places, kernel, stride, padding, full, num_threads=threads)
                assert np.array_equal(more, one)
        expected = np.zeros(x.size)
        expected[indices.ravel()] = values.ravel()
        assert np.array_equal(UNPOOL[n](values, indices, kernel, stride, padding, full).ravel(), expected)


# --- out


def test_out_is_returned_and_filled(rng):
    for n in (1, 2, 3):
        for _ in range(20):
            values, indices, arguments, full = random_case(rng, n, np.dtype("u2"))
            expected = reference.max_unpool(values, indices, n, full)
            out = layout(rng, random_items(rng, values.dtype, expected.shape))
            assert UNPOOL[n](values, layout(rng, indices), *arguments, out=out) is out
            assert bits(out) == bits(expected)


def test_out_may_be_a_part_of_something_that_stays_as_it_was(rng):
    values, indices = rng.random((2, 3, 4, 4)), rng.integers(0, 64, (2, 3, 4, 4))
    expected = reference.max_unpool(values, indices, 2, (8, 8))
    for cut in (np.s_[:, 2:5, 1:9, 3:11], np.s_[:, 5:2:-1, 8:0:-1, 3:19:2], np.s_[:, 1:6:2, 1:17:2, 19:11:-1]):
        around = np.full((2, 7, 20, 20), -1.0)
        cu.max_unpool2d(values, indices, 2, out=around[cut])
        assert np.array_equal(around[cut], expected)
        around[cut] = -1
        assert (around == -1).all()


def test_out_that_overlaps_an_input(rng):
    memory = rng.random((2, 3, 8, 8))
    values = memory[:, :, :4, :4]
    indices = rng.integers(0, 64, (2, 3, 4, 4))
    expected = reference.max_unpool(values, indices, 2, (8, 8))
    assert cu.max_unpool2d(values, indices, 2, out=memory) is memory
    assert np.array_equal(memory, expected)
    memory = rng.integers(0, 64, (2, 3, 8, 8))
    places = memory[:, :, 4:, ::2]
    values = rng.integers(0, 9, places.shape)
    expected = reference.max_unpool(values, places, 2, (8, 8))
    assert np.array_equal(cu.max_unpool2d(values, places, 2, out=memory), expected)
    same = rng.integers(0, 16, (3, 4, 4))
    expected = reference.max_unpool(same, same, 2, (4, 4))
    assert np.array_equal(cu.max_unpool2d(same, same, 1, out=same), expected)


def test_out_that_overlaps_indices_which_are_converted():
    """Only the copy is read by the kernels, but an error is told from the indices themselves."""
    for dtype, bad in (("u4", 4_000_000_000), (f"{OTHER}i8", 99), ("u2", 999)):
        memory = np.zeros((1, 4, 4), dtype)
        indices = memory[:, 2:, 2:]
        indices[...] = [[0, 1], [2, bad]]
        with pytest.raises(IndexError, match=rf"index {bad} at position \(0, 1, 1\)"):
            cu.max_unpool2d(np.ones((1, 2, 2), dtype), indices, 2, out=memory)
        with pytest.raises(IndexError, match=rf"index {bad} at position \(0, 1, 1\)"):
            cu.max_unpool2d_backward(np.ones((1, 4, 4), dtype), indices, 2, out=indices)
        with pytest.raises(IndexError, match=rf"window code {bad} at position \(0, 1, 1\)"):
            cu.max_unpool2d(np.ones((1, 2, 2), dtype), indices, 2, out=memory, index_format="window")
    memory = np.zeros((1, 4, 4), np.float32)
    indices = memory.view(np.uint32)[:, 2:, 2:]
    indices[...] = [[0, 1], [2, 77]]
    with pytest.raises(IndexError, match=r"index 77 at position \(0, 1, 1\)"):
        cu.max_pool2d_backward(np.ones((1, 2, 2), np.float32), indices, (4, 4), 2, out=memory)


def slow_overlap(array: np.ndarray) -> bool:
    """Whether two entries share a byte, counted."""
    starts = sum(np.ix_(*(np.arange(n) * s for n, s in zip(array.shape, array.strides, strict=True))))
    bytes_ = (starts.reshape(-1, 1) + np.arange(array.itemsize)).ravel()
    return len(np.unique(bytes_)) < bytes_.size


def test_whether_an_array_overlaps_itself_is_its_definition(rng):
    answers = []
    for _ in range(3000):
        axes = int(rng.integers(1, 5))
        shape, strides = rng.integers(1, 5, axes).tolist(), rng.integers(-24, 25, axes).tolist()
        array = np.lib.stride_tricks.as_strided(np.zeros(1000, f"V{rng.choice([1, 2, 4, 8])}")[400:], shape, strides)
        expected = slow_overlap(array)
        assert cu._arrays._may_overlap_itself(array) == expected, (shape, strides, array.itemsize)
        answers.append((expected, cu._arrays._overlaps_itself(array)))
    assert set(answers) == {(True, True), (False, False)}
    assert min(sum(expected for expected, _ in answers), sum(not expected for expected, _ in answers)) > 500


def test_an_out_whose_axes_interleave_is_taken():
    out = np.lib.stride_tricks.as_strided(np.zeros(8, np.float32), (1, 3, 2), (32, 8, 12))
    assert cu.max_unpool2d(np.ones((1, 3, 1), np.float32), [[[1], [3], [4]]], (1, 2), out=out) is out
    assert out.tolist() == [[[0, 1], [0, 1], [1, 0]]]


def test_an_overlap_that_takes_too_long_to_find_is_assumed(monkeypatch):
    def gives_up(*_, max_work):
        assert max_work == cu._arrays.SEARCHED
        raise getattr(np, "exceptions", np).TooHardError

    monkeypatch.setattr(np, "shares_memory", gives_up)
    out = np.lib.stride_tricks.as_strided(np.zeros(8, np.float32), (1, 3, 2), (32, 8, 12))
    with pytest.raises(ValueError, match="must not overlap itself"):
        cu.max_unpool2d(np.ones((1, 3, 1), np.float32), np.zeros((1, 3, 1), int), (1, 2), out=out)


def test_masked_arrays_are_refused(rng):
    values, indices = np.ones((1, 2, 2)), np.array([[[0, 3], [8, 11]]])
    full, mask = np.ones((1, 4, 4)), np.ma.masked_array
    for call, name in (
        (lambda: cu.max_unpool2d(mask(values), indices, 2), "input"),
        (lambda: cu.max_unpool2d(values, mask(indices), 2), "indices"),
        (lambda: cu.max_unpool2d(values, mask(indices), 2, index_format="window"), "indices"),
        (lambda: cu.max_unpool2d(values, indices, 2, out=mask(full)), "out"),
        (lambda: cu.max_unpool2d_backward(mask(full), indices, 2), "grad_output"),
        (lambda: cu.max_unpool2d_backward(full, mask(indices), 2), "indices"),
        (lambda: cu.max_pool2d(mask(full), 2), "input"),
        (lambda: cu.max_pool2d_backward(mask(values), indices, (4, 4), 2), "grad_output"),
        (lambda: cu.convert_indices(mask(indices), "plane", "onnx", input_size=(4, 4), kernel_size=2), "indices"),
    ):
        with pytest.raises(TypeError, match=f"{name} must not be a masked array, .*: pass {name}[.]"):
            call()


def test_out_that_overlaps_the_indices_alone():
    """They begin or end where the result does, and would be overwritten before they are read."""
    indices = np.arange(64).reshape(1, 1, 64)[..., ::-1]
    values = np.arange(1.0, 65).reshape(1, 1, 64)
    for first in (0, 17, 64):
        memory = np.empty(129 + first, np.int64)
        places = memory[first : first + 64].reshape(1, 1, 64)
        for call, size in (
            (lambda places, out: cu.max_unpool1d(values, places, 1, output_size=(64,), out=out), 64),
            (lambda places, out: cu.max_pool1d_backward(values, places, (64,), 1, out=out), 64),
            (lambda places, out: cu.max_unpool1d_backward(values, places, 1, out=out), 64),
        ):
            for at in {0, 1, first, max(first - 1, 0), first + 1}:
                places[...] = indices
                out = memory[at : at + size].view(np.float64).reshape(1, 1, size)
                assert call(places, out) is out
                assert np.array_equal(out, values[..., ::-1]), (first, at)


@pytest.mark.parametrize(
    ("error", "out"),
    [
        (ValueError, np.zeros((1, 4, 5))),
        (ValueError, np.zeros((4, 4))),
        (ValueError, np.lib.stride_tricks.as_strided(np.zeros(4), (1, 4, 4), (0, 0, 8))),
        (ValueError, np.lib.stride_tricks.as_strided(np.zeros(8), (1, 4, 4), (0, 8, 8))),
        (TypeError, np.zeros((1, 4, 4), np.float32)),
        (TypeError, np.zeros((1, 4, 4), f"{OTHER}f8")),
        (TypeError, [[[0.0] * 4] * 4]),
        (TypeError, "out"),
    ],
)
def test_an_out_that_does_not_fit(error, out):
    with pytest.raises(error, match="out must"):
        cu.max_unpool2d(np.ones((1, 2, 2)), np.zeros((1, 2, 2), int), 2, out=out)


def test_a_read_only_out():
    out = np.zeros((1, 4, 4))
    out.flags.writeable = False
    with pytest.raises(ValueError, match="writeable"):
        cu.max_unpool2d(np.ones((1, 2, 2)), np.zeros((1, 2, 2), int), 2, out=out)
    assert (out == 0).all()


# --- bad indices

BAD = [-1, -2, -16, 64, 65, 2**31 - 1, -(2**31), 2**32, 2**32 + 3, -(2**32), 2**62, 2**63 - 1, -(2**63), 2**60 + 7]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("shape", [(2, 3, 4, 4), (3, 4, 4), (1, 1, 4, 4)])
def test_a_bad_index_is_named_and_nothing_is_written_out_of_place(rng, bad, shape):
    values = np.ones(shape, np.float32)
    for index_dtype in (np.int64, np.int32, np.uint64, np.int8, f"{OTHER}i8"):
        if not np.iinfo(index_dtype).min <= bad <= np.iinfo(index_dtype).max:
            continue
        for position in (0, -1, 7):
            indices = rng.integers(0, 64, shape).astype(index_dtype)
            indices.flat[position] = bad
            around = np.full((*shape[:-2], 24, 24), 7, np.float32)
            out = around[..., 8:16, 8:16]
            with pytest.raises(IndexError) as error:
                cu.max_unpool2d(values, indices, 2, out=out)
            where = tuple(int(i) for i in np.unravel_index(position % values.size, shape))
            assert f"index {bad} at position {where} is outside" in str(error.value)
            assert "8 x 8" in str(error.value)
            out[...] = 7
            assert (around == 7).all()


def test_uint64_indices_beyond_int64():
    indices = np.array([[0, 2**64 - 1]], np.uint64)
    with pytest.raises(IndexError, match=r"index 18446744073709551615 at position \(0, 1\)"):
        cu.max_unpool1d(np.ones((1, 2)), indices, 2)


def test_the_first_bad_index_in_raster_order_is_named(rng):
    indices = rng.integers(0, 64, (2, 3, 4, 4))
    indices[0, 2, 3, 1], indices[1, 0, 0, 0], indices[0, 2, 3, 2] = 99, -5, -7
    for places in (indices, np.asfortranarray(indices)):
        with pytest.raises(IndexError, match=r"index 99 at position \(0, 2, 3, 1\)"):
            cu.max_unpool2d(np.ones(indices.shape), places, 2)


@pytest.mark.mostly_slow
@pytest.mark.parametrize("bad", BAD)
def test_a_bad_index_in_a_split_plane(rng, bad):
    indices = rng.integers(0, 10**6, (1, 500, 500))
    at = int(rng.integers(indices.size))
    indices.flat[at] = bad if abs(bad) > 100 else bad + 10**6 * (bad > 0)
    out = np.full(10**6 + 4000, 7, np.float32)
    for threads in (1, 2, 8):
        with pytest.raises(IndexError, match=f"index {indices.flat[at]} at"):
            cu.max_unpool2d(
                np.ones(indices.shape, np.float32), indices, 2, out=out[2000:-2000].reshape(1, 1000, 1000),
                num_threads=threads,
            )  # fmt: skip
        assert (out[:2000] == 7).all()
        assert (out[-2000:] == 7).all()


def test_float_and_bool_indices():
    for indices in (np.zeros((1, 2)), np.zeros((1, 2), bool), np.zeros((1, 2), object), [["0", "1"]], [[None, 1]]):
        with pytest.raises(TypeError, match="indices must be of integers"):
            cu.max_unpool1d(np.ones((1, 2)), indices, 2)


@pytest.mark.parametrize(
    "x", [np.array([["a", "bcd"]]), np.array([[b"abcd", b"a"]]), np.zeros((1, 2), object), np.zeros((1, 2), "V3"),
          np.zeros((1, 2), "i4,i8"), np.zeros((1, 2), [("a", object)])],
    ids=lambda x: str(x.dtype),
)  # fmt: skip
def test_other_dtypes_are_refused(x):
    with pytest.raises(TypeError, match="input must have a dtype"):
        cu.max_unpool1d(x, np.zeros((1, 2), int), 2)


# --- bad geometry


@pytest.mark.parametrize(
    ("error", "keywords"),
    [
        (ValueError, {"kernel_size": 0}),
        (ValueError, {"kernel_size": (2, 0)}),
        (ValueError, {"kernel_size": -2}),
        (ValueError, {"kernel_size": (2, 2, 2)}),
        (ValueError, {"kernel_size": 2, "stride": 0}),
        (ValueError, {"kernel_size": 2, "stride": -1}),
        (ValueError, {"kernel_size": 2, "stride": (2,)}),
        (ValueError, {"kernel_size": 2, "padding": -1}),
        (ValueError, {"kernel_size": 2, "padding": 2}),
        (ValueError, {"kernel_size": 2, "padding": 2**59}),
        (TypeError, {"kernel_size": 1.5}),
        (TypeError, {"kernel_size": (2.0, 2)}),
        (TypeError, {"kernel_size": True}),
        (TypeError, {"kernel_size": 2, "padding": None}),
        (TypeError, {"kernel_size": 2, "output_size": 4}),
        (TypeError, {"kernel_size": 2, "output_size": (4.0, 4)}),
        (ValueError, {"kernel_size": 2, "output_size": (4,)}),
        (ValueError, {"kernel_size": 2, "output_size": (1, 1, 1, 4, 4)}),
        (ValueError, {"kernel_size": 2, "output_size": (4, 6)}),
        (ValueError, {"kernel_size": 2, "output_size": (2, 4)}),
        (ValueError, {"kernel_size": 2, "output_size": (-4, 4)}),
        ((ValueError, OverflowError), {"kernel_size": 2, "output_size": (2**64, 4)}),
        (TypeError, {"kernel_size": np.array([[2, 2]])}),
        (TypeError, {"kernel_size": np.array(2.0)}),
        (TypeError, {"kernel_size": np.array(True)}),
        ((ValueError, OverflowError, MemoryError), {"kernel_size": 2**31}),
        ((ValueError, OverflowError, MemoryError), {"kernel_size": 2**40}),
        ((ValueError, OverflowError, MemoryError), {"kernel_size": 2, "stride": 2**60}),
        ((ValueError, OverflowError, MemoryError), {"kernel_size": 10**30}),
        (ValueError, {"kernel_size": 2, "num_threads": -1}),
        (TypeError, {"kernel_size": 2, "num_threads": "2"}),
    ],
    ids=str,
)
def test_bad_geometry(error, keywords):
    cu.max_unpool2d(np.ones((1, 2, 2)), np.zeros((1, 2, 2), int), (2, 2), output_size=(4, 4))
    with pytest.raises(error):
        cu.max_unpool2d(np.ones((1, 2, 2)), np.zeros((1, 2, 2), int), **keywords)


def test_sizes_of_any_kind_of_integer():
    values, indices = np.ones((1, 2, 2)), np.array([[[0, 2], [8, 10]]])
    expected = bits(cu.max_unpool2d(values, indices, 2))
    for size in (
        np.array(2),
        np.int8(2),
        np.array([2, 2]),
        [np.array(2), 2],
        iter((2, 2)),
        range(2, 4, 2),
        np.uint64(2),
    ):
        if isinstance(size, range):
            size = (*size, *size)
        assert bits(cu.max_unpool2d(values, indices, size)) == expected
        assert bits(cu.max_unpool2d(values, indices, 2, np.array(2), np.array(0), dilation=np.array(1))) == expected
    pooled = cu.max_pool2d(np.ones((1, 4, 4)), np.array(2), return_indices=np.bool_(True), ceil_mode=0)
    assert pooled[0].shape == (1, 2, 2)


def test_an_output_size_without_n():
    values, indices = np.ones((3, 2, 2)), np.broadcast_to([[0, 2], [10, 12]], (3, 2, 2))
    expected = bits(cu.max_unpool2d(values, indices, 2, output_size=(5, 5)))
    for size in ((3, 5, 5), [3, 5, 5], (1, 3, 5, 5), np.array([3, 5, 5])):
        assert bits(cu.max_unpool2d(values, indices, 2, output_size=size)) == expected
        assert bits(cu.MaxUnpool2d(2)(values, indices, size)) == expected
    for n, shape in ((1, (2, 3)), (3, (2, 3, 3, 3))):
        x = np.arange(np.prod(shape), dtype=float).reshape(shape)
        pooled = POOL[n](x, 2, return_indices=True)
        assert UNPOOL[n](*pooled, 2, output_size=shape).shape == shape
    with pytest.raises(ValueError, match="2 entries, the spatial ones, or 4, with N and C in front"):
        cu.max_unpool2d(values[None], indices[None], 2, output_size=(3, 5, 5))
    with pytest.raises(ValueError, match="2 entries, the spatial ones, or 3, with C in front"):
        cu.max_unpool2d(values, indices, 2, output_size=(5,))


def test_the_next_levels_error_names_output_size():
    x = -np.arange(3 * 11 * 11.0).reshape(3, 11, 11)
    y1, indices1 = cu.max_pool2d(x, 2, return_indices=True)
    y2, indices2 = cu.max_pool2d(y1, 2, return_indices=True)
    z1 = cu.max_unpool2d(y2, indices2, 2)
    for given, index_format in ((indices1, "plane"), (indices1 % 4, "window")):
        with pytest.raises(ValueError, match=r"\(3, 4, 4\), got \(3, 5, 5\); .* that one needs output_size=indices.sh"):
            cu.max_unpool2d(z1, given, 2, index_format=index_format)
    z1 = cu.max_unpool2d(y2, indices2, 2, output_size=indices1.shape)
    assert cu.max_unpool2d(z1, indices1, 2, output_size=x.shape).shape == x.shape


def test_bad_shapes():
    with pytest.raises(ValueError, match="indices must have the shape of input"):
        cu.max_unpool2d(np.ones((1, 2, 2)), np.zeros((1, 2, 3), int), 2)
    for shape in ((2,), (2, 2), (1, 1, 1, 2, 2)):
        with pytest.raises(ValueError, match="must have 3 or 4 axes"):
            cu.max_unpool2d(np.ones(shape), np.zeros(shape, int), 2)
    values = np.broadcast_to(np.float32(1), (2**30, 2**30, 1, 1))
    indices = np.broadcast_to(np.int32(0), values.shape)
    with pytest.raises((ValueError, MemoryError)):
        cu.max_unpool2d(values, indices, 2)


def test_a_huge_stride_that_fits():
    result = cu.max_unpool2d(np.ones((1, 1, 1)), np.zeros((1, 1, 1), int), 1, 2**60, output_size=(3, 3))
    assert result.sum() == result[0, 0, 0] == 1
    result = cu.max_unpool1d(np.ones((1, 2)), [[0, 1]], 1, 2**40, output_size=(5,))
    assert result.tolist() == [[1, 1, 0, 0, 0]]


def test_3d_windows_begun_in_the_padding(rng):
    x = rng.random((1, 1, 16, 60, 60), np.float32)
    y, indices = cu.max_pool3d(x, 5, 2, 2, return_indices=True)
    one = cu.max_unpool3d(y, indices, 5, 2, 2, x.shape, num_threads=1)
    assert bits(cu.max_unpool3d(y, indices, 5, 2, 2, x.shape, num_threads=8)) == bits(one)
    indices[0, 0, 0, 3, 3] = 2**40
    with pytest.raises(IndexError, match="index 1099511627776 at"):
        cu.max_unpool3d(y, indices, 5, 2, 2, x.shape, num_threads=8)


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(5, 2, 2), (5, 1, 2), ((4, 2, 2), 2, (2, 0, 0)), (3, 1, 1)])
@pytest.mark.parametrize("threads", [2, 3, 5, 8])
def test_layers_that_begin_together_in_the_padding(rng, kernel, stride, padding, threads):
    x = rng.random((1, 1, 8, 150, 160), np.float32)
    values, indices = cu.max_pool3d(x, kernel, stride, padding, return_indices=True)
    window = kernel, stride, padding
    for call in (
        lambda places, n: cu.max_unpool3d(values, places, *window, x.shape, num_threads=n),
        lambda places, n: cu.max_pool3d_backward(values, places, x.shape, *window, num_threads=n),
    ):
        assert bits(call(indices, threads)) == bits(call(indices, 1))
        for bad in (2**31, 2**40, -1):
            for at in rng.integers(0, indices.size, 5):
                wrong = indices.copy()
                wrong.flat[at] = bad
                with pytest.raises(IndexError, match=f"index {bad} "):
                    call(wrong, threads)
