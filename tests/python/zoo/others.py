"""Of many kinds: recommenders with dicts of features, graphs, contrast, actors and critics, convolutions over time, detection."""

from collections import OrderedDict, namedtuple
from typing import Dict, List, NamedTuple, Optional

import paddle
import paddle.nn.functional as F
from paddle import nn

from . import Task, task


class DeepFM(nn.Layer):
    """Features by name, each with a table of its own; `forward` takes the batch as keywords."""

    def __init__(self, fields: Dict[str, int], dense: List[str], dim=4):
        super().__init__()
        self.fields, self.dense = OrderedDict(fields), list(dense)
        self.first = nn.LayerDict({name: nn.Embedding(size, 1) for name, size in fields.items()})
        self.second = nn.LayerDict({name: nn.Embedding(size, dim) for name, size in fields.items()})
        self.linear = nn.Linear(len(dense), 1)
        layers = []
        for i, (a, b) in enumerate(zip([len(fields) * dim + len(dense), 8], [8, 1])):
            layers.append((f"linear_{i}", nn.Linear(a, b)))
            if b > 1:
                layers.append((f"act_{i}", nn.ReLU()))
        self.dnn = nn.Sequential(*layers)

    def forward(self, **features):
        missing = [name for name in [*self.fields, *self.dense] if name not in features]
        if missing:
            raise KeyError(f"missing features: {', '.join(missing)}")
        dense = paddle.stack([features[name] for name in self.dense], axis=-1)
        first = sum(self.first[name](features[name]) for name in self.fields) + self.linear(dense)
        embedded = paddle.stack([self.second[name](features[name]) for name in self.fields.keys()], axis=1)
        square_of_sum, sum_of_square = embedded.sum(1).square(), embedded.square().sum(1)
        second = 0.5 * (square_of_sum - sum_of_square).sum(1, keepdim=True)
        deep = self.dnn(paddle.concat([embedded.flatten(1), dense], axis=1))
        return F.sigmoid(first + second + deep).squeeze(-1)


@task
class Recommender(Task):
    title = "DeepFM"
    shows = "batches as dicts and `**features`, comprehensions over `LayerDict`, `sum` of tensors, named `Sequential`"

    def __init__(self):
        self.model = DeepFM({"user": 6, "item": 9, "day": 7}, ["age", "price"])

    def batch(self, step):
        sparse = {name: paddle.randint(0, size, [4]) for name, size in self.model.fields.items()}
        dense = {name: paddle.rand([4]) for name in self.model.dense}
        return {**sparse, **dense}, paddle.randint(0, 2, [4]).astype("float32")

    def predict(self, features, clicked):
        return self.model(**features)

    def loss(self, features, clicked):
        return F.binary_cross_entropy(self.model(**features), clicked)


Graph = namedtuple("Graph", "x edges")


class GATConv(nn.Layer):
    def __init__(self, in_dim, out_dim, heads=2, concat=True):
        super().__init__()
        self.heads, self.out_dim, self.concat = heads, out_dim, concat
        self.lin = nn.Linear(in_dim, heads * out_dim, bias_attr=False)
        self.att_src = self.create_parameter([1, heads, out_dim])
        self.att_dst = self.create_parameter([1, heads, out_dim])

    def forward(self, graph: Graph) -> Graph:
        src, dst = graph.edges[0], graph.edges[1]
        n = graph.x.shape[0]
        x = self.lin(graph.x).reshape([n, self.heads, self.out_dim])
        alpha_src, alpha_dst = (x * self.att_src).sum(-1), (x * self.att_dst).sum(-1)
        alpha = F.leaky_relu(alpha_src[src] + alpha_dst[dst], 0.2)
        alpha = paddle.exp(alpha - alpha.max())
        total = paddle.zeros([n, self.heads]).index_add(dst, 0, alpha)
        alpha = alpha / (total[dst] + 1e-16)
        messages = x[src] * alpha.unsqueeze(-1)
        out = paddle.zeros_like(x).index_add(dst, 0, messages)
        out = out.reshape([n, -1]) if self.concat else out.mean(axis=1)
        return graph._replace(x=out)


