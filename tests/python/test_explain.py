"""Messages to the user: explain, stats, and the error of `fullgraph=True`."""

import sys

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


@pytest.mark.skipif(sys.version_info < (3, 11), reason="before 3.11 the call of a generator function runs no frame")
def test_fullgraph_is_an_error_for_generators():
    def numbers(x):
        yield x + 1

    with pytest.raises(sot.GraphBreakError, match="generators and coroutines run in CPython"):
        list(sot.symbolic_translate(numbers, fullgraph=True)(paddle.ones([2])))
    assert [y.tolist() for y in sot.symbolic_translate(numbers)(paddle.ones([2]))] == [[2.0, 2.0]]


def test_fullgraph_counts_for_what_is_translated_already():
    sot.symbolic_translate(branch)(paddle.ones([2]))
    with pytest.raises(sot.GraphBreakError):
        sot.symbolic_translate(branch, fullgraph=True)(paddle.ones([2]))
    assert sot.symbolic_translate(branch)(paddle.ones([2])).tolist() == [4.0, 4.0]


def test_fullgraph_is_of_the_translated_callable_and_not_of_its_code():
    whole, plain = sot.symbolic_translate(branch, fullgraph=True), sot.symbolic_translate(branch)
    for _ in range(2):
        assert plain(paddle.ones([2])).tolist() == [4.0, 4.0]
        with pytest.raises(sot.GraphBreakError):
            whole(paddle.ones([2]))


class Branching(paddle.nn.Layer):
    def __init__(self, read):
        super().__init__()
        self.read = read

    def forward(self, x):
        return x * 2 if not self.read or float(x.sum()) > 0 else x


def test_options_count_for_a_callable_that_is_translated_already():
    plain = sot.symbolic_translate(branch)
    assert sot.symbolic_translate(plain) is plain
    whole = sot.symbolic_translate(plain, fullgraph=True)
    with pytest.raises(sot.GraphBreakError):
        whole(paddle.ones([2]))
    assert plain(paddle.ones([2])).tolist() == branch(paddle.ones([2])).tolist()
    layer = sot.symbolic_translate(Branching(True))
    layer(paddle.ones([2]))
    with pytest.raises(sot.GraphBreakError):
        sot.symbolic_translate(layer, fullgraph=True)(paddle.ones([2]))


def test_fullgraph_is_of_one_layer_and_not_of_its_class():
    whole, plain, x = sot.symbolic_translate(Branching(False), fullgraph=True), sot.symbolic_translate(Branching(True)), paddle.ones([2])
    for _ in range(3):
        assert whole(x).tolist() == plain(x).tolist() == [2.0, 2.0]
    assert sot.stats().translations == 3
    whole.read = True
    with pytest.raises(sot.GraphBreakError):
        whole(x)
    assert plain(x).tolist() == [2.0, 2.0]


def test_the_error_says_what_explain_says():
    report = sot.explain(branch)(paddle.ones([2])).breaks[0].report
    with pytest.raises(sot.GraphBreakError) as caught:
        sot.symbolic_translate(branch, fullgraph=True)(paddle.ones([2]))
    assert str(caught.value) == f"branch cannot stay in one graph: {report}"
    sot.symbolic_translate(branch)


def read(x):
    é = "ü"; return x.item() + len(é)  # fmt: skip


def reads(x):
    y = x + 1
    return y * read(
        y.sum()
    )


def carets(lines):
    """Return the source text above each line of carets."""
    shown = []
    for source, marks in zip(lines, lines[1:]):
        if marks.strip() and set(marks.strip()) == {"^"}:
            start = len(marks) - len(marks.lstrip())
            shown.append(source[start : start + len(marks.strip())])
    return shown


def test_the_report_has_kind_stack_carets_and_remedy():
    (broken,) = sot.explain(reads)(paddle.ones([2])).breaks
    assert (broken.kind, broken.reason_id) == ("UNSPS", "tensor-value")
    lines = broken.report.splitlines()
    assert lines[0].startswith("[UNSPS tensor-value] ")
    places = [line.strip() for line in lines if line.startswith("  File")]
    first = reads.__code__.co_firstlineno
    assert places == [
        f'File "{__file__}", line {first + 2}, in reads',
        f'File "{__file__}", line {read.__code__.co_firstlineno + 1}, in read',
    ]
    known = sys.version_info >= (3, 11)
    assert carets(lines) == (["read(", "x.item()"] if known else ["return y * read(", ANY_LINE])
    assert lines[-1] == f"  what to do: {broken.hint}" and "paddle.Tensor" in broken.hint


ANY_LINE = 'é = "ü"; return x.item() + len(é)  # fmt: skip'


def test_a_reason_about_the_frame_is_shown_too():
    def generator(x):
        yield x + 1

    explanation = sot.explain(generator)(paddle.ones([1]))
    list(explanation.result)
    assert all(record.kind == "FRAME" for record in explanation.fallbacks)


def test_stats_count_by_reason():
    sot.symbolic_translate(branch)(paddle.ones([2]))
    sot.symbolic_translate(reads)(paddle.ones([2]))
    assert sot.stats().reasons == {"data-dependent-control-flow": 1, "tensor-value": 1}


def test_fullgraph_specialises_on_each_value_that_must_be_known(same):
    """A number or text that differs from call to call would break the graph elsewhere."""
    heads = paddle.nn.LayerDict({f"task{i}": paddle.nn.Linear(2, i + 1) for i in range(9)})

    def fn(x, task, times, scale):
        for _ in range(times):
            x = x + 1
        return heads[task](x) * (2.0 if scale > 0.5 else scale)

    def calls():
        return [(paddle.ones([2]), f"task{i % 9}", i % 12, i / 24) for i in range(24)]

    whole = sot.symbolic_translate(fn, fullgraph=True)
    with paddle.no_grad():
        same([whole(*args) for args in calls()], [fn(*args) for args in calls()])
    stats = sot.stats()
    assert stats.graphs >= 12 and not stats.breaks and not stats.fallbacks


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
