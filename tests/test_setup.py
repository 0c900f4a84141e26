from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.skipif(
    not (ROOT / "setup.py").exists() or sys.platform == "win32", reason="needs a checkout, and a compiler chosen by CC"
)


def build(folder: Path, **environment: str) -> subprocess.CompletedProcess:
    """Begin a build of the checkout, in another folder."""
    pytest.importorskip("Cython", reason="what builds is not installed here")
    command = [
        sys.executable,
        str(ROOT / "setup.py"),
        "build_ext",
        "--build-lib",
        str(folder),
        "--build-temp",
        str(folder),
    ]
    env = {**os.environ, **environment}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)


def test_no_compiler_is_one_line(tmp_path):
    run = build(tmp_path, CC="/nonexistent")
    assert run.returncode == 1
    assert run.stdout == ""
    assert run.stderr.count("\n") == 1
    assert run.stderr.startswith("cunpool: no C compiler that can build a Python module (CC is '/nonexistent'): ")
    assert ("apt-get install gcc python3-dev" if sys.platform == "linux" else "") in run.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a compiler")
@pytest.mark.parametrize(("wish", "refused"), [("", False), ("auto", False), ("maybe", True)])
def test_openmp_that_is_set_to_nothing_is_not_set(tmp_path, wish, refused):
    """With a compiler that compiles what is tried out, and no module."""
    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\ncase "$*" in *cython*) echo no modules >&2; exit 1;; esac\nexec cc "$@"\n')
    compiler.chmod(0o700)
    run = build(tmp_path, CC=str(compiler), CUNPOOL_OPENMP=wish)
    assert run.returncode != 0
    assert ("CUNPOOL_OPENMP must be on, off or auto, got 'maybe'" in run.stderr) == refused
    assert ("no modules" in run.stderr) != refused
