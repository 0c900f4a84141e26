"""Mistakes with Dask arrays. A type checker has to find each line with `ignore`, and names an `ignore` too many."""

import dask.array as da

import cunpool.dask as lazy


def pooled(x: da.Array) -> da.Array:
    lazy.max_unpool3d(x, x, 2, index_format="onnx")  # type: ignore[arg-type]
    lazy.max_pool3d(x, 2, index_format="onnx")  # type: ignore[call-overload]
    return lazy.max_pool3d(x, 2, return_indices=True)  # type: ignore[return-value]
