"""Subclasses of `numpy.ndarray`, whose methods and functions may do other things than an array's."""

from __future__ import annotations

import faulthandler

import numpy as np
import pytest

import cunpool as cu


class KeepsAxes(np.ndarray):
    """An entry has as many axes as the array, as those of `np.matrix` have."""

    def __getitem__(self, at):
        return super().__getitem__(slice(at, at + 1) if isinstance(at, int) else at)


class Refuses(np.ndarray):
    """NumPy's functions, and iteration, are refused."""

    def __array_function__(self, function, types, arguments, named):
        raise AssertionError(f"{function} was called")

    def __iter__(self):
        raise AssertionError("an entry was asked for")


@pytest.fixture(autouse=True)
def no_endless_loop():
    faulthandler.dump_traceback_later(60, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


X = np.array([[3, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1, 8, 2, 8, 1, 8.0]], np.float32)
Y, INDICES = cu.max_pool1d(X, 2, return_indices=True)
GRAD = np.arange(16, dtype=np.float32).reshape(2, 8)


def interleaved(kind, shape, dtype):
    """An array without overlap whose axes have strides of 2 and 3 elements."""
    c, n = shape
    assert c == 2
    room = np.zeros(3 + 2 * n, dtype)
    return np.lib.stride_tricks.as_strided(room, shape, (room.itemsize * 3, room.itemsize * 2)).view(kind)


KINDS = pytest.mark.parametrize("kind", [np.matrix, KeepsAxes, Refuses, np.recarray])


@KINDS
def test_every_argument(kind):
    x, y, indices, grad = (array.copy().view(kind) for array in (X, Y, INDICES, GRAD))
    narrow = INDICES.astype(np.int32).view(kind)
    codes = cu.max_pool1d(x, 2, return_indices=True, index_format="window").indices
    results = {
        "pool": (cu.max_pool1d(x, 2), Y),
        "indices": (cu.max_pool1d(x, 2, return_indices=True).indices, INDICES),
        "unpool": (cu.max_unpool1d(y, indices, 2), cu.max_unpool1d(Y, INDICES, 2)),
        "narrow": (cu.max_unpool1d(y, narrow, 2), cu.max_unpool1d(Y, INDICES, 2)),
        "codes": (cu.max_unpool1d(y, codes.view(kind), 2, index_format="window"), cu.max_unpool1d(Y, INDICES, 2)),
        "backward": (cu.max_pool1d_backward(y, indices, X.shape, 2), cu.max_pool1d_backward(Y, INDICES, X.shape, 2)),
        "gather": (cu.max_unpool1d_backward(grad, indices, 2), cu.max_unpool1d_backward(GRAD, INDICES, 2)),
        "convert": (cu.convert_indices(indices, "plane", "window", input_size=X.shape, kernel_size=2), codes),
    }
    for name, (result, expected) in results.items():
        assert type(result) is np.ndarray, name
        np.testing.assert_array_equal(result, expected, err_msg=name)


@KINDS
def test_out(kind):
    def out(shape, dtype=np.float32):
        return interleaved(kind, shape, dtype)

    into, beside = out(Y.shape), out(Y.shape, np.int64)
    pair = cu.max_pool1d(X, 2, return_indices=True, out=(into, beside))
    assert pair.values is into
    assert pair.indices is beside
    results = {
        "values": (into, into, Y),
        "indices": (beside, beside, INDICES),
        "pool": (into, cu.max_pool1d(X, 2, out=into), Y),
    }
    for name, function, shape, arguments in (
        ("unpool", cu.max_unpool1d, X.shape, (Y, INDICES, 2)),
        ("backward", cu.max_pool1d_backward, X.shape, (Y, INDICES, X.shape, 2)),
        ("gather", cu.max_unpool1d_backward, Y.shape, (GRAD, INDICES, 2)),
    ):
        into = out(shape)
        results[name] = into, function(*arguments, out=into), function(*arguments)
    for name, (into, result, expected) in results.items():
        assert result is into, name
        np.testing.assert_array_equal(into.view(np.ndarray), expected, err_msg=name)


@KINDS
def test_out_that_overlaps(kind):
    """An input, or itself, or the other one of two."""
    x = np.zeros((2, 16), np.float32)
    x[:, :8] = X
    out = x[:, 1:5].view(kind)
    assert cu.max_pool1d(x[:, :8], 2, out=out) is out
    np.testing.assert_array_equal(out.view(np.ndarray), Y)
    room = np.zeros(16, np.float32)
    out = np.lib.stride_tricks.as_strided(room, (2, 4), (12, 4)).view(kind)
    with pytest.raises(ValueError, match="out must not overlap itself"):
        cu.max_pool1d(X, 2, out=out)
    room = np.zeros((2, 8), np.int32)
    pair = room[:, :4].view(np.float32).view(kind), room[:, 3:7].view(kind)
    with pytest.raises(ValueError, match=r"out\[0\] and out\[1\] must not overlap in memory"):
        cu.max_pool1d(X, 2, return_indices=True, out=pair)


@KINDS
def test_a_bad_index_is_named(kind):
    bad = INDICES.copy()
    bad[1, 2] = 99
    with pytest.raises(IndexError, match=r"index 99 at position \(1, 2\)"):
        cu.max_unpool1d(Y.view(kind), bad.view(kind), 2)
