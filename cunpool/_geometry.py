"""Sizes: arguments as one integer per axis, and the resulting output sizes. Imports only the standard library.

Every function receives the number `n` of spatial axes. Kernels receive a geometry as one flat tuple of twenty
integers: full size, pooled size, kernel, stride, padding and dilation, each for depth, height and width; whether every
window has elements of the array; and whether kernels can decode window codes. 1d and 2d have leading axes of size 1,
with windows of 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, SupportsIndex

from cunpool import _adaptive_axis, _padding, _remedies
from cunpool._integers import LARGEST as LARGEST
from cunpool._integers import Shape as Shape
from cunpool._integers import Size as Size
from cunpool._integers import entries as entries
from cunpool._integers import hashable as hashable
from cunpool._integers import integer as integer
from cunpool._integers import per_axis as per_axis
from cunpool._padding import Padding as Padding
from cunpool._remedies import shown

Window = tuple[Size, Size | None, Padding, Size]
"""kernel_size, stride, padding and dilation."""

EvenWindow = tuple[Size, Size | None, Size, Size]
"""The same where both ends of an axis have one padding."""

Sizes = tuple[int, ...]
Fixed = tuple[int | Shape, int | Shape | None, _padding.Fixed, int | Shape]
"""A window whose entries are hashable."""

Geometry = tuple[Shape, int, Sizes]
"""The result's shape, how many entries that is, and the kernels' integers."""


def flag(name: str, value: object) -> bool:
    """Return `value` as a bool. A string or a size is usually an argument in the wrong position."""
    if value is True or value is False:
        return value
    if type(value).__name__ in ("bool", "bool_") or (type(value) is int and value in (0, 1)):  # NumPy's have both names
        return bool(value)
    raise TypeError(f"{name} must be True or False, got {shown(value)}")


def window(kernel_size: Size, stride: Size | None, padding: Padding, dilation: Size) -> Fixed:
    """Return the arguments that set the positions of windows, `hashable`."""
    if type(kernel_size) is type(padding) is type(dilation) is int and (stride is None or type(stride) is int):
        return kernel_size, stride, padding, dilation
    return (
        hashable("kernel_size", kernel_size),
        stride if stride is None else hashable("stride", stride),
        _padding.hashable(padding),
        hashable("dilation", dilation),
    )


def spatial(n: int, shape: Shape, name: str = "input") -> Shape:
    """The trailing `n` axes of (N, C, *spatial) or (C, *spatial)."""
    if len(shape) not in (n + 1, n + 2):
        raise ValueError(
            f"{name} must have {n + 1} or {n + 2} axes, (C, *spatial) or (N, C, *spatial), got {shown(shape)}"
            f"{_remedies.for_axes(n, shape, name)}"
        )
    return shape[-n:]


@lru_cache(maxsize=1024)
def code_bytes(kernel: Shape) -> int:
    """How many bytes a window code takes: 1 or 2."""
    elements = math.prod(kernel)
    if elements > 1 << 16:
        raise ValueError(
            f"window codes are for windows of at most 65536 elements, got kernel_size {kernel}: {elements} elements; "
            "index_format='plane' is for any window"
        )
    return 1 if elements <= 1 << 8 else 2


IndexFormat = Literal["plane", "window"]
NanPolicy = Literal["propagate", "omit"]
FORMATS = ("plane", "window")
NAN_POLICIES = ("propagate", "omit")


def is_window(index_format: str) -> bool:
    """Whether indices are window codes."""
    if not isinstance(index_format, str) or index_format not in FORMATS:
        raise ValueError(f"index_format must be one of {FORMATS}, got {shown(index_format)}")
    return index_format == "window"


def omits_nan(nan_policy: str) -> bool:
    """Whether NaN is omitted."""
    if not isinstance(nan_policy, str) or nan_policy not in NAN_POLICIES:
        raise ValueError(f"nan_policy must be one of {NAN_POLICIES}, got {shown(nan_policy)}")
    return nan_policy == "omit"


def flat_sizes(n: int, full: Shape, pooled: Shape, *window: Shape) -> Sizes:
    """The kernels' twenty integers."""
    ones, zeros = (1,) * (3 - n), (0,) * (3 - n)
    kernel, stride, padding, dilation = window
    has_elements = all(map(_has_every_window_elements, full, pooled, *window))
    sizes = ones + full + ones + pooled + ones + kernel + ones + stride + zeros + padding + ones + dilation
    return (*sizes, has_elements, _are_codes_decodable(sizes))


