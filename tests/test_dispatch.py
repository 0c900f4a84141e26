"""The fast ways are really taken, and give what the slow ones give."""

from __future__ import annotations

import math

import numpy as np
import pytest
import reference
import vectorised
from cases import ALSO, LOW, POOL, UNPOOL, bits, channels_last, planned, random_items, random_numbers
from fuzzing.right import POOL_BACKWARD, UNPOOL_BACKWARD

import cunpool as cu
from cunpool._kernels import pool as _pool
from cunpool._kernels import unpool as _unpool

BY_INDICES = _unpool.FILLED | _unpool.BY_INDICES


@pytest.fixture
def ways(monkeypatch):
    """What the kernels say of the ways they took, call by call."""
    taken: list[int] = []

    def watched(kernel):
        def call(*arguments):
            taken.append(kernel(*arguments))
            return taken[-1]

        return call

    class Module:
        def __init__(self, module, *names):
            self.__dict__.update(vars(module))
            for name in names:
                setattr(self, name, watched(getattr(module, name)))

    monkeypatch.setattr("cunpool.unpooling._unpool", Module(_unpool, "unpool"))
    monkeypatch.setattr("cunpool._results._unpool", Module(_unpool, "unpool", "unpool_backward"))
    monkeypatch.setattr("cunpool.pooling._pool", Module(_pool, "pool"))
    return taken


# Methods, and what else a plan does.
WINDOW2, SEPARATED, LARGE, ACROSS, ROLLED, FILTERED, INTERLEAVED = (
    frozenset([method]) for method in ("window2", "separable", "NumPy", "across", "rolling", "filter", "interleaved")
)
STACKED, WIDTH_SWAPPED = (frozenset([detail]) for detail in ("stacked", "width swapped"))
SCATTER, FILL, SPLIT, STREAMED = (frozenset([word]) for word in ("scatter", "fill", "split", "streamed"))
WIDE, NARROW, ANY = ("f4", "f8", "i4", "u4"), ("u1", "i2", "e"), ("u1", "i2", "e", "f4", "f8")
WIDEST, SIGNED = (*WIDE, "i8", "u8"), ("f4", "f8", "i4", "i8")
# Orders of a batch of images in memory: the axes from slowest to fastest.
ROWS, COLUMNS, LAST, LAST_COLUMNS, BATCH_LAST = (0, 1, 2, 3), (0, 1, 3, 2), (0, 2, 3, 1), (0, 3, 2, 1), (1, 2, 3, 0)

ROLLING = ("f4", "f8", "u1", "e")

