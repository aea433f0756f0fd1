"""A tensor that a backward pass reads and that was written to in place since the forward pass.

Eager mode refuses the pass, and so does a program. Where no operation reads the tensor, the pass works.
"""

import numpy as np
import paddle
import pytest

import sot


def product(x, w):
    return (x * w).tanh().exp().sin().sum()


def total(x, w):
    return (x + w).tanh().exp().sin().sum()


def linear(x, w):
    return paddle.nn.functional.relu(paddle.matmul(x, w)).sum() * 0.5


def quotient(x, w):
    return (w / 2 + w / -3.0).tanh().exp().sin().sum() + x.sum()


def ratio(x, w):
    return (w / x + w / 3).tanh().exp().sin().sum()


def add(x, w):
    x.add_(paddle.ones_like(x))


def fill(x, w):
    x.fill_(100.0)


def write(x, w):
    x[0] = 5.0


def clip(x, w):
    with paddle.no_grad():
        w.clip_(-0.01, 0.01)


def set_value(x, w):
    w.set_value(w * 2)


def nothing(x, w):
    pass


WRITES = [nothing, add, fill, write, clip, set_value]


def outcome(fn, change, is_parameter):
    x = paddle.ones([2, 2]) * 0.5
    if is_parameter:
        constant = paddle.nn.initializer.Constant(0.25)
        w = paddle.create_parameter([2, 2], "float32", default_initializer=constant)
    else:
        w = paddle.ones([2, 2]) * 0.25
        w.stop_gradient = False
    y = fn(x, w)
    change(x, w)
    try:
        y.backward()
    except RuntimeError as error:
        assert "has been modified by an inplace operation" in str(error)
        return "refused"
    return w.grad.tolist()


@pytest.mark.parametrize("fn", [product, total, linear, quotient, ratio])
@pytest.mark.parametrize("change", WRITES)
@pytest.mark.parametrize("is_parameter", [False, True])
def test_a_write_before_the_backward_pass(fn, change, is_parameter):
    expected = outcome(fn, change, is_parameter)
    fast = sot.symbolic_translate(fn)
    for _ in range(3):
        found = outcome(fast, change, is_parameter)
        if expected == "refused":
            assert found == expected
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-6)
    stats = sot.stats()
    assert stats.graphs == 1 and not stats.replayed and not stats.breaks and not stats.fallbacks, stats


def test_in_a_long_graph(monkeypatch):
    monkeypatch.setenv("SOT_PROGRAM_SIZE", "4")

    def fn(x, w):
        for _ in range(6):
            x = (x * w).tanh() + 1
        return x.sum()

    fast = sot.symbolic_translate(fn)
    for change in [clip, nothing, clip]:
        expected, found = outcome(fn, change, True), outcome(fast, change, True)
        assert (found == "refused") == (expected == "refused")
    assert sot.stats().graphs == 1


def of_the_input(y, x):
    return (y + 1).exp().sin().cos() * x


def of_results(y, x):
    return (y * y).exp().sin().cos().tanh()


@pytest.mark.parametrize("loss", ["first", "second", "both"])
@pytest.mark.parametrize("other", [of_the_input, of_results], ids=lambda other: other.__name__)
@pytest.mark.parametrize("change", [nothing, add, fill, write])
def test_results_that_read_it_and_results_that_do_not(other, change, loss):
    """Only a pass that comes from a result that reads the tensor is refused."""

    def fn(x):
        y = x * 0.5 + 1
        return y, other(y, x)

    def outcome(run):
        start = paddle.ones([2, 2])
        start.stop_gradient = False
        x = start * 0.5
        y, v = run(x)
        change(x, None)
        try:
            {"first": y.sum(), "second": v.sum(), "both": y.sum() + v.sum()}[loss].backward()
        except RuntimeError as error:
            assert "has been modified by an inplace operation" in str(error)
            return "refused"
        return [[round(number, 5) for number in row] for row in start.grad.tolist()]

    fast, expected = sot.symbolic_translate(fn), outcome(fn)
    assert [outcome(fast) for _ in range(3)] == [expected] * 3
    stats = sot.stats()
    assert stats.graphs == 1 and not stats.replayed and not stats.breaks, stats


def test_a_value_that_nothing_uses_any_more():
    """It is a result, since it is a variable where the graph breaks."""

    def fn(x):
        y = x * 0.5
        v = (y + 1).exp().sin().cos().tanh().sigmoid() * x
        x.tanh_()
        return x, y

    def gradient(run):
        start = paddle.ones([2, 3])
        start.stop_gradient = False
        x, y = run(start * 1)
        (x.sum() + y.sum()).backward()
        return start.grad.numpy()

    fast, expected = sot.symbolic_translate(fn), gradient(fn)
    for _ in range(4):
        np.testing.assert_allclose(gradient(fast), expected, rtol=1e-6)
    assert sot.stats().graphs and sot.stats().hits


@pytest.mark.parametrize("trains", [True, False])
def test_a_write_to_a_copy_that_has_the_same_counter(trains):
    """A reshaped transposed tensor has memory of its own, and the counter of writes of the one it was made of."""
    paddle.seed(1)
    linear = paddle.nn.Linear(3, 3)

    def step(a):
        copied = a.t().reshape([2, 3])
        a[..., 0] = copied[0, 0]
        copied.multiply_(copied)
        return linear(a)

    def seen(run):
        a = paddle.to_tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        with paddle.set_grad_enabled(trains):
            result = run(a)
        if trains:
            result.sum().backward()
        gradient = linear.weight.grad.tolist() if trains else None
        linear.clear_gradients()
        return result.tolist(), gradient, a.tolist(), a.inplace_version

    fast = sot.symbolic_translate(step)
    for _ in range(3):
        assert seen(fast) == seen(step)
    assert sot.stats().graphs


@pytest.mark.parametrize("size", ["0", "10000"], ids=["program", "calls"])
@pytest.mark.parametrize("asks", ["result", "both"])
def test_a_gradient_by_the_result_of_a_graph_reads_no_input(asks, size, monkeypatch, same):
    """The pass ends at the result, so it is not refused for what the graph was given and the program has written to."""
    monkeypatch.setenv("MIN_GRAPH_SIZE", size)
    layer = paddle.nn.Linear(3, 3)

    def f(x):
        h = layer(x)
        x[0].fill_(0.5)
        asked = [h] if asks == "result" else [h, layer.weight]
        return paddle.grad(h.tanh().sum(), asked)

    def outcome(run):
        try:
            return run(paddle.ones([2, 3]))
        except RuntimeError as error:
            return type(error)

    fast = sot.symbolic_translate(f)
    for _ in range(3):
        same(outcome(fast), outcome(f))
    assert sot.stats().graphs
    assert (outcome(f) is RuntimeError) == (asks == "both")
