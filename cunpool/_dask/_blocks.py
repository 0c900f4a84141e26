"""Functions that a worker calls for one block of a chunked array, with NumPy arrays as arguments and results.

A block has the elements that its windows cover, and the public functions treat it as a plane. An unpooled block is as
large as the box of its windows, padding included, and is cropped afterwards, so that its position in the array does not
matter. This module converts between indices in the block and in the array. It also finds indices outside the array or
outside their windows.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from cunpool import _arrays, _diagnostics, _geometry, _padding, _warn, memory
from cunpool._arrays import Array
from cunpool._dask import _chunks
from cunpool._dask._chunks import Axis, Range, Runs
from cunpool._geometry import Shape

# Number of indices that are converted at a time, so that they stay in cache. (speed)
SLAB = 1 << 14

# A worker may keep its memory limit divided by this for later calls.
SHARE = 8


class Plan(NamedTuple):
    """An operation on a whole array, which is the same for all blocks."""

    function: Callable[..., Any]
    axes: tuple[Axis, ...]
    lead: tuple[Runs, ...]
    """The chunks along N and C."""
    chunks: tuple[Runs, ...]
    """The chunks along the spatial axes, of the array with the elements or of the one with the windows."""
    index_dtype: np.dtype[Any]
    codes: bool
    num_threads: int | None
    options: tuple[tuple[str, Any], ...] = ()
    """More arguments of `function`."""
    where: str = "the output"
    """The name in messages of the array that has the indices' planes."""
    padding: _padding.Fixed = 0
    """The padding of whole planes, as it was given."""

    def call(self, *arrays: Array, padding: _padding.Fixed = 0, **more: Any) -> Any:
        """Call `function` for a block."""
        bound_the_cache()
        _, _, kernel, stride, _, dilation = zip(*self.axes, strict=True)
        token = _warn.IS_LAYOUT_KNOWN.set(True)  # the sizes of a block say nothing of the order of axes
        try:
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
        finally:
            _warn.IS_LAYOUT_KNOWN.reset(token)

    def full(self) -> Shape:
        """Return the sizes of a plane."""
        return tuple(axis.size for axis in self.axes)

    def corner(self, block_id: Shape) -> Shape:
        """Return the first position of a block along N and C."""
        return tuple(_chunks.bounds(runs)[i][0] for runs, i in zip(self.lead, block_id, strict=False))

    def spans(self, find: Callable[[Axis, Runs], tuple[Any, ...]], block_id: Shape) -> list[Any]:
        """Return the result of `find` for the block, for each spatial axis."""
        numbers = block_id[-len(self.axes) :]
        return [find(axis, runs)[i] for axis, runs, i in zip(self.axes, self.chunks, numbers, strict=True)]


