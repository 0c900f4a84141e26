"""`channel_axis` gives what moving the axis gives, in the same layout."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from cases import bits, layout

import cunpool as cu

FULL = {1: (23,), 2: (8, 11), 3: (5, 6, 7)}


def function(name, n):
    return getattr(cu, name.format(n))


def arrays(rng, n, channel_axis, batch):
    """An array whose channels are on this axis, and a function that moves them before the spatial axes."""
    shape = [*((2,) if batch else ()), *FULL[n]]
    at = channel_axis % (len(shape) + 1)
    shape.insert(at, 4)
    x = layout(rng, rng.permutation(int(np.prod(shape))).reshape(shape).astype(np.float32))
    return x, lambda array: np.moveaxis(array, at, array.ndim - n - 1)


CASES = [(n, axis, batch) for n in (1, 2, 3) for batch in (False, True) for axis in (-1, 0, 1, n, -n - 1)]


@pytest.mark.parametrize(("n", "channel_axis", "batch"), CASES, ids=str)
def test_the_same_as_moving_the_axis(rng, n, channel_axis, batch):
    x, moved = arrays(rng, n, channel_axis, batch)
    where = {"channel_axis": channel_axis}

    def check(name, *arguments, sizes=(), **keywords):
        """A call on the arrays as they are, beside a call on views of moved axes. `sizes` are moved in the latter."""
        call, pair = function(name, n), isinstance(keywords.get("out"), tuple)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # there is no LayoutWarning
            result = call(*arguments, **keywords, **dict.fromkeys(sizes, x.shape), **where)
        views = [moved(value) if isinstance(value, np.ndarray) else value for value in arguments]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cu.LayoutWarning)
            options = {key: moved(value) if isinstance(value, np.ndarray) else value for key, value in keywords.items()}
            expected = call(*views, **options, **{key: moved(x).shape for key in sizes})
        results, wanted = (given if isinstance(given, tuple) else (given,) for given in (result, expected))
        for array, other in zip(results, wanted, strict=True):
            assert bits(moved(array)) == bits(other)
            assert moved(array).strides == other.strides
            assert array.ndim == x.ndim
        out = tuple(np.empty_like(array) for array in results)
        again = call(*arguments, **{**keywords, "out": out if pair or len(out) > 1 else out[0]},
                     **dict.fromkeys(sizes, x.shape), **where)  # fmt: skip
        for array, into, other in zip(again if isinstance(again, tuple) else (again,), out, results, strict=True):
            assert array is into
            assert bits(array) == bits(other)
        return result

    values, indices = check("max_pool{}d", x, 2, return_indices=True)
    assert bits(check("max_pool{}d", x, 2)) == bits(values)
    check("min_pool{}d", x, 3, 2, 1, return_indices=True, index_format="window")
    check("max_unpool{}d", values, indices, 2, sizes=["output_size"])
    check("max_unpool{}d", values, indices, 2, output_size=FULL[n], fill_value=3)
    check("max_unpool{}d", -values, indices, 2, onto=x)
    check("min_unpool{}d", values, indices, 2, sizes=["output_size"])
    check("max_pool{}d_backward", values, indices, sizes=["input_size"], kernel_size=2)
    check("max_unpool{}d_backward", x, indices, 2)
    check("max_unpool{}d_backward", x, indices, 2, onto=True)
    few, places = check("adaptive_max_pool{}d", x, (3,) * n, return_indices=True)
    check("adaptive_max_unpool{}d", few, places, sizes=["output_size"])
    check("adaptive_max_unpool{}d", few, places, onto=x)
    check("adaptive_max_pool{}d_backward", few, places, sizes=["input_size"])
    check("adaptive_max_unpool{}d_backward", x, places, onto=True)
    for target in ("onnx", "tf", "window"):
        for window in (2, (2,) * n):
            for size in (x.shape, FULL[n]):
                given = {"input_size": size, "kernel_size": window}
                result = cu.convert_indices(indices, "plane", target, **given, **where)
                assert result.flags.c_contiguous
                given["input_size"] = FULL[n]
                assert bits(moved(result)) == bits(cu.convert_indices(moved(indices), "plane", target, **given))


def test_an_image_with_channels_last_needs_no_copy():
    image = np.random.default_rng(0).random((40, 60, 3))
    values, indices = cu.max_pool2d(image, 2, return_indices=True, channel_axis=-1)
    assert values.shape == indices.shape == (20, 30, 3)
    assert values.flags.c_contiguous
    assert indices.flags.c_contiguous
    assert cu.max_pool2d(image.tolist(), 2, channel_axis=2).shape == (20, 30, 3)
    assert cu.max_unpool2d(values, indices, 2, onto=image, out=image, channel_axis=-1) is image
    plan = cu.explain(cu.max_pool2d, image, 2, channel_axis=-1)
    assert plan == cu.explain(cu.max_pool2d, np.moveaxis(image, -1, 0), 2)


def test_modules():
    image = np.random.default_rng(0).random((2, 40, 60, 3))
    for pool, unpool, window in (
        (cu.MaxPool2d, cu.MaxUnpool2d, (2,)),
        (cu.MinPool2d, cu.MinUnpool2d, (2,)),
        (cu.AdaptiveMaxPool2d, cu.AdaptiveMaxUnpool2d, ()),
    ):
        down = pool(*(window or (20,)), return_indices=True, channel_axis=-1)
        up = unpool(*window, channel_axis=np.int64(-1))
        assert (down.channel_axis, up.channel_axis, pool(2).channel_axis) == (-1, -1, None)
        y, indices = down(image)
        z = up(y, indices, image.shape)
        assert z.shape == image.shape
        assert np.array_equal(z[z != 0], image[z != 0])
        with pytest.raises(TypeError, match=r"channel_axis must be an integer, got 1.5"):
            unpool(*window, channel_axis=1.5)


def test_what_is_refused():
    image = np.zeros((8, 8, 3))
    y, indices = cu.max_pool2d(image, 2, return_indices=True, channel_axis=-1)
    for axis in (3, -4):
        with pytest.raises(ValueError, match=f"channel_axis must be from -3 to 2 for input of 3 axes, got {axis}"):
            cu.max_pool2d(image, 2, channel_axis=axis)
        with pytest.raises(ValueError, match="channel_axis must be from -3 to 2 for indices of 3 axes"):
            cu.convert_indices(indices, "plane", "tf", input_size=image.shape, kernel_size=2, channel_axis=axis)
    with pytest.raises(TypeError, match="channel_axis must be an integer, got True"):
        cu.max_pool2d(image, 2, channel_axis=True)
    with pytest.raises(
        ValueError, match=r"input must have 3 or 4 axes with channel_axis.* without channels pass input"
    ):
        cu.max_pool2d(image[..., 0], 2, channel_axis=-1)
    for size in ((8, 8, 3, 1), (8,), (1, 3, 8, 8)):
        with pytest.raises(ValueError, match="output_size must have 2 entries, the spatial ones, or 3, got"):
            cu.max_unpool2d(y, indices, 2, output_size=size, channel_axis=-1)
    with pytest.raises(TypeError, match="output_size must be"):
        cu.max_unpool2d(y, indices, 2, output_size=8, channel_axis=-1)
    with pytest.raises(ValueError, match=r"got \(3, 2, 4\) \(shapes and positions as channel_axis=2 is moved to 0\)"):
        cu.max_unpool2d(y, indices[:2], 2, channel_axis=-1)
    with pytest.raises(ValueError, match=r"indices must have the shape of input, .* got \(4, 4\)"):
        cu.max_unpool2d(y, indices[..., 0], 2, channel_axis=-1)
    with pytest.raises(IndexError, match=r"index 64 at position \(0, 0, 0\) .* as channel_axis=2 is moved to 0"):
        cu.max_unpool2d(y, indices + 64, 2, channel_axis=-1)
    with pytest.raises(TypeError, match="needs the indices that pooling gives, got 2 instead"):
        cu.max_unpool2d(y, 2, channel_axis=-1)
    with pytest.raises(TypeError, match="needs the kernel_size of the pooling"):
        cu.max_unpool2d(y, indices, channel_axis=-1)
    with pytest.raises(TypeError, match="out must be a numpy array, got list"):
        cu.max_pool2d(image, 2, out=[], channel_axis=-1)


def test_sizes_of_conversions_that_mean_two_things():
    indices = np.zeros((5, 4, 1), np.int64)
    options = {"kernel_size": 1, "channel_axis": -1}
    with pytest.raises(ValueError, match="input_size must be the spatial sizes alone if indices of 3 axes may have N"):
        cu.convert_indices(indices, "plane", "onnx", input_size=(5, 4, 1), **options)
    with pytest.raises(IndexError, match="element"):
        cu.convert_indices(indices, "plane", "onnx", input_size=(5, 4), **options)
    with pytest.raises(ValueError, match="do not belong to input_size"):
        cu.convert_indices(indices, "plane", "onnx", input_size=(50, 4, 1), **options)
    with pytest.raises(ValueError, match="kernel_size"):
        cu.convert_indices(indices, "plane", "onnx", input_size=(5, 4, 1), kernel_size=0, channel_axis=-1)


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_dask(rng, n, batch):
    da = pytest.importorskip("dask.array")
    lazy = pytest.importorskip("cunpool.dask")
    x, _ = arrays(rng, n, -1, batch)
    given = da.from_array(x, chunks=(*(1,) * batch, *(4,) * n, 2))
    where = {"channel_axis": -1}

    def check(name, *arguments, **keywords):
        plain, asked = (getattr(module, name.format(n)) for module in (cu, lazy))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = asked(*arguments, **keywords, **where)
        computed = [value.compute() if isinstance(value, da.Array) else value for value in arguments]
        expected = plain(*computed, **keywords, **where)
        for array, other in zip(*((r if isinstance(r, tuple) else (r,)) for r in (result, expected)), strict=True):
            assert isinstance(array, da.Array)
            assert bits(array.compute()) == bits(other)
        return result

    values, indices = check("max_pool{}d", given, 2, return_indices=True)
    check("max_unpool{}d", values, indices, 2, output_size=x.shape)
    check("max_pool{}d_backward", values, indices, x.shape, 2)
    check("max_unpool{}d_backward", given, indices, 2)
