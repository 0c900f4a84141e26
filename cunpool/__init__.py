"""Max unpooling for NumPy arrays, and the pooling that belongs to it: PyTorch's names and semantics on a CPU.

The layers, and the one way through them: a front end (`unpooling`, `pooling`; `modules` keeps arguments for them) takes
the caller's arguments to `_geometry`, which knows integers alone and answers for sizes; to `_arrays`, which answers for
dtypes, shapes, memory and the report of a bad index; to `_threads`, which answers for how many threads; and then to a
kernel (`_unpool`, `_gather`, `_pool`; Cython, what they share is in the `.pxd` files). Kernels assume valid arguments,
check the indices, raise nothing and return what went wrong. Nothing imports back. Arrays belong to the front end: a
kernel keeps no pointer beyond its call. `_signatures` says for type checkers what pooling returns. `indices` converts
between formats of indices, with `_geometry`, `_arrays` and no kernel. `torch` and `dask` hand their arrays to the front
ends; they have to be imported by name, for they import PyTorch and Dask.
"""

from cunpool import _checkout

__path__ = _checkout.compiled(__path__)

from cunpool._threads import get_num_threads, openmp_enabled, set_num_threads
from cunpool.indices import convert_indices
from cunpool.memory import cache_info, empty_cache, get_cache_limit, set_cache_limit
from cunpool.modules import (
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    MaxUnpool1d,
    MaxUnpool2d,
    MaxUnpool3d,
)
from cunpool.pooling import (
    max_pool1d,
    max_pool1d_backward,
    max_pool2d,
    max_pool2d_backward,
    max_pool3d,
    max_pool3d_backward,
)
from cunpool.unpooling import (
    max_unpool1d,
    max_unpool1d_backward,
    max_unpool2d,
    max_unpool2d_backward,
    max_unpool3d,
    max_unpool3d_backward,
)

__version__ = "0.1.0"

__all__ = [
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "__version__",
    "cache_info",
    "convert_indices",
    "empty_cache",
    "get_cache_limit",
    "get_num_threads",
    "max_pool1d",
    "max_pool1d_backward",
    "max_pool2d",
    "max_pool2d_backward",
    "max_pool3d",
    "max_pool3d_backward",
    "max_unpool1d",
    "max_unpool1d_backward",
    "max_unpool2d",
    "max_unpool2d_backward",
    "max_unpool3d",
    "max_unpool3d_backward",
    "openmp_enabled",
    "set_cache_limit",
    "set_num_threads",
]