# Pooling's methods, on both sides of each bound: dtypes, shape, order in memory (None: C order), arguments, and which
# method runs with indices and without. A None is not tried.
POOLING = [
    # Windows that are whole planes, and others whose indices are searched for: of 160 elements, of rows of 8, and an
    # element is in 4 windows at most. Up to 256 elements are compared where planes can be interleaved.
    (NARROW, (1, 2, 32, 32), None, (32,), FILTERED, FILTERED),
    (("f4", "f8"), (1, 2, 32, 32), None, (32,), LARGE, FILTERED),
    (NARROW, (1, 2, 8, 8, 16), None, ((8, 8, 16),), FILTERED, FILTERED),
    (("f4", "f8"), (1, 2, 8, 8, 16), None, ((8, 8, 16),), LARGE, FILTERED),
    (("f4",), (1, 2, 31, 33), None, ((31, 33),), FILTERED, None),
    (("f4",), (1, 2, 32, 32), COLUMNS, (32,), SEPARATED, None),
    (("f4",), (1, 2, 33, 32), None, (32,), FILTERED, None),
    (ANY, (1, 2, 10, 32), None, ((10, 16),), FILTERED, FILTERED),
    (ANY, (1, 2, 10, 34), None, ((9, 17),), SEPARATED, FILTERED),
    (ANY, (1, 2, 40, 200), None, ((20, 20), (5, 19)), SEPARATED, FILTERED),  # in 4.2 windows
    (ANY, (1, 2, 40, 200), None, ((20, 20), (5, 20)), FILTERED, FILTERED),  # and 4
    (("f4",), (1, 2, 32, 64), None, ((8, 32), None, 0, (1, 2)), SEPARATED, None),
    (("f4",), (1, 2, 64, 32), None, ((32, 8), None, 0, (2, 1)), FILTERED, None),
    (("f4",), (1, 2, 64, 28), None, ((32, 7),), SEPARATED, None),
    (WIDE, (1, 16, 16, 32), None, (16,), INTERLEAVED, None),
    (WIDE, (1, 16, 17, 34), None, (17,), FILTERED, None),
    # The same across channels: 64 bytes of them are compared in windows of more than 128 elements, of up to 65,536, or
    # 256 whose codes are bytes.
    (("f4",), (1, 16, 16, 32), LAST, ((8, 16),), ACROSS, ACROSS),
    (("f4",), (1, 16, 16, 34), LAST, ((8, 17),), ACROSS, ACROSS),
    (("f4",), (1, 15, 16, 32), LAST, ((8, 16),), ACROSS, FILTERED),
    (("f4",), (1, 15, 16, 34), LAST, ((8, 17),), SEPARATED, FILTERED),
    (("f4",), (1, 16, 256, 256), LAST, (256,), ACROSS, ACROSS),
    (("u1", "i2"), (1, 64, 16, 16), LAST, (16,), ACROSS, ACROSS),
    (("u1", "i2"), (1, 64, 16, 17), LAST, ((16, 17),), SEPARATED, ACROSS),
    # Windows of 2 in rows, and in rows too short for a vector.
    (WIDE, (3, 5, 8, 8), None, (2,), STACKED | WINDOW2, None),
    (WIDE, (3, 5, 6, 6), None, (2,), STACKED | WINDOW2, None),
    (WIDE, (3, 5, 16, 200), None, (2,), STACKED | WINDOW2, None),
    (WIDE, (3, 5, 17, 201), None, (2,), WINDOW2, None),
    (WIDE, (1, 2, 9, 1500), None, ((2, 2), (1, 2)), WINDOW2, None),
    (WIDE, (1, 2, 9, 1500), None, ((1, 2), (2, 2)), WINDOW2, None),
    (WIDE, (2, 3, 50), None, (2,), STACKED | WINDOW2, None),
    (WIDE, (2, 3, 30), None, (2,), STACKED | WINDOW2, None),
    (WIDE, (2, 3, 6), None, (2,), STACKED | WINDOW2, None),
    (WIDE, (1, 2, 4, 5, 34), None, (2,), WINDOW2, None),
    (WIDE, (2, 3, 4, 6, 30), None, (2,), WINDOW2, None),
    (("f4", "i4", "u4"), (2, 3, 4, 6, 6), None, (2,), SEPARATED, None),
    (("f8",), (2, 3, 4, 6, 6), None, (2,), INTERLEAVED, None),
    (("u1",), (1, 2, 9, 128), None, (2,), WINDOW2, WINDOW2),
    (("u1",), (1, 2, 9, 112), None, (2,), WINDOW2, WINDOW2),
    (("u1",), (1, 2, 9, 32), None, (2,), WINDOW2, WINDOW2),
    (("u1",), (1, 2, 9, 30), None, (2,), SEPARATED, FILTERED),
    (("u1",), (1, 2, 9, 6), None, (2,), SEPARATED, FILTERED),
    # Filter compares values of 2 bytes alone.
    (("i2",), (1, 2, 9, 112), None, (2,), WINDOW2, WINDOW2),
    (("i2",), (1, 2, 9, 16), None, (2,), WINDOW2, WINDOW2),
    (("i2",), (1, 2, 9, 14), None, (2,), SEPARATED, FILTERED),
    (("e",), (1, 2, 9, 112), None, (2,), WINDOW2, WINDOW2),
    (("e",), (1, 2, 9, 14), None, (2,), SEPARATED, FILTERED),
    (("f4",), (1, 2, 9, 112), None, (2,), WINDOW2, WINDOW2),
    (("f4",), (1, 2, 9, 8), None, (2,), WINDOW2, WINDOW2),
    (("i8",), (1, 2, 9, 112), None, (2,), WINDOW2, WINDOW2),
    (("u8",), (1, 2, 9, 128), None, (2,), WINDOW2, WINDOW2),
    # Rows that are longer than a block, and blocks of several planes.
    (WIDE, (1, 2, 9, 3000), None, ((3, 2), (1, 2)), SEPARATED, None),
    (("f4", "f8"), (2, 3, 30, 131), None, (3, 2, 1), INTERLEAVED, None),
    (("i4", "u4"), (2, 3, 30, 131), None, (3, 2, 1), SEPARATED, None),
    (WIDE, (3, 5, 9, 11), None, (3, 2, 1), INTERLEAVED, None),
    (("f4", "f8"), (2, 3, 30, 31), None, (3, 2, 1), INTERLEAVED, None),
    (("i4", "u4"), (2, 3, 30, 31), None, (3, 2, 1), SEPARATED, None),
    # More elements in a window than are compared one by one, dilated windows, and larger ones than any block.
    (WIDE, (2, 3, 12, 13), None, (7, 2), SEPARATED, None),
    (("f4", "i4", "u4"), (2, 3, 12, 13), None, (2, 2, 1, 3), SEPARATED, None),
    (("f8",), (2, 3, 12, 13), None, (2, 2, 1, 3), INTERLEAVED, None),
    (WIDE, (1, 2, 6, 830), None, ((4, 8), (1, 100)), SEPARATED, None),
    (WIDE, (2, 3, 2, 2), None, (2, 1, 1, 3), LARGE, None),
    (WIDE, (1, 2, 2, 3000), None, ((1, 3), (1, 300)), SEPARATED, None),
    # Columns that are contiguous in memory.
    (WIDEST, (1, 3, 131, 90), COLUMNS, (3, 2, 1), SEPARATED, None),
    (WIDEST, (2, 3, 80, 50), COLUMNS, (2,), STACKED | WINDOW2 | WIDTH_SWAPPED, STACKED | WINDOW2 | WIDTH_SWAPPED),
    (WIDEST, (2, 3, 80, 51), COLUMNS, (2,), WINDOW2 | WIDTH_SWAPPED, WINDOW2 | WIDTH_SWAPPED),
    (WIDEST, (2, 3, 1, 80, 51), (0, 1, 2, 4, 3), ((1, 2, 2),), WINDOW2 | WIDTH_SWAPPED, None),
    (("f4", "i4"), (2, 30, 3, 50), COLUMNS, (2,), INTERLEAVED, None),
    (("f4", "i4"), (2, 30, 4, 50), COLUMNS, (2,), STACKED | WINDOW2 | WIDTH_SWAPPED, None),
    (WIDEST, (2, 3, 80, 51), COLUMNS, ((2, 1),), STACKED | WINDOW2 | WIDTH_SWAPPED, None),
    (("f4", "i4", "u4"), (2, 3, 2, 80, 50), (0, 1, 2, 4, 3), (2,), SEPARATED, None),
    (("f4", "i4", "u4"), (2, 3, 80, 50), COLUMNS, (2, 2, 1), SEPARATED, None),
    (("f8", "i8", "u8"), (2, 3, 80, 50), COLUMNS, (2, 2, 1), INTERLEAVED, None),
    (("f4", "i4", "u4"), (2, 3, 80, 51), COLUMNS, (2, 2, 1), SEPARATED, None),
    (("f8", "i8", "u8"), (2, 3, 80, 51), COLUMNS, (2, 2, 1), INTERLEAVED, None),
    (("f4", "i4", "u4"), (2, 3, 50, 40), COLUMNS, (3, 2, 1), SEPARATED, None),
    (("f8", "i8", "u8"), (2, 3, 50, 40), COLUMNS, (3, 2, 1), INTERLEAVED, None),
    # Planes of more than 1 MiB together would be cut across the axis that memory runs along.
    (("f8",), (1, 8, 128, 128), COLUMNS, (3, 2, 1), INTERLEAVED, None),
    (("f8",), (1, 8, 128, 129), COLUMNS, (3, 2, 1), SEPARATED, None),
    (WIDEST, (1, 2, 30, 6, 7), (0, 1, 3, 4, 2), (2,), SEPARATED, None),
    (WIDEST, (1, 2, 7, 30, 6), (0, 1, 2, 4, 3), (2,), SEPARATED, None),
    (WIDEST, (1, 3, 131, 90), COLUMNS, ((2, 5),), SEPARATED, None),
    (WIDEST, (1, 15, 10, 10), COLUMNS, (3, 1, 1), INTERLEAVED, None),
    (WIDEST, (1, 16, 11, 11), COLUMNS, (3, 1, 1), INTERLEAVED, None),
    (WIDEST, (1, 16, 20, 20), COLUMNS, (2, 2, 1), INTERLEAVED, None),
    (ANY, (8, 20, 4, 4), COLUMNS, (2, 2, 1), None, INTERLEAVED),
    (ANY, (40, 15, 4, 4), COLUMNS, (3, 3, 1), None, INTERLEAVED),
    (ANY, (200, 5, 3, 4, 2), (0, 1, 2, 4, 3), (2,), None, INTERLEAVED),
    # Planes side by side: 32 bytes or more, and no long rows of windows one column apart. Windows may be far apart.
    (("f4",), (1, 8, 9, 30), None, (3,), INTERLEAVED, None),
    (("f4",), (1, 7, 9, 30), None, (3,), SEPARATED, None),
    (("f4",), (1, 8, 9, 16), None, ((3, 2), 1), INTERLEAVED, None),
    (("f4",), (1, 8, 9, 17), None, ((3, 2), 1), SEPARATED, None),
    (("f4",), (1, 32, 12, 20), None, ((2, 3), (3, 3)), INTERLEAVED, None),
    (("f4",), (1, 32, 12, 20), None, ((1, 3), (3, 3)), INTERLEAVED, None),
    (("i2",), (1, 16, 3, 32767), None, (3, 2), SEPARATED, None),
    (("i4",), (1, 32, 3, 2730), None, (3, 2), INTERLEAVED, None),
    (("i4",), (1, 32, 3, 2731), None, (3, 2), SEPARATED, None),
    (("i4",), (1, 8, 24, 24), None, (8, 4), INTERLEAVED, None),
    (("i4",), (1, 8, 24, 24), None, (8, 2), SEPARATED, None),
    (("i4",), (1, 8, 24, 24), None, (12, 6), SEPARATED, None),
    (("i8",), (1, 8, 12, 40), None, (3, 1), INTERLEAVED, None),
    (("i8",), (1, 7, 12, 40), None, (3, 1), SEPARATED, None),
    (("i8",), (1, 16, 40, 300), None, (3, 1), SEPARATED, None),
    (("f8",), (1, 8, 12, 40), None, (3, 1), ROLLED, FILTERED),
    (("f8",), (1, 7, 12, 40), None, (3, 1), ROLLED, FILTERED),
    (("f8",), (1, 16, 40, 300), None, (3, 1), ROLLED, FILTERED),
    # Stripes of float64: from 49 windows of a plane on.
    (("f4", "f8"), (3, 5, 13, 13), None, (3, 2, 1), ROLLED, None),
    (("f4", "f8"), (3, 5, 13, 12), None, (3, 2, 1), INTERLEAVED, None),
    (("f4",), (1, 16, 12, 40), None, (5, 1), INTERLEAVED, None),
    (("f4",), (1, 15, 12, 40), None, (5, 1), SEPARATED, None),
    # Values in windows of 5 x 5, of any size.
    (("i2", "e"), (1, 32, 12, 40), None, (5, 2), None, FILTERED),
    (("i2", "e"), (1, 31, 12, 40), None, (5, 2), None, FILTERED),
    (("i2",), (1, 64, 12, 300), None, (5, 2), None, FILTERED),
    (("i2", "e"), (1, 32, 12, 40), None, (5, 3), None, FILTERED),
    (("i4", "f4"), (1, 32, 12, 40), None, (5, 2), None, FILTERED),
    # Values of short rows.
    (("i4",), (1, 8, 40, 16), None, (3, 1), None, INTERLEAVED),
    (("i4",), (1, 8, 40, 17), None, (3, 1), None, FILTERED),
    (("i4",), (1, 7, 40, 16), None, (3, 1), None, FILTERED),
    # Few windows in a row, and many channels.
    (WIDE, (2, 17, 9, 11), None, (3, 2, 1), INTERLEAVED, None),
    (WIDEST, (1, 16, 10, 10), COLUMNS, (3, 1, 1), INTERLEAVED, None),
    (WIDEST, (1, 16, 10, 40), COLUMNS, (3, 2, 1), INTERLEAVED, None),
    (WIDEST, (1, 16, 40, 10), COLUMNS, (3, 1, 1), INTERLEAVED, None),
    (ANY, (8, 20, 4, 4), COLUMNS, (3, 3, 1), None, INTERLEAVED),
    # A batch whose planes are neighbours is as good as channels.
    (SIGNED, (64, 16, 8, 8), BATCH_LAST, (3, 1, 1), ROLLED, None),
    (("u4", "u8"), (64, 16, 8, 8), BATCH_LAST, (3, 1, 1), ACROSS, None),
    (("i2", "e"), (1, 32, 2, 256, 260), (0, 2, 3, 4, 1), (2,), ACROSS, ACROSS),
    # Channels last: a few are copied with each position, and many are compared across; fewer of float32 if windows
    # overlap little.
    (("f8",), (2, 5, 9, 11), LAST, (3, 2, 1), ACROSS, None),
    (("i4", "u4"), (2, 5, 9, 11), LAST, (3, 2, 1), SEPARATED, None),
    (("i4", "u4"), (2, 6, 9, 11), LAST, (3, 2, 1), ACROSS, None),
    (("f4",), (2, 3, 9, 11), LAST, (3,), ACROSS, None),
    (("f4",), (2, 3, 9, 11), LAST, (2,), ACROSS, None),
    (("f4",), (2, 6, 9, 11), LAST, (3,), ACROSS, None),
    (("f4",), (2, 6, 9, 11), LAST, (2,), ACROSS, None),
    (("f4", "i4"), (2, 4, 9, 11), LAST, (3, 2, 1), ROLLED, FILTERED),  # 16 bytes: columns are one run
    (("u4",), (2, 4, 9, 11), LAST, (3, 2, 1), SEPARATED, FILTERED),
    (("f4",), (2, 15, 9, 11), LAST, (4, 2, 1), ACROSS, None),
    (("f4",), (2, 15, 9, 11), LAST, (4, 3, 1), ACROSS, None),
    (("f4",), (2, 16, 9, 11), LAST, (4, 2, 1), ACROSS, None),
    (("f4", "f8", "i4"), (2, 16, 9, 11), LAST, (3, 2, 1), ROLLED, None),
    (("u4",), (2, 16, 9, 11), LAST, (3, 2, 1), ACROSS, None),
    (("f8", "i8", "u8"), (2, 3, 31, 90), LAST, (3, 2, 1), ACROSS, None),
    (("f4", "i4"), (2, 3, 31, 90), LAST, (3, 2, 1), ROLLED, None),
    (("u4",), (2, 3, 31, 90), LAST, (3, 2, 1), SEPARATED, None),
    (("f8", "i8", "u8"), (2, 3, 90, 31), LAST_COLUMNS, (3, 2, 1), ACROSS | WIDTH_SWAPPED, None),
    (("f4", "i4", "u4"), (2, 6, 90, 31), LAST_COLUMNS, (3, 2, 1), ACROSS | WIDTH_SWAPPED, None),
    (("f8", "i8"), (2, 15, 31, 90), LAST, (3, 2, 1), ROLLED, None),
    (("i4", "u4", "u8"), (2, 15, 31, 90), LAST, (3, 2, 1), ACROSS, None),
    (SIGNED, (2, 16, 31, 90), LAST, (3, 2, 1), ROLLED, None),
    (("u4", "u8"), (2, 16, 31, 90), LAST, (3, 2, 1), ACROSS, None),
    (("f8", "i8", "u8"), (2, 3, 31, 30), LAST, (3, 2, 1), ACROSS, None),
    # 16-bit floats across channels: windows of up to 32 elements, however far apart.
    (("e",), (2, 16, 31, 90), LAST, (5, 2, 1), ACROSS, None),
    (("e",), (2, 16, 31, 90), LAST, (6, 2, 1), ACROSS, None),
    (("e",), (1, 16, 3, 32766), LAST, (3, 2, 1), ACROSS, None),
    (("e",), (1, 16, 3, 32767), LAST, (3, 2, 1), ACROSS, None),
    (NARROW, (2, 3, 31, 90), LAST, (2,), SEPARATED, None),
    (("f4",), (1, 60, 17, 18), LAST, (13, 1), None, FILTERED),
    # Values of channels last, in windows that share rows.
    (("f4", "i4"), (1, 16, 17, 18), LAST, (5, 1), None, ROLLED),
    (("f4", "i4"), (1, 15, 17, 18), LAST, (5, 1), None, FILTERED),
    (("u1",), (1, 64, 17, 18), LAST, (3, 1, 1), None, ROLLED),
    (("u1",), (1, 63, 17, 18), LAST, (3, 1, 1), None, ROLLED),
    # Columns of fewer channels are one run, if it fills a vector.
    (("u1",), (1, 2, 17, 34), LAST, (3, 1), ROLLED, ROLLED),
    (("u1",), (1, 2, 17, 33), LAST, (3, 1), SEPARATED, FILTERED),
    (("u1",), (1, 16, 17, 35), LAST, (5, 2), ROLLED, FILTERED),
    (("u1",), (1, 17, 17, 35), LAST, (5, 2), SEPARATED, FILTERED),
    # More rows of several layers than filter combines at once, and fewer.
    (("f4",), (1, 2, 12, 30, 60), None, (7, 1, 3), None, SEPARATED),
    (("f4",), (1, 2, 12, 30, 60), None, ((7, 7, 3), 3, (3, 3, 1)), None, SEPARATED),
    (("f4",), (1, 2, 9, 30, 31), None, (5, 1, 2), None, FILTERED),
    (("f4",), (1, 2, 9, 30, 32), None, (5, 1, 2), None, FILTERED),
    (("f4",), (1, 2, 9, 30, 31), None, (5, 2, 2), None, FILTERED),
]


