"""How often each way and each condition of the kernels was met on either side."""

from __future__ import annotations

import importlib
import types
from collections.abc import Mapping

import numpy as np

# Where the front ends call the kernels, whose results say which ways they took.
KERNELS = {
    "_pool": [("cunpool.pooling", "pool"), ("cunpool.adaptive", "pool"), ("cunpool._unequal", "pool")],
    "_unpool": [
        ("cunpool.unpooling", "unpool"),
        ("cunpool._results", "unpool"),
        ("cunpool.adaptive", "unpool"),
        ("cunpool._results", "unpool_backward"),
        ("cunpool.taking", "unpool_backward"),
        ("cunpool.adaptive", "unpool_backward"),
    ],
}
Counts = dict[str, tuple[int, int]]
"""Times false and times true, by name."""

# What can't be met on one side, and why.
ONE_SIDED: Mapping[str, str] = {}


def told(argument) -> str:
    if isinstance(argument, np.ndarray):
        return f"{argument.dtype} {argument.shape} strides {argument.strides}"
    return repr(argument)


class Census:
    """Counts in this process, from its making on; `aloud`, it says too what the kernels are called with."""

    def __init__(self, aloud: bool = False) -> None:
        self.aloud = aloud
        self.ways: Counts = {}
        self.modules = {name: importlib.import_module(f"cunpool._kernels.{name[1:]}") for name in KERNELS}
        for name, places in KERNELS.items():
            for front_end, function in places:
                self.watch(importlib.import_module(front_end), name, function)
        self.before = self.conditions()

    def watch(self, front_end: types.ModuleType, name: str, function: str) -> None:
        module = self.modules[name]
        assert hasattr(front_end, name), f"{front_end.__name__} calls no {name}"
        flags = {flag: value for flag, value in vars(module).items() if flag.isupper() and isinstance(value, int)}
        for flag in flags:
            self.ways.setdefault(f"{name} {flag}", (0, 0))
        kernel = getattr(module, function)

        def watched(*arguments):
            if self.aloud:
                print(f"{name}.{function}({', '.join(map(told, arguments))})", flush=True)
            ways = kernel(*arguments)
            if ways or name == "_pool":  # else an index was refused
                for flag, value in flags.items():
                    false, true = self.ways[f"{name} {flag}"]
                    self.ways[f"{name} {flag}"] = (false, true + 1) if ways & value else (false + 1, true)
            return ways

        stand_in = types.SimpleNamespace(**{**vars(getattr(front_end, name)), function: watched})
        setattr(front_end, name, stand_in)

    def conditions(self) -> Counts:
        """What a checked build counts; nothing in others."""
        counts: Counts = {}
        for name, module in self.modules.items():
            for condition in getattr(module, "conditions", list)():
                add(counts, {f"{name}: {condition['name'].decode()}": tuple(condition["times"])})
        return counts

    def counts(self) -> Counts:
        """All of them."""
        since = {
            name: tuple(now - then for now, then in zip(counts, self.before.get(name, (0, 0)), strict=True))
            for name, counts in self.conditions().items()
        }
        return {**self.ways, **since}


def add(total: Counts, more: Counts) -> None:
    for name, counts in more.items():
        total[name] = tuple(a + b for a, b in zip(total.get(name, (0, 0)), counts, strict=True))


def table(counts: Counts) -> str:
    """One line for each, those first that were met least."""
    lines = [f"{'false':>12} {'true':>12}"]
    for name, (false, true) in sorted(counts.items(), key=lambda item: (min(item[1]), item[0])):
        lines.append(f"{false:12} {true:12}  {name}" + (f"  ({ONE_SIDED[name]})" if name in ONE_SIDED else ""))
    return "\n".join(lines)


def one_sided(counts: Counts) -> list[str]:
    """What was met on one side only, or not at all, but for what cannot be otherwise."""
    return sorted(name for name, sides in counts.items() if not all(sides) and name not in ONE_SIDED)
