"""Random programs that ask for sizes of results. The tracer computes these sizes from the sizes of the inputs."""

import os
import random

import numpy
import paddle
import pytest
from paddle.nn import functional as F

import sot

NEW = hasattr(paddle, "compat")
TABLE = paddle.arange(64 * 2, dtype="float32").reshape([64, 2])

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
    "padded": lambda x: F.pad(x, [1, 2, 0, 0], pad_from_left_axis=False) if NEW else F.pad(x, [0, 0, 1, 2]),
    "pooled": lambda x: F.avg_pool1d(x.unsqueeze(0), 2, 2, ceil_mode=True)[0],
    "window": lambda x: F.avg_pool1d(x.unsqueeze(0), 3, 1, padding=1)[0],
    "resized": lambda x: F.interpolate(x.unsqueeze(0), scale_factor=2, mode="linear", data_format="NCW")[0],
    "tiled": lambda x: x.tile([2, 1]),
    "flat": lambda x: x.flatten().unsqueeze(0),
    "two rows": lambda x: x.reshape([1, -1]).tile([2, 1]),
    "repeated": lambda x: x.repeat_interleave(2, axis=0),
    "outer": lambda x: x[:, :1] * x[:1],
    "sum": lambda x: x.sum(1, keepdim=True),
    "rows of a table": lambda x: TABLE[: x.shape[0]],
    "the next rows of a table": lambda x: TABLE[: x.shape[0] + 3][x.shape[0] - 1 :],
    "rows up to a half": lambda x: TABLE[: x.shape[0] // 2 + 1],
    "strided": lambda x: F.avg_pool1d(x.unsqueeze(0), 3, 2, padding=1)[0],
    "strided twice": lambda x: F.avg_pool1d(F.avg_pool1d(x.t().unsqueeze(0), 2, 2, padding=1), 3, 3, padding=1)[0].t(),
    "to a multiple": lambda x: paddle.concat([x, TABLE[: 4 - x.shape[0] % 4, :1].expand([-1, x.shape[1]])]),
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


def parity(step):
    def run(x, z):
        y = step(x, z)
        answer = y.shape[0] % 2 == 0
        return (y * 2 if answer else y * 3).sum() + x.sum() + z.sum(), answer, y.shape[0]

    return run


# What gives one formula for all sizes but the smallest ones, or as long as one size is the smaller one.
PARTS = {
    "from a place": lambda x, z: x[3:],
    "without both ends": lambda x, z: x[1:-2],
    "counted from a place": lambda x, z: paddle.arange(3, x.shape[0]).astype("float32"),
    "up to a size": lambda x, z: x[: z.shape[0]],
    "the last": lambda x, z: x[-5:],
    "up to a place": lambda x, z: x[:4],
}


@pytest.mark.parametrize("step", PARTS)
def test_a_formula_holds_for_the_smallest_sizes_and_in_any_order(step):
    run = parity(PARTS[step])
    fast = sot.symbolic_translate(run)
    with sot.config.patch(min_graph_size=0):
        for size, other in [(5, 6), (6, 7), (7, 8), (8, 5), (9, 6), (4, 7), (3, 9), (2, 4), (6, 5)]:
            x, z = paddle.rand([size, 2]), paddle.rand([other, 3])
            (expected, *expected_answers), (actual, *answers) = run(x, z), fast(x, z)
            assert answers == expected_answers, (size, other)
            numpy.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=1e-5)
    # No formula gives the smaller one of two sizes. Paddle 3.0 gives a range without elements another size.
    breaking = ["up to a size"] if NEW else ["up to a size", "counted from a place"]
    assert sum(sot.stats().breaks.values()) == (step in breaking)


def decoding(x, past):
    """One step of attention with positions from a table, and the check that many models make of the scores."""
    length = x.shape[1] + past.shape[1]
    positions = TABLE[:length].unsqueeze(0)[:, length - x.shape[1] :]
    keys = paddle.concat([past, x * positions], 1)
    scores = paddle.matmul(x, keys.transpose([0, 2, 1]))
    if list(scores.shape) != [x.shape[0], x.shape[1], length]:
        raise ValueError(scores.shape)
    return F.softmax(scores, -1), keys