@pytest.mark.parametrize(
    ("dtype", "full", "order", "arguments", "with_indices", "without"),
    [pytest.param(dtype, *row, id=f"{dtype}-{row[:3]}") for dtypes, *row in POOLING for dtype in dtypes],
)
def test_which_method_pools(rng, dtype, full, order, arguments, with_indices, without):
    n = len(full) - 2
    x = random_numbers(rng, np.dtype(dtype), full)
    if order:
        x = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
    expected = [*map(bits, vectorised.max_pool(x, n, *arguments))]
    # Contiguous planes of these types, of 49 windows or more, go by rolling stripes, whatever serves the others.
    is_rolled = dtype in ROLLING and full[-2:] >= (13, 13)
    if is_rolled and n == 2 and order is None and arguments == (3, 2, 1):
        with_indices = ROLLED
    # Whether large results in other orders are streamed depends on the caches.
    left_out = {"streamed"} if order else set()
    if with_indices is not None:
        assert [*map(bits, POOL[n](x, *arguments, return_indices=True))] == expected
        assert planned(POOL[n], x, *arguments, return_indices=True) - left_out == with_indices
    if without is not None:
        assert bits(POOL[n](x, *arguments)) == expected[0]
        assert planned(POOL[n], x, *arguments) - left_out == without


@pytest.mark.parametrize("dtype", ["u1", "i2", "e", "f4", "f8"])
@pytest.mark.parametrize("channels", [2, 3, 5, 8, 24])
@pytest.mark.parametrize("arguments", [(2, 1), (3, 1, 1), ((4, 3), 1)])
def test_window_codes_of_few_channels(rng, arguments, channels, dtype):
    """Windows of up to 9 elements, one column apart, are compared across channels in one run, or by rolling stripes."""
    x = random_numbers(rng, np.dtype(dtype), (2, channels, 9, 700))
    kernel = np.broadcast_to(arguments[0], 2)
    method = ACROSS if kernel.prod() <= 9 or channels * x.itemsize >= 32 else SEPARATED
    if arguments == (3, 1, 1):
        method = ROLLED
    options = {"return_indices": True, "index_format": "window"}
    result = cu.max_pool2d(channels_last(x), *arguments, **options)
    assert [*map(bits, result)] == [*map(bits, cu.max_pool2d(x, *arguments, **options))]
    assert planned(cu.max_pool2d, channels_last(x), *arguments, **options) == method


@pytest.mark.parametrize("dtype", ["u1", "e", "f4", "f8"])
@pytest.mark.parametrize("channels", [2, 3, 4, 7, 8, 9, 33])
def test_channels_with_gaps_behind_them(rng, channels, dtype):
    """Such as three colours of four: what lies between belongs to no element, and is not read."""
    planes = random_numbers(rng, np.dtype(dtype), (2, channels + 1, 17, 40))
    x, contiguous = channels_last(planes)[:, :channels], np.ascontiguousarray(planes[:, :channels])
    for arguments in ((2,), (3,), (3, 2, 1), ((2, 3), 1), (3, 1, 0, 2)):
        assert bits(cu.max_pool2d(x, *arguments)) == bits(cu.max_pool2d(contiguous, *arguments))
        for index_format in ("plane", "window"):
            options = {"return_indices": True, "index_format": index_format}
            result, expected = (cu.max_pool2d(array, *arguments, **options) for array in (x, contiguous))
            assert [*map(bits, result)] == [*map(bits, expected)]
    size = channels * x.itemsize
    method = "rolling" if size >= 64 else "across" if size >= 24 else "separable"
    assert cu.explain(cu.max_pool2d, x, 3, 2, 1, return_indices=True).method == method


def has_shared_rows(x, *window, function=cu.max_pool2d, **keywords) -> bool:
    """Whether several rows of windows are compared together, in channels that are neighbours or become so."""
    plan = cu.explain(function, x, *window, **keywords)
    return plan.method == "rolling" or any(
        detail.startswith("rows of windows are compared together") for detail in plan.details
    )


