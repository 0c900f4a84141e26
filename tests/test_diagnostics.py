from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
import reference
from cases import OTHER, POOL, UNPOOL, geometry, lead

import cunpool as cu
from cunpool import _diagnostics, _geometry


def sizes_of(n, shape, kernel, stride, padding, dilation=1, output_size=None):
    return _geometry.unpooling(n, shape, kernel, stride, padding, dilation, output_size)[2]


def all_within(indices, n, full, kernel, stride, padding, dilation) -> bool:
    """Whether each index is among its window's cells, counted."""
    windows = list(reference.windows(indices.shape[-n:], n, kernel, stride, padding, dilation, full))
    planes = indices.reshape(-1, len(windows)).tolist()
    return all(index in cells for plane in planes for index, cells in zip(plane, windows, strict=True))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_another_size_is_one_that_the_indices_speak_of(rng, n):
    found = 0
    for _ in range(150):
        (kernel, stride, padding, dilation, ceil_mode), full = geometry(rng, n, most={1: 40, 2: 20, 3: 9}[n])
        stride = kernel if stride is None else stride
        _, indices = POOL[n](
            rng.random(lead(rng) + full), kernel, stride, padding, dilation, ceil_mode, return_indices=True
        )
        try:
            sizes = sizes_of(n, indices.shape, kernel, stride, padding, dilation)
        except ValueError:
            continue  # an output without cells
        others = [
            size for ranges in _diagnostics._other_sizes(indices, n, sizes) for size in itertools.product(*ranges)
        ]
        if others:
            found += 1
            assert sizes[3 - n : 3] not in others
            strides = reference.each(stride, n)
            near = itertools.product(*(range(d - s + 1, d + s) for d, s in zip(sizes[3 - n : 3], strides, strict=True)))
            # All sizes in which the indices are right are named; in 3d, where these are many, those named are right.
            misplaced = not all_within(indices, n, sizes[3 - n : 3], kernel, stride, padding, dilation)
            for other in near if n < 3 and misplaced else others:
                right = min(other) > 0 and all_within(indices, n, other, kernel, stride, padding, dilation)
                assert (other in others) == (right and int(indices.max()) < np.prod(other)), other
                if right:
                    sizes_of(n, indices.shape, kernel, stride, padding, dilation, other)  # legal
        elif all_within(indices, n, full, kernel, stride, padding, dilation):
            default = sizes[3 - n : 3]
            strides = reference.each(stride, n)
            # The true size is legal too, unless dilation put the last windows past the end of what was pooled.
            legal = all(abs(f - d) < s for f, d, s in zip(full, default, strides, strict=True))
            assert not legal or all_within(indices, n, default, kernel, stride, padding, dilation)
    assert found > {1: 0, 2: 20, 3: 20}[n]


def test_an_odd_photograph_in_ceil_mode_is_said(rng):
    x = rng.random((3, 341, 511), np.float32)
    y, indices = cu.max_pool2d(x, 2, ceil_mode=True, return_indices=True)
    unpool = cu.MaxUnpool2d(2)
    for call in (lambda: cu.max_unpool2d(y, indices, 2), lambda: unpool(y, indices.astype(np.int32))):
        with pytest.warns(
            UserWarning, match="default size, 342 x 512, but inside them in one of height 341 to 343, width 511: pass"
        ) as said:
            call()
        assert [warning.filename for warning in said] == [__file__]
    assert np.array_equal(cu.max_unpool2d(y, indices, 2, output_size=x.shape) != 0, reference_mask(x, indices))
    cu.max_unpool2d(y, indices, 2, output_size=(342, 512))  # who asks for it gets it


@pytest.mark.skipif(not cu.openmp_enabled(), reason="a serial build")
def test_another_size_is_said_of_overlapping_windows_too(rng):
    """Where threads share a plane, each reads only the indices of its own rows, and notices those of others."""
    x = rng.random((1, 1, 100, 100), np.float32)
    x[..., 98:, :] = -1  # else the last windows' indices would lie outside a smaller plane
    y, indices = cu.max_pool2d(x, 3, 2, 1, return_indices=True)
    with pytest.warns(UserWarning, match="outside their windows in an output of the default size, 99 x 99, but inside"):
        cu.max_unpool2d(y, indices, 3, 2, 1, num_threads=2)


