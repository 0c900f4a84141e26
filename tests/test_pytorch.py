"""Random geometries, dtypes and layouts side by side with PyTorch, where it is installed.

CUNPOOL_GEOMETRIES sets how many (by default some hundreds).
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from cases import POOL, UNPOOL, bits, geometry, layout, lead, random_numbers

torch = pytest.importorskip("torch")
F = torch.nn.functional

COUNT = int(os.environ.get("CUNPOOL_GEOMETRIES", "300"))
DTYPES = {
    name: getattr(torch, name)
    for name in ("int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
}
REFUSALS = (RuntimeError, ValueError, TypeError, IndexError)


def to_torch(array: np.ndarray):
    array = np.ascontiguousarray(array)
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def from_torch(tensor, dtype) -> np.ndarray:
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(dtype)
    return tensor.numpy()


def attempt(call):
    try:
        return call()
    except REFUSALS:
        return None


def same(result: np.ndarray, tensor) -> bool:
    """Bit for bit, but for the bits of NaNs."""
    expected = from_torch(tensor, result.dtype)
    if result.dtype.kind not in "iu":
        nan = result != result
        if not np.array_equal(nan, expected != expected):
            return False
        result, expected = np.where(nan, 0, result), np.where(nan, 0, expected)
    return bits(result) == bits(np.ascontiguousarray(expected))


def change(rng, arguments, n):
    """Something that may not fit, in one out of five."""
    arguments = list(arguments)
    if rng.random() < 0.2:
        which = int(rng.integers(5))
        if which == 4:
            arguments[0] = 9
        else:
            arguments[which] = tuple(rng.integers(-1, 4, n).tolist())
    return arguments


@pytest.mark.parametrize("n", [1, 2, 3])
def test_random_geometries(n):
    rng = np.random.default_rng(n)
    refused = 0
    for case in range(COUNT):
        name = str(rng.choice(list(DTYPES)))
        arguments, full = geometry(rng, n, most={1: 20, 2: 10, 3: 6}[n])
        arguments = change(rng, arguments, n)
        shape = lead(rng) + full
        dtype = np.dtype(name) if name != "bfloat16" else np.dtype(__import__("ml_dtypes").bfloat16)
        x = layout(rng, random_numbers(rng, dtype, shape))
        torch_x = to_torch(x)
        pooled = attempt(lambda: POOL[n](x, *arguments, return_indices=True))  # noqa: B023
        expected = attempt(
            lambda: getattr(F, f"max_pool{n}d")(torch_x, *arguments, return_indices=True)  # noqa: B023
        )
        message = f"case {case}: {shape} {name} {arguments}"
        assert (pooled is None) == (expected is None), message
        if pooled is None:
            refused += 1
            continue
        values, indices = pooled
        assert same(values, expected[0]), message
        assert same(indices, expected[1]), message

        kernel, stride, padding = arguments[:3]
        output_size = None if rng.random() < 0.3 else tuple(size + int(rng.integers(-2, 3)) for size in full)
        if dtype.kind in "iu":  # PyTorch unpools floats alone
            values = values.astype(float)
        if rng.random() < 0.2:
            indices = indices.copy()
            indices.flat[rng.integers(indices.size)] = rng.choice([-1, np.prod(full), 2**32, -(2**63)])
        torch_values, torch_indices = to_torch(values), torch.from_numpy(np.ascontiguousarray(indices))
        result = attempt(
            lambda: UNPOOL[n](values, layout(rng, indices), kernel, stride, padding, output_size)  # noqa: B023
        )
        expected = attempt(
            lambda: getattr(F, f"max_unpool{n}d")(
                torch_values, torch_indices, kernel, stride, padding, output_size  # noqa: B023
            )
        )
        message += f", output_size {output_size}"
        if expected is not None and expected.numel() == 0:
            expected = None  # PyTorch gives an array without cells, where there are values to place
        assert (result is None) == (expected is None), message
        if result is None:
            refused += 1
        else:
            assert same(result, expected), message
    assert COUNT // 20 < refused < COUNT * 3 // 2


def test_tensors_are_accepted():
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    y, indices = POOL[2](x, 2, return_indices=True)
    expected = F.max_pool2d(x, 2, return_indices=True)
    assert same(y, expected[0])
    z = UNPOOL[2](expected[0], expected[1], 2)
    assert same(z, F.max_unpool2d(*expected, 2))
