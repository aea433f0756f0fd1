"""numpy on values that are known while tracing."""

import numpy as np
import paddle
import pytest

import sot

X = paddle.arange(12, dtype="float32").reshape([3, 4])
SCALE = np.float32(0.5)


def test_a_function_of_a_shape(check):
    def fn(x):
        n = int(np.prod(x.shape))
        return x.reshape([n]) / float(np.sqrt(n)), np.ceil(n / 5)

    check(fn, X)


def test_scalars_and_data_types(check):
    def fn(x):
        a = np.float32(3.0)
        b = a * np.float64(2) + np.int64(1)
        return x * float(b), a.dtype == np.dtype("float32"), isinstance(b, np.floating), np.maximum(2, 5), a.item()

    check(fn, X)


def test_a_scalar_of_the_module(check):
    def fn(x):
        return x * float(SCALE), SCALE + 1

    check(fn, X)


def test_a_scalar_as_an_argument():
    def fn(x, scale):
        return x * float(scale)

    fast = sot.symbolic_translate(fn)
    for scale in (np.float32(2), np.float32(2), np.float32(3)):
        assert fast(X, scale).numpy().tobytes() == fn(X, scale).numpy().tobytes()
    counted = sot.stats()
    assert not counted.breaks and not counted.fallbacks and counted.translations == 2


def test_an_array_breaks(check):
    def fn(x):
        y = x + 1
        a = np.array([1.0, 2.0])
        a[0] = 5
        return y * float(a.sum()), a

    fast = sot.symbolic_translate(fn)
    for _ in range(3):
        (got, array), (expected, known) = fast(X), fn(X)
        assert got.numpy().tobytes() == expected.numpy().tobytes() and array.tolist() == known.tolist()
    assert sot.stats().breaks and not sot.stats().fallbacks


def test_what_an_array_is(check):
    array = np.arange(6.0).reshape(2, 3)

    def fn(x):
        return x * array.ndim, array.shape, array.dtype == np.float64, array.size

    check(fn, X)


def test_errors_are_numpys():
    def fn(x):
        try:
            np.float32("no number")
        except ValueError as error:
            return x + 1, str(error)

    fast = sot.symbolic_translate(fn)
    assert fast(X)[1] == fn(X)[1]


def test_a_number_of_numpys_may_be_an_equal_one_at_the_next_call(same):
    def fn(x, n):
        return paddle.reshape(x, [n, -1])

    fast = sot.symbolic_translate(fn)
    x = paddle.ones([2, 3])
    for _ in range(3):
        same(fast(x, np.prod([2, 1])), fn(x, np.prod([2, 1])))
    assert sot.stats().translations == 1 and not sot.stats().breaks
    same(fast(x, np.int32(2)), fn(x, np.int32(2)))
    same(fast(x, np.prod([3, 2])), fn(x, np.prod([3, 2])))
    assert sot.stats().translations == 3


def test_an_array_in_a_condition():
    def fn(flag, x):
        y = x * 2
        if flag == 0:
            y = y + 1
        if flag > 2.5 or flag != flag:
            y = y - 5
        return y, flag == 3

    fast = sot.symbolic_translate(fn)
    flags = [np.array([value]) for value in (0, 1, 2, 3, 4, 0)] + [np.array(3.0), np.array([[float("nan")]]), np.array([True])]
    for flag in flags:
        (got, same), (expected, right) = fast(flag, X), fn(flag, X)
        assert got.numpy().tobytes() == expected.numpy().tobytes()
        assert type(same) is type(right) and np.array_equal(same, right)
    counted = sot.stats()
    assert not counted.breaks and not counted.fallbacks and counted.graphs == counted.translations <= 5
    flag = flags[0]
    for flag[0] in (0, 3, 0):
        assert fast(flag, X)[0].numpy().tobytes() == fn(flag, X)[0].numpy().tobytes()
    assert sot.stats().translations == counted.translations


def test_arrays_that_have_no_truth_or_run_code():
    class Shouting:
        def __eq__(self, other):
            calls.append(other)
            return True

    def fn(flag, x):
        y = x * 2
        if flag == 0:
            return y + 1
        return y - 1

    calls = []
    fast = sot.symbolic_translate(fn)
    for _ in range(2):
        with pytest.raises(ValueError, match="ambiguous"):
            fast(np.array([1, 2]), X)
        assert fast(np.array([Shouting()], object), X).numpy().tobytes() == (X * 2 + 1).numpy().tobytes()
    assert calls == [0, 0] and not sot.stats().fallbacks
