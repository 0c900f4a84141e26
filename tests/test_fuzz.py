from __future__ import annotations

import importlib
import math
import re
import subprocess
import sys
from pathlib import Path

import fuzzing
import numpy as np
import pytest
from fuzzing import census, guided, right, wrong
from fuzzing.__main__ import Run
from fuzzing.arrays import Guarded
from fuzzing.judge import Difference
from fuzzing.sizes import BLOCK, Window
from fuzzing.worker import KINDS

from cunpool import pooling, unpooling
from cunpool._kernels import pool as _pool

FOLDER = Path(fuzzing.__file__).parent.parent


@pytest.mark.slow
def test_random_calls_find_no_difference():
    command = [sys.executable, "-m", "fuzzing", "--seed", "2024", "--count", "400"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=FOLDER)
    assert run.returncode == 0, run.stdout + run.stderr
    lines = run.stdout.splitlines()
    assert lines[0] == "seed 2024"
    assert lines[1].startswith("400 cases: ")
    counts = re.findall(r"(\d+) (\w+)", lines[1])[1:]
    assert [name for _, name in counts] == [kind.__name__ for kind in KINDS]
    assert all(int(count) for count, _ in counts), "some kind of case was never tried"


@pytest.mark.slow
def test_the_corpus_finds_no_difference():
    """What fuzzing guided by coverage has kept, each input a call."""
    run = subprocess.run(
        [sys.executable, "-m", "fuzzing.guided", "--replay"], capture_output=True, text=True, cwd=FOLDER
    )
    assert run.returncode == 0, run.stdout[-500:] + run.stderr
    assert len(run.stdout.splitlines()) == len(guided.CORPUS.read_text().split()) > 100
    assert guided.CORPUS.stat().st_size <= guided.MOST_CORPUS


def test_draws_are_those_of_the_bytes():
    """Small ones by the bytes, in their limits; behind the last byte by a seed, the same in each run."""
    draws = guided.Draws(bytes([7, 0, 128, 9, 1, 2]))
    assert draws.integers(5) == 2
    assert draws.random() == 0.5
    assert draws.integers(3, 6, 2).tolist() == [3, 4]
    assert draws.choice(["a", "b"], p=[0.001, 0.999]) == "b"
    rest = [guided.Draws(b"abcd").integers(0, 1000, 20).tolist() for _ in range(2)]
    assert rest[0] == rest[1]
    assert 0 <= min(rest[0]) <= max(rest[0]) < 1000


def planted(tmp_path, plants: dict[int, str], limit: float = 60) -> Run:
    """Twenty cases that do nothing, but for those in which something bad is planted."""
    script = tmp_path / "planted.py"
    script.write_text(
        "import ctypes, os, signal, sys\n"
        "sys.path.insert(0, os.getcwd())\n"
        "from fuzzing import judge, worker\n"
        "from fuzzing.judge import Difference\n"
        "def run_case(seed, number):\n"
        f"    exec({plants}.get(number, ''))\n"
        "    return 'pool'\n"
        "worker.run_case = run_case\n"
        "sys.exit(worker.main())\n"
    )
    run = Run(5, 20, 1, limit, math.inf, 10, (str(script),))
    run.cases(0)
    return run


@pytest.mark.slow
def test_each_failure_is_named_and_the_other_cases_follow(tmp_path, capsys):
    plants = {
        2: "raise Difference('this is wrong')",
        4: "raise ZeroDivisionError('this is unexpected')",
        7: "print('a check failed', file=sys.stderr, flush=True); os.abort()",
        8: "os.kill(os.getpid(), signal.SIGKILL)",
        11: "os._exit(0)",
    }
    run = planted(tmp_path, plants)
    assert run.failures == [*plants]
    assert run.kinds["pool"] == 20 - len(plants)
    assert not run.report(conditions=False)
    said = capsys.readouterr().out
    assert "case 2: Difference: this is wrong\nagain: cd tests && python -m fuzzing --seed 5 --case 2\n" in said
    assert "ZeroDivisionError: this is unexpected\nagain: cd tests && python -m fuzzing --seed 5 --case 4\n" in said
    assert "case 7: the process ended with SIGABRT\na check failed\n" in said
    assert "case 8: the process ended with SIGKILL\n" in said
    assert "case 11: the process ended with status 0\n" in said
    assert "5 cases failed: [2, 4, 7, 8, 11]\n" in said


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no pause")
def test_what_never_ends_is_named(tmp_path, capsys):
    run = planted(tmp_path, {19: "ctypes.PyDLL(None).pause()"}, limit=1)  # with the GIL, as a kernel may have it
    assert run.failures == [19]
    assert "case 19: no end after 1 s\n" in capsys.readouterr().out


