"""SciPy's filters of extremes, under its names and with its arguments: change the import, and nothing else.

>>> import numpy as np
>>> from cunpool import ndimage
>>> ndimage.maximum_filter(np.array([3, 1, 4, 1, 5, 9, 2, 6]), size=3)
array([3, 4, 4, 5, 9, 9, 9, 6])

============================================== ======================================================
`maximum_filter`, `minimum_filter`             the extremes of the window around each element
`maximum_filter1d`, `minimum_filter1d`         the same along one axis
`grey_dilation`, `grey_erosion`                the same; the window of a dilation is mirrored
`grey_opening`, `grey_closing`                 an erosion, then a dilation; or the reverse
============================================== ======================================================

For finite values the results equal SciPy's, with three differences:

- Integers above 2**53 are exact. SciPy computes with float64, and rounds them.
- NaN propagates: a window that contains one gives NaN. What SciPy gives depends on the order of the elements.
- A size below 1 is a ValueError.

`cval` is cast as in SciPy. With a footprint that is not full it is cast to the dtype of `input` first, so that -1 is
255 for uint8. In other calls it may lie beyond that dtype, and then wins everywhere or nowhere.

float16 and bfloat16 are supported too. Arrays may have any number of axes, any strides and any byte order. Without
`output`, the result has the memory layout of `input`. SciPy need not be installed.
"""

from __future__ import annotations

from typing import SupportsIndex

import numpy.typing as npt

from cunpool._arrays import Array
from cunpool._ndimage import _arguments
from cunpool._ndimage._arguments import Axes, Modes, Origins, Output, Sizes
from cunpool._ndimage._calls import along, filtered, rule_of, twice
from cunpool._ndimage._docstrings import shares
from cunpool._ndimage._overloads import typed_filter, typed_filter1d, typed_morphology
from cunpool._overloads import MaxPoolResult

__all__ = [
    "grey_closing",
    "grey_dilation",
    "grey_erosion",
    "grey_opening",
    "maximum_filter",
    "maximum_filter1d",
    "minimum_filter",
    "minimum_filter1d",
]


@typed_filter
@shares
def maximum_filter(
    input: npt.ArrayLike,
    size: Sizes | None = None,
    footprint: npt.ArrayLike | None = None,
    output: Output = None,
    mode: Modes = "reflect",
    cval: float = 0.0,
    origin: Origins = 0,
    *,
    axes: Axes = None,
    return_indices: bool = False,
    num_threads: int | None = None,
) -> Array | MaxPoolResult:
    """Return the maximum of the window around each element.

    Parameters
    ----------
    {parameters}

    {returns}

    {raises}

    Notes
    -----
    The semantics come from scipy.ndimage.maximum_filter.

    Examples
    --------
    >>> import numpy as np
    >>> from cunpool import ndimage
    >>> x = np.array([[1, 0, 0, 0], [0, 0, 0, 2], [0, 3, 0, 0]])
    >>> ndimage.maximum_filter(x, size=(1, 3))
    array([[1, 1, 0, 0],
           [0, 0, 2, 2],
           [3, 3, 3, 0]])
    >>> values, indices = ndimage.maximum_filter(x, size=3, return_indices=True)
    >>> indices
    array([[0, 0, 7, 7],
           [9, 9, 9, 7],
           [9, 9, 9, 7]])
    >>> np.array_equal(x.ravel()[indices], values)
    True
    """
    rule = rule_of(False, return_indices, num_threads)
    _arguments.warn_of_a_footprint(size, footprint)
    return filtered("maximum_filter", input, size, footprint, None, output, mode, cval, origin, axes, rule)


