"""``torch.nn``'s max pooling and unpooling, by cunpool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

import torch

from cunpool.torch import functional


class MaxPool1d(torch.nn.MaxPool1d):
    """``torch.nn.MaxPool1d``, by cunpool; see `MaxPool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.MaxPool1d(2)(torch.tensor([[3, 1, 4, 1]]))
    tensor([[3, 4]])
    """

    def forward(self, input: torch.Tensor) -> Any:
        window = self.kernel_size, self.stride, self.padding, self.dilation
        return functional.pool(1, input, window, self.ceil_mode, self.return_indices)


class MaxPool2d(torch.nn.MaxPool2d):
    """``torch.nn.MaxPool2d`` in every respect, but that cunpool computes it: `max_pool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> pool = cunpool.torch.MaxPool2d(2, return_indices=True)
    >>> pool
    MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
    >>> pool(torch.tensor([[[1, 2], [4, 3]]]))
    (tensor([[[4]]]), tensor([[[2]]]))
    """

    def forward(self, input: torch.Tensor) -> Any:
        window = self.kernel_size, self.stride, self.padding, self.dilation
        return functional.pool(2, input, window, self.ceil_mode, self.return_indices)


class MaxPool3d(torch.nn.MaxPool3d):
    """``torch.nn.MaxPool3d``, by cunpool; see `MaxPool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.MaxPool3d(2)(torch.arange(8).reshape(1, 2, 2, 2))
    tensor([[[[7]]]])
    """

    def forward(self, input: torch.Tensor) -> Any:
        window = self.kernel_size, self.stride, self.padding, self.dilation
        return functional.pool(3, input, window, self.ceil_mode, self.return_indices)


class MaxUnpool1d(torch.nn.MaxUnpool1d):
    """``torch.nn.MaxUnpool1d``, by cunpool; see `MaxUnpool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.MaxUnpool1d(2)(torch.tensor([[3, 4]]), torch.tensor([[0, 2]]))
    tensor([[3, 0, 4, 0]])
    """

    def forward(
        self, input: torch.Tensor, indices: torch.Tensor, output_size: Sequence[SupportsIndex] | None = None
    ) -> torch.Tensor:
        return functional.unpool(1, input, indices, (self.kernel_size, self.stride, self.padding), output_size)


class MaxUnpool2d(torch.nn.MaxUnpool2d):
    """``torch.nn.MaxUnpool2d`` in every respect, but that cunpool computes it: `max_unpool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> unpool = cunpool.torch.MaxUnpool2d(2, stride=2)
    >>> unpool
    MaxUnpool2d(kernel_size=(2, 2), stride=(2, 2), padding=(0, 0))
    >>> unpool(torch.tensor([[[4]]]), torch.tensor([[[2]]]))
    tensor([[[0, 0],
             [4, 0]]])
    """

    def forward(
        self, input: torch.Tensor, indices: torch.Tensor, output_size: Sequence[SupportsIndex] | None = None
    ) -> torch.Tensor:
        return functional.unpool(2, input, indices, (self.kernel_size, self.stride, self.padding), output_size)


class MaxUnpool3d(torch.nn.MaxUnpool3d):
    """``torch.nn.MaxUnpool3d``, by cunpool; see `MaxUnpool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.MaxUnpool3d(2)(torch.tensor([[[[7]]]]), torch.tensor([[[[7]]]])).flatten()
    tensor([0, 0, 0, 0, 0, 0, 0, 7])
    """

    def forward(
        self, input: torch.Tensor, indices: torch.Tensor, output_size: Sequence[SupportsIndex] | None = None
    ) -> torch.Tensor:
        return functional.unpool(3, input, indices, (self.kernel_size, self.stride, self.padding), output_size)
