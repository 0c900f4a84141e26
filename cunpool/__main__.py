"""The command: ``cunpool info``, ``cunpool explain``, ``cunpool demo`` and ``cunpool bench``."""

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
from cunpool._cli import explain as _explain
from cunpool._cli.bench.command import bench
from cunpool._kernels import runtime as _runtime


def info() -> None:
    version = _runtime.OPENMP_VERSION
    serial = "OFF: a serial build; every call uses one thread"
    print(f"cunpool   {cu.__version__} from {cu.__path__[0]}")
    print(f"OpenMP    {f'on ({version}), {_demo.threads()}' if version else serial}")
    print(f"compiler  {_runtime.COMPILER}")
    print(f"SIMD      {_simd.IN_USE} (built for {', '.join(_simd.BUILT)})")
    print(f"NumPy     {np.__version__}")
    print(f"Python    {sys.version.split()[0]}")


def arguments_of(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="cunpool", description="Max pooling and unpooling for NumPy arrays.")
    parser.add_argument("--version", action="version", version=f"cunpool {cu.__version__}")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("info", help="version, OpenMP, compiler and NumPy")
    about = "print which method a call would use, why, and where its loop is"
    explained = commands.add_parser("explain", help=about, description=f"{about[0].upper()}{about[1:]}.")
    _explain.add_arguments(explained)
    about = "pool and unpool a photograph or a volume, check it, draw it, and time it"
    demo = commands.add_parser(
        "demo",
        help=about,
        description=f"{about[0].upper()}{about[1:]}. It takes about five seconds, and longer with a large image.",
    )
    demo.add_argument(
        "image", nargs="?", help="any image file (default: matplotlib's sample photograph, or a generated volume)"
    )
    demo.add_argument("--volume", action="store_true", help="use a volume; IMAGE is then an .npy file with three axes")
    demo.add_argument(
        "-o",
        "--output",
        help="file of the picture; its suffix sets the format "
        "(default: cunpool-demo.png, or cunpool-demo-volume.png with --volume)",
    )
    about = "time twelve cases, and the same cases in the other libraries that are installed"
    benchmark = commands.add_parser(
        "bench",
        help=about,
        description=f"{about[0].upper()}{about[1:]}: PyTorch, ONNX Runtime (with onnx), PaddlePaddle, NumPy, SciPy, "
        "OpenCV, scikit-image (pip install 'cunpool[bench]'). It takes about a minute; run nothing else "
        "meanwhile.",
    )
    benchmark.add_argument(
        "--threads", type=int, help="threads for each library (default: the number that a call would use)"
    )
    benchmark.add_argument("--plot", metavar="FILE", help="also draw a chart; its suffix sets the format")
    chosen = parser.parse_args(words)
    if chosen.command is None:
        parser.print_help(sys.stderr)
    return chosen


def run(words: Sequence[str] | None) -> int:
    chosen = arguments_of(words)
    try:
        if chosen.command == "info":
            info()
        elif chosen.command == "explain":
            _explain.explain(chosen)
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
        sys.stdout.reconfigure(errors="backslashreplace")  # the terminal's encoding may lack letters of a file's name
    try:
        try:
            return run(words)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except OSError as error:  # a closed pipe or a full disk; nothing more can be printed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"cunpool: cannot print: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
