"""``cunpool bench``: every contestant's answers, the clock in its processes, and what is printed and drawn."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import re
import sys
import threading
from multiprocessing.connection import Listener

import numpy as np
import pytest

from cunpool import __main__ as command
from cunpool import _bench
from cunpool._bench import Cell

TINY = [
    Cell("unpool", (2, 3, 14)),
    Cell("unpool", (2, 3, 8, 10), 3, 2, 1),
    Cell("unpool", (1, 2, 4, 6, 8)),
    Cell("pool", (2, 3, 9, 11), 3, 2, 1),
    Cell("pool", (1, 1, 6, 8, 10)),
    Cell("pool", (1, 1, 9, 12), 5, 1, 2, "none"),
    Cell("pool", (1, 1, 9, 12), 5, 1, 1, "none"),
    Cell("pool", (1, 1, 10, 12), index="none"),
]
NEEDS = {"torch": "torch", "onnxruntime": "onnxruntime", "scipy": "scipy", "opencv": "cv2", "skimage": "skimage"}


@pytest.mark.parametrize(
    ("name", "least"), [("torch", 8), ("onnxruntime", 8), ("numpy", 3), ("scipy", 1), ("opencv", 1), ("skimage", 1)]
)
def test_every_contestant_answers_as_cunpool_does(name, least, monkeypatch):
    pytest.importorskip(NEEDS.get(name, "numpy"))
    if name == "torch":
        torch = importlib.import_module("torch")
        monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    ours, theirs = _bench.cunpool(1), _bench.CONTESTANTS[name](1)
    compared = 0
    for cell in TINY:
        arrays = _bench.data(cell)
        call = theirs(cell, arrays)
        if call is not None:
            expected = _bench.checksum(cell, ours(cell, arrays)())
            assert _bench.checksum(cell, call()) == expected, cell.name
            assert _bench.checksum(cell, np.ones(3)) != expected
            compared += 1
    assert compared == least


def test_ten_cells_of_which_somebody_knows_each():
    assert len(_bench.CELLS) == 10
    assert {(cell.op, cell.index) for cell in _bench.CELLS} == set(_bench.TITLES)
    assert _bench.CELLS[-1].name == "pool 1x1x1080x1920 15/1 pad 7 no indices"


def test_a_process_that_ends_before_it_is_ready_is_not_waited_for():
    contestant = _bench.Contestant("nobody", 1, (sys.executable, "-c", "raise SystemExit(3)"))
    assert contestant.status == "its process ended with 3"


def test_a_contestants_process_takes_cells_and_times_them(tmp_path):
    cell = TINY[0]
    for key, array in _bench.data(cell).items():
        np.save(tmp_path / key, array)
    here, there = multiprocessing.Pipe()
    thread = threading.Thread(target=_bench.serve, args=(_bench.numpy, _bench.checksum, 1, there))
    thread.start()
    assert here.recv() == "ready"
    here.send((cell, str(tmp_path), 0.0001))
    takes_part, answer = here.recv()
    assert takes_part
    assert answer == _bench.checksum(cell, _bench.cunpool(1)(cell, _bench.data(cell))())
    here.send("time")
    assert 0 < here.recv() < 1
    here.send((TINY[3], str(tmp_path), 0.0001))
    assert here.recv() == (False, None)
    here.send(None)
    thread.join()

    def absent(threads):
        raise ImportError("no such thing", name="thing")

    _bench.serve(absent, _bench.checksum, 1, there)
    assert here.recv() == "not installed: thing"


@pytest.fixture
def few(monkeypatch):
    """Two small cells and the two contestants that are always there."""
    monkeypatch.setattr(_bench, "CELLS", [TINY[1], TINY[3]])
    monkeypatch.setattr(_bench, "PEERS", {name: _bench.PEERS[name] for name in ("cunpool", "numpy")})
    monkeypatch.setattr(_bench, "BLOCK", 0.0001)
    monkeypatch.setattr(_bench, "SECONDS", 0.0)


def test_the_command(few, capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(_bench.PEERS, "paddle", "Paddle")  # which finds a module that cannot be imported
    (tmp_path / "paddle.py").write_text("raise ModuleNotFoundError(name='paddle')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(_bench.sys.stderr, "isatty", lambda: True, raising=False)
    assert command.main(["bench", "--threads", "1", "--plot", str(tmp_path / "chart.svg")]) == 0
    printed, progress = capsys.readouterr()
    lines = printed.splitlines()
    assert lines[0] == "Paddle is left out: not installed: paddle"
    assert "unpool 2x3x8x10 3/2 pad 1" in printed
    assert [line.split()[-1] for line in lines if line.startswith("pool ")] == ["-"]
    assert "[##########          ] pool 2x3x9x11" in progress
    chart = (tmp_path / "chart.svg").read_text()
    assert "<!-- unpooling -->" in chart
    assert "<!-- NumPy -->" in chart
    assert "<!-- pooling with indices -->" not in chart


def test_without_a_chart_and_a_terminal_there_is_the_table(few, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command.main(["bench"]) == 0
    printed, progress = capsys.readouterr()
    assert re.search(r"^unpool 2x3x8x10 3/2 pad 1 +[\d.]+ us +[\d.]+$", printed, re.MULTILINE)
    assert progress == ""
    assert not [*tmp_path.iterdir()]


def test_the_words_that_a_process_is_given(monkeypatch, tmp_path):
    with Listener() as listener:
        monkeypatch.setattr(_bench.sys, "argv", ["_bench", "numpy", "1", str(listener.address)])
        thread = threading.Thread(target=_bench.main, args=(_bench.CONTESTANTS,))
        thread.start()
        with listener.accept() as connection:
            assert connection.recv() == "ready"
            connection.send(None)
        thread.join()


@pytest.mark.parametrize("plot", ["none/chart.png", "chart.unknown"])
def test_a_chart_that_cannot_be_written(few, capsys, plot, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command.main(["bench", "--threads", "1", "--plot", plot]) == 2
    assert f"cunpool: cannot write {plot}: " in capsys.readouterr().err


def test_a_missing_extra_and_a_wrong_number_of_threads(few, capsys, monkeypatch):
    assert command.main(["bench", "--threads", "0"]) == 2
    assert "cunpool: n must be at least 1, got 0" in capsys.readouterr().err
    monkeypatch.setitem(_bench.sys.modules, "matplotlib", None)
    assert command.main(["bench", "--plot", "chart.png"]) == 2
    assert "pip install 'cunpool[bench]'" in capsys.readouterr().err


class Played:
    """A contestant that answers at once."""

    def __init__(self, name, answer):
        self.key, self.answer, self.asked = f"{name} 1", answer, 0

    def ask(self, order):
        self.asked += 1
        return (True, self.answer) if isinstance(order, tuple) else 1.0


def test_wrong_answers_are_not_timed():
    with pytest.raises(_bench.Refusal, match="unpool 2x3x14 2/2: the answers differ"):
        _bench.measure(TINY[0], {}, [Played("a", 1), Played("b", 2)], 3, 0.1)


def test_a_turn_begins_with_calls_that_do_not_count(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(_bench.time, "perf_counter", lambda: clock[0])

    def call():
        clock[0] += 0.02 if len(calls) else 1.0  # the first one has to wake up
        calls.append(clock[0])

    for threads, least in ((1, 1), (2, 1)):
        calls: list[float] = []
        _bench.warm(call, threads)
        assert len(calls) == least
    calls = [0.0]
    _bench.warm(call, 2)
    assert len(calls) == 1 + 3
    assert _bench.timed(call, 10) == pytest.approx(0.02)


def test_a_full_disk_is_no_fault_of_printing(monkeypatch):
    def without_room(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_bench.np, "save", without_room)
    with pytest.raises(_bench.Refusal, match=r"cannot write to .*No space left on device"):
        _bench.measure(TINY[0], {"x": np.zeros(1)}, [Played("a", 1)], 3, 0.1)


def test_who_has_used_up_its_share_has_no_further_turn(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(_bench.time, "perf_counter", lambda: clock[0])

    class Slow(Played):
        def ask(self, order):
            clock[0] += 1.0 if order == "time" else 0.0
            return super().ask(order)

    slow, quick = Slow("slow", 1), Played("quick", 1)
    for seconds, turns in ((8.0, 4), (7.0, 4), (2.0, 1), (0.5, 1), (100.0, 5)):
        times = _bench.measure(TINY[0], {}, [slow, quick], 5, 0.1, seconds)
        assert times == {"slow 1": [1.0] * turns, "quick 1": [1.0] * 5}
    times["slow 1"] = [3.0]
    assert _bench.ratio(times, "slow 1", "quick 1") == 3.0


def test_everybody_has_a_turn():
    players = [Played("a", 1), Played("b", None)]
    assert _bench.measure(TINY[0], {}, players, 3, 0.1) == {"a 1": [1.0] * 3, "b 1": [1.0] * 3}
    assert _bench.measure(TINY[0], {}, players, 3, 0.1, 0.0) == {"a 1": [1.0], "b 1": [1.0]}


def test_the_chart_shows_losses_as_plain_as_wins(tmp_path):
    groups = {"unpooling": [_bench.row("Ahead", [0.5, 0.8]), _bench.row("Behind", [2.0, 8.0])]}
    assert groups["unpooling"][1] == ("Behind", pytest.approx(4.0), 2.0, 8.0)
    for theme in _bench.THEMES:
        path = tmp_path / f"{theme}.svg"
        _bench.draw(groups, path, theme, "machine")
        text = path.read_text()
        assert _bench.FASTER in text
        assert _bench.SLOWER in text
