"""Mistakes with tensors. A type checker has to find each line with `ignore`, and names an `ignore` too many."""

import torch

import cunpool.torch as ct

x = torch.zeros(1, 1, 4, 4)


def tensor(value: torch.Tensor) -> None: ...


tensor(ct.max_pool2d(x, 2, return_indices=True))  # type: ignore[arg-type]
tensor(ct.MaxPool2d(2, return_indices=True)(x))  # type: ignore[arg-type]
ct.max_pool2d(x, 2, index_format="onnx")  # type: ignore[call-overload]
ct.max_pool2d(x, 3, 2, "same")  # type: ignore[arg-type]
ct.max_pool2d(x, 3, 2, ((0, 1), (1, 0)))  # type: ignore[arg-type]
ct.max_unpool2d(x, x, 2, index_format="onnx")  # type: ignore[arg-type]
ct.accelerate(Exception())  # type: ignore[type-var]
