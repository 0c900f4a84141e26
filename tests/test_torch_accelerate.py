"""`accelerate` and `restore`: whole networks, which are PyTorch's in every respect but for who computes."""

from __future__ import annotations

import copy
import inspect
import itertools
import pickle
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import cunpool.torch as ct  # noqa: E402
from cunpool.torch import _adaptive, _eager  # noqa: E402

F = torch.nn.functional
nn = torch.nn


@pytest.fixture(autouse=True)
def ours(monkeypatch):
    """The same numbers in every test, and cunpool's kernels at any size."""
    torch.manual_seed(0)
    monkeypatch.setattr(_eager, "LEAST", 0)
    monkeypatch.setattr(_eager, "_are_few", lambda input, count: False)


def is_accelerated(module) -> bool:
    return "by cunpool" in repr(module)


class SegNet(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        conv = torch.nn.Conv2d
        self.norm = torch.nn.BatchNorm2d(6)
        self.down = torch.nn.ModuleList([conv(3, 6, 3, padding=1), conv(6, 8, 3, padding=1)])
        self.up = torch.nn.ModuleList([conv(8, 6, 3, padding=1), conv(6, 2, 3, padding=1)])
        self.pool = torch.nn.MaxPool2d(2, return_indices=True)
        self.same_pool = self.pool
        self.smooth = torch.nn.MaxPool2d(3, stride=1, padding=1)
        self.unpool = torch.nn.MaxUnpool2d(2, stride=2)

    def forward(self, x):
        sizes, places = [], []
        for conv, pool in zip(self.down, (self.pool, self.same_pool), strict=True):
            x = torch.relu(conv(x))
            sizes.append(x.shape)
            x, indices = pool(self.norm(x) if x.shape[1] == 6 else x)
            places.append(indices)
        x = self.smooth(x)
        for conv in self.up:
            x = conv(self.unpool(x, places.pop(), output_size=sizes.pop()))
        return x


@pytest.mark.parametrize("last", [False, True])
def test_accelerate(last):
    fresh = SegNet()
    x = torch.randn(2, 3, 30, 35)
    if last:
        fresh, x = fresh.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    hooked = []
    fresh.pool.register_forward_hook(lambda *_: hooked.append(1))
    nets = [fresh, copy.deepcopy(fresh)]
    text, kinds = repr(fresh), [type(module) for module in fresh.modules()]
    pool = nets[1].pool
    assert ct.accelerate(nets[1]) is nets[1]
    assert ct.accelerate(nets[1]) is nets[1]
    assert repr(nets[1]).replace(", by cunpool", "") == text
    assert nets[1].pool is nets[1].same_pool is pool
    assert all(map(is_accelerated, (pool, nets[1].smooth, nets[1].unpool)))
    assert [type(module) for module in nets[1].modules()] == kinds
    assert not is_accelerated(fresh)
    outputs = []
    for net in nets:
        net.eval()
        with torch.no_grad():
            quiet = net(x)
        net.train()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            output = net(x)
            output.square().mean().backward()
            optimizer.step()
        outputs.append([quiet, output, *(p.grad for p in net.parameters()), *net.state_dict().values()])
        assert [m.training for m in net.modules()] == [True] * len([*net.modules()])
    assert len(hooked) == 12
    assert list(nets[0].state_dict()) == list(nets[1].state_dict())
    for result, expected in zip(outputs[1], outputs[0], strict=True):
        assert result.stride() == expected.stride()
        assert torch.equal(result, expected)
    nets[1].pool._forward_hooks.clear()
    again = pickle.loads(pickle.dumps(nets[1]))
    assert torch.equal(again.eval()(x), nets[1].eval()(x))


def test_what_accelerate_leaves_alone(capsys):
    class Mine(torch.nn.MaxPool2d):
        pass

    alone = torch.nn.MaxUnpool3d(2).eval()
    assert ct.accelerate(alone) is alone
    assert is_accelerated(alone)
    assert not alone.training
    short = torch.nn.MaxPool2d((2,))  # PyTorch takes it, cunpool does not
    net = torch.nn.Sequential(Mine(2), torch.nn.AvgPool2d(2), short, torch.nn.MaxPool2d((2, 2)))
    assert ct.accelerate(net, verbose=True) is net
    assert [*map(is_accelerated, net)] == [False, False, False, True]
    assert net(torch.rand(1, 1, 16, 16)).shape == (1, 1, 1, 1)
    assert capsys.readouterr().out.splitlines() == [
        "replaced: 1 MaxPool2d",
        "left: 0 (Mine): a subclass",
        "left: 2 (MaxPool2d): kernel_size must be an integer or have 2 entries, one per axis, got (2,); "
        "pass 2 for all axes",
    ]
    with pytest.warns(UserWarning, match=r"replaced nothing in Mine: the model itself \(Mine\): a subclass"):
        ct.accelerate(Mine(2), verbose=True)
    with pytest.warns(UserWarning, match="replaced nothing in ReLU: it has no modules of max pooling"):
        ct.accelerate(torch.nn.ReLU(), verbose=True)
    ct.accelerate(ct.MaxPool2d(2, index_format="window"), verbose=True)
    assert capsys.readouterr().out == (
        "replaced: nothing\nleft: the model itself (Mine): a subclass\n" + 2 * "replaced: nothing\n"
    )


def test_accelerate_takes_all_that_the_functions_take():
    x = torch.rand(1, 2, 8, 8)
    for pool in (
        nn.MaxPool2d([2, 2]), nn.MaxPool2d(np.int64(2)), nn.MaxPool2d(2, padding=[0, 0]),
        nn.MaxPool2d(2, np.array([2, 2])), nn.MaxPool2d(2, stride=torch.tensor([2, 2])),
        nn.MaxPool1d([2]), nn.MaxPool3d((1, 2, 2)),
    ):  # fmt: skip
        ours = ct.accelerate(copy.deepcopy(pool))
        assert is_accelerated(ours)
        given = x[0] if isinstance(pool, nn.MaxPool1d) else x
        assert ours(given).shape == (given.shape[:-1] if given.ndim == 3 else (*x.shape[:2], 4)) + (4,)
        assert not is_accelerated(ct.restore(ours))
        assert vars(ours).keys() == vars(pool).keys()
    for unpool in (nn.MaxUnpool2d([2, 2]), nn.MaxUnpool1d((2,)), nn.MaxUnpool2d(2, np.int64(2))):
        assert is_accelerated(ct.accelerate(unpool))


def test_restore_is_the_opposite_of_accelerate():
    net = SegNet()
    types = [type(module) for module in net.modules()]
    x = torch.randn(1, 3, 12, 12)
    expected = net.eval()(x)
    assert ct.restore(ct.accelerate(net)) is net
    assert [type(module) for module in net.modules()] == types
    assert torch.equal(ct.restore(net)(x), expected)
    assert repr(net) == repr(SegNet().eval())


def test_the_compiler_reads_a_short_description(monkeypatch):
    """It cannot trace PyTorch's own. What it traces is not counted as covered, so this test stands in for it."""
    module = ct.accelerate(torch.nn.MaxPool2d(3, 2))
    assert repr(module).startswith("MaxPool2d(kernel_size=3, stride=2, ")
    monkeypatch.setattr("cunpool.torch._forwards.is_dynamo_compiling", lambda: True)
    assert repr(module) == "MaxPool2d(by cunpool)"


def test_accelerate_with_window_codes():
    net = SegNet().eval()
    x = torch.randn(2, 3, 31, 34)
    expected = net(x)
    for first in (net, ct.accelerate(copy.deepcopy(net)), ct.accelerate(copy.deepcopy(net), index_format="window")):
        accelerated = ct.accelerate(first if first is not net else copy.deepcopy(net), index_format="window")
        assert repr(accelerated).count("by cunpool, index_format='window'") == 4
        assert torch.equal(accelerated(x), expected)
        assert accelerated.pool(x)[1].codes.dtype is torch.uint8
        again = pickle.loads(pickle.dumps(accelerated))
        assert torch.equal(again(x), expected)
    assert torch.equal(ct.accelerate(again).pool(x)[1], net.pool(x)[1])
    ct.accelerate(again, index_format="window")
    assert [type(module) for module in ct.restore(again).modules()] == [type(module) for module in net.modules()]
    large = ct.accelerate(torch.nn.MaxPool2d(300, return_indices=True), index_format="window")
    assert repr(large).endswith("by cunpool)")  # codes would not do


def test_codes_go_from_a_pooling_to_an_unpooling_alone():
    pool, unpool = torch.nn.MaxPool2d(2, return_indices=True), torch.nn.MaxUnpool2d(2)
    x = torch.rand(1, 2, 9, 8)
    y, places = pool(x)
    ct.accelerate(torch.nn.ModuleList([pool, unpool]), index_format="window")
    _, indices = pool(x)
    assert torch.equal(unpool(y, indices, x.shape), unpool(y, places, x.shape))
    assert torch.equal(unpool(y, indices, output_size=(9, 8)), F.max_unpool2d(y, places, 2, output_size=(9, 8)))
    for size in (None, (8, 8), (np.int64(8), 8), (torch.tensor(8), 8)):
        with pytest.raises(ValueError, match=r"the size \[9, 8\], and unpooling would give \[8, 8\]: pass output_size"):
            unpool(y, indices, size)
    with pytest.raises(
        ValueError, match=r"kernel_size .3, 3., .* cannot unpool with window codes from .*kernel_size .2"
    ):
        ct.accelerate(torch.nn.MaxUnpool2d(3, 2, 1), index_format="window")(y, indices)
    for use in (
        lambda: torch.gather(x.flatten(-2), -1, indices), lambda: torch.add(x, indices), lambda: indices.long(),
        lambda: F.max_unpool2d(y, indices, 2, output_size=(9, 8)), lambda: torch.cat([indices, indices]),
        lambda: indices.shape, lambda: ct.max_unpool2d(y, indices, 2), lambda: torch.nn.MaxUnpool2d(2)(y, indices),
    ):  # fmt: skip
        with pytest.raises((TypeError, AttributeError), match="straight to its unpooling"):
            use()
    for use in (lambda: indices + 1, lambda: y + indices):
        with pytest.raises(TypeError, match=r"unsupported operand .* 'WindowIndices'"):
            use()
    with pytest.raises(ValueError, match="indices must have the shape of input"):
        unpool(y[:, 1:], indices, x.shape)


def test_pickles_need_cunpool_until_the_network_is_restored():
    net = ct.accelerate(torch.nn.Sequential(torch.nn.MaxPool2d(2)), index_format="window")
    assert b"cunpool" in pickle.dumps(net)
    assert b"cunpool" not in pickle.dumps(ct.restore(net))


class Functional(nn.Module):
    """Calls functions of both kinds, one of them in a function of its own."""

    def forward(self, x):
        y, indices = F.max_pool2d(x, 2, return_indices=True)
        return (lambda: F.max_unpool2d(y, indices, 2))()


class Direct(nn.Module):
    """Calls cunpool's functions already."""

    def forward(self, x):
        return ct.max_pool2d(x, 2)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            Functional,
            "Functional calls functions, not modules: pass functional=True, or call cunpool.torch.max_pool2d, cu",
        ),
        (
            lambda: nn.Sequential(Functional(), Functional()),
            r"Sequential: Functional calls functions[^;]*, or the network inside cunpool.torch.patched\(\)$",
        ),
        (Direct, "Direct: it has no modules of max pooling or unpooling"),
        (lambda: torch.jit.script(nn.MaxPool2d(2)), "MaxPool2d is scripted or traced: accelerate the network before"),
        (lambda: torch.jit.trace(nn.MaxPool2d(2), torch.rand(1, 1, 4, 4)), "MaxPool2d is scripted or traced"),
    ],
)
def test_what_replaces_nothing_says_why(make, reason):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        model = make()
    with pytest.warns(UserWarning, match=f"accelerate replaced nothing in .*{reason}") as caught:
        ct.accelerate(model)
    assert caught[0].filename == __file__


