"""Max pooling and unpooling for NumPy arrays on a CPU, with PyTorch's names and semantics.

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
`max_pool1d`, `2d`, `3d`                     the maxima of windows, and their indices
`max_unpool1d`, `2d`, `3d`                   the maxima put back, zeros elsewhere
`max_pool1d_backward`, `2d`, `3d`            the gradient of pooling
`max_unpool1d_backward`, `2d`, `3d`          the gradient of unpooling
`adaptive_max_pool1d`, `2d`, `3d`            the maxima of as many windows as you ask for
`adaptive_max_unpool1d`, `2d`, `3d`          these maxima put back
`adaptive_max_pool1d_backward`, `2d`, `3d`   the gradient of adaptive pooling
`adaptive_max_unpool1d_backward`, `2d`, `3d` the gradient of adaptive unpooling
`take_at1d`, `2d`, `3d`                      the values of any array at the indices of maxima
`min_pool1d`, `2d`, `3d`                     the minima of windows, and their indices
`min_unpool1d`, `2d`, `3d`                   the minima put back
`min_pool1d_backward`, `2d`, `3d`            the gradient of min pooling
`MaxPool1d`, `2d`, `3d`                      the same as objects that store their arguments
`MaxUnpool1d`, `2d`, `3d`
`MinPool1d`, `2d`, `3d`
`MinUnpool1d`, `2d`, `3d`
`AdaptiveMaxPool1d`, `2d`, `3d`
`AdaptiveMaxUnpool1d`, `2d`, `3d`
`MaxPoolResult`                              the result of pooling with indices: a named pair
`convert_indices`                            indices of ONNX and TensorFlow, and window codes
`peaks`                                      the positions of local maxima, the highest first
`set_num_threads`, `get_num_threads`         the greatest number of threads of a call
`set_cache_limit`, `get_cache_limit`         the limit of the memory kept for later calls
`cache_info`, `empty_cache`                  that memory: how much there is, and how to free it
`openmp_enabled`                             whether this build has threads
`explain`                                    the method that a call would use, and why
`LayoutWarning`                              the warning if the channels seem to come last
============================================ ========================================================

Arrays are (N, C, *spatial) or (C, *spatial). For other shapes, pass one of these; no copy is needed:

- an image of H x W: ``image[None]``; from Pillow, xarray or a list: ``np.asarray(image)[None]``
- an image of H x W x 3: ``image``, with ``channel_axis=-1``
- volumes of (x, y, z, t): ``np.moveaxis(volumes, -1, 0)[:, None]``, and ``np.moveaxis(result[:, 0], 0, -1)`` back

Always pass ``output_size=x.shape`` when you unpool: inputs of different sizes can pool to the same size.

`cunpool.torch` is for PyTorch's tensors, `cunpool.dask` for Dask's arrays, and `cunpool.ndimage` has SciPy's filters
of maxima and minima. Import them by name.
"""

from cunpool import _find_build

__path__ = _find_build.compiled(__path__)

from cunpool import _threads  # noqa: F401, I001 - before OpenMP's library is loaded: it sets how long idle threads wait
from cunpool import _simd  # noqa: F401 - before the kernels: it sets where they are found
from cunpool._explain import explain
from cunpool._overloads import MaxPoolResult
from cunpool._peaks import peaks
from cunpool._threads import get_num_threads, openmp_enabled, set_num_threads
from cunpool._warn import LayoutWarning
from cunpool.adaptive import (
    adaptive_max_pool1d,
    adaptive_max_pool1d_backward,
    adaptive_max_pool2d,
    adaptive_max_pool2d_backward,
    adaptive_max_pool3d,
    adaptive_max_pool3d_backward,
    adaptive_max_unpool1d,
    adaptive_max_unpool1d_backward,
    adaptive_max_unpool2d,
    adaptive_max_unpool2d_backward,
    adaptive_max_unpool3d,
    adaptive_max_unpool3d_backward,
)
from cunpool.indices import convert_indices
from cunpool.memory import cache_info, empty_cache, get_cache_limit, set_cache_limit
from cunpool.minima import (
    MinPool1d,
    MinPool2d,
    MinPool3d,
    MinUnpool1d,
    MinUnpool2d,
    MinUnpool3d,
    min_pool1d,
    min_pool1d_backward,
    min_pool2d,
    min_pool2d_backward,
    min_pool3d,
    min_pool3d_backward,
    min_unpool1d,
    min_unpool2d,
    min_unpool3d,
)
from cunpool.modules import (
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AdaptiveMaxUnpool1d,
    AdaptiveMaxUnpool2d,
    AdaptiveMaxUnpool3d,
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
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AdaptiveMaxUnpool1d",
    "AdaptiveMaxUnpool2d",
    "AdaptiveMaxUnpool3d",
    "LayoutWarning",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxPoolResult",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "MinPool1d",
    "MinPool2d",
    "MinPool3d",
    "MinUnpool1d",
    "MinUnpool2d",
    "MinUnpool3d",
    "__version__",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_backward",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_backward",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_backward",
    "adaptive_max_unpool1d",
    "adaptive_max_unpool1d_backward",
    "adaptive_max_unpool2d",
    "adaptive_max_unpool2d_backward",
    "adaptive_max_unpool3d",
    "adaptive_max_unpool3d_backward",
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
    "min_pool1d",
    "min_pool1d_backward",
    "min_pool2d",
    "min_pool2d_backward",
    "min_pool3d",
    "min_pool3d_backward",
    "min_unpool1d",
    "min_unpool2d",
    "min_unpool3d",
    "openmp_enabled",
    "peaks",
    "set_cache_limit",
    "set_num_threads",
    "take_at1d",
    "take_at2d",
    "take_at3d",
]
