from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import fuzz
import numpy as np
import pytest

SCRIPT = Path(fuzz.__file__)
SECONDS = os.environ.get("CUNPOOL_FUZZ_SECONDS", "4")


def test_random_calls_find_no_difference():
    command = [sys.executable, str(SCRIPT), "--seed", "2024", "--seconds", SECONDS]
    run = subprocess.run(command, capture_output=True, text=True, timeout=float(SECONDS) + 90)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.startswith("seed 2024\n")
    counts = re.findall(r"(\d+) (\w+)", run.stdout.splitlines()[-1])
    assert all(int(count) for count, _ in counts), "some kind of case was never tried"


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("UNPOOL", lambda result: result.reshape(-1)[:1].fill(77)),
        ("POOL", lambda result: (result[0] if isinstance(result, tuple) else result).reshape(-1)[:1].fill(77)),
    ],
)
def test_a_wrong_result_is_found(monkeypatch, name, spoil):
    def spoiled(function):
        def call(*arguments, **keywords):
            result = function(*arguments, **keywords)
            spoil(result)
            return result

        return call

    monkeypatch.setattr(fuzz, name, {n: spoiled(function) for n, function in getattr(fuzz, name).items()})
    with pytest.raises(fuzz.Difference):
        run(monkeypatch, 300)


def test_a_write_beside_out_is_found(monkeypatch):
    def beside(function):
        def call(*arguments, out=None, **keywords):
            result = function(*arguments, out=out, **keywords)
            if out is not None and out.size and out.base is not None:
                out.base[0] ^= 255
            return result

        return call

    monkeypatch.setattr(fuzz, "UNPOOL", {n: beside(function) for n, function in fuzz.UNPOOL.items()})
    with pytest.raises(fuzz.Difference, match="bytes beside out were written"):
        run(monkeypatch, 300)


def run(monkeypatch, cases: int) -> None:
    """Some cases in this process, whose settings come back."""
    with monkeypatch.context() as context:
        context.setattr(fuzz._threads, "GRAIN", fuzz._threads.GRAIN)
        context.setattr(fuzz._arrays, "RECYCLED", fuzz._arrays.RECYCLED)
        for case in range(cases):
            fuzz.run_case(1, case)


def test_guards_see_single_bytes(rng):
    for _ in range(200):
        guarded = fuzz.Guarded(rng, tuple(rng.integers(0, 4, 3).tolist()), np.dtype("f4"))
        guarded.array[...] = 5
        guarded.check()
        inside = np.zeros(guarded.raw.size, bool)
        raw = np.zeros_like(guarded.raw)
        guarded.within(raw).view()[...] = np.frombuffer(b"\xff" * 4, "f4")[0]
        inside[raw > 0] = True
        beside = int(rng.choice(np.flatnonzero(~inside)))
        guarded.raw[beside] ^= 1
        with pytest.raises(fuzz.Difference):
            guarded.check()