def test_which_windows_share_rows(rng):
    def last(dtype, channels, height=12, width=12):
        return channels_last(rng.integers(0, 5, (1, channels, height, width)).astype(dtype))

    codes = {"return_indices": True, "index_format": "window"}
    for shares, x, window in (
        (True, last("f4", 16), (3, 1)),
        (True, last("f4", 15), (3, 1)),  # less than a vector: columns are one run
        (True, last("f4", 2, width=10), (3, 1)),
        (False, last("f4", 2, width=9), (3, 1)),  # of 56 bytes
        (False, last("f4", 15)[..., ::2], (3, 1)),  # pixels that do not follow each other
        (True, last("f4", 4), (3, 2)),
        (False, last("f4", 5), (3, 2)),  # two columns apart, more than 16 bytes
        (True, last("f4", 15), (5, 1)),
        (True, last("f4", 513), (3, 1)),
        (True, last("f4", 512), (3, 1)),
        (True, last("f4", 1024), (3, 1)),  # rows that are a multiple of 4 KiB
        (True, last("f4", 256), (3, 2)),
        (False, last("f4", 257), (3, 2)),  # two columns apart, more than 1 KiB
        (True, last("f4", 256), (5, 2)),
        (False, last("f4", 257), (5, 2)),  # the same
        (True, last("u1", 64), (5, 1, 2)),
        (True, last("u1", 63), (5, 1, 2)),
        (False, last("f4", 16), (4, 1)),
        (False, last("f4", 16), (7, 1)),
        (False, last("f4", 16), ((3, 5), 1)),
        (False, last("f4", 16), (3, (1, 2))),
        (False, last("f4", 16), (3, 3)),
        (False, last("f4", 16), (3, 1, 0, 2)),
        (True, last("f4", 16, height=3), (3, 1)),  # a single row of windows
        (True, last("f4", 16, height=4), (3, 1)),
    ):
        assert has_shared_rows(x, *window, **codes) == shares, (x.shape, x.dtype, window)
    # Planes that are interleaved, of 64 bytes or more.
    for shares, dtype, channels in ((True, "i8", 8), (False, "i8", 7), (True, "i8", 100)):
        planes = rng.integers(0, 5, (1, channels, 40, 40)).astype(dtype)
        assert has_shared_rows(planes, 3, 1, return_indices=True) == shares, channels
    # The same for values, and for indices.
    assert has_shared_rows(last("f4", 15), 3, 1)
    assert has_shared_rows(last("f4", 15), 3, 1, return_indices=True)
    assert has_shared_rows(last("f4", 16), 3, 1)
    # But not, of fewer than 64 bytes, values of windows that are larger or two columns apart.
    assert has_shared_rows(last("f4", 16), 5, 1)
    assert not has_shared_rows(last("f4", 15), 5, 1)
    assert has_shared_rows(last("f4", 4), 3, 2, return_indices=True)
    assert not has_shared_rows(last("f4", 4), 3, 2)
    # Parts of interleaved planes have rows enough, unless these are long.
    assert has_shared_rows(rng.integers(0, 99, (1, 16, 40, 160)), 3, 1, return_indices=True)
    assert not has_shared_rows(rng.integers(0, 99, (1, 16, 40, 300)), 3, 1, return_indices=True)
    # Indices of bytes too, of up to 512 channels, but not minima of floats.
    assert has_shared_rows(last("u1", 512), 3, 1, return_indices=True)
    assert not has_shared_rows(last("u1", 513), 3, 1, return_indices=True)
    assert has_shared_rows(last("u1", 513), 3, 1, **codes)
    assert has_shared_rows(last("u1", 512, width=258), 3, 1, return_indices=True)
    assert has_shared_rows(last("u1", 512, width=259), 3, 1, return_indices=True)
    assert has_shared_rows(last("u1", 512, width=259), 3, 1)
    assert not has_shared_rows(last("f4", 16), 3, 1, function=cu.min_pool2d)


@pytest.mark.parametrize("dtype", WIDEST)
def test_every_second_plane_of_a_batch_is_no_channel(rng, dtype):
    x = np.moveaxis(random_numbers(rng, np.dtype(dtype), (16, 8, 8, 128)), -1, 0)[::2]
    assert [*map(bits, cu.max_pool2d(x, 3, 1, 1, return_indices=True))] == [
        *map(bits, vectorised.max_pool(x, 2, 3, 1, 1))
    ]
    assert planned(cu.max_pool2d, x, 3, 1, 1, return_indices=True) - {"streamed"} == INTERLEAVED


def pooled(rng, full, kernel=2, stride=None, padding=0, last=False):
    x = rng.standard_normal(full).astype(np.float32)
    if last:
        x = channels_last(x)
    n = len(full) - 2
    return POOL[n](x, kernel, stride, padding, return_indices=True)


def scattered(values, indices, full):
    """The slow way: one assignment after the other."""
    return reference.max_unpool(values, indices, len(full) - 2, full[2:])


def scattered_at_once(values, indices, full):
    """The same for many values of planes that are the first axis, by NumPy."""
    result = np.zeros((full[0], int(np.prod(full[1:]))), values.dtype)
    np.put_along_axis(result, indices.reshape(full[0], -1), values.reshape(full[0], -1), 1)
    return result.reshape(full)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("full", [(2, 3, 200), (2, 3, 6, 100), (2, 3, 7, 101), (1, 2, 4, 6, 90), (1, 1, 5, 6, 91),
                                  (1, 1, 300, 300), (1, 1, 20000)])  # fmt: skip
def test_windows_of_2_are_filled_by_indices(rng, ways, full, threads):
    values, indices = pooled(rng, full)
    ways.clear()
    for index_format, chosen in (("plane", indices), ("plane", indices.astype(np.int32)), ("window", None)):
        if chosen is None:
            chosen = cu.convert_indices(indices, "plane", "window", input_size=full[2:], kernel_size=2)
        result = UNPOOL[len(full) - 2](values, chosen, 2, output_size=full[2:], index_format=index_format,
                                       num_threads=threads)  # fmt: skip
        assert bits(result) == bits(scattered(values, indices, full))
    by_indices = BY_INDICES if len(full) < 5 else _unpool.FILLED  # windows of two layers become codes
    assert [way & ~(_unpool.SPLIT | ALSO) for way in ways] == [by_indices, by_indices, _unpool.FILLED]


def test_rows_with_gaps_between_them_are_filled_without_a_stray(rng, ways):
    for full in ((2, 3, 6, 100), (1, 2, 4, 6, 90)):
        values, indices = pooled(rng, full)
        for axis in range(values.ndim - 1):
            take = (slice(None),) * axis + (slice(None, None, 2),)
            for given, chosen in (
                (np.repeat(values, 2, axis)[take], indices),
                (values, np.repeat(indices, 2, axis)[take]),
            ):
                ways.clear()
                result = UNPOOL[len(full) - 2](given, chosen, 2, output_size=full[2:], num_threads=1)
                assert bits(result) == bits(scattered(values, indices, full))
                assert [way & ~ALSO for way in ways] == [BY_INDICES if len(full) < 5 else _unpool.FILLED], axis


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f4", "u1", "f2", "f8", "D"])
@pytest.mark.parametrize(
    "kernel", [(1, 2), (2, 1), (3, 3), (2, 3), (3, 2), (4, 4), (5, 4), (16, 2), (2, 2, 3), (3, 1, 2)]
)
def test_windows_side_by_side_are_spread_by_their_codes(rng, ways, dtype, kernel):
    n = len(kernel)
    for pooled_size in ((5, 80), (3, 131), (5, 600), (17, 129)):
        size = (2, *pooled_size)[-n:]
        full = tuple(s * k + int(rng.integers(k)) for s, k in zip(size, kernel, strict=True))
        x = random_numbers(rng, np.dtype("f4"), (2, 3, *full))
        values, indices = POOL[n](x, kernel, return_indices=True)
        codes = POOL[n](x, kernel, return_indices=True, index_format="window")[1]
        values = random_items(rng, np.dtype(dtype), values.shape)
        for threads in (1, 3):
            ways.clear()
            result = UNPOOL[n](values, codes, kernel, output_size=full, index_format="window", num_threads=threads)
            assert bits(result) == bits(scattered(values, indices, (2, 3, *full)))
            assert ways == [_unpool.FILLED]
        codes.flat[rng.integers(codes.size)] = np.prod(kernel)
        with pytest.raises(IndexError, match="names no element"):
            UNPOOL[n](values, codes, kernel, output_size=full, index_format="window")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f4", "u1", "f2", "f8", "D"])
@pytest.mark.parametrize(("n", "kernel", "planes", "rows"), [(2, 2, (5, 8), 14), (2, (1, 2), (1, 1), 600),
                                                            (1, 2, (30, 20), 1), (3, (1, 2, 2), (1, 40), 15),
                                                            (3, 2, (1, 2), 530),
                                                            (3, (2, 1, 2), (1, 3), 600)])  # fmt: skip
