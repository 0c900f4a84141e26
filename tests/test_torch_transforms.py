"""A table of contexts: who transforms a call, in which engine, small or large. The results are PyTorch's own.

Small calls are served by PyTorch's operators, large ones by cunpool's kernels, and nobody should be able to tell.
"""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")
import cunpool.torch as ct  # noqa: E402

pytestmark = pytest.mark.slow

F = torch.nn.functional
forward_ad = torch.autograd.forward_ad
SIZES = {"small": (1, 2, 6, 8), "large": (1, 8, 96, 100)}


@pytest.fixture(autouse=True)
def settled():
    """The same numbers in every test, nothing compiled before, and no warnings of PyTorch about itself."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    with warnings.catch_warnings():
        for message in (".*torch.jit", ".*isinstance.treespec", "There is a performance drop", "A model attribute"):
            warnings.filterwarnings("ignore", message=message)
        yield


class Net(torch.nn.Module):
    """Pooled, smoothed, unpooled."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = torch.nn.MaxPool2d(2, return_indices=True)
        self.smooth = torch.nn.MaxPool2d(3, 1, 1)
        self.unpool = torch.nn.MaxUnpool2d(2)

    def forward(self, x):
        y, indices = self.pool(x.square())
        return self.unpool(self.smooth(y), indices, output_size=x.shape[-2:])


def operation(name, library, shape):
    """A function of one tensor, computed by `library`, and an input of about `shape`."""
    if name == "network":
        net = Net()
        return (net if library is F else ct.accelerate(net)), torch.randn(shape)
    if name.startswith("max_pool"):
        n = int(name[8])
        x = torch.randn(*shape[: 1 + n], *(() if n > 1 else shape[3:])) if n < 3 else torch.randn(1, 2, *shape[1:])
        pool = getattr(library, name[:10])
        if name.endswith("indices"):
            return lambda x: pool(x, 3, 2, 1, return_indices=True)[0], x
        return lambda x: pool(x, (3,) * n, 2, 1, 1, True), x
    n = int(name[10])
    x = torch.randn(*shape[:2], *{1: (240,), 2: shape[2:], 3: (2, *shape[2:])}[n])
    y, indices = getattr(F, f"max_pool{n}d")(x, 2, return_indices=True)
    unpool = getattr(library, name)
    return lambda y: unpool(y, indices, 2, output_size=x.shape[-n:]), y


def line(f, x, v, square=False):
    """`f` along two directions: a function of two numbers."""

    def along(s):
        y = f(x * s[0] + v * s[1])
        return y.square().sum() if square else y

    return along


INSIDE = {
    "jvp": lambda f, x, v, s: torch.func.jvp(f, (x,), (v,)),
    "jacfwd": lambda f, x, v, s: torch.func.jacfwd(line(f, x, v))(s),
    "jacrev": lambda f, x, v, s: torch.func.jacrev(lambda s: line(f, x, v)(s).flatten()[:30])(s),
    "grad": lambda f, x, v, s: torch.func.grad(lambda x: (f(x).square()).sum())(x),
    "vmap": lambda f, x, v, s: torch.vmap(f)(torch.stack([x, v])),
    "vmap of grad": lambda f, x, v, s: torch.vmap(torch.func.grad(lambda x: f(x).square().sum()))(torch.stack([x, v])),
    "hessian": lambda f, x, v, s: torch.func.hessian(line(f, x, v, square=True))(s),
}
OPERATIONS = ("max_pool2d", "max_pool2d indices", "max_unpool2d", "network")
OTHERS = ("max_pool1d", "max_pool1d indices", "max_pool3d", "max_pool3d indices", "max_unpool1d", "max_unpool3d")


class Transformed(torch.nn.Module):
    """A transform as a module, which is what `torch.export` takes."""

    def __init__(self, transform, f) -> None:
        super().__init__()
        self.transform, self.f = transform, f

    def forward(self, x, v, s):
        return self.transform(self.f, x, v, s)


def in_engine(engine, transform, f, arguments):
    """The transform of `f`, where `engine` has compiled all of it."""
    if engine == "eager":
        return transform(f, *arguments)
    module = Transformed(transform, f)
    if engine == "export":
        results = torch.export.export(module, arguments).module()(*arguments)
        if any(type(result) is not torch.Tensor for result in flat(results)):
            raise RuntimeError("PyTorch has lost the numbers")  # as for any function, under some transforms
        return results
    return torch.compile(module, backend=engine.split()[-1], fullgraph=True)(*arguments)


def flat(results):
    results = results if isinstance(results, tuple | list) else [results]
    return [None if result is None else result.detach() for result in results]


