"""The figures of README.md, docs/index.md, docs/benchmarks.md and README.md here: ``python benchmarks/figures.py``.

Each is computed from results.json, and stands between the comments ``<!-- figures: NAME -->`` and ``<!-- end of figures
-->`` of a page. This rewrites what lies between them, and the charts. ``--measure`` runs the benchmark first, in 40
minutes, and replaces results.json.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import aims
import report
from shared import bench

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
PAGES = [
    HERE.parent / "README.md",
    HERE.parent / "docs/index.md",
    HERE.parent / "docs/benchmarks.md",
    HERE / "README.md",
]
HOW = ["--rounds", "4", "--block", "0.008", "--seconds", "3"]  # of the run that the pages have

Cells = list[dict[str, Any]]
Results = dict[str, Any]
TITLES = {
    "unpool": "unpooling",
    "pool": "pooling with indices",
    "unpool gradient": "unpooling's gradient",
    "pool gradient": "pooling's gradient",
}
ORDERS = [  # layout, N and C, words
    ("channels last", [1, 3], "interleaved images, 3 channels"),
    ("channels last", [1, 8], "8 channels last"),
    ("channels last", [1, 512], "512 channels last"),
    ("Fortran", [1, 1], "a volume in Fortran order"),
    ("Fortran", [1, 16], "16 channels in Fortran order, which are neighbours then"),
    ("Fortran", [8, 16], "a batch of 8 in Fortran order, whose planes are neighbours"),
    ("transposed", [1, 16], "transposed planes"),
    ("sliced", [1, 16], "slices with a step of 2"),
    ("reversed", [1, 16], "reversed rows"),
]
PACKAGES = {"PyTorch": "torch", "ONNX Runtime": "onnxruntime", "PaddlePaddle": "paddlepaddle", "NumPy": "numpy"}


def table(*rows: Iterable[str]) -> str:
    head, *rest = [[*row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rest])


def both(values: Iterable[float], digits: int = 1) -> str:
    """One figure for each number of threads, or nothing if there is none."""
    texts = [f"{value:.{digits}f}" for value in values]
    return "" if "nan" in texts else ", ".join(texts)


def mean(cells: Cells, name: str, threads: int) -> float:
    """The geometric mean of a contestant's time divided by cunpool's."""
    return float(bench.geometric_mean(r[0] for cell in cells if (r := report.ratio(cell, name, threads))))


def plain(results: Results, op: str) -> Cells:
    return [cell for cell in results["cells"] if cell["op"] == op and cell["plain"]]


def short(results: Results, times: str) -> str:
    """PyTorch's and ONNX Runtime's means with the largest number of threads."""
    threads = report.threads_of(results)[-1]
    rows = [
        [TITLES[op], *(f"{mean(plain(results, op), name, threads):.1f}{times}" for name in ("torch", "onnxruntime"))]
        for op in ("unpool", "pool")
    ]
    return table(
        ["times as long as cunpool" if times else "time divided by cunpool's", "PyTorch", "ONNX Runtime"], *rows
    )


def images(results: Results) -> str:
    """Libraries for images, in one case each."""
    rows = []
    for window, name, call in (
        ("2/2", "skimage", "scikit-image's `block_reduce`, 2 x 2"),
        ("15/1 pad 7", "scipy", "SciPy's `maximum_filter`, 15 x 15"),
        ("15/1 pad 7", "opencv", "OpenCV's `cv2.dilate`, 15 x 15"),
        ("7/1 pad 3", "opencv", "OpenCV's `cv2.dilate`, 7 x 7"),
        ("3/1 pad 1", "opencv", "OpenCV's `cv2.dilate`, 3 x 3"),
    ):
        cells = [cell for cell in results["cells"] if cell["name"] == f"pool 1x1x1080x1920 {window} no indices"]
        rows.append([call, *(f"{mean(cells, name, threads):.1f}" for threads in report.threads_of(results))])
    return table(["time divided by cunpool's", *threads_named(results)], *rows)


def threads_named(results: Results) -> list[str]:
    return [f"{threads} thread{'s' * (threads > 1)}" for threads in report.threads_of(results)]


def means(results: Results) -> str:
    """Every library's means."""
    names = ["torch", "onnxruntime", "paddle", "numpy", "numba"]
    rows = []
    for op, title in TITLES.items():
        values = {name: [mean(plain(results, op), name, t) for t in report.threads_of(results)] for name in names}
        rows.append([title, *(both(values[name]) for name in names)])
    titles = [report.PEERS[name] for name in names]
    versions = [results["versions"].get(PACKAGES.get(title), "").partition("+")[0] for title in titles]
    return table(["", *(f"{title} {version}".strip() for title, version in zip(titles, versions, strict=True))], *rows)


def second(results: Results) -> str:
    """cunpool's gain by the second thread, above a megabyte, and its loss without `out`."""
    one, two = report.threads_of(results)
    gains = []
    for op in TITLES:
        large = [cell for cell in plain(results, op) if 4 * math.prod(cell["full"]) > 10**6]
        gains.append(bench.geometric_mean(report.our_median(c, one) / report.our_median(c, two) for c in large))
    outs = [cell for cell in results["cells"] if cell["out"] and cell["format"] == "plane" and not cell["group"]]
    found = [report.by_another(outs, results["cells"], threads, out=False) for threads in (one, two)]
    ratios = " and ".join(f"{bench.geometric_mean(value for value, _ in pairs):.2f}" for pairs in found)
    return (
        f"Above a megabyte, the second thread makes cunpool {min(gains):.1f} to {max(gains):.1f} times faster.\n"
        f"With `out=`, calls take {ratios} times as long as with a new result, in the mean of {len(outs)} cases."
    )