@task
class GAT(Task):
    title = "Graph attention network"
    shows = "named tuples with `_replace`, gather and `index_add` along edges"

    def __init__(self):
        self.conv1, self.conv2 = GATConv(5, 4), GATConv(8, 3, concat=False)

    def batch(self, step):
        edges = paddle.to_tensor([[0, 1, 2, 3, 4, 0, 2, 5], [1, 2, 3, 4, 5, 5, 0, 1]])
        return Graph(paddle.randn([6, 5]), edges), paddle.randint(0, 3, [6])

    def predict(self, graph, labels):
        hidden = self.conv1(graph)
        return self.conv2(hidden._replace(x=F.elu(hidden.x)))

    def loss(self, graph, labels):
        return F.cross_entropy(self.predict(graph, labels).x, labels)


class CLIP(nn.Layer):
    def __init__(self, dim=6):
        super().__init__()
        self.visual, self.textual = nn.Linear(8, dim), nn.Embedding(10, dim)
        self.logit_scale = self.create_parameter([1], default_initializer=nn.initializer.Constant(2.65))

    def forward(self, image, text):
        image_features = self.visual(image)
        text_features = self.textual(text).mean(1)
        image_features = image_features / image_features.norm(axis=-1, keepdim=True)
        text_features = F.normalize(text_features, axis=-1)
        scale = self.logit_scale.exp().clip(max=100)
        logits = scale * image_features @ text_features.t()
        return logits, logits.t()


@task
class Contrastive(Task):
    title = "CLIP"
    shows = "a learnt temperature, logits and their transposition, labels by `arange`"

    def __init__(self):
        self.model = CLIP()

    def batch(self, step):
        return paddle.randn([4, 8]), paddle.randint(0, 10, [4, 3])

    def predict(self, image, text):
        per_image, per_text = self.model(image, text)
        return F.softmax(per_image, axis=-1), per_text.argmax(-1)

    def loss(self, image, text):
        per_image, per_text = self.model(image, text)
        labels = paddle.arange(len(per_image))
        return (F.cross_entropy(per_image, labels) + F.cross_entropy(per_text, labels)) / 2


class BYOLNet(nn.Layer):
    def __init__(self):
        super().__init__()
        self.online = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1D(6), nn.ReLU(), nn.Linear(6, 4))
        self.target = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1D(6), nn.ReLU(), nn.Linear(6, 4))
        self.predictor = nn.Linear(4, 4)
        for param, target in zip(self.online.parameters(), self.target.parameters()):
            target.set_value(param)
            target.stop_gradient = True

    def forward(self, x1, x2):
        def regression(a, b):
            return 2 - 2 * F.cosine_similarity(a, b, axis=-1)

        p1, p2 = self.predictor(self.online(x1)), self.predictor(self.online(x2))
        with paddle.no_grad():
            t1, t2 = self.target(x1).detach(), self.target(x2).detach()
        return (regression(p1, t2) + regression(p2, t1)).mean()


@task
class BYOL(Task):
    title = "BYOL"
    shows = "a network without gradients beside one with, `no_grad` in `forward`, a function in `forward`"

    def __init__(self):
        self.model = BYOLNet()

    def batch(self, step):
        x = paddle.randn([6, 8])
        return x + 0.1 * paddle.randn([6, 8]), x

    def predict(self, x1, x2):
        return self.model(x1, x2)

    loss = predict


class Step(NamedTuple):
    action: paddle.Tensor
    log_prob: paddle.Tensor
    value: paddle.Tensor
    entropy: Optional[paddle.Tensor] = None


