"""Tensors without elements: kernels of Paddle crash on some, or give other results than eager mode does."""

import paddle
import pytest

import sot


@pytest.fixture(autouse=True)
def as_program(monkeypatch):
    monkeypatch.setenv("MIN_GRAPH_SIZE", "0")


CALLS = {
    "unique": lambda x: paddle.unique(x),
    "unique_rows": lambda x: paddle.unique(x, axis=0),
    "unique_columns": lambda x: paddle.unique(x, axis=-1),
    "unique_counts": lambda x: paddle.unique(x, return_counts=True),
    "unique_consecutive": lambda x: paddle.unique_consecutive(x, axis=0),
    "topk": lambda x: x.topk(1),
    "topk_rows": lambda x: x.topk(1, 0, largest=False),
    "trapezoid": lambda x: paddle.trapezoid(x),
    "scatter_nd": lambda x: paddle.scatter_nd(paddle.zeros([0, 1], "int64"), x, [3, 2]),
    "npair_loss": lambda x: paddle.nn.functional.npair_loss(x, x, x[:, 0]),
    "histogram": lambda x: paddle.histogram(x, 3),
    "cumulative_trapezoid": lambda x: paddle.cumulative_trapezoid(x),
    "linear": lambda x: paddle.nn.functional.linear(x.reshape([0, 2]), paddle.ones([2, 3])),
    "concat": lambda x: paddle.concat([x.reshape([-1]), paddle.ones([2])]),
    "sum": lambda x: x.sum(),
    "index": lambda x: paddle.ones([3, 2])[x.reshape([-1]).astype("int64")],
    "late_index": lambda x: paddle.ones([3, 2])[:, x.reshape([-1]).astype("int64")],
    "index_behind_all": lambda x: paddle.ones([3, 2])[..., x.reshape([-1]).astype("int64")],
}
SHAPES = [[0, 2], [2, 0], [0], [0, 0]]


def outcome(run, x):
    try:
        results = run(x)
    except Exception as error:
        return type(error)
    results = results if isinstance(results, (tuple, list)) else [results]
    return [(result.shape, result.dtype, str(result.tolist())) for result in results]


@pytest.mark.skipif(paddle.__version__.startswith("3.0"), reason="eager mode of Paddle 3.0 crashes on some")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_they_are_what_they_are_in_eager_mode(call, shape):
    def f(x):
        return call(x * 2 + 1)

    x = paddle.ones(shape)
    expected = outcome(f, x)
    fast = sot.symbolic_translate(f)
    assert [outcome(fast, x) for _ in range(2)] == [expected] * 2
    assert sot.stats().translations and not sot.stats().graph_errors
    assert not any(reason.startswith("internal-error") for reason in sot.stats().fallbacks)


def test_a_cache_that_begins_empty_is_in_the_graph():
    def f(cache, x):
        return paddle.concat([cache, x * 2], axis=1).sum(axis=1)

    fast, x = sot.symbolic_translate(f), paddle.ones([2, 3])
    for _ in range(2):
        assert fast(paddle.zeros([2, 0]), x).tolist() == [6.0, 6.0]
    assert (sot.stats().graphs, sot.stats().breaks, sot.stats().hits) == (1, {}, 1)
