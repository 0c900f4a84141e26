"""cunpool.torch where PyTorch looks on: operators, compilation, export, traces and transforms."""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import warnings

import pytest

torch = pytest.importorskip("torch")
import cunpool.torch as ct  # noqa: E402
from cunpool.torch import _eager, _operators  # noqa: E402

F = torch.nn.functional
SIZES = (8, 96)  # PyTorch's own pooling is faster for one of them
FORMATS = ("plane", "window")
LAST = {2: torch.channels_last, 3: torch.channels_last_3d}


@pytest.fixture(autouse=True)
def settled():
    """The same numbers in every test, and none of the warnings that PyTorch gives for its own sake."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    with warnings.catch_warnings():
        for message in (".*torch.jit", ".*isinstance.treespec", "There is a performance drop"):
            warnings.filterwarnings("ignore", message=message)
        yield


@contextlib.contextmanager
def nothing_left_to_pytorch():
    """Small calls go by cunpool's operators as large ones do."""

    def refuse(*_):
        raise AssertionError("left to PyTorch's own operator")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_eager, "THEIRS", dict.fromkeys((1, 2, 3), refuse))
        yield


class Net(torch.nn.Module):
    def __init__(self, sized: bool) -> None:
        super().__init__()
        self.sized = sized
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.pool = torch.nn.MaxPool2d(2, return_indices=True)
        self.smooth = torch.nn.MaxPool2d(3, 1, 1)
        self.unpool = torch.nn.MaxUnpool2d(2)

    def forward(self, x):
        x = self.conv(x)
        size = x.shape
        x, indices = self.pool(x)
        return self.unpool(self.smooth(x), indices, size if self.sized else None)


@pytest.fixture(params=[False, True], ids=["default size", "output_size"])
def nets(request):
    """A network, and the same with cunpool."""
    net = Net(request.param).eval()
    return net, ct.accelerate(copy.deepcopy(net))


@pytest.fixture
def handing(nets):
    """A network, and the same with cunpool and window codes."""
    return nets[0], ct.accelerate(copy.deepcopy(nets[0]), index_format="window")


def others(size, sized):
    """Inputs that a trace has not seen."""
    yield torch.randn(1, 3, size, size)
    yield torch.randn(3, 3, size + 2, size)
    if sized:
        yield torch.randn(2, 3, size + 1, size + 3)


@pytest.mark.parametrize("size", SIZES)
def test_jit_traces_follow_their_input(nets, size):
    net, accelerated = nets
    with nothing_left_to_pytorch(), warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        trace = torch.jit.trace(accelerated, torch.randn(1, 3, size, size), check_trace=False)
    file = io.BytesIO()
    torch.jit.save(trace, file)
    file.seek(0)
    again = torch.jit.load(file)
    for x in others(size, net.sized):
        assert torch.equal(trace(x), net(x))
        assert torch.equal(again(x), net(x))


def test_jit_traces_take_sizes_of_which_some_are_numbers():
    def halved(x):
        y, indices = ct.max_pool2d(x, 2, return_indices=True)
        return ct.max_unpool2d(y, indices, 2, output_size=(x.shape[-2], 9))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        trace = torch.jit.trace(halved, torch.randn(1, 3, 8, 9), check_trace=False)
    x = torch.randn(1, 3, 13, 9)
    assert torch.equal(trace(x), halved(x))


@pytest.mark.parametrize("size", SIZES)
def test_symbolic_traces_follow_their_input(nets, size):
    from torch.fx.experimental.proxy_tensor import make_fx

    net, accelerated = nets
    with nothing_left_to_pytorch():
        symbolic = torch.fx.symbolic_trace(accelerated)
        proxied = make_fx(accelerated, tracing_mode="real")(torch.randn(1, 3, size, size))
    for x in others(size, net.sized):
        assert torch.equal(symbolic(x), net(x))
    x = torch.randn(1, 3, size, size)
    assert torch.equal(proxied(x), net(x))


