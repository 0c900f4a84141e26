"""What a worker does with one block of an array in chunks: NumPy arrays in and out, and no Dask.

A block has the cells that its windows see, and the public functions take it for a plane of its own. So that they need
not know at which end of the array it lies, blocks that are unpooled are as large as the box of their windows, padding
and all, and are cut afterwards. What is left is to count indices from the array's corner instead of the block's, and to
find those that lead out of the array or out of their windows.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from cunpool import _arrays, _diagnostics, _geometry
from cunpool._arrays import Array
from cunpool._dask import _chunks
from cunpool._dask._chunks import Axis, Range, Runs
from cunpool._geometry import Shape
from cunpool._kernels import memory as _memory

# How many places are moved at a time, so that they stay in the caches meanwhile.
SLAB = 1 << 14

# The share of a worker's limit that the memory kept for the next calls may take.
SHARE = 8


class Plan(NamedTuple):
    """An operation on a whole array: the same for all of its blocks."""

    function: Callable[..., Any]
    axes: tuple[Axis, ...]
    lead: tuple[Runs, ...]
    """The chunks along N and C,"""
    chunks: tuple[Runs, ...]
    """and those along the spatial axes: of the cells, or of the windows where these say what the blocks are."""
    index_dtype: np.dtype[Any]
    codes: bool
    num_threads: int | None
    options: tuple[tuple[str, Any], ...] = ()
    """What `function` is given besides."""
    where: str = "the output"
    """The array in whose planes the indices have to lie, as messages name it."""

    def call(self, *arrays: Array, padding: int | Shape = 0, **more: Any) -> Any:
        """`function` of a block."""
        bound_the_cache()
        _, _, kernel, stride, _, dilation = zip(*self.axes, strict=True)
        return self.function(
            *arrays,
            kernel_size=kernel,
            stride=stride,
            padding=padding,
            dilation=dilation,
            index_format="window" if self.codes else "plane",
            num_threads=self.num_threads,
            **dict(self.options),
            **more,
        )

    def full(self) -> Shape:
        """The sizes of a plane."""
        return tuple(axis.size for axis in self.axes)

    def corner(self, block_id: Shape) -> Shape:
        """Where a block begins along N and C."""
        return tuple(_chunks.bounds(runs)[i][0] for runs, i in zip(self.lead, block_id, strict=False))

    def spans(self, find: Callable[[Axis, Runs], tuple[Any, ...]], block_id: Shape) -> list[Any]:
        """What `find` says of the block, for each spatial axis."""
        numbers = block_id[-len(self.axes) :]
        return [find(axis, runs)[i] for axis, runs, i in zip(self.axes, self.chunks, numbers, strict=True)]


def bound_the_cache() -> None:
    """Keep no more memory for the next calls than a share of what this worker may use, if it is one of Dask's.

    Only a worker with a nanny is sure to have its process for itself. A limit that a user has set stays.
    """
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return
    try:
        worker = distributed.get_worker()
    except ValueError:  # in no worker
        return
    limit = worker.memory_manager.memory_limit
    if limit and worker.nanny is not None:
        _memory.lower_limit(limit // SHARE)


def along(place: Sequence[slice]) -> Any:
    """An index of the last axes."""
    return (..., *place)


def part(block: Array, place: tuple[slice, ...]) -> Array:
    """A part of `block` along its last axes; a small one is copied, not to keep all of it."""
    cut: Array = block[along(place)]
    return cut if 2 * cut.size >= block.size else cut.copy()


def join(
    shape: Shape, dtype: np.dtype[Any], places: tuple[tuple[tuple[slice, ...], tuple[slice, ...]], ...], *blocks: Array
) -> Array:
    """The parts of `blocks` at the second of `places`, put together: each belongs where the first one says."""
    if len(blocks) == 1:
        return part(blocks[0], places[0][1])
    result = np.empty(shape, dtype)
    for (target, source), block in zip(places, blocks, strict=True):
        # Dask knows of no mask where a function that it was given makes one.
        if isinstance(block, np.ma.MaskedArray):
            raise TypeError(_arrays.masked("a chunk", "chunk.filled(...)"))
        result[along(target)] = block[along(source)]
    return result


def pool(plan: Plan, cells: Array, block_id: Shape) -> Any:
    """The windows that belong to a block, of the cells that they see."""
    spans = plan.spans(_chunks.pooling, block_id)
    result = plan.call(cells, padding=tuple(span.padding for span in spans))
    place = tuple(slice(span.skip, span.skip + span.windows[1] - span.windows[0]) for span in spans)
    if not isinstance(result, tuple):
        return part(result, place)
    values, indices = (part(array, place) for array in result)
    if not plan.codes:
        indices = _counted_in_whole(plan, indices, cells.shape, [span.cells[0] for span in spans])
        indices = _without_cells(plan, indices, [span.windows for span in spans])
    return values, indices.astype(plan.index_dtype, copy=False)


def _counted_in_whole(plan: Plan, indices: Array, block: Shape, corner: list[int]) -> Array:
    """Places in the whole plane of these places in a block of it, from cell `corner` on. May change `indices`."""
    full = plan.full()
    n = len(full)
    if block[-n:] == full:
        return indices
    first, step, rows, added = 0, 1, indices, None
    for axis in reversed(range(n)):
        first += corner[axis] * step
        if axis:
            # Each row before a cell is longer in the plane than in the block.
            rows = rows // block[axis - n]
            longer = (full[axis] - block[axis - n]) * step
            if longer:
                added = rows * longer if added is None else added + rows * longer
            step *= full[axis]
    indices += first
    return indices if added is None else np.add(indices, added, out=indices)


def _without_cells(plan: Plan, indices: Array, windows: list[Range]) -> Array:
    """`indices`, and where dilation leaves a window without any cell of the array, what NumPy's functions give.

    That is no place in a block, which could be counted in the plane.
    """
    if all(axis.dilation <= axis.size for axis in plan.axes):
        return indices
    bare = np.zeros((), bool)
    place = np.zeros((), np.int64)
    for axis, (first, last) in zip(plan.axes, windows, strict=True):
        lifted = np.array([axis.lifted(window) for window in range(first, last)])
        bare = bare[..., None] | (lifted >= axis.size)
        place = place[..., None] * axis.size + lifted
    return np.where(bare, place, indices)


def unpool(plan: Plan, name: str, values: Array, indices: Array, block_id: Shape) -> Array:
    """A block of what unpooling gives, or pooling's gradient, of the windows that reach into it.

    `name` is that of the argument for the size.
    """
    spans = plan.spans(_chunks.unpooling, block_id)
    shape = values.shape[: -len(spans)]
    if not values.size:
        return np.zeros(shape + tuple(last - first for (first, last), _ in spans), values.dtype)
    windows = [span.windows for span in spans]
    boxes = [axis.box(span.windows) for axis, span in zip(plan.axes, spans, strict=True)]
    size = tuple(max(end, span.cells[1]) - begin for (begin, end), span in zip(boxes, spans, strict=True))
    result = _called(plan, values, indices, windows, block_id, size, **{name: size})
    place = (slice(first - begin, last - begin) for ((first, last), _), (begin, _) in zip(spans, boxes, strict=True))
    return part(result, tuple(place))


def unpool_backward(plan: Plan, grad: Array, indices: Array, block_id: Shape) -> Array:
    """The gradient of a block of windows, of the cells that these see."""
    if not indices.size:
        return np.empty(indices.shape, grad.dtype)
    windows = plan.spans(lambda axis, runs: _chunks.bounds(runs), block_id)
    boxes = [axis.box(part) for axis, part in zip(plan.axes, windows, strict=True)]
    size = tuple(last - first for first, last in boxes)
    if size != grad.shape[-len(size) :]:
        box = np.zeros(grad.shape[: -len(size)] + size, grad.dtype)
        targets, sources = [], []
        for axis, part, (begin, end) in zip(plan.axes, windows, boxes, strict=True):
            first, last = axis.seen(part)
            low = max(begin, first)
            high = max(min(end, last), low)
            targets.append(slice(low - begin, high - begin))
            sources.append(slice(low - first, high - first))
        box[along(targets)] = grad[along(sources)]
        grad = box
    return _called(plan, grad, indices, windows, block_id, size)


def whole(plan: Plan, name: str | None, values: Array, indices: Array, block_id: Shape) -> Array:
    """The same of a block with planes that are whole: its indices may lead anywhere in them."""
    size = {name: plan.full()} if name else {}
    windows = plan.spans(lambda axis, runs: _chunks.bounds(runs), block_id)
    try:
        result: Array = plan.call(values, indices, padding=tuple(axis.padding for axis in plan.axes), **size)
    except IndexError:
        raise _wrong(plan, indices, windows, block_id) from None
    return result


def _called(
    plan: Plan, values: Array, indices: Array, windows: list[Range], block_id: Shape, size: Shape, **more: Any
) -> Array:
    """The function of a block of `size`, the box of its windows. No index may lead out of it, nor out of the array."""
    given = indices if plan.codes else _counted_in_block(plan, indices, windows, block_id, size)
    try:
        result: Array = plan.call(values, given, **more)
    except IndexError:
        raise _wrong(plan, indices, windows, block_id) from None
    if plan.codes and _name_padding(plan, indices, windows):
        raise _wrong(plan, indices, windows, block_id)
    return result


def _wrong(plan: Plan, indices: Array, windows: list[Range], block_id: Shape) -> IndexError:
    """The error for the first of a block's indices that is outside, by its position in the whole array."""
    at = plan.corner(block_id) + tuple(first for first, _ in windows)
    if not plan.codes:
        return _arrays.bad_index(indices, plan.full(), _format(plan, indices, at), at, plan.where)
    _, _, kernel, stride, _, dilation = zip(*plan.axes, strict=True)
    pooled = tuple(last - first for first, last in windows)
    padding = tuple(-axis.start(first) for axis, (first, _) in zip(plan.axes, windows, strict=True))
    n = len(plan.axes)
    sizes = _geometry.flat_sizes(n, plan.full(), pooled, kernel, stride, padding, dilation)
    return _arrays.bad_code(indices, n, sizes, at, plan.where)


