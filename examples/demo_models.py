"""Translates a small GPT and ResNet-18 with random weights, and compares with eager and with Paddle's own SOT."""

import os

# Both tracers build graphs of any size, and Paddle's C++ side keeps its notes to itself.
os.environ.setdefault("MIN_GRAPH_SIZE", "0")
os.environ.setdefault("GLOG_minloglevel", "2")

import itertools
import statistics
import time
import warnings

warnings.filterwarnings("ignore", message="No ccache found")

import paddle
import paddle.nn.functional as F
from paddle import nn

import sot


class Block(nn.Layer):
    """A transformer block: causal self-attention and an MLP, each with its residual."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))

    def attend(self, x):
        batch, length, width = x.shape
        split = lambda t: t.reshape([batch, length, self.heads, width // self.heads]).transpose([0, 2, 1, 3])
        q, k, v = [split(part) for part in paddle.chunk(self.qkv(x), 3, axis=-1)]
        scores = q @ k.transpose([0, 1, 3, 2]) / (width // self.heads) ** 0.5
        future = paddle.triu(paddle.full([length, length], -1e9), diagonal=1)
        mixed = F.softmax(scores + future, axis=-1) @ v
        return self.out(mixed.transpose([0, 2, 1, 3]).reshape([batch, length, width]))


class GPT(nn.Layer):
    """Embeddings, blocks, and logits that share the token embedding."""

    def __init__(self, vocabulary=512, context=64, width=128, heads=4, depth=4):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.LayerList([Block(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(paddle.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return paddle.matmul(self.norm(x), self.tokens.weight, transpose_y=True)


def as_function(net):
    """A new function that calls `net`, with a code object equal to no other: tracers keep what they know by code object,
    and none shall meet what was learnt of another model or by another tracer."""

    def run(x):
        return net(x)

    code = run.__code__
    run.__code__ = code.replace(co_consts=(*code.co_consts, next(NUMBERS)))
    return run


NUMBERS = itertools.count()


def seconds_of(fn, x):
    """The result of one call and the seconds it took."""
    started = time.perf_counter()
    result = fn(x)
    return result, time.perf_counter() - started


def batches(functions, x, rounds=9, batch_seconds=0.02):
    """Seconds a call of each function takes, in batches taken in turn so that disturbances hit all alike."""
    calls = {name: max(1, int(batch_seconds / max(seconds_of(fn, x)[1], 1e-7))) for name, fn in functions.items()}
    taken = {name: [] for name in functions}
    for _ in range(rounds):
        for name, fn in functions.items():
            started = time.perf_counter()
            for _ in range(calls[name]):
                fn(x)
            taken[name].append((time.perf_counter() - started) / calls[name])
    return taken


def steady(functions, x):
    """Seconds a call of each function takes once it is warm: the median of its batches."""
    return {name: statistics.median(taken) for name, taken in batches(functions, x).items()}


def table(rows):
    """Rows of text as aligned columns; the first row is the heading."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def ms(seconds):
    return f"{seconds * 1e3:.2f} ms"


def warm_up():
    """Pay for what either tracer loads on its very first use, so that no model is charged with it."""
    add_one = lambda x: x + 1
    x = paddle.ones([2])
    sot.symbolic_translate(as_function(add_one))(x)
    paddle.jit.to_static(as_function(add_one), full_graph=False)(x)


def demonstrate(net, x):
    """One row of figures for a model."""
    net.eval()
    eager = as_function(net)
    expected = eager(x)
    ours = sot.symbolic_translate(as_function(net))
    result, our_first = seconds_of(ours, x)
    difference = float((result - expected).abs().max())
    paddle_sot = paddle.jit.to_static(as_function(net), full_graph=False)
    _, paddle_first = seconds_of(paddle_sot, x)
    times = steady({"eager": eager, "paddle": paddle_sot, "ours": ours}, x)
    explained = sot.explain(as_function(net))(x)
    return [
        str(explained.subgraphs),
        str(explained.statements),
        str(explained.guards),
        f"{difference:.1e}",
        ms(our_first),
        ms(paddle_first),
        ms(times["ours"]),
        ms(times["eager"]),
        ms(times["paddle"]),
    ]


HEADING = [
    "model",
    "subgraphs",
    "statements",
    "guards",
    "difference",
    "first call",
    "Paddle SOT's",
    "steady state",
    "eager",
    "Paddle SOT",
]


def main():
    paddle.seed(0)
    models = {
        "GPT, 4 blocks": (GPT(), paddle.randint(0, 512, [1, 32])),
        "ResNet-18": (paddle.vision.models.resnet18(), paddle.randn([1, 3, 64, 64])),
    }
    with paddle.no_grad():
        warm_up()
        rows = [[name, *demonstrate(*model)] for name, model in models.items()]
    print(table([HEADING, *rows]))


if __name__ == "__main__":
    main()
