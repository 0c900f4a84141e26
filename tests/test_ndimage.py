"""The filters under SciPy's names, beside their definition and beside SciPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from ndimage_reference import extremes

from cunpool import ndimage
from cunpool._ndimage import _borders


@pytest.fixture(params=["whole", "strips"], autouse=True)
def pad(request, monkeypatch):
    """Small arrays are padded as a whole, large ones in strips: so do these ones, whatever their size."""
    if request.param == "strips":
        monkeypatch.setattr(_borders, "PADDED_WHOLE_BYTES", 0)
        monkeypatch.setattr(_borders, "BAND_BYTES", 24)


MODES = ["reflect", "constant", "nearest", "mirror", "wrap"]
DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "bfloat16"]
FILTERS = {False: ndimage.maximum_filter, True: ndimage.minimum_filter}


def dtype_of(name):
    if name == "bfloat16":
        return pytest.importorskip("ml_dtypes").bfloat16
    return np.dtype(name)


def numbers(rng, shape, name, span=9):
    """Few different values, so that many are equal, and negative ones where the dtype has them."""
    values = rng.integers(0, span, shape)
    if name not in ("?",) and not name.startswith("u"):
        values -= span // 2
    return values.astype(dtype_of(name))


def check(x, footprint, modes, cval, origins, is_minimum, found, indices):
    values, places = extremes(x, footprint, modes, cval, origins, is_minimum)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found.astype(values.dtype), values)
    np.testing.assert_array_equal(indices, places)
    assert indices.dtype == np.int64


@pytest.mark.mostly_slow
@pytest.mark.parametrize("is_minimum", [False, True], ids=["max", "min"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [*range(1, 8), 15, 16, 31])
def test_sizes_and_origins_along_one_axis(rng, size, mode, is_minimum):
    function = ndimage.minimum_filter1d if is_minimum else ndimage.maximum_filter1d
    for length, origin in itertools.product((1, 2, 9, 40), {-(size // 2), 0, (size - 1) // 2}):
        x = numbers(rng, (length,), "i4")
        values, indices = function(x, size, mode=mode, cval=3, origin=origin, return_indices=True)
        check(x, np.ones(size, bool), [mode], 3, [origin], is_minimum, values, indices)
        np.testing.assert_array_equal(function(x, size, mode=mode, cval=3, origin=origin), values)


def random_call(rng, dtype):
    ndim = int(rng.integers(1, 6))
    shape = tuple(rng.integers(1, (0, 40, 12, 8, 6, 4)[ndim], ndim))
    x = numbers(rng, shape, dtype)
    sizes = [int(size) for size in rng.integers(1, (0, 31, 9, 6, 4, 4)[ndim], ndim)]
    origins = [int(rng.integers(-(size // 2), (size - 1) // 2 + 1)) for size in sizes]
    return x, sizes, origins, float(rng.integers(0, 5))


@pytest.mark.mostly_slow
@pytest.mark.parametrize("is_minimum", [False, True], ids=["max", "min"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_random_rectangles(rng, dtype, is_minimum):
    for _ in range(15):
        x, sizes, origins, cval = random_call(rng, dtype)
        cval = min(cval, 1) if dtype == "?" else cval
        modes = [str(mode) for mode in rng.choice(MODES, x.ndim)]
        options = {"size": sizes, "mode": modes, "cval": cval, "origin": origins}
        values, indices = FILTERS[is_minimum](x, **options, return_indices=True)
        assert values.dtype == x.dtype
        check(x, np.ones(sizes, bool), modes, cval, origins, is_minimum, values, indices)
        np.testing.assert_array_equal(FILTERS[is_minimum](x, **options), values)


@pytest.mark.mostly_slow
@pytest.mark.parametrize("is_minimum", [False, True], ids=["max", "min"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_random_footprints(rng, dtype, is_minimum):
    for _ in range(15):
        x, sizes, origins, cval = random_call(rng, dtype)
        cval = min(cval, 1) if dtype == "?" else cval
        footprint = rng.random(sizes) < rng.choice([0.2, 0.5, 0.9])
        footprint.flat[rng.integers(footprint.size)] = True
        mode = str(rng.choice(MODES))
        options = {"footprint": footprint, "mode": mode, "cval": cval, "origin": origins}
        values, indices = FILTERS[is_minimum](x, **options, return_indices=True)
        check(x, footprint, [mode] * x.ndim, cval, origins, is_minimum, values, indices)
        np.testing.assert_array_equal(FILTERS[is_minimum](x, **options), values)


@pytest.mark.slow
@pytest.mark.parametrize("is_minimum", [False, True], ids=["max", "min"])
@pytest.mark.parametrize("mode", MODES)
def test_every_size_over_two_axes(rng, mode, is_minimum):
    for size in range(1, 32):
        for dtype in ("u1", "f4", "i8"):
            x = numbers(rng, tuple(rng.integers(1, 40, 2)), dtype)
            origins = [int(origin) for origin in rng.integers(-(size // 2), (size - 1) // 2 + 1, 2)]
            options = {"size": size, "mode": mode, "cval": 2, "origin": origins}
            values, indices = FILTERS[is_minimum](x, **options, return_indices=True)
            check(x, np.ones((size, size), bool), [mode] * 2, 2, origins, is_minimum, values, indices)
            np.testing.assert_array_equal(FILTERS[is_minimum](x, **options), values)


@pytest.mark.mostly_slow
@pytest.mark.parametrize("is_minimum", [False, True], ids=["max", "min"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "bfloat16"])
@pytest.mark.parametrize("has_footprint", [False, True], ids=["rectangle", "footprint"])
def test_nan_wins_and_the_first_has_the_index(rng, has_footprint, dtype, is_minimum):
    for mode, cval in itertools.product(MODES, (0, np.nan)):
        x = numbers(rng, (7, 9), dtype)
        x[rng.random(x.shape) < 0.15] = np.nan
        footprint = np.ones((3, 4), bool)
        footprint[0, 0] = not has_footprint
        options = {"footprint": footprint, "mode": mode, "cval": cval}
        values, indices = FILTERS[is_minimum](x, **options, return_indices=True)
        check(x, footprint, [mode] * 2, cval, [0, 0], is_minimum, values, indices)
        alone = FILTERS[is_minimum](x, **options)
        np.testing.assert_array_equal(alone.astype(np.float64), values.astype(np.float64))
    assert not np.isnan(ndimage.maximum_filter(numbers(rng, (7,), dtype).astype(np.float64), 3)).any()


@pytest.mark.parametrize("dtype", ["u1", "i1", "i8", "u8"])
@pytest.mark.parametrize("is_minimum", [False, True], ids=["max", "min"])
def test_a_constant_beyond_the_integers_wins_always_or_never(rng, dtype, is_minimum):
    x = numbers(rng, (6, 7), dtype)
    never, always = (np.inf, -np.inf) if is_minimum else (-np.inf, np.inf)
    values, indices = FILTERS[is_minimum](x, 3, mode="constant", cval=never, return_indices=True)
    np.testing.assert_array_equal(values, FILTERS[is_minimum](x, 3, mode="nearest"))
    np.testing.assert_array_equal(x.ravel()[indices], values)
    for cval in (always, np.nan, -1e30 if is_minimum else 1e30):
        values, indices = FILTERS[is_minimum](x, 3, mode="constant", cval=cval, return_indices=True)
        inner = (slice(1, -1),) * 2
        np.testing.assert_array_equal(values[inner], FILTERS[is_minimum](x, 3)[inner])
        assert (indices[inner] >= 0).all()
        assert (indices < 0).sum() == 42 - 20
        values[inner] = values[0, 0]
        assert (values == values[0, 0]).all()


def test_a_constant_is_cast_to_the_dtype_of_the_output():
    x = np.zeros(3, np.uint8)
    for cval, dtype, edge in ((3.7, None, 3), (3.7, "f4", np.float32(3.7)), (-0.5, None, 0), (300, "i4", 300)):
        values = ndimage.maximum_filter1d(x, 3, output=dtype, mode="constant", cval=cval)
        assert values.tolist() == [edge, 0, edge]
    assert ndimage.minimum_filter1d(x.astype(bool), 3, mode="constant", cval=2).tolist() == [False] * 3
    assert ndimage.maximum_filter1d(x.astype(bool), 3, mode="constant", cval=2).tolist() == [True, False, True]
    halves = ndimage.maximum_filter1d(np.array([0.5, 0, 0, 0]), 2, output=bool, mode="constant")
    assert halves.tolist() == [False] * 4  # as C casts a double to an integer
    # A footprint casts it to the dtype of the input first, as in SciPy.
    values = ndimage.maximum_filter(x, footprint=[1, 0, 1], output="f4", mode="constant", cval=3.7)
    assert values.tolist() == [3, 0, 3]


def test_integers_above_2_to_the_53_are_exact():
    x = np.array([2**62 + 1, 2**62, 2**62 + 2, 0])
    assert ndimage.maximum_filter(x, 3).tolist() == [2**62 + 1, 2**62 + 2, 2**62 + 2, 2**62 + 2]
    assert ndimage.minimum_filter(x.astype(np.uint64) * 2, 2).tolist() == [2**63 + 2, 2**63, 2**63, 0]


def test_output_may_be_the_input_or_overlap_it(rng):
    for mode, footprint in itertools.product(MODES, (None, [[1, 0, 1], [1, 1, 0]])):
        x = numbers(rng, (9, 11), "i4")
        options = {"size": None if footprint else 3, "footprint": footprint, "mode": mode, "cval": 2}
        for function in (ndimage.maximum_filter, ndimage.grey_erosion, ndimage.grey_opening, ndimage.grey_closing):
            expected = function(x[:-2], **options)
            whole = x.copy()
            assert function(whole[:-2], **options, output=whole[2:]).base is whole
            np.testing.assert_array_equal(whole[2:], expected)
            whole = x[:-2].copy()
            assert function(whole, **options, output=whole) is whole
            np.testing.assert_array_equal(whole, expected)
    values, indices = ndimage.maximum_filter(x, 3, return_indices=True)
    output = np.empty_like(x, dtype=">f8", order="F")
    found = ndimage.maximum_filter(x, 3, output=output, return_indices=True)
    assert found.values is output
    np.testing.assert_array_equal(output, values)
    np.testing.assert_array_equal(found.indices, indices)
    with pytest.raises(ValueError, match="read-only"):
        ndimage.maximum_filter(x, 3, output=np.broadcast_to(x, x.shape))


def test_layouts_and_byte_orders(rng):
    x = numbers(rng, (5, 6, 7, 3), "i2")
    expected = ndimage.maximum_filter(x, (3, 1, 2, 2), mode="wrap")
    for other in (np.asfortranarray(x), x.astype(">i2"), np.ascontiguousarray(x[::-1, ..., ::-1])[::-1, ..., ::-1]):
        values = ndimage.maximum_filter(other, (3, 1, 2, 2), mode="wrap")
        assert values.dtype == np.int16
        np.testing.assert_array_equal(values, expected)
    for axes in itertools.chain(*(itertools.combinations(range(4), count) for count in range(5))):
        values, output = ndimage.minimum_filter(x, 3, axes=axes), np.empty_like(x)
        assert ndimage.minimum_filter(x, 3, output=output, axes=axes) is output
        np.testing.assert_array_equal(output, values)
        by_axis = x
        for axis in axes:
            by_axis = ndimage.minimum_filter1d(by_axis, 3, axis)
        np.testing.assert_array_equal(values, by_axis)
    assert ndimage.maximum_filter(x.tolist(), 3).tolist() == ndimage.maximum_filter(x, 3).tolist()


def test_arrays_without_elements_or_without_axes():
    for shape in ((0,), (3, 0), (0, 2, 0)):
        values, indices = ndimage.maximum_filter(np.zeros(shape, np.uint8), 3, return_indices=True)
        assert values.shape == indices.shape == shape
        assert values.dtype == np.uint8
        assert ndimage.grey_closing(np.zeros(shape), 3, mode="wrap").shape == shape
    assert ndimage.maximum_filter(np.float32(3), 3).shape == ()
    values, indices = ndimage.maximum_filter(np.arange(6).reshape(2, 3), 1, return_indices=True)
    assert values.tolist() == indices.tolist() == [[0, 1, 2], [3, 4, 5]]
    values = ndimage.minimum_filter(np.array([3.5, 2]), 1, output="i4")
    assert values.tolist() == [3, 2]


def test_windows_larger_than_memory():
    x = np.array([3, 9, 1])
    for mode in MODES:
        values, indices = ndimage.maximum_filter1d(x, 10**12 + 1, mode=mode, return_indices=True)
        assert values.tolist() == [9] * 3
        assert indices.tolist() == [1] * 3
    values, indices = ndimage.maximum_filter1d(x, 10**12, mode="constant", cval=9, return_indices=True)
    assert indices.tolist() == [-1] * 3


def test_axes_and_their_order(rng):
    x = numbers(rng, (4, 5, 6), "i4")
    whole = ndimage.maximum_filter(x, (3, 1, 2), mode=["wrap", "nearest", "mirror"], origin=(1, 0, 0))
    some = ndimage.maximum_filter(x, (2, 3), mode=["mirror", "wrap"], origin=(0, 1), axes=(-1, 0))
    np.testing.assert_array_equal(some, whole)
    for axes in (1, (1,), np.int64(1), [-2]):
        np.testing.assert_array_equal(
            ndimage.minimum_filter(x, 3, axes=axes), ndimage.minimum_filter1d(x, 3, axis=np.int8(1))
        )


def test_opening_and_closing_are_two_filters(rng):
    x = numbers(rng, (8, 9), "i4")
    disc = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]])
    for options in ({"size": (2, 3)}, {"footprint": disc}, {"structure": np.zeros((3, 2))}):
        options.update(mode="wrap", origin=(0, -1))
        eroded, dilated = ndimage.grey_erosion(x, **options), ndimage.grey_dilation(x, **options)
        np.testing.assert_array_equal(ndimage.grey_opening(x, **options), ndimage.grey_dilation(eroded, **options))
        np.testing.assert_array_equal(ndimage.grey_closing(x, **options), ndimage.grey_erosion(dilated, **options))
    values, indices = ndimage.grey_dilation(x, 3, return_indices=True)
    np.testing.assert_array_equal(x.ravel()[indices], values)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_change_nothing(rng, threads):
    x = rng.integers(0, 200, (600, 700), dtype=np.uint8)
    for options in ({"size": 7}, {"footprint": np.eye(3)}):
        for mode in MODES:
            np.testing.assert_array_equal(
                ndimage.maximum_filter(x, **options, mode=mode, num_threads=threads),
                ndimage.maximum_filter(x, **options, mode=mode),
            )


@pytest.mark.parametrize(
    ("error", "message", "options"),
    [
        (ValueError, "size must be at least 1", {"size": 0}),
        (ValueError, "size must be at least 1", {"size": (3, -1)}),
        (ValueError, "no footprint provided", {}),
        (ValueError, "All-zero footprint", {"footprint": np.zeros((2, 2))}),
        (ValueError, "must match len", {"footprint": [1, 0]}),
        (ValueError, "size must have an entry for each", {"size": (3, 3, 3)}),
        (ValueError, "size must have an entry for each", {"footprint": [1, 1, 1]}),
        (ValueError, "origin must keep the window", {"size": 3, "origin": 2}),
        (ValueError, "origin must keep the window", {"footprint": np.eye(3), "origin": (0, -2)}),
        (ValueError, "mode must be one of", {"size": 3, "mode": "edge"}),
        (ValueError, "mode must be one of", {"size": 3, "mode": ["wrap", 3]}),
        (ValueError, "mode must be one for all", {"footprint": np.eye(3), "mode": ["wrap", "wrap"]}),
        (ValueError, "out of range", {"size": 3, "axes": 2}),
        (ValueError, "unique", {"size": 3, "axes": (0, -2)}),
        (ValueError, "iterable of integers", {"size": 3, "axes": 0.5}),
        (ValueError, "output must have the shape", {"size": 3, "output": np.zeros(3)}),
        (ValueError, "numeric dtype", {"size": 3, "output": "U3"}),
        (TypeError, "return_indices must be", {"size": 3, "return_indices": 3}),
    ],
)
def test_errors(error, message, options):
    with pytest.raises(error, match=message):
        ndimage.maximum_filter(np.zeros((4, 4)), **options)


def test_errors_of_other_filters():
    x = np.zeros((4, 4))
    with pytest.raises(ValueError, match="size, footprint, or structure"):
        ndimage.grey_erosion(x)
    for name in ("grey_erosion", "grey_dilation", "grey_opening", "grey_closing"):
        with pytest.raises(ValueError, match=f"call scipy.ndimage.{name}"):
            getattr(ndimage, name)(x, structure=np.ones((3, 3)))
    with pytest.raises(ValueError, match="shape of footprint"):
        ndimage.grey_erosion(x, structure=np.zeros(3), footprint=np.ones((3, 3)))
    with pytest.raises(ValueError, match="must match len"):
        ndimage.grey_erosion(x, structure=np.zeros(3))
    with pytest.raises(ValueError, match="All-zero footprint"):
        ndimage.grey_erosion(x, structure=np.zeros((3, 3)), footprint=np.zeros((3, 3)))
    assert ndimage.grey_erosion(x, structure=[[9, 0], [0, 0]], footprint=[[0, 1], [1, 1]]).shape == x.shape
    with pytest.raises(ValueError, match="axis"):
        ndimage.maximum_filter1d(x, 3, axis=2)
    with pytest.raises(ValueError, match="size must be at least 1"):
        ndimage.minimum_filter1d(x, 0)
    with pytest.raises(RuntimeError, match="mode must be one of"):
        ndimage.minimum_filter1d(x, 3, mode="edge")
    with pytest.raises(TypeError, match="the dtype of ml_dtypes"):
        ndimage.maximum_filter(np.zeros(3, [("bfloat16", np.uint16)]), 3)
    for dtype in (complex, "O", "M8[s]", "longdouble"):
        with pytest.raises(TypeError):
            ndimage.maximum_filter(x.astype(dtype), 3)


@pytest.mark.parametrize("name", ["maximum_filter", "minimum_filter", "grey_dilation", "grey_opening", "grey_closing"])
def test_a_size_beside_a_footprint_is_ignored_with_one_warning(name):
    with pytest.warns(UserWarning, match="ignoring size because footprint is set") as caught:
        values = getattr(ndimage, name)(np.arange(5), 99, [1, 1, 1])
    assert len(caught) == 1
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(values, getattr(ndimage, name)(np.arange(5), 3))