def compare(call, name, size, context, reference="eager"):
    """The results of `call` in `context` are those of PyTorch's own functions in `reference`; or both are refused."""

    def outcome(library, context):
        torch.manual_seed(0)
        f, x = operation(name, library, SIZES[size])
        return flat(call(f, (x, torch.randn_like(x), torch.tensor([0.7, -1.3])), context))

    expected = outcome(F, reference)
    assert any(result.abs().sum() > 0 for result in expected)
    try:
        results = outcome(ct, context)
    except Exception as error:
        with pytest.raises(type(error)):
            outcome(F, context)
        return
    torch.testing.assert_close(results, expected, rtol=1e-4, atol=1e-4)


ENGINES = ("eager", "compiled eager", "compiled aot_eager", "export")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("transform", INSIDE)
@pytest.mark.parametrize("name", OPERATIONS + OTHERS)
def test_eager_transforms(name, transform, size):
    compare(lambda f, arguments, context: INSIDE[transform](f, *arguments), name, size, "eager")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("transform", INSIDE)
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("engine", ENGINES[1:])
def test_transforms_inside_of_what_is_compiled(engine, name, transform, size):
    def call(f, arguments, context):
        return in_engine(context, INSIDE[transform], f, arguments)

    compare(call, name, size, engine)


def dual(f, x, v, s):
    """The tangent of a call inside of a dual level."""
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(f(forward_ad.make_dual(x, v)))


AROUND = {"dual level": dual} | {name: INSIDE[name] for name in ("jvp", "grad", "vmap", "vmap of grad")}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("transform", AROUND)
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("engine", ENGINES[:3])
def test_transforms_around_what_is_compiled(engine, name, transform, size):
    def call(f, arguments, context):
        if context != "eager":
            f = torch.compile(f, backend=context.split()[-1])
            f(arguments[0])  # compiled once before anybody transforms it
        return AROUND[transform](f, *arguments)

    compare(call, name, size, engine)