def _format(plan: Plan, indices: Array, corner: Shape) -> str:
    """A hint for a block of indices, beginning at `corner`, that are right in a format of another library, or ""."""
    n = len(plan.axes)
    lead = tuple(_chunks.bounds(runs)[-1][1] for runs in plan.lead)
    sizes = _geometry.flat_sizes(n, *zip(*plan.axes, strict=True))
    return _diagnostics.for_a_format(indices, n, sizes, lead, corner, plan.where == "input")


def _name_padding(plan: Plan, codes: Array, windows: list[Range]) -> bool:
    """Whether some of these codes, all of them in their windows, name cells outside the array."""
    n = len(plan.axes)
    for number, (axis, (first, last)) in enumerate(zip(plan.axes, windows, strict=True)):
        starts = np.arange(first, last) * axis.stride - axis.padding
        over = np.flatnonzero((starts < 0) | (starts + axis.reach >= axis.size))
        if not over.size:
            continue
        inner = math.prod(other.kernel for other in plan.axes[number + 1 :])
        taps = np.take(codes, over, number - n).astype(np.int64) // inner % axis.kernel
        cells = starts[over].reshape((-1,) + (1,) * (n - 1 - number)) + taps * axis.dilation
        if ((cells < 0) | (cells >= axis.size)).any():
            return True
    return False


