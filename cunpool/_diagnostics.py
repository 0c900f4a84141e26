"""Errors for indices outside their planes; hints and warnings for those of another size, window or format."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

from cunpool import _arrays, _formats, _geometry, _padding, _remedies, _warn
from cunpool._arrays import Array
from cunpool._geometry import Shape, Sizes

SAMPLE = 4096
"""Number of indices, spread over the array, that are compared with their windows before a warning (speed)."""

CHECKED = 1 << 20
"""The same number for a call that fails (speed)."""

FEW = 32
"""Number of indices that are compared first with each size of the output (speed)."""

CANDIDATES = 512
"""Maximum number of output sizes that are tried (speed)."""

NAMED = 3
"""Maximum number of sizes in a message, if only some combinations of heights and widths fit."""

LEAST_COUNTED = 8
"""Fewer indices than this may suit another format by chance."""

Window = tuple[int, int, int, int]
"""kernel, stride, padding and dilation along one axis."""


def _axes(n: int, sizes: Sizes) -> list[Shape]:
    """Return full size, pooled size, kernel, stride, padding and dilation, each for `n` axes."""
    return [sizes[i + 3 - n : i + 3] for i in range(0, 18, 3)]


def narrow(indices: Array, n: int, sizes: Sizes) -> None:
    """Warn if the dtype of plane indices is too small for the last window, or if they look like window codes."""
    if indices.dtype.kind not in "iu" or not indices.size:
        return
    largest = int(np.iinfo(indices.dtype).max)
    first = _last_window(n, sizes)
    if first > largest:
        _warn.warn(
            f"indices of {indices.dtype} count to {largest}, but the last window begins at element {first} of its "
            "plane: window codes need index_format='window', and plane indices need a wider integer dtype"
        )
    elif indices[(-1,) * indices.ndim] < first:
        _warn_of_codes(indices, n, sizes)


def _last_window(n: int, sizes: Sizes) -> int:
    """Return the index of the first element of the last window of a plane."""
    full, pooled, _, stride, padding, _ = _axes(n, sizes)
    first = 0
    for size, count, s, p in zip(full, pooled, stride, padding, strict=True):
        first = first * size + max((count - 1) * s - p, 0)
    return first


def _warn_of_codes(indices: Array, n: int, sizes: Sizes) -> bool:
    """Warn if indices have the dtype and the range of window codes, and return whether that was so.

    Some of the indices lie outside their windows. Overlapping windows give no warning, because plane indices are as
    small as codes in small planes.
    """
    _, _, kernel, stride, _, dilation = _axes(n, sizes)
    codes = math.prod(kernel)
    if (
        any(s <= d * (k - 1) for k, s, d in zip(kernel, stride, dilation, strict=True))
        or codes > 1 << 16
        or indices.dtype != _arrays.CODES[_geometry.code_bytes(kernel)]
        or int(indices.max()) >= codes
    ):
        return False
    _warn.warn(
        f"the indices lie outside their windows, and are of {indices.dtype} and all below {codes}, as window codes of "
        f"{' x '.join(map(str, kernel))} are: these need index_format='window'"
    )
    return True


def strayed(given: Array, indices: Array, n: int, sizes: Sizes, is_size_free: bool) -> None:
    """Warn if indices outside their windows would be inside as codes, in another size, or in another format.

    `given` are the caller's indices, and `indices` are the same as the kernel received them. `is_size_free` tells
    whether other output sizes are tried. They are not if the caller chose the size, or pads the two ends of an axis
    differently.
    """
    if _warn.SILENT.get():
        return
    first = _last_window(n, sizes)
    if given[(-1,) * given.ndim] >= first and _warn_of_codes(given, n, sizes):
        return
    if is_size_free:
        others = other_sizes(indices, n, sizes)
        if others:
            default = " x ".join(map(str, _axes(n, sizes)[0]))
            _warn.warn(
                f"the indices lie outside their windows in an output of the default size, {default}, but inside them "
                f"in one of {others}: pass output_size, the shape of what was pooled"
            )
            return
    meant = counted_as(indices, n, sizes, SAMPLE) if indices.size >= LEAST_COUNTED else None
    if meant:
        _warn.warn(
            f"the indices lie outside their windows, but inside them as {_formats.MEANT[meant]}: "
            f"see cunpool.convert_indices(indices, {meant!r}, 'plane', ...)"
        )


def for_other_indices(n: int, shape: Shape, indices_shape: Shape, window: _geometry.Window) -> str:
    """Return a hint for indices that do not have `shape`, the shape of the values, or "".

    The values may come from an earlier unpooling with the same window and without `output_size`.
    """
    if len(shape) != len(indices_shape) or shape[:-n] != indices_shape[:-n]:
        return ""
    try:
        kernel_size, stride, *_ = _geometry.window(*window)
        steps = _geometry.per_axis(n, "stride", kernel_size if stride is None else stride, 1)
    except (TypeError, ValueError, OverflowError):
        return ""
    if any(abs(a - b) >= step for a, b, step in zip(shape[-n:], indices_shape[-n:], steps, strict=True)):
        return ""
    return "; if input comes from another unpooling, that one needs output_size=indices.shape, of these indices"


def for_a_bad_index(indices: Array, n: int, sizes: Sizes, name: str, window: _geometry.Window) -> str:
    """Return a hint for indices outside their planes, or ""; `name` is the argument that sets the planes' size."""
    meant = counted_as(indices, n, sizes, CHECKED)
    if meant:
        return (
            f"; they would be right as {_formats.MEANT[meant]}: "
            f"see cunpool.convert_indices(indices, {meant!r}, 'plane', ...)"
        )
    moved = _channels_last(indices, n, sizes)
    if moved:
        return (
            f"; as numpy.moveaxis(indices, -1, {indices.ndim - n - 1}), channels first, they would be right as "
            f"{_formats.MEANT[moved]}: see cunpool.convert_indices(indices, {moved!r}, 'plane', ...)"
        )
    others = other_sizes(indices, n, sizes) if has_even_padding(window) else ""
    if not others:
        return ""
    remedy = f"pass {name}, the shape of what was pooled"
    if name in ("grad_output", "onto"):
        remedy = f"pass {name} the shape of what was pooled"
    return f"; the indices would be right in an output of {others}: {remedy}"


