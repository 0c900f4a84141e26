"""Taking from tensors: eager, with gradients, and in whatever context PyTorch watches."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.autograd import forward_ad  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import cunpool as cu  # noqa: E402
import cunpool.torch as ct  # noqa: E402
from cunpool.torch import _taking  # noqa: E402

TAKE = {n: getattr(ct, f"take_at{n}d") for n in (1, 2, 3)}
DTYPES = [torch.uint8, torch.bool, torch.int16, torch.bfloat16, torch.float16, torch.float32, torch.float64]
SIZES = {"pooled": (3, 4), "as many": (7, 9), "more than there are": (11, 2), "none": (0, 5)}


@pytest.fixture(autouse=True)
def settled():
    torch.manual_seed(0)
    torch._dynamo.reset()
    with warnings.catch_warnings():
        for message in (".*torch.jit", ".*isinstance.treespec", "There is a performance drop"):
            warnings.filterwarnings("ignore", message=message)
        yield


def gathered(x, indices):
    """What is meant, for two spatial axes, by PyTorch's gather."""
    flat = x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])
    return flat.gather(-1, indices.reshape(*indices.shape[:-2], -1).long()).reshape(indices.shape)


def some(sizes=(3, 4), dtype=torch.float64):
    """A tensor, and indices of these sizes, several of which are the same."""
    x = torch.randn(2, 3, 7, 9).to(dtype)
    return x, torch.randint(0, 63, (2, 3, *sizes))


@pytest.mark.parametrize("dtype", [*DTYPES, torch.complex64], ids=str)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_it_is_numpys(n, dtype):
    shape = (2, 3, *{1: (50,), 2: (7, 9), 3: (3, 4, 5)}[n])
    x = torch.randint(0, 99, shape).to(dtype)
    _, indices = getattr(ct, f"max_pool{n}d")(torch.randn(shape), 2, return_indices=True)
    expected = x.flatten(-n).gather(-1, indices.flatten(-n)).reshape(indices.shape)
    result = TAKE[n](x, indices)
    assert result.dtype == dtype
    assert torch.equal(result, expected)
    window = 3, 2, 1
    _, codes = getattr(ct, f"max_pool{n}d")(torch.randn(shape), *window, return_indices=True, index_format="window")
    if dtype is not torch.bfloat16:
        by_codes = getattr(cu, f"take_at{n}d")(x.numpy(), codes.numpy(), *window, index_format="window")
        assert torch.equal(TAKE[n](x, codes, *window, index_format="window"), torch.from_numpy(by_codes))


def test_the_layout_is_that_of_the_indices():
    x, indices = some()
    result = ct.take_at2d(x, indices.contiguous(memory_format=torch.channels_last))
    assert result.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(result, gathered(x, indices))


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex128], ids=str
)
@pytest.mark.parametrize("index_dtype", [torch.uint8, torch.int32, torch.int64], ids=str)
def test_the_gradient_adds(name, dtype, index_dtype):
    x, indices = some(SIZES[name], dtype)
    indices = indices.to(index_dtype)
    weights = torch.randint(-4, 5, indices.shape).to(dtype)
    x.requires_grad_()
    (expected,) = torch.autograd.grad(gathered(x, indices), x, weights)
    for create_graph in (False, True):
        (grad,) = torch.autograd.grad(ct.take_at2d(x, indices), x, weights, create_graph=create_graph)
        assert torch.equal(grad, expected)


def test_the_gradient_of_codes_adds():
    x = torch.randn(2, 3, 8, 8, requires_grad=True)
    for window, size in (((3, 2, 1), 4), ((2, 1, 0), 7)):
        _, indices = ct.max_pool2d(torch.randn(2, 3, 8, 8), *window, return_indices=True)
        codes = torch.from_numpy(
            cu.convert_indices(indices.numpy(), "plane", "window", input_size=x.shape, kernel_size=window[0],
                               stride=window[1], padding=window[2])
        )  # fmt: skip
        assert codes.shape[-1] == size
        for part in (codes, codes[..., :3, :2]):  # the second is no pooling's
            weights = torch.randint(-4, 5, part.shape).float()
            (grad,) = torch.autograd.grad(ct.take_at2d(x, part, *window, index_format="window"), x, weights)
            places = indices[..., : part.shape[-2], : part.shape[-1]]
            (expected,) = torch.autograd.grad(gathered(x, places), x, weights)
            assert torch.equal(grad, expected)


