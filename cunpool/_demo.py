"""``cunpool demo``: a photograph pooled and unpooled, held against plain NumPy, drawn, and timed."""

from __future__ import annotations

import io
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cunpool as cu
from cunpool._arrays import Array

ROUNDS, LEAST, SECONDS = 25, 3, 3.0  # as many rounds as these seconds allow
WIDTH, TALLEST = 3.2, 9.6  # inches of one picture in the figure
NOISY = 2.0  # a median of so many times the best is something else's doing


class Refusal(Exception):
    """What the user has to be told, in one line."""


class Step(NamedTuple):
    """One call, ours and NumPy's."""

    name: str
    ours: Callable[[], Any]
    numpys: Callable[[], Any]


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def demo(image: str | None, output: str) -> None:
    try:
        from matplotlib import cbook
        from PIL import Image  # noqa: F401
    except ImportError as error:
        raise Refusal(f"the demo needs {error.name}: pip install 'cunpool[demo]'") from None
    source = cbook.get_sample_data("grace_hopper.jpg", asfileobj=False) if image is None else image
    path = destination(output, source)
    x = read_image(source)
    print(f"image            {x.shape} {x.dtype}, {threads()}")

    pool = Step("pool", lambda: cu.max_pool2d(x, 2, return_indices=True), lambda: numpy_pool(x))
    y1, indices1 = check(pool)
    again = Step("pool again", lambda: cu.max_pool2d(y1, 2, return_indices=True), lambda: numpy_pool(y1))
    y2, indices2 = check(again)
    unpool = Step(
        "unpool",
        lambda: cu.max_unpool2d(y2, indices2, 2, output_size=y1.shape),
        lambda: numpy_unpool(y2, indices2, y1.shape),
    )
    z1 = check(unpool)
    back = Step(
        "unpool again",
        lambda: cu.max_unpool2d(z1, indices1, 2, output_size=x.shape),
        lambda: numpy_unpool(z1, indices1, x.shape),
    )
    z2 = check(back)
    same = int(np.count_nonzero((z2 == x) & (x != 0)))
    print(
        f"{same} of {x.size} values came back exactly: {same / x.size:.2%} (1 in 16 was kept, and zeros do not count)"
    )
    draw([("photograph", x), ("pooled", y1), ("pooled twice", y2), ("unpooled", z1), ("unpooled twice", z2)], path)
    print(f"wrote {path}")
    measure([pool, again, unpool, back])


def threads() -> str:
    count = cu.get_num_threads()
    return f"{count} thread{'s' * (count != 1)}"


def destination(output: str, source: str) -> Path:
    """Where the picture goes: the path that was said, and no other."""
    from matplotlib.backend_bases import FigureCanvasBase

    path = Path(output)
    if not output or path.is_dir() or output.endswith(os.sep):
        raise Refusal(f"the output must be a file, got {output!r}")
    known = sorted(set(FigureCanvasBase.get_supported_filetypes()) - {"raw", "rgba"})
    if path.suffix[1:].lower() not in known:
        raise Refusal(f"cannot write {path}: the suffix {path.suffix!r} is not supported, but {', '.join(known)} are")
    if path.exists() and Path(source).exists() and path.samefile(source):
        raise Refusal(f"the output would overwrite the image, {path}")
    return path


