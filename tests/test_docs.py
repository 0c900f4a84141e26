from __future__ import annotations

import doctest
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cunpool as cu

README = Path(__file__).parent.parent / "README.md"


@pytest.mark.parametrize("name", ["_threads", "indices", "memory", "modules", "pooling", "unpooling"])
def test_docstring_examples(name):
    module = importlib.import_module(f"cunpool.{name}")
    result = doctest.testmod(module)
    assert result.attempted > 3
    assert result.failed == 0


def test_every_public_name_has_an_example_and_no_gap():
    for name in cu.__all__:
        if name != "__version__":
            text = inspect.getdoc(getattr(cu, name))
            assert "Examples\n--------" in text, name
            assert not re.search(r"\{\w+\}", text), name


def test_readme_examples(tmp_path, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), space)


def test_readme_names_the_whole_api():
    text = README.read_text()
    for name in cu.__all__:
        assert re.sub(r"[23]d", "1d", name) in text, name


def test_cunpool_works_without_docstrings():
    code = "import cunpool as cu; assert cu.max_pool2d.__doc__ is None; print(cu.max_pool1d([[1, 2]], 2))"
    run = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[[2]]\n"


@pytest.mark.parametrize("name", ["README.md", "SECURITY.md"])
def test_promises_name_tests_that_exist(name):
    named = set(re.findall(r"`(test_\w+)`", (README.parent / name).read_text()))
    here = "".join(path.read_text() for path in README.parent.glob("tests/test_*.py"))
    assert len(named) > 7
    assert {test for test in named if f"def {test}(" not in here} == set()