def counted_as(indices: Array, n: int, sizes: Sizes, count: int) -> _formats.Format | None:
    """Return another library's format in which about `count` of the indices lie in their windows, or None."""
    return next(_counted_as(indices, n, sizes, count, indices.shape[:-n], (0,) * indices.ndim), None)


def _counted_as(
    indices: Array, n: int, sizes: Sizes, count: int, lead: Shape, corner: Shape
) -> Iterator[_formats.Format]:
    """Yield each such format for a block, which begins at `corner` of indices whose N and C are `lead`."""
    full, _, kernel, stride, padding, dilation = _axes(n, sizes)
    windows = list(zip(kernel, stride, padding, dilation, strict=True))
    values, within_block = _sample(indices, n, count, whole=True)
    at = [position + first for position, first in zip(within_block, corner, strict=True)]
    is_flat = sum(size > 1 for size in full) < 2
    counted = [(1, np.zeros(math.prod(lead), np.int64).tobytes(), False)]  # format "plane"
    for name in _formats.OTHERS:
        first, step, _ = _formats.planes(name, lead, full)
        counting = step, first.astype(np.int64).tobytes(), name == "onnx_column_major" and not is_flat
        if counting in counted:
            continue  # an earlier format counts the same way
        counted.append(counting)
        flat, between = np.divmod(values - first.reshape(lead)[tuple(at[:-n])], step)
        if between.any() or (flat < 0).any() or (flat >= math.prod(full)).any():
            continue
        if name == "onnx_column_major":
            flat = _formats.recounted(flat, full)
        if _within(flat, at[-n:], full[1:], windows):
            yield name


def for_a_format(indices: Array, n: int, sizes: Sizes, lead: Shape, corner: Shape, is_free: bool) -> str:
    """Return a hint that names all other libraries' formats in which the indices lie in their windows, or "".

    The indices are a block that begins at `corner` of an array whose N and C are `lead`. With `is_free` the windows
    are unknown, and the indices only have to lie in their planes.
    """
    if indices.size < LEAST_COUNTED:
        return ""
    fitting = [*_counted_as(indices, n, sizes, CHECKED, lead, corner)]
    if not fitting and is_free:
        full, pooled, *_ = _axes(n, sizes)
        ones, reach = (1,) * n, tuple(size + count for size, count in zip(full, pooled, strict=True))
        anywhere = _geometry.flat_sizes(n, full, pooled, reach, ones, pooled, ones)
        fitting = [*_counted_as(indices, n, anywhere, CHECKED, lead, corner)]
    if not fitting:
        return ""
    meant = _remedies.listed([_formats.MEANT[name] for name in fitting])
    sources = _remedies.listed([*map(repr, fitting)])
    return f"; they would be right as {meant}: see cunpool.convert_indices(indices, {sources}, 'plane', ...)"


