"""``cunpool bench``: every contestant's answers, the clock in its processes, and what is printed and drawn."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import re
import sys
import threading
import time
from multiprocessing.connection import Listener
from pathlib import Path

import numpy as np
import pytest

import cunpool as cu
from cunpool import __main__ as main
from cunpool._cli import bench
from cunpool._cli.bench import Cell, clock, command

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
    ("name", "least"), [("torch", 8), ("onnxruntime", 8), ("numpy", 8), ("scipy", 1), ("opencv", 1), ("skimage", 1)]
)
def test_every_contestant_answers_as_cunpool_does(name, least, monkeypatch):
    pytest.importorskip(NEEDS.get(name, "numpy"))
    if name == "torch":
        torch = importlib.import_module("torch")
        monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    ours, theirs = bench.cunpool(1), bench.CONTESTANTS[name](1)
    compared = 0
    for cell in TINY:
        arrays = bench.data(cell)
        call = theirs(cell, arrays)
        if call is not None:
            expected = bench.checksum(cell, ours(cell, arrays)())
            assert bench.checksum(cell, call()) == expected, cell.name
            assert bench.checksum(cell, np.ones(3)) != expected
            compared += 1
    assert compared == least


def test_twelve_cells_of_which_somebody_knows_each():
    assert len(bench.CELLS) == 12
    assert {(cell.op, cell.index) for cell in bench.CELLS} == set(bench.TITLES)
    assert bench.CELLS[-1].name == "pool 1x1x1080x1920 15/1 pad 7 no indices"


def test_a_process_that_ends_before_it_is_ready_is_not_waited_for():
    contestant = bench.Contestant("nobody", 1, (sys.executable, "-c", "raise SystemExit(3)"))
    assert contestant.status == "its process ended with 3"


def state_of(contestant):
    """How Linux calls the state of its process: "T" if it is stopped."""
    deadline = time.monotonic() + 10
    while (state := Path(f"/proc/{contestant.process.pid}/stat").read_text().rpartition(")")[2].split()[0]) != "T":
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return state


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the state of a process is read as Linux writes it")
def test_a_contestant_is_stopped_while_others_have_their_turn(tmp_path):
    cell = TINY[0]
    for key, array in bench.data(cell).items():
        np.save(tmp_path / key, array)
    contestant = bench.Contestant("numpy", 1)
    try:
        assert contestant.status == "ready"
        assert state_of(contestant) == "T"
        assert contestant.ask((cell, str(tmp_path), 0.0001))[0]
        assert state_of(contestant) == "T"
    finally:
        contestant.end()


def test_a_contestants_process_takes_cells_and_times_them(tmp_path):
    cell = TINY[0]
    for key, array in bench.data(cell).items():
        np.save(tmp_path / key, array)

    def without_pooling(threads):
        plain = bench.numpy(threads)
        return lambda cell, arrays: plain(cell, arrays) if cell.op == "unpool" else None

    here, there = multiprocessing.Pipe()
    thread = threading.Thread(target=bench.serve, args=(without_pooling, bench.checksum, 1, there), daemon=True)
    thread.start()
    assert here.recv() == "ready"
    here.send((cell, str(tmp_path), 0.0001))
    takes_part, answer = here.recv()
    assert takes_part
    assert answer == bench.checksum(cell, bench.cunpool(1)(cell, bench.data(cell))())
    here.send("time")
    assert 0 < here.recv() < 1
    here.send((TINY[3], str(tmp_path), 0.0001))
    assert here.recv() == (False, None)
    here.send(None)
    thread.join()

    def absent(threads):
        raise ImportError("no such thing", name="thing")

    bench.serve(absent, bench.checksum, 1, there)
    assert here.recv() == "not installed: thing"


@pytest.fixture
def few(monkeypatch):
    """Two small cells and the two contestants that are always there."""
    monkeypatch.setattr(command, "CELLS", [TINY[1], TINY[3]])
    monkeypatch.setattr(command, "PEERS", {name: bench.PEERS[name] for name in ("cunpool", "numpy")})
    monkeypatch.setattr(command, "BLOCK", 0.0001)
    monkeypatch.setattr(command, "SECONDS", 0.0)


@pytest.mark.slow
def test_the_command(few, capsys, tmp_path, monkeypatch):
    # PaddlePaddle finds a module that cannot be imported, SciPy one that ends the process.
    monkeypatch.setitem(command.PEERS, "paddle", "PaddlePaddle")
    monkeypatch.setitem(command.PEERS, "scipy", "SciPy")
    (tmp_path / "paddle.py").write_text("raise ModuleNotFoundError(name='paddle')")
    (tmp_path / "scipy.py").write_text("raise SystemExit(3)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(command.sys.stderr, "isatty", lambda: True, raising=False)
    assert main.main(["bench", "--threads", "1", "--plot", str(tmp_path / "chart.svg")]) == 0
    printed, progress = capsys.readouterr()
    lines = printed.splitlines()
    assert lines[:3] == [
        "SciPy is left out: its process ended with 3",
        "not installed: PaddlePaddle",
        "to measure them too: pip install 'cunpool[bench]'",
    ]
    assert "[##########          ] pool 2x3x9x11" in progress
    drawn = (tmp_path / "chart.svg").read_text()
    assert "<!-- unpooling -->" in drawn
    assert "<!-- pooling with indices -->" in drawn
    assert "<!-- NumPy -->" in drawn
    assert "<!-- pooling without indices -->" not in drawn


def test_without_a_chart_and_a_terminal_there_is_the_table(few, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main.main(["bench"]) == 0
    printed, progress = capsys.readouterr()
    row = r" +[\d.]+ [um]s +([\d.]+)\n  geometric mean +\1\n"  # of one cell, the mean is the cell's
    assert re.search(r"^unpooling\n  2x3x8x10 3/2 pad 1" + row, printed, re.MULTILINE)
    assert re.search(r"^pooling with indices\n  2x3x9x11 3/2 pad 1" + row, printed, re.MULTILINE)
    assert "pooling without indices" not in printed
    assert "cunpool: time. Others: time divided by cunpool's" in printed
    assert progress == ""
    assert not [*tmp_path.iterdir()]


def test_the_table_of_everybody_has_at_most_100_columns(capsys):
    times = {cell: {"cunpool 1": [0.1234]} for cell in bench.CELLS}
    others = [name for name in bench.PEERS if name != "cunpool"]
    ratios = {(cell, name): 123.4 for cell in bench.CELLS for name in others}
    ratios |= {(cell, "scipy"): None for cell in bench.CELLS}
    ratios |= {(bench.CELLS[0], "numpy"): 2.0, (bench.CELLS[1], "numpy"): 8.0}
    ratios |= {(bench.CELLS[2], "numpy"): 0.5, (bench.CELLS[3], "numpy"): 2.0}
    command.table(times, ratios, others, "cunpool 1")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    heads = [line for line in lines if "ONNX" in line or "shape, window/stride" in line]
    assert [head.split() for head in heads] == [
        ["ONNX", "Paddle-", "scikit-"],
        ["shape,", "window/stride", "cunpool", "PyTorch", "Runtime", "Paddle", "NumPy", "SciPy", "OpenCV", "image"],
    ]
    widths = command.CELL_WIDTH + command.TIME_WIDTH
    rows = [line[widths:] for line in lines if line.startswith("  ") and "ONNX" not in line]
    assert len(rows) == 12 + 3
    for row in rows:  # each entry in its own column
        assert row.split() == [row[i : i + 8].strip() for i in range(0, len(row), command.RATIO_WIDTH)]
        assert len(row.split()) == len(others)
    means = [line.split()[2:] for line in lines if line.startswith("  geometric mean")]
    assert means[0] == ["123", "123", "123", "2.00", "-", "123", "123"]
    assert len(means) == 3


@pytest.mark.parametrize(
    ("number", "text"), [(None, "-"), (0.62, "0.62"), (9.994, "9.99"), (9.996, "10.0"), (99.94, "99.9"), (99.96, "100")]
)
def test_a_factor_has_three_digits(number, text):
    assert command.factor(number) == text


def test_times_are_in_the_unit_that_is_read():
    assert command.duration(4.26e-6) == "4.3 us"
    assert command.duration(0.01834) == "18.34 ms"


def test_more_threads_than_processors_are_remarked(few, capsys, monkeypatch):
    monkeypatch.setattr(cu, "get_num_threads", lambda: 3)
    for available, text in ((1, "3 threads on 1 processor: "), (2, "3 threads on 2 processors: ")):
        command.remark(3, 3, available)
        assert capsys.readouterr().out.startswith(text)
    command.remark(3, 3, 3)
    assert capsys.readouterr().out == ""
    command.remark(500, 3, 3)
    assert capsys.readouterr().out.startswith("--threads 500: cunpool uses at most 3 threads here")
    monkeypatch.undo()
    monkeypatch.setattr(command, "CELLS", TINY[:1])
    monkeypatch.setattr(command, "PEERS", {name: bench.PEERS[name] for name in ("cunpool", "numpy")})
    monkeypatch.setattr(command, "processors", lambda: 0)
    monkeypatch.setattr(command, "SECONDS", 0.0)
    cu.set_num_threads(2)
    assert main.main(["bench", "--threads", "1"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("1 thread on 0 processors: threads wait")
    assert f"cunpool {cu.__version__}, 1 thread, float32" in out


def test_processors_are_those_that_this_process_may_use(monkeypatch):
    monkeypatch.setattr(command._cgroups, "processors", lambda: None)
    assert 1 <= command.processors() <= os.cpu_count()
    monkeypatch.setattr(command._cgroups, "processors", lambda: 1)
    assert command.processors() == 1


def test_the_words_that_a_process_is_given(monkeypatch, tmp_path):
    with Listener() as listener:
        monkeypatch.setattr(clock.sys, "argv", ["_bench", "numpy", "1", str(listener.address)])
        thread = threading.Thread(target=bench.main, args=(bench.CONTESTANTS,))
        thread.start()
        with listener.accept() as connection:
            assert connection.recv() == "ready"
            connection.send(None)
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("plot", ["none/chart.png", "chart.unknown"])
def test_a_chart_that_cannot_be_written(few, capsys, plot, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main.main(["bench", "--threads", "1", "--plot", plot]) == 2
    assert f"cunpool: cannot write {plot}: " in capsys.readouterr().err


def test_a_missing_extra_and_a_wrong_number_of_threads(few, capsys, monkeypatch):
    assert main.main(["bench", "--threads", "0"]) == 2
    assert "cunpool: --threads must be at least 1, got 0" in capsys.readouterr().err
    monkeypatch.setitem(command.sys.modules, "matplotlib", None)
    assert main.main(["bench", "--plot", "chart.png"]) == 2
    assert "pip install 'cunpool[bench]'" in capsys.readouterr().err


class Played:
    """A contestant that answers at once."""

    def __init__(self, name, answer):
        self.key, self.answer, self.asked = f"{name} 1", answer, 0

    def ask(self, order):
        self.asked += 1
        return (True, self.answer) if isinstance(order, tuple) else 1.0


def test_wrong_answers_are_not_timed():
    with pytest.raises(bench.Refusal, match="unpool 2x3x14 2/2: the results differ"):
        bench.measure(TINY[0], {}, [Played("a", 1), Played("b", 2)], 3, 0.1)


def test_a_turn_begins_with_calls_that_do_not_count(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(clock.time, "perf_counter", lambda: now[0])

    def call():
        now[0] += 0.02 if len(calls) else 1.0  # the first one has to wake up
        calls.append(now[0])

    for threads, least in ((1, 1), (2, 1)):
        calls: list[float] = []
        bench.warm(call, threads)
        assert len(calls) == least
    calls = [0.0]
    bench.warm(call, 2)
    assert len(calls) == 1 + 3
    assert bench.timed(call, 10) == pytest.approx(0.02)


def test_a_full_disk_is_no_fault_of_printing(monkeypatch):
    def without_room(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(clock.np, "save", without_room)
    with pytest.raises(bench.Refusal, match=r"cannot write to .*No space left on device"):
        bench.measure(TINY[0], {"x": np.zeros(1)}, [Played("a", 1)], 3, 0.1)


def test_who_has_used_up_its_share_has_no_further_turn(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(clock.time, "perf_counter", lambda: now[0])

    class Slow(Played):
        def ask(self, order):
            now[0] += 1.0 if order == "time" else 0.0
            return super().ask(order)

    slow, quick = Slow("slow", 1), Played("quick", 1)
    for seconds, turns in ((8.0, 4), (7.0, 4), (2.0, 1), (0.5, 1), (100.0, 5)):
        times = bench.measure(TINY[0], {}, [slow, quick], 5, 0.1, seconds)
        assert times == {"slow 1": [1.0] * turns, "quick 1": [1.0] * 5}
    times["slow 1"] = [3.0]
    assert bench.ratio(times, "slow 1", "quick 1") == 3.0
    assert bench.ratio(times, "none 1", "quick 1") is None


def test_everybody_has_a_turn():
    players = [Played("a", 1), Played("b", None)]
    assert bench.measure(TINY[0], {}, players, 3, 0.1) == {"a 1": [1.0] * 3, "b 1": [1.0] * 3}
    assert bench.measure(TINY[0], {}, players, 3, 0.1, 0.0) == {"a 1": [1.0], "b 1": [1.0]}


def test_the_chart_shows_losses_as_plain_as_wins(tmp_path):
    groups = {"unpooling": [bench.row("Ahead", [0.5, 0.8]), bench.row("Behind", [2.0, 8.0])]}
    assert groups["unpooling"][1] == ("Behind", pytest.approx(4.0), 2.0, 8.0)
    path = tmp_path / "chart.svg"
    bench.draw(groups, path, "machine")
    text = path.read_text()
    assert bench.FASTER in text
    assert bench.SLOWER in text
    assert text.count("prefers-color-scheme: dark") == 1
    for light, dark in bench.DARK.items():
        assert f'[style*="stroke: {light}"] {{ stroke: {dark} !important }}' in text
        assert f": {light}" in text.partition("</style>")[2]


@pytest.mark.parametrize("above", [False, True])
@pytest.mark.parametrize("numbers", [[0.5, 2.0], [1.5, 900.0], [0.02, 0.03], [0.1, 0.9, 1234.5]], ids=str)
def test_nothing_that_the_chart_says_is_cut(tmp_path, monkeypatch, numbers, above):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    groups = {"pooling without indices": [bench.row("PaddlePaddle", numbers), bench.row("NumPy", numbers[-1:])]}
    bench.draw(groups, tmp_path / "chart.png", "cunpool 0.1.0, 16 threads", above)
    canvas = FigureCanvasAgg(drawn[0])
    canvas.draw()
    paper = drawn[0].bbox
    texts = [text for text in drawn[0].findobj(Text) if text.get_text() and text.get_visible()]
    low, high = drawn[0].axes[0].get_xlim()
    ticks = {text.get_text(): float(text.get_text()) for text in drawn[0].axes[0].get_xticklabels()}
    for text in texts:
        box = text.get_window_extent(canvas.get_renderer())
        if low <= ticks.get(text.get_text(), low) <= high:
            assert paper.x0 <= box.x0, text
            assert box.x1 <= paper.x1, text
            assert paper.y0 <= box.y0, text
            assert box.y1 <= paper.y1, text
    assert {"PaddlePaddle", "cunpool 0.1.0, 16 threads"} <= {text.get_text() for text in texts}
    assert any("geometric mean" in text.get_text() for text in texts)
