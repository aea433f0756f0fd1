"""Whole models become one subgraph: no break, no fallback, outputs and gradients equal to eager's."""

import paddle
import paddle.nn.functional as F
import pytest
from paddle import nn

import sot

pytestmark = pytest.mark.divided


def two_ops(x, y):
    z = x + y
    return F.relu(z)


class MLP(nn.Layer):
    def __init__(self, depth=10, width=16):
        super().__init__()
        self.layers = nn.LayerList([nn.Linear(width, width) for _ in range(depth)])

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
        return x


class Block(nn.Layer):
    """A GPT block: shapes unpacked, a lambda and a method as helpers, reshape and transpose."""

    def __init__(self, width=32, heads=4, dropout=0.0):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def split(self, x):
        b, t, w = x.shape
        return x.reshape([b, t, self.heads, w // self.heads]).transpose([0, 2, 1, 3])

    def attend(self, x):
        b, t, w = x.shape
        q, k, v = map(self.split, paddle.split(self.qkv(x), 3, axis=-1))
        scale = (w // self.heads) ** -0.5
        mask = paddle.triu(paddle.full([t, t], -1e4), 1)
        weights = F.softmax(q @ k.transpose([0, 1, 3, 2]) * scale + mask, axis=-1)
        return self.proj((weights @ v).transpose([0, 2, 1, 3]).reshape([b, t, w]))

    def forward(self, x):
        add = lambda a, b: a + b  # noqa: E731
        x = add(x, self.dropout(self.attend(self.norm1(x))))
        return add(x, self.down(F.gelu(self.up(self.norm2(x)))))


class GPT(nn.Layer):
    def __init__(self, vocabulary=50, width=32, depth=2):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(64, width)
        self.blocks = nn.LayerList([Block(width) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(paddle.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Recurrent(nn.Layer):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(8, 16)

    def forward(self, x):
        outputs, state = [], None
        for step in range(x.shape[1]):
            out, state = self.cell(x[:, step], state)
            outputs.append(out)
        return paddle.stack(outputs, axis=1), state


def test_two_ops(check):
    check(two_ops, paddle.randn([2, 3]), paddle.randn([2, 3]))


def test_ten_layer_mlp(check):
    model = MLP()
    check(lambda x: model(x), paddle.randn([4, 16]))


def test_sequential(check):
    model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(4)], nn.ReLU())
    check(lambda x: model(x), paddle.randn([4, 8]))


def test_gpt_block(check):
    model = Block()
    model.eval()
    check(lambda x: model(x), paddle.randn([2, 6, 32]))


def test_gpt(check):
    model = GPT()
    model.eval()
    check(lambda ids: model(ids), paddle.randint(0, 50, [2, 7]))


def test_lstm_cell_over_time(check):
    model = Recurrent()
    check(lambda x: model(x), paddle.randn([2, 5, 8]))


def test_transformer_encoder(check):
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32), 2)
    model.eval()
    check(lambda x: model(x), paddle.randn([2, 5, 16]))


def test_a_layer_comes_back_with_its_forward_translated(same):
    model = MLP(3)
    x = paddle.randn([2, 16])
    expected = model(x)
    assert sot.symbolic_translate(model) is model
    same(model(x), expected)
    same(model(x), expected)
    stats = sot.stats()
    assert (stats.graphs, stats.translations) == (1, 1) and not stats.fallbacks


@pytest.mark.parametrize("make, data", [(MLP, lambda: paddle.randn([4, 16])), (GPT, lambda: paddle.randint(0, 50, [2, 7]))])
def test_gradients(same, make, data):
    model, x = make(), data()
    model.eval()

    def gradients(run):
        model.clear_gradients()
        run(x).sum().backward()
        return [parameter.grad.numpy() for parameter in model.parameters()]

    expected = gradients(model)
    fast = sot.symbolic_translate(lambda x: model(x))
    for _ in range(2):
        same(gradients(fast), expected)
    assert sot.stats().graphs == 1 and not sot.stats().fallbacks


def test_input_gradients(same):
    def f(x, w):
        return F.softmax(x @ w).sum()

    def gradients(run):
        x, w = paddle.ones([2, 3]), paddle.arange(12, dtype="float32").reshape([3, 4])
        x.stop_gradient = w.stop_gradient = False
        run(x, w).backward()
        return [x.grad.numpy(), w.grad.numpy()]

    expected = gradients(f)
    fast = sot.symbolic_translate(f)
    same(gradients(fast), expected)
    same(gradients(fast), expected)
    assert sot.stats().graphs == 1


@pytest.mark.alone("both translated runs begin with what a layer has not yet found out")
def test_train_and_eval_translate_once_each(same):
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.BatchNorm1D(8))
    x = paddle.randn([4, 8])
    fast = sot.symbolic_translate(lambda x: model(x))
    for _ in range(3):
        for switch in (model.train, model.eval):
            switch()
            fast(x)
    assert sot.stats().translations == 2
    model.eval()
    same(fast(x), model(x))


@pytest.mark.alone("both translated runs begin with what a layer has not yet found out")
def test_batch_norm_statistics_follow_eager(same):
    def run(translate):
        paddle.seed(1)
        model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1D(8))
        call = sot.symbolic_translate(lambda x: model(x)) if translate else model
        for step in range(3):
            call(paddle.full([4, 8], float(step)) * paddle.arange(8, dtype="float32"))
        return [buffer.clone() for buffer in model.buffers()]

    same(run(True), run(False))
    assert sot.stats().graphs == 1


@pytest.mark.parametrize("name", ["vgg11", "squeezenet1_0", "shufflenet_v2_x0_5"])
def test_vision_models_as_they_come(check, name):
    """Models in their original size. The zoo has smaller models of the same families."""
    model = getattr(paddle.vision.models, name)()
    model.eval()
    with paddle.no_grad():
        check(lambda images: model(images), paddle.randn([1, 3, 64, 64]))
