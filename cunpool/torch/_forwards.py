"""Objects that `accelerate` stores as the ``forward`` of a module, whose class stays PyTorch's.

Captum, SHAP and others choose rules by ``type(module)``, so the class has to stay. The ``forward`` of the instance is
an object here: it is copied, pickled and replicated with the module, and removing it restores the module.

With ``index_format="window"`` indices are a `WindowIndices`. Window codes mean nothing without their windows, so the
network never has them: unpooling opens the `WindowIndices` after it has compared windows and sizes.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from types import CodeType
from typing import Any, NoReturn, SupportsIndex

import torch
from torch.compiler import is_dynamo_compiling

from cunpool import _geometry
from cunpool.torch import _adaptive, _eager, _operators
from cunpool.torch._patching import patched
from cunpool.torch._watching import watcher

REFUSAL = (
    "indices of a network accelerated with index_format='window' go from its pooling straight to its unpooling and "
    "can do nothing else: accelerate it without index_format"
)


ATTRIBUTES = ("forward", "extra_repr", "__prepare_scriptable__")
"""Replaced attributes of an accelerated module: its computation, its description, its hook for ``torch.jit.script``."""


def refuse_to_be_scripted() -> NoReturn:
    raise RuntimeError(
        "torch.jit.script cannot compile modules that cunpool computes: use torch.jit.trace, or call "
        "cunpool.torch.restore(net) before torch.jit.script"
    )


class WindowIndices:
    """Window codes, their window, and the size of the pooling's input planes."""

    def __init__(self, codes: torch.Tensor, window: list[list[int]], size: torch.Size) -> None:
        self.codes, self.window, self.size = codes, window, size

    @classmethod
    def __torch_function__(cls, *_: object) -> NoReturn:
        raise TypeError(REFUSAL)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{REFUSAL} (not {name!r})")


class Forward:
    """The ``forward`` of one accelerated module; the arguments are read from the module at each call."""

    def __init__(self, n: int, module: torch.nn.Module) -> None:
        self.n, self.module = n, module

    @property
    def __code__(self) -> CodeType:
        """The code object, which ``torch.export`` reads from any ``forward``."""
        return type(self).__call__.__code__

    def install(self) -> None:
        """Replace the module's computation, its description and its hook for ``torch.jit.script``."""
        vars(self.module).update(zip(ATTRIBUTES, (self, self.describe, self.refuse_to_be_scripted), strict=True))

    def describe(self) -> str:
        if is_dynamo_compiling():  # the compiler cannot trace PyTorch's, which `torch.vmap` calls
            return "by cunpool"
        return f"{type(self.module).extra_repr(self.module)}, by cunpool"

    def refuse_to_be_scripted(self) -> NoReturn:
        refuse_to_be_scripted()

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the class's own ``forward``."""
        return type(self.module).forward(self.module, *arguments, **keywords)


class Functional(Forward):
    """The ``forward`` of a network whose calls of ``torch.nn.functional`` are served by cunpool."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__(0, module)

    @property
    def __signature__(self) -> inspect.Signature:
        """The signature of the network, which ``torch.export`` reads for the names of inputs."""
        return inspect.signature(type(self.module).forward.__get__(self.module))

    def describe(self) -> str:
        if is_dynamo_compiling():
            return "functions by cunpool"
        return ", ".join(filter(None, (type(self.module).extra_repr(self.module), "functions by cunpool")))

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if is_dynamo_compiling():  # compiled calls are PyTorch's in any case
            return super().__call__(*arguments, **keywords)
        with patched():
            return super().__call__(*arguments, **keywords)


class Pool(Forward):
    """Pooling; PyTorch computes tensors on other devices than the CPU."""

    def __call__(self, input: torch.Tensor) -> Any:
        if _is_elsewhere(input):
            return super().__call__(input)
        module = self.module
        window = module.kernel_size, module.stride, module.padding, module.dilation
        return _eager.max_pool(self.n, input, window, module.ceil_mode, module.return_indices)


class Unpool(Forward):
    """Unpooling; PyTorch computes tensors on other devices than the CPU."""

    def __call__(
        self, input: torch.Tensor, indices: torch.Tensor, output_size: Sequence[SupportsIndex] | None = None
    ) -> torch.Tensor:
        if _is_elsewhere(input):
            return super().__call__(input, indices, output_size)
        return _eager.max_unpool(self.n, input, indices, self.window(), output_size)

    def window(self) -> Any:
        """The window of the module. PyTorch's modules have no dilation."""
        module = self.module
        return module.kernel_size, module.stride, module.padding, getattr(module, "dilation", 1)


