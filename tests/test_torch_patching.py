"""`patched`, `patch` and `unpatch`: which calls of PyTorch's functions cunpool serves, and that nobody else notices."""

from __future__ import annotations

import copy
import itertools
import pickle
import random
import re
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.nn.functional import max_pool2d as bound_early  # noqa: E402

import cunpool.torch as ct  # noqa: E402
from cunpool.torch import _adaptive, _eager, _patching  # noqa: E402

F = torch.nn.functional
nn = torch.nn
ORIGINALS = torch.max_pool2d, torch._C._nn.max_pool2d_with_indices, torch._C._nn.max_unpool3d


@pytest.fixture(autouse=True)
def settled():
    """The same numbers in every test, no warnings of PyTorch about itself, and no name that stays replaced."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        for message in (".*torch.jit", ".*isinstance.treespec", "There is a performance drop"):
            warnings.filterwarnings("ignore", message=message)
        warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)
        yield
    assert (torch.max_pool2d, torch._C._nn.max_pool2d_with_indices, torch._C._nn.max_unpool3d) == ORIGINALS
    assert (_patching._Counts.scopes, _patching._Counts.process, _patching._depth.get()) == (0, 0, 0)


@pytest.fixture
def served(monkeypatch):
    """The names of the calls that cunpool served."""
    names = []

    def recording(name, function):
        def call(n, *arguments):
            result = function(n, *arguments)
            names.append(f"{name}{n}d")
            return result

        return call

    for name in ("max_pool", "max_unpool"):
        monkeypatch.setattr(_eager, name, recording(name, getattr(_eager, name)))
    return names


def is_open() -> bool:
    return _patching._Counts.process > 0 or _patching._depth.get() > 0


def large(n, dtype=torch.float32):
    return torch.randn(2, 8, *{1: (20000,), 2: (160, 162), 3: (32, 34, 36)}[n]).to(dtype)


CALLS = {
    "pool": lambda x, n: getattr(F, f"max_pool{n}d")(x, 2),
    "pool with indices": lambda x, n: getattr(F, f"max_pool{n}d_with_indices")(x, (3,) * n, 2, 1)[1],
    "torch's pool": lambda x, n: getattr(torch, f"max_pool{n}d")(x, [2] * n, [1], padding=1, ceil_mode=True),
    "dilated": lambda x, n: getattr(F, f"max_pool{n}d")(x, 2, 2, 0, 2),
    "module": lambda x, n: getattr(nn, f"MaxPool{n}d")(3, 2, 1)(x),
    "unpool": lambda x, n: getattr(F, f"max_unpool{n}d")(
        *getattr(F, f"max_pool{n}d")(x, 2, return_indices=True), 2, output_size=x.shape[2:]
    ),
    "unpool module": lambda x, n: getattr(nn, f"MaxUnpool{n}d")(3, 2, 1)(
        *getattr(nn, f"MaxPool{n}d")(3, 2, 1, return_indices=True)(x), output_size=x.shape
    ),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("name", CALLS)
def test_large_calls_are_served_with_pytorchs_results(name, n, dtype, served):
    x = large(n, getattr(torch, dtype))
    expected = CALLS[name](x, n)
    assert not served
    with ct.patched():
        result = CALLS[name](x, n)
    unpooled = n if n > 1 else 2  # PyTorch calls the function for 2d
    assert served == [f"max_pool{n}d"] + [f"max_unpool{unpooled}d"] * name.startswith("unpool")
    assert (result.dtype, result.stride()) == (expected.dtype, expected.stride())
    assert torch.equal(result, expected)
    CALLS[name](x, n)
    assert len(served) <= 2


@pytest.mark.parametrize("name", ["pool", "module", "unpool", "unpool module"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_gradients_are_pytorchs(name, n, served):
    x = large(n).requires_grad_()
    grads = []
    for scope in (torch.enable_grad(), ct.patched()):
        with scope:
            y = CALLS[name](x, n)
        grads += torch.autograd.grad(y.square().sum(), x)
    torch.testing.assert_close(*grads)
    assert served


@pytest.mark.parametrize("last", [False, True])
def test_names_bound_early_and_channels_last(last, served):
    x = large(2).contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
    expected = bound_early(x, 3, 2, return_indices=True)
    with ct.patched():
        results = bound_early(x, 3, 2, return_indices=True)
    assert served == ["max_pool2d"]
    assert all(map(torch.equal, results, expected))
    assert results[0].stride() == expected[0].stride()


class Sub(torch.Tensor):
    pass


INDICES = torch.arange(200 * 200).view(1, 1, 200, 200)
DECLINED = {
    "small": lambda: F.max_pool2d(torch.ones(1, 1, 8, 8), 2),
    "small unpooling": lambda: F.max_unpool2d(torch.ones(1, 1, 8, 8), torch.arange(64).view(1, 1, 8, 8), 2),
    "integers": lambda: F.max_pool2d(torch.arange(10**6).view(1, 1, 1000, 1000), 2, return_indices=True),
    "empty": lambda: F.max_pool2d(torch.rand(0, 8, 100, 100), 2),
    "empty unpooling": lambda: F.max_unpool2d(torch.rand(0, 1, 9, 9), torch.zeros(0, 1, 9, 9, dtype=torch.int64), 2),
    "meta": lambda: F.max_pool2d(torch.rand(1, 8, 100, 100, device="meta"), 2).shape,
    "subclass": lambda: F.max_pool2d(torch.ones(1, 8, 100, 100).as_subclass(Sub), 2),
    "unpooling a subclass": lambda: F.max_unpool2d(torch.ones(1, 1, 200, 200).as_subclass(Sub), INDICES, 2),
    "indices of a subclass": lambda: F.max_unpool2d(torch.ones(1, 1, 200, 200), INDICES.as_subclass(Sub), 2),
    "out": lambda: torch._C._nn.max_pool2d_with_indices(
        torch.ones(1, 8, 200, 200), 2, out=(torch.empty(0), torch.empty(0, dtype=torch.int64))
    )[0],
    "a size of another type": lambda: torch.max_pool2d(torch.ones(1, 8, 200, 200), np.int64(2)),
    "ceil_mode is a number": lambda: torch.max_pool2d(torch.ones(1, 8, 200, 200), 2, ceil_mode=1),
    "no kernel_size": lambda: torch.max_pool2d(torch.ones(1, 8, 200, 200), []),
    "no arguments": lambda: torch.max_pool2d(),
    "no tensor": lambda: F.max_pool2d([1.0], 2),
    "unpooling no tensor": lambda: torch._C._nn.max_unpool2d([1.0], INDICES, [400, 400]),
    "3d, stride missing": lambda: torch._C._nn.max_unpool3d(torch.ones(1, 1, 200, 200), INDICES, [1, 400, 400]),
    "3d, stride of 0": lambda: torch._C._nn.max_unpool3d(
        torch.ones(1, 1, 200, 200), INDICES, [1, 400, 400], [1, 0, 2], [0, 0, 0]
    ),
    "one size": lambda: torch._C._nn.max_unpool2d(torch.ones(1, 1, 200, 200), INDICES, 400),
    "int32": lambda: F.max_unpool2d(torch.ones(1, 1, 200, 200), INDICES.int(), 2),
    "too small": lambda: torch._C._nn.max_unpool2d(torch.ones(1, 1, 200, 200), INDICES, [20, 20]),
    "a bad index": lambda: F.max_unpool2d(torch.ones(1, 1, 200, 200), INDICES + 160000, 2),
    "a mode": lambda: _in_a_mode(),
}


def _in_a_mode():
    with torch.overrides.BaseTorchFunctionMode():
        return torch.max_pool2d(torch.ones(1, 8, 200, 200), 2)


def outcome(call):
    """What a call returns, or what is to be seen of its error."""
    try:
        return call()
    except Exception as error:
        text = re.sub(r"index: -?\d+", "index", str(error))  # which one, PyTorch's threads decide
        return type(error), text.partition("\nException raised")[0], error.__context__


@pytest.mark.parametrize("name", DECLINED)
def test_everything_else_is_pytorchs(name, served):
    expected = outcome(DECLINED[name])
    with ct.patched():
        result = outcome(DECLINED[name])
    assert not served
    assert type(result) is type(expected)
    if torch.is_tensor(result):
        torch.testing.assert_close(result, expected)
    elif isinstance(result, tuple) and torch.is_tensor(result[0]):
        assert all(map(torch.equal, result, expected))
    else:
        assert result == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_autocast_casts_as_for_pytorch(n, dtype, served):
    x = large(n, dtype)
    for name in ("pool", "unpool"):
        results = []
        for scope in (torch.enable_grad(), ct.patched()):
            with torch.autocast("cpu", torch.bfloat16), scope:
                results.append(CALLS[name](x, n))
        assert results[0].dtype is results[1].dtype
        assert torch.equal(*results)


def test_unpooling_is_pytorchs_where_algorithms_have_to_be_deterministic(served):
    y, indices = F.max_pool2d(large(2), 2, return_indices=True)
    torch.use_deterministic_algorithms(True)
    try:
        with ct.patched(), pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
            F.max_unpool2d(y, indices, 2)
    finally:
        torch.use_deterministic_algorithms(False)


def test_random_calls_are_pytorchs(served, monkeypatch):
    """Sizes that fit and sizes that do not, of both operations."""
    monkeypatch.setattr(_patching, "FEW_UNPOOLED", 0)
    generator = random.Random(0)
    for _ in range(300):
        n = generator.choice((1, 2, 3))
        x = torch.randn(1, 4, *{1: (9000,), 2: (90, 91), 3: (20, 21, 22)}[n])
        window = generator.randint(1, 4), generator.choice((None, 1, 2, 3)), generator.randint(0, 3)
        rest = generator.choice((1, 1, 2)), generator.random() < 0.5
        size = [extent + generator.choice((-1, 0, 0, 1)) for extent in x.shape[2:]]
        outcomes = []
        for scope in (torch.enable_grad(), ct.patched()), (torch.enable_grad(), torch.enable_grad()):
            with scope[0], scope[1]:
                try:
                    y, indices = getattr(F, f"max_pool{n}d")(x, *window, *rest, return_indices=True)
                    outcomes.append([y, indices, getattr(F, f"max_unpool{n}d")(y, indices, *window, size)])
                except (RuntimeError, ValueError) as error:
                    text = re.sub(r"index: -?\d+", "index", str(error))  # which one, PyTorch's threads decide
                    outcomes.append(f"{type(error)}{text}".partition("\nException raised")[0])
        if isinstance(outcomes[0], str) or isinstance(outcomes[1], str):
            assert outcomes[0] == outcomes[1]
        else:
            for result, expected in zip(*outcomes, strict=True):
                assert result.shape == expected.shape
            assert all(map(torch.equal, *(results[:2] for results in outcomes)))
            first = indices.flatten(2).sort().values
            if not (first[..., 1:] == first[..., :-1]).any():  # of duplicates PyTorch's threads keep any
                assert torch.equal(outcomes[0][2], outcomes[1][2])
    assert len(served) > 150


def test_stray_indices_give_no_warning(served):
    y, indices = F.max_pool2d(large(2), 3, 2, 1, return_indices=True)
    with warnings.catch_warnings(), ct.patched():
        warnings.simplefilter("error")
        F.max_unpool2d(y, torch.arange(indices[0, 0].numel()).view_as(indices[0, 0]).expand_as(y), 3, 2, 1)
    assert served


def test_scopes_nest_and_close_after_errors():
    scope = ct.patched()
    with scope, scope, ct.patched():
        assert is_open()
        assert torch.max_pool2d is not ORIGINALS[0]
    with pytest.raises(KeyError), scope:
        raise KeyError
    assert not is_open()

    @ct.patched()
    def decorated():
        """Documented."""
        return is_open()

    assert decorated()
    assert decorated.__doc__ == "Documented."
    assert not is_open()


def test_a_scope_is_its_threads(served):
    x, barrier, seen = large(2), threading.Barrier(2, timeout=60), []

    def other():
        barrier.wait()
        F.max_pool2d(x, 2)  # PyTorch's: the scope is the main thread's
        seen.append(list(served))
        ct.patch()
        barrier.wait()
        barrier.wait()
        ct.unpatch()

    thread = threading.Thread(target=other)
    thread.start()
    with ct.patched():
        barrier.wait()
        barrier.wait()
    assert seen == [[]]
    F.max_pool2d(x, 2)  # for the whole process
    assert served == ["max_pool2d"]
    barrier.wait()
    thread.join()


def test_many_threads_open_and_close():
    def work():
        for _ in range(50):
            with ct.patched():
                assert torch.max_pool2d is not ORIGINALS[0]

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_patches_are_counted_and_can_be_undone_too_often(served):
    x = large(2)
    ct.patch()
    ct.patch()
    ct.unpatch()
    F.max_pool2d(x, 2)
    assert len(served) == 1
    with ct.patched():
        ct.unpatch()
        ct.unpatch()
        assert is_open()
    F.max_pool2d(x, 2)
    assert len(served) == 1


def test_a_name_that_somebody_else_replaced_stays_theirs(monkeypatch):
    def theirs(*arguments):
        return "theirs"

    with monkeypatch.context() as context:
        context.setattr(torch, "max_pool2d", theirs)
        with ct.patched():
            assert F.max_pool2d(large(2), 2) == "theirs"
        assert torch.max_pool2d is theirs
    try:
        with ct.patched():
            ours = torch.max_pool2d
            torch.max_pool2d = theirs
        assert torch.max_pool2d is theirs
    finally:
        torch.max_pool2d = ORIGINALS[0]
    x = large(2)
    assert torch.equal(ours(x, 2), F.max_pool2d(x, 2))  # kept by somebody, it is PyTorch's


class Net(nn.Module):
    def forward(self, x):
        y, indices = F.max_pool2d(x.square(), 2, return_indices=True)
        return F.max_unpool2d(F.max_pool2d(y, 3, 1, 1), indices, 2, output_size=x.shape[-2:])


# Who serves calls in which context: cunpool, or PyTorch as it does alone.
CONTEXTS = {
    "eager": (True, lambda x: Net()(x)),
    "inference mode": (True, lambda x: torch.inference_mode()(Net())(x).clone()),
    "no_grad": (True, lambda x: torch.no_grad()(Net())(x)),
    "autocast": (True, lambda x: torch.autocast("cpu", torch.bfloat16)(Net())(x)),
    "checkpoint": (
        True,
        lambda x: torch.utils.checkpoint.checkpoint(Net(), x.clone().requires_grad_(), use_reentrant=False).detach(),
    ),
    "deepcopy": (True, lambda x: copy.deepcopy(Net())(x)),
    "compiled eager": (True, lambda x: torch.compile(Net(), backend="eager", fullgraph=True)(x)),
    "compiled aot_eager": (False, lambda x: torch.compile(Net(), backend="aot_eager", fullgraph=True)(x)),
    "export": (False, lambda x: torch.export.export(Net(), (x,)).module()(x)),
    "strict export": (False, lambda x: torch.export.export(Net(), (x,), strict=True).module()(x)),
    "jit.trace": (False, lambda x: torch.jit.trace(lambda x: F.max_pool2d(x, 2), x, check_trace=False)(x)),
    "jit.script": (False, lambda x: torch.jit.script(typed)(x)),
    "fx": (True, lambda x: torch.fx.symbolic_trace(Net())(x)),
    "vmap": (False, lambda x: torch.vmap(lambda x: F.max_pool2d(x, 2))(x[None])),
    "grad": (False, lambda x: torch.func.grad(lambda x: Net()(x).square().sum())(x)),
    "functionalize": (False, lambda x: torch.func.functionalize(Net())(x)),
    "fake": (False, lambda x: torch.tensor(_fake(x).shape)),
}


def typed(x: torch.Tensor) -> torch.Tensor:
    y, indices = F.max_pool2d(x, 2, return_indices=True)
    return F.max_unpool2d(y, indices, [2, 2]) + F.max_pool2d(x, 3, 1, 1)


def _fake(x):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        return Net()(mode.from_tensor(x))


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTEXTS)
def test_contexts(name, served):
    is_ours, call = CONTEXTS[name]
    x = torch.randn(1, 8, 96, 100)
    torch._dynamo.reset()
    with ct.patched():
        result = call(x)
    assert bool(served) is is_ours
    served.clear()
    torch._dynamo.reset()
    torch.testing.assert_close(result, call(x), rtol=1e-4, atol=1e-4)
    assert not served


COMPILED_FIRST_INSIDE = """
import torch, cunpool.torch
F = torch.nn.functional
def f(x):
    return torch.max_pool2d(x, 2)
