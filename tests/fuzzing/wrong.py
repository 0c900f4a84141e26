"""Wrong calls: each is refused with the right error, and nothing is written; and calls of anything at all."""

from __future__ import annotations

import math
import sys

import numpy as np
import vectorised
from cases import FLOATS, MOVED, POOL, UNPOOL, random_items, random_numbers

import cunpool as cu
from fuzzing.arrays import INDICES, Guarded, one_of, strided, threads
from fuzzing.judge import Difference, hold, refused, same
from fuzzing.right import POOL_BACKWARD, TAKE, UNPOOL_BACKWARD, unpool_arguments

REFUSALS = (TypeError, ValueError, IndexError, OverflowError, MemoryError)
HUGE = (2**15, 2**31 - 1, 2**31, 2**32, 2**59, 2**60, 2**60 + 1, 2**61, 2**62, 2**63 - 1, 2**63, 2**64, 10**30)
NONSENSE = (0, -1, -(2**31), -(2**63), -(10**30), True, None, 1.5, float("nan"), "2", (), (1,) * 4, [[2]], {}, object())


def wrong_indices(rng) -> None:
    """The first bad index, or code, is named, and nothing is written beside `out`."""
    kind = int(rng.integers(4))
    dtype = one_of(rng, FLOATS if kind == 2 else MOVED)
    w, size, places, codes = unpool_arguments(rng, dtype.itemsize)
    if not places.size:
        return
    cells = int(np.prod(w.full))
    if codes is not None and rng.random() < 0.6:
        formats, wrong = (
            "window",
            codes.astype(one_of(rng, [np.dtype(c) for c in ("u1", "u1", "i8", "u2", "i4", "u8")])),
        )
        if not np.array_equal(wrong, codes):
            return
        valid = int(rng.integers(w.taps))
        bad = [w.taps, w.taps + 1, 255, 256 + valid, 65535, 65536 + valid, -1, valid - 256, 2**32 + valid, 2**63 - 1]
        bad, padding = [b for b in bad if not 0 <= b < w.taps], w.codes_in_padding().ravel()
    else:
        formats, padding = "plane", np.full(1, -1)
        wrong = places.astype(one_of(rng, [np.dtype(c) for c in ("i8", "i8", "i4", "u8", ">i8", "u4")]))
        valid = int(rng.integers(cells))
        bad = [-1, cells, cells + 1, 2**31 - 1, -(2**31), 2**32 + valid, 2**32 * cells, 2**63 - 1, -(2**63),
               2**64 - 1, 2**63 + valid, valid - 2**32, valid - cells]  # fmt: skip
        bad = [b for b in bad if not 0 <= b < cells]
    limits = np.iinfo(wrong.dtype)
    bad = [b for b in bad if limits.min <= b <= limits.max]
    positions = sorted({int(rng.integers(wrong.size)) for _ in range(int(rng.integers(1, 4)))})
    positions = [position for position in positions if bad or padding[position % padding.size] >= 0]
    if not positions:
        return
    for position in positions:
        code = int(padding[position % padding.size])
        wrong.flat[position] = code if code >= 0 and (not bad or rng.random() < 0.5) else one_of(rng, bad)
    at = tuple(map(int, np.unravel_index(positions[0], wrong.shape)))
    given = strided(rng, wrong)
    full = w.shape + w.full
    out = Guarded(rng, places.shape if kind in (1, 3) else full, dtype)
    array = out.array if rng.random() < 0.8 else None
    keywords = {"index_format": formats, "num_threads": threads(rng), "out": array, **w.keywords}
    if kind == 0:
        values = strided(rng, random_items(rng, dtype, places.shape))
        error = refused(lambda: UNPOOL[w.n](values, given, output_size=size, **keywords), IndexError)
    elif kind == 3:
        x = strided(rng, random_items(rng, dtype, full))
        error = refused(lambda: TAKE[w.n](x, given, **keywords), IndexError)
    elif kind == 1:
        grad = strided(rng, random_items(rng, dtype, full))
        error = refused(lambda: UNPOOL_BACKWARD[w.n](grad, given, **keywords), IndexError)
    else:
        grad = strided(rng, random_numbers(rng, dtype, places.shape))
        errors = (IndexError, ValueError)  # where unpooling takes a size that pooling does not give
        error = refused(lambda: POOL_BACKWARD[w.n](grad, given, w.full, **keywords), *errors)
    hold(isinstance(error, ValueError) or f"at position {at} " in str(error),
         f"{error}: not {at}: {w} {formats} {given.dtype} kind {kind}")  # fmt: skip
    out.check()


