"""Random numbers: each operation draws its own, and the generator is left as eager mode leaves it."""

import numpy as np
import paddle
import pytest
from paddle.nn import functional as F

import sot

DRAWS = {
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.5),
    "bernoulli": paddle.bernoulli,
    "bernoulli_": lambda x: paddle.zeros([4]).bernoulli_(),
    "beta": lambda x: paddle.distribution.Beta(x, x).sample(),
    "binomial": lambda x: paddle.binomial((x * 9).astype("int64"), x),
    "cauchy_": lambda x: paddle.zeros([4]).cauchy_(),
    "dirichlet": lambda x: paddle.distribution.Dirichlet(x).sample(),
    "dropout": lambda x: F.dropout(x, 0.5),
    "dropout2d": lambda x: F.dropout2d(x.reshape([1, 4, 1, 1]), 0.5),
    "exponential_": lambda x: paddle.zeros([4]).exponential_(),
    "fractional_max_pool2d": lambda x: F.fractional_max_pool2d(x.reshape([1, 1, 2, 2]), 1),
    "geometric_": lambda x: paddle.zeros([4]).geometric_(0.5),
    "gumbel_softmax": F.gumbel_softmax,
    "multinomial": lambda x: paddle.multinomial(x, 2),
    "normal": lambda x: paddle.normal(x.detach(), 1.0),
    "normal_": lambda x: paddle.zeros([4]).normal_(),
    "poisson": lambda x: paddle.poisson(x * 9),
    "rand": lambda x: paddle.rand([4]),
    "randint": lambda x: paddle.randint(0, 99, [4]),
    "randperm": lambda x: paddle.randperm(9),
    "rrelu": lambda x: F.rrelu(-x),
    "rsample": lambda x: paddle.distribution.Normal(x, x).rsample(),
    "standard_gamma": getattr(paddle, "standard_gamma", None),
    "standard_normal": lambda x: paddle.standard_normal([4]),
    "uniform_": lambda x: paddle.zeros([4]).uniform_(),
}
DRAWS = {name: draw for name, draw in DRAWS.items() if draw}


@pytest.fixture(params=["0", "10000"], ids=["program", "calls"])
def way(request, monkeypatch):
    monkeypatch.setenv("MIN_GRAPH_SIZE", request.param)
    return request.param


def seen(fn, *given):
    """Return what three calls give, and the next random number after each."""
    outcomes = []
    for _ in range(3):
        paddle.seed(3)
        try:
            outcome = [result.tolist() for result in fn(*given)]
        except Exception as error:
            outcome = type(error)
        outcomes.append((outcome, paddle.rand([1]).item()))
    return outcomes


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_two_equal_draws_are_two(draw, way):
    """Paddle merges equal operations of a program, also many of those that draw."""

    def used(x):
        return draw(x.abs()), draw(x.abs())

    def unused(x):
        draw(x.abs())
        draw(x.abs())
        return [x + 1]

    for fn in (used, unused):
        for stop_gradient in (True, False):
            x = paddle.to_tensor([0.2, 0.4, 0.1, 0.3], stop_gradient=stop_gradient)
            assert seen(sot.symbolic_translate(fn), x) == seen(fn, x)
    assert sot.stats().graphs


def test_numbers_drawn_before_an_error_are_drawn_once(way):
    def f(x, at):
        return x + paddle.rand([3]), paddle.gather(x, at)

    def dropped_out(x, at):
        return F.dropout(x, 0.5), paddle.gather(x, at)

    for fn in (f, dropped_out):
        translated = sot.symbolic_translate(fn)
        for at in ([1], [7], [2], [8]):
            given = (paddle.ones([3]), paddle.to_tensor(at))
            assert seen(translated, *given) == seen(fn, *given)
    assert sot.stats().graphs and sot.stats().graph_errors


