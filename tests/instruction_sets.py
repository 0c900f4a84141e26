"""The kernels of any instruction set of this build, in one process: `use` puts them in the front ends' hands."""

from __future__ import annotations

import functools
import importlib.util
import sys
from importlib.machinery import PathFinder
from types import ModuleType

import pytest

from cunpool import _simd
from cunpool._kernels import runtime

USABLE = [name for name in _simd.BUILT if name in runtime.INSTRUCTION_SETS]
FRONT_ENDS = {
    "pool": ["cunpool.adaptive", "cunpool.pooling", "cunpool._unequal"],
    "unpool": ["cunpool.adaptive", "cunpool.taking", "cunpool.unpooling", "cunpool._background", "cunpool._results"],
}


@functools.cache
def load(module: str, name: str) -> ModuleType:
    """A module of the kernels, as compiled for the instruction set of that name."""
    full_name = f"cunpool._kernels.{module}"
    if name == _simd.IN_USE:
        return sys.modules[full_name]
    spec = PathFinder.find_spec(full_name, [_simd.folder_of(name)])
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def use(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have calls use an instruction set until the test ends."""
    if name not in USABLE:
        pytest.skip(f"this processor, or this build, has no {name}")
    for module, front_ends in FRONT_ENDS.items():
        for front_end in front_ends:
            monkeypatch.setattr(f"{front_end}._{module}", load(module, name))
