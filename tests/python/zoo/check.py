"""Runs a task of the zoo translated beside eager mode: outputs, gradients, parameters and curves, and what was translated."""

import re

import numpy as np
import paddle

import sot


class Measured:
    """What the translation of a task came to: graphs, and the ids of the reasons of breaks and fallbacks, by mode."""

    def __init__(self, predict, train):
        self.predict, self.train = predict, train


class Mode:
    def __init__(self, stats):
        self.graphs = stats.graphs
        self.breaks = ids(stats.breaks)
        self.fallbacks = ids(stats.fallbacks)


# Decorators of Paddle 3.0 are followed: all decorated functions share this code and its translations, so that what is counted in
# it depends on what has run before.
OF_DECORATORS = re.compile(r" at \S*/(decorator|decorator/__init__|inspect)\.py:\d+ in ")


def ids(counts):
    """The ids of the reasons, each as often as it was met."""
    counted = (item for item in counts.items() if not OF_DECORATORS.search(item[0]))
    return sorted(text.split(":", 1)[0] for text, count in counted for _ in range(count))


def check(make, same):
    """Asserts that the task does translated what it does in eager mode; `same(actual, expected, rtol, atol)` compares."""
    eager, fast = make(), make()
    same([p.numpy() for p in fast.parameters()], [p.numpy() for p in eager.parameters()], 0, 0)
    return Measured(check_predict(eager, fast, same), check_train(eager, fast, same))


def check_predict(eager, fast, same):
    for layer in eager.layers() + fast.layers():
        layer.eval()
    paddle.seed(7)
    batch = eager.batch(0)
    sot.reset()
    runs = [eager.predict, sot.symbolic_translate(fast.predict)]
    for call in range(eager.settles + 1):
        results = []
        for run in runs:
            paddle.seed(11)
            results.append(run(*batch))
        same(results[1], results[0], eager.rtol, eager.atol)
        if call == 0:
            first = sot.stats()
        if call == eager.settles - 1:
            settled = sot.stats()
    assert_hits(settled)
    return Mode(first)


def check_train(eager, fast, same):
    sot.reset()
    runs = [Training(eager, eager.loss), Training(fast, sot.symbolic_translate(fast.loss))]
    curves = [], []
    for step in range(eager.steps):
        for run, curve in zip(runs, curves):
            curve.append(run.step(step))
        if step == 0:
            first = sot.stats()
            for name in ("gradients", "parameters", "buffers"):
                same(getattr(runs[1], name)(), getattr(runs[0], name)(), eager.rtol, eager.atol)
        for run in runs:
            run.clear()
    runs[1].forward(eager.steps)
    assert_hits(first)
    np.testing.assert_allclose(curves[1], curves[0], rtol=1e-4, err_msg="the losses of translated and eager training part")
    return Mode(first)


def assert_hits(first):
    now = sot.stats()
    assert now.translations == first.translations and now.misses == first.misses, f"a later call translated again\n{now}"
    assert now.hits > first.hits, f"a later call was no hit\n{now}"
    assert not now.graph_errors, f"a graph raised, and the model ran in eager mode\n{now}"


class Training:
    def __init__(self, task, loss):
        self.task, self.loss = task, loss
        for layer in task.layers():
            layer.train()
        self.adam = paddle.optimizer.Adam(learning_rate=task.learning_rate, parameters=task.parameters())

    def forward(self, number):
        paddle.seed(100 + number)
        return self.loss(*self.task.batch(number))

    def step(self, number):
        loss = self.forward(number)
        loss.backward()
        self.adam.step()
        return loss.item()

    def clear(self):
        self.adam.clear_grad()

    def gradients(self):
        return [None if p.grad is None else p.grad.numpy() for p in self.task.parameters()]

    def parameters(self):
        return [p.numpy() for p in self.task.parameters()]

    def buffers(self):
        return [b.numpy() for b in self.task.buffers()]
