"""Comparing: what came out with what should have."""

from __future__ import annotations

import hashlib

import numpy as np

PART = 1 << 18  # entries that are compared at once: of large arrays a copy, or a mask, is as large


_results = hashlib.blake2b()


def digest() -> str:
    """A hash of all results and errors since the last call, to compare builds by: 16 hexadecimal digits."""
    global _results
    ended, _results = _results, hashlib.blake2b()
    return ended.hexdigest()[:16]


class Difference(Exception):
    """What came out is not what should have."""


def hold(condition, what: str) -> None:
    if not condition:
        raise Difference(what)


def in_parts(*arrays):
    """Arrays of one shape in raster order, some entries at a time; and how many there were before."""
    flat = [array.reshape(-1) if array.flags.c_contiguous else array.flat for array in arrays]
    for first in range(0, arrays[0].size, PART):
        yield first, *(entries[first : first + PART] for entries in flat)


def same(result, expected, what: str) -> None:
    hold(isinstance(result, np.ndarray), f"{what}: a {type(result)}")
    hold((result.shape, result.dtype) == (expected.shape, expected.dtype),
         f"{what}: {result.shape} {result.dtype} instead of {expected.shape} {expected.dtype}")  # fmt: skip
    _results.update(f"{result.shape} {result.dtype.str}".encode())
    for first, part, right in in_parts(result, expected):
        _results.update(part.tobytes())
        if part.tobytes() != right.tobytes():
            size = np.dtype((np.void, result.dtype.itemsize))
            wrong = np.argmax(np.ascontiguousarray(part).view(size) != np.ascontiguousarray(right).view(size))
            at = tuple(map(int, np.unravel_index(first + int(wrong), result.shape)))
            raise Difference(f"{what}: {result[at]} instead of {expected[at]} at {at}")


def same_numbers(result, expected, what: str) -> None:
    """Of a sum that is no number, the bits do not matter."""
    hold(isinstance(result, np.ndarray) and result.shape == expected.shape, f"{what}: another shape")
    hold(result.dtype == expected.dtype, f"{what}: {result.dtype} instead of {expected.dtype}")
    zero = np.zeros((), result.dtype)
    for first, part, right in in_parts(result, expected):
        nan = np.isnan(right)
        hold(np.array_equal(np.isnan(part), nan), f"{what}: other cells are NaN")
        same(np.where(nan, zero, part), np.where(nan, zero, right), f"{what}, from entry {first} on")


def refused(call, *errors) -> Exception:
    try:
        call()
    except errors as error:
        _results.update(type(error).__name__.encode())
        return error
    except Exception as error:
        raise Difference(f"{type(error).__name__} instead of {[e.__name__ for e in errors]}: {error}") from error
    raise Difference(f"accepted, instead of {[e.__name__ for e in errors]}")
