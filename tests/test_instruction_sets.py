"""The instruction sets: how one is chosen, and that all of them give the same results."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import instruction_sets
import numpy as np
import pytest
import vectorised
from cases import at_the_end_of_memory
from test_pooling_values import bits, channels_last

import cunpool as cu
from cunpool import _simd
from cunpool._kernels import runtime

# Cells that have loops of their own, four and nine, and others, an odd and an even number of them, up to the most.
WINDOWS = [((2, 2),), ((3, 3), 2, 1), ((3, 3), 1, 1), ((1, 2),), ((1, 3), 1, (0, 1)), ((2, 3), (1, 2)), ((5, 5), 2, 2),
           ((4, 8), 1), ((1, 1),), ((2, 2), 2, 0, 2)]  # fmt: skip
POOL_OR_MIN = cu.max_pool3d, cu.min_pool3d
FORMATS = [{}, {"index_dtype": np.int32}, {"index_format": "window"}]


@pytest.fixture(params=[np.float32, np.float64])
def dtype(request):
    """Doubles are compared so in windows of 2 alone, but are asked the same."""
    return request.param


@pytest.fixture(params=_simd.SETS)
def simd(request, monkeypatch):
    instruction_sets.use(request.param, monkeypatch)


def in_new_process(code: str, wish: str | None) -> subprocess.CompletedProcess:
    """What a process prints for which CUNPOOL_SIMD is `wish`."""
    environment = {name: value for name, value in os.environ.items() if name != "CUNPOOL_SIMD"}
    if wish is not None:
        environment["CUNPOOL_SIMD"] = wish
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=Path(cu.__file__).parent.parent, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("wish", [None, "", *instruction_sets.USABLE, " Portable "])
def test_the_environment_chooses(wish):
    name = (wish or "").strip().lower() or instruction_sets.USABLE[0]
    if name not in instruction_sets.USABLE:
        pytest.skip(f"this processor, or this build, has no {name}")
    code = """
