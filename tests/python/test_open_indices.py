"""Indices with bounds and positions that are open beside others that are known, compared with eager mode.

Each part of an index is of one kind: a bound that a size of the argument tells, a known bound, a step, a position.
The result's numbers and its shape, which the program reads, are those of eager mode for each size.
"""

import itertools
import random

import paddle
import pytest

import sot

pytestmark = pytest.mark.divided

# The parts of an index for one dimension; `n` is a size that differs, and `t` a tensor of that number.
OPEN = [":n", "n // 2 :", "n - 2 : n", ": -n // 2", "n", "-n", "t", ": n : 2"]
KNOWN = [":", ":3", "1:", "-3:", "1:3", "::2", "0", "-1"]
BETWEEN = ["", "None, ", "..., "]
SIZES = (4, 5, 6, 2)


def reads(index):
    """The function that takes the items at an index, and makes tensors of their shape and with their number."""
    source = f"lambda x, n, t: items(x[{index}])"
    return eval(source, {"items": items})


def items(found):
    shape = found.shape
    rows = shape[0] if shape else 1
    return found * 2, paddle.ones(shape), (found * found).sum() / rows, tuple(shape), found.ndim


def plain(value):
    return (value.dtype, value.shape, value.numpy().tolist()) if isinstance(value, paddle.Tensor) else value


def compared(index, table):
    """Compares the results for all sizes. Returns the breaks."""
    fn = reads(index)

    def step(sized, table):
        n = sized.shape[0]
        return fn(table, n, paddle.shape(sized)[0])

    sot.reset()
    fast = sot.symbolic_translate(step)
    for size in SIZES:
        sized = paddle.ones([size])
        got, expected = fast(sized, table), step(sized, table)
        assert [plain(value) for value in got] == [plain(value) for value in expected], (index, size)
    assert sot.stats().graphs, index
    assert not sot.stats().fallbacks, (index, sot.stats().fallbacks)
    return sot.stats().breaks


@pytest.mark.parametrize("min_size", ["0", "1000"], ids=["program", "replay"])
@pytest.mark.parametrize("first", OPEN)
def test_two_dimensions(monkeypatch, first, min_size):
    monkeypatch.setenv("MIN_GRAPH_SIZE", min_size)
    table = paddle.arange(64, dtype="float32").reshape([8, 8])
    for second in KNOWN + [":n", "n"]:
        for pair in ((first, second), (second, first)):
            assert not compared(", ".join(pair), table), pair


@pytest.mark.parametrize("seed", range(4))
def test_three_dimensions(monkeypatch, seed):
    draw = random.Random(seed)
    monkeypatch.setenv("MIN_GRAPH_SIZE", draw.choice(["0", "1000"]))
    table = paddle.arange(512, dtype="float32").reshape([8, 8, 8])
    combinations = list(itertools.product(OPEN, KNOWN, OPEN + KNOWN, BETWEEN))
    for first, second, third, between in draw.sample(combinations, 24):
        parts = [first, second] if between == "..., " else [first, second, third]
        draw.shuffle(parts)
        compared(parts[0] + ", " + between + ", ".join(parts[1:]), table)


def test_gradients_of_items():
    """A known bound and an open one in the last dimensions, with a gradient."""

    def step(x):
        y = x[: x.shape[0] // 2, :3]
        return (y * y.shape[1]).sum()

    fast = sot.symbolic_translate(step)
    for size in SIZES:
        gradients = []
        for fn in (fast, step):
            x = paddle.ones([size, 4])
            x.stop_gradient = False
            fn(x).backward()
            gradients.append(x.grad.tolist())
        assert gradients[0] == gradients[1]
    assert sot.stats().graphs and not sot.stats().breaks


def test_a_causal_mask_of_a_cache():
    mask = paddle.tril(paddle.ones([8, 8]))

    def step(a):
        queries, keys = a.shape[-2:]
        return paddle.where(mask[keys - queries : keys, :keys] == 0, paddle.full_like(a, -1e9), a)

    fast = sot.symbolic_translate(step)
    for call in range(24):
        a = paddle.randn([2, 1 if call % 4 else 3, 3 + call % 5])
        assert fast(a).tolist() == step(a).tolist()
    assert sot.stats().graphs and not sot.stats().fallbacks and sot.stats().translations <= 10


POSITIONS_OF_WRITES = {
    "last": lambda z, n: (-n,),
    "in the second dimension": lambda z, n: (slice(None), -n),
    "of both": lambda z, n: (-n, -n),
    "behind an ellipsis": lambda z, n: (Ellipsis, -n),
    "before an ellipsis": lambda z, n: (-n, Ellipsis),
    "computed": lambda z, n: (n - 5,),
    "beside a new dimension": lambda z, n: (None, -n),
    "beside a list": lambda z, n: ([0, 1], -n),
    "beside a mask": lambda z, n: (paddle.to_tensor([True, False, True]), -n),
    "beside a slice": lambda z, n: (-n, slice(0, 2)),
}


@pytest.mark.parametrize("min_size", ["0", "1000"], ids=["program", "replay"])
@pytest.mark.parametrize("place", POSITIONS_OF_WRITES)
def test_writes_at_positions_from_the_end(monkeypatch, place, min_size):
    """Eager mode raises for a position that the tensor does not have."""
    monkeypatch.setenv("MIN_GRAPH_SIZE", min_size)

    def step(x, n):
        z = x * 2 + 1
        try:
            z[POSITIONS_OF_WRITES[place](z, n)] = 3
        except IndexError:
            return paddle.zeros([1])
        return z * 2

    x, fast = paddle.arange(12, dtype="float32").reshape([3, 4]), sot.symbolic_translate(step)
    for n in (1, 2, 3, 7, 4, 1):
        assert fast(x, n).tolist() == step(x, n).tolist(), n
    for rows in (3, 4, 5, 2):
        x = paddle.ones([rows, 4])
        if place != "beside a mask" and place != "beside a list":
            assert fast(x, 3).tolist() == step(x, 3).tolist(), rows
    assert sot.stats().graphs


@pytest.mark.parametrize("index", [(Ellipsis, True, slice(-2, 3)), (Ellipsis, False), (True, Ellipsis, 0), (True, 1)])
def test_truth_values_in_an_index(monkeypatch, index):
    monkeypatch.setenv("MIN_GRAPH_SIZE", "0")

    def step(x):
        z = x * 1
        if z.ndim and index[-1] is not False:
            z[index] = 0
        return (x * 1)[index] + 0, z

    x = paddle.arange(1.0, 33.0).reshape([4, 2, 4])
    for got, expected in zip(sot.symbolic_translate(step)(x), step(x)):
        assert plain(got) == plain(expected)
    assert sot.stats().graphs


def test_a_list_of_positions_in_a_tensor_without_items(monkeypatch):
    monkeypatch.setenv("MIN_GRAPH_SIZE", "0")

    def step(x):
        y = x[3:2, 0:3] * 1
        return y[..., [2, 0], :]

    x = paddle.rand([2, 5, 3])
    assert sot.symbolic_translate(step)(x).shape == step(x).shape
    assert sot.stats().graphs
