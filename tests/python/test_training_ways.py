"""The ways to train: a translated forward pass, the expected number of graphs, eager mode's numbers."""

import paddle
import paddle.nn.functional as F
import pytest
from paddle import nn
from paddle.autograd import PyLayer
from paddle.distributed.fleet.utils import recompute
from paddle.quantization.quanters import FakeQuanterWithAbsMaxObserver

import sot


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def gradients(tensors):
    return [None if tensor.grad is None else tensor.grad.numpy() for tensor in tensors]


def translated(layer):
    """Return a translated function that calls the layer."""
    return sot.symbolic_translate(lambda *args: layer(*args))


@pytest.fixture
def compare(same):
    """Run `train(wrap)` in eager mode and translated, and assert equal results. `wrap` makes a function of a layer."""

    def run(train, graphs=1, breaks=0, fallbacks=0):
        def seeded(wrap):
            paddle.seed(11)
            return train(wrap)

        expected = seeded(lambda layer: layer)
        same(seeded(translated), expected)
        stats = sot.stats()
        # Fallbacks in a decorator of Paddle 3.0 do not count.
        own = sum(count for reason, count in stats.fallbacks.items() if "inspect.py" not in reason)
        assert (stats.graphs, sum(stats.breaks.values()), own) == (graphs, breaks, fallbacks), f"\n{stats}"

    return run


def test_accumulated_gradients(compare):
    def train(wrap):
        net = mlp()
        call, update = wrap(net), paddle.optimizer.SGD(0.1, parameters=net.parameters())
        for _ in range(3):
            for _ in range(4):
                (call(paddle.randn([2, 4])).square().mean() / 4).backward()
            update.step()
            update.clear_grad()
        return gradients(net.parameters()), [p.detach() for p in net.parameters()]

    compare(train)


def test_several_forwards_before_one_backward(compare):
    def train(wrap):
        net = mlp()
        call = wrap(net)
        losses = [call(paddle.randn([2, 4])).square().mean() for _ in range(4)]
        paddle.add_n(losses).backward()
        return [loss.detach() for loss in losses], gradients(net.parameters())

    compare(train)


def test_forwards_and_backwards_in_any_order(compare):
    def train(wrap):
        net = mlp()
        call = wrap(net)
        first, second = call(paddle.randn([2, 4])).mean(), call(paddle.randn([2, 4])).mean()
        second.backward()
        third = call(paddle.randn([2, 4])).mean()
        first.backward()
        seen = gradients(net.parameters())
        third.backward()
        return seen, gradients(net.parameters())

    compare(train)


def test_grad_of_some(compare):
    def train(wrap):
        net = mlp()
        call, found = wrap(net), []
        for _ in range(3):
            x = paddle.randn([2, 4])
            x.stop_gradient = False
            y = call(x)
            found += paddle.grad([y.mean()], [x, net[2].weight], grad_outputs=[paddle.to_tensor(3.0)])
            found += gradients([x, net[0].weight])
        return [tensor.detach() if isinstance(tensor, paddle.Tensor) else tensor for tensor in found if tensor is not None]

    def without_flags(wrap):
        return [tensor.numpy() for tensor in train(wrap)]

    compare(without_flags)


def test_hooks_on_inputs_and_outputs(compare):
    def train(wrap):
        net, seen = mlp(), []
        call = wrap(net)

        def note(gradient):
            seen.append(gradient.numpy())
            return gradient * 2

        for _ in range(3):
            x = paddle.randn([2, 4])
            x.stop_gradient = False
            x.register_hook(note)
            inner = x * 3
            inner.register_hook(note)
            y = call(inner)
            y.register_hook(note)
            y.mean().backward()
            seen.append(x.grad.numpy())
        return seen, gradients(net.parameters())

    compare(train)


def test_hooks_on_parameters(compare):
    def train(wrap):
        net, seen = mlp(), []
        call = wrap(net)
        remove = net[0].weight.register_hook(lambda gradient: gradient * 10)
        for step in range(4):
            if step == 2:
                remove.remove()
            call(paddle.randn([2, 4])).mean().backward()
            seen.append(gradients(net.parameters()))
            net.clear_gradients()
        return seen

    compare(train)


class Inside(nn.Layer):
    """Registers a hook on a tensor between two operations."""

    def __init__(self, seen):
        super().__init__()
        self.first, self.second, self.seen = nn.Linear(4, 4), nn.Linear(4, 2), seen

    def forward(self, x):
        y = self.first(x)
        if not y.stop_gradient:
            y.register_hook(self.note)
        return self.second(y)

    def note(self, gradient):
        self.seen.append(gradient.numpy())
        return gradient * 2


def test_hooks_on_what_is_between(compare):
    def train(wrap):
        seen = []
        net = Inside(seen)
        call = wrap(net)
        for _ in range(3):
            call(paddle.randn([2, 4])).mean().backward()
        return seen, gradients(net.parameters())

    compare(train, graphs=2, breaks=1)


