from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cunpool as cu
from cunpool import _find_build
from cunpool._kernels import runtime as _runtime

SOURCE = Path(_find_build.__file__).parent
INSTALLED = Path(_runtime.__file__).parent.parent.parent


@pytest.fixture
def checkout(tmp_path):
    """A folder with the package's Python files and no compiled module."""
    shutil.copytree(SOURCE, tmp_path / "cunpool", ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__"))
    return tmp_path


def test_python_started_in_a_checkout_uses_the_installed_package(checkout):
    code = "import cunpool as cu; print(cu.max_pool1d([[1, 2]], 2), cu.__path__[0], cu.__file__)"
    run = subprocess.run([sys.executable, "-c", code], cwd=checkout, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["[[2]]", cu.__path__[0], str(checkout / "cunpool" / "__init__.py")]


def test_without_an_installed_package_the_error_says_how_to_build(checkout):
    code = f"import sys; sys.path = [p for p in sys.path if p != {str(INSTALLED)!r}]; import cunpool"
    run = subprocess.run([sys.executable, "-c", code], cwd=checkout, capture_output=True, text=True)
    assert run.returncode == 1
    assert "ImportError: cunpool's compiled modules are missing" in run.stderr
    assert "pip install ." in run.stderr