@pytest.mark.slow
def test_builds_with_other_results_have_other_digests(tmp_path):
    plants = {number: f"judge._results.update(b'{number}')" for number in range(20)}
    lines = [planted(tmp_path, plants).digest(), planted(tmp_path, {**plants, 7: "pass"}).digest()]
    assert all(re.fullmatch(r"digest (\w{16}) of 20 cases: pool \1", line) for line in lines)
    assert lines[0] != lines[1]
    assert planted(tmp_path, plants).digest() == lines[0]


@pytest.mark.slow
def test_the_digest_takes_one_line():
    command = [sys.executable, "-m", "fuzzing", "--seed", "5", "--count", "6", "--digest", "--threads", "1"]
    said = [
        subprocess.run([*command, "--jobs", jobs], capture_output=True, text=True, timeout=100, cwd=FOLDER).stdout
        for jobs in "12"
    ]
    assert said[0] == said[1]
    assert re.fullmatch(r"seed 5\ndigest \w{16} of 6 cases:( \w+ \w{16})+\n", said[0])


def test_it_ends_after_some_failures(tmp_path, capsys):
    script = tmp_path / "planted.py"
    script.write_text("import sys\nprint('case', sys.argv[2], flush=True)\nsys.exit(3)\n")
    run = Run(5, 1000, 1, 60, math.inf, 4, (str(script),))
    run.cases(0)
    assert run.failures == [0, 1, 2, 3]


def test_one_case_again():
    command = [sys.executable, "-m", "fuzzing", "--seed", "2024", "--case", "3"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=FOLDER)
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.match(r"seed 2024\ncase 3\n_\w+\.\w+\(\w+ \(.*\n", run.stdout)  # with the kernel's arguments


@pytest.fixture
def watching(monkeypatch):
    """A census, and the front ends as before at the end."""
    for name, places in census.KERNELS.items():
        for front_end, _ in places:
            module = importlib.import_module(front_end)
            monkeypatch.setattr(module, name, getattr(module, name))

    conditions = {"rows are joined": (3, 4)}

    def counted():
        return [{"name": name.encode(), "times": [*times]} for name, times in conditions.items()]

    monkeypatch.setattr(_pool, "conditions", counted, raising=False)
    census_of_this = census.Census()
    return census_of_this, conditions


def test_ways_and_conditions_are_counted(watching):
    counting, conditions = watching
    pooling.max_pool2d(np.zeros((3, 5, 5)), 2)
    pooling.max_pool2d(np.zeros((1, 40, 40)), 2)
    conditions["rows are joined"] = (3, 9)
    counts = counting.counts()
    assert counts["_pool SEPARATED"] == (1, 1)
    assert counts["_pool WINDOW2"] == (1, 1)
    assert counts["_unpool FILLED"] == (0, 0)
    assert counts["_pool: rows are joined"] == (0, 5)
    with pytest.raises(IndexError):
        unpooling.max_unpool1d(np.zeros((1, 1)), np.array([[9]]), 2)
    assert counting.counts()["_unpool SCATTERED"] == (0, 0)


def test_what_was_met_on_one_side_is_a_failure(monkeypatch, capsys):
    run = Run(1, 1, 1, 1, math.inf, 1)
    census.add(run.counts, {"_pool WHOLE": (3, 0), "_pool WINDOW2": (1, 2), "_pool: far": (0, 7)})
    census.add(run.counts, {"_pool WHOLE": (4, 0)})
    assert run.report(conditions=False)
    assert not run.report(conditions=True)
    said = capsys.readouterr().out
    assert "not met on both sides: _pool WHOLE, 7 times false, 0 times true" in said
    assert "not met on both sides: _pool WINDOW2" not in said
    monkeypatch.setattr(census, "ONE_SIDED", {"_pool WHOLE": "why not", "_pool: far": "it cannot be near"})
    assert run.report(conditions=True)
    assert "_pool WHOLE  (why not)" in capsys.readouterr().out


