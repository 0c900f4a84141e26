"""Random calls of `cunpool.dask` over random chunks, compared with NumPy's functions on the whole array.

    python tests/fuzz_dask.py --cases 1000 --seed 7       # the first difference ends it
    python tests/fuzz_dask.py --seed 7 --case 1234        # that one again

Dask's arrays are expressions with DASK_ARRAY__QUERY_PLANNING=True in the environment.
"""

from __future__ import annotations

import argparse
import collections
import sys
import time
import warnings
from functools import partial

import dask
import dask.array as da
import numpy as np
from cases import FLOATS, INTEGERS, MOVED, POOL, UNPOOL, layout, random_items, random_numbers
from fuzzing.arrays import INDICES, one_of
from fuzzing.judge import Difference, hold, same
from fuzzing.right import MIN_POOL, POOL_BACKWARD, TAKE, UNPOOL_BACKWARD, take_arguments, unpool_arguments
from fuzzing.sizes import Window

import cunpool.dask as lazy
from cunpool import _arrays

EXPRESSIONS = hasattr(da.Array, "expr")
if EXPRESSIONS:
    # Those of Dask 2026.8 cannot rechunk in two steps: "tuple indices must be integers". With this it is always one.
    dask.config.set({"array.rechunk.threshold": 10**6})
LAZY_POOL, LAZY_UNPOOL, LAZY_POOL_BACKWARD, LAZY_UNPOOL_BACKWARD, LAZY_TAKE = (
    {n: getattr(lazy, name.format(n)) for n in (1, 2, 3)}
    for name in ("max_pool{}d", "max_unpool{}d", "max_pool{}d_backward", "max_unpool{}d_backward", "take_at{}d")
)


LAZY_MIN_POOL = {n: getattr(lazy, f"min_pool{n}d") for n in (1, 2, 3)}


