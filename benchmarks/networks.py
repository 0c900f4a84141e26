"""Whole networks, in the ways that PyTorch's users have of running them: ``python benchmarks/networks.py``.

Inference of a network shaped like SegNet and of one shaped like FastSurfer's CNN, with random weights: eager, compiled,
accelerated, accelerated and compiled, and in ONNX Runtime from `cunpool.torch.export_onnx`; with `--training`, steps of
training, eager and accelerated. Each way has a process of its own; they take turns, round after round. The table has
the medians in milliseconds, with their quartiles; OUTPUT.json has all times, and OUTPUT.svg shows them.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import logging
import multiprocessing
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

WAYS = ("eager", "compiled", "accelerated", "accelerated, compiled", "ONNX Runtime")


@functools.cache
def _modules() -> Any:
    """PyTorch is imported by those who run networks, not by those who only time them."""
    import torch
    from torch import nn

    class Dense(nn.Module):
        """Convolutions that compete with what came before them, cell by cell, rather than stand beside it."""

        def __init__(self, channels: int, read: int | None = None) -> None:
            super().__init__()
            reads = [read or channels, channels, channels]
            self.steps = nn.ModuleList(
                nn.Sequential(nn.PReLU(), nn.Conv2d(r, channels, k, padding=k // 2), nn.BatchNorm2d(channels))
                for r, k in zip(reads, (5, 5, 1), strict=True)
            )

        def forward(self, x: Any) -> Any:
            best = None
            for step in self.steps:
                x = step(x)
                best = x = x if best is None else torch.maximum(x, best)
            return x

    class FastSurfer(nn.Module):
        """Four levels down by pooling with indices, and up by unpooling, with skips that compete."""

        def __init__(self, width: int, classes: int) -> None:
            super().__init__()
            self.down = nn.ModuleList(Dense(width, None if level else 7) for level in range(4))
            self.up = nn.ModuleList(Dense(width) for _ in range(4))
            self.bottom, self.classify = Dense(width), nn.Conv2d(width, classes, 1)
            self.pool, self.unpool = nn.MaxPool2d(2, 2, return_indices=True), nn.MaxUnpool2d(2, 2)

        def forward(self, x: Any) -> Any:
            kept = []
            for block in self.down:
                x = block(x)
                kept.append(x)
                x, indices = self.pool(x)
                kept.append(indices)
            x = self.bottom(x)
            for block in self.up:
                indices, skip = kept.pop(), kept.pop()
                x = block(torch.maximum(self.unpool(x, indices, output_size=skip.shape), skip))
            return self.classify(x)

    class SegNet(nn.Module):
        """Convolutions, pooled three times with indices and unpooled by them."""

        def __init__(self, width: int) -> None:
            super().__init__()
            sizes = [3, width, 2 * width, 4 * width]
            pairs = list(itertools.pairwise(sizes))
            self.down = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in pairs)
            self.up = nn.ModuleList(nn.Conv2d(b, a, 3, padding=1) for a, b in reversed(pairs))
            self.pool = nn.ModuleList(nn.MaxPool2d(2, return_indices=True) for _ in pairs)
            self.unpool = nn.ModuleList(nn.MaxUnpool2d(2) for _ in pairs)

        def forward(self, x: Any) -> Any:
            kept = []
            for convolution, pool in zip(self.down, self.pool, strict=True):
                x = torch.relu(convolution(x))
                size = x.shape
                x, indices = pool(x)
                kept.append((indices, size))
            for convolution, unpool in zip(self.up, self.unpool, strict=True):
                indices, size = kept.pop()
                x = convolution(unpool(x, indices, output_size=size))
            return x

    return FastSurfer, SegNet


def fastsurfer(width: int, classes: int = 79) -> Any:
    """A network with the shape of FastSurfer's CNN, which has a width of 64."""
    import torch

    torch.manual_seed(0)
    return _modules()[0](width, classes)


def segnet(width: int) -> Any:
    import torch

    torch.manual_seed(0)
    return _modules()[1](width)


NETWORKS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "SegNet": (segnet, (2, 3, 256, 256)),
    "FastSurfer, 1 slice": (fastsurfer, (1, 7, 256, 256)),
    "FastSurfer, 8 slices": (fastsurfer, (8, 7, 256, 256)),
}


