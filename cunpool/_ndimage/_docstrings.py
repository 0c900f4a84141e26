"""Paragraphs shared by the docstrings of the filters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from cunpool import _docstrings

Documented = TypeVar("Documented", bound=Callable[..., Any])

RAISES = """\
Raises
------
TypeError
    If the dtype of `input` is not supported, which complex ones are not.
ValueError
    If sizes, origins, modes or axes do not fit, or a size is below 1. Where SciPy raises a RuntimeError, the error is
    of that class too."""

PARTS = {
    "input": """\
input : array_like
    Array with any number of axes and any strides. The dtype is bool, an integer, float16, bfloat16 (of ml_dtypes),
    float32 or float64.""",
    "size": """\
size : int or sequence of int
    Size of the window: one for all axes, or one for each. Ignored if `footprint` is given.""",
    "size1d": """\
size : int
    Size of the window.""",
    "footprint": """\
footprint : array_like of bool, optional
    The elements of the window that count, with an axis for each axis that is filtered.""",
    "structure": """\
structure : array_like, optional
    Zeros in the shape of the window, where `footprint` is not given. Others are not served.""",
    "output": """\
output : numpy.ndarray or dtype, optional
    Array for the values, which may be `input` or overlap it, or their dtype. The default is the dtype of `input`.""",
    "mode": """\
mode : {"reflect", "constant", "nearest", "mirror", "wrap"} or sequence of these
    The elements beyond the ends of an axis. Before a b c d stand: c b a for "reflect", d c b for "mirror", a a a for
    "nearest", b c d for "wrap", and `cval` for "constant". SciPy's synonyms "grid-mirror", "grid-wrap" and
    "grid-constant" are accepted too. One for all axes, or one for each; a footprint has one.""",
    "cval": """\
cval : float
    The element beyond the ends with the mode "constant". It takes part in comparisons as a float64, and is cast to the
    dtype of the result.""",
    "origin": """\
origin : int or sequence of int
    How far the window is moved towards the beginning of the array, from ``-(size // 2)`` to ``(size - 1) // 2``.""",
    "axes": """\
axes : int or iterable of int, optional
    The axes that are filtered. The default is all of them.""",
    "axis": """\
axis : int
    The axis that is filtered.""",
    "return_indices": """\
return_indices : bool
    Whether to return the indices too.""",
    "returns": """\
Returns
-------
values : numpy.ndarray
    The extremes, with the shape of `input`, or the array given in `output`.
indices : numpy.ndarray of int64
    Only with `return_indices`: the position in ``input.ravel()`` of each extreme. The first of
    equal ones counts, in raster order of the window. An element beyond the ends counts as the element that it repeats.
    The index is -1 where `cval` is the extreme. The pair is a named tuple with the fields `values` and `indices`.""",
    "returns_one": """\
Returns
-------
numpy.ndarray
    The result, with the shape of `input`, or the array given in `output`.""",
    "raises1d": RAISES,
    "raises": f"{RAISES} If `structure` is not zero.",
}
PARTS["mode1d"] = (
    PARTS["mode"]
    .replace(" or sequence of these", "")
    .replace(" One for all axes, or one for each; a footprint has one.", "")
)
PARTS["origin1d"] = PARTS["origin"].replace(" or sequence of int", "")

# The parameters of each kind of function, in order.
LISTS = {
    "parameters": "input size footprint output mode cval origin axes return_indices num_threads",
    "parameters1d": "input size1d axis output mode1d cval origin1d return_indices num_threads",
    "parameters_of_grey": "input size footprint structure output mode cval origin axes return_indices num_threads",
    "parameters_of_two": "input size footprint structure output mode cval origin axes num_threads",
}


def shares(function: Documented) -> Documented:
    """Replace ``{names}`` in the docstring with the shared paragraphs, here and of pooling."""
    text = inspect.cleandoc(function.__doc__ or "")  # python -OO strips it
    for name, names in LISTS.items():
        text = text.replace(f"{{{name}}}", "\n".join(PARTS.get(one, f"{{{one}}}") for one in names.split()))
    for name, part in PARTS.items():
        text = text.replace(f"{{{name}}}", part)
    function.__doc__ = text
    return _docstrings.shares(function)