class AdaptivePool(Forward):
    """Adaptive pooling; PyTorch computes tensors on other devices than the CPU."""

    def __call__(self, input: torch.Tensor) -> Any:
        if _is_elsewhere(input):
            return super().__call__(input)
        return _adaptive.adaptive_max_pool(self.n, input, self.module.output_size, self.module.return_indices)


class PoolToCodes(Pool):
    """Pooling that returns window codes as its indices."""

    def describe(self) -> str:
        return f"{super().describe()}, index_format='window'"

    def __call__(self, input: torch.Tensor) -> Any:
        module = self.module
        if not module.return_indices:
            return super().__call__(input)
        window = module.kernel_size, module.stride, module.padding, module.dilation
        values, codes = _eager.max_pool(self.n, input, window, module.ceil_mode, True, "window")
        return values, WindowIndices(codes, _operators.lists(self.n, *window), input.shape[-self.n :])


class UnpoolFromCodes(Unpool):
    """Unpooling that reads the window codes of `PoolToCodes`."""

    def describe(self) -> str:
        return f"{super().describe()}, index_format='window'"

    def __call__(
        self, input: torch.Tensor, indices: Any, output_size: Sequence[SupportsIndex] | None = None
    ) -> torch.Tensor:
        if not isinstance(indices, WindowIndices):  # plane indices, not from PoolToCodes
            return super().__call__(input, indices, output_size)
        window = self.window()
        lists = _operators.lists(self.n, *window)
        if lists != indices.window:
            raise ValueError(
                f"{_described(lists)} cannot unpool with window codes from {_described(indices.window)}: "
                "accelerate the network without index_format"
            )
        if isinstance(indices.size, torch.Size):  # a symbolic trace has none
            self._check_size(input, lists, indices.size, output_size)
        return _eager.max_unpool(self.n, input, indices.codes, window, output_size, "window")

    def _check_size(self, input: torch.Tensor, window: list[list[int]], before: torch.Size, output_size: Any) -> None:
        """Refuse to unpool to another size than the one `before` pooling, if both are known."""
        if output_size is None:
            axes = zip(input.shape[-self.n :], *window, strict=True)
            output_size = [(pooled - 1) * s - 2 * p + d * (k - 1) + 1 for pooled, k, s, p, d in axes]
        elif not watcher(input):  # sizes may be NumPy's or PyTorch's integers
            output_size = _geometry.entries("output_size", output_size)
        size, full = [*before], [*output_size][-self.n :]
        # Sizes may be symbols while PyTorch traces or exports; a code names the element of its window at any size.
        if all(type(entry) is int for entry in (*size, *full)) and size != full:
            raise ValueError(
                f"what was pooled had the size {size}, and unpooling would give {full}: pass output_size, the shape of "
                "what was pooled"
            )


def _described(window: list[list[int]]) -> str:
    return "windows of kernel_size {}, stride {}, padding {}, dilation {}".format(*window)


def _is_elsewhere(input: Any) -> bool:
    """Whether `input` is a tensor on another device, so that PyTorch has to serve it."""
    return isinstance(input, torch.Tensor) and not (input.is_cpu or input.is_meta)