@pytest.mark.parametrize("size", SIZES)
def test_transforms_are_pytorchs(nets, size):
    x, tangent = torch.randn(2, 1, 3, size, size)
    many = torch.randn(3, 2, 3, size, size)
    derivatives = []
    for net in nets:
        weights = dict(net.named_parameters())

        def loss(weights, x, net=net):
            return torch.func.functional_call(net, weights, (x,)).square().mean()

        with nothing_left_to_pytorch():
            each = torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights, many)
            with torch.autograd.forward_ad.dual_level():
                dual = net(torch.autograd.forward_ad.make_dual(x, tangent))
                forward = torch.autograd.forward_ad.unpack_dual(dual)
            derivatives.append(
                [torch.func.grad(loss)(weights, x), each, torch.func.jvp(net, (x,), (tangent,)), *forward]
            )
    torch.testing.assert_close(*derivatives)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_batches_of_calls_are_pytorchs(n):
    x = torch.randn(3, 2, 4, *(9,) * n).double()
    pool, theirs = (getattr(where, f"max_pool{n}d") for where in (ct, F))
    unpool, their_unpool = (getattr(where, f"max_unpool{n}d") for where in (ct, F))
    for axis in (0, 1):
        y, indices = torch.vmap(lambda x: pool(x, 3, 2, 1, return_indices=True), in_dims=axis)(x)
        expected = torch.vmap(lambda x: theirs(x, 3, 2, 1, return_indices=True), in_dims=axis)(x)
        assert torch.equal(y, expected[0])
        assert torch.equal(indices, expected[1])
        for dims in ((0, 0), (0, None), (None, 0)):
            given = [t if dim == 0 else t[0] for t, dim in zip((y, indices), dims, strict=True)]
            z = torch.vmap(lambda y, i: unpool(y, i, 3, 2, 1), in_dims=dims)(*given)
            expected = [their_unpool(*(t[k] if dim == 0 else t for t, dim in zip(given, dims, strict=True)), 3, 2, 1)
                        for k in range(y.shape[0])]  # fmt: skip
            assert torch.equal(z, torch.stack(expected))
    single = torch.vmap(lambda x: pool(x, 3, 2, 1))(x[:, 0])  # (C, *spatial), without a batch of its own
    assert torch.equal(single, torch.stack([theirs(each, 3, 2, 1) for each in x[:, 0]]))
    with pytest.raises(ValueError, match="shape of input"):
        torch.vmap(lambda y: unpool(y, indices[0, ..., 1:], 3, 2, 1))(y)
    with pytest.raises(ValueError, match="output_size must have"):
        torch.vmap(lambda y: unpool(y, indices[0], 3, 2, 1, (9,) * (n + 3)))(y)
    for dtype in (torch.float32, torch.complex64, torch.bool):
        with pytest.raises(TypeError, match="indices must be of integers"):
            torch.vmap(lambda y, i: unpool(y, i, 3, 2, 1))(y, indices.to(dtype))
    y, indices = pool(x[:, 0], 3, 2, 1, return_indices=True)
    whole = torch.vmap(lambda y, i: unpool(y, i, 3, 2, 1, x.shape[2:]))(y, indices)  # with C, and no N
    assert torch.equal(whole, unpool(y, indices, 3, 2, 1, x.shape[-n:]))


def test_windows_without_a_cell_have_no_derivative():
    x = torch.rand(1, 6, 1, 1)
    window = 2, 1, 1, 2
    assert torch.equal(torch.func.grad(lambda x: ct.max_pool2d(x, *window).sum())(x), torch.zeros_like(x))


def test_modes_and_subclasses_see_the_call():
    class Mine(torch.Tensor):
        pass

    x = torch.rand(1, 3, 8, 8)
    assert type(ct.max_pool2d(x.as_subclass(Mine), 2)) is Mine
    indices = torch.zeros(1, 3, 8, 8, dtype=torch.int64)
    assert type(ct.max_unpool2d(x.as_subclass(Mine), indices, 2)) is Mine
    from torch._subclasses.fake_tensor import FakeTensorMode

    fake = FakeTensorMode().from_tensor(x)
    assert type(ct.max_pool2d(fake, 2)) is type(fake)
    assert ct.max_pool2d(fake, 2).shape == (1, 3, 4, 4)


def arguments(n, last):
    """Input, window and ceil mode of a pooling."""
    x = torch.randn(2, 3, *(9, 8, 7)[:n], requires_grad=True)
    if last:
        x = x.detach().contiguous(memory_format=LAST[n]).requires_grad_()
    return x, [[3, 2, 2][:n], [2, 2, 1][:n], [1, 0, 1][:n], [1, 2, 1][:n]]


@pytest.mark.parametrize(
    ("n", "last", "index_format"),
    [(1, False, "window"), *((n, last, "plane") for n in (2, 3) for last in (False, True)), (2, True, "window")],
)
def test_operators_are_what_pytorch_asks_of_them(n, last, index_format):
    x, window = arguments(n, last)
    torch.library.opcheck(_operators.max_pool, (x, *window, True))
    torch.library.opcheck(_operators.max_pool_with_indices, (x, *window, last, index_format))
    y, indices = _operators.max_pool_with_indices(x.detach(), *window, False, index_format)
    y.requires_grad_()
    torch.library.opcheck(_operators.max_pool_backward, (y, indices, x.shape[-n:], *window, index_format))
    torch.library.opcheck(_operators.max_unpool, (y, indices, *window, x.shape[-n:], index_format))
    torch.library.opcheck(_operators.max_unpool_backward, (x, indices, *window, index_format))
    if index_format == "plane":
        torch.library.opcheck(_operators.max_unpool, (y, indices % 9, *window))


