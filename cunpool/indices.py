"""Conversions between formats of indices: other libraries' indices, plane indices and window codes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, SupportsIndex, get_args

import numpy as np
import numpy.typing as npt

from cunpool import _arrays, _channels, _diagnostics, _formats, _geometry
from cunpool._arrays import Array
from cunpool._docstrings import shares
from cunpool._formats import Format
from cunpool._geometry import Padding, Shape, Size
from cunpool._remedies import shown

__all__ = ["convert_indices"]


class _Windows(NamedTuple):
    """The integers of a pooling, one per axis."""

    full: Shape
    pooled: Shape
    kernel: Shape
    stride: Shape
    padding: Shape
    dilation: Shape

    def starts(self) -> list[Array]:
        """Return the first position of each window along each axis, in shapes that broadcast."""
        n = len(self.full)
        return [
            (np.arange(size) * s - p).reshape((size,) + (1,) * (n - 1 - axis))
            for axis, (size, s, p) in enumerate(zip(self.pooled, self.stride, self.padding, strict=True))
        ]

    def to_codes(self, indices: Array) -> tuple[Array, Array]:
        """Return the window codes of plane indices, and a mask of the indices outside their windows."""
        result, astray = np.zeros_like(indices), np.zeros(indices.shape, bool)
        positions = _arrays.unravel(indices, self.full)
        for position, start, k, d in zip(positions, self.starts(), self.kernel, self.dilation, strict=True):
            tap, between = np.divmod(position - start, d)
            astray |= (between != 0) | (tap < 0) | (tap >= k)
            result = result * k + tap
        return result, astray


def _axis_counts(shape: Shape, size: Shape, window: tuple[Any, ...]) -> list[int]:
    """Return the possible numbers of pooled axes for indices of `shape`, the likeliest first."""
    lengths = [len(entry) for entry in window if isinstance(entry, tuple)]
    if len(size) != len(shape):
        counts = [len(size)]
    elif lengths:
        counts = lengths[:1]
    else:
        counts = [len(shape) - 2, len(shape) - 1]
    counts = [n for n in counts if 1 <= n <= 3 and len(shape) - n in (1, 2)]
    if not counts:
        n = len(size) if len(size) != len(shape) else max([*lengths[:1], len(shape) - 2])
        raise ValueError(
            "indices must be of shape (N, C, *spatial) or (C, *spatial) with 1 to 3 spatial axes, and input_size the "
            f"spatial sizes or the whole shape of what was pooled; got {shape}, with {n} spatial axes by input_size "
            f"{shown(size)} and the window"
        )
    return counts


def _pooled(n: int, whole: Shape, window: tuple[Any, ...]) -> tuple[Shape, Shape, _Windows]:
    """Return the shapes after pooling `whole` over `n` axes, with ceil mode and without it."""
    (ceiled, _, sizes), floored = _geometry.in_both_modes(n, whole, window)
    return ceiled, floored, _Windows(*(sizes[3 * i - n : 3 * i] for i in range(1, 7)))


def _pooling(shape: Shape, size: Shape, window: tuple[Any, ...]) -> _Windows:
    """Return the pooling of `size` that gives indices of `shape`."""
    counts = _axis_counts(shape, size, window)
    found: list[tuple[Shape, _Windows]] = []
    given, refused = [], None
    for n in counts:
        whole = size if len(size) == len(shape) else shape[:-n] + size
        try:
            ceiled, floored, windows = _pooled(n, whole, window)
        except (ValueError, OverflowError) as error:
            refused = refused or error
            continue
        given.append(
            f"pooling {shown(whole)} over {n} {'axis' if n == 1 else 'axes'} gives {_geometry.either(floored, ceiled)}"
        )
        if shape in (ceiled, floored):
            found.append((whole, windows))
    if not given and refused:
        raise refused
    if not found:
        raise ValueError(f"indices of shape {shape} do not belong to input_size {shown(size)}: {', '.join(given)}")
    whole, windows = found[0]
    # Four axes are taken as (N, C, H, W), not as (C, D, H, W). Three axes are ambiguous.
    if len(found) > 1 and len(shape) == 3:
        raise ValueError(
            f"input_size must be the spatial sizes alone if indices may be (N, C, L) or (C, H, W), got {size} for "
            f"indices of shape {shape}: pass input_size={size[2:]} for windows over one axis, {size[1:]} for two"
        )
    if math.prod(windows.full) * (math.prod(whole[: -len(windows.full)]) or 1) > _geometry.LARGEST:
        raise OverflowError(f"what was pooled must have at most 2**60 elements, got {shown(whole)}")
    return windows._replace(pooled=shape[-len(windows.full) :])


def _with_channel_axis(arguments: dict[str, Any]) -> Array:
    """Call `convert_indices` with the axes in their usual order. Sizes and windows tell how many are spatial."""
    indices = arguments["indices"] = _arrays.array_of(arguments["indices"], "indices")
    axis = _geometry.integer("channel_axis", arguments["channel_axis"])
    size = _geometry.entries("input_size", arguments["input_size"])
    window = _geometry.window(*(arguments[name] for name in ("kernel_size", "stride", "padding", "dilation")))
    counts = _axis_counts(indices.shape, size, window)
    if len(size) == indices.ndim and -indices.ndim <= axis < indices.ndim:
        at = axis % indices.ndim
        shape, whole = (entries[:at] + entries[at + 1 :] for entries in (indices.shape, size))
        fits = [n for n in counts if _fits(n, shape, whole, window)]
        if not fits:
            _pooled(counts[0], (1, *whole), window)  # the error of sizes that fit no array
            raise ValueError(
                f"indices of shape {indices.shape} do not belong to input_size {shown(size)}, channels on axis {at}"
            )
        if len(fits) > 1 and indices.ndim == 3:
            raise ValueError(
                f"input_size must be the spatial sizes alone if indices of 3 axes may have N, got {shown(size)} for "
                f"indices of shape {indices.shape}"
            )
        counts = fits
        arguments["input_size"] = whole[-counts[0] :]
    return np.ascontiguousarray(_channels.call(convert_indices, counts[0], arguments))


def _fits(n: int, pooled: Shape, size: Shape, window: tuple[Any, ...]) -> bool:
    """Return whether pooling `size` over `n` axes gives `pooled`. Both are without channels."""
    try:
        ceiled, floored, _ = _pooled(n, (1, *size), window)
    except (ValueError, OverflowError):
        return False
    return (1, *pooled) in (ceiled, floored)


@shares
def convert_indices(
    indices: npt.ArrayLike,
    source: Format,
    target: Format,
    *,
    input_size: Sequence[SupportsIndex],
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    dilation: Size = 1,
    index_dtype: npt.DTypeLike | None = None,
    channel_axis: SupportsIndex | None = None,
) -> Array:
    """Convert the indices of a max pooling to another format.

    Parameters
    ----------
    indices : array_like of integers
        Of shape ``(N, C, *spatial)`` or ``(C, *spatial)``, with the spatial sizes of the pooled array. N and C may be
        0. The axes have this order in every format, unless `channel_axis` is given: TensorFlow's indices need
        ``channel_axis=-1``.
    source, target : str
        The formats of `indices` and of the result:

        - ``"plane"``: positions in a plane of the input, in raster order, as in cunpool and PyTorch.
        - ``"window"``: positions in the window, in raster order over the whole kernel, padding included. Codes have one
          byte for windows of at most 256 elements, and two for at most 65536. Larger windows have no codes.
        - ``"onnx"``: positions in the whole input, ``(N, C, *spatial)``, in raster order, as in ONNX's MaxPool.
        - ``"onnx_column_major"``: the same with each plane in column-major order, ``(n * C + c) * H * W + w * H + h``,
          as in ONNX's MaxPool with ``storage_order=1``.
        - ``"tf"``: positions in one item of a batch with channels last, ``(h * W + w) * C + c``, as in
          ``tf.nn.max_pool_with_argmax``.
        - ``"tf_batch"``: positions in the whole input with channels last, ``((n * H + h) * W + w) * C + c``, as in the
          same function with ``include_batch_in_index=True``.
    input_size : sequence of int
        The spatial sizes of the pooling's input, or its whole shape. Spatial sizes have one entry for each pooled axis.
        With a whole shape, the number of pooled axes is the length of `kernel_size`, `stride`, `padding` or `dilation`.
        If all of these are integers, it is the number that gives the shape of `indices`. If several do, four axes are
        ``(N, C, H, W)``, and three axes are an error.
    {window}
        Integers are at most half of `kernel_size`, and each side of a pair is less than
        ``dilation * (kernel_size - 1) + 1``.
    dilation : int or sequence of int
        Step from one element of a window to the next.
    {index_dtype}
    {channel_axis}

    Returns
    -------
    numpy.ndarray
        A new C-contiguous array of the shape of `indices`. Its dtype is uint8 or uint16 for ``"window"``, else
        `index_dtype`.

    Raises
    ------
    IndexError
        If an index lies outside its own window or its own plane. The message names the first one.
    TypeError
        If the dtype of `indices` is of the wrong kind, if `index_dtype` is neither int32 nor int64, or if it is given
        for ``"window"``.
    ValueError
        If a format is unknown, if shapes or sizes do not fit, or if a window has too many positions for ``"window"``.
    OverflowError
        If the input has more than 2**60 elements, a window has or spans more, or int32 is too small for the indices of
        `target`.

    See Also
    --------
    max_unpool2d : Takes indices of the formats ``"plane"`` and ``"window"``.

    Notes
    -----
    With dilation, a window may have no element of the input. No index of such a window is valid, and the index that
    `max_pool2d` returns for it is refused.

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> x = np.array([[[[1, 2, 0, 0], [4, 3, 0, 7]], [[9, 0, 0, 0], [0, 0, 8, 0]]]])
    >>> y, indices = cu.max_pool2d(x, 2, return_indices=True)
    >>> indices
    array([[[[4, 7]],
    <BLANKLINE>
            [[0, 6]]]])
    >>> cu.convert_indices(indices, "plane", "onnx", input_size=x.shape, kernel_size=2)
    array([[[[ 4,  7]],
    <BLANKLINE>
            [[ 8, 14]]]])
    >>> codes = cu.convert_indices(indices, "plane", "window", input_size=x.shape, kernel_size=2)
    >>> codes
    array([[[[2, 3]],
    <BLANKLINE>
            [[0, 2]]]], dtype=uint8)
    >>> np.array_equal(cu.convert_indices(codes, "window", "plane", input_size=x.shape, kernel_size=2), indices)
    True
    """
    if channel_axis is not None:
        return _with_channel_axis(locals())
    for name, value in (("source", source), ("target", target)):
        if not isinstance(value, str) or value not in get_args(Format):
            known = ", ".join(map(repr, get_args(Format)))
            raise ValueError(f"{name} must be one of {known}, got {shown(value)}")
    if target == "window" and index_dtype is not None:
        raise TypeError(_arrays.NO_CHOICE)
    given = _arrays.array_of(indices, "indices")
    values = np.array(_arrays.integers(given, given.shape), np.int64, order="C")
    window = _geometry.window(kernel_size, stride, padding, dilation)
    windows = _pooling(values.shape, _geometry.entries("input_size", input_size), window)
    full, _, kernel, *_ = windows
    lead = values.shape[: -len(full)]
    count = math.prod(kernel)
    if "window" in (source, target):
        code = _arrays.CODES[_geometry.code_bytes(kernel)]
    if target != "window":
        dtype = _arrays.index_dtype(index_dtype, _formats.planes(target, lead, full)[2])

    # From the source to plane indices. Wrong indices become 0, which is valid in the next step.
    first, step, end = (0, 1, count) if source == "window" else _formats.planes(source, lead, full)
    outside = (values < 0) | (values >= end)
    values[outside] = 0
    if source == "window":
        flat, elsewhere = _formats.indices_of_codes(values, *windows)
    else:
        flat, between = np.divmod(values - first, step)
        elsewhere = (between != 0) | (flat < 0) | (flat >= math.prod(full))
    flat[elsewhere] = 0
    if source == "onnx_column_major":
        flat = _formats.recounted(flat, full)
    codes, astray = windows.to_codes(flat)

    wrong = outside | elsewhere | astray
    if wrong.any():
        at = tuple(map(int, np.unravel_index(int(np.argmax(wrong)), wrong.shape)))
        if outside[at]:
            what = f"is outside: here the format {source!r} has the indices 0 to {end - 1}"
        elif elsewhere[at]:
            what = "is in the padding" if source == "window" else "is not in its own plane"
        else:
            position = tuple(map(int, np.unravel_index(flat[at], full)))
            corner = tuple(int(start.flat[o]) for o, start in zip(at[len(lead) :], windows.starts(), strict=True))
            what = f"is element {position}, outside its window: {kernel} from {corner}, dilation {windows.dilation}"
        sizes = _geometry.flat_sizes(len(full), *windows)
        meant = None if source == "window" else _diagnostics.counted_as(given, len(full), sizes, _diagnostics.CHECKED)
        hint = f"; they would be right as {_formats.MEANT[meant]}: pass source={meant!r}" if meant else ""
        raise IndexError(f"index {given[at]} at position {at} {what}{hint}")

    # From plane indices to the target.
    if target == "window":
        return np.ascontiguousarray(codes, code)
    if target == "onnx_column_major":
        flat = _formats.recounted(flat, full[::-1])
    first, step, _ = _formats.planes(target, lead, full)
    return np.ascontiguousarray(flat * step + first, dtype)
