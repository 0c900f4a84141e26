"""On PyTorch's tensors: cunpool.torch, PyTorch's own functions, and these compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cells import Cell
from shared import bench

COMPILED = {cell.name for cell in bench.CELLS}  # compiling takes seconds: of the cells of arrays these will do


def prepared(cell: Cell, arrays: bench.Arrays, functions: Any, wrap: Callable[[Any], Any] | None = None) -> bench.Call:
    """The call of `functions`, which are PyTorch's or cunpool's, on tensors, made something else of by `wrap`."""
    import torch

    function, window = getattr(functions, f"max_{cell.op}{cell.n}d"), cell.window
    given = [torch.from_numpy(arrays["x"]).to(getattr(torch, cell.dtype))]
    options: dict[str, Any] = {"return_indices": cell.index != "none"}
    if cell.op == "unpool":
        given.append(torch.from_numpy(arrays["indices"]))
        options = {"output_size": cell.full[2:]}

    def run(*tensors: torch.Tensor) -> Any:
        return function(*tensors, *window, **options)

    call = run if wrap is None else wrap(run)
    return lambda: call(*given)


def inside(threads: int) -> bench.Prepared:
    """cunpool.torch, where a cell is of tensors: what others' times are divided by."""
    import torch

    import cunpool.torch as functions

    torch.set_num_threads(threads)
    return lambda cell, arrays: prepared(cell, arrays, functions) if cell.inside else None


def compiled(threads: int) -> bench.Prepared:
    """``torch.compile`` of PyTorch's functions, once for each cell."""
    import torch
    import torch._inductor.config as inductor
    import torch.nn.functional as F

    torch.set_num_threads(threads)
    inductor.compile_threads = 1  # no processes of its own, which nobody would stop in others' turns

    def wrap(function: Any) -> Any:
        torch.compiler.reset()
        return torch.compile(function, fullgraph=True, dynamic=False)

    def call(cell: Cell, arrays: bench.Arrays) -> bench.Call | None:
        return prepared(cell, arrays, F, wrap) if cell.n == 2 and (cell.inside or cell.name in COMPILED) else None

    return call
