"""Whole networks: their pooling and unpooling modules handed to cunpool, and taken back."""

from __future__ import annotations

import math
from collections import Counter

import torch

from cunpool import _geometry
from cunpool._geometry import IndexFormat
from cunpool.torch import _handing, _operators, modules

_NAMES = [f"{name}{n}d" for n in (1, 2, 3) for name in ("MaxPool", "MaxUnpool")]
_OURS = {getattr(torch.nn, name): (int(name[-2]), getattr(modules, name), getattr(_handing, name)) for name in _NAMES}
_THEIRS = {ours: theirs for theirs, (_, *both) in _OURS.items() for ours in both}


def accelerate(
    model: torch.nn.Module, *, index_format: IndexFormat = "plane", verbose: bool = False
) -> torch.nn.Module:
    """Let cunpool do a network's max pooling and unpooling.

    Parameters
    ----------
    model : torch.nn.Module
        Changed in place: every ``torch.nn.MaxPool1d``, ``2d``, ``3d`` and ``torch.nn.MaxUnpool1d``, ``2d``, ``3d`` in
        it, and itself if it is one, becomes cunpool's of the same name. Subclasses of these stay as they are, and so
        do calls of functions, and modules with a `kernel_size` and such that cunpool does not take.
    index_format : {"plane", "window"}
        With ``"window"``, indices take one byte each instead of eight (two in windows of more than 256 cells), on their
        way from the network's pooling modules straight to its unpooling modules. They are no tensors then: whatever
        else the network does with them is an error, and so is an unpooling with other windows, or to another size,
        than those of the pooling. Give ``output_size``, the shape of what was pooled, where sizes are not multiples of
        the stride.
    verbose : bool
        Whether to print what was replaced, and what was left and why.

    Returns
    -------
    torch.nn.Module
        `model`.

    Raises
    ------
    ValueError
        If `index_format` is neither.

    See Also
    --------
    restore : The opposite.

    Notes
    -----
    Modules keep their identity, their hooks and all of their state, and the network its names, its state dict, its
    results and its gradients. From then on the network runs on the CPU alone. ``torch.compile``, ``torch.export``,
    ``torch.jit.trace``, ``torch.fx`` and ``torch.func`` take it as they take the original.

    A pickle of the whole network (``torch.save(model)``, not of its state dict) names cunpool's modules, so it needs
    cunpool where it is loaded: `restore` the network first where that is not wanted.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.MaxPool2d(2), torch.nn.MaxPool2d((2,)))
    >>> cunpool.torch.accelerate(net, verbose=True) is net
    replaced: 1 MaxPool2d
    left: 2 (MaxPool2d): kernel_size must be an integer or have 2 entries, one per axis, got (2,)
    True
    >>> isinstance(net[1], cunpool.torch.MaxPool2d)
    True
    """
    codes = _geometry.is_window(index_format)
    replaced: Counter[str] = Counter()
    left = []
    for name, module in model.named_modules():
        kind = type(module)
        reason = ""
        if (theirs := _THEIRS.get(kind, kind)) in _OURS and "index_format" not in vars(module):
            n, ours, handing = _OURS[theirs]
            reason = _refusal(n, module)
            if not reason:
                module.__class__ = handing if codes and _has_codes(n, module) else ours
        if type(module) is not kind:
            replaced[type(module).__name__] += 1
        elif kind not in _THEIRS and isinstance(module, tuple(_OURS)):
            left.append(f"left: {name or 'the model itself'} ({kind.__name__}): {reason or 'a subclass'}")
    if verbose:
        print("replaced:", ", ".join(f"{count} {name}" for name, count in sorted(replaced.items())) or "nothing")
        print(*left, sep="\n", end="\n" if left else "")
    return model


def _refusal(n: int, module: torch.nn.Module) -> str:
    """Why cunpool cannot do what `module` does; empty if it can."""
    try:
        _operators.lists(n, module.kernel_size, module.stride, module.padding, getattr(module, "dilation", 1))
    except (TypeError, ValueError, OverflowError) as error:
        return str(error)
    return ""


def _has_codes(n: int, module: torch.nn.Module) -> bool:
    """Whether a cell of a window of `module` can be told by a code."""
    (kernel_size, *_) = _operators.lists(n, module.kernel_size, None, 0, 1)
    return math.prod(kernel_size) <= 1 << 16


def restore(model: torch.nn.Module) -> torch.nn.Module:
    """Give a network's max pooling and unpooling back to PyTorch: the opposite of `accelerate`.

    Parameters
    ----------
    model : torch.nn.Module
        Changed in place: every module of cunpool's in it, and itself if it is one, becomes PyTorch's of the same name.

    Returns
    -------
    torch.nn.Module
        `model`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> net = cunpool.torch.accelerate(torch.nn.Sequential(torch.nn.MaxPool2d(2)))
    >>> type(cunpool.torch.restore(net)[0]) is torch.nn.MaxPool2d
    True
    """
    for module in model.modules():
        if type(module) in _THEIRS:
            module.__class__ = _THEIRS[type(module)]
            vars(module).pop("index_format", None)  # PyTorch's know one alone
    return model
