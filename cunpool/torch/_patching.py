"""Calls of ``torch.nn.functional`` served by cunpool: what they look up in PyTorch is replaced while a scope is open.

``torch.nn.functional.max_pool2d`` looks up ``torch.max_pool2d`` at each call, and the other functions and the modules
do the same. So a name that was bound early is reached, and other operators cost nothing. PyTorch serves whatever the
functions here decline, so that its errors keep their type and text.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import ContextDecorator
from contextvars import ContextVar
from typing import Any

import torch
from torch.overrides import has_torch_function_variadic

from cunpool import _warn
from cunpool._kernels import runtime as _runtime
from cunpool.torch import _eager
from cunpool.torch._watching import watcher

_NN = torch._C._nn
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
_HALVES = frozenset({torch.float16, torch.bfloat16})
_FLOATS = _HALVES | {torch.float32, torch.float64}
# Named tensors are gone in newer releases of PyTorch.
_has_names = getattr(torch.Tensor, "has_names", lambda tensor: False)
_REFUSALS = (TypeError, ValueError, ArithmeticError, LookupError, RuntimeError, MemoryError)

FEW_UNPOOLED = 1 << 14
"""Unpooling of fewer elements is faster in PyTorch. Chosen for speed: 2 x 2 windows, one thread."""

_depth: ContextVar[int] = ContextVar("cunpool.torch.patched", default=0)
_lock = threading.Lock()
# A forked child may have this lock's memory, but not the thread that held it.
getattr(os, "register_at_fork", lambda **_: None)(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)


class _Counts:
    """How many scopes of all threads are open, and how many of them are `patch`'s, which hold for every thread."""

    scopes = 0
    process = 0


def _is_ours(*tensors: Any) -> bool:
    """Whether the tensors are plain floats on the CPU, and PyTorch has to see none of them."""
    for tensor in tensors:
        if type(tensor) not in _PLAIN or not tensor.is_cpu or tensor.layout is not torch.strided:
            return False
    if tensors[0].dtype not in _FLOATS or any(map(_has_names, tensors)):
        return False
    return not (watcher(*tensors) or has_torch_function_variadic(*tensors))


def _is_cast(tensor: torch.Tensor) -> bool:
    """Whether autocast may compute in another dtype: it does for unpooling and for pooling in 3d."""
    return tensor.dtype in _HALVES and torch.is_autocast_enabled("cpu")


def _sizes(n: int, value: Any) -> Any:
    """A size as both libraries understand it: one integer, or one for each axis; an empty one is None."""
    if type(value) is int:
        return value
    if isinstance(value, (tuple, list)) and len(value) in (0, 1, n) and all(type(size) is int for size in value):
        return tuple(value) if len(value) > 1 else value[0] if value else None
    raise TypeError


def _pooling(n: int, has_indices: bool) -> Callable[..., Any]:
    """A function with the arguments of PyTorch's pooling, which returns None for a call that PyTorch has to serve."""

    def serve(
        input: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: Any = False
    ) -> Any:
        if type(input) not in _PLAIN or type(count := input.numel()) is not int:  # while PyTorch traces
            return None
        few = dilation == 1 and not _runtime.forked()
        if (few and count < _eager.LEAST) or not count or not _is_ours(input):
            return None
        if (few and _eager._are_few(input, count)) or type(ceil_mode) is not bool or (n == 3 and _is_cast(input)):
            return None
        window = _sizes(n, kernel_size), _sizes(n, stride), _sizes(n, padding), _sizes(n, dilation)
        return None if None in (window[0], *window[2:]) else _eager.max_pool(n, input, window, ceil_mode, has_indices)

    return serve


def _unpooling(n: int) -> Callable[..., torch.Tensor | None]:
    """A function with the arguments of PyTorch's unpooling, which returns None for a call that PyTorch has to serve."""

    def serve(input: Any, indices: Any, output_size: Any, *spacing: Any) -> torch.Tensor | None:
        if type(input) not in _PLAIN or type(count := input.numel()) is not int:  # while PyTorch traces
            return None
        few = count < FEW_UNPOOLED and not _runtime.forked()
        if few or not count or not _is_ours(input, indices):
            return None
        if indices.dtype is not torch.int64 or _is_cast(input) or torch.are_deterministic_algorithms_enabled():
            return None
        # The stride and padding of 3d PyTorch checks and does not use.
        size, *others = (_sizes(n, value) for value in (output_size, *spacing))
        if {*map(type, (size, *others))} != {tuple} or len(others) != (n == 3) * 2 or (others and min(others[0]) < 1):
            return None
        windows = [_window_between(*sizes) for sizes in zip(input.shape[-n:], size, strict=True)]
        # Integers, where all axes agree, take less time to check.
        window: Any = windows[0] if windows.count(windows[0]) == n else tuple(zip(*windows, strict=True))
        token = _warn.SILENT.set(True)  # PyTorch's unpooling has no warnings
        try:
            return _eager.max_unpool(n, input, indices, window, size)
        finally:
            _warn.SILENT.reset(token)

    return serve