def _has_every_window_elements(size: int, pooled: int, kernel: int, stride: int, padding: int, dilation: int) -> bool:
    """Whether no window of an axis misses the array, as one may that begins in the padding and has a wide dilation."""
    if kernel == 1 or dilation <= size:
        return True
    before = range(padding, 0, -stride)[: min(pooled, dilation)]  # from the window's begin to the array
    return not any(0 < distance % dilation <= dilation - size for distance in before)


def _pooled_size(size: int, kernel: int, stride: int, before: int, after: int, dilation: int, ceil_mode: bool) -> int:
    room = size + before + after - dilation * (kernel - 1) - 1
    pooled = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    # In ceil mode the last window has to start inside the input or the padding before it.
    return pooled - 1 if ceil_mode and (pooled - 1) * stride >= size + before else pooled


def _are_codes_decodable(sizes: Sizes) -> bool:
    """Whether kernels can decode window codes, by their first eighteen integers.

    Inside a block of windows kernels count in 16 bits, and divide codes by 16-bit reciprocals. Indices have 32 bits.
    """
    layers, rows, columns = sizes[6:9]
    return (
        all((k - 1) * d + 1 < 1 << 14 for k, d in zip(sizes[6:9], sizes[15:18], strict=True))
        and (2 * layers * rows * columns - 1) * columns < 1 << 16
        and (2 * layers * rows - 1) * rows < 1 << 16
        and math.prod(sizes[:3]) < 1 << 31
    )


@lru_cache(maxsize=1024)
def pooling(
    n: int,
    shape: Shape,
    kernel_size: int | Shape,
    stride: int | Shape | None,
    padding: _padding.Fixed,
    dilation: int | Shape,
    ceil_mode: bool,
    codes: bool,
) -> Geometry:
    """Return the geometry of pooling `shape`."""
    full = spatial(n, shape)
    kernel = per_axis(n, "kernel_size", kernel_size, 1)
    strides = kernel if stride is None else per_axis(n, "stride", stride, 1)
    dilations = per_axis(n, "dilation", dilation, 1)
    before, after = _padding.ends(n, padding, full, kernel, strides, dilations)
    is_even = _padding.is_even(padding)
    if is_even and any(2 * p > k for p, k in zip(before, kernel, strict=True)):
        raise ValueError(
            f"padding must be at most half of kernel_size, got padding {padding} for {kernel_size}; "
            f"{_remedies.for_much_padding(before, kernel, dilations)}"
        )
    if ceil_mode and isinstance(padding, str):
        raise ValueError(
            f"ceil_mode must be False with padding={padding!r}, whose windows reach the end of each axis; leave it out"
        )
    pooled = tuple(map(_pooled_size, full, kernel, strides, before, after, dilations, (ceil_mode,) * n))
    if min(pooled) < 1 or min(full) < 1:
        raise ValueError(
            f"the windows do not fit: pooling {shown(full)} would give {shown(pooled)}, "
            f"and every size must be at least 1{_remedies.for_windows_that_do_not_fit(n, shape, kernel, dilations)}"
        )
    if math.prod(kernel) > LARGEST:
        raise OverflowError(f"a window must have at most 2**60 elements, got kernel_size {kernel_size}")
    steps = [math.prod(full[axis + 1 :]) for axis in range(n)]
    span = sum(d * (k - 1) * step for d, k, step in zip(dilations, kernel, steps, strict=True))
    if codes:
        code_bytes(kernel)
    if span > LARGEST and not (codes and is_even):
        raise OverflowError(
            f"a window must span at most 2**60 elements of its plane in raster order, got {shown(span)}"
        )
    result = shape[:-n] + pooled
    return result, math.prod(result), flat_sizes(n, full, pooled, kernel, strides, before, dilations)


