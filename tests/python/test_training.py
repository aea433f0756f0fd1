"""Gradients and the grad mode after translated code are those of eager mode."""

import numpy
import paddle
import pytest
from paddle import nn
from paddle.nn import functional as F

import sot


def no_grad_block(x, w):
    y = x * w
    with paddle.no_grad():
        z = y * 2
        flag = paddle.is_grad_enabled()
    return (y * z).sum(), z, flag, paddle.is_grad_enabled()


def nested_modes(x, w):
    with paddle.no_grad():
        a = x * w
        with paddle.enable_grad():
            b = a + x * w
        c = b * 2
    return a, b, c, b.sum()


@paddle.no_grad()
def without_grad(x):
    return x * 3


def decorated_callee(x, w):
    return without_grad(x) + w


def mode_by_condition(x, w):
    with paddle.set_grad_enabled(x.shape[0] > 100):
        y = x * w
    return y, y + w


def mode_set_by_calls(x, w):
    before = paddle.is_grad_enabled()
    paddle.set_grad_enabled(False)
    y = x * w
    paddle.set_grad_enabled(before)
    return y, x * w


def raised_and_caught(x, w):
    try:
        with paddle.no_grad():
            y = x * w
            raise ValueError
    except ValueError:
        return y, x + w


def detached_input(x, w):
    return x.detach() * 3 + w, F.relu(x.detach())


def stopped_output_then_used(x, w):
    y = x.detach() * 2.0
    z = y + w
    return y, z, F.relu(z)


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize(
    "fn",
    [
        no_grad_block,
        nested_modes,
        decorated_callee,
        mode_by_condition,
        mode_set_by_calls,
        raised_and_caught,
        detached_input,
        stopped_output_then_used,
    ],
    ids=lambda fn: fn.__name__,
)
def test_values_flags_and_gradients(fn, enabled, same):
    x, w = paddle.rand([3]), paddle.rand([3])
    x.stop_gradient = w.stop_gradient = False

    def run(called):
        x.clear_gradient(set_to_zero=False)
        w.clear_gradient(set_to_zero=False)
        with paddle.set_grad_enabled(enabled):
            outputs = called(x, w)
            assert paddle.is_grad_enabled() == enabled
        differentiable = [y for y in outputs if isinstance(y, paddle.Tensor) and not y.stop_gradient]
        if differentiable:
            paddle.add_n([y.sum() for y in differentiable]).backward()
        return outputs, [None if t.grad is None else t.grad.numpy() for t in (x, w)]

    inputs = x.numpy(), w.numpy()
    expected = run(fn)
    fast = sot.symbolic_translate(fn)
    same(run(fast), expected)
    first = sot.stats()
    if fn is not decorated_callee or not paddle.__version__.startswith("3.0"):  # There Paddle builds the decorator from text.
        assert first.graphs == 1 and not first.breaks and not first.fallbacks, f"\n{first}"
    same(run(fast), expected)
    assert sot.stats().translations == first.translations
    same((x.numpy(), w.numpy()), inputs)


def test_detached_outputs_share_memory(same):
    def f(x):
        y = x * 2
        return y.detach(), y, x.detach(), x.detach().detach()

    fast = sot.symbolic_translate(f)
    for _ in range(2):
        x = paddle.ones([2])
        x.stop_gradient = False
        of_result, result, of_input, twice = fast(x)
        assert of_result.stop_gradient and not result.stop_gradient and of_input.stop_gradient and twice.stop_gradient
        of_result.zero_()
        of_input.fill_(5.0)
        same([result.numpy(), x.numpy(), twice.numpy()], [paddle.zeros([2]).numpy(), *[paddle.full([2], 5.0).numpy()] * 2])


def test_the_mode_survives_a_failing_trace():
    def f(x):
        with paddle.no_grad():
            y = x + 1
            return y.no_such_attribute

    fast = sot.symbolic_translate(f)
    for _ in range(2):
        with pytest.raises(AttributeError):
            fast(paddle.ones([2]))
        assert paddle.is_grad_enabled()


def test_a_break_inside_no_grad(same):
    def f(x):
        with paddle.no_grad():
            y = x * 2
            y = y + float(y.sum())
            z = y * 3
        return z, x * y

    x = paddle.ones([2])
    x.stop_gradient = False
    fast = sot.symbolic_translate(f)
    for _ in range(2):
        same(fast(x), f(x))
        assert paddle.is_grad_enabled()


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2D(1, 4, 3), nn.BatchNorm2D(4), nn.ReLU(), nn.Dropout(0.3), nn.Flatten())
        self.head = nn.Linear(4 * 6 * 6, 5)

    def forward(self, x):
        return self.head(self.body(x))


