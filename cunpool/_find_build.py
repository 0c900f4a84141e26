"""Find the compiled modules when Python starts in a checkout, so that `import cunpool` finds the source."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path


def compiled(path: list[str]) -> list[str]:
    """Return `path`, or the path of the installed package if `path` has no compiled modules."""
    if PathFinder.find_spec("cunpool._kernels.runtime", [str(Path(entry, "_kernels")) for entry in path]):
        return path
    here = Path(__file__).parent.parent.resolve()
    spec = PathFinder.find_spec("cunpool", [entry for entry in sys.path if Path(entry).resolve() != here])
    installed = list(spec.submodule_search_locations or []) if spec else []
    if PathFinder.find_spec("cunpool._kernels.runtime", [str(Path(entry, "_kernels")) for entry in installed]):
        return installed
    raise ImportError(
        f"cunpool's compiled modules are missing from {path[0]}: build them with 'pip install .' in the checkout "
        "(or 'pip install -e .' to work on the source); this needs a C compiler"
    )
