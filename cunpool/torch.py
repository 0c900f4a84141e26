"""The same pooling and unpooling for PyTorch's tensors on a CPU, with autograd: a drop-in for ``torch.nn.functional``.

Tensors and arrays share their memory, in both directions. Import it as ``import cunpool.torch``; `cunpool` itself never
imports PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

try:
    import torch
    import torch.autograd.forward_ad as _forward_ad
except ModuleNotFoundError:
    raise ImportError("cunpool.torch needs PyTorch: pip install 'cunpool[torch]'") from None

from cunpool import _arrays, _threads, pooling, unpooling
from cunpool._arrays import Array
from cunpool._geometry import Size, Window

__all__ = [
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "accelerate",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]

Spacing = tuple[Size, Size | None, Size]
"""kernel_size, stride and padding: unpooling in PyTorch knows no dilation."""

# Below so many elements PyTorch's own pooling is faster, which has no arguments to take apart and no arrays to wrap:
# for one thread and for more, by whether the input is channels-last and whether autograd takes part. Measured.
_FEW = {
    (False, False): (1 << 12, 1 << 15),
    (False, True): (1 << 14, 1 << 16),
    (True, False): (1 << 15, 1 << 17),
    (True, True): (1 << 18, 1 << 18),
}
_FLOATS = frozenset((torch.float16, torch.bfloat16, torch.float32, torch.float64))
_THEIRS = {
    1: torch.max_pool1d_with_indices,
    2: torch._C._nn.max_pool2d_with_indices,
    3: torch._C._nn.max_pool3d_with_indices,
}

_STRIDED = torch.strided
_WINDOW = ("kernel_size", "stride", "padding", "dilation")

# Arrays of fewer bytes than this are not worth a second thread.
SMALL = 1 << 13
_BFLOAT16 = torch.bfloat16
_BITS = np.dtype(np.int16)  # bits are all that unpooling needs of a bfloat16
_POOL = {1: pooling.max_pool1d, 2: pooling.max_pool2d, 3: pooling.max_pool3d}
_POOL_BACKWARD = {1: pooling.max_pool1d_backward, 2: pooling.max_pool2d_backward, 3: pooling.max_pool3d_backward}
_UNPOOL = {1: unpooling.max_unpool1d, 2: unpooling.max_unpool2d, 3: unpooling.max_unpool3d}
_UNPOOL_BACKWARD = {
    1: unpooling.max_unpool1d_backward,
    2: unpooling.max_unpool2d_backward,
    3: unpooling.max_unpool3d_backward,
}


def _array(tensor: torch.Tensor, name: str, bfloat16: np.dtype[Any] = _arrays.BFLOAT16) -> Array:
    """The array that is `tensor`'s memory; NumPy has no bfloat16, so that is viewed as the dtype `bfloat16`."""
    try:
        if tensor.requires_grad:
            tensor = tensor.detach()
        if tensor.dtype is _BFLOAT16:
            return tensor.view(torch.int16).numpy().view(bfloat16)  # type: ignore[no-any-return]
        return tensor.numpy()  # type: ignore[no-any-return]
    except (AttributeError, TypeError, RuntimeError) as error:
        return _unusual(tensor, name, error)


def _unusual(tensor: torch.Tensor, name: str, error: Exception) -> Array:
    """What to do with what has no memory that NumPy can share: mostly, to say so."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(tensor).__name__}")
    if tensor.device.type != "cpu":
        raise ValueError(f"{name} must be a tensor on the CPU, got one on the device {tensor.device}")
    if tensor.layout is not torch.strided or tensor.is_quantized:
        kind = "a quantized tensor" if tensor.is_quantized else f"one with the layout {tensor.layout}"
        raise ValueError(f"{name} must be a dense tensor, got {kind} on the device {tensor.device}")
    if tensor.is_conj() or tensor.is_neg():  # the memory holds something else than the tensor says
        return tensor.resolve_conj().resolve_neg().numpy()  # type: ignore[no-any-return]
    raise TypeError(f"{name} must be a tensor that NumPy can read, got one of {tensor.dtype}: {error}") from None


def _tensor(array: Array, dtype: torch.dtype) -> torch.Tensor:
    """The tensor that is `array`'s memory."""
    if dtype is _BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(dtype)
    return torch.from_numpy(array)