class ActorCritic(nn.Layer):
    def __init__(self, obs=4, actions=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, 8), nn.Tanh())
        self.pi, self.v = nn.Linear(8, actions), nn.Linear(8, 1)

    def forward(self, obs, action=None):
        hidden = self.body(obs)
        dist = paddle.distribution.Categorical(logits=self.pi(hidden))
        if action is None:
            action = dist.sample([1]).squeeze(0)
        return Step(action, dist.log_prob(action), self.v(hidden).squeeze(-1), dist.entropy())


@task
class PPO(Task):
    title = "PPO"
    shows = "`Categorical` made in `forward` (its `sample` asks numpy), `NamedTuple` outputs, clipped ratios"

    def __init__(self):
        self.model = ActorCritic()

    def batch(self, step):
        return paddle.randn([6, 4]), paddle.randint(0, 3, [6]), paddle.randn([6]), paddle.full([6], -1.1)

    def predict(self, obs, action, advantage, old_log_prob):
        return self.model(obs)

    def loss(self, obs, action, advantage, old_log_prob, clip=0.2):
        step = self.model(obs, action)
        ratio = paddle.exp(step.log_prob - old_log_prob)
        surrogate = paddle.minimum(ratio * advantage, paddle.clip(ratio, 1 - clip, 1 + clip) * advantage)
        value_loss = F.smooth_l1_loss(step.value, advantage)
        return -surrogate.mean() + 0.5 * value_loss - 0.01 * step.entropy.mean()


class DilatedBlock(nn.Layer):
    def __init__(self, channels, dilation):
        super().__init__()
        self.padding = 2 * dilation
        self.filter = nn.utils.weight_norm(nn.Conv1D(channels, channels, 3, padding=self.padding, dilation=dilation))
        self.gate = nn.Conv1D(channels, channels, 3, padding=self.padding, dilation=dilation)
        self.skip = nn.Conv1D(channels, channels, 1)

    def forward(self, x):
        crop = slice(None, -self.padding)
        h = paddle.tanh(self.filter(x)[:, :, crop]) * F.sigmoid(self.gate(x)[..., : -self.padding])
        skip = self.skip(h)
        return x + skip, skip


@task
class WaveNet(Task):
    title = "WaveNet"
    shows = "causal convolutions by slicing, `weight_norm`, skips summed in a loop"

    def __init__(self):
        self.embed, self.out = nn.Embedding(8, 4), nn.Conv1D(4, 8, 1)
        self.blocks = nn.LayerList([DilatedBlock(4, 2**i) for i in range(2)])

    def batch(self, step):
        return (paddle.randint(0, 8, [2, 10]),)

    def predict(self, samples):
        x, skips = self.embed(samples).transpose([0, 2, 1]), None
        for block in self.blocks:
            x, skip = block(x)
            skips = skip if skips is None else skips + skip
        return self.out(F.relu(skips))

    def loss(self, samples):
        logits = self.predict(samples)[:, :, :-1]
        return F.cross_entropy(logits, samples[:, 1:], axis=1)


class YOLOHead(nn.Layer):
    anchors = ((1.0, 1.5), (2.0, 1.0))

    def __init__(self, num_classes=2):
        super().__init__()
        self.num_classes, self.na, self.no = num_classes, len(self.anchors), num_classes + 5
        self.stems = nn.LayerList([nn.Conv2D(3, 4, 3, stride=4, padding=1), nn.Conv2D(3, 4, 3, stride=8, padding=1)])
        self.heads = nn.LayerList([nn.Conv2D(4, self.na * self.no, 1) for _ in self.stems])
        self.grid = [None] * len(self.heads)

    def make_grid(self, nx, ny):
        ys, xs = paddle.meshgrid(paddle.arange(ny), paddle.arange(nx))
        return paddle.stack((xs, ys), 2).reshape([1, 1, ny, nx, 2]).astype("float32")

    def forward(self, x):
        raw, decoded = [], []
        for i, (stem, head) in enumerate(zip(self.stems, self.heads)):
            y = head(F.hardswish(stem(x)))
            bs, _, ny, nx = y.shape
            y = y.reshape([bs, self.na, self.no, ny, nx]).transpose([0, 1, 3, 4, 2])
            raw.append(y)
            if not self.training:
                if self.grid[i] is None or self.grid[i].shape[2:4] != y.shape[2:4]:
                    self.grid[i] = self.make_grid(nx, ny)
                xy, wh, conf = F.sigmoid(y).split([2, 2, self.num_classes + 1], axis=-1)
                anchor = paddle.to_tensor(self.anchors).reshape([1, self.na, 1, 1, 2])
                out = paddle.concat(((xy * 2 + self.grid[i] - 0.5), (wh * 2) ** 2 * anchor, conf), axis=-1)
                decoded.append(out.reshape([bs, -1, self.no]))
        return raw if self.training else (paddle.concat(decoded, 1), raw)


