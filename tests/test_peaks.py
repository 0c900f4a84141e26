from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
import reference
from cases import FLOATS, INTEGERS, OTHER, layout, random_numbers

import cunpool as cu
from cunpool import _arrays, _peaks

DTYPES = [np.dtype(bool), *INTEGERS, *FLOATS, np.dtype(f"{OTHER}f4"), np.dtype(f"{OTHER}i2")]


def laid_out(rng, image):
    return layout(rng, image[None])[0]


@pytest.fixture(params=[1, 30, 1 << 17])
def block(request, monkeypatch):
    """Blocks of an element, a few and many."""
    monkeypatch.setattr(_peaks, "BLOCK_ELEMENTS", request.param)


@pytest.mark.mostly_slow
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.usefixtures("block")
def test_peaks_are_those_of_the_definition(rng, n):
    most = [0, 40, 12, 7, 5, 4][n]
    found = 0
    for _ in range(120):
        shape = tuple(rng.integers(1, most + 1, n).tolist())
        image = rng.integers(-3, rng.choice([0, 3, 20, 1000]), shape).astype(rng.choice(["i4", "f4", "f8"]))
        distance = int(rng.integers(0, 4))
        border = rng.choice([False, False, True, 2, None])
        border = tuple(rng.integers(0, 3, n).tolist()) if border is None else border
        each = border if isinstance(border, tuple) else (distance if border is True else int(border),) * n
        low, relative = rng.choice([None, None, -2, 0]), rng.choice([None, None, 0.5])
        number, merged = rng.choice([None, None, 0, 3]), bool(rng.random() < 0.5)
        result = cu.peaks(
            laid_out(rng, image), distance, threshold_abs=low, threshold_rel=relative, exclude_border=border,
            num_peaks=number, one_per_plateau=merged,
        )  # fmt: skip
        assert (result.dtype, result.shape[1]) == (np.int64, n)
        assert result.tolist() == reference.peaks(image, distance, low, relative, each, number, merged)
        found += len(result)
    assert found > 25


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_any_dtype(rng, dtype):
    for merged in (False, True):
        image = random_numbers(rng, dtype.newbyteorder("="), (9, 12)).astype(dtype)
        like = image.astype(object) if dtype.kind in "iub" else image.astype(np.float64)
        for low in (-math.inf, 0, 1.5):
            with np.errstate(invalid="ignore"):
                expected = reference.peaks(like, 1, low, None, (0, 0), None, merged)
            result = cu.peaks(image, threshold_abs=low, exclude_border=False, one_per_plateau=merged)
            assert {*map(tuple, result.tolist())} == {*map(tuple, expected)}
            values = [like[tuple(at)] for at in result]
            assert values == sorted(values, reverse=True)


def test_bfloat16_without_its_library():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    image = np.zeros((5, 5), ml_dtypes.bfloat16)
    image[1, 1], image[3, 3] = 2, 3
    assert cu.peaks(image.view(_arrays.BFLOAT16)).tolist() == cu.peaks(image).tolist() == [[3, 3], [1, 1]]
    assert cu.peaks(image, threshold_abs=image[1, 1]).tolist() == [[3, 3]]


def test_integers_are_compared_and_sorted_exactly():
    image = np.zeros((9, 9), np.uint64)
    image[2, 2], image[2, 6], image[6, 2] = 2**63 + 1, 2**63 + 2, 2**63
    assert cu.peaks(image).tolist() == [[2, 6], [2, 2], [6, 2]]
    assert cu.peaks(image, threshold_abs=2**63 + 1).tolist() == [[2, 6]]
    assert cu.peaks(image, threshold_abs=np.uint64(2**63 + 1)).tolist() == [[2, 6]]
    assert cu.peaks(image, threshold_abs=2**64).tolist() == []
    assert cu.peaks(image, threshold_rel=2).tolist() == []
    small = np.array([0, 5, 0, 0, 3, 0], np.uint8)
    assert cu.peaks(small, threshold_abs=np.array(3)).tolist() == [[1]]
    assert cu.peaks(small, threshold_abs=300).tolist() == cu.peaks(small, threshold_abs=math.inf).tolist() == []
    signed = np.array([-128, -127, -128, 100, 99], np.int8)
    assert cu.peaks(signed).tolist() == [[3], [1]]
    # The peak of 0 comes last, where a negated 0 of this dtype would come first.
    assert cu.peaks(np.array([1, 0, 5, 0, 0, 0], np.uint8), threshold_abs=-1).tolist() == [[2], [4]]


def test_a_threshold_of_floats_is_rounded_as_by_numpy():
    image = np.zeros(5, np.float32)
    image[2] = 0.1
    assert len(cu.peaks(image, threshold_abs=0.1)) == (image > 0.1).sum() == 0
    assert len(cu.peaks(image.astype(np.float16), threshold_abs=1e30)) == 0
    assert len(cu.peaks(image, threshold_rel=np.float32(0.5))) == 1


def test_nan_is_no_peak_and_hides_what_is_beside_it():
    image = np.zeros((9, 9))
    image[2, 2], image[2, 3], image[6, 6] = math.nan, 3, 1
    assert cu.peaks(image, threshold_abs=0).tolist() == [[6, 6]]
    assert cu.peaks(image).tolist() == cu.peaks(image, threshold_abs=math.nan).tolist() == []
    assert cu.peaks(image, threshold_abs=0, threshold_rel=0.5).tolist() == [[6, 6]]