def g(x: torch.Tensor):
    return torch.max_pool2d(x, [2, 2])
x = torch.rand(1, 8, 96, 100)
with cunpool.torch.patched():
    inside = torch.compile(f, backend="aot_eager", fullgraph=True)(x)
    script = torch.jit.script(g)(x)
    trace = torch.fx.symbolic_trace(f)
torch._dynamo.reset()
assert torch.equal(torch.compile(f, backend="aot_eager", fullgraph=True)(x), inside)
assert torch.equal(torch.jit.script(g)(x), script)
assert torch.equal(trace(x), script) and "torch.max_pool2d(" in trace.code
"""


@pytest.mark.slow
def test_what_pytorch_builds_inside_holds_outside(tmp_path):
    script = tmp_path / "script.py"  # which scripting has to read
    script.write_text(COMPILED_FIRST_INSIDE)
    subprocess.run([sys.executable, "-W", "ignore", str(script)], check=True)


def test_replacements_are_pickled_by_the_names_of_the_originals():
    with ct.patched():
        text = pickle.dumps(torch.max_pool2d)
        assert pickle.loads(text) is torch.max_pool2d
    assert pickle.loads(text) is torch.max_pool2d


OPERATORS = [f"nn.functional.{kind}{n}d" for kind in ("max_pool", "max_unpool", "adaptive_max_pool") for n in (1, 2, 3)]


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_pytorchs_own_inputs_and_errors(name):
    invocations = pytest.importorskip("torch.testing._internal.common_methods_invocations")
    infos = [info for info in invocations.op_db if info.name == name]
    assert infos
    for info in infos:
        for sample in (info.error_inputs_func and info.error_inputs("cpu")) or ():
            given = sample.sample_input
            with ct.patched(), pytest.raises(sample.error_type, match=sample.error_regex):
                info(given.input, *given.args, **given.kwargs)
        for sample in itertools.islice(info.sample_inputs("cpu", torch.float32), 60):
            expected = info(sample.input, *sample.args, **sample.kwargs)
            with pytest.MonkeyPatch.context() as patch, ct.patched():
                patch.setattr(_eager, "LEAST", 0)  # the samples are small
                patch.setattr(_eager, "_are_few", lambda *_: False)
                patch.setattr(_patching, "FEW_UNPOOLED", 0)
                patch.setattr(_adaptive, "is_theirs", lambda *_: False)
                result = info(sample.input, *sample.args, **sample.kwargs)
            torch.testing.assert_close(result, expected)


class Pooled(torch.utils.data.Dataset):
    """Says with each item whether the scope is open in the worker."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i):
        x = torch.arange(8 * 160 * 160.0).view(1, 8, 160, 160) * (i + 1)
        return F.max_pool2d(x, 2)[0], is_open()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_loader(method):
    if method not in torch.multiprocessing.get_all_start_methods():
        pytest.skip("this system has no fork")
    expected = [Pooled()[i][0] for i in range(4)]
    with ct.patched():
        loader = torch.utils.data.DataLoader(Pooled(), num_workers=2, multiprocessing_context=method)
        items = list(loader)
    assert [bool(opened) for _, opened in items] == [method == "fork"] * 4  # what is spawned begins anew
    for (values, _), each in zip(items, expected, strict=True):
        assert torch.equal(values[0], each)


