"""oneDNN, by a small C file over its C interface: pooling, to codes of its own too, and unpooling by these.

The packages onednn-cpu-gomp and onednn-devel-cpu-gomp have its library and its headers; `cc` builds onednn.c with them.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from cells import Cell, from_a_line, marked
from shared import bench

FLAGS = "-O2", "-std=c11", "-shared", "-fPIC"


def library() -> ctypes.CDLL:
    """What onednn.c compiles to, at each start: it takes no second."""
    found = [_file("onednn-devel-cpu-gomp", "oneapi/dnnl/dnnl.h"), _file("onednn-cpu-gomp", "libdnnl.so.3")]
    if shutil.which("cc") is None:
        raise ImportError("a C compiler is missing", name="cc")
    headers, dnnl = found[0].parents[2], found[1]
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder, "onednn.so")
        source = Path(__file__).with_suffix(".c")
        command = ["cc", *FLAGS, source, f"-I{headers}", dnnl, f"-Wl,-rpath,{dnnl.parent}", "-o", built]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(built))


def _file(package: str, name: str) -> Path:
    """A file of an installed package, whose name ends so."""
    for file in metadata.files(package) or ():  # or an ImportError that names the package
        if str(file).endswith(name):
            return Path(str(file.locate())).resolve()
    raise ImportError(f"{package} has no {name}", name=package)


def onednn(threads: int) -> bench.Prepared:
    """Its threads are OpenMP's, of which a contestant's process is told `threads` by its environment."""
    pooling = library()

    def prepare(cell: Cell, coded: bool, x: np.ndarray, y: np.ndarray) -> None:
        sizes = [(ctypes.c_int64 * array.ndim)(*array.shape) for array in (x, y)]
        kind = x.itemsize == 1, cell.layout == "channels last"
        _done(pooling.prepare(cell.n, *kind, *sizes, *cell.window, coded, _memory(x), _memory(y)))

    def call(cell: Cell, arrays: bench.Arrays) -> bench.Call | None:
        if not _known(cell):
            return None
        given = arrays["x"]
        if cell.op == "pool":
            result = from_a_line(np.empty_like(given, shape=cell.pooled))
            prepare(cell, cell.format == "window", given, result)
        else:
            shapes = cell.full, cell.full, cell.pooled
            marks, result, ones = (from_a_line(np.empty_like(given, shape=shape)) for shape in shapes)
            marks[...] = marked(cell, arrays["indices"])
            prepare(cell, True, marks, ones)
            _done(pooling.run(False))
            _done(pooling.prepare_back(_memory(given), _memory(result)))

        def run() -> np.ndarray:
            _done(pooling.run(cell.op == "unpool"), given)
            return result

        return run

    return call


def _known(cell: Cell) -> bool:
    """Whether oneDNN has it: adding up gradients is unpooling only where windows do not overlap."""
    if cell.layout not in ("contiguous", "channels last") or (cell.out and cell.op == "pool"):
        return False
    if cell.op == "pool" and cell.index == "none":  # bytes in C order have its reference alone, which is slow
        return cell.dtype == "float32" or (cell.dtype == "uint8" and cell.layout == "channels last")
    apart = cell.op == "pool" or (cell.op == "unpool" and cell.kernel <= cell.stride)
    return apart and cell.format == "window" and cell.dtype == "float32"


def _memory(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _done(status: int, *kept: Any) -> None:
    """Fail if oneDNN did; it reads what was `kept` alive until now."""
    if status:
        raise RuntimeError(f"oneDNN's status is {status}")
