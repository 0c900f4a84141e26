"""What PyTorch 2.13.0 answered, recorded by record_pytorch.py: this runs where PyTorch is not installed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cases import POOL, UNPOOL, bits

FACTS = json.loads(Path(__file__).with_name("pytorch_facts.json").read_text())


def array(shape, numbers, dtype=np.float64):
    return np.array([dtype(number) for number in numbers], dtype).reshape(shape)


@pytest.mark.parametrize("fact", FACTS, ids=range(len(FACTS)))
def test_fact(fact):
    x = array(*fact["x"])
    if "pool" in fact:
        call, dtypes = (lambda: POOL[fact["pool"]](x, *fact["arguments"], return_indices=True)), (float, np.int64)
    else:
        indices = array(x.shape, fact["indices"], np.int64)
        call, dtypes = (lambda: (UNPOOL[fact["unpool"]](x, indices, *fact["arguments"]),)), (float,)
    if fact["answer"] == "refused":
        with pytest.raises((ValueError, IndexError)):
            call()
        return
    for result, answer, dtype in zip(call(), fact["answer"], dtypes, strict=True):
        assert bits(np.nan_to_num(result, nan=7.5)) == bits(
            np.nan_to_num(array(*answer, np.dtype(dtype).type), nan=7.5)
        )


def test_the_facts_hold_both_answers():
    refused = [fact["answer"] == "refused" for fact in FACTS]
    assert len(FACTS) > 180
    assert 10 < sum(refused) < 100
