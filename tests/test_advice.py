from __future__ import annotations

import numpy as np
import pytest
import reference
from cases import OTHER, POOL, geometry, lead

import cunpool as cu
from cunpool import _advice, _geometry


def sizes_of(n, shape, kernel, stride, padding, dilation=1, output_size=None):
    return _geometry.unpooling(n, shape, kernel, stride, padding, dilation, output_size)[2]


def all_within(indices, n, full, kernel, stride, padding, dilation) -> bool:
    """Whether each index is among its window's cells, counted."""
    windows = list(reference.windows(indices.shape[-n:], n, kernel, stride, padding, dilation, full))
    planes = indices.reshape(-1, len(windows)).tolist()
    return all(index in cells for plane in planes for index, cells in zip(plane, windows, strict=True))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_another_size_is_one_that_the_indices_speak_of(rng, n):
    found = 0
    for _ in range(150):
        (kernel, stride, padding, dilation, ceil_mode), full = geometry(rng, n, most={1: 40, 2: 20, 3: 9}[n])
        stride = kernel if stride is None else stride
        _, indices = POOL[n](
            rng.random(lead(rng) + full), kernel, stride, padding, dilation, ceil_mode, return_indices=True
        )
        try:
            sizes = sizes_of(n, indices.shape, kernel, stride, padding, dilation)
        except ValueError:
            continue  # an output without cells
        other = _advice.other_size(indices, n, sizes)
        if other is not None:
            found += 1
            assert other != sizes[3 - n : 3]
            assert all_within(indices, n, other, kernel, stride, padding, dilation)
            sizes_of(n, indices.shape, kernel, stride, padding, dilation, other)  # legal
        elif all_within(indices, n, full, kernel, stride, padding, dilation):
            default = sizes[3 - n : 3]
            strides = reference.each(stride, n)
            # The true size is legal too, unless dilation put the last windows past the end of what was pooled.
            legal = all(abs(f - d) < s for f, d, s in zip(full, default, strides, strict=True))
            assert not legal or all_within(indices, n, default, kernel, stride, padding, dilation)
    assert found > {1: 0, 2: 20, 3: 20}[n]


def test_an_odd_photograph_in_ceil_mode_is_said(rng):
    x = rng.random((3, 341, 511), np.float32)
    y, indices = cu.max_pool2d(x, 2, ceil_mode=True, return_indices=True)
    unpool = cu.MaxUnpool2d(2)
    for call in (lambda: cu.max_unpool2d(y, indices, 2), lambda: unpool(y, indices.astype(np.int32))):
        with pytest.warns(
            UserWarning, match="default size, 342 x 512, but inside them in one of 342 x 511: give"
        ) as said:
            call()
        assert [warning.filename for warning in said] == [__file__]
    assert np.array_equal(cu.max_unpool2d(y, indices, 2, output_size=x.shape) != 0, reference_mask(x, indices))
    cu.max_unpool2d(y, indices, 2, output_size=(342, 512))  # who asks for it gets it


def reference_mask(x, indices):
    mask = np.zeros((x.shape[0], x[0].size), bool)
    np.put_along_axis(mask, indices.reshape(len(mask), -1), True, 1)
    return mask.reshape(x.shape)


def test_indices_that_may_be_anywhere_are_not_commented_on(rng):
    values = rng.random((1, 4, 64, 64), np.float32)
    window = np.arange(64)[:, None] * 256 + np.arange(64) * 2
    scattered = rng.integers(0, 128 * 128, values.shape)
    within = np.broadcast_to(window, values.shape)
    one = within.copy()
    one[0, 2, 5, 7] += 5
    for indices in (scattered, within, one):
        cu.max_unpool2d(values, indices, 2, num_threads=2)


def test_an_index_outside_the_output_that_another_size_would_have(rng):
    x = rng.random((2, 3, 15, 13))
    y, indices = cu.max_pool2d(x, 2, return_indices=True)
    with pytest.raises(IndexError, match="would be right in an output of 14 x 13: give output_size"):
        cu.max_unpool2d(y, indices, 2)
    with pytest.raises(IndexError, match=r"index 9 .* would be right in an output of 10: give output_size"):
        cu.max_unpool1d(*cu.max_pool1d(np.arange(10.0)[None], 3, 2, 1, return_indices=True), 3, 2, 1)
    indices[0, 0, 0, 0] = 10**6
    with pytest.raises(IndexError, match=r"has the indices 0 to 167$"):
        cu.max_unpool2d(y, indices, 2)
    with pytest.raises(IndexError, match=r"has the indices 0 to 15$"):
        cu.max_unpool2d(np.ones((1, 2, 2)), [[[-1, 0], [0, 0]]], 2)


def test_no_more_sizes_are_tried_than_is_cheap():
    for stride, tried in ((256, True), (257, False)):
        places = np.array([[[0, stride], [stride * (2 * stride + 1), stride * (2 * stride + 2)]]])
        sizes = sizes_of(2, (1, 2, 2), stride, stride, 0)
        assert (_advice.other_size(places, 2, sizes) is not None) == tried
    assert _advice.other_size(np.zeros((0, 2, 2), int), 2, sizes) is None


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", f"{OTHER}u2"])
def test_a_dtype_that_cannot_count_to_the_last_window(dtype):
    most = int(np.iinfo(dtype).max)
    for size, wide in ((most + 2, False), (most + 3, True)):  # the last of the windows of 2 begins two cells earlier
        values, indices = np.ones((1, size - 1)), np.zeros((1, size - 1), dtype)
        call = lambda values=values, indices=indices: cu.max_unpool1d(values, indices, 2, 1)  # noqa: E731
        if not wide:
            call()
            continue
        text = f"indices of {indices.dtype} count to {most}, but the last window begins at the cell {most + 1} of its"
        with pytest.warns(UserWarning, match=text) as said:
            call()
        assert [warning.filename for warning in said] == [__file__]
        with pytest.warns(UserWarning, match="window codes need index_format='window'"):
            cu.max_unpool1d_backward(np.ones((1, size)), indices, 2, 1)
        with pytest.warns(UserWarning, match="window codes need index_format='window'"):
            cu.max_pool1d_backward(values, indices, (size,), 2, 1)
        cu.max_unpool1d(values, indices, 2, 1, index_format="window")
        cu.max_unpool1d(values, indices.astype(np.int32), 2, 1)
        cu.max_unpool1d(values, indices.astype(f"{OTHER}i8").tolist(), 2, 1)
        cu.max_unpool1d(values[:0], indices[:0], 2, 1)


def test_window_codes_given_as_places_are_said(rng):
    y, codes = cu.max_pool2d(rng.random((1, 64, 64)), 2, return_indices=True, index_format="window")
    with pytest.warns(UserWarning, match="the last window begins at the cell 4030 of its plane: window codes need"):
        cu.max_unpool2d(y, codes, 2)
    y, codes = cu.max_pool3d(rng.random((1, 9, 9, 9)), 3, 2, 1, return_indices=True, index_format="window")
    with pytest.warns(UserWarning, match="the last window begins at the cell 637 of its plane"):
        cu.max_unpool3d(y, codes, 3, 2, 1)


def test_int32_that_cannot_count_to_the_last_window_is_said():
    grad = np.broadcast_to(np.uint8(7), (1, 1 << 33))  # in one byte of memory
    indices = np.arange(4, dtype=np.int32)[None]
    with pytest.warns(UserWarning, match="indices of int32 count to 2147483647, but the last window"):
        result = cu.max_unpool1d_backward(grad, indices, 1 << 31)
    assert result.tolist() == [[7] * 4]
