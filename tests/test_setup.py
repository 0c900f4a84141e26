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


@pytest.mark.slow
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


@pytest.mark.slow
def test_an_edited_header_or_pxd_file_rebuilds_what_includes_it(tmp_path):
    """In a package of the same layout with two modules, of which one includes what is edited."""
    pytest.importorskip("Cython", reason="what builds is not installed here")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    kernels = tmp_path / "cunpool" / "_kernels"
    (kernels / "common").mkdir(parents=True)
    (tmp_path / "cunpool" / "__init__.py").write_text("__version__ = '0'\n")
    for name in ("__init__.py", "__init__.pxd", "common/__init__.pxd"):
        (kernels / name).touch()
    (kernels / "other.pyx").write_text("other = 1\n")
    (kernels / "sum.pyx").write_text(
        "from cunpool._kernels.common.parts cimport from_header, from_pxd\nsum = from_header() + from_pxd()\n"
    )
    pxd, outer, inner = (kernels / "common" / name for name in ("parts.pxd", "outer.h", "inner.h"))
    outer.write_text('#include "inner.h"\nstatic int from_header(void) { return 1 + INNER; }\n')
    inner.write_text("#define INNER 10\n")
    pxd.write_text(
        'cdef extern from "_kernels/common/outer.h":\n    int from_header()\n'
        "cdef inline int from_pxd():\n    return 100\n"
    )

    def built() -> int:
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        env = {**os.environ, "CUNPOOL_QUICK": "1", "PYTHONPATH": ""}
        subprocess.run(command, cwd=tmp_path, env=env, check=True, capture_output=True, text=True, timeout=300)
        code = "from cunpool._kernels import other, sum; print(sum.sum)"
        return int(
            subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, check=True, capture_output=True).stdout
        )

    assert built() == 111
    (module,) = kernels.glob("other.*.so")
    age = module.stat().st_mtime_ns
    for file, before, after, right in (
        (outer, "1 + INNER", "2 + INNER", 112),
        (inner, "INNER 10", "INNER 20", 122),
        (pxd, "return 100", "return 200", 222),
    ):
        file.write_text(file.read_text().replace(before, after))
        assert built() == right, file.name
    assert module.stat().st_mtime_ns == age, "a module that includes none of them was built again"
