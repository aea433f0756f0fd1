"""Training steps as users write them: reads of parameters and gradients do not break the graph."""

import copy

import paddle
import paddle.nn.functional as F
import pytest
from paddle import nn

import sot


def network():
    paddle.seed(3)
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1D(16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))


def train(make_step, wrap, steps=5):
    """Return the results of the steps, and the parameters after the last step."""
    net = network()
    step = wrap(make_step(net))
    paddle.seed(5)
    results = [step(paddle.randn([6, 8]), paddle.randint(0, 4, [6])) for _ in range(steps)]
    return results, net.parameters()


@pytest.fixture
def compare(same, monkeypatch):
    """`compare(make_step, places)` checks that values equal those of eager mode, that breaks and fallbacks occur in
    this number of places, and that the last step translates nothing."""
    monkeypatch.delenv("MIN_GRAPH_SIZE")

    def compare(make_step, places):
        expected = train(make_step, lambda fn: fn)
        misses = []

        def wrap(fn):
            fast = sot.symbolic_translate(fn)

            def call(*args):
                before = sot.stats().misses
                result = fast(*args)
                misses.append(sot.stats().misses - before)
                return result

            return call

        same(train(make_step, wrap), expected)
        stats = sot.stats()
        # Paddle's decorators have breaks of their own, which do not count.
        found = [place for place in [*stats.breaks, *stats.fallbacks] if __file__ in place]
        assert len(found) == places and stats.graphs, f"\n{stats}"
        assert misses[-1] == 0, misses

    return compare


def test_loops_over_parameters(compare):
    def make(net):
        update = paddle.optimizer.SGD(0.1, parameters=net.parameters())

        def step(x, y):
            loss = F.cross_entropy(net(x), y)
            for name, parameter in net.named_parameters():
                if "bias" not in name:
                    loss = loss + 1e-3 * parameter.square().sum()
            for parameter in net.parameters():
                loss = loss + 1e-4 * parameter.abs().sum()
            loss.backward()
            update.step()
            update.clear_grad()
            return loss.detach()

        return step

    compare(make, places=3)  # backward, step and clear_grad


def test_gradients_are_looked_at(compare):
    def make(net):
        update = paddle.optimizer.SGD(0.1, parameters=net.parameters())

        def step(x, y):
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            norms = [parameter.grad.norm() for parameter in net.parameters() if parameter.grad is not None]
            largest = {p.name: p.grad.abs().max() for p in net.parameters() if p.grad is not None}
            update.step()
            update.clear_grad(False)
            return loss.detach(), [norm.detach() for norm in norms], [value.detach() for value in largest.values()]

        return step

    compare(make, places=3)


def test_gradients_are_clipped(compare):
    def make(net):
        update = paddle.optimizer.SGD(0.1, parameters=net.parameters())

        def step(x, y):
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            update.step()
            update.clear_grad()
            return loss.detach(), norm.detach()

        return step

    compare(make, places=3)


def test_parameters_are_changed_by_hand(compare):
    def make(net):
        slow = copy.deepcopy(net)

        def step(x, y):
            loss = F.cross_entropy(net(x), y)
            gradients = paddle.grad(loss, [p for p in net.parameters() if not p.stop_gradient])
            with paddle.no_grad():
                learned = [p for p in net.parameters() if not p.stop_gradient]
                for parameter, gradient in zip(learned, gradients):
                    parameter.subtract_(0.1 * gradient)
                for average, parameter in zip(slow.parameters(), net.parameters()):
                    average.set_value(average * 0.75 + parameter * 0.25)
            return loss.detach(), slow.parameters()

        return step

    compare(make, places=1)


def test_metrics(compare):
    """Computing a metric is part of the graph. Counting in a metric breaks the graph once."""

    def make(net):
        update, accuracy = paddle.optimizer.SGD(0.1, parameters=net.parameters()), paddle.metric.Accuracy(topk=(1, 2))

        def step(x, y):
            scores = net(x)
            F.cross_entropy(scores, y).backward()
            update.step()
            update.clear_grad()
            accuracy.update(accuracy.compute(scores, y.unsqueeze(-1)))
            right = paddle.metric.accuracy(scores, y.unsqueeze(-1))
            return right * 2, accuracy.name()

        return step

    compare(make, places=4)


def parameter(gradient=True, stops=True):
    p = paddle.to_tensor([1.0, 2.0, 3.0], stop_gradient=False)
    if gradient:
        (p * p).sum().backward()
        p.grad.stop_gradient = stops
    return p


def changed_through_one_read(p):
    gradient = p.grad
    gradient.multiply_(paddle.full([1], 2.0))
    again = p.grad
    return again + 0, gradient is p.grad, p.grad is p.grad


def changed_beside_another_read(p):
    before = p.grad
    p.grad.add_(paddle.ones([3]))
    return before * 1, p.grad


def doubled_if_there(p):
    return None if p.grad is None else p.grad * 2


def copied(p):
    gradient = p.grad
    if gradient is not None:
        gradient = gradient.clone()
        gradient.scale_(3.0)
    return gradient, p.grad


def as_keys(p):
    return p * 1, len({p, p.grad, p.grad}), {p: 1}.get(p), p.grad.stop_gradient, p.persistable


def outcome(function, given):
    p = parameter(**given)
    try:
        return function(p), p.grad
    except Exception as error:
        return type(error), p.grad


