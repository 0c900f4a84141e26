from __future__ import annotations

import zlib

import numpy as np
import pytest

import cunpool as cu
from cunpool import _pool


def pytest_report_header() -> str:
    return f"cunpool {cu.__version__} from {cu.__path__[0]}, OpenMP {'on' if cu.openmp_enabled() else 'OFF'}"


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that are the same in each run, and others for each test and each of its parameters."""
    return np.random.default_rng(zlib.crc32(f"{request.module.__name__} {request.node.name}".encode()))


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What pooling's kernel says of the ways it took, call by call."""
    taken: list[int] = []
    pool = _pool.pool
    monkeypatch.setattr(_pool, "pool", lambda *arguments: taken.append(pool(*arguments)) or taken[-1])
    return taken


@pytest.fixture(autouse=True)
def default_threads(monkeypatch):
    """Threads as on a machine that does nothing else: calls before, on a busy one, would make a call serial."""
    monkeypatch.setattr("cunpool._threads.REPAID", 0)
    monkeypatch.setattr("cunpool._threads._alone_until", 0.0)
    monkeypatch.setattr("cunpool._threads._losses", 0)
    yield
    cu.set_num_threads(None)