@task
class Detector(Task):
    title = "YOLO's head"
    shows = "grids kept in a list when first needed, other outputs in training, several scales"
    settles = 2  # The grids are there.

    def __init__(self):
        self.model = YOLOHead()

    def batch(self, step):
        return paddle.randn([1, 3, 16, 16]), paddle.rand([1, 2, 4, 4])

    def predict(self, images, target):
        return self.model(images)

    def loss(self, images, target):
        total = paddle.zeros([1])
        for y in self.model(images):
            wanted = F.interpolate(target, size=y.shape[2:4])
            objectness = F.binary_cross_entropy_with_logits(y[..., 4], wanted)
            boxes = (1 - F.sigmoid(y[..., :4])).square().mean([1, 2, 3, 4])
            total += objectness + boxes.mean()
        return total


class LoRALinear(nn.Layer):
    def __init__(self, linear, r=2, alpha=4):
        super().__init__()
        self.linear, self.scaling, self.merged = linear, alpha / r, False
        linear.weight.stop_gradient = True
        self.lora_a = self.create_parameter([linear.weight.shape[0], r])
        self.lora_b = self.create_parameter([r, linear.weight.shape[1]], default_initializer=nn.initializer.Constant(0.0))

    def forward(self, x):
        y = self.linear(x)
        return y if self.merged else y + (x @ self.lora_a @ self.lora_b) * self.scaling


def add_lora(model, targets=("0", "2")):
    for name, layer in list(model.named_sublayers()):
        if isinstance(layer, nn.Linear) and name in targets:
            setattr(model, name, LoRALinear(layer))
    return model


@task
class LoRA(Task):
    title = "LoRA"
    shows = "sublayers replaced after the model was made, frozen weights, a post-hook that changes the output"

    def __init__(self):
        self.model = add_lora(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)))
        self.model.register_forward_post_hook(lambda layer, inputs, output: output * 2.0)

    def batch(self, step):
        return paddle.randn([4, 6]), paddle.randint(0, 3, [4])

    def predict(self, x, y):
        return self.model(x)

    def loss(self, x, y):
        return F.cross_entropy(self.model(x), y)


class TextCNN(nn.Layer):
    def __init__(self, vocab=20, dim=6, kernels=(2, 3), classes=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.convs = nn.LayerList([nn.Conv2D(1, 4, (k, dim)) for k in kernels])
        self.fc = nn.Linear(4 * len(kernels), classes)

    def conv_and_pool(self, x, conv):
        x = F.relu(conv(x)).squeeze(3)
        return F.max_pool1d(x, x.shape[2]).squeeze(2)

    def forward(self, x):
        x = self.embed(x).unsqueeze(1)
        x = paddle.concat([self.conv_and_pool(x, conv) for conv in self.convs], 1)
        return self.fc(F.dropout(x, 0.3, training=self.training))


@task
class Text(Task):
    title = "TextCNN"
    shows = "comprehension over a `LayerList` with a method, functional dropout"

    def __init__(self):
        self.model = TextCNN()

    def batch(self, step):
        return paddle.randint(0, 20, [3, 7]), paddle.randint(0, 3, [3])

    def predict(self, ids, labels):
        return self.model(ids)

    def loss(self, ids, labels):
        return F.cross_entropy(self.model(ids), labels)
