"""``cunpool bench``: ten shapes beside whichever of the others are installed.

The repository's benchmarks are these and more, by the same clock. Each contestant has a process of its own, so that no
two OpenMP runtimes share one, and is stopped while another has its turn, so that nobody's idle threads spin at the cost
of others. What counts are the ratios within a round: times of a shared machine move more.
"""

from __future__ import annotations

import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

import cunpool as cu
from cunpool._arrays import Array
from cunpool._demo import Refusal, one_line, threads

Call = Callable[[], Any]
Arrays = dict[str, Array]
Prepared = Callable[[Any, Arrays], "Call | None"]
Prepare = Callable[[int], Prepared]
Check = Callable[[Any, Any], "int | None"]
Row = tuple[str, float, float, float]  # whose time, its geometric mean and its range, by cunpool's

COMMAND = sys.executable, "-m", "cunpool._bench"
ROUNDS, BLOCK, SECONDS = 5, 0.02, 2.0  # rounds at most; seconds of a turn, and of a cell for all contestants
# Seconds of calls before those of a turn, for one thread and for more: what was in the caches has to come back; and of
# two threads that have slept, the system may leave both on one processor for some 50 milliseconds.
WARM = 0.005, 0.06
TITLES = {  # by operation and index
    ("unpool", "int64"): "unpooling",
    ("pool", "int64"): "pooling with indices",
    ("pool", "none"): "pooling without indices",
}
THEMES = {"light": ("white", "#1a1a1a", "#8a8a8a"), "dark": ("#131416", "#f0f0f0", "#909090")}
SLOWER, FASTER = "#2a8fd0", "#e8730c"  # than cunpool; the colour-blind can tell them apart, on either ground


@dataclass(frozen=True)
class Cell:
    """One operation on one shape of float32."""

    op: str  # unpool or pool
    full: tuple[int, ...]  # (N, C, *spatial) of the side with all the cells
    kernel: int = 2
    stride: int = 2
    padding: int = 0
    index: str = "int64"  # or none, for pooling alone

    @property
    def n(self) -> int:
        return len(self.full) - 2

    @property
    def pooled(self) -> tuple[int, ...]:
        return self.full[:2] + tuple(
            (size + 2 * self.padding - self.kernel) // self.stride + 1 for size in self.full[2:]
        )

    @property
    def name(self) -> str:
        window = f"{self.kernel}/{self.stride}" + (f" pad {self.padding}" if self.padding else "")
        return " ".join([self.op, "x".join(map(str, self.full)), window, *self.rest])

    @property
    def rest(self) -> list[str]:
        """What the name says beyond operation, shape and window."""
        return ["no indices"] * (self.index == "none")

    @property
    def window(self) -> tuple[int, int, int]:
        return self.kernel, self.stride, self.padding


CELLS = [
    Cell("unpool", (1, 64, 16, 16)),
    Cell("unpool", (1, 64, 128, 128)),
    Cell("unpool", (8, 64, 112, 112)),
    Cell("unpool", (1, 1, 128, 256, 256)),
    Cell("pool", (1, 64, 16, 16)),
    Cell("pool", (1, 64, 128, 128)),
    Cell("pool", (8, 64, 112, 112), 3, 2, 1),
    Cell("pool", (1, 1, 128, 256, 256)),
    Cell("pool", (1, 1, 1080, 1920), index="none"),
    Cell("pool", (1, 1, 1080, 1920), 15, 1, 7, index="none"),
]


def data(cell: Cell) -> Arrays:
    """The arrays that the operation takes, contiguous."""
    rng = np.random.default_rng(1)
    if cell.op == "pool":
        return {"x": rng.random(cell.full, np.float32)}
    code = np.min_scalar_type(cell.kernel**cell.n - 1)
    indices, codes = np.zeros((), np.int64), np.zeros((), code)
    for axis, size in enumerate(cell.full[2:]):
        shape = [1] * len(cell.full)
        shape[axis + 2] = cell.pooled[axis + 2]
        first = np.arange(cell.pooled[axis + 2]).reshape(shape) * cell.stride - cell.padding
        place = np.clip(first + rng.integers(0, cell.kernel, cell.pooled, np.uint8), 0, size - 1)
        indices = indices * size + place
        codes = codes * cell.kernel + (place - first).astype(code)
    # As after a pooling, equal places have equal values: PyTorch's answer is a matter of luck otherwise. Small integers
    # have the same sum in any order.
    return {"x": (indices * 2654435761 % 1024).astype(np.float32), "indices": indices, "codes": codes}