def reference_mask(x, indices):
    mask = np.zeros((x.shape[0], x[0].size), bool)
    np.put_along_axis(mask, indices.reshape(len(mask), -1), True, 1)
    return mask.reshape(x.shape)


def test_indices_that_may_be_anywhere_are_not_commented_on(rng):
    values = rng.random((1, 4, 64, 64), np.float32)
    window = np.arange(64)[:, None] * 256 + np.arange(64) * 2
    scattered = rng.integers(0, 128 * 128, values.shape)
    within = np.broadcast_to(window, values.shape)
    one = within.copy()
    one[0, 2, 5, 7] += 5
    for indices in (scattered, within, one):
        cu.max_unpool2d(values, indices, 2, num_threads=2)


def test_an_index_outside_the_output_that_another_size_would_have(rng):
    x = rng.random((2, 3, 15, 13))
    y, indices = cu.max_pool2d(x, 2, return_indices=True)
    with pytest.raises(IndexError, match="would be right in an output of height 14 or 15, width 13: pass output_size"):
        cu.max_unpool2d(y, indices, 2)
    with pytest.raises(IndexError, match=r"index 9 .* would be right in an output of length 10: pass output_size"):
        cu.max_unpool1d(*cu.max_pool1d(np.arange(10.0)[None], 3, 2, 1, return_indices=True), 3, 2, 1)
    indices[0, 0, 0, 0] = 10**6
    with pytest.raises(IndexError, match=r"has the indices 0 to 167$"):
        cu.max_unpool2d(y, indices, 2)
    with pytest.raises(IndexError, match=r"has the indices 0 to 15$"):
        cu.max_unpool2d(np.ones((1, 2, 2)), [[[-1, 0], [0, 0]]], 2)


@pytest.mark.parametrize("window", [(2, 2, 0, 1), (3, 2, 0, 1), (2, 3, 0, 1), (2, 2, 0, 3)], ids=str)
def test_gradients_are_told_the_sizes_in_which_the_indices_would_be_right(rng, window):
    window = dict(zip(("kernel_size", "stride", "padding", "dilation"), window, strict=True))
    x = rng.random((2, 3, 15, 15))
    y, indices = cu.max_pool2d(x, **window, return_indices=True)
    calls = {
        "input_size": lambda size: cu.max_pool2d_backward(y, indices, size, **window),
        "grad_output": lambda size: cu.max_unpool2d_backward(np.ones((2, 3, *size)), indices, **window),
    }
    told = 0
    for name, call in calls.items():
        for size in range(10, 15):
            try:
                call((size, size))
            except ValueError:
                continue  # of a size that does not pool to that of `y`
            except IndexError as error:
                named = re.search(rf"would be right in an output of height (.*), width 15: pass {name}", str(error))
                heights = [int(height) for height in re.split(" or | to ", named[1])]
                for height in range(heights[0], heights[-1] + 1):
                    assert call((height, 15)).size
                told += 1
    assert told


def test_no_more_sizes_are_tried_than_is_cheap():
    for stride, tried in ((256, True), (257, False)):
        places = np.array([[[0, stride], [stride * (2 * stride + 1), stride * (2 * stride + 2)]]])
        sizes = sizes_of(2, (1, 2, 2), stride, stride, 0)
        assert bool(_diagnostics.other_sizes(places, 2, sizes)) == tried
    assert _diagnostics.other_sizes(np.zeros((0, 2, 2), int), 2, sizes) == ""


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", f"{OTHER}u2"])
def test_a_dtype_that_cannot_count_to_the_last_window(dtype):
    most = int(np.iinfo(dtype).max)
    for size, wide in ((most + 2, False), (most + 3, True)):  # the last of the windows of 2 begins two cells earlier
        values, indices = np.ones((1, size - 1)), np.zeros((1, size - 1), dtype)
        call = lambda values=values, indices=indices: cu.max_unpool1d(values, indices, 2, 1)  # noqa: E731
        if not wide:
            call()
            continue
        text = f"indices of {indices.dtype} count to {most}, but the last window begins at element {most + 1} of its"
        with pytest.warns(UserWarning, match=text) as said:
            call()
        assert [warning.filename for warning in said] == [__file__]
        with pytest.warns(UserWarning, match="window codes need index_format='window'"):
            cu.max_unpool1d_backward(np.ones((1, size)), indices, 2, 1)
        with pytest.warns(UserWarning, match="window codes need index_format='window'"):
            cu.max_pool1d_backward(values, indices, (size,), 2, 1)
        cu.max_unpool1d(values, indices, 2, 1, index_format="window")
        cu.max_unpool1d(values, indices.astype(np.int32), 2, 1)
        cu.max_unpool1d(values, indices.astype(f"{OTHER}i8").tolist(), 2, 1)
        cu.max_unpool1d(values[:0], indices[:0], 2, 1)


