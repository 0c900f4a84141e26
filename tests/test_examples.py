from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def example(name: str, *arguments: object) -> str:
    """What an example prints."""
    run = subprocess.run(
        [sys.executable, EXAMPLES / name, *map(str, arguments)], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_larger_than_memory(tmp_path):
    pytest.importorskip("dask.array")
    pytest.importorskip("distributed")
    printed = example(
        "larger_than_memory.py", "--batch", 9, "--channels", 3, "--size", 31, "--limit", 512, "--folder", tmp_path
    )
    assert "(9, 3, 31, 31), float32, 0 MiB, in blocks of 2 images" in printed
    assert "100% Completed" in printed
    assert len(re.findall(r"worker \d +peak memory \d+ MiB", printed)) == 2
    assert "cunpool without Dask: equal" in printed
    assert not any(tmp_path.iterdir())


def test_volume_larger_than_memory(tmp_path):
    pytest.importorskip("dask.array")
    pytest.importorskip("distributed")
    pytest.importorskip("zarr")
    options = "--shape", 100, 90, 70, "--chunk", 32, "--limit", 512, "--folder", tmp_path
    printed = example("volume_larger_than_memory.py", *options)
    assert "(100, 90, 70), uint16, 1 MiB, in chunks of 32 along each axis" in printed
    assert printed.count("100% Completed") >= 3
    assert len(re.findall(r"worker \d +peak memory \d+ MiB", printed)) == 2
    assert "3 slabs, against cunpool without Dask: equal" in printed
    assert not any(tmp_path.iterdir())


def test_beside_onnxruntime():
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    printed = example("beside_onnxruntime.py", "--shape", 1, 3, 64, 96, "--rounds", 2)
    assert printed.count("equal to the whole model") == 4
    assert len(re.findall(r"ONNX Runtime alone [\d.]+ ms, cut [\d.]+ ms: [\d.]+ times as fast", printed)) == 2
