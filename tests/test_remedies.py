"""What messages advise: each remedy is followed here, and helps."""

from __future__ import annotations

import importlib.util
import pickle
import re
import warnings

import numpy as np
import pytest
from cases import POOL, UNPOOL

import cunpool as cu
from cunpool import _padding, _remedies

HUGE = 10**5000  # more digits than Python writes
X = np.arange(2 * 15 * 15.0).reshape(2, 15, 15)
Y, INDICES = cu.max_pool2d(X, 2, return_indices=True)
WINDOW = {"kernel_size": 2, "stride": 2, "padding": 0, "dilation": 1}
CALLS = {
    "max_pool2d": (lambda **k: cu.max_pool2d(X, **k), {}),
    "max_unpool2d": (lambda **k: cu.max_unpool2d(Y, INDICES, **k), {"output_size": X.shape}),
    "max_unpool2d_backward": (lambda **k: cu.max_unpool2d_backward(X, INDICES, **k), {}),
    "max_pool2d_backward": (lambda **k: cu.max_pool2d_backward(Y, INDICES, **k), {"input_size": X.shape}),
    "MaxPool2d": (lambda **k: cu.MaxPool2d(**k)(X), {}),
    "MaxUnpool2d": (
        lambda output_size, **k: cu.MaxUnpool2d(**k)(Y, INDICES, output_size=output_size),
        {"output_size": X.shape},
    ),
    "convert_indices": (lambda **k: cu.convert_indices(INDICES, "plane", "onnx", **k), {"input_size": X.shape}),
}


def refused(error, call, *arguments, **keywords) -> str:
    """The message of the `error` that this call raises, and of no other before it."""
    with pytest.raises(error) as caught:
        call(*arguments, **keywords)
    assert type(caught.value) is error
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return str(caught.value)


# --- sizes


@pytest.mark.parametrize("name", CALLS)
def test_integers_of_too_many_digits_are_refused_in_our_words(name):
    call, sizes = CALLS[name]
    call(**WINDOW, **sizes)
    for size in WINDOW | sizes:
        for value in (HUGE, -HUGE, (HUGE, 2), (2, -HUGE), (HUGE, HUGE), [HUGE, 2]):
            with pytest.raises((TypeError, ValueError, OverflowError)) as caught:
                call(**WINDOW | sizes | {size: value})
            said = str(caught.value)
            assert "digits" not in said, (size, said)
            assert re.search(r"an integer of \d+ bits|got an object of type list", said), (size, said)


def test_numbers_of_threads_and_bytes_of_too_many_digits_are_refused_in_our_words():
    for call, error in (
        (lambda: cu.set_num_threads(-HUGE), ValueError),
        (lambda: cu.max_pool2d(X, 2, num_threads=-HUGE), ValueError),
        (lambda: cu.set_cache_limit(HUGE), OverflowError),
        (lambda: cu.set_cache_limit(-HUGE), ValueError),
    ):
        assert refused(error, call).endswith("got an integer of 16610 bits")
    assert repr(cu.MaxPool2d(HUGE, padding=(1, HUGE))) == (
        "MaxPool2d(kernel_size=an integer of 16610 bits, stride=an integer of 16610 bits, "
        "padding=(1, an integer of 16610 bits), dilation=1, ceil_mode=False)"
    )


def test_other_arguments_of_too_many_digits_are_refused_in_our_words():
    for call, name, rule in (
        (cu.max_pool2d, "index_dtype", "index_dtype must be int64 or int32, got an integer of 16610 bits"),
        (cu.max_pool2d, "index_format", "index_format must be one of .*, got an integer of 16610 bits"),
        (cu.max_pool2d, "ceil_mode", "ceil_mode must be True or False, got an integer of 16610 bits"),
        (cu.max_pool2d, "return_indices", "return_indices must be True or False, got an integer of 16610 bits"),
    ):
        keywords = {"return_indices": True, name: HUGE}
        with pytest.raises((TypeError, ValueError), match=rule):
            call(X, 2, **keywords)


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("kernel_size", None, "; pass an integer: 1 leaves an axis as it is"),
        ("dilation", None, "; leave it out"),
        ("kernel_size", "2", "; convert text with int()"),
        ("kernel_size", "two", ""),
        ("kernel_size", [[2, 3]], "; one pair of brackets is enough: pass (2, 3)"),
        ("stride", ((2, 3),), "; one pair of brackets is enough: pass (2, 3)"),
        ("kernel_size", [[]], ""),
    ],
)
def test_what_is_no_integer_gets_its_remedy(name, value, remedy):
    said = refused(TypeError, cu.max_pool2d, X, **{"kernel_size": 2, name: value})
    assert said == f"{name} must be an integer or a sequence of integers, got {value!r}{remedy}"


