"""The plan of a call: its method, the reasons against other methods, its number of threads."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cunpool import _methods, _simd, _threads
from cunpool._kernels import runtime as _runtime

KERNELS = "cunpool/_kernels/"


@dataclass(frozen=True)
class Explanation:
    """The result of `explain`; printed, it is a report of a few lines."""

    function: str
    """Name of the function or module."""
    method: str | None
    """Name of the method, or None if there is nothing to compute."""
    file: str | None
    """Source file in which to begin to read: the loop over the windows or blocks of a task."""
    symbol: str | None
    """Function in that file."""
    loop: str | None
    """Files and functions of the innermost loops. Files are below ``cunpool/_kernels/``."""
    rejected: Sequence[tuple[str, str]]
    """The methods before it in the table, each with the reason why it does not serve this call."""
    details: Sequence[str]
    """Other steps of the plan, such as using another axis as the width."""
    fallback: str | None
    """How data that the loop does not support are handled, or None."""
    tasks: int
    """Number of tasks that the threads share."""
    blocks: Mapping[str, int]
    """The size of a block along each axis, if a task has several blocks."""
    scratch_bytes: int
    """Bytes of memory that the call allocates besides its arrays."""
    instruction_set: str
    """The instruction set that the kernels use."""
    threads: int
    """Number of threads that the call would use now."""
    threads_cause: str
    """Reason for the number of threads."""

    def __str__(self) -> str:
        if self.method is None:
            return f"{self.function}: the result has no elements, and no kernel runs"
        lines = [("method", f"{self.method}, {self.file}: {self.symbol}")]
        lines.append(("loop", str(self.loop)))
        lines += [("not", f"{name}: {reason}") for name, reason in self.rejected]
        lines += [("plan", detail) for detail in self.details]
        if self.fallback:
            lines.append(("data", self.fallback))
        if self.blocks:
            lines.append(("block", ", ".join(f"{size} {what}" for what, size in self.blocks.items())))
        lines.append(("tasks", str(self.tasks)))
        lines.append(("scratch", f"{self.scratch_bytes} bytes"))
        lines.append(("SIMD", self.instruction_set))
        lines.append(("threads", f"{self.threads} ({self.threads_cause})"))
        return "\n".join([self.function, *(f"  {label:<8} {text}" for label, text in lines)])


def explain(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Explanation:
    """Explain how a call would be computed, without computing it.

    Parameters
    ----------
    function : callable
        A function of cunpool that pools, unpools, computes a gradient or takes elements. Or a module, such as
        ``cunpool.MaxPool2d(3)``.
    *args, **kwargs
        The arguments of the call. They are checked as in the call. No element of them or of `out` is read or
        written.

    Returns
    -------
    Explanation
        Printed, it shows the method, the files and functions to read, and why earlier methods do not serve the call. It
        also shows the effects of data, the tasks, blocks, scratch memory and threads. Each of these is an attribute.

    Raises
    ------
    TypeError
        If `function` computes nothing in a kernel of cunpool.
    Exception
        Any error that the call itself raises for its arguments, except errors in the values of indices.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> plan = cu.explain(cu.max_pool2d, np.zeros((1, 3, 8, 8), np.int64), (3, 2), return_indices=True)
    >>> plan.method, plan.file, plan.symbol
    ('separable', 'cunpool/_kernels/pooling/separable_block.pxd', 'separate')
    >>> print(plan)  # doctest: +ELLIPSIS
    max_pool2d
      method   separable, cunpool/_kernels/pooling/separable_block.pxd: separate
      loop     pooling/run_loops.h: combine_loop
      not      copying planes to C order first: rows are contiguous...
      not      rolling: ...
    """
    name = getattr(function, "__name__", None) or repr(function)
    plan: dict[str, Any] | None = None
    result: object = None

    def call() -> None:
        nonlocal plan, result
        _runtime.explain(True)
        try:
            result = function(*args, **kwargs)
        except _runtime.Planned as planned:
            plan = planned.args[0]
        finally:
            _runtime.explain(False)

    cause = _threads.cause_of(call)
    if plan is None:
        values = result[0] if isinstance(result, tuple) else result
        if getattr(values, "size", 1):
            raise TypeError(f"explain needs a function whose work is done by a kernel of cunpool, got {name}")
        return Explanation(name, None, None, None, None, (), (), None, 0, {}, 0, _simd.IN_USE, 0, "")
    if plan["threads"] < plan["allowed"]:
        cause = "one for each task"
    elif plan["threads"] > 1 and cause == _threads.LITTLE:
        cause = "num_threads"
    method = _methods.method_of(plan)
    return Explanation(
        function=name,
        method=plan["method"],
        file=posixpath.normpath(KERNELS + method.file),
        symbol=method.function,
        loop=method.loop,
        rejected=tuple(plan["rejected"]),
        details=tuple(_methods.steps(plan)),
        fallback=method.fallback if plan["any_data"] else None,
        tasks=plan["tasks"],
        blocks=_methods.blocks(plan),
        scratch_bytes=plan["scratch_bytes"],
        instruction_set=_simd.IN_USE,
        threads=plan["threads"],
        threads_cause=cause,
    )
