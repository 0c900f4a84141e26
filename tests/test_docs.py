from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import inspect
import itertools
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from fuzzing.worker import KINDS

import cunpool as cu

ROOT = Path(__file__).parent.parent
PROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
# What pages may import beside NumPy and cunpool; a block is left out where one of them is not installed.
OTHERS = (
    "torch",
    "dask",
    "onnx",
    "onnxscript",
    "onnxruntime",
    "skimage",
    "scipy",
    "cv2",
    "bottleneck",
    "xarray",
    "pandas",
    "nibabel",
    "zarr",
)
# Some of .ci's scripts run the tests beside the pages in the root and nothing else.
of_the_repository = pytest.mark.skipif(not (ROOT / "docs").exists(), reason="the repository's other files are not here")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "._explain",
        "._peaks",
        "._threads",
        ".adaptive",
        ".indices",
        ".memory",
        ".modules",
        ".ndimage",
        ".pooling",
        ".taking",
        ".unpooling",
    ],
)
def test_docstring_examples(name):
    module = importlib.import_module(f"cunpool{name}")
    result = doctest.testmod(module)
    assert result.attempted > 3
    assert result.failed == 0


def test_docstring_examples_of_warnings():
    space = {"cu": cu}
    test = doctest.DocTestParser().get_doctest(cu.LayoutWarning.__doc__, space, "LayoutWarning", None, 0)
    assert doctest.DocTestRunner().run(test) == (5, 0)[::-1]


def test_every_public_name_has_an_example_and_no_gap():
    for name in cu.__all__:
        if name != "__version__":
            text = inspect.getdoc(getattr(cu, name))
            assert "Examples\n--------" in text, name
            assert not re.search(r"\{\w+\}|\w -----", text), name


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
    assert "Parameters" in sections(text) or name.startswith("AdaptiveMaxUnpool")  # which stores no arguments
    assert re.findall(".*2d.*", text) == re.findall(".*[Ss]ee `.*2d.*", text)
    if name.islower():  # a function
        named = set(re.findall(r"^(\w+) : ", text, re.MULTILINE))
        assert set(inspect.signature(getattr(cu, name)).parameters) <= named


def test_every_public_module_says_what_is_public():
    everything = set()
    for name in ("adaptive", "indices", "memory", "minima", "modules", "pooling", "taking", "unpooling"):
        module = importlib.import_module(f"cunpool.{name}")
        own = {public for public in module.__all__ if not re.search("^min_unpool|^MinUnpool|^min_.*backward", public)}
        assert {getattr(module, public).__module__ for public in own} == {module.__name__}
        everything |= set(module.__all__)
    others = {"LayoutWarning", "MaxPoolResult", "__version__", "explain", "get_num_threads", "openmp_enabled"}
    assert everything - {"CacheInfo"} | others | {"peaks", "set_num_threads"} == set(cu.__all__)


def test_every_filter_has_an_example_and_no_gap():
    module = importlib.import_module("cunpool.ndimage")
    for name in module.__all__:
        text = inspect.getdoc(getattr(module, name))
        assert f"`{name}`" in module.__doc__
        assert "Examples\n--------" in text, name
        assert not re.search(r"\{\w+\}", text), name
        assert set(inspect.signature(getattr(module, name)).parameters) <= set(
            re.findall(r"^(\w+) : ", text, re.MULTILINE)
        )


def test_help_begins_with_an_example_and_the_calls():
    text = inspect.getdoc(cu)
    assert text.index(">>> import numpy") < text.index("`max_pool1d`") < text.index("channel_axis=-1")
    for name in cu.__all__:
        if name != "__version__":
            family = re.sub("[23]d", "1d", name)
            assert f"`{family}`" in text, name


