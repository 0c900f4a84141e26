"""Random calls of `cunpool.torch`, compared with PyTorch: sizes on both sides of every size that picks a method there.

    python tests/fuzz_torch.py --cases 300 --seed 7       # so many cases; the first difference ends it
    python tests/fuzz_torch.py --seed 7 --case 123        # that one again

The cases run in a process of their own, so that one that kills it, or hangs, is named too. At the end it says how often
each side of each condition was met, and fails where one never was.
"""

from __future__ import annotations

import argparse
import copy
import faulthandler
import math
import os
import subprocess
import sys
import tempfile
from collections import Counter

import numpy as np
import torch

import cunpool.torch as ct
from cunpool.torch import _eager, _tensors

F = torch.nn.functional
FLOATS = (torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
REFUSALS = (TypeError, ValueError, IndexError, OverflowError)
# Sizes of inputs where another way may be taken: what is left to PyTorch, and what gets a second thread.
EDGES = sorted({_eager.LEAST, _tensors.SMALL, *(edge for pair in _eager.FEW.values() for edge in pair)})
LAYOUTS = ("contiguous", "channels last", "any order", "sliced", "expanded", "negated")
FORMS = ("int", "tuple", "list", "numpy", "array", "tensor", "iterator", "none")
SECONDS = 60

met: Counter[str] = Counter()


class Difference(Exception):
    """What came out is not what should have."""


def hold(condition, what: str) -> None:
    if not condition:
        raise Difference(what)


def one_of(rng, choices):
    return choices[int(rng.integers(len(choices)))]


def bits(tensor) -> tuple:
    """Equal for equal shapes, dtypes and bits, but for the bits of NaNs."""
    tensor = tensor.detach().contiguous().resolve_neg()
    if tensor.is_floating_point():
        tensor = torch.where(tensor.isnan(), torch.nan, tensor)
        tensor = tensor.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()])
    return tuple(tensor.shape), tensor.dtype, tensor.numpy().tobytes()


def formed(rng, value):
    """A size in some form of argument that means the same."""
    form = one_of(rng, FORMS)
    uniform = len({*value}) == 1
    met[f"form {form}"] += 1
    if form == "int" and uniform:
        return value[0]
    if form == "numpy" and uniform:
        return np.int64(value[0])
    if form == "iterator":
        return iter(value)
    makers = {"list": list, "array": np.array, "tensor": torch.tensor, "numpy": lambda v: tuple(map(np.int32, v))}
    return makers.get(form, tuple)(value)