@pytest.mark.parametrize("value", [{2, 3}, frozenset((2,)), {2: 2}, {2: 2}.keys(), b"\2\2", bytearray(b"\2\2"),
                                   memoryview(b"\2\2")])  # fmt: skip
def test_what_has_no_order_or_is_bytes_is_no_size(value):
    for name in ("kernel_size", "stride", "dilation"):
        said = refused(TypeError, cu.max_pool2d, X, **{"kernel_size": 4, name: value})
        assert said.startswith(f"{name} must be an integer or a sequence of integers, got ")
    assert refused(TypeError, cu.max_pool2d, X, 4, padding=value).startswith(f"{_padding.RULE}, got ")
    said = refused(TypeError, cu.max_unpool2d, Y, INDICES, 2, output_size=value)
    assert said.startswith("output_size must be a sequence of integers, got ")
    assert ("its entries have no order: pass a tuple" in said) == isinstance(value, (set, frozenset, dict))


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("padding", "SAME_UPPER", "got 'SAME_UPPER'; pass 'same'$"),
        ("padding", "SAME_LOWER", "got 'SAME_LOWER'; pass 'same_lower'$"),
        ("padding", "VALID", "'VALID' is padding=0"),
        ("padding", "1", "convert text with int"),
        ("padding", "zeros", "'same' or 'same_lower', got 'zeros'$"),
        ("padding", (0, (1, 2)), r"pass a pair for each axis: padding=\(\(0, 0\), \(1, 2\)\)"),
        ("padding", [(1, 2), [3]], r"a pair has two entries, before and after$"),
        ("padding", ((1, 2.5), (0, 0)), "got .*; divide with //, or convert with int"),
        ("padding", ((1, 2),), r"pass \(\(1, 2\), \(1, 2\)\) for all axes"),
        ("padding", ((1, 2),) * 3, "for 3 axes there are the functions with 3d in their names"),
        ("padding", ((0, 0), (1, 2), (2, 1), (0, 0)), r"not pooled over: pass padding=\(\(1, 2\), \(2, 1\)\)"),
        ("padding", ((0, 0), (0, 0), (1, 2), (2, 1)), r"not pooled over: pass padding=\(\(1, 2\), \(2, 1\)\)"),
        ("padding", ((0, -1), (0, 0)), "to crop, pass a slice of the array"),
        ("padding", ((4, 0), (0, 0)), r"\(kernel_size - 1\) \+ 1, \(4, 4\), got .*; numpy.pad with the"),
        ("padding", (1, 0, 1, 0), r"both ends of an axis share one entry: pass padding=\(1, 0\)"),
        ("padding", (1, 1, 0, 0), r"both ends of an axis share one entry: pass padding=\(0, 1\)"),
        ("padding", (1, 0, 0, 2), r"ONNX's pads are \(\(1, 0\), \(0, 2\)\), and PyTorch's \(\(0, 2\), \(1, 0\)\)"),
        ("padding", (1,), "pass 1 for all axes"),
        ("padding", -1, "to crop, pass a slice of the array"),
        ("padding", 3, r"pairs may have more: pass padding=\(\(3, 3\), \(3, 3\)\)"),
        ("padding", (0, 4), "numpy.pad with the lowest value of the dtype makes other borders"),
        ("kernel_size", (1, 2, 2, 1), r"N and C are not pooled over: pass kernel_size=\(2, 2\)"),
        ("stride", (1, 1, 2, 3), r"N and C are not pooled over: pass stride=\(2, 3\)"),
        ("padding", (0, 0, 0, 2, 1, 0, 0, 0), r"got \(0, 0, 0, 2, 1, 0, 0, 0\)$"),
        ("kernel_size", (2, 2, 2), "for 3 axes there are the functions with 3d in their names"),
        ("kernel_size", (2,) * 5, r"got \(2, 2, 2, 2, 2\)$"),
        ("kernel_size", (3, 2, 2, 1), r"got \(3, 2, 2, 1\)$"),
        ("kernel_size", 2.5, "divide with //, or convert with int"),
        ("stride", (2.0, 2), "divide with //, or convert with int"),
        ("kernel_size", True, "pass True and False by name, such as ceil_mode=True"),
        ("kernel_size", 0, "1 leaves an axis as it is"),
        ("stride", 0, "without stride it is kernel_size"),
        ("dilation", 0, "1 is a window without gaps"),
        ("kernel_size", 16, r"a window spans \(16, 16\) elements: take a smaller kernel_size or dilation, or padding"),
        ("dilation", 9, r"a window spans \(28, 28\) elements: take a smaller kernel_size or dilation, or padding"),
    ],
    ids=str,
)  # fmt: skip
def test_sizes_have_remedies(name, value, remedy):
    keywords = {"kernel_size": 4, name: value}
    with pytest.raises((TypeError, ValueError)) as caught:
        cu.max_pool2d(X, **keywords)
    assert re.search(remedy, str(caught.value)), str(caught.value)


