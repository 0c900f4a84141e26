"""cunpool.torch's unpooling onto a value or another tensor, beside PyTorch's unpooling and scatter."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest

import cunpool as cu

torch = pytest.importorskip("torch")
import cunpool.torch as ct  # noqa: E402

F = torch.nn.functional
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool]


def unpool_functions(n):
    def plain(y, indices, **options):
        return getattr(ct, f"max_unpool{n}d")(y, indices, 2, **options)

    return plain, getattr(ct, f"adaptive_max_unpool{n}d")


def expected(y, indices, below):
    n = y.ndim - 2
    flat = below.flatten(-n).clone().scatter(-1, indices.flatten(-n), y.flatten(-n))
    return flat.reshape(below.shape)


def inputs(n, dtype, last=False):
    torch.manual_seed(n)
    x = torch.randint(-9, 10, (2, 5, *(6,) * n)).to(dtype)
    y, indices = (
        ct.adaptive_max_pool2d(x, 3, True) if n == 2 else getattr(ct, f"max_pool{n}d")(x, 2, None, 0, 1, False, True)
    )
    if last:
        x, y = (tensor.contiguous(memory_format=torch.channels_last) for tensor in (x, y))
    return (y + 1) if dtype is not torch.bool else ~y, indices, x


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_results(n, dtype):
    y, indices, x = inputs(n, dtype, n == 2)
    before = x.clone()
    for unpool in unpool_functions(n):
        result = unpool(y, indices, onto=x)
        assert torch.equal(result, expected(y, indices, x))
        assert result.stride() == x.stride()
        assert torch.equal(x, before)
        for fill_value in (0, 1):
            result = unpool(y, indices, output_size=x.shape, fill_value=fill_value)
            assert torch.equal(result, expected(y, indices, torch.full_like(x, fill_value)))


def _squared(unpool, indices, y, x):
    return unpool(y, indices, onto=x).square()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_gradients(n):
    y, indices, x = inputs(n, torch.float64)
    for unpool in unpool_functions(n):
        leaves = y.clone().requires_grad_(), x.clone().requires_grad_()
        z = unpool(leaves[0], indices, onto=leaves[1])
        assert torch.equal(z, expected(y, indices, x))
        grad = torch.randn(z.shape, dtype=z.dtype)
        z.backward(grad)
        to_y, to_x = getattr(cu, f"max_unpool{n}d_backward")(grad.numpy(), indices.numpy(), 2, onto=True)
        assert np.array_equal(leaves[0].grad, to_y)
        assert np.array_equal(leaves[1].grad, to_x)
        few = [leaf.detach()[:1, :2].requires_grad_() for leaf in leaves]
        squared = partial(_squared, unpool, indices[:1, :2])
        assert torch.autograd.gradcheck(squared, few)
        assert torch.autograd.gradgradcheck(squared, few)
        leaf = y.clone().requires_grad_()
        unpool(leaf, indices, output_size=x.shape, fill_value=3).backward(grad)
        assert np.array_equal(leaf.grad, to_y)
        with torch.no_grad():
            assert not unpool(leaf, indices, onto=leaves[1]).requires_grad


def test_modules():
    y, indices, x = inputs(2, torch.float32)
    for module in (ct.MaxUnpool2d(2), ct.AdaptiveMaxUnpool2d()):
        assert torch.equal(module(y, indices, onto=x), expected(y, indices, x))
        result = module(y, indices, x.shape, fill_value=7)
        assert torch.equal(result, expected(y, indices, torch.full_like(x, 7)))


def test_window_codes_and_dilation():
    x = torch.rand(1, 2, 9, 9)
    y, codes = ct.max_pool2d(x, 2, 1, 0, 2, return_indices=True, index_format="window")
    options = {"dilation": 2, "index_format": "window"}
    whole = ct.max_unpool2d(-y, codes, 2, 1, onto=x, **options)
    by_grad = ct.max_unpool2d(-y.requires_grad_(), codes, 2, 1, onto=x, **options)
    assert torch.equal(whole, by_grad)
    assert (whole < 0).any()


def test_transforms_traces_and_compilers():
    y, indices, x = inputs(2, torch.float32)

    def call(y, x):
        return ct.max_unpool2d(y, indices, 2, onto=x) + ct.max_unpool2d(y, indices, 2, fill_value=2.0)

    result = call(y, x)
    many = torch.vmap(lambda y, x, i: ct.max_unpool2d(y, i, 2, onto=x))(y, x, indices)
    assert torch.equal(many, expected(y, indices, x))
    assert torch.equal(torch.compile(call, backend="aot_eager", fullgraph=True)(y, x), result)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch.jit.script, which PyTorch itself uses
        tangents = torch.func.jvp(call, (y, x), (torch.ones_like(y), torch.zeros_like(x)))[1]
    assert torch.equal(tangents, 2 * ct.max_unpool2d(torch.ones_like(y), indices, 2))
    to_meta = [tensor.to("meta") for tensor in (y, indices, x)]
    assert ct.max_unpool2d(*to_meta[:2], 2, onto=to_meta[2]).shape == x.shape


@pytest.mark.parametrize(
    ("fill_value", "dtype", "error"),
    [
        (1e300, torch.float32, ValueError),
        (70000, torch.float16, ValueError),
        (1e39, torch.bfloat16, ValueError),
        (1.5, torch.int64, ValueError),
        (-1, torch.uint8, ValueError),
        (2, torch.bool, ValueError),
        (10**400, torch.float32, ValueError),
        (1j, torch.float32, ValueError),
        (float("inf"), torch.int32, ValueError),
        (float("nan"), torch.int32, ValueError),
        ("1", torch.float32, TypeError),
        (torch.ones(2), torch.float32, TypeError),
    ],
    ids=lambda value: str(value)[:20],
)
def test_values_that_do_not_fit(fill_value, dtype, error):
    for unpool in unpool_functions(1):
        with pytest.raises(error, match="fill_value must be"):
            unpool(torch.ones(1, 1).to(dtype), torch.zeros(1, 1).long(), output_size=(2,), fill_value=fill_value)


@pytest.mark.parametrize("fill_value", [float("nan"), float("inf"), -float("inf"), -0.0, 0.1])
def test_values_that_fit(fill_value):
    for unpool in unpool_functions(1):
        for dtype in (torch.float32, torch.bfloat16):
            y = torch.ones(1, 1).to(dtype)
            result = unpool(y, torch.zeros(1, 1).long(), output_size=(2,), fill_value=fill_value)
            assert torch.equal(
                result.view(torch.uint8)[0, -1:], torch.full((1,), fill_value, dtype=dtype).view(torch.uint8)[-1:]
            )


def test_complex_values():
    y = torch.ones(1, 1, dtype=torch.complex64)
    assert torch.equal(
        ct.max_unpool1d(y, torch.zeros(1, 1).long(), 2, fill_value=2j), torch.tensor([[1, 2j]], dtype=torch.complex64)
    )


def test_arguments_that_do_not_fit():
    y, indices, x = inputs(2, torch.float32)
    with pytest.raises(TypeError, match=r"input must be a torch.Tensor, got list"):
        ct.max_unpool2d([[[1]]], indices, 2, onto=x)
    for unpool in unpool_functions(2):
        for given in (y, y.clone().requires_grad_()):
            with pytest.raises(ValueError, match="leave out output_size"):
                unpool(given, indices, output_size=x.shape, onto=x)
            with pytest.raises(ValueError, match="leave out fill_value, 0"):
                unpool(given, indices, fill_value=0, onto=x)
            with pytest.raises(TypeError, match=r"the dtype of input, torch.float32, got torch.float64"):
                unpool(given, indices, onto=x.double())
            with pytest.raises(TypeError, match=r"onto must be a torch.Tensor, got ndarray"):
                unpool(given, indices, onto=x.numpy())
            with pytest.raises(ValueError, match="onto must have the N and C of input"):
                unpool(given, indices, onto=x[:1])
    with pytest.raises(
        TypeError, match="adaptive_max_unpool2d needs output_size, the shape of what was pooled, or onto"
    ):
        ct.adaptive_max_unpool2d(y, indices)