def _counted_in_block(plan: Plan, indices: Array, windows: list[Range], block_id: Shape, size: Shape) -> Array:
    """Places in the block of places in the whole plane, each of which has to lie in the box of its window."""
    places = _arrays.integers(indices, indices.shape)
    n = len(size)
    last = (axis.start(part[1]) for axis, part in zip(plan.axes, windows, strict=True))
    dtype = np.int32 if max(math.prod(plan.full()), math.prod(size), *last) < 2**31 else np.int64
    starts = [
        np.array([axis.start(window) for window in range(*part)], dtype).reshape((-1,) + (1,) * (n - 1 - number))
        for number, (axis, part) in enumerate(zip(plan.axes, windows, strict=True))
    ]
    result = np.empty(places.shape, dtype)
    slab = max(1, SLAB * len(starts[0]) // places.size)
    for begin in range(0, len(starts[0]), slab):
        few = along((slice(begin, begin + slab),) + (slice(None),) * (n - 1))
        astray = _move(plan, places[few], [starts[0][begin : begin + slab], *starts[1:]], windows, size, result[few])
        if astray:
            raise _astray(plan, indices, places, starts, windows, block_id)
    return result


def _move(plan: Plan, places: Array, starts: list[Array], windows: list[Range], size: Shape, result: Array) -> bool:
    """Write to `result` where in their block these places are; return whether some are not in their windows."""
    # Negative numbers are large ones where there is no sign.
    if (places.view(f"u{places.itemsize}") >= math.prod(plan.full())).any():
        return True
    rows, unsigned = places.astype(result.dtype), f"u{result.itemsize}"
    astray = False
    result[...] = 0
    step = 1
    for number in reversed(range(len(size))):
        axis = plan.axes[number]
        within = rows
        if number:
            rows = rows // axis.size
            within -= rows * axis.size
        within -= starts[number]
        astray = astray or bool((within.view(unsigned) > axis.reach).any())
        within += starts[number] - axis.start(windows[number][0])
        within *= step
        result += within
        step *= size[number]
    return astray


def _astray(
    plan: Plan, indices: Array, places: Array, starts: list[Array], windows: list[Range], block_id: Shape
) -> IndexError:
    """The error for the first of these places that is outside the plane or its window."""
    full, n = plan.full(), len(starts)
    beyond = (places < 0) | (places >= math.prod(full))
    cells = _arrays.unravel(np.where(beyond, 0, places).astype(np.int64), full)
    astray = beyond.copy()
    for axis, cell, start in zip(plan.axes, cells, starts, strict=True):
        astray |= (cell < start) | (cell > start + axis.reach)
    at = tuple(map(int, np.unravel_index(int(np.argmax(astray)), astray.shape)))
    if beyond[at]:
        return _wrong(plan, indices, windows, block_id)
    where = _arrays.position(at, plan.corner(block_id) + tuple(first for first, _ in windows))
    corner = tuple(axis.start(window) for axis, window in zip(plan.axes, where[-n:], strict=True))
    if (
        indices.dtype.kind == "u"
        and indices.itemsize < 4
        and int(indices.max()) < math.prod(a.kernel for a in plan.axes)
    ):
        return IndexError(
            f"index {indices[at]} at position {where} is outside its window: indices of {indices.dtype} that are all "
            "below the number of a window's cells look like window codes, which need index_format='window'"
        )
    hint = _format(plan, indices, plan.corner(block_id) + tuple(first for first, _ in windows))
    if hint:
        return IndexError(f"index {indices[at]} at position {where} is outside its window{hint}")
    if plan.where == "input":
        remedy = "For other indices, leave out kernel_size and"
    else:
        remedy = "If another size was pooled, pass that (output_size); for other indices,"
    return IndexError(
        f"index {indices[at]} at position {where} is element {tuple(int(cell[at]) for cell in cells)}, outside its "
        f"window, which begins at {corner}: a plane in several chunks takes indices as pooling gives them, each in its "
        f"own window in a plane of {' x '.join(map(str, full))}. {remedy} give each plane one chunk: "
        f"input.rechunk({dict.fromkeys(range(-n, 0), -1)})"
    )
