"""Indices of other libraries, and indices of one byte: conversions between the ways to say where a maximum was."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, SupportsIndex, get_args

import numpy as np
import numpy.typing as npt

from cunpool import _arrays, _diagnostics, _formats, _geometry
from cunpool._arrays import Array
from cunpool._docstrings import shares
from cunpool._formats import Format
from cunpool._geometry import Shape, Size
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
        """Where windows start on each axis, in shapes that broadcast."""
        n = len(self.full)
        return [
            (np.arange(size) * s - p).reshape((size,) + (1,) * (n - 1 - axis))
            for axis, (size, s, p) in enumerate(zip(self.pooled, self.stride, self.padding, strict=True))
        ]

    def places(self, positions: Array) -> tuple[Array, Array]:
        """The places in their planes of these positions in their windows, and which are in the padding."""
        result, outside = np.zeros_like(positions), np.zeros(positions.shape, bool)
        taps = _arrays.unravel(positions, self.kernel)
        for tap, start, d, size in zip(taps, self.starts(), self.dilation, self.full, strict=True):
            cell = start + d * tap
            outside |= (cell < 0) | (cell >= size)
            result = result * size + cell
        return result, outside

    def positions(self, places: Array) -> tuple[Array, Array]:
        """The positions in their windows of these places of a plane, and which are not in their windows at all."""
        result, astray = np.zeros_like(places), np.zeros(places.shape, bool)
        cells = _arrays.unravel(places, self.full)
        for cell, start, k, d in zip(cells, self.starts(), self.kernel, self.dilation, strict=True):
            tap, between = np.divmod(cell - start, d)
            astray |= (between != 0) | (tap < 0) | (tap >= k)
            result = result * k + tap
        return result, astray


def _axis_counts(shape: Shape, size: Shape, window: tuple[Any, ...]) -> list[int]:
    """Over how many axes may have been pooled, to give indices of `shape`: the likeliest first."""
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
            "indices must be of shape (N, C, *spatial) or (C, *spatial) with 1 to 3 spatial axes, and input_size their "
            f"sizes or the whole shape of what was pooled; got {shape}, with {n} spatial axes by input_size "
            f"{shown(size)} and the window"
        )
    return counts


def _pooled(n: int, whole: Shape, window: tuple[Any, ...]) -> tuple[Shape, Shape, _Windows]:
    """The shapes that pooling `whole` over `n` axes gives, in ceil mode and without."""
    (ceiled, _, sizes), floored = _geometry.in_both_modes(n, whole, window)
    return ceiled, floored, _Windows(*(sizes[3 * i - n : 3 * i] for i in range(1, 7)))


def _pooling(shape: Shape, size: Shape, window: tuple[Any, ...]) -> _Windows:
    """The pooling of `size` that gives indices of `shape`."""
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
    # Of four axes (N, C, H, W) is meant and not (C, D, H, W); of three either may be.
    if len(found) > 1 and len(shape) == 3:
        raise ValueError(
            f"input_size must be the spatial sizes alone where indices may be (N, C, L) or (C, H, W), got {size} for "
            f"indices of shape {shape}: give input_size={size[2:]} for windows over one axis, {size[1:]} for two"
        )
    if math.prod(windows.full) * (math.prod(whole[: -len(windows.full)]) or 1) > _geometry.LARGEST:
        raise OverflowError(f"what was pooled must have at most 2**60 cells, got {shown(whole)}")
    return windows._replace(pooled=shape[-len(windows.full) :])


@shares
def convert_indices(
    indices: npt.ArrayLike,
    source: Format,
    target: Format,
    *,
    input_size: Sequence[SupportsIndex],
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    index_dtype: npt.DTypeLike | None = None,
) -> Array:
    """The indices of a max pooling, in another format.

    Parameters
    ----------
    indices : array_like of integers
        Of shape ``(N, C, *spatial)`` or ``(C, *spatial)``, the spatial sizes being those of the pooled array. N and C
        may be 0. The axes have this order in every format: move TensorFlow's channels first, with
        ``numpy.moveaxis(indices, -1, 1)``, which copies nothing.
    source, target : str
        The format of `indices`, and that of the result:

        - ``"plane"``: places in a plane of the input, in raster order; cunpool's and PyTorch's.
        - ``"window"``: positions in the window, in raster order over the kernel, whether or not all of it lies in the
          input. One byte each where the window has at most 256 positions, two where it has at most 65536, and no more
          are possible.
        - ``"onnx"``: places in the whole input, ``(N, C, *spatial)``, in raster order; those of ONNX's MaxPool.
        - ``"onnx_column_major"``: the same with each plane in column-major order, ``(n * C + c) * H * W + w * H + h``;
          those of ONNX's MaxPool with ``storage_order=1``.
        - ``"tf"``: places in one item of a batch with its channels last, ``(h * W + w) * C + c``; those of
          ``tf.nn.max_pool_with_argmax``.
        - ``"tf_batch"``: places in the whole input with its channels last, ``((n * H + h) * W + w) * C + c``; those of
          the same function with ``include_batch_in_index=True``.
    input_size : sequence of int
        What was pooled: its spatial sizes, or its whole shape. The spatial sizes alone say how many axes were pooled
        over. With a whole shape it is as many as `kernel_size`, `stride`, `padding` or `dilation` have entries, or if
        all are integers as many as give the shape of `indices`. Where that leaves a choice, four axes are
        ``(N, C, H, W)``, and three are refused.
    {window}
        At most half of `kernel_size`.
    dilation : int or sequence of int
        Step from one cell of a window to the next.
    {index_dtype}

    Returns
    -------
    numpy.ndarray
        A new C-contiguous array of the shape of `indices`; of uint8 or uint16 for ``"window"``, else of `index_dtype`.

    Raises
    ------
    IndexError
        If an index is not that of a cell of its own window, in its own plane. The first one is named.
    TypeError
        If the dtype of `indices` is of the wrong kind, or `index_dtype` another, or given for ``"window"``.
    ValueError
        If a format is unknown, if shapes or sizes do not fit, or if a window has too many positions for ``"window"``.
    OverflowError
        If the input has more than 2**60 cells, a window has or spans more, or `target` counts beyond what int32 has
        room for.

    See Also
    --------
    max_unpool2d : Takes indices of the format ``"plane"``.

    Notes
    -----
    Where dilation leaves a window without any cell of the input, no index can be right, and `max_pool2d`'s is refused.

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
    for name, value in (("source", source), ("target", target)):
        if not isinstance(value, str) or value not in get_args(Format):
            known = ", ".join(map(repr, get_args(Format)))
            raise ValueError(f"{name} must be among {known}, got {shown(value)}")
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

    # From the source to places in a plane. What is wrong becomes 0 on the way, so that the next step can take it.
    first, step, end = (0, 1, count) if source == "window" else _formats.planes(source, lead, full)
    outside = (values < 0) | (values >= end)
    values[outside] = 0
    if source == "window":
        places, elsewhere = windows.places(values)
    else:
        places, between = np.divmod(values - first, step)
        elsewhere = (between != 0) | (places < 0) | (places >= math.prod(full))
    places[elsewhere] = 0
    if source == "onnx_column_major":
        places = _formats.recounted(places, full)
    positions, astray = windows.positions(places)

    wrong = outside | elsewhere | astray
    if wrong.any():
        at = tuple(map(int, np.unravel_index(int(np.argmax(wrong)), wrong.shape)))
        if outside[at]:
            what = f"is outside: the format {source!r} has the indices 0 to {end - 1} here"
        elif elsewhere[at]:
            what = "is in the padding" if source == "window" else "is in another plane than its own"
        else:
            cell = tuple(map(int, np.unravel_index(places[at], full)))
            corner = tuple(int(start.flat[o]) for o, start in zip(at[len(lead) :], windows.starts(), strict=True))
            what = f"is the cell {cell}, outside its window: {kernel} from {corner}, dilation {windows.dilation}"
        sizes = _geometry.flat_sizes(len(full), *windows)
        meant = None if source == "window" else _diagnostics.counted_as(given, len(full), sizes, _diagnostics.CHECKED)
        hint = f"; they would be right as {_formats.MEANT[meant]}: give source={meant!r}" if meant else ""
        raise IndexError(f"index {given[at]} at position {at} {what}{hint}")

    # And from there to the target.
    if target == "window":
        return np.ascontiguousarray(positions, code)
    if target == "onnx_column_major":
        places = _formats.recounted(places, full[::-1])
    first, step, _ = _formats.planes(target, lead, full)
    return np.ascontiguousarray(places * step + first, dtype)