def test_sizes_from_rows_of_a_table_are_formulas_up_to_the_rows_that_it_has():
    fast = sot.symbolic_translate(decoding)
    for size in (1, 3):
        past = paddle.rand([2, 4, 2])
        for _ in range(30 if size == 1 else 19):
            x = paddle.rand([2, size, 2])
            expected, actual = decoding(x, past), fast(x, past)
            for one, other in zip(expected, actual):
                numpy.testing.assert_allclose(other.numpy(), one.numpy(), rtol=1e-5)
            past = expected[1]
    stats = sot.stats()
    assert (sum(stats.breaks.values()), sum(stats.fallbacks.values())) == (0, 0), stats
    # The lengths up to the end of the table, in a few steps.
    assert stats.graphs == stats.translations <= 10, stats
    with pytest.raises(ValueError):
        decoding(x, paddle.rand([2, 64, 2]))
    with pytest.raises(ValueError):
        fast(x, paddle.rand([2, 64, 2]))


def test_a_size_that_is_the_same_for_all_sizes_is_a_constant():
    def run(x):
        y = paddle.arange(x.shape[0] - 2, x.shape[0]).astype("float32").unsqueeze(1)
        return (y + 1 if y.shape == [2, 1] else y - 1) * x[-1]

    fast = sot.symbolic_translate(run)
    for size in SIZES:
        x = paddle.rand([size, 2])
        numpy.testing.assert_allclose(fast(x).numpy(), run(x).numpy(), rtol=1e-6)
    stats = sot.stats()
    # Formulas hold up to a size of 10,007 at least.
    assert (stats.translations, sum(stats.breaks.values()), sum(stats.fallbacks.values())) == (3, 0, 0)


def windows(x, size=4):
    """The mean of each window of a picture, which is padded to whole windows, as in a Swin transformer."""
    batch, height, width, channels = x.shape
    bottom, right = (size - height % size) % size, (size - width % size) % size
    if bottom or right:
        x = F.pad(x, [0, right, 0, bottom], data_format="NHWC")
    x = x.reshape([batch, (height + bottom) // size, size, (width + right) // size, size, channels])
    return x.transpose([0, 1, 3, 2, 4, 5]).reshape([-1, size * size, channels]).mean(1)


def pyramid(x):
    """Features at three scales, each with positions for its own size, as in detection heads."""
    features = []
    for _ in range(3):
        x = F.avg_pool2d(x, 3, 2, padding=1)
        height, width = x.shape[-2:]
        if height >= 3 and width % 2 == 0:
            x = x + 1
        positions = paddle.arange(height * width, dtype="float32").reshape([height, width])
        features.append((x * positions).sum())
    return paddle.stack(features)


def test_sizes_behind_strides_are_formulas_for_one_remainder():
    fast = sot.symbolic_translate(pyramid)
    for size in (32, 40, 48, 64, 24, 80, 56, 96):
        x = paddle.rand([1, 2, size, size * 2])
        numpy.testing.assert_allclose(fast(x).numpy(), pyramid(x).numpy(), rtol=1e-5)
    stats = sot.stats()
    assert (sum(stats.breaks.values()), sum(stats.fallbacks.values())) == (0, 0), stats
    assert stats.graphs == stats.translations <= 4, stats


# What takes sizes as arguments, in its own way.
TAKING = {
    "bincount": lambda x: paddle.bincount(x.argmax(-1), minlength=x.shape[1]),
    "crop": lambda x: paddle.crop(x, [x.shape[0] - 2, x.shape[1] - 3], [1, 2]),
    "eye": lambda x: paddle.eye(x.shape[0], x.shape[1]) * x,
    "multinomial": lambda x: paddle.multinomial(x * 0 + 1, x.shape[1]).sort(),
    "one_hot": lambda x: F.one_hot(x.argmax(-1), x.shape[1]) * x,
    "pad": lambda x: F.pad(x.unsqueeze(0), [0, x.shape[0]], data_format="NCL"),
    "sequence_mask": lambda x: F.sequence_mask(x.argmax(-1), maxlen=x.shape[1]),
    "topk": lambda x: x.topk(x.shape[1] // 2, axis=-1)[0],
    "windows": windows,
}


@pytest.mark.parametrize("name", TAKING)
def test_sizes_as_arguments_stay_open(name):
    function = TAKING[name]
    fast = sot.symbolic_translate(function)
    for size in range(14):
        x = paddle.rand([1, 5 + size, 6 + size, 2]) if name == "windows" else paddle.rand([4 + size, 6 + 2 * size])
        expected, actual = function(x), fast(x)
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        numpy.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=1e-5)
    stats = sot.stats()
    assert stats.graphs and not stats.graph_errors, stats
    if NEW:
        assert (sum(stats.breaks.values()), sum(stats.fallbacks.values())) == (0, 0), stats
        assert stats.translations <= (8 if name == "windows" else 3), stats
