"""The chart: one row for each library, with a bar for the range of its ratios and a mark at their geometric mean."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Row = tuple[str, float, float, float]  # name; geometric mean, minimum and maximum of its time divided by cunpool's

PAPER, INK, FAINT = "#ffffff", "#1a1a1a", "#8a8a8a"
DARK = {
    PAPER: "#131416",
    INK: "#f0f0f0",
    FAINT: "#909090",
}  # light colours of an SVG, and their replacements in a dark theme
SLOWER, FASTER = "#2a8fd0", "#e8730c"  # than cunpool; distinguishable with colour blindness, light and dark


def geometric_mean(numbers: Iterable[float]) -> float:
    logarithms = [math.log(number) for number in numbers]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else math.nan


def row(title: str, ratios: list[float]) -> Row:
    return title, geometric_mean(ratios), min(ratios), max(ratios)


def follow_theme(svg: str, dark: dict[str, str]) -> str:
    """Add a style sheet to the SVG that replaces each declaration of `dark` if the reader's colour scheme is dark."""
    rules = "".join(f'[style*="{light}"] {{ {replacement} !important }} ' for light, replacement in dark.items())
    style = f"<style>@media (prefers-color-scheme: dark) {{ {rules}}}</style>"
    return re.sub(r"<svg [^>]*>", lambda tag: f"{tag[0]}\n {style}", svg, count=1)


def draw_row(axes: Any, y: float, mean: float, low: float, high: float) -> None:
    axes.plot([max(low, 1), max(high, 1)], [y, y], color=SLOWER, lw=5, alpha=0.55, solid_capstyle="butt")
    axes.plot([min(low, 1), min(high, 1)], [y, y], color=FASTER, lw=5, alpha=0.9, solid_capstyle="butt")
    axes.plot(mean, y, "o", color=SLOWER if mean >= 1 else FASTER, ms=8, mec=PAPER)
    label = f"{mean:.1f}" if mean < 99.95 else f"{mean:.0f}"
    label += "\N{MULTIPLICATION SIGN}"
    axes.annotate(label, (max(high, 1), y), (5, 0), textcoords="offset points", va="center", color=INK, weight="bold")


def draw(groups: dict[str, list[Row]], path: Path, heading: str, above: bool = False) -> None:
    """Draw rows under titles: a bar for the range, a mark and a number at the mean.

    cunpool is faster to the right of the vertical line. Each name stands to the left of its bar. With `above`, it
    stands above the bar, so that long names fit a narrow screen. An SVG follows the reader's colour scheme.
    """
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    # Inches for the names, inches for the bars, and the distance between rows in units of 0.27 inches.
    left, bars, pitch = (0.12, 4.0, 1.7) if above else (1.26, 2.77, 1.0)
    height = sum(pitch * len(found) + 1.1 for found in groups.values())
    width, inches = left + bars + 0.17, 0.27 * height + 0.85
    figure = Figure(figsize=(width, inches), facecolor=PAPER)
    axes = figure.add_axes((left / width, 0.5 / inches, bars / width, 1 - 0.85 / inches), facecolor=PAPER)
    beside: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "color": INK}
    opaque = {"facecolor": PAPER, "edgecolor": "none", "pad": 1}
    level = 0.0
    for title, found in groups.items():
        axes.text((0.04 - left) / bars, level, title, weight="bold", bbox=opaque, **beside)
        for number, (name, mean, low, high) in enumerate(found, 1):
            y = level + pitch * number - 0.1
            if above:
                axes.text((0.04 - left) / bars, y - 0.7, name, bbox=opaque, **beside)
            else:
                axes.text(-0.02, y, name, ha="right", **beside)
            draw_row(axes, y, mean, low, high)
        level += pitch * len(found) + 1.1
    axes.axvline(1, color=INK, lw=1.2)
    everything = [number for found in groups.values() for _, *numbers in found for number in numbers]
    least, most = min([0.8 * min(everything), 0.7]), max([1.0, *everything])
    room = (most / least) ** (1 / 3)  # leaves a quarter of the width to the number beside the longest bar
    axes.set(xscale="log", xlim=(least, room * most), ylim=(level - 0.6, -0.7))
    axes.xaxis.set_major_locator(FixedLocator([0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_yticks([])
    axes.tick_params(colors=INK)
    axes.grid(axis="x", color=FAINT, alpha=0.3)
    axes.spines[:].set_visible(False)
    label = "times as long as cunpool: geometric mean, least to most"
    figure.text(0.08 / width, 0.06 / inches, label, ha="left", va="bottom", color=INK, fontsize=10)
    figure.text(0.08 / width, 1 - 0.1 / inches, heading, ha="left", va="top", color=INK, fontsize=10.5)
    with matplotlib.rc_context({"svg.hashsalt": "cunpool", "svg.fonttype": "path"}):  # the same file in each run
        figure.savefig(path, facecolor=PAPER, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    if path.suffix == ".svg":
        dark = {f"{what}: {a}": f"{what}: {b}" for what in ("fill", "stroke") for a, b in DARK.items()}
        path.write_text(follow_theme(path.read_text("utf-8"), dark), "utf-8")
    print(f"wrote {path}")
