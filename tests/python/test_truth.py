"""Branches on tensors ask in a short way: the answer, and what cannot be answered, are those of `bool(tensor)`."""

import numpy as np
import paddle
import pytest

import sot


def side(x):
    x = x * 1
    if x:
        return x + 1
    return x - 1


def outcome(fn, *args):
    try:
        return str(fn(*args).astype("float64").numpy().tolist())
    except Exception as error:
        return type(error), str(error)


VALUES = [0, 1, 2, -1, 0.5, -0.5, float("nan"), float("inf"), -float("inf")]
DTYPES = ["bool", "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [[], [1], [1, 1, 1]])
def test_element_types_and_values(dtype, shape):
    fast = sot.symbolic_translate(side)
    for value in VALUES:
        if "float" not in dtype and (value != value or abs(value) > 100):
            continue
        x = paddle.full(shape, value, "float64").astype(dtype)
        for _ in range(2):
            assert outcome(fast, x) == outcome(side, x)
    assert not sot.stats().fallbacks


@pytest.mark.parametrize("shape", [[2], [0], [2, 1]])
def test_other_numbers_of_elements(shape):
    fast = sot.symbolic_translate(side)
    x = paddle.ones(shape)
    for _ in range(2):
        assert outcome(fast, x) == outcome(side, x)


def helper(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def nested(x):
    return helper(x * 2) * 3


def and_or(x, y):
    return (x > 0 and y) or x


def loop(x):
    n = 0
    while not (x > 4):
        x, n = x * 2, n + 1
    return x, n


@pytest.mark.parametrize("value", [1.0, -1.0])
def test_places(same, value):
    x, y = paddle.full([1], value), paddle.zeros([1])
    for fn, args in [(nested, [x]), (and_or, [x, y]), (and_or, [x, x]), (loop, [x.abs()])]:
        fast = sot.symbolic_translate(fn)
        for _ in range(2):
            same(fast(*args), fn(*args))
    assert sot.stats().graphs and not sot.stats().fallbacks


def test_no_python_function_is_called():
    fast = sot.symbolic_translate(side)
    x = paddle.ones([1])
    fast(x), fast(x)
    called = []
    import sys

    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        fast(x)
    finally:
        sys.setprofile(None)
    assert "__bool__" not in called and "prod" not in called


@pytest.mark.parametrize("name", ["__bool__", "__nonzero__", "__array__"])
def test_methods_that_were_replaced(same, monkeypatch, name):
    fast = sot.symbolic_translate(side)
    x = paddle.ones([1])
    same(fast(x), side(x))
    asked = []
    answers = {"__array__": lambda self, *_, **__: asked.append(name) or np.array(-1.0)}
    monkeypatch.setattr(paddle.Tensor, name, answers.get(name, lambda self: bool(asked.append(name))))
    same(fast(x), side(x))
    assert len(asked) == 2


def test_a_subclass_that_answers_itself(same):
    class Odd(paddle.Tensor):
        def __bool__(self):
            return False

    def choose(x, flag):
        x = x * 2
        if flag:
            return x + 1
        return x - 1

    x, flag = paddle.ones([1]), Odd(paddle.ones([1]))
    fast = sot.symbolic_translate(choose)
    for _ in range(2):
        same(fast(x, flag), choose(x, flag))
