"""The quick judge says what the slow one says."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import vectorised
from cases import FLOATS, INTEGERS, MOVED, bits, random_items
from fuzzing.arrays import one_of, some_numbers
from fuzzing.judge import same_numbers
from fuzzing.sizes import Window


def windows(rng, count: int):
    """Geometries that are not too much for the slow judge."""
    while count:
        w = Window(rng)
        if np.prod(w.shape) * np.prod(w.pooled, dtype=float) * w.taps < 1000 and np.prod(w.full) < 3000:
            count -= 1
            yield w


@pytest.mark.parametrize("way", ["both", "tap_by_tap", "window_by_window"])
def test_pooling(rng, monkeypatch, way):
    if way != "both":
        for name in ("tap_by_tap", "window_by_window"):
            monkeypatch.setattr(vectorised, name, getattr(vectorised, way))
    for w in windows(rng, 60):
        x = some_numbers(rng, one_of(rng, INTEGERS + FLOATS), w.shape + w.full)
        arguments = w.n, w.kernel, w.stride, w.padding, w.dilation, w.ceil
        rules = {"minimum": bool(rng.integers(2)), "omit": bool(rng.integers(2))}
        expected = reference.max_pool(x, *arguments, **rules)
        for result, right in zip(vectorised.max_pool(x, *arguments, **rules), expected, strict=True):
            assert bits(result) == bits(right), w


def test_windows_of_nothing_but_padding():
    x = np.arange(6, dtype="f4").reshape(1, 1, 6)
    arguments = 1, 2, 1, 1, 7  # of two cells, one before and one behind the array
    expected = reference.max_pool(x, *arguments)
    assert (expected[0] == -np.inf).any()
    assert list(map(bits, vectorised.max_pool(x, *arguments))) == list(map(bits, expected))


def test_pooled_sizes(rng):
    for _ in range(5000):
        size, kernel, stride, dilation = rng.integers(1, [40, 9, 12, 5]).tolist()
        arguments = size, kernel, stride, int(rng.integers(0, kernel // 2 + 1)), dilation, bool(rng.integers(2))
        assert vectorised.pooled_size(*arguments) == reference.pooled_size(*arguments), arguments


@pytest.mark.parametrize("near", [False, True])
def test_unpooling_and_the_gradients(rng, near):
    for w in windows(rng, 100):
        places = w.places(rng) if near else None
        if places is None:
            places = rng.integers(0, int(np.prod(w.full)), w.shape + w.pooled)
        values = random_items(rng, one_of(rng, MOVED), places.shape)
        expected = reference.max_unpool(values, places, w.n, w.full)
        assert bits(vectorised.max_unpool(values, places, w.n, w.full)) == bits(expected), w
        full = random_items(rng, values.dtype, w.shape + w.full)
        result = vectorised.max_unpool_backward(full, places, w.n)
        for at in np.ndindex(places.shape[: -w.n]):
            assert bits(result[at]) == bits(full[at].ravel()[places[at]]), w
        numbers = some_numbers(rng, one_of(rng, FLOATS), places.shape)
        sums = np.zeros(w.shape + w.full, numbers.dtype)
        with np.errstate(all="ignore"):
            for at in np.ndindex(places.shape):
                cell = (*at[: -w.n], *np.unravel_index(places[at], w.full))
                sums[cell] = sums[cell] + numbers[at]
        # Which NaN a sum is, NumPy leaves to the order of the operands.
        same_numbers(vectorised.max_pool_backward(numbers, places, w.n, w.full), sums, repr(w))