# How each one is called. Given a number of threads, it is ready for cells; given a cell and its arrays, it returns the
# call to time, or None where it has no such operation.


def cunpool(threads: int) -> Prepared:
    cu.set_num_threads(threads)

    def call(cell: Cell, arrays: Arrays) -> Call:
        x, window = arrays["x"], cell.window
        if cell.op == "unpool":
            unpool, indices = getattr(cu, f"max_unpool{cell.n}d"), arrays["indices"]
            return lambda: unpool(x, indices, *window, cell.full[2:])
        pool, wanted = getattr(cu, f"max_pool{cell.n}d"), cell.index != "none"
        return lambda: pool(x, *window, return_indices=wanted)

    return call


def torch(threads: int) -> Prepared:
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(threads)

    def call(cell: Cell, arrays: Arrays) -> Call:
        x, window = torch.from_numpy(arrays["x"]), cell.window
        if cell.op == "unpool":
            unpool, indices = getattr(F, f"max_unpool{cell.n}d"), torch.from_numpy(arrays["indices"])
            return lambda: unpool(x, indices, *window, cell.full[2:])
        pool, wanted = getattr(F, f"max_pool{cell.n}d"), cell.index != "none"
        return lambda: pool(x, *window, return_indices=wanted)

    return call


def onnxruntime(threads: int) -> Prepared:
    def call(cell: Cell, arrays: Arrays) -> Call:
        session, feed, _ = onnx_session(cell, arrays, threads)
        return lambda: session.run(None, feed)

    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401

    return call


def onnx_session(cell: Cell, arrays: Arrays, threads: int) -> tuple[Any, Arrays, dict[str, tuple[int, ...]]]:
    """A model of one node, what it is fed with, and the shapes of what it gives."""
    import onnxruntime
    from onnx import TensorProto, helper

    feed, op = {"x": arrays["x"]}, "MaxUnpool" if cell.op == "unpool" else "MaxPool"
    shapes = dict.fromkeys(["y"] if cell.index == "none" else ["y", "i"], cell.pooled)
    if cell.op == "unpool":  # counted through all planes
        start = np.arange(math.prod(cell.full[:2])).reshape(cell.full[:2] + (1,) * cell.n)
        feed |= {"i": arrays["indices"] + start * math.prod(cell.full[2:]), "s": np.array(cell.full)}
        shapes = {"y": cell.full}
    node = helper.make_node(
        op, [*feed], [*shapes], kernel_shape=[cell.kernel] * cell.n, strides=[cell.stride] * cell.n,
        pads=[cell.padding] * (2 * cell.n),
    )  # fmt: skip

    kind = helper.np_dtype_to_tensor_dtype(arrays["x"].dtype)

    def declared(name: str, shape: tuple[int, ...]) -> Any:
        return helper.make_tensor_value_info(name, kind if name in "xy" else TensorProto.INT64, shape)

    inputs = [declared(name, array.shape) for name, array in feed.items()]
    graph = helper.make_graph([node], "cell", inputs, [declared(*item) for item in shapes.items()])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 12)])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session, feed, shapes


def paddle(threads: int) -> Prepared:  # pragma: no cover - no extra of ours brings it along
    import paddle
    import paddle.nn.functional as F

    paddle.set_device("cpu")

    def call(cell: Cell, arrays: Arrays) -> Call:
        x, window = paddle.to_tensor(arrays["x"]), cell.window
        if cell.op == "unpool":
            # Its 1d unpooling refuses any explicit size; for the cells here the default one is the same.
            size = list(cell.full[2:]) if cell.n > 1 else None
            unpool, indices = getattr(F, f"max_unpool{cell.n}d"), paddle.to_tensor(arrays["indices"])
            return lambda: unpool(x, indices, *window, output_size=size)
        pool, wanted = getattr(F, f"max_pool{cell.n}d"), cell.index != "none"
        return lambda: pool(x, *window, return_mask=wanted)

    return call


