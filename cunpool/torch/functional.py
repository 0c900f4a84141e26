"""``torch.nn.functional``'s max pooling and unpooling, by cunpool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

import torch

from cunpool import _calls
from cunpool._background import FillValue
from cunpool._geometry import IndexFormat, OutputSize, Size
from cunpool.torch import _traced
from cunpool.torch._adaptive import adaptive_max_pool
from cunpool.torch._eager import max_pool
from cunpool.torch._onto import adaptive_max_unpool, max_unpool
from cunpool.torch._overloads import typed_adaptive_pool, typed_pool
from cunpool.torch._taking import take_at


@typed_pool
def max_pool1d(
    input: torch.Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    index_format: IndexFormat = "plane",
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """``torch.nn.functional.max_pool1d``, by cunpool; see `max_pool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.max_pool1d(torch.tensor([[3, 1, 4, 1]]), 2)
    tensor([[3, 4]])
    """
    return max_pool(1, input, (kernel_size, stride, padding, dilation), ceil_mode, return_indices, index_format)


@typed_pool
def max_pool2d(
    input: torch.Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    index_format: IndexFormat = "plane",
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """``torch.nn.functional.max_pool2d`` [1]_, by cunpool.

    Parameters
    ----------
    input : torch.Tensor
        On the CPU, of shape (N, C, H, W) or (C, H, W), of bool, integers, float16, bfloat16, float32 or float64. A
        ``meta`` tensor gives one of the right shape.
    kernel_size, stride, padding, dilation, ceil_mode, return_indices, index_format
        As for `cunpool.max_pool2d`.

    Returns
    -------
    values : torch.Tensor
        The maxima, of the dtype of `input`: channels-last if `input` is, or else contiguous.
    indices : torch.Tensor of int64
        Only with `return_indices`; of uint8 or uint16 with ``index_format="window"``.

    Raises
    ------
    TypeError, ValueError, OverflowError
        As for `cunpool.max_pool2d`, and if `input` is no tensor, or one that is not dense or not on the CPU.

    Notes
    -----
    First and second gradients are supported. A call uses at most ``torch.get_num_threads()`` threads, and no more than
    `cunpool.get_num_threads` allows. Autocast has no effect: the dtype stays.

    Small inputs without dilation are pooled by PyTorch's own operator where it is faster and gives the same result. The
    limit is some thousands of elements, and higher for channels-last inputs. A forked child never calls that operator.

    Profilers show a call as ``cunpool::max_pool``, and its gradient as ``cunpool::max_pool_backward``.

    Results use NumPy's memory, so they cannot be resized: not by ``resize_``, nor as ``out=`` of another size.

    ``torch.compile``, ``torch.export`` and ``torch.jit.trace`` receive the operators of ``torch.ops.cunpool``, and
    ``torch.onnx.export`` receives PyTorch's. ``torch.func``, ``torch.vmap`` and forward-mode differentiation receive
    PyTorch's ``gather`` or ``scatter`` at the indices. So do gradients that are batched or have tangents.

    References
    ----------
    .. [1] https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.max_pool2d.html

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> x = torch.tensor([[[1.0, 2], [4, 3]]], requires_grad=True)
    >>> y, indices = cunpool.torch.max_pool2d(x, 2, return_indices=True)
    >>> indices
    tensor([[[2]]])
    >>> cunpool.torch.max_pool2d(x.detach(), 2, return_indices=True, index_format="window")[1].dtype
    torch.uint8
    >>> y.sum().backward()
    >>> x.grad
    tensor([[[0., 0.],
             [1., 0.]]])
    """
    return max_pool(2, input, (kernel_size, stride, padding, dilation), ceil_mode, return_indices, index_format)


@typed_pool
def max_pool3d(
    input: torch.Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    index_format: IndexFormat = "plane",
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """``torch.nn.functional.max_pool3d``, by cunpool; see `max_pool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.max_pool3d(torch.arange(8).reshape(1, 2, 2, 2), 2)
    tensor([[[[7]]]])
    """
    return max_pool(3, input, (kernel_size, stride, padding, dilation), ceil_mode, return_indices, index_format)


def max_unpool1d(
    input: torch.Tensor,
    indices: torch.Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Sequence[SupportsIndex] | None = None,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    fill_value: FillValue | None = None,
    onto: torch.Tensor | None = None,
) -> torch.Tensor:
    """``torch.nn.functional.max_unpool1d``, by cunpool; see `max_unpool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.max_unpool1d(torch.tensor([[3, 4]]), torch.tensor([[0, 2]]), 2)
    tensor([[3, 0, 4, 0]])
    """
    window = kernel_size, stride, padding, dilation
    return max_unpool(1, input, indices, window, output_size, index_format, fill_value, onto)


def max_unpool2d(
    input: torch.Tensor,
    indices: torch.Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Sequence[SupportsIndex] | None = None,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    fill_value: FillValue | None = None,
    onto: torch.Tensor | None = None,
) -> torch.Tensor:
    """``torch.nn.functional.max_unpool2d`` [1]_, by cunpool.

    Parameters
    ----------
    input : torch.Tensor
        On the CPU, of shape (N, C, H, W) or (C, H, W), of any dtype that NumPy has, or bfloat16.
    indices : torch.Tensor
        Of the shape of `input` and any integer dtype.
    kernel_size, stride, padding, output_size, dilation, index_format
        As for `cunpool.max_unpool2d`. PyTorch's unpooling has no `dilation`.
    fill_value : number, optional
        The element to store where no index points, in place of zero.
    onto : torch.Tensor, optional
        A tensor of the dtype of `input`. The result is a copy of it in which the maxima are stored. It sets the size of
        the result, and receives a gradient, which is zero at the indices.

    Returns
    -------
    torch.Tensor
        Of the dtype of `input`: channels-last if `input` is, or else contiguous.

    Raises
    ------
    IndexError, TypeError, ValueError, OverflowError
        As for `cunpool.max_unpool2d`, and if an argument is no tensor, or one that is not dense or not on the CPU.

    Notes
    -----
    As for `max_pool2d`. If several values have the same index, the last one in raster order is stored. Each of them
    receives the gradient of that element, as in PyTorch. Under ``torch.func``, ``torch.vmap`` and forward-mode
    differentiation PyTorch scatters, and any of the values may be stored.

    References
    ----------
    .. [1] https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.max_unpool2d.html

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.max_unpool2d(torch.tensor([[[4]]]), torch.tensor([[[2]]]), 2)
    tensor([[[0, 0],
             [4, 0]]])
    >>> cunpool.torch.max_unpool2d(torch.tensor([[[4]]]), torch.tensor([[[2]]]), 2, onto=torch.ones(1, 2, 2).int())
    Traceback (most recent call last):
    TypeError: onto must have the dtype of input, torch.int64, got torch.int32
    >>> cunpool.torch.max_unpool2d(torch.tensor([[[4]]]), torch.tensor([[[2]]]), 2, fill_value=-1)
    tensor([[[-1, -1],
             [ 4, -1]]])
    """
    window = kernel_size, stride, padding, dilation
    return max_unpool(2, input, indices, window, output_size, index_format, fill_value, onto)


def max_unpool3d(
    input: torch.Tensor,
    indices: torch.Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Sequence[SupportsIndex] | None = None,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    fill_value: FillValue | None = None,
    onto: torch.Tensor | None = None,
) -> torch.Tensor:
    """``torch.nn.functional.max_unpool3d``, by cunpool; see `max_unpool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.max_unpool3d(torch.tensor([[[[7]]]]), torch.tensor([[[[7]]]]), 2).flatten()
    tensor([0, 0, 0, 0, 0, 0, 0, 7])
    """
    window = kernel_size, stride, padding, dilation
    return max_unpool(3, input, indices, window, output_size, index_format, fill_value, onto)


@typed_adaptive_pool
def adaptive_max_pool1d(
    input: torch.Tensor, output_size: OutputSize, return_indices: bool = False
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """``torch.nn.functional.adaptive_max_pool1d``, by cunpool; see `adaptive_max_pool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.adaptive_max_pool1d(torch.tensor([[3, 1, 4, 1, 5]]), 2)
    tensor([[4, 5]])
    """
    return adaptive_max_pool(1, input, output_size, return_indices)


@typed_adaptive_pool
def adaptive_max_pool2d(
    input: torch.Tensor, output_size: OutputSize, return_indices: bool = False
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """``torch.nn.functional.adaptive_max_pool2d`` [1]_, by cunpool.

    Parameters
    ----------
    input : torch.Tensor
        As for `max_pool2d`.
    output_size, return_indices
        As for `cunpool.adaptive_max_pool2d`.

    Returns
    -------
    values : torch.Tensor
        The maxima, of the dtype of `input`: channels-last if `input` is, or else contiguous.
    indices : torch.Tensor of int64
        Only with `return_indices`.

    Raises
    ------
    TypeError, ValueError, OverflowError
        As for `cunpool.adaptive_max_pool2d`, and if `input` is no tensor, or one that is not dense or not on the CPU.

    Notes
    -----
    First and second gradients are supported. PyTorch's own function is used for floats where it is faster: on small
    inputs, and with channels last. It is also used where the call is compiled, exported, traced or transformed, and
    supports floats only.

    References
    ----------
    .. [1] https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.adaptive_max_pool2d.html

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> x = torch.tensor([[[1, 2, 0, 5, 0], [4, 3, 0, 7, 6]]])
    >>> cunpool.torch.adaptive_max_pool2d(x, (1, 2), return_indices=True)
    (tensor([[[4, 7]]]), tensor([[[5, 8]]]))
    """
    return adaptive_max_pool(2, input, output_size, return_indices)


@typed_adaptive_pool
def adaptive_max_pool3d(
    input: torch.Tensor, output_size: OutputSize, return_indices: bool = False
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """``torch.nn.functional.adaptive_max_pool3d``, by cunpool; see `adaptive_max_pool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.adaptive_max_pool3d(torch.arange(27).reshape(1, 3, 3, 3), (1, 1, 2))
    tensor([[[[25, 26]]]])
    """
    return adaptive_max_pool(3, input, output_size, return_indices)


def adaptive_max_unpool1d(
    input: torch.Tensor,
    indices: torch.Tensor,
    output_size: Sequence[SupportsIndex] | None = None,
    *,
    fill_value: FillValue | None = None,
    onto: torch.Tensor | None = None,
) -> torch.Tensor:
    """`cunpool.adaptive_max_unpool1d` for tensors; see `adaptive_max_unpool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.adaptive_max_unpool1d(torch.tensor([[4, 5]]), torch.tensor([[2, 4]]), (5,))
    tensor([[0, 0, 4, 0, 5]])
    """
    return adaptive_max_unpool(1, input, indices, output_size, fill_value, onto)


def adaptive_max_unpool2d(
    input: torch.Tensor,
    indices: torch.Tensor,
    output_size: Sequence[SupportsIndex] | None = None,
    *,
    fill_value: FillValue | None = None,
    onto: torch.Tensor | None = None,
) -> torch.Tensor:
    """Put the maxima of an adaptive pooling back: `cunpool.adaptive_max_unpool2d` for tensors.

    Parameters
    ----------
    input : torch.Tensor
        On the CPU, of shape (N, C, H, W) or (C, H, W), of any dtype that NumPy has, or bfloat16.
    indices : torch.Tensor
        Of the shape of `input` and any integer dtype.
    output_size : sequence of int
        As for `cunpool.adaptive_max_unpool2d`.
    fill_value, onto
        As for `max_unpool2d`.

    Returns
    -------
    torch.Tensor
        Of the dtype of `input`: channels-last if `input` is, or else contiguous.

    Raises
    ------
    IndexError, TypeError, ValueError, OverflowError
        As for `cunpool.adaptive_max_unpool2d`, and if an argument is no tensor, or one that is not dense or not on the
        CPU.

    Notes
    -----
    First and second gradients are supported. If several values have the same index, the last one in raster order is
    stored, and each receives the gradient of that element. PyTorch scatters where the call is compiled, exported,
    traced or transformed, and any of the values may be stored then. A bad index is PyTorch's ``RuntimeError`` there.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.adaptive_max_unpool2d(torch.tensor([[[4, 7]]]), torch.tensor([[[5, 8]]]), (2, 5))
    tensor([[[0, 0, 0, 0, 0],
             [4, 0, 0, 7, 0]]])
    """
    return adaptive_max_unpool(2, input, indices, output_size, fill_value, onto)


def adaptive_max_unpool3d(
    input: torch.Tensor,
    indices: torch.Tensor,
    output_size: Sequence[SupportsIndex] | None = None,
    *,
    fill_value: FillValue | None = None,
    onto: torch.Tensor | None = None,
) -> torch.Tensor:
    """`cunpool.adaptive_max_unpool3d` for tensors; see `adaptive_max_unpool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.adaptive_max_unpool3d(torch.tensor([[[[4, 5]]]]), torch.tensor([[[[2, 4]]]]), (1, 1, 5))
    tensor([[[[0, 0, 4, 0, 5]]]])
    """
    return adaptive_max_unpool(3, input, indices, output_size, fill_value, onto)


def take_at1d(
    input: torch.Tensor,
    indices: torch.Tensor,
    kernel_size: Size | None = None,
    stride: Size | None = None,
    padding: Size = 0,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
) -> torch.Tensor:
    """`cunpool.take_at1d` for tensors; see `take_at2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.take_at1d(torch.tensor([[3, 4, 5]]), torch.tensor([[2, 0]]))
    tensor([[5, 3]])
    """
    return take_at(1, input, indices, (kernel_size, stride, padding, dilation), index_format)


def take_at2d(
    input: torch.Tensor,
    indices: torch.Tensor,
    kernel_size: Size | None = None,
    stride: Size | None = None,
    padding: Size = 0,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
) -> torch.Tensor:
    """Take the elements at indices, such as the indices of another tensor's maxima: `cunpool.take_at2d`.

    Parameters
    ----------
    input : torch.Tensor
        On the CPU, of shape (N, C, H, W) or (C, H, W), of any dtype that NumPy has, or bfloat16.
    indices : torch.Tensor
        With the N and C of `input`, any spatial sizes and any integer dtype.
    kernel_size, stride, padding, dilation, index_format
        As for `cunpool.take_at2d`: only window codes need the window that they come from.

    Returns
    -------
    torch.Tensor
        Of the shape of `indices` and the dtype of `input`: channels-last if `indices` are, or else contiguous.

    Raises
    ------
    IndexError, TypeError, ValueError, OverflowError
        As for `cunpool.take_at2d`, and if an argument is no tensor, or one that is not dense or not on the CPU.

    Notes
    -----
    Gradients flow, second ones too. An element that is taken several times receives the sum of its gradients.

    PyTorch has its own ``gather`` where it compiles, exports, traces or transforms the call. A bad index is PyTorch's
    ``RuntimeError`` then.

    Examples
    --------
    The labels of the brightest pixels:

    >>> import torch, cunpool.torch
    >>> image, labels = torch.tensor([[[1.0, 2], [4, 3]]]), torch.tensor([[[10, 11], [12, 13]]])
    >>> _, indices = cunpool.torch.max_pool2d(image, 2, return_indices=True)
    >>> cunpool.torch.take_at2d(labels, indices)
    tensor([[[12]]])

    The gradient, where an element is taken twice:

    >>> x = torch.zeros(1, 2, 2, requires_grad=True)
    >>> cunpool.torch.take_at2d(x, torch.tensor([[[3, 0, 3]]])).sum().backward()
    >>> x.grad
    tensor([[[1., 0.],
             [0., 2.]]])
    """
    return take_at(2, input, indices, (kernel_size, stride, padding, dilation), index_format)


def take_at3d(
    input: torch.Tensor,
    indices: torch.Tensor,
    kernel_size: Size | None = None,
    stride: Size | None = None,
    padding: Size = 0,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
) -> torch.Tensor:
    """`cunpool.take_at3d` for tensors; see `take_at2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.take_at3d(torch.arange(8).reshape(1, 2, 2, 2), torch.tensor([[[[6]]]]))
    tensor([[[[6]]]])
    """
    return take_at(3, input, indices, (kernel_size, stride, padding, dilation), index_format)


_calls.told_if_missing(max_unpool1d, max_unpool2d, max_unpool3d)
_traced.PUBLIC.update(
    max_pool1d=max_pool1d,
    max_pool2d=max_pool2d,
    max_pool3d=max_pool3d,
    max_unpool1d=max_unpool1d,
    max_unpool2d=max_unpool2d,
    max_unpool3d=max_unpool3d,
    adaptive_max_pool1d=adaptive_max_pool1d,
    adaptive_max_pool2d=adaptive_max_pool2d,
    adaptive_max_pool3d=adaptive_max_pool3d,
    adaptive_max_unpool1d=adaptive_max_unpool1d,
    adaptive_max_unpool2d=adaptive_max_unpool2d,
    adaptive_max_unpool3d=adaptive_max_unpool3d,
    take_at1d=take_at1d,
    take_at2d=take_at2d,
    take_at3d=take_at3d,
)
