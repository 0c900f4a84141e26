"""Comparing: what came out with what should have."""

from __future__ import annotations

import numpy as np
from cases import bits


class Difference(Exception):
    """What came out is not what should have."""


def hold(condition, what: str) -> None:
    if not condition:
        raise Difference(what)


def same(result, expected, what: str) -> None:
    hold(isinstance(result, np.ndarray), f"{what}: a {type(result)}")
    hold((result.shape, result.dtype) == (expected.shape, expected.dtype),
         f"{what}: {result.shape} {result.dtype} instead of {expected.shape} {expected.dtype}")  # fmt: skip
    if bits(result) != bits(expected):
        size = np.dtype((np.void, result.dtype.itemsize))
        raw, other = (np.ascontiguousarray(a).view(size).reshape(a.shape) for a in (result, expected))
        at = tuple(map(int, np.argwhere(raw != other)[0]))
        raise Difference(f"{what}: {result[at]} instead of {expected[at]} at {at}")


def same_numbers(result, expected, what: str) -> None:
    """Of a sum that is no number, the bits do not matter."""
    hold(isinstance(result, np.ndarray) and result.shape == expected.shape, f"{what}: another shape")
    nan = np.isnan(expected)
    hold(np.array_equal(np.isnan(result), nan), f"{what}: other cells are NaN")
    same(np.where(nan, np.zeros((), result.dtype), result), np.where(nan, np.zeros((), result.dtype), expected), what)


def refused(call, *errors) -> Exception:
    try:
        call()
    except errors as error:
        return error
    except Exception as error:
        raise Difference(f"{type(error).__name__} instead of {[e.__name__ for e in errors]}: {error}") from error
    raise Difference(f"accepted, instead of {[e.__name__ for e in errors]}")