def test_short_rows_are_spread_together(rng, ways, monkeypatch, dtype, n, kernel, planes, rows):
    monkeypatch.setattr("cunpool._threads.GRAIN", 1)  # so that small arrays are split too
    for width in range(1 if rows > 1 else 2, 16):
        wide = (kernel,) * n if isinstance(kernel, int) else kernel
        size = (2 if wide[0] == 2 else 1, rows, width)[-n:]
        full = tuple(s * k + int(rng.integers(k)) for s, k in zip(size, wide, strict=True))
        x = random_numbers(rng, np.dtype("f4"), (*planes, *full))
        values, indices = POOL[n](x, kernel, return_indices=True)
        codes = POOL[n](x, kernel, return_indices=True, index_format="window")[1]
        values = random_items(rng, np.dtype(dtype), values.shape)
        expected = bits(scattered(values, indices, x.shape))
        for threads in (1, 3):
            ways.clear()
            assert expected == bits(UNPOOL[n](values, codes, kernel, output_size=full, index_format="window",
                                              num_threads=threads))  # fmt: skip
            # Where nothing is left between planes, their rows follow each other too.
            exact = n == 1 or (full[-2] == rows * wide[-2] and (n == 2 or size[0] == 1))
            if rows * width >= 128 or (exact and codes.size >= 128):
                few = width <= (4 if full[-1] > width * wide[-1] or dtype == "u1" else 1)
                assert [way & ~_unpool.SPLIT for way in ways] == [_unpool.SCATTERED if few else _unpool.FILLED]
            assert expected == bits(UNPOOL[n](values, indices, kernel, output_size=full, num_threads=threads))
            if dtype in ("f4", "f2", "f8"):
                backward = getattr(cu, f"max_pool{n}d_backward")
                grads = rng.integers(-50, 50, values.shape).astype(dtype)
                result = backward(grads, codes, full, kernel, index_format="window", num_threads=threads)
                assert bits(result) == bits(scattered(grads, indices, x.shape))
        # Rows that are not next to each other, and planes that are not.
        apart = np.repeat(np.repeat(values, 2, -2), 2, 0)[::2, ..., ::2, :]
        assert expected == bits(UNPOOL[n](apart, codes, kernel, output_size=full, index_format="window"))
        codes.flat[rng.integers(codes.size)] = np.prod(wide)
        with pytest.raises(IndexError, match="names no element"):
            UNPOOL[n](values, codes, kernel, output_size=full, index_format="window")


@pytest.mark.mostly_slow
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("full", [(2, 3, 6, 100), (1, 1, 300, 300), (1, 2, 4, 6, 90)])
def test_a_stray_is_scattered_after_all(rng, ways, full, threads):
    values, indices = pooled(rng, full)
    size = int(np.prod(full[2:]))
    for _ in range(10):
        stray = indices.copy()
        at = int(rng.integers(stray.size))
        stray.flat[at] = (stray.flat[at] + rng.integers(1, size)) % size
        ways.clear()
        result = UNPOOL[len(full) - 2](values, stray, 2, output_size=full[2:], num_threads=threads)
        assert bits(result) == bits(scattered(values, stray, full))
        if np.abs(stray - indices).max() > 2 * full[-1]:
            assert ways[0] & (_unpool.BY_INDICES if len(full) < 5 else _unpool.FILLED)
            assert ways[0] & _unpool.STRAYED
        for bad in (-1, size, 2**32 + int(indices.flat[at]), int(indices.flat[at]) - 2**32):
            stray.flat[at] = bad
            with pytest.raises(IndexError, match=f"index {bad} at"):
                UNPOOL[len(full) - 2](values, stray, 2, output_size=full[2:], num_threads=threads)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("index_format", ["plane", "window"])
def test_planes_without_windows_are_zero(index_format, threads):
    for n, pooled_shape, size in ((2, (2, 0, 50), (1, 100)), (3, (2, 1, 0, 50), (2, 1, 100)), (2, (2, 0, 7), (1, 14))):
        # A part of an array has strides, if it is empty too.
        values = np.ones([s or 4 for s in pooled_shape], np.float32)[tuple(slice(s) for s in pooled_shape)]
        indices = np.zeros([s or 4 for s in pooled_shape], np.uint8 if index_format == "window" else np.int64)[
            tuple(slice(s) for s in pooled_shape)
        ]
        out = np.full((2, *size), 7, np.float32)
        UNPOOL[n](values, indices, 2, output_size=size, index_format=index_format, out=out, num_threads=threads)
        assert not out.any()


def test_windows_that_overlap_or_lie_apart_or_are_broad_are_scattered(rng):
    for full, arguments in (((2, 3, 9, 100), (3, 2, 1)), ((2, 3, 8, 100), (2, 2, 1)), ((2, 3, 8, 100), (2, 3, 0)),
                            ((2, 3, 8, 300), ((1, 5), (1, 5), 0)), ((2, 3, 64, 64), (16, 16, 0))):  # fmt: skip
        values, indices = pooled(rng, full, *arguments)
        result = cu.max_unpool2d(values, indices, *arguments, full[2:])
        assert bits(result) == bits(scattered(values, indices, full))
        assert planned(cu.max_unpool2d, values, indices, *arguments, full[2:]) == SCATTER


def test_channels_last_goes_through_all_channels_at_once(rng, ways):
    for full, arguments in (((2, 16, 8, 10), (2,)), ((1, 33, 40, 30), (3, 2, 1)), ((1, 9, 4, 6, 16), (2,))):
        values, indices = pooled(rng, full, *arguments, last=True)
        for threads in (1, 3):
            ways.clear()
            result = UNPOOL[len(full) - 2](values, indices, *arguments, output_size=full[2:], num_threads=threads)
            assert bits(result) == bits(scattered(values, indices, full))
            assert ways[0] & (_unpool.FILLED if arguments == (2,) else _unpool.INTERLEAVED)


def test_gradients_go_through_all_channels_at_once(rng):
    for full, arguments in (((2, 16, 8, 10), (2,)), ((1, 33, 40, 30), (3, 2, 1)), ((1, 9, 4, 6, 6), (2,))):
        n = len(full) - 2
        x = np.moveaxis(rng.standard_normal((full[0], *full[2:], full[1])), -1, 1)
        indices = POOL[n](x, *arguments, return_indices=True)[1]
        codes = POOL[n](x, *arguments, return_indices=True, index_format="window")[1]
        expected = np.take_along_axis(x.reshape(*full[:2], -1), indices.reshape(*full[:2], -1), 2)
        for chosen, index_format in ((indices, "plane"), (codes, "window")):
            backward = getattr(cu, f"max_unpool{n}d_backward")
            result = backward(x, chosen, *arguments, index_format=index_format)
            assert np.array_equal(result.reshape(expected.shape), expected)
            chosen[0, 1, 1] = -1 if index_format == "plane" else 200
            with pytest.raises(IndexError):
                backward(x, chosen, *arguments, index_format=index_format)


def test_one_plane_is_split_between_threads(rng, monkeypatch):
    if not cu.openmp_enabled():
        monkeypatch.setattr("cunpool._threads.openmp_enabled", lambda: True)
    for full, arguments in (((1, 1, 500, 501), (3, 2, 1)), ((1, 1, 100000), (3, 2)), ((1, 1, 40, 50, 60), (3, 2))):
        values, indices = pooled(rng, full, *arguments)
        options = {"output_size": full[2:], "num_threads": 4}
        result = UNPOOL[len(full) - 2](values, indices, *arguments, **options)
        assert bits(result) == bits(scattered(values, indices, full))
        assert planned(UNPOOL[len(full) - 2], values, indices, *arguments, **options) == SCATTER | SPLIT


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("kernel", "full", "dtype"),
    [
        (2, (30, 300, 610), "f4"), (2, (65, 300, 610), "f4"), (3, (30, 302, 761), "f4"), (4, (2, 1601, 2003), "f4"),
        (2, (2, 40, 290, 301), "f4"), (2, (10000, 28, 28), "f4"), (2, (2, 130001, 29), "f4"), (2, (3, 5000001), "f4"),
        (2, (1, 15000000), "f4"), (2, (7, 2003, 2005), "u1"), (4, (7, 2003, 2005), "u1"), (2, (2, 999, 1001), "D"),
        (2, (2800, 30, 31), "D"), ((16, 2), (3, 1610, 1701), "f8"), ((16, 4), (3, 1610, 1701), "f8"),
        ((2, 1, 2), (2, 40, 290, 601), "f4"), ((3, 1, 2), (2, 41, 290, 601), "f4"),
        ((2, 3, 2), (2, 40, 290, 601), "f4"), ((2, 1, 2), (2, 40, 6000, 30), "f4"),
    ],
)  # fmt: skip
def test_codes_of_results_beyond_the_caches(rng, ways, kernel, full, dtype, threads):
    n = len(full) - 1
    x = rng.integers(1 if dtype == "u1" else -100, 100, full).astype(np.float32)
    values, indices = POOL[n](x, kernel, return_indices=True)
    codes = POOL[n](x, kernel, return_indices=True, index_format="window")[1]
    values = values.astype(dtype)
    expected = scattered_at_once(values, indices, full)
    guarded = np.full(x.size + 64, 7, dtype)
    out = guarded[31 : 31 + x.size].reshape(full)
    for chosen, index_format in ((codes, "window"), (indices, "plane")):
        out.fill(7)
        UNPOOL[n](values, chosen, kernel, output_size=full[1:], out=out, index_format=index_format,
                  num_threads=threads)  # fmt: skip
        by_rows = kernel == 2 and n < 3 and full[-1] >= 80 and dtype in ("f4", "f8")
        if index_format == "plane" and isinstance(kernel, tuple) and math.prod(kernel[:-1]) > 4:
            assert not ways[-1] & _unpool.FILLED  # indices of windows of many rows
        else:
            assert ways[-1] & _unpool.STREAMED
            filled = BY_INDICES if by_rows and index_format == "plane" else _unpool.FILLED
            assert ways[-1] & ~_unpool.STREAMED == filled
        assert np.array_equal(out, expected)
        assert (guarded[:31] == 7).all()
        assert (guarded[31 + x.size :] == 7).all()
    if dtype in ("f4", "f8"):
        backward = getattr(cu, f"max_pool{n}d_backward")
        result = backward(values, codes, full[1:], kernel, index_format="window", num_threads=threads)
        assert np.array_equal(result, expected)