def test_what_is_accelerated_already_does_not_warn(capsys):
    for model in (ct.accelerate(nn.MaxPool2d(2)), nn.Sequential(ct.MaxUnpool1d(2))):
        ct.accelerate(model, verbose=True)
    assert capsys.readouterr().out == 2 * "replaced: nothing\n"
    mixed = nn.Sequential(nn.MaxPool2d(2, return_indices=False), Functional())
    ct.accelerate(mixed, verbose=True)
    assert "left: Functional calls functions" in capsys.readouterr().out


@pytest.mark.parametrize("function", [ct.accelerate, ct.restore])
@pytest.mark.parametrize(
    ("model", "message"),
    [(SegNet, r"got the class SegNet: pass an instance, SegNet\(\)"), ("net", "torch.nn.Module, got str")],
)
def test_models_are_modules(function, model, message):
    with pytest.raises(TypeError, match=f"model must be a .*{message}"):
        function(model)


def test_a_forward_of_somebody_else_stays(capsys):
    pool = nn.MaxPool2d(2)
    pool.forward = theirs = lambda input: input + 1
    net = ct.accelerate(nn.Sequential(pool, nn.MaxPool2d(2)), verbose=True)
    assert capsys.readouterr().out.splitlines()[1] == "left: 0 (MaxPool2d): somebody else has replaced its forward"
    assert ct.restore(net)[0].forward is theirs


