from __future__ import annotations

import numpy as np
import pytest
from cases import bits

import cunpool as cu


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
