"""cunpool.torch's adaptive pooling and unpooling beside PyTorch's pooling, gather and scatter."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import cunpool as cu

torch = pytest.importorskip("torch")
import cunpool.torch as ct  # noqa: E402
from cunpool.torch import _adaptive, _eager  # noqa: E402

F, nn = torch.nn.functional, torch.nn
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
LAST = {2: torch.channels_last, 3: torch.channels_last_3d}


@pytest.fixture(params=[True, False], ids=["kernels", "faster"])
def ours(request, monkeypatch):
    """cunpool's kernels at any size, or PyTorch's where these are faster."""
    torch.manual_seed(0)
    if request.param:
        monkeypatch.setattr(_adaptive, "is_theirs", lambda *_: False)


def functions(n):
    return getattr(ct, f"adaptive_max_pool{n}d"), getattr(ct, f"adaptive_max_unpool{n}d")


def theirs(n):
    return getattr(F, f"adaptive_max_pool{n}d")


def unpooled(y, indices, size):
    """PyTorch's scatter."""
    n = len(size)
    flat = torch.zeros(*y.shape[:-n], int(np.prod(size)), dtype=y.dtype)
    return flat.scatter(-1, indices.flatten(-n), y.flatten(-n)).reshape(*y.shape[:-n], *size)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_results_and_gradients_are_pytorchs(ours, rng, n, dtype):
    pool, unpool = functions(n)
    for case in range(40):
        full, size = (tuple(rng.integers(1, {1: 60, 2: 24, 3: 9}[n], n).tolist()) for _ in range(2))
        x = torch.randint(-4, 5, (*rng.integers(1, 20, int(rng.integers(1, 3))).tolist(), *full)).to(dtype)
        if case % 5 == 0:
            x[torch.rand(x.shape) < 0.02] = torch.nan
        if case % 4 == 0 and x.ndim == n + 2 and n > 1:
            x = x.contiguous(memory_format=LAST[n])
        leaves = [x.clone().requires_grad_(), x.contiguous().clone().requires_grad_()]
        results = pool(leaves[0], size, return_indices=True), theirs(n)(leaves[1], size, return_indices=True)
        for result, expected in zip(*results, strict=True):
            assert torch.equal(result.nan_to_num(99), expected.nan_to_num(99))
        assert torch.equal(pool(x, size).nan_to_num(99), results[1][0].nan_to_num(99))
        assert torch.equal(pool(leaves[0], size).nan_to_num(99), results[1][0].nan_to_num(99))
        grad = torch.randint(-4, 5, results[0][0].shape).to(dtype)
        for result in results:
            result[0].backward(grad)
        assert torch.equal(leaves[0].grad, leaves[1].grad)
        y, indices = results[0][0].detach(), results[0][1]
        if y.isnan().any():
            continue
        if x.ndim == n + 2 and n > 1 and case % 4 == 0:
            assert y.is_contiguous(memory_format=LAST[n])
        leaf = y.clone().requires_grad_()
        z = unpool(leaf, indices, x.shape)
        assert torch.equal(z, unpooled(y, indices, full))
        assert torch.equal(unpool(y, indices.int(), full), z)
        grad = torch.randn(z.shape).to(dtype)
        z.backward(grad)
        assert torch.equal(leaf.grad, grad.flatten(-n).gather(-1, indices.flatten(-n)).reshape(y.shape))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_second_gradients(ours, n):
    pool, unpool = functions(n)
    x = torch.randperm(2 * 5**n).double().reshape(1, 2, *(5,) * n).requires_grad_()
    y, indices = pool(torch.randn(1, 2, *(6,) * n).double(), 3, return_indices=True)  # without duplicates
    y.requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: pool(x, 3).square(), x)
    assert torch.autograd.gradgradcheck(lambda x: pool(x, 3, True)[0].square(), x)
    assert torch.autograd.gradcheck(lambda y: unpool(y, indices, (6,) * n).square(), y)
    assert torch.autograd.gradgradcheck(lambda y: unpool(y, indices, (6,) * n).square(), y)
    grads = torch.eye(y.numel()).double().reshape(-1, *y.shape)
    batched = torch.autograd.grad(pool(x, 3), x, grads, is_grads_batched=True)[0]
    each = [torch.autograd.grad(pool(x, 3), x, grad)[0] for grad in grads]
    assert torch.equal(batched, torch.stack(each))
    with torch.no_grad():
        assert not pool(x, 3).requires_grad
        assert not unpool(y, indices, (6,) * n).requires_grad