import sys
from pathlib import Path
from cunpool import __main__, _simd
from cunpool._kernels import pool, unpool
__main__.info()
folders = [str(Path(module.__file__).parent) for module in (pool, unpool)]
assert folders == [_simd.folder_of(_simd.IN_USE)] * 2, folders
"""
    run = in_new_process(code, wish)
    assert run.stderr == ""
    assert f"SIMD      {name} (built for {', '.join(_simd.BUILT)})" in run.stdout


def test_an_unknown_word_is_refused_at_the_import():
    run = in_new_process("import cunpool", "avx3")
    assert run.returncode == 1
    usable = instruction_sets.USABLE
    assert run.stderr.splitlines()[-1].startswith(
        "ImportError: CUNPOOL_SIMD must be avx512, avx2 or portable, got 'avx3': set it to "
    )
    assert run.stderr.endswith(f", or leave it unset for {usable[0]}\n")


@pytest.mark.parametrize(
    ("wish", "built", "processor", "said"),
    [
        ("", ["avx512", "avx2", "portable"], ["avx2", "portable"], "avx2"),
        ("portable", ["avx512", "avx2", "portable"], ["avx2", "portable"], "portable"),
        ("", ["avx2"], ["avx512", "avx2", "portable"], "avx2"),
        (
            "avx512",
            ["avx512", "avx2", "portable"],
            ["avx2", "portable"],
            "CUNPOOL_SIMD must be avx2 or portable on this processor, got 'avx512': set it to avx2 or portable, or "
            "leave it unset for avx2",
        ),
        (
            "portable",
            ["avx2"],
            ["avx2", "portable"],
            "CUNPOOL_SIMD must be avx2 in this build of cunpool, got 'portable': set it to avx2, or leave it unset for "
            "avx2",
        ),
        (
            "",
            ["avx512"],
            ["avx2", "portable"],
            "cunpool's kernels must be built for avx2 or portable, which this processor has, got a build for avx512: "
            "build it on this machine, with 'pip install .' in the checkout",
        ),
        (
            "avx2",
            [],
            ["portable"],
            "cunpool's kernels must be built for portable, which this processor has, got a build for nothing: build it "
            "on this machine, with 'pip install .' in the checkout",
        ),
    ],
)
def test_what_the_build_or_the_processor_lacks_is_refused(wish, built, processor, said):
    if said in _simd.SETS:
        assert _simd._chosen(wish, built, processor) == said
    else:
        with pytest.raises(ImportError) as error:
            _simd._chosen(wish, built, processor)
        assert str(error.value) == said


def test_the_processors_sets_are_in_order():
    names = runtime.INSTRUCTION_SETS
    assert names == [name for name in _simd.SETS if name in names]
    assert names[-1] == "portable"


def layouts(x):
    """The same elements in C order, with the channels last, in Fortran order, and with gaps between the rows."""
    with_gaps = np.zeros((*x.shape[:-1], x.shape[-1] + 3), x.dtype)[..., :-3]
    with_gaps[...] = x
    return x, channels_last(x), np.asfortranarray(x), with_gaps


def all_results(x, window):
    """Bits of what each function returns, for windows, gradients and indices of `x`."""
    sizes = dict(zip(("kernel_size", "stride", "padding", "dilation"), window, strict=False))
    undone = {name: size for name, size in sizes.items() if name != "dilation"}
    results = [cu.max_pool2d(x, **sizes)]
    for arguments in FORMATS:
        of_indices = {name: value for name, value in arguments.items() if name == "index_format"}
        values, indices = cu.max_pool2d(x, **sizes, return_indices=True, **arguments)
        results += [values, indices]
        results += [cu.max_unpool2d(values, indices, **undone, output_size=x.shape, **of_indices)]
        results += [cu.max_unpool2d_backward(x, indices, **undone, **of_indices)]
        if x.dtype.kind == "f":
            results += [cu.max_pool2d_backward(values, indices, x.shape, **sizes, **of_indices)]
    return [bits(array) for array in results]


@pytest.mark.skipif(len(instruction_sets.USABLE) < 2, reason="this build, or this processor, has one instruction set")
@pytest.mark.parametrize("window", [((2, 2),), ((3, 3), 2, 1), ((3, 3), 1, 1), ((5, 5), 1, 2), ((7, 2), 3)], ids=str)
@pytest.mark.parametrize("element", ["u1", "i2", "i4", "u8", "f2", "f4", "f8"])
def test_all_sets_give_the_same_bits(rng, monkeypatch, element, window):
    """Zeros of both signs, infinities, and NaN of both signs and several payloads among them."""
    for shape in ((2, 3, 13, 70), (1, 40, 9, 12)):
        x = rng.integers(0, 5, shape).astype(element)
        if x.dtype.kind == "f":
            x[rng.random(shape) < 0.3] *= -1
            x[rng.random(shape) < 0.1] = np.inf
            nan = rng.random(shape) < 0.02
            x[nan] = np.nan
            whole = f"u{x.itemsize}"
            x.view(whole)[nan] += rng.integers(0, 7, shape).astype(whole)[nan]
            x[rng.random(shape) < 0.5] *= -1
        for array in layouts(x):
            found = {}
            for name in instruction_sets.USABLE:
                with monkeypatch.context() as patched:
                    instruction_sets.use(name, patched)
                    found[name] = all_results(array, window)
            first, *others = found
            for name in others:
                assert found[name] == found[first], (name, first, shape, array.strides)


def everything(x, window):
    """Bits of the values, alone and with their indices, and of these in all formats."""
    pooled = [cu.max_pool2d(x, *window)]
    for arguments in FORMATS:
        pooled += cu.max_pool2d(x, *window, return_indices=True, **arguments)
    return [bits(array) for array in pooled]


def expected(x, window):
    """The same of another implementation; the codes follow from the places."""
    values, indices = vectorised.max_pool(x, 2, *window)
    sizes = dict(zip(("kernel_size", "stride", "padding", "dilation"), window, strict=False))
    codes = cu.convert_indices(indices, "plane", "window", input_size=x.shape[2:], **sizes)
    return [bits(a) for a in (values, values, indices, values, indices.astype(np.int32), values, codes)]


@pytest.mark.slow
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("channels", [1, 3, 16, 17, 31, 32, 48, 64, 100, 300, 513])
def test_any_window_and_number_of_channels(rng, simd, dtype, channels, window):
    limits = np.finfo(dtype)
    for width in (8, 12, 37):
        x = rng.integers(-2, 3, (1, channels, 9, width)).astype(dtype)
        x[rng.random(x.shape) < 0.1] = -0.0
        special = rng.random(x.shape) < 0.05
        few = np.array([np.inf, limits.smallest_subnormal, limits.max], dtype)
        x[special] = rng.choice([*few, *-few], np.count_nonzero(special))
        for given in (x, channels_last(x)):
            assert everything(given, window) == expected(x, window), width


@pytest.mark.slow
@pytest.mark.parametrize("window", [((2, 2),), ((3, 3), 2, 1), ((2, 3), (1, 2))], ids=str)
@pytest.mark.parametrize("shape", [(1, 2, 6, 40), (1, 40, 6, 7), (1, 96, 4, 5)], ids=str)
def test_a_nan_anywhere_is_seen(simd, rng, dtype, shape, window):
    x = rng.standard_normal(shape).astype(dtype)
    for cell in range(0, x.size, 7):
        with_nan = x.copy()
        with_nan.flat[cell] = (-np.nan, np.nan)[cell % 2]
        for given in (with_nan, channels_last(with_nan)):
            assert everything(given, window) == expected(with_nan, window), cell


ELEMENTS = ["f4", "f8", "f2", "u1", "i1", "i2", "u4", "i8"]


def small_numbers(rng, element, shape):
    """Few different numbers, some at the limits of the type, and zeros of both signs."""
    dtype = np.dtype(element)
    if dtype.kind == "f":
        x = rng.integers(-2, 3, shape).astype(dtype)
        x[rng.random(shape) < 0.1] = -0.0
        return x
    limits = np.iinfo(dtype)
    return rng.choice(np.array([limits.min, limits.min + 1, 0, 1, limits.max - 1, limits.max], dtype), shape)


@pytest.mark.slow
@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("kernel", [(1, 1, 2), (1, 2, 2), (2, 2, 2), (2, 1, 2)], ids=str)
def test_windows_of_two_in_up_to_four_rows(simd, rng, element, kernel):
    """Rows of fewer windows than a vector, of one, of some and a part, and of more than a block's."""
    for width in (4, 6, 14, 15, 16, 17, 30, 32, 33, 46, 64, 66, 130, 1100):
        x = small_numbers(rng, element, (2, 3, 2 * kernel[0], 3 * kernel[1] + 1, width))
        for cell in (None, 0, x.size - 1, x.size // 2, x.size // 2 + 1) if x.dtype.kind == "f" else (None,):
            if cell is not None:
                x.flat[cell] = np.nan
            at_the_end = at_the_end_of_memory(x)
            for given in (x, at_the_end, at_the_end[..., ::-1, :], x[:, 1:]):
                minimum, omit = rng.random(2) < 0.3
                pool = POOL_OR_MIN[int(minimum)]
                nan = {"nan_policy": "omit"} if omit else {}
                values, places = vectorised.max_pool(given, 3, kernel, minimum=minimum, omit=omit)
                assert bits(pool(given, kernel, **nan)) == bits(values), (width, cell)
                for arguments in FORMATS:
                    pooled = pool(given, kernel, return_indices=True, **arguments, **nan)
                    assert bits(pooled.values) == bits(values), (width, cell)
                    found = pooled.indices
                    if "index_format" in arguments:
                        found = cu.convert_indices(found, "window", "plane", kernel_size=kernel, input_size=x.shape[2:])
                    assert np.array_equal(found, places), (width, cell)


@pytest.mark.slow
@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("window", [((2, 2),), ((3, 3), 2, 1), ((5, 5), 1, 2), ((8, 16), (4, 8), (4, 8)),
                                    ((2, 2), 2, 1, (3, 1))], ids=str)  # fmt: skip
def test_any_type_across_channels(simd, rng, element, window):
    """Channels that fill no vector, one, and some and a part; and windows of up to 128 elements."""
    for channels in (16, 17, 31, 64, 100, 130, 520):
        x = small_numbers(rng, element, (2, channels, 9, 12))
        for cell in (None, 0, x.size - 1, x.size // 2) if x.dtype.kind == "f" else (None,):
            if cell is not None:
                x.flat[cell] = np.nan
            for given in (
                channels_last(x),
                at_the_end_of_memory(channels_last(x).transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
            ):
                assert everything(given, window) == expected(x, window), (channels, cell)
                assert bits(cu.min_pool2d(given, *window)) == bits(vectorised.max_pool(x, 2, *window, minimum=True)[0])


@pytest.mark.slow
@pytest.mark.parametrize("size", [(3000, 2, 14), (40, 112, 112), (1, 1, 9_000_000)], ids=str)
def test_windows_of_two_beyond_the_caches(simd, rng, dtype, size):
    x = rng.standard_normal((1, *size)).astype(dtype)
    x[0, -1, -1, -2] = np.nan
    kernel = (min(size[1], 2), 2)
    values, places = vectorised.max_pool(x, 2, kernel)
    pooled = cu.max_pool2d(x, kernel, return_indices=True)
    assert bits(pooled.values) == bits(values)
    assert np.array_equal(pooled.indices, places)


def test_infinities_of_both_signs_are_no_nan(simd, dtype):
    """Their sum is one."""
    x = np.zeros((1, 32, 4, 4), dtype)
    x[:, ::2, 0], x[:, ::2, 1], x[:, 1::2, :, 0], x[:, 1::2, :, 1] = np.inf, -np.inf, -np.inf, np.inf
    for given in (x, channels_last(x)):
        for window in (((2, 2),), ((3, 3), 1, 1)):
            assert everything(given, window) == expected(x, window)


def test_places_of_windows_that_are_compared_at_once(simd, rng, dtype):
    x = rng.standard_normal((1, 16, 4, 30)).astype(dtype)
    for given in (x, channels_last(x)):
        for window in (((2, 2),), ((3, 3), 2), ((2, 2), (1, 3))):
            assert everything(given, window) == expected(x, window)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "feenableexcept"), reason="no such function here")
def test_sums_that_overflow_trap_nowhere():
    """All numbers are added up, which is nobody's business: also where the process asked for a signal."""
    code = """
import ctypes
import numpy as np, cunpool as cu
large = np.full((1, 4, 8, 64), 3e38, np.float32), np.full((1, 4, 8, 64), 1e308)
both = np.where(np.arange(64) % 2, np.inf, -np.inf) * np.ones((1, 4, 8, 1))
libm = ctypes.CDLL(None)
libm.feenableexcept(1 | 4 | 8)  # on x86-64: invalid, division by zero, overflow
for window in ((2,), (3, 2, 1)):
    for x in (*large, both, both.astype(np.float32)):
        cu.max_pool2d(x, *window, return_indices=True)
libm.fedisableexcept(1 | 4 | 8)
"""
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(cu.__file__).parent.parent).returncode == 0
