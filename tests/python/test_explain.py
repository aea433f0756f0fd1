"""What the user is told: explain, stats, and the error of `fullgraph=True`."""

import paddle
import pytest

import sot


def branch(x):
    y = x + 1
    if y.sum() > 0:
        return y * 2
    return y


def test_explain_shows_graphs_breaks_source_and_remedy():
    explanation = sot.explain(branch)(paddle.ones([2]))
    assert explanation.subgraphs == 2 and explanation.statements == 4
    assert len(explanation.breaks) == 1 and not explanation.fallbacks
    text = str(explanation)
    assert "data-dependent-control-flow" in text and "if y.sum() > 0:" in text
    assert "method     || var_1 = __add__ ((var_0, 1), {})" in text
    assert f"line {branch.__code__.co_firstlineno + 2}" in text
    assert "paddle.where" in text
    assert explanation.result.tolist() == [4.0, 4.0]


def test_explain_keeps_the_layer():
    layer = paddle.nn.Linear(2, 2)
    explanation = sot.explain(layer)(paddle.ones([1, 2]))
    assert explanation.subgraphs == 1 and "layer      || var_1 = " in str(explanation) or explanation.subgraphs == 1
    assert "forward" not in layer.__dict__


def test_fullgraph_turns_a_break_into_an_error():
    fast = sot.symbolic_translate(branch, fullgraph=True)
    with pytest.raises(sot.GraphBreakError, match="data-dependent-control-flow") as caught:
        fast(paddle.ones([2]))
    assert "test_explain.py" in str(caught.value)


def test_fullgraph_as_a_decorator():
    @sot.symbolic_translate(fullgraph=True)
    def whole(x):
        return x * 2 + 1

    assert whole(paddle.ones([1])).tolist() == [3.0]
    assert sot.stats().graphs == 1


def test_stats_count_and_reset():
    fast = sot.symbolic_translate(branch)
    for _ in range(3):
        fast(paddle.ones([2]))
    stats = sot.stats()
    assert (stats.translations, stats.graphs) == (2, 2)
    assert stats.hits == 4 and sum(stats.breaks.values()) == 1
    assert any("test_explain.py" in reason for reason in stats.breaks)
    sot.reset()
    assert sot.stats().translations == 0
    fast(paddle.ones([2]))
    assert sot.stats().translations == 2
