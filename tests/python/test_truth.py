"""Branches on tensors compute the truth value by a shortcut: answers and errors are those of `bool(tensor)`."""

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


@pytest.mark.alone("a profile function sees the functions of verify mode")
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


@pytest.mark.alone("a spy in Paddle's place counts each run")
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


ORIGINAL = paddle.Tensor.__bool__


def compared(x):
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1


def not_compared(x):
    y = x * 2
    return y + 1 if not y.sum() < 0 else y - 1


def compared_in_a_helper(x):
    return helper(x * 2) + helper(x * -2)


def compared_and_kept(x):
    y = (x.sum() > 0) and x * 2
    return y, bool(x.max() > 3)


def compared_in_a_comprehension(x):
    return [n for n in range(3) if x.sum() > n], x + 1


def compared_in_a_loop(x):
    return loop(x.abs())


class Spies:
    """Functions for `__bool__` that count their calls."""

    def __init__(self):
        self.asked = []

    def asks_on(self, tensor):
        self.asked.append("on")
        return ORIGINAL(tensor)

    def reads(self, tensor):
        self.asked.append("reads")
        return tensor.item() > 0

    def knows(self, tensor):
        self.asked.append(tensor.ndim)
        return tensor.ndim == 0


PROGRAMS = [compared, not_compared, compared_in_a_helper, compared_and_kept]
PROGRAMS += [compared_in_a_comprehension, compared_in_a_loop]


@pytest.mark.alone("a spy in Paddle's place counts each run")
@pytest.mark.parametrize("value", [1.0, -1.0])
@pytest.mark.parametrize("name", ["asks_on", "reads", "knows"])
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_a_method_of_the_programs_is_called_once_for_a_question(same, monkeypatch, fn, name, value):
    if fn is compared_in_a_loop and name == "knows":
        pytest.skip("it does not end")
    spies = Spies()
    spy = getattr(spies, name)
    monkeypatch.setattr(paddle.Tensor, "__bool__", lambda tensor: spy(tensor))
    x = paddle.full([1], value)
    expected = fn(x)
    asked, spies.asked[:] = list(spies.asked), []
    fast = sot.symbolic_translate(fn)
    for _ in range(3):
        found, seen = fast(x), list(spies.asked)
        spies.asked.clear()
        same(found, expected)
        spies.asked.clear()
        assert seen == asked
    assert sot.stats().translations and not sot.stats().fallbacks


NO_TRUTHS = [lambda tensor: 1, lambda tensor: tensor, lambda tensor: ORIGINAL(tensor) + 1, lambda tensor: 1 // 0]


@pytest.mark.alone("a spy in Paddle's place counts each run")
@pytest.mark.parametrize("answer", NO_TRUTHS)
@pytest.mark.parametrize("fn", [compared, not_compared], ids=lambda fn: fn.__name__)
def test_a_method_of_the_programs_that_gives_no_truth(monkeypatch, fn, answer):
    asked = []
    monkeypatch.setattr(paddle.Tensor, "__bool__", lambda tensor: asked.append(tensor.ndim) or answer(tensor))
    fast, x = sot.symbolic_translate(fn), paddle.ones([1])
    for _ in range(2):
        assert outcome(fast, x) == outcome(fn, x)
        assert asked == [0, 0]
        asked.clear()


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