def test_window_codes_given_as_places_are_said(rng):
    y, codes = cu.max_pool2d(rng.random((1, 64, 64)), 2, return_indices=True, index_format="window")
    with pytest.warns(UserWarning, match="the last window begins at element 4030 of its plane: window codes need"):
        cu.max_unpool2d(y, codes, 2)
    y, codes = cu.max_pool3d(rng.random((1, 9, 9, 9)), 3, 2, 1, return_indices=True, index_format="window")
    with pytest.warns(UserWarning, match="the last window begins at element 637 of its plane"):
        cu.max_unpool3d(y, codes, 3, 2, 1)


def test_int32_that_cannot_count_to_the_last_window_is_said():
    grad = np.broadcast_to(np.uint8(7), (1, 1 << 33))  # in one byte of memory
    indices = np.arange(4, dtype=np.int32)[None]
    with pytest.warns(UserWarning, match="indices of int32 count to 2147483647, but the last window"):
        result = cu.max_unpool1d_backward(grad, indices, 1 << 31)
    assert result.tolist() == [[7] * 4]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.complex128])
def test_window_codes_given_as_places_are_noticed_in_small_arrays(rng, n, dtype):
    """Of each shape up to where a byte counts, unless the last window begins where codes are places of its own."""
    pool_backward, unpool_backward = getattr(cu, f"max_pool{n}d_backward"), getattr(cu, f"max_unpool{n}d_backward")
    noticed = 0
    for size in itertools.product((2, 4, 5) if n > 2 else (2, 3, 4, 9, 15), repeat=n):
        x = rng.random((2, 3, *size)).astype(np.float32)
        for kernel, stride in ((2, 2), ((1,) * (n - 1) + (2,), 2), (2, 3)):
            window = {"kernel_size": kernel, "stride": stride}
            y, codes = POOL[n](x, **window, return_indices=True, index_format="window")
            values, cells = y.astype(dtype), 2**n if kernel == 2 else 2
            last = int(np.ravel_multi_index([(count - 1) * stride for count in codes.shape[-n:]], size))
            calls = (
                lambda v=values, c=codes, w=window, s=size: UNPOOL[n](v, c, **w, output_size=s),
                lambda v=x, c=codes, w=window: unpool_backward(v, c, **w),
                lambda v=y, c=codes, w=window, s=size: pool_backward(v, c, s, **w),
            )
            for call in calls:
                if last < cells:
                    continue  # a code may be a place of the last window
                named = " x ".join(map(str, reference.each(kernel, n)))
                text = (
                    f"of uint8 and all below {cells}, as window codes of {named} are: these need index_format='window'$"
                )
                with pytest.warns(UserWarning, match=f"^the indices lie outside their windows, and are {text}") as said:
                    call()
                assert [warning.filename for warning in said] == [__file__]
                noticed += 1
            UNPOOL[n](values, codes, **window, output_size=size, index_format="window")
            UNPOOL[n](values, codes.astype(np.int64), **window, output_size=size)  # these are meant
    assert noticed > 20


def test_places_in_few_bytes_are_not_taken_for_codes(rng):
    for size in (4, 8, 16):
        x = rng.random((2, size, size))
        y, indices = cu.max_pool2d(x, 2, return_indices=True)
        small = indices.astype(np.uint8)
        assert np.array_equal(cu.max_unpool2d(y, small, 2), cu.max_unpool2d(y, indices, 2))
        small[-1, -1, -1] = 0  # a stray
        cu.max_unpool2d(y, small, 2)
    cu.max_unpool2d(np.ones((1, 1, 1)), np.array([[[3]]], np.uint8), 2)
    cu.max_unpool2d(np.ones((1, 4, 4)), np.zeros((1, 4, 4), np.uint8), 3, 1)  # windows overlap