def _in_format(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor`, laid out as PyTorch lays its results out: contiguous or channels-last, whatever the input is."""
    return tensor if tensor.is_contiguous() else tensor.contiguous(memory_format=_format(tensor))


def _format(tensor: torch.Tensor) -> torch.memory_format:
    """The memory format of `tensor`."""
    if not tensor.is_contiguous():
        last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.ndim)
        if last is not None and tensor.is_contiguous(memory_format=last):
            return last
    return torch.contiguous_format


def _num_threads(array: Array) -> int:
    """How many threads the work on `array` may use: as many as PyTorch may, and no more than cunpool may."""
    threads: int = torch.get_num_threads()
    # To ask what cunpool may takes a system call, too long where one thread will do.
    return 1 if threads == 1 or array.nbytes < SMALL else min(threads, _threads.get_num_threads())


def _pooled(
    n: int, input: torch.Tensor, window: Window, ceil_mode: bool, return_indices: bool
) -> Any:  # a tensor, or two: `return_indices` says
    """The maxima, and where they were."""
    array = _array(input, "input")
    result = _POOL[n](array, *window, ceil_mode, return_indices, num_threads=_num_threads(array))
    if not return_indices:
        return _in_format(_tensor(result, input.dtype))
    values, places = result
    return _in_format(_tensor(values, input.dtype)), _in_format(torch.from_numpy(places))


def _unpooled(
    n: int, input: torch.Tensor, places: torch.Tensor, window: Spacing, output_size: Sequence[SupportsIndex] | None
) -> torch.Tensor:
    """The values at their places."""
    array, chosen = _array(input, "input", _BITS), _array(places, "indices")
    if isinstance(output_size, torch.Size):
        output_size = tuple(output_size)  # quicker to check
    result = _UNPOOL[n](array, chosen, *window, output_size, num_threads=_num_threads(array))
    return _in_format(_tensor(result, input.dtype))


class _MaxPool(torch.autograd.Function):
    """Pooling whose gradient cunpool computes."""

    @staticmethod
    def forward(
        ctx: Any, input: torch.Tensor, n: int, window: Window, ceil_mode: bool, return_indices: bool
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        values, places = _pooled(n, input, window, ceil_mode, True)
        ctx.save_for_backward(places)
        ctx.set_materialize_grads(False)
        ctx.geometry = n, tuple(input.shape), window
        ctx.format = _format(values)
        if not return_indices:
            return values
        ctx.mark_non_differentiable(places)
        return values, places

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor | None, _: object = None) -> tuple[torch.Tensor | None, ...]:
        if grad is None:
            return (None,) * 5
        (places,) = ctx.saved_tensors
        n, shape, window = ctx.geometry
        if torch.is_grad_enabled():  # for a second derivative: the same in terms that PyTorch can differentiate
            zeros = grad.new_zeros((*shape[:-n], math.prod(shape[-n:])))
            scattered = zeros.scatter_add(-1, places.flatten(-n), grad.flatten(-n))
            return scattered.view(shape), None, None, None, None
        array = _array(grad.contiguous(memory_format=ctx.format), "grad_output")
        chosen = _array(places, "indices")
        result = _POOL_BACKWARD[n](array, chosen, shape, *window, num_threads=_num_threads(array))
        return _tensor(result, grad.dtype), None, None, None, None


class _MaxUnpool(torch.autograd.Function):
    """Unpooling whose gradient cunpool computes."""

    @staticmethod
    def forward(
        ctx: Any,
        input: torch.Tensor,
        places: torch.Tensor,
        n: int,
        window: Spacing,
        output_size: Sequence[SupportsIndex] | None,
    ) -> torch.Tensor:
        ctx.save_for_backward(places)
        ctx.set_materialize_grads(False)
        ctx.geometry = n, window
        ctx.format = _format(input)
        return _unpooled(n, input, places, window, output_size)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        if grad is None:
            return (None,) * 5
        (places,) = ctx.saved_tensors
        n, window = ctx.geometry
        if torch.is_grad_enabled():  # for a second derivative: the same in terms that PyTorch can differentiate
            gathered = grad.flatten(-n).gather(-1, places.flatten(-n).to(torch.int64))
            return gathered.view(places.shape), None, None, None, None
        array = _array(grad.contiguous(memory_format=ctx.format), "grad_output", _BITS)
        chosen = _array(places, "indices")
        result = _UNPOOL_BACKWARD[n](array, chosen, *window, num_threads=_num_threads(array))
        return _tensor(result, grad.dtype), None, None, None, None


def _needs_grad(input: torch.Tensor) -> bool:
    """Whether autograd has to know of a call; what is not a tensor is refused later."""
    if torch.is_grad_enabled() and getattr(input, "requires_grad", False):
        return True
    # Autograd refuses tensors that carry tangents, which would be lost without a word.
    return bool(getattr(_forward_ad, "_current_level", -1) >= 0)


def _per_axis(n: int, *window: Size | None) -> bool:
    """Whether there is one size for all axes or for each; PyTorch alone knows what to do with fewer."""
    return all(type(size) is int or size is None or (isinstance(size, tuple) and len(size) == n) for size in window)


def _are_few(input: torch.Tensor) -> bool:
    """Whether PyTorch's own pooling of so many elements, of this kind, is faster."""
    count = input.numel()
    if count < _FEW[False, False][0]:  # a short cut: few for any kind
        return True
    last = _format(input) is not torch.contiguous_format
    grad = input.requires_grad and torch.is_grad_enabled()
    # Half-precision gradients of all channels at once are added one by one here.
    return count < _FEW[last, grad][torch.get_num_threads() > 1] or (last and grad and input.dtype is torch.float16)


def _max_pool(n: int, input: torch.Tensor, window: Window, ceil_mode: bool, return_indices: bool) -> Any:
    """Pooling over `n` spatial axes."""
    if (
        type(input) is torch.Tensor
        and input.layout is _STRIDED
        and _are_few(input)
        and input.is_cpu
        and input.dtype in _FLOATS
        and (n > 1 or input.is_contiguous())  # as if it were 2d, PyTorch calls others channels-last
    ):
        kernel_size, stride, padding, dilation = window
        if type(kernel_size) is type(stride or 1) is type(padding) is type(dilation) is int or _per_axis(n, *window):
            try:
                results = _THEIRS[n](input, kernel_size, () if stride is None else stride, padding, dilation, ceil_mode)
            except (RuntimeError, TypeError):
                pass  # the messages below are better
            else:
                return results if return_indices else results[0]
    if _needs_grad(input):
        return _MaxPool.apply(input, n, window, ceil_mode, return_indices)
    return _pooled(n, input, window, ceil_mode, return_indices)


def _max_unpool(
    n: int, input: torch.Tensor, places: torch.Tensor, window: Spacing, output_size: Sequence[SupportsIndex] | None
) -> torch.Tensor:
    """Unpooling over `n` spatial axes."""
    if _needs_grad(input):
        return _MaxUnpool.apply(input, places, n, window, output_size)
    return _unpooled(n, input, places, window, output_size)


def max_pool1d(
    input: torch.Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # a tensor, or two: `return_indices` says
    """``torch.nn.functional.max_pool1d``, by cunpool; see `max_pool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.max_pool1d(torch.tensor([[3, 1, 4, 1]]), 2)
    tensor([[3, 4]])
    """
    return _max_pool(1, input, (kernel_size, stride, padding, dilation), ceil_mode, return_indices)


def max_pool2d(
    input: torch.Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # a tensor, or two: `return_indices` says
    """``torch.nn.functional.max_pool2d`` [1]_, by cunpool.

    Parameters
    ----------
    input : torch.Tensor
        On the CPU, of shape (N, C, H, W) or (C, H, W), of integers or of float16, bfloat16, float32 or float64.
    kernel_size, stride, padding, dilation, ceil_mode, return_indices
        As for `cunpool.max_pool2d`.

    Returns
    -------
    values : torch.Tensor
        The maxima, of the dtype of `input`: channels-last if `input` is, or else contiguous.
    indices : torch.Tensor of int64
        Only with `return_indices`.

    Raises
    ------
    TypeError, ValueError, OverflowError
        As for `cunpool.max_pool2d`, and if `input` is no tensor, or one that is not dense or not on the CPU.

    Notes
    -----
    Gradients flow, second ones too. A call uses at most ``torch.get_num_threads()`` threads, and no more than
    `cunpool.get_num_threads` allows. Autocast is not looked at: the dtype stays. Where PyTorch's own operator is faster
    it is called, with PyTorch's threads, and the answer is the same: for few elements, some thousands of a contiguous
    input and more of a channels-last one.

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
    >>> y.sum().backward()
    >>> x.grad
    tensor([[[0., 0.],
             [1., 0.]]])
    """
    return _max_pool(2, input, (kernel_size, stride, padding, dilation), ceil_mode, return_indices)


def max_pool3d(
    input: torch.Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # a tensor, or two: `return_indices` says
    """``torch.nn.functional.max_pool3d``, by cunpool; see `max_pool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.max_pool3d(torch.arange(8).reshape(1, 2, 2, 2), 2)
    tensor([[[[7]]]])
    """
    return _max_pool(3, input, (kernel_size, stride, padding, dilation), ceil_mode, return_indices)


def max_unpool1d(
    input: torch.Tensor,
    indices: torch.Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Sequence[SupportsIndex] | None = None,
) -> torch.Tensor:
    """``torch.nn.functional.max_unpool1d``, by cunpool; see `max_unpool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.max_unpool1d(torch.tensor([[3, 4]]), torch.tensor([[0, 2]]), 2)
    tensor([[3, 0, 4, 0]])
    """
    return _max_unpool(1, input, indices, (kernel_size, stride, padding), output_size)


def max_unpool2d(
    input: torch.Tensor,
    indices: torch.Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Sequence[SupportsIndex] | None = None,
) -> torch.Tensor:
    """``torch.nn.functional.max_unpool2d`` [1]_, by cunpool.

    Parameters
    ----------
    input : torch.Tensor
        On the CPU, of shape (N, C, H, W) or (C, H, W), of any dtype that NumPy has, or bfloat16.
    indices : torch.Tensor
        Of the shape of `input` and any integer dtype.
    kernel_size, stride, padding, output_size
        As for `cunpool.max_unpool2d`.

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
    As for `max_pool2d`. Where several values go to one place, the last one in raster order stays, and each of them
    receives the gradient of that place, as in PyTorch.

    References
    ----------
    .. [1] https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.max_unpool2d.html

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.max_unpool2d(torch.tensor([[[4]]]), torch.tensor([[[2]]]), 2)
    tensor([[[0, 0],
             [4, 0]]])
    """
    return _max_unpool(2, input, indices, (kernel_size, stride, padding), output_size)


def max_unpool3d(
    input: torch.Tensor,
    indices: torch.Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Sequence[SupportsIndex] | None = None,
) -> torch.Tensor:
    """``torch.nn.functional.max_unpool3d``, by cunpool; see `max_unpool2d`.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> cunpool.torch.max_unpool3d(torch.tensor([[[[7]]]]), torch.tensor([[[[7]]]]), 2).flatten()
    tensor([0, 0, 0, 0, 0, 0, 0, 7])
    """
    return _max_unpool(3, input, indices, (kernel_size, stride, padding), output_size)


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
        return _max_pool(1, input, window, self.ceil_mode, self.return_indices)


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
        return _max_pool(2, input, window, self.ceil_mode, self.return_indices)


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
        return _max_pool(3, input, window, self.ceil_mode, self.return_indices)


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
        return _max_unpool(1, input, indices, (self.kernel_size, self.stride, self.padding), output_size)


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
        return _max_unpool(2, input, indices, (self.kernel_size, self.stride, self.padding), output_size)


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
        return _max_unpool(3, input, indices, (self.kernel_size, self.stride, self.padding), output_size)


_OURS = {
    torch.nn.MaxPool1d: (1, MaxPool1d),
    torch.nn.MaxPool2d: (2, MaxPool2d),
    torch.nn.MaxPool3d: (3, MaxPool3d),
    torch.nn.MaxUnpool1d: (1, MaxUnpool1d),
    torch.nn.MaxUnpool2d: (2, MaxUnpool2d),
    torch.nn.MaxUnpool3d: (3, MaxUnpool3d),
}


def accelerate(model: torch.nn.Module) -> torch.nn.Module:
    """Let cunpool do a network's max pooling and unpooling.

    Parameters
    ----------
    model : torch.nn.Module
        Changed in place: every ``torch.nn.MaxPool1d``, ``2d``, ``3d`` and ``torch.nn.MaxUnpool1d``, ``2d``, ``3d`` in
        it, and itself if it is one, becomes cunpool's of the same name. Subclasses of these stay as they are, and so
        do calls of functions.

    Returns
    -------
    torch.nn.Module
        `model`.

    Notes
    -----
    Modules keep their identity, their hooks and all of their state, and the network its state dict, its results and its
    gradients. From then on the network runs on the CPU alone.

    Examples
    --------
    >>> import torch, cunpool.torch
    >>> net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.MaxPool2d(2))
    >>> cunpool.torch.accelerate(net) is net
    True
    >>> isinstance(net[1], cunpool.torch.MaxPool2d)
    True
    """
    for module in model.modules():
        n, ours = _OURS.get(type(module), (0, None))
        # PyTorch alone knows what to do with fewer sizes than axes.
        if ours is not None and _per_axis(n, *(getattr(module, name, 1) for name in _WINDOW)):
            module.__class__ = ours
    return model