def test_restore_tells_what_it_restored(capsys):
    net = ct.accelerate(nn.Sequential(nn.MaxPool2d(2), ct.MaxPool2d(2), nn.MaxUnpool1d(2), nn.ReLU()))
    ct.restore(net, verbose=True)
    ct.restore(net, verbose=True)
    assert capsys.readouterr().out == "restored: 2 MaxPool2d, 1 MaxUnpool1d\nrestored: nothing\n"
    assert [type(module) for module in net] == [nn.MaxPool2d, nn.MaxPool2d, nn.MaxUnpool1d, nn.ReLU]


@pytest.mark.parametrize("index_format", ["plane", "window"])
def test_modules_of_cunpools_own(index_format):
    net = nn.ModuleList([ct.MaxPool2d(2, return_indices=True), ct.MaxUnpool2d(2)])
    x = torch.rand(1, 2, 8, 8)
    expected = net[1](*net[0](x))
    ct.accelerate(net, index_format="window")
    assert repr(net).count("by cunpool, index_format='window'") == 2
    assert torch.equal(net[1](*net[0](x)), expected)
    ct.accelerate(net, index_format=index_format)
    assert repr(net).count("by cunpool") == (2 if index_format == "window" else 0)
    assert torch.equal(net[1](*net[0](x)), expected)