@lru_cache(maxsize=1024)
def pooling_and_layout(
    n: int,
    shape: Shape,
    kernel_size: int | Shape,
    stride: int | Shape | None,
    padding: _padding.Fixed,
    dilation: int | Shape,
    ceil_mode: bool,
    codes: bool,
) -> tuple[Shape, int, Sizes, str]:
    """What `pooling` says, and what to say of channels that seem to come last, or ""."""
    result, count, sizes = pooling(n, shape, kernel_size, stride, padding, dilation, ceil_mode, codes)
    return result, count, sizes, _remedies.channels_last(n, shape, sizes[9 - n : 9])


def in_both_modes(n: int, shape: Shape, window: Fixed) -> tuple[Geometry, Shape]:
    """Return the geometry of pooling `shape` in ceil mode, and the shape without it, which may be empty."""
    if isinstance(window[2], str):  # a name has no ceil mode
        geometry = pooling(n, shape, *window, False, False)
        return geometry, geometry[0]
    # Ceil mode never gives fewer windows, so that it raises the error if none fits in either mode.
    geometry = pooling(n, shape, *window, True, False)
    full, _, kernel, stride, _, dilation = (geometry[2][end - n : end] for end in range(3, 21, 3))
    before, after = _padding.ends(n, window[2], full, kernel, stride, dilation)
    return geometry, shape[:-n] + tuple(map(_pooled_size, full, kernel, stride, before, after, dilation, (False,) * n))


def either(floored: Shape, ceiled: Shape) -> str:
    """Return the shapes that a pooling may give, as text for a message."""
    return shown(floored) if floored == ceiled else f"{shown(floored)}, or {shown(ceiled)} in ceil mode"


@lru_cache(maxsize=1024)
def pooled_from(n: int, input_shape: Shape, grad_shape: Shape, window: Fixed) -> Geometry:
    """Return the geometry of pooling `input_shape`, in the rounding mode that gives `grad_shape`."""
    spatial(n, grad_shape, "grad_output")
    if len(input_shape) != len(grad_shape):
        whole = f"{len(grad_shape)}, the shape of what was pooled"
        raise ValueError(f"input_size must have {n} entries, the spatial ones, or {whole}, got {shown(input_shape)}")
    geometry, floored = in_both_modes(n, input_shape, window)
    if grad_shape not in (geometry[0], floored):
        gives = either(floored, geometry[0])
        raise ValueError(
            f"grad_output must have the shape that pooling {shown(input_shape)} gives, {gives}, got {grad_shape}; "
            "input_size is the shape of what was pooled"
        )
    return geometry if geometry[0] == grad_shape else pooling(n, input_shape, *window, False, False)


@lru_cache(maxsize=1024)
def unpooling(
    n: int,
    shape: Shape,
    kernel_size: int | Shape,
    stride: int | Shape | None,
    padding: _padding.Fixed,
    dilation: int | Shape,
    output_size: Shape | None,
    name: str = "output_size",
) -> Geometry:
    """Return the geometry of unpooling `shape`; `name` is the requested size's name in messages."""
    pooled = spatial(n, shape)
    kernel = per_axis(n, "kernel_size", kernel_size, 1)
    strides = kernel if stride is None else per_axis(n, "stride", stride, 1)
    dilations = per_axis(n, "dilation", dilation, 1)
    if isinstance(padding, str):
        full = tuple(size * s for size, s in zip(pooled, strides, strict=True))
        legal = [range(size - s + 1, size + 1) for size, s in zip(full, strides, strict=True)]
        rule = f"be one that padding={padding!r} and stride {strides} pool to {shown(pooled)}"
    else:
        both = map(sum, zip(*_padding.ends(n, padding, pooled, kernel, strides, dilations), strict=True))
        full = tuple(
            (size - 1) * s - p + d * (k - 1) + 1
            for size, k, s, p, d in zip(pooled, kernel, strides, both, dilations, strict=True)
        )
        legal = [range(size - s + 1, size + s) for size, s in zip(full, strides, strict=True)]
        rule = f"lie within one stride {strides} of the default size {shown(full)}, exclusive, on every axis"
    if output_size is not None:
        is_dilation_told = not isinstance(padding, str) and max(dilations) == 1
        full = _explicit(shape, legal, rule, is_dilation_told, output_size, name)
    least = 1 if math.prod(shape) else 0
    if min(full) < least:
        raise ValueError(
            f"the output would have size {shown(full)}, and every size must be at least {least}; kernel_size, stride "
            "and padding have to be those of the pooling, and output_size the shape of what was pooled"
        )
    if max(full) > LARGEST:
        raise OverflowError(f"the output would have size {shown(full)}, and every size must be at most 2**60")
    before, _ = _padding.ends(n, padding, full, kernel, strides, dilations)
    result = shape[:-n] + full
    return result, math.prod(result), flat_sizes(n, full, pooled, kernel, strides, before, dilations)


