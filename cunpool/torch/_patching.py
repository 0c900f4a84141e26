"""Calls of ``torch.nn.functional`` served by cunpool: names in PyTorch are replaced while a scope is open.

``torch.nn.functional.max_pool2d`` looks up ``torch.max_pool2d`` at each call, and the other functions and the modules
do the same. So functions imported before the scope are served too, and other operators cost nothing. PyTorch serves
each call that the functions here decline, so that its errors keep their type and text.
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
from cunpool.torch import _adaptive, _eager
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
# A forked child has a copy of this lock, but not the thread that held it. (correctness)
getattr(os, "register_at_fork", lambda **_: None)(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)


class _Counts:
    """Numbers of open scopes: of all threads, and of `patch`, whose scopes hold for every thread."""

    scopes = 0
    process = 0


def _is_ours(*tensors: Any) -> bool:
    """Whether the tensors are plain floats on the CPU, and PyTorch records or transforms none of them."""
    for tensor in tensors:
        if type(tensor) not in _PLAIN or not tensor.is_cpu or tensor.layout is not torch.strided:
            return False
    if tensors[0].dtype not in _FLOATS or any(map(_has_names, tensors)):
        return False
    return not (watcher(*tensors) or has_torch_function_variadic(*tensors))


def _is_cast(tensor: torch.Tensor) -> bool:
    """Whether autocast may compute in another dtype, as it does for unpooling and for 3d pooling."""
    return tensor.dtype in _HALVES and torch.is_autocast_enabled("cpu")


def _sizes(n: int, value: Any) -> Any:
    """A size in a form that both libraries accept: one integer, or one for each axis. An empty size becomes None."""
    if type(value) is int:
        return value
    if isinstance(value, (tuple, list)) and len(value) in (0, 1, n) and all(type(size) is int for size in value):
        return tuple(value) if len(value) > 1 else value[0] if value else None
    raise TypeError


def _pooling(n: int, has_indices: bool) -> Callable[..., Any]:
    """A function with the arguments of PyTorch's pooling; it returns None for a call that PyTorch has to serve."""

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
    """A function with the arguments of PyTorch's unpooling; it returns None for a call that PyTorch has to serve."""

    def serve(input: Any, indices: Any, output_size: Any, *spacing: Any) -> torch.Tensor | None:
        if type(input) not in _PLAIN or type(count := input.numel()) is not int:  # while PyTorch traces
            return None
        few = count < FEW_UNPOOLED and not _runtime.forked()
        if few or not count or not _is_ours(input, indices):
            return None
        if indices.dtype is not torch.int64 or _is_cast(input) or torch.are_deterministic_algorithms_enabled():
            return None
        # In 3d, PyTorch checks the stride and padding but does not use them.
        size, *others = (_sizes(n, value) for value in (output_size, *spacing))
        if {*map(type, (size, *others))} != {tuple} or len(others) != (n == 3) * 2 or (others and min(others[0]) < 1):
            return None
        windows = [_window_between(*sizes) for sizes in zip(input.shape[-n:], size, strict=True)]
        # One integer for all axes takes less time to check. (speed)
        window: Any = windows[0] if windows.count(windows[0]) == n else tuple(zip(*windows, strict=True))
        token = _warn.SILENT.set(True)  # PyTorch's unpooling has no warnings
        try:
            return _eager.max_unpool(n, input, indices, (*window, 1), size)
        finally:
            _warn.SILENT.reset(token)

    return serve


def _adaptive_pooling(n: int) -> Callable[..., Any]:
    """A function with the arguments of PyTorch's adaptive pooling; it returns None for a call that PyTorch serves."""

    def serve(input: Any, output_size: Any) -> Any:
        if type(input) not in _PLAIN or type(input.numel()) is not int:  # while PyTorch traces
            return None
        if not input.numel() or not _is_ours(input) or _is_cast(input) or _adaptive.is_theirs(n, input):
            return None
        size = _sizes(n, output_size)
        return None if size is None else _adaptive.adaptive_max_pool(n, input, size, True)

    return serve