def test_codes_of_two_bytes_given_as_places(rng):
    y, codes = cu.max_pool1d(rng.random((1, 3000)), 300, return_indices=True, index_format="window")
    with pytest.warns(UserWarning, match="of uint16 and all below 300, as window codes of 300 are: these need"):
        cu.max_unpool1d(y, codes, 300)
    cu.max_unpool1d(np.ones((1, 2)), np.array([[1, 0]], np.uint16), 70_000, 60_000)  # no codes for such windows


def test_window_codes_in_a_plane_hardly_larger_than_a_window_are_noticed_by_strays():
    """The first cell of the last window is as small as a code: here what the kernel counts tells."""
    values = np.ones((8, 1, 2, 64), np.float32).transpose(0, 3, 1, 2)  # channels last, where they are counted
    codes = np.zeros((8, 1, 2, 64), np.uint8).transpose(0, 3, 1, 2)
    codes[..., 1] = 3  # in the second window, which has 2 3 6 7
    codes[..., 0] = 2  # not in the first one, which has 0 1 4 5
    with pytest.warns(UserWarning, match="all below 4, as window codes of 2 x 2 are"):
        cu.max_unpool2d(values, codes, 2, output_size=(2, 4))
    codes[..., 0] = 1
    cu.max_unpool2d(values, codes, 2)  # all in their windows


@pytest.mark.parametrize("n", [1, 2, 3])
def test_indices_of_other_libraries_are_named(rng, n):
    """Whatever the window, in the formats that differ from places in a plane, and then the advice helps."""
    texts = {
        "onnx": "ONNX indices, which count through the whole tensor",
        "onnx_column_major": "ONNX indices with storage_order=1, which count planes in column-major order",
        "tf": "TensorFlow indices, which count with the channels last",
        "tf_batch": "TensorFlow indices with include_batch_in_index=True, which count with the channels last",
    }
    size = (9, 7, 6)[:n]
    gradients = getattr(cu, f"max_unpool{n}d_backward"), getattr(cu, f"max_pool{n}d_backward")
    for window in ((2,), (3, 2, 1), (2, 3), (2, 1, 0, 3)):
        arguments = dict(zip(("kernel_size", "stride", "padding", "dilation"), window, strict=False))
        x = rng.random((2, 3, *size))
        y, indices = POOL[n](x, **arguments, return_indices=True)
        for name, text in texts.items():
            if n == 1 and name == "onnx_column_major":
                continue  # which is the same as ONNX's
            theirs = cu.convert_indices(indices, "plane", name, input_size=x.shape, **arguments)
            advice = re.escape(
                f"they would be right as {text}: see cunpool.convert_indices(indices, '{name}', 'plane', ...)"
            )
            for call in (
                lambda y=y, i=theirs, w=arguments: UNPOOL[n](y, i, output_size=size, **w),
                lambda x=x, i=theirs, w=arguments: gradients[0](x, i, **w),
                lambda y=y, i=theirs, w=arguments: gradients[1](y, i, size, **w),
            ):
                with pytest.raises(IndexError, match=f"; {advice}$"):
                    call()
            with pytest.raises(IndexError, match=f"; they would be right as {re.escape(text)}: pass source='{name}'$"):
                cu.convert_indices(theirs, "plane", "window", input_size=x.shape, **arguments)
            # One index that is wrong in any format, and nothing is said of formats.
            theirs[0, 1, ...] = 2**40
            with pytest.raises(IndexError) as caught:
                UNPOOL[n](y, theirs, output_size=size, **arguments)
            assert "would be right as" not in str(caught.value)


