"""What to say where a call is legal, or nearly, and its indices speak of something else than was asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from cunpool import _say
from cunpool._arrays import Array
from cunpool._geometry import Shape, Sizes

SAMPLE = 4096  # so many indices are looked at, from the first to the last
FEW = 32  # and of each size so many at first
CANDIDATES = 512  # sizes that are tried at most


def _axes(n: int, sizes: Sizes) -> list[Shape]:
    """Full and pooled size, kernel, stride, padding and dilation, each of `n` axes."""
    return [sizes[i + 3 - n : i + 3] for i in range(0, 18, 3)]


def narrow(indices: Array, n: int, sizes: Sizes) -> None:
    """Warn where the dtype of plane indices cannot count to the last window, so that its index must be wrong."""
    full, pooled, _, stride, padding, _ = _axes(n, sizes)
    if indices.dtype.kind not in "iu" or not indices.size:
        return
    largest = int(np.iinfo(indices.dtype).max)
    first = 0
    for size, count, s, p in zip(full, pooled, stride, padding, strict=True):
        first = first * size + max((count - 1) * s - p, 0)
    if first > largest:
        _say.warn(
            f"indices of {indices.dtype} count to {largest}, but the last window begins at the cell {first} of its "
            "plane: window codes need index_format='window', and places in the plane an integer of more bits"
        )


def strayed(indices: Array, n: int, sizes: Sizes) -> None:
    """Warn where indices outside their windows would be inside them in an output of another size."""
    other = other_size(indices, n, sizes)
    if other is not None:
        default, meant = (" x ".join(map(str, size)) for size in (_axes(n, sizes)[0], other))
        _say.warn(
            f"the indices lie outside their windows in an output of the default size, {default}, but inside them in "
            f"one of {meant}: give output_size, the shape of what was pooled"
        )


def other_size(indices: Array, n: int, sizes: Sizes) -> Shape | None:
    """Another legal size of the output in which the indices, or a sample, lie in their windows; or None."""
    full, pooled, kernel, stride, padding, dilation = _axes(n, sizes)
    if not indices.size:
        return None
    windows = list(zip(kernel, stride, padding, dilation, strict=True))
    default = [(count - 1) * s - 2 * p + d * (k - 1) + 1 for count, (k, s, p, d) in zip(pooled, windows, strict=True)]
    # Only the trailing sizes enter an index. The nearest are tried first, on a few of the last indices.
    legal = [range(max(size - s + 1, 1), size + s) for size, s in zip(default, stride, strict=True)]
    if math.prod(map(len, legal[1:])) > CANDIDATES:
        return None
    few, all_ = _sample(indices, n, FEW), None
    for trailing in product(*(sorted(legal[axis], key=_distance_from(default[axis])) for axis in range(1, n))):
        if not _within(*few, trailing, windows):
            continue
        all_ = all_ or _sample(indices, n, SAMPLE)
        leading = max(full[0], int(indices.max()) // math.prod(trailing) + 1)
        if (leading, *trailing) != full and leading in legal[0] and _within(*all_, trailing, windows):
            return (leading, *trailing)
    return None


def _sample(indices: Array, n: int, count: int) -> tuple[Array, Sequence[Array]]:
    """Some `count` of the indices, from the last to the first, and which windows they belong to."""
    chosen = np.arange(indices.size - 1, -1, -max(indices.size // count, 1))
    at = np.unravel_index(chosen, indices.shape)
    return indices[at].astype(np.int64), at[-n:]


def _distance_from(size: int) -> Callable[[int], int]:
    return lambda other: abs(other - size)


def _within(places: Array, at: Sequence[Array], trailing: Shape, windows: Sequence[tuple[int, int, int, int]]) -> bool:
    """Whether these places lie in the windows at these positions, where the axes after the first have these sizes."""
    for size, o, (k, s, p, d) in reversed([*zip((0, *trailing), at, windows, strict=True)]):
        places, cell = np.divmod(places, size) if size else (places, places)
        taps, between = np.divmod(cell - (o * s - p), d)
        if between.any() or (taps < 0).any() or (taps >= k).any():
            return False
    return True