def _explicit(
    shape: Shape, legal: Sequence[range], rule: str, is_dilation_told: bool, output_size: Shape, name: str
) -> Shape:
    """The caller's output size. Each axis has to be in its range of `legal`; errors state the `rule`."""
    n = len(legal)
    if len(output_size) not in (n, n + 2, len(shape)):
        whole = f"{len(shape)}, with {'C' if len(shape) == n + 1 else 'N and C'} in front"
        raise ValueError(f"{name} must have {n} entries, the spatial ones, or {whole}, got {shown(output_size)}")
    sizes = output_size[-n:]
    if not all(size in some for size, some in zip(sizes, legal, strict=True)):
        remedy = _remedies.for_an_output_size(legal, is_dilation_told) if name == "output_size" else ""
        raise ValueError(f"{name} must {rule}, got {shown(sizes)}{remedy}")
    return sizes


@lru_cache(maxsize=1024)
def unpooled_to(n: int, indices_shape: Shape, grad_shape: Shape, window: Fixed) -> Geometry:
    """Return the geometry of unpooling with these indices, whose result must have `grad_shape`."""
    check_lead(n, indices_shape, grad_shape)
    return unpooling(n, indices_shape, *window, grad_shape[-n:], "the spatial size of grad_output")


OutputSize = SupportsIndex | Sequence[SupportsIndex | None]
"""A number of windows: an integer for all axes, or for each axis an integer or None, the size of the input."""


def hashable_output(output_size: OutputSize) -> int | tuple[int | None, ...]:
    """Return the `output_size` of adaptive pooling in a form that caches can hold."""
    if isinstance(output_size, Sequence) and not isinstance(output_size, (str, bytes)) and None in output_size:
        return tuple(None if size is None else integer("output_size", size) for size in output_size)
    return hashable("output_size", output_size)  # type: ignore[arg-type]


@lru_cache(maxsize=1024)
def adaptive_pooling(n: int, shape: Shape, output_size: int | tuple[int | None, ...]) -> Geometry:
    """Return the geometry of pooling `shape` to `output_size` windows of unequal sizes."""
    full = spatial(n, shape)
    asked = output_size if isinstance(output_size, tuple) else (output_size,) * n
    counts = per_axis(n, "output_size", tuple(0 if count is None else count for count in asked), 0, output_size)
    pooled = tuple(size if one is None else count for size, one, count in zip(full, asked, counts, strict=True))
    if min(full) < 1:
        raise ValueError(f"every spatial size of input must be at least 1, got {shown(full)}")
    if max(size * count for size, count in zip(full, pooled, strict=True)) > LARGEST:
        raise OverflowError(f"size * output_size must be at most 2**60 on every axis, got {shown(full)}, {pooled}")
    result = shape[:-n] + pooled
    return result, math.prod(result), adaptive_sizes(n, full, pooled, True)


