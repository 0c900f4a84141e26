"""Max unpooling for NumPy arrays, and the pooling that belongs to it: PyTorch's names and semantics on a CPU.

>>> import numpy as np, cunpool as cu
>>> x = np.array([[[1, 2, 0], [4, 3, 7], [0, 5, 6]]])
>>> y, indices = cu.max_pool2d(x, 2, return_indices=True)
>>> y
array([[[4]]])
>>> cu.max_unpool2d(y, indices, 2, output_size=x.shape)
array([[[0, 0, 0],
        [4, 0, 0],
        [0, 0, 0]]])

============================================ ========================================================
`max_pool1d`, `2d`, `3d`                     the maxima of windows, and where they were
`max_unpool1d`, `2d`, `3d`                   the maxima put back, zeros elsewhere
`max_pool1d_backward`, `2d`, `3d`            the gradient of pooling
`max_unpool1d_backward`, `2d`, `3d`          the gradient of unpooling
`take_at1d`, `2d`, `3d`                      the values of any array at the indices of maxima
`MaxPool1d`, `2d`, `3d`                      the same as objects that keep their arguments
`MaxUnpool1d`, `2d`, `3d`
`MaxPoolResult`                              what pooling gives with indices: a pair with names
`convert_indices`                            indices of ONNX and TensorFlow, and of one byte each
`set_num_threads`, `get_num_threads`         how many threads a call may use
`set_cache_limit`, `get_cache_limit`         how much memory is kept for the next calls
`cache_info`, `empty_cache`
`openmp_enabled`                             whether this build has threads
`explain`                                    which method a call would use, and why
`LayoutWarning`                              what is said where the channels seem to come last
============================================ ========================================================

Arrays are (N, C, *spatial) or (C, *spatial). Others are views of that, without a copy:

- an image of H x W: ``image[None]``; of Pillow, of xarray or a list: ``np.asarray(image)[None]``
- an image of H x W x 3: ``np.moveaxis(image, -1, 0)``, and ``np.moveaxis(result, 0, -1)`` back
- volumes of (x, y, z, t): ``np.moveaxis(volumes, -1, 0)[:, None]``, and ``np.moveaxis(result[:, 0], 0, -1)`` back

Give ``output_size=x.shape``, of what was pooled, whenever you unpool: several sizes pool to the same one.

PyTorch's tensors have `cunpool.torch`, Dask's arrays `cunpool.dask`; both have to be imported by name.

How it is built: a front end (`unpooling`, `pooling`, `taking`; `modules` keeps arguments for them) takes the caller's
arguments to `_geometry`, which knows integers alone and answers for sizes; to `_arrays`, which answers for dtypes,
shapes, memory and the report of a bad index; to `_threads`, which answers for how many threads; and then to a kernel
(`_kernels`; Cython). Kernels assume valid arguments, check
the indices, raise nothing and return what went wrong. Nothing imports back. Arrays belong to the front end: a kernel
keeps no pointer beyond its call. `_diagnostics` looks at indices that are legal and look wrong, by the formats in
`_formats`. `_remedies` has the last part of messages about sizes, `_calls` the messages for missing and unknown
arguments. `_overloads` says for type checkers what the functions return. `indices` converts between formats of
indices, with no kernel. `torch` and `dask` hand their arrays to the front ends. All of it, down to the kernels' ways:
``docs/built.md``.
"""

from cunpool import _find_build

__path__ = _find_build.compiled(__path__)

from cunpool import _threads  # noqa: F401, I001 - before what may load OpenMP's library: it sets how long threads wait
from cunpool import _simd  # noqa: F401 - before the kernels: it sets where they are found
from cunpool._explain import explain
from cunpool._overloads import MaxPoolResult
from cunpool._threads import get_num_threads, openmp_enabled, set_num_threads
from cunpool._warn import LayoutWarning
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
from cunpool.taking import take_at1d, take_at2d, take_at3d
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
    "LayoutWarning",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxPoolResult",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "__version__",
    "cache_info",
    "convert_indices",
    "empty_cache",
    "explain",
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
    "take_at1d",
    "take_at2d",
    "take_at3d",
]
