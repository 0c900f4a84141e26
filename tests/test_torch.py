"""cunpool.torch side by side with PyTorch, where that is installed."""

from __future__ import annotations

import copy
import doctest
import inspect
import itertools
import math
import multiprocessing
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from cases import geometry, lead

import cunpool as cu

torch = pytest.importorskip("torch")
import cunpool.torch as ct  # noqa: E402
from cunpool.torch import _accelerate, _calls, _eager, functional, modules  # noqa: E402

F = torch.nn.functional
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]


@pytest.fixture(autouse=True)
def pytorch_threads():
    before = torch.get_num_threads()
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def ours(monkeypatch):
    """Have cunpool's kernels at any size: what is left to PyTorch need not be compared with it."""
    monkeypatch.setattr(_eager, "LEAST", 0)
    monkeypatch.setattr(_eager, "_are_few", lambda input, count: False)
    return monkeypatch


@pytest.fixture
def as_it_is(ours):
    """Undo `ours`, and count the calls that are left to PyTorch."""
    ours.undo()
    calls = []
    for n, operator in list(_eager.THEIRS.items()):
        ours.setitem(_eager.THEIRS, n, lambda *arguments, _operator=operator: calls.append(1) or _operator(*arguments))
    return calls


def both(name):
    return getattr(ct, name), getattr(F, name)


def raw(tensor) -> tuple:
    """Equal for equal shapes, dtypes and bits, but for the bits of NaNs."""
    tensor = tensor.detach()
    if tensor.is_floating_point():
        tensor = torch.where(tensor.isnan(), torch.nan, tensor)
        tensor = tensor.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()])
    return tuple(tensor.shape), tensor.dtype, tensor.contiguous().numpy().tobytes()


