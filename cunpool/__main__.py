"""The command: ``cunpool info`` and ``cunpool demo``."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import cunpool as cu
from cunpool import _runtime
from cunpool._arrays import Array


class Refusal(Exception):
    """What the user has to be told, in one line."""


def info() -> None:
    version = _runtime.openmp_version()
    openmp = f"on ({version}), {cu.get_num_threads()} threads" if version else "OFF: a serial build"
    print(f"cunpool   {cu.__version__} from {cu.__path__[0]}")
    print(f"OpenMP    {openmp}")
    print(f"compiler  {_runtime.compiler()}")
    print(f"NumPy     {np.__version__}")
    print(f"Python    {sys.version.split()[0]}")


def read_image(path: str | None) -> Array:
    """The image as uint8 of shape (3, H, W), without a copy of its (H, W, 3)."""
    try:
        from matplotlib import cbook
        from PIL import Image
    except ImportError as error:
        raise Refusal(f"the demo needs {error.name}: pip install 'cunpool[demo]'") from None
    try:
        with Image.open(path or cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)) as image:
            pixels = np.asarray(image.convert("RGB"))
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise Refusal(f"cannot read the image: {error}") from None
    if min(pixels.shape[:2]) < 4:
        raise Refusal(f"the image must have at least 4 x 4 pixels, got {pixels.shape[1]} x {pixels.shape[0]}")
    return pixels.transpose(2, 0, 1)


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


def median_time(function: Callable[[], Any]) -> float:
    times = []
    for _ in range(9):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def check(name: str, ours: Callable[[], Any], numpys: Callable[[], Any]) -> Any:
    """Our result, once it has been held against NumPy's and both have been timed."""
    result = ours()
    pairs = zip(result, numpys(), strict=True) if isinstance(result, tuple) else [(result, numpys())]
    if not all(np.array_equal(a, b) for a, b in pairs):
        raise Refusal(f"{name}: the result differs from NumPy's; please report this as a bug")
    shape = (result[0] if isinstance(result, tuple) else result).shape
    mine, theirs = median_time(ours), median_time(numpys)
    print(
        f"{name:<13} -> {shape!s:<17} equal to NumPy's  {mine * 1e3:7.3f} ms, NumPy {theirs * 1e3:7.3f} ms: "
        f"{theirs / mine:.1f} times as fast"
    )
    return result


def draw(stages: Sequence[tuple[str, Array]], path: Path) -> None:
    from matplotlib.figure import Figure

    height, width = stages[0][1].shape[1:]
    figure = Figure(figsize=(3.2 * len(stages), 3.2 * height / width + 0.7), layout="constrained")
    for axes, (name, image) in zip(figure.subplots(1, len(stages)), stages, strict=True):
        axes.imshow(image.transpose(1, 2, 0), interpolation="nearest")
        axes.set_title(f"{name}\n{image.shape[2]} x {image.shape[1]}", fontsize=11)
        axes.set_axis_off()
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise Refusal(f"cannot write {path}: {error}") from None


def demo(image: str | None, output: Path) -> None:
    x = read_image(image)
    print(f"image            {x.shape} {x.dtype}, {cu.get_num_threads()} threads")
    y1, indices1 = check("pool", lambda: cu.max_pool2d(x, 2, return_indices=True), lambda: numpy_pool(x))
    y2, indices2 = check("pool again", lambda: cu.max_pool2d(y1, 2, return_indices=True), lambda: numpy_pool(y1))
    z1 = check(
        "unpool",
        lambda: cu.max_unpool2d(y2, indices2, 2, output_size=y1.shape[1:]),
        lambda: numpy_unpool(y2, indices2, y1.shape),
    )
    z2 = check(
        "unpool again",
        lambda: cu.max_unpool2d(z1, indices1, 2, output_size=x.shape[1:]),
        lambda: numpy_unpool(z1, indices1, x.shape),
    )
    same = int(np.count_nonzero((z2 == x) & (x != 0)))
    print(
        f"{same} of {x.size} values came back exactly: {same / x.size:.2%} (1 in 16 was kept, and zeros do not count)"
    )
    draw([("photograph", x), ("pooled", y1), ("pooled twice", y2), ("unpooled", z1), ("unpooled twice", z2)], output)
    print(f"wrote {output}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="cunpool", description="Max unpooling for NumPy arrays.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help="version, OpenMP, compiler and NumPy")
    demo_parser = commands.add_parser("demo", help="pool and unpool a photograph, check it, time it, and draw it")
    demo_parser.add_argument("image", nargs="?", help="any image file; by default matplotlib's sample photograph")
    demo_parser.add_argument(
        "-o", "--output", type=Path, default=Path("cunpool-demo.png"), help="(default: %(default)s)"
    )
    chosen = parser.parse_args(arguments)
    try:
        if chosen.command == "info":
            info()
        else:
            demo(chosen.image, chosen.output)
    except Refusal as refusal:
        print(f"cunpool: {refusal}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
