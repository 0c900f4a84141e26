"""The chart: for each contestant a bar from its least to its greatest ratio, and a mark at the geometric mean."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Row = tuple[str, float, float, float]  # whose time, its geometric mean and its range, by cunpool's

THEMES = {"light": ("white", "#1a1a1a", "#8a8a8a"), "dark": ("#131416", "#f0f0f0", "#909090")}
SLOWER, FASTER = "#2a8fd0", "#e8730c"  # than cunpool; the colour-blind can tell them apart, on either ground


def geometric_mean(numbers: Iterable[float]) -> float:
    logarithms = [math.log(number) for number in numbers]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else math.nan


def row(title: str, ratios: list[float]) -> Row:
    return title, geometric_mean(ratios), min(ratios), max(ratios)


def draw(groups: dict[str, list[Row]], path: Path, theme: str, heading: str, left: float = 1.26) -> None:
    """Rows under titles: a bar for the range, a mark and a number at the mean; beyond the line cunpool is faster.

    The names of rows have `left` inches.
    """
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    paper, ink, faint = THEMES[theme]
    height = sum(len(found) + 1.1 for found in groups.values())
    width, inches = left + 2.94, 0.27 * height + 0.85
    figure = Figure(figsize=(width, inches), facecolor=paper)
    axes = figure.add_axes((left / width, 0.5 / inches, 2.77 / width, 1 - 0.85 / inches), facecolor=paper)
    beside: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "color": ink}
    level = 0.0
    for title, found in groups.items():
        axes.text(
            (0.04 - left) / 2.77,
            level,
            title,
            weight="bold",
            bbox={"facecolor": paper, "edgecolor": "none", "pad": 1},
            **beside,
        )
        for number, (name, mean, low, high) in enumerate(found, 1):
            y = level + number - 0.1
            axes.plot([max(low, 1), max(high, 1)], [y, y], color=SLOWER, lw=5, alpha=0.55, solid_capstyle="butt")
            axes.plot([min(low, 1), min(high, 1)], [y, y], color=FASTER, lw=5, alpha=0.9, solid_capstyle="butt")
            axes.plot(mean, y, "o", color=SLOWER if mean >= 1 else FASTER, ms=8, mec=paper)
            axes.text(-0.02, y, name, ha="right", **beside)
            label = f"{mean:.1f}" if mean < 99.95 else f"{mean:.0f}"
            label += "\N{MULTIPLICATION SIGN}"
            axes.annotate(label, (max(high, 1), y), (5, 0), textcoords="offset points", va="center", color=ink,
                          weight="bold")  # fmt: skip
        level += len(found) + 1.1
    axes.axvline(1, color=ink, lw=1.2)
    everything = [number for found in groups.values() for _, *numbers in found for number in numbers]
    least, most = min([0.8 * min(everything), 0.7]), max([1.0, *everything])
    room = (most / least) ** (1 / 3)  # a quarter of the width, for the number behind the longest bar
    axes.set(xscale="log", xlim=(least, room * most), ylim=(level - 0.6, -0.7))
    axes.xaxis.set_major_locator(FixedLocator([0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_yticks([])
    axes.tick_params(colors=ink)
    axes.grid(axis="x", color=faint, alpha=0.3)
    axes.spines[:].set_visible(False)
    label = "times as long as cunpool: geometric mean, least to most"
    figure.text(0.08 / width, 0.06 / inches, label, ha="left", va="bottom", color=ink, fontsize=10)
    figure.text(0.08 / width, 1 - 0.1 / inches, heading, ha="left", va="top", color=ink, fontsize=10.5)
    with matplotlib.rc_context({"svg.hashsalt": "cunpool", "svg.fonttype": "path"}):  # the same file in each run
        figure.savefig(path, facecolor=paper, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    print(f"wrote {path}")