def test_symbolic_traces_of_cunpools_modules_hand_codes():
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pool, self.unpool = ct.MaxPool2d(2, return_indices=True), ct.MaxUnpool2d(2)

        def forward(self, x):
            return self.unpool(*self.pool(x), output_size=x.shape[-2:])

    net = Both()
    trace = torch.fx.symbolic_trace(ct.accelerate(copy.deepcopy(net), index_format="window"))
    for x in (torch.rand(1, 2, 9, 8), torch.rand(1, 2, 6, 7)):
        assert torch.equal(trace(x), net(x))


@pytest.mark.slow
def test_transforms_may_ask_for_the_name_of_a_module():
    net, x = ct.accelerate(nn.Sequential(nn.MaxPool2d(2))), torch.rand(2, 1, 8, 8)
    assert torch.equal(torch.compile(lambda x: torch.vmap(net)(x), backend="eager", fullgraph=True)(x), net(x))


def copies(net):
    yield copy.deepcopy(net)
    yield pickle.loads(pickle.dumps(net))
    yield nn.DataParallel(net)
    yield net._replicate_for_data_parallel()


@pytest.mark.parametrize("index_format", ["plane", "window"])
def test_copies_compute_the_same(index_format):
    net = ct.accelerate(SegNet().eval(), index_format=index_format)
    x = torch.randn(1, 3, 20, 20)
    for each in copies(net):
        assert torch.equal(each(x), net(x))
        assert is_accelerated(each)
    for each in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert each.pool.forward.module is each.pool  # and reads the arguments of the copy
        each.pool.return_indices = False
        assert torch.is_tensor(each.pool(x))
        assert isinstance(net.pool(x), tuple)
        each.load_state_dict(net.state_dict())


