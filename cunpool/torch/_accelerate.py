"""Whole networks: their pooling and unpooling modules handed to cunpool, and taken back."""

from __future__ import annotations

from collections import Counter

import torch

from cunpool.torch import _operators, modules

_OURS = {
    getattr(torch.nn, f"{name}{n}d"): (n, getattr(modules, f"{name}{n}d"))
    for n in (1, 2, 3)
    for name in ("MaxPool", "MaxUnpool")
}
_THEIRS = {ours: theirs for theirs, (_, ours) in _OURS.items()}


def accelerate(model: torch.nn.Module, *, verbose: bool = False) -> torch.nn.Module:
    """Let cunpool do a network's max pooling and unpooling.

    Parameters
    ----------
    model : torch.nn.Module
        Changed in place: every ``torch.nn.MaxPool1d``, ``2d``, ``3d`` and ``torch.nn.MaxUnpool1d``, ``2d``, ``3d`` in
        it, and itself if it is one, becomes cunpool's of the same name. Subclasses of these stay as they are, and so
        do calls of functions, and modules with a `kernel_size` and such that cunpool does not take.
    verbose : bool
        Whether to print what was replaced, and what was left and why.

    Returns
    -------
    torch.nn.Module
        `model`.

    See Also
    --------
    restore : The opposite.

    Notes
    -----
    Modules keep their identity, their hooks and all of their state, and the network its names, its state dict, its
    results and its gradients. From then on the network runs on the CPU alone. ``torch.compile``, ``torch.export``,
    ``torch.jit.trace``, ``torch.fx`` and ``torch.func`` take it as they take the original.

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
    replaced: Counter[str] = Counter()
    left = []
    for name, module in model.named_modules():
        n, ours = _OURS.get(type(module), (0, None))
        reason = _refusal(n, module) if ours else "a subclass"
        if ours and not reason:
            module.__class__ = ours
        if type(module) in _THEIRS:
            replaced[type(module).__name__] += 1
        elif isinstance(module, tuple(_OURS)):
            left.append(f"left: {name or 'the model itself'} ({type(module).__name__}): {reason}")
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
        module.__class__ = _THEIRS.get(type(module), type(module))
    return model
