"""The windows of adaptive pooling along one axis. Imports only the standard library.

With the remainder of size / count, the windows are

    0           of one size, side by side
    1           of one size; each ends with the first element of the next one
    count - 1   of one size, but for the ends of the axis: each begins with the last element of the one before
    others      of unequal sizes, or not one stride apart
"""

from __future__ import annotations


def one_stride_apart(size: int, count: int) -> tuple[int, int, int] | None:
    """Kernel, stride and padding for the adaptive windows of an axis, or None if these do not lie one stride apart."""
    if not count:
        return None
    stride, rest = divmod(size, count)
    if rest == 0:
        return stride, stride, 0
    if rest == 1 and stride:
        return stride + 1, stride, 0
    return (stride + 2, stride + 1, 1) if rest == count - 1 else None


def largest(size: int, count: int) -> int:
    """The elements of the largest window of an axis."""
    least, rest = divmod(size, count)
    return least + (0 if rest == 0 else 1 if count % rest == 0 else 2)