def bound_the_cache() -> None:
    """Limit the memory kept for later calls to a share of the worker's limit, if this is a Dask worker.

    Only a worker with a nanny certainly has its own process. A limit that the user has set stays.
    """
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return
    try:
        worker = distributed.get_worker()
    except ValueError:  # not in a worker
        return
    limit = worker.memory_manager.memory_limit
    if limit and worker.nanny is not None:
        memory.lower_limit(limit // SHARE)


def along(region: Sequence[slice]) -> Any:
    """Return an index for the last axes."""
    return (..., *region)


def part(block: Array, region: tuple[slice, ...]) -> Array:
    """Return a part of `block` along its last axes. A small part is copied, so that the block can be freed."""
    cut: Array = block[along(region)]
    return cut if 2 * cut.size >= block.size else cut.copy()


def join(
    shape: Shape, dtype: np.dtype[Any], regions: tuple[tuple[tuple[slice, ...], tuple[slice, ...]], ...], *blocks: Array
) -> Array:
    """Join parts of `blocks`. Each pair of `regions` is the target in the result and the source in the block."""
    if len(blocks) == 1:
        return part(blocks[0], regions[0][1])
    result = np.empty(shape, dtype)
    for (target, source), block in zip(regions, blocks, strict=True):
        # A function mapped over blocks may return a masked array, which Dask's metadata does not show.
        if isinstance(block, np.ma.MaskedArray):
            raise TypeError(_arrays.masked("a chunk", "chunk.filled(...)"))
        result[along(target)] = block[along(source)]
    return result


def pool(plan: Plan, block: Array, block_id: Shape) -> Any:
    """Pool the windows that belong to a block, given the elements that they cover."""
    spans = plan.spans(_chunks.pooling, block_id)
    result = plan.call(block, padding=tuple(span.padding for span in spans))
    if not isinstance(result, tuple):
        return result
    values, indices = result
    if not plan.codes:
        indices = _counted_in_whole(plan, indices, block.shape, [span.elements[0] for span in spans])
        indices = _without_cells(plan, indices, [span.windows for span in spans])
    return values, indices.astype(plan.index_dtype, copy=False)


def _counted_in_whole(plan: Plan, indices: Array, block: Shape, corner: list[int]) -> Array:
    """Convert indices in a block that begins at `corner` to indices in the whole plane. May change `indices`."""
    full = plan.full()
    n = len(full)
    if block[-n:] == full:
        return indices
    first, step, rows, added = 0, 1, indices, None
    for axis in reversed(range(n)):
        first += corner[axis] * step
        if axis:
            # Each earlier row is longer in the plane than in the block.
            rows = rows // block[axis - n]
            longer = (full[axis] - block[axis - n]) * step
            if longer:
                added = rows * longer if added is None else added + rows * longer
            step *= full[axis]
    indices += first
    return indices if added is None else np.add(indices, added, out=indices)


def _without_cells(plan: Plan, indices: Array, windows: list[Range]) -> Array:
    """Return `indices`, with the index of `cunpool.max_pool2d` for windows without an element of the array.

    Dilation can cause such windows. Their index lies outside the block, so that it cannot be converted.
    """
    if all(axis.dilation <= axis.size for axis in plan.axes):
        return indices
    bare = np.zeros((), bool)
    position = np.zeros((), np.int64)
    for axis, (first, last) in zip(plan.axes, windows, strict=True):
        lifted = np.array([axis.lifted(window) for window in range(first, last)])
        bare = bare[..., None] | (lifted >= axis.size)
        position = position[..., None] * axis.size + lifted
    return np.where(bare, position, indices)


def unpool(plan: Plan, name: str, values: Array, indices: Array, block_id: Shape) -> Array:
    """Compute a block of unpooling, or of pooling's gradient, from the windows that reach into it.

    `name` is the argument for the size.
    """
    spans = plan.spans(_chunks.unpooling, block_id)
    shape = values.shape[: -len(spans)]
    if not values.size:
        return np.zeros(shape + tuple(last - first for (first, last), _ in spans), values.dtype)
    windows = [span.windows for span in spans]
    boxes = [axis.box(span.windows) for axis, span in zip(plan.axes, spans, strict=True)]
    size = tuple(max(end, span.elements[1]) - begin for (begin, end), span in zip(boxes, spans, strict=True))
    result = _called(plan, values, indices, windows, block_id, size, **{name: size})
    region = (slice(first - begin, last - begin) for ((first, last), _), (begin, _) in zip(spans, boxes, strict=True))
    return part(result, tuple(region))


def unpool_backward(plan: Plan, grad: Array, indices: Array, block_id: Shape) -> Array:
    """Compute the gradient of a block of windows from the elements that they cover."""
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
    """Do the same for a block of whole planes, in which indices may lie anywhere."""
    size = {name: plan.full()} if name else {}
    windows = plan.spans(lambda axis, runs: _chunks.bounds(runs), block_id)
    try:
        result: Array = plan.call(values, indices, padding=plan.padding, **size)
    except IndexError:
        raise _wrong(plan, indices, windows, block_id) from None
    return result


def _called(
    plan: Plan, values: Array, indices: Array, windows: list[Range], block_id: Shape, size: Shape, **more: Any
) -> Array:
    """Call the function for a block of `size`, the box of its windows. Indices must lie in it and in the array."""
    given = indices if plan.codes else _counted_in_block(plan, indices, windows, block_id, size)
    try:
        result: Array = plan.call(values, given, **more)
    except IndexError:
        raise _wrong(plan, indices, windows, block_id) from None
    if plan.codes and _name_padding(plan, indices, windows):
        raise _wrong(plan, indices, windows, block_id)
    return result


def _wrong(plan: Plan, indices: Array, windows: list[Range], block_id: Shape) -> IndexError:
    """Return the error for the first index of a block that is outside, with its position in the whole array."""
    at = plan.corner(block_id) + tuple(first for first, _ in windows)
    if not plan.codes:
        return _diagnostics.bad_index(indices, plan.full(), _format(plan, indices, at), at, plan.where)
    _, _, kernel, stride, _, dilation = zip(*plan.axes, strict=True)
    pooled = tuple(last - first for first, last in windows)
    padding = tuple(-axis.start(first) for axis, (first, _) in zip(plan.axes, windows, strict=True))
    n = len(plan.axes)
    sizes = _geometry.flat_sizes(n, plan.full(), pooled, kernel, stride, padding, dilation)
    return _diagnostics.bad_code(indices, n, sizes, at, plan.where)


def _format(plan: Plan, indices: Array, corner: Shape) -> str:
    """Return a hint for indices of a block at `corner` that are right in another library's format, or ""."""
    n = len(plan.axes)
    lead = tuple(_chunks.bounds(runs)[-1][1] for runs in plan.lead)
    sizes = _geometry.flat_sizes(n, *zip(*plan.axes, strict=True))
    return _diagnostics.for_a_format(indices, n, sizes, lead, corner, plan.where == "input")


def _name_padding(plan: Plan, codes: Array, windows: list[Range]) -> bool:
    """Return whether some of these valid codes name elements outside the array."""
    n = len(plan.axes)
    for number, (axis, (first, last)) in enumerate(zip(plan.axes, windows, strict=True)):
        starts = np.arange(first, last) * axis.stride - axis.padding
        over = np.flatnonzero((starts < 0) | (starts + axis.reach >= axis.size))
        if not over.size:
            continue
        inner = math.prod(other.kernel for other in plan.axes[number + 1 :])
        taps = np.take(codes, over, number - n).astype(np.int64) // inner % axis.kernel
        elements = starts[over].reshape((-1,) + (1,) * (n - 1 - number)) + taps * axis.dilation
        if ((elements < 0) | (elements >= axis.size)).any():
            return True
    return False


def _counted_in_block(plan: Plan, indices: Array, windows: list[Range], block_id: Shape, size: Shape) -> Array:
    """Convert indices in the whole plane to indices in the block. Each must lie in the box of its window."""
    positions = _arrays.integers(indices, indices.shape)
    n = len(size)
    last = (axis.start(part[1]) for axis, part in zip(plan.axes, windows, strict=True))
    dtype = np.int32 if max(math.prod(plan.full()), math.prod(size), *last) < 2**31 else np.int64
    starts = [
        np.array([axis.start(window) for window in range(*part)], dtype).reshape((-1,) + (1,) * (n - 1 - number))
        for number, (axis, part) in enumerate(zip(plan.axes, windows, strict=True))
    ]
    result = np.empty(positions.shape, dtype)
    slab = max(1, SLAB * len(starts[0]) // positions.size)
    for begin in range(0, len(starts[0]), slab):
        few = along((slice(begin, begin + slab),) + (slice(None),) * (n - 1))
        astray = _move(plan, positions[few], [starts[0][begin : begin + slab], *starts[1:]], windows, size, result[few])
        if astray:
            raise _astray(plan, indices, positions, starts, windows, block_id)
    return result


def _move(plan: Plan, positions: Array, starts: list[Array], windows: list[Range], size: Shape, result: Array) -> bool:
    """Write the indices in the block to `result`, and return whether some lie outside their windows."""
    # As unsigned integers, negative numbers are large.
    if (positions.view(f"u{positions.itemsize}") >= math.prod(plan.full())).any():
        return True
    rows, unsigned = positions.astype(result.dtype), f"u{result.itemsize}"
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
    plan: Plan, indices: Array, positions: Array, starts: list[Array], windows: list[Range], block_id: Shape
) -> IndexError:
    """Return the error for the first of these indices that is outside the plane or its window."""
    full, n = plan.full(), len(starts)
    beyond = (positions < 0) | (positions >= math.prod(full))
    coordinates = _arrays.unravel(np.where(beyond, 0, positions).astype(np.int64), full)
    astray = beyond.copy()
    for axis, coordinate, start in zip(plan.axes, coordinates, starts, strict=True):
        astray |= (coordinate < start) | (coordinate > start + axis.reach)
    at = tuple(map(int, np.unravel_index(int(np.argmax(astray)), astray.shape)))
    if beyond[at]:
        return _wrong(plan, indices, windows, block_id)
    where = _diagnostics.position(at, plan.corner(block_id) + tuple(first for first, _ in windows))
    corner = tuple(axis.start(window) for axis, window in zip(plan.axes, where[-n:], strict=True))
    if (
        indices.dtype.kind == "u"
        and indices.itemsize < 4
        and int(indices.max()) < math.prod(a.kernel for a in plan.axes)
    ):
        return IndexError(
            f"index {indices[at]} at position {where} is outside its window: indices of {indices.dtype} that are all "
            "below the number of a window's elements look like window codes, which need index_format='window'"
        )
    hint = _format(plan, indices, plan.corner(block_id) + tuple(first for first, _ in windows))
    if hint:
        return IndexError(f"index {indices[at]} at position {where} is outside its window{hint}")
    if plan.where == "input":
        remedy = "For other indices, leave out kernel_size and"
    else:
        remedy = "If another size was pooled, pass that (output_size); for other indices,"
    return IndexError(
        f"index {indices[at]} at position {where} is element {tuple(int(axis[at]) for axis in coordinates)}, outside "
        f"its window, which begins at {corner}: a plane in several chunks takes indices as pooling gives them, each in "
        f"its own window in a plane of {' x '.join(map(str, full))}. {remedy} give each plane one chunk: "
        f"input.rechunk({dict.fromkeys(range(-n, 0), -1)})"
    )
