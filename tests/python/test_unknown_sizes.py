"""Sizes that only a run tells, as those of `x[mask]`: that Paddle's Python code reads -1 for them must not matter."""

import numpy as np
import paddle
import pytest
from paddle.nn import functional as F

import sot


pytestmark = pytest.mark.divided


def moments(x):
    return paddle.linalg.cov(x, rowvar=False), paddle.linalg.corrcoef(x.t()).detach()


USES = {
    "kl_div": lambda x: F.kl_div(F.log_softmax(x, -1), F.softmax(x * 2, -1), reduction="batchmean"),
    "moments": moments,
    "trapezoid": lambda x: (paddle.trapezoid(x, axis=0), paddle.cumulative_trapezoid(x, axis=0)),
    "where": lambda x: paddle.where(x > 0, x, x[:1]),
    "unbind": lambda x: sum(paddle.unbind(x, 0)),
    "unstack": lambda x: paddle.concat(paddle.unstack(x)),
    "take_along_axis": lambda x: paddle.take_along_axis(x, paddle.zeros([1, 3], "int64"), 0),
    "smoothed": lambda x: F.cross_entropy(x, F.softmax(x, -1), soft_label=True),
    "tensordot": lambda x: paddle.tensordot(x, x, 2),
    "npair_loss": lambda x: F.npair_loss(x, x * 2, paddle.arange(x.shape[0])),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.0),
    "normalized": lambda x: F.layer_norm(F.normalize(x), [3]),
    "reshaped": lambda x: x.reshape([-1, 3, 1]).expand([-1, 3, 2]).flatten(1),
    "joined": lambda x: paddle.concat([x, x * 2]).sort(0),
    "split": lambda x: paddle.split(x, 3, axis=1)[1],
    "one_hot": lambda x: F.one_hot(x.argmax(-1), 3) @ x.t(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("least", ["0", "10000"], ids=["program", "calls"])
def test_they_do_not_become_minus_one(use, least, monkeypatch):
    monkeypatch.setenv("MIN_GRAPH_SIZE", least)

    def selected(x):
        return use(x[x[:, 0] > 0] * 1.5)

    def reshaped(x, n):
        return use(x.reshape([n, -1])[:, :3] + x.reshape([-1, 3]).mean())

    for fn in (selected, reshaped):
        translated = sot.symbolic_translate(fn)
        for step in range(6):
            paddle.seed(step)
            rows = 4 + 2 * (step % 4)
            data = paddle.randn([rows, 3])
            data[: 2 + step % 3, 0] = 1.0
            outcomes = []
            for run in (fn, translated):
                x = data.clone().detach()
                x.stop_gradient = False
                results = run(x, rows) if fn is reshaped else run(x)
                results = results if isinstance(results, (list, tuple)) else [results]
                sum(result.astype("float32").sum() for result in results).backward()
                outcomes.append([result.numpy() for result in [*results, x.grad]])
            for expected, result in zip(*outcomes):
                np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    assert sot.stats().graphs and not sot.stats().graph_errors


@pytest.mark.parametrize("function", [paddle.column_stack, paddle.hstack, paddle.vstack], ids=lambda fn: fn.__name__)
def test_functions_that_iterate_over_a_tensor_end(function):
    """A value of a program has no length, so a function of Paddle that iterates over an open size would never end."""
    fast = sot.symbolic_translate(lambda x: function(x) * 2)
    for rows in (3, 6, 9, 12):
        x = paddle.arange(rows * 4, dtype="float32").reshape([rows, 4])
        assert fast(x).tolist() == (function(x) * 2).tolist()
    assert sot.stats().graphs and not sot.stats().fallbacks


def test_views_of_changing_sizes():
    """The operation behind `view_as` only makes views, in eager mode: a program would lose the new shape."""

    def function(x, other):
        seen = x.view_as(other)
        return seen, seen * 2

    fast = sot.symbolic_translate(function)
    for rows in (1, 2, 3):
        x, other = paddle.arange(12 * rows, dtype="float32").reshape([3 * rows, 4]), paddle.ones([4 * rows, 3])
        for _ in range(2):
            assert [t.tolist() for t in fast(x, other)] == [t.tolist() for t in function(x, other)]
    assert sot.stats().graphs and not sot.stats().breaks and not sot.stats().fallbacks


VIEWS = {
    "as_strided": lambda x: paddle._C_ops.as_strided(x, [2, 2], [4, 1], 0),
    "view_dtype": lambda x: paddle._C_ops.view_dtype(x, paddle.int32),
    "view_shape": lambda x: paddle._C_ops.view_shape(x, [4, 3]),
    "tensor_unfold": lambda x: paddle._C_ops.tensor_unfold(x, 1, 2, 1),
}


@pytest.mark.parametrize("name", VIEWS)
def test_operations_that_only_make_views(name):
    def function(x):
        return VIEWS[name](x) + 1

    x = paddle.arange(12, dtype="float32").reshape([3, 4])
    fast = sot.symbolic_translate(function)
    for _ in range(2):
        assert fast(x).tolist() == function(x).tolist()
    assert sum(sot.stats().breaks.values()) == (name != "view_shape")


def test_many_items_of_a_dimension_of_known_size():
    fast = sot.symbolic_translate(lambda x: paddle.column_stack(x) * 2)
    for columns in (2, 3, 4, 5):
        x = paddle.arange(100 * columns, dtype="float32").reshape([100, columns])
        assert fast(x).tolist() == (paddle.column_stack(x) * 2).tolist()
    assert sot.stats().translations == 2 and not sot.stats().breaks and not sot.stats().fallbacks