def _window_between(pooled: int, full: int) -> tuple[int, int, int]:
    """Return a kernel_size, stride and padding that unpool `pooled` windows to `full` elements.

    PyTorch passes only the size. Windows without gap or overlap are the fastest and the most frequent. An index outside
    its window is still written to its element.
    """
    if full == pooled - 1:
        return 2, 1, 1
    stride = max(full // pooled, 1)
    side_by_side = full - pooled * stride < stride
    return stride if side_by_side else full - (pooled - 1) * stride, stride, 0


def _replacement(original: Callable[..., Any], serve: Callable[..., Any]) -> Callable[..., Any]:
    """The function that replaces `original` while a scope is open."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        if _Counts.process or _depth.get() > 0:
            try:
                result = serve(*arguments, **keywords)
            except _REFUSALS:  # PyTorch raises its own error for the call
                result = None
            if result is not None:
                return result
        return original(*arguments, **keywords)

    call.__name__ = call.__qualname__ = original.__name__
    call.__module__, call.__doc__ = original.__module__, original.__doc__
    call._torchdynamo_inline = original  # type: ignore[attr-defined]  # torch.compile inlines the original
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
    (torch, "adaptive_max_pool1d", _adaptive_pooling(1)),
    (_NN, "adaptive_max_pool2d", _adaptive_pooling(2)),
    (_NN, "adaptive_max_pool3d", _adaptive_pooling(3)),
]
_ORIGINALS = [getattr(owner, name) for owner, name, _ in _NAMES]
_REPLACEMENTS = [_replacement(original, each[2]) for original, each in zip(_ORIGINALS, _NAMES, strict=True)]


def _exchange(before: list[Any], after: list[Any]) -> None:
    """Replace the functions `before` by `after`, except under names that other code has replaced."""
    for (owner, name, _), expected, new in zip(_NAMES, before, after, strict=True):
        if getattr(owner, name) is expected:
            setattr(owner, name, new)


def _open(process: bool) -> None:
    from torch.jit import _builtins

    with _lock:
        if not _Counts.scopes:
            # Build the compiler's table of builtins now: later it would list the replacements. (correctness)
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

    Use it as a context manager or as a decorator of functions, like ``torch.no_grad``. It holds for the thread that
    enters it, and for code of other libraries that this thread calls.

    See Also
    --------
    patch : The same for every thread, without an end.
    accelerate : For the modules of one network.

    Notes
    -----
    The functions are ``max_pool1d``, ``2d``, ``3d``, ``max_unpool1d``, ``2d``, ``3d`` and ``adaptive_max_pool1d``,
    ``2d``, ``3d`` of ``torch.nn.functional``.
    Names imported before the scope are served too, and so are the modules that call these functions. The functions
    ``torch.max_pool1d``, ``2d``, ``3d`` are served as well. Tensors must be dense, on the CPU, and of float16,
    bfloat16, float32 or float64. Gradients flow as in `max_pool2d`.

    PyTorch serves everything else: other devices, dtypes and subclasses, and small inputs, on which it is faster. It
    also serves calls that are compiled, exported, traced or transformed. Calls that cunpool refuses raise PyTorch's
    errors. ``torch.ops.aten``, scripted code, and ``torch.max_pool2d`` imported earlier by
    ``from torch import max_pool2d`` always run in PyTorch.

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

    Calls are counted: each needs an `unpatch` of its own. A forked process inherits the patch, a spawned one does not.

    See Also
    --------
    patched : The same for one thread and one block, with a list of the functions.

    Examples
    --------
    >>> import cunpool.torch
    >>> cunpool.torch.patch()
    >>> cunpool.torch.unpatch()
    """
    _open(True)


def unpatch() -> None:
    """Undo one call of `patch`. Without an open call, nothing happens.

    Examples
    --------
    >>> import cunpool.torch
    >>> cunpool.torch.unpatch()
    """
    _close(True)