GOOD = [[0.8, 0.4], [0.4, 0.8]]
RAISING = {
    "bce_loss": (lambda x: F.binary_cross_entropy(x, x), 3.0),
    "bernoulli": (paddle.bernoulli, 2.0),
    "bincount": (lambda x: paddle.bincount(x.flatten().astype("int64")), -1.0),
    "cholesky": (paddle.linalg.cholesky, -1.0),
    "floor_divide": (lambda x: paddle.full([2, 2], 7, "int32") // (x * 5).astype("int32"), 0.0),
    "gather_tree": (
        lambda x: F.gather_tree(paddle.ones([2, 1, 2], "int64"), x.reshape([2, 1, 2]).astype("int64")),
        9.0,
    ),
    "histogram": (lambda x: paddle.histogram(x, 4), float("inf")),
    "inverse": (paddle.linalg.inv, 0.0),
    "multinomial": (lambda x: paddle.multinomial(x, 1), -1.0),
    "multiplex": (lambda x: paddle.multiplex([x, x], x[:, :1].astype("int32")), 5.0),
    "remainder": (lambda x: paddle.full([2, 2], 7, "int32") % (x * 5).astype("int32"), 0.0),
    "segment_sum": (lambda x: paddle.geometric.segment_sum(x, paddle.arange(2) * -x[0].astype("int64")), 9.0),
    "send_u_recv": (
        lambda x: paddle.geometric.send_u_recv(x, x[0].astype("int64"), paddle.to_tensor([0, 1])),
        9.0,
    ),
    "solve": (lambda x: paddle.linalg.solve(x, x), 0.0),
    "svd": (paddle.linalg.svd, float("nan")),
}


@pytest.mark.parametrize("name", RAISING)
def test_nothing_changes_twice_where_an_operation_raises_for_some_numbers(name, way):
    operation, bad = RAISING[name]
    norm = paddle.nn.BatchNorm1D(2)

    def f(x, mean, variance):
        drawn = F.dropout(F.batch_norm(norm(x), mean, variance, training=True), 0.5)
        try:
            operation(x)
            raised = False
        except Exception:
            raised = True
        return drawn, raised

    def only(x, mean, variance):
        try:
            return operation(x), False
        except Exception:
            return x, True

    errors = 0
    for fn in (f, only):
        outcomes = []
        for run in (fn, sot.symbolic_translate(fn)):
            paddle.seed(3)
            norm._mean.set_value(paddle.zeros([2]))
            mean, variance = paddle.zeros([2]), paddle.ones([2])
            seen = []
            for value in (GOOD, GOOD, [[bad, bad], [bad, bad]], GOOD):
                result, raised = run(paddle.to_tensor(value), mean, variance)
                drawn = result.tolist() if fn is f else None
                seen.append((str((drawn, norm._mean.tolist(), variance.tolist())), raised, paddle.rand([1]).item()))
            outcomes.append(seen)
        assert outcomes[0] == outcomes[1]
        errors += sum(raised for _, raised, _ in outcomes[0])
    stats = sot.stats()
    assert stats.graphs >= 1 and (stats.graph_errors == errors or stats.breaks)


def test_a_refused_statement_draws_once(way):
    """Its first operations were appended to the program before the last one was refused."""

    def f(x, key, value):
        y = x * 2
        try:
            y = y + F.scaled_dot_product_attention(key, key, value, dropout_p=0.5).sum()
        except (ValueError, RuntimeError):
            y = y + 1
        return [y]

    given = paddle.ones([2]), paddle.ones([1, 4, 1, 8]), paddle.ones([1, 3, 1, 8])
    assert seen(sot.symbolic_translate(f), *given) == seen(f, *given)
    stats = sot.stats()
    assert stats.graphs and not stats.fallbacks and (stats.breaks or stats.graph_errors)


FLOAT_COUNTS = {
    "categorical": lambda x, n: paddle.distribution.Categorical(logits=x).sample(),
    "concat": lambda x, n: paddle.concat([x, x], n),
    "cumsum": lambda x, n: paddle.cumsum(x, axis=n),
    "gather": lambda x, n: paddle.gather(x, paddle.to_tensor([0, 1]), axis=n),
    "multinomial": lambda x, n: x.multinomial(n),
    "one_hot": lambda x, n: F.one_hot(paddle.zeros([2], "int64"), n),
    "topk": lambda x, n: paddle.topk(x, k=n)[0],
}


@pytest.mark.parametrize("call", FLOAT_COUNTS.values(), ids=FLOAT_COUNTS)
def test_axes_and_counts_may_be_floating_point_numbers(call, way):
    for number in (np.float64(1), 1.0):

        def f(x):
            return [call(x, number)]

        x = paddle.to_tensor([[0.1, 0.9, 0.3], [0.4, 0.2, 0.7]])
        assert seen(sot.symbolic_translate(f), x) == seen(f, x)
    stats = sot.stats()
    assert stats.graphs and not stats.breaks and not stats.fallbacks
