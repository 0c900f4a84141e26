"""The pictures of the README and of these pages: ``python docs/draw.py`` writes docs/pictures.

Every number in them is computed by cunpool here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

import cunpool as cu
from cunpool import ndimage
from cunpool._cli.bench.chart import follow_theme

FOLDER = Path(__file__).parent / "pictures"
WINDOWS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7"]  # Okabe and Ito's, which the colour-blind can tell apart
PAPER, INK, FAINT, TINT = "#ffffff", "#1a1a1a", "#6e6e6e", 0.2
# The same for readers whose colour scheme is dark.
DARK = {f"{what}: {light}": f"{what}: {dark}" for what in ("fill", "stroke")
        for light, dark in ((PAPER, "#131416"), (INK, "#f0f0f0"), (FAINT, "#a8a8a8"))}  # fmt: skip
DARK |= {f"fill-opacity: {tint * TINT:g};": f"fill-opacity: {tint * 0.42:g}" for tint in (0.6, 1, 2)}


def canvas(width: float, height: float) -> Axes:
    """Axes in units of one cell, rows counted downwards."""
    figure = Figure(figsize=(width * 0.6, height * 0.6), facecolor=PAPER)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    return axes


def cell(axes: Axes, x: float, y: float, text: object, colour: str = "", **style: Any) -> None:
    fill = matplotlib.colors.to_rgba(colour, style.pop("tint", TINT)) if colour else "none"
    axes.add_patch(Rectangle((x, y), 1, 1, facecolor=fill, edgecolor=FAINT, lw=1))
    style = {"fontsize": 17, "color": INK, **style}
    axes.text(x + 0.5, y + 0.53, str(text), ha="center", va="center", **style)


def frame(axes: Axes, x: float, y: float, width: float, height: float, colour: str) -> None:
    axes.add_patch(Rectangle((x, y), width, height, facecolor="none", edgecolor=colour, lw=2.2))


def arrow(axes: Axes, start: float, end: float, y: float, label: str) -> None:
    axes.add_patch(FancyArrowPatch((start, y), (end, y), arrowstyle="-|>", mutation_scale=20, lw=1.8, color=INK))
    axes.text((start + end) / 2, y - 0.25, label, ha="center", va="bottom", fontsize=15, color=INK)


def unpooling() -> Figure:
    """4 x 4 numbers pooled to 2 x 2 with their indices, and unpooled."""
    x = np.array([[[3, 8, 1, 2], [5, 4, 7, 6], [9, 2, 3, 1], [1, 6, 5, 4]]])
    y, indices = cu.max_pool2d(x, 2, return_indices=True)
    z = cu.max_unpool2d(y, indices, 2, output_size=x.shape)
    axes = canvas(16.4, 6.3)
    top = 1.3
    for left, table, title in ((0.2, x[0], "x"), (12.2, z[0], "z")):
        axes.text(left + 2, top - 0.25, title, ha="center", fontsize=17, color=INK, weight="bold")
        for (row, column), value in np.ndenumerate(table):
            colour = WINDOWS[row // 2 * 2 + column // 2]
            kept = z[0, row, column] != 0
            cell(axes, left + column, top + row, value, colour, tint=TINT * (2 if kept else 0.6),
                 weight="bold" if kept else "normal", color=INK if kept else FAINT)  # fmt: skip
        for window, colour in enumerate(WINDOWS):
            frame(axes, left + window % 2 * 2 + 0.03, top + window // 2 * 2 + 0.03, 1.94, 1.94, colour)
    for down, table, title in ((0, y[0], "y"), (3.1, indices[0], "indices")):
        for (row, column), value in np.ndenumerate(table):
            cell(axes, 7.2 + column, top - 0.3 + down + row, value, WINDOWS[2 * row + column],
                 tint=TINT * 2, weight="bold")  # fmt: skip
        axes.text(8.2, top - 0.55 + down, title, ha="center", fontsize=17, color=INK, weight="bold")
    arrow(axes, 4.5, 6.9, top + 2, "max_pool2d")
    arrow(axes, 9.5, 11.9, top + 2, "max_unpool2d")
    axes.text(0.2, 5.95, "the largest of each window", ha="left", fontsize=16, color=INK)
    axes.text(16.2, 5.95, "at their indices, zeros elsewhere", ha="right", fontsize=16, color=INK)
    return axes.figure


def windows() -> Figure:
    """Effect of each argument on the windows over one axis of seven elements."""
    cases: list[tuple[str, dict[str, Any]]] = [
        ("kernel_size=2", {"kernel_size": 2}),
        ("kernel_size=3, stride=2", {"kernel_size": 3, "stride": 2}),
        ("kernel_size=3, stride=2, padding=1", {"kernel_size": 3, "stride": 2, "padding": 1}),
        ("kernel_size=3, stride=1, dilation=2", {"kernel_size": 3, "stride": 1, "dilation": 2}),
        ("kernel_size=2, ceil_mode=True", {"kernel_size": 2, "ceil_mode": True}),
    ]
    x = np.arange(7)[None]
    axes = canvas(10.2, 1)
    top = 0.9
    for title, arguments in cases:
        y, _ = cu.max_pool1d(x, **arguments, return_indices=True)
        step, padding = arguments.get("stride", arguments["kernel_size"]), arguments.get("padding", 0)
        axes.text(0.3, top - 0.25, f"{title}: {y.shape[1]} windows", fontsize=14, color=INK, weight="bold")
        for place in range(-padding, 7 + padding):
            inside = 0 <= place < 7
            cell(axes, 1.6 + place, top, place if inside else "")
            if not inside:
                axes.add_patch(Rectangle((1.6 + place, top), 1, 1, fill=False, hatch="///", ec=FAINT, lw=0))
        for window in range(y.shape[1]):
            colour, level = WINDOWS[window % 4], top + 1.25 + 0.42 * (window % 3)
            taps = [window * step - padding + tap * arguments.get("dilation", 1)
                    for tap in range(arguments["kernel_size"])]  # fmt: skip
            axes.plot([1.75 + taps[0], 2.45 + taps[-1]], [level, level], color=colour, lw=1.5)
            for tap in taps:
                beyond = not 0 <= tap < 7
                axes.plot([1.75 + tap, 2.45 + tap], [level, level], color=colour, lw=3 if beyond else 8,
                          alpha=0.5 if beyond else 1, solid_capstyle="butt")  # fmt: skip
        top += 3.1
    axes.set_ylim(top - 0.6, 0)
    axes.figure.set_size_inches(10.2 * 0.6, (top - 0.6) * 0.6)
    return axes.figure


def indices_of(name: str) -> Figure:
    """The index of each element in one format: two channels of 4 x 4 elements, windows of 2 x 2."""
    axes = canvas(9.6, 5)
    for tap in range(4):  # every window has its maximum in this cell
        codes = np.full((1, 2, 2, 2), tap, np.uint8)
        places = cu.convert_indices(codes, "window", name, input_size=(4, 4), kernel_size=2)  # type: ignore[arg-type]
        for (_, channel, row, column), value in np.ndenumerate(places):
            cell(axes, 0.3 + 5 * channel + 2 * column + tap % 2, 0.75 + 2 * row + tap // 2, value,
                 WINDOWS[2 * row + column])  # fmt: skip
    for channel in (0, 1):
        axes.text(2.3 + 5 * channel, 0.5, f"channel {channel}", ha="center", fontsize=14, color=INK)
    return axes.figure


def numbers(axes: Axes, left: float, top: float, title: str, table: Any, colours: dict[tuple[int, ...], str]) -> None:
    """A titled table, in which the positions that have a colour are filled and bold."""
    axes.text(left, top - 0.25, title, ha="left", fontsize=15, color=INK, weight="bold")
    for at, value in np.ndenumerate(np.atleast_2d(table)):
        colour = colours.get(at, "")
        style = {"tint": TINT * 2, "weight": "bold"} if colour else {}
        text = "" if value != value else f"{value:g}"  # NaN is an empty cell
        cell(axes, left + at[1], top + at[0], text, colour, color=INK if colour else FAINT, **style)


def filters() -> Figure:
    """A row of numbers, and the extremes of the three elements around each."""
    x = np.array([2, 2, 9, 3, 3, 6, 4, 0, 5, 5])
    axes = canvas(10.4, 7.2)
    extremes = {
        "maximum_filter(x, size=3)": ndimage.maximum_filter,
        "minimum_filter(x, size=3)": ndimage.minimum_filter,
    }
    numbers(axes, 0.2, 0.9, "x", x, {(0, 2): WINDOWS[0], (0, 7): WINDOWS[1]})
    for row, ((title, function), colour, extreme) in enumerate(zip(extremes.items(), WINDOWS, (9, 0), strict=False)):
        result = function(x, size=3)
        numbers(
            axes, 0.2, 3.3 + 2.4 * row, title, result, {(0, at): colour for at in np.flatnonzero(result == extreme)}
        )
    return axes.figure


def omitted() -> Figure:
    """Maxima of windows with missing numbers, for each policy."""
    x = np.array([[1.0, 4, np.nan, 7], [3, 2, 5, 6], [np.nan, np.nan, 8, 1], [np.nan, np.nan, 2, 9]])
    axes = canvas(12.6, 5.2)
    windows = {at: WINDOWS[at[0] // 2 * 2 + at[1] // 2] for at in np.ndindex(4, 4)}
    numbers(axes, 0.2, 0.9, "x, with missing numbers", x, windows)
    for left, policy in ((6.2, "propagate"), (10, "omit")):
        result = cu.max_pool2d(x[None], 2, nan_policy=policy)[0]  # type: ignore[call-overload]
        numbers(axes, left, 1.9, f'"{policy}"', result, {at: WINDOWS[2 * at[0] + at[1]] for at in np.ndindex(2, 2)})
    return axes.figure


def unpooled_onto() -> Figure:
    """Ten times the maxima, put back onto zeros, onto a value and onto the array that they are from."""
    x = np.array([[3, 8, 1, 2], [5, 4, 7, 6], [9, 2, 3, 1], [1, 6, 5, 4]])
    y, indices = cu.max_pool2d(x[None], 2, return_indices=True)
    axes = canvas(20.2, 5.2)
    chosen = {divmod(int(index), 4): colour for index, colour in zip(indices.ravel(), WINDOWS, strict=True)}
    numbers(axes, 0.2, 0.9, "x", x, chosen)
    for left, title, arguments in (
        (5.5, "output_size=x.shape", {"output_size": x[None].shape}),
        (10.8, "fill_value=-1", {"fill_value": -1}),
        (16, "onto=x", {"onto": x[None]}),
    ):
        numbers(axes, left, 0.9, title, cu.max_unpool2d(10 * y, indices, 2, **arguments)[0], chosen)
    return axes.figure


def found() -> Figure:
    """The peaks of an image with a plateau: all of them, and one of each plateau."""
    x = np.array([[0, 1, 0, 0, 0, 2, 0], [1, 6, 2, 0, 2, 9, 1], [0, 2, 0, 0, 0, 1, 0], [0, 0, 7, 7, 1, 0, 3],
                  [1, 0, 1, 7, 0, 0, 0], [0, 2, 0, 0, 0, 1, 0]])  # fmt: skip
    axes = canvas(15.6, 7.2)
    for left, title, merged in ((0.2, "peaks(x)", False), (8.4, "one_per_plateau=True", True)):
        at = cu.peaks(x, one_per_plateau=merged)
        numbers(axes, left, 0.9, title, x, {tuple(place): WINDOWS[2] for place in at.tolist()})
    return axes.figure


PICTURES: dict[str, Callable[[], Figure]] = {
    "unpooling": unpooling,
    "windows": windows,
    "filters": filters,
    "omitted": omitted,
    "onto": unpooled_onto,
    "peaks": found,
    **{f"indices-{name}": functools.partial(indices_of, name) for name in ("plane", "onnx", "tf", "window")},
}


def main(folder: Path = FOLDER) -> None:
    folder.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        path = folder / f"{name}.svg"
        # The same file in each run: text as outlines, identifiers from a fixed salt, no date.
        with matplotlib.rc_context({"svg.hashsalt": "cunpool", "svg.fonttype": "path"}):
            draw().savefig(path, metadata={"Date": None})
        path.write_text(follow_theme(path.read_text("utf-8"), DARK), "utf-8")


if __name__ == "__main__":
    main()
