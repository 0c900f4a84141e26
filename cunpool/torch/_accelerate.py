"""Whole networks: let cunpool compute their pooling and unpooling modules, and undo that."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any, TypeVar

import torch

from cunpool import _geometry
from cunpool._geometry import IndexFormat
from cunpool.torch import _forwards, _operators, modules

Model = TypeVar("Model", bound=torch.nn.Module)

_NAMES = [f"{name}{n}d" for n in (1, 2, 3) for name in ("MaxPool", "MaxUnpool", "AdaptiveMaxPool")]
_THEIRS = {getattr(torch.nn, name): int(name[-2]) for name in _NAMES}
_OURS = {getattr(modules, name): getattr(torch.nn, name) for name in _NAMES}
_FUNCTIONS = {f"{kind}{n}d" for kind in ("max_pool", "max_unpool", "adaptive_max_pool") for n in (1, 2, 3)}


def accelerate(
    model: Model, *, index_format: IndexFormat = "plane", functional: bool = False, verbose: bool = False
) -> Model:
    """Let cunpool do a network's max pooling and unpooling.

    Parameters
    ----------
    model : torch.nn.Module
        Changed in place: every ``torch.nn.MaxPool1d``, ``2d``, ``3d``, ``torch.nn.MaxUnpool1d``, ``2d``, ``3d`` and
        ``torch.nn.AdaptiveMaxPool1d``, ``2d``, ``3d`` in it, and itself if it is one, computes with cunpool. Subclasses
        of these stay as they are, and so do calls of functions, scripted modules, and modules whose arguments cunpool
        refuses.
    index_format : {"plane", "window"}
        With ``"window"``, indices take one byte each instead of eight, or two in windows of more than 256 elements.
        Such indices are no tensors: they can only go from the network's pooling modules straight to its unpooling
        modules. Any other use is an error. The unpooling must have the windows and the size of the pooling. If sizes
        are no multiples of the stride, pass ``output_size``, the shape of the pooling's input.
    functional : bool
        Whether cunpool also serves the calls of ``torch.nn.functional`` inside the ``forward`` of `model`. It serves
        the functions of `patched` until the call of the network returns, in the thread that calls it.
    verbose : bool
        Whether to print which modules were replaced, and why others were not.

    Returns
    -------
    torch.nn.Module
        `model`.

    Raises
    ------
    TypeError
        If `model` is no module, such as a module's class, or `functional` is no bool.
    ValueError
        If `index_format` is neither.

    Warns
    -----
    UserWarning
        If no module of the network computes with cunpool afterwards. The message has the reason.

    See Also
    --------
    restore : The opposite.
    patched : Reaches calls of functions outside a network too.

    Notes
    -----
    Only the ``forward`` of the instances is replaced: of the modules above, and with `functional` of `model`. Modules
    keep their identity, class, hooks and state. The network keeps its names, state dict, results and gradients.
    Libraries that choose rules by the class of a module (Captum, SHAP) choose the same rules. ``print(net)`` shows ``by
    cunpool``.

    ``torch.compile``, ``torch.export``, ``torch.jit.trace``, ``torch.fx`` and ``torch.func`` accept the network as
    they accept the original. ``torch.jit.script`` refuses it. PyTorch computes tensors on other devices than the CPU.

    A pickle of the whole network (``torch.save(model)``) names cunpool's functions, so loading it needs cunpool. To
    avoid this, `restore` the network first, or save its state dict. A copy of a module by ``copy.copy`` computes with
    the arguments of the original. A copy by ``copy.deepcopy`` has its own.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.MaxPool2d(2), torch.nn.MaxPool2d((2,)))
    >>> cunpool.torch.accelerate(net, verbose=True) is net
    replaced: 1 MaxPool2d
    left: 2 (MaxPool2d): kernel_size must be an integer or have 2 entries, one per axis, got (2,); pass 2 for all axes
    True
    >>> net[1]
    MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False, by cunpool)
    >>> type(net[1]) is torch.nn.MaxPool2d
    True

    A network that calls functions:

    >>> class Net(torch.nn.Module):
    ...     def forward(self, x):
    ...         return torch.nn.functional.max_pool2d(x, 2)
    >>> cunpool.torch.accelerate(Net(), functional=True, verbose=True)
    replaced: functions of Net
    Net(functions by cunpool)
    """
    check_model(model)
    functional = _geometry.flag("functional", functional)
    replaced, left = hand_over(model, index_format)
    if functional:
        left += _serve_functions(model)
    left += _reasons(model)
    if verbose:
        _report(replaced, left, model)
    if not any(_is_ours(module) for module in model.modules()):
        reasons = left or ["it has no modules of max pooling or unpooling"]
        warnings.warn(
            f"cunpool.torch.accelerate replaced nothing in {type(model).__name__}: " + "; ".join(reasons), stacklevel=2
        )
    return model


def hand_over(model: torch.nn.Module, index_format: IndexFormat = "plane") -> tuple[Counter[str], list[str]]:
    """Replace the modules that can be replaced. Return their number for each class, and the reasons of the others."""
    codes = _geometry.is_window(index_format)
    replaced: Counter[str] = Counter()
    left = []
    for name, module in model.named_modules():
        kind = type(module)
        theirs = _OURS.get(kind, kind)
        if theirs not in _THEIRS:
            if isinstance(module, tuple(_THEIRS)):
                left.append(f"{name or 'the model itself'} ({kind.__name__}): a subclass")
            continue
        n = _THEIRS[theirs]
        if reason := _refusal(n, module):
            left.append(f"{name or 'the model itself'} ({kind.__name__}): {reason}")
        elif "index_format" not in vars(module):  # a module's own choice stays
            forward = _forward(n, module, codes)
            if kind in _OURS and type(forward) in (_forwards.Pool, _forwards.Unpool, _forwards.AdaptivePool):
                _take_back(module)  # computes with cunpool by itself
            elif type(forward) is not type(vars(module).get("forward")):
                forward.install()
                replaced[kind.__name__] += 1
    return replaced, left


def _serve_functions(model: torch.nn.Module) -> Iterator[str]:
    """Replace the ``forward`` of a network by one inside `patched`, or give the reason why not."""
    if isinstance(model, (*_THEIRS, torch.jit.ScriptModule)) or _is_accelerated(model):
        return  # it calls no function, or there is a reason already
    if "forward" in vars(model):
        yield f"functions of {type(model).__name__}: somebody else has replaced its forward"
        return
    _forwards.Functional(model).install()


def _forward(n: int, module: torch.nn.Module, codes: bool) -> _forwards.Forward:
    """The `forward` that `module` gets."""
    if hasattr(module, "output_size"):
        return _forwards.AdaptivePool(n, module)
    codes = codes and math.prod(_operators.lists(n, module.kernel_size, None, 0, 1)[0]) <= 1 << 16
    if hasattr(module, "return_indices"):
        return (_forwards.PoolToCodes if codes else _forwards.Pool)(n, module)
    return (_forwards.UnpoolFromCodes if codes else _forwards.Unpool)(n, module)


def _refusal(n: int, module: torch.nn.Module) -> str:
    """Why cunpool cannot compute `module`; empty if it can."""
    if "forward" in vars(module) and not _is_accelerated(module):
        return "somebody else has replaced its forward"
    try:
        if hasattr(module, "output_size"):
            ones = (1,) * (n + 1)
            _geometry.adaptive_pooling(n, ones, _geometry.hashable_output(module.output_size))
            return ""
        _operators.lists(n, module.kernel_size, module.stride, module.padding, getattr(module, "dilation", 1))
    except (TypeError, ValueError, OverflowError) as error:
        return str(error)
    return ""


def check_model(model: Any) -> None:
    """Raise a TypeError unless `model` is a module."""
    if isinstance(model, type):
        raise TypeError(f"model must be a module, got the class {model.__name__}: pass an instance, {model.__name__}()")
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")


def _is_accelerated(module: torch.nn.Module) -> bool:
    return isinstance(vars(module).get("forward"), _forwards.Forward)


def _serves_functions(module: torch.nn.Module) -> bool:
    return isinstance(vars(module).get("forward"), _forwards.Functional)


def _is_ours(module: torch.nn.Module) -> bool:
    return type(module) in _OURS or _is_accelerated(module)


def _report(replaced: Counter[str], left: list[str], model: torch.nn.Module) -> None:
    parts = [f"{count} {name}" for name, count in sorted(replaced.items())]
    if _serves_functions(model):
        parts.append(f"functions of {type(model).__name__}")
    print("replaced:", ", ".join(parts) or "nothing")
    for reason in left:
        print(f"left: {reason}")


def _reasons(model: torch.nn.Module) -> Iterator[str]:
    """One sentence for each class of modules with calls that `accelerate` cannot replace."""
    told = set()
    if _serves_functions(model):
        return
    for module in model.modules():
        kind = type(module)
        if kind in told or kind.__module__.startswith("torch.nn.") or isinstance(module, tuple(_THEIRS)):
            continue
        told.add(kind)
        if isinstance(module, torch.jit.ScriptModule):
            yield f"{module.original_name} is scripted or traced: accelerate the network before torch.jit"
        elif calls := _called(getattr(kind.forward, "__code__", None), getattr(kind.forward, "__globals__", {})):
            ours = ", ".join(f"cunpool.torch.{name}" for name in sorted(calls))
            yield (
                f"{kind.__name__} calls functions, not modules: pass functional=True, or call {ours} there, or the "
                "network inside cunpool.torch.patched()"
            )


def _called(code: Any, names: dict[str, Any]) -> set[str]:
    """PyTorch's pooling functions that `code` calls; `names` are the globals of its module."""
    if code is None or any(getattr(names.get(name), "__name__", "").startswith("cunpool") for name in code.co_names):
        return set()
    inner = (_called(constant, names) for constant in code.co_consts if type(constant) is type(code))
    return {name for name in code.co_names if name in _FUNCTIONS}.union(*inner)


