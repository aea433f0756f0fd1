"""Parameters that a backward pass does not reach have no gradient, so an optimizer does not change them.

This holds also if other results of the program depend on them.
"""

import numpy as np
import paddle
import pytest
from paddle import nn

import sot

STEPS = 7


class Heads(nn.Layer):
    """A body with two heads. A loss may use the score only, and not the pooled features."""

    def __init__(self):
        super().__init__()
        self.body, self.middle = nn.Linear(4, 8), nn.Linear(8, 8)
        self.score, self.pooler, self.last = nn.Linear(8, 2), nn.Linear(8, 3), nn.Linear(3, 3)

    def forward(self, x):
        hidden = paddle.tanh(self.middle(nn.functional.sigmoid(self.body(x))))
        return self.score(hidden), self.last(paddle.tanh(self.pooler(hidden)))


class Chain(nn.Layer):
    """Two programs. Only the second result of the second one is computed from the second result of the first."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.three, self.four = (nn.Linear(4, 4) for _ in range(4))

    def forward(self, x):
        shared = paddle.tanh(x * 2)
        left = paddle.tanh(self.one(shared)) * shared
        right = paddle.tanh(self.two(shared)) + left * 0.5
        sot.psdb.breakgraph()
        both = paddle.tanh(left)
        return self.three(both) * both, self.four(right) + both * 2


def train(make, translated, losses):
    """Return which parameters have no gradient after each step, and the final values of the parameters."""
    paddle.seed(3)
    random = np.random.RandomState(0)
    model = make()
    call = sot.symbolic_translate(model) if translated else model
    optimizer = paddle.optimizer.AdamW(0.1, parameters=model.parameters(), weight_decay=0.3)
    bare = []
    for step in range(STEPS):
        results = call(paddle.to_tensor(random.rand(5, 4).astype("float32")))
        losses(step, *results).backward()
        bare.append([parameter.grad is None for parameter in model.parameters()])
        optimizer.step()
        optimizer.clear_grad(set_to_zero=step % 2 == 0)
    return bare, [parameter.numpy() for parameter in model.parameters()]


LOSSES = {
    "one": lambda step, one, other: one.sum(),
    "other": lambda step, one, other: other.sum(),
    "in turns": lambda step, one, other: (other if step % 2 else one).sum(),
    "one, later": lambda step, one, other: one.sum() if step > 3 else (one.sum() + other.sum()),
    "other, at last": lambda step, one, other: other.sum() if step == STEPS - 1 else one.sum(),
}


@pytest.mark.parametrize("losses", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("make, graphs", [(Heads, 1), (Chain, 2)])
def test_optimizer_step(make, graphs, losses):
    bare, parameters = train(make, False, losses)
    fast_bare, fast_parameters = train(make, True, losses)
    assert fast_bare == bare
    assert any(map(any, bare)), "some parameter has no gradient at some step"
    for one, other in zip(parameters, fast_parameters):
        np.testing.assert_allclose(other, one, 1e-5, 1e-6)
    assert sot.stats().graphs == graphs


def as_program(model):
    """Return the translated model, after calls that made its graph a program."""
    call = sot.symbolic_translate(model)
    for _ in range(4):
        one, other = call(paddle.ones([5, 4]))
        (one.sum() + other.sum()).backward()
    model.clear_gradients(set_to_zero=False)
    return call


def test_gradients_by_what_is_not_reached():
    model = Heads()
    call = as_program(model)
    expected = paddle.grad(model(paddle.ones([5, 4]))[0].sum(), model.parameters(), allow_unused=True)
    gradients = paddle.grad(call(paddle.ones([5, 4]))[0].sum(), model.parameters(), allow_unused=True)
    assert [gradient is None for gradient in gradients] == [gradient is None for gradient in expected]
    assert sum(gradient is None for gradient in gradients) == 4
    for gradient, other in zip(gradients, expected):
        assert other is None or np.allclose(gradient.numpy(), other.numpy(), 1e-5, 1e-6)


def test_gradients_by_what_is_not_reached_and_must_be():
    model = Heads()
    call = as_program(model)

    def message(function):
        with pytest.raises(ValueError) as raised:
            paddle.grad(function(paddle.ones([5, 4]))[0].sum(), model.parameters())
        return str(raised.value).splitlines()[-1].replace(" ", "")

    assert "allow_unused" in message(call)
    assert message(call)[:60] == message(model)[:60]


def test_second_gradients_where_something_is_not_reached():
    model = Heads()
    call = as_program(model)

    def penalty(function):
        x = paddle.ones([5, 4])
        x.stop_gradient = False
        (gradient,) = paddle.grad(function(x)[0].sum(), [x], create_graph=True)
        (gradient**2).sum().backward()
        found = [parameter.grad for parameter in model.parameters()]
        model.clear_gradients(set_to_zero=False)
        return [None if gradient is None else gradient.numpy() for gradient in found]

    expected, found = penalty(model), penalty(call)
    assert [gradient is None for gradient in found] == [gradient is None for gradient in expected]
    for gradient, other in zip(found, expected):
        assert other is None or np.allclose(gradient, other, 1e-4, 1e-5)


@pytest.mark.parametrize("way", ["backward", "grad", "one function"])
def test_zeros_from_one_program_stay_where_another_does_not_reach_the_leaf(way):
    shared = paddle.nn.Linear(4, 4)

    def first(x, mask):
        return paddle.tanh(x * 2 + (shared(x) * mask).tanh()).exp().sin() * 2 + 1

    def second(y):
        y = (y * 1 + 2).tanh().exp().sin() * 2
        return y, shared(paddle.tanh(y)).exp().sin() * 2 + 1

    def both(x, mask):
        y = first(x, mask)
        sot.psdb.breakgraph()
        return second(y)

    def gradients(translate):
        if way == "one function":
            run = translate(both)
        else:
            (head, tail) = translate(first), translate(second)
            run = lambda x, mask: tail(head(x, mask))  # noqa: E731
        found = []
        for mask in (0.0, 0.0, 1.0, 0.0):
            x = paddle.ones([2, 4])
            x.stop_gradient = False
            used, _ = run(x, paddle.full([4], mask))
            if way == "grad":
                made = paddle.grad(used.sum(), shared.parameters(), allow_unused=True)
            else:
                used.sum().backward()
                made = [parameter.grad for parameter in shared.parameters()]
                shared.clear_gradients(set_to_zero=False)
            found.append([gradient is None for gradient in made])
        return found

    assert gradients(sot.symbolic_translate) == gradients(lambda function: function)


def test_gradients_that_a_failed_pass_has_left():
    """Their `stop_gradient` is off, as after a pass that does not fail."""

    def refuse(gradient):
        raise ValueError("refused")

    def flag(translate):
        paddle.seed(1)
        body, head = nn.Linear(2, 2), nn.Linear(2, 1)
        fn = translate(lambda x: head(body(x).tanh()).sum())
        for _ in range(4):
            fn(paddle.ones([3, 2])).backward()
            body.clear_gradients()
            head.clear_gradients()
        for parameter in head.parameters():
            parameter.clear_gradient(set_to_zero=False)
        hook = body.weight.register_hook(refuse)
        with pytest.raises(Exception, match="refused"):
            fn(paddle.ones([3, 2])).backward()
        hook.remove()
        return head.bias.grad.stop_gradient

    assert flag(sot.symbolic_translate) == flag(lambda fn: fn)
    assert sot.stats().graphs == 1 and not sot.stats().breaks


def test_the_flag_of_the_gradient_of_a_leaf_whose_own_flag_the_function_sets():
    def fn(x):
        y = (x * 0.5).exp().tanh().sin().cos().exp().tanh().sin()
        x.stop_gradient = True
        return y, (x + 1).exp()

    def outcome(run):
        x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
        run(x)[0].sum().backward()
        return x.grad.stop_gradient, x.stop_gradient

    fast = sot.symbolic_translate(fn)
    assert [outcome(fast) for _ in range(3)] == [outcome(fn)] * 3
    assert sot.stats().graphs and sot.stats().hits
