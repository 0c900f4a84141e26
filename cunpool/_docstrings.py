"""Paragraphs shared by docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

SHAPES = {1: "(N, C, L) or (C, L)", 2: "(N, C, H, W) or (C, H, W)", 3: "(N, C, D, H, W) or (C, D, H, W)"}

Documented = TypeVar("Documented", bound=Callable[..., Any])

PARTS = {  # a part may contain the names of later ones
    "pooling": """\
{window}
    Integers are at most half of `kernel_size`, and each side of a pair is less than
    ``dilation * (kernel_size - 1) + 1``. The padding never wins.
{step}
ceil_mode : bool
    Whether to keep a last window that extends past the end, if it starts before the end. It must be False if
    `padding` is a name.
return_indices : bool
    Whether to return the indices too. Without them, `index_format` and `index_dtype` are checked, but not used, and
    windows may have any number of elements.
{index_format}
{index_dtype}
{nan_policy}
{channel_axis}
out : numpy.ndarray, or with `return_indices` a tuple of two, optional
    Array for the values, with their shape and dtype, and any strides. With `return_indices`, a pair of arrays for
    values and indices; either may be None. The result is correct even if an array overlaps `input`. The dtype of
    the indices is that of their array: int64 or int32, or uint8 or uint16 for window codes.
{num_threads}""",
    "maxima_gradient": """\
grad_output : array_like
    The gradient with respect to the maxima, of their shape, (N, C, H, W) or (C, H, W), and of float16, bfloat16,
    float32 or float64.
indices : array_like of integers
    The indices from the pooling, of the shape of `grad_output`.
input_size : sequence of int
    The shape of the pooling's input, or only its spatial sizes.""",
    "window": """\
kernel_size : int or sequence of int
    Size of the window in elements: one for all axes, or one for each.
stride : int or sequence of int, optional
    Step from one window to the next, in elements; the default is `kernel_size`.
padding : int, sequence of int, sequence of pairs of int, "same" or "same_lower"
    Elements of padding at both ends of each axis. Or a pair (before, after) for each axis, nested for a single axis
    too: ``((1, 2),)``. Or ``"same"``, which gives ``ceil(size / stride)`` windows. Half of the padding that they need,
    rounded down, comes before the axis, and the rest behind it; ``"same_lower"`` is the other way round.""",
    "index_format": """\
index_format : {"plane", "window"}
    The meaning of `indices`. "plane": positions in a plane of the larger array, which is pooling's input and
    unpooling's output. "window": window codes, which are positions in the window. Both are counted in raster order.
    Codes are uint8, or uint16 for windows of more than 256 elements.""",
    "index_dtype": """\
index_dtype : dtype, optional
    numpy.int64 (the default), or numpy.int32 for indices in half the memory, in planes of at most 2**31 elements. The
    dtype of window codes cannot be chosen.""",
    "nan_policy": """\
nan_policy : {"propagate", "omit"}
    How NaN compares. "propagate": NaN is the result of each window that has one. "omit": NaN is left out. A window of
    NaN alone then gives NaN and its first index. Without NaN in the input, as with integers, both give the same.""",
    "step": """\
dilation : int or sequence of int
    Step from one element of a window to the next.""",
    "dilation": """\
dilation : int or sequence of int
    Step from one element of a window to the next. The default size and the meaning of window codes depend on it.""",
    "background": """\
fill_value : scalar, optional
    The element to store where no index points, in place of zero. The dtype of `input` must be able to represent it.
    Floats are rounded to that dtype, but must not overflow.
onto : array_like, optional
    Array of the dtype, N and C of `input`. The result is a copy of it in which the maxima are stored. It sets the size
    and the memory layout of the result, so that `output_size` and `fill_value` are refused. With ``out=onto`` nothing
    is copied; then an `IndexError` leaves some of the maxima stored.""",
    "onto_gradient": """\
onto : bool
    Whether to return the gradient with respect to `onto` too: `grad_output`, with zeros at the indices.""",
    "channel_axis": """\
channel_axis : int, optional
    The axis of the channels in all arrays, as in scikit-image: -1 for ``(*spatial, C)`` or ``(N, *spatial, C)``. The
    results have the same order of axes. Indices still count the elements of one channel's plane. With None, the
    channels come right before the spatial axes.""",
    "num_threads": """\
num_threads : int, optional
    Number of threads for this call, which uses no more than it has tasks. With None, the call uses fewer where more
    would not be faster; see `set_num_threads`. The result does not depend on it.""",
    "block_threads": """\
num_threads : int, optional
    Greatest number of threads for each block. The default is one, because Dask's workers already use all
    processors. With None, the worker's process sets the limit; see `cunpool.set_num_threads`.""",
    "out": """\
out : numpy.ndarray, optional
    Array for the result, with its shape and dtype, and any strides. After an error its contents are unspecified.""",
}


def shares(function: Documented) -> Documented:
    """Replace ``{names}`` in the docstring with the shared paragraphs."""
    if function.__doc__:  # python -OO strips it
        text = inspect.cleandoc(function.__doc__)  # a no-op in Python 3.13, which cleans docstrings
        for name, part in PARTS.items():
            text = text.replace(f"{{{name}}}", part)
        function.__doc__ = text
    return function


def complete(one: Any, three: Any, two: Any) -> None:
    """Copy the sections between the summary and the examples of `two` to the docstrings for one axis and three."""
    if not two.__doc__:
        return
    model = inspect.cleandoc(two.__doc__)
    sections = model[model.index("Parameters\n") : model.index("Examples\n")]
    for n, short in ((1, one), (3, three)):
        text = sections.replace("2d", f"{n}d").replace(SHAPES[2], SHAPES[n])
        short.__doc__ = inspect.cleandoc(short.__doc__).replace("Examples\n", f"{text}Examples\n")
