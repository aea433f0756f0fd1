"""Results that no gradient comes to, beside one that it comes to. Eager mode does not go through the operations that
only they depend on. A program sends zeros through them, and zero times an infinite derivative is not a number."""

import paddle
import pytest

import sot


def root(x):
    return x * 2, ((x - x) * 2).sqrt()


def power(x):
    y = x * 2
    return y, (x - 5) ** y


def quotient(x):
    y = x * 2
    return y, x / (y - y)


def logarithm(x):
    y = x * 2
    return y, (y - y).log()


def norm(x):
    y = x * 2
    return y, paddle.linalg.norm(y - y) + (y - y).sum().rsqrt()


def between_statements(x):
    y = x * 2
    z = (y - y).log()
    if y.sum() > 0:
        return y, 1
    return y, z


def dead_behind_a_break(x):
    y = x * 2
    z = (x - 5) ** y
    sot.psdb.breakgraph()
    z = y + 1
    return y, z


def in_place(x):
    y = x * 2
    z = y - y
    z.sqrt_()
    return y, z


FUNCTIONS = [root, power, quotient, in_place, logarithm, norm, between_statements, dead_behind_a_break]


def gradient(fn, linear, x):
    linear.clear_gradients()
    fn(linear(x))[0].sum().backward()
    return linear.weight.grad.tolist()


@pytest.mark.parametrize("size", [None, 0])
@pytest.mark.parametrize("fn", FUNCTIONS)
def test_gradients_are_those_of_eager_mode(fn, size, monkeypatch):
    monkeypatch.setattr(sot.config, "min_graph_size", size)
    linear, x = paddle.nn.Linear(2, 2), paddle.ones([3, 2])
    fast = sot.symbolic_translate(fn)
    expected = gradient(fn, linear, x)
    for _ in range(5):
        assert gradient(fast, linear, x) == expected
    assert sot.stats().graphs and sot.stats().hits, sot.stats()


@pytest.mark.parametrize("size", [None, 0])
def test_the_log_says_why_the_graph_is_no_program(size, capfd):
    linear, x = paddle.nn.Linear(2, 2), paddle.ones([3, 2])
    fast = sot.symbolic_translate(norm)
    with sot.config.patch(log_level=2, min_graph_size=size):
        for _ in range(3):
            gradient(fast, linear, x)
    assert capfd.readouterr().err.count("[Graph]: called one by one: a backward pass that does not come from all") == 1


def test_a_loss_with_such_operations_is_a_program():
    """Each pass reaches them, since it comes from the loss, as in the first step."""

    def step(x):
        y = (x * 2).exp().tanh().sin().cos() + 2
        return (y.log() / y.sqrt()).sum(), y

    def gradient(fn):
        x = paddle.ones([3, 2])
        x.stop_gradient = False
        fn(x)[0].backward()
        return x.grad.tolist()

    fast, expected = sot.symbolic_translate(step), gradient(step)
    for _ in range(6):
        for own, eager in zip(gradient(fast), expected):
            assert own == pytest.approx(eager)
    stats = sot.stats()
    assert stats.graphs == 1 and stats.hits == 5 and stats.replayed <= 1, stats
