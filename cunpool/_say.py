"""Warnings, told to whoever called cunpool."""

from __future__ import annotations

import sys
import warnings


def warn(message: str) -> None:
    """Warn at the innermost line that is not cunpool's own."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "cunpool":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, UserWarning, stacklevel=level)