def refusals(rng) -> None:
    """A right call with one thing wrong is refused, and nothing is written."""
    w, size, places, _ = unpool_arguments(rng, 4)
    if not places.size:
        return
    values, full = np.ones(places.shape, np.float32), w.shape + w.full
    out = Guarded(rng, full, np.float32)
    call = {"input": values, "indices": places, **w.keywords, "output_size": size, "out": out.array}
    n = w.n
    beyond = tuple(f + 2 * s for f, s in zip(w.full, w.axes()[1], strict=True))
    readonly = out.array.view()
    readonly.flags.writeable = False
    mutations = [
        {"indices": places[..., :-1]},
        {"indices": places[None]},
        {"indices": places.astype(np.float64)},
        {"indices": places.astype(bool)},
        {"indices": places.astype(object)},
        {"indices": places.astype("M8[s]")},
        {"input": values.astype(object)},
        {"input": values.astype("U4")},
        {"input": values[(None,) * 3]},
        {"input": np.float32(1)},
        {"input": None},
        {"output_size": beyond},
        {"output_size": (0,) * n},
        {"output_size": (*w.full, 1, *(2 - len(w.shape)) * (1, 1))},  # C and the spatial ones may be a whole shape
        {"output_size": w.full[0]},
        {"output_size": [float(f) for f in w.full]},
        {"out": readonly},
        {"out": out.array[..., :-1]},
        {"out": np.zeros(full)},
        {"out": out.array.view(">f4") if sys.byteorder == "little" else out.array.view("<f4")},
        {"out": out.array.tolist()},
        {"out": np.broadcast_to(np.float32(0), full)},
        {"num_threads": one_of(rng, (0, -1, 1.0, True, "2", -(2**70)))},
        {"index_format": one_of(rng, ("onnx", "", None, 1, "Plane"))},
        {"indices": np.zeros(places.shape, np.uint8)[..., :-1], "index_format": "window"},
        {"indices": np.zeros((2, *places.shape), np.uint8), "index_format": "window"},
        {"indices": np.zeros(places.shape), "index_format": "window"},
    ]
    mutations += [{"fill_value": value} for value in ("0", 1j, [0.0, 1.0], 1e300, np.datetime64("now"))]
    mutations += [{"channel_axis": axis} for axis in (n + 2, -n - 3, 0.5, "1", True, (1,))]
    background = np.broadcast_to(np.float32(0), full)
    mutations += [
        {"onto": background, "output_size": w.full},
        {"onto": background, "output_size": None, "fill_value": 0},
        {"onto": background.astype(np.float64), "output_size": None},
        {"onto": background[None], "output_size": None},
        {"onto": np.broadcast_to(np.float32(0), (*w.shape, *beyond)), "output_size": None},
        {"onto": 0.0, "output_size": None},
    ]
    if np.prod(full) > 1:
        mutations.append({"out": np.lib.stride_tricks.as_strided(np.zeros(1, "f4"), full, (0,) * len(full))})
    for name in ("kernel_size", "stride", "padding", "dilation"):
        bad = [v for v in NONSENSE if (v, name) not in ((None, "stride"), (0, "padding"))]
        mutations.append({name: one_of(rng, bad)})
    mutation = one_of(rng, mutations)
    try:
        refused(lambda: UNPOOL[n](**{**call, **mutation}), TypeError, ValueError, OverflowError)
    except Difference as error:
        raise Difference(f"{error}: {mutation} in {w}") from error
    hold((out.before == out.raw).all(), f"something was written although refused: {mutation} in {w}")


