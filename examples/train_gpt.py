"""A training script that knows nothing of compilation: a small GPT learns to continue a text, character by character.

    python examples/train_gpt.py                                    # in eager mode
    python -m sot run --report report examples/train_gpt.py         # translated; report/index.html shows what was done
"""

import argparse
import time

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F

TEXT = "A graph is made of statements, a statement of symbols, and a symbol stands for a tensor. " * 40


class Attention(nn.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(x).reshape([batch, length, 3, self.heads, width // self.heads])
        q, k, v = qkv.transpose([2, 0, 3, 1, 4]).unbind(0)
        scores = q @ k.transpose([0, 1, 3, 2]) * (width // self.heads) ** -0.5
        mask = paddle.triu(paddle.full([length, length], float("-inf")), 1)
        mixed = F.softmax(scores + mask, axis=-1) @ v
        return self.out(mixed.transpose([0, 2, 1, 3]).reshape([batch, length, width]))


class Block(nn.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.feed_norm = nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed(self.feed_norm(x))


class GPT(nn.Layer):
    def __init__(self, letters, length=64, width=64, heads=4, depth=3):
        super().__init__()
        self.letter = nn.Embedding(letters, width)
        self.position = nn.Embedding(length, width)
        self.blocks = nn.LayerList([Block(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, letters)

    def forward(self, letters):
        x = self.letter(letters) + self.position(paddle.arange(letters.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def loss_of(model, letters, targets, smoothing):
    logits = model(letters)
    loss = F.cross_entropy(logits.reshape([-1, logits.shape[-1]]), targets.reshape([-1]))
    if smoothing > 0:
        loss = (1 - smoothing) * loss - smoothing * F.log_softmax(logits).mean()
    return loss


def train_step(model, optimizer, letters, targets, smoothing):
    loss = loss_of(model, letters, targets, smoothing)
    loss.backward()
    # A look at a value in the middle of the step: the graph has to end here.
    if float(loss) > 20:
        print("the loss is very large; this step is left out")
    else:
        optimizer.step()
    optimizer.clear_grad()
    return loss


def batches(codes, length, size, steps):
    random = np.random.RandomState(0)
    for step in range(steps):
        # Now and then a shorter text.
        cut = length // 2 if step % 5 == 4 else length
        starts = random.randint(0, len(codes) - cut - 1, size)
        window = np.stack([codes[start : start + cut + 1] for start in starts])
        yield paddle.to_tensor(window[:, :-1]), paddle.to_tensor(window[:, 1:])


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--steps", type=int, default=30)
    options = options.parse_args()
    paddle.seed(0)
    letters = sorted(set(TEXT))
    codes = np.array([letters.index(letter) for letter in TEXT], dtype="int64")
    model = GPT(len(letters))
    optimizer = paddle.optimizer.AdamW(3e-3, parameters=model.parameters())
    start = time.perf_counter()
    for number, (inputs, targets) in enumerate(batches(codes, 64, 8, options.steps)):
        smoothing = 0.1 if number < options.steps // 2 else 0.0
        loss = train_step(model, optimizer, inputs, targets, smoothing)
        if number % 10 == 0 or number == options.steps - 1:
            print(f"step {number:3}: loss {float(loss):.3f}")
    print(f"{options.steps} steps in {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
