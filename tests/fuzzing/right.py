"""Right calls: they give what the definitions say, bit by bit, change no input and write nothing beside `out`."""

from __future__ import annotations

import warnings
from functools import partial
from unittest import mock

import numpy as np
import reference
import vectorised
from cases import FLOATS, INTEGERS, MOVED, POOL, UNPOOL, random_items

import cunpool as cu
from cunpool import _unequal
from fuzzing.arrays import INDICES, narrowed, one_of, repeated, some_numbers, some_order, some_out, strided, threads
from fuzzing.judge import hold, refused, same, same_numbers
from fuzzing.sizes import Window

TAKE = {n: getattr(cu, f"take_at{n}d") for n in (1, 2, 3)}
UNPOOL_BACKWARD = {n: getattr(cu, f"max_unpool{n}d_backward") for n in (1, 2, 3)}
MIN_POOL = {n: getattr(cu, f"min_pool{n}d") for n in (1, 2, 3)}
POOL_BACKWARD = {n: getattr(cu, f"max_pool{n}d_backward") for n in (1, 2, 3)}
SMALL = 2000  # so many cells are left to the slow judge


def judge(cost: float):
    return reference if cost <= SMALL else vectorised


def pool(rng, large: bool = False) -> None:
    dtype = one_of(rng, INTEGERS + FLOATS + [np.dtype(">f4"), np.dtype(">i2"), np.dtype(bool)])
    w = Window(rng, dtype.itemsize, large)
    plain = some_numbers(rng, dtype.newbyteorder("="), w.shape + w.full).astype(dtype)
    x = strided(rng, plain, some_order(rng, w))
    arguments = w.kernel, w.stride, w.padding, w.dilation, w.ceil
    cost = np.prod(w.shape) * np.prod(w.pooled, dtype=float) * w.taps
    minimum, omit = rng.random() < 0.3, rng.random() < 0.3
    values, indices = judge(cost).max_pool(plain.astype(dtype.newbyteorder("=")), w.n, *arguments, minimum=minimum,
                                           omit=omit)  # fmt: skip
    values = values.astype(dtype)
    what = f"{'min' if minimum else 'max'} {w} {dtype} strides {x.strides} {'omit' * omit}"
    policy = "omit" if omit else "propagate"
    function = partial((MIN_POOL if minimum else POOL)[w.n], nan_policy=policy)
    result = function(x, *arguments, return_indices=True, num_threads=threads(rng))
    same(result[0], values, f"values of pooling {what}")
    same(result[1], indices, f"indices of pooling {what}")
    same(function(x, *arguments, num_threads=threads(rng)), values, f"pooling alone {what}")

    def by_codes():
        return function(x, *arguments, return_indices=True, index_format="window", num_threads=threads(rng))

    if w.taps > 1 << 16:
        refused(by_codes, ValueError)
    else:
        codes, right = w.codes(indices)
        result = by_codes()
        same(result[0], values, f"values of pooling, window codes, {what}")
        same(np.where(right, result[1], codes.dtype.type(0)), codes, f"codes of pooling {what}")
    same(x, plain, f"pooling changed its input {what}")
    if rng.random() < 0.2:
        axis, moved = elsewhere(rng, w)
        result = function(moved(x), *arguments, return_indices=True, channel_axis=axis, num_threads=threads(rng))
        same(result[0], moved(values), f"values of pooling, channel_axis {axis}, {what}")
        same(result[1], moved(indices), f"indices of pooling, channel_axis {axis}, {what}")
    pool_into(rng, w, x, arguments, values, indices, function)


def elsewhere(rng, w: Window):
    """An axis of the channels, and a function that moves them there."""
    lead, axes = len(w.shape) - 1, len(w.shape) + w.n
    axis = int(rng.integers(-axes, axes))
    return axis, lambda array: np.moveaxis(array, lead, axis)


