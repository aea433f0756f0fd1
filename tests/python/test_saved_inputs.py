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


@pytest.mark.parametrize("fn", [product, total, linear])
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
