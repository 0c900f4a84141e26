"""Remedies for refused sizes: the last part of the messages of `_geometry`. Imports only the standard library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Shape = tuple[int, ...]

AXES = {1: ("length",), 2: ("height", "width"), 3: ("depth", "height", "width")}
"""Names of the spatial axes."""

ONE_PADDING = (
    "cunpool.torch pads both ends of an axis alike: torch.nn.functional.pad with the lowest value of the dtype makes "
    "other borders, and cunpool's functions for NumPy arrays take pairs and 'same'"
)
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
    flat = value if isinstance(value, (tuple, list)) else (value,)
    is_nested = any(isinstance(entry, (tuple, list)) for entry in flat)
    inner = [one for entry in flat for one in (entry if isinstance(entry, (tuple, list)) else (entry,))]
    if name == "padding" and (is_nested or (isinstance(value, str) and value.lower().startswith("same"))):
        return f"; {ONE_PADDING}"
    if any(isinstance(entry, bool) for entry in inner):
        return "; pass True and False by name, such as ceil_mode=True"
    if any(isinstance(entry, float) for entry in inner):
        return "; divide with //, or convert with int()"
    if isinstance(value, (set, frozenset, dict)):
        return "; its entries have no order: pass a tuple"
    if value is None:
        return "; pass an integer: 1 leaves an axis as it is" if name == "kernel_size" else "; leave it out"
    if isinstance(value, str):
        return "; convert text with int()" if value.strip().isdigit() else ""
    if name and len(flat) == 1 and is_nested and flat[0]:
        return f"; one pair of brackets is enough: pass {shown(tuple(flat[0]))}"
    return ""


def for_a_named_padding(value: str) -> str:
    """Return the remedy for an unknown name of a padding."""
    name = value.strip().lower()
    if name in ("valid", "notset"):
        return f"; {value!r} is padding=0"
    if name.startswith("same"):
        return f"; pass {'same_lower' if 'lower' in name else 'same'!r}"
    return "; convert text with int()" if name.isdigit() else ""


def for_pairs(sides: Sequence[Shape], nested: Sequence[bool]) -> str:
    """Return the remedy for `sides` of a padding that are not all `nested` pairs."""
    if all(nested):
        return "; a pair has two entries, before and after"
    pairs = tuple(side * 2 if len(side) == 1 else side for side in sides)
    return f"; pass a pair for each axis: padding={shown(pairs)}"


def for_much_padding(padding: Shape, kernel: Shape, dilation: Shape) -> str:
    """Return the remedy for integers above half of the window."""
    if all(p <= d * (k - 1) for p, k, d in zip(padding, kernel, dilation, strict=True)):
        return f"pairs may have more: pass padding={shown(tuple((p, p) for p in padding))}"
    return OTHER_BORDERS


def for_a_count(n: int, name: str, sizes: tuple[Any, ...]) -> str:
    """Return the remedy for a size whose number of entries, integers or pairs, is not `n`."""
    count = len(sizes)
    pairs = any(isinstance(size, tuple) for size in sizes)
    if name == "padding" and count == 2 * n and not pairs:
        onnx = tuple(zip(sizes[:n], sizes[n:], strict=True))  # padding before all axes, then after all axes
        torch = tuple(zip(sizes[::2], sizes[1::2], strict=True))[::-1]  # both ends of the last axis first
        for ends in (onnx, torch):
            if all(before == after for before, after in ends):
                return f"; both ends of an axis share one entry: pass padding={shown(tuple(p for p, _ in ends))}"
        if n == 1:
            return f"; a pair (before, after) is nested: pass padding={shown(onnx)}"
        return f"; pairs (before, after) are nested: ONNX's pads are {shown(onnx)}, and PyTorch's {shown(torch)}"
    neutral: Any = (0, 0) if pairs else int(name != "padding")
    if count == n + 2:
        for inner, others in ((sizes[1:-1], sizes[:1] + sizes[-1:]), (sizes[2:], sizes[:2])):
            if others == (neutral, neutral):  # TensorFlow's sizes, with N and C
                return f"; N and C are not pooled over: pass {name}={shown(inner)}"
    if count == 1:
        return f"; pass {shown(sizes * n) if pairs else shown(sizes[0])} for all axes"
    return f"; for {count} axes there are the functions with {count}d in their names" if count in (2, 3) else ""


def smallest(name: str) -> str:
    """Return the remedy for a size below the minimum of its argument."""
    return {
        "kernel_size": "; 1 leaves an axis as it is",
        "stride": "; without stride it is kernel_size",
        "padding": "; to crop, pass a slice of the array",
        "dilation": "; 1 is a window without gaps",
    }.get(name, "")


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
        f"channel_axis=-1, or numpy.moveaxis(input, -1, {axis})"
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


def for_an_output_size(legal: Sequence[range], is_dilation_told: bool) -> str:
    """Return the remedy for an output size that is not `legal`. If `is_dilation_told`, dilation may be missing."""
    n, positive = len(legal), [range(max(sizes.start, 1), sizes.stop) for sizes in legal]
    if not all(positive):
        return "; kernel_size, stride, padding and dilation have to be those of the pooling"
    named = ", ".join(f"{name} {numbers(sizes)}" for name, sizes in zip(AXES[n], positive, strict=True))
    dilated = ", or the dilation of that pooling" if is_dilation_told else ""
    return f"; pass the shape of what was pooled: {named}{dilated}"