def test_a_constant_image_has_no_peaks_and_an_empty_one_neither():
    for low in (None, -1):
        assert cu.peaks(np.ones((5, 6)), threshold_abs=low, exclude_border=False).shape == (0, 2)
        assert cu.peaks(np.ones((5, 0, 2)), threshold_abs=low).shape == (0, 3)
    assert cu.peaks(np.ones((5, 6)), 0, threshold_abs=0).shape == (30, 2)
    assert cu.peaks([[3]], threshold_abs=0, exclude_border=False).tolist() == [[0, 0]]


def test_one_element_of_a_plateau():
    image = np.array([[1, 0, 2, 0, 1], [0, 2, 0, 0, 1], [0, 2, 2, 0, 0], [0, 0, 0, 0, 3]])
    assert cu.peaks(image, exclude_border=False, one_per_plateau=True).tolist() == [[3, 4], [0, 2], [0, 4]]
    # The first in raster order, whatever the order in memory.
    ramp = np.eye(6)[::-1]
    for view in (ramp, np.asfortranarray(ramp), ramp[::-1][::-1]):
        assert cu.peaks(view, exclude_border=False, one_per_plateau=True).tolist() == [[0, 5]]


@pytest.mark.parametrize("distance", [1, 4])
def test_peaks_are_scikit_images(rng, distance):
    feature = pytest.importorskip("skimage.feature")
    for n, most in ((1, 60), (2, 15), (3, 8), (4, 5)):
        for _ in range(20):
            shape = tuple(rng.integers(2, most + 1, n).tolist())
            size = math.prod(shape)
            # In a distance above 1, scikit-image drops some of equal peaks.
            values = rng.integers(0, 5, size) if distance == 1 else rng.permutation(size)
            image = laid_out(rng, values.reshape(shape).astype(rng.choice(["i4", "f4", "f8"])) - 2)
            arguments = {
                "threshold_abs": rng.choice([None, 0, 1.5]),
                "threshold_rel": rng.choice([None, 0.2]),
                "exclude_border": (True, False, 1, (1,) * n)[rng.integers(4)],
                "num_peaks": (math.inf, 2)[rng.integers(2)],
            }
            expected = feature.peak_local_max(image, distance, **arguments)
            result = cu.peaks(image, distance, **arguments)
            assert (result.dtype, result.tolist()) == (expected.dtype, expected.tolist())


def test_memory_is_that_of_blocks_and_of_the_result(rng):
    image = np.zeros((2048, 2048), np.float32)
    image[::8, ::8] = 1 + rng.random((256, 256))
    cu.peaks(image)
    for merged in (False, True):
        tracemalloc.start()
        try:
            assert len(cu.peaks(image, 3, one_per_plateau=merged)) == 255**2
            assert tracemalloc.get_traced_memory()[1] < image.nbytes // 2 + merged * image.nbytes
        finally:
            tracemalloc.stop()


def test_wrong_arguments_are_told():
    image = np.zeros((5, 6))
    for error, said, arguments in (
        (TypeError, r"image must be of integers or bool, or of float16.*, got complex128", {"image": image * 1j}),
        (TypeError, r"image must not be a masked array", {"image": np.ma.masked_array(image)}),
        (ValueError, r"image must have at least one axis, got 3", {"image": 3}),
        (TypeError, r"min_distance must be an integer, got 1.5", {"min_distance": 1.5}),
        (ValueError, r"min_distance must be at least 0, got -1", {"min_distance": -1}),
        (TypeError, r"threshold_abs must be a number or None, got 'a'", {"threshold_abs": "a"}),
        (TypeError, r"threshold_rel must be of integers.*, got complex128", {"threshold_rel": np.array(1j)}),
        (TypeError, r"threshold_rel must be a number or None, got array\(\[1\]\)", {"threshold_rel": np.array([1])}),
        (TypeError, r"exclude_border must be an integer, got 1.5", {"exclude_border": 1.5}),
        (TypeError, r"exclude_border must be an integer, got None", {"exclude_border": None}),
        (TypeError, r"exclude_border must be an integer, got True", {"exclude_border": (0, True)}),
        (ValueError, r"exclude_border must be at least 0, got -1", {"exclude_border": (0, -1)}),
        (ValueError, r"exclude_border must have 2 entries, one for each axis of image, got \(1,\)",
         {"exclude_border": (1,)}),
        (ValueError, r"num_peaks must be at least 0, got -1", {"num_peaks": -1}),
        (TypeError, r"num_peaks must be an integer, got 2.0", {"num_peaks": 2.0}),
        (TypeError, r"one_per_plateau must be .*, got 'no'", {"one_per_plateau": "no"}),
        (ValueError, r"num_threads must be at least 1, got 0", {"num_threads": 0}),
    ):  # fmt: skip
        with pytest.raises(error, match=said):
            cu.peaks(**{"image": image, **arguments})


def test_the_number_of_threads_makes_no_difference(rng):
    image = rng.integers(0, 50, (600, 700)).astype(np.float32)
    once = cu.peaks(image, 2, num_threads=1)
    assert len(once) > 100
    assert np.array_equal(once, cu.peaks(image, 2, num_threads=2))
