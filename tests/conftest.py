from __future__ import annotations

import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import cunpool as cu
from cunpool import _threads, pooling


def pytest_report_header() -> str:
    return f"cunpool {cu.__version__} from {cu.__path__[0]}, OpenMP {'on' if cu.openmp_enabled() else 'OFF'}"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cunpool")
    group.addoption("--write-passed", type=Path, metavar="FILE", help="write the names of tests that pass to FILE")
    group.addoption("--skip-passed", type=Path, metavar="FILE", help="leave out tests that FILE names, if it exists")


class PassedTests:
    """Writes the names of the tests that pass to a file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.names.append(f"{report.nodeid}\n")

    def pytest_sessionfinish(self) -> None:
        self.file.write_text("".join(self.names))


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--write-passed")
    if file and not hasattr(config, "workerinput"):  # pytest-xdist's workers report to the process that started them
        config.pluginmanager.register(PassedTests(file))


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    cases: Counter[str] = Counter()
    for item in items:
        if item.get_closest_marker("mostly_slow"):
            function = item.nodeid.partition("[")[0]
            if cases[function] % 7:  # a prime: the quick cases have different values of each parameter
                item.add_marker("slow")
            cases[function] += 1
    file = config.getoption("--skip-passed")
    if file and file.exists():
        passed = set(file.read_text().splitlines())
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
        items[:] = [item for item in items if item.nodeid not in passed]


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that are the same in each run, and others for each test and each of its parameters."""
    return np.random.default_rng(zlib.crc32(f"{request.module.__name__} {request.node.name}".encode()))


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What pooling's kernel says of the ways it took, call by call."""
    taken: list[int] = []
    kernels = pooling._pool  # of the instruction set that the test uses
    pool = kernels.pool
    monkeypatch.setattr(kernels, "pool", lambda *arguments: taken.append(pool(*arguments)) or taken[-1])
    return taken


@pytest.fixture(autouse=True)
def default_threads(monkeypatch):
    """Threads as on a machine that does nothing else: calls before, on a busy one, would make a call serial."""
    for name in ("REPAID", "_alone_until", "_losses"):
        monkeypatch.setattr(_threads, name, 0)
    yield
    cu.set_num_threads(None)
