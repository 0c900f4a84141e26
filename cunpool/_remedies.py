"""Remedies for refused sizes: the last part of the messages of `_geometry`. Imports only the standard library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Shape = tuple[int, ...]

AXES = {1: ("length",), 2: ("height", "width"), 3: ("depth", "height", "width")}
"""Names of the spatial axes."""

OTHER_BORDERS = "numpy.pad with the lowest value of the dtype makes other borders"


def shown(value: object) -> str:
    """Return `value` as text for a message, shortened if it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print integers of several thousand digits
        if isinstance(value, tuple):
            return f"({', '.join(map(shown, value))}{',' * (len(value) == 1)})"
        return f"an integer of {value.bit_length()} bits" if isinstance(value, int) else _kind(value)
    if type(value) is int and len(text) > 80:
        return f"an integer of {value.bit_length()} bits"
    return text if len(text) <= 80 and "\n" not in text else _kind(value)


def _kind(value: object) -> str:
    return f"an object of type {type(value).__name__}"


def type_of(value: object) -> str:
    """Return the name of the type of `value` with its library, such as "list" or "xarray.DataArray"."""
    library = type(value).__module__.partition(".")[0]
    return type(value).__name__ if library == "builtins" else f"{library}.{type(value).__name__}"


def listed(words: Sequence[str]) -> str:
    """Return alternatives as text: "a", "a or b", "a, b or c"."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def numbers(values: Sequence[int]) -> str:
    """Return sorted integers as text: "7", "7 or 8", "7 to 9", "7, 8 or 11"."""
    if len(values) > 2 and values[-1] - values[0] == len(values) - 1:
        return f"{values[0]} to {values[-1]}"
    return listed([*map(str, values)])


def for_a_size(name: str, value: Any) -> str:
    """Return the remedy for a `value` that is not a size."""
    if name == "padding" and isinstance(value, str) and value.lower() == "valid":
        return "; 'valid' is padding=0"
    if name == "padding" and isinstance(value, str) and value.lower().startswith("same"):
        return (
            "; 'same' is padding=kernel_size // 2 for odd windows and a stride of 1; for larger strides, with "
            "ceil_mode=True, half of the elements that the last window lacks"
        )
    flat = value if isinstance(value, (tuple, list)) else (value,)
    if name == "padding" and any(isinstance(entry, (tuple, list)) for entry in flat):
        return f"; both ends of an axis have the same padding, one integer: {OTHER_BORDERS}"
    if any(isinstance(entry, bool) for entry in flat):
        return "; pass True and False by name, such as ceil_mode=True"
    if any(isinstance(entry, float) for entry in flat):
        return "; divide with //, or convert with int()"
    if isinstance(value, (set, frozenset, dict)):
        return "; its entries have no order: pass a tuple"
    if value is None:
        return "; pass an integer: 1 leaves an axis as it is" if name == "kernel_size" else "; leave it out"
    if isinstance(value, str):
        return "; convert text with int()" if value.strip().isdigit() else ""
    if len(flat) == 1 and isinstance(flat[0], (tuple, list)) and flat[0]:
        return f"; one pair of brackets is enough: pass {shown(tuple(flat[0]))}"
    return ""


def for_a_count(n: int, name: str, sizes: Shape) -> str:
    """Return the remedy for a size whose number of entries is not `n`."""
    count = len(sizes)
    if name == "padding" and count == 2 * n:
        if sizes[:n] == sizes[n:]:  # ONNX's order: padding before all axes, then after all axes
            return f"; both ends of an axis share one entry: pass padding={shown(sizes[:n])}"
        if sizes[::2] == sizes[1::2]:  # PyTorch's pad: both ends of the last axis, then of the previous one
            return f"; both ends of an axis share one entry: pass padding={shown(sizes[::-2])}"
        return f"; both ends of an axis have the same padding: {OTHER_BORDERS}"
    neutral = int(name != "padding")
    if count == n + 2:
        for inner, others in ((sizes[1:-1], sizes[:1] + sizes[-1:]), (sizes[2:], sizes[:2])):
            if others == (neutral, neutral):  # TensorFlow's sizes, with N and C
                return f"; N and C are not pooled over: pass {name}={shown(inner)}"
    if count == 1:
        return f"; pass {shown(sizes[0])} for all axes"
    return f"; for {count} axes there are the functions with {count}d in their names" if count in (2, 3) else ""


def smallest(name: str) -> str:
    """Return the remedy for a size below the minimum of its argument."""
    return {
        "kernel_size": "; 1 leaves an axis as it is",
        "stride": "; without stride it is kernel_size",
        "padding": "; to crop, pass a slice of the array",
        "dilation": "; 1 is a window without gaps",
    }[name]


def for_axes(n: int, shape: Shape, name: str) -> str:
    """Return the remedy for an array whose number of axes does not suit pooling over `n` axes."""
    if len(shape) == n:
        return f"; add a channel axis: {name}[None]"
    if len(shape) > n + 2:
        return f"; join the leading axes: {name}.reshape(-1, *{name}.shape[-{n + 1}:])"
    return ""


def channels_last(n: int, shape: Shape, kernel: Shape) -> str:
    """Return a warning if the last axis of `shape` looks like the channels and the window reaches across, else ""."""
    axis = len(shape) - n - 1
    if not (1 <= shape[-1] <= 4 and kernel[-1] > 1 and shape[axis] > 4):
        return ""
    return (
        f"the last axis of input, of size {shape[-1]}, looks like channels, but input is "
        f"{'(N, C, *spatial)' if axis else '(C, *spatial)'}: if it has its channels last, pass "
        f"numpy.moveaxis(input, -1, {axis})"
    )


def for_other_kinds(text: str, maker: str) -> str:
    """Return `text` with its remedies for arrays changed to convert the argument with `maker` first."""
    return text.replace("numpy.moveaxis(input,", f"numpy.moveaxis({maker}(input),")


def for_windows_that_do_not_fit(n: int, shape: Shape, kernel: Shape, dilation: Shape) -> str:
    """Return the remedy for windows larger than the array."""
    if not all(shape[-n:]):
        return "; an axis of the input is empty"
    hint = channels_last(n, shape, kernel)
    if hint:
        return f"; {hint}"
    spans = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True))
    return f"; a window spans {shown(spans)} elements: take a smaller kernel_size or dilation, or padding"


def for_an_output_size(default: Shape, stride: Shape, dilation: Shape) -> str:
    """Return the remedy for an output size that is not within one stride of the default."""
    nearest = [range(max(d - s + 1, 1), d + s) for d, s in zip(default, stride, strict=True)]
    if not all(nearest):
        return "; kernel_size, stride, padding and dilation have to be those of the pooling"
    legal = ", ".join(f"{name} {numbers(sizes)}" for name, sizes in zip(AXES[len(default)], nearest, strict=True))
    undilated = (
        f", or the dilation of that pooling (cunpool.max_unpool{len(default)}d takes it, cunpool.torch's does not)"
    )
    return f"; pass the shape of what was pooled: {legal}{undilated * (max(dilation) == 1)}"