@typed_filter
@shares
def minimum_filter(
    input: npt.ArrayLike,
    size: Sizes | None = None,
    footprint: npt.ArrayLike | None = None,
    output: Output = None,
    mode: Modes = "reflect",
    cval: float = 0.0,
    origin: Origins = 0,
    *,
    axes: Axes = None,
    return_indices: bool = False,
    num_threads: int | None = None,
) -> Array | MaxPoolResult:
    """Return the minimum of the window around each element.

    Parameters
    ----------
    {parameters}

    {returns}

    {raises}

    Notes
    -----
    The semantics come from scipy.ndimage.minimum_filter.

    Examples
    --------
    >>> import numpy as np
    >>> from cunpool import ndimage
    >>> cross = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]])
    >>> x = np.array([[5, 1, 8], [9, 7, 6], [4, 3, 2]])
    >>> ndimage.minimum_filter(x, footprint=cross)
    array([[1, 1, 1],
           [4, 1, 2],
           [3, 2, 2]])
    """
    rule = rule_of(True, return_indices, num_threads)
    _arguments.warn_of_a_footprint(size, footprint)
    return filtered("minimum_filter", input, size, footprint, None, output, mode, cval, origin, axes, rule)


@typed_filter1d
@shares
def maximum_filter1d(
    input: npt.ArrayLike,
    size: SupportsIndex,
    axis: SupportsIndex = -1,
    output: Output = None,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: SupportsIndex = 0,
    *,
    return_indices: bool = False,
    num_threads: int | None = None,
) -> Array | MaxPoolResult:
    """Return the maximum of the window around each element along one axis.

    Parameters
    ----------
    {parameters1d}

    {returns}

    {raises1d}

    Notes
    -----
    The semantics come from scipy.ndimage.maximum_filter1d.

    Examples
    --------
    >>> import numpy as np
    >>> from cunpool import ndimage
    >>> ndimage.maximum_filter1d(np.array([3, 1, 4, 1, 5, 9, 2, 6]), 4, mode="constant", cval=8)
    array([8, 8, 4, 5, 9, 9, 9, 9])
    """
    rule = rule_of(False, return_indices, num_threads)
    return along(input, size, axis, output, mode, cval, origin, rule)


@typed_filter1d
@shares
def minimum_filter1d(
    input: npt.ArrayLike,
    size: SupportsIndex,
    axis: SupportsIndex = -1,
    output: Output = None,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: SupportsIndex = 0,
    *,
    return_indices: bool = False,
    num_threads: int | None = None,
) -> Array | MaxPoolResult:
    """Return the minimum of the window around each element along one axis.

    Parameters
    ----------
    {parameters1d}

    {returns}

    {raises1d}

    Notes
    -----
    The semantics come from scipy.ndimage.minimum_filter1d.

    Examples
    --------
    >>> import numpy as np
    >>> from cunpool import ndimage
    >>> ndimage.minimum_filter1d(np.array([[3, 1, 4], [1, 5, 9], [2, 6, 5]]), 3, axis=0)
    array([[1, 1, 4],
           [1, 1, 4],
           [1, 5, 5]])
    """
    rule = rule_of(True, return_indices, num_threads)
    return along(input, size, axis, output, mode, cval, origin, rule)


@typed_morphology
@shares
def grey_dilation(
    input: npt.ArrayLike,
    size: Sizes | None = None,
    footprint: npt.ArrayLike | None = None,
    structure: npt.ArrayLike | None = None,
    output: Output = None,
    mode: Modes = "reflect",
    cval: float = 0.0,
    origin: Origins = 0,
    *,
    axes: Axes = None,
    return_indices: bool = False,
    num_threads: int | None = None,
) -> Array | MaxPoolResult:
    """Return the greyscale dilation: the maximum of the mirrored window around each element.

    Parameters
    ----------
    {parameters_of_grey}

    {returns}

    {raises}

    Notes
    -----
    The semantics come from scipy.ndimage.grey_dilation.

    Examples
    --------
    >>> import numpy as np
    >>> from cunpool import ndimage
    >>> ndimage.grey_dilation(np.array([0, 0, 7, 0, 0]), footprint=[1, 1, 0])
    array([0, 7, 7, 0, 0])
    >>> ndimage.maximum_filter(np.array([0, 0, 7, 0, 0]), footprint=[1, 1, 0])
    array([0, 0, 7, 7, 0])
    """
    rule = rule_of(False, return_indices, num_threads)
    _arguments.warn_of_a_footprint(size, footprint)
    return filtered("grey_dilation", input, size, footprint, structure, output, mode, cval, origin, axes, rule)


