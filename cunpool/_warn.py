"""Warnings, reported at the line that called cunpool."""

from __future__ import annotations

import sys
import warnings
from contextvars import ContextVar

SILENT: ContextVar[bool] = ContextVar("SILENT", default=False)
"""Whether a call comes from a function of another library that has no warnings, so that nothing is to be checked."""

IS_LAYOUT_KNOWN: ContextVar[bool] = ContextVar("IS_LAYOUT_KNOWN", default=False)
"""Whether the caller named the axis of the channels, so that there is no `LayoutWarning`."""


class LayoutWarning(UserWarning):
    """The channels of an array seem to be its last axis, although the order must be ``(N, C, *spatial)``.

    An image of height x width x 3, for example, would be pooled across its colours. Pooling warns if the last axis has
    1 to 4 elements, the window is wider than 1 there, and the axis used as channels has more than 4. Small feature
    maps, such as 512 channels of 4 x 4, look the same. If you pool these, filter the warning out.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np, cunpool as cu
    >>> image = np.zeros((48, 64, 3), np.uint8)
    >>> cu.max_pool2d(np.moveaxis(image, -1, 0), 2).shape
    (3, 24, 32)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", cu.LayoutWarning)
    ...     cu.max_pool2d(np.zeros((512, 4, 4)), 2).shape
    (512, 2, 2)
    """


LayoutWarning.__module__ = "cunpool"  # as it is imported, and named by ``python -W ignore::cunpool.LayoutWarning``


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line that is not cunpool's own."""
    if category is LayoutWarning and IS_LAYOUT_KNOWN.get():
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "cunpool":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
