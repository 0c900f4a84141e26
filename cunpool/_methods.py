"""What `explain` says of a kernel's plan: the files and functions of its method, its steps and its blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from cunpool._kernels import pool as _pool
from cunpool._kernels import unpool as _unpool


class Method(NamedTuple):
    """Where to read a method. Files are below ``cunpool/_kernels/``."""

    file: str
    function: str  # where to begin: the loop over the windows or blocks of a task
    loop: str  # the innermost loops: file and function
    fallback: str | None = None  # what happens to data that the loop does not expect


_EXACTLY = "a NaN, or a negative zero of 16 bits, {} compared again, exactly"
_WINDOWS_EXACTLY = "windows with " + _EXACTLY.format("are")
# By the names in the tables of the kernels.
METHODS = {
    "rolling": Method(
        "pooling/rolling_stripes.h",
        "cunpool_roll",
        "pooling/rolling_stripes.h: roll_stripe",
        "a block of rows with a NaN is compared again, by the comparison that finds NaN",
    ),
    "window2": Method(
        "pooling/window2.pxd",
        "pool_window2_rows",
        "pooling/window2_rows.h: window2_loop",
        "a block of rows with " + _EXACTLY.format("is"),
    ),
    "filter": Method(
        "pooling/filter.pxd",
        "filter_block",
        "pooling/run_loops.h: best_loop",
        "a block with a NaN or a negative zero is pooled in raster order (pooling/separable_block.pxd: separate)",
    ),
    "across": Method("pooling/across.pxd", "pool_across", "pooling/across_taps.h: across_loop", _WINDOWS_EXACTLY),
    "interleaved": Method(
        "pooling/interleaved.pxd", "pool_part", "pooling/across_taps.h: across_loop", _WINDOWS_EXACTLY
    ),
    "separable": Method(
        "pooling/separable_block.pxd",
        "separate",
        "pooling/run_loops.h: combine_loop",
        "a block with a NaN is compared by the comparison that finds NaN",
    ),
    "NumPy": Method("../_large.py", "pool", "../_large.py: _first_best and _pool_taps"),
    "fill": Method(
        "unpooling/fill.pxd",
        "fill_blocks",
        "unpooling/fill_lines.pxd: select_line, or for windows of 2 x 2 select_line_pairs",
        "an index outside its own window: the whole call is scattered (a window code is an error)",
    ),
    "scatter": Method(
        "unpooling/scatter.pxd",
        "scatter_planes",
        "unpooling/walk.pxd: move_each",
        "an index outside its window, where a plane is split: all is scattered again",
    ),
    "gather": Method("unpooling/scatter.pxd", "gather_task", "unpooling/walk.pxd: move_each"),
}

_STREAMED = "results are written by non-temporal stores: the arrays are larger than L3"
_POOLING_STEPS = {
    _pool.COPIED: "planes are copied to C order first (pooling/plan.pxd: copy_planes)",
    _pool.STACKED: "planes are stacked: their rows follow each other as those of one plane",
    _pool.WIDTH_SWAPPED: "another axis is taken for the width, along which memory runs",
    _pool.STREAMED: _STREAMED,
}
_UNPOOLING_STEPS = {
    _unpool.SPLIT: "planes are split between tasks",
    _unpool.INTERLEAVED: "channels are neighbours, and are moved together (unpooling/walk.pxd: move_neighbours)",
    _unpool.BY_INDICES: "indices of windows of 2 are compared as they are (unpooling/fill_indices.pxd)",
    _unpool.TURNED: "planes are turned to C order, some at a time (unpooling/turned.pxd: move_turned)",
    _unpool.ONTO: "elements are stored onto a background other than zeros",
    _unpool.STREAMED: _STREAMED,
}


def steps(plan: Mapping[str, Any]) -> Iterator[str]:
    """The steps of a plan beside its method."""
    method, ways = plan["method"], plan["ways"]
    if method not in ("fill", "scatter", "gather"):
        if "lot" in plan:
            windows, is_copied = plan["lot"]
            how = "copied to adjacent ones of one size, in lots" if is_copied else "pooled one after the other"
            yield f"windows of unequal sizes are {how} (../_unequal.py: pool); this plan is for the first {windows}"
        yield from (text for way, text in _POOLING_STEPS.items() if ways & way)
        if plan["shares_rows"]:
            yield "rows of windows are compared together (pooling/rolling_stripes.h: roll_stripe)"
        if plan["searches"]:
            yield "the index of each value is searched for in its window (pooling/search.pxd: search_window)"
        return
    yield from (text for way, text in _UNPOOLING_STEPS.items() if ways & way)
    if plan["codes"] and method != "fill":
        yield "window codes become indices (unpooling/window_codes.pxd: decode)"


def method_of(plan: Mapping[str, Any]) -> Method:
    """Where to read the plan's method, and the function and the loop that serve this call."""
    method = METHODS[plan["method"]]
    if plan["method"] == "fill":
        return method._replace(loop=_fill_loop(plan) or method.loop)
    return method


def _fill_loop(plan: Mapping[str, Any]) -> str | None:
    """The loop that selects the elements of a line, if it is not that of most lines."""
    unit, item_size, taps, mixed, vector_bytes = plan["line"]
    if plan["ways"] & _unpool.BY_INDICES:
        return "unpooling/fill_indices.pxd: fill_row_by_indices"
    if mixed:
        return "unpooling/fill_select.h: cunpool_select_mixed"
    size = unit * item_size
    if (unit > 1 or item_size == 16) and (size <= vector_bytes or size == 2 * vector_bytes):
        return "unpooling/fill_lines.pxd: select_units, by unpooling/fill_select.h: CUNPOOL_SELECT"
    if unit > 1 or taps == 1:
        return (
            "unpooling/fill_lines.pxd: select_unit, by unpooling/fill_select.h: CUNPOOL_SELECT_LOOP, "
            "and CUNPOOL_SELECT for what is left of less than 64 bytes"
        )
    return None


def blocks(plan: Mapping[str, Any]) -> dict[str, int]:
    """The size of a block along each axis, if a task has several blocks."""
    names: tuple[str, ...] = ("rows of windows",)
    if plan["method"] == "fill":
        names = ("rows of windows", "windows of a row", "neighbouring channels")
    elif plan["method"] == "interleaved":
        names = ("planes side by side", "layers of windows", "rows of windows")
    elif len(plan["blocks"]) == 4:
        names = ("layers of windows", "rows of windows", "columns of windows", "channels")
    copied = {"planes of a copy": plan["copied"]} if plan.get("copied") else {}
    return copied | dict(zip(names, plan["blocks"], strict=False))
