"""Random geometries, dtypes and layouts side by side with PyTorch, where it is installed.

CUNPOOL_GEOMETRIES sets how many (by default some hundreds).
"""

from __future__ import annotations

import os

import ml_dtypes
import numpy as np
import pytest
import reference
from cases import POOL, UNPOOL, bits, geometry, layout, lead, random_numbers

import cunpool as cu

torch = pytest.importorskip("torch")
F = torch.nn.functional

COUNT = int(os.environ.get("CUNPOOL_GEOMETRIES", "300"))
DTYPES = {
    name: getattr(torch, name)
    for name in ("int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
}
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
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


def attempt(call, *arguments, **more):
    try:
        return call(*arguments, **more)
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


def check_gradients(rng, n, x, pooled, indices, arguments, message):
    """Both gradients, by both formats of indices, beside PyTorch's autograd."""
    if (indices >= np.prod(x.shape[-n:])).any():
        return  # a window that misses the array: PyTorch's gradient writes out of bounds
    kernel, stride, padding, dilation, _ = arguments
    full = tuple(x.shape[-n:])
    x = x.clone().requires_grad_()
    values = getattr(F, f"max_pool{n}d")(x, *arguments)
    grad = torch.randint(-8, 8, values.shape, generator=torch.Generator().manual_seed(0)).to(x.dtype)  # sums are exact
    values.backward(grad)
    window = kernel, stride, padding, dilation
    formats = {"plane": indices}
    try:
        formats["window"] = cu.convert_indices(
            indices, "plane", "window", input_size=full, kernel_size=kernel, stride=stride, padding=padding,
            dilation=dilation,
        )  # fmt: skip
    except IndexError:  # as above, but with an index that lies in the array
        return
    again = random_numbers(rng, np.dtype("f4"), tuple(x.shape))
    gathered = np.take_along_axis(
        again.reshape(*again.shape[:-n], -1), indices.reshape(*indices.shape[:-n], -1), -1
    ).reshape(indices.shape)
    unpooled: list[bytes] = []
    for name, chosen in formats.items():
        ours = from_torch(grad, BFLOAT16)
        result = getattr(cu, f"max_pool{n}d_backward")(layout(rng, ours), chosen, full, *window, index_format=name)
        assert same(np.asarray(result), x.grad), f"{message} {name}"
        spaced = {"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation}
        if _fits(n, indices.shape[-n:], full, spaced):
            result = getattr(cu, f"max_unpool{n}d_backward")(layout(rng, again), chosen, **spaced, index_format=name)
            assert bits(result) == bits(gathered), f"{message} {name}"
            unpooled.append(bits(UNPOOL[n](ours, chosen, **spaced, output_size=full, index_format=name)))
    assert len(set(unpooled)) <= 1, message


def _fits(n, pooled, full, window):
    """Whether an unpooling can give this size at all."""
    default = reference.default_size(pooled, n, *window.values())
    stride = window["kernel_size"] if window["stride"] is None else window["stride"]
    return all(abs(a - b) < s for a, b, s in zip(default, full, reference.each(stride, n), strict=True))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_random_geometries(n):
    rng = np.random.default_rng(n)
    refused = 0
    for case in range(COUNT):
        name = str(rng.choice(list(DTYPES)))
        arguments, full = geometry(rng, n, most={1: 20, 2: 10, 3: 6}[n])
        arguments = change(rng, arguments, n)
        shape = lead(rng) + full
        dtype = BFLOAT16 if name == "bfloat16" else np.dtype(name)
        x = layout(rng, random_numbers(rng, dtype, shape))
        torch_x = to_torch(x)
        pooled = attempt(POOL[n], x, *arguments, return_indices=True)
        expected = attempt(getattr(F, f"max_pool{n}d"), torch_x, *arguments, return_indices=True)
        message = f"case {case}: {shape} {name} {arguments}"
        assert (pooled is None) == (expected is None), message
        if pooled is None:
            refused += 1
            continue
        values, indices = pooled
        assert same(values, expected[0]), message
        assert same(indices, expected[1]), message

        if "float" in name:
            check_gradients(rng, n, torch_x, expected, indices, arguments, message)
        kernel, stride, padding = arguments[:3]
        output_size = None if rng.random() < 0.3 else tuple(size + int(rng.integers(-2, 3)) for size in full)
        if dtype.kind in "iu":  # PyTorch unpools floats alone
            values = values.astype(float)
        if rng.random() < 0.2:
            indices = indices.copy()
            indices.flat[rng.integers(indices.size)] = rng.choice([-1, np.prod(full), 2**32, -(2**63)])
        torch_values, torch_indices = to_torch(values), torch.from_numpy(np.ascontiguousarray(indices))
        result = attempt(UNPOOL[n], values, layout(rng, indices), kernel, stride, padding, output_size)
        unpool = getattr(F, f"max_unpool{n}d")
        expected = attempt(unpool, torch_values, torch_indices, kernel, stride, padding, output_size)
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
    y, _ = POOL[2](x, 2, return_indices=True)
    expected = F.max_pool2d(x, 2, return_indices=True)
    assert same(y, expected[0])
    z = UNPOOL[2](expected[0], expected[1], 2)
    assert same(z, F.max_unpool2d(*expected, 2))