@pytest.mark.parametrize("n", [1, 2, 3])
def test_gradients_that_do_not_arrive(ours, n):
    class Cut(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return None

    pool, unpool = functions(n)
    x = torch.rand(1, 2, *(50,) * n if n < 3 else (12,) * 3, requires_grad=True)
    y, indices = pool(x, 3, True)
    (Cut.apply(unpool(y, indices, x.shape)).sum() + Cut.apply(y).sum()).backward()
    assert x.grad is None or not x.grad.any()


def test_integers_and_sizes(ours):
    x = torch.arange(2 * 35).reshape(2, 5, 7)
    for dtype in (torch.uint8, torch.int16, torch.int64, torch.bool):
        values, indices = ct.adaptive_max_pool2d(x.to(dtype), (None, 3), return_indices=True)
        expected = cu.adaptive_max_pool2d(x.to(dtype).numpy(), (None, 3), return_indices=True)
        assert np.array_equal(values, expected[0])
        assert np.array_equal(indices, expected[1])
        assert values.dtype is dtype
    assert ct.adaptive_max_pool2d(x[None].float(), torch.Size((2, 3))).shape == (1, 2, 2, 3)


@pytest.mark.filterwarnings("ignore:`torch.jit")
@pytest.mark.parametrize("n", [1, 2, 3])
def test_compiled_transformed_and_traced(ours, n):
    pool, unpool = functions(n)
    x = torch.randn(2, 3, *(9, 8, 7)[:n])

    def both(x):
        y, indices = pool(x, 4, True)
        return unpool(y * 2, indices, x.shape)

    y, indices = theirs(n)(x, 4, return_indices=True)
    expected = unpooled(2 * y, indices, x.shape[2:])
    compiled = torch.compile(both, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), expected)
    assert torch.equal(torch.export.export(Module(both), (x,)).module()(x), expected)
    assert torch.equal(torch.jit.trace(both, x)(x), expected)
    assert torch.equal(torch.vmap(both)(x), expected)
    leaf = x.clone().requires_grad_()
    both(leaf).square().sum().backward()
    torch.testing.assert_close(torch.func.grad(lambda x: both(x).square().sum())(x), leaf.grad)
    assert both(x.to("meta")).shape == x.shape
    with pytest.raises(ValueError, match="indices must have the shape of input"):
        torch.vmap(lambda y: unpool(y, indices[0, ..., 1:], x.shape))(y)
    with pytest.raises(TypeError, match="indices must be of integers"):
        torch.vmap(lambda y: unpool(y, y, x.shape))(y)


class Module(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def test_subclasses_receive_the_functions():
    seen = []

    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            seen.append(function)
            return super().__torch_function__(function, types, args, kwargs or {})

    x = torch.rand(1, 2, 9, 9).as_subclass(Mine)
    y, indices = ct.adaptive_max_pool2d(x, 4, True)
    assert type(ct.adaptive_max_unpool2d(y, indices, x.shape)) is Mine
    assert {ct.adaptive_max_pool2d, ct.adaptive_max_unpool2d} <= {*seen}


def test_profilers_show_calls_and_gradients(ours):
    x = torch.rand(1, 64, 50, 50, requires_grad=True)
    with torch.profiler.profile() as profile:
        y, indices = ct.adaptive_max_pool2d(x, 7, True)
        ct.adaptive_max_unpool2d(y, indices, x.shape).sum().backward()
    names = {event.name for event in profile.events()}
    assert {f"cunpool::adaptive_max_{kind}" for kind in ("pool", "unpool", "pool_backward", "unpool_backward")} <= names


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (TypeError, "input must be a torch.Tensor, got ndarray", lambda x, i: ct.adaptive_max_pool2d(x.numpy(), 2)),
        (ValueError, "output_size must be at least 0", lambda x, i: ct.adaptive_max_pool2d(x, -2)),
        (TypeError, "return_indices must be True or False", lambda x, i: ct.adaptive_max_pool2d(x, 2, 5)),
        (ValueError, "input must have 3 or 4 axes", lambda x, i: ct.adaptive_max_pool2d(x[0, 0], 2)),
        (IndexError, "index 99 .*; output_size has", lambda x, i: ct.adaptive_max_unpool2d(x, i + 99, (9, 9))),
        (ValueError, "output_size must have 2 entries", lambda x, i: ct.adaptive_max_unpool2d(x, i, (9,))),
        (TypeError, "indices must be of integers", lambda x, i: ct.adaptive_max_unpool2d(x, x, (9, 9))),
    ],
)
def test_errors(error, message, call):
    with pytest.raises(error, match=message):
        call(torch.rand(1, 2, 4, 4), torch.zeros(1, 2, 4, 4, dtype=torch.int64))