class Case:
    """A geometry, its input, and the same in plain words."""

    def __init__(self, rng) -> None:
        self.n = n = int(rng.integers(1, 4))
        while True:
            dilated = rng.random() < 0.25
            self.kernel = self.each(rng, 1, one_of(rng, (2, 3, 5, 12)))
            self.stride = None if rng.random() < 0.3 else self.each(rng, 1, 5)
            self.padding = tuple(int(rng.integers(0, k // 2 + 1)) for k in self.kernel)
            self.dilation = self.each(rng, 1, 3) if dilated else (1,) * n
            self.ceil = bool(rng.integers(2))
            # As many elements as an edge, a few more or fewer, or any number of them.
            count = one_of(rng, EDGES) if rng.random() < 0.6 else int(math.exp(rng.uniform(0, math.log(EDGES[-1]))))
            self.shape = self.sized(rng, min(count, 1 << 19))
            room = [s + 2 * p - d * (k - 1) for s, p, d, k in zip(
                self.shape[-n:], self.padding, self.dilation, self.kernel, strict=True)]  # fmt: skip
            if min(room) >= 1:
                break
        self.dtype = one_of(rng, INTEGERS if rng.random() < 0.15 else FLOATS)
        self.layout = one_of(rng, LAYOUTS)
        self.x = self.laid_out(rng, self.numbers(rng))
        count = self.x.numel()
        for edge in EDGES:
            met[f"{'below' if count < edge else 'at or above'} {edge}"] += 1
        met[f"layout {self.layout}"] += 1
        met[f"{'dilated' if math.prod(self.dilation) > 1 else 'not dilated'}"] += 1

    def each(self, rng, low, high) -> tuple[int, ...]:
        if rng.random() < 0.5:
            return (int(rng.integers(low, high + 1)),) * self.n
        return tuple(rng.integers(low, high + 1, self.n).tolist())

    def sized(self, rng, count: int) -> tuple[int, ...]:
        """A shape of about `count` elements: of so many exactly, or one row more or fewer."""
        batch = one_of(rng, (1, 1, 2, 3)) if rng.random() < 0.7 else None
        channels = min(one_of(rng, (1, 1, 3, 8, 64)), max(1, count // 4))
        rest = max(1, count // (channels * (batch or 1)))
        sizes = []
        for axis in range(self.n - 1):
            side = max(1, round(rest ** (1 / (self.n - axis)) * math.exp(rng.uniform(-1, 1))))
            sizes.append(side)
            rest = max(1, rest // side)
        sizes.append(max(1, rest + one_of(rng, (-1, 0, 0, 1))))
        return (*(() if batch is None else (batch,)), channels, *sizes)

    def numbers(self, rng):
        """Many ties, and in floats NaN, infinities, and whole inputs of minus infinity."""
        low = 0 if self.dtype is torch.uint8 else -3
        x = torch.from_numpy(rng.integers(low, 4, self.shape)).to(self.dtype)
        if self.dtype.is_floating_point:
            kind = rng.random()
            if kind < 0.1:
                x.fill_(-torch.inf)
            elif kind < 0.4:
                x[torch.from_numpy(rng.random(self.shape) < 0.05)] = one_of(rng, (torch.nan, torch.inf, -torch.inf))
        return x

    def laid_out(self, rng, x):
        last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.ndim)
        if self.layout == "channels last" and last and x.ndim == self.n + 2:
            return x.contiguous(memory_format=last)
        if self.layout == "any order":
            order = rng.permutation(x.ndim).tolist()
            return x.permute(order).contiguous().permute(np.argsort(order).tolist())
        if self.layout == "sliced":
            wide = x.new_zeros([*x.shape[:-1], 2 * x.shape[-1]])
            wide[..., ::2] = x
            return wide[..., ::2]
        if self.layout == "expanded":
            return x[:1].expand(x.shape)
        if self.layout == "negated" and self.dtype.is_floating_point:
            return torch._neg_view(x)
        return x

    def window(self, rng):
        """The arguments, in any form."""
        stride = self.stride if self.stride is None else formed(rng, self.stride)
        return formed(rng, self.kernel), stride, formed(rng, self.padding), formed(rng, self.dilation), self.ceil

    def plain(self):
        return self.kernel, self.stride, self.padding, self.dilation, self.ceil

    def __repr__(self) -> str:
        return f"{self.n}d {self.shape} {self.x.stride()} {self.layout} {self.dtype} {self.plain()}"


def empty_window(case: Case) -> bool:
    """Whether dilation leaves some window without a cell, or only with indices of which PyTorch makes nothing."""
    return math.prod(case.dilation) > 1 and any(case.padding)


def leaf(x, needs_grad: bool):
    return x.detach().requires_grad_(needs_grad)


def pooling(rng) -> None:
    """Pooling, both its gradients, and unpooling what came out."""
    case = Case(rng)
    n, what = case.n, repr(case)
    pool, theirs = (getattr(where, f"max_pool{n}d") for where in (ct, F))
    train = case.dtype.is_floating_point and rng.random() < 0.7
    mine, other = leaf(case.x, train), leaf(case.x.clone(memory_format=torch.contiguous_format), train)
    y, indices = pool(mine, *case.window(rng), return_indices=True)
    expected_y, expected = theirs(other, *case.plain(), return_indices=True)
    hold(bits(y) == bits(expected_y), f"values: {what}")
    hold(bits(indices) == bits(expected), f"indices: {what}")
    hold(bits(pool(mine, *case.window(rng))) == bits(expected_y), f"values alone: {what}")
    hold(y.requires_grad == train, f"requires_grad: {what}")
    met["training" if train else "inference"] += 1
    if train and not empty_window(case):
        grad = torch.from_numpy(rng.integers(-9, 10, y.shape)).to(case.dtype)
        if rng.random() < 0.3 and grad.ndim > 2:
            grad = grad.transpose(0, 1).contiguous().transpose(0, 1)
        graph = bool(rng.random() < 0.3)
        met[f"create_graph {graph}"] += 1
        (given,) = torch.autograd.grad(y, mine, grad, create_graph=graph)
        (wanted,) = torch.autograd.grad(expected_y, other, grad.contiguous())
        hold(bits(given) == bits(wanted), f"gradient, create_graph {graph}: {what}")
    if not empty_window(case):
        unpooling(rng, case, y.detach(), indices)


def unpooling(rng, case: Case, y, indices) -> None:
    n, full, what = case.n, case.shape[-case.n :], repr(case)
    unpool = getattr(ct, f"max_unpool{n}d")
    stride = case.kernel if case.stride is None else case.stride
    size = one_of(rng, (full, case.shape, torch.Size(full), np.array(full)))
    given = indices.to(one_of(rng, (torch.int64, torch.int32)))
    arguments = formed(rng, case.kernel), formed(rng, stride), formed(rng, case.padding)
    dilation = formed(rng, case.dilation)
    train = y.is_floating_point() and rng.random() < 0.5
    mine = leaf(y, train)
    try:
        z = unpool(mine, given, *arguments, size, dilation=dilation)
    except ValueError:
        met["unpooling refused"] += 1  # a size that does not fit
        return
    met["unpooled"] += 1
    flat = torch.zeros(*y.shape[:-n], math.prod(full), dtype=y.dtype)
    expected = flat.scatter(-1, indices.flatten(-n), y.contiguous().flatten(-n)).reshape(*y.shape[:-n], *full)
    hold(bits(z) == bits(expected), f"unpooled: {what}")
    if train:
        grad = torch.from_numpy(rng.integers(-9, 10, z.shape)).to(z.dtype)
        (result,) = torch.autograd.grad(z, mine, grad, create_graph=bool(rng.random() < 0.3))
        wanted = grad.flatten(-n).gather(-1, indices.flatten(-n)).reshape(y.shape)
        hold(bits(result) == bits(wanted), f"unpooling's gradient: {what}")


def coded(rng) -> None:
    """Window codes give what places in the plane give: values, gradients, and what is unpooled."""
    case = Case(rng)
    if empty_window(case) or math.prod(case.kernel) > 1 << 16:
        return
    n, what = case.n, repr(case)
    pool, unpool = getattr(ct, f"max_pool{n}d"), getattr(ct, f"max_unpool{n}d")
    train = case.dtype.is_floating_point and rng.random() < 0.5
    leaves = [leaf(case.x, train) for _ in range(2)]
    results = []
    for x, index_format in zip(leaves, ("plane", "window"), strict=True):
        y, indices = pool(x, *case.window(rng), return_indices=True, index_format=index_format)
        results.append([y, *(torch.autograd.grad(y.float().sum(), x, retain_graph=True) if train else ())])
        try:
            size = case.kernel, case.stride, case.padding, case.shape[-n:]
            results[-1].append(unpool(y, indices, *size, dilation=case.dilation, index_format=index_format))
        except ValueError:
            met["codes refused"] += 1  # a size that does not fit
    hold(indices.dtype in (torch.uint8, torch.uint16), f"codes: {what}")
    hold([*map(bits, results[0])] == [*map(bits, results[1])], f"codes beside places: {what}")
    met["codes"] += len(results[0]) > 1 + train


def modules(rng) -> None:
    """`accelerate` takes what the functions take, and nothing changes."""
    case = Case(rng)
    n, what = case.n, repr(case)
    sizes = [formed(rng, v) for v in (case.kernel, case.stride or case.kernel, case.padding, case.dilation)]
    sizes = [[*size] if hasattr(size, "__next__") else size for size in sizes]
    pool = getattr(torch.nn, f"MaxPool{n}d")(*sizes, return_indices=True, ceil_mode=case.ceil)
    ours = ct.accelerate(copy.deepcopy(pool))
    hold("by cunpool" in repr(ours), f"accelerate left it: {what} {sizes}")
    expected = getattr(F, f"max_pool{n}d")(case.x.contiguous(), *case.plain(), return_indices=True)
    for result, wanted in zip(ours(case.x), expected, strict=True):
        hold(bits(result) == bits(wanted), f"an accelerated module: {what}")
    met["module"] += 1


def transformed(rng) -> None:
    """The gradient by ``torch.func`` and the tangent are the ones of PyTorch, whatever the size."""
    case = Case(rng)
    if not case.dtype.is_floating_point or empty_window(case) or case.dtype in (torch.float16, torch.bfloat16):
        return
    n, what = case.n, repr(case)
    x, tangent = case.x.contiguous().resolve_neg(), torch.ones(case.shape, dtype=case.dtype)
    pools = [getattr(where, f"max_pool{n}d") for where in (ct, F)]
    values = [torch.func.jvp(lambda x, pool=pool: pool(x, *case.plain()), (x,), (tangent,)) for pool in pools]
    for given, wanted in zip(*values, strict=True):
        hold(bits(given) == bits(wanted), f"a tangent: {what}")
    grads = [torch.func.grad(lambda x, pool=pool: pool(x, *case.plain()).sum())(x) for pool in pools]
    hold(bits(grads[0]) == bits(grads[1]), f"torch.func.grad: {what}")
    met["transformed"] += 1


def hostile(rng) -> None:
    """Nonsense is refused, and never left to PyTorch to crash by: the same for small inputs and for large ones."""
    n = int(rng.integers(1, 4))
    nonsense = (0, -1, 2.5, "2", True, (), [], (2,) * (n + 1), 10**30, 2**31, 2**62, None, (0,) * n, float("nan"))
    window = [one_of(rng, (2, 3)), one_of(rng, (None, 1, 2)), one_of(rng, (0, 1)), one_of(rng, (1, 2, 10**9))]
    if rng.random() < 0.7:
        window[int(rng.integers(4))] = one_of(rng, nonsense)
    outcomes = []
    for side in (int(rng.integers(1, 5)), {1: 300_000, 2: 520, 3: 68}[n]):
        x = torch.rand((1, 1) + (side,) * n, requires_grad=True)
        try:
            y, _ = getattr(ct, f"max_pool{n}d")(x, *window, bool(rng.integers(2)), True)
        except REFUSALS as error:
            outcomes.append(type(error).__name__)
            continue
        outcomes.append("accepted")
        try:
            y.sum().backward()
        except IndexError:
            met["a gradient refused"] += 1
    met["refused" if "accepted" not in outcomes else "accepted"] += 1
    if {*outcomes} & {"TypeError"}:
        hold(len({*outcomes}) == 1, f"{n}d {window}: {outcomes} for a small input and a large one")


KINDS = (pooling, pooling, pooling, modules, transformed, hostile, coded)
WANTED = [
    *(f"{side} {edge}" for side in ("below", "at or above") for edge in EDGES),
    *(f"layout {layout}" for layout in LAYOUTS),
    *(f"form {form}" for form in FORMS),
    *("dilated", "not dilated", "training", "inference", "create_graph True", "create_graph False"),
    *("unpooled", "unpooling refused", "module", "transformed", "refused", "accepted"),
    "codes",
    *("left to PyTorch", "not left to PyTorch", "one thread", "two threads"),
]


def run_case(seed: int, case: int) -> None:
    rng = np.random.default_rng((seed, case))
    threads = int(rng.integers(1, 3))
    torch.set_num_threads(threads)
    met[("one thread", "two threads")[threads - 1]] += 1
    KINDS[case % len(KINDS)](rng)


def watched(operator):
    def call(*arguments):
        result = operator(*arguments)
        met["left to PyTorch"] += 1
        return result

    return call


def run_cases(seed: int, cases: range, log) -> None:
    for n, operator in list(_eager.THEIRS.items()):
        _eager.THEIRS[n] = watched(operator)
    direct = _eager._calls.max_pool

    def counted(*arguments, **options):
        met["not left to PyTorch"] += 1
        return direct(*arguments, **options)

    _eager._calls.max_pool = counted
    for case in cases:
        os.pwrite(log.fileno(), f"{case:<12}".encode(), 0)
        faulthandler.dump_traceback_later(SECONDS, exit=True)  # one that hangs is named too
        run_case(seed, case)
    faulthandler.cancel_dump_traceback_later()


def work(seed: int, cases: range, log) -> int:
    try:
        run_cases(seed, cases, log)
    except Difference as difference:
        print(f"DIFFERENCE {difference}")
        return 1
    print(", ".join(f"{count} {name}" for name, count in sorted(met.items())))
    missed = [name for name in WANTED if not met[name]]
    if len(cases) > 1 and missed:
        print(f"NEVER MET: {missed}")
        return 1
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="this one alone")
    parser.add_argument("--log", help=argparse.SUPPRESS)
    options = parser.parse_args()
    cases = range(options.cases) if options.case is None else range(options.case, options.case + 1)
    if options.log:
        faulthandler.enable()
        with open(options.log, "r+b") as log:
            return work(options.seed, cases, log)
    with tempfile.NamedTemporaryFile() as log:
        status = subprocess.run([sys.executable, __file__, *sys.argv[1:], "--log", log.name]).returncode
        if status:
            case = log.read().decode().strip()
            print(f"seed {options.seed}, case {case}, exit status {status}")
            print(f"again: python tests/fuzz_torch.py --seed {options.seed} --case {case}")
        return status


if __name__ == "__main__":
    sys.exit(main())
