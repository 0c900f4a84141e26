"""How a call would be done: which method, why not another, with how many threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cunpool import _simd, _threads
from cunpool._kernels import runtime as _runtime

KERNELS = "cunpool/_kernels/"


@dataclass(frozen=True)
class Explanation:
    """What `explain` returns; printed, it is a report of a few lines."""

    function: str
    """Name of the function or module."""
    method: str | None
    """Name of the method, or None where there is nothing to compute."""
    file: str | None
    """Source file of the method's loop."""
    symbol: str | None
    """Function in that file."""
    rejected: Sequence[tuple[str, str]]
    """The methods before it in the table, each with the reason why it does not serve this call."""
    details: Sequence[str]
    """What else the plan does, such as taking another axis for the width."""
    fallback: str | None
    """What happens to data that the loop does not expect, or None."""
    tasks: int
    """Parts of the call that threads take one by one."""
    blocks: Mapping[str, int]
    """The size of a block along each axis, where a task has several."""
    scratch_bytes: int
    """Memory that the call works in, beside its arrays."""
    instruction_set: str
    """The instruction set that the kernels use."""
    threads: int
    """Threads that the call would use now."""
    threads_cause: str
    """Why so many."""

    def __str__(self) -> str:
        if self.method is None:
            return f"{self.function}: the result has no elements, and no kernel runs"
        lines = [("method", f"{self.method}, {self.file}: {self.symbol}")]
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
    """Explain how a call would be done, without doing it.

    Parameters
    ----------
    function : callable
        A function of cunpool that pools, unpools, computes a gradient or takes elements; or a module, such as
        ``cunpool.MaxPool2d(3)``.
    *args, **kwargs
        The arguments of the call. They are checked as in the call. Neither their elements nor those of `out` are read
        or written.

    Returns
    -------
    Explanation
        Printed, it shows the method, the file and the function of its loop, why the methods before it do not serve the
        call, what depends on data, and the tasks, blocks, scratch memory and threads. Each of these is an attribute.

    Raises
    ------
    TypeError
        If `function` computes nothing in a kernel of cunpool.
    Exception
        What the call itself would raise for its arguments, apart from errors in the values of indices.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> plan = cu.explain(cu.max_pool2d, np.zeros((1, 3, 8, 8), np.int64), 2, return_indices=True)
    >>> plan.method, plan.file, plan.symbol
    ('deal', 'cunpool/_kernels/pooling/deal.pxd', 'pool_block')
    >>> print(plan)  # doctest: +ELLIPSIS
    max_pool2d
      method   deal, cunpool/_kernels/pooling/deal.pxd: pool_block
      not      copy to C order, then one of these: rows are contiguous...
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
        return Explanation(name, None, None, None, (), (), None, 0, {}, 0, _simd.IN_USE, 0, "")
    if plan["threads"] < plan["allowed"]:
        cause = "one for each task"
    elif plan["threads"] > 1 and cause == _threads.LITTLE:
        cause = "num_threads"
    return Explanation(
        function=name,
        method=plan["method"],
        file=KERNELS + plan["file"],
        symbol=plan["function"],
        rejected=tuple(plan["rejected"]),
        details=tuple(plan["details"]),
        fallback=plan["fallback"],
        tasks=plan["tasks"],
        blocks=plan["blocks"],
        scratch_bytes=plan["scratch_bytes"],
        instruction_set=_simd.IN_USE,
        threads=plan["threads"],
        threads_cause=cause,
    )
