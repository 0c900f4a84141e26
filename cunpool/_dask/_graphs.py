"""Dask's task graphs: the chunks from which each block is made, and the task for it. No element is read here.

Every operation has three steps. `_chunks` finds the windows of a block of the result, and the elements that they cover.
`_gathered` makes an array whose blocks have these elements. `_blocks` has the function that a worker calls for a block.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from cunpool import _arrays, _channels, _diagnostics, _geometry, _padding, _remedies, _results, _threads, _warn, taking
from cunpool._dask import _blocks, _chunks
from cunpool._dask._blocks import Plan
from cunpool._dask._chunks import Axis, Range
from cunpool._geometry import Padding, Shape, Size, Window
from cunpool._remedies import type_of

try:
    import dask.array as da
    from dask.base import tokenize
    from dask.highlevelgraph import HighLevelGraph
except ImportError:
    raise ImportError("cunpool.dask needs dask: pip install 'cunpool[dask]'") from None

Array: TypeAlias = "da.Array"
Lazy: TypeAlias = "Array | npt.ArrayLike"


PAIR = "a * before a pair makes two arguments"
MEMBER = "pass one of them, such as the values of a pair, or join them with dask.array.stack"


def _known(name: str, value: Lazy, n: int = 0, of_some: str = PAIR) -> da.Array:
    """Return `value` as a Dask array with known sizes and without masks; with `n`, check that it has `n` spatial axes.

    `of_some` is the remedy if `value` has several arrays.
    """
    if isinstance(value, (tuple, list)) and any(isinstance(entry, da.Array) for entry in value):
        raise TypeError(f"{name} must be one array, got a {type(value).__name__} of some: {of_some}")
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        value = _arrays.array_of(value, name, n)
    array = da.asarray(value)
    if n and array.ndim == n and not isinstance(value, da.Array):
        maker = "from_zarr" if type_of(value).startswith("zarr.") else "asarray"
        raise ValueError(
            f"{name} must have {n + 1} or {n + 2} axes, (C, *spatial) or (N, C, *spatial), got {array.shape} of type "
            f"{type_of(value)}; add a channel axis: da.{maker}({name})[None]"
        )
    if isinstance(array._meta, np.ma.MaskedArray):
        raise TypeError(_arrays.masked(name, f"da.ma.filled({name}, ...)"))
    if any(map(math.isnan, array.shape)):
        raise ValueError(
            f"{name} must have chunks of known sizes, got shape {array.shape}; its compute_chunk_sizes() finds them"
        )
    return array


def with_channel_axis(function: Callable[..., Any], n: int, arguments: dict[str, Any]) -> Any:
    """Call `function` with the axes of Dask arrays moved."""
    return _channels.call(function, n, arguments, lambda value, name: _known(name, value), da.moveaxis)


def _without_empty_chunks(array: da.Array, n: int) -> da.Array:
    """Return `array` without spatial chunks of size 0, except for one chunk on an axis of size 0."""
    some = (tuple(size for size in along if size) or (0,) for along in array.chunks[-n:])
    return array.rechunk(dict(zip(range(-n, 0), some, strict=True)))


def _shape(array: da.Array) -> Shape:
    return tuple(map(int, array.shape))


def _axes(n: int, sizes: _geometry.Sizes) -> tuple[Axis, ...]:
    return tuple(Axis(*sizes[axis:18:3]) for axis in range(3 - n, 3))


def _runs(chunks: Iterable[Sequence[int]]) -> tuple[_chunks.Runs, ...]:
    return tuple(map(_chunks.runs, chunks))


def _check_indices(
    index_array: da.Array, like: da.Array, name: str, earlier: Callable[[Shape], str] | None = None
) -> None:
    """Refuse indices of the wrong kind, or indices that do not fit the array `like`, which is the argument `name`."""
    # Two stand-ins: one element, whose dtype can be converted, and an array of the whole shape without memory.
    entry = np.zeros(min(index_array.size, 1), index_array.dtype)
    whole, beside = (np.broadcast_to(np.zeros((), array.dtype), array.shape) for array in (index_array, like))
    try:
        _arrays.integers(np.broadcast_to(np.zeros((), _arrays.INT64), index_array.shape), beside.shape, name)
        _arrays.integers(entry, entry.shape)
    except (TypeError, ValueError) as error:
        raise _arrays.better_error(error, whole, beside, name, earlier) from None


def _gathered(array: da.Array, ranges: Sequence[Sequence[Range]]) -> da.Array:
    """Return an array whose blocks have these ranges of the last axes. Ranges may overlap or have gaps.

    A chunk goes to a block unchanged if at least half of it is needed. Otherwise a task on the chunk's own worker cuts
    out the part, so that less is moved.
    """
    n = len(ranges)
    chunks = [_chunks.bounds(runs) for runs in _runs(array.chunks[-n:])]
    if all(tuple(wanted) == given for wanted, given in zip(ranges, chunks, strict=True)):
        return array
    if hasattr(array, "expr"):
        return _gathered_by_axis(array, ranges)
    token = tokenize(array.name, ranges)
    name, cut_name = f"joined-{token}", f"cut-{token}"
    graph: dict[Any, Any] = {}
    pieces = [
        [list(_chunks.pieces(elements, bounds)) for elements in wanted]
        for wanted, bounds in zip(ranges, chunks, strict=True)
    ]
    for block in itertools.product(*map(range, array.numblocks[:-n]), *(range(len(wanted)) for wanted in ranges)):
        regions, keys = [], []
        for piece in itertools.product(*(pieces[axis][block[axis - n]] for axis in range(n))):
            numbers, sources, targets = zip(*piece, strict=True)
            key = (array.name, *block[:-n], *numbers)
            seen = math.prod(source.stop - source.start for source in sources)
            whole = math.prod(last - first for first, last in (chunks[a][i] for a, i in enumerate(numbers)))
            if 2 * seen < whole:
                cut = (cut_name, *key[1:], *(end for source in sources for end in (source.start, source.stop)))
                graph[cut] = (partial(_blocks.part, region=sources), key)
                key, sources = cut, tuple(slice(0, source.stop - source.start) for source in sources)
            keys.append(key)
            regions.append((targets, sources))
        shape = tuple(array.chunks[axis][i] for axis, i in enumerate(block[:-n]))
        shape += tuple(last - first for first, last in (ranges[axis][block[axis - n]] for axis in range(n)))
        graph[(name, *block)] = (partial(_blocks.join, shape, array.dtype, tuple(regions)), *keys)
    return da.Array(
        HighLevelGraph.from_collections(name, graph, dependencies=[array]),
        name,
        chunks=array.chunks[:-n] + _sizes(ranges),
        dtype=array.dtype,
        meta=np.empty((0,) * array.ndim, array.dtype),
    )


def _gathered_by_axis(array: da.Array, ranges: Sequence[Sequence[Range]]) -> da.Array:
    """Do the same for Dask's array expressions, which accept no graph from outside, one axis after the other."""
    for axis, wanted in enumerate(ranges, array.ndim - len(ranges)):
        along = (slice(None),) * axis
        slabs = [array[(*along, slice(*elements))].rechunk({axis: -1}) for elements in wanted]
        array = da.concatenate(slabs, axis).astype(array.dtype)  # concatenate changes the byte order
    return array