def codes(results: Results) -> str:
    """Window codes beside PyTorch's indices and cunpool's own, of the cases in no group."""
    rows, every, counts = [], results["cells"], report.threads_of(results)
    for op, title in (("pool", "pooling to codes"), ("unpool", "unpooling by codes, both with `out=`")):
        found = [cell for cell in every if (cell["op"], cell["format"], cell["group"]) == (op, "window", "")]
        own = [[1 / value for value, _ in report.by_another(found, every, t, format="plane")] for t in counts]
        rows.append([title, both(mean(found, "torch", t) for t in counts), both(map(bench.geometric_mean, own))])
    titled = [{title: found for title, _, found in aims.within(every, threads)} for threads in counts]
    ratios = [[value for value, _ in found["int64 by window codes"]] for found in titled]
    slower = both((sum(value < 1 for value in values) for values in ratios), 0)
    title = f"all {len(ratios[0])} cases with codes; slower in {slower} of them"
    rows.append([title, "", both(map(bench.geometric_mean, ratios), 2)])
    return table(["times faster", "than PyTorch's indices", "than cunpool's int64 indices"], *rows)


def ahead(results: Results) -> str:
    """How often each library is faster, and the groups in which its mean is below 1."""
    rows, every, counts = [], results["cells"], report.threads_of(results)
    for name, title in report.PEERS.items():
        found = [[r for cell in every if (r := report.ratio(cell, name, t))] for t in counts]
        faster = [sum(high < 1 for _, _, high in ratios) for ratios in found]
        if not found[0]:
            continue
        groups = []
        for group in dict.fromkeys(report.lane(cell) for cell in every):
            cells = [cell for cell in every if report.lane(cell) == group]
            values = [mean(cells, name, threads) for threads in counts]
            if min(values) < 1:  # not of nan
                groups.append((min(values), f"{group} ({both(values, 2)})"))
        least, case = min((r[0], cell["name"]) for c in counts for cell in every if (r := report.ratio(cell, name, c)))
        where = "<br>".join(text for _, text in sorted(groups)) or "none"
        rows.append((least, [title, f"{both(faster, 0)} of {len(found[0])}", where, f"{least:.2f}: {case}"]))
    head = ["library", "faster in", "groups of cases with a mean below 1", "least ratio"]
    return table(head, *(row for _, row in sorted(rows)))


def orders(results: Results) -> str:
    """Other memory orders beside C order, and the cases that take more than three times as long."""
    rows, slow, counts = [], [], report.threads_of(results)
    for layout, lead, words in ORDERS:
        group = [cell for cell in results["cells"] if cell["group"] == f"{layout} beside C order"]
        row = [words]
        for op, is_indexed in (("pool", True), ("pool", False), ("unpool", True)):
            cells = [c for c in group if (c["op"], c["index"] != "none", c["full"][:2]) == (op, is_indexed, lead)]
            found = [report.by_another(cells, results["cells"], threads, layout="contiguous") for threads in counts]
            row.append(both(bench.geometric_mean(value for value, _ in pairs) for pairs in found))
            for pairs in zip(*found, strict=True):
                values = [value for value, _ in pairs]
                if max(values) > 3:
                    slow.append([f"`{pairs[0][1]['name']}`", both(values)])
        rows.append(row)
    text = table(["", "pooling with indices", "without", "unpooling"], *rows)
    return text + "\n\n" + table(["more than three times as long take", "time by C order's"], *slow)


def aims_table(results: Results) -> str:
    return "\n".join(aims.lines(results))


def certain(results: Results) -> str:
    """In how many ratios the quartiles are far apart."""
    found = [report.ratio(cell, name, t) for cell in results["cells"] for name in report.PEERS for t in (1, 2)]
    spreads = [high / low for _, low, high in filter(None, found)]
    apart = sum(spread > 2 for spread in spreads)
    return f"The quartiles are more than a factor of two apart in {apart} of {len(spreads):,} ratios."


FIGURES: dict[str, Callable[[Results], str]] = {
    "short": lambda results: short(results, " \N{MULTIPLICATION SIGN}"),
    "home": lambda results: short(results, ""),
    "images": images,
    "means": means,
    "second": second,
    "codes": codes,
    "ahead": ahead,
    "orders": orders,
    "aims": aims_table,
    "certain": certain,
}


def written(text: str, results: Results) -> str:
    """A page with its figures replaced by those of a run."""
    pattern = r"(<!-- figures: (\w+) -->\n+)(.*?)(\n+<!-- end of figures -->)"
    return re.sub(pattern, lambda found: found[1] + FIGURES[found[2]](results) + found[4], text, flags=re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="run the benchmark first, in 40 minutes")
    if parser.parse_args().measure:
        import compare

        results = compare.run(compare.parsed(HOW))
        RESULTS.write_text(report.dumped(results), "utf-8")
    results = json.loads(RESULTS.read_text("utf-8"))
    for page in PAGES:
        page.write_text(written(page.read_text("utf-8"), results), "utf-8")
    report.chart(results, RESULTS.with_name("chart"))
    report.table(results)
    report.summary(results)


if __name__ == "__main__":
    main()