@pytest.mark.alone("it counts graphs and hits")
@pytest.mark.parametrize("function", [changed_through_one_read, changed_beside_another_read, doubled_if_there, copied, as_keys])
def test_a_gradient_is_read_anew_each_time(function, same):
    """Each read returns a new object with the same memory."""
    fast = sot.symbolic_translate(function)
    for given in [{}, {"gradient": False}, {}, {}, {"stops": False}, {"gradient": False}, {}]:
        same(outcome(fast, given), outcome(function, given))
    stats = sot.stats()
    assert stats.graphs and stats.hits >= 4 and len(stats.breaks) <= 1 and not stats.fallbacks


def test_the_other_name_of_gradients(same):
    """`grad_` is a second name of `grad`, and no operation in place."""

    def there(parameters):
        return [p.grad_ * 2 for p in parameters if p.grad_ is not None]

    parameters = [parameter(), parameter(gradient=False), parameter()]
    fast = sot.symbolic_translate(there)
    for _ in range(3):
        same(fast(parameters), there(parameters))
    parameters[0].clear_gradient(False)
    assert parameters[0].grad is None
    same(fast(parameters), there(parameters))
    assert sot.stats().graphs == 2 and not sot.stats().breaks


def test_tensors_as_keys(check):
    net = network()
    net.register_buffer("first", paddle.ones([1]))
    net.register_buffer("second", paddle.zeros([1]))
    learned = {net[0].weight: 2.0, net[0].bias: 3.0}

    def f(x):
        made = x + 1
        seen = {x, made} | set(net.parameters())
        total = sum(learned.get(parameter, 0.5) for parameter in net.parameters())
        names = {parameter.name: parameter for parameter in net.parameters()}
        same = names[net[0].bias.name] is net[0].bias
        return made * total, len(seen), x in seen, same, [name for name, _ in net.named_buffers()], len(net.buffers())

    check(f, paddle.ones([2]))


def test_tensors_as_keys_that_become_one(same):
    def f(x, y):
        return x + y, len({x, y}), y in {x: 1}

    x, y = paddle.ones([2]), paddle.ones([2])
    fast = sot.symbolic_translate(f)
    for args in [(x, y), (y, x), (x, x), (y, y), (x, y)]:
        same(fast(*args), f(*args))
    stats = sot.stats()
    assert (stats.translations, stats.graphs, stats.hits) == (2, 2, 3) and not stats.breaks


def test_a_gradient_that_is_read_once_is_one_object_behind_a_break(same):
    """Each read of `p.grad` makes a new object. The object of one read keeps its identity behind a break."""

    def step(parameter):
        gradients = [one.grad for one in [parameter]]
        first = gradients[0]
        sot.psdb.breakgraph()
        return gradients[0] is first, parameter.grad is first, first * 2

    def flat(net):
        gradients = [parameter.grad for parameter in net.parameters()]
        return paddle.nn.utils.parameters_to_vector(gradients)

    net = paddle.nn.Sequential(paddle.nn.Linear(3, 4), paddle.nn.Linear(4, 2))
    net(paddle.ones([2, 3])).sum().backward()
    for fn, given in ((step, net[0].weight), (flat, net)):
        fast = sot.symbolic_translate(fn)
        expected = fn(given)
        for _ in range(3):
            same(fast(given), expected)
    assert not sot.stats().fallbacks


class Doubled(paddle.autograd.PyLayer):
    """Its backward pass returns gradients with `stop_gradient` on."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return (gradient * 2).detach()


@pytest.mark.parametrize("kept", [None, False, True, "zeros"])
@pytest.mark.parametrize("outside", [False, True])
def test_gradients_stop_others_where_eager_modes_do(kept, outside):
    def flags(fn):
        layer = nn.Linear(2, 2)
        x = paddle.ones([2, 2])
        x.stop_gradient = False
        seen = []
        for _ in range(3):
            for leaf in (x, layer.weight, layer.bias):
                if kept is None:
                    leaf.clear_gradient(False)
                elif kept == "zeros":
                    leaf.clear_gradient()
                elif leaf.grad is not None:
                    leaf.grad.stop_gradient = kept
            given = Doubled.apply(x) if outside else x
            fn(layer, given).sum().backward()
            seen.append([leaf.grad.stop_gradient for leaf in (x, layer.weight, layer.bias)])
            # Shows whether a value computed from a gradient has a gradient.
            seen.append((layer.weight.grad * 2).stop_gradient)
        gradients = paddle.grad(fn(layer, x).sum(), [x, layer.weight])
        return seen, [gradient.stop_gradient for gradient in gradients]

    def called(layer, x):
        return (layer(x) ** 2).exp()

    expected = flags(called)
    assert flags(sot.symbolic_translate(called)) == expected
    stats = sot.stats()
    assert (stats.graphs, stats.fallbacks) == (1, {}) and not stats.breaks


def test_the_learning_rate_is_read_in_the_graph():
    net = paddle.nn.Linear(2, 2)
    schedule = paddle.optimizer.lr.StepDecay(0.5, step_size=1)
    fixed, decaying = (paddle.optimizer.SGD(rate, parameters=net.parameters()) for rate in (0.25, schedule))

    def scaled(x):
        return net(x) * decaying.get_lr(), fixed.get_lr()

    fast = sot.symbolic_translate(scaled)
    for _ in range(4):
        x = paddle.rand([3, 2])
        assert fast(x)[0].tolist() == scaled(x)[0].tolist() and fast(x)[1] == 0.25
        schedule.step()
    assert not sot.stats().breaks and sot.stats().graphs
