"""`stop_gradient` of a value that the function computes: set, and taken back. In between the value is cut off from
gradients, and later it is connected with what it was computed from.
"""

import paddle
import pytest

import sot

HEAD = paddle.nn.Linear(2, 1)


def freeze_for_one_loss(x):
    fake = x * 2
    fake.stop_gradient = True
    d_loss = HEAD(fake).mean()
    fake.stop_gradient = False
    return HEAD(fake).mean(), d_loss, fake.stop_gradient


def freeze_over_a_break(x):
    fake = x * 2
    fake.stop_gradient = True
    d_loss = HEAD(fake).mean().item()
    fake.stop_gradient = False
    return HEAD(fake).mean(), d_loss


def freeze_in_a_container(x):
    kept = {"fake": [x * 2]}
    kept["fake"][0].stop_gradient = True
    sot.psdb.breakgraph()
    first = HEAD(kept["fake"][0]).mean()
    kept["fake"][0].stop_gradient = False
    return HEAD(kept["fake"][0]).mean(), first, kept["fake"][0].stop_gradient


def a_write_behind_it(x):
    t = x * 2
    t.stop_gradient = True
    t.stop_gradient = False
    t[1] += 2
    return t.sum(), t


def set_twice(x):
    t = x.tanh()
    t.stop_gradient = True
    a = t * 3
    t.stop_gradient = True
    t.stop_gradient = False
    b = t * 3
    t.stop_gradient = True
    return (a + b + t * 5).sum(), a.stop_gradient, b.stop_gradient, t.stop_gradient


def added_to_meanwhile(x):
    t = x * 2
    t.stop_gradient = True
    t.add_(paddle.ones([2, 2]))
    t.stop_gradient = False
    return (t * 3).sum(), t


def an_item_is_set_meanwhile(x):
    t = x * 2
    t.stop_gradient = True
    t[0] = 5.0
    t.stop_gradient = False
    return (t * t).sum(), t


def of_many(x):
    parts = [x * i for i in range(3)]
    for part in parts:
        part.stop_gradient = True
    first = sum(part.sum() for part in parts)
    for part in parts:
        part.stop_gradient = False
    return first + parts[2].sum(), parts


def a_view_in_between(x):
    t = x * 2
    t.stop_gradient = True
    view = t.reshape([1, 4])
    t.stop_gradient = False
    return (t.reshape([1, 4]) + view).sum(), view.stop_gradient


def stays_set_at_a_break(x):
    t = x.tanh()
    t.stop_gradient = True
    sot.psdb.breakgraph()
    return (t * x).sum(), t, t.is_leaf


@pytest.mark.parametrize("min_size", ["0", None])
@pytest.mark.parametrize(
    "fn",
    [
        freeze_for_one_loss,
        freeze_over_a_break,
        freeze_in_a_container,
        a_write_behind_it,
        set_twice,
        added_to_meanwhile,
        an_item_is_set_meanwhile,
        of_many,
        a_view_in_between,
        stays_set_at_a_break,
    ],
    ids=lambda fn: fn.__name__,
)
def test_a_flag_that_is_set_and_taken_back(fn, min_size, same, monkeypatch):
    monkeypatch.delenv("MIN_GRAPH_SIZE", raising=False)
    if min_size:
        monkeypatch.setenv("MIN_GRAPH_SIZE", min_size)

    def step(call):
        x = paddle.to_tensor([[1.0, 2.0], [0.5, -1.0]], stop_gradient=False)
        HEAD.clear_gradients()
        result = call(x)
        result[0].backward()
        grads = [x.grad, HEAD.weight.grad]
        return result, [None if grad is None else grad.numpy() for grad in grads]

    fast = sot.symbolic_translate(fn)
    for _ in range(4):
        same(step(fast), step(fn))
    assert sot.stats().graphs
