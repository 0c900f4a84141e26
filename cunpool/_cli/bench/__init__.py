"""``cunpool bench``: time twelve cases in cunpool and in the other libraries that are installed.

==============  ================================================
cells.py        the benchmark cases and their arrays
contestants.py  the call of each library
clock.py        one process for each library, and the timing
chart.py        the chart
command.py      the command, and the table that it prints
==============  ================================================

The benchmarks of the repository have more cases, and use the same timing.
"""

from cunpool._cli.demo import Refusal

from .cells import CELLS, TITLES, Arrays, Call, Cell, checksum, data
from .chart import DARK, FASTER, SLOWER, Row, draw, follow_theme, geometric_mean, row
from .clock import COMMAND, WARM, Check, Contestant, main, measure, ratio, serve, timed, warm
from .contestants import (
    CONTESTANTS,
    PEERS,
    Prepare,
    Prepared,
    cunpool,
    numpy,
    onnx_session,
    onnxruntime,
    opencv,
    paddle,
    scipy,
    skimage,
    torch,
)

__all__ = [
    "CELLS",
    "COMMAND",
    "CONTESTANTS",
    "DARK",
    "FASTER",
    "PEERS",
    "SLOWER",
    "TITLES",
    "WARM",
    "Arrays",
    "Call",
    "Cell",
    "Check",
    "Contestant",
    "Prepare",
    "Prepared",
    "Refusal",
    "Row",
    "checksum",
    "cunpool",
    "data",
    "draw",
    "follow_theme",
    "geometric_mean",
    "main",
    "measure",
    "numpy",
    "onnx_session",
    "onnxruntime",
    "opencv",
    "paddle",
    "ratio",
    "row",
    "scipy",
    "serve",
    "skimage",
    "timed",
    "torch",
    "warm",
]