def wrapping(rng) -> None:
    """Windows of mostly padding, of so many cells that their number is large, or 0 modulo 2**32 or 2**64."""
    n = int(rng.integers(1, 4))
    exponents = [23]
    while max(exponents) > 22:
        most = min(int(rng.choice([31, 32, 33, 63, 64, 64, 64, 65, int(rng.integers(1, 66))])), 22 * n)
        exponents = rng.multinomial(most, [1 / n] * n).tolist()
    about = int(rng.random() < 0.3)
    kernel = tuple(2**e + about * int(rng.integers(-1, 2)) * (e > 1) for e in exponents)
    stride = tuple(int(one_of(rng, (1, 1, 2, max(k // 2, 1), k))) for k in kernel)
    padding = tuple(k // 2 for k in kernel)
    shape = (int(one_of(rng, (1, 2, 20))), *rng.integers(1, 4, n).tolist())
    x = strided(rng, random_numbers(rng, one_of(rng, FLOATS), shape))
    what = f"{n}d {x.shape} {x.dtype} {kernel} {stride} {padding}"
    pooled = tuple(map(vectorised.pooled_size, x.shape[1:], kernel, stride, padding, (1,) * n, (False,) * n))
    if min(pooled) < 1:
        return
    try:
        values, indices = POOL[n](x, kernel, stride, padding, return_indices=True, num_threads=threads(rng))
    except OverflowError as error:
        hold(math.prod(kernel) > 2**60, f"{error}: {what}")
        return
    hold(math.prod(kernel) <= 2**60, f"accepted: {what}")
    expected = vectorised.max_pool(x, n, kernel, stride, padding)
    same(values, expected[0], f"values of max_pool {what}")
    same(indices, expected[1], f"indices of max_pool {what}")


def hostile_array(rng, n: int, dtype) -> np.ndarray:
    """Few or no cells in memory, whatever the shape says."""
    kind = int(rng.integers(5))
    axes = n + int(rng.integers(1, 3))
    if kind == 0:  # large, but empty
        shape = [int(one_of(rng, (0, 1, 2**20, 2**31, 2**40))) for _ in range(axes)]
        shape[int(rng.integers(axes))] = 0
        try:
            return np.empty(shape, dtype)
        except ValueError:
            return np.empty((0,) * axes, dtype)
    if kind == 1:  # strides that mean nothing, of axes of one
        strides = [int(one_of(rng, (0, 1, -1, 2**31, 2**62, -(2**62), 2**63 - 8, -(2**63) + 8))) for _ in range(axes)]
        return np.lib.stride_tricks.as_strided(np.ones(1, dtype), (1,) * axes, strides)
    if kind == 2:  # some of them with such strides, and one that is real
        shape, strides = [1] * axes, [int(one_of(rng, (2**61, -(2**61), 2**63 - 8, 3))) for _ in range(axes)]
        axis = int(rng.integers(axes))
        shape[axis], strides[axis] = 40, np.dtype(dtype).itemsize
        return np.lib.stride_tricks.as_strided(np.ones(40, dtype), shape, strides)
    if kind == 3:
        return np.broadcast_to(np.ones((), dtype), tuple(rng.integers(1, 5, axes).tolist()))
    if rng.random() < 0.5:  # as many cells as are worth any plan
        return np.ones((*rng.integers(1, 4, axes - n), *rng.integers(8, 40, n)), dtype)
    return np.ones(tuple(rng.integers(0, 4, int(rng.integers(0, 7)))), dtype)


def hostile_size(rng, n: int):
    def one():
        if rng.random() < 0.45:
            return int(rng.integers(1, 4))
        return one_of(rng, HUGE + NONSENSE) if rng.random() < 0.7 else int(one_of(rng, HUGE)) - int(rng.integers(4))

    if rng.random() < 0.5:
        return one()
    return tuple(one() for _ in range(n if rng.random() < 0.9 else int(rng.integers(5))))


def hostile(rng) -> None:
    """Anything at all: it comes back with a result or one of a few errors."""
    n = int(rng.integers(1, 4))
    dtype = one_of(rng, [np.dtype(c) for c in ("f4", "f8", "u1", "D", "f2")])
    x = hostile_array(rng, n, dtype)
    given = hostile_array(rng, n, one_of(rng, INDICES))
    if x.size and rng.random() < 0.8:
        given = np.broadcast_to(one_of(rng, (0, 1, -1, -(2**63), 2**63 - 1)), x.shape)
        given = given.copy() if rng.random() < 0.5 else given
    window = {name: hostile_size(rng, n) for name in ("kernel_size", "stride", "padding", "dilation")}
    for name, plain in (("kernel_size", 2), ("stride", None), ("padding", 0), ("dilation", 1)):
        if rng.random() < 0.4:
            window[name] = plain
    if rng.random() < 0.2:
        pairs = tuple((int(rng.integers(4)), int(rng.integers(4))) for _ in range(n if rng.random() < 0.8 else 2))
        window["padding"] = one_of(rng, ("same", "same_lower", pairs, (1, *pairs[1:]), "valid"))
    # A window of two cells, far apart and as far into the padding: few cells to go through, and all sizes are large.
    if rng.random() < 0.15:
        far = 2 ** int(rng.integers(20, 60))
        window = {"kernel_size": 2, "stride": one_of(rng, (1, far, 2**60)), "padding": far // 2, "dilation": far}
        if rng.random() < 0.5:
            window["dilation"] = (far,) + (1,) * (n - 1)
            window["padding"] = (far // 2,) + (0,) * (n - 1)
        elif rng.random() < 0.5:  # few windows, or there would be as many as their padding has elements
            window["stride"], window["padding"] = one_of(rng, (far, 2**60)), one_of(rng, (((far, far),) * n, "same"))
    keywords = {"num_threads": one_of(rng, (None, 1, 2)), "index_format": one_of(rng, ("plane", "window"))}
    size = one_of(rng, (None, hostile_size(rng, n), x.shape[-n:], tuple(2 * s for s in x.shape[-n:])))
    functions = [
        lambda: POOL[n](x, **window, ceil_mode=one_of(rng, (True, False)), return_indices=True, **keywords),
        lambda: POOL[n](x, **window, ceil_mode=one_of(rng, (True, False)), **keywords),
        lambda: UNPOOL[n](x, given, **window, output_size=size, **keywords),
        lambda: UNPOOL_BACKWARD[n](x, given, **window, **keywords),
        lambda: TAKE[n](x, given, **window, **keywords),
        lambda: POOL_BACKWARD[n](x, given, size, **window, **keywords),
        lambda: cu.convert_indices(given, *formats, input_size=size, **window),
    ]
    formats = rng.choice(["plane", "window", "onnx", "tf", "tf_batch"], 2).tolist()
    which = int(rng.integers(len(functions)))
    try:
        functions[which]()
    except REFUSALS:
        pass
    except Exception as error:
        raise Difference(f"{type(error).__name__}: {error}: function {which}, {n}d {x.shape} {x.strides} {dtype}, "
                         f"{given.shape} {given.dtype}, {size=} {window} {keywords}") from error  # fmt: skip
