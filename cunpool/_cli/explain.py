"""``cunpool explain``: how a call with arrays of a given shape would be computed."""

from __future__ import annotations

import argparse
import re
from typing import Any

import numpy as np

import cunpool as cu
from cunpool import _geometry
from cunpool._cli.demo import Refusal

FUNCTIONS = [
    f"max_{name}{n}d{gradient}" for name in ("pool", "unpool") for gradient in ("", "_backward") for n in (1, 2, 3)
]
FUNCTIONS += ["min_pool1d", "min_pool2d", "min_pool3d"]  # the others of minima are the same functions
LAYOUTS = ("C", "F", "last", "interleaved")


def _sizes(text: str) -> tuple[int, ...]:
    """Integers separated by commas."""
    return tuple(int(size) for size in text.split(","))


def _window(text: str) -> int | tuple[int, ...]:
    sizes = _sizes(text)
    return sizes if len(sizes) > 1 else sizes[0]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "function", choices=FUNCTIONS, metavar="FUNCTION", help="function of cunpool, such as max_pool2d"
    )
    parser.add_argument("--shape", required=True, type=_sizes, help="shape of the first argument, channels first")
    parser.add_argument("--dtype", default="float32", help="dtype of that array (default: %(default)s)")
    parser.add_argument(
        "--layout",
        choices=LAYOUTS,
        default="C",
        help="its order in memory; last and interleaved are the same (default: C)",
    )
    parser.add_argument("--kernel", required=True, type=_window, help="size of the window, such as 3 or 3,2")
    parser.add_argument("--stride", type=_window, help="step from one window to the next (default: its size)")
    parser.add_argument("--padding", type=_window, default=0, help="elements at both ends of an axis (default: 0)")
    parser.add_argument("--dilation", type=_window, default=1, help="step inside a window (default: 1)")
    parser.add_argument("--ceil-mode", action="store_true", help="keep a last window that overhangs the end")
    parser.add_argument(
        "--indices",
        choices=("none", "plane", "window"),
        help="format of indices (default: none for pooling, else plane)",
    )
    parser.add_argument("--index-dtype", choices=("int64", "int32"), default="int64", help="dtype of plane indices")
    parser.add_argument("--output-size", type=_sizes, help="size of unpooling's output, or of pooling's input")
    parser.add_argument("--threads", type=int, help="num_threads of the call")


def laid_out(shape: tuple[int, ...], dtype: Any, layout: str, n: int) -> np.ndarray[Any, Any]:
    """An array of zeros in this layout. Its memory is never read or written."""
    if layout in ("last", "interleaved"):
        channel = len(shape) - n - 1
        return np.moveaxis(np.zeros((*shape[:channel], *shape[channel + 1 :], shape[channel]), dtype), -1, channel)
    return np.zeros(shape, dtype, order="F" if layout == "F" else "C")


def call_of(chosen: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of the call."""
    n = int(re.findall(r"\d", chosen.function)[0])
    if len(chosen.shape) <= n:
        raise ValueError(f"--shape needs {n + 1} or {n + 2} sizes for {chosen.function}, got {len(chosen.shape)}")
    window = chosen.kernel, chosen.stride, chosen.padding, chosen.dilation
    first = laid_out(chosen.shape, chosen.dtype, chosen.layout, n)
    is_pooling = chosen.function.startswith(("max_pool", "min_pool"))
    is_gradient = chosen.function.endswith("backward")
    keywords: dict[str, Any] = {"dilation": chosen.dilation, "num_threads": chosen.threads}
    if is_pooling and not is_gradient:
        keywords["ceil_mode"] = chosen.ceil_mode
        keywords["return_indices"] = chosen.indices in ("plane", "window")
        if chosen.indices == "window":
            keywords["index_format"] = "window"
        elif chosen.indices == "plane":
            keywords["index_dtype"] = chosen.index_dtype
        return [first, *window[:3]], keywords
    if chosen.indices == "none":
        raise ValueError(f"{chosen.function} has indices: --indices is plane or window")
    pooled = chosen.shape
    if is_gradient and not is_pooling:
        pooled = _geometry.pooling(n, pooled, *_geometry.window(*window), chosen.ceil_mode, False)[0]
    dtype: Any = chosen.index_dtype
    if chosen.indices == "window":
        dtype = f"u{_geometry.code_bytes(_geometry.per_axis(n, 'kernel_size', chosen.kernel, 1))}"
        keywords["index_format"] = "window"
    arrays = [first, laid_out(pooled, dtype, chosen.layout, n)]
    if is_pooling:
        size = chosen.output_size or _geometry.unpooling(n, pooled, *_geometry.window(*window), None)[0]
        return [*arrays, size, *window[:3]], keywords
    if not is_gradient and chosen.output_size:
        keywords["output_size"] = chosen.output_size
    return [*arrays, *window[:3]], keywords


def explain(chosen: argparse.Namespace) -> None:
    try:
        arguments, keywords = call_of(chosen)
        print(cu.explain(getattr(cu, chosen.function), *arguments, **keywords))
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise Refusal(str(error)) from None