@pytest.mark.parametrize("clip", [None, nn.ClipGradByGlobalNorm(0.1)], ids=["unclipped", "clipped"])
@pytest.mark.parametrize("optimizer", ["Momentum", "AdamW"])
def test_twenty_steps_equal_eager(optimizer, clip, same):
    def train(net, wrap):
        paddle.seed(7)
        rate = paddle.optimizer.lr.StepDecay(0.05, 5, 0.5)
        update = getattr(paddle.optimizer, optimizer)(rate, parameters=net.parameters(), grad_clip=clip, weight_decay=0.01)

        def step(x, y):
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            update.step()
            update.clear_grad()
            return loss

        losses, step = [], wrap(step)
        for _ in range(20):
            losses.append(float(step(paddle.randn([8, 1, 8, 8]), paddle.randint(0, 5, [8]))))
            rate.step()
        return losses, {name: value.numpy() for name, value in net.state_dict().items()}

    eager = Net()
    translated = Net()
    translated.set_state_dict(eager.state_dict())
    expected = train(eager, lambda step: step)
    same(train(translated, sot.symbolic_translate), expected)
    stats = sot.stats()
    assert stats.graphs == 1 and len(stats.breaks) == 3, f"\n{stats}"


def test_gradients_outlive_the_translation_of_another_program(same):
    """Paddle drops the gradients of parameters when it prepares a program with these parameters."""

    def train(wrap):
        paddle.seed(3)
        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))

        def step(x, y):
            first = (net(x) ** 2).mean()
            first.backward()
            second = net(y).sum() * 2
            second.backward()
            return first, second

        step = wrap(step)
        losses = [step(paddle.randn([3, 4]), paddle.randn([3, 4])) for _ in range(2)]
        return losses, [p.grad.numpy() for p in net.parameters()]

    expected = train(lambda step: step)
    same(train(sot.symbolic_translate), expected)
    assert sot.stats().graphs == 2 and len(sot.stats().breaks) == 2


class Counting(nn.Layer):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", paddle.zeros([1]))

    def forward(self, x):
        self.calls = self.calls + 1
        return x * self.calls


def written_by_another_way(net, x):
    buffers = net.__dict__.get("_buffers")
    buffers["calls"] = x + 5
    return net.calls * x


def test_a_buffer_bound_in_forward_is_read_back(same):
    x = paddle.ones([1])
    eager, net = Counting(), Counting()
    fast = sot.symbolic_translate(net)
    for _ in range(3):
        same(fast(x), eager(x))
    same(net.calls.numpy(), eager.calls.numpy())
    other = sot.symbolic_translate(written_by_another_way)
    for _ in range(2):
        same(other(net, x), written_by_another_way(eager, x))


TABLE, NUMBERS = paddle.rand([5, 4]), paddle.arange(5)


def written_at(x):
    y = TABLE.clone()
    y[x.argsort(0)[:, 0]] = 1.0
    return y


BESIDE = {
    "index": lambda x: TABLE[x.argsort(0)[:, 0]],
    "index of integers": lambda x: NUMBERS[x.topk(2, axis=0)[1][0]],
    "gather": lambda x: paddle.gather(TABLE, x.argmax(0)),
    "gather sorted": lambda x: paddle.gather(TABLE, x.argsort(0)[:, 0]),
    "gather_nd": lambda x: paddle.gather_nd(TABLE, x.argsort(0)[:, :1]),
    "index_select": lambda x: paddle.index_select(TABLE, x.argsort(0)[:, 0]),
    "take_along_axis": lambda x: paddle.take_along_axis(TABLE, x.argsort(0), 0),
    "put_along_axis": lambda x: paddle.put_along_axis(TABLE, x.argsort(0), 1.0, 0),
    "scatter": lambda x: paddle.scatter(TABLE, x.argsort(0)[:, 0], TABLE),
    "index_add": lambda x: paddle.index_add(TABLE, x.argsort(0)[:, 0], 0, TABLE),
    "index_put": lambda x: paddle.index_put(TABLE, (x.argsort(0)[:, 0],), paddle.ones([4])),
    "embedding": lambda x: F.embedding(x.argsort(0), TABLE),
    "repeats": lambda x: paddle.repeat_interleave(TABLE, x.argsort(0)[:, 0], 0),
    "labels": lambda x: F.cross_entropy(TABLE, x.argsort(1)[:, 0]),
    "soft labels": lambda x: F.binary_cross_entropy(TABLE, x),
    "condition": lambda x: paddle.where(x.argsort(0).astype("bool"), TABLE, TABLE * 2),
    "writing": written_at,
    "index and source": lambda x: x[x.argsort(0)[:, 0]],
    "values": lambda x: paddle.put_along_axis(TABLE, x.argsort(0), x, 0),
    "loss of both": lambda x: F.smooth_l1_loss(TABLE, x),
    "of integers": lambda x: x.argsort(0) + 1,
}


@pytest.mark.parametrize("name", BESIDE)
def test_what_says_where_takes_no_gradient(name, same):
    """Holds also when the graph is a program: from the second step on."""

    def fn(x):
        return (x * 2).sum(), BESIDE[name](x)

    fast = sot.symbolic_translate(fn)
    for _ in range(3):
        seen = []
        for made in (fast, fn):
            x = paddle.to_tensor(numpy.random.RandomState(3).rand(5, 4).astype("float32"), stop_gradient=False)
            loss, result = made(x)
            if result.dtype == paddle.float32 and not result.stop_gradient:
                loss = loss + result.sum()
            loss.backward()
            seen.append((result.detach(), result.stop_gradient, x.grad.detach()))
        same(*seen)