def test_the_kernels_add_where_they_can(monkeypatch):
    """PyTorch's scatter adds only where no pooling gives such sizes."""
    calls = []
    scatter = _taking._scatter_added
    monkeypatch.setattr(_taking, "_scatter_added", lambda *arguments: calls.append(1) or scatter(*arguments))
    for name, expected in (("pooled", 0), ("as many", 0), ("more than there are", 1)):
        x, indices = some(SIZES[name])
        calls.clear()
        ct.take_at2d(x.requires_grad_(), indices).sum().backward()
        assert len(calls) == expected, name


def test_no_gradient_for_what_needs_none():
    x, indices = some()
    leaf = x.clone().requires_grad_()
    with torch.no_grad():
        assert not ct.take_at2d(leaf, indices).requires_grad
    taken = ct.take_at2d(leaf, indices)
    assert _taking._TakeAt.backward(taken.grad_fn, None) == (None, None, None)
    assert not ct.take_at2d(x.to(torch.int32), indices).requires_grad


@pytest.mark.slow
def test_derivatives_of_any_order():
    x, indices = some()
    leaf = x.requires_grad_()
    options = {"check_batched_grad": True, "check_forward_ad": False}
    assert torch.autograd.gradcheck(lambda x: ct.take_at2d(x, indices), leaf, **options)
    assert torch.autograd.gradcheck(lambda x: ct.take_at2d(x, indices), leaf, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda x: ct.take_at2d(x, indices).square(), leaf)


CONTEXTS = {
    "grad": lambda f, x: torch.func.grad(lambda x: f(x).square().sum())(x),
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (x.cos(),))[1],
    "vjp": lambda f, x: torch.func.vjp(f, x)[1](f(x)),
    "jacfwd": lambda f, x: torch.func.jacfwd(f)(x),
    "jacrev": lambda f, x: torch.func.jacrev(f)(x),
    "hessian": lambda f, x: torch.func.hessian(lambda x: f(x).square().sum())(x),
    "vmap": lambda f, x: torch.vmap(f)(torch.stack([x, x.cos()])),
    "vmap(grad)": lambda f, x: torch.vmap(torch.func.grad(lambda x: f(x).square().sum()))(torch.stack([x, x.cos()])),
    "functional.jacobian": lambda f, x: torch.autograd.functional.jacobian(f, x, vectorize=True),
    "functional.hessian": lambda f, x: torch.autograd.functional.hessian(
        lambda x: f(x).square().sum(), x, vectorize=True
    ),
    "grads batched": lambda f, x: torch.autograd.grad(
        f(leaf := x.clone().requires_grad_()), leaf, torch.ones(5, 2, 3, 3, 4).double().cumsum(0), is_grads_batched=True
    )[0],
    "dual": lambda f, x: _tangent(f, x),
    "dual gradient": lambda f, x: _tangent_of_gradient(f, x),
}


def _tangent(f, x):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(f(forward_ad.make_dual(x, x.cos()))).tangent


def _tangent_of_gradient(f, x):
    leaf = x.clone().requires_grad_()
    y = f(leaf)
    with forward_ad.dual_level():
        (grad,) = torch.autograd.grad(y, leaf, forward_ad.make_dual(y.detach(), y.detach().cos()))
        return forward_ad.unpack_dual(grad).tangent


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTEXTS)
@pytest.mark.parametrize("compiled", [None, "eager", "aot_eager"])
def test_transforms_are_those_of_gather(name, compiled):
    x, indices = some()

    def in_context(take):
        return lambda x: CONTEXTS[name](lambda x: take(x, indices), x)

    expected = in_context(gathered)(x)
    call = in_context(ct.take_at2d)
    if compiled:
        if "functional" in name or "dual" in name or name == "grads batched":
            pytest.skip("autograd's own functions are no code to compile")
        call = torch.compile(call, backend=compiled, fullgraph=True)
    result = call(x)
    assert result is not None
    torch.testing.assert_close(result, expected)


def test_indices_may_be_batched():
    x, indices = some()
    many = torch.stack([indices, indices.flip(-1)])
    expected = torch.stack([gathered(x, each) for each in many])
    assert torch.equal(torch.vmap(ct.take_at2d, in_dims=(None, 0))(x, many), expected)