def simple_nms(scores, radius=4):
    """Non-maximum suppression as LightGlue and SuperPoint call it."""

    def max_pool(x):
        return F.max_pool2d(x, kernel_size=radius * 2 + 1, stride=1, padding=radius)

    zeros = torch.zeros_like(scores)
    max_mask = scores == max_pool(scores)
    for _ in range(2):
        suppressed = max_pool(max_mask.float()) > 0
        left = torch.where(suppressed, zeros, scores)
        max_mask = max_mask | ((left == max_pool(left)) & ~suppressed)
    return torch.where(max_mask, scores, zeros)


def test_non_maximum_suppression(served):
    scores = torch.rand(1, 256, 256)
    expected = simple_nms(scores)
    with ct.patched():
        assert torch.equal(simple_nms(scores), expected)
    assert served == ["max_pool2d"] * 5


class SegNet(nn.Module):
    """Pools and unpools by modules, whose gradients the explainers compute with the functions."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up, self.last = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 2, 3, padding=1), nn.Linear(2, 2)
        self.pool, self.small = nn.MaxPool2d(2, return_indices=True), nn.MaxPool2d(2)
        self.unpool = nn.MaxUnpool2d(2)

    def forward(self, x):
        y, indices = self.pool(self.down(x))
        return self.last(self.small(self.up(self.unpool(y, indices))).mean((2, 3)))


class Functional(SegNet):
    """The same, whose pooling for the unpooling is no module: the explainers have rules for one tensor alone."""

    def forward(self, x):
        y, indices = F.max_pool2d(self.down(x), 2, return_indices=True)
        return self.last(self.small(self.up(F.max_unpool2d(y, indices, 2))).mean((2, 3)))


@pytest.mark.slow
def test_captums_attributions(served):
    attr = pytest.importorskip("captum.attr")
    net, x, baseline = Functional().eval(), torch.randn(4, 1, 96, 96), torch.randn(4, 1, 96, 96)
    results = []
    for scope in (torch.enable_grad(), ct.patched()):
        with warnings.catch_warnings(), scope:
            warnings.simplefilter("ignore")
            results.append(attr.DeepLift(net).attribute(x, baseline, target=1))
    torch.testing.assert_close(*results)
    assert {"max_pool2d", "max_unpool2d"} == {*served}


@pytest.mark.slow
def test_shaps_attributions(served):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shap = pytest.importorskip("shap")
        net, x, background = Functional().eval(), torch.randn(2, 1, 96, 96), torch.randn(3, 1, 96, 96)
        results = []
        for scope in (torch.enable_grad(), ct.patched()):
            with scope:
                results.append(shap.DeepExplainer(net, background).shap_values(x, check_additivity=False))
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-7)
    assert {"max_pool2d", "max_unpool2d"} == {*served}