def read_image(path: str) -> Array:
    """The image as uint8 of shape (3, H, W), without a copy of its (H, W, 3)."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            if image.mode.endswith(("A", "a")) or "transparency" in image.info:
                print("the image's transparency is left out")
            pixels = np.asarray((eight_bits(image) if image.mode[0] in "IF" else image).convert("RGB"))
    except Exception as error:  # a damaged file meets with whatever its format's reader raises
        raise Refusal(f"cannot read the image: {one_line(error)}") from None
    if min(pixels.shape[:2]) < 4:
        raise Refusal(f"the image must have at least 4 x 4 pixels, got {pixels.shape[1]} x {pixels.shape[0]}")
    return pixels.transpose(2, 0, 1)


def eight_bits(image: Any) -> Any:
    """An image of wider numbers in the range of 8 bits: of 16 bits scaled as such, else by the largest number."""
    from PIL import Image

    cells = np.maximum(np.asarray(image, np.float64), 0)
    top = float(cells.max(initial=0))
    if image.mode[0] == "I" and top < 65536:
        top = 65535
    return Image.fromarray((cells * (255 / (top or 1))).astype(np.uint8))


def numpy_pool(x: Array) -> tuple[Array, Array]:
    """2 x 2 pooling in plain NumPy."""
    channels, height, width = x.shape[0], x.shape[1] // 2, x.shape[2] // 2
    windows = x[:, : 2 * height, : 2 * width].reshape(channels, height, 2, width, 2).transpose(0, 1, 3, 2, 4)
    code = windows.reshape(channels, height, width, 4).argmax(-1)
    row = 2 * np.arange(height)[:, None] + code // 2
    return windows.max((-2, -1)), row * x.shape[2] + 2 * np.arange(width) + code % 2


def numpy_unpool(y: Array, indices: Array, shape: tuple[int, ...]) -> Array:
    """Unpooling in plain NumPy."""
    z = np.zeros((shape[0], shape[1] * shape[2]), y.dtype)
    np.put_along_axis(z, indices.reshape(len(z), -1), y.reshape(len(z), -1), 1)
    return z.reshape(shape)


def check(step: Step) -> Any:
    """Our result, once it has been held against NumPy's."""
    result, expected = step.ours(), step.numpys()
    pairs = zip(result, expected, strict=True) if isinstance(result, tuple) else [(result, expected)]
    if not all(np.array_equal(a, b) for a, b in pairs):
        raise Refusal(f"{step.name}: the result differs from NumPy's; please report this as a bug")
    shape = (result[0] if isinstance(result, tuple) else result).shape
    print(f"{step.name:<13} -> {shape!s:<17} equal to NumPy's")
    return result


def draw(stages: Sequence[tuple[str, Array]], path: Path) -> None:
    from matplotlib.figure import Figure

    height, width = stages[0][1].shape[1:]
    size = WIDTH * len(stages), min(WIDTH * height / width, TALLEST) + 0.7
    figure = Figure(figsize=size, layout="constrained")
    for axes, (name, image) in zip(figure.subplots(1, len(stages)), stages, strict=True):
        axes.imshow(image.transpose(1, 2, 0), interpolation="nearest")
        axes.set_title(f"{name}\n{image.shape[2]} x {image.shape[1]}", fontsize=11)
        axes.set_axis_off()
    picture = io.BytesIO()
    try:
        figure.savefig(picture, dpi=150, format=path.suffix[1:].lower())
        path.write_bytes(picture.getvalue())
    except Exception as error:  # a full disk, but also what a format needs and has not got
        raise Refusal(f"cannot write {path}: {one_line(error)}") from None


def measure(steps: Sequence[Step]) -> None:
    """Time ours and NumPy's in turns, so that what disturbs the one disturbs the other."""
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
    print(f"the best and the median of {len(times[0][0])} rounds, in milliseconds:")
    for step, (ours, numpys) in zip(steps, times, strict=True):
        (best, median), (least, middle) = ((min(t), statistics.median(t)) for t in (ours, numpys))
        print(
            f"{step.name:<13} {best * 1e3:8.3f} {median * 1e3:8.3f}   NumPy {least * 1e3:8.3f} {middle * 1e3:8.3f}   "
            f"{least / best:.1f} times as fast"
        )
        noise = max(noise, median / best)
    if noise > NOISY:
        print(
            f"A median is {noise:.0f} times the best: something else runs on this machine, and each call waits for its "
            "slowest thread. Leave the machine alone, or try OMP_NUM_THREADS=1."
        )