@pytest.mark.skipif(LOW, reason="other sizes are streamed")
@pytest.mark.parametrize(
    ("kernel", "full", "dtype", "threads", "expected"),
    [
        (2, (2048, 40, 40), "f4", 2, SCATTER), (3, (16384, 15, 15), "f4", 1, SCATTER),
        (3, (32768, 15, 15), "f4", 1, SCATTER),  # blocks of few elements, in arrays of any size
        (2, (1000, 30, 31), "D", 2, SCATTER), (2, (2, 60001, 29), "f4", 1, SCATTER),
        (2, (4096, 40, 40), "f4", 2, FILL | STREAMED), (3, (16384, 24, 24), "f4", 1, FILL | STREAMED),
        (2, (2000, 30, 31), "D", 2, FILL | STREAMED), (2, (2, 120001, 29), "f4", 1, FILL | STREAMED),
        (2, (2, 120001, 29), "f4", 4, FILL | STREAMED),
        (2, (8192, 40, 40), "f4", 2, FILL | STREAMED),
    ],
)  # fmt: skip
def test_short_rows_of_places_are_streamed_beyond_the_caches(rng, monkeypatch, kernel, full, dtype, threads, expected):
    if not cu.openmp_enabled():
        monkeypatch.setattr("cunpool._threads.openmp_enabled", lambda: True)
    shape = full[0], *(size // kernel for size in full[1:])
    options = {"output_size": full[1:], "num_threads": threads}
    assert planned(cu.max_unpool2d, np.empty(shape, dtype), np.empty(shape, int), kernel, **options) == expected


@pytest.mark.slow
@pytest.mark.parametrize("full", [(4096, 40, 40), (8192, 40, 40), (2, 120001, 29)], ids=str)
@pytest.mark.parametrize("threads", [1, 4])
def test_short_rows_of_places_beyond_the_caches(rng, full, threads):
    values, indices = cu.max_pool2d(rng.integers(1, 100, full).astype(np.float32), 2, return_indices=True)
    result = cu.max_unpool2d(values, indices, 2, output_size=full[1:], num_threads=threads)
    assert bits(result) == bits(scattered_at_once(values, indices, full))


@pytest.mark.parametrize(
    ("kernel", "full", "kind", "apart", "expected"),
    [
        # Rows of places are short where they have fewer than 10 windows for each cell of one, but 40 at least.
        (3, (5, 100, 266), "i4", False, SCATTER), (3, (5, 100, 266), "i4", True, SCATTER),
        (3, (5, 100, 269), "i8", False, SCATTER), (3, (5, 100, 270), "i8", True, FILL),
        ((1, 2), (5, 101, 79), "i4", True, SCATTER), ((1, 2), (5, 101, 81), "i4", True, FILL),
        # Whether windows are neighbours, and how many a plane has, changes nothing.
        (3, (90, 36, 36), "i4", False, SCATTER), (3, (90, 36, 32), "i4", True, SCATTER),
        (3, (90, 36, 36), "i4", True, SCATTER),
        # Places in windows of up to 4 rows become codes.
        ((4, 2), (5, 100, 266), "i4", False, FILL), ((5, 2), (5, 100, 266), "i4", False, SCATTER),
        ((5, 2), (5, 100, 266), "u1", False, FILL),
        # Rows of codes, of 9 cells or more.
        (3, (5, 100, 119), "u1", False, SCATTER), (3, (5, 100, 120), "u1", False, FILL),
        (3, (5, 100, 119), "u1", True, SCATTER), ((2, 4), (5, 100, 119), "u1", False, FILL),
        ((9, 3), (5, 100, 119), "u1", True, SCATTER), ((8, 3), (5, 100, 119), "u1", True, SCATTER),
    ],
)  # fmt: skip
def test_few_windows_for_the_cells_are_scattered(rng, kernel, full, kind, apart, expected):
    style = {"index_format": "window"} if kind == "u1" else {"index_dtype": kind}
    x = rng.integers(1, 100, full).astype(np.uint8)
    values, indices = cu.max_pool2d(x, kernel, return_indices=True, **style)
    style = {"index_format": style.get("index_format", "plane")}
    wanted = cu.max_unpool2d(values.copy(), indices.copy(), kernel, output_size=full[1:], **style)
    if apart:
        values, indices = (np.repeat(array, 2, -1)[..., ::2] for array in (values, indices))
    options = {"output_size": full[1:], "num_threads": 1, **style}
    assert LOW or planned(cu.max_unpool2d, values, indices, kernel, **options) - {"decoded"} == expected
    result = cu.max_unpool2d(values, indices, kernel, **options)
    assert bits(result) == bits(wanted)
    shape = {"input_size": full[1:], "kernel_size": kernel}
    places = cu.convert_indices(indices, "window", "plane", **shape) if kind == "u1" else indices
    assert bits(result) == bits(scattered_at_once(np.ascontiguousarray(values), places, full))


@pytest.mark.parametrize(
    ("full", "dtype", "expected"),
    [
        # One window in a row, several before a cell that belongs to none, and more than one if they are of bytes.
        ((200, 8, 2), "f4", SCATTER), ((200, 8, 4), "f4", FILL),
        ((200, 8, 9), "f4", SCATTER), ((200, 8, 11), "f4", FILL),
        ((200, 8, 8), "u1", SCATTER), ((200, 8, 10), "u1", FILL),
        ((200, 8, 9), "u1", SCATTER), ((200, 8, 11), "u1", FILL),
        ((200, 8, 6), "i2", FILL), ((200, 8, 9), "c16", SCATTER),
        ((200, 80, 2, 1), "f4", SCATTER), ((200, 80, 4, 1), "f4", FILL),  # memory runs along another axis
    ],
)  # fmt: skip
def test_rows_of_few_codes_are_scattered(rng, full, dtype, expected):
    n, kernel = len(full) - 1, (2, 2, 1)[: len(full) - 1]
    x = rng.integers(1, 100, full).astype(np.uint8)
    values, codes = POOL[n](x, kernel, return_indices=True, index_format="window")
    values = values.astype(dtype)
    options = {"output_size": full[1:], "index_format": "window"}
    assert LOW or planned(UNPOOL[n], values, codes, kernel, **options) - {"decoded"} == expected
    result = UNPOOL[n](values, codes, kernel, **options)
    places = cu.convert_indices(codes, "window", "plane", input_size=full[1:], kernel_size=kernel)
    assert bits(result) == bits(scattered_at_once(values, places, full))


@pytest.mark.parametrize(("full", "expected"), [((9, 119, 80), SCATTER), ((9, 120, 80), FILL)])
def test_lines_of_few_codes_are_scattered_in_other_orders(rng, full, expected):
    """Memory runs along the columns: their windows count, not those of the rows."""
    x = rng.integers(1, 100, full).astype(np.float32)
    given = np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)
    style = {"index_format": "window"}
    values, codes = cu.max_pool2d(given, 3, return_indices=True, **style)
    options = {"output_size": full[1:], **style}
    assert LOW or planned(cu.max_unpool2d, values, codes, 3, **options) - {"decoded", "C order"} == expected
    wanted = cu.max_unpool2d(*map(np.ascontiguousarray, (values, codes)), 3, **options)
    assert bits(cu.max_unpool2d(values, codes, 3, **options)) == bits(wanted)


def test_parts_of_a_row_beyond_the_caches_leave_the_next_part_alone(ways):
    """A cell behind the windows of a row is zeroed with the last part, and not where another one begins."""
    values = np.ones((1, 7_500_000), np.float32)
    indices = np.arange(values.size).reshape(values.shape) * 2
    for threads in (1, 2, 3):
        result = cu.max_unpool1d(values, indices, 2, output_size=(2 * values.size + 1,), num_threads=threads)
        assert ways[-1] == BY_INDICES | _unpool.STREAMED
        assert (result[0, :-1:2] == 1).all()
        assert result.sum(dtype=float) == values.size


