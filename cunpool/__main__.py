"""The command: ``cunpool info``, ``cunpool demo`` and ``cunpool bench``."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

import numpy as np

import cunpool as cu
from cunpool import _simd
from cunpool._cli import demo as _demo
from cunpool._cli.bench.command import bench
from cunpool._kernels import runtime as _runtime


def info() -> None:
    version = _runtime.openmp_version()
    serial = "OFF: a serial build, of which every call uses one thread"
    print(f"cunpool   {cu.__version__} from {cu.__path__[0]}")
    print(f"OpenMP    {f'on ({version}), {_demo.threads()}' if version else serial}")
    print(f"compiler  {_runtime.compiler()}")
    print(f"SIMD      {_simd.IN_USE} (built for {', '.join(_simd.BUILT)})")
    print(f"NumPy     {np.__version__}")
    print(f"Python    {sys.version.split()[0]}")


def arguments_of(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="cunpool", description="Max pooling and unpooling for NumPy arrays.")
    parser.add_argument("--version", action="version", version=f"cunpool {cu.__version__}")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("info", help="version, OpenMP, compiler and NumPy")
    about = "pool and unpool a photograph or a volume, check it, draw it, and time it"
    demo = commands.add_parser(
        "demo",
        help=about,
        description=f"{about[0].upper()}{about[1:]}. It takes some five seconds, with a large image more.",
    )
    demo.add_argument(
        "image", nargs="?", help="any image file; by default matplotlib's sample photograph, or a volume of our making"
    )
    demo.add_argument("--volume", action="store_true", help="take a volume: IMAGE is an .npy file with three axes")
    demo.add_argument(
        "-o",
        "--output",
        help="the picture's file, by its suffix (default: cunpool-demo.png, with --volume cunpool-demo-volume.png)",
    )
    about = "measure twelve cases beside the other libraries that are installed"
    benchmark = commands.add_parser(
        "bench",
        help=about,
        description=f"{about[0].upper()}{about[1:]}: PyTorch, ONNX Runtime (with onnx), PaddlePaddle, NumPy, SciPy, "
        "OpenCV, scikit-image (pip install 'cunpool[bench]'). It takes about a minute; leave the machine alone "
        "meanwhile.",
    )
    benchmark.add_argument("--threads", type=int, help="threads of each (default: what a call would use)")
    benchmark.add_argument("--plot", metavar="FILE", help="draw a chart too, by its suffix")
    chosen = parser.parse_args(words)
    if chosen.command is None:
        parser.print_help(sys.stderr)
    return chosen


def run(words: Sequence[str] | None) -> int:
    chosen = arguments_of(words)
    try:
        if chosen.command == "info":
            info()
        elif chosen.command == "demo":
            _demo.demo(chosen.image, chosen.output, chosen.volume)
        elif chosen.command == "bench":
            bench(chosen.threads, chosen.plot)
    except _demo.Refusal as refusal:
        print(f"cunpool: {refusal}", file=sys.stderr)
        return 2
    return 0 if chosen.command else 2


def main(words: Sequence[str] | None = None) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may not know the letters of a file's name
    try:
        try:
            return run(words)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except OSError as error:  # what prints to a closed pipe or a full disk; what was printed to is of no more use
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"cunpool: cannot print: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
