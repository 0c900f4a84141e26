"""``cunpool demo``: pool and unpool a photograph or a volume, compare it with plain NumPy, draw it, and time it."""

from __future__ import annotations

import io
import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cunpool as cu
from cunpool._arrays import Array

ROUNDS, LEAST, SECONDS = 25, 3, 3.0  # timing stops after ROUNDS, or after SECONDS and LEAST rounds
WIDTH, TALLEST = 3.2, 6.4  # width and greatest height of a picture, in inches
CROP = 8  # side of the magnified square, in pixels of the first picture
KEPT = "#e8730c"  # colour of the frames around maxima
CAPTIONS = (
    "Top: height x width. Bottom: the framed square, magnified.\n"
    "Orange frames: the maxima that pooling keeps, and where unpooling puts them back; all else is zero.",
    "Top: the middle slice of the depth, height x width. Bottom: the framed square, magnified. Orange frames: the\n"
    "maxima that pooling keeps, and where unpooling puts them back. Other windows' maxima lie in a neighbouring slice.",
)
NOISY = 2.0  # a median above this many times the best is taken as disturbed


class Refusal(Exception):
    """An error that the command prints in one line."""


class Step(NamedTuple):
    """One operation, as a call of cunpool and as one of NumPy."""

    name: str
    ours: Callable[[], Any]
    numpys: Callable[[], Any]


class Stage(NamedTuple):
    """A picture: rows, columns and perhaps colours. Each pixel covers `scale` pixels of the first picture's sides."""

    name: str
    pixels: Array
    scale: int


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def demo(image: str | None, output: str | None, volume: bool) -> None:
    try:
        from matplotlib import cbook
        from PIL import Image  # noqa: F401
    except ImportError as error:
        raise Refusal(f"the demo needs {error.name}: pip install 'cunpool[demo]'") from None
    if output is None:
        output = "cunpool-demo-volume.png" if volume else "cunpool-demo.png"
    if volume:
        path = destination(output, image or "")
        x = synthetic() if image is None else read_volume(image)
    else:
        source = cbook.get_sample_data("grace_hopper.jpg", asfileobj=False) if image is None else image
        path = destination(output, source)
        x = read_image(source)
    print(f"{'volume' if volume else 'image':<16} {x.shape} {x.dtype}, {threads()}")
    if volume:
        steps, stages = run(x, cu.max_pool3d, cu.max_unpool3d, ["pool once", "pool twice", "pool 3 times"])
        stages = [Stage(name, middle(pixels), scale) for name, pixels, scale in stages]
    else:
        steps, stages = run(x, cu.max_pool2d, cu.max_unpool2d, ["pool"])
        stages = [Stage(name, pixels.transpose(1, 2, 0), scale) for name, pixels, scale in stages]
    draw(stages, path, CAPTIONS[volume])
    print(f"wrote {path}")
    measure(steps)


def run(
    x: Array, pool: Callable[..., Any], unpool: Callable[..., Any], names: list[str]
) -> tuple[list[Step], list[Stage]]:
    """Pool once for each name, and unpool the first level. Check each step, and return the pictures too.

    The third picture is the unpooled one.
    """
    steps, kept, stages, pixels = [], [], [Stage("original", x, 1)], x
    titles = ["pooled"] if len(names) == 1 else ["pooled once", "pooled twice", "pooled 3 times"]
    for level, name in enumerate(names, 1):
        step = Step(name, partial(pool, pixels, 2, return_indices=True), partial(numpy_pool, pixels))
        pixels, indices = check(step)
        steps.append(step)
        kept.append((pixels, indices))
        stages.append(Stage(titles[level - 1], pixels, 2**level))
    y, indices = kept[0]
    step = Step("unpool", lambda: unpool(y, indices, 2, output_size=x.shape), lambda: numpy_unpool(y, indices, x.shape))
    z = check(step)
    same = int(np.count_nonzero((z == x) & (x != 0)))
    print(f"{same} of {x.size} values came back exactly: {same / x.size:.2%} (one in {2 ** (x.ndim - 1)} is kept; "
          "zeros are not counted)")  # fmt: skip
    stages.insert(2, Stage(f"{titles[0]}, then unpooled", z, 1))  # beside the pooled picture
    return [*steps, step], stages