def test_results_beyond_the_caches_go_past_them(rng, ways):
    x = rng.integers(-100, 100, (1, 40, 512, 500)).astype(np.float32)
    values, indices = cu.max_pool2d(x, 2, return_indices=True)
    assert ways[-1] & _pool.STREAMED
    expected = np.zeros((40, 512 * 500), np.float32)
    np.put_along_axis(expected, indices.reshape(40, -1), values.reshape(40, -1), 1)
    assert np.array_equal(values, x.reshape(1, 40, 256, 2, 250, 2).max((3, 5)))
    assert np.array_equal(np.take_along_axis(x.reshape(40, -1), indices.reshape(40, -1), 1), values.reshape(40, -1))
    shifted = np.empty(x.size + 3, np.float32)[3:].reshape(x.shape)
    for out in (None, shifted):
        result = cu.max_unpool2d(values, indices, 2, out=out)
        assert ways[-1] & _unpool.STREAMED
        assert ways[-1] & _unpool.BY_INDICES
        assert np.array_equal(result.reshape(40, -1), expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("full", "dtype"),
    [((8_000_000,), "f4"), ((2048, 4096), "f4"), ((4, 1024, 2048), "f4"), ((1024, 4100), "f8"), ((4096, 8192), "u1")],
    ids=str,
)
def test_long_rows_beyond_the_caches(rng, ways, full, dtype):
    """Windows of two are compared in parts of such rows, and what follows each part is fetched before."""
    x = rng.integers(0, 100, full).astype(dtype)
    values, places = POOL[len(full)](x[None], 2, return_indices=True)
    assert ways[-1] == _pool.STREAMED | _pool.WINDOW2
    expected, expected_places = vectorised.max_pool(x[None], x.ndim, 2)
    assert np.array_equal(values, expected)
    assert np.array_equal(places, expected_places)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("planes", "full", "dtype"),
    [
        (1100, (65, 94), "f4"),
        (9000, (58, 14), "f4"),
        (160, (150, 256), "f4"),
        (2, (20_003, 126), "f8"),
        (700, (13, 22, 30), "f4"),
        (350, (8, 33, 32), "f8"),
        (1500, (12, 13, 30), "f8"),
        (80_000, (81,), "f4"),
    ],
    ids=str,
)
def test_short_rows_beyond_the_caches(rng, ways, planes, full, dtype):
    """Rows of windows of two are compared some at a time, and some of them again where a cell is no number."""
    x = rng.integers(0, 100, (planes, *full)).astype(dtype)
    for plane in range(0, planes, 7):
        x[(plane, *rng.integers(0, [length & ~1 for length in full]))] = np.nan
    values, places = POOL[len(full)](x, 2, return_indices=True)
    assert ways[-1] & _pool.STREAMED
    assert ways[-1] & _pool.WINDOW2
    expected, expected_places = vectorised.max_pool(x, len(full), 2)
    assert np.array_equal(values, expected, equal_nan=True)
    assert np.array_equal(places, expected_places)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "dtype", "arguments"),
    [
        ((300, 150, 160), "f4", (3, 2, 1)),
        ((9000, 28, 28), "f4", (3, 2, 1)),
        ((1500, 130, 132), "u1", (3, 2, 1)),
        ((40, 301, 303), "f8", (3, 1)),
        ((8, 7, 150_000), "f4", (3, 2, 1)),
        ((4, 2_000_000), "f4", (3, 2, 1)),
        ((16, 40, 100, 102), "f4", ((2, 1, 3), (1, 1, 2))),
        ((10, 20, 200, 200), "f4", (2, 1)),
        ((200, 20, 50, 50), "f4", ((1, 3, 3), (1, 2, 2))),
    ],
    ids=str,
)
@pytest.mark.parametrize("rows", ["each", "reversed", "one"])
def test_overlapping_windows_beyond_the_caches(rng, ways, shape, dtype, arguments, rows):
    """Wherever rows lie."""
    n = len(shape) - 1
    x = rng.integers(0, 100, shape).astype(dtype)
    if rows == "reversed":
        x = x[..., ::-1, :]
    elif rows == "one":
        x = np.broadcast_to(x[..., :1, :], shape)
    values, places = POOL[n](x, *arguments, return_indices=True)
    assert ways[-1] & (_pool.ROLLING | _pool.INTERLEAVED | _pool.SEPARATED)
    expected, expected_places = vectorised.max_pool(x, n, *arguments)
    assert np.array_equal(values, expected)
    assert np.array_equal(places, expected_places)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f4", "f8", "u1"])
@pytest.mark.parametrize("width", [60, 2048])
@pytest.mark.parametrize("kernel", [(2, 2), (1, 2), (2, 2, 2), (2, 1, 2)], ids=str)
@pytest.mark.parametrize("rows", ["each", "reversed", "one"])
def test_rows_that_lie_anywhere_beyond_the_caches(rng, ways, dtype, width, kernel, rows):
    """Also rows on each other, as broadcasting leaves them, from which no next one can be told."""
    elements = (1 << 25) // max(np.dtype(dtype).itemsize, 2)  # as few as bypass the caches, about
    shape = elements // 100 // width // 10, 10, 100, width
    x = rng.integers(0, 100, shape).astype(dtype).reshape(-1, *shape[4 - len(kernel) :])
    if rows == "reversed":
        x = x[..., ::-1, :]
    elif rows == "one":
        x = np.broadcast_to(x[..., :1, :], x.shape)
    values, places = POOL[len(kernel)](x, kernel, return_indices=True)
    assert ways[-1] & _pool.STREAMED
    assert ways[-1] & _pool.WINDOW2
    expected, expected_places = vectorised.max_pool(x, len(kernel), kernel)
    assert np.array_equal(values, expected)
    assert np.array_equal(places, expected_places)


# Up to 32 windows in a row begin together, of bytes up to 128; and no block of theirs but those of whole planes reaches
# into the next one.
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["u1", "i2", "e", "f4", "f8"])
@pytest.mark.parametrize("threads", [1, 3])
def test_short_rows_of_windows_of_2_are_written_together(rng, ways, threads, dtype):
    # Those in a row that are worth a vector, and around the most.
    counts = (16, 17, 31, 32, 33, 127, 128, 129) if dtype == "u1" else (8, 9, 15, 16, 17, 31, 32, 33)
    for windows in counts:
        for rows in (1, 2, 3, 7, 512 // windows, 512 // windows + 1, 2 * (512 // windows) + 3):
            for planes, rest, depth in ((1, 0, 1), (41, 0, 1), (41, 1, 1), (2, 0, 4)):
                n = 2 if depth == 1 else 3
                full = (1, planes, *(depth,) * (n - 2), 2 * rows + rest, 2 * windows)
                x = random_numbers(rng, np.dtype(dtype), full)
                expected = vectorised.max_pool(x, n, 2)
                for index_dtype in ("int64", "int32"):
                    ways.clear()
                    values, indices = POOL[n](x, 2, return_indices=True, index_dtype=index_dtype, num_threads=threads)
                    assert ways[0] & _pool.WINDOW2
                    assert bits(values) == bits(expected[0])
                    assert np.array_equal(indices, expected[1]), (full, threads)
                    wide = np.full((*values.shape[:-1], windows + 2), -7, index_dtype)
                    out = np.zeros_like(values), wide[..., 1:-1]
                    POOL[n](x, 2, return_indices=True, out=out, num_threads=threads)
                    assert bits(out[0]) == bits(expected[0])
                    assert np.array_equal(out[1], expected[1]), (full, threads)
                    assert (wide[..., [0, -1]] == -7).all()


# Bytes are compared with what they are beside: few of them, and the ends of their ranges, so that many are equal.
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["u1", "i1", "?"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("full", "kernel"),
    [((2, 3, 2), (2,)), ((2, 3, 6, 2), (2, 2)), ((1, 3, 6, 5, 2), (2, 2, 2)), ((2, 2, 4, 6, 2), (1, 2, 2)),
     ((2, 2, 4, 6, 2), (2, 1, 2)), ((2, 2, 4, 6, 2), (1, 1, 2)), ((1, 4, 41, 2), (2, 2)), ((1, 4, 6, 2), (1, 2))],
)  # fmt: skip
def test_bytes_in_windows_of_2(rng, ways, full, kernel, threads, dtype):
    n = len(kernel)
    for windows in (16, 17, 63, 64, 65, 100, 127, 128, 129, 511, 513):
        shape = (*full[:-1], 2 * windows)
        x = rng.choice(
            {"?": [0, 1], "u1": [0, 1, 127, 128, 254, 255], "i1": [-128, -127, -1, 0, 126, 127]}[dtype], shape
        )
        x = x.astype(dtype)
        values, indices = vectorised.max_pool(x, n, kernel)
        codes = cu.convert_indices(indices, "plane", "window", input_size=shape[2:], kernel_size=kernel)
        for expected, style in (
            (indices, {}),
            (indices, {"index_dtype": "int32"}),
            (codes, {"index_format": "window"}),
        ):
            ways.clear()
            result = POOL[n](x, kernel, return_indices=True, num_threads=threads, **style)
            assert ways[0] & _pool.WINDOW2
            assert bits(result[0]) == bits(values)
            assert np.array_equal(result[1], expected), (shape, style)
            for gaps in ((2, 0), (0, 2), (2, 2)):  # behind the rows of values, of indices, and of both
                wide = np.uint16 if gaps[0] and expected is codes else result[1].dtype  # as codes too may be given
                rooms = [np.full((*values.shape[:-1], windows + gap), -1).astype(stored)
                         for gap, stored in zip(gaps, (x.dtype, wide), strict=True)]  # fmt: skip
                out = tuple(room[..., :windows] for room in rooms)
                POOL[n](x, kernel, return_indices=True, num_threads=threads, out=out,
                        index_format=style.get("index_format", "plane"))  # fmt: skip
                assert bits(out[0]) == bits(values)
                assert np.array_equal(out[1], expected), (shape, style, gaps)
                assert all((room[..., windows:] == np.array(-1).astype(room.dtype)).all() for room in rooms)
        assert bits(POOL[n](x, kernel, num_threads=threads)) == bits(values)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["C", "channels last"])
