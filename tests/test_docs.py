from __future__ import annotations

import doctest
import importlib
import inspect
import itertools
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fuzzing.worker import KINDS

import cunpool as cu

README = Path(__file__).parent.parent / "README.md"


@pytest.mark.parametrize("name", ["", "._threads", ".indices", ".memory", ".modules", ".pooling", ".unpooling"])
def test_docstring_examples(name):
    module = importlib.import_module(f"cunpool{name}")
    result = doctest.testmod(module)
    assert result.attempted > 3
    assert result.failed == 0


def test_every_public_name_has_an_example_and_no_gap():
    for name in cu.__all__:
        if name != "__version__":
            text = inspect.getdoc(getattr(cu, name))
            assert "Examples\n--------" in text, name
            assert not re.search(r"\{\w+\}", text), name


def test_the_recipes_for_other_shapes_are_views(rng):
    image, volumes = rng.random((37, 52, 3)), rng.random((8, 9, 10, 5))
    for given, there, back in (
        (image[:, :, 0].copy(), lambda a: a[None], lambda a: a[0]),
        (image, lambda a: np.moveaxis(a, -1, 0), lambda a: np.moveaxis(a, 0, -1)),
        (volumes, lambda a: np.moveaxis(a, -1, 0)[:, None], lambda a: np.moveaxis(a[:, 0], 0, -1)),
    ):
        x = there(given)
        assert np.shares_memory(x, given)
        n = 3 if x.ndim == 5 else 2
        y, indices = getattr(cu, f"max_pool{n}d")(x, 2, return_indices=True)
        z = back(getattr(cu, f"max_unpool{n}d")(y, indices, 2, output_size=x.shape))
        assert z.shape == given.shape
        assert np.array_equal(z[z != 0], given[z != 0])
        assert z.flags.c_contiguous  # as what was given, though the axes went elsewhere in between


@pytest.mark.parametrize("name", [name for name in cu.__all__ if re.search("[13]d", name)])
def test_one_and_three_axes_have_all_the_sections(name):
    def sections(text):
        return [line for line, below in itertools.pairwise(text.splitlines()) if re.fullmatch("---+", below)]

    text, two = (inspect.getdoc(getattr(cu, which)) for which in (name, re.sub("[13]d", "2d", name)))
    assert sections(text) == sections(two)
    assert "Parameters" in sections(text)
    assert re.findall(".*2d.*", text) == re.findall(".*[Ss]ee `.*2d.*", text)
    if not name.startswith("Max"):
        named = set(re.findall(r"^(\w+) : ", text, re.MULTILINE))
        assert set(inspect.signature(getattr(cu, name)).parameters) <= named


def test_every_public_module_says_what_is_public():
    everything = set()
    for name in ("indices", "memory", "modules", "pooling", "unpooling"):
        module = importlib.import_module(f"cunpool.{name}")
        assert {getattr(module, public).__module__ for public in module.__all__} == {module.__name__}
        everything |= set(module.__all__)
    others = {"__version__", "get_num_threads", "openmp_enabled", "set_num_threads"}
    assert everything - {"CacheInfo"} | others == set(cu.__all__)


def test_help_begins_with_an_example_and_the_calls():
    text = inspect.getdoc(cu)
    assert text.index(">>> import numpy") < text.index("`max_pool1d`") < text.index("How it is built")
    for name in cu.__all__:
        if name != "__version__":
            family = re.sub("[23]d", "1d", name)
            assert f"`{family}`" in text, name


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


def test_each_promise_of_security_is_kept_by_what_it_names():
    """Tests in the files that are named behind them, cases that the fuzzer deals out, and files that exist."""
    root = README.parent
    rows = (root / "SECURITY.md").read_text().partition("| kept by |\n|---|---|\n")[2].partition("\n\n")[0].splitlines()
    assert len(rows) >= 8
    for row in rows:
        kept_by = row.split(" | ")[1]
        assert re.search(r"`(test_|tests/|\.ci/)", kept_by) or "the same" in kept_by, row
        for names, file in re.findall(r"((?:`test_\w+`,? )+)\(`(tests/\w+\.py)`\)", kept_by):
            for name in re.findall(r"\w+", names):
                assert f"def {name}(" in (root / file).read_text(), f"{name} is not in {file}"
        for file in re.findall(r"`((?:tests|\.ci)/[\w/.]+)[` ]", kept_by):
            if (root / file.split("/")[0]).exists():  # an sdist has no .ci
                assert (root / file).exists(), file
    fuzzed = next(row for row in rows if "wrong.py" in row).split(" | ")[1]
    assert set(re.findall(r"`(\w+)`", fuzzed)) == {"hostile", "wrapping", "refusals"}
    assert {"hostile", "wrapping", "refusals"} <= {kind.__name__ for kind in KINDS}