@pytest.mark.filterwarnings("ignore:`torch.jit")
@pytest.mark.parametrize("n", [1, 2, 3])
def test_modules(ours, n):
    pool, unpool = (getattr(ct, f"AdaptiveMax{kind}{n}d") for kind in ("Pool", "Unpool"))
    x = torch.randn(2, 3, *(9, 8, 7)[:n])
    module, expected = pool(4, True), theirs(n)(x, 4, return_indices=True)
    assert isinstance(module, getattr(nn, f"AdaptiveMaxPool{n}d"))
    assert repr(module) == f"AdaptiveMaxPool{n}d(output_size=4)"
    for result, wanted in zip(pickle.loads(pickle.dumps(module))(x), expected, strict=True):
        assert torch.equal(result, wanted)
    assert torch.equal(unpool()(*expected, x.shape), unpooled(*expected, x.shape[2:]))
    for each in (module, unpool()):
        with pytest.raises(RuntimeError, match=r"torch.jit.script cannot compile modules that cunpool computes"):
            torch.jit.script(each)


def test_accelerated_networks(ours, capsys):
    net = nn.Sequential(nn.Conv2d(1, 40, 3), nn.AdaptiveMaxPool2d((7, None)), nn.AdaptiveMaxPool2d((3,)))
    x = torch.rand(2, 1, 40, 40)
    expected = net[:2](x)
    assert ct.accelerate(net, verbose=True) is net
    said = capsys.readouterr().out
    assert said.startswith(
        "replaced: 1 AdaptiveMaxPool2d\nleft: 2 (AdaptiveMaxPool2d): output_size must be an integer or"
    )
    assert type(net[1]) is nn.AdaptiveMaxPool2d
    assert repr(net[1]) == "AdaptiveMaxPool2d(output_size=(7, None), by cunpool)"
    assert torch.equal(copy.deepcopy(net)[:2](x), expected)
    assert net[1](x.to("meta")).shape == (2, 1, 7, 40)
    own = nn.Sequential(ct.AdaptiveMaxPool2d(3))
    ct.accelerate(own, index_format="window")
    assert "forward" not in vars(own[0])
    ct.restore(nn.ModuleList([net, own]))
    assert type(own[0]) is nn.AdaptiveMaxPool2d
    assert "forward" not in vars(net[1])
    assert torch.equal(net[:2](x), expected)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_patched(n, monkeypatch):
    served = []
    serve = _adaptive.adaptive_max_pool
    monkeypatch.setattr(_adaptive, "adaptive_max_pool", lambda *given: served.append(given[0]) or serve(*given))
    x = torch.randn(2, 8, *{1: (2000,), 2: (60, 62), 3: (22, 24, 26)}[n], requires_grad=True)
    results = []
    for scope in (torch.enable_grad(), ct.patched()):
        with scope:
            y, indices = theirs(n)(x, 5, return_indices=True)
            values = getattr(nn, f"AdaptiveMaxPool{n}d")(5)(x)
        results.append((y, indices, values, *torch.autograd.grad(y.sum() + values.square().sum(), x)))
    assert served == [n, n]
    for result, expected in zip(*results, strict=True):
        assert torch.allclose(result, expected)
    with ct.patched():
        theirs(n)(torch.rand(2, *(5,) * n), 2)  # small
        theirs(n)(x.detach().requires_grad_(), [5] * n)
        torch.vmap(lambda x: theirs(n)(x, 5))(x)
        with pytest.raises((RuntimeError, TypeError), match=r"output_size|negative|greater"):
            theirs(n)(x, (-5,) * n)
        assert theirs(n)(x[:0], 5).shape[0] == 0
        with torch.autocast("cpu"):
            theirs(n)(x.detach().bfloat16(), 5)
    assert served == [n, n, n, n]


def test_a_forked_child_leaves_nothing_to_pytorch(monkeypatch):
    x = torch.rand(1, 1, 5, 5)
    assert _adaptive.is_theirs(2, x)
    monkeypatch.setattr("cunpool.torch._adaptive._runtime.forked", lambda: True)
    assert not _adaptive.is_theirs(2, x)
    assert not _adaptive.is_theirs(2, x.long())
    assert x.numel() < _eager.LEAST
