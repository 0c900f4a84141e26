"""Select the kernels' instruction set: the widest of the build and the processor, or the one in CUNPOOL_SIMD.

`pool` and `unpool` are compiled once for each instruction set, from the same source. The portable modules lie in
``_kernels``, the others below it, in a folder with the name of their set. The folder that is chosen here becomes the
first in which modules of ``cunpool._kernels`` are found.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from cunpool import _kernels
from cunpool._kernels import runtime as _runtime
from cunpool._remedies import listed, shown

SETS = ("avx512", "avx2", "portable")
"""All that setup.py knows, the widest first."""


def folder_of(name: str) -> str:
    """Return the folder for the modules of an instruction set, which this build may lack."""
    home = Path(_runtime.__file__).parent
    return str(home if name == "portable" else home / name)


def _chosen(wish: str, built: Sequence[str], processor: Sequence[str]) -> str:
    """Return the set named `wish`, or with "" the first of `built` that the processor has."""
    usable = [name for name in built if name in processor]
    if not usable:
        raise ImportError(
            f"cunpool's kernels must be built for {listed(processor)}, which this processor has, got a build for "
            f"{', '.join(built) or 'nothing'}: build it on this machine, with 'pip install .' in the checkout"
        )
    for allowed, where in ((SETS, ""), (built, " in this build of cunpool"), (processor, " on this processor")):
        if wish and wish not in allowed:
            raise ImportError(
                f"CUNPOOL_SIMD must be {listed(allowed)}{where}, got {shown(wish)}: "
                f"set it to {listed(usable)}, or leave it unset for {usable[0]}"
            )
    return wish or usable[0]


BUILT = tuple(name for name in SETS if PathFinder.find_spec("cunpool._kernels.pool", [folder_of(name)]))
"""The sets of this build, the widest first."""
IN_USE = _chosen(os.environ.get("CUNPOOL_SIMD", "").strip().lower(), BUILT, _runtime.INSTRUCTION_SETS)
_kernels.__path__.insert(0, folder_of(IN_USE))
