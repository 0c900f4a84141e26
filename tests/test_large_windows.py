"""Windows of many elements: their indices are searched for behind their values, or found across channels."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import vectorised
from cases import POOL, bits, channels_last, planned

import cunpool as cu

MIN_POOL = (None, cu.min_pool1d, cu.min_pool2d, cu.min_pool3d)
DTYPES = ("u1", "i2", "u4", "i8", "e", ml_dtypes.bfloat16, "f4", "f8")

ORDERS = {
    "rows": lambda x: x,
    "rows with gaps": lambda x: np.concatenate([x, x[..., :3]], -1)[..., :-3],
    "channels last": channels_last,
    "columns": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
}

# Numbers of spatial axes, shapes, and arguments: kernel, stride, padding, dilation.
WINDOWS = [
    (1, (2, 3, 900), (160, 160)),
    (1, (1, 2, 900), (159, 159)),
    (1, (1, 2, 1300), (400, 200, 170)),
    (1, (1, 70, 700), (300, 150, 140)),
    (2, (1, 3, 64, 80), (16, 16)),
    (2, (1, 3, 70, 66), ((13, 17), (12, 16), (6, 8))),
    (2, (1, 3, 70, 66), (20, 10, 9)),
    (2, (2, 2, 90, 40), ((40, 5), (40, 5), 0, (2, 1))),
    (2, (2, 2, 40, 90), ((5, 40), (5, 40), 0, (1, 2))),
    (2, (1, 2, 1, 40000), ((1, 20000), (1, 5000), (0, 9000))),
    (2, (1, 64, 33, 34), ((16, 16), (16, 17))),
    (2, (1, 64, 33, 34), (17, 16, 8)),
    (2, (2, 33, 20, 21), ((20, 21),)),
    (2, (1, 513, 14, 15), ((14, 15),)),
    (3, (1, 2, 12, 13, 14), ((6, 6, 7), (6, 6, 7))),
    (3, (1, 65, 9, 10, 11), ((5, 6, 7), (4, 4, 4), (2, 3, 3))),
    (3, (1, 3, 16, 17, 18), ((16, 17, 18),)),
]


def few_numbers(rng, dtype, shape):
    """Many equal numbers, zeros of both signs, whole parts of the lowest number of the type, and at times NaN."""
    x = rng.integers(0, 3, shape).astype(dtype)
    lowest = np.iinfo(dtype).min if x.dtype.kind in "iu" else -np.inf
    x[..., : shape[-1] // 3] = lowest
    if x.dtype.kind not in "iu":
        x[rng.random(shape) < 0.3] *= np.asarray(-1, dtype)
        x[rng.random(shape) < 0.1] = np.asarray(-0.0, dtype)
        if rng.random() < 0.5:
            x.reshape(-1)[rng.integers(0, x.size, 3)] = np.nan
    return x


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("order", "n", "shape", "arguments"),
    [(order, *window) for order in ORDERS for window in WINDOWS if window[0] > 1 or order != "columns"],
)
def test_the_first_of_equal_elements_is_found(rng, n, shape, arguments, dtype, order):
    plain = few_numbers(rng, dtype, shape)
    x = ORDERS[order](plain)
    omit = "omit" if rng.random() < 0.5 and plain.dtype.kind not in "iu" else "propagate"
    window = dict(zip(("kernel_size", "stride", "padding", "dilation"), arguments, strict=False))
    for pool, minimum in ((POOL[n], False), (MIN_POOL[n], True)):
        values, indices = vectorised.max_pool(plain, n, *arguments, minimum=minimum, omit=omit == "omit")
        for threads in (1, 3):
            found = pool(x, *arguments, return_indices=True, nan_policy=omit, num_threads=threads)
            assert bits(found.values) == bits(values)
            assert np.array_equal(found.indices, indices)
            alone = pool(x, *arguments, nan_policy=omit, num_threads=threads)
            assert np.array_equal(alone.astype(float), values.astype(float), equal_nan=True)
        small = pool(x, *arguments, return_indices=True, nan_policy=omit, index_dtype=np.int32)
        assert np.array_equal(small.indices, indices)
        codes = pool(x, *arguments, return_indices=True, nan_policy=omit, index_format="window").indices
        places = cu.convert_indices(codes, "window", "plane", input_size=shape[2:], **window)
        assert np.array_equal(places, indices)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f4", "u1"])
@pytest.mark.parametrize("side", [(255, 257), (256, 256), (257, 256)])
def test_windows_up_to_the_most_elements_that_are_compared(rng, side, dtype):
    x = channels_last(few_numbers(rng, dtype, (1, 64, *side)))
    values, indices = vectorised.max_pool(x, 2, side)
    found = cu.max_pool2d(x, side, return_indices=True)
    assert bits(found.values) == bits(values)
    assert np.array_equal(found.indices, indices)
    method = {"across"} if dtype == "f4" and np.prod(side) <= 65536 else {"separable"}
    assert planned(cu.max_pool2d, x, side, return_indices=True) - {"streamed"} == (
        {"NumPy"} if dtype == "u1" and np.prod(side) > 65536 else method
    )


def test_results_in_strided_arrays(rng):
    x = few_numbers(rng, "f4", (2, 3, 40, 60))
    values, indices = vectorised.max_pool(x, 2, 20)
    out = np.full((2, 3, 2, 7), 9, "f4"), np.full((2, 3, 2, 7), 9, "i8")
    cu.max_pool2d(x, 20, return_indices=True, out=(out[0][..., ::3], out[1][..., ::3]))
    assert np.array_equal(out[0][..., ::3], values, equal_nan=True)
    assert np.array_equal(out[1][..., ::3], indices)
    assert all((a[..., 1::3] == 9).all() and (a[..., 2::3] == 9).all() for a in out)
