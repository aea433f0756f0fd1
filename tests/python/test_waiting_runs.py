"""Many runs of one graph whose backward passes are still to come: results that are kept with their gradients."""

import numpy as np
import paddle

import sot

CALLS = 100


def test_results_that_are_kept():
    """Each waiting run has an executor of its own. There is a limit to their number, and calls beyond it run the
    statements in eager mode."""
    paddle.seed(0)
    linear, dropout = paddle.nn.Linear(4, 4), paddle.nn.Dropout(0.5)

    def step(x):
        return dropout(linear(x)).tanh().exp().sin().cos(), x * 2

    def gradients(run):
        paddle.seed(1)
        kept = [run(paddle.full([2, 4], number / CALLS)) for number in range(CALLS)]
        total = sum(result.sum() for result, _ in kept)
        total.backward()
        found = linear.weight.grad.numpy()
        linear.clear_gradients()
        return total.item(), found, [doubled.tolist() for _, doubled in kept]

    fast, expected = sot.symbolic_translate(step), gradients(step)
    for _ in range(3):
        total, found, doubled = gradients(fast)
        np.testing.assert_allclose(total, expected[0], rtol=1e-5)
        np.testing.assert_allclose(found, expected[1], rtol=1e-4, atol=1e-6)
        assert doubled == expected[2]
    stats = sot.stats()
    assert stats.graphs == stats.translations == 1 and not stats.replayed and stats.hits == 3 * CALLS - 1, stats


def test_passes_in_another_order_than_the_calls():
    def step(x):
        return (x * x).tanh().exp().sin().cos().sigmoid()

    def gradients(run):
        inputs = [paddle.full([3], number / CALLS) for number in range(CALLS)]
        for tensor in inputs:
            tensor.stop_gradient = False
        results = [run(tensor) for tensor in inputs]
        for number in list(range(0, CALLS, 2)) + list(range(CALLS - 1, 0, -2)):
            results[number].sum().backward()
        return np.array([tensor.grad.numpy() for tensor in inputs])

    fast, expected = sot.symbolic_translate(step), gradients(step)
    for _ in range(3):
        np.testing.assert_allclose(gradients(fast), expected, rtol=1e-5)
    assert sot.stats().graphs == sot.stats().translations == 1


def test_a_graph_that_writes_to_its_input():
    def step(x, buffer):
        buffer.add_(x.detach().tanh())
        return (x * 3).tanh().exp().sin().cos().sigmoid()

    def outcome(run):
        x, buffer = paddle.ones([3]), paddle.zeros([3])
        x.stop_gradient = False
        kept = [run(x, buffer) for _ in range(CALLS)]
        sum(result.sum() for result in kept).backward()
        return x.grad.tolist(), buffer.tolist()

    fast, expected = sot.symbolic_translate(step), outcome(step)
    for _ in range(2):
        np.testing.assert_allclose(outcome(fast), expected, rtol=1e-5)
    assert sot.stats().graphs == sot.stats().translations == 1
