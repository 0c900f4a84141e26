"""Window codes that the kernels cannot decode: the front end passes plane indices of int64 in their place."""

from __future__ import annotations

import numpy as np
import pytest
from cases import POOL, UNPOOL, bits, geometry, layout, lead, random_numbers
from fuzzing.right import POOL_BACKWARD, TAKE, UNPOOL_BACKWARD

import cunpool as cu
from cunpool import _formats, _geometry
from cunpool._kernels import unpool as _unpool


@pytest.fixture
def received(monkeypatch):
    """The dtypes of the indices that the kernels receive."""
    dtypes = []
    for name in ("unpool", "unpool_backward"):
        kernel = getattr(_unpool, name)

        def counted(*arguments, kernel=kernel):
            dtypes.append(arguments[1].dtype)
            return kernel(*arguments)

        monkeypatch.setattr(_unpool, name, counted)
    return dtypes


# Windows on both sides of each limit: of the span, and of the quotients by the width and by the height.
DECODED = [
    ((16383, 1, 1), 1), ((2,), 16382), ((3,), 8191), ((181,), 1), ((32, 32), 1), ((5, 81), 1), ((181, 1), 1),
    ((2, 128, 2), 1), ((11, 11, 11), 1),
]  # fmt: skip
CONVERTED = [
    ((16384, 1, 1), 1), ((2,), 16383), ((3,), 8192), ((182,), 1), ((33, 32), 1), ((5, 82), 1), ((182, 1), 1),
    ((2, 129, 2), 1), ((32768, 1, 1), 1), ((200, 200), 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kernel", "dilation", "is_decoded"), [(*case, True) for case in DECODED] + [(*case, False) for case in CONVERTED]
)
def test_which_codes_the_kernels_receive(rng, received, kernel, dilation, is_decoded):
    n, elements = len(kernel), int(np.prod(kernel))
    window = {"kernel_size": kernel, "dilation": dilation, "stride": 1, "index_format": "window"}
    shape = (1, 2, *[2] * n)
    code = np.uint8 if elements <= 256 else np.uint16
    codes = rng.integers(elements, size=shape).astype(code)
    codes.flat[:2] = 0, elements - 1
    values = np.arange(1, codes.size + 1, dtype=np.float32).reshape(shape)
    full = tuple(1 + dilation * (k - 1) + 1 for k in kernel)
    where = {"kernel_size": kernel, "dilation": dilation, "stride": 1, "input_size": full}
    indices = cu.convert_indices(codes, "window", "plane", **where)
    plane = {**window, "index_format": "plane"}
    unpooled = UNPOOL[n](values, codes, **window)
    assert bits(unpooled) == bits(UNPOOL[n](values, indices, **plane))
    received.clear()
    calls = (
        lambda given, how: UNPOOL[n](values, given, **how),
        lambda given, how: UNPOOL[n](values, given, **how, fill_value=3),
        lambda given, how: POOL_BACKWARD[n](values, given, full, **how),
        lambda given, how: UNPOOL_BACKWARD[n](unpooled, given, **how),
        lambda given, how: TAKE[n](unpooled, given, **how),
    )
    for call in calls:
        assert bits(call(codes, window)) == bits(call(indices, plane))
        assert received[0] == (code if is_decoded else np.int64)
        received.clear()
    onto = [UNPOOL_BACKWARD[n](unpooled, given, **how, onto=True) for given, how in ((codes, window), (indices, plane))]
    assert [bits(gradient) for gradient in onto[0]] == [bits(gradient) for gradient in onto[1]]
    assert received[:2] == [code if is_decoded else np.int64] * 2
    for wrong in {elements, elements + 9, np.iinfo(code).max}:
        codes[0, 1].flat[1] = wrong
        for call in calls:
            with pytest.raises(IndexError, match=rf"window code {wrong} at position \(0, 1, "):
                call(codes, window)
    with pytest.raises(IndexError, match=r"window code -1 at position"):
        UNPOOL[n](values, np.full(shape, -1), **window)


@pytest.mark.parametrize(("elements", "is_decodable"), [((1 << 31) - 1, True), (1 << 31, False)])
def test_planes_of_more_elements_than_32_bits_count(received, elements, is_decodable):
    full = np.broadcast_to(np.float32(7), (1, elements))
    codes = np.array([[0, 1]], np.uint8)
    window = {"kernel_size": 2, "stride": elements - 2, "index_format": "window"}
    assert UNPOOL_BACKWARD[1](full, codes, **window).tolist() == [[7, 7]]
    assert TAKE[1](full, codes, **window).tolist() == [[7, 7]]
    assert received == [np.uint8 if is_decodable else np.int64] * 2
    for call in (UNPOOL_BACKWARD[1], TAKE[1]):
        with pytest.raises(IndexError, match=r"window code 2 at position \(0, 1\)"):
            call(full, codes + np.uint8(1), **window)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("some", [1, 7, 40, 1 << 16])
def test_parts_that_are_converted_one_after_the_other(rng, monkeypatch, received, n, some):
    """All windows, as if the kernels decoded none."""
    monkeypatch.setattr(_formats, "CONVERTED", some)
    flat_sizes = _geometry.flat_sizes
    monkeypatch.setattr(_geometry, "flat_sizes", lambda *sizes: (*flat_sizes(*sizes)[:19], False))
    for cached in (
        _geometry.unpooling,
        _geometry.unpooled_to,
        _geometry.pooling,
        _geometry.pooled_from,
        _geometry.taking,
    ):
        monkeypatch.setattr(_geometry, cached.__name__, cached.__wrapped__)
    for _ in range(20):
        (kernel, stride, padding, dilation, ceil_mode), full = geometry(rng, n, most={1: 90, 2: 30, 3: 8}[n])
        window = {"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation}
        x = random_numbers(rng, np.dtype("f4"), lead(rng) + full)
        values, indices = POOL[n](x, **window, ceil_mode=ceil_mode, return_indices=True)
        codes = POOL[n](x, **window, ceil_mode=ceil_mode, return_indices=True, index_format="window")[1]
        try:
            cu.convert_indices(indices, "plane", "window", input_size=full, **window)
        except IndexError:
            continue  # a window that misses the array
        received.clear()
        result = POOL_BACKWARD[n](values, layout(rng, codes), x.shape, **window, index_format="window")
        assert received == [np.int64]
        assert bits(result) == bits(POOL_BACKWARD[n](values, indices, x.shape, **window))
        assert bits(UNPOOL_BACKWARD[n](x, codes, **window, index_format="window")) == bits(values)
        assert bits(TAKE[n](x, codes, **window, index_format="window")) == bits(values)
        assert set(received) == {np.dtype(np.int64)}
        bad = codes.copy()
        bad[(-1,) * bad.ndim] = 255
        at = tuple(size - 1 for size in bad.shape)
        with pytest.raises(IndexError, match=rf"window code 255 at position \({', '.join(map(str, at))}\)"):
            TAKE[n](x, bad, **window, index_format="window")


def test_no_windows_and_no_planes():
    window = {"kernel_size": 182, "index_format": "window"}
    for shape in ((0, 3, 2), (2, 0, 2), (1, 2, 0)):
        codes = np.zeros(shape, np.uint8)
        result = cu.max_unpool1d(np.zeros(shape), codes, **window, output_size=(182 * shape[2],))
        assert result.shape == (*shape[:2], 182 * shape[2])
        assert cu.max_unpool1d_backward(result, codes, **window).shape == shape
