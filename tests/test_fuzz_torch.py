from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import fuzz_torch  # noqa: E402

from cunpool.torch import _eager  # noqa: E402

SCRIPT = Path(fuzz_torch.__file__)


def fuzz(script: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, script, *map(str, arguments)], capture_output=True, text=True, timeout=200)


def test_random_calls_of_tensors_find_no_difference():
    run = fuzz(SCRIPT, "--cases", 240, "--seed", 2025)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "left to PyTorch" in run.stdout


@pytest.mark.parametrize(("planted", "end"), [("os.abort()", "exit status -6"), ("SystemError", "exit status 1")])
def test_a_case_that_ends_the_process_is_named(tmp_path, planted, end):
    bad = tmp_path / "fuzz_torch.py"
    crash = planted if "(" in planted else f"raise {planted}"
    start = "    torch.set_num_threads(threads)\n"
    source = SCRIPT.read_text()
    assert source.count(start) == 1
    bad.write_text(source.replace(start, f"    if case == 3:\n        {crash}\n"))
    run = fuzz(bad, "--cases", 5)
    assert run.returncode
    assert f"seed 0, case 3, {end}" in run.stdout


def test_a_condition_that_is_never_met_fails():
    run = fuzz(SCRIPT, "--cases", 2)
    assert run.returncode == 1
    assert "NEVER MET" in run.stdout


@pytest.mark.parametrize(
    "plant",
    [
        # What PyTorch's own operator answers: one value, or one index, of a small input
        lambda y, i: (torch.where(torch.arange(y.numel()).reshape(y.shape) == y.numel() - 1, -y + 1, y), i),
        lambda y, i: (y, torch.where(torch.arange(y.numel()).reshape(y.shape) == y.numel() - 1, i + 1, i)),
    ],
)
def test_a_wrong_answer_to_a_small_call_is_found(monkeypatch, plant):
    for n, operator in list(_eager.THEIRS.items()):
        monkeypatch.setitem(_eager.THEIRS, n, lambda *a, _operator=operator: plant(*_operator(*a)))
    with pytest.raises(fuzz_torch.Difference):
        some_cases()


def test_a_wrong_gradient_is_found(monkeypatch):
    direct = _eager._calls.max_pool_backward
    monkeypatch.setattr(_eager._calls, "max_pool_backward", lambda *a, **k: direct(*a, **k) * 1.5)
    with pytest.raises(fuzz_torch.Difference, match="gradient"):
        some_cases()


def some_cases() -> None:
    """Some cases in this process, whose settings come back."""
    before = torch.get_num_threads()
    try:
        for case in range(120):
            fuzz_torch.pooling(np.random.default_rng((1, case)))
    finally:
        torch.set_num_threads(before)
