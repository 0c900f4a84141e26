from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import cunpool as cu
from cunpool import __main__ as command


def test_info(capsys):
    assert command.main(["info"]) == 0
    printed = capsys.readouterr().out
    assert cu.__version__ in printed
    assert np.__version__ in printed
    assert "OpenMP    on" in printed if cu.openmp_enabled() else "OFF: a serial build" in printed


def test_demo_with_its_own_photograph(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command.main(["demo"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("equal to NumPy's") == 4
    assert "came back exactly: 6.25%" in printed
    assert (tmp_path / "cunpool-demo.png").read_bytes().startswith(b"\x89PNG")


def test_demo_with_any_image(tmp_path, capsys):
    from PIL import Image

    pixels = np.random.default_rng(0).integers(1, 256, (19, 31, 4), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "in.png")
    assert command.main(["demo", str(tmp_path / "in.png"), "-o", str(tmp_path / "out.pdf")]) == 0
    assert "image            (3, 19, 31)" in capsys.readouterr().out
    assert (tmp_path / "out.pdf").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.png"], "No such file"),
        (["text.png"], "cannot identify"),
        (["tiny.png"], "at least 4 x 4"),
        (["-o", "out.unknown"], "not supported"),
        (["-o", "none/out.png"], "No such file"),
    ],
)
def test_one_line_and_status_2(tmp_path, monkeypatch, capsys, arguments, message):
    from PIL import Image

    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.png").write_text("no picture")
    Image.new("L", (3, 9)).save("tiny.png")
    assert command.main(["demo", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("cunpool: ")
    assert message in error
    assert error.count("\n") == 1


def test_a_missing_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert command.main(["demo"]) == 2
    assert "pip install 'cunpool[demo]'" in capsys.readouterr().err


def test_a_wrong_result_is_not_passed_over(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(command, "numpy_unpool", lambda y, indices, shape: np.ones(shape, y.dtype))
    assert command.main(["demo", "-o", str(tmp_path / "out.png")]) == 2
    assert "differs from NumPy's" in capsys.readouterr().err


def test_as_a_module():
    run = subprocess.run([sys.executable, "-m", "cunpool", "info"], capture_output=True, text=True, check=True)
    assert cu.__version__ in run.stdout
    assert subprocess.run([sys.executable, "-m", "cunpool"], capture_output=True, cwd=os.sep).returncode == 2