def restore(model: Model, *, verbose: bool = False) -> Model:
    """Give a network's max pooling and unpooling back to PyTorch: the opposite of `accelerate`.

    Parameters
    ----------
    model : torch.nn.Module
        Changed in place: every accelerated module in it, and itself if it is one, computes with PyTorch again. A module
        of cunpool becomes PyTorch's module of the same name. PyTorch's unpooling has no dilation, and gets the
        `kernel_size` that spans the same elements.
    verbose : bool
        Whether to print the number of restored modules.

    Returns
    -------
    torch.nn.Module
        `model`.

    Raises
    ------
    TypeError
        If `model` is no module.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> net = cunpool.torch.accelerate(torch.nn.Sequential(torch.nn.MaxPool2d(2)))
    >>> cunpool.torch.restore(net, verbose=True)
    restored: 1 MaxPool2d
    Sequential(
      (0): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
    )
    """
    check_model(model)
    restored: Counter[str] = Counter()
    for module in model.modules():
        if _is_ours(module):
            restored[type(module).__name__] += 1
            _take_back(module)
            if isinstance(module, modules._Unpool) and module.dilation != 1:  # PyTorch's unpooling has none
                n = _THEIRS[_OURS[type(module)]]
                kernel_size, *_, dilation = _operators.lists(n, module.kernel_size, None, 0, module.dilation)
                module.kernel_size = tuple(d * (k - 1) + 1 for k, d in zip(kernel_size, dilation, strict=True))
                del module.dilation
            module.__class__ = _OURS.get(type(module), type(module))
            vars(module).pop("index_format", None)  # PyTorch's modules have one format
    if verbose:
        print("restored:", ", ".join(f"{count} {name}" for name, count in sorted(restored.items())) or "nothing")
    return model


def _take_back(module: torch.nn.Module) -> None:
    """Undo `_forwards.Forward.install`."""
    if isinstance(vars(module).get("forward"), _forwards.Forward):
        for name in _forwards.ATTRIBUTES:
            vars(module).pop(name, None)
