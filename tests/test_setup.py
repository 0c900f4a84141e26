from __future__ import annotations

import os
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
