"""What ``cunpool bench`` has too: its cells, its clock and its chart. Of this checkout, whichever build is measured."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_FOLDER = Path(__file__).parent.parent / "cunpool" / "_cli" / "bench"
_spec = importlib.util.spec_from_file_location(
    "cunpool_bench", _FOLDER / "__init__.py", submodule_search_locations=[str(_FOLDER)]
)
assert _spec is not None
assert _spec.loader is not None
bench = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = bench  # where dataclasses look, and its own modules
_spec.loader.exec_module(bench)
