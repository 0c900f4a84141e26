"""Take values at the indices of maxima: the front end."""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from cunpool import _arrays, _diagnostics, _formats, _geometry, _threads, _warn
from cunpool._arrays import Array
from cunpool._docstrings import complete, shares
from cunpool._geometry import IndexFormat, Padding, Size
from cunpool._kernels import unpool as _unpool
from cunpool._overloads import typed_take

__all__ = ["take_at1d", "take_at2d", "take_at3d"]

# The kernel's number for elements of each size in bytes.
_KINDS = {size: number for number, size in enumerate(_arrays.ITEM_SIZES)}

# Bytes of memory that taking one element reads at most, a cache line. It sets the number of threads. (speed)
_LINE_BYTES = 64

_WHERE = "input"
WITHOUT_WINDOW = (
    "kernel_size must be given with index_format='window', because a code is a position in its window; got None"
)


def _take_at(
    n: int,
    input: npt.ArrayLike,
    indices: npt.ArrayLike,
    window: tuple[Size | None, Size | None, Padding, Size],
    index_format: str,
    out: Array | None,
    num_threads: int | None,
) -> Array:
    """Take elements over `n` spatial axes."""
    values = _arrays.items(input, n=n)
    given = _arrays.array_of(indices, "indices")
    codes = _geometry.is_window(index_format)
    kernel_size, stride, padding, dilation = window
    if kernel_size is None and codes:
        raise TypeError(WITHOUT_WINDOW)
    fixed = _geometry.window(1 if kernel_size is None else kernel_size, stride, padding, dilation)
    sizes, inside = _geometry.taking(n, values.shape, given.shape, fixed, codes)
    full = values.shape[-n:]
    try:
        if codes:
            positions = _arrays.codes(given, given.shape, _geometry.code_bytes(sizes[6:9]), "indices")
            if positions is not None and not sizes[19]:
                positions = _formats.decoded(positions, n, sizes)
        else:
            positions = _arrays.integers(given, given.shape, "indices")
    except TypeError as error:
        raise _arrays.if_swapped(error, values.dtype, "input") from None
    if not codes:
        _warn_of_codes(given, math.prod(full))
    result = _arrays.result_for(out, given, given.shape, values.dtype, values, given)
    threads = _threads.threads_for(min(values.nbytes, _LINE_BYTES * given.size), num_threads)
    if given.size and (
        positions is None
        or not inside
        or not values.size
        or not _unpool.unpool_backward(values, positions, result, sizes, n, _KINDS[values.itemsize], threads)
    ):
        if codes:
            raise _diagnostics.bad_code(given, n, sizes, where=_WHERE)
        if kernel_size is not None:
            with suppress(OverflowError):  # windows that large are not needed here
                sizes, _ = _geometry.taking(n, values.shape, given.shape, fixed, True)
        hint = _diagnostics.for_a_format(given, n, sizes, given.shape[:-n], (0,) * given.ndim, True)
        raise _diagnostics.bad_index(given, full, hint, where=_WHERE)
    return _arrays.delivered(result, out)


def _warn_of_codes(indices: Array, elements: int) -> None:
    """Warn if plane indices have a dtype of window codes that is too small for the plane."""
    if indices.dtype in _arrays.CODES.values() and np.iinfo(indices.dtype).max < elements - 1:
        _warn.warn(
            f"indices of {indices.dtype} count to {np.iinfo(indices.dtype).max}, but a plane has {elements} elements: "
            "window codes need index_format='window' and kernel_size; plane indices need a wider integer dtype"
        )


@typed_take
@shares
def take_at1d(
    input: npt.ArrayLike,
    indices: npt.ArrayLike,
    kernel_size: Size | None = None,
    stride: Size | None = None,
    padding: Padding = 0,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    out: Array | None = None,
    num_threads: int | None = None,
) -> Array:
    """Take the elements at given indices, such as the indices of the maxima of another array.

    See `take_at2d`. This is the case of one spatial axis: shapes are (N, C, L) or (C, L).

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> signal, times = np.array([[3.0, 1, 4, 1, 5]]), np.array([[0.0, 0.1, 0.2, 0.3, 0.4]])
    >>> peaks, indices = cu.max_pool1d(signal, 3, 2, return_indices=True)
    >>> cu.take_at1d(times, indices)
    array([[0.2, 0.4]])
    """
    window = kernel_size, stride, padding, dilation
    return _take_at(1, input, indices, window, index_format, out, num_threads)


