"""Record what PyTorch answers, as plain data, for the tests that run without it: ``python tests/record_pytorch.py``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from cases import geometry, lead

FACTS = Path(__file__).with_name("pytorch_facts.json")


def answer(function, *arguments):
    try:
        results = function(*arguments)
    except (RuntimeError, ValueError, TypeError):
        return "refused"
    return [[list(r.shape), [str(v) for v in r.flatten().tolist()]] for r in results]


def facts():
    rng = np.random.default_rng(5)
    for case in range(120):
        n = case % 3 + 1
        (kernel, stride, padding, dilation, ceil_mode), full = geometry(rng, n, most={1: 12, 2: 6, 3: 4}[n])
        if case % 7 == 0:  # some that do not fit
            padding = tuple(k // 2 + 1 for k in (kernel if isinstance(kernel, tuple) else (kernel,) * n))
        if case % 11 == 0:
            full = (1,) * n
        shape = lead(rng)[:1] + full
        choice = [-np.inf, -1.0, -0.0, 0.0, 1.0, 2.0, np.nan] if case % 2 else list(range(-9, 10))
        x = rng.choice(np.array(choice, float), shape)
        arguments = [kernel, stride, padding, dilation, ceil_mode]
        pool = getattr(F, f"max_pool{n}d")
        pooled = answer(lambda: pool(torch.from_numpy(x), *arguments, return_indices=True))  # noqa: B023
        yield {"pool": n, "x": [list(shape), [str(v) for v in x.ravel()]], "arguments": arguments, "answer": pooled}
        if pooled == "refused":
            continue
        (size, values), (_, indices) = pooled
        output = list(full) if case % 5 else [max(1, s + int(rng.integers(-4, 5))) for s in full]
        if case % 13 == 0:
            indices[-1] = rng.choice(["-1", str(int(np.prod(output))), str(2**40)])
        y = torch.tensor([float(v) for v in values], dtype=torch.float64).reshape(size)
        i = torch.tensor([int(v) for v in indices]).reshape(size)
        unpool = getattr(F, f"max_unpool{n}d")
        arguments = [kernel, stride, padding, output]
        yield {
            "unpool": n, "x": [size, values], "indices": indices, "arguments": arguments,
            "answer": answer(lambda: [unpool(y, i, *arguments)]),  # noqa: B023
        }  # fmt: skip


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(fact) for fact in facts())
    FACTS.write_text(f"[\n{lines}\n]\n")
    print(f"wrote {FACTS} with PyTorch {torch.__version__}")
