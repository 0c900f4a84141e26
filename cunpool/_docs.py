"""Paragraphs that docstrings share, so that each is written once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Documented = TypeVar("Documented", bound=Callable[..., Any])

PARTS = {
    "window": """
    kernel_size : int or sequence of int
        Size of the window in cells: one for all axes, or one for each.
    stride : int or sequence of int, optional
        Step from one window to the next in cells; `kernel_size` where it is not given.
    padding : int or sequence of int
        Cells of padding on both sides of each axis.""",
    "num_threads": """
    num_threads : int, optional
        Threads to use at most, for this call; see `set_num_threads`. The result does not depend on it.""",
    "out": """
    out : numpy.ndarray, optional
        Array for the result, of its shape and dtype and of any strides. After an error its contents are unspecified.""",
}


def shares(function: Documented) -> Documented:
    """Fill the docstring's ``{names}`` with the shared paragraphs."""
    if function.__doc__:  # python -OO strips it
        for name, text in PARTS.items():
            function.__doc__ = function.__doc__.replace(f"    {{{name}}}", text.lstrip("\n"))
    return function
