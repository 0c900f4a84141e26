"""What `accelerate` makes of modules that hand window codes from pooling to unpooling, and to nobody else.

Codes are numbers that mean nothing without their windows, so a network never gets to see them: what its pooling returns
as indices is a `WindowIndices`, which the unpooling opens after it has made sure that windows and sizes are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn, SupportsIndex

import torch

from cunpool import _geometry
from cunpool._geometry import IndexFormat
from cunpool.torch import _eager, _operators, _traced, modules

REFUSAL = (
    "indices of a network accelerated with index_format='window' go from its pooling straight to its unpooling and "
    "can do nothing else: accelerate it without index_format"
)


class WindowIndices:
    """Where the maxima are in their windows, where the windows are, and the size of the planes that were pooled."""

    def __init__(self, codes: torch.Tensor, window: list[list[int]], size: torch.Size) -> None:
        self.codes, self.window, self.size = codes, window, size

    @classmethod
    def __torch_function__(cls, *_: object) -> NoReturn:
        raise TypeError(REFUSAL)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{REFUSAL} (not {name!r})")


class _Pool(modules._Pool):
    _n: ClassVar[int]
    index_format: IndexFormat = "window"

    def forward(self, input: torch.Tensor) -> Any:
        result = super().forward(input)
        if not self.return_indices:
            return result
        values, codes = result
        window = _operators.lists(self._n, self.kernel_size, self.stride, self.padding, self.dilation)
        return values, WindowIndices(codes, window, input.shape[-self._n :])


class _Unpool(modules._Unpool):
    _n: ClassVar[int]
    index_format: IndexFormat = "window"

    def forward(
        self, input: torch.Tensor, indices: Any, output_size: Sequence[SupportsIndex] | None = None
    ) -> torch.Tensor:
        window = self.kernel_size, self.stride, self.padding
        if not isinstance(indices, WindowIndices):  # from elsewhere, so they are places in the plane
            return _eager.max_unpool(self._n, input, indices, window, output_size)
        lists = _operators.lists(self._n, *window, 1)
        if lists != indices.window:
            raise ValueError(
                f"{_described(lists)} cannot unpool with window codes from {_described(indices.window)}: "
                "accelerate the network without index_format"
            )
        if isinstance(indices.size, torch.Size):  # a symbolic trace has none
            self._check_size(input, lists, indices.size, output_size)
        return super().forward(input, indices.codes, output_size)

    def _check_size(self, input: torch.Tensor, window: list[list[int]], before: torch.Size, output_size: Any) -> None:
        """Refuse to unpool to another size than that `before` pooling, where both are known."""
        if output_size is None:
            axes = zip(input.shape[-self._n :], *window[:3], strict=True)
            output_size = [(pooled - 1) * stride - 2 * padding + kernel for pooled, kernel, stride, padding in axes]
        elif not _traced.is_traced(input):  # then sizes may be of NumPy's or PyTorch's numbers
            output_size = _geometry.entries("output_size", output_size)
        size, full = [*before], [*output_size][-self._n :]
        # What is traced or exported may have no numbers here; a code names the cell of its window at any size.
        if all(type(entry) is int for entry in (*size, *full)) and size != full:
            raise ValueError(
                f"what was pooled had the size {size}, and unpooling would give {full}: give output_size, the shape of "
                "what was pooled"
            )


def _described(window: list[list[int]]) -> str:
    return "windows of kernel_size {}, stride {}, padding {}, dilation {}".format(*window)


class MaxPool1d(_Pool, modules.MaxPool1d):
    _n = 1


class MaxPool2d(_Pool, modules.MaxPool2d):
    _n = 2


class MaxPool3d(_Pool, modules.MaxPool3d):
    _n = 3


class MaxUnpool1d(_Unpool, modules.MaxUnpool1d):
    _n = 1


class MaxUnpool2d(_Unpool, modules.MaxUnpool2d):
    _n = 2


class MaxUnpool3d(_Unpool, modules.MaxUnpool3d):
    _n = 3
