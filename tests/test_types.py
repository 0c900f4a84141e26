"""What a type checker knows of a user's calls."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import cunpool as cu

# A line with `ignore` is wrong, and has to be found wrong: an ignore without need is an error too.
USERS = """\
import numpy as np
from numpy.typing import NDArray

import cunpool as cu

x = np.zeros((1, 4, 4), np.float32)
flag = bool(x.any())


def array(value: NDArray[np.float32]) -> None: ...
def pair(value: tuple[NDArray[np.float32], NDArray[np.int64]]) -> None: ...


array(cu.{name}(x, 2))
array(cu.{name}(x, 2, None, 0, 1, False, False))
array(cu.{name}(x, 2, return_indices=False, out=x))
pair(cu.{name}(x, 2))  # type: ignore[arg-type]
pair(cu.{name}(x, 2, None, 0, 1, True, False))  # type: ignore[arg-type]

pair(cu.{name}(x, 2, return_indices=True))
pair(cu.{name}(x, 2, 2, 0, 1, False, True, index_dtype=np.int32, num_threads=1))
pair(cu.{name}(x, 2, return_indices=True, out=(None, x)))
values, indices = cu.{name}(x, 2, return_indices=True, index_format="window")
array(values)
array(cu.{name}(x, 2, return_indices=True).values)
array(cu.{name}(x, 2, return_indices=True))  # type: ignore[arg-type]
array(cu.{name}(x, 2, 2, 0, 1, False, True))  # type: ignore[arg-type]

either = cu.{name}(x, 2, return_indices=flag)
array(either)
pair(either)

cu.{name}(x, 2, out=(x, x))  # type: ignore[call-overload]
cu.{name}(x, 2, return_indices=True, out=x)  # type: ignore[call-overload]
cu.{name}(x)  # type: ignore[call-overload]
cu.{name}(x, 2, index_format=3)  # type: ignore[call-overload]
"""


def test_a_type_checker_tells_one_array_from_two(tmp_path):
    pytest.importorskip("mypy")
    names = ("max_pool1d", "max_pool2d", "max_pool3d")
    for name in names:
        (tmp_path / f"{name}.py").write_text(USERS.replace("{name}", name))
    home = Path(cu.__file__).parent.parent
    environment = dict(os.environ)
    if home.name != "site-packages":  # where mypy looks anyway
        environment["MYPYPATH"] = str(home)
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", *(f"{name}.py" for name in names)],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert run.stdout == "Success: no issues found in 3 source files\n", run.stdout + run.stderr
