from __future__ import annotations

import numpy as np
import pytest
from cases import POOL, UNPOOL, bits

import cunpool as cu


@pytest.mark.parametrize("n", [1, 2, 3])
def test_modules_are_the_functions(rng, n):
    x = rng.standard_normal((2, 3, *(9,) * n))
    pool = getattr(cu, f"MaxPool{n}d")(3, 2, 1, return_indices=True)
    unpool = getattr(cu, f"MaxUnpool{n}d")(3, 2, 1)
    y, indices = pool(x)
    expected = POOL[n](x, 3, 2, 1, return_indices=True)
    assert (bits(y), bits(indices)) == tuple(map(bits, expected))
    z = unpool(y, indices, output_size=x.shape)
    assert bits(z) == bits(UNPOOL[n](y, indices, 3, 2, 1, x.shape))
    assert unpool(y, indices, x.shape, out=z) is z
    assert pool(x, out=(y, None)).values is y
    narrow = getattr(cu, f"MaxPool{n}d")(3, 2, 1, return_indices=True, index_dtype=np.int32)(x)
    assert bits(narrow.indices) == bits(indices.astype(np.int32))
    rest = x[..., :8]  # one more window where sizes are rounded up
    assert bits(getattr(cu, f"MaxPool{n}d")(3, 2, 0, 1, False, True)(rest)) == bits(POOL[n](rest, 3, 2, ceil_mode=True))


def test_attributes_and_reprs_are_pytorchs():
    pool = cu.MaxPool2d(3, padding=1, dilation=(1, 2), return_indices=True, ceil_mode=True)
    assert vars(pool) == {
        "kernel_size": 3, "stride": 3, "padding": 1, "dilation": (1, 2), "return_indices": True, "ceil_mode": True,
        "index_format": "plane", "index_dtype": None, "nan_policy": "propagate", "channel_axis": None,
    }  # fmt: skip
    assert repr(pool) == "MaxPool2d(kernel_size=3, stride=3, padding=1, dilation=(1, 2), ceil_mode=True)"
    assert repr(cu.MaxPool1d(2)) == "MaxPool1d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)"
    unpool = cu.MaxUnpool2d((2, 3), padding=1)
    assert vars(unpool) == {
        "kernel_size": (2, 3), "stride": (2, 3), "padding": (1, 1), "dilation": (1, 1), "index_format": "plane",
        "channel_axis": None,
    }  # fmt: skip
    assert repr(unpool) == "MaxUnpool2d(kernel_size=(2, 3), stride=(2, 3), padding=(1, 1))"
    assert repr(cu.MaxUnpool1d(2)) == "MaxUnpool1d(kernel_size=(2,), stride=(2,), padding=(0,))"
    assert repr(cu.MaxUnpool3d(2, 1)) == "MaxUnpool3d(kernel_size=(2, 2, 2), stride=(1, 1, 1), padding=(0, 0, 0))"


def test_bad_arguments():
    with pytest.raises(ValueError, match="kernel_size must be at least 1"):
        cu.MaxUnpool2d(0)
    with pytest.raises(ValueError, match="one per axis"):
        cu.MaxUnpool3d((2, 2))
    with pytest.raises(ValueError, match="at most half"):
        cu.MaxPool1d(2, padding=2)(np.zeros((1, 4)))


def test_threads_of_one_call(rng):
    x = rng.random((1, 4, 64, 64))
    pool, unpool = cu.MaxPool2d(2, return_indices=True), cu.MaxUnpool2d(2)
    y, indices = pool(x, num_threads=1)
    assert bits(unpool(y, indices, num_threads=2)) == bits(cu.max_unpool2d(y, indices, 2))
    for call in (lambda: pool(x, num_threads=0), lambda: unpool(y, indices, num_threads=0)):
        with pytest.raises(ValueError, match="num_threads must be at least 1, got 0"):
            call()
