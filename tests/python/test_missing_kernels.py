"""Operations that eager mode does by other kernels than a program has: they are left to eager mode, since a program
would raise at each call."""

import paddle
import pytest

import sot

VIEWS = {
    "unsqueeze": lambda x: x.unsqueeze(0),
    "none": lambda x: x[:, None],
    "flatten": lambda x: x.flatten(),
    "diagonal": lambda x: x.diagonal(),
    "unbind": lambda x: x.unbind(0)[1],
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "uint8", "int16", "complex64", "float64", "bool"])
@pytest.mark.parametrize("name", VIEWS)
def test_views_of_rare_element_types(name, dtype, monkeypatch):
    monkeypatch.setattr(sot.config, "min_graph_size", 0)

    def fn(x):
        return VIEWS[name]((x * 2).astype(dtype)).astype("float32") + 1

    x, fast = paddle.ones([3, 3]), sot.symbolic_translate(fn)
    for _ in range(3):
        assert fast(x).tolist() == fn(x).tolist()
    stats = sot.stats()
    assert stats.graphs and stats.hits and not stats.graph_errors and not stats.fallbacks, stats


def test_items_under_a_condition(monkeypatch):
    monkeypatch.setattr(sot.config, "min_graph_size", 0)

    def fn(x):
        y = x * 1
        y[x.sum() > 0] = 0.0
        return y * 2

    fast = sot.symbolic_translate(fn)
    for sign in (1, -1, 1, -1):
        x = paddle.ones([3, 3]) * sign
        assert fast(x).tolist() == fn(x).tolist()
    stats = sot.stats()
    assert stats.graphs and stats.hits and not stats.graph_errors and not stats.fallbacks, stats


def test_gradients_of_truth_values():
    """Paddle cannot compile the backward pass, so that the statements are called one by one."""

    def fn(x):
        mask = (x * 2).astype("bool").astype("float32")
        return (x * mask).sum() / mask.sum()

    fast = sot.symbolic_translate(fn)
    x = paddle.to_tensor([[1.0, 0.0], [2.0, 3.0]], stop_gradient=False)
    with sot.config.patch(min_graph_size=0):
        for _ in range(3):
            assert fast(x).item() == fn(x).item()
    stats = sot.stats()
    assert stats.graphs == 1 and stats.hits == 2 and not stats.fallbacks, stats
