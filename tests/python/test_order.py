"""What a function does and whose result nobody needs is done all the same, once and in its place: operations without a
live result, and calls of cached functions (`functools.lru_cache`)."""

import functools
import itertools
import random

import paddle
import pytest
from conftest import assert_same

import sot

pytestmark = pytest.mark.divided

# What may be seen of an operation even if its result is dropped.
UNUSED = {
    "rand": lambda x, at: paddle.rand([2]),
    "randperm": lambda x, at: paddle.randperm(4),
    "dropout": lambda x, at: paddle.nn.functional.dropout(x, 0.5),
    "normal_": lambda x, at: (x * 1).normal_(),
    "gather": lambda x, at: paddle.gather(x, at),
    "embedding": lambda x, at: paddle.nn.functional.embedding(at, x.reshape([3, 1])),
}


def at_a_break(x, at, operation):
    read = x.sum().item()
    operation(x, at)
    return read, x.max().item()


def first(x, at, operation):
    operation(x, at)
    return x.sum().item()


def in_a_loop(x, at, operation):
    seen = []
    for step in range(3):
        seen.append(x.sum().item() + step)
        try:
            operation(x, at + step)
        except (IndexError, ValueError):
            seen.append("refused")
    return seen


def before_a_raise(x, at, operation):
    operation(x, at)
    raise KeyError("behind")


def beside_what_lives(x, at, operation):
    operation(x, at)
    return x * 2


def in_a_called_function(x, at, operation):
    def inner():
        operation(x * 2, at)
        return x.sum().item()

    return inner() + 1


PLACES = [at_a_break, first, in_a_loop, before_a_raise, beside_what_lives, in_a_called_function]


def outcome(call, *args):
    """The result or the exception's type, and the random numbers that come next."""
    paddle.seed(3)
    random.seed(3)
    try:
        result = call(*args)
    except Exception as error:
        result = type(error)
    return result, paddle.rand([1]).item(), random.random()


@pytest.mark.parametrize("operation", UNUSED)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("stop_gradient", [True, False])
def test_an_operation_without_a_live_result(place, operation, stop_gradient):
    fast = sot.symbolic_translate(place)
    for at in (0, 1, 9, 2):
        args = (paddle.to_tensor([1.0, 2.0, 3.0], stop_gradient=stop_gradient), paddle.to_tensor([at]), UNUSED[operation])
        assert_same(outcome(fast, *args), outcome(place, *args))


class World:
    """What cached functions read and write."""

    def __init__(self):
        self.tensor = paddle.ones([2])
        self.weight = paddle.to_tensor([2.0], stop_gradient=False)
        self.calls = []
        self.number = 1


# What the function does before it calls the cached function.
BEFORE = {
    "nothing": lambda world, x, k: None,
    "an operation": lambda world, x, k: x * 2,
    "a random number": lambda world, x, k: paddle.rand([2]),
    "a write in place": lambda world, x, k: world.tensor.add_(x),
    "an operation that raises": lambda world, x, k: paddle.gather(x, paddle.to_tensor([k])),
    "a write": lambda world, x, k: setattr(world, "number", world.number + k),
    "an item": lambda world, x, k: world.calls.append("before"),
}


def draws(world, k):
    return paddle.rand([2]) * k


def draws_in_python(world, k):
    return random.random() * k


def reads(world, k):
    return world.tensor * k + world.number


def counts(world, k):
    world.calls.append(k)
    return k + len(world.calls)


def asks_for_gradients(world, k):
    return world.weight * k


def raises_at_first(world, k):
    world.calls.append(k)
    if world.calls.count(k) < 2:
        raise LookupError(k)
    return world.tensor * k


CACHED = [draws, draws_in_python, reads, counts, asks_for_gradients, raises_at_first]


def around(world, cached, before):
    def call(x, k):
        y = before(world, x, k)
        return x + cached(k), y if isinstance(y, paddle.Tensor) else None, list(world.calls), world.number

    return call


def without_gradients(world, cached, before):
    def call(x, k):
        with paddle.no_grad():
            before(world, x, k)
            found = cached(k)
        return x * found, list(world.calls)

    return call


def caught(world, cached, before):
    def call(x, k):
        try:
            before(world, x, k)
            return x + cached(k)
        except LookupError as error:
            return type(error), list(world.calls), x * 3

    return call


@pytest.mark.differs
@pytest.mark.alone("the second of two runs finds what the cached function keeps")
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("cached", CACHED)
@pytest.mark.parametrize("form", [around, without_gradients, caught])
def test_a_cached_function_runs_in_its_place(form, cached, before):
    def run(translate):
        world = World()
        kept = functools.lru_cache(maxsize=2)(functools.partial(cached, world))
        call = translate(form(world, kept, BEFORE[before]))
        seen = []
        for k in (0, 1, 0, 2, 1, 0, 0):
            seen.append(outcome(call, paddle.ones([2]), k))
            seen.append((kept.cache_info(), world.number, world.tensor.numpy().copy(), list(world.calls)))
        return seen

    for actual, expected in itertools.zip_longest(run(sot.symbolic_translate), run(lambda call: call)):
        assert_same(actual, expected)


@pytest.mark.alone("it counts graphs")
def test_a_filled_cache_is_part_of_the_graph():
    @functools.lru_cache(maxsize=None)
    def mask(n):
        return paddle.tril(paddle.ones([n, n]))

    def masked(x):
        y = x * 2
        return y * mask(2) + mask(2)

    fast = sot.symbolic_translate(masked, fullgraph=True)
    assert_same(fast(paddle.ones([2, 2])), masked(paddle.ones([2, 2])))
    of_the_cached_function = sot.stats().graphs
    for _ in range(2):
        assert_same(fast(paddle.ones([2, 2])), masked(paddle.ones([2, 2])))
    counted = sot.stats()
    assert counted.graphs == of_the_cached_function + 1 and not counted.breaks and not counted.fallbacks


def test_hooks_on_parameters_run_from_the_last_layer_to_the_first():
    nn, order = paddle.nn, []
    middle = nn.Linear(4, 4)
    model = nn.Sequential(nn.Linear(2, 4), nn.LayerNorm(4), middle, nn.Tanh(), middle, nn.Linear(4, 1))

    def loss(x):
        return model(x).sum()

    for name, parameter in model.named_parameters():
        parameter.register_hook(lambda gradient, name=name: order.append(name))
    orders = []
    for run in (loss, sot.symbolic_translate(loss)):
        order.clear()
        run(paddle.ones([3, 2])).backward()
        orders.append(list(order))
    assert orders[0] == orders[1] and len(orders[0]) == 8
    stats = sot.stats()
    assert (stats.graphs, stats.breaks, stats.fallbacks) == (1, {}, {})
