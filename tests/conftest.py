from __future__ import annotations

import numpy as np
import pytest

import cunpool as cu


def pytest_report_header() -> str:
    return f"cunpool {cu.__version__} from {cu.__path__[0]}, OpenMP {'on' if cu.openmp_enabled() else 'OFF'}"


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240229)


@pytest.fixture(autouse=True)
def default_threads():
    yield
    cu.set_num_threads(None)