def _channels_last(indices: Array, n: int, sizes: Sizes) -> _formats.Format | None:
    """Return TensorFlow's format, if the indices are valid in it with their last axis as channels, else None."""
    moved = np.moveaxis(indices, -1, -n - 1)
    _, _, kernel, stride, padding, dilation = _axes(n, sizes)
    pooled = moved.shape[-n:]
    windows = zip(pooled, kernel, stride, padding, dilation, strict=True)
    full = tuple((count - 1) * s - 2 * p + d * (k - 1) + 1 for count, k, s, p, d in windows)
    if min(full) < 1:
        return None
    sizes = _geometry.flat_sizes(n, full, pooled, kernel, stride, padding, dilation)
    meant = counted_as(moved, n, sizes, CHECKED)
    return meant if meant in ("tf", "tf_batch") else None


def has_even_padding(window: _geometry.Window) -> bool:
    """Whether both ends of an axis have the same padding, so that windows do not depend on the size of the output."""
    return _padding.is_even(_padding.hashable(window[2]))


def other_sizes(indices: Array, n: int, sizes: Sizes) -> str:
    """Name other legal output sizes in which a sample of the indices lies in its windows, or return ""."""
    fitting = _other_sizes(indices, n, sizes)
    if not fitting:
        return ""
    # The first axis can have billions of sizes, so there is no loop over them. Other axes have one in each choice.
    first = [sizes[0] for sizes in fitting]
    along: list[Sequence[int]] = [range(min(some.start for some in first), max(some.stop for some in first))]
    along += [sorted({size for sizes in fitting for size in sizes[axis]}) for axis in range(1, n)]
    if sum(math.prod(map(len, sizes)) for sizes in fitting) == math.prod(map(len, along)):
        return _named(along)
    # Not every height fits with every width.
    return _remedies.listed([*map(_named, fitting[:NAMED])])


def _named(sizes: Sequence[Sequence[int]]) -> str:
    """Return text with the sizes along each axis and the names of the axes."""
    named = zip(_remedies.AXES[len(sizes)], sizes, strict=True)
    return ", ".join(f"{name} {_remedies.numbers(along)}" for name, along in named)


