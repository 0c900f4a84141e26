"""The filters beside SciPy: its own tests, and random calls."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import cunpool as cu
from cunpool import ndimage

scipy_ndimage = pytest.importorskip("scipy.ndimage")

# Words in the names of SciPy's tests that call these filters.
WORDS = "minimum or maximum or minmax or grey or axes or footprint or origin or modes or Threading or Dilate or length"


@pytest.mark.slow
def test_scipys_own_tests_pass(tmp_path):
    here = Path(__file__).parent
    paths = [str(Path(cu.__file__).parent.parent), str(here), *sys.path]
    files = ["scipy.ndimage.tests.test_filters", "scipy.ndimage.tests.test_morphology"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "scipy_substitution", "-p", "no:cacheprovider", "-p", "no:xdist",
         "--pyargs", *files, "-k", WORDS],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr
    assert int(re.search(r"(\d+) tests called cunpool", run.stdout)[1]) > 300, run.stdout[-500:]


MODES = ["reflect", "constant", "nearest", "mirror", "wrap", "grid-mirror"]
DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "f4", "f8", ">i2", ">f4", ">u8"]


def random_call(rng, name):
    """Arguments of a filter, some of them wrong."""
    is_1d = name.endswith("1d")
    ndim = int(rng.integers(is_1d, 5))
    shape = tuple(rng.integers(1, (1, 40, 12, 8, 6)[ndim], ndim))
    dtype = np.dtype(str(rng.choice(DTYPES)))
    x = rng.integers(0, rng.choice([4, 100]), shape)
    if dtype.kind in "if":
        x -= 40
    x = np.asarray(x, order=str(rng.choice(["C", "F"]))).astype(dtype)
    least = 0 if dtype.kind in "bu" else -5
    options = {"mode": str(rng.choice(MODES)), "cval": float(rng.choice([least, 0, 0.5, 1]))}
    output = rng.random()
    if output < 0.3:
        kinds = ["f4", "f8", "i4", "i8", ">f8"] + ["u1"] * (dtype.kind in "bu")  # what C leaves undefined is no test
        options["output"] = np.dtype(str(rng.choice(kinds)))
    elif output < 0.5:
        options["output"] = np.zeros(shape, dtype)
    if is_1d:
        size = int(rng.integers(1, 30))
        origin = int(rng.integers(-(size // 2) - 1, (size - 1) // 2 + 2))
        return x, {"size": size, "axis": int(rng.integers(-ndim, ndim)), "origin": origin, **options}
    count = ndim
    if rng.random() < 0.5:
        count = int(rng.integers(ndim + 1))
        options["axes"] = tuple(map(int, rng.permutation(ndim)[:count]))
    sizes = [int(size) for size in rng.integers(1, 6, count)]
    origins = [int(rng.integers(-(size // 2), (size - 1) // 2 + 1)) for size in sizes]
    options["origin"] = origins if rng.random() < 0.7 else int(rng.integers(-1, 2))
    if rng.random() < 0.5:
        options["size"] = sizes if rng.random() < 0.7 else sizes[0] if sizes else 3
    else:
        footprint = rng.random(sizes) < rng.choice([0.3, 0.6, 1])
        footprint.flat[:1] = True
        options["footprint"] = footprint
        if "grey" in name and "axes" not in options and ndim and rng.random() < 0.4:
            options["structure"] = np.zeros(sizes)
        elif rng.random() < 0.2:
            options["size"] = 3
    if rng.random() < 0.3:
        options["mode"] = [str(mode) for mode in rng.choice(MODES, count)]
    return x, options


def called(module, name, x, options):
    """The result of a filter or its error, and how often it warns."""
    if isinstance(options.get("output"), np.ndarray):
        options = {**options, "output": options["output"].copy()}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            return getattr(module, name)(x, **options), len(caught)
        except (RuntimeError, ValueError) as error:
            return error, 0


@pytest.mark.parametrize("name", ndimage.__all__)
def test_random_calls(rng, name):
    for _ in range(150):
        x, options = random_call(rng, name)
        (theirs, warned), (ours, we_warned) = (called(m, name, x, options) for m in (scipy_ndimage, ndimage))
        if isinstance(theirs, Exception):
            assert isinstance(ours, ValueError), options
            assert isinstance(ours, type(theirs)) or isinstance(theirs, ValueError), options
            continue
        assert not isinstance(ours, Exception), (ours, options)
        assert bool(warned) == bool(we_warned)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs, err_msg=str(options))