def pool_turned(rng) -> None:
    """Values alone of small windows, where the rows of memory are not those of the raster."""
    n, dtype = int(rng.integers(2, 4)), one_of(rng, FLOATS)
    plain = some_numbers(rng, dtype, (int(rng.integers(1, 4)), *rng.integers(3, 60 if n == 2 else 20, n).tolist()))
    if rng.random() < 0.5:  # of equal ones the first in raster order stays, which only zeros show
        plain = rng.choice([-1, -0.0, 0], plain.shape).astype(dtype)
    order = [0, *rng.permutation(range(1, n + 1)).tolist()]
    x = np.ascontiguousarray(plain.transpose(order)).transpose(np.argsort(order))
    kernel = tuple(rng.choice([1, 2, 3, 3, 3], n).tolist())
    arguments = kernel, int(rng.integers(1, 4)), tuple(k // 2 for k in kernel) if rng.random() < 0.5 else 0
    if rng.random() < 0.2:
        arguments = *arguments[:2], tuple((k // 2, k - 1) for k in kernel)
    minimum = rng.random() < 0.3
    expected, _ = vectorised.max_pool(plain, n, *arguments, minimum=minimum)
    result = (MIN_POOL if minimum else POOL)[n](x, *arguments, num_threads=threads(rng))
    same(result, expected, f"pooling alone, minimum {minimum}, {arguments} {dtype} in {order}")


def pool_shared_rows(rng) -> None:
    """Windows that share rows, of channels that are neighbours, or of planes that are interleaved."""
    dtype, channels = one_of(rng, FLOATS + FLOATS + INTEGERS), int(rng.integers(1, 80))
    kernel, stride, padding = int(rng.choice([2, 3, 5])), int(rng.integers(1, 3)), int(rng.integers(0, 3))
    padding = min(padding, kernel // 2)
    plain = some_numbers(rng, dtype, (channels, *rng.integers(kernel, 40, 2).tolist()))
    order = [1, 2, 0] if rng.random() < 0.7 else [0, 1, 2]
    x = np.ascontiguousarray(plain.transpose(order)).transpose(np.argsort(order))
    arguments, minimum, omit = (kernel, stride, padding), rng.random() < 0.3, rng.random() < 0.3
    values, indices = vectorised.max_pool(plain, 2, *arguments, minimum=minimum, omit=omit)
    function = partial((MIN_POOL if minimum else POOL)[2], nan_policy="omit" if omit else "propagate")
    what = f"{'min' if minimum else 'max'} {arguments} {plain.shape} {dtype} in {order} {'omit' * omit}"
    same(function(x, *arguments, num_threads=threads(rng)), values, f"values alone of {what}")
    for style in ({"index_dtype": "i8"}, {"index_dtype": "i4"}, {"index_format": "window"}):
        result = function(x, *arguments, return_indices=True, num_threads=threads(rng), **style)
        same(result[0], values, f"values of {what} {style}")
        places = result[1]
        if "index_format" in style:
            sizes = {"kernel_size": kernel, "stride": stride, "padding": padding, "input_size": plain.shape[1:]}
            places = cu.convert_indices(places, "window", "plane", **sizes)
        same(places.astype(np.int64), indices, f"indices of {what} {style}")


def pool_into(rng, w: Window, x, arguments, values, indices, function) -> None:
    """Into given arrays, over the input perhaps; what is not given is made."""
    kind = one_of(rng, [np.dtype(c) for c in ("i4", "i8", "u1", "u2")])
    style = {"index_format": "window" if kind.kind == "u" else "plane"}
    if kind.kind == "u" and w.taps > np.iinfo(kind).max + 1:
        return
    order = some_order(rng, w)
    places, (again,) = some_out(rng, order, indices.shape, kind, x)
    into, (again,) = some_out(rng, order, values.shape, values.dtype, again) if again is x else (None, (again,))
    if places is None and kind == np.int32:
        style["index_dtype"] = "i4"
    what = f"max_pool {w} {x.dtype} into {into and into.strides} and {kind} {places and places.strides}"
    out = tuple(array if array is None else array.array for array in (into, places))
    result = function(again, *arguments, return_indices=True, num_threads=threads(rng), out=out, **style)
    same(result[0], values, f"values of {what}")
    if kind.kind == "u":
        codes, right = w.codes(indices)
        kind = codes.dtype if places is None else kind
        hold(result[1].dtype == kind, f"{result[1].dtype}: {what}")
        same(np.where(right, result[1], kind.type(0)), codes.astype(kind), f"codes of {what}")
    else:
        same(result[1], indices.astype(kind), f"indices of {what}")
    for guarded, array in zip((into, places), result, strict=True):
        if guarded is not None:
            hold(array is guarded.array, f"out was not returned: {what}")
            guarded.check()


def unpool_arguments(rng, item_size: int, large: bool = False):
    """A geometry of unpooling with its right indices, and its codes if there are any."""
    while True:
        w = Window(rng, item_size, large)
        default = reference.default_size(w.pooled, w.n, w.kernel, w.stride, w.padding, w.dilation)
        strides = w.axes()[1]
        size, full = None, default
        if rng.random() < 0.4 or min(default) < 1:
            # Smaller planes cut windows off, larger ones have cells that belong to none.
            less = [s - 1 if rng.random() < 0.4 else 0 for s in strides]
            full = tuple(
                int(rng.integers(max(d - back, 1), max(d + (1 if isinstance(w.padding, str) else s), 2)))
                for d, back, s in zip(default, less, strides, strict=True)
            )
            size = full if rng.random() < 0.5 else (int(rng.integers(9)), 7, *full)
        # Almost a stride more on each axis can be many cells.
        most = [0 if isinstance(w.padding, str) else s - 1 for s in strides]
        if (all(d - s < f <= d + m for f, d, s, m in zip(full, default, strides, most, strict=True))
                and np.prod(full, dtype=float) <= 9 * np.prod(w.full) + 1000):  # fmt: skip
            break
    w.full = full
    cells = int(np.prod(full))
    places = w.places(rng) if rng.random() < 0.8 else None
    codes = None
    if places is None:
        places = rng.integers(0, cells, w.shape + w.pooled)
    elif w.taps <= 1 << 16:
        codes = w.codes(places)[0]
        if rng.random() < 0.2:
            dtype = one_of(rng, INDICES)
            codes = codes.astype(dtype) if codes.max(initial=0) <= np.iinfo(dtype).max else codes
    places, given = repeated(rng, places), places
    if places is not given:  # cells of the plane all the same, though of other windows
        codes = None
    if places.size and rng.random() < 0.3:  # a stray, often a near one
        position = int(rng.integers(places.size))
        near = places.flat[position] + int(one_of(rng, (1, -1, 2, strides[-1], full[-1], -full[-1], w.axes()[0][-1])))
        places.flat[position] = near if 0 <= near < cells and rng.random() < 0.7 else int(rng.integers(cells))
        codes = None
    return w, size, places, codes


def in_format(rng, places, codes):
    """The name of a format, and indices in it."""
    return ("window", codes) if codes is not None and rng.random() < 0.6 else ("plane", narrowed(rng, places))


def unpool(rng, large: bool = False) -> None:
    dtype = one_of(rng, MOVED)
    w, size, places, codes = unpool_arguments(rng, dtype.itemsize, large)
    plain = repeated(rng, random_items(rng, dtype, places.shape))
    expected = judge(places.size).max_unpool(plain, places, w.n, w.full)
    chosen, given = in_format(rng, places, codes)
    order = some_order(rng, w)
    inputs = strided(rng, plain, order), strided(rng, given, order)
    out, (values, given) = some_out(rng, order, expected.shape, dtype, *inputs)
    strides = values.strides, given.strides, out and out.strides
    what = f"max_unpool {w} to {size} {dtype} {chosen} {given.dtype} strides {strides}"
    before = given.copy("K")
    result = UNPOOL[w.n](values, given, **w.keywords, output_size=size, index_format=chosen, num_threads=threads(rng),
                         out=None if out is None else out.array)  # fmt: skip
    same(result, expected, what)
    if out is None:
        same(values, plain, f"values changed: {what}")
        same(given, before, f"indices changed: {what}")
    else:
        hold(result is out.array, f"out was not returned: {what}")
        out.check()
    if rng.random() < 0.2:
        axis, moved = elsewhere(rng, w)
        given = moved(strided(rng, plain, order)), moved(strided(rng, before, order))
        keywords = {**w.keywords, "index_format": chosen, "channel_axis": axis, "num_threads": threads(rng)}
        whole = moved(expected).shape if size is not None and rng.random() < 0.5 else size and w.full
        result = UNPOOL[w.n](*given, output_size=whole, **keywords)
        same(result, moved(expected), f"channel_axis {axis} {what}")
    if rng.random() < 0.4:
        given = strided(rng, before, order)
        keywords = {**w.keywords, "index_format": chosen}
        unpool_onto(rng, w, size, (plain, places, given), expected, keywords, what)


def unpool_onto(rng, w: Window, size, arrays, expected, keywords, what) -> None:
    """The same onto another array, into itself perhaps, or onto an element."""
    plain, places, given = arrays
    is_stored = judge(places.size).max_unpool(np.ones(places.shape, bool), places, w.n, w.full)
    below = random_items(rng, plain.dtype, expected.shape)
    order, kind = some_order(rng, w), one_of(rng, ("onto", "in place", "fill_value"))
    out, (values, given) = some_out(rng, order, below.shape, plain.dtype, strided(rng, plain, order), given)
    keywords = {**keywords, "num_threads": threads(rng)}
    if kind == "fill_value":
        element = below[(slice(1),) * below.ndim].reshape(-1).copy()
        if not element.size:
            return
        below[...] = element
        keywords |= {"output_size": size, "fill_value": element.reshape(())}
    elif kind == "in place" and out is not None:
        values, given = strided(rng, plain, order), given.copy()
        out.array[...] = below
        keywords["onto"] = out.array[...]
    else:
        keywords["onto"] = strided(rng, below, order)
    gradient = below.copy()
    below[is_stored], gradient[is_stored] = expected[is_stored], np.zeros(1, plain.dtype)
    what = f"{kind} {what}"
    same(UNPOOL[w.n](values, given, out=None if out is None else out.array, **keywords), below, what)
    if out is not None:
        out.check()
    if kind == "onto" and out is None:
        both = UNPOOL_BACKWARD[w.n](keywords.pop("onto"), given, onto=True, **keywords)
        same(both[1], gradient, f"gradient {what}")


def unpool_backward(rng, large: bool = False) -> None:
    dtype = one_of(rng, MOVED)
    w, _, places, codes = unpool_arguments(rng, dtype.itemsize, large)
    plain = repeated(rng, random_items(rng, dtype, w.shape + w.full))
    expected = vectorised.max_unpool_backward(plain, places, w.n)
    chosen, given = in_format(rng, places, codes)
    order = some_order(rng, w)
    inputs = strided(rng, plain, order), strided(rng, given, order)
    out, (grad, given) = some_out(rng, order, expected.shape, dtype, *inputs)
    what = f"max_unpool_backward {w} {dtype} {chosen} {given.dtype} strides {grad.strides} {given.strides}"
    result = UNPOOL_BACKWARD[w.n](grad, given, **w.keywords, index_format=chosen, num_threads=threads(rng),
                                  out=None if out is None else out.array)  # fmt: skip
    same(result, expected, what)
    if out is not None:
        hold(result is out.array, f"out was not returned: {what}")
        out.check()


def take_arguments(rng, item_size: int, large: bool = False):
    """A geometry, a format, and indices in it that no pooling of the input need give: of any number, in any order."""
    w, _, places, codes = unpool_arguments(rng, item_size, large)
    if rng.random() < 0.4:  # only some of the windows, or elements behind all of them
        part = (..., *(slice(int(rng.integers(1, size + 1)) if size else 0) for size in w.pooled))
        places, codes = places[part], None if codes is None else codes[part]
    if codes is not None and rng.random() < 0.6:
        if rng.random() < 0.5 and not large:
            w.fix()
            w.full = tuple(size + int(rng.integers(9)) for size in w.full)
        return w, "window", codes
    if rng.random() < 0.4:
        most = max(places.size // max(int(np.prod(w.shape)), 1), 1) ** (1 / w.n)
        sizes = rng.integers(0, int(2 * most) + 2, w.n).tolist()
        places = rng.integers(0, int(np.prod(w.full)), (*w.shape, *sizes))
    return w, "plane", narrowed(rng, places)


def take(rng, large: bool = False) -> None:
    dtype = one_of(rng, MOVED)
    w, chosen, given = take_arguments(rng, dtype.itemsize, large)
    plain = repeated(rng, random_items(rng, dtype, w.shape + w.full))
    window = w.axes() if chosen == "window" else None
    expected = judge(given.size).take_at(plain, given, w.n, window)
    order = some_order(rng, w)
    inputs = strided(rng, plain, order), strided(rng, given, order)
    out, (x, given) = some_out(rng, order, expected.shape, dtype, *inputs)
    keywords = w.keywords if window or rng.random() < 0.5 else {}
    what = f"take_at {w} {dtype} {chosen} {given.dtype} {given.shape} strides {x.strides} {given.strides}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of indices in uint8, which window codes have too
        result = TAKE[w.n](x, given, **keywords, index_format=chosen, num_threads=threads(rng),
                           out=None if out is None else out.array)  # fmt: skip
    same(result, expected, what)
    if out is not None:
        hold(result is out.array, f"out was not returned: {what}")
        out.check()


def pool_backward(rng, large: bool = False) -> None:
    native = one_of(rng, FLOATS)
    dtype = native.newbyteorder() if native.kind == "f" and rng.random() < 0.1 else native
    w = Window(rng, dtype.itemsize, large)
    places = w.places(rng) if rng.random() < 0.7 else None
    codes = None
    if places is None:
        places = repeated(rng, rng.integers(0, int(np.prod(w.full)), w.shape + w.pooled))
    elif w.taps <= 1 << 16:
        codes = w.codes(places)[0]
    plain = some_numbers(rng, native, places.shape)
    with np.errstate(all="ignore"):
        expected = vectorised.max_pool_backward(plain, places, w.n, w.full).astype(dtype)
    chosen, given = in_format(rng, places, codes)
    order = some_order(rng, w)
    inputs = strided(rng, plain.astype(dtype), order), strided(rng, given, order)
    out, (grad, given) = some_out(rng, order, expected.shape, dtype, *inputs)
    if dtype != native:
        out = None  # it would have to be of the machine's byte order
    what = f"max_pool_backward {w} {dtype} {chosen} {given.dtype} strides {grad.strides} {given.strides}"
    size = w.full if rng.random() < 0.5 else w.shape + w.full

    def call(threads, out=None):
        return POOL_BACKWARD[w.n](grad, given, size, **w.keywords, index_format=chosen, num_threads=threads, out=out)

    alone = call(1)
    same_numbers(alone, expected, what)
    # The bits of what is no number are the same too, however many threads there are.
    result = call(threads(rng), None if out is None else out.array)
    same(result, alone, f"with other threads {what}")
    if out is not None:
        hold(result is out.array, f"out was not returned: {what}")
        out.check()


def adaptive(rng) -> None:
    """Adaptive pooling and unpooling, and their gradients."""
    n = int(rng.integers(1, 4))
    most = {1: 700, 2: 24, 3: 9}[n]
    full, pooled = (rng.integers(1, int(rng.integers(2, most + 2)), n).tolist() for _ in range(2))
    if rng.random() < 0.2:  # windows of one size
        full = [count * int(rng.integers(1, 4)) for count in pooled]
    lead = [int(rng.integers(1, 14)) for _ in range(int(rng.integers(1, 3)))]
    dtype = one_of(rng, INTEGERS + FLOATS + [np.dtype(">f4"), np.dtype(bool)])
    plain = some_numbers(rng, dtype.newbyteorder("="), (*lead, *full)).astype(dtype)
    values, indices = reference.adaptive_max_pool(plain.astype(dtype.newbyteorder("=")), n, pooled)
    values = values.astype(dtype)
    order = rng.permutation(len(lead) + n).tolist() if rng.random() < 0.5 else None
    out, (x,) = some_out(rng, order, values.shape, dtype, strided(rng, plain, order))
    if dtype.byteorder == ">":
        out = None
    what = f"adaptive pooling of {x.shape} {dtype} to {pooled}, strides {x.strides}"
    unpool = getattr(cu, f"adaptive_max_unpool{n}d")
    # Lots from one element on: the size is not drawn, so that the other draws stay as they were.
    pool = mock.patch.object(_unequal, "LOT_ELEMENTS", 1 << sum(full) % 19)(getattr(cu, f"adaptive_max_pool{n}d"))
    result = pool(x, pooled, True, index_dtype=one_of(rng, (np.int32, np.int64)), num_threads=threads(rng))
    same(result.values, values, f"values of {what}")
    same(result.indices.astype(np.int64), indices, f"indices of {what}")
    same(pool(x, pooled, num_threads=threads(rng), out=None if out is None else out.array), values, f"alone {what}")
    if out is not None:
        out.check()
    given = strided(rng, narrowed(rng, indices), order)
    expected = reference.max_unpool(values, indices, n, full)
    out, (y, given) = some_out(rng, order, expected.shape, dtype, strided(rng, values, order), given)
    same(unpool(y, given, full, num_threads=threads(rng), out=None if out is None else out.array), expected,
         f"adaptive unpooling, {what}")  # fmt: skip
    if out is not None:
        out.check()
    given = strided(rng, narrowed(rng, indices), order)  # the others may have been overwritten
    gathered = getattr(cu, f"adaptive_max_unpool{n}d_backward")(plain, given, num_threads=threads(rng))
    same(gathered, values, f"the gradient of adaptive unpooling, {what}")
    if dtype in FLOATS:
        with np.errstate(all="ignore"):
            expected = vectorised.max_pool_backward(values, indices, n, full)
        added = getattr(cu, f"adaptive_max_pool{n}d_backward")(values, given, x.shape, num_threads=threads(rng))
        same_numbers(added, expected, f"the gradient of adaptive pooling, {what}")


def beyond_caches(rng) -> None:
    """One of these with arrays so large that the kernels have other ways for them."""
    one_of(rng, (pool, unpool, unpool, unpool_backward, unpool_backward, take, pool_backward))(rng, large=True)


def far(rng) -> None:
    """Planes of 2**33 cells, in little memory: indices do not fit 32 bits."""
    (far_places if rng.random() < 0.5 else far_cells)(rng)


def far_cells(rng) -> None:
    """Windows whose cells lie far apart, in planes whose rows or layers overlap in memory."""
    n, dtype = int(rng.integers(1, 4)), one_of(rng, INTEGERS + FLOATS)
    left, full = 33, []
    for _ in range(n - 1):
        exponent = int(rng.integers(0, min(left, 20)))
        full.append(max((1 << exponent) + int(rng.integers(-1, 2)), 1))
        left -= exponent
    full = rng.permutation([*full, 1 << left]).tolist()
    kernel, dilation = [], []
    for size in full:
        kernel.append(int(rng.integers(1, min(size, 5) + 1)))
        most = (size - 1) // max(kernel[-1] - 1, 1)
        dilation.append(max(int(one_of(rng, (1, most, most // 2, most - int(rng.integers(9))))), 1))
    if rng.random() < 0.2:  # more cells than can be told without a table, and than are dealt out
        kernel[int(rng.integers(n))] *= 60
    padding = [int(rng.integers(k // 2 + 1)) for k in kernel]
    dilation = [min(d, max((size + 2 * p - 1) // max(k - 1, 1), 1))
                for d, size, p, k in zip(dilation, full, padding, kernel, strict=True)]  # fmt: skip
    if any(d * (k - 1) >= size + 2 * p for d, k, size, p in zip(dilation, kernel, full, padding, strict=True)):
        return
    stride = [max((size + 2 * p - d * (k - 1)) // int(rng.integers(1, 4)), 1) + int(rng.integers(3))
              for size, p, d, k in zip(full, padding, dilation, kernel, strict=True)]  # fmt: skip
    channels = int(one_of(rng, (1, 2, 20)))
    apart = [1 if size < 1 << 18 and rng.random() < 0.7 else 0 for size in (channels, *full)]
    room = 1 + sum(a * (size - 1) for a, size in zip(apart, (channels, *full), strict=True))
    cells = some_numbers(rng, dtype, (room,))
    x = np.lib.stride_tricks.as_strided(cells, (channels, *full), [a * dtype.itemsize for a in apart])
    ceil, window = bool(rng.integers(2)), (tuple(kernel), tuple(stride), tuple(padding), tuple(dilation))
    values, indices = reference.max_pool(x, n, *window, ceil)
    what = f"{n}d {x.shape} strides {x.strides} {dtype} {window} {ceil}"
    result = POOL[n](x, *window, ceil, return_indices=True, num_threads=threads(rng))
    same(result[0], values, f"values of max_pool {what}")
    same(result[1], indices, f"indices of max_pool {what}")
    same(POOL[n](x, *window, ceil, num_threads=threads(rng)), values, f"max_pool alone {what}")


def far_places(rng) -> None:
    """Windows in several places of an array that repeats one row."""
    width, channels = int(rng.integers(1, 200)), int(rng.choice([1, 2, 3, 9, 20]))
    rows = 2**33 // width
    kernel = int(rng.integers(1, 5)), int(rng.integers(1, min(width, 6) + 1))
    stride = rows // int(rng.integers(1, 5)) - int(rng.integers(kernel[0], 9)), int(rng.integers(1, 5))
    dtype = one_of(rng, INTEGERS)
    row = some_numbers(rng, dtype, (channels, 1, width))
    row = np.moveaxis(np.ascontiguousarray(np.moveaxis(row, 0, -1)), -1, 0) if rng.random() < 0.3 else row
    x = np.broadcast_to(row, (channels, rows, width))
    values, indices = vectorised.max_pool(row, 2, (1, kernel[1]), (1, stride[1]))
    starts = np.arange((rows - kernel[0]) // stride[0] + 1)[:, None] * stride[0]
    values, indices = np.repeat(values, len(starts), 1), indices + starts * width
    what = f"{x.shape} {kernel} {stride} {dtype} of one row"
    given = {"index_format": one_of(rng, ("plane", "window")), "num_threads": threads(rng)}
    result = cu.max_pool2d(x, kernel, stride, return_indices=True, **given)
    same(result[0], values, f"values of max_pool {what}")
    if given["index_format"] == "plane":
        same(result[1], indices, f"indices of max_pool {what}")
    same(cu.max_unpool2d_backward(x, strided(rng, result[1]), kernel, stride, **given), values,
         f"max_unpool_backward {what}")  # fmt: skip


def convert(rng) -> None:
    w = Window(rng)
    places = w.places(rng)
    if places is None or w.taps > 1 << 16:
        return
    batch, channels, cells = (1, *w.shape)[-2], w.shape[-1], int(np.prod(w.full))
    plane = np.arange(batch * channels).reshape(w.shape + (1,) * w.n)
    item, channel = plane // max(channels, 1), plane % max(channels, 1)
    formats = {
        "plane": places,
        "window": w.codes(places)[0],
        "onnx": plane * cells + places,
        "tf": places * channels + channel,
        "tf_batch": (item * cells + places) * channels + channel,
    }
    source, target = one_of(rng, list(formats)), one_of(rng, list(formats))
    size = w.full
    if len(w.shape) == 2 and rng.random() < 0.5 and isinstance(w.kernel, tuple):
        size = w.shape + w.full
    given = strided(rng, narrowed(rng, formats[source]))
    what = f"convert_indices {source} {target} {w} {given.dtype}"
    same(cu.convert_indices(given, source, target, input_size=size, **w.keywords), formats[target], what)
    if places.size:
        wrong = formats[source].astype(np.int64)
        position = int(rng.integers(wrong.size))
        wrong.flat[position] = one_of(rng, (-1, -(2**63), 2**63 - 1, cells * max(plane.size, 1) * 200 + (1 << 16)))
        error = refused(lambda: cu.convert_indices(wrong, source, target, input_size=size, **w.keywords), IndexError)
        at = tuple(map(int, np.unravel_index(position, wrong.shape)))
        hold(f"at position {at} " in str(error), f"{error}: not {at}: {what}")


def peaks(rng) -> None:
    dtype = one_of(rng, INTEGERS + FLOATS + [np.dtype(">f4"), np.dtype(">i2"), np.dtype(bool)])
    n = int(rng.integers(1, 5))
    plain = some_numbers(rng, dtype.newbyteorder("="), tuple(rng.integers(1, (40, 12, 7, 5)[n - 1], n).tolist()))
    with np.errstate(invalid="ignore"):  # of NaN that are converted
        if dtype.kind not in "iub" and rng.random() < 0.8:
            plain = np.nan_to_num(plain.astype(np.float64), posinf=2, neginf=-2).astype(plain.dtype)
        plain = plain.astype(dtype)
        like = plain.astype(object if dtype.kind in "iub" else np.float64)
    image = strided(rng, plain[None])[0]
    distance, border = int(rng.integers(0, 4)), int(rng.integers(0, 2))
    low, merged, number = one_of(rng, (-2, 0, 1)), bool(rng.random() < 0.5), one_of(rng, (None, None, 3))
    with np.errstate(invalid="ignore"):
        expected = reference.peaks(like, distance, low, None, (border,) * n, number, merged)
    result = cu.peaks(
        image, distance, threshold_abs=low, exclude_border=border, num_peaks=number, one_per_plateau=merged,
        num_threads=threads(rng),
    )  # fmt: skip
    what = f"peaks of {plain.shape} {dtype} strides {image.strides}, {distance} {border} {low} {merged} {number}"
    same(result, np.array(expected, np.int64).reshape(-1, n), what)
    same(image, plain, f"peaks changed its input {what}")