def hundred(kind) -> None:
    for seed in range(100):
        kind(np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("kind", "functions"),
    [
        (right.unpool, "UNPOOL"),
        (right.pool, "POOL"),
        (right.unpool_backward, "UNPOOL_BACKWARD"),
        (right.pool_backward, "POOL_BACKWARD"),
        (wrong.wrapping, "POOL"),
    ],
)
def test_a_wrong_result_is_found(monkeypatch, kind, functions):
    def spoiled(function):
        def call(*arguments, **keywords):
            result = function(*arguments, **keywords)
            cells = result[0] if isinstance(result, tuple) else result
            if cells.size:
                last = cells[(slice(-1, None),) * cells.ndim]
                last[...] = (255 - np.frombuffer(last.tobytes(), np.uint8)).view(cells.dtype)
            return result

        return call

    module = sys.modules[kind.__module__]
    spoils = {n: spoiled(function) for n, function in getattr(module, functions).items()}
    monkeypatch.setattr(module, functions, spoils)
    with pytest.raises(Difference):
        hundred(kind)


def test_a_write_beside_out_is_found(monkeypatch):
    def beside(function):
        def call(*arguments, out=None, **keywords):
            result = function(*arguments, out=out, **keywords)
            if out is not None and out.size and out.base is not None:
                out.base[0] ^= 255
            return result

        return call

    monkeypatch.setattr(right, "UNPOOL", {n: beside(function) for n, function in right.UNPOOL.items()})
    with pytest.raises(Difference, match="bytes beside out were written"):
        hundred(right.unpool)


def test_guards_see_single_bytes(rng):
    for _ in range(200):
        guarded = Guarded(rng, tuple(rng.integers(0, 4, 3).tolist()), np.dtype("f4"))
        guarded.array[...] = 5
        guarded.check()
        inside = np.zeros(guarded.raw.size, bool)
        raw = np.zeros_like(guarded.raw)
        guarded.within(raw).view()[...] = np.frombuffer(b"\xff" * 4, "f4")[0]
        inside[raw > 0] = True
        beside = int(rng.choice(np.flatnonzero(~inside)))
        guarded.raw[beside] ^= 1
        with pytest.raises(Difference):
            guarded.check()


@pytest.mark.slow
def test_sizes_lie_on_both_sides_of_what_decides(rng):
    """Ranges smaller than the kernels' thresholds find nothing."""
    drawn = [Window(rng) for _ in range(10_000)]  # as many cases as have to meet every condition
    axes = [w.axes() for w in drawn]
    for seen in (
        {w.pooled[-1] for w in drawn},
        {w.shape[-1] for w in drawn},
    ):
        for number in (10, 16, 32, 40, 64, 128, 256, 512, 1024):
            assert {number - 1, number, number + 1} <= seen, number
    assert max(w.full[-1] for w in drawn) > 4096
    assert max(w.shape[-1] for w in drawn) > 2048
    assert {1, 256, 65536} <= {w.taps for w in drawn}
    assert any(w.taps > 65536 for w in drawn)
    kernels = {k for kernel, *_ in axes for k in kernel}
    assert set(range(1, 17)) <= kernels
    assert len(kernels & set(range(17, 49))) > 20
    assert any(s > 512 for _, stride, *_ in axes for s in stride)
    assert any(s > k for kernel, stride, *_ in axes for k, s in zip(kernel, stride, strict=True))
    assert any(p and d > 1 for *_, padding, dilation in axes for p, d in zip(padding, dilation, strict=True))
    assert any(np.prod(w.shape) > 100 * np.prod(w.pooled) for w in drawn)
    rows = [np.prod(k[:-1]) * s[-1] * w.full[-1] / BLOCK for w, (k, s, *_) in zip(drawn, axes, strict=True)]
    assert sum(0.7 < row < 1 for row in rows) > 20
    assert sum(1 < row < 1.5 for row in rows) > 20