@pytest.mark.parametrize("index_format", FORMATS)
def test_second_derivatives_of_operators(index_format):
    x = torch.randperm(2 * 36).double().reshape(1, 2, 6, 6).requires_grad_()
    window = [3, 2], [3, 4], [1, 0], [1, 2]  # no cell belongs to two windows
    y, indices = _operators.max_pool_with_indices(x.detach(), *window, False, index_format)

    def pooled(x):
        return _operators.max_pool(x, *window, False), _operators.max_pool_with_indices(x, *window, True)[0]

    def unpooled(y):
        return _operators.max_unpool(y, indices, *window, [6, 6], index_format).square()

    assert torch.autograd.gradcheck(pooled, x)
    assert torch.autograd.gradgradcheck(pooled, x)
    y.requires_grad_()
    assert torch.autograd.gradcheck(unpooled, y)
    assert torch.autograd.gradgradcheck(unpooled, y)
    assert torch.autograd.gradgradcheck(lambda g: _operators.max_unpool_backward(g, indices, *window, index_format), x)


def run(function, x, train):
    """Results, and the gradient if there is one."""
    x = x.detach().requires_grad_(train)
    results = function(x)
    results = results if isinstance(results, tuple) else (results,)
    if train:
        results[0].square().sum().backward()
    return [*(result.detach() for result in results), x.grad]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("n", "last"), [(1, False), (2, False), (2, True), (3, False), (3, True)])
def test_compiled_calls_are_eager_ones(n, last, dynamic):
    pool, unpool = getattr(ct, f"max_pool{n}d"), getattr(ct, f"max_unpool{n}d")
    first, window = arguments(n, last)

    def both(x):
        y, indices = pool(x, *window, return_indices=True)
        z = unpool(y, indices, *window[:3], x.shape, dilation=window[3])
        return z, indices, pool(x, *window, ceil_mode=True)

    compiled = torch.compile(both, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for x in (first, torch.randn(3, *first.shape[1:]), torch.randn(2, 3, *(12, 11, 10)[:n])):
        x = x.contiguous(memory_format=LAST[n]) if last else x
        for train in (False, True):
            for result, expected in zip(run(compiled, x, train), run(both, x, train), strict=True):
                assert (result is expected is None) or torch.equal(result, expected)
                assert result is None or result.stride() == expected.stride()


@pytest.mark.parametrize("last", [False, True])
def test_compiled_networks_are_eager_ones(nets, last):
    net, accelerated = nets
    x = torch.randn(2, 3, 24, 24)
    if last:
        x = x.to(memory_format=torch.channels_last)
        accelerated = accelerated.to(memory_format=torch.channels_last)
    for backend in ("aot_eager", "inductor")[: 2 - (last and net.sized)]:
        torch._dynamo.reset()
        compiled = torch.compile(accelerated, fullgraph=True, backend=backend)
        for train in (False, True):
            torch.testing.assert_close(run(compiled, x, train), run(net, x, train))
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), net(x))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
def test_exported_networks_are_eager_ones(nets, strict, dynamic):
    net, accelerated = nets
    auto = torch.export.Dim.AUTO
    shapes = {"x": {0: auto, 2: auto, 3: auto}} if dynamic else None
    program = torch.export.export(accelerated, (torch.randn(2, 3, 24, 24),), dynamic_shapes=shapes, strict=strict)
    names = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert [name for name in names if "cunpool" in name] == [
        "cunpool.max_pool_with_indices.default",
        "cunpool.max_pool.default" if not strict else "cunpool.max_pool_with_indices.default",
        "cunpool.max_unpool.default",
    ]
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    for module in (program.module(), torch.export.load(file).module(), program.run_decompositions().module()):
        for x in others(24, net.sized) if dynamic else [torch.randn(2, 3, 24, 24)]:
            assert torch.equal(module(x), net(x))


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("windows do not fit", lambda x: ct.max_pool2d(x, 99, padding=9)),
        ("padding must be at least 0", lambda x: ct.max_pool2d(x, 2, padding=-1)),
        ("kernel_size must be an integer or have 2", lambda x: ct.max_pool2d(x, (2,))),
        ("must have 2 or 3 axes", lambda x: ct.max_pool1d(x, 2)),
    ],
)
def test_what_does_not_fit_is_refused_by_the_compiler_too(message, call):
    with pytest.raises(Exception, match=message):
        torch.compile(call, fullgraph=True, backend="aot_eager")(torch.rand(1, 1, 8, 8))


