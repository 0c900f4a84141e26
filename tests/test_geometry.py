from __future__ import annotations

import ast
import itertools
import sys

import pytest
import reference

from cunpool import _geometry


@pytest.mark.parametrize("ceil_mode", [False, True])
def test_pooled_sizes_are_those_counted_one_by_one(ceil_mode):
    cases = 0
    for size, kernel, stride, dilation in itertools.product(range(1, 13), range(1, 6), range(1, 6), range(1, 4)):
        reach = dilation * (kernel - 1)
        for before, after in itertools.product({0, kernel // 2, kernel - 1, reach}, repeat=2):
            counted = reference.pooled_size(size, kernel, stride, (before, after), dilation, ceil_mode)
            if counted > 0:
                arguments = size, kernel, stride, before, after, dilation, ceil_mode
                assert _geometry._pooled_size(*arguments) == counted, arguments
                cases += 1
    assert cases > 7000


def test_unpooling_undoes_the_size_of_pooling():
    for n in (1, 2, 3):
        shape, count, sizes = _geometry.unpooling(n, (2, 3) + (4,) * n, 3, 2, 1, 1, None)
        assert shape == (2, 3) + (7,) * n
        again, _, other = _geometry.pooling(n, shape, 3, 2, 1, 1, False, False)
        assert count == 6 * 7**n
        assert again == (2, 3) + (4,) * n
        assert sizes == other
        assert len(sizes) == 20


def test_the_bounds_of_an_output_size():
    for size in range(12):
        if 4 < size < 8:
            assert _geometry.unpooling(1, (1, 3), 2, 2, 0, 1, (size,))[0] == (1, size)
        else:
            with pytest.raises(ValueError, match="within one stride"):
                _geometry.unpooling(1, (1, 3), 2, 2, 0, 1, (size,))


def test_dilation_enters_the_default_size():
    assert _geometry.unpooling(1, (1, 3), 3, 2, 0, 4, None)[0] == (1, 13)


def test_the_layers_import_downwards_alone():
    """What the package's docstring promises."""
    below = {
        "_remedies": set(),
        "_integers": {"_remedies"},
        "_padding": {"_integers", "_remedies"},
        "_adaptive_axis": set(),
        "_geometry": {"_adaptive_axis", "_integers", "_padding", "_remedies"},
        "_arrays": {"_kernels", "_remedies"},
        "_background": {"_arrays", "_kernels", "_remedies"},
        "_calls": {"_remedies"},
        "_orders": set(),
        "_large": {"_arrays", "_geometry", "_orders"},
        "_unequal": {"_adaptive_axis", "_arrays", "_geometry", "_kernels", "_large", "_orders", "_threads"},
        "_channels": {"_arrays", "_calls", "_geometry", "_remedies", "_warn"},
        "_formats": {"_geometry", "_arrays"},
        "_cgroups": set(),
        "_warn": set(),
        "_diagnostics": {"_geometry", "_padding", "_arrays", "_formats", "_remedies", "_warn"},
        "_threads": {"_geometry", "_remedies", "_kernels", "_cgroups", "_warn", "_omp_wait"},
        "_omp_wait": set(),
        "_simd": {"_kernels", "_remedies"},
        "memory": {"_geometry", "_kernels", "_cgroups", "_remedies"},
        "_results": {
            "_background", "_diagnostics", "_geometry", "_arrays", "_threads", "_kernels", "_overloads",
        },
        "unpooling": {
            "_background", "_channels", "_diagnostics", "_geometry", "_arrays", "_calls", "_threads", "_kernels",
            "_docstrings", "_overloads", "_results", "_formats",
        },
        "taking": {
            "_diagnostics", "_geometry", "_arrays", "_warn", "_threads", "_kernels", "_docstrings", "_overloads",
            "_formats",
        },
        "_overloads": {"_background", "_geometry", "_arrays"},
        "pooling": {
            "_diagnostics", "_geometry", "_arrays", "_calls", "_threads", "_kernels", "_remedies", "_warn", "unpooling",
            "_docstrings", "_overloads", "_channels", "_results", "_orders", "_large",
        },
        "indices": {"_channels", "_diagnostics", "_formats", "_geometry", "_arrays", "_docstrings", "_remedies"},
    }  # fmt: skip
    for name, allowed in below.items():
        with open(sys.modules[f"cunpool.{name}"].__file__) as source:
            tree = ast.parse(source.read())
        imported = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cunpool"):
                parts = (node.module or "").split(".")
                imported |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        assert imported <= allowed, name
