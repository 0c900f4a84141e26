"""A plugin of pytest that runs SciPy's own tests with cunpool's filters in the place of SciPy's."""

from __future__ import annotations

import functools
import os

import pytest
import scipy.ndimage

from cunpool import ndimage

# Tests of arguments that are not served, and the reason. Each has to raise a ValueError.
EXCLUDED = {
    "test_grey_erosion03": "a structure with heights",
    "test_grey_dilation03": "a structure with heights",
    "test_dilation_square_structure": "a structure with heights",
    "test_grey_axes[numpy-grey_erosion-structure": "a structure with heights",
    "test_grey_axes[numpy-grey_dilation-structure": "a structure with heights",
    "test_grey_axes[numpy-grey_opening-structure": "a structure with heights",
    "test_grey_axes[numpy-grey_closing-structure": "a structure with heights",
}

served = set()


def counted(function):
    """The filter, which notes the tests that call it."""

    @functools.wraps(function)
    def call(*arguments, **options):
        served.add(os.environ.get("PYTEST_CURRENT_TEST"))
        return function(*arguments, **options)

    return call


def pytest_configure(config):
    # SciPy's tests find the abilities of a function in a table.
    try:
        from scipy._lib._array_api import xp_capabilities_table as table
    except ImportError:
        table = {}
    for name in ndimage.__all__:
        old, new = getattr(scipy.ndimage, name), counted(getattr(ndimage, name))
        if old in table:
            table[new] = table[old]
        setattr(scipy.ndimage, name, new)


def pytest_collection_modifyitems(items):
    for item in items:
        for name, reason in EXCLUDED.items():
            if item.name == name or item.name.startswith((f"{name}[", f"{name}-")):
                item.add_marker(pytest.mark.xfail(strict=True, raises=ValueError, reason=reason))


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"{len(served)} tests called cunpool")