@typed_take
@shares
def take_at2d(
    input: npt.ArrayLike,
    indices: npt.ArrayLike,
    kernel_size: Size | None = None,
    stride: Size | None = None,
    padding: Padding = 0,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    out: Array | None = None,
    num_threads: int | None = None,
) -> Array:
    """Take the elements at given indices, such as the indices of the maxima of another array.

    Parameters
    ----------
    input : array_like
        The source array, of shape (N, C, H, W) or (C, H, W), with any strides. N and C may be 0. Elements have 1, 2, 4,
        8 or 16 bytes, and are neither objects nor strings.
    indices : array_like of integers
        The index of each element to take in its plane of `input`, in raster order, or its window code (see
        `index_format`). N and C must be the same as in `input`; the spatial sizes are free. Duplicates are allowed.
    kernel_size : int or sequence of int, optional
        Size of the windows that the indices come from. Window codes need it. For plane indices, this and the next three
        arguments are checked, but not used.
    stride : int or sequence of int, optional
        Step from one window to the next; the default is `kernel_size`.
    padding : int, sequence of int, sequence of pairs of int, "same" or "same_lower"
        Elements of padding at both ends of each axis, or as `max_pool2d` has it.
    {step}
    {index_format}
    {out}
    {num_threads}

    Returns
    -------
    numpy.ndarray
        Array with the shape and the memory layout of `indices` and the dtype of `input`, or `out` if that was given.
        The bits of elements are unchanged.

    Raises
    ------
    IndexError
        If an index is negative or past the end of its plane, or a window code names no element of the plane. The
        message names the first one in raster order.
    TypeError
        If the dtype of `input` or `indices` is of the wrong kind, `out` has another dtype, or `kernel_size` is missing
        for window codes.
    ValueError
        If N and C differ, shapes have too many axes or too few, or `out` cannot be written.
    OverflowError
        If a size is beyond 2**60.

    Warns
    -----
    UserWarning
        If the dtype of the indices is one of window codes and too small for the plane, and `index_format` is "plane".

    See Also
    --------
    max_pool2d : Returns the maxima and their indices.
    max_unpool2d_backward : Returns the same values, for sizes that unpooling can give.

    Notes
    -----
    An element that is taken several times receives the sum of its gradients. The gradient is
    ``max_pool2d_backward(grad, indices, input.shape, ...)`` with the window of the pooling. That function requires
    sizes that a pooling can give. For indices of other sizes, at most the sizes of `input`, use ``stride=1`` and a
    `kernel_size` of ``input size - indices size + 1`` on each axis.

    Examples
    --------
    The labels of the brightest voxels:

    >>> import numpy as np, cunpool as cu
    >>> image = np.array([[[1.0, 2, 0, 3], [4, 0, 5, 0]]])
    >>> labels = np.array([[[10, 11, 12, 13], [14, 15, 16, 17]]], np.uint8)
    >>> brightest, indices = cu.max_pool2d(image, 2, return_indices=True)
    >>> cu.take_at2d(labels, indices)
    array([[[14, 16]]], dtype=uint8)

    The same with window codes, which need the window:

    >>> _, codes = cu.max_pool2d(image, 2, return_indices=True, index_format="window")
    >>> cu.take_at2d(labels, codes, 2, index_format="window")
    array([[[14, 16]]], dtype=uint8)

    The gradient, with the window of the pooling, and with one for three indices in any order:

    >>> cu.max_pool2d_backward(np.array([[[1.0, 2]]]), indices, image.shape, 2)
    array([[[0., 0., 0., 0.],
            [1., 0., 2., 0.]]])
    >>> cu.max_pool2d_backward(np.array([[[1.0, 2, 4]]]), np.array([[[7, 0, 7]]]), image.shape, (2, 2), 1)
    array([[[2., 0., 0., 0.],
            [0., 0., 0., 5.]]])
    """
    window = kernel_size, stride, padding, dilation
    return _take_at(2, input, indices, window, index_format, out, num_threads)


@typed_take
@shares
def take_at3d(
    input: npt.ArrayLike,
    indices: npt.ArrayLike,
    kernel_size: Size | None = None,
    stride: Size | None = None,
    padding: Padding = 0,
    *,
    dilation: Size = 1,
    index_format: IndexFormat = "plane",
    out: Array | None = None,
    num_threads: int | None = None,
) -> Array:
    """Take the elements at given indices, such as the indices of the maxima of another array.

    See `take_at2d`. This is the case of three spatial axes: shapes are (N, C, D, H, W) or (C, D, H, W).

    Examples
    --------
    >>> import numpy as np, cunpool as cu
    >>> volume = np.arange(8.0).reshape(1, 2, 2, 2)
    >>> brightest, indices = cu.max_pool3d(volume, 2, return_indices=True)
    >>> cu.take_at3d(volume > 3, indices)
    array([[[[ True]]]])
    """
    window = kernel_size, stride, padding, dilation
    return _take_at(3, input, indices, window, index_format, out, num_threads)


complete(take_at1d, take_at3d, take_at2d)
