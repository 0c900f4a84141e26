"""Typical code with Dask arrays, which type checkers read and nobody runs."""

from __future__ import annotations

import dask.array as da
from typing_extensions import assert_type

import cunpool.dask as lazy


def pooled(x: da.Array, labels: da.Array) -> da.Array:
    assert_type(lazy.max_pool3d(x, 2), da.Array)
    assert_type(lazy.max_pool3d(x, 3, 2, "same"), da.Array)
    assert_type(lazy.max_pool2d(x, 3, 2, ((0, 1), (1, 0))), da.Array)
    assert_type(lazy.min_pool2d(x, 3, nan_policy="omit"), da.Array)
    values, codes = lazy.max_pool3d(x, 2, return_indices=True, index_format="window")
    assert_type(codes, da.Array)
    assert_type(lazy.max_unpool3d(values, codes, 2, index_format="window"), da.Array)
    assert_type(lazy.max_unpool3d(*lazy.max_pool3d(x, 2, return_indices=True), 2, output_size=(4, 4, 4)), da.Array)
    assert_type(lazy.max_pool3d_backward(values, codes, (4, 4, 4), 2, index_format="window"), da.Array)
    return lazy.take_at3d(labels, codes, 2, index_format="window")
