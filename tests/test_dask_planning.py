"""The plan for a volume larger than any machine here, compared with small graphs."""

from __future__ import annotations

import importlib
import sys
from math import prod
from pathlib import Path

import numpy as np
import pytest

da = pytest.importorskip("dask.array")
lazy = importlib.import_module("cunpool.dask")

ROOT = Path(__file__).parent.parent


@pytest.fixture
def planning(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    yield importlib.import_module("dask_planning")
    sys.modules.pop("dask_planning")


@pytest.mark.parametrize("chunk", [8, 16])
@pytest.mark.parametrize(("overlap", "window"), [(0, (2,)), (2, (3, 1, 1)), (3, (4, 1, 1))], ids=["2", "3", "4"])
@pytest.mark.parametrize("results", [1, 2])
def test_the_formulae_are_those_of_the_graphs(planning, chunk, overlap, window, results):
    size = 32
    x = da.zeros((1, size, size, size), np.uint8, chunks=(1, chunk, chunk, chunk), name="source")
    arrays = lazy.max_pool3d(x, *window, return_indices=results == 2)
    arrays = arrays if results == 2 else (arrays,)
    graph = {key for array in arrays for key in dict(array.__dask_graph__())}
    cut = [key for key in graph if key[0].startswith("cut-")]
    planned = planning.cost(size, chunk, overlap, results)
    assert planned.chunks == len([key for key in graph if key[0] == "source"])
    assert planned.tasks == len(graph) - planned.chunks
    assert planned.moved == sum(prod(b - a for a, b in zip(key[-6::2], key[-5::2], strict=True)) for key in cut)
    assert planned.share == planned.moved / size**3


def test_the_page_shows_what_the_plan_says(planning, capsys):
    if not (ROOT / "docs").exists():
        pytest.skip("no documentation here")
    assert any(planning.table() in page.read_text() for page in (ROOT / "docs").glob("*.md"))
    ten_terabytes = planning.cost(planning.SIZE, 512)
    assert (planning.SIZE**3 // 10**12, ten_terabytes.chunks, ten_terabytes.moved) == (9, 42**3, 0)