@pytest.mark.parametrize("last", [False, True])
def test_networks_that_hand_codes_are_eager_ones(handing, last):
    net, accelerated = handing
    x = torch.randn(2, 3, 24, 24)
    x = x.to(memory_format=torch.channels_last) if last else x
    expected = run(net, x, True)
    for result, wanted in zip(run(accelerated, x, True), expected, strict=True):
        assert torch.equal(result, wanted)
    compiled = torch.compile(accelerated, fullgraph=True, backend="aot_eager")
    for train in (False, True):
        torch.testing.assert_close(run(compiled, x, train), run(net, x, train))
    program = torch.export.export(accelerated, (x,))
    assert torch.equal(program.module()(x), net(x))
    (pooled,) = [node for node in program.graph.nodes if "max_pool_with_indices" in str(node.target)]
    assert pooled.meta["val"][1].dtype is torch.uint8
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        trace = torch.jit.trace(accelerated, x, check_trace=False)
    symbolic = torch.fx.symbolic_trace(accelerated)
    for x in others(24, net.sized):
        assert torch.equal(trace(x), net(x))
        assert torch.equal(symbolic(x), net(x))
    torch.testing.assert_close(torch.vmap(accelerated)(x[:, None]), net(x)[:, None])
    gradients = [torch.func.grad(lambda x, each=each: each(x).square().sum())(x) for each in handing]
    torch.testing.assert_close(*gradients)


def test_other_sizes_of_what_was_pooled_are_refused_by_the_compiler_too():
    net = ct.accelerate(Net(False), index_format="window")
    with pytest.raises(Exception, match="pass output_size, the shape of what was pooled"):
        torch.compile(net, fullgraph=True, backend="aot_eager")(torch.randn(1, 3, 25, 24))


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_window_codes_under_transforms(n, dilation):
    x = torch.randn(3, 2, 4, *(9,) * n).double()
    pool, unpool = getattr(ct, f"max_pool{n}d"), getattr(ct, f"max_unpool{n}d")
    window, size = (3, 2, 1), (9,) * n
    codes = {"index_format": "window"}
    pool, unpool = functools.partial(pool, dilation=dilation), functools.partial(unpool, dilation=dilation)

    def both(x, **options):
        y, indices = pool(x, *window, return_indices=True, **options)
        return unpool(y, indices, *window, size, **options)

    assert torch.equal(torch.vmap(lambda x: both(x, **codes))(x), torch.vmap(both)(x))
    pooled = torch.vmap(lambda x: pool(x, *window, **codes))(x)
    assert torch.equal(pooled, torch.vmap(lambda x: pool(x, *window))(x))
    weights = torch.randn_like(x[0])
    gradients = [torch.func.grad(lambda x, o=o: (both(x, **o) * weights).sum())(x[0]) for o in ({}, codes)]
    assert torch.equal(*gradients)
    dual = [torch.func.jvp(lambda x, o=o: both(x, **o), (x[0],), (weights,))[1] for o in ({}, codes)]
    assert torch.equal(*dual)
    y, indices = pool(x[0], *window, return_indices=True, **codes)
    with pytest.raises(IndexError, match="code"):
        torch.vmap(lambda y, i: unpool(y, i, *window, size, **codes))(y, indices + 100)


@pytest.mark.parametrize("kernel", [(256, 1), (16, 16), (17, 17)])
def test_window_codes_of_many_cells_under_transforms(kernel):
    x = torch.randn(2, 3, 300, 40)
    pool = ct.max_pool2d
    assert torch.equal(torch.vmap(lambda x: pool(x, kernel, index_format="window"))(x), pool(x, kernel))
    gradients = [torch.func.grad(lambda x, f=f: pool(x, kernel, index_format=f).sum())(x) for f in ("plane", "window")]
    assert torch.equal(*gradients)


def test_subclasses_are_told_of_index_format():
    class Mine(torch.Tensor):
        pass

    x = torch.rand(1, 3, 8, 8)
    y, indices = ct.max_pool2d(x.as_subclass(Mine), 2, return_indices=True, index_format="window")
    assert indices.dtype is torch.uint8
    z = ct.max_unpool2d(y, indices, 2, index_format="window")
    assert type(z) is Mine
    far, codes = ct.max_pool2d(x.as_subclass(Mine), 2, 1, dilation=2, return_indices=True, index_format="window")
    assert ct.max_unpool2d(far, codes, 2, 1, dilation=2, index_format="window").shape == x.shape
    assert torch.equal(z.as_subclass(torch.Tensor), F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2))