def _sizes(ranges: Iterable[Iterable[Range]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(last - first for first, last in wanted) for wanted in ranges)


def _per_block(function: Callable[..., Any], *arrays: da.Array, chunks: Any, dtype: Any) -> da.Array:
    """Map `function` over the blocks. `meta` is passed so that Dask does not call `function` with an empty array."""
    return da.map_blocks(function, *arrays, chunks=chunks, dtype=dtype, meta=np.empty((0,) * len(chunks), dtype))


def pool(
    function: Callable[..., Any],
    n: int,
    input: Lazy,
    window: Window,
    ceil_mode: bool,
    choices: tuple[bool, str, npt.DTypeLike | None, str],
    num_threads: int | None,
) -> da.Array | tuple[da.Array, da.Array]:
    """Pool by `function` over `n` spatial axes.

    `choices` are `return_indices`, `index_format`, `index_dtype` and `nan_policy`.
    """
    return_indices, index_format, index_dtype, nan_policy = choices
    array = _known("input", input, n, MEMBER)
    _arrays.numbers(np.empty(0, array.dtype))
    ceil_mode = _geometry.flag("ceil_mode", ceil_mode)
    return_indices = _geometry.flag("return_indices", return_indices)
    codes = _geometry.is_window(index_format) and return_indices
    maker = "" if isinstance(input, (da.Array, np.ndarray)) else "dask.array.asarray"
    try:
        geometry = _geometry.pooling_and_layout(n, _shape(array), *_geometry.window(*window), ceil_mode, codes)
    except ValueError as error:
        raise ValueError(_remedies.for_other_kinds(str(error), maker) if maker else str(error)) from None
    _, _, sizes, layout = geometry
    if layout:
        _warn.warn(_remedies.for_other_kinds(layout, maker) if maker else layout, _warn.LayoutWarning)
    _threads.threads_for(0, num_threads)
    dtype = _results.dtype_of_indices(index_dtype, None, codes, sizes, return_indices)
    _geometry.omits_nan(nan_policy)
    options = ("return_indices", return_indices), ("nan_policy", nan_policy)
    lead, chunks = _runs(array.chunks[:-n]), _runs(array.chunks[-n:])
    axes = _axes(n, sizes)
    plan = Plan(function, axes, lead, chunks, dtype, codes, num_threads, options)
    blocks = [_chunks.pooling(axis, runs) for axis, runs in zip(axes, chunks, strict=True)]
    gathered = _gathered(array, [[block.elements for block in along] for along in blocks])
    pooled = array.chunks[:-n] + _sizes([block.windows for block in along] for along in blocks)
    task = partial(_blocks.pool, plan)
    if not return_indices:
        return _per_block(task, gathered, chunks=pooled, dtype=array.dtype)
    # Each block of `pairs` is a tuple, from which both results are taken, so that each block is pooled once.
    pairs = _per_block(task, gathered, chunks=pooled, dtype=np.dtype(object))
    return (
        _per_block(itemgetter(0), pairs, chunks=pooled, dtype=array.dtype),
        _per_block(itemgetter(1), pairs, chunks=pooled, dtype=dtype),
    )


def unpool(
    function: Callable[..., Any],
    n: int,
    input: Lazy,
    indices: Lazy,
    window: Window,
    output_size: Sequence[SupportsIndex] | None,
    index_format: str,
    num_threads: int | None,
) -> da.Array:
    """Unpool by `function` over `n` spatial axes."""
    array, index_array = _known("input", input, n), _known("indices", indices)
    _arrays.items(np.empty(0, array.dtype))
    codes = _geometry.is_window(index_format)
    fixed = _geometry.window(*window)
    _check_indices(
        index_array, array, "input", lambda shape: _diagnostics.for_other_indices(n, _shape(array), shape, window)
    )
    size = None if output_size is None else _geometry.entries("output_size", output_size)
    _, _, sizes = _geometry.unpooling(n, _shape(array), *fixed, size)
    if codes:
        _geometry.code_bytes(sizes[6:9])
    _threads.threads_for(0, num_threads)
    return _scattered(
        function, n, array, index_array, sizes, fixed[2], "output_size", size is not None, codes, num_threads
    )


def pool_backward(
    function: Callable[..., Any],
    n: int,
    grad_output: Lazy,
    indices: Lazy,
    input_size: Sequence[SupportsIndex],
    window: Window,
    index_format: str,
    num_threads: int | None,
) -> da.Array:
    """Compute the gradient of pooling by `function` over `n` spatial axes."""
    array, index_array = _known("grad_output", grad_output, n), _known("indices", indices)
    _check_indices(index_array, array, "grad_output")  # before the dtype of the values, as the two may be swapped
    _arrays.reals(np.empty(0, array.dtype), "grad_output")
    codes = _geometry.is_window(index_format)
    fixed = _geometry.window(*window)
    given = _shape(array)
    shape = _geometry.entries("input_size", input_size)
    if len(shape) == n:
        shape = given[:-n] + shape
    _, _, sizes = _geometry.pooled_from(n, shape, given, fixed)
    if codes:
        _geometry.code_bytes(sizes[6:9])
    _threads.threads_for(0, num_threads)
    return _scattered(function, n, array, index_array, sizes, fixed[2], "input_size", True, codes, num_threads)


def _scattered(
    function: Callable[..., Any],
    n: int,
    array: da.Array,
    index_array: da.Array,
    sizes: _geometry.Sizes,
    padding: _padding.Fixed,
    name: str,
    said: bool,
    codes: bool,
    num_threads: int | None,
) -> da.Array:
    """Scatter values by `function`. Its argument `name` is the size of a plane, which the caller gave if `said`."""
    array = _without_empty_chunks(array, n)
    index_array = index_array.rechunk(array.chunks)
    lead, chunks = _runs(array.chunks[:-n]), _runs(array.chunks[-n:])
    axes = _axes(n, sizes)
    plan = Plan(function, axes, lead, chunks, index_array.dtype, codes, num_threads, padding=padding)
    if array.numblocks[-n:] == (1,) * n:
        block_sizes = array.chunks[:-n] + tuple((axis.size,) for axis in axes)
        # With the default size, the function warns of indices that would be right in another size.
        task = partial(_blocks.whole, plan, name if said else None)
        return _per_block(task, array, index_array, chunks=block_sizes, dtype=array.dtype)
    blocks = [_chunks.unpooling(axis, runs) for axis, runs in zip(axes, chunks, strict=True)]
    windows = [[block.windows for block in along] for along in blocks]
    block_sizes = array.chunks[:-n] + _sizes([block.elements for block in along] for along in blocks)
    task = partial(_blocks.unpool, plan, name)
    return _per_block(
        task, _gathered(array, windows), _gathered(index_array, windows), chunks=block_sizes, dtype=array.dtype
    )


def unpool_backward(
    function: Callable[..., Any],
    n: int,
    grad_output: Lazy,
    indices: Lazy,
    window: Window,
    index_format: str,
    num_threads: int | None,
) -> da.Array:
    """Compute the gradient of unpooling by `function` over `n` spatial axes."""
    full, index_array = _known("grad_output", grad_output, n), _known("indices", indices)
    _arrays.items(np.empty(0, full.dtype), "grad_output")
    codes = _geometry.is_window(index_format)
    shape, given = _shape(index_array), _shape(full)
    fixed = _geometry.window(*window)
    _, _, sizes = _geometry.unpooled_to(n, shape, given, fixed)
    if codes:
        _geometry.code_bytes(sizes[6:9])
    _check_indices(index_array, index_array, "indices")
    _threads.threads_for(0, num_threads)
    index_array = _without_empty_chunks(index_array, n)
    lead, chunks = _runs(index_array.chunks[:-n]), _runs(index_array.chunks[-n:])
    axes = _axes(n, sizes)
    plan = Plan(function, axes, lead, chunks, index_array.dtype, codes, num_threads, padding=fixed[2])
    task: Callable[..., Any]
    if index_array.numblocks[-n:] == (1,) * n:
        task, ranges = partial(_blocks.whole, plan, None), [[(0, axis.size)] for axis in axes]
    else:
        task = partial(_blocks.unpool_backward, plan)
        ranges = [list(map(axis.seen, _chunks.bounds(runs))) for axis, runs in zip(axes, chunks, strict=True)]
    full = _gathered(full.rechunk(dict(enumerate(index_array.chunks[:-n]))), ranges)
    return _per_block(task, full, index_array, chunks=index_array.chunks, dtype=full.dtype)


def take_at(
    function: Callable[..., Any],
    n: int,
    input: Lazy,
    indices: Lazy,
    window: tuple[Size | None, Size | None, Padding, Size],
    index_format: str,
    num_threads: int | None,
) -> da.Array:
    """Take elements by `function` over `n` spatial axes."""
    array, index_array = _known("input", input, n), _known("indices", indices)
    _arrays.items(np.empty(0, array.dtype))
    codes = _geometry.is_window(index_format)
    kernel_size, stride, padding, dilation = window
    located = kernel_size is not None
    if codes and not located:
        raise TypeError(taking.WITHOUT_WINDOW)
    fixed = _geometry.window(1 if kernel_size is None else kernel_size, stride, padding, dilation)
    index_array = (
        _without_empty_chunks(index_array, n) if index_array.ndim > n else index_array
    )  # fewer axes are refused below
    shape, given = _shape(array), _shape(index_array)
    whole = index_array.numblocks[-n:] == (1,) * n
    sizes, inside = _geometry.taking(n, shape, given, fixed, codes or (located and not whole))
    if codes:
        _geometry.code_bytes(sizes[6:9])
    try:
        _check_indices(index_array, index_array, "indices")
    except TypeError as error:
        raise _arrays.if_swapped(error, array.dtype, "input") from None
    _threads.threads_for(0, num_threads)
    if not whole and not located and array.numblocks[-n:] != (1,) * n:
        raise ValueError(
            "kernel_size must be given where planes are in several chunks: windows say which of them an index may lie "
            f"in; got input of {shape[-n:]} in chunks of {array.chunksize[-n:]}. For indices that lie anywhere, give "
            f"each plane one chunk: input.rechunk({dict.fromkeys(range(-n, 0), -1)})"
        )
    if located and not whole and not inside and index_array.size:
        raise ValueError(
            f"windows must reach into the planes of input, {shape[-n:]}, got indices of shape {given}: kernel_size, "
            "stride, padding and dilation have to be those of the pooling that gave the indices"
        )
    lead, chunks = _runs(index_array.chunks[:-n]), _runs(index_array.chunks[-n:])
    axes = _axes(n, sizes)
    at_both_ends = fixed[2] if codes else 0  # windows of other indices may be made up
    plan = Plan(
        function, axes, lead, chunks, index_array.dtype, codes, num_threads, where="input", padding=at_both_ends
    )
    task: Callable[..., Any]
    if whole or not located:
        task = partial(_blocks.whole, plan, None)
        ranges = [[(0, axis.size)] * count for axis, count in zip(axes, index_array.numblocks[-n:], strict=True)]
    else:
        task = partial(_blocks.unpool_backward, plan)
        ranges = [list(map(axis.seen, _chunks.bounds(runs))) for axis, runs in zip(axes, chunks, strict=True)]
    array = _gathered(array.rechunk(dict(enumerate(index_array.chunks[:-n]))), ranges)
    return _per_block(task, array, index_array, chunks=index_array.chunks, dtype=array.dtype)
