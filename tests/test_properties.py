"""What holds for every input, searched for exceptions by hypothesis."""

from __future__ import annotations

import numpy as np
import reference
from cases import POOL, UNPOOL, bits
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

# On an emulated processor even drawing an array takes long.
SLOWLY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def pooled(draw):
    n = draw(st.integers(1, 3))
    kernel = draw(st.tuples(*[st.integers(1, 4)] * n))
    stride = draw(st.none() | st.tuples(*[st.integers(1, 4)] * n))
    padding = draw(st.tuples(*[st.integers(0, k // 2) for k in kernel]))
    full = draw(st.tuples(*[st.integers(k, k + 6) for k in kernel]))
    shape = draw(st.sampled_from([(1,), (3,), (2, 2), (1, 9)])) + full
    dtype = draw(st.sampled_from([np.int8, np.uint16, np.float32, np.float64]))
    return n, draw(arrays.arrays(dtype, shape)), (kernel, stride, padding)


@settings(SLOWLY, max_examples=200, derandomize=True)
@given(pooled())
def test_pooling_and_unpooling(case):
    n, x, arguments = case
    values, indices = POOL[n](x, *arguments, return_indices=True)
    expected = reference.max_pool(x, n, *arguments)
    assert np.array_equal(values, expected[0], equal_nan=x.dtype.kind == "f")
    assert bits(indices) == bits(expected[1])
    z = UNPOOL[n](values, indices, *arguments, x.shape[-n:])
    # Every maximum is back where it was, and nothing else is anywhere.
    flat, places = z.reshape(-1, np.prod(x.shape[-n:])), indices.reshape(-1, indices[(0,) * (x.ndim - n)].size)
    again = np.take_along_axis(flat, places, 1).reshape(values.shape)
    assert bits(again) == bits(values)
    np.put_along_axis(flat, places, np.zeros((), x.dtype), 1)
    assert not flat.any()
    # Pooling what was unpooled finds the maxima again, as long as nothing beats zero.
    if (values > 0).all():
        again = UNPOOL[n](values, indices, *arguments, x.shape[-n:])
        assert bits(POOL[n](again, *arguments)) == bits(values)


@settings(SLOWLY, max_examples=200, derandomize=True)
@given(
    arrays.arrays(np.int64, (2, 3), elements=st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 8)),
    st.sampled_from([np.int64, np.int32]),
)
def test_any_index_is_placed_or_refused(indices, dtype):
    indices = np.clip(indices, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)
    values = np.arange(1, 7).reshape(2, 3)
    around = np.full(2 * 6 + 64, -1)
    out = around[32:-32].reshape(2, 6)
    try:
        UNPOOL[1](values, indices, 2, out=out)
    except IndexError:
        assert ((indices < 0) | (indices >= 6)).any()
    else:
        assert bits(out) == bits(reference.max_unpool(values, indices, 1, (6,)))
    assert (around[:32] == -1).all()
    assert (around[-32:] == -1).all()
