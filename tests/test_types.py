"""What type checkers know of users' calls: `types` has typical code, and mistakes that have to be found."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import shutil
import subprocess
import sys
import textwrap
import typing
from pathlib import Path

import numpy as np
import pytest

import cunpool as cu
from cunpool import _overloads, ndimage
from cunpool._ndimage import _overloads as _filters

FILES = Path(__file__).parent / "types"
HOME = Path(cu.__file__).parent.parent
FRONT_ENDS = {"numpy": [], "torch": ["torch"], "dask": ["dask"]}


@pytest.fixture(params=FRONT_ENDS)
def files(request, tmp_path):
    """The two files for a front end, where nothing of this checkout is beside them."""
    for module in FRONT_ENDS[request.param]:
        pytest.importorskip(module)
    names = [f"{request.param}_users.py", f"{request.param}_mistakes.py"]
    for name in names:
        shutil.copy(FILES / name, tmp_path)
    return tmp_path, names


@pytest.mark.slow
def test_mypy_accepts_typical_code_and_finds_mistakes(files):
    """A comment `ignore` without need is an error to it too."""
    pytest.importorskip("mypy")
    folder, names = files
    environment = dict(os.environ)
    if HOME.name != "site-packages":  # where mypy looks anyway
        environment["MYPYPATH"] = str(HOME)
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent", *names],
        cwd=folder, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert run.stdout == "Success: no issues found in 2 source files\n", run.stdout + run.stderr


@pytest.mark.slow
def test_pyright_accepts_typical_code_and_finds_mistakes(files):
    pytest.importorskip("pyright")
    folder, names = files
    options = {"typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": "error"}
    # Dask exports its functions in a way that pyright takes for private.
    options["reportPrivateImportUsage"] = "none"
    (folder / "pyrightconfig.json").write_text(json.dumps({**options, "extraPaths": [str(HOME)]}))
    run = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", *names],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    if not run.stdout.startswith("{"):
        pytest.skip(f"pyright does not run here: {run.stderr[-200:]}")
    report = json.loads(run.stdout)
    assert report["summary"]["filesAnalyzed"] == 2
    assert report["generalDiagnostics"] == []


NONE = inspect.Parameter.empty
PROTOCOLS = [
    *((name, _overloads.MaxPool) for name in ("max_pool1d", "max_pool2d", "max_pool3d")),
    *((name, _overloads.MaxUnpool) for name in ("max_unpool1d", "max_unpool2d", "max_unpool3d")),
    *((f"max_pool{n}d_backward", _overloads.MaxPoolBackward) for n in (1, 2, 3)),
    *((f"max_unpool{n}d_backward", _overloads.MaxUnpoolBackward) for n in (1, 2, 3)),
    *((f"take_at{n}d", _overloads.TakeAt) for n in (1, 2, 3)),
    *((f"adaptive_max_pool{n}d", _overloads.AdaptiveMaxPool) for n in (1, 2, 3)),
    *((f"adaptive_max_unpool{n}d", _overloads.AdaptiveMaxUnpool) for n in (1, 2, 3)),
    *((f"adaptive_max_pool{n}d_backward", _overloads.AdaptiveMaxPoolBackward) for n in (1, 2, 3)),
    *((f"adaptive_max_unpool{n}d_backward", _overloads.AdaptiveMaxUnpoolBackward) for n in (1, 2, 3)),
]


def overloads_of(protocol) -> list[dict]:
    """For each overload, in order, the parameters but `self`, and their defaults."""
    (told,) = ast.parse(textwrap.dedent(inspect.getsource(protocol))).body
    overloads = []
    for function in told.body:
        if isinstance(function, ast.FunctionDef):
            given = function.args
            names = [argument.arg for argument in (*given.args, *given.kwonlyargs)][1:]
            values = [None] * (len(given.args) - len(given.defaults)) + given.defaults + given.kw_defaults
            defaults = [NONE if value is None else ast.literal_eval(value) for value in values[1:]]
            overloads.append(dict(zip(names, defaults, strict=True)))
    return overloads


def check(function, overloads: list[dict]) -> None:
    """Each has the function's parameters, and their defaults, or none where a flag in its place is told."""
    real = {parameter.name: parameter.default for parameter in inspect.signature(function).parameters.values()}
    for told in overloads:
        # A flag that is told by name alone comes later than in the function.
        names = [name for name in told if name != "return_indices"]
        assert names == [name for name in real if name != "return_indices"]
        assert all(default in (real[name], NONE) for name, default in told.items())
    assert overloads[0] == real


@pytest.mark.parametrize(("name", "protocol"), PROTOCOLS, ids=[name for name, _ in PROTOCOLS])
def test_what_type_checkers_are_told_are_the_functions_parameters(name, protocol):
    overloads = overloads_of(protocol)
    count = {_overloads.MaxPool: 7, _overloads.AdaptiveMaxPool: 7}
    count |= {_overloads.MaxUnpoolBackward: 4, _overloads.AdaptiveMaxUnpoolBackward: 4}
    assert len(overloads) == count.get(protocol, 2)
    check(getattr(cu, name), overloads)


def test_filters_are_told_as_they_are():
    for names, protocol in (
        (("maximum_filter", "minimum_filter"), _filters.Filter),
        (("maximum_filter1d", "minimum_filter1d"), _filters.Filter1d),
        (("grey_dilation", "grey_erosion"), _filters.Morphology),
    ):
        overloads = overloads_of(protocol)
        assert len(overloads) == 3
        for name in names:
            check(getattr(ndimage, name), overloads)


@pytest.mark.parametrize(("module", "front_end"), [("_dask._overloads", "dask"), ("torch._overloads", "torch")])
def test_other_front_ends_are_told_as_they_are(module, front_end):
    pytest.importorskip(front_end)
    signatures, functions = (importlib.import_module(f"cunpool.{name}") for name in (module, front_end))
    overloads = overloads_of(signatures.MaxPool)
    assert len(overloads) == 4
    for n in (1, 2, 3):
        check(getattr(functions, f"max_pool{n}d"), overloads)


def test_results_and_modules_take_their_types_in_annotations():
    assert typing.get_origin(cu.MaxPoolResult[np.float32]) is cu.MaxPoolResult
    assert typing.get_origin(cu.MaxPool2d[typing.Literal[True]]) is cu.MaxPool2d
    pool = cu.MaxPool2d[typing.Literal[True]](2, return_indices=True)
    assert isinstance(pool(np.ones((1, 2, 2))), cu.MaxPoolResult)
    for n in (1, 2, 3):
        protocol_free = inspect.signature(getattr(cu, f"MaxPool{n}d"))
        assert list(protocol_free.parameters) == [
            *("kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"),
            *("index_format", "index_dtype", "nan_policy", "channel_axis"),
        ]