def test_hooks_on_layers(compare):
    def train(wrap):
        net, seen = mlp(), []
        call, found = wrap(net), []
        before = net[0].register_forward_pre_hook(lambda layer, args: (args[0] + 1,))
        net[2].register_forward_post_hook(lambda layer, args, result: result * 2)
        for step in range(4):
            if step == 2:
                before.remove()
            loss = call(paddle.randn([2, 4])).mean()
            loss.backward()
            found.append(loss.detach())
        return found, seen, gradients(net.parameters())

    compare(train, graphs=2)


class Cube(PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensor()
        return gradient * 7 * x


class WithPyLayer(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.second(Cube.apply(F.relu(self.first(x))))


def test_py_layer(compare):
    """CPython calls the `PyLayer`. Its `forward` is a graph of its own, which tells the context what to save."""

    def train(wrap):
        net = WithPyLayer()
        call, losses = wrap(net), []
        for _ in range(3):
            loss = call(paddle.randn([2, 4])).mean()
            loss.backward()
            losses.append(loss.detach())
        return losses, gradients(net.parameters())

    compare(train, graphs=3, breaks=1)
    assert "Cube.apply" in next(iter(sot.stats().breaks))


class Recomputed(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first, self.block, self.last = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Tanh()), nn.Linear(4, 2)

    def forward(self, x):
        return self.last(recompute(self.block, self.first(x)))


def test_recompute_around_a_translated_block(compare):
    def train(wrap):
        net = Recomputed()
        inner = nn.Sequential(*net.block.children())
        net.block.forward = wrap(lambda x: inner(x))
        losses = []
        for _ in range(3):
            loss = net(paddle.randn([2, 4])).mean()
            loss.backward()
            losses.append(loss.detach())
        return losses, gradients(net.parameters())

    compare(train, graphs=2)


def test_recompute_inside(same):
    def train(wrap):
        paddle.seed(11)
        net = Recomputed()
        call, losses = wrap(net), []
        for _ in range(3):
            loss = call(paddle.randn([2, 4])).mean()
            loss.backward()
            losses.append(loss.detach())
        return losses, gradients(net.parameters())

    expected = train(lambda layer: layer)
    same(train(translated), expected)
    assert sot.stats().graphs >= 2
    assert "recompute runs its block once more in the backward pass" in str(sot.stats())


@pytest.mark.skipif(paddle.__version__.startswith("3.0"), reason="crashes in eager mode")
def test_recompute_without_reentrance(compare):
    """The backward pass recomputes saved tensors, so statistics are updated twice."""

    def train(wrap):
        net, losses = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1D(4), nn.Dropout(0.5), nn.Tanh()), []
        call = wrap(net)
        for reentrant in (True, False, False):
            x = paddle.randn([6, 4])
            x.stop_gradient = False
            loss = recompute(call, x, use_reentrant=reentrant).mean()
            loss.backward()
            losses += [loss.detach(), x.grad.numpy(), net[1]._mean.clone()]
        return losses, gradients(net.parameters())

    compare(train, graphs=2)


@pytest.mark.alone("hooks run in each of the runs")
def test_saved_tensors_are_seen(compare):
    def train(wrap):
        net, seen = mlp(), []
        call, x = wrap(net), paddle.randn([2, 4])

        def pack(tensor):
            seen.append(("pack", tensor.shape))
            return tensor.numpy()

        def unpack(numbers):
            seen.append(("unpack", numbers.shape))
            return paddle.to_tensor(numbers)

        for _ in range(2):
            with paddle.autograd.saved_tensors_hooks(pack, unpack):
                loss = call(x).square().mean()
            loss.backward()
            call(x).square().mean().backward()
        return seen, gradients(net.parameters())

    compare(train)


def test_quantization_aware(compare):
    """Each quanter breaks the graph once, and runs in eager mode."""
    quanter = FakeQuanterWithAbsMaxObserver(moving_rate=0.9)

    def train(wrap):
        config = paddle.quantization.QuantConfig(activation=quanter, weight=quanter)
        net = paddle.quantization.QAT(config).quantize(nn.Sequential(nn.Linear(4, 8), nn.ReLU()))
        call, update, losses = wrap(net), paddle.optimizer.Adam(0.1, parameters=net.parameters()), []
        for _ in range(4):
            loss = call(paddle.randn([2, 4])).square().mean()
            loss.backward()
            update.step()
            update.clear_grad()
            losses.append(loss.detach())
        return losses, [value.clone() for value in net.state_dict().values()]

    compare(train, graphs=2, breaks=3)


def test_grad_scaler(compare):
    def train(wrap):
        net = mlp()
        call, update = wrap(net), paddle.optimizer.Momentum(0.1, parameters=net.parameters())
        scaler, losses = paddle.amp.GradScaler(init_loss_scaling=1024.0), []
        for _ in range(4):
            loss = call(paddle.randn([2, 4])).square().mean()
            scaler.scale(loss).backward()
            scaler.step(update)
            scaler.update()
            update.clear_grad()
            losses.append(loss.detach())
        return losses, [p.detach() for p in net.parameters()]

    compare(train)


CLIPS = [nn.ClipGradByValue(0.01), nn.ClipGradByNorm(0.1), nn.ClipGradByGlobalNorm(0.1)]


@pytest.mark.parametrize("clip", CLIPS, ids=lambda clip: type(clip).__name__)
def test_clipped_gradients(clip, compare):
    def train(wrap):
        net = mlp()
        call, update = wrap(net), paddle.optimizer.Adam(0.05, parameters=net.parameters(), grad_clip=clip)
        for _ in range(4):
            call(paddle.randn([2, 4])).square().sum().backward()
            update.step()
            update.clear_grad()
        return [p.detach() for p in net.parameters()]

    compare(train)


SCHEDULES = {
    "NoamDecay": lambda lr: lr.NoamDecay(8, 2),
    "CosineAnnealingDecay": lambda lr: lr.CosineAnnealingDecay(0.1, 3),
    "LinearWarmup": lambda lr: lr.LinearWarmup(lr.ExponentialDecay(0.1, 0.5), 2, 0.0, 0.1),
    "ReduceOnPlateau": lambda lr: lr.ReduceOnPlateau(0.1, patience=1, factor=0.5),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_learning_rate_schedules(schedule, compare):
    def train(wrap):
        net, rate = mlp(), SCHEDULES[schedule](paddle.optimizer.lr)
        call, update, rates = wrap(net), paddle.optimizer.AdamW(rate, parameters=net.parameters()), []
        for _ in range(5):
            loss = call(paddle.randn([2, 4])).square().mean()
            loss.backward()
            update.step()
            update.clear_grad()
            rate.step(*([loss] if schedule == "ReduceOnPlateau" else []))
            rates.append(update.get_lr())
        return rates, [p.detach() for p in net.parameters()]

    compare(train)


def test_lazy_parameters(compare):
    def train(wrap):
        with paddle.LazyGuard():
            net = mlp()
        call = wrap(net)
        for parameter in net.parameters():
            parameter.initialize()
        for _ in range(2):
            loss = call(paddle.randn([2, 4])).mean()
            loss.backward()
        return loss.detach(), gradients(net.parameters())

    compare(train)


class Tied(nn.Layer):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(7, 4), nn.Linear(4, 7)
        self.head.weight = paddle.create_parameter([7, 4], "float32")
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        return self.embedding(ids) @ self.head.weight.t() + self.head.bias


def test_tied_parameters(compare):
    def train(wrap):
        net = Tied()
        call, update = wrap(net), paddle.optimizer.Adam(0.1, parameters=net.parameters())
        for _ in range(3):
            ids = paddle.randint(0, 7, [5])
            F.cross_entropy(call(ids), ids).backward()
            update.step()
            update.clear_grad()
        assert net.head.weight is net.embedding.weight
        return [p.detach() for p in net.parameters()]

    compare(train)


def test_frozen_and_thawed(compare):
    def train(wrap):
        net, found = mlp(), []
        call = wrap(net)
        for step in range(6):
            net[0].weight.stop_gradient = step in (2, 3)
            call(paddle.randn([2, 4])).mean().backward()
            found.append(gradients(net.parameters()))
            net.clear_gradients()
        return found

    compare(train, graphs=2)


def test_dropout_draws_as_eager(compare):
    def train(wrap):
        net = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.5), nn.Linear(16, 16), nn.AlphaDropout(0.3), nn.Linear(16, 2))
        call, found = wrap(net), []
        for _ in range(3):
            loss = call(paddle.randn([8, 4])).mean()
            loss.backward()
            found += [loss.detach(), paddle.rand([2])]
        return found, gradients(net.parameters())

    compare(train)


