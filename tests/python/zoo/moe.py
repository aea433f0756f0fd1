"""Mixtures of experts: dense routing by masks, capacity by cumulative sums, and routing by what the router chose."""

import paddle
import paddle.nn.functional as F
from paddle import nn

from . import Task, task


class Expert(nn.Layer):
    def __init__(self, dim, hidden):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))

    def forward(self, x):
        return self.net(x)


class MoE(nn.Layer):
    """Tokens go to their `top_k` experts, weighted by the gate; all experts see all tokens."""

    def __init__(self, dim=8, num_experts=3, top_k=2, noisy=True):
        super().__init__()
        self.num_experts, self.top_k, self.noisy = num_experts, top_k, noisy
        self.gate = nn.Linear(dim, num_experts, bias_attr=False)
        self.noise = nn.Linear(dim, num_experts, bias_attr=False)
        self.experts = nn.LayerList([Expert(dim, 2 * dim) for _ in range(num_experts)])

    def forward(self, x):
        shape = x.shape
        x = x.reshape([-1, shape[-1]])
        logits = self.gate(x)
        if self.noisy and self.training:
            logits = logits + paddle.randn(logits.shape) * F.softplus(self.noise(x))
        weights, selected = paddle.topk(logits, self.top_k)
        weights = F.softmax(weights, axis=-1)
        combine = (F.one_hot(selected, self.num_experts) * weights.unsqueeze(-1)).sum(1)
        outputs = paddle.stack([expert(x) for expert in self.experts], axis=1)
        y = paddle.einsum("te,ted->td", combine, outputs)
        importance, load = combine.sum(0), (combine > 0).astype("float32").sum(0)
        aux = self.cv_squared(importance) + self.cv_squared(load)
        return y.reshape(shape), {"aux_loss": aux, "load": load}

    def cv_squared(self, x, eps=1e-10):
        if x.shape[0] == 1:
            return paddle.zeros([1])
        return x.var() / (x.mean() ** 2 + eps)


class Regression(Task):
    def batch(self, step):
        x = paddle.randn([2, 5, 8])
        return x, paddle.tanh(x.flip(-1))

    def predict(self, x, y):
        return self.model(x)


@task
class Dense(Regression):
    title = "Mixture of experts, dense"
    shows = "`topk`, one-hot combination by `einsum`, noise while training, auxiliary loss in a dict"

    def __init__(self):
        self.model = MoE()

    def loss(self, x, y):
        out, extra = self.model(x)
        return F.mse_loss(out, y) + 0.01 * extra["aux_loss"]


class SwitchMoE(nn.Layer):
    """One expert a token, each with a capacity: what is too much is dropped."""

    def __init__(self, dim=8, num_experts=3, capacity_factor=1.25):
        super().__init__()
        self.num_experts, self.capacity_factor = num_experts, capacity_factor
        self.gate = nn.Linear(dim, num_experts)
        self.w1 = self.create_parameter([num_experts, dim, 2 * dim])
        self.w2 = self.create_parameter([num_experts, 2 * dim, dim])

    def forward(self, x):
        b, n, d = x.shape
        tokens = x.reshape([b * n, d])
        capacity = max(int(self.capacity_factor * tokens.shape[0] / self.num_experts), 1)
        gates = F.softmax(self.gate(tokens), axis=-1)
        index = gates.argmax(-1)
        mask = F.one_hot(index, self.num_experts)
        position = (paddle.cumsum(mask, axis=0) - 1.0) * mask
        mask = mask * (position < capacity).astype(mask.dtype)
        gate = (gates * mask).sum(-1)
        slot = F.one_hot((position * mask).sum(-1).astype("int64"), capacity)
        dispatch = paddle.einsum("te,tc->tec", mask, slot)
        inputs = paddle.einsum("tec,td->ecd", dispatch, tokens)
        hidden = F.gelu(paddle.einsum("ecd,edh->ech", inputs, self.w1))
        outputs = paddle.einsum("ech,ehd->ecd", hidden, self.w2)
        out = paddle.einsum("tec,ecd->td", dispatch * gate.unsqueeze(-1).unsqueeze(-1), outputs)
        density, proxy = mask.mean(0), gates.mean(0)
        return out.reshape([b, n, d]), (density * proxy).sum() * self.num_experts


@task
class Switch(Regression):
    title = "Switch transformer's layer"
    shows = "capacity by `cumsum`, dispatch and combination as `einsum` over three axes, parameters of all experts in one"

    def __init__(self):
        self.model = SwitchMoE()

    def loss(self, x, y):
        out, balance = self.model(x)
        return F.mse_loss(out, y) + 0.01 * balance


class SparseMoE(MoE):
    """Mixtral's: each expert is given the tokens that chose it."""

    def forward(self, x):
        shape = x.shape
        x = x.reshape([-1, shape[-1]])
        weights, selected = paddle.topk(F.softmax(self.gate(x), axis=-1), self.top_k)
        weights = weights / weights.sum(-1, keepdim=True)
        out = paddle.zeros_like(x)
        expert_mask = F.one_hot(selected, self.num_experts).transpose([2, 1, 0])
        for expert_idx, expert in enumerate(self.experts):
            idx, top_x = paddle.where(expert_mask[expert_idx])
            idx, top_x = idx.flatten(), top_x.flatten()
            if top_x.shape[0] == 0:
                continue
            current = expert(x[top_x]) * weights[top_x, idx].unsqueeze(-1)
            out = paddle.scatter_nd_add(out, top_x.unsqueeze(-1), current)
        return out.reshape(shape), {}


@task
class Sparse(Regression):
    title = "Mixture of experts, sparse"
    shows = "`where` gives each expert as many tokens as chose it: `if top_x.shape[0] == 0` is decided by values"

    eval_graphs, eval_breaks = 4, ("tensor-value",) * 3
    train_graphs, train_breaks = 4, ("tensor-value",) * 3

    def __init__(self):
        self.model = SparseMoE(noisy=False)

    def batch(self, step):
        paddle.seed(5)
        return super().batch(0)

    def loss(self, x, y):
        return F.mse_loss(self.model(x)[0], y)