def chunked(rng, array: np.ndarray) -> da.Array:
    """In chunks of any sizes: of one cell, of none, equal ones with a last one of one cell, or a single one."""
    chunks = []
    for size in array.shape:
        kind = int(rng.integers(5))
        if kind == 0 or size < 2:
            sizes = [size]
        elif kind == 1:
            sizes = [1] * size if size < 20 else [size]
        elif kind == 2:
            step = int(rng.integers(1, size))
            step = max(step, size // 20)
            sizes = [step] * (size // step) + [size % step] * bool(size % step)
        elif kind == 3:
            sizes = [size - 1, 1]
        else:
            ends = np.sort(rng.integers(0, size + 1, int(rng.integers(1, 6))))
            sizes = np.diff(np.concatenate(([0], ends, [size]))).tolist()
            # Dask's expressions (2026.8) cannot rechunk chunks without cells.
            if rng.random() < 0.7 or EXPRESSIONS:
                sizes = [one for one in sizes if one]
        chunks.append(tuple(map(int, sizes)))
    while np.prod([len(sizes) for sizes in chunks]) > 60:
        axis = int(np.argmax([len(sizes) for sizes in chunks]))
        chunks[axis] = (array.shape[axis],)
    return da.from_array(layout(rng, array), tuple(chunks))


def whole_planes(array: da.Array, n: int) -> da.Array:
    return array.rechunk(dict.fromkeys(range(-n, 0), -1))


def agree(result, expected, what: str) -> None:
    """The metadata, known before anything is computed, and all bits."""
    hold(result.shape == expected.shape and result.dtype == expected.dtype, f"{what}: {result}")
    hold(tuple(map(sum, result.chunks)) == result.shape, f"{what}: chunks {result.chunks}")
    same(result.compute(), expected, f"{what} in chunks {result.chunks}")


def pool(rng) -> None:
    dtype = one_of(rng, INTEGERS + FLOATS + [np.dtype(">f4"), np.dtype(">i2")])
    w = Window(rng, dtype.itemsize)
    plain = random_numbers(rng, dtype.newbyteorder("="), w.shape + w.full).astype(dtype)
    x = chunked(rng, plain)
    arguments = w.kernel, w.stride, w.padding, w.dilation, w.ceil
    minimum, policy = rng.random() < 0.3, one_of(rng, ("propagate", "propagate", "omit"))
    function = partial((MIN_POOL if minimum else POOL)[w.n], nan_policy=policy)
    lazily = partial((LAZY_MIN_POOL if minimum else LAZY_POOL)[w.n], nan_policy=policy)
    what = f"{'min' if minimum else 'max'}_pool {w} {dtype} {policy} of chunks {x.chunks}"
    values, indices = function(plain, *arguments, return_indices=True)
    agree(lazily(x, *arguments), values, what)
    dtype = one_of(rng, (None, np.int64, np.int32))
    result = lazily(x, *arguments, return_indices=True, index_dtype=dtype)
    agree(result[0], values, f"values of {what}")
    agree(result[1], indices.astype(dtype or np.int64), f"indices of {what}")
    if w.taps > 1 << 16:  # more than there are codes for
        return
    result = lazily(x, *arguments, return_indices=True, index_format="window")
    agree(result[0], values, f"values, window codes, of {what}")
    codes = function(plain, *arguments, return_indices=True, index_format="window")[1]
    agree(result[1], codes, f"codes of {what}")


def some_indices(rng, places, codes):
    """A format, indices in it and in some dtype that has room for them, and the same as places."""
    chosen, given = ("plane", places) if codes is None or rng.random() < 0.5 else ("window", codes)
    dtype = one_of(rng, INDICES)
    return chosen, given.astype(dtype) if not given.size or given.max() <= np.iinfo(dtype).max else given


def local(w, places) -> bool:
    """Whether each index lies between the first and the last cell of its window."""
    kernel, stride, padding, dilation = w.axes()
    right = np.ones(places.shape, bool)
    at = _arrays.unravel(places, w.full)
    for axis, (a, k, s, p, d) in enumerate(zip(at, kernel, stride, padding, dilation, strict=True)):
        start = (np.arange(places.shape[axis - w.n]) * s - p).reshape((-1,) + (1,) * (w.n - 1 - axis))
        right &= (a >= start) & (a <= start + d * (k - 1))
    return bool(right.all())


def astray(array: da.Array, w, places) -> bool:
    """Whether some index lies outside its window, in a plane of more than one chunk."""
    return any(len([size for size in along if size]) > 1 for along in array.chunks[-w.n :]) and not local(w, places)


def refused(result, w, what: str, expected: BaseException | None = None) -> None:
    try:
        result.compute()
    except IndexError as error:
        hold(expected is None or str(error).split(";")[0] == str(expected).split(";")[0],
             f"{what}: {error} instead of {expected}")  # fmt: skip
        hold(expected is not None or "outside its window" in str(error), f"{what}: {error}")
    else:
        raise Difference(f"accepted indices out of their windows: {what}")


def unpool(rng) -> None:
    dtype = one_of(rng, MOVED)
    w, size, places, codes = unpool_arguments(rng, dtype.itemsize)
    plain = random_items(rng, dtype, places.shape)
    chosen, given = some_indices(rng, places, codes)
    values = chunked(rng, plain)
    what = f"max_unpool {w} to {size} {dtype} {chosen} {given.dtype} of chunks {values.chunks}"
    expected = UNPOOL[w.n](plain, given, **w.keywords, output_size=size, index_format=chosen)
    indices = chunked(rng, given) if rng.random() < 0.3 else da.from_array(given, values.chunks)
    arguments = {**w.keywords, "output_size": size, "index_format": chosen}
    if chosen == "plane" and astray(values, w, places):
        refused(LAZY_UNPOOL[w.n](values, indices, **arguments), w, what)
        values = whole_planes(values, w.n)
    agree(LAZY_UNPOOL[w.n](values, indices, **arguments), expected, what)


def unpool_backward(rng) -> None:
    dtype = one_of(rng, MOVED)
    w, _, places, codes = unpool_arguments(rng, dtype.itemsize)
    plain = random_items(rng, dtype, w.shape + w.full)
    chosen, given = some_indices(rng, places, codes)
    grad, indices = chunked(rng, plain), chunked(rng, given)
    what = f"max_unpool_backward {w} {dtype} {chosen} {given.dtype} of chunks {grad.chunks} and {indices.chunks}"
    expected = UNPOOL_BACKWARD[w.n](plain, given, **w.keywords, index_format=chosen)
    arguments = {**w.keywords, "index_format": chosen}
    if chosen == "plane" and astray(indices, w, places):
        refused(LAZY_UNPOOL_BACKWARD[w.n](grad, indices, **arguments), w, what)
        indices = whole_planes(indices, w.n)
    agree(LAZY_UNPOOL_BACKWARD[w.n](grad, indices, **arguments), expected, what)


def pool_backward(rng) -> None:
    dtype = one_of(rng, [*FLOATS, np.dtype(">f4")])
    w = Window(rng, dtype.itemsize)
    places = w.places(rng)
    if places is None:
        return
    codes = w.codes(places)[0] if w.taps <= 1 << 16 else None
    if rng.random() < 0.3 and places.size:
        places.flat[int(rng.integers(places.size))] = int(rng.integers(np.prod(w.full)))
        codes = None
    plain = random_numbers(rng, dtype.newbyteorder("="), places.shape).astype(dtype)
    chosen, given = some_indices(rng, places, codes)
    grad = chunked(rng, plain)
    size = w.full if rng.random() < 0.5 else w.shape + w.full
    what = f"max_pool_backward {w} {dtype} {chosen} {given.dtype} of chunks {grad.chunks}"
    expected = POOL_BACKWARD[w.n](plain, given, size, **w.keywords, index_format=chosen)
    arguments = {"input_size": size, **w.keywords, "index_format": chosen}
    if chosen == "plane" and astray(grad, w, places):
        refused(LAZY_POOL_BACKWARD[w.n](grad, da.from_array(given, grad.chunks), **arguments), w, what)
        grad = whole_planes(grad, w.n)
    agree(LAZY_POOL_BACKWARD[w.n](grad, chunked(rng, given), **arguments), expected, what)


def take(rng) -> None:
    dtype = one_of(rng, MOVED)
    w, chosen, given = take_arguments(rng, dtype.itemsize)
    plain = random_items(rng, dtype, w.shape + w.full)
    x, indices = chunked(rng, plain), chunked(rng, given)
    what = f"take_at {w} {dtype} {chosen} {given.dtype} {given.shape} of chunks {x.chunks} and {indices.chunks}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of indices in uint8, which window codes have too
        if chosen == "window":
            expected = TAKE[w.n](plain, given, **w.keywords, index_format=chosen)
            agree(LAZY_TAKE[w.n](x, indices, **w.keywords, index_format=chosen), expected, what)
            return
        expected = TAKE[w.n](plain, given)
        whole = one_of(rng, (0, 1))
        arrays = (whole_planes(x, w.n), indices) if whole else (x, whole_planes(indices, w.n))
        agree(LAZY_TAKE[w.n](*arrays), expected, what)
        if local(w, given.astype(np.int64)):
            try:
                result = LAZY_TAKE[w.n](x, indices, **w.keywords)
            except ValueError as error:  # more indices than windows that reach into a plane
                hold("windows must reach into" in str(error), f"{error}: {what}")
            else:
                agree(result, expected, f"{what}, by windows")


def wrong_indices(rng) -> None:
    """One index, or code, is outside: its position is counted in the whole array."""
    w, size, places, codes = unpool_arguments(rng, 4)
    if not places.size or not local(w, places):
        return
    cells, taps = int(np.prod(w.full)), int(np.prod(w.axes()[0]))
    if codes is not None and rng.random() < 0.5:
        chosen, given = "window", codes.astype(one_of(rng, [codes.dtype, np.dtype("i8"), np.dtype("i4")]))
        bad = (taps, 255, -1, int(rng.integers(taps)))
    else:
        chosen, given = "plane", places.astype(one_of(rng, [np.dtype(c) for c in ("i8", "i4", "u8", ">i8")]))
        bad = (-1, cells, cells + 1, 2**31 - 1, -(2**31), 2**32, 2**63 - 1, -(2**63), 2**64 - 1)
    limits = np.iinfo(given.dtype)
    given.flat[int(rng.integers(given.size))] = one_of(rng, [b for b in bad if limits.min <= b <= limits.max])
    values, keywords = np.ones(given.shape, np.float32), {**w.keywords, "index_format": chosen}
    grad = np.ones(w.shape + w.full, np.float32)
    calls = (
        (UNPOOL, LAZY_UNPOOL, values, (), {"output_size": size}),
        (UNPOOL_BACKWARD, LAZY_UNPOOL_BACKWARD, grad, (), {}),
        (POOL_BACKWARD, LAZY_POOL_BACKWARD, values, (w.full,), {}),
    )
    function, lazily, array, more, options = one_of(rng, calls)
    what = f"{function[w.n].__name__} {w} to {size} {chosen} {given.dtype}"
    try:
        expected = function[w.n](array, given, *more, **options, **keywords)
    except ValueError:  # where unpooling takes a size that pooling does not give
        return
    except IndexError as error:
        indices = chunked(rng, given)
        array = da.from_array(array, indices.chunks if array is values else "auto")
        refused(lazily[w.n](array, indices, *more, **options, **keywords), w, f"{what} of {indices.chunks}", error)
    else:
        array = chunked(rng, array)
        agree(lazily[w.n](array, chunked(rng, given), *more, **options, **keywords), expected, what)


KINDS = (pool, pool, unpool, unpool, unpool_backward, pool_backward, take, wrong_indices)


def run_case(seed: int, number: int) -> str:
    """One case; the name of its kind."""
    rng = np.random.default_rng((seed, number))
    kind = one_of(rng, KINDS)
    kind(rng)
    return kind.__name__


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--case", type=int, default=None, help="that one alone")
    chosen = parser.parse_args()
    seed = int(time.time_ns() % 2**32) if chosen.seed is None else chosen.seed
    print(f"seed {seed}, arrays are {da.Array.__module__}", flush=True)
    counts: collections.Counter = collections.Counter()
    with dask.config.set(scheduler="synchronous"):
        for case in range(chosen.cases) if chosen.case is None else (chosen.case,):
            try:
                counts[run_case(seed, case)] += 1
            except BaseException:
                print(f"again: python tests/fuzz_dask.py --seed {seed} --case {case}", flush=True)
                raise
    print(f"{sum(counts.values())} cases: {dict(counts)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
