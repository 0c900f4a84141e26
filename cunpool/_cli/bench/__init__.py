"""``cunpool bench``: twelve cases beside the other libraries that are installed.

cells.py        what is measured
contestants.py  how each library is called
clock.py        a process for each, their turns, and the times
chart.py        the chart
command.py      the command, and the table that it prints

The repository's benchmarks are these and more, by the same clock.
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
