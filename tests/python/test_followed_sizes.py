"""Functions of Paddle that, as one statement, depend on open sizes: their calls are followed, and the sizes stay open.
Shapes of results that were made with sizes are known in the trace."""

import functools
import math
import operator

import paddle
import pytest
import paddle.nn.functional as F

import sot

SIZES = [2, 3, 5, 4, 7, 3, 6, 9]


def ramp(*shape):
    return paddle.arange(math.prod(shape), dtype="float32").reshape(list(shape)) / 7 + 0.25


def compared_shape(x):
    batch, steps, _ = x.shape
    heads = x.reshape([batch, steps, 2, 4]).transpose([0, 2, 1, 3])
    if heads.shape != [batch, 2, steps, 4]:
        raise ValueError(f"attention of shape {heads.shape}")
    return heads.sum(1) * 2


def divergence(x):
    return F.kl_div(F.log_softmax(x, -1), F.softmax(x * 2, -1), reduction="batchmean")


def broadcast_condition(x):
    return paddle.where(x.mean(-1, keepdim=True) > 3.0, x, x * 2)


def expanded(x):
    return x[:1].expand_as(x) * x


def put(x):
    return paddle.put_along_axis(paddle.zeros_like(x), x.argmax(-1, keepdim=True), 1.0, -1)


def halves(x):
    half = x.shape[1] * 2
    first, second = paddle.split(paddle.concat([x, x, x, x], 1), [half, half], 1)
    return first * second


def mean_by_product(x):
    return x.sum() / math.prod(x.shape), x.sum() / functools.reduce(operator.mul, x.shape)


def resized(x):
    return F.interpolate(F.avg_pool2d(x.unsqueeze(0), 2, stride=1), size=x.shape[1:], mode="nearest") * 2


def drawn(x):
    return paddle.distribution.Normal(x, x + 1).rsample() * 2


def accuracy(x):
    first = x[:, 0]
    return paddle.metric.accuracy(F.softmax(first, -1), paddle.ones([x.shape[0], 1], "int64"))


def leaves(result):
    return [result] if isinstance(result, paddle.Tensor) else list(result)


@pytest.mark.parametrize(
    "function",
    [
        compared_shape,
        divergence,
        broadcast_condition,
        expanded,
        put,
        halves,
        mean_by_product,
        resized,
        drawn,
        accuracy,
    ],
)
def test_sizes_stay_open(function):
    translated = sot.symbolic_translate(function)
    for size in SIZES:
        x = ramp(size, 3 + size % 3, 8)
        paddle.seed(size)
        wanted = leaves(function(x))
        paddle.seed(size)
        got = leaves(translated(x))
        # Programs may use other kernels than eager mode, which round differently.
        assert [one.shape for one in got] == [one.shape for one in wanted]
        assert all(paddle.allclose(one, other, rtol=1e-5) for one, other in zip(got, wanted))
    stats = sot.stats()
    if paddle.__version__.startswith("3.0.") and function in (divergence, mean_by_product):
        assert all("__truediv__" in reason or "kl_div" in reason for reason in stats.breaks)
        return  # Paddle 3.0 multiplies by the reciprocal of a number, so a division by an open size ends the graph.
    assert (sum(stats.breaks.values()), sum(stats.fallbacks.values())) == (0, 0)
    assert stats.translations <= 4


def causal_scores(q, k):
    scores = q @ k.transpose([0, 2, 1])
    length, new = k.shape[1], q.shape[1]
    mask = paddle.arange(length).unsqueeze(0) <= paddle.arange(length - new, length).unsqueeze(1)
    return paddle.where(mask, scores, paddle.full_like(scores, -1e9))


@pytest.mark.parametrize("new", [1, 2, None])
def test_a_mask_of_counts_keeps_the_length_open(new):
    translated = sot.symbolic_translate(causal_scores)
    for at in range(12):
        steps = new or 2 + at % 3
        q, k = ramp(2, steps, 4), ramp(2, steps + 1 + at, 4)
        got, wanted = translated(q, k), causal_scores(q, k)
        assert got.shape == wanted.shape
        assert paddle.allclose(got, wanted, rtol=1e-5)
    stats = sot.stats()
    assert (stats.translations, stats.hits) == (2, 10)
    assert (sum(stats.breaks.values()), sum(stats.fallbacks.values())) == (0, 0)


def test_a_size_that_a_helper_returns_is_no_constant():
    def function(x):
        shape = paddle.tensor.manipulation.infer_broadcast_shape(x, x[:, :1], 1)
        return paddle.zeros(shape) + x.sum(), shape[0]

    translated = sot.symbolic_translate(function)
    for size in SIZES:
        x = ramp(size, 4)
        (result, first), (wanted, wanted_first) = translated(x), function(x)
        assert (result.shape, first) == (wanted.shape, wanted_first)
        assert result.numpy().tobytes() == wanted.numpy().tobytes()


def test_reasons_name_the_size():
    def function(x):
        return paddle.diagflat(x[0], x.shape[0])[: x.shape[0], : x.shape[0]] + x

    translated = sot.symbolic_translate(function)
    for size in range(2, 14):
        x = ramp(size, size)
        assert translated(x).numpy().tobytes() == function(x).numpy().tobytes()
    reasons = [reason for reason in sot.stats().breaks if "diagflat" in reason or "shape" in reason]
    assert len(reasons) == 1
    assert "x.shape[0], which differs from call to call, is needed as a number" in reasons[0]
