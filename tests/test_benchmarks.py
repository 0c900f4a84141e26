from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cunpool

FOLDER = Path(__file__).parent.parent / "benchmarks"
if not FOLDER.exists():
    pytest.skip("the benchmarks are not here", allow_module_level=True)


def imported(name):
    """A module of the benchmarks, which import each other."""
    before = {*sys.modules}
    yield importlib.import_module(name)
    own = {path.stem for path in FOLDER.glob("*.py")}
    for module in own - before:
        sys.modules.pop(module, None)


@pytest.fixture
def report(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    yield from imported("report")


@pytest.fixture
def contestants(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    yield from imported("contestants")


def results(**times: list[float]):
    cell = {"op": "pool", "name": "pool 4x4", "plain": True, "out": False}
    return {
        "rounds": 4,
        "cells": [{**cell, "format": "plane", "times": {f"{name} 1": times[name] for name in times}}],
    }


def test_losses_are_printed(report, capsys):
    given = results(cunpool=[1, 2, 3, 4], torch=[2, 4, 6, 8], numpy=[0.5, 1, 1.5, 2], other=[0.5, 2.2, 2.7, 4])
    report.wins_and_losses(given["cells"], [1])
    printed = capsys.readouterr().out
    assert re.search(r"PyTorch +at 1: +1 +0 +0 of 1\n", printed)
    assert re.search(r"NumPy +at 1: +0 +0 +1 of 1\n", printed)
    assert re.search(r"other build +at 1: +0 +1 +0 of 1\n", printed)
    ahead = printed.partition("somebody is ahead")[2].splitlines()[1:3]
    assert ahead[0].split() == [*["*", "pool", "4x4", "NumPy", "at", "1:", "0.50", "[0.50", "0.50]"]]
    assert ahead[1].startswith("  pool 4x4 ")
    assert "other build at 1: 0.95 [0.80 1.02]" in ahead[1]


def test_aims_are_told_from_a_runs_cells(tmp_path):
    """Of a run with three cells: codes twice as fast as int64, transposed three and a half times as slow."""
    plain = {"op": "unpool", "full": [1, 16, 256, 256], "kernel": 2, "stride": 2, "padding": 0, "index": "int64"}
    plain |= {"layout": "contiguous", "out": False, "format": "plane", "dtype": "uint8", "inside": False}
    plain |= {"group": "transposed beside C order"}
    cells = [
        {**plain, "name": "plain", "times": {"cunpool 1": [2.0, 2.0, 9.0], "numba 1": [1.0, 3.0, 9.0]}},
        {**plain, "format": "window", "name": "codes", "times": {"cunpool 1": [1.0]}},
        {**plain, "layout": "transposed", "name": "turned", "times": {"cunpool 1": [7.0]}},
    ]
    (tmp_path / "run.json").write_text(json.dumps({"cells": cells}))
    command = [sys.executable, FOLDER / "aims.py", tmp_path / "run.json"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert printed[0] == "| | aim | 1 thread: mean, least, below 1 |"
    assert printed[2:] == [
        "| unpooling: numba's loop | 1.8 | 1.00, 1.00, 0 of 1 |",
        "| int64 by window codes | 1.3 | 2.00, 2.00, 0 of 1 |",
        "| C order by transposed | 0.6 | 0.29, 0.29, 1 of 1 |",
    ]


def test_numbers_of_threads_are_those_of_cunpool(report):
    given = results(**{"inside": [2, 4], "torch": [1, 2]})
    given["cells"][0]["times"]["torch 4"] = [1, 2]
    assert report.threads_of(given) == [1]


def test_a_cell_a_line_with_four_digits(report):
    given = results(cunpool=[1.23456e-6, 2])
    text = report.dumped(given)
    assert len(text.splitlines()) == 4
    assert json.loads(text)["cells"][0]["times"] == {"cunpool 1": [1.235e-6, 2]}
    assert {**json.loads(text), "cells": 0} == {**given, "cells": 0}


def test_recorded_results_are_a_cell_a_line(report):
    text = (FOLDER / "results.json").read_text()
    assert text == report.dumped(json.loads(text))


def test_what_the_command_measures_is_measured_here(contestants):
    from cells import cells
    from shared import bench

    names = [cell.name for cell in cells()]
    assert len({*names}) == len(names)
    assert {cell.name for cell in bench.CELLS} <= {*names}


def test_a_group_has_all_its_lanes(contestants):
    from cells import cells

    groups = {cell.name: cell.group for cell in cells()}
    assert groups["pool 1x1x1080x1920 2/2 no indices"] == "images, 2 x 2"
    assert groups["pool 1x16x256x256 2/2 uint8 no indices Fortran"] == "Fortran beside C order"
    assert groups["pool 1x1x128x256x256 2/2"] == ""  # one of the shapes that everything is measured on


OTHERS = ["torch", "onnxruntime", "paddle", "numpy", "scipy", "opencv", "bottleneck", "skimage", "numba", "onednn"]


@pytest.mark.parametrize("name", [*OTHERS, "xnnpack"])
def test_contestants_have_the_same_answer_in_every_lane(contestants, monkeypatch, name):
    from cells import cells, data

    ours, theirs, on_tensors = started(contestants, monkeypatch, "cunpool", name, "inside" if name == "torch" else name)
    compared = 0
    for cell in cells():
        spatial = [min(size, 2 * max(cell.kernel, 6)) for size in cell.full[2:]]
        small = replace(cell, full=(min(cell.full[0], 2), min(cell.full[1], 3), *spatial))
        arrays = data(small)
        if call := theirs(small, arrays):
            expected = contestants.check(small, (on_tensors if cell.inside else ours)(small, arrays)())
            assert contestants.check(small, call()) == expected, cell.name
            compared += 1
    assert compared >= 4


@pytest.mark.filterwarnings("ignore:.*torch.jit", "ignore:.*isinstance.treespec")  # PyTorch's, of itself
def test_what_is_compiled_has_the_same_answer(contestants, monkeypatch):
    from cells import cells, data

    ours, theirs = started(contestants, monkeypatch, "inside", "compiled")
    lanes = {cell.op: cell for cell in cells() if cell.inside and cell.index == "int64"}
    assert len(lanes) == 2
    for cell in lanes.values():
        small = replace(cell, full=(1, 3, 8, 10))
        arrays = data(small)
        expected = contestants.check(small, ours(small, arrays)())
        assert contestants.check(small, theirs(small, arrays)()) == expected, cell.name


def started(contestants, monkeypatch, *names):
    """Contestants in this process, whose threads stay as they are."""
    try:
        if {*names} & {"torch", "inside", "compiled"}:
            monkeypatch.setattr("torch.set_num_threads", lambda threads: None)
        return [contestants.CONTESTANTS[name](1) for name in names]
    except ImportError as error:
        pytest.skip(f"{error.name} is not installed")


def test_a_chart_without_plain_cells_is_left_out(report, tmp_path):
    pytest.importorskip("matplotlib")
    given = results(cunpool=[1, 2], numpy=[2, 4])
    given["machine"] = {"processor": "a processor"}
    given["cells"][0] |= {"plain": False, "index": "none", "group": "a question"}
    report.chart(given, tmp_path / "made")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made-lanes.svg"]
    assert "<!-- a question: NumPy -->" in (tmp_path / "made-lanes.svg").read_text()


SHORT = ["--count", "2", "--rounds", "2", "--block", "0.0001"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(__import__("signal"), "SIGSTOP"), reason="contestants cannot be stopped here")
def test_two_builds_beside_each_other(tmp_path):
    pytest.importorskip("matplotlib")
    python = tmp_path / "python"  # another build: this one, by a Python of another name
    python.write_text(f'#!/bin/sh\nPYTHONPATH={Path(cunpool.__file__).parent.parent} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    command = [sys.executable, FOLDER / "against.py", "--against", python, "--only", "pool 1x1x4x4 2/2", *SHORT]
    run = subprocess.run([*command, "--output", tmp_path / "made"], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    made = json.loads((tmp_path / "made.json").read_text())
    assert all({name: len(runs) for name, runs in c["ratios"].items()} == {"other": 2, "again": 2}
               for c in made["calls"].values())  # fmt: skip
    assert re.search(r"this build beside itself +\d+ ", run.stdout)
    assert (tmp_path / "made.svg").exists()


@pytest.fixture
def calls(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    yield from imported("calls")


def test_random_calls_of_a_seed(calls):
    draws = calls.c_order, calls.channels_last
    chosen = calls.some(5, 200, draws)
    assert chosen[:50] == calls.some(5, 50, draws)
    assert chosen != calls.some(6, 200, draws)
    assert {cell.n for cell in chosen} == {1, 2, 3}
    assert {cell.kernel for cell in chosen} == {2, 3, 5}
    assert {cell.dtype for cell in chosen} == {"float32", "uint8", "float16"}
    assert {calls.op_of(cell) for cell in chosen} == {"pool, indices", "pool, values", "unpool"}
    assert {cell.layout for cell in chosen} == {"contiguous", "channels last"}
    assert all(10_000 <= np.prod(cell.full) <= 3_000_000 for cell in chosen)
    assert all(1 <= cell.stride <= cell.kernel and 0 <= cell.padding <= cell.kernel // 2 for cell in chosen)


def test_ahead_takes_two_runs(calls):
    assert calls.is_ahead([[0.5, 0.6, 0.94], [0.7, 0.8, 0.9]])
    assert not calls.is_ahead([[0.5, 0.6, 0.96], [0.7, 0.8, 0.9]])
    assert not calls.is_ahead([[0.5, 0.6, 0.7]])
    assert calls.quartiles([1, 2, 3, 4, 5], [2, 2, 2, 2, 2]) == [1, 1.5, 2]
    assert calls.middle([[0, 2, 9], [0, 8, 9]]) == pytest.approx(4)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(__import__("signal"), "SIGSTOP"), reason="contestants cannot be stopped here")
@pytest.mark.parametrize("kind", [[], ["--cliffs"]], ids=["peers", "cliffs"])
def test_random_calls_are_measured(tmp_path, kind):
    pytest.importorskip("matplotlib")
    command = [sys.executable, FOLDER / "random_calls.py", "--seed", "5", *SHORT, *kind]
    run = subprocess.run([*command, "--output", tmp_path / "made"], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert ("2 calls, " if kind else "all of 20 us and more") in run.stdout
    made = json.loads((tmp_path / "made.json").read_text())
    assert made["seed"] == 5
    assert len(made["calls"]) == 2
    assert all(call["us"] for call in made["calls"].values())
    assert (tmp_path / "made.svg").exists()