@pytest.mark.parametrize(
    ("full", "kernel", "dtype"),
    [
        ((2, 3, 2**21), 2, "f4"),
        ((2, 3, 1001, 1501), 2, "f4"),
        ((2, 9, 501, 1001), (3, 2), "f4"),
        ((1, 2, 64, 256, 260), 2, "f4"),
        ((1, 2, 64, 256, 260), (2, 1, 2), "f4"),
        ((1, 2, 64, 256, 260), (1, 4, 4), "f4"),
        ((1, 2, 64, 256, 260), (1, 5, 5), "f4"),
        ((2, 200, 224, 224), 2, "u1"),
        ((1, 20, 300, 303), (2, 4), "D"),
        ((1, 20, 300, 303), (4, 1), "D"),
        ((1, 20, 300, 303), (5, 1), "D"),
        ((1, 2, 65, 256, 260), (4, 2, 4), "f4"),
        ((1, 700, 80, 90), (2, 1), "f4"),
        ((500, 20, 23, 23), 2, "f4"),
        ((700, 20, 22, 22), 2, "f4"),
    ],
)
def test_gradients_of_large_arrays(rng, ways, full, kernel, dtype, order):
    n, taps = len(full) - 2, int(np.prod(np.broadcast_to(kernel, len(full) - 2)))
    _, indices = pooled(rng, full, kernel)
    grad = random_numbers(rng, np.dtype(dtype), full)
    codes = cu.convert_indices(indices, "plane", "window", input_size=full[2:], kernel_size=kernel)
    flat = grad.reshape(*full[:2], -1)

    def gathered(chosen):  # by NumPy
        return np.take_along_axis(flat, chosen.reshape(*full[:2], -1), 2).reshape(chosen.shape)

    def laid(array):
        return array if order == "C" else channels_last(array)

    given, expected = laid(grad), bits(gathered(indices))
    bad_codes, outside = codes.copy(), indices.copy()
    bad_codes.flat[rng.integers(codes.size)] = taps
    at = int(rng.integers(outside.size))
    outside.flat[at] = (outside.flat[at] + 7) % int(np.prod(full[2:]))
    expected_outside = bits(gathered(outside))
    laid_out = [laid(array) for array in (indices, indices.astype(np.int32), codes, bad_codes, outside)]
    for threads in (1, 3):
        ways.clear()
        for chosen in laid_out[:2]:
            assert bits(UNPOOL_BACKWARD[n](given, chosen, kernel, num_threads=threads)) == expected
        form = {"index_format": "window", "num_threads": threads}
        assert bits(UNPOOL_BACKWARD[n](given, laid_out[2], kernel, **form)) == expected
        assert [way & ~_unpool.INTERLEAVED for way in ways] == [_unpool.GATHERED] * 3
        with pytest.raises(IndexError, match=f"window code {taps} at"):
            UNPOOL_BACKWARD[n](given, laid_out[3], kernel, **form)
        assert bits(UNPOOL_BACKWARD[n](given, laid_out[4], kernel, num_threads=threads)) == expected_outside
    named, where = int(indices.flat[at]), np.unravel_index(at, indices.shape)
    for bad, threads in ((-1, 1), (int(np.prod(full[2:])), 3), (named + 2**32, 1), (named - 2**32, 3)):
        laid_out[4][where] = bad
        with pytest.raises(IndexError, match=f"index {bad} at"):
            UNPOOL_BACKWARD[n](given, laid_out[4], kernel, num_threads=threads)


def test_windows_deeper_than_a_large_array(ways):
    """A loop over as many layers as the window has would take years."""
    grad = np.arange(2**23, dtype=np.float32).reshape(1, 2, 2048, 2048)
    indices = np.arange(2**20).reshape(1, 1, 1024, 1024) * 8
    assert np.array_equal(cu.max_unpool3d_backward(grad, indices, (2**40, 2, 2)), indices.astype(np.float32))
    assert ways == [_unpool.GATHERED]


@pytest.mark.mostly_slow
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["u1", "e", "f4", "f8", "D"])
@pytest.mark.parametrize(
    ("full", "order"),
    [
        ((2, 9, 70, 81), COLUMNS),  # lots of some planes, the last one of fewer
        ((25, 7, 30, 31), (3, 2, 1, 0)),  # planes that are neighbours
        ((2, 9, 30, 31), LAST_COLUMNS),
        ((3, 2, 9, 20, 21), (0, 1, 4, 3, 2)),
    ],
    ids=str,
)
def test_planes_in_another_order_are_turned(rng, full, order, dtype, threads):
    """The planes of a batch are at equal distances, or not: every second element of the batch or the channels."""
    n, window = len(full) - 2, {"kernel_size": 3, "stride": 1, "padding": 1, "num_threads": threads}
    _, indices = pooled(rng, full, 3, 1, 1)
    values = random_items(rng, np.dtype(dtype), full)
    unpooled, taken = vectorised.max_unpool(values, indices, n, full[2:]), scattered_back(values, indices)
    sums = dtype in ("f4", "f8")
    grads = rng.integers(-50, 50, full).astype(dtype)
    added = vectorised.max_pool_backward(grads, indices, n, full[2:]).astype(dtype) if sums else None
    codes = cu.convert_indices(indices, "plane", "window", input_size=full[2:], kernel_size=3, stride=1, padding=1)
    bad = indices.copy()
    bad[(-1,) * indices.ndim] = int(np.prod(full[2:]))
    for step in ((1, 1), (2, 1), (1, 2)):

        def laid(array, step=step):
            spread = np.repeat(np.repeat(array, step[0], 0), step[1], 1)
            return spread.transpose(order).copy().transpose(np.argsort(order))[:: step[0], :: step[1]]

        for given, form in ((indices, "plane"), (indices.astype("i4"), "plane"), (codes, "window")):
            ours = {**window, "index_format": form}
            out = laid(np.ones_like(values))
            assert "C order" in planned(UNPOOL[n], laid(values), laid(given), output_size=full[2:], out=out, **ours)
            UNPOOL[n](laid(values), laid(given), output_size=full[2:], out=out, **ours)
            assert bits(out) == bits(unpooled)
            out = laid(np.ones_like(values))
            UNPOOL_BACKWARD[n](laid(values), laid(given), out=out, **ours)
            assert "C order" in planned(UNPOOL_BACKWARD[n], laid(values), laid(given), out=out, **ours)
            assert bits(out) == bits(taken)
            if sums:
                assert np.array_equal(POOL_BACKWARD[n](laid(grads), laid(given), full[2:], **ours), added)
        with pytest.raises(IndexError, match="at"):
            UNPOOL[n](laid(values), laid(bad), output_size=full[2:], **window)
        with pytest.raises(IndexError, match="at"):
            UNPOOL_BACKWARD[n](laid(values), laid(bad), **window)


def scattered_back(values, indices):
    """What is read from planes of `values` at `indices`."""
    flat = values.reshape(*values.shape[:2], -1)
    return np.take_along_axis(flat, indices.reshape(*indices.shape[:2], -1), 2).reshape(indices.shape)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("full", "dtype", "stride", "last"),
    [
        ((1, 1, 2501, 1503), "f4", 2, False),
        ((2, 301, 75, 99), "f4", 2, False),  # planes cleared and filled one after the other
        ((700, 40, 15, 14), "f8", 2, False),  # and some together
        ((1, 3, 1601, 1603), "u1", 1, False),
        ((1, 3, 1601, 1603), "e", 1, False),
        ((2, 40, 199, 401), "f4", 2, True),
        ((2, 40, 199, 401), "e", 2, True),
        ((1, 3, 97, 101, 103), "f8", 2, False),
    ],
)
def test_overlapping_windows_of_large_arrays(rng, full, dtype, stride, last):
    """Windows that overlap are scattered: each value to its place, and an index that is none is found anywhere."""
    n, dtype = len(full) - 2, np.dtype(dtype)
    _, indices = pooled(rng, full, 3, stride, 1, last=last)
    values = random_numbers(rng, dtype, indices.shape)
    laid = channels_last(values) if last else values
    window = {"kernel_size": 3, "stride": stride, "padding": 1}
    expected = vectorised.max_unpool(values, indices, n, full[2:])
    added = vectorised.max_pool_backward(values, indices, n, full[2:]).astype(dtype) if dtype.kind == "f" else None
    for threads in (1, 3):
        window["num_threads"] = threads
        assert bits(UNPOOL[n](laid, indices, output_size=full[2:], **window)) == bits(expected)
        if added is not None:
            assert np.array_equal(POOL_BACKWARD[n](laid, indices, full[2:], **window), added, equal_nan=True)
    for number, at in enumerate((0, 63, 64, indices.size // 2, indices.size - 1)):
        where = np.unravel_index(at, indices.shape)
        window["num_threads"] = (1, 3)[number % 2]
        for bad in (-1, int(np.prod(full[2:]))):
            named, indices[where] = indices[where], bad
            with pytest.raises(IndexError, match=f"index {bad} at"):
                UNPOOL[n](laid, indices, output_size=full[2:], **window)
            indices[where] = named