def test_axes_have_remedies():
    said = refused(ValueError, cu.max_pool2d, np.ones((2, 3, 4, 5, 6)), 2)
    assert said.endswith("join the leading axes: input.reshape(-1, *input.shape[-3:])")
    x = np.ones((2, 3, 4, 5, 6))
    assert cu.max_pool2d(x.reshape(-1, *x.shape[-3:]), 2).shape == (6, 4, 2, 3)
    assert refused(ValueError, cu.max_pool2d, np.ones(4), 2).endswith("got (4,)")
    assert refused(ValueError, cu.max_pool2d, np.ones((3, 0, 4)), 2).endswith("; an axis of the input is empty")


def test_what_same_means_for_larger_strides():
    """Half of what the last window lacks, in ceil mode, is TensorFlow's and ONNX's SAME_UPPER."""
    for size in range(1, 14):
        for kernel in range(1, 7):
            for stride in range(2, 6):
                count = -(-size // stride)
                total = max((count - 1) * stride + kernel - size, 0)
                x = np.random.default_rng(size).random((1, size))
                padded = np.pad(x[0], (total // 2, total - total // 2), constant_values=-np.inf)
                expected = [padded[i * stride : i * stride + kernel].max() for i in range(count)]
                ours = cu.max_pool1d(x, kernel, stride, total // 2, ceil_mode=True)[0]
                assert np.array_equal(ours, expected), (size, kernel, stride)


def test_an_output_size_is_told_which_there_are():
    said = refused(ValueError, cu.max_unpool2d, Y, INDICES, 2, output_size=(9, 9))
    legal = "pass the shape of what was pooled: height 13 to 15, width 13 to 15, or the dilation of that pooling"
    assert legal in said
    assert said.endswith(legal)
    y, indices = cu.max_pool1d(np.arange(12.0)[None], 3, 3, dilation=2, return_indices=True)
    said = refused(ValueError, cu.max_unpool1d, y, indices, 3, 3, output_size=(12,))
    assert "length 7 to 11, or the dilation of that pooling" in said
    assert cu.max_unpool1d(y, indices, 3, 3, output_size=(12,), dilation=2).shape == (1, 12)
    said = refused(ValueError, cu.max_unpool1d, y, indices, 3, 3, output_size=(20,), dilation=2)
    assert said.endswith("pass the shape of what was pooled: length 9 to 13")
    said = refused(ValueError, cu.max_unpool1d, y[:, :1], indices[:, :1], 1, 1, 2, output_size=(1,))
    assert said.endswith("; kernel_size, stride, padding and dilation have to be those of the pooling")
    said = refused(ValueError, cu.max_unpool1d, y, indices, 1, 1, 2)
    assert said.endswith("padding have to be those of the pooling, and output_size the shape of what was pooled")
    said = refused(ValueError, cu.max_pool2d_backward, Y, INDICES, (9, 9), 2)
    assert said.endswith("got (2, 7, 7); input_size is the shape of what was pooled")


def test_window_codes_of_large_windows_are_told_of_the_plane():
    x = np.zeros((1, 301, 301))
    said = refused(ValueError, cu.max_pool2d, x, 300, return_indices=True, index_format="window")
    assert said.endswith("index_format='plane' is for any window")


# --- index_format and index_dtype without indices


@pytest.mark.parametrize("n", [1, 2, 3])
def test_formats_of_indices_that_are_not_asked_for(n):
    x = np.random.default_rng(0).random((1, *((65_540,), (301, 301), (42, 42, 42))[n - 1]))
    kernel = (65_537, 300, 41)[n - 1]
    expected = POOL[n](x, kernel, 1)
    for dtype in (None, np.int32, np.int64):
        for form in ("window", "plane"):
            assert np.array_equal(POOL[n](x, kernel, 1, index_format=form, index_dtype=dtype), expected)
            module = getattr(cu, f"MaxPool{n}d")(kernel, 1, index_format=form, index_dtype=dtype)
            assert np.array_equal(module(x, out=np.empty_like(expected)), expected)
        with pytest.raises(ValueError, match="index_format must be one of"):
            POOL[n](x, kernel, 1, index_format="codes", index_dtype=dtype)
    for form in ("window", "plane"):
        for dtype in (float, "u1", object()):
            with pytest.raises(TypeError, match="index_dtype must be int64 or int32"):
                POOL[n](x, kernel, 1, index_format=form, index_dtype=dtype)
    assert np.array_equal(POOL[n](x, kernel, 1, return_indices=0, index_format="window"), expected)
    with pytest.raises(ValueError, match="window codes are for windows of at most 65536 elements"):
        POOL[n](x, kernel, 1, return_indices=1, index_format="window")
    with pytest.raises(TypeError, match="index_dtype is for plane indices"):
        POOL[n](x, 2, return_indices=True, index_format="window", index_dtype=np.int32)


# --- shapes


@pytest.mark.parametrize(
    ("shape", "other", "size"),
    [
        ((1, 1, 49, 49), (1, 1, 50, 50), (100, 100)),
        ((1, 1, 12, 12), (1, 1, 24, 24), (48, 48)),
        ((1, 22, 7, 7), (1, 23, 7, 7), (46, 14, 14)),
        ((1, 12, 12), (1, 1, 12, 12), (99, 99)),
    ],
)
def test_shapes_are_compared_before_the_output_size(shape, other, size):
    values, indices = np.zeros(shape), np.zeros(other, int)
    n = len(size)
    said = refused(ValueError, UNPOOL[n], values, indices, 2, output_size=size)
    assert said.startswith(f"indices must have the shape of input, {shape}, got {other}")
    said = refused(ValueError, UNPOOL[n], values, indices, 2, output_size=size, index_format="window")
    assert said.startswith(f"indices must have the shape of input, {shape}, got {other}")
    pool_backward = getattr(cu, f"max_pool{n}d_backward")
    said = refused(ValueError, pool_backward, values, indices, size, 2)
    assert said == f"indices must have the shape of grad_output, {shape}, got {other}"
    # Sizes of the wrong kind are told as such, and so are sizes alone.
    assert "kernel_size must be an integer" in refused(TypeError, UNPOOL[n], values, indices, 2.5)
    assert "must lie within one stride" in refused(
        ValueError, UNPOOL[n], values, values.astype(int), 2, None, 0, (1,) * n
    )


def test_the_hint_at_an_earlier_unpooling_is_given_where_it_helps():
    hint = "; if input comes from another unpooling, that one needs output_size=indices.shape, of these indices"
    for size in (15, 14, 13):
        x = np.random.default_rng(size).random((1, 2, size, size + 1))
        for window in ((2,), (3, 2, 1), (3, 3)):
            y, indices = cu.max_pool2d(x, *window, return_indices=True)
            z, deeper = cu.max_pool2d(y, *window, return_indices=True)
            back = cu.max_unpool2d(z, deeper, *window) if y.shape[-2:] == (7, 8) and len(window) < 3 else None
            if back is not None and back.shape != indices.shape:
                assert refused(ValueError, cu.max_unpool2d, back, indices, *window).endswith(hint)
                back = cu.max_unpool2d(z, deeper, *window, output_size=indices.shape)
                assert cu.max_unpool2d(back, indices, *window, output_size=x.shape).shape == x.shape
    for shape in ((1, 2, 12, 24), (1, 2, 24, 12), (2, 2, 13, 13), (1, 3, 13, 13), (2, 13, 13), (1, 2, 14, 14)):
        said = refused(ValueError, cu.max_unpool2d, np.zeros((1, 2, 12, 12)), np.zeros(shape, int), 2)
        assert said.endswith(f"got {shape}")
    for window in ((2,), (3, 2), (2, (2, 3)), ((5, 4), 2)):
        said = refused(ValueError, cu.max_unpool2d, np.zeros((1, 2, 12, 12)), np.zeros((1, 2, 13, 11), int), *window)
        assert said.endswith(hint)
    for window in ((1,), (2, 1), ((2, 1),), (2, 0), ((2, 2, 2),)):
        said = refused(ValueError, cu.max_unpool2d, np.zeros((1, 2, 12, 12)), np.zeros((1, 2, 13, 11), int), *window)
        assert said.endswith("got (1, 2, 13, 11)"), window


def test_values_and_indices_that_are_swapped():
    for call, arguments, name in (
        (cu.max_unpool2d, (2,), "input"),
        (cu.max_pool2d_backward, ((15, 15), 2), "grad_output"),
    ):
        for keywords in ({}, {"index_format": "window"}):
            if name == "input":
                said = refused(TypeError, call, INDICES, Y, *arguments, **keywords)
                assert said == "indices must be of integers, got float64, and input of int64: the two look swapped"
            said = refused(TypeError, call, Y, Y, *arguments, **keywords)
            assert said == "indices must be of integers, got float64"


def test_swapped_values_and_indices_of_gradients_of_taking_and_of_results():
    swapped = "indices must be of integers, got float64, and input of int64: the two look swapped"
    for keywords in ({}, {"kernel_size": 2, "index_format": "window"}):
        assert refused(TypeError, cu.take_at2d, INDICES, Y, **keywords) == swapped
        assert refused(TypeError, cu.take_at2d, Y, Y, **keywords) == "indices must be of integers, got float64"
    numbers = "grad_output must be of float16, bfloat16, float32 or float64, got int64"
    for values in (Y, Y.astype(np.float16), Y.tolist()):
        said = refused(TypeError, cu.max_pool2d_backward, INDICES, values, (15, 15), 2)
        assert said == f"{numbers}, and indices of {np.asarray(values).dtype}: the two look swapped"
    assert refused(TypeError, cu.max_pool2d_backward, INDICES, INDICES, (15, 15), 2) == numbers
    assert refused(TypeError, cu.max_pool2d_backward, Y > 0, Y, (15, 15), 2).endswith("float64, got bool")
    out = "out must be the array for the values and that for the indices, got int64 and float64: the two look swapped"
    for form in ("plane", "window"):
        keywords = {"return_indices": True, "index_format": form}
        assert refused(TypeError, cu.max_pool2d, X, 2, **keywords, out=(INDICES, Y)) == out
    assert refused(TypeError, cu.max_pool2d, X, 2, return_indices=True, out=(Y, Y)) == (
        "the dtype of out[1] must be int64 or int32, got float64"
    )
    for pair in ((None, INDICES.copy()), (Y.copy(), None)):
        assert np.array_equal(cu.max_pool2d(X, 2, return_indices=True, out=pair).values, Y)


# --- missing arguments


@pytest.mark.parametrize("n", [1, 2, 3])
def test_what_is_missing_is_named(n):
    x = np.arange(2 * 4.0**n).reshape(2, *(4,) * n)
    y, indices = pair = POOL[n](x, 2, return_indices=True)
    unpool, name = UNPOOL[n], f"max_unpool{n}d"
    gradient, pool_gradient = getattr(cu, f"{name}_backward"), getattr(cu, f"max_pool{n}d_backward")
    assert (unpool(*pair, 2) == unpool(y, indices, kernel_size=2)).all()
    usage = f"{name}(input, indices, kernel_size)"
    for size in (2, (2,) * n, None):
        said = refused(TypeError, unpool, y, size)
        assert said == f"{usage} needs the indices that pooling gives, got {size} instead"
    star = f"{usage} takes pooling's pair as two arguments: put a * before it, as in {name}(*pair, 2)"
    assert refused(TypeError, unpool, tuple(pair), 2) == star
    assert refused(TypeError, unpool, pair, 2) == (
        "input must be an array, got pooling's pair of values and indices: put a * before it, or pass its values"
    )
    assert "put a * before it" in refused(TypeError, unpool, pair, 2, 2)
    only = "must be an array, got pooling's pair of values and indices: pass its"
    assert refused(TypeError, POOL[n], pair, 2) == f"input {only} values"
    assert refused(TypeError, getattr(cu, f"MaxPool{n}d")(2), pair) == f"input {only} values"
    assert refused(TypeError, unpool, y, pair, 2) == f"indices {only} indices"
    for size in (2, (2,) * n):
        said = refused(TypeError, unpool, y, size, 2)
        assert said == f"{usage} needs the indices that pooling gives, got {size} instead"
    assert "indices must have the shape of input" in refused(ValueError, unpool, y, np.array(2), 2)
    assert "indices must have the shape of input" in refused(ValueError, unpool, y, (), 2)
    assert refused(TypeError, unpool, y, indices) == f"{usage} needs the kernel_size of the pooling, got nothing"
    assert refused(TypeError, unpool, y, indices.tolist()).endswith("needs the kernel_size of the pooling, got nothing")
    assert "missing" in refused(TypeError, unpool, y)
    usage = f"{name}_backward(grad_output, indices, kernel_size)"
    assert refused(TypeError, gradient, x, 2) == f"{usage} needs the indices that pooling gives, got 2 instead"
    said = refused(TypeError, gradient, x, 2, 2)
    assert said == f"{usage} needs the indices that pooling gives, got 2 instead"
    usage = f"max_pool{n}d_backward(grad_output, indices, input_size, kernel_size)"
    assert refused(TypeError, pool_gradient, (y, y), x.shape, 2) == (
        f"{usage} takes pooling's pair as two arguments: put a * before it, as in "
        f"max_pool{n}d_backward(*pair, input_size, 2)"
    )
    said = refused(TypeError, pool_gradient, y, x.shape, 2, 2)
    assert said == f"{usage} needs the indices that pooling gives, got {x.shape} instead"
    assert refused(TypeError, pool_gradient, y, indices, 2) == (
        f"{usage} needs input_size, the shape of what was pooled, got 2 instead"
    )
    assert refused(TypeError, pool_gradient, y, indices, x.shape).endswith(
        "needs the kernel_size of the pooling, got nothing"
    )
    assert refused(TypeError, pool_gradient, y, x.shape, 2).startswith(f"{usage} needs the indices that pooling gives")
    module = getattr(cu, f"MaxUnpool{n}d")(2)
    assert "put a * before it" in refused(TypeError, module, pair)
    assert refused(TypeError, module, y).endswith("needs the indices that pooling gives, got nothing instead")


def test_signatures_are_shown_as_they_are_written():
    import inspect

    for name in ("max_unpool2d", "max_unpool2d_backward", "max_pool2d_backward"):
        parameter = inspect.signature(getattr(cu, name)).parameters["kernel_size"]
        assert parameter.default is inspect.Parameter.empty
    assert inspect.signature(cu.MaxUnpool2d(2)).parameters["indices"].default is inspect.Parameter.empty


# --- channels last


def layout_told(n, shape, kernel, **keywords) -> bool:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        POOL[n](np.zeros(shape, np.uint8), kernel, 1, **keywords)
    assert all(issubclass(one.category, cu.LayoutWarning) and one.filename == __file__ for one in said)
    return bool(said)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_channels_last_are_noticed_by_the_rule(n):
    """Where the last axis is 1 to 4, the window wider than 1 there, and the axis for the channels larger than 4."""
    middle = (9,) * (n - 1)
    for lead in ((), (1,), (7,)):
        for first in (1, 4, 5, 60):
            for last in (1, 2, 3, 4, 5):
                for width in (1, 2, 3):
                    shape, kernel = (*lead, first, *middle, last), (2,) * (n - 1) + (width,)
                    padding = (0,) * (n - 1) + (width // 2,)
                    expected = last <= 4 and width > 1 and first > 4
                    assert layout_told(n, shape, kernel, padding=padding) == expected, (shape, kernel)
                    assert layout_told(n, shape, kernel, padding=padding, return_indices=True) == expected
    assert not layout_told(n, (0, 9, *middle, 5), 2)


def test_channels_last_are_told_each_time_and_how_to_move_them():
    image, batch = np.zeros((34, 51, 3), np.uint8), np.zeros((2, 34, 51, 3), np.uint8)
    for _ in range(2):
        with pytest.warns(
            cu.LayoutWarning, match=r"\(C, \*spatial\): .* pass channel_axis=-1, or numpy.moveaxis\(input, -1, 0\)$"
        ):
            cu.max_pool2d(image, 2)
        with pytest.warns(
            cu.LayoutWarning, match=r"size 3, looks like channels, but input is \(N, C, .*\(input, -1, 1\)$"
        ):
            cu.MaxPool2d(2)(batch)
    for x in (np.moveaxis(image, -1, 0), np.moveaxis(batch, -1, 1)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert cu.max_pool2d(x, 2).shape[-2:] == (17, 25)
    said = refused(ValueError, cu.max_pool2d, image, 5)
    assert said.startswith("the windows do not fit: pooling (51, 3) would give (10, 0)")
    assert said.endswith("if it has its channels last, pass channel_axis=-1, or numpy.moveaxis(input, -1, 0)")
    assert refused(ValueError, cu.max_pool2d, batch, 5).endswith(
        "pass channel_axis=-1, or numpy.moveaxis(input, -1, 1)"
    )
    assert "moveaxis" not in refused(ValueError, cu.max_pool2d, image[:4], 5)


def test_images_and_labelled_arrays_are_told_how_to_become_arrays():
    image = np.random.default_rng(0).integers(0, 255, (34, 51, 3), np.uint8)
    expected = cu.max_pool2d(np.moveaxis(image, -1, 0), 2)
    remedy = "pass channel_axis=-1, or numpy.moveaxis(numpy.asarray(input), -1, 0)"
    kinds = [image.tolist()]
    for library, make in (("PIL.Image", "fromarray"), ("xarray", "DataArray")):
        if importlib.util.find_spec(library.partition(".")[0]):
            kinds.append(getattr(importlib.import_module(library), make)(image))
    for value in kinds:
        with pytest.warns(cu.LayoutWarning, match=re.escape(remedy) + "$"):
            cu.max_pool2d(value, 2)
        assert refused(ValueError, cu.max_pool2d, value, 5).endswith(remedy)
        assert np.array_equal(cu.max_pool2d(np.moveaxis(np.asarray(value), -1, 0), 2), expected)


def test_the_layouts_warning_is_public():
    assert issubclass(cu.LayoutWarning, UserWarning)
    assert pickle.loads(pickle.dumps(cu.LayoutWarning)) is cu.LayoutWarning


def test_tensors_are_not_told_of_layouts():
    torch = pytest.importorskip("torch")
    import cunpool.torch

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for shape in ((64, 512, 4, 4), (341, 511, 3)):
            assert cunpool.torch.max_pool2d(torch.zeros(shape), 2).shape[-1] == shape[-1] // 2


# --- other kinds of arrays


class Exchanged:
    """What has no other way to be read than DLPack."""

    def __init__(self, array: np.ndarray, device: tuple[int, int] = (1, 0)) -> None:
        self.array, self.device = array, device

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.device


def test_what_only_speaks_dlpack_is_taken_from_the_cpu():
    x = np.random.default_rng(0).random((2, 6, 8), np.float32)
    y, indices = cu.max_pool2d(Exchanged(x), 2, return_indices=True)
    assert np.array_equal(y, cu.max_pool2d(x, 2))
    again = cu.max_unpool2d(Exchanged(y), Exchanged(indices), 2)
    assert np.array_equal(again, cu.max_unpool2d(y, indices, 2))
    assert cu.max_pool2d_backward(Exchanged(y), Exchanged(indices), (6, 8), 2).shape == (2, 6, 8)
    said = refused(TypeError, cu.max_pool2d, Exchanged(x, (2, 0)), 2)
    assert said == "input must be an array in the CPU's memory, got one on a device of DLPack's type 2"
    assert refused(ValueError, cu.max_pool2d, Exchanged(x[0]), 2).endswith(
        "got (6, 8) of type test_remedies.Exchanged; add a channel axis: np.from_dlpack(input)[None]"
    )
    assert np.array_equal(cu.max_pool2d(np.from_dlpack(Exchanged(x[0]))[None], 2), y[:1])


def test_dlpack_that_fails_is_told_in_our_words():
    class Deviceless:
        def __dlpack__(self, **keywords):
            raise AssertionError("not to be called")

    class Failing(Exchanged):
        def __dlpack__(self, **keywords):
            raise BufferError("the memory is read-only")

    for call, name in ((lambda value: cu.max_pool2d(value, 2), "input"), (lambda v: cu.take_at2d(X, v), "indices")):
        assert refused(TypeError, call, Deviceless()) == (
            f"{name} must be an array, and one with __dlpack__ must have __dlpack_device__ too, got "
            "test_remedies.Deviceless without it: pass a numpy array of its elements"
        )
        for value, kind, said in (
            (Failing(X), "test_remedies.Failing", "the memory is read-only"),
            (np.ndarray, "type", ".*"),  # the class, not an array
        ):
            with pytest.raises(TypeError, match=rf"^{name} must be .* by DLPack, got {kind}: {said}; pass a numpy"):
                call(value)


def test_a_plane_of_another_library_is_told_how_to_add_a_channel():
    plane = np.arange(12).reshape(3, 4)
    hint = "add a channel axis: np.asarray(input)[None]"
    kinds = {"list": plane.tolist(), "numpy.matrix": plane.view(np.matrix)}
    pillow = pytest.importorskip("PIL.Image")
    kinds["PIL.Image"] = pillow.fromarray(plane.astype(np.uint8))
    for name, value in kinds.items():
        said = refused(ValueError, cu.max_pool2d, value, 2)
        assert (
            said == f"input must have 3 or 4 axes, (C, *spatial) or (N, C, *spatial), got (3, 4) of type {name}; {hint}"
        )
        assert cu.max_pool2d(np.asarray(value)[None], 2).tolist() == [[[5, 7]]]
        said = refused(ValueError, cu.max_unpool2d, value, value, 2)
        assert said.endswith(hint)
    assert refused(ValueError, cu.max_pool2d, plane, 2).endswith("add a channel axis: input[None]")
    said = refused(ValueError, cu.max_pool2d_backward, plane.astype(float).tolist(), plane, (6, 8), 2)
    assert said.endswith("np.asarray(grad_output)[None]")


def test_xarrays_planes_are_told_how_to_add_a_channel():
    xarray = pytest.importorskip("xarray")
    array = xarray.DataArray(np.arange(12.0).reshape(3, 4))
    said = refused(ValueError, cu.max_pool2d, array, 2)
    assert said.endswith("got (3, 4) of type xarray.DataArray; add a channel axis: np.asarray(input)[None]")
    assert cu.max_pool2d(np.asarray(array)[None], 2).tolist() == [[[5, 7]]]


def test_numbers_in_messages():
    for values, said in (
        ([7], "7"),
        ([7, 8], "7 or 8"),
        (range(7, 10), "7 to 9"),
        ([7, 8, 11], "7, 8 or 11"),
        ([7, 11], "7 or 11"),
    ):
        assert _remedies.numbers(values) == said
    assert _remedies.shown((HUGE,)) == "(an integer of 16610 bits,)"
    assert _remedies.shown(10**100) == "an integer of 333 bits"
    assert _remedies.shown([HUGE]) == "an object of type list"