def prepared(way: str, model: Any, x: Any, threads: int, training: bool) -> Callable[[], Any]:
    """A call that runs `model` on `x`, in one of the `WAYS`, or trains it by a step."""
    import torch

    if way == "ONNX Runtime":
        import onnxruntime

        import cunpool.torch

        warnings.simplefilter("ignore")  # those of the exporter, about itself
        logging.disable(logging.WARNING)
        program = cunpool.torch.export_onnx(model, (x,), input_names=["x"], verbose=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        model_bytes = program.model_proto.SerializeToString()
        session = onnxruntime.InferenceSession(model_bytes, options, providers=["CPUExecutionProvider"])
        return lambda: session.run(None, {"x": x.numpy()})[0]
    if "accelerated" in way:
        import cunpool.torch

        cunpool.torch.accelerate(model)
    if "compiled" in way:
        model = torch.compile(model, fullgraph=True)

    def infer() -> Any:
        with torch.inference_mode():
            return model(x).numpy()

    def train() -> Any:
        model.zero_grad()
        model(x).square().mean().backward()
        return np.array([float(p.grad.sum()) for p in model.parameters()])

    return train if training else infer


def serve(way: str, name: str, options: argparse.Namespace, threads: int, connection: Connection) -> None:
    """Time one call as often as asked; the first answer is the result."""
    import torch

    torch.set_num_threads(threads)
    build, shape = NETWORKS[name]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(options.seed))
    model = build(options.width)
    call = prepared(way, model if options.training else model.eval(), x, threads, options.training)
    connection.send(call())
    while connection.recv():
        start = time.perf_counter()
        call()
        connection.send(time.perf_counter() - start)


def measured(name: str, threads: int, options: argparse.Namespace) -> dict[str, list[float]]:
    """Each way's times, in milliseconds."""
    context = multiprocessing.get_context("spawn")
    ends, results = [], []
    for way in options.ways:
        mine, other = context.Pipe()
        context.Process(target=serve, args=(way, name, options, threads, other), daemon=True).start()
        ends.append(mine)
        results.append(mine.recv())
    for way, result in zip(options.ways, results, strict=True):
        # Convolutions may round otherwise; then another cell of a window may be the largest, and values move with it.
        apart = np.abs(result - results[0]) / np.abs(results[0]).max()
        if np.mean(apart > 1e-3) > 1e-3 or apart.max() > 0.05:
            raise SystemExit(f"{name}: {way} and {options.ways[0]} differ by {apart.max():.2g} of the largest value")
    times: list[list[float]] = [[] for _ in ends]
    for _, (end, kept) in itertools.product(range(options.rounds), [*zip(ends, times, strict=True)]):
        time.sleep(0.02)  # threads of the one before that still wait for work go to sleep
        end.send(True)
        kept.append(float(f"{1e3 * end.recv():.4g}"))
    for end in ends:
        end.send(False)
    return dict(zip(options.ways, times, strict=True))


def chart(found: dict[str, dict[str, list[float]]], path: Path) -> None:
    """How many times as fast as the first way the others are: a bar for each way of each network."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 0.8 + 0.28 * sum(map(len, found.values()))), layout="constrained")
    axes = figure.add_subplot(xlabel="times as fast as the first way, medians")
    for name, times in found.items():
        first = np.median(next(iter(times.values())))
        axes.barh([f"{name}: {way}" for way in times], [first / np.median(of_way) for of_way in times.values()])
    axes.axvline(1, color="black", lw=1)
    axes.invert_yaxis()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="of the input")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--width", type=int, default=16, help="channels of the first convolution")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=[*NETWORKS])
    parser.add_argument("--ways", nargs="+", choices=WAYS)
    parser.add_argument("--training", action="store_true", help="steps of training, for inference")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--output", type=Path, default=Path("networks"), help="OUTPUT.json and OUTPUT.svg are written")
    options = parser.parse_args()
    options.ways = options.ways or (["eager", "accelerated"] if options.training else [*WAYS])
    print("| ms |", *(f"{way} |" for way in options.ways))
    print("|---|" + "---:|" * len(options.ways))
    found = {}
    for name, threads in itertools.product(options.networks, options.threads):
        title = f"{name}, {threads} thread{'s' * (threads > 1)}"
        found[title] = measured(name, threads, options)
        quartiles = (np.percentile(times, [50, 25, 75]) for times in found[title].values())
        print(f"| {title} |", *("{:.0f} [{:.0f} {:.0f}] |".format(*three) for three in quartiles), flush=True)
    options.output.with_suffix(".json").write_text(json.dumps({"seed": options.seed, "milliseconds": found}) + "\n")
    chart(found, options.output.with_suffix(".svg"))


if __name__ == "__main__":
    main()
