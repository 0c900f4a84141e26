"""What `explain` and its command say of a call, and that they run nothing."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from cases import LOW, channels_last, planned

import cunpool as cu
from cunpool import __main__ as command
from cunpool import _simd, _threads
from cunpool._kernels import runtime as _runtime

KERNELS = Path(cu.__file__).parent / "_kernels"


def explained(capsys, *words: str) -> str:
    assert command.main(["explain", *words]) == 0
    return capsys.readouterr().out


def test_nothing_is_read_or_written():
    x = np.ones((1, 2, 8, 8), np.float32)
    out = np.full((1, 2, 4, 4), 7, np.float32)
    stray = np.full((1, 2, 4, 4), 1 << 40)
    for plan in (
        cu.explain(cu.max_pool2d, x, 2, out=out),
        cu.explain(cu.max_unpool2d, out, stray, 2),
        cu.explain(cu.max_unpool2d_backward, x, stray, 2, out=out),
        cu.explain(cu.max_pool2d_backward, out, stray, x.shape, 2),
        cu.explain(cu.take_at2d, x, stray),
        cu.explain(cu.MaxPool2d(2), x),
        cu.explain(cu.adaptive_max_pool2d, x, (3, 4), out=out[:, :, :3]),
        cu.explain(cu.adaptive_max_pool2d, x, (5, 4)),
    ):
        assert plan.method
        assert plan.tasks > 0
        assert plan.threads == 1
        assert plan.threads_cause == "less than 256 KiB of work"
        assert plan.instruction_set == _simd.IN_USE
    assert (out == 7).all()
    assert np.array_equal(cu.max_pool2d(x, 2, out=out), np.ones((1, 2, 4, 4)))  # and the next call runs again


def test_errors_are_those_of_the_call():
    x = np.ones((1, 2, 8, 8), np.float32)
    with pytest.raises(ValueError, match="kernel_size must be at least 1"):
        cu.explain(cu.max_pool2d, x, 0)
    with pytest.raises(TypeError, match="unexpected keyword"):
        cu.explain(cu.max_pool2d, x, 2, kernel=2)
    with pytest.raises(TypeError, match="explain needs a function whose work is done by a kernel of cunpool, got sum"):
        cu.explain(np.sum, x)
    assert cu.max_pool2d(x, 2).shape == (1, 2, 4, 4)


def test_results_without_elements_have_no_method():
    for plan in (
        cu.explain(cu.max_pool2d, np.ones((0, 2, 8, 8)), 2),
        cu.explain(cu.max_unpool2d, np.ones((0, 2, 4, 4)), np.zeros((0, 2, 4, 4), int), 2),
        cu.explain(cu.max_unpool2d_backward, np.ones((0, 2, 8, 8)), np.zeros((0, 2, 4, 4), int), 2),
        cu.explain(cu.max_pool2d, np.ones((0, 2, 8, 8)), 2, return_indices=True),
    ):
        assert plan.method is None
        assert "no kernel runs" in str(plan)


def test_the_cause_of_the_number_of_threads(monkeypatch):
    monkeypatch.setattr("cunpool._threads._available", lambda: 4)
    monkeypatch.setattr("cunpool._threads.openmp_enabled", lambda: True)
    monkeypatch.setattr("cunpool._threads._alone_until", 0.0)
    around = [0, 0, 1e9, 0.0, 0.0]
    monkeypatch.setattr(_runtime, "surroundings", lambda *limits: tuple(around))
    large = np.broadcast_to(np.float32(1), (8, 16, 512, 512))

    def cause(x=large, **options):
        plan = cu.explain(cu.max_pool2d, x, 2, **options)
        return plan.threads, plan.threads_cause

    assert cause() == (4, "OpenMP, affinity and container")
    around[0] = 1
    assert cause() == (2, "OpenMP, affinity and container, shared with 1 other calls")
    around[0] = 0
    assert cause(large[:1, :4, :128]) == (1, _threads.BYTES_ASLEEP)
    around[2] = 0.0
    assert cause(large[:1, :1, :128]) == (4, "OpenMP, affinity and container")
    assert cause(large[:1, :1, :64]) == (2, _threads.BYTES_AWAKE)
    assert cause(num_threads=3) == (3, "num_threads")
    assert cause(num_threads=1) == (1, "num_threads")
    assert cause(large[:1, :1, :4], num_threads=2) == (2, "num_threads")
    assert cause(large[:1, :1, :2, :2], num_threads=2) == (1, "one for each task")
    cu.set_num_threads(3)
    assert cause() == (3, "set_num_threads")
    cu.set_num_threads(1)
    assert cause() == (1, "set_num_threads")
    cu.set_num_threads(None)
    monkeypatch.setattr("cunpool._threads._alone_until", 1.0)
    assert cause()[1].startswith("processors were taken")
    monkeypatch.setattr(_runtime, "forked", lambda: True)
    assert cause()[1].startswith("the process was forked")
    monkeypatch.setattr("cunpool._threads.openmp_enabled", lambda: False)
    assert cause() == (1, "this build of cunpool has no OpenMP")


@pytest.mark.parametrize(
    ("words", "method", "symbol"),
    [
        ("max_pool2d --shape 1,3,224,224 --dtype uint8 --layout interleaved --kernel 3 --stride 2 --indices plane",
         "rolling, cunpool/_kernels/pooling/rolling_stripes.h", "cunpool_roll"),
        ("max_pool2d --shape 3,32,32 --dtype int64 --kernel 3,2 --indices window",
         "separable, cunpool/_kernels/pooling/separable_block.pxd", "separate"),
        ("max_pool3d --shape 1,3,16,16,16 --dtype float16 --layout F --kernel 2",
         "filter, cunpool/_kernels/pooling/filter.pxd", "filter_block"),
        ("min_pool2d --shape 1,3,64,64 --dtype uint16 --kernel 2 --indices plane",
         "window2, cunpool/_kernels/pooling/window2.pxd", "pool_window2_rows"),
        ("max_unpool2d --shape 1,64,50,50 --layout last --kernel 5 --indices window",
         "fill, cunpool/_kernels/unpooling/fill.pxd", "fill_blocks"),
        ("max_unpool2d --shape 1,8,50,50 --layout last --kernel 5 --indices window",
         "fill, cunpool/_kernels/unpooling/fill.pxd", "fill_blocks"),
        ("max_unpool2d --shape 1,3,50,50 --dtype uint8 --layout last --kernel 2 --indices window",
         "fill, cunpool/_kernels/unpooling/fill.pxd", "fill_blocks"),
        ("max_unpool2d --shape 1,2,50,50 --kernel 2 --output-size 101,100 --index-dtype int32",
         "fill, cunpool/_kernels/unpooling/fill.pxd", "fill_blocks"),
        ("max_pool2d_backward --shape 1,64,56,56 --layout last --kernel 3 --stride 2",
         "scatter, cunpool/_kernels/unpooling/scatter.pxd", "scatter_planes"),
        ("max_pool2d_backward --shape 1,64,56,56 --kernel 3 --stride 2 --indices window --output-size 113,113",
         "scatter, cunpool/_kernels/unpooling/scatter.pxd", "scatter_planes"),
        ("max_unpool2d_backward --shape 1,64,56,56 --layout last --kernel 3 --stride 2 --indices window --threads 2",
         "gather, cunpool/_kernels/unpooling/scatter.pxd", "gather_task"),
        ("max_unpool2d_backward --shape 1,64,56,56 --kernel 3 --stride 2 --indices window",
         "gather, cunpool/_kernels/unpooling/scatter.pxd", "gather_task"),
        ("max_unpool2d_backward --shape 1,64,56,56 --kernel 3 --stride 2",
         "gather, cunpool/_kernels/unpooling/scatter.pxd", "gather_task"),
    ],
)  # fmt: skip
def test_the_command_names_the_loop(capsys, words, method, symbol):
    printed = explained(capsys, *words.split())
    assert printed.splitlines()[1] == f"  method   {method}: {symbol}"
    label, loop = printed.splitlines()[2].split(maxsplit=1)
    loops = re.findall(r"([a-z0-9_/]+[.](?:pyx|pxd|h)): (\w+)", loop)
    assert label == "loop"
    assert loops
    if (KERNELS / "pool.pyx").exists():  # an installed package has no sources
        for file, name in [(method.partition("_kernels/")[2], symbol), *loops]:
            assert re.search(rf"\b{name}\)?\(", (KERNELS / file).read_text())


def test_the_command_prints_what_explain_prints(capsys):
    x = channels_last(np.zeros((2, 15, 40, 40), np.float32))
    words = "max_pool2d --shape 2,15,40,40 --layout last --kernel 3 --stride 2 --padding 1 --ceil-mode --threads 1"
    plan = cu.explain(cu.max_pool2d, x, 3, 2, 1, ceil_mode=True, num_threads=1)
    assert explained(capsys, *words.split()) == f"{plan}\n"
    assert [*dict(plan.rejected)][:2] == ["copying planes to C order first", "rolling"]


def zeros(*shape, dtype="f4"):
    return np.zeros(shape, dtype)


def spread_out(*shape, dtype="f4"):
    """Elements that all have gaps between them."""
    return zeros(*(2 * size for size in shape), dtype=dtype)[(slice(None, None, 2),) * len(shape)]


@pytest.mark.parametrize(
    ("name", "arguments", "options", "method", "reason"),
    [
        ("max_pool2d", (zeros(1, 1, 9, 129), 2), {"ceil_mode": True}, "window2", "a window reaches over the edge"),
        ("max_pool2d", (zeros(1, 1, 600, 600)[..., ::-1], 2), {}, "copying planes to C order first", "1 MiB"),
        ("max_pool2d", (np.broadcast_to(np.int32(1), (1, 8, 3, 1 << 21)), 3, 2), {"return_indices": True},
         "interleaved", "more than 1 MiB"),
        ("max_pool2d", (zeros(1, 1, 1100, 1100), 1099), {"return_indices": True}, "separable", "more than 4 MiB"),
        ("max_pool2d", (zeros(1, 1, 300, 300, dtype="u1"), 257, 1), {"return_indices": True}, "separable", "65,536"),
        ("max_unpool2d", (zeros(2, 5, 65), zeros(2, 5, 65, dtype=int), 2), {"output_size": (9, 129)}, "fill",
         "the last ones reach over the edge"),
        ("max_unpool2d", (zeros(2, 9, 50), zeros(2, 9, 50, dtype=int), 2), {"out": spread_out(2, 18, 100)}, "fill",
         "the output is contiguous along no axis"),
        ("max_unpool2d", (zeros(1, 9, 50), zeros(1, 9, 50, dtype="u1"), (1, 9)), {"index_format": "window"}, "fill",
         "more than 4 single elements"),
        ("max_unpool2d", (zeros(1, 16, 16), zeros(1, 16, 16, dtype="u1"), 16), {"index_format": "window"}, "fill",
         "more than 255 elements"),
    ],
)  # fmt: skip
def test_why_a_method_does_not_serve(name, arguments, options, method, reason):
    plan = cu.explain(getattr(cu, name), *arguments, **options)
    assert reason in dict(plan.rejected)[method]


def test_planes_of_more_elements_than_31_bits_count():
    values, indices = (np.broadcast_to(np.zeros(1, dtype), (1, 1 << 30)) for dtype in ("u1", "i8"))
    try:
        plan = cu.explain(cu.max_unpool1d, values, indices, 2)
    except MemoryError:
        pytest.skip("the system has no 2 GiB of addresses to give")
    assert "2**31" in dict(plan.rejected)["fill"]


def test_arrays_larger_than_the_caches_are_streamed():
    indices = zeros(2, 64, 512, 512, dtype=int)  # memory that is never touched
    assert "streamed" in planned(cu.max_unpool2d, zeros(2, 64, 512, 512), indices, 2)


def test_what_a_report_has():
    report = str(cu.explain(cu.max_pool2d, np.zeros((40, 3, 8, 8), np.float32)[..., ::-1], 3, 2, 1, num_threads=2))
    for label in ("method", "plan", "block", "tasks", "scratch", "SIMD", "threads", "data"):
        assert f"\n  {label} " in report, report
    plan = cu.explain(cu.max_pool2d, np.zeros((20, 3, 8, 20), np.int32)[..., ::-1], 3, 2, 1)
    assert plan.fallback is None
    assert plan.blocks["planes of a copy"] == 60
    assert plan.scratch_bytes > 60 * 8 * 20 * 4


@pytest.mark.parametrize(
    ("full", "arguments", "threads", "blocks"),
    [
        ((1, 33, 300, 40), (5, 3, 2), 1, (17, 1, 13)),
        ((1, 33, 300, 40), (5, 3, 2), 2, (17, 1, 13)),
        ((1, 33, 30, 40), (5, 3, 2), 1, (17, 1, 10)),
        ((1, 33, 30, 40), (5, 3, 2), 2, (17, 1, 3)),
        ((2, 20, 90, 10, 30), ((3, 2, 2), 2, 1), 1, (20, 2, 6)),
        ((3, 70, 40, 12), (2, 1), 1, (30, 1, 39)),
    ],
)
def test_planes_are_interleaved_in_parts(full, arguments, threads, blocks):
    pool = cu.max_pool3d if len(full) == 5 else cu.max_pool2d
    plan = cu.explain(pool, zeros(*full), *arguments, return_indices=True, num_threads=threads)
    assert plan.method == "interleaved"
    assert [*plan.blocks] == ["planes side by side", "layers of windows", "rows of windows"]
    assert tuple(plan.blocks.values()) == blocks


@pytest.mark.parametrize(("rows", "threads", "columns"), [(128, 2, 256), (127, 2, 64), (127, 1, 256)])
def test_threads_share_whole_rows_if_there_are_enough(rows, threads, columns):
    plan = cu.explain(cu.max_pool2d, zeros(1, rows, 256), 31, 1, 15, num_threads=threads)
    assert plan.method == "filter"
    assert plan.blocks["columns of windows"] == columns


@pytest.mark.skipif(LOW, reason="bands may have a single row")
@pytest.mark.parametrize(("rows", "stride", "tasks"), [(11, 2, 2), (12, 2, 2), (23, 2, 3), (24, 2, 4), (24, 3, 8)])
def test_bands_of_windows_that_overlap_have_six_rows(rows, stride, tasks):
    values, indices = (channels_last(zeros(1, 16, rows, 40, dtype=dtype)) for dtype in ("f4", int))
    plan = cu.explain(cu.max_unpool2d, values, indices, 3, stride, 1, num_threads=2)
    assert plan.method == "scatter"
    assert plan.tasks == tasks


def test_a_fallback_is_named_where_a_call_may_take_it():
    split = cu.explain(cu.max_unpool2d, zeros(1, 1, 300, 300), zeros(1, 1, 300, 300, dtype=int), 3, 1, 1, num_threads=2)
    assert "where a plane is split" in split.fallback
    values, indices, out = (zeros(2, 9, 81, 70, dtype=dtype).swapaxes(2, 3) for dtype in ("f4", int, "f4"))
    turned = cu.explain(cu.max_unpool2d, values, indices, 3, 1, 1, out=out)
    assert any("C order" in detail for detail in turned.details)
    assert turned.fallback is None


def test_planes_of_few_elements_for_each_window_are_turned():
    for side, turned in ((17, True), (18, False)):  # 11.6 and 13.0 elements
        values, codes = (np.asfortranarray(zeros(2, 9, 5, 5, dtype=dtype)) for dtype in ("f4", "u1"))
        for form, given in (("window", codes), ("plane", codes.astype(int))):
            plan = cu.explain(cu.max_unpool2d, values, given, 5, 3, output_size=(side, side), index_format=form)
            assert any("C order" in detail for detail in plan.details) == turned


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("max_pool2d --shape 8,8 --kernel 2", "--shape needs 3 or 4 sizes for max_pool2d, got 2"),
        ("max_pool2d --shape 1,8,8 --kernel 9", "kernel_size"),
        ("max_pool2d --shape 1,8,8 --kernel 2 --dtype float17", "float17"),
        ("max_unpool2d --shape 1,8,8 --kernel 2 --indices none", "has indices: --indices is plane or window"),
    ],
)  # fmt: skip
def test_the_command_refuses(capsys, words, message):
    assert command.main(["explain", *words.split()]) == 2
    error = capsys.readouterr().err
    assert error.startswith("cunpool: ")
    assert message in error
    with pytest.raises(SystemExit):
        command.main(["explain", "max_pool9d", "--shape", "1", "--kernel", "x"])