class Wrapped(torch.Tensor):
    """A subclass that sees every operator, and has no memory of its own."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, strides=inner.stride())

    def __init__(self, inner) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), options=None):
        bare = torch.utils._pytree.tree_map_only(cls, lambda tensor: tensor.inner, (arguments, options or {}))
        return torch.utils._pytree.tree_map_only(torch.Tensor, cls, function(*bare[0], **bare[1]))


def batched(create_graph):
    def call(f, x, v, s):
        x = x.clone().requires_grad_()
        y = f(x)
        grads = torch.randn(3, *y.shape)
        (first,) = torch.autograd.grad(y, x, grads, is_grads_batched=True, create_graph=create_graph)
        return first

    return call


def batched_second(f, x, v, s):
    x = x.clone().requires_grad_()
    (first,) = torch.autograd.grad(f(x).square().sum(), x, create_graph=True)
    return torch.autograd.grad(first, x, torch.randn(3, *x.shape), is_grads_batched=True)


def batched_by_vmap(f, x, v, s):
    x = x.clone().requires_grad_()
    y = f(x)
    return torch.vmap(lambda grad: torch.autograd.grad(y, x, grad, retain_graph=True)[0])(torch.randn(3, *y.shape))


def dual_gradient(create_graph):
    def call(f, x, v, s):
        x = x.clone().requires_grad_()
        y = f(x)
        with forward_ad.dual_level():
            grad = forward_ad.make_dual(torch.randn(y.shape), torch.randn(y.shape))
            (result,) = torch.autograd.grad(y, x, grad, create_graph=create_graph)
            return forward_ad.unpack_dual(result)

    return call


def dual_second(f, x, v, s):
    x = x.clone().requires_grad_()
    (first,) = torch.autograd.grad(f(x).square().sum(), x, create_graph=True)
    with forward_ad.dual_level():
        grad = forward_ad.make_dual(torch.randn(x.shape), torch.randn(x.shape))
        return forward_ad.unpack_dual(torch.autograd.grad(first, x, grad)[0])


def zero_gradient(f, x, v, s):
    x = x.clone().requires_grad_()
    y = f(x)
    return torch.autograd.grad(y, x, torch._efficientzerotensor(y.shape))[0], y


def wrapped_gradient(f, x, v, s):
    x = x.clone().requires_grad_()
    y = f(x)
    (result,) = torch.autograd.grad(y, x, Wrapped(torch.randn(y.shape)))
    return result.inner


def wrapped(f, x, v, s):
    return f(Wrapped(x)).inner


def along_two(f, x, v, s, square=False):
    return lambda s: line(f, x, v, square)(s).reshape(-1)[:50]


functional = torch.autograd.functional
WATCHED = {
    "batched gradients": batched(False),
    "batched gradients with a graph": batched(True),
    "batched second gradients": batched_second,
    "vmap of autograd.grad": batched_by_vmap,
    "jacobian": lambda f, x, v, s: functional.jacobian(along_two(f, x, v, s), s, vectorize=True),
    "jacobian in forward mode": lambda f, x, v, s: functional.jacobian(
        along_two(f, x, v, s), s, vectorize=True, strategy="forward-mode"
    ),
    "hessian": lambda f, x, v, s: functional.hessian(line(f, x, v, True), s, vectorize=True),
    "hessian in forward mode": lambda f, x, v, s: functional.hessian(
        line(f, x, v, True), s, vectorize=True, outer_jacobian_strategy="forward-mode"
    ),
    "dual level": dual,
    "dual gradient": dual_gradient(False),
    "dual gradient with a graph": dual_gradient(True),
    "dual second gradient": dual_second,
    "gradient of zeros": zero_gradient,
    "gradient of a subclass": wrapped_gradient,
    "input of a subclass": wrapped,
}


# PyTorch's own pooling has no rule for batches of tangents; the same derivatives in reverse.
REFERENCES = {"jacobian in forward mode": "jacobian", "hessian in forward mode": "hessian"}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("context", WATCHED)
@pytest.mark.parametrize("name", OPERATIONS + OTHERS)
def test_watched_calls_and_gradients(name, context, size):
    def call(f, arguments, context):
        return WATCHED[context](f, *arguments)

    compare(call, name, size, context, REFERENCES.get(context, context))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", OPERATIONS + OTHERS)
def test_zeros_without_memory(name, size):
    f, x = operation(name, ct, SIZES[size])
    assert torch.equal(f(torch._efficientzerotensor(x.shape)), f(torch.zeros_like(x)))


@pytest.mark.parametrize("through", ["dual level", "jvp"])
@pytest.mark.parametrize("train", [False, True])
def test_operators_refuse_forward_mode(through, train):
    window = [2, 2], [2, 2], [0, 0], [1, 1]
    y, indices = torch.ops.cunpool.max_pool_with_indices(torch.rand(1, 1, 4, 4), *window, False)
    for call, shape in (
        (lambda x: torch.ops.cunpool.max_pool(x, *window, False), (1, 1, 4, 4)),
        (lambda x: torch.ops.cunpool.max_pool_with_indices(x, *window, False)[0], (1, 1, 4, 4)),
        (lambda y: torch.ops.cunpool.max_pool_backward(y, indices, [4, 4], *window), y.shape),
        (lambda y: torch.ops.cunpool.max_unpool(y, indices, *window), y.shape),
        (lambda x: torch.ops.cunpool.max_unpool_backward(x, indices, *window), (1, 1, 4, 4)),
    ):
        x = torch.rand(shape, requires_grad=train)
        transform = INSIDE["jvp"] if through == "jvp" else dual
        with pytest.raises(NotImplementedError, match=r"cunpool::max_\w+ has no forward-mode derivative"):
            transform(call, x, torch.rand(shape), None)
        with forward_ad.dual_level():
            assert call(x.detach()).sum() > 0  # without a tangent


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", OPERATIONS + OTHERS)
def test_batched_gradients_pass_gradcheck(name, size):
    f, x = operation(name, ct, SIZES[size])
    direction = torch.randn_like(x).double()
    s = torch.tensor([0.7, -1.3], dtype=torch.float64, requires_grad=True)

    def along(s):
        return f(x.double() * s[0] + direction * s[1]).reshape(-1)[:40]

    for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        assert check(along, s, check_batched_grad=True)
    assert torch.autograd.gradcheck(along, s, check_forward_ad=True)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("size", [4, 40])
def test_meta_tensors_have_pytorchs_shapes(n, size):
    meta = torch.rand(2, 3, *(size,) * n, device="meta", requires_grad=True)
    results = []
    for library in (ct, F):
        pool, unpool = getattr(library, f"max_pool{n}d"), getattr(library, f"max_unpool{n}d")
        y, indices = pool(meta, 3, 2, 1, 1, True, True)
        z = unpool(y, indices, 3, 2, 1, meta.shape)
        (grad,) = torch.autograd.grad(z.sum(), meta)
        results.append([(t.shape, t.dtype, t.device, t.stride()) for t in (y, indices, z, grad, pool(meta, 2))])
    assert results[0] == results[1]
    unpool, y = getattr(ct, f"max_unpool{n}d"), torch.rand(y.shape)
    with pytest.raises(ValueError, match=r"indices must be a tensor on the CPU, .*meta"):
        unpool(y, indices, 3, 2, 1)