NORMS = {
    "BatchNorm1D": lambda: nn.BatchNorm1D(4),
    "BatchNorm2D": lambda: nn.BatchNorm2D(4, momentum=0.7),
    "BatchNorm": lambda: nn.BatchNorm(4),
    "BatchNorm2D of global statistics": lambda: nn.BatchNorm2D(4, use_global_stats=True),
    "InstanceNorm2D": lambda: nn.InstanceNorm2D(4),
    "GroupNorm": lambda: nn.GroupNorm(2, 4),
}


FINDS_OUT = pytest.mark.alone("both translated runs begin with what a layer has not yet found out")


@pytest.mark.parametrize(
    "norm", [pytest.param(norm, marks=FINDS_OUT) if norm == "BatchNorm1D" else norm for norm in NORMS]
)
def test_statistics(norm, compare):
    shape = [3, 4] if norm == "BatchNorm1D" else [3, 4, 5, 5]

    def train(wrap):
        net, found = NORMS[norm](), []
        call = wrap(net)
        for mode in (net.train, net.train, net.eval, net.train):
            mode()
            x = paddle.randn(shape) * 3 + 1
            x.stop_gradient = False
            y = call(x)
            (y * paddle.randn(shape)).sum().backward()
            found.append(y.detach())
        return found, [b.detach().clone() for b in net.buffers()], gradients(net.parameters())

    compare(train, graphs=2 if "BatchNorm" in norm else 1)
