"""Backward passes from several results of one call, when all its graphs could be programs.

Eager mode frees the part of the autograd graph that a pass has gone through, and so must translated code.
"""

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from paddle import nn

import sot

pytestmark = pytest.mark.divided


@pytest.fixture(autouse=True)
def as_users_have_it(monkeypatch):
    """Use the default `MIN_GRAPH_SIZE`: only graphs that are large enough become programs."""
    monkeypatch.delenv("MIN_GRAPH_SIZE")


def deep(width):
    return nn.Sequential(*[part for _ in range(4) for part in (nn.Linear(width, width), nn.Tanh())])


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.one, self.other, self.both = deep(4), deep(4), deep(4)


class Disjoint(Net):
    """Two losses of the same input, each with its own parameters."""

    def forward(self, x):
        return self.one(x).sum(), self.other(x).square().sum()


class SameParameters(Net):
    def forward(self, x):
        return self.one(x).sum(), self.one(x * 2).square().sum()


class Adversaries(Net):
    """One loss uses a detached copy of a value from which the other loss is computed."""

    def forward(self, x):
        fake = self.one(x)
        judged = F.softplus(self.other(fake.detach())).mean() + F.softplus(-self.other(x)).mean()
        return judged, F.softplus(-self.other(fake)).mean()


class Chain(Net):
    """Three losses. The last one shares operations with both others, which share none with each other."""

    def forward(self, x):
        one, other = self.one(x), self.other(x)
        return one.sum(), other.sum(), self.both(one * other).sum()


class Together(Net):
    def forward(self, x):
        body = self.one(x)
        return self.other(body).sum(), self.both(body).sum()


class AnAdditionTogether(Net):
    """The losses share only one operation, which keeps nothing for its backward pass."""

    def forward(self, x):
        moved = x + 1
        return self.other(moved).sum(), self.both(moved).sum()


def backward(loss, leaves):
    loss.backward()


def gradient(loss, leaves):
    paddle.grad(loss, leaves, allow_unused=True)


def kept(loss, leaves):
    loss.backward(retain_graph=True)


WAYS = {
    "backward": (backward, backward),
    "grad": (gradient, backward),
    "grad last": (backward, gradient),
    "kept": (kept, backward),
    "updated": (backward, "update", backward),
    "three": (kept, backward, backward),
}


def train(net, call, way, order):
    """Train with ordinary steps and steps with one pass per loss. Return gradients, losses and the type of an error."""
    update, found = paddle.optimizer.SGD(0.1, parameters=net.parameters()), []
    for step in range(7):
        x = paddle.to_tensor(np.linspace(-1, 1, 12, dtype="float32").reshape([3, 4]) + step, stop_gradient=False)
        losses = call(x)
        try:
            if step in (4, 6):
                passes = iter(order)
                for part in WAYS[way]:
                    if part == "update":
                        update.step()
                    else:
                        part(losses[next(passes)], [x, *net.parameters()])
            else:
                sum(losses).backward()
        except Exception as error:
            # The gradients show how far the pass got before the error.
            return [*found, type(error), "do not exist. This may be because" in str(error)]
        found += [None if tensor.grad is None else tensor.grad.numpy() for tensor in (x, *net.parameters())]
        found.append([float(loss) for loss in losses])
        update.step()
        update.clear_grad()
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [Disjoint, SameParameters, Adversaries, Chain, Together, AnAdditionTogether])
def test_a_pass_from_each_result(kind, way, same):
    for order in ([0, 1, 0], [1, 0, 1]):
        sot.reset()
        results = []
        for translate in (lambda fn: fn, sot.symbolic_translate):
            paddle.seed(3)
            net = kind()
            results.append(train(net, translate(lambda x: net(x)), way, order))
        same(results[1], results[0])
        assert sot.stats().graphs and not sot.stats().breaks


def is_program(result):
    return result.grad_fn.name() in ("Dy2StGradNode", "GradNodeBase")


@pytest.mark.parametrize("kind, expected", [(Disjoint, False), (Adversaries, False), (Chain, False), (Together, True)])
def test_what_becomes_a_program(kind, expected):
    net, x = kind(), paddle.randn([3, 4])
    fast = sot.symbolic_translate(lambda x: net(x))
    for _ in range(3):
        sum(fast(x)).backward()
    assert [is_program(loss) for loss in fast(x)] == [expected] * len(fast(x))


def test_a_second_pass_by_grad_that_comes_late(same):
    """`paddle.grad` does not release the graph, in any training step."""
    net, x = Together(), paddle.randn([3, 4])
    fast = sot.symbolic_translate(lambda x: net(x))
    for _ in range(3):
        sum(fast(x)).backward()
    net.clear_gradients()

    def run(call):
        loss = sum(call(x))
        return [paddle.grad(loss, parameter)[0] for parameter in net.parameters()]

    expected = run(net)
    assert is_program(fast(x)[0])
    for _ in range(5):
        paddle.grad(sum(fast(x)), net.parameters())
    for _ in range(2):
        same(run(fast), expected)
    assert not sot.stats().breaks
