"""Backward passes from several results of one call, when all its graphs could be programs.

Eager mode frees the part of the autograd graph that a pass has gone through, and so must translated code.
"""

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from paddle import nn

import sot


@pytest.fixture(autouse=True)
def as_users_have_it(monkeypatch):
    """Programs where they pay off, as outside of the tests."""
    monkeypatch.delenv("MIN_GRAPH_SIZE")


def deep(width):
    return nn.Sequential(*[part for _ in range(4) for part in (nn.Linear(width, width), nn.Tanh())])


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.one, self.other, self.both = deep(4), deep(4), deep(4)


class Disjoint(Net):
    """Of the same input, by parameters of their own."""

    def forward(self, x):
        return self.one(x).sum(), self.other(x).square().sum()


class SameParameters(Net):
    def forward(self, x):
        return self.one(x).sum(), self.one(x * 2).square().sum()


class Adversaries(Net):
    """What one of them is computed from the other has without its gradient."""

    def forward(self, x):
        fake = self.one(x)
        judged = F.softplus(self.other(fake.detach())).mean() + F.softplus(-self.other(x)).mean()
        return judged, F.softplus(-self.other(fake)).mean()


class Chain(Net):
    """The middle one has an operation in common with each of the others, which have none."""

    def forward(self, x):
        one, other = self.one(x), self.other(x)
        return one.sum(), other.sum(), self.both(one * other).sum()


class Together(Net):
    def forward(self, x):
        body = self.one(x)
        return self.other(body).sum(), self.both(body).sum()


class AnAdditionTogether(Net):
    """All that they have in common is an operation that keeps nothing for its backward pass."""

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
    """Some ordinary steps, then ones with a pass from each result. Gives all gradients and losses, and what was raised."""
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
            # How far the pass came before is left in the gradients.
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
    """`paddle.grad` leaves the graph as it is, in whatever step."""
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