def test_scripts_are_refused_with_a_remedy():
    net = ct.accelerate(nn.Sequential(nn.ReLU(), nn.MaxPool2d(2)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with pytest.raises(RuntimeError, match=r"use torch.jit.trace, or call cunpool.torch.restore\(net\)"):
            torch.jit.script(net)
        assert is_accelerated(net[1])
        x = torch.rand(1, 1, 9, 9)
        for compiled in (torch.jit.trace(net, x), torch.jit.script(ct.restore(net))):
            assert torch.equal(compiled(x), net(x))


def test_scripts_of_modules_are_refused_with_a_remedy():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        x = torch.rand(1, 1, 8, 8)
        inputs = {"MaxPool": (x,), "MaxUnpool": F.max_pool2d(x, 2, return_indices=True)}
        for n, kind in itertools.product((1, 2, 3), inputs):
            net = getattr(ct, f"{kind}{n}d")(2)
            for module in (net, nn.Sequential(net)):
                with pytest.raises(RuntimeError, match=r"use torch.jit.trace, or call cunpool.torch.restore\(net\)"):
                    torch.jit.script(module)
            if n == 2:
                expected = net(*inputs[kind])
                assert torch.equal(torch.jit.trace(net, inputs[kind])(*inputs[kind]), expected)
        assert torch.equal(torch.jit.script(ct.restore(ct.MaxPool2d(2)))(x), F.max_pool2d(x, 2))


@pytest.mark.parametrize("name", ["MaxPool2d", "MaxUnpool2d", "AdaptiveMaxPool2d"])
def test_other_devices_are_pytorchs(name):
    from torch._subclasses.fake_tensor import FakeTensorMode

    module = ct.accelerate(getattr(nn, name)(2))
    with FakeTensorMode():  # as if there were one
        x = torch.empty(1, 1, 4, 4, device="cuda")
        given = (x, torch.empty(x.shape, dtype=torch.int64, device="cuda")) if name == "MaxUnpool2d" else (x,)
        result = module(*given)
    assert result.device.type == "cuda"
    assert result.shape == ((1, 1, 8, 8) if name == "MaxUnpool2d" else (1, 1, 2, 2))


@pytest.mark.slow
@pytest.mark.parametrize("module", [nn.MaxPool2d(2), nn.MaxUnpool2d(2)])
def test_a_module_alone_is_exported_and_compiled(module):
    expected = inspect.signature(type(module).forward).parameters.keys() - {"self"}
    accelerated = ct.accelerate(copy.deepcopy(module))
    assert inspect.signature(accelerated.forward).parameters.keys() == expected
    x = torch.rand(1, 2, 8, 8)
    given = (x,) if isinstance(module, nn.MaxPool2d) else F.max_pool2d(x, 2, return_indices=True)
    for other in (
        torch.export.export(accelerated, given).module(),
        torch.export.export(accelerated, given, strict=True).module(),
        torch.compile(accelerated, backend="eager", fullgraph=True),
    ):
        assert torch.equal(other(*given), module(*given))


class Classifier(nn.Module):
    """Small enough for attributions, which are exact where pooling follows a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.pool, self.linear = nn.Conv2d(1, 3, 3), nn.MaxPool2d(2), nn.Linear(3 * 5 * 5, 2)

    def forward(self, x):
        return self.linear(self.pool(self.conv(x)).flatten(1))


@pytest.mark.slow
def test_captums_attributions_are_those_of_the_original():
    attr = pytest.importorskip("captum.attr")
    net, x, baseline = Classifier().eval(), torch.randn(4, 1, 12, 12), torch.randn(4, 1, 12, 12)
    results = []
    for each in (net, ct.accelerate(copy.deepcopy(net))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results.append(attr.DeepLift(each).attribute(x, baseline, target=1, return_convergence_delta=True))
    for given, expected in zip(*results, strict=True):
        torch.testing.assert_close(given, expected)
    assert results[1][1].abs().max() < 1e-5  # attributions add up to the difference of the results


@pytest.mark.slow
def test_shaps_attributions_are_those_of_the_original():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shap = pytest.importorskip("shap")
        net, x, background = Classifier().eval(), torch.randn(3, 1, 12, 12), torch.randn(5, 1, 12, 12)
        results = [
            shap.DeepExplainer(each, background).shap_values(x) for each in (net, ct.accelerate(copy.deepcopy(net)))
        ]
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-7)
    assert np.abs(results[0]).sum() > 0


class Calls(nn.Module):
    """Pools in the ways of public networks: by functions, in a module below, and by a module."""

    def __init__(self):
        super().__init__()
        self.conv, self.inner, self.pool = nn.Conv2d(1, 8, 3, padding=1), Functional(), nn.MaxPool2d(2)

    def forward(self, image, scale=1.0):
        y = F.adaptive_max_pool2d(self.conv(image), 61) * scale
        return self.pool(self.inner(y[..., :60, :60])) + F.max_pool2d(y[..., :60, :60], 2)


class Once(nn.Module):
    def forward(self, x):
        return F.max_pool2d(x, 2)


@pytest.fixture
def served(monkeypatch):
    """The name of each call that cunpool serves."""
    calls = []
    for module, name in ((_eager, "max_pool"), (_eager, "max_unpool"), (_adaptive, "adaptive_max_pool")):
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, _of=original, _name=name: calls.append(_name) or _of(*given))
    return calls


CALLED = ["adaptive_max_pool", "max_pool", "max_unpool", "max_pool", "max_pool"]


def test_functions_inside_a_network(served, capsys):
    net, x = Calls(), torch.rand(3, 1, 122, 122)
    expected = net(x)
    names, kinds = [*net.state_dict()], [*map(type, net.modules())]
    assert not served
    assert ct.accelerate(net, functional=True, verbose=True) is net
    ct.accelerate(net, functional=True)
    assert capsys.readouterr().out == "replaced: 1 MaxPool2d, functions of Calls\n"
    assert "functions by cunpool" in repr(net)
    assert torch.equal(net(x), expected)
    assert served == CALLED
    F.max_pool2d(x, 2)  # outside the network
    assert served == CALLED
    assert [*net.state_dict()] == names
    assert [*map(type, net.modules())] == kinds
    for copied in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        served.clear()
        assert torch.equal(copied(image=x, scale=1.0), expected)
        assert served == CALLED
        assert copied.forward.module is copied
        with torch.no_grad():
            copied.conv.weight.zero_()  # of the copy alone
    assert torch.equal(net(x), expected)
    with pytest.raises(RuntimeError):
        net(x[0, 0])
    served.clear()
    ct.restore(net, verbose=True)
    assert capsys.readouterr().out == "restored: 1 Calls, 1 MaxPool2d\n"
    assert torch.equal(net(x), expected)
    assert not served
    assert "cunpool" not in repr(net)


def test_the_compiler_sees_functions_of_pytorch(served, monkeypatch):
    """What it traces is not counted as covered, so this test stands in for it."""
    net, x = Calls().eval(), torch.rand(3, 1, 122, 122)
    expected = net(x)
    ct.accelerate(net, functional=True)
    monkeypatch.setattr("cunpool.torch._forwards.is_dynamo_compiling", lambda: True)
    assert "functions by cunpool" in repr(net)
    assert torch.equal(net(x), expected)
    assert served == ["max_pool"]  # of the module


def test_adaptive_pooling_on_other_devices_is_left_to_pytorch():
    pool = ct.accelerate(nn.AdaptiveMaxPool2d((4, None), return_indices=True))
    values, indices = pool(torch.empty(1, 2, 9, 11, device="meta"))
    assert values.shape == indices.shape == (1, 2, 4, 11)


def test_functions_of_compiled_exported_and_traced_networks(request):
    net, x = Calls().eval(), torch.rand(3, 1, 122, 122)
    expected = net(x)
    ct.accelerate(net, functional=True)
    assert torch.equal(torch.fx.symbolic_trace(net)(x), expected)
    assert torch.allclose(torch.compile(net, fullgraph=True, backend="aot_eager")(x), expected)
    for strict in (False, True):
        program = torch.export.export(net, (x,), strict=strict)
        assert [*program.graph_signature.user_inputs] == ["image"]
        assert torch.allclose(program.module()(x), expected)
        program = torch.export.export(net, (), {"image": x}, strict=strict)
        assert torch.allclose(program.module()(image=x), expected)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        once = ct.accelerate(Once(), functional=True)  # PyTorch cannot trace its unpooling
        assert torch.equal(torch.jit.trace(once, x)(x), F.max_pool2d(x, 2))
        with pytest.raises(RuntimeError, match=r"restore\(net\)"):
            torch.jit.script(net)
    served = request.getfixturevalue("served")  # a compiler would record it
    assert torch.equal(torch.vmap(once)(x), F.max_pool2d(x, 2))
    torch.func.grad(lambda x: net(x).sum())(x)
    net(x.requires_grad_()).sum().backward()
    assert served[-5:] == CALLED


def test_functions_that_are_not_served():
    pool = ct.accelerate(nn.MaxPool2d(2), functional=True)
    assert repr(pool).endswith("ceil_mode=False, by cunpool)")
    net = Functional()
    net.forward = lambda x: x
    with pytest.warns(UserWarning, match="functions of Functional: somebody else has replaced its forward"):
        ct.accelerate(net, functional=True)
    with pytest.raises(TypeError, match="functional must be True or False, got 'yes'"):
        ct.accelerate(net, functional="yes")
