"""Typical code with tensors, which type checkers read and nobody runs."""

from __future__ import annotations

import torch
from typing_extensions import assert_type

import cunpool.torch as ct

x = torch.zeros(1, 1, 4, 4)

assert_type(ct.max_pool2d(x, 2), torch.Tensor)
values, indices = ct.max_pool2d(x, 2, return_indices=True)
assert_type(values, torch.Tensor)
assert_type(ct.max_unpool2d(values, indices, 2, output_size=x.shape), torch.Tensor)
assert_type(ct.max_unpool2d(*ct.max_pool2d(x, 2, None, 0, 1, False, True), 2, output_size=x.shape), torch.Tensor)
few, places = ct.adaptive_max_pool2d(x, (None, 3), return_indices=True)
assert_type(few, torch.Tensor)
assert_type(ct.adaptive_max_pool2d(x, 3), torch.Tensor)
assert_type(ct.adaptive_max_unpool2d(few, places, x.shape), torch.Tensor)
assert_type(ct.AdaptiveMaxPool2d(3)(x), torch.Tensor)
assert_type(ct.AdaptiveMaxUnpool2d()(few, places, x.shape), torch.Tensor)
assert_type(ct.take_at2d(x, indices), torch.Tensor)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pool = ct.MaxPool2d(2, return_indices=True)
        self.unpool = ct.MaxUnpool2d(2)
        self.once_more = ct.MaxPool2d(3, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert_type(self.once_more(x), torch.Tensor)
        return self.unpool(*self.pool(x), output_size=x.shape)


net = ct.accelerate(Net(), index_format="window", verbose=True)
assert_type(net, Net)
assert_type(ct.restore(net), Net)


@ct.patched()
def pooled(x: torch.Tensor) -> torch.Tensor:
    with ct.patched():
        return torch.nn.functional.max_pool2d(x, 2)


assert_type(pooled(x), torch.Tensor)
ct.patch()
ct.unpatch()
