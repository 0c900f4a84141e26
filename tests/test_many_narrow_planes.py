from __future__ import annotations

import numpy as np
import pytest
from cases import bits

import cunpool as cu


def test_conversions_of_many_planes_one_wide(rng):
    x = rng.random((1, 9000, 3, 2), np.float32)
    _, indices = cu.max_pool2d(x, (2, 2), return_indices=True)
    window = {"input_size": (3, 2), "kernel_size": 2}
    codes = cu.convert_indices(indices, "plane", "window", **window)
    assert bits(codes) == bits(cu.max_pool2d(x, 2, return_indices=True, index_format="window")[1])
    assert bits(cu.convert_indices(codes, "window", "plane", **window)) == bits(indices)


def test_the_first_bad_code_of_many_planes_one_wide():
    codes = np.zeros((1, 9000, 1, 1), np.uint8)
    codes[0, 8500:] = 4
    with pytest.raises(IndexError, match=r"window code 4 at position \(0, 8500, 0, 0\)"):
        cu.max_unpool2d(np.ones(codes.shape), codes, 2, index_format="window")
