"""Writes to tensors from outside before an operation that raises: the frame runs again in CPython, and writes once."""

import math

import paddle
import pytest
from paddle import nn

import sot

BUFFER = paddle.zeros([2])


def through_a_view(x):
    x.reshape([2]).add_(x)


def into_a_buffer(x):
    paddle.assign(x * 3 + BUFFER, output=BUFFER)


def at_a_position(x):
    x[0] = x[0] + 1


WRITES = {
    "add": lambda x: x.add_(paddle.ones([2])),
    "scale": lambda x: x.scale_(3.0),
    "view": through_a_view,
    "buffer": into_a_buffer,
    "position": at_a_position,
    "two": lambda x: (x.add_(paddle.ones([2])), x.multiply_(x)),
    "of its own": lambda x: (x * 2).add_(x),
}
RAISES = {
    "gather": lambda x, at: paddle.gather(x, at),
    "index_select": lambda x, at: x.index_select(at),
}


@pytest.mark.parametrize("min_size", [None, 0, 100], ids=["default", "program", "replay"])
@pytest.mark.parametrize("raises", RAISES)
@pytest.mark.parametrize("write", WRITES)
def test_writes_before_an_error(write, raises, min_size):
    def function(x, at):
        WRITES[write](x)
        try:
            return RAISES[raises](x, at) + 1
        except (IndexError, ValueError):
            return x * 1

    def outcome(call):
        BUFFER.set_value(paddle.zeros([2]))
        seen = []
        for place in (0, 1, 9, 0, 9):
            x = paddle.to_tensor([1.0, 2.0])
            result = call(x, paddle.to_tensor([place]))
            seen.append((result.tolist(), x.tolist(), BUFFER.tolist()))
        return seen

    with sot.config.patch(min_graph_size=min_size):
        assert outcome(sot.symbolic_translate(function)) == outcome(function)
    assert sot.stats().graphs


@pytest.mark.parametrize("functional", [False, True])
def test_statistics_before_an_error(functional):
    def outcome(translate):
        paddle.seed(3)
        norm = nn.BatchNorm1D(2, momentum=0.5)

        def forward(x, at):
            if functional:
                y = nn.functional.batch_norm(x, norm._mean, norm._variance, norm.weight, norm.bias, training=True, momentum=0.5)
            else:
                y = norm(x)
            return paddle.gather(y, at)

        call = sot.symbolic_translate(forward) if translate else forward
        seen = []
        for place in (0, 1, 9, 0, 9, 1):
            try:
                call(paddle.to_tensor([[1.0, 2.0], [3.0, 8.0]]), paddle.to_tensor([place]))
            except (IndexError, ValueError) as error:
                seen.append(type(error))
            seen.append((norm._mean.numpy().round(5).tolist(), norm._variance.numpy().round(5).tolist()))
        return seen

    assert outcome(True) == outcome(False)
    assert sot.stats().graphs


# What is written is not saved before these calls, once a run has succeeded: they raise for no numbers.
TAKE_ALL_NUMBERS = [
    *("abs", "clone", "cos", "detach", "exp", "floor", "log", "max", "mean", "min", "neg", "norm", "rsqrt", "sigmoid"),
    *("sign", "sin", "sqrt", "square", "sum", "tanh"),
    *("add", "divide", "equal", "lerp", "maximum", "minimum", "multiply", "pow", "subtract"),
    *("__add__", "__ge__", "__gt__", "__le__", "__lt__", "__mul__", "__radd__", "__rmul__", "__rsub__", "__sub__"),
    *("__rtruediv__", "__truediv__"),
    *("add_", "clip_", "copy_", "exp_", "fill_", "multiply_", "scale_", "subtract_", "zero_"),
]
GIVEN = {
    "lerp": lambda y: (y, 0.5),
    "clip_": lambda y: (-1.0, 1.0),
    "copy_": lambda y: (y, False),
    "fill_": lambda y: (2.0,),
    "scale_": lambda y: (2.0,),
    "divide": lambda y: (y,),
}
BINARY = {"add", "equal", "maximum", "minimum", "multiply", "pow", "subtract", "add_", "multiply_", "subtract_"}


@pytest.mark.parametrize("name", TAKE_ALL_NUMBERS)
def test_calls_that_take_all_numbers(name):
    def function(x, y):
        x.add_(y)
        is_binary = name in BINARY or name.startswith("__")
        given = GIVEN[name](y) if name in GIVEN else (y,) if is_binary else ()
        result = getattr(x * 1, name)(*given)
        x.scale_(0.5)
        return result

    def outcome(call):
        seen = []
        for number in (1.0, 0.0, math.nan, math.inf, -math.inf, -1.0, 1e-45, 3e38):
            x, y = paddle.to_tensor([number, 2.0]), paddle.to_tensor([0.0, number])
            result = call(x, y)
            seen.append((result is not None and str(result.tolist()), str(x.tolist())))
        return seen

    with sot.config.patch(min_graph_size=100):
        assert outcome(sot.symbolic_translate(function)) == outcome(function)
    assert dict(sot.stats().fallbacks) == {}