def middle(volume: Array) -> Array:
    """Return the middle slice, which shows the same depth at each level."""
    pixels: Array = volume[0, volume.shape[1] // 2]
    return pixels


def synthetic() -> Array:
    """Return a volume of shells around a few points, with noise."""
    z, y, x = np.indices((96, 128, 128), np.float32)
    shells = sum(
        np.exp(-((np.sqrt((z - a) ** 2 + (y - b) ** 2 + (x - c) ** 2) - r) ** 2) / 18)
        for a, b, c, r in ((48, 50, 50, 28), (40, 90, 84, 22), (60, 36, 100, 14), (50, 100, 30, 10))
    )
    pixels: Array = np.minimum(160 * shells + np.random.default_rng(0).integers(1, 60, z.shape), 255).astype(np.uint8)[
        None
    ]
    return pixels


def threads() -> str:
    count = cu.get_num_threads()
    return f"{count} thread{'s' * (count != 1)}"


def destination(output: str, source: str) -> Path:
    """Return the picture's path, after checking that it can be written and is not the image's."""
    from matplotlib.backend_bases import FigureCanvasBase

    path = Path(output)
    if not output or path.is_dir() or output.endswith(os.sep):
        raise Refusal(f"the output must be a file, got {output!r}")
    known = sorted(set(FigureCanvasBase.get_supported_filetypes()) - {"raw", "rgba"})
    if path.suffix[1:].lower() not in known:
        raise Refusal(f"cannot write {path}: the suffix must be one of {', '.join(known)}, got {path.suffix!r}")
    if path.exists() and Path(source).exists() and path.samefile(source):
        raise Refusal(f"the output would overwrite the image, {path}")
    return path


def read_image(path: str) -> Array:
    """Read the image as uint8 of shape (3, H, W), a view of its (H, W, 3) array."""
    from PIL import Image

    if is_npy(path):
        pixels = load_npy(path, "image")
        remedy = "pass --volume" if pixels.ndim == 3 else "with --volume it must have 3 axes"
        raise Refusal(f"cannot read the image: {path} is {described(pixels)}; {remedy}")
    try:
        with Image.open(path) as image:
            if image.mode.endswith(("A", "a")) or "transparency" in image.info:
                print("the image's transparency is ignored")
            if deep := deeper_than_8_bits(image):
                print(f"the image's {deep} are scaled to 8 bits")
            pixels = np.asarray((eight_bits(image) if image.mode[0] in "IF" else image).convert("RGB"))
    except Exception as error:  # readers of damaged files raise many types
        raise Refusal(f"cannot read the image: {one_line(error)}") from None
    if min(pixels.shape[:2]) < 4:
        raise Refusal(f"the image must have at least 4 x 4 pixels, got {pixels.shape[1]} x {pixels.shape[0]}")
    return pixels.transpose(2, 0, 1)


def deeper_than_8_bits(image: Any) -> str:
    """Describe the file's numbers if 8 bits do not hold them, else return an empty string.

    The image need not be loaded. Pillow reads 16 bits of several channels as 8. Only the arguments of its decoder show
    that the file has more.
    """
    if image.mode[0] == "F":
        return "floats"
    if image.mode == "I":
        return "32-bit integers"
    tiles = [(str(codec), arguments) for codec, _, _, arguments in getattr(image, "tile", [])]
    wide = [";16" in f"{arguments}" or "16" in codec for codec, arguments in tiles]
    maximum = [arguments[-1] for codec, arguments in tiles if codec == "ppm" and isinstance(arguments, tuple)]
    return "16-bit integers" if image.mode[0] == "I" or any(wide) or max(maximum, default=0) > 255 else ""


def eight_bits(image: Any) -> Any:
    """Scale an image of wider numbers to 8 bits: 16-bit integers by their range, other numbers by the largest."""
    from PIL import Image

    pixels = np.maximum(np.asarray(image, np.float64), 0)
    top = float(pixels.max(initial=0))
    if image.mode[0] == "I" and top < 65536:
        top = 65535
    return Image.fromarray((pixels * (255 / (top or 1))).astype(np.uint8))


def is_npy(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(6) == b"\x93NUMPY"
    except OSError:
        return False


def load_npy(path: str, what: str) -> Array:
    try:
        pixels: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # a missing or damaged file, or Python objects
        raise Refusal(f"cannot read the {what}: {one_line(error)}") from None
    return pixels


def described(pixels: Array) -> str:
    return f"an array of {pixels.dtype} with {pixels.ndim} ax{'i' if pixels.ndim == 1 else 'e'}s, {pixels.shape}"


def read_volume(path: str) -> Array:
    """Map the volume of an .npy file into memory, as (1, D, H, W)."""
    if not is_npy(path) and Path(path).is_file():
        raise Refusal(f"cannot read the volume: {path} is not an .npy file, as written by numpy.save; "
                      "for an image, leave out --volume")  # fmt: skip
    pixels = load_npy(path, "volume")
    if pixels.ndim != 3 or pixels.dtype.kind not in "buif":
        raise Refusal(f"the volume must have 3 axes and real numbers, got {described(pixels)}")
    if min(pixels.shape) < CROP:
        raise Refusal(f"the volume must have at least {CROP} elements along each axis, got {pixels.shape}")
    return np.asarray(pixels)[None]


def numpy_pool(x: Array) -> tuple[Array, Array]:
    """Pool by two along each axis, in plain NumPy."""
    n, half = x.ndim - 1, [size // 2 for size in x.shape[1:]]
    pixels = x[(slice(None), *(slice(2 * size) for size in half))].reshape(
        len(x), *(e for size in half for e in (size, 2))
    )
    windows = pixels.transpose(0, *range(1, 2 * n, 2), *range(2, 2 * n + 1, 2)).reshape(len(x), *half, -1)
    steps = np.unravel_index(windows.argmax(-1), (2,) * n)
    positions = tuple(2 * first + step for first, step in zip(np.indices(half), steps, strict=True))
    return windows.max(-1), np.ravel_multi_index(positions, x.shape[1:])


def numpy_unpool(y: Array, indices: Array, shape: tuple[int, ...]) -> Array:
    """Unpool in plain NumPy."""
    z = np.zeros((shape[0], math.prod(shape[1:])), y.dtype)
    np.put_along_axis(z, indices.reshape(len(z), -1), y.reshape(len(z), -1), 1)
    return z.reshape(shape)


def check(step: Step) -> Any:
    """Return cunpool's result, after comparing it with NumPy's."""
    result, expected = step.ours(), step.numpys()
    pairs = zip(result, expected, strict=True) if isinstance(result, tuple) else [(result, expected)]
    if not all(np.array_equal(a, b) for a, b in pairs):
        raise Refusal(f"{step.name}: the result differs from NumPy's; please report this as a bug")
    shape = (result[0] if isinstance(result, tuple) else result).shape
    print(f"{step.name:<13} -> {shape!s:<17} equal to NumPy's")
    return result


def draw(stages: Sequence[Stage], path: Path, caption: str) -> None:
    """Draw the pictures, and below each the same few pixels with their numbers."""
    from matplotlib.figure import Figure

    height, width = stages[0].pixels.shape[:2]
    tall = min(max(WIDTH * height / width, WIDTH / 8), TALLEST)
    figure = Figure(figsize=(WIDTH * len(stages), tall + WIDTH + 1.05), layout="constrained", facecolor="white")
    above, below = figure.subplots(2, len(stages), height_ratios=[tall, WIDTH])
    size = CROP if min(height, width) >= CROP else 4
    corner = liveliest(cropped(stages[0], (0, 0), max(height, width)), size)
    least, most = min(float(stages[0].pixels.min()), 0.0), float(stages[0].pixels.max())
    shown = {"interpolation": "nearest", "cmap": "gray", "vmin": least, "vmax": most}
    back = cropped(stages[2], corner, size)
    for axes, under, stage in zip(above, below, stages, strict=True):
        axes.imshow(stage.pixels, **shown)
        axes.set_title(f"{stage.name}\n{stage.pixels.shape[0]} x {stage.pixels.shape[1]}", fontsize=11)
        row, column = ((first + size / 2) / stage.scale - 0.5 for first in corner)
        side = max(size, min(width, height) / 20) / stage.scale
        frame(axes, column - side / 2, row - side / 2, side, 2)
        pixels = cropped(stage, corner, size)
        under.imshow(pixels, **shown)
        for (i, j), value in np.ndenumerate(pixels):
            ink = "black" if value - least > 0.6 * (most - least) else "white" if value else "gray"
            text = f"{value:.3g}" if pixels.dtype.kind == "f" else str(value)
            under.text(j, i, text, ha="center", va="center", fontsize=9, color=ink)
            if stage.scale > 1 or back[i, j]:
                frame(under, j - 0.47, i - 0.47, 0.94, 1.6)
        for each in (axes, under):
            each.set(xticks=[], yticks=[])
    figure.supxlabel(caption, fontsize=10)
    picture = io.BytesIO()
    try:
        figure.savefig(picture, dpi=150, format=path.suffix[1:].lower())
        path.write_bytes(picture.getvalue())
    except Exception as error:  # a full disk, or a format whose package is missing
        raise Refusal(f"cannot write {path}: {one_line(error)}") from None


def liveliest(pixels: Array, size: int) -> tuple[int, int]:
    """Return the corner of the square of this size with the greatest standard deviation."""
    rows, columns = (length // size for length in pixels.shape)
    squares = pixels[: rows * size, : columns * size].reshape(rows, size, columns, size)
    row, column = divmod(int(squares.astype(np.float64).std((1, 3)).argmax()), columns)
    return row * size, column * size


def cropped(stage: Stage, corner: tuple[int, int], size: int) -> Array:
    """Return the part of a picture that is magnified, in one colour."""
    row, column, side = corner[0] // stage.scale, corner[1] // stage.scale, max(size // stage.scale, 1)
    pixels = stage.pixels if stage.pixels.ndim == 2 else stage.pixels[..., 1]
    return pixels[row : row + side, column : column + side]


def frame(axes: Any, x: float, y: float, side: float, line: float) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((x, y), side, side, fill=False, edgecolor=KEPT, lw=line))


def measure(steps: Sequence[Step]) -> None:
    """Time cunpool and NumPy in turns, so that a disturbance affects both."""
    times: list[tuple[list[float], list[float]]] = [([], []) for _ in steps]
    start = time.perf_counter()
    for number in range(ROUNDS):
        if number >= LEAST and time.perf_counter() - start > SECONDS:
            break
        for step, kept in zip(steps, times, strict=True):
            for function, seconds in zip((step.ours, step.numpys), kept, strict=True):
                before = time.perf_counter()
                function()
                seconds.append(time.perf_counter() - before)
    noise = 1.0
    print(f"best and median of {len(times[0][0])} rounds, in milliseconds:")
    for step, (ours, numpys) in zip(steps, times, strict=True):
        (best, median), (least, middle) = ((min(t), statistics.median(t)) for t in (ours, numpys))
        print(
            f"{step.name:<13} {best * 1e3:8.3f} {median * 1e3:8.3f}   NumPy {least * 1e3:8.3f} {middle * 1e3:8.3f}   "
            f"{least / best:.1f} times as fast"
        )
        noise = max(noise, median / best)
    if noise > NOISY:
        print(
            f"A median is {noise:.0f} times the best: another program is running, and each call waits for its "
            "slowest thread. Stop the other program, or try OMP_NUM_THREADS=1."
        )