def numpy(threads: int) -> Prepared:
    """Always serial, as the three that follow may be; `threads` is how many processors they may choose from."""

    def call(cell: Cell, arrays: Arrays) -> Call | None:
        if cell.op != "unpool":
            return None
        planes, size = math.prod(cell.full[:2]), math.prod(cell.full[2:])
        x, indices = arrays["x"].reshape(planes, -1), arrays["indices"].reshape(planes, -1)

        def unpool() -> Array:
            z = np.zeros((planes, size), x.dtype)
            np.put_along_axis(z, indices, x, 1)
            return z.reshape(cell.full)

        return unpool

    return call


def scipy(threads: int) -> Prepared:
    from scipy.ndimage import maximum_filter

    def call(cell: Cell, arrays: Arrays) -> Call | None:
        image = arrays["x"][0, 0]
        return (lambda: maximum_filter(image, cell.kernel)) if _is_dilation(cell) else None

    return call


def opencv(threads: int) -> Prepared:
    import cv2

    cv2.setNumThreads(threads)

    def call(cell: Cell, arrays: Arrays) -> Call | None:
        image, window = arrays["x"][0, 0], np.ones((cell.kernel,) * 2, np.uint8)
        return (lambda: cv2.dilate(image, window)) if _is_dilation(cell) else None

    return call


def _is_dilation(cell: Cell) -> bool:
    """Whether it is a filter of a single image: the maximum of a window around each of its cells."""
    around = cell.stride == 1 and cell.kernel == 2 * cell.padding + 1
    return around and (cell.op, cell.index, cell.full[:2], cell.n) == ("pool", "none", (1, 1), 2)


def skimage(threads: int) -> Prepared:
    from skimage.measure import block_reduce

    def call(cell: Cell, arrays: Arrays) -> Call | None:
        apart = cell.kernel == cell.stride and not any(size % cell.kernel for size in cell.full[2:])
        if (cell.op, cell.index, cell.padding) != ("pool", "none", 0) or not apart:
            return None
        return lambda: block_reduce(arrays["x"], (1, 1) + (cell.kernel,) * cell.n, np.max)

    return call


CONTESTANTS: dict[str, Prepare] = {
    f.__name__: f for f in (cunpool, torch, onnxruntime, paddle, numpy, scipy, opencv, skimage)
}
PEERS = {
    "cunpool": "cunpool",
    "torch": "PyTorch",
    "onnxruntime": "ONNX Runtime",
    "paddle": "PaddlePaddle",
    "numpy": "NumPy",
    "scipy": "SciPy",
    "opencv": "OpenCV",
    "skimage": "scikit-image",
}


def checksum(cell: Cell, result: Any) -> int:
    """Of the result's bits, whatever its layout and whatever integers its indices are."""
    total = 0
    for given in result if isinstance(result, (tuple, list)) else [result]:
        array = np.asarray(given)
        if array.dtype.kind == "i":
            array = array.astype(np.int64) % math.prod(cell.full[2:])  # ONNX counts through all planes
        total = zlib.crc32(np.ascontiguousarray(array).data, total)
    return total


def warm(call: Call, threads: int) -> None:
    """Calls that do not count, at the beginning of a turn, before which this process was stopped."""
    end = time.perf_counter() + WARM[threads > 1]
    while time.perf_counter() < end:
        call()


