from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"
if not FOLDER.exists():
    pytest.skip("the benchmarks are not here", allow_module_level=True)


def imported(name):
    """A module of the benchmarks, which import each other."""
    before = {*sys.modules}
    yield importlib.import_module(name)
    own = {"cells", "cliffs", "contestants", "inside", "onednn", "report", "shared", "shares", "xnnpack"}
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
    cell = {"op": "pool", "name": "pool 4x4", "plain": True, "full_bytes": 64, "must_move": 64, "out": False}
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
    plain |= {"group": "transposed beside C order", "full_bytes": 1 << 20}
    cells = [
        {**plain, "name": "plain", "times": {"cunpool 1": [2.0, 2.0, 9.0], "numba 1": [1.0, 3.0, 9.0]}},
        {**plain, "format": "window", "name": "codes", "times": {"cunpool 1": [1.0]}},
        {**plain, "layout": "transposed", "name": "turned", "times": {"cunpool 1": [7.0]}},
    ]
    (tmp_path / "run.json").write_text(json.dumps({"cells": cells}))
    command = [sys.executable, FOLDER / "aims.py", tmp_path / "run.json"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    printed = [" ".join(line.split()) for line in run.stdout.splitlines()]
    assert "unpooling: numba's loop 1 1.00 1.00 plain 1.00 plain below 1.0: 0" in printed
    assert "int64 by codes 1 2.00 2.00 codes 2.00 codes below 1.0: 0" in printed
    assert "transposed 1x16x256x256, unpool 1 3.50 3.50 turned 3.50 turned" in printed
    assert "more than 3 times: 3.50 turned" in printed


def test_groups_say_what_was_lost(report, capsys):
    (won,) = results(cunpool=[1, 2, 3], torch=[2, 4, 6], numpy=[4, 8, 12])["cells"]
    lost = {**won, "name": "pool 8x8", "inside": True, "times": {"inside 1": [2, 4, 6], "torch 1": [1, 2, 3]}}
    report.groups([{**cell, "group": "a question"} for cell in (won, lost)], [1])
    printed = capsys.readouterr().out
    assert re.search(r"\n  a question\n    PyTorch +at 1: +1.00  behind in 1 of 2 +0.50 pool 8x8\n", printed)
    assert re.search(r"NumPy +at 1: +4.00  behind in 0 of 1 +4.00 pool 4x4\n", printed)
    assert report.threads_of({"cells": [lost]}) == [1]


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


@pytest.mark.parametrize("name", [*OTHERS, "xnnpack", "tensorflow"])
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
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made-lanes-dark.svg", "made-lanes-light.svg"]
    assert "<!-- a question: NumPy -->" in (tmp_path / "made-lanes-light.svg").read_text()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(__import__("signal"), "SIGSTOP"), reason="contestants cannot be stopped here")
def test_two_builds_beside_each_other(contestants, tmp_path):
    command = [sys.executable, FOLDER / "compare.py", "--against", sys.executable, "--only", "pool 1x1x4x4 2/2"]
    command += ["--threads", "1", "--rounds", "3", "--block", "0.0001"]
    command += ["--without", *{*contestants.CONTESTANTS} - {"cunpool", "copy"}]
    run = subprocess.run([*command, "--output", tmp_path / "made"], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    times = json.loads((tmp_path / "made.json").read_text())["cells"][0]["times"]
    assert {name: len(rounds) for name, rounds in times.items()} == {"cunpool 1": 3, "other 1": 3, "copy 1": 3}
    assert re.search(r"other build +at 1: ", run.stdout)


@pytest.fixture
def cliffs(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    yield from imported("cliffs")


def test_cliffs_are_written_down(cliffs, monkeypatch):
    """Each call once, the worst first, with all its cliffs; and what is timed beside it is the call itself."""
    timed = []
    monkeypatch.setattr(cliffs.shares, "told", lambda *command: timed.append(command) or "`put` 60, Linux 20")
    one = cliffs.Call("unpool", (1, 2, 8, 8), 2, 2, 0, "uint8", "codes", "transposed")
    other = replace(one, op="pool")
    written = "".join(cliffs.table({"int64 for codes": [(1.62, other), (1.7, one)], "as float32": [(3.1, one)]}))
    lines = written.splitlines()[2:]
    assert lines[0] == f"| {one} | int64 for codes 1.7; as float32 3.1 | `put` 60, Linux 20 |"
    assert lines[1] == f"| {other} | int64 for codes 1.6 | `put` 60, Linux 20 |"
    assert len(lines) == 2
    monkeypatch.setattr(sys, "argv", [*timed[0]])
    called = []
    monkeypatch.setattr(cliffs.shares, "keep_calling", lambda call: called.append(call()))
    cliffs.main()
    assert called[0].shape == (1, 2, 8, 8)


def test_functions_have_their_names_in_the_sources(cliffs):
    plainly = cliffs.shares.plainly
    assert plainly("__pyx_fuse_0__pyx_fuse_1__pyx_f_7cunpool_4_put_put_row.isra.0") == "put_row"
    assert plainly("__pyx_pw_7cunpool_5_pool_1pool") == "1pool"
    assert plainly("cunpool_hold_16.constprop.0") == "hold_16"


def test_cliffs_of_a_seed(tmp_path):
    runs = []
    for count in (3, 2):
        command = [sys.executable, FOLDER / "cliffs.py", "--seed", "5", "--count", str(count), "--rounds", "1"]
        command += ["--block", "0.0001", "--json", tmp_path / "ratios"]
        run = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert run.returncode == 0, run.stderr
        assert f"{count} calls, " in run.stdout
        assert f"{count}/{count}, " in run.stderr
        runs.append([json.loads(line) for line in (tmp_path / "ratios").read_text().splitlines()])
    three, two = runs
    assert [line["call"] for line in three[:2]] == [line["call"] for line in two]
    assert all(line["ratios"] for line in three if " C" not in line["call"])