@lru_cache(maxsize=1024)
def adaptive_sizes(n: int, full: Shape, pooled: Shape, exact: bool = False) -> Sizes:
    """The kernels' integers for adaptive windows.

    Pooling needs the `exact` windows. A kernel of 0 says that these do not lie one stride apart. The other kernels
    receive larger windows, which contain all indices.
    """
    ones, zeros = (1,) * n, (0,) * n
    if all(count and size % count == 0 for size, count in zip(full, pooled, strict=True)):
        kernel = tuple(size // count for size, count in zip(full, pooled, strict=True))
        return flat_sizes(n, full, pooled, kernel, kernel, zeros, ones)
    if exact:
        if math.prod(-(-size // max(count, 1)) + 1 for size, count in zip(full, pooled, strict=True)) >= 1 << 31:
            raise OverflowError(f"a window must have less than 2**31 elements, got {shown(full)} for {pooled} windows")
        windows = list(map(_adaptive_axis.one_stride_apart, full, pooled))
        kernel, stride, padding = zip(*(window or (0, 1, 0) for window in windows), strict=True)
        return flat_sizes(n, full, pooled, kernel if all(windows) else zeros, stride, padding, ones)
    kernel, stride = window_between(full, pooled)
    if any(count > size for size, count in zip(full, pooled, strict=True)):
        # A window for each element of the longer axis: each has the whole plane inside.
        kernel = tuple(size + count for size, count in zip(full, pooled, strict=True))
        return flat_sizes(n, full, pooled, kernel, ones, pooled, ones)
    return flat_sizes(n, full, pooled, kernel, stride, zeros, ones)


def adaptive_full(n: int, shape: Shape, size: Shape, name: str) -> Shape:
    """The shape of the input that was pooled to `shape`. Its `size` has the spatial entries, or all."""
    spatial(n, shape, "input" if name == "output_size" else "grad_output")
    if len(size) not in (n, n + 2, len(shape)):
        raise ValueError(f"{name} must have {n} entries, the spatial ones, or {len(shape)}, got {shown(size)}")
    full = per_axis(n, name, size[-n:], 1 if math.prod(shape) else 0, size)
    return shape[:-n] + full


def check_lead(n: int, indices_shape: Shape, grad_shape: Shape) -> None:
    """Raise a ValueError unless indices have the N and C of the gradient of unpooling."""
    spatial(n, grad_shape, "grad_output")
    if len(indices_shape) != len(grad_shape) or indices_shape[:-n] != grad_shape[:-n]:
        raise ValueError(f"indices must have the N and C of grad_output, {grad_shape}, got {indices_shape}")


def window_between(full: Shape, pooled: Shape) -> tuple[Shape, Shape]:
    """The kernel and the stride of windows that pool `full` to `pooled`, one after the other, where that is possible.

    The windows cover the plane, and all but the last one on each axis lie side by side.
    """
    stride = tuple(max(size // max(count, 1), 1) for size, count in zip(full, pooled, strict=True))
    kernel = tuple(max(size - (count - 1) * s, 1) for size, count, s in zip(full, pooled, stride, strict=True))
    return kernel, stride


@lru_cache(maxsize=1024)
def taking(n: int, shape: Shape, indices_shape: Shape, window: Fixed, located: bool) -> tuple[Sizes, bool]:
    """The kernels' integers for taking at indices from `shape`, and whether every window reaches into the plane.

    Indices are `located` where each belongs to its window: window codes do, and indices of arrays in chunks. For others
    the windows say nothing but in what order memory is read, so they are made up.
    """
    full = spatial(n, shape)
    if len(indices_shape) != len(shape) or indices_shape[:-n] != shape[:-n]:
        raise ValueError(
            f"indices must have the N and C of input, {shape[:-n]}, and {n} spatial axes, got {indices_shape} for "
            f"input of shape {shape}; numpy.broadcast_to repeats an array without a copy"
        )
    pooled = indices_shape[-n:]
    kernel = per_axis(n, "kernel_size", window[0], 1)
    stride = kernel if window[1] is None else per_axis(n, "stride", window[1], 1)
    dilation = per_axis(n, "dilation", window[3], 1)
    padding, _ = _padding.ends(n, window[2], full, kernel, stride, dilation)
    if not located:
        ones, zeros = (1,) * n, (0,) * n
        return flat_sizes(n, full, pooled, *window_between(full, pooled), zeros, ones), True
    inside = True
    for size, count, k, s, p, d in zip(full, pooled, kernel, stride, padding, dilation, strict=True):
        last, reach = max(count - 1, 0) * s, d * (k - 1)
        if last + reach > LARGEST:
            raise OverflowError(
                f"windows must span at most 2**60 elements on every axis, got {last + reach + 1} for {indices_shape}"
            )
        # The first window ends in the plane or behind it, and the last one begins in it or before it.
        inside = inside and p <= reach and last - p < size and size > 0
    return flat_sizes(n, full, pooled, kernel, stride, padding, dilation), inside
