"""What ``cunpool.torch.accelerate`` gains end to end: ``python benchmarks/segnet.py``.

A network shaped like SegNet, as PyTorch runs it and after `accelerate`, each in a process of its own. They take turns,
round after round; what is printed are the median of the rounds' ratios and their quartiles.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np


def network(width: int) -> Any:
    import torch
    from torch import nn

    class SegNet(nn.Module):
        """Convolutions, pooled three times with indices and unpooled by them."""

        def __init__(self) -> None:
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

    torch.manual_seed(0)
    return SegNet()


def serve(accelerated: bool, threads: int, width: int, connection: Connection) -> None:
    """Time inference or a training step as often as asked."""
    import torch

    torch.set_num_threads(threads)
    model = network(width)
    if accelerated:
        import cunpool.torch

        cunpool.torch.accelerate(model)
    x = torch.randn(2, 3, 256, 256, generator=torch.Generator().manual_seed(1))

    def infer() -> float:
        with torch.inference_mode():
            return float(model(x).sum())

    def train() -> float:
        model.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return float(sum(p.grad.sum() for p in model.parameters()))

    calls: dict[str, Callable[[], float]] = {"inference": infer, "a training step": train}
    while order := connection.recv():
        answer = calls[order]()
        start = time.perf_counter()
        calls[order]()
        connection.send((time.perf_counter() - start, answer))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--width", type=int, default=16, help="channels of the first convolution")
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    for threads in (1, 2):
        ends = []
        for accelerated in (False, True):
            mine, other = context.Pipe()
            context.Process(target=serve, args=(accelerated, threads, options.width, other), daemon=True).start()
            ends.append(mine)
        for what in ("inference", "a training step"):
            times = []
            for _ in range(options.rounds + 1):
                answers = []
                for end in ends:
                    end.send(what)
                    answers.append(end.recv())
                if answers[0][1] != answers[1][1]:
                    raise SystemExit(f"{what}: the results differ: {answers}")
                times.append([seconds for seconds, _ in answers])
            before, after = np.array(times[1:]).T
            low, median, high = np.percentile(before / after, [25, 50, 75])
            print(
                f"{threads} thread{'s' * (threads > 1)}, {what}: {np.median(before) * 1e3:.1f} ms, accelerated "
                f"{np.median(after) * 1e3:.1f} ms: {median:.2f} times as fast [{low:.2f} {high:.2f}]"
            )
        for end in ends:
            end.send(None)


if __name__ == "__main__":
    main()