def _other_sizes(indices: Array, n: int, sizes: Sizes) -> list[list[range]]:
    """Return the sizes for `other_sizes`: a range along the first axis for each choice of the later ones."""
    full, pooled, kernel, stride, padding, dilation = _axes(n, sizes)
    if not indices.size:
        return []
    windows = list(zip(kernel, stride, padding, dilation, strict=True))
    default = [(count - 1) * s - 2 * p + d * (k - 1) + 1 for count, (k, s, p, d) in zip(pooled, windows, strict=True)]
    # An index depends only on the trailing sizes. The nearest sizes are tried first, on a few of the last indices.
    legal = [range(max(size - s + 1, 1), size + s) for size, s in zip(default, stride, strict=True)]
    if math.prod(map(len, legal[1:])) > CANDIDATES:
        return []
    few, all_ = _sample(indices, n, FEW), None
    fitting = []
    for trailing in product(*(sorted(legal[axis], key=_distance_from(default[axis])) for axis in range(1, n))):
        if not _within(*few, trailing, windows):
            continue
        all_ = all_ or _sample(indices, n, SAMPLE)
        leading = range(max(legal[0].start, int(indices.max()) // math.prod(trailing) + 1), legal[0].stop)
        if leading and (full[0] not in leading or trailing != full[1:]) and _within(*all_, trailing, windows):
            fitting.append([leading, *(range(size, size + 1) for size in trailing)])
    return fitting


def _sample(indices: Array, n: int, count: int, whole: bool = False) -> tuple[Array, Sequence[Array]]:
    """Return about `count` indices, from last to first, and the positions of their windows.

    With `whole`, positions include N and C.
    """
    chosen = np.arange(indices.size - 1, -1, -max(indices.size // count, 1))
    at = np.unravel_index(chosen, indices.shape)
    return indices[at].astype(np.int64), at if whole else at[-n:]


def _distance_from(size: int) -> Callable[[int], int]:
    return lambda other: abs(other - size)


def _within(indices: Array, at: Sequence[Array], trailing: Shape, windows: Sequence[Window]) -> bool:
    """Return whether indices lie in the windows at `at`; `trailing` are the sizes after the first axis."""
    for size, o, (k, s, p, d) in reversed([*zip((0, *trailing), at, windows, strict=True)]):
        indices, position = np.divmod(indices, size) if size else (indices, indices)
        taps, between = np.divmod(position - (o * s - p), d)
        if between.any() or (taps < 0).any() or (taps >= k).any():
            return False
    return True


def bad_code(
    codes: npt.ArrayLike,
    n: int,
    sizes: Sizes,
    corner: tuple[int, ...] | None = None,
    where: str = "the output",
) -> IndexError:
    """Return the error for the first window code, in raster order, that names no element.

    `corner` is the position of the first code in the whole array. `where` names the array that has the planes.
    """
    array = _arrays.array_of(codes, "indices")
    axes = _axes(n, sizes)
    full, _, kernel, *_ = axes
    elements = math.prod(kernel)
    beyond = (array < 0) | (array >= elements)
    _, outside = _formats.indices_of_codes(np.where(beyond, 0, array).astype(np.int64), *axes)
    window = " x ".join(map(str, kernel))
    if not (beyond | outside).any():
        return IndexError(
            f"indices were changed while they were read; they must be codes of windows of {window} elements"
        )
    at = tuple(map(int, np.unravel_index(int(np.argmax(beyond | outside)), array.shape)))
    reason = (
        f"a window of {window} has the codes 0 to {elements - 1}"
        if beyond[at]
        else f"it lies in the padding or past {where} of {' x '.join(map(str, full))}"
    )
    return IndexError(f"window code {array[at]} at position {position(at, corner)} names no element: {reason}")


def position(at: tuple[int, ...], corner: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the position in the whole array of a position in a block that begins at `corner`."""
    return at if corner is None else tuple(a + b for a, b in zip(corner, at, strict=True))


def bad_index(
    indices: npt.ArrayLike,
    full: tuple[int, ...],
    hint: str = "",
    corner: tuple[int, ...] | None = None,
    where: str = "the output",
) -> IndexError:
    """Return the error for the first index, in raster order, outside a plane of size `full`, with a hint.

    `corner` is the position of the first index in the whole array. `where` names the array that has the planes.
    """
    array = _arrays.array_of(indices, "indices")
    elements = int(np.prod(full, dtype=object))
    wrong = (array < 0) | (array >= elements)
    size = " x ".join(map(str, full))
    if not wrong.any():
        return IndexError(f"indices were changed while they were read; they must lie in planes of {size} elements")
    at = tuple(map(int, np.unravel_index(int(np.argmax(wrong)), array.shape)))
    if not hint and looks_like_onnx(array, len(full), full):
        hint = (
            "; all of them would be valid as ONNX indices, which count through the whole tensor: "
            "see cunpool.convert_indices(indices, 'onnx', 'plane', ...), or 'onnx_column_major' for storage_order=1"
        )
    return IndexError(
        f"index {array[at]} at position {position(at, corner)} is outside {where}: "
        f"a plane of {size} has {f'the indices 0 to {elements - 1}' if elements else 'no elements'}{hint}"
    )


def looks_like_onnx(indices: Array, n: int, full: tuple[int, ...]) -> bool:
    """Return whether `indices` count through the whole tensor, with some outside their planes of size `full`."""
    elements, planes = math.prod(full), math.prod(indices.shape[:-n])
    if planes < 2 or not indices.size:
        return False
    flat = indices.astype(_arrays.INT64).reshape(planes, -1)  # a uint64 beyond int64 turns negative
    within = flat - elements * np.arange(planes)[:, None]
    return bool(((flat < 0) | (flat >= elements)).any() and ((within >= 0) & (within < elements)).all())


def bad_in_windows(
    indices: npt.ArrayLike, positions: Array, n: int, sizes: Sizes, codes: bool, name: str, window: _geometry.Window
) -> IndexError:
    """Return the error for the first bad index or code of windows of one size.

    `positions` are the caller's `indices` as the kernel takes them. The argument `name` has the size of the planes.
    """
    if codes:
        return bad_code(indices, n, sizes)
    return bad_index(indices, sizes[3 - n : 3], for_a_bad_index(positions, n, sizes, name, window))
