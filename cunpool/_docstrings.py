"""Paragraphs that docstrings share, so that each is written once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

SHAPES = {1: "(N, C, L) or (C, L)", 2: "(N, C, H, W) or (C, H, W)", 3: "(N, C, D, H, W) or (C, D, H, W)"}

Documented = TypeVar("Documented", bound=Callable[..., Any])

PARTS = {
    "window": """\
kernel_size : int or sequence of int
    Size of the window in cells: one for all axes, or one for each.
stride : int or sequence of int, optional
    Step from one window to the next in cells; `kernel_size` where it is not given.
padding : int or sequence of int
    Cells of padding on both sides of each axis.""",
    "index_format": """\
index_format : {"plane", "window"}
    What `indices` are: places in the large plane, which is pooling's input and unpooling's output, or window codes:
    places in the window. Both are counted in raster order; codes are uint8, or uint16 for windows of more than 256
    cells.""",
    "index_dtype": """\
index_dtype : dtype, optional
    numpy.int32 for indices in half the memory, where they count through at most 2**31 cells; numpy.int64 by default.
    Window codes have no choice.""",
    "dilation": """\
dilation : int or sequence of int
    Step from one cell of a window to the next. It enters the default size, and what window codes mean.""",
    "num_threads": """\
num_threads : int, optional
    Threads to use for this call, if it has tasks for so many. None leaves the number to the call, which takes fewer
    where they do not pay; see `set_num_threads`. The result does not depend on it.""",
    "out": """\
out : numpy.ndarray, optional
    Array for the result, of its shape and dtype and of any strides. After an error its contents are unspecified.""",
}


def shares(function: Documented) -> Documented:
    """Fill the docstring's ``{names}`` with the shared paragraphs."""
    if function.__doc__:  # python -OO strips it
        text = inspect.cleandoc(function.__doc__)  # Python 3.13 has done that already
        for name, part in PARTS.items():
            text = text.replace(f"{{{name}}}", part)
        function.__doc__ = text
    return function


def complete(one: Any, three: Any, two: Any) -> None:
    """Give the docstrings for one axis and three what stands in `two`'s between its first lines and its examples."""
    if not two.__doc__:
        return
    model = inspect.cleandoc(two.__doc__)
    sections = model[model.index("Parameters\n") : model.index("Examples\n")]
    for n, short in ((1, one), (3, three)):
        text = sections.replace("2d", f"{n}d").replace(SHAPES[2], SHAPES[n])
        short.__doc__ = inspect.cleandoc(short.__doc__).replace("Examples\n", f"{text}Examples\n")