@pytest.mark.slow
@pytest.mark.parametrize("codes", [False, True])
def test_what_pytorch_traces_follows_its_input(codes):
    window = (3, 2, 1) if codes else ()
    options = {"index_format": "window"} if codes else {}

    class Net(torch.nn.Module):
        def forward(self, x, indices):
            return ct.take_at2d(x, indices, *window, **options)

    x, indices = some((4, 5))
    if codes:
        _, indices = ct.max_pool2d(x, *window, return_indices=True, **options)
    expected = Net()(x, indices)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = torch.jit.trace(Net(), (x, indices), check_trace=False)
    exported = torch.export.export(Net(), (x, indices)).module()
    for call in (
        trace,
        make_fx(Net())(x, indices),
        exported,
        torch.fx.symbolic_trace(Net()),
        torch.compile(Net(), backend="aot_eager"),
    ):
        assert torch.equal(call(x, indices), expected)
        assert torch.equal(call(x * 2, indices.flip(0)), Net()(x * 2, indices.flip(0)))
    meta = Net()(x.to("meta"), indices.to("meta"))
    assert (meta.shape, meta.dtype, meta.device.type) == (expected.shape, expected.dtype, "meta")


def test_codes_in_transforms():
    x = torch.randn(2, 3, 8, 8)
    codes = torch.tensor([1, 8, 4, 5], dtype=torch.uint8).reshape(1, 1, 2, 2).expand(2, 3, 2, 2)
    window, options = (3, 4, (0, 1)), {"dilation": (1, 2), "index_format": "window"}
    expected = ct.take_at2d(x[..., :7, :], codes, *window, **options)
    vmapped = torch.vmap(lambda x, codes: ct.take_at2d(x, codes, *window, **options))
    assert torch.equal(vmapped(x[..., :7, :], codes), expected)
    for wrong in (0, 9, 255):  # in the padding, and past the last code
        bad = codes.clone()
        bad[0, 0, 0, 0] = wrong
        with pytest.raises(IndexError):
            ct.take_at2d(x, bad, *window, **options)
        with pytest.raises(RuntimeError, match="out of bounds"):
            vmapped(x, bad)


def test_bad_arguments():
    x, indices = some()
    calls = {
        "eager": lambda *arguments, **options: ct.take_at2d(*arguments, **options),
        "transformed": lambda x, i, *rest, **options: torch.func.jvp(
            lambda x: ct.take_at2d(x, i, *rest, **options), (x,), (x,)
        ),
    }
    for call in calls.values():
        with pytest.raises(TypeError, match="indices must be of integers"):
            call(x, x)
        with pytest.raises(ValueError, match="indices must have the N and C of input"):
            call(x, indices[:1])
        with pytest.raises(ValueError, match="input must have 3 or 4 axes"):
            call(x[0, 0], indices)
        with pytest.raises(TypeError, match="kernel_size must be given"):
            call(x, indices, index_format="window")
        with pytest.raises(ValueError, match="index_format must be one of"):
            call(x, indices, index_format="onnx")
    with pytest.raises(TypeError, match=r"indices must be a torch.Tensor, got ndarray"):
        ct.take_at2d(x, indices.numpy())
    with pytest.raises(IndexError, match="is outside input: a plane of 7 x 9 has the indices 0 to 62"):
        ct.take_at2d(x, indices + 63)


def test_modes_and_subclasses_are_told():
    x, indices = some()
    seen = []

    class Seeing(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), keywords=None):
            seen.append((function, arguments[2:], keywords))
            return function(*arguments, **(keywords or {}))

    with Seeing():
        result = ct.take_at2d(x, indices, 2, None, 1, dilation=3)
    assert seen[0] == (ct.take_at2d, (2, None, 1), {"dilation": 3, "index_format": "plane"})
    assert torch.equal(result, gathered(x, indices))


def test_profilers_see_it():
    x, indices = some()
    with torch.profiler.profile() as profile:
        ct.take_at2d(x.requires_grad_(), indices).sum().backward()
    names = [event.key for event in profile.key_averages()]
    assert names.count("cunpool::take_at") == 1
    assert names.count("cunpool::take_at_backward") == 1


def test_many_elements_in_several_threads():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        x, indices = torch.randn(1, 4, 300, 300), torch.randint(0, 90000, (1, 4, 200, 250))
        leaf = x.clone().requires_grad_()
        taken = ct.take_at2d(leaf, indices)
        taken.backward(torch.ones_like(taken))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(taken, gathered(x, indices))
    counts = np.bincount((indices + 90000 * torch.arange(4).reshape(4, 1, 1)).flatten().numpy(), minlength=360000)
    assert torch.equal(leaf.grad.flatten(), torch.from_numpy(counts).float())
    assert math.prod(indices.shape) == counts.sum()