@pytest.mark.parametrize("n", [2, 3])
def test_column_major_places_of_a_single_plane_are_named(rng, n):
    """No index leaves the plane, so that this is noticed where strays are counted, and with no more said of them."""
    size = (4, 256, 300)[-n:]
    x = rng.random((1, *size), np.float32)
    y, indices = POOL[n](x, 2, return_indices=True)
    theirs = cu.convert_indices(indices, "plane", "onnx_column_major", input_size=size, kernel_size=2)
    with pytest.warns(UserWarning, match="outside their windows, but inside them as ONNX indices with storage_order=1"):
        wrong = UNPOOL[n](y, theirs, 2)
    right = UNPOOL[n](y, cu.convert_indices(theirs, "onnx_column_major", "plane", input_size=size, kernel_size=2), 2)
    assert np.array_equal(right[right != 0], x[right != 0])
    assert not np.array_equal(right, wrong)


def test_channels_last_indices_of_tensorflow_are_told_to_move_their_axes(rng):
    x = rng.random((2, 3, 12, 10))
    y, indices = cu.max_pool2d(x, 2, return_indices=True)
    for name in ("tf", "tf_batch"):
        theirs = cu.convert_indices(indices, "plane", name, input_size=x.shape, kernel_size=2)
        text = rf"; as numpy.moveaxis\(indices, -1, 1\), channels first, they would be right as TensorFlow .*'{name}', "
        with pytest.raises(IndexError, match=text):
            cu.max_unpool2d(np.moveaxis(y, 1, -1), np.moveaxis(theirs, 1, -1), 2)
    image = cu.convert_indices(indices[0], "plane", "tf", input_size=(12, 10), kernel_size=2)
    with pytest.raises(IndexError, match=r"; as numpy.moveaxis\(indices, -1, 0\), channels first"):
        cu.max_unpool2d(np.moveaxis(y[0], 0, -1), np.moveaxis(image, 0, -1), 2)
    with pytest.raises(IndexError, match=r"has the indices 0 to 0$"):  # an output without cells, were the axes moved
        cu.max_unpool1d(np.ones((2, 3)), np.full((2, 3), 9), 1, 1, 1)


def test_each_fitting_size_of_a_photograph_is_right(rng):
    x = rng.random((2, 15, 15))
    y, indices = cu.max_pool2d(x, 2, return_indices=True)
    with pytest.raises(IndexError, match="in an output of height 14 or 15, width 15: pass output_size"):
        cu.max_unpool2d(y, indices, 2)
    for height in (14, 15):
        z = cu.max_unpool2d(y, indices, 2, output_size=(height, 15))
        assert np.array_equal(z[z != 0], x[:, :height][z != 0])
    x = rng.random((2, 5, 7, 9))
    y, indices = cu.max_pool3d(x, 2, return_indices=True)
    with pytest.raises(IndexError, match="in an output of depth 4 or 5, height 7, width 9: pass output_size"):
        cu.max_unpool3d(y, indices, 2)


def test_billions_of_sizes_are_named_at_once():
    x, stride, dilation = np.zeros((1, 1, 1)), (10**9, 1), (10**9, 1)
    y, indices = cu.max_pool2d(x, (2, 1), stride, (1, 0), dilation, True, return_indices=True)
    named = "in an output of height 1000000000 to 1999999998, width 1: pass "
    with pytest.raises(IndexError, match=named + "input_size"):
        cu.max_pool2d_backward(y, indices, x.shape, (2, 1), stride, (1, 0), dilation)
    with pytest.raises(IndexError, match=named + "output_size"):
        cu.max_unpool2d(y, indices, (2, 1), stride, (1, 0), (1, 1), dilation=dilation)


def test_sizes_that_depend_on_each_other_are_named_one_by_one(monkeypatch):
    sizes, indices = sizes_of(2, (1, 2, 2), 2, 2, 0), np.zeros((1, 2, 2), int)
    for fitting, named in (
        ([(range(4, 6), range(5, 6)), (range(3, 4), range(7, 8))], "height 4 or 5, width 5 or height 3, width 7"),
        ([(range(4, 6), range(5, 6)), (range(4, 6), range(7, 8))], "height 4 or 5, width 5 or 7"),
        ([(range(size, size + 1),) * 2 for size in (3, 4, 5, 6)],
         "height 3, width 3, height 4, width 4 or height 5, width 5"),
        ([], ""),
    ):  # fmt: skip
        monkeypatch.setattr(_diagnostics, "_other_sizes", lambda *arguments, fitting=fitting: fitting)
        assert _diagnostics.other_sizes(indices, 2, sizes) == named