@typed_morphology
@shares
def grey_erosion(
    input: npt.ArrayLike,
    size: Sizes | None = None,
    footprint: npt.ArrayLike | None = None,
    structure: npt.ArrayLike | None = None,
    output: Output = None,
    mode: Modes = "reflect",
    cval: float = 0.0,
    origin: Origins = 0,
    *,
    axes: Axes = None,
    return_indices: bool = False,
    num_threads: int | None = None,
) -> Array | MaxPoolResult:
    """Return the greyscale erosion: the minimum of the window around each element.

    Parameters
    ----------
    {parameters_of_grey}

    {returns}

    {raises}

    Notes
    -----
    The semantics come from scipy.ndimage.grey_erosion.

    Examples
    --------
    >>> import numpy as np
    >>> from cunpool import ndimage
    >>> ndimage.grey_erosion(np.array([4, 5, 7, 6, 1]), size=3)
    array([4, 4, 5, 1, 1])
    """
    rule = rule_of(True, return_indices, num_threads)
    _arguments.warn_of_a_footprint(size, footprint)
    return filtered("grey_erosion", input, size, footprint, structure, output, mode, cval, origin, axes, rule)


@shares
def grey_opening(
    input: npt.ArrayLike,
    size: Sizes | None = None,
    footprint: npt.ArrayLike | None = None,
    structure: npt.ArrayLike | None = None,
    output: Output = None,
    mode: Modes = "reflect",
    cval: float = 0.0,
    origin: Origins = 0,
    *,
    axes: Axes = None,
    num_threads: int | None = None,
) -> Array:
    """Return the greyscale opening, an erosion followed by a dilation, which removes small maxima.

    Parameters
    ----------
    {parameters_of_two}

    {returns_one}

    {raises}

    Notes
    -----
    The semantics come from scipy.ndimage.grey_opening.

    Examples
    --------
    >>> import numpy as np
    >>> from cunpool import ndimage
    >>> ndimage.grey_opening(np.array([1, 1, 9, 1, 5, 5, 5, 1]), size=3)
    array([1, 1, 1, 1, 5, 5, 5, 1])
    """
    _arguments.warn_of_a_footprint(size, footprint)
    rules = rule_of(True, False, num_threads), rule_of(False, False, num_threads)
    return twice("grey_opening", input, size, footprint, structure, output, mode, cval, origin, axes, rules)


@shares
def grey_closing(
    input: npt.ArrayLike,
    size: Sizes | None = None,
    footprint: npt.ArrayLike | None = None,
    structure: npt.ArrayLike | None = None,
    output: Output = None,
    mode: Modes = "reflect",
    cval: float = 0.0,
    origin: Origins = 0,
    *,
    axes: Axes = None,
    num_threads: int | None = None,
) -> Array:
    """Return the greyscale closing, a dilation followed by an erosion, which removes small minima.

    Parameters
    ----------
    {parameters_of_two}

    {returns_one}

    {raises}

    Notes
    -----
    The semantics come from scipy.ndimage.grey_closing.

    Examples
    --------
    >>> import numpy as np
    >>> from cunpool import ndimage
    >>> ndimage.grey_closing(np.array([9, 9, 1, 9, 2, 2, 2, 9]), size=3)
    array([9, 9, 9, 9, 2, 2, 2, 9])
    """
    _arguments.warn_of_a_footprint(size, footprint)
    rules = rule_of(False, False, num_threads), rule_of(True, False, num_threads)
    return twice("grey_closing", input, size, footprint, structure, output, mode, cval, origin, axes, rules)