def pages(*patterns: str) -> list[Path]:
    return [page for pattern in patterns for page in sorted(ROOT.glob(pattern))]


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks_of(page: Path) -> list[tuple[str, str]]:
    """The kind and the lines of each block of code."""
    return re.findall(r"^```(\S*)\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def missing(code: str) -> list[str]:
    """What of the others' libraries a block imports and is not installed."""
    imported = set(re.findall(r"^ *(?:>>> )?(?:import|from) (.+)", code, re.MULTILINE))
    words = {word for line in imported for word in re.findall(r"\w+", line)}
    return [name for name in OTHERS if name in words and importlib.util.find_spec(name) is None]


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # PyTorch's exporter, about itself
@pytest.mark.parametrize("page", pages("README.md", "docs/*.md"), ids=named)
def test_every_block_of_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space: dict = {"__name__": "page"}
    left = []
    for number, (kind, code) in enumerate(blocks_of(page)):
        assert kind in ("python", "pycon", "sh", "text") or kind.startswith("{"), kind
        if absent := missing(code):
            left += absent
        elif kind == "python":
            exec(compile(code, f"{page.name}, block {number}", "exec"), space)
        elif kind == "pycon":
            test = doctest.DocTestParser().get_doctest(code, space, page.name, str(page), 0)
            said: list[str] = []
            with warnings.catch_warnings():
                assert doctest.DocTestRunner().run(test, out=said.append, clear_globs=False).failed == 0, "".join(said)
            space.update(test.globs)
    if left:
        pytest.skip(f"some blocks need {', '.join(left)}")


@of_the_repository
@pytest.mark.parametrize("page", pages("*.md", "docs/*.md", "benchmarks/*.md"), ids=named)
def test_what_pages_link_to_and_run_is_there(page):
    text = page.read_text("utf-8")
    extras = set(re.findall(r"^(\w+) = \[", PROJECT.split("[project.optional-dependencies]")[1], re.MULTILINE))
    assert set(re.findall(r"pip install (?:-e )?'(?:cunpool|\.)\[(\w+)", text)) <= extras
    if page.name != "CHANGELOG.md":  # which tells of what is no more
        for path in re.findall(r"(?<![\w/])((?:examples|benchmarks|tests|docs)/[\w./-]*\.\w+|\.ci/\w+(?:\.md)?)", text):
            assert "_build" in path or (ROOT / path).exists(), path
    for link in re.findall(r"\]\(([^)]+)\)", text) + re.findall(r'(?:src|srcset)="([^"]+)"', text):
        if not link.startswith("http"):
            path, _, anchor = link.partition("#")
            target = (page.parent / path) if path else page
            assert target.exists(), link
            headings = re.findall(r"^#+ (.+)", target.read_text("utf-8"), re.MULTILINE) if anchor else []
            slugs = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
            assert not anchor or anchor in slugs, link


@of_the_repository
@pytest.mark.parametrize("stride", range(1, 6))
def test_same_padding_is_what_the_page_on_moving_says(rng, stride):
    """Values and indices of windows that TensorFlow places: the extra element of padding is at the end."""
    code = next(code for kind, code in blocks_of(ROOT / "docs" / "moving.md") if "def same(" in code)
    space: dict = {}
    exec(code, space)
    for size, kernel in itertools.product(range(1, 14), range(1, 7)):
        x = rng.random((1, size))
        before, after = space["same"](size, kernel, stride)
        padded = np.pad(x[0], (before, after), constant_values=-np.inf)
        windows = [padded[start : start + kernel] for start in range(0, stride * -(-size // stride), stride)]
        y, indices = cu.max_pool1d(x, kernel, stride, "same", return_indices=True)
        assert y[0].tolist() == [window.max() for window in windows], (size, kernel)
        starts = range(-before, size, stride)
        assert indices[0].tolist() == [start + window.argmax() for start, window in zip(starts, windows, strict=False)]


def test_the_readme_is_short_and_has_the_two_commands():
    text = (ROOT / "README.md").read_text("utf-8")
    assert text.count("\n") < 120
    commands = [code for kind, code in blocks_of(ROOT / "README.md") if kind == "sh"]
    assert commands == ["pip install '.[demo]' && cunpool demo\n", "pip install '.[test]' && pytest\n"]


def readme_for_an_index() -> str:
    """What setup.py makes of the README for a package index."""
    tree = ast.parse((ROOT / "setup.py").read_text("utf-8"))
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "readme"]
    space = {"re": re, "Path": Path, "__file__": str(ROOT / "setup.py")}
    exec(compile(tree, "setup.py", "exec"), space)
    return space["readme"]()


@of_the_repository
def test_links_of_the_readme_lead_somewhere_from_a_package_index_too():
    pattern = r'(?:\]\(|(?:src|srcset)=")([^)"]+)'
    here, there = (
        re.findall(pattern, text) for text in ((ROOT / "README.md").read_text("utf-8"), readme_for_an_index())
    )
    home = re.search('Repository = "(.+)"', PROJECT)[1]
    assert len(here) > 20
    for link, whole in zip(here, there, strict=True):
        kind = "raw" if link.endswith(".svg") else "blob"
        assert whole == (link if link.startswith("#") else f"{home}/{kind}/main/{link}")


@of_the_repository
def test_a_package_index_shows_how_to_install_the_wheel_and_nothing_of_a_checkout():
    here, there = (ROOT / "README.md").read_text("utf-8"), readme_for_an_index()
    assert "In a checkout" in here
    assert "checkout" not in there
    assert re.findall(r"^```sh\n(.*?)```$", there, re.MULTILINE | re.DOTALL) == ["pip install cunpool\n"]
    assert re.findall(r"^## .+", there, re.MULTILINE) == re.findall(r"^## .+", here, re.MULTILINE)


def takes(module, names: list[str]) -> bool:
    """Whether some of a front end's functions take these arguments, or it has these names."""
    for name in names:
        signatures = [inspect.signature(call).parameters for call in vars(module).values() if inspect.isfunction(call)]
        if not (name in dir(module) or any(name in parameters for parameters in signatures)):
            return False
    return True


def front_ends() -> list[tuple[list[str], dict[str, str]]]:
    """The arguments or names of each row of the table of front ends, and its cells by the heads of their columns."""
    text = (ROOT / "docs" / "filters.md").read_text("utf-8").partition("## Where each of these is")[2]
    head, _, *rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in re.findall(r"^\|.*\|$", text, re.M)]
    return [(re.findall(r"`(?:cunpool\.)?(\w+)`", row[0]), dict(zip(head, row, strict=True))) for row in rows]


@of_the_repository
@pytest.mark.parametrize("front_end", ["torch", "dask"])
def test_the_table_of_front_ends_is_what_they_have(front_end):
    pytest.importorskip(front_end)
    module = importlib.import_module(f"cunpool.{front_end}")
    assert len(front_ends()) > 6
    for names, row in front_ends()[1:]:
        assert row[f"`cunpool.{front_end}`"].partition(":")[0] == ("yes" if takes(module, names) else "no"), row


@of_the_repository
def test_the_table_of_front_ends_is_what_types_and_random_calls_have():
    for column, file in (("types", "types/numpy_users.py"), ("random calls", "fuzzing/right.py")):
        text = (ROOT / "tests" / file).read_text("utf-8")
        for names, row in front_ends()[1:]:
            given = [re.search(rf"\b{re.sub('2d', '[123n{}]+d', name)}\b", text) for name in names]
            assert row[column] == ("yes" if all(given) else "no"), (column, row)


@of_the_repository
def test_the_readmes_figures_and_the_charts_are_those_of_the_results(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    report = importlib.import_module("report")
    results = json.loads((ROOT / "benchmarks" / "results.json").read_text())
    threads = report.threads_of(results)[-1]
    readme, home = ((ROOT / name).read_text("utf-8") for name in ("README.md", "docs/index.md"))
    for op, title in (("unpool", "unpooling"), ("pool", "pooling with indices")):
        rows = report.rows([cell for cell in results["cells"] if cell["op"] == op and cell["plain"]], threads)
        means = {name: f"{mean:.1f}" for name, mean, _, _ in rows}
        times = "\N{MULTIPLICATION SIGN}"
        assert f"| {title} | {means['PyTorch']} {times} | {means['ONNX Runtime']} {times} |" in readme
        assert f"| {title} | {means['PyTorch']} | {means['ONNX Runtime']} |" in home
        text = (ROOT / "benchmarks/chart.svg").read_text("utf-8")  # a comment before each text's outlines has the text
        assert all(f"<!-- {name} -->" in text and f"<!-- {mean}{times} -->" in text for name, mean in means.items())
    figures = importlib.import_module("figures")
    texts = [page.read_text("utf-8") for page in figures.PAGES]
    assert texts == [figures.written(text, results) for text in texts]
    assert figures.written("<!-- figures: short -->\nx\n\n<!-- end of figures -->", results).count("|") == 16
    assert {name for text in texts for name in re.findall("<!-- figures: (.+) -->", text)} == {*figures.FIGURES}
    for name in ("report", "shared", "aims", "figures"):
        del sys.modules[name]


@of_the_repository
def test_every_public_name_is_on_the_apis_page():
    text = (ROOT / "docs" / "api.md").read_text("utf-8")
    for name in cu.__all__:
        assert f"`{name}`" in text, name


@of_the_repository
def test_the_home_page_has_an_install_line_code_a_picture_figures_and_a_card_for_each_page():
    index = ROOT / "docs" / "index.md"
    text = index.read_text("utf-8")
    blocks = blocks_of(index)
    assert ("sh", "pip install .\n") in blocks
    assert any(kind in ("python", "pycon") and "max_unpool2d" in code for kind, code in blocks)
    assert "](pictures/unpooling.svg)" in text
    assert re.search(r"^\| pooling with indices \| [\d.]+ ", text, re.MULTILINE)
    cards = set(re.findall(r"^- \[[^]]+\]\(([\w-]+)\.md\): ", text, re.MULTILINE))
    assert {page.stem for page in pages("docs/*.md")} - {"index", "changelog", "citing"} == cards


@of_the_repository
def test_what_builds_the_site_has_pytorch_and_dask():
    """Their pages are docstrings: without them each is one line."""
    extra = re.search(r"^docs = \[(.*?)^\]", PROJECT, re.MULTILINE | re.DOTALL)[1]
    conf = (ROOT / "docs" / "conf.py").read_text("utf-8")
    needed = set(re.findall(r'"api-\w+": "(\w+)"', conf))
    assert needed == {"torch", "dask"}
    assert {name for name in needed if re.search(rf'"{name}[\[>]', extra)} == needed


@of_the_repository
def test_every_page_is_in_the_sites_contents():
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    assert {page.stem for page in pages("docs/*.md")} - {"index", "README"} == set(
        re.findall(r"^([\w-]+)$", re.sub(r"^```$", "", index, flags=re.MULTILINE), re.MULTILINE)
    )


@of_the_repository
def test_the_pictures_are_those_that_are_drawn(tmp_path):
    spec = importlib.util.spec_from_file_location("draw", ROOT / "docs" / "draw.py")
    draw = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw)
    draw.main(tmp_path)
    committed = {path.name for path in pages("docs/pictures/*")}
    assert {path.name for path in tmp_path.iterdir()} == committed
    text = "".join(page.read_text("utf-8") for page in pages("README.md", "docs/*.md"))
    assert all(name in text for name in committed)


@of_the_repository
@pytest.mark.parametrize("picture", pages("docs/pictures/*.svg", "benchmarks/*.svg"), ids=named)
def test_pictures_are_dark_for_readers_whose_colour_scheme_is(picture):
    """Every replacement is of a declaration that the picture has, and no other grey is left."""
    text = picture.read_text("utf-8")
    style, _, rest = text.partition("</style>")
    dark = dict(re.findall(r'\[style\*="([^"]+)"\] \{ ([^}]+) !important \}', style))
    assert {"fill: #ffffff", "fill: #1a1a1a", "stroke: #1a1a1a"} <= dark.keys()
    greys = {f"{what}: #{grey * 3}" for what, grey in re.findall(r"(fill|stroke): #([0-9a-f]{2})\2\2\b", rest)}
    assert greys <= dark.keys()


@of_the_repository
def test_placeholders_stand_in_pyproject_toml_only():
    files = pages("*.md", "*.cff", "*.py", "docs/*.md", "cunpool/**/*.py", ".github/**/*.yml")
    assert not [path.name for path in files if re.search(r"\b(AUTHOR|OWNER)\b", path.read_text("utf-8"))]


@of_the_repository
def test_the_release_check_names_placeholders_and_versions_that_differ(tmp_path):
    files = {
        ".github/check_release": (ROOT / ".github" / "check_release").read_text("utf-8"),
        "pyproject.toml": 'authors = [{ name = "AUTHOR" }]\nRepository = "https://github.com/OWNER/cunpool"\n',
        "CITATION.cff": 'version: 1.2.3\n  - name: "Ada"\nrepository-code: "https://github.com/ada/cunpool"\n',
        "CHANGELOG.md": "# Changelog\n\n## [1.2.3] - 2026-12-01\n\n## [1.2.2] - 2026-11-01\n",
        "cunpool/__init__.py": '__version__ = "1.2.3"\n',
    }

    def check(*tag: str) -> list[str]:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text, "utf-8")
        command = [sys.executable, str(tmp_path / ".github" / "check_release"), *tag]
        run = subprocess.run(command, capture_output=True, text=True)
        assert not run.stderr
        assert run.returncode == bool(run.stdout)
        return run.stdout.splitlines()

    assert check()[:2] == [f"pyproject.toml: replace the placeholder {word}" for word in ("AUTHOR", "OWNER")]
    files["pyproject.toml"] = files["pyproject.toml"].replace("AUTHOR", "Ada").replace("OWNER", "ada")
    assert check("v1.2.3") == []
    assert check("v1.2.4") == ["the tag is v1.2.4, and cunpool/__init__.py has 1.2.3"]
    files["cunpool/__init__.py"] = '__version__ = "1.2.4"\n'
    assert check() == [
        "CITATION.cff: needs the line 'version: 1.2.4'",
        "CHANGELOG.md: the first heading needs 1.2.4 and a date at its end",
    ]


@of_the_repository
def test_the_citation_has_the_version_of_the_package():
    assert f"\nversion: {cu.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_cunpool_works_without_docstrings():
    code = "import cunpool as cu; assert cu.max_pool2d.__doc__ is None; print(cu.max_pool1d([[1, 2]], 2))"
    run = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[[2]]\n"


@of_the_repository
@pytest.mark.parametrize("name", ["docs/promises.md", "docs/dask.md", "SECURITY.md"])
def test_promises_name_tests_that_exist(name):
    named = set(re.findall(r"`(test_\w+)`", (ROOT / name).read_text("utf-8")))
    here = "".join(path.read_text("utf-8") for path in ROOT.glob("tests/test_*.py"))
    assert len(named) > 2
    assert {test for test in named if f"def {test}(" not in here} == set()


def test_each_promise_of_security_is_kept_by_what_it_names():
    """Tests in the files that are named behind them, cases that the fuzzer deals out, and files that exist."""
    rows = (ROOT / "SECURITY.md").read_text().partition("| kept by |\n|---|---|\n")[2].partition("\n\n")[0].splitlines()
    assert len(rows) >= 8
    for row in rows:
        kept_by = row.split(" | ")[1]
        assert re.search(r"`(test_|tests/|\.ci/)", kept_by) or "the same" in kept_by, row
        for names, file in re.findall(r"((?:`test_\w+`,? )+)\(`(tests/\w+\.py)`\)", kept_by):
            for name in re.findall(r"\w+", names):
                assert f"def {name}(" in (ROOT / file).read_text(), f"{name} is not in {file}"
        for file in re.findall(r"`((?:tests|\.ci)/[\w/.]+)[` ]", kept_by):
            if (ROOT / file.split("/")[0]).exists():  # .ci's own scripts run the tests without .ci
                assert (ROOT / file).exists(), file
    fuzzed = next(row for row in rows if "wrong.py" in row).split(" | ")[1]
    assert set(re.findall(r"`(\w+)`", fuzzed)) == {"hostile", "wrapping", "refusals"}
    assert {"hostile", "wrapping", "refusals"} <= {kind.__name__ for kind in KINDS}
