"""Writes to tensors from outside before an operation that raises: the frame runs again in CPython, and writes once."""

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
