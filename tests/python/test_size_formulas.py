"""Random programs that ask for sizes of results. The tracer computes these sizes from the sizes of the inputs."""

import os
import random

import numpy
import paddle
import pytest
from paddle.nn import functional as F

import sot

# Each takes a tensor of two dimensions and gives one, and is right for every size from 2 on.
STEPS = {
    "plus": lambda x: x + 1,
    "transposed": lambda x: x.t(),
    "product": lambda x: x @ x.t(),
    "twice": lambda x: paddle.concat([x, x]),
    "longer": lambda x: paddle.concat([x, paddle.ones([3, x.shape[1]])]),
    "without the first": lambda x: paddle.concat([x, x])[1:],
    "up to a place": lambda x: x[:6],
    "far": lambda x: x[:10_050],
    "the last": lambda x: x[-5:],
    "every second": lambda x: x[::2],
    "padded": lambda x: F.pad(x, [1, 2, 0, 0], pad_from_left_axis=False) if hasattr(paddle, "compat") else F.pad(x, [0, 0, 1, 2]),
    "pooled": lambda x: F.avg_pool1d(x.unsqueeze(0), 2, 2, ceil_mode=True)[0],
    "window": lambda x: F.avg_pool1d(x.unsqueeze(0), 3, 1, padding=1)[0],
    "resized": lambda x: F.interpolate(x.unsqueeze(0), scale_factor=2, mode="linear", data_format="NCW")[0],
    "tiled": lambda x: x.tile([2, 1]),
    "flat": lambda x: x.flatten().unsqueeze(0),
    "two rows": lambda x: x.reshape([1, -1]).tile([2, 1]),
    "repeated": lambda x: x.repeat_interleave(2, axis=0),
    "outer": lambda x: x[:, :1] * x[:1],
    "sum": lambda x: x.sum(1, keepdim=True),
}
QUESTIONS = {
    "more": lambda n, k: n > k,
    "even": lambda n, k: n % 2 == 0,
    "same": lambda n, k: n == k,
    "divided": lambda n, k: n // 3 > k // 3,
    "root": lambda n, k: n**0.5,
    "shape": lambda n, k: (n, n * 2, n - k),
}
SIZES = [3, 5, 4, 8, 11, 6, 2, 7, 9, 13, 10_040, 10_200]
PROGRAMS = int(os.environ.get("SOT_SIZE_PROGRAMS", "25"))


def program(steps, axis, question, k):
    def run(x):
        y = x
        for step in steps:
            y = STEPS[step](y)
        answer = QUESTIONS[question](y.shape[axis], k)
        return (y[:40, :40] * 2 if answer is True else y[:40, :40]), answer

    return run


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_sizes_of_results(seed):
    draw = random.Random(seed)
    steps = [draw.choice(list(STEPS)) for _ in range(draw.randint(1, 3))]
    steps = steps[: steps.index("product") + 1] if "product" in steps else steps
    sizes = SIZES[:-2] if "product" in steps else SIZES
    run = program(steps, draw.randint(0, 1), draw.choice(list(QUESTIONS)), draw.randint(2, 12))
    fast = sot.symbolic_translate(run)
    with sot.config.patch(min_graph_size=0):
        for size in sizes:
            x = paddle.arange(size * 2, dtype="float32").reshape([size, 2])
            (expected, expected_answer), (actual, answer) = run(x), fast(x)
            assert (actual.shape, answer) == (expected.shape, expected_answer), (steps, size)
            numpy.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=1e-5, err_msg=f"{steps} {size}")
    assert sot.stats().graphs, (steps, sot.stats())