def timed(call: Call, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def serve(prepare: Prepare, check: Check, threads: int, connection: Connection) -> None:
    """A contestant's process: take a cell, then time blocks of calls as often as asked."""
    if hasattr(os, "sched_setaffinity"):  # the same processors for all: on a shared machine they are not equally fast
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    try:
        ready = prepare(threads)
    except ImportError as error:
        connection.send(f"not installed: {error.name}")
        return
    connection.send("ready")
    call: Call | None = None
    repeats = 1
    while order := connection.recv():
        if isinstance(order, tuple):
            cell, folder, block = order
            call = None
            arrays = {path.stem: np.load(path) for path in Path(folder).iterdir()}
            call = ready(cell, arrays)
            answer = None
            if call is not None:
                answer = check(cell, call())
                call()
                repeats = max(1, int(block / timed(call, 1)))
                repeats = max(1, int(block / timed(call, repeats)))
            connection.send((call is not None, answer))
        else:
            assert call is not None
            warm(call, threads)
            connection.send(timed(call, repeats))


class Contestant:
    """A process, stopped except in its turns."""

    def __init__(self, name: str, threads: int, command: Sequence[str] = COMMAND, title: str = "") -> None:
        self.name, self.key = name, f"{title or name} {threads}"
        with Listener() as listener:
            words = [*command, name, str(threads), str(listener.address)]
            self.process = subprocess.Popen(words, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
            Thread(target=self.answer_for, args=(listener.address,), daemon=True).start()
            self.connection = listener.accept()
        self.status = self.connection.recv()
        if self.status == "ready":
            self.signal("SIGSTOP")
        else:
            self.process.wait()

    def answer_for(self, address: Any) -> None:
        """Connect in the place of a process that ends before it does, for which the other side would wait for ever."""
        code = self.process.wait()
        with suppress(OSError), Client(address) as connection:  # nobody listens to those that did
            connection.send(f"its process ended with {code}")

    def signal(self, name: str) -> None:
        if hasattr(signal, name):
            self.process.send_signal(getattr(signal, name))

    def ask(self, order: Any) -> Any:
        self.signal("SIGCONT")
        self.connection.send(order)
        answer = self.connection.recv()
        self.signal("SIGSTOP")
        return answer

    def end(self) -> None:
        self.process.kill()  # a stopped process would not hear anything milder
        self.process.wait()


def measure(
    cell: Any, arrays: Arrays, contestants: list[Contestant], rounds: int, block: float, seconds: float = math.inf
) -> dict[str, list[float]]:
    """Every contestant's time in every round. Each has an equal share of these seconds: who has used it up is out."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            for name, array in arrays.items():
                np.save(Path(folder, name), array)
        except OSError as error:
            raise Refusal(f"cannot write to {folder}: {one_line(error)}") from None
        answers = {c.key: c.ask((cell, folder, block)) for c in contestants}
    taking_part = [c for c in contestants if answers[c.key][0]]
    checksums = {answer for takes_part, answer in answers.values() if takes_part and answer is not None}
    if len(checksums) != 1:
        raise Refusal(f"{cell.name}: the answers differ: {answers}")
    times: dict[str, list[float]] = {c.key: [] for c in taking_part}
    spent = {c.key: 0.0 for c in taking_part}
    for number in range(rounds):
        for contestant in random.sample(taking_part, len(taking_part)):
            if number and spent[contestant.key] >= seconds / len(taking_part):
                continue
            start = time.perf_counter()
            times[contestant.key].append(contestant.ask("time"))
            spent[contestant.key] += time.perf_counter() - start
    return times


def main(contestants: Mapping[str, Prepare], check: Check = checksum) -> None:
    """A contestant's process, by the words that `Contestant` gives it."""
    name, threads, address = sys.argv[1:]
    serve(contestants[name], check, int(threads), Client(address))


def geometric_mean(numbers: Iterable[float]) -> float:
    logarithms = [math.log(number) for number in numbers]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else math.nan


def row(title: str, ratios: list[float]) -> Row:
    return title, geometric_mean(ratios), min(ratios), max(ratios)


def draw(groups: dict[str, list[Row]], path: Path, theme: str, heading: str, left: float = 1.26) -> None:
    """Rows under titles: a bar for the range, a mark and a number at the mean; beyond the line cunpool is faster.

    The names of rows have `left` inches.
    """
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    paper, ink, faint = THEMES[theme]
    height = sum(len(found) + 1.1 for found in groups.values())
    width, inches = left + 2.94, 0.27 * height + 0.85
    figure = Figure(figsize=(width, inches), facecolor=paper)
    axes = figure.add_axes((left / width, 0.5 / inches, 2.77 / width, 1 - 0.85 / inches), facecolor=paper)
    beside: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "color": ink}
    level = 0.0
    for title, found in groups.items():
        axes.text(
            (0.04 - left) / 2.77,
            level,
            title,
            weight="bold",
            bbox={"facecolor": paper, "edgecolor": "none", "pad": 1},
            **beside,
        )
        for number, (name, mean, low, high) in enumerate(found, 1):
            y = level + number - 0.1
            axes.plot([max(low, 1), max(high, 1)], [y, y], color=SLOWER, lw=5, alpha=0.55, solid_capstyle="butt")
            axes.plot([min(low, 1), min(high, 1)], [y, y], color=FASTER, lw=5, alpha=0.9, solid_capstyle="butt")
            axes.plot(mean, y, "o", color=SLOWER if mean >= 1 else FASTER, ms=8, mec=paper)
            axes.text(-0.02, y, name, ha="right", **beside)
            label = f"{mean:.1f}\N{MULTIPLICATION SIGN}"
            axes.annotate(label, (max(high, 1), y), (5, 0), textcoords="offset points", va="center", color=ink,
                          weight="bold")  # fmt: skip
        level += len(found) + 1.1
    axes.axvline(1, color=ink, lw=1.2)
    everything = [number for found in groups.values() for _, *numbers in found for number in numbers]
    axes.set(xscale="log", xlim=(min([0.8 * min(everything), 0.7]), 3 * max(everything)), ylim=(level - 0.6, -0.7))
    axes.xaxis.set_major_locator(FixedLocator([0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_yticks([])
    axes.tick_params(colors=ink)
    axes.grid(axis="x", color=faint, alpha=0.3)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("times as long as cunpool (mean, and from least to most)", color=ink, x=0.3)
    figure.text(0.08 / width, 1 - 0.1 / inches, heading, ha="left", va="top", color=ink, fontsize=10.5)
    with matplotlib.rc_context({"svg.hashsalt": "cunpool", "svg.fonttype": "path"}):  # the same file in each run
        figure.savefig(path, facecolor=paper, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    print(f"wrote {path}")


def bench(count: int | None, plot: str | None) -> None:
    """Measure the ten cells, and print and draw what came of it."""
    if plot is not None:
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            raise Refusal("--plot needs matplotlib: pip install 'cunpool[bench]'") from None
    try:
        cu.set_num_threads(count)
    except ValueError as error:
        raise Refusal(str(error)) from None
    count = cu.get_num_threads()
    contestants: list[Contestant] = []
    times = {}
    try:
        for name, title in PEERS.items():
            contestant = Contestant(name, count)
            if contestant.status == "ready":
                contestants.append(contestant)
            else:
                print(f"{title} is left out: {contestant.status}")
        for number, cell in enumerate(CELLS):
            progress(number, cell.name)
            times[cell] = measure(cell, data(cell), contestants, ROUNDS, BLOCK, SECONDS)
        progress(len(CELLS), "")
    finally:
        for contestant in contestants:
            contestant.end()
    others = [c for c in contestants if c.name != "cunpool"]
    ratios = {(cell, c.name): ratio(found, c.key, f"cunpool {count}") for cell, found in times.items() for c in others}
    table(times, ratios, others, f"cunpool {count}")
    if plot is not None:
        groups = {}
        for kind, title in TITLES.items():
            alike = [cell for cell in times if (cell.op, cell.index) == kind]
            groups[title] = [
                row(PEERS[c.name], known)
                for c in others
                if (known := [r for cell in alike if (r := ratios[cell, c.name])])
            ]
        try:
            draw(
                {title: rows for title, rows in groups.items() if rows},
                Path(plot),
                "light",
                f"cunpool {cu.__version__}, {threads()}",
            )
        except Exception as error:  # no such folder, or a format that matplotlib does not know
            raise Refusal(f"cannot write {plot}: {one_line(error)}") from None


def ratio(times: dict[str, list[float]], theirs: str, ours: str) -> float | None:
    """The median of the ratios of the rounds that both had, or None for who has no such operation."""
    if theirs not in times:
        return None
    return statistics.median(a / b for a, b in zip(times[theirs], times[ours], strict=False))


def progress(done: int, doing: str) -> None:
    if sys.stderr.isatty():
        bar = "#" * (20 * done // len(CELLS))
        print(f"\r[{bar:<20}] {doing:<40}", end="" if doing else "\r\033[K", file=sys.stderr, flush=True)


def table(
    times: dict[Cell, dict[str, list[float]]],
    ratios: dict[tuple[Cell, str], float | None],
    others: list[Contestant],
    ours: str,
) -> None:
    print(f"\ncunpool's time with {threads()}, and the others' by it: medians, and above 1 cunpool is ahead")
    print(f"{'kernel/stride':<42}{'cunpool':>12}" + "".join(f"{PEERS[c.name]:>14}" for c in others))
    for cell, found in times.items():
        cells = [ratios[cell, c.name] for c in others]
        entries = "".join(f"{'-' if r is None else format(r, '.2f'):>14}" for r in cells)
        print(f"{cell.name:<42}{statistics.median(found[ours]) * 1e6:>9.1f} us{entries}")


if __name__ == "__main__":
    main(CONTESTANTS)