def _window_between(pooled: int, full: int) -> tuple[int, int, int]:
    """Return a kernel_size, stride and padding that unpool `pooled` windows to `full` elements.

    PyTorch hands on the size alone. Windows side by side are the fastest, and the most frequent. Indices outside their
    windows are put where they belong all the same.
    """
    if full == pooled - 1:
        return 2, 1, 1
    stride = max(full // pooled, 1)
    side_by_side = full - pooled * stride < stride
    return stride if side_by_side else full - (pooled - 1) * stride, stride, 0


def _replacement(original: Callable[..., Any], serve: Callable[..., Any]) -> Callable[..., Any]:
    """What stands in `original`'s place while a scope is open."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        if _Counts.process or _depth.get() > 0:
            try:
                result = serve(*arguments, **keywords)
            except _REFUSALS:  # PyTorch says what is wrong with the call
                result = None
            if result is not None:
                return result
        return original(*arguments, **keywords)

    call.__name__ = call.__qualname__ = original.__name__
    call.__module__, call.__doc__ = original.__module__, original.__doc__
    call._torchdynamo_inline = original  # type: ignore[attr-defined]  # by which the compiler takes it for the original
    return call


_NAMES: list[tuple[Any, str, Callable[..., Any]]] = [
    (torch, "max_pool1d", _pooling(1, False)),
    (torch, "max_pool2d", _pooling(2, False)),
    (torch, "max_pool3d", _pooling(3, False)),
    (torch, "max_pool1d_with_indices", _pooling(1, True)),
    (_NN, "max_pool2d_with_indices", _pooling(2, True)),
    (_NN, "max_pool3d_with_indices", _pooling(3, True)),
    (_NN, "max_unpool2d", _unpooling(2)),
    (_NN, "max_unpool3d", _unpooling(3)),
]
_ORIGINALS = [getattr(owner, name) for owner, name, _ in _NAMES]
_REPLACEMENTS = [_replacement(original, each[2]) for original, each in zip(_ORIGINALS, _NAMES, strict=True)]


def _exchange(before: list[Any], after: list[Any]) -> None:
    """Put `after` where `before` are; a name that somebody else has replaced stays theirs."""
    for (owner, name, _), expected, new in zip(_NAMES, before, after, strict=True):
        if getattr(owner, name) is expected:
            setattr(owner, name, new)


def _open(process: bool) -> None:
    from torch.jit import _builtins

    with _lock:
        if not _Counts.scopes:
            # Builds the compiler's table of builtins, before it could list the replacements instead.
            for replacement, original in zip(_REPLACEMENTS, _ORIGINALS, strict=True):
                _builtins._register_builtin(replacement, _builtins._find_builtin(original))
            _exchange(_ORIGINALS, _REPLACEMENTS)
        _Counts.scopes += 1
        _Counts.process += process


def _close(process: bool) -> None:
    with _lock:
        if process and not _Counts.process:
            return
        _Counts.scopes -= 1
        _Counts.process -= process
        if not _Counts.scopes:
            _exchange(_REPLACEMENTS, _ORIGINALS)


class patched(ContextDecorator):  # a context manager, named as `torch.no_grad` is
    """Let cunpool serve the max pooling and unpooling of ``torch.nn.functional`` in one thread.

    A context manager, and a decorator of functions, as ``torch.no_grad``. It holds for the thread that enters it, and
    for code of other libraries that this thread calls.

    See Also
    --------
    patch : The same for every thread, without an end.
    accelerate : For the modules of one network.

    Notes
    -----
    Served are ``max_pool1d``, ``2d``, ``3d`` and ``max_unpool1d``, ``2d``, ``3d`` of ``torch.nn.functional``, under
    names bound before too, the modules that call them, and ``torch.max_pool1d``, ``2d``, ``3d``. The tensors are dense
    ones of float16, bfloat16, float32 or float64 on the CPU. Gradients flow as in `max_pool2d`.

    PyTorch serves everything else: small inputs, on which it is faster, other devices, dtypes and subclasses, calls
    that are compiled, exported, traced or transformed, and calls that cunpool refuses, so that errors are PyTorch's.
    Not reached are ``torch.ops.aten``, scripted code, and ``torch.max_pool2d`` bound before by
    ``from torch import max_pool2d``.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> x = torch.rand(1, 8, 64, 64, requires_grad=True)
    >>> with cunpool.torch.patched():
    ...     y = torch.nn.functional.max_pool2d(x, 2)
    >>> y.grad_fn.name()
    '_MaxPoolBackward'
    """

    def __enter__(self) -> None:
        _open(False)
        _depth.set(_depth.get() + 1)

    def __exit__(self, *_: object) -> None:
        _depth.set(_depth.get() - 1)
        _close(False)


def patch() -> None:
    """Let cunpool serve the max pooling and unpooling of ``torch.nn.functional`` in every thread, until `unpatch`.

    Calls are counted: each needs an `unpatch` of its own. A process that is forked has it too, one that is spawned has
    not.

    See Also
    --------
    patched : The same for one thread and one block; says what is served.

    Examples
    --------
    >>> import cunpool.torch
    >>> cunpool.torch.patch()
    >>> cunpool.torch.unpatch()
    """
    _open(True)


def unpatch() -> None:
    """Undo one call of `patch`; does nothing if all of them are undone.

    Examples
    --------
    >>> import cunpool.torch
    >>> cunpool.torch.unpatch()
    """
    _close(True)