def plain(tensor):
    """In raster order: PyTorch refuses the gradients of some other layouts."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def numbers(shape, dtype):
    """Many ties, and in half of the cases of floats NaN and infinities."""
    x = torch.randint(0 if dtype is torch.uint8 else -3, 4, shape).to(dtype)
    if dtype.is_floating_point and torch.rand(()) < 0.5:
        x[torch.rand(shape) < 0.1] = torch.nan
        x[torch.rand(shape) < 0.1] = -torch.inf
    return x


def layouts(rng, x):
    """The same numbers under another order of axes, or in steps."""
    kind = rng.choice(["contiguous", "channels last", "any order", "sliced", "expanded"])
    if kind == "channels last" and x.ndim > 3:
        return x.to(memory_format={4: torch.channels_last, 5: torch.channels_last_3d}[x.ndim])
    if kind == "any order":
        order = rng.permutation(x.ndim).tolist()
        return x.permute(order).contiguous().permute(np.argsort(order).tolist())
    if kind == "sliced":
        wide = x.new_zeros([2 * size for size in x.shape])
        part = wide[tuple(slice(None, None, 2) for _ in x.shape)]
        part.copy_(x)
        return part
    if kind == "expanded":
        return x[:1].expand(x.shape)
    return x


@pytest.mark.parametrize("n", [1, 2, 3])
def test_results_and_gradients_are_pytorchs(rng, n):
    pool, torch_pool = both(f"max_pool{n}d")
    unpool, torch_unpool = both(f"max_unpool{n}d")
    for case in range(150):
        (kernel, stride, padding, dilation, ceil_mode), full = geometry(rng, n, most={1: 40, 2: 20, 3: 7}[n])
        dtype = rng.choice(FLOATS)
        x = layouts(rng, numbers(lead(rng) + full, dtype))
        message = f"case {case}: {tuple(x.shape)} {x.stride()} {dtype} {kernel, stride, padding, dilation, ceil_mode}"
        window = kernel, stride, padding, dilation, ceil_mode
        leaves = [some.requires_grad_() for some in (x.detach(), plain(x), x.detach())]
        y, indices = pool(leaves[0], *window, return_indices=True)
        expected_y, expected_indices = torch_pool(leaves[1], *window, return_indices=True)
        for result, expected in (
            (y, expected_y), (indices, expected_indices),
            *zip(pool(x, *window, return_indices=True), (expected_y, expected_indices), strict=True),
            (pool(leaves[2], *window), expected_y),
            (pool(x, *window), expected_y),
        ):  # fmt: skip
            assert raw(result) == raw(expected), message
        assert y.requires_grad
        assert not indices.requires_grad
        if (indices >= math.prod(full)).any():
            continue  # a window that misses the input
        grad = layouts(rng, torch.randint(-9, 10, y.shape).to(dtype))
        y.backward(grad)
        expected_y.backward(plain(grad))
        pool(leaves[2], *window).backward(grad)
        assert raw(leaves[0].grad) == raw(leaves[2].grad) == raw(leaves[1].grad), message

        values = [some.requires_grad_() for some in (y.detach(), plain(y))]
        try:
            expected_z = torch_unpool(values[1], plain(indices), kernel, stride, padding, full)
        except ValueError:
            continue  # dilation, or a window beyond the end: the size does not fit
        z = unpool(values[0], indices, kernel, stride, padding, full)
        assert raw(z) == raw(expected_z), message
        assert raw(unpool(y.detach(), indices, kernel, stride, padding, x.shape[-n:])) == raw(expected_z), message
        grad = layouts(rng, torch.randn(z.shape).to(dtype))
        z.backward(grad)
        expected_z.backward(plain(grad))
        assert raw(values[0].grad) == raw(values[1].grad), message


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("size", [3, 12, 40])
def test_what_is_left_to_pytorch_is_the_same(rng, as_it_is, n, size):
    pool, torch_pool = both(f"max_pool{n}d")
    torch.set_num_threads(2)  # with one thread fewer sizes are left to PyTorch
    for dtype in FLOATS:
        for last in (False, True)[: n if n < 3 else 2]:
            x = numbers((1, 3) + (size if n < 3 else min(size, 20),) * n, dtype)
            x = x.to(memory_format={4: torch.channels_last, 5: torch.channels_last_3d}[n + 2]) if last else x
            for window in ((2,), (3, 2, 1), (2, None, 0, 1), ((3,) * n, (2,) * n, (1,) * n, (1,) * n, True)):
                leaves = [some.requires_grad_() for some in (x.detach(), x.detach())]
                mine, theirs = (
                    pool(leaves[0], *window, return_indices=True),
                    torch_pool(leaves[1], *window, return_indices=True),
                )
                assert [*map(raw, mine)] == [*map(raw, theirs)]
                assert mine[0].stride() == theirs[0].stride()
                assert raw(pool(x, *window)) == raw(theirs[0])
                for values in (mine[0], theirs[0]):
                    values.backward(torch.ones_like(values))
                assert raw(leaves[0].grad) == raw(leaves[1].grad)
    assert as_it_is


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_what_is_laid_out_in_another_order(as_it_is):
    x = torch.rand(2, 64, 8).transpose(1, 2)
    assert ct.max_pool1d(x, 2).is_contiguous()
    assert raw(ct.max_pool1d(x, 2)) == raw(F.max_pool1d(x, 2))
    for size in (4, 64):
        with pytest.raises(ValueError, match="must be a dense tensor"):
            ct.max_pool1d(torch.eye(size).to_sparse_csr(), 2)


def test_many_elements_are_cunpools(as_it_is):
    x = torch.rand(1, 8, 200, 200)
    ct.max_pool2d(x, 2)
    ct.max_pool2d(x.requires_grad_(), 2)
    assert not as_it_is


@pytest.mark.parametrize(
    "window", [((2,),), (2, 0), (2, 2, 2), (9,), (2, 2, 0, 0), (-1,), (2.5,), ("2",), (10**30,), (True,)]
)
def test_refusals_do_not_depend_on_the_size(as_it_is, window):
    errors = []
    for size in (6, 400):
        with pytest.raises((TypeError, ValueError, OverflowError)) as caught:
            ct.max_pool2d(torch.rand(1, 1, 6, size), *window)
        errors.append((caught.type, str(caught.value).replace(str(size), "6")))
    assert errors[0][0] == errors[1][0]


@pytest.mark.parametrize("size", [4, 400])
def test_sizes_that_no_machine_counts_are_refused_at_every_size(as_it_is, size):
    x = torch.rand(1, size, size)
    for huge in (10**30, 10**5000):
        for name in ("kernel_size", "stride", "padding"):
            for value in (huge, (huge, huge)):
                with pytest.raises(OverflowError, match=rf"{name} must be at most 2\*\*60, got "):
                    ct.max_pool2d(x, **{"kernel_size": 2, name: value})


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers(dtype):
    x = numbers((2, 3, 8, 8), dtype)
    y, indices = ct.max_pool2d(x, 2, return_indices=True)
    expected = F.max_pool2d(x, 2, return_indices=True)
    assert (raw(y), raw(indices)) == tuple(map(raw, expected))
    z = ct.max_unpool2d(y, indices.int(), 2)
    assert z.dtype is dtype
    assert raw(z.double()) == raw(F.max_unpool2d(y.double(), indices, 2))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("return_indices", [False, True])
def test_gradcheck(n, return_indices):
    torch.set_num_threads(1)  # thousands of tiny calls
    x = torch.randperm(2 * 5**n).double().reshape(1, 2, *(5,) * n).requires_grad_()
    pool, unpool = both(f"max_pool{n}d")[0], both(f"max_unpool{n}d")[0]

    def pooled(x):
        return pool(x, 3, 2, 1, 1, True, return_indices)[0] if return_indices else pool(x, 3, 2, 1, 1, True)

    assert torch.autograd.gradcheck(pooled, x)
    assert torch.autograd.gradgradcheck(pooled, x)
    y, indices = pool(x.detach(), 2, return_indices=True)
    y.requires_grad_()
    assert torch.autograd.gradcheck(lambda y: unpool(y, indices, 2, output_size=x.shape), y)
    assert torch.autograd.gradgradcheck(lambda y: unpool(y, indices, 2, output_size=x.shape), y)
    assert torch.autograd.gradcheck(lambda x: unpool(pool(x, 2), indices, 2, 2, 0, x.shape).square(), x)
    assert torch.autograd.gradgradcheck(lambda x: unpool(pool(x, 2), indices, 2, 2, 0, x.shape).square(), x)


def test_second_gradients_are_pytorchs():
    x = torch.randn(2, 3, 9, 9).requires_grad_()
    for dtype in FLOATS:
        seconds = []
        for functions in (ct, F):
            y, indices = functions.max_pool2d(x.to(dtype), 3, 2, return_indices=True)
            z = functions.max_unpool2d(y, indices, 3, 2)
            (first,) = torch.autograd.grad(z.float().pow(3).sum(), x, create_graph=True)
            seconds.append(torch.autograd.grad(first.sum(), x)[0])
        assert seconds[0].abs().sum() > 0
        torch.testing.assert_close(*seconds)


@pytest.mark.parametrize("index_format", ["plane", "window"])
@pytest.mark.parametrize("size", [4, 200])
def test_masks(as_it_is, size, index_format):
    mask = torch.rand(1, 3, size, size) < 0.3
    for x in (mask, mask.to(memory_format=torch.channels_last)):
        y, indices = ct.max_pool2d(x, 3, 2, 1, return_indices=True, index_format=index_format)
        expected, places = ct.max_pool2d(x.to(torch.uint8), 3, 2, 1, return_indices=True, index_format=index_format)
        assert y.dtype is torch.bool
        assert (raw(y), raw(indices)) == (raw(expected.bool()), raw(places))
        assert torch.equal(ct.max_pool2d(x, 3, 2, 1), y)
        z = ct.max_unpool2d(y, indices, 3, 2, 1, x.shape, index_format=index_format)
        assert z.dtype is torch.bool
        assert z.stride() == x.stride()
        assert torch.equal(torch.vmap(lambda x: ct.max_pool2d(x, 3, 2, 1))(x[None]), y[None])
        assert torch.equal(z, ct.max_unpool2d(expected, indices, 3, 2, 1, x.shape, index_format=index_format).bool())


def test_no_gradient_no_graph():
    x = torch.rand(1, 1, 4, 4, requires_grad=True)
    with torch.no_grad():
        y, indices = ct.max_pool2d(x, 2, return_indices=True)
        assert not y.requires_grad
        assert not ct.max_unpool2d(y.requires_grad_(), indices, 2).requires_grad
    with torch.inference_mode():
        assert raw(ct.max_pool2d(x, 2)) == raw(F.max_pool2d(x, 2))
    y, indices = ct.max_pool2d(x, 2, return_indices=True)
    (indices.sum() + torch.zeros((), requires_grad=True)).backward()  # indices have none
    assert x.grad is None


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("n", [2, 3])
def test_channels_last_stays(n, dtype):
    last = {2: torch.channels_last, 3: torch.channels_last_3d}[n]
    x = torch.randn(2, 3, *(6,) * n).to(dtype).to(memory_format=last).requires_grad_()
    y, indices = both(f"max_pool{n}d")[0](x, 2, return_indices=True)
    z = both(f"max_unpool{n}d")[0](y, indices, 2)
    z.float().sum().backward()  # the gradient comes expanded, without a layout of its own
    for tensor in (y, indices, z, x.grad):
        assert tensor.is_contiguous(memory_format=last)
        assert not tensor.is_contiguous()
    expected, _ = both(f"max_pool{n}d")[1](x, 2, return_indices=True)
    assert y.stride() == expected.stride()
    flat = both(f"max_pool{n}d")[0](x.detach()[0], 2)  # without a batch, PyTorch knows no channels-last
    assert flat.is_contiguous()
    for axes in ((-1, -2), (1, -1), (0, 1)):  # neither contiguous nor channels-last
        turned = x.detach().transpose(*axes)
        result, expected = (pool(turned, 2, 2, 1) for pool in both(f"max_pool{n}d"))
        assert result.stride() == expected.stride()


def test_memory_is_shared(monkeypatch):
    seen = []
    unpool = _calls.UNPOOL[2]
    monkeypatch.setitem(_calls.UNPOOL, 2, lambda *a, **k: seen.append((*a[:2], unpool(*a, **k))) or seen[-1][2])
    for dtype in FLOATS:
        y, indices = ct.max_pool2d(torch.rand(1, 4, 8, 8).to(dtype), 2, return_indices=True)
        z = ct.max_unpool2d(y, indices, 2)
        for tensor, array in zip((y, indices, z), seen.pop(), strict=True):
            assert tensor.data_ptr() == array.ctypes.data


def test_threads_are_pytorchs_and_cunpools(monkeypatch):
    asked = []
    unpool = _calls.UNPOOL[2]
    monkeypatch.setitem(_calls.UNPOOL, 2, lambda *a, **k: asked.append(k["num_threads"]) or unpool(*a, **k))
    y, indices = ct.max_pool2d(torch.rand(1, 8, 128, 128), 2, return_indices=True)
    expected = raw(F.max_unpool2d(y, indices, 2))
    for theirs, ours, used in ((1, 4, 1), (3, 2, 2), (2, 3, 2)):
        torch.set_num_threads(theirs)
        cu.set_num_threads(ours)
        assert raw(ct.max_unpool2d(y, indices, 2)) == expected
        assert asked.pop() == (used if cu.openmp_enabled() else 1)
    ct.max_unpool2d(y[:, :1, :2], indices[:, :1, :2], 2)
    assert asked == [1]


def test_empty_batches():
    x = torch.rand(0, 3, 8, 8, requires_grad=True)
    y, indices = ct.max_pool2d(x, 2, return_indices=True)
    z = ct.max_unpool2d(y, indices, 2)
    z.sum().backward()
    assert (y.shape, z.shape, x.grad.shape) == ((0, 3, 4, 4), (0, 3, 8, 8), (0, 3, 8, 8))


def test_conjugates_and_subclasses():
    z = torch.randn(1, 1, 2, 2, dtype=torch.complex64)
    indices = torch.tensor([[[[0, 3], [9, 15]]]])
    result = ct.max_unpool2d(z.conj(), indices, 2)
    assert torch.equal(result.flatten()[indices.flatten()], z.conj().flatten())
    negative = torch.conj(z).imag
    assert negative.is_neg()
    assert torch.equal(ct.max_pool2d(negative, 2), F.max_pool2d(negative, 2))
    negative = torch._neg_view(torch.randn(1, 1, 4, 4).bfloat16())
    assert torch.equal(ct.max_pool2d(negative, 2), F.max_pool2d(negative, 2))
    assert torch.equal(ct.max_unpool2d(negative, indices.repeat(1, 1, 2, 2), 2)[0, 0, 0, 0], negative[0, 0, 2, 2])
    parameter = torch.nn.Parameter(torch.rand(1, 4))
    assert type(ct.max_pool1d(parameter, 2)) is torch.Tensor


X, I = torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 4, 4, dtype=torch.int64)  # noqa: E741


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ValueError, "input .* meta", lambda: ct.max_unpool2d(X.to("meta").bfloat16(), I, 2)),
        (ValueError, "indices .* meta", lambda: ct.max_unpool2d(X, I.to("meta"), 2)),
        (ValueError, "indices .* meta", lambda: ct.MaxUnpool2d(2)(X, I.to("meta"))),
        (ValueError, "must be a dense tensor, .*sparse_coo .*cpu", lambda: ct.max_pool2d(X.to_sparse(), 2)),
        (TypeError, "input must be a torch.Tensor, got ndarray", lambda: ct.max_pool2d(X.numpy(), 2)),
        (TypeError, "input must be a torch.Tensor, got list", lambda: ct.max_unpool1d([[1.0]], I, 2)),
        (TypeError, "indices must be a torch.Tensor, got NoneType", lambda: ct.max_unpool2d(X, None, 2)),
        (TypeError, "indices must be of integers", lambda: ct.max_unpool2d(X, X, 2)),
        (TypeError, "integers, got float32", lambda: ct.max_unpool2d(X, X.clone().requires_grad_(), 2)),
        (TypeError, "indices must be of integers, got torch.bfloat16", lambda: ct.max_unpool2d(X, X.bfloat16(), 2)),
        (TypeError, "complex64", lambda: ct.max_pool2d(X.to(torch.complex64), 2)),
        (TypeError, "input .* ScalarType", lambda: ct.max_unpool2d(X.to(torch.float8_e5m2), I, 2)),
        (ValueError, "kernel_size must be at least 1", lambda: ct.max_pool2d(X, 0)),
        (ValueError, "output_size", lambda: ct.max_unpool2d(X, I, 2, output_size=torch.Size([1, 1, 99, 99]))),
        (IndexError, r"index 64 at position \(0, 0, 0, 0\)", lambda: ct.max_unpool2d(X, I + 64, 2)),
        (IndexError, "index 64", lambda: ct.max_unpool2d(X.clone().requires_grad_(), I + 64, 2)),
    ],
)
def test_what_is_refused(error, message, call):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling_after_dilation(n):
    (pool, _), (unpool, _) = both(f"max_pool{n}d"), both(f"max_unpool{n}d")
    x = torch.rand(1, 2, *(9,) * n)
    y, indices = pool(x, 3, 1, dilation=2, return_indices=True)
    _, codes = pool(x, 3, 1, dilation=2, return_indices=True, index_format="window")
    expected = getattr(cu, f"max_unpool{n}d")(y.numpy(), indices.numpy(), 3, 1, dilation=2)
    assert np.array_equal(unpool(y, indices, 5, 1), expected)
    assert np.array_equal(unpool(y, indices, 3, 1, dilation=2), expected)
    assert np.array_equal(unpool(y, codes, 3, 1, dilation=[2] * n, index_format="window"), expected)
    assert np.array_equal(unpool(y, codes, 3, 1, 0, (9,) * n, dilation=2, index_format="window"), expected)
    weights = torch.rand(1, 2, *(9,) * n, requires_grad=True)
    grads = []
    for given, kernel_size, options in (
        (indices, 5, {}),
        (indices, 3, {"dilation": 2}),
        (codes, 3, {"dilation": 2, "index_format": "window"}),
    ):
        leaf = y.clone().requires_grad_()
        loss = (unpool(leaf, given, kernel_size, 1, **options) * weights).sum()
        (single,) = torch.autograd.grad(loss, leaf, retain_graph=True)
        (grad,) = torch.autograd.grad(loss, leaf, create_graph=True)
        assert torch.equal(grad, single)
        grads.append((grad, *torch.autograd.grad(grad.square().sum(), weights)))
    for pair in grads[1:]:
        assert torch.equal(grads[0][0], pair[0])
        assert torch.allclose(grads[0][1], pair[1])
    with pytest.raises(IndexError, match=r"^index .* is outside the output"):
        unpool(y, indices, 3, 1)
    with pytest.raises(ValueError, match=r"^dilation must be an integer or have "):
        unpool(y, indices, 3, 1, dilation=(2,) * (n + 1))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_modules_of_unpooling_with_dilation(n):
    pool, unpool = (getattr(ct, f"Max{kind}{n}d") for kind in ("Pool", "Unpool"))
    x = torch.rand(1, 2, *(9,) * n)
    module = unpool(3, 1, dilation=2)
    y, indices = pool(3, 1, dilation=2, return_indices=True)(x)
    expected = getattr(F, f"max_unpool{n}d")(y, indices, 5, 1)
    assert torch.equal(module(y, indices), expected)
    assert repr(module).endswith("padding=(" + ", ".join("0" * n) + (",)" if n == 1 else ")") + ", dilation=2)")
    assert "dilation" not in repr(unpool(3, 1))
    assert torch.equal(pickle.loads(pickle.dumps(module))(y, indices), expected)
    net = torch.nn.ModuleList([pool(3, 1, dilation=2, return_indices=True), module])
    ct.accelerate(net, index_format="window")  # window codes, which need the dilation
    assert "index_format='window'" in repr(module)
    assert torch.equal(module(*net[0](x)), expected)
    assert torch.equal(module(*net[0](x), x.shape), expected)
    ct.restore(net)
    assert type(module) is getattr(torch.nn, f"MaxUnpool{n}d")
    assert module.kernel_size == (5,) * n
    assert "dilation" not in vars(module)
    assert torch.equal(module(*net[0](x)), expected)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_channels_last_are_moved_by_a_method_of_tensors(device, recwarn):
    image = torch.zeros(100, 80, 3, device=device)
    with pytest.raises(ValueError, match=r"if it has its channels last, pass input.movedim\(-1, 0\)$"):
        ct.max_pool2d(image, 5)
    with pytest.raises(ValueError, match=r"if it has its channels last, pass input.movedim\(-1, 1\)$"):
        ct.max_pool2d(image[None], 5)
    assert ct.max_pool2d(image.movedim(-1, 0), 5).shape == (3, 20, 16)
    assert ct.max_pool2d(image, 2).shape == (100, 40, 1)
    assert not recwarn


def test_indices_with_channels_last_are_moved_by_a_method_of_tensors():
    rows, columns, channels = torch.meshgrid(*map(torch.arange, (4, 4, 3)), indexing="ij")
    tf = (rows * 2 * 8 + columns * 2) * 3 + channels
    with pytest.raises(
        IndexError, match=r"; as indices.movedim\(-1, 0\), channels first, they would be right as Tensor"
    ):
        ct.max_unpool2d(torch.zeros(4, 4, 3), tf, 2)


META = [  # what differs from a legal call, and how that is refused
    ({}, None),
    ({"output_size": (20, 20)}, ValueError),
    ({"output_size": (9, 7)}, None),
    ({"indices": torch.int32}, None),
    ({"indices": torch.float32}, TypeError),
    ({"indices": torch.bool}, TypeError),
    ({"indices": torch.complex64}, TypeError),
    ({"shape": (1, 4, 3)}, ValueError),
    ({"shape": (4, 4), "input": (4, 4)}, ValueError),
]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_what_is_missing_is_named(n, device):
    unpool, x = both(f"max_unpool{n}d")[0], torch.zeros((1,) + (4,) * n, device=device)
    pair = y, indices = both(f"max_pool{n}d")[0](x, 2, return_indices=True)
    module = getattr(ct, f"MaxUnpool{n}d")(2)
    for message, call in (
        (r"needs the indices that pooling gives, got 2 instead", lambda: unpool(y, 2)),
        (r"needs the indices that pooling gives, got 2 instead", lambda: unpool(y.requires_grad_(), 2)),
        (r"needs the kernel_size of the pooling, got nothing", lambda: unpool(y, indices)),
        (r"put a \* before it, as in max_unpool.d\(\*pair, 2\)", lambda: unpool(pair, 2)),
        (r"put a \* before it, as in max_unpool.d\(\*pair, 2\)", lambda: module(pair)),
        (r"needs the indices that pooling gives, got nothing instead", lambda: module(y)),
        (r"needs the kernel_size of the pooling, got nothing", lambda: torch.vmap(unpool)(y[None], indices[None])),
    ):
        with pytest.raises(TypeError, match=rf"^max_unpool{n}d\(input, indices, kernel_size\) .*{message}$"):
            call()
    for function, name in ((unpool, "kernel_size"), (module.forward, "indices")):
        assert inspect.signature(function).parameters[name].default is inspect.Parameter.empty


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("n", [2, 3])
def test_one_channel_stays_contiguous(n, device):
    """Such a tensor is channels-last as well."""
    pool, torch_pool = both(f"max_pool{n}d")
    x = torch.rand((2, 1) + (6,) * n)
    mine, theirs = pool(x.to(device), 2, return_indices=True), torch_pool(x, 2, return_indices=True)
    assert [y.stride() for y in mine] == [y.stride() for y in theirs]
    assert pool(x.to(device), 2).stride() == theirs[0].stride()


@pytest.mark.parametrize(("options", "error"), META)
def test_unpooling_meta_tensors_is_refused_as_on_the_cpu(options, error):
    def call(device):
        input = torch.zeros(options.get("input", (1, 4, 4)), device=device)
        dtype = options.get("indices", torch.int64)
        indices = torch.zeros(options.get("shape", (1, 4, 4)), dtype=dtype, device=device)
        return ct.max_unpool2d(input, indices, 2, output_size=options.get("output_size"))

    if error is None:
        assert call("meta").shape == call("cpu").shape
        return
    for device in ("meta", "cpu"):
        with pytest.raises(error):
            call(device)


def test_pooling_meta_tensors_is_refused_as_on_the_cpu():
    for device in ("meta", "cpu"):
        x = torch.zeros(1, 4, 4, device=device)
        for window in ((2, 2, 2), (9,), (2, 1, 0, 4)):
            with pytest.raises(ValueError, match=r"padding must be at most half|the windows do not fit"):
                ct.max_pool2d(x, *window)
        assert ct.max_pool2d(x, 3, 2, 1, 1, True).shape == (1, 3, 3)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("size", [9, 40])
def test_padding_is_one_for_both_ends(n, size):
    """Pairs and names are refused, directly and compiled, and no message advises them."""
    x = torch.rand(1, 1, *(9,) * (n - 1), size)
    y, indices = getattr(ct, f"max_pool{n}d")(x, 3, return_indices=True)
    codes = torch.zeros(y.shape, dtype=torch.uint8)
    pool, unpool, take = (getattr(ct, f"{name}{n}d") for name in ("max_pool", "max_unpool", "take_at"))
    calls = (
        lambda padding: pool(x, 3, padding=padding),
        lambda padding: pool(x.requires_grad_(), 3, padding=padding),
        lambda padding: torch.func.vmap(lambda image: pool(image, 3, padding=padding))(x),
        lambda padding: getattr(ct, f"MaxPool{n}d")(3, padding=padding)(x),
        lambda padding: unpool(y, indices, 3, padding=padding),
        lambda padding: unpool(y.requires_grad_(), indices, 3, padding=padding),
        lambda padding: take(x, codes, 3, padding=padding, index_format="window"),
    )
    for padding, call in itertools.product(("same", "same_lower", ((0, 1),) * n), calls):
        with pytest.raises(TypeError, match=r"padding must be .*; cunpool.torch pads both ends of an axis alike: "):
            call(padding)
    with pytest.raises(ValueError, match=r"half of kernel_size, got padding 2 for 3; cunpool.torch pads both ends"):
        pool(x, 3, padding=2)
    for call in (calls[0], calls[4]):
        with pytest.raises(ValueError, match=r"one per axis, got .*; cunpool.torch pads both ends"):
            call((0, 1, 1, 0, 0, 1)[: 2 * n])


@pytest.mark.parametrize("n", [1, 2, 3])
def test_modules(n):
    x = torch.rand(2, 3, *(9,) * n)
    for arguments in ((3,), (3, 2, 1, 1, True, True), (2, None, 0, 2)):
        pool, expected = (getattr(where, f"MaxPool{n}d")(*arguments) for where in (ct, torch.nn))
        assert repr(pool) == repr(expected)
        assert isinstance(pool, type(expected))
        result = pool(x)
        assert torch.equal(result[0], expected(x)[0])
        if pool.return_indices:
            unpool, expected = (getattr(where, f"MaxUnpool{n}d")(3, 2, padding=1) for where in (ct, torch.nn))
            assert repr(unpool) == repr(expected)
            assert torch.equal(unpool(*result), expected(*result))
            assert torch.equal(unpool(*result, output_size=x.shape), expected(*result, output_size=x.shape))


@pytest.mark.parametrize("size", [4, 400])
def test_flags_are_flags_at_any_size(monkeypatch, size):
    monkeypatch.setattr(_eager, "LEAST", 1 << 12)
    x = torch.rand(1, 1, size, size)
    for flag in ("ceil_mode", "return_indices"):
        for value in ("no", 2, None):
            with pytest.raises(TypeError, match=f"{flag} must be True or False"):
                ct.max_pool2d(x, 2, **{flag: value})
    assert len(ct.max_pool2d(x, 2, ceil_mode=0, return_indices=1)) == 2


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("last", [False, True])
def test_window_codes(n, last):
    pool, unpool = both(f"max_pool{n}d")[0], both(f"max_unpool{n}d")[0]
    x = torch.randn(2, 3, *(9, 8, 11)[:n])
    if last and n > 1:
        x = x.to(memory_format={2: torch.channels_last, 3: torch.channels_last_3d}[n])
    whole = torch.uint8 if n < 3 else torch.uint16
    for window, dtype in ((((3, 2, 3)[:n], 2, 1), torch.uint8), (((9, 8, 11)[:n], 9, 0), whole)):
        results = []
        for index_format in ("plane", "window"):
            leaf = x.detach().requires_grad_()
            y, indices = pool(leaf, *window, return_indices=True, index_format=index_format)
            z = unpool(y, indices, *window, x.shape, index_format=index_format)
            weights = torch.linspace(-1, 1, z.numel()).reshape(z.shape)
            (first,) = torch.autograd.grad((z.pow(3) * weights).sum(), leaf, create_graph=True)
            (second,) = torch.autograd.grad(first.square().sum(), leaf)
            with torch.no_grad():
                values, codes = pool(leaf, *window, return_indices=True, index_format=index_format)
            assert raw(values) == raw(y)
            assert raw(codes) == raw(indices)
            results.append([*map(raw, (y, z, first, second))])
        assert indices.dtype is dtype
        assert not indices.requires_grad
        assert indices.stride() == y.stride()
        assert results[0] == results[1]


def test_formats_that_there_are_not(as_it_is):
    for size in (4, 400):
        x = torch.rand(1, 1, size, size)
        for return_indices in (False, True):
            with pytest.raises(ValueError, match="index_format must be one of"):
                ct.max_pool2d(x, 2, return_indices=return_indices, index_format="cell")
        with pytest.raises(ValueError, match="index_format must be one of"):
            ct.max_unpool2d(x, torch.zeros_like(x, dtype=torch.uint8), 2, index_format="cell")
    for call in (lambda: ct.MaxPool2d(2, index_format=1), lambda: ct.MaxUnpool1d(2, index_format=""),
                 lambda: ct.accelerate(torch.nn.ReLU(), index_format="codes")):  # fmt: skip
        with pytest.raises(ValueError, match="index_format must be one of"):
            call()
    assert not as_it_is
    assert ct.max_pool2d(x[..., :4, :4], 2, index_format="window").shape == (1, 1, 2, 2)
    assert as_it_is  # nobody asks for indices
    with pytest.raises(IndexError, match="code"):
        ct.max_unpool2d(x, torch.full(x.shape, 4, dtype=torch.uint8), 2, index_format="window")


@pytest.mark.parametrize("n", [1, 2, 3])
def test_modules_with_window_codes(n):
    pool = getattr(ct, f"MaxPool{n}d")(2, return_indices=True, index_format="window")
    unpool = getattr(ct, f"MaxUnpool{n}d")(2, index_format="window")
    assert repr(pool).endswith("ceil_mode=False, index_format='window')")
    x = torch.rand(1, 2, *(6,) * n)
    y, indices = copy.deepcopy(pool)(x)
    assert indices.dtype is torch.uint8
    expected = there_and_back(n, x)
    assert torch.equal(pickle.loads(pickle.dumps(unpool))(y, indices), expected)
    both = torch.nn.ModuleList([pool, unpool])
    ct.accelerate(both)  # a user's choice stays
    assert torch.equal(both[1](*both[0](x)), expected)
    assert both[0](x)[1].dtype is torch.uint8
    ct.restore(both)
    assert torch.equal(both[1](*both[0](x)), expected)
    assert both[0](x)[1].dtype is torch.int64
    assert "index_format" not in vars(both[0])


def there_and_back(n, x):
    return getattr(F, f"max_unpool{n}d")(*getattr(F, f"max_pool{n}d")(x, 2, return_indices=True), 2)


@pytest.mark.parametrize("size", [4, 200])
def test_profilers_see_the_calls(as_it_is, size):
    x = torch.rand(1, 1, size, size, requires_grad=True)

    def calls():
        y, indices = ct.max_pool2d(x, 2, return_indices=True, index_format="window")
        ct.max_pool2d(x, 2)
        return ct.max_unpool2d(y, indices, 2, index_format="window")

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        calls().sum().backward()
        with torch.no_grad():
            calls()
        with torch.inference_mode():
            calls()
    counts = {event.key: event.count for event in profile.key_averages() if event.key.startswith("cunpool::")}
    assert counts == {
        "cunpool::max_pool": 6,
        "cunpool::max_unpool": 3,
        "cunpool::max_pool_backward": 1,
        "cunpool::max_unpool_backward": 1,
    }
    assert calls().shape == x.shape


FORMS = [  # arguments, and the same in plain words
    (lambda: (2, [2, 2]), (2, 2)),
    (lambda: (np.int64(2), None), (2,)),
    (lambda: ([2, 2], (np.int32(2), 1)), (2, (2, 1))),
    (lambda: (np.array([2, 2]), torch.tensor([2, 2])), (2, 2)),
    (lambda: ((2, 2), (2, 2)), (2, 2)),
    (lambda: (iter([2, 3]), None, [0, 0], iter([1, 1])), ((2, 3),)),
    (lambda: (range(2, 4),), ((2, 3),)),
    (lambda: (torch.tensor([3, 2]), [2, 1], (1, 0), np.array([1, 2])), ((3, 2), (2, 1), (1, 0), (1, 2))),
]


@pytest.mark.parametrize("form", range(len(FORMS)))
@pytest.mark.parametrize("size", [8, 512])
def test_forms_of_arguments_do_not_depend_on_the_size(as_it_is, form, size):
    x = torch.rand(1, 1, size, size, requires_grad=True)
    window, plain = FORMS[form]
    result = ct.max_pool2d(x, *window(), return_indices=True)
    assert [*map(raw, result)] == [*map(raw, F.max_pool2d(x, *plain, return_indices=True))]
    result[0].sum().backward()  # what was read is not read again


NONSENSE = [(2, []), (2, ()), ((),), (2, 2, []), (2, 2, 0, ()), (0,), (2, 0), ((2, 0),), (1, 0)]


@pytest.mark.parametrize("window", NONSENSE)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_nonsense_is_refused_at_every_size(as_it_is, n, window):
    for size in (6, 64):
        with pytest.raises(ValueError, match="must"):
            both(f"max_pool{n}d")[0](torch.rand((1, 1) + (size,) * n), *window)


def test_windows_without_a_cell_are_never_left_to_pytorch(as_it_is):
    for shape, window in (
        ((1, 1, 1, 1), ((2, 1), (10**9, 1), (1, 0), (10**9, 1), True)),  # PyTorch's backward ends the process
        ((1, 6, 1, 1), (2, 1, 1, 2)),  # or writes into other planes, and past the buffer
    ):
        x = torch.rand(shape, requires_grad=True)
        y, indices = ct.max_pool2d(x, *window, return_indices=True)
        assert not as_it_is
        inside = ((indices >= 0) & (indices < 1)).all()
        if inside:
            y.backward(torch.ones_like(y))
        else:
            with pytest.raises(IndexError, match="is outside the output"):
                y.backward(torch.ones_like(y))


@pytest.mark.parametrize("size", [2, 6, 24])
def test_volumes_of_minus_infinity_have_indices_of_their_windows(as_it_is, size):
    x = torch.full((1, 3, size, size, size), -torch.inf)
    last = x.to(memory_format=torch.channels_last_3d)
    for window in ((2,), (2, 2, 1), (2, 1)):
        expected = F.max_pool3d(x, *window, return_indices=True)
        assert [*map(raw, ct.max_pool3d(last, *window, return_indices=True))] == [*map(raw, expected)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_small_and_large_calls_in_a_forked_child():
    program = """if True:
        import os, torch, cunpool.torch as ct
        torch.nn.functional.max_pool2d(torch.rand(8, 64, 128, 128), 2)  # PyTorch's threads are there
        ct.max_pool2d(torch.rand(8, 64, 128, 128), 2)
        sizes = (1, 4), (1, 63), (16, 15), (64, 7), (1, 512)
        small = [torch.rand(1, channels, size, size) for channels, size in sizes]
        expected = [ct.max_pool2d(x, 2, return_indices=True) for x in small]
        child = os.fork()
        if not child:
            for x, (y, i) in zip(small, expected):
                z, j = ct.max_pool2d(x, 2, return_indices=True)
                assert y.numpy().tobytes() == z.numpy().tobytes() and i.numpy().tobytes() == j.numpy().tobytes()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    """
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=os.sep, timeout=60, start_new_session=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gradients_do_not_depend_on_create_graph(dtype, last):
    x = torch.randn(2, 3, 40, 36).to(dtype)
    x = x.to(memory_format=torch.channels_last) if last else x
    grads = []
    for create_graph in (False, True):
        leaf = x.detach().requires_grad_()
        y, indices = ct.max_pool2d(leaf, 5, 1, 2, return_indices=True)
        z = ct.max_unpool2d(y, indices, 5, 1, 2)
        weights = torch.linspace(-3, 3, y.numel()).reshape(y.shape).to(dtype).requires_grad_()
        grads += [torch.autograd.grad(result, leaf, weights, True, create_graph) for result in (y, z)]
        assert grads[-1][0].requires_grad == create_graph
        assert grads[-1][0].is_contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
    for without, with_graph in zip(grads[:2], grads[2:], strict=True):
        assert raw(without[0]) == raw(with_graph[0])
        assert without[0].stride() == with_graph[0].stride()


def test_docstring_examples():
    for module, least in ((functional, 21), (modules, 18), (_accelerate, 6)):
        result = doctest.testmod(module)
        assert result.attempted >= least
        assert result.failed == 0
    for name in ct.__all__:
        assert "Examples\n" in getattr(ct, name).__doc__, name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("start", multiprocessing.get_all_start_methods())
def test_workers_of_a_data_loader(start):
    """However they start."""
    images = [np.random.default_rng(i).random((3, 64, 64), np.float32) for i in range(8)]
    loader = torch.utils.data.DataLoader(
        images, batch_size=4, collate_fn=cu.MaxPool2d(2), num_workers=1, multiprocessing_context=start
    )
    batches = [*loader]
    assert len(batches) == 2
    assert np.array_equal(np.concatenate(batches), cu.max_pool2d(np.stack(images), 2))


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, cwd=os.sep)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_cunpool_alone_never_imports_pytorch():
    program = "import sys, cunpool, cunpool.__main__; cunpool.max_pool1d([[1.0, 2]], 2); print('torch' in sys.modules)"
    assert run(program) == "False\n"


def test_without_pytorch_there_is_one_line():
    program = """if True:
        import sys
        sys.modules["torch"] = None
        try:
            import cunpool.torch
        except ImportError as error:
            print(error, error.__suppress_context__)
    """
    assert run(program) == "cunpool.torch needs PyTorch: pip install 'cunpool[torch]' True\n"
